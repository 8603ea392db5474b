//! pread and pwrite: one call at a time in the loop's own thread where it has one slot, else a thread a slot. For hosts
//! where io_uring is absent or forbidden, and for calls that it doesn't have.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use engine::device::{Completion, Device, Operation, Order, Setup, Until};
use plan::{FlushCall, SyncMode};

use crate::alone;
use crate::clock::Clock;
use crate::memory::Buffers;
use crate::punctual::Punctual;
use crate::watched::Beacon;

/// The system calls of whatever blocks.
pub trait Calls {
    /// What can be done before the clock starts.
    fn prepare(&mut self, _order: &Order) {}

    /// Bytes moved, or a negated errno.
    ///
    /// # Safety
    /// `pointer` is the buffer of the order's slot, as long as its request and no one else's meanwhile.
    unsafe fn call(&mut self, order: &Order, pointer: *mut u8) -> i32;
}

/// Descriptors of targets that are files or block devices.
pub struct Handles(Arc<Vec<Handle>>);

impl Calls for Handles {
    #[inline(always)]
    unsafe fn call(&mut self, order: &Order, pointer: *mut u8) -> i32 {
        call(self.0[usize::from(order.target)], order, pointer)
    }
}

/// One target's descriptor, and whether it is a block device.
#[derive(Debug, Clone, Copy)]
pub struct Handle {
    pub fd: RawFd,
    pub block: bool,
}

pub enum Psync {
    Inline(Inline<Handles>),
    Pool(Pool),
}

/// Everything in the loop's own thread.
pub struct Inline<C> {
    calls: C,
    clock: Clock,
    buffers: Buffers,
    queued: Option<Order>,
    beacon: Arc<Beacon>,
    away_ns: u64,
    punctual: Punctual,
}

/// A thread a slot.
pub struct Pool {
    shared: Arc<Shared>,
    clock: Clock,
    in_flight: u32,
    away_ns: u64,
    punctual: Punctual,
}

struct Shared {
    files: Arc<Vec<Handle>>,
    clock: Clock,
    buffers: Mutex<Buffers>,
    work: Mutex<Work>,
    work_ready: Condvar,
    done: Mutex<Vec<Completion>>,
    done_ready: Condvar,
}

#[derive(Default)]
struct Work {
    orders: VecDeque<Order>,
    over: bool,
}

/// A thread that panicked holds no half-written state here: each lock guards single pushes and pops.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Psync {
    pub fn open(setup: &Setup, files: Arc<Vec<Handle>>, clock: Clock, beacon: Arc<Beacon>) -> Result<Psync, String> {
        let buffers = Buffers::new(setup.slots as usize, setup.buffer_bytes as usize)?;
        if setup.slots == 1 {
            return Ok(Psync::Inline(Inline::new(Handles(files), clock, buffers, beacon)));
        }
        let shared = Arc::new(Shared {
            files,
            clock,
            buffers: Mutex::new(buffers),
            work: Mutex::default(),
            work_ready: Condvar::new(),
            done: Mutex::new(Vec::with_capacity(setup.slots as usize)),
            done_ready: Condvar::new(),
        });
        let pool = Pool { shared: shared.clone(), clock, in_flight: 0, away_ns: 0, punctual: Punctual::default() };
        for slot in 0..setup.slots {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("brickyard-p{slot}"));
            thread.spawn(move || shared.serve()).map_err(|e| {
                format!("only {slot} of {} threads could be started ({e}); use less depth or workers", setup.slots)
            })?;
        }
        Ok(Psync::Pool(pool))
    }
}

