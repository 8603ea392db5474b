//! A disk in memory that can be told to fail, and that every kind of damage on it is found and none invented.

use super::*;
use proptest::prelude::*;

const BLOCK: usize = 4096;
const SECTORS: usize = BLOCK / SECTOR_BYTES;
const START: u64 = 64 * 1024;
const RUN: u64 = 0x1234_5678_9abc_def0;

/// The region's bytes, and a verifier of it.
struct Disk {
    verifier: Verifier,
    bytes: Vec<u8>,
    pass: u64,
}

fn map_choice() -> MapChoice {
    MapChoice::Map { directory: std::env::temp_dir(), limit_bytes: 1 << 20 }
}

fn both() -> [MapChoice; 2] {
    [map_choice(), MapChoice::Passes]
}

impl Disk {
    /// Old bytes are neither zero nor stamped.
    fn new(map: MapChoice, blocks: usize, block_bytes: usize) -> Disk {
        let region = (START, (blocks * block_bytes) as u64);
        let verifier = Verifier::new(region, block_bytes as u64, RUN, 1, map).unwrap();
        Disk { verifier, bytes: vec![0xa5; blocks * block_bytes], pass: 0 }
    }

    /// Every block written twice, so that there is a stale generation to fall back to.
    fn written(map: MapChoice) -> Disk {
        let mut disk = Disk::new(map, 8, BLOCK);
        disk.write_all(|_| true);
        disk.write_all(|_| true);
        disk
    }

    /// One pass in a mixed order over all blocks; those that are not kept are acknowledged all the same.
    fn write_all(&mut self, kept: impl Fn(usize) -> bool) {
        self.pass += 1;
        let blocks = self.bytes.len() / self.verifier.format.block_bytes;
        for step in 0..blocks {
            let block = (step * 5 + 3) % blocks;
            self.write(block, if kept(block) { Some(block) } else { None });
        }
    }

    /// Writes `block`; its data land on block `to` or nowhere.
    fn write(&mut self, block: usize, to: Option<usize>) {
        let block_bytes = self.verifier.format.block_bytes;
        let mut buffer = vec![0; block_bytes];
        let offset_bytes = self.offset(block);
        self.verifier.begin_write(offset_bytes, self.pass, &mut buffer);
        if let Some(to) = to {
            self.bytes[to * block_bytes..][..block_bytes].copy_from_slice(&buffer);
        }
        self.verifier.end_write(offset_bytes, block_bytes as u64, WriteOutcome::Done);
    }

    fn offset(&self, block: usize) -> u64 {
        START + (block * self.verifier.format.block_bytes) as u64
    }

    fn block(&mut self, block: usize) -> &mut [u8] {
        let block_bytes = self.verifier.format.block_bytes;
        &mut self.bytes[block * block_bytes..][..block_bytes]
    }

    fn read(&self, from: usize, blocks: usize) -> Vec<Damage> {
        let block_bytes = self.verifier.format.block_bytes;
        let bytes = self.bytes[from * block_bytes..][..blocks * block_bytes].to_vec();
        self.judge(from, &bytes)
    }

    fn judge(&self, from: usize, bytes: &[u8]) -> Vec<Damage> {
        let ticket = self.verifier.begin_read(self.offset(from), bytes.len() as u64);
        let mut found = Vec::new();
        self.verifier.end_read(ticket, bytes, &mut found);
        found
    }

    fn read_all(&self) -> Vec<Damage> {
        self.read(0, self.bytes.len() / self.verifier.format.block_bytes)
    }
}

/// Exactly one damage, of this kind, at this block.
fn assert_only(disk: &Disk, found: &[Damage], kind: DamageKind, block: usize) -> Damage {
    assert_eq!(found.len(), 1, "{found:?}");
    let damage = &found[0];
    assert_eq!((damage.kind, damage.offset_bytes), (kind, disk.offset(block)), "{damage:?}");
    assert!(!damage.text.contains('\n') && damage.text.contains(&format!("offset {}", damage.offset_bytes)));
    assert!(damage.text.contains(&damage.expected_generation.to_string()));
    damage.clone()
}

