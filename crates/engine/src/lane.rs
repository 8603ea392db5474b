//! A lane: a logical worker without a thread. A source of operations, a pacer, and slots for what is in flight.

use std::sync::Arc;

use pace::Schedule;
use plan::{FlushCall, FlushEvery, Lockstep, SyncMode};

use crate::control::Knobs;
use crate::device::{Completion, Device, Entry, Operation, Order};
use crate::frames::FrameJudge;
use crate::pattern::Pattern;
use crate::payload::Payload;
use crate::source::{ChainKind, Due, Next, Part, Request, Source};
use crate::verify::Verifier;

/// When a lane's operations are due.
pub enum Pacer {
    /// When the one before it in its slot ended, plus think time.
    Closed {
        think_ns: u64,
    },
    Open(Schedule),
    /// When its source says.
    Own,
}

/// Where a lane's operations come from. A pattern is known as one, so that a request of it costs no call.
pub enum LaneSource {
    Pattern(Box<Pattern>),
    Other(Box<dyn Source>),
}

impl Source for LaneSource {
    fn next(&mut self, slot: u32, now_ns: u64, last: Option<&Completion>) -> Next {
        match self {
            LaneSource::Pattern(pattern) => Next::Do(pattern.next()),
            LaneSource::Other(source) => source.next(slot, now_ns, last),
        }
    }

    fn start_at(&mut self, start_ns: u64) {
        if let LaneSource::Other(source) = self {
            source.start_at(start_ns);
        }
    }

    fn due(&self) -> Due {
        match self {
            LaneSource::Pattern(_) => Due::Never,
            LaneSource::Other(source) => source.due(),
        }
    }

    fn skip_until(&mut self, now_ns: u64) -> u64 {
        match self {
            LaneSource::Pattern(_) => 0,
            LaneSource::Other(source) => source.skip_until(now_ns),
        }
    }

    fn durable(&self) -> bool {
        match self {
            LaneSource::Pattern(_) => false,
            LaneSource::Other(source) => source.durable(),
        }
    }

    fn abort(&mut self, slot: u32) {
        if let LaneSource::Other(source) = self {
            source.abort(slot);
        }
    }

    fn ended(&mut self, slot: u32, completion: &Completion, good: bool) {
        if let LaneSource::Other(source) = self {
            source.ended(slot, completion, good);
        }
    }

    fn dirty(&mut self, buffer: &mut [u8]) {
        if let LaneSource::Other(source) = self {
            source.dirty(buffer);
        }
    }
}

/// What a lane is made of.
pub struct LaneSpec {
    pub stream: u16,
    pub target: u16,
    /// Which of its stream's lanes, counted from 0.
    pub index: u32,
    pub depth: u32,
    /// The most slots a ramp may ask for.
    pub depth_max: u32,
    pub source: LaneSource,
    pub pacer: Pacer,
    pub buffer_bytes: u32,
    pub operations: [bool; record::OPERATIONS],
    pub sync: SyncMode,
    pub flush_every: Option<FlushEvery>,
    /// Requests and bytes that the lane may issue.
    pub requests_left: u64,
    pub bytes_left: u64,
    /// Flushes of the operation mix do not count as requests: a pass is made of what touches the region.
    pub flushes_on_top: bool,
    pub payload: Option<Arc<Payload>>,
    pub verifier: Option<Arc<Verifier>>,
    /// Whose blocks writes prepare, where they fill a target that is verified later.
    pub prepares: Vec<Arc<Verifier>>,
    pub frames: Option<Box<FrameJudge>>,
    /// How far the lane goes before it waits for all others.
    pub lockstep: Option<Lockstep>,
}

/// A lane at work.
pub(crate) struct Lane {
    pub spec: LaneSpec,
    /// Slots that are not in flight, as numbers of the loop.
    pub free: Vec<u32>,
    pub first_slot: u32,
    /// Which of its loop's lanes, counted from 0.
    pub number: u16,
    pub in_flight: u32,
    /// How many slots the knobs allow now.
    pub depth_now: u32,
    /// Sequence number of the next write, for its data.
    pub writes: u64,
    pub writes_since_flush: u32,
    /// Of the next request.
    pub sync: SyncMode,
    pub ended: bool,
    /// Requests or bytes that are left of this round of the lockstep.
    pub round_left: u64,
    /// Waits for the other lanes; or a ramp has set it aside.
    pub held: bool,
    pub aside: bool,
    /// Its requests hang together or are checked: chains, frames, rounds, flushes that are owed, verification. All of
    /// that is off the path of a lane that has none.
    pub tied: bool,
    /// A slot gets its next request at the instant that the one before ended, and from a pattern alone.
    pub follows_at_once: bool,
}

