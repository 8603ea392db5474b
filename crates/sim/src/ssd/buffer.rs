//! The drive's DRAM: writes that wait for room in it, and data that wait for a die.
//!
//! Data come over the link as long as there is room and wait in order. A page is given to a die that has none when it is
//! full, when somebody waits for it (a flush, or a write that may not end in DRAM), or when its first data have waited as
//! long as a program takes; data for one page come from any writes, as in a log. They move over the die's channel and are
//! programmed; then their room is free.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::{Event, Ssd, Unmapped, per_mb};

/// Mapping units of one write that follow one another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub work: u32,
    pub first: u64,
    pub units: u64,
    at_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Flush {
    work: u32,
    epoch: u64,
    left: u64,
}

/// Spreads numbers of units; the table is never gone through, so its order decides nothing.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    /// Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4): 2^64 divided by the golden ratio.
    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

#[derive(Debug, Default)]
pub(super) struct Buffer {
    room_units: u64,
    /// Units that are in DRAM or under way to it.
    dirty_units: u64,
    arriving: VecDeque<u32>,
    waiting: VecDeque<Run>,
    waiting_units: u64,
    /// How often each unit is in DRAM.
    held: HashMap<u64, u32, BuildHasherDefault<Spread>>,
    /// Dies that take a page, the one that has rested longest first.
    free_dies: VecDeque<u32>,
    busy_dies: usize,
    /// Writes and flushes that end when data are programmed.
    awaited: u64,
    flushes: Vec<Flush>,
    epoch: u64,
    /// Writes that are not wholly programmed.
    unprogrammed: u64,
    timer: bool,
}

impl Buffer {
    pub fn new(room_units: u64, dies: u32) -> Buffer {
        Buffer { room_units, free_dies: (0..dies).collect(), ..Buffer::default() }
    }

    pub fn dirty_bytes(&self, unit_bytes: u64) -> u64 {
        self.dirty_units * unit_bytes
    }

    pub fn holds(&self, unit: u64) -> bool {
        !self.held.is_empty() && self.held.contains_key(&unit)
    }

    fn release(&mut self, unit: u64) {
        if let Some(count) = self.held.get_mut(&unit) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&unit);
            }
        }
    }
}

impl Ssd {
    pub(super) fn begin_write(&mut self, now_ns: u64, number: u32) {
        let command = self.work.get(number).command;
        let (first, last) = self.units(&command);
        let sequential = self.write_streams.follows(&command);
        self.merge(now_ns, number);
        let whole_bytes = (last - first + 1) * self.p.map_bytes.0;
        self.garbage.make_valid(first * self.p.map_bytes.0, whole_bytes, sequential);
        let trusted = self.write_cache && (!command.durable || self.p.power_loss_protection);
        let work = self.work.get(number);
        (work.asked, work.arrived, work.given) = (first, first, first);
        (work.last, work.left) = (last, last - first + 1);
        (work.sequential, work.trusted, work.epoch) = (sequential, trusted, self.buffer.epoch);
        self.buffer.unprogrammed += 1;
        self.buffer.awaited += u64::from(!trusted);
        self.buffer.arriving.push_back(number);
        self.admit(now_ns);
    }

    /// A part of a mapping unit has to be read before the unit can be written whole.
    fn merge(&mut self, now_ns: u64, number: u32) {
        let command = self.work.get(number).command;
        let (first, last) = self.units(&command);
        let map = self.p.map_bytes.0;
        let end = command.offset_bytes + u64::from(command.bytes);
        let head = !command.offset_bytes.is_multiple_of(map);
        let tail = !end.is_multiple_of(map) && end < self.p.capacity_bytes.0;
        let partial = match (head, tail) {
            (true, true) if first != last => [Some(first), Some(last)],
            (true, _) => [Some(first), None],
            (false, true) => [None, Some(last)],
            (false, false) => return,
        };
        for unit in partial.into_iter().flatten() {
            if !self.buffer.holds(unit) && self.garbage.has_data(unit * map) {
                self.work.get(number).parts += 1;
                self.fetch(now_ns, number, unit, 1, 0);
            }
        }
    }

