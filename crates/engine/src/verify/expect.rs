//! Which generations a block may hold.
//!
//! Duty: follow the writes of every block from begin to end and tell what a read may find there. Refusal: it sees no
//! data.
//!
//! Every block is *settled* (one known generation), *unknown* (nothing written in this run), or has a [`Record`]: a
//! cluster of writes that overlapped in time, or one write that failed. The possible contents of a record are always
//! what was there before plus a contiguous range of generations, because every write of a block that begins while
//! another is in flight belongs to the same cluster. So a record has a fixed size however many writes overlap.
//!
//! A mixture of the generations of a cluster is allowed, at any granularity: neither POSIX nor a disk orders two
//! overlapping writes in flight, a request of several sectors is not atomic, and data in memory (page cache, RAM
//! disks) are copied in pieces of a cache line. Nothing says how a failed write left its sectors either.

use super::map_file::MapFile;
use crate::payload::mix;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// Records of blocks that stay uncertain after their writes ended; each takes some 50 bytes, so at most 4 MiB. Where
/// there are more, the further blocks are not checked, rather than checked wrongly.
const UNCERTAIN_BLOCKS_MOST: usize = 1 << 16;

/// What a read may find in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expectation {
    /// Also anything that was there before the run.
    pub unknown: bool,
    /// Also a mixture of what is allowed.
    pub mixture: bool,
    pub oldest: u64,
    pub newest: u64,
}

impl Expectation {
    fn settled(generation: u64) -> Expectation {
        Expectation { unknown: false, mixture: false, oldest: generation, newest: generation }
    }

    /// `oldest` may come from the map, which holds the low bits only, so it is compared by these.
    #[inline]
    pub fn allows(&self, generation: u64) -> bool {
        let congruent = (generation ^ self.oldest) & u64::from(LOW_MASK) == 0;
        self.unknown || congruent || (self.oldest..=self.newest).contains(&generation)
    }

    /// What may be found by a read that began when `self` held and ended when `end` held.
    pub fn until(self, end: Expectation, written_between: bool) -> Expectation {
        Expectation {
            unknown: self.unknown || end.unknown,
            mixture: self.mixture || end.mixture || written_between,
            oldest: self.oldest.min(end.oldest),
            newest: self.newest.max(end.newest),
        }
    }
}

/// A cluster of overlapping writes of one block, or what a failed one left.
#[derive(Debug, Clone, Copy)]
struct Record {
    /// What was there before the first write of the cluster.
    unknown: bool,
    oldest: u64,
    /// Least and greatest generation of the cluster.
    first: u64,
    newest: u64,
    in_flight: u32,
    writes: u32,
    failed: bool,
}

impl Record {
    fn begin(before: Option<Expectation>, generation: u64) -> Record {
        Record {
            unknown: before.is_none_or(|before| before.unknown),
            oldest: before.map_or(generation, |before| before.oldest.min(generation)),
            first: generation,
            newest: before.map_or(generation, |before| before.newest.max(generation)),
            in_flight: 1,
            writes: 1,
            failed: false,
        }
    }

    fn join(&mut self, generation: u64) {
        if self.in_flight == 0 {
            *self = Record::begin(Some(self.expectation()), generation);
            return;
        }
        self.in_flight += 1;
        self.writes += 1;
        self.oldest = self.oldest.min(generation);
        self.first = self.first.min(generation);
        self.newest = self.newest.max(generation);
    }

    /// Ends one write; the generation that the block now has if that is certain.
    fn end(&mut self, done: bool) -> Option<u64> {
        self.in_flight -= 1;
        self.failed |= !done;
        if self.in_flight > 0 || self.failed {
            return None;
        }
        // Without a failure nothing of what was there before is left.
        self.unknown = false;
        self.oldest = self.first;
        // Writes of one generation have the same data, so that their overlap does not matter.
        (self.writes == 1 || self.first == self.newest).then_some(self.first)
    }

    fn expectation(&self) -> Expectation {
        Expectation { unknown: self.unknown, mixture: true, oldest: self.oldest, newest: self.newest }
    }
}

/// Blocks that preparation filled, as ranges that grow together.
#[derive(Debug, Default)]
struct Filled(BTreeMap<u64, (u64, u64)>);

