//! How many requests of a file may be in flight: SQLIOSim's running average, its target and its request blocks.

use engine::device::Completion;
use plan::DatabaseFile;
use record::event::ServerFileEnd;

/// SQLIOSim warns of a request that takes so long.
const WARN_NS: u64 = 15_000_000_000;

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    pub writes: bool,
    /// Pages of the data file; blocks of the log count as one page.
    pub pages: u32,
    /// Whoever has waited already is not counted again.
    pub waited: bool,
    /// Throttling is off.
    pub burst: bool,
}

/// The requests of one file.
#[derive(Debug, Clone)]
pub struct Throttle {
    target_ns: u64,
    most: u32,
    /// Requests that may be in flight.
    blocks: u32,
    in_flight: u32,
    average_ns: u64,
    pub counts: Counts,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub throttled: u64,
    pub reads: u64,
    pub scatter_reads: u64,
    pub writes: u64,
    pub gather_writes: u64,
    pub total_ns: u64,
    pub longest_ns: u64,
    pub warnings: u64,
    pub grown: u64,
    pub shrunk: u64,
}

impl Throttle {
    /// The running average begins at the target, as SQLIOSim's does.
    pub fn new(file: &DatabaseFile) -> Throttle {
        let target_ns = file.target_io.ns;
        Throttle {
            target_ns,
            most: file.most_io,
            blocks: 1,
            in_flight: 0,
            average_ns: target_ns,
            counts: Counts::default(),
        }
    }

    /// A request may be issued, and is in flight from now on; or has to wait. A further request block is made as long as
    /// the running average is within the target.
    pub fn begin(&mut self, wish: Wish) -> bool {
        let room = self.in_flight < self.blocks || (wish.burst && self.in_flight < self.most);
        if !room {
            if self.average_ns > self.target_ns || self.blocks >= self.most {
                self.counts.throttled += u64::from(!wish.waited);
                return false;
            }
            self.blocks += 1;
        }
        self.in_flight += 1;
        let counter = match (wish.writes, wish.pages > 1) {
            (false, false) => &mut self.counts.reads,
            (false, true) => &mut self.counts.scatter_reads,
            (true, false) => &mut self.counts.writes,
            (true, true) => &mut self.counts.gather_writes,
        };
        *counter += 1;
        true
    }

    /// A request has ended: the running average is (average × (outstanding − 1) + its duration) ÷ outstanding. While that
    /// is above the target, request blocks are given up one by one.
    pub fn end(&mut self, completion: &Completion) {
        let duration_ns = completion.ended_ns.saturating_sub(completion.submitted_ns);
        let outstanding = u64::from(self.in_flight.max(1));
        let sum = u128::from(self.average_ns) * u128::from(outstanding - 1) + u128::from(duration_ns);
        self.average_ns = (sum / u128::from(outstanding)) as u64;
        self.in_flight = self.in_flight.saturating_sub(1);
        self.counts.total_ns += duration_ns;
        self.counts.longest_ns = self.counts.longest_ns.max(duration_ns);
        self.counts.warnings += u64::from(duration_ns >= WARN_NS);
        if self.average_ns > self.target_ns {
            self.blocks = (self.blocks - 1).max(1);
        }
    }

    /// A phase begins: what was in flight has ended, and is counted anew.
    pub fn begin_phase(&mut self) {
        (self.in_flight, self.counts) = (0, Counts::default());
    }

    pub fn told(&self, database: usize, log: bool, size_bytes: u64) -> ServerFileEnd {
        let counts = self.counts;
        ServerFileEnd {
            database,
            log,
            size_bytes,
            target_io_ns: self.target_ns,
            running_average_ns: self.average_ns,
            throttled: counts.throttled,
            request_blocks: self.blocks,
            reads: counts.reads,
            scatter_reads: counts.scatter_reads,
            writes: counts.writes,
            gather_writes: counts.gather_writes,
            total_io_ns: counts.total_ns,
            longest_io_ns: counts.longest_ns,
            warnings: counts.warnings,
            grown: counts.grown,
            shrunk: counts.shrunk,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{Bytes, Duration, Percent};

    fn throttle() -> Throttle {
        let (time, bytes) = (Duration { ns: 1 }, Bytes(1 << 20));
        Throttle::new(&DatabaseFile {
            size: bytes,
            most: bytes,
            log_size: bytes,
            increment: Bytes(0),
            increments_min: 1,
            increments_max: 1,
            every_min: time,
            every_max: time,
            stamp: false,
            buffer_pool: bytes,
            cache_hits: Percent(0.0),
            target_io: Duration { ns: 100_000_000 },
            most_io: 1000,
        })
    }

    const READ: Wish = Wish { writes: false, pages: 1, waited: false, burst: false };

    fn took(ms: u64) -> Completion {
        Completion { slot: 0, result: 8192, submitted_ns: 0, ended_ns: ms * 1_000_000 }
    }

    #[test]
    fn the_running_average_is_sqliosims() {
        // Three in flight at 100 ms: (100 × 2 + 10) ÷ 3 = 70, then (70 × 1 + 30) ÷ 2 = 50, then 20.
        let mut throttle = throttle();
        (0..3).for_each(|_| assert!(throttle.begin(READ)));
        let expected = [(10, 70), (30, 50), (20, 20)];
        for (ms, average_ms) in expected {
            throttle.end(&took(ms));
            assert_eq!(throttle.average_ns, average_ms * 1_000_000);
        }
        assert_eq!((throttle.counts.reads, throttle.counts.total_ns), (3, 60_000_000));
    }

    #[test]
    fn above_the_target_requests_wait_and_are_counted_once() {
        let mut throttle = throttle();
        (0..4).for_each(|_| assert!(throttle.begin(READ)));
        throttle.end(&took(16_000));
        assert!(throttle.average_ns > throttle.target_ns);
        assert_eq!((throttle.blocks, throttle.counts.warnings), (3, 1));
        assert!(!throttle.begin(READ));
        assert!(!throttle.begin(Wish { waited: true, ..READ }));
        assert_eq!(throttle.counts.throttled, 1);
        assert!(throttle.begin(Wish { burst: true, ..READ }), "checkpoints at the end are not throttled");
    }
}
