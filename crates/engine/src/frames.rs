//! Video: frames of several requests each, due together at the format's rate, and the judgement of whether a frame came
//! in time. Everything is counted from due instants and ends of requests, nothing from percentiles.

use std::collections::VecDeque;

use pace::Schedule;

use crate::address::Region;
use crate::device::{Completion, Entry, Operation};
use crate::source::{Next, Request, Source};

/// Requests of a worker's frames, one frame behind the other through its part of the region, and again from its start.
pub struct FrameSource {
    operation: Operation,
    start_bytes: u64,
    frames: u64,
    frame_bytes: u64,
    request_bytes: u64,
    frame: u64,
    within_bytes: u64,
    pass: u64,
}

impl FrameSource {
    /// Worker `lane` of `lanes` has its own part of the region.
    pub fn new(stream: &plan::Stream, region: Region, lane: u32, lanes: u32) -> Result<FrameSource, String> {
        let frame_bytes = stream.frame_bytes().unwrap_or(1);
        let share = region.length_bytes / u64::from(lanes.max(1)) / stream.align_bytes() * stream.align_bytes();
        let frames = share / frame_bytes;
        if frames == 0 {
            return Err(format!(
                "{lanes} worker(s) share {}, which holds no frame of {} for each",
                plan::format_bytes(region.length_bytes),
                plan::format_bytes(frame_bytes)
            ));
        }
        Ok(FrameSource {
            operation: if stream.operations.write.0 > 0.0 { Operation::Write } else { Operation::Read },
            start_bytes: region.start_bytes + u64::from(lane) * share,
            frames,
            frame_bytes,
            request_bytes: stream.request.max_bytes(),
            frame: 0,
            within_bytes: 0,
            pass: 0,
        })
    }

    /// Requests of each frame; the last one carries what is left.
    pub fn requests_per_frame(&self) -> u64 {
        self.frame_bytes.div_ceil(self.request_bytes)
    }

    pub fn pass_requests(&self) -> u64 {
        self.frames * self.requests_per_frame()
    }
}

impl Source for FrameSource {
    fn next(&mut self, _slot: u32, _now_ns: u64, _last: Option<&Completion>) -> Next {
        let request_bytes = self.request_bytes.min(self.frame_bytes - self.within_bytes);
        let request = Request {
            operation: self.operation,
            offset_bytes: self.start_bytes + self.frame * self.frame_bytes + self.within_bytes,
            request_bytes: request_bytes as u32,
            pass: self.pass,
            entry: Entry::default(),
        };
        self.within_bytes += request_bytes;
        if self.within_bytes == self.frame_bytes {
            (self.frame, self.within_bytes) = (self.frame + 1, 0);
            if self.frame == self.frames {
                (self.frame, self.pass) = (0, self.pass + 1);
            }
        }
        Next::Do(request)
    }

    /// The frame that was begun is left where it is; the next request begins one.
    fn abort(&mut self, _slot: u32) {
        if self.within_bytes > 0 {
            (self.frame, self.within_bytes) = ((self.frame + 1) % self.frames, 0);
        }
    }
}

/// What became of a worker's frames, without those of the warm-up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrameCounts {
    pub stream: usize,
    pub worker: u32,
    /// In time or dropped.
    pub frames: u64,
    pub dropped: u64,
    /// Of the dropped ones those of which a request failed.
    pub failed: u64,
    /// Due and neither in time nor too late when the phase ended.
    pub unjudged: u64,
    pub first_dropped_ns: Option<u64>,
    pub last_dropped_ns: Option<u64>,
    /// The longest response time of a frame that ended.
    pub slowest_ns: u64,
    pub buffer_ns: u64,
}

/// A frame that was missing when its buffer ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissedFrame {
    pub frame: u64,
    pub due_ns: u64,
    /// When it was missed.
    pub at_ns: u64,
}

/// A frame all requests of which have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedFrame {
    pub service_ns: u64,
    pub response_ns: u64,
    pub lateness_ns: u64,
    pub failed: bool,
    /// Due before the measured time: in no figure.
    pub warmup: bool,
    /// Known only now to be dropped.
    pub dropped: Option<MissedFrame>,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    due_ns: u64,
    left: u64,
    submitted_ns: u64,
    ended_ns: u64,
    failed: bool,
    dropped: bool,
}

