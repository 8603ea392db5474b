//! A controller: a processor that takes one command at a time, and a bus that moves one buffer at a time. Both are
//! servers in order of arrival: a job begins at `max(now, free)`. In products that move data by the processor itself they
//! are one server.

use std::collections::{BTreeSet, VecDeque};

use crate::brick::ControllerParameters;
use crate::ssd::per_mb;

/// Writes that count as going on side by side.
const LATELY: usize = 16;

#[derive(Debug)]
pub struct Controller {
    read_ns: u64,
    write_ns: u64,
    one_path: bool,
    bus_read_mb_per_s: f64,
    bus_write_mb_per_s: f64,
    stream_mb_per_s: f64,
    processor_free_ns: u64,
    bus_free_ns: u64,
    /// Of each set of mirrored arms, by its first.
    stream_free_ns: Vec<u64>,
    /// Length of a slice of a neighbour's rebuild, 0 where there is none.
    slice_ns: u64,
    slice_end_ns: u64,
    /// By which share each further drive lengthens the way of a write, and the drives that the last writes went to.
    contention: f64,
    recent: VecDeque<u32>,
    others: u32,
    /// Time during which the bus moved data.
    pub bus_busy_ns: u64,
}

impl Controller {
    pub fn new(p: &ControllerParameters, slice_ns: u64) -> Controller {
        Controller {
            read_ns: p.read_command.ns,
            write_ns: p.write_command.ns,
            one_path: p.command_holds_bus,
            bus_read_mb_per_s: p.bus_mb_per_s * p.bus_read_efficiency,
            bus_write_mb_per_s: p.bus_mb_per_s * p.bus_write_efficiency,
            stream_mb_per_s: p.mirror_stream_mb_per_s,
            processor_free_ns: 0,
            bus_free_ns: 0,
            stream_free_ns: Vec::new(),
            slice_ns,
            slice_end_ns: 0,
            contention: p.bus_write_contention_percent / 100.0,
            recent: VecDeque::new(),
            others: 0,
            bus_busy_ns: 0,
        }
    }

    /// When the processor has dealt with a command that arrives now.
    pub fn command(&mut self, now_ns: u64, write: bool) -> u64 {
        let cost_ns = if write { self.write_ns } else { self.read_ns };
        let free_ns = if self.one_path { &mut self.bus_free_ns } else { &mut self.processor_free_ns };
        *free_ns = now_ns.max(*free_ns) + cost_ns;
        *free_ns
    }

    /// When a drive command gets its turn. While a neighbour is rebuilt, slices of the rebuild follow one another, and
    /// one waiting command goes between two of them.
    pub fn turn(&mut self, now_ns: u64) -> u64 {
        if self.slice_ns == 0 {
            return now_ns;
        }
        let slices = now_ns.saturating_sub(self.slice_end_ns).div_ceil(self.slice_ns);
        let turn_ns = self.slice_end_ns + slices * self.slice_ns;
        self.slice_end_ns = turn_ns + self.slice_ns;
        turn_ns
    }

    /// The next write goes to this drive; drives that writes go to by turns hold up one another.
    pub fn writes_to(&mut self, member: u32) {
        if self.contention == 0.0 {
            return;
        }
        self.recent.push_back(member);
        if self.recent.len() > LATELY {
            self.recent.pop_front();
        }
        self.others = self.recent.iter().collect::<BTreeSet<_>>().len() as u32 - 1;
    }

    /// When the bus has moved these bytes: for a read towards the host, for a write towards the drives.
    pub fn transfer(&mut self, now_ns: u64, bytes: u64, write: bool) -> u64 {
        let rate = if write { self.bus_write_mb_per_s } else { self.bus_read_mb_per_s };
        if rate <= 0.0 {
            return now_ns;
        }
        let alone_ns = per_mb(bytes, rate);
        let crowding = if write { self.contention * f64::from(self.others) } else { 0.0 };
        let moving_ns = alone_ns + (alone_ns as f64 * crowding) as u64;
        self.bus_busy_ns += moving_ns;
        self.bus_free_ns = now_ns.max(self.bus_free_ns) + moving_ns;
        self.bus_free_ns
    }

    /// When a stream of reads from mirrored arms may have got these bytes, by the product's cap.
    pub fn stream(&mut self, now_ns: u64, set: usize, bytes: u64) -> u64 {
        if self.stream_mb_per_s <= 0.0 {
            return now_ns;
        }
        if self.stream_free_ns.len() <= set {
            self.stream_free_ns.resize(set + 1, 0);
        }
        let free_ns = &mut self.stream_free_ns[set];
        *free_ns = now_ns.max(*free_ns) + per_mb(bytes, self.stream_mb_per_s);
        *free_ns
    }
}

/// A link that several drives share. A drive's own interface moves the data at the same time, so that a link that nobody
/// else uses costs nothing on top.
#[derive(Debug)]
pub struct Link {
    mb_per_s: f64,
    free_ns: u64,
}

impl Link {
    pub fn new(mb_per_s: f64) -> Link {
        Link { mb_per_s, free_ns: 0 }
    }

    /// When these bytes begin to move to a drive.
    pub fn to_drive(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let begin_ns = now_ns.max(self.free_ns);
        self.free_ns = begin_ns + per_mb(bytes, self.mb_per_s);
        begin_ns
    }

    /// When the last of these bytes is here, of a drive that had it ready to end now.
    pub fn from_drive(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let moving_ns = per_mb(bytes, self.mb_per_s);
        self.free_ns = self.free_ns.max(now_ns.saturating_sub(moving_ns)) + moving_ns;
        self.free_ns
    }
}
