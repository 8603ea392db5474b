//! What is written: bytes that are a function of (seed, offset, sequence) alone.
//!
//! Duty: fill a buffer with data that no compressor or deduplicator can shorten, except for the shares of compressible
//! bytes and of duplicate blocks that were asked for; at memory speed, without allocation, with the same bytes on every
//! processor. Refusal: it does not know who writes, when, or whether it is read back; it is no cryptographic generator.
//!
//! The unit of generation is a 512-byte sector, so a range has the same bytes however requests cut it. The unit of the
//! shares is a *piece*: the part of a 4 KiB-aligned block that a request covers. The compressible share is one run of a
//! repeated byte at the end of each piece; a duplicate piece is one of [`DUPLICATE_POOL`] blocks of this seed.

use plan::Data;

/// Smallest logical block of any disk (ATA and SCSI both count in 512 bytes).
const SECTOR_BYTES: usize = 512;
/// Unit in which storage compresses or removes duplicates at the finest (VDO and most arrays: 4 KiB).
const PIECE_BYTES: usize = 4096;
/// How many different blocks the duplicates are drawn from: few, so that a short run of a few hundred blocks already
/// repeats each of them, yet more than one, so that a cache of the last block does not find them all.
pub const DUPLICATE_POOL: u64 = 16;
/// Bytes at the start of a piece that stay incompressible at a share of 100 %: they hold the two 64-bit keys' worth of
/// state that keep pieces different from each other.
const UNIQUE_BYTES: usize = 16;
/// 2^64 divided by the golden ratio, odd: the increment of SplitMix64 (Steele, Lea, Flood 2014).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Parallel generators: four registers of eight 64-bit words with AVX-512, eight of four with AVX2.
const LANES: usize = 32;
type Lanes = [u64; LANES];
type Sector = [u8; SECTOR_BYTES];
type FillSectors = unsafe fn(&Lanes, &mut [Sector], Keys, u64);

/// What makes a sector's data its own. Two independent 64-bit keys: with one, a run over a large device would meet
/// the birthday bound of 2^32 sectors (2 TiB) and repeat a sector now and then.
#[derive(Debug, Clone, Copy)]
struct Keys {
    low: u64,
    high: u64,
}

/// The generator of a stream's data. Cheap to share: filling does not change it.
#[derive(Debug, Clone)]
pub struct Payload {
    lanes: Lanes,
    seed: u64,
    /// Of 4096 bytes; scaled down for shorter pieces.
    compressible_bytes: usize,
    /// A piece is a duplicate if its hash is below this share of 2^32.
    duplicate_below: u64,
    fill_sectors: FillSectors,
}

impl Payload {
    pub fn new(seed: u64, data: Data) -> Payload {
        Payload::with_version(seed, data, fastest_version())
    }

    fn with_version(seed: u64, data: Data, fill_sectors: FillSectors) -> Payload {
        let mut lanes = [0; LANES];
        for (index, lane) in lanes.iter_mut().enumerate() {
            *lane = mix(mix(seed) ^ (index as u64 + 1).wrapping_mul(GOLDEN));
        }
        Payload {
            lanes,
            seed,
            compressible_bytes: (data.compressible.0.clamp(0.0, 100.0) / 100.0 * PIECE_BYTES as f64) as usize,
            duplicate_below: (data.duplicate.0.clamp(0.0, 100.0) / 100.0 * 4_294_967_296.0) as u64,
            fill_sectors,
        }
    }

    /// Fills `buffer`, which will be written at `offset_bytes`. Another `sequence` gives other data for the same place.
    pub fn fill(&self, buffer: &mut [u8], offset_bytes: u64, sequence: u64) {
        let keys = Keys {
            low: mix(self.seed ^ mix(sequence.wrapping_mul(GOLDEN))),
            high: mix(self.seed.rotate_left(32) ^ mix(!sequence)),
        };
        if self.compressible_bytes == 0 && self.duplicate_below == 0 {
            return self.fill_range(buffer, offset_bytes, keys);
        }
        let (mut rest, mut offset) = (buffer, offset_bytes);
        while !rest.is_empty() {
            let to_boundary = PIECE_BYTES - (offset % PIECE_BYTES as u64) as usize;
            let (piece, after) = rest.split_at_mut(to_boundary.min(rest.len()));
            let piece_bytes = piece.len() as u64;
            self.fill_piece(piece, offset, keys);
            (rest, offset) = (after, offset.wrapping_add(piece_bytes));
        }
    }

