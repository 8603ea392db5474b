//! What a profile must satisfy before any target is opened.

use crate::profile::*;
use crate::program::Program;
use crate::units::{Position, Span, format_bytes};
use crate::{Mistake, Profile, sector_advice};

/// Depth of a lane at the most: an io_uring has at most 32,768 entries, and buffers of that many requests are rarely meant.
pub const MAX_DEPTH: u32 = 4096;
/// More than a lane can have in flight are due together only in a queue.
const MAX_BURST: u32 = 1_000_000;
pub const MAX_WORKERS: u32 = 1024;
/// A hundred times a stream's own rate: beyond that it is another load.
const MAX_LOAD_PERCENT: f64 = 10_000.0;
pub const MAX_REQUEST_BYTES: u64 = 1 << 30;
/// As many as fio takes.
const MAX_ZONES: usize = 256;
/// Requests are multiples of a sector.
pub(crate) const SECTOR_BYTES: u64 = 512;

type Check = Result<(), Mistake>;

/// `phase measure`, or `phase 1` where it has no name.
fn numbered(what: &str, name: &str, index: usize) -> String {
    if name.is_empty() { format!("{what} {}", index + 1) } else { format!("{what} {name}") }
}

fn refuse<T>(message: String) -> Result<T, Mistake> {
    Err(Mistake::from(message))
}

impl Profile {
    /// Checks everything that can be known without a target.
    pub fn validate(&self) -> Check {
        if self.phase.is_empty() {
            return refuse("phase: a profile needs at least one [[phase]]".into());
        }
        if self.interval.ns < 1_000_000 {
            return refuse(format!("interval: {} ns is too short, at least 1ms", self.interval.ns));
        }
        if self.reap == 0 || self.reap > MAX_DEPTH {
            return refuse(format!("reap: {} is not between 1 and {MAX_DEPTH}", self.reap));
        }
        if let Some(submit) = self.submit.filter(|s| *s == 0 || *s > MAX_DEPTH) {
            return refuse(format!("submit: {submit} is not between 1 and {MAX_DEPTH}"));
        }
        if self.hang_after.ns == 0 {
            return refuse("hang_after: must be longer than 0".into());
        }
        for (i, phase) in self.phase.iter().enumerate() {
            phase.validate(&numbered("phase", &phase.name, i), self.interval.ns)?;
        }
        self.validate_programs()
    }

    /// Whether its target is a directory, and its streams are programs over the files in it.
    pub fn has_programs(&self) -> bool {
        self.phase.iter().flat_map(|p| &p.stream).any(|s| s.program.is_some_and(|p| !p.is_server()))
    }

