//! One large file, as Bonnie treats it: written and read in order, by block or by one call a byte; rewritten in place;
//! read at random places, some of which are written back.

use std::sync::{Arc, Mutex};

use engine::device::{Completion, Entry, Operation};
use engine::source::{ChainKind, Next, Part, Request, Source};
use plan::{Percent, Unit};

use crate::Worker;
use crate::stock::{Known, Pool, lock};
use crate::walk::Walk;

fn request(operation: Operation, entry: Entry, offset_bytes: u64, request_bytes: u32) -> Request {
    Request { operation, offset_bytes, request_bytes, pass: 0, entry }
}

/// The worker's own file, or where it has none, one of those that others have made.
fn file_of(worker: &Worker) -> Option<Known> {
    let big = |pool: &Arc<Mutex<Pool>>| lock(pool).big;
    let all: Vec<Known> = worker.all.iter().filter_map(big).collect();
    big(&worker.pool).or_else(|| all.get(worker.lane as usize % all.len().max(1)).copied())
}

/// Whether a request that is in no chain has failed.
fn failed(last: Option<&Completion>) -> bool {
    last.is_some_and(|end| end.result < 0)
}

/// Writes the file from its start to its end, anew where there is one.
pub struct WriteFile {
    worker: Worker,
    size_bytes: u64,
    by: Unit,
    fsync: bool,
    walk: Option<Walk>,
    over: bool,
}

impl WriteFile {
    pub fn new(worker: Worker, size_bytes: u64, by: Unit, fsync: bool) -> WriteFile {
        WriteFile { worker, size_bytes, by, fsync, walk: None, over: false }
    }
}

impl Source for WriteFile {
    fn next(&mut self, _slot: u32, _now_ns: u64, _last: Option<&Completion>) -> Next {
        if self.over {
            return Next::End;
        }
        let mut pool = lock(&self.worker.pool);
        if self.walk.is_none() {
            if let Some(old) = pool.big.take() {
                return Next::Do(request(Operation::Unlink, old.entry, 0, 0));
            }
            let entry = pool.new_entry(0);
            let data = if self.by == Unit::Character { Operation::Put } else { Operation::Write };
            let walk = Walk::new(entry, ChainKind::CreateFile, Operation::Create, data, self.worker.request_bytes);
            self.walk = Some(walk.over(0, self.size_bytes).flushed(self.fsync));
        }
        let next = self.walk.as_mut().and_then(Walk::step);
        if let (Some(walk), Some(_)) = (&self.walk, &next) {
            pool.big = Some(Known { entry: walk.entry, bytes: walk.done_bytes() });
        }
        self.over = next.is_none();
        next.unwrap_or(Next::End)
    }

    /// What was written stays, so that later phases have it.
    fn abort(&mut self, _slot: u32) {
        self.over = true;
        if self.walk.take().is_some_and(|walk| walk.only_opened()) {
            lock(&self.worker.pool).big = None;
        }
    }
}

/// Reads the file from its start to its end.
pub struct ReadFile {
    worker: Worker,
    by: Unit,
    walk: Option<Walk>,
    over: bool,
}

impl ReadFile {
    pub fn new(worker: Worker, by: Unit) -> ReadFile {
        ReadFile { worker, by, walk: None, over: false }
    }
}

impl Source for ReadFile {
    fn next(&mut self, _slot: u32, _now_ns: u64, _last: Option<&Completion>) -> Next {
        if self.over {
            return Next::End;
        }
        if self.walk.is_none() {
            let Some(file) = file_of(&self.worker) else { return Next::End };
            let data = if self.by == Unit::Character { Operation::Get } else { Operation::Read };
            let walk = Walk::new(file.entry, ChainKind::ReadFile, Operation::Open, data, self.worker.request_bytes);
            self.walk = Some(walk.over(0, file.bytes));
        }
        let next = self.walk.as_mut().and_then(Walk::step);
        self.over = next.is_none();
        next.unwrap_or(Next::End)
    }

    fn abort(&mut self, _slot: u32) {
        self.over = true;
    }
}

/// How far a program is that opens the file, does something many times, and closes it.
enum Stage {
    Open,
    Work(Known),
    Close(Entry),
    Over,
}

