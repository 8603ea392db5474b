//! Buffers of perf that the kernel writes records of tracepoints to, one for each CPU. They and the events go when this
//! process ends.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Event;
use super::format::Format;

const TRACEPOINT: u32 = 2;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_RAW: u64 = 1 << 10;
const DISABLED: u64 = 1;
const USE_CLOCK: u64 = 1 << 25;
const CLOEXEC: libc::c_ulong = 8;
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const SET_OUTPUT: libc::c_ulong = 0x2405;
const SET_FILTER: libc::c_ulong = 0x4008_2406;
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
const PAGE: usize = 4096;
/// Of each CPU: 10 ms of 2.6 M requests/s.
const MOST_BYTES: usize = 8 << 20;
/// Of `struct perf_event_mmap_page`.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

/// `struct perf_event_attr`, version 5.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    branches: u64,
    user_registers: u64,
    user_stack: u32,
    clock: i32,
    registers: u64,
    watermark: u32,
    stack: u16,
    reserved: u16,
}

pub struct Buffers {
    rings: Vec<Ring>,
    events: Vec<OwnedFd>,
    formats: Vec<Format>,
}

impl Buffers {
    /// `numbers`: of disks and partitions; the kernel leaves out all others.
    pub fn open(formats: &[Format], numbers: impl Iterator<Item = u32>, bytes: u32) -> Result<Buffers, String> {
        let mut terms: Vec<String> = numbers.map(|number| format!("dev == {number}")).collect();
        terms.sort();
        let filter = CString::new(terms.join(" || ")).map_err(|error| error.to_string())?;
        let mut found = Buffers { rings: vec![], events: vec![], formats: formats.to_vec() };
        // SAFETY: no memory is involved.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as i32;
        for cpu in 0..cpus {
            let mut ring: Option<Ring> = None;
            for format in formats {
                let event = match open(format.id, cpu) {
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) => break, // this CPU is off
                    other => other.map_err(|error| refused(&error))?,
                };
                // SAFETY: the filter ends with 0 and lives until after the call.
                let filtered = unsafe { libc::ioctl(event.as_raw_fd(), SET_FILTER, filter.as_ptr()) };
                if filtered != 0 {
                    return Err(refused(&io::Error::last_os_error()));
                }
                match &ring {
                    None => ring = Some(Ring::map(&event, bytes as usize).map_err(|error| refused(&error))?),
                    Some(first) => {
                        // SAFETY: both are descriptors of ours.
                        if unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, first.event) } != 0 {
                            return Err(refused(&io::Error::last_os_error()));
                        }
                    }
                }
                found.events.push(event);
            }
            found.rings.extend(ring);
        }
        found.switch(ENABLE);
        Ok(found)
    }

    fn switch(&self, how: libc::c_ulong) {
        for event in &self.events {
            // SAFETY: a descriptor of ours, and no memory.
            unsafe { libc::ioctl(event.as_raw_fd(), how, 0) };
        }
    }

    pub fn stop(&self) {
        self.switch(DISABLE);
    }

    /// Adds what has come; gives back how many records were lost.
    pub fn read(&mut self, slots: &HashMap<u32, u16>, to: &mut Vec<Event>) -> u64 {
        let mut lost = 0;
        for ring in &mut self.rings {
            let bytes = ring.taken();
            let mut rest = bytes.as_slice();
            while let Some(header) = rest.get(..8) {
                let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
                let Some(record) = rest.get(8..size) else { break };
                match u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) {
                    RECORD_SAMPLE => to.extend(sample(record, &self.formats, slots)),
                    RECORD_LOST => lost += record.get(8..16).map_or(0, |n| u64::from_ne_bytes(eight(n))),
                    _ => {}
                }
                rest = &rest[size..];
            }
        }
        lost
    }
}

fn eight(bytes: &[u8]) -> [u8; 8] {
    let mut found = [0; 8];
    found.copy_from_slice(&bytes[..8]);
    found
}

/// Process, thread, time, length, and the tracepoint's own record.
fn sample(record: &[u8], formats: &[Format], slots: &HashMap<u32, u16>) -> Option<Event> {
    let process = u32::from_ne_bytes(record.get(..4)?.try_into().ok()?);
    let at_ns = u64::from_ne_bytes(eight(record.get(8..16)?));
    let raw = record.get(20..)?;
    let format = formats.iter().find(|format| format.is_of(raw))?;
    format.event(raw, at_ns, process, |number| slots.get(&number).copied())
}

fn open(id: u64, cpu: i32) -> io::Result<OwnedFd> {
    let wanted = Attributes {
        kind: TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: id,
        sample_period: 1,
        sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_RAW,
        flags: DISABLED | USE_CLOCK,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    // SAFETY: the attributes live until after the call, and say how long they are.
    let found = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const wanted, -1, cpu, -1, CLOEXEC) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(found as i32) })
}

fn refused(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => format!("no-rights: the kernel opens no tracepoint: {error}"),
        _ => format!("refused: the kernel opens no tracepoint: {error}"),
    }
}

/// Shared with the kernel, which writes behind `head`; what is before `tail` is its to use again.
struct Ring {
    /// Its descriptor stays open in `Buffers::events` for longer.
    event: i32,
    base: NonNull<u8>,
    data: usize,
}

impl Ring {
    fn map(event: &OwnedFd, bytes: usize) -> io::Result<Ring> {
        let data = bytes.next_power_of_two().clamp(PAGE, MOST_BYTES);
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE + data,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Ring { event: event.as_raw_fd(), base, data }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both words are aligned, in the first page of the mapping, and live as long as it does.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Whole records, copied out, so that the kernel has the room again.
    fn taken(&mut self) -> Vec<u8> {
        let (head, tail) = (self.word(HEAD_AT).load(Ordering::Acquire), self.word(TAIL_AT).load(Ordering::Relaxed));
        let (length, from) = (head.wrapping_sub(tail) as usize, tail as usize & (self.data - 1));
        let mut found = vec![0; length.min(self.data)];
        let first = found.len().min(self.data - from);
        // SAFETY: the data begin behind the first page and are `data` long; the kernel does not write between tail and
        // head.
        unsafe {
            let data = self.base.as_ptr().add(PAGE);
            std::ptr::copy_nonoverlapping(data.add(from), found.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, found.as_mut_ptr().add(first), found.len() - first);
        }
        self.word(TAIL_AT).store(head, Ordering::Release);
        found
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by `map`, and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), PAGE + self.data) };
    }
}
