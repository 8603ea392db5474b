//! Where the intervals of a phase begin and end. All loops of a phase compute the same boundaries.

/// Intervals a phase keeps at the most.
const INTERVALS_MAX: u64 = 3_600;
/// Cells that a phase keeps at the most, over all intervals: a cell is one operation of one stream in one interval, and
/// takes up to three histograms of some hundred bytes to a few KiB each, so that a phase keeps at most about 200 MB.
const CELLS_MAX: u64 = 36_000;
/// However many cells an interval has.
const INTERVALS_LEAST: u64 = 360;
/// Where nothing limits a phase's time, intervals double in length after each such part of the most that it may keep:
/// 3,600 of one second then last 8 days.
const PARTS: u64 = 11;

/// What an interval's requests are counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Warmup,
    Measure,
    /// After the end of the phase: only requests that were in flight then. In latencies, in no rate.
    Drain,
}

#[derive(Debug, Clone)]
pub struct Timeline {
    pub start_ns: u64,
    warmup_ns: u64,
    duration_ns: Option<u64>,
    interval_ns: u64,
    intervals_max: u64,
}

impl Timeline {
    /// `cells` are those of one interval.
    pub fn new(start_ns: u64, warmup_ns: u64, duration_ns: Option<u64>, interval_ns: u64, cells: usize) -> Timeline {
        let intervals_max = (CELLS_MAX / cells.max(1) as u64).clamp(INTERVALS_LEAST, INTERVALS_MAX);
        let total_ns = warmup_ns + duration_ns.unwrap_or(0);
        let interval_ns = interval_ns.max(total_ns.div_ceil(intervals_max - 2)).max(1);
        Timeline { start_ns, warmup_ns, duration_ns, interval_ns, intervals_max }
    }

    pub fn measure_start_ns(&self) -> u64 {
        self.start_ns + self.warmup_ns
    }

    /// When the phase ends by time; `u64::MAX` where it doesn't.
    pub fn end_ns(&self) -> u64 {
        self.duration_ns.map_or(u64::MAX, |d| self.measure_start_ns() + d)
    }

    /// Length of the interval that begins at `from_ns`, and what it counts for.
    pub fn next(&self, from_ns: u64) -> (u64, Kind) {
        let measure_ns = self.measure_start_ns();
        if from_ns < measure_ns {
            return ((from_ns + self.interval_ns).min(measure_ns), Kind::Warmup);
        }
        if from_ns >= self.end_ns() {
            return (u64::MAX, Kind::Drain);
        }
        let mut length_ns = self.interval_ns;
        if self.duration_ns.is_none() {
            let each = self.intervals_max / PARTS;
            let mut level_end_ns = measure_ns + length_ns * each;
            while from_ns >= level_end_ns {
                length_ns *= 2;
                level_end_ns += length_ns * each;
            }
        }
        let end_ns = self.end_ns();
        let boundary_ns = from_ns + length_ns;
        // A rest shorter than a tenth of an interval joins the one before it: too little for figures of its own.
        let joined = end_ns.saturating_sub(boundary_ns) < length_ns / 10;
        (if joined { end_ns } else { boundary_ns.min(end_ns) }, Kind::Measure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(timeline: &Timeline, count: usize) -> Vec<(u64, Kind)> {
        let mut at = timeline.start_ns;
        (0..count)
            .map(|_| {
                let next = timeline.next(at);
                at = next.0;
                next
            })
            .collect()
    }

    #[test]
    fn warmup_is_apart_and_the_end_is_exact() {
        let t = Timeline::new(100, 25, Some(30), 10, 1);
        let got = intervals(&t, 6);
        let expected = [110, 120, 125, 135, 145, 155];
        assert_eq!(got.iter().map(|g| g.0).collect::<Vec<_>>(), expected);
        assert_eq!(got[2].1, Kind::Warmup);
        assert_eq!(got[3].1, Kind::Measure);
        assert_eq!(t.next(155), (u64::MAX, Kind::Drain));
    }

    #[test]
    fn a_long_run_keeps_at_most_3600_intervals() {
        let second = 1_000_000_000;
        let t = Timeline::new(0, 60 * second, Some(14 * 86_400 * second), second, 1);
        let (mut at, mut count) = (0, 0);
        while at < t.end_ns() {
            at = t.next(at).0;
            count += 1;
        }
        assert!(count <= 3_600, "{count}");
        let open = Timeline::new(0, 0, None, second, 1);
        let week = intervals(&open, 3_600).last().expect("some").0;
        assert!(week >= 7 * 86_400 * second, "{week}");
    }

    #[test]
    fn many_streams_have_fewer_intervals() {
        let second = 1_000_000_000;
        let count = |cells, duration_ns| {
            let t = Timeline::new(0, 0, Some(duration_ns), second, cells);
            let (mut at, mut count) = (0, 0);
            while at < t.end_ns() {
                at = t.next(at).0;
                count += 1;
            }
            count
        };
        let day = 86_400 * second;
        assert!(count(40, day) <= 900, "20 streams that read and write");
        assert!(count(10_000, day) <= 360);
        assert_eq!(count(40, 800 * second), 800, "a short run has the intervals that were asked for");
    }

    #[test]
    fn a_short_rest_joins_the_interval_before() {
        let t = Timeline::new(0, 0, Some(2_050), 1_000, 1);
        assert_eq!(intervals(&t, 2), [(1_000, Kind::Measure), (2_050, Kind::Measure)]);
    }
}
