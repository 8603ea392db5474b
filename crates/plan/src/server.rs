//! The files and users of a database server: what SQLIOSim and Jetstress simulate. What they do is the business of
//! `crates/apps`; here stands what they may be asked for, and where the files of a database lie on a target.

use crate::profile::{Profile, Stream};
use crate::program::{Program, SizeRange};
use crate::units::{Bytes, Duration, Percent};
use crate::{Mistake, format_bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// SQL Server since version 7 and Exchange 2007.
pub const PAGE_BYTES: u64 = 8192;

/// The data file and the log of one database, and the cache of its server. The log follows the data file on the same
/// target, or has its own target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseFile {
    /// Size of the data file at the start.
    pub size: Bytes,
    /// Size to which the data file may grow; room for this size is reserved on the target.
    pub most: Bytes,
    pub log_size: Bytes,
    /// The data file grows and shrinks by multiples of this; 0 keeps its size.
    #[serde(default)]
    pub increment: Bytes,
    #[serde(default = "one")]
    pub increments_min: u32,
    #[serde(default = "twenty")]
    pub increments_max: u32,
    /// Time from one growth or shrinkage to the next.
    #[serde(default = "two_minutes")]
    pub every_min: Duration,
    #[serde(default = "ten_minutes")]
    pub every_max: Duration,
    /// New pages are written when the file grows.
    #[serde(default)]
    pub stamp: bool,
    /// Size of the server's cache, which keeps the most recently used pages.
    pub buffer_pool: Bytes,
    /// Share of the reads not served by the cache that are treated as served.
    #[serde(default)]
    pub cache_hits: Percent,
    /// Running average of the duration of requests above which the number of requests is throttled.
    #[serde(default = "hundred_ms")]
    pub target_io: Duration,
    /// The most requests in flight on each file.
    #[serde(default = "most_requests")]
    pub most_io: u32,
}

/// Reads a chain of pages, updates most of them, and waits until its log record is on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomUser {
    /// Probability of continuing in another part of the file.
    pub jump: Percent,
    /// Number of pages in a part of the file.
    pub chain_min: u32,
    pub chain_max: u32,
    /// Share of the pages that are updated.
    pub update: Percent,
    /// Size of the log record of each updated page.
    pub log_record: SizeRange,
    /// Probability that nothing is written to the log.
    pub rollback: Percent,
    /// Pause after each chain.
    pub sleep: Duration,
}

/// Writes consecutive pages without reading them first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkUpdate {
    pub pages_min: u32,
    pub pages_max: u32,
    /// Number of cycles before the delay.
    pub delay_after: u32,
    pub delay: Duration,
}

/// A scan that reads many pages with one request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadAhead {
    pub pages_min: u32,
    pub pages_max: u32,
    pub delay_after: u32,
    pub delay: Duration,
    /// Pages that are in the cache are read as well.
    #[serde(default)]
    pub force: bool,
}

/// Reads a file in order and checks its pages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// Number per cycle.
    #[serde(default = "sixty_four")]
    pub pages: u32,
    #[serde(default = "one")]
    pub delay_after: u32,
    #[serde(default)]
    pub delay: Duration,
    /// Ends when the file has been read once.
    #[serde(default)]
    pub whole: bool,
    /// Reads the log instead of the data file.
    #[serde(default)]
    pub log: bool,
    /// The target of the database whose log this is; the stream's own unless set.
    #[serde(default)]
    pub database: Option<usize>,
}

/// Writes all pages that were changed, in their order in the file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    #[serde(default = "one_minute")]
    pub every: Duration,
    /// Begins at once, is not throttled, and ends when no changed page is left.
    #[serde(default)]
    pub whole: bool,
}

/// Writes the pages that were changed earliest, as long as too much of the cache is changed pages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LazyWriter {
    pub dirty: Percent,
}

/// Writes what users have put into the log, one write after the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogWriter {
    /// If no commit waits, less log than this is not written until more has accumulated.
    #[serde(default)]
    pub gather: Bytes,
    /// The target of the database whose log this is; the stream's own unless set.
    #[serde(default)]
    pub database: Option<usize>,
}

