//! Cloud volumes by what is bought: an offer, a size and what is provisioned. What the volume then does follows from the
//! provider's rules; a wish that the offer does not sell is refused with the limit in the answer.
//!
//! Rates, unit sizes and credits are those of `reference/cloud_limits.csv`, which names each document; a test holds every
//! row of it against a simulated volume. Latencies are in no contract but io2's and are stated with [`Latency`].

use plan::{Bytes, Duration};
use serde::Deserialize;
use toml::Table;

use super::CloudParameters;

const KIB: u64 = 1024;
const GIB: f64 = (1u64 << 30) as f64;
/// One MiB/s in 10^6 bytes/s; AWS and Google print the former, Azure and Oracle the latter.
const MIB: f64 = 1.048_576;
/// I/O credits of a gp2 volume, full at the start.
const GP2_CREDITS: u64 = 5_400_000;
/// How long a Premium SSD of up to 512 GiB bursts when its credits are full.
const PREMIUM_BURST_S: u64 = 1_800;
/// Credits of a volume that does not burst.
const STEADY: u64 = 1;

#[derive(Debug, Clone, Deserialize)]
pub struct CloudVolume {
    offer: String,
    capacity_bytes: Bytes,
    /// What is provisioned, where the offer lets that be chosen. 0: what comes with the size.
    #[serde(default)]
    iops: u64,
    #[serde(default)]
    mb_per_s: f64,
    /// What the instance can do with all its volumes, where this one has it alone. 0: more than the volume.
    #[serde(default)]
    instance_iops: u64,
    #[serde(default)]
    instance_mb_per_s: f64,
}

/// Typical service times of 4 KiB one deep, in us: read, write, and the mean of the exponential part on top.
#[derive(Debug, Clone, Copy)]
struct Latency(u64, u64, u64);

/// Rates with what they cost: requests a second and 10^6 bytes/s.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    iops: u64,
    mb_per_s: f64,
}

/// A volume may burst to `to` until it has done so much more than its base.
#[derive(Debug, Clone, Copy)]
struct Burst {
    credit_ios: u64,
    credit_bytes: f64,
    to: Rates,
}

struct Offer {
    name: &'static str,
    /// Sizes that are sold, in GiB.
    sizes_gib: (f64, f64),
    /// Whether rates are chosen apart from the size.
    provisioned: bool,
    included: fn(f64) -> Rates,
    /// The most requests a second of so many GiB; the most bytes a second of so many GiB with so many requests a second.
    most_iops: fn(f64) -> u64,
    most_mb_per_s: fn(f64, u64) -> f64,
    burst: fn(f64) -> Option<Burst>,
    /// Rates of writes where they differ.
    writes: fn(f64) -> Option<Rates>,
    unit_bytes: u64,
    merge_from_bytes: u64,
    latency: Latency,
}

const PLAIN: Offer = Offer {
    name: "",
    sizes_gib: (1.0, 65_536.0),
    provisioned: true,
    included: |_| Rates { iops: 3_000, mb_per_s: 125.0 * MIB },
    most_iops: |_| u64::MAX,
    most_mb_per_s: |_, _| f64::MAX,
    burst: |_| None,
    writes: |_| None,
    unit_bytes: 256 * KIB,
    merge_from_bytes: 32 * KIB,
    latency: Latency(550, 700, 150),
};

fn gp2_iops(gib: f64) -> u64 {
    ((3.0 * gib).round() as u64).clamp(100, 16_000)
}

/// 500 MiB/s up to 32,000 IOPS, 16 KiB for each beyond; no more than units of 256 KiB carry.
fn io1_mb_per_s(iops: u64) -> f64 {
    let iops = iops as f64;
    (500.0_f64.min(iops / 4.0)).max(iops / 64.0).min(1_000.0) * MIB
}

/// GiB up to which a Premium SSD is sold as this size, requests/s, 10^6 bytes/s.
const PREMIUM: [(f64, u64, f64); 14] = [
    (4.0, 120, 25.0),
    (8.0, 120, 25.0),
    (16.0, 120, 25.0),
    (32.0, 120, 25.0),
    (64.0, 240, 50.0),
    (128.0, 500, 100.0),
    (256.0, 1_100, 125.0),
    (512.0, 2_300, 150.0),
    (1_024.0, 5_000, 200.0),
    (2_048.0, 7_500, 250.0),
    (4_096.0, 7_500, 250.0),
    (8_192.0, 16_000, 500.0),
    (16_384.0, 18_000, 750.0),
    (32_767.0, 20_000, 900.0),
];

fn premium(gib: f64) -> Rates {
    let row = PREMIUM.iter().find(|row| gib <= row.0).unwrap_or(&PREMIUM[13]);
    Rates { iops: row.1, mb_per_s: row.2 }
}

