//! Turns the streams of a phase into lanes on the areas of real or modelled targets.

use std::path::PathBuf;
use std::sync::Arc;

use pace::Schedule;
use plan::{Arrivals, Knob, PAGE_BYTES, Pace, Phase, Profile, Program, Stream};

use crate::address::{Region, StreamShared};
use crate::chain::Chain;
use crate::device::Operation;
use crate::frames::{FrameJudge, FrameSource};
use crate::lane::{LaneSource, LaneSpec, Pacer};
use crate::pattern::Pattern;
use crate::payload::Payload;
use crate::program::{Place, ProgramLane, ProgramPlace, Programs};
use crate::source::ChainKind;
use crate::verify::{Covered, MapChoice, Verifier, VerifyCounts};

/// The part of a target that streams may touch, and what it demands of requests.
#[derive(Debug, Clone, Default)]
pub struct TargetArea {
    pub path: String,
    pub start_bytes: u64,
    pub length_bytes: u64,
    /// Offsets and sizes of requests must be multiples of this; 1 where nothing is demanded.
    pub align_bytes: u64,
    /// Requests may write.
    pub writable: bool,
    /// Where maps of generations are kept while the run lasts.
    pub scratch_dir: PathBuf,
    /// Where they are kept instead, so that a later run goes on to check what this one wrote.
    pub keep_dir: Option<PathBuf>,
}

/// A verifier's map of generations takes at most so much disk: 2^28 blocks, 1 TiB of 4 KiB blocks.
const MAP_LIMIT_BYTES: u64 = 1 << 30;
/// A sector of the time of SQL Server 2005 and Exchange 2007.
const LOG_BLOCK_BYTES: u64 = 512;
/// Of the data of a region that is verified from session to session, whatever the seeds of the sessions.
const KEPT_SEED: u64 = 1;

/// All lanes of a phase, in the order of its streams.
pub fn build_lanes(
    profile: &Profile,
    phase_index: usize,
    targets: &[TargetArea],
    verifiers: &mut Verifiers,
    programs: &dyn Programs,
) -> Result<Vec<LaneSpec>, String> {
    let phase = &profile.phase[phase_index];
    let mut lanes = Vec::new();
    let weights = Weights::of(phase);
    for stream in phase.stream.iter().filter(|s| !s.verify && s.changes()) {
        let Some(target) = targets.get(stream.target) else { continue };
        if target.keep_dir.is_some() {
            let name = &stream.name;
            return Err(format!(
                "stream {name}: writes unverified where verification goes on later; set verify = true"
            ));
        }
        if stream.trace.is_some() {
            let whole = whole_of(target);
            verifiers.forget(stream.target, whole);
        } else if let Ok((region, _)) = area_of(profile, stream, target) {
            verifiers.forget(stream.target, region);
        }
    }
    for (index, stream) in phase.stream.iter().enumerate() {
        let at =
            if stream.name.is_empty() { format!("stream {}", index + 1) } else { format!("stream {}", stream.name) };
        let target = targets.get(stream.target).ok_or_else(|| {
            format!(
                "{at}: speaks of target {}, but {} given; name one path for each",
                stream.target,
                count(targets.len())
            )
        })?;
        let whole = whole_of(target);
        let mut builder = StreamBuilder {
            profile,
            phase,
            phase_index,
            index,
            stream,
            region: whole,
            verifier: None,
            prepares: &[],
            weights: &weights,
            server: None,
            area: None,
        };
        if stream.program.is_some_and(|p| !p.is_server()) {
            lanes.extend(builder.program_lanes(programs).map_err(|e| format!("{at}: {e}"))?);
            continue;
        }
        if stream.trace.is_some() {
            if !target.writable && stream.changes() {
                return Err(format!("{at}: writes, but {} is open for reading only", target.path));
            }
            builder.area = Some(target);
            lanes.extend(builder.program_lanes(programs).map_err(|e| format!("{at}: {e}"))?);
            continue;
        }
        let (region, block_bytes) = area_of(profile, stream, target).map_err(|e| format!("{at}: {e}"))?;
        builder.region = region;
        demand_alignment(stream, target).map_err(|e| format!("{at}: {e}"))?;
        if stream.verify {
            let verifier = verifiers
                .obtain(stream, region, block_bytes, target, profile.seed)
                .map_err(|e| format!("{at}: {e}"))?;
            builder.verifier = Some(verifier);
        }
        builder.prepares = &verifiers.prepared;
        if stream.program.is_some() {
            builder.server =
                profile.server_place(stream).map(|of| Place { of, start_bytes: region.start_bytes, block_bytes });
            lanes.extend(builder.program_lanes(programs).map_err(|e| format!("{at}: {e}"))?);
            continue;
        }
        lanes.extend(builder.lanes().map_err(|e| format!("{at}: {e}"))?);
    }
    Ok(lanes)
}

