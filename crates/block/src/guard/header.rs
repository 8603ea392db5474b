//! The header block that marks a target as ours.

use super::in_use::Device;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// One page: the largest logical block in use, so that it can be written directly.
pub const HEADER_BYTES: usize = 4096;
/// Data begin here, as partitions do, so that a header does not shift them against the blocks of the drive.
pub const DATA_START_BYTES: u64 = 1 << 20;

const MAGIC: &[u8; 17] = b"BRICKYARD SCRATCH";
const VERSION: u32 = 1;
const NOTE: &[u8] = b"\nScratch space of the storage load generator Brickyard. It holds nothing but test data.\n";
/// Little-endian fields; the checksum is over everything before it.
const VERSION_AT: usize = 32;
const UUID_AT: usize = 40;
const DATA_BYTES_AT: usize = 56;
const SEED_AT: usize = 64;
const FILLED_BYTES_AT: usize = 72;
const TRIMMED_AT: usize = 80;
const NOTE_AT: usize = 128;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// What a target of ours says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub uuid: [u8; 16],
    /// Length of the data region, which begins at [`DATA_START_BYTES`].
    pub data_bytes: u64,
    /// Seed of the data it was filled with.
    pub seed: u64,
    /// So much of the start of the data region has been written.
    pub filled_bytes: u64,
    /// Behind that, a run may have trimmed blocks: which of them hold data is not known.
    pub is_trimmed: bool,
}

/// Direct transfers need aligned memory.
#[repr(C, align(4096))]
struct Block([u8; HEADER_BYTES]);

/// A MiB is erased in few transfers.
const ERASE_BYTES: usize = 1 << 16;

#[repr(C, align(4096))]
struct Zeros([u8; ERASE_BYTES]);

impl Header {
    /// Where the data region ends.
    pub fn end_bytes(&self) -> u64 {
        self.data_bytes.saturating_add(DATA_START_BYTES)
    }

    fn encode(&self) -> Box<Block> {
        let mut block = Box::new(Block([0; HEADER_BYTES]));
        let bytes = &mut block.0;
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, MAGIC);
        put(VERSION_AT, &VERSION.to_le_bytes());
        put(UUID_AT, &self.uuid);
        put(DATA_BYTES_AT, &self.data_bytes.to_le_bytes());
        put(SEED_AT, &self.seed.to_le_bytes());
        put(FILLED_BYTES_AT, &self.filled_bytes.to_le_bytes());
        put(TRIMMED_AT, &u64::from(self.is_trimmed).to_le_bytes());
        put(NOTE_AT, NOTE);
        let checksum = crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    fn decode(bytes: &[u8; HEADER_BYTES]) -> io::Result<Option<Header>> {
        if !bytes.starts_with(MAGIC) {
            return Ok(None);
        }
        let refuse = |message: &str| Err(io::Error::new(io::ErrorKind::InvalidData, message));
        if word32(bytes, CHECKSUM_AT) != crc32c(&bytes[..CHECKSUM_AT]) {
            return refuse("its Brickyard header is damaged");
        }
        if word32(bytes, VERSION_AT) != VERSION {
            return refuse("its header is of another version of Brickyard");
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[UUID_AT..UUID_AT + 16]);
        Ok(Some(Header {
            uuid,
            data_bytes: word64(bytes, DATA_BYTES_AT),
            seed: word64(bytes, SEED_AT),
            filled_bytes: word64(bytes, FILLED_BYTES_AT),
            is_trimmed: word64(bytes, TRIMMED_AT) != 0,
        }))
    }
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    u64::from(word32(bytes, at)) | u64::from(word32(bytes, at + 4)) << 32
}

/// The header of a target, if it begins with one; `InvalidData` where that is damaged or of another version.
pub fn read_header(file: &File) -> io::Result<Option<Header>> {
    let mut block = Box::new(Block([0; HEADER_BYTES]));
    match file.read_exact_at(&mut block.0, 0) {
        Ok(()) => Header::decode(&block.0),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(e),
    }
}

/// The header of a regular file as far as it still holds: what was filled ends at the first hole, as another program may
/// have cut the file or punched it since. (lseek(2): where a file system tells no holes, the file's end is the first.)
pub fn still_filled(file: &File, header: Header) -> Header {
    let hole_bytes = match rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(DATA_START_BYTES)) {
        Ok(at) => at,
        Err(rustix::io::Errno::NXIO) => DATA_START_BYTES, // the file ends before its data
        Err(_) => return header,
    };
    Header { filled_bytes: header.filled_bytes.min(hole_bytes.saturating_sub(DATA_START_BYTES)), ..header }
}

/// So many blocks of a device are looked at. A trimmed stretch of more than a 32nd of what was filled is found; of trims
/// that lie anywhere, 95 % of those of 4.6 % of it (1 - 0.05^(1/64)).
const SAMPLES: u64 = 64;

/// The header of a block device as far as it still holds: another program may have trimmed blocks since. What fills is
/// never blank, so what was filled ends at the last sample before one that reads as zeros, and the rest is not known. (A
/// drive that returns old data for trimmed blocks hides them, as does a sample that cannot be read.)
pub fn still_held(file: &File, header: Header) -> Header {
    let blocks = header.filled_bytes / HEADER_BYTES as u64;
    let samples = SAMPLES.min(blocks);
    let offset_bytes = |sample: u64| (2 * sample + 1) * blocks / (2 * samples) * HEADER_BYTES as u64;
    let mut block = Box::new(Block([0; HEADER_BYTES]));
    let mut is_blank = |sample: u64| {
        let at = DATA_START_BYTES + offset_bytes(sample);
        let read = file.read_exact_at(&mut block.0, at);
        // What is in the page cache would answer a buffered run.
        let one = std::num::NonZeroU64::new(HEADER_BYTES as u64);
        let _ = rustix::fs::fadvise(file, at, one, rustix::fs::Advice::DontNeed);
        read.is_ok() && block.0.iter().all(|byte| *byte == 0)
    };
    match (0..samples).find(|sample| is_blank(*sample)) {
        Some(blank) => {
            let filled_bytes = blank.checked_sub(1).map_or(0, offset_bytes);
            Header { filled_bytes, is_trimmed: true, ..header }
        }
        None => header,
    }
}

