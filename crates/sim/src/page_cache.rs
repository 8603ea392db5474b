//! The page cache of a host in virtual time, between the requests of a buffered run and the modelled system.
//!
//! A read of pages that are there costs a call and a copy. What is not there is read, with what read-ahead adds
//! (`read_ahead`), and waited for. A write changes pages and ends; a page that is changed in part and is not there is read
//! first. Dirty pages are written when they are more than `dirty_background_percent` of the memory until they no longer
//! are, when they are older than `dirty_expire` at a look every `dirty_writeback`, and when somebody flushes; a writer
//! waits while they and those that are being written are `dirty_percent`. A flush writes what is dirty at its begin, then
//! flushes the device; a durable write does so for its own pages. Source: Linux Documentation/admin-guide/sysctl/vm.rst,
//! mm/page-writeback.c, mm/readahead.c.
//!
//! Calls cost no processor that others would need: each has its own.

mod file_system;
mod pages;
mod read_ahead;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use engine::event::{ModelledFileSystem, PageCacheFacts, WrittenBy};

use crate::NEVER;
use crate::brick::{Brick, FileSystem, PageCacheParameters, WriteOrder};
use crate::device::Volume;
use crate::member::Kind;
use crate::slab::Slab;
use crate::system::{CachesWork, Change, MemberWork, Progress, Request, System};
use file_system::{JournalRules, Layout};
use pages::Pages;
use read_ahead::{Fetch, ReadAhead};

/// What the cache did, in pages.
pub use engine::event::PageCacheWork as Work;

/// A call of the run.
#[derive(Debug, Clone, Copy)]
struct Call {
    request: Request,
    /// The next page that it deals with, and the one behind its last.
    at: u64,
    end: u64,
    /// Pages up to here have been counted.
    counted: u64,
    failed: bool,
}

/// What was asked of the system.
#[derive(Debug)]
enum Io {
    Read { first: u64, pages: u64, waiting: Vec<u32> },
    Write { first: u64, pages: u64 },
    Record,
    Whole(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ended(u32),
    Look,
    Commit,
}

/// A call that waits until changes up to one are on the device: of its own pages, or of all.
#[derive(Debug, Clone, Copy)]
struct Sync {
    call: u32,
    change: u64,
    own: bool,
    /// And until so many commits are done.
    commits: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Changes up to this one come first.
    Data(u64),
    Record,
    Commit,
}

#[derive(Debug)]
struct Journal {
    rules: JournalRules,
    at: u64,
    /// Something waits for a commit, which is planned for then.
    open: bool,
    due_ns: u64,
    stage: Option<Stage>,
    asked: bool,
    done: u64,
}

/// A system with the page cache of its host before it. The run has one file on it, all of which it may use.
#[derive(Debug)]
pub struct Cached {
    system: System,
    rules: PageCacheParameters,
    facts: PageCacheFacts,
    layout: Layout,
    file_pages: u64,
    /// What lies behind it was never written.
    end_page: u64,
    page_bytes: u64,
    request_pages: u64,
    ahead_pages: u64,
    copy_ps_per_byte: u64,
    background_pages: usize,
    dirty_pages: usize,
    pages: Pages,
    window: ReadAhead,
    calls: Slab<Call>,
    ios: Slab<Io>,
    writes: u32,
    /// What is written whatever the limits say: old pages, and those that somebody waits for.
    due: BTreeSet<u64>,
    cursor: u64,
    throttled: VecDeque<u32>,
    without_memory: VecDeque<u32>,
    syncs: Vec<Sync>,
    journal: Option<Journal>,
    /// A write-back failed, which the next flush reports.
    failed: bool,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    looks: bool,
    ended: Vec<(u32, u64, bool)>,
    outcomes: Vec<(u32, bool)>,
    pub work: Work,
}

impl Cached {
    pub fn new(brick: &Brick, system: System) -> Result<Cached, String> {
        if brick.power_cut_ns.is_some() {
            return Err(format!(
                "sim:{}: power_cut_at: what a host loses of its page cache is not modelled; use io = \"direct\"",
                brick.name
            ));
        }
        let rules = brick.page_cache.clone();
        let page_bytes = rules.page_bytes.0;
        let layout = Layout::new(brick.file_system, system.capacity_bytes() / page_bytes)
            .map_err(|e| format!("sim:{}: {e}", brick.name))?;
        let size = brick.memory_bytes / page_bytes;
        let share = |percent: f64| ((size as f64 * percent / 100.0) as usize).max(1);
        let journal = |rules| Journal { rules, at: 0, open: false, due_ns: 0, stage: None, asked: false, done: 0 };
        Ok(Cached {
            facts: facts_of(brick),
            file_pages: layout.file_pages(),
            end_page: if rules.new_file { 0 } else { layout.file_pages() },
            page_bytes,
            request_pages: rules.request_bytes.0 / page_bytes,
            ahead_pages: rules.read_ahead_bytes.0 / page_bytes,
            copy_ps_per_byte: (1e6 / rules.copy_mb_per_s) as u64,
            background_pages: share(rules.dirty_background_percent),
            dirty_pages: share(rules.dirty_percent),
            pages: Pages::new(size as usize),
            window: ReadAhead::default(),
            calls: Slab::new(),
            ios: Slab::new(),
            writes: 0,
            due: BTreeSet::new(),
            cursor: 0,
            throttled: VecDeque::new(),
            without_memory: VecDeque::new(),
            syncs: Vec::new(),
            journal: layout.journal().map(journal),
            layout,
            failed: false,
            events: BinaryHeap::new(),
            sequence: 0,
            looks: false,
            ended: Vec::new(),
            outcomes: Vec::new(),
            work: Work::default(),
            rules,
            system,
        })
    }