/// Works on records of a B-tree: inserts, deletes, replaces and seeks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MailboxUser {
    pub mailboxes: u64,
    pub mailbox_size: Bytes,
    /// Requests/s per mailbox; 0 is as fast as possible.
    #[serde(default)]
    pub mailbox_iops: f64,
    /// Shares of the operations; the rest up to 100 are seeks.
    pub insert: Percent,
    pub delete: Percent,
    pub replace: Percent,
    /// Share of the commits that do not wait for the log.
    pub lazy_commits: Percent,
    pub record: Bytes,
}

impl Program {
    /// Whether it is a part of a database server, whose target is a file, a device or a model.
    pub fn is_server(&self) -> bool {
        use Program::*;
        matches!(
            self,
            DatabaseFile(_)
                | RandomUser(_)
                | BulkUpdate(_)
                | ReadAhead(_)
                | Audit(_)
                | Checkpoint(_)
                | LazyWriter(_)
                | LogWriter(_)
                | MailboxUser(_)
        )
    }

    /// Whether it works on the log of a database rather than its data file.
    pub fn on_log(&self) -> bool {
        matches!(self, Program::LogWriter(_)) || matches!(self, Program::Audit(audit) if audit.log)
    }

    /// Whether it changes what the target holds.
    pub fn changes(&self) -> bool {
        !matches!(self, Program::ReadAhead(_) | Program::Audit(_))
    }

    pub(crate) fn validate_server(&self) -> Result<(), String> {
        let pages = |from: u32, to: u32, what: &str| match from >= 1 && to >= from && u64::from(to) <= MOST_PAGES {
            true => Ok(()),
            false => Err(format!("{what} of {from} to {to} pages; 1 to {MOST_PAGES}, the smaller first")),
        };
        match self {
            Program::DatabaseFile(file) => file.validate(),
            Program::RandomUser(user) => {
                let record = user.log_record;
                if record.from_bytes == 0 || record.to_bytes > MOST_LOG_RECORD_BYTES {
                    return Err(format!("log_record is {record}, must be 1 to {MOST_LOG_RECORD_BYTES} bytes"));
                }
                pages(user.chain_min, user.chain_max, "chains")
            }
            Program::BulkUpdate(user) => pages(user.pages_min, user.pages_max, "updates"),
            Program::ReadAhead(user) => pages(user.pages_min, user.pages_max, "reads"),
            Program::Audit(user) => pages(user.pages, user.pages, "audits"),
            Program::MailboxUser(user) => user.validate(),
            _ => Ok(()),
        }
    }
}

/// SQL Server's largest read-ahead.
const MOST_PAGES: u64 = 1024;
/// SQLIOSim's own limit.
const MOST_LOG_RECORD_BYTES: u64 = 64_000;
/// Page numbers are kept in 32 bits.
const MOST_FILE_BYTES: u64 = (u32::MAX as u64) * PAGE_BYTES;

impl DatabaseFile {
    fn validate(&self) -> Result<(), String> {
        let sizes = [
            ("size", self.size.0),
            ("most", self.most.0),
            ("log_size", self.log_size.0),
            ("buffer_pool", self.buffer_pool.0),
        ];
        if let Some((key, bytes)) = sizes.iter().find(|(_, bytes)| *bytes < 128 * PAGE_BYTES) {
            return Err(format!("{key} is {}, at least 1MiB", format_bytes(*bytes)));
        }
        if self.most.0 < self.size.0 || self.most.0 > MOST_FILE_BYTES {
            let (most, size) = (format_bytes(self.most.0), format_bytes(self.size.0));
            return Err(format!("most is {most}, must be {size} (size) or more, and 32TiB at the most"));
        }
        if self.increments_min == 0
            || self.increments_max < self.increments_min
            || self.every_max.ns < self.every_min.ns
        {
            return Err("increments_min is at least 1, and no _min is larger than its _max".into());
        }
        if self.target_io.ns == 0 || self.most_io == 0 {
            return Err("target_io and most_io must be larger than 0".into());
        }
        Ok(())
    }

    /// The data file, in whole pages.
    pub fn most_bytes(&self) -> u64 {
        self.most.0 / PAGE_BYTES * PAGE_BYTES
    }

