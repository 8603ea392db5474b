//! Bricks: drives, controllers and arrays described in TOML, and how a name becomes a brick.
//!
//! A drive or controller file has a table `[basis]` that says of every value whether it is from the data sheet, derived,
//! fitted, or from memory, not checked against a data sheet; a value without a basis is refused. An array file names a
//! drive and a controller.

use std::collections::BTreeMap;

use plan::{Bytes, Duration};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// How a drive orders its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// No command queue: one command at a time, the others wait outside.
    None,
    Fifo,
    /// Shortest positioning time first, with an age limit.
    Sptf,
    CLook,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotatingParameters {
    pub capacity_bytes: Bytes,
    pub rpm: u32,
    pub heads: u32,
    pub zones: u32,
    /// Sustained rates of the outermost and the innermost zone, in 10^6 bytes/s.
    pub outer_mb_per_s: f64,
    pub inner_mb_per_s: f64,
    pub seek_track_read: Duration,
    pub seek_track_write: Duration,
    pub seek_average_read: Duration,
    pub seek_average_write: Duration,
    pub seek_full_read: Duration,
    pub seek_full_write: Duration,
    pub head_switch: Duration,
    pub write_settle: Duration,
    pub command_overhead: Duration,
    pub interface_mb_per_s: f64,
    pub scheduler: Scheduler,
    pub queue_depth: u32,
    pub age_limit: Duration,
    pub cache_bytes: Bytes,
    pub read_segments: u32,
    pub read_ahead_bytes: Bytes,
    pub write_cache: bool,
    /// Writes that the cache holds at the most, whatever their size.
    pub write_cache_entries: u32,
    /// How many of the oldest writes the firmware sorts.
    pub destage_window: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdParameters {
    pub capacity_bytes: Bytes,
    pub channels: u32,
    pub dies_per_channel: u32,
    pub page_bytes: Bytes,
    pub map_bytes: Bytes,
    pub pages_per_block: u32,
    pub read_time: Duration,
    pub program_time: Duration,
    pub slc_program_time: Duration,
    pub erase_time: Duration,
    pub over_provision_percent: f64,
    pub slc_cache_bytes: Bytes,
    pub dram_cache_bytes: Bytes,
    pub power_loss_protection: bool,
    pub channel_mb_per_s: f64,
    pub interface_mb_per_s: f64,
    pub command_overhead: Duration,
    /// Every block was written before, so that writing needs garbage collection from the start.
    pub steady: bool,
    /// Writes end in DRAM; without it they end when they are programmed.
    #[serde(default = "yes")]
    pub write_cache: bool,
    /// The drive takes no two commands in less time than this, however many dies are idle.
    #[serde(default)]
    pub command_interval: Duration,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudParameters {
    pub capacity_bytes: Bytes,
    pub iops: u64,
    pub burst_ios: u64,
    /// A larger request counts as several.
    pub io_unit_bytes: Bytes,
    pub mb_per_s: f64,
    pub burst_bytes: Bytes,
    pub read_latency: Duration,
    pub write_latency: Duration,
    /// Mean of the exponential part that comes on top.
    pub latency_tail: Duration,
    pub seed: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DriveParameters {
    Rotating(RotatingParameters),
    Ssd(SsdParameters),
    Cloud(CloudParameters),
}

/// Which arm of a mirror reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MirrorRead {
    /// The arm with the fewest commands; a stream of reads stays where it is.
    Idle,
    /// The nearer arm among those with the fewest commands.
    Nearer,
    /// One after the other, whatever they have to do.
    Alternate,
}

/// A controller, or an operating system's software array: neither has limits that it doesn't state. Rates of 0 are
/// without limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerParameters {
    /// A software array stands in front of controllers; its commands go through each of them.
    pub software: bool,
    pub ports: u32,
    /// What the bus carries by its data sheet, and which shares of that reads and writes attain.
    pub bus_mb_per_s: f64,
    pub bus_read_efficiency: f64,
    pub bus_write_efficiency: f64,
    /// Serial cost of each command of the host.
    pub read_command: Duration,
    pub write_command: Duration,
    /// No data move while a command is dealt with.
    pub command_holds_bus: bool,
    /// A stream of sequential reads from a mirror gets no more than this.
    pub mirror_stream_mb_per_s: f64,
    pub mirror_read: MirrorRead,
    pub cache_bytes: Bytes,
    /// Writes end when they are in the cache.
    pub write_back: bool,
    /// What the cache holds survives a power cut.
    pub battery: bool,
    pub read_ahead_bytes: Bytes,
    /// Drives keep their own write caches on.
    pub drive_write_cache: bool,
    /// Redundant volumes write through drive caches while anything on this controller is rebuilt.
    pub rebuild_writes_through: bool,
    pub rebuild_chunk_bytes: Bytes,
    /// Pace of a rebuild that competes with users, and of one that doesn't.
    pub rebuild_min_mb_per_s: f64,
    pub rebuild_max_mb_per_s: f64,
    /// Pace of a rebuild, initialization or scrub while users write.
    pub rebuild_writing_mb_per_s: f64,
    /// While a neighbour is rebuilt, each command waits for its turn among slices of this length.
    pub rebuild_slice: Duration,
    /// While anything is rebuilt, a write to a region of this size that was not written lately waits until every member
    /// has a record of it. 0: no such record is kept.
    pub region_log_bytes: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Jbod,
    Raid0,
    Raid1,
    Raid5,
    Raid6,
    Raid10,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    Normal,
    /// A member has failed and nothing replaces it.
    Degraded,
    /// The volume itself is being rebuilt.
    Rebuilding,
    /// Another volume on the same controller is being rebuilt.
    NeighbourRebuilding,
    /// Redundancy is being computed for the first time.
    Initializing,
    /// Redundancy is being checked.
    Scrubbing,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrayFile {
    title: String,
    #[serde(default)]
    #[allow(dead_code, reason = "read by people and by `bricks show`")]
    source: String,
    drive: String,
    #[serde(default)]
    controller: Option<String>,
    #[serde(default)]
    software: Option<String>,
    #[serde(default = "one")]
    controllers: u32,
    level: Level,
    members: u32,
    #[serde(default)]
    spares: u32,
    #[serde(default = "default_stripe")]
    stripe: Bytes,
    #[serde(default)]
    write_cache: Option<bool>,
    #[serde(default)]
    queue_limit: Option<u32>,
    #[serde(default)]
    host_request: Duration,
    #[serde(default = "normal")]
    condition: Condition,
    #[serde(default = "half")]
    rebuild_position: f64,
    #[serde(default)]
    fail_at: OneOrMore<Duration>,
    #[serde(default)]
    fail_member: OneOrMore<u32>,
    #[serde(default)]
    other_drive: Option<String>,
    #[serde(default)]
    other_members: u32,
}

/// `"60s"` or `["60s", "90s"]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "one value or a list of them is needed, such as fail_at = \"60s\" and fail_member = [0, 3]"
)]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> Default for OneOrMore<T> {
    fn default() -> OneOrMore<T> {
        OneOrMore::More(Vec::new())
    }
}

