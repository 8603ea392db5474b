//! What happened within one interval.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_zero;
use super::words::{Counted, Timed};
use crate::cell::Cell;
use crate::histogram::Histogram;
use crate::text::{TextError, TextHistogram};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    pub phase: usize,
    pub index: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub warmup: bool,
    /// Only requests that were in flight when the phase ended: in latencies, in no rate.
    pub drain: bool,
    pub cells: Vec<CellEvent>,
    pub cpu: Cpu,
    /// Share of the loops' time that was their own, neither in the kernel nor waiting.
    pub loop_busy_share: f64,
    pub knob: Option<KnobEvent>,
}

/// One operation of one stream. `requests` and `bytes` are successes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CellEvent {
    pub stream: usize,
    pub operation: Counted,
    pub requests: u64,
    pub bytes: u64,
    pub errors: u64,
    /// Frames that were missing when their buffer ran out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
    /// Never more of the stream's requests were in flight at once: what each of its loops, or of a replay's drivers, had at
    /// most, added up. Exact where it has one.
    pub depth_max: u32,
    /// Of a database: rows that its calls returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Of a database: calls whose number of rows was not what the log says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged: Option<u64>,
    pub measures: BTreeMap<Timed, Measure>,
}

/// Times of one kind, in ns. `histogram` is HdrHistogram's V2 compressed form in base64.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Measure {
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub histogram: String,
}

/// CPU time of the whole process, kernel workers of its rings included.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    pub user_ns: u64,
    pub system_ns: u64,
}

/// What a ramp has set.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct KnobEvent {
    pub depth: Option<u32>,
    pub workers: Option<u32>,
    pub rate_per_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_percent: Option<f64>,
}

impl CellEvent {
    pub fn new(stream: usize, operation: Counted, cell: &Cell) -> CellEvent {
        let mut measures = BTreeMap::from([
            (Timed::Service, Measure::of(&cell.service)),
            (Timed::Response, Measure::of(&cell.response)),
        ]);
        if let Some(lateness) = &cell.lateness {
            measures.insert(Timed::Lateness, Measure::of(lateness));
        }
        CellEvent {
            stream,
            operation,
            requests: cell.requests,
            bytes: cell.bytes,
            errors: cell.errors,
            dropped: cell.dropped,
            depth_max: cell.in_flight_bound,
            rows: None,
            diverged: None,
            measures,
        }
    }
}

impl Measure {
    pub fn of(histogram: &Histogram) -> Measure {
        Measure {
            mean_ns: histogram.mean_ns(),
            p50_ns: histogram.percentile_ns(50.0),
            p99_ns: histogram.percentile_ns(99.0),
            max_ns: histogram.max_ns(),
            histogram: TextHistogram::from(histogram).to_text(),
        }
    }

    /// Counts of several as one.
    pub fn merged(all: &[&Measure]) -> Result<Measure, TextError> {
        if let [only] = all {
            return Ok((*only).clone());
        }
        let mut merged = TextHistogram::default();
        let (mut sum_ns, mut count) = (0.0, 0);
        for measure in all.iter().filter(|m| !m.histogram.is_empty()) {
            let own = TextHistogram::parse(&measure.histogram)?;
            // The means are exact, the buckets are not.
            sum_ns += measure.mean_ns * own.count() as f64;
            count += own.count();
            merged.add(&own)?;
        }
        let max_ns = all.iter().map(|m| m.max_ns).max().unwrap_or(0);
        Ok(Measure {
            mean_ns: if count == 0 { 0.0 } else { sum_ns / count as f64 },
            p50_ns: merged.percentile_ns(50.0).min(max_ns),
            p99_ns: merged.percentile_ns(99.0).min(max_ns),
            max_ns,
            histogram: merged.to_text(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_measures_keep_their_exact_mean_and_stay_within_their_maximum() {
        let mut histogram = Histogram::default();
        histogram.record(5_000_000, 1_000);
        let one = Measure::of(&histogram);
        let both = Measure::merged(&[&one, &one]).expect("histograms that can be read");
        assert_eq!(
            (both.mean_ns, both.p50_ns, both.p99_ns, both.max_ns),
            (5_000_000.0, 5_000_000, 5_000_000, 5_000_000)
        );
    }
}
