//! Duty: the monotonic clock, which all processes of a host share; CPU time; waiting for an instant.
//! Refusal: no wall clock decides anything.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use tokio::io::unix::AsyncFd;

/// CLOCK_MONOTONIC in ns.
#[inline]
pub fn now_ns() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` is valid for writing; this clock always exists on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut at) };
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTime {
    pub user_ns: u64,
    pub system_ns: u64,
}

impl CpuTime {
    pub fn since(self, before: CpuTime) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
        }
    }
}

pub fn process_cpu() -> CpuTime {
    usage(libc::RUSAGE_SELF)
}

pub fn thread_cpu() -> CpuTime {
    usage(libc::RUSAGE_THREAD)
}

fn usage(whose: libc::c_int) -> CpuTime {
    // SAFETY: an all-zero rusage is valid, and the kernel fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing.
    unsafe { libc::getrusage(whose, &mut usage) };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    CpuTime { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
}

/// Waits for instants. The runtime's own timers count in ms, which would make every call up to one late.
pub struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// Needs a runtime.
    pub fn new() -> io::Result<Timer> {
        // SAFETY: the flags are valid; a descriptor or -1 comes back.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: it is owned by the timer, open and the same until the timer is dropped.
        let registered = unsafe { AsyncFd::register(fd) };
        Ok(Timer(registered.map_err(|e| io::Error::other(e.to_string()))?))
    }

    pub async fn until(&self, at_ns: u64) -> io::Result<()> {
        while now_ns() < at_ns {
            let at = libc::timespec {
                tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
                tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
            };
            let setting = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
            // SAFETY: the descriptor is a timer, `setting` is valid, and nobody wants the old one.
            let failed = unsafe {
                libc::timerfd_settime(self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &setting, std::ptr::null_mut())
            };
            if failed != 0 {
                return Err(io::Error::last_os_error());
            }
            let mut ready = self.0.readable().await?;
            let mut count = [0u8; 8];
            // SAFETY: `count` has the 8 bytes that a timer gives.
            let _ = ready.try_io(|fd| match unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), 8) } {
                8 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        Ok(())
    }
}
