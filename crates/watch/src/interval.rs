//! What happened since the last look, as it is told: histograms as pairs of bucket and count, without empty ones.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ahead::Ahead;
use crate::layout::{self, Account, Cell, Device, Losses, NAMES, OPERATIONS, Owner, Sums, Told};
use crate::samples::During;
use crate::source::{Cost, Source};

type Pairs = Vec<(usize, u64)>;
/// So many processes of an interval are told one by one, by bytes and by requests; the rest is one line.
const MOST_OWNERS: usize = 200;
/// This share of requests is slow, and none that ends within this time.
const SLOW_SHARE: f64 = 0.005;
const SLOW_NS_MIN: u64 = 50_000;
/// The slowest of an interval that are told one by one.
pub const MOST_SLOW: usize = 64;

#[derive(Debug, Default, Serialize)]
pub struct ToldCell {
    pub operation: &'static str,
    pub requests: u64,
    pub bytes: u64,
    pub errors: u64,
    pub before_ns: u64,
    pub queue_ns: u64,
    pub device_ns: u64,
    pub total_ns: u64,
    /// Since the watch began: the kernel keeps no other.
    pub total_max_ns: u64,
    pub sequential: u64,
    pub sequential_bytes: u64,
    pub read_ahead: u64,
    pub read_ahead_bytes: u64,
    pub sync: u64,
    pub meta: u64,
    pub stripe_aligned: u64,
    pub stripe_full_bytes: u64,
    pub queued: u64,
    /// Of what was read ahead: see `layout::Ahead`.
    pub ahead_followed_bytes: u64,
    pub ahead_used_bytes: u64,
    pub ahead_mapped_bytes: u64,
    pub ahead_dropped_bytes: u64,
    pub ahead_unfollowed_bytes: u64,
    /// Class of request sizes, requests, and the sum of their times in the device.
    pub classes: Vec<(usize, u64, u64)>,
    pub sizes: Pairs,
    pub alignments: Pairs,
    pub seeks: Pairs,
    pub gaps: Pairs,
    pub depths: Pairs,
    pub before: Pairs,
    pub queue: Pairs,
    pub device: Pairs,
    pub total: Pairs,
}

#[derive(Debug, Serialize)]
pub struct ToldDevice {
    pub name: String,
    pub in_flight: u64,
    pub merged_bios: u64,
    pub merged_requests: u64,
    pub splits: u64,
    pub requeues: u64,
    pub turned_away: u64,
    pub read_runs: Pairs,
    pub write_runs: Pairs,
    pub slow_from_ns: u64,
    pub cells: Vec<ToldCell>,
}

#[derive(Debug, Serialize)]
pub struct ToldOwner {
    pub device: usize,
    pub part: u32,
    pub process: u32,
    pub comm: String,
    pub cgroup: u64,
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub flushes: u64,
    pub discards: u64,
    pub total_ns: u64,
}

#[derive(Debug, Serialize)]
pub struct ToldSlow {
    pub device: usize,
    pub operation: &'static str,
    pub arrived_ns: u64,
    pub before_ns: u64,
    pub queue_ns: u64,
    pub device_ns: u64,
    pub total_ns: u64,
    pub flush_ns: u64,
    pub offset_bytes: u64,
    pub bytes: u32,
    pub part: u32,
    pub process: u32,
    pub comm: String,
    pub cgroup: u64,
    pub depth: u32,
    pub done_own: u64,
    pub done_others: u64,
    pub done_unknown: u64,
    pub requeues: u32,
    pub failed: bool,
    pub steal_share: f64,
    pub resync_per_s: u64,
    pub cpu_wait_ns: u64,
}

#[derive(Debug, Serialize)]
pub struct ToldLosses {
    pub ring: u64,
    pub entries: u64,
    pub owners: u64,
    pub unknown: u64,
    pub missed: u64,
}

#[derive(Debug, Serialize)]
pub struct Interval {
    pub start_ns: u64,
    pub end_ns: u64,
    pub devices: Vec<ToldDevice>,
    pub owners: Vec<ToldOwner>,
    pub slow: Vec<ToldSlow>,
    /// Slow ones of which only the slowest are told.
    pub slow_count: u64,
    pub lost: ToldLosses,
    /// What this program used itself, and what its programs in the kernel took.
    pub cpu_ns: u64,
    pub programs: Cost,
    pub steal_share: f64,
    pub resync_per_s: u64,
}

