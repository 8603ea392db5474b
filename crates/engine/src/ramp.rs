//! Ramps: one knob, step by step, and where there is a limit the search for the last value that keeps it. A pure state
//! machine; it decides at the ends of intervals.

use plan::{Knob, LimitFigure, Ramp, TimeKind};
use record::{CHAINS, CellSet, FRAMES};

use crate::control::Knobs;
use crate::event::{RampEnd, RampStep};
use crate::referee::{Merged, Owed, figure_of};

/// A rate that the storage keeps up with to 1 %, as nowhere more than 1 % may stay unsent, counts as kept.
pub const SHORT_SHARE: f64 = 0.01;
/// Poisson arrivals differ from their mean by more than three standard deviations once in 370 steps.
const SHORT_DEVIATIONS: f64 = 3.0;

/// What follows from an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Turn {
    Stay,
    To(Knobs),
    Over,
}

pub struct RampJudge {
    ramp: Ramp,
    phase: usize,
    owed: Owed,
    /// What streams with a rate of their own ask for at a knob of 1: each as much, or a per cent of what it is.
    asked_per_s: f64,
    measure_start_ns: u64,
    steps: u32,
    value: f64,
    step_start_ns: u64,
    judged_ns: u64,
    cells: CellSet,
    low: Option<f64>,
    high: Option<f64>,
    found: Option<RampStep>,
}

impl RampJudge {
    pub(crate) fn new(ramp: Ramp, phase: usize, owed: Owed, rates_per_s: &[f64], measure_start_ns: u64) -> RampJudge {
        let value = ramp.value(0);
        let asked_per_s = match ramp.knob {
            Knob::Load => rates_per_s.iter().sum::<f64>() / 100.0,
            _ => rates_per_s.len() as f64,
        };
        RampJudge {
            ramp,
            phase,
            asked_per_s,
            measure_start_ns,
            steps: 0,
            value,
            step_start_ns: measure_start_ns,
            judged_ns: 0,
            cells: owed.cells(),
            owed,
            low: None,
            high: None,
            found: None,
        }
    }

    pub fn first_knobs(&self) -> Knobs {
        self.knobs(self.value)
    }

    /// Whether an interval belongs to the time that a step is given to settle.
    pub fn settles(&self, interval: &Merged) -> bool {
        let settle_ns = self.ramp.settle.map_or(0, |s| s.ns);
        interval.start_ns >= self.step_start_ns && interval.start_ns < self.step_start_ns + settle_ns
    }

    /// After an interval that was measured; a step that is over is added to `told`.
    pub fn judge(&mut self, interval: &Merged, told: &mut Vec<RampStep>) -> Turn {
        if self.ramp.limit.is_none() {
            return self.march(interval);
        }
        if !self.settles(interval) {
            self.cells.merge_later(&interval.cells);
            self.judged_ns += interval.end_ns.saturating_sub(interval.start_ns);
        }
        if interval.end_ns.saturating_sub(self.step_start_ns) < self.ramp.every.ns {
            return Turn::Stay;
        }
        let step = self.step(interval.end_ns);
        told.push(step);
        self.cells = CellSet::new(self.cells.streams());
        (self.step_start_ns, self.judged_ns) = (interval.end_ns, 0);
        match self.next(step) {
            Some(value) => {
                self.value = value;
                Turn::To(self.knobs(value))
            }
            None => Turn::Over,
        }
    }

    /// What the search came to; none without a limit.
    pub fn end(&self) -> Option<RampEnd> {
        let rising = self.ramp.limit.as_ref()?.is_rate();
        let beyond = if rising { self.low } else { self.high };
        Some(RampEnd { phase: self.phase, knob: self.ramp.knob, found: self.found, beyond })
    }

    /// Steps at equal distances in time, without a limit.
    fn march(&mut self, interval: &Merged) -> Turn {
        let steps = (interval.end_ns.saturating_sub(self.measure_start_ns) / self.ramp.every.ns) as u32;
        if steps <= self.steps {
            return Turn::Stay;
        }
        let over = self.ramp.value(self.steps) == self.ramp.value(steps);
        self.steps = steps;
        self.step_start_ns = interval.end_ns;
        if over { Turn::Over } else { Turn::To(self.knobs(self.ramp.value(steps))) }
    }

