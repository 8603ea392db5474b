//! Duty: reproducible random numbers of which neighbouring seeds have nothing in common.
//!
//! Refusal: no entropy of the machine, no cryptography.

/// SplitMix64 (Steele, Lea, Flood 2014): spreads seeds that differ in few bits over all of them. Its state is a counter:
/// two generators whose states lie few steps apart give the same numbers, shifted.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that depends on every word and on their order.
    pub fn new(words: &[u64]) -> SplitMix64 {
        words.iter().fold(SplitMix64(0), |mut state, word| SplitMix64(state.next_u64() ^ word))
    }

    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }
}

/// The output function of SplitMix64, a bijection on 64 bits (Stafford's variant 13).
#[inline]
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of the reference C code of SplitMix64 for the seed 1234567.
    #[test]
    fn splitmix_gives_the_published_sequence() {
        let mut seeds = SplitMix64(1234567);
        let expected: [u64; 3] = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!(expected, std::array::from_fn(|_| seeds.next_u64()));
    }
}