    /// What the file holds.
    pub fn capacity_bytes(&self) -> u64 {
        self.file_pages * self.page_bytes
    }

    pub fn facts(&self) -> PageCacheFacts {
        self.facts.clone()
    }

    /// The work so far, with what is dirty at this moment.
    pub fn work_by_now(&self) -> Work {
        Work { dirty_pages: self.pages.unwritten() as u64, peak_pages: self.pages.peak as u64, ..self.work }
    }

    pub fn cached_pages(&self) -> usize {
        self.pages.count()
    }

    fn plan(&mut self, at_ns: u64, event: Event) {
        self.events.push(Reverse((at_ns, self.sequence, event)));
        self.sequence += 1;
    }

    fn begin(&mut self, now_ns: u64, request: Request) {
        let first = request.offset_bytes / self.page_bytes;
        let end = (request.offset_bytes + u64::from(request.bytes)).div_ceil(self.page_bytes);
        let call = self.calls.insert(Call { request, at: first, end, counted: first, failed: false });
        match request.kind {
            Kind::Read | Kind::Write => self.go_on(now_ns, call),
            Kind::Flush => self.sync(now_ns, call, false),
            Kind::Trim => {
                let whole = request.offset_bytes.div_ceil(self.page_bytes)
                    ..(request.offset_bytes + u64::from(request.bytes)) / self.page_bytes;
                whole.for_each(|page| self.pages.drop_page(page));
                let place = self.layout.place(first) * self.page_bytes + request.offset_bytes % self.page_bytes;
                let tag = self.ios.insert(Io::Whole(call));
                self.system.submit(now_ns, Request { tag, offset_bytes: place, durable: false, ..request });
            }
        }
    }

    fn go_on(&mut self, now_ns: u64, number: u32) {
        match self.calls.get(number).request.kind {
            Kind::Read => self.read(now_ns, number),
            _ => self.write(now_ns, number),
        }
    }

