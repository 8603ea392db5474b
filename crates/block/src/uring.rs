//! io_uring: one ring a loop, registered files and buffers, submit and reap in one call.

use std::os::fd::RawFd;
use std::sync::Arc;

use engine::device::{Completion, Device, Operation, Order, Setup, Submissions, Until};
use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};
use plan::{FlushCall, SyncMode};

use crate::clock::Clock;
use crate::memory::Buffers;
use crate::punctual::Punctual;
use crate::watched::RingWatch;

const WAIT_NS_MAX: u64 = 999_999_999;
/// While looking, the kernel is asked to post completions at most so often.
const LOOK_NS: u64 = 1_000;
/// How often a submission is made by a call of its own, to see which of its requests end in that call: it costs a system
/// call of some hundred ns, a few millionths of the time.
const SUBMISSION_LOOK_NS: u64 = 50_000_000;
/// One registered buffer a request up to here, the kernel's limit on vectors; beyond, one for all.
const BUFFERS_REGISTERED_MAX: u32 = 1024;
/// A registered buffer is at most 1 GiB long.
const BUFFER_REGISTERED_BYTES_MAX: usize = 1 << 30;
/// IORING_MAX_ENTRIES of the kernel.
const ENTRIES_MAX: u32 = 32_768;
/// `enter` is called again at most so often when it was interrupted before it submitted anything.
const ENTER_TRIES: u32 = 1_000;

/// What a ring was set up with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Features {
    pub single_issuer: bool,
    pub fixed_buffers: bool,
    pub iopoll: bool,
    pub nop: bool,
}

impl Features {
    pub fn names(&self) -> Vec<String> {
        let mut names = vec!["registered_files".to_string()];
        if self.single_issuer {
            names.extend(["single_issuer".into(), "defer_taskrun".into(), "coop_taskrun".into()]);
        }
        if self.fixed_buffers {
            names.push("registered_buffers".into());
        }
        if self.iopoll {
            names.push("iopoll".into());
        }
        names
    }
}

pub struct Uring {
    ring: IoUring,
    clock: Clock,
    buffers: Buffers,
    submitted_ns: Vec<u64>,
    watch: Arc<RingWatch>,
    /// What goes into the submission queue at the next turn. Entries are put together here and copied later: in the
    /// queue itself, they would first be put together on the stack.
    entries: Vec<squeue::Entry>,
    in_flight: u32,
    submissions: Submissions,
    look_at_ns: u64,
    reap: u32,
    /// One call submits at most so many.
    submit: u32,
    away_ns: u64,
    punctual: Punctual,
    one_buffer: bool,
    /// Reads and writes use registered buffers.
    transfers_fixed: bool,
    nop_bytes: Vec<u32>,
    pub features: Features,
}

/// Entries of a ring for so many slots.
pub fn ring_entries(slots: u32) -> u32 {
    slots.clamp(4, ENTRIES_MAX).next_power_of_two()
}

/// A ring, with the newest features that the kernel grants.
pub fn build_ring(entries: u32, iopoll: bool) -> std::io::Result<(IoUring, bool)> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun().setup_taskrun_flag();
    if iopoll {
        builder.setup_iopoll();
    }
    match builder.build(entries) {
        Ok(ring) => Ok((ring, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let mut plain = IoUring::builder();
            if iopoll {
                plain.setup_iopoll();
            }
            plain.build(entries).map(|ring| (ring, false))
        }
        Err(error) => Err(error),
    }
}

