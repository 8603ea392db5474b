//! Verification of what is read back: bit damage, torn, misplaced, stale and unwritten blocks, told apart and named.
//!
//! Duty: stamp what is written, follow every write of a region from begin to end, and judge what is read by what the
//! storage was allowed to return. Refusal: it never reports damage that may be none; where it cannot know, it counts
//! the block as unchecked.
//!
//! One [`Verifier`] stands for one region of one target and is shared by all that read or write there. Its blocks are as
//! large as the stream's alignment, so a request covers whole blocks.
//!
//! What a read may find, and what therefore stays hidden:
//! - A block never written in this run and not named by [`Verifier::mark_filled`] may hold anything.
//! - While writes of a block are in flight it may hold what it held before, any of their generations, or a mixture.
//!   After overlapping writes ended it may hold any of them, or a mixture, until a write of it that overlaps no other
//!   has succeeded: a lost write among them, or damaged bits in that time, stay hidden.
//! - After a failed write it may hold old, new or a mixture, until the next such success. Of a short write this is
//!   said of the blocks that it did not reach.
//! - A block that moved from another place is damage in all of these cases, where it arrived whole.
//! - With [`MapChoice::Passes`] a block may hold the last complete pass or any that began since: a write lost in a pass
//!   is found once the pass is complete, and not if the block is not read between that and the end of the next pass.
//! - A damaged block passes with the probability of a CRC-32C, 2^-32.

mod expect;
#[cfg(test)]
mod kept_tests;
mod map_file;
mod map_table;
mod pass_table;
mod stamp;
#[cfg(test)]
mod tests;

use expect::{Blocks, Expectation};
use map_file::{Identity, MapFile};
use plan::format_bytes;
use record::event::DamageDump;
use stamp::{Format, SECTOR_BYTES, Stamp};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How the generations of a region's blocks are remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapChoice {
    /// For permutations and single passes: the generation is the number of the pass, and memory is bounded by what is
    /// in flight. The caller promises that the writes of one pass, over all streams of the region, touch each block
    /// once, that the region is exactly what a pass covers, and that pass numbers of one verifier are never used again
    /// (a later phase goes on counting). A target filled with generation 0 starts at pass 1.
    Passes,
    /// For all else: a file of 4 bytes a block, without a name, in `directory`; the kernel keeps of it in memory what
    /// is used.
    Map { directory: PathBuf, limit_bytes: u64 },
    /// As `Map`, in a file that stays, so that a later run goes on to check what this one wrote.
    Kept { path: PathBuf, limit_bytes: u64 },
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    Done,
    Failed,
    /// Only so many bytes were written.
    Short(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DamageKind {
    /// The block that was expected, with bits changed.
    Bits,
    /// Sectors of different writes.
    Torn,
    /// A block that was written elsewhere.
    Misplaced,
    /// An older generation of this block: a write was lost.
    Stale,
    /// No stamp of this run: zeros or foreign data.
    Unwritten,
}

/// One damaged block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub kind: DamageKind,
    pub offset_bytes: u64,
    /// The oldest generation that would have been right.
    pub expected_generation: u64,
    pub found_generation: Option<u64>,
    pub found_offset_bytes: Option<u64>,
    /// One line for people.
    pub text: String,
    pub dump: DamageDump,
}

/// How many blocks were read, by what could be said of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifyCounts {
    /// Had an expectation and were held against it; the damaged ones are among them.
    pub checked_blocks: u64,
    /// Had none, or held what a write in flight, an overlap or a failure may have left.
    pub unchecked_blocks: u64,
    pub damaged_blocks: u64,
    /// Of a map that is kept, over all sessions.
    pub covered: Option<Covered>,
}

/// How much of a region was checked at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Covered {
    pub blocks: u64,
    /// Each counts once, however often it was checked.
    pub checked_once_blocks: u64,
}

/// What was expected when a read began. To be handed back when it ended.
#[derive(Debug)]
pub struct ReadTicket {
    offset_bytes: u64,
    tick: u64,
    /// Of the first block; those of further blocks are in `further`, so that a one-block read needs no memory.
    first: Option<Expectation>,
    further: Vec<Option<Expectation>>,
}

#[derive(Debug)]
pub struct Verifier {
    start_bytes: u64,
    blocks: u64,
    format: Format,
    state: Mutex<State>,
    checked_blocks: AtomicU64,
    unchecked_blocks: AtomicU64,
    damaged_blocks: AtomicU64,
    /// Whether it is remembered which blocks were checked: where the map is kept.
    is_kept: bool,
}

