//! What goes on behind the requests: rebuild, initialization and scrub, members that fail, and spares that take over.
//!
//! A member that fails takes no new commands; those that it already has end as they would have, since a drive's queue is
//! short beside the run. A spare takes its place at once, gets every write from then on, and serves reads when it is
//! whole. A rebuild ends at once where too little is left to rebuild from. Requests to data that are on no member fail.

use engine::event::BrickState;

use super::jobs::{Job, Owner};
use super::{Change, Event, System};
use crate::SECTOR_BYTES;
use crate::array::Operations;
use crate::assembly::drive_caches;
use crate::brick::{Brick, Condition, ControllerParameters};
use crate::controller::Controller;
use crate::member::Kind;
use crate::region_log::RegionLog;

/// A volume counts as in use for so long after a request; a rebuild then keeps to its minimum. (Controllers do not tell;
/// Linux md has rules of its own, in `resync`.)
const IN_USE_NS: u64 = 100_000_000;
/// Chunks of a rebuild that are under way at a time while nobody uses the volume. (Controllers do not tell.)
const CHUNKS_AT_A_TIME: u32 = 8;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Background {
    pub(crate) condition: Condition,
    pub(crate) array: usize,
    pub(crate) member: usize,
    /// Begins again when it has come to the end.
    pub(crate) repeats: bool,
    /// Grows with each background, so that what an earlier one had planned is known for its.
    pub(crate) turn: u32,
    /// Where the next chunk begins.
    pub(crate) at: u64,
    pub(crate) in_flight: u32,
    pub(crate) planned: bool,
    pub(crate) all_begun: bool,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) chunk_bytes: u64,
    pub(crate) window_bytes: u64,
    pub(crate) begin_ns: u64,
    pub(crate) min_mb_per_s: f64,
    pub(crate) max_mb_per_s: f64,
    pub(crate) writing_mb_per_s: f64,
    pub(crate) share_percent: f64,
    pub(crate) drains: bool,
    /// Until all that is under way of it has ended.
    pub(crate) waits: bool,
}

impl Background {
    /// A rebuild from the start of a member, at the pace that its keeper has.
    pub(crate) fn of(keeper: &ControllerParameters) -> Background {
        Background {
            condition: Condition::Rebuilding,
            array: 0,
            member: 0,
            repeats: true,
            turn: 0,
            at: 0,
            in_flight: 0,
            planned: true,
            all_begun: false,
            started_ns: 0,
            ended_ns: 0,
            chunk_bytes: keeper.rebuild_chunk_bytes.0 / SECTOR_BYTES * SECTOR_BYTES,
            window_bytes: keeper.rebuild_window_bytes.0,
            begin_ns: keeper.rebuild_begin.ns,
            min_mb_per_s: keeper.rebuild_min_mb_per_s,
            max_mb_per_s: keeper.rebuild_max_mb_per_s,
            writing_mb_per_s: keeper.rebuild_writing_mb_per_s,
            share_percent: keeper.rebuild_share_percent,
            drains: keeper.rebuild_drains,
            waits: false,
        }
    }
}

/// How far a rebuild, an initialization or a scrub has come, and in how much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub condition: Condition,
    pub done_bytes: u64,
    pub spent_ns: u64,
    pub whole_bytes: u64,
}

impl System {
    pub(super) fn background_chunk(&mut self, now_ns: u64, turn: u32) {
        let Some(background) = self.background.as_mut().filter(|b| b.turn == turn) else { return };
        background.planned = false;
        let planned = *background;
        // Users may have taken the room that there was when it was planned.
        if planned.drains && !self.has_room_for(&planned) {
            return;
        }
        let member_bytes = self.whole_bytes(planned.array);
        let Some(background) = self.background.as_mut() else { return };
        background.started_ns = now_ns;
        background.in_flight += 1;
        let Background { condition, array, at, chunk_bytes: bytes, .. } = *background;
        let bytes = bytes.min(member_bytes - at);
        background.at = if at + bytes >= member_bytes { 0 } else { at + bytes };
        background.all_begun |= background.at == 0 && !background.repeats;
        self.background_bytes += bytes;
        let begin_ns = match self.own_controller(array) {
            Some(controller) => controller.command(now_ns, condition != Condition::Scrubbing),
            None => now_ns,
        };
        self.then(now_ns, begin_ns, Event::Chunk { turn, at, bytes });
        self.chunk_has_begun();
        if planned.drains {
            let waits = self.gives_way(now_ns, &planned);
            self.background.iter_mut().for_each(|b| b.waits = waits);
        }
        self.plan_background(now_ns);
    }

