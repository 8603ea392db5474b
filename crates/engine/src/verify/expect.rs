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
use super::map_table::{LOW_MASK, MapTable};
use super::pass_table::PassTable;
use std::collections::BTreeMap;

/// Records of blocks that stay uncertain after their writes ended; each takes some 50 bytes, so at most 4 MiB. Where
/// there are more, the further blocks are not checked, rather than checked wrongly.
pub(super) const UNCERTAIN_BLOCKS_MOST: usize = 1 << 16;

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
    pub fn settled(generation: u64) -> Expectation {
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
pub(super) struct Record {
    /// What was there before the first write of the cluster.
    unknown: bool,
    oldest: u64,
    /// Least and greatest generation of the cluster.
    pub first: u64,
    pub newest: u64,
    pub in_flight: u32,
    pub writes: u32,
    failed: bool,
}

impl Record {
    pub fn begin(before: Option<Expectation>, generation: u64) -> Record {
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

    pub fn join(&mut self, generation: u64) {
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
    pub fn end(&mut self, done: bool) -> Option<u64> {
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

    pub fn expectation(&self) -> Expectation {
        Expectation { unknown: self.unknown, mixture: true, oldest: self.oldest, newest: self.newest }
    }
}

/// Blocks that preparation filled, as ranges that grow together.
#[derive(Debug, Default)]
pub(super) struct Filled(BTreeMap<u64, (u64, u64)>);

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
    pub fn generation(&self, block: u64) -> Option<u64> {
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
        Blocks { filled: Filled::default(), table: Table::Map(MapTable::resumed(file)) }
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

    /// The block was read and held against what was expected; kept where there is a map.
    pub fn check(&mut self, block: u64) {
        if let Table::Map(map) = &mut self.table {
            map.check(block);
        }
    }

    /// Blocks of which [`Blocks::check`] told, each once.
    pub fn checked_once(&self) -> u64 {
        match &self.table {
            Table::Map(map) => map.checked_once,
            Table::Passes(_) => 0,
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
            Table::Passes(passes) => passes.written_since(block, tick),
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
}
