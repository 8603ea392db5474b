//! Chains: steps that wait for each other in one slot, counted as a whole beside their requests.

use super::{Loop, Sink};
use crate::device::{Completion, Device};
use crate::source::{Part, Source};

impl<D: Device, S: Sink> Loop<'_, D, S> {
    /// Counts a chain that ended, whole or broken. True: it has a further step, and may take it.
    pub(super) fn step_chain(&mut self, completion: &Completion, good: bool, verified: bool) -> bool {
        let number = completion.slot as usize;
        let (slot, ties) = (self.slots[number], &mut self.ties[number]);
        if ties.part == Part::Whole {
            return false;
        }
        ties.chain_failed |= !good || !verified;
        if matches!(ties.part, Part::First | Part::Only) {
            ties.chain_submitted_ns = completion.submitted_ns;
        }
        let over = !good || matches!(ties.part, Part::Last | Part::Only);
        if !over {
            return self.issuing;
        }
        let ties = *ties;
        if !good {
            let lane = &mut self.lanes[usize::from(slot.lane)];
            lane.spec.source.abort(completion.slot - lane.first_slot);
        }
        let cell = self.counts.cells.get_mut(usize::from(slot.stream), ties.chain.cell());
        if ties.chain_failed {
            cell.errors += 1;
        } else {
            cell.requests += 1;
            cell.service.record(completion.ended_ns.saturating_sub(ties.chain_submitted_ns), 1);
            cell.response.record(completion.ended_ns.saturating_sub(ties.chain_due_ns), 1);
            if let Some(lateness) = &mut cell.lateness {
                lateness.record(ties.chain_submitted_ns.saturating_sub(ties.chain_due_ns), 1);
            }
        }
        false
    }
}
