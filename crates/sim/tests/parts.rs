//! What single parts of a brick do: links, credits, flash, and values that a user changes.

mod common;
#[path = "common/loops.rs"]
mod loops;

use loops::{Places, brick, closed_loop, random_rate};
use sim::brick::{DriveParameters, resolve};
use sim::member::Kind;
use sim::system::{Request, System};

fn refused(spoken: &str) -> String {
    resolve(spoken, &common::brick_texts(), &[]).expect_err(spoken).message
}

/// Sequential requests of 256 KiB, 32 deep, in MB/s.
fn streaming(spoken: &str, kind: Kind, count: u64) -> f64 {
    let mut system = System::new(&brick(spoken)).expect("a brick that can be built");
    let (mut at, capacity) = (0, system.capacity_bytes());
    let rate = closed_loop(&mut system, kind, 262_144, 32, count, || {
        at += 262_144;
        (at - 262_144) % (capacity / 262_144 * 262_144)
    });
    rate * 0.262_144
}

#[test]
fn drives_that_share_a_link_share_its_rate() {
    let of = |count: u32, links: u32| {
        let spoken = format!(
            "openbench-2003-scsi,level=raid0,members={count},stripe=256KiB,controller.links={links},\
             controller.bus_mb_per_s=0,controller.link_mb_per_s=100,controller.read_ahead_bytes=0B"
        );
        streaming(&spoken, Kind::Read, 4_000)
    };
    let alone = of(1, 1);
    assert!((30.0..80.0).contains(&alone), "one drive streams below the link's rate: {alone}");
    assert!((of(8, 1) / 100.0 - 1.0).abs() < 0.02, "{}", of(8, 1));
    assert!((of(8, 2) / 200.0 - 1.0).abs() < 0.05, "{}", of(8, 2));
    assert!(of(8, 0) > 6.0 * alone, "each with a link of its own: {}", of(8, 0));
}

#[test]
fn drives_of_a_software_array_share_the_link_that_its_host_has_for_them() {
    let of = |kind: Kind, link: u32| {
        let spoken = format!(
            "samsung-pm9a3-960,drive.steady=false,members=4,level=raid0,stripe=256KiB,software=linux-md,\
             software.links=1,software.link_mb_per_s={link}"
        );
        streaming(&spoken, kind, 4_000)
    };
    for kind in [Kind::Read, Kind::Write] {
        assert!((of(kind, 2_000) / 2_000.0 - 1.0).abs() < 0.03, "{kind:?}: {}", of(kind, 2_000));
        assert!(of(kind, 0) > 4_000.0, "{kind:?} without a limit: {}", of(kind, 0));
    }
}

#[test]
fn a_port_slower_than_the_drive_is_the_limit() {
    let at = |rate: u32| streaming(&format!("msr-2003-wd,controller.link_mb_per_s={rate}"), Kind::Read, 4_000);
    assert!((at(20) / 20.0 - 1.0).abs() < 0.05, "{}", at(20));
    assert!((at(150) / at(0) - 1.0).abs() < 0.01);
}

#[test]
fn credits_are_spent_at_the_peak_rate_and_then_the_baseline_holds() {
    let with = |credits: u64| random_rate(&brick(&format!("gp2,drive.burst_ios={credits}")), Kind::Read, 16);
    let (burst, base) = (with(5_400_000), with(1));
    assert!((burst / 3000.0 - 1.0).abs() < 0.01, "{burst}");
    assert!((base / 1500.0 - 1.0).abs() < 0.01, "{base}");
    // 1000 credits are gone after 1000 / (3000 - 1500) s, 2000 of the 4000 requests; the rest takes 2000 / 1500 s.
    let both = with(1_000);
    let expected = 4_000.0 / (1_000.0 / 1_500.0 + 2_000.0 / 1_500.0);
    assert!((both / expected - 1.0).abs() < 0.02, "{both}, expected {expected}");
}

