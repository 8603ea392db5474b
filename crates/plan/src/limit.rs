//! Limits that a ramp is held against.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::profile::Figure;
use crate::units::{Duration, parse_bytes_per_s, parse_duration_ns};
use crate::{Edit, Mistake};

/// A limit on a whole step of a ramp: a time that must not exceed `above`, or a rate that must reach `below`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// `mean`, `p50`, `p90`, `p95`, `p99`, `p99.9`, `max`; `iops`, `throughput`; `dropped` frames.
    pub when: LimitFigure,
    /// Whether times are response or service times.
    #[serde(default)]
    pub of: TimeKind,
    /// The operation to which the limit applies; all unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<crate::profile::Moves>,
    /// A time such as `"20ms"`, or a number of dropped frames.
    #[serde(default)]
    pub above: Option<Threshold>,
    /// Requests/s, or a throughput such as `"200MiB"` per second.
    #[serde(default)]
    pub below: Option<Threshold>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LimitFigure {
    #[serde(rename = "mean")]
    Mean,
    #[serde(rename = "p50")]
    P50,
    #[serde(rename = "p90")]
    P90,
    #[serde(rename = "p95")]
    P95,
    #[serde(rename = "p99")]
    P99,
    #[serde(rename = "p99.9")]
    P999,
    #[serde(rename = "max")]
    Max,
    #[serde(rename = "iops")]
    Iops,
    #[serde(rename = "throughput")]
    Throughput,
    #[serde(rename = "dropped")]
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeKind {
    #[default]
    Response,
    Service,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a time such as \"20ms\", a throughput such as \"200MiB\", or a number is needed")]
pub enum Threshold {
    Number(f64),
    Text(String),
}

impl Limit {
    /// The figure of times that is limited; none where it is a rate or a count.
    pub fn time(&self) -> Option<Figure> {
        Some(match self.when {
            LimitFigure::Mean => Figure::Mean,
            LimitFigure::P50 => Figure::P50,
            LimitFigure::P90 => Figure::P90,
            LimitFigure::P95 => Figure::P95,
            LimitFigure::P99 => Figure::P99,
            LimitFigure::P999 => Figure::P999,
            LimitFigure::Max => Figure::Max,
            LimitFigure::Iops | LimitFigure::Throughput | LimitFigure::Dropped => return None,
        })
    }

    /// Whether the figure must reach the threshold, rather than stay within it.
    pub fn is_rate(&self) -> bool {
        matches!(self.when, LimitFigure::Iops | LimitFigure::Throughput)
    }

    /// In ns, requests a second, bytes a second, or frames.
    pub fn threshold(&self) -> f64 {
        self.parsed().unwrap_or(f64::NAN)
    }

    fn parsed(&self) -> Result<f64, String> {
        let (given, other, key) =
            if self.is_rate() { (&self.below, &self.above, "below") } else { (&self.above, &self.below, "above") };
        let Some(given) = given else { return Err(format!("needs {key}")) };
        if other.is_some() {
            return Err(format!("takes {key} alone"));
        }
        match (given, self.when) {
            (Threshold::Number(value), LimitFigure::Iops | LimitFigure::Dropped) => Ok(*value),
            (Threshold::Number(value), LimitFigure::Throughput) => {
                Err(format!("{value} of what? write \"{value}MiB\" (per second)"))
            }
            (Threshold::Number(value), _) => limit_ns(&value.to_string()).map(|ns| ns as f64).map_err(|e| e.message),
            (Threshold::Text(text), LimitFigure::Throughput) => parse_bytes_per_s(text),
            (Threshold::Text(text), LimitFigure::Iops | LimitFigure::Dropped) => {
                text.parse().map_err(|_| format!("{text} is not a number"))
            }
            (Threshold::Text(text), _) => limit_ns(text).map(|ns| ns as f64).map_err(|e| e.message),
        }
    }

    pub(crate) fn validate(&self, at: &str) -> Result<(), Mistake> {
        match self.parsed() {
            Err(reason) => Err(Mistake::from(format!("{at}: ramp.limit: {reason}"))),
            Ok(value) if value.is_finite() && (value > 0.0 || self.when == LimitFigure::Dropped && value == 0.0) => {
                Ok(())
            }
            Ok(value) => Err(Mistake::from(format!("{at}: ramp.limit: {value} must be above 0"))),
        }
    }
}

/// A limit on a response time, in ns. Elsewhere a bare number is in seconds; of response times nearly nobody means that.
pub fn limit_ns(text: &str) -> Result<u64, Mistake> {
    let text = text.trim();
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.') {
        let message = format!("{text} of what? write {text}ms, {text}us or {text}s");
        return Err(Mistake::new(message, Some(Edit::instead(text, &format!("{text}ms")))));
    }
    Ok(parse_duration_ns(text)?)
}

/// Reads a limit on a response time, which needs a unit.
pub(crate) fn read_limit<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    let text = match Threshold::deserialize(d)? {
        Threshold::Number(value) => value.to_string(),
        Threshold::Text(text) => text,
    };
    limit_ns(&text).map(|ns| Duration { ns }).map_err(serde::de::Error::custom)
}
