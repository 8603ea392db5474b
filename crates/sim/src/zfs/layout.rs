//! Where ZFS puts blocks on disks: mirrors, raidz and dRAID, in the sectors of the pool.
//!
//! A raidz block of D sectors takes P parity sectors for each row of (columns − P) data sectors, and is padded to a multiple
//! of P + 1, so that what is freed can always be used again (OpenZFS, module/zfs/vdev_raidz.c, vdev_raidz_psize_to_asize;
//! Ahrens, "ZFS RAIDZ stripe width", 2014). A dRAID has groups of fixed width, each block fills whole rows of its group;
//! groups lie in rows of 16 MiB a disk, and each slice of rows has another permutation of disks (vdev_draid.c). The
//! permutations are our own, shuffled from a seed and turned by one disk a slice as OpenZFS's are.
//!
//! Capacity: labels and boot area of each disk, whole metaslabs, one of them for the log, and slop (vdev_label.c,
//! vdev_metaslab_set_size, spa_get_slop_space).

use engine::rng::Rng;

use crate::brick::{Brick, Level, ZfsParameters};

/// Two labels and the boot area before the data of a disk, two labels after them.
pub const FRONT_BYTES: u64 = 4 << 20;
pub const BACK_BYTES: u64 = 512 << 10;
const LABEL_BYTES: u64 = 256 << 10;
/// A row of a dRAID, and what it keeps for its expansion (vdev_draid.h).
const ROW_BYTES: u64 = 16 << 20;
const DRAID_RESERVE_BYTES: u64 = 2 * ROW_BYTES;
/// OpenZFS's default of data disks a group.
const DRAID_DATA: u64 = 8;
/// Permutations that are shuffled; each is turned once for each disk.
const MAPS: u64 = 64;
/// Slop never exceeds this (spa_max_slop).
const MOST_SLOP_BYTES: u64 = 128 << 30;
/// A vdev with no more metaslabs than this gives none to the log (zfs_embedded_slog_min_ms).
const LOG_METASLABS: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mirror,
    Raidz,
    Draid,
}

/// A part of a block on one disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub member: u32,
    pub offset_bytes: u64,
    pub bytes: u64,
    pub parity: bool,
    /// Of a dRAID: the permutation, which says where the spares are.
    pub slice: u64,
}

#[derive(Debug)]
struct Draid {
    disks: u64,
    group_width: u64,
    groups_a_slice: u64,
    rows_a_slice: u64,
    maps: Vec<Vec<u32>>,
}