/// Judges the frames of one worker.
pub struct FrameJudge {
    requests_per_frame: u64,
    buffer_ns: u64,
    measure_from_ns: u64,
    /// Gives the due instants of frames that have not been swept.
    clock: Schedule,
    swept: u64,
    begun: u64,
    within: u64,
    /// Frames from `first` on that have begun; those that ended are taken off the front.
    pending: VecDeque<Pending>,
    first: u64,
    counts: FrameCounts,
}

impl FrameJudge {
    /// `clock` is due once a frame.
    pub fn new(stream: usize, worker: u32, requests_per_frame: u64, buffer_ns: u64, clock: Schedule) -> FrameJudge {
        FrameJudge {
            requests_per_frame,
            buffer_ns,
            measure_from_ns: 0,
            clock,
            swept: 0,
            begun: 0,
            within: 0,
            pending: VecDeque::new(),
            first: 0,
            counts: FrameCounts { stream, worker, buffer_ns, ..FrameCounts::default() },
        }
    }

    pub fn start_at(&mut self, start_ns: u64, measure_from_ns: u64) {
        self.clock.start_at(start_ns);
        self.measure_from_ns = measure_from_ns;
    }

    /// Another request of the worker is issued; its frame's number.
    #[inline]
    pub fn begin(&mut self, due_ns: u64) -> u64 {
        let frame = self.begun;
        if self.within == 0 {
            let dropped = frame < self.swept;
            let left = self.requests_per_frame;
            self.pending.push_back(Pending {
                due_ns,
                left,
                submitted_ns: u64::MAX,
                ended_ns: 0,
                failed: false,
                dropped,
            });
        }
        self.within += 1;
        if self.within == self.requests_per_frame {
            (self.begun, self.within) = (self.begun + 1, 0);
        }
        frame
    }

    /// A request of the frame ended.
    pub fn end(&mut self, frame: u64, completion: &Completion, good: bool) -> Option<EndedFrame> {
        // A frame of before a pause is in no figure any more.
        let pending = self.pending.get_mut(frame.checked_sub(self.first)? as usize)?;
        pending.left -= 1;
        pending.failed |= !good;
        pending.submitted_ns = pending.submitted_ns.min(completion.submitted_ns);
        pending.ended_ns = pending.ended_ns.max(completion.ended_ns);
        if pending.left > 0 {
            return None;
        }
        let ended = *pending;
        while self.pending.front().is_some_and(|p| p.left == 0) {
            self.pending.pop_front();
            self.first += 1;
        }
        let response_ns = ended.ended_ns.saturating_sub(ended.due_ns);
        let warmup = ended.due_ns < self.measure_from_ns;
        let missed = response_ns > self.buffer_ns || ended.failed;
        let dropped = (missed && !ended.dropped && !warmup).then(|| self.miss(frame, ended.due_ns));
        if !warmup {
            self.counts.frames += u64::from(!ended.dropped && dropped.is_none());
            self.counts.failed += u64::from(ended.failed);
            self.counts.slowest_ns = self.counts.slowest_ns.max(response_ns);
        }
        Some(EndedFrame {
            service_ns: ended.ended_ns.saturating_sub(ended.submitted_ns),
            response_ns,
            lateness_ns: ended.submitted_ns.saturating_sub(ended.due_ns),
            failed: ended.failed,
            warmup,
            dropped,
        })
    }

    /// Frames whose buffer has run out by `until_ns`, begun or not, unless none begin any more. Every end before that is
    /// known.
    pub fn sweep(&mut self, until_ns: u64, none_begin: bool, found: &mut Vec<MissedFrame>) {
        loop {
            let due_ns = self.clock.due_ns();
            if due_ns.saturating_add(self.buffer_ns) >= until_ns || none_begin && self.swept >= self.begun {
                return;
            }
            let frame = self.swept;
            self.clock.advance();
            self.swept += 1;
            let mut missing = frame >= self.first;
            if let Some(pending) = frame.checked_sub(self.first).and_then(|at| self.pending.get_mut(at as usize)) {
                missing = pending.left > 0 && !pending.dropped;
                pending.dropped = true;
            }
            if missing && due_ns >= self.measure_from_ns {
                found.push(self.miss(frame, due_ns));
            }
        }
    }

