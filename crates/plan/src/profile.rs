//! The types of a profile. Field names are the keys of the TOML file.

use crate::frames::Frames;
use crate::limit::Limit;
use crate::program::Program;
use crate::trace::Trace;
use crate::units::{Bytes, Duration, Passes, Percent, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

/// A workload: ordered phases, and how requests reach the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    #[serde(default)]
    pub title: String,
    /// Where the workload comes from: a study, a tool, a trace.
    #[serde(default)]
    pub source: String,
    /// What the workload represents, and the reasons for its numbers.
    #[serde(default)]
    pub about: String,
    #[serde(default = "one")]
    pub seed: u64,
    #[serde(default)]
    pub engine: EngineChoice,
    #[serde(default)]
    pub io: IoMode,
    /// State of the page cache before a buffered run.
    #[serde(default)]
    pub cache: CacheState,
    /// Number of completions that are reaped together. Above 1, a completed request waits for the others of its batch.
    #[serde(default = "one_u32")]
    pub reap: u32,
    /// The most requests that one call submits. Unless it is set, the queue below the target decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submit: Option<u32>,
    /// Length of an interval of the time series.
    #[serde(default = "one_second")]
    pub interval: Duration,
    /// A request that is outstanding for longer than this is reported while it hangs.
    #[serde(default = "default_hang_after")]
    pub hang_after: Duration,
    /// End the run at the first failed request instead of counting it.
    #[serde(default)]
    pub stop_on_error: bool,
    /// What becomes of parts that were never written before the first phase, if the target may be written.
    #[serde(default)]
    pub fill: FillChoice,
    /// If several targets are named, every stream runs on each of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each: bool,
    /// The figures are also shown in the order and the units of this tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Table>,
    pub phase: Vec<Phase>,
}

/// The engine that sends requests to a real target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    /// io_uring, or psync if the kernel does not allow io_uring, and for writes into the page cache one at a time.
    #[default]
    Auto,
    IoUring,
    Psync,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IoMode {
    /// O_DIRECT; falls back to buffered, and reports this, if the file system does not support it.
    #[default]
    Direct,
    Buffered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// The page cache of the target is dropped before the first phase.
    #[default]
    Cold,
    /// The page cache stays as it is.
    AsIs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FillChoice {
    /// They are filled with data.
    #[default]
    Auto,
    /// They stay as they are.
    Never,
    /// A file that a run may write has its space before each run, but no data, as a log that is preallocated; of any
    /// other target, as `never`.
    Space,
}

/// Tools whose table people know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    Bonnie,
    Iowork,
    Jetstress,
    Mdtest,
    Postmark,
    Sqliosim,
}

/// Streams that run at the same time, and what ends them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    #[serde(default)]
    pub name: String,
    /// Measured time, warm-up not included.
    #[serde(default)]
    pub duration: Option<Duration>,
    /// Requests of all streams together, each stream by its share of the lanes.
    #[serde(default)]
    pub requests: Option<u64>,
    /// Bytes of all streams together.
    #[serde(default)]
    pub bytes: Option<Bytes>,
    /// Number of times that each stream goes through its region, or a share such as `10%`.
    #[serde(default)]
    pub passes: Option<Passes>,
    /// Time at the start of the phase that is recorded separately and that no figure includes.
    #[serde(default)]
    pub warmup: Duration,
    #[serde(default)]
    pub stop: Option<Stop>,
    #[serde(default)]
    pub steady: Option<Steady>,
    #[serde(default)]
    pub ramp: Option<Ramp>,
    /// All workers of the phase wait for each other after each of them has done this number of requests or bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockstep: Option<Lockstep>,
    pub stream: Vec<Stream>,
}

/// Ends a phase when a figure of one interval exceeds a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Figure of the response times of all streams: `mean`, `p50`, `p90`, `p95`, `p99`, `p99.9` or `max`.
    pub when: Figure,
    /// A time with its unit, such as `"20ms"`.
    #[serde(deserialize_with = "crate::limit::read_limit")]
    pub above: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Figure {
    #[serde(rename = "mean")]
    Mean,
    #[serde(rename = "p50")]
    P50,
    #[serde(rename = "p90")]
    P90,
    #[serde(rename = "p95")]
    P95,
    #[serde(rename = "p99")]
    P99,
    #[serde(rename = "p99.9")]
    P999,
    #[serde(rename = "max")]
    Max,
}