#[derive(Debug)]
struct State {
    blocks: Blocks,
    /// Emptied vectors of tickets, for the next ones.
    spare: Vec<Vec<Option<Expectation>>>,
}

impl Verifier {
    /// `region` is (start, length) on the target; whole blocks of it are verified. `run_id` tells this run's stamps
    /// from those of any other and must not repeat; `seed` makes the data.
    pub fn new(
        region: (u64, u64),
        block_bytes: u64,
        run_id: u64,
        seed: u64,
        map: MapChoice,
    ) -> Result<Verifier, String> {
        let (start_bytes, length_bytes) = region;
        if block_bytes < SECTOR_BYTES as u64 || !block_bytes.is_multiple_of(SECTOR_BYTES as u64) {
            return Err(format!(
                "verify needs blocks of whole 512-byte sectors, not of {block_bytes} bytes; set align to a multiple of 512"
            ));
        }
        if !start_bytes.is_multiple_of(SECTOR_BYTES as u64) || start_bytes.checked_add(length_bytes).is_none() {
            return Err(format!(
                "verify needs a region that starts at a whole 512-byte sector, not at {start_bytes}; move its start"
            ));
        }
        let blocks = length_bytes / block_bytes;
        let mut identity = Identity { run_id, start_bytes, block_bytes, seed };
        let is_kept = matches!(map, MapChoice::Kept { .. });
        let table = match map {
            MapChoice::Passes => Blocks::with_passes(blocks),
            MapChoice::Map { directory, limit_bytes } => {
                Blocks::with_map(map_file(&directory, limit_bytes, blocks, |blocks| MapFile::new(&directory, blocks))?)
            }
            MapChoice::Kept { path, limit_bytes } => {
                let kept = |blocks| MapFile::kept(&path, blocks, identity);
                let (file, whose) = map_file(&path, limit_bytes, blocks, kept)?;
                identity = whose;
                Blocks::with_map(file)
            }
        };
        let format = Format::new(identity.run_id, block_bytes as usize, seed);
        let state = Mutex::new(State { blocks: table, spare: Vec::new() });
        let (checked_blocks, unchecked_blocks, damaged_blocks) = Default::default();
        Ok(Verifier { start_bytes, blocks, format, state, checked_blocks, unchecked_blocks, damaged_blocks, is_kept })
    }

    /// Fills and stamps a buffer with a generation that the caller chose, for the preparation of a target; once it is
    /// written, [`Verifier::mark_filled`] tells so.
    pub fn stamp_filled(&self, offset_bytes: u64, generation: u64, buffer: &mut [u8]) {
        self.format.write(buffer, offset_bytes, generation);
    }

    /// The blocks of this range hold `generation`, as [`Verifier::stamp_filled`] made it. Speaks only of blocks that
    /// were not written through [`Verifier::begin_write`].
    pub fn mark_filled(&self, offset_bytes: u64, length_bytes: u64, generation: u64) {
        let (from, to) = self.block_range(offset_bytes, length_bytes);
        self.lock().blocks.mark_filled(from, to, generation);
    }

    /// A write that prepares the target is about to be issued: the blocks of the region that lie whole within `buffer`
    /// become those of generation 0. Whoever prepares does not go on unless every such write succeeds.
    pub fn prepare(&self, offset_bytes: u64, buffer: &mut [u8]) {
        let block_bytes = self.format.block_bytes as u64;
        let (from, to) = self.block_range(offset_bytes, buffer.len() as u64);
        if from < to {
            let first_bytes = self.start_bytes + from * block_bytes;
            let at = (first_bytes - offset_bytes) as usize;
            self.stamp_filled(first_bytes, 0, &mut buffer[at..at + ((to - from) * block_bytes) as usize]);
            self.mark_filled(first_bytes, (to - from) * block_bytes, 0);
        }
    }

    /// A write is about to be issued: chooses its generation, fills `buffer` and stamps its blocks. `pass` counts only
    /// with [`MapChoice::Passes`].
    pub fn begin_write(&self, offset_bytes: u64, pass: u64, buffer: &mut [u8]) {
        let (from, to) = self.block_range(offset_bytes, buffer.len() as u64);
        let generation = {
            let blocks = &mut self.lock().blocks;
            let generation = blocks.next_generation(pass);
            (from..to).for_each(|block| blocks.begin_write(block, generation));
            generation
        };
        self.format.write(buffer, offset_bytes, generation);
    }

