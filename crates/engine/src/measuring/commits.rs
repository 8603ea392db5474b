//! Commits: writes whose flush follows at once in their slot, counted as a whole beside their requests.

use record::COMMITS;

use super::{Loop, Sink};
use crate::device::{Completion, Device};
use crate::lane::Owed;
use crate::source::{Part, Request};

impl<D: Device, S: Sink> Loop<'_, D, S> {
    /// Lets the flush follow that an ended write owes, or counts the commit that an ended flush completes. True: the slot
    /// goes on with the flush. The flush is nobody's request: limits, pace and rounds are the writes'.
    pub(super) fn flush_write(&mut self, completion: &Completion, good: bool) -> bool {
        let number = completion.slot as usize;
        let slot = self.slots[number];
        let lane = &mut self.lanes[usize::from(slot.lane)];
        if lane.spec.flush_every.is_none() {
            return false;
        }
        if let Some(owed) = self.ties[number].owed.take() {
            self.count_commit(completion, owed, good);
            return false;
        }
        if !slot.operation.writes() || !self.issuing {
            return false;
        }
        let Some(call) = lane.flush_owed() else { return false };
        let ties = &mut self.ties[number];
        ties.owed = Some(Owed { due_ns: slot.due_ns, submitted_ns: completion.submitted_ns, failed: !good });
        let request = Request::flush(0);
        (ties.part, ties.entry) = (Part::Whole, request.entry);
        self.slots[number].take(&request, completion.ended_ns, completion.ended_ns);
        lane.queue(&mut self.device, completion.slot, &request, call);
        true
    }

    fn count_commit(&mut self, completion: &Completion, owed: Owed, good: bool) {
        let stream = usize::from(self.slots[completion.slot as usize].stream);
        if !self.counts.cells.is_open(stream, COMMITS) {
            return;
        }
        let cell = self.counts.cells.get_mut(stream, COMMITS);
        if owed.failed || !good {
            cell.errors += 1;
            return;
        }
        cell.requests += 1;
        cell.service.record(completion.ended_ns.saturating_sub(owed.submitted_ns), 1);
        cell.response.record(completion.ended_ns.saturating_sub(owed.due_ns), 1);
        if let Some(lateness) = &mut cell.lateness {
            lateness.record(owed.submitted_ns.saturating_sub(owed.due_ns), 1);
        }
    }
}
