//! Duty: what a driver is told to do, as JSON. Refusal: nothing is opened; what cannot be is said in one line.

use std::collections::BTreeMap;

use pace::Speed;
use plan::Arrivals;
use serde::Deserialize;

use crate::feed::{FeedOptions, SessionKey};
use crate::format::{FieldNames, Format, parse_field};
use crate::look::Look;
use crate::time;

/// Everything that a driver needs. Passwords are in `to`, so it is never shown and never kept.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub mapping: String,
    pub logs: Vec<String>,
    #[serde(default = "auto")]
    pub format: String,
    /// `time=ts`
    #[serde(default)]
    pub fields: Vec<String>,
    #[serde(default)]
    pub session: SessionKey,
    /// A session's calls never overtake each other.
    #[serde(default)]
    pub in_order: bool,
    #[serde(default = "ten")]
    pub window_s: u32,
    #[serde(default)]
    pub seed: u64,
    #[serde(default)]
    pub from: Option<String>,
    #[serde(default)]
    pub until: Option<String>,
    /// Number of this driver, and how many there are.
    #[serde(default)]
    pub driver: u32,
    #[serde(default = "one")]
    pub drivers: u32,
    /// All drivers read the same logs, and each takes its share of the sessions.
    #[serde(default)]
    pub share: bool,
    #[serde(default)]
    pub to: Vec<String>,
    #[serde(default)]
    pub pace: PaceSpec,
    /// Sessions of this driver with all its databases, and so calls in flight at the most.
    #[serde(default = "twenty")]
    pub sessions: u32,
    /// Whether calls are sorted before the first is sent.
    #[serde(default)]
    pub sort: Sort,
    /// By log, pieces of stamps that a first look left out.
    #[serde(default)]
    pub left_out: BTreeMap<String, Vec<(i64, i64)>>,
    #[serde(default)]
    pub keep_outliers: bool,
    /// The logs have been read already, for a replay of the same logs at another pace.
    #[serde(default)]
    pub is_looked_at: bool,
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// Begins with the logs again when they are at their end.
    #[serde(default)]
    pub again: bool,
    /// How long all databases may be unreachable before the run fails.
    #[serde(default = "thirty_seconds")]
    pub patience_ns: u64,
    #[serde(default = "second")]
    pub interval_ns: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PaceSpec {
    #[default]
    FireHose,
    TimeSynchronized {
        speed: String,
        #[serde(default)]
        origin_ns: Option<i64>,
    },
    Fixed {
        rate_per_s: f64,
    },
    Poisson {
        rate_per_s: f64,
    },
}

/// When calls are sorted as a whole: where a first look finds lines further out of order than the window, or always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    #[default]
    Auto,
    Always,
    Never,
}

impl Sort {
    pub fn after(self, look: &Look) -> bool {
        self == Sort::Always || (self == Sort::Auto && look.beyond_window > 0)
    }
}

/// A pace that has been read.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    FireHose,
    TimeSynchronized { speed: Speed, origin_ns: Option<i64> },
    Rate { rate_per_s: f64, arrivals: Arrivals },
}

fn auto() -> String {
    "auto".into()
}

fn ten() -> u32 {
    10
}

fn one() -> u32 {
    1
}

/// The study's program had at most 20 calls in flight.
fn twenty() -> u32 {
    20
}

fn thirty_seconds() -> u64 {
    30_000_000_000
}

fn second() -> u64 {
    1_000_000_000
}

/// A driver is one thread; with more sessions its turns would be what is measured.
const SESSIONS_MAX: u32 = 10_000;
const WINDOW_MAX_S: u32 = 3_600;

impl Spec {
    pub fn from_json(text: &str) -> Result<Spec, String> {
        // What serde quotes could be a piece of a password.
        serde_json::from_str(text).map_err(|e| format!("replay: line {} column {} of its orders", e.line(), e.column()))
    }

    pub fn feed_options(&self) -> Result<FeedOptions, String> {
        if self.window_s > WINDOW_MAX_S {
            return Err(format!("a window of {} s; at most {WINDOW_MAX_S} s are held", self.window_s));
        }
        let instant = |text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => time::any(text.trim().as_bytes())
                .map(|s| Some(s.at_ns))
                .ok_or_else(|| format!("`{text}` is no time; write 2003-06-02T10:00:00Z")),
        };
        Ok(FeedOptions {
            logs: self.logs.clone(),
            format: Format::parse(&self.format)?,
            fields: self.fields.iter().map(|f| parse_field(f)).collect::<Result<FieldNames, String>>()?,
            session: self.session.clone(),
            window_s: self.window_s,
            seed: self.seed,
            share: (self.share && self.drivers > 1).then_some((self.driver, self.drivers)),
            from_ns: instant(&self.from)?,
            until_ns: instant(&self.until)?,
            sort: self.sort == Sort::Always,
            left_out: self.left_out.clone(),
            keep_outliers: self.keep_outliers,
        })
    }

    /// Each database has its equal share of the sessions, so that one that hangs takes none of the others'. What is
    /// left over goes round by driver.
    pub fn sessions_of(&self, brick: usize) -> usize {
        let (sessions, bricks) = (self.sessions as usize, self.to.len().max(1));
        let place = (brick + self.driver as usize) % bricks;
        sessions / bricks + usize::from(place < sessions % bricks)
    }

    pub fn pace(&self) -> Result<Pace, String> {
        let rate = |rate_per_s: f64, arrivals| match rate_per_s {
            r if r.is_finite() && (1e-6..=1e7).contains(&r) => Ok(Pace::Rate { rate_per_s: r, arrivals }),
            r => Err(format!("a rate of {r}/s; give one above 0")),
        };
        match &self.pace {
            PaceSpec::FireHose => Ok(Pace::FireHose),
            PaceSpec::TimeSynchronized { speed, origin_ns } => {
                Ok(Pace::TimeSynchronized { speed: Speed::parse(speed)?, origin_ns: *origin_ns })
            }
            PaceSpec::Fixed { rate_per_s } => rate(*rate_per_s, Arrivals::Constant),
            PaceSpec::Poisson { rate_per_s } => rate(*rate_per_s, Arrivals::Poisson),
        }
    }

    pub fn check(&self) -> Result<(), String> {
        if !(1..=SESSIONS_MAX).contains(&self.sessions) {
            return Err(format!("{} sessions; between 1 and {SESSIONS_MAX} a driver", self.sessions));
        }
        if (self.sessions as usize) < self.to.len() {
            let (sessions, bricks) = (self.sessions, self.to.len());
            return Err(format!("--sessions {sessions}: each of {bricks} databases needs one; give at least {bricks}"));
        }
        if self.drivers == 0 || self.driver >= self.drivers {
            return Err("at least one driver".into());
        }
        if self.again && matches!(self.pace, PaceSpec::TimeSynchronized { .. }) {
            return Err("a log has its times once; --again goes with fire-hose and rates".into());
        }
        if self.again && self.duration_ns.is_none() {
            return Err("--again goes on for ever; say for how long with --duration".into());
        }
        if self.again && self.logs.iter().any(|l| l == crate::lines::STDIN) {
            return Err("standard input can be read once only; --again needs files".into());
        }
        Ok(())
    }
}