/// Random writes of 4 KiB over a share of a small fresh drive, after it has been written three times over.
fn overwriting(share: f64, trimmed: bool) -> f64 {
    let spoken = "nvme-tlc-3840,drive.capacity_bytes=2GiB,drive.steady=false,drive.dram_cache_bytes=4MiB";
    let mut system = System::new(&brick(spoken)).expect("a brick that can be built");
    let mut places = Places::of(&system);
    let blocks = (system.capacity_bytes() as f64 * share) as u64 / 8192;
    let writes = 3 * (2 << 30) / 8192;
    closed_loop(&mut system, Kind::Write, 8192, 64, writes, || places.next() / 8192 % blocks * 8192);
    let mut now_ns = 1 << 50;
    system.advance(now_ns);
    if trimmed {
        let bytes = (2u32 << 30) - 8192;
        system.submit(now_ns, Request { tag: 0, kind: Kind::Trim, offset_bytes: 0, bytes, durable: false });
        while !system.is_idle() {
            now_ns = system.next_event();
            system.advance(now_ns);
        }
        system.take_ended(|_| ());
    }
    let began_ns = now_ns;
    let (mut ended, mut sent) = (0, 0u32);
    while ended < 20_000 {
        while sent < ended + 64 {
            let offset_bytes = places.next() / 8192 % blocks * 8192;
            system.submit(now_ns, Request { tag: sent, kind: Kind::Write, offset_bytes, bytes: 8192, durable: false });
            sent += 1;
        }
        now_ns = system.next_event();
        system.advance(now_ns);
        system.take_ended(|_| ended += 1);
    }
    f64::from(ended) * 1e9 / (now_ns - began_ns) as f64
}

#[test]
fn flash_that_is_mostly_free_or_trimmed_stays_fast() {
    let (whole, tenth, trimmed) = (overwriting(1.0, false), overwriting(0.1, false), overwriting(1.0, true));
    // With 12.2 % spare, W = 1.122 / 0.244 = 4.6; a tenth leaves ten times its data free, so W = 1.
    assert!(tenth / whole > 3.0, "{tenth} {whole}");
    assert!((trimmed / tenth - 1.0).abs() < 0.1, "{trimmed} {tenth}");
}

#[test]
fn a_write_cache_that_survives_a_power_cut_cannot_be_turned_off() {
    let rate = |changes: &str| random_rate(&brick(&format!("nvme-tlc-3840{changes}")), Kind::Write, 1);
    assert_eq!(rate(",write_cache=false"), rate(""));
    let volatile = ",drive.power_loss_protection=false";
    assert!(rate(volatile) > 5.0 * rate(&format!("{volatile},write_cache=false")));
}

