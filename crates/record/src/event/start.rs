//! The circumstances of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reasons::{BufferedReason, EngineReason, StartNote, SubmitReason};
use super::words::{Engine, IoPath, ModelledFileSystem, TargetKind, WrittenBy};

/// How requests reach the targets, and on what clock they are timed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Start {
    /// The version of the schema of this run's events; 0 is what came before versions.
    #[serde(default)]
    pub schema: u32,
    pub start_unix_ns: u64,
    pub engine: Engine,
    pub engine_reason: EngineReason,
    pub io: IoPath,
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
    pub notes: Vec<StartNote>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ClockFacts {
    pub source: String,
    pub read_cost_ns: f64,
}

/// A target; `version` to `settings` are known of databases alone.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TargetFacts {
    pub path: String,
    pub kind: TargetKind,
    pub size_bytes: u64,
    #[serde(default)]
    pub data_start_bytes: u64,
    #[serde(default)]
    pub data_bytes: u64,
    #[serde(default)]
    pub align_bytes: u32,
    /// How much of it was never written when the first phase began; absent where nobody can say, as of a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten: Option<Unwritten>,
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

/// How much of a target was never written, and is read without the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Unwritten {
    #[schemars(title = "AllWritten")]
    None,
    #[schemars(title = "UnwrittenUnknown")]
    Unknown,
    #[schemars(title = "UnwrittenBytes")]
    Bytes { bytes: u64 },
}

impl TargetFacts {
    /// A target of which no more is known than these.
    pub fn new(path: String, kind: TargetKind, size_bytes: u64) -> TargetFacts {
        TargetFacts {
            path,
            kind,
            size_bytes,
            data_start_bytes: 0,
            data_bytes: 0,
            align_bytes: 0,
            unwritten: None,
            version: None,
            server_address: None,
            data_directory: None,
            is_local: None,
            unreachable: None,
            link: None,
            settings: None,
            page_cache: None,
        }
    }
}

/// How a modelled page cache was set; what the values mean is in docs/models.md.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    pub write_order: WrittenBy,
    pub write_requests: u32,
    pub barriers: bool,
    pub new_file: bool,
    pub file_system: ModelledFileSystem,
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
