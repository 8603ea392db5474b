//! Scans: read-ahead of a query, and audits that check every page.

use engine::device::{Completion, Operation};
use engine::source::{Next, Source};
use plan::{Audit as AuditKeys, PAGE_BYTES, ReadAhead as ReadAheadKeys};

use super::throttle::Wish;
use super::{Reading, User, later};

/// Goes through the file in order, from a place of its own on.
pub struct ReadAhead {
    user: User,
    keys: ReadAheadKeys,
    at: Option<u32>,
    /// Pages of the read that waits for a request block.
    chosen: Option<(u32, u32)>,
    cycles: u32,
    reading: Reading,
}

impl ReadAhead {
    pub fn new(user: User, keys: ReadAheadKeys) -> ReadAhead {
        ReadAhead { user, keys, at: None, chosen: None, cycles: 0, reading: Reading::default() }
    }

    fn choose(&mut self) -> (u32, u32) {
        let wanted = self.user.between(self.keys.pages_min, self.keys.pages_max);
        let pages = self.user.server().pages;
        let first = match self.at {
            Some(at) if at < pages => at,
            Some(_) => 0,
            None => self.user.rng.below(u64::from(pages)) as u32,
        };
        let server = self.user.server();
        let end = first + wanted.min(pages - first);
        let missing = |page: &u32| self.keys.force || !server.cache.holds(*page);
        let from = (first..end).find(missing).unwrap_or(end);
        let to = (from..end).find(|page| !missing(page)).unwrap_or(end);
        drop(server);
        self.at = Some(to);
        (from, to - from)
    }
}

impl Source for ReadAhead {
    fn next(&mut self, _slot: u32, now_ns: u64, _last: Option<&Completion>) -> Next {
        let run = match self.chosen.take() {
            Some(run) => run,
            None => {
                self.cycles += 1;
                if self.keys.delay_after > 0 && self.cycles > self.keys.delay_after {
                    self.cycles = 0;
                    return Next::Wait(now_ns + self.keys.delay.ns.max(1));
                }
                self.choose()
            }
        };
        if run.1 == 0 {
            return later(now_ns);
        }
        let Some(next) = self.reading.begin(&self.user, run, false) else {
            self.chosen = Some(run);
            return later(now_ns);
        };
        // A scan takes what room the cache has, and waits for none.
        let mut server = self.user.server();
        let _ = (run.0..run.0 + run.1).all(|page| server.cache.admit(page));
        next
    }

    fn ended(&mut self, _slot: u32, completion: &Completion, _good: bool) {
        self.reading.end(&self.user, completion);
    }
}

/// Reads the data file or the log in order. Several lanes have a part each.
pub struct Audit {
    user: User,
    keys: AuditKeys,
    at: Option<u64>,
    cycles: u32,
    waited: bool,
}

impl Audit {
    pub fn new(user: User, keys: AuditKeys) -> Audit {
        Audit { user, keys, at: None, cycles: 0, waited: false }
    }

    /// The part of the file that is this lane's, in pages.
    fn part(&self) -> (u64, u64) {
        let server = self.user.server();
        let pages = match self.keys.log {
            true => server.file.log_bytes() / PAGE_BYTES,
            false => u64::from(server.pages),
        };
        let (lane, lanes) = (u64::from(self.user.lane), u64::from(self.user.lanes));
        (pages * lane / lanes, pages * (lane + 1) / lanes)
    }
}

impl Source for Audit {
    fn next(&mut self, _slot: u32, now_ns: u64, _last: Option<&Completion>) -> Next {
        let (from, to) = self.part();
        let mut at = self.at.unwrap_or(from);
        if at >= to {
            if self.keys.whole || from == to {
                return Next::End;
            }
            at = from;
        }
        if self.keys.delay.ns > 0 && self.cycles >= self.keys.delay_after {
            self.cycles = 0;
            return Next::Wait(now_ns + self.keys.delay.ns);
        }
        let count = u64::from(self.keys.pages).min(to - at);
        let mut server = self.user.server();
        let wish = Wish { writes: false, pages: count as u32, waited: self.waited, burst: self.keys.whole };
        let file = if self.keys.log { &mut server.log } else { &mut server.data };
        self.waited = !file.begin(wish);
        server.audited += u64::from(!self.waited && !self.keys.log);
        drop(server);
        if self.waited {
            return later(now_ns);
        }
        self.cycles += 1;
        self.at = Some(at + count);
        self.user.request(Operation::Read, at * PAGE_BYTES, count * PAGE_BYTES)
    }

    fn ended(&mut self, _slot: u32, completion: &Completion, _good: bool) {
        let mut server = self.user.server();
        let file = if self.keys.log { &mut server.log } else { &mut server.data };
        file.end(completion);
    }
}
