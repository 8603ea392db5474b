//! Closed sets of words in events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An enum of words that stand in stores, with each as text.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$of])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),+];

            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, word: &&str) -> bool {
                self.name() == *word
            }
        }
    };
}

words! {
    /// What a cell counts: requests by operation, or whole things beside their requests.
    Counted {
        Read = "read",
        Write = "write",
        Flush = "flush",
        Trim = "trim",
        Append = "append",
        Put = "put",
        Get = "get",
        Create = "create",
        Open = "open",
        Close = "close",
        Stat = "stat",
        Unlink = "unlink",
        Mkdir = "mkdir",
        Rmdir = "rmdir",
        Chain = "chain",
        CreateFile = "create_file",
        ReadFile = "read_file",
        AppendFile = "append_file",
        Frame = "frame",
        Commit = "commit",
        Call = "call",
        Load = "load",
    }
}

words! {
    /// Which time of a request; events have them in this order.
    Timed {
        DriverLag = "driver_lag",
        FirstByte = "first_byte",
        Lateness = "lateness",
        Response = "response",
        Service = "service",
    }
}

words! {
    /// Why a phase ended.
    PhaseReason {
        Duration = "duration",
        Requests = "requests",
        Bytes = "bytes",
        Passes = "passes",
        Program = "program",
        Stop = "stop",
        Steady = "steady",
        Ramp = "ramp",
        Error = "error",
        Interrupted = "interrupted",
        EndOfLog = "end of log",
        Lost = "lost",
        Done = "done",
    }
}

words! {
    /// Why the generator was the limit.
    Bound {
        /// It was not, or the phase was too short to judge.
        No = "",
        /// Its own work was on a CPU for more than half of its time.
        Own = "own",
        /// It used all the CPU time that its threads could have, the kernel's work for the storage included.
        Cpu = "cpu",
    }
}

words! {
    /// How a run ended.
    RunOutcome {
        Done = "done",
        Interrupted = "interrupted",
        Failed = "failed",
    }
}

words! {
    /// What sends a run's requests, or the program whose results were imported.
    Engine {
        IoUring = "io_uring",
        Psync = "psync",
        Sim = "sim",
        Files = "files",
        Postgresql = "postgresql",
        Pgbench = "pgbench",
        Fio = "fio",
        Diskspd = "diskspd",
        Iometer = "iometer",
        Elbencho = "elbencho",
    }
}

words! {
    /// Whether requests go through a page cache.
    IoPath {
        Direct = "direct",
        Buffered = "buffered",
        /// An imported result does not say.
        Unknown = "unknown",
        /// Of a database.
        No = "",
    }
}

words! {
    TargetKind {
        Block = "block",
        File = "file",
        Directory = "directory",
        Sim = "sim",
        Postgresql = "postgresql",
    }
}

words! {
    /// What went wrong with a request.
    ErrorKind {
        Errno = "errno",
        /// Fewer bytes were moved than were asked for.
        Short = "short",
        Damage = "damage",
        Sqlstate = "sqlstate",
        Aborted = "aborted",
    }
}

words! {
    /// What each host of a fleet does of the load.
    LoadShare {
        Copies = "copies",
        Split = "split",
        Partition = "partition",
    }
}

words! {
    /// What a run's target was to be like while it went on, as far as an array below it can be.
    HeldCondition {
        Normal = "normal",
        Degraded = "degraded",
        Rebuilding = "rebuilding",
        NeighbourRebuilding = "neighbour_rebuilding",
        Scrubbing = "scrubbing",
        Initializing = "initializing",
        WriteCacheOn = "write_cache_on",
        WriteCacheOff = "write_cache_off",
    }
}

words! {
    /// What an array, or the write caches below it, said at a look.
    SampledState {
        Normal = "normal",
        Degraded = "degraded",
        Rebuilding = "rebuilding",
        Scrubbing = "scrubbing",
        Initializing = "initializing",
        Reshaping = "reshaping",
        /// Its work waits for other work.
        Delayed = "delayed",
        Failed = "failed",
        Inactive = "inactive",
        WriteCacheOn = "write_cache_on",
        WriteCacheOff = "write_cache_off",
        /// Of the drives' caches, some are on and some are off.
        Mixed = "mixed",
        Unknown = "unknown",
        /// A neighbour is to be rebuilt, but the array below the target itself is not at rest, and so the next ones.
        TargetDegraded = "target_degraded",
        TargetRebuilding = "target_rebuilding",
        TargetScrubbing = "target_scrubbing",
        TargetInitializing = "target_initializing",
        TargetReshaping = "target_reshaping",
        TargetDelayed = "target_delayed",
        TargetFailed = "target_failed",
        TargetInactive = "target_inactive",
        TargetUnknown = "target_unknown",
    }
}

words! {
    /// What a modelled brick is like.
    BrickState {
        Normal = "normal",
        /// Data are lost.
        Failed = "failed",
        Degraded = "degraded",
        Rebuilding = "rebuilding",
        NeighbourRebuilding = "neighbour_rebuilding",
        Scrubbing = "scrubbing",
        Initializing = "initializing",
    }
}

words! {
    /// In which order a modelled page cache writes.
    WrittenBy {
        Offset = "offset",
        Age = "age",
    }
}

words! {
    /// The file system of a modelled page cache.
    ModelledFileSystem {
        No = "none",
        Ext2 = "ext2",
        Ext3 = "ext3",
        Xfs = "xfs",
    }
}

impl Counted {
    /// What the cell of this number counts (see [`crate::CellSet`]).
    pub fn of_cell(cell: usize) -> Counted {
        Counted::ALL[cell]
    }
}
