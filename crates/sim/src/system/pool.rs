//! A ZFS pool in place of arrays of stripes: records, transaction groups, the log, and queues before the disks.
//!
//! - A read takes all data of its records, since their checksums cover all of them; what is dirty or read ahead comes from
//!   memory. The ARC beyond that is not modelled: a record that is read twice is read from disks twice.
//! - A write of a part of a record reads it first. Then it is in memory, and ends: unless it is to be durable, the disks
//!   have it later. Above `delay_min_dirty_percent` of `dirty_data_max` writes are delayed, at the maximum they wait.
//! - One thread hands over what is dirty, record by record (`sync_record`), since an object is written by one. Whole
//!   records of 128 KiB take no such time: pools of 12 and 24 disks write their streams faster than it would let them.
//! - Every `txg_timeout`, or when `dirty_data_sync_percent` is dirty, a transaction group is written: to free places in
//!   order, then a flush, the labels, and a flush (OpenZFS, module/zfs/txg.c, dsl_pool.c, spa.c, vdev_label.c).
//! - Durable writes and flushes end when the log has them (`system::pool_log`).
//! - A request's own work and the copying of its data take a core; requests wait for one of `cores`.
//! - Degraded reads of raidz and dRAID take all columns that are left; a mirror reads the member with the least load.
//!
//! Metadata beyond labels are taken as cached, and their writes cost nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::jobs::{Job, Owner, Step};
use super::pool_log::Log;
use super::{Event, REFUSED_NS, System};
use crate::array::{Array, MemberOp, Operations};
use crate::brick::{Brick, Condition, DriveParameters, ZfsParameters};
use crate::member::Kind;
use crate::slab::Slab;
use crate::ssd::per_mb;
use crate::zfs::layout::{Column, FRONT_BYTES, Layout};
use crate::zfs::prefetch::Prefetch;
use crate::zfs::queue::{Class, DiskQueue};
use crate::zfs::space::Space;

/// No write is delayed longer (dsl_pool.c, zfs_delay_max_ns).
const MOST_DELAY_NS: u64 = 100_000_000;
/// From here on, records are handed over as fast as disks take them.
const WHOLE_RECORD_BYTES: u64 = 128 << 10;
/// Free space that is needed: what is open, what is being written, and two transaction groups whose space is freed late.
const FREE_DIRTY_MAXIMA: u64 = 4;
/// Top-level vdevs whose labels take the root of a transaction group (SPA_SYNC_MIN_VDEVS).
const ROOT_VDEVS: u64 = 3;
/// Chunks of a rebuild that are planned at a time at the most, so that a wide dRAID needs no more memory.
const MOST_CHUNKS: u64 = 2048;
/// Where a mirror's copies are equally busy, which one is read changes every 2 MiB (zfs_vdev_mirror_shift).
const MIRROR_SHIFT: u32 = 21;

/// What a job is for.
#[derive(Debug)]
pub(super) enum Work {
    Record(u64),
    Ahead(u64),
    /// So many records of the transaction group that is being written.
    Txg(u64),
    TxgFlush {
        last: bool,
    },
    Roots,
    Log(u64),
    LogFlush(u64),
}

#[derive(Debug)]
pub(super) struct Pool {
    pub(super) zfs: ZfsParameters,
    pub(super) layout: Layout,
    pub(super) space: Space,
    /// Records of the volume.
    records: u64,
    queues: Vec<DiskQueue>,
    last_end: Vec<u64>,
    rotating: bool,
    prefetch: Prefetch,
    pub(super) works: Slab<Work>,
    /// Records that are being read, with the requests that wait for them.
    reading: BTreeMap<u64, Vec<u32>>,
    /// Writes whose log is under way: with their end they are durable.
    pub(super) logging: BTreeSet<u32>,
    /// Dirty records: of the open transaction group with the place that the log gave them, and of the one being written.
    pub(super) open: BTreeMap<u64, Option<u64>>,
    syncing: BTreeSet<u64>,
    pub(super) txg: u64,
    is_syncing: bool,
    pieces_left: u64,
    /// Pieces of the transaction group that have not been handed over, with their records.
    unissued: VecDeque<(u64, Operations)>,
    pub(super) dirty_bytes: u64,
    /// All that have become dirty so far.
    pub(super) dirtied_bytes: u64,
    /// When each core has done what it was given.
    cores_free_ns: Vec<u64>,
    blocked: VecDeque<u32>,
    last_wake_ns: u64,
    txg_began_ns: u64,
    tick_planned: bool,
    pub(super) log: Log,
    /// Distributed spares by the disk that they stand for: which one, and whether it is whole.
    spared: Vec<Option<(u64, bool)>>,
}

