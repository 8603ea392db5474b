//! Cells: what happened to one stream's requests of one operation within one interval.

use crate::histogram::Histogram;

/// Room for every operation in the order of the engine's `Operation`; then chains, frames and commits, whose requests are
/// counted by operation as well. Only what a stream can do is opened, so an operation more costs a run without it no histogram.
pub const OPERATIONS: usize = COMMITS + 1;
/// Where chains are counted, kind by kind: whole ones, from the due instant of the first step to the end of the last.
pub const CHAINS: usize = 14;
pub const CHAIN_KINDS: usize = 4;
/// Where frames of video are counted: whole ones, from their due instant to the end of the last of their requests.
pub const FRAMES: usize = CHAINS + CHAIN_KINDS;
/// Where commits are counted: a write and the flush that it owes, from the due instant of the write to the end of the
/// flush.
pub const COMMITS: usize = FRAMES + 1;

/// Counts and times of one stream and operation. `requests` and `bytes` are successes; failures are `errors` alone.
#[derive(Clone, Default)]
pub struct Cell {
    pub requests: u64,
    pub bytes: u64,
    pub errors: u64,
    /// Frames whose response time exceeded their buffer, in time for nobody; late ones are among `requests` once they end.
    pub dropped: u64,
    /// Never more of the stream's requests were in flight at once. Exact where one loop has the whole stream.
    pub in_flight_bound: u32,
    pub service: Histogram,
    pub response: Histogram,
    /// How late requests were issued; open loop only.
    pub lateness: Option<Histogram>,
}

impl Cell {
    /// With a cell of the same time from another loop. Loops need not have had their most in flight at the same moment,
    /// so the sum is a bound and no maximum.
    pub fn merge_concurrent(&mut self, other: &Cell) {
        self.in_flight_bound += other.in_flight_bound;
        self.add(other);
    }

    /// With a cell of a later time.
    pub fn merge_later(&mut self, other: &Cell) {
        self.in_flight_bound = self.in_flight_bound.max(other.in_flight_bound);
        self.add(other);
    }

    fn add(&mut self, other: &Cell) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.dropped += other.dropped;
        self.service.merge(&other.service);
        self.response.merge(&other.response);
        if let Some(theirs) = &other.lateness {
            self.lateness.get_or_insert_default().merge(theirs);
        }
    }

    pub fn clear(&mut self) {
        (self.requests, self.bytes, self.errors, self.dropped, self.in_flight_bound) = (0, 0, 0, 0, 0);
        self.service.clear();
        self.response.clear();
        if let Some(h) = &mut self.lateness {
            h.clear();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.requests == 0 && self.errors == 0 && self.dropped == 0
    }
}

/// All cells of a loop or of a phase: one for each stream and operation that the stream can issue.
#[derive(Clone, Default)]
pub struct CellSet {
    cells: Vec<Option<Cell>>,
}

impl CellSet {
    pub fn new(streams: usize) -> Self {
        CellSet { cells: vec![None; streams * OPERATIONS] }
    }

    /// Makes room for a stream's operation. Cells must exist before they are used in the measuring loop.
    pub fn open(&mut self, stream: usize, operation: usize, with_lateness: bool) {
        let cell = self.cells[stream * OPERATIONS + operation].get_or_insert_default();
        if with_lateness {
            cell.lateness.get_or_insert_default();
        }
    }

    /// An empty set with room for the same cells.
    pub fn same_shape(&self) -> CellSet {
        let empty = |c: &Cell| Cell { lateness: c.lateness.as_ref().map(|_| Histogram::default()), ..Cell::default() };
        CellSet { cells: self.cells.iter().map(|c| c.as_ref().map(empty)).collect() }
    }

    pub fn streams(&self) -> usize {
        self.cells.len() / OPERATIONS
    }

    pub fn is_open(&self, stream: usize, operation: usize) -> bool {
        self.cells[stream * OPERATIONS + operation].is_some()
    }

    #[inline]
    pub fn get_mut(&mut self, stream: usize, operation: usize) -> &mut Cell {
        self.cells[stream * OPERATIONS + operation].get_or_insert_default()
    }

    /// With what another loop counted at the same time.
    pub fn merge_concurrent(&mut self, other: &CellSet) {
        self.merge(other, Cell::merge_concurrent);
    }

    /// With what was counted later.
    pub fn merge_later(&mut self, other: &CellSet) {
        self.merge(other, Cell::merge_later);
    }

    fn merge(&mut self, other: &CellSet, merge: fn(&mut Cell, &Cell)) {
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            if let Some(theirs) = theirs {
                merge(mine.get_or_insert_default(), theirs);
            }
        }
    }

    pub fn clear(&mut self) {
        self.cells.iter_mut().flatten().for_each(Cell::clear);
    }

    /// (stream, operation, cell) of every cell that is open.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, &Cell)> {
        self.cells.iter().enumerate().filter_map(|(i, c)| c.as_ref().map(|c| (i / OPERATIONS, i % OPERATIONS, c)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn had(in_flight_bound: u32) -> CellSet {
        let mut set = CellSet::new(1);
        *set.get_mut(0, 0) = Cell { requests: 1, in_flight_bound, ..Cell::default() };
        set
    }

    #[test]
    fn requests_in_flight_add_up_over_loops_and_not_over_time() {
        let (mut beside, mut after) = (had(3), had(3));
        beside.merge_concurrent(&had(5));
        after.merge_later(&had(5));
        let found = |set: &mut CellSet| (set.get_mut(0, 0).requests, set.get_mut(0, 0).in_flight_bound);
        assert_eq!((found(&mut beside), found(&mut after)), ((2, 8), (2, 5)));
        after.merge_later(&had(4));
        assert_eq!(found(&mut after), (3, 5));
    }
}
