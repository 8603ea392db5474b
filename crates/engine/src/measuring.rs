//! The measuring loop: takes operations from its lanes when they are due, hands them to a device, and records how each
//! of them ended. One loop serves real and virtual time; it reads no clock but the device's, and prints nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use record::{CellSet, FRAMES, OPERATIONS};

use crate::control::{Control, State};
use crate::device::{Completion, Device, Entry, Operation, Order, Until};
use crate::frames::{FrameCounts, MissedFrame};
use crate::lane::{Lane, LaneSpec, Pacer, Slot};
use crate::note::{Failure, FailureCounts, Note};
use crate::slowest::{Slow, Slowest};
use crate::source::{ChainKind, Next, Part, Request};
use crate::timeline::{Kind, Timeline};
use crate::verify::{Damage, ReadTicket, WriteOutcome};

/// A real loop looks at its control at least so often, so that a stop takes effect within 200 ms.
const TICK_NS: u64 = 50_000_000;
/// Failures that a loop describes one by one in an interval; the rest is only counted.
const FAILURES_DESCRIBED: usize = 100;

/// What a loop hands over at the end of an interval.
pub struct Report {
    pub loop_index: usize,
    pub interval: u32,
    pub kind: Kind,
    pub start_ns: u64,
    pub end_ns: u64,
    pub cells: CellSet,
    /// Time that the loop spent on its own, not in the kernel or a model.
    pub own_ns: u64,
    pub notes: Vec<Note>,
    /// All failures of the interval, described in `notes` or not.
    pub failures: FailureCounts,
}

/// Takes reports; may change the control before it returns, which is how virtual time is steered.
pub trait Sink {
    /// Gives back a cleared set of cells of the same shape.
    fn report(&mut self, report: Report) -> CellSet;

    /// What cannot wait for the end of the interval.
    fn tell(&mut self, notes: Vec<Note>);
}

/// How a loop ended.
pub struct Outcome {
    pub end_ns: u64,
    /// Due and never issued.
    pub unsent: u64,
    /// Issued and never ended.
    pub outstanding: u64,
    pub slowest: Slowest,
    /// All lanes ran out of requests, bytes or passes.
    pub exhausted: bool,
    /// Of every lane that has frames.
    pub frames: Vec<FrameCounts>,
}

/// The frame of a request whose end its frame has been told of.
const HEARD: u64 = u64::MAX;

/// Requests that ended alike, counted together: most of a batch differs in nothing.
#[derive(Clone, Copy, PartialEq)]
struct Tally {
    stream: u16,
    operation: u8,
    requests: u64,
    bytes: u64,
    service_ns: u64,
    response_ns: u64,
    lateness_ns: u64,
}

const EMPTY_TALLY: Tally =
    Tally { stream: 0, operation: 0, requests: 0, bytes: 0, service_ns: 0, response_ns: 0, lateness_ns: 0 };

pub struct Loop<'a, D: Device, S: Sink> {
    device: D,
    sink: &'a mut S,
    control: Arc<Control>,
    timeline: Timeline,
    loop_index: usize,
    hang_after_ns: u64,
    stop_on_error: bool,
    lanes: Vec<Lane>,
    slots: Vec<Slot>,
    tickets: Vec<Option<ReadTicket>>,
    /// Slots that wait for think time or for their source, by due time.
    sleeping: BinaryHeap<Reverse<(u64, u32)>>,
    cells: CellSet,
    tally: Tally,
    /// Requests in flight a stream, now and at the most in this interval.
    depth: Vec<(u32, u32)>,
    slowest: Slowest,
    notes: Vec<Note>,
    failures: FailureCounts,
    damage: Vec<Damage>,
    in_flight: u32,
    /// Lanes with a schedule of their own.
    open_lanes: Vec<usize>,
    /// Lanes whose requests make frames.
    frame_lanes: Vec<usize>,
    dropped: Vec<MissedFrame>,
    lockstep: bool,
    issuing: bool,
    /// When issuing ended.
    issued_until_ns: u64,
    unsent: u64,
    version: u32,
    interval: u32,
    interval_start_ns: u64,
    boundary_ns: u64,
    kind: Kind,
    away_before_ns: u64,
    watched_ns: u64,
    last_end_ns: u64,
}

