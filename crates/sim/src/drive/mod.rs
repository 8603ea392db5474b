//! A rotating drive: an arm that does one thing at a time, an interface that moves one buffer at a time, read-ahead
//! segments, and a write cache whose firmware sorts a small window of what is waiting.
//!
//! A media operation takes `overhead + seek + rotational wait + transfer`. The wait is the difference of angles on the
//! drive's own spindle, whose phase is the virtual clock. Without a queue (ATA before TCQ/NCQ) the next command is looked
//! at when the one before it has ended, so its overhead is paid between them; with one, positioning starts at once.

pub mod geometry;
mod read_ahead;
pub mod seek;
mod write_cache;

use std::collections::{BTreeMap, VecDeque};

use crate::brick::{RotatingParameters, Scheduler};
use crate::member::{Command, Kind, Lost};
use crate::stamps::{Stamped, Stamps};
use crate::{NEVER, SECTOR_BYTES};
use geometry::{Geometry, Place};
use read_ahead::{Ahead, Segment};
use seek::SeekCurve;
use write_cache::{Arm, Dirty, WriteCache};

#[derive(Debug, Clone, Copy)]
struct Pending {
    id: u32,
    kind: Kind,
    durable: bool,
    sector: u64,
    sectors: u64,
    place: Place,
    arrived_ns: u64,
    stamp: u64,
}

impl Pending {
    fn piece(&self) -> Stamped {
        let from = self.sector * SECTOR_BYTES;
        Stamped { from, end: from + self.sectors * SECTOR_BYTES, stamp: self.stamp }
    }
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Read(Pending),
    Write(Pending),
    Destage(Dirty),
}

/// What the arm is doing until `end_ns`.
#[derive(Debug, Clone, Copy)]
struct Media {
    end_ns: u64,
    work: Work,
}

/// What the interface is doing until `end_ns`: a command that needs no arm.
#[derive(Debug, Clone, Copy)]
struct Front {
    end_ns: u64,
    command: Pending,
    accepted: bool,
}

#[derive(Debug)]
pub struct Drive {
    geometry: Geometry,
    spindle_ns: u64,
    read_seek: SeekCurve,
    write_seek: SeekCurve,
    p: RotatingParameters,
    write_cache: bool,
    queue: VecDeque<Pending>,
    media: Option<Media>,
    front: VecDeque<Front>,
    link_free_ns: u64,
    ahead: Option<Ahead>,
    segments: VecDeque<Segment>,
    dirty: WriteCache,
    /// Whose data are in the cache, and whose the arm is writing over or destaging.
    stamps: Stamps,
    moving: Vec<Stamped>,
    /// Cache entries promised to writes that are on the interface.
    promised: usize,
    at: Place,
    at_sector: u64,
    last_end_sector: u64,
    last_was_foreground: bool,
    /// Pieces that have not ended, of each write that is too large for the cache at once.
    pieces: BTreeMap<u32, u32>,
    /// Until then a stream of reads has the arm, and what is to be destaged waits.
    destage_at_ns: u64,
    /// The arm has left a stream and stays until enough is destaged.
    draining: bool,
    /// By how much a command's cost falls for each ns of its age.
    aging: f64,
    /// Time during which the arm was at work.
    pub busy_ns: u64,
}

