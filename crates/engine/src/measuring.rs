//! The measuring loop: takes operations from its lanes when they are due, hands them to a device, and records how each
//! of them ended. One loop serves real and virtual time; it reads no clock but the device's, and prints nothing.
//!
//! What is here runs once a turn; `issue`, `reap` and `count` run once a request, and what few lanes need (`chains`,
//! `commits`, `frames`, verification) is kept out of the way of the others by one look at `Lane::tied`.

mod chains;
mod commits;
mod count;
mod frames;
mod intervals;
mod issue;
mod reap;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use record::{CellSet, OPERATIONS};

use crate::control::{Control, State};
use crate::device::{Device, Operation, Submissions, Until};
use crate::frames::{FrameCounts, MissedFrame};
use crate::lane::{Lane, LaneSpec, Pacer, Slot, Ties};
use crate::note::{FailureCounts, Note};
use crate::slowest::Slowest;
use crate::timeline::{Kind, Timeline};
use crate::verify::{Damage, ReadTicket};
use count::{Counts, Tally};

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
    /// How long after its instant the loop began.
    pub late_ns: u64,
    /// The streams that it carried.
    pub streams: BTreeSet<usize>,
    /// Due and never issued, by stream.
    pub unsent: BTreeMap<usize, u64>,
    /// Issued and never ended.
    pub outstanding: u64,
    pub slowest: Slowest,
    pub submissions: Submissions,
    /// All lanes ran out of requests, bytes or passes.
    pub exhausted: bool,
    /// Of every lane that has frames.
    pub frames: Vec<FrameCounts>,
}

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
    /// Beside the slots, since most lanes need none of it.
    ties: Vec<Ties>,
    tickets: Vec<Option<ReadTicket>>,
    /// Slots that wait for think time or for their source, by due time.
    sleeping: BinaryHeap<Reverse<(u64, u32)>>,
    counts: Counts,
    /// Requests in flight a stream, now and at the most in this interval.
    depth: Vec<(u32, u32)>,
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
    /// What was due until then was issued, unless all its slots were taken.
    caught_up_ns: u64,
    unsent: BTreeMap<usize, u64>,
    version: u32,
    interval: u32,
    interval_start_ns: u64,
    boundary_ns: u64,
    kind: Kind,
    /// Of the device's time away, what intervals have been told of.
    away_told_ns: u64,
    watched_ns: u64,
    last_end_ns: u64,
}

/// Number of slots and bytes of buffer that lanes need together.
pub fn needs(lanes: &[LaneSpec]) -> (u32, u32) {
    let slots = lanes.iter().map(|l| l.depth_max).sum();
    (slots, lanes.iter().map(|l| l.buffer_bytes).max().unwrap_or(0))
}

/// Number of cells that lanes have in an interval: operations of streams.
pub fn cells_of(lanes: &[LaneSpec]) -> usize {
    let of = |lane: &LaneSpec| {
        (0..OPERATIONS).filter(|o| counts_operation(lane, *o)).map(|o| (lane.stream, o)).collect::<Vec<_>>()
    };
    lanes.iter().flat_map(of).collect::<BTreeSet<_>>().len()
}

/// Whether a lane's requests fall into the cell of that number.
fn counts_operation(lane: &LaneSpec, operation: usize) -> bool {
    lane.operations[operation] || (operation == Operation::Flush as usize && lane.flush_every.is_some())
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

/// Lanes with what they need of their loop.
struct Furnished {
    lanes: Vec<Lane>,
    slots: Vec<Slot>,
    cells: CellSet,
    open_lanes: Vec<usize>,
    frame_lanes: Vec<usize>,
    lockstep: bool,
}

fn furnish(specs: Vec<LaneSpec>, spec: &LoopSpec) -> Furnished {
    let (mut lanes, mut slots, mut cells) = (Vec::new(), Vec::new(), CellSet::new(spec.streams));
    let (mut open_lanes, mut frame_lanes) = (Vec::new(), Vec::new());
    let lockstep = specs.iter().any(|lane| lane.lockstep.is_some());
    for (number, mut lane) in specs.into_iter().enumerate() {
        if let Some(frames) = &mut lane.frames {
            frames.start_at(spec.timeline.start_ns, spec.timeline.measure_start_ns());
            frame_lanes.push(number);
        }
        let open = matches!(lane.pacer, Pacer::Open(_) | Pacer::Own);
        if open {
            open_lanes.push(number);
        }
        for operation in 0..OPERATIONS {
            if counts_operation(&lane, operation) {
                cells.open(usize::from(lane.stream), operation, open);
            }
        }
        let first_slot = slots.len() as u32;
        let end = slots.len() + lane.depth_max as usize;
        slots.resize(end, Slot::new(number as u16, lane.stream));
        lanes.push(Lane::new(lane, number as u16, first_slot, spec.timeline.start_ns));
    }
    Furnished { lanes, slots, cells, open_lanes, frame_lanes, lockstep }
}

impl<'a, D: Device, S: Sink> Loop<'a, D, S> {
    pub fn new(device: D, sink: &'a mut S, lanes: Vec<LaneSpec>, spec: LoopSpec) -> Self {
        let Furnished { lanes, slots, cells, open_lanes, frame_lanes, lockstep } = furnish(lanes, &spec);
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
            lanes,
            slots,
            ties: vec![Ties::NONE; count],
            tickets: (0..count).map(|_| None).collect(),
            sleeping: BinaryHeap::with_capacity(count),
            counts: Counts { cells, tally: Tally::EMPTY, slowest: Slowest::default() },
            depth: vec![(0, 0); spec.streams],
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
            caught_up_ns: start_ns.saturating_sub(1),
            unsent: BTreeMap::new(),
            version: 0,
            interval: 0,
            interval_start_ns: start_ns,
            boundary_ns,
            kind,
            away_told_ns: 0,
            watched_ns: start_ns,
            last_end_ns: start_ns,
        }
    }

    /// Runs the phase to its end. An error means that the device can't go on; what was measured has been reported.
    pub fn run(mut self) -> Result<Outcome, String> {
        let mut done = Vec::with_capacity(self.slots.len());
        let mut now_ns = self.wait_for_start()?;
        let late_ns = now_ns - self.timeline.start_ns;
        self.away_told_ns = self.device.away_ns();
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
                self.caught_up_ns = now_ns;
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
                streams: self.lanes.iter().map(|lane| usize::from(lane.spec.stream)).collect(),
                late_ns,
                outstanding: u64::from(self.in_flight),
                exhausted: self.issuing,
                frames: self.frame_counts(),
                submissions: self.device.submissions(),
                unsent: self.unsent,
                slowest: self.counts.slowest,
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
        self.caught_up_ns = now_ns;
    }

    fn has_more(&self) -> bool {
        self.lanes.iter().any(|l| !l.ended)
    }
}