    /// Ends a call after what its way through the kernel and its copy cost.
    fn finish(&mut self, now_ns: u64, number: u32) {
        let request = self.calls.get(number).request;
        let copied = matches!(request.kind, Kind::Read | Kind::Write);
        let copy_ns = if copied { u64::from(request.bytes) * self.copy_ps_per_byte / 1000 } else { 0 };
        self.plan(now_ns + self.rules.call.ns + copy_ns, Event::Ended(number));
    }

    fn read(&mut self, now_ns: u64, number: u32) {
        loop {
            let Call { at: page, end, counted, .. } = *self.calls.get(number);
            if page >= end {
                self.window.has_read(end - 1);
                return self.finish(now_ns, number);
            }
            if self.waits_for_index(now_ns, number, page) {
                return;
            }
            let is_new = page >= counted;
            self.calls.get(number).counted = counted.max(page + 1);
            let request = end - page;
            let most = self.most(request);
            let Some(found) = self.pages.get(page) else {
                self.work.misses += u64::from(is_new);
                let fetch = self.window.missed(page, request, most, |page| self.pages.has(page));
                self.count_with(number, fetch);
                self.fetch(now_ns, fetch);
                match self.pages.get(page).and_then(|found| found.reading) {
                    Some(io) => self.wait(io, number),
                    None => self.without_memory.push_back(number),
                }
                return;
            };
            self.work.hits += u64::from(is_new);
            if self.pages.take_marker(page) {
                let next = self.window.marked(page, request, most, |page| self.pages.has(page));
                next.into_iter().for_each(|fetch| self.fetch(now_ns, fetch));
            }
            if let Some(io) = found.reading {
                return self.wait(io, number);
            }
            self.pages.touch(page);
            self.calls.get(number).at += 1;
        }
    }

    /// Counts the pages of a call that are read with the one that it missed.
    fn count_with(&mut self, number: u32, fetch: Fetch) {
        let Call { end, counted, .. } = *self.calls.get(number);
        let last = (fetch.first + fetch.pages).min(end);
        for page in counted..last {
            let hit = self.pages.has(page);
            self.work.hits += u64::from(hit);
            self.work.misses += u64::from(!hit);
        }
        self.calls.get(number).counted = counted.max(last);
    }

    /// The largest window: a call that asks for more gets it in requests as large as the device takes.
    fn most(&self, request: u64) -> u64 {
        match self.ahead_pages > 0 && request > self.ahead_pages {
            true => request.min(self.request_pages).max(self.ahead_pages),
            false => self.ahead_pages,
        }
    }

    /// Whether the block of pointers to a page has to be read first.
    fn waits_for_index(&mut self, now_ns: u64, number: u32, page: u64) -> bool {
        let Some(index) = self.layout.index(page) else { return false };
        if !self.pages.has(index) {
            self.work.metadata_reads += 1;
            self.fetch(now_ns, Fetch { first: index, pages: 1, ahead: 0 });
        }
        match self.pages.get(index) {
            None => self.without_memory.push_back(number),
            Some(found) => match found.reading {
                Some(io) => self.wait(io, number),
                None => {
                    self.pages.touch(index);
                    return false;
                }
            },
        }
        true
    }

    fn wait(&mut self, io: u32, number: u32) {
        if let Io::Read { waiting, .. } = self.ios.get(io) {
            waiting.push(number);
        }
    }

    /// Reads what of a window is not there. Nothing is given up for pages that nobody wants yet.
    fn fetch(&mut self, now_ns: u64, fetch: Fetch) {
        let last = fetch.first + fetch.pages;
        let last = if fetch.first < self.file_pages { last.min(self.file_pages) } else { last };
        let marked = if fetch.ahead > 0 { fetch.first + fetch.pages - fetch.ahead } else { NEVER };
        let mut begun: Vec<u32> = Vec::new();
        for page in fetch.first..last {
            if self.pages.has(page) {
                continue;
            }
            if !self.pages.has_room() {
                break;
            }
            let open = begun.last().copied().filter(|io| self.continues(*io, page));
            let io = open.unwrap_or_else(|| {
                begun.push(self.ios.insert(Io::Read { first: page, pages: 0, waiting: Vec::new() }));
                begun[begun.len() - 1]
            });
            if let Io::Read { pages, .. } = self.ios.get(io) {
                *pages += 1;
            }
            self.pages.expect(page, io, page == marked);
            self.work.read_pages += 1;
        }
        for tag in begun {
            if let Io::Read { first, pages, .. } = *self.ios.get(tag) {
                self.work.read_requests += 1;
                self.submit(now_ns, tag, Kind::Read, first, pages);
            }
        }
    }