impl Drive {
    /// A drive whose spindle stood at `spindle_ns` of its revolution when time began: no two stand alike.
    pub fn new(p: &RotatingParameters, spindle_ns: u64) -> Result<Drive, String> {
        let geometry = Geometry::new(p);
        let n = geometry.cylinders;
        let farthest_ns = p.seek_full_read.ns.max(p.seek_full_write.ns) + geometry.revolution_ns;
        let aging = farthest_ns as f64 / p.age_limit.ns.max(1) as f64;
        Ok(Drive {
            read_seek: SeekCurve::new(p.seek_track_read.ns, p.seek_average_read.ns, p.seek_full_read.ns, n)?,
            write_seek: SeekCurve::new(p.seek_track_write.ns, p.seek_average_write.ns, p.seek_full_write.ns, n)?,
            at: geometry.place(0),
            spindle_ns: spindle_ns % geometry.revolution_ns,
            geometry,
            write_cache: p.write_cache,
            p: p.clone(),
            queue: VecDeque::new(),
            media: None,
            front: VecDeque::new(),
            link_free_ns: 0,
            ahead: None,
            segments: VecDeque::new(),
            dirty: WriteCache::new(p.destage_window as usize),
            stamps: Stamps::default(),
            moving: Vec::new(),
            promised: 0,
            at_sector: 0,
            last_end_sector: 0,
            last_was_foreground: false,
            pieces: BTreeMap::new(),
            destage_at_ns: NEVER,
            draining: false,
            aging,
            busy_ns: 0,
        })
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.geometry.sectors * SECTOR_BYTES
    }

    /// Time until `now_ns` during which the arm was at work.
    pub fn busy_by_ns(&self, now_ns: u64) -> u64 {
        self.busy_ns - self.media.map_or(0, |m| m.end_ns.saturating_sub(now_ns))
    }

    /// None leaves it as the drive's description has it.
    pub fn set_write_cache(&mut self, on: Option<bool>) {
        self.write_cache = on.unwrap_or(self.p.write_cache);
    }

    pub fn submit(&mut self, now_ns: u64, command: Command) {
        let sector = command.offset_bytes / SECTOR_BYTES;
        let sectors = u64::from(command.bytes).div_ceil(SECTOR_BYTES);
        let pending = Pending {
            id: command.id,
            kind: command.kind,
            durable: command.durable,
            sector,
            sectors,
            place: self.geometry.place(sector),
            arrived_ns: now_ns,
            stamp: command.stamp,
        };
        // A write that would fill most of the cache goes through it in pieces, so that one is taken in while another
        // is destaged.
        let piece = (self.p.cache_bytes.0 / SECTOR_BYTES / 2).max(1);
        if self.cached_write(&pending) && sectors > piece {
            self.pieces.insert(command.id, sectors.div_ceil(piece) as u32);
            for from in (0..sectors).step_by(piece as usize) {
                let (sector, sectors) = (sector + from, piece.min(sectors - from));
                self.queue.push_back(Pending { sector, sectors, place: self.geometry.place(sector), ..pending });
            }
        } else if command.urgent {
            self.queue.push_front(pending);
        } else {
            self.queue.push_back(pending);
        }
        self.kick(now_ns);
    }

    /// A command has ended, or a piece of one.
    fn ended(&mut self, id: u32, done: &mut Vec<u32>) {
        if let Some(left) = self.pieces.get_mut(&id) {
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.pieces.remove(&id);
        }
        done.push(id);
    }

    #[inline]
    pub fn next_event(&self) -> u64 {
        let front = self.front.front().map_or(NEVER, |f| f.end_ns).min(self.destage_at_ns);
        self.media.map_or(front, |m| m.end_ns.min(front))
    }

    pub fn advance(&mut self, now_ns: u64, done: &mut Vec<u32>) {
        loop {
            let next_ns = self.next_event();
            if next_ns > now_ns {
                return;
            }
            if let Some(front) = self.front.front().copied().filter(|f| f.end_ns == next_ns) {
                self.front.pop_front();
                if front.accepted {
                    self.promised -= 1;
                    self.keep(&front.command);
                }
                self.ended(front.command.id, done);
            } else if self.media.is_some_and(|m| m.end_ns == next_ns) {
                if let Some(media) = self.media.take() {
                    self.end_media(media, done);
                }
            } else {
                self.destage_at_ns = NEVER;
                self.end_ahead(next_ns);
            }
            self.kick(next_ns);
        }
    }