/// A request in flight.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub due_ns: u64,
    pub queued_ns: u64,
    pub offset_bytes: u64,
    pub request_bytes: u32,
    pub lane: u16,
    pub stream: u16,
    pub operation: Operation,
    pub in_flight: bool,
    pub hang_named: bool,
}

/// What ties a slot's request to others, where its lane is `tied`.
#[derive(Clone, Copy)]
pub(crate) struct Ties {
    pub part: Part,
    /// What this slot's chain is counted as.
    pub chain: ChainKind,
    /// A step of this slot's chain has failed.
    pub chain_failed: bool,
    /// When the first step of this slot's chain was due and submitted.
    pub chain_due_ns: u64,
    pub chain_submitted_ns: u64,
    /// The slot's request is the flush that its write owed.
    pub owed: Option<Owed>,
    /// Number of the frame that the request belongs to, where its lane has frames.
    pub frame: u64,
    pub entry: Entry,
}

/// The write whose flush is in flight.
#[derive(Clone, Copy)]
pub(crate) struct Owed {
    pub due_ns: u64,
    pub submitted_ns: u64,
    pub failed: bool,
}

impl Slot {
    pub fn new(lane: u16, stream: u16) -> Slot {
        Slot {
            due_ns: 0,
            queued_ns: 0,
            offset_bytes: 0,
            request_bytes: 0,
            lane,
            stream,
            operation: Operation::Read,
            in_flight: false,
            hang_named: false,
        }
    }

    /// A request begins here.
    #[inline(always)]
    pub fn take(&mut self, request: &Request, due_ns: u64, now_ns: u64) {
        self.due_ns = due_ns;
        self.queued_ns = now_ns;
        self.offset_bytes = request.offset_bytes;
        self.request_bytes = request.request_bytes;
        self.operation = request.operation;
        self.in_flight = true;
        self.hang_named = false;
    }

    /// The request ends. True: it did all that was asked for.
    #[inline(always)]
    pub fn ends(&mut self, completion: &Completion) -> bool {
        self.in_flight = false;
        completion.result == self.request_bytes as i32 || (completion.result >= 0 && !self.operation.moves_data())
    }
}

impl Ties {
    pub const NONE: Ties = Ties {
        part: Part::Whole,
        chain: ChainKind::Steps,
        chain_failed: false,
        chain_due_ns: 0,
        chain_submitted_ns: 0,
        owed: None,
        frame: 0,
        entry: Entry { directory: 0, number: 0 },
    };
}

fn round_of(spec: &LaneSpec) -> u64 {
    spec.lockstep.map_or(u64::MAX, |l| l.requests.or(l.bytes.map(|b| b.0)).unwrap_or(u64::MAX))
}

impl Lane {
    pub fn new(mut spec: LaneSpec, number: u16, first_slot: u32, start_ns: u64) -> Lane {
        if let Pacer::Open(schedule) = &mut spec.pacer {
            schedule.start_at(start_ns);
        }
        spec.source.start_at(start_ns);
        let free = (first_slot..first_slot + spec.depth_max).rev().collect();
        let depth_now = spec.depth;
        let round_left = round_of(&spec);
        let bound = spec.verifier.is_some() || spec.frames.is_some() || spec.lockstep.is_some();
        let tied = bound || spec.flush_every.is_some() || matches!(spec.source, LaneSource::Other(_));
        let follows_at_once = !tied && matches!(spec.pacer, Pacer::Closed { think_ns: 0 });
        let ended = spec.requests_left == 0 || spec.bytes_left == 0;
        Lane {
            sync: spec.sync,
            spec,
            free,
            first_slot,
            number,
            in_flight: 0,
            depth_now,
            writes: 0,
            writes_since_flush: 0,
            ended,
            round_left,
            held: false,
            aside: false,
            tied,
            follows_at_once,
        }
    }

    /// The next round of the lockstep.
    pub fn next_round(&mut self) {
        (self.round_left, self.held) = (round_of(&self.spec), false);
    }

    /// A request is issued: so much less is left of the lane's limits. That it has ended is known at once, since a lane
    /// must not wait for its next due time to learn that it has nothing left.
    #[inline(always)]
    pub fn spend(&mut self, request: &Request) {
        let counts = request.operation != Operation::Flush || !self.spec.flushes_on_top;
        self.spec.requests_left -= u64::from(counts);
        self.spec.bytes_left = self.spec.bytes_left.saturating_sub(u64::from(request.request_bytes));
        self.ended = self.spec.requests_left == 0 || self.spec.bytes_left == 0;
    }

    /// A request is issued: so much less is left of this round.
    pub fn take_of_round(&mut self, request_bytes: u32) {
        if let Some(lockstep) = self.spec.lockstep {
            let taken = if lockstep.bytes.is_some() { u64::from(request_bytes) } else { 1 };
            self.round_left = self.round_left.saturating_sub(taken);
            self.held = self.round_left == 0;
        }
    }

