//! Duty: devices on real storage, io_uring and pread/pwrite threads; opening targets without destroying anything.
//!
//! Refusal: it decides nothing about what is measured or when.

mod alone;
pub mod clock;
pub mod guard;
pub mod memory;
pub mod psync;
pub mod punctual;
pub mod session;
pub mod storage;
pub mod submission;
pub mod uring;
pub mod watched;
