//! What writes for the users: checkpoints, the lazy writer, the log writer; and the growth of the file.

use engine::device::{Completion, Operation};
use engine::source::{Next, Source};
use plan::{Checkpoint, DatabaseFile, LazyWriter, LogWriter as LogKeys, PAGE_BYTES};

use super::throttle::Wish;
use super::{GATHERED_PAGES, LOG_WRITE_BYTES, User, later};

/// How often the first slot of an idle lazy writer looks again, the others less often by their number; nobody waits for it
/// but where the cache is full.
const LAZY_LOOK_NS: u64 = 5_000_000;

/// Which pages are written when.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// All, in the order of the file, from time to time.
    Checkpoint { every_ns: u64, next_ns: Option<u64>, at: Option<u32> },
    /// All at once, and then it is over.
    Whole,
    /// Those that were changed first, as long as there are more than so many.
    Oldest { most_dirty: usize },
}

/// Writes changed pages, neighbours together.
pub struct PageWriter {
    user: User,
    order: Order,
    /// The run that each slot writes, and whether it has waited for a request block.
    slots: Vec<(Option<(u32, u32)>, bool)>,
}

impl PageWriter {
    pub fn checkpoint(user: User, keys: Checkpoint, depth: u32) -> PageWriter {
        let every_ns = keys.every.ns.max(1);
        let order = if keys.whole { Order::Whole } else { Order::Checkpoint { every_ns, next_ns: None, at: None } };
        PageWriter { user, order, slots: vec![(None, false); depth as usize] }
    }

    pub fn lazy(user: User, keys: LazyWriter, depth: u32) -> PageWriter {
        let capacity = user.server().cache.capacity();
        let most_dirty = (capacity as f64 * keys.dirty.0 / 100.0) as usize;
        PageWriter { user, order: Order::Oldest { most_dirty }, slots: vec![(None, false); depth as usize] }
    }

    /// The next run, or what to do instead.
    fn choose(&mut self, slot: u32, now_ns: u64) -> Result<(u32, u32), Next> {
        let mut server = self.user.server();
        match &mut self.order {
            Order::Whole => match server.cache.dirty_run(0, GATHERED_PAGES) {
                Some(run) => Ok(run),
                None if server.cache.dirty_pages() == 0 => Err(Next::End),
                None => Err(later(now_ns)),
            },
            Order::Checkpoint { every_ns, next_ns, at } => {
                let due_ns = *next_ns.get_or_insert(now_ns + *every_ns);
                if at.is_none() {
                    if now_ns < due_ns {
                        return Err(Next::Wait(due_ns));
                    }
                    *at = Some(0);
                }
                match server.cache.dirty_run(at.unwrap_or(0), GATHERED_PAGES) {
                    Some((first, count)) => {
                        *at = Some(first + count);
                        Ok((first, count))
                    }
                    None => {
                        (*at, *next_ns) = (None, Some(now_ns + *every_ns));
                        Err(Next::Wait(now_ns + *every_ns))
                    }
                }
            }
            Order::Oldest { most_dirty } => {
                let asked = std::mem::take(&mut server.cache.full);
                let idle = Next::Wait(now_ns + LAZY_LOOK_NS * u64::from(slot + 1));
                if !asked && server.cache.dirty_pages() <= *most_dirty {
                    return Err(idle);
                }
                server.cache.oldest_dirty_run(GATHERED_PAGES).ok_or(idle)
            }
        }
    }
}

impl Source for PageWriter {
    fn next(&mut self, slot: u32, now_ns: u64, _last: Option<&Completion>) -> Next {
        let number = slot as usize;
        let run = match self.choose(slot, now_ns) {
            Ok(run) => run,
            Err(next) => return next,
        };
        let burst = matches!(self.order, Order::Whole);
        let mut server = self.user.server();
        let wish = Wish { writes: true, pages: run.1, waited: self.slots[number].1, burst };
        if !server.data.begin(wish) {
            drop(server);
            self.slots[number].1 = true;
            if let Order::Checkpoint { at, .. } = &mut self.order {
                *at = Some(run.0);
            }
            return later(now_ns);
        }
        for page in run.0..run.0 + run.1 {
            server.cache.busy.insert(page);
            server.cache.clean(page);
        }
        drop(server);
        self.slots[number] = (Some(run), false);
        self.user.pages(Operation::Write, run)
    }

    fn ended(&mut self, slot: u32, completion: &Completion, good: bool) {
        let mut server = self.user.server();
        server.data.end(completion);
        if let Some((first, count)) = self.slots[slot as usize].0.take() {
            for page in first..first + count {
                server.cache.busy.remove(&page);
                if !good {
                    server.cache.change(page);
                }
            }
        }
    }
}

