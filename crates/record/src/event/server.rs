//! What a database server says of itself while a program of its own drives it, and what that program said at its end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a database server has counted up to an instant of a run, since its counts began. A count that its version does
/// not keep is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSample {
    pub target: usize,
    pub at_ns: u64,
    pub wal_records: u64,
    pub wal_full_page_images: u64,
    pub wal_bytes: u64,
    /// Commits and others that had to write the log themselves, since its buffers were full.
    pub wal_buffers_full: u64,
    #[serde(default)]
    pub wal_writes: Option<u64>,
    /// Calls of fsync or fdatasync on the log; none are counted where `wal_sync_method` makes each write durable.
    #[serde(default)]
    pub wal_flushes: Option<u64>,
    /// Of tables and indexes, by all processes of the server, as are the next three.
    #[serde(default)]
    pub block_reads: Option<u64>,
    #[serde(default)]
    pub block_writes: Option<u64>,
    #[serde(default)]
    pub block_extends: Option<u64>,
    #[serde(default)]
    pub block_flushes: Option<u64>,
    /// Checkpoints begun because their time had come.
    pub checkpoints_timed: u64,
    /// Checkpoints begun because the log had grown, or because somebody asked.
    pub checkpoints_requested: u64,
    pub checkpoint_write_ms: f64,
    pub checkpoint_sync_ms: f64,
    pub checkpoint_blocks: u64,
}

/// What pgbench printed at its end, to be held against what its log told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PgbenchEnd {
    pub transactions: u64,
    pub failed: u64,
    pub skipped: u64,
    pub transactions_per_s: f64,
    pub latency_mean_ns: f64,
    /// Until all clients were connected.
    pub connect_ns: u64,
    /// How far behind schedule transactions began, with a rate.
    #[serde(default)]
    pub lateness_mean_ns: Option<f64>,
}
