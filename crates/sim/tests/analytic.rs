//! The models against what can be computed by hand.

mod common;
#[path = "common/loops.rs"]
mod loops;

use loops::{Places, brick, closed_loop, random_rate};
use sim::brick::{Brick, Condition, DriveParameters, Level, Scheduler};
use sim::cloud::Cloud;
use sim::member::{Command, Kind, Lost};
use sim::system::{Request, System};

#[test]
fn one_drive_takes_seek_and_half_a_revolution_and_transfer() {
    let brick = brick("wd2500jd");
    let DriveParameters::Rotating(p) = &brick.drive else { panic!("a rotating drive") };
    // Addresses are uniform over sectors, not cylinders, so the outer zones are nearer: the mean seek is a little less.
    let rate_mb = (p.outer_mb_per_s + p.inner_mb_per_s) / 2.0;
    let expected_ms = 8.9 + 60_000.0 / 7200.0 / 2.0 + p.command_overhead.ns as f64 / 1e6 + 8.192 / rate_mb;
    let service_ms = 1e3 / random_rate(&brick, Kind::Read, 1);
    assert!((service_ms / expected_ms - 1.0).abs() < 0.02, "{service_ms} ms, expected {expected_ms} ms");
    // Without a queue more requests in flight are no help.
    let deep = random_rate(&brick, Kind::Read, 4);
    assert!((deep * service_ms / 1e3 - 1.0).abs() < 0.02, "{deep}");
}

#[test]
fn closed_loops_keep_to_the_bounds_of_operational_analysis() {
    // X(N) <= min(1 / D_max, N / D) with D one request's time without a queue (Denning and Buzen 1978).
    let mut brick = brick("msr-2003-wd,level=raid0,members=4,stripe=64KiB");
    let alone = random_rate(&brick, Kind::Read, 1);
    let one_disk = {
        brick.members = 1;
        random_rate(&brick, Kind::Read, 8)
    };
    brick.members = 4;
    let mut before = 0.0;
    for depth in [1, 2, 4, 8, 16, 32] {
        let rate = random_rate(&brick, Kind::Read, depth);
        let bound = (4.0 * one_disk).min(f64::from(depth) * alone);
        assert!(rate <= bound * 1.03, "depth {depth}: {rate} above {bound}");
        assert!(rate >= before * 0.99, "depth {depth}: {rate} after {before}");
        before = rate;
    }
    assert!(before > 3.5 * one_disk, "32 requests keep 4 drives busy: {before}");
}

/// Member commands that a request of 8 KiB in the middle of a stripe unit takes.
fn commands(spoken: &str, kind: Kind) -> u64 {
    let mut system = System::new(&brick(spoken)).expect("a brick that can be built");
    system.submit(0, Request { tag: 0, kind, offset_bytes: 8192, bytes: 8192, durable: false });
    while !system.is_idle() {
        let next_ns = system.next_event();
        system.advance(next_ns);
    }
    assert_eq!(system.issued, system.completed);
    system.issued
}

#[test]
fn small_writes_cost_what_parity_costs() {
    let array = |level: &str, members: u32| format!("msr-2003-wd,level={level},members={members}");
    assert_eq!(commands(&array("raid0", 8), Kind::Write), 1);
    assert_eq!(commands(&array("raid10", 8), Kind::Write), 2);
    assert_eq!(commands(&array("raid5", 8), Kind::Write), 4);
    assert_eq!(commands(&array("raid6", 8), Kind::Write), 6);
    // With three members the rest of a row is one unit: reconstruct-write reads one unit instead of two.
    assert_eq!(commands(&array("raid5", 3), Kind::Write), 3);
    for level in ["raid0", "raid10", "raid5", "raid6"] {
        assert_eq!(commands(&array(level, 8), Kind::Read), 1, "{level}");
    }
}