impl Filled {
    /// Blocks `from..to` hold `generation`; later words on a block replace earlier ones.
    fn mark(&mut self, mut from: u64, mut to: u64, generation: u64) {
        while let Some((start, (end, other))) = self.0.range(..to).next_back().map(|(start, range)| (*start, *range)) {
            if end <= from {
                break;
            }
            self.0.remove(&start);
            if end > to {
                self.0.insert(to, (end, other));
            }
            if start < from {
                self.0.insert(start, (from, other));
            }
        }
        if let Some((start, (end, other))) = self.0.range(..from).next_back().map(|(start, range)| (*start, *range))
            && (end, other) == (from, generation)
        {
            from = start;
        }
        if let Some((end, other)) = self.0.get(&to).copied()
            && other == generation
        {
            self.0.remove(&to);
            to = end;
        }
        self.0.insert(from, (to, generation));
    }

    #[inline]
    fn generation(&self, block: u64) -> Option<u64> {
        let (_, (end, generation)) = self.0.range(..=block).next_back()?;
        (block < *end).then_some(*generation)
    }

    fn lower_to(&mut self, generation: u64) {
        self.0.values_mut().for_each(|range| range.1 = range.1.min(generation));
    }
}

/// The expectations of all blocks of a region.
#[derive(Debug)]
pub(super) struct Blocks {
    filled: Filled,
    table: Table,
}

#[derive(Debug)]
enum Table {
    Map(MapTable),
    Passes(PassTable),
}

impl Blocks {
    pub fn with_map(file: MapFile) -> Blocks {
        Blocks { filled: Filled::default(), table: Table::Map(MapTable::new(file)) }
    }

    pub fn with_passes(blocks: u64) -> Blocks {
        Blocks { filled: Filled::default(), table: Table::Passes(PassTable::new(blocks)) }
    }

    pub fn mark_filled(&mut self, from: u64, to: u64, generation: u64) {
        match &mut self.table {
            Table::Map(map) => map.latest = map.latest.max(generation),
            Table::Passes(passes) => passes.latest = passes.latest.max(generation),
        }
        if from < to {
            self.filled.mark(from, to, generation);
        }
    }

    /// The generation of a write that begins now.
    pub fn next_generation(&mut self, pass: u64) -> u64 {
        match &mut self.table {
            Table::Map(map) => map.next_generation(),
            Table::Passes(passes) => {
                if passes.begin_pass(pass) {
                    self.filled.lower_to(pass);
                }
                pass
            }
        }
    }

    #[inline]
    pub fn begin_write(&mut self, block: u64, generation: u64) {
        let before = self.expectation(block);
        match &mut self.table {
            Table::Map(map) => map.begin_write(block, generation, before),
            Table::Passes(passes) => passes.begin_write(block, generation, before),
        }
    }

    #[inline]
    pub fn end_write(&mut self, block: u64, done: bool) {
        match &mut self.table {
            Table::Map(map) => map.end_write(block, done),
            Table::Passes(passes) => passes.end_write(block, done),
        }
    }

    /// `None` where nothing is known and nothing was tried.
    #[inline]
    pub fn expectation(&self, block: u64) -> Option<Expectation> {
        match &self.table {
            Table::Map(map) => map.expectation(block, &self.filled),
            Table::Passes(passes) => passes.expectation(block, &self.filled),
        }
    }

    /// The instant to hand to [`Blocks::written_since`].
    pub fn tick(&self) -> u64 {
        match &self.table {
            Table::Map(_) => 0,
            Table::Passes(passes) => passes.tick,
        }
    }

    /// Whether a write of this block began or ended since. A map tells it by its generations.
    #[inline]
    pub fn written_since(&self, block: u64, tick: u64, begin: Expectation, end: Expectation) -> bool {
        match &self.table {
            Table::Map(_) => begin != end,
            Table::Passes(passes) => passes.ended[passes.slot(block)] > tick,
        }
    }

    #[cfg(test)]
    pub fn map_for_test(&mut self) -> Option<(&mut u64, &mut MapFile)> {
        match &mut self.table {
            Table::Map(map) => Some((&mut map.latest, &mut map.file)),
            Table::Passes(_) => None,
        }
    }
}

/// A word of the map: 0 not written, else the low 31 bits of a generation, [`UNCERTAIN`], or with the top bit set the
/// index of a record.
const RECORD_BIT: u32 = 1 << 31;
const LOW_MASK: u32 = RECORD_BIT - 1;
/// One of more uncertain blocks than there may be records.
const UNCERTAIN: u32 = LOW_MASK;

