//! Decides at interval boundaries: ramps, limits on response times, steady state. A pure state machine, so that it
//! decides the same in real and in virtual time.

use plan::{Figure, Moves, Phase, Steady, SteadyMeasure, Stop};
use record::{CHAINS, COMMITS, CellSet, FRAMES, Histogram};

use crate::control::Knobs;
use crate::device::Operation;
use crate::event::{RampEnd, RampStep};
use crate::ramp::{RampJudge, Turn};
use crate::timeline::Kind;

/// What a phase did in one interval, all loops together.
pub struct Merged {
    pub interval: u32,
    pub kind: Kind,
    pub start_ns: u64,
    pub end_ns: u64,
    pub cells: CellSet,
    pub own_ns: u64,
    /// Loops that have reported so far.
    pub loops: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A figure passed the limit of `stop`.
    Stop,
    Steady,
    /// The ramp's last step is over.
    Ramp,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    End(Reason),
    Turn(Knobs),
    /// A step of a ramp with a limit is over.
    Step(RampStep),
    /// What the ramp's search came to.
    Found(RampEnd),
    /// The steady state was reached, or left again, over the rounds from `from_ns` to `at_ns`.
    Steady {
        reached: bool,
        from_ns: u64,
        at_ns: u64,
        mean: f64,
        range_percent: f64,
        slope_percent: f64,
    },
}

/// Of each stream, whether its flushes are those that its writes owe.
#[derive(Clone)]
pub(crate) struct Owed(Vec<bool>);

impl Owed {
    /// Cells for as many streams.
    pub fn cells(&self) -> CellSet {
        CellSet::new(self.0.len())
    }

    /// Whether rates count what a cell counts: requests, without flushes that belong to the writes before them.
    pub fn is_rated(&self, stream: usize, operation: usize) -> bool {
        operation < CHAINS && !(self.0[stream] && operation == Operation::Flush as usize)
    }
}

pub struct Referee {
    stop: Option<Stop>,
    steady: Option<SteadyJudge>,
    ramp: Option<RampJudge>,
}

impl Referee {
    /// `number` is the phase's in its profile.
    pub fn new(phase: &Phase, number: usize, measure_start_ns: u64) -> Referee {
        let own_rate = |stream: &plan::Stream| match stream.pace {
            plan::Pace::Open { rate, .. } => Some(rate),
            plan::Pace::Closed => None,
        };
        let rates: Vec<f64> = phase.stream.iter().filter_map(own_rate).collect();
        let owed = Owed(phase.stream.iter().map(|stream| stream.flush_every.is_some()).collect());
        let steady = phase.steady.clone().map(|rule| SteadyJudge::new(rule, owed.clone()));
        Referee {
            stop: phase.stop.clone(),
            steady,
            ramp: phase.ramp.clone().map(|ramp| RampJudge::new(ramp, number, owed, &rates, measure_start_ns)),
        }
    }

    /// Knobs at the start of the phase.
    pub fn first_knobs(&self) -> Option<Knobs> {
        self.ramp.as_ref().map(RampJudge::first_knobs)
    }

    /// Whether an interval is in no figure, because a step of a ramp has just begun.
    pub fn settles(&self, interval: &Merged) -> bool {
        interval.kind == Kind::Measure && self.ramp.as_ref().is_some_and(|ramp| ramp.settles(interval))
    }

    /// Decisions after an interval that all loops have reported.
    pub fn judge(&mut self, interval: &Merged) -> Vec<Decision> {
        let mut decisions = Vec::new();
        if interval.kind != Kind::Measure {
            return decisions;
        }
        if let Some(stop) = &self.stop
            && figure_ns(stop.when, &interval.cells) > stop.above.ns
        {
            decisions.push(Decision::End(Reason::Stop));
        }
        if let Some(steady) = &mut self.steady {
            steady.judge(interval, &mut decisions);
        }
        if let Some(ramp) = &mut self.ramp {
            let mut told = Vec::new();
            let turn = ramp.judge(interval, &mut told);
            decisions.extend(told.into_iter().map(Decision::Step));
            match turn {
                Turn::Stay => {}
                Turn::To(knobs) => decisions.push(Decision::Turn(knobs)),
                Turn::Over => {
                    decisions.extend(ramp.end().map(Decision::Found));
                    decisions.push(Decision::End(Reason::Ramp));
                }
            }
        }
        decisions
    }
}

/// A figure of the response times of all streams and operations together, in ns.
pub fn figure_ns(figure: Figure, cells: &CellSet) -> u64 {
    figure_of(figure, cells, false, None)
}

