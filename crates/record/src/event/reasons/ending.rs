//! Why a run ended as it did.

use std::fmt::{Display, Formatter, Result};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::host::{HostNamed, HostReason};
use super::joined;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EndReason {
    /// At the first failed request, as the profile asks.
    #[schemars(title = "StoppedAtError")]
    StoppedAtError,
    /// Every request of these streams failed.
    #[schemars(title = "NothingMeasured")]
    NothingMeasured { streams: Vec<FailedStream> },
    #[schemars(title = "NotFilled")]
    NotFilled { target: String, error: String },
    #[schemars(title = "CacheNotDropped")]
    CacheNotDropped { target: String, error: String },
    #[schemars(title = "NoThread")]
    NoThread { error: String },
    /// A panic of ours.
    #[schemars(title = "CoreStopped")]
    CoreStopped,
    #[schemars(title = "CoreSilent")]
    CoreSilent,
    #[schemars(title = "DriverStopped")]
    DriverStopped,
    /// A driver of a replay ended without a word; counted from 1.
    #[schemars(title = "DriverLost")]
    DriverLost { driver: u64, drivers: u64, host: String, reason: Box<HostReason> },
    /// `error` is the last that a database said.
    #[schemars(title = "NoDatabase")]
    NoDatabase { patience_ns: u64, error: String },
    #[schemars(title = "StoreFailed")]
    StoreFailed { error: String },
    /// A start that was too loose, and refused for it.
    #[schemars(title = "StartRefused")]
    StartRefused { late: StartLate },
    #[schemars(title = "HostsMissing")]
    HostsMissing { ended: u64, hosts: u64, missing: Vec<HostNamed> },
    /// Hosts that failed or stopped by themselves.
    #[schemars(title = "HostsFailed")]
    HostsFailed { hosts: Vec<HostNamed> },
    /// Put together out of what hosts had kept.
    #[schemars(title = "RunCollected")]
    Collected { found: FleetEnd },
    /// What also went wrong at the end.
    #[schemars(title = "EndReasons")]
    Several { reasons: Vec<EndReason> },
    /// In the words of who refused; or as it was written before version 3.
    #[schemars(title = "EndAsWritten")]
    Other { text: String },
}

/// A stream of which every request failed; `error` is the most frequent of theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedStream {
    pub phase: String,
    pub stream: String,
    pub requests: u64,
    pub error: Option<String>,
}

/// How far apart hosts began, or may have begun where no `host` is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartLate {
    pub host: Option<String>,
    pub late_ns: u64,
    pub allowed_ns: u64,
}

/// What was found of a run on many hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetEnd {
    pub found: u64,
    pub hosts: u64,
    pub without_end: Vec<String>,
    /// Hosts whose records end where the run did.
    pub cut: Vec<String>,
    pub stopped: Vec<String>,
}

impl EndReason {
    /// In words that are somebody else's; none where there are none.
    pub fn other(text: impl Into<String>) -> Option<EndReason> {
        Some(text.into()).filter(|text| !text.is_empty()).map(|text| EndReason::Other { text })
    }

    /// All of them as one; none where there is none.
    pub fn of_all(mut reasons: Vec<EndReason>) -> Option<EndReason> {
        match reasons.len() {
            0 | 1 => reasons.pop(),
            _ => Some(EndReason::Several { reasons }),
        }
    }
}

impl Display for StartLate {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (late_ms, allowed_ms) = (self.late_ns as f64 / 1e6, self.allowed_ns as f64 / 1e6);
        match &self.host {
            Some(host) => write!(f, "{host}: began {late_ms:.2} ms after the common start, {allowed_ms} ms allowed"),
            None => write!(f, "the start may be apart by {late_ms:.2} ms, {allowed_ms} ms allowed"),
        }
    }
}

impl Display for FailedStream {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&self.phase)?;
        if self.stream != self.phase {
            write!(f, ", {}", self.stream)?;
        }
        write!(f, " ({} requests", self.requests)?;
        if let Some(error) = &self.error {
            write!(f, ", {error}")?;
        }
        f.write_str(")")
    }
}

impl Display for FleetEnd {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "collected from {} of {} hosts", self.found, self.hosts)?;
        if !self.without_end.is_empty() {
            write!(f, "; no end of {}", self.without_end.join(", "))?;
        }
        if !self.cut.is_empty() {
            write!(f, "; the run died, and is here up to the last interval that {} have", self.cut.join(" and "))?;
        }
        if !self.stopped.is_empty() {
            write!(f, "; stopped early: {}", self.stopped.join(", "))?;
        }
        Ok(())
    }
}

impl Display for EndReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        use EndReason::*;
        let words = match self {
            StoppedAtError => "stopped at the first failed request, as asked",
            NothingMeasured { streams } => {
                return write!(f, "nothing was measured: every request failed in {}", joined(streams, ", "));
            }
            NotFilled { target, error } => return write!(f, "filling {target}: {error}"),
            CacheNotDropped { target, error } => {
                return write!(f, "{target}: its page cache could not be dropped ({error}); use cache = \"as_is\"");
            }
            NoThread { error } => return write!(f, "no thread could be started: {error}"),
            CoreStopped => "the core stopped unexpectedly; please report this",
            CoreSilent => "the core ended without a word",
            DriverStopped => "the driver stopped unexpectedly; please report this",
            DriverLost { driver, drivers, host, reason } => {
                let place = if host.is_empty() { String::new() } else { format!(" on {host}") };
                return write!(f, "driver {driver} of {drivers}{place} ended unexpectedly ({reason})");
            }
            NoDatabase { patience_ns, error } => {
                let seconds = *patience_ns as f64 / 1e9;
                return write!(
                    f,
                    "no database could be reached for {seconds} s ({error}); what was measured before is kept"
                );
            }
            StoreFailed { error } => return write!(f, "the store: {error}"),
            StartRefused { late } => {
                return write!(f, "{late}; raise --clock-tolerance, or use --late-start mark");
            }
            HostsMissing { ended, hosts, missing } => {
                return write!(f, "{ended} of {hosts} hosts to the end; {}", joined(missing, "; "));
            }
            HostsFailed { hosts } => return f.write_str(&joined(hosts, "; ")),
            Collected { found } => return found.fmt(f),
            Several { reasons } => return f.write_str(&joined(reasons, "; ")),
            Other { text } => text,
        };
        f.write_str(words)
    }
}

#[cfg(test)]
mod tests {
    use super::FailedStream;

    #[test]
    fn a_stream_with_the_name_of_its_phase_is_named_once() {
        let named = |phase: &str, stream: &str| {
            let (phase, stream) = (phase.to_owned(), stream.to_owned());
            FailedStream { phase, stream, requests: 3, error: Some("No space left".to_owned()) }.to_string()
        };
        assert_eq!(named("ad-hoc", "ad-hoc"), "ad-hoc (3 requests, No space left)");
        assert_eq!(named("reads", "all"), "reads, all (3 requests, No space left)");
    }
}