/// Number of slots and bytes of buffer that lanes need together.
pub fn needs(lanes: &[LaneSpec]) -> (u32, u32) {
    let slots = lanes.iter().map(|l| l.depth_max).sum();
    (slots, lanes.iter().map(|l| l.buffer_bytes).max().unwrap_or(0))
}

/// Circumstances of a loop.
pub struct LoopSpec {
    pub loop_index: usize,
    pub streams: usize,
    pub timeline: Timeline,
    pub hang_after_ns: u64,
    pub stop_on_error: bool,
    pub control: Arc<Control>,
}

impl<'a, D: Device, S: Sink> Loop<'a, D, S> {
    pub fn new(device: D, sink: &'a mut S, lanes: Vec<LaneSpec>, spec: LoopSpec) -> Self {
        let mut cells = CellSet::new(spec.streams);
        let mut slots = Vec::new();
        let mut open_lanes = Vec::new();
        let mut built = Vec::new();
        let mut frame_lanes = Vec::new();
        let lockstep = lanes.iter().any(|lane| lane.lockstep.is_some());
        for (number, mut lane) in lanes.into_iter().enumerate() {
            if let Some(frames) = &mut lane.frames {
                frames.start_at(spec.timeline.start_ns, spec.timeline.measure_start_ns());
                frame_lanes.push(number);
            }
            let open = matches!(lane.pacer, Pacer::Open(_));
            if open {
                open_lanes.push(number);
            }
            for operation in 0..OPERATIONS {
                let flushes = operation == Operation::Flush as usize && lane.flush_every.is_some();
                if lane.operations[operation] || flushes {
                    cells.open(usize::from(lane.stream), operation, open);
                }
            }
            let first_slot = slots.len() as u32;
            let empty = Slot {
                due_ns: 0,
                queued_ns: 0,
                offset_bytes: 0,
                request_bytes: 0,
                lane: number as u16,
                stream: lane.stream,
                operation: Operation::Read,
                in_flight: false,
                hang_named: false,
                part: Part::Whole,
                chain_failed: false,
                chain: ChainKind::Steps,
                entry: Entry::default(),
                chain_due_ns: 0,
                chain_submitted_ns: 0,
                frame: 0,
            };
            slots.resize(slots.len() + lane.depth_max as usize, empty);
            built.push(Lane::new(lane, first_slot, spec.timeline.start_ns));
        }
        let start_ns = spec.timeline.start_ns;
        let (boundary_ns, kind) = spec.timeline.next(start_ns);
        let count = slots.len();
        Loop {
            device,
            sink,
            control: spec.control,
            timeline: spec.timeline,
            loop_index: spec.loop_index,
            hang_after_ns: spec.hang_after_ns,
            stop_on_error: spec.stop_on_error,
            lanes: built,
            slots,
            tickets: (0..count).map(|_| None).collect(),
            sleeping: BinaryHeap::with_capacity(count),
            cells,
            tally: EMPTY_TALLY,
            depth: vec![(0, 0); spec.streams],
            slowest: Slowest::default(),
            notes: Vec::new(),
            failures: FailureCounts::default(),
            damage: Vec::new(),
            in_flight: 0,
            open_lanes,
            frame_lanes,
            dropped: Vec::new(),
            lockstep,
            issuing: true,
            issued_until_ns: u64::MAX,
            unsent: 0,
            version: 0,
            interval: 0,
            interval_start_ns: start_ns,
            boundary_ns,
            kind,
            away_before_ns: 0,
            watched_ns: start_ns,
            last_end_ns: start_ns,
        }
    }