    /// The write ended.
    pub fn end_write(&self, offset_bytes: u64, request_bytes: u64, outcome: WriteOutcome) {
        let (from, to) = self.block_range(offset_bytes, request_bytes);
        let written_to = match outcome {
            WriteOutcome::Done => to,
            WriteOutcome::Failed => from,
            WriteOutcome::Short(bytes) => self.block_range(offset_bytes, bytes.min(request_bytes)).1,
        };
        let blocks = &mut self.lock().blocks;
        (from..to).for_each(|block| blocks.end_write(block, block < written_to));
    }

    /// A read is about to be issued.
    pub fn begin_read(&self, offset_bytes: u64, request_bytes: u64) -> ReadTicket {
        let (from, to) = self.block_range(offset_bytes, request_bytes);
        let state = &mut *self.lock();
        let first = if from < to { state.blocks.expectation(from) } else { None };
        let mut further = Vec::new();
        if to.saturating_sub(from) > 1 {
            further = state.spare.pop().unwrap_or_default();
            further.extend((from + 1..to).map(|block| state.blocks.expectation(block)));
        }
        ReadTicket { offset_bytes, tick: state.blocks.tick(), first, further }
    }

    /// The read ended with all of its bytes in `buffer` (of a short read: those that came). Damage is added to `found`.
    /// Of a failed read the ticket is just dropped.
    pub fn end_read(&self, mut ticket: ReadTicket, buffer: &[u8], found: &mut Vec<Damage>) {
        let (from, to) = self.block_range(ticket.offset_bytes, buffer.len() as u64);
        self.close_ticket(&mut ticket, from, to);
        let block_bytes = self.format.block_bytes;
        let at = (from * block_bytes as u64 + self.start_bytes).saturating_sub(ticket.offset_bytes) as usize;
        let (mut checked, mut damaged) = (0, 0);
        let expectations = std::iter::once(&ticket.first).chain(&ticket.further);
        let mut offset_bytes = ticket.offset_bytes + at as u64;
        for (block, expectation) in buffer[at.min(buffer.len())..].chunks_exact(block_bytes).zip(expectations) {
            match expectation.map(|expected| self.judge(block, offset_bytes, expected)) {
                Some(Judgement::Right) => checked += 1,
                Some(Judgement::Unknown) | None => {
                    offset_bytes += block_bytes as u64;
                    continue;
                }
                Some(Judgement::Damaged(damage)) => {
                    (checked, damaged) = (checked + 1, damaged + 1);
                    found.push(damage);
                }
            }
            if self.is_kept {
                self.lock().blocks.check((offset_bytes - self.start_bytes) / block_bytes as u64);
            }
            offset_bytes += block_bytes as u64;
        }
        self.count(to.saturating_sub(from), checked, damaged);
        if ticket.further.capacity() > 0 {
            ticket.further.clear();
            self.lock().spare.push(ticket.further);
        }
    }

    pub fn counts(&self) -> VerifyCounts {
        VerifyCounts {
            checked_blocks: self.checked_blocks.load(Ordering::Relaxed),
            unchecked_blocks: self.unchecked_blocks.load(Ordering::Relaxed),
            damaged_blocks: self.damaged_blocks.load(Ordering::Relaxed),
            covered: self
                .is_kept
                .then(|| Covered { blocks: self.blocks, checked_once_blocks: self.lock().blocks.checked_once() }),
        }
    }

    /// Widens what was expected when the read began by what may have been written until now.
    #[inline]
    fn close_ticket(&self, ticket: &mut ReadTicket, from: u64, to: u64) {
        let state = self.lock();
        let expectations = std::iter::once(&mut ticket.first).chain(&mut ticket.further);
        for (block, expectation) in (from..to).zip(expectations) {
            let Some(begin) = *expectation else { continue };
            *expectation = state.blocks.expectation(block).map(|end| {
                let written = state.blocks.written_since(block, ticket.tick, begin, end);
                begin.until(end, written)
            });
        }
    }

    #[inline]
    fn judge(&self, block: &[u8], offset_bytes: u64, expected: Expectation) -> Judgement {
        match self.format.intact(block) {
            Some(stamp) if stamp.run_id == self.format.run_id => {
                if stamp.offset_bytes == offset_bytes && expected.allows(stamp.generation) {
                    return Judgement::Right;
                }
                let dump = self.format.dump(block, offset_bytes, expected.newest);
                Judgement::Damaged(wrong_stamp(offset_bytes, expected, stamp, dump))
            }
            // Before a block's first success in this run it may hold whatever was there, and a mixture of that.
            _ if expected.mixture => Judgement::Unknown,
            _ => Judgement::Damaged(self.broken(block, offset_bytes, expected)),
        }
    }

