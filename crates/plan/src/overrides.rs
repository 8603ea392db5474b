//! Overrides: `key=value` pairs that change a profile before it is validated.

use crate::reading::{key_of_fio, near};
use crate::{Edit, Mistake, Profile};
use std::sync::OnceLock;
use toml::{Table, Value};

/// One `key=value`. The key is a bare name (`depth`), which changes every place where that key belongs, or a path
/// (`measure.depth`, `measure.reads.depth`) that starts with a phase's name and may name one of its streams.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    key: String,
    value: Value,
    /// As it was written.
    spoken: String,
}

impl std::fmt::Display for Override {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.spoken)
    }
}

/// The schema of a profile, made once.
fn schema() -> &'static serde_json::Value {
    static SCHEMA: OnceLock<serde_json::Value> = OnceLock::new();
    SCHEMA.get_or_init(|| serde_json::from_str(&crate::json_schema()).expect("our own schema is JSON"))
}

/// Keys that belong to a type of the profile, out of its schema so that they cannot drift.
fn keys_of(type_name: &str) -> Vec<String> {
    let schema = schema();
    let properties =
        if schema["title"] == type_name { &schema["properties"] } else { &schema["$defs"][type_name]["properties"] };
    properties.as_object().map(|p| p.keys().cloned().collect()).unwrap_or_default()
}

/// Keys of a stream's program, by the kind that stands in its table.
fn program_keys(stream: &Table) -> Vec<String> {
    let kind = stream.get("program").and_then(|p| p.get("kind")).and_then(Value::as_str).unwrap_or_default();
    let schema = schema();
    let kinds = schema["$defs"]["Program"]["oneOf"].as_array().cloned().unwrap_or_default();
    let found = kinds.iter().find(|one| one["properties"]["kind"]["const"] == kind);
    let own = found.and_then(|one| one["properties"].as_object());
    let named = found.and_then(|one| one["$ref"].as_str()?.rsplit('/').next()).map(keys_of);
    let keys = own.into_iter().flat_map(|keys| keys.keys().cloned()).chain(named.unwrap_or_default());
    keys.filter(|key| key != "kind").collect()
}

/// Whether a key's value is a table with keys of its own, such as `operations`.
fn holds_a_table(key: &str) -> bool {
    let schema = schema();
    let places =
        [&schema["properties"], &schema["$defs"]["Phase"]["properties"], &schema["$defs"]["Stream"]["properties"]];
    let named = |value: &serde_json::Value| {
        let reference = value["$ref"].as_str().or_else(|| value["anyOf"][0]["$ref"].as_str())?.rsplit('/').next()?;
        Some(schema["$defs"][reference].clone())
    };
    let is_table = |kind: serde_json::Value| {
        kind["properties"].is_object()
            || kind["oneOf"].as_array().is_some_and(|all| all.iter().any(|one| one["properties"].is_object()))
    };
    places.iter().any(|properties| named(&properties[key]).is_some_and(is_table))
}

/// The one key of a phase or stream whose table holds this key, where there is only one: `format` is `frames.format`.
fn table_of(leaf: &str, keys: &[String]) -> Option<String> {
    let schema: serde_json::Value = serde_json::from_str(&crate::json_schema()).expect("our own schema is JSON");
    let holds = |key: &&String| {
        ["Phase", "Stream"].iter().any(|place| {
            let value = &schema["$defs"][place]["properties"][key.as_str()];
            let named = value["$ref"].as_str().or_else(|| value["anyOf"][0]["$ref"].as_str());
            let kind = named.and_then(|n| n.rsplit('/').next()).map(|n| &schema["$defs"][n]);
            kind.is_some_and(|kind| kind["properties"][leaf].is_object())
        })
    };
    let mut found = keys.iter().filter(holds);
    found.next().filter(|_| found.next().is_none()).cloned()
}

