//! A cloud volume: caps on requests and bytes a second, each a token bucket, and a latency that is a constant plus an
//! exponential part. The buckets are the virtual scheduling form of the generic cell rate algorithm (ITU-T I.371): a
//! request conforms when the theoretical arrival time lies no further ahead than the burst allows. A volume with credits
//! has two for each: the baseline's, whose burst are the credits, and the peak's, without any.
//!
//! A request counts once for each `io_unit_bytes` that it begins. One of `merge_from_bytes` or more that goes on where the
//! last one of its kind ended is merged with it, as long as both fit into one unit: it counts no further, and passes no
//! sooner than the one that it was merged with.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use engine::rng::Rng;

use crate::NEVER;
use crate::brick::CloudParameters;
use crate::member::{Command, Kind, Lost};

#[derive(Debug)]
struct Bucket {
    /// Theoretical arrival time of the next token, in ns.
    theoretical_ns: u64,
    burst_ns: u64,
}

impl Bucket {
    /// When `cost_ns` worth of tokens may pass.
    fn take(&mut self, now_ns: u64, cost_ns: u64) -> u64 {
        let from_ns = self.theoretical_ns.max(now_ns);
        self.theoretical_ns = from_ns + cost_ns;
        self.theoretical_ns.saturating_sub(self.burst_ns.max(cost_ns)).max(now_ns)
    }
}

/// The last unit of the requests of a kind.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    end_bytes: u64,
    filled_bytes: u64,
    pass_ns: u64,
}

#[derive(Debug)]
pub struct Cloud {
    p: CloudParameters,
    /// Of reads and of writes.
    open: [Open; 2],
    /// Of reads and of writes, which spend the same unless they have limits of their own.
    requests: [Bucket; 2],
    bytes: [Bucket; 2],
    peak_requests: Bucket,
    peak_bytes: Bucket,
    rng: Rng,
    ended: BinaryHeap<Reverse<(u64, u64, u32)>>,
    sequence: u64,
}

impl Cloud {
    pub fn new(p: &CloudParameters) -> Cloud {
        let burst_ns = p.burst_ios.saturating_mul(1_000_000_000) / p.iops;
        let bytes_ns = (p.burst_bytes.0 as f64 * 1e3 / p.mb_per_s) as u64;
        Cloud {
            open: [Open::default(); 2],
            requests: [burst_ns; 2].map(|burst_ns| Bucket { theoretical_ns: 0, burst_ns }),
            bytes: [bytes_ns; 2].map(|burst_ns| Bucket { theoretical_ns: 0, burst_ns }),
            peak_requests: Bucket { theoretical_ns: 0, burst_ns: 0 },
            peak_bytes: Bucket { theoretical_ns: 0, burst_ns: 0 },
            rng: Rng::from_words(&[p.seed]),
            ended: BinaryHeap::new(),
            sequence: 0,
            p: p.clone(),
        }
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.p.capacity_bytes.0
    }

    pub fn submit(&mut self, now_ns: u64, command: Command) {
        let pass_ns = match command.kind {
            Kind::Flush | Kind::Trim => now_ns,
            Kind::Read | Kind::Write => self.pass_ns(now_ns, &command),
        };
        let base_ns = if command.kind == Kind::Read { self.p.read_latency.ns } else { self.p.write_latency.ns };
        let tail_ns = (-libm::log(1.0 - self.rng.unit_f64()) * self.p.latency_tail.ns as f64) as u64;
        self.ended.push(Reverse((pass_ns + base_ns + tail_ns, self.sequence, command.id)));
        self.sequence += 1;
    }

    /// When all caps let a request pass.
    fn pass_ns(&mut self, now_ns: u64, command: &Command) -> u64 {
        let writes = command.kind == Kind::Write;
        let open = self.open[usize::from(writes)];
        let (iops, of_requests) = match self.p.write_iops {
            own if own > 0 && writes => (own, 1),
            _ => (self.p.iops, 0),
        };
        let (mb_per_s, of_bytes) =
            if writes && self.p.write_mb_per_s > 0.0 { (self.p.write_mb_per_s, 1) } else { (self.p.mb_per_s, 0) };
        let (bytes, unit_bytes) = (u64::from(command.bytes), self.p.io_unit_bytes.0);
        let units = bytes.div_ceil(unit_bytes).max(1);
        let merges = self.p.merge_from_bytes.0 > 0
            && bytes >= self.p.merge_from_bytes.0
            && open.end_bytes == command.offset_bytes
            && open.filled_bytes + bytes <= unit_bytes;
        let (filled_bytes, least_ns) = if merges {
            (open.filled_bytes + bytes, open.pass_ns)
        } else {
            (bytes - (units - 1) * unit_bytes, self.requests[of_requests].take(now_ns, units * 1_000_000_000 / iops))
        };
        let moving_ns = (bytes as f64 * 1e3 / mb_per_s) as u64;
        let baseline_ns = least_ns.max(self.bytes[of_bytes].take(now_ns, moving_ns)).max(now_ns);
        let pass_ns = baseline_ns.max(self.at_peak_ns(now_ns, if merges { 0 } else { units }, command.bytes));
        let end_bytes = command.offset_bytes + bytes;
        self.open[usize::from(writes)] = Open { end_bytes, filled_bytes, pass_ns };
        pass_ns
    }

    /// When the peak rates let it pass.
    fn at_peak_ns(&mut self, now_ns: u64, units: u64, bytes: u32) -> u64 {
        let mut pass_ns = now_ns;
        if let Some(cost_ns) = (units * 1_000_000_000).checked_div(self.p.peak_iops).filter(|_| units > 0) {
            pass_ns = pass_ns.max(self.peak_requests.take(now_ns, cost_ns));
        }
        if self.p.peak_mb_per_s > 0.0 {
            let moving_ns = (f64::from(bytes) * 1e3 / self.p.peak_mb_per_s) as u64;
            pass_ns = pass_ns.max(self.peak_bytes.take(now_ns, moving_ns));
        }
        pass_ns
    }

    pub fn next_event(&self) -> u64 {
        self.ended.peek().map_or(NEVER, |Reverse((end_ns, _, _))| *end_ns)
    }

    pub fn advance(&mut self, now_ns: u64, done: &mut Vec<u32>) {
        while let Some(Reverse((end_ns, _, id))) = self.ended.peek().copied() {
            if end_ns > now_ns {
                return;
            }
            self.ended.pop();
            done.push(id);
        }
    }

    /// A volume acknowledges what it has replicated, so nothing is lost.
    pub fn power_cut(&mut self) -> Vec<Lost> {
        self.ended.clear();
        Vec::new()
    }
}