/// Steady state by SNIA SSS PTS: over the last `rounds` rounds, the range is at most `range` of the mean, and the
/// fitted slope over the window is at most `slope` of the mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SteadyRule")]
pub struct Steady {
    #[serde(default)]
    pub measure: SteadyMeasure,
    #[serde(default = "ten_seconds")]
    pub round: Duration,
    #[serde(default = "five")]
    pub rounds: u32,
    #[serde(default = "twenty_percent")]
    pub range: Percent,
    #[serde(default = "ten_percent")]
    pub slope: Percent,
    /// End the phase when the steady state is reached; otherwise this is only recorded.
    #[serde(default)]
    pub stop: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SteadyMeasure {
    #[default]
    Iops,
    Throughput,
    MeanService,
}

/// Changes one knob of every stream of the phase at equal distances in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    pub knob: Knob,
    pub from: f64,
    pub to: f64,
    /// Added to the knob at each step; without it, the knob is multiplied by `factor`.
    #[serde(default)]
    pub step: Option<f64>,
    #[serde(default)]
    pub factor: Option<f64>,
    /// Time between steps.
    pub every: Duration,
    /// Time at the start of each step that is recorded as warm-up and not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<Duration>,
    /// Judged over each whole step. The ramp ends with the first step that breaks the limit, or that reaches it if it
    /// is a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// After that step, bisect between it and the step before until the two are at most this many per cent apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Percent>,
}

/// How far a worker goes before it waits for all others: a number of requests, or of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lockstep {
    #[serde(default)]
    pub requests: Option<u64>,
    #[serde(default)]
    pub bytes: Option<Bytes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// Requests in flight per lane.
    Depth,
    /// Requests/s per stream.
    Rate,
    /// Active lanes per stream.
    Workers,
    /// Per cent of each stream's own rate, so that streams keep their proportions.
    Load,
}

impl Knob {
    /// Whether it is turned in open loops, and a storage that does not keep up is overloaded.
    pub fn is_pace(self) -> bool {
        matches!(self, Knob::Rate | Knob::Load)
    }
}

/// One source of operations. A stream has `workers` lanes, each with `depth` requests in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    #[serde(default)]
    pub name: String,
    /// Which of the run's targets, counted from 0.
    #[serde(default)]
    pub target: usize,
    /// In a run on many hosts, the hosts that run this stream, by name or by number counted from 0; all unless set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    #[serde(default)]
    pub operations: Operations,
    /// Steps that depend on each other, instead of `operations`: each begins when the one before has ended, all at one
    /// offset.
    #[serde(default)]
    pub chain: Vec<Step>,
    /// A program over the files of a directory or of a database server, instead of `operations` on one target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// The requests of a trace file, instead of `operations`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Needed except for traces, and for programs whose calls move no data.
    #[serde(default)]
    pub request: RequestSizes,
    /// Offsets are multiples of this; the smallest request size unless set.
    #[serde(default)]
    pub align: Option<Bytes>,
    #[serde(default)]
    pub address: Address,
    #[serde(default)]
    pub region: Span,
    #[serde(default = "one_u32")]
    pub workers: u32,
    #[serde(default = "one_u32")]
    pub depth: u32,
    #[serde(default)]
    pub pace: Pace,
    /// Video frames instead of single requests; frames have their own pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<Frames>,
    /// Pause between the end of a request and the next request of its slot (closed loop).
    #[serde(default)]
    pub think: Duration,
    #[serde(default)]
    pub sync: SyncMode,
    /// A flush follows at once where this number of a lane's writes has ended.
    #[serde(default)]
    pub flush_every: Option<FlushEvery>,
    #[serde(default)]
    pub data: Data,
    /// Blocks are stamped when written and checked when read.
    #[serde(default)]
    pub verify: bool,
}

