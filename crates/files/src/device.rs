//! Calls on files of a directory, one at a time in the thread of their loop, stamped around the call.
//!
//! A slot has at most one file open, since what it does with a file is one thing after another: `Create` and `Open` open
//! it, reads, writes and flushes are of it, `Close` closes it. What a failed chain has left open is closed before the
//! next file is opened, outside of what is timed, and so is the name put together.
//!
//! `Put` and `Get` are Bonnie's per-character calls: one call a byte, not inlined, into or out of a buffer in user space
//! that is as large as a request; when it is full or empty, one write or read. That is what stdio's putc and getc do.
//! The service time of such a request is that of all its calls and the system call together.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use block::clock::Clock;
use block::memory::Buffers;
use block::psync::{Calls, Inline};
use block::watched::Beacon;
use engine::device::{Blocked, Devices, Operation, Order, Setup};
use engine::honours::Honours;
use plan::SyncMode;

/// `d4294967295/18446744073709551615` and its end.
const NAME_BYTES: usize = 40;
/// No file is open.
const NONE: RawFd = -1;

/// Calls block one after another, on files that the run has just made itself.
pub const HONOURS: Honours = Honours {
    device: "a program over files",
    reap: false,
    submit: false,
    engine: false,
    page_cache: true,
    fill: false,
    data: true,
    hangs: true,
    flush: true,
    trim: false,
    nop: false,
};

/// Makes devices over the workplaces of a run.
pub struct Directories {
    roots: Arc<Vec<OwnedFd>>,
    clock: Clock,
    beacons: Mutex<Vec<Arc<Beacon>>>,
}

impl Directories {
    pub fn new(roots: Vec<OwnedFd>, clock: Clock) -> Directories {
        Directories { roots: Arc::new(roots), clock, beacons: Mutex::default() }
    }
}

impl Devices for Directories {
    type Device = Inline<FileCalls>;

    fn open(&self, setup: &Setup) -> Result<Self::Device, String> {
        // Punctual sleeps: the default slack of 50 µs would end each of them so late.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let buffers = Buffers::new(setup.slots as usize, setup.buffer_bytes as usize)?;
        let beacon = Arc::new(Beacon::default());
        self.beacons.lock().unwrap_or_else(PoisonError::into_inner).push(beacon.clone());
        Ok(Inline::new(FileCalls::new(self.roots.clone(), setup.buffer_bytes), self.clock, buffers, beacon))
    }

    fn honours(&self) -> Honours {
        HONOURS
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// A blocking call stops its whole loop, so each lane has one of its own.
    fn loops(&self, lanes: usize) -> usize {
        lanes
    }

    fn blocked(&self, since_ns: u64) -> Vec<Blocked> {
        let beacons = self.beacons.lock().unwrap_or_else(PoisonError::into_inner);
        beacons.iter().enumerate().filter_map(|(index, b)| b.blocked(index as u64, since_ns)).collect()
    }
}

/// The calls of one loop.
pub struct FileCalls {
    roots: Arc<Vec<OwnedFd>>,
    open: RawFd,
    name: [u8; NAME_BYTES],
    characters: Characters,
}

impl Drop for FileCalls {
    fn drop(&mut self) {
        self.close_quietly();
    }
}

impl FileCalls {
    fn new(roots: Arc<Vec<OwnedFd>>, buffer_bytes: u32) -> FileCalls {
        FileCalls { roots, open: NONE, name: [0; NAME_BYTES], characters: Characters::new(buffer_bytes as usize) }
    }

    fn close_quietly(&mut self) {
        if self.open != NONE {
            // SAFETY: the descriptor is ours and not used after this.
            unsafe { libc::close(self.open) };
            self.open = NONE;
        }
    }

    fn open_file(&mut self, root: RawFd, flags: libc::c_int) -> isize {
        // SAFETY: the name ends with a zero; the descriptor of the root lives as long as `roots`.
        let result = unsafe { libc::openat(root, self.name.as_ptr().cast(), flags | libc::O_CLOEXEC, 0o600) };
        if result >= 0 {
            self.open = result;
            return 0;
        }
        result as isize
    }

