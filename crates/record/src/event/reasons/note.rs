//! What was found and done before a run began.

use std::fmt::{Display, Formatter, Result};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::joined;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StartNote {
    /// `engine` of the profile, on a device that has no choice of them.
    #[schemars(title = "EngineIgnored")]
    EngineIgnored { engine: String, device: String },
    /// `fill = "never"` or `fill = "space"`.
    #[schemars(title = "FillIgnored")]
    FillIgnored { device: String },
    /// `data` of a stream.
    #[schemars(title = "DataIgnored")]
    DataIgnored { device: String },
    #[schemars(title = "HangAfterIgnored")]
    HangAfterIgnored { device: String },
    /// `cache = "as_is"`, of a model.
    #[schemars(title = "CacheIgnored")]
    CacheIgnored,
    /// The directory of a run that was killed was removed.
    #[schemars(title = "LeftoverRemoved")]
    LeftoverRemoved { path: String, files: u64 },
    /// It was not, as it holds files of somebody else.
    #[schemars(title = "LeftoverKept")]
    LeftoverKept { path: String },
    /// What these hosts of a fleet have noted.
    #[schemars(title = "NoteOfHosts")]
    OfHosts { hosts: Vec<String>, note: Box<StartNote> },
    #[schemars(title = "HostsDiffer")]
    HostsDiffer { fact: StartFact, values: Vec<HostsValue> },
    /// As it was written before version 3.
    #[schemars(title = "NoteAsWritten")]
    Written { text: String },
}

/// A field of a start that should be the same on all hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartFact {
    Engine,
    Io,
}

/// What such a field says on some of the hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostsValue {
    pub value: String,
    pub hosts: Vec<String>,
}

impl Display for HostsValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} on {}", self.value, self.hosts.join(", "))
    }
}

impl Display for StartNote {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            StartNote::EngineIgnored { engine, device } => write!(f, "engine = \"{engine}\" has no effect on {device}"),
            StartNote::FillIgnored { device } => write!(f, "fill has no effect on {device}"),
            StartNote::DataIgnored { device } => write!(f, "data has no effect on {device}, which carries none"),
            StartNote::HangAfterIgnored { device } => {
                write!(f, "hang_after has no effect on {device}, where nobody waits")
            }
            StartNote::CacheIgnored => f.write_str(
                "cache = \"as_is\" has no effect on a modelled brick: its page cache is empty when a run begins",
            ),
            StartNote::LeftoverRemoved { path, files } => {
                write!(f, "removed {path} ({files} files), the directory of a run that was killed")
            }
            StartNote::LeftoverKept { path } => {
                write!(f, "{path} of a run that was killed holds files that are not Brickyard's, so they were left")
            }
            StartNote::OfHosts { hosts, note } => write!(f, "{}: {note}", hosts.join(", ")),
            StartNote::HostsDiffer { fact, values } => {
                let field = match fact {
                    StartFact::Engine => "engine",
                    StartFact::Io => "io",
                };
                write!(f, "{field} is not the same on all hosts: {}", joined(values, "; "))
            }
            StartNote::Written { text } => f.write_str(text),
        }
    }
}
