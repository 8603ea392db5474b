//! What makes a brick impossible, in one line each.

use super::{Brick, Condition, DriveParameters, Level, MAX_DRIVE_BYTES, MAX_PIECE_BYTES, ZfsParameters};

/// A record of ZFS (SPA_MAXBLOCKSIZE).
const MAX_RECORD_BYTES: u64 = 16 << 20;

impl Brick {
    pub(super) fn check(&self) -> Result<(), String> {
        self.check_zfs()?;
        self.check_members()?;
        if !(512..=MAX_PIECE_BYTES).contains(&self.stripe_bytes) || !self.stripe_bytes.is_multiple_of(512) {
            return Err(format!("stripe of {} bytes; a multiple of 512 up to 1GiB is needed", self.stripe_bytes));
        }
        if !(0.0..=100.0).contains(&self.rebuild_position) {
            return Err(format!("rebuild_position = {}; from 0 to 100 per cent", self.rebuild_position));
        }
        if let Some(share) = self.keeper().map(|k| k.rebuild_share_percent).filter(|s| !(0.0..=100.0).contains(s)) {
            return Err(format!("rebuild_share_percent = {share}; from 0 to 100"));
        }
        self.check_ports()?;
        self.check_condition()?;
        self.check_failures()?;
        self.check_write_cache()?;
        self.check_page_cache()?;
        if self.other_members > self.members || (self.other_members > 0) != self.other_drive.is_some() {
            let (here, most) = (self.other_members, self.members);
            return Err(format!("other_members = {here}: name other_drive as well, and up to {most}"));
        }
        check_drive("drive", &self.drive)?;
        self.other_drive.iter().try_for_each(|drive| check_drive("other_drive", drive))
    }

    /// A volume takes what its level needs, and each controller has a volume of its own.
    fn check_members(&self) -> Result<(), String> {
        let (n, volumes, word) = (self.members, self.volumes(), self.level.word());
        if self.controllers == 0 || !n.is_multiple_of(self.controllers) {
            return Err(format!("{n} members cannot be shared out evenly over {} controllers", self.controllers));
        }
        let least = match self.level {
            Level::Jbod | Level::Raid0 => 1,
            Level::Raid1 => 2,
            Level::Raid5 => 3,
            Level::Raid6 => 4,
            // Mirrors of two on several controllers are striped by the host.
            Level::Raid10 if self.any_copies() || volumes > 1 => 2,
            // `check_zfs` has counted them.
            _ if self.level.is_zfs() => 2,
            _ => 4,
        };
        let here = n / volumes;
        if n == 0 || n > 1_000 || volumes == 1 && n < least {
            return Err(format!("{n} members; this level takes from {least} to 1000"));
        }
        let (takes, remedies) = match self.level {
            Level::Raid1 if here != 2 && !self.any_copies() => ("2".into(), vec![2]),
            _ if here < least => (format!("at least {least}"), vec![least]),
            _ if self.any_copies() => return Ok(()),
            Level::Raid10 if here % 2 == 1 => ("an even number".into(), vec![here - 1, here + 1]),
            _ => return Ok(()),
        };
        if volumes == 1 {
            return Err(format!("{n} members; behind this controller raid1 takes 2 and raid10 an even number"));
        }
        let remedies: Vec<String> = remedies
            .into_iter()
            .filter(|each| self.has_ports(each * volumes))
            .map(|each| (each * volumes).to_string())
            .collect();
        let remedy = match remedies.is_empty() {
            true => "controllers with more ports".into(),
            false => format!("members={}", remedies.join(" or ")),
        };
        Err(format!(
            "{n} members are {here} on each of {volumes} controllers, where {word} takes {takes}; take {remedy}"
        ))
    }

