//! Duty: where on a target the requests of a stream go: one file a family of address patterns.
//!
//! Refusal: no operations, no limits, no time; and no allocation once a pattern is made.

mod normal;
mod pareto;
mod scatter;
mod sequential;
mod strided;
mod uniform;
mod zipf;

pub use normal::Normal;
pub use pareto::Pareto;
pub use scatter::Scatter;
pub use sequential::Sequential;
pub use strided::Strided;
pub use uniform::{HotSpots, Uniform};
pub use zipf::Zipf;

use crate::rng::SplitMix64;
use std::sync::atomic::{AtomicU64, Ordering};

/// The part of a target that a stream may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Where the data of the target begin: alignments count from there, as they do from the start of any other file.
    pub origin_bytes: u64,
    pub start_bytes: u64,
    pub length_bytes: u64,
}

/// What the lanes of a stream have in common. Made once a stream and phase.
#[derive(Debug, Default)]
// 128: lines are fetched in pairs on current x86, so anything nearer would be dragged along by each step of the cursor.
#[repr(align(128))]
pub struct StreamShared {
    cursor: AtomicU64,
}

impl StreamShared {
    pub fn new() -> StreamShared {
        StreamShared::default()
    }

    /// The next number of the stream, each given out once.
    #[inline]
    fn take(&self) -> u64 {
        // Relaxed: the number is all that lanes exchange.
        self.cursor.fetch_add(1, Ordering::Relaxed)
    }

    /// Replaces the cursor by what `step` makes of it; `step` also says what to return.
    #[inline]
    fn advance<T>(&self, mut step: impl FnMut(u64) -> (u64, T)) -> T {
        let mut seen = self.cursor.load(Ordering::Relaxed);
        loop {
            let (next, result) = step(seen);
            match self.cursor.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return result,
                Err(other) => seen = other,
            }
        }
    }
}

/// A region as the patterns see it: it begins at a multiple of the alignment and holds at least one largest request.
#[derive(Debug, Clone)]
pub struct Space {
    origin_bytes: u64,
    pub start_bytes: u64,
    pub length_bytes: u64,
    pub align_bytes: u64,
    /// Sizes of the mix, in its order.
    pub sizes: Box<[u32]>,
    /// An alignment for each size, where they differ; multiples of `align_bytes`.
    aligns: Option<Box<[u64]>>,
}

impl Space {
    pub fn new(region: Region, align_bytes: u64, sizes: &[u64]) -> Result<Space, String> {
        let max_bytes = sizes.iter().copied().max().unwrap_or(0);
        if align_bytes == 0 || sizes.contains(&0) || sizes.is_empty() {
            return Err("request: sizes and align must be larger than 0".into());
        }
        let sizes: Result<Box<[u32]>, _> = sizes.iter().map(|s| u32::try_from(*s)).collect();
        let Ok(sizes) = sizes else {
            return Err(format!("request size {} is above 4GiB; make it smaller", plan::format_bytes(max_bytes)));
        };
        let too_small = || {
            format!(
                "region of {} at {} has no room for a request of {} at a multiple of {}; enlarge the region or target",
                plan::format_bytes(region.length_bytes),
                plan::format_bytes(region.start_bytes),
                plan::format_bytes(max_bytes),
                plan::format_bytes(align_bytes)
            )
        };
        let end_bytes = region.start_bytes.checked_add(region.length_bytes).ok_or_else(too_small)?;
        let start_bytes = aligned_bytes(region.origin_bytes, region.start_bytes, align_bytes).ok_or_else(too_small)?;
        let length_bytes = end_bytes.checked_sub(start_bytes).ok_or_else(too_small)?;
        if length_bytes < max_bytes {
            return Err(too_small());
        }
        Ok(Space { origin_bytes: region.origin_bytes, start_bytes, length_bytes, align_bytes, sizes, aligns: None })
    }