impl Shared {
    fn serve(&self) {
        loop {
            let mut work = lock(&self.work);
            let order = loop {
                if work.over {
                    return;
                }
                if let Some(order) = work.orders.pop_front() {
                    break order;
                }
                work = self.work_ready.wait(work).unwrap_or_else(std::sync::PoisonError::into_inner);
            };
            drop(work);
            let pointer = lock(&self.buffers).pointer(order.slot);
            let submitted_ns = self.clock.now_ns();
            let result = call(self.files[usize::from(order.target)], &order, pointer);
            let ended_ns = self.clock.now_ns();
            lock(&self.done).push(Completion { slot: order.slot, result, submitted_ns, ended_ns });
            self.done_ready.notify_one();
        }
    }
}

/// The system call of an order; bytes moved, or a negated errno.
fn call(file: Handle, order: &Order, pointer: *mut u8) -> i32 {
    let (bytes, offset) = (order.request_bytes as usize, order.offset_bytes as libc::off_t);
    let vector = libc::iovec { iov_base: pointer.cast(), iov_len: bytes };
    loop {
        // SAFETY: the slot's buffer is at least `bytes` long and no one else's while its request is in flight.
        let result = unsafe {
            match order.operation {
                Operation::Read => libc::pread(file.fd, pointer.cast(), bytes, offset),
                Operation::Write => match order.sync {
                    SyncMode::None => libc::pwrite(file.fd, pointer.cast(), bytes, offset),
                    SyncMode::Sync => libc::pwritev2(file.fd, &vector, 1, offset, libc::RWF_SYNC),
                    SyncMode::Fua if file.block => alone::write(file.fd, &vector, offset),
                    SyncMode::Dsync | SyncMode::Fua => libc::pwritev2(file.fd, &vector, 1, offset, libc::RWF_DSYNC),
                },
                Operation::Flush => match order.flush_call {
                    FlushCall::Fsync => libc::fsync(file.fd) as isize,
                    FlushCall::Fdatasync => libc::fdatasync(file.fd) as isize,
                },
                Operation::Trim if file.block => {
                    let range = [order.offset_bytes, u64::from(order.request_bytes)];
                    libc::ioctl(file.fd, BLKDISCARD, range.as_ptr()) as isize
                }
                Operation::Trim => {
                    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    libc::fallocate(file.fd, mode, offset, bytes as libc::off_t) as isize
                }
                // Of a directory; programs, which alone ask for them, are refused where the target is none.
                _ => return -libc::EOPNOTSUPP,
            }
        };
        if result >= 0 {
            return result as i32;
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => continue,
            errno => return -errno.unwrap_or(libc::EIO),
        }
    }
}

/// _IO(0x12, 119), linux/fs.h.
const BLKDISCARD: libc::c_ulong = 0x1277;

fn sleep_until(clock: &Clock, until: Until, punctual: &mut Punctual) -> u64 {
    let mut now_ns = clock.now_ns();
    let ahead_ns = until.ns.saturating_sub(now_ns);
    let sleep_ns = if until.precise { punctual.sleep_ns(ahead_ns) } else { ahead_ns };
    if sleep_ns > 0 {
        let wanted_ns = now_ns + sleep_ns;
        std::thread::sleep(Duration::from_nanos(sleep_ns));
        now_ns = clock.now_ns();
        punctual.woke(wanted_ns, now_ns);
    }
    while until.precise && now_ns < until.ns {
        std::hint::spin_loop();
        now_ns = clock.now_ns();
    }
    now_ns
}

impl<C: Calls> Inline<C> {
    pub fn new(calls: C, clock: Clock, buffers: Buffers, beacon: Arc<Beacon>) -> Inline<C> {
        Inline { calls, clock, buffers, queued: None, beacon, away_ns: 0, punctual: Punctual::default() }
    }

    #[inline(always)]
    fn turn(&mut self, until: Until, done: &mut Vec<Completion>) -> u64 {
        let submitted_ns = self.clock.now_ns();
        let Some(order) = self.queued.take() else {
            let now_ns = sleep_until(&self.clock, until, &mut self.punctual);
            self.away_ns += now_ns - submitted_ns;
            return now_ns;
        };
        self.beacon.light(&order, submitted_ns);
        // SAFETY: the buffers live as long as this, and the slot has no other request.
        let result = unsafe { self.calls.call(&order, self.buffers.pointer(order.slot)) };
        self.beacon.dark();
        let ended_ns = self.clock.now_ns();
        self.away_ns += ended_ns - submitted_ns;
        done.push(Completion { slot: order.slot, result, submitted_ns, ended_ns });
        ended_ns
    }
}