    /// The call of an order; below 0 it has failed, and `errno` says why.
    ///
    /// # Safety
    /// `pointer` has room for the request, and is no one else's.
    unsafe fn once(&mut self, order: &Order, pointer: *mut u8) -> isize {
        let root = self.roots[usize::from(order.target)].as_raw_fd();
        let name = self.name.as_ptr().cast::<libc::c_char>();
        let bytes = order.request_bytes as usize;
        let offset = order.offset_bytes as libc::off_t;
        // SAFETY: the name ends with a zero, and the buffers are as long as is said.
        unsafe {
            match order.operation {
                Operation::Read => libc::pread(self.open, pointer.cast(), bytes, offset),
                Operation::Write => write(self.open, pointer, order, 0),
                Operation::Append => write(self.open, pointer, order, libc::RWF_APPEND),
                Operation::Put => {
                    let from = std::slice::from_raw_parts(pointer, bytes);
                    let full = self.characters.put_all(from);
                    write(self.open, full.as_ptr().cast_mut(), order, 0)
                }
                Operation::Get => {
                    let moved = libc::pread(self.open, self.characters.room(bytes).as_mut_ptr().cast(), bytes, offset);
                    let got = usize::try_from(moved).unwrap_or_default();
                    self.characters.get_all(std::slice::from_raw_parts_mut(pointer, got));
                    moved
                }
                // Files are new or have grown, so what makes them found again is to be durable as well.
                Operation::Flush => libc::fsync(self.open) as isize,
                Operation::Create => {
                    self.open_file(root, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW)
                }
                Operation::Open => self.open_file(root, libc::O_RDWR | libc::O_NOFOLLOW),
                Operation::Close => libc::close(std::mem::replace(&mut self.open, NONE)) as isize,
                Operation::Stat => {
                    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
                    libc::fstatat(root, name, found.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW) as isize
                }
                Operation::Unlink => libc::unlinkat(root, name, 0) as isize,
                Operation::Mkdir => libc::mkdirat(root, name, 0o700) as isize,
                Operation::Rmdir => libc::unlinkat(root, name, libc::AT_REMOVEDIR) as isize,
                Operation::Trim => {
                    *libc::__errno_location() = libc::EOPNOTSUPP;
                    -1
                }
            }
        }
    }
}

/// # Safety
/// `pointer` has the bytes of the request.
unsafe fn write(file: RawFd, pointer: *mut u8, order: &Order, flags: libc::c_int) -> isize {
    let durable = match order.sync {
        SyncMode::None => 0,
        SyncMode::Sync => libc::RWF_SYNC,
        SyncMode::Dsync | SyncMode::Fua => libc::RWF_DSYNC,
    };
    let (bytes, offset) = (order.request_bytes as usize, order.offset_bytes as libc::off_t);
    let vector = libc::iovec { iov_base: pointer.cast(), iov_len: bytes };
    // SAFETY: as the caller says.
    unsafe {
        match flags | durable {
            0 => libc::pwrite(file, pointer.cast(), bytes, offset),
            flags => libc::pwritev2(file, &vector, 1, offset, flags),
        }
    }
}

impl Calls for FileCalls {
    fn prepare(&mut self, order: &Order) {
        match order.operation {
            Operation::Read | Operation::Write | Operation::Append | Operation::Put | Operation::Get => return,
            Operation::Flush | Operation::Close => return,
            Operation::Create | Operation::Open => self.close_quietly(),
            _ => {}
        }
        let mut room = &mut self.name[..];
        // Never longer than its room, which is that of the largest numbers.
        let _ = write!(room, "{}\0", order.entry);
    }

    unsafe fn call(&mut self, order: &Order, pointer: *mut u8) -> i32 {
        loop {
            // SAFETY: as the caller says.
            let result = unsafe { self.once(order, pointer) };
            if result >= 0 {
                return result as i32;
            }
            match std::io::Error::last_os_error().raw_os_error() {
                // After a close the descriptor is gone in any case (close(2)).
                Some(libc::EINTR) if order.operation == Operation::Close => return 0,
                Some(libc::EINTR) => continue,
                errno => return -errno.unwrap_or(libc::EIO),
            }
        }
    }
}

/// A buffer in user space that is filled and emptied by one call a byte.
struct Characters {
    buffer: Vec<u8>,
    at: usize,
}

impl Characters {
    fn new(bytes: usize) -> Characters {
        Characters { buffer: vec![0; bytes.max(1)], at: 0 }
    }

    /// As putc: not inlined, since it is the call that Bonnie measures.
    #[inline(never)]
    fn put(&mut self, byte: u8) {
        if let Some(place) = self.buffer.get_mut(self.at) {
            *place = byte;
            self.at += 1;
        }
    }

    /// As getc.
    #[inline(never)]
    fn get(&mut self) -> u8 {
        let byte = self.buffer.get(self.at).copied().unwrap_or_default();
        self.at += 1;
        byte
    }

    fn put_all(&mut self, from: &[u8]) -> &[u8] {
        self.at = 0;
        for byte in from {
            self.put(*byte);
        }
        &self.buffer[..self.at]
    }

    fn get_all(&mut self, into: &mut [u8]) {
        self.at = 0;
        for byte in into {
            *byte = self.get();
        }
    }

    fn room(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.buffer[..bytes]
    }
}
