//! Events as the measuring loop makes them; what they are is said in [`record::event`]. The loop never prints.

pub use record::event::*;

use crate::control::Knobs;
use crate::device::{Entry, Submissions};
use crate::frames::FrameCounts;
use crate::note::{Failure, Note};
use crate::referee::Merged;
use crate::slowest::Slow;
use crate::timeline::Kind;
use crate::verify::{Covered, VerifyCounts};

/// `settles`: a step of a ramp has just begun, and the interval is in no figure.
pub fn interval(
    phase: usize,
    merged: &Merged,
    cpu: Cpu,
    loop_busy_share: f64,
    knobs: Knobs,
    settles: bool,
) -> Interval {
    let given = knobs != Knobs::default();
    let cells = merged.cells.iter();
    Interval {
        phase,
        index: merged.interval,
        start_ns: merged.start_ns,
        end_ns: merged.end_ns,
        warmup: merged.kind == Kind::Warmup || settles,
        drain: merged.kind == Kind::Drain,
        cells: cells.map(|(stream, cell, found)| CellEvent::new(stream, Counted::of_cell(cell), found)).collect(),
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

/// None where no loop has looked at a submission.
pub fn depth_reached(loops: &[Submissions]) -> Option<DepthReached> {
    let looked = || loops.iter().filter(|s| s.looks > 0);
    let mean = |sum: fn(&Submissions) -> u64| looked().map(|s| sum(s) as f64 / s.looks as f64).sum();
    let found = || DepthReached { in_flight: mean(|s| s.in_flight), at_once: mean(|s| s.at_once) };
    looked().next().is_some().then(found)
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
        let VerifyCounts { checked_blocks, unchecked_blocks, damaged_blocks, covered } = counts;
        let covered =
            covered.map(|Covered { blocks, checked_once_blocks }| CoveredEvent { blocks, checked_once_blocks });
        VerifiedEvent { checked_blocks, unchecked_blocks, damaged_blocks, covered }
    }
}

impl From<&Slow> for SlowEvent {
    fn from(slow: &Slow) -> SlowEvent {
        SlowEvent {
            at_ns: slow.at_ns,
            stream: slow.stream,
            operation: slow.operation().into(),
            offset_bytes: slow.offset_bytes,
            request_bytes: slow.request_bytes,
            service_ns: slow.service_ns,
            response_ns: slow.response_ns,
        }
    }
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
                        (ErrorKind::Errno, Some(*errno), format!("{}{of} failed: {cause}", operation.name()))
                    }
                    Failure::Short(moved) => (
                        ErrorKind::Short,
                        None,
                        format!("{}{of} moved {moved} of {request_bytes} bytes", operation.name()),
                    ),
                    Failure::Damage(damage) => (ErrorKind::Damage, None, damage.text.clone()),
                };
                let dump = match failure {
                    Failure::Damage(damage) => Some(damage.dump),
                    _ => None,
                };
                Event::Error(Box::new(ErrorEvent {
                    at_ns,
                    phase,
                    stream: usize::from(stream),
                    operation: operation.into(),
                    offset_bytes,
                    request_bytes,
                    kind,
                    errno,
                    text,
                    dump,
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
                    operation: operation.into(),
                    offset_bytes,
                    request_bytes,
                    outstanding_ns,
                })
            }
        }
    }
}
