//! Counts as the programs in the kernel count (`bpf/watch.bpf.c`), from records of tracepoints.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::Event;
use super::format::Point;
use crate::layout::{
    ALIGNMENTS, Account, CLASSES, COMM, Cell, DEPTHS, DISCARD, Device, FLUSH, FLUSH_COMMAND, GAPS, IS_ERROR, IS_FUA,
    IS_META, IS_PREFLUSH, IS_READ_AHEAD, IS_SYNC, Losses, MOST_DEVICES, OPERATIONS, OTHER, OWNERS, Owner, READ, RUNS,
    SEEKS, SIZES, STREAM_SECTORS, STREAMS, Sums, TIMES, Told, WRITE_DURABLE, ZEROES,
};

const SECTOR: u64 = 512;
const WRITE: u8 = 1;
/// Until there is something to compare with, a request is slow from here on.
const SLOW_NS: u64 = 2_000_000;
/// More on their way are in no real queue: their ends were not seen.
const MOST_ON_THEIR_WAY: usize = 200_000;
const MOST_OWNERS: usize = 8192;

/// On its way to the device, or in it.
#[derive(Clone, Copy)]
struct Asked {
    told: Told,
    comm: [u8; COMM],
    sectors: u32,
    seek: u8,
    gap: u8,
    is_sequential: bool,
    done: u64,
    done_own: u64,
    changes: u64,
}

pub struct Count {
    pub slots: HashMap<u32, u16>,
    pub devices: Vec<Device>,
    pub owners: BTreeMap<Owner, Account>,
    pub lost: Losses,
    pub told: VecDeque<Told>,
    pub slow_ns: Vec<u64>,
    cells: Vec<Cell>,
    stripe_bytes: u64,
    exact: bool,
    /// Bios by device and first sector; flushes without data by device alone, the oldest first.
    bios: HashMap<(u16, u64), VecDeque<Event>>,
    flushes: Vec<VecDeque<Event>>,
    /// By device, first sector and operation, the oldest first: several may be under way for the same sector.
    issued: HashMap<(u16, u64, u8), VecDeque<Asked>>,
    issued_count: usize,
}

impl Count {
    pub fn new(devices: usize, slots: HashMap<u32, u16>, stripe_bytes: u64, exact: bool) -> Count {
        // SAFETY: both are made of integers, of which all are 0.
        let (cell, device): (Cell, Device) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Count {
            slots,
            devices: vec![device; devices],
            owners: BTreeMap::new(),
            lost: Losses::default(),
            told: VecDeque::new(),
            slow_ns: vec![SLOW_NS; MOST_DEVICES],
            cells: vec![cell; devices * OPERATIONS],
            stripe_bytes,
            exact,
            bios: HashMap::new(),
            flushes: vec![VecDeque::new(); devices],
            issued: HashMap::new(),
            issued_count: 0,
        }
    }

    pub fn cell(&self, slot: usize, operation: usize) -> Cell {
        self.cells[slot * OPERATIONS + operation]
    }

    /// In the order of time.
    pub fn take(&mut self, event: &Event) {
        let device = &mut self.devices[usize::from(event.slot)];
        match event.point {
            Point::BioQueue => self.queue(event),
            Point::BioBackMerge | Point::BioFrontMerge => device.merged_bios += 1,
            Point::Split => device.splits += 1,
            Point::Merge => device.merged_requests += 1,
            Point::Issue => self.issue(event),
            Point::Requeue => self.requeue(event),
            Point::Complete => self.complete(event),
        }
    }

    fn queue(&mut self, event: &Event) {
        if event.sectors == 0 {
            if is_flush(event) {
                self.flushes[usize::from(event.slot)].push_back(*event);
            }
            return;
        }
        if self.bios.len() >= MOST_ON_THEIR_WAY {
            self.bios.clear();
        }
        self.bios.entry((event.slot, event.sector)).or_default().push_back(*event);
    }

    fn bio(&mut self, slot: u16, sector: u64) -> Option<Event> {
        let list = self.bios.get_mut(&(slot, sector))?;
        let found = list.pop_front();
        if list.is_empty() {
            self.bios.remove(&(slot, sector));
        }
        found
    }

