//! Events: what a run tells the world. The terminal, the store and the web page listen; the loop never prints.

use std::collections::BTreeMap;

use record::{Cell, Histogram, TextHistogram};
use serde::Serialize;

use crate::control::Knobs;
use crate::device::{Entry, Operation, Submissions};
use crate::frames::FrameCounts;
use crate::note::{Failure, Note};
use crate::referee::Merged;
use crate::slowest::Slow;
use crate::source::ChainKind;
use crate::timeline::Kind;
use crate::verify::VerifyCounts;

/// One event; as JSON its name stands in the field `event`. Times are on the run's own clock.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Start(Box<Start>),
    Fill {
        target: usize,
        done_bytes: u64,
        total_bytes: u64,
    },
    Phase {
        phase: usize,
        name: String,
        start_ns: u64,
    },
    Interval(Box<Interval>),
    Error(Box<ErrorEvent>),
    Hang(HangEvent),
    Drop(DropEvent),
    RampStep(Box<RampStep>),
    RampEnd(RampEnd),
    /// From `at_ns` on a target is in this condition; told before the interval that goes on beyond it.
    BrickCondition {
        target: usize,
        at_ns: u64,
        condition: &'static str,
    },
    /// What a rebuild, initialization or scrub of a modelled target had done by the run's end, and in how much time. A
    /// member has `whole_bytes`.
    BrickBackground {
        target: usize,
        at_ns: u64,
        condition: &'static str,
        done_bytes: u64,
        spent_ns: u64,
        whole_bytes: u64,
    },
    /// The power of a modelled target failed and came back. Bytes are acknowledged writes that are lost, each time that
    /// they were kept; writes are those of the host, of which `lost_promised` had been flushed or were asked to be durable.
    PowerCut {
        target: usize,
        at_ns: u64,
        drive_bytes: u64,
        drive_extents: u64,
        drives: u64,
        controller_bytes: u64,
        failed_requests: u64,
        lost_writes: u64,
        lost_promised: u64,
        oldest_lost: Vec<LostWrite>,
    },
    /// The state over a window of rounds, from `from_ns` to `at_ns`, was reached or left again.
    Steady {
        phase: usize,
        from_ns: u64,
        at_ns: u64,
        reached: bool,
        mean: f64,
        range_percent: f64,
        slope_percent: f64,
    },
    PhaseEnd(Box<PhaseEnd>),
    End {
        end_ns: u64,
        outcome: RunOutcome,
        message: String,
    },
}

/// A write of the host that had been acknowledged so long before it was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LostWrite {
    pub offset_bytes: u64,
    pub bytes: u64,
    pub age_ns: u64,
}