impl<T> OneOrMore<T> {
    fn list(self) -> Vec<T> {
        match self {
            OneOrMore::One(value) => vec![value],
            OneOrMore::More(values) => values,
        }
    }
}

fn one() -> u32 {
    1
}
/// 64 KiB: the middle of what controllers of the five studies offered (16 to 256 KiB).
fn default_stripe() -> Bytes {
    Bytes(65_536)
}
fn normal() -> Condition {
    Condition::Normal
}
fn half() -> f64 {
    50.0
}

/// Keys of an array file that a user may change: `members=8`.
pub const OVERRIDES: [&str; 17] = [
    "drive",
    "controller",
    "software",
    "controllers",
    "level",
    "members",
    "spares",
    "stripe",
    "write_cache",
    "queue_limit",
    "host_request",
    "condition",
    "rebuild_position",
    "fail_at",
    "fail_member",
    "other_drive",
    "other_members",
];

/// A complete brick.
#[derive(Debug, Clone, Serialize)]
pub struct Brick {
    pub name: String,
    pub title: String,
    pub drive: DriveParameters,
    pub controller: Option<ControllerParameters>,
    pub software: Option<ControllerParameters>,
    pub controllers: u32,
    pub level: Level,
    pub members: u32,
    pub spares: u32,
    pub stripe_bytes: u64,
    pub write_cache: Option<bool>,
    pub queue_limit: u32,
    pub host_request_ns: u64,
    pub condition: Condition,
    pub rebuild_position: f64,
    /// Members that fail during the run: which, and when.
    pub failures: Vec<Failure>,
    /// The last members are of another kind.
    pub other_drive: Option<DriveParameters>,
    pub other_members: u32,
}

