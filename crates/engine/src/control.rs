//! What may change while a loop runs: a few numbers that it looks at once a turn.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    Run,
    /// Issue nothing more; end when what is in flight has ended.
    Drain,
    /// End now; what is in flight is counted as outstanding.
    Abandon,
}

/// Shared by the loops of a phase and whoever conducts them.
#[derive(Debug, Default)]
pub struct Control {
    version: AtomicU32,
    state: AtomicU8,
    depth: AtomicU32,
    workers: AtomicU32,
    rate_bits: AtomicU64,
    load_bits: AtomicU64,
    forget: AtomicBool,
}

/// Values of the knobs; 0 leaves a stream's own value in force.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Knobs {
    pub depth: u32,
    pub workers: u32,
    pub rate_per_s: f64,
    /// Of each stream's own rate.
    pub load_percent: f64,
    /// What was due at the rate before is not issued any more.
    pub forget: bool,
}

impl Control {
    /// Changes whenever anything else does.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Relaxed)
    }

    pub fn state(&self) -> State {
        match self.state.load(Relaxed) {
            0 => State::Run,
            1 => State::Drain,
            _ => State::Abandon,
        }
    }

    /// Never goes back to an earlier state.
    pub fn set_state(&self, state: State) {
        self.state.fetch_max(state as u8, Relaxed);
        self.version.fetch_add(1, Relaxed);
    }

    pub fn knobs(&self) -> Knobs {
        Knobs {
            depth: self.depth.load(Relaxed),
            workers: self.workers.load(Relaxed),
            rate_per_s: f64::from_bits(self.rate_bits.load(Relaxed)),
            load_percent: f64::from_bits(self.load_bits.load(Relaxed)),
            forget: self.forget.load(Relaxed),
        }
    }

    pub fn set_knobs(&self, knobs: Knobs) {
        self.depth.store(knobs.depth, Relaxed);
        self.workers.store(knobs.workers, Relaxed);
        self.rate_bits.store(knobs.rate_per_s.to_bits(), Relaxed);
        self.load_bits.store(knobs.load_percent.to_bits(), Relaxed);
        self.forget.store(knobs.forget, Relaxed);
        self.version.fetch_add(1, Relaxed);
    }
}
