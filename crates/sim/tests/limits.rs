//! What no brick may do: never end, lose or make up bytes, be faster than its media and links, or faster without a cache.

mod common;
#[path = "common/loops.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod loops;

use engine::conductor::RunControl;
use engine::event::{Counted, Event, MemberWork, Timed};
use loops::{Places, brick, closed_loop};

use plan::Profile;
use proptest::prelude::*;
use sim::brick::{DriveParameters, resolve};
use sim::member::Kind;
use sim::session::{Options, prepare};
use sim::system::{Request, System};

/// What a run of one phase came to.
#[derive(Debug, Default)]
struct Ran {
    requests: u64,
    read_bytes: u64,
    written_bytes: u64,
    seconds: f64,
    /// Sum of service times, in s.
    waited_s: f64,
    /// The longest mean of a stream's interval, in ms.
    slowest_ms: f64,
    members: Vec<MemberWork>,
    /// Bytes of a rebuild, and the time it had.
    rebuilt: (u64, u64),
}

fn run(target: &str, phase: &str, stream: &str) -> Result<Ran, String> {
    let text = format!("title = \"limits\"\ninterval = \"1s\"\n[[phase]]\n{phase}\n[[phase.stream]]\n{stream}\n");
    run_profile(target, &text)
}

fn run_profile(target: &str, text: &str) -> Result<Ran, String> {
    let profile = Profile::from_toml(text, &[]).map_err(|e| e.to_string())?;
    let options = Options { bricks: common::brick_texts(), ..Options::default() };
    let session = prepare(profile, &[target.to_string()], &options)?;
    let mut ran = Ran::default();
    session.run(&RunControl::default(), &mut |event| match event {
        Event::Interval(i) if !i.drain => {
            ran.seconds += (i.end_ns - i.start_ns) as f64 / 1e9;
            for cell in &i.cells {
                let mean_ns = cell.measures[&Timed::Service].mean_ns;
                ran.requests += cell.requests;
                ran.waited_s += cell.requests as f64 * mean_ns / 1e9;
                ran.slowest_ms = ran.slowest_ms.max(mean_ns / 1e6);
                match cell.operation {
                    Counted::Read => ran.read_bytes += cell.bytes,
                    Counted::Write => ran.written_bytes += cell.bytes,
                    _ => {}
                }
            }
        }
        Event::BrickMembers { members, .. } => ran.members = members,
        Event::BrickBackground { done_bytes, spent_ns, .. } => ran.rebuilt = (done_bytes, spent_ns),
        _ => {}
    });
    Ok(ran)
}

fn rate(target: &str, pattern: &str, reads: u32, bytes: u32, depth: u32) -> f64 {
    let stream = format!(
        "address = \"{pattern}\"\nrequest = {bytes}\ndepth = {depth}\noperations = {{ read = {reads}, write = {} }}",
        100 - reads
    );
    let ran = run(target, "duration = \"20s\"", &stream).expect("a brick that runs");
    ran.requests as f64 / ran.seconds
}

#[test]
fn a_write_larger_than_the_cache_ends_at_the_pace_of_the_medium() {
    let mib_per_s = rate("sim:microdrive-3k4", "sequential", 0, 1 << 20, 1);
    // 7.2 MB/s at the outer edge.
    assert!((5.5..=7.0).contains(&mib_per_s), "{mib_per_s} MiB/s");
    assert!(rate("sim:microdrive-3k4", "random", 0, 1 << 20, 4) > 3.0);
}

#[test]
fn turning_a_write_cache_off_makes_no_load_faster() {
    for drive in ["barracuda-es-500", "nearline-20tb", "wd2500jd"] {
        for (pattern, reads) in [("sequential", 70), ("sequential", 0), ("random", 70), ("random", 0)] {
            for depth in [1, 4, 32] {
                let with = |on: bool| rate(&format!("sim:{drive},write_cache={on}"), pattern, reads, 8192, depth);
                let (on, off) = (with(true), with(false));
                assert!(on > 0.8 * off, "{drive} {pattern} {reads} % reads {depth} deep: {on}/s with, {off}/s without");
            }
        }
    }
}

