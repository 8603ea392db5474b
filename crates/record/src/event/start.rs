//! The circumstances of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reasons::{BufferedReason, EngineReason, SubmitReason};

/// How requests reach the targets, and on what clock they are timed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Start {
    /// The version of the schema of this run's events; 0 is what came before versions.
    #[serde(default)]
    pub schema: u32,
    pub start_unix_ns: u64,
    pub engine: String,
    pub engine_reason: EngineReason,
    pub io: String,
    /// Of buffered I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_reason: Option<BufferedReason>,
    #[serde(default)]
    pub clock: ClockFacts,
    /// Completions are reaped in batches of this many; absent where nothing is reaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reap: Option<u32>,
    /// At most so many requests are submitted in one call; absent where all that wait are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submit: Option<u32>,
    /// Absent where no ring submits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submit_reason: Option<SubmitReason>,
    #[serde(default)]
    pub features: Vec<String>,
    pub targets: Vec<TargetFacts>,
    #[serde(default)]
    pub phases: Vec<PhaseFacts>,
    /// What was found and done before the run began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ClockFacts {
    pub source: String,
    pub read_cost_ns: f64,
}

/// A target; `version` to `settings` are known of databases alone.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct TargetFacts {
    pub path: String,
    /// `block`, `file`, `directory`, `sim`, `postgresql`.
    pub kind: String,
    pub size_bytes: u64,
    #[serde(default)]
    pub data_start_bytes: u64,
    #[serde(default)]
    pub data_bytes: u64,
    #[serde(default)]
    pub align_bytes: u32,
    /// `none`, `unknown`, or how many bytes were never written.
    #[serde(default)]
    pub unwritten: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_directory: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_local: Option<bool>,
    /// Why it could not be reached when the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkFacts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Vec<(String, String)>>,
    /// Of a model: the page cache that buffered requests went through, which was modelled too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCacheFacts>,
}

/// How a modelled page cache was set; what the values mean is in docs/models.md.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageCacheFacts {
    pub memory_bytes: u64,
    pub page_bytes: u64,
    pub call_ns: u64,
    pub copy_mb_per_s: f64,
    pub read_ahead_bytes: u64,
    pub request_bytes: u64,
    pub dirty_background_percent: f64,
    pub dirty_percent: f64,
    pub dirty_expire_ns: u64,
    pub dirty_writeback_ns: u64,
    /// `offset`, `age`.
    pub write_order: String,
    pub write_requests: u32,
    pub barriers: bool,
    pub new_file: bool,
    /// `none`, `ext2`, `ext3`, `xfs`.
    pub file_system: String,
}

/// The network device that leads to a server.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct LinkFacts {
    pub device: String,
    pub megabit_per_s: Option<u64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PhaseFacts {
    pub name: String,
    pub streams: Vec<StreamFacts>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct StreamFacts {
    pub name: String,
    pub target: usize,
    pub workers: u32,
    pub depth: u32,
    pub verify: bool,
}
