//! Whatever the profile and the storage: every request that was issued ends once, nothing is lost, time never runs back.

mod virtual_storage;

use engine::event::Event;
use proptest::prelude::*;
use virtual_storage::*;

fn stream() -> impl Strategy<Value = String> {
    let pace = prop_oneof![
        Just(String::new()),
        (1u64..20).prop_map(|ms| format!("think = '{ms}ms'\n")),
        (1u64..3_000, any::<bool>()).prop_map(|(rate, poisson)| {
            let arrivals = if poisson { "poisson" } else { "constant" };
            format!("pace = {{ loop = 'open', rate = {rate}, arrivals = '{arrivals}' }}\n")
        }),
    ];
    let address = prop::sample::select(vec!["sequential", "random", "permutation", "zipf", "pareto"]);
    let shares = (0u32..=100, 0u32..=100, 0u32..=100);
    (pace, address, shares, 1u32..4, 1u32..9, 0u32..5).prop_map(|(pace, address, (a, b, c), workers, depth, every)| {
        let mut cuts = [a, b, c];
        cuts.sort_unstable();
        let [a, b, c] = cuts;
        let flush = if every > 0 { format!("flush_every = {{ writes = {every} }}\n") } else { String::new() };
        format!(
            "[[phase.stream]]\nrequest = '4K'\naddress = '{address}'\nworkers = {workers}\ndepth = {depth}\n{pace}{flush}\
            operations = {{ read = {a}, write = {}, flush = {}, trim = {} }}\n",
            b - a,
            c - b,
            100 - c
        )
    })
}

fn phase() -> impl Strategy<Value = String> {
    let limit = prop_oneof![
        (1u64..800).prop_map(|ms| format!("duration = '{ms}ms'")),
        (1u64..3_000).prop_map(|n| format!("requests = {n}\nduration = '20s'")),
        (1u64..2_000).prop_map(|kib| format!("bytes = '{kib}KiB'\nduration = '20s'")),
        (1u64..3).prop_map(|n| format!("passes = {n}\nduration = '20s'")),
    ];
    (limit, 0u64..200, prop::collection::vec(stream(), 1..4))
        .prop_map(|(limit, warmup, streams)| format!("[[phase]]\n{limit}\nwarmup = '{warmup}ms'\n{}", streams.concat()))
}

fn profile() -> impl Strategy<Value = String> {
    (1u64..500, any::<u32>(), prop::collection::vec(phase(), 1..3)).prop_map(|(interval, seed, phases)| {
        format!("title = 't'\ninterval = '{interval}ms'\nseed = {seed}\n{}", phases.concat())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn nothing_is_lost(text in profile(), seed in any::<u64>(), base_us in 1u64..5_000, spread_us in 0u64..20_000, faults in 0u64..50_000) {
        let storage = Storage::new(1 << 20, seed)
            .timed(move |_, _, dice| (base_us + dice.below(spread_us)) * US)
            .faulty(move |_, _, dice| match dice.hit(faults) {
                true if dice.hit(500_000) => Some(Fault::Short),
                true => Some(Fault::Errno(5)),
                false => None,
            });
        let told = run(storage, &text);
        let plan = plan::Profile::from_toml(&text, &[]).expect("it ran");
        let world = told.world();
        let (mut good, mut failed, mut began_ns) = (0, 0, 0);
        for (number, phase) in plan.phase.iter().enumerate() {
            let (requests, errors) = (told.requests(number), told.failures(number));
            good += requests;
            failed += errors;
            let end = told.end(number);
            prop_assert_eq!(end.outstanding, 0);
            prop_assert_eq!(end.errors_by_kind.values().sum::<u64>(), errors);
            if let (Some(limit), "requests") = (phase.requests, end.reason.name()) {
                let flushes = told.totals(number).iter().filter(|(k, _)| k.1 == "flush").map(|(_, t)| t.0 + t.2).sum::<u64>();
                prop_assert!(requests + errors >= limit && requests + errors - flushes <= limit);
            }
            let intervals = told.intervals(number);
            let mut at_ns = began_ns;
            for interval in &intervals {
                prop_assert_eq!(interval.start_ns, at_ns);
                prop_assert!(interval.end_ns >= interval.start_ns);
                at_ns = interval.end_ns;
                for cell in &interval.cells {
                    let stream = &phase.stream[cell.stream];
                    prop_assert!(cell.depth_max <= stream.depth * stream.workers, "{} in flight", cell.depth_max);
                }
            }
            prop_assert!(at_ns <= end.end_ns || intervals.is_empty());
            began_ns = told.events.iter().find_map(|e| match e {
                Event::Phase { phase, start_ns, .. } if *phase == number + 1 => Some(*start_ns),
                _ => None,
            }).unwrap_or(at_ns);
            prop_assert!(began_ns >= at_ns);
        }
        prop_assert_eq!(world.submitted, world.log.len() as u64);
        prop_assert_eq!((world.submitted, world.in_flight), (good + failed, 0));
        prop_assert_eq!(failed, world.log.iter().filter(|d| d.fault.is_some() && d.result != d.request_bytes as i32 && (d.result < 0 || d.request_bytes > 0 && d.operation.name() != "trim")).count() as u64);
        prop_assert!(world.log.iter().all(|d| d.ended_ns > d.submitted_ns));
    }
}