    pub fn power_cut(&mut self, now_ns: u64) -> Vec<Lost> {
        self.advance(now_ns, &mut Vec::new());
        let mut lost: Vec<Dirty> = self.dirty.empty();
        if let Some(Media { work: Work::Destage(dirty), .. }) = self.media {
            lost.push(dirty);
        }
        self.busy_ns = self.busy_by_ns(now_ns);
        (self.media, self.ahead, self.promised, self.link_free_ns) = (None, None, 0, 0);
        (self.stamps, self.moving) = (Stamps::default(), Vec::new());
        self.queue.clear();
        self.front.clear();
        self.segments.clear();
        self.pieces.clear();
        (self.destage_at_ns, self.draining) = (NEVER, false);
        let mut lost: Vec<Lost> = lost
            .iter()
            .map(|d| Lost { offset_bytes: d.sector * SECTOR_BYTES, bytes: d.sectors * SECTOR_BYTES })
            .collect();
        lost.sort_by_key(|l| l.offset_bytes);
        lost
    }

    /// Puts an accepted write into the cache.
    fn keep(&mut self, command: &Pending) {
        self.forget(command.sector, command.sectors);
        self.dirty.keep(command.sector, command.sectors, command.place);
        self.stamps.put(command.piece());
    }

    /// What is on the medium when this ends is not volatile any more.
    fn moves(&mut self, sector: u64, sectors: u64) {
        self.moving = self.stamps.take(sector * SECTOR_BYTES, (sector + sectors) * SECTOR_BYTES);
    }

    pub fn unwritten_bytes(&self) -> u64 {
        self.dirty.sectors() * SECTOR_BYTES
    }

    /// Whose data a power cut would take.
    pub fn stamped(&self) -> Vec<Stamped> {
        self.stamps.over(self.moving.iter().copied())
    }

    fn end_media(&mut self, media: Media, done: &mut Vec<u32>) {
        self.moving.clear();
        let (sector, sectors) = match media.work {
            Work::Read(p) => {
                self.hand_over(media.end_ns, p, done);
                (p.sector, p.sectors)
            }
            Work::Write(p) => {
                self.ended(p.id, done);
                (p.sector, p.sectors)
            }
            Work::Destage(d) => {
                self.draining &= self.is_pressed(8);
                (d.sector, d.sectors)
            }
        };
        let end = (sector + sectors).min(self.geometry.sectors);
        self.stand_at(end - 1);
        self.last_end_sector = end;
        if matches!(media.work, Work::Read(_)) && self.p.read_ahead_bytes.0 > 0 {
            self.begin_ahead(media.end_ns, sector, end);
        }
    }

    fn stand_at(&mut self, sector: u64) {
        (self.at, self.at_sector) = (self.geometry.place(sector), sector);
    }

    /// What the heads have read goes over the interface while they read, and ends later only where that is the slower.
    fn hand_over(&mut self, ready_ns: u64, command: Pending, done: &mut Vec<u32>) {
        let moving_ns = self.p.command_overhead.ns + self.moving_ns(command.sectors);
        let end_ns = self.link_free_ns.max(ready_ns.saturating_sub(moving_ns)) + moving_ns;
        self.link_free_ns = end_ns;
        if end_ns <= ready_ns {
            done.push(command.id);
        } else {
            self.front.push_back(Front { end_ns, command, accepted: false });
        }
    }

    fn moving_ns(&self, sectors: u64) -> u64 {
        ((sectors * SECTOR_BYTES) as f64 * 1e3 / self.p.interface_mb_per_s) as u64
    }

    fn queued(&self) -> bool {
        self.p.scheduler != Scheduler::None
    }

    /// Starts whatever can start now.
    fn kick(&mut self, now_ns: u64) {
        if self.queued() {
            self.serve_fronts(now_ns);
            if self.media.is_none() {
                self.start_media(now_ns);
            }
            return;
        }
        if self.draining && self.media.is_none() {
            self.start_destage(now_ns);
        }
        // One command at a time.
        let foreground = matches!(self.media, Some(Media { work: Work::Read(_) | Work::Write(_), .. }));
        if self.front.is_empty()
            && !foreground
            && let Some(command) = self.queue.front().copied()
        {
            if self.serve_front(now_ns, &command) {
                self.queue.pop_front();
            } else if self.media.is_none() && self.needs_arm(&command) {
                self.queue.pop_front();
                self.start_command(now_ns, command);
            }
        }
        if self.media.is_none() {
            self.start_destage(now_ns);
        }
    }

