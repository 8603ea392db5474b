//! Lockstep: no worker is ever more than a round ahead of another, whatever its target's speed.

mod virtual_storage;

use engine::event::Timed;
use virtual_storage::{Done, MS, Storage, US, run};

const MIB: u64 = 1 << 20;

fn profile(limit: &str, lockstep: &str, stream: &str) -> String {
    let one =
        |target: u32| format!("[[phase.stream]]\ntarget = {target}\nrequest = '4KiB'\naddress = 'random'\n{stream}\n");
    format!("title = 'lockstep'\n[[phase]]\n{limit}\n{lockstep}\n{}{}{}", one(0), one(1), one(2))
}

/// Targets of very different speed.
fn storage() -> Storage {
    Storage::new(4 * MIB, 1).timed(|order, _, dice| (u64::from(order.target) + 1) * 100 * US + dice.below(50 * US))
}

/// How many requests of each target had begun before each request began, at the widest.
fn widest(log: &[Done]) -> u64 {
    let mut log = log.to_vec();
    log.sort_by_key(|d| d.submitted_ns);
    let mut begun = [0u64; 3];
    let mut widest = 0;
    for done in &log {
        begun[usize::from(done.target)] += 1;
        widest = widest.max(begun.iter().max().unwrap_or(&0) - begun.iter().min().unwrap_or(&0));
    }
    widest
}

#[test]
fn free_targets_go_at_their_own_speed() {
    let told = run(storage(), &profile("duration = '1s'", "", ""));
    assert!(widest(&told.world().log) > 1000);
}

#[test]
fn a_round_begins_when_every_target_has_ended_the_one_before() {
    for (lockstep, round, stream) in [
        ("lockstep = { requests = 1 }", 1, ""),
        ("lockstep = { requests = 8 }", 8, "depth = 4"),
        ("lockstep = { bytes = '16KiB' }", 4, "depth = 2\nthink = '10us'"),
    ] {
        let told = run(storage(), &profile("duration = '1s'", lockstep, stream));
        let log = told.world().log.clone();
        assert!(log.len() > 300, "{}", log.len());
        assert!(widest(&log) <= round, "{lockstep}: {}", widest(&log));
        let mut by_target = [const { Vec::new() }; 3];
        log.iter().for_each(|d| by_target[usize::from(d.target)].push(*d));
        by_target.iter_mut().for_each(|of| of.sort_by_key(|d| d.submitted_ns));
        let rounds = by_target.iter().map(|of| of.len() / round as usize).min().unwrap_or(0);
        for number in 1..rounds {
            let span = |k: usize| k * round as usize..(k + 1) * round as usize;
            let before = by_target.iter().flat_map(|of| &of[span(number - 1)]).map(|d| d.ended_ns).max();
            let begins = by_target.iter().flat_map(|of| &of[span(number)]).map(|d| d.submitted_ns).min();
            assert!(begins >= before, "{lockstep}, round {number}: {begins:?} against {before:?}");
        }
    }
}

#[test]
fn waiting_for_the_others_is_no_time_of_the_storage() {
    let told = run(storage(), &profile("duration = '1s'", "lockstep = { requests = 1 }", ""));
    let worst = |stream: usize| {
        let cells = told.intervals(0).into_iter().flat_map(|i| &i.cells).filter(|c| c.stream == stream);
        cells.map(|c| c.measures[&Timed::Response].max_ns).max()
    };
    assert!(worst(0) < Some(MS / 5), "{:?}", worst(0));
    assert!(worst(2) >= Some(3 * MS / 10));
}

#[test]
fn a_limited_run_ends_whole() {
    let told = run(storage(), &profile("requests = 301", "lockstep = { requests = 2 }", ""));
    assert_eq!(told.requests(0), 301);
    assert_eq!(told.end(0).reason, "requests");
}