    fn fill_piece(&self, piece: &mut [u8], offset_bytes: u64, keys: Keys) {
        let mut draw = mix(keys.low.wrapping_add(offset_bytes / PIECE_BYTES as u64) ^ GOLDEN);
        let mut source = (offset_bytes, keys);
        if draw >> 32 < self.duplicate_below {
            let member = draw % DUPLICATE_POOL;
            draw = mix(self.seed.wrapping_add(member));
            // Keys of the pool depend on neither place nor sequence; inside the piece the place still counts, so a
            // piece cut by two requests has the same bytes as a whole one.
            let pool = Keys { low: mix(draw), high: mix(!draw) };
            source = (offset_bytes % PIECE_BYTES as u64, pool);
        }
        let run_bytes = piece.len() * self.compressible_bytes / PIECE_BYTES;
        let kept_bytes = (piece.len() - run_bytes).max(UNIQUE_BYTES.min(piece.len()));
        let (kept, run) = piece.split_at_mut(kept_bytes);
        self.fill_range(kept, source.0, source.1);
        // Not zero: a block of zeros is often not stored at all, which is more than compression.
        run.fill(1 + (draw % 255) as u8);
    }

    fn fill_range(&self, buffer: &mut [u8], offset_bytes: u64, keys: Keys) {
        let mut sector = offset_bytes / SECTOR_BYTES as u64;
        let skip = (offset_bytes % SECTOR_BYTES as u64) as usize;
        let mut body = buffer;
        if skip != 0 {
            let (head, after) = body.split_at_mut((SECTOR_BYTES - skip).min(body.len()));
            let head_bytes = head.len();
            head.copy_from_slice(&self.sector(keys, sector)[skip..skip + head_bytes]);
            (body, sector) = (after, sector.wrapping_add(1));
        }
        let (whole, tail) = body.as_chunks_mut::<SECTOR_BYTES>();
        // SAFETY: `fill_sectors` was chosen in `new` from what this processor has.
        unsafe { (self.fill_sectors)(&self.lanes, whole, keys, sector) };
        if !tail.is_empty() {
            let tail_bytes = tail.len();
            tail.copy_from_slice(&self.sector(keys, sector.wrapping_add(whole.len() as u64))[..tail_bytes]);
        }
    }

    fn sector(&self, keys: Keys, sector: u64) -> Sector {
        let mut bytes = [0; SECTOR_BYTES];
        // SAFETY: as above.
        unsafe { (self.fill_sectors)(&self.lanes, std::slice::from_mut(&mut bytes), keys, sector) };
        bytes
    }
}

/// The finalizer of SplitMix64: a bijection, so different inputs never give the same key.
#[inline(always)]
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// One step of xorshift64, triple (13, 7, 17) of Marsaglia 2003: a bijection of full period made of shifts and xors
/// only, which every vector unit has (64-bit multiplication is missing before AVX-512DQ).
#[inline(always)]
fn xorshift(word: u64) -> u64 {
    let word = word ^ (word << 13);
    let word = word ^ (word >> 7);
    word ^ (word << 17)
}

