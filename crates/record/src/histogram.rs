//! A histogram of times in ns with a bounded relative error, in the bucket layout of HdrHistogram with two significant
//! decimal digits: 256 linear buckets, then 128 for each further power of two. The widest bucket is 1/128 of its
//! value, so the relative error is at most 0.8 %.

/// log2 of the number of linear buckets: the smallest power of two that resolves 2 × 10² (two significant digits).
const LINEAR_BITS: u32 = 8;
const HALF_BITS: u32 = LINEAR_BITS - 1;
/// One hour; longer times are counted there, their exact maximum is kept beside.
pub const MAX_TRACKED_NS: u64 = 3_600_000_000_000;
const BUCKETS: usize = index_of(MAX_TRACKED_NS) + 1;

/// Counts of times. Recording takes a few ns and never allocates.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

#[inline(always)]
const fn index_of(value_ns: u64) -> usize {
    // The shift that brings the value into the linear range; 0 for values that are there already.
    let shift = 64 - LINEAR_BITS - (value_ns | ((1 << LINEAR_BITS) - 1)).leading_zeros();
    ((shift as usize) << HALF_BITS) + (value_ns >> shift) as usize
}

/// The smallest value that falls into a bucket.
fn lowest_of(index: usize) -> u64 {
    let shift = (index >> HALF_BITS).saturating_sub(1);
    ((index - (shift << HALF_BITS)) as u64) << shift
}

impl Default for Histogram {
    fn default() -> Self {
        let counts = vec![0u64; BUCKETS].into_boxed_slice().try_into().expect("the length is BUCKETS");
        Histogram { counts, total: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Histogram {
    /// Counts `times` requests that all took `value_ns`.
    #[inline]
    pub fn record(&mut self, value_ns: u64, times: u64) {
        self.counts[index_of(value_ns.min(MAX_TRACKED_NS))] += times;
        self.total += times;
        self.sum_ns += u128::from(value_ns) * u128::from(times);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    pub fn merge(&mut self, other: &Histogram) {
        if other.total == 0 {
            return;
        }
        for (mine, theirs) in self.counts[other.touched()].iter_mut().zip(&other.counts[other.touched()]) {
            *mine += theirs;
        }
        self.total += other.total;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub fn clear(&mut self) {
        if self.total > 0 {
            let touched = self.touched();
            self.counts[touched].fill(0);
        }
        (self.total, self.sum_ns, self.min_ns, self.max_ns) = (0, 0, u64::MAX, 0);
    }

    pub fn count(&self) -> u64 {
        self.total
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Exact mean in ns; 0 without samples.
    pub fn mean_ns(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum_ns as f64 / self.total as f64 }
    }

    /// Exact smallest value in ns; 0 without samples.
    pub fn min_ns(&self) -> u64 {
        if self.total == 0 { 0 } else { self.min_ns }
    }

    /// Exact largest value in ns.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The value that at least `percent` of the samples do not exceed, as HdrHistogram gives it: the top of its bucket.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        if self.total == 0 {
            return 0;
        }
        let rank = ((percent.clamp(0.0, 100.0) / 100.0) * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for index in self.touched() {
            seen += self.counts[index];
            if seen >= rank {
                return (lowest_of(index + 1) - 1).min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// Buckets in use as (smallest value of the bucket, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let touched = if self.total == 0 { 0..0 } else { self.touched() };
        touched.filter(|i| self.counts[*i] > 0).map(|i| (lowest_of(i), self.counts[i]))
    }

    /// Buckets in use as (largest value of the bucket, or of all where it lies in there; count), ascending: what a
    /// percentile is read from.
    pub fn ends(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let touched = if self.total == 0 { 0..0 } else { self.touched() };
        touched.filter(|i| self.counts[*i] > 0).map(|i| ((lowest_of(i + 1) - 1).min(self.max_ns), self.counts[i]))
    }

    fn touched(&self) -> std::ops::Range<usize> {
        index_of(self.min_ns.min(MAX_TRACKED_NS))..index_of(self.max_ns.min(MAX_TRACKED_NS)) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_the_range() {
        for index in 0..BUCKETS - 1 {
            assert_eq!(index_of(lowest_of(index)), index);
            assert_eq!(index_of(lowest_of(index + 1) - 1), index);
        }
    }

    #[test]
    fn longer_than_an_hour_is_kept_exactly_as_maximum() {
        let mut h = Histogram::default();
        h.record(2 * MAX_TRACKED_NS, 1);
        assert_eq!((h.count(), h.max_ns()), (1, 2 * MAX_TRACKED_NS));
    }

    #[test]
    fn clear_leaves_nothing() {
        let mut h = Histogram::default();
        for v in [0, 1, 100, 255, 256, 1_000_000, MAX_TRACKED_NS] {
            h.record(v, 3);
        }
        h.clear();
        assert_eq!(h.buckets().count(), 0);
        assert!(h.counts.iter().all(|c| *c == 0));
        assert_eq!((h.min_ns(), h.max_ns(), h.mean_ns()), (0, 0, 0.0));
    }

    proptest! {
        #[test]
        fn percentiles_are_within_one_per_cent(mut values in prop::collection::vec(100u64..MAX_TRACKED_NS, 1..300), percent in 0.0f64..=100.0) {
            let mut h = Histogram::default();
            values.iter().for_each(|v| h.record(*v, 1));
            values.sort_unstable();
            let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1] as f64;
            let got = h.percentile_ns(percent) as f64;
            prop_assert!((got - exact).abs() <= exact / 128.0 + 1.0, "{got} against {exact}");
        }

        #[test]
        fn merging_equals_recording_together(a in prop::collection::vec(0u64..MAX_TRACKED_NS, 0..50), b in prop::collection::vec(0u64..MAX_TRACKED_NS, 0..50)) {
            let (mut x, mut y, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
            a.iter().for_each(|v| { x.record(*v, 1); both.record(*v, 1) });
            b.iter().for_each(|v| { y.record(*v, 1); both.record(*v, 1) });
            x.merge(&y);
            prop_assert!(x.buckets().eq(both.buckets()));
            prop_assert_eq!((x.min_ns(), x.max_ns(), x.mean_ns()), (both.min_ns(), both.max_ns(), both.mean_ns()));
        }
    }
}
