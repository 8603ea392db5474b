//! A model that a clock of our own drives: what the way to the disk takes is taken off, and nothing comes before what was.

#[path = "../../sim/tests/common/mod.rs"]
mod common;

use lab::timing::Timing;
use sim::NEVER;
use sim::brick::resolve;
use sim::member::Kind;

const WAY_NS: u64 = 300_000;

fn timing(lead_ns: u64) -> Timing {
    let brick = resolve("msr-2003-wd", &common::brick_texts(), &[]).expect("a brick that ships");
    let mut timing = Timing::new(Some(brick), 1.0).expect("a model");
    timing.lead(lead_ns);
    timing
}

/// When reads ended that were asked one after the other, each a while after the end of the one before.
fn ends(timing: &mut Timing, way_ns: u64) -> Vec<u64> {
    let (mut ended, mut now_ns, mut found) = (Vec::new(), 0, Vec::new());
    for number in 0..500_u64 {
        let offset_bytes = number * number * 7919 % 200_000 * (1 << 20);
        timing.submit(now_ns + way_ns, number as u32, Kind::Read, offset_bytes, 4096, false);
        while ended.is_empty() {
            now_ns = timing.next();
            assert_ne!(now_ns, NEVER, "request {number} ends");
            timing.advance(now_ns, &mut ended);
        }
        found.extend(ended.drain(..).map(|(_, at_ns, _)| at_ns));
    }
    found
}

#[test]
fn a_known_way_to_the_disk_costs_nothing() {
    let at_the_disk = ends(&mut timing(0), 0);
    assert_eq!(ends(&mut timing(WAY_NS), WAY_NS), at_the_disk);
    assert!(ends(&mut timing(0), WAY_NS).last() > at_the_disk.last(), "unless it is not taken off");
}

#[test]
fn nothing_comes_before_what_happened() {
    let (mut timing, mut ended) = (timing(10 * WAY_NS), Vec::new());
    for number in 0..200_u32 {
        let at_ns = u64::from(number) * WAY_NS;
        timing.advance(at_ns, &mut ended);
        let kind = if number % 3 == 0 { Kind::Write } else { Kind::Read };
        timing.submit(at_ns, number, kind, u64::from(number) * 7919 % 1000 * (1 << 20), 4096, false);
    }
    while timing.next() != NEVER && ended.len() < 200 {
        timing.advance(timing.next(), &mut ended);
    }
    assert_eq!(ended.len(), 200);
    assert!(ended.iter().map(|(_, at_ns, _)| at_ns).is_sorted());
}
