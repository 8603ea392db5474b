//! Duty: the log of a disk's requests: fixed records in one file, written data in another, and a counter in shared memory
//! that says how many records there are. A request is logged when it ends, before its caller is told.
//!
//! Refusal: no record is ever changed. A log that was cut short is read up to the last record that is whole.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hash;

pub const RECORDS: &str = "records";
pub const DATA: &str = "data";
pub const COUNT: &str = "count";
const MAGIC: &[u8; 8] = b"BRKLOG\x01\n";
pub const HEAD_BYTES: usize = 64;
pub const RECORD_BYTES: usize = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Write = 1,
    FlushStart = 2,
    /// `place` is the index of its start.
    FlushEnd = 3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Since the disk was made.
    pub time_ns: u64,
    pub offset_bytes: u64,
    /// Of a write, where its data begin in the file of data; of a flush's end, the index of its start.
    pub place: u64,
    /// Of the written data.
    pub hash: u64,
    pub bytes: u32,
    pub kind: Kind,
    /// The write was durable when it ended.
    pub durable: bool,
}

impl Record {
    fn encoded(&self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[0..8].copy_from_slice(&self.time_ns.to_le_bytes());
        out[8..16].copy_from_slice(&self.offset_bytes.to_le_bytes());
        out[16..24].copy_from_slice(&self.place.to_le_bytes());
        out[24..32].copy_from_slice(&self.hash.to_le_bytes());
        out[32..36].copy_from_slice(&self.bytes.to_le_bytes());
        out[36] = self.kind as u8;
        out[37] = u8::from(self.durable);
        let check = hash::of_bytes(0, &out[..40]);
        out[40..48].copy_from_slice(&check.to_le_bytes());
        out
    }

    fn decoded(from: &[u8]) -> Option<Record> {
        let word = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&from[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        if word(40) != hash::of_bytes(0, &from[..40]) {
            return None;
        }
        let kind = match from[36] {
            1 => Kind::Write,
            2 => Kind::FlushStart,
            3 => Kind::FlushEnd,
            _ => return None,
        };
        let bytes = word(32) as u32;
        let durable = from[37] != 0;
        Some(Record { time_ns: word(0), offset_bytes: word(8), place: word(16), hash: word(24), bytes, kind, durable })
    }
}

/// A counter that other processes map.
#[derive(Debug)]
struct Shared(*mut AtomicU64);

// SAFETY: the mapping lives as long as the value, and is used through an atomic alone.
unsafe impl Send for Shared {}

impl Shared {
    fn new(file: &File) -> io::Result<Shared> {
        file.set_len(8)?;
        // SAFETY: a fresh mapping of a file of 8 bytes, of which nothing else in this process knows.
        let place = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                8,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if place == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Shared(place.cast())) }
    }

    fn set(&self, count: u64) {
        // SAFETY: mapped until drop, and aligned to a page.
        unsafe { &*self.0 }.store(count, Ordering::Release);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length.
        unsafe { libc::munmap(self.0.cast(), 8) };
    }
}

/// A log that is being written, in a folder that holds none yet.
#[derive(Debug)]
pub struct Writer {
    records: File,
    data: File,
    data_bytes: u64,
    count: u64,
    shared: Shared,
}

