//! Duty: what happened to every call, by page and brick, interval by interval.
//! Refusal: it decides nothing and tells nothing; closed intervals go to whoever listens.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use record::Histogram;

use crate::absence::Absence;
use crate::clock::{CpuTime, process_cpu, thread_cpu};
use crate::database::{Answer, Failure};
use crate::event::{Counted, Event, SlowCall};
use crate::mapping::Call;

/// Where nothing limits a run's time, intervals double in length after so many: 3,600 of them then last 8 days.
const INTERVALS_PER_LENGTH: u32 = 320;
/// Failures that are described one by one.
const FAILURES_TOLD: u64 = 1_000;
const SLOWEST: usize = 10;

#[derive(Default)]
pub struct Cell {
    pub requests: u64,
    pub bytes: u64,
    pub rows: u64,
    pub errors: u64,
    pub diverged: u64,
    pub in_flight_max: u32,
    pub service: Histogram,
    pub response: Histogram,
    pub first_byte: Histogram,
    pub lateness: Option<Histogram>,
    pub driver_lag: Option<Histogram>,
}

/// An interval that is over.
pub struct Closed {
    pub index: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub drain: bool,
    pub cells: Vec<Option<Box<Cell>>>,
    pub cpu: CpuTime,
    pub thread_cpu: CpuTime,
}

pub enum Told {
    Interval(Box<Closed>),
    Event(Event),
}

/// When a call was due, could go, went, and ended.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub due_ns: u64,
    /// From here on only the driver itself kept it from going.
    pub ready_ns: u64,
    pub submitted_ns: u64,
    pub ended_ns: u64,
}

#[derive(Default)]
pub struct Sums {
    pub calls: u64,
    pub errors: u64,
    pub rows: u64,
    pub bytes: u64,
    pub queued: u64,
    pub errors_by_state: BTreeMap<String, u64>,
    pub diverged_by_stream: BTreeMap<usize, u64>,
    pub slowest: Vec<SlowCall>,
}

pub struct Tally {
    cells: Vec<Option<Box<Cell>>>,
    in_flight: Vec<u32>,
    pub in_flight_all: u64,
    is_open_loop: bool,
    bricks: usize,
    start_ns: u64,
    interval_ns: u64,
    index: u32,
    interval_start_ns: u64,
    boundary_ns: u64,
    /// Nothing more is issued; from the next boundary on it is drain.
    pub issuing_ended: bool,
    drain: bool,
    cpu: CpuTime,
    thread: CpuTime,
    out: Sender<Told>,
    pub sums: Sums,
    pub driver_lag: Histogram,
    pub last_end_ns: u64,
    pub absence: Absence,
}

impl Tally {
    pub fn new(pages: usize, bricks: usize, is_open_loop: bool, interval_ns: u64, out: Sender<Told>) -> Tally {
        Tally {
            cells: (0..pages * bricks).map(|_| None).collect(),
            in_flight: vec![0; pages * bricks],
            in_flight_all: 0,
            is_open_loop,
            bricks,
            start_ns: 0,
            interval_ns,
            index: 0,
            interval_start_ns: 0,
            boundary_ns: u64::MAX,
            issuing_ended: false,
            drain: false,
            cpu: CpuTime::default(),
            thread: CpuTime::default(),
            out,
            sums: Sums::default(),
            driver_lag: Histogram::default(),
            last_end_ns: 0,
            absence: Absence::new(bricks),
        }
    }

    /// The thread that calls this is the one whose CPU time counts.
    pub fn begin(&mut self, start_ns: u64, unreachable: &[usize]) {
        (self.start_ns, self.interval_start_ns) = (start_ns, start_ns);
        self.boundary_ns = start_ns + self.interval_ns;
        self.last_end_ns = start_ns;
        self.absence.begin(start_ns);
        unreachable.iter().for_each(|brick| self.absence.is_away(*brick));
        (self.cpu, self.thread) = (process_cpu(), thread_cpu());
    }

    pub fn sender(&self) -> Sender<Told> {
        self.out.clone()
    }

    pub fn boundary_ns(&self) -> u64 {
        self.boundary_ns
    }

    pub fn stream(&self, page: usize, brick: u16) -> usize {
        page * self.bricks + usize::from(brick)
    }

    #[inline]
    pub fn submitted(&mut self, stream: usize, now_ns: u64) {
        self.tick(now_ns);
        let brick = stream % self.bricks;
        if !self.is_waited_for(brick) {
            self.absence.is_there(brick, now_ns, !self.drain, true);
        }
        self.in_flight_all += 1;
        self.in_flight[stream] += 1;
        let cell = self.cells[stream].get_or_insert_default();
        cell.in_flight_max = cell.in_flight_max.max(self.in_flight[stream]);
    }

