//! A stream that issues the requests of a trace again.

use crate::Mistake;
use crate::units::Bytes;
use crate::validate::MAX_REQUEST_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The requests of a trace file, and figures of the file, which the maker of the plan has read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Path of the trace (`.byt`).
    pub file: String,
    #[serde(default)]
    pub timing: TraceTiming,
    /// Speed relative to the trace; not used for `fire_hose`.
    #[serde(default = "one")]
    pub speed: f64,
    #[serde(default)]
    pub fit: TraceFit,
    /// Only requests of this device, counted from 0; all of them unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// Number of requests of the file that are issued.
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub discards: u64,
    /// The largest read or write.
    pub largest: Bytes,
    /// The end of the requests that reach farthest.
    pub reach: Bytes,
    /// By how much arrivals are out of order in the file.
    #[serde(default)]
    pub disorder_ns: u64,
}

/// When a request of a trace is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceTiming {
    /// At its instant in the trace, whatever the storage does.
    #[default]
    Timed,
    /// When all requests have ended that had ended in the trace before it arrived, plus the time between in the trace.
    Dependent,
    /// As soon as fewer than `depth` requests are in flight.
    FireHose,
}

/// How offsets of a trace are placed on a target of another size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceFit {
    /// As they are; a smaller target is refused.
    #[default]
    Exact,
    /// Modulo the target's size.
    Wrap,
    /// Parts of 16 MiB keep their content and are spread over the whole target, or moved together.
    Scale,
}

impl Trace {
    /// Whether requests are due at instants that the storage does not change.
    pub fn is_open(&self) -> bool {
        self.timing == TraceTiming::Timed
    }

    pub(crate) fn validate(&self, at: &str) -> Result<(), Mistake> {
        let refuse = |message: String| Err(Mistake::from(format!("{at}: trace.{message}")));
        if self.file.is_empty() {
            return refuse("file names no file".into());
        }
        // A day in less than a tenth of a second, or a second in eleven days.
        if !(1e-6..=1e6).contains(&self.speed) {
            return refuse(format!("speed is {}, must be between 0.000001 and 1,000,000", self.speed));
        }
        if self
            .reads
            .checked_add(self.writes)
            .and_then(|n| n.checked_add(self.flushes))
            .is_none_or(|n| n.checked_add(self.discards).is_none_or(|n| n == 0))
        {
            return refuse("reads, writes, flushes and discards: there are none".into());
        }
        if self.largest.0 > MAX_REQUEST_BYTES {
            return refuse(format!("largest is {}, at most {MAX_REQUEST_BYTES}", self.largest.0));
        }
        Ok(())
    }
}

fn one() -> f64 {
    1.0
}
