//! How Linux md shares members between a rebuild and users (drivers/md/md.c and raid5.c of Linux 4.1 to 6.15).
//!
//! After each window md looks whether anybody else uses the members (is_mddev_idle), and if so waits until all of the
//! rebuild under way has ended. It counts what a member has done less what the rebuild has asked of it, and takes notice
//! where that has grown by more than 64 sectors since it last took notice. What of the rebuild is still under way counts
//! against users, so that md sees a few users seldom, the more seldom the more of the rebuild is under way (Yu Kuai,
//! "md: fix is_mddev_idle()", linux-raid, 12 April 2025). While it sees none, the rebuild takes all of the stripe cache, and
//! users, whose requests to an array that lacks a member all pass the cache, wait for stripes first and behind the
//! rebuild's commands then. Whoever found the cache full waits until less than three quarters of it are taken, which a
//! command that was merged of many stripes brings about at once, and it grows by a stripe each time (raid5.c, R5_ALLOC_MORE).
//!
//! Of a RAID-10 users and a rebuild are never under way at the same time (raid10.c, raise_barrier): the rebuild waits until no
//! user waits, keeps further ones out, and begins when those before have ended; users go on when all of the rebuild has.
//! A user who is slow to ask again finds several chunks under way, as many as the rebuild's thread has begun meanwhile.
//! (A RAID-1 has such a barrier for writes to the 64 MiB that are being rebuilt, which is left out.)

use std::collections::VecDeque;

use super::System;
use super::background::Background;
use super::jobs::{Job, Owner, PAGE_BYTES};
use crate::brick::{Brick, Condition, Level};
use crate::member::Kind;

/// What users may have done on a member before they are noticed: 64 sectors.
const UNNOTICED_BYTES: i64 = 64 * 512;
/// For how much of a RAID-10's rebuild a barrier is raised at once (RESYNC_BLOCK_SIZE).
const BARRIER_BYTES: u64 = 64 << 10;

/// The stripe cache of an array with parity, in stripes of a page of each member.
#[derive(Debug)]
struct Stripes {
    all: u64,
    taken: u64,
    /// So many of a rebuild end together, as their pages were merged into one command.
    merged: u64,
    /// Somebody found too few: nobody gets any before a quarter is free.
    full: bool,
    waiting: VecDeque<u32>,
}

impl Stripes {
    /// Whether those who wait go on.
    fn has_room(&self) -> bool {
        4 * self.taken < 3 * self.all && self.taken + self.merged.min(self.all) <= self.all
    }

    fn runs_out(&mut self) {
        self.all += u64::from(!self.full);
        self.full = true;
    }
}

/// Between users and the rebuild of a RAID-10.
#[derive(Debug, Default)]
struct Barrier {
    raised: bool,
    users: u32,
    waiting: VecDeque<u32>,
}

/// What md keeps in mind of a rebuild.
#[derive(Debug)]
pub(super) struct Resync {
    stripes: Option<Stripes>,
    barrier: Option<Barrier>,
    /// Of each drive: bytes that rebuilds have asked of it, and what it had done beside them when users were last noticed.
    asked: Vec<i64>,
    noticed: Vec<i64>,
}

impl Resync {
    pub(super) fn new(brick: &Brick, has_parity: bool, drives: usize) -> Resync {
        let md = brick.software.as_ref().filter(|k| k.rebuild_drains);
        let barrier = md.filter(|_| brick.level == Level::Raid10).map(|_| Barrier::default());
        let cache = md.filter(|k| has_parity && k.stripe_cache_bytes.0 >= PAGE_BYTES);
        let stripes = cache.map(|k| Stripes {
            all: k.stripe_cache_bytes.0 / PAGE_BYTES,
            taken: 0,
            merged: k.rebuild_merged_bytes.0 / PAGE_BYTES,
            full: false,
            waiting: VecDeque::new(),
        });
        Resync { stripes, barrier, asked: vec![0; drives], noticed: vec![0; drives] }
    }

    /// Nothing is under way any more.
    pub(super) fn begin_again(&mut self) {
        if let Some(stripes) = &mut self.stripes {
            (stripes.taken, stripes.full) = (0, false);
            stripes.waiting.clear();
        }
        self.barrier = self.barrier.take().map(|_| Barrier::default());
        self.asked.fill(0);
        self.noticed.fill(0);
    }

    pub(super) fn asks(&mut self, drive: u32, bytes: u32) {
        self.asked[drive as usize] += i64::from(bytes);
    }
}

impl System {
    /// Plans the next window of a rebuild that lets users go first.
    pub(super) fn plan_window(&mut self, now_ns: u64) {
        let Some(background) = self.background.as_mut() else { return };
        if background.planned || background.all_begun || (background.waits && background.in_flight > 0) {
            return;
        }
        background.waits = false;
        let pace = background.max_mb_per_s.max(0.001);
        let own_ns = crate::ssd::per_mb(background.chunk_bytes, pace).max(background.begin_ns);
        let due_ns = background.started_ns + own_ns;
        let background = *background;
        // Until it is due it keeps nobody out.
        if due_ns <= now_ns && !self.has_room_for(&background) {
            return;
        }
        if let Some(background) = &mut self.background {
            background.planned = true;
        }
        self.plan(due_ns.max(now_ns + 1), super::Event::Background { turn: background.turn });
    }