#[test]
fn a_part_takes_changes_of_its_keys_and_says_which_it_has() {
    let slow = random_rate(&brick("wd2500jd,drive.rpm=5400"), Kind::Read, 1);
    assert!(slow < random_rate(&brick("wd2500jd"), Kind::Read, 1) * 0.95);
    for (spoken, said) in [
        ("wd2500jd,drive.rpms=5400", "drive.rpms=5400: no such key; did you mean `rpm`?"),
        ("wd2500jd,drive.rmp=5400", "drive.rmp=5400: no such key; did you mean `rpm`?"),
        ("wd2500jd,drive.colour=1", "drive.colour=1: no such key; `brickyard bricks show wd2500jd` has its keys"),
        ("wd2500jd,drive.rpm=fast", "drive.rpm=fast: a whole number from 0 is needed"),
        ("wd2500jd,drive.rpm=-1", "drive.rpm=-1: a whole number from 0 is needed"),
        ("wd2500jd,drive.rpm=0", "drive.rpm = 0; a whole number from 1 to 100000 is needed"),
        ("wd2500jd,drive.outer_mb_per_s=-3", "drive.outer_mb_per_s = -3; a number above 0 is needed"),
        ("wd2500jd,drive.cache_bytes=-1", "drive.cache_bytes=-1: a size such as 8KiB is needed"),
        ("wd2500jd,drive.cache_bytes=many", "drive.cache_bytes=many: `many` is not a size"),
        ("wd2500jd,drive.capacity_bytes=1", "drive.capacity_bytes = 1B; a size from 1MiB to 256TiB is needed"),
        ("wd2500jd,drive.head_switch=soon", "drive.head_switch=soon: `soon` is not a time span"),
        ("wd2500jd,drive.write_cache=maybe", "drive.write_cache=maybe: true or false is needed"),
        ("wd2500jd,drive.scheduler=fiffo", "drive.scheduler=fiffo: `none`, `fifo`, `sptf` or `c-look` is needed"),
        (
            "wd2500jd,drive.kind=tape",
            "drive.kind=tape: `rotating`, `ssd`, `cloud`, `disk-sheet`, `ssd-sheet` or `cloud-volume` is needed",
        ),
        ("wd2500jd,controller.ports=4", "controller.ports: this brick has no controller"),
        ("terraserver-2003,controller.cache=4MiB", "controller.cache=4MiB: no such key; did you mean `cache_bytes`?"),
        ("terraserver-2003,memebrs=4", "memebrs=4: `memebrs` is no key of a brick; did you mean `members`?"),
        ("terraserver-2003,drve.rpm=4", "did you mean `drive.rpm`?"),
        ("wd2500jd,disk.rpm=5400", "PART.KEY for the parts drive, controller"),
        ("terraserver-2003,drive=wd2500jb", "drive=wd2500jb: no such brick file; did you mean `wd2500jd`?"),
        ("terraserver-203", "no such brick; did you mean `terraserver-2003`?"),
        ("3ware-8506-8", "is a controller"),
    ] {
        let said_of = refused(spoken);
        assert!(said_of.contains(said) && said_of.lines().count() == 1 && said_of.len() < 200, "{spoken}: {said_of}");
    }
}

