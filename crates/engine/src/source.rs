//! Where operations come from: address patterns, and whole programs.

use crate::device::{Completion, Operation};

/// One operation as a source asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub operation: Operation,
    pub offset_bytes: u64,
    pub request_bytes: u32,
    /// How often the source has gone through its region before.
    pub pass: u64,
}

/// What a slot does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Do(Request),
    /// A step of a chain. The slot stays with its chain until the last step has ended.
    Step(Request, Part),
    /// Nothing before this instant; the slot asks again then.
    Wait(u64),
    /// Nothing ever again.
    End,
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

    /// A step of the slot's chain has failed: what depends on it must not be issued.
    fn abort(&mut self, _slot: u32) {}
}