impl Pool {
    pub(super) fn new(brick: &Brick, member_bytes: u64) -> Result<Option<Pool>, String> {
        let Some(zfs) = brick.zfs().filter(|_| brick.level.is_zfs()).cloned() else { return Ok(None) };
        let layout = Layout::new(brick, &zfs, member_bytes)?;
        let record = layout.record_bytes;
        let records = (layout.usable_bytes() as f64 * zfs.fill_percent / 100.0) as u64 / record;
        let free = (layout.places() - records.min(layout.places())) * record;
        if records == 0 || free < FREE_DIRTY_MAXIMA * zfs.dirty_data_max.0 {
            return Err(format!(
                "sim:{}: {} of the pool are free, four times software.zfs_dirty_data_max ({}) are needed; lower that or \
                 software.zfs_fill_percent",
                brick.name,
                plan::format_bytes(free),
                plan::format_bytes(zfs.dirty_data_max.0)
            ));
        }
        let members = brick.members as usize;
        let mut spared = vec![None; members];
        if brick.condition == Condition::Rebuilding && brick.draid_spares > 0 {
            spared[0] = Some((0, false));
        }
        let places = layout.places();
        Ok(Some(Pool {
            prefetch: Prefetch::new(zfs.zfetch_min_distance.0, zfs.zfetch_max_distance.0, record, records * record),
            space: Space::new(records, places),
            log: Log::new(layout.vdevs),
            layout,
            records,
            queues: (0..members).map(|_| DiskQueue::default()).collect(),
            last_end: vec![0; members],
            rotating: matches!(brick.drive, DriveParameters::Rotating(_)),
            works: Slab::new(),
            reading: BTreeMap::new(),
            logging: BTreeSet::new(),
            open: BTreeMap::new(),
            syncing: BTreeSet::new(),
            txg: 1,
            is_syncing: false,
            unissued: VecDeque::new(),
            pieces_left: 0,
            dirty_bytes: 0,
            dirtied_bytes: 0,
            cores_free_ns: vec![0; zfs.cores as usize],
            blocked: VecDeque::new(),
            last_wake_ns: 0,
            txg_began_ns: 0,
            tick_planned: false,
            spared,
            zfs,
        }))
    }

    pub(super) fn capacity_bytes(&self) -> u64 {
        self.records * self.layout.record_bytes
    }

    /// What a resilver or scrub goes through of each disk.
    pub(super) fn used_bytes(&self) -> u64 {
        self.layout.member_used_bytes(self.records)
    }

    fn dirty_share(&self) -> f64 {
        self.dirty_bytes as f64 / self.zfs.dirty_data_max.0 as f64
    }

    pub(super) fn aggregation_bytes(&self) -> u64 {
        let limits = (self.zfs.vdev_aggregation_limit.0, self.zfs.vdev_aggregation_limit_non_rotating.0);
        if self.rotating { limits.0 } else { limits.1 }
    }

    /// Records that a request touches.
    fn touched(&self, offset: u64, bytes: u64) -> std::ops::RangeInclusive<u64> {
        offset / self.layout.record_bytes..=(offset + bytes - 1) / self.layout.record_bytes
    }

    fn in_memory(&self, record: u64) -> bool {
        self.open.contains_key(&record) || self.syncing.contains(&record)
    }

    /// Where a column is read; none where its disk is gone.
    fn readable(&self, array: &Array, column: &Column) -> Option<u32> {
        self.home(column, |m| !array.is_unreadable(m), |ready| ready)
    }

    /// Where a column is written.
    fn writable(&self, array: &Array, column: &Column) -> Option<u32> {
        self.home(column, |m| !array.is_absent(m), |_| true)
    }

