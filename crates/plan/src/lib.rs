//! Duty: what to do. A profile is an ordered list of phases, each with one or more streams that run together;
//! this crate holds its types, reads it from TOML, applies overrides and says in one line what is wrong with it.
//!
//! Refusal: it knows no device, no clock and no thread. Whether a target can carry the plan is for the engine to say.

mod frames;
mod limit;
mod overrides;
mod profile;
mod program;
mod spread;
mod units;
mod validate;

pub use frames::{Buffer, FRAME_ALIGN_BYTES, Frames, VIDEO_FORMATS, VideoFormat};
pub use limit::{Limit, LimitFigure, Threshold, TimeKind};
pub use overrides::Override;
pub use profile::*;
pub use program::{DirectoryChoice, Program, SizeRange, Unit};
pub use units::{Bytes, Duration, Passes, Percent, Position, Span, format_bytes, parse_bytes, parse_duration_ns};
pub use validate::{MAX_DEPTH, MAX_REQUEST_BYTES, MAX_WORKERS};

/// What is wrong with a profile: one line that names the key and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError(pub String);

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

impl PlanError {
    /// What is quoted of the user's text may hold line breaks.
    fn in_one_line(self) -> PlanError {
        PlanError(one_line(&self.0))
    }
}

impl Profile {
    /// Reads a profile from TOML text, applies overrides (`key=value` pairs, see [`Override`]) and validates it.
    pub fn from_toml(text: &str, overrides: &[Override]) -> Result<Profile, PlanError> {
        Profile::read_toml(text, overrides).map_err(PlanError::in_one_line)
    }

    fn read_toml(text: &str, overrides: &[Override]) -> Result<Profile, PlanError> {
        let mut table: toml::Table = toml::from_str(text).map_err(|e| PlanError(toml_error(text, &e)))?;
        for item in overrides {
            item.apply(&mut table)?;
        }
        // A second reading from text keeps the line numbers in messages; after an override there is no such text.
        let profile: Profile = if overrides.is_empty() {
            toml::from_str(text).map_err(|e| PlanError(toml_error(text, &e)))?
        } else {
            Profile::deserialize_value(table)?
        };
        profile.validate()?;
        Ok(profile)
    }

    /// Reads a profile from the JSON that [`Profile::to_json`] wrote, and validates it again.
    pub fn from_json(text: &str) -> Result<Profile, PlanError> {
        let read = serde_json::from_str(text).map_err(|e| PlanError(format!("plan: {e}")));
        let checked = read.and_then(|profile: Profile| profile.validate().map(|()| profile));
        checked.map_err(PlanError::in_one_line)
    }

    /// Canonical JSON: keys in declaration order, bytes and nanoseconds as integers. Its hash identifies the profile.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a profile holds nothing that JSON cannot carry")
    }

    fn deserialize_value(table: toml::Table) -> Result<Profile, PlanError> {
        // By way of text, so that a message can name the key; its line means nothing to the user.
        let text = toml::to_string(&table).map_err(|e| PlanError(one_line(&e.to_string())))?;
        toml::from_str(&text).map_err(|e| PlanError(explain(&text, &e)))
    }
}

/// The JSON Schema of a profile file.
pub fn json_schema() -> String {
    serde_json::to_string_pretty(&schemars::schema_for!(Profile)).expect("a schema is plain JSON")
}

fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The message in the user's words, with the key that it speaks of.
fn explain(text: &str, error: &toml::de::Error) -> String {
    let mut message = one_line(error.message());
    for (type_name, words) in
        [("u32", "a whole number"), ("u64", "a whole number"), ("usize", "a whole number"), ("f64", "a number")]
    {
        if let Some(start) = message.strip_suffix(&format!("expected {type_name}")) {
            message = format!("{start}expected {words}");
        }
    }
    let Some(span) = error.span() else { return message };
    if message == "duplicate key" {
        let key = text.get(span).unwrap_or_default();
        return format!("duplicate key `{key}`; leave one of them out");
    }
    let before = text.get(..span.start).and_then(|t| t.lines().last()).unwrap_or_default();
    let key = before.trim_end().strip_suffix('=').map(str::trim_end).unwrap_or_default();
    let key = key.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default();
    if key.is_empty() || message.contains(&format!("`{key}`")) { message } else { format!("{key}: {message}") }
}

fn toml_error(text: &str, error: &toml::de::Error) -> String {
    let message = explain(text, error);
    match error.span() {
        Some(span) => {
            let line = text.as_bytes()[..span.start.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1;
            format!("line {line}: {message}")
        }
        None => message,
    }
}
