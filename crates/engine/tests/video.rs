//! Frames of video: due together at the format's rate, and dropped exactly when their response time exceeds the buffer.

mod virtual_storage;

use std::collections::BTreeMap;

use engine::device::Operation;
use engine::event::{Event, FramesEnd};
use virtual_storage::{Dice, Done, Fault, MS, S, Storage, Told, US, run};

const MIB: u64 = 1 << 20;

fn profile(phase: &str, stream: &str) -> String {
    format!(
        "title = 'video'\ninterval = '100ms'\n[[phase]]\n{phase}\n[[phase.stream]]\nrequest = '64KiB'\n\
         frames = {{ bytes = '150KiB', rate = 50, buffer = 3 }}\n{stream}\n"
    )
}

/// What became of frames by the log of the storage alone: in time, dropped, not known.
fn by_log(log: &[Done], workers: u64, phase_ns: u64, part_bytes: u64) -> BTreeMap<u64, (u64, u64, u64)> {
    const FRAME_NS: u64 = 20 * MS;
    let (frame_bytes, each, buffer_ns) = (152 << 10, 3, 3 * FRAME_NS);
    let mut ends: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    for done in log {
        let (worker, within) = (done.offset_bytes / part_bytes, done.offset_bytes % part_bytes);
        assert_eq!(within % frame_bytes % (64 << 10), 0, "requests of a frame lie behind each other");
        ends.entry((worker, within / frame_bytes)).or_default().push(done.ended_ns);
    }
    let mut found = BTreeMap::new();
    for worker in 0..workers {
        let counts: &mut (u64, u64, u64) = found.entry(worker).or_default();
        for frame in 0.. {
            // Rounded up by less than a ns a frame.
            let due_ns = (worker * FRAME_NS).div_ceil(workers) + frame * FRAME_NS;
            if due_ns >= phase_ns {
                break;
            }
            match ends.get(&(worker, frame)).filter(|e| e.len() as u64 == each).and_then(|e| e.iter().max()) {
                Some(end) if *end <= due_ns + buffer_ns => counts.0 += 1,
                Some(_) => counts.1 += 1,
                None if due_ns + buffer_ns < phase_ns => counts.1 += 1,
                None => counts.2 += 1,
            }
        }
    }
    found
}

fn told(told: &Told) -> BTreeMap<u64, (u64, u64, u64)> {
    let split = |f: &FramesEnd| (f.frames - f.dropped, f.dropped, f.unjudged);
    told.end(0).frames.iter().map(|f| (u64::from(f.worker), split(f))).collect()
}

fn dropped_in_cells(told: &Told) -> u64 {
    told.intervals(0).iter().flat_map(|i| &i.cells).map(|c| c.dropped).sum()
}

#[test]
fn every_frame_is_judged_as_the_log_of_the_storage_has_it() {
    let mut seen_drops = 0;
    for (seed, mean_us) in [(1, 1_000), (2, 5_000), (3, 12_000), (4, 20_000), (5, 40_000)] {
        let timing = move |_: &engine::device::Order, _: u64, dice: &mut Dice| dice.below(2 * mean_us) * US;
        let text = profile("duration = '4s'", "workers = 3\ndepth = 2");
        let run = run(Storage::new(96 * MIB, seed).timed(timing), &text);
        let expected = by_log(&run.world().log, 3, 4 * S, 32 * MIB);
        assert_eq!(told(&run), expected, "seed {seed}");
        let dropped: u64 = expected.values().map(|v| v.1).sum();
        assert_eq!(dropped_in_cells(&run), dropped);
        seen_drops += dropped;
    }
    assert!(seen_drops > 100, "{seen_drops}");
}

#[test]
fn a_stall_drops_exactly_the_frames_that_it_delays_too_long() {
    // For 200 ms from 1 s on nothing ends; frames are due every 20 ms and may take 60 ms.
    let timing = |_: &engine::device::Order, now_ns: u64, _: &mut Dice| {
        if (S..S + 200 * MS).contains(&now_ns) { S + 200 * MS - now_ns } else { 100 * US }
    };
    let run = run(Storage::new(12 * MIB, 1).timed(timing), &profile("duration = '2s'", "depth = 64"));
    let drops: Vec<(u64, u64)> = run
        .events
        .iter()
        .filter_map(|e| match e {
            Event::Drop(drop) => Some((drop.frame, drop.at_ns)),
            _ => None,
        })
        .collect();
    // Frames 50 (due at 1.00 s) to 56 (at 1.12 s) have to wait for more than 60 ms; frame 57 waits for exactly 60.
    assert_eq!(drops, (50..57).map(|f| (f, f * 20 * MS + 60 * MS)).collect::<Vec<_>>());
    let end = &run.end(0).frames[0];
    assert_eq!((end.frames, end.dropped, end.slowest_ns), (100, 7, 200 * MS));
    assert_eq!((end.first_dropped_ns, end.last_dropped_ns), (Some(1_060 * MS), Some(1_180 * MS)));
}

#[test]
fn a_failed_request_drops_its_frame_and_an_early_one_is_no_figure() {
    let plot = |_: &engine::device::Order, number: u64, _: &mut Dice| (number == 151).then_some(Fault::Errno(5));
    let text = profile("duration = '2s'\nwarmup = '500ms'", "depth = 4\noperations = { read = 0, write = 100 }");
    let run = run(Storage::new(12 * MIB, 1).faulty(plot), &text);
    assert!(run.world().log.iter().all(|d| d.operation == Operation::Write));
    let end = &run.end(0).frames[0];
    assert_eq!((end.frames, end.dropped, end.failed), (100, 1, 1));
    let slow = |_: &engine::device::Order, now_ns: u64, _: &mut Dice| if now_ns < 300 * MS { 100 * MS } else { US };
    let run = virtual_storage::run(Storage::new(12 * MIB, 1).timed(slow), &text);
    assert_eq!(run.end(0).frames[0].dropped, 0, "a frame of the warm-up is in no figure");
    assert!(run.end(0).frames[0].slowest_ns < MS);
}

#[test]
fn the_search_finds_how_many_players_a_disk_carries() {
    // One request at a time, 1 ms each: 1000 requests a second, and a player asks for 150.
    let mut free_ns = 0;
    let timing = move |_: &engine::device::Order, now_ns: u64, _: &mut Dice| {
        free_ns = now_ns.max(free_ns) + MS;
        free_ns - now_ns
    };
    let ramp = "ramp = { knob = 'workers', from = 1, to = 32, factor = 2, every = '4s', settle = '1s', search = 1, \
                limit = { when = 'dropped', above = 0 } }";
    let run = run(Storage::new(64 * MIB, 1).timed(timing), &profile(ramp, "depth = 16"));
    let found = run.events.iter().find_map(|e| match e {
        Event::RampEnd(end) => Some((end.found.map(|f| f.value), end.beyond)),
        _ => None,
    });
    assert_eq!(found, Some((Some(6.0), Some(7.0))));
    assert_eq!(run.end(0).reason.name(), "ramp");
}