    /// What a background goes through of each member.
    fn whole_bytes(&self, array: usize) -> u64 {
        let own = self.arrays[array].member_bytes() / SECTOR_BYTES * SECTOR_BYTES;
        self.pool.as_ref().map_or(own, |pool| pool.used_bytes())
    }

    /// The controller that keeps this array's redundancy; its processor and its bus are what a chunk takes. Behind a
    /// software array each member operation takes those of the controller that it passes.
    fn own_controller(&mut self, array: usize) -> Option<&mut Controller> {
        self.controllers.get_mut(array).filter(|_| !self.software)
    }

    pub(super) fn begin_chunk(&mut self, now_ns: u64, turn: u32, at: u64, bytes: u64) {
        let Some(Background { condition, array, member, .. }) = self.background.filter(|b| b.turn == turn) else {
            return;
        };
        let owner = Owner::Background { turn, bytes };
        if let Some(pool) = &self.pool {
            let (mut operations, layout) = (Operations::default(), &self.arrays[array]);
            match condition {
                Condition::Scrubbing => pool.scrub(layout, at, bytes, &mut operations),
                _ => pool.resilver(layout, member as u32, at, bytes, &mut operations),
            }
            let class = pool.background_class(condition, member);
            let writing = operations.reads.is_empty();
            let job = Job { kind: Kind::Write, class, writing, ..Job::of(owner, operations) };
            let job = self.jobs.insert(job);
            return self.start_stage(now_ns, job);
        }
        self.start_job(now_ns, owner, array, Kind::Write, false, |array, out| match condition {
            Condition::Initializing => array.initialize(at, bytes, out),
            Condition::Scrubbing => array.scrub(at, bytes, out),
            _ => array.rebuild(member, at, bytes, out),
        });
    }

    /// When the bus has moved what a chunk has read: to where it is written, or only to be compared.
    pub(super) fn chunk_moved_ns(&mut self, now_ns: u64, array: usize, bytes: u64, write: bool) -> u64 {
        self.own_controller(array).map_or(now_ns, |controller| controller.transfer(now_ns, bytes, write))
    }

    pub(super) fn background_ended(&mut self, now_ns: u64, turn: u32) {
        let Some(background) = self.background.as_mut().filter(|b| b.turn == turn) else { return };
        background.in_flight -= 1;
        background.ended_ns = now_ns;
        let background = *background;
        if background.all_begun && background.in_flight == 0 {
            return self.rebuilt(now_ns, background);
        }
        self.lower_barrier(now_ns);
        self.plan_background(now_ns);
    }

