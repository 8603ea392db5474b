//! Which requests of a trace a request waits for: those that had ended in the trace before it arrived.
//!
//! All of them count, whoever issued them: a trace does not say who waited for whom. What did not matter to a request
//! makes it wait without need, so that the storage never gets more at once than it had in the trace.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use trace::Request;

#[derive(Debug, Default)]
pub struct Dependence {
    /// Requests that have been looked at and had not ended yet when the last of them arrived, by their ends.
    open: BinaryHeap<Reverse<(u64, u64)>>,
    /// Requests that must end before the next may begin.
    awaited: HashSet<u64>,
    /// Instants of those that have ended here, and had not ended in the trace when the last request arrived.
    ended: HashMap<u64, u64>,
    /// The last end in the trace that the next request waits for, and the last of these ends here.
    trace_ns: Option<u64>,
    here_ns: u64,
    /// Which request each slot carries.
    slots: Vec<u64>,
    /// Number of the next request.
    next: u64,
    before_ns: u64,
}

/// Requests whose ends nobody asks for.
const NOBODY: u64 = u64::MAX;

impl Dependence {
    pub fn new(depth: u32) -> Dependence {
        Dependence { slots: vec![NOBODY; depth as usize], ..Dependence::default() }
    }

    /// The next request to be issued is known.
    pub fn look(&mut self, request: &Request) {
        while let Some(Reverse((end_ns, number))) = self.open.peek().copied() {
            if end_ns > request.arrival_ns {
                break;
            }
            self.open.pop();
            self.trace_ns = Some(end_ns);
            match self.ended.remove(&number) {
                Some(here_ns) => self.here_ns = self.here_ns.max(here_ns),
                None => drop(self.awaited.insert(number)),
            }
        }
        if let Some(end_ns) = request.complete_ns {
            self.open.push(Reverse((end_ns.max(request.arrival_ns.saturating_add(1)), self.next)));
        }
    }

    /// When it is due; none as long as something that it waits for is under way. `scaled` is a time of the trace at the
    /// speed of this run, `first_ns` the first arrival of the trace.
    pub fn due_ns(&self, request: &Request, start_ns: u64, first_ns: u64, scaled: impl Fn(u64) -> u64) -> Option<u64> {
        if !self.awaited.is_empty() {
            return None;
        }
        let due_ns = match self.trace_ns {
            None => start_ns + scaled(request.arrival_ns.saturating_sub(first_ns)),
            Some(end_ns) => self.here_ns + scaled(request.arrival_ns.saturating_sub(end_ns)),
        };
        Some(due_ns.max(self.before_ns))
    }

    /// It is issued in that slot.
    pub fn issued(&mut self, slot: u32, request: &Request, due_ns: u64) {
        self.slots[slot as usize] = if request.complete_ns.is_some() { self.next } else { NOBODY };
        self.next += 1;
        self.before_ns = due_ns;
    }

    pub fn ended(&mut self, slot: u32, at_ns: u64) {
        let number = std::mem::replace(&mut self.slots[slot as usize], NOBODY);
        if number == NOBODY {
            return;
        }
        if self.awaited.remove(&number) {
            self.here_ns = self.here_ns.max(at_ns);
        } else {
            self.ended.insert(number, at_ns);
        }
    }
}
