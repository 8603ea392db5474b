//! Where operations come from: address patterns, and whole programs.

use crate::device::{Completion, Entry, Operation};

/// One operation as a source asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub operation: Operation,
    pub offset_bytes: u64,
    pub request_bytes: u32,
    /// How often the source has gone through its region before.
    pub pass: u64,
    /// In a target that is a directory, what the request speaks of.
    pub entry: Entry,
}

impl Request {
    /// One that moves no data of its own and speaks of no place.
    pub fn flush(pass: u64) -> Request {
        Request { operation: Operation::Flush, offset_bytes: 0, request_bytes: 0, pass, entry: Entry::default() }
    }
}

/// What a slot does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Do(Request),
    /// A step of a chain. The slot stays with its chain until the last step has ended.
    Step(Request, Part, ChainKind),
    /// Nothing before this instant; the slot asks again then.
    Wait(u64),
    /// Nothing ever again.
    End,
}

/// When the next operation of a source that paces itself is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    At(u64),
    /// When something that is in flight has ended; the source knows more then.
    Later,
    /// There is none.
    Never,
}

/// What a chain is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ChainKind {
    /// Steps of a profile, or of a program that has no word of its own for them.
    Steps,
    CreateFile,
    ReadFile,
    AppendFile,
}

impl ChainKind {
    pub const ALL: [ChainKind; record::CHAIN_KINDS] =
        [ChainKind::Steps, ChainKind::CreateFile, ChainKind::ReadFile, ChainKind::AppendFile];

    /// Where it is counted.
    #[inline]
    pub fn cell(self) -> usize {
        record::CHAINS + self as usize
    }
}

/// Where a request stands in its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// In no chain.
    Whole,
    First,
    Inner,
    Last,
    /// First and last.
    Only,
}

/// A lane's source of operations. Patterns, dependent chains and whole applications are sources.
pub trait Source: Send {
    /// The next operation of a slot, `last` being the end of the one before it in that slot.
    fn next(&mut self, slot: u32, now_ns: u64, last: Option<&Completion>) -> Next;

    /// The instant at which the phase starts, told once before anything else.
    fn start_at(&mut self, _start_ns: u64) {}

    /// When the next operation is due, asked where the source paces itself (`Pacer::Own`).
    fn due(&self) -> Due {
        Due::Never
    }

    /// Of such a source: how many operations are due by this instant and were not taken.
    fn skip_until(&mut self, _now_ns: u64) -> u64 {
        0
    }

    /// Whether the write that it has just given is not done before its data are on the medium.
    fn durable(&self) -> bool {
        false
    }

    /// A step of the slot's chain has failed: what depends on it must not be issued.
    fn abort(&mut self, _slot: u32) {}

    /// A request of the slot has ended; `good`: it did what was asked, and brought what was expected. Every end is told,
    /// also those after the last request.
    fn ended(&mut self, _slot: u32, _completion: &Completion, _good: bool) {}

    /// Changes bytes that the slot has just read, and now writes back. Asked only where a lane's writes get no fresh
    /// data.
    fn dirty(&mut self, _buffer: &mut [u8]) {}
}
