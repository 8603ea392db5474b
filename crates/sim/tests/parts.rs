//! What single parts of a brick do: links, credits, flash, and values that a user changes.

mod common;
#[path = "common/loops.rs"]
mod loops;

use loops::{Places, brick, closed_loop, random_rate};
use sim::brick::resolve;
use sim::member::Kind;
use sim::system::{Request, System};

fn refused(spoken: &str) -> String {
    resolve(spoken, &common::brick_texts(), &[]).expect_err(spoken)
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
    assert!(
        refused("wd2500jd,drive.rpms=5400").contains("unknown field `rpms`"),
        "{}",
        refused("wd2500jd,drive.rpms=5400")
    );
    assert!(refused("wd2500jd,controller.ports=4").contains("no such part"));
    assert!(refused("wd2500jd,disk.rpm=5400").contains("PART.KEY for the parts drive, controller"));
}

#[test]
fn an_array_file_that_changes_a_part_says_where_the_value_comes_from() {
    let mut texts = common::brick_texts();
    let file = "title = \"own\"\ndrive = \"wd2500jd\"\nlevel = \"jbod\"\nmembers = 1\n[changes.drive]\nrpm = 10000\n";
    texts.insert("arrays/own".into(), file.into());
    let error = resolve("own", &texts, &[]).expect_err("a value without a basis");
    assert!(error.contains("[basis.drive] must call rpm"), "{error}");
    texts.insert("arrays/own".into(), format!("{file}[basis.drive]\nrpm = \"derived: a guess\"\n"));
    resolve("own", &texts, &[]).expect("a brick");
}
