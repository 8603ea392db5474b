//! The requests of a trace in the order of their arrivals, without the whole of it in memory.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io::{self, Read};

use super::Reader;
use crate::request::Request;

/// Holds back requests for as long as one that arrived earlier may follow.
pub struct Ordered<R: Read> {
    reader: Reader<R>,
    /// How far a request may stand behind one that arrived later (`Summary::disorder_ns`).
    disorder_ns: u64,
    held: BinaryHeap<Reverse<Held>>,
    latest_ns: u64,
    count: u64,
    ended: bool,
}

/// Requests that arrived at one instant stay in the order of the file.
struct Held(u64, u64, Request);

impl Held {
    fn key(&self) -> (u64, u64) {
        (self.0, self.1)
    }
}
impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Held {}
impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Held {
    fn cmp(&self, other: &Held) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<R: Read> Ordered<R> {
    pub fn new(reader: Reader<R>, disorder_ns: u64) -> Ordered<R> {
        Ordered { reader, disorder_ns, held: BinaryHeap::new(), latest_ns: 0, count: 0, ended: false }
    }

    pub fn reader(&self) -> &Reader<R> {
        &self.reader
    }

    #[allow(clippy::should_implement_trait)] // it may fail
    pub fn next(&mut self) -> io::Result<Option<Request>> {
        loop {
            if let Some(Reverse(first)) = self.held.peek()
                && (self.ended || first.0.saturating_add(self.disorder_ns) <= self.latest_ns)
                && let Some(Reverse(Held(_, _, request))) = self.held.pop()
            {
                return Ok(Some(request));
            }
            if self.ended {
                return Ok(None);
            }
            match self.reader.next()? {
                Some(request) => {
                    self.latest_ns = self.latest_ns.max(request.arrival_ns);
                    if self.disorder_ns == 0 && self.held.is_empty() {
                        return Ok(Some(request));
                    }
                    self.held.push(Reverse(Held(request.arrival_ns, self.count, request)));
                    self.count += 1;
                }
                None => self.ended = true,
            }
        }
    }
}
