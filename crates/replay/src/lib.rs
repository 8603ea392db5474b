//! Duty: web logs against a database. It reads logs, turns each request into the call that the page would have made,
//! sends the calls when they are due, and records what happened to every one of them.
//!
//! Refusal: it writes no SQL of its own, pastes no value into a statement, and keeps no log in memory.

mod absence;
pub mod clock;
pub mod counts;
pub mod database;
pub mod drive;
pub mod event;
pub mod explain;
pub mod feed;
pub mod format;
pub mod lines;
pub mod look;
pub mod mapping;
pub mod postgres;
pub mod serve;
pub mod sorting;
pub mod spec;
pub mod sql;
pub mod tally;
pub mod time;
pub mod values;
