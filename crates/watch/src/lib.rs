//! Duty: what block devices are asked to do and how long it takes, counted in the kernel by programs on the tracepoints
//! of its block layer, or here from records of these tracepoints, and told once an interval; on request every single request, in a trace.
//!
//! Refusal: it issues no request, changes nothing on the host, and judges nothing: causes and verdicts are computed by
//! whoever listens. Nothing stays loaded when the process ends, however it ends.

pub mod ahead;
pub mod interval;
pub mod kernel;
pub mod layout;
pub mod points;
pub mod samples;
pub mod source;
