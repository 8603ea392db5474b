//! Members that fail during a run, spares that take over, and data that are lost.

mod common;

use engine::conductor::RunControl;
use engine::event::{BrickState, Event};
use plan::Profile;
use sim::session::{Options, prepare};

/// Drives of 64 MiB, so that a rebuild ends within a run.
fn options(overrides: &[&str]) -> Options {
    let mut bricks = common::brick_texts();
    let small = bricks["drives/wd2500jd"].replace("250_059_350_016", "67_108_864");
    assert!(small.contains("67_108_864"), "the drive's capacity stands in its file");
    bricks.insert("drives/small".into(), small);
    let mut overrides: Vec<String> = overrides.iter().map(|o| o.to_string()).collect();
    overrides.insert(0, "drive=small".into());
    Options { bricks, overrides, ..Options::default() }
}

#[derive(Debug, Default)]
struct Told {
    conditions: Vec<(u64, BrickState)>,
    /// (end of the interval, requests, errors)
    intervals: Vec<(u64, u64, u64)>,
    errnos: Vec<(String, u64)>,
    outstanding: u64,
    /// Instant, bytes in drives, drives, bytes in controllers, requests that failed.
    cuts: Vec<[u64; 5]>,
    background: Vec<(BrickState, u64, u64, u64)>,
}

impl Told {
    fn errors(&self) -> u64 {
        self.intervals.iter().map(|i| i.2).sum()
    }

    fn words(&self) -> Vec<&str> {
        self.conditions.iter().map(|c| c.1.name()).collect()
    }

    /// Requests a second between two instants.
    fn rate(&self, from_s: u64, to_s: u64) -> f64 {
        let within = |end_ns: u64| end_ns > from_s * 1_000_000_000 && end_ns <= to_s * 1_000_000_000;
        let count: u64 = self.intervals.iter().filter(|i| within(i.0)).map(|i| i.1).sum();
        count as f64 / (to_s - from_s) as f64
    }
}

fn run(target: &str, seconds: u32, reads: u32, overrides: &[&str]) -> Told {
    let text = format!(
        "title = \"t\"\n[[phase]]\nduration = \"{seconds}s\"\n[[phase.stream]]\nrequest = \"8KiB\"\naddress = \"random\"\n\
         depth = 4\noperations = {{ read = {reads}, write = {} }}\n",
        100 - reads
    );
    let profile = Profile::from_toml(&text, &[]).expect("a profile");
    let session = prepare(profile, &[target.to_string()], &options(overrides)).expect("a session");
    let mut told = Told::default();
    session.run(&RunControl::default(), &mut |event| match event {
        Event::BrickCondition { at_ns, condition, .. } => told.conditions.push((at_ns, condition)),
        Event::BrickBackground { condition, done_bytes, spent_ns, whole_bytes, .. } => {
            told.background.push((condition, done_bytes, spent_ns, whole_bytes));
        }
        Event::PowerCut { at_ns, drive_bytes, drives, controller_bytes, failed_requests, .. } => {
            told.cuts.push([at_ns, drive_bytes, drives, controller_bytes, failed_requests]);
        }
        Event::Interval(i) => {
            let count = |f: fn(&engine::event::CellEvent) -> u64| i.cells.iter().map(f).sum::<u64>();
            told.intervals.push((i.end_ns, count(|c| c.requests), count(|c| c.errors)));
        }
        Event::PhaseEnd(end) => {
            told.errnos.extend(end.errors_by_errno);
            told.outstanding += end.outstanding;
        }
        _ => {}
    });
    told
}

const MIRROR: &str = "sim:msr-2003-wd-hardware-mirror";
const STRIPES: &str = "sim:terraserver-2003";

#[test]
fn a_spare_takes_over_and_the_array_is_normal_again() {
    let told = run(MIRROR, 200, 100, &["fail_at=30s", "spares=1"]);
    assert_eq!(told.words(), ["rebuilding", "normal"]);
    let (began_ns, ended_ns) = (told.conditions[0].0, told.conditions[1].0);
    assert_eq!(began_ns, 30_000_000_000);
    assert_eq!((told.errors(), told.outstanding), (0, 0), "a mirror loses nothing");
    let (ref condition, done_bytes, spent_ns, whole_bytes) = told.background[0];
    assert_eq!((condition.name(), spent_ns), ("rebuilding", ended_ns - began_ns));
    assert_eq!(done_bytes, whole_bytes, "one member, once");
    // No faster than the controller's 1.7 MB/s beside reads, and not much slower.
    let rebuild_s = spent_ns as f64 / 1e9;
    let paced_s = done_bytes as f64 / 1.7e6;
    assert!(rebuild_s > paced_s * 0.98 && rebuild_s < paced_s * 2.0, "{rebuild_s} s, paced {paced_s} s");
    let end_s = ended_ns / 1_000_000_000;
    let (before, during, after) = (told.rate(0, 30), told.rate(32, end_s), told.rate(end_s + 2, 200));
    assert!(during < 0.7 * before, "{during} beside a rebuild, {before} before");
    assert!((after / before - 1.0).abs() < 0.03, "{after} afterwards, {before} before");
}

#[test]
fn without_a_spare_it_stays_degraded() {
    let told = run(MIRROR, 60, 100, &["fail_at=20s"]);
    assert_eq!(told.words(), ["degraded"]);
    assert_eq!(told.errors(), 0);
    assert!(told.rate(25, 60) < 0.65 * told.rate(0, 20), "one arm reads where two did");
}

