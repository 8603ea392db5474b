//! Self-similar ranks: the 80/20 rule, again within the 20, and so on.

use crate::rng::Rng;

/// The first share `h = 1 - skew` of the ranks gets `skew` of the draws, the first `h²` gets `skew²`, and so on: the
/// self-similar distribution of Gray et al. (1994), "Quickly Generating Billion-Record Synthetic Databases", by inverting
/// its distribution function. Rank 0 is the hottest.
#[derive(Debug)]
pub struct Pareto {
    ranks: u64,
    exponent: f64,
}

impl Pareto {
    pub fn new(ranks: u64, skew_percent: f64) -> Result<Pareto, String> {
        if ranks == 0 || !(50.0..100.0).contains(&skew_percent) {
            return Err(format!("pareto skew {skew_percent} over {ranks} blocks: skew must be 50 to below 100"));
        }
        let exponent = libm::log((100.0 - skew_percent) / 100.0) / libm::log(skew_percent / 100.0);
        Ok(Pareto { ranks, exponent })
    }

    #[inline]
    pub fn next(&self, rng: &mut Rng) -> u64 {
        let place = libm::pow(rng.unit_f64(), self.exponent);
        // Rounding can reach the end, which is one too far.
        ((self.ranks as f64 * place) as u64).min(self.ranks - 1)
    }
}
