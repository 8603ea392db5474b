//! The block format of verified data: how a block is stamped, and what is wrong with one that is not as it was stamped.
//!
//! Duty: stamp a block, recognize an intact one in the time of its checksum, and take a broken one apart. Refusal: it
//! does not know which generation a block should have; that is [`super::expect`]'s.
//!
//! | bytes of the block | content (little-endian) |
//! |---|---|
//! | 0..4 | CRC-32C of everything after these bytes |
//! | 4..8 | magic |
//! | 8..16 | run |
//! | 16..24 | offset on the target |
//! | 24..32 | generation |
//! | 32..40 | tag of sector 0 |
//! | first 8 of every further 512-byte sector | tag of that sector |
//! | all else | [`Payload`] of (seed and run, offset, generation) |
//!
//! A tag holds the low 24 bits of the generation, the low 16 bits of the sector's index, and a 24-bit check over run,
//! offset, whole generation and index. The check is what tells a sector of another generation (check right) from a
//! damaged tag (check wrong).

use super::DamageKind;
use crate::payload::{Payload, mix};
use plan::Data;
use record::event::DamageDump;
use std::fmt::Write;

pub(super) const SECTOR_BYTES: usize = 512;
/// Of a dump: as many as fit beside their name in a line of 80 columns.
const DUMP_BYTES: usize = 32;
const MAGIC: u32 = u32::from_le_bytes(*b"BrkV");
const TAG_AT_FIRST: usize = 32;
const TAG_GENERATION_BITS: u32 = 24;
const TAG_GENERATION_MASK: u64 = (1 << TAG_GENERATION_BITS) - 1;
/// A sector without a valid tag is the expected one with damaged bits, rather than another's, if at most a quarter of
/// its bits differ: unrelated data differ in half of them, give or take 32 of 4096.
const DAMAGED_BITS_MOST: u32 = SECTOR_BYTES as u32 * 8 / 4;

#[derive(Debug)]
pub(super) struct Format {
    pub run_id: u64,
    pub block_bytes: usize,
    payload: Payload,
}

/// What an intact block says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub run_id: u64,
    pub offset_bytes: u64,
    pub generation: u64,
}

/// What a block that is not intact turned out to be.
#[derive(Debug)]
pub(super) struct Finding {
    pub kind: DamageKind,
    pub found_generation: Option<u64>,
    pub found_offset_bytes: Option<u64>,
    pub text: String,
}

impl Format {
    pub fn new(run_id: u64, block_bytes: usize, seed: u64) -> Format {
        // Shares of compressible or duplicate data contradict stamps, and profiles that ask for both are refused. Two
        // runs of one seed have different data, so that what the earlier left is not taken for damaged data of this.
        Format { run_id, block_bytes, payload: Payload::new(seed ^ mix(run_id), Data::default()) }
    }

    /// Fills and stamps every whole block of `buffer`.
    pub fn write(&self, buffer: &mut [u8], offset_bytes: u64, generation: u64) {
        self.payload.fill(buffer, offset_bytes, generation);
        for (index, block) in buffer.chunks_exact_mut(self.block_bytes).enumerate() {
            self.stamp(block, offset_bytes + (index * self.block_bytes) as u64, generation);
        }
    }

