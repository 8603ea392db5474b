//! A device that writes what it is asked for as a trace, around any other device.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::device::{Blocked, Completion, Device, Devices, Operation, Order, Setup, Submissions, Until};
use engine::event::{EndReason, Event, RunOutcome};
use engine::honours::Honours;
use plan::SyncMode;
use trace::{Header, Operation as Traced, Request, Summary, Writer, request};

/// Requests that a loop keeps before it hands them on.
const PART: usize = 4096;

struct Out {
    writer: Option<Writer<BufWriter<File>>>,
    error: Option<String>,
}

/// Where all loops of a run write.
#[derive(Clone)]
struct Shared(Arc<Mutex<Out>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Out> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, requests: &mut Vec<Request>) {
        let mut out = self.lock();
        let Some(writer) = &mut out.writer else { return requests.clear() };
        for request in requests.drain(..) {
            if let Err(error) = writer.push(&request) {
                (out.writer, out.error) = (None, Some(error.to_string()));
                break;
            }
        }
        requests.clear();
    }
}

/// Devices of a run whose requests are written as a trace.
pub struct Taken<D> {
    inner: Arc<D>,
    out: Shared,
    /// Where the data of each target begin.
    starts: Arc<Vec<u64>>,
}

impl<D> Taken<D> {
    /// Writes to `file`, which is empty; `starts` say where the data of each target begin.
    pub fn new(inner: Arc<D>, file: File, header: &Header, starts: Vec<u64>) -> Result<Taken<D>, String> {
        let writer = Writer::new(BufWriter::with_capacity(1 << 20, file), header)
            .map_err(|e| format!("the trace cannot be written: {e}"))?;
        let out = Shared(Arc::new(Mutex::new(Out { writer: Some(writer), error: None })));
        Ok(Taken { inner, out, starts: Arc::new(starts) })
    }

    /// Ends the trace, after the run.
    pub fn finish(&self) -> Result<Summary, String> {
        let mut out = self.out.lock();
        let failed = |error: String| format!("the trace of the run is not whole: {error}");
        match (out.writer.take(), out.error.take()) {
            (Some(writer), _) => writer.finish().map(|(_, summary)| summary).map_err(|e| failed(e.to_string())),
            (None, error) => Err(failed(error.unwrap_or_default())),
        }
    }
}

/// Devices whose requests are written into the open file of that name (`place::held_file`).
pub fn take<D>(inner: Arc<D>, path: &Path, header: &Header, starts: Vec<u64>) -> Result<Taken<D>, String> {
    let file = place::held_file(path).map_err(|e| format!("{}: the trace cannot be written: {e}", path.display()))?;
    Taken::new(inner, file, header, starts)
}

/// Runs, and ends the trace before the last event is told: a trace that is not whole is a failure of the run.
pub fn run_to_end(
    run: impl FnOnce(&mut dyn FnMut(Event)),
    finish: impl FnOnce() -> Result<(), String>,
    emit: &mut dyn FnMut(Event),
) {
    let mut last = None;
    run(&mut |event| match event {
        Event::End { end_ns, outcome, message } => last = Some((end_ns, outcome, message)),
        event => emit(event),
    });
    let written = finish();
    if let Some((end_ns, outcome, message)) = last {
        emit(match written {
            Err(why) if outcome == RunOutcome::Done => {
                Event::End { end_ns, outcome: RunOutcome::Failed, message: EndReason::other(why) }
            }
            _ => Event::End { end_ns, outcome, message },
        });
    }
}

impl<D: Devices> Devices for Taken<D> {
    type Device = TakenDevice<D::Device>;

    fn open(&self, setup: &Setup) -> Result<Self::Device, String> {
        let inner = self.inner.open(setup)?;
        let flights = vec![None; setup.slots as usize];
        let (out, starts) = (self.out.clone(), self.starts.clone());
        Ok(TakenDevice { inner, out, starts, flights, done: Vec::with_capacity(PART) })
    }

    fn honours(&self) -> Honours {
        self.inner.honours()
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn loops(&self, lanes: usize) -> usize {
        self.inner.loops(lanes)
    }

    fn features(&self) -> Vec<String> {
        self.inner.features()
    }

    fn blocked(&self, since_ns: u64) -> Vec<Blocked> {
        self.inner.blocked(since_ns)
    }

    fn outstanding(&self, loop_index: usize) -> u64 {
        self.inner.outstanding(loop_index)
    }
}

pub struct TakenDevice<D: Device> {
    inner: D,
    out: Shared,
    starts: Arc<Vec<u64>>,
    /// What each slot has been asked for.
    flights: Vec<Option<Request>>,
    done: Vec<Request>,
}

impl<D: Device> Drop for TakenDevice<D> {
    fn drop(&mut self) {
        // What never ended is named by the run's record.
        self.out.write(&mut self.done);
    }
}

impl<D: Device> Device for TakenDevice<D> {
    const VIRTUAL: bool = D::VIRTUAL;

    #[inline(always)]
    fn now_ns(&mut self) -> u64 {
        self.inner.now_ns()
    }

    #[inline(always)]
    fn buffer(&mut self, slot: u32, request_bytes: u32) -> &mut [u8] {
        self.inner.buffer(slot, request_bytes)
    }

    #[inline(always)]
    fn queue(&mut self, order: &Order) {
        let operation = match order.operation {
            Operation::Read | Operation::Get => Some(Traced::Read),
            Operation::Write | Operation::Append | Operation::Put => Some(Traced::Write),
            Operation::Flush => Some(Traced::Flush),
            Operation::Trim => Some(Traced::Discard),
            _ => None,
        };
        let start = self.starts.get(usize::from(order.target)).copied().unwrap_or(0);
        let flush = operation == Some(Traced::Flush);
        let durable = order.sync != SyncMode::None && operation == Some(Traced::Write);
        self.flights[order.slot as usize] = operation.map(|operation| Request {
            arrival_ns: 0,
            issue_ns: None,
            complete_ns: None,
            device: u32::from(order.target),
            operation,
            flags: if durable { request::FUA } else { 0 },
            offset_bytes: if flush { 0 } else { order.offset_bytes.saturating_sub(start) },
            bytes: if flush { 0 } else { u64::from(order.request_bytes) },
            process: 0,
        });
        self.inner.queue(order);
    }

    #[inline(always)]
    fn turn(&mut self, until: Until, done: &mut Vec<Completion>) -> Result<u64, String> {
        let before = done.len();
        let now_ns = self.inner.turn(until, done)?;
        for completion in &done[before..] {
            if let Some(mut request) = self.flights[completion.slot as usize].take() {
                request.arrival_ns = completion.submitted_ns;
                request.issue_ns = Some(completion.submitted_ns);
                request.complete_ns = Some(completion.ended_ns);
                request.flags |= if completion.result < 0 { request::FAILED } else { 0 };
                self.done.push(request);
            }
        }
        if self.done.len() >= PART {
            self.out.write(&mut self.done);
        }
        Ok(now_ns)
    }

    fn away_ns(&self) -> u64 {
        self.inner.away_ns()
    }

    fn submissions(&self) -> Submissions {
        self.inner.submissions()
    }
}
