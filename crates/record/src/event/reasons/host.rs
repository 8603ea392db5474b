//! Why a host was lost, or how its load ended.

use std::fmt::{Display, Formatter, Result};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ending::EndReason;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HostReason {
    #[schemars(title = "HostDied")]
    Died,
    /// Its worker is gone. `after` is what was known of it before.
    #[schemars(title = "HostWorkerEnded")]
    WorkerEnded { exit_code: Option<i64>, after: Option<Box<HostReason>> },
    #[schemars(title = "HostSilent")]
    Silent { silent_ns: u64 },
    /// It heard nothing of the host that starts the others.
    #[schemars(title = "HostAbandoned")]
    Abandoned { silent_ns: u64 },
    #[schemars(title = "HostClockUnknown")]
    ClockUnknown,
    #[schemars(title = "HostNeverBegan")]
    NeverBegan,
    /// Of a driver of a replay. `said` is what it wrote last.
    #[schemars(title = "HostDriverEnded")]
    DriverEnded { exit_code: i64, said: String },
    /// The record that the host kept has no end.
    #[schemars(title = "HostRecordOpen")]
    RecordOpen,
    #[schemars(title = "HostRecordMissing")]
    RecordMissing,
    /// Its record ends where the run did.
    #[schemars(title = "HostRecordCut")]
    RecordCut,
    /// As the end of its own load says.
    #[schemars(title = "HostEnded")]
    Ended { reason: EndReason },
    /// Several drivers on one host.
    #[schemars(title = "HostReasons")]
    Several { reasons: Vec<HostReason> },
    /// In the words of its worker; or as it was written before version 3.
    #[schemars(title = "HostAsWritten")]
    Other { text: String },
}

/// A host, and what there is to say of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostNamed {
    pub host: String,
    pub reason: Option<HostReason>,
}

impl Display for HostNamed {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}: ", self.host)?;
        self.reason.as_ref().map_or(Ok(()), |reason| reason.fmt(f))
    }
}

impl Display for HostReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        use HostReason::*;
        let words = match self {
            Died => "its Ray node or our process on it has died",
            WorkerEnded { exit_code, after } => {
                f.write_str("its worker ended unexpectedly")?;
                exit_code.map_or(Ok(()), |code| write!(f, " (exit code {code})"))?;
                return after.as_ref().map_or(Ok(()), |after| write!(f, ": {after}"));
            }
            Silent { silent_ns } => return write!(f, "it has not been heard for {}", seconds(*silent_ns)),
            Abandoned { silent_ns } => {
                return write!(f, "stopped by itself after {} without a word from here", seconds(*silent_ns));
            }
            ClockUnknown => "did not answer when clocks were compared",
            NeverBegan => "never began",
            DriverEnded { exit_code, said } => {
                write!(f, "exit code {exit_code}")?;
                return if said.is_empty() { Ok(()) } else { write!(f, ": {said}") };
            }
            RecordOpen => "its record has no end",
            RecordMissing => "no record of it was found",
            RecordCut => "its record ends where the run did",
            Ended { reason } => return reason.fmt(f),
            Several { reasons } => return f.write_str(&super::joined(reasons, "; ")),
            Other { text } => text,
        };
        f.write_str(words)
    }
}

fn seconds(ns: u64) -> String {
    match ns % 1_000_000_000 {
        0 => format!("{} s", ns / 1_000_000_000),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}