    /// Plans the next chunk: beside users one at a time, at the pace that the keeper gives a rebuild beside what they do;
    /// without users several at a time, so that drives are never idle for it.
    fn plan_background(&mut self, now_ns: u64) {
        if self.background.is_some_and(|b| b.drains) {
            return self.plan_window(now_ns);
        }
        if let (Some(pool), Some(background)) = (&self.pool, self.background.as_mut()) {
            // The queues before the disks hold it back, nothing else.
            let most = pool.chunks_at_a_time(background.member, background.chunk_bytes);
            if !background.planned && !background.all_begun && background.in_flight < most {
                background.planned = true;
                let turn = background.turn;
                self.plan(now_ns + 1, Event::Background { turn });
            }
            return;
        }
        let recent = |at_ns: Option<u64>| at_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < IN_USE_NS);
        let writing = recent(self.last_write_ns);
        let in_use = writing || self.at_work > 0 || recent(self.last_request_ns);
        let Some(background) = self.background.as_mut() else { return };
        let rate = match (writing, in_use) {
            (true, _) => background.writing_mb_per_s,
            (_, true) => background.min_mb_per_s,
            _ => background.max_mb_per_s,
        };
        let at_a_time = if in_use { 1 } else { CHUNKS_AT_A_TIME };
        if background.planned || background.all_begun || background.in_flight >= at_a_time {
            return;
        }
        background.planned = true;
        let mut due_ns = background.started_ns + crate::ssd::per_mb(background.chunk_bytes, rate.max(0.001));
        if in_use && background.share_percent > 0.0 {
            let took_ns = background.ended_ns.saturating_sub(background.started_ns) as f64;
            let rest_ns = took_ns * (100.0 - background.share_percent) / background.share_percent;
            due_ns = due_ns.min(background.ended_ns + rest_ns as u64);
        }
        let turn = background.turn;
        self.plan(due_ns.max(now_ns + 1), Event::Background { turn });
    }

    /// What the background has done by an instant; none where there was none.
    pub fn background_by(&self, now_ns: u64) -> Option<Progress> {
        let own_ns = self.background.as_ref().map_or(0, |_| now_ns.saturating_sub(self.background_since_ns));
        let spent_ns = self.background_spent_ns + own_ns;
        (self.background_bytes > 0).then(|| Progress {
            condition: self.background_condition,
            done_bytes: self.background_bytes,
            spent_ns,
            whole_bytes: self.whole_bytes(0),
        })
    }

    /// The drive in this place is gone.
    pub(super) fn member_fails(&mut self, now_ns: u64, place: u32) {
        let here = self.places.len() / self.arrays.len();
        let (array, member) = (place as usize / here, place as usize % here);
        self.arrays[array].fail(member);
        let its_own = |b: &Background| b.array == array && b.member == member;
        if self.background.as_ref().is_some_and(|b| its_own(b) || !self.is_whole(b.array)) {
            self.end_rebuild(now_ns);
        }
        self.take_spare(now_ns);
        self.note_condition(now_ns);
    }

    /// Puts a spare into the first place that wants one, unless a rebuild goes on.
    fn take_spare(&mut self, now_ns: u64) {
        let distributed = self.pool.is_some() && self.brick.draid_spares > 0;
        let spares = if distributed { self.brick.draid_spares } else { self.brick.spares };
        let left = spares - self.spares_used;
        let wanting = (0..self.arrays.len()).filter(|array| self.is_whole(*array));
        let Some((array, member)) = wanting.filter_map(|n| self.first_absent(n).map(|m| (n, m))).next() else {
            return;
        };
        let Some(keeper) = self.brick.keeper().filter(|_| left > 0 && self.background.is_none()) else { return };
        self.turns += 1;
        let turn = self.turns;
        let rebuild =
            Background { array, member, repeats: false, turn, at: 0, started_ns: now_ns, ..Background::of(keeper) };
        let chunk_bytes = super::chunk_of(self.pool.as_deref(), rebuild.chunk_bytes);
        self.background = Some(self.window_of(Background { chunk_bytes, ..rebuild }));
        (self.background_since_ns, self.background_condition) = (now_ns, Condition::Rebuilding);
        let log_bytes = keeper.region_log_bytes.0;
        let here = self.places.len() / self.arrays.len();
        if let Some(pool) = self.pool.as_mut().filter(|_| distributed) {
            pool.spare_for(member, self.spares_used.into());
        } else {
            self.places[array * here + member] = self.brick.members + self.spares_used;
            self.arrays[array].replace(member);
        }
        self.spares_used += 1;
        if log_bytes > 0 && self.arrays[array].is_mirror() && self.caches[array].region_log.is_none() {
            self.caches[array].region_log = Some(RegionLog::new(log_bytes));
        }
        self.set_drive_caches(Condition::Rebuilding);
        self.plan(now_ns, Event::Background { turn });
    }

    fn rebuilt(&mut self, now_ns: u64, background: Background) {
        if !self.pool.as_mut().is_some_and(|pool| pool.rebuilt(background.member)) {
            self.arrays[background.array].restore(background.member);
        }
        self.end_rebuild(now_ns);
        self.take_spare(now_ns);
        self.note_condition(now_ns);
    }

    fn end_rebuild(&mut self, now_ns: u64) {
        self.background = None;
        self.background_spent_ns += now_ns - self.background_since_ns;
        self.chunk_has_begun();
        self.lower_barrier(now_ns);
        self.set_drive_caches(Condition::Normal);
        (0..self.caches.len()).for_each(|array| self.drop_idle_log(array));
    }

    /// Some controllers write through drive caches while anything is rebuilt.
    fn set_drive_caches(&mut self, condition: Condition) {
        let in_condition = Brick { condition, ..(*self.brick).clone() };
        let wanted = drive_caches(&in_condition);
        self.members.iter_mut().for_each(|m| m.set_write_cache(wanted));
    }

    /// Whether all data can still be had.
    fn is_whole(&self, array: usize) -> bool {
        let layout = &self.arrays[array];
        self.pool.as_ref().map_or_else(|| layout.is_whole(), |pool| pool.is_whole(layout))
    }

    /// A member that is gone and that nothing stands for.
    fn first_absent(&self, array: usize) -> Option<usize> {
        let layout = &self.arrays[array];
        self.pool.as_ref().map_or_else(|| layout.first_absent(), |pool| pool.first_absent(layout))
    }

    fn note_condition(&mut self, now_ns: u64) {
        let arrays = || 0..self.arrays.len();
        let condition = if arrays().any(|array| !self.is_whole(array)) {
            BrickState::Failed
        } else if self.background.is_some() {
            BrickState::Rebuilding
        } else if arrays().any(|array| self.first_absent(array).is_some()) {
            BrickState::Degraded
        } else {
            BrickState::Normal
        };
        if self.condition != condition {
            self.condition = condition;
            self.changes.push(Change::Condition { at_ns: now_ns, condition });
        }
    }
}
