//! The files that programs have made so far: what a later phase reads, appends to and deletes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::device::Entry;

/// A file, and how much has been written into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub entry: Entry,
    pub bytes: u64,
}

/// What one worker has. Only one phase runs at a time, and only the worker itself changes it.
#[derive(Debug, Default)]
pub struct Pool {
    pub files: Vec<Known>,
    /// Files at the most: twice as many as were made at first, as PostMark's table has it.
    pub most_files: usize,
    pub directories: Vec<Entry>,
    /// The one large file.
    pub big: Option<Known>,
    /// Directories in which this worker puts what it makes.
    pub homes: Vec<u32>,
    /// Numbers that were given, never twice; workers that share a directory take turns.
    made: u64,
    lane: u64,
    lanes: u64,
}

impl Pool {
    /// A place for something new in one of the homes.
    pub fn new_entry(&mut self, home: usize) -> Entry {
        let number = self.lane + 1 + self.made * self.lanes;
        self.made += 1;
        Entry { directory: self.homes.get(home).copied().unwrap_or(1), number }
    }
}

/// By target and name of the stream, a pool for each worker.
type Pools = BTreeMap<(usize, String), Vec<Arc<Mutex<Pool>>>>;

#[derive(Default)]
pub struct Stock {
    pools: Mutex<Pools>,
    /// Directories that were given out, by target.
    directories: Mutex<BTreeMap<usize, u32>>,
}

/// A thread that panicked ends its run; what it held is not used again.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stock {
    /// The pool of one worker, the same for all phases.
    pub fn pool(&self, target: usize, name: &str, lane: u32, lanes: u32) -> Arc<Mutex<Pool>> {
        let mut all = lock(&self.pools);
        let pools = all.entry((target, name.to_string())).or_default();
        while pools.len() <= lane as usize {
            let pool = Pool { lane: pools.len() as u64, lanes: u64::from(lanes), ..Pool::default() };
            pools.push(Arc::new(Mutex::new(pool)));
        }
        pools[lane as usize].clone()
    }

    pub fn pools(&self, target: usize, name: &str) -> Vec<Arc<Mutex<Pool>>> {
        lock(&self.pools).get(&(target, name.to_string())).cloned().unwrap_or_default()
    }

    /// Gives a worker its directories, those of the first worker where all share them.
    pub fn give_homes(&self, target: usize, name: &str, lane: u32, count: u32, shared: bool) {
        let pools = self.pools(target, name);
        if shared && lane > 0 {
            let homes = lock(&pools[0]).homes.clone();
            lock(&pools[lane as usize]).homes = homes;
            return;
        }
        let mut pool = lock(&pools[lane as usize]);
        let mut directories = lock(&self.directories);
        let given = directories.entry(target).or_default();
        while pool.homes.len() < count as usize {
            *given += 1;
            pool.homes.push(*given);
        }
    }

    pub fn directories(&self, target: usize) -> u32 {
        lock(&self.directories).get(&target).copied().unwrap_or_default()
    }
}
