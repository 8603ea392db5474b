//! Duty: the same requests again. A source that issues the requests of a trace, and a device that writes what a run asks
//! of its storage as a trace.
//!
//! Refusal: it measures and counts nothing (the engine's loop does), and opens no target.

mod again;
mod dependence;
mod place;
mod taken;

pub use again::lane;
pub use taken::{Taken, TakenDevice, run_to_end, take};
