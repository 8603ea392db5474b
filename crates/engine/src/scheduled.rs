//! Duty: what the scheduler gave the threads of loops, and by that whether the generator was the limit of a phase.
//!
//! Refusal: it reads the account of the calling thread alone, and nothing while a loop measures.

use record::event::Bound;

/// A loop whose own work is on a CPU for so much of its time, or threads that use so much of the CPU time that they could
/// have, may be what limits the figures.
const BOUND_OWN_SHARE: f64 = 0.5;
const BOUND_CPU_SHARE: f64 = 0.97;
/// CPU time is counted in ticks of up to 10 ms; a shorter phase says nothing of it.
const BOUND_JUDGED_NS: u64 = 100_000_000;
/// The kernel's account of a thread: time on a CPU, time that it was ready to run and had none, and turns.
const ACCOUNT: &str = "/proc/thread-self/schedstat";

/// Of one thread, or the sum of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scheduled {
    pub cpu_ns: u64,
    pub wait_ns: u64,
}

impl Scheduled {
    /// None where the kernel keeps no such account.
    pub fn of_this_thread() -> Option<Scheduled> {
        Scheduled::parse(&std::fs::read_to_string(ACCOUNT).ok()?)
    }

    fn parse(text: &str) -> Option<Scheduled> {
        let mut words = text.split_ascii_whitespace().map(str::parse);
        Some(Scheduled { cpu_ns: words.next()?.ok()?, wait_ns: words.next()?.ok()? })
    }

    pub fn since(self, before: Scheduled) -> Scheduled {
        Scheduled {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            wait_ns: self.wait_ns.saturating_sub(before.wait_ns),
        }
    }

    /// None unless every loop has told its part: a part of them says nothing of all. A kernel that is built without these
    /// accounts shows zeroes; one that has them shows 0 of a thread until it has left its CPU for the first time.
    pub fn of_all(told: &[Scheduled], loops: usize) -> Option<Scheduled> {
        let sum = |all: Scheduled, one: &Scheduled| Scheduled {
            cpu_ns: all.cpu_ns + one.cpu_ns,
            wait_ns: all.wait_ns + one.wait_ns,
        };
        let all = told.iter().fold(Scheduled::default(), sum);
        (told.len() == loops && all.cpu_ns > 0).then_some(all)
    }
}

/// What a phase is judged by; times are sums over its loops.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub loops: usize,
    /// Processors on which the loops may run.
    pub cpus: usize,
    pub loop_ns: u64,
    /// Time in which a loop was neither in its device nor waiting for it, on a CPU or not.
    pub own_ns: u64,
    /// CPU time of the process, the kernel's work for it included.
    pub process_ns: u64,
    pub scheduled: Option<Scheduled>,
    /// Every request was due at an instant of its own, and was sent. A loop that waits for such an instant on a CPU, so as
    /// not to miss it, uses all its time, and could send no more.
    pub pace_kept: bool,
}

impl Bounds {
    pub fn bound(&self) -> Bound {
        match self.loop_ns >= BOUND_JUDGED_NS * self.loops as u64 && !self.pace_kept {
            true if self.own_cpu_share() > BOUND_OWN_SHARE => Bound::Own,
            true if self.cpu_share() > BOUND_CPU_SHARE => Bound::Cpu,
            _ => Bound::No,
        }
    }

    /// Where in a loop's time its waits for a CPU fell is not known: all of them may have been in its own time. What is
    /// left was on a CPU for certain, as far as the loops were on one at all.
    pub fn own_cpu_share(&self) -> f64 {
        let (cpu_ns, wait_ns) = self.scheduled.map_or((self.process_ns, 0), |s| (s.cpu_ns, s.wait_ns));
        self.own_ns.saturating_sub(wait_ns).min(cpu_ns) as f64 / self.loop_ns.max(1) as f64
    }

    pub fn wait_share(&self) -> Option<f64> {
        self.scheduled.map(|s| (s.wait_ns as f64 / self.loop_ns.max(1) as f64).min(1.0))
    }

    /// Of the CPU time that so many threads can have on so many processors.
    fn cpu_share(&self) -> f64 {
        let most_ns = self.loop_ns as f64 / self.loops.max(1) as f64 * self.loops.min(self.cpus).max(1) as f64;
        self.process_ns as f64 / most_ns.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn bounds(own_ns: u64, cpu_ns: u64, wait_ns: u64) -> Bounds {
        let scheduled = Some(Scheduled { cpu_ns, wait_ns });
        Bounds { loops: 1, cpus: 2, loop_ns: SECOND, own_ns, process_ns: cpu_ns, scheduled, pace_kept: false }
    }

    #[test]
    fn a_rate_that_was_kept_had_no_limit_but_itself() {
        for busy in [bounds(600_000_000, 700_000_000, 0), bounds(4_000_000, 990_000_000, 0)] {
            assert_ne!(busy.bound(), Bound::No);
            assert_eq!(Bounds { pace_kept: true, ..busy }.bound(), Bound::No);
        }
    }

    /// A loop that other programs kept from its CPU for most of a second is not the limit, however long its own time was.
    #[test]
    fn only_time_on_a_cpu_makes_the_generator_the_limit() {
        let preempted = bounds(600_000_000, 4_000_000, 590_000_000);
        assert_eq!(preempted.bound(), Bound::No);
        assert!(preempted.own_cpu_share() <= 0.01);
        assert!((preempted.wait_share().unwrap() - 0.59).abs() < 1e-9);
        let unknown = Bounds { scheduled: None, ..preempted };
        assert_eq!((unknown.bound(), unknown.wait_share()), (Bound::No, None));
        assert_eq!(bounds(600_000_000, 700_000_000, 10_000_000).bound(), Bound::Own);
        assert_eq!(bounds(100_000_000, 990_000_000, 0).bound(), Bound::Cpu);
        let short = Bounds { loop_ns: SECOND / 20, ..bounds(SECOND / 20, SECOND / 20, 0) };
        assert_eq!(short.bound(), Bound::No);
    }

    /// Sixty-four threads on two processors cannot use more than two of them.
    #[test]
    fn threads_that_share_processors_are_judged_by_these() {
        let crowd = Bounds { loops: 64, loop_ns: 64 * SECOND, process_ns: 2 * SECOND, ..bounds(0, 2 * SECOND, 0) };
        assert_eq!(crowd.bound(), Bound::Cpu);
        assert_eq!(Bounds { process_ns: SECOND, ..crowd }.bound(), Bound::No);
    }

    #[test]
    fn an_account_is_known_of_all_loops_or_of_none() {
        let one = Scheduled::parse("2500 700 3\n").unwrap();
        assert_eq!(one, Scheduled { cpu_ns: 2500, wait_ns: 700 });
        assert_eq!(Scheduled::of_all(&[one, one], 2), Some(Scheduled { cpu_ns: 5000, wait_ns: 1400 }));
        assert_eq!(Scheduled::of_all(&[one], 2), None);
        assert_eq!(Scheduled::of_all(&[Scheduled::default()], 1), None);
        assert_eq!(Scheduled::parse(""), None);
    }
}
