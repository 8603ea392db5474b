//! What a controller's cache does: writes that wait for room, destaging, flushes, rows that gather, and records of a
//! region log.

use super::jobs::{Job, Owner, Step};
use super::{Event, REFUSED_NS, Request, System};
use crate::array::MemberOp;
use crate::gather::{Due, Gathered};
use crate::member::Kind;
use crate::region_log::RegionLog;
use crate::write_back::{Destage, WriteBack};
use crate::zfs::queue::Class;

/// Rows that are destaged at a time, for each member: enough to keep a queue at each of them. Of whole rows of an array
/// with parity it is one row at a time, which keeps all members busy already.
const DESTAGES_A_MEMBER: usize = 4;

impl System {
    pub(super) fn write_record(&mut self, now_ns: u64, array: usize) {
        if self.caches[array].region_log.as_mut().is_some_and(RegionLog::begins) {
            self.start_job(now_ns, Owner::Record { array: array as u32 }, array, Kind::Write, true, |a, out| {
                a.record(out)
            });
        }
    }

    pub(super) fn recorded(&mut self, now_ns: u64, array: usize) {
        let log = self.caches[array].region_log.as_mut();
        let held = log.map(RegionLog::recorded).unwrap_or_default();
        held.into_iter().for_each(|held| self.start_write(now_ns, array, held));
        self.write_record(now_ns, array);
        if self.background.is_none() && !self.brick.failures.is_empty() {
            self.drop_idle_log(array);
        }
    }

    /// After a rebuild no records are kept any more.
    pub(super) fn drop_idle_log(&mut self, array: usize) {
        if self.caches[array].region_log.as_ref().is_some_and(RegionLog::is_idle) {
            self.caches[array].region_log = None;
        }
    }

    /// Lets blocked writes into the cache as far as there is room, in order, and keeps destaging going.
    pub(super) fn admit(&mut self, now_ns: u64, array: usize) {
        while let Some(number) = self.caches[array].blocked.front().copied() {
            let request = self.active.get(number).request;
            let bytes = u64::from(request.bytes);
            let Some(cache) = self.caches[array].write_back.as_mut() else { return };
            if !cache.has_room(bytes) {
                break;
            }
            self.caches[array].blocked.pop_front();
            let stamp = self.ledger.as_ref().map_or(0, |ledger| ledger.stamp_of(number));
            self.keep(array, &request, stamp);
            self.part_ended(now_ns, number);
        }
        self.destage(now_ns, array);
    }

    /// Puts the part of a request that lies in this array into its cache.
    pub(super) fn keep(&mut self, array: usize, request: &Request, stamp: u64) {
        for (here, offset, bytes) in self.parts(request.offset_bytes, u64::from(request.bytes)) {
            if let Some(cache) = self.caches[array].write_back.as_mut().filter(|_| here == array) {
                cache.add(offset, bytes, stamp);
            }
        }
    }

    pub(super) fn destage(&mut self, now_ns: u64, array: usize) {
        let limit = DESTAGES_A_MEMBER * self.arrays[array].loads.len();
        let whole_limit = if self.arrays[array].has_parity() { 1 } else { limit };
        loop {
            let cache = &mut self.caches[array];
            let Some(write_back) = cache.write_back.as_mut() else { return };
            // Where writes wait for room, whole rows make it more cheaply than partial ones.
            let stuck = !cache.blocked.is_empty() && cache.whole_moving == 0 && !write_back.has_whole();
            let everything = stuck || !cache.flushing.is_empty();
            let mut next = None;
            if cache.whole_moving < whole_limit {
                next = write_back.next_whole();
            }
            if next.is_none() && cache.partial_moving < limit {
                next = write_back.next_partial(everything);
            }
            let Some(Destage { row, extents, bytes, whole }) = next else { return };
            if whole {
                cache.whole_moving += 1;
            } else {
                cache.partial_moving += 1;
            }
            let owner = Owner::Destage { controller: array as u32, row, bytes, whole };
            self.start_job(now_ns, owner, array, Kind::Write, false, |a, out| {
                extents.iter().for_each(|(offset, bytes)| a.write(*offset, *bytes, out));
            });
        }
    }

    pub(super) fn row_due(&mut self, now_ns: u64, array: usize, due: Due) {
        if let Some(row) = self.caches[array].gather.as_mut().and_then(|gather| gather.due(due)) {
            self.write_gathered(now_ns, array, row);
        }
    }

    pub(super) fn write_gathered(&mut self, now_ns: u64, array: usize, row: Gathered) {
        let Gathered { extents, waiting, durable } = row;
        let owner = Owner::Row { waiting: self.rows.insert(waiting) };
        self.start_job(now_ns, owner, array, Kind::Write, durable, |a, out| {
            extents.iter().for_each(|(offset, bytes)| a.write(*offset, *bytes, out));
        });
    }

    pub(super) fn flush(&mut self, now_ns: u64, number: u32) {
        self.active.get(number).parts = 1;
        for array in 0..self.arrays.len() {
            let clean = self.caches[array].write_back.as_ref().is_none_or(WriteBack::is_clean);
            if self.battery && self.caches[array].write_back.is_some() {
                continue;
            }
            self.active.get(number).parts += 1;
            if clean {
                self.flush_members(now_ns, number, array);
            } else {
                self.caches[array].flushing.push(number);
                self.destage(now_ns, array);
            }
        }
        self.part_ended(now_ns, number);
    }

    pub(super) fn flush_members(&mut self, now_ns: u64, number: u32, array: usize) {
        let here = self.arrays[array].loads.len();
        let targets: Vec<usize> = (0..here).filter(|m| !self.arrays[array].is_absent(*m)).collect();
        let operations = self.spare.pop().unwrap_or_default();
        let pending = targets.len() as u32;
        let owner = Owner::Request(number);
        let job = Job { array: array as u32, kind: Kind::Flush, writing: true, pending, ..Job::of(owner, operations) };
        let job = self.jobs.insert(job);
        if targets.is_empty() {
            self.jobs.get(job).operations.lost = true;
            return self.plan(now_ns + REFUSED_NS, Event::JobEnded(job));
        }
        for member in targets {
            let op = MemberOp { member: (array * here + member) as u32, write: false, offset_bytes: 0, bytes: 0 };
            let class = Class::SyncWrite;
            let step = self.steps.insert(Step { job, op, kind: Kind::Flush, durable: false, stamp: 0, class });
            self.give_member(now_ns, step);
        }
    }

    pub(super) fn destaged(&mut self, now_ns: u64, array: usize, row: u64, bytes: u64, whole: bool) {
        let cache = &mut self.caches[array];
        if whole {
            cache.whole_moving -= 1;
        } else {
            cache.partial_moving -= 1;
        }
        let Some(write_back) = cache.write_back.as_mut() else { return };
        write_back.destaged(row, bytes);
        if write_back.is_clean() {
            let flushing = std::mem::take(&mut cache.flushing);
            flushing.into_iter().for_each(|number| self.flush_members(now_ns, number, array));
        }
        self.admit(now_ns, array);
    }
}
