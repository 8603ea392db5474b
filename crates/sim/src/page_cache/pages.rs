//! Pages in memory: which there are, in the order of their last use, and which are dirty since when.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Mixes a page's number. The map is never gone through, so that its order decides nothing.
#[derive(Debug, Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = engine::rng::mix(self.0 ^ value);
    }
}

/// A page in memory. Dirtied again while it is written, it is `dirty` and `writing` at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct Page {
    /// Unique, and later for a later use.
    used: u64,
    /// The read that brings it.
    pub reading: Option<u32>,
    /// The number of the change that made it dirty, and of that which is being written; 0 for none.
    dirty: u64,
    writing: u64,
    /// The first of those that were read ahead and not asked for: its use calls for the next window.
    pub marker: bool,
}

impl Page {
    fn is_clean(&self) -> bool {
        self.reading.is_none() && self.dirty == 0 && self.writing == 0
    }
}

#[derive(Debug)]
pub struct Pages {
    size: usize,
    pages: HashMap<u64, Page, BuildHasherDefault<Mixer>>,
    /// What can be given up, by last use.
    clean: BTreeMap<u64, u64>,
    dirty: BTreeSet<u64>,
    writing: usize,
    /// Changes that may not be written yet, the oldest first: number, page, when.
    changes: VecDeque<(u64, u64, u64)>,
    uses: u64,
    /// The last change; what is numbered up to here was dirty before now.
    pub last_change: u64,
    pub peak: usize,
}

impl Pages {
    pub fn new(size: usize) -> Pages {
        Pages {
            size,
            pages: HashMap::default(),
            clean: BTreeMap::new(),
            dirty: BTreeSet::new(),
            writing: 0,
            changes: VecDeque::new(),
            uses: 0,
            last_change: 0,
            peak: 0,
        }
    }

    pub fn get(&self, page: u64) -> Option<Page> {
        self.pages.get(&page).copied()
    }

    pub fn has(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    pub fn count(&self) -> usize {
        self.pages.len()
    }

    /// Dirty pages and those that are being written: what a limit of dirty memory counts.
    pub fn unwritten(&self) -> usize {
        self.dirty.len() + self.writing
    }

    pub fn dirty(&self) -> &BTreeSet<u64> {
        &self.dirty
    }

    /// A use of a page that is there.
    pub fn touch(&mut self, page: u64) {
        self.uses += 1;
        let uses = self.uses;
        let Some(found) = self.pages.get_mut(&page) else { return };
        if found.is_clean() {
            self.clean.remove(&found.used);
            self.clean.insert(uses, page);
        }
        found.used = uses;
    }

    pub fn take_marker(&mut self, page: u64) -> bool {
        self.pages.get_mut(&page).is_some_and(|found| std::mem::take(&mut found.marker))
    }

    /// Room for one page more, for which the clean one that was used longest ago is given up.
    #[must_use]
    pub fn has_room(&mut self) -> bool {
        if self.pages.len() < self.size {
            return true;
        }
        let Some((_, page)) = self.clean.pop_first() else { return false };
        self.pages.remove(&page);
        true
    }

    /// A page that is on its way; there is room for it.
    pub fn expect(&mut self, page: u64, reading: u32, marker: bool) {
        self.uses += 1;
        self.pages.insert(page, Page { used: self.uses, reading: Some(reading), marker, ..Page::default() });
        self.peak = self.peak.max(self.pages.len());
    }

    /// A read has ended; its pages are there, or gone if it failed.
    pub fn arrived(&mut self, page: u64, failed: bool) {
        let Some(found) = self.pages.get_mut(&page) else { return };
        if failed {
            self.pages.remove(&page);
            return;
        }
        found.reading = None;
        self.clean.insert(found.used, page);
    }

    /// A page is written to; it is there, or there is room for it.
    pub fn change(&mut self, page: u64, now_ns: u64) {
        self.uses += 1;
        let found = self.pages.entry(page).or_default();
        if found.used > 0 && found.is_clean() {
            self.clean.remove(&found.used);
        }
        found.used = self.uses;
        if found.dirty == 0 {
            self.last_change += 1;
            found.dirty = self.last_change;
            self.dirty.insert(page);
            self.changes.push_back((self.last_change, page, now_ns));
        }
        self.peak = self.peak.max(self.pages.len());
    }

    /// A dirty page is on its way to the device.
    pub fn begin_write(&mut self, page: u64) {
        if let Some(found) = self.pages.get_mut(&page) {
            found.writing = std::mem::take(&mut found.dirty);
            self.dirty.remove(&page);
            self.writing += 1;
        }
    }

    pub fn is_writing(&self, page: u64) -> bool {
        self.pages.get(&page).is_some_and(|found| found.writing != 0)
    }

    /// Whether a change up to this one is not on the device.
    pub fn has_change(&self, page: u64, change: u64) -> bool {
        let up_to = |number: u64| number != 0 && number <= change;
        self.pages.get(&page).is_some_and(|found| up_to(found.dirty) || up_to(found.writing))
    }

    pub fn end_write(&mut self, page: u64) {
        let Some(found) = self.pages.get_mut(&page) else { return };
        found.writing = 0;
        self.writing -= 1;
        if found.is_clean() {
            self.clean.insert(found.used, page);
        }
    }

    /// What a trim makes of a page: what was not written never is.
    pub fn drop_page(&mut self, page: u64) {
        let Some(found) = self.pages.get_mut(&page) else { return };
        if found.reading.is_some() || found.writing != 0 {
            if std::mem::take(&mut found.dirty) != 0 {
                self.dirty.remove(&page);
            }
            return;
        }
        self.clean.remove(&found.used);
        self.dirty.remove(&page);
        self.pages.remove(&page);
    }

    /// The oldest change that is not on the device: its number, page and instant.
    pub fn oldest_change(&mut self) -> Option<(u64, u64, u64)> {
        while let Some(&(number, page, at_ns)) = self.changes.front() {
            if self.is_unwritten(number, page) {
                return Some((number, page, at_ns));
            }
            self.changes.pop_front();
        }
        None
    }

    fn is_unwritten(&self, number: u64, page: u64) -> bool {
        self.pages.get(&page).is_some_and(|found| found.dirty == number || found.writing == number)
    }

    /// Dirty pages, the oldest first, that were changed by an instant.
    pub fn dirty_by(&self, by_ns: u64) -> impl Iterator<Item = u64> {
        let of_then = self.changes.iter().take_while(move |(_, _, at_ns)| *at_ns <= by_ns);
        of_then
            .filter(|(number, page, _)| self.pages.get(page).is_some_and(|found| found.dirty == *number))
            .map(|(_, page, _)| *page)
    }
}