#[test]
fn what_is_wrong_with_a_file_of_the_users_own_is_told_with_its_line() {
    let drive = common::brick_texts()["drives/wd2500jd"].clone();
    let array = "title = \"own\"\ndrive = \"wd2500jd\"\nlevel = \"jbod\"\nmembers = 1\n";
    let changed = format!("{array}[changes.drive]\nrpm = \"fast\"\n[basis.drive]\nrpm = \"derived: a guess\"\n");
    let line_of = |text: &str, key: &str| 1 + text.lines().position(|l| l.starts_with(key)).expect("a key");
    for (text, said) in [
        (
            array.replace("members = 1", "members = \"many\""),
            "line 4: members: \"many\" was given; a whole number".into(),
        ),
        (array.replace("level", "levle"), "line 3: levle: no such key; did you mean `level`?".into()),
        (array.replace("\"jbod\"", "\"raid7\""), "line 3: level: `raid7` was given; did you mean `raid0`?".into()),
        (format!("{array}broken = \n"), "line 5: ".into()),
        (changed, "line 6: drive.rpm=fast: a whole number from 0 is needed".into()),
        (
            drive.replace("rpm = 7200", "rpm = \"fast\""),
            format!("line {}: rpm: \"fast\" was given", line_of(&drive, "rpm")),
        ),
        (
            drive.replace("heads = ", "headss = "),
            format!("line {}: headss: no such key; did you mean `heads`?", line_of(&drive, "heads")),
        ),
    ] {
        let mut texts = common::brick_texts();
        texts.insert("files/./own.toml".into(), text.clone());
        let error = resolve("./own.toml", &texts, &[]).expect_err(&text).message;
        assert!(error.starts_with(&format!("./own.toml: {said}")) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn an_array_file_that_changes_a_part_says_where_the_value_comes_from() {
    let mut texts = common::brick_texts();
    let file = "title = \"own\"\ndrive = \"wd2500jd\"\nlevel = \"jbod\"\nmembers = 1\n[changes.drive]\nrpm = 10000\n";
    texts.insert("arrays/own".into(), file.into());
    let error = resolve("own", &texts, &[]).expect_err("a value without a basis").message;
    assert!(error.contains("[basis.drive] must call rpm"), "{error}");
    texts.insert("arrays/own".into(), format!("{file}[basis.drive]\nrpm = \"derived: a guess\"\n"));
    let rpm = |overrides: &[&str]| {
        let overrides: Vec<String> = overrides.iter().map(|o| (*o).into()).collect();
        match resolve("own", &texts, &overrides).expect("a brick").drive {
            DriveParameters::Rotating(p) => p.rpm,
            _ => 0,
        }
    };
    assert_eq!(rpm(&[]), 10_000);
    // What the file changes is of the drive that it names; another brings its own values, and takes the user's.
    assert_eq!(rpm(&["drive=barracuda-es-500"]), 7200);
    assert_eq!(rpm(&["drive.rpm=5400", "drive=barracuda-es-500"]), 5400);
}

#[test]
fn streams_side_by_side_share_a_modern_drive() {
    let streams = |spoken: &str, count: u64| {
        let mut system = System::new(&brick(spoken)).expect("a brick that can be built");
        let apart = system.capacity_bytes() / 2 / count / 65_536 * 65_536;
        let mut next: Vec<u64> = (0..count).map(|n| n * apart).collect();
        let (mut now_ns, mut ended) = (0, 0);
        let request =
            |tag: u32, offset_bytes| Request { tag, kind: Kind::Read, offset_bytes, bytes: 65_536, durable: false };
        (0..count).for_each(|n| system.submit(0, request(n as u32, next[n as usize])));
        while ended < 20_000 {
            now_ns = system.next_event().max(now_ns);
            system.advance(now_ns);
            let mut tags = Vec::new();
            system.take_ended(|(tag, _)| tags.push(tag));
            for tag in tags {
                ended += 1;
                next[tag as usize] += 65_536;
                system.submit(now_ns, request(tag, next[tag as usize]));
            }
        }
        f64::from(ended) * 65_536.0 / now_ns as f64 * 1e3
    };
    let one = streams("nearline-20tb", 1);
    for count in [2, 4, 8] {
        let rate = streams("nearline-20tb", count);
        assert!((0.15 * one..0.8 * one).contains(&rate), "{count} streams: {rate} of {one} MB/s");
        // Each visit reads its own request alone in a drive that holds no stream.
        assert!(streams("nearline-20tb,drive.read_ahead_hold_bytes=0B", count) < 0.1 * one);
    }
}

#[test]
fn a_block_that_is_overwritten_again_and_again_stays_in_the_cache() {
    let mut system = System::new(&brick("nearline-20tb")).expect("a brick that can be built");
    let rate = closed_loop(&mut system, Kind::Write, 4096, 4, 20_000, || 0);
    assert!(rate > 10_000.0, "{rate}");
    let now_ns = system.next_event().min(1 << 50);
    system.advance(now_ns);
    system.submit(now_ns, Request { tag: 99, kind: Kind::Flush, offset_bytes: 0, bytes: 0, durable: false });
    while !system.is_idle() {
        system.advance(system.next_event());
    }
    let mut flushed_ns = 0;
    system.take_ended(|(tag, at_ns)| flushed_ns = if tag == 99 { at_ns } else { flushed_ns });
    assert!(flushed_ns - now_ns < 50_000_000, "{} ms for one block", (flushed_ns - now_ns) / 1_000_000);
}

#[test]
fn a_drive_serves_more_requests_than_it_can_queue_no_worse() {
    let at = |depth| random_rate(&brick("nearline-20tb"), Kind::Read, depth);
    let mut before = 0.0;
    for depth in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
        assert!(at(depth) >= 0.97 * before, "{depth} deep: {} after {before}", at(depth));
        before = at(depth);
    }
}

#[test]
fn a_modern_drive_sorts_what_its_cache_holds() {
    let mut system = System::new(&brick("nearline-20tb")).expect("a brick that can be built");
    let mut places = Places::of(&system);
    let filled = closed_loop(&mut system, Kind::Write, 8192, 4, 8_000, || places.next());
    let both =
        closed_loop(&mut System::new(&brick("nearline-20tb")).expect("a brick"), Kind::Write, 8192, 4, 28_000, || {
            places.next()
        });
    let rate = 20_000.0 / (28_000.0 / both - 8_000.0 / filled);
    assert!((350.0..600.0).contains(&rate), "{rate} random writes/s once the cache is full");
}

/// Sequential requests of so many KiB, 32 deep, in MB/s.
fn in_order(spoken: &str, kind: Kind, request_kib: u64, count: u64) -> f64 {
    let mut system = System::new(&brick(spoken)).expect("a brick that can be built");
    let (mut at, bytes) = (0, request_kib << 10);
    let rate = closed_loop(&mut system, kind, bytes as u32, 32, count, || {
        at += bytes;
        at - bytes
    });
    rate * bytes as f64 / 1e6
}

#[test]
fn rows_of_parity_that_are_written_in_order_need_no_reads() {
    // A small cache, which does not hide what the arms do.
    let drive = "nearline-20tb,drive.cache_bytes=16MiB";
    let alone = in_order(drive, Kind::Write, 256, 20_000);
    for (members, request_kib) in [(5, 64), (5, 256), (6, 256), (8, 64), (8, 256), (8, 1024)] {
        let md = |level: &str| format!("{drive},software=linux-md,level={level},members={members},stripe=64KiB");
        for (level, parity) in [("raid5", 1), ("raid6", 2)] {
            let rate = in_order(&md(level), Kind::Write, request_kib, 20_000);
            let ideal = alone * f64::from(members - parity);
            assert!(rate > 0.6 * ideal, "{level} of {members}, {request_kib} KiB: {rate:.0} of {ideal:.0} MB/s");
        }
    }
}

#[test]
fn behind_a_controller_the_background_takes_its_processor_and_its_bus() {
    let shelf = "overland-2007-sata,level=raid5,controller.bus_read_efficiency=1,controller.bus_write_efficiency=1";
    let idle = |condition: &str, changed: &str| {
        let mut system = System::new(&brick(&format!("{shelf},condition={condition},{changed}"))).expect("a brick");
        system.advance(20_000_000_000);
        (system.background_bytes as f64 / 20.0 / 1e6, system.busy_ns().1[0] as f64 / 20e9)
    };
    for condition in ["rebuilding", "initializing", "scrubbing"] {
        let (wide, share) = idle(condition, "controller.bus_mb_per_s=1000");
        assert!(wide > 20.0 && (share - wide / 1000.0).abs() < 0.005, "{condition}: {wide} MB/s, {share} of the bus");
        let (narrow, share) = idle(condition, "controller.bus_mb_per_s=10");
        assert!((8.5..10.2).contains(&narrow) && share > 0.85, "{condition}: {narrow} MB/s over a bus of 10");
        // Chunks of 64 KiB, one of them every 10 ms.
        let busy = "controller.bus_mb_per_s=1000,controller.read_command=10ms,controller.write_command=10ms";
        let (commanded, _) = idle(condition, busy);
        assert!((6.0..6.7).contains(&commanded), "{condition}: {commanded} MB/s at 100 commands a second");
        // Users and the background share the bus.
        let spoken =
            format!("{shelf},condition={condition},controller.bus_mb_per_s=10,controller.rebuild_min_mb_per_s=5");
        let mut system = System::new(&brick(&spoken)).expect("a brick");
        let mut places = Places::of(&system);
        let users = closed_loop(&mut system, Kind::Read, 65_536, 8, 2_000, || places.next());
        let seconds = 2_000.0 / users;
        let (users, background) = (users * 0.065_536, system.background_bytes as f64 / seconds / 1e6);
        assert!(background > 0.5 && users > 2.0, "{condition}: {users} MB/s beside {background}");
        assert!(users + background < 10.2, "{condition}: {users} MB/s beside {background} over a bus of 10");
    }
}