    /// ZFS keeps its own levels and no others, and takes what it has been modelled with.
    fn check_zfs(&self) -> Result<(), String> {
        let (level, n, vdevs) = (self.level, self.members, self.vdevs);
        let word = level.word();
        let Some(zfs) = self.zfs().filter(|_| level.is_zfs()) else {
            if level.is_zfs() {
                return Err(format!("{word} is kept by ZFS; take software=linux-zfs"));
            }
            if self.zfs().is_some() {
                return Err(format!("ZFS keeps no {word}; take zmirror, raidz1 to raidz3 or draid1 to draid3"));
            }
            if vdevs + self.draid_data + self.draid_spares > 0 {
                return Err(format!("vdevs, draid_data and draid_spares are ZFS's; {word} has none"));
            }
            return Ok(());
        };
        if self.software.is_none() {
            return Err("ZFS is software; name it in software, and its host adapter in controller".into());
        }
        check_zfs_values(zfs)?;
        if !level.is_draid() && self.draid_data + self.draid_spares > 0 {
            return Err(format!("draid_data and draid_spares are a dRAID's; {word} has none"));
        }
        if level == Level::Zmirror && vdevs == 0 && n % 2 == 1 {
            return Err(format!("{n} members in mirrors of two; an even number is needed, or vdevs for wider mirrors"));
        }
        let count = match (vdevs, level) {
            (0, Level::Zmirror) => (n / 2).max(1),
            (0, _) => 1,
            _ => vdevs,
        };
        if n == 0 || n % count > 0 {
            return Err(format!("{n} members cannot be shared out evenly over {count} vdevs"));
        }
        let (width, parity) = (n / count, level.zfs_parity() as u32);
        // Disks that are vdevs by themselves make a stripe.
        let least = if level == Level::Zmirror && vdevs > 0 { 1 } else { parity.max(1) + 1 };
        if width < least || width > 255 {
            return Err(format!("{width} members in a vdev; {word} takes from {least} to 255"));
        }
        if level.is_draid() {
            return self.check_draid(width, parity);
        }
        self.check_zfs_conditions()
    }

    fn check_draid(&self, width: u32, parity: u32) -> Result<(), String> {
        if self.vdevs > 1 {
            return Err("vdevs: one dRAID vdev is modelled, which takes up to 255 members".into());
        }
        let (spares, asked) = (u64::from(self.draid_spares), u64::from(self.draid_data));
        let data = crate::zfs::layout::draid_data(width.into(), parity.into(), spares, asked);
        if data == 0 || data + u64::from(parity) + spares > u64::from(width) {
            return Err(format!(
                "{width} members; groups of {data} data and {parity} parity disks and {spares} spares need {}",
                data.max(1) + u64::from(parity) + spares
            ));
        }
        if self.spares > 0 {
            return Err("spares of a dRAID lie on its members; take draid_spares".into());
        }
        self.check_zfs_conditions()
    }

    fn check_zfs_conditions(&self) -> Result<(), String> {
        if self.condition == Condition::Initializing {
            return Err("ZFS has no initial resync; take condition=normal".into());
        }
        if !self.is_redundant() && !self.failures.is_empty() {
            return Err("a stripe of ZFS is lost with its first disk; leave fail_at out".into());
        }
        if self.power_cut_ns.is_some() {
            return Err("power_cut_at: what ZFS loses at a power cut is not modelled".into());
        }
        Ok(())
    }

    /// Whether whoever keeps the redundancy has mirrors of any number of members.
    fn any_copies(&self) -> bool {
        self.keeper().is_none_or(|k| k.any_copies)
    }

    fn check_failures(&self) -> Result<(), String> {
        let Some(first) = self.failures.first() else { return Ok(()) };
        if let Some(failure) = self.failures.iter().find(|f| f.member >= self.members) {
            return Err(format!("member {} cannot fail; there are 0 to {}", failure.member, self.members - 1));
        }
        let again =
            self.failures.iter().enumerate().find(|(n, f)| self.failures[..*n].iter().any(|e| e.member == f.member));
        if let Some((_, failure)) = again {
            return Err(format!("member {} cannot fail twice; name another in fail_member", failure.member));
        }
        if self.condition != Condition::Normal {
            return Err(format!(
                "a member fails at {} s of a run in normal condition; leave condition out",
                first.at_ns / 1_000_000_000
            ));
        }
        if self.spares > 0 && self.is_redundant() && !self.can_rebuild() {
            return Err(
                "its controller states no rebuild_chunk_bytes from 4KiB to 1GiB; name another, or spares=0".into()
            );
        }
        Ok(())
    }

