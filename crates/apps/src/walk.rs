//! One file opened, gone through from a place to its end, and closed: a chain.

use engine::device::{Entry, Operation};
use engine::source::{ChainKind, Next, Part, Request};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Data,
    Flush,
    Close,
    Over,
}

/// How far a file has been gone through.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    pub entry: Entry,
    pub kind: ChainKind,
    open: Operation,
    data: Operation,
    request_bytes: u32,
    fsync: bool,
    /// Up to here requests were issued.
    at_bytes: u64,
    to_bytes: u64,
    /// Up to here they have ended well.
    done_bytes: u64,
    stage: Stage,
    /// Nothing but the first step was issued.
    only_opened: bool,
}

impl Walk {
    pub fn new(entry: Entry, kind: ChainKind, open: Operation, data: Operation, request_bytes: u32) -> Walk {
        let (at_bytes, to_bytes, done_bytes) = (0, 0, 0);
        let stage = Stage::Open;
        Walk {
            entry,
            kind,
            open,
            data,
            request_bytes,
            fsync: false,
            at_bytes,
            to_bytes,
            done_bytes,
            stage,
            only_opened: false,
        }
    }

    pub fn over(mut self, from_bytes: u64, to_bytes: u64) -> Walk {
        (self.at_bytes, self.done_bytes, self.to_bytes) = (from_bytes, from_bytes, to_bytes);
        self
    }

    pub fn flushed(mut self, fsync: bool) -> Walk {
        self.fsync = fsync;
        self
    }

    /// The next step; it is asked for only when the one before has ended well.
    pub fn step(&mut self) -> Option<Next> {
        self.done_bytes = self.at_bytes;
        self.only_opened = self.stage == Stage::Open;
        let mut request =
            Request { operation: self.open, offset_bytes: 0, request_bytes: 0, pass: 0, entry: self.entry };
        let mut part = Part::Inner;
        match self.stage {
            Stage::Open => part = Part::First,
            Stage::Data => {
                request.operation = self.data;
                request.offset_bytes = self.at_bytes;
                request.request_bytes = (self.to_bytes - self.at_bytes).min(u64::from(self.request_bytes)) as u32;
                self.at_bytes += u64::from(request.request_bytes);
            }
            Stage::Flush => request.operation = Operation::Flush,
            Stage::Close => (request.operation, part) = (Operation::Close, Part::Last),
            Stage::Over => return None,
        }
        self.stage = match self.stage {
            Stage::Open | Stage::Data if self.at_bytes < self.to_bytes => Stage::Data,
            Stage::Open | Stage::Data if self.fsync => Stage::Flush,
            Stage::Open | Stage::Data | Stage::Flush => Stage::Close,
            Stage::Close | Stage::Over => Stage::Over,
        };
        Some(Next::Step(request, part, self.kind))
    }

    /// How long the file is for certain.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes
    }

    /// Whether the step that was issued last was the first.
    pub fn only_opened(&self) -> bool {
        self.only_opened
    }
}