    /// Takes a command out of the queue; the first of those that waited outside enters it, and is of no age.
    fn take(&mut self, now_ns: u64, index: usize) -> Option<Pending> {
        let command = self.queue.remove(index);
        if let Some(entering) = self.queue.get_mut(self.p.queue_depth as usize - 1) {
            entering.arrived_ns = now_ns;
        }
        command
    }

    /// With a queue, commands that need no arm overtake those that do.
    fn serve_fronts(&mut self, now_ns: u64) {
        let mut index = 0;
        while index < self.queue.len().min(self.p.queue_depth as usize) {
            let command = self.queue[index];
            if self.serve_front(now_ns, &command) {
                self.take(now_ns, index);
            } else {
                index += 1;
            }
        }
    }

    fn cached_write(&self, command: &Pending) -> bool {
        command.kind == Kind::Write && self.write_cache && !command.durable && self.p.cache_bytes.0 >= SECTOR_BYTES
    }

    fn needs_arm(&self, command: &Pending) -> bool {
        match command.kind {
            Kind::Read => true,
            Kind::Write => !self.cached_write(command),
            Kind::Flush | Kind::Trim => false,
        }
    }

    /// Serves a command out of the cache or into it, if that is possible now.
    fn serve_front(&mut self, now_ns: u64, command: &Pending) -> bool {
        let accepted = self.cached_write(command);
        let possible = match command.kind {
            Kind::Write => accepted && self.has_room(command.sectors),
            Kind::Read => self.is_cached(command, now_ns),
            Kind::Flush => self.dirty.is_empty() && self.destaging().is_none() && self.promised == 0,
            Kind::Trim => true,
        };
        if !possible {
            return false;
        }
        let moves = matches!(command.kind, Kind::Read | Kind::Write);
        let moving_ns = if moves { self.moving_ns(command.sectors) } else { 0 };
        let end_ns = now_ns.max(self.link_free_ns) + self.p.command_overhead.ns + moving_ns;
        self.link_free_ns = end_ns;
        self.promised += usize::from(accepted);
        self.front.push_back(Front { end_ns, command: *command, accepted });
        if command.kind == Kind::Read {
            self.read_further(now_ns, command.sector + command.sectors);
        }
        true
    }

    fn destaging(&self) -> Option<&Dirty> {
        if let Some(Media { work: Work::Destage(dirty), .. }) = &self.media { Some(dirty) } else { None }
    }

    fn has_room(&self, sectors: u64) -> bool {
        let (entries, held) = self.destaging().map_or((0, 0), |d| (1, d.sectors));
        let flushing = || self.queue.iter().take(self.p.queue_depth.max(1) as usize).any(|c| c.kind == Kind::Flush);
        self.dirty.len() + entries + self.promised < self.p.write_cache_entries as usize
            && (self.dirty.sectors() + held + sectors) * SECTOR_BYTES <= self.p.cache_bytes.0
            && !flushing()
    }

    /// With a queue: picks among the commands that need the arm and what is to be destaged.
    fn start_media(&mut self, now_ns: u64) {
        let visible = self.queue.len().min(self.p.queue_depth as usize);
        let mut blocked_write = false;
        let mut eligible = false;
        let mut oldest_ns = now_ns;
        for command in self.queue.iter().take(visible) {
            blocked_write |= self.cached_write(command) || command.kind == Kind::Flush;
            if self.needs_arm(command) {
                eligible = true;
                oldest_ns = oldest_ns.min(command.arrived_ns);
            }
        }
        // Where writes come as fast as they are destaged, there is no other end of it.
        self.draining &= now_ns - oldest_ns < self.p.age_limit.ns;
        let destage_first = blocked_write && self.last_was_foreground && !self.dirty.is_empty();
        if !eligible || destage_first || self.draining {
            self.start_destage(now_ns);
            if self.media.is_some() || !eligible {
                return;
            }
        }
        let index = self.pick(now_ns, visible);
        if let Some(command) = self.take(now_ns, index) {
            self.start_command(now_ns, command);
        }
    }

