//! Duty: when each operation is due. Open loops have a schedule of their own, constant or Poisson, which a late request
//! does not move; a log's time stamps are one, at any speed; in a closed loop an operation is due when the one before it in its slot ended, plus think time.
//!
//! Refusal: it never sleeps, never skips a due time and never looks at a clock.

mod log_timed;
mod random;

use plan::Arrivals;

pub use log_timed::{LogTimed, Speed};
pub use random::{SplitMix64, mix};

/// Fractional bits of a period, so that a rate of 7/s is off by 4 ns after a week.
const FRACTION_BITS: u32 = 20;

/// The schedule of one lane of an open loop. Lane `lane` of `lanes` takes its share of the stream's rate.
pub struct Schedule {
    arrivals: Arrivals,
    lane: u64,
    lanes: u64,
    anchor_ns: u64,
    issued: u64,
    /// Requests that are due together each time, and how many of them have been taken.
    burst: u64,
    taken: u64,
    /// Requests of the rate that one instant stands for.
    share: f64,
    /// The rate that the stream asked for, of which a ramp takes per cents.
    own_rate_per_s: f64,
    /// Constant: distance of two requests of the stream. Poisson: mean distance of two requests of this lane.
    period: u128,
    elapsed: u128,
    random: SplitMix64,
    /// The schedule before the last change of the rate, until which instant, while something of it is still due.
    before: Option<(Box<Schedule>, u64)>,
}

impl Schedule {
    /// `rate_per_s` is the whole stream's rate.
    pub fn new(rate_per_s: f64, arrivals: Arrivals, lane: u32, lanes: u32, start_ns: u64, seed: u64) -> Schedule {
        let mut schedule = Schedule {
            arrivals,
            lane: u64::from(lane),
            lanes: u64::from(lanes),
            anchor_ns: start_ns,
            issued: 0,
            burst: 1,
            taken: 0,
            share: 1.0,
            own_rate_per_s: rate_per_s,
            period: 0,
            elapsed: 0,
            random: SplitMix64::new(&[seed, lane.into()]),
            before: None,
        };
        schedule.restart(rate_per_s, start_ns);
        schedule
    }

    /// So many requests are due together, at as many fewer instants: the rate stays what it is.
    pub fn with_bursts(mut self, burst: u32) -> Schedule {
        if burst > 1 {
            (self.burst, self.share) = (u64::from(burst), f64::from(burst));
            self.restart(self.own_rate_per_s, self.anchor_ns);
        }
        self
    }

    /// So many requests are due at each of the schedule's instants.
    pub fn in_bursts(mut self, burst: u64) -> Schedule {
        self.burst = burst.max(1);
        self
    }

    /// Begins anew at this instant; what was due before is forgotten.
    pub fn resume_at(&mut self, now_ns: u64) {
        self.before = None;
        (self.anchor_ns, self.issued, self.taken, self.elapsed) = (now_ns, 0, 0, 0);
        if self.arrivals == Arrivals::Poisson {
            self.elapsed = self.gap();
        }
    }

    /// Moves a schedule that has not begun to its start.
    pub fn start_at(&mut self, start_ns: u64) {
        self.anchor_ns = start_ns;
    }

    /// Changes the rate from `now_ns` on. What was due before stays due.
    pub fn set_rate(&mut self, rate_per_s: f64, now_ns: u64) {
        if self.due_ns() < now_ns {
            // Numbers of its own, without taking one from the schedule that goes on beside it.
            let random = SplitMix64::new(&[!self.random.clone().next_u64()]);
            let (arrivals, lane, lanes) = (self.arrivals, self.lane, self.lanes);
            let new = Schedule { arrivals, lane, lanes, random, before: None, ..*self };
            self.before = Some((Box::new(std::mem::replace(self, new)), now_ns));
        }
        self.restart(rate_per_s, now_ns);
    }

    /// Changes the rate to so many per cent of the stream's own.
    pub fn set_load(&mut self, percent: f64, now_ns: u64) {
        self.set_rate(self.own_rate_per_s * percent / 100.0, now_ns);
    }

    fn restart(&mut self, rate_per_s: f64, now_ns: u64) {
        let one = (1u128 << FRACTION_BITS) as f64;
        let lanes = if self.arrivals == Arrivals::Poisson { self.lanes as f64 } else { 1.0 };
        // Rounded up: a request that is due exactly at the end of a phase must not slip in before it.
        self.period = (1e9 * lanes * self.share / rate_per_s * one).ceil().max(1.0) as u128;
        (self.anchor_ns, self.issued, self.taken, self.elapsed) = (now_ns, 0, 0, 0);
        if self.arrivals == Arrivals::Poisson {
            self.elapsed = self.gap();
        }
    }

