//! Generations by pass, for writes that touch each block once a pass.
//!
//! Duty: memory for what is in flight and what failed, and for nothing else. Refusal: it cannot tell which blocks a pass
//! has already touched, so it allows both until the pass is complete.

use super::expect::{Expectation, Filled, Record, UNCERTAIN_BLOCKS_MOST};
use crate::payload::mix;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

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
pub(super) struct PassTable {
    blocks: u64,
    records: HashMap<u64, Record, BuildHasherDefault<BlockHasher>>,
    /// Records of blocks without a write in flight.
    uncertain: usize,
    /// Had to drop a record: no block can be judged by its generation or checksum any more.
    overflowed: bool,
    complete: Option<u64>,
    pub latest: u64,
    written_blocks: BTreeMap<u64, u64>,
    pub tick: u64,
    ended: Vec<u64>,
}

impl PassTable {
    pub fn new(blocks: u64) -> PassTable {
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

    /// Whether a write of this block ended after `tick`.
    #[inline]
    pub fn written_since(&self, block: u64, tick: u64) -> bool {
        self.ended[self.slot(block)] > tick
    }

    /// True where the numbers of passes went back, so that what was known to be newer is no more.
    pub fn begin_pass(&mut self, pass: u64) -> bool {
        let back = pass < self.latest;
        if self.complete.is_some_and(|complete| pass < complete) {
            self.complete = Some(pass);
            self.written_blocks.clear();
        }
        self.latest = self.latest.max(pass);
        back
    }

    pub fn begin_write(&mut self, block: u64, generation: u64, before: Option<Expectation>) {
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

    pub fn end_write(&mut self, block: u64, done: bool) {
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

    pub fn expectation(&self, block: u64, filled: &Filled) -> Option<Expectation> {
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
    use super::super::expect::Blocks;
    use super::*;

    fn write(blocks: &mut Blocks, block: u64, pass: u64) {
        let generation = blocks.next_generation(pass);
        blocks.begin_write(block, generation);
        blocks.end_write(block, true);
    }

    fn oldest(blocks: &Blocks, block: u64) -> u64 {
        blocks.expectation(block).unwrap().oldest
    }

    #[test]
    fn a_pass_that_another_lane_ran_ahead_of_still_becomes_complete() {
        let mut blocks = Blocks::with_passes(2);
        blocks.mark_filled(0, 2, 0);
        write(&mut blocks, 0, 1);
        let ahead = blocks.next_generation(2);
        blocks.begin_write(0, ahead);
        write(&mut blocks, 1, 1);
        assert_eq!(oldest(&blocks, 1), 1);
    }

    #[test]
    fn no_block_counts_twice_for_a_pass() {
        let mut blocks = Blocks::with_passes(3);
        blocks.mark_filled(0, 3, 0);
        write(&mut blocks, 1, 3);
        for pass in [1, 2] {
            let generation = blocks.next_generation(pass);
            blocks.begin_write(0, generation);
        }
        blocks.end_write(0, true);
        blocks.end_write(0, true);
        write(&mut blocks, 0, 3);
        assert_eq!(oldest(&blocks, 2), 0, "the third block was never written");
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