#[test]
fn mirrors_of_md_have_any_number_of_members() {
    let whole = System::new(&brick("nvme-tlc-3840")).expect("a drive").capacity_bytes();
    for (level, members, share) in
        [("raid1", 3, 1.0), ("raid10", 2, 1.0), ("raid10", 3, 1.5), ("raid10", 5, 2.5), ("raid10", 4, 2.0)]
    {
        let spoken = format!("nvme-tlc-3840,software=linux-md,level={level},members={members}");
        let mut system = System::new(&brick(&spoken)).expect("md takes it");
        let ratio = system.capacity_bytes() as f64 / whole as f64;
        assert!((ratio / share - 1.0).abs() < 0.001, "{spoken}: {ratio} drives");
        let copies = if level == "raid1" { 3 } else { 2 };
        let mut places = Places::of(&system);
        closed_loop(&mut system, Kind::Write, 8192, 4, 2_000, || places.next());
        let written: u64 = system.members_work().iter().map(|m| m.written_bytes).sum();
        assert!(written >= copies * 2_000 * 8192 && written < copies * 2_010 * 8192, "{spoken}: {written}");
        let (least, most) = (
            system.members_work().iter().map(|m| m.writes).min().unwrap_or(0),
            system.members_work().iter().map(|m| m.writes).max().unwrap_or(0),
        );
        assert!(most * 3 < least * 4, "{spoken}: from {least} to {most} writes");
        let rebuilding = format!("sim:{spoken},condition=rebuilding");
        let ran =
            run(&rebuilding, "duration = \"1s\"", "request = 8192\naddress = \"random\"\ndepth = 4").expect("runs");
        assert!(ran.rebuilt.0 > 0, "{spoken}");
    }
    let texts = common::brick_texts();
    let fixed = resolve("msr-2003-wd,level=raid1,members=3", &texts, &[]).expect_err("the 3ware mirrors two").message;
    assert!(fixed.contains("raid1 takes 2"), "{fixed}");
}

#[test]
fn each_controller_has_a_volume_of_its_own_which_takes_what_its_level_needs() {
    let texts = common::brick_texts();
    let drive = System::new(&brick("wd2500jd")).expect("a drive").capacity_bytes() as f64;
    for (spoken, each, takes, remedy) in [
        ("terraserver-2003,members=14", 7, "an even number", "members=12 or 16"),
        ("openbench-2003-raid10,controllers=2,members=14", 7, "an even number", "members=12 or 16"),
        ("terraserver-2003,members=6", 3, "an even number", "members=4 or 8"),
        ("terraserver-2003,members=14,spares=4", 7, "an even number", "members=12"),
        ("terraserver-2003,members=2", 1, "at least 2", "members=4"),
        ("terraserver-2003,level=raid1,members=2", 1, "2", "members=4"),
        ("terraserver-2003,level=raid1,members=8", 4, "2", "members=4"),
        ("terraserver-2003,level=raid5,members=4", 2, "at least 3", "members=6"),
        ("terraserver-2003,level=raid6,members=6", 3, "at least 4", "members=8"),
    ] {
        let message = resolve(spoken, &texts, &[]).expect_err(spoken).message;
        assert!(message.contains(&format!("{each} on each of 2 controllers")), "{spoken}: {message}");
        assert!(message.contains(&format!("takes {takes};")), "{spoken}: {message}");
        assert!(message.ends_with(remedy) && message.lines().count() == 1, "{spoken}: {message}");
    }
    let none = resolve("terraserver-2003,members=0,controllers=4294967295", &texts, &[]).expect_err("no drive").message;
    assert!(none.contains("0 members; this level takes from"), "{none}");
    let ports = "terraserver-2003,controller.ports=2,members=2,spares=2";
    let full = resolve(ports, &texts, &[]).expect_err(ports).message;
    assert!(full.ends_with("take controllers with more ports"), "{full}");
    for (spoken, share) in [
        ("terraserver-2003,members=12", 6.0),
        ("terraserver-2003,members=4", 2.0),
        ("terraserver-2003,level=raid1,members=4", 2.0),
        ("terraserver-2003,level=raid5,members=6", 4.0),
        ("terraserver-2003,level=raid6,members=8", 4.0),
        ("terraserver-2003,level=raid0,members=2", 2.0),
        ("terraserver-2003,software=linux-md,members=14", 7.0),
    ] {
        let mut system = System::new(&brick(spoken)).expect(spoken);
        let ratio = system.capacity_bytes() as f64 / drive;
        assert!((ratio / share - 1.0).abs() < 0.001, "{spoken}: {ratio} drives");
        let mut places = Places::of(&system);
        closed_loop(&mut system, Kind::Write, 8192, 8, 2_000, || places.next());
        let busy = system.members_work().iter().filter(|m| m.writes > 0).count();
        assert_eq!(busy, system.members_work().len(), "{spoken}: all members are written");
    }
}

