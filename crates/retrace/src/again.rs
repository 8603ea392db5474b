//! The source of a lane that issues the requests of a trace.

use std::fs::File;
use std::sync::mpsc::{Receiver, sync_channel};
use std::vec::IntoIter;

use engine::device::{Completion, Entry, Operation};
use engine::program::{ProgramLane, ProgramPlace};
use engine::source::{Due, Next, Request as Issue, Source};
use pace::{LogTimed, Speed};
use plan::{Trace, TraceTiming};
use trace::{Operation as Traced, Ordered, Reader, Request, request};

use crate::dependence::Dependence;
use crate::place::Placing;

/// Requests that the reading thread hands over at once, and how many such parts it is ahead: 64 k requests are some
/// hundred ms at the rates of the fastest devices.
const PART: usize = 4096;
const AHEAD: usize = 16;

/// The lane of a stream that names a trace.
pub fn lane(place: &ProgramPlace, wanted: &Trace) -> Result<ProgramLane, String> {
    let area = place.area.ok_or("a trace needs a file, device or model as its target")?;
    let placing = Placing::new(wanted.fit, wanted.reach.0, wanted.largest.0, area)?;
    // Opened here, so that a run with a file that is gone ends before it begins.
    let reader = open(&wanted.file)?;
    let cells = [
        (Operation::Read, wanted.reads),
        (Operation::Write, wanted.writes),
        (Operation::Flush, wanted.flushes),
        (Operation::Trim, wanted.discards),
    ];
    let largest_bytes = wanted.largest.0.max(1).next_multiple_of(area.align_bytes.max(1)) + area.align_bytes;
    let depends = wanted.timing == TraceTiming::Dependent;
    let source = Again {
        reader: Some(reader),
        wanted: wanted.clone(),
        placing,
        parts: None,
        part: Vec::new().into_iter(),
        next: None,
        first_ns: 0,
        start_ns: 0,
        timed: LogTimed::new(0, 0, Speed::constant(wanted.speed)),
        dependence: depends.then(|| Dependence::new(place.stream.depth)),
        durable: false,
    };
    Ok(ProgramLane {
        source: Box::new(source),
        cells: cells.iter().filter(|(_, count)| *count > 0).map(|(operation, _)| *operation as usize).collect(),
        buffer_bytes: u32::try_from(largest_bytes).map_err(|_| "its requests are too large")?,
        own_pace: wanted.timing != TraceTiming::FireHose,
        fresh_data: true,
    })
}

fn open(path: &str) -> Result<Reader<File>, String> {
    let file = File::open(path).map_err(|e| format!("{path}: the trace cannot be opened: {e}"))?;
    Reader::new(file).map_err(|e| format!("{path}: {e}"))
}

struct Again {
    /// Until the phase begins.
    reader: Option<Reader<File>>,
    wanted: Trace,
    placing: Placing,
    parts: Option<Receiver<Vec<Request>>>,
    part: IntoIter<Request>,
    next: Option<Request>,
    first_ns: u64,
    start_ns: u64,
    timed: LogTimed,
    dependence: Option<Dependence>,
    durable: bool,
}

impl Again {
    fn advance(&mut self) {
        self.next = self.part.next();
        if self.next.is_none()
            && let Some(part) = self.parts.as_ref().and_then(|parts| parts.recv().ok())
        {
            self.part = part.into_iter();
            self.next = self.part.next();
        }
        if let (Some(dependence), Some(request)) = (&mut self.dependence, &self.next) {
            dependence.look(request);
        }
    }

    fn issue(&mut self, request: &Request) -> Issue {
        self.durable = request.is(request::FUA) && request.operation == Traced::Write;
        let operation = match request.operation {
            Traced::Read => Operation::Read,
            Traced::Write => Operation::Write,
            Traced::Flush => return Issue::flush(0),
            Traced::Discard => Operation::Trim,
        };
        let (offset_bytes, bytes) = self.placing.of(request);
        let request_bytes = bytes.min(u64::from(u32::MAX) / 4096 * 4096) as u32;
        Issue { operation, offset_bytes, request_bytes, pass: 0, entry: Entry::default() }
    }
}

impl Source for Again {
    fn start_at(&mut self, start_ns: u64) {
        let Some(reader) = self.reader.take() else { return };
        let (send, receive) = sync_channel(AHEAD);
        let (device, disorder_ns) = (self.wanted.device, self.wanted.disorder_ns);
        let reading = move || {
            let mut ordered = Ordered::new(reader, disorder_ns);
            let mut part = Vec::with_capacity(PART);
            // Where the file is torn, or cannot be read any further, it ends; that requests are missing shows in the counts.
            while let Ok(Some(request)) = ordered.next() {
                if device.is_none_or(|wanted| wanted == request.device) {
                    part.push(request);
                }
                if part.len() == PART && send.send(std::mem::replace(&mut part, Vec::with_capacity(PART))).is_err() {
                    return;
                }
            }
            let _ = send.send(part);
        };
        // Without a thread there is nothing to issue, which shows like a trace that cannot be read.
        if std::thread::Builder::new().name("brickyard-trace".into()).spawn(reading).is_ok() {
            self.parts = Some(receive);
        }
        self.advance();
        self.start_ns = start_ns;
        self.first_ns = self.next.map_or(0, |request| request.arrival_ns);
        self.timed = LogTimed::new(self.first_ns as i64, start_ns, Speed::constant(self.wanted.speed));
    }

    fn due(&self) -> Due {
        let Some(request) = &self.next else { return Due::Never };
        let Some(dependence) = &self.dependence else { return Due::At(self.timed.due_ns(request.arrival_ns as i64)) };
        let speed = self.wanted.speed;
        let scaled = |ns: u64| if speed == 1.0 { ns } else { (ns as f64 / speed) as u64 };
        dependence.due_ns(request, self.start_ns, self.first_ns, scaled).map_or(Due::Later, Due::At)
    }

    fn next(&mut self, slot: u32, _now_ns: u64, _last: Option<&Completion>) -> Next {
        let Some(request) = self.next else { return Next::End };
        let due = if self.dependence.is_some() { self.due() } else { Due::Never };
        if let (Some(dependence), Due::At(due_ns)) = (&mut self.dependence, due) {
            dependence.issued(slot, &request, due_ns);
        }
        let issue = self.issue(&request);
        self.advance();
        Next::Do(issue)
    }

    fn skip_until(&mut self, now_ns: u64) -> u64 {
        let mut skipped = 0;
        while matches!(self.due(), Due::At(due_ns) if due_ns <= now_ns) {
            skipped += 1;
            match &self.dependence {
                // What follows waits for this one, which will never end.
                Some(_) => break,
                None => self.advance(),
            }
        }
        skipped
    }

    fn ended(&mut self, slot: u32, completion: &Completion, _good: bool) {
        if let Some(dependence) = &mut self.dependence {
            dependence.ended(slot, completion.ended_ns);
        }
    }

    fn durable(&self) -> bool {
        self.durable
    }
}
