//! Duty: which crash states of a log there are to look at. A state is a pure function of the log, its seed and the
//! parameters: a cut, the records that are durable there, and which of the volatile writes survive, whole or torn.
//!
//! Refusal: it holds no data and judges nothing.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::hash::{Draws, mixed};
use crate::log::{Kind, Log, Record};

/// With so many volatile writes or fewer, every subset is a state.
const FEW: u32 = 3;
/// States of one cut with more: none of them, and samples.
const SAMPLES: u64 = 4;
/// States of one cut with torn writes, where tearing is asked for.
const TORN: u64 = 2;
/// What file systems write at a time.
const BLOCK_BYTES: u64 = 4096;
/// The low bits of a seed say which state of its cut it is; from `FIRST_TORN` on, writes are torn.
const VARIANT_BITS: u32 = 8;
/// The bits above them are those of the log and the parameters, so that a seed is not taken for one of others.
const OWNER_BITS: u32 = 16;
const FIRST_TORN: u64 = 128;

/// What the disk's volatile cache does with a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// What had ended before the start of an ended flush is durable.
    Honest,
    /// No cache: what has ended is durable.
    Off,
    /// Flushes do nothing; all but this many records is on the medium by then.
    Lying { back: u64 },
    /// One flush in `n` does nothing.
    Lossy { n: u64 },
}

/// Where cuts are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// Half at acknowledgements or a few records later, a quarter in marked stretches, a quarter anywhere.
    Mixed,
    /// At acknowledgements: what was acknowledged last has had no time to become durable by chance.
    Acknowledgements,
    /// In marked stretches alone, where many writes are volatile; where writes are torn, in every state.
    Marks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    pub cache: Cache,
    pub aim: Aim,
    /// Surviving writes may be torn at multiples of this; 0 keeps each whole.
    pub torn_bytes: u64,
}

/// What the workload says of its log.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Story {
    /// Cuts lie between these records.
    pub begin: u64,
    pub end: u64,
    /// For each acknowledgement, how many records there were when its client had it.
    pub promises: Vec<u64>,
    /// Stretches of interest, such as checkpoints.
    pub marks: Vec<(u64, u64)>,
}

/// Bytes `from..to` of a write that survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub record: usize,
    pub from: u32,
    pub to: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub seed: u64,
    /// Records before it have happened.
    pub cut: u64,
    /// Of these, the writes before it are durable.
    pub durable: u64,
    pub volatile_writes: u64,
    pub kept: Vec<Kept>,
    /// Acknowledgements that its content owes.
    pub promised: u64,
}

/// Each cut in the stretches, with a running sum of how many blocks volatile writes replace there. Where nothing was, as in
/// a new file, a lost or torn write does no harm; and a checkpoint's writes of data replace far more than the commits
/// beside them.
fn weights(records: &[Record], marks: &[(u64, u64)], cache: Cache) -> Vec<(u64, u64)> {
    if marks.is_empty() {
        return Vec::new();
    }
    let mut written = BTreeSet::new();
    let mut replaced = vec![0]; // by the records before each one
    for record in records {
        let blocks = match record.kind {
            Kind::Write => {
                let end = record.offset_bytes + u64::from(record.bytes);
                record.offset_bytes / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)
            }
            Kind::FlushStart | Kind::FlushEnd => 0..0,
        };
        let again = blocks.filter(|block| !written.insert(*block)).count() as u64;
        replaced.push(replaced[replaced.len() - 1] + again);
    }
    let (mut at, mut flushed, mut sum) = (0, 0, 0);
    let mut out = Vec::new();
    for (from, to) in marks {
        for cut in (from + 1).max(at + 1)..=*to {
            for record in &records[at as usize..cut as usize] {
                flushed = flushed.max(if record.kind == Kind::FlushEnd { record.place } else { 0 });
            }
            at = cut;
            let durable = match cache {
                Cache::Off => cut,
                Cache::Lying { back } => cut.saturating_sub(back),
                Cache::Honest | Cache::Lossy { .. } => flushed,
            };
            sum += replaced[cut as usize] - replaced[durable as usize];
            out.push((cut, sum));
        }
    }
    out
}

