//! Every documented limit of cloud volumes against what a modelled volume does: rate, throughput, what counts as one
//! request, credits, instance limits, and refusal of what is not sold.

mod common;
#[path = "common/loops.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod loops;

use loops::closed_loop;
use plan::{Bytes, Duration};
use sim::brick::{Brick, CloudParameters, DriveParameters, resolve};
use sim::cloud::Cloud;
use sim::member::{Command, Kind};
use sim::system::System;

const LIMITS: &str = include_str!("../../../reference/cloud_limits.csv");
const MIB: f64 = 1_048_576.0;

/// Columns of a line, of which some are quoted and have commas.
fn columns(line: &str) -> Vec<String> {
    let (mut found, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => found.push(String::new()),
            _ => found.last_mut().expect("one").push(c),
        }
    }
    found
}

struct Row {
    what: String,
    operation: String,
    depth: String,
    metric: String,
    value: f64,
    unit: String,
}

fn rows() -> Vec<Row> {
    let row = |line: &str| {
        let c = columns(line);
        let value = c[8].parse().expect("a number");
        let (what, operation, depth) = (c[1].clone(), c[3].clone(), c[5].clone());
        Row { what, operation, depth, metric: c[7].clone(), value, unit: c[9].clone() }
    };
    LIMITS.lines().skip(1).map(row).collect()
}

/// The first number after a word.
fn number_after(text: &str, word: &str) -> f64 {
    let from = text.find(word).map_or("", |at| &text[at + word.len()..]);
    let digits: String = from.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse().unwrap_or_else(|_| panic!("{text}: no number after {word}"))
}

/// An offer's volume; `gp3` states nothing but an offer and a size, so that any offer can be put into it.
fn spoken(offer: &str, bytes: f64, more: &str) -> String {
    format!("gp3,drive.offer={offer},drive.capacity_bytes={bytes:.0}{more}")
}

fn volume(offer: &str, gib: f64, more: &str) -> Result<Brick, String> {
    resolve(&spoken(offer, gib * 1024.0 * MIB, more), &common::brick_texts(), &[]).map_err(String::from)
}

fn parameters(brick: &Brick) -> CloudParameters {
    match &brick.drive {
        DriveParameters::Cloud(p) => p.clone(),
        _ => panic!("a cloud volume"),
    }
}

/// The same volume without credits, as it is when they are spent.
fn spent(brick: &Brick) -> Brick {
    let mut p = parameters(brick);
    (p.burst_ios, p.peak_iops, p.peak_mb_per_s) = (1, 0, 0.0);
    p.burst_bytes = p.io_unit_bytes;
    Brick { drive: DriveParameters::Cloud(p), ..brick.clone() }
}

/// Requests a second of a deep queue, at random places.
fn rate(brick: &Brick, kind: Kind, bytes: u32, depth: u32, count: u64) -> f64 {
    let mut system = System::new(brick).expect("a volume that can be built");
    let mut rng = engine::rng::Rng::from_words(&[11]);
    let places = system.capacity_bytes() / u64::from(bytes);
    closed_loop(&mut system, kind, bytes, depth, count, || rng.below(places) * u64::from(bytes))
}

fn near(found: f64, row: &Row, share: f64) {
    assert!((found / row.value - 1.0).abs() < share, "{}, {}: {found} of {}", row.what, row.metric, row.value);
}

/// Small requests as fast as they go.
fn iops(brick: &Brick, kind: Kind) -> f64 {
    rate(brick, kind, 4096, 4096, 120_000)
}

/// Large ones, in 10^6 bytes/s; each is one unit of the volume.
fn mb_per_s(brick: &Brick, kind: Kind) -> f64 {
    let bytes = parameters(brick).io_unit_bytes.0 as u32;
    rate(brick, kind, bytes, 1024, 40_000) * f64::from(bytes) / 1e6
}

fn in_mb(row: &Row) -> f64 {
    match row.unit.as_str() {
        u if u.starts_with("MiB/s") => row.value * MIB / 1e6,
        u if u.starts_with("MB/s") => row.value,
        "B/s" => row.value / 1e6,
        other => panic!("{other}"),
    }
}

fn near_mb(brick: &Brick, kind: Kind, row: &Row) {
    let (found, wanted) = (mb_per_s(brick, kind), in_mb(row));
    assert!((found / wanted - 1.0).abs() < 0.01, "{}, {}: {found} MB/s of {wanted}", row.what, row.metric);
}