    /// The disk of a column, or the distributed spare that stands for it.
    fn home(&self, column: &Column, has: impl Fn(usize) -> bool, takes: impl Fn(bool) -> bool) -> Option<u32> {
        let mut member = column.member;
        for _ in 0..self.spared.len() {
            if has(member as usize) {
                return Some(member);
            }
            let (spare, ready) = self.spared[member as usize]?;
            if !takes(ready) {
                return None;
            }
            let vdev = u64::from(column.member) / self.layout.width;
            member = self.layout.spare_member(vdev, column.slice, spare);
        }
        None
    }

    /// The reads of a record.
    fn read_record(&mut self, array: &Array, record: u64, out: &mut Operations) {
        let (vdev, offset) = self.layout.place(self.space.place_of(record));
        let mut columns = Vec::new();
        self.layout.columns(vdev, offset, self.layout.record_bytes, &mut columns);
        if self.layout.is_mirror() {
            let found = self.choose(array, &columns);
            out.lost |= found.is_none();
            if let Some(column) = found {
                self.last_end[column.member as usize] = column.offset_bytes + column.bytes;
                out.reads.push(read_of(column.member, &column));
            }
            return;
        }
        let found: Vec<(Option<u32>, &Column)> = columns.iter().map(|c| (self.readable(array, c), c)).collect();
        let missing = found.iter().filter(|(member, c)| member.is_none() && !c.parity).count();
        let parity = found.iter().filter(|(member, c)| member.is_some() && c.parity).count();
        out.lost |= missing > parity;
        let wanted = found.iter().filter(|(_, c)| !c.parity || missing > 0);
        out.reads.extend(wanted.filter_map(|(member, c)| member.map(|member| read_of(member, c))));
    }

    /// The copy on the disk with the least load: commands, and what a seek counts (module/zfs/vdev_mirror.c).
    fn choose(&self, array: &Array, copies: &[Column]) -> Option<Column> {
        let readable: Vec<&Column> = copies.iter().filter(|c| !array.is_unreadable(c.member as usize)).collect();
        let seek = match self.rotating {
            true => self.zfs.vdev_mirror_rotating_seek_inc,
            false => self.zfs.vdev_mirror_non_rotating_seek_inc,
        };
        let load = |c: &Column| {
            let member = c.member as usize;
            let far = match c.offset_bytes.abs_diff(self.last_end[member]) {
                0 => 0,
                near if near < self.zfs.vdev_mirror_rotating_seek_offset.0 => seek / 2,
                _ => seek,
            };
            self.queues[member].load() + far
        };
        let least = readable.iter().map(|c| load(c)).min()?;
        let equal: Vec<&&Column> = readable.iter().filter(|c| load(c) == least).collect();
        let turn = (equal[0].offset_bytes >> MIRROR_SHIFT) as usize % equal.len();
        Some(**equal[turn])
    }

    /// The reads of consecutive records, merged as a disk's queue merges them.
    fn read_ahead(&mut self, array: &Array, offset: u64, bytes: u64, out: &mut Operations) {
        for record in self.touched(offset, bytes) {
            if !self.in_memory(record) {
                self.read_record(array, record, out);
            }
        }
        let (gap, most) = (self.zfs.vdev_read_gap_limit.0, self.aggregation_bytes());
        out.reads.sort_by_key(|op| (op.member, op.offset_bytes));
        let mut merged: Vec<MemberOp> = Vec::new();
        for op in out.reads.drain(..) {
            let continued = merged.last_mut().filter(|last| {
                let end = last.offset_bytes + u64::from(last.bytes);
                let whole = (op.offset_bytes + u64::from(op.bytes)).saturating_sub(last.offset_bytes);
                last.member == op.member && end <= op.offset_bytes && op.offset_bytes - end <= gap && whole <= most
            });
            match continued {
                Some(last) => last.bytes = (op.offset_bytes - last.offset_bytes) as u32 + op.bytes,
                None => merged.push(op),
            }
        }
        out.reads = merged;
    }

