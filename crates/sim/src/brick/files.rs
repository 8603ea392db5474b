//! From a name to a brick: array files, the parts that they name, and what the user changes of them.

use std::collections::BTreeMap;

use plan::{Bytes, Duration, Edit, Fault, Mistake, NO_SUCH_KEY, near, reader_words};
use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::offers::{self, CloudVolume};
use super::sheet::{DiskSheet, SsdSheet};
use super::{
    Brick, CloudParameters, Condition, ControllerParameters, DriveParameters, Failure, FileSystem, Level,
    PageCacheParameters, RotatingParameters, SsdParameters, ZfsParameters,
};

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
    #[serde(default)]
    vdevs: u32,
    #[serde(default)]
    draid_data: u32,
    #[serde(default)]
    draid_spares: u32,
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
    power_cut_at: Option<Duration>,
    #[serde(default)]
    other_drive: Option<String>,
    #[serde(default)]
    other_members: u32,
    #[serde(default = "default_memory")]
    memory: Bytes,
    #[serde(default = "no_file_system")]
    file_system: FileSystem,
    /// What differs from the files of the parts, by part: `[changes.controller]`.
    #[serde(default)]
    changes: BTreeMap<String, Table>,
    /// Where those values come from.
    #[serde(default)]
    #[allow(dead_code, reason = "checked as text and read by people")]
    basis: BTreeMap<String, Table>,
}

impl ArrayFile {
    fn has(&self, part: &str) -> bool {
        let named = |reference: &Option<String>| reference.as_ref().is_some_and(|r| !r.is_empty());
        match part {
            "drive" | "page_cache" => true,
            "controller" => named(&self.controller),
            "software" => named(&self.software),
            _ => named(&self.other_drive),
        }
    }
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
/// 1 GiB: the middle of the hosts of the five studies (512 MB to 4 GB).
fn default_memory() -> Bytes {
    Bytes(1 << 30)
}
fn no_file_system() -> FileSystem {
    FileSystem::None
}
fn normal() -> Condition {
    Condition::Normal
}
fn half() -> f64 {
    50.0
}

/// Parts whose own keys a user may change as well: `controller.cache_bytes=1GiB`.
pub const PARTS: [&str; 5] = ["drive", "controller", "software", "other_drive", "page_cache"];

/// Keys of an array file that a user may change: `members=8`.
pub const OVERRIDES: [&str; 23] = [
    "drive",
    "controller",
    "software",
    "controllers",
    "level",
    "members",
    "spares",
    "vdevs",
    "draid_data",
    "draid_spares",
    "stripe",
    "write_cache",
    "queue_limit",
    "host_request",
    "condition",
    "rebuild_position",
    "fail_at",
    "fail_member",
    "power_cut_at",
    "other_drive",
    "other_members",
    "memory",
    "file_system",
];

/// Texts of brick files by `drives/NAME`, `controllers/NAME` and `arrays/NAME`; `files/NAME` is a user's own, which is a
/// drive if it says its `kind`, a controller if it says its `ports`, and else an array.
pub type Texts = BTreeMap<String, String>;

/// The text at a place; a user's file stands in for a part or array that does not ship.
fn text_at<'a>(place: &str, texts: &'a Texts) -> Option<(String, &'a String)> {
    if let Some(text) = texts.get(place) {
        return Some((place.to_string(), text));
    }
    let (kind, name) = place.split_once('/')?;
    let own = format!("files/{name}");
    let text = texts.get(&own)?;
    // A file that is no TOML is taken for either, so that its fault is told where it is read.
    let keys = toml::from_str::<Table>(text).unwrap_or_default();
    let wanted = match (keys.contains_key("kind"), keys.contains_key("ports")) {
        (true, _) => "drives",
        (_, true) => "controllers",
        _ => "arrays",
    };
    (kind == wanted).then_some((own, text))
}

