//! The run's clock: the processor's time-stamp counter where it can be trusted, else CLOCK_MONOTONIC.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the counter is compared with CLOCK_MONOTONIC: two readings of about 50 ns error each over 20 ms leave 5 ppm.
const CALIBRATION: Duration = Duration::from_millis(20);
/// Fractional bits of the ns-per-tick factor.
const SHIFT: u32 = 32;
/// Readings for the cost of one.
const COST_READINGS: u32 = 4096;

/// A clock in ns since its epoch. Copies share the epoch.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    source: Source,
    pub read_cost_ns: f64,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    #[cfg(target_arch = "x86_64")]
    Tsc {
        epoch_ticks: u64,
        ns_per_tick: u64,
    },
    Monotonic {
        epoch_ns: u64,
    },
}

impl Clock {
    /// A clock that starts now. The counter's rate is found once a process.
    pub fn start() -> Clock {
        let source = tsc_source().unwrap_or_else(|| Source::Monotonic { epoch_ns: monotonic_ns() });
        let mut clock = Clock { source, read_cost_ns: 0.0 };
        let before = Instant::now();
        for _ in 0..COST_READINGS {
            std::hint::black_box(clock.now_ns());
        }
        clock.read_cost_ns = before.elapsed().as_nanos() as f64 / f64::from(COST_READINGS);
        clock
    }

    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        match self.source {
            #[cfg(target_arch = "x86_64")]
            Source::Tsc { epoch_ticks, ns_per_tick } => {
                let ticks = ticks().saturating_sub(epoch_ticks);
                ((u128::from(ticks) * u128::from(ns_per_tick)) >> SHIFT) as u64
            }
            Source::Monotonic { epoch_ns } => monotonic_ns() - epoch_ns,
        }
    }

    pub fn name(&self) -> &'static str {
        match self.source {
            #[cfg(target_arch = "x86_64")]
            Source::Tsc { .. } => "tsc",
            Source::Monotonic { .. } => "monotonic",
        }
    }
}

fn monotonic_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
fn tsc_source() -> Option<Source> {
    static NS_PER_TICK: OnceLock<Option<u64>> = OnceLock::new();
    let ns_per_tick = (*NS_PER_TICK.get_or_init(calibrate))?;
    Some(Source::Tsc { epoch_ticks: ticks(), ns_per_tick })
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc_source() -> Option<Source> {
    static _UNUSED: OnceLock<()> = OnceLock::new();
    None
}

/// The counter is trusted where it is invariant and the kernel itself keeps time by it.
#[cfg(target_arch = "x86_64")]
fn calibrate() -> Option<u64> {
    // Leaf 0x8000_0007, EDX bit 8: the counter runs at one rate in all power states (AMD APM 3, Intel SDM 2A).
    let leaf = std::arch::x86_64::__cpuid(0x8000_0000);
    let invariant = leaf.eax >= 0x8000_0007 && std::arch::x86_64::__cpuid(0x8000_0007).edx & (1 << 8) != 0;
    let kernel = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let trusted = kernel.is_ok_and(|name| matches!(name.trim(), "tsc" | "kvm-clock"));
    if !(invariant && trusted) {
        return None;
    }
    let (ticks_before, ns_before) = pair();
    std::thread::sleep(CALIBRATION);
    let (ticks_after, ns_after) = pair();
    let factor = (u128::from(ns_after - ns_before) << SHIFT) / u128::from((ticks_after - ticks_before).max(1));
    u64::try_from(factor).ok().filter(|f| *f > 0)
}

/// Both clocks at nearly one instant: the pair of several that took least time.
#[cfg(target_arch = "x86_64")]
fn pair() -> (u64, u64) {
    let one = || {
        let before = ticks();
        let ns = monotonic_ns();
        let after = ticks();
        (after - before, before + (after - before) / 2, ns)
    };
    let (_, ticks, ns) = (0..64).map(|_| one()).min().expect("64 readings");
    (ticks, ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_step_with_the_kernel() {
        let clock = Clock::start();
        let (ours, kernels) = (clock.now_ns(), monotonic_ns());
        std::thread::sleep(Duration::from_millis(200));
        let (ours, kernels) = (clock.now_ns() - ours, monotonic_ns() - kernels);
        // 500 ppm is what an open loop is allowed to be off; a preemption between the readings is allowed for as well.
        assert!(ours.abs_diff(kernels) < 100_000 + 5_000_000, "{ours} against {kernels}");
    }

    #[test]
    fn never_runs_back() {
        let clock = Clock::start();
        let mut last = 0;
        for _ in 0..100_000 {
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
