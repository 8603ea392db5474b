//! The ends of intervals and phases: what a control asks for, what is handed over, and who hangs.

use record::OPERATIONS;

use super::{Loop, Report, Sink};
use crate::control::State;
use crate::device::Device;
use crate::lane::Pacer;
use crate::note::Note;
use crate::source::Source;
use crate::timeline::Kind;

impl<D: Device, S: Sink> Loop<'_, D, S> {
    /// Adopts what the control asks for.
    #[cold]
    pub(super) fn heed_control(&mut self, now_ns: u64) -> State {
        self.version = self.control.version();
        let state = self.control.state();
        if state != State::Run {
            if self.issuing {
                // The loop may have slept since it was asked to stop: what became due meanwhile could have been sent.
                self.stop_issuing(self.caught_up_ns);
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
    pub(super) fn stop_issuing(&mut self, at_ns: u64) {
        if !self.issuing {
            return;
        }
        self.issuing = false;
        self.issued_until_ns = at_ns.saturating_add(1);
        for lane in &mut self.lanes {
            if lane.ended || lane.aside || at_ns == u64::MAX {
                continue;
            }
            let due = match &mut lane.spec.pacer {
                Pacer::Open(schedule) => schedule.skip_until(at_ns),
                Pacer::Own => lane.spec.source.skip_until(at_ns),
                Pacer::Closed { .. } => 0,
            };
            // With a fixed number of requests, no more than those that were left can have been due.
            let unsent = due.min(lane.spec.requests_left);
            if unsent > 0 {
                *self.unsent.entry(usize::from(lane.spec.stream)).or_default() += unsent;
            }
        }
    }

    /// What is in flight when the phase is ended early counts as it does when the phase ends by its time.
    pub(super) fn drain_from(&mut self, now_ns: u64) {
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
    pub(super) fn close_interval(&mut self, end_ns: u64) {
        self.hand_over(end_ns);
        let (boundary_ns, kind) = self.timeline.next(end_ns);
        (self.boundary_ns, self.kind) = (boundary_ns, kind);
        if kind == Kind::Drain {
            self.stop_issuing(end_ns.saturating_sub(1));
        }
    }

    pub(super) fn hand_over(&mut self, end_ns: u64) {
        self.counts.flush_tally();
        for (stream, depth) in self.depth.iter_mut().enumerate() {
            for operation in 0..OPERATIONS {
                if self.counts.cells.is_open(stream, operation) {
                    self.counts.cells.get_mut(stream, operation).in_flight_bound = depth.1;
                }
            }
            depth.1 = depth.0;
        }
        let length_ns = end_ns.saturating_sub(self.interval_start_ns);
        // A turn may be longer than an interval: the rest of its time belongs to those that follow.
        let away_ns = length_ns.min(self.device.away_ns() - self.away_told_ns);
        self.away_told_ns += away_ns;
        let report = Report {
            loop_index: self.loop_index,
            interval: self.interval,
            kind: self.kind,
            start_ns: self.interval_start_ns,
            end_ns,
            cells: std::mem::take(&mut self.counts.cells),
            own_ns: length_ns - away_ns,
            notes: std::mem::take(&mut self.notes),
            failures: std::mem::take(&mut self.failures),
        };
        self.counts.cells = self.sink.report(report);
        self.interval += 1;
        self.interval_start_ns = end_ns;
    }

    /// Names requests that have been outstanding for too long, while they hang.
    #[cold]
    pub(super) fn watch(&mut self, now_ns: u64) {
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
    pub(super) fn settle(&mut self, now_ns: u64) {
        let end_ns = if self.in_flight > 0 { now_ns } else { self.last_end_ns.max(self.interval_start_ns) };
        if end_ns > self.interval_start_ns || self.counts.tally.requests > 0 || !self.notes.is_empty() {
            self.hand_over(end_ns);
        }
        self.last_end_ns = end_ns;
    }
}