#[derive(Debug)]
pub struct Layout {
    kind: Kind,
    pub vdevs: u64,
    /// Disks of a vdev.
    pub width: u64,
    pub parity: u64,
    pub record_bytes: u64,
    sector_bytes: u64,
    member_bytes: u64,
    /// Of a vdev: all that can be allocated, the log at its beginning, and places of records behind.
    vdev_bytes: u64,
    pub log_bytes: u64,
    slots: u64,
    /// Places on a vdev before the next one has its turn.
    turn: u64,
    slop_records: u64,
    draid: Option<Draid>,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Data disks of a dRAID's groups.
pub fn draid_data(width: u64, parity: u64, spares: u64, asked: u64) -> u64 {
    if asked > 0 { asked } else { DRAID_DATA.min(width.saturating_sub(parity + spares)) }
}

/// Metaslabs' size: some 200 of them, from 16 MiB on up to 16 GiB.
fn metaslab_bytes(vdev_bytes: u64) -> u64 {
    let bits = |n: u64| u64::from(64 - n.leading_zeros());
    let shift = match vdev_bytes >> 29 {
        0..16 => bits(vdev_bytes / 16).max(24),
        16..=200 => 29,
        _ => bits(vdev_bytes / 200).min(34),
    };
    1 << shift
}

impl Layout {
    pub fn new(brick: &Brick, zfs: &ZfsParameters, member_bytes: u64) -> Result<Layout, String> {
        let members = u64::from(brick.members);
        let of_mirrors = if brick.level == Level::Zmirror { members / 2 } else { 1 };
        let vdevs = if brick.vdevs > 0 { u64::from(brick.vdevs) } else { of_mirrors };
        let (width, parity) = (members / vdevs, brick.level.zfs_parity());
        let sector_bytes = 1 << zfs.ashift;
        let kind = match brick.level {
            Level::Zmirror => Kind::Mirror,
            level if level.is_draid() => Kind::Draid,
            _ => Kind::Raidz,
        };
        let spares = u64::from(brick.draid_spares);
        let draid = (kind == Kind::Draid).then(|| {
            let disks = width - spares;
            let group_width = parity + draid_data(width, parity, spares, brick.draid_data.into());
            let whole = disks / gcd(disks, group_width) * group_width;
            let map = |seed: u64| {
                let mut rng = Rng::from_words(&[width, seed]);
                let mut map: Vec<u32> = (0..width as u32).collect();
                (1..map.len()).rev().for_each(|n| map.swap(n, rng.below(n as u64 + 1) as usize));
                map
            };
            Draid {
                disks,
                group_width,
                groups_a_slice: whole / group_width,
                rows_a_slice: whole / disks,
                maps: (0..MAPS).map(map).collect(),
            }
        });
        let mut layout = Layout {
            kind,
            vdevs,
            width,
            parity,
            record_bytes: zfs.recordsize.0,
            sector_bytes,
            member_bytes,
            vdev_bytes: 0,
            log_bytes: 0,
            slots: 0,
            turn: 1,
            slop_records: 0,
            draid,
        };
        layout.measure(zfs);
        if layout.slots == 0 {
            return Err(format!("sim:{}: its members are too small for ZFS's labels and metaslabs", brick.name));
        }
        Ok(layout)
    }

    fn measure(&mut self, zfs: &ZfsParameters) {
        let own = self.member_bytes.saturating_sub(FRONT_BYTES + BACK_BYTES) / self.sector_bytes * self.sector_bytes;
        let raw = match &self.draid {
            Some(draid) => {
                let rows = own.saturating_sub(DRAID_RESERVE_BYTES) / ROW_BYTES;
                rows * draid.disks / draid.group_width * self.group_bytes()
            }
            None if self.kind == Kind::Mirror => own,
            None => own * self.width,
        };
        let metaslab = metaslab_bytes(raw);
        self.vdev_bytes = raw / metaslab * metaslab;
        let for_log = if raw / metaslab > LOG_METASLABS { metaslab } else { raw / LOG_METASLABS };
        let unit = if self.draid.is_some() { self.group_bytes() } else { self.asize(self.record_bytes) };
        self.log_bytes = for_log.div_ceil(unit) * unit;
        let left = self.vdev_bytes.saturating_sub(self.log_bytes);
        let slots = match &self.draid {
            Some(_) => left / self.group_bytes() * self.group_slots(),
            None => left / self.asize(self.record_bytes),
        };
        let data = match &self.draid {
            Some(draid) => draid.disks * (draid.group_width - self.parity) / draid.group_width,
            None if self.kind == Kind::Mirror => 1,
            None => self.width - self.parity,
        };
        self.turn = (zfs.metaslab_aliquot.0 * data.max(1) / self.record_bytes).max(1);
        // Few places are one turn each, so that small pools keep their capacity.
        self.turn = self.turn.min((slots / 64).max(1));
        self.slots = slots / self.turn * self.turn;
        let space = self.places() * self.record_bytes;
        let slop = (space >> zfs.spa_slop_shift).min(MOST_SLOP_BYTES);
        // Data that the space of the log would hold.
        let log = self.log_bytes / self.asize(self.record_bytes) * self.record_bytes * self.vdevs;
        self.slop_records = (slop - log.min(slop / 2)).div_ceil(self.record_bytes);
    }

