//! Random bricks under random requests: nothing lost, nothing doubled, time never runs back.

mod common;

use proptest::prelude::*;
use sim::brick::resolve;
use sim::member::Kind;
use sim::system::{Request, System};

fn bricks() -> impl Strategy<Value = String> {
    let drives = prop::sample::select(vec![
        "wd2500jd",
        "cheetah-x15",
        "barracuda-es-750",
        "nearline-20tb",
        "nvme-tlc-3840",
        "iodrive-160-slc",
        "gp2",
        "gp3",
    ]);
    let controllers = prop::sample::select(vec!["3ware-8506-8", "overland-ultamus", "hp-netraid-2m", "linux-md", ""]);
    let levels =
        prop::sample::select(vec![("jbod", 3), ("raid0", 4), ("raid1", 2), ("raid5", 5), ("raid6", 6), ("raid10", 4)]);
    let conditions = prop::sample::select(vec![
        "normal",
        "degraded",
        "rebuilding",
        "neighbour_rebuilding",
        "initializing",
        "scrubbing",
    ]);
    let stripes = prop::sample::select(vec!["4KiB", "64KiB", "256KiB"]);
    (drives, controllers, levels, conditions, stripes).prop_map(|(drive, controller, (level, members), condition, stripe)| {
        let keeper = if controller == "linux-md" { "controller=,software=linux-md".into() } else { format!("controller={controller}") };
        format!("msr-2003-wd,drive={drive},{keeper},level={level},members={members},stripe={stripe},condition={condition}")
    })
}

/// No failure, one, or two, with or without a spare; conditions other than normal refuse them.
fn failures() -> impl Strategy<Value = Vec<String>> {
    (0usize..3, 0u64..500, 0u64..500, 0u32..2, any::<bool>()).prop_map(|(count, first, second, spares, far)| {
        let times = [format!("\"{first}ms\""), format!("\"{second}ms\"")];
        let members = ["1", if far { "2" } else { "0" }];
        let list = |items: &[String]| items[..count].join(", ");
        let members = members.map(String::from);
        match count {
            0 => Vec::new(),
            _ => vec![
                format!("fail_at=[{}]", list(&times)),
                format!("fail_member=[{}]", list(&members)),
                format!("spares={spares}"),
            ],
        }
    })
}

/// No power cut, or one, with a battery or without.
fn power() -> impl Strategy<Value = Vec<String>> {
    (any::<bool>(), 0u64..500)
        .prop_map(|(cut, at_ms)| if cut { vec![format!("power_cut_at={at_ms}ms")] } else { Vec::new() })
}

fn requests() -> impl Strategy<Value = Vec<(u8, u64, u32, u64, bool)>> {
    let one = (0u8..10, any::<u64>(), 1u32..600, 0u64..20_000_000, any::<bool>());
    prop::collection::vec(one, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn every_request_ends_once(spoken in bricks(), failures in failures(), power in power(), wanted in requests()) {
        let texts = common::brick_texts();
        // Bricks that contradict themselves are refused in one line.
        let happenings = [failures, power].concat();
        let system = resolve(&spoken, &texts, &happenings).map_err(String::from).and_then(|b| System::new(&b));
        let mut system = match system {
            Ok(system) => system,
            Err(message) => {
                prop_assert!(message.lines().count() == 1, "{}", message);
                return Ok(());
            }
        };
        let capacity = system.capacity_bytes() / 512;
        let mut ended = vec![0u32; wanted.len()];
        let mut submitted_ns = vec![0u64; wanted.len()];
        let mut now_ns = 0u64;
        for (tag, (kind, place, sectors, gap_ns, durable)) in wanted.iter().enumerate() {
            let kind = match kind { 0 => Kind::Flush, 1 => Kind::Trim, 2..=5 => Kind::Write, _ => Kind::Read };
            let until_ns = now_ns + gap_ns;
            while system.next_event() <= until_ns {
                let next_ns = system.next_event();
                prop_assert!(next_ns >= now_ns, "time ran back from {} to {}", now_ns, next_ns);
                now_ns = next_ns;
                system.advance(now_ns);
            }
            now_ns = until_ns;
            system.advance(now_ns);
            submitted_ns[tag] = now_ns;
            let sectors = if kind == Kind::Flush { 0 } else { *sectors };
            let offset_bytes = place % (capacity - u64::from(sectors)) * 512;
            system.submit(now_ns, Request { tag: tag as u32, kind, offset_bytes, bytes: sectors * 512, durable: *durable });
        }
        let mut steps = 0;
        while !system.is_idle() {
            let next_ns = system.next_event();
            prop_assert!(next_ns >= now_ns && next_ns < sim::NEVER, "a request was lost: {} {:?}", spoken, happenings);
            now_ns = next_ns;
            system.advance(now_ns);
            steps += 1;
            for (arm, busy_ns) in system.arms_busy_by_ns(now_ns).into_iter().enumerate() {
                prop_assert!(busy_ns <= now_ns, "arm {} did two things at once: {} ns of {}", arm, busy_ns, now_ns);
            }
            prop_assert!(steps < 1_000_000, "no end: {}", spoken);
        }
        let mut before = true;
        system.take_ended(|(tag, at_ns)| {
            ended[tag as usize] += 1;
            before &= at_ns >= submitted_ns[tag as usize];
        });
        prop_assert!(before, "a request ended before it began");
        prop_assert!(ended.iter().all(|n| *n == 1), "{:?} in {} {:?}", ended, spoken, happenings);
    }
}