    fn continues(&mut self, io: u32, page: u64) -> bool {
        let Io::Read { first, pages, .. } = *self.ios.get(io) else { return false };
        pages < self.request_pages
            && first + pages == page
            && self.layout.place(first) + pages == self.layout.place(page)
    }

    fn submit(&mut self, now_ns: u64, tag: u32, kind: Kind, first: u64, pages: u64) {
        let offset_bytes = self.layout.place(first) * self.page_bytes;
        let bytes = (pages * self.page_bytes) as u32;
        self.system.submit(now_ns, Request { tag, kind, offset_bytes, bytes, durable: false });
    }

    fn write(&mut self, now_ns: u64, number: u32) {
        loop {
            let Call { at: page, end, request, .. } = *self.calls.get(number);
            if page >= end {
                self.has_changed_file(now_ns);
                match request.durable {
                    true => self.sync(now_ns, number, true),
                    false => self.finish(now_ns, number),
                }
                return;
            }
            if self.pages.unwritten() >= self.dirty_pages {
                self.work.throttled += 1;
                self.throttled.push_back(number);
                return;
            }
            if self.waits_for_index(now_ns, number, page) {
                return;
            }
            let begin = page * self.page_bytes;
            let is_whole = request.offset_bytes <= begin
                && begin + self.page_bytes <= request.offset_bytes + u64::from(request.bytes);
            match self.pages.get(page).map(|found| found.reading) {
                Some(Some(io)) => return self.wait(io, number),
                None if !is_whole && page < self.end_page => {
                    self.work.reads_before_writes += 1;
                    self.fetch(now_ns, Fetch { first: page, pages: 1, ahead: 0 });
                    match self.pages.get(page).and_then(|found| found.reading) {
                        Some(io) => self.wait(io, number),
                        None => self.without_memory.push_back(number),
                    }
                    return;
                }
                None if !self.pages.has_room() => return self.without_memory.push_back(number),
                _ => {}
            }
            self.change(now_ns, page);
            self.end_page = self.end_page.max(page + 1);
            self.calls.get(number).at += 1;
        }
    }

    fn change(&mut self, now_ns: u64, page: u64) {
        let before = self.pages.last_change;
        self.pages.change(page, now_ns);
        self.work.dirtied_pages += self.pages.last_change - before;
        if !self.looks {
            self.looks = true;
            let period_ns = self.rules.dirty_writeback.ns;
            self.plan((now_ns / period_ns + 1) * period_ns, Event::Look);
        }
    }

    /// The time of a change stands in the inode, which a journal writes first.
    fn has_changed_file(&mut self, now_ns: u64) {
        match &mut self.journal {
            Some(journal) if journal.open => {}
            Some(journal) => {
                journal.open = true;
                journal.due_ns = now_ns + journal.rules.interval_ns;
                let due_ns = journal.due_ns;
                self.plan(due_ns, Event::Commit);
            }
            None => self.change_inode(now_ns),
        }
    }

    fn change_inode(&mut self, now_ns: u64) {
        if let Some(inode) = self.layout.inode()
            && (self.pages.has(inode) || self.pages.has_room())
        {
            self.change(now_ns, inode);
        }
    }

