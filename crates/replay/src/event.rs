//! Duty: what a driver tells, in the form in which every run tells it, and several drivers' intervals as one.
//! Refusal: it measures nothing.

use std::collections::BTreeMap;

use record::{Histogram, TextHistogram};
use serde::{Deserialize, Serialize};

use crate::counts::Document;
use crate::tally::{Cell, Closed};

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Interval(Box<Interval>),
    Error(Box<ErrorEvent>),
    PhaseEnd(Box<PhaseEnd>),
    End { end_ns: u64, outcome: &'static str, message: String },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Interval {
    pub phase: usize,
    pub index: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub warmup: bool,
    pub drain: bool,
    pub cells: Vec<CellEvent>,
    pub cpu: Cpu,
    pub loop_busy_share: f64,
    pub knob: Option<serde_json::Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CellEvent {
    pub stream: usize,
    pub operation: String,
    pub requests: u64,
    pub bytes: u64,
    pub errors: u64,
    pub depth_max: u32,
    pub rows: u64,
    pub diverged: u64,
    pub measures: BTreeMap<String, Measure>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measure {
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub histogram: String,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Cpu {
    pub user_ns: u64,
    pub system_ns: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct ErrorEvent {
    pub at_ns: u64,
    pub phase: usize,
    pub stream: usize,
    pub operation: &'static str,
    pub offset_bytes: u64,
    pub request_bytes: u32,
    pub kind: &'static str,
    pub errno: Option<i32>,
    pub text: String,
}

/// How a driver's part ended, and what its record needs to be believed.
#[derive(Debug, Clone, Serialize)]
pub struct PhaseEnd {
    pub phase: usize,
    pub end_ns: u64,
    pub reason: &'static str,
    pub unsent: u64,
    pub outstanding: u64,
    pub errors_by_errno: BTreeMap<String, u64>,
    pub errors_by_kind: BTreeMap<String, u64>,
    pub slowest: Vec<serde_json::Value>,
    pub verified: Option<serde_json::Value>,
    pub cpu: Cpu,
    pub generator_bound: bool,
    pub generator_bound_reason: &'static str,
    pub loops: usize,
    pub features: Vec<String>,
    pub loop_busy_share: f64,
    pub replay: ReplayEnd,
}

#[derive(Debug, Clone, Serialize)]
pub struct ReplayEnd {
    pub driver: u32,
    pub calls: u64,
    pub errors: u64,
    pub rows: u64,
    pub bytes: u64,
    pub diverged: u64,
    pub lost_connections: Vec<u64>,
    pub reconnects: Vec<u64>,
    /// For how long each database had no connection while calls were issued.
    pub away_ns: Vec<u64>,
    /// For how long each could be reached and had calls to answer: what its rate counts over.
    pub served_ns: Vec<u64>,
    /// For how long at least one of them did.
    pub any_served_ns: u64,
    /// Calls of each database that were due and not sent.
    pub unsent_by_brick: Vec<u64>,
    /// What the driver itself added between the instant at which a call could go and the one at which it went.
    pub driver_lag: Option<Measure>,
    /// Calls that were due and waited for a session: the server's queue, not the driver's.
    pub queued: u64,
    pub keeps_pace: bool,
    /// Share of the time in which sessions waited for the log to be read.
    pub starved_share: f64,
    pub cpu_busy_share: f64,
    pub slowest_calls: Vec<SlowCall>,
    pub diverged_pages: BTreeMap<String, u64>,
    pub logs: Option<Box<Document>>,
}

#[derive(Debug, Clone, Serialize)]
pub struct SlowCall {
    pub at_ns: u64,
    pub stream: usize,
    pub service_ns: u64,
    pub response_ns: u64,
    pub values: String,
}

impl Event {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an event holds nothing that JSON cannot carry")
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

    fn merged(all: &[&Measure]) -> Result<Measure, String> {
        if let [only] = all {
            return Ok((*only).clone());
        }
        let texts = all.iter().map(|m| m.histogram.as_str()).filter(|t| !t.is_empty());
        let merged = TextHistogram::merge(texts).map_err(|e| e.to_string())?;
        Ok(Measure {
            mean_ns: merged.mean_ns(),
            p50_ns: merged.percentile_ns(50.0),
            p99_ns: merged.percentile_ns(99.0),
            max_ns: all.iter().map(|m| m.max_ns).max().unwrap_or(0),
            histogram: merged.to_text(),
        })
    }
}

impl CellEvent {
    fn new(stream: usize, cell: &Cell) -> CellEvent {
        let mut measures = BTreeMap::new();
        let timed = [
            ("service", Some(&cell.service)),
            ("response", Some(&cell.response)),
            ("first_byte", Some(&cell.first_byte)),
            ("lateness", cell.lateness.as_ref()),
            ("driver_lag", cell.driver_lag.as_ref()),
        ];
        for (name, histogram) in timed {
            if let Some(histogram) = histogram.filter(|h| !h.is_empty()) {
                measures.insert(name.to_string(), Measure::of(histogram));
            }
        }
        CellEvent {
            stream,
            operation: "call".into(),
            requests: cell.requests,
            bytes: cell.bytes,
            errors: cell.errors,
            depth_max: cell.depth_max,
            rows: cell.rows,
            diverged: cell.diverged,
            measures,
        }
    }
}

impl Interval {
    pub fn new(closed: &Closed) -> Interval {
        let length_ns = (closed.end_ns - closed.start_ns).max(1);
        Interval {
            phase: 0,
            index: closed.index,
            start_ns: closed.start_ns,
            end_ns: closed.end_ns,
            warmup: false,
            drain: closed.drain,
            cells: closed
                .cells
                .iter()
                .enumerate()
                .filter_map(|(stream, cell)| cell.as_ref().map(|c| CellEvent::new(stream, c)))
                .collect(),
            cpu: Cpu { user_ns: closed.cpu.user_ns, system_ns: closed.cpu.system_ns },
            loop_busy_share: (closed.thread_cpu.user_ns as f64 / length_ns as f64).min(1.0),
            knob: None,
        }
    }

    /// The same interval of several drivers as one: counts add up, histograms merge.
    pub fn merged(all: Vec<Interval>) -> Result<Interval, String> {
        let mut whole = all.first().cloned().ok_or("no interval to merge")?;
        if all.len() == 1 {
            return Ok(whole);
        }
        whole.start_ns = all.iter().map(|i| i.start_ns).min().unwrap_or(0);
        whole.end_ns = all.iter().map(|i| i.end_ns).max().unwrap_or(0);
        whole.drain = all.iter().all(|i| i.drain);
        whole.loop_busy_share = all.iter().map(|i| i.loop_busy_share).fold(0.0, f64::max);
        whole.cpu = Cpu {
            user_ns: all.iter().map(|i| i.cpu.user_ns).sum(),
            system_ns: all.iter().map(|i| i.cpu.system_ns).sum(),
        };
        let mut cells: BTreeMap<usize, Vec<&CellEvent>> = BTreeMap::new();
        all.iter().flat_map(|i| &i.cells).for_each(|c| cells.entry(c.stream).or_default().push(c));
        whole.cells = cells.into_values().map(|c| CellEvent::merged(&c)).collect::<Result<_, String>>()?;
        Ok(whole)
    }
}

impl CellEvent {
    fn merged(all: &[&CellEvent]) -> Result<CellEvent, String> {
        let mut whole = CellEvent { stream: all[0].stream, operation: "call".into(), ..CellEvent::default() };
        let mut measures: BTreeMap<&str, Vec<&Measure>> = BTreeMap::new();
        for cell in all {
            whole.requests += cell.requests;
            whole.bytes += cell.bytes;
            whole.errors += cell.errors;
            whole.rows += cell.rows;
            whole.diverged += cell.diverged;
            whole.depth_max += cell.depth_max;
            cell.measures.iter().for_each(|(name, m)| measures.entry(name).or_default().push(m));
        }
        for (name, found) in measures {
            whole.measures.insert(name.to_string(), Measure::merged(&found)?);
        }
        Ok(whole)
    }
}

/// Intervals as JSON in, one interval as JSON out.
pub fn merge_json(texts: &[String]) -> Result<String, String> {
    let read = |text: &String| serde_json::from_str(text).map_err(|e| format!("an interval: {e}"));
    let all = texts.iter().map(read).collect::<Result<Vec<Interval>, String>>()?;
    let merged = Event::Interval(Box::new(Interval::merged(all)?));
    Ok(merged.to_json())
}
