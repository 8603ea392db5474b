//! How a phase ended, and what its figures need to be believed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interval::{Cpu, Measure};
use super::server::PgbenchEnd;
use super::words::{Bound, Counted, PhaseReason};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PhaseEnd {
    pub phase: usize,
    pub end_ns: u64,
    pub reason: PhaseReason,
    pub unsent: u64,
    /// Of the streams that left requests unsent; empty where none did, and before it was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsent_by_stream: Vec<StreamUnsent>,
    /// Of each stream that had threads of its own and whose last request ended before the phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_by_stream: Vec<StreamEnd>,
    pub outstanding: u64,
    /// By errno's name, or of a database by SQLSTATE.
    pub errors_by_errno: BTreeMap<String, u64>,
    pub errors_by_kind: BTreeMap<String, u64>,
    pub slowest: Vec<SlowEvent>,
    /// Blocks of the whole run so far that were compared with their stamps; absent where nothing is verified.
    #[serde(default)]
    pub verified: Option<VerifiedEvent>,
    pub cpu: Cpu,
    pub generator_bound: bool,
    #[serde(default = "unknown_bound")]
    pub generator_bound_reason: Bound,
    /// Threads that measured.
    #[serde(default)]
    pub loops: usize,
    /// What the devices of this phase were set up with.
    #[serde(default)]
    pub features: Vec<String>,
    /// Absent where no submission was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<DepthReached>,
    /// Share of the loops' time that was their own, neither in the kernel nor waiting for a request. Waits for a CPU are in
    /// it: what the loops computed is `loop_cpu_share`.
    pub loop_busy_share: f64,
    /// Share of the loops' time that their own work was at least on a CPU; absent of a model, and before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_cpu_share: Option<f64>,
    /// Share of the loops' time for which their threads were ready to run and had no CPU; absent where the kernel does not
    /// count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_wait_share: Option<f64>,
    /// Of every worker that plays or records video.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<FramesEnd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Box<ReplayEnd>>,
    /// Of every file of a simulated database server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_files: Vec<ServerFileEnd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pgbench: Option<Box<PgbenchEnd>>,
}

fn unknown_bound() -> Bound {
    Bound::No
}

/// Requests in flight by our count, and how many of them the storage had at once: one that ends in the call that submits
/// it keeps the next of its batch waiting. Means over looks, summed over the loops of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DepthReached {
    pub in_flight: f64,
    pub at_once: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedEvent {
    pub checked_blocks: u64,
    pub unchecked_blocks: u64,
    pub damaged_blocks: u64,
    /// Where it is kept from session to session which blocks were checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered: Option<CoveredEvent>,
}

/// How much of what is verified was checked at all, over all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoveredEvent {
    pub blocks: u64,
    /// Each counts once, however often it was checked.
    pub checked_once_blocks: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SlowEvent {
    pub at_ns: u64,
    pub stream: u16,
    pub operation: Counted,
    pub offset_bytes: u64,
    pub request_bytes: u32,
    pub service_ns: u64,
    pub response_ns: u64,
}

/// What of one stream was due in a phase and not sent: chains where it has them, else requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamUnsent {
    pub stream: usize,
    pub unsent: u64,
}

/// When the last request of one stream ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamEnd {
    pub stream: usize,
    pub end_ns: u64,
}

/// What happened to one file of a simulated database server. A request of one page is a read or a write, one of several
/// a scatter read or a gather write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFileEnd {
    /// The target of the database's data file.
    pub database: usize,
    pub log: bool,
    pub size_bytes: u64,
    pub target_io_ns: u64,
    pub running_average_ns: u64,
    /// Requests that had to wait because the running average was above the target.
    pub throttled: u64,
    /// Requests that may be in flight at once, at the end.
    pub request_blocks: u32,
    pub reads: u64,
    pub scatter_reads: u64,
    pub writes: u64,
    pub gather_writes: u64,
    pub total_io_ns: u64,
    pub longest_io_ns: u64,
    /// Requests that took 15 s or more.
    pub warnings: u64,
    pub grown: u64,
    pub shrunk: u64,
}

/// What became of the frames of one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FramesEnd {
    pub stream: usize,
    pub worker: u32,
    pub frames: u64,
    pub dropped: u64,
    pub failed: u64,
    pub unjudged: u64,
    pub first_dropped_ns: Option<u64>,
    pub last_dropped_ns: Option<u64>,
    pub slowest_ns: u64,
    pub buffer_ns: u64,
}

/// What a replay adds to the end of its phase.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReplayEnd {
    pub drivers: Vec<ReplayDriver>,
    pub by_stream: Vec<StreamCounts>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StreamCounts {
    pub stream: usize,
    pub rows: u64,
    pub diverged: u64,
}

/// One driver's part of a replay.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReplayDriver {
    pub driver: u32,
    pub calls: u64,
    pub errors: u64,
    pub rows: u64,
    pub bytes: u64,
    pub diverged: u64,
    pub lost_connections: Vec<u64>,
    pub reconnects: Vec<u64>,
    /// For how long each database had no connection while calls were issued; this and the next two were not reported
    /// before version 1.
    #[serde(default)]
    pub away_ns: Option<Vec<u64>>,
    /// For how long each could be reached and had calls to answer: what its rate counts over.
    #[serde(default)]
    pub served_ns: Option<Vec<u64>>,
    /// For how long at least one of them did.
    #[serde(default)]
    pub any_served_ns: Option<u64>,
    /// Calls of each database that were due and not sent.
    pub unsent_by_brick: Vec<u64>,
    /// What the driver itself added between the instant at which a call could go and the one at which it went.
    pub driver_lag: Option<Measure>,
    /// Calls that were due and waited for a session: the server's queue, not the driver's.
    pub queued: u64,
    pub keeps_pace: bool,
    /// Share of the time in which sessions waited for the log to be read.
    pub starved_share: f64,
    pub cpu_busy_share: f64,
    pub slowest_calls: Vec<SlowCall>,
    pub diverged_pages: BTreeMap<String, u64>,
    /// What the log held, as `replay --explain` shows it.
    pub logs: Option<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SlowCall {
    pub at_ns: u64,
    pub stream: usize,
    pub service_ns: u64,
    pub response_ns: u64,
    pub values: String,
}
