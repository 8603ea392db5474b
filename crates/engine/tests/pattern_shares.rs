//! Drawn shares agree with the asked ones: chi-squared with fixed seeds.

mod common;

use common::{assert_shares, lanes, one_lane, region, stream, take};
use engine::address::{Pareto, Zipf};
use engine::rng::Rng;
use plan::{Address, Percent};

const BLOCK: u64 = 4096;

fn block_counts(address: Address, blocks: u64, draws: u64) -> Vec<u64> {
    let mut pattern = one_lane(&stream(address, &[(BLOCK, 100.0)], None), region(0, blocks * BLOCK), 11);
    let mut counts = vec![0; blocks as usize];
    for request in take(&mut pattern, draws) {
        counts[(request.offset_bytes / BLOCK) as usize] += 1;
    }
    counts
}

#[test]
fn operations_come_in_their_shares() {
    let mut stream = stream(Address::Random, &[(BLOCK, 100.0)], None);
    stream.operations =
        plan::Operations { read: Percent(66.7), write: Percent(30.0), flush: Percent(0.3), trim: Percent(3.0) };
    let mut counts = [0; 4];
    for request in take(&mut one_lane(&stream, region(0, 1 << 30), 5), 200_000) {
        counts[request.operation as usize] += 1;
    }
    assert_shares(&counts, &[66.7, 30.0, 0.3, 3.0]);
}

#[test]
fn an_operation_without_share_never_comes() {
    let mut stream = stream(Address::Random, &[(BLOCK, 100.0)], None);
    stream.operations.read = Percent(0.0);
    stream.operations.write = Percent(100.0);
    let requests = take(&mut one_lane(&stream, region(0, 1 << 30), 5), 10_000);
    assert!(requests.iter().all(|r| r.operation.name() == "write"));
}

#[test]
fn sizes_come_in_their_shares() {
    let sizes = [(4096, 70.0), (8192, 20.0), (65536, 9.5), (1 << 20, 0.5)];
    for address in [Address::Random, Address::Sequential { apart: false }, Address::Zipf { theta: 1.1 }] {
        let mut counts = [0; 4];
        // Large enough for a single pass: at the end of one, requests are cut to what fits.
        for request in take(&mut one_lane(&stream(address, &sizes, None), region(0, 1 << 40), 5), 200_000) {
            let size = sizes.iter().position(|s| s.0 == u64::from(request.request_bytes)).expect("a size of the mix");
            counts[size] += 1;
        }
        assert_shares(&counts, &sizes.map(|s| s.1));
    }
}

#[test]
fn random_is_uniform_where_the_number_of_blocks_is_no_power_of_two() {
    for blocks in [3, 7, 1000] {
        assert_shares(&block_counts(Address::Random, blocks, blocks * 300), &vec![1.0; blocks as usize]);
    }
}

#[test]
fn random_reaches_every_aligned_place_at_which_a_request_fits() {
    let stream = stream(Address::Random, &[(8192, 100.0)], Some(512));
    let mut counts = vec![0; (64 * 1024 - 8192) / 512 + 1];
    for request in take(&mut one_lane(&stream, region(0, 64 * 1024), 3), 100_000) {
        counts[(request.offset_bytes / 512) as usize] += 1;
    }
    let places = vec![1.0; counts.len()];
    assert_shares(&counts, &places);
}

#[test]
fn mixed_jumps_in_its_share_and_otherwise_continues() {
    let stream = stream(Address::Mixed { random: Percent(25.0) }, &[(BLOCK, 100.0)], None);
    let (mut expected_bytes, mut counts) = (0, [0, 0]);
    for request in take(&mut one_lane(&stream, region(0, 1 << 40), 9), 50_000) {
        // A random request hits the cursor's block once in 2^28.
        if request.offset_bytes == expected_bytes {
            expected_bytes += BLOCK;
            counts[1] += 1;
        } else {
            counts[0] += 1;
        }
    }
    assert_shares(&counts, &[25.0, 75.0]);
}

#[test]
fn zipf_ranks_have_their_weights() {
    for theta in [0.5, 0.99, 1.0, 1.1, 2.0] {
        let zipf = Zipf::new(200, theta).unwrap();
        let mut rng = Rng::new(1, 0, 0, 0);
        let mut counts = vec![0u64; 200];
        for _ in 0..400_000 {
            counts[zipf.next(&mut rng) as usize] += 1;
        }
        let weights: Vec<f64> = (1..=200).map(|rank| f64::from(rank).powf(-theta)).collect();
        assert_shares(&counts, &weights);
    }
}

#[test]
fn zipf_puts_hot_blocks_anywhere_with_the_weights_of_their_ranks() {
    let counts = block_counts(Address::Zipf { theta: 1.1 }, 200, 400_000);
    let mut hottest: Vec<usize> = (0..200).collect();
    hottest.sort_by_key(|block| std::cmp::Reverse(counts[*block]));
    assert!(hottest[0].abs_diff(hottest[1]) > 1 && hottest[1].abs_diff(hottest[2]) > 1, "hot blocks are apart");
    let weights: Vec<f64> = (1..=5).map(|rank| f64::from(rank).powf(-1.1)).collect();
    // The five hottest are far enough apart in weight for their order to be that of the ranks.
    assert_shares(&hottest[..5].iter().map(|block| counts[*block]).collect::<Vec<_>>(), &weights);
}

