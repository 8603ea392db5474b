//! Single happenings of a loop: failures and hangs, with what is known of the request.

use std::collections::BTreeMap;

use crate::device::{Entry, Operation};
use crate::verify::{Damage, DamageKind};

/// Why a request is no success.
#[derive(Debug, Clone)]
pub enum Failure {
    Errno(i32),
    /// Bytes that were moved.
    Short(u32),
    Damage(Damage),
}

#[derive(Debug, Clone)]
pub enum Note {
    Failed {
        at_ns: u64,
        stream: u16,
        operation: Operation,
        offset_bytes: u64,
        request_bytes: u32,
        entry: Entry,
        failure: Failure,
    },
    /// A frame was missing when its buffer ran out.
    Dropped {
        stream: u16,
        worker: u32,
        missed: crate::frames::MissedFrame,
    },
    Hangs {
        at_ns: u64,
        stream: u16,
        operation: Operation,
        offset_bytes: u64,
        request_bytes: u32,
        outstanding_ns: u64,
    },
}

/// Failed requests, each in one kind; failed calls by errno as well.
#[derive(Debug, Clone, Default)]
pub struct FailureCounts {
    pub by_kind: BTreeMap<&'static str, u64>,
    pub by_errno: BTreeMap<i32, u64>,
}

impl FailureCounts {
    pub fn add(&mut self, failure: &Failure) {
        if let Failure::Errno(errno) = failure {
            *self.by_errno.entry(*errno).or_default() += 1;
        }
        *self.by_kind.entry(failure.kind()).or_default() += 1;
    }

    pub fn merge(&mut self, other: FailureCounts) {
        for (kind, count) in other.by_kind {
            *self.by_kind.entry(kind).or_default() += count;
        }
        for (errno, count) in other.by_errno {
            *self.by_errno.entry(errno).or_default() += count;
        }
    }
}

impl Failure {
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Errno(_) => "errno",
            Failure::Short(_) => "short",
            Failure::Damage(damage) => match damage.kind {
                DamageKind::Bits => "bits",
                DamageKind::Torn => "torn",
                DamageKind::Misplaced => "misplaced",
                DamageKind::Stale => "stale",
                DamageKind::Unwritten => "unwritten",
            },
        }
    }
}
