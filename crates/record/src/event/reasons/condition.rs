//! Why an array was not in the condition that a run was to be measured in.

use std::fmt::{Display, Formatter, Result};

use plan::format_seconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::words::SampledState;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ConditionReason {
    #[schemars(title = "ArrayNeverLookedAt")]
    NeverLookedAt,
    /// From the first sample on, or, with `after_ns`, so long after it.
    #[schemars(title = "ArrayInOtherState")]
    OtherState { state: SampledState, wanted: SampledState, after_ns: Option<u64> },
    /// The work waited for other work from the beginning on.
    #[schemars(title = "WorkDelayedAtBegin")]
    DelayedAtBegin { work: BackgroundWork },
    /// It began after the run.
    #[schemars(title = "WorkNotYetBegun")]
    NotYetBegun { work: BackgroundWork, state: SampledState },
    /// It never began.
    #[schemars(title = "WorkNotUnderWay")]
    NotUnderWay { work: BackgroundWork, state: SampledState },
    #[schemars(title = "WorkDelayed")]
    Delayed { work: BackgroundWork },
    /// `before_ns` before the run did.
    #[schemars(title = "WorkEnded")]
    Ended { work: BackgroundWork, before_ns: u64 },
    /// The array is degraded again.
    #[schemars(title = "WorkBrokeOff")]
    BrokeOff { work: BackgroundWork, before_ns: u64 },
    #[schemars(title = "ArrayTurned")]
    Turned { state: SampledState, after_ns: u64 },
    /// Nothing moved from the first sample to the last.
    #[schemars(title = "WorkStoodStill")]
    StoodStill { work: BackgroundWork, at_share: f64 },
    /// As it was written before version 3.
    #[schemars(title = "ConditionAsWritten")]
    Written { text: String },
}

/// What an array does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackgroundWork {
    Rebuild,
    Scrub,
    Initialization,
}

impl Display for BackgroundWork {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            BackgroundWork::Rebuild => "the rebuild",
            BackgroundWork::Scrub => "the scrub",
            BackgroundWork::Initialization => "the initialization",
        })
    }
}

impl Display for ConditionReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        use ConditionReason::*;
        match self {
            NeverLookedAt => f.write_str("the array was never looked at while the run went on"),
            OtherState { state, wanted, after_ns } => {
                write!(f, "the array was {}, not {}", plain(*state), plain(*wanted))?;
                after_ns.map_or(Ok(()), |ns| write!(f, " {} after the run's begin", seconds(ns)))
            }
            DelayedAtBegin { work } => write!(f, "{work} had not begun: it was delayed by work on the same disks"),
            NotYetBegun { work, state } => write!(f, "{work} had not yet begun: the array was {}", plain(*state)),
            NotUnderWay { work, state } => write!(f, "{work} was not under way: the array was {}", plain(*state)),
            Delayed { work } => write!(f, "{work} was delayed by work on the same disks"),
            Ended { work, before_ns } => write!(f, "{work} ended {} before the run did", seconds(*before_ns)),
            BrokeOff { work, before_ns } => write!(f, "{work} broke off {} before the run did", seconds(*before_ns)),
            Turned { state, after_ns } => {
                write!(f, "the array turned {} {} after the run's begin", plain(*state), seconds(*after_ns))
            }
            StoodStill { work, at_share } => write!(f, "{work} stood still at {:.1} %", at_share * 100.0),
            Written { text } => f.write_str(text),
        }
    }
}

fn plain(state: SampledState) -> String {
    state.name().replace('_', " ")
}

fn seconds(ns: u64) -> String {
    format_seconds(ns as f64 / 1e9)
}
