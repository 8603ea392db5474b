//! A bare timer loop: how punctual this machine is without any I/O. Arguments: rate a second, seconds. Prints JSON.

use std::time::Duration;

use block::clock::Clock;
use block::punctual::Punctual;
use pace::Schedule;
use record::Histogram;

fn main() {
    let arguments: Vec<f64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let [rate, seconds] = arguments[..] else {
        eprintln!("usage: timer_loop RATE SECONDS");
        std::process::exit(2);
    };
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let clock = Clock::start();
    let mut schedule = Schedule::new(rate, plan::Arrivals::Constant, 0, 1, clock.now_ns() + 1_000_000, 1);
    let end_ns = clock.now_ns() + (seconds * 1e9) as u64;
    let mut lateness = Histogram::default();
    let mut punctual = Punctual::default();
    while schedule.due_ns() < end_ns {
        let due_ns = schedule.due_ns();
        let now_ns = clock.now_ns();
        // As the rings do: sleep until shortly before, then look at the clock.
        let sleep_ns = punctual.sleep_ns(due_ns.saturating_sub(now_ns));
        if sleep_ns > 0 {
            std::thread::sleep(Duration::from_nanos(sleep_ns));
            punctual.woke(now_ns + sleep_ns, clock.now_ns());
        }
        let mut now_ns = clock.now_ns();
        while now_ns < due_ns {
            std::hint::spin_loop();
            now_ns = clock.now_ns();
        }
        lateness.record(now_ns - due_ns, 1);
        schedule.advance();
    }
    println!("{{\"p50_ns\":{},\"p99_ns\":{}}}", lateness.percentile_ns(50.0), lateness.percentile_ns(99.0));
}
