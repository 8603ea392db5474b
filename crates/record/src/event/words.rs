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
        /// Its own work took more than half of its time.
        Own = "own",
        /// It used whole cores, the kernel's work for the storage included.
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

impl Counted {
    /// What the cell of this number counts (see [`crate::CellSet`]).
    pub fn of_cell(cell: usize) -> Counted {
        Counted::ALL[cell]
    }
}