impl Pool {
    fn turn(&mut self, until: Until, done: &mut Vec<Completion>) -> u64 {
        let before_ns = self.clock.now_ns();
        if self.in_flight == 0 {
            let now_ns = sleep_until(&self.clock, until, &mut self.punctual);
            self.away_ns += now_ns - before_ns;
            return now_ns;
        }
        let margin_ns = if until.precise { self.punctual.margin_ns() } else { 0 };
        loop {
            let mut ended = lock(&self.shared.done);
            let now_ns = self.clock.now_ns();
            let left_ns = until.ns.saturating_sub(now_ns);
            if ended.is_empty() && left_ns > margin_ns {
                let wait = Duration::from_nanos(left_ns - margin_ns);
                (ended, _) =
                    self.shared.done_ready.wait_timeout(ended, wait).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            done.append(&mut ended);
            drop(ended);
            let now_ns = self.clock.now_ns();
            if !done.is_empty() || now_ns >= until.ns {
                self.in_flight -= done.len() as u32;
                self.away_ns += now_ns - before_ns;
                return now_ns;
            }
            std::hint::spin_loop();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.work).over = true;
        self.shared.work_ready.notify_all();
    }
}

impl<C: Calls> Device for Inline<C> {
    #[inline(always)]
    fn now_ns(&mut self) -> u64 {
        self.clock.now_ns()
    }

    fn buffer(&mut self, slot: u32, request_bytes: u32) -> &mut [u8] {
        self.buffers.slice(slot, request_bytes as usize)
    }

    #[inline(always)]
    fn queue(&mut self, order: &Order) {
        self.calls.prepare(order);
        self.queued = Some(*order);
    }

    #[inline(always)]
    fn turn(&mut self, until: Until, done: &mut Vec<Completion>) -> Result<u64, String> {
        Ok(Inline::turn(self, until, done))
    }

    fn away_ns(&self) -> u64 {
        self.away_ns
    }
}

impl Device for Psync {
    #[inline(always)]
    fn now_ns(&mut self) -> u64 {
        match self {
            Psync::Inline(inline) => inline.now_ns(),
            Psync::Pool(pool) => pool.clock.now_ns(),
        }
    }

    fn buffer(&mut self, slot: u32, request_bytes: u32) -> &mut [u8] {
        match self {
            Psync::Inline(inline) => inline.buffer(slot, request_bytes),
            Psync::Pool(pool) => {
                let pointer = lock(&pool.shared.buffers).pointer(slot);
                // SAFETY: the slot is not in flight, so no thread of the pool touches its buffer, and the buffers live
                // as long as the pool.
                unsafe { std::slice::from_raw_parts_mut(pointer, request_bytes as usize) }
            }
        }
    }

    #[inline(always)]
    fn queue(&mut self, order: &Order) {
        match self {
            Psync::Inline(inline) => inline.queue(order),
            Psync::Pool(pool) => {
                pool.in_flight += 1;
                lock(&pool.shared.work).orders.push_back(*order);
                pool.shared.work_ready.notify_one();
            }
        }
    }

    #[inline(always)]
    fn turn(&mut self, until: Until, done: &mut Vec<Completion>) -> Result<u64, String> {
        Ok(match self {
            Psync::Inline(inline) => Inline::turn(inline, until, done),
            Psync::Pool(pool) => pool.turn(until, done),
        })
    }

    fn away_ns(&self) -> u64 {
        match self {
            Psync::Inline(inline) => inline.away_ns,
            Psync::Pool(pool) => pool.away_ns,
        }
    }
}