#[test]
fn pareto_divides_by_its_skew_again_and_again() {
    let pareto = Pareto::new(100_000, 80.0).unwrap();
    let mut rng = Rng::new(1, 0, 0, 0);
    let mut counts = [0; 4];
    for _ in 0..200_000 {
        let part = match pareto.next(&mut rng) {
            0..800 => 0,
            800..4_000 => 1,
            4_000..20_000 => 2,
            _ => 3,
        };
        counts[part] += 1;
    }
    assert_shares(&counts, &[51.2, 12.8, 16.0, 20.0]);
}

#[test]
fn pareto_without_skew_is_uniform() {
    let shares = vec![1.0; 64];
    assert_shares(&block_counts(Address::Pareto { skew: Percent(50.0) }, 64, 64_000), &shares);
}

#[test]
fn pareto_gives_a_fifth_of_the_blocks_four_fifths_of_the_requests() {
    let mut counts = block_counts(Address::Pareto { skew: Percent(80.0) }, 1000, 1_000_000);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let hot: u64 = counts[..200].iter().sum();
    // Sorting by count takes the luckiest blocks, which adds a little.
    assert!((798_000..812_000).contains(&hot), "the hottest fifth got {hot} of a million");
}

#[test]
fn hot_spots_get_their_requests_evenly_spread() {
    let address = Address::HotSpots { requests: Percent(80.0), space: Percent(20.0), spots: 4 };
    let counts = block_counts(address, 400, 400_000);
    // Four spots of 20 blocks, each in the middle of its hundred.
    let spot = |block: usize| (40..60).contains(&(block % 100));
    let shares: Vec<f64> =
        (0..400).map(|block| if spot(block) { 0.8 / 80.0 + 0.2 / 400.0 } else { 0.2 / 400.0 }).collect();
    assert_shares(&counts, &shares);
}

#[test]
fn each_zone_gets_its_share_and_a_gap_none() {
    let zone = |requests, from, to| plan::Zone {
        requests: Percent(requests),
        region: plan::Span { from: plan::Position::Percent(from), to: plan::Position::Percent(to) },
    };
    let zones = vec![zone(90.0, 0.0, 10.0), zone(0.0, 10.0, 20.0), zone(10.0, 20.0, 100.0)];
    let counts = block_counts(Address::Zones { zones, apart: false }, 1000, 100_000);
    let sum = |from: usize, to: usize| counts[from..to].iter().sum::<u64>() as f64 / 1000.0;
    assert!((sum(0, 100) - 90.0).abs() < 0.5, "{}", sum(0, 100));
    assert_eq!(sum(100, 200), 0.0);
    assert!(counts[200..].iter().filter(|n| **n > 0).count() > 700);
}

#[test]
fn normal_has_hot_blocks_as_the_mean_of_twelve() {
    let mut counts = block_counts(Address::Normal { deviation: Percent(0.0) }, 1000, 200_000);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    // A normal distribution of deviation 1/12: 68.3 % lie within two twelfths of the ranks.
    let hottest: u64 = counts[..167].iter().sum();
    assert!((hottest as f64 / 2000.0 - 68.3).abs() < 1.0, "{hottest}");
}

#[test]
fn reads_and_writes_have_sizes_and_alignments_of_their_own() {
    let mut stream = stream(Address::Random, &[(4096, 100.0)], None);
    stream.operations = plan::Operations { read: Percent(70.0), write: Percent(30.0), ..stream.operations };
    let of = |size, of| plan::SizeShare { size: plan::Bytes(size), share: Percent(100.0), of: Some(of) };
    stream.request = plan::RequestSizes(vec![of(4096, plan::Moves::Read), of(65_536, plan::Moves::Write)]);
    let mut pattern = one_lane(&stream, region(4096, 64 << 20), 3);
    for _ in 0..10_000 {
        let request = pattern.next();
        let bytes = if request.operation == engine::device::Operation::Read { 4096 } else { 65_536 };
        assert_eq!(u64::from(request.request_bytes), bytes);
        assert_eq!(request.offset_bytes % bytes, 0);
    }
}

#[test]
fn with_apart_each_lane_has_zones_in_its_own_part() {
    let region_of = plan::Span { from: plan::Position::Percent(0.0), to: plan::Position::Percent(40.0) };
    let zones = vec![plan::Zone { requests: Percent(100.0), region: region_of }];
    let stream = stream(Address::Zones { zones, apart: true }, &[(BLOCK, 100.0)], None);
    for (lane, mut pattern) in lanes(&stream, region(0, 400 * BLOCK), 3, 4).expect("it fits").into_iter().enumerate() {
        let blocks: Vec<u64> = take(&mut pattern, 20_000).iter().map(|request| request.offset_bytes / BLOCK).collect();
        let first = 100 * lane as u64;
        assert_eq!((blocks.iter().min(), blocks.iter().max()), (Some(&first), Some(&(first + 39))));
    }
}
