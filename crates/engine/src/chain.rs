//! Dependent chains: read, think, write back, read again. Each step waits for the one before it, all at one place.

use plan::Step;

use crate::device::{Completion, Entry, Operation};
use crate::pattern::Pattern;
use crate::source::{ChainKind, Next, Part, Request, Source};

/// Chains over the places of a pattern, one at a time in each slot.
pub struct Chain {
    places: Pattern,
    steps: Vec<Step>,
    /// Index of the last step that is a request; pauses behind it belong to no chain.
    last: usize,
    first: usize,
    slots: Vec<Progress>,
}

/// How far a slot's chain is.
#[derive(Clone, Copy)]
struct Progress {
    next: usize,
    place: Request,
}

impl Chain {
    /// `steps` has at least one request; `depth` slots at the most.
    pub fn new(places: Pattern, steps: &[Step], depth: u32) -> Chain {
        let is_request = |step: &Step| !matches!(step, Step::Think(_));
        let first = steps.iter().position(is_request).unwrap_or(0);
        let last = steps.iter().rposition(is_request).unwrap_or(0);
        let place =
            Request { operation: Operation::Read, offset_bytes: 0, request_bytes: 0, pass: 0, entry: Entry::default() };
        Chain { places, steps: steps.to_vec(), last, first, slots: vec![Progress { next: 0, place }; depth as usize] }
    }

    /// Requests in a chain.
    pub fn requests(steps: &[Step]) -> u64 {
        steps.iter().filter(|step| !matches!(step, Step::Think(_))).count() as u64
    }

    fn part(&self, step: usize) -> Part {
        match (step == self.first, step == self.last) {
            (true, true) => Part::Only,
            (true, false) => Part::First,
            (false, true) => Part::Last,
            (false, false) => Part::Inner,
        }
    }
}

impl Source for Chain {
    fn next(&mut self, slot: u32, now_ns: u64, _last: Option<&Completion>) -> Next {
        let progress = &mut self.slots[slot as usize];
        if progress.next > self.last {
            // Pauses behind the last request lie between this chain and the next of the slot.
            if let Some(Step::Think(pause)) = self.steps.get(progress.next).copied() {
                progress.next += 1;
                return Next::Wait(now_ns + pause.ns);
            }
            progress.next = 0;
        }
        let step = progress.next;
        progress.next += 1;
        if let Step::Think(pause) = self.steps[step] {
            return Next::Wait(now_ns + pause.ns);
        }
        if step == self.first {
            progress.place = self.places.next();
        }
        let place = progress.place;
        let request = match self.steps[step] {
            Step::Read => Request { operation: Operation::Read, ..place },
            Step::Write => Request { operation: Operation::Write, ..place },
            Step::Flush | Step::Think(_) => Request::flush(place.pass),
        };
        Next::Step(request, self.part(step), ChainKind::Steps)
    }

    fn abort(&mut self, slot: u32) {
        self.slots[slot as usize].next = 0;
    }
}