/// How requests reach the targets, and on what clock they are timed.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Start {
    pub start_unix_ns: u64,
    pub engine: String,
    pub engine_reason: String,
    pub io: String,
    pub io_reason: String,
    pub clock: ClockFacts,
    pub reap: u32,
    pub features: Vec<String>,
    pub targets: Vec<TargetFacts>,
    pub phases: Vec<PhaseFacts>,
    /// What was found and done before the run began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct ClockFacts {
    pub source: String,
    pub read_cost_ns: f64,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct TargetFacts {
    pub path: String,
    pub kind: String,
    pub size_bytes: u64,
    pub data_start_bytes: u64,
    pub data_bytes: u64,
    pub align_bytes: u32,
    /// `none`, `unknown`, or what is known of never-written parts.
    pub unwritten: String,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct PhaseFacts {
    pub name: String,
    pub streams: Vec<StreamFacts>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct StreamFacts {
    pub name: String,
    pub target: usize,
    pub workers: u32,
    pub depth: u32,
    pub verify: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct Interval {
    pub phase: usize,
    pub index: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub warmup: bool,
    /// Only requests that were in flight when the phase ended: in latencies, in no rate.
    pub drain: bool,
    pub cells: Vec<CellEvent>,
    pub cpu: Cpu,
    /// Share of the loops' time that was their own, neither in the kernel nor waiting.
    pub loop_busy_share: f64,
    pub knob: Option<KnobEvent>,
}

#[derive(Debug, Clone, Serialize)]
pub struct CellEvent {
    pub stream: usize,
    pub operation: &'static str,
    pub requests: u64,
    pub bytes: u64,
    pub errors: u64,
    /// Frames that were missing when their buffer ran out.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped: u64,
    pub depth_max: u32,
    pub measures: BTreeMap<&'static str, Measure>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Measure {
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub histogram: String,
}

/// CPU time of the whole process, kernel workers of its rings included.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Cpu {
    pub user_ns: u64,
    pub system_ns: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct KnobEvent {
    pub depth: Option<u32>,
    pub workers: Option<u32>,
    pub rate_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_percent: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ErrorEvent {
    pub at_ns: u64,
    pub phase: usize,
    pub stream: usize,
    pub operation: &'static str,
    pub offset_bytes: u64,
    pub request_bytes: u32,
    pub kind: String,
    pub errno: Option<i32>,
    pub text: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct HangEvent {
    pub at_ns: u64,
    pub phase: usize,
    pub stream: Option<usize>,
    pub operation: &'static str,
    pub offset_bytes: u64,
    pub request_bytes: u32,
    pub outstanding_ns: u64,
}

/// A frame of video that was missing when its buffer ran out.
#[derive(Debug, Clone, Serialize)]
pub struct DropEvent {
    /// When it was missed: the end of its buffer.
    pub at_ns: u64,
    pub phase: usize,
    pub stream: usize,
    pub worker: u32,
    pub frame: u64,
    pub due_ns: u64,
}

/// A whole step of a ramp, held against its limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RampStep {
    pub phase: usize,
    pub knob: plan::Knob,
    pub value: f64,
    /// What was judged of the step; the time that it was given to settle lies before.
    pub start_ns: u64,
    pub end_ns: u64,
    /// In ns, requests a second, bytes a second, or frames.
    pub figure: f64,
    pub within: bool,
    /// The storage did not keep up with the rate that was asked of it.
    pub overloaded: bool,
    pub rate_per_s: f64,
    pub bytes_per_s: f64,
}

/// What a ramp with a limit came to: the last value on the right side of the limit, none where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RampEnd {
    pub phase: usize,
    pub knob: plan::Knob,
    pub found: Option<RampStep>,
    /// The nearest value that was tried on the other side.
    pub beyond: Option<f64>,
}

/// What became of the frames of one worker.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FramesEnd {
    pub stream: usize,
    pub worker: u32,
    pub frames: u64,
    pub dropped: u64,
    pub failed: u64,
    pub unjudged: u64,
    pub first_dropped_ns: Option<u64>,
    pub last_dropped_ns: Option<u64>,
    pub slowest_ns: u64,
    pub buffer_ns: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct PhaseEnd {
    pub phase: usize,
    pub end_ns: u64,
    pub reason: &'static str,
    pub unsent: u64,
    pub outstanding: u64,
    pub errors_by_errno: BTreeMap<String, u64>,
    pub errors_by_kind: BTreeMap<String, u64>,
    pub slowest: Vec<SlowEvent>,
    /// Blocks of the whole run so far that were held against their stamps; absent where nothing is verified.
    pub verified: Option<VerifiedEvent>,
    pub cpu: Cpu,
    pub generator_bound: bool,
    /// `own`: its own work took more than half of its time. `cpu`: it used whole cores, the kernel's work for the
    /// storage included. Empty: it was not the limit, or the phase was too short to tell.
    pub generator_bound_reason: &'static str,
    /// Threads that measured.
    pub loops: usize,
    /// What the devices of this phase were set up with.
    pub features: Vec<String>,
    /// Absent where no submission was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<DepthReached>,
    pub loop_busy_share: f64,
    /// Of every worker that plays or records video.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<FramesEnd>,
}

/// Requests in flight by our count, and how many of them the storage had at once: one that ends in the call that submits
/// it keeps the next of its batch waiting. Means over looks, summed over the loops of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DepthReached {
    pub in_flight: f64,
    pub at_once: f64,
}

impl DepthReached {
    pub fn of(loops: &[Submissions]) -> Option<DepthReached> {
        let looked = || loops.iter().filter(|s| s.looks > 0);
        let mean = |sum: fn(&Submissions) -> u64| looked().map(|s| sum(s) as f64 / s.looks as f64).sum();
        let found = || DepthReached { in_flight: mean(|s| s.in_flight), at_once: mean(|s| s.at_once) };
        looked().next().is_some().then(found)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct VerifiedEvent {
    pub checked_blocks: u64,
    pub unchecked_blocks: u64,
    pub damaged_blocks: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct SlowEvent {
    pub at_ns: u64,
    pub stream: u16,
    pub operation: &'static str,
    pub offset_bytes: u64,
    pub request_bytes: u32,
    pub service_ns: u64,
    pub response_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    Done,
    Interrupted,
    Failed,
}

impl Event {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an event holds nothing that JSON cannot carry")
    }
}

impl Interval {
    /// `settles`: a step of a ramp has just begun, and the interval is in no figure.
    pub fn new(phase: usize, merged: &Merged, cpu: Cpu, loop_busy_share: f64, knobs: Knobs, settles: bool) -> Interval {
        let given = knobs != Knobs::default();
        Interval {
            phase,
            index: merged.interval,
            start_ns: merged.start_ns,
            end_ns: merged.end_ns,
            warmup: merged.kind == Kind::Warmup || settles,
            drain: merged.kind == Kind::Drain,
            cells: merged
                .cells
                .iter()
                .map(|(stream, operation, cell)| CellEvent::new(stream, operation, cell))
                .collect(),
            cpu,
            loop_busy_share,
            knob: given.then(|| KnobEvent {
                depth: (knobs.depth > 0).then_some(knobs.depth),
                workers: (knobs.workers > 0).then_some(knobs.workers),
                rate_per_s: (knobs.rate_per_s > 0.0).then_some(knobs.rate_per_s),
                load_percent: (knobs.load_percent > 0.0).then_some(knobs.load_percent),
            }),
        }
    }
}

impl CellEvent {
    fn new(stream: usize, operation: usize, cell: &Cell) -> CellEvent {
        let mut measures =
            BTreeMap::from([("service", Measure::of(&cell.service)), ("response", Measure::of(&cell.response))]);
        if let Some(lateness) = &cell.lateness {
            measures.insert("lateness", Measure::of(lateness));
        }
        CellEvent {
            stream,
            operation: cell_name(operation),
            requests: cell.requests,
            bytes: cell.bytes,
            errors: cell.errors,
            dropped: cell.dropped,
            depth_max: cell.depth_max,
            measures,
        }
    }
}

/// The word for what a cell counts.
fn cell_name(cell: usize) -> &'static str {
    let chain = || ChainKind::ALL.get(cell - record::CHAINS).map_or("frame", |kind| kind.name());
    Operation::ALL.get(cell).map_or_else(chain, |operation| operation.name())
}

impl Measure {
    fn of(histogram: &Histogram) -> Measure {
        Measure {
            mean_ns: histogram.mean_ns(),
            p50_ns: histogram.percentile_ns(50.0),
            p99_ns: histogram.percentile_ns(99.0),
            max_ns: histogram.max_ns(),
            histogram: TextHistogram::from(histogram).to_text(),
        }
    }
}

impl From<FrameCounts> for FramesEnd {
    fn from(counts: FrameCounts) -> FramesEnd {
        FramesEnd {
            stream: counts.stream,
            worker: counts.worker,
            frames: counts.frames,
            dropped: counts.dropped,
            failed: counts.failed,
            unjudged: counts.unjudged,
            first_dropped_ns: counts.first_dropped_ns,
            last_dropped_ns: counts.last_dropped_ns,
            slowest_ns: counts.slowest_ns,
            buffer_ns: counts.buffer_ns,
        }
    }
}

impl From<VerifyCounts> for VerifiedEvent {
    fn from(counts: VerifyCounts) -> VerifiedEvent {
        let VerifyCounts { checked_blocks, unchecked_blocks, damaged_blocks } = counts;
        VerifiedEvent { checked_blocks, unchecked_blocks, damaged_blocks }
    }
}

impl From<&Slow> for SlowEvent {
    fn from(slow: &Slow) -> SlowEvent {
        SlowEvent {
            at_ns: slow.at_ns,
            stream: slow.stream,
            operation: slow.operation().name(),
            offset_bytes: slow.offset_bytes,
            request_bytes: slow.request_bytes,
            service_ns: slow.service_ns,
            response_ns: slow.response_ns,
        }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Name of an errno as C programs know it; the number where it has none.
pub fn errno_name(errno: i32) -> String {
    const NAMES: [(i32, &str); 29] = [
        (1, "EPERM"),
        (2, "ENOENT"),
        (4, "EINTR"),
        (5, "EIO"),
        (6, "ENXIO"),
        (9, "EBADF"),
        (11, "EAGAIN"),
        (12, "ENOMEM"),
        (13, "EACCES"),
        (14, "EFAULT"),
        (16, "EBUSY"),
        (17, "EEXIST"),
        (19, "ENODEV"),
        (20, "ENOTDIR"),
        (21, "EISDIR"),
        (22, "EINVAL"),
        (23, "ENFILE"),
        (24, "EMFILE"),
        (27, "EFBIG"),
        (28, "ENOSPC"),
        (30, "EROFS"),
        (31, "EMLINK"),
        (39, "ENOTEMPTY"),
        (61, "ENODATA"),
        (84, "EILSEQ"),
        (95, "EOPNOTSUPP"),
        (110, "ETIMEDOUT"),
        (116, "ESTALE"),
        (122, "EDQUOT"),
    ];
    NAMES.iter().find(|(n, _)| *n == errno).map_or_else(|| format!("errno {errno}"), |(_, name)| name.to_string())
}

impl Note {
    /// The event that tells of this note.
    pub fn event(self, phase: usize) -> Event {
        match self {
            Note::Failed { at_ns, stream, operation, offset_bytes, request_bytes, entry, failure } => {
                let of = if entry == Entry::default() { String::new() } else { format!(" of {entry}") };
                let (kind, errno, text) = match &failure {
                    Failure::Errno(errno) => {
                        let cause = std::io::Error::from_raw_os_error(*errno);
                        ("errno", Some(*errno), format!("{}{of} failed: {cause}", operation.name()))
                    }
                    Failure::Short(moved) => {
                        ("short", None, format!("{}{of} moved {moved} of {request_bytes} bytes", operation.name()))
                    }
                    Failure::Damage(damage) => ("damage", None, damage.text.clone()),
                };
                Event::Error(Box::new(ErrorEvent {
                    at_ns,
                    phase,
                    stream: usize::from(stream),
                    operation: operation.name(),
                    offset_bytes,
                    request_bytes,
                    kind: kind.into(),
                    errno,
                    text,
                }))
            }
            Note::Dropped { stream, worker, missed } => Event::Drop(DropEvent {
                at_ns: missed.at_ns,
                phase,
                stream: usize::from(stream),
                worker,
                frame: missed.frame,
                due_ns: missed.due_ns,
            }),
            Note::Hangs { at_ns, stream, operation, offset_bytes, request_bytes, outstanding_ns } => {
                Event::Hang(HangEvent {
                    at_ns,
                    phase,
                    stream: Some(usize::from(stream)),
                    operation: operation.name(),
                    offset_bytes,
                    request_bytes,
                    outstanding_ns,
                })
            }
        }
    }
}
