//! A thread of Jetstress: records of a B-tree inserted, deleted, replaced and sought, mostly with lazy commits.

use engine::device::Completion;
use engine::source::{Next, Source};
use plan::{MailboxUser as Keys, PAGE_BYTES};

use super::{LOOK_NS, Reading, User, later};

/// Entries of an inner page: a key and a page number of some 40 bytes together.
const FAN_OUT: u32 = 200;
/// What the log has of a change besides the record itself.
const LOG_HEADER_BYTES: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Insert,
    Delete,
    Replace,
    Seek,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Choose,
    /// Goes down the tree: the inner page above the leaf, then the leaf.
    Down {
        kind: Kind,
        leaf: u32,
        inner: bool,
    },
    Commit(u64),
}

/// Inner pages stand at the beginning of the file, leaves behind them. The root is always in memory.
pub struct MailboxUser {
    user: User,
    keys: Keys,
    stage: Stage,
    fetched: bool,
    reading: Reading,
}

impl MailboxUser {
    pub fn new(user: User, keys: Keys) -> MailboxUser {
        MailboxUser { user, keys, stage: Stage::Choose, fetched: false, reading: Reading::default() }
    }

    fn draw(&mut self) -> Kind {
        let draw = self.user.rng.unit_f64() * 100.0;
        let Keys { insert, delete, replace, .. } = self.keys;
        match draw {
            draw if draw < insert.0 => Kind::Insert,
            draw if draw < insert.0 + delete.0 => Kind::Delete,
            draw if draw < insert.0 + delete.0 + replace.0 => Kind::Replace,
            _ => Kind::Seek,
        }
    }

    /// When to look again, where so many requests as all mailboxes ask for have been made already. Each lane waits for
    /// one request more than the lane before it, so that they do not all begin at once.
    fn ahead_until_ns(&self, now_ns: u64) -> Option<u64> {
        let asked_per_s = self.keys.mailboxes as f64 * self.keys.mailbox_iops;
        if asked_per_s <= 0.0 {
            return None;
        }
        let mut server = self.user.server();
        let started_ns = *server.started_ns.get_or_insert(now_ns);
        let made = server.users_requests() as f64;
        let due = now_ns.saturating_sub(started_ns) as f64 / 1e9 * asked_per_s;
        let next = made + f64::from(self.user.lane);
        (made > due).then(|| (started_ns + (next / asked_per_s * 1e9) as u64).max(now_ns + LOOK_NS))
    }

    fn choose(&mut self) {
        let kind = self.draw();
        let pages = self.user.server().pages;
        let inner_pages = pages.div_ceil(FAN_OUT + 1);
        let leaf = inner_pages + self.user.rng.below(u64::from(pages - inner_pages)) as u32;
        self.stage = Stage::Down { kind, leaf, inner: true };
        self.fetched = false;
    }

    /// The leaf is in memory: changes it, and says what to wait for.
    fn change(&mut self, kind: Kind, leaf: u32) -> Option<u64> {
        let splits = kind == Kind::Insert && {
            let records = PAGE_BYTES / self.keys.record.0;
            self.user.rng.below(records.max(1)) == 0
        };
        let waits = !self.user.happens(self.keys.lazy_commits.0);
        let record_bytes = self.keys.record.0;
        let mut server = self.user.server();
        if kind == Kind::Seek {
            return None;
        }
        server.cache.change(leaf);
        let mut log_bytes = LOG_HEADER_BYTES + if kind == Kind::Delete { 0 } else { record_bytes };
        if splits && server.pages < server.most_pages {
            // The new leaf is made in memory, and half of the old one's records move there.
            let new = server.pages;
            if server.cache.admit(new) {
                server.pages += 1;
                server.cache.change(new);
                let parent = parent_of(leaf, server.pages);
                server.cache.change(parent);
                log_bytes += PAGE_BYTES / 2;
            }
        }
        let until = server.put_log(log_bytes);
        if waits {
            server.log_wanted = until;
        }
        waits.then_some(until)
    }

    /// A step down: a read where the page is missing; None where it is there.
    fn fetch(&mut self, page: u32, now_ns: u64) -> Option<Next> {
        if self.user.server().cache.touch(page) || self.fetched {
            self.fetched = false;
            return None;
        }
        self.fetched = true;
        Some(self.reading.begin(&self.user, (page, 1), true).unwrap_or_else(|| {
            self.fetched = false;
            later(now_ns)
        }))
    }
}

fn parent_of(leaf: u32, pages: u32) -> u32 {
    let inner_pages = pages.div_ceil(FAN_OUT + 1);
    (leaf.saturating_sub(inner_pages) / FAN_OUT).min(inner_pages.saturating_sub(1))
}

impl Source for MailboxUser {
    fn next(&mut self, _slot: u32, now_ns: u64, _last: Option<&Completion>) -> Next {
        loop {
            match self.stage {
                Stage::Choose => {
                    if let Some(until_ns) = self.ahead_until_ns(now_ns) {
                        return Next::Wait(until_ns);
                    }
                    self.choose();
                }
                Stage::Down { kind, leaf, inner: true } => {
                    let parent = parent_of(leaf, self.user.server().pages);
                    if let Some(next) = self.fetch(parent, now_ns) {
                        return next;
                    }
                    self.stage = Stage::Down { kind, leaf, inner: false };
                }
                Stage::Down { kind, leaf, inner: false } => {
                    if let Some(next) = self.fetch(leaf, now_ns) {
                        return next;
                    }
                    self.stage = self.change(kind, leaf).map_or(Stage::Choose, Stage::Commit);
                }
                Stage::Commit(until) => {
                    if self.user.server().log_done < until {
                        return later(now_ns);
                    }
                    self.stage = Stage::Choose;
                }
            }
        }
    }

    fn ended(&mut self, _slot: u32, completion: &Completion, _good: bool) {
        self.reading.end(&self.user, completion);
    }
}