impl Stage {
    /// The file to work on; or what comes before and after.
    fn begin(&mut self, worker: &Worker) -> Result<Known, Next> {
        match *self {
            Stage::Open => match file_of(worker) {
                Some(file) => {
                    *self = Stage::Work(file);
                    Err(Next::Do(request(Operation::Open, file.entry, 0, 0)))
                }
                None => Err(Next::End),
            },
            Stage::Work(file) => Ok(file),
            Stage::Close(entry) => {
                *self = Stage::Over;
                Err(Next::Do(request(Operation::Close, entry, 0, 0)))
            }
            Stage::Over => Err(Next::End),
        }
    }
}

/// Changes one byte of what was read: Bonnie dirties an integer of each block.
fn dirty(buffer: &mut [u8]) {
    if let Some(first) = buffer.first_mut() {
        *first = first.wrapping_add(1);
    }
}

/// Reads each block, changes it and writes it back: a chain each.
pub struct RewriteFile {
    worker: Worker,
    stage: Stage,
    opened: bool,
    at_bytes: u64,
    /// The block that was read and is now to be written.
    read: Option<Request>,
}

impl RewriteFile {
    pub fn new(worker: Worker) -> RewriteFile {
        RewriteFile { worker, stage: Stage::Open, opened: false, at_bytes: 0, read: None }
    }
}

impl Source for RewriteFile {
    fn next(&mut self, _slot: u32, _now_ns: u64, last: Option<&Completion>) -> Next {
        let file = match self.stage.begin(&self.worker) {
            Ok(file) => file,
            Err(next) => return next,
        };
        if !std::mem::replace(&mut self.opened, true) && failed(last) {
            return Next::End;
        }
        if let Some(read) = self.read.take() {
            let write = Request { operation: Operation::Write, ..read };
            return Next::Step(write, Part::Last, ChainKind::Steps);
        }
        let left_bytes = file.bytes - self.at_bytes;
        if left_bytes == 0 {
            self.stage = Stage::Close(file.entry);
            return self.next(0, 0, None);
        }
        let bytes = left_bytes.min(u64::from(self.worker.request_bytes)) as u32;
        let read = request(Operation::Read, file.entry, self.at_bytes, bytes);
        self.at_bytes += u64::from(bytes);
        self.read = Some(read);
        Next::Step(read, Part::First, ChainKind::Steps)
    }

    fn abort(&mut self, _slot: u32) {
        self.read = None;
    }

    fn dirty(&mut self, buffer: &mut [u8]) {
        dirty(buffer);
    }
}

/// Reads blocks at random places, and changes and writes back some of them: a chain each.
pub struct SeekFile {
    worker: Worker,
    stage: Stage,
    opened: bool,
    left: u64,
    update: Percent,
    /// The block that was read and is now to be written.
    read: Option<Request>,
}

impl SeekFile {
    pub fn new(worker: Worker, seeks: u64, update: Percent) -> SeekFile {
        SeekFile { worker, stage: Stage::Open, opened: false, left: seeks, update, read: None }
    }
}

impl Source for SeekFile {
    fn next(&mut self, _slot: u32, _now_ns: u64, last: Option<&Completion>) -> Next {
        let file = match self.stage.begin(&self.worker) {
            Ok(file) => file,
            Err(next) => return next,
        };
        if !std::mem::replace(&mut self.opened, true) && failed(last) {
            return Next::End;
        }
        if let Some(read) = self.read.take() {
            let write = Request { operation: Operation::Write, ..read };
            return Next::Step(write, Part::Last, ChainKind::Steps);
        }
        let block_bytes = u64::from(self.worker.request_bytes);
        let blocks = file.bytes / block_bytes;
        if self.left == 0 || blocks == 0 {
            self.stage = Stage::Close(file.entry);
            return self.next(0, 0, None);
        }
        self.left -= 1;
        let at_bytes = self.worker.rng.below(blocks) * block_bytes;
        let read = request(Operation::Read, file.entry, at_bytes, self.worker.request_bytes);
        if self.worker.rng.unit_f64() * 100.0 < self.update.0 {
            self.read = Some(read);
            return Next::Step(read, Part::First, ChainKind::Steps);
        }
        Next::Step(read, Part::Only, ChainKind::Steps)
    }

    fn abort(&mut self, _slot: u32) {
        self.read = None;
    }

    fn dirty(&mut self, buffer: &mut [u8]) {
        dirty(buffer);
    }
}