    /// Whether the next window may be under way beside what is; otherwise it begins when there is room.
    pub(super) fn has_room_for(&mut self, background: &Background) -> bool {
        if let Some(barrier) = &mut self.resync.barrier {
            barrier.raised |= barrier.waiting.is_empty();
            if !barrier.raised || barrier.users > 0 {
                return false;
            }
        }
        let Some(stripes) = &mut self.resync.stripes else {
            let windows = (background.window_bytes / background.chunk_bytes.max(1)).max(1);
            return u64::from(background.in_flight) < windows;
        };
        let wanted = background.chunk_bytes.div_ceil(PAGE_BYTES);
        let fits = stripes.taken == 0 || (!stripes.full && stripes.taken + wanted <= stripes.all);
        if !fits {
            stripes.runs_out();
        }
        fits
    }

    /// Whether a rebuild waits now until what is under way of it has ended: beside users that are noticed, unless it is
    /// below its minimum.
    pub(super) fn gives_way(&mut self, now_ns: u64, background: &Background) -> bool {
        let spent_ns = now_ns.saturating_sub(self.background_since_ns);
        if crate::ssd::per_mb(self.background_bytes, background.min_mb_per_s.max(0.001)) < spent_ns {
            return false;
        }
        let here = self.places.len() / self.arrays.len();
        let mut noticed = false;
        for place in background.array * here..(background.array + 1) * here {
            let drive = self.places[place] as usize;
            let done = self.work[drive].read_bytes + self.work[drive].written_bytes;
            let others = done as i64 - self.resync.asked[drive];
            if others - self.resync.noticed[drive] > UNNOTICED_BYTES {
                self.resync.noticed[drive] = others;
                noticed = true;
            }
        }
        noticed
    }

    /// Whether a job may begin beside a rebuild; otherwise it waits, and is begun later.
    pub(super) fn may_begin(&mut self, number: u32) -> bool {
        let Some(background) = self.background.filter(|b| b.drains) else { return true };
        let job = self.jobs.get(number);
        let rebuilds = matches!(job.owner, Owner::Background { .. });
        if let Some(barrier) = self.resync.barrier.as_mut().filter(|_| !rebuilds) {
            if barrier.raised || background.in_flight > 0 {
                barrier.waiting.push_back(number);
                return false;
            }
            barrier.users += 1;
            job.passes = true;
        }
        // Reads of an array that lacks nothing go to its members at once.
        let past = job.kind == Kind::Read && background.condition != Condition::Rebuilding;
        let Some(stripes) = self.resync.stripes.as_mut().filter(|_| !past) else { return true };
        let all = job.operations.writes.iter().chain(&job.operations.reads);
        job.stripes = all.map(|op| u64::from(op.bytes).div_ceil(PAGE_BYTES)).max().unwrap_or(0);
        if !rebuilds && (stripes.full || stripes.taken >= stripes.all) {
            stripes.runs_out();
            stripes.waiting.push_back(number);
            return false;
        }
        stripes.taken += job.stripes;
        true
    }

    /// A job that has ended makes room for who waits for some.
    pub(super) fn make_room(&mut self, now_ns: u64, job: &Job) {
        let mut begin = Vec::new();
        if let Some(barrier) = self.resync.barrier.as_mut().filter(|_| job.passes) {
            barrier.users -= 1;
            if barrier.users > 0 || !barrier.raised {
                return;
            }
        } else if let Some(stripes) = self.resync.stripes.as_mut().filter(|_| job.stripes > 0) {
            stripes.taken -= job.stripes.min(stripes.taken);
            if !stripes.full || !stripes.has_room() {
                return;
            }
            while stripes.taken < stripes.all {
                let Some(next) = stripes.waiting.pop_front() else { break };
                stripes.taken += self.jobs.get(next).stripes;
                begin.push(next);
            }
            stripes.full = !stripes.waiting.is_empty();
        } else {
            return;
        }
        begin.into_iter().for_each(|next| self.begin_job(now_ns, next));
        if self.background.is_some_and(|b| b.drains) {
            self.plan_window(now_ns);
        }
    }

    /// A chunk of the rebuild has begun: the barrier that was raised for it comes down when all of them have ended.
    pub(super) fn chunk_has_begun(&mut self) {
        self.resync.barrier.iter_mut().for_each(|barrier| barrier.raised = false);
    }

    /// Lets users go on who waited for a rebuild of which nothing is under way any more.
    pub(super) fn lower_barrier(&mut self, now_ns: u64) {
        let under_way = self.background.is_some_and(|b| b.in_flight > 0);
        let Some(barrier) = self.resync.barrier.as_mut().filter(|b| !b.raised && !under_way) else { return };
        let waiting = std::mem::take(&mut barrier.waiting);
        barrier.users += waiting.len() as u32;
        for number in waiting {
            self.jobs.get(number).passes = true;
            self.begin_job(now_ns, number);
        }
    }

    /// What a rebuild does at once.
    pub(super) fn window_of(&self, background: Background) -> Background {
        match self.resync.barrier {
            Some(_) => Background { chunk_bytes: background.chunk_bytes.min(BARRIER_BYTES), ..background },
            None => background,
        }
    }
}