impl Uring {
    pub fn open(setup: &Setup, files: &[RawFd], clock: Clock, iopoll: bool) -> Result<Uring, String> {
        if setup.slots > ENTRIES_MAX {
            let slots = setup.slots;
            return Err(format!("{slots} requests in flight a ring, at most {ENTRIES_MAX}; use less depth or workers"));
        }
        let (ring, single_issuer) =
            build_ring(ring_entries(setup.slots), iopoll).map_err(|e| format!("io_uring could not be set up: {e}"))?;
        ring.submitter().register_files(files).map_err(|e| format!("io_uring took no files: {e}"))?;
        let buffers = Buffers::new(setup.slots as usize, setup.buffer_bytes as usize)?;
        let mut uring = Uring {
            ring,
            clock,
            buffers,
            submitted_ns: vec![0; setup.slots as usize],
            watch: Arc::default(),
            nop_bytes: vec![0; setup.slots as usize],
            entries: Vec::with_capacity(setup.slots as usize),
            in_flight: 0,
            submissions: Submissions::default(),
            // Without deferred task work, what ended in the call cannot be told from what ended soon after.
            look_at_ns: if single_issuer { 0 } else { u64::MAX },
            reap: setup.reap,
            submit: u32::MAX,
            away_ns: 0,
            punctual: Punctual::default(),
            one_buffer: setup.slots > BUFFERS_REGISTERED_MAX,
            transfers_fixed: false,
            features: Features { single_issuer, fixed_buffers: false, iopoll, nop: false },
        };
        uring.features.fixed_buffers = uring.register_buffers(setup);
        uring.watch.holds(uring.entries.as_ptr());
        uring.transfers_fixed = uring.features.fixed_buffers;
        Ok(uring)
    }

    pub fn watch(&self) -> Arc<RingWatch> {
        self.watch.clone()
    }

    /// Turns every request into a no-operation.
    pub fn set_nop(&mut self) {
        self.features.nop = true;
    }

    /// One call submits at most so many requests; otherwise all that wait.
    pub fn set_submit(&mut self, at_most: u32) {
        self.submit = at_most;
    }

    /// Where the limit on locked memory forbids it, requests carry plain addresses.
    fn register_buffers(&self, setup: &Setup) -> bool {
        let (start, bytes) = self.buffers.whole();
        let vectors: Vec<libc::iovec> = if self.one_buffer {
            vec![libc::iovec { iov_base: start.cast(), iov_len: bytes }]
        } else {
            let vector = |slot| libc::iovec {
                iov_base: self.buffers.pointer(slot).cast(),
                iov_len: setup.buffer_bytes.max(1) as usize,
            };
            (0..setup.slots).map(vector).collect()
        };
        if vectors.iter().any(|v| v.iov_len > BUFFER_REGISTERED_BYTES_MAX) {
            return false;
        }
        // SAFETY: the buffers live as long as the ring; the kernel keeps the pages pinned even should it live longer.
        unsafe { self.ring.submitter().register_buffers(&vectors) }.is_ok()
    }

    /// Puts an entry into the next batch. Each operation builds and pushes its own: one entry out of a `match` would be
    /// put together on the stack and copied in pieces, which cost a third of the loop's own time.
    #[inline(always)]
    fn push(&mut self, entry: squeue::Entry, slot: u32) {
        self.entries.push(entry.user_data(u64::from(slot)));
    }

