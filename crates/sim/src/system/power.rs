//! A power cut: caches without a battery lose what they had acknowledged, requests under way fail, and the brick begins
//! again with nothing in its caches. Members that had failed stay failed, and a rebuild goes on where it was.

use std::cmp::Reverse;

use super::{Change, Event, Losses, LostWrites, System};
use crate::NEVER;
use crate::assembly::{cache_of, is_rebuilding};
use crate::member::{Lost, Member};
use crate::slab::Slab;
use crate::stamps::Stamped;
use crate::write_back::WriteBack;

impl System {
    /// What is lost, by member, and of the controllers' caches. What had been planned is forgotten, except failures to come.
    pub(super) fn power_fails(&mut self, now_ns: u64) -> (Vec<Vec<Lost>>, Vec<Lost>) {
        let members = self.members.iter_mut().map(|m| m.power_cut(now_ns)).collect();
        self.member_next_ns.fill(NEVER);
        self.events.retain(|Reverse((_, _, event))| matches!(event, Event::Failure(_)));
        if self.battery {
            return (members, Vec::new());
        }
        let caches = self.caches.iter().filter_map(|cache| cache.write_back.as_ref());
        let lost = caches.flat_map(WriteBack::dirty_extents).map(|(offset_bytes, bytes)| Lost { offset_bytes, bytes });
        (members, lost.collect())
    }

    /// Which acknowledged writes are about to be lost.
    fn writes_lost(&mut self, now_ns: u64) -> LostWrites {
        self.members.iter_mut().for_each(|member| member.advance(now_ns, &mut Vec::new()));
        let drives: Vec<Vec<Stamped>> = self.members.iter().map(Member::stamped).collect();
        let volatile = self.caches.iter().filter(|_| !self.battery).filter_map(|cache| cache.write_back.as_ref());
        let caches: Vec<Vec<Stamped>> = volatile.map(WriteBack::stamped).collect();
        self.lost_writes(now_ns, &drives, &caches)
    }

    pub(super) fn power_comes_back(&mut self, now_ns: u64) {
        let writes = self.writes_lost(now_ns);
        let (members, cached) = self.power_fails(now_ns);
        let failed: Vec<u32> = self.active.iter().map(|a| a.request.tag).collect();
        let bytes = |lost: &[Lost]| lost.iter().map(|l| l.bytes).sum::<u64>();
        let lost = Losses {
            drive_bytes: members.iter().map(|m| bytes(m)).sum(),
            drive_extents: members.iter().map(|m| m.len() as u64).sum(),
            drives: members.iter().filter(|m| !m.is_empty()).count() as u64,
            controller_bytes: bytes(&cached),
            failed_requests: failed.len() as u64,
            writes,
        };
        self.changes.push(Change::PowerCut { at_ns: now_ns, lost });
        self.begin_again(now_ns);
        self.ended.extend(failed.into_iter().map(|tag| (tag, now_ns, true)));
    }

    fn begin_again(&mut self, now_ns: u64) {
        (self.active, self.jobs, self.steps, self.rows) = (Slab::new(), Slab::new(), Slab::new(), Slab::new());
        self.waiting.clear();
        (self.at_work, self.completed) = (0, self.issued);
        self.resync.begin_again();
        self.arrays.iter_mut().for_each(|a| a.loads.fill(0));
        for (cache, array) in self.caches.iter_mut().zip(&self.arrays) {
            // A battery keeps what is in a cache; what was on its way is written again.
            let kept = cache.write_back.take().filter(|_| self.battery);
            *cache = cache_of(self.brick.keeper(), array, is_rebuilding(&self.brick));
            if let (Some(kept), Some(fresh)) = (kept, cache.write_back.as_mut()) {
                kept.dirty_extents().into_iter().for_each(|(offset, bytes)| fresh.add(offset, bytes, 0));
            }
        }
        if let Some(background) = &mut self.background {
            background.at = background.at.saturating_sub(u64::from(background.in_flight) * background.chunk_bytes);
            (background.in_flight, background.planned, background.all_begun) = (0, true, false);
            background.waits = false;
            let turn = background.turn;
            self.plan(now_ns + 1, Event::Background { turn });
        }
    }
}
