//! Where the bytes of a volume lie on its members, and which member operations a request takes.
//!
//! Small writes to parity take the cheaper of read-modify-write (old data and old parity) and reconstruct-write (the rest
//! of the row), whole rows take neither (Chen, Lee, Gibson, Katz and Patterson, RAID: High-Performance, Reliable
//! Secondary Storage, 1994). Layouts are left-symmetric, parity moving down one member a row. RAID-1 has as many copies
//! as members. RAID-10 has two of each stripe unit, next to one another (the layout "near" of Linux md): over an even number
//! of members these are fixed pairs, over an odd one they move by one each row.
//!
//! Of ZFS's levels only the states of the members are kept here; `zfs::layout` says where their blocks lie.

use crate::brick::{Brick, Condition, DriveParameters, Level, MirrorRead};
use crate::stamps::Stamped;

/// One operation on a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberOp {
    pub member: u32,
    pub write: bool,
    pub offset_bytes: u64,
    pub bytes: u32,
}

/// What a request takes: reads that have to end before the writes begin.
#[derive(Debug, Clone, Default)]
pub struct Operations {
    pub reads: Vec<MemberOp>,
    pub writes: Vec<MemberOp>,
    /// Some of the data are on no member that is left.
    pub lost: bool,
}

impl Operations {
    pub fn clear(&mut self) {
        self.reads.clear();
        self.writes.clear();
        self.lost = false;
    }

    fn push(&mut self, member: usize, write: bool, offset_bytes: u64, bytes: u64) {
        let list = if write { &mut self.writes } else { &mut self.reads };
        let continued = list.iter_mut().rev().take(16).find(|o| {
            o.member == member as u32
                && o.offset_bytes + u64::from(o.bytes) == offset_bytes
                && u64::from(o.bytes) + bytes <= 1 << 30
        });
        match continued {
            Some(op) => op.bytes += bytes as u32,
            None => list.push(MemberOp { member: member as u32, write, offset_bytes, bytes: bytes as u32 }),
        }
    }
}

/// One page of a log.
const RECORD_BYTES: u64 = 4096;

/// A piece of a request within one stripe unit.
#[derive(Debug, Clone, Copy)]
struct Piece {
    data: u64,
    from: u64,
    to: u64,
}

#[derive(Debug)]
pub struct Array {
    level: Level,
    members: u64,
    unit_bytes: u64,
    member_bytes: u64,
    mirror_read: MirrorRead,
    /// Members that cannot be read, because they failed or are being rebuilt.
    unreadable: Vec<bool>,
    /// Members that get no writes either.
    absent: Vec<bool>,
    /// Of each set of copies, by its first member: which copy an even choice falls on next.
    next_copy: Vec<usize>,
    /// Arms that would leave a stream of reads for nothing; flash has none.
    arms: bool,
    last_end: Vec<u64>,
    /// Commands in flight at each member.
    pub loads: Vec<u32>,
}

impl Array {
    pub fn new(brick: &Brick, members: u32, member_bytes: u64) -> Array {
        let unit_bytes = brick.stripe_bytes;
        let whole = member_bytes / unit_bytes * unit_bytes;
        let plain = matches!(brick.level, Level::Jbod | Level::Raid1) || brick.level.is_zfs();
        let broken = matches!(brick.condition, Condition::Degraded | Condition::Rebuilding);
        // A distributed spare leaves the disk that it stands for where it is.
        let spared = brick.draid_spares > 0 && brick.condition == Condition::Rebuilding;
        let gone = brick.condition == Condition::Degraded || spared;
        Array {
            level: brick.level,
            members: u64::from(members),
            unit_bytes,
            member_bytes: if plain { member_bytes } else { whole },
            mirror_read: brick.keeper().map_or(MirrorRead::Idle, |k| k.mirror_read),
            unreadable: (0..members).map(|m| broken && m == 0).collect(),
            absent: (0..members).map(|m| gone && m == 0).collect(),
            next_copy: vec![0; members as usize],
            arms: matches!(brick.drive, DriveParameters::Rotating(_)),
            last_end: vec![0; members as usize],
            loads: vec![0; members as usize],
        }
    }

    /// Members' worth of data.
    fn data_members(&self) -> u64 {
        match self.level {
            Level::Jbod | Level::Raid0 => self.members,
            Level::Raid1 => 1,
            Level::Raid5 => self.members - 1,
            Level::Raid6 => self.members - 2,
            Level::Raid10 => (self.members / 2).max(1),
            // Of ZFS the pool knows what lies where.
            _ => self.members,
        }
    }