    /// A call waits for its own pages, or for all that are dirty now.
    fn sync(&mut self, now_ns: u64, call: u32, own: bool) {
        let Call { request, end, .. } = *self.calls.get(call);
        if own {
            let first = request.offset_bytes / self.page_bytes;
            self.due.extend(self.pages.dirty().range(first..end));
        } else {
            self.due.extend(self.pages.dirty());
        }
        let mut commits = 0;
        if let Some(journal) = self.journal.as_mut().filter(|journal| !own && journal.open) {
            journal.asked = true;
            commits = journal.done + 1 + u64::from(journal.stage.is_some());
        }
        self.syncs.push(Sync { call, change: self.pages.last_change, own, commits });
        self.commit(now_ns, false);
        self.look_at_syncs(now_ns);
    }

    fn is_synced(&mut self, sync: Sync) -> bool {
        if self.journal.as_ref().is_some_and(|journal| journal.done < sync.commits) {
            return false;
        }
        if !sync.own {
            return self.pages.oldest_change().is_none_or(|(number, _, _)| number > sync.change);
        }
        let Call { request, end, .. } = *self.calls.get(sync.call);
        (request.offset_bytes / self.page_bytes..end).all(|page| !self.pages.has_change(page, sync.change))
    }

    fn look_at_syncs(&mut self, now_ns: u64) {
        let mut index = 0;
        while index < self.syncs.len() {
            let sync = self.syncs[index];
            if !self.is_synced(sync) {
                index += 1;
                continue;
            }
            self.syncs.swap_remove(index);
            self.calls.get(sync.call).failed |= std::mem::take(&mut self.failed);
            if !self.rules.barriers {
                self.finish(now_ns, sync.call);
                continue;
            }
            let tag = self.ios.insert(Io::Whole(sync.call));
            let flush = Request { tag, kind: Kind::Flush, offset_bytes: 0, bytes: 0, durable: false };
            self.system.submit(now_ns, flush);
        }
    }

    /// Begins a commit that is due or asked for, and takes one that goes on to its next stage.
    fn commit(&mut self, now_ns: u64, is_due: bool) {
        let Some(journal) = &mut self.journal else { return };
        if journal.stage.is_none() && journal.open && (is_due || journal.asked) {
            (journal.open, journal.asked) = (false, false);
            if journal.rules.ordered {
                self.due.extend(self.pages.dirty());
            }
            let waits = journal.rules.ordered || !is_due;
            journal.stage = Some(Stage::Data(if waits { self.pages.last_change } else { 0 }));
        }
        if let Some(Stage::Data(change)) = journal.stage
            && self.pages.oldest_change().is_none_or(|(number, _, _)| number > change)
        {
            journal.stage = Some(Stage::Record);
            let bytes = journal.rules.record_bytes;
            self.write_record(now_ns, bytes);
        }
    }

    fn write_record(&mut self, now_ns: u64, bytes: u32) {
        let Some(journal) = &mut self.journal else { return };
        let pages = u64::from(bytes).div_ceil(self.page_bytes);
        if journal.at + pages > journal.rules.pages {
            journal.at = 0;
        }
        let offset_bytes = (journal.rules.first + journal.at) * self.page_bytes;
        journal.at += pages;
        self.work.journal_bytes += u64::from(bytes);
        let tag = self.ios.insert(Io::Record);
        let durable = self.rules.barriers;
        self.system.submit(now_ns, Request { tag, kind: Kind::Write, offset_bytes, bytes, durable });
    }

    fn recorded(&mut self, now_ns: u64) {
        let Some(journal) = &mut self.journal else { return };
        if journal.stage == Some(Stage::Record) && journal.rules.commit_bytes > 0 {
            journal.stage = Some(Stage::Commit);
            let bytes = journal.rules.commit_bytes;
            return self.write_record(now_ns, bytes);
        }
        journal.stage = None;
        journal.done += 1;
        self.work.commits += 1;
        self.change_inode(now_ns);
        self.commit(now_ns, false);
        self.look_at_syncs(now_ns);
    }

