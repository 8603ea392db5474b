//! The pages that a server has in memory, the one used last first; and which of them were changed.

use std::collections::{BTreeMap, HashMap, HashSet};

/// No slot.
const NONE: u32 = u32::MAX;
/// So many pages that were used longest ago are looked at for one that can be given up.
const LOOKED_AT: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Slot {
    page: u32,
    newer: u32,
    older: u32,
}

/// Least recently used pages leave first. The order of a map of hashes decides nothing: what is gone
/// through is sorted.
#[derive(Debug, Default)]
pub struct Cache {
    slots: Vec<Slot>,
    unused: Vec<u32>,
    capacity: usize,
    of_page: HashMap<u32, u32>,
    newest: u32,
    oldest: u32,
    /// Changed pages, with the number of their change; and the other way round.
    dirty: BTreeMap<u32, u64>,
    changes: BTreeMap<u64, u32>,
    changed: u64,
    /// Pages that a request is reading or writing.
    pub busy: HashSet<u32>,
    /// Somebody found no page that could be given up.
    pub full: bool,
}

impl Cache {
    pub fn new(capacity: usize) -> Cache {
        Cache { capacity: capacity.max(LOOKED_AT * 2), newest: NONE, oldest: NONE, ..Cache::default() }
    }

    /// Whether a page is in memory; it is now the one used last.
    pub fn touch(&mut self, page: u32) -> bool {
        let Some(slot) = self.of_page.get(&page).copied() else { return false };
        self.unlink(slot);
        self.link(slot);
        true
    }

    pub fn holds(&self, page: u32) -> bool {
        self.of_page.contains_key(&page)
    }

    /// Takes a page into memory. False: every page that could leave is changed or busy.
    pub fn admit(&mut self, page: u32) -> bool {
        if self.touch(page) {
            return true;
        }
        if self.slots.len() - self.unused.len() >= self.capacity && !self.give_up() {
            self.full = true;
            return false;
        }
        let empty = Slot { page, newer: NONE, older: NONE };
        let slot = match self.unused.pop() {
            Some(slot) => {
                self.slots[slot as usize] = empty;
                slot
            }
            None => {
                self.slots.push(empty);
                self.slots.len() as u32 - 1
            }
        };
        self.of_page.insert(page, slot);
        self.link(slot);
        true
    }

    /// The page was changed in memory.
    pub fn change(&mut self, page: u32) {
        if self.holds(page) && !self.dirty.contains_key(&page) {
            self.changed += 1;
            self.dirty.insert(page, self.changed);
            self.changes.insert(self.changed, page);
        }
    }

    /// The page is on the medium as it is in memory, or is about to be.
    pub fn clean(&mut self, page: u32) {
        if let Some(number) = self.dirty.remove(&page) {
            self.changes.remove(&number);
        }
    }

    /// A request for these pages has ended.
    pub fn free(&mut self, first: u32, count: u32) {
        for page in first..first + count {
            self.busy.remove(&page);
        }
    }

    /// The page is given up, changed or not.
    pub fn discard(&mut self, page: u32) {
        self.clean(page);
        if let Some(slot) = self.of_page.remove(&page) {
            self.unlink(slot);
            self.unused.push(slot);
        }
    }

    /// Pages from this one on that the cache holds.
    pub fn held_from(&self, first: u32) -> Vec<u32> {
        let mut found: Vec<u32> = self.of_page.keys().copied().filter(|page| *page >= first).collect();
        found.sort_unstable();
        found
    }

    pub fn dirty_pages(&self) -> usize {
        self.dirty.len()
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Changed pages in a row, at most so many, none of them busy: the first from `page` on.
    pub fn dirty_run(&self, page: u32, most: u32) -> Option<(u32, u32)> {
        let first = self.dirty.range(page..).map(|(page, _)| *page).find(|page| !self.busy.contains(page))?;
        Some((first, self.run_length(first, most)))
    }

    /// The page that was changed first, with its changed neighbours.
    pub fn oldest_dirty_run(&self, most: u32) -> Option<(u32, u32)> {
        let page = self.changes.values().copied().find(|page| !self.busy.contains(page))?;
        let mut first = page;
        while first > 0 && page - first + 1 < most / 2 && self.writable(first - 1) {
            first -= 1;
        }
        Some((first, self.run_length(first, most)))
    }

    fn writable(&self, page: u32) -> bool {
        self.dirty.contains_key(&page) && !self.busy.contains(&page)
    }

    fn run_length(&self, first: u32, most: u32) -> u32 {
        (1..most).find(|n| !self.writable(first + n)).unwrap_or(most)
    }

    fn give_up(&mut self) -> bool {
        let mut slot = self.oldest;
        for _ in 0..LOOKED_AT {
            if slot == NONE {
                break;
            }
            let Slot { page, newer, .. } = self.slots[slot as usize];
            if !self.dirty.contains_key(&page) && !self.busy.contains(&page) {
                self.discard(page);
                return true;
            }
            slot = newer;
        }
        false
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    fn link(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.newest, slot);
        let linked = &mut self.slots[slot as usize];
        (linked.older, linked.newer) = (before, NONE);
        match before {
            NONE => self.oldest = slot,
            before => self.slots[before as usize].newer = slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_used_longest_ago_leaves_first_and_changed_ones_stay() {
        let mut cache = Cache::new(128);
        (0..128).for_each(|page| assert!(cache.admit(page)));
        assert!(cache.touch(0));
        cache.change(1);
        assert!(cache.admit(200));
        assert!(cache.holds(0) && cache.holds(1) && !cache.holds(2));
        (3..128).for_each(|page| cache.change(page));
        assert!(!cache.admit(201) && cache.full);
        assert_eq!(cache.oldest_dirty_run(32), Some((1, 1)));
        assert_eq!(cache.dirty_run(2, 32), Some((3, 32)));
        cache.busy.insert(5);
        assert_eq!(cache.dirty_run(2, 32), Some((3, 2)));
        cache.clean(3);
        assert_eq!(cache.dirty_pages(), 125);
    }
}