    /// Places of records, over all vdevs.
    pub fn places(&self) -> u64 {
        self.slots * self.vdevs
    }

    /// Data that the pool takes: what `zfs list` calls available while it is empty.
    pub fn usable_bytes(&self) -> u64 {
        self.places().saturating_sub(self.slop_records) * self.record_bytes
    }

    /// Space that a block of so many bytes takes: data, parity and padding.
    pub fn asize(&self, psize: u64) -> u64 {
        let sectors = psize.div_ceil(self.sector_bytes);
        let taken = match (self.kind, &self.draid) {
            (_, Some(draid)) => sectors.div_ceil(draid.group_width - self.parity) * draid.group_width,
            (Kind::Mirror, _) => sectors,
            _ => (sectors + self.parity * sectors.div_ceil(self.width - self.parity)).next_multiple_of(self.parity + 1),
        };
        taken * self.sector_bytes
    }

    fn group_bytes(&self) -> u64 {
        self.draid.as_ref().map_or(0, |d| d.group_width * ROW_BYTES)
    }

    /// Data disks of a block's stripe.
    pub fn group_data(&self) -> u64 {
        self.draid.as_ref().map_or(self.width, |d| d.group_width) - self.parity
    }

    /// Records in a group of a dRAID. (OpenZFS lets one lie across two groups; here the rest of a group stays free.)
    fn group_slots(&self) -> u64 {
        self.group_bytes() / self.asize(self.record_bytes)
    }

    /// Vdev and offset of a place. Vdevs take turns.
    pub fn place(&self, number: u64) -> (u64, u64) {
        let turn = number / self.turn;
        let slot = turn / self.vdevs * self.turn + number % self.turn;
        (turn % self.vdevs, self.slot_offset(slot))
    }

    fn slot_offset(&self, slot: u64) -> u64 {
        let asize = self.asize(self.record_bytes);
        let within = match &self.draid {
            Some(_) => slot / self.group_slots() * self.group_bytes() + slot % self.group_slots() * asize,
            None => slot * asize,
        };
        self.log_bytes + within
    }

    /// Where a block of the log goes that would begin at this offset of a vdev's log.
    pub fn log_offset(&self, at: u64, asize: u64) -> u64 {
        let group = self.group_bytes();
        let fits = group == 0 || at / group == (at + asize - 1) / group;
        let at = if fits { at } else { at.next_multiple_of(group) };
        if at + asize > self.log_bytes { 0 } else { at }
    }

    /// The first member of a vdev.
    fn first(&self, vdev: u64) -> u32 {
        (vdev * self.width) as u32
    }

    /// The data and parity of a block on its disks, without padding. Of a mirror all copies.
    pub fn columns(&self, vdev: u64, offset: u64, psize: u64, out: &mut Vec<Column>) {
        out.clear();
        let sectors = psize.div_ceil(self.sector_bytes);
        match self.kind {
            Kind::Mirror => out.extend((0..self.width).map(|m| Column {
                member: self.first(vdev) + m as u32,
                offset_bytes: FRONT_BYTES + offset,
                bytes: sectors * self.sector_bytes,
                parity: false,
                slice: 0,
            })),
            Kind::Raidz => self.raidz_columns(vdev, offset, sectors, out),
            Kind::Draid => {
                let data = self.draid.as_ref().map_or(1, |d| d.group_width) - self.parity;
                let (whole, rest) = (sectors / data, sectors % data);
                let rows = sectors.div_ceil(data);
                self.each_of_group(vdev, offset, |number, column| {
                    let parity = number < self.parity;
                    let own = if parity { rows } else { whole + u64::from(number - self.parity < rest) };
                    let bytes = own * self.sector_bytes;
                    out.extend((bytes > 0).then_some(Column { bytes, parity, ..column }));
                });
            }
        }
    }

