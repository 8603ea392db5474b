//! Where a request of a trace goes on a target.

use engine::streams::TargetArea;
use plan::TraceFit;
use trace::Request;

/// What stays together where a trace is spread: larger than any request, and than most runs of sequential ones.
const PART_BYTES: u64 = 16 << 20;

#[derive(Debug, Clone)]
pub struct Placing {
    fit: TraceFit,
    start_bytes: u64,
    length_bytes: u64,
    align_bytes: u64,
    /// How far the trace reaches.
    reach_bytes: u64,
}

impl Placing {
    pub fn new(fit: TraceFit, reach_bytes: u64, largest_bytes: u64, area: &TargetArea) -> Result<Placing, String> {
        let align_bytes = area.align_bytes.max(1);
        let length_bytes = area.length_bytes / align_bytes * align_bytes;
        let needed = if fit == TraceFit::Exact { reach_bytes } else { largest_bytes + align_bytes };
        if needed > length_bytes {
            let (has, needs) = (plan::format_bytes(length_bytes), plan::format_bytes(needed));
            let remedy = if fit == TraceFit::Exact {
                "use --fit wrap or --fit scale, or a larger target"
            } else {
                "use a larger one"
            };
            return Err(format!("the trace reaches {needs}, and {} has {has}; {remedy}", area.path));
        }
        let start_bytes = area.start_bytes;
        Ok(Placing { fit, start_bytes, length_bytes, align_bytes, reach_bytes: reach_bytes.max(1) })
    }

    /// Offset from the start of the target, and size; both are what the target demands.
    pub fn of(&self, request: &Request) -> (u64, u64) {
        let offset = match self.fit {
            TraceFit::Exact => request.offset_bytes,
            TraceFit::Wrap => request.offset_bytes % self.length_bytes,
            TraceFit::Scale => self.scaled(request.offset_bytes),
        };
        let from = offset / self.align_bytes * self.align_bytes;
        let end = offset.saturating_add(request.bytes.max(1)).div_ceil(self.align_bytes) * self.align_bytes;
        let bytes = (end - from).min(self.length_bytes);
        (self.start_bytes + from.min(self.length_bytes - bytes), bytes)
    }

    /// Parts are moved as they are, so that what is sequential stays so within them.
    fn scaled(&self, offset: u64) -> u64 {
        let parts = self.reach_bytes.div_ceil(PART_BYTES);
        let places = (self.length_bytes / PART_BYTES).max(1);
        let part = u128::from(offset / PART_BYTES) * u128::from(places) / u128::from(parts);
        part as u64 * PART_BYTES + offset % PART_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::Operation;

    fn area(length_bytes: u64, align_bytes: u64) -> TargetArea {
        TargetArea { path: "t".into(), start_bytes: 1 << 20, length_bytes, align_bytes, ..TargetArea::default() }
    }

    fn at(offset_bytes: u64, bytes: u64) -> Request {
        let operation = Operation::Write;
        Request {
            arrival_ns: 0,
            issue_ns: None,
            complete_ns: None,
            device: 0,
            operation,
            flags: 0,
            offset_bytes,
            bytes,
            process: 0,
        }
    }

    #[test]
    fn places_are_within_the_target_and_aligned() {
        for fit in [TraceFit::Exact, TraceFit::Wrap, TraceFit::Scale] {
            for length in [100 << 20, 3 << 30] {
                let reach = if fit == TraceFit::Exact { 90 << 20 } else { 1 << 40 };
                let placing = Placing::new(fit, reach, 1 << 20, &area(length, 4096)).unwrap();
                for k in 0..10_000u64 {
                    let request = at((k * 104_729 * 512) % (reach - (1 << 20)), 512 + k % 2000 * 512);
                    let (from, bytes) = placing.of(&request);
                    assert!(from >= 1 << 20 && from + bytes <= (1 << 20) + length, "{fit:?} {request:?}");
                    assert!(from % 4096 == 0 && bytes % 4096 == 0 && bytes >= request.bytes);
                }
            }
        }
    }

    #[test]
    fn what_fits_stays_where_it_is_and_what_does_not_is_refused() {
        let placing = Placing::new(TraceFit::Exact, 1 << 30, 4096, &area(1 << 30, 512)).unwrap();
        assert_eq!(placing.of(&at(12_345 * 512, 1024)), ((1 << 20) + 12_345 * 512, 1024));
        let refused = Placing::new(TraceFit::Exact, 2 << 30, 4096, &area(1 << 30, 512)).unwrap_err();
        assert!(refused.contains("--fit wrap"), "{refused}");
    }

    #[test]
    fn scaling_keeps_runs_together() {
        let placing = Placing::new(TraceFit::Scale, 64 << 30, 1 << 20, &area(1 << 30, 512)).unwrap();
        let offsets: Vec<u64> = (0..16).map(|k| placing.of(&at((5 << 30) + k * 65_536, 65_536)).0).collect();
        assert!(offsets.windows(2).all(|pair| pair[1] == pair[0] + 65_536));
    }
}