    /// Runs the phase to its end. An error means that the device can't go on; what was measured has been reported.
    pub fn run(mut self) -> Result<Outcome, String> {
        let mut done = Vec::with_capacity(self.slots.len());
        let mut now_ns = self.wait_for_start()?;
        self.away_before_ns = self.device.away_ns();
        self.start_lanes(now_ns);
        let mut failed = None;
        while self.in_flight > 0 || (self.issuing && self.has_more()) {
            let until = self.until(now_ns);
            done.clear();
            now_ns = match self.device.turn(until, &mut done) {
                Ok(now_ns) => now_ns,
                Err(message) => {
                    failed = Some(message);
                    break;
                }
            };
            if now_ns >= self.boundary_ns && !self.frame_lanes.is_empty() {
                self.end_frames_before(self.boundary_ns, &done);
            }
            while now_ns >= self.boundary_ns {
                self.close_interval(self.boundary_ns);
            }
            for completion in &done {
                self.complete(completion);
            }
            // Before anything more is issued: a new rate begins with what is due at this very instant.
            if self.control.version() != self.version && self.heed_control(now_ns) == State::Abandon {
                break;
            }
            if self.issuing {
                self.issue_due(now_ns);
            }
            if now_ns - self.watched_ns >= TICK_NS {
                self.watch(now_ns);
            }
        }
        self.settle(now_ns);
        match failed {
            Some(message) => Err(message),
            None => Ok(Outcome {
                end_ns: self.last_end_ns,
                unsent: self.unsent,
                outstanding: u64::from(self.in_flight),
                exhausted: self.issuing,
                frames: self.frame_counts(),
                slowest: self.slowest,
            }),
        }
    }

    fn wait_for_start(&mut self) -> Result<u64, String> {
        let mut nothing = Vec::new();
        let mut now_ns = self.device.now_ns();
        while now_ns < self.timeline.start_ns {
            now_ns = self.device.turn(Until { ns: self.timeline.start_ns, precise: true }, &mut nothing)?;
        }
        Ok(now_ns)
    }

    fn start_lanes(&mut self, now_ns: u64) {
        self.heed_control(now_ns);
        self.top_up(now_ns);
        self.issue_due(now_ns);
    }

    /// Fills the free slots of closed lanes.
    fn top_up(&mut self, now_ns: u64) {
        for lane in 0..self.lanes.len() {
            if matches!(self.lanes[lane].spec.pacer, Pacer::Closed { .. }) {
                while self.lanes[lane].may_issue() {
                    let Some(slot) = self.lanes[lane].free.pop() else { break };
                    self.issue(slot, now_ns, now_ns, None);
                }
            }
        }
    }

    fn has_more(&self) -> bool {
        self.lanes.iter().any(|l| !l.ended)
    }

    #[inline(always)]
    fn until(&self, now_ns: u64) -> Until {
        let mut ns = self.boundary_ns;
        if !D::VIRTUAL {
            ns = ns.min(now_ns + TICK_NS);
        } else if self.kind == Kind::Drain {
            // Nothing else bounds a drain in virtual time, and what hangs in it must still be named.
            ns = now_ns.saturating_add(self.hang_after_ns);
        }
        let mut precise = false;
        if self.issuing {
            for lane in &self.open_lanes {
                let lane = &self.lanes[*lane];
                if let (Pacer::Open(schedule), true) = (&lane.spec.pacer, lane.may_issue()) {
                    let due_ns = schedule.due_ns();
                    if due_ns < ns {
                        (ns, precise) = (due_ns, true);
                    }
                }
            }
            if let Some(Reverse((due_ns, _))) = self.sleeping.peek()
                && *due_ns < ns
            {
                (ns, precise) = (*due_ns, true);
            }
        }
        Until { ns, precise }
    }

