//! Duty: what happened. Histograms of every request's times, counts, bytes and errors, by stream, operation and interval;
//! and the events that report them.
//!
//! Refusal: it averages no percentile and drops no sample; it knows neither devices nor files, and prints nothing.

pub mod event;
pub mod plan;

mod cell;
mod histogram;
mod text;

pub use cell::{CHAIN_KINDS, CHAINS, COMMITS, Cell, CellSet, FRAMES, OPERATIONS};
pub use histogram::{Histogram, MAX_TRACKED_NS};
pub use text::{TextError, TextHistogram};
