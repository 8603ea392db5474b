//! Users that change pages: chains of pages at random places, and bulk updates.

use engine::device::{Completion, Operation};
use engine::source::{Next, Source};
use plan::{BulkUpdate as BulkKeys, RandomUser as RandomKeys};

use super::throttle::Wish;
use super::{GATHERED_PAGES, LOOK_NS, Reading, User, later};

/// Where a random user is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Choose,
    /// Goes through a chain of pages.
    Pages,
    /// Waits until so much of the log is on the medium.
    Commit(u64),
}

/// SQLIOSim's random user: queries of a transaction.
pub struct RandomUser {
    user: User,
    keys: RandomKeys,
    stage: Stage,
    /// The part of the file that it works in: first page and number.
    region: Option<(u32, u32)>,
    at: u32,
    end: u32,
    /// The page at which it is was missing, and has been read.
    fetched: bool,
    /// It was missing, and was not taken for a hit.
    missed: bool,
    log_bytes: u64,
    reading: Reading,
}

impl RandomUser {
    pub fn new(user: User, keys: RandomKeys) -> RandomUser {
        let (region, at, end, log_bytes) = (None, 0, 0, 0);
        let (stage, reading) = (Stage::Choose, Reading::default());
        let (fetched, missed) = (false, false);
        RandomUser { user, keys, stage, region, at, end, fetched, missed, log_bytes, reading }
    }

    fn choose(&mut self) {
        let pages = self.user.server().pages;
        let gone = self.region.is_none_or(|(first, count)| first + count > pages);
        if gone || self.user.happens(self.keys.jump.0) {
            let count = self.user.between(self.keys.chain_min, self.keys.chain_max).min(pages);
            let first = self.user.rng.below(u64::from(pages - count) + 1) as u32;
            self.region = Some((first, count));
        }
        let (first, count) = self.region.unwrap_or((0, 1));
        self.at = first + self.user.rng.below(u64::from(count)) as u32;
        self.end = self.at + self.user.between(1, first + count - self.at);
        (self.log_bytes, self.fetched, self.stage) = (0, false, Stage::Pages);
    }

    /// The next page of the chain: a read where it is missing, else it is updated or not.
    fn page(&mut self, now_ns: u64) -> Option<Next> {
        let hits = {
            let mut server = self.user.server();
            if self.at >= server.pages {
                // The file has shrunk meanwhile.
                self.at = self.end;
                return None;
            }
            server.cache.touch(self.at) || self.fetched
        };
        let taken_for_hit = !hits && {
            let percent = self.user.server().file.cache_hits.0;
            !self.missed && self.user.happens(percent)
        };
        self.missed = !hits && !taken_for_hit;
        if taken_for_hit {
            self.user.server().cache.admit(self.at);
        } else if !hits {
            let run = self.missing();
            self.fetched = true;
            return match self.reading.begin(&self.user, run, true) {
                Some(next) => Some(next),
                None => {
                    self.fetched = false;
                    Some(later(now_ns))
                }
            };
        }
        self.fetched = false;
        if self.user.happens(self.keys.update.0) {
            let record = self.keys.log_record;
            let steps = (record.to_bytes - record.from_bytes) / record.from_bytes;
            self.log_bytes += record.from_bytes * (1 + self.user.rng.below(steps + 1));
            self.user.server().cache.change(self.at);
        }
        self.at += 1;
        None
    }

    /// The missing pages of the chain from here on that stand in a row.
    fn missing(&self) -> (u32, u32) {
        let server = self.user.server();
        let end = self.end.min(server.pages).min(self.at + GATHERED_PAGES);
        let found = (self.at + 1..end).find(|page| server.cache.holds(*page));
        (self.at, found.unwrap_or(end) - self.at)
    }
}