    /// A cache that is not there, or that a controller keeps off, is switched by nobody.
    fn check_write_cache(&self) -> Result<(), String> {
        let Some(on) = self.write_cache else { return Ok(()) };
        let has_none = |drive: &DriveParameters| match drive {
            DriveParameters::Rotating(p) => p.cache_bytes.0 == 0,
            DriveParameters::Ssd(_) => false,
            DriveParameters::Cloud(_) => true,
        };
        if std::iter::once(&self.drive).chain(&self.other_drive).any(has_none) {
            return Err(format!("write_cache={on}: its drives have no write cache that could be switched"));
        }
        if on && self.keeper().is_some_and(|k| !k.drive_write_cache) {
            return Err("write_cache=true: its controller keeps the write caches of its drives off".into());
        }
        Ok(())
    }

    fn check_page_cache(&self) -> Result<(), String> {
        let p = &self.page_cache;
        let checked = Checked("page_cache");
        checked.rates(&[("copy_mb_per_s", p.copy_mb_per_s)])?;
        checked.counts(&[("write_requests", p.write_requests.into(), 1 << 16)])?;
        checked.sizes(&[("page_bytes", p.page_bytes.0, 512), ("request_bytes", p.request_bytes.0, p.page_bytes.0)])?;
        if !p.page_bytes.0.is_power_of_two() || p.page_bytes.0 > 1 << 20 || p.request_bytes.0 > 1 << 30 {
            return Err("page_cache: page_bytes is a power of two up to 1MiB, request_bytes at most 1GiB".into());
        }
        if p.read_ahead_bytes.0 > 1 << 30 {
            return Err("page_cache.read_ahead_bytes: at most 1GiB".into());
        }
        if !(0.0..=p.dirty_percent).contains(&p.dirty_background_percent) || !(0.1..=90.0).contains(&p.dirty_percent) {
            return Err(format!(
                "page_cache: dirty_background_percent = {}, dirty_percent = {}; the first is at most the second, which is \
                 from 0.1 to 90",
                p.dirty_background_percent, p.dirty_percent
            ));
        }
        if p.dirty_writeback.ns == 0 {
            return Err("page_cache.dirty_writeback = 0; a time above 0 is needed".into());
        }
        let least = 1024 * p.page_bytes.0;
        if !(least..=1 << 40).contains(&self.memory_bytes) {
            return Err(format!(
                "memory={}: from {} (1,024 pages) to 1TiB is needed",
                plan::format_bytes(self.memory_bytes),
                plan::format_bytes(least)
            ));
        }
        if self.file_system != super::FileSystem::None && p.page_bytes.0 != 4096 {
            return Err("file_system: its blocks are of 4KiB; leave page_cache.page_bytes out".into());
        }
        Ok(())
    }

    fn is_redundant(&self) -> bool {
        let stripe_of_zfs = self.level == Level::Zmirror && self.vdevs == self.members;
        !matches!(self.level, Level::Jbod | Level::Raid0) && !stripe_of_zfs
    }

    fn can_rebuild(&self) -> bool {
        self.keeper().is_some_and(|k| (4096..=MAX_PIECE_BYTES).contains(&k.rebuild_chunk_bytes.0))
    }

    fn check_ports(&self) -> Result<(), String> {
        if self.queue_limit == 0 {
            return Err("queue_limit = 0; at least 1".into());
        }
        let Some(controller) = &self.controller else { return Ok(()) };
        if !self.has_ports(self.members) {
            let here = (self.members + self.spares).div_ceil(self.controllers);
            return Err(format!("{here} drives on a controller of {} ports; add controllers", controller.ports));
        }
        Ok(())
    }

