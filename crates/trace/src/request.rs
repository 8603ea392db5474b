//! One request as it was seen at a block device.

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Operation {
    Read,
    Write,
    Flush,
    Discard,
}

impl Operation {
    pub const ALL: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];

    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
        }
    }
}

/// The device does not report an end before the data are on the medium.
pub const FUA: u8 = 1;
/// Somebody waits for it (`REQ_SYNC`, as the kernel marks reads and synchronous writes).
pub const SYNC: u8 = 2;
/// Nobody has asked for these data yet.
pub const READ_AHEAD: u8 = 4;
/// Of the file system's own structures.
pub const META: u8 = 8;
/// It ended with an error.
pub const FAILED: u8 = 16;

/// One request. Times are in ns from the origin of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When it came to the block layer, before any queue; where that was not seen, when it was issued.
    pub arrival_ns: u64,
    /// When the driver got it; none if that is not known.
    pub issue_ns: Option<u64>,
    /// When it ended; none if that is not known or it never ended.
    pub complete_ns: Option<u64>,
    /// Which of the header's devices, counted from 0.
    pub device: u32,
    pub operation: Operation,
    /// [`FUA`], [`SYNC`] and the others, added up.
    pub flags: u8,
    /// From the beginning of the device; 0 of a flush.
    pub offset_bytes: u64,
    pub bytes: u64,
    /// Process of whoever caused it; 0 if that is not known.
    pub process: u32,
}

impl Request {
    pub fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether it has a place on the device.
    pub fn has_place(&self) -> bool {
        self.operation != Operation::Flush
    }

    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.bytes)
    }

    /// From issue (or arrival, where that is all that is known) to completion.
    pub fn service_ns(&self) -> Option<u64> {
        self.complete_ns.map(|end| end.saturating_sub(self.issue_ns.unwrap_or(self.arrival_ns)))
    }

    /// From arrival to completion.
    pub fn response_ns(&self) -> Option<u64> {
        self.complete_ns.map(|end| end.saturating_sub(self.arrival_ns))
    }
}