    /// Issues what has become due by now.
    #[inline(always)]
    fn issue_due(&mut self, now_ns: u64) {
        while let Some(Reverse((due_ns, slot))) = self.sleeping.peek().copied() {
            if due_ns > now_ns {
                break;
            }
            self.sleeping.pop();
            self.issue(slot, due_ns, now_ns, None);
        }
        for i in 0..self.open_lanes.len() {
            let number = self.open_lanes[i];
            while self.lanes[number].may_issue() {
                let lane = &mut self.lanes[number];
                let Pacer::Open(schedule) = &mut lane.spec.pacer else { break };
                let due_ns = schedule.due_ns();
                if due_ns > now_ns {
                    break;
                }
                let Some(slot) = lane.free.pop() else { break };
                schedule.advance();
                self.issue(slot, due_ns, now_ns, None);
            }
        }
    }

    /// Asks the lane's source for an operation and queues it.
    #[inline(always)]
    fn issue(&mut self, slot_number: u32, due_ns: u64, now_ns: u64, last: Option<&Completion>) {
        let slot = &mut self.slots[slot_number as usize];
        let lane = &mut self.lanes[usize::from(slot.lane)];
        lane.ended |= lane.spec.requests_left == 0 || lane.spec.bytes_left == 0;
        if !lane.may_issue() {
            lane.free.push(slot_number);
            return;
        }
        let mut flush_call = plan::FlushCall::Fdatasync;
        slot.part = Part::Whole;
        let request = if let Some(call) = lane.owed_flush() {
            flush_call = call;
            Request::flush(0)
        } else {
            let next = lane.spec.source.next(slot_number - lane.first_slot, now_ns, last);
            if let Next::Step(_, part, chain) = next {
                slot.part = part;
                if matches!(part, Part::First | Part::Only) {
                    (slot.chain_due_ns, slot.chain_failed, slot.chain) = (due_ns, false, chain);
                }
            }
            match next {
                Next::Do(request) | Next::Step(request, ..) => {
                    let counts = request.operation != Operation::Flush || !lane.spec.flushes_on_top;
                    lane.spec.requests_left -= u64::from(counts);
                    lane.spec.bytes_left = lane.spec.bytes_left.saturating_sub(u64::from(request.request_bytes));
                    // Known at once: a lane must not wait for its next due time to learn that it has nothing left.
                    lane.ended = lane.spec.requests_left == 0 || lane.spec.bytes_left == 0;
                    request
                }
                Next::Wait(until_ns) => {
                    self.sleeping.push(Reverse((until_ns.max(now_ns + 1), slot_number)));
                    return;
                }
                Next::End => {
                    lane.ended = true;
                    lane.free.push(slot_number);
                    return;
                }
            }
        };
        lane.take_of_round(request.request_bytes);
        if let Some(frames) = &mut lane.spec.frames {
            slot.frame = frames.begin(due_ns);
        }
        slot.due_ns = due_ns;
        slot.queued_ns = now_ns;
        slot.operation = request.operation;
        slot.offset_bytes = request.offset_bytes;
        slot.request_bytes = request.request_bytes;
        slot.entry = request.entry;
        slot.in_flight = true;
        slot.hang_named = false;
        lane.in_flight += 1;
        self.in_flight += 1;
        let depth = &mut self.depth[usize::from(slot.stream)];
        depth.0 += 1;
        depth.1 = depth.1.max(depth.0);
        let order = Order {
            slot: slot_number,
            target: lane.spec.target,
            operation: request.operation,
            sync: lane.spec.sync,
            flush_call,
            request_bytes: request.request_bytes,
            offset_bytes: request.offset_bytes,
            entry: request.entry,
        };
        match request.operation {
            Operation::Write | Operation::Append | Operation::Put => {
                lane.writes_since_flush += 1;
                let buffer = self.device.buffer(slot_number, request.request_bytes);
                if let Some(verifier) = &lane.spec.verifier {
                    verifier.begin_write(request.offset_bytes, request.pass, buffer);
                } else if let Some(payload) = &lane.spec.payload {
                    // Lanes count their writes apart, so the lane stands in the sequence too.
                    let sequence = lane.writes << 16 | u64::from(slot.lane);
                    payload.fill(buffer, request.offset_bytes, sequence);
                } else {
                    lane.spec.source.dirty(buffer);
                }
                lane.writes += 1;
            }
            Operation::Read => {
                if let Some(verifier) = &lane.spec.verifier {
                    let bytes = u64::from(request.request_bytes);
                    self.tickets[slot_number as usize] = Some(verifier.begin_read(request.offset_bytes, bytes));
                }
            }
            _ => {}
        }
        self.device.queue(&order);
    }