    /// Whether the controllers have ports for so many members and the spares.
    fn has_ports(&self, members: u32) -> bool {
        let here = (members + self.spares).div_ceil(self.controllers);
        self.controller.as_ref().is_none_or(|c| c.ports == 0 || here <= c.ports)
    }

    fn check_condition(&self) -> Result<(), String> {
        let (redundant, rebuilds) = (self.is_redundant(), self.can_rebuild());
        match self.condition {
            Condition::Normal => Ok(()),
            Condition::Degraded if !redundant => Err("a volume without redundancy cannot be degraded".into()),
            Condition::Degraded if self.spares > 0 => {
                Err("a failed member is replaced by the spare; take condition=rebuilding, or spares=0".into())
            }
            Condition::Degraded => Ok(()),
            Condition::NeighbourRebuilding => match self.keeper() {
                Some(k) if k.rebuild_slice.ns > 0 && self.controller.is_some() => Ok(()),
                _ => Err("has no controller that could rebuild a neighbour; name one that states rebuild_slice".into()),
            },
            _ if !redundant => Err("a volume without redundancy has nothing to rebuild, initialize or scrub".into()),
            _ if !rebuilds => {
                Err("its controller states no rebuild_chunk_bytes from 4KiB to 1GiB; name another".into())
            }
            _ => Ok(()),
        }
    }
}

fn check_zfs_values(zfs: &ZfsParameters) -> Result<(), String> {
    let checked = Checked("software");
    checked.rates(&[
        ("zfs_copy_mb_per_s", zfs.copy_mb_per_s),
        ("zfs_fill_percent", zfs.fill_percent),
        ("zfs_dirty_data_sync_percent", zfs.dirty_data_sync_percent),
    ])?;
    checked.counts(&[
        ("zfs_cores", zfs.cores.into(), 1024),
        ("zfs_vdev_sync_read_max_active", zfs.vdev_sync_read_max_active.into(), 1000),
        ("zfs_vdev_sync_write_max_active", zfs.vdev_sync_write_max_active.into(), 1000),
        ("zfs_vdev_async_read_max_active", zfs.vdev_async_read_max_active.into(), 1000),
        ("zfs_vdev_async_write_min_active", zfs.vdev_async_write_min_active.into(), 1000),
        ("zfs_vdev_async_write_max_active", zfs.vdev_async_write_max_active.into(), 1000),
        ("zfs_vdev_scrub_max_active", zfs.vdev_scrub_max_active.into(), 1000),
        ("zfs_vdev_rebuild_max_active", zfs.vdev_rebuild_max_active.into(), 1000),
        ("zfs_vdev_nia_credit", zfs.vdev_nia_credit.into(), 1000),
        ("zfs_spa_slop_shift", zfs.spa_slop_shift.into(), 31),
        ("zfs_txg_timeout in ns", zfs.txg_timeout.ns, u64::MAX),
        ("zfs_request in ns", zfs.request.ns, u64::MAX),
        ("zfs_sync_record in ns", zfs.sync_record.ns, 1_000_000_000),
    ])?;
    if !(9..=16).contains(&zfs.ashift) {
        return Err(format!("software.zfs_ashift = {}; from 9 to 16", zfs.ashift));
    }
    let record = zfs.recordsize.0;
    if !record.is_power_of_two() || record > MAX_RECORD_BYTES || record < 1 << zfs.ashift {
        let said = plan::format_bytes(record);
        return Err(format!("software.zfs_recordsize = {said}; a power of 2 from a sector to 16MiB is needed"));
    }
    if zfs.fill_percent > 100.0 {
        return Err(format!("software.zfs_fill_percent = {}; above 0, up to 100", zfs.fill_percent));
    }
    checked.sizes(&[
        ("zfs_dirty_data_max", zfs.dirty_data_max.0, record),
        ("zfs_zil_maxblocksize", zfs.zil_maxblocksize.0, 4096),
        ("zfs_vdev_aggregation_limit", zfs.vdev_aggregation_limit.0, 4096),
        ("zfs_vdev_aggregation_limit_non_rotating", zfs.vdev_aggregation_limit_non_rotating.0, 4096),
        ("zfs_metaslab_aliquot", zfs.metaslab_aliquot.0, 4096),
    ])
}

