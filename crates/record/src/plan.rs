//! The plan of a run as its record keeps it: a profile, or what was asked of somebody else than our engine.
//!
//! The JSON Schema of [`Asked`] is the source of Python's types of plans.

use std::collections::BTreeMap;

use ::plan::{Address, Duration, Pace, Profile, SizeShare, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    pub plan: Profile,
    pub other: OtherPlan,
}

/// What a replay, a loader or another program was asked to do. What is absent was not said.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OtherPlan {
    pub kind: OtherKind,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub source: String,
    #[serde(default)]
    pub about: String,
    #[serde(default)]
    pub seed: Option<u64>,
    #[serde(default)]
    pub interval: Option<Duration>,
    #[serde(default)]
    pub phase: Vec<OtherPhase>,
    #[serde(default)]
    pub replay: Option<ReplayAsked>,
    /// Of a loader: its clients, and the database that it fills.
    #[serde(default)]
    pub load: Option<BTreeMap<String, u64>>,
    #[serde(default)]
    pub pgbench: Option<PgbenchAsked>,
}

/// What pgbench was asked to do, and what its server was given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PgbenchAsked {
    pub scale: u32,
    pub clients: u32,
    pub threads: u32,
    /// Of each client, where the phase has no duration.
    pub transactions: u64,
    #[serde(default)]
    pub rate_per_s: Option<f64>,
    /// A built-in one, or the path of a file.
    pub script: String,
    /// Of a file: the SHA-256 of its content. Not recorded by early versions.
    #[serde(default)]
    pub script_hash: Option<String>,
    /// Of a file: its text, without passwords.
    #[serde(default)]
    pub script_text: Option<String>,
    pub protocol: String,
    /// `wheel`, `debian`, or where its programs are.
    pub server: String,
    /// `default` is what initdb does.
    pub checksums: String,
    pub preset: String,
    /// Settings of the server, those of the preset included.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// Who carried a plan out that is no profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OtherKind {
    /// The drivers that replay a log.
    Replay,
    /// The loader of a database.
    Load,
    /// Another program, whose results were imported.
    Import,
    /// PostgreSQL's pgbench.
    Pgbench,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OtherPhase {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub duration: Option<Duration>,
    #[serde(default)]
    pub stream: Vec<OtherStream>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OtherStream {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub target: usize,
    /// Of a replay: which page of the log.
    #[serde(default)]
    pub page: Option<String>,
    /// Shares of the operations in per cent.
    #[serde(default)]
    pub operations: Option<BTreeMap<String, f64>>,
    #[serde(default)]
    pub request: Option<Vec<SizeShare>>,
    #[serde(default)]
    pub address: Option<Address>,
    #[serde(default)]
    pub region: Option<Span>,
    #[serde(default)]
    pub workers: Option<u32>,
    #[serde(default)]
    pub depth: Option<u32>,
    #[serde(default)]
    pub pace: Option<Pace>,
    /// Of another program: its own options.
    #[serde(default)]
    pub options: Option<BTreeMap<String, String>>,
}

/// How a log was replayed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReplayAsked {
    pub pace: ReplayPace,
    #[serde(default)]
    pub logs: Vec<String>,
    #[serde(default)]
    pub formats: Vec<String>,
    #[serde(default)]
    pub mapping: String,
    #[serde(default)]
    pub mapping_name: String,
    #[serde(default)]
    pub drivers: u32,
    /// Of each driver, the host of the fleet on which it ran; empty where all ran on one.
    #[serde(default)]
    pub hosts: Vec<String>,
    #[serde(default)]
    pub sessions: u32,
    #[serde(default)]
    pub in_order: Option<String>,
    #[serde(default)]
    pub window_s: Option<f64>,
    #[serde(default)]
    pub sorted: bool,
    /// Not recorded by early versions.
    #[serde(default)]
    pub order: Option<OrderKnown>,
    #[serde(default)]
    pub outliers: Vec<Outlier>,
    #[serde(default)]
    pub drop_caches: bool,
    #[serde(default)]
    pub from: Option<String>,
    #[serde(default)]
    pub until: Option<String>,
    #[serde(default)]
    pub again: bool,
    #[serde(default)]
    pub first_ns: Option<i64>,
    /// Not known of standard input, and not recorded by early versions.
    #[serde(default)]
    pub content: Option<LogContent>,
}

/// What the logs of a replay hold, wherever they lie.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LogContent {
    /// A SHA-256 of the content of all logs.
    pub hash: String,
    /// Those that were to be replayed, between the times that were asked for.
    pub requests: u64,
    pub first_ns: Option<i64>,
    pub last_ns: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReplayPace {
    pub kind: PaceKind,
    /// Of `time_synchronized`: such as `4x`.
    #[serde(default)]
    pub speed: Option<String>,
    /// Of `fixed` and `poisson`.
    #[serde(default)]
    pub rate_per_s: Option<f64>,
}

/// When the calls of a replay were due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PaceKind {
    FireHose,
    TimeSynchronized,
    Fixed,
    Poisson,
}

/// What was known beforehand of the order of a log.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OrderKnown {
    /// Requests further out of order than the window, which nobody sorts.
    #[serde(default)]
    pub beyond_window: u64,
    #[serde(default = "yes")]
    pub is_verified: bool,
}

/// Requests whose stamps are far from all others.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Outlier {
    pub log: String,
    /// The first of them.
    pub line: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    pub requests: u64,
}

/// The JSON Schema of plans as records keep them.
pub fn plan_schema() -> String {
    let made = schemars::generate::SchemaSettings::default().for_serialize().into_generator();
    serde_json::to_string_pretty(&made.into_root_schema_for::<Asked>()).expect("a schema is plain JSON")
}

fn yes() -> bool {
    true
}
