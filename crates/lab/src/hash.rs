//! Duty: hashes that name images and choose states, the same on every machine. Refusal: nothing cryptographic; whoever
//! could forge a log could as well replace it.

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(MIX);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A hash of bytes, eight at a time; the length counts too.
pub fn of_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = mixed(seed ^ bytes.len() as u64);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        state = mixed(state ^ u64::from_le_bytes(eight)); // a cheaper step lets two flipped bits cancel each other
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    mixed(state ^ u64::from_le_bytes(last))
}

/// Numbers drawn from a seed.
#[derive(Debug, Clone)]
pub struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(MIX);
        mixed(self.0)
    }

    /// A number below `limit`, 0 where that is 0. The bias is below 2^-32 for any log that fits on a disk.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(limit)) >> 64) as u64
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n.max(1)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_bit_and_a_changed_length_change_the_hash() {
        let block = [7; 4096];
        let mut other = block;
        other[4095] ^= 1;
        assert_ne!(of_bytes(0, &block), of_bytes(0, &other));
        other[4095] ^= 1;
        other[15] ^= 0x80; // bit 63 of a word
        other[19] ^= 0x10; // and bit 28 of the next
        assert_ne!(of_bytes(0, &block), of_bytes(0, &other));
        assert_ne!(of_bytes(0, &block), of_bytes(1, &block));
        assert_ne!(of_bytes(0, &[0; 8]), of_bytes(0, &[0; 16]));
    }

    #[test]
    fn draws_stay_below_their_limit_and_reach_all_of_it() {
        let mut draws = Draws::new(1);
        let seen: std::collections::BTreeSet<u64> = (0..200).map(|_| draws.below(5)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(draws.below(0), 0);
    }
}