/// A member that fails at an instant of the run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Failure {
    pub at_ns: u64,
    pub member: u32,
}

/// Texts of brick files by `drives/NAME`, `controllers/NAME` and `arrays/NAME`; `files/NAME` is a user's own, which is a
/// drive if it says its `kind` and else an array.
pub type Texts = BTreeMap<String, String>;

/// The text at a place; a user's file stands in for a drive or array that does not ship.
fn text_at<'a>(place: &str, texts: &'a Texts) -> Option<(String, &'a String)> {
    if let Some(text) = texts.get(place) {
        return Some((place.to_string(), text));
    }
    let (kind, name) = place.split_once('/')?;
    let own = format!("files/{name}");
    let text = texts.get(&own)?;
    // A file that is no TOML is taken for either, so that its fault is told where it is read.
    let is_drive = toml::from_str::<Table>(text).is_ok_and(|t| t.contains_key("kind"));
    let wanted = if is_drive { "drives" } else { "arrays" };
    (kind == wanted).then_some((own, text))
}

/// The brick that `NAME` or `NAME,key=value,…` speaks of.
pub fn resolve(spoken: &str, texts: &Texts, overrides: &[String]) -> Result<Brick, String> {
    let (name, file) = file_of(spoken, texts, overrides)?;
    let controller = |reference: &Option<String>| -> Result<Option<ControllerParameters>, String> {
        reference.as_ref().filter(|r| !r.is_empty()).map(|r| part(&format!("controllers/{r}"), texts)).transpose()
    };
    let failures = failures_of(file.fail_at.list(), file.fail_member.list()).map_err(|e| format!("sim:{name}: {e}"))?;
    let other = file.other_drive.as_ref().filter(|d| !d.is_empty());
    let brick = Brick {
        name: name.to_string(),
        title: file.title,
        drive: part(&format!("drives/{}", file.drive), texts)?,
        controller: controller(&file.controller)?,
        software: controller(&file.software)?,
        controllers: file.controllers,
        level: file.level,
        members: file.members,
        spares: file.spares,
        stripe_bytes: file.stripe.0,
        write_cache: file.write_cache,
        queue_limit: file.queue_limit.unwrap_or(u32::MAX),
        host_request_ns: file.host_request.ns,
        condition: file.condition,
        rebuild_position: file.rebuild_position,
        failures,
        other_drive: other.map(|d| part(&format!("drives/{d}"), texts)).transpose()?,
        other_members: file.other_members,
    };
    brick.check().map_err(|e| format!("sim:{name}: {e}"))?;
    Ok(brick)
}

/// The first to fail is member 0, the next member 1, unless `fail_member` says otherwise.
fn failures_of(times: Vec<Duration>, members: Vec<u32>) -> Result<Vec<Failure>, String> {
    if !members.is_empty() && members.len() != times.len() {
        return Err(format!(
            "{} times in fail_at, {} members in fail_member; as many are needed",
            times.len(),
            members.len()
        ));
    }
    let member = |index: usize| members.get(index).copied().unwrap_or(index as u32);
    Ok(times.iter().enumerate().map(|(index, at)| Failure { at_ns: at.ns, member: member(index) }).collect())
}

/// The texts that a brick is made of: what a record needs to keep of all that there are.
pub fn needed(spoken: &str, texts: &Texts, overrides: &[String]) -> Result<Texts, String> {
    let (name, file) = file_of(spoken, texts, overrides)?;
    let controllers = [&file.controller, &file.software].into_iter().flatten().map(|c| format!("controllers/{c}"));
    let other = file.other_drive.iter().map(|d| format!("drives/{d}"));
    let places = controllers.chain(other).chain([format!("arrays/{name}"), format!("drives/{}", file.drive)]);
    Ok(places.filter_map(|place| text_at(&place, texts)).map(|(k, v)| (k, v.clone())).collect())
}