    /// Gives each size an alignment of its own; the region then begins at a multiple of all of them.
    pub fn align_each(&mut self, aligns: Box<[u64]>) -> Result<(), String> {
        let largest = aligns.iter().copied().max().unwrap_or(1);
        if aligns.iter().any(|align| largest % align != 0) {
            return Err(
                "request: the smallest sizes of the operations are no multiples of each other; set align".into()
            );
        }
        let moved = aligned_bytes(self.origin_bytes, self.start_bytes, largest).map_or(0, |at| at - self.start_bytes);
        let left = self.length_bytes.checked_sub(moved).filter(|left| *left >= self.max_bytes());
        self.length_bytes = left.ok_or("the region has no room for a request at its alignment; enlarge the region")?;
        self.start_bytes += moved;
        self.aligns = Some(aligns);
        Ok(())
    }

    /// Of what the offsets of a size of the mix are multiples.
    pub fn align_of(&self, size: usize) -> u64 {
        self.aligns.as_ref().map_or(self.align_bytes, |aligns| aligns[size])
    }

    /// A part of it, from and to these bytes of its length; it begins at the next place for every size.
    pub fn part(&self, from_bytes: u64, to_bytes: u64) -> Result<Space, String> {
        let sizes: Vec<u64> = self.sizes.iter().map(|s| u64::from(*s)).collect();
        let region = Region {
            origin_bytes: self.origin_bytes,
            start_bytes: self.start_bytes + from_bytes,
            length_bytes: to_bytes.saturating_sub(from_bytes),
        };
        let mut part = Space::new(region, self.align_bytes, &sizes)?;
        if let Some(aligns) = &self.aligns {
            part.align_each(aligns.clone())?;
        }
        Ok(part)
    }

    /// The lane's own one of `lanes` parts that differ by at most one alignment unit.
    pub fn of_lane(&self, lane: u32, lanes: u32) -> Result<Space, String> {
        let units = u128::from(self.length_bytes / self.align_bytes);
        let edge = |lane: u32| (units * u128::from(lane) / u128::from(lanes)) as u64 * self.align_bytes;
        self.part(edge(lane), edge(lane + 1))
    }

    pub fn max_bytes(&self) -> u64 {
        self.sizes.iter().copied().max().map_or(0, u64::from)
    }

    /// The one size of the stream, if it has no mix.
    pub fn one_size(&self) -> Option<u64> {
        self.sizes.iter().all(|s| *s == self.sizes[0]).then(|| u64::from(self.sizes[0]))
    }

    /// Aligned places at which any request of the mix still fits.
    pub fn places(&self) -> u64 {
        places(self.length_bytes, self.max_bytes(), self.align_bytes)
    }
}

/// The first place from `start_bytes` on that lies a multiple of `align_bytes` behind the origin.
fn aligned_bytes(origin_bytes: u64, start_bytes: u64, align_bytes: u64) -> Option<u64> {
    start_bytes.checked_sub(origin_bytes)?.checked_next_multiple_of(align_bytes)?.checked_add(origin_bytes)
}

/// Multiples of `align_bytes` at which a request of `size_bytes` ends within `length_bytes`.
fn places(length_bytes: u64, size_bytes: u64, align_bytes: u64) -> u64 {
    length_bytes.checked_sub(size_bytes).map_or(0, |last| last / align_bytes + 1)
}

/// What a random order hangs on besides its pass: all lanes of a stream agree on it.
#[derive(Debug, Clone, Copy)]
pub struct OrderSeed {
    pub seed: u64,
    pub phase: u32,
    pub stream: u32,
}

impl OrderSeed {
    /// Key of the order in one pass.
    pub fn pass(self, pass: u64) -> SplitMix64 {
        // A fifth word keeps these apart from the four words of a lane's generator.
        SplitMix64::new(&[self.seed, self.phase.into(), self.stream.into(), pass, u64::from_be_bytes(*b"scatter\0")])
    }
}

/// Lane `lane` of `lanes` gets this many of `total`, so that all shares together are the total.
pub fn lane_share(total: u64, lane: u32, lanes: u32) -> u64 {
    let (lane, lanes) = (u64::from(lane), u64::from(lanes.max(1)));
    total / lanes + u64::from(lane < total % lanes)
}