    #[inline(never)]
    fn push_rare(&mut self, order: Order) {
        let file = Fixed(u32::from(order.target));
        let pointer = self.buffers.pointer(order.slot);
        let (bytes, offset) = (order.request_bytes, order.offset_bytes);
        let entry = match order.operation {
            Operation::Read => opcode::Read::new(file, pointer, bytes).offset(offset).build(),
            Operation::Write => {
                opcode::Write::new(file, pointer, bytes).offset(offset).rw_flags(rw_flags(order.sync)).build()
            }
            Operation::Flush => {
                let flags = match order.flush_call {
                    FlushCall::Fsync => FsyncFlags::empty(),
                    FlushCall::Fdatasync => FsyncFlags::DATASYNC,
                };
                opcode::Fsync::new(file).flags(flags).build()
            }
            Operation::Trim => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                opcode::Fallocate::new(file, u64::from(bytes)).offset(offset).mode(mode).build()
            }
            // Of a directory; programs, which alone ask for them, are refused where the target is none.
            _ => opcode::Nop::new().build(),
        };
        self.push(entry, order.slot);
    }

    /// Submits, and waits for `want` completions or `wait_ns`.
    #[inline(always)]
    fn enter(&mut self, batch: u32, want: u32, wait_ns: u64) -> Result<(), String> {
        for _ in 0..ENTER_TRIES {
            let result = if want == 0 && wait_ns == 0 {
                // GETEVENTS makes a ring with deferred task work post what has ended.
                let queued = self.ring.submission().len() as u32;
                let flags = EnterFlags::GETEVENTS.bits();
                // SAFETY: no argument but numbers.
                unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, flags, None) }
            } else {
                // A loop looks at its control more often than once a second anyway, and this needs no division.
                let time = Timespec::new().nsec(wait_ns.min(WAIT_NS_MAX) as u32);
                self.ring.submitter().submit_with_args(want.max(1) as usize, &SubmitArgs::new().timespec(&time))
            };
            match result.map_err(|e| e.raw_os_error().unwrap_or(0)) {
                Ok(_) | Err(libc::ETIME | libc::EINTR | libc::EBUSY) => return Ok(()),
                // The kernel is short of memory for requests: what is in flight must end first.
                Err(libc::EAGAIN) if self.in_flight > batch => return Ok(()),
                Err(libc::EAGAIN) => std::thread::yield_now(),
                Err(errno) => {
                    let cause = std::io::Error::from_raw_os_error(errno);
                    return Err(format!("io_uring failed: {cause}"));
                }
            }
        }
        Err("io_uring took no request in a thousand tries; the kernel is out of memory for it".into())
    }

    #[inline(always)]
    fn collect(&mut self, ended_ns: u64, done: &mut Vec<Completion>) {
        for entry in self.ring.completion() {
            let slot = entry.user_data() as u32;
            let submitted_ns = self.submitted_ns[slot as usize];
            // A no-operation moves nothing; it counts as if it had moved all.
            let result = if self.features.nop { self.nop_bytes[slot as usize] as i32 } else { entry.result() };
            done.push(Completion { slot, result, submitted_ns, ended_ns });
        }
        self.in_flight -= done.len() as u32;
    }

    /// Submits in several calls, of which the last waits. Apart, so that it costs the others one comparison.
    #[inline(never)]
    fn enter_in_pieces(&mut self, before_ns: u64, want: u32, wait_ns: u64) -> Result<(), String> {
        if before_ns >= self.look_at_ns {
            self.look_at_submission(before_ns);
        } else {
            self.submit_ahead();
        }
        let done = self.enter(self.entries.len() as u32, want, wait_ns);
        self.watch.begins_anew();
        done
    }

    /// Submits by calls of their own all but what one call may submit. What a call finds no room for stays in the queue
    /// for the next.
    fn submit_ahead(&mut self) {
        let submit = self.submit as usize;
        loop {
            let left = self.ring.submission().len();
            let first = self.entries.len().saturating_sub(left);
            let now_ns = self.clock.now_ns();
            for entry in self.entries.iter().skip(first).take(submit) {
                self.submitted_ns[entry.get_user_data() as usize] = now_ns;
            }
            if left <= submit {
                return;
            }
            self.watch.moves_to(first as u32, now_ns);
            // SAFETY: no argument but numbers.
            let submitted = unsafe { self.ring.submitter().enter::<libc::sigset_t>(self.submit, 0, 0, None) };
            // The call that waits has the answers to what can go wrong here.
            if !submitted.is_ok_and(|count| count > 0) {
                return;
            }
        }
    }

    /// Submits by a call of its own, which posts nothing but what ended in it: on a ring with deferred task work, all
    /// that ends later waits for a call that asks for it.
    #[cold]
    fn look_at_submission(&mut self, now_ns: u64) {
        self.look_at_ns = now_ns + SUBMISSION_LOOK_NS;
        let before = self.ring.completion().len();
        self.submit_ahead();
        let queued = self.ring.submission().len() as u32;
        // SAFETY: no argument but numbers.
        let submitted = unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, 0, None) };
        if submitted.is_ok_and(|count| count as u32 == queued) {
            let ended = (self.ring.completion().len() - before) as u32;
            self.submissions.looks += 1;
            self.submissions.in_flight += u64::from(self.in_flight);
            self.submissions.at_once += u64::from((self.in_flight - ended).max(1));
        }
    }

    /// Looks for completions without sleeping until something is due.
    fn spin(&mut self, until_ns: u64, done: &mut Vec<Completion>) -> Result<u64, String> {
        let mut looked_ns = self.clock.now_ns();
        loop {
            let now_ns = self.clock.now_ns();
            if self.in_flight > 0 {
                if self.ring.submission().taskrun() || now_ns - looked_ns > LOOK_NS {
                    looked_ns = now_ns;
                    self.enter(0, 0, 0)?;
                }
                if !self.ring.completion().is_empty() {
                    let ended_ns = self.clock.now_ns();
                    self.collect(ended_ns, done);
                    return Ok(ended_ns);
                }
            }
            if now_ns >= until_ns {
                return Ok(now_ns);
            }
            std::hint::spin_loop();
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.watch.forgets();
        // The kernel takes a closed ring apart later, and a device that its files still hold could not be opened anew.
        // Older kernels wait here for what is in flight, which may be forever.
        if self.in_flight == 0 {
            let _ = self.ring.submitter().unregister_files();
        }
    }
}