    /// Lets data come while there is room. A page larger than all of DRAM comes when nothing else is there.
    fn admit(&mut self, now_ns: u64) {
        while let Some(number) = self.buffer.arriving.front().copied() {
            let work = self.work.get(number);
            let units = (work.last - work.asked + 1).min(self.per_page);
            if self.buffer.dirty_units + units > self.buffer.room_units && self.buffer.dirty_units > 0 {
                return;
            }
            let from = (work.asked * self.p.map_bytes.0).max(work.command.offset_bytes);
            let end = work.command.offset_bytes + u64::from(work.command.bytes);
            work.asked += units;
            let bytes = end.min(work.asked * self.p.map_bytes.0).saturating_sub(from);
            if work.asked > work.last {
                self.buffer.arriving.pop_front();
            }
            self.buffer.dirty_units += units;
            let moving_ns = per_mb(bytes, self.p.interface_mb_per_s);
            let link = if self.p.half_duplex { &mut self.to_host } else { &mut self.from_host };
            let mut at_ns = link.book(now_ns, moving_ns);
            if self.p.write_mb_per_s > 0.0 {
                at_ns = at_ns.max(self.write_path.book(now_ns, per_mb(bytes, self.p.write_mb_per_s)));
            }
            self.plan(at_ns, Event::Arrived { work: number, units: units as u32 });
        }
    }

    pub(super) fn arrived(&mut self, now_ns: u64, number: u32, units: u64, done: &mut Vec<u32>) {
        let work = self.work.get(number);
        for unit in work.arrived..work.arrived + units {
            *self.buffer.held.entry(unit).or_insert(0) += 1;
        }
        work.arrived += units;
        if work.arrived > work.last && work.trusted {
            work.ended = true;
            done.push(work.command.id);
        }
        self.give(now_ns, number);
    }

    /// What is here of a write, and needs nothing more, waits for a die.
    pub(super) fn give(&mut self, now_ns: u64, number: u32) {
        let work = self.work.get(number);
        let units = work.arrived - work.given;
        if work.parts > 0 || units == 0 {
            return;
        }
        self.buffer.waiting.push_back(Run { work: number, first: work.given, units, at_ns: now_ns });
        self.buffer.waiting_units += units;
        work.given = work.arrived;
        self.dispatch(now_ns);
    }

    pub(super) fn dispatch(&mut self, now_ns: u64) {
        while let Some(oldest) = self.buffer.waiting.front() {
            let due_ns = oldest.at_ns + self.p.program_time.ns;
            let full = self.buffer.waiting_units >= self.per_page;
            if !full && self.buffer.awaited == 0 && due_ns > now_ns {
                if !self.buffer.timer {
                    self.buffer.timer = true;
                    self.plan(due_ns, Event::Waited);
                }
                return;
            }
            let Some(die) = self.buffer.free_dies.pop_front() else { return };
            self.load(now_ns, die);
        }
    }

    pub(super) fn waited(&mut self, now_ns: u64) {
        self.buffer.timer = false;
        self.dispatch(now_ns);
    }

    /// Fills a page for a die.
    fn load(&mut self, now_ns: u64, die: u32) {
        if self.buffer.busy_dies == 0 {
            self.garbage.works(now_ns);
        }
        self.buffer.busy_dies += 1;
        let mut left = self.per_page;
        while let Some(oldest) = self.buffer.waiting.front_mut().filter(|_| left > 0) {
            let taken = Run { units: oldest.units.min(left), ..*oldest };
            left -= taken.units;
            oldest.first += taken.units;
            oldest.units -= taken.units;
            if oldest.units == 0 {
                self.buffer.waiting.pop_front();
            }
            self.dies[die as usize].page.push(taken);
        }
        let units = self.per_page - left;
        self.buffer.waiting_units -= units;
        let moving_ns = per_mb(units * self.p.map_bytes.0, self.p.channel_mb_per_s);
        let channel = self.channel_of(die as usize);
        let at_ns = self.channels[channel].book(now_ns, moving_ns);
        self.plan(at_ns, Event::Loaded(die));
    }

    pub(super) fn loaded(&mut self, now_ns: u64, number: u32) {
        let (mut units, mut random, mut durable) = (0, 0, false);
        for run in &self.dies[number as usize].page {
            units += run.units;
            durable |= !self.work.get(run.work).trusted;
            random += if self.work.get(run.work).sequential { 0 } else { run.units };
        }
        let map = self.p.map_bytes.0;
        let cost = self.garbage.cost(units * map, random * map);
        let waited_for = units < self.per_page && self.buffer.awaited > 0 && self.p.partial_program_time.ns > 0;
        let program_ns = if waited_for { cost.program_ns.min(self.p.partial_program_time.ns) } else { cost.program_ns };
        let die = &mut self.dies[number as usize];
        die.moves_ns = die.moves_ns.saturating_add(cost.moves_ns);
        die.erase_ns = die.erase_ns.saturating_add(cost.erase_ns);
        die.register = None;
        let at_ns = die.server.book(now_ns, program_ns);
        let event = if durable && self.write_cache { Event::Unmapped(number) } else { Event::Programmed(number) };
        self.plan(at_ns, event);
    }