    /// The worker begins anew: what was under way is in no figure.
    pub fn resume_at(&mut self, now_ns: u64) {
        self.clock.resume_at(now_ns);
        self.first += self.pending.len() as u64;
        self.pending.clear();
        (self.begun, self.swept, self.within) = (self.first, self.first, 0);
    }

    /// Counts at the end: frames due before `end_ns` that are neither in time nor dropped.
    pub fn finish(mut self, end_ns: u64) -> FrameCounts {
        while self.clock.due_ns() < end_ns {
            let frame = self.swept;
            let pending = frame.checked_sub(self.first).and_then(|at| self.pending.get(at as usize));
            let open = frame >= self.first && pending.is_none_or(|p| p.left > 0);
            let judged = pending.is_some_and(|p| p.dropped);
            self.counts.unjudged += u64::from(open && !judged && self.clock.due_ns() >= self.measure_from_ns);
            self.clock.advance();
            self.swept += 1;
        }
        self.counts
    }

    fn miss(&mut self, frame: u64, due_ns: u64) -> MissedFrame {
        let at_ns = due_ns + self.buffer_ns;
        let counts = &mut self.counts;
        counts.frames += 1;
        counts.dropped += 1;
        counts.first_dropped_ns = Some(counts.first_dropped_ns.map_or(at_ns, |first| first.min(at_ns)));
        counts.last_dropped_ns = Some(counts.last_dropped_ns.map_or(at_ns, |last| last.max(at_ns)));
        MissedFrame { frame, due_ns, at_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::Arrivals;

    fn judge(buffer_ns: u64) -> FrameJudge {
        FrameJudge::new(0, 0, 2, buffer_ns, Schedule::new(1e8, Arrivals::Constant, 0, 1, 0, 1))
    }

    fn end(judge: &mut FrameJudge, frame: u64, ended_ns: u64) -> Option<EndedFrame> {
        judge.end(frame, &Completion { slot: 0, result: 1, submitted_ns: frame * 10, ended_ns }, true)
    }

    #[test]
    fn a_frame_is_as_late_as_its_last_request() {
        let mut judge = judge(15);
        let frames: Vec<u64> = (0..4).map(|i| judge.begin(i / 2 * 10)).collect();
        assert_eq!(frames, [0, 0, 1, 1]);
        assert_eq!(end(&mut judge, 0, 15), None);
        assert_eq!(end(&mut judge, 0, 5).expect("whole").dropped, None, "as long as the buffer is still in time");
        end(&mut judge, 1, 12);
        let late = end(&mut judge, 1, 26).expect("whole");
        assert_eq!((late.response_ns, late.dropped), (16, Some(MissedFrame { frame: 1, due_ns: 10, at_ns: 25 })));
        let counts = judge.finish(40);
        assert_eq!((counts.frames, counts.dropped, counts.unjudged, counts.slowest_ns), (2, 1, 2, 16));
    }

    #[test]
    fn a_frame_that_never_began_is_dropped_once() {
        let mut judge = judge(15);
        let mut found = Vec::new();
        judge.sweep(36, false, &mut found);
        assert_eq!(found.iter().map(|d| d.frame).collect::<Vec<_>>(), [0, 1, 2]);
        for frame in 0..3 {
            judge.begin(frame * 10);
            judge.begin(frame * 10);
            end(&mut judge, frame, 50);
            assert_eq!(end(&mut judge, frame, 50).expect("whole").dropped, None, "counted before");
        }
        judge.sweep(36, false, &mut found);
        assert_eq!((found.len(), judge.finish(30).frames), (3, 3));
    }

    #[test]
    fn a_pause_forgets_what_was_under_way() {
        let mut judge = judge(15);
        judge.begin(0);
        judge.resume_at(1_000);
        assert_eq!(end(&mut judge, 0, 1_001), None);
        let frame = judge.begin(1_000);
        judge.begin(1_000);
        end(&mut judge, frame, 1_001);
        assert_eq!(end(&mut judge, frame, 1_002).expect("whole").response_ns, 2);
        let counts = judge.finish(1_001);
        assert_eq!((counts.frames, counts.dropped, counts.unjudged), (1, 0, 0));
    }
}