    /// Index of the next command, by the drive's scheduler. Shortest positioning time first is aged (ASPTF in Jacobson and
    /// Wilkes, Disk scheduling algorithms based on rotational position, HP Labs 1991): a command's cost falls with its
    /// age, so fast that one as old as the age limit goes before all that have just come. A queue in which all are old is
    /// sorted as before.
    fn pick(&self, now_ns: u64, visible: usize) -> usize {
        let arms = || self.queue.iter().take(visible).enumerate().filter(|(_, c)| self.needs_arm(c));
        let Some((oldest, _)) = arms().next() else { return 0 };
        match self.p.scheduler {
            Scheduler::None | Scheduler::Fifo => oldest,
            Scheduler::Sptf => {
                let phase_ns = self.phase_ns(now_ns);
                let cost = |c: &Pending| {
                    let positioning_ns = match &self.ahead {
                        Some(ahead) if self.reads_anyway(ahead, c, now_ns) => 0,
                        _ => self.positioning_ns(phase_ns, &c.place, c.sector, c.kind != Kind::Read),
                    };
                    positioning_ns as i64 - (self.aging * now_ns.saturating_sub(c.arrived_ns) as f64) as i64
                };
                arms().min_by_key(|(_, c)| cost(c)).map_or(oldest, |(i, _)| i)
            }
            Scheduler::CLook => {
                let here = self.last_end_sector;
                let ahead = arms().filter(|(_, c)| c.sector >= here).min_by_key(|(_, c)| c.sector);
                ahead.or_else(|| arms().min_by_key(|(_, c)| c.sector)).map_or(oldest, |(i, _)| i)
            }
        }
    }

    /// How far the spindle has turned.
    fn phase_ns(&self, now_ns: u64) -> u64 {
        (now_ns + self.spindle_ns) % self.geometry.revolution_ns
    }

    /// Seek and rotational wait from where the arm is, with the spindle at `phase_ns`.
    #[inline]
    fn positioning_ns(&self, phase_ns: u64, to: &Place, sector: u64, write: bool) -> u64 {
        let revolution_ns = self.geometry.revolution_ns;
        let distance = self.at.cylinder.abs_diff(to.cylinder);
        // Straight on, the skew has the head switch or the step to the next cylinder in it.
        let seek_ns = if distance == 0 || sector == self.last_end_sector {
            if self.at.track == to.track { 0 } else { self.p.head_switch.ns }
        } else if write {
            self.write_seek.ns(distance) + self.p.write_settle.ns
        } else {
            self.read_seek.ns(distance)
        };
        let mut arrival_phase_ns = phase_ns + seek_ns;
        while arrival_phase_ns >= revolution_ns {
            arrival_phase_ns -= revolution_ns;
        }
        let wait_ns = if to.angle_ns >= arrival_phase_ns {
            to.angle_ns - arrival_phase_ns
        } else {
            to.angle_ns + revolution_ns - arrival_phase_ns
        };
        seek_ns + wait_ns
    }

