//! Loads that are programs over the files of a directory rather than patterns over one target. What they do is the
//! business of `crates/apps`; here stands what they may be asked for.

use crate::profile::Stream;
use crate::units::{Bytes, Percent};
use crate::validate::MAX_REQUEST_BYTES;
use crate::{Mistake, format_bytes, parse_bytes, server};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

/// One program of a stream. The target of a program over files is a directory: every worker runs the program once, on
/// its own files if the program makes files. A stream of the same name in a later phase continues with these files. The
/// target of a program of a database server (from `database_file` on) is a file, a device or a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Program {
    /// Makes files: create, write in requests, close.
    #[schemars(title = "CreateFiles")]
    CreateFiles {
        /// Number per worker.
        files: u64,
        #[serde(default)]
        size: SizeRange,
        /// Directories per worker, over which its files are spread at random; below 2, each worker has one.
        #[serde(default)]
        subdirectories: u32,
        #[serde(default)]
        directory: DirectoryChoice,
        /// Each file is flushed before it is closed.
        #[serde(default)]
        fsync: bool,
    },
    /// PostMark's transactions: read a file or append to one, then create a file or delete one.
    #[schemars(title = "Transactions")]
    Transactions {
        /// Number per worker; without it, transactions continue until the phase ends.
        #[serde(default)]
        transactions: Option<u64>,
        /// Sizes of files that are created; a file that has reached the upper size is not appended to.
        size: SizeRange,
        /// Reads among ten reads and appends; -1 does neither.
        #[serde(default = "five")]
        bias_read: i8,
        /// Creations among ten creations and deletions; -1 does neither.
        #[serde(default = "five")]
        bias_create: i8,
        #[serde(default)]
        fsync: bool,
    },
    /// Reads the attributes of every file (stat).
    #[schemars(title = "StatFiles")]
    StatFiles {},
    /// Deletes every file.
    #[schemars(title = "DeleteFiles")]
    DeleteFiles {},
    #[schemars(title = "MakeDirectories")]
    MakeDirectories {
        /// Number per worker.
        directories: u64,
        #[serde(default)]
        directory: DirectoryChoice,
    },
    #[schemars(title = "StatDirectories")]
    StatDirectories {},
    #[schemars(title = "RemoveDirectories")]
    RemoveDirectories {},
    /// Writes one file from its start to its end; an existing file is deleted first.
    #[schemars(title = "WriteFile")]
    WriteFile {
        size: Bytes,
        #[serde(default)]
        by: Unit,
        #[serde(default)]
        fsync: bool,
    },
    /// Reads each request of the file, changes it, and writes it back.
    #[schemars(title = "RewriteFile")]
    RewriteFile {},
    /// Reads the file from its start to its end.
    #[schemars(title = "ReadFile")]
    ReadFile {
        #[serde(default)]
        by: Unit,
    },
    /// Reads at random offsets of the file; a share of what was read is changed and written back.
    #[schemars(title = "SeekFile")]
    SeekFile {
        /// Number per worker.
        seeks: u64,
        #[serde(default = "ten_percent")]
        update: Percent,
    },
    #[schemars(title = "DatabaseFile")]
    DatabaseFile(server::DatabaseFile),
    #[schemars(title = "RandomUser")]
    RandomUser(server::RandomUser),
    #[schemars(title = "BulkUpdate")]
    BulkUpdate(server::BulkUpdate),
    #[schemars(title = "ReadAhead")]
    ReadAhead(server::ReadAhead),
    #[schemars(title = "Audit")]
    Audit(server::Audit),
    #[schemars(title = "Checkpoint")]
    Checkpoint(server::Checkpoint),
    #[schemars(title = "LazyWriter")]
    LazyWriter(server::LazyWriter),
    #[schemars(title = "LogWriter")]
    LogWriter(server::LogWriter),
    #[schemars(title = "MailboxUser")]
    MailboxUser(server::MailboxUser),
}

/// Where workers keep their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DirectoryChoice {
    /// Each worker in its own directory.
    #[default]
    Unique,
    /// All workers in one directory.
    Shared,
}

/// How bytes pass between program and file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// One call per byte, through a buffer of a request's size.
    Character,
    /// One call per request.
    #[default]
    Block,
}

/// Sizes of files: `8KiB`, or `500..10000`, the upper end excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SizeRange {
    pub from_bytes: u64,
    pub to_bytes: u64,
}

impl SizeRange {
    fn parse(text: &str) -> Result<SizeRange, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let (from_bytes, to_bytes) = (parse_bytes(from)?, parse_bytes(to)?);
        if to_bytes < from_bytes {
            return Err(format!("sizes `{text}` end before they begin; write the smaller first"));
        }
        Ok(SizeRange { from_bytes, to_bytes })
    }
}

impl std::fmt::Display for SizeRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.from_bytes == self.to_bytes {
            true => f.write_str(&format_bytes(self.from_bytes)),
            false => write!(f, "{}..{}", format_bytes(self.from_bytes), format_bytes(self.to_bytes)),
        }
    }
}

impl Serialize for SizeRange {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SizeRange {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = SizeRange;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a size such as \"8KiB\", or sizes such as \"500..10000\"")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<SizeRange, E> {
                SizeRange::parse(v).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<SizeRange, E> {
                self.visit_str(&v.to_string())
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<SizeRange, E> {
                self.visit_str(&v.to_string())
            }
        }
        d.deserialize_any(Visitor)
    }
}

