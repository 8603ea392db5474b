//! Ranks with P(k) ∝ k^-theta.

use crate::rng::Rng;

/// Rejection-inversion after Hörmann and Derflinger (1996), "Rejection-inversion to generate variates from monotone
/// discrete distributions": exact for any theta above 0, constant memory, fewer than 1.2 draws a rank.
#[derive(Debug)]
pub struct Zipf {
    ranks: f64,
    theta: f64,
    /// Integral of the hat at the ends of what is drawn from.
    area_first: f64,
    area_last: f64,
    /// Ranks this near to the inverted draw are accepted without a look at the hat.
    accept: f64,
}

impl Zipf {
    pub fn new(ranks: u64, theta: f64) -> Result<Zipf, String> {
        if ranks == 0 || !(theta > 0.0 && theta <= 10.0) {
            return Err(format!("zipf theta {theta} over {ranks} blocks: theta must be above 0 and at most 10"));
        }
        let mut zipf = Zipf { ranks: ranks as f64, theta, area_first: 0.0, area_last: 0.0, accept: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(zipf.ranks + 0.5);
        zipf.accept = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.weight(2.0));
        Ok(zipf)
    }

    /// The next rank, counted from 0.
    #[inline]
    pub fn next(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.area_last + rng.unit_f64() * (self.area_first - self.area_last);
            let x = self.area_inverse(area);
            let rank = libm::floor(x + 0.5).clamp(1.0, self.ranks);
            if rank - x <= self.accept || area >= self.area(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    /// x^-theta.
    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// Integral of x^-theta from 1, also where theta is (nearly) 1.
    fn area(&self, x: f64) -> f64 {
        let log = libm::log(x);
        expm1_over((1.0 - self.theta) * log) * log
    }

    fn area_inverse(&self, area: f64) -> f64 {
        // Rounding can lead past the pole of the logarithm at -1.
        let t = (area * (1.0 - self.theta)).max(-1.0);
        libm::exp(log1p_over(t) * area)
    }
}

/// Below this the first two terms of the series are exact in double precision: the third, x²/3 at most, is below 2^-54.
const SERIES_BELOW: f64 = 1e-8;

/// (e^x - 1) / x, and its limit at 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > SERIES_BELOW { libm::expm1(x) / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x, and its limit at 0.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > SERIES_BELOW { libm::log1p(x) / x } else { 1.0 - x / 2.0 }
}