/// A Persistent Disk by its size. What is added to each size (3,000 requests/s and 140 MiB/s, 6,000 and 240), and 1,200 MiB/s
/// at the most, are from memory of Google's page on them.
fn persistent(gib: f64, base: (f64, f64), each: (f64, f64), most_iops: u64) -> Rates {
    let iops = ((base.0 + each.0 * gib).round() as u64).min(most_iops);
    Rates { iops, mb_per_s: (base.1 + each.1 * gib).min(1_200.0) * MIB }
}

/// Disks of 375 GiB: reads, then writes; from four to eight of them there is no more than four give.
fn local(gib: f64) -> (Rates, Rates) {
    let disks = (gib / 375.0).round().max(1.0);
    let (each, of) = if disks <= 3.0 {
        ((170_000, 90_000, 660.0, 350.0), disks)
    } else if disks <= 8.0 {
        ((170_000, 90_000, 662.5, 350.0), 4.0)
    } else {
        ((100_000, 50_000, 390.0, 195.0), disks)
    };
    let rates = |iops: u64, mib: f64| Rates { iops: iops * of as u64, mb_per_s: mib * of * MIB };
    (rates(each.0, each.2), rates(each.1, each.3))
}

const OFFERS: [Offer; 16] = [
    Offer {
        name: "gp3",
        most_iops: |gib| ((500.0 * gib) as u64).clamp(3_000, 80_000),
        most_mb_per_s: |_, iops| (iops as f64 / 4.0).clamp(125.0, 2_000.0) * MIB,
        ..PLAIN
    },
    Offer {
        name: "gp3-2020",
        sizes_gib: (1.0, 16_384.0),
        most_iops: |gib| ((500.0 * gib) as u64).clamp(3_000, 16_000),
        most_mb_per_s: |_, iops| (iops as f64 / 4.0).clamp(125.0, 1_000.0) * MIB,
        ..PLAIN
    },
    Offer {
        name: "gp2",
        sizes_gib: (1.0, 16_384.0),
        provisioned: false,
        included: |gib| Rates { iops: gp2_iops(gib), mb_per_s: if gib <= 170.0 { 128.0 } else { 250.0 } * MIB },
        burst: |gib| {
            let to = Rates { iops: 3_000, mb_per_s: 0.0 };
            (gp2_iops(gib) < 3_000).then_some(Burst { credit_ios: GP2_CREDITS, credit_bytes: 0.0, to })
        },
        ..PLAIN
    },
    Offer {
        name: "io1",
        sizes_gib: (4.0, 16_384.0),
        included: |_| Rates { iops: 100, mb_per_s: 0.0 },
        most_iops: |gib| ((50.0 * gib) as u64).min(64_000),
        most_mb_per_s: |_, iops| io1_mb_per_s(iops),
        latency: Latency(500, 450, 140),
        ..PLAIN
    },
    Offer {
        name: "io2",
        sizes_gib: (4.0, 16_384.0),
        included: |_| Rates { iops: 100, mb_per_s: 0.0 },
        most_iops: |gib| ((500.0 * gib) as u64).min(64_000),
        most_mb_per_s: |_, iops| io1_mb_per_s(iops),
        latency: Latency(350, 350, 100),
        ..PLAIN
    },
    Offer {
        name: "io2-block-express",
        sizes_gib: (4.0, 65_536.0),
        included: |_| Rates { iops: 100, mb_per_s: 0.0 },
        most_iops: |gib| ((1_000.0 * gib) as u64).min(256_000),
        most_mb_per_s: |_, iops| (iops as f64 * 0.256).min(4_000.0) * MIB,
        latency: Latency(200, 250, 50),
        ..PLAIN
    },
    Offer {
        name: "st1",
        sizes_gib: (125.0, 16_384.0),
        provisioned: false,
        included: |gib| Rates { iops: 500, mb_per_s: (40.0 * gib / 1_024.0).min(500.0) * MIB },
        burst: |gib| {
            let to = Rates { iops: 500, mb_per_s: (250.0 * gib / 1_024.0).min(500.0) * MIB };
            Some(Burst { credit_ios: 0, credit_bytes: gib * GIB, to })
        },
        unit_bytes: 1_024 * KIB,
        latency: Latency(6_000, 2_000, 3_000),
        ..PLAIN
    },
    Offer {
        name: "sc1",
        sizes_gib: (125.0, 16_384.0),
        provisioned: false,
        included: |gib| Rates { iops: 250, mb_per_s: (12.0 * gib / 1_024.0).min(192.0) * MIB },
        burst: |gib| {
            let to = Rates { iops: 250, mb_per_s: (80.0 * gib / 1_024.0).min(250.0) * MIB };
            Some(Burst { credit_ios: 0, credit_bytes: gib * GIB, to })
        },
        unit_bytes: 1_024 * KIB,
        latency: Latency(6_000, 2_000, 3_000),
        ..PLAIN
    },
    Offer {
        name: "azure-premium-v2",
        included: |_| Rates { iops: 3_000, mb_per_s: 125.0 },
        most_iops: |gib| ((500.0 * gib) as u64).clamp(3_000, 80_000),
        most_mb_per_s: |_, iops| (iops as f64 / 4.0).min(1_200.0),
        merge_from_bytes: 0,
        latency: Latency(500, 600, 200),
        ..PLAIN
    },
    Offer {
        name: "azure-ultra",
        sizes_gib: (4.0, 65_536.0),
        included: |gib| Rates { iops: (300.0 * gib) as u64, mb_per_s: 0.0 },
        most_iops: |gib| ((300.0 * gib) as u64).min(400_000),
        most_mb_per_s: |_, iops| (iops as f64 / 4.0).min(4_000.0),
        merge_from_bytes: 0,
        latency: Latency(350, 450, 150),
        ..PLAIN
    },
    Offer {
        name: "azure-premium",
        sizes_gib: (1.0, 32_767.0),
        provisioned: false,
        included: premium,
        burst: |gib| {
            let (base, to) = (premium(gib), Rates { iops: 3_500, mb_per_s: 170.0 });
            let credit_bytes = (to.mb_per_s - base.mb_per_s) * 1e6 * PREMIUM_BURST_S as f64;
            let credit_ios = to.iops.saturating_sub(base.iops) * PREMIUM_BURST_S;
            (gib <= 512.0).then_some(Burst { credit_ios, credit_bytes, to })
        },
        merge_from_bytes: 0,
        latency: Latency(1_500, 2_000, 1_000),
        ..PLAIN
    },
    Offer {
        name: "hyperdisk-balanced",
        sizes_gib: (4.0, 65_536.0),
        included: |_| Rates { iops: 3_000, mb_per_s: 140.0 * MIB },
        most_iops: |gib| ((500.0 * gib) as u64).clamp(3_000, 160_000),
        most_mb_per_s: |_, iops| (iops as f64 / 4.0).clamp(140.0, 2_400.0) * MIB,
        merge_from_bytes: 0,
        latency: Latency(500, 500, 150),
        ..PLAIN
    },
    Offer {
        name: "hyperdisk-extreme",
        sizes_gib: (64.0, 65_536.0),
        included: |gib| Rates { iops: ((2.0 * gib) as u64).max(100), mb_per_s: 0.0 },
        most_iops: |gib| ((1_000.0 * gib) as u64).min(350_000),
        most_mb_per_s: |_, iops| (iops as f64 / 4.0).min(5_000.0) * MIB,
        merge_from_bytes: 0,
        latency: Latency(400, 400, 120),
        ..PLAIN
    },
    Offer {
        name: "pd-balanced",
        sizes_gib: (10.0, 65_536.0),
        provisioned: false,
        included: |gib| persistent(gib, (3_000.0, 140.0), (6.0, 0.28), 80_000),
        merge_from_bytes: 0,
        ..PLAIN
    },
    Offer {
        name: "pd-ssd",
        sizes_gib: (10.0, 65_536.0),
        provisioned: false,
        included: |gib| persistent(gib, (6_000.0, 240.0), (30.0, 0.48), 100_000),
        merge_from_bytes: 0,
        ..PLAIN
    },
    Offer {
        name: "gcp-local-ssd",
        sizes_gib: (375.0, 12_000.0),
        provisioned: false,
        included: |gib| local(gib).0,
        writes: |gib| Some(local(gib).1),
        merge_from_bytes: 0,
        // What its command takes, beside an NVMe drive's 80 us of a read and 20 of a write.
        latency: Latency(110, 40, 15),
        ..PLAIN
    },
];