    pub fn capacity_bytes(&self) -> u64 {
        if self.level == Level::Raid10 {
            return self.member_bytes / self.unit_bytes * self.members / 2 * self.unit_bytes;
        }
        self.member_bytes * self.data_members()
    }

    /// Member and row of a copy of a stripe unit of RAID-10.
    fn near_copy(&self, unit: u64, copy: u64) -> (usize, u64) {
        let slot = 2 * unit + copy;
        ((slot % self.members) as usize, slot / self.members)
    }

    /// Calls `each(array, first, copies, bytes)` with the copies (member and offset there) of each piece of a request to a
    /// mirror.
    fn each_mirrored(&self, offset: u64, bytes: u64, mut each: impl FnMut(&Array, &[(usize, u64)], u64)) {
        if self.level == Level::Raid1 {
            let copies: Vec<(usize, u64)> = (0..self.members as usize).map(|m| (m, offset)).collect();
            return each(self, &copies, bytes);
        }
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let unit = at / self.unit_bytes;
            let to = end.min((unit + 1) * self.unit_bytes);
            let within = at - unit * self.unit_bytes;
            let copies = [0, 1].map(|copy| {
                let (member, row) = self.near_copy(unit, copy);
                (member, row * self.unit_bytes + within)
            });
            each(self, &copies, to - at);
            at = to;
        }
    }

    /// The first member that has data at an offset.
    pub fn member_at(&self, offset: u64) -> u32 {
        match self.level {
            Level::Jbod => (offset / self.member_bytes) as u32,
            Level::Raid1 => 0,
            Level::Raid10 => self.near_copy(offset / self.unit_bytes, 0).0 as u32,
            _ => {
                let (unit, data) = (offset / self.unit_bytes, self.data_members());
                self.data_member(unit / data, unit % data) as u32
            }
        }
    }

    pub fn member_bytes(&self) -> u64 {
        self.member_bytes
    }

    /// Data bytes of a row of stripe units.
    pub fn row_bytes(&self) -> u64 {
        self.unit_bytes * self.data_members()
    }

    pub fn is_mirror(&self) -> bool {
        matches!(self.level, Level::Raid1 | Level::Raid10)
    }

    pub fn has_parity(&self) -> bool {
        self.parity_count() > 0
    }

    fn parity_count(&self) -> u64 {
        match self.level {
            Level::Raid5 => 1,
            Level::Raid6 => 2,
            _ => 0,
        }
    }

    /// Member of parity `which` (0: P, 1: Q) in a row.
    fn parity_member(&self, row: u64, which: u64) -> usize {
        ((self.members - 1 - row % self.members + which) % self.members) as usize
    }

    fn data_member(&self, row: u64, data: u64) -> usize {
        let parity = self.parity_count();
        if parity == 0 {
            return data as usize;
        }
        ((self.parity_member(row, 0) as u64 + parity + data) % self.members) as usize
    }

    /// The operations of a read.
    pub fn read(&mut self, offset: u64, bytes: u64, out: &mut Operations) {
        match self.level {
            Level::Jbod => self.each_concatenated(offset, bytes, |m, at, n| {
                out.lost |= self.unreadable[m];
                out.push(m, false, at, n);
            }),
            Level::Raid0 => self.each_unit(offset, bytes, |array, row, p, unit| {
                out.lost |= array.unreadable[p.data as usize];
                out.push(p.data as usize, false, row * unit + p.from, p.to - p.from);
            }),
            Level::Raid1 | Level::Raid10 => {
                let mut pieces = Vec::new();
                self.each_mirrored(offset, bytes, |_, copies, n| pieces.push((copies.to_vec(), n)));
                for (copies, n) in pieces {
                    out.lost |= copies.iter().all(|(m, _)| self.unreadable[*m]);
                    let (member, at) = self.reading_copy(&copies, n);
                    out.push(member, false, at, n);
                }
            }
            _ => self.each_unit(offset, bytes, |array, row, p, unit| {
                let member = array.data_member(row, p.data);
                let (at, n) = (row * unit + p.from, p.to - p.from);
                if !array.unreadable[member] {
                    return out.push(member, false, at, n);
                }
                // Out of any set of survivors as large as the data: with one to spare RAID-6 leaves Q alone.
                let readable = |m: usize| m != member && !array.unreadable[m];
                let survivors = (0..array.members as usize).filter(|m| readable(*m)).count() as u64;
                out.lost |= survivors < array.data_members();
                let spared = (survivors > array.data_members()).then(|| array.parity_member(row, 1));
                for other in (0..array.members as usize).filter(|m| readable(*m) && Some(*m) != spared) {
                    out.push(other, false, at, n);
                }
            }),
        }
    }

    /// The operations of a write. An array of parity that has lost more than its parity takes no writes.
    pub fn write(&mut self, offset: u64, bytes: u64, out: &mut Operations) {
        match self.level {
            Level::Jbod => self.each_concatenated(offset, bytes, |m, at, n| {
                out.lost |= self.absent[m];
                out.push(m, true, at, n);
            }),
            Level::Raid0 => self.each_unit(offset, bytes, |array, row, p, unit| {
                out.lost |= array.absent[p.data as usize];
                out.push(p.data as usize, true, row * unit + p.from, p.to - p.from);
            }),
            Level::Raid1 | Level::Raid10 => self.each_mirrored(offset, bytes, |array, copies, n| {
                out.lost |= copies.iter().all(|(m, _)| array.unreadable[*m]);
                copies.iter().filter(|(m, _)| !array.absent[*m]).for_each(|(m, at)| out.push(*m, true, *at, n));
            }),
            _ => {
                out.lost |= self.unreadable.iter().filter(|u| **u).count() as u64 > self.parity_count();
                let row_bytes = self.row_bytes();
                let (mut at, end) = (offset, offset + bytes);
                while at < end && !out.lost {
                    let row = at / row_bytes;
                    let to = end.min((row + 1) * row_bytes);
                    self.write_row(row, at - row * row_bytes, to - row * row_bytes, out);
                    at = to;
                }
            }
        }
    }

    /// Writes `from..to` of a row with parity.
    fn write_row(&self, row: u64, from: u64, to: u64, out: &mut Operations) {
        let unit = self.unit_bytes;
        let base = row * unit;
        let data_count = self.data_members();
        let touched = |d: u64| -> Option<(u64, u64)> {
            let (a, b) = (from.max(d * unit), to.min((d + 1) * unit));
            (a < b).then(|| (a - d * unit, b - d * unit))
        };
        let (first, last) = (from / unit, (to - 1) / unit);
        // The part of each unit that parity has to be recomputed for.
        let (lo, hi) = if first == last { (from - first * unit, to - first * unit) } else { (0, unit) };
        let parity: Vec<usize> = (0..self.parity_count()).map(|k| self.parity_member(row, k)).collect();
        let readable = |m: usize| !self.unreadable[m];
        if to - from < self.row_bytes() && parity.iter().any(|p| !self.absent[*p]) {
            let modified: Vec<(usize, u64, u64)> = (first..=last)
                .filter_map(|d| touched(d).map(|(a, b)| (self.data_member(row, d), a, b)))
                .chain(parity.iter().map(|p| (*p, lo, hi)))
                .collect();
            // What reconstruct-write needs: the part of the row that the request leaves as it is.
            let rest: Vec<(usize, u64, u64)> = (0..data_count)
                .flat_map(|d| {
                    let member = self.data_member(row, d);
                    let (a, b) = touched(d).unwrap_or((hi, hi));
                    let before = if touched(d).is_some() { (member, lo, a.max(lo)) } else { (member, lo, hi) };
                    [before, (member, b, hi)]
                })
                .filter(|(_, a, b)| a < b)
                .collect();
            let lost_parity = parity.iter().any(|p| !readable(*p));
            let modify_possible = modified.iter().all(|(m, _, _)| readable(*m) || parity.contains(m));
            let rebuild_possible = rest.iter().all(|(m, _, _)| readable(*m));
            let cheaper = rest.len() < modified.len() - usize::from(lost_parity);
            let reads = if rebuild_possible && (cheaper || !modify_possible) {
                rest
            } else if modify_possible || !rebuild_possible && parity.len() == 1 {
                modified
            } else {
                // Two members are gone, one of them with data that are to change: everything that is left is read.
                (0..self.members as usize).map(|m| (m, lo, hi)).collect()
            };
            for (member, a, b) in reads.into_iter().filter(|(m, _, _)| readable(*m)) {
                out.push(member, false, base + a, b - a);
            }
        }
        for d in first..=last {
            if let Some((a, b)) = touched(d) {
                let member = self.data_member(row, d);
                if !self.absent[member] {
                    out.push(member, true, base + a, b - a);
                }
            }
        }
        for member in parity.into_iter().filter(|p| !self.absent[*p]) {
            out.push(member, true, base + lo, hi - lo);
        }
    }

    fn each_concatenated(&self, offset: u64, bytes: u64, mut each: impl FnMut(usize, u64, u64)) {
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let member = at / self.member_bytes;
            let to = end.min((member + 1) * self.member_bytes);
            each(member as usize, at - member * self.member_bytes, to - at);
            at = to;
        }
    }

    /// Calls `each(array, row, piece, unit_bytes)` for the stripe units of a request.
    fn each_unit(&self, offset: u64, bytes: u64, mut each: impl FnMut(&Array, u64, Piece, u64)) {
        let (unit, data) = (self.unit_bytes, self.data_members());
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let number = at / unit;
            let to = end.min((number + 1) * unit);
            let piece = Piece { data: number % data, from: at - number * unit, to: to - number * unit };
            each(self, number / data, piece, unit);
            at = to;
        }
    }

    /// Which copy is read: member and offset.
    fn reading_copy(&mut self, copies: &[(usize, u64)], bytes: u64) -> (usize, u64) {
        let readable = |c: &&(usize, u64)| !self.unreadable[c.0];
        let left: Vec<(usize, u64)> = copies.iter().filter(readable).copied().collect();
        let chosen = match left.as_slice() {
            [] => copies[0],
            [only] => *only,
            _ => self.choose(&left),
        };
        self.last_end[chosen.0] = chosen.1 + bytes;
        chosen
    }

    /// A stream stays with its arm, which reads ahead for it; of flash the copy with the fewest commands is read, as
    /// Linux md does from 4.x on (drivers/md/raid1.c, read_balance: the disk with the least pending where any does not
    /// rotate).
    fn choose(&mut self, copies: &[(usize, u64)]) -> (usize, u64) {
        let turn = copies[0].0;
        let alternate = copies[self.next_copy[turn] % copies.len()];
        if self.mirror_read == MirrorRead::Alternate {
            self.next_copy[turn] += 1;
            return alternate;
        }
        if let Some(stream) = copies.iter().find(|(m, at)| self.arms && self.last_end[*m] == *at) {
            return *stream;
        }
        let least = copies.iter().map(|(m, _)| self.loads[*m]).min().unwrap_or(0);
        let mut idle = copies.iter().filter(|(m, _)| self.loads[*m] == least);
        if self.mirror_read == MirrorRead::Nearer && self.arms {
            let nearest = idle.min_by_key(|(m, at)| self.last_end[*m].abs_diff(*at));
            return nearest.copied().unwrap_or(alternate);
        }
        if let (Some(only), None) = (idle.next(), idle.next()) {
            return *only;
        }
        self.next_copy[turn] += 1;
        if self.loads[alternate.0] == least {
            alternate
        } else {
            copies.iter().find(|(m, _)| self.loads[*m] == least).copied().unwrap_or(alternate)
        }
    }

    /// Calls `each(set, bytes)` for the sets of copies on which a read goes on where another one ended.
    pub fn continued_sets(&self, offset: u64, bytes: u64, mut each: impl FnMut(usize, u64)) {
        self.each_mirrored(offset, bytes, |array, copies, n| {
            if copies.iter().any(|(m, at)| array.last_end[*m] == *at) {
                each(copies[0].0, n);
            }
        });
    }

    /// Whether any of these pieces of members has some of these data, or the parity that stands for an absent member.
    pub fn keeps_on(&self, offset: u64, bytes: u64, pieces: &[(usize, Stamped)]) -> bool {
        let on = |member: usize, from: u64, bytes: u64| {
            let touches = |piece: &Stamped| piece.from < from + bytes && from < piece.end;
            let stands_for = |m: usize| m == member || (self.has_parity() && self.absent[member]);
            pieces.iter().any(|(m, piece)| stands_for(*m) && touches(piece))
        };
        let mut found = false;
        match self.level {
            Level::Jbod => self.each_concatenated(offset, bytes, |m, at, n| found |= on(m, at, n)),
            Level::Raid1 | Level::Raid10 => self.each_mirrored(offset, bytes, |_, copies, n| {
                found |= copies.iter().any(|(m, at)| on(*m, *at, n));
            }),
            _ => self.each_unit(offset, bytes, |array, row, p, unit| {
                found |= on(array.data_member(row, p.data), row * unit + p.from, p.to - p.from);
            }),
        }
        found
    }

    /// Whether a member cannot be read.
    pub fn is_unreadable(&self, member: usize) -> bool {
        self.unreadable[member]
    }

    /// Whether a member gets no commands at all.
    pub fn is_absent(&self, member: usize) -> bool {
        self.absent[member]
    }

    /// The member is gone.
    pub fn fail(&mut self, member: usize) {
        self.unreadable[member] = true;
        self.absent[member] = true;
    }

    /// A new drive is in the member's place: it is written, and not read until it is whole.
    pub fn replace(&mut self, member: usize) {
        self.absent[member] = false;
    }

    pub fn restore(&mut self, member: usize) {
        self.unreadable[member] = false;
    }

    pub fn first_absent(&self) -> Option<usize> {
        self.absent.iter().position(|gone| *gone)
    }

    /// Whether all data can still be had.
    pub fn is_whole(&self) -> bool {
        let gone = self.unreadable.iter().filter(|u| **u).count() as u64;
        match self.level {
            Level::Jbod | Level::Raid0 => gone == 0,
            Level::Raid1 => gone < self.members,
            Level::Raid10 if self.members.is_multiple_of(2) => {
                self.unreadable.chunks(2).all(|pair| pair.iter().any(|u| !u))
            }
            Level::Raid10 => {
                let next = self.unreadable.iter().cycle().skip(1);
                self.unreadable.iter().zip(next).all(|(one, other)| !one || !other)
            }
            _ => gone <= self.parity_count(),
        }
    }

    /// A record that regions are being written: in the middle of each member, nearest to everything.
    pub fn record(&self, out: &mut Operations) {
        let at = self.member_bytes / 2 / RECORD_BYTES * RECORD_BYTES;
        (0..self.members as usize).filter(|m| !self.absent[*m]).for_each(|m| out.push(m, true, at, RECORD_BYTES));
    }

    /// A chunk of a rebuild: everything that is left of the row, or another copy, is read, the member that comes back is
    /// written.
    pub fn rebuild(&self, member: usize, at: u64, bytes: u64, out: &mut Operations) {
        if self.is_mirror() {
            self.each_row(at, bytes, |row, at, n| {
                let sources = self.other_copies(member, row, at);
                if let Some((from, there)) = sources.into_iter().find(|(m, _)| !self.unreadable[*m]) {
                    out.push(from, false, there, n);
                }
            });
        } else {
            let sources = (0..self.members as usize).filter(|m| *m != member && !self.unreadable[*m]);
            sources.for_each(|m| out.push(m, false, at, bytes));
        }
        out.push(member, true, at, bytes);
    }

    /// Where the other copies are of what a member of a mirror has at an offset.
    fn other_copies(&self, member: usize, row: u64, at: u64) -> Vec<(usize, u64)> {
        if self.level == Level::Raid1 {
            return (0..self.members as usize).filter(|m| *m != member).map(|m| (m, at)).collect();
        }
        let slot = (row * self.members + member as u64) ^ 1;
        vec![((slot % self.members) as usize, slot / self.members * self.unit_bytes + at % self.unit_bytes)]
    }

    /// Calls `each(row, offset, bytes)` for the rows that a chunk of members lies in; pairs that do not move have one.
    fn each_row(&self, at: u64, bytes: u64, mut each: impl FnMut(u64, u64, u64)) {
        if self.level == Level::Raid1 {
            return each(0, at, bytes);
        }
        let (mut at, end) = (at, at + bytes);
        while at < end {
            let row = at / self.unit_bytes;
            let to = end.min((row + 1) * self.unit_bytes);
            each(row, at, to - at);
            at = to;
        }
    }

    /// A chunk of the first computation of redundancy.
    pub fn initialize(&self, at: u64, bytes: u64, out: &mut Operations) {
        if self.is_mirror() {
            return self.each_row(at, bytes, |row, at, n| {
                let first_copies = (0..self.members as usize).filter(|m| match self.level {
                    Level::Raid1 => *m == 0,
                    _ => (row * self.members + *m as u64).is_multiple_of(2),
                });
                for member in first_copies {
                    out.push(member, false, at, n);
                    self.other_copies(member, row, at).into_iter().for_each(|(m, there)| out.push(m, true, there, n));
                }
            });
        }
        let (mut at, end) = (at, at + bytes);
        while at < end {
            let row = at / self.unit_bytes;
            let to = end.min((row + 1) * self.unit_bytes);
            let parity: Vec<usize> = (0..self.parity_count()).map(|k| self.parity_member(row, k)).collect();
            (0..self.members as usize).for_each(|m| out.push(m, parity.contains(&m), at, to - at));
            at = to;
        }
    }

    /// A chunk of a scrub: every member is read.
    pub fn scrub(&self, at: u64, bytes: u64, out: &mut Operations) {
        (0..self.members as usize).for_each(|m| out.push(m, false, at, bytes));
    }
}