    /// When the next request is due, where the lane has instants of its own; once its source has no more, it has ended.
    #[inline(always)]
    pub fn due_ns(&self) -> Due {
        match &self.spec.pacer {
            Pacer::Open(schedule) => Due::At(schedule.due_ns()),
            Pacer::Own => self.spec.source.due(),
            Pacer::Closed { .. } => Due::Never,
        }
    }

    /// Whether the lane has done its part of the round.
    pub fn has_arrived(&self) -> bool {
        self.in_flight == 0 && (self.held || self.ended)
    }

    /// Adopts new knob values.
    pub fn adopt(&mut self, knobs: Knobs, now_ns: u64) {
        self.depth_now = if knobs.depth > 0 { knobs.depth.min(self.spec.depth_max) } else { self.spec.depth };
        let aside = knobs.workers > 0 && self.spec.index >= knobs.workers;
        if aside {
            self.depth_now = 0;
        }
        // After an overloaded step of a search, players begin anew, without the frames that they were behind.
        let resumes = self.aside && !aside || knobs.forget && !aside && self.spec.frames.is_some();
        self.aside = aside;
        if let Pacer::Open(schedule) = &mut self.spec.pacer {
            if resumes {
                schedule.resume_at(now_ns);
            }
            if (knobs.rate_per_s > 0.0 || knobs.load_percent > 0.0) && knobs.forget {
                schedule.skip_until(now_ns);
            }
            if knobs.rate_per_s > 0.0 {
                schedule.set_rate(knobs.rate_per_s, now_ns);
            } else if knobs.load_percent > 0.0 {
                schedule.set_load(knobs.load_percent, now_ns);
            }
        }
        // A player that starts late starts with its first frame, in the middle of no other.
        if let (Some(frames), true) = (&mut self.spec.frames, resumes) {
            frames.resume_at(now_ns);
            self.spec.source.abort(0);
        }
    }

    #[inline(always)]
    pub fn may_issue(&self) -> bool {
        self.may_issue_beside(0)
    }

    /// As `may_issue`, if so many slots that count as in flight had ended.
    #[inline(always)]
    pub fn may_issue_beside(&self, ended: u32) -> bool {
        self.in_flight < self.depth_now + ended && !self.ended && !self.held
    }

    /// Another slot is in flight; `depth` counts those of the lane's stream, now and at the most.
    #[inline(always)]
    pub fn enters(&mut self, depth: &mut (u32, u32)) {
        self.in_flight += 1;
        depth.0 += 1;
        depth.1 = depth.1.max(depth.0);
    }

    /// The next request of a slot the last request of which has just ended, where nothing but the pattern decides it.
    #[inline(always)]
    pub fn next_at_once(&mut self) -> Option<Request> {
        if !(self.follows_at_once && self.may_issue_beside(1)) {
            return None;
        }
        let LaneSource::Pattern(pattern) = &mut self.spec.source else { return None };
        let request = pattern.next();
        self.spend(&request);
        Some(request)
    }

    /// Hands a request to the device, with the data of a write.
    #[inline(always)]
    pub fn queue(&mut self, device: &mut impl Device, slot: u32, request: &Request, flush_call: FlushCall) {
        if request.operation.writes() {
            self.write_data(request.offset_bytes, request.pass, device.buffer(slot, request.request_bytes));
        }
        device.queue(&Order {
            slot,
            target: self.spec.target,
            operation: request.operation,
            sync: self.sync,
            flush_call,
            request_bytes: request.request_bytes,
            offset_bytes: request.offset_bytes,
            entry: request.entry,
        });
    }

    /// Fills the buffer of a write. It takes numbers: a reference to the request would keep it out of the registers of
    /// those that never come here.
    #[inline(never)]
    pub fn write_data(&mut self, offset_bytes: u64, pass: u64, buffer: &mut [u8]) {
        if let Some(verifier) = &self.spec.verifier {
            verifier.begin_write(offset_bytes, pass, buffer);
        } else if let Some(payload) = &self.spec.payload {
            // Lanes count their writes apart, so the lane stands in the sequence too.
            payload.fill(buffer, offset_bytes, self.writes << 16 | u64::from(self.number));
            self.spec.prepares.iter().for_each(|verifier| verifier.prepare(offset_bytes, buffer));
        } else {
            self.spec.source.dirty(buffer);
        }
        self.writes += 1;
    }

    /// A write has ended: the flush that it owes, if it owes one.
    pub fn flush_owed(&mut self) -> Option<FlushCall> {
        let every = self.spec.flush_every?;
        self.writes_since_flush += 1;
        if self.writes_since_flush < every.writes {
            return None;
        }
        self.writes_since_flush = 0;
        Some(every.call)
    }
}