/// Values of a part by their keys, each held against what a model can be built from.
struct Checked<'a>(&'a str);

impl Checked<'_> {
    fn rates(&self, values: &[(&str, f64)]) -> Result<(), String> {
        match values.iter().find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
            Some((key, value)) => Err(format!("{}.{key} = {value}; a number above 0 is needed", self.0)),
            None => Ok(()),
        }
    }

    fn counts(&self, values: &[(&str, u64, u64)]) -> Result<(), String> {
        match values.iter().find(|(_, value, most)| !(1..=*most).contains(value)) {
            Some((key, value, most)) if *most < u32::MAX.into() => {
                Err(format!("{}.{key} = {value}; a whole number from 1 to {most} is needed", self.0))
            }
            Some((key, value, _)) => Err(format!("{}.{key} = {value}; a whole number from 1 is needed", self.0)),
            None => Ok(()),
        }
    }

    fn sizes(&self, values: &[(&str, u64, u64)]) -> Result<(), String> {
        match values.iter().find(|(_, value, least)| value < least) {
            Some((key, value, least)) => Err(format!(
                "{}.{key} = {}; a size from {} is needed",
                self.0,
                plan::format_bytes(*value),
                plan::format_bytes(*least)
            )),
            None => Ok(()),
        }
    }
}

fn check_drive(part: &str, drive: &DriveParameters) -> Result<(), String> {
    let capacity_bytes = match drive {
        DriveParameters::Rotating(p) => p.capacity_bytes.0,
        DriveParameters::Ssd(p) => p.capacity_bytes.0,
        DriveParameters::Cloud(p) => p.capacity_bytes.0,
    };
    if !(1 << 20..=MAX_DRIVE_BYTES).contains(&capacity_bytes) {
        let said = plan::format_bytes(capacity_bytes);
        return Err(format!("{part}.capacity_bytes = {said}; a size from 1MiB to 256TiB is needed"));
    }
    let checked = Checked(part);
    let any: u64 = u32::MAX.into();
    match drive {
        DriveParameters::Rotating(p) => {
            checked.rates(&[
                ("outer_mb_per_s", p.outer_mb_per_s),
                ("inner_mb_per_s", p.inner_mb_per_s),
                ("interface_mb_per_s", p.interface_mb_per_s),
            ])?;
            checked.counts(&[
                ("rpm", p.rpm.into(), 100_000),
                ("heads", p.heads.into(), any),
                ("zones", p.zones.into(), any),
                ("queue_depth", p.queue_depth.into(), any),
                ("write_cache_entries", p.write_cache_entries.into(), any),
                ("destage_window", p.destage_window.into(), any),
            ])
        }
        DriveParameters::Ssd(p) => {
            checked.rates(&[
                ("channel_mb_per_s", p.channel_mb_per_s),
                ("interface_mb_per_s", p.interface_mb_per_s),
                ("over_provision_percent", p.over_provision_percent),
            ])?;
            checked.counts(&[
                ("channels", p.channels.into(), 256),
                ("dies_per_channel", p.dies_per_channel.into(), 64),
                ("pages_per_block", p.pages_per_block.into(), any),
            ])?;
            checked.sizes(&[
                ("map_bytes", p.map_bytes.0, 512),
                ("page_bytes", p.page_bytes.0, p.map_bytes.0.max(512)),
                ("dram_cache_bytes", p.dram_cache_bytes.0, 1 << 20),
            ])
        }
        DriveParameters::Cloud(p) => {
            checked.rates(&[("mb_per_s", p.mb_per_s)])?;
            checked.counts(&[("iops", p.iops, u64::MAX), ("burst_ios", p.burst_ios, u64::MAX)])?;
            checked.sizes(&[("io_unit_bytes", p.io_unit_bytes.0, 512)])
        }
    }
}
