//! Everything that can happen in a run, as whoever runs it reports it: the measuring loop, models, programs over files,
//! replays, loaders, imported results. The terminal, the store and Python know these types alone; the JSON Schema of
//! [`Event`] is the source of Python's.
//!
//! As JSON the name of an event stands in its field `event`. Times are in ns on the run's own clock. Names and values
//! stand in stores for good: they may be added, never renamed.

mod fleet;
mod interval;
mod phase_end;
mod ramp;
mod reasons;
mod server;
mod start;
mod words;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use fleet::{Fleet, FleetHost};
pub use interval::{CellEvent, Cpu, Interval, KnobEvent, Measure};
pub use phase_end::{
    CoveredEvent, DepthReached, FramesEnd, PhaseEnd, ReplayDriver, ReplayEnd, ServerFileEnd, SlowCall, SlowEvent,
    StreamCounts, StreamEnd, StreamUnsent, VerifiedEvent,
};
pub use ramp::{RampEnd, RampStep};
pub use reasons::{
    BackgroundWork, BufferedReason, ConditionReason, EndReason, EngineReason, FailedStream, FleetEnd, HostNamed,
    HostReason, HostsValue, Reason, StartFact, StartLate, StartNote, SubmitReason,
};
pub use server::{PgbenchEnd, ServerSample};
pub use start::{ClockFacts, PageCacheFacts, PhaseFacts, Start, StreamFacts, TargetFacts, Unwritten};
pub use words::{
    Bound, BrickState, Counted, Engine, ErrorKind, HeldCondition, IoPath, LoadShare, ModelledFileSystem, PhaseReason,
    RunOutcome, SampledState, TargetKind, Timed, WrittenBy,
};

/// Of the events as they are described here; in [`Start::schema`]. 0, which stands nowhere, is what came before; until 2
/// the reasons of a [`Start`] were texts, until 3 all other reasons, its notes and [`TargetFacts::unwritten`].
pub const SCHEMA: u32 = 3;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Start(Box<Start>),
    /// A target is being filled before the first phase.
    #[schemars(title = "Fill")]
    Fill {
        target: usize,
        done_bytes: u64,
        total_bytes: u64,
    },
    /// A phase begins.
    #[schemars(title = "PhaseStart")]
    Phase {
        phase: usize,
        name: String,
        start_ns: u64,
    },
    Interval(Box<Interval>),
    Error(Box<ErrorEvent>),
    Hang(HangEvent),
    Drop(DropEvent),
    RampStep(Box<RampStep>),
    RampEnd(RampEnd),
    /// From `at_ns` on a modelled target is in this condition; reported before the interval that goes on beyond it.
    #[schemars(title = "BrickCondition")]
    BrickCondition {
        target: usize,
        at_ns: u64,
        condition: BrickState,
    },
    /// What each member of a modelled brick did in the run, in the order of their numbers.
    #[schemars(title = "BrickMembers")]
    BrickMembers {
        target: usize,
        at_ns: u64,
        members: Vec<MemberWork>,
    },
    /// What of a run's writes to a modelled target was still in its caches when the run ended.
    #[schemars(title = "BrickCaches")]
    BrickCaches {
        target: usize,
        at_ns: u64,
        #[serde(flatten)]
        work: CachesWork,
    },
    /// What the modelled page cache above a modelled target did in the run.
    #[schemars(title = "PageCache")]
    PageCache {
        target: usize,
        at_ns: u64,
        #[serde(flatten)]
        work: PageCacheWork,
    },
    /// What a rebuild, initial resync or scrub of a modelled target had done by the run's end, and in how much time. A
    /// member has `whole_bytes`.
    #[schemars(title = "BrickBackground")]
    BrickBackground {
        target: usize,
        at_ns: u64,
        condition: BrickState,
        done_bytes: u64,
        spent_ns: u64,
        #[serde(default)]
        whole_bytes: u64,
    },
    /// The power of a modelled target failed and came back. Bytes are acknowledged writes that are lost, each time that
    /// they were kept; writes are those of the host, of which `lost_promised` had been flushed or were asked to be durable.
    #[schemars(title = "PowerCut")]
    PowerCut {
        target: usize,
        at_ns: u64,
        drive_bytes: u64,
        drive_extents: u64,
        drives: u64,
        controller_bytes: u64,
        failed_requests: u64,
        /// Not counted by early versions, as are the next two.
        #[serde(default)]
        lost_writes: Option<u64>,
        #[serde(default)]
        lost_promised: Option<u64>,
        #[serde(default)]
        oldest_lost: Vec<LostWrite>,
    },
    /// The state over a window of rounds, from `from_ns` to `at_ns`, was reached or left again.
    #[schemars(title = "Steady")]
    Steady {
        phase: usize,
        /// Not reported before version 1.
        #[serde(default)]
        from_ns: Option<u64>,
        at_ns: u64,
        reached: bool,
        mean: f64,
        range_percent: f64,
        slope_percent: f64,
    },
    /// What each driver of a replay did in one interval.
    #[schemars(title = "Drivers")]
    Drivers {
        phase: usize,
        start_ns: u64,
        end_ns: u64,
        drivers: Vec<DriverShare>,
    },
    /// The hosts of a run, before its first phase.
    Fleet(Box<Fleet>),
    /// How a host began a phase, by its own clock: `late_ns` after the common instant, which was `instant_unix_ns` there.
    /// `clock_moved_ns` is by how much its clock was set during the phase.
    #[schemars(title = "HostBegan")]
    HostBegan {
        host: String,
        phase: usize,
        instant_unix_ns: u64,
        late_ns: u64,
        clock_moved_ns: i64,
    },
    /// A host fell silent or its load ended before it should; `streams` are missing from `at_ns` on, unless it comes back.
    #[schemars(title = "HostLost")]
    HostLost {
        host: String,
        at_ns: u64,
        reason: HostReason,
        streams: Vec<String>,
    },
    /// A host that had fallen silent is heard again. What it did meanwhile is in the record.
    #[schemars(title = "HostBack")]
    HostBack {
        host: String,
        at_ns: u64,
    },
    /// How the load of one host ended. `kept` is where its own record lies on it, where that is still there.
    #[schemars(title = "HostEnd")]
    HostEnd {
        host: String,
        outcome: RunOutcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<HostReason>,
        kept: String,
    },
    /// A look at the array below a target while the run goes on.
    #[schemars(title = "ConditionSample")]
    ConditionSample {
        unix_ns: i64,
        state: SampledState,
        progress_share: Option<f64>,
    },
    /// Whether the array below a target stayed in the run's condition. `array` is its sheet.
    #[schemars(title = "Condition")]
    Condition {
        condition: HeldCondition,
        #[serde(default)]
        array: Option<serde_json::Map<String, serde_json::Value>>,
        valid: bool,
        /// Where it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<ConditionReason>,
    },
    ServerSample(Box<ServerSample>),
    /// Figures of one operation as another program printed them. `has_bins`: it printed a distribution as well.
    #[schemars(title = "Imported")]
    Imported {
        phase: usize,
        stream: usize,
        operation: Counted,
        measure: Timed,
        mean_ns: f64,
        /// Absent where it was not printed.
        #[serde(default)]
        min_ns: Option<u64>,
        max_ns: u64,
        /// In ns, by name such as `p99.9`.
        percentiles: BTreeMap<String, u64>,
        has_bins: bool,
    },
    PhaseEnd(Box<PhaseEnd>),
    #[schemars(title = "End")]
    End {
        end_ns: u64,
        outcome: RunOutcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<EndReason>,
    },
}