    /// Records the end of a request and gives its slot the next one.
    #[inline(always)]
    fn complete(&mut self, completion: &Completion) {
        let slot = &mut self.slots[completion.slot as usize];
        slot.in_flight = false;
        let (stream, operation, lane_number) = (slot.stream, slot.operation, usize::from(slot.lane));
        let request_bytes = slot.request_bytes;
        let service_ns = completion.ended_ns.saturating_sub(completion.submitted_ns);
        let response_ns = completion.ended_ns.saturating_sub(slot.due_ns);
        let lateness_ns = completion.submitted_ns.saturating_sub(slot.due_ns);
        self.depth[usize::from(stream)].0 -= 1;
        self.in_flight -= 1;
        self.lanes[lane_number].in_flight -= 1;
        self.last_end_ns = self.last_end_ns.max(completion.ended_ns);
        let good = completion.result == request_bytes as i32 || (completion.result >= 0 && !operation.moves_data());
        if self.lanes[lane_number].spec.frames.is_some() {
            self.end_of_frame(completion);
        }
        let verified = self.lanes[lane_number].spec.verifier.is_none() || self.check_data(completion, good);
        if good && verified {
            let tally = &mut self.tally;
            if tally.service_ns == service_ns
                && tally.response_ns == response_ns
                && tally.stream == stream
                && tally.operation == operation as u8
                && tally.lateness_ns == lateness_ns
            {
                tally.requests += 1;
                tally.bytes += u64::from(request_bytes);
            } else {
                self.flush_tally();
                self.tally = Tally {
                    stream,
                    operation: operation as u8,
                    requests: 1,
                    bytes: u64::from(request_bytes),
                    service_ns,
                    response_ns,
                    lateness_ns,
                };
            }
            if self.slowest.wants(response_ns) && self.kind != Kind::Warmup {
                let slot = &self.slots[completion.slot as usize];
                let slow = Slow::new(
                    response_ns,
                    service_ns,
                    completion.ended_ns,
                    slot.offset_bytes,
                    request_bytes,
                    stream,
                    operation,
                );
                self.slowest.offer(slow);
            }
        } else {
            self.count_failure(completion, good);
        }
        if self.slots[completion.slot as usize].part != Part::Whole && self.step_chain(completion, good, verified) {
            self.issue(completion.slot, completion.ended_ns, completion.ended_ns, Some(completion));
            return;
        }
        self.follow(completion, lane_number);
        if self.lockstep {
            self.open_gate(completion.ended_ns, lane_number);
        }
    }

    /// The last lane to arrive lets all lanes begin their next round.
    #[inline(never)]
    fn open_gate(&mut self, now_ns: u64, lane_number: usize) {
        if self.issuing && self.lanes[lane_number].has_arrived() && self.lanes.iter().all(Lane::has_arrived) {
            self.lanes.iter_mut().for_each(Lane::next_round);
            self.top_up(now_ns);
        }
    }

