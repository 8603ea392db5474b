//! Where counts and single requests come from.

use serde::Serialize;

use crate::layout::{Account, Cell, Device, Losses, Owner, Told};

/// What programs in the kernel took while their time was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    pub ns: u64,
    pub runs: u64,
    pub measured_ns: u64,
    /// Since they were attached: the kernel runs no program that it interrupted on the same CPU.
    pub left_out: u64,
}

impl Cost {
    /// With what other programs took since then, while the kernel measured.
    pub fn with(self, now: Cost, then: Cost) -> Cost {
        if self.measured_ns == 0 {
            return self;
        }
        Cost { ns: self.ns + now.ns - then.ns, runs: self.runs + now.runs - then.runs, ..self }
    }
}

/// Counts only ever grow; whoever looks keeps what was there before.
pub trait Source {
    /// Of one device and operation, in parts that belong together.
    fn cells(&self, slot: usize, operation: usize) -> Result<Vec<Cell>, String>;
    fn device(&self, slot: usize) -> Result<Device, String>;
    fn device_count(&self) -> usize;
    fn losses(&self) -> Result<Losses, String>;
    /// Who asked, in parts that belong together.
    fn owners(&self) -> Vec<(Owner, Vec<Account>)>;
    /// The next request that was slow, or any where all are wanted.
    fn next_told(&mut self) -> Option<Told>;
    /// From here on requests to a device are slow.
    fn slow_from(&mut self, slot: usize, ns: u64) -> Result<(), String>;
    fn is_slow_from(&self, slot: usize) -> u64;
    /// Takes in what has come; called about every 10 ms.
    fn look(&mut self, now_ns: u64) -> Result<(), String>;
    /// Begins to measure the time of programs in the kernel, if there are any.
    fn begin_cost(&mut self) {}
    /// What they took since then. Ends it.
    fn end_cost(&mut self) -> Cost {
        Cost::default()
    }
    /// No more is counted; what was counted stays readable.
    fn detach(&mut self, now_ns: u64);
}
