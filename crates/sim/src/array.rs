//! Where the bytes of a volume lie on its members, and which member operations a request takes.
//!
//! Small writes to parity take the cheaper of read-modify-write (old data and old parity) and reconstruct-write (the rest
//! of the row), whole rows take neither (Chen, Lee, Gibson, Katz and Patterson, RAID: High-Performance, Reliable
//! Secondary Storage, 1994). Layouts are left-symmetric, parity moving down one member a row.

use crate::brick::{Brick, Condition, Level, MirrorRead};
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
    /// Of each pair: which arm an even choice falls on next.
    next_arm: Vec<usize>,
    last_end: Vec<u64>,
    /// Commands in flight at each member.
    pub loads: Vec<u32>,
}

impl Array {
    pub fn new(brick: &Brick, members: u32, member_bytes: u64) -> Array {
        let unit_bytes = brick.stripe_bytes;
        let whole = member_bytes / unit_bytes * unit_bytes;
        let plain = matches!(brick.level, Level::Jbod | Level::Raid1);
        let broken = matches!(brick.condition, Condition::Degraded | Condition::Rebuilding);
        Array {
            level: brick.level,
            members: u64::from(members),
            unit_bytes,
            member_bytes: if plain { member_bytes } else { whole },
            mirror_read: brick.keeper().map_or(MirrorRead::Idle, |k| k.mirror_read),
            unreadable: (0..members).map(|m| broken && m == 0).collect(),
            absent: (0..members).map(|m| brick.condition == Condition::Degraded && m == 0).collect(),
            next_arm: vec![0; members as usize / 2],
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
            Level::Raid10 => self.members / 2,
        }
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.member_bytes * self.data_members()
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
            Level::Raid1 => {
                out.lost |= self.unreadable[0] && self.unreadable[1];
                let arm = self.reading_arm(0, offset, bytes);
                out.push(arm, false, offset, bytes);
            }
            Level::Raid0 => self.each_unit(offset, bytes, |array, row, p, unit| {
                out.lost |= array.unreadable[p.data as usize];
                out.push(p.data as usize, false, row * unit + p.from, p.to - p.from);
            }),
            Level::Raid10 => {
                let mut pieces = Vec::new();
                self.each_unit(offset, bytes, |_, row, p, unit| {
                    pieces.push((p.data, row * unit + p.from, p.to - p.from))
                });
                for (pair, at, n) in pieces {
                    out.lost |= self.unreadable[2 * pair as usize] && self.unreadable[2 * pair as usize + 1];
                    let arm = self.reading_arm(pair as usize, at, n);
                    out.push(arm, false, at, n);
                }
            }
            Level::Raid5 | Level::Raid6 => self.each_unit(offset, bytes, |array, row, p, unit| {
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
            Level::Raid1 => self.write_pair(0, offset, bytes, out),
            Level::Raid10 => self.each_unit(offset, bytes, |array, row, p, unit| {
                array.write_pair(p.data as usize, row * unit + p.from, p.to - p.from, out);
            }),
            Level::Raid5 | Level::Raid6 => {
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

    fn write_pair(&self, pair: usize, at: u64, bytes: u64, out: &mut Operations) {
        let arms = [2 * pair, 2 * pair + 1];
        out.lost |= arms.iter().all(|m| self.unreadable[*m]);
        arms.iter().filter(|m| !self.absent[**m]).for_each(|m| out.push(*m, true, at, bytes));
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

    /// Which arm of a pair reads.
    fn reading_arm(&mut self, pair: usize, offset: u64, bytes: u64) -> usize {
        let arms = [2 * pair, 2 * pair + 1];
        let chosen = match (self.unreadable[arms[0]], self.unreadable[arms[1]]) {
            (true, _) => arms[1],
            (_, true) => arms[0],
            _ => self.choose(pair, offset),
        };
        self.last_end[chosen] = offset + bytes;
        chosen
    }

    fn choose(&mut self, pair: usize, offset: u64) -> usize {
        let arms = [2 * pair, 2 * pair + 1];
        let alternate = arms[self.next_arm[pair]];
        if self.mirror_read == MirrorRead::Alternate {
            self.next_arm[pair] ^= 1;
            return alternate;
        }
        if let Some(stream) = arms.iter().find(|a| self.last_end[**a] == offset) {
            return *stream;
        }
        if self.loads[arms[0]] != self.loads[arms[1]] {
            return if self.loads[arms[0]] < self.loads[arms[1]] { arms[0] } else { arms[1] };
        }
        if self.mirror_read == MirrorRead::Nearer {
            let distance = |a: usize| self.last_end[a].abs_diff(offset);
            return if distance(arms[1]) < distance(arms[0]) { arms[1] } else { arms[0] };
        }
        self.next_arm[pair] ^= 1;
        alternate
    }

    /// Calls `each(pair, bytes)` for the pairs of a mirror on which a read goes on where another one ended.
    pub fn continued_pairs(&self, offset: u64, bytes: u64, mut each: impl FnMut(usize, u64)) {
        let mut of_pair = |pair: usize, at: u64, n: u64| {
            if self.last_end[2 * pair..2 * pair + 2].contains(&at) {
                each(pair, n);
            }
        };
        match self.level {
            Level::Raid10 => self.each_unit(offset, bytes, |_, row, p, unit| {
                of_pair(p.data as usize, row * unit + p.from, p.to - p.from);
            }),
            _ => of_pair(0, offset, bytes),
        }
    }

    /// Whether a member gets no commands at all.
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
            Level::Raid1 => found = on(0, offset, bytes) || on(1, offset, bytes),
            _ => self.each_unit(offset, bytes, |array, row, p, unit| {
                let (at, n) = (row * unit + p.from, p.to - p.from);
                found |= match array.level {
                    Level::Raid10 => on(2 * p.data as usize, at, n) || on(2 * p.data as usize + 1, at, n),
                    _ => on(array.data_member(row, p.data), at, n),
                };
            }),
        }
        found
    }

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
            Level::Raid1 | Level::Raid10 => self.unreadable.chunks(2).all(|pair| pair.iter().any(|u| !u)),
            Level::Raid5 | Level::Raid6 => gone <= self.parity_count(),
        }
    }

    /// A record that regions are being written: in the middle of each member, nearest to everything.
    pub fn record(&self, out: &mut Operations) {
        let at = self.member_bytes / 2 / RECORD_BYTES * RECORD_BYTES;
        (0..self.members as usize).filter(|m| !self.absent[*m]).for_each(|m| out.push(m, true, at, RECORD_BYTES));
    }

    /// A chunk of a rebuild: everything that is left of the row is read, the member that comes back is written.
    pub fn rebuild(&self, member: usize, at: u64, bytes: u64, out: &mut Operations) {
        let sources = if self.is_mirror() { member ^ 1..(member ^ 1) + 1 } else { 0..self.members as usize };
        sources.filter(|m| *m != member && !self.unreadable[*m]).for_each(|m| out.push(m, false, at, bytes));
        out.push(member, true, at, bytes);
    }

    /// A chunk of the first computation of redundancy.
    pub fn initialize(&self, at: u64, bytes: u64, out: &mut Operations) {
        if self.is_mirror() {
            for pair in 0..self.data_members() as usize {
                out.push(2 * pair, false, at, bytes);
                out.push(2 * pair + 1, true, at, bytes);
            }
            return;
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
