//! What is ZFS's own: where records lie on disks, which places are free, what a disk is given at a time, and what is read
//! ahead. `system::pool` has requests go through it.
//!
//! Facts are OpenZFS's documentation and what its source does; no disk is touched here, and nothing is timed.

pub mod layout;
pub(crate) mod prefetch;
pub(crate) mod queue;
pub(crate) mod space;
