//! Duty: reproducible random numbers; one generator a lane, so that lanes need no lock and each repeats alone.
//!
//! Refusal: no entropy of the machine, no cryptography.

pub use pace::{SplitMix64, mix};

/// xoshiro256++ 1.0 (Blackman, Vigna 2019).
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of one lane.
    pub fn new(seed: u64, phase: u32, stream: u32, lane: u32) -> Rng {
        Rng::from_words(&[seed, phase.into(), stream.into(), lane.into()])
    }

    /// A generator that depends on every word and on their order.
    pub fn from_words(words: &[u64]) -> Rng {
        let mut seeds = SplitMix64::new(words);
        // SplitMix64 is a bijection of a counter: four successive outputs are never all zero, as xoshiro needs.
        Rng { state: [seeds.next_u64(), seeds.next_u64(), seeds.next_u64(), seeds.next_u64()] }
    }

    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform over `0..n`, without bias (Lemire 2019: multiply, and reject the few draws that would favour some
    /// values). 0 where `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let surplus = n.wrapping_neg() % n;
            while (product as u64) < surplus {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Uniform over `[0, 1)`: a multiple of 2^-53.
    #[inline]
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of the reference C code of xoshiro256++ for the state 1, 2, 3, 4.
    #[test]
    fn xoshiro_gives_the_published_sequence() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let expected: [u64; 4] = [41943041, 58720359, 3588806011781223, 3591011842654386];
        assert_eq!(expected, std::array::from_fn(|_| rng.next_u64()));
    }

    #[test]
    fn every_word_of_the_seed_counts() {
        let first = |seed, phase, stream, lane| Rng::new(seed, phase, stream, lane).next_u64();
        let mut outputs = vec![first(1, 0, 0, 0), first(0, 1, 0, 0), first(0, 0, 1, 0), first(0, 0, 0, 1)];
        outputs.push(first(0, 0, 0, 0));
        outputs.sort_unstable();
        outputs.dedup();
        assert_eq!(outputs.len(), 5);
    }

    #[test]
    fn below_stays_below_at_the_edges() {
        let mut rng = Rng::new(1, 0, 0, 0);
        for _ in 0..1000 {
            assert_eq!(rng.below(1), 0);
            assert!(rng.below(3) < 3);
            assert!(rng.below(u64::MAX) < u64::MAX);
        }
        assert_eq!(rng.below(0), 0);
    }

    /// With n = 3/4 of 2^64 a plain multiplication would give a third of the values twice the weight of the others.
    #[test]
    fn below_has_no_bias_for_huge_ranges() {
        let n = 3u64 << 62;
        let mut rng = Rng::new(7, 0, 0, 0);
        let mut residues = [0u64; 3];
        for _ in 0..300_000 {
            residues[(rng.below(n) % 3) as usize] += 1;
        }
        for count in residues {
            assert!(count.abs_diff(100_000) < 1_300, "{residues:?} is 5 sigma away from thirds");
        }
    }

    #[test]
    fn unit_floats_are_in_range_with_mean_one_half() {
        let mut rng = Rng::new(3, 0, 0, 0);
        let mut sum = 0.0;
        for _ in 0..100_000 {
            let unit = rng.unit_f64();
            assert!((0.0..1.0).contains(&unit));
            sum += unit;
        }
        assert!((sum / 100_000.0 - 0.5).abs() < 0.005);
    }
}
