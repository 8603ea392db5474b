//! Duty: the measuring loop. It defines what a device and a source of operations are, takes operations when they are
//! due, hands them to a device, records how each ended, and conducts phases and runs. It makes addresses and data, and
//! checks data that was read.
//!
//! Refusal: it opens nothing but what the scheduler tells of its own threads and the map of what was written, prints
//! nothing and reads no clock but its devices'.

pub mod address;
pub mod chain;
pub mod conductor;
pub mod control;
pub mod device;
pub mod event;
pub mod frames;
pub mod honours;
pub mod lane;
pub mod measuring;
pub mod note;
pub mod pattern;
pub mod payload;
pub mod program;
pub mod ramp;
pub mod referee;
pub mod rng;
pub mod scheduled;
pub mod slowest;
pub mod source;
pub mod streams;
pub mod timeline;
pub mod verify;
