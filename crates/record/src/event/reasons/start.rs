//! Why a run's requests reach its targets as they do.

use std::fmt::{Display, Formatter, Result};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why the engine of a run is the one that it is, or what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EngineReason {
    /// The profile asks for it.
    #[schemars(title = "EngineRequested")]
    Requested,
    /// io_uring is taken where the kernel grants it.
    #[schemars(title = "EngineOffered")]
    Offered,
    /// No io_uring: too little memory may be locked.
    #[schemars(title = "EngineOutOfMemory")]
    OutOfMemory,
    /// No io_uring: the kernel was built without.
    #[schemars(title = "EngineMissing")]
    Missing,
    /// No io_uring: its use is forbidden.
    #[schemars(title = "EngineForbidden")]
    Forbidden,
    /// No io_uring, for another reason.
    #[schemars(title = "EngineNotSetUp")]
    NotSetUp { error: String },
    /// No io_uring, since block devices are trimmed.
    #[schemars(title = "EngineHasNoTrim")]
    NoTrim,
    /// No io_uring, since it would hand writes into the page cache to a thread of the kernel, one at a time.
    #[schemars(title = "EngineHandsOver")]
    HandedOver,
    /// No io_uring, since it would hand requests to a file system in memory to a thread of the kernel, one at a time.
    #[schemars(title = "EngineInMemory")]
    InMemory,
    #[schemars(title = "EngineModelled")]
    Modelled,
    /// Programs over files.
    #[schemars(title = "EngineOfFiles")]
    Files,
    /// The loader of a database.
    #[schemars(title = "EngineOfLoader")]
    Loader { clients: u64 },
    /// `version` is as pgbench reports it, `server` says where the server's programs are from.
    #[schemars(title = "EngineOfPgbench")]
    Pgbench { version: String, server: String },
    /// A replay. No hosts are named where its drivers run here.
    #[schemars(title = "EngineOfReplay")]
    Replay { drivers: u64, sessions: u64, hosts: Vec<String>, databases: u64 },
    /// The version of the program whose results were imported.
    #[schemars(title = "EngineOfImport")]
    Import { version: String },
    /// As it was written before version 2.
    #[schemars(title = "EngineAsWritten")]
    Written { text: String },
}

/// Why requests go through the page cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BufferedReason {
    /// The profile asks for it.
    #[schemars(title = "BufferedRequested")]
    Requested,
    /// The profile asks for it, of a model.
    #[schemars(title = "BufferedModelled")]
    Modelled,
    #[schemars(title = "BufferedPrograms")]
    Programs,
    #[schemars(title = "BufferedInMemory")]
    InMemory,
    /// By statx.
    #[schemars(title = "BufferedUnsupported")]
    Unsupported,
    /// By fcntl.
    #[schemars(title = "BufferedRefused")]
    Refused,
    /// As it was written before version 2.
    #[schemars(title = "BufferedAsWritten")]
    Written { text: String },
}

/// Why a ring submits as many requests in one call as it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SubmitReason {
    /// The profile asks for it.
    #[schemars(title = "SubmitRequested")]
    Requested,
    #[schemars(title = "SubmitNoOperations")]
    NoOperations,
    #[schemars(title = "SubmitNoTarget")]
    NoTarget,
    #[schemars(title = "SubmitToPageCache")]
    PageCache,
    #[schemars(title = "SubmitInMemory")]
    InMemory,
    #[schemars(title = "SubmitQueueUnknown")]
    QueueUnknown,
    #[schemars(title = "SubmitNoQueue")]
    NoQueue { device: String },
    #[schemars(title = "SubmitNoScheduler")]
    NoScheduler { device: String },
    #[schemars(title = "SubmitScheduler")]
    Scheduler { device: String, scheduler: String },
    /// As it was written before version 2.
    #[schemars(title = "SubmitAsWritten")]
    Written { text: String },
}

const REQUESTED: &str = "asked for";

impl Display for EngineReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let words = match self {
            EngineReason::Requested => REQUESTED,
            EngineReason::Offered => "the kernel offers it",
            EngineReason::OutOfMemory => "io_uring gets too little memory here (ulimit -l limits what may be locked)",
            EngineReason::Missing => "this kernel has no io_uring",
            EngineReason::Forbidden => "io_uring is forbidden here (kernel.io_uring_disabled, a container or seccomp)",
            EngineReason::NotSetUp { error } => return write!(f, "io_uring could not be set up: {error}"),
            EngineReason::NoTrim => "Brickyard trims block devices by system calls",
            EngineReason::HandedOver => {
                "io_uring would hand each write into the page cache to a thread of the kernel, which takes longer than \
                 the write"
            }
            EngineReason::InMemory => {
                "io_uring would hand each request to a thread of the kernel, since the target lies in memory; that takes \
                 longer than the request"
            }
            EngineReason::Modelled => "the target is modelled",
            EngineReason::Files => "blocking calls, a thread a worker",
            EngineReason::Loader { clients } => return write!(f, "{clients} clients, one tile a transaction"),
            EngineReason::Pgbench { version, server } => return write!(f, "{version}, server: {server}"),
            EngineReason::Replay { drivers, sessions, hosts, databases } => {
                match drivers {
                    0 | 1 => write!(f, "one driver of {sessions} sessions")?,
                    _ => write!(f, "{drivers} drivers of {sessions} sessions each")?,
                }
                if !hosts.is_empty() {
                    write!(f, " on {}", hosts.join(", "))?;
                }
                if *databases > 1 {
                    write!(f, ", shared by {databases} databases")?;
                }
                ", no pipelining"
            }
            EngineReason::Import { version } => version,
            EngineReason::Written { text } => text,
        };
        f.write_str(words)
    }
}

impl Display for BufferedReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let words = match self {
            BufferedReason::Requested => REQUESTED,
            BufferedReason::Modelled => "the profile asks for it; the page cache is modelled",
            BufferedReason::Programs => "programs work on files through the page cache",
            BufferedReason::InMemory => "the file system keeps files in memory, so there is nothing to go to directly",
            BufferedReason::Unsupported => "the file system does not support direct I/O on this file",
            BufferedReason::Refused => "the file system refuses O_DIRECT",
            BufferedReason::Written { text } => text,
        };
        f.write_str(words)
    }
}

impl Display for SubmitReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let words = match self {
            SubmitReason::Requested => REQUESTED,
            SubmitReason::NoOperations => "no-operations reach no queue",
            SubmitReason::NoTarget => "no target",
            SubmitReason::PageCache => "the page cache answers",
            SubmitReason::InMemory => "files in memory have no queue",
            SubmitReason::QueueUnknown => "its queue is not known",
            SubmitReason::NoQueue { device } => return write!(f, "{device} has no queue of its own"),
            SubmitReason::NoScheduler { device } => return write!(f, "{device} has no scheduler"),
            SubmitReason::Scheduler { device, scheduler } => {
                return write!(f, "{device} has the scheduler {scheduler}");
            }
            SubmitReason::Written { text } => text,
        };
        f.write_str(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(drivers: u64, hosts: &[&str], databases: u64) -> String {
        let hosts = hosts.iter().map(|h| (*h).to_string()).collect();
        EngineReason::Replay { drivers, sessions: 8, hosts, databases }.to_string()
    }

    #[test]
    fn a_replay_names_what_there_is_more_than_one_of() {
        assert_eq!(replay(1, &[], 1), "one driver of 8 sessions, no pipelining");
        assert_eq!(
            replay(2, &["a", "b"], 3),
            "2 drivers of 8 sessions each on a, b, shared by 3 databases, no pipelining"
        );
    }
}
