//! ZFS's intent log on the pool's own disks (OpenZFS, module/zfs/zil.c).
//!
//! A durable write or a flush ends when all that was written before is in a block of the log, and the disks of that block
//! have been flushed. Writes below `immediate_write_sz` are copied into the block; the records of larger ones are written
//! to their place at once, and the block says where. A block is issued at once where none is under way; else it gathers
//! for `commit_timeout_pct` of the last one's latency, or until it is full. Blocks end in order. They lie in a metaslab
//! of their own (the embedded log), one vdev after the other. A log device is not modelled.

use std::collections::{BTreeSet, VecDeque};

use super::pool::Work;
use super::{Event, System};
use crate::array::Operations;
use crate::member::Kind;
use crate::zfs::queue::Class;

/// What the log keeps of each write beside its data (lr_write_t).
const ENTRY_BYTES: u64 = 192;

#[derive(Debug)]
struct Block {
    id: u64,
    requests: Vec<u32>,
    bytes: u64,
    /// Records that go to their place with it.
    records: Vec<u64>,
    members: BTreeSet<u32>,
    issued_ns: u64,
    ended: bool,
}

#[derive(Debug)]
pub(super) struct Log {
    /// Writes that no block has: transaction group, offset, bytes.
    kept: Vec<(u64, u64, u64)>,
    gathering: Option<Block>,
    issued: VecDeque<Block>,
    ids: u64,
    latency_ns: u64,
    /// Where each vdev's next block goes, and which vdev is next.
    cursors: Vec<u64>,
    turn: usize,
}

impl Log {
    pub(super) fn new(vdevs: u64) -> Log {
        Log {
            kept: Vec::new(),
            gathering: None,
            issued: VecDeque::new(),
            ids: 0,
            latency_ns: 0,
            cursors: vec![0; vdevs as usize],
            turn: 0,
        }
    }

    /// A write that is in memory alone.
    pub(super) fn keep(&mut self, txg: u64, offset: u64, bytes: u64) {
        self.kept.push((txg, offset, bytes));
    }

    /// All writes of transaction groups before this one are on the disks.
    pub(super) fn forgets(&mut self, txg: u64) {
        self.kept.retain(|(of, _, _)| *of >= txg);
    }
}

impl System {
    /// The request ends when all that was written so far is in the log.
    pub(super) fn pool_commit(&mut self, now_ns: u64, number: u32) {
        let Some(pool) = self.pool.as_mut() else { return };
        let kept = std::mem::take(&mut pool.log.kept);
        if kept.is_empty() {
            let last = pool.log.gathering.as_mut().or(pool.log.issued.back_mut());
            if let Some(block) = last {
                block.requests.push(number);
                self.active.get(number).parts += 1;
            }
            return;
        }
        self.active.get(number).parts += 1;
        pool.log.ids += 1;
        let (id, fresh) = (pool.log.ids, pool.log.gathering.is_none());
        let block = pool.log.gathering.get_or_insert_with(|| Block {
            id,
            requests: Vec::new(),
            bytes: 0,
            records: Vec::new(),
            members: BTreeSet::new(),
            issued_ns: 0,
            ended: false,
        });
        block.requests.push(number);
        let record_bytes = pool.layout.record_bytes;
        for (_, offset, bytes) in kept {
            let in_place = bytes >= pool.zfs.immediate_write_sz.0;
            block.bytes += ENTRY_BYTES + if in_place { 0 } else { bytes };
            if in_place {
                block.records.extend(offset / record_bytes..=(offset + bytes - 1) / record_bytes);
            }
        }
        let (id, full) = (block.id, block.bytes >= pool.zfs.zil_maxblocksize.0);
        if pool.log.issued.is_empty() || full {
            return self.log_issue(now_ns);
        }
        if fresh {
            let wait_ns = (pool.log.latency_ns as f64 * pool.zfs.commit_timeout_pct / 100.0) as u64;
            self.plan(now_ns + wait_ns.max(1), Event::LogDue(id));
        }
    }

    /// A block has gathered long enough.
    pub(super) fn log_due(&mut self, now_ns: u64, id: u64) {
        if self.pool.as_ref().is_some_and(|pool| pool.log.gathering.as_ref().is_some_and(|b| b.id == id)) {
            self.log_issue(now_ns);
        }
    }

    fn log_issue(&mut self, now_ns: u64) {
        let Some(pool) = self.pool.as_mut() else { return };
        let Some(mut block) = pool.log.gathering.take() else { return };
        let mut operations = Operations::default();
        let sector = pool.layout.sector_bytes();
        let mut left = block.bytes;
        while left > 0 {
            let psize = left.min(pool.zfs.zil_maxblocksize.0).next_multiple_of(sector);
            let vdev = pool.log.turn % pool.log.cursors.len();
            let asize = pool.layout.asize(psize);
            let at = pool.layout.log_offset(pool.log.cursors[vdev], asize);
            (pool.log.cursors[vdev], pool.log.turn) = (at + asize, vdev + 1);
            pool.write_block(&self.arrays[0], vdev as u64, at, psize, &mut operations);
            left = left.saturating_sub(psize);
        }
        block.records.sort_unstable();
        block.records.dedup();
        for record in &block.records {
            // One that is being written has its place already, and one that the log has placed lies there.
            if pool.open.get(record) != Some(&None) {
                continue;
            }
            let Some(place) = pool.space.allocate() else { continue };
            pool.open.insert(*record, Some(place));
            let (vdev, offset) = pool.layout.place(place);
            pool.write_block(&self.arrays[0], vdev, offset, pool.layout.record_bytes, &mut operations);
        }
        block.members = operations.writes.iter().map(|op| op.member).collect();
        block.issued_ns = now_ns;
        let id = block.id;
        pool.log.issued.push_back(block);
        self.pool_job(now_ns, Work::Log(id), Kind::Write, Class::SyncWrite, operations);
    }

    pub(super) fn log_written(&mut self, now_ns: u64, id: u64) {
        let Some(pool) = self.pool.as_mut() else { return };
        let members = pool.log.issued.iter().find(|b| b.id == id).map(|b| b.members.clone());
        self.pool_flush(now_ns, Work::LogFlush(id), members);
    }

    pub(super) fn log_ended(&mut self, now_ns: u64, id: u64) {
        let Some(pool) = self.pool.as_mut() else { return };
        if let Some(block) = pool.log.issued.iter_mut().find(|b| b.id == id) {
            block.ended = true;
            pool.log.latency_ns = now_ns - block.issued_ns;
        }
        let mut done = Vec::new();
        while pool.log.issued.front().is_some_and(|b| b.ended) {
            done.extend(pool.log.issued.pop_front().map(|b| b.requests).unwrap_or_default());
        }
        let idle = pool.log.issued.is_empty() && pool.log.gathering.is_some();
        done.into_iter().for_each(|number| self.part_ended(now_ns, number));
        if idle {
            self.log_issue(now_ns);
        }
    }
}
