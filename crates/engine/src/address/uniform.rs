//! Uniform and independent offsets, over the region or over hot spots in it.

use super::{Space, places};
use crate::rng::Rng;

#[derive(Debug)]
pub struct Uniform {
    start_bytes: u64,
    /// For each size of the mix: of what its offsets are multiples, and at how many places it fits.
    places: Box<[(u64, u64)]>,
}

impl Uniform {
    pub fn new(space: &Space) -> Uniform {
        Uniform::over(space, space.length_bytes)
    }

    fn over(space: &Space, length_bytes: u64) -> Uniform {
        let place = |(number, size): (usize, &u32)| {
            let align_bytes = space.align_of(number);
            (align_bytes, places(length_bytes, u64::from(*size), align_bytes))
        };
        Uniform { start_bytes: space.start_bytes, places: space.sizes.iter().enumerate().map(place).collect() }
    }

    /// `size` is the index in the mix.
    #[inline]
    pub fn next(&self, rng: &mut Rng, size: usize) -> u64 {
        let (align_bytes, places) = self.places[size];
        self.start_bytes + align_bytes * rng.below(places)
    }
}

/// Equal spots, one in the middle of each of as many equal parts of the region.
#[derive(Debug)]
pub struct HotSpots {
    /// Offsets within the first spot, were it at the start of the region.
    within: Uniform,
    align_bytes: u64,
    /// The region in alignment units.
    units: u64,
    spot_units: u64,
    spots: u64,
}

impl HotSpots {
    pub fn new(space: &Space, space_percent: f64, spots: u32) -> Result<HotSpots, String> {
        let units = space.length_bytes / space.align_bytes;
        let spots = u64::from(spots);
        let spot_units = match spots {
            0 => 0,
            _ => ((units as f64 * (space_percent / 100.0) / spots as f64) as u64).min(units / spots),
        };
        let spot_bytes = spot_units * space.align_bytes;
        if spot_bytes < space.max_bytes() || spot_bytes == 0 {
            return Err(format!(
                "hot_spots: {spots} spots over {space_percent} % of a region of {} have no room for a request of {} each; \
                 use fewer spots or more space",
                plan::format_bytes(space.length_bytes),
                plan::format_bytes(space.max_bytes())
            ));
        }
        let within = Uniform::over(space, spot_bytes);
        Ok(HotSpots { within, align_bytes: space.align_bytes, units, spot_units, spots })
    }

    #[inline]
    pub fn next(&self, rng: &mut Rng, size: usize) -> u64 {
        let spot = rng.below(self.spots);
        self.shift_bytes(spot) + self.within.next(rng, size)
    }

    /// From the start of the region to the start of a spot.
    #[inline]
    fn shift_bytes(&self, spot: u64) -> u64 {
        let edge = |spot: u64| (u128::from(self.units) * u128::from(spot) / u128::from(self.spots)) as u64;
        let (first, end) = (edge(spot), edge(spot + 1));
        (first + (end - first - self.spot_units) / 2) * self.align_bytes
    }
}
