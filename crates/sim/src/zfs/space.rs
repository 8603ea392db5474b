//! Which place has which record: records lie in order until they are written again, and then wherever space is free.
//!
//! Free space is what no record ever took, in order, and when that is over, places that were freed, in order as well. A
//! place that was freed may be taken two transaction groups later (OpenZFS, TXG_DEFER_SIZE). Fragmentation is what the
//! run itself makes: a pool that was full for years is not modelled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Transaction groups until a freed place may be taken.
const DEFERRED: usize = 2;

#[derive(Debug)]
pub struct Space {
    /// Records that have moved.
    moved: BTreeMap<u64, u64>,
    /// Places that were never taken: the next one, and their end.
    fresh: u64,
    end: u64,
    free: BTreeSet<u64>,
    cursor: u64,
    /// Freed by this transaction group, and by those before it.
    freed: VecDeque<Vec<u64>>,
}

impl Space {
    pub fn new(records: u64, places: u64) -> Space {
        Space {
            moved: BTreeMap::new(),
            fresh: records,
            end: places,
            free: BTreeSet::new(),
            cursor: 0,
            freed: VecDeque::from([Vec::new()]),
        }
    }

    pub fn place_of(&self, record: u64) -> u64 {
        self.moved.get(&record).copied().unwrap_or(record)
    }

    /// A new place for a record; none where all are taken.
    pub fn allocate(&mut self) -> Option<u64> {
        if self.fresh < self.end {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        let next = self.free.range(self.cursor..).next().or_else(|| self.free.first()).copied()?;
        self.free.remove(&next);
        self.cursor = next + 1;
        Some(next)
    }

    /// The record lies there from now on; where it lay is freed.
    pub fn moves(&mut self, record: u64, place: u64) {
        let before = self.place_of(record);
        self.moved.insert(record, place);
        self.frees(before);
    }

    pub fn frees(&mut self, place: u64) {
        if let Some(freed) = self.freed.back_mut() {
            freed.push(place);
        }
    }

    pub fn txg_ended(&mut self) {
        self.freed.push_back(Vec::new());
        while self.freed.len() > DEFERRED + 1 {
            self.free.extend(self.freed.pop_front().unwrap_or_default());
        }
    }
}
