//! Reuse distances: how many different blocks are touched between two uses of a block. Blocks are sampled by a hash of
//! their numbers, as SHARDS does (Waldspurger et al., FAST '15), so that memory and time are bounded.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::figures::Locality;
use crate::request::Request;

pub const BLOCK_BYTES: u64 = 4096;
/// Blocks that are followed at the most.
const FOLLOWED: u64 = 1 << 18;

/// The block in which a request begins; blocks of different devices are different. No offset has more than 52 bits of it.
pub fn block_of(request: &Request) -> u64 {
    (request.offset_bytes / BLOCK_BYTES) | (u64::from(request.device) << 52)
}

pub struct Reuse {
    /// Blocks whose hash is below are followed.
    threshold: u64,
    rate: f64,
    /// Time of the last use and number of uses of each block.
    last: HashMap<u64, (u32, u64)>,
    /// Fenwick tree over times: 1 where a block was used last.
    tree: Vec<u32>,
    now: u32,
    requests: u64,
    sampled: u64,
    reused: u64,
    distances: BTreeMap<u64, u64>,
}

/// SplitMix64's finalizer: neighbours in, no neighbours out.
fn hash(block: u64) -> u64 {
    let mut z = block.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The share of the blocks that is followed of so many requests, and below which hash they are.
fn followed(requests: u64) -> (f64, u64) {
    let rate = (FOLLOWED as f64 / requests.max(1) as f64).min(1.0);
    (rate, if rate >= 1.0 { u64::MAX } else { (rate * u64::MAX as f64) as u64 })
}

/// How many requests come back to a block, without the distances.
#[derive(Default)]
pub struct Returns {
    threshold: u64,
    seen: HashSet<u64>,
    sampled: u64,
    returned: u64,
}

impl Returns {
    pub fn new(requests: u64) -> Returns {
        Returns { threshold: followed(requests).1, ..Returns::default() }
    }

    pub fn touch(&mut self, block: u64) {
        if hash(block) <= self.threshold {
            self.sampled += 1;
            self.returned += u64::from(!self.seen.insert(block));
        }
    }

    pub fn share(&self) -> f64 {
        self.returned as f64 / self.sampled.max(1) as f64
    }
}

impl Reuse {
    /// For a trace of so many requests, which touch no more blocks than that.
    pub fn new(requests: u64) -> Reuse {
        let (rate, threshold) = followed(requests);
        Reuse {
            threshold,
            rate,
            last: HashMap::new(),
            tree: vec![0; 1 << 16],
            now: 0,
            requests: 0,
            sampled: 0,
            reused: 0,
            distances: BTreeMap::new(),
        }
    }

    /// A block is used: the distance to its last use, infinite the first time; none if it is not followed.
    pub fn touch(&mut self, block: u64) -> Option<f64> {
        self.requests += 1;
        if hash(block) > self.threshold {
            return None;
        }
        self.sampled += 1;
        if self.now as usize + 1 >= self.tree.len() {
            self.compact();
        }
        self.now += 1;
        let now = self.now;
        let before = self.last.get(&block).copied();
        self.last.insert(block, (now, before.map_or(1, |(_, uses)| uses + 1)));
        let distance = match before {
            Some((then, _)) => {
                let between = self.sum(now - 1) - self.sum(then);
                self.add(then, u32::MAX);
                self.reused += 1;
                let distance = (f64::from(between) / self.rate) as u64;
                let bucket = if distance == 0 { 0 } else { 1u64 << distance.ilog2() };
                *self.distances.entry(bucket).or_default() += 1;
                distance as f64
            }
            None => f64::INFINITY,
        };
        self.add(now, 1);
        Some(distance)
    }

    /// Adds 1, or -1 as the number that wraps to it.
    fn add(&mut self, mut at: u32, value: u32) {
        while (at as usize) < self.tree.len() {
            self.tree[at as usize] = self.tree[at as usize].wrapping_add(value);
            at += at & at.wrapping_neg();
        }
    }

    fn sum(&self, mut at: u32) -> u32 {
        let mut sum = 0u32;
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at as usize]);
            at &= at - 1;
        }
        sum
    }

    /// Times become small again; the tree grows where half of it is in use.
    fn compact(&mut self) {
        let mut order: Vec<(u32, u64)> = self.last.iter().map(|(block, (then, _))| (*then, *block)).collect();
        order.sort_unstable();
        let size = self.tree.len().max((order.len() * 2 + 2).next_power_of_two());
        self.tree = vec![0; size];
        for (number, (_, block)) in order.iter().enumerate() {
            if let Some(entry) = self.last.get_mut(block) {
                entry.0 = number as u32 + 1;
            }
            self.add(number as u32 + 1, 1);
        }
        self.now = order.len() as u32;
    }

    pub fn end(self) -> Locality {
        let total = self.sampled.max(1) as f64;
        let mut uses: Vec<u64> = self.last.values().map(|(_, uses)| *uses).collect();
        uses.sort_unstable_by(|a, b| b.cmp(a));
        let hottest = [0.01, 0.1, 0.2].map(|share| {
            let count = (uses.len() as f64 * share).ceil() as usize;
            uses[..count.min(uses.len())].iter().sum::<u64>() as f64 / total
        });
        Locality {
            requests: self.requests,
            blocks: (uses.len() as f64 / self.rate) as u64,
            reused: self.reused as f64 / total,
            distances: self.distances.into_iter().map(|(distance, count)| (distance, count as f64 / total)).collect(),
            hottest,
            sampled: self.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distances_are_those_of_a_stack(blocks in proptest::collection::vec(0..40u64, 0..400)) {
            let mut reuse = Reuse::new(blocks.len() as u64);
            // Small, so that times are made small again.
            reuse.tree = vec![0; 64];
            let mut stack: Vec<u64> = Vec::new();
            for block in blocks {
                let expected = stack.iter().rev().position(|known| *known == block);
                stack.retain(|known| *known != block);
                stack.push(block);
                let expected = expected.map_or(f64::INFINITY, |place| place as f64);
                prop_assert_eq!(reuse.touch(block), Some(expected));
            }
        }
    }

    #[test]
    fn sampling_finds_the_same_distances() {
        let mut reuse = Reuse::new(10_000_000);
        let blocks = 500_000u64;
        for number in 0..3 * blocks {
            if let Some(distance) = reuse.touch(number % blocks)
                && distance.is_finite()
            {
                assert!((distance / blocks as f64 - 1.0).abs() < 0.02, "{distance}");
            }
        }
        let locality = reuse.end();
        assert!((locality.reused - 2.0 / 3.0).abs() < 1e-9 && (locality.blocks as f64 / 5e5 - 1.0).abs() < 0.02);
    }
}
