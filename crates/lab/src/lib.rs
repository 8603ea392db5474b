//! Duty: disks that this host's software can mount, and what a power cut can leave on them. A disk is a file on a FUSE
//! mount: either emulated, with a model's timing, a volatile cache and a log of its requests, or one crash state of such
//! a log.
//!
//! Refusal: it makes no loop device, no file system and no mount but its own, and judges no state.

pub mod breaking;
pub mod cache;
pub mod control;
pub mod draw;
pub mod fuse;
pub mod hash;
pub mod image;
pub mod log;
pub mod orders;
pub mod ring;
pub mod serve;
pub mod timing;
pub mod view;