    /// Requests that ended before the boundary belong to frames that may be in time, so they are heard before those
    /// that are missing there are counted.
    fn end_frames_before(&mut self, boundary_ns: u64, done: &[Completion]) {
        for completion in done.iter().filter(|c| c.ended_ns < boundary_ns) {
            self.end_of_frame(completion);
        }
        let mut dropped = std::mem::take(&mut self.dropped);
        for i in 0..self.frame_lanes.len() {
            let lane = &mut self.lanes[self.frame_lanes[i]];
            let (stream, worker, aside) = (lane.spec.stream, lane.spec.index, lane.aside);
            if let (Some(frames), false) = (&mut lane.spec.frames, aside || self.kind == Kind::Drain) {
                frames.sweep(boundary_ns, lane.ended, &mut dropped);
            }
            for missed in dropped.drain(..) {
                self.count_drop(stream, worker, missed);
            }
        }
        self.dropped = dropped;
    }

    fn count_drop(&mut self, stream: u16, worker: u32, missed: MissedFrame) {
        self.cells.get_mut(usize::from(stream), FRAMES).dropped += 1;
        if self.notes.len() < FAILURES_DESCRIBED {
            self.notes.push(Note::Dropped { stream, worker, missed });
        }
    }

    /// Tells a lane's frames of the end of a request, once.
    #[inline(never)]
    fn end_of_frame(&mut self, completion: &Completion) {
        let slot = &mut self.slots[completion.slot as usize];
        let lane = &mut self.lanes[usize::from(slot.lane)];
        let Some(frames) = &mut lane.spec.frames else { return };
        if slot.frame == HEARD {
            return;
        }
        let frame = std::mem::replace(&mut slot.frame, HEARD);
        let good = completion.result == slot.request_bytes as i32;
        let Some(ended) = frames.end(frame, completion, good) else { return };
        let (stream, worker) = (slot.stream, lane.spec.index);
        let cell = self.cells.get_mut(usize::from(stream), FRAMES);
        if ended.failed {
            cell.errors += 1;
        } else {
            cell.requests += 1;
            cell.service.record(ended.service_ns, 1);
            cell.response.record(ended.response_ns, 1);
            if let Some(lateness) = &mut cell.lateness {
                lateness.record(ended.lateness_ns, 1);
            }
        }
        if let Some(missed) = ended.dropped {
            self.count_drop(stream, worker, missed);
        }
    }

    fn frame_counts(&mut self) -> Vec<FrameCounts> {
        let until_ns = self.issued_until_ns.min(self.last_end_ns.max(self.interval_start_ns));
        let until = |lane: &Lane| if lane.aside || lane.ended { 0 } else { until_ns };
        self.lanes.iter_mut().filter_map(|lane| Some(lane.spec.frames.take()?.finish(until(lane)))).collect()
    }

    /// Counts a chain that ended, whole or broken. True: it has a further step, and may take it.
    #[inline(never)]
    fn step_chain(&mut self, completion: &Completion, good: bool, verified: bool) -> bool {
        let slot = &mut self.slots[completion.slot as usize];
        slot.chain_failed |= !good || !verified;
        if matches!(slot.part, Part::First | Part::Only) {
            slot.chain_submitted_ns = completion.submitted_ns;
        }
        let over = !good || matches!(slot.part, Part::Last | Part::Only);
        if !over {
            return self.issuing;
        }
        let slot = *slot;
        if !good {
            let lane = &mut self.lanes[usize::from(slot.lane)];
            lane.spec.source.abort(completion.slot - lane.first_slot);
        }
        let cell = self.cells.get_mut(usize::from(slot.stream), slot.chain.cell());
        if slot.chain_failed {
            cell.errors += 1;
        } else {
            cell.requests += 1;
            cell.service.record(completion.ended_ns.saturating_sub(slot.chain_submitted_ns), 1);
            cell.response.record(completion.ended_ns.saturating_sub(slot.chain_due_ns), 1);
            if let Some(lateness) = &mut cell.lateness {
                lateness.record(slot.chain_submitted_ns.saturating_sub(slot.chain_due_ns), 1);
            }
        }
        false
    }