/// The brick that `NAME` or `NAME,key=value,…` speaks of.
pub fn resolve(spoken: &str, texts: &Texts, overrides: &[String]) -> Result<Brick, Mistake> {
    let (name, file) = file_of(spoken, texts, overrides)?;
    if let Some((unused, keys)) = file.changes.iter().find(|(part, _)| !file.has(part)) {
        let key = keys.keys().next().map_or_else(|| unused.clone(), |key| format!("{unused}.{key}"));
        return Err(format!("sim:{name}: {key}: this brick has no {unused}").into());
    }
    let read = Reading { name, texts, changes: &file.changes };
    let controller = |key: &str, reference: &Option<String>| -> Result<Option<ControllerParameters>, Mistake> {
        let place = reference.as_ref().filter(|r| !r.is_empty()).map(|r| format!("controllers/{r}"));
        place.map(|place| read.part(key, &place)).transpose()
    };
    let failures = failures_of(file.fail_at.list(), file.fail_member.list()).map_err(|e| format!("sim:{name}: {e}"))?;
    let other = file.other_drive.as_ref().filter(|d| !d.is_empty());
    let brick = Brick {
        name: name.to_string(),
        title: file.title,
        drive: read.part("drive", &format!("drives/{}", file.drive))?,
        controller: controller("controller", &file.controller)?,
        software: controller("software", &file.software)?,
        controllers: file.controllers,
        level: file.level,
        members: file.members,
        spares: file.spares,
        vdevs: file.vdevs,
        draid_data: file.draid_data,
        draid_spares: file.draid_spares,
        stripe_bytes: file.stripe.0,
        write_cache: file.write_cache,
        queue_limit: file.queue_limit.unwrap_or(u32::MAX),
        host_request_ns: file.host_request.ns,
        condition: file.condition,
        rebuild_position: file.rebuild_position,
        failures,
        power_cut_ns: file.power_cut_at.map(|at| at.ns),
        other_drive: other.map(|d| read.part("other_drive", &format!("drives/{d}"))).transpose()?,
        other_members: file.other_members,
        memory_bytes: file.memory.0,
        page_cache: read.changed("page_cache")?,
        file_system: file.file_system,
        seed: 0,
    };
    brick.check().map_err(|e| format!("sim:{name}: {e}"))?;
    let spoken_of = spoken.split(',').skip(1).chain(overrides.iter().map(String::as_str));
    if brick.level.is_zfs() && spoken_of.map(str::trim_start).any(|wish| wish.starts_with("stripe=")) {
        let message = format!("sim:{name}: stripe: ZFS has records in place of stripes; take software.zfs_recordsize");
        return Err(message.into());
    }
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
pub fn needed(spoken: &str, texts: &Texts, overrides: &[String]) -> Result<Texts, Mistake> {
    let (name, file) = file_of(spoken, texts, overrides)?;
    let controllers = [&file.controller, &file.software].into_iter().flatten().map(|c| format!("controllers/{c}"));
    let other = file.other_drive.iter().map(|d| format!("drives/{d}"));
    let places = controllers.chain(other).chain([format!("arrays/{name}"), format!("drives/{}", file.drive)]);
    Ok(places.filter_map(|place| text_at(&place, texts)).map(|(k, v)| (k, v.clone())).collect())
}

fn file_of<'a>(spoken: &'a str, texts: &Texts, overrides: &[String]) -> Result<(&'a str, ArrayFile), Mistake> {
    let (name, changes) = spoken.split_once(',').unwrap_or((spoken, ""));
    let name = name.trim();
    let (place, text) = array_text(name, texts)?;
    let mut table: Table = in_file(&place, &text)?;
    check_basis_of_changes(name, &table)?;
    let mut file: ArrayFile = in_file(&place, &text)?;
    let wishes = || overrides.iter().map(String::as_str).chain(changes.split(',').filter(|c| !c.is_empty()));
    for part in wishes().filter_map(|text| text.split('=').next()).map(str::trim).filter(|key| PARTS.contains(key)) {
        // Another part has values of its own; what the file changes was meant for the one that it names.
        for of_file in ["changes", "basis"] {
            table.get_mut(of_file).and_then(Value::as_table_mut).map(|t| t.remove(part));
        }
    }
    for text in wishes() {
        let key = apply(&mut table, text).map_err(|e| e.at(&format!("sim:{name}")))?;
        // Each by itself, so that a value that cannot be read is told with its own key.
        file = table.clone().try_into().map_err(|_: toml::de::Error| needed_value(name, text, key))?;
    }
    Ok((name, file))
}

/// Reads a file's text; what is wrong with it is told with its line.
fn in_file<T: for<'de> Deserialize<'de>>(place: &str, text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|e: toml::de::Error| format!("{}: {}", file_name(place), reader_words(text, &e)))
}

/// A file of the user's own by its name, one that ships by its place.
fn file_name(place: &str) -> String {
    match place.strip_prefix("files/") {
        Some(name) if name.ends_with(".toml") => name.to_string(),
        Some(name) => format!("{name}.toml"),
        None => place.to_string(),
    }
}