    /// When the next request is due.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        if let Some((before, _)) = &self.before {
            return before.due_ns();
        }
        let offset = match self.arrivals {
            Arrivals::Constant => u128::from(self.lane + self.issued * self.lanes) * self.period,
            Arrivals::Poisson => self.elapsed,
        };
        self.anchor_ns + (offset >> FRACTION_BITS) as u64
    }

    /// The request that was due has been taken.
    #[inline]
    pub fn advance(&mut self) {
        if let Some((before, until_ns)) = &mut self.before {
            before.advance();
            if before.due_ns() >= *until_ns {
                self.before = None;
            }
            return;
        }
        self.taken += 1;
        if self.taken < self.burst {
            return;
        }
        self.taken = 0;
        self.issued += 1;
        if self.arrivals == Arrivals::Poisson {
            self.elapsed += self.gap();
        }
    }

    /// How many requests are due by `now_ns` and not taken; moves the schedule past them.
    pub fn skip_until(&mut self, now_ns: u64) -> u64 {
        let mut skipped = 0;
        while self.before.is_some() && self.due_ns() <= now_ns {
            self.advance();
            skipped += 1;
        }
        while self.taken > 0 && self.due_ns() <= now_ns {
            self.advance();
            skipped += 1;
        }
        if self.arrivals == Arrivals::Constant && self.due_ns() <= now_ns {
            let due = (u128::from(now_ns - self.anchor_ns) << FRACTION_BITS) / self.period;
            let last = (due as u64).saturating_sub(self.lane) / self.lanes;
            let more = (last + 1).saturating_sub(self.issued);
            self.issued += more;
            skipped += more * self.burst;
        }
        while self.due_ns() <= now_ns {
            self.advance();
            skipped += 1;
        }
        skipped
    }

    /// An exponential distance: −mean · ln(1 − u), u uniform in [0, 1).
    fn gap(&mut self) -> u128 {
        let u = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        (self.period as f64 * -libm::log1p(-u)) as u128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_times(schedule: &mut Schedule, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let due = schedule.due_ns();
                schedule.advance();
                due
            })
            .collect()
    }

    #[test]
    fn lanes_of_a_constant_stream_interleave_exactly() {
        let mut all: Vec<u64> = Vec::new();
        for lane in 0..3 {
            all.extend(due_times(&mut Schedule::new(3_000.0, Arrivals::Constant, lane, 3, 7, 1), 1000));
        }
        all.sort_unstable();
        for (k, due) in all.iter().enumerate() {
            let exact = 7.0 + k as f64 * 1e9 / 3_000.0;
            assert!((*due as f64 - exact).abs() <= 1.5, "request {k}: {due} against {exact}");
        }
    }

    #[test]
    fn a_constant_rate_does_not_drift_over_a_week() {
        let mut schedule = Schedule::new(7.0, Arrivals::Constant, 0, 1, 0, 1);
        let week_s = 7 * 86_400u64;
        schedule.skip_until(week_s * 1_000_000_000 - 1_000);
        assert!(schedule.due_ns().abs_diff(week_s * 1_000_000_000) < 10_000, "{}", schedule.due_ns());
    }

    #[test]
    fn poisson_has_its_mean_and_its_spread() {
        let mut schedule = Schedule::new(100_000.0, Arrivals::Poisson, 0, 1, 0, 42);
        let due = due_times(&mut schedule, 200_000);
        let gaps: Vec<f64> = due.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / gaps.len() as f64;
        // 200,000 samples: the standard error of the mean is 0.22 %, of the deviation about 0.5 %.
        assert!((mean / 10_000.0 - 1.0).abs() < 0.01, "mean {mean}");
        assert!((variance.sqrt() / 10_000.0 - 1.0).abs() < 0.02, "deviation {}", variance.sqrt());
    }

    /// Counts in windows vary as those of one Poisson stream do: the lanes share no random numbers.
    #[test]
    fn lanes_together_are_poisson_too() {
        for (seed, lanes) in [(1, 2), (1, 3), (1, 16), (2, 16), (1 << 40, 64)] {
            let lane = |lane| Schedule::new(1_000.0, Arrivals::Poisson, lane, lanes, 0, seed);
            let mut counts = vec![0u32; 2_000];
            for mut schedule in (0..lanes).map(lane) {
                while schedule.due_ns() < 200_000_000_000 {
                    counts[(schedule.due_ns() / 100_000_000) as usize] += 1;
                    schedule.advance();
                }
            }
            let mean = f64::from(counts.iter().sum::<u32>()) / 2_000.0;
            let variance = counts.iter().map(|c| (f64::from(*c) - mean).powi(2)).sum::<f64>() / 1_999.0;
            // The standard error of variance / mean over 2,000 windows is 3.2 %, of the mean 0.22 %.
            assert!((variance / mean - 1.0).abs() < 0.13, "seed {seed}, {lanes} lanes: {}", variance / mean);
            assert!((mean / 100.0 - 1.0).abs() < 0.01, "seed {seed}, {lanes} lanes: {mean}");
        }
    }

    #[test]
    fn same_seed_same_times_on_every_machine() {
        let mut schedule = Schedule::new(1000.0, Arrivals::Poisson, 1, 4, 0, 7);
        let hash = due_times(&mut schedule, 1000).iter().fold(0u64, |h, t| (h ^ t).wrapping_mul(0x100_0000_01B3));
        assert_eq!(hash, GOLDEN);
    }
    const GOLDEN: u64 = 5946694076763041415;

    #[test]
    fn skipping_counts_what_was_due() {
        let mut schedule = Schedule::new(1000.0, Arrivals::Constant, 1, 2, 0, 1);
        assert_eq!(schedule.skip_until(10_000_000), 5);
        assert!(schedule.due_ns() > 10_000_000);
    }

    #[test]
    fn a_burst_is_due_together() {
        let mut schedule = Schedule::new(100.0, Arrivals::Constant, 0, 1, 0, 1).in_bursts(3);
        assert_eq!(due_times(&mut schedule, 4), [0, 0, 0, 10_000_000]);
        // One of the second burst has been taken: two more of it, and the whole third.
        assert_eq!(schedule.skip_until(20_000_000), 5);
        schedule.resume_at(25_000_000);
        assert_eq!(due_times(&mut schedule, 4), [25_000_000, 25_000_000, 25_000_000, 35_000_000]);
    }

    #[test]
    fn bursts_keep_the_rate_and_have_their_variation() {
        let mut schedule = Schedule::new(10_000.0, Arrivals::Poisson, 0, 1, 0, 3).with_bursts(5);
        let due = due_times(&mut schedule, 200_000);
        assert!((due[199_999] as f64 / 20e9 - 1.0).abs() < 0.02, "{}", due[199_999]);
        let gaps: Vec<f64> = due.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / gaps.len() as f64;
        // The square of the variation is 2 b - 1.
        assert!((variance / mean / mean / 9.0 - 1.0).abs() < 0.05, "{}", variance / mean / mean);
        schedule.set_rate(1_000.0, due[199_999] + 1);
        while schedule.due_ns() <= due[199_999] {
            schedule.advance();
        }
        let due = due_times(&mut schedule, 20_000);
        assert!(((due[19_999] - due[0]) as f64 / 20e9 - 1.0).abs() < 0.1);
    }

    #[test]
    fn a_new_rate_forgets_nothing_that_was_due() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let mut schedule = Schedule::new(100.0, arrivals, 0, 1, 0, 1);
            let due = due_times(&mut Schedule::new(100.0, arrivals, 0, 1, 0, 1), 1_000);
            let by_then = due.iter().take_while(|t| **t < 1_000_000_000).count();
            due_times(&mut schedule, 10);
            schedule.set_rate(1.0, 1_000_000_000);
            schedule.set_rate(1000.0, 1_000_000_000);
            assert_eq!(due_times(&mut schedule, by_then - 10), due[10..by_then]);
            assert!(schedule.due_ns() >= 1_000_000_000);
        }
        let mut schedule = Schedule::new(100.0, Arrivals::Constant, 0, 1, 0, 1);
        schedule.set_rate(10.0, 1_000_000_000);
        assert_eq!(schedule.skip_until(2_000_000_000), 100 + 11);
    }

    #[test]
    fn a_new_rate_starts_at_its_own_time() {
        let mut schedule = Schedule::new(10.0, Arrivals::Constant, 0, 1, 0, 1);
        due_times(&mut schedule, 5);
        schedule.set_rate(1000.0, 450_000_000);
        assert_eq!(due_times(&mut schedule, 2), [450_000_000, 451_000_000]);
    }
}
