//! Requests out of events: what came to the queue, what was issued, what ended.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::io::Write;

use super::{ImportError, Taker};
use crate::request::{FAILED, Operation, Request};

const SECTOR_BYTES: u64 = 512;
/// Where flushes, which have no place, wait.
pub(super) const NOWHERE: u64 = u64::MAX;
/// So much later nothing that came to the queue is issued any more: it became part of another request.
const FORGET_NS: u64 = 120_000_000_000;
/// Entries of the queue at which it is searched for what may be forgotten.
const CROWDED: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Queued,
    Issued,
    Requeued,
    Completed,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub what: What,
    pub at_ns: u64,
    pub device: u32,
    pub sector: u64,
    pub bytes: u64,
    pub operation: Operation,
    pub flags: u8,
    pub process: u32,
}

/// Multiplies and mixes: devices and sectors are no attack, and come by the million.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }
}

type Mixed = BuildHasherDefault<Mixer>;

/// Things by their keys, first in, first out; hardly a key has more than one.
struct Fifo<K, V> {
    first: HashMap<K, V, Mixed>,
    further: HashMap<K, VecDeque<V>, Mixed>,
}

impl<K, V> Default for Fifo<K, V> {
    fn default() -> Self {
        Fifo { first: HashMap::default(), further: HashMap::default() }
    }
}

impl<K: std::hash::Hash + Eq + Copy, V> Fifo<K, V> {
    fn push(&mut self, key: K, value: V) {
        match self.first.entry(key) {
            std::collections::hash_map::Entry::Vacant(place) => drop(place.insert(value)),
            std::collections::hash_map::Entry::Occupied(_) => self.further.entry(key).or_default().push_back(value),
        }
    }

    fn pop(&mut self, key: K) -> Option<V> {
        let value = self.first.remove(&key)?;
        if !self.further.is_empty()
            && let Some(list) = self.further.get_mut(&key)
        {
            if let Some(next) = list.pop_front() {
                self.first.insert(key, next);
            }
            if list.is_empty() {
                self.further.remove(&key);
            }
        }
        Some(value)
    }

    fn len(&self) -> usize {
        self.first.len()
    }

    /// Everything, in no order.
    fn into_all(self) -> impl Iterator<Item = (K, V)> {
        let further = self.further.into_iter().flat_map(|(key, list)| list.into_iter().map(move |value| (key, value)));
        self.first.into_iter().chain(further)
    }
}

/// What the block layer holds.
#[derive(Default)]
pub(super) struct Queue {
    /// What came to the queue, by device and first sector.
    waiting: Fifo<(u32, u64), Event>,
    /// What was issued, by device and first sector.
    issued: Fifo<(u32, u64, Operation), Request>,
    crowded: usize,
}

impl Queue {
    pub fn new() -> Queue {
        Queue { crowded: CROWDED, ..Queue::default() }
    }

    fn key(event: &Event) -> (u32, u64, Operation) {
        (event.device, event.sector, event.operation)
    }

    /// Takes the next event in the order of time.
    pub fn take<W: Write>(
        &mut self,
        event: &Event,
        name: impl Fn(u32) -> Vec<u8>,
        to: &mut Taker<W>,
        cache: &mut (u32, Vec<u8>),
    ) -> Result<(), ImportError> {
        match event.what {
            What::Queued => {
                self.waiting.push((event.device, event.sector), *event);
                if self.waiting.len() > self.crowded {
                    self.forget(event.at_ns);
                }
                Ok(())
            }
            What::Issued => {
                let request = self.issue(event);
                self.issued.push(Queue::key(event), request);
                Ok(())
            }
            What::Requeued => {
                // It is issued again: that is when its service begins.
                if let Some(request) = self.issued.pop(Queue::key(event)) {
                    let waits = Event { at_ns: request.arrival_ns, process: request.process, ..*event };
                    self.waiting.push((event.device, event.sector), waits);
                }
                Ok(())
            }
            What::Completed => {
                let Some(mut request) = self.issued.pop(Queue::key(event)) else { return Ok(()) };
                request.complete_ns = Some(event.at_ns);
                request.flags |= event.flags & FAILED;
                tell(request, event.device, name, to, cache)
            }
        }
    }

    /// A request begins, made of what came to the queue for its sectors.
    fn issue(&mut self, event: &Event) -> Request {
        let (mut arrival_ns, mut process) = (event.at_ns, event.process);
        let end = event.sector.saturating_add(event.bytes.div_ceil(SECTOR_BYTES));
        let mut at = event.sector;
        let mut first = true;
        // Of the bios that were merged, each begins where the one before it ends.
        while first || at < end {
            let Some(bio) = self.waiting.pop((event.device, at)) else { break };
            arrival_ns = arrival_ns.min(bio.at_ns);
            if first && bio.process != 0 {
                process = bio.process;
            }
            first = false;
            let sectors = bio.bytes.div_ceil(SECTOR_BYTES);
            if sectors == 0 {
                break;
            }
            at = at.saturating_add(sectors);
        }
        Request {
            arrival_ns,
            issue_ns: Some(event.at_ns),
            complete_ns: None,
            device: 0,
            operation: event.operation,
            flags: event.flags,
            offset_bytes: if event.operation == Operation::Flush {
                0
            } else {
                event.sector.saturating_mul(SECTOR_BYTES)
            },
            bytes: if event.operation == Operation::Flush { 0 } else { event.bytes },
            process,
        }
    }

    fn forget(&mut self, now_ns: u64) {
        let mut kept: Vec<((u32, u64), Event)> = std::mem::take(&mut self.waiting)
            .into_all()
            .filter(|(_, event)| event.at_ns.saturating_add(FORGET_NS) > now_ns)
            .collect();
        kept.sort_by_key(|(_, event)| event.at_ns);
        kept.into_iter().for_each(|(key, event)| self.waiting.push(key, event));
        self.crowded = (self.waiting.len() * 2).max(CROWDED);
    }

    /// What was still under way when the trace ended has no end.
    pub fn finish<W: Write>(
        self,
        name: impl Fn(u32) -> Vec<u8> + Copy,
        to: &mut Taker<W>,
        cache: &mut (u32, Vec<u8>),
    ) -> Result<(), ImportError> {
        let mut left: Vec<(u32, Request)> = self.issued.into_all().map(|(key, request)| (key.0, request)).collect();
        left.sort_by_key(|(device, request)| (request.arrival_ns, *device, request.offset_bytes));
        left.into_iter().try_for_each(|(device, request)| tell(request, device, name, to, cache))
    }
}

fn tell<W: Write>(
    request: Request,
    device: u32,
    name: impl Fn(u32) -> Vec<u8>,
    to: &mut Taker<W>,
    cache: &mut (u32, Vec<u8>),
) -> Result<(), ImportError> {
    if cache.1.is_empty() || cache.0 != device {
        *cache = (device, name(device));
    }
    to.take(request, &cache.1)
}