    /// The writes of a run of space, with its padding.
    fn write_range(&self, array: &Array, vdev: u64, offset: u64, asize: u64, out: &mut Operations) {
        self.layout.range(vdev, offset, asize, |column| {
            if let Some(member) = self.writable(array, &column) {
                out.writes.push(MemberOp { write: true, ..read_of(member, &column) });
            }
        });
    }

    /// The writes of a block by itself: nothing merges over the padding of a raidz, and a dRAID's rows are whole.
    pub(super) fn write_block(&self, array: &Array, vdev: u64, offset: u64, bytes: u64, out: &mut Operations) {
        if self.layout.is_draid() {
            return self.write_range(array, vdev, offset, self.layout.asize(bytes), out);
        }
        let mut columns = Vec::new();
        self.layout.columns(vdev, offset, bytes, &mut columns);
        for column in &columns {
            if let Some(member) = self.writable(array, column) {
                out.writes.push(MemberOp { write: true, ..read_of(member, column) });
            }
        }
    }

    /// When the throttle lets a write go on.
    fn delayed_ns(&mut self, now_ns: u64) -> u64 {
        let max = self.zfs.dirty_data_max.0;
        let from = (max as f64 * self.zfs.delay_min_dirty_percent / 100.0) as u64;
        if self.dirty_bytes <= from {
            return now_ns;
        }
        let left = max.saturating_sub(self.dirty_bytes).max(1);
        let delay_ns = u128::from(self.zfs.delay_scale) * u128::from(self.dirty_bytes - from) / u128::from(left);
        let delay_ns = delay_ns.min(u128::from(MOST_DELAY_NS)) as u64;
        self.last_wake_ns = (now_ns + delay_ns).max(self.last_wake_ns + delay_ns);
        self.last_wake_ns
    }

    /// When a core has done a request's own work and has copied and summed its data: the first one that is free.
    fn computed(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let cost_ns = self.zfs.request.ns + per_mb(bytes, self.zfs.copy_mb_per_s);
        let Some(free_ns) = self.cores_free_ns.iter_mut().min() else { return now_ns + cost_ns };
        *free_ns = now_ns.max(*free_ns) + cost_ns;
        *free_ns
    }

    /// Whether all data can still be had.
    pub(super) fn is_whole(&self, array: &Array) -> bool {
        let gone = |m: usize| array.is_unreadable(m) && !self.spared[m].is_some_and(|(_, ready)| ready);
        let tolerated = if self.layout.is_mirror() { self.layout.width - 1 } else { self.layout.parity };
        let width = self.layout.width as usize;
        let members: Vec<bool> = (0..self.spared.len()).map(gone).collect();
        members.chunks(width).all(|vdev| vdev.iter().filter(|gone| **gone).count() as u64 <= tolerated)
    }

    /// A disk that is gone and for which no distributed spare stands.
    pub(super) fn first_absent(&self, array: &Array) -> Option<usize> {
        (0..self.spared.len()).find(|m| array.is_absent(*m) && self.spared[*m].is_none())
    }

    /// Gives a distributed spare to a disk that is gone.
    pub(super) fn spare_for(&mut self, member: usize, spare: u64) {
        self.spared[member] = Some((spare, false));
    }

    /// The rebuild of a member has come to its end; whether a distributed spare stands for it.
    pub(super) fn rebuilt(&mut self, member: usize) -> bool {
        self.spared[member] = self.spared[member].map(|(spare, _)| (spare, true));
        self.spared[member].is_some()
    }

    /// Chunks of a rebuild or scrub under way at a time. A rebuild's limit is of the data that it moves over all disks, a
    /// scrub's of each disk (vdev_rebuild.c, vr_bytes_inflight_max; dsl_scan.c).
    pub(super) fn chunks_at_a_time(&self, member: usize, chunk_bytes: u64) -> u32 {
        let limit = match self.spared[member] {
            Some(_) => self.zfs.rebuild_vdev_limit.0 * self.layout.width / self.layout.group_data(),
            None => self.zfs.scan_vdev_limit.0,
        };
        (limit / chunk_bytes.max(1)).clamp(1, MOST_CHUNKS) as u32
    }

    pub(super) fn background_class(&self, condition: Condition, member: usize) -> Class {
        match condition == Condition::Rebuilding && self.spared[member].is_some() {
            true => Class::Rebuild,
            false => Class::Scrub,
        }
    }

