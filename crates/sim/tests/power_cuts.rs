//! What a power cut takes: every write that was acknowledged and lay in a volatile cache, and none that was promised.

mod common;

use proptest::prelude::*;
use sim::brick::resolve;
use sim::member::Kind;
use sim::system::{Change, Losses, Request, System};

/// A request after a pause: 0 flushes, others write; tags count from 0.
#[derive(Debug, Clone)]
struct Asked {
    flush: bool,
    offset_bytes: u64,
    bytes: u32,
    pause_ns: u64,
    durable: bool,
}

/// What the host knows: when each request was asked and when it heard of its end, in the order of all that happened.
struct Host {
    system: System,
    asked: Vec<Asked>,
    asked_order: Vec<u64>,
    /// Order and instant.
    heard: Vec<Option<(u64, u64)>>,
    order: u64,
    losses: Option<(u64, Losses)>,
}

impl Host {
    fn new(spoken: &str, cut: Option<u64>, asked: &[Asked]) -> Result<Host, String> {
        let cut: Vec<String> = cut.iter().map(|ns| format!("power_cut_at={ns}ns")).collect();
        let brick = resolve(spoken, &common::brick_texts(), &cut)?;
        let count = asked.len();
        Ok(Host {
            system: System::new(&brick)?,
            asked: asked.to_vec(),
            asked_order: vec![u64::MAX; count],
            heard: vec![None; count],
            order: 0,
            losses: None,
        })
    }

    fn until(&mut self, now_ns: u64) {
        while self.system.next_event() <= now_ns {
            let next_ns = self.system.next_event();
            self.system.advance(next_ns);
            for change in self.system.take_changes() {
                if let Change::PowerCut { at_ns, lost } = change {
                    self.losses = Some((at_ns, lost));
                }
            }
            let (heard, order) = (&mut self.heard, &mut self.order);
            self.system.take_outcomes(|(tag, at_ns, failed)| {
                *order += 1;
                heard[tag as usize] = (!failed).then_some((*order, at_ns));
            });
        }
    }

    /// Asks for everything that comes before this instant, and lets time pass until it.
    fn run(&mut self, end_ns: u64) {
        let mut now_ns = 0;
        for tag in 0..self.asked.len() {
            let Asked { flush, offset_bytes, bytes, pause_ns, durable } = self.asked[tag].clone();
            now_ns += pause_ns;
            if now_ns >= end_ns {
                break;
            }
            self.until(now_ns);
            self.order += 1;
            self.asked_order[tag] = self.order;
            let (kind, bytes) = if flush { (Kind::Flush, 0) } else { (Kind::Write, bytes) };
            let durable = durable && !flush;
            self.system.submit(now_ns, Request { tag: tag as u32, kind, offset_bytes, bytes, durable });
        }
        self.until(end_ns);
    }

    /// Whether a write had ended before a flush was asked for that has ended as well, or was to be durable by itself.
    fn promised(&self, tag: usize) -> bool {
        let Some((heard, _)) = self.heard[tag] else { return false };
        let flushed =
            |flush: usize| self.asked[flush].flush && self.heard[flush].is_some() && heard < self.asked_order[flush];
        self.asked[tag].durable || (0..self.asked.len()).any(flushed)
    }
}

fn volatile_bricks() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "wd2500jd",
        "cheetah-x15",
        "barracuda-es-750",
        "nearline-20tb",
        "nvme-tlc-3840,drive.power_loss_protection=false",
        "msr-2003-wd-software-mirror",
        "msr-2003-wd-hardware-mirror",
        "overland-2007-sata,controller.battery=false",
        "overland-2007-sata,controller.battery=false,controller.drive_write_cache=true",
        "overland-2007-sata,level=raid6,controller.battery=false,controller.cache_bytes=1MiB",
        "terraserver-2003,level=raid10,members=8",
        "msr-2003-wd,drive=nearline-20tb,controller=,software=linux-md,level=raid5,members=4",
        "msr-2003-wd,drive=nearline-20tb,controller=,software=linux-md,level=raid10,members=4,condition=rebuilding",
    ])
}

/// Writes near one another, so that many are written over, some durable, with flushes among them.
fn mixed() -> impl Strategy<Value = Vec<Asked>> {
    let one = (0u8..12, 0u64..400, 1u32..64, 0u64..3_000_000, 0u8..8);
    prop::collection::vec(one, 1..80).prop_map(|list| {
        let asked = |(kind, place, sectors, pause_ns, durable): (u8, u64, u32, u64, u8)| Asked {
            flush: kind == 0,
            offset_bytes: place * 4096,
            bytes: sectors * 512,
            pause_ns,
            durable: durable == 0,
        };
        list.into_iter().map(asked).collect()
    })
}