/// Written so that the compiler turns the lane loops into vector code; the versions below differ only in which vectors
/// it may use. Addition of the key is not linear over GF(2) as xorshift is, so sectors are no xor of each other.
#[inline(always)]
fn fill_sectors(lanes: &Lanes, sectors: &mut [Sector], keys: Keys, first_sector: u64) {
    for (index, sector) in sectors.iter_mut().enumerate() {
        let place = first_sector.wrapping_add(index as u64);
        let low = mix(keys.low.wrapping_add(place));
        let high = mix(keys.high.wrapping_add(place.wrapping_mul(GOLDEN)));
        let mut first = [0u64; LANES];
        for lane in 0..LANES {
            let key = if lane < LANES / 2 { low } else { high };
            first[lane] = xorshift(lanes[lane].wrapping_add(key));
        }
        let (words, _) = sector.as_chunks_mut::<8>();
        for lane in 0..LANES {
            words[lane] = first[lane].to_le_bytes();
            words[LANES + lane] = xorshift(first[lane].wrapping_add(GOLDEN)).to_le_bytes();
        }
    }
}

/// # Safety
/// None needed; `unsafe` only to share a type with the versions that need their processor's features.
unsafe fn fill_sectors_baseline(lanes: &Lanes, sectors: &mut [Sector], keys: Keys, first_sector: u64) {
    fill_sectors(lanes, sectors, keys, first_sector);
}

/// # Safety
/// The processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fill_sectors_avx2(lanes: &Lanes, sectors: &mut [Sector], keys: Keys, first_sector: u64) {
    fill_sectors(lanes, sectors, keys, first_sector);
}

/// # Safety
/// The processor must have AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn fill_sectors_avx512(lanes: &Lanes, sectors: &mut [Sector], keys: Keys, first_sector: u64) {
    fill_sectors(lanes, sectors, keys, first_sector);
}