    /// What a slot does after its request ended.
    #[inline(always)]
    fn follow(&mut self, completion: &Completion, lane_number: usize) {
        let lane = &mut self.lanes[lane_number];
        match lane.spec.pacer {
            Pacer::Closed { think_ns: 0 } if self.issuing => {
                self.issue(completion.slot, completion.ended_ns, completion.ended_ns, Some(completion));
            }
            Pacer::Closed { think_ns } if self.issuing => {
                self.sleeping.push(Reverse((completion.ended_ns + think_ns, completion.slot)));
            }
            _ => lane.free.push(completion.slot),
        }
    }

    #[inline(always)]
    fn flush_tally(&mut self) {
        let t = self.tally;
        if t.requests == 0 {
            return;
        }
        let cell = self.cells.get_mut(usize::from(t.stream), usize::from(t.operation));
        cell.requests += t.requests;
        cell.bytes += t.bytes;
        cell.service.record(t.service_ns, t.requests);
        cell.response.record(t.response_ns, t.requests);
        if let Some(lateness) = &mut cell.lateness {
            lateness.record(t.lateness_ns, t.requests);
        }
        self.tally.requests = 0;
        self.tally.bytes = 0;
    }

    /// Tells the verifier how a request ended. False: the data that a read brought is damaged.
    fn check_data(&mut self, completion: &Completion, good: bool) -> bool {
        let slot = self.slots[completion.slot as usize];
        let Some(verifier) = &self.lanes[usize::from(slot.lane)].spec.verifier else { return true };
        match slot.operation {
            Operation::Write => {
                let outcome = match completion.result {
                    _ if good => WriteOutcome::Done,
                    moved if moved > 0 => WriteOutcome::Short(moved as u64),
                    _ => WriteOutcome::Failed,
                };
                verifier.end_write(slot.offset_bytes, u64::from(slot.request_bytes), outcome);
                true
            }
            Operation::Read => {
                let Some(ticket) = self.tickets[completion.slot as usize].take() else { return true };
                if !good {
                    return true;
                }
                self.damage.clear();
                let buffer = self.device.buffer(completion.slot, slot.request_bytes);
                verifier.end_read(ticket, buffer, &mut self.damage);
                self.damage.is_empty()
            }
            _ => true,
        }
    }

    #[cold]
    fn count_failure(&mut self, completion: &Completion, moved_all: bool) {
        let slot = self.slots[completion.slot as usize];
        self.cells.get_mut(usize::from(slot.stream), slot.operation as usize).errors += 1;
        if self.stop_on_error {
            self.control.set_state(State::Drain);
        }
        let failures: Vec<(Failure, u64)> = if moved_all {
            self.damage.drain(..).map(|d| (d.offset_bytes, d)).map(|(at, d)| (Failure::Damage(d), at)).collect()
        } else if completion.result < 0 {
            vec![(Failure::Errno(-completion.result), slot.offset_bytes)]
        } else {
            vec![(Failure::Short(completion.result as u32), slot.offset_bytes)]
        };
        for (failure, offset_bytes) in failures {
            self.failures.add(&failure);
            if self.notes.len() < FAILURES_DESCRIBED {
                self.notes.push(Note::Failed {
                    at_ns: completion.ended_ns,
                    stream: slot.stream,
                    operation: slot.operation,
                    offset_bytes,
                    request_bytes: slot.request_bytes,
                    entry: slot.entry,
                    failure,
                });
            }
        }
    }

    /// Adopts what the control asks for.
    #[cold]
    fn heed_control(&mut self, now_ns: u64) -> State {
        self.version = self.control.version();
        let state = self.control.state();
        if state != State::Run {
            if self.issuing {
                self.stop_issuing(now_ns);
                self.drain_from(now_ns);
            }
        } else {
            let knobs = self.control.knobs();
            for lane in &mut self.lanes {
                lane.adopt(knobs, now_ns);
            }
            if self.issuing {
                self.top_up(now_ns);
            }
        }
        state
    }

