//! Duty: storage in virtual time. Models of drives, solid-state drives, cloud volumes, controllers and arrays as pure
//! state machines (`submit(now, …)`, `next_event()`, `advance(t)`), and an engine device over them whose clock is
//! their own.
//!
//! Refusal: no wall clock, no thread, no entropy, no floating-point time. A model carries no data.

pub mod array;
mod assembly;
pub mod brick;
pub mod cloud;
pub mod controller;
pub mod device;
pub mod drive;
pub mod gather;
pub mod member;
pub mod page_cache;
pub mod reference;
pub mod region_log;
pub mod session;
mod slab;
pub mod ssd;
pub mod stamps;
pub mod system;
pub mod write_back;
pub mod zfs;

/// An instant that never comes.
pub const NEVER: u64 = u64::MAX;
pub const SECTOR_BYTES: u64 = 512;