#[test]
fn what_has_no_redundancy_fails_from_that_instant_on() {
    let told = run(STRIPES, 20, 100, &["controllers=1", "level=raid0", "members=4", "fail_at=10s"]);
    assert_eq!(told.words(), ["failed"]);
    let before: u64 = told.intervals.iter().filter(|i| i.0 <= 10_000_000_000).map(|i| i.2).sum();
    assert_eq!(before, 0);
    // A quarter of the places is gone; the failures are quick, so there are more of them than of the others.
    assert!(told.errors() > 100, "{told:?}");
    assert!(told.rate(11, 20) > 50.0, "what lies on the other members is still read");
    assert_eq!(told.errnos.iter().map(|e| e.0.as_str()).collect::<Vec<_>>(), ["EIO"]);
    assert_eq!(told.errnos[0].1, told.errors());
}

#[test]
fn a_second_failure_is_survived_by_raid6_and_by_no_raid5() {
    let failing = ["fail_at=[\"20s\", \"40s\"]", "controllers=1", "members=6", "spares=2"];
    let with = |level: &str, reads: u32| {
        let level = format!("level={level}");
        run(STRIPES, 300, reads, &[&failing[..], &[level.as_str()]].concat())
    };
    let five = with("raid5", 0);
    assert_eq!(five.words(), ["rebuilding", "failed"]);
    assert!(five.errors() > 0);
    assert_eq!(five.rate(60, 300), 0.0, "no write is taken any more");
    let six = with("raid6", 100);
    assert_eq!((six.errors(), six.words().last()), (0, Some(&"normal")), "{:?}", six.conditions);
    let (before, after) = (six.rate(0, 20), six.rate(250, 300));
    assert!((after / before - 1.0).abs() < 0.1, "{after} afterwards, {before} before; {:?}", six.conditions);
}

#[test]
fn members_of_two_kinds_are_as_large_as_the_smaller_and_wait_for_the_slower() {
    let mixed = ["controllers=1", "level=raid0", "members=4", "other_drive=cheetah-x15", "other_members=2"];
    let alike = run(STRIPES, 30, 100, &mixed[..3]);
    let two_kinds = run(STRIPES, 30, 100, &mixed);
    let fast = run(STRIPES, 30, 100, &[&mixed[..3], &["drive=cheetah-x15"]].concat());
    let (slow, mixed, fast) = (alike.rate(0, 30), two_kinds.rate(0, 30), fast.rate(0, 30));
    assert!(slow < mixed && mixed < fast, "{slow} {mixed} {fast}");
}

#[test]
fn failures_that_cannot_be_are_refused_in_one_line() {
    let profile = "title = \"r\"\n[[phase]]\nduration = \"1s\"\n[[phase.stream]]\nrequest = \"8KiB\"\n";
    let refused = |overrides: &[&str], words: &str| {
        let profile = Profile::from_toml(profile, &[]).expect("a profile");
        let message =
            prepare(profile, &[MIRROR.to_string()], &options(overrides)).err().map(String::from).unwrap_or_default();
        assert!(message.contains(words) && message.lines().count() == 1, "{overrides:?}: {message:?}");
    };
    refused(&["fail_at=1s", "fail_member=2"], "member 2 cannot fail");
    refused(&["fail_at=1s", "condition=degraded"], "normal condition");
    refused(&["fail_at=1s", "fail_member=[0, 1]"], "as many are needed");
    refused(&["fail_at=[\"1s\", \"2s\"]", "fail_member=[0, 0]"], "member 0 cannot fail twice");
    refused(&["fail_at=soon"], "");
    refused(&["power_cut_at=-1s"], "power_cut_at");
    refused(&["other_members=1"], "name other_drive");
}

#[test]
fn a_power_cut_loses_what_was_acknowledged_and_the_run_goes_on() {
    let cut = |target: &str, more: &[&str]| {
        let mut overrides = vec!["power_cut_at=10s"];
        overrides.extend(more);
        run(target, 20, 0, &overrides)
    };
    // 16 writes of 8 KiB are what each drive's cache takes; the controller has none.
    let cached = cut(MIRROR, &[]);
    let [at_ns, drive_bytes, drives, controller_bytes, failed] = cached.cuts[0];
    assert_eq!((cached.cuts.len(), at_ns, drives, controller_bytes, failed), (1, 10_000_000_000, 2, 0, 4));
    assert!((2 * 14 * 8192..=2 * 17 * 8192).contains(&drive_bytes), "{drive_bytes}");
    assert_eq!(cached.intervals.iter().map(|i| i.2).sum::<u64>(), 4, "those under way, and no others");
    assert!((cached.rate(12, 20) / cached.rate(2, 10) - 1.0).abs() < 0.1, "afterwards all is as it was");
    let through = cut(MIRROR, &["write_cache=false"]);
    assert_eq!((through.cuts[0][1], through.cuts[0][2]), (0, 0));
    // A cache with a battery keeps what it has; without one all of it is gone.
    let shelf = "sim:overland-2007-sata";
    assert_eq!(cut(shelf, &[]).cuts[0][3], 0);
    let gone = cut(shelf, &["controller.battery=false"]).cuts[0][3];
    assert!(gone > 32 << 20, "{gone} bytes of 256 MiB");
}