#[test]
fn one_member_of_an_odd_raid10_may_go_and_neighbours_may_not() {
    for (members, lost) in [("[0]", false), ("[0, 1]", true), ("[0, 2]", false)] {
        let times = if members == "[0]" { "[\"1s\"]" } else { "[\"1s\", \"1s\"]" };
        let failing = [format!("fail_at={times}"), format!("fail_member={members}")];
        let texts = common::brick_texts();
        let spoken = "nvme-tlc-3840,software=linux-md,level=raid10,members=5";
        let mut system = System::new(&resolve(spoken, &texts, &failing).expect("a brick")).expect("builds");
        system.advance(2_000_000_000);
        let failed = system.take_changes().iter().any(|c| format!("{c:?}").contains("Failed"));
        assert_eq!(failed, lost, "{members}");
    }
}

#[test]
fn a_mirror_of_flash_streams_from_all_of_its_members() {
    let alone = rate("sim:nvme-tlc-3840", "sequential", 100, 131_072, 64);
    for members in [2, 3] {
        let target = format!("sim:nvme-tlc-3840,software=linux-md,level=raid1,members={members}");
        let ratio = rate(&target, "sequential", 100, 131_072, 64) / alone;
        assert!((ratio / f64::from(members) - 1.0).abs() < 0.1, "{members} members: {ratio} times one");
    }
}

#[test]
fn reads_of_flash_have_a_tail_one_deep() {
    let mut system = System::new(&brick("nvme-tlc-3840")).expect("a drive");
    let mut places = Places::of(&system);
    let mut sorted: Vec<u64> = Vec::new();
    let mut now_ns = 0;
    for tag in 0..20_000 {
        let offset_bytes = places.next();
        system.submit(now_ns, Request { tag, kind: Kind::Read, offset_bytes, bytes: 4096, durable: false });
        let begun_ns = now_ns;
        while !system.has_ended() {
            now_ns = system.next_event();
            system.advance(now_ns);
        }
        system.take_ended(|_| ());
        sorted.push(now_ns - begun_ns);
    }
    sorted.sort_unstable();
    let at = |share: f64| sorted[(share * sorted.len() as f64) as usize] as f64;
    // AnandTech, Enterprise SSD roundup (2018), page 5: the 99.99th percentile is two to three times the mean.
    assert!(at(0.99) / at(0.5) > 1.1, "{} and {} ns", at(0.5), at(0.99));
    assert!((1.8..=3.5).contains(&(at(0.9995) / at(0.5))), "{} and {} ns", at(0.5), at(0.9995));
}