    fn start_command(&mut self, now_ns: u64, command: Pending) {
        self.last_was_foreground = true;
        let write = command.kind != Kind::Read;
        // With a queue the next command is prepared while the arm is still at work.
        let waited = self.queued() && command.arrived_ns < now_ns;
        let begin_ns = if waited { now_ns } else { now_ns + self.p.command_overhead.ns };
        let end = command.sector + command.sectors;
        if let Some(ahead) = self.ahead.filter(|a| self.reads_anyway(a, &command, now_ns)) {
            let end_ns = ahead.from_ns + self.geometry.transfer_ns(ahead.from, end - ahead.from);
            return self.occupy(now_ns, end_ns.max(begin_ns), Work::Read(command));
        }
        let begin_ns = begin_ns.max(self.end_ahead(now_ns));
        let phase_ns = self.phase_ns(begin_ns);
        let positioning_ns = self.positioning_ns(phase_ns, &command.place, command.sector, write);
        let mut end_ns = begin_ns + positioning_ns + self.geometry.transfer_ns(command.sector, command.sectors);
        if write {
            self.moves(command.sector, command.sectors);
            self.link_free_ns = self.link_free_ns.max(now_ns) + self.moving_ns(command.sectors);
            end_ns = end_ns.max(self.link_free_ns);
            self.forget(command.sector, command.sectors);
        }
        self.occupy(now_ns, end_ns, if write { Work::Write(command) } else { Work::Read(command) });
    }

    fn start_destage(&mut self, now_ns: u64) {
        if self.dirty.is_empty() || self.yields_to_a_stream(now_ns) {
            return;
        }
        self.last_was_foreground = false;
        let begin_ns = self.end_ahead(now_ns);
        let phase_ns = self.phase_ns(begin_ns);
        let arm = Arm { sector: self.at_sector, cylinder: self.at.cylinder, straight_on: self.last_end_sector };
        // One less, since the curve's sum may round differently at neighbouring distances.
        let seek_ns = |cylinders: u64| (self.write_seek.ns(cylinders) + self.p.write_settle.ns).saturating_sub(1);
        let least_ns = |cylinders| if cylinders == 0 { 0 } else { seek_ns(cylinders) };
        let cost_ns = |sector, place: &Place| self.positioning_ns(phase_ns, place, sector, true);
        let Some((first, positioning_ns)) = self.dirty.nearest(arm, least_ns, cost_ns) else { return };
        let Some(dirty) = self.dirty.take(first) else { return };
        let end_ns = begin_ns + positioning_ns + self.geometry.transfer_ns(dirty.sector, dirty.sectors);
        self.moves(dirty.sector, dirty.sectors);
        self.occupy(now_ns, end_ns, Work::Destage(dirty));
    }

    /// Whether a part of the cache is in use.
    fn is_pressed(&self, part: u64) -> bool {
        part * self.dirty.len() as u64 >= u64::from(self.p.write_cache_entries)
            || part * self.dirty.sectors() * SECTOR_BYTES >= self.p.cache_bytes.0
    }

    /// Whether destaging waits for the read-ahead of a stream that is written as well to end: to leave it costs the stream a revolution, so that
    /// writes gather until half of the cache is full, and are then destaged but for an eighth of it. A write without room
    /// and a flush do not wait.
    fn yields_to_a_stream(&mut self, now_ns: u64) -> bool {
        let visible = self.p.queue_depth.max(1) as usize;
        let awaited = self
            .queue
            .iter()
            .take(visible)
            .any(|c| c.kind == Kind::Flush || self.cached_write(c) && !self.has_room(c.sectors));
        // What lies elsewhere gains nothing by waiting for its neighbours.
        let near = self.p.cache_bytes.0 / SECTOR_BYTES;
        let stream = self.ahead.filter(|a| a.used && self.dirty.begins_within(a.first.saturating_sub(near), a.limit));
        let ends_ns = stream.map_or(now_ns, |a| a.from_ns + self.geometry.transfer_ns(a.from, a.limit - a.from));
        let leaves = awaited || self.is_pressed(2);
        self.draining |= stream.is_some() && leaves;
        let yields = !leaves && ends_ns > now_ns;
        self.destage_at_ns = if yields { ends_ns } else { NEVER };
        yields
    }

    fn occupy(&mut self, now_ns: u64, end_ns: u64, work: Work) {
        debug_assert!(self.media.is_none(), "an arm does one thing at a time");
        self.destage_at_ns = NEVER;
        self.busy_ns += end_ns - now_ns;
        self.media = Some(Media { end_ns, work });
    }
}
