//! Duty: traces of requests to block devices: what is kept of a request, the file that keeps it, readers of other tools'
//! traces, and the figures of a trace.
//!
//! Refusal: it makes no file, issues no request, and reads no clock.

pub mod figures;
pub mod file;
pub mod import;
mod lines;
pub mod request;
mod reuse;

pub use file::{Device, End, Header, Ordered, ReadError, Reader, Summary, Writer};
pub use request::{Operation, Request};
