//! Issuing: what is due is asked of its lane's source, noted in its slot, and queued.

use std::cmp::Reverse;

use plan::{FlushCall, SyncMode};

use super::{Loop, Sink, TICK_NS};
use crate::device::{Completion, Device, Operation, Until};
use crate::lane::{LaneSource, Pacer};
use crate::source::{Due, Next, Part, Request, Source};
use crate::timeline::Kind;

impl<D: Device, S: Sink> Loop<'_, D, S> {
    /// Fills the free slots of closed lanes.
    pub(super) fn top_up(&mut self, now_ns: u64) {
        for lane in 0..self.lanes.len() {
            if matches!(self.lanes[lane].spec.pacer, Pacer::Closed { .. }) {
                while self.lanes[lane].may_issue() {
                    let Some(slot) = self.lanes[lane].free.pop() else { break };
                    self.issue(slot, now_ns, now_ns, None);
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn until(&self, now_ns: u64) -> Until {
        let mut ns = self.boundary_ns;
        if !D::VIRTUAL {
            ns = ns.min(now_ns + TICK_NS);
        } else if self.kind == Kind::Drain {
            // Nothing else bounds a drain in virtual time, and what hangs in it must still be named.
            ns = now_ns.saturating_add(self.hang_after_ns);
        }
        let mut precise = false;
        if self.issuing {
            for lane in &self.open_lanes {
                let lane = &self.lanes[*lane];
                if lane.may_issue()
                    && let Due::At(due_ns) = lane.due_ns()
                    && due_ns < ns
                {
                    (ns, precise) = (due_ns, true);
                }
            }
            if let Some(Reverse((due_ns, _))) = self.sleeping.peek()
                && *due_ns < ns
            {
                (ns, precise) = (*due_ns, true);
            }
        }
        Until { ns, precise }
    }

    /// Issues what has become due by now.
    #[inline(always)]
    pub(super) fn issue_due(&mut self, now_ns: u64) {
        while let Some(Reverse((due_ns, slot))) = self.sleeping.peek().copied() {
            if due_ns > now_ns {
                break;
            }
            self.sleeping.pop();
            self.issue(slot, due_ns, now_ns, None);
        }
        for i in 0..self.open_lanes.len() {
            let number = self.open_lanes[i];
            while self.lanes[number].may_issue() {
                let lane = &mut self.lanes[number];
                let due_ns = match lane.due_ns() {
                    Due::At(due_ns) if due_ns <= now_ns => due_ns,
                    Due::Never => {
                        lane.ended = true;
                        break;
                    }
                    Due::At(_) | Due::Later => break,
                };
                let Some(slot) = lane.free.pop() else { break };
                if let Pacer::Open(schedule) = &mut lane.spec.pacer {
                    schedule.advance();
                }
                self.issue(slot, due_ns, now_ns, None);
            }
        }
    }

    /// Asks the lane's source for an operation and queues it. With `last`, the slot goes on from there and still counts
    /// as in flight.
    #[inline(never)]
    pub(super) fn issue(&mut self, slot_number: u32, due_ns: u64, now_ns: u64, last: Option<&Completion>) {
        let slot = &self.slots[slot_number as usize];
        let lane = &mut self.lanes[usize::from(slot.lane)];
        if !lane.may_issue_beside(u32::from(last.is_some())) {
            return self.leave_free(slot_number, last.is_some());
        }
        let request = match &mut lane.spec.source {
            LaneSource::Pattern(pattern) if !lane.tied => {
                let request = pattern.next();
                lane.spend(&request);
                request
            }
            _ => match self.next_tied(slot_number, due_ns, now_ns, last) {
                Some(next) => next,
                None => return,
            },
        };
        let slot = &mut self.slots[slot_number as usize];
        let lane = &mut self.lanes[usize::from(slot.lane)];
        if last.is_none() {
            self.in_flight += 1;
            lane.enters(&mut self.depth[usize::from(slot.stream)]);
        }
        if let (Operation::Read, Some(verifier)) = (request.operation, &lane.spec.verifier) {
            let bytes = u64::from(request.request_bytes);
            self.tickets[slot_number as usize] = Some(verifier.begin_read(request.offset_bytes, bytes));
        }
        slot.take(&request, due_ns, now_ns);
        lane.queue(&mut self.device, slot_number, &request, FlushCall::Fdatasync);
    }

    /// The next operation of a lane that is more than a pattern. None: its slot gets none now.
    fn next_tied(&mut self, slot_number: u32, due_ns: u64, now_ns: u64, last: Option<&Completion>) -> Option<Request> {
        let lane = &mut self.lanes[usize::from(self.slots[slot_number as usize].lane)];
        let ties = &mut self.ties[slot_number as usize];
        ties.part = Part::Whole;
        let request = match lane.spec.source.next(slot_number - lane.first_slot, now_ns, last) {
            Next::Do(request) => request,
            Next::Step(request, part, chain) => {
                ties.part = part;
                if matches!(part, Part::First | Part::Only) {
                    (ties.chain_due_ns, ties.chain_failed, ties.chain) = (due_ns, false, chain);
                }
                request
            }
            Next::Wait(until_ns) => {
                self.sleeping.push(Reverse((until_ns.max(now_ns + 1), slot_number)));
                if last.is_some() {
                    self.release(usize::from(self.slots[slot_number as usize].lane));
                }
                return None;
            }
            Next::End => {
                lane.ended = true;
                self.leave_free(slot_number, last.is_some());
                return None;
            }
        };
        lane.spend(&request);
        lane.sync = if lane.spec.source.durable() { SyncMode::Fua } else { lane.spec.sync };
        lane.take_of_round(request.request_bytes);
        if let Some(frames) = &mut lane.spec.frames {
            ties.frame = frames.begin(due_ns);
        }
        ties.entry = request.entry;
        Some(request)
    }

    /// A slot gets nothing now, since its lane has nothing more or may have no more in flight.
    #[cold]
    fn leave_free(&mut self, slot_number: u32, counted: bool) {
        let lane_number = usize::from(self.slots[slot_number as usize].lane);
        self.lanes[lane_number].free.push(slot_number);
        if counted {
            self.release(lane_number);
        }
    }
}
