//! Reaping: what follows from the end of a request, for the figures, for its slot and for its lane.

use std::cmp::Reverse;

use super::{Loop, Sink};
use crate::device::{Completion, Device, Operation};
use crate::lane::{Lane, Pacer};
use crate::verify::WriteOutcome;

impl<D: Device, S: Sink> Loop<'_, D, S> {
    /// Records the end of a request and gives its slot the next one.
    #[inline(always)]
    pub(super) fn complete(&mut self, completion: &Completion) {
        let slot = &mut self.slots[completion.slot as usize];
        slot.in_flight = false;
        let (moves, lane_number) = (slot.operation.moves_data(), usize::from(slot.lane));
        let good = completion.result == slot.request_bytes as i32 || (completion.result >= 0 && !moves);
        self.last_end_ns = self.last_end_ns.max(completion.ended_ns);
        let tied = self.lanes[lane_number].tied;
        let verified = !tied || self.hear(completion, good);
        if good && verified {
            self.count(completion);
        } else {
            self.count_failure(completion, good);
        }
        if tied && self.step_chain(completion, good, verified) {
            self.issue_apart(completion.slot, completion.ended_ns, completion.ended_ns, Some(completion));
            return;
        }
        self.follow(completion, lane_number);
        if tied && self.lockstep {
            self.open_gate(completion.ended_ns, lane_number);
        }
    }

    /// What a slot does after its request ended.
    #[inline(always)]
    fn follow(&mut self, completion: &Completion, lane_number: usize) {
        let lane = &mut self.lanes[lane_number];
        if lane.follows_at_once && self.issuing {
            return self.issue(completion.slot, completion.ended_ns, completion.ended_ns, Some(completion));
        }
        match lane.spec.pacer {
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

    /// Tells a frame and a verifier how a request ended. False: the data that a read brought is damaged.
    fn hear(&mut self, completion: &Completion, good: bool) -> bool {
        if !self.frame_lanes.is_empty() {
            self.end_of_frame(completion);
        }
        self.check_data(completion, good)
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
    fn open_gate(&mut self, now_ns: u64, lane_number: usize) {
        if self.issuing && self.lanes[lane_number].has_arrived() && self.lanes.iter().all(Lane::has_arrived) {
            self.lanes.iter_mut().for_each(Lane::next_round);
            self.top_up(now_ns);
        }
    }
}