/// Generations count the writes of the whole region, in 64 bits; the map keeps their low 31. When these wrap, a block
/// is taken for up to date if it is stale by exactly a multiple of 2^31 writes, and never the other way round.
#[derive(Debug)]
struct MapTable {
    file: MapFile,
    records: Vec<Record>,
    free: Vec<u32>,
    latest: u64,
    in_flight: usize,
}

impl MapTable {
    fn new(file: MapFile) -> MapTable {
        MapTable { file, records: Vec::new(), free: Vec::new(), latest: 0, in_flight: 0 }
    }

    fn next_generation(&mut self) -> u64 {
        self.latest += 1;
        while matches!(self.latest as u32 & LOW_MASK, 0 | UNCERTAIN) {
            self.latest += 1;
        }
        self.latest
    }

    fn begin_write(&mut self, block: u64, generation: u64, before: Option<Expectation>) {
        let Some(word) = self.file.get(block as usize) else { return };
        if word & RECORD_BIT != 0 {
            let record = &mut self.records[(word & LOW_MASK) as usize];
            self.in_flight += usize::from(record.in_flight == 0);
            record.join(generation);
            return;
        }
        let record = Record::begin(before, generation);
        let index = match self.free.pop() {
            Some(index) => {
                self.records[index as usize] = record;
                index
            }
            None => {
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        };
        if self.file.set(block as usize, RECORD_BIT | index) {
            self.in_flight += 1;
        } else {
            self.free.push(index);
        }
    }

    fn end_write(&mut self, block: u64, done: bool) {
        let Some(word) = self.file.get(block as usize) else { return };
        if word & RECORD_BIT == 0 {
            return;
        }
        let index = word & LOW_MASK;
        let record = &mut self.records[index as usize];
        if record.in_flight == 0 {
            return;
        }
        let settled = record.end(done);
        if record.in_flight > 0 {
            return;
        }
        self.in_flight -= 1;
        let uncertain = self.records.len() - self.free.len() - self.in_flight;
        let word = match settled {
            Some(generation) => generation as u32 & LOW_MASK,
            None if uncertain > UNCERTAIN_BLOCKS_MOST => UNCERTAIN,
            None => return,
        };
        self.file.set(block as usize, word);
        self.free.push(index);
    }

    fn expectation(&self, block: u64, filled: &Filled) -> Option<Expectation> {
        match self.file.get(block as usize)? {
            0 => filled.generation(block).map(Expectation::settled),
            UNCERTAIN => Some(Expectation { unknown: true, mixture: true, oldest: 0, newest: self.latest }),
            word if word & RECORD_BIT != 0 => Some(self.records[(word & LOW_MASK) as usize].expectation()),
            low => Some(Expectation::settled(nearest_below(self.latest, low))),
        }
    }
}

/// The greatest generation up to `latest` with these low bits.
fn nearest_below(latest: u64, low: u32) -> u64 {
    let candidate = (latest & !u64::from(LOW_MASK)) | u64::from(low);
    if candidate > latest { candidate.saturating_sub(u64::from(LOW_MASK) + 1) } else { candidate }
}

/// Slots that remember when a write of a block last ended; blocks that share one are now and then taken for just
/// written. At 2 MiB one in 2,000 reads is, with 128 writes ending during each.
const ENDED_SLOTS_MOST: u64 = 1 << 18;
/// Passes whose blocks are still counted; more than two are in flight only where requests hang.
const COUNTED_PASSES_MOST: usize = 8;

/// Without a map: every pass writes each block of the region once, with the number of the pass as generation.
///
/// A block has a generation from the last pass known to be complete (every block of it was counted as written) to the
/// newest that began. Blocks in flight and blocks whose write failed have records.
#[derive(Debug)]
struct PassTable {
    blocks: u64,
    records: HashMap<u64, Record, BuildHasherDefault<BlockHasher>>,
    /// Records of blocks without a write in flight.
    uncertain: usize,
    /// Had to drop a record: no block can be judged by its generation or checksum any more.
    overflowed: bool,
    complete: Option<u64>,
    latest: u64,
    written_blocks: BTreeMap<u64, u64>,
    tick: u64,
    ended: Vec<u64>,
}

impl PassTable {
    fn new(blocks: u64) -> PassTable {
        let slots = blocks.next_power_of_two().min(ENDED_SLOTS_MOST);
        PassTable {
            blocks,
            records: HashMap::default(),
            uncertain: 0,
            overflowed: false,
            complete: None,
            latest: 0,
            written_blocks: BTreeMap::new(),
            tick: 0,
            ended: vec![0; slots as usize],
        }
    }