/// A write near a cut, and what of it the state has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Write {
    pub record: u64,
    pub offset_bytes: u64,
    pub bytes: u64,
    pub volatile: bool,
    pub kept_bytes: u64,
}

/// A flush near a cut; without an end it was under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flush {
    pub start: u64,
    pub end: Option<u64>,
    /// It made durable what had been written before its start.
    pub works: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Surroundings {
    pub from: u64,
    pub writes: Vec<Write>,
    pub flushes: Vec<Flush>,
}

/// A stretch of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    pub from: u64,
    pub to: u64,
    pub writes: u64,
    pub flushes: u64,
}

pub struct Drawer<'a> {
    records: &'a [Record],
    story: Story,
    parameters: Parameters,
    salt: u64,
    weights: Vec<(u64, u64)>,
}

impl<'a> Drawer<'a> {
    pub fn new(log: &'a Log, mut story: Story, parameters: Parameters) -> Result<Drawer<'a>, String> {
        let count = log.records.len() as u64;
        story.end = story.end.min(count);
        story.promises.retain(|at| *at <= story.end);
        story.promises.sort_unstable();
        story.marks.retain(|(from, to)| from < to && *from >= story.begin && *to <= story.end);
        story.marks.sort_unstable();
        // A workload that flushes nothing may have acknowledged all of it without a record.
        if story.begin > story.end || (story.begin == story.end && story.promises.is_empty()) {
            return Err(format!(
                "the log has no records to cut between {} and {}; record again",
                story.begin, story.end
            ));
        }
        if parameters.aim == Aim::Marks && story.marks.is_empty() {
            return Err("the log has no marked stretch, such as a checkpoint; record longer".into());
        }
        let word = match parameters.cache {
            Cache::Honest => 1,
            Cache::Off => 2,
            Cache::Lying { back } => mixed(3 ^ back << 8),
            Cache::Lossy { n } => mixed(4 ^ n << 8),
        };
        let salt = mixed(log.hash ^ mixed(word ^ parameters.torn_bytes << 16 ^ (parameters.aim as u64) << 40));
        let weights = weights(&log.records, &story.marks, parameters.cache);
        Ok(Drawer { records: &log.records, story, parameters, salt, weights })
    }

    /// The seeds of `count` states. Each cut has all subsets of few volatile writes, or samples of many.
    pub fn seeds(&self, count: u64, seed: u64) -> Vec<u64> {
        let mut out = Vec::new();
        let mut number = 0;
        while (out.len() as u64) < count {
            let at = (mixed(mixed(seed) ^ number) << OWNER_BITS | self.owner()) << VARIANT_BITS;
            number += 1;
            let (cut, durable) = self.cut(at);
            let volatile = self.volatile(durable, cut).count() as u32;
            let tears = self.parameters.torn_bytes > 0 && volatile > 0;
            let whole = match self.parameters.aim {
                Aim::Marks if tears => 0,
                _ if volatile <= FEW => 1 << volatile,
                _ => SAMPLES,
            };
            let torn = if tears { TORN } else { 0 };
            let variants = (0..whole).chain(FIRST_TORN..FIRST_TORN + torn);
            out.extend(variants.map(|variant| at | variant));
        }
        out.truncate(count as usize);
        out
    }

    fn owner(&self) -> u64 {
        self.salt & ((1 << OWNER_BITS) - 1)
    }

    /// The state of a seed that somebody names.
    pub fn named(&self, seed: u64) -> Result<State, String> {
        match (seed >> VARIANT_BITS) & ((1 << OWNER_BITS) - 1) == self.owner() {
            true => Ok(self.state(seed)),
            false => Err(format!(
                "seed {seed:016x} was not drawn from this log with this --cache, --aim and --torn; \
                 name those that it was drawn with"
            )),
        }
    }

    pub fn state(&self, seed: u64) -> State {
        let (cut, durable) = self.cut(seed);
        let volatile: Vec<usize> = self.volatile(durable, cut).collect();
        let variant = seed & ((1 << VARIANT_BITS) - 1);
        let mut draws = Draws::new(mixed(self.salt ^ mixed(seed)));
        let few = volatile.len() as u32 <= FEW;
        let kept = match variant {
            FIRST_TORN.. => self.torn(&volatile, &mut draws),
            0 => self.whole(&volatile, |_| false),
            v if few => self.whole(&volatile, |n| v >> n & 1 == 1),
            _ => self.sampled(&volatile, &mut draws),
        };
        let promised = self.story.promises.partition_point(|at| *at <= cut) as u64;
        State { seed, cut, durable, volatile_writes: volatile.len() as u64, kept, promised }
    }

    /// The state of a seed with more of its volatile writes, each whole.
    pub fn state_with(&self, seed: u64, more: &[usize]) -> Result<State, String> {
        let mut state = self.named(seed)?;
        let volatile: Vec<usize> = self.volatile(state.durable, state.cut).collect();
        if let Some(other) = more.iter().find(|record| volatile.binary_search(record).is_err()) {
            return Err(format!("record {other} is no volatile write of this state"));
        }
        let all: Vec<usize> = volatile.into_iter().filter(|index| more.contains(index)).collect();
        state.kept.retain(|kept| !all.contains(&kept.record));
        state.kept.extend(all.into_iter().map(|index| self.all_of(index)));
        state.kept.sort_by_key(|kept| (kept.record, kept.from));
        Ok(state)
    }

    /// What lies around a state's cut: writes and flushes since `before` records ahead of the first volatile one.
    pub fn surroundings(&self, state: &State, before: u64) -> Surroundings {
        let from = state.durable.saturating_sub(before).max(self.story.begin.min(state.durable));
        let kept_bytes = |record: usize| {
            state.kept.iter().filter(|kept| kept.record == record).map(|kept| u64::from(kept.to - kept.from)).sum()
        };
        let mut found = Surroundings { from, writes: Vec::new(), flushes: Vec::new() };
        for index in from as usize..state.cut as usize {
            let record = &self.records[index];
            let volatile = index as u64 >= state.durable;
            let bytes = u64::from(record.bytes);
            match record.kind {
                Kind::Write => found.writes.push(Write {
                    record: index as u64,
                    offset_bytes: record.offset_bytes,
                    bytes,
                    volatile,
                    kept_bytes: if volatile { kept_bytes(index) } else { bytes },
                }),
                Kind::FlushStart => {
                    found.flushes.push(Flush { start: index as u64, end: None, works: false });
                }
                Kind::FlushEnd => {
                    let works = record.place <= state.durable && !matches!(self.parameters.cache, Cache::Lying { .. });
                    match found.flushes.iter_mut().find(|flush| flush.start == record.place) {
                        Some(flush) => (flush.end, flush.works) = (Some(index as u64), works),
                        None => found.flushes.push(Flush { start: record.place, end: Some(index as u64), works }),
                    }
                }
            }
        }
        found
    }

    /// The log in so many parts of one length, each with what it holds.
    pub fn parts(&self, most: u64) -> Vec<Part> {
        let length = (self.story.end - self.story.begin).div_ceil(most.max(1)).max(1);
        let part = |from: u64| {
            let to = (from + length).min(self.story.end);
            let records = &self.records[from as usize..to as usize];
            let count = |kind| records.iter().filter(|record| record.kind == kind).count() as u64;
            Part { from, to, writes: count(Kind::Write), flushes: count(Kind::FlushEnd) }
        };
        (self.story.begin..self.story.end).step_by(length as usize).map(part).collect()
    }

    fn cut(&self, seed: u64) -> (u64, u64) {
        let mut draws = Draws::new(mixed(self.salt ^ mixed(seed >> VARIANT_BITS)));
        let story = &self.story;
        let within = |draws: &mut Draws, range: Range<u64>| range.start + draws.below(range.end - range.start) + 1;
        let kind = match self.parameters.aim {
            Aim::Mixed => draws.below(4),
            Aim::Acknowledgements => 0,
            Aim::Marks => 2,
        };
        let cut = match kind {
            0 | 1 if !story.promises.is_empty() => {
                let at = story.promises[draws.below(story.promises.len() as u64) as usize];
                let mut later = 0;
                while self.parameters.aim == Aim::Mixed && later < 16 && draws.one_in(2) {
                    later += 1;
                }
                at + later
            }
            2 if !story.marks.is_empty() => {
                let drawn = draws.below(self.weights.last().map_or(0, |(_, sum)| *sum));
                match self.weights.get(self.weights.partition_point(|(_, sum)| *sum <= drawn)) {
                    Some((cut, _)) => *cut,
                    None => {
                        let (from, to) = story.marks[draws.below(story.marks.len() as u64) as usize];
                        within(&mut draws, from..to) // nothing is replaced in any
                    }
                }
            }
            _ => within(&mut draws, story.begin..story.end),
        };
        let cut = cut.clamp(story.begin, story.end);
        (cut, self.durable(cut, draws.word()))
    }

    /// Writes before this record are durable at the cut.
    fn durable(&self, cut: u64, chance: u64) -> u64 {
        match self.parameters.cache {
            Cache::Off => cut,
            Cache::Lying { back } => cut.saturating_sub(back),
            Cache::Honest => self.latest_start(cut, |_| true),
            Cache::Lossy { n } => self.latest_start(cut, |index| !Draws::new(mixed(chance ^ index as u64)).one_in(n)),
        }
    }

    /// The latest start of the flushes that ended before the cut and worked. Flushes may overlap, so that the one that ended
    /// last need not have begun last.
    fn latest_start(&self, cut: u64, works: impl Fn(usize) -> bool) -> u64 {
        let mut latest = 0;
        for index in (0..cut as usize).rev() {
            if (index as u64) < latest {
                break; // what ended before that start began before it too
            }
            let record = &self.records[index];
            if record.kind == Kind::FlushEnd && works(index) {
                latest = latest.max(record.place);
            }
        }
        latest
    }

    fn volatile(&self, durable: u64, cut: u64) -> impl Iterator<Item = usize> {
        let writes = |index: &usize| self.records[*index].kind == Kind::Write;
        (durable as usize..cut as usize).filter(writes)
    }

    /// A write that was durable when it ended survives; a cache that lies, lies about that too.
    fn always(&self, index: usize) -> bool {
        self.records[index].durable && !matches!(self.parameters.cache, Cache::Lying { .. })
    }

    fn all_of(&self, index: usize) -> Kept {
        Kept { record: index, from: 0, to: self.records[index].bytes }
    }

    fn whole(&self, volatile: &[usize], mut survives: impl FnMut(usize) -> bool) -> Vec<Kept> {
        let kept = volatile.iter().enumerate().filter(|(n, index)| survives(*n) | self.always(**index));
        kept.map(|(_, index)| self.all_of(*index)).collect()
    }

    /// All, the first ones, all but a few, or each by a coin.
    fn sampled(&self, volatile: &[usize], draws: &mut Draws) -> Vec<Kept> {
        let count = volatile.len() as u64;
        match draws.below(4) {
            0 => {
                let first = draws.below(count + 1) as usize;
                self.whole(volatile, |n| n < first)
            }
            1 => {
                let gone: Vec<u64> = (0..=draws.below(3)).map(|_| draws.below(count)).collect();
                self.whole(volatile, |n| !gone.contains(&(n as u64)))
            }
            _ => self.whole(volatile, |_| draws.one_in(2)),
        }
    }

    /// Each write survives whole, not at all, or some of its units do; units lie at absolute offsets, as sectors do.
    fn torn(&self, volatile: &[usize], draws: &mut Draws) -> Vec<Kept> {
        let mut kept = Vec::new();
        for index in volatile {
            if self.always(*index) || self.parameters.torn_bytes == 0 {
                kept.push(self.all_of(*index));
                continue;
            }
            match draws.below(4) {
                0 => kept.push(self.all_of(*index)),
                1 => {}
                _ => self.tear(*index, draws, &mut kept),
            }
        }
        kept
    }

    fn tear(&self, index: usize, draws: &mut Draws, kept: &mut Vec<Kept>) {
        let record = &self.records[index];
        let (unit, bytes) = (self.parameters.torn_bytes, u64::from(record.bytes));
        let mut from = 0;
        while from < bytes {
            let to = (unit - (record.offset_bytes + from) % unit + from).min(bytes);
            if draws.one_in(2) {
                kept.push(Kept { record: index, from: from as u32, to: to as u32 });
            }
            from = to;
        }
    }
}