    /// Gives the device what it takes of the pages that are to be written.
    fn write_back(&mut self, now_ns: u64) {
        while self.writes < self.rules.write_requests {
            let Some(first) = self.next_to_write() else { return };
            let place = self.layout.place(first);
            let mut pages = 1;
            while pages < self.request_pages
                && self.pages.dirty().contains(&(first + pages))
                && !self.pages.is_writing(first + pages)
                && self.layout.place(first + pages) == place + pages
            {
                pages += 1;
            }
            for page in first..first + pages {
                self.pages.begin_write(page);
                self.due.remove(&page);
            }
            self.cursor = first + pages;
            self.writes += 1;
            self.work.written_pages += pages;
            self.work.write_requests += 1;
            let tag = self.ios.insert(Io::Write { first, pages });
            self.submit(now_ns, tag, Kind::Write, first, pages);
        }
    }

    fn next_to_write(&mut self) -> Option<u64> {
        if let Some(page) = self.next_due() {
            return Some(page);
        }
        if self.pages.dirty().len() <= self.background_pages && self.throttled.is_empty() {
            return None;
        }
        match self.rules.write_order {
            WriteOrder::Offset => self.at_or_after_cursor(self.pages.dirty()),
            WriteOrder::Age => {
                let batch = self.rules.write_requests as usize;
                let oldest: Vec<u64> = self.pages.dirty_by(NEVER).take(batch).collect();
                self.due.extend(oldest);
                self.next_due()
            }
        }
    }

    fn next_due(&mut self) -> Option<u64> {
        if self.due.is_empty() {
            return None;
        }
        let (dirty, due) = (self.pages.dirty(), &mut self.due);
        if due.len() > dirty.len() {
            due.retain(|page| dirty.contains(page));
        }
        self.at_or_after_cursor(&self.due)
    }

    /// The next page from where the last write ended, as an elevator goes; one that is being written waits for that.
    fn at_or_after_cursor(&self, of: &BTreeSet<u64>) -> Option<u64> {
        let can = |page: &&u64| self.pages.dirty().contains(*page) && !self.pages.is_writing(**page);
        of.range(self.cursor..).find(can).or_else(|| of.range(..self.cursor).find(can)).copied()
    }

    fn happen(&mut self, now_ns: u64, event: Event) {
        match event {
            Event::Ended(number) => {
                let call = self.calls.remove(number);
                self.ended.push((call.request.tag, now_ns, call.failed));
            }
            Event::Look => {
                let old_ns = now_ns.checked_sub(self.rules.dirty_expire.ns);
                let old: Vec<u64> = old_ns.map(|by_ns| self.pages.dirty_by(by_ns).collect()).unwrap_or_default();
                self.due.extend(old);
                self.looks = self.pages.unwritten() > 0;
                if self.looks {
                    self.plan(now_ns + self.rules.dirty_writeback.ns, Event::Look);
                }
            }
            Event::Commit => {
                let is_due = self.journal.as_ref().is_some_and(|journal| journal.due_ns <= now_ns);
                self.commit(now_ns, is_due);
            }
        }
        self.write_back(now_ns);
    }

    fn io_ended(&mut self, now_ns: u64, tag: u32, failed: bool) {
        match self.ios.remove(tag) {
            Io::Read { first, pages, waiting } => {
                (first..first + pages).for_each(|page| self.pages.arrived(page, failed));
                for number in waiting {
                    match failed {
                        true => self.fail(now_ns, number),
                        false => self.go_on(now_ns, number),
                    }
                }
            }
            Io::Write { first, pages } => {
                self.writes -= 1;
                self.failed |= failed;
                (first..first + pages).for_each(|page| self.pages.end_write(page));
                self.commit(now_ns, false);
                self.look_at_syncs(now_ns);
                // Each comes back behind the others if there is no room for it yet.
                for _ in 0..self.throttled.len() {
                    if self.pages.unwritten() >= self.dirty_pages {
                        break;
                    }
                    let Some(number) = self.throttled.pop_front() else { break };
                    self.go_on(now_ns, number);
                }
            }
            Io::Record => self.recorded(now_ns),
            Io::Whole(number) => match failed {
                true => self.fail(now_ns, number),
                false => self.finish(now_ns, number),
            },
        }
        for _ in 0..self.without_memory.len() {
            let Some(number) = self.without_memory.pop_front() else { break };
            self.go_on(now_ns, number);
        }
        self.write_back(now_ns);
    }

