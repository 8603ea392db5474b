//! Counting: requests that ended alike are counted together, failures one by one.

use record::CellSet;

use super::{FAILURES_DESCRIBED, Loop, Sink};
use crate::control::State;
use crate::device::{Completion, Device};
use crate::lane::Slot;
use crate::note::{Failure, Note};
use crate::slowest::{Slow, Slowest};
use crate::timeline::Kind;

/// Requests of one stream and operation with the same three instants: most of a batch differs in nothing.
#[derive(Clone, Copy)]
pub(super) struct Tally {
    stream: u16,
    operation: u8,
    due_ns: u64,
    submitted_ns: u64,
    ended_ns: u64,
    response_ns: u64,
    pub requests: u64,
    bytes: u64,
}

impl Tally {
    pub const EMPTY: Tally = Tally {
        stream: 0,
        operation: 0,
        due_ns: 0,
        submitted_ns: 0,
        ended_ns: 0,
        response_ns: 0,
        requests: 0,
        bytes: 0,
    };

    #[inline(always)]
    fn counts(&self, slot: &Slot, completion: &Completion) -> bool {
        self.ended_ns == completion.ended_ns
            && self.submitted_ns == completion.submitted_ns
            && self.due_ns == slot.due_ns
            && self.stream == slot.stream
            && self.operation == slot.operation as u8
    }
}

/// What requests that ended well come to in this interval, and the slowest of the phase.
pub(super) struct Counts {
    pub cells: CellSet,
    pub tally: Tally,
    pub slowest: Slowest,
}

impl Counts {
    #[inline(always)]
    pub fn count(&mut self, slot: &Slot, completion: &Completion, kind: Kind) {
        if !self.tally.counts(slot, completion) {
            self.begin_tally(slot, completion);
        }
        self.tally.requests += 1;
        self.tally.bytes += u64::from(slot.request_bytes);
        if self.slowest.wants(self.tally.response_ns) && kind != Kind::Warmup {
            self.keep_slow(slot, completion);
        }
    }

    #[inline(never)]
    fn begin_tally(&mut self, slot: &Slot, completion: &Completion) {
        self.flush_tally();
        self.tally = Tally {
            stream: slot.stream,
            operation: slot.operation as u8,
            due_ns: slot.due_ns,
            submitted_ns: completion.submitted_ns,
            ended_ns: completion.ended_ns,
            response_ns: completion.ended_ns.saturating_sub(slot.due_ns),
            requests: 0,
            bytes: 0,
        };
    }

    pub fn flush_tally(&mut self) {
        let t = self.tally;
        if t.requests == 0 {
            return;
        }
        let cell = self.cells.get_mut(usize::from(t.stream), usize::from(t.operation));
        cell.requests += t.requests;
        cell.bytes += t.bytes;
        cell.service.record(t.ended_ns.saturating_sub(t.submitted_ns), t.requests);
        cell.response.record(t.response_ns, t.requests);
        if let Some(lateness) = &mut cell.lateness {
            lateness.record(t.submitted_ns.saturating_sub(t.due_ns), t.requests);
        }
        (self.tally.requests, self.tally.bytes) = (0, 0);
    }

    #[cold]
    fn keep_slow(&mut self, slot: &Slot, completion: &Completion) {
        let slow = Slow::new(
            self.tally.response_ns,
            completion.ended_ns.saturating_sub(completion.submitted_ns),
            completion.ended_ns,
            slot.offset_bytes,
            slot.request_bytes,
            slot.stream,
            slot.operation,
        );
        self.slowest.offer(slow);
    }
}

impl<D: Device, S: Sink> Loop<'_, D, S> {
    #[cold]
    pub(super) fn count_failure(&mut self, completion: &Completion, moved_all: bool) {
        let slot = self.slots[completion.slot as usize];
        self.counts.cells.get_mut(usize::from(slot.stream), slot.operation as usize).errors += 1;
        if self.stop_on_error {
            self.control.set_state(State::Drain);
        }
        let failures: Vec<(Failure, u64)> = if moved_all {
            self.damage.drain(..).map(|d| (d.offset_bytes, d)).map(|(at, d)| (Failure::Damage(d), at)).collect()
        } else if completion.result < 0 {
            vec![(Failure::Errno(-completion.result), slot.offset_bytes)]
        } else {
            vec![(Failure::Short(completion.result as u32), slot.offset_bytes)]
        };
        for (failure, offset_bytes) in failures {
            self.failures.add(&failure);
            if self.notes.len() < FAILURES_DESCRIBED {
                self.notes.push(Note::Failed {
                    at_ns: completion.ended_ns,
                    stream: slot.stream,
                    operation: slot.operation,
                    offset_bytes,
                    request_bytes: slot.request_bytes,
                    entry: self.ties[completion.slot as usize].entry,
                    failure,
                });
            }
        }
    }
}
