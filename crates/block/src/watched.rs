//! What the threads of devices are blocked in, for whoever watches them: a thread inside a system call cannot report
//! itself. The watched store plain words, which costs them nothing that could be measured; the watcher may see words of
//! two moments, and looks only where one of them has stood still for seconds.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::device::{Blocked, Entry, Operation, Order};
use io_uring::{opcode, squeue};
use plan::{FlushCall, SyncMode};

/// Enough for the number of any operation.
const OPERATION_BITS: u32 = 4;
const _: () = assert!(Operation::ALL.len() <= 1 << OPERATION_BITS);

/// One call, and since when it lasts.
#[derive(Default)]
pub struct Beacon {
    since_ns: AtomicU64,
    offset_bytes: AtomicU64,
    request: AtomicU64,
}

impl Beacon {
    #[inline(always)]
    pub fn light(&self, order: &Order, now_ns: u64) {
        self.offset_bytes.store(order.offset_bytes, Relaxed);
        self.request.store(u64::from(order.request_bytes) << OPERATION_BITS | order.operation as u64, Relaxed);
        // 0 means dark; the first ns of a run is rounded up.
        self.since_ns.store(now_ns.max(1), Relaxed);
    }

    #[inline(always)]
    pub fn dark(&self) {
        self.since_ns.store(0, Relaxed);
    }

    /// The request, where its thread has been blocked in it since before `before_ns`.
    pub fn blocked(&self, id: u64, before_ns: u64) -> Option<Blocked> {
        let since_ns = self.since_ns.load(Relaxed);
        let request = self.request.load(Relaxed);
        let operation = Operation::ALL[(request & ((1 << OPERATION_BITS) - 1)) as usize];
        let offset_bytes = self.offset_bytes.load(Relaxed);
        let order = || blocked_order(id as u32, operation, offset_bytes, (request >> OPERATION_BITS) as u32);
        (since_ns != 0 && since_ns < before_ns).then(|| Blocked { id, order: order(), since_ns })
    }
}

/// A ring's batch, and the call that submits it.
#[derive(Default)]
pub struct RingWatch {
    /// When the ring's thread went into the kernel; 0 while it is not there.
    entered_ns: AtomicU64,
    in_flight: AtomicU32,
    /// Entries that the call submits.
    batch: AtomicU32,
    /// The first of them, where earlier ones went by calls before it.
    first: AtomicU32,
    /// Where they are; none once the ring is gone.
    entries: Mutex<Option<Entries>>,
}

struct Entries(*const Words);

// SAFETY: it is only read through, under the lock that its owner takes before the entries go.
unsafe impl Send for Entries {}

/// An entry of the submission queue as the kernel's ABI lays it out (struct io_uring_sqe).
type Words = [u64; 8];
const _: () = assert!(size_of::<squeue::Entry>() == size_of::<Words>());
const OFFSET_WORD: usize = 1;
const ADDRESS_WORD: usize = 2;
const LENGTH_WORD: usize = 3;
const USER_DATA_WORD: usize = 4;

impl RingWatch {
    /// `entries` stay where they are until [`RingWatch::forgets`].
    pub fn holds(&self, entries: *const squeue::Entry) {
        *self.lock() = Some(Entries(entries.cast()));
    }

    pub fn forgets(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Entries>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    pub fn enters(&self, now_ns: u64, batch: u32, in_flight: u32) {
        self.batch.store(batch, Relaxed);
        self.in_flight.store(in_flight, Relaxed);
        self.entered_ns.store(now_ns, Relaxed);
    }

    /// Earlier entries have been submitted; a call for those from `first` on begins.
    pub fn moves_to(&self, first: u32, now_ns: u64) {
        self.first.store(first, Relaxed);
        self.entered_ns.store(now_ns, Relaxed);
    }

    /// The next batch is submitted from its first entry on.
    pub fn begins_anew(&self) {
        self.first.store(0, Relaxed);
    }

    #[inline(always)]
    pub fn leaves(&self) {
        self.entered_ns.store(0, Relaxed);
    }

    pub fn in_flight(&self) -> u64 {
        u64::from(self.in_flight.load(Relaxed))
    }

    /// Requests whose submission began before `before_ns` and has not ended. What had been submitted earlier may have
    /// ended meanwhile, unseen.
    pub fn blocked(&self, ring: usize, before_ns: u64) -> Vec<Blocked> {
        let since_ns = self.entered_ns.load(Acquire);
        let entries = self.lock();
        let (Some(Entries(first)), true) = (&*entries, since_ns != 0 && since_ns < before_ns) else {
            return Vec::new();
        };
        let read = |number: u32| {
            // SAFETY: the entries stay in place while we hold the lock. Their thread changes them only when it is out of
            // the kernel; what was read then is thrown away below.
            let words = unsafe { first.add(number as usize).read_volatile() };
            let (slot, code) = (words[USER_DATA_WORD] as u32, words[0] as u8);
            Blocked { id: (ring as u64) << 32 | u64::from(slot), order: order_of(slot, code, &words), since_ns }
        };
        let found = (self.first.load(Relaxed)..self.batch.load(Relaxed)).map(read).collect();
        fence(Acquire);
        if self.entered_ns.load(Relaxed) == since_ns { found } else { Vec::new() }
    }
}

fn order_of(slot: u32, code: u8, words: &Words) -> Order {
    let operation = match code {
        opcode::Write::CODE | opcode::WriteFixed::CODE => Operation::Write,
        opcode::Fsync::CODE => Operation::Flush,
        opcode::Fallocate::CODE => Operation::Trim,
        _ => Operation::Read,
    };
    // The length of a fallocate stands where others have their address.
    let request_bytes =
        if operation == Operation::Trim { words[ADDRESS_WORD] as u32 } else { words[LENGTH_WORD] as u32 };
    blocked_order(slot, operation, words[OFFSET_WORD], request_bytes)
}

fn blocked_order(slot: u32, operation: Operation, offset_bytes: u64, request_bytes: u32) -> Order {
    let (sync, flush_call) = (SyncMode::None, FlushCall::Fdatasync);
    Order { slot, target: 0, operation, sync, flush_call, request_bytes, offset_bytes, entry: Entry::default() }
}