    fn raidz_columns(&self, vdev: u64, offset: u64, sectors: u64, out: &mut Vec<Column>) {
        let first_sector = offset / self.sector_bytes;
        let data = self.width - self.parity;
        let (whole, rest) = (sectors / data, sectors % data);
        let big = if rest == 0 { 0 } else { rest + self.parity };
        let used = if whole == 0 { big } else { self.width };
        for number in 0..used {
            let at = first_sector % self.width + number;
            let row = first_sector / self.width + at / self.width;
            out.push(Column {
                member: self.first(vdev) + (at % self.width) as u32,
                offset_bytes: FRONT_BYTES + row * self.sector_bytes,
                bytes: (whole + u64::from(number < big)) * self.sector_bytes,
                parity: number < self.parity,
                slice: 0,
            });
        }
        // Single parity changes its disk every MiB.
        if self.parity == 1 && offset & 1 << 20 != 0 && out.len() > 1 {
            let (one, other) = (out[0], out[1]);
            out[0] = Column { member: other.member, offset_bytes: other.offset_bytes, ..one };
            out[1] = Column { member: one.member, offset_bytes: one.offset_bytes, ..other };
        }
    }

    /// Calls `each(number, column)` for the columns of the group that has an offset of a dRAID; parity comes first.
    fn each_of_group(&self, vdev: u64, offset: u64, mut each: impl FnMut(u64, Column)) {
        let Some(draid) = &self.draid else { return };
        let group_bytes = self.group_bytes();
        let (group, within) = (offset / group_bytes, offset % group_bytes / draid.group_width);
        let (slice, group) = (group / draid.groups_a_slice, group % draid.groups_a_slice);
        for number in 0..draid.group_width {
            let index = group * draid.group_width + number;
            let row = slice * draid.rows_a_slice + index / draid.disks;
            each(
                number,
                Column {
                    member: self.first(vdev) + self.child(slice, index % draid.disks),
                    offset_bytes: FRONT_BYTES + row * ROW_BYTES + within,
                    bytes: 0,
                    parity: number < self.parity,
                    slice,
                },
            );
        }
    }

    /// The disk at a position of a slice.
    fn child(&self, slice: u64, position: u64) -> u32 {
        let Some(draid) = &self.draid else { return position as u32 };
        let map = &draid.maps[(slice / self.width % MAPS) as usize];
        ((u64::from(map[position as usize]) + slice % self.width) % self.width) as u32
    }

    /// The disk on which a distributed spare lies in a slice.
    pub fn spare_member(&self, vdev: u64, slice: u64, spare: u64) -> u32 {
        let disks = self.draid.as_ref().map_or(0, |d| d.disks);
        self.first(vdev) + self.child(slice, disks + spare)
    }

    /// All that a run of so much space has on its disks: data, parity and padding, one piece a disk.
    pub fn range(&self, vdev: u64, offset: u64, asize: u64, mut each: impl FnMut(Column)) {
        match self.kind {
            Kind::Mirror => (0..self.width).for_each(|m| {
                let member = self.first(vdev) + m as u32;
                each(Column { member, offset_bytes: FRONT_BYTES + offset, bytes: asize, parity: false, slice: 0 });
            }),
            Kind::Raidz => {
                let (from, to) = (offset / self.sector_bytes, (offset + asize) / self.sector_bytes);
                for m in 0..self.width {
                    // Rows before a sector in which this disk has one.
                    let rows = |sector: u64| (sector + self.width - 1 - m) / self.width;
                    let (first, last) = (rows(from), rows(to));
                    if first < last {
                        each(Column {
                            member: self.first(vdev) + m as u32,
                            offset_bytes: FRONT_BYTES + first * self.sector_bytes,
                            bytes: (last - first) * self.sector_bytes,
                            parity: false,
                            slice: 0,
                        });
                    }
                }
            }
            Kind::Draid => {
                let bytes = asize / self.draid.as_ref().map_or(1, |d| d.group_width);
                self.each_of_group(vdev, offset, |_, column| each(Column { bytes, ..column }));
            }
        }
    }

