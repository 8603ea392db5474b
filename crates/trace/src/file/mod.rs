//! The file of a trace (`.byt`): a magic number, a header, blocks of requests, and a summary. Every part has a check sum
//! of its own, and every block can be read by itself, so that a file that was cut off is read up to the tear.
//!
//! ```text
//! magic     8 bytes: "BYTRACE" and the version
//! parts     kind (4 bytes) · length (u32) · requests (u32) · CRC-32 (u32) · payload
//!           HEAD  JSON of `Header`
//!           REQS  requests, each in variable-length integers relative to the one before it in its block
//!           DONE  JSON of `Summary`
//! ```
//! Integers are little-endian; the check sum is of kind, length, number and payload.

mod coding;
mod ordered;
mod read;
mod write;

use serde::{Deserialize, Serialize};

use crate::request::{Operation, Request};

pub use ordered::Ordered;
pub use read::{End, ReadError, Reader};
pub use write::Writer;

pub const MAGIC: [u8; 8] = *b"BYTRACE\x01";
const PART_BYTES: usize = 16;
const HEAD: [u8; 4] = *b"HEAD";
const REQUESTS: [u8; 4] = *b"REQS";
const DONE: [u8; 4] = *b"DONE";
/// A block is written when it has so many bytes, and none is longer than [`PART_LIMIT`].
const BLOCK_BYTES: usize = 64 << 10;
const PART_LIMIT: usize = 4 << 20;

/// What a trace says of itself before its first request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    pub devices: Vec<Device>,
    /// Which clock its times are of: `monotonic`, `tsc`, `virtual`, or what the trace it comes from says.
    pub clock: String,
    /// The instant of time 0, in ns since 1970; 0 if that is not known.
    pub start_unix_ns: u64,
    /// Who wrote it, or what it was imported from.
    pub source: String,
    /// Whether arrivals are those before the queue; otherwise they are the instants of issue.
    pub before_queue: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    pub name: String,
    /// 0 if that is not known.
    pub capacity_bytes: u64,
    /// Offsets and sizes are multiples of this.
    pub sector_bytes: u32,
}

/// What is known at the end of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    pub requests: u64,
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub discards: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub discard_bytes: u64,
    /// Requests of which it is known when they ended.
    pub completed: u64,
    pub failed: u64,
    pub first_ns: u64,
    /// The latest instant of any request.
    pub last_ns: u64,
    /// The last arrival.
    pub last_arrival_ns: u64,
    /// The largest read or write, and the largest discard.
    pub request_bytes_max: u64,
    pub discard_bytes_max: u64,
    /// The largest number that divides every offset and size, at most 1 MiB; 0 without any.
    pub align_bytes: u64,
    /// How far requests reach.
    pub end_bytes: u64,
    /// No request arrived more than this before one that stands in front of it in the file.
    pub disorder_ns: u64,
    /// Devices that turned up behind the header; their numbers go on from its last one.
    pub devices: Vec<Device>,
    /// Events that were lost while the trace was taken.
    pub lost: u64,
    /// Lines or records of an imported trace that could not be read.
    pub bad: u64,
}

impl Summary {
    pub fn count(&mut self, request: &Request) {
        let number = match request.operation {
            Operation::Read => &mut self.reads,
            Operation::Write => &mut self.writes,
            Operation::Flush => &mut self.flushes,
            Operation::Discard => &mut self.discards,
        };
        *number += 1;
        match request.operation {
            Operation::Read => self.read_bytes = self.read_bytes.saturating_add(request.bytes),
            Operation::Write => self.write_bytes = self.write_bytes.saturating_add(request.bytes),
            Operation::Flush => {}
            Operation::Discard => self.discard_bytes = self.discard_bytes.saturating_add(request.bytes),
        }
        match request.operation {
            Operation::Flush => {}
            Operation::Discard => self.discard_bytes_max = self.discard_bytes_max.max(request.bytes),
            Operation::Read | Operation::Write => {
                self.request_bytes_max = self.request_bytes_max.max(request.bytes);
            }
        }
        if request.has_place() {
            let either = self.align_bytes | request.offset_bytes | request.bytes;
            self.align_bytes = if either == 0 { 0 } else { (1u64 << either.trailing_zeros()).min(1 << 20) };
            self.end_bytes = self.end_bytes.max(request.end_bytes());
        }
        self.completed += u64::from(request.complete_ns.is_some());
        self.failed += u64::from(request.is(crate::request::FAILED));
        if self.requests == 0 {
            self.first_ns = request.arrival_ns;
            self.last_arrival_ns = request.arrival_ns;
        }
        self.disorder_ns = self.disorder_ns.max(self.last_arrival_ns.saturating_sub(request.arrival_ns));
        self.first_ns = self.first_ns.min(request.arrival_ns);
        self.last_arrival_ns = self.last_arrival_ns.max(request.arrival_ns);
        let last = request.complete_ns.or(request.issue_ns).unwrap_or(request.arrival_ns);
        self.last_ns = self.last_ns.max(last).max(request.arrival_ns);
        self.requests += 1;
    }

    /// From the first arrival to the last.
    pub fn duration_ns(&self) -> u64 {
        self.last_arrival_ns - self.first_ns
    }

    pub fn of(&self, operation: Operation) -> u64 {
        match operation {
            Operation::Read => self.reads,
            Operation::Write => self.writes,
            Operation::Flush => self.flushes,
            Operation::Discard => self.discards,
        }
    }
}

fn sum_of(kind: [u8; 4], requests: u32, payload: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&kind);
    sum.update(&(payload.len() as u32).to_le_bytes());
    sum.update(&requests.to_le_bytes());
    sum.update(payload);
    sum.finalize()
}