/// Writes what was put into the log, in whole blocks, from its beginning to its end and again from there.
pub struct LogWriter {
    user: User,
    keys: LogKeys,
    at_bytes: u64,
    /// Bytes of records that the write in flight carries.
    carries: u64,
    waited: bool,
}

impl LogWriter {
    pub fn new(user: User, keys: LogKeys) -> LogWriter {
        LogWriter { user, keys, at_bytes: 0, carries: 0, waited: false }
    }
}

impl Source for LogWriter {
    fn next(&mut self, _slot: u32, now_ns: u64, _last: Option<&Completion>) -> Next {
        let block_bytes = self.user.place.block_bytes;
        let mut server = self.user.server();
        let pending = server.log_put - server.log_done;
        let wanted = server.log_wanted > server.log_done;
        if pending == 0 || !wanted && pending < self.keys.gather.0 {
            return later(now_ns);
        }
        let carries = pending.min(LOG_WRITE_BYTES);
        let bytes = carries.next_multiple_of(block_bytes);
        let log_bytes = server.file.log_bytes();
        if self.at_bytes + bytes > log_bytes {
            self.at_bytes = 0;
        }
        if !server.log.begin(Wish { writes: true, pages: 1, waited: self.waited, burst: false }) {
            drop(server);
            self.waited = true;
            return later(now_ns);
        }
        drop(server);
        let at_bytes = self.at_bytes;
        self.at_bytes += bytes;
        (self.carries, self.waited) = (carries, false);
        self.user.request(Operation::Write, at_bytes, bytes)
    }

    /// A write that failed is not tried again: its loss is counted, and users go on.
    fn ended(&mut self, _slot: u32, completion: &Completion, _good: bool) {
        let mut server = self.user.server();
        server.log.end(completion);
        server.log_done += self.carries;
    }
}

/// Lets the data file grow and shrink.
pub struct Growth {
    user: User,
    file: DatabaseFile,
    due_ns: Option<u64>,
    /// New pages that are yet to be written.
    stamping: Option<(u32, u32)>,
    waited: bool,
}

impl Growth {
    pub fn new(user: User, file: DatabaseFile) -> Growth {
        Growth { user, file, due_ns: None, stamping: None, waited: false }
    }

    fn increments_pages(&mut self) -> u32 {
        let count = self.user.between(self.file.increments_min, self.file.increments_max);
        (u64::from(count) * self.file.increment.0 / PAGE_BYTES).min(u64::from(u32::MAX)) as u32
    }

    /// Grows or shrinks, by chance; it never becomes smaller than it was at first.
    fn resize(&mut self) {
        let by = self.increments_pages();
        let grows = self.user.happens(50.0);
        let least = (self.file.size.0 / PAGE_BYTES) as u32;
        let mut server = self.user.server();
        let before = server.pages;
        if grows || before == least {
            let most = server.most_pages;
            server.pages = before.saturating_add(by).min(most);
            server.data.counts.grown += u64::from(server.pages > before);
            self.stamping = (self.file.stamp && server.pages > before).then_some((before, server.pages));
            return;
        }
        server.pages = before.saturating_sub(by).max(least);
        server.data.counts.shrunk += 1;
        let gone = server.cache.held_from(server.pages);
        gone.into_iter().for_each(|page| server.cache.discard(page));
    }
}

impl Source for Growth {
    fn next(&mut self, _slot: u32, now_ns: u64, _last: Option<&Completion>) -> Next {
        if self.file.increment.0 < PAGE_BYTES {
            return Next::End;
        }
        if let Some((from, to)) = self.stamping {
            let count = (to - from).min(GATHERED_PAGES);
            let wish = Wish { writes: true, pages: count, waited: self.waited, burst: false };
            self.waited = !self.user.server().data.begin(wish);
            if self.waited {
                return later(now_ns);
            }
            self.stamping = (from + count < to).then_some((from + count, to));
            return self.user.pages(Operation::Write, (from, count));
        }
        let Some(due_ns) = self.due_ns else {
            let span = self.file.every_max.ns - self.file.every_min.ns;
            let due_ns = now_ns + self.file.every_min.ns + self.user.rng.below(span + 1);
            self.due_ns = Some(due_ns);
            return Next::Wait(due_ns);
        };
        if now_ns < due_ns {
            return Next::Wait(due_ns);
        }
        self.due_ns = None;
        self.resize();
        Next::Wait(now_ns + 1)
    }

    fn ended(&mut self, _slot: u32, completion: &Completion, _good: bool) {
        self.user.server().data.end(completion);
    }
}