#[test]
fn a_failed_member_is_reconstructed_from_the_others() {
    let mut seen = Vec::new();
    for unit in 0..8 {
        let spoken = "msr-2003-wd,level=raid5,members=8,condition=degraded";
        let mut system = System::new(&brick(spoken)).expect("a brick that can be built");
        let offset_bytes = unit * 65_536;
        system.submit(0, Request { tag: 0, kind: Kind::Read, offset_bytes, bytes: 8192, durable: false });
        while !system.is_idle() {
            let next_ns = system.next_event();
            system.advance(next_ns);
        }
        seen.push(system.issued);
    }
    // Left-symmetric: of the first eight units one lies on member 0.
    assert_eq!(seen.iter().filter(|n| **n == 7).count(), 1, "{seen:?}");
    assert_eq!(seen.iter().filter(|n| **n == 1).count(), 7, "{seen:?}");
}

#[test]
fn a_mirror_reads_twice_as_fast_and_writes_no_faster() {
    let one = brick("msr-2003-wd");
    let two = brick("msr-2003-wd-software-mirror");
    let ratio = random_rate(&two, Kind::Read, 16) / random_rate(&one, Kind::Read, 16);
    assert!((1.9..=2.05).contains(&ratio), "{ratio}");
    let ratio = random_rate(&two, Kind::Write, 16) / random_rate(&one, Kind::Write, 16);
    assert!((0.9..=1.02).contains(&ratio), "{ratio}");
}

#[test]
fn small_writes_to_uncached_parity_are_a_quarter_and_a_sixth() {
    let mut striped = brick("msr-2003-wd,level=raid0,members=8,write_cache=false");
    let base = random_rate(&striped, Kind::Write, 128);
    let mut rate = |level| {
        striped.level = level;
        random_rate(&striped, Kind::Write, 128) / base
    };
    // A written block was read just before: it comes round again after one revolution instead of a seek.
    let (five, six) = (rate(Level::Raid5), rate(Level::Raid6));
    assert!((0.22..=0.36).contains(&five), "{five}");
    assert!((0.14..=0.24).contains(&six), "{six}");
    assert!(six < five);
}

#[test]
fn exponential_service_behind_a_cap_is_an_m_m_c_queue_without_one() {
    // A volume without caps serves every request at once: mean response = mean of the exponential part (M/M/∞).
    let brick = brick("gp3");
    let DriveParameters::Cloud(mut p) = brick.drive else { panic!("a cloud volume") };
    (p.iops, p.mb_per_s, p.read_latency.ns, p.latency_tail.ns) = (1_000_000_000, 1e9, 0, 1_000_000);
    let mut cloud = Cloud::new(&p);
    let mut total_ns = 0;
    for number in 0..20_000u64 {
        let now_ns = number * 10_000_000;
        cloud.submit(
            now_ns,
            Command { id: 0, kind: Kind::Read, offset_bytes: 0, bytes: 4096, durable: false, urgent: false, stamp: 0 },
        );
        total_ns += cloud.next_event() - now_ns;
        cloud.advance(cloud.next_event(), &mut Vec::new());
    }
    let mean_ns = total_ns as f64 / 20_000.0;
    assert!((mean_ns / 1e6 - 1.0).abs() < 0.03, "{mean_ns}");
}

/// M/M/c out of the model's parts: Poisson arrivals, a host that lets `c` requests in at a time, exponential service.
#[test]
fn a_queue_limit_of_c_makes_an_m_m_c_queue() {
    let mut brick = brick("gp3");
    let DriveParameters::Cloud(p) = &mut brick.drive else { panic!("a cloud volume") };
    (p.iops, p.mb_per_s, p.read_latency.ns, p.latency_tail.ns) = (1_000_000_000, 1e9, 0, 1_000_000);
    for (servers, load) in [(1u32, 0.7), (4, 0.8)] {
        brick.queue_limit = servers;
        let mut system = System::new(&brick).expect("a brick that can be built");
        let mut rng = engine::rng::Rng::from_words(&[3]);
        let count = 200_000;
        let gap_ns = 1e6 / (load * f64::from(servers));
        let (mut at_ns, mut total_ns, mut starts) = (0u64, 0u64, Vec::new());
        for tag in 0..count {
            at_ns += (-libm::log(1.0 - rng.unit_f64()) * gap_ns) as u64;
            while system.next_event() <= at_ns {
                let next_ns = system.next_event();
                system.advance(next_ns);
                system.take_ended(|(tag, end_ns): (u32, u64)| total_ns += end_ns - starts[tag as usize]);
            }
            starts.push(at_ns);
            system.submit(at_ns, Request { tag, kind: Kind::Read, offset_bytes: 0, bytes: 4096, durable: false });
        }
        while !system.is_idle() {
            let next_ns = system.next_event();
            system.advance(next_ns);
        }
        system.take_ended(|(tag, end_ns): (u32, u64)| total_ns += end_ns - starts[tag as usize]);
        let expected_ns = 1e6 * (1.0 + erlang_c(servers, load) / (f64::from(servers) * (1.0 - load)));
        let mean_ns = total_ns as f64 / f64::from(count);
        assert!(
            (mean_ns / expected_ns - 1.0).abs() < 0.05,
            "{servers} servers: {mean_ns} ns, expected {expected_ns} ns"
        );
    }
}

