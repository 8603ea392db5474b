//! Generations of single blocks, for writes in any order.
//!
//! Duty: one word a block in a [`MapFile`], and records beside it for the blocks that are uncertain. Refusal: it does
//! not decide what overlapping writes leave; that is [`Record`]'s.

use super::expect::{Expectation, Filled, Record, UNCERTAIN_BLOCKS_MOST};
use super::map_file::MapFile;

/// A word of the map: 0 not written, else the low 30 bits of a generation, [`UNCERTAIN`], or with the top bit set the
/// index of a record.
const RECORD_BIT: u32 = 1 << 31;
/// Beside any of these: the block was read and held against what was expected, at least once.
const CHECKED_BIT: u32 = 1 << 30;
pub(super) const LOW_MASK: u32 = CHECKED_BIT - 1;
/// One of more uncertain blocks than there may be records.
const UNCERTAIN: u32 = LOW_MASK;

/// Generations count the writes of the whole region, in 64 bits; the map keeps their low 30. When these wrap, a block
/// is taken for up to date if it is stale by exactly a multiple of 2^30 writes, and never the other way round.
#[derive(Debug)]
pub(super) struct MapTable {
    pub file: MapFile,
    records: Vec<Record>,
    free: Vec<u32>,
    pub latest: u64,
    in_flight: usize,
    pub checked_once: u64,
}

impl MapTable {
    pub fn new(file: MapFile) -> MapTable {
        MapTable { file, records: Vec::new(), free: Vec::new(), latest: 0, in_flight: 0, checked_once: 0 }
    }

    /// Goes on where an earlier session ended. Its records are gone, so blocks that had one are uncertain.
    pub fn resumed(mut file: MapFile) -> MapTable {
        let mut checked_once = 0;
        file.replace(|word| {
            checked_once += u64::from(word & CHECKED_BIT != 0);
            if word & RECORD_BIT != 0 { UNCERTAIN | word & CHECKED_BIT } else { word }
        });
        let latest = file.reserved();
        MapTable { latest, checked_once, ..MapTable::new(file) }
    }

    /// The block was held against what was expected.
    pub fn check(&mut self, block: u64) {
        match self.file.get(block as usize) {
            Some(word) if word & CHECKED_BIT == 0 && self.file.set(block as usize, word | CHECKED_BIT) => {
                self.checked_once += 1;
            }
            _ => {}
        }
    }

    pub fn next_generation(&mut self) -> u64 {
        self.latest += 1;
        while matches!(self.latest as u32 & LOW_MASK, 0 | UNCERTAIN) {
            self.latest += 1;
        }
        self.file.reserve(self.latest);
        self.latest
    }

    pub fn begin_write(&mut self, block: u64, generation: u64, before: Option<Expectation>) {
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
        if self.file.set(block as usize, RECORD_BIT | index | word & CHECKED_BIT) {
            self.in_flight += 1;
        } else {
            self.free.push(index);
        }
    }

    pub fn end_write(&mut self, block: u64, done: bool) {
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
        let low = match settled {
            Some(generation) => generation as u32 & LOW_MASK,
            None if uncertain > UNCERTAIN_BLOCKS_MOST => UNCERTAIN,
            None => return,
        };
        self.file.set(block as usize, low | word & CHECKED_BIT);
        self.free.push(index);
    }

    pub fn expectation(&self, block: u64, filled: &Filled) -> Option<Expectation> {
        match self.file.get(block as usize)? & !CHECKED_BIT {
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

#[cfg(test)]
mod tests {
    use super::super::expect::Blocks;
    use super::*;

    #[test]
    fn more_failed_writes_than_records_leave_blocks_unchecked_until_written_again() {
        let many = UNCERTAIN_BLOCKS_MOST as u64 + 10;
        let mut blocks = Blocks::with_map(MapFile::new(&std::env::temp_dir(), 1 << 17).unwrap());
        blocks.mark_filled(0, 1 << 17, 0);
        let failed = blocks.next_generation(0);
        for block in 0..many {
            blocks.begin_write(block, failed);
            blocks.end_write(block, false);
        }
        let expected = |blocks: &Blocks, block| blocks.expectation(block).unwrap();
        let first = expected(&blocks, 0);
        assert!(first.mixture && !first.unknown && first.allows(0) && first.allows(failed));
        let last = expected(&blocks, many - 1);
        assert!(last.mixture && last.unknown);
        assert!(!expected(&blocks, many).mixture, "a block that nobody touched is still checked");
        let generation = blocks.next_generation(0);
        for block in [0, many - 1] {
            blocks.begin_write(block, generation);
            blocks.end_write(block, true);
            assert_eq!(expected(&blocks, block), Expectation::settled(generation));
        }
    }
}