    pub fn log_bytes(&self) -> u64 {
        self.log_size.0 / PAGE_BYTES * PAGE_BYTES
    }
}

impl MailboxUser {
    fn validate(&self) -> Result<(), String> {
        let sum = self.insert.0 + self.delete.0 + self.replace.0;
        if sum > 100.0 + 1e-6 {
            return Err(format!("insert, delete and replace sum to {sum} %, at most 100"));
        }
        if self.record.0 == 0 || self.record.0 > PAGE_BYTES / 2 {
            return Err(format!("record is {}, must be 1 byte to half a page", format_bytes(self.record.0)));
        }
        if self.mailbox_size.0 == 0 {
            return Err("mailbox_size is 0; write for example 250MB".into());
        }
        if !(self.mailbox_iops >= 0.0 && self.mailbox_iops <= 1e6) || self.mailboxes == 0 {
            return Err("mailboxes is at least 1, and mailbox_iops between 0 and 1,000,000".into());
        }
        Ok(())
    }
}

/// Where the file of a server's stream lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServerPlace {
    /// The target of the data file, which is the database's number.
    pub database: usize,
    pub file: DatabaseFile,
    /// From the beginning of the stream's target.
    pub from_bytes: u64,
    pub length_bytes: u64,
    /// Of all files of the server on that target.
    pub whole_bytes: u64,
}

impl Profile {
    /// Where a stream works that is a part of a database server; none for all others.
    pub fn server_place(&self, stream: &Stream) -> Option<ServerPlace> {
        let program = stream.program.filter(Program::is_server)?;
        let database = match program {
            Program::LogWriter(log) => log.database.unwrap_or(stream.target),
            Program::Audit(audit) if audit.log => audit.database.unwrap_or(stream.target),
            _ => stream.target,
        };
        let mut streams = self.phase.iter().flat_map(|phase| &phase.stream);
        let file = streams.find_map(|s| match s.program {
            Some(Program::DatabaseFile(file)) if s.target == database => Some(file),
            _ => None,
        })?;
        let (from_bytes, length_bytes) = match program.on_log() {
            true if stream.target == database => (file.most_bytes(), file.log_bytes()),
            true => (0, file.log_bytes()),
            false => (0, file.most_bytes()),
        };
        let on_it = |s: &&Stream| s.target == database && s.program.is_some_and(|p| p.on_log());
        let log_is_here = self.phase.iter().flat_map(|phase| &phase.stream).any(|s| on_it(&s));
        let whole_bytes = match (stream.target == database, log_is_here) {
            (true, true) => file.most_bytes() + file.log_bytes(),
            (true, false) => file.most_bytes(),
            _ => file.log_bytes(),
        };
        Some(ServerPlace { database, file, from_bytes, length_bytes, whole_bytes })
    }

    /// Every part of a server has its data file, and all of them check their pages or none.
    pub(crate) fn validate_server(&self) -> Result<(), Mistake> {
        let streams = || self.phase.iter().flat_map(|p| &p.stream);
        for stream in streams() {
            let Some(program) = stream.program.filter(Program::is_server) else { continue };
            let name = &stream.name;
            if self.server_place(stream).is_none() {
                let kind = program.name();
                return Err(Mistake::from(format!(
                    "stream {name}: {kind} has no database; put a stream with the program database_file on its target"
                )));
            }
            if streams().any(|s| s.target == stream.target && s.verify != stream.verify) {
                return Err(Mistake::from(format!(
                    "stream {name}: verify differs between streams of one database; set it for all of them"
                )));
            }
        }
        Ok(())
    }
}

fn one() -> u32 {
    1
}
fn twenty() -> u32 {
    20
}
fn sixty_four() -> u32 {
    64
}
fn two_minutes() -> Duration {
    Duration { ns: 120_000_000_000 }
}
fn ten_minutes() -> Duration {
    Duration { ns: 600_000_000_000 }
}
fn one_minute() -> Duration {
    Duration { ns: 60_000_000_000 }
}
fn hundred_ms() -> Duration {
    Duration { ns: 100_000_000 }
}
/// SQLIOSim's own limit, for the whole process.
fn most_requests() -> u32 {
    140_000
}
