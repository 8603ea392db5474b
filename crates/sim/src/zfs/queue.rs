//! What a disk is given at a time: a queue for each disk with classes, each with a least and a most number of commands under
//! way (OpenZFS, "ZFS I/O scheduler", zfs(4); module/zfs/vdev_queue.c).
//!
//! Classes below their least come first, in the order of the classes, then those below their most. Synchronous commands go
//! in the order in which they come, the others by their offset. While a user's command is under way, a scrub or a resilver
//! gets its least, and no more than `nia_credit` commands between two ends of users' commands.

use std::collections::BTreeMap;

use crate::brick::ZfsParameters;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    SyncRead,
    SyncWrite,
    AsyncRead,
    AsyncWrite,
    Scrub,
    Rebuild,
}

pub const CLASSES: [Class; 6] =
    [Class::SyncRead, Class::SyncWrite, Class::AsyncRead, Class::AsyncWrite, Class::Scrub, Class::Rebuild];

impl Class {
    fn is_background(self) -> bool {
        matches!(self, Class::Scrub | Class::Rebuild)
    }

    fn in_order_of_arrival(self) -> bool {
        matches!(self, Class::SyncRead | Class::SyncWrite)
    }
}

#[derive(Debug, Default)]
pub struct DiskQueue {
    waiting: [BTreeMap<(u64, u64), u32>; 6],
    active: [u32; 6],
    last: [u64; 6],
    users: u32,
    credit: u32,
    arrivals: u64,
}

impl DiskQueue {
    pub fn add(&mut self, class: Class, offset: u64, step: u32) {
        self.arrivals += 1;
        let first = if class.in_order_of_arrival() { self.arrivals } else { offset };
        self.waiting[class as usize].insert((first, self.arrivals), step);
    }

    fn most(&self, class: Class, zfs: &ZfsParameters, dirty_share: f64, least: bool) -> u32 {
        let (min, max) = match class {
            Class::SyncRead => (zfs.vdev_sync_read_max_active, zfs.vdev_sync_read_max_active),
            Class::SyncWrite => (zfs.vdev_sync_write_max_active, zfs.vdev_sync_write_max_active),
            Class::AsyncRead => (zfs.vdev_async_read_min_active, zfs.vdev_async_read_max_active),
            Class::AsyncWrite => (zfs.vdev_async_write_min_active, async_writes(zfs, dirty_share)),
            Class::Scrub => (zfs.vdev_scrub_min_active, zfs.vdev_scrub_max_active),
            Class::Rebuild => (zfs.vdev_rebuild_min_active, zfs.vdev_rebuild_max_active),
        };
        match (class.is_background(), self.users > 0) {
            (true, true) => min.min(self.credit),
            (true, false) if self.credit < zfs.vdev_nia_delay => min.max(1),
            _ if least => min,
            _ => max,
        }
    }

    /// The next command that may go to the disk.
    pub fn next(&mut self, zfs: &ZfsParameters, dirty_share: f64) -> Option<u32> {
        let found = [true, false].into_iter().find_map(|least| {
            CLASSES.into_iter().find(|class| {
                let number = *class as usize;
                !self.waiting[number].is_empty() && self.active[number] < self.most(*class, zfs, dirty_share, least)
            })
        })?;
        let number = found as usize;
        let from = if found.in_order_of_arrival() { 0 } else { self.last[number] };
        let waiting = &mut self.waiting[number];
        let key = waiting.range((from, 0)..).next().or_else(|| waiting.iter().next()).map(|(key, _)| *key)?;
        let step = waiting.remove(&key)?;
        self.last[number] = key.0;
        self.active[number] += 1;
        if !found.is_background() {
            self.users += 1;
            self.credit = if self.users == 1 { 1 } else { self.credit };
        } else if self.users > 0 {
            self.credit = self.credit.saturating_sub(1);
        }
        Some(step)
    }

    pub fn ended(&mut self, class: Class, zfs: &ZfsParameters) {
        self.active[class as usize] -= 1;
        if !class.is_background() {
            self.users -= 1;
            self.credit = if self.users == 0 { 0 } else { zfs.vdev_nia_credit };
        } else if self.users == 0 {
            self.credit = self.credit.saturating_add(1);
        }
    }

    /// Commands that wait or are under way.
    pub fn load(&self) -> u32 {
        self.active.iter().sum::<u32>() + self.waiting.iter().map(|w| w.len() as u32).sum::<u32>()
    }
}

/// More writes of a transaction group are under way the more there is to write.
fn async_writes(zfs: &ZfsParameters, dirty_share: f64) -> u32 {
    let (low, high) = (zfs.vdev_async_write_active_min_dirty_percent, zfs.vdev_async_write_active_max_dirty_percent);
    let (min, max) = (zfs.vdev_async_write_min_active, zfs.vdev_async_write_max_active);
    let share = ((100.0 * dirty_share - low) / (high - low).max(1e-9)).clamp(0.0, 1.0);
    min + (f64::from(max.saturating_sub(min)) * share) as u32
}
