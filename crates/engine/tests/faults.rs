//! Every kind of damage, error and hang is found, named and counted; none is invented.

mod virtual_storage;

use engine::device::Operation;
use engine::event::{EndReason, Event, RunOutcome};
use std::collections::BTreeMap;
use virtual_storage::*;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const MIB: u64 = 1 << 20;

/// Fills the region twice, so that every block has a past, and then reads it.
const WRITE_TWICE_THEN_READ: &str = r#"
title = "verify"
[[phase]]
passes = 1
[[phase.stream]]
operations = { read = 0, write = 100 }
request = "4KiB"
depth = 16
verify = true
[[phase]]
passes = 1
[[phase.stream]]
operations = { read = 0, write = 100 }
request = "4KiB"
depth = 16
verify = true
[[phase]]
passes = 1
[[phase.stream]]
request = "4KiB"
depth = 16
verify = true
"#;

/// Blocks of the region that [`WRITE_TWICE_THEN_READ`] uses.
const BLOCKS: u64 = 1_024;

fn found(told: &Told) -> Vec<(u64, String)> {
    let mut found: Vec<(u64, String)> = told
        .errors()
        .iter()
        .inspect(|e| assert_eq!((e.kind.name(), e.phase, e.operation.name()), ("damage", 2, "read"), "{e:?}"))
        .map(|e| (e.offset_bytes, e.text.split(" at offset").next().unwrap_or_default().to_string()))
        .collect();
    found.sort();
    found
}

