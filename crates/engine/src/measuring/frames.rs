//! Frames of video, made of several requests and counted as a whole: in time, late, or dropped.

use record::FRAMES;

use super::{FAILURES_DESCRIBED, Loop, Sink};
use crate::device::{Completion, Device};
use crate::frames::{FrameCounts, MissedFrame};
use crate::lane::Lane;
use crate::note::Note;
use crate::timeline::Kind;

/// The frame of a request whose end its frame has been told of.
const HEARD: u64 = u64::MAX;

impl<D: Device, S: Sink> Loop<'_, D, S> {
    /// Requests that ended before the boundary belong to frames that may be in time, so they are heard before those
    /// that are missing there are counted.
    pub(super) fn end_frames_before(&mut self, boundary_ns: u64, done: &[Completion]) {
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

    pub(super) fn count_drop(&mut self, stream: u16, worker: u32, missed: MissedFrame) {
        self.counts.cells.get_mut(usize::from(stream), FRAMES).dropped += 1;
        if self.notes.len() < FAILURES_DESCRIBED {
            self.notes.push(Note::Dropped { stream, worker, missed });
        }
    }

    /// Tells a lane's frames of the end of a request, once.
    #[inline(never)]
    pub(super) fn end_of_frame(&mut self, completion: &Completion) {
        let slot = self.slots[completion.slot as usize];
        let lane = &mut self.lanes[usize::from(slot.lane)];
        let Some(frames) = &mut lane.spec.frames else { return };
        let frame = std::mem::replace(&mut self.ties[completion.slot as usize].frame, HEARD);
        if frame == HEARD {
            return;
        }
        let good = completion.result == slot.request_bytes as i32;
        let Some(ended) = frames.end(frame, completion, good) else { return };
        let (stream, worker) = (slot.stream, lane.spec.index);
        let cell = self.counts.cells.get_mut(usize::from(stream), FRAMES);
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

    pub(super) fn frame_counts(&mut self) -> Vec<FrameCounts> {
        let until_ns = self.issued_until_ns.min(self.last_end_ns.max(self.interval_start_ns));
        let until = |lane: &Lane| if lane.aside || lane.ended { 0 } else { until_ns };
        self.lanes.iter_mut().filter_map(|lane| Some(lane.spec.frames.take()?.finish(until(lane)))).collect()
    }
}