    /// The operations of a chunk of a scrub: all copies, data and parity are read.
    pub(super) fn scrub(&self, array: &Array, at: u64, bytes: u64, out: &mut Operations) {
        let mut group = Vec::new();
        for member in (0..self.spared.len() as u32).filter(|m| !array.is_unreadable(*m as usize)) {
            if !self.layout.is_draid() || self.layout.group_beside(member, at, bytes, &mut group).is_some() {
                out.reads.push(piece_of(member, at, bytes, false));
            }
        }
    }

    /// The operations of a chunk of a resilver: what the others have of it is read, the disk that comes back or the
    /// distributed spare is written.
    pub(super) fn resilver(&self, array: &Array, member: u32, at: u64, bytes: u64, out: &mut Operations) {
        if !self.layout.is_draid() {
            let others = self.layout.peers(member).filter(|m| *m != member && !array.is_unreadable(*m as usize));
            let mut others: Vec<u32> = others.collect();
            if self.layout.is_mirror() {
                let least = others.iter().copied().min_by_key(|m| self.queues[*m as usize].load());
                others = least.into_iter().collect();
            }
            out.reads.extend(others.into_iter().map(|m| piece_of(m, at, bytes, false)));
            return out.writes.push(piece_of(member, at, bytes, true));
        }
        let mut group = Vec::new();
        let Some(slice) = self.layout.group_beside(member, at, bytes, &mut group) else { return };
        let own = Column { member, offset_bytes: FRONT_BYTES + at, bytes, parity: false, slice };
        let Some(target) = self.writable(array, &own) else { return };
        let beside = group.iter().filter_map(|c| Some(read_of(self.readable(array, c)?, c)));
        out.reads.extend(beside.filter(|op| op.member != target));
        out.writes.push(MemberOp { write: true, ..read_of(target, &own) });
    }
}

fn read_of(member: u32, column: &Column) -> MemberOp {
    MemberOp { member, write: false, offset_bytes: column.offset_bytes, bytes: column.bytes as u32 }
}

fn piece_of(member: u32, at: u64, bytes: u64, write: bool) -> MemberOp {
    MemberOp { member, write, offset_bytes: FRONT_BYTES + at, bytes: bytes as u32 }
}

impl System {
    /// A request to the pool.
    pub(super) fn pool_serve(&mut self, now_ns: u64, number: u32) {
        let request = self.active.get(number).request;
        let (offset, bytes) = (request.offset_bytes, u64::from(request.bytes));
        self.active.get(number).parts = 1;
        let Some(pool) = self.pool.as_mut() else { return };
        let whole = pool.is_whole(&self.arrays[0]);
        match request.kind {
            Kind::Read => self.pool_read(now_ns, number, offset, bytes),
            Kind::Write if !whole => {
                self.active.get(number).failed = true;
                return self.plan(now_ns + REFUSED_NS, Event::Ended(number));
            }
            Kind::Write => {
                let record = pool.layout.record_bytes;
                let within = |r: u64| r * record >= offset && (r + 1) * record <= offset + bytes;
                let parts = pool.touched(offset, bytes).filter(|r| !within(*r) && !pool.in_memory(*r));
                let parts: Vec<u64> = parts.collect();
                parts.into_iter().for_each(|record| self.pool_read_record(now_ns, number, record));
            }
            Kind::Flush => {
                self.pool_commit(now_ns, number);
            }
            Kind::Trim => {}
        }
        self.part_ended(now_ns, number);
    }

    fn pool_read(&mut self, now_ns: u64, number: u32, offset: u64, bytes: u64) {
        let Some(pool) = self.pool.as_mut() else { return };
        let found = pool.prefetch.read(number, offset, bytes);
        let touched = pool.touched(offset, bytes);
        let Some((waits, fetch)) = found else {
            let cold: Vec<u64> = touched.filter(|r| !pool.in_memory(*r)).collect();
            return cold.into_iter().for_each(|record| self.pool_read_record(now_ns, number, record));
        };
        self.active.get(number).parts += waits;
        for record in touched {
            // The read that began the stream may be under way.
            if let Some(waiting) = pool.reading.get_mut(&record) {
                waiting.push(number);
                self.active.get(number).parts += 1;
            }
        }
        if let Some((id, from, length)) = fetch {
            let mut operations = Operations::default();
            pool.read_ahead(&self.arrays[0], from, length, &mut operations);
            self.pool_job(now_ns, Work::Ahead(id), Kind::Read, Class::AsyncRead, operations);
        }
    }