    #[cold]
    fn broken(&self, block: &[u8], offset_bytes: u64, expected: Expectation) -> Damage {
        let finding = self.format.diagnose(block, offset_bytes, expected.oldest, expected.newest);
        let found = (finding.found_generation, finding.found_offset_bytes);
        let dump = self.format.dump(block, offset_bytes, expected.newest);
        damage(finding.kind, offset_bytes, expected, found, &finding.text, dump)
    }

    fn count(&self, blocks: u64, checked: u64, damaged: u64) {
        let add = |counter: &AtomicU64, blocks| {
            if blocks > 0 {
                counter.fetch_add(blocks, Ordering::Relaxed);
            }
        };
        add(&self.checked_blocks, checked);
        add(&self.unchecked_blocks, blocks.saturating_sub(checked));
        add(&self.damaged_blocks, damaged);
    }

    /// Numbers of the whole blocks of the region inside these bytes.
    #[inline]
    fn block_range(&self, offset_bytes: u64, length_bytes: u64) -> (u64, u64) {
        let block_bytes = self.format.block_bytes as u64;
        let end_bytes = offset_bytes.saturating_add(length_bytes).saturating_sub(self.start_bytes);
        let from = offset_bytes.saturating_sub(self.start_bytes).div_ceil(block_bytes);
        let to = (end_bytes / block_bytes).min(self.blocks);
        (from.min(to), to)
    }

    /// A panic elsewhere leaves no half-made state worth stopping for: each call is complete or was not begun.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Judgement {
    Right,
    Unknown,
    Damaged(Damage),
}

#[cold]
fn wrong_stamp(offset_bytes: u64, expected: Expectation, stamp: Stamp, dump: DamageDump) -> Damage {
    let found = (Some(stamp.generation), (stamp.offset_bytes != offset_bytes).then_some(stamp.offset_bytes));
    if stamp.offset_bytes != offset_bytes {
        let text = format!("holds the block of offset {}, generation {}", stamp.offset_bytes, stamp.generation);
        return damage(DamageKind::Misplaced, offset_bytes, expected, found, &text, dump);
    }
    let text = if stamp.generation < expected.oldest {
        format!("holds generation {}, a later write was lost", stamp.generation)
    } else {
        format!("holds generation {}, which this run did not write there", stamp.generation)
    };
    damage(DamageKind::Stale, offset_bytes, expected, found, &text, dump)
}

fn damage(
    kind: DamageKind,
    offset_bytes: u64,
    expected: Expectation,
    found: (Option<u64>, Option<u64>),
    what: &str,
    dump: DamageDump,
) -> Damage {
    let name = match kind {
        DamageKind::Bits => "bit damage",
        DamageKind::Torn => "torn block",
        DamageKind::Misplaced => "misplaced block",
        DamageKind::Stale => "stale block",
        DamageKind::Unwritten => "unwritten block",
    };
    let wanted = if expected.oldest == expected.newest {
        format!("generation {}", expected.oldest)
    } else {
        format!("generation {} to {}", expected.oldest, expected.newest)
    };
    let text = format!("{name} at offset {offset_bytes}: {what}; expected {wanted}");
    let (found_generation, found_offset_bytes) = found;
    let expected_generation = expected.oldest;
    Damage { kind, offset_bytes, expected_generation, found_generation, found_offset_bytes, text, dump }
}

fn map_file<T>(
    place: &Path,
    limit_bytes: u64,
    blocks: u64,
    make: impl FnOnce(usize) -> io::Result<T>,
) -> Result<T, String> {
    let needed_bytes = blocks.saturating_mul(4);
    if needed_bytes > limit_bytes {
        return Err(format!(
            "verify needs a map of {} for {blocks} blocks and may use {}; take addresses that are a permutation, a larger \
             align or a smaller region",
            format_bytes(needed_bytes),
            format_bytes(limit_bytes)
        ));
    }
    make(blocks as usize).map_err(|error| {
        format!(
            "verify cannot make its map of {} in {}: {error}; name a directory with space that can be written",
            format_bytes(needed_bytes),
            place.display()
        )
    })
}