fn count(targets: usize) -> String {
    if targets == 1 { "1 target was".into() } else { format!("{targets} targets were") }
}

/// Where a stream works, and the blocks that it verifies.
fn area_of(profile: &Profile, stream: &Stream, target: &TargetArea) -> Result<(Region, u64), String> {
    let Some(place) = profile.server_place(stream) else {
        return region_of(stream, target).map(|region| (region, stream.align_bytes()));
    };
    let align = target.align_bytes.max(1);
    // The log has blocks of its target's sectors, as SQL Server's has.
    let block_bytes = match stream.program.is_some_and(|p| p.on_log()) {
        true => stream.align.map_or(LOG_BLOCK_BYTES, |a| a.0).max(align),
        false => PAGE_BYTES,
    };
    if block_bytes % align != 0 || !PAGE_BYTES.is_multiple_of(align) || !PAGE_BYTES.is_multiple_of(block_bytes) {
        return Err(format!(
            "pages of 8KiB and log blocks of {block_bytes} bytes do not fit the {align} that {} demands with O_DIRECT",
            target.path
        ));
    }
    let end_bytes = place.from_bytes + place.length_bytes;
    if end_bytes > target.length_bytes {
        return Err(format!(
            "{} holds {}, and the database and log on it may grow to {}; name a larger target, or set a smaller most or \
             log_size",
            target.path,
            plan::format_bytes(target.length_bytes),
            plan::format_bytes(place.whole_bytes)
        ));
    }
    Ok((part_of(target, place.from_bytes, place.length_bytes), block_bytes))
}

fn region_of(stream: &Stream, target: &TargetArea) -> Result<Region, String> {
    let align = target.align_bytes.max(1).max(stream.align_bytes());
    let from = stream.region.from.offset_bytes(target.length_bytes).next_multiple_of(align);
    let to = stream.region.to.offset_bytes(target.length_bytes);
    if to > target.length_bytes {
        let length = plan::format_bytes(target.length_bytes);
        return Err(format!("region {} ends behind the target's {length}", stream.region));
    }
    let length_bytes = to.saturating_sub(from);
    let least = stream.frame_bytes().unwrap_or(0).min(stream.request.max_bytes());
    if length_bytes < if stream.frames.is_some() { least } else { stream.request.max_bytes() } {
        return Err(format!(
            "region {} of {} holds {length_bytes} bytes, too few for a request of {}",
            stream.region,
            target.path,
            plan::format_bytes(stream.request.max_bytes())
        ));
    }
    Ok(part_of(target, from, length_bytes))
}

fn whole_of(target: &TargetArea) -> Region {
    part_of(target, 0, target.length_bytes)
}

fn part_of(target: &TargetArea, from_bytes: u64, length_bytes: u64) -> Region {
    Region { origin_bytes: target.start_bytes, start_bytes: target.start_bytes + from_bytes, length_bytes }
}

fn demand_alignment(stream: &Stream, target: &TargetArea) -> Result<(), String> {
    let demand = target.align_bytes.max(1);
    let sizes = stream.request.0.iter().map(|s| s.size.0);
    for bytes in sizes.chain([stream.align_bytes()]) {
        if bytes % demand != 0 {
            return Err(format!(
                "{bytes} bytes is not a multiple of the {demand} bytes that {} requires for direct I/O; write {}, or use \
                 buffered I/O (--set io=buffered; run --direct 0 with --rw)",
                target.path,
                plan::near_sizes(bytes, demand)
            ));
        }
    }
    if !target.writable && stream.changes() {
        return Err(format!("writes, but {} is open for reading only", target.path));
    }
    Ok(())
}

/// The verifiers of a run: one a region, shared by the streams that touch it and kept from phase to phase.
pub struct Verifiers {
    run_id: u64,
    known: Vec<Known>,
    /// Whose blocks unverified writes prepare, in a run that does nothing but fill.
    prepared: Vec<Arc<Verifier>>,
}

struct Known {
    target: usize,
    region: Region,
    block_bytes: u64,
    verifier: Arc<Verifier>,
}

impl Known {
    fn overlaps(&self, target: usize, region: Region) -> bool {
        let end = |r: &Region| r.start_bytes + r.length_bytes;
        self.target == target && self.region.start_bytes < end(&region) && region.start_bytes < end(&self.region)
    }
}