/// Erlang's C formula: the share of requests that wait.
fn erlang_c(servers: u32, load: f64) -> f64 {
    let offered = load * f64::from(servers);
    let term = |k: u32| (1..=k).fold(1.0, |product, i| product * offered / f64::from(i));
    let waiting = term(servers) / (1.0 - load);
    waiting / ((0..servers).map(term).sum::<f64>() + waiting)
}

#[test]
fn no_arm_and_no_bus_works_longer_than_time_passes() {
    for spoken in
        ["terraserver-2003", "msr-2003-wd-hardware-mirror,condition=rebuilding", "overland-2007-sas,level=raid5"]
    {
        let mut system = System::new(&brick(spoken)).expect("a brick that can be built");
        let mut places = Places::of(&system);
        let rate = closed_loop(&mut system, Kind::Read, 65_536, 32, 5_000, || places.next() / 65_536 * 65_536);
        let elapsed_ns = (5_000.0 / rate * 1e9) as u64;
        let (arms, buses) = system.busy_ns();
        // One operation may reach beyond the end.
        assert!(
            arms.iter().chain(&buses).all(|b| *b <= elapsed_ns + 100_000_000),
            "{spoken}: {arms:?} in {elapsed_ns}"
        );
        assert!(arms.iter().filter(|b| **b > elapsed_ns / 2).count() * 2 >= arms.len(), "{spoken}: arms are at work");
    }
}

#[test]
fn a_shortest_first_queue_gains_and_starves_nobody() {
    let mut brick = brick("barracuda-es-750");
    let DriveParameters::Rotating(p) = &mut brick.drive else { panic!("a rotating drive") };
    p.age_limit.ns = 2_000_000_000;
    let sorted = random_rate(&brick, Kind::Read, 32);
    let DriveParameters::Rotating(p) = &mut brick.drive else { panic!("a rotating drive") };
    p.scheduler = Scheduler::CLook;
    let swept = random_rate(&brick, Kind::Read, 32);
    let DriveParameters::Rotating(p) = &mut brick.drive else { panic!("a rotating drive") };
    p.scheduler = Scheduler::Fifo;
    let plain = random_rate(&brick, Kind::Read, 32);
    assert!(sorted > 1.5 * plain && swept > 1.2 * plain && sorted > swept, "{sorted} {swept} {plain}");
}

#[test]
fn a_power_cut_takes_what_was_acknowledged_and_is_volatile() {
    let mut brick = brick("wd2500jd");
    let write =
        |tag, durable| Request { tag, kind: Kind::Write, offset_bytes: u64::from(tag) << 30, bytes: 8192, durable };
    let cut_after = |brick: &Brick, durable: bool, flush: bool| -> Vec<Lost> {
        let mut system = System::new(brick).expect("a brick that can be built");
        (0..4).for_each(|tag| system.submit(0, write(tag, durable)));
        let mut ended = 0;
        if flush {
            system.submit(0, Request { tag: 9, kind: Kind::Flush, offset_bytes: 0, bytes: 0, durable: false });
        }
        let wanted = if flush { 5 } else { 4 };
        let mut now_ns = 0;
        while ended < wanted {
            now_ns = system.next_event();
            system.advance(now_ns);
            system.take_ended(|_| ended += 1);
        }
        system.power_cut(now_ns).0.remove(0)
    };
    assert!(!cut_after(&brick, false, false).is_empty(), "acknowledged out of the cache");
    assert_eq!(cut_after(&brick, true, false), [], "durable writes wait for the medium");
    assert_eq!(cut_after(&brick, false, true), [], "a flush empties the cache");
    brick.write_cache = Some(false);
    assert_eq!(cut_after(&brick, false, false), [], "without a cache nothing is acknowledged early");
}