    /// It goes to the device, made of the bios for its sectors.
    fn issue(&mut self, event: &Event) {
        let operation = operation_of(event);
        let end = event.sector.saturating_add(u64::from(event.sectors));
        let (mut first, mut at) = (None, event.sector);
        while operation != FLUSH_COMMAND && at < end {
            let Some(bio) = self.bio(event.slot, at) else { break };
            let sectors = u64::from(bio.sectors);
            if at.saturating_add(sectors) > end {
                // The rest of a bio that was split goes on by itself.
                let rest = Event { sector: end, sectors: (at + sectors - end) as u32, ..bio };
                self.bios.entry((event.slot, end)).or_default().push_front(rest);
            }
            at = at.saturating_add(sectors);
            first.get_or_insert(bio);
        }
        let asker = first.unwrap_or(*event);
        let asked = self.begin(event, operation, &asker);
        if self.issued_count >= MOST_ON_THEIR_WAY {
            self.forget();
        }
        self.went((event.slot, place(event, operation), operation), asked);
    }

    fn went(&mut self, key: (u16, u64, u8), asked: Asked) {
        self.issued.entry(key).or_default().push_back(asked);
        self.issued_count += 1;
    }

    /// The oldest request with so many sectors, else the oldest at all: a part may end.
    fn came(&mut self, key: (u16, u64, u8), sectors: u32) -> Option<Asked> {
        let list = self.issued.get_mut(&key)?;
        let number = list.iter().position(|asked| asked.sectors == sectors).unwrap_or(0);
        let found = list.remove(number);
        if list.is_empty() {
            self.issued.remove(&key);
        }
        self.issued_count -= usize::from(found.is_some());
        found
    }

    /// The ends of some that are under way were lost, and of which is not known: none of them is in any figure.
    pub fn forget(&mut self) {
        self.lost.entries += self.issued_count as u64;
        self.issued.clear();
        self.issued_count = 0;
        for device in &mut self.devices {
            (device.begun, device.flushing) = (device.done, 0);
        }
    }

    /// `in_flight`: what the kernel had in the device at a time of which all records have been counted. What was issued
    /// before `before_ns` is among it; of what is beyond, the end was missed, and the oldest are taken for that. The
    /// kernel does not count drivers' commands and its own flushes.
    pub fn settle(&mut self, slot: u16, before_ns: u64, in_flight: usize) {
        let is_of_it = |key: &(u16, u64, u8)| key.0 == slot && !matches!(key.2, FLUSH_COMMAND | OTHER);
        let of_it = self.issued.iter().filter(|(key, _)| is_of_it(key));
        let mut open: Vec<(u64, (u16, u64, u8))> = of_it
            .flat_map(|(key, list)| list.iter().map(|asked| (asked.told.issued_ns, *key)))
            .filter(|(issued_ns, _)| *issued_ns < before_ns)
            .collect();
        open.sort_unstable();
        for (_, key) in &open[..open.len().saturating_sub(in_flight)] {
            self.miss(*key);
        }
    }

    /// Counted without its time.
    fn miss(&mut self, key: (u16, u64, u8)) {
        let Some(list) = self.issued.get_mut(&key) else { return };
        let Some(asked) = list.pop_front() else { return };
        if list.is_empty() {
            self.issued.remove(&key);
        }
        self.issued_count -= 1;
        self.devices[usize::from(key.0)].done += 1;
        let cell = &mut self.cells[usize::from(key.0) * OPERATIONS + usize::from(key.2)];
        cell.requests += 1;
        cell.missed += 1;
        cell.bytes += u64::from(asked.told.bytes);
        self.lost.missed += 1;
    }

    fn begin(&mut self, event: &Event, operation: u8, asker: &Event) -> Asked {
        let device = &mut self.devices[usize::from(event.slot)];
        let arrived_ns = asker.at_ns.min(event.at_ns);
        let since = arrived_ns.saturating_sub(device.last_arrival_ns);
        let gap = if device.last_arrival_ns > 0 && since > 0 { since.ilog2().min(GAPS as u32 - 1) } else { 0 };
        device.last_arrival_ns = arrived_ns;
        device.begun += 1;
        if operation == FLUSH_COMMAND {
            device.flushing += 1;
            if device.flushing == 1 {
                device.flush_began_ns = event.at_ns;
            }
        }
        let bytes = if operation == FLUSH_COMMAND { 0 } else { event.sectors * SECTOR as u32 };
        let told = Told {
            arrived_ns,
            queued_ns: arrived_ns,
            issued_ns: event.at_ns,
            ended_ns: 0,
            offset_bytes: if bytes == 0 { 0 } else { event.sector.saturating_mul(SECTOR) },
            cgroup: 0,
            flush_ns: 0,
            done_others: 0,
            done_own: 0,
            done_unknown: 0,
            bytes,
            part: asker.part,
            process: asker.process,
            depth: device.in_flight() as u32,
            slot: event.slot,
            operation,
            flags: flags_of(&event.kind) | flags_of(&asker.kind),
            requeues: 0,
        };
        let comm = asker.comm;
        let (seek, is_sequential) = note_place(device, &told);
        let done = device.done;
        let asker = &mut device.askers[told.process as usize & (OWNERS - 1)];
        if asker.process != u64::from(told.process) {
            asker.process = u64::from(told.process);
            asker.changes += 1;
        }
        let (done_own, changes) = (asker.done, asker.changes);
        Asked { told, comm, sectors: event.sectors, seek, gap: gap as u8, is_sequential, done, done_own, changes }
    }