    /// Reads a record, or waits for whoever does already.
    fn pool_read_record(&mut self, now_ns: u64, number: u32, record: u64) {
        self.active.get(number).parts += 1;
        let Some(pool) = self.pool.as_mut() else { return };
        if let Some(waiting) = pool.reading.get_mut(&record) {
            return waiting.push(number);
        }
        pool.reading.insert(record, vec![number]);
        let mut operations = Operations::default();
        pool.read_record(&self.arrays[0], record, &mut operations);
        self.pool_job(now_ns, Work::Record(record), Kind::Read, Class::SyncRead, operations);
    }

    /// All parts of a request to the pool have ended.
    pub(super) fn pool_parts_ended(&mut self, now_ns: u64, number: u32) {
        let active = *self.active.get(number);
        let Some(pool) = self.pool.as_mut() else { return };
        let is_durable = pool.logging.remove(&number);
        if active.request.kind == Kind::Write && !is_durable && !active.failed {
            let wake_ns = pool.delayed_ns(now_ns);
            return self.then(now_ns, wake_ns, Event::PoolWrite(number));
        }
        let bytes = match active.request.kind {
            Kind::Read | Kind::Write => u64::from(active.request.bytes),
            Kind::Flush | Kind::Trim => 0,
        };
        let end_ns = pool.computed(now_ns, bytes);
        self.then(now_ns, end_ns, Event::Ended(number));
    }

    /// A write becomes dirty data, if there is room for it.
    pub(super) fn pool_write(&mut self, now_ns: u64, number: u32) {
        let request = self.active.get(number).request;
        let (offset, bytes) = (request.offset_bytes, u64::from(request.bytes));
        let Some(pool) = self.pool.as_mut() else { return };
        let fresh = pool.touched(offset, bytes).filter(|r| !pool.open.contains_key(r)).count() as u64;
        let added = fresh * pool.layout.record_bytes;
        if pool.dirty_bytes > 0 && added > 0 && pool.dirty_bytes + added > pool.zfs.dirty_data_max.0 {
            return pool.blocked.push_back(number);
        }
        pool.dirty_bytes += added;
        pool.dirtied_bytes += added;
        for record in pool.touched(offset, bytes) {
            // What the log had put in place is written again with the transaction group.
            if let Some(Some(place)) = pool.open.insert(record, None) {
                pool.space.frees(place);
            }
        }
        let txg = pool.txg;
        pool.log.keep(txg, offset, bytes);
        if request.durable {
            pool.logging.insert(number);
            self.active.get(number).parts = 1;
            self.pool_commit(now_ns, number);
            self.part_ended(now_ns, number);
        } else {
            let end_ns = pool.computed(now_ns, bytes);
            self.then(now_ns, end_ns, Event::Ended(number));
        }
        self.txg_due(now_ns, false);
    }

    /// Begins to write the open transaction group where it is time for it.
    pub(super) fn txg_due(&mut self, now_ns: u64, tick: bool) {
        let Some(pool) = self.pool.as_mut() else { return };
        pool.tick_planned &= !tick;
        if pool.open.is_empty() || pool.is_syncing {
            return;
        }
        let enough = pool.zfs.dirty_data_max.0 as f64 * pool.zfs.dirty_data_sync_percent / 100.0;
        let dirty = pool.open.len() as u64 * pool.layout.record_bytes;
        if tick || dirty as f64 >= enough {
            return self.txg_begins(now_ns);
        }
        if !pool.tick_planned {
            pool.tick_planned = true;
            let timeout_ns = pool.zfs.txg_timeout.ns.max(1);
            let whole = (now_ns - pool.txg_began_ns) / timeout_ns + 1;
            let at_ns = pool.txg_began_ns + whole * timeout_ns;
            self.plan(at_ns, Event::TxgTick);
        }
    }

