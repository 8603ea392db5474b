//! A controller's cache: writes that ended before they were on a drive, and what is read ahead of a stream.
//!
//! Dirty data are kept by rows of stripe units. Whole rows are destaged at once, with parity one after the other, because
//! they need no reads; others only when half of the cache is dirty or a flush asks for them, in C-LOOK order, so that neighbouring
//! writes meet in the cache.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::stamps::{Stamped, Stamps};

/// Streams that a controller follows.
const STREAMS: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Sorted and disjoint, relative to the row.
    pub(crate) extents: Vec<(u64, u64)>,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub struct WriteBack {
    capacity_bytes: u64,
    row_bytes: u64,
    rows: BTreeMap<u64, Row>,
    full: BTreeMap<u64, ()>,
    dirty_bytes: u64,
    moving_bytes: u64,
    /// Extents of the rows that are on their way.
    moving: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Whose data are in the cache, and whose are on their way, by row.
    stamps: Stamps,
    moving_stamps: BTreeMap<u64, Vec<Stamped>>,
    hand: u64,
}

/// A row on its way to the drives.
#[derive(Debug)]
pub struct Destage {
    pub row: u64,
    pub extents: Vec<(u64, u64)>,
    pub bytes: u64,
    pub whole: bool,
}

impl WriteBack {
    pub fn new(capacity_bytes: u64, row_bytes: u64) -> WriteBack {
        WriteBack {
            capacity_bytes,
            row_bytes,
            rows: BTreeMap::new(),
            full: BTreeMap::new(),
            dirty_bytes: 0,
            moving_bytes: 0,
            moving: BTreeMap::new(),
            stamps: Stamps::default(),
            moving_stamps: BTreeMap::new(),
            hand: 0,
        }
    }

    pub fn held_bytes(&self) -> u64 {
        self.dirty_bytes + self.moving_bytes
    }

    pub fn has_room(&self, bytes: u64) -> bool {
        let held = self.held_bytes();
        held == 0 || held + bytes <= self.capacity_bytes
    }

    pub fn is_clean(&self) -> bool {
        self.dirty_bytes + self.moving_bytes == 0
    }

    pub fn add(&mut self, offset: u64, bytes: u64, stamp: u64) {
        self.stamps.put(Stamped { from: offset, end: offset + bytes, stamp });
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let number = at / self.row_bytes;
            let start = number * self.row_bytes;
            let to = end.min(start + self.row_bytes);
            let row = self.rows.entry(number).or_default();
            let before = row.bytes;
            row.add(at - start, to - start);
            self.dirty_bytes += row.bytes - before;
            if row.bytes == self.row_bytes {
                self.full.insert(number, ());
            }
            at = to;
        }
    }

    /// Whether all of it is here.
    pub fn holds(&self, offset: u64, bytes: u64) -> bool {
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let number = at / self.row_bytes;
            let start = number * self.row_bytes;
            let to = end.min(start + self.row_bytes);
            let within = (at - start, to - start);
            let row = self.rows.get(&number);
            if !row.is_some_and(|r| r.extents.iter().any(|e| e.0 <= within.0 && within.1 <= e.1)) {
                return false;
            }
            at = to;
        }
        true
    }

    /// A whole row, in the order of addresses from where the last one was.
    pub fn next_whole(&mut self) -> Option<Destage> {
        let number = *self.full.range(self.hand..).next().or_else(|| self.full.iter().next())?.0;
        Some(self.take(number))
    }

    /// A row that is not whole, if such rows fill half of the cache or all of it has to go.
    pub fn next_partial(&mut self, everything: bool) -> Option<Destage> {
        let partial_bytes = self.dirty_bytes - self.full.len() as u64 * self.row_bytes;
        if partial_bytes == 0 || (!everything && partial_bytes * 2 < self.capacity_bytes) {
            return None;
        }
        let partial = |n: &&u64| !self.full.contains_key(n);
        let ahead = self.rows.range(self.hand..).map(|(n, _)| n).find(partial);
        let number = *ahead.or_else(|| self.rows.keys().find(partial))?;
        Some(self.take(number))
    }

    pub fn has_whole(&self) -> bool {
        !self.full.is_empty()
    }

    fn take(&mut self, number: u64) -> Destage {
        let row = self.rows.remove(&number).unwrap_or_default();
        let whole = self.full.remove(&number).is_some();
        self.dirty_bytes -= row.bytes;
        self.moving_bytes += row.bytes;
        self.hand = number + 1;
        let start = number * self.row_bytes;
        let extents: Vec<(u64, u64)> = row.extents.iter().map(|(a, b)| (start + a, b - a)).collect();
        self.moving.entry(number).or_default().extend(&extents);
        let stamps = self.stamps.take(start, start + self.row_bytes);
        if !stamps.is_empty() {
            self.moving_stamps.entry(number).or_default().extend(stamps);
        }
        Destage { row: number, extents, bytes: row.bytes, whole }
    }

    pub fn destaged(&mut self, row: u64, bytes: u64) {
        self.moving_bytes -= bytes;
        self.moving.remove(&row);
        self.moving_stamps.remove(&row);
    }

    /// Whose data of a row are on their way.
    pub fn moving_stamps(&self, row: u64) -> &[Stamped] {
        self.moving_stamps.get(&row).map_or(&[], Vec::as_slice)
    }

    /// Whose data are not on the drives.
    pub fn stamped(&self) -> Vec<Stamped> {
        self.stamps.over(self.moving_stamps.values().flatten().copied())
    }

    pub fn note_stamps(&self, seen: &mut BTreeSet<u64>) {
        self.stamps.note(seen);
        seen.extend(self.moving_stamps.values().flatten().map(|piece| piece.stamp));
    }

    /// Everything that is not on the drives, by address.
    pub fn dirty_extents(&self) -> Vec<(u64, u64)> {
        let absolute = |(n, row): (&u64, &Row)| {
            let start = n * self.row_bytes;
            row.extents.iter().map(move |(a, b)| (start + a, b - a)).collect::<Vec<_>>()
        };
        let moving = self.moving.values().flatten().copied();
        let mut extents: Vec<(u64, u64)> = self.rows.iter().flat_map(absolute).chain(moving).collect();
        extents.sort_unstable();
        extents
    }
}