/// One more than is sold is refused, in one line that has the limit.
fn refused(offer: &str, gib: f64, more: &str, limit: &str) {
    let said = volume(offer, gib, more).expect_err("more than is sold");
    assert!(said.lines().count() == 1 && said.contains(limit), "{said}");
}

/// Offer and size that a row speaks of.
fn offer_of(row: &Row) -> (&'static str, f64) {
    let w = row.what.as_str();
    let gib = || number_after(w, if w.contains("gp2") { "gp2" } else { "v2" });
    match () {
        () if w.contains("gp3 (2020") => ("gp3-2020", 16_384.0),
        () if w.contains("gp3") => ("gp3", 16_384.0),
        () if w.contains("gp2 up to 170") => ("gp2", 170.0),
        () if w.contains("gp2 from 334") => ("gp2", 334.0),
        () if w.contains("gp2") => ("gp2", gib()),
        () if w.contains("Block Express") => ("io2-block-express", 16_384.0),
        () if w.contains("AWS io2") => ("io2", 16_384.0),
        () if w.contains("AWS io1") => ("io1", 16_384.0),
        () if w.contains("st1") => ("st1", 16_384.0),
        () if w.contains("sc1") => ("sc1", 16_384.0),
        () if w.contains("v2 base") || w == "Azure Premium SSD v2" => ("azure-premium-v2", 1_024.0),
        () if w.contains("v2 above 6") => ("azure-premium-v2", 20.0),
        () if w.contains("Premium SSD v2") => ("azure-premium-v2", gib()),
        () if w.contains("Ultra") => ("azure-ultra", number_after(w, "Ultra")),
        () if w.contains("SSD P") => {
            let sizes =
                [("P10", 128.0), ("P15", 256.0), ("P20", 512.0), ("P30", 1024.0), ("P40", 2048.0), ("P50", 4096.0)];
            let size = sizes.iter().find(|(name, _)| w.ends_with(name)).expect("a size that is sold");
            ("azure-premium", size.1)
        }
        () if w.contains("pd-balanced") => ("pd-balanced", 16_384.0),
        () if w.contains("pd-ssd") => ("pd-ssd", 16_384.0),
        () if w.contains("Hyperdisk Balanced") => ("hyperdisk-balanced", 1_024.0),
        () if w.contains("Hyperdisk") => ("hyperdisk-extreme", 1_024.0),
        () if w.contains("OCI") => ("oci-balanced", number_after(w, "Balanced") * 1e9 / (1024.0 * MIB)),
        () if w.contains("local SSD") => ("gcp-local-ssd", 375.0 * number_after(w, "count")),
        () => panic!("{w}: no offer"),
    }
}

/// A volume of an offer with the most that is sold of it.
fn at_most(offer: &str, gib: f64) -> Brick {
    let most = [
        ("gp3", 80_000u32),
        ("gp3-2020", 16_000),
        ("io1", 64_000),
        ("io2", 64_000),
        ("io2-block-express", 256_000),
        ("azure-premium-v2", 80_000),
        ("azure-ultra", 153_600),
        ("hyperdisk-balanced", 160_000),
        ("hyperdisk-extreme", 350_000),
    ];
    let Some((_, iops)) = most.iter().find(|(name, _)| *name == offer) else {
        return volume(offer, gib, "").expect("is sold");
    };
    // Small volumes are sold with less; the refusal names it.
    let wish = |n: u32, mb: f64| {
        let bytes = if mb > 0.0 { format!(",drive.mb_per_s={mb}") } else { String::new() };
        volume(offer, gib, &format!(",drive.iops={n}{bytes}"))
    };
    let limit = |said: &str, word: &str| number_after(said, word);
    let iops = wish(*iops, 0.0).map_or_else(|said| limit(&said, "up to ") as u32, |_| *iops);
    wish(iops, 1e6).or_else(|said| wish(iops, limit(&said, "up to ").floor())).expect("what the refusal says is sold")
}