/// What an override needs as its value, for whoever wrote another.
fn needed_value(name: &str, spoken: &str, key: &str) -> String {
    let needed = match key {
        "drive" | "other_drive" => "the name of a drive is needed; `brickyard advise parts` lists them",
        "controller" | "software" => "the name of a controller is needed; `brickyard advise parts` lists them",
        "level" => {
            "jbod, raid0, raid1, raid5, raid6 or raid10 is needed, or of ZFS zmirror, raidz1 to raidz3 or draid1 to draid3"
        }
        "stripe" => "a size such as 64KiB is needed",
        "write_cache" => "true or false is needed",
        "host_request" => "a time such as 20us is needed",
        "memory" => "a size such as 512MiB is needed",
        "file_system" => "none, ext2, ext3 or xfs is needed; ext4 is not modelled, ext3 and xfs are nearest to it",
        "power_cut_at" => "a time after the run's begin is needed, such as 30s",
        "condition" => {
            "normal, degraded, rebuilding, neighbour_rebuilding, initializing or scrubbing is needed; write caches are \
             switched by write_cache=true or write_cache=false"
        }
        "rebuild_position" => "a number of per cent from 0 to 100 is needed",
        "fail_at" => "a time after the run's begin is needed, such as 60s, or a list such as [\"60s\", \"90s\"]",
        "fail_member" => "the number of a member is needed, counted from 0, or a list such as [0, 3]",
        _ => "a whole number from 0 is needed",
    };
    format!("sim:{name}: {spoken}: {needed}")
}

/// A drive by itself is an array of one.
fn array_text(name: &str, texts: &Texts) -> Result<(String, String), Mistake> {
    if let Some((place, text)) = text_at(&format!("arrays/{name}"), texts) {
        return Ok((place, text.clone()));
    }
    if text_at(&format!("drives/{name}"), texts).is_some() {
        let text = format!("title = \"one {name}\"\ndrive = \"{name}\"\nlevel = \"jbod\"\nmembers = 1\n");
        return Ok((format!("arrays/{name}"), text));
    }
    if text_at(&format!("controllers/{name}"), texts).is_some() {
        return Err(format!("sim:{name}: is a controller, which stores nothing; name an array or a drive").into());
    }
    Err(or_listed(name, texts, &["arrays/", "drives/", "files/"], "bricks")
        .after(&format!("sim:{name}: no such brick")))
}

/// What was perhaps meant by the name of a file, or where its like are listed.
fn or_listed(name: &str, texts: &Texts, kinds: &[&str], verb: &str) -> Mistake {
    let known: Vec<&str> = texts.keys().filter_map(|k| kinds.iter().find_map(|kind| k.strip_prefix(kind))).collect();
    near(name, &known).map_or_else(|| format!("`brickyard {verb}` lists them").into(), |one| meant(name, one))
}

/// The words that a mistake ends with where one name was perhaps meant by another.
fn meant(given: &str, one: &str) -> Mistake {
    Mistake::new(format!("did you mean `{one}`?"), Some(Edit::instead(given, one)))
}

fn apply<'a>(table: &mut Table, text: &'a str) -> Result<&'a str, Mistake> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not an override; write key=value such as members=8"))?;
    let (key, value) = (key.trim(), value.trim());
    let parsed = toml::from_str::<Table>(&format!("v = {value}")).ok().and_then(|mut t| t.remove("v"));
    let parsed = parsed.unwrap_or_else(|| Value::String(value.to_string()));
    if let Some((part, of_part)) = key.split_once('.').filter(|(part, _)| PARTS.contains(part)) {
        let none = || Value::Table(Table::new());
        let changes = table.entry("changes").or_insert_with(none);
        let changes = changes.as_table_mut().map(|t| t.entry(part).or_insert_with(none));
        let changes =
            changes.and_then(Value::as_table_mut).ok_or("`changes` must be tables, such as [changes.drive]")?;
        changes.insert(of_part.to_string(), parsed);
        return Ok(key);
    }
    if !OVERRIDES.contains(&key) {
        return Err(perhaps(key).after(&format!("{text}: `{key}` is no key of a brick")));
    }
    table.insert(key.to_string(), parsed);
    Ok(key)
}

