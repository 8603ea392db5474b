//! A solid-state drive: channels and dies that do one thing at a time, a DRAM cache for writes, and garbage collection.
//!
//! A page goes to a die by its number (mapping units are striped over all dies). A host write of `n` mapping units costs
//! its die `n·map/page · program · W`, with `W` the write amplification. Fresh flash has `W = 1`; in steady state random
//! writes have `W = (1 + ρ) / 2ρ` (Agarwal and Marrow, A Closed-Form Expression for Write Amplification in NAND Flash,
//! 2010), `ρ` being flash without valid data as a share of flash with, and sequential ones 1. How much is valid follows
//! from what was written: of a part of the drive with the share `c` written, random writes of `w` of it write `(1 - c)·w`
//! anew. So a drive that only a tenth of is ever written stays fast, and trimmed space is spare space. Each moved page costs a read and a program, each block an
//! erase. A drive becomes steady when its spare and unwritten pages are used up. Commands are taken one at a time, each
//! `command_interval` after the one before, which bounds the rate of small requests.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::NEVER;
use crate::brick::SsdParameters;
use crate::member::{Command, Kind, Lost};

/// Parts of the drive whose valid share is known apart.
const PART_BYTES: u64 = 64 << 20;

/// Writes that continue the one before are no burden to garbage collection; the drive follows so many streams.
const STREAMS: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Draining {
    end_ns: u64,
    offset_bytes: u64,
    bytes: u64,
}

#[derive(Debug)]
pub struct Ssd {
    p: SsdParameters,
    die_free_ns: Vec<u64>,
    channel_free_ns: Vec<u64>,
    link_free_ns: u64,
    command_free_ns: u64,
    ended: BinaryHeap<Reverse<(u64, u64, u32)>>,
    sequence: u64,
    draining: VecDeque<Draining>,
    dirty_bytes: u64,
    fresh_bytes: u64,
    /// Of all the flash.
    flash_bytes: f64,
    /// Share of each part of the drive that holds valid data.
    valid_shares: Vec<f64>,
    valid_bytes: f64,
    slc_free_bytes: u64,
    slc_seen_ns: u64,
    streams: VecDeque<u64>,
    write_cache: bool,
}

impl Ssd {
    pub fn new(p: &SsdParameters) -> Ssd {
        let dies = (p.channels * p.dies_per_channel) as usize;
        let flash_bytes = p.capacity_bytes.0 as f64 * (1.0 + p.over_provision_percent / 100.0);
        let parts = p.capacity_bytes.0.div_ceil(PART_BYTES) as usize;
        let written = if p.steady { 1.0 } else { 0.0 };
        Ssd {
            die_free_ns: vec![0; dies],
            channel_free_ns: vec![0; p.channels as usize],
            link_free_ns: 0,
            command_free_ns: 0,
            ended: BinaryHeap::new(),
            sequence: 0,
            draining: VecDeque::new(),
            dirty_bytes: 0,
            fresh_bytes: if p.steady { 0 } else { flash_bytes as u64 },
            flash_bytes,
            valid_shares: vec![written; parts],
            valid_bytes: written * p.capacity_bytes.0 as f64,
            slc_free_bytes: p.slc_cache_bytes.0,
            slc_seen_ns: 0,
            streams: VecDeque::new(),
            write_cache: p.write_cache,
            p: p.clone(),
        }
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.p.capacity_bytes.0
    }

    /// Whether writes end in DRAM. DRAM that survives a power cut is no volatile cache, and stays on.
    pub fn set_write_cache(&mut self, on: Option<bool>) {
        let settable = on.filter(|_| !self.p.power_loss_protection);
        self.write_cache = settable.unwrap_or(self.p.write_cache);
    }

