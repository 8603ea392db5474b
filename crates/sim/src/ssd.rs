//! A solid-state drive as a machine of stages: every stage is an event, and every event books the next stage's server
//! when that stage begins.
//!
//! A command is taken in `command_interval` after the one before, and begins `command_overhead` after it came. A read is
//! sensed at its dies, page by page, moves over their channels, and then over the link. A write moves over the link as
//! there is room in DRAM ([`buffer`]), over a channel, and is programmed on whichever die has nothing to program. Dies,
//! channels, the link and the intake each do one thing at a time, in the order in which things became ready for them, so
//! a read behind a busy die holds up nobody else. The link moves both ways at once, unless it is `half_duplex`.
//!
//! Reads go to a die by the number of their page: pages are striped over all dies. A die keeps the page that it sensed
//! last, so the mapping units of a page are read with one sensing; a stream of reads has idle dies sense the pages ahead
//! of it. Data that must survive a power cut, and have no capacitors to, wait until the map is written as well: one page
//! of it at a time, which holds all that was programmed when it began, so that writes and flushes share it, as commits
//! of a log share a flush. What programs cost beyond themselves is in [`garbage`].

mod buffer;
mod garbage;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use buffer::{Buffer, Run};
use engine::rng;
use garbage::Garbage;

use crate::NEVER;
use crate::brick::SsdParameters;
use crate::member::{Command, Kind, Lost};
use crate::slab::Slab;
use crate::stamps::{Stamped, Stamps};

/// Streams that the drive follows: writes that continue the one before are no burden to garbage collection, reads that do
/// are read ahead for. Assumed, since data sheets are silent.
const STREAMS: usize = 8;
/// What a sense that is done over takes, in read times: a few tries, as Cai et al. describe them (Error characterization,
/// mitigation, and recovery in flash-memory-based solid-state drives, Proceedings of the IEEE 2017); how many is assumed.
const RETRY_SENSES: f64 = 2.0;

/// Does one thing at a time, in the order in which it is asked.
#[derive(Debug, Clone, Copy, Default)]
struct Server {
    free_ns: u64,
}

impl Server {
    /// When work that is there now is done.
    #[inline]
    fn book(&mut self, now_ns: u64, work_ns: u64) -> u64 {
        self.free_ns = now_ns.max(self.free_ns) + work_ns;
        self.free_ns
    }
}

#[derive(Debug, Default)]
struct Die {
    server: Server,
    /// The page that was sensed last, and when it is ready.
    register: Option<(u64, u64)>,
    /// What is being programmed.
    page: Vec<Run>,
    /// Moves and erases that the die owes.
    moves_ns: u64,
    erase_ns: u64,
}

impl Die {
    /// One of so many, with its own part of the debts at which a die collects garbage.
    fn new(threshold_ns: u64, number: u32, dies: u32) -> Die {
        let part_ns = (u128::from(threshold_ns) * u128::from(number) / u128::from(dies)) as u64;
        Die { moves_ns: part_ns, erase_ns: part_ns, ..Die::default() }
    }
}

/// A command under way, and a write until it is programmed.
#[derive(Debug)]
struct Work {
    command: Command,
    /// Pieces of a read that are not at the host; pieces that a write has to read first.
    parts: u32,
    /// Units of a write up to which data have been asked for, have arrived, and have been given to dies.
    asked: u64,
    arrived: u64,
    given: u64,
    last: u64,
    /// Units that are not programmed.
    left: u64,
    sequential: bool,
    /// Ends in DRAM.
    trusted: bool,
    ended: bool,
    /// Flushes that came before it.
    epoch: u64,
}

/// What is read of one page.
#[derive(Debug, Clone, Copy)]
struct Piece {
    work: u32,
    die: u32,
    flash_bytes: u64,
    host_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begun(u32),
    /// A piece is in its die's register, in the drive's memory, at the host.
    Sensed(u32),
    Moved(u32),
    Delivered(u32),
    /// Data of a write are in DRAM.
    Arrived {
        work: u32,
        units: u32,
    },
    /// A page is in a die's register; is programmed; a step of garbage collection is done.
    Loaded(u32),
    /// Is programmed, and in no map yet.
    Unmapped(u32),
    Programmed(u32),
    /// The map is written, with all that waited when that began.
    Mapped,
    Collected(u32),
    /// Data have waited long enough for others to fill their page.
    Waited,
}

/// The map of what is where. One page of it is written at a time, and holds all that was programmed before.
#[derive(Debug, Default)]
struct Map {
    writing: Vec<Unmapped>,
    waiting: Vec<Unmapped>,
}