#[test]
fn every_documented_limit_is_kept() {
    let all = rows();
    assert!(all.len() >= 142, "{} rows", all.len());
    let mut checked = 0;
    for row in &all {
        let (offer, gib) = offer_of(row);
        let kind = if row.operation == "write" { Kind::Write } else { Kind::Read };
        let plain = || spent(&volume(offer, gib, "").expect("is sold"));
        match row.metric.as_str() {
            "iops_base" => near(iops(&plain(), kind), row, 0.01),
            "throughput_base" => near_mb(&plain(), kind, row),
            "iops_max" if offer.starts_with("pd-") => near(iops(&plain(), kind), row, 0.01),
            "iops_per_GiB_of_size" | "throughput_per_GiB_of_size" => {
                let by_bytes = row.metric.starts_with("throughput");
                let of = |gib: f64| {
                    let brick = volume(offer, gib, "").expect("is sold");
                    if by_bytes { mb_per_s(&brick, kind) } else { iops(&brick, kind) }
                };
                let each = if by_bytes { in_mb(row) } else { row.value };
                let found = (of(1_500.0) - of(500.0)) / 1_000.0;
                assert!((found / each - 1.0).abs() < 0.03, "{}: {found} a GiB, of {each}", row.what);
            }
            "iops_max" => {
                near(iops(&spent(&at_most(offer, gib)), kind), row, 0.01);
                let more = format!(",drive.iops={}", row.value as u64 + 1);
                assert!(volume(offer, gib, &more).is_err(), "{} with {more}", row.what);
            }
            "throughput_max" if row.what.contains(" at ") => {
                let more = format!(",drive.iops={:.0}", number_after(&row.what, " at "));
                near_mb(&volume(offer, gib, &more).expect("is sold"), kind, row);
            }
            "throughput_max" => {
                // Bursts count as what a volume can do where the document's limit is that of the burst.
                let brick = at_most(offer, gib);
                near_mb(&if offer == "azure-premium" { spent(&brick) } else { brick }, kind, row);
            }
            "iops_per_GiB_max" | "iops_per_GiB" => {
                let most = row.value as u64 * 20;
                let fits = volume(offer, 20.0, &format!(",drive.iops={most}")).expect("is sold");
                assert!((iops(&fits, kind) / most as f64 - 1.0).abs() < 0.01, "{}", row.what);
                refused(offer, 20.0, &format!(",drive.iops={}", most + 1), &most.to_string());
            }
            "throughput_per_iops_max" | "throughput_per_iops" | "throughput_per_1000_iops" => {
                let each = in_mb_of(row) / if row.metric.contains("1000") { 1_000.0 } else { 1.0 };
                let most = each * 4_000.0;
                let more = |mb: f64| format!(",drive.iops=4000,drive.mb_per_s={mb}");
                let found = mb_per_s(&volume(offer, gib, &more(most)).expect("is sold"), kind);
                // 0.256 MiB/s a request are a little more than the 256 KiB that count as one.
                assert!((found / most - 1.0).abs() < 0.03, "{}: {found} of {most}", row.what);
                refused(offer, gib, &more(most * 1.01), &format!("{most:.1}"));
            }
            "burst_duration" => near(burst_of(&volume(offer, gib, "").expect("is sold")).0, row, 0.02),
            "credit_refill" => comes_back_in(&volume(offer, gib, "").expect("is sold"), row.value),
            "latency_mean_upper" => {
                let brick = volume(offer, gib, ",drive.iops=64000").expect("is sold");
                let mean_us = 1e6 / rate(&brick, kind, 16_384, 1, 4_000);
                assert!(mean_us < row.value, "{}: {mean_us} us", row.what);
            }
            // A depth that is documented to be enough must be enough.
            "iops_reachable" => {
                let depth: u32 = row.depth.parse().expect("a depth");
                let brick = volume(offer, gib, ",drive.iops=350000").expect("is sold");
                let found = rate(&brick, kind, 16_384, depth, 60_000);
                assert!(found > 0.99 * row.value, "{} deep: {found}/s of {}", row.depth, row.value);
            }
            other => panic!("{other}: nobody checks it"),
        }
        checked += 1;
    }
    assert_eq!(checked, all.len());
}

fn in_mb_of(row: &Row) -> f64 {
    if row.unit.starts_with("MiB/s") { row.value * MIB / 1e6 } else { row.value }
}

/// A volume of which only the buckets of requests matter: bytes are free, and nothing is left to chance.
fn of_requests(p: &CloudParameters) -> CloudParameters {
    CloudParameters {
        io_unit_bytes: Bytes(4096),
        mb_per_s: 1e9,
        burst_bytes: Bytes(1 << 40),
        peak_mb_per_s: 0.0,
        read_latency: Duration { ns: 0 },
        latency_tail: Duration { ns: 0 },
        ..p.clone()
    }
}

