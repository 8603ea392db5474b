//! Reading ahead of streams, as ZFS's prefetcher does (OpenZFS, module/zfs/dmu_zfetch.c; zfs(4), zfetch_min_distance).
//!
//! A stream is two reads that follow one another. The distance begins with the size of a read, doubles with each read up to
//! `min`, and grows by an eighth up to `max` where a reader had to wait. What is read ahead goes in pieces of half the
//! distance, since ZFS's queue merges records that lie together. What a stream has read is forgotten.

use std::collections::VecDeque;

/// Streams that are followed (zfetch_max_streams).
const STREAMS: usize = 8;

#[derive(Debug)]
struct Piece {
    id: u64,
    from: u64,
    to: u64,
    ready: bool,
    waiting: Vec<u32>,
}

#[derive(Debug)]
struct Stream {
    next: u64,
    distance: u64,
    fetched_to: u64,
    pieces: VecDeque<Piece>,
    used: u64,
}

#[derive(Debug)]
pub struct Prefetch {
    min: u64,
    max: u64,
    record_bytes: u64,
    end: u64,
    streams: Vec<Stream>,
    uses: u64,
    ids: u64,
}

/// What a read finds: none, where it is of no stream; else how many pieces it waits for, and what is read ahead now (id,
/// offset, bytes).
pub type Found = Option<(u32, Option<(u64, u64, u64)>)>;

impl Prefetch {
    pub fn new(min: u64, max: u64, record_bytes: u64, end: u64) -> Prefetch {
        Prefetch { min, max, record_bytes, end, streams: Vec::new(), uses: 0, ids: 0 }
    }

    pub fn read(&mut self, request: u32, offset: u64, bytes: u64) -> Found {
        self.uses += 1;
        let end = offset + bytes;
        let Some(stream) = self.streams.iter_mut().find(|s| s.next == offset) else {
            let fetched_to = end.next_multiple_of(self.record_bytes);
            let fresh = Stream { next: end, distance: bytes, fetched_to, pieces: VecDeque::new(), used: self.uses };
            if self.streams.len() < STREAMS {
                self.streams.push(fresh);
                return None;
            }
            let idle = |s: &&mut Stream| s.pieces.iter().all(|p| p.waiting.is_empty());
            if let Some(oldest) = self.streams.iter_mut().filter(idle).min_by_key(|s| s.used) {
                *oldest = fresh;
            }
            return None;
        };
        (stream.used, stream.next) = (self.uses, end);
        while stream.pieces.front().is_some_and(|p| p.ready && p.to <= offset) {
            stream.pieces.pop_front();
        }
        if stream.distance < self.min {
            stream.distance = (2 * stream.distance).max(bytes).min(self.min);
        }
        let wanted = (end + stream.distance).next_multiple_of(self.record_bytes).min(self.end);
        let mut fetch = None;
        if wanted > stream.fetched_to && (wanted - stream.fetched_to >= stream.distance / 2 || end > stream.fetched_to)
        {
            self.ids += 1;
            let (from, to) = (stream.fetched_to, wanted);
            fetch = Some((self.ids, from, to - from));
            stream.pieces.push_back(Piece { id: self.ids, from, to, ready: false, waiting: Vec::new() });
            stream.fetched_to = to;
        }
        let mut waits = 0;
        for piece in stream.pieces.iter_mut().filter(|p| !p.ready && p.from < end && offset < p.to) {
            piece.waiting.push(request);
            waits += 1;
        }
        if waits > 0 && stream.distance >= self.min {
            stream.distance = (stream.distance + stream.distance / 8).min(self.max);
        }
        Some((waits, fetch))
    }

    /// A piece has arrived; the requests that waited for it.
    pub fn arrived(&mut self, id: u64) -> Vec<u32> {
        let mut pieces = self.streams.iter_mut().flat_map(|s| s.pieces.iter_mut());
        let Some(piece) = pieces.find(|p| p.id == id) else { return Vec::new() };
        piece.ready = true;
        std::mem::take(&mut piece.waiting)
    }
}
