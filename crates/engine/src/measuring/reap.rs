//! Reaping: what follows from the end of a request, for the figures, for its slot and for its lane.

use std::cmp::Reverse;

use plan::FlushCall;

use super::{Loop, Sink};
use crate::device::{Completion, Device, Operation};
use crate::lane::{Lane, Pacer};
use crate::source::Source;
use crate::verify::WriteOutcome;

impl<D: Device, S: Sink> Loop<'_, D, S> {
    /// Records the end of a request and gives its slot the next one.
    #[inline(always)]
    pub(super) fn complete(&mut self, completion: &Completion) {
        let slot = &mut self.slots[completion.slot as usize];
        let lane = &mut self.lanes[usize::from(slot.lane)];
        let good = slot.ends(completion);
        self.last_end_ns = self.last_end_ns.max(completion.ended_ns);
        if lane.tied || !good {
            return self.complete_tied(completion, good);
        }
        self.counts.count(slot, completion, self.kind);
        if self.issuing
            && let Some(request) = lane.next_at_once()
        {
            slot.take(&request, completion.ended_ns, completion.ended_ns);
            lane.queue(&mut self.device, completion.slot, &request, FlushCall::Fdatasync);
        } else {
            self.follow(completion);
        }
    }

    /// The same where a request failed, or where frames and verifiers hear of it, chains go on and rounds end.
    #[inline(never)]
    fn complete_tied(&mut self, completion: &Completion, good: bool) {
        if !self.frame_lanes.is_empty() {
            self.end_of_frame(completion);
        }
        let verified = self.check_data(completion, good);
        if good && verified {
            self.counts.count(&self.slots[completion.slot as usize], completion, self.kind);
        } else {
            self.count_failure(completion, good);
        }
        let lane = &mut self.lanes[usize::from(self.slots[completion.slot as usize].lane)];
        lane.spec.source.ended(completion.slot - lane.first_slot, completion, good && verified);
        if self.step_chain(completion, good, verified) {
            self.issue(completion.slot, completion.ended_ns, completion.ended_ns, Some(completion));
            return;
        }
        if self.flush_write(completion, good && verified) {
            return;
        }
        self.follow(completion);
        if self.lockstep {
            self.open_gate(completion);
        }
    }

    /// What a slot does after its request ended.
    #[inline(never)]
    fn follow(&mut self, completion: &Completion) {
        let lane_number = usize::from(self.slots[completion.slot as usize].lane);
        let lane = &mut self.lanes[lane_number];
        match lane.spec.pacer {
            Pacer::Closed { think_ns: 0 } if self.issuing => {
                return self.issue(completion.slot, completion.ended_ns, completion.ended_ns, Some(completion));
            }
            Pacer::Closed { think_ns } if self.issuing => {
                self.sleeping.push(Reverse((completion.ended_ns + think_ns, completion.slot)));
            }
            _ => lane.free.push(completion.slot),
        }
        self.release(lane_number);
    }

    /// A slot of the lane has nothing in flight any more, and gets nothing at once.
    pub(super) fn release(&mut self, lane_number: usize) {
        let lane = &mut self.lanes[lane_number];
        lane.in_flight -= 1;
        self.in_flight -= 1;
        self.depth[usize::from(lane.spec.stream)].0 -= 1;
    }

    /// Tells the verifier how a request ended. False: the data that a read brought is damaged.
    fn check_data(&mut self, completion: &Completion, good: bool) -> bool {
        let slot = self.slots[completion.slot as usize];
        let Some(verifier) = &self.lanes[usize::from(slot.lane)].spec.verifier else { return true };
        match slot.operation {
            Operation::Write => {
                let outcome = match completion.result {
                    _ if good => WriteOutcome::Done,
                    moved if moved > 0 => WriteOutcome::Short(moved as u64),
                    _ => WriteOutcome::Failed,
                };
                verifier.end_write(slot.offset_bytes, u64::from(slot.request_bytes), outcome);
                true
            }
            Operation::Read => {
                let Some(ticket) = self.tickets[completion.slot as usize].take() else { return true };
                if !good {
                    return true;
                }
                self.damage.clear();
                let buffer = self.device.buffer(completion.slot, slot.request_bytes);
                verifier.end_read(ticket, buffer, &mut self.damage);
                self.damage.is_empty()
            }
            _ => true,
        }
    }

    /// The last lane to arrive lets all lanes begin their next round.
    #[inline(never)]
    fn open_gate(&mut self, completion: &Completion) {
        let lane_number = usize::from(self.slots[completion.slot as usize].lane);
        if self.issuing && self.lanes[lane_number].has_arrived() && self.lanes.iter().all(Lane::has_arrived) {
            self.lanes.iter_mut().for_each(Lane::next_round);
            self.top_up(completion.ended_ns);
        }
    }
}
