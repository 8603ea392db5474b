//! Streams for the tests of patterns, and a yardstick for shares.

use engine::address::{Region, StreamShared};
use engine::pattern::Pattern;
use engine::source::Request;
use plan::{Address, Bytes, Operations, Percent, RequestSizes, SizeShare};
use std::sync::Arc;

pub fn stream(address: Address, sizes: &[(u64, f64)], align_bytes: Option<u64>) -> plan::Stream {
    plan::Stream {
        trace: None,
        hosts: Vec::new(),
        chain: Vec::new(),
        frames: None,
        name: String::new(),
        target: 0,
        operations: Operations::default(),
        program: None,
        request: RequestSizes(
            sizes
                .iter()
                .map(|(size, share)| SizeShare { size: Bytes(*size), share: Percent(*share), of: None })
                .collect(),
        ),
        align: align_bytes.map(Bytes),
        address,
        region: plan::Span::WHOLE,
        workers: 1,
        depth: 1,
        pace: plan::Pace::Closed,
        think: plan::Duration::default(),
        sync: plan::SyncMode::None,
        flush_every: None,
        data: plan::Data::default(),
        verify: false,
    }
}

pub fn region(start_bytes: u64, length_bytes: u64) -> Region {
    Region { origin_bytes: 0, start_bytes, length_bytes }
}

/// The patterns of all lanes of a stream.
pub fn lanes(stream: &plan::Stream, region: Region, seed: u64, lanes: u32) -> Result<Vec<Pattern>, String> {
    let shared = Arc::new(StreamShared::new());
    (0..lanes).map(|lane| Pattern::new(stream, region, seed, 0, 0, lane, lanes, shared.clone())).collect()
}

#[allow(dead_code)] // each test program uses its part of this module
pub fn one_lane(stream: &plan::Stream, region: Region, seed: u64) -> Pattern {
    lanes(stream, region, seed, 1).expect("the stream fits").remove(0)
}

#[allow(dead_code)]
pub fn take(pattern: &mut Pattern, count: u64) -> Vec<Request> {
    (0..count).map(|_| pattern.next()).collect()
}

/// Whether counts agree with expected shares: chi-squared below its 99.99 % point (Wilson and Hilferty 1931).
#[allow(dead_code)]
pub fn assert_shares(counts: &[u64], shares: &[f64]) {
    assert_eq!(counts.len(), shares.len());
    let (total, whole) = (counts.iter().sum::<u64>() as f64, shares.iter().sum::<f64>());
    let mut chi = 0.0;
    for (count, share) in counts.iter().zip(shares) {
        let expected = total * share / whole;
        assert!(expected >= 5.0, "chi-squared needs at least 5 expected in each class, not {expected}");
        chi += (*count as f64 - expected).powi(2) / expected;
    }
    let freedom = (counts.len() - 1) as f64;
    let spread = 2.0 / (9.0 * freedom);
    let limit = freedom * (1.0 - spread + 3.719 * spread.sqrt()).powi(3);
    assert!(chi < limit, "chi-squared {chi} is above {limit}: counts {counts:?}, shares {shares:?}");
}