/// The same of the response or of the service times, of all requests or of one operation.
pub fn figure_of(figure: Figure, cells: &CellSet, service: bool, of: Option<Moves>) -> u64 {
    let mut all = Histogram::default();
    // Whoever waits for a chain waits for all of it, and for a commit likewise: where a stream has them, their times
    // stand for those of what they are made of. Frames are counted beside their requests.
    let has = |stream: usize, operation: usize| cells.iter().any(|(s, o, _)| s == stream && o == operation);
    let parts = [Operation::Write as usize, Operation::Flush as usize];
    let asked = |stream: usize, operation: usize| match of {
        _ if has(stream, CHAINS) => of.is_none() && operation == CHAINS,
        Some(moves) => operation == Operation::of(moves) as usize,
        None if has(stream, COMMITS) => operation != FRAMES && !parts.contains(&operation),
        None => operation != FRAMES,
    };
    let requests = cells.iter().filter(|(stream, operation, _)| asked(*stream, *operation));
    requests.for_each(|(_, _, cell)| all.merge(if service { &cell.service } else { &cell.response }));
    let percentile = match figure {
        Figure::Mean => return all.mean_ns() as u64,
        Figure::Max => return all.max_ns(),
        Figure::P50 => 50.0,
        Figure::P90 => 90.0,
        Figure::P95 => 95.0,
        Figure::P99 => 99.0,
        Figure::P999 => 99.9,
    };
    all.percentile_ns(percentile)
}

/// The measure over one round, and where the round began.
struct Round {
    start_ns: u64,
    value: f64,
}

/// Both criteria of SNIA's Solid State Storage Performance Test Specification over a window of rounds.
struct SteadyJudge {
    rule: Steady,
    owed: Owed,
    rounds: Vec<Round>,
    reached: bool,
    round_ns: u64,
    requests: u64,
    bytes: u64,
    service_ns: f64,
}

impl SteadyJudge {
    fn new(rule: Steady, owed: Owed) -> Self {
        SteadyJudge {
            rule,
            owed,
            rounds: Vec::new(),
            reached: false,
            round_ns: 0,
            requests: 0,
            bytes: 0,
            service_ns: 0.0,
        }
    }

    fn judge(&mut self, interval: &Merged, decisions: &mut Vec<Decision>) {
        self.round_ns += interval.end_ns - interval.start_ns;
        for (stream, operation, cell) in interval.cells.iter() {
            if !self.owed.is_rated(stream, operation) {
                continue;
            }
            self.requests += cell.requests;
            self.bytes += cell.bytes;
            self.service_ns += cell.service.mean_ns() * cell.requests as f64;
        }
        if self.round_ns < self.rule.round.ns {
            return;
        }
        let seconds = self.round_ns as f64 / 1e9;
        let value = match self.rule.measure {
            SteadyMeasure::Iops => self.requests as f64 / seconds,
            SteadyMeasure::Throughput => self.bytes as f64 / seconds,
            SteadyMeasure::MeanService => self.service_ns / (self.requests.max(1)) as f64,
        };
        self.rounds.push(Round { start_ns: interval.end_ns - self.round_ns, value });
        (self.round_ns, self.requests, self.bytes, self.service_ns) = (0, 0, 0, 0.0);
        let window = self.rule.rounds as usize;
        if self.rounds.len() > window {
            self.rounds.remove(0);
        }
        if self.rounds.len() < window {
            return;
        }
        let values: Vec<f64> = self.rounds.iter().map(|round| round.value).collect();
        let (mean, range_percent, slope_percent) = spread(&values);
        let steady = mean > 0.0 && range_percent <= self.rule.range.0 && slope_percent <= self.rule.slope.0;
        if steady != self.reached {
            self.reached = steady;
            let (from_ns, at_ns) = (self.rounds[0].start_ns, interval.end_ns);
            decisions.push(Decision::Steady { reached: steady, from_ns, at_ns, mean, range_percent, slope_percent });
        }
        if steady && self.rule.stop {
            decisions.push(Decision::End(Reason::Steady));
        }
    }
}