    fn requeue(&mut self, event: &Event) {
        let operation = operation_of(event);
        self.devices[usize::from(event.slot)].requeues += 1;
        if let Some(asked) = self.came((event.slot, place(event, operation), operation), event.sectors) {
            let device = &mut self.devices[usize::from(event.slot)];
            device.begun = device.begun.saturating_sub(1);
            if operation == FLUSH_COMMAND {
                device.flushing = device.flushing.saturating_sub(1);
            }
            // It waits again; its arrival stays.
            let waits = Event {
                at_ns: asked.told.arrived_ns,
                part: asked.told.part,
                process: asked.told.process,
                comm: asked.comm,
                sectors: asked.sectors,
                point: Point::BioQueue,
                ..*event
            };
            self.queue(&waits);
        }
    }

    fn complete(&mut self, event: &Event) {
        let operation = operation_of(event);
        let key = (event.slot, place(event, operation), operation);
        if let Some(mut asked) = self.came(key, event.sectors) {
            if !event.failed && operation != FLUSH_COMMAND && event.sectors < asked.sectors {
                // A part of it; the rest goes on behind.
                asked.sectors -= event.sectors;
                let behind = key.1.saturating_add(u64::from(event.sectors));
                self.went((event.slot, behind, operation), asked);
                return;
            }
            self.end(asked, event);
            return;
        }
        // Flushes without data are never issued: the kernel makes a flush command for all of them, and takes the mark of
        // a flush from what ends. The end of a write's own flush looks alike, and has no bio that waits.
        if is_flush(event) || (event.sectors == 0 && matches!(operation, WRITE | WRITE_DURABLE)) {
            if event.sectors == 0
                && let Some(asker) = self.flushes[usize::from(event.slot)].pop_front()
            {
                let mut asked = self.begin(event, FLUSH, &asker);
                (asked.told.depth, asked.told.issued_ns) = (0, 0);
                self.end(asked, event);
            }
            return;
        }
        self.lost.unknown += 1;
    }

    fn end(&mut self, asked: Asked, event: &Event) {
        let Asked { mut told, .. } = asked;
        let now = event.at_ns;
        told.ended_ns = now;
        told.flags |= if event.failed { IS_ERROR } else { 0 };
        let device = &mut self.devices[usize::from(told.slot)];
        if told.operation == FLUSH_COMMAND {
            device.flushing = device.flushing.saturating_sub(1);
            if device.flushing == 0 {
                device.flush_ended_ns = now;
                device.flush_last_ns = now.saturating_sub(device.flush_began_ns);
            }
        } else {
            told.flush_ns = beside_flush(device, told.issued_ns, now);
        }
        let all = device.done.saturating_sub(asked.done);
        device.done += 1;
        let asker = &mut device.askers[told.process as usize & (OWNERS - 1)];
        let is_own = asker.process == u64::from(told.process);
        if is_own && asker.changes == asked.changes {
            told.done_own = asker.done.saturating_sub(asked.done_own);
            told.done_others = all.saturating_sub(told.done_own);
        } else {
            told.done_unknown = all;
        }
        asker.done += u64::from(is_own);
        let total_ns = now.saturating_sub(told.arrived_ns);
        let stripe_bytes = self.stripe_bytes;
        let cell = &mut self.cells[usize::from(told.slot) * OPERATIONS + usize::from(told.operation)];
        count_times(cell, &told, total_ns);
        count_shape(cell, &asked, stripe_bytes);
        self.count_owner(&told, asked.comm, total_ns);
        if self.exact || total_ns >= self.slow_ns[usize::from(told.slot)] {
            self.told.push_back(told);
        }
    }