impl Source for RandomUser {
    fn next(&mut self, _slot: u32, now_ns: u64, _last: Option<&Completion>) -> Next {
        loop {
            match self.stage {
                Stage::Choose => self.choose(),
                Stage::Pages if self.at < self.end => {
                    if let Some(next) = self.page(now_ns) {
                        return next;
                    }
                }
                Stage::Pages => {
                    self.stage = Stage::Choose;
                    if self.log_bytes > 0 && !self.user.happens(self.keys.rollback.0) {
                        let mut server = self.user.server();
                        let until = server.put_log(self.log_bytes);
                        server.log_wanted = until;
                        drop(server);
                        self.stage = Stage::Commit(until);
                    } else {
                        return Next::Wait(now_ns + self.keys.sleep.ns);
                    }
                }
                Stage::Commit(until) => {
                    if self.user.server().log_done < until {
                        return later(now_ns);
                    }
                    self.stage = Stage::Choose;
                    return Next::Wait(now_ns + self.keys.sleep.ns);
                }
            }
        }
    }

    fn ended(&mut self, _slot: u32, completion: &Completion, _good: bool) {
        self.reading.end(&self.user, completion);
    }
}

/// SQLIOSim's bulk update: new content for many pages in a row. It posts its writes without waiting for them, as many as
/// it has slots and as throttling leaves it.
pub struct BulkUpdate {
    user: User,
    keys: BulkKeys,
    at: u32,
    end: u32,
    cycles: u32,
    /// It pauses until then.
    pause_ns: u64,
    /// The next write has waited for a request block.
    waited: bool,
    /// What each slot writes.
    slots: Vec<Option<(u32, u32)>>,
}

impl BulkUpdate {
    pub fn new(user: User, keys: BulkKeys, depth: u32) -> BulkUpdate {
        let slots = vec![None; depth as usize];
        BulkUpdate { user, keys, at: 0, end: 0, cycles: 0, pause_ns: 0, waited: false, slots }
    }

    /// Chooses the next pages, or pauses.
    fn choose(&mut self, now_ns: u64) {
        self.cycles += 1;
        let count = self.user.between(self.keys.pages_min, self.keys.pages_max);
        let pages = self.user.server().pages;
        let count = count.min(pages);
        self.at = self.user.rng.below(u64::from(pages - count) + 1) as u32;
        self.end = self.at + count;
        if self.keys.delay_after > 0 && self.cycles > self.keys.delay_after {
            self.cycles = 1;
            self.pause_ns = now_ns + self.keys.delay.ns.max(1);
        }
    }

    /// Begins the write of the next pages that nobody else is reading or writing.
    fn begin(&mut self) -> Option<(u32, u32)> {
        let mut server = self.user.server();
        let end = self.end.min(server.pages);
        let first = (self.at..end).find(|page| !server.cache.busy.contains(page)).unwrap_or(end);
        let last = (first..end.min(first + GATHERED_PAGES)).find(|page| server.cache.busy.contains(page));
        let count = last.unwrap_or(end.min(first + GATHERED_PAGES)) - first;
        self.at = first;
        if count == 0 {
            self.at = self.end;
            return None;
        }
        if !server.data.begin(Wish { writes: true, pages: count, waited: self.waited, burst: false }) {
            self.waited = true;
            return None;
        }
        self.waited = false;
        for page in first..first + count {
            server.cache.busy.insert(page);
            server.cache.clean(page);
        }
        self.at = first + count;
        Some((first, count))
    }
}

impl Source for BulkUpdate {
    fn next(&mut self, slot: u32, now_ns: u64, _last: Option<&Completion>) -> Next {
        if self.at >= self.end && now_ns >= self.pause_ns {
            self.choose(now_ns);
        }
        if now_ns < self.pause_ns {
            return Next::Wait(self.pause_ns);
        }
        let run = self.begin();
        self.slots[slot as usize] = run;
        match run {
            Some(run) => self.user.pages(Operation::Write, run),
            // The first slot looks again soon, the others less often: one of them gets the next request block.
            None => Next::Wait(now_ns + LOOK_NS * u64::from(slot + 1)),
        }
    }

    fn ended(&mut self, slot: u32, completion: &Completion, _good: bool) {
        let mut server = self.user.server();
        server.data.end(completion);
        if let Some((first, count)) = self.slots[slot as usize].take() {
            server.cache.free(first, count);
        }
    }
}
