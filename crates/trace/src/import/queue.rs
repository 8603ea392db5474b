//! Requests out of events: what came to the queue, what was issued, what ended.

use std::collections::{BTreeMap, HashMap, VecDeque};
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

/// What the block layer holds.
#[derive(Default)]
pub(super) struct Queue {
    /// What came to the queue, by device and first sector.
    waiting: BTreeMap<(u32, u64), VecDeque<Event>>,
    waiting_count: usize,
    /// What was issued, by device and first sector.
    issued: HashMap<(u32, u64, Operation), VecDeque<Request>>,
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
                self.waiting.entry((event.device, event.sector)).or_default().push_back(*event);
                self.waiting_count += 1;
                if self.waiting_count > self.crowded {
                    self.forget(event.at_ns);
                }
                Ok(())
            }
            What::Issued => {
                let request = self.issue(event);
                let open = self.issued.entry(Queue::key(event)).or_default();
                open.push_back(request);
                Ok(())
            }
            What::Requeued => {
                // It is issued again: that is when its service begins.
                if let Some(open) = self.issued.get_mut(&Queue::key(event))
                    && let Some(request) = open.pop_front()
                {
                    let waits = Event { at_ns: request.arrival_ns, process: request.process, ..*event };
                    self.waiting.entry((event.device, event.sector)).or_default().push_back(waits);
                    self.waiting_count += 1;
                }
                Ok(())
            }
            What::Completed => {
                let key = Queue::key(event);
                let Some(open) = self.issued.get_mut(&key) else { return Ok(()) };
                let found = open.pop_front();
                if open.is_empty() {
                    self.issued.remove(&key);
                }
                let Some(mut request) = found else { return Ok(()) };
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
            let Some(list) = self.waiting.get_mut(&(event.device, at)) else { break };
            let found = list.pop_front();
            if list.is_empty() {
                self.waiting.remove(&(event.device, at));
            }
            let Some(bio) = found else { break };
            self.waiting_count -= 1;
            arrival_ns = arrival_ns.min(bio.at_ns);
            if first && bio.process != 0 {
                process = bio.process;
            }
            first = false;
            let sectors = bio.bytes.div_ceil(SECTOR_BYTES);
            if sectors == 0 {
                break;
            }
            at += sectors;
        }
        Request {
            arrival_ns,
            issue_ns: Some(event.at_ns),
            complete_ns: None,
            device: 0,
            operation: event.operation,
            flags: event.flags,
            offset_bytes: if event.operation == Operation::Flush { 0 } else { event.sector * SECTOR_BYTES },
            bytes: if event.operation == Operation::Flush { 0 } else { event.bytes },
            process,
        }
    }

    fn forget(&mut self, now_ns: u64) {
        self.waiting.retain(|_, list| {
            list.retain(|event| event.at_ns + FORGET_NS > now_ns);
            !list.is_empty()
        });
        self.waiting_count = self.waiting.values().map(VecDeque::len).sum();
        self.crowded = (self.waiting_count * 2).max(CROWDED);
    }

    /// What was still under way when the trace ended has no end.
    pub fn finish<W: Write>(
        self,
        name: impl Fn(u32) -> Vec<u8> + Copy,
        to: &mut Taker<W>,
        cache: &mut (u32, Vec<u8>),
    ) -> Result<(), ImportError> {
        let mut left: Vec<(u32, Request)> =
            self.issued.into_iter().flat_map(|(key, list)| list.into_iter().map(move |r| (key.0, r))).collect();
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