/// What was perhaps meant by a key that a brick does not have.
fn perhaps(key: &str) -> Mistake {
    if let Some(one) = near(key, &OVERRIDES) {
        return meant(key, one);
    }
    let (part, of_part) = key.split_once('.').unwrap_or(("", key));
    match near(part, &PARTS) {
        Some(one) => meant(key, &format!("{one}.{of_part}")),
        None => format!("write KEY, such as members, or PART.KEY for the parts {}", PARTS.join(", ")).into(),
    }
}

/// An array file that changes a value of a part says where its own comes from.
fn check_basis_of_changes(name: &str, table: &Table) -> Result<(), String> {
    let Some(changes) = table.get("changes").and_then(Value::as_table) else { return Ok(()) };
    for (part, keys) in changes.iter().filter_map(|(part, keys)| Some((part, keys.as_table()?))) {
        for key in keys.keys() {
            let basis = table.get("basis").and_then(|b| b.get(part)).and_then(|b| b.get(key));
            if !basis.and_then(Value::as_str).is_some_and(is_basis) {
                return Err(format!("arrays/{name}: [basis.{part}] must call {key} \"{}\"", BASES.join("\", \"")));
            }
        }
    }
    Ok(())
}

fn is_basis(text: &str) -> bool {
    BASES.iter().any(|b| text.starts_with(b))
}

/// Keys of a file that describe it and need no basis.
const DESCRIPTION: [&str; 4] = ["title", "source", "about", "kind"];
const BASES: [&str; 7] = ["data sheet", "review", "own report", "measured", "derived", "fitted", "from memory"];

/// What the parts of a brick are read from.
struct Reading<'a> {
    name: &'a str,
    texts: &'a Texts,
    changes: &'a BTreeMap<String, Table>,
}

impl Reading<'_> {
    /// Reads a drive or controller, with what an array file or the user changes of it.
    fn part<T: Part>(&self, part: &str, place: &str) -> Result<T, Mistake> {
        let (kind, reference) = place.split_once('/').unwrap_or(("", place));
        let unknown = || {
            let listed = or_listed(reference, self.texts, &[&format!("{kind}/")], "advise parts");
            listed.after(&format!("sim:{}: {part}={reference}: no such brick file", self.name))
        };
        let (place, text) = text_at(place, self.texts).ok_or_else(unknown)?;
        let mut table = own_values(&place, text)?;
        let said = |fault: Fault| match key_line(text, &fault.key) {
            Some(line) => format!("{}: line {line}: {fault}", file_name(&place)),
            None => format!("{}: {fault}", file_name(&place)),
        };
        let own = T::read(&table).map_err(said)?;
        let Some(changes) = self.changes.get(part).filter(|changes| !changes.is_empty()) else { return Ok(own) };
        table.extend(changes.iter().map(|(key, value)| (key.clone(), value.clone())));
        T::read(&table).map_err(|fault| self.changed_words(part, changes, &fault))
    }

    /// What has no file of its own: what it is by itself, with what an array file or the user changes of it.
    fn changed(&self, part: &str) -> Result<PageCacheParameters, Mistake> {
        let none = Table::new();
        let changes = self.changes.get(part).unwrap_or(&none);
        values(changes).map_err(|fault| self.changed_words(part, changes, &fault))
    }

    /// One key of a part that cannot be what it was changed to.
    fn changed_words(&self, part: &str, changes: &Table, fault: &Fault) -> Mistake {
        let key = &fault.key;
        let value = changes.get(key).map(|v| match v {
            Value::String(text) => format!("={text}"),
            other => format!("={other}"),
        });
        // A list of a part's many keys helps nobody; the texts have them with what they are.
        let is_bare = fault.words == NO_SUCH_KEY;
        let listed =
            if is_bare { format!("; `brickyard bricks show {}` has its keys", self.name) } else { String::new() };
        let said = format!("{part}.{key}{}: {}{listed}", value.unwrap_or_default(), fault.words);
        let written = array_text(self.name, self.texts).ok();
        let line = written.as_ref().and_then(|(_, text)| changed_line(text, part, key, changes.get(key)?));
        match (written, line) {
            (Some((place, _)), Some(line)) => format!("{}: line {line}: {said}", file_name(&place)).into(),
            _ => Mistake::new(format!("sim:{}: {said}", self.name), fault.edit.clone()),
        }
    }
}