/// Mean, range and rise of the fitted line over the window, the latter two in per cent of the mean.
fn spread(rounds: &[f64]) -> (f64, f64, f64) {
    let n = rounds.len() as f64;
    let mean = rounds.iter().sum::<f64>() / n;
    if mean == 0.0 {
        return (0.0, f64::INFINITY, f64::INFINITY);
    }
    let (low, high) = rounds.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), r| (l.min(*r), h.max(*r)));
    let middle = (n - 1.0) / 2.0;
    let (mut up, mut down) = (0.0, 0.0);
    for (i, round) in rounds.iter().enumerate() {
        let x = i as f64 - middle;
        up += x * (round - mean);
        down += x * x;
    }
    let rise = (up / down * (n - 1.0)).abs();
    (mean, (high - low) / mean * 100.0, rise / mean * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::Profile;

    fn referee(rules: &str) -> Referee {
        let text = format!(
            "title = 't'\n[[phase]]\nduration = '1h'\n{rules}\n[[phase.stream]]\nrequest = '4K'\npace = {{ loop = 'open', rate = 10 }}\n"
        );
        Referee::new(&Profile::from_toml(&text, &[]).expect("valid").phase[0], 0, 0)
    }

    fn interval(number: u32, requests: u64, response_ns: u64) -> Merged {
        let mut cells = CellSet::new(1);
        let cell = cells.get_mut(0, 0);
        cell.requests = requests;
        cell.response.record(response_ns, requests);
        let second = 1_000_000_000;
        let start_ns = u64::from(number) * second;
        Merged {
            interval: number,
            kind: Kind::Measure,
            start_ns,
            end_ns: start_ns + second,
            cells,
            own_ns: 0,
            loops: 1,
        }
    }

    fn steady_changes(rounds: &[u64]) -> Vec<(usize, bool)> {
        let mut referee = referee("steady = { round = '1s' }");
        let mut changes = Vec::new();
        for (i, requests) in rounds.iter().enumerate() {
            for decision in referee.judge(&interval(i as u32, *requests, 1000)) {
                if let Decision::Steady { reached, .. } = decision {
                    changes.push((i, reached));
                }
            }
        }
        changes
    }

    #[test]
    fn steady_needs_five_flat_rounds() {
        assert_eq!(steady_changes(&[100, 101, 99, 100]), []);
        assert_eq!(steady_changes(&[300, 200, 100, 101, 99, 100, 100]), [(6, true)]);
    }

    #[test]
    fn the_window_is_told_from_its_first_round_to_its_last() {
        let mut referee = referee("steady = { round = '1s' }");
        let windows: Vec<(u64, u64)> = [300, 200, 100, 101, 99, 100, 100]
            .iter()
            .enumerate()
            .flat_map(|(i, requests)| referee.judge(&interval(i as u32, *requests, 1000)))
            .filter_map(|decision| match decision {
                Decision::Steady { from_ns, at_ns, .. } => Some((from_ns, at_ns)),
                _ => None,
            })
            .collect();
        assert_eq!(windows, [(2_000_000_000, 7_000_000_000)]);
    }

    #[test]
    fn a_slow_slide_within_the_range_is_not_steady() {
        // Range 15 % (allowed), but the fitted line falls by 15 % over the window (10 % allowed).
        assert_eq!(steady_changes(&[1150, 1110, 1070, 1035, 1000]), []);
    }

    #[test]
    fn leaving_the_steady_state_is_told() {
        assert_eq!(steady_changes(&[100, 100, 100, 100, 100, 100, 40]), [(4, true), (6, false)]);
    }

    #[test]
    fn the_slope_is_that_of_the_fitted_line() {
        let (mean, range, slope) = spread(&[90.0, 95.0, 100.0, 105.0, 110.0]);
        assert_eq!((mean, range, slope), (100.0, 20.0, 20.0));
    }

    #[test]
    fn a_limit_ends_the_phase() {
        let mut referee = referee("stop = { when = 'mean', above = '100ms' }");
        assert_eq!(referee.judge(&interval(0, 10, 99_000_000)), []);
        assert_eq!(referee.judge(&interval(1, 10, 101_000_000)), [Decision::End(Reason::Stop)]);
    }

    #[test]
    fn a_ramp_steps_and_ends_after_its_last_step() {
        let mut referee = referee("ramp = { knob = 'depth', from = 1, to = 4, factor = 2, every = '2s' }");
        assert_eq!(referee.first_knobs().map(|k| k.depth), Some(1));
        let mut seen = Vec::new();
        for i in 0..6 {
            seen.push(referee.judge(&interval(i, 1, 1)));
        }
        assert_eq!(seen[0], []);
        assert!(matches!(seen[1][..], [Decision::Turn(Knobs { depth: 2, .. })]));
        assert!(matches!(seen[3][..], [Decision::Turn(Knobs { depth: 4, .. })]));
        assert_eq!(seen[5], [Decision::End(Reason::Ramp)]);
    }
}