    fn txg_begins(&mut self, now_ns: u64) {
        let Some(pool) = self.pool.as_mut() else { return };
        pool.is_syncing = true;
        pool.txg_began_ns = now_ns;
        pool.txg += 1;
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (record, placed) in std::mem::take(&mut pool.open) {
            pool.syncing.insert(record);
            if let Some(place) = placed {
                pool.space.moves(record, place);
                pool.dirty_bytes -= pool.layout.record_bytes;
                continue;
            }
            let Some(place) = pool.space.allocate() else { continue };
            pool.space.moves(record, place);
            match runs.last_mut().filter(|(first, count)| first + count == place) {
                Some((_, count)) => *count += 1,
                None => runs.push((place, 1)),
            }
        }
        let most = pool.aggregation_bytes();
        let mut pieces = VecDeque::new();
        for (first, count) in runs {
            pool.layout.runs(first, count, most, |vdev, offset, asize, records| {
                let mut operations = Operations::default();
                pool.write_range(&self.arrays[0], vdev, offset, asize, &mut operations);
                pieces.push_back((records, operations));
            });
        }
        pool.pieces_left = pieces.len() as u64 + 1;
        pool.unissued = pieces;
        self.txg_next(now_ns);
        self.txg_piece_ended(now_ns, 0);
    }

    /// The next piece is handed over when the thread has gone through its records.
    fn txg_next(&mut self, now_ns: u64) {
        let Some(pool) = self.pool.as_ref() else { return };
        if let Some((records, _)) = pool.unissued.front() {
            let record_ns = if pool.layout.record_bytes < WHOLE_RECORD_BYTES { pool.zfs.sync_record.ns } else { 0 };
            self.plan(now_ns + records * record_ns, Event::TxgIssue);
        }
    }

    pub(super) fn txg_issue(&mut self, now_ns: u64) {
        let Some((records, operations)) = self.pool.as_mut().and_then(|p| p.unissued.pop_front()) else { return };
        self.pool_job(now_ns, Work::Txg(records), Kind::Write, Class::AsyncWrite, operations);
        self.txg_next(now_ns);
    }

    fn txg_piece_ended(&mut self, now_ns: u64, records: u64) {
        let Some(pool) = self.pool.as_mut() else { return };
        pool.pieces_left -= 1;
        pool.dirty_bytes -= records * pool.layout.record_bytes;
        if pool.pieces_left == 0 {
            self.pool_flush(now_ns, Work::TxgFlush { last: false }, None);
        }
        self.pool_unblock(now_ns);
    }

    /// Lets writes go on that waited for room.
    fn pool_unblock(&mut self, now_ns: u64) {
        loop {
            let Some(pool) = self.pool.as_mut() else { return };
            let Some(number) = pool.blocked.pop_front() else { return };
            let before = pool.blocked.len();
            self.pool_write(now_ns, number);
            let Some(pool) = self.pool.as_mut() else { return };
            if pool.blocked.len() > before {
                // There is no room yet; it keeps its place.
                pool.blocked.rotate_right(1);
                return;
            }
        }
    }

    fn txg_roots(&mut self, now_ns: u64) {
        let Some(pool) = self.pool.as_ref() else { return };
        let mut operations = Operations::default();
        let members = (pool.layout.vdevs.min(ROOT_VDEVS) * pool.layout.width) as u32;
        let bytes = pool.layout.sector_bytes() as u32;
        for member in (0..members).filter(|m| !self.arrays[0].is_absent(*m as usize)) {
            for offset_bytes in pool.layout.labels() {
                operations.writes.push(MemberOp { member, write: true, offset_bytes, bytes });
            }
        }
        self.pool_job(now_ns, Work::Roots, Kind::Write, Class::SyncWrite, operations);
    }

    fn txg_ended(&mut self, now_ns: u64) {
        let Some(pool) = self.pool.as_mut() else { return };
        pool.is_syncing = false;
        pool.syncing.clear();
        pool.space.txg_ended();
        let txg = pool.txg;
        pool.log.forgets(txg);
        let overdue = now_ns - pool.txg_began_ns >= pool.zfs.txg_timeout.ns;
        if overdue && !pool.open.is_empty() {
            return self.txg_begins(now_ns);
        }
        self.txg_due(now_ns, false);
    }