/// A die whose page is in no map yet, or a flush all of whose data are programmed.
#[derive(Debug, Clone, Copy)]
enum Unmapped {
    Die(u32),
    Flush(u32),
}

/// Where sequential commands go on, the latest last.
#[derive(Debug, Default)]
struct Streams(VecDeque<u64>);

impl Streams {
    fn follows(&mut self, command: &Command) -> bool {
        let known = self.0.iter().rposition(|end| *end == command.offset_bytes);
        if let Some(index) = known {
            self.0.remove(index);
        } else if self.0.len() >= STREAMS {
            self.0.pop_front();
        }
        self.0.push_back(command.offset_bytes + u64::from(command.bytes));
        known.is_some()
    }
}

#[derive(Debug)]
pub struct Ssd {
    p: SsdParameters,
    /// Mapping units of a page.
    per_page: u64,
    /// Pages that are sensed ahead of a stream.
    ahead: u64,
    intake: Server,
    to_host: Server,
    from_host: Server,
    write_path: Server,
    map: Map,
    channels: Vec<Server>,
    dies: Vec<Die>,
    /// What one step of garbage collection takes at the most.
    move_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    work: Slab<Work>,
    pieces: Slab<Piece>,
    buffer: Buffer,
    garbage: Garbage,
    read_streams: Streams,
    write_streams: Streams,
    write_cache: bool,
    seed: u64,
    /// Pages sensed so far.
    senses: u64,
}