    fn stamp(&self, block: &mut [u8], offset_bytes: u64, generation: u64) {
        let base = tag_base(self.run_id, offset_bytes, generation);
        for (index, sector) in block.chunks_exact_mut(SECTOR_BYTES).enumerate() {
            let at = tag_at(index);
            sector[at..at + 8].copy_from_slice(&tag(base, generation, index).to_le_bytes());
        }
        block[4..8].copy_from_slice(&MAGIC.to_le_bytes());
        block[8..16].copy_from_slice(&self.run_id.to_le_bytes());
        block[16..24].copy_from_slice(&offset_bytes.to_le_bytes());
        block[24..32].copy_from_slice(&generation.to_le_bytes());
        let checksum = crc32c(&block[4..]);
        block[..4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The stamp of a block whose checksum is right.
    #[inline]
    pub fn intact(&self, block: &[u8]) -> Option<Stamp> {
        let checksum = u32::from_le_bytes(block[..4].try_into().ok()?);
        (magic(block) == MAGIC && checksum == crc32c(&block[4..])).then(|| stamp_fields(block))
    }

    /// Takes a block apart that is not intact and should have had a generation from `oldest` to `newest`.
    pub fn diagnose(&self, block: &[u8], offset_bytes: u64, oldest: u64, newest: u64) -> Finding {
        let hints = [newest, oldest, stamp_fields(block).generation];
        let sectors = block.len() / SECTOR_BYTES;
        let generations: Vec<Option<u64>> =
            (0..sectors).map(|index| self.sector_generation(block, index, offset_bytes, &hints)).collect();
        let mut known = generations.iter().flatten();
        match known.next() {
            None => self.diagnose_tagless(block, offset_bytes, oldest, newest),
            Some(first) if known.all(|other| other == first) => self.diagnose_one(block, offset_bytes, &generations),
            Some(_) => torn(block, &generations),
        }
    }

    /// A block beside what was written as `generation`.
    #[cold]
    pub fn dump(&self, block: &[u8], offset_bytes: u64, generation: u64) -> DamageDump {
        let mut written = vec![0; block.len()];
        self.write(&mut written, offset_bytes, generation);
        let differs = |at: &usize| block[*at] != written[*at];
        let differing_bytes = (0..block.len()).filter(differs).count() as u64;
        let at = (0..block.len()).find(differs).unwrap_or(0);
        let shown = at..block.len().min(at + DUMP_BYTES);
        let hex = |bytes: &mut dyn Iterator<Item = u8>| bytes.map(|byte| format!("{byte:02x}")).collect();
        DamageDump {
            generation,
            differing_bytes,
            block_bytes: block.len() as u64,
            at_byte: at as u64,
            written: hex(&mut written[shown.clone()].iter().copied()),
            read: hex(&mut block[shown.clone()].iter().copied()),
            differing: hex(&mut shown.map(|n| block[n] ^ written[n])),
        }
    }

    /// The generation that a sector's tag names, if the tag was made for this place.
    fn sector_generation(&self, block: &[u8], index: usize, offset_bytes: u64, hints: &[u64]) -> Option<u64> {
        let found = sector_tag(block, index);
        let low = found >> (64 - TAG_GENERATION_BITS);
        let whole = |hint: &u64| {
            // The nearest generation not above the hint that has these low bits.
            let candidate = (hint & !TAG_GENERATION_MASK) | low;
            if candidate > *hint { candidate.checked_sub(TAG_GENERATION_MASK + 1) } else { Some(candidate) }
        };
        hints
            .iter()
            .filter_map(whole)
            .find(|generation| tag(tag_base(self.run_id, offset_bytes, *generation), *generation, index) == found)
    }

    /// No tag of this place is left.
    fn diagnose_tagless(&self, block: &[u8], offset_bytes: u64, oldest: u64, newest: u64) -> Finding {
        let stamp = stamp_fields(block);
        let ours = magic(block) == MAGIC && stamp.run_id == self.run_id;
        if ours && stamp.offset_bytes != offset_bytes {
            let base = tag_base(self.run_id, stamp.offset_bytes, stamp.generation);
            let sectors = block.len() / SECTOR_BYTES;
            if (0..sectors).any(|index| sector_tag(block, index) == tag(base, stamp.generation, index)) {
                let text = format!("holds a damaged block of offset {}", stamp.offset_bytes);
                return finding(DamageKind::Misplaced, Some(stamp.generation), Some(stamp.offset_bytes), text);
            }
        }
        for generation in [newest, oldest, stamp.generation] {
            let differing = self.differing_bits(block, offset_bytes, generation);
            if differing.iter().all(|(bits, _)| *bits <= DAMAGED_BITS_MOST) {
                return bits(generation, &differing);
            }
            if differing.iter().any(|(bits, _)| *bits <= DAMAGED_BITS_MOST) {
                let near = differing.iter().map(|(bits, _)| (*bits <= DAMAGED_BITS_MOST).then_some(generation));
                return torn(block, &near.collect::<Vec<_>>());
            }
        }
        let what = match magic(block) {
            MAGIC if !ours => "a block of another run",
            _ if block.iter().all(|byte| *byte == 0) => "zeros",
            _ => "data without a stamp",
        };
        finding(DamageKind::Unwritten, None, None, format!("holds {what}"))
    }

    /// All tags that are left name one generation: the rest is damaged or another's.
    fn diagnose_one(&self, block: &[u8], offset_bytes: u64, generations: &[Option<u64>]) -> Finding {
        let generation = generations.iter().flatten().next().copied().unwrap_or_default();
        let differing = self.differing_bits(block, offset_bytes, generation);
        let foreign = |(found, (bits, _)): (&Option<u64>, &(u32, usize))| found.is_none() && *bits > DAMAGED_BITS_MOST;
        if generations.iter().zip(&differing).any(foreign) {
            return torn(block, generations);
        }
        bits(generation, &differing)
    }

    /// For every sector the bits that differ from what was written as `generation`, and the first such byte of it.
    fn differing_bits(&self, block: &[u8], offset_bytes: u64, generation: u64) -> Vec<(u32, usize)> {
        let mut written = vec![0; block.len()];
        self.write(&mut written, offset_bytes, generation);
        let of_sector = |(found, written): (&[u8], &[u8])| {
            let pairs = || found.iter().zip(written);
            let bits = pairs().map(|(a, b)| (a ^ b).count_ones()).sum();
            (bits, pairs().position(|(a, b)| a != b).unwrap_or(0))
        };
        block.chunks(SECTOR_BYTES).zip(written.chunks(SECTOR_BYTES)).map(of_sector).collect()
    }
}

fn bits(generation: u64, differing: &[(u32, usize)]) -> Finding {
    let total: u32 = differing.iter().map(|(bits, _)| bits).sum();
    let first = differing.iter().position(|(bits, _)| *bits > 0).unwrap_or(0);
    let byte = first * SECTOR_BYTES + differing[first].1;
    let (noun, verb) = if total == 1 { ("bit", "differs") } else { ("bits", "differ") };
    let text = format!("{total} {noun} of generation {generation} {verb}, the first in byte {byte} of the block");
    finding(DamageKind::Bits, Some(generation), None, text)
}

fn torn(block: &[u8], generations: &[Option<u64>]) -> Finding {
    let mut text = String::from("holds");
    let mut start = 0;
    for end in 1..=generations.len() {
        if end < generations.len() && generations[end] == generations[start] {
            continue;
        }
        let comma = if start == 0 { "" } else { "," };
        let zero = block[start * SECTOR_BYTES..end * SECTOR_BYTES].iter().all(|byte| *byte == 0);
        // Writing to a String does not fail.
        let _ = match generations[start] {
            Some(generation) => write!(text, "{comma} sectors {start}..{end} of generation {generation}"),
            None if zero => write!(text, "{comma} zeros in sectors {start}..{end}"),
            None => write!(text, "{comma} sectors {start}..{end} of another block"),
        };
        start = end;
    }
    finding(DamageKind::Torn, generations.iter().flatten().copied().max(), None, text)
}

fn finding(kind: DamageKind, generation: Option<u64>, offset_bytes: Option<u64>, text: String) -> Finding {
    Finding { kind, found_generation: generation, found_offset_bytes: offset_bytes, text }
}

#[inline]
fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn word(block: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&block[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn magic(block: &[u8]) -> u32 {
    (word(block, 0) >> 32) as u32
}

fn stamp_fields(block: &[u8]) -> Stamp {
    Stamp { run_id: word(block, 8), offset_bytes: word(block, 16), generation: word(block, 24) }
}

fn tag_at(index: usize) -> usize {
    if index == 0 { TAG_AT_FIRST } else { 0 }
}

fn sector_tag(block: &[u8], index: usize) -> u64 {
    word(block, index * SECTOR_BYTES + tag_at(index))
}

fn tag_base(run_id: u64, offset_bytes: u64, generation: u64) -> u64 {
    mix(mix(mix(run_id) ^ offset_bytes) ^ generation)
}

fn tag(base: u64, generation: u64, index: usize) -> u64 {
    let check = mix(base ^ index as u64) >> 40;
    (generation & TAG_GENERATION_MASK) << 40 | (index as u64 & 0xffff) << 24 | check
}
