//! Duty: a device over a directory: files made, opened, written, read, looked up and deleted by blocking calls, a thread
//! a worker; and a run of programs from its first check to its last event.
//!
//! Refusal: it works only in a directory that it has made below the target, with a marker in it, and takes away only
//! what it made there. Foreign files are neither opened nor deleted, whatever their names.

pub mod device;
pub mod session;
pub mod workplace;