impl Verifiers {
    /// A phase writes here without stamps: what was known of the region holds no longer.
    fn forget(&mut self, target: usize, region: Region) {
        self.known.retain(|k| !k.overlaps(target, region));
    }

    /// `run_id` stands in every stamp, so that blocks of other runs are told apart.
    pub fn new(run_id: u64) -> Verifiers {
        Verifiers { run_id, known: Vec::new(), prepared: Vec::new() }
    }

    /// For the run that fills a target before `profile` runs on it: what it writes where the profile verifies is then
    /// checked as well. What the profile's own phases refuse is left to them.
    pub fn to_fill(&mut self, profile: &Profile, number: usize, target: &TargetArea) -> Verifiers {
        let streams = profile.phase.iter().flat_map(|phase| &phase.stream);
        let mut filling = Verifiers::new(self.run_id);
        // What is kept from session to session knows nothing of fills.
        for stream in streams.filter(|s| s.verify && s.target == number && target.keep_dir.is_none()) {
            let obtained = area_of(profile, stream, target)
                .and_then(|(region, block_bytes)| self.obtain(stream, region, block_bytes, target, profile.seed));
            if let Ok(verifier) = obtained
                && !filling.prepared.iter().any(|known| Arc::ptr_eq(known, &verifier))
            {
                filling.prepared.push(verifier);
            }
        }
        filling
    }

    /// What all verifiers of the run have counted so far.
    pub fn counts(&self) -> VerifyCounts {
        self.known.iter().fold(VerifyCounts::default(), |sum, known| {
            let counts = known.verifier.counts();
            VerifyCounts {
                checked_blocks: sum.checked_blocks + counts.checked_blocks,
                unchecked_blocks: sum.unchecked_blocks + counts.unchecked_blocks,
                damaged_blocks: sum.damaged_blocks + counts.damaged_blocks,
                covered: sum.covered.into_iter().chain(counts.covered).reduce(|one, other| Covered {
                    blocks: one.blocks + other.blocks,
                    checked_once_blocks: one.checked_once_blocks + other.checked_once_blocks,
                }),
            }
        })
    }

    fn obtain(
        &mut self,
        stream: &Stream,
        region: Region,
        block_bytes: u64,
        target: &TargetArea,
        seed: u64,
    ) -> Result<Arc<Verifier>, String> {
        let same = |k: &&Known| {
            k.target == stream.target
                && (k.region.start_bytes, k.region.length_bytes) == (region.start_bytes, region.length_bytes)
        };
        if let Some(known) = self.known.iter().find(same) {
            if known.block_bytes != block_bytes {
                let blocks = known.block_bytes;
                return Err(format!(
                    "verifies blocks of {block_bytes} bytes where {blocks} were written; use one align"
                ));
            }
            return Ok(known.verifier.clone());
        }
        if self.known.iter().any(|k| k.overlaps(stream.target, region)) {
            let span = stream.region;
            return Err(format!("region {span} overlaps another verified region; make them equal or keep them apart"));
        }
        let map = match &target.keep_dir {
            Some(directory) => {
                let name = format!("{}-{}-{block_bytes}.generations", region.start_bytes, region.length_bytes);
                MapChoice::Kept { path: directory.join(name), limit_bytes: MAP_LIMIT_BYTES }
            }
            None => MapChoice::Map { directory: target.scratch_dir.clone(), limit_bytes: MAP_LIMIT_BYTES },
        };
        let area = (region.start_bytes, region.length_bytes);
        // A later session goes on to check what this one wrote, at addresses of its own seed.
        let seed = if target.keep_dir.is_some() { KEPT_SEED } else { seed };
        let verifier = Arc::new(Verifier::new(area, block_bytes, self.run_id, seed, map)?);
        self.known.push(Known { target: stream.target, region, block_bytes, verifier: verifier.clone() });
        Ok(verifier)
    }
}

/// How limits of a phase are shared out: each stream gets its share by its number of lanes.
struct Weights {
    lanes: u64,
    /// Bytes are shared out in whole requests of the largest size, so that the lanes' shares end where requests do.
    unit_bytes: u64,
}

impl Weights {
    fn of(phase: &Phase) -> Weights {
        let lanes = phase.stream.iter().map(|s| u64::from(lanes_of(phase, s))).sum();
        let unit_bytes = phase.stream.iter().map(|s| s.request.max_bytes()).max().unwrap_or(1).max(1);
        Weights { lanes, unit_bytes }
    }

    /// Bytes of lane `number`; what is less than a request goes to the first.
    fn share_bytes(&self, total: u64, number: u64) -> u64 {
        let rest = if number == 0 { total % self.unit_bytes } else { 0 };
        self.share(total / self.unit_bytes, number) * self.unit_bytes + rest
    }

