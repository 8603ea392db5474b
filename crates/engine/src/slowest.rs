//! The slowest requests of a phase, one by one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::device::Operation;

/// How many of the slowest requests are kept.
pub const SLOWEST_KEPT: usize = 100;

/// One request that took long. Ordered by response time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slow {
    pub response_ns: u64,
    pub service_ns: u64,
    pub at_ns: u64,
    pub offset_bytes: u64,
    pub request_bytes: u32,
    pub stream: u16,
    operation: u8,
}

impl Slow {
    pub fn operation(&self) -> Operation {
        Operation::ALL[usize::from(self.operation)]
    }
}

/// Keeps the largest [`SLOWEST_KEPT`] of all that it is offered.
pub struct Slowest {
    heap: BinaryHeap<Reverse<Slow>>,
    /// A request below this need not be offered.
    wanted_from_ns: u64,
}

impl Default for Slowest {
    fn default() -> Self {
        Slowest { heap: BinaryHeap::with_capacity(SLOWEST_KEPT + 1), wanted_from_ns: 0 }
    }
}

impl Slowest {
    #[inline(always)]
    pub fn wants(&self, response_ns: u64) -> bool {
        response_ns >= self.wanted_from_ns
    }

    #[cold]
    pub fn offer(&mut self, slow: Slow) {
        self.heap.push(Reverse(slow));
        if self.heap.len() > SLOWEST_KEPT {
            self.heap.pop();
        }
        if self.heap.len() == SLOWEST_KEPT {
            self.wanted_from_ns = self.heap.peek().map_or(0, |s| s.0.response_ns + 1);
        }
    }

    pub fn merge(&mut self, other: Slowest) {
        for Reverse(slow) in other.heap {
            self.offer(slow);
        }
    }

    /// Slowest first.
    pub fn into_sorted(self) -> Vec<Slow> {
        self.heap.into_sorted_vec().into_iter().map(|s| s.0).collect()
    }
}

impl Slow {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        response_ns: u64,
        service_ns: u64,
        at_ns: u64,
        offset_bytes: u64,
        request_bytes: u32,
        stream: u16,
        operation: Operation,
    ) -> Slow {
        Slow { response_ns, service_ns, at_ns, offset_bytes, request_bytes, stream, operation: operation as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_exactly_the_slowest() {
        let mut slowest = Slowest::default();
        for i in 0..10_000u64 {
            let response_ns = (i * 7_919) % 10_007;
            if slowest.wants(response_ns) {
                slowest.offer(Slow::new(response_ns, 0, i, 0, 512, 0, Operation::Read));
            }
        }
        let mut all: Vec<u64> = (0..10_000u64).map(|i| (i * 7_919) % 10_007).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        let kept: Vec<u64> = slowest.into_sorted().iter().map(|s| s.response_ns).collect();
        assert_eq!(kept, all[..SLOWEST_KEPT]);
    }
}