/// Every version that this processor can run, slowest first.
fn versions() -> impl Iterator<Item = FillSectors> {
    let baseline = Some(fill_sectors_baseline as FillSectors);
    #[cfg(target_arch = "x86_64")]
    let vector = [
        is_x86_feature_detected!("avx2").then_some(fill_sectors_avx2 as FillSectors),
        is_x86_feature_detected!("avx512f").then_some(fill_sectors_avx512 as FillSectors),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let vector: [Option<FillSectors>; 0] = [];
    baseline.into_iter().chain(vector.into_iter().flatten())
}

fn fastest_version() -> FillSectors {
    versions().last().unwrap_or(fill_sectors_baseline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::Percent;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const MIB: usize = 1 << 20;

    fn data(compressible: f64, duplicate: f64) -> Data {
        Data { compressible: Percent(compressible), duplicate: Percent(duplicate) }
    }

    fn filled(data: Data, bytes: usize, offset_bytes: u64, sequence: u64) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        Payload::new(7, data).fill(&mut buffer, offset_bytes, sequence);
        buffer
    }

    fn packed_bytes(bytes: &[u8]) -> usize {
        miniz_oxide::deflate::compress_to_vec(bytes, 6).len()
    }

    /// Shares of pieces whose content occurred before.
    fn repeated_share(buffer: &[u8], unit_bytes: usize) -> f64 {
        let mut seen = BTreeMap::new();
        let repeats = buffer.chunks(unit_bytes).filter(|unit| seen.insert(unit.to_vec(), ()).is_some()).count();
        repeats as f64 / (buffer.len() / unit_bytes) as f64
    }

    #[test]
    fn default_data_do_not_compress_as_a_whole_or_by_block() {
        let buffer = filled(Data::default(), MIB, 0, 3);
        assert!(packed_bytes(&buffer) >= buffer.len(), "{} of {}", packed_bytes(&buffer), buffer.len());
        for block in buffer.chunks(4096) {
            assert!(packed_bytes(block) >= 4096);
        }
    }

    #[test]
    fn every_byte_value_is_about_as_frequent() {
        let mut counts = [0u32; 256];
        filled(Data::default(), MIB, 0, 0).iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // 4096 expected, standard deviation 64: six of them.
        assert!(counts.iter().all(|count| count.abs_diff(4096) < 6 * 64), "{counts:?}");
    }

    #[test]
    fn no_two_sectors_are_alike_over_places_and_sequences() {
        let mut all = Vec::new();
        for sequence in 0..8 {
            all.extend(filled(Data::default(), MIB / 2, 0, sequence));
        }
        assert_eq!(repeated_share(&all, SECTOR_BYTES), 0.0);
    }

    #[test]
    fn a_seed_gives_its_own_data_and_always_the_same() {
        let (mut first, mut again, mut other) = ([0; 4096], [0; 4096], [0; 4096]);
        Payload::new(1, Data::default()).fill(&mut first, 4096, 2);
        Payload::new(1, Data::default()).fill(&mut again, 4096, 2);
        Payload::new(2, Data::default()).fill(&mut other, 4096, 2);
        assert_eq!(first, again);
        assert_ne!(first, other);
        // A change of these bytes makes old runs irreproducible: it needs an entry in the change log.
        assert_eq!(u64::from_le_bytes(first[..8].try_into().unwrap()), 0x7abc_b4aa_d326_c80d);
    }

    #[test]
    fn compressible_share_is_what_a_block_wise_compressor_removes() {
        for percent in [10.0, 25.0, 50.0, 90.0] {
            for unit_bytes in [4096, 512] {
                let payload = Payload::new(7, data(percent, 0.0));
                let mut removed = 0;
                for block in 0..64u64 {
                    let mut buffer = vec![0; unit_bytes];
                    payload.fill(&mut buffer, block * unit_bytes as u64, 1);
                    removed += unit_bytes.saturating_sub(packed_bytes(&buffer));
                }
                let share = removed as f64 / (64 * unit_bytes) as f64 * 100.0;
                // Frame and code tables of the compressor cost up to 80 bytes a block.
                let frame_percent = 80.0 / unit_bytes as f64 * 100.0;
                assert!((percent - frame_percent..=percent + 1.0).contains(&share), "{percent}: {share}");
            }
        }
    }

    #[test]
    fn wholly_compressible_blocks_still_differ() {
        let buffer = filled(data(100.0, 0.0), MIB, 0, 0);
        assert!(packed_bytes(&buffer) < MIB / 40);
        assert_eq!(repeated_share(&buffer, 4096), 0.0);
    }

    #[test]
    fn duplicate_share_is_found_by_a_deduplicator() {
        for percent in [10.0, 50.0, 100.0] {
            let buffer = filled(data(0.0, percent), 16 * MIB, 0, 5);
            let found = repeated_share(&buffer, 4096) * 100.0 + DUPLICATE_POOL as f64 / 4096.0 * 100.0;
            assert!((found - percent).abs() < 2.5, "{percent}: {found}");
        }
        let both = filled(data(50.0, 50.0), 4 * MIB, 0, 5);
        assert!((repeated_share(&both, 4096) - 0.5).abs() < 0.06);
    }

    proptest! {
        #[test]
        fn every_version_gives_the_same_bytes(
            seed: u64, sequence: u64, sector in 0u64..1 << 50, skip in 0u64..4096, bytes in 0usize..10_000,
            compressible in 0.0f64..100.0, duplicate in 0.0f64..100.0,
        ) {
            let offset_bytes = sector * 512 + skip;
            for data in [Data::default(), data(compressible, duplicate)] {
                let mut all = versions().map(|version| {
                    let mut buffer = vec![0; bytes];
                    Payload::with_version(seed, data, version).fill(&mut buffer, offset_bytes, sequence);
                    buffer
                });
                let first = all.next().unwrap();
                prop_assert!(all.all(|other| other == first));
            }
        }

        #[test]
        fn bytes_do_not_depend_on_how_requests_cut_the_range(cut in 0usize..20_000, offset_bytes in 0u64..1 << 40) {
            for data in [Data::default(), data(0.0, 40.0)] {
                let payload = Payload::new(3, data);
                let (mut whole, mut parts) = (vec![0; 20_000], vec![0; 20_000]);
                payload.fill(&mut whole, offset_bytes, 9);
                payload.fill(&mut parts[..cut], offset_bytes, 9);
                payload.fill(&mut parts[cut..], offset_bytes + cut as u64, 9);
                prop_assert!(whole == parts);
            }
        }
    }
}