    pub fn submit(&mut self, now_ns: u64, command: Command) {
        self.settle(now_ns);
        self.command_free_ns = now_ns.max(self.command_free_ns) + self.p.command_interval.ns;
        let begin_ns = self.command_free_ns.max(now_ns + self.p.command_overhead.ns);
        let end_ns = match command.kind {
            Kind::Read => self.read(begin_ns, &command),
            Kind::Write => self.write(begin_ns, &command),
            Kind::Flush if self.p.power_loss_protection => begin_ns,
            Kind::Flush => self.draining.iter().map(|d| d.end_ns).max().unwrap_or(0).max(begin_ns),
            Kind::Trim => {
                self.trim(&command);
                begin_ns
            }
        };
        self.ended.push(Reverse((end_ns, self.sequence, command.id)));
        self.sequence += 1;
    }

    pub fn next_event(&self) -> u64 {
        self.ended.peek().map_or(NEVER, |Reverse((end_ns, _, _))| *end_ns)
    }

    pub fn advance(&mut self, now_ns: u64, done: &mut Vec<u32>) {
        while let Some(Reverse((end_ns, _, id))) = self.ended.peek().copied() {
            if end_ns > now_ns {
                break;
            }
            self.ended.pop();
            done.push(id);
        }
        self.settle(now_ns);
    }

    pub fn power_cut(&mut self, now_ns: u64) -> Vec<Lost> {
        self.advance(now_ns, &mut Vec::new());
        self.ended.clear();
        let left = std::mem::take(&mut self.draining);
        self.dirty_bytes = 0;
        if self.p.power_loss_protection {
            return Vec::new();
        }
        left.iter().map(|d| Lost { offset_bytes: d.offset_bytes, bytes: d.bytes }).collect()
    }

    /// Forgets what has drained by now; the SLC cache empties itself while the drive has nothing to drain.
    fn settle(&mut self, now_ns: u64) {
        while let Some(first) = self.draining.front().filter(|d| d.end_ns <= now_ns) {
            self.dirty_bytes -= first.bytes;
            self.draining.pop_front();
        }
        if self.draining.is_empty() && now_ns > self.slc_seen_ns {
            let idle_ns = now_ns - self.slc_seen_ns;
            let page_ns = (self.p.read_time.ns + self.p.program_time.ns).max(1) / self.die_free_ns.len().max(1) as u64;
            let moved = idle_ns / page_ns.max(1) * self.p.page_bytes.0;
            self.slc_free_bytes = self.slc_free_bytes.saturating_add(moved).min(self.p.slc_cache_bytes.0);
        }
        self.slc_seen_ns = self.slc_seen_ns.max(now_ns);
    }

    fn move_over(&mut self, begin_ns: u64, bytes: u64) -> u64 {
        let end_ns = begin_ns.max(self.link_free_ns) + per_mb(bytes, self.p.interface_mb_per_s);
        self.link_free_ns = end_ns;
        end_ns
    }

    fn read(&mut self, begin_ns: u64, command: &Command) -> u64 {
        let (first, last) = self.units(command);
        let mut ready_ns = begin_ns;
        let cached = self.write_cache
            && self.draining.iter().any(|d| {
                d.offset_bytes <= command.offset_bytes
                    && command.offset_bytes + u64::from(command.bytes) <= d.offset_bytes + d.bytes
            });
        if !cached {
            let per_page = (self.p.page_bytes.0 / self.p.map_bytes.0).max(1);
            let mut unit = first;
            while unit <= last {
                // Units of one page are read together.
                let page_last = (unit / per_page * per_page + per_page - 1).min(last);
                let bytes = (page_last - unit + 1) * self.p.map_bytes.0;
                let die = self.die_of(unit / per_page);
                let sensed_ns = begin_ns.max(self.die_free_ns[die]) + self.p.read_time.ns;
                let channel = die % self.channel_free_ns.len();
                let moved_ns = sensed_ns.max(self.channel_free_ns[channel]) + per_mb(bytes, self.p.channel_mb_per_s);
                self.die_free_ns[die] = sensed_ns;
                self.channel_free_ns[channel] = moved_ns;
                ready_ns = ready_ns.max(moved_ns);
                unit = page_last + 1;
            }
        }
        self.move_over(ready_ns, u64::from(command.bytes))
    }