    /// From here on nothing is issued; what was due by now and not issued is counted.
    fn stop_issuing(&mut self, at_ns: u64) {
        if !self.issuing {
            return;
        }
        self.issuing = false;
        self.issued_until_ns = at_ns.saturating_add(1);
        for lane in &mut self.lanes {
            if let (Pacer::Open(schedule), false) = (&mut lane.spec.pacer, lane.ended || lane.aside) {
                // With a fixed number of requests, no more than those that were left can have been due.
                let due = if at_ns == u64::MAX { 0 } else { schedule.skip_until(at_ns) };
                self.unsent += due.min(lane.spec.requests_left);
            }
        }
    }

    /// What is in flight when the phase is ended early counts as it does when the phase ends by its time.
    fn drain_from(&mut self, now_ns: u64) {
        if self.kind == Kind::Drain {
            return;
        }
        if !self.frame_lanes.is_empty() {
            self.end_frames_before(now_ns, &[]);
        }
        if now_ns > self.interval_start_ns {
            self.hand_over(now_ns);
        }
        (self.boundary_ns, self.kind) = (u64::MAX, Kind::Drain);
    }

    /// Hands the interval over and begins the next.
    fn close_interval(&mut self, end_ns: u64) {
        self.hand_over(end_ns);
        let (boundary_ns, kind) = self.timeline.next(end_ns);
        (self.boundary_ns, self.kind) = (boundary_ns, kind);
        if kind == Kind::Drain {
            self.stop_issuing(end_ns.saturating_sub(1));
        }
    }

    fn hand_over(&mut self, end_ns: u64) {
        self.flush_tally();
        for (stream, depth) in self.depth.iter_mut().enumerate() {
            for operation in 0..OPERATIONS {
                if self.cells.is_open(stream, operation) {
                    self.cells.get_mut(stream, operation).depth_max = depth.1;
                }
            }
            depth.1 = depth.0;
        }
        let away_ns = self.device.away_ns();
        let length_ns = end_ns.saturating_sub(self.interval_start_ns);
        let report = Report {
            loop_index: self.loop_index,
            interval: self.interval,
            kind: self.kind,
            start_ns: self.interval_start_ns,
            end_ns,
            cells: std::mem::take(&mut self.cells),
            own_ns: length_ns.saturating_sub(away_ns - self.away_before_ns),
            notes: std::mem::take(&mut self.notes),
            failures: std::mem::take(&mut self.failures),
        };
        self.away_before_ns = away_ns;
        self.cells = self.sink.report(report);
        self.interval += 1;
        self.interval_start_ns = end_ns;
    }

    /// Names requests that have been outstanding for too long, while they hang.
    #[cold]
    fn watch(&mut self, now_ns: u64) {
        self.watched_ns = now_ns;
        for slot in &mut self.slots {
            let outstanding_ns = now_ns.saturating_sub(slot.queued_ns);
            if slot.in_flight && !slot.hang_named && outstanding_ns > self.hang_after_ns {
                slot.hang_named = true;
                self.notes.push(Note::Hangs {
                    at_ns: now_ns,
                    stream: slot.stream,
                    operation: slot.operation,
                    offset_bytes: slot.offset_bytes,
                    request_bytes: slot.request_bytes,
                    outstanding_ns,
                });
            }
        }
        if self.notes.iter().any(|n| matches!(n, Note::Hangs { .. })) {
            // A hang is told at once, not at the end of its interval.
            let notes = std::mem::take(&mut self.notes);
            self.sink.tell(notes);
        }
    }

    /// Reports the last interval, which ends with the last request.
    fn settle(&mut self, now_ns: u64) {
        let end_ns = if self.in_flight > 0 { now_ns } else { self.last_end_ns.max(self.interval_start_ns) };
        if end_ns > self.interval_start_ns || self.tally.requests > 0 || !self.notes.is_empty() {
            self.hand_over(end_ns);
        }
        self.last_end_ns = end_ns;
    }
}
