//! One request for each file or directory that there is: look it up, take it away; and directories made.

use engine::device::{Completion, Entry, Operation};
use engine::source::{Next, Request, Source};

use crate::Worker;
use crate::stock::lock;

/// What a program goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    Files,
    Directories,
}

fn request(operation: Operation, entry: Entry) -> Next {
    Next::Do(Request { operation, offset_bytes: 0, request_bytes: 0, pass: 0, entry })
}

/// Asks for the attributes of each, in the order in which they were made.
pub struct Look {
    worker: Worker,
    of: Of,
    index: usize,
}

impl Look {
    pub fn new(worker: Worker, of: Of) -> Look {
        Look { worker, of, index: 0 }
    }
}

impl Source for Look {
    fn next(&mut self, _slot: u32, _now_ns: u64, _last: Option<&Completion>) -> Next {
        let pool = lock(&self.worker.pool);
        let entry = match self.of {
            Of::Files => pool.files.get(self.index).map(|file| file.entry),
            Of::Directories => pool.directories.get(self.index).copied(),
        };
        self.index += 1;
        entry.map_or(Next::End, |entry| request(Operation::Stat, entry))
    }
}

/// Takes each away, in the order in which they were made.
pub struct Remove {
    worker: Worker,
    of: Of,
    begun: bool,
}

impl Remove {
    pub fn new(worker: Worker, of: Of) -> Remove {
        Remove { worker, of, begun: false }
    }
}

impl Source for Remove {
    fn next(&mut self, _slot: u32, _now_ns: u64, _last: Option<&Completion>) -> Next {
        let mut pool = lock(&self.worker.pool);
        if !std::mem::replace(&mut self.begun, true) {
            pool.files.reverse();
            pool.directories.reverse();
        }
        let (operation, entry) = match self.of {
            Of::Files => (Operation::Unlink, pool.files.pop().map(|file| file.entry)),
            Of::Directories => (Operation::Rmdir, pool.directories.pop()),
        };
        entry.map_or(Next::End, |entry| request(operation, entry))
    }
}

/// Makes so many directories, all in one place.
pub struct MakeDirectories {
    worker: Worker,
    left: u64,
}

impl MakeDirectories {
    pub fn new(worker: Worker, directories: u64) -> MakeDirectories {
        MakeDirectories { worker, left: directories }
    }
}

impl Source for MakeDirectories {
    fn next(&mut self, _slot: u32, _now_ns: u64, _last: Option<&Completion>) -> Next {
        if self.left == 0 {
            return Next::End;
        }
        self.left -= 1;
        let mut pool = lock(&self.worker.pool);
        let entry = pool.new_entry(0);
        pool.directories.push(entry);
        request(Operation::Mkdir, entry)
    }
}
