//! Buffers for requests: page-aligned, in huge pages where the kernel gives them.

use std::ptr::NonNull;

/// Transparent huge pages are 2 MiB on x86-64; smaller areas gain nothing.
const HUGE_PAGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4096;

/// `count` buffers of `each_bytes`, one after the other.
pub struct Buffers {
    start: NonNull<u8>,
    mapping: *mut u8,
    mapped_bytes: usize,
    each_bytes: usize,
    count: usize,
}

// SAFETY: the area is plain memory that belongs to this value alone.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Buffers are zeroed, and touched so that no page fault happens while measuring.
    pub fn new(count: usize, each_bytes: usize) -> Result<Buffers, String> {
        let each_bytes = each_bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let wanted = each_bytes * count.max(1);
        let mapped_bytes =
            if wanted >= HUGE_PAGE_BYTES { wanted.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES } else { wanted };
        refuse_more_than_there_is(mapped_bytes)?;
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        // SAFETY: a new anonymous mapping, at a place of the kernel's choice.
        let area = unsafe {
            mmap_anonymous(std::ptr::null_mut(), mapped_bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }
        .map_err(|e| format!("no memory for {count} buffers of {each_bytes} bytes ({e}); use less depth or workers"))?;
        // SAFETY: the area was just mapped. Refused advice costs speed, not correctness.
        let _ = unsafe { madvise(area, mapped_bytes, Advice::LinuxHugepage) };
        let mapping = area.cast::<u8>();
        let mut start = mapping;
        for page in (0..mapped_bytes).step_by(PAGE_BYTES) {
            // SAFETY: within the mapping.
            unsafe { start.add(page).write_volatile(0) };
        }
        if wanted >= HUGE_PAGE_BYTES {
            // SAFETY: one huge page more than wanted was mapped, so the aligned start lies within.
            start = unsafe { start.add(start.align_offset(HUGE_PAGE_BYTES)) };
        }
        let start = NonNull::new(start).ok_or("the kernel mapped memory at address 0")?;
        Ok(Buffers { start, mapping, mapped_bytes, each_bytes, count })
    }

    #[inline(always)]
    pub fn pointer(&self, index: u32) -> *mut u8 {
        debug_assert!((index as usize) < self.count);
        // SAFETY: index is below count, so the offset lies within the mapping.
        unsafe { self.start.as_ptr().add(index as usize * self.each_bytes) }
    }

    pub fn slice(&mut self, index: u32, bytes: usize) -> &mut [u8] {
        assert!((index as usize) < self.count && bytes <= self.each_bytes);
        // SAFETY: checked above; &mut self makes the slice the only one of ours. The kernel writes into a buffer only
        // while its request is in flight, and the loop asks for a buffer only before or after that.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(index), bytes) }
    }

    pub fn whole(&self) -> (*mut u8, usize) {
        (self.start.as_ptr(), self.each_bytes * self.count)
    }
}

/// Memory is touched at once, so asking for more than is available would end in the kernel killing something.
fn refuse_more_than_there_is(wanted_bytes: usize) -> Result<(), String> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let available = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<usize>().ok()).map(|kib| kib << 10);
    match available {
        Some(available) if wanted_bytes > available => Err(format!(
            "buffers of {} MiB are asked for and {} MiB of memory are available; use less depth, workers or request size",
            wanted_bytes >> 20,
            available >> 20
        )),
        _ => Ok(()),
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: exactly the area that `new` mapped. Pages that the kernel still uses stay pinned by it.
        let _ = unsafe { rustix::mm::munmap(self.mapping.cast(), self.mapped_bytes) };
    }
}