/// Printed for 10^9 bytes and 4 KiB each.
const OCI_BALANCED: Offer = Offer {
    name: "oci-balanced",
    sizes_gib: (46.0, 32_768.0),
    provisioned: false,
    included: |gib| {
        let gb = gib * GIB / 1e9;
        Rates { iops: ((60.0 * gb).round() as u64).min(25_000), mb_per_s: (0.48 * gb).min(480.0) }
    },
    merge_from_bytes: 0,
    latency: Latency(500, 600, 200),
    ..PLAIN
};

fn offers() -> impl Iterator<Item = &'static Offer> {
    OFFERS.iter().chain(std::iter::once(&OCI_BALANCED))
}

/// A fault by the key that is wrong.
pub type Refusal = (&'static str, String);

/// What a volume does, with the values that the file or its user states for themselves in place of the offer's.
pub fn volume(table: &Table, wishes: &CloudVolume) -> Result<Table, Refusal> {
    let offer = offers().find(|o| o.name == wishes.offer).ok_or_else(|| {
        let names: Vec<&str> = offers().map(|o| o.name).collect();
        ("offer", format!("one of {} is needed", names.join(", ")))
    })?;
    let derived = parameters(offer, wishes)?;
    let mut whole = Table::try_from(&derived).map_err(|e| ("offer", e.to_string()))?;
    let own = ["offer", "iops", "mb_per_s", "instance_iops", "instance_mb_per_s"];
    whole.extend(table.iter().filter(|(k, _)| !own.contains(&k.as_str())).map(|(k, v)| (k.clone(), v.clone())));
    Ok(whole)
}

fn parameters(offer: &Offer, wishes: &CloudVolume) -> Result<CloudParameters, Refusal> {
    let gib = wishes.capacity_bytes.0 as f64 / GIB;
    let (least, most) = offer.sizes_gib;
    if !(least * 0.999..=most * 1.001).contains(&gib) {
        return Err(("capacity_bytes", format!("{} is sold from {least} to {most} GiB", offer.name)));
    }
    let rates = bought(offer, wishes, gib)?;
    let burst = (offer.burst)(gib);
    let writes = (offer.writes)(gib);
    let capped = |rates: Rates| Rates {
        iops: if wishes.instance_iops > 0 { rates.iops.min(wishes.instance_iops) } else { rates.iops },
        mb_per_s: match wishes.instance_mb_per_s {
            most if most > 0.0 && rates.mb_per_s > 0.0 => rates.mb_per_s.min(most),
            _ => rates.mb_per_s,
        },
    };
    let base = capped(rates);
    // What its instance cannot do, a volume cannot do in a burst either, and then has no credits to spend.
    let peak = burst.map(|burst| capped(burst.to));
    let faster_ios = peak.filter(|p| p.iops > base.iops);
    let faster_bytes = peak.filter(|p| p.mb_per_s > base.mb_per_s);
    let us = |n: u64| Duration { ns: n * 1_000 };
    let Latency(read, write, tail) = offer.latency;
    let unit_bytes = offer.unit_bytes as f64;
    let credit_bytes = burst.filter(|_| faster_bytes.is_some()).map_or(unit_bytes, |b| b.credit_bytes);
    let credit_ios = burst.filter(|_| faster_ios.is_some()).map_or(STEADY, |b| b.credit_ios);
    Ok(CloudParameters {
        capacity_bytes: wishes.capacity_bytes,
        iops: base.iops,
        burst_ios: credit_ios.max(STEADY),
        io_unit_bytes: Bytes(offer.unit_bytes),
        merge_from_bytes: Bytes(offer.merge_from_bytes),
        mb_per_s: base.mb_per_s,
        burst_bytes: Bytes(credit_bytes.max(unit_bytes) as u64),
        peak_iops: faster_ios.map_or(0, |p| p.iops),
        peak_mb_per_s: faster_bytes.map_or(0.0, |p| p.mb_per_s),
        write_iops: writes.map_or(0, |w| capped(w).iops),
        write_mb_per_s: writes.map_or(0.0, |w| capped(w).mb_per_s),
        read_latency: us(read),
        write_latency: us(write),
        latency_tail: us(tail),
        seed: 1,
    })
}

/// What is provisioned, if the offer sells it.
fn bought(offer: &Offer, wishes: &CloudVolume, gib: f64) -> Result<Rates, Refusal> {
    let included = (offer.included)(gib);
    if !offer.provisioned {
        let said = |what: &str| format!("{} comes with its size: {what}; choose another capacity_bytes", offer.name);
        if wishes.iops > 0 && wishes.iops != included.iops {
            return Err(("iops", said(&format!("{} requests/s", included.iops))));
        }
        if wishes.mb_per_s > 0.0 && (wishes.mb_per_s / included.mb_per_s - 1.0).abs() > 0.01 {
            return Err(("mb_per_s", said(&format!("{:.1} MB/s", included.mb_per_s))));
        }
        return Ok(included);
    }
    let most_iops = (offer.most_iops)(gib);
    let iops = if wishes.iops > 0 { wishes.iops } else { included.iops.min(most_iops) };
    if iops > most_iops {
        return Err(("iops", format!("{} of {gib:.0} GiB is sold with up to {most_iops} requests/s", offer.name)));
    }
    let most_mb = (offer.most_mb_per_s)(gib, iops);
    // Where bytes cannot be chosen, they follow from the requests.
    let usual = if included.mb_per_s > 0.0 { included.mb_per_s } else { most_mb };
    let mb_per_s = if wishes.mb_per_s > 0.0 { wishes.mb_per_s } else { usual.min(most_mb) };
    if mb_per_s > most_mb * 1.001 {
        let said = format!("{} with {iops} requests/s is sold with up to {most_mb:.1} MB/s", offer.name);
        return Err(("mb_per_s", said));
    }
    Ok(Rates { iops, mb_per_s })
}