/// What was there at the last look.
pub struct Seen {
    cells: Vec<Vec<Cell>>,
    devices: Vec<Device>,
    aheads: Vec<layout::Ahead>,
    owners: BTreeMap<Owner, [Account; 1]>,
    lost: Losses,
    slow_ns: Vec<u64>,
}

impl Seen {
    pub fn new(kernel: &dyn Source) -> Result<Seen, String> {
        let count = kernel.device_count();
        let mut seen = Seen {
            cells: vec![],
            devices: vec![],
            aheads: vec![layout::Ahead::default(); count],
            owners: BTreeMap::new(),
            lost: Losses::default(),
            slow_ns: vec![0; count],
        };
        for slot in 0..count {
            for operation in 0..OPERATIONS {
                seen.cells.push(vec![summed(&kernel.cells(slot, operation)?)]);
            }
            seen.devices.push(kernel.device(slot)?);
        }
        Ok(seen)
    }

    /// Each device since the last look. Slow is from then on what is slower than most of it.
    pub fn devices(
        &mut self,
        kernel: &mut dyn Source,
        ahead: Option<&Ahead>,
        names: &[String],
    ) -> Result<Vec<ToldDevice>, String> {
        let mut told = vec![];
        for (slot, name) in names.iter().enumerate() {
            let mut cells = vec![];
            let mut times = vec![0; layout::TIMES];
            for (operation, name) in NAMES.iter().enumerate() {
                let now = summed(&kernel.cells(slot, operation)?);
                let before = &mut self.cells[slot * OPERATIONS + operation][0];
                if now.requests > before.requests {
                    for (sum, (now, then)) in times.iter_mut().zip(now.total.iter().zip(before.total)) {
                        *sum += now.saturating_sub(then);
                    }
                    cells.push(told_cell(name, &now, before));
                }
                *before = now;
            }
            if let Some(ahead) = ahead {
                let now = ahead.counts(slot)?;
                tell_ahead(&mut cells, &now, &self.aheads[slot]);
                self.aheads[slot] = now;
            }
            if let Some(ns) = slow_from(&times) {
                self.slow_ns[slot] = ns;
                kernel.slow_from(slot, ns)?;
            }
            let now = kernel.device(slot)?;
            let before = std::mem::replace(&mut self.devices[slot], now);
            told.push(ToldDevice {
                name: name.clone(),
                in_flight: now.in_flight(),
                merged_bios: now.merged_bios - before.merged_bios,
                merged_requests: now.merged_requests - before.merged_requests,
                splits: now.splits - before.splits,
                requeues: now.requeues - before.requeues,
                turned_away: now.turned_away - before.turned_away,
                read_runs: pairs(&now.runs[0], &before.runs[0]),
                write_runs: pairs(&now.runs[1], &before.runs[1]),
                slow_from_ns: self.slow_ns[slot],
                cells,
            });
        }
        Ok(told)
    }

    /// Who asked since the last look; beyond many, the least of them as one.
    pub fn owners(&mut self, kernel: &dyn Source) -> Vec<ToldOwner> {
        let mut told = vec![];
        for (owner, accounts) in kernel.owners() {
            let now = account(&accounts);
            let before = self.owners.insert(owner, [now]);
            let then = before.map(|found| found[0]);
            let since = |of: fn(&Sums) -> u64, operations: &[usize]| -> u64 {
                operations.iter().map(|n| of(&now.of[*n]) - then.as_ref().map_or(0, |then| of(&then.of[*n]))).sum()
            };
            let requests = |operations: &[usize]| since(|sums| sums.requests, operations);
            let bytes = |operations: &[usize]| since(|sums| sums.bytes, operations);
            if requests(&[0, 1, 2, 3, 4, 5, 6, 7]) == 0 {
                continue;
            }
            told.push(ToldOwner {
                device: owner.slot as usize,
                part: owner.part,
                process: owner.process,
                comm: layout::comm(&now.comm),
                cgroup: owner.cgroup,
                reads: requests(&[0]),
                read_bytes: bytes(&[0]),
                writes: requests(&[1, 2, 7]),
                write_bytes: bytes(&[1, 2, 7]),
                flushes: requests(&[4]),
                discards: requests(&[3]),
                total_ns: since(|sums| sums.total_ns, &[0, 1, 2, 3, 4, 7]),
            });
        }
        told.sort_by_key(|owner| std::cmp::Reverse(owner.total_ns));
        told.truncate(MOST_OWNERS);
        told
    }

