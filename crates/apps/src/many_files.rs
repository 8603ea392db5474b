//! Many small files: made at first, and then read, appended to, made and deleted by transactions.
//!
//! The mix is that of PostMark 1.5 (Katcher 1997): a transaction reads a file or appends to one, then makes a file or
//! deletes one, each chosen by a bias of ten; sizes are uniform; as many files again as at first have room.

use engine::device::{Completion, Operation};
use engine::source::{ChainKind, Next, Request, Source};
use plan::SizeRange;

use crate::Worker;
use crate::stock::{Known, lock};
use crate::walk::Walk;

/// Transactions that found nothing to do, one after the other, before a worker without a count rests.
const IDLE_MAX: u32 = 1_000;
/// How long it rests.
const REST_NS: u64 = 1_000_000;

/// Out of how many a bias is.
const BIAS_OF: u64 = 10;

/// Files of a worker on their way: what is common to all programs over many of them.
struct Hands {
    worker: Worker,
    size: SizeRange,
    fsync: bool,
    walk: Option<(Walk, usize)>,
}

impl Hands {
    fn draw_size(&mut self) -> u64 {
        self.size.from_bytes + self.worker.rng.below(self.size.to_bytes - self.size.from_bytes)
    }

    /// Begins a new file. It is known from now on, so that a phase that ends in its middle leaves no stranger behind.
    fn create(&mut self) {
        let bytes = self.draw_size();
        let mut pool = lock(&self.worker.pool);
        let homes = pool.homes.len() as u64;
        let home = if homes > 1 { self.worker.rng.below(homes) } else { 0 };
        let entry = pool.new_entry(home as usize);
        pool.files.push(Known { entry, bytes: 0 });
        let index = pool.files.len() - 1;
        let (kind, request_bytes) = (ChainKind::CreateFile, self.worker.request_bytes);
        let walk = Walk::new(entry, kind, Operation::Create, Operation::Write, request_bytes);
        self.walk = Some((walk.over(0, bytes).flushed(self.fsync), index));
    }

    /// The next step of what is under way, if anything is.
    fn step(&mut self) -> Option<Next> {
        let (walk, index) = self.walk.as_mut()?;
        let next = walk.step();
        if walk.kind != ChainKind::ReadFile
            && let Some(file) = lock(&self.worker.pool).files.get_mut(*index)
        {
            file.bytes = walk.done_bytes();
        }
        if next.is_none() {
            self.walk = None;
        }
        next
    }

    /// A step has failed: the file is as long as it was for certain, or is not there at all.
    fn abort(&mut self) {
        if let Some((walk, index)) = self.walk.take()
            && walk.kind == ChainKind::CreateFile
            && walk.only_opened()
        {
            let mut pool = lock(&self.worker.pool);
            if index + 1 == pool.files.len() {
                pool.files.pop();
            }
        }
    }
}

/// Makes so many files.
pub struct CreateFiles {
    hands: Hands,
    left: u64,
    begun: bool,
}

impl CreateFiles {
    pub fn new(worker: Worker, files: u64, size: SizeRange, fsync: bool) -> CreateFiles {
        CreateFiles { hands: Hands { worker, size, fsync, walk: None }, left: files, begun: false }
    }
}

impl Source for CreateFiles {
    fn next(&mut self, _slot: u32, _now_ns: u64, _last: Option<&Completion>) -> Next {
        if !self.begun {
            self.begun = true;
            let mut pool = lock(&self.hands.worker.pool);
            pool.most_files = pool.files.len() + 2 * self.left as usize;
        }
        if let Some(next) = self.hands.step() {
            return next;
        }
        if self.left == 0 {
            return Next::End;
        }
        self.left -= 1;
        self.hands.create();
        self.hands.step().unwrap_or(Next::End)
    }

    fn abort(&mut self, _slot: u32) {
        self.hands.abort();
    }
}

/// How many of ten are reads rather than appends, creations rather than deletions; below 0, neither.
#[derive(Debug, Clone, Copy)]
pub struct Biases {
    pub read: i8,
    pub create: i8,
}

/// PostMark's transactions.
pub struct Transactions {
    hands: Hands,
    left: Option<u64>,
    biases: Biases,
    /// The second half of a transaction is still to be done.
    changes: bool,
    idle: u32,
}

impl Transactions {
    pub fn new(worker: Worker, left: Option<u64>, size: SizeRange, biases: Biases, fsync: bool) -> Transactions {
        Transactions { hands: Hands { worker, size, fsync, walk: None }, left, biases, changes: false, idle: 0 }
    }

    fn chance(&mut self, bias: i8) -> bool {
        self.hands.worker.rng.below(BIAS_OF) < bias as u64
    }

    /// First half: reads a file, or appends to one that has room.
    fn access(&mut self) {
        if self.biases.read < 0 {
            return;
        }
        let reads = self.chance(self.biases.read);
        let (file, index) = {
            let pool = lock(&self.hands.worker.pool);
            let index = self.hands.worker.rng.below(pool.files.len() as u64) as usize;
            (pool.files[index], index)
        };
        let request_bytes = self.hands.worker.request_bytes;
        if reads {
            let walk = Walk::new(file.entry, ChainKind::ReadFile, Operation::Open, Operation::Read, request_bytes);
            self.hands.walk = Some((walk.over(0, file.bytes), index));
        } else if file.bytes < self.hands.size.to_bytes {
            let more = self.hands.worker.rng.below(self.hands.size.to_bytes - file.bytes) + 1;
            let walk = Walk::new(file.entry, ChainKind::AppendFile, Operation::Open, Operation::Append, request_bytes);
            self.hands.walk = Some((walk.over(file.bytes, file.bytes + more).flushed(self.hands.fsync), index));
        }
    }

    /// Second half: makes a file where there is room for one, or deletes one, which is a single request.
    fn change(&mut self) -> Option<Next> {
        if self.biases.create < 0 {
            return None;
        }
        if self.chance(self.biases.create) {
            let pool = lock(&self.hands.worker.pool);
            let room = pool.files.len() < pool.most_files;
            drop(pool);
            if room {
                self.hands.create();
            }
            return None;
        }
        let mut pool = lock(&self.hands.worker.pool);
        let index = self.hands.worker.rng.below(pool.files.len() as u64) as usize;
        let entry = pool.files.swap_remove(index).entry;
        let operation = Operation::Unlink;
        Some(Next::Do(Request { operation, offset_bytes: 0, request_bytes: 0, pass: 0, entry }))
    }
}

impl Source for Transactions {
    fn next(&mut self, _slot: u32, now_ns: u64, _last: Option<&Completion>) -> Next {
        loop {
            if let Some(next) = self.hands.step() {
                self.idle = 0;
                return next;
            }
            if lock(&self.hands.worker.pool).files.is_empty() {
                // Out of files: there is nothing to read, and PostMark ends here as well.
                return Next::End;
            }
            if std::mem::take(&mut self.changes) {
                if let Some(next) = self.change() {
                    self.idle = 0;
                    return next;
                }
                continue;
            }
            match &mut self.left {
                Some(0) => return Next::End,
                Some(left) => *left -= 1,
                None if self.idle >= IDLE_MAX => {
                    self.idle = 0;
                    return Next::Wait(now_ns + REST_NS);
                }
                None => self.idle += 1,
            }
            self.access();
            self.changes = true;
        }
    }

    fn abort(&mut self, _slot: u32) {
        self.hands.abort();
    }
}