    #[inline]
    fn slot(&self, block: u64) -> usize {
        block as usize & (self.ended.len() - 1)
    }

    /// True where the numbers of passes went back, so that what was known to be newer is no more.
    fn begin_pass(&mut self, pass: u64) -> bool {
        let back = pass < self.latest;
        if self.complete.is_some_and(|complete| pass < complete) {
            self.complete = Some(pass);
            self.written_blocks.clear();
        }
        self.latest = self.latest.max(pass);
        back
    }

    fn begin_write(&mut self, block: u64, generation: u64, before: Option<Expectation>) {
        match self.records.get_mut(&block) {
            Some(record) => {
                self.uncertain -= usize::from(record.in_flight == 0);
                record.join(generation);
            }
            None => {
                self.records.insert(block, Record::begin(before, generation));
            }
        }
    }

    fn end_write(&mut self, block: u64, done: bool) {
        self.tick += 1;
        let slot = self.slot(block);
        self.ended[slot] = self.tick;
        let Some(record) = self.records.get_mut(&block).filter(|record| record.in_flight > 0) else { return };
        let settled = record.end(done);
        if record.in_flight > 0 {
            return;
        }
        // A pass writes a block once, so a cluster of as many writes as passes lie between its ends was written in each
        // of them. A block whose write failed counts too: its record says more than the pass does.
        let first = record.first;
        let last = if record.writes == 1 { first } else { record.newest };
        let in_each = u64::from(record.writes) == last - first + 1;
        if settled.is_some() || self.uncertain == UNCERTAIN_BLOCKS_MOST {
            self.overflowed |= settled.is_none();
            self.records.remove(&block);
        } else {
            self.uncertain += 1;
        }
        if in_each {
            (first..=last).for_each(|pass| self.count(pass));
        }
    }

    fn count(&mut self, pass: u64) {
        if self.complete.is_some_and(|complete| pass <= complete) {
            return;
        }
        let written = self.written_blocks.entry(pass).or_insert(0);
        *written += 1;
        if *written == self.blocks {
            self.complete = Some(pass);
            self.written_blocks = self.written_blocks.split_off(&(pass + 1));
        } else if self.written_blocks.len() > COUNTED_PASSES_MOST {
            self.written_blocks.pop_first();
        }
    }

    fn expectation(&self, block: u64, filled: &Filled) -> Option<Expectation> {
        if self.overflowed {
            return Some(Expectation { unknown: true, mixture: true, oldest: 0, newest: self.latest });
        }
        if !self.records.is_empty()
            && let Some(record) = self.records.get(&block)
        {
            return Some(record.expectation());
        }
        let oldest = self.complete.max(filled.generation(block))?;
        Some(Expectation { unknown: false, mixture: false, oldest, newest: self.latest })
    }
}

/// Block numbers are hashed by a fixed bijection: fast, and the same on every machine.
#[derive(Debug, Default)]
struct BlockHasher(u64);

impl Hasher for BlockHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = mix(self.0 ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn filled_ranges_answer_as_a_plain_array(marks in prop::collection::vec((0u64..40, 0u64..12, 0u64..3), 0..20)) {
            let (mut filled, mut plain) = (Filled::default(), [None; 64]);
            for (from, length, generation) in marks {
                if length > 0 {
                    filled.mark(from, from + length, generation);
                }
                plain[from as usize..(from + length) as usize].fill(Some(generation));
            }
            for (block, expected) in plain.iter().enumerate() {
                prop_assert_eq!(filled.generation(block as u64), *expected);
            }
        }
    }

    #[test]
    fn ranges_filled_in_any_order_grow_together() {
        let mut filled = Filled::default();
        for from in [4, 0, 8, 12] {
            filled.mark(from, from + 4, 0);
        }
        assert_eq!(filled.0.len(), 1);
    }

    #[test]
    fn passes_stop_judging_when_more_writes_failed_than_can_be_remembered() {
        let mut blocks = Blocks::with_passes(1 << 20);
        blocks.mark_filled(0, 1 << 20, 0);
        let generation = blocks.next_generation(1);
        for block in 0..UNCERTAIN_BLOCKS_MOST as u64 {
            blocks.begin_write(block, generation);
            blocks.end_write(block, false);
        }
        assert!(!blocks.expectation(1 << 19).is_some_and(|expected| expected.mixture));
        blocks.begin_write(1 << 18, generation);
        blocks.end_write(1 << 18, false);
        assert!(blocks.expectation(1 << 19).is_some_and(|expected| expected.mixture && expected.unknown));
    }
}
