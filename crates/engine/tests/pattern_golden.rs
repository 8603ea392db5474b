//! The same seed means the same requests on every machine and in every version: hashes of the first 10,000 of each kind.
//! A change of one is a change of what a seed means, and belongs into the change log.

mod common;

use common::{lanes, region, stream};
use plan::{Address, Bytes, Operations, Percent};

/// FNV-1a, 64 bits.
fn fnv1a(hash: u64, word: u64) -> u64 {
    word.to_le_bytes().iter().fold(hash, |h, byte| (h ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Two lanes in turn, three operations, the sizes given, a region that is no power of two.
fn hash(address: Address, sizes: &[(u64, f64)], align_bytes: Option<u64>) -> u64 {
    let mut stream = stream(address, sizes, align_bytes);
    stream.operations =
        Operations { read: Percent(66.5), write: Percent(30.0), flush: Percent(0.5), trim: Percent(3.0) };
    let mut patterns = lanes(&stream, region(1 << 20, 1_000_003 * 4096), 42, 2).unwrap();
    (0..10_000).fold(0xcbf2_9ce4_8422_2325, |hash, turn| {
        let request = patterns[turn % 2].next();
        [request.operation as u64, request.offset_bytes, request.request_bytes.into(), request.pass]
            .into_iter()
            .fold(hash, fnv1a)
    })
}

const ONE: &[(u64, f64)] = &[(8192, 100.0)];
const MIX: &[(u64, f64)] = &[(4096, 55.5), (16384, 33.3), (131072, 11.2)];

#[test]
fn first_requests_of_every_kind_are_as_ever() {
    let cases = [
        ("sequential", Address::Sequential { apart: false }, ONE, None, 0x29b5_d3ad_a39b_b60f),
        ("sequential, mix", Address::Sequential { apart: false }, MIX, None, 0xa139_5f0c_92a7_b42d),
        ("sequential, apart", Address::Sequential { apart: true }, ONE, None, 0x3813_0fc1_b10c_454f),
        ("sequential, apart, mix", Address::Sequential { apart: true }, MIX, None, 0xa3b9_6a5c_b523_027a),
        ("random", Address::Random, ONE, None, 0xbad8_60b0_e447_be1a),
        ("random, mix, align", Address::Random, MIX, Some(512), 0xe669_6d2b_e83f_bc05),
        ("permutation", Address::Permutation, ONE, None, 0x3fe1_8f25_fb4a_c2bf),
        ("strided", Address::Strided { stride: Bytes(1 << 20) }, ONE, None, 0xcf48_4236_7155_a0bc),
        ("mixed", Address::Mixed { random: Percent(30.0) }, MIX, None, 0xcc4a_c65b_01a1_3163),
        ("zipf 1.1", Address::Zipf { theta: 1.1 }, ONE, None, 0x4809_c075_d5cb_3344),
        ("zipf 1", Address::Zipf { theta: 1.0 }, MIX, None, 0x4218_9172_6fa9_a6f2),
        ("zipf 0.5", Address::Zipf { theta: 0.5 }, ONE, Some(512), 0x4062_6379_1d2c_20b7),
        ("pareto", Address::Pareto { skew: Percent(80.0) }, MIX, None, 0x8dc9_a3ba_0985_e3ea),
        (
            "hot spots",
            Address::HotSpots { requests: Percent(80.0), space: Percent(15.0), spots: 7 },
            MIX,
            None,
            0xec10_a4d5_d80e_c054,
        ),
    ];
    let mut changed = Vec::new();
    for (name, address, sizes, align_bytes, expected) in cases {
        let found: u64 = hash(address, sizes, align_bytes);
        if found != expected {
            changed.push(format!("{name}: {found:#018x}, was {expected:#018x}"));
        }
    }
    assert!(changed.is_empty(), "requests changed:\n{}", changed.join("\n"));
}