fn file_of<'a>(spoken: &'a str, texts: &Texts, overrides: &[String]) -> Result<(&'a str, ArrayFile), String> {
    let (name, changes) = spoken.split_once(',').unwrap_or((spoken, ""));
    let name = name.trim();
    let mut table = array_table(name, texts)?;
    let mut file = read_array(name, &table)?;
    for text in overrides.iter().map(String::as_str).chain(changes.split(',').filter(|c| !c.is_empty())) {
        let key = apply(&mut table, text).map_err(|e| format!("sim:{name}: {e}"))?;
        // Each by itself, so that a value that cannot be read is told with its own key.
        file = read_array(name, &table).map_err(|_| format!("sim:{name}: {text}: {}", needed_value(key)))?;
    }
    Ok((name, file))
}

fn read_array(name: &str, table: &Table) -> Result<ArrayFile, String> {
    table.clone().try_into().map_err(|e: toml::de::Error| format!("arrays/{name}: {}", one_line(e.message())))
}

/// What an override needs as its value, for whoever wrote another.
fn needed_value(key: &str) -> &'static str {
    match key {
        "drive" | "other_drive" => "the name of a drive is needed; `brickyard advise parts` lists them",
        "controller" | "software" => "the name of a controller is needed; `brickyard advise parts` lists them",
        "level" => "jbod, raid0, raid1, raid5, raid6 or raid10 is needed",
        "stripe" => "a size such as 64KiB is needed",
        "write_cache" => "true or false is needed",
        "host_request" => "a time such as 20us is needed",
        "condition" => {
            "normal, degraded, rebuilding, neighbour_rebuilding, initializing or scrubbing is needed; write caches are \
             switched by write_cache=true or write_cache=false"
        }
        "rebuild_position" => "a number of per cent from 0 to 100 is needed",
        "fail_at" => "a time after the run's begin is needed, such as 60s, or a list such as [\"60s\", \"90s\"]",
        "fail_member" => "the number of a member is needed, counted from 0, or a list such as [0, 3]",
        _ => "a whole number of 0 or more is needed",
    }
}

/// A drive by itself is an array of one.
fn array_table(name: &str, texts: &Texts) -> Result<Table, String> {
    if let Some((place, text)) = text_at(&format!("arrays/{name}"), texts) {
        return toml::from_str(text).map_err(|e: toml::de::Error| format!("{place}: {}", one_line(e.message())));
    }
    if text_at(&format!("drives/{name}"), texts).is_some() {
        let text = format!("title = \"one {name}\"\ndrive = \"{name}\"\nlevel = \"jbod\"\nmembers = 1\n");
        return toml::from_str(&text).map_err(|e: toml::de::Error| one_line(e.message()));
    }
    let known: Vec<&str> =
        texts.keys().filter_map(|k| k.strip_prefix("arrays/").or(k.strip_prefix("files/"))).collect();
    Err(format!("sim:{name}: no such brick; there are the drives and {}", known.join(", ")))
}

fn apply<'a>(table: &mut Table, text: &'a str) -> Result<&'a str, String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not an override; write key=value such as members=8"))?;
    let (key, value) = (key.trim(), value.trim());
    if !OVERRIDES.contains(&key) {
        return Err(format!("`{key}` is no key of a brick; there are {}", OVERRIDES.join(", ")));
    }
    let parsed = toml::from_str::<Table>(&format!("v = {value}")).ok().and_then(|mut t| t.remove("v"));
    table.insert(key.to_string(), parsed.unwrap_or_else(|| Value::String(value.to_string())));
    Ok(key)
}

/// Stripe units and rebuild chunks; a member operation counts its bytes in 32 bits.
const MAX_PIECE_BYTES: u64 = 1 << 30;
/// Ten times what there is; sectors times the ns of a revolution still fit into 64 bits.
const MAX_DRIVE_BYTES: u64 = 1 << 48;

/// Keys of a file that describe it and need no basis.
const DESCRIPTION: [&str; 4] = ["title", "source", "about", "kind"];
const BASES: [&str; 4] = ["data sheet", "derived", "fitted", "from memory"];