    fn fail(&mut self, now_ns: u64, number: u32) {
        self.calls.get(number).failed = true;
        self.plan(now_ns, Event::Ended(number));
    }

    /// Deals with what the system has ended by now.
    fn settle(&mut self, now_ns: u64) {
        while self.system.has_ended() {
            let mut outcomes = std::mem::take(&mut self.outcomes);
            self.system.take_outcomes(|(tag, _, failed)| outcomes.push((tag, failed)));
            for (tag, failed) in outcomes.drain(..) {
                self.io_ended(now_ns, tag, failed);
            }
            self.outcomes = outcomes;
        }
    }
}

impl Volume for Cached {
    fn submit(&mut self, now_ns: u64, request: Request) {
        self.begin(now_ns, request);
        self.write_back(now_ns);
        self.settle(now_ns);
    }

    fn next_event(&self) -> u64 {
        let own_ns = self.events.peek().map_or(NEVER, |Reverse((at_ns, _, _))| *at_ns);
        own_ns.min(self.system.next_event())
    }

    fn advance(&mut self, now_ns: u64) {
        loop {
            let own_ns = self.events.peek().map_or(NEVER, |Reverse((at_ns, _, _))| *at_ns);
            let system_ns = self.system.next_event();
            let at_ns = own_ns.min(system_ns);
            if at_ns > now_ns || at_ns == NEVER {
                return;
            }
            if system_ns <= own_ns {
                self.system.advance(at_ns);
            } else if let Some(Reverse((_, _, event))) = self.events.pop() {
                self.happen(at_ns, event);
            }
            self.settle(at_ns);
        }
    }

    fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    fn has_changed(&self) -> bool {
        self.system.has_changed()
    }

    fn take_changes(&mut self) -> Vec<Change> {
        self.system.take_changes()
    }

    fn take_outcomes(&mut self, each: impl FnMut((u32, u64, bool))) {
        self.ended.drain(..).for_each(each);
    }

    fn background_by(&self, now_ns: u64) -> Option<Progress> {
        self.system.background_by(now_ns)
    }

    fn members_work(&self) -> &[MemberWork] {
        self.system.members_work()
    }

    fn caches_work(&self) -> CachesWork {
        self.system.caches_work()
    }

    fn page_cache_work(&self) -> Option<Work> {
        Some(self.work_by_now())
    }
}

fn facts_of(brick: &Brick) -> PageCacheFacts {
    let rules = &brick.page_cache;
    PageCacheFacts {
        memory_bytes: brick.memory_bytes,
        page_bytes: rules.page_bytes.0,
        call_ns: rules.call.ns,
        copy_mb_per_s: rules.copy_mb_per_s,
        read_ahead_bytes: rules.read_ahead_bytes.0,
        request_bytes: rules.request_bytes.0,
        dirty_background_percent: rules.dirty_background_percent,
        dirty_percent: rules.dirty_percent,
        dirty_expire_ns: rules.dirty_expire.ns,
        dirty_writeback_ns: rules.dirty_writeback.ns,
        write_order: match rules.write_order {
            WriteOrder::Offset => WrittenBy::Offset,
            WriteOrder::Age => WrittenBy::Age,
        },
        write_requests: rules.write_requests,
        barriers: rules.barriers,
        new_file: rules.new_file,
        file_system: match brick.file_system {
            FileSystem::None => ModelledFileSystem::No,
            FileSystem::Ext2 => ModelledFileSystem::Ext2,
            FileSystem::Ext3 => ModelledFileSystem::Ext3,
            FileSystem::Xfs => ModelledFileSystem::Xfs,
        },
    }
}