fn rw_flags(sync: SyncMode) -> i32 {
    match sync {
        SyncMode::None => 0,
        SyncMode::Sync => libc::RWF_SYNC,
        // Where nobody waits in the call, the kernel adds no flush of a block device.
        SyncMode::Dsync | SyncMode::Fua => libc::RWF_DSYNC,
    }
}

impl Device for Uring {
    #[inline(always)]
    fn now_ns(&mut self) -> u64 {
        self.clock.now_ns()
    }

    fn buffer(&mut self, slot: u32, request_bytes: u32) -> &mut [u8] {
        self.buffers.slice(slot, request_bytes as usize)
    }

    #[inline(always)]
    fn queue(&mut self, order: &Order) {
        let file = Fixed(u32::from(order.target));
        let pointer = self.buffers.pointer(order.slot);
        let buffer = if self.one_buffer { 0 } else { order.slot as u16 };
        let (bytes, offset) = (order.request_bytes, order.offset_bytes);
        match order.operation {
            _ if self.features.nop => {
                self.nop_bytes[order.slot as usize] = bytes;
                self.push(opcode::Nop::new().build(), order.slot);
            }
            Operation::Read if self.transfers_fixed => {
                self.push(opcode::ReadFixed::new(file, pointer, bytes, buffer).offset(offset).build(), order.slot);
            }
            Operation::Write if self.transfers_fixed => {
                let flags = rw_flags(order.sync);
                let entry =
                    opcode::WriteFixed::new(file, pointer, bytes, buffer).offset(offset).rw_flags(flags).build();
                self.push(entry, order.slot);
            }
            // By value: a reference would keep the order out of the registers of the others.
            _ => self.push_rare(*order),
        }
        self.in_flight += 1;
    }

    #[inline(always)]
    fn turn(&mut self, until: Until, done: &mut Vec<Completion>) -> Result<u64, String> {
        let batch = self.entries.len() as u32;
        if batch > 0 {
            // SAFETY: the buffers live as long as the ring. The queue has an entry for each slot.
            unsafe { self.ring.submission().push_multiple(&self.entries) }.expect("a slot has at most one request");
        }
        let before_ns = self.clock.now_ns();
        for entry in &self.entries {
            self.submitted_ns[entry.get_user_data() as usize] = before_ns;
        }
        let ahead_ns = until.ns.saturating_sub(before_ns);
        let sleep_ns = if until.precise { self.punctual.sleep_ns(ahead_ns) } else { ahead_ns };
        let want = if sleep_ns == 0 { 0 } else { self.reap.min(self.in_flight) };
        if sleep_ns > 0 || self.in_flight > 0 {
            self.watch.enters(before_ns, batch, self.in_flight);
            if batch > self.submit {
                self.enter_in_pieces(before_ns, want, sleep_ns)?;
            } else {
                if before_ns >= self.look_at_ns && batch > 0 {
                    self.look_at_submission(before_ns);
                }
                self.enter(batch, want, sleep_ns)?;
            }
            self.watch.leaves();
        }
        self.entries.clear();
        let mut now_ns = self.clock.now_ns();
        self.collect(now_ns, done);
        if done.is_empty() && until.precise {
            if sleep_ns > 0 && now_ns >= before_ns + sleep_ns {
                self.punctual.woke(before_ns + sleep_ns, now_ns);
            }
            if now_ns < until.ns && self.punctual.sleep_ns(until.ns - now_ns) == 0 {
                now_ns = self.spin(until.ns, done)?;
            }
        }
        self.away_ns += now_ns - before_ns;
        Ok(now_ns)
    }

    fn away_ns(&self) -> u64 {
        self.away_ns
    }

    fn submissions(&self) -> Submissions {
        self.submissions
    }
}