fn newest(disk: &Disk, block: usize) -> u64 {
    u64::from_le_bytes(disk.bytes[block * BLOCK + 24..][..8].try_into().unwrap())
}

#[test]
fn undamaged_blocks_are_checked_and_right() {
    for map in both() {
        let disk = Disk::written(map);
        assert_eq!(disk.read_all(), []);
        assert_eq!(disk.verifier.counts(), VerifyCounts { checked_blocks: 8, ..VerifyCounts::default() });
    }
}

#[test]
fn every_flipped_bit_is_bit_damage() {
    for map in both() {
        let mut disk = Disk::written(map);
        let expected = newest(&disk, 2);
        for byte in 0..BLOCK {
            for bit in if byte % SECTOR_BYTES < 48 { 0..8 } else { byte % 8..byte % 8 + 1 } {
                disk.block(2)[byte] ^= 1 << bit;
                let damage = assert_only(&disk, &disk.read(1, 3), DamageKind::Bits, 2);
                assert_eq!(damage.expected_generation, expected);
                assert_eq!(damage.found_generation, Some(expected));
                assert!(damage.text.contains(&format!("1 bit of generation {expected} differs")), "{}", damage.text);
                assert!(damage.text.contains(&format!("in byte {byte} of the block")), "{}", damage.text);
                disk.block(2)[byte] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn every_flipped_bit_of_a_one_sector_block_is_bit_damage() {
    let mut disk = Disk::new(map_choice(), 8, 512);
    disk.write_all(|_| true);
    for bit in 0..512 * 8 {
        disk.block(5)[bit / 8] ^= 1 << (bit % 8);
        assert_only(&disk, &disk.read_all(), DamageKind::Bits, 5);
        disk.block(5)[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_block_torn_at_any_sector_is_torn() {
    for map in both() {
        for cut in 1..SECTORS {
            for new_first in [true, false] {
                let mut disk = Disk::written(map.clone());
                let old = disk.block(6).to_vec();
                disk.write_all(|_| true);
                let kept = if new_first { cut * SECTOR_BYTES..BLOCK } else { 0..cut * SECTOR_BYTES };
                let expected = newest(&disk, 6);
                disk.block(6)[kept.clone()].copy_from_slice(&old[kept]);
                let damage = assert_only(&disk, &disk.read_all(), DamageKind::Torn, 6);
                assert_eq!((damage.expected_generation, damage.found_generation), (expected, Some(expected)));
                assert!(damage.text.contains(&format!("0..{cut} of generation")), "{}", damage.text);
            }
        }
    }
}

#[test]
fn a_block_with_foreign_or_zero_sectors_is_torn() {
    for map in both() {
        for sector in 0..SECTORS {
            let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
            let mut disk = Disk::written(map.clone());
            disk.block(1)[range.clone()].fill(0);
            let damage = assert_only(&disk, &disk.read_all(), DamageKind::Torn, 1);
            assert!(damage.text.contains("zeros in sectors"), "{}", damage.text);
            let other = disk.block(4)[range.clone()].to_vec();
            disk.block(1)[range].copy_from_slice(&other);
            let damage = assert_only(&disk, &disk.read_all(), DamageKind::Torn, 1);
            assert!(damage.text.contains("of another block"), "{}", damage.text);
        }
    }
}

#[test]
fn a_write_to_the_wrong_offset_is_found_at_both_places() {
    for map in both() {
        let mut disk = Disk::written(map);
        let stale = newest(&disk, 3);
        disk.write_all(|block| block != 3);
        disk.write(3, Some(5));
        let misplaced = assert_only(&disk, &disk.read(5, 1), DamageKind::Misplaced, 5);
        assert_eq!(misplaced.found_offset_bytes, Some(disk.offset(3)));
        let lost = assert_only(&disk, &disk.read(3, 1), DamageKind::Stale, 3);
        assert_eq!(lost.found_generation, Some(stale));
        assert!(lost.expected_generation > stale);
        disk.block(5)[1000] ^= 4;
        assert_only(&disk, &disk.read(5, 1), DamageKind::Misplaced, 5);
    }
}

#[test]
fn a_lost_write_is_stale() {
    for map in both() {
        let mut disk = Disk::written(map);
        let old = newest(&disk, 7);
        disk.write_all(|block| block != 7);
        let damage = assert_only(&disk, &disk.read_all(), DamageKind::Stale, 7);
        assert_eq!((damage.found_generation, damage.found_offset_bytes), (Some(old), None));
        assert_eq!(disk.verifier.counts().damaged_blocks, 1);
    }
}

#[test]
fn a_read_from_the_wrong_offset_is_misplaced() {
    for map in both() {
        let disk = Disk::written(map);
        let other = disk.bytes[6 * BLOCK..7 * BLOCK].to_vec();
        let damage = assert_only(&disk, &disk.judge(2, &other), DamageKind::Misplaced, 2);
        assert_eq!(damage.found_offset_bytes, Some(disk.offset(6)));
    }
}

#[test]
fn a_block_without_a_stamp_of_this_run_is_unwritten() {
    for map in both() {
        let mut disk = Disk::written(map);
        disk.block(0).fill(0);
        assert!(assert_only(&disk, &disk.read_all(), DamageKind::Unwritten, 0).text.contains("zeros"));
        let other_run = Format::new(RUN + 1, BLOCK, 1);
        let generation = newest(&disk, 1);
        other_run.write(disk.block(0), START, generation);
        let damage = assert_only(&disk, &disk.read_all(), DamageKind::Unwritten, 0);
        assert_eq!(damage.found_generation, None);
        assert!(damage.text.contains("another run"), "{}", damage.text);
        // The same seed, and the same generation at the same place, in a run before: only half of it was overwritten.
        let whole = disk.block(1).to_vec();
        let offset_bytes = disk.offset(1);
        other_run.write(disk.block(1), offset_bytes, generation);
        disk.block(1)[..2048].copy_from_slice(&whole[..2048]);
        assert!(disk.read(1, 1)[0].text.contains("sectors 4..8 of another block"), "{:?}", disk.read(1, 1));
        assert_only(&disk, &disk.read(1, 1), DamageKind::Torn, 1);
    }
}

#[test]
fn blocks_never_written_have_no_expectation_until_filled() {
    for map in both() {
        let mut disk = Disk::new(map, 8, BLOCK);
        assert_eq!(disk.read_all(), []);
        assert_eq!(disk.verifier.counts().unchecked_blocks, 8);
        let mut filling = vec![0; 4 * BLOCK];
        disk.verifier.stamp_filled(START, 0, &mut filling);
        disk.verifier.mark_filled(START, 4 * BLOCK as u64, 0);
        assert_eq!(disk.read_all().len(), 4);
        disk.bytes[..4 * BLOCK].copy_from_slice(&filling);
        assert_eq!(disk.read_all(), []);
        disk.block(2)[99] ^= 1;
        assert_only(&disk, &disk.read_all(), DamageKind::Bits, 2);
    }
}

/// The requests of a fill know nothing of blocks and regions.
#[test]
fn a_fill_prepares_the_whole_blocks_of_the_region_and_touches_nothing_else() {
    for map in both() {
        let disk = Disk::new(map, 4, BLOCK);
        // From half a block into the region to a block behind it.
        let mut filling = vec![0x11; 4 * BLOCK + BLOCK / 2];
        disk.verifier.prepare(START + BLOCK as u64 / 2, &mut filling);
        assert!(filling[..BLOCK / 2].iter().chain(&filling[BLOCK / 2 + 3 * BLOCK..]).all(|byte| *byte == 0x11));
        let mut found = Vec::new();
        let mut read = vec![0x11; 4 * BLOCK];
        read[BLOCK..].copy_from_slice(&filling[BLOCK / 2..BLOCK / 2 + 3 * BLOCK]);
        read[2 * BLOCK + 9] ^= 1;
        disk.verifier.end_read(disk.verifier.begin_read(START, 4 * BLOCK as u64), &read, &mut found);
        let counts = disk.verifier.counts();
        assert_eq!((counts.checked_blocks, counts.unchecked_blocks, counts.damaged_blocks), (3, 1, 1));
        assert_eq!(found[0].offset_bytes, START + 2 * BLOCK as u64);
        // Outside of the region nothing happens.
        disk.verifier.prepare(0, &mut filling[..BLOCK]);
        disk.verifier.prepare(START + 4 * BLOCK as u64, &mut filling[..BLOCK]);
        assert!(filling[..BLOCK / 2].iter().all(|byte| *byte == 0x11));
    }
}

#[test]
fn a_failed_write_may_leave_anything_but_a_foreign_block_until_one_succeeds() {
    for map in both() {
        for outcome in [WriteOutcome::Failed, WriteOutcome::Short(BLOCK as u64 + 100)] {
            let mut disk = Disk::written(map.clone());
            disk.pass += 1;
            let mut buffer = vec![0; 2 * BLOCK];
            disk.verifier.begin_write(disk.offset(2), disk.pass, &mut buffer);
            disk.verifier.end_write(disk.offset(2), 2 * BLOCK as u64, outcome);
            if outcome != WriteOutcome::Failed {
                disk.block(2).copy_from_slice(&buffer[..BLOCK]);
            }
            assert_eq!(disk.read_all(), [], "old");
            disk.block(3)[512..2048].copy_from_slice(&buffer[BLOCK + 512..BLOCK + 2048]);
            assert_eq!(disk.read_all(), [], "mixture");
            disk.block(3).copy_from_slice(&buffer[BLOCK..]);
            assert_eq!(disk.read_all(), [], "new");
            let foreign = disk.block(6).to_vec();
            disk.block(3).copy_from_slice(&foreign);
            assert_only(&disk, &disk.read_all(), DamageKind::Misplaced, 3);
            disk.write_all(|_| true);
            assert_eq!(disk.read_all(), []);
            disk.block(3)[600] ^= 1;
            assert_only(&disk, &disk.read_all(), DamageKind::Bits, 3);
        }
    }
}

#[test]
fn the_blocks_that_a_short_write_reached_are_held_to_it() {
    let mut disk = Disk::written(map_choice());
    let mut buffer = vec![0; 2 * BLOCK];
    disk.verifier.begin_write(disk.offset(2), 0, &mut buffer);
    disk.verifier.end_write(disk.offset(2), 2 * BLOCK as u64, WriteOutcome::Short(BLOCK as u64));
    assert_only(&disk, &disk.read_all(), DamageKind::Stale, 2);
    disk.block(2).copy_from_slice(&buffer[..BLOCK]);
    assert_eq!(disk.read_all(), []);
}

#[test]
fn overlapped_writes_leave_either_until_a_lone_one() {
    let mut disk = Disk::written(map_choice());
    let before = disk.block(4).to_vec();
    let (mut first, mut second) = (vec![0; BLOCK], vec![0; BLOCK]);
    let (offset_bytes, length_bytes) = (disk.offset(4), BLOCK as u64);
    disk.verifier.begin_write(offset_bytes, 0, &mut first);
    disk.verifier.begin_write(offset_bytes, 0, &mut second);
    disk.verifier.end_write(offset_bytes, length_bytes, WriteOutcome::Done);
    disk.verifier.end_write(offset_bytes, length_bytes, WriteOutcome::Done);
    for data in [&first, &second] {
        assert_eq!(disk.judge(4, data), []);
    }
    assert_only(&disk, &disk.judge(4, &before), DamageKind::Stale, 4);
    disk.write(4, Some(4));
    assert_eq!(disk.read_all(), []);
    assert_only(&disk, &disk.judge(4, &second), DamageKind::Stale, 4);
}

#[test]
fn passes_that_overlap_in_a_block_still_become_complete() {
    let mut disk = Disk::written(MapChoice::Passes);
    let (offset_bytes, length_bytes) = (disk.offset(0), BLOCK as u64);
    let mut buffer = vec![0; BLOCK];
    disk.pass += 1;
    (1..8).for_each(|block| disk.write(block, (block != 3).then_some(block)));
    disk.verifier.begin_write(offset_bytes, disk.pass, &mut buffer);
    assert_eq!(disk.read_all(), [], "the pass may not have reached the lost block");
    disk.verifier.begin_write(offset_bytes, disk.pass + 1, &mut buffer);
    disk.verifier.end_write(offset_bytes, length_bytes, WriteOutcome::Done);
    disk.verifier.end_write(offset_bytes, length_bytes, WriteOutcome::Done);
    disk.block(0).copy_from_slice(&buffer);
    let damage = assert_only(&disk, &disk.read_all(), DamageKind::Stale, 3);
    assert_eq!((damage.expected_generation, damage.found_generation), (disk.pass, Some(disk.pass - 1)));
}

#[test]
fn a_read_during_a_write_may_find_old_and_new_and_nothing_older() {
    for map in both() {
        let mut disk = Disk::written(map);
        let older = disk.block(4).to_vec();
        disk.write_all(|_| true);
        let old = disk.block(4).to_vec();
        disk.pass += 1;
        let ticket = || disk.verifier.begin_read(disk.offset(4), BLOCK as u64);
        let tickets = [ticket(), ticket(), ticket()];
        let mut new = vec![0; BLOCK];
        disk.verifier.begin_write(disk.offset(4), disk.pass, &mut new);
        disk.verifier.end_write(disk.offset(4), BLOCK as u64, WriteOutcome::Done);
        let mut mixed = new.clone();
        mixed[..1000].copy_from_slice(&old[..1000]);
        let mut found = Vec::new();
        for (ticket, data) in tickets.into_iter().zip([&old, &new, &mixed]) {
            disk.verifier.end_read(ticket, data, &mut found);
        }
        assert_eq!(found, []);
        assert_only(&disk, &disk.judge(4, &older), DamageKind::Stale, 4);
        assert_only(&disk, &disk.judge(4, &mixed), DamageKind::Torn, 4);
    }
}

#[test]
fn generations_wrap_without_inventing_damage() {
    let mut disk = Disk::new(map_choice(), 8, BLOCK);
    disk.write_all(|_| true);
    for wraps in 1..4u64 {
        // Not a whole round later, which is what cannot be told.
        *disk.verifier.lock().blocks.map_for_test().unwrap().0 = (wraps << 31) - 3 - wraps;
        for block in 0..4 {
            let old = disk.block(block).to_vec();
            disk.write(block, Some(block));
            assert_only(&disk, &disk.judge(block, &old), DamageKind::Stale, block);
        }
        assert_eq!(disk.read_all(), []);
        // In flight and failed over the wrap, with old data that are older than a whole round.
        let mut buffer = vec![0; BLOCK];
        disk.verifier.begin_write(disk.offset(7), 0, &mut buffer);
        assert_eq!(disk.read_all(), []);
        disk.verifier.end_write(disk.offset(7), BLOCK as u64, WriteOutcome::Failed);
        assert_eq!(disk.read_all(), []);
        disk.write(3, None);
        assert_only(&disk, &disk.read_all(), DamageKind::Stale, 3);
        disk.write(3, Some(3));
    }
}

#[test]
fn a_tear_is_named_where_the_tags_generation_wraps() {
    let mut disk = Disk::written(map_choice());
    *disk.verifier.lock().blocks.map_for_test().unwrap().0 = (1 << 24) - 2;
    disk.write(2, Some(2));
    let old = disk.block(2).to_vec();
    disk.write(2, Some(2));
    disk.block(2)[2048..].copy_from_slice(&old[2048..]);
    let damage = assert_only(&disk, &disk.read_all(), DamageKind::Torn, 2);
    let text = "sectors 0..4 of generation 16777216, sectors 4..8 of generation 16777215";
    assert!(damage.text.contains(text), "{}", damage.text);
}

#[test]
fn pass_numbers_that_start_again_invent_no_damage() {
    let mut disk = Disk::written(MapChoice::Passes);
    disk.write_all(|_| true);
    disk.pass = 1;
    for block in 0..8 {
        disk.write(block, Some(block));
        assert_eq!(disk.read_all(), []);
    }
}

#[test]
fn without_space_for_the_map_blocks_are_unchecked() {
    let mut disk = Disk::new(map_choice(), 8, BLOCK);
    disk.verifier.mark_filled(START, 8 * BLOCK as u64, 0);
    disk.verifier.lock().blocks.map_for_test().unwrap().1.blind_all();
    disk.write_all(|block| block != 2);
    assert_eq!(disk.read_all(), []);
    assert_eq!(disk.verifier.counts().checked_blocks, 0);
}

#[test]
fn requests_reaching_out_of_the_region_are_judged_inside_it() {
    let disk = Disk::written(map_choice());
    let mut bytes = vec![0; BLOCK];
    bytes.extend_from_slice(&disk.bytes);
    bytes.extend_from_slice(&[0; 2 * BLOCK]);
    let ticket = disk.verifier.begin_read(START - BLOCK as u64, bytes.len() as u64);
    let mut found = Vec::new();
    disk.verifier.end_read(ticket, &bytes, &mut found);
    assert_eq!(found, []);
    assert_eq!(disk.verifier.counts(), VerifyCounts { checked_blocks: 8, ..VerifyCounts::default() });
    let ticket = disk.verifier.begin_read(START + (1 << 40), BLOCK as u64);
    disk.verifier.end_read(ticket, &disk.bytes[..BLOCK], &mut found);
    assert_eq!(found, []);
}

#[test]
fn what_cannot_be_verified_is_refused_with_its_remedy() {
    let refusal = |region, block_bytes, map| Verifier::new(region, block_bytes, 1, 1, map).unwrap_err();
    let small = MapChoice::Map { directory: std::env::temp_dir(), limit_bytes: 1 << 30 };
    let text = refusal((0, 20_000_000_000_000), 4096, small);
    for remedy in ["permutation", "larger align", "smaller region", "1GiB"] {
        assert!(text.contains(remedy), "{text}");
    }
    assert!(refusal((0, 1 << 20), 1000, MapChoice::Passes).contains("multiple of 512"));
    assert!(refusal((100, 1 << 20), 4096, MapChoice::Passes).contains("whole 512-byte sector"));
    let nowhere = MapChoice::Map { directory: "/nonexistent/here".into(), limit_bytes: 1 << 30 };
    assert!(refusal((0, 1 << 20), 4096, nowhere).contains("/nonexistent/here"));
}

#[test]
fn the_map_of_a_large_device_takes_no_space_and_leaves_no_name() {
    let directory = std::env::temp_dir().join(format!("brickyard-verify-test-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let map = MapChoice::Map { directory: directory.clone(), limit_bytes: 32 << 30 };
    let verifier = Verifier::new((0, 20_000_000_000_000), 4096, 1, 1, map).unwrap();
    let mut buffer = vec![0; 4096];
    for offset_bytes in [0, 9_999_999_995_904, 20_000_000_000_000 / 4096 * 4096 - 4096] {
        verifier.begin_write(offset_bytes, 0, &mut buffer);
        verifier.end_write(offset_bytes, 4096, WriteOutcome::Done);
        let ticket = verifier.begin_read(offset_bytes, 4096);
        verifier.end_read(ticket, &buffer, &mut Vec::new());
    }
    assert_eq!(verifier.counts(), VerifyCounts { checked_blocks: 3, ..VerifyCounts::default() });
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir(&directory).unwrap();
}

const MODEL_BLOCKS: usize = 6;
const MODEL_BLOCK: usize = 1024;
const MODEL_SECTORS: usize = MODEL_BLOCK / SECTOR_BYTES;

/// A request in flight; of its sectors those in `open` have not met the disk yet.
struct InFlight {
    from: usize,
    blocks: usize,
    data: Vec<u8>,
    open: Vec<usize>,
    ticket: Option<ReadTicket>,
}

/// Sectors of requests in flight reach the disk one by one at any moment between begin and end.
struct Model {
    disk: Disk,
    writes: Vec<InFlight>,
    reads: Vec<InFlight>,
    /// Blocks still to be written in this pass, with passes only.
    order: Option<Vec<usize>>,
    found: Vec<Damage>,
}

impl Model {
    fn new(map: MapChoice) -> Model {
        let order = (map == MapChoice::Passes).then(Vec::new);
        let disk = Disk::new(map, MODEL_BLOCKS, MODEL_BLOCK);
        Model { disk, writes: Vec::new(), reads: Vec::new(), order, found: Vec::new() }
    }

    fn step(&mut self, action: u8, a: usize, b: usize) {
        match action {
            0 | 1 => self.begin_write(a, b),
            2 => self.begin_read(a, b),
            3 | 4 if !self.writes.is_empty() => self.write_sector(a % self.writes.len(), b),
            5 if !self.reads.is_empty() => self.read_sector(a % self.reads.len(), b),
            6 | 7 if !self.writes.is_empty() => self.end_write(a % self.writes.len(), b),
            8 if !self.reads.is_empty() => self.end_read(a % self.reads.len()),
            _ => {}
        }
    }

    fn begin_write(&mut self, a: usize, b: usize) {
        let (mut from, mut blocks) = (a % MODEL_BLOCKS, 1 + b % 3);
        if let Some(order) = &mut self.order {
            if order.is_empty() {
                *order = (0..MODEL_BLOCKS).collect();
                self.disk.pass += 1;
            }
            (from, blocks) = (order.swap_remove(a % order.len()), 1);
        }
        blocks = blocks.min(MODEL_BLOCKS - from);
        let mut data = vec![0; blocks * MODEL_BLOCK];
        self.disk.verifier.begin_write(self.disk.offset(from), self.disk.pass, &mut data);
        self.writes.push(InFlight { from, blocks, data, open: (0..blocks * MODEL_SECTORS).collect(), ticket: None });
    }

    fn begin_read(&mut self, a: usize, b: usize) {
        let from = a % MODEL_BLOCKS;
        let blocks = (1 + b % 3).min(MODEL_BLOCKS - from);
        let ticket = self.disk.verifier.begin_read(self.disk.offset(from), (blocks * MODEL_BLOCK) as u64);
        let open = (0..blocks * MODEL_SECTORS).collect();
        let data = vec![0; blocks * MODEL_BLOCK];
        self.reads.push(InFlight { from, blocks, data, open, ticket: Some(ticket) });
    }

    fn write_sector(&mut self, index: usize, b: usize) {
        let write = &mut self.writes[index];
        if !write.open.is_empty() {
            let sector = write.open.swap_remove(b % write.open.len());
            let at = sector * SECTOR_BYTES;
            self.disk.bytes[write.from * MODEL_BLOCK + at..][..SECTOR_BYTES]
                .copy_from_slice(&write.data[at..at + SECTOR_BYTES]);
        }
    }

    fn read_sector(&mut self, index: usize, b: usize) {
        let read = &mut self.reads[index];
        if !read.open.is_empty() {
            let at = read.open.swap_remove(b % read.open.len()) * SECTOR_BYTES;
            let on_disk = &self.disk.bytes[read.from * MODEL_BLOCK + at..][..SECTOR_BYTES];
            read.data[at..at + SECTOR_BYTES].copy_from_slice(on_disk);
        }
    }

    /// One in six fails and one in six is short, with some of its sectors written or not.
    fn end_write(&mut self, index: usize, b: usize) {
        let length_bytes = self.writes[index].blocks * MODEL_BLOCK;
        let outcome = match b % 6 {
            0 => WriteOutcome::Failed,
            1 => WriteOutcome::Short((b / 6 % length_bytes) as u64),
            _ => WriteOutcome::Done,
        };
        let reached_bytes = match outcome {
            WriteOutcome::Failed => 0,
            WriteOutcome::Short(bytes) => bytes as usize,
            WriteOutcome::Done => length_bytes,
        };
        while let Some(at) = self.writes[index].open.iter().position(|sector| sector * SECTOR_BYTES < reached_bytes) {
            self.write_sector(index, at);
        }
        let write = self.writes.swap_remove(index);
        self.disk.verifier.end_write(self.disk.offset(write.from), length_bytes as u64, outcome);
    }

    fn end_read(&mut self, index: usize) {
        while !self.reads[index].open.is_empty() {
            self.read_sector(index, 0);
        }
        let read = self.reads.swap_remove(index);
        self.disk.verifier.end_read(read.ticket.unwrap(), &read.data, &mut self.found);
    }

    fn drain(&mut self) {
        while !self.writes.is_empty() {
            self.end_write(0, 5);
        }
        while !self.reads.is_empty() {
            self.end_read(0);
        }
        while self.order.as_ref().is_some_and(|order| !order.is_empty()) {
            self.begin_write(0, 0);
            self.end_write(0, 5);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_is_invented_and_a_lost_write_is_found(
        passes: bool,
        filled: bool,
        steps in prop::collection::vec((0u8..9, any::<u16>(), any::<u16>()), 0..200),
        lost in 0..MODEL_BLOCKS,
    ) {
        let mut model = Model::new(if passes { MapChoice::Passes } else { map_choice() });
        if filled {
            model.disk.verifier.stamp_filled(START, 0, &mut model.disk.bytes);
            model.disk.verifier.mark_filled(START, (MODEL_BLOCKS * MODEL_BLOCK) as u64, 0);
        }
        for (action, a, b) in steps {
            model.step(action, a.into(), b.into());
            prop_assert_eq!(&model.found, &[]);
        }
        model.drain();
        prop_assert_eq!(&model.found, &[]);
        prop_assert_eq!(model.disk.read_all(), []);
        model.disk.write_all(|_| true);
        prop_assert_eq!(model.disk.read_all(), []);
        let checked = model.disk.verifier.counts().checked_blocks;
        model.disk.write_all(|block| block != lost);
        let found = model.disk.read_all();
        prop_assert_eq!(model.disk.verifier.counts().checked_blocks - checked, MODEL_BLOCKS as u64);
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!((found[0].kind, found[0].offset_bytes), (DamageKind::Stale, model.disk.offset(lost)));
    }
}

#[test]
fn lanes_on_threads_share_one_verifier() {
    for map in both() {
        let disk = Disk::new(map, 64, BLOCK);
        let verifier = &disk.verifier;
        let lane = |lane: u64| {
            let (mut buffer, mut found) = (vec![0; 2 * BLOCK], Vec::new());
            for step in 0..400 {
                let (pass, offset_bytes) = (step / 8, START + (lane * 16 + step % 8 * 2) * BLOCK as u64);
                verifier.begin_write(offset_bytes, pass, &mut buffer);
                verifier.end_write(offset_bytes, buffer.len() as u64, WriteOutcome::Done);
                let ticket = verifier.begin_read(offset_bytes, buffer.len() as u64);
                verifier.end_read(ticket, &buffer, &mut found);
            }
            assert_eq!(found, []);
        };
        std::thread::scope(|scope| (0..4).for_each(|number| drop(scope.spawn(move || lane(number)))));
        assert_eq!(disk.verifier.counts().damaged_blocks, 0);
        assert!(disk.verifier.counts().checked_blocks > 0);
    }
}
