//! Writes to parity gather by rows, as in the stripe cache of Linux md (drivers/md/raid5.c), so that a row that becomes
//! whole is written without reading: unlike in a write-back cache they end when they are on the drives.
//!
//! A write that continues another one waits for the rest of its row, as one behind a plug does; one that doesn't is
//! written at once. A row that stays partial goes when its time is over or the memory is needed.

use std::collections::{BTreeMap, VecDeque};

use crate::write_back::Row;

/// How long a row waits for its rest: the 3 ms after which block devices were unplugged (unplug_delay, Linux 2.6).
pub const PATIENCE_NS: u64 = 3_000_000;
/// Streams of writes that are followed.
const STREAMS: usize = 8;

/// A row on its way to the drives.
#[derive(Debug, PartialEq, Eq)]
pub struct Gathered {
    /// Offset and length.
    pub extents: Vec<(u64, u64)>,
    /// Requests with a part in it, one entry a part.
    pub waiting: Vec<u32>,
    pub durable: bool,
}

/// A row that goes at the latest when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    pub row: u64,
    pub turn: u32,
}

#[derive(Debug, Default)]
struct Held {
    data: Row,
    waiting: Vec<u32>,
    durable: bool,
    turn: u32,
}

#[derive(Debug)]
pub struct Gather {
    row_bytes: u64,
    capacity_bytes: u64,
    rows: BTreeMap<u64, Held>,
    /// Rows in the order in which they were begun.
    order: VecDeque<Due>,
    held_bytes: u64,
    ends: VecDeque<u64>,
    turns: u32,
}

/// What becomes of a write: its parts, rows that go now, and rows that wait.
#[derive(Debug, Default)]
pub struct Added {
    pub parts: u32,
    pub ready: Vec<Gathered>,
    pub due: Vec<Due>,
}

impl Gather {
    pub fn new(capacity_bytes: u64, row_bytes: u64) -> Gather {
        Gather {
            row_bytes,
            capacity_bytes,
            rows: BTreeMap::new(),
            order: VecDeque::new(),
            held_bytes: 0,
            ends: VecDeque::new(),
            turns: 0,
        }
    }

    pub fn add(&mut self, request: u32, offset: u64, bytes: u64, durable: bool) -> Added {
        let patient = self.continues(offset, offset + bytes);
        let mut added = Added::default();
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let row = at / self.row_bytes;
            let start = row * self.row_bytes;
            let to = end.min(start + self.row_bytes);
            added.parts += 1;
            let held = self.rows.entry(row).or_default();
            if held.waiting.is_empty() {
                self.turns += 1;
                held.turn = self.turns;
                let due = Due { row, turn: held.turn };
                self.order.push_back(due);
                added.due.push(due);
            }
            let before = held.data.bytes;
            held.data.add(at - start, to - start);
            self.held_bytes += held.data.bytes - before;
            held.waiting.push(request);
            held.durable |= durable;
            if held.data.bytes == self.row_bytes || !patient {
                added.ready.extend(self.take(row));
            }
            at = to;
        }
        while self.held_bytes > self.capacity_bytes {
            let Some(oldest) = self.order.pop_front() else { break };
            added.ready.extend(self.due(oldest));
        }
        added.due.retain(|due| self.rows.get(&due.row).is_some_and(|held| held.turn == due.turn));
        added
    }

    /// The row, if it still waits.
    pub fn due(&mut self, due: Due) -> Option<Gathered> {
        self.rows.get(&due.row).filter(|held| held.turn == due.turn)?;
        self.take(due.row)
    }

    fn take(&mut self, row: u64) -> Option<Gathered> {
        let held = self.rows.remove(&row)?;
        self.held_bytes -= held.data.bytes;
        while self.order.front().is_some_and(|o| self.rows.get(&o.row).is_none_or(|held| held.turn != o.turn)) {
            self.order.pop_front();
        }
        let start = row * self.row_bytes;
        let extents = held.data.extents.iter().map(|(a, b)| (start + a, b - a)).collect();
        Some(Gathered { extents, waiting: held.waiting, durable: held.durable })
    }

    /// Whether a write goes on where another one ended.
    fn continues(&mut self, offset: u64, end: u64) -> bool {
        if let Some(stream) = self.ends.iter_mut().find(|e| **e == offset) {
            *stream = end;
            return true;
        }
        self.ends.push_back(end);
        if self.ends.len() > STREAMS {
            self.ends.pop_front();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_follow_one_another_fill_rows_and_others_go_at_once() {
        let mut gather = Gather::new(1 << 20, 4096);
        let alone = gather.add(0, 8192, 1024, false);
        assert_eq!((alone.parts, alone.ready.len(), alone.due.len()), (1, 1, 0), "it continues nothing");
        let first = gather.add(1, 9216, 1024, false);
        assert_eq!((first.parts, first.ready.len(), first.due.len()), (1, 0, 1));
        let over = gather.add(2, 10_240, 4096, true);
        assert_eq!((over.parts, over.ready.len(), over.due.len()), (2, 0, 1), "the first row lacks what went before");
        let waited = gather.due(first.due[0]).expect("the row waits");
        assert_eq!(waited, Gathered { extents: vec![(9216, 3072)], waiting: vec![1, 2], durable: true });
        assert!(gather.due(first.due[0]).is_none());
        let whole = gather.add(3, 14_336, 2048, false);
        assert_eq!(whole.ready[0].extents, [(12_288, 4096)]);
        assert_eq!(whole.ready[0].waiting, [2, 3]);
        assert_eq!(gather.held_bytes, 0);
    }

    #[test]
    fn the_oldest_row_makes_room() {
        let mut gather = Gather::new(3072, 4096);
        gather.add(0, 0, 512, false);
        assert!(gather.add(1, 512, 2048, false).ready.is_empty());
        gather.add(2, 8192, 512, false);
        let late = gather.add(3, 8704, 2048, false);
        assert_eq!(late.ready[0].waiting, [1]);
    }
}