/// One step of a chain: `"read"`, `"write"`, `"flush"`, or `{ think = "1ms" }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Read,
    Write,
    Flush,
    /// A pause before the next step.
    #[schemars(title = "Think")]
    Think(Duration),
}

/// Shares of the operations; they sum to 100.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Operations {
    #[serde(default)]
    pub read: Percent,
    #[serde(default)]
    pub write: Percent,
    #[serde(default)]
    pub flush: Percent,
    #[serde(default)]
    pub trim: Percent,
}

/// What a stream does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Does {
    pub reads: bool,
    pub writes: bool,
    pub flushes: bool,
    pub trims: bool,
}

impl Stream {
    /// Which operations the stream's requests can be.
    pub fn does(&self) -> Does {
        if let Some(trace) = &self.trace {
            return Does {
                reads: trace.reads > 0,
                writes: trace.writes > 0,
                flushes: trace.flushes > 0,
                trims: trace.discards > 0,
            };
        }
        let ops = &self.operations;
        let (mixes, flushes_owed) = (self.chain.is_empty() && self.program.is_none(), self.flush_every.is_some());
        Does {
            reads: mixes && ops.read.0 > 0.0 || self.chain.contains(&Step::Read),
            writes: mixes && ops.write.0 > 0.0 || self.chain.contains(&Step::Write),
            flushes: mixes && ops.flush.0 > 0.0 || self.chain.contains(&Step::Flush) || flushes_owed,
            trims: mixes && ops.trim.0 > 0.0,
        }
    }

    /// Whether each write is made durable by a flush of its own, so that both together are a commit.
    pub fn commits(&self) -> bool {
        self.flush_every.is_some_and(|every| every.writes == 1) && self.does().writes && self.operations.flush.0 == 0.0
    }

    /// Whether requests are due at times of their own, whatever the storage does.
    pub fn is_open(&self) -> bool {
        self.pace != Pace::Closed || self.frames.is_some() || self.trace.as_ref().is_some_and(Trace::is_open)
    }

    /// Whether the stream changes what the target holds.
    pub fn changes(&self) -> bool {
        self.does().writes || self.does().trims || self.program.is_some_and(|p| p.changes())
    }
}

impl Default for Operations {
    fn default() -> Self {
        Operations { read: Percent(100.0), write: Percent(0.0), flush: Percent(0.0), trim: Percent(0.0) }
    }
}

/// One size, or a weighted mix.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct RequestSizes(pub Vec<SizeShare>);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeShare {
    pub size: Bytes,
    #[serde(default = "hundred_percent")]
    pub share: Percent,
    /// The operation that has this size; all operations unless set. The shares of each operation sum to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Moves>,
}

/// Operations that have an offset and a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moves {
    Read,
    Write,
    Trim,
}

impl RequestSizes {
    pub fn max_bytes(&self) -> u64 {
        self.0.iter().map(|s| s.size.0).max().unwrap_or(0)
    }
    pub fn min_bytes(&self) -> u64 {
        self.0.iter().map(|s| s.size.0).min().unwrap_or(0)
    }
    /// Whether each operation has sizes of its own.
    pub fn by_operation(&self) -> bool {
        self.0.iter().any(|s| s.of.is_some())
    }
    /// The smallest size that the operation of this item can have; offsets are multiples of it unless `align` is set.
    pub fn least_bytes_beside(&self, item: &SizeShare) -> u64 {
        self.0.iter().filter(|s| s.of == item.of).map(|s| s.size.0).min().unwrap_or(0)
    }
}