    /// Into DRAM, once there is room; the program operations are booked at once.
    fn write(&mut self, begin_ns: u64, command: &Command) -> u64 {
        let bytes = u64::from(command.bytes);
        let mut room_ns = begin_ns;
        let mut over = (self.dirty_bytes + bytes).saturating_sub(self.p.dram_cache_bytes.0);
        for draining in &self.draining {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(draining.bytes);
            room_ns = room_ns.max(draining.end_ns);
        }
        let here_ns = self.move_over(room_ns, bytes);
        let end_ns = self.program(here_ns, command);
        // Kept in the order in which they drain, so that the oldest makes room first.
        let at = self.draining.partition_point(|d| d.end_ns <= end_ns);
        self.draining.insert(at, Draining { end_ns, offset_bytes: command.offset_bytes, bytes });
        self.dirty_bytes += bytes;
        let programmed = !self.write_cache || (command.durable && !self.p.power_loss_protection);
        if programmed { end_ns } else { here_ns }
    }

    fn program(&mut self, begin_ns: u64, command: &Command) -> u64 {
        let sequential = self.follows(command);
        let (first, last) = self.units(command);
        let units = last - first + 1;
        // A part of a mapping unit has to be read and written whole.
        let whole_bytes = units * self.p.map_bytes.0;
        let steady = self.fresh_bytes < whole_bytes;
        self.fresh_bytes = self.fresh_bytes.saturating_sub(whole_bytes);
        self.make_valid(first * self.p.map_bytes.0, whole_bytes, sequential);
        let spare = (self.flash_bytes - self.valid_bytes) / self.valid_bytes.max(1.0);
        let amplification = if steady && !sequential { ((1.0 + spare) / (2.0 * spare)).max(1.0) } else { 1.0 };
        let slc = self.slc_free_bytes >= whole_bytes;
        if slc {
            self.slc_free_bytes -= whole_bytes;
        }
        let program_ns = if slc { self.p.slc_program_time.ns } else { self.p.program_time.ns };
        let page_ns = program_ns as f64
            + (amplification - 1.0) * (self.p.read_time.ns + self.p.program_time.ns) as f64
            + if steady {
                amplification * self.p.erase_time.ns as f64 / f64::from(self.p.pages_per_block)
            } else {
                0.0
            };
        // Units of different writes share a page, so each costs its share of one.
        let unit_ns = (page_ns * self.p.map_bytes.0 as f64 / self.p.page_bytes.0 as f64) as u64;
        let mut end_ns = begin_ns;
        for _ in first..=last {
            // A log-structured drive writes wherever a die is free first.
            let die = (0..self.die_free_ns.len()).min_by_key(|d| self.die_free_ns[*d]).unwrap_or(0);
            let done_ns = begin_ns.max(self.die_free_ns[die]) + unit_ns;
            self.die_free_ns[die] = done_ns;
            end_ns = end_ns.max(done_ns);
        }
        end_ns
    }

    /// `each` gets the valid share of each part that the bytes lie in and the share of the part that they are, and gives
    /// the new valid share.
    fn each_part(&mut self, offset: u64, bytes: u64, each: impl Fn(f64, f64) -> f64) -> f64 {
        let (mut at, end) = (offset, (offset + bytes).min(self.p.capacity_bytes.0));
        let before = self.valid_bytes;
        while at < end {
            let part = at / PART_BYTES;
            let to = end.min((part + 1) * PART_BYTES);
            let part_bytes = (self.p.capacity_bytes.0 - part * PART_BYTES).min(PART_BYTES) as f64;
            let share = &mut self.valid_shares[part as usize];
            let after = each(*share, (to - at) as f64 / part_bytes).clamp(0.0, 1.0);
            self.valid_bytes += (after - *share) * part_bytes;
            *share = after;
            at = to;
        }
        self.valid_bytes = self.valid_bytes.clamp(0.0, self.p.capacity_bytes.0 as f64);
        self.valid_bytes - before
    }