/// A write of the host that had been acknowledged `age_ns` before it was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostWrite {
    pub offset_bytes: u64,
    pub bytes: u64,
    pub age_ns: u64,
}

/// Commands that a member of a modelled brick has ended, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberWork {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// Flushes and trims.
    pub others: u64,
}

/// Writes in a modelled brick's caches that are not yet where they are to stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachesWork {
    /// In the write caches of all drives, flash's SLC cache included. Of all that they were given: `BrickMembers`.
    pub drive_bytes: u64,
    pub controller_bytes: u64,
    /// ZFS's dirty records, and all that have become dirty.
    pub memory_bytes: u64,
    pub memory_dirtied_bytes: u64,
}

/// What a modelled page cache did. A page that was asked for is a hit where it was there or on its way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageCacheWork {
    pub hits: u64,
    pub misses: u64,
    /// Pages that were read from the device, those that were read ahead and blocks of pointers included.
    pub read_pages: u64,
    pub read_requests: u64,
    /// Blocks of pointers that were read.
    pub metadata_reads: u64,
    /// Pages that were read because a part of them was to be written.
    pub reads_before_writes: u64,
    /// Pages that became dirty, and that were given to the device.
    pub dirtied_pages: u64,
    pub written_pages: u64,
    pub write_requests: u64,
    /// How often a writer waited because too much was dirty.
    pub throttled: u64,
    pub commits: u64,
    pub journal_bytes: u64,
    /// Pages that are dirty or being written at the end.
    pub dirty_pages: u64,
    /// As many pages as were in memory at once at the most.
    pub peak_pages: u64,
}

/// A failed request.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ErrorEvent {
    pub at_ns: u64,
    pub phase: usize,
    pub stream: usize,
    pub operation: Counted,
    pub offset_bytes: u64,
    pub request_bytes: u32,
    pub kind: ErrorKind,
    pub errno: Option<i32>,
    /// Of a database with its SQLSTATE first.
    pub text: String,
    /// Of damaged data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dump: Option<DamageDump>,
}

/// What should have been read and what was, from the first byte that differs; bytes are hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DamageDump {
    /// The write that it is compared with: the newest that would have been right.
    pub generation: u64,
    /// Of all bytes of the block.
    pub differing_bytes: u64,
    pub block_bytes: u64,
    /// The first that differs, from the beginning of the block.
    pub at_byte: u64,
    pub written: String,
    pub read: String,
    /// The exclusive or of the two.
    pub differing: String,
}

/// A request that is outstanding for longer than the profile's `hang_after`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HangEvent {
    pub at_ns: u64,
    pub phase: usize,
    pub stream: Option<usize>,
    pub operation: Counted,
    pub offset_bytes: u64,
    pub request_bytes: u32,
    pub outstanding_ns: u64,
}

/// A frame of video that was missing when its buffer ran out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DropEvent {
    /// When it was missed: the end of its buffer.
    pub at_ns: u64,
    pub phase: usize,
    pub stream: usize,
    pub worker: u32,
    pub frame: u64,
    pub due_ns: u64,
}

/// One driver's part of an interval.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DriverShare {
    pub driver: u32,
    pub requests: u64,
    pub errors: u64,
    pub bytes: u64,
    pub drain: bool,
    pub loop_busy_share: f64,
}

impl Event {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an event holds nothing that JSON cannot carry")
    }
}

/// The JSON Schema of an event.
pub fn event_schema() -> String {
    serde_json::to_string_pretty(&schemars::schema_for!(Event)).expect("a schema is plain JSON")
}

pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}