#[test]
fn streams_do_not_starve_what_is_random_beside_them() {
    let home = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/brickyard/profiles");
    let text = std::fs::read_to_string(home.join("overland-exchange.toml")).expect("a profile that ships");
    let overrides = ["duration=10s".to_string(), "warmup=2s".to_string(), "verify=false".to_string()];
    for brick in ["demartek-2009-sas", "demartek-2009-sata"] {
        let profile = Profile::from_toml_with(&text, &overrides).expect("a profile");
        let options = Options { bricks: common::brick_texts(), ..Options::default() };
        let session = prepare(profile, &[format!("sim:{brick}")], &options).expect("a brick");
        let mut seen = Vec::new();
        session.run(&RunControl::default(), &mut |event| {
            if let Event::Interval(i) = event {
                seen.extend(
                    i.cells.iter().filter(|_| !i.warmup && !i.drain).map(|c| c.measures[&Timed::Service].mean_ns / 1e6),
                );
            }
        });
        let slowest_ms = seen.iter().fold(0.0_f64, |a, b| a.max(*b));
        assert!(!seen.is_empty() && slowest_ms < 400.0, "{brick}: {slowest_ms} ms");
    }
}

#[test]
fn reads_for_parity_do_not_starve_beside_a_stream_that_fills_the_cache() {
    let stream = "address = \"sequential\"\nrequest = \"1MiB\"\ndepth = 32\noperations = { write = 100 }";
    let target = "sim:nearline-20tb,software=linux-md,level=raid5,members=4";
    let ran = run(target, "duration = \"10s\"", stream).expect("it runs");
    let in_flight = ran.waited_s / ran.seconds;
    assert!((30.0..=32.0).contains(&in_flight), "{in_flight} in flight of 32: the others never end");
}

#[test]
fn mds_rebuild_goes_on_beside_users_as_fast_as_its_drives_let_it() {
    let load = "request = 8192\naddress = \"random\"\ndepth = 4\noperations = { read = 70, write = 30 }";
    for (drive, least) in [("nearline-20tb", 2.0), ("nvme-tlc-3840", 100.0)] {
        let target = format!("sim:{drive},software=linux-md,level=raid5,members=5,condition=rebuilding");
        let seconds = if drive.starts_with("nvme") { 1 } else { 20 };
        let ran = run(&target, &format!("duration = \"{seconds}s\""), load).expect("runs");
        let pace = ran.rebuilt.0 as f64 * 1e3 / ran.rebuilt.1 as f64;
        assert!((least..=210.0).contains(&pace), "{drive}: {pace} MB/s");
    }
}

#[test]
fn one_thread_computes_all_parity_of_md() {
    let target = |members| format!("sim:nvme-tlc-3840,software=linux-md,level=raid5,members={members}");
    let stream =
        "request = 4096\naddress = \"random\"\nworkers = 8\ndepth = 64\noperations = { read = 0, write = 100 }";
    let rate = |members| run(&target(members), "duration = \"500ms\"", stream).expect("runs").requests as f64 * 2.0;
    let (eight, sixteen) = (rate(8), rate(16));
    assert!((80_000.0..=200_000.0).contains(&eight), "{eight}/s");
    assert!(sixteen < 1.1 * eight, "{sixteen}/s of sixteen drives");
}

#[derive(Debug, Clone)]
struct Setting {
    drive: &'static str,
    keeper: &'static str,
    level: &'static str,
    members: u32,
    pattern: &'static str,
    reads: u32,
    bytes: u32,
    depth: u32,
}