impl JsonSchema for SizeRange {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SizeRange".into()
    }
    fn json_schema(made: &mut schemars::SchemaGenerator) -> schemars::Schema {
        if made.contract().is_serialize() {
            return schemars::json_schema!({"type": "string"});
        }
        schemars::json_schema!({
            "type": ["string", "integer"],
            "description": "8KiB, or 500..10000 with the upper end excluded"
        })
    }
}

/// Files of a worker at the most: their names and sizes are kept in memory, 16 bytes each.
const MAX_FILES: u64 = 100_000_000;

impl Program {
    pub fn name(&self) -> &'static str {
        match self {
            Program::CreateFiles { .. } => "create_files",
            Program::Transactions { .. } => "transactions",
            Program::StatFiles {} => "stat_files",
            Program::DeleteFiles {} => "delete_files",
            Program::MakeDirectories { .. } => "make_directories",
            Program::StatDirectories {} => "stat_directories",
            Program::RemoveDirectories {} => "remove_directories",
            Program::WriteFile { .. } => "write_file",
            Program::RewriteFile {} => "rewrite_file",
            Program::ReadFile { .. } => "read_file",
            Program::SeekFile { .. } => "seek_file",
            Program::DatabaseFile(_) => "database_file",
            Program::RandomUser(_) => "random_user",
            Program::BulkUpdate(_) => "bulk_update",
            Program::ReadAhead(_) => "read_ahead",
            Program::Audit(_) => "audit",
            Program::Checkpoint(_) => "checkpoint",
            Program::LazyWriter(_) => "lazy_writer",
            Program::LogWriter(_) => "log_writer",
            Program::MailboxUser(_) => "mailbox_user",
        }
    }

    /// Whether it comes to an end by itself.
    pub fn ends(&self) -> bool {
        match self {
            Program::Transactions { transactions, .. } => transactions.is_some(),
            Program::Audit(audit) => audit.whole,
            Program::Checkpoint(checkpoint) => checkpoint.whole,
            _ => !self.is_server(),
        }
    }

    /// The program that must have come before it, so that there is something to work on.
    pub fn needs(&self) -> Option<&'static str> {
        match self {
            Program::CreateFiles { .. } | Program::MakeDirectories { .. } | Program::WriteFile { .. } => None,
            Program::Transactions { .. } | Program::StatFiles {} | Program::DeleteFiles {} => Some("create_files"),
            Program::StatDirectories {} | Program::RemoveDirectories {} => Some("make_directories"),
            Program::RewriteFile {} | Program::ReadFile { .. } | Program::SeekFile { .. } => Some("write_file"),
            _ => None,
        }
    }

    /// Whether it has to have as many workers as the program before it: each goes on with files of its own.
    pub fn keeps_workers(&self) -> bool {
        self.needs().is_some_and(|maker| maker != "write_file")
    }

    /// Whether its calls move data, so that they need a size.
    pub fn moves_data(&self) -> bool {
        match self {
            Program::CreateFiles { size, .. } => size.to_bytes > 0,
            Program::Transactions { .. } => true,
            _ => self.needs() == Some("write_file") || matches!(self, Program::WriteFile { .. }),
        }
    }

    pub(crate) fn validate(&self, stream: &Stream, at: &str) -> Result<(), Mistake> {
        let kind = self.name();
        let refuse = |message: String| Err(Mistake::from(format!("{at}: {message}")));
        if self.is_server() {
            return self.validate_server().or_else(|message| refuse(format!("{kind}: {message}")));
        }
        let sizes = &stream.request.0;
        if sizes.is_empty() && self.moves_data() {
            return refuse(format!("request names no size for the calls of {kind}; write for example \"8KiB\""));
        }
        if sizes.len() > 1 || sizes.iter().any(|s| s.size.0 == 0 || s.size.0 > MAX_REQUEST_BYTES) {
            let most = format_bytes(MAX_REQUEST_BYTES);
            let given: Vec<String> = sizes.iter().map(|s| format_bytes(s.size.0)).collect();
            let given = given.join(" and ");
            return refuse(format!("request is {given}; the calls of {kind} have one size, from 1 byte to {most}"));
        }
        let counts = match *self {
            Program::CreateFiles { files, subdirectories, .. } => {
                [("files", files), ("subdirectories", subdirectories.into())]
            }
            Program::Transactions { transactions, .. } => [("transactions", transactions.unwrap_or(1)), ("", 1)],
            Program::MakeDirectories { directories, .. } => [("directories", directories), ("", 1)],
            Program::WriteFile { size: Bytes(0), .. } => {
                return refuse("size is 0; write_file needs a file of 1 byte or more, such as size=1GiB".into());
            }
            Program::SeekFile { seeks, .. } => [("seeks", seeks.min(MAX_FILES)), ("", 1)],
            _ => [("", 1); 2],
        };
        for (key, count) in counts {
            let bounded = key == "transactions" || count <= MAX_FILES;
            if !bounded || count == 0 && key != "subdirectories" {
                return refuse(format!("{key} is {count}, must be 1 to {MAX_FILES}"));
            }
        }
        if let Program::Transactions { bias_read, bias_create, size, .. } = *self {
            for (key, bias) in [("bias_read", bias_read), ("bias_create", bias_create)] {
                if !(-1..=10).contains(&bias) {
                    return refuse(format!("{key} is {bias}, must be -1 to 10"));
                }
            }
            if bias_read < 0 && bias_create < 0 {
                return refuse("bias_read and bias_create are both -1, so nothing is left to do".into());
            }
            if size.to_bytes == 0 {
                return refuse("size is 0; transactions read and append data".into());
            }
        }
        Ok(())
    }
}

fn five() -> i8 {
    5
}
fn ten_percent() -> Percent {
    Percent(10.0)
}
