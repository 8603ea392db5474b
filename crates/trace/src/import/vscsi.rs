//! CloudPhysics' records of virtual disks, versions 1 and 2, in the byte order of x86.
//!
//! Version 1, 32 bytes: serial number, length in bytes, segments (u32 each), command, version (u16), sector, µs (u64).
//! Version 2, 40 bytes: command, version (u16), serial number, length, segments (u32), sector, µs, response (u64). The
//! upper byte of the version is 1 or 2. In which unit the response is nobody says; it is not used.

use std::io::{self, Read, Write};

use super::{ImportError, Taker};
use crate::lines::read_up_to;
use crate::request::{Operation, Request, SYNC};

const SECTOR_BYTES: u64 = 512;

fn half(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}
fn word(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
}
fn long(record: &[u8], at: usize) -> u64 {
    u64::from(word(record, at)) | u64::from(word(record, at + 4)) << 32
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

impl Version {
    fn bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    fn is_of(self, record: &[u8]) -> bool {
        match self {
            Version::One => half(record, 14) >> 8 == 1 && operation(half(record, 12)).is_some(),
            Version::Two => half(record, 2) >> 8 == 2 && operation(half(record, 0)).is_some(),
        }
    }
}

/// The version whose marks the first records have.
pub(super) fn version(beginning: &[u8]) -> Option<Version> {
    [Version::Two, Version::One].into_iter().find(|version| {
        let mut records = beginning.chunks_exact(version.bytes()).take(8).peekable();
        records.peek().is_some() && records.all(|record| version.is_of(record))
    })
}

/// What a SCSI command does to the medium; none for all that do nothing to it.
fn operation(command: u16) -> Option<Operation> {
    match command & 0xff {
        0x08 | 0x28 | 0x88 | 0xa8 => Some(Operation::Read),
        0x0a | 0x2a | 0x2e | 0x8a | 0xaa | 0x41 | 0x93 => Some(Operation::Write),
        0x35 | 0x91 => Some(Operation::Flush),
        0x42 => Some(Operation::Discard),
        _ => None,
    }
}

pub(super) fn read<W: Write>(mut input: impl Read, taker: &mut Taker<W>) -> Result<(), ImportError> {
    let mut beginning = vec![0; 40 * 8];
    let got = read_up_to(&mut input, &mut beginning).map_err(ImportError::Read)?;
    beginning.truncate(got);
    let Some(version) = version(&beginning) else {
        return Err(ImportError::Bad("has no records of vscsi, version 1 or 2".into()));
    };
    let mut input = io::BufReader::with_capacity(1 << 20, io::Cursor::new(beginning).chain(input));
    let mut record = vec![0; version.bytes()];
    let mut count = 0;
    loop {
        let got = read_up_to(&mut input, &mut record).map_err(ImportError::Read)?;
        if got == 0 {
            break;
        }
        count += 1;
        if got < record.len() {
            taker.bad(count, b"", "the last record was cut off");
            break;
        }
        let (command, bytes, sector, us) = match version {
            Version::One => (half(&record, 12), word(&record, 4), long(&record, 16), long(&record, 24)),
            Version::Two => (half(&record, 0), word(&record, 8), long(&record, 16), long(&record, 24)),
        };
        let Some(operation) = operation(command) else {
            taker.bad(count, format!("SCSI command {command:#x}").as_bytes(), "neither reads nor writes");
            continue;
        };
        let (Some(offset_bytes), Some(arrival_ns)) = (sector.checked_mul(SECTOR_BYTES), us.checked_mul(1_000)) else {
            taker.bad(count, b"", "its place or time is beyond any");
            continue;
        };
        if offset_bytes.checked_add(u64::from(bytes)).is_none() {
            taker.bad(count, b"", "its place is beyond any device");
            continue;
        }
        let flush = operation == Operation::Flush;
        let request = Request {
            arrival_ns,
            issue_ns: None,
            complete_ns: None,
            device: 0,
            operation,
            flags: if flush { SYNC } else { 0 },
            offset_bytes: if flush { 0 } else { offset_bytes },
            bytes: if flush { 0 } else { u64::from(bytes) },
            process: 0,
        };
        taker.take(request, b"vscsi")?;
    }
    taker.note("latencies of this form are not used: their unit is not documented");
    Ok(())
}
