//! What holds for every pattern, whatever its numbers: in the region, aligned, sizes of the mix, every block once.

mod common;

use common::{lanes, region, stream};
use engine::device::Operation;
use plan::{Address, Bytes, Percent, Position, Span, Zone};
use proptest::prelude::*;

fn zone(requests: f64, from: f64, to: f64) -> Zone {
    let region = Span { from: Position::Percent(from), to: Position::Percent(to) };
    Zone { requests: Percent(requests), region }
}

fn any_address() -> impl Strategy<Value = Address> {
    prop_oneof![
        any::<bool>().prop_map(|apart| Address::Sequential { apart }),
        Just(Address::Random),
        Just(Address::Permutation),
        (1u64..40).prop_map(|units| Address::Strided { stride: Bytes(units * 4096) }),
        (0.0..100.0).prop_map(|random| Address::Mixed { random: Percent(random) }),
        (0.0..100.0).prop_map(|random| Address::Runs { random: Percent(random) }),
        (0.01..4.0).prop_map(|theta| Address::Zipf { theta }),
        (50.0..99.9).prop_map(|skew| Address::Pareto { skew: Percent(skew) }),
        (0.0..=100.0, 1.0..=100.0, 1u32..5).prop_map(|(requests, space, spots)| Address::HotSpots {
            requests: Percent(requests),
            space: Percent(space),
            spots
        }),
        (0.0..=100.0, 1.0..99.0, any::<bool>()).prop_map(|(requests, percent, apart)| Address::Zones {
            apart,
            zones: vec![zone(requests, 0.0, percent), zone(100.0 - requests, percent, 100.0)]
        }),
        (0.0..=100.0).prop_map(|deviation| Address::Normal { deviation: Percent(deviation) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_are_in_the_region_aligned_and_of_the_mix(
        address in any_address(),
        size_units in prop::collection::vec(1u64..9, 1..4),
        small_align in any::<bool>(),
        start_bytes in 0u64..100_000,
        length_bytes in 0u64..2_000_000,
        lane_count in 1u32..5,
        seed in any::<u64>(),
    ) {
        let sizes: Vec<(u64, f64)> = size_units.iter().map(|u| (u * 4096, 100.0 / size_units.len() as f64)).collect();
        let align_bytes = if small_align { 512 } else { 4096 };
        let stream = stream(address.clone(), &sizes, Some(align_bytes));
        match lanes(&stream, region(start_bytes, length_bytes), seed, lane_count) {
            Err(message) => {
                prop_assert!(!message.contains('\n'));
                // Refusals other than for space are for patterns that need one size, or whole strides.
                let max_bytes = stream.request.max_bytes();
                let roomy = length_bytes >= 5 * lane_count as u64 * max_bytes + align_bytes;
                let choosy = matches!(address, Address::Permutation | Address::HotSpots { .. } | Address::Zones { .. });
                prop_assert!(!roomy || choosy, "refused: {message}");
            }
            Ok(mut patterns) => {
                for pattern in &mut patterns {
                    let mut pass = 0;
                    for _ in 0..300 {
                        let request = pattern.next();
                        let end_bytes = request.offset_bytes + u64::from(request.request_bytes);
                        prop_assert!(request.offset_bytes >= start_bytes);
                        prop_assert!(end_bytes <= start_bytes + length_bytes, "{request:?} crosses the end");
                        prop_assert!(request.offset_bytes.is_multiple_of(align_bytes));
                        prop_assert!(sizes.iter().any(|s| s.0 == u64::from(request.request_bytes)));
                        prop_assert!(request.pass >= pass, "passes go up");
                        pass = request.pass;
                    }
                }
            }
        }
    }

    #[test]
    fn sequential_strided_and_permutation_touch_every_block_once_a_pass(
        kind in 0..4,
        stride_blocks in 1u64..20,
        blocks in 8u64..400,
        start_block in 0u64..4,
        lane_count in 1u32..8,
        seed in any::<u64>(),
    ) {
        let address = match kind {
            0 => Address::Sequential { apart: false },
            1 => Address::Sequential { apart: true },
            2 => Address::Permutation,
            _ => Address::Strided { stride: Bytes(stride_blocks * 8192) },
        };
        let stream = stream(address.clone(), &[(8192, 100.0)], None);
        // A tail of less than a block belongs to no pass.
        let region = region(start_block * 8192, blocks * 8192 + 5000);
        let mut patterns = lanes(&stream, region, seed, lane_count).unwrap();
        let shares: Vec<u64> = patterns.iter().map(|p| p.pass_requests()).collect();
        prop_assert_eq!(shares.iter().sum::<u64>(), blocks);
        for pass in 0..3 {
            let mut seen = vec![0u32; blocks as usize];
            for (pattern, share) in patterns.iter_mut().zip(&shares) {
                for _ in 0..*share {
                    let request = pattern.next();
                    prop_assert_eq!(request.pass, pass);
                    seen[(request.offset_bytes / 8192 - start_block) as usize] += 1;
                }
            }
            prop_assert!(seen.iter().all(|n| *n == 1), "pass {} of {:?}: {:?}", pass, address, seen);
        }
    }

    #[test]
    fn a_sequential_size_mix_covers_the_region_without_gap_or_overlap(
        size_units in prop::collection::vec(1u64..9, 2..4),
        units in 40u64..400,
        lane_count in 1u32..4,
        apart in any::<bool>(),
        seed in any::<u64>(),
    ) {
        // One size of one unit is in the mix, so that nothing is left over at the end.
        let mut sizes: Vec<(u64, f64)> = size_units.iter().map(|u| (u * 512, 10.0)).collect();
        sizes.push((512, 10.0));
        let stream = stream(Address::Sequential { apart }, &sizes, None);
        let mut patterns = lanes(&stream, region(0, units * 512), seed, lane_count).unwrap();
        let mut covered = vec![0u32; units as usize];
        for turn in 0..units * 3 {
            let request = patterns[(turn % u64::from(lane_count)) as usize].next();
            if request.pass == 0 {
                let first = request.offset_bytes / 512;
                for unit in first..first + u64::from(request.request_bytes) / 512 {
                    covered[unit as usize] += 1;
                }
            }
        }
        prop_assert!(covered.iter().all(|n| *n == 1), "{:?}", covered);
    }

    #[test]
    fn the_same_seed_gives_the_same_requests(address in any_address(), seed in any::<u64>(), lane_count in 1u32..4) {
        let mut stream = stream(address, &[(4096, 100.0)], None);
        stream.operations.read = Percent(60.0);
        stream.operations.write = Percent(40.0);
        let run = || {
            let mut patterns = lanes(&stream, region(1 << 20, 100 << 20), seed, lane_count).unwrap();
            (0..200).map(|i| patterns[i % lane_count as usize].next()).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn lanes_on_threads_share_one_sequential_cursor() {
    let one_size: &[(u64, f64)] = &[(4096, 100.0)];
    let mix: &[(u64, f64)] = &[(4096, 50.0), (8192, 50.0)];
    for sizes in [one_size, mix] {
        let stream = stream(Address::Sequential { apart: false }, sizes, None);
        let units = 40_000u64;
        let patterns = lanes(&stream, region(0, units * 4096), 1, 4).unwrap();
        let threads: Vec<_> = patterns
            .into_iter()
            .map(|mut pattern| {
                std::thread::spawn(move || {
                    let mut touched = Vec::new();
                    loop {
                        let request = pattern.next();
                        if request.pass > 0 {
                            return touched;
                        }
                        let first = request.offset_bytes / 4096;
                        touched.extend(first..first + u64::from(request.request_bytes) / 4096);
                    }
                })
            })
            .collect();
        let mut touched: Vec<u64> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        touched.sort_unstable();
        assert!(touched.into_iter().eq(0..units), "each block once, by whichever lane");
    }
}

#[test]
fn strides_go_through_the_region_and_then_on_from_the_next_block() {
    let stream = stream(Address::Strided { stride: Bytes(3 * 4096) }, &[(4096, 100.0)], None);
    let mut pattern = common::one_lane(&stream, region(0, 8 * 4096), 1);
    let blocks: Vec<u64> = (0..10).map(|_| pattern.next().offset_bytes / 4096).collect();
    assert_eq!(blocks, [0, 3, 6, 1, 4, 7, 2, 5, 0, 3]);
}

#[test]
fn flushes_have_no_address_and_do_not_move_the_cursor() {
    let mut stream = stream(Address::Sequential { apart: false }, &[(4096, 100.0)], None);
    stream.operations.read = Percent(50.0);
    stream.operations.flush = Percent(50.0);
    let mut pattern = common::one_lane(&stream, region(0, 1 << 30), 1);
    let mut expected_bytes = 0;
    let mut flushes = 0;
    for _ in 0..1000 {
        let request = pattern.next();
        if request.operation == Operation::Flush {
            assert_eq!((request.offset_bytes, request.request_bytes), (0, 0));
            flushes += 1;
        } else {
            assert_eq!(request.offset_bytes, expected_bytes);
            expected_bytes += 4096;
        }
    }
    assert!((400..600).contains(&flushes), "{flushes} of 1000 are flushes");
}

#[test]
fn a_region_without_room_is_refused_in_one_line_that_names_the_sizes() {
    let refusal = |address, length_bytes, lane_count| {
        let stream = stream(address, &[(8192, 100.0)], None);
        lanes(&stream, region(1 << 20, length_bytes), 1, lane_count).expect_err("too small")
    };
    assert_eq!(
        refusal(Address::Random, 4096, 1),
        "region of 4KiB at 1MiB has no room for a request of 8KiB at a multiple of 8KiB; enlarge the region or target"
    );
    assert!(refusal(Address::Sequential { apart: true }, 16384, 3).contains("use fewer workers"));
    assert!(refusal(Address::Permutation, 16384, 3).contains("2 blocks for 3 workers"));
    let spots = Address::HotSpots { requests: Percent(80.0), space: Percent(1.0), spots: 2 };
    assert!(refusal(spots, 1 << 20, 1).contains("use fewer spots"));
    let at_the_end = stream(Address::Random, &[(8192, 100.0)], None);
    assert!(lanes(&at_the_end, region(u64::MAX - 100, 1 << 20), 1, 1).is_err());
}

#[test]
fn the_order_of_a_permutation_changes_with_pass_and_seed() {
    let stream = stream(Address::Permutation, &[(4096, 100.0)], None);
    let order = |seed, pass: usize| {
        let mut pattern = common::one_lane(&stream, region(0, 100 * 4096), seed);
        let offsets: Vec<u64> = (0..200).map(|_| pattern.next().offset_bytes).collect();
        offsets[pass * 100..(pass + 1) * 100].to_vec()
    };
    assert_ne!(order(1, 0), order(1, 1));
    assert_ne!(order(1, 0), order(2, 0));
}
