//! A solid-state drive: channels and dies that do one thing at a time, a DRAM cache for writes, and garbage collection.
//!
//! A page goes to a die by its number (mapping units are striped over all dies). A host write of `n` mapping units costs
//! its die `n·map/page · program · W`, with `W` the write amplification. Fresh flash has `W = 1`; in steady state random
//! writes have `W = (1 + ρ) / 2ρ` (Agarwal and Marrow, A Closed-Form Expression for Write Amplification in NAND Flash,
//! 2010), `ρ` being the spare share, and sequential ones 1. Each moved page costs a read and a program, each block an
//! erase. A drive becomes steady when its spare and unwritten pages are used up.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::NEVER;
use crate::brick::SsdParameters;
use crate::member::{Command, Kind, Lost};

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
    ended: BinaryHeap<Reverse<(u64, u64, u32)>>,
    sequence: u64,
    draining: VecDeque<Draining>,
    dirty_bytes: u64,
    fresh_bytes: u64,
    slc_free_bytes: u64,
    slc_seen_ns: u64,
    streams: VecDeque<u64>,
}

impl Ssd {
    pub fn new(p: &SsdParameters) -> Ssd {
        let dies = (p.channels * p.dies_per_channel) as usize;
        let spare = p.capacity_bytes.0 as f64 * (1.0 + p.over_provision_percent / 100.0);
        Ssd {
            die_free_ns: vec![0; dies],
            channel_free_ns: vec![0; p.channels as usize],
            link_free_ns: 0,
            ended: BinaryHeap::new(),
            sequence: 0,
            draining: VecDeque::new(),
            dirty_bytes: 0,
            fresh_bytes: if p.steady { 0 } else { spare as u64 },
            slc_free_bytes: p.slc_cache_bytes.0,
            slc_seen_ns: 0,
            streams: VecDeque::new(),
            p: p.clone(),
        }
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.p.capacity_bytes.0
    }

    pub fn submit(&mut self, now_ns: u64, command: Command) {
        self.settle(now_ns);
        let begin_ns = now_ns + self.p.command_overhead.ns;
        let end_ns = match command.kind {
            Kind::Read => self.read(begin_ns, &command),
            Kind::Write => self.write(begin_ns, &command),
            Kind::Flush if self.p.power_loss_protection => begin_ns,
            Kind::Flush => self.draining.iter().map(|d| d.end_ns).max().unwrap_or(0).max(begin_ns),
            Kind::Trim => {
                self.fresh_bytes += u64::from(command.bytes);
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
        let cached = self.draining.iter().any(|d| {
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
        if command.durable && !self.p.power_loss_protection { end_ns } else { here_ns }
    }

    fn program(&mut self, begin_ns: u64, command: &Command) -> u64 {
        let sequential = self.follows(command);
        let (first, last) = self.units(command);
        let units = last - first + 1;
        // A part of a mapping unit has to be read and written whole.
        let whole_bytes = units * self.p.map_bytes.0;
        let steady = self.fresh_bytes < whole_bytes;
        self.fresh_bytes = self.fresh_bytes.saturating_sub(whole_bytes);
        let spare = self.p.over_provision_percent / 100.0;
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
