//! What carries requests: real storage or a model of it. The loop knows nothing else of either.

use record::event::Counted;

use crate::honours::Honours;

/// What a request does. Those from `Append` on exist only in a target that is a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    Read,
    Write,
    Flush,
    Trim,
    /// A write at the end of the file, wherever that is.
    Append,
    /// A write that is put together by one call a byte, as putc does; the request is a buffer full of them.
    Put,
    /// A read that is taken apart by one call a byte, as getc does.
    Get,
    Create,
    Open,
    Close,
    Stat,
    Unlink,
    Mkdir,
    Rmdir,
}

impl Operation {
    pub const ALL: [Operation; record::CHAINS] = [
        Operation::Read,
        Operation::Write,
        Operation::Flush,
        Operation::Trim,
        Operation::Append,
        Operation::Put,
        Operation::Get,
        Operation::Create,
        Operation::Open,
        Operation::Close,
        Operation::Stat,
        Operation::Unlink,
        Operation::Mkdir,
        Operation::Rmdir,
    ];

    pub fn of(moves: plan::Moves) -> Operation {
        match moves {
            plan::Moves::Read => Operation::Read,
            plan::Moves::Write => Operation::Write,
            plan::Moves::Trim => Operation::Trim,
        }
    }

    pub fn name(self) -> &'static str {
        Counted::from(self).name()
    }

    /// Whether a success moves as many bytes as were asked for.
    #[inline(always)]
    pub fn moves_data(self) -> bool {
        use Operation::{Append, Get, Put, Read, Write};
        matches!(self, Read | Write | Append | Put | Get)
    }

    /// Whether it takes the bytes of the slot's buffer.
    #[inline(always)]
    pub fn writes(self) -> bool {
        matches!(self, Operation::Write | Operation::Append | Operation::Put)
    }
}

impl From<Operation> for Counted {
    fn from(operation: Operation) -> Counted {
        Counted::of_cell(operation as usize)
    }
}

/// A file or directory within a target that is a directory; the default is the target itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Entry {
    /// The directory below the target that it is in, counted from 1.
    pub directory: u32,
    /// Its number there, counted from 1; 0 is the directory itself.
    pub number: u64,
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.number {
            0 => write!(f, "d{}", self.directory),
            number => write!(f, "d{}/{number}", self.directory),
        }
    }
}

/// One request as a device gets it. `offset_bytes` counts from the start of the target.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    pub slot: u32,
    pub target: u16,
    pub operation: Operation,
    pub sync: plan::SyncMode,
    pub flush_call: plan::FlushCall,
    pub request_bytes: u32,
    pub offset_bytes: u64,
    /// In a target that is a directory, what the request speaks of.
    pub entry: Entry,
}

/// The end of a request. `result` is the number of bytes moved, or a negated errno.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    pub slot: u32,
    pub result: i32,
    pub submitted_ns: u64,
    pub ended_ns: u64,
}

/// How long a turn may last.
#[derive(Debug, Clone, Copy)]
pub struct Until {
    pub ns: u64,
    /// Whether something is due at that instant, so that waking up late would make it late.
    pub precise: bool,
}

/// Storage, real or modelled, with `slots` requests in flight at the most and a buffer for each.
pub trait Device {
    /// Whether time is the model's own. Such a device is never waited for.
    const VIRTUAL: bool = false;

    /// The run's clock.
    fn now_ns(&mut self) -> u64;

    /// The bytes that the slot's request writes, or that its last read brought. Empty where a model carries no data.
    fn buffer(&mut self, slot: u32, request_bytes: u32) -> &mut [u8];

    /// Puts a request into the next batch. The slot must be free.
    fn queue(&mut self, order: &Order);

    /// Submits what is queued, reaps what has ended, and returns the clock. With nothing to reap it waits for one
    /// completion or `until`, whichever comes first; with `reap` above 1 it waits for so many.
    fn turn(&mut self, until: Until, done: &mut Vec<Completion>) -> Result<u64, String>;

    /// Time spent in the kernel or in the model since the device was made, in ns; the rest of a loop's time is its own.
    fn away_ns(&self) -> u64;

    /// What looks at single submissions have found, where the device can tell.
    fn submissions(&self) -> Submissions {
        Submissions::default()
    }
}

/// Sums over those submissions of a device that were looked at: whether requests end in the call that submits them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Submissions {
    pub looks: u64,
    /// Requests in flight as the loop counts them, those of the batch included.
    pub in_flight: u64,
    /// Of these, what the device had at once: those that did not end in the call, and at least one.
    pub at_once: u64,
}

/// A request that a device's thread is blocked in.
#[derive(Debug, Clone, Copy)]
pub struct Blocked {
    /// The same for as long as the request is blocked.
    pub id: u64,
    pub order: Order,
    pub since_ns: u64,
}

/// Makes one device a loop, in the loop's own thread.
pub trait Devices: Send + Sync + 'static {
    type Device: Device;

    fn open(&self, setup: &Setup) -> Result<Self::Device, String>;

    /// What these devices obey of what a profile can ask for.
    fn honours(&self) -> Honours;

    /// The clock of the devices, for whoever watches them. A virtual clock has no watcher.
    fn now_ns(&self) -> u64;

    /// How many threads to spread `lanes` over.
    fn loops(&self, lanes: usize) -> usize;

    /// What the devices that were opened have been set up with.
    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    /// Requests that a device's thread is blocked in since before `since_ns`, so that its loop cannot name them.
    fn blocked(&self, _since_ns: u64) -> Vec<Blocked> {
        Vec::new()
    }

    /// Requests that a loop whose thread is blocked has in flight.
    fn outstanding(&self, _loop_index: usize) -> u64 {
        1
    }
}

/// What a loop needs of its device.
#[derive(Debug, Clone)]
pub struct Setup {
    pub loop_index: usize,
    pub loops: usize,
    pub slots: u32,
    pub buffer_bytes: u32,
    pub reap: u32,
}
