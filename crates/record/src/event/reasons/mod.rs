//! Why things are as events report them. What each reason says to people stands here alone.

mod condition;
mod ending;
mod host;
mod note;
mod start;

use std::fmt::Display;

use serde::Deserialize;

pub use condition::{BackgroundWork, ConditionReason};
pub use ending::{EndReason, FailedStream, FleetEnd, StartLate};
pub use host::{HostNamed, HostReason};
pub use note::{HostsValue, StartFact, StartNote};
pub use start::{BufferedReason, EngineReason, SubmitReason};

/// A reason of any kind, and which kind it is of.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "of", content = "reason", rename_all = "snake_case")]
pub enum Reason {
    Engine(EngineReason),
    Buffered(BufferedReason),
    Submit(SubmitReason),
    Note(StartNote),
    Late(StartLate),
    Condition(ConditionReason),
    Host(HostReason),
    End(EndReason),
}

impl Reason {
    /// As people read it.
    pub fn words(&self) -> String {
        match self {
            Reason::Engine(reason) => reason.to_string(),
            Reason::Buffered(reason) => reason.to_string(),
            Reason::Submit(reason) => reason.to_string(),
            Reason::Note(note) => note.to_string(),
            Reason::Late(late) => late.to_string(),
            Reason::Condition(reason) => reason.to_string(),
            Reason::Host(reason) => reason.to_string(),
            Reason::End(reason) => reason.to_string(),
        }
    }
}

/// Several in one line.
fn joined<T: Display>(all: &[T], between: &str) -> String {
    all.iter().map(T::to_string).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        serde_json::from_str::<Reason>(text).unwrap_or_else(|e| panic!("{text}: {e}")).words()
    }

    #[test]
    fn reasons_are_read_as_they_stand_in_events() {
        for (text, said) in [
            (r#"{"of":"engine","reason":{"kind":"not_set_up","error":"EIO"}}"#, "io_uring could not be set up: EIO"),
            (
                r#"{"of":"submit","reason":{"kind":"scheduler","device":"sda","scheduler":"bfq"}}"#,
                "sda has the scheduler bfq",
            ),
            (
                r#"{"of":"note","reason":{"kind":"of_hosts","hosts":["a","b"],"note":{"kind":"cache_ignored"}}}"#,
                "a, b: cache = \"as_is\" has no effect on a modelled brick: its page cache is empty when a run begins",
            ),
            (
                r#"{"of":"end","reason":{"kind":"hosts_missing","ended":1,"hosts":2,"missing":[{"host":"b",
                "reason":{"kind":"worker_ended","exit_code":-9,"after":{"kind":"other","text":"killed"}}}]}}"#,
                "1 of 2 hosts to the end; b: its worker ended unexpectedly (exit code -9): killed",
            ),
        ] {
            assert_eq!(words(text), said);
        }
    }
}