/// Writes none of which lies over another; some follow on, in any order.
fn apart() -> impl Strategy<Value = Vec<Asked>> {
    let one = (prop::sample::select(vec![0u64, 512_000, 1 << 28]), 1u32..64, 0u64..3_000_000);
    let places = prop::collection::vec(one, 1..80).prop_map(|list| {
        let mut at = 0;
        let asked = |(gap, sectors, pause_ns): (u64, u32, u64)| {
            let offset_bytes = at + gap;
            at = offset_bytes + u64::from(sectors) * 512;
            Asked { flush: false, offset_bytes, bytes: sectors * 512, pause_ns, durable: false }
        };
        list.into_iter().map(asked).collect::<Vec<Asked>>()
    });
    places.prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_was_promised_is_lost(spoken in volatile_bricks(), asked in mixed(), cut_ns in 1u64..150_000_000) {
        let mut host = Host::new(spoken, Some(cut_ns), &asked).expect("a brick that can be built");
        host.run(cut_ns + 1);
        let (at_ns, losses) = host.losses.clone().expect("the power has failed");
        prop_assert_eq!(at_ns, cut_ns);
        let lost = &losses.writes;
        prop_assert_eq!(lost.promised, 0, "{:?} of {}", losses, spoken);
        prop_assert_eq!(lost.oldest.len() as u64, lost.count.min(8));
        prop_assert!(lost.oldest.is_sorted_by_key(|w| std::cmp::Reverse(w.age_ns)), "{:?}", lost);
        for write in &lost.oldest {
            // Acknowledged at that instant, and by then no flush and no wish of its own had made it durable.
            let known = |tag: &usize| {
                let asked = &host.asked[*tag];
                let heard = host.heard[*tag].is_some_and(|(_, heard_ns)| heard_ns + write.age_ns == at_ns);
                heard && !asked.flush && (asked.offset_bytes, u64::from(asked.bytes)) == (write.offset_bytes, write.bytes)
            };
            let found: Vec<usize> = (0..host.asked.len()).filter(known).collect();
            prop_assert!(!found.is_empty(), "{:?} was never acknowledged by {}", write, spoken);
            prop_assert!(found.iter().any(|tag| !host.promised(*tag)), "{:?} had been promised by {}", write, spoken);
        }
        if losses.drive_bytes + losses.controller_bytes == 0 {
            prop_assert_eq!(lost.count, 0, "{:?}", losses);
        }
    }

    #[test]
    fn every_acknowledged_write_that_was_volatile_is_lost(asked in apart(), cut_ns in 1u64..150_000_000, brick in 0usize..6) {
        // Places of these are those of their members, or of the controller's cache in front of them.
        let spoken = [
            "wd2500jd",
            "nearline-20tb",
            "nvme-tlc-3840,drive.power_loss_protection=false",
            "msr-2003-wd-software-mirror",
            "msr-2003-wd-hardware-mirror",
            "overland-2007-sata,controller.battery=false,controller.drive_write_cache=false",
        ][brick];
        let mut told = Host::new(spoken, Some(cut_ns), &asked).expect("a brick that can be built");
        told.run(cut_ns + 1);
        let (_, losses) = told.losses.clone().expect("the power has failed");
        // The same brick, that nobody keeps a ledger for.
        let mut plain = Host::new(spoken, None, &asked).expect("a brick that can be built");
        plain.run(cut_ns);
        let (members, caches) = plain.system.power_cut(cut_ns);
        let touched = |asked: &Asked| {
            let end = asked.offset_bytes + u64::from(asked.bytes);
            members.iter().flatten().chain(&caches).any(|l| l.offset_bytes < end && asked.offset_bytes < l.offset_bytes + l.bytes)
        };
        let expected = (0..asked.len()).filter(|tag| plain.heard[*tag].is_some() && touched(&asked[*tag])).count();
        prop_assert_eq!(losses.writes.count, expected as u64, "{} lost {:?}", spoken, losses);
    }
}

#[test]
fn what_was_acknowledged_is_counted_with_its_age_and_a_flush_ends_it() {
    let write =
        |offset_bytes: u64, pause_ns| Asked { flush: false, offset_bytes, bytes: 8192, pause_ns, durable: false };
    let flush = Asked { flush: true, offset_bytes: 0, bytes: 0, pause_ns: 1_000_000, durable: false };
    let lost_of = |asked: &[Asked], cut_ns: u64| {
        let mut host = Host::new("wd2500jd", Some(cut_ns), asked).expect("a brick that can be built");
        host.run(cut_ns + 1);
        host.losses.expect("the power has failed").1.writes
    };
    // Five writes within a millisecond; the arm has dealt with none of them, or is at the first.
    let five: Vec<Asked> = (0..5).map(|n| write(n << 30, 200_000)).collect();
    let lost = lost_of(&five, 2_000_000);
    assert_eq!((lost.count, lost.promised), (5, 0), "{lost:?}");
    assert_eq!(lost.oldest.iter().map(|w| w.offset_bytes >> 30).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!((1_000_000..1_900_000).contains(&lost.oldest[0].age_ns), "{lost:?}");
    // What is written over is lost once, as what it was last.
    assert_eq!(lost_of(&[write(0, 200_000), write(0, 200_000)], 1_000_000).count, 1);
    let flushed: Vec<Asked> = five.iter().cloned().chain([flush, write(7 << 30, 200_000_000)]).collect();
    let lost = lost_of(&flushed, 203_000_000);
    assert_eq!((lost.count, lost.oldest[0].offset_bytes), (1, 7 << 30), "only what came after the flush");
    assert_eq!(lost_of(&flushed, 900_000_000).count, 0, "the drive has destaged it by then");
}

#[test]
fn a_battery_before_drives_that_cache_breaks_promises() {
    // The controller answers durable writes out of its cache, and forgets them when its drives have taken them into theirs.
    let write = |n: u64| Asked {
        flush: false,
        offset_bytes: n * 7_919 % 4_000 * (100 << 20),
        bytes: 8192,
        pause_ns: 1_000_000,
        durable: true,
    };
    let asked: Vec<Asked> = (0..600).map(write).collect();
    let lost = |drives: bool| {
        let spoken = format!("overland-2007-sata,controller.cache_bytes=1MiB,controller.drive_write_cache={drives}");
        let mut host = Host::new(&spoken, Some(650_000_001), &asked).expect("a brick that can be built");
        host.run(650_000_002);
        host.losses.expect("the power has failed").1.writes
    };
    let broken = lost(true);
    assert!(broken.promised > 0 && broken.promised == broken.count, "{broken:?}");
    assert_eq!(lost(false).count, 0, "drives that write through lose nothing");
}