/// More extents than that are not counted: a file of a terabyte that was written at random may have millions.
const EXTENTS_MAX: usize = 100_000;

/// Bytes of a part of a regular file that hold no data, by its file system; `None` where it has too many extents, or
/// tells no holes.
pub fn hole_bytes(file: &File, start_bytes: u64, length_bytes: u64) -> Option<u64> {
    use rustix::fs::SeekFrom::{Data, Hole};
    let end_bytes = start_bytes + length_bytes;
    let (mut at, mut holes_bytes) = (start_bytes, 0);
    for _ in 0..EXTENTS_MAX {
        let data = match rustix::fs::seek(file, Data(at)) {
            Ok(data) => data.min(end_bytes),
            Err(rustix::io::Errno::NXIO) => end_bytes, // nothing but a hole up to the end
            Err(_) => return None,
        };
        holes_bytes += data - at;
        if data == end_bytes {
            return Some(holes_bytes);
        }
        at = rustix::fs::seek(file, Hole(data)).ok()?.min(end_bytes);
        if at == end_bytes {
            return Some(holes_bytes);
        }
    }
    None
}

/// Leaves the space of a part of a regular file, and none of its data.
pub fn empty_space(file: &File, start_bytes: u64, length_bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags as Flags, fallocate};
    match fallocate(file, Flags::ZERO_RANGE | Flags::KEEP_SIZE, start_bytes, length_bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) => {
            fallocate(file, Flags::PUNCH_HOLE | Flags::KEEP_SIZE, start_bytes, length_bytes)?;
            fallocate(file, Flags::KEEP_SIZE, start_bytes, length_bytes)?;
        }
        done => done?,
    }
    file.sync_all()
}

/// Replaces the header and waits until it is on the medium. The target must be one that [`super::open`] gave for
/// writing; of a block device that is not ours yet, [`claim`] does more.
pub fn write_header(file: &File, header: &Header) -> io::Result<()> {
    file.write_all_at(&header.encode().0, 0)?;
    file.sync_data()
}

/// Makes a block device ours: erases its first and last MiB, where every known signature has its place, so that none
/// is left that no longer means anything; then writes the header and lets the kernel forget the partitions.
pub fn claim(file: &File, size_bytes: u64, header: &Header) -> io::Result<()> {
    let block = HEADER_BYTES as u64;
    // The tail first: while the head stands, an interrupted claim leaves a device that is still known for what it was.
    erase(file, size_bytes.saturating_sub(DATA_START_BYTES) / block * block, size_bytes)?;
    file.sync_data()?;
    erase(file, block, DATA_START_BYTES.min(size_bytes))?;
    write_header(file, header)?;
    // Without the privilege for it the partitions stay, and the next opening names them.
    Device::of(&rustix::fs::fstat(file)?).forget_partitions(file)
}

/// Takes the header away, and waits until it is gone from the medium.
pub fn erase_header(file: &File) -> io::Result<()> {
    erase(file, 0, HEADER_BYTES as u64)?;
    file.sync_data()
}

fn erase(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = Box::new(Zeros([0; ERASE_BYTES]));
    let mut at = from;
    while at < to {
        let length = (ERASE_BYTES as u64).min(to - at);
        file.write_all_at(&zeros.0[..length as usize], at)?;
        at += length;
    }
    Ok(())
}

/// A random (version 4) UUID.
pub fn new_uuid() -> io::Result<[u8; 16]> {
    let mut uuid = [0u8; 16];
    let length = rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty())?;
    // getrandom(2) gives up to 256 bytes in one piece.
    debug_assert_eq!(length, uuid.len());
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}

/// CRC-32C (Castagnoli), bit by bit: a header is rare.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header =
        Header { uuid: [7; 16], data_bytes: 1 << 40, seed: 99, filled_bytes: 12345, is_trimmed: true };

    /// RFC 3720, appendix B.4, and the usual check string.
    #[test]
    fn checksum_is_crc32c() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
    }

    #[test]
    fn a_header_comes_back_as_written() {
        assert_eq!(Header::decode(&HEADER.encode().0).unwrap(), Some(HEADER));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let good = HEADER.encode();
        for at in 0..HEADER_BYTES {
            let mut bad = good.0;
            bad[at] ^= 0x10;
            match Header::decode(&bad) {
                Ok(None) => assert!(at < MAGIC.len()),
                Err(e) => assert!(at >= MAGIC.len() && e.to_string().contains("damaged")),
                Ok(Some(header)) => panic!("byte {at} may change unnoticed: {header:?}"),
            }
        }
    }

    #[test]
    fn a_header_of_another_version_is_not_ours_to_read() {
        let mut block = HEADER.encode();
        block.0[VERSION_AT] = 2;
        let checksum = crc32c(&block.0[..CHECKSUM_AT]);
        block.0[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        assert!(Header::decode(&block.0).unwrap_err().to_string().contains("another version"));
    }
}