impl Ssd {
    pub fn new(p: &SsdParameters, seed: u64) -> Ssd {
        let dies = p.channels * p.dies_per_channel;
        // What the link takes while a page is sensed; and all streams together leave half of the registers alone.
        let pages = p.read_time.ns as f64 * p.interface_mb_per_s / (p.page_bytes.0 as f64 * 1e3);
        let most = (u64::from(dies) / (2 * STREAMS as u64)).max(u64::from(dies > 1));
        let ahead = most.min(pages as u64 + 1);
        Ssd {
            per_page: (p.page_bytes.0 / p.map_bytes.0).max(1),
            ahead,
            intake: Server::default(),
            to_host: Server::default(),
            from_host: Server::default(),
            write_path: Server::default(),
            map: Map::default(),
            channels: vec![Server::default(); p.channels as usize],
            dies: (0..dies).map(|number| Die::new(p.erase_time.ns, number, dies)).collect(),
            move_ns: garbage::move_ns(p),
            events: BinaryHeap::new(),
            sequence: 0,
            work: Slab::new(),
            pieces: Slab::new(),
            buffer: Buffer::new(p.dram_cache_bytes.0 / p.map_bytes.0, dies),
            garbage: Garbage::new(p),
            read_streams: Streams::default(),
            write_streams: Streams::default(),
            write_cache: p.write_cache,
            seed,
            senses: 0,
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
        let own = Some(self.p.write_interval).filter(|i| command.kind == Kind::Write && i.ns > 0);
        let interval = own.unwrap_or(self.p.command_interval);
        let flushed = command.durable && self.p.power_loss_protection;
        let (flush_ns, flush_each_ns) = if flushed { (self.p.flush_time.ns, self.p.flush_each.ns) } else { (0, 0) };
        let taken_ns = self.intake.book(now_ns, interval.ns + flush_each_ns);
        let work = Work {
            command,
            parts: 0,
            asked: 0,
            arrived: 0,
            given: 0,
            last: 0,
            left: 0,
            sequential: false,
            trusted: true,
            ended: false,
            epoch: 0,
        };
        let number = self.work.insert(work);
        self.plan(taken_ns.max(now_ns + self.p.command_overhead.ns + flush_ns), Event::Begun(number));
    }

    #[inline]
    pub fn next_event(&self) -> u64 {
        self.events.peek().map_or(NEVER, |Reverse((at_ns, _, _))| *at_ns)
    }

    pub fn advance(&mut self, now_ns: u64, done: &mut Vec<u32>) {
        while self.next_event() <= now_ns {
            let Some(Reverse((at_ns, _, event))) = self.events.pop() else { return };
            self.happen(at_ns, event, done);
        }
    }

    fn happen(&mut self, now_ns: u64, event: Event, done: &mut Vec<u32>) {
        match event {
            Event::Begun(number) => self.begin(now_ns, number, done),
            Event::Sensed(number) => {
                let Piece { die, flash_bytes, .. } = *self.pieces.get(number);
                let channel = self.channel_of(die as usize);
                let moving_ns = per_mb(flash_bytes, self.p.channel_mb_per_s);
                let at_ns = self.channels[channel].book(now_ns, moving_ns);
                self.plan(at_ns, Event::Moved(number));
            }
            Event::Moved(number) => self.moved(now_ns, number),
            Event::Delivered(number) => {
                let Piece { work: owner, .. } = self.pieces.remove(number);
                let work = self.work.get(owner);
                work.parts -= 1;
                if work.parts == 0 {
                    done.push(self.work.remove(owner).command.id);
                }
            }
            Event::Arrived { work, units } => self.arrived(now_ns, work, u64::from(units), done),
            Event::Loaded(die) => self.loaded(now_ns, die),
            Event::Unmapped(die) => self.unmapped(now_ns, Unmapped::Die(die)),
            Event::Programmed(die) => self.programmed(now_ns, die, done),
            Event::Mapped => self.mapped(now_ns, done),
            Event::Collected(die) => self.collect(now_ns, die),
            Event::Waited => self.waited(now_ns),
        }
    }

    fn begin(&mut self, now_ns: u64, number: u32, done: &mut Vec<u32>) {
        match self.work.get(number).command.kind {
            Kind::Read => self.begin_read(now_ns, number),
            Kind::Write => self.begin_write(now_ns, number),
            Kind::Flush => self.begin_flush(now_ns, number, done),
            Kind::Trim => {
                let command = self.work.remove(number).command;
                self.garbage.trim(&command);
                done.push(command.id);
            }
        }
    }

    fn begin_read(&mut self, now_ns: u64, number: u32) {
        let command = self.work.get(number).command;
        let streaming = self.read_streams.follows(&command);
        let (first, last) = self.units(&command);
        let last_page = last / self.per_page;
        self.work.get(number).parts = (last_page - first / self.per_page + 1) as u32;
        let end = command.offset_bytes + u64::from(command.bytes);
        let mut unit = first;
        while unit <= last {
            let page_last = (unit / self.per_page * self.per_page + self.per_page - 1).min(last);
            let from = command.offset_bytes.max(unit * self.p.map_bytes.0);
            let host_bytes = end.min((page_last + 1) * self.p.map_bytes.0).saturating_sub(from);
            self.fetch(now_ns, number, unit, page_last - unit + 1, host_bytes);
            unit = page_last + 1;
        }
        if streaming {
            self.read_ahead(now_ns, last_page);
        }
    }

    /// Reads units of one page, out of DRAM if all of them are there.
    fn fetch(&mut self, now_ns: u64, work: u32, first: u64, units: u64, host_bytes: u64) {
        let page = first / self.per_page;
        let die = self.die_of(page);
        let flash_bytes = units * self.p.map_bytes.0;
        let number = self.pieces.insert(Piece { work, die: die as u32, flash_bytes, host_bytes });
        if (first..first + units).all(|unit| self.buffer.holds(unit)) {
            return self.moved(now_ns, number);
        }
        let ready_ns = match self.dies[die].register {
            Some((held, ready_ns)) if held == page => ready_ns.max(now_ns),
            _ => self.sense(now_ns, page),
        };
        self.plan(ready_ns, Event::Sensed(number));
    }

    fn sense(&mut self, now_ns: u64, page: u64) -> u64 {
        let number = self.die_of(page);
        let sensing_ns = self.sensing_ns(page);
        let die = &mut self.dies[number];
        let ready_ns = die.server.book(now_ns, sensing_ns);
        die.register = Some((page, ready_ns));
        ready_ns
    }

    /// How long it takes to sense a page: by which bits of its cells it is made of, which for its number is left to
    /// chance, and longer now and then, when it is done over.
    fn sensing_ns(&mut self, page: u64) -> u64 {
        let (spread, retries) = (self.p.read_spread_percent, self.p.read_retries_per_thousand);
        if spread == 0.0 && retries == 0.0 {
            return self.p.read_time.ns;
        }
        self.senses += 1;
        let kind = (rng::mix(self.seed ^ page) % 3) as f64 - 1.0;
        let chance = (rng::mix(self.seed.wrapping_add(self.senses)) >> 11) as f64 / (1u64 << 53) as f64;
        let again = if chance * 1_000.0 < retries { RETRY_SENSES } else { 0.0 };
        (self.p.read_time.ns as f64 * (1.0 + kind * spread / 100.0 + again)) as u64
    }

    /// Idle dies sense the pages that a stream comes to next.
    fn read_ahead(&mut self, now_ns: u64, last_page: u64) {
        for page in last_page + 1..=last_page + self.ahead {
            let die = &self.dies[self.die_of(page)];
            if die.server.free_ns <= now_ns && die.register.is_none_or(|(held, _)| held != page) {
                self.sense(now_ns, page);
            }
        }
    }

    /// A piece is in the drive's memory: it goes to the host, or into a write that waits for it.
    fn moved(&mut self, now_ns: u64, number: u32) {
        let Piece { work: owner, host_bytes, .. } = *self.pieces.get(number);
        let work = self.work.get(owner);
        if work.command.kind == Kind::Write {
            work.parts -= 1;
            self.pieces.remove(number);
            return self.give(now_ns, owner);
        }
        let at_ns = self.to_host.book(now_ns, per_mb(host_bytes, self.p.interface_mb_per_s));
        self.plan(at_ns, Event::Delivered(number));
    }

    /// The power fails: acknowledged writes that are not wholly programmed are lost, unless DRAM survives.
    pub fn power_cut(&mut self, now_ns: u64) -> Vec<Lost> {
        self.advance(now_ns, &mut Vec::new());
        let volatile = !self.p.power_loss_protection;
        let lost = self.work.iter().filter(|w| volatile && w.ended);
        let lost = lost.map(|w| Lost { offset_bytes: w.command.offset_bytes, bytes: u64::from(w.command.bytes) });
        let lost = lost.collect();
        self.buffer = Buffer::new(self.p.dram_cache_bytes.0 / self.p.map_bytes.0, self.dies.len() as u32);
        self.garbage.rests(now_ns);
        for die in &mut self.dies {
            *die = Die { moves_ns: die.moves_ns, erase_ns: die.erase_ns, ..Die::default() };
        }
        self.events.clear();
        self.map = Map::default();
        self.work = Slab::new();
        self.pieces = Slab::new();
        lost
    }

    pub fn unwritten_bytes(&self) -> u64 {
        self.buffer.dirty_bytes(self.p.map_bytes.0) + self.garbage.slc_held_bytes()
    }

    /// Whose data a power cut would take.
    pub fn stamped(&self) -> Vec<Stamped> {
        if self.p.power_loss_protection {
            return Vec::new();
        }
        let mut written: Vec<&Work> = self.work.iter().filter(|w| w.ended && w.command.stamp > 0).collect();
        written.sort_by_key(|w| w.command.stamp);
        let mut stamps = Stamps::default();
        for Work { command, .. } in written {
            let (from, end) = (command.offset_bytes, command.offset_bytes + u64::from(command.bytes));
            stamps.put(Stamped { from, end, stamp: command.stamp });
        }
        stamps.pieces().collect()
    }

    #[inline]
    fn plan(&mut self, at_ns: u64, event: Event) {
        self.events.push(Reverse((at_ns, self.sequence, event)));
        self.sequence += 1;
    }

    fn units(&self, command: &Command) -> (u64, u64) {
        let end = command.offset_bytes + u64::from(command.bytes.max(1));
        (command.offset_bytes / self.p.map_bytes.0, (end - 1) / self.p.map_bytes.0)
    }

    fn die_of(&self, page: u64) -> usize {
        (page % self.dies.len() as u64) as usize
    }

    fn channel_of(&self, die: usize) -> usize {
        die % self.channels.len()
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
            write_interval: us(0),
            half_duplex: false,
            write_mb_per_s: 0.0,
            map_time: us(0),
            map_each: us(0),
            partial_program_time: us(0),
            flush_time: us(0),
            flush_each: us(0),
            read_spread_percent: 0.0,
            read_retries_per_thousand: 0.0,
        }
    }

    fn end_of(p: &SsdParameters, kind: Kind, count: u32) -> u64 {
        let mut drive = Ssd::new(p, 0);
        for id in 0..count {
            let offset_bytes = u64::from(id) * 4096;
            drive.submit(0, Command { id, kind, offset_bytes, bytes: 4096, durable: false, urgent: false, stamp: 0 });
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
        let slow_writes = SsdParameters { write_interval: Duration { ns: 150_000 }, ..slow.clone() };
        assert!(end_of(&slow_writes, Kind::Write, 4).abs_diff(600_000) < 100);
        assert!(end_of(&parameters(), Kind::Read, 4).abs_diff(60_000) < 100);
        // The fourth command is taken at 400 us, and its page has been read ahead.
        assert!(end_of(&slow, Kind::Read, 4).abs_diff(400_000) < 100);
    }
}
