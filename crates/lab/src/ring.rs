//! Duty: requests of the kernel's FUSE over io_uring, which saves a request two wake-ups on its way to the disk and back.
//! Here one thread takes requests, lets the disk end them when they are due, and answers them.
//!
//! Refusal: what a request means, and when it ends, is not decided here.
//!
//! The layout is that of Linux's `include/uapi/linux/fuse.h`: `fuse_uring_req_header`, `fuse_uring_cmd_req`.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// `fuse_uring_req_header`: what goes in and out, what belongs to the operation, and what belongs to the ring.
const OPERATION_AT: usize = 128;
const RING_AT: usize = 256;
const COMMIT_ID_AT: usize = RING_AT + 8;
const PAYLOAD_BYTES_AT: usize = RING_AT + 16;
const HEADER_BYTES: usize = RING_AT + 32;
const OUT_HEADER_BYTES: usize = 16;
/// The header has a page of its own, so that the payload begins at one.
const PAYLOAD_AT: usize = 4096;

/// Requests that one processor's queue hands over at once; more of them wait in the kernel. All queues together have at most
/// `MOST_REQUESTS`, as each may come to hold a payload.
const QUEUE_REQUESTS: usize = 128;
const MOST_REQUESTS: usize = 1024;
const LEAST_REQUESTS: usize = 16;
/// Marks the event that wakes the ring.
const WOKEN: u64 = u64::MAX;

/// Whether this kernel offers it, which whoever runs the host decides.
pub fn is_offered() -> bool {
    std::fs::read_to_string("/sys/module/fuse/parameters/enable_uring").is_ok_and(|text| text.trim() == "Y")
}

/// Where the kernel puts requests and finds answers. A slot is ours from when its request comes until it is answered.
struct Slots {
    start: *mut u8,
    stride: usize,
    count: usize,
}

// SAFETY: a slot is touched by whoever has its request or its answer, of which there is one.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl Slots {
    fn new(count: usize, payload_bytes: usize) -> io::Result<Slots> {
        let stride = PAYLOAD_AT + payload_bytes;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory of nobody else's; pages that are never used take none.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), count * stride, access, kind | libc::MAP_NORESERVE, -1, 0) };
        match start {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            start => Ok(Slots { start: start.cast(), stride, count }),
        }
    }

    fn at(&self, slot: usize, offset: usize) -> *mut u8 {
        assert!(slot < self.count && offset < self.stride);
        // SAFETY: within the memory that `new` got.
        unsafe { self.start.add(slot * self.stride + offset) }
    }

    fn payload_most(&self) -> usize {
        self.stride - PAYLOAD_AT
    }

    fn bytes(&self, slot: usize, offset: usize, count: usize) -> &[u8] {
        assert!(offset + count <= self.stride);
        // SAFETY: within the slot, which the kernel leaves alone while its request is ours.
        unsafe { std::slice::from_raw_parts(self.at(slot, offset), count) }
    }

    fn put(&self, slot: usize, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.stride);
        // SAFETY: within the slot, which the kernel leaves alone while its request is ours.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(slot, offset), bytes.len()) }
    }

    fn u32(&self, slot: usize, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes(slot, offset, 4).try_into().unwrap_or_default())
    }

    fn u64(&self, slot: usize, offset: usize) -> u64 {
        u64::from_le_bytes(self.bytes(slot, offset, 8).try_into().unwrap_or_default())
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: what `new` got; the ring that the kernel would fill it from is gone before.
        unsafe { libc::munmap(self.start.cast(), self.count * self.stride) };
    }
}

struct Shared {
    slots: Slots,
    answered: Mutex<Vec<usize>>,
    wake: OwnedFd,
    thread: Mutex<Option<ThreadId>>,
}