fn settings() -> impl Strategy<Value = Setting> {
    let drives = prop::sample::select(vec![
        "wd2500jd",
        "microdrive-3k4",
        "barracuda-es-750",
        "nearline-20tb",
        "nvme-tlc-3840",
        "sata-ssd-tlc-3840",
        "gp3",
    ]);
    let keepers = prop::sample::select(vec!["controller=overland-ultamus", "software=linux-md", "controller="]);
    let levels =
        prop::sample::select(vec![("jbod", 2), ("raid0", 3), ("raid1", 2), ("raid5", 4), ("raid6", 5), ("raid10", 4)]);
    let loads = (
        prop::sample::select(vec!["random", "sequential"]),
        prop::sample::select(vec![0u32, 50, 100]),
        prop::sample::select(vec![512u32, 4096, 65_536, 1 << 20]),
        prop::sample::select(vec![1u32, 3, 32]),
    );
    (drives, keepers, levels, loads).prop_map(|(drive, keeper, (level, members), (pattern, reads, bytes, depth))| {
        Setting { drive, keeper, level, members, pattern, reads, bytes, depth }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Little's law, bytes that are nowhere made or lost, and what links and media can carry.
    #[test]
    fn random_bricks_keep_to_what_is_possible(setting in settings()) {
        let Setting { drive, keeper, level, members, pattern, reads, bytes, depth } = setting;
        let target = format!("sim:{drive},{keeper},level={level},members={members}");
        let parameters = brick(drive).drive;
        let seconds = if matches!(parameters, DriveParameters::Rotating(_)) { 4.0 } else { 0.05 };
        let stream = format!(
            "address = \"{pattern}\"\nrequest = {bytes}\ndepth = {depth}\noperations = {{ read = {reads}, write = {} }}",
            100 - reads
        );
        let ran = match run(&target, &format!("duration = \"{seconds}s\""), &stream) {
            Ok(ran) => ran,
            Err(message) => {
                prop_assert!(message.lines().count() == 1, "{message}");
                return Ok(());
            }
        };
        // Little: as many in flight as there are, but for those that were under way at the ends.
        let in_flight = ran.waited_s / ran.seconds;
        if ran.requests > 200 && ran.slowest_ms * 20.0 < ran.seconds * 1e3 {
            let off = (in_flight / f64::from(depth) - 1.0).abs();
            prop_assert!(off < 0.12, "{target} {setting_words}: {in_flight} in flight of {depth}",
                setting_words = format!("{pattern} {reads} {bytes}"));
        }
        // Each byte of the host is at a member once at least, but for what caches hold or gave.
        let read: u64 = ran.members.iter().map(|m| m.read_bytes).sum();
        let written: u64 = ran.members.iter().map(|m| m.written_bytes).sum();
        let cached = if keeper.contains("overland") { 256u64 << 20 } else { 0 };
        let copies = match level { "raid1" | "raid10" => 2, _ => 1 };
        // Random writes meet in a cache: of n over m places, n² / 2m pairs are expected; twice that and ten are allowed.
        let overwritten = if pattern == "random" {
            let spoken = target.trim_start_matches("sim:");
            let capacity = System::new(&brick(spoken)).expect("a brick that ran").capacity_bytes();
            let writes = ran.written_bytes / u64::from(bytes);
            u64::from(bytes) * (writes * writes / (capacity / u64::from(bytes)) + 10)
        } else {
            0
        };
        let unwritten = cached + overwritten + u64::from(depth + 1) * u64::from(bytes);
        prop_assert!(written + copies * unwritten >= copies * ran.written_bytes,
            "{target}: {written} bytes at members of {} of the host", ran.written_bytes);
        let held = if reads == 100 { 0 } else { cached + ran.written_bytes };
        prop_assert!(read + held + u64::from(depth + 1) * u64::from(bytes) >= ran.read_bytes,
            "{target}: {read} bytes read of members, {} by the host", ran.read_bytes);
        // No link and no medium carries more than it can.
        let link = match &parameters {
            DriveParameters::Rotating(p) => p.interface_mb_per_s,
            DriveParameters::Ssd(p) => p.interface_mb_per_s,
            DriveParameters::Cloud(p) => p.mb_per_s,
        };
        for work in &ran.members {
            // A command counts when it is given: a controller may have asked for as much ahead as its cache holds.
            let slack = 4.0 * f64::from(bytes) * f64::from(depth) + 64e6 + cached as f64;
            prop_assert!(work.read_bytes as f64 <= link * 1e6 * ran.seconds * 1.02 + slack, "{target}: {work:?}");
            prop_assert!(work.written_bytes as f64 <= link * 1e6 * ran.seconds * 1.02 + slack, "{target}: {work:?}");
        }
    }
}