/// Requests that count as 64 each, so that hours of credits are few commands: when they pass, in s.
fn spend(cloud: &mut Cloud, from_s: f64, count: u64) -> Vec<f64> {
    let mut now_ns = (from_s * 1e9) as u64;
    let pass = |_| {
        let bytes = 64 * 4096;
        cloud.submit(
            now_ns,
            Command { id: 0, kind: Kind::Read, offset_bytes: 0, bytes, durable: false, urgent: false, stamp: 0 },
        );
        now_ns = cloud.next_event().max(now_ns);
        cloud.advance(now_ns, &mut Vec::new());
        now_ns as f64 / 1e9
    };
    (0..count).map(pass).collect()
}

/// How long the peak lasts from `from_s` on, the rate after it, and when that was seen.
fn burst_and_base(cloud: &mut Cloud, p: &CloudParameters, from_s: f64) -> (f64, f64, f64) {
    let ends = spend(cloud, from_s, 400_000);
    let slow = ends.windows(2).position(|w| w[1] - w[0] > 0.9 * 64.0 / p.iops as f64).expect("the credits end");
    let last = ends.len() - 1;
    (ends[slow] - from_s, 64.0 * (last - slow) as f64 / (ends[last] - ends[slow]), ends[last])
}

fn burst_of(brick: &Brick) -> (f64, f64) {
    let p = of_requests(&parameters(brick));
    let (burst_s, base, _) = burst_and_base(&mut Cloud::new(&p), &p, 0.0);
    (burst_s, base)
}

/// After so long without a request a volume whose credits are spent has as many as at first, and after half of it half.
fn comes_back_in(brick: &Brick, seconds: f64) {
    let p = of_requests(&parameters(brick));
    for share in [0.5, 1.0] {
        let mut cloud = Cloud::new(&p);
        let (first_s, _, spent_s) = burst_and_base(&mut cloud, &p, 0.0);
        let (again_s, _, _) = burst_and_base(&mut cloud, &p, spent_s + share * seconds);
        assert!(
            (again_s / (share * first_s) - 1.0).abs() < 0.02,
            "{again_s} s of {first_s} s after {share} of {seconds} s"
        );
    }
}

#[test]
fn a_volume_is_no_faster_than_its_instance() {
    let of =
        |more: &str| volume("gp3", 1_024.0, &format!(",drive.iops=16000,drive.mb_per_s=1000{more}")).expect("is sold");
    assert!((iops(&of(",drive.instance_iops=6000"), Kind::Write) / 6_000.0 - 1.0).abs() < 0.01);
    assert!((mb_per_s(&of(",drive.instance_mb_per_s=593.75"), Kind::Write) / 593.75 - 1.0).abs() < 0.01);
    // Nor in a burst.
    let small = volume("gp2", 100.0, ",drive.instance_iops=1000").expect("is sold");
    assert!((burst_of(&small).1 / 300.0 - 1.0).abs() < 0.02);
    assert_eq!(parameters(&small).peak_iops, 1_000);
    let slower = volume("gp2", 100.0, ",drive.instance_iops=200").expect("is sold");
    assert!((iops(&slower, Kind::Read) / 200.0 - 1.0).abs() < 0.01);
}

#[test]
fn a_write_of_more_than_a_unit_counts_as_several() {
    let gp3 = volume("gp3", 1_024.0, ",drive.iops=4000,drive.mb_per_s=1048").expect("is sold");
    // 1 MiB are four units: 1,000 a second by requests and 999 by bytes; 512 KiB are two, and bytes are the limit.
    assert!((rate(&gp3, Kind::Write, 1 << 20, 256, 20_000) / 999.0 - 1.0).abs() < 0.02);
    let slow = volume("gp3", 1_024.0, ",drive.iops=3000,drive.mb_per_s=786").expect("is sold");
    assert!((rate(&slow, Kind::Write, 262_145 / 512 * 512 + 512, 256, 20_000) / 1_500.0 - 1.0).abs() < 0.02);
    // What is not sold is refused by its own key and limit.
    refused("gp2", 500.0, ",drive.iops=5000", "1500 requests/s");
    refused("gp3", 1_024.0, ",drive.offer=gp4", "one of gp3, gp3-2020");
    refused("io1", 1.0, "", "4 to 16384 GiB");
}
