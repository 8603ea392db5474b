//! Duty: what a driver reports, in the events of every run, and several drivers' intervals as one.
//! Refusal: it measures nothing.

use std::collections::BTreeMap;

pub use record::event::{
    Bound, CellEvent, Counted, Cpu, EndReason, ErrorEvent, ErrorKind, Event, Interval, Measure, PhaseEnd, PhaseReason,
    ReplayDriver, ReplayEnd, RunOutcome, SlowCall, Timed,
};

use crate::tally::{Cell, Closed};

fn cell_event(stream: usize, cell: &Cell) -> CellEvent {
    let timed = [
        (Timed::Service, Some(&cell.service)),
        (Timed::Response, Some(&cell.response)),
        (Timed::FirstByte, Some(&cell.first_byte)),
        (Timed::Lateness, cell.lateness.as_ref()),
        (Timed::DriverLag, cell.driver_lag.as_ref()),
    ];
    let found = timed.into_iter().filter_map(|(name, h)| Some((name, h.filter(|h| !h.is_empty())?)));
    CellEvent {
        stream,
        operation: Counted::Call,
        requests: cell.requests,
        bytes: cell.bytes,
        errors: cell.errors,
        dropped: 0,
        depth_max: cell.in_flight_max,
        rows: Some(cell.rows),
        diverged: Some(cell.diverged),
        measures: found.map(|(name, histogram)| (name, Measure::of(histogram))).collect(),
    }
}

/// An interval that has ended.
pub fn interval(closed: &Closed) -> Interval {
    let length_ns = (closed.end_ns - closed.start_ns).max(1);
    let cells = closed.cells.iter().enumerate();
    Interval {
        phase: 0,
        index: closed.index,
        start_ns: closed.start_ns,
        end_ns: closed.end_ns,
        warmup: false,
        drain: closed.drain,
        cells: cells.filter_map(|(stream, cell)| cell.as_ref().map(|c| cell_event(stream, c))).collect(),
        cpu: Cpu { user_ns: closed.cpu.user_ns, system_ns: closed.cpu.system_ns },
        loop_busy_share: (closed.thread_cpu.user_ns as f64 / length_ns as f64).min(1.0),
        knob: None,
    }
}

/// The same interval of several drivers as one: counts add up, histograms merge.
fn merged(all: Vec<Interval>) -> Result<Interval, String> {
    let mut whole = all.first().cloned().ok_or("no interval to merge")?;
    if all.len() == 1 {
        return Ok(whole);
    }
    whole.start_ns = all.iter().map(|i| i.start_ns).min().unwrap_or(0);
    whole.end_ns = all.iter().map(|i| i.end_ns).max().unwrap_or(0);
    whole.drain = all.iter().all(|i| i.drain);
    whole.loop_busy_share = all.iter().map(|i| i.loop_busy_share).fold(0.0, f64::max);
    whole.cpu =
        Cpu { user_ns: all.iter().map(|i| i.cpu.user_ns).sum(), system_ns: all.iter().map(|i| i.cpu.system_ns).sum() };
    let mut cells: BTreeMap<usize, Vec<&CellEvent>> = BTreeMap::new();
    all.iter().flat_map(|i| &i.cells).for_each(|c| cells.entry(c.stream).or_default().push(c));
    whole.cells = cells.into_values().map(|c| merged_cell(&c)).collect::<Result<_, String>>()?;
    Ok(whole)
}

fn merged_cell(all: &[&CellEvent]) -> Result<CellEvent, String> {
    let sum = |of: fn(&CellEvent) -> u64| all.iter().map(|c| of(c)).sum();
    let mut found: BTreeMap<Timed, Vec<&Measure>> = BTreeMap::new();
    all.iter().flat_map(|c| &c.measures).for_each(|(name, m)| found.entry(*name).or_default().push(m));
    let measures = found.into_iter().map(|(name, all)| Ok((name, Measure::merged(&all).map_err(|e| e.to_string())?)));
    Ok(CellEvent {
        stream: all[0].stream,
        operation: Counted::Call,
        requests: sum(|c| c.requests),
        bytes: sum(|c| c.bytes),
        errors: sum(|c| c.errors),
        dropped: 0,
        // Drivers need not have had their most calls in flight at the same moment.
        depth_max: all.iter().map(|c| c.depth_max).sum(),
        rows: Some(sum(|c| c.rows.unwrap_or(0))),
        diverged: Some(sum(|c| c.diverged.unwrap_or(0))),
        measures: measures.collect::<Result<_, String>>()?,
    })
}

/// Intervals as JSON in, one interval as JSON out.
pub fn merge_json(texts: &[String]) -> Result<String, String> {
    let read = |text: &String| serde_json::from_str(text).map_err(|e| format!("an interval: {e}"));
    let all = texts.iter().map(read).collect::<Result<Vec<Interval>, String>>()?;
    Ok(Event::Interval(Box::new(merged(all)?)).to_json())
}
