//! The hosts of a run on many.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::words::LoadShare;

/// All hosts of a run, and how closely they begin together.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    pub share: LoadShare,
    /// By how much the common instant may differ between two hosts, at the most.
    pub bound_ns: u64,
    /// What was allowed.
    pub tolerance_ns: u64,
    pub within_tolerance: bool,
    pub hosts: Vec<FleetHost>,
}

/// One host. Its clock is compared with that of the host that starts the others, by round trips.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FleetHost {
    pub host: String,
    /// Of the run's targets, counted from 0.
    pub targets: Vec<usize>,
    pub seed: u64,
    /// Its clock less the other, and by how much that may be wrong.
    pub offset_ns: i64,
    pub bound_ns: u64,
    pub round_trip_ns: u64,
    /// What its kernel says of its clock.
    pub synchronized: bool,
    #[serde(default)]
    pub max_error_ns: Option<u64>,
    /// Whether it has a core that no load of this run needs.
    pub core_free: bool,
    /// Kernel, processor, and of each target model, firmware and settings, by name.
    pub facts: BTreeMap<String, String>,
}