    /// Flushes these members, or all of them.
    pub(super) fn pool_flush(&mut self, now_ns: u64, work: Work, members: Option<BTreeSet<u32>>) {
        let Some(pool) = self.pool.as_mut() else { return };
        let array = &self.arrays[0];
        let all = 0..array.loads.len() as u32;
        let wanted =
            all.filter(|m| !array.is_absent(*m as usize) && members.as_ref().is_none_or(|some| some.contains(m)));
        let targets: Vec<u32> = wanted.collect();
        let owner = Owner::Pool { work: pool.works.insert(work) };
        let pending = targets.len() as u32;
        let job = Job { kind: Kind::Flush, writing: true, pending, ..Job::of(owner, Operations::default()) };
        let job = self.jobs.insert(job);
        if targets.is_empty() {
            return self.plan(now_ns, Event::JobEnded(job));
        }
        for member in targets {
            let op = MemberOp { member, write: false, offset_bytes: 0, bytes: 0 };
            let class = Class::SyncWrite;
            let step = self.steps.insert(Step { job, op, kind: Kind::Flush, durable: false, stamp: 0, class });
            self.give_member(now_ns, step);
        }
    }

    pub(super) fn pool_job(&mut self, now_ns: u64, work: Work, kind: Kind, class: Class, operations: Operations) {
        let Some(pool) = self.pool.as_mut() else { return };
        let owner = Owner::Pool { work: pool.works.insert(work) };
        let lost = operations.lost;
        let writing = kind == Kind::Write && operations.reads.is_empty();
        let job = self.jobs.insert(Job { kind, class, writing, ..Job::of(owner, operations) });
        if lost {
            return self.plan(now_ns + REFUSED_NS, Event::JobEnded(job));
        }
        self.start_stage(now_ns, job);
    }

    pub(super) fn pool_work_ended(&mut self, now_ns: u64, work: u32, lost: bool) {
        let Some(pool) = self.pool.as_mut() else { return };
        match pool.works.remove(work) {
            Work::Record(record) => {
                let waiting = pool.reading.remove(&record).unwrap_or_default();
                self.pool_arrived(now_ns, waiting, lost);
            }
            Work::Ahead(id) => {
                let waiting = pool.prefetch.arrived(id);
                self.pool_arrived(now_ns, waiting, lost);
            }
            Work::Txg(records) => self.txg_piece_ended(now_ns, records),
            Work::TxgFlush { last: false } => self.txg_roots(now_ns),
            Work::Roots => self.pool_flush(now_ns, Work::TxgFlush { last: true }, None),
            Work::TxgFlush { last: true } => self.txg_ended(now_ns),
            Work::Log(id) => self.log_written(now_ns, id),
            Work::LogFlush(id) => self.log_ended(now_ns, id),
        }
    }

    fn pool_arrived(&mut self, now_ns: u64, waiting: Vec<u32>, lost: bool) {
        for number in waiting {
            self.active.get(number).failed |= lost;
            self.part_ended(now_ns, number);
        }
    }

    /// A command waits in its disk's queue.
    pub(super) fn pool_queue(&mut self, now_ns: u64, number: u32) {
        let Step { op, class, .. } = *self.steps.get(number);
        if let Some(pool) = self.pool.as_mut() {
            pool.queues[op.member as usize].add(class, op.offset_bytes, number);
        }
        self.pool_pump(now_ns, op.member);
    }

    /// Gives a disk what it may have.
    fn pool_pump(&mut self, now_ns: u64, member: u32) {
        loop {
            let Some(pool) = self.pool.as_mut() else { return };
            let share = pool.dirty_share();
            let Some(step) = pool.queues[member as usize].next(&pool.zfs, share) else { return };
            self.send_step(now_ns, step, now_ns);
        }
    }

    pub(super) fn pool_member_ended(&mut self, now_ns: u64, member: u32, class: Class) {
        if let Some(pool) = self.pool.as_mut() {
            pool.queues[member as usize].ended(class, &pool.zfs);
            self.pool_pump(now_ns, member);
        }
    }
}