    fn make_valid(&mut self, offset: u64, bytes: u64, sequential: bool) {
        self.each_part(offset, bytes, |c, w| if sequential { c + w } else { c + (1.0 - c) * w });
    }

    /// Pages without valid data are erased when nobody waits, and are as good as never written.
    fn trim(&mut self, command: &Command) {
        let freed = -self.each_part(command.offset_bytes, u64::from(command.bytes), |c, w| c - c * w);
        let free = (self.flash_bytes - self.valid_bytes) as u64;
        self.fresh_bytes = (self.fresh_bytes + freed as u64).min(free);
    }

    fn follows(&mut self, command: &Command) -> bool {
        let end = command.offset_bytes + u64::from(command.bytes);
        if let Some(stream) = self.streams.iter_mut().find(|s| **s == command.offset_bytes) {
            *stream = end;
            return true;
        }
        self.streams.push_back(end);
        if self.streams.len() > STREAMS {
            self.streams.pop_front();
        }
        false
    }

    fn units(&self, command: &Command) -> (u64, u64) {
        let end = command.offset_bytes + u64::from(command.bytes.max(1));
        (command.offset_bytes / self.p.map_bytes.0, (end - 1) / self.p.map_bytes.0)
    }

    fn die_of(&self, page: u64) -> usize {
        (page % self.die_free_ns.len() as u64) as usize
    }
}

/// Time to move bytes at a rate in 10^6 bytes/s.
pub fn per_mb(bytes: u64, mb_per_s: f64) -> u64 {
    (bytes as f64 * 1e3 / mb_per_s) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{Bytes, Duration};

    fn parameters() -> SsdParameters {
        let us = |n: u64| Duration { ns: n * 1_000 };
        SsdParameters {
            capacity_bytes: Bytes(1 << 30),
            channels: 4,
            dies_per_channel: 1,
            page_bytes: Bytes(4096),
            map_bytes: Bytes(4096),
            pages_per_block: 64,
            read_time: us(50),
            program_time: us(200),
            slc_program_time: us(200),
            erase_time: us(0),
            over_provision_percent: 100.0,
            slc_cache_bytes: Bytes(0),
            dram_cache_bytes: Bytes(1 << 20),
            power_loss_protection: true,
            channel_mb_per_s: 1e6,
            interface_mb_per_s: 1e6,
            command_overhead: us(10),
            steady: true,
            write_cache: true,
            command_interval: us(0),
        }
    }

    fn end_of(p: &SsdParameters, kind: Kind, count: u32) -> u64 {
        let mut drive = Ssd::new(p);
        for id in 0..count {
            let offset_bytes = u64::from(id) * 4096;
            drive.submit(0, Command { id, kind, offset_bytes, bytes: 4096, durable: false });
        }
        let mut done = Vec::new();
        let mut last_ns = 0;
        while done.len() < count as usize {
            last_ns = drive.next_event();
            drive.advance(last_ns, &mut done);
        }
        last_ns
    }

    #[test]
    fn writes_end_in_dram_or_when_they_are_programmed() {
        let through = SsdParameters { write_cache: false, ..parameters() };
        assert!(end_of(&parameters(), Kind::Write, 1).abs_diff(10_000) < 100);
        assert!(end_of(&through, Kind::Write, 1).abs_diff(210_000) < 100);
        // Eight writes on four dies are two rounds.
        assert!(end_of(&through, Kind::Write, 8).abs_diff(410_000) < 100);
    }

    #[test]
    fn the_command_interval_bounds_the_rate_however_many_dies_are_idle() {
        let slow = SsdParameters { command_interval: Duration { ns: 100_000 }, ..parameters() };
        assert!(end_of(&parameters(), Kind::Read, 4).abs_diff(60_000) < 100);
        // The fourth command is taken at 400 us.
        assert!(end_of(&slow, Kind::Read, 4).abs_diff(450_000) < 100);
    }
}
