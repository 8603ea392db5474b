//! A dirty region log: before a region of a mirror is written that was not written lately, every member gets a record of
//! it, so that after a crash only those regions have to be copied. Writes that come while a record is being written share
//! the next one.

use std::collections::VecDeque;

/// Regions that stay marked, so that writing them again needs no record.
const MARKED: usize = 16;

/// A write that waits for its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub request: u32,
    pub offset: u64,
    pub bytes: u64,
}

#[derive(Debug)]
pub struct RegionLog {
    region_bytes: u64,
    marked: VecDeque<u64>,
    recording: Vec<Held>,
    next: Vec<Held>,
}

impl RegionLog {
    pub fn new(region_bytes: u64) -> RegionLog {
        RegionLog { region_bytes, marked: VecDeque::new(), recording: Vec::new(), next: Vec::new() }
    }

    /// Whether the write may go on at once. If not, it is held.
    pub fn admits(&mut self, held: Held) -> bool {
        let (first, last) = self.regions(&held);
        if (first..=last).all(|r| self.marked.contains(&r)) {
            return true;
        }
        self.next.push(held);
        false
    }

    /// Whether a record has to be written now; it covers everything that is held.
    pub fn begins(&mut self) -> bool {
        if !self.recording.is_empty() || self.next.is_empty() {
            return false;
        }
        self.recording = std::mem::take(&mut self.next);
        true
    }

    /// The record is on every member: these writes may go on.
    pub fn recorded(&mut self) -> Vec<Held> {
        let held = std::mem::take(&mut self.recording);
        for write in &held {
            let (first, last) = self.regions(write);
            for region in (first..=last).filter(|r| !self.marked.contains(r)).collect::<Vec<_>>() {
                self.marked.push_back(region);
            }
        }
        while self.marked.len() > MARKED {
            self.marked.pop_front();
        }
        held
    }

    /// Whether no write waits for a record.
    pub fn is_idle(&self) -> bool {
        self.recording.is_empty() && self.next.is_empty()
    }

    fn regions(&self, held: &Held) -> (u64, u64) {
        (held.offset / self.region_bytes, (held.offset + held.bytes - 1) / self.region_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_recorded_once_and_writes_share_records() {
        let mut log = RegionLog::new(1 << 20);
        let held = |request, offset| Held { request, offset, bytes: 4096 };
        assert!(!log.admits(held(0, 0)));
        assert!(log.begins());
        assert!(!log.admits(held(1, 5 << 20)) && !log.admits(held(2, 6 << 20)));
        assert!(!log.begins(), "one record at a time");
        assert_eq!(log.recorded(), [held(0, 0)]);
        assert!(log.admits(held(3, 8192)), "the region is marked");
        assert!(log.begins());
        assert_eq!(log.recorded().len(), 2);
        assert!(!log.begins());
    }
}