/// Values of a part's file, each of which has its basis.
fn own_values(place: &str, text: &str) -> Result<Table, String> {
    let mut table: Table = in_file(place, text)?;
    let place = file_name(place);
    let basis = match table.remove("basis") {
        Some(Value::Table(basis)) => basis,
        _ => return Err(format!("{place}: has no table [basis] that says where its values come from")),
    };
    for key in ["title", "source", "about"] {
        table.remove(key);
    }
    for key in table.keys().filter(|k| !DESCRIPTION.contains(&k.as_str())) {
        match basis.get(key).and_then(Value::as_str) {
            Some(text) if is_basis(text) => {}
            _ => return Err(format!("{place}: [basis] must call {key} \"{}\"", BASES.join("\", \""))),
        }
    }
    if let Some(key) = basis.keys().find(|k| !table.contains_key(*k)) {
        return Err(format!("{place}: [basis] speaks of {key}, which the file does not have"));
    }
    Ok(table)
}

/// The line of a file at which a key has its value.
fn key_line(text: &str, key: &str) -> Option<usize> {
    let values: BTreeMap<String, Spanned<Value>> = toml::from_str(text).ok()?;
    values.get(key).map(|value| plan::line_of(text, value.span().start))
}

/// The line of an array file that changes a part's key to this value.
fn changed_line(text: &str, part: &str, key: &str, value: &Value) -> Option<usize> {
    #[derive(Deserialize)]
    struct Changes {
        changes: BTreeMap<String, BTreeMap<String, Spanned<Value>>>,
    }
    let read: Changes = toml::from_str(text).ok()?;
    let written = read.changes.get(part)?.get(key)?;
    (written.get_ref() == value).then(|| plan::line_of(text, written.span().start))
}

/// What keys of ZFS begin with.
const ZFS: &str = "zfs_";

/// What is read out of a drive's or a controller's file.
trait Part: Sized {
    fn read(table: &Table) -> Result<Self, Fault>;
}

/// By way of text, so that a fault can name its key.
fn values<T: for<'de> Deserialize<'de>>(table: &Table) -> Result<T, Fault> {
    let text = toml::to_string(table).unwrap_or_default();
    toml::from_str(&text).map_err(|e| Fault::of(&text, &e))
}

impl Part for ControllerParameters {
    /// Keys of ZFS are a table of their own, whose faults are told with the keys that the file has.
    fn read(table: &Table) -> Result<ControllerParameters, Fault> {
        let of_zfs = |key: &str| key.strip_prefix(ZFS).map(str::to_string);
        let own = table.iter().filter(|(key, _)| of_zfs(key).is_none());
        let mut read: ControllerParameters = values(&own.map(|(key, value)| (key.clone(), value.clone())).collect())?;
        let zfs: Table = table.iter().filter_map(|(key, value)| Some((of_zfs(key)?, value.clone()))).collect();
        if !zfs.is_empty() {
            let named = |fault: Fault| Fault { key: format!("{ZFS}{}", fault.key), ..fault };
            read.zfs = Some(values::<ZfsParameters>(&zfs).map_err(named)?);
        }
        Ok(read)
    }
}

impl Part for DriveParameters {
    fn read(table: &Table) -> Result<DriveParameters, Fault> {
        let mut table = table.clone();
        let kind = table.remove("kind").unwrap_or(Value::Boolean(false));
        match kind.as_str() {
            Some("rotating") => values::<RotatingParameters>(&table).map(DriveParameters::Rotating),
            Some("ssd") => values::<SsdParameters>(&table).map(DriveParameters::Ssd),
            Some("cloud") => values::<CloudParameters>(&table).map(DriveParameters::Cloud),
            Some("cloud-volume") => {
                let whole = offers::volume(&table, &values::<CloudVolume>(&table)?);
                let whole = whole.map_err(|(key, words)| Fault { key: key.into(), words, ..Fault::default() })?;
                values::<CloudParameters>(&whole).map(DriveParameters::Cloud)
            }
            Some("disk-sheet") => values::<DiskSheet>(&table).map(|s| DriveParameters::Rotating(s.drive())),
            Some("ssd-sheet") => {
                let drive = values::<SsdSheet>(&table)?.drive();
                let fault = |(key, words): (&str, String)| Fault { key: key.into(), words, ..Fault::default() };
                drive.map(DriveParameters::Ssd).map_err(fault)
            }
            _ => Err(Fault {
                key: "kind".into(),
                words: "`rotating`, `ssd`, `cloud`, `disk-sheet`, `ssd-sheet` or `cloud-volume` is needed".into(),
                ..Fault::default()
            }),
        }
    }
}