    #[inline]
    pub fn succeeded(&mut self, stream: usize, times: Times, answer: Answer, call: &Call) {
        self.ended(stream, times.ended_ns);
        self.answered(stream, times.ended_ns);
        let service_ns = times.ended_ns.saturating_sub(times.submitted_ns);
        let response_ns = times.ended_ns.saturating_sub(times.due_ns);
        let lag_ns = times.submitted_ns.saturating_sub(times.ready_ns);
        let diverged = call.expected_rows >= 0 && call.expected_rows as u64 != answer.rows;
        let cell = self.cells[stream].get_or_insert_default();
        cell.requests += 1;
        cell.bytes += answer.bytes;
        cell.rows += answer.rows;
        cell.diverged += u64::from(diverged);
        cell.service.record(service_ns, 1);
        cell.response.record(response_ns, 1);
        cell.first_byte.record(answer.first_byte_ns.saturating_sub(times.submitted_ns), 1);
        if self.is_open_loop {
            let lateness_ns = times.submitted_ns.saturating_sub(times.due_ns);
            cell.lateness.get_or_insert_default().record(lateness_ns, 1);
            cell.driver_lag.get_or_insert_default().record(lag_ns, 1);
            self.driver_lag.record(lag_ns, 1);
            self.sums.queued += u64::from(times.ready_ns > times.due_ns);
        }
        self.sums.calls += 1;
        self.sums.rows += answer.rows;
        self.sums.bytes += answer.bytes;
        if diverged {
            *self.sums.diverged_by_stream.entry(stream).or_default() += 1;
        }
        self.slow(stream, times, service_ns, response_ns, call);
    }

    #[inline]
    fn slow(&mut self, stream: usize, times: Times, service_ns: u64, response_ns: u64, call: &Call) {
        let slowest = &mut self.sums.slowest;
        if slowest.len() == SLOWEST && slowest[SLOWEST - 1].response_ns >= response_ns {
            return;
        }
        let values = call.values.iter().map(|v| v.text().chars().take(40).collect()).collect::<Vec<String>>();
        let at_ns = times.submitted_ns.saturating_sub(self.start_ns);
        slowest.push(SlowCall { at_ns, stream, service_ns, response_ns, values: values.join(", ") });
        slowest.sort_by_key(|s| std::cmp::Reverse(s.response_ns));
        slowest.truncate(SLOWEST);
    }

    pub fn failed(&mut self, stream: usize, now_ns: u64, failure: &Failure) {
        self.ended(stream, now_ns);
        if !matches!(failure.sqlstate.as_str(), Failure::LOST | Failure::UNREACHABLE) {
            self.answered(stream, now_ns);
        }
        self.cells[stream].get_or_insert_default().errors += 1;
        self.sums.errors += 1;
        *self.sums.errors_by_state.entry(failure.sqlstate.clone()).or_default() += 1;
        if self.sums.errors <= FAILURES_TOLD {
            let event = crate::event::ErrorEvent {
                at_ns: now_ns.saturating_sub(self.start_ns),
                phase: 0,
                stream,
                operation: Counted::Call,
                offset_bytes: 0,
                request_bytes: 0,
                kind: crate::event::ErrorKind::Sqlstate,
                errno: None,
                text: format!("{}: {}", failure.sqlstate, failure.text),
                dump: None,
            };
            let _ = self.out.send(Told::Event(Event::Error(Box::new(event))));
        }
    }

    #[inline]
    fn ended(&mut self, stream: usize, now_ns: u64) {
        self.tick(now_ns);
        self.in_flight_all -= 1;
        self.in_flight[stream] -= 1;
        self.last_end_ns = self.last_end_ns.max(now_ns);
    }

    #[inline]
    fn answered(&mut self, stream: usize, now_ns: u64) {
        let brick = stream % self.bricks;
        let is_waited_for = self.is_waited_for(brick);
        self.absence.is_there(brick, now_ns, !self.drain, is_waited_for);
    }

    /// Whether it has calls to answer.
    #[inline]
    fn is_waited_for(&self, brick: usize) -> bool {
        self.in_flight.iter().skip(brick).step_by(self.bricks).any(|n| *n > 0)
    }

    /// A database has no connection any more.
    pub fn is_away(&mut self, brick: usize, now_ns: u64) {
        self.tick(now_ns);
        self.absence.advance(now_ns, !self.drain);
        self.absence.is_away(brick);
    }

    pub fn is_back(&mut self, brick: usize, now_ns: u64) {
        self.tick(now_ns);
        self.absence.advance(now_ns, !self.drain);
        self.absence.is_back(brick);
    }

    /// Nothing waits for a database any more; what it still carries is its last.
    pub fn has_served(&mut self, brick: usize, now_ns: u64) {
        if !self.is_waited_for(brick) {
            self.tick(now_ns);
            self.absence.advance(now_ns, !self.drain);
            self.absence.has_served(brick);
        }
    }

    /// Closes the intervals that are over.
    #[inline]
    pub fn tick(&mut self, now_ns: u64) {
        while now_ns >= self.boundary_ns {
            self.close(self.boundary_ns);
        }
    }

    fn close(&mut self, end_ns: u64) {
        self.absence.advance(end_ns, !self.drain);
        let room = (0..self.cells.len()).map(|_| None).collect();
        let (cpu, thread) = (process_cpu(), thread_cpu());
        let closed = Closed {
            index: self.index,
            start_ns: self.interval_start_ns - self.start_ns,
            end_ns: end_ns - self.start_ns,
            drain: self.drain,
            cells: std::mem::replace(&mut self.cells, room),
            cpu: cpu.since(self.cpu),
            thread_cpu: thread.since(self.thread),
        };
        (self.cpu, self.thread) = (cpu, thread);
        let _ = self.out.send(Told::Interval(Box::new(closed)));
        self.index += 1;
        self.interval_start_ns = end_ns;
        let doubled = self.interval_ns << (self.index / INTERVALS_PER_LENGTH).min(20);
        self.boundary_ns = end_ns + doubled;
        self.drain = self.issuing_ended;
    }

    /// The last interval ends where the phase does.
    pub fn finish(&mut self, end_ns: u64) {
        self.tick(end_ns);
        if end_ns > self.interval_start_ns {
            self.close(end_ns);
        }
    }
}