    /// Runs of space of consecutive places from one on: `each(vdev, offset, asize, places)`, none longer than so many
    /// bytes of a disk.
    pub fn runs(&self, from: u64, count: u64, most_bytes: u64, mut each: impl FnMut(u64, u64, u64, u64)) {
        let asize = self.asize(self.record_bytes);
        let disks = match (&self.draid, self.kind) {
            (Some(draid), _) => draid.group_width,
            (_, Kind::Mirror) => 1,
            _ => self.width,
        };
        let most = (most_bytes * disks / asize).max(1);
        // Of each vdev the slots that it has of these places.
        for vdev in 0..self.vdevs {
            let before = |number: u64| {
                let (whole, rest) = (number / (self.turn * self.vdevs), number % (self.turn * self.vdevs));
                whole * self.turn + rest.saturating_sub(vdev * self.turn).min(self.turn)
            };
            let (mut slot, end) = (before(from), before(from + count));
            while slot < end {
                let mut to = end.min(slot + most);
                if self.draid.is_some() {
                    to = to.min((slot / self.group_slots() + 1) * self.group_slots());
                }
                each(vdev, self.slot_offset(slot), (to - slot) * asize, to - slot);
                slot = to;
            }
        }
    }

    /// Bytes of each disk that hold the log and the first so many places: what a resilver and a scrub go through.
    pub fn member_used_bytes(&self, places: u64) -> u64 {
        let slots = places.div_ceil(self.vdevs);
        let used = self.slot_offset(slots).min(self.vdev_bytes);
        match (&self.draid, self.kind) {
            (Some(draid), _) => {
                let rows = used.div_ceil(self.group_bytes()) * draid.group_width;
                rows.div_ceil(draid.disks) * ROW_BYTES
            }
            (_, Kind::Mirror) => used,
            _ => (used / self.width).next_multiple_of(self.sector_bytes),
        }
    }

    /// The vdev of a member, and its disks.
    pub fn peers(&self, member: u32) -> std::ops::Range<u32> {
        let first = member / self.width as u32 * self.width as u32;
        first..first + self.width as u32
    }

    /// The other columns of the group that a piece of a dRAID's disk belongs to, and its slice; none where the piece is of
    /// a distributed spare.
    pub fn group_beside(&self, member: u32, at: u64, bytes: u64, out: &mut Vec<Column>) -> Option<u64> {
        out.clear();
        let draid = self.draid.as_ref()?;
        let vdev = u64::from(member) / self.width;
        let row = at / ROW_BYTES;
        let slice = row / draid.rows_a_slice;
        let own = member - self.first(vdev);
        let position = (0..draid.disks).find(|p| self.child(slice, *p) == own)?;
        let index = row % draid.rows_a_slice * draid.disks + position;
        let offset = (slice * draid.groups_a_slice + index / draid.group_width) * self.group_bytes();
        self.each_of_group(vdev, offset, |_, column| {
            if column.member != member {
                out.push(Column { offset_bytes: column.offset_bytes + at % ROW_BYTES, bytes, ..column });
            }
        });
        Some(slice)
    }

    pub fn is_mirror(&self) -> bool {
        self.kind == Kind::Mirror
    }

    pub fn is_draid(&self) -> bool {
        self.kind == Kind::Draid
    }

    /// A piece of a disk's used space lies in one row at most where rows matter.
    pub fn piece_bytes(&self, at: u64, bytes: u64) -> u64 {
        if self.is_draid() { bytes.min(ROW_BYTES - at % ROW_BYTES) } else { bytes }
    }

    /// The four labels of each disk, where the pool's root is written.
    pub fn labels(&self) -> [u64; 4] {
        [0, LABEL_BYTES, self.member_bytes - 2 * LABEL_BYTES, self.member_bytes - LABEL_BYTES]
    }

    pub fn sector_bytes(&self) -> u64 {
        self.sector_bytes
    }
}