impl<'de> Deserialize<'de> for RequestSizes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = RequestSizes;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a size such as \"8KiB\" or a list of { size, share }")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<RequestSizes, E> {
                let size = crate::parse_bytes(v).map(Bytes).map_err(E::custom)?;
                Ok(RequestSizes(vec![SizeShare { size, share: Percent(100.0), of: None }]))
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<RequestSizes, E> {
                self.visit_str(&v.to_string())
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<RequestSizes, E> {
                self.visit_str(&v.to_string())
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<RequestSizes, A::Error> {
                let mut sizes = Vec::new();
                while let Some(size) = seq.next_element()? {
                    sizes.push(size);
                }
                Ok(RequestSizes(sizes))
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// The order in which a stream touches its region. Written as a word, or as a table with `kind` and parameters.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Address {
    /// One cursor for all lanes of the stream; with `apart`, each lane has its own part of the region.
    #[schemars(title = "SequentialAddress")]
    Sequential { apart: bool },
    /// Uniform and independent.
    #[schemars(title = "RandomAddress")]
    Random,
    /// Every block once per pass, in random order.
    #[schemars(title = "PermutationAddress")]
    Permutation,
    /// Offsets `stride` apart, wrapping to the next block not yet touched.
    #[schemars(title = "StridedAddress")]
    Strided { stride: Bytes },
    /// `random` per cent of requests are uniform; the others continue a sequential cursor.
    #[schemars(title = "MixedAddress")]
    Mixed { random: Percent },
    /// Each lane continues after its last request, except that `random` per cent of requests go to a uniform offset,
    /// where the next run begins. fio, diskspd and Iometer mix in this way.
    #[schemars(title = "RunsAddress")]
    Runs { random: Percent },
    /// P(rank k) ∝ k^-theta over blocks in scattered order.
    #[schemars(title = "ZipfAddress")]
    Zipf { theta: f64 },
    /// Self-similar (Gray 1994): a share `1 - skew` of blocks gets `skew` of the requests, again within that part.
    #[schemars(title = "ParetoAddress")]
    Pareto { skew: Percent },
    /// `requests` per cent of requests go to `spots` equal spots that together cover `space` per cent of the region;
    /// the others are uniform over the whole region.
    #[schemars(title = "HotSpotsAddress")]
    HotSpots { requests: Percent, space: Percent, spots: u32 },
    /// Each zone, a part of the stream's region, gets its share of the requests; uniform within a zone. With `apart`,
    /// each lane has its own part of the region, and the zones are parts of that.
    #[schemars(title = "ZonesAddress")]
    Zones {
        zones: Vec<Zone>,
        // Profiles without it keep the spelling, and so the hash, that they had before there was one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        apart: bool,
    },
    /// fio's `normal`: a rank is the mean of twelve uniform numbers, spread over `deviation` per cent more than the
    /// blocks; ranks are assigned to blocks in scattered order.
    #[schemars(title = "NormalAddress")]
    Normal { deviation: Percent },
}

/// A part of a stream's region, and the share of requests that fall into it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    pub requests: Percent,
    /// Within the stream's region, or within the lane's part of it, such as `"0..5%"` or `"0..20GiB"`.
    pub region: Span,
}

impl Default for Address {
    fn default() -> Self {
        Address::Sequential { apart: false }
    }
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum AddressTable {
    Sequential {
        #[serde(default)]
        apart: bool,
    },
    Random {},
    Permutation {},
    Strided {
        stride: Bytes,
    },
    Mixed {
        random: Percent,
    },
    Runs {
        random: Percent,
    },
    Zipf {
        #[serde(default = "zipf_theta")]
        theta: f64,
    },
    Pareto {
        #[serde(default = "eighty_percent")]
        skew: Percent,
    },
    HotSpots {
        #[serde(default = "eighty_percent")]
        requests: Percent,
        #[serde(default = "twenty_percent")]
        space: Percent,
        #[serde(default = "one_u32")]
        spots: u32,
    },
    Zones {
        zones: Vec<Zone>,
        #[serde(default)]
        apart: bool,
    },
    Normal {
        #[serde(default)]
        deviation: Percent,
    },
}

impl From<AddressTable> for Address {
    fn from(table: AddressTable) -> Address {
        match table {
            AddressTable::Sequential { apart } => Address::Sequential { apart },
            AddressTable::Random {} => Address::Random,
            AddressTable::Permutation {} => Address::Permutation,
            AddressTable::Strided { stride } => Address::Strided { stride },
            AddressTable::Mixed { random } => Address::Mixed { random },
            AddressTable::Runs { random } => Address::Runs { random },
            AddressTable::Zipf { theta } => Address::Zipf { theta },
            AddressTable::Pareto { skew } => Address::Pareto { skew },
            AddressTable::HotSpots { requests, space, spots } => Address::HotSpots { requests, space, spots },
            AddressTable::Zones { zones, apart } => Address::Zones { zones, apart },
            AddressTable::Normal { deviation } => Address::Normal { deviation },
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        word_or_table::<AddressTable, D>(d, "kind", "an address pattern such as \"random\"").map(Address::from)
    }
}

/// When requests are due.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
#[serde(tag = "loop", rename_all = "snake_case")]
pub enum Pace {
    /// A request is due when the one before it in its slot has ended, plus think time.
    #[default]
    #[schemars(title = "ClosedPace")]
    Closed,
    /// Requests of the whole stream are due at `rate` per second, whatever the storage does.
    #[schemars(title = "OpenPace")]
    Open {
        rate: f64,
        arrivals: Arrivals,
        /// This number of requests of a worker are due together each time; the rate stays the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        burst: Option<u32>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    #[default]
    Constant,
    Poisson,
}

#[derive(Deserialize)]
#[serde(tag = "loop", rename_all = "snake_case", deny_unknown_fields)]
enum PaceTable {
    Closed {},
    Open {
        rate: f64,
        #[serde(default)]
        arrivals: Arrivals,
        #[serde(default)]
        burst: Option<u32>,
    },
}

impl<'de> Deserialize<'de> for Pace {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let what = "\"closed\" or { loop = \"open\", rate = 1000, arrivals = \"poisson\" }";
        Ok(match word_or_table::<PaceTable, D>(d, "loop", what)? {
            PaceTable::Closed {} => Pace::Closed,
            PaceTable::Open { rate, arrivals, burst } => Pace::Open { rate, arrivals, burst },
        })
    }
}

/// Durability of each write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyncMode {
    #[default]
    None,
    /// Data and metadata reach the medium before a write ends (RWF_SYNC).
    Sync,
    /// Data reaches the medium before a write ends (RWF_DSYNC).
    Dsync,
    /// As in a trace: the write alone (FUA). A flush after it is a separate request. No profile uses this.
    #[serde(skip)]
    Fua,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlushEvery {
    pub writes: u32,
    #[serde(default)]
    pub call: FlushCall,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlushCall {
    #[default]
    Fdatasync,
    Fsync,
}

/// The data that are written. They are incompressible and different in every block unless set otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Share of each block that a compressor can remove.
    #[serde(default)]
    pub compressible: Percent,
    /// Share of blocks that repeat an earlier block.
    #[serde(default)]
    pub duplicate: Percent,
}

/// Lets a tagged table without parameters be written as its tag alone.
fn word_or_table<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    d: D,
    tag: &'static str,
    expecting: &'static str,
) -> Result<T, D::Error> {
    struct Visitor<T>(&'static str, &'static str, std::marker::PhantomData<T>);
    impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
        type Value = T;
        fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
            f.write_str(self.1)
        }
        fn visit_str<E: de::Error>(self, word: &str) -> Result<T, E> {
            let entries = std::iter::once((self.0, word));
            T::deserialize(de::value::MapDeserializer::new(entries))
        }
        fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(de::value::MapAccessDeserializer::new(map))
        }
    }
    d.deserialize_any(Visitor(tag, expecting, std::marker::PhantomData))
}

impl Default for Span {
    fn default() -> Self {
        Span::WHOLE
    }
}

fn one() -> u64 {
    1
}
fn one_u32() -> u32 {
    1
}
fn five() -> u32 {
    5
}
fn one_second() -> Duration {
    Duration { ns: 1_000_000_000 }
}
fn ten_seconds() -> Duration {
    Duration { ns: 10_000_000_000 }
}
/// SQLIOSim warns after 15 s; so does the watchdog.
pub fn default_hang_after() -> Duration {
    Duration { ns: 15_000_000_000 }
}
fn zipf_theta() -> f64 {
    1.1
}
fn ten_percent() -> Percent {
    Percent(10.0)
}
fn twenty_percent() -> Percent {
    Percent(20.0)
}
fn eighty_percent() -> Percent {
    Percent(80.0)
}
fn hundred_percent() -> Percent {
    Percent(100.0)
}