impl Row {
    pub(crate) fn add(&mut self, from: u64, to: u64) {
        let first = self.extents.partition_point(|e| e.1 < from);
        let last = self.extents.partition_point(|e| e.0 <= to);
        let merged = match self.extents[first..last] {
            [] => (from, to),
            [ref a, ..] => (a.0.min(from), self.extents[last - 1].1.max(to)),
        };
        let replaced: u64 = self.extents[first..last].iter().map(|e| e.1 - e.0).sum();
        self.extents.splice(first..last, [merged]);
        self.bytes = self.bytes - replaced + merged.1 - merged.0;
    }
}

#[derive(Debug)]
struct Chunk {
    id: u64,
    from: u64,
    to: u64,
    ready: bool,
    waiting: Vec<u32>,
}

#[derive(Debug)]
struct Stream {
    next: u64,
    fetched_to: Option<u64>,
    chunks: VecDeque<Chunk>,
    used: u64,
}

/// What a read finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// No stream: the drives are asked for exactly this.
    Miss,
    /// So many chunks have to arrive first.
    Stream(u32),
}

/// Read-ahead: from the second of two reads that follow one another on, `window_bytes` are kept in front of a stream.
#[derive(Debug)]
pub struct ReadAhead {
    window_bytes: u64,
    chunk_bytes: u64,
    limit_bytes: u64,
    streams: Vec<Stream>,
    uses: u64,
    chunk_id: u64,
}

impl ReadAhead {
    pub fn new(window_bytes: u64, chunk_bytes: u64, limit_bytes: u64) -> ReadAhead {
        ReadAhead { window_bytes, chunk_bytes, limit_bytes, streams: Vec::new(), uses: 0, chunk_id: 0 }
    }

    /// `fetch` gets (chunk id, offset, bytes) of what has to be read from the drives.
    pub fn read(&mut self, request: u32, offset: u64, bytes: u64, fetch: &mut Vec<(u64, u64, u64)>) -> Found {
        self.uses += 1;
        let end = offset + bytes;
        let Some(stream) = self.streams.iter_mut().find(|s| s.next == offset) else {
            let fresh = Stream { next: end, fetched_to: None, chunks: VecDeque::new(), used: self.uses };
            if self.streams.len() < STREAMS {
                self.streams.push(fresh);
                return Found::Miss;
            }
            // A stream that somebody waits for is not forgotten.
            let idle = |s: &&mut Stream| s.chunks.iter().all(|c| c.waiting.is_empty());
            if let Some(oldest) = self.streams.iter_mut().filter(idle).min_by_key(|s| s.used) {
                *oldest = fresh;
            }
            return Found::Miss;
        };
        stream.used = self.uses;
        stream.next = end;
        while stream.chunks.front().is_some_and(|c| c.ready && c.to <= offset) {
            stream.chunks.pop_front();
        }
        let wanted = (end + self.window_bytes).min(self.limit_bytes);
        let mut fetched_to = stream.fetched_to.unwrap_or(offset);
        while fetched_to < wanted {
            let to = ((fetched_to / self.chunk_bytes + 1) * self.chunk_bytes).min(self.limit_bytes);
            self.chunk_id += 1;
            fetch.push((self.chunk_id, fetched_to, to - fetched_to));
            stream.chunks.push_back(Chunk {
                id: self.chunk_id,
                from: fetched_to,
                to,
                ready: false,
                waiting: Vec::new(),
            });
            fetched_to = to;
        }
        stream.fetched_to = Some(fetched_to);
        let mut waits = 0;
        for chunk in stream.chunks.iter_mut().filter(|c| !c.ready && c.from < end && offset < c.to) {
            chunk.waiting.push(request);
            waits += 1;
        }
        Found::Stream(waits)
    }

    /// A chunk has arrived; the requests that waited for it.
    pub fn arrived(&mut self, id: u64) -> Vec<u32> {
        for stream in &mut self.streams {
            if let Some(chunk) = stream.chunks.iter_mut().find(|c| c.id == id) {
                chunk.ready = true;
                return std::mem::take(&mut chunk.waiting);
            }
        }
        Vec::new()
    }
}