    fn count_owner(&mut self, told: &Told, comm: [u8; COMM], total_ns: u64) {
        let owner = told.owner();
        if !self.owners.contains_key(&owner) && self.owners.len() >= MOST_OWNERS {
            self.lost.owners += 1;
            return;
        }
        let nothing = Account { process: u64::from(told.process), comm, of: [Sums::default(); OPERATIONS] };
        let sums = &mut self.owners.entry(owner).or_insert(nothing).of[usize::from(told.operation)];
        sums.requests += 1;
        sums.bytes += u64::from(told.bytes);
        sums.total_ns += total_ns;
    }
}

fn count_times(cell: &mut Cell, told: &Told, total_ns: u64) {
    cell.requests += 1;
    cell.bytes += u64::from(told.bytes);
    cell.errors += u64::from(told.flags & IS_ERROR != 0);
    if told.issued_ns > 0 {
        let (queue_ns, device_ns) = (told.issued_ns - told.arrived_ns, told.ended_ns.saturating_sub(told.issued_ns));
        // How long a driver's command waited for the driver is not known.
        cell.queue[time_bucket(queue_ns)] += u64::from(told.operation != OTHER || queue_ns > 0);
        cell.queue_ns += queue_ns;
        cell.device[time_bucket(device_ns)] += 1;
        cell.device_ns += device_ns;
        if told.bytes > 0 {
            let class = (told.bytes.ilog2().saturating_sub(9) as usize).min(CLASSES - 1);
            cell.classes[class].requests += 1;
            cell.classes[class].device_ns += device_ns;
        }
    }
    cell.total[time_bucket(total_ns)] += 1;
    cell.total_ns += total_ns;
    cell.total_max_ns = cell.total_max_ns.max(total_ns);
}

fn count_shape(cell: &mut Cell, asked: &Asked, stripe_bytes: u64) {
    let told = &asked.told;
    let bytes = u64::from(told.bytes);
    if bytes > 0 {
        cell.sizes[size_bucket(bytes)] += 1;
        cell.alignments[alignment_bucket(told.offset_bytes)] += 1;
    }
    cell.seeks[usize::from(asked.seek)] += 1;
    cell.gaps[usize::from(asked.gap)] += 1;
    cell.depths[depth_bucket(told.depth)] += 1;
    if asked.is_sequential {
        cell.sequential += 1;
        cell.sequential_bytes += bytes;
    }
    if told.flags & IS_READ_AHEAD != 0 {
        cell.read_ahead += 1;
        cell.read_ahead_bytes += bytes;
    }
    cell.sync += u64::from(told.flags & IS_SYNC != 0);
    cell.meta += u64::from(told.flags & IS_META != 0);
    if stripe_bytes > 0 && bytes > 0 {
        let begin = told.offset_bytes.div_ceil(stripe_bytes) * stripe_bytes;
        let end = (told.offset_bytes + bytes) / stripe_bytes * stripe_bytes;
        cell.stripe_aligned += u64::from(begin == told.offset_bytes);
        cell.stripe_full_bytes += end.saturating_sub(begin);
    }
}

/// The seek from where the last request ended, and whether it goes on where a stream stands.
fn note_place(device: &mut Device, told: &Told) -> (u8, bool) {
    if told.bytes == 0 || (told.operation > DISCARD && told.operation != ZEROES) {
        return (SEEKS as u8 - 1, false);
    }
    let (begin, bytes) = (told.offset_bytes, u64::from(told.bytes));
    let seek = seek_bucket(device.last_end_bytes, begin) as u8;
    device.last_end_bytes = begin + bytes;
    let word =
        |sectors: u64, is_write: u64| ((begin + bytes) / SECTOR) << 24 | (sectors.min(STREAM_SECTORS) << 1) | is_write;
    let mut streams = device.streams.iter_mut();
    if let Some(stream) = streams.find(|stream| **stream > 0 && **stream >> 24 == begin / SECTOR) {
        *stream = word((*stream >> 1 & STREAM_SECTORS) + bytes / SECTOR, *stream & 1);
        return (seek, true);
    }
    let number = device.next_stream as usize & (STREAMS - 1);
    device.next_stream = device.next_stream.wrapping_add(1);
    let over = device.streams[number];
    let over_bytes = (over >> 1 & STREAM_SECTORS) * SECTOR;
    if over_bytes > 0 && (over_bytes.ilog2() as usize) < RUNS {
        device.runs[over as usize & 1][over_bytes.ilog2() as usize] += 1;
    }
    device.streams[number] = word(bytes / SECTOR, u64::from(told.operation != READ));
    (seek, false)
}