/// Damages some writes of the second pass and expects exactly `expected` of each, by block.
fn damaged_writes(fault: Fault, kind: &str, expected: impl Fn(u64) -> Vec<(u64, &'static str)>) {
    for seed in 1..4u64 {
        let victims: Vec<u64> = (0..20).map(|i| 40 + i * 47 + seed).collect();
        let hit: Vec<u64> = victims.iter().map(|b| BLOCKS + b).collect();
        let plot = move |order: &engine::device::Order, number, _: &mut Dice| {
            (order.operation == Operation::Write && hit.contains(&number)).then_some(fault)
        };
        let told = run(Storage::new(BLOCKS * 4096, seed).faulty(plot), WRITE_TWICE_THEN_READ);
        let mut wanted: Vec<(u64, String)> = victims
            .iter()
            .flat_map(|block| expected(*block))
            .map(|(block, name)| (block % BLOCKS * 4096, name.to_string()))
            .collect();
        wanted.sort();
        assert_eq!(found(&told), wanted, "{fault:?}, seed {seed}");
        let by_kind = &told.end(2).errors_by_kind;
        assert_eq!(by_kind.get(kind).copied(), Some(wanted.len() as u64 / expected(0).len() as u64), "{by_kind:?}");
        assert_eq!(by_kind.values().sum::<u64>(), wanted.len() as u64);
        assert_eq!(told.requests(2) + told.failures(2), BLOCKS);
        assert_eq!(told.failures(2), wanted.len() as u64, "a damaged read is no success");
        assert_eq!((told.failures(0), told.failures(1)), (0, 0));
        assert_eq!(told.outcome(), (RunOutcome::Done, None));
    }
}

#[test]
fn flipped_bits_are_found() {
    damaged_writes(Fault::Flip, "bits", |block| vec![(block, "bit damage")]);
}

#[test]
fn torn_writes_are_found() {
    damaged_writes(Fault::Torn, "torn", |block| vec![(block, "torn block")]);
}

#[test]
fn lost_writes_are_found() {
    damaged_writes(Fault::Lost, "stale", |block| vec![(block, "stale block")]);
}

#[test]
fn misplaced_writes_are_found_at_both_places() {
    // 30 blocks back, which the same pass has already written: depth 16 lets no write fall so far behind.
    let back = BLOCKS - 30;
    damaged_writes(Fault::Elsewhere(back), "misplaced", |block| {
        vec![(block, "stale block"), (block + back, "misplaced block")]
    });
}

#[test]
fn a_first_write_that_was_lost_leaves_an_unwritten_block() {
    let plot = |order: &engine::device::Order, number, _: &mut Dice| {
        (order.operation == Operation::Write && number == 77).then_some(Fault::Lost)
    };
    let profile = WRITE_TWICE_THEN_READ.replacen("passes = 1", "passes = 1\nname = \"first\"", 1);
    let (first, rest) = profile.split_once("[[phase]]").expect("a phase");
    let second = rest.find("[[phase]]").expect("a second phase");
    let read = rest.rfind("[[phase]]").expect("a third phase");
    let profile = format!("{first}[[phase]]{}{}", &rest[..second], &rest[read..]);
    let told = run(Storage::new(BLOCKS * 4096, 3).faulty(plot), &profile);
    let damage: Vec<_> = told.errors().iter().map(|e| (e.phase, e.offset_bytes)).collect();
    assert_eq!(damage, [(1, 77 * 4096)]);
    assert_eq!(told.end(1).errors_by_kind, BTreeMap::from([("unwritten".to_string(), 1)]));
}

#[test]
fn reads_that_bring_wrong_bytes_are_found_each_time() {
    let cases = [(Fault::Flip, "bits", "bit damage"), (Fault::Elsewhere(5), "misplaced", "misplaced block")];
    for (fault, kind, name) in cases {
        for seed in 1..4 {
            let plot = move |order: &engine::device::Order, _, dice: &mut Dice| {
                (order.operation == Operation::Read && dice.hit(5_000)).then_some(fault)
            };
            let profile = r#"
                title = "reads"
                interval = "100ms"
                [[phase]]
                passes = 1
                [[phase.stream]]
                operations = { read = 0, write = 100 }
                request = "4KiB"
                depth = 8
                verify = true
                [[phase]]
                requests = 40000
                [[phase.stream]]
                request = "4KiB"
                address = "random"
                depth = 16
                verify = true
            "#;
            let told = run(Storage::new(4 * MIB, seed).faulty(plot), profile);
            let world = told.world();
            let mut injected: Vec<(u64, u64)> =
                world.log.iter().filter(|d| d.fault.is_some()).map(|d| (d.ended_ns, d.offset_bytes)).collect();
            let mut reported: Vec<(u64, u64)> = told.errors().iter().map(|e| (e.at_ns, e.offset_bytes)).collect();
            injected.sort_unstable();
            reported.sort_unstable();
            assert!(injected.len() > 100, "{}", injected.len());
            assert_eq!(reported, injected);
            assert!(told.errors().iter().all(|e| e.text.starts_with(name)));
            assert_eq!(told.end(1).errors_by_kind, BTreeMap::from([(kind.to_string(), injected.len() as u64)]));
            assert_eq!(told.requests(1), 40_000 - injected.len() as u64);
        }
    }
}

fn rough_sea(address: &str, requests: u64) -> String {
    format!(
        r#"
        title = "rough sea"
        interval = "50ms"
        hang_after = "15s"
        [[phase]]
        requests = {requests}
        [[phase.stream]]
        operations = {{ read = 50, write = 50 }}
        request = [{{ size = "4KiB", share = 60 }}, {{ size = "16KiB", share = 40 }}]
        align = "4KiB"
        address = {address}
        depth = 16
        verify = true
        "#
    )
}

fn errors_and_hangs(_: &engine::device::Order, _: u64, dice: &mut Dice) -> Option<Fault> {
    match dice.below(20_000) {
        0..40 => Some(Fault::Errno(EIO)),
        40..60 => Some(Fault::Errno(ENOSPC)),
        60..90 => Some(Fault::Short),
        90 => Some(Fault::Late(40 * S)),
        _ => None,
    }
}

/// Overlapping requests, errors, short transfers and hangs, and storage that is otherwise right: no damage is told.
fn no_damage_is_invented(address: &str, seed: u64) {
    let told = run(Storage::new(2 * MIB, seed).faulty(errors_and_hangs), &rough_sea(address, 100_000));
    let world = told.world();
    assert_eq!(world.in_flight_most, 16);
    let mut by_kind: BTreeMap<String, u64> = BTreeMap::new();
    let mut by_errno: BTreeMap<String, u64> = BTreeMap::new();
    let (mut good, mut good_bytes, mut late) = (0, 0, 0);
    for done in &world.log {
        match done.fault {
            Some(Fault::Errno(errno)) => {
                *by_kind.entry("errno".into()).or_default() += 1;
                *by_errno.entry(if errno == EIO { "EIO".into() } else { "ENOSPC".into() }).or_default() += 1;
            }
            Some(Fault::Short) => *by_kind.entry("short".into()).or_default() += 1,
            fault => {
                late += u64::from(fault.is_some());
                good += 1;
                good_bytes += u64::from(done.request_bytes);
            }
        }
    }
    assert!(late > 0 && by_kind.len() == 2 && by_errno.len() == 2, "every fault must have happened");
    let end = told.end(0);
    assert_eq!(end.errors_by_kind, by_kind, "{address}, seed {seed}: {:?}", told.errors().last());
    assert_eq!(end.errors_by_errno, by_errno);
    let totals = told.totals(0);
    assert_eq!(totals.values().map(|t| t.0).sum::<u64>(), good);
    assert_eq!(totals.values().map(|t| t.1).sum::<u64>(), good_bytes);
    assert_eq!(totals.values().map(|t| t.2).sum::<u64>(), 100_000 - good);
    let hangs = told.events.iter().filter(|e| matches!(e, Event::Hang(_))).count() as u64;
    let hung = world.log.iter().filter(|d| d.ended_ns - d.submitted_ns > 20 * S).count() as u64;
    assert_eq!(hangs, hung);
}

#[test]
fn no_damage_is_invented_at_random_places() {
    (1..4).for_each(|seed| no_damage_is_invented("\"random\"", seed));
}

#[test]
fn no_damage_is_invented_at_hot_places() {
    (4..6).for_each(|seed| no_damage_is_invented("{ kind = \"zipf\", theta = 1.2 }", seed));
}

#[test]
fn damage_in_a_rough_sea_is_told_only_where_it_was_done() {
    for seed in 10..13 {
        let plot = |order: &engine::device::Order, number: u64, dice: &mut Dice| match dice.below(5_000) {
            0..5 if order.operation == Operation::Write => Some(Fault::Lost),
            5..10 if order.operation == Operation::Write => Some(Fault::Flip),
            _ => errors_and_hangs(order, number, dice),
        };
        let told = run(Storage::new(2 * MIB, seed).faulty(plot), &rough_sea("\"random\"", 100_000));
        let world = told.world();
        let blocks = |d: &Done| d.offset_bytes / 4096..(d.offset_bytes + u64::from(d.request_bytes)) / 4096;
        let victims = world.log.iter().filter(|d| matches!(d.fault, Some(Fault::Lost | Fault::Flip)));
        let victims: Vec<u64> = victims.flat_map(blocks).collect();
        let damage: Vec<_> = told.errors().into_iter().filter(|e| e.kind == "damage").collect();
        assert!(damage.len() > 50, "{} of {} damaged writes were seen", damage.len(), victims.len());
        for error in damage {
            assert!(victims.contains(&(error.offset_bytes / 4096)), "invented: {error:?}");
            assert!(!error.text.contains('\n'));
        }
    }
}

#[test]
fn a_failed_write_is_no_damage() {
    for fault in [Fault::Errno(EIO), Fault::Errno(ENOSPC), Fault::Short] {
        let plot = move |order: &engine::device::Order, _, dice: &mut Dice| {
            (order.operation == Operation::Write && dice.hit(100_000)).then_some(fault)
        };
        let told = run(Storage::new(BLOCKS * 4096, 9).faulty(plot), WRITE_TWICE_THEN_READ);
        assert!(told.failures(0) > 50 && told.failures(1) > 50);
        assert_eq!(told.failures(2), 0, "{:?}", told.errors().last());
    }
}

#[test]
fn every_failure_is_described_up_to_a_limit_and_counted_beyond() {
    let plot = |_: &engine::device::Order, _, _: &mut Dice| Some(Fault::Errno(EIO));
    let profile =
        "title = 't'\ninterval = '10ms'\n[[phase]]\nrequests = 30000\n[[phase.stream]]\nrequest = '4K'\ndepth = 4\n";
    let told = run(Storage::new(MIB, 1).faulty(plot), profile);
    assert_eq!(told.end(0).errors_by_errno, BTreeMap::from([("EIO".to_string(), 30_000)]));
    assert_eq!((told.requests(0), told.failures(0)), (0, 30_000));
    assert_eq!(told.errors().len(), 1_000);
    let bytes: u64 = told.totals(0).values().map(|t| t.1).sum();
    assert_eq!(bytes, 0, "failures stand in no throughput figure");
    let error = told.errors()[0];
    assert_eq!((error.kind.name(), error.errno, error.operation.name()), ("errno", Some(EIO), "read"));
    assert!(error.text.contains("Input/output error"), "{}", error.text);
}

#[test]
fn a_hang_is_told_while_it_hangs() {
    let plot = |_: &engine::device::Order, number, _: &mut Dice| (number == 500).then_some(Fault::Late(40 * S));
    let profile =
        "title = 't'\n[[phase]]\nduration = '60s'\n[[phase.stream]]\nrequest = '4K'\ndepth = 2\nthink = '1ms'\n";
    let told = run(Storage::new(MIB, 1).faulty(plot), profile);
    let position = |wanted: &dyn Fn(&Event) -> bool| told.events.iter().position(wanted).expect("such an event");
    let hang_at = position(&|e| matches!(e, Event::Hang(_)));
    let Event::Hang(hang) = &told.events[hang_at] else { unreachable!() };
    let world = told.world();
    let victim = world.log.iter().find(|d| d.fault.is_some()).expect("the request that hung");
    assert_eq!((hang.offset_bytes, hang.request_bytes, hang.operation.name()), (victim.offset_bytes, 4096, "read"));
    assert!(hang.at_ns < victim.ended_ns, "told at {} of {}", hang.at_ns, victim.ended_ns);
    assert!((15 * S..17 * S).contains(&hang.outstanding_ns), "{}", hang.outstanding_ns);
    let last_before = told.events[..hang_at].iter().rev().find_map(|e| match e {
        Event::Interval(i) => Some(i.end_ns),
        _ => None,
    });
    assert!(last_before.is_some_and(|end_ns| end_ns <= hang.at_ns), "an interval that ended later was told before");
    assert_eq!(told.events.iter().filter(|e| matches!(e, Event::Hang(_))).count(), 1);
    assert_eq!(told.end(0).slowest[0].service_ns, victim.ended_ns - victim.submitted_ns);
    assert_eq!(told.end(0).reason.name(), "duration");
}

#[test]
fn a_request_that_never_ends_is_told_and_counted_as_outstanding_when_the_user_gives_up() {
    let plot = |_: &engine::device::Order, number, _: &mut Dice| (number == 500).then_some(Fault::Never);
    let profile =
        "title = 't'\nhang_after = '2s'\n[[phase]]\nduration = '1s'\n[[phase.stream]]\nrequest = '4K'\ndepth = 2\n";
    let told = run_watched(Storage::new(MIB, 1).faulty(plot), profile, |event, control| {
        if matches!(event, Event::Hang(_)) {
            control.abandon();
        }
    });
    let end = told.end(0);
    assert_eq!((end.outstanding, end.reason.name()), (1, "interrupted"));
    assert_eq!(told.outcome().0, RunOutcome::Interrupted);
    assert_eq!(told.requests(0) + 1, told.world().submitted);
}

#[test]
fn stop_on_error_ends_the_run_at_the_first() {
    let plot = |_: &engine::device::Order, number, _: &mut Dice| (number == 1_000).then_some(Fault::Errno(EIO));
    let profile = "title = 't'\nstop_on_error = true\n[[phase]]\nduration = '1h'\n[[phase.stream]]\nrequest = '4K'\ndepth = 4\n[[phase]]\nduration = '1h'\n[[phase.stream]]\nrequest = '4K'\n";
    let told = run(Storage::new(MIB, 1).faulty(plot), profile);
    let end = told.end(0);
    assert_eq!((end.reason.name(), end.phase), ("error", 0));
    assert_eq!(end.errors_by_errno, BTreeMap::from([("EIO".to_string(), 1)]));
    assert!(told.world().submitted < 1_020, "{} were submitted", told.world().submitted);
    assert_eq!(told.outcome(), (RunOutcome::Failed, Some(&EndReason::StoppedAtError)));
    let phases = told.events.iter().filter(|e| matches!(e, Event::Phase { .. })).count();
    assert_eq!(phases, 1, "no further phase begins");
}

#[test]
fn a_phase_that_writes_without_stamps_leaves_nothing_to_be_taken_for_damage() {
    let profile = WRITE_TWICE_THEN_READ.replacen(
        "verify = true\n[[phase]]\npasses = 1\n[[phase.stream]]\nrequest",
        "[[phase]]\npasses = 1\n[[phase.stream]]\nrequest",
        1,
    );
    assert_eq!(profile.matches("verify").count(), 3, "the title and two phases");
    let told = run(Storage::new(BLOCKS * 4096, 9), &profile);
    assert_eq!((told.requests(2), told.failures(2)), (BLOCKS, 0), "{:?}", told.errors().first());
}