    /// Lane `number` of the phase gets this much of `total`.
    fn share(&self, total: u64, number: u64) -> u64 {
        total / self.lanes + u64::from(number < total % self.lanes)
    }
}

/// The largest value that a ramp gives a knob.
fn max_of(phase: &Phase, knob: Knob) -> Option<u32> {
    phase.ramp.as_ref().filter(|r| r.knob == knob).map(|r| r.max().ceil() as u32)
}

/// Lanes of a stream, those that a ramp sets to work later included.
fn lanes_of(phase: &Phase, stream: &Stream) -> u32 {
    max_of(phase, Knob::Workers).unwrap_or(stream.workers)
}

struct StreamBuilder<'a> {
    profile: &'a Profile,
    phase: &'a Phase,
    phase_index: usize,
    index: usize,
    stream: &'a Stream,
    region: Region,
    verifier: Option<Arc<Verifier>>,
    prepares: &'a [Arc<Verifier>],
    weights: &'a Weights,
    server: Option<Place>,
    area: Option<&'a TargetArea>,
}

impl StreamBuilder<'_> {
    fn lanes(&self) -> Result<Vec<LaneSpec>, String> {
        let shared = Arc::new(StreamShared::default());
        let payload = Arc::new(Payload::new(self.profile.seed, self.stream.data));
        let before = &self.phase.stream[..self.index];
        let lanes_before: u64 = before.iter().map(|s| u64::from(lanes_of(self.phase, s))).sum();
        let workers = lanes_of(self.phase, self.stream);
        if self.stream.frames.is_some() {
            return (0..workers).map(|lane| self.frame_lane(lane, workers, lanes_before, &payload)).collect();
        }
        (0..workers)
            .map(|lane| {
                let (phase, index) = (self.phase_index as u32, self.index as u32);
                let source = Pattern::new(
                    self.stream,
                    self.region,
                    self.profile.seed,
                    phase,
                    index,
                    lane,
                    workers,
                    shared.clone(),
                )?;
                let depth_max = self.depth_max();
                // Every step of a chain is a request; a pass begins so many chains as the region has places.
                let steps = if self.stream.chain.is_empty() { 1 } else { Chain::requests(&self.stream.chain) };
                let pass_requests = source.pass_requests().saturating_mul(steps);
                let source = match self.stream.chain.as_slice() {
                    [] => LaneSource::Pattern(Box::new(source)),
                    steps => LaneSource::Other(Box::new(Chain::new(source, steps, depth_max))),
                };
                Ok(self.lane(source, pass_requests, lane, workers, lanes_before + u64::from(lane), &payload))
            })
            .collect()
    }

    fn program_lanes(&self, programs: &dyn Programs) -> Result<Vec<LaneSpec>, String> {
        let payload = Arc::new(Payload::new(self.profile.seed, self.stream.data));
        let before = &self.phase.stream[..self.index];
        let lanes_before: u64 = before.iter().map(|s| u64::from(lanes_of(self.phase, s))).sum();
        let ramped = self.stream.program.is_some_and(|p| matches!(p, Program::MailboxUser(_) | Program::RandomUser(_)));
        let lanes = if ramped { lanes_of(self.phase, self.stream) } else { self.stream.workers };
        (0..lanes)
            .map(|lane| {
                let place = ProgramPlace {
                    stream: self.stream,
                    seed: self.profile.seed,
                    phase: self.phase_index as u32,
                    stream_index: self.index as u32,
                    lane,
                    lanes,
                    server: self.server,
                    area: self.area,
                };
                let made = programs.source(&place)?;
                Ok(self.program_lane(made, lane, lanes_before + u64::from(lane), &payload))
            })
            .collect()
    }

    fn program_lane(&self, made: ProgramLane, lane: u32, number: u64, payload: &Arc<Payload>) -> LaneSpec {
        let mut operations = [false; record::OPERATIONS];
        made.cells.iter().for_each(|cell| operations[*cell] = true);
        LaneSpec {
            stream: self.index as u16,
            target: self.stream.target as u16,
            index: lane,
            depth: self.stream.depth,
            depth_max: self.stream.depth,
            buffer_bytes: made.buffer_bytes,
            operations,
            source: LaneSource::Other(made.source),
            pacer: if made.own_pace { Pacer::Own } else { self.pacer(lane, self.stream.workers) },
            sync: self.stream.sync,
            flush_every: None,
            requests_left: self.phase.requests.map_or(u64::MAX, |total| self.weights.share(total, number)),
            bytes_left: self.phase.bytes.map_or(u64::MAX, |total| self.weights.share_bytes(total.0, number)),
            flushes_on_top: false,
            payload: (made.fresh_data && self.verifier.is_none()).then(|| payload.clone()),
            verifier: self.verifier.clone(),
            prepares: Vec::new(),
            frames: None,
            lockstep: self.phase.lockstep,
        }
    }

    fn pacer(&self, lane: u32, lanes: u32) -> Pacer {
        match self.stream.pace {
            Pace::Closed => Pacer::Closed { think_ns: self.stream.think.ns },
            Pace::Open { rate, arrivals, burst } => {
                let seed = self.profile.seed ^ (self.phase_index as u64) << 48 ^ (self.index as u64) << 32;
                // Lanes learn the start of the phase when they begin; until then the schedule starts at 0.
                Pacer::Open(Schedule::new(rate, arrivals, lane, lanes, 0, seed).with_bursts(burst.unwrap_or(1)))
            }
        }
    }

    /// A player or recorder of video: its requests are due together, once a frame.
    fn frame_lane(&self, lane: u32, lanes: u32, before: u64, payload: &Arc<Payload>) -> Result<LaneSpec, String> {
        let Some(frames) = &self.stream.frames else { return Err("has no frames".into()) };
        let source = FrameSource::new(self.stream, self.region, lane, lanes)?;
        let (each, pass_requests) = (source.requests_per_frame(), source.pass_requests());
        // Workers begin their frames one after the other within a frame's time.
        let rate = frames.rate_per_s() * f64::from(lanes);
        let clock = || Schedule::new(rate, Arrivals::Constant, lane, lanes, 0, 0);
        let judge = FrameJudge::new(self.index, lane, each, frames.buffer_ns(), clock());
        let made = self.lane(
            LaneSource::Other(Box::new(source)),
            pass_requests,
            lane,
            lanes,
            before + u64::from(lane),
            payload,
        );
        Ok(LaneSpec { pacer: Pacer::Open(clock().in_bursts(each)), frames: Some(Box::new(judge)), ..made })
    }

    fn depth_max(&self) -> u32 {
        max_of(self.phase, Knob::Depth).unwrap_or(self.stream.depth).max(self.stream.depth)
    }

    fn lane(
        &self,
        source: LaneSource,
        pass_requests: u64,
        lane: u32,
        lanes: u32,
        number: u64,
        payload: &Arc<Payload>,
    ) -> LaneSpec {
        let (phase, stream) = (self.phase, self.stream);
        let requests = phase.requests.map_or(u64::MAX, |total| self.weights.share(total, number));
        let passes = phase.passes.map_or(u64::MAX, |passes| passes.requests(pass_requests));
        let bytes_left = phase.bytes.map_or(u64::MAX, |total| self.weights.share_bytes(total.0, number));
        let writes = stream.does().writes;
        LaneSpec {
            stream: self.index as u16,
            target: stream.target as u16,
            index: lane,
            depth: stream.depth,
            depth_max: self.depth_max(),
            buffer_bytes: stream.request.max_bytes() as u32,
            operations: cells_of(stream),
            source,
            pacer: self.pacer(lane, lanes),
            sync: stream.sync,
            flush_every: stream.flush_every,
            requests_left: requests.min(passes),
            bytes_left,
            flushes_on_top: passes < requests && stream.chain.is_empty(),
            payload: (writes && self.verifier.is_none()).then(|| payload.clone()),
            verifier: self.verifier.clone(),
            prepares: self.prepares.to_vec(),
            frames: None,
            lockstep: phase.lockstep,
        }
    }
}

/// The cells of a pattern or of chains over one.
fn cells_of(stream: &Stream) -> [bool; record::OPERATIONS] {
    let does = stream.does();
    let mut cells = [false; record::OPERATIONS];
    cells[Operation::Read as usize] = does.reads;
    cells[Operation::Write as usize] = does.writes;
    cells[Operation::Flush as usize] = does.flushes;
    cells[Operation::Trim as usize] = does.trims;
    cells[ChainKind::Steps.cell()] = !stream.chain.is_empty();
    cells[record::FRAMES] = stream.frames.is_some();
    cells[record::COMMITS] = stream.commits();
    cells
}

/// Whether any stream of the profile does this operation.
pub fn does(profile: &Profile, operation: Operation) -> bool {
    profile.phase.iter().flat_map(|p| &p.stream).any(|s| {
        let does = s.does();
        match operation {
            Operation::Read => does.reads,
            Operation::Write => does.writes,
            Operation::Flush => does.flushes,
            Operation::Trim => does.trims,
            _ => false,
        }
    })
}
