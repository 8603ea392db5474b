//! What flash costs beyond the host's own programs: garbage collection, erases, and where an SLC cache helps.
//!
//! Fresh flash has a write amplification `W` of 1. In steady state random writes have `W = (1 + ρ) / 2ρ` (Agarwal and
//! Marrow, A Closed-Form Expression for Write Amplification in NAND Flash, 2010), `ρ` being flash without valid data as a
//! share of flash with, and sequential ones 1. How much is valid follows from what was written: of a part of the drive
//! with the share `c` written, random writes of `w` of it write `(1 - c)·w` anew. So a drive that only a tenth of is ever
//! written stays fast, and trimmed space is spare space. A drive becomes steady when its spare and unwritten pages are
//! used up.
//!
//! A page that the host's data fill owes its die `W - 1` moves of pages that are in the way, each a read, the way to the
//! controller and back (for error correction) and a program, and `W · erase / pages_per_block`. A debt is not paid page by
//! page, since real drives collect whole blocks: once a die owes one erase time of moves it makes them all, one after the
//! other, and takes no new data before; once it owes one whole erase it makes that. A read waits for the move or the erase
//! that is under way and no longer. So the mean rate is that of `W`, and reads that come behind an erase make the tail.
//! Dies begin with parts of both debts, each with another one, as a drive that has worked before: they take turns.

use super::per_mb;
use crate::brick::SsdParameters;
use crate::member::Command;

/// Parts of the drive whose valid share is known apart.
const PART_BYTES: u64 = 64 << 20;

/// What the program of one page takes, and what its die owes for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    pub program_ns: u64,
    pub moves_ns: u64,
    pub erase_ns: u64,
}

/// What it takes a die to have one of its pages moved.
pub(super) fn move_ns(p: &SsdParameters) -> u64 {
    p.read_time.ns + 2 * per_mb(p.page_bytes.0, p.channel_mb_per_s) + p.program_time.ns
}

#[derive(Debug)]
pub(super) struct Garbage {
    capacity_bytes: u64,
    page_bytes: u64,
    move_ns: u64,
    program_ns: u64,
    slc_program_ns: u64,
    /// An erase's share of each page of the block.
    erase_page_ns: f64,
    fresh_bytes: u64,
    /// Of all the flash.
    flash_bytes: f64,
    /// Share of each part of the drive that holds valid data.
    valid_shares: Vec<f64>,
    valid_bytes: f64,
    slc_bytes: u64,
    slc_free_bytes: u64,
    /// What it takes to move one page out of the SLC cache, with all dies at it.
    slc_page_ns: u64,
    idle_since_ns: u64,
    /// Idle time that has not made up a page yet.
    slc_idle_ns: u64,
}

impl Garbage {
    pub fn new(p: &SsdParameters) -> Garbage {
        let flash_bytes = p.capacity_bytes.0 as f64 * (1.0 + p.over_provision_percent / 100.0);
        let parts = p.capacity_bytes.0.div_ceil(PART_BYTES) as usize;
        let written = if p.steady { 1.0 } else { 0.0 };
        let dies = u64::from(p.channels * p.dies_per_channel);
        Garbage {
            capacity_bytes: p.capacity_bytes.0,
            page_bytes: p.page_bytes.0,
            move_ns: move_ns(p),
            program_ns: p.program_time.ns,
            slc_program_ns: p.slc_program_time.ns,
            erase_page_ns: p.erase_time.ns as f64 / f64::from(p.pages_per_block),
            fresh_bytes: if p.steady { 0 } else { flash_bytes as u64 },
            flash_bytes,
            valid_shares: vec![written; parts],
            valid_bytes: written * p.capacity_bytes.0 as f64,
            slc_bytes: p.slc_cache_bytes.0,
            slc_free_bytes: p.slc_cache_bytes.0,
            slc_page_ns: (move_ns(p) / dies).max(1),
            idle_since_ns: 0,
            slc_idle_ns: 0,
        }
    }

    /// One page with so many bytes of the host's, of which so many were written at random.
    pub fn cost(&mut self, bytes: u64, random_bytes: u64) -> Cost {
        let steady = self.fresh_bytes < bytes;
        self.fresh_bytes = self.fresh_bytes.saturating_sub(bytes);
        let spare = (self.flash_bytes - self.valid_bytes) / self.valid_bytes.max(1.0);
        let amplification = if steady { ((1.0 + spare) / (2.0 * spare)).max(1.0) } else { 1.0 };
        let moved = (amplification - 1.0) * random_bytes as f64 / self.page_bytes as f64;
        let slc = self.slc_free_bytes >= bytes;
        if slc {
            self.slc_free_bytes -= bytes;
        }
        Cost {
            program_ns: if slc { self.slc_program_ns } else { self.program_ns },
            moves_ns: (moved * self.move_ns as f64) as u64,
            erase_ns: if steady { ((1.0 + moved) * self.erase_page_ns) as u64 } else { 0 },
        }
    }

    pub fn slc_held_bytes(&self) -> u64 {
        self.slc_bytes - self.slc_free_bytes
    }

    /// Nothing is programmed from now on.
    pub fn rests(&mut self, now_ns: u64) {
        self.idle_since_ns = now_ns;
    }

    /// Something is programmed from now on; until now the SLC cache emptied itself.
    pub fn works(&mut self, now_ns: u64) {
        self.slc_idle_ns += now_ns - self.idle_since_ns;
        let pages = self.slc_idle_ns / self.slc_page_ns;
        self.slc_idle_ns %= self.slc_page_ns;
        let moved = pages.saturating_mul(self.page_bytes);
        self.slc_free_bytes = self.slc_free_bytes.saturating_add(moved).min(self.slc_bytes);
    }

    pub fn has_data(&self, offset_bytes: u64) -> bool {
        self.valid_shares.get((offset_bytes / PART_BYTES) as usize).is_some_and(|share| *share > 0.0)
    }

    pub fn make_valid(&mut self, offset: u64, bytes: u64, sequential: bool) {
        self.each_part(offset, bytes, |c, w| if sequential { c + w } else { c + (1.0 - c) * w });
    }

    /// Pages without valid data are erased when nobody waits, and are as good as never written.
    pub fn trim(&mut self, command: &Command) {
        let freed = -self.each_part(command.offset_bytes, u64::from(command.bytes), |c, w| c - c * w);
        let free = (self.flash_bytes - self.valid_bytes) as u64;
        self.fresh_bytes = (self.fresh_bytes + freed as u64).min(free);
    }

    /// `each` gets the valid share of each part that the bytes lie in and the share of the part that they are, and gives
    /// the new valid share.
    fn each_part(&mut self, offset: u64, bytes: u64, each: impl Fn(f64, f64) -> f64) -> f64 {
        let (mut at, end) = (offset, (offset + bytes).min(self.capacity_bytes));
        let before = self.valid_bytes;
        while at < end {
            let part = at / PART_BYTES;
            let to = end.min((part + 1) * PART_BYTES);
            let part_bytes = (self.capacity_bytes - part * PART_BYTES).min(PART_BYTES) as f64;
            let share = &mut self.valid_shares[part as usize];
            let after = each(*share, (to - at) as f64 / part_bytes).clamp(0.0, 1.0);
            self.valid_bytes += (after - *share) * part_bytes;
            *share = after;
            at = to;
        }
        self.valid_bytes = self.valid_bytes.clamp(0.0, self.capacity_bytes as f64);
        self.valid_bytes - before
    }
}
