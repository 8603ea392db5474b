//! Bricks: drives, controllers and arrays described in TOML, and how a name becomes a brick.
//!
//! A drive or controller file has a table `[basis]` that says of every value whether it is from the data sheet, out of a
//! review, what drives of the kind report of themselves, measured by others, derived, fitted, or from memory, not checked
//! against any of them; a value without a basis is refused. An array file names a drive and a controller.

mod check;
mod files;
mod offers;
mod parameters;
mod sheet;

use serde::{Deserialize, Serialize};

pub use files::{OVERRIDES, PARTS, Texts, needed, resolve};
pub use parameters::{
    CloudParameters, ControllerParameters, DriveParameters, FileSystem, MirrorRead, PageCacheParameters,
    RotatingParameters, Scheduler, SsdParameters, WriteOrder, ZfsParameters,
};

/// Stripe units and rebuild chunks; a member operation counts its bytes in 32 bits.
const MAX_PIECE_BYTES: u64 = 1 << 30;
/// Ten times what there is; sectors times the ns of a revolution still fit into 64 bits.
const MAX_DRIVE_BYTES: u64 = 1 << 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Jbod,
    Raid0,
    Raid1,
    Raid5,
    Raid6,
    Raid10,
    /// ZFS: pairs of disks, or sets of more copies.
    Zmirror,
    Raidz1,
    Raidz2,
    Raidz3,
    Draid1,
    Draid2,
    Draid3,
}

impl Level {
    pub const ALL: [Level; 13] = [
        Level::Jbod,
        Level::Raid0,
        Level::Raid1,
        Level::Raid5,
        Level::Raid6,
        Level::Raid10,
        Level::Zmirror,
        Level::Raidz1,
        Level::Raidz2,
        Level::Raidz3,
        Level::Draid1,
        Level::Draid2,
        Level::Draid3,
    ];
    const _WHOLE: () = assert!(Self::ALL.len() == Level::Draid3 as usize + 1);

    /// Whether ZFS keeps it: records, transaction groups and a log in place of stripes.
    pub fn is_zfs(self) -> bool {
        self == Level::Zmirror || self.zfs_parity() > 0
    }

    pub fn is_draid(self) -> bool {
        matches!(self, Level::Draid1 | Level::Draid2 | Level::Draid3)
    }

    /// Parity columns of a raidz or dRAID; 0 for any other level.
    pub fn zfs_parity(self) -> u64 {
        match self {
            Level::Raidz1 | Level::Draid1 => 1,
            Level::Raidz2 | Level::Draid2 => 2,
            Level::Raidz3 | Level::Draid3 => 3,
            _ => 0,
        }
    }

    /// As users write it.
    pub fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    Normal,
    /// A member has failed and nothing replaces it.
    Degraded,
    /// The volume itself is being rebuilt.
    Rebuilding,
    /// Another volume on the same controller is being rebuilt.
    NeighbourRebuilding,
    /// Redundancy is being computed for the first time.
    Initializing,
    /// Redundancy is being checked.
    Scrubbing,
}

/// A complete brick.
#[derive(Debug, Clone, Serialize)]
pub struct Brick {
    pub name: String,
    pub title: String,
    pub drive: DriveParameters,
    pub controller: Option<ControllerParameters>,
    pub software: Option<ControllerParameters>,
    pub controllers: u32,
    pub level: Level,
    pub members: u32,
    pub spares: u32,
    /// ZFS: top-level vdevs that the members make up; 0 is one, and of mirrors pairs.
    pub vdevs: u32,
    /// dRAID: data disks of a redundancy group, 0 for OpenZFS's default; and distributed spares.
    pub draid_data: u32,
    pub draid_spares: u32,
    pub stripe_bytes: u64,
    pub write_cache: Option<bool>,
    pub queue_limit: u32,
    pub host_request_ns: u64,
    pub condition: Condition,
    pub rebuild_position: f64,
    /// Members that fail during the run: which, and when.
    pub failures: Vec<Failure>,
    /// The power fails at this instant of the run, and comes back.
    pub power_cut_ns: Option<u64>,
    /// The last members are of another kind.
    pub other_drive: Option<DriveParameters>,
    pub other_members: u32,
    /// The host's memory that its page cache has, how that works, and the file system above: of buffered runs alone.
    pub memory_bytes: u64,
    pub page_cache: PageCacheParameters,
    pub file_system: FileSystem,
    /// What is left to chance in a brick follows it: how spindles stand, which reads of flash are slow, latencies of a
    /// volume.
    pub seed: u64,
}

/// A member that fails at an instant of the run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Failure {
    pub at_ns: u64,
    pub member: u32,
}

impl Brick {
    /// Who keeps the redundancy: the software array if there is one, else the controller.
    pub fn keeper(&self) -> Option<&ControllerParameters> {
        self.software.as_ref().or(self.controller.as_ref())
    }

    /// Each controller keeps a volume of its own, and the host stripes over them; software keeps one over all members.
    pub fn volumes(&self) -> u32 {
        if self.software.is_some() || self.controller.is_none() { 1 } else { self.controllers }
    }

    /// What ZFS is set to, where it keeps the redundancy.
    pub fn zfs(&self) -> Option<&ZfsParameters> {
        self.keeper().and_then(|k| k.zfs.as_ref())
    }
}
