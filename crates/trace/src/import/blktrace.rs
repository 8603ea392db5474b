//! The binary files of blktrace: one for each processor, or one that blkparse has put together.
//!
//! A record is 48 bytes in the byte order of the traced host: magic number with the version in its lowest byte, sequence
//! (u32), ns, sector (u64), bytes, action, process, device, processor (u32), error, bytes that follow (u16). The lower half
//! of the action says what happened, the upper half to what.

use std::io::{BufReader, Write};

use super::queue::{Event, NOWHERE, Queue, What};
use super::{ImportError, Looked, Taker};
use crate::lines::read_up_to;
use crate::request::{FAILED, FUA, META, Operation, READ_AHEAD, SYNC};

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const RECORD_BYTES: usize = 48;

const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNCHRONOUS: u32 = 1 << 3;
const NOTIFY: u32 = 1 << 10;
const AHEAD: u32 = 1 << 11;
const METADATA: u32 = 1 << 12;
const DISCARD: u32 = 1 << 13;
const FORCE: u32 = 1 << 15;
/// Messages of the tracer itself: the time of day among them.
const NOTE_TIME: u32 = 1;

fn word(record: &[u8], at: usize, swapped: bool) -> u32 {
    let bytes = [record[at], record[at + 1], record[at + 2], record[at + 3]];
    if swapped { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}
fn long(record: &[u8], at: usize, swapped: bool) -> u64 {
    let (first, second) = (u64::from(word(record, at, swapped)), u64::from(word(record, at + 4, swapped)));
    if swapped { first << 32 | second } else { second << 32 | first }
}
fn half(record: &[u8], at: usize, swapped: bool) -> u16 {
    let bytes = [record[at], record[at + 1]];
    if swapped { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
}

/// Whether it is in the byte order of another kind of host; none if it is no record.
fn order(record: &[u8]) -> Option<bool> {
    [false, true].into_iter().find(|swapped| record.len() >= 4 && word(record, 0, *swapped) == MAGIC | VERSION)
}

pub(super) fn is_it(beginning: &[u8]) -> bool {
    order(beginning).is_some()
}

struct Record {
    at_ns: u64,
    sector: u64,
    bytes: u64,
    action: u32,
    process: u32,
    device: u32,
    failed: bool,
    /// What follows it, where that is a note.
    note: Vec<u8>,
    swapped: bool,
}

/// One file, and its next record.
struct File {
    from: BufReader<Looked>,
    next: Option<Record>,
    count: u64,
}

impl File {
    fn advance<W: Write>(&mut self, taker: &mut Taker<W>) -> Result<(), ImportError> {
        self.next = None;
        let mut record = [0; RECORD_BYTES];
        let got = read_up_to(&mut self.from, &mut record).map_err(ImportError::Read)?;
        if got == 0 {
            return Ok(());
        }
        self.count += 1;
        let Some(swapped) = order(&record).filter(|_| got == RECORD_BYTES) else {
            let why = if got < RECORD_BYTES { "the last record was cut off" } else { "is no record; the rest is left" };
            taker.bad(self.count, b"", why);
            return Ok(());
        };
        let follows = usize::from(half(&record, 46, swapped));
        let mut note = vec![0; follows];
        if read_up_to(&mut self.from, &mut note).map_err(ImportError::Read)? < follows {
            taker.bad(self.count, b"", "the last record was cut off");
            return Ok(());
        }
        self.next = Some(Record {
            at_ns: long(&record, 8, swapped),
            sector: long(&record, 16, swapped),
            bytes: u64::from(word(&record, 24, swapped)),
            action: word(&record, 28, swapped),
            process: word(&record, 32, swapped),
            device: word(&record, 36, swapped),
            failed: half(&record, 44, swapped) != 0,
            note,
            swapped,
        });
        Ok(())
    }
}

pub(super) fn read<W: Write>(inputs: Vec<Looked>, taker: &mut Taker<W>) -> Result<(), ImportError> {
    let mut files: Vec<File> = inputs
        .into_iter()
        .map(|from| File { from: BufReader::with_capacity(1 << 18, from), next: None, count: 0 })
        .collect();
    for file in &mut files {
        file.advance(taker)?;
    }
    taker.origin_is_first = false;
    let mut queue = Queue::new();
    let mut cache = (0, Vec::new());
    // Each file is in the order of time; the earliest record of all is next.
    while let Some(number) = earliest(&files) {
        let file = &mut files[number];
        let Some(record) = file.next.take() else { break };
        let (count, category) = (file.count, record.action >> 16);
        file.advance(taker)?;
        if category & NOTIFY != 0 {
            if record.action & 0xffff == NOTE_TIME && record.note.len() >= 8 {
                let (s, ns) = (word(&record.note, 0, record.swapped), word(&record.note, 4, record.swapped));
                let unix_ns = u64::from(s) * 1_000_000_000 + u64::from(ns);
                taker.start_unix_ns.get_or_insert(unix_ns.saturating_sub(record.at_ns));
            }
            continue;
        }
        if record.sector.checked_mul(512).and_then(|b| b.checked_add(record.bytes)).is_none() {
            // A flush has no place, and says -1.
            if record.bytes > 0 {
                taker.bad(count, b"", "its place is beyond any device");
                continue;
            }
        }
        if let Some(event) = event_of(&record) {
            queue.take(&event, device_name, taker, &mut cache)?;
        }
    }
    queue.finish(device_name, taker, &mut cache)
}

fn earliest(files: &[File]) -> Option<usize> {
    let at = |(number, file): (usize, &File)| file.next.as_ref().map(|record| (record.at_ns, number));
    files.iter().enumerate().filter_map(at).min().map(|(_, number)| number)
}

/// The kernel's numbers of a device: 12 bits and 20 bits.
fn device_name(device: u32) -> Vec<u8> {
    format!("{}:{}", device >> 20, device & 0xf_ffff).into_bytes()
}

fn event_of(record: &Record) -> Option<Event> {
    let category = record.action >> 16;
    let what = match record.action & 0xffff {
        1 => What::Queued,
        6 => What::Requeued,
        7 => What::Issued,
        8 => What::Completed,
        _ => return None,
    };
    // Of a request that is no read or write of data, nothing can be done again.
    let operation = if category & DISCARD != 0 {
        Operation::Discard
    } else if record.bytes == 0 && category & FLUSH != 0 {
        Operation::Flush
    } else if record.bytes == 0 {
        return None;
    } else if category & WRITE != 0 {
        Operation::Write
    } else {
        Operation::Read
    };
    let mut flags = 0;
    for (bit, flag) in [(FORCE, FUA), (SYNCHRONOUS, SYNC), (AHEAD, READ_AHEAD), (METADATA, META)] {
        flags |= if category & bit != 0 { flag } else { 0 };
    }
    if what == What::Completed && record.failed {
        flags |= FAILED;
    }
    let sector = if operation == Operation::Flush { NOWHERE } else { record.sector };
    let Record { at_ns, bytes, process, device, .. } = *record;
    Some(Event { what, at_ns, device, sector, bytes, operation, flags, process })
}
