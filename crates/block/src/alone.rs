//! A durable write to a block device without the flush that the kernel adds where a call waits for the write (`pwritev2`
//! with RWF_DSYNC): it is submitted by `io_submit`, and its end is waited for. Refusal: one write at a time.

use std::cell::RefCell;
use std::os::fd::RawFd;
use std::ptr;

/// linux/aio_abi.h.
const IOCB_CMD_PWRITE: u16 = 1;

#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    #[cfg(target_endian = "big")]
    rw_flags: i32,
    key: u32,
    #[cfg(target_endian = "little")]
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

#[repr(C)]
#[derive(Default)]
struct IoEvent {
    data: u64,
    iocb: u64,
    result: i64,
    more: i64,
}

/// The kernel's queue of this thread, for one write.
struct Queue(libc::c_ulong);

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: ours, and nothing is under way in it.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

thread_local! {
    static QUEUE: RefCell<Option<Queue>> = const { RefCell::new(None) };
}

/// Bytes written, or -1 with errno, as `pwritev2` has it. Where the kernel has no such queue, it is `pwritev2`.
///
/// # Safety
/// The buffer is as long as the vector says, and no one else's meanwhile.
pub unsafe fn write(fd: RawFd, vector: &libc::iovec, offset: libc::off_t) -> isize {
    let number = QUEUE.with_borrow_mut(|queue| {
        if queue.is_none() {
            let mut number: libc::c_ulong = 0;
            // SAFETY: writes into the place that it is given.
            if unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut number) } == 0 {
                *queue = Some(Queue(number));
            }
        }
        queue.as_ref().map(|queue| queue.0)
    });
    let Some(number) = number else {
        // SAFETY: as the caller says.
        return unsafe { libc::pwritev2(fd, vector, 1, offset, libc::RWF_DSYNC) };
    };
    let mut order = Iocb {
        rw_flags: libc::RWF_DSYNC,
        opcode: IOCB_CMD_PWRITE,
        fd: fd as u32,
        buffer: vector.iov_base as u64,
        bytes: vector.iov_len as u64,
        offset,
        ..Iocb::default()
    };
    let mut orders = [&raw mut order];
    // SAFETY: one order, which lives until its end has been taken below.
    if unsafe { libc::syscall(libc::SYS_io_submit, number, 1, orders.as_mut_ptr()) } != 1 {
        return -1;
    }
    let mut event = IoEvent::default();
    // A signal must not end the wait: the buffer is the kernel's until the write ends.
    // SAFETY: one event, into the place that it is given.
    while unsafe { libc::syscall(libc::SYS_io_getevents, number, 1, 1, &raw mut event, ptr::null::<u8>()) } != 1 {
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return -1;
        }
    }
    if event.result < 0 {
        // SAFETY: the errno of this thread.
        unsafe { *libc::__errno_location() = -event.result as libc::c_int };
        return -1;
    }
    event.result as isize
}
