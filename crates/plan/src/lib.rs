//! Duty: what to do. A profile is an ordered list of phases, each with one or more streams that run together;
//! this crate holds its types, reads it from TOML, applies overrides and says in one line what is wrong with it.
//!
//! Refusal: it knows no device, no clock and no thread. Whether a target can carry the plan is for the engine to say.

mod frames;
mod limit;
mod mistake;
mod overrides;
mod profile;
mod program;
mod reading;
mod server;
mod spread;
mod trace;
mod units;
mod validate;

pub use frames::{Buffer, FRAME_ALIGN_BYTES, Frames, VIDEO_FORMATS, VideoFormat};
pub use limit::{Limit, LimitFigure, Threshold, TimeKind, limit_ns};
pub use mistake::{Edit, Mistake, near_sizes, sector_advice};
pub use overrides::Override;
pub use profile::*;
pub use program::{DirectoryChoice, Program, SizeRange, Unit};
pub use reading::{Fault, NO_SUCH_KEY, line_of, near, reader_words};
pub use server::*;
pub use trace::{Trace, TraceFit, TraceTiming};
pub use units::{
    Bytes, Duration, Passes, Percent, Position, Span, format_bytes, format_seconds, parse_bytes, parse_bytes_per_s,
    parse_duration_ns,
};
pub use validate::{MAX_DEPTH, MAX_REQUEST_BYTES, MAX_WORKERS};

use reading::one_line;

impl Profile {
    /// Reads a profile from TOML text, applies overrides (`key=value` pairs, see [`Override`]) and validates it.
    pub fn from_toml(text: &str, overrides: &[Override]) -> Result<Profile, Mistake> {
        Profile::read_toml(text, overrides).map_err(Mistake::in_one_line)
    }

    fn read_toml(text: &str, overrides: &[Override]) -> Result<Profile, Mistake> {
        let mut table: toml::Table = toml::from_str(text).map_err(|e| Mistake::from(reader_words(text, &e)))?;
        for item in overrides {
            item.apply(&mut table)?;
        }
        // A second reading from text keeps the line numbers in messages; after an override there is no such text.
        let profile: Profile = if overrides.is_empty() {
            toml::from_str(text).map_err(|e| Mistake::from(reader_words(text, &e)))?
        } else {
            Profile::overridden(text, table, overrides)?
        };
        profile.validate()?;
        Ok(profile)
    }

    /// Reads a profile from the JSON that [`Profile::to_json`] wrote, and validates it again.
    pub fn from_json(text: &str) -> Result<Profile, Mistake> {
        let read = serde_json::from_str(text).map_err(|e| Mistake::from(format!("plan: {e}")));
        let checked = read.and_then(|profile: Profile| profile.validate().map(|()| profile));
        checked.map_err(Mistake::in_one_line)
    }

    /// Canonical JSON: keys in declaration order, bytes and nanoseconds as integers. Its hash identifies the profile.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a profile holds nothing that JSON cannot carry")
    }

    /// `written` is what the user wrote, `table` what has become of it.
    fn overridden(written: &str, table: toml::Table, overrides: &[Override]) -> Result<Profile, Mistake> {
        // By way of text, so that a message can name the key; its line means nothing to the user.
        let text = toml::to_string(&table).map_err(|e| Mistake::from(one_line(&e.to_string())))?;
        toml::from_str(&text).map_err(|e| {
            let fault = Fault::of(&text, &e);
            // The last that names the key is the one whose value stands there.
            if let Some(blamed) = overrides.iter().rev().find(|o| o.sets(&fault.key)) {
                return Mistake::new(format!("--set {blamed}: {}", fault.words), fault.edit);
            }
            let own = toml::from_str::<Profile>(written).err();
            Mistake::from(own.map_or_else(|| fault.to_string(), |e| reader_words(written, &e)))
        })
    }
}

/// A plan in JSON of any spelling, as [`Profile::to_json`] writes it.
pub fn canonical(text: &str) -> Result<String, Mistake> {
    Profile::from_json(text).map(|profile| profile.to_json())
}

/// The JSON Schema of a profile file.
pub fn json_schema() -> String {
    serde_json::to_string_pretty(&schemars::schema_for!(Profile)).expect("a schema is plain JSON")
}