    /// What a process is called, as far as was seen by the last look at owners.
    pub fn comm(&self, owner: &Owner) -> String {
        self.owners.get(owner).map_or_else(String::new, |found| layout::comm(&found[0].comm))
    }

    pub fn losses(&mut self, kernel: &dyn Source) -> Result<ToldLosses, String> {
        let now = kernel.losses()?;
        let before = std::mem::replace(&mut self.lost, now);
        Ok(ToldLosses {
            ring: now.ring - before.ring,
            entries: now.entries - before.entries,
            owners: now.owners - before.owners,
            unknown: now.unknown - before.unknown,
            missed: now.missed - before.missed,
        })
    }
}

fn summed(cells: &[Cell]) -> Cell {
    // SAFETY: a cell is made of integers, of which all are 0.
    let mut sum: Cell = unsafe { std::mem::zeroed() };
    for cell in cells {
        let max = sum.total_max_ns.max(cell.total_max_ns);
        for (to, from) in words_mut(&mut sum).iter_mut().zip(words(cell)) {
            *to += *from;
        }
        sum.total_max_ns = max;
    }
    sum
}

fn words(cell: &Cell) -> &[u64] {
    // SAFETY: a cell is `repr(C)` and has nothing but u64.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(cell).cast(), size_of::<Cell>() / 8) }
}

fn words_mut(cell: &mut Cell) -> &mut [u64] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(cell).cast(), size_of::<Cell>() / 8) }
}

fn account(accounts: &[Account]) -> Account {
    let mut sum = accounts[0];
    for one in &accounts[1..] {
        for (to, from) in sum.of.iter_mut().zip(&one.of) {
            to.requests += from.requests;
            to.bytes += from.bytes;
            to.total_ns += from.total_ns;
        }
        if sum.comm[0] == 0 {
            sum.comm = one.comm;
        }
    }
    sum
}

fn pairs(now: &[u64], before: &[u64]) -> Pairs {
    let counts = now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before));
    counts.enumerate().filter(|(_, count)| *count > 0).collect()
}

fn classes(now: &Cell, before: &Cell) -> Vec<(usize, u64, u64)> {
    let both = now.classes.iter().zip(&before.classes).enumerate();
    let since = both.map(|(class, (now, then))| {
        (class, now.requests.saturating_sub(then.requests), now.device_ns.saturating_sub(then.device_ns))
    });
    since.filter(|(_, requests, _)| *requests > 0).collect()
}

fn told_cell(operation: &'static str, now: &Cell, before: &Cell) -> ToldCell {
    ToldCell {
        operation,
        requests: now.requests - before.requests,
        bytes: now.bytes - before.bytes,
        errors: now.errors - before.errors,
        before_ns: now.before_ns - before.before_ns,
        queue_ns: now.queue_ns - before.queue_ns,
        device_ns: now.device_ns - before.device_ns,
        total_ns: now.total_ns - before.total_ns,
        total_max_ns: now.total_max_ns,
        sequential: now.sequential - before.sequential,
        sequential_bytes: now.sequential_bytes - before.sequential_bytes,
        read_ahead: now.read_ahead - before.read_ahead,
        read_ahead_bytes: now.read_ahead_bytes - before.read_ahead_bytes,
        sync: now.sync - before.sync,
        meta: now.meta - before.meta,
        stripe_aligned: now.stripe_aligned - before.stripe_aligned,
        stripe_full_bytes: now.stripe_full_bytes - before.stripe_full_bytes,
        queued: now.queued - before.queued,
        classes: classes(now, before),
        sizes: pairs(&now.sizes, &before.sizes),
        alignments: pairs(&now.alignments, &before.alignments),
        seeks: pairs(&now.seeks, &before.seeks),
        gaps: pairs(&now.gaps, &before.gaps),
        depths: pairs(&now.depths, &before.depths),
        before: pairs(&now.before, &before.before),
        queue: pairs(&now.queue, &before.queue),
        device: pairs(&now.device, &before.device),
        total: pairs(&now.total, &before.total),
        ..ToldCell::default()
    }
}

