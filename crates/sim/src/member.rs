//! What stands behind one port of a controller: a rotating drive, a solid-state drive or a cloud volume, all of them
//! with the same three calls.

use std::collections::BTreeSet;

use crate::cloud::Cloud;
use crate::drive::Drive;
use crate::ssd::Ssd;
use crate::stamps::Stamped;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Flush,
    Trim,
}

/// One command to a member. `id` comes back with its end.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    pub id: u32,
    pub kind: Kind,
    pub offset_bytes: u64,
    pub bytes: u32,
    /// The write must be on the medium when it ends.
    pub durable: bool,
    /// The controller hands it to a drive that takes one command at a time before all that wait for it.
    pub urgent: bool,
    /// Whose data it writes, for whoever asks after a power cut; 0 where nobody will.
    pub stamp: u64,
}

/// A write that a power cut took away after it was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    pub offset_bytes: u64,
    pub bytes: u64,
}

#[derive(Debug)]
pub enum Member {
    Rotating(Box<Drive>),
    Ssd(Box<Ssd>),
    Cloud(Box<Cloud>),
}

impl Member {
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            Member::Rotating(d) => d.capacity_bytes(),
            Member::Ssd(d) => d.capacity_bytes(),
            Member::Cloud(d) => d.capacity_bytes(),
        }
    }

    /// Takes a command. `now_ns` never runs back.
    #[inline]
    pub fn submit(&mut self, now_ns: u64, command: Command) {
        match self {
            Member::Rotating(d) => d.submit(now_ns, command),
            Member::Ssd(d) => d.submit(now_ns, command),
            Member::Cloud(d) => d.submit(now_ns, command),
        }
    }

    /// When something happens next, [`crate::NEVER`] where nothing will.
    #[inline]
    pub fn next_event(&self) -> u64 {
        match self {
            Member::Rotating(d) => d.next_event(),
            Member::Ssd(d) => d.next_event(),
            Member::Cloud(d) => d.next_event(),
        }
    }

    /// Lets everything happen that is due by `now_ns`; ids of commands that ended go to `done`.
    #[inline]
    pub fn advance(&mut self, now_ns: u64, done: &mut Vec<u32>) {
        match self {
            Member::Rotating(d) => d.advance(now_ns, done),
            Member::Ssd(d) => d.advance(now_ns, done),
            Member::Cloud(d) => d.advance(now_ns, done),
        }
    }

    /// The power fails: what was acknowledged and is not on the medium is lost, commands in flight never end.
    pub fn power_cut(&mut self, now_ns: u64) -> Vec<Lost> {
        match self {
            Member::Rotating(d) => d.power_cut(now_ns),
            Member::Ssd(d) => d.power_cut(now_ns),
            Member::Cloud(d) => d.power_cut(),
        }
    }

    /// Writes that have ended and are not yet where they are to stay.
    pub fn unwritten_bytes(&self) -> u64 {
        match self {
            Member::Rotating(d) => d.unwritten_bytes(),
            Member::Ssd(d) => d.unwritten_bytes(),
            Member::Cloud(_) => 0,
        }
    }

    /// Whose data a power cut would take.
    pub fn stamped(&self) -> Vec<Stamped> {
        match self {
            Member::Rotating(d) => d.stamped(),
            Member::Ssd(d) => d.stamped(),
            Member::Cloud(_) => Vec::new(),
        }
    }

    pub fn note_stamps(&self, seen: &mut BTreeSet<u64>) {
        seen.extend(self.stamped().into_iter().map(|piece| piece.stamp));
    }

    /// Turns the cache of writes on or off; none leaves it as the drive's description has it. A cloud volume shows none.
    pub fn set_write_cache(&mut self, on: Option<bool>) {
        match self {
            Member::Rotating(d) => d.set_write_cache(on),
            Member::Ssd(d) => d.set_write_cache(on),
            Member::Cloud(_) => {}
        }
    }
}