/// For how long of what ends now a flush command was in the device.
fn beside_flush(device: &Device, from: u64, to: u64) -> u64 {
    let (begin, end) = if device.flushing > 0 {
        (device.flush_began_ns, to)
    } else {
        (device.flush_ended_ns - device.flush_last_ns, device.flush_ended_ns)
    };
    end.min(to).saturating_sub(begin.max(from))
}

/// Flushes have no place, nor have a driver's commands: their ends name another than their beginnings.
fn place(event: &Event, operation: u8) -> u64 {
    if matches!(operation, FLUSH_COMMAND | OTHER) { u64::MAX } else { event.sector }
}

/// F before the letter of the operation is a flush that goes first; a flush command is FF.
fn is_flush(event: &Event) -> bool {
    event.kind[0] == b'F'
}

fn operation_of(event: &Event) -> u8 {
    let kind = &event.kind;
    let letter = if kind[0] == b'F' { kind[1] } else { kind[0] };
    match letter {
        b'R' => READ,
        b'W' if event.sectors == 0 && kind[0] == b'F' => FLUSH,
        b'W' if flags_of(kind) & (IS_FUA | IS_PREFLUSH) != 0 => WRITE_DURABLE,
        b'W' => WRITE,
        b'D' => DISCARD,
        b'F' => FLUSH_COMMAND,
        _ => OTHER,
    }
}

fn flags_of(kind: &[u8; 8]) -> u8 {
    let mut flags = if kind[0] == b'F' { IS_PREFLUSH } else { 0 };
    let behind = if kind[0] == b'F' { 2 } else { 1 };
    for letter in &kind[behind..] {
        flags |= match letter {
            b'F' => IS_FUA,
            b'A' => IS_READ_AHEAD,
            b'S' => IS_SYNC,
            b'M' => IS_META,
            _ => 0,
        };
    }
    flags
}

fn time_bucket(ns: u64) -> usize {
    if ns < 8 {
        return ns as usize;
    }
    let bits = ns.ilog2();
    ((((bits - 2) << 3) as usize) + ((ns >> (bits - 3)) & 7) as usize).min(TIMES - 1)
}

fn size_bucket(bytes: u64) -> usize {
    if bytes < SECTOR {
        return 0;
    }
    let bits = bytes.ilog2();
    ((bits as usize - 9) * 2 + usize::from(!bytes.is_power_of_two())).min(SIZES - 1)
}

fn alignment_bucket(offset: u64) -> usize {
    let bits = (offset | 1 << (ALIGNMENTS + 8)).trailing_zeros() as usize;
    bits.saturating_sub(9) & (ALIGNMENTS - 1)
}

fn seek_bucket(from: u64, to: u64) -> usize {
    if from == to {
        return 0;
    }
    let bits = (from.abs_diff(to).ilog2() as usize).saturating_sub(9).min(38);
    1 + bits * 2 + usize::from(to < from)
}