    fn step(&self, end_ns: u64) -> RampStep {
        let (mut requests, mut bytes, mut dropped) = (0, 0, 0);
        for (stream, operation, cell) in self.cells.iter() {
            dropped += cell.dropped;
            if self.owed.is_rated(stream, operation) {
                (requests, bytes) = (requests + cell.requests, bytes + cell.bytes);
            }
        }
        let seconds = self.judged_ns as f64 / 1e9;
        let (rate_per_s, bytes_per_s) = (requests as f64 / seconds, bytes as f64 / seconds);
        let offered = self.value * self.asked_per_s * seconds;
        let short = offered * SHORT_SHARE + SHORT_DEVIATIONS * libm::sqrt(offered);
        let overloaded = self.ramp.knob.is_pace() && self.units() < offered - short;
        let (figure, kept) = self.held_against(rate_per_s, bytes_per_s, dropped);
        RampStep {
            phase: self.phase,
            knob: self.ramp.knob,
            value: self.value,
            start_ns: end_ns - self.judged_ns,
            end_ns,
            figure,
            // Where nothing ended there is no figure, and no limit is kept.
            within: kept && !overloaded && requests > 0,
            overloaded,
            rate_per_s,
            bytes_per_s,
        }
    }

    /// What a rate counts: chains where a stream has them, else requests without the flushes that writes owe.
    fn units(&self) -> f64 {
        let mut units = 0;
        for stream in 0..self.cells.streams() {
            let of = |wanted: &dyn Fn(usize) -> bool| -> u64 {
                self.cells
                    .iter()
                    .filter(|(s, o, _)| *s == stream && wanted(*o))
                    .map(|(_, _, c)| c.requests + c.errors)
                    .sum()
            };
            let chains = of(&|operation| (CHAINS..FRAMES).contains(&operation));
            units += if chains > 0 { chains } else { of(&|operation| self.owed.is_rated(stream, operation)) };
        }
        units as f64
    }

    /// The figure that is limited, and whether it is on the right side.
    fn held_against(&self, rate_per_s: f64, bytes_per_s: f64, dropped: u64) -> (f64, bool) {
        let Some(limit) = &self.ramp.limit else { return (0.0, true) };
        let threshold = limit.threshold();
        match (limit.time(), limit.when) {
            (Some(figure), _) => {
                let service = limit.of == TimeKind::Service;
                let ns = figure_of(figure, &self.cells, service, limit.operation) as f64;
                (ns, ns <= threshold)
            }
            (None, LimitFigure::Iops) => (rate_per_s, rate_per_s >= threshold),
            (None, LimitFigure::Throughput) => (bytes_per_s, bytes_per_s >= threshold),
            (None, _) => (dropped as f64, dropped as f64 <= threshold),
        }
    }

    /// The value that is tried next. Below the turning point lie the values that keep a limit of times, or miss a rate.
    fn next(&mut self, step: RampStep) -> Option<f64> {
        let rising = self.ramp.limit.as_ref().is_some_and(|l| l.is_rate());
        if step.within {
            self.found = Some(step);
        }
        if step.within != rising {
            self.low = Some(self.low.map_or(step.value, |low| low.max(step.value)));
        } else {
            self.high = Some(self.high.map_or(step.value, |high| high.min(step.value)));
        }
        let Some(high) = self.high else {
            let next = self.ramp.value(self.steps + 1);
            self.steps += 1;
            return (next != step.value).then_some(next);
        };
        let (low, tolerance) = (self.low?, self.ramp.search?.0 / 100.0);
        if high - low <= tolerance * low {
            return None;
        }
        let middle = (low + high) / 2.0;
        let middle = if self.ramp.knob.is_pace() { middle } else { libm::floor(middle) };
        (middle > low && middle < high).then_some(middle)
    }

    fn knobs(&self, value: f64) -> Knobs {
        let whole = value.max(1.0) as u32;
        let forget = self.ramp.limit.is_some();
        match self.ramp.knob {
            Knob::Depth => Knobs { depth: whole, forget, ..Knobs::default() },
            Knob::Workers => Knobs { workers: whole, forget, ..Knobs::default() },
            Knob::Rate => Knobs { rate_per_s: value, forget, ..Knobs::default() },
            Knob::Load => Knobs { load_percent: value, forget, ..Knobs::default() },
        }
    }
}