impl Writer {
    pub fn new(folder: &Path, size_bytes: u64) -> io::Result<Writer> {
        let fresh = |name: &str| File::options().read(true).write(true).create_new(true).open(folder.join(name));
        let mut records = fresh(RECORDS)?;
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(MAGIC);
        head[8..16].copy_from_slice(&(RECORD_BYTES as u64).to_le_bytes());
        head[16..24].copy_from_slice(&size_bytes.to_le_bytes());
        records.write_all(&head)?;
        let shared = Shared::new(&fresh(COUNT)?)?;
        Ok(Writer { records, data: fresh(DATA)?, data_bytes: 0, count: 0, shared })
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn write(&mut self, time_ns: u64, offset_bytes: u64, data: &[u8], durable: bool) -> io::Result<()> {
        let (place, hash) = (self.data_bytes, hash::of_bytes(0, data));
        self.data.write_all_at(data, place)?;
        self.data_bytes += data.len() as u64;
        let bytes = data.len() as u32;
        self.add(Record { time_ns, offset_bytes, place, hash, bytes, kind: Kind::Write, durable })
    }

    /// The index of the start, which its end names.
    pub fn flush_start(&mut self, time_ns: u64) -> io::Result<u64> {
        self.flush(time_ns, Kind::FlushStart, 0)?;
        Ok(self.count - 1)
    }

    pub fn flush_end(&mut self, time_ns: u64, start: u64) -> io::Result<()> {
        self.flush(time_ns, Kind::FlushEnd, start)
    }

    fn flush(&mut self, time_ns: u64, kind: Kind, place: u64) -> io::Result<()> {
        self.add(Record { time_ns, offset_bytes: 0, place, hash: 0, bytes: 0, kind, durable: false })
    }

    fn add(&mut self, record: Record) -> io::Result<()> {
        self.records.write_all(&record.encoded())?;
        self.count += 1;
        self.shared.set(self.count);
        Ok(())
    }
}

/// A log to read.
#[derive(Debug)]
pub struct Log {
    pub size_bytes: u64,
    pub records: Vec<Record>,
    /// Of the records; the written data are in it by their hashes.
    pub hash: u64,
    /// Bytes behind the last record that is whole.
    pub torn_bytes: u64,
    data: File,
}

impl Log {
    pub fn open(folder: &Path) -> Result<Log, String> {
        let named =
            |name: &str, e: io::Error| format!("{}: {e}; name a folder with a log", folder.join(name).display());
        let mut bytes = Vec::new();
        let read = File::open(folder.join(RECORDS)).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(|e| named(RECORDS, e))?;
        let data = File::open(folder.join(DATA)).map_err(|e| named(DATA, e))?;
        let data_bytes = data.metadata().map_err(|e| named(DATA, e))?.len();
        if bytes.len() < HEAD_BYTES || &bytes[..8] != MAGIC || bytes[8] != RECORD_BYTES as u8 {
            return Err(format!("{}: not a log of brickyard lab", folder.join(RECORDS).display()));
        }
        let mut size = [0; 8];
        size.copy_from_slice(&bytes[16..24]);
        let size_bytes = u64::from_le_bytes(size);
        let mut records = Vec::new();
        for chunk in bytes[HEAD_BYTES..].chunks_exact(RECORD_BYTES) {
            match Record::decoded(chunk).filter(|r| fits(r, size_bytes, data_bytes, records.len())) {
                Some(record) => records.push(record),
                None => break,
            }
        }
        let whole = HEAD_BYTES + records.len() * RECORD_BYTES;
        let hash = hash::of_bytes(0, &bytes[..whole]);
        Ok(Log { size_bytes, records, hash, torn_bytes: (bytes.len() - whole) as u64, data })
    }

    /// The data of a write, which must be what was written.
    pub fn data(&self, index: usize) -> Result<Vec<u8>, String> {
        let record = &self.records[index];
        let mut out = vec![0; record.bytes as usize];
        self.data.read_exact_at(&mut out, record.place).map_err(|e| format!("the log's data cannot be read: {e}"))?;
        if hash::of_bytes(0, &out) != record.hash {
            return Err(format!("the data of the log's record {index} have changed; record again"));
        }
        Ok(out)
    }
}

fn fits(record: &Record, size_bytes: u64, data_bytes: u64, index: usize) -> bool {
    let ends = |start: u64, limit: u64| start.checked_add(u64::from(record.bytes)).is_some_and(|end| end <= limit);
    match record.kind {
        Kind::Write => ends(record.offset_bytes, size_bytes) && ends(record.place, data_bytes),
        Kind::FlushStart => true,
        Kind::FlushEnd => record.place < index as u64,
    }
}