    /// Programs find what they work on: files that an earlier phase of theirs made, for as many workers.
    fn validate_programs(&self) -> Check {
        self.validate_server()?;
        let mut made: Vec<(&str, usize, &str, u32)> = Vec::new();
        for (i, phase) in self.phase.iter().enumerate() {
            let before = made.len();
            for (j, stream) in phase.stream.iter().enumerate() {
                let at = format!("{}, {}", numbered("phase", &phase.name, i), numbered("stream", &stream.name, j));
                let Some(program) = stream.program.as_ref().filter(|p| !p.is_server()) else {
                    if self.has_programs() {
                        return refuse(format!(
                            "{at}: a pattern or a server beside programs over files; a target is a directory or it is not"
                        ));
                    }
                    continue;
                };
                let Some(maker) = program.needs() else {
                    made.push((&stream.name, stream.target, program.name(), stream.workers));
                    continue;
                };
                let same = |m: &&(&str, usize, &str, u32)| (m.0, m.1, m.2) == (&*stream.name, stream.target, maker);
                match made[..before].iter().rfind(same) {
                    None => {
                        return refuse(format!(
                            "{at}: {} has nothing to work on; put a phase with {maker} and a stream of the same name before it",
                            program.name()
                        ));
                    }
                    Some((.., workers)) if program.keeps_workers() && *workers != stream.workers => {
                        return refuse(format!(
                            "{at}: {} workers go on with the files of {workers}; use the same number",
                            stream.workers
                        ));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// How many targets the profile speaks of.
    pub fn target_count(&self) -> usize {
        self.phase.iter().flat_map(|p| &p.stream).map(|s| s.target + 1).max().unwrap_or(1)
    }

    pub fn writes(&self) -> bool {
        self.phase.iter().flat_map(|p| &p.stream).any(Stream::changes)
    }

    /// Whether each of its streams issues one request after another, and nothing is asked that only io_uring has.
    pub fn issues_one_at_a_time(&self) -> bool {
        let is_ramped = |phase: &Phase| phase.ramp.as_ref().is_some_and(|ramp| ramp.knob == Knob::Depth);
        let is_single = |stream: &Stream| {
            stream.depth == 1 && stream.frames.is_none() && stream.program.is_none() && stream.trace.is_none()
        };
        let mut streams = self.phase.iter().flat_map(|phase| &phase.stream);
        self.reap == 1 && self.submit.is_none() && !self.phase.iter().any(is_ramped) && streams.all(is_single)
    }

    /// As [`Profile::issues_one_at_a_time`], with writes among them.
    pub fn writes_one_at_a_time(&self) -> bool {
        self.issues_one_at_a_time()
            && self.phase.iter().flat_map(|phase| &phase.stream).any(|stream| stream.does().writes)
    }

    /// Whether a stream issues the requests of a trace.
    pub fn replays(&self) -> bool {
        self.phase.iter().flat_map(|p| &p.stream).any(|stream| stream.trace.is_some())
    }
}

impl Phase {
    fn validate(&self, at: &str, interval_ns: u64) -> Check {
        if self.stream.is_empty() {
            return refuse(format!("{at}: needs at least one [[phase.stream]]"));
        }
        let limited = self.duration.is_some() || self.requests.is_some() || self.bytes.is_some();
        let ends_itself = self.stream.iter().all(|s| s.trace.is_some() || s.program.is_some_and(|p| p.ends()));
        let ramp_ends = self.ramp.as_ref().is_some_and(|r| r.limit.is_some());
        if !limited && self.passes.is_none() && !ends_itself && !ramp_ends {
            return refuse(format!("{at}: nothing ends it; set duration, requests, bytes or passes"));
        }
        let zero = [
            ("duration", self.duration.map(|d| d.ns)),
            ("requests", self.requests),
            ("bytes", self.bytes.map(|b| b.0)),
            ("passes", self.passes.map(|p| if p.0 > 0.0 { 1 } else { 0 })),
        ];
        for (key, value) in zero {
            if value == Some(0) {
                return refuse(format!("{at}: {key} is 0; leave it out or make it larger"));
            }
        }
        if self.stream.iter().any(|s| s.trace.is_some()) {
            let set = [("passes", self.passes.is_some()), ("ramp", self.ramp.is_some())];
            if let Some((key, _)) = set.iter().find(|(_, is_set)| *is_set) {
                return refuse(format!("{at}: {key} does not go with a trace; take it away"));
            }
        }
        if self.stream.iter().any(|s| s.program.is_some()) {
            if self.passes.is_some() {
                return refuse(format!("{at}: passes go with patterns; a program ends by itself"));
            }
            let users = |s: &Stream| s.program.is_some_and(|p| p.is_server());
            let more_users = |r: &Ramp| r.knob == Knob::Workers && self.stream.iter().all(users);
            if self.ramp.as_ref().is_some_and(|r| !r.knob.is_pace() && !more_users(r)) {
                return refuse(format!(
                    "{at}: of a program only the rate can be ramped; use runs with --set workers=N"
                ));
            }
        }
        if let Some(ramp) = &self.ramp {
            ramp.validate(at)?;
            if ramp.knob.is_pace() && self.stream.iter().any(|s| s.pace == Pace::Closed) {
                return refuse(format!("{at}: ramp of the rate needs pace = {{ loop = \"open\", … }} in every stream"));
            }
        }
        // Each worker of a stream of frames has a pace of its own, so more of them do more.
        let open = self.stream.iter().any(|s| s.pace != Pace::Closed);
        if open && self.ramp.as_ref().is_some_and(|r| r.knob == Knob::Workers) {
            return refuse(format!("{at}: ramp of workers changes nothing where a rate is set; ramp the rate instead"));
        }
        if let Some(ramp) = &self.ramp
            && !ramp.every.ns.is_multiple_of(interval_ns)
        {
            return refuse(format!(
                "{at}: ramp.every ({} ns) is not a multiple of interval ({interval_ns} ns), where steps are taken; \
                     set interval to it or to a part of it",
                ramp.every.ns
            ));
        }
        if let Some(settle) = self.ramp.as_ref().and_then(|r| r.settle)
            && (!settle.ns.is_multiple_of(interval_ns) || settle.ns >= self.ramp.as_ref().map_or(0, |r| r.every.ns))
        {
            return refuse(format!(
                "{at}: ramp.settle ({} ns) must be a multiple of interval ({interval_ns} ns) and shorter than ramp.every",
                settle.ns
            ));
        }
        let counts_frames = |r: &Ramp| r.limit.as_ref().is_some_and(|l| l.when == crate::LimitFigure::Dropped);
        if self.ramp.as_ref().is_some_and(counts_frames) && self.stream.iter().all(|s| s.frames.is_none()) {
            return refuse(format!("{at}: ramp.limit of dropped frames needs a stream with frames"));
        }
        if let Some(lockstep) = &self.lockstep {
            lockstep.validate(at)?;
            let knob = self.ramp.as_ref().map(|r| r.knob);
            if knob == Some(Knob::Workers) || self.stream.iter().any(Stream::is_open) {
                return refuse(format!(
                    "{at}: lockstep needs closed loops and no ramp of workers; take it or those away"
                ));
            }
        }
        if let Some(steady) = &self.steady {
            if steady.rounds < 3 || steady.rounds > 1000 {
                return refuse(format!("{at}: steady.rounds is {}, must be 3 to 1000", steady.rounds));
            }
            if steady.round.ns == 0 {
                return refuse(format!("{at}: steady.round must be longer than 0"));
            }
        }
        for (i, stream) in self.stream.iter().enumerate() {
            stream.validate(&format!("{at}, {}", numbered("stream", &stream.name, i)))?;
        }
        let lanes: u64 = self.stream.iter().map(|s| u64::from(s.workers)).sum();
        if lanes > u64::from(MAX_WORKERS) {
            return refuse(format!("{at}: {lanes} workers in all, at most {MAX_WORKERS}"));
        }
        self.refuse_overlaps(at)
    }

    /// Two verified streams on one target must not write over each other's region: neither could know what to expect.
    fn refuse_overlaps(&self, at: &str) -> Check {
        for (i, a) in self.stream.iter().enumerate() {
            for b in &self.stream[i + 1..] {
                let changes = Stream::changes;
                let one_writes = changes(a) || changes(b);
                let differ = a.verify != b.verify;
                if a.program.is_none() && a.target == b.target && one_writes && differ && overlap(&a.region, &b.region)
                {
                    return refuse(format!(
                        "{at}: regions {} and {} overlap, one with verify and one without; keep them apart",
                        a.region, b.region
                    ));
                }
            }
        }
        Ok(())
    }
}

fn overlap(a: &Span, b: &Span) -> bool {
    let before = |x: Position, y: Position| match (x, y) {
        (Position::Bytes(x), Position::Bytes(y)) => x <= y,
        (Position::Percent(x), Position::Percent(y)) => x <= y,
        (Position::Bytes(0), _) => true,
        (_, Position::Percent(y)) => y >= 100.0,
        _ => false,
    };
    !(before(a.to, b.from) || before(b.to, a.from))
}

impl Ramp {
    fn validate(&self, at: &str) -> Check {
        if !(self.from > 0.0 && self.to > 0.0 && self.from.is_finite() && self.to.is_finite()) {
            return refuse(format!("{at}: ramp.from and ramp.to must be larger than 0"));
        }
        match (self.step, self.factor) {
            (Some(step), None) if step > 0.0 && step.is_finite() => {}
            (None, Some(factor)) if factor > 1.0 && factor.is_finite() => {}
            _ => return refuse(format!("{at}: ramp needs either step (above 0) or factor (above 1)")),
        }
        if self.every.ns == 0 {
            return refuse(format!("{at}: ramp.every must be longer than 0"));
        }
        match (&self.limit, self.search) {
            (Some(limit), search) => {
                limit.validate(at)?;
                // Half a step of a knob of 200 is finer than two runs agree; from 50 on nothing is searched.
                if search.is_some_and(|s| !(0.1..=50.0).contains(&s.0)) {
                    return refuse(format!("{at}: ramp.search is a tolerance of 0.1 to 50 per cent"));
                }
                if limit.is_rate() && self.knob.is_pace() {
                    return refuse(format!("{at}: ramp.limit of a rate needs another knob than the rate itself"));
                }
                if self.to < self.from {
                    return refuse(format!("{at}: ramp.limit needs a ramp that rises; exchange from and to"));
                }
            }
            (None, Some(_)) => return refuse(format!("{at}: ramp.search needs ramp.limit, which it searches")),
            (None, None) => {}
        }
        let limit = match self.knob {
            Knob::Depth => f64::from(MAX_DEPTH),
            Knob::Workers => f64::from(MAX_WORKERS),
            Knob::Rate => 1e9,
            Knob::Load => MAX_LOAD_PERCENT,
        };
        if self.from.max(self.to) > limit {
            return refuse(format!("{at}: ramp reaches {}, at most {limit}", self.from.max(self.to)));
        }
        Ok(())
    }

    /// The knob's value after `steps` steps, held at `to`.
    pub fn value(&self, steps: u32) -> f64 {
        let up = self.to >= self.from;
        let value = match (self.step, self.factor) {
            (Some(step), _) if up => self.from + step * f64::from(steps),
            (Some(step), _) => self.from - step * f64::from(steps),
            (None, factor) => {
                let factor = factor.unwrap_or(2.0);
                // Repeated multiplication, not powi: the same bits on every machine.
                (0..steps.min(4096)).fold(self.from, |v, _| if up { v * factor } else { v / factor })
            }
        };
        if up { value.min(self.to) } else { value.max(self.to) }
    }

    pub fn max(&self) -> f64 {
        self.from.max(self.to)
    }

    /// Time that the ramp takes at the most: all its steps, and as many halvings as tell two values of a knob apart.
    pub fn longest_ns(&self) -> u64 {
        // 4096 steps are as many as `value` tells apart.
        let steps = (0..4096).take_while(|k| self.value(*k) != self.value(*k + 1)).count() as u64 + 1;
        let halvings = if self.search.is_some() { 40 } else { 0 };
        (steps + halvings).saturating_mul(self.every.ns)
    }
}

impl Lockstep {
    fn validate(&self, at: &str) -> Check {
        match (self.requests, self.bytes.map(|b| b.0)) {
            (Some(1..), None) | (None, Some(1..)) => Ok(()),
            _ => refuse(format!("{at}: lockstep needs either requests or bytes, at least 1")),
        }
    }
}

impl Stream {
    /// Offsets are multiples of this.
    pub fn align_bytes(&self) -> u64 {
        let unset = || if self.frames.is_some() { crate::FRAME_ALIGN_BYTES } else { self.request.min_bytes() };
        self.align.map_or_else(unset, |a| a.0)
    }

    /// Bytes that a frame takes on the target.
    pub fn frame_bytes(&self) -> Option<u64> {
        self.frames.as_ref().map(|f| f.frame_bytes().next_multiple_of(self.align_bytes()))
    }

    fn validate_frames(&self, at: &str) -> Check {
        let Some(frames) = &self.frames else { return Ok(()) };
        frames.validate(at)?;
        let one = self.operations.read.0 == 100.0 || self.operations.write.0 == 100.0;
        let plain = self.chain.is_empty() && self.pace == Pace::Closed && self.think.ns == 0 && !self.verify;
        if !one || !plain || self.address != Address::default() || self.flush_every.is_some() {
            return refuse(format!(
                "{at}: frames are read or written in order at their own pace; take operations other than one of these, \
                 address, pace, think, chain, flush_every and verify away"
            ));
        }
        if self.request.0.len() > 1 || !self.request.max_bytes().is_multiple_of(self.align_bytes()) {
            return refuse(format!("{at}: frames need one request size, a multiple of align {}", self.align_bytes()));
        }
        Ok(())
    }

    fn validate(&self, at: &str) -> Check {
        if let Some(program) = &self.program {
            self.refuse_pattern_keys(program, at)?;
            program.validate(self, at)?;
            return self.validate_lanes(at);
        }
        if let Some(trace) = &self.trace {
            self.refuse_keys_beside_trace(at)?;
            trace.validate(at)?;
            return self.validate_lanes(at);
        }
        let ops = &self.operations;
        let sum = ops.read.0 + ops.write.0 + ops.flush.0 + ops.trim.0;
        if (sum - 100.0).abs() > 1e-6 {
            return refuse(format!("{at}: operations sum to {sum} %, must be 100"));
        }
        if self.request.0.is_empty() {
            return refuse(format!("{at}: request names no size; write for example request = \"8KiB\""));
        }
        self.validate_shares(at)?;
        for item in &self.request.0 {
            let size = item.size.0;
            if size == 0 || !size.is_multiple_of(SECTOR_BYTES) {
                let advice = sector_advice(size);
                return refuse(format!(
                    "{at}: request size {size} is not a multiple of {SECTOR_BYTES} bytes; {advice}"
                ));
            }
            if size > MAX_REQUEST_BYTES {
                return refuse(format!(
                    "{at}: request size {} is above {}",
                    format_bytes(size),
                    format_bytes(MAX_REQUEST_BYTES)
                ));
            }
        }
        let align = self.align_bytes();
        if align == 0 || !align.is_multiple_of(SECTOR_BYTES) {
            return refuse(format!("{at}: align {align} is not a multiple of {SECTOR_BYTES} bytes"));
        }
        self.validate_lanes(at)?;
        if self.flush_every.is_some_and(|f| f.writes == 0) {
            return refuse(format!("{at}: flush_every.writes is 0; leave flush_every out or make it larger"));
        }
        if self.verify && (self.data.compressible.0 > 0.0 || self.data.duplicate.0 > 0.0) {
            return refuse(format!(
                "{at}: verify stamps every block, so data.compressible and data.duplicate must be 0"
            ));
        }
        if self.verify && ops.trim.0 > 0.0 {
            return refuse(format!("{at}: verify cannot know what a trimmed block reads as; take trim or verify away"));
        }
        self.validate_chain(at)?;
        self.validate_frames(at)?;
        self.validate_address(at)
    }

    /// The shares of all requests, or of each operation, are whole.
    fn validate_shares(&self, at: &str) -> Check {
        let sum = |of: Option<Moves>| -> f64 {
            self.request.0.iter().filter(|s| of.is_none() || s.of == of).map(|s| s.share.0).sum()
        };
        let unlike = |shares: f64| (shares - 100.0).abs() > 1e-6;
        if !self.request.by_operation() {
            let shares = sum(None);
            return if unlike(shares) {
                refuse(format!("{at}: request shares sum to {shares} %, must be 100"))
            } else {
                Ok(())
            };
        }
        if self.request.0.iter().any(|s| s.of.is_none()) {
            return refuse(format!("{at}: request: some sizes have `of` and some do not; give it to all or none"));
        }
        if !self.chain.is_empty() || self.frames.is_some() {
            return refuse(format!("{at}: request: `of` goes with operations, not with chain or frames"));
        }
        let ops = &self.operations;
        let named =
            [("read", Moves::Read, ops.read), ("write", Moves::Write, ops.write), ("trim", Moves::Trim, ops.trim)];
        for (name, moves, share) in named {
            let shares = sum(Some(moves));
            if shares > 0.0 && share.0 == 0.0 {
                return refuse(format!("{at}: request has sizes of a {name}, and operations has none"));
            }
            if share.0 > 0.0 && unlike(shares) {
                return refuse(format!("{at}: request shares of {name} sum to {shares} %, must be 100"));
            }
        }
        Ok(())
    }

    /// A program decides itself what it does where.
    fn refuse_pattern_keys(&self, program: &Program, at: &str) -> Check {
        let kind = program.name();
        let server = program.is_server();
        let set = [
            ("operations", self.operations != Operations::default()),
            ("chain", !self.chain.is_empty()),
            ("align", self.align.is_some() && !program.on_log()),
            ("request", !self.request.0.is_empty() && server),
            ("address", self.address != Address::default()),
            ("region", self.region != Span::WHOLE),
            ("flush_every", self.flush_every.is_some()),
            ("verify", self.verify && !server),
        ];
        if let Some((key, _)) = set.iter().find(|(_, is_set)| *is_set) {
            return refuse(format!("{at}: {key} does not go with the program {kind}; take it away"));
        }
        if self.depth != 1
            && !matches!(program, Program::Checkpoint(_) | Program::LazyWriter(_) | Program::BulkUpdate(_))
        {
            return refuse(format!("{at}: {kind} does one thing after another, so depth is 1; use more workers"));
        }
        Ok(())
    }

    /// A trace says itself what is done where and when.
    fn refuse_keys_beside_trace(&self, at: &str) -> Check {
        let set = [
            ("operations", self.operations != Operations::default()),
            ("chain", !self.chain.is_empty()),
            ("align", self.align.is_some()),
            ("request", !self.request.0.is_empty()),
            ("address", self.address != Address::default()),
            ("region", self.region != Span::WHOLE),
            ("flush_every", self.flush_every.is_some()),
            ("pace", self.pace != Pace::Closed),
            ("think", self.think.ns > 0),
            ("frames", self.frames.is_some()),
            ("verify", self.verify),
            ("workers", self.workers != 1),
        ];
        match set.iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => refuse(format!("{at}: {key} does not go with a trace; take it away")),
            None => Ok(()),
        }
    }

    fn validate_lanes(&self, at: &str) -> Check {
        if self.workers == 0 || self.workers > MAX_WORKERS {
            return refuse(format!("{at}: workers is {}, must be 1 to {MAX_WORKERS}", self.workers));
        }
        if self.depth == 0 || self.depth > MAX_DEPTH {
            return refuse(format!("{at}: depth is {}, must be 1 to {MAX_DEPTH}", self.depth));
        }
        if let Pace::Open { rate, burst, .. } = self.pace {
            if let Some(burst) = burst.filter(|burst| !(1..=MAX_BURST).contains(burst)) {
                return refuse(format!("{at}: burst is {burst}, must be 1 to {MAX_BURST}"));
            }
            if !(rate > 0.0 && rate <= 1e9) {
                return refuse(format!("{at}: rate {rate} is not between 0 and 1,000,000,000 requests a second"));
            }
            if self.think.ns > 0 {
                return refuse(format!("{at}: think belongs to a closed loop; take it or the rate away"));
            }
        }
        Ok(())
    }

    fn validate_chain(&self, at: &str) -> Check {
        if self.chain.is_empty() {
            return Ok(());
        }
        if self.operations != Operations::default() {
            return refuse(format!("{at}: chain and operations exclude each other; take one of them away"));
        }
        if self.flush_every.is_some() {
            return refuse(format!("{at}: flush_every does not go with chain; write \"flush\" among its steps"));
        }
        if self.chain.iter().all(|step| matches!(step, Step::Think(_))) {
            return refuse(format!("{at}: chain needs at least one read, write or flush"));
        }
        Ok(())
    }

    fn validate_address(&self, at: &str) -> Check {
        let one_size =
            self.request.min_bytes() == self.request.max_bytes() && self.align_bytes() == self.request.min_bytes();
        let misaligned = self.request.0.iter().find(|s| s.size.0 % self.align_bytes() != 0);
        match &self.address {
            Address::Permutation if !one_size => {
                refuse(format!("{at}: a permutation needs one request size and no other align"))
            }
            Address::Strided { stride } if stride.0 == 0 || stride.0 % self.align_bytes() != 0 => {
                refuse(format!("{at}: stride {} is not a multiple of align {}", stride.0, self.align_bytes()))
            }
            Address::Sequential { .. } | Address::Mixed { .. } | Address::Runs { .. } if misaligned.is_some() => {
                refuse(format!(
                    "{at}: request size {} is not a multiple of align {}, as a sequential cursor needs",
                    misaligned.map_or(0, |s| s.size.0),
                    self.align_bytes()
                ))
            }
            Address::Zipf { theta } if !(*theta > 0.0 && *theta <= 10.0) => {
                refuse(format!("{at}: zipf theta {theta} is not between 0 and 10"))
            }
            Address::Pareto { skew } if !(50.0..100.0).contains(&skew.0) => {
                refuse(format!("{at}: pareto skew {} is not between 50 and 100 (exclusive)", skew.0))
            }
            Address::HotSpots { space, spots, .. } if *spots == 0 || space.0 <= 0.0 => {
                refuse(format!("{at}: hot_spots needs spots of at least 1 and space above 0"))
            }
            Address::Zones { zones, .. } => {
                let sum: f64 = zones.iter().map(|z| z.requests.0).sum();
                if zones.len() > MAX_ZONES {
                    return refuse(format!("{at}: zones: {} zones, at most {MAX_ZONES}", zones.len()));
                }
                if (sum - 100.0).abs() > 1e-6 {
                    return refuse(format!("{at}: zones: requests sum to {sum} %, must be 100"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