/// With the reads; what was read ahead may also be used while nothing is read.
fn tell_ahead(cells: &mut Vec<ToldCell>, now: &layout::Ahead, before: &layout::Ahead) {
    let read = NAMES[usize::from(layout::READ)];
    if *now == *before {
        return;
    }
    let place = cells.iter().position(|cell| cell.operation == read).unwrap_or_else(|| {
        cells.insert(0, ToldCell { operation: read, ..ToldCell::default() });
        0
    });
    let cell = &mut cells[place];
    cell.ahead_followed_bytes = now.followed - before.followed;
    cell.ahead_used_bytes = now.used - before.used;
    cell.ahead_mapped_bytes = now.mapped - before.mapped;
    cell.ahead_dropped_bytes = now.dropped - before.dropped;
    cell.ahead_unfollowed_bytes = now.unfollowed - before.unfollowed;
}

/// Where the slowest of these times begin.
fn slow_from(times: &[u64]) -> Option<u64> {
    let all: u64 = times.iter().sum();
    let mut left = (all as f64 * SLOW_SHARE).ceil() as u64;
    for (bucket, count) in times.iter().enumerate().rev() {
        if *count >= left && all > 0 {
            return Some(bucket_ns(bucket).max(SLOW_NS_MIN));
        }
        left = left.saturating_sub(*count);
    }
    None
}

/// The least time of a bucket.
pub fn bucket_ns(bucket: usize) -> u64 {
    if bucket < 8 {
        return bucket as u64;
    }
    let octave = bucket / 8 + 2;
    (1 << octave) + ((bucket as u64 % 8) << (octave - 3))
}

/// A slow request as it is told. What the host did meanwhile is added by whoever has looked.
pub fn slow(told: &Told, comm: String, during: &During) -> ToldSlow {
    let since = |from: u64, to: u64| if from == 0 { 0 } else { to.saturating_sub(from) };
    let asked = told.operation == layout::FLUSH;
    ToldSlow {
        device: usize::from(told.slot),
        operation: NAMES.get(usize::from(told.operation)).copied().unwrap_or("other"),
        arrived_ns: told.arrived_ns,
        before_ns: since(told.arrived_ns, told.queued_ns),
        queue_ns: if asked { 0 } else { since(told.queued_ns, told.issued_ns.max(told.queued_ns)) },
        device_ns: since(told.issued_ns, told.ended_ns),
        total_ns: since(told.arrived_ns, told.ended_ns),
        flush_ns: told.flush_ns,
        offset_bytes: told.offset_bytes,
        bytes: told.bytes,
        part: told.part,
        process: told.process,
        comm,
        cgroup: told.cgroup,
        depth: told.depth,
        done_own: told.done_own,
        done_others: told.done_others,
        done_unknown: told.done_unknown,
        requeues: told.requeues,
        failed: told.flags & layout::IS_ERROR != 0,
        steal_share: during.steal_share,
        resync_per_s: during.resync_per_s,
        cpu_wait_ns: during.cpu_wait_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `time_bucket` in the kernel's program.
    fn bucket_of(ns: u64) -> usize {
        if ns < 8 {
            return ns as usize;
        }
        let bits = ns.ilog2() as usize;
        ((bits - 2) << 3) + ((ns >> (bits - 3)) & 7) as usize
    }

    #[test]
    fn a_bucket_begins_where_the_one_before_ends() {
        for bucket in 0..layout::TIMES {
            let begin = bucket_ns(bucket);
            assert_eq!(bucket_of(begin), bucket);
            assert_eq!(bucket_of(bucket_ns(bucket + 1) - 1), bucket);
        }
    }

    #[test]
    fn slow_is_the_last_half_per_cent() {
        let mut times = vec![0; layout::TIMES];
        (times[150], times[200]) = (10_000, 100);
        assert_eq!(slow_from(&times), Some(bucket_ns(200)));
        times[200] = 40;
        assert_eq!(slow_from(&times), Some(bucket_ns(150)));
        assert_eq!(slow_from(&vec![0; layout::TIMES]), None);
    }
}
