//! What a ramp with a limit found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A whole step of a ramp, compared with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RampStep {
    pub phase: usize,
    pub knob: plan::Knob,
    pub value: f64,
    /// What was judged of the step; the time that it was given to settle lies before.
    pub start_ns: u64,
    pub end_ns: u64,
    /// In ns, requests/s, bytes/s, or frames.
    pub figure: f64,
    pub within: bool,
    /// The storage did not keep up with the rate that was offered.
    pub overloaded: bool,
    pub rate_per_s: f64,
    pub bytes_per_s: f64,
}

/// What a ramp with a limit came to: the last value on the right side of the limit, none where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RampEnd {
    pub phase: usize,
    pub knob: plan::Knob,
    pub found: Option<RampStep>,
    /// The nearest value that was tried on the other side.
    pub beyond: Option<f64>,
}