/// Reads a drive or controller: every value has its basis.
fn part<T: for<'de> Deserialize<'de>>(place: &str, texts: &Texts) -> Result<T, String> {
    let (place, text) = text_at(place, texts).ok_or_else(|| format!("{place}: no such brick file"))?;
    let mut table: Table =
        toml::from_str(text).map_err(|e: toml::de::Error| format!("{place}: {}", one_line(e.message())))?;
    let basis = match table.remove("basis") {
        Some(Value::Table(basis)) => basis,
        _ => return Err(format!("{place}: has no table [basis] that says where its values come from")),
    };
    for key in ["title", "source", "about"] {
        table.remove(key);
    }
    for key in table.keys().filter(|k| !DESCRIPTION.contains(&k.as_str())) {
        match basis.get(key).and_then(Value::as_str) {
            Some(text) if BASES.iter().any(|b| text.starts_with(b)) => {}
            _ => return Err(format!("{place}: [basis] must call {key} \"{}\"", BASES.join("\", \""))),
        }
    }
    if let Some(key) = basis.keys().find(|k| !table.contains_key(*k)) {
        return Err(format!("{place}: [basis] speaks of {key}, which the file does not have"));
    }
    table.try_into().map_err(|e: toml::de::Error| format!("{place}: {}", one_line(e.message())))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Brick {
    /// Who keeps the redundancy: the software array if there is one, else the controller.
    pub fn keeper(&self) -> Option<&ControllerParameters> {
        self.software.as_ref().or(self.controller.as_ref())
    }

    fn check(&self) -> Result<(), String> {
        let least = match self.level {
            Level::Jbod | Level::Raid0 => 1,
            Level::Raid1 => 2,
            Level::Raid5 => 3,
            Level::Raid6 | Level::Raid10 => 4,
        };
        let n = self.members;
        if n < least || n > 1_000 {
            return Err(format!("{n} members; this level takes from {least} to 1000"));
        }
        if matches!(self.level, Level::Raid10) && n % 2 == 1 || matches!(self.level, Level::Raid1) && n != 2 {
            return Err(format!("{n} members; raid1 takes 2 and raid10 an even number"));
        }
        if !(512..=MAX_PIECE_BYTES).contains(&self.stripe_bytes) || !self.stripe_bytes.is_multiple_of(512) {
            return Err(format!("stripe of {} bytes; a multiple of 512 up to 1GiB is needed", self.stripe_bytes));
        }
        if self.controllers == 0 || !n.is_multiple_of(self.controllers) {
            return Err(format!("{n} members cannot be shared out evenly over {} controllers", self.controllers));
        }
        if !(0.0..=100.0).contains(&self.rebuild_position) {
            return Err(format!("rebuild_position = {}; from 0 to 100 per cent", self.rebuild_position));
        }
        self.check_ports()?;
        self.check_condition()?;
        self.check_failures()?;
        self.check_write_cache()?;
        if self.other_members > n || (self.other_members > 0) != self.other_drive.is_some() {
            return Err(format!("other_members = {}: name other_drive as well, and up to {n}", self.other_members));
        }
        std::iter::once(&self.drive).chain(&self.other_drive).try_for_each(check_drive)
    }

    fn check_failures(&self) -> Result<(), String> {
        let Some(first) = self.failures.first() else { return Ok(()) };
        if let Some(failure) = self.failures.iter().find(|f| f.member >= self.members) {
            return Err(format!("member {} cannot fail; there are 0 to {}", failure.member, self.members - 1));
        }
        if self.condition != Condition::Normal {
            return Err(format!(
                "a member fails at {} s of a run in normal condition; leave condition out",
                first.at_ns / 1_000_000_000
            ));
        }
        if self.spares > 0 && self.is_redundant() && !self.can_rebuild() {
            return Err(
                "its controller states no rebuild_chunk_bytes from 4KiB to 1GiB; name another, or spares=0".into()
            );
        }
        Ok(())
    }

    /// A cache that is not there, or that a controller keeps off, is switched by nobody.
    fn check_write_cache(&self) -> Result<(), String> {
        let Some(on) = self.write_cache else { return Ok(()) };
        let has_none = |drive: &DriveParameters| match drive {
            DriveParameters::Rotating(p) => p.cache_bytes.0 == 0,
            DriveParameters::Ssd(_) => false,
            DriveParameters::Cloud(_) => true,
        };
        if std::iter::once(&self.drive).chain(&self.other_drive).any(has_none) {
            return Err(format!("write_cache={on}: its drives have no write cache that could be switched"));
        }
        if on && self.keeper().is_some_and(|k| !k.drive_write_cache) {
            return Err("write_cache=true: its controller keeps the write caches of its drives off".into());
        }
        Ok(())
    }

    fn is_redundant(&self) -> bool {
        !matches!(self.level, Level::Jbod | Level::Raid0)
    }

    fn can_rebuild(&self) -> bool {
        self.keeper().is_some_and(|k| (4096..=MAX_PIECE_BYTES).contains(&k.rebuild_chunk_bytes.0))
    }

    fn check_ports(&self) -> Result<(), String> {
        let Some(controller) = &self.controller else { return Ok(()) };
        let here = (self.members + self.spares).div_ceil(self.controllers);
        if controller.ports > 0 && here > controller.ports {
            return Err(format!("{here} drives on a controller of {} ports; add controllers", controller.ports));
        }
        if self.queue_limit == 0 {
            return Err("queue_limit = 0; at least 1".into());
        }
        Ok(())
    }

    fn check_condition(&self) -> Result<(), String> {
        let (redundant, rebuilds) = (self.is_redundant(), self.can_rebuild());
        match self.condition {
            Condition::Normal => Ok(()),
            Condition::Degraded if !redundant => Err("a volume without redundancy cannot be degraded".into()),
            Condition::Degraded if self.spares > 0 => {
                Err("a failed member is replaced by the spare; take condition=rebuilding, or spares=0".into())
            }
            Condition::Degraded => Ok(()),
            Condition::NeighbourRebuilding => match self.keeper() {
                Some(k) if k.rebuild_slice.ns > 0 && self.controller.is_some() => Ok(()),
                _ => Err("has no controller that could rebuild a neighbour; name one that states rebuild_slice".into()),
            },
            _ if !redundant => Err("a volume without redundancy has nothing to rebuild, initialize or scrub".into()),
            _ if !rebuilds => {
                Err("its controller states no rebuild_chunk_bytes from 4KiB to 1GiB; name another".into())
            }
            _ => Ok(()),
        }
    }
}

fn check_drive(drive: &DriveParameters) -> Result<(), String> {
    let capacity_bytes = match drive {
        DriveParameters::Rotating(p) => p.capacity_bytes.0,
        DriveParameters::Ssd(p) => p.capacity_bytes.0,
        DriveParameters::Cloud(p) => p.capacity_bytes.0,
    };
    if !(1 << 20..=MAX_DRIVE_BYTES).contains(&capacity_bytes) {
        return Err(format!("a drive of {capacity_bytes} bytes; from 1MiB to 256TiB"));
    }
    match drive {
        DriveParameters::Rotating(p) => {
            let positive = [p.outer_mb_per_s, p.inner_mb_per_s, p.interface_mb_per_s].iter().all(|v| *v > 0.0);
            let counted = p.rpm >= 1 && p.heads >= 1 && p.zones >= 1 && p.destage_window >= 1;
            let counted = counted && p.write_cache_entries >= 1 && p.queue_depth >= 1;
            let sized = p.capacity_bytes.0 >= 1 << 20 && p.rpm <= 100_000;
            if positive && counted && sized {
                return Ok(());
            }
            Err("a rotating drive needs rates, rpm, heads, zones, windows and depths above 0 and at least 1 MiB".into())
        }
        DriveParameters::Ssd(p) => {
            let rates = p.channel_mb_per_s > 0.0 && p.interface_mb_per_s > 0.0 && p.over_provision_percent > 0.0;
            let chips = (1..=256).contains(&p.channels) && (1..=64).contains(&p.dies_per_channel);
            let counts = chips && p.pages_per_block >= 1 && p.page_bytes.0 >= p.map_bytes.0;
            if rates && counts && p.page_bytes.0 >= 512 && p.map_bytes.0 >= 512 && p.dram_cache_bytes.0 >= 1 << 20 {
                return Ok(());
            }
            Err("a solid-state drive needs 1 to 256 channels, 1 to 64 dies a channel, pages of 512 bytes or more and no \
                     smaller than map_bytes, rates, and 1MiB of DRAM"
                    .into())
        }
        DriveParameters::Cloud(p) => {
            if p.iops >= 1 && p.mb_per_s > 0.0 && p.io_unit_bytes.0 >= 512 && p.burst_ios >= 1 {
                return Ok(());
            }
            Err("a cloud volume needs iops, mb_per_s, burst_ios and io_unit_bytes above 0".into())
        }
    }
}