    /// What must survive a power cut is found again only by the map.
    pub(super) fn unmapped(&mut self, now_ns: u64, what: Unmapped) {
        self.map.waiting.push(what);
        if self.map.writing.is_empty() {
            self.write_map(now_ns);
        }
    }

    fn write_map(&mut self, now_ns: u64) {
        std::mem::swap(&mut self.map.writing, &mut self.map.waiting);
        let page_ns = if self.p.map_time.ns > 0 { self.p.map_time.ns } else { self.p.program_time.ns };
        let further = self.map.writing.len() as u64 - 1;
        self.plan(now_ns + page_ns + further * self.p.map_each.ns, Event::Mapped);
    }

    pub(super) fn mapped(&mut self, now_ns: u64, done: &mut Vec<u32>) {
        let written = std::mem::take(&mut self.map.writing);
        if !self.map.waiting.is_empty() {
            self.write_map(now_ns);
        }
        for what in written {
            match what {
                Unmapped::Die(die) => self.programmed(now_ns, die, done),
                Unmapped::Flush(flush) => {
                    self.buffer.awaited -= 1;
                    done.push(self.work.remove(flush).command.id);
                }
            }
        }
    }

    pub(super) fn programmed(&mut self, now_ns: u64, number: u32, done: &mut Vec<u32>) {
        let mut page = std::mem::take(&mut self.dies[number as usize].page);
        for run in page.drain(..) {
            (run.first..run.first + run.units).for_each(|unit| self.buffer.release(unit));
            self.buffer.dirty_units -= run.units;
            let work = self.work.get(run.work);
            work.left -= run.units;
            if work.left == 0 {
                self.write_ended(now_ns, run.work, done);
            }
        }
        let die = &mut self.dies[number as usize];
        die.page = page;
        let threshold_ns = self.p.erase_time.ns.max(1);
        if die.moves_ns >= threshold_ns || die.erase_ns >= threshold_ns {
            self.collect(now_ns, number);
        } else {
            self.die_is_free(now_ns, number);
        }
        self.admit(now_ns);
    }

    /// One step of garbage collection; the next one lets reads that came meanwhile go first.
    pub(super) fn collect(&mut self, now_ns: u64, number: u32) {
        let die = &mut self.dies[number as usize];
        let erase_ns = self.p.erase_time.ns.max(1);
        let step_ns = if die.erase_ns >= erase_ns {
            die.erase_ns -= erase_ns;
            erase_ns
        } else {
            let move_ns = die.moves_ns.min(self.move_ns);
            die.moves_ns -= move_ns;
            move_ns
        };
        if step_ns == 0 {
            return self.die_is_free(now_ns, number);
        }
        die.register = None;
        let at_ns = die.server.book(now_ns, step_ns);
        self.plan(at_ns, Event::Collected(number));
    }

    fn die_is_free(&mut self, now_ns: u64, number: u32) {
        self.buffer.free_dies.push_back(number);
        self.buffer.busy_dies -= 1;
        if self.buffer.busy_dies == 0 {
            self.garbage.rests(now_ns);
        }
        self.dispatch(now_ns);
    }

    fn write_ended(&mut self, now_ns: u64, number: u32, done: &mut Vec<u32>) {
        let work = self.work.remove(number);
        if !work.ended {
            done.push(work.command.id);
        }
        self.buffer.awaited -= u64::from(!work.trusted);
        self.buffer.unprogrammed -= 1;
        let mut whole = Vec::new();
        self.buffer.flushes.retain_mut(|flush| {
            flush.left -= u64::from(flush.epoch > work.epoch);
            if flush.left == 0 {
                whole.push(flush.work);
            }
            flush.left > 0
        });
        for flush in whole {
            self.unmapped(now_ns, Unmapped::Flush(flush));
        }
    }

    /// Ends when everything that came before it is programmed and in the map.
    pub(super) fn begin_flush(&mut self, now_ns: u64, number: u32, done: &mut Vec<u32>) {
        if self.p.power_loss_protection || self.buffer.unprogrammed == 0 {
            done.push(self.work.remove(number).command.id);
            return;
        }
        self.buffer.epoch += 1;
        self.buffer.awaited += 1;
        let flush = Flush { work: number, epoch: self.buffer.epoch, left: self.buffer.unprogrammed };
        self.buffer.flushes.push(flush);
        self.dispatch(now_ns);
    }
}