#[test]
fn solid_state_drives_do_what_their_data_sheets_say() {
    let mut brick = brick("nvme-tlc-3840,drive.dram_cache_bytes=4MiB");
    let reads = random_rate(&brick, Kind::Read, 256);
    assert!((750_000.0..850_000.0).contains(&reads), "{reads} reads of 8 KiB in 6800 MB/s");
    let steady = random_rate(&brick, Kind::Write, 256);
    let DriveParameters::Ssd(p) = &mut brick.drive else { panic!("a solid-state drive") };
    p.steady = false;
    let fresh = random_rate(&brick, Kind::Write, 256);
    // W = 4.6 with 12.2 % spare.
    assert!(fresh > 3.5 * steady, "fresh {fresh}, steady {steady}");
    let mut system = System::new(&self::brick("nvme-tlc-3840")).expect("a brick that can be built");
    let mut at = 0;
    let mib = closed_loop(&mut system, Kind::Write, 1 << 20, 8, 4_000, || {
        at += 1 << 20;
        at
    });
    assert!((3_000.0..4_500.0).contains(&mib), "{mib} MiB/s of sequential writes");
}

#[test]
fn a_cloud_volume_keeps_to_its_caps() {
    let brick = brick("gp3");
    let mut system = System::new(&brick).expect("a brick that can be built");
    let mut places = Places::of(&system);
    let small = closed_loop(&mut system, Kind::Read, 8192, 64, 30_000, || places.next());
    assert!((small / 3_000.0 - 1.0).abs() < 0.02, "{small}");
    let mut system = System::new(&brick).expect("a brick that can be built");
    let large = closed_loop(&mut system, Kind::Read, 262_144, 64, 5_000, || places.next() / 262_144 * 262_144);
    assert!((large / 500.0 - 1.0).abs() < 0.02, "{large} of 256 KiB in 125 MiB/s");
}

#[test]
fn a_stream_over_more_drives_is_no_slower() {
    let rate = |members: u32| {
        let brick = brick(&format!("nearline-20tb,software=linux-md,level=raid5,members={members}"));
        let mut system = System::new(&brick).expect("a brick that can be built");
        let mut at = 0;
        closed_loop(&mut system, Kind::Read, 65_536, 4, 20_000, || {
            at += 65_536;
            at
        })
    };
    // Up to where four requests in flight end it, each drive adds its own; from there on drives stop reading ahead and
    // begin again, and that must not be seen.
    let rates: Vec<f64> = [3, 4, 6, 8, 9, 12, 16].map(rate).to_vec();
    for pair in rates.windows(2) {
        assert!(pair[1] > 0.97 * pair[0], "{rates:?} requests/s with more and more drives");
    }
    assert!((rates[3] / rates[0] / 3.5 - 1.0).abs() < 0.05, "{rates:?}: seven drives' data against two's");
}

/// Each of two controllers moves its own half of a long write, whether the host sends it whole or in units of its stripe.
#[test]
fn a_request_over_two_controllers_takes_both_their_buses() {
    let bytes_per_s = |controllers: u32, bytes: u32| {
        let spoken = format!("terraserver-2003,controllers={controllers},members={}", 8 * controllers);
        let mut system = System::new(&brick(&spoken)).expect("a brick that can be built");
        let mut at = 0;
        let mut next = || {
            at += u64::from(bytes);
            at - u64::from(bytes)
        };
        closed_loop(&mut system, Kind::Write, bytes, 32, (512 << 20) / u64::from(bytes), &mut next) * f64::from(bytes)
    };
    let one_bus = bytes_per_s(1, 1 << 20);
    assert!((one_bus / (533e6 * 0.396) - 1.0).abs() < 0.02, "{one_bus}");
    for bytes in [64 << 10, 128 << 10, 1 << 20] {
        let two_buses = bytes_per_s(2, bytes);
        assert!((two_buses / one_bus - 2.0).abs() < 0.05, "{bytes}: {two_buses} of {one_bus}");
    }
}