impl Shared {
    fn wake(&self) {
        let one = 1u64.to_le_bytes();
        // SAFETY: eight bytes to an event of ours; where it is full, it wakes already.
        unsafe { libc::write(self.wake.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

/// Makes the ring look at the clock again.
#[derive(Clone)]
pub struct Waker(Arc<Shared>);

impl Waker {
    pub fn wake(&self) {
        self.0.wake();
    }
}

/// A request that came by the ring.
pub struct Request<'a> {
    shared: &'a Arc<Shared>,
    slot: usize,
}

impl Request<'_> {
    pub fn opcode(&self) -> u32 {
        self.shared.slots.u32(self.slot, 4)
    }

    pub fn inode(&self) -> u64 {
        self.shared.slots.u64(self.slot, 16)
    }

    /// A number of the operation's own header.
    pub fn u32(&self, offset: usize) -> u32 {
        self.shared.slots.u32(self.slot, OPERATION_AT + offset)
    }

    pub fn u64(&self, offset: usize) -> u64 {
        self.shared.slots.u64(self.slot, OPERATION_AT + offset)
    }

    pub fn payload(&self) -> &[u8] {
        let slots = &self.shared.slots;
        let bytes = (slots.u32(self.slot, PAYLOAD_BYTES_AT) as usize).min(slots.payload_most());
        slots.bytes(self.slot, PAYLOAD_AT, bytes)
    }

    pub fn answer(&self) -> Answer {
        Answer { shared: self.shared.clone(), slot: self.slot, is_given: false }
    }
}

/// The answer to one request, which any thread may give at any time. What is dropped without one has failed.
pub struct Answer {
    shared: Arc<Shared>,
    slot: usize,
    is_given: bool,
}

impl Answer {
    /// `errno`: 0, or a positive number of an error, which has no body.
    pub fn give(mut self, errno: i32, body: &[u8]) {
        self.finish(errno, body);
    }

    fn finish(&mut self, errno: i32, body: &[u8]) {
        self.is_given = true;
        let slots = &self.shared.slots;
        let (errno, body) = match body.len() <= slots.payload_most() {
            true => (errno, body),
            false => (libc::EIO, &body[..0]),
        };
        // The out header: length, error, and the number of the request, which lies at 8 in the in header too.
        slots.put(self.slot, 0, &((OUT_HEADER_BYTES + body.len()) as u32).to_le_bytes());
        slots.put(self.slot, 4, &(-errno).to_le_bytes());
        slots.put(self.slot, PAYLOAD_BYTES_AT, &(body.len() as u32).to_le_bytes());
        slots.put(self.slot, PAYLOAD_AT, body);
        self.shared.answered.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
        let thread = *self.shared.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread != Some(std::thread::current().id()) {
            self.shared.wake();
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.is_given {
            self.finish(libc::EIO, &[]);
        }
    }
}

/// A ring that no request comes by yet.
pub struct Ring {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    shared: Arc<Shared>,
    /// The kernel's queue of each slot.
    queues: Vec<u16>,
    /// Header and payload of each slot, as the kernel is told of them once.
    places: Vec<[libc::iovec; 2]>,
}

// SAFETY: `places` points into `shared.slots`, which goes with it.
unsafe impl Send for Ring {}

/// How many processors a file such as `0-3,8` names: the number behind the last, as the kernel has a queue for each below.
fn processors(name: &str) -> io::Result<usize> {
    let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/{name}"))?;
    let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok());
    last.map(|last| last + 1)
        .ok_or_else(|| io::Error::other(format!("processors `{}` are not understood", text.trim())))
}

impl Ring {
    pub fn new(payload_bytes: usize) -> io::Result<Ring> {
        let (possible, online) = (processors("possible")?, processors("online")?);
        let each = (MOST_REQUESTS / online.max(1)).clamp(LEAST_REQUESTS, QUEUE_REQUESTS);
        let queues: Vec<u16> = (0..possible)
            .flat_map(|queue| std::iter::repeat_n(queue as u16, if queue < online { each } else { 1 }))
            .collect();
        let slots = Slots::new(queues.len(), payload_bytes)?;
        // SAFETY: a new descriptor, which nobody else has.
        let wake = unsafe {
            let wake = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if wake < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(wake)
        };
        let ring = IoUring::builder()
            .setup_r_disabled() // whoever enables it is the one that submits
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .build((queues.len() as u32 + 1).next_power_of_two())?;
        let place = |slot| {
            let part = |offset, bytes| libc::iovec { iov_base: slots.at(slot, offset).cast(), iov_len: bytes };
            [part(0, HEADER_BYTES), part(PAYLOAD_AT, payload_bytes)]
        };
        let places = (0..queues.len()).map(place).collect();
        let shared = Shared { slots, answered: Mutex::default(), wake, thread: Mutex::default() };
        Ok(Ring { ring, shared: Arc::new(shared), queues, places })
    }

    pub fn waker(&self) -> Waker {
        Waker(self.shared.clone())
    }

    /// Takes requests of a mount until it is gone. `tick` ends what is due, and says when something will be next.
    pub fn run(
        mut self,
        device: &File,
        tick: impl Fn() -> Option<Duration>,
        take: impl Fn(&Request<'_>),
    ) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()?;
        *self.shared.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current().id());
        let fd = device.as_raw_fd();
        self.listen()?;
        for slot in 0..self.queues.len() {
            self.command(fd, REGISTER, slot)?;
        }
        let mut alive = self.queues.len();
        let mut came: Vec<(u64, i32)> = Vec::new();
        while alive > 0 {
            let wait = tick();
            let answered = std::mem::take(&mut *self.shared.answered.lock().unwrap_or_else(PoisonError::into_inner));
            for slot in answered {
                self.command(fd, COMMIT_AND_FETCH, slot)?;
            }
            self.enter(wait)?;
            came.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
            for (which, result) in came.drain(..) {
                match (which, result) {
                    (WOKEN, _) => self.listen()?,
                    (slot, 0..) => take(&Request { shared: &self.shared, slot: slot as usize }),
                    // The mount is gone, or has failed.
                    _ => alive -= 1,
                }
            }
        }
        Ok(())
    }

    fn enter(&self, wait: Option<Duration>) -> io::Result<()> {
        let submitter = self.ring.submitter();
        let done = match wait {
            None => submitter.submit_and_wait(1),
            Some(Duration::ZERO) => submitter.submit(),
            Some(wait) => {
                let span = Timespec::from(wait);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&span))
            }
        };
        match done {
            Ok(_) => Ok(()),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    fn push(&mut self, entry: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: what an entry points to lives as long as the ring.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Waits for the event again, which tells how often it came since.
    fn listen(&mut self) -> io::Result<()> {
        let wake = self.shared.wake.as_raw_fd();
        let mut times = [0u8; 8];
        // SAFETY: eight bytes of an event of ours, which does not block.
        unsafe { libc::read(wake, times.as_mut_ptr().cast(), times.len()) };
        let poll = opcode::PollAdd::new(Fd(wake), libc::POLLIN as u32).build();
        self.push(&squeue::Entry128::from(poll.user_data(WOKEN)))
    }

    fn command(&mut self, fd: RawFd, what: u32, slot: usize) -> io::Result<()> {
        let mut told = [0u8; 80]; // flags, commit id, queue
        told[8..16].copy_from_slice(&self.shared.slots.u64(slot, COMMIT_ID_AT).to_le_bytes());
        told[16..18].copy_from_slice(&self.queues[slot].to_le_bytes());
        let places = self.places[slot].as_ptr() as u64;
        let command = opcode::UringCmd80::new(Fd(fd), what).cmd(told).addr(Some(places)).build();
        let mut entry = command.user_data(slot as u64);
        // SAFETY: the length of a submission is the u32 at its byte 24; the library has no word for it here.
        unsafe { (&raw mut entry).cast::<u32>().add(6).write(self.places[slot].len() as u32) };
        self.push(&entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_its_own_memory_and_an_answer_the_number_of_its_request() {
        let ring = Ring::new(8192).unwrap();
        let slots = &ring.shared.slots;
        slots.put(1, 8, &77u64.to_le_bytes());
        let request = Request { shared: &ring.shared, slot: 1 };
        request.answer().give(0, b"data");
        assert_eq!((slots.u32(1, 0), slots.u32(1, 4), slots.u64(1, 8)), (20, 0, 77));
        assert_eq!((slots.bytes(1, PAYLOAD_AT, 4), slots.u32(1, PAYLOAD_BYTES_AT)), (&b"data"[..], 4));
        assert_eq!(slots.u64(0, 8), 0);
        drop(request.answer());
        assert_eq!(slots.u32(1, 4) as i32, -libc::EIO);
        assert_eq!(*ring.shared.answered.lock().unwrap(), [1, 1]);
    }
}