impl Override {
    /// Parses `key=value`; a value that is not TOML is text (`8KiB`, `0..50%`).
    pub fn parse(text: &str) -> Result<Override, Mistake> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| Mistake::from(format!("`{text}` is not an override; write key=value such as depth=8")))?;
        let value = value.trim();
        let parsed = toml::from_str::<Table>(&format!("v = {value}")).ok().and_then(|mut t| t.remove("v"));
        let (key, spoken) = (key.trim().to_string(), format!("{}={value}", key.trim()));
        Ok(Override { key, value: parsed.unwrap_or_else(|| Value::String(value.to_string())), spoken })
    }

    /// Whether it gives a value to a key of this name.
    pub(crate) fn sets(&self, key: &str) -> bool {
        self.key.rsplit('.').next() == Some(key)
    }

    pub(crate) fn apply(&self, profile: &mut Table) -> Result<(), Mistake> {
        let whole: Vec<&str> = self.key.split('.').collect();
        let (in_profile, in_phase, in_stream) = (keys_of("Profile"), keys_of("Phase"), keys_of("Stream"));
        let is_key =
            |word: &str| [&in_profile, &in_phase, &in_stream].iter().any(|keys| keys.iter().any(|k| k == word));
        // What stands behind a key is a key within its table, as in `operations.read`.
        let held_keys = |at: &usize| *at < 3 && *at + 1 < whole.len() && holds_a_table(whole[*at]);
        let depth = whole.iter().position(|word| is_key(word)).filter(held_keys);
        let (path, within) = whole.split_at(depth.map_or(whole.len(), |at| at + 1));
        let leaf = *path.last().expect("split gives at least one part");
        let known = |keys: &[String]| keys.iter().any(|k| k == leaf) && leaf != "phase" && leaf != "stream";
        if path.len() == 1 && known(&in_profile) {
            self.insert(profile, leaf, within);
            return Ok(());
        }
        let mut changed = false;
        let mut of_programs = Vec::new();
        if path.len() > 3 {
            return Err(Mistake::from(format!("--set {}: write KEY, PHASE.KEY or PHASE.STREAM.KEY", self.key)));
        }
        for phase in tables(profile, "phase") {
            let phase_named = path.len() > 1 && name_of(phase) == path[0];
            if path.len() > 1 && !phase_named {
                continue;
            }
            if path.len() < 3 && known(&in_phase) {
                self.insert(phase, leaf, within);
                changed = true;
                continue;
            }
            for stream in tables(phase, "stream") {
                if known(&in_stream) && (path.len() < 3 || name_of(stream) == path[1]) {
                    self.insert(stream, leaf, within);
                    changed = true;
                    continue;
                }
                let keys = program_keys(stream);
                if keys.iter().any(|k| k == leaf) && (path.len() < 3 || name_of(stream) == path[1]) {
                    self.insert(stream, "program", &[leaf]);
                    changed = true;
                }
                of_programs.extend(keys);
            }
        }
        if changed {
            return Ok(());
        }
        let path = whole;
        let (&leaf, place) = path.split_last().expect("split gives at least one part");
        if leaf == "rate" && self.set_rate(profile, place)? {
            return Ok(());
        }
        if let ([leaf], false) = (path.as_slice(), path.iter().any(|word| is_key(word)))
            && let Some(table) = table_of(leaf, &[in_phase.as_slice(), &in_stream].concat())
        {
            return Override { key: format!("{table}.{leaf}"), ..self.clone() }.apply(profile);
        }
        let every = [in_profile, in_phase, in_stream, of_programs].concat();
        if path.len() > 1 && (leaf == "rate" || every.iter().any(|k| k == leaf)) {
            let place = place.join(".");
            return Err(Mistake::from(format!(
                "--set {}: `{leaf}` does not belong to a `{place}` of this profile; write KEY, PHASE.KEY or PHASE.STREAM.KEY",
                self.key
            )));
        }
        let every: Vec<&str> = every.iter().map(String::as_str).collect();
        let of_fio = key_of_fio(leaf);
        let hint = match (of_fio, near(leaf, &every)) {
            (Some(ours), _) => format!("; fio's `{leaf}` is `{ours}` here"),
            (None, Some(meant)) => format!("; did you mean `{meant}`?"),
            (None, None) => String::new(),
        };
        let edit = of_fio.or_else(|| near(leaf, &every)).map(|meant| Edit::instead(leaf, meant));
        Err(Mistake::new(format!("--set {}: this profile has no such key{hint}", self.key), edit))
    }
}

impl Override {
    /// Sets the rate of those streams of a place (all, or those of a PHASE or PHASE.STREAM) that have a pace with one,
    /// else that of the frames; whether there are such streams.
    fn set_rate(&self, profile: &mut Table, place: &[&str]) -> Result<bool, Mistake> {
        let named = |at: usize, table: &Table| place.get(at).is_none_or(|name| name_of(table) == *name);
        let phases = tables(profile, "phase").into_iter().filter(|phase| named(0, phase));
        let streams = phases.flat_map(|phase| tables(phase, "stream")).filter(|stream| named(1, stream));
        let mut streams: Vec<&mut Table> = streams.collect();
        if place.len() > 2 || (streams.is_empty() && !place.is_empty()) {
            return Ok(false);
        }
        let has_rate = |stream: &Table| stream.get("pace").and_then(|pace| pace.get("rate")).is_some();
        let table = if streams.iter().any(|stream| has_rate(stream)) { "pace" } else { "frames" };
        let mut changed = false;
        for stream in &mut streams {
            if (table == "pace" && has_rate(stream)) || (table == "frames" && stream.contains_key(table)) {
                self.insert(stream, table, &["rate"]);
                changed = true;
            }
        }
        if changed {
            return Ok(true);
        }
        let whose = if place.is_empty() { "this profile".into() } else { format!("`{}`", place.join(".")) };
        let pace = [place, &["pace"]].concat().join(".");
        let remedy = format!("--set '{pace}={{loop=\"open\",rate=5000,arrivals=\"poisson\"}}'");
        let said = format!("the requests of {whose} have no rate; to give them one, write {remedy}");
        Err(Mistake::from(format!("--set {}: {said}", self.key)))
    }

    /// Sets a key of a table, or a key within the table that it holds; what else that holds stays.
    fn insert(&self, table: &mut Table, key: &str, within: &[&str]) {
        match within {
            [] => {
                table.insert(key.to_string(), self.value.clone());
            }
            [inner, further @ ..] => {
                let held = table.entry(key).or_insert_with(|| Value::Table(Table::new()));
                if !held.is_table() {
                    *held = Value::Table(Table::new());
                }
                if let Value::Table(held) = held {
                    self.insert(held, inner, further);
                }
            }
        }
    }
}

impl Profile {
    /// Parses and applies several `key=value` texts while reading a profile.
    pub fn from_toml_with(text: &str, overrides: &[String]) -> Result<Profile, Mistake> {
        let parsed = overrides.iter().map(|o| Override::parse(o)).collect::<Result<Vec<_>, _>>();
        let parsed = parsed.map_err(Mistake::in_one_line)?;
        Profile::from_toml(text, &parsed)
    }
}

fn tables<'a>(table: &'a mut Table, key: &str) -> Vec<&'a mut Table> {
    match table.get_mut(key) {
        Some(Value::Array(items)) => items.iter_mut().filter_map(Value::as_table_mut).collect(),
        _ => Vec::new(),
    }
}

fn name_of(table: &Table) -> &str {
    table.get("name").and_then(Value::as_str).unwrap_or_default()
}