fn depth_bucket(depth: u32) -> usize {
    match depth {
        0 => 0,
        1..=16 => depth as usize - 1,
        _ => (12 + (depth - 1).ilog2() as usize).min(DEPTHS - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_ns: u64, point: Point, kind: &str, sector: u64, sectors: u32) -> Event {
        let mut letters = [0; 8];
        letters[..kind.len()].copy_from_slice(kind.as_bytes());
        let comm = [b'x'; COMM];
        Event { at_ns, point, slot: 0, part: 7 << 20, sector, sectors, failed: false, process: 5, kind: letters, comm }
    }

    fn counted(events: &[Event]) -> Count {
        let mut count = Count::new(1, HashMap::new(), 0, true);
        events.iter().for_each(|event| count.take(event));
        count
    }

    #[test]
    fn ends_that_the_kernel_did_not_report_are_missed() {
        let mut count = counted(&[
            event(1_000, Point::Issue, "R", 8, 8),
            event(2_000, Point::Issue, "R", 16, 8),
            event(3_000, Point::Issue, "R", 24, 8),
            event(4_000, Point::Issue, "N", 0, 0),
            event(9_000, Point::Issue, "R", 32, 8),
        ]);
        count.settle(0, 5_000, 3);
        assert_eq!(count.lost.missed, 0, "no more than the kernel had itself");
        count.settle(0, 5_000, 1);
        let cell = count.cell(0, usize::from(READ));
        assert_eq!((cell.requests, cell.missed, cell.bytes), (2, 2, 8192));
        assert_eq!((count.lost.missed, count.devices[0].in_flight()), (2, 3));
        count.take(&event(9_500, Point::Issue, "R", 8, 8));
        count.take(&event(9_600, Point::Complete, "R", 8, 8));
        let cell = count.cell(0, usize::from(READ));
        assert_eq!((cell.requests, cell.total_ns), (3, 100), "not since the one that was missed");
    }

    #[test]
    fn times_are_those_between_the_records() {
        let count = counted(&[
            event(1_000, Point::BioQueue, "RS", 8, 8),
            event(1_400, Point::Issue, "RS", 8, 8),
            event(9_400, Point::Complete, "RS", 8, 8),
        ]);
        let cell = count.cell(0, usize::from(READ));
        assert_eq!((cell.requests, cell.bytes, cell.queue_ns, cell.device_ns), (1, 4096, 400, 8_000));
        assert_eq!((cell.total_ns, cell.sync, cell.depths[0]), (8_400, 1, 1));
        assert_eq!(count.devices[0].in_flight(), 0);
        assert_eq!(count.owners.len(), 1);
    }

    #[test]
    fn a_drivers_command_has_no_place_and_how_long_it_waited_is_not_known() {
        let count = counted(&[event(1_400, Point::Issue, "N", 0, 0), event(9_400, Point::Complete, "N", u64::MAX, 0)]);
        let cell = count.cell(0, usize::from(OTHER));
        assert_eq!((cell.requests, cell.queue[0], cell.device_ns, cell.total_ns), (1, 0, 8_000, 8_000));
        assert_eq!((count.devices[0].in_flight(), count.lost.unknown), (0, 0));
    }

    #[test]
    fn merged_bios_are_one_request_and_split_ones_are_several() {
        let count = counted(&[
            event(1_000, Point::BioQueue, "W", 8, 8),
            event(1_100, Point::BioQueue, "W", 16, 8),
            event(1_100, Point::BioBackMerge, "W", 16, 8),
            event(1_400, Point::Issue, "W", 8, 16),
            event(2_000, Point::Complete, "W", 8, 16),
            event(3_000, Point::BioQueue, "W", 100, 16),
            event(3_100, Point::Issue, "W", 100, 8),
            event(3_200, Point::Issue, "W", 108, 8),
            event(3_500, Point::Complete, "W", 100, 8),
            event(3_600, Point::Complete, "W", 108, 8),
        ]);
        let cell = count.cell(0, usize::from(WRITE));
        assert_eq!((cell.requests, cell.bytes), (3, 32 * 512));
        assert_eq!(cell.total_ns, 1_000 + 500 + 600, "the rest of a split bio keeps its arrival");
        assert_eq!((count.devices[0].merged_bios, count.bios.len()), (1, 0));
    }

    #[test]
    fn a_flush_is_told_apart_from_the_command_that_carries_it_out() {
        let count = counted(&[
            event(1_000, Point::BioQueue, "FWS", 0, 0),
            event(1_100, Point::Issue, "FF", 0, 0),
            event(1_200, Point::BioQueue, "R", 8, 8),
            event(1_200, Point::Issue, "R", 8, 8),
            event(5_100, Point::Complete, "FF", 0, 0),
            event(5_100, Point::Complete, "FWS", 0, 0),
            event(5_200, Point::Complete, "R", 8, 8),
        ]);
        let (flush, command) = (count.cell(0, usize::from(FLUSH)), count.cell(0, usize::from(FLUSH_COMMAND)));
        assert_eq!((flush.requests, flush.total_ns), (1, 4_100));
        assert_eq!((command.requests, command.total_ns), (1, 4_000));
        let read = count.told.back().unwrap();
        assert_eq!((read.operation, read.flush_ns), (READ, 3_900));
        assert_eq!(count.devices[0].in_flight(), 0);
    }

    #[test]
    fn a_flush_that_ends_as_an_empty_write_is_a_flush() {
        let count = counted(&[
            event(1_000, Point::BioQueue, "FWS", 0, 0),
            event(1_100, Point::Issue, "FF", 0, 0),
            event(5_100, Point::Complete, "FF", 0, 0),
            event(5_100, Point::Complete, "WS", 0, 0),
            // Of a write that was flushed before it; the kernel ends it twice.
            event(6_000, Point::BioQueue, "FWS", 8, 8),
            event(6_100, Point::Issue, "WS", 8, 8),
            event(6_500, Point::Complete, "WS", 8, 8),
            event(6_600, Point::Complete, "WS", 8, 0),
        ]);
        assert_eq!(count.cell(0, usize::from(FLUSH)).requests, 1);
        assert_eq!(count.lost.unknown, 0);
    }

    #[test]
    fn requests_that_end_in_parts_or_come_again_are_counted_once() {
        let count = counted(&[
            event(1_000, Point::BioQueue, "W", 8, 16),
            event(1_100, Point::Issue, "W", 8, 16),
            event(1_200, Point::Requeue, "W", 8, 16),
            event(1_300, Point::Issue, "W", 8, 16),
            event(1_500, Point::Complete, "W", 8, 8),
            event(1_900, Point::Complete, "W", 16, 8),
            event(2_000, Point::Complete, "R", 800, 8),
        ]);
        let cell = count.cell(0, usize::from(WRITE));
        assert_eq!((cell.requests, cell.bytes, cell.total_ns), (1, 16 * 512, 900));
        assert_eq!((count.devices[0].requeues, count.lost.unknown), (1, 1));
    }

    #[test]
    fn requests_for_the_same_sector_at_once_are_told_apart() {
        let begin = |at_ns, sectors| {
            [Point::BioQueue, Point::Issue].map(|point| event(at_ns, point, "R", 8, sectors)).into_iter()
        };
        let ends = [(2_000, 8), (2_100, 16), (2_200, 8)]
            .map(|(at_ns, sectors)| event(at_ns, Point::Complete, "R", 8, sectors));
        let events: Vec<Event> = begin(1_000, 8).chain(begin(1_100, 8)).chain(begin(1_200, 16)).chain(ends).collect();
        let mut count = counted(&events);
        let cell = count.cell(0, usize::from(READ));
        assert_eq!((cell.requests, cell.bytes), (3, 32 * 512));
        assert_eq!(cell.total_ns, 1_000 + 1_100 + 900);
        assert_eq!((count.devices[0].in_flight(), count.lost.unknown, count.issued_count), (0, 0, 0));
        // What is under way when records are lost may have ended unseen.
        begin(3_000, 8).for_each(|event| count.take(&event));
        count.forget();
        count.take(&event(4_000, Point::Complete, "R", 8, 8));
        assert_eq!((count.devices[0].in_flight(), count.lost.entries, count.lost.unknown), (0, 1, 1));
    }

    #[test]
    fn a_process_whose_place_another_one_took_is_not_taken_for_it() {
        let by = |process, event: Event| Event { process, ..event };
        let run = |other: u32, own: u32| {
            let mut count = Count::new(1, HashMap::new(), 0, true);
            for (process, sector, at_ns) in [(5, 8, 1_000), (other, 16, 1_100)] {
                count.take(&by(process, event(at_ns, Point::BioQueue, "R", sector, 8)));
                count.take(&by(process, event(at_ns, Point::Issue, "R", sector, 8)));
            }
            for (process, sector, at_ns) in [(other, 16, 2_000), (5, 8, 2_500)] {
                count.take(&by(process, event(at_ns, Point::Complete, "R", sector, 8)));
            }
            let told = count.told.back().unwrap();
            assert_eq!(told.process, own);
            (told.done_own, told.done_others, told.done_unknown)
        };
        assert_eq!(run(5, 5), (1, 0, 0));
        assert_eq!(run(6, 5), (0, 1, 0));
        assert_eq!(run(5 + OWNERS as u32, 5), (0, 0, 1));
    }

    #[test]
    fn fua_and_read_ahead_are_letters_behind_the_operation() {
        assert_eq!(operation_of(&event(0, Point::Issue, "WFS", 8, 8)), WRITE_DURABLE);
        assert_eq!(operation_of(&event(0, Point::Issue, "FWS", 8, 8)), WRITE_DURABLE);
        assert_eq!(operation_of(&event(0, Point::Issue, "WSM", 8, 8)), WRITE);
        assert_eq!(flags_of(&event(0, Point::Issue, "RA", 8, 8).kind), IS_READ_AHEAD);
    }
}