#[test]
fn a_rebuild_keeps_to_its_pace() {
    let idle = |condition| {
        let mut brick = brick("msr-2003-wd-hardware-mirror");
        brick.condition = condition;
        let mut system = System::new(&brick).expect("a brick that can be built");
        system.advance(20_000_000_000);
        system.background_bytes as f64 / 20.0 / 1e6
    };
    assert_eq!(idle(Condition::Normal), 0.0);
    let pace = idle(Condition::Rebuilding);
    // One chunk at a time: each waits for a read, and for the write's revolution; 20 MB/s are allowed.
    assert!((5.0..=20.0).contains(&pace), "{pace} MB/s, 20 allowed");
    let mut busy = System::new(&brick("msr-2003-wd-hardware-mirror,condition=rebuilding")).expect("a brick");
    let mut places = Places::of(&busy);
    let rate = closed_loop(&mut busy, Kind::Read, 8192, 4, 2_000, || places.next());
    let pace = busy.background_bytes as f64 / (2_000.0 / rate) / 1e6;
    assert!((0.5..=1.8).contains(&pace), "{pace} MB/s beside users, 1.7 allowed");
}

#[test]
fn a_controllers_rebuild_keeps_its_pace_beside_many_requests_and_a_hosts_does_not() {
    let pace = |name: &str, depth| {
        let mut system = System::new(&brick(&format!("{name},condition=rebuilding"))).expect("a brick");
        let mut places = Places::of(&system);
        let rate = closed_loop(&mut system, Kind::Read, 8192, depth, 2_000, || places.next());
        (system.background_bytes as f64 / (2_000.0 / rate) / 1e6, rate)
    };
    let (alone, alone_rate) = pace("msr-2003-wd-hardware-mirror", 1);
    let (deep, deep_rate) = pace("msr-2003-wd-hardware-mirror", 16);
    assert!((alone / 1.7 - 1.0).abs() < 0.03, "{alone} MB/s of 1.7");
    assert!((deep / alone - 1.0).abs() < 0.03, "{deep} MB/s 16 deep, {alone} MB/s 1 deep");
    // One arm reads in both; depth gains nothing from a drive that takes one command at a time.
    assert!((deep_rate / alone_rate - 1.0).abs() < 0.05, "{deep_rate} and {alone_rate} requests/s");
    let (alone, _) = pace("msr-2003-wd-software-mirror", 1);
    let (deep, _) = pace("msr-2003-wd-software-mirror", 16);
    assert!(deep < alone / 2.0, "{deep} MB/s 16 deep, {alone} MB/s 1 deep");
}

#[test]
fn a_rebuild_that_nobody_disturbs_goes_as_fast_as_it_may_or_the_drives_can() {
    let idle = |spoken: &str| {
        let mut system = System::new(&brick(spoken)).expect("a brick that can be built");
        system.advance(20_000_000_000);
        system.background_bytes as f64 / 20.0 / 1e6
    };
    for (level, members) in [("raid1", 2), ("raid5", 8), ("raid6", 8)] {
        let md = format!("nearline-20tb,software=linux-md,level={level},members={members},condition=rebuilding");
        let pace = idle(&format!("{md},rebuild_position=5"));
        assert!((pace / 204.8 - 1.0).abs() < 0.1, "{level}: {pace} MB/s, 204.8 allowed");
        // The inner zone is slower than what is allowed.
        let inner = idle(&format!("{md},rebuild_position=95"));
        assert!((110.0..=160.0).contains(&inner), "{level}: {inner} MB/s");
    }
}
