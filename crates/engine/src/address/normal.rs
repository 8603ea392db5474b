//! Ranks as fio's `normal` distribution draws them, so that an imported job keeps its hot and cold blocks.

use crate::rng::Rng;

/// As many uniform numbers as fio takes the mean of (`lib/gauss.c`): their sum has a nearly normal distribution.
const TERMS: u64 = 12;

#[derive(Debug)]
pub struct Normal {
    ranks: u64,
    /// A uniform number of this width is added around the mean.
    spread: u64,
}

impl Normal {
    /// `deviation` in per cent of the ranks; fio holds it to half of them.
    pub fn new(ranks: u64, deviation: f64) -> Normal {
        let spread = (ranks as f64 * deviation / 100.0).ceil() as u64;
        Normal { ranks, spread: spread.min(ranks / 2) }
    }

    #[inline]
    pub fn next(&self, rng: &mut Rng) -> u64 {
        // As fio: up to and with the number of ranks, and rounded up.
        let sum: u64 = (0..TERMS).map(|_| rng.below(self.ranks + 1)).sum();
        let mean = sum.div_ceil(TERMS);
        let mut added = if self.spread == 0 { 0 } else { rng.below(self.spread) as i64 - (self.spread / 2) as i64 };
        loop {
            let rank = mean as i64 + added;
            if (0..self.ranks as i64).contains(&rank) {
                return rank as u64;
            }
            if added == 0 {
                return self.ranks - 1;
            }
            added /= 2;
        }
    }
}
