//! What drives, controllers and software arrays are described by. Names of files' keys are names of fields; units are in
//! the names or in the type.

use plan::{Bytes, Duration};
use serde::{Deserialize, Serialize};

/// How a drive orders its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// No command queue: one command at a time, the others wait outside.
    None,
    Fifo,
    /// Shortest positioning time first, with an age limit.
    Sptf,
    CLook,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotatingParameters {
    pub capacity_bytes: Bytes,
    pub rpm: u32,
    pub heads: u32,
    pub zones: u32,
    /// Sustained rates of the outermost and the innermost zone, in 10^6 bytes/s.
    pub outer_mb_per_s: f64,
    pub inner_mb_per_s: f64,
    pub seek_track_read: Duration,
    pub seek_track_write: Duration,
    pub seek_average_read: Duration,
    pub seek_average_write: Duration,
    pub seek_full_read: Duration,
    pub seek_full_write: Duration,
    pub head_switch: Duration,
    pub write_settle: Duration,
    pub command_overhead: Duration,
    pub interface_mb_per_s: f64,
    pub scheduler: Scheduler,
    pub queue_depth: u32,
    pub age_limit: Duration,
    pub cache_bytes: Bytes,
    pub read_segments: u32,
    pub read_ahead_bytes: Bytes,
    /// Of a stream that was followed before, so much is read ahead before the heads leave it for another command.
    #[serde(default)]
    pub read_ahead_hold_bytes: Bytes,
    pub write_cache: bool,
    /// Writes that the cache holds at the most, whatever their size.
    pub write_cache_entries: u32,
    /// How many of the oldest writes the firmware sorts.
    pub destage_window: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdParameters {
    pub capacity_bytes: Bytes,
    pub channels: u32,
    pub dies_per_channel: u32,
    pub page_bytes: Bytes,
    pub map_bytes: Bytes,
    pub pages_per_block: u32,
    pub read_time: Duration,
    pub program_time: Duration,
    pub slc_program_time: Duration,
    pub erase_time: Duration,
    pub over_provision_percent: f64,
    pub slc_cache_bytes: Bytes,
    pub dram_cache_bytes: Bytes,
    pub power_loss_protection: bool,
    pub channel_mb_per_s: f64,
    pub interface_mb_per_s: f64,
    pub command_overhead: Duration,
    /// Every block was written before, so that writing needs garbage collection from the start.
    pub steady: bool,
    /// Without power-loss protection: what it takes to write a page of the map, so that data survive a power cut; one
    /// after the other, each for all that waits when it begins. 0: a program.
    #[serde(default)]
    pub map_time: Duration,
    /// What each write or flush beyond the first lengthens it by.
    #[serde(default)]
    pub map_each: Duration,
    /// A page that is programmed before it is full, because somebody waits for it, takes no longer than this: a bit a cell
    /// is soon written. 0: as long as any.
    #[serde(default)]
    pub partial_program_time: Duration,
    /// What a durable write takes beyond another one on a drive with power-loss protection: the host sends a flush after it,
    /// which has nothing to do.
    #[serde(default)]
    pub flush_time: Duration,
    /// How much longer it keeps such a drive from its next command for that.
    #[serde(default)]
    pub flush_each: Duration,
    /// Cells of several bits: a third of the pages is sensed in so much less than `read_time`, a third in so much more.
    #[serde(default)]
    pub read_spread_percent: f64,
    /// So many of a thousand senses are done over, with other thresholds.
    #[serde(default)]
    pub read_retries_per_thousand: f64,
    /// Writes end in DRAM; without it they end when they are programmed.
    #[serde(default = "yes")]
    pub write_cache: bool,
    /// The drive takes no two commands in less time than this, however many dies are idle; after a write
    /// it is `write_interval`, if that is not 0.
    #[serde(default)]
    pub command_interval: Duration,
    #[serde(default)]
    pub write_interval: Duration,
    /// The link moves one way at a time, as SATA does.
    #[serde(default)]
    pub half_duplex: bool,
    /// The controller takes in no more than this, in 10^6 bytes/s; 0 where link and flash are the limit.
    #[serde(default)]
    pub write_mb_per_s: f64,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudParameters {
    pub capacity_bytes: Bytes,
    pub iops: u64,
    pub burst_ios: u64,
    /// A larger request counts as several.
    pub io_unit_bytes: Bytes,
    /// Contiguous requests of this size or more are merged up to `io_unit_bytes`. 0: nothing is merged.
    #[serde(default)]
    pub merge_from_bytes: Bytes,
    pub mb_per_s: f64,
    pub burst_bytes: Bytes,
    /// While there are credits to spend, no faster than this. 0: as fast as they are asked for.
    #[serde(default)]
    pub peak_iops: u64,
    #[serde(default)]
    pub peak_mb_per_s: f64,
    /// Writes, where their limits are others than those of reads. 0: they share them.
    #[serde(default)]
    pub write_iops: u64,
    #[serde(default)]
    pub write_mb_per_s: f64,
    pub read_latency: Duration,
    pub write_latency: Duration,
    /// Mean of the exponential part that comes on top.
    pub latency_tail: Duration,
    pub seed: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DriveParameters {
    Rotating(RotatingParameters),
    Ssd(SsdParameters),
    Cloud(CloudParameters),
}

/// Which arm of a mirror reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MirrorRead {
    /// The arm with the fewest commands; a stream of reads stays where it is.
    Idle,
    /// The nearer arm among those with the fewest commands.
    Nearer,
    /// One after the other, whatever they have to do.
    Alternate,
}

/// A controller, or an operating system's software array: neither has limits that it doesn't state. Rates of 0 are
/// without limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerParameters {
    /// A software array stands in front of controllers; its commands go through each of them.
    pub software: bool,
    pub ports: u32,
    /// What the bus carries by its data sheet, and which shares of that reads and writes attain.
    pub bus_mb_per_s: f64,
    pub bus_read_efficiency: f64,
    pub bus_write_efficiency: f64,
    /// Writes to several drives by turns share the bus badly: each further one lengthens a write's way by so much.
    #[serde(default)]
    pub bus_write_contention_percent: f64,
    /// Serial cost of each command of the host.
    pub read_command: Duration,
    pub write_command: Duration,
    /// No data move while a command is dealt with.
    pub command_holds_bus: bool,
    /// What a link to the drives carries, in 10^6 bytes/s; 0 where the drives' own interfaces are the limit.
    #[serde(default)]
    pub link_mb_per_s: f64,
    /// Links that drives share, each taken by every so-many-th drive, such as SCSI channels. 0: each drive has its own.
    #[serde(default)]
    pub links: u32,
    /// A stream of sequential reads from a mirror gets no more than this.
    pub mirror_stream_mb_per_s: f64,
    pub mirror_read: MirrorRead,
    pub cache_bytes: Bytes,
    /// Mirrors have any number of members: RAID-1 as many copies, RAID-10 also an odd number.
    #[serde(default)]
    pub any_copies: bool,
    /// Writes end when they are in the cache.
    pub write_back: bool,
    /// What the cache holds survives a power cut.
    pub battery: bool,
    pub read_ahead_bytes: Bytes,
    /// Memory for each member in which writes to parity gather until a row is whole; they end on the drives. 0: none.
    #[serde(default)]
    pub stripe_cache_bytes: Bytes,
    /// Drives keep their own write caches on.
    pub drive_write_cache: bool,
    /// Redundant volumes write through drive caches while anything on this controller is rebuilt.
    pub rebuild_writes_through: bool,
    pub rebuild_chunk_bytes: Bytes,
    /// Pace of a rebuild that competes with users, and of one that doesn't.
    pub rebuild_min_mb_per_s: f64,
    pub rebuild_max_mb_per_s: f64,
    /// Pace of a rebuild, initialization or scrub while users write.
    pub rebuild_writing_mb_per_s: f64,
    /// Beside users a chunk begins when all chunks before have ended, however fast that is; the pace beside users is
    /// what is done at the least. Linux md does so since 4.1.
    #[serde(default)]
    pub rebuild_drains: bool,
    /// What the thread that rebuilds takes to begin a chunk; meanwhile a user may ask, for whom it then waits.
    #[serde(default)]
    pub rebuild_begin: Duration,
    /// Beside users of a mirror, so much of a rebuild is under way at the member that is read.
    #[serde(default)]
    pub rebuild_window_bytes: Bytes,
    /// Of a rebuild of parity so much of each member ends at once, since its pages were merged into one command; users who
    /// found the stripe cache full go on when so much of it is free.
    #[serde(default)]
    pub rebuild_merged_bytes: Bytes,
    /// What the thread that computes parity takes for a stripe of 4 KiB of each member, and for each page of it that is
    /// written or read for it. One thread does it all. 0: it costs nothing.
    #[serde(default)]
    pub parity_stripe: Duration,
    #[serde(default)]
    pub parity_page: Duration,
    /// While users are served, at least this share of the time goes to a rebuild, which controllers call its rate or
    /// priority. 0: none is kept for it.
    #[serde(default)]
    pub rebuild_share_percent: f64,
    /// While a neighbour is rebuilt, each command waits for its turn among slices of this length.
    pub rebuild_slice: Duration,
    /// While anything is rebuilt, a write to a region of this size that was not written lately waits until every member
    /// has a record of it. 0: no such record is kept.
    pub region_log_bytes: Bytes,
    /// Where it is ZFS: the file's keys that begin with `zfs_`.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub zfs: Option<ZfsParameters>,
}

/// What ZFS is set to. Keys are the names of OpenZFS's properties and module parameters, with `zfs_` before them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZfsParameters {
    /// Bytes of a record: a data set's recordsize or a volume's volblocksize.
    pub recordsize: Bytes,
    /// Sectors of 2 to the power of this.
    pub ashift: u32,
    /// So much of the usable space is the volume; the rest stays free for copy-on-write.
    pub fill_percent: f64,
    /// What a request costs on a processor beside the disks, and at what rate its data are copied and summed.
    pub request: Duration,
    /// One thread hands over the records of a volume, one after the other, when its transaction group is written.
    pub sync_record: Duration,
    pub copy_mb_per_s: f64,
    /// Processors that do this work; each does one request at a time.
    #[serde(default = "four")]
    pub cores: u32,
    pub txg_timeout: Duration,
    pub dirty_data_max: Bytes,
    pub dirty_data_sync_percent: f64,
    pub delay_min_dirty_percent: f64,
    pub delay_scale: u64,
    pub immediate_write_sz: Bytes,
    pub zil_maxblocksize: Bytes,
    pub commit_timeout_pct: f64,
    pub vdev_sync_read_max_active: u32,
    pub vdev_sync_write_max_active: u32,
    pub vdev_async_read_min_active: u32,
    pub vdev_async_read_max_active: u32,
    pub vdev_async_write_min_active: u32,
    pub vdev_async_write_max_active: u32,
    pub vdev_async_write_active_min_dirty_percent: f64,
    pub vdev_async_write_active_max_dirty_percent: f64,
    pub vdev_scrub_min_active: u32,
    pub vdev_scrub_max_active: u32,
    pub vdev_rebuild_min_active: u32,
    pub vdev_rebuild_max_active: u32,
    pub vdev_nia_delay: u32,
    pub vdev_nia_credit: u32,
    pub vdev_aggregation_limit: Bytes,
    pub vdev_aggregation_limit_non_rotating: Bytes,
    pub vdev_read_gap_limit: Bytes,
    pub vdev_mirror_rotating_seek_inc: u32,
    pub vdev_mirror_non_rotating_seek_inc: u32,
    pub vdev_mirror_rotating_seek_offset: Bytes,
    pub zfetch_min_distance: Bytes,
    pub zfetch_max_distance: Bytes,
    pub metaslab_aliquot: Bytes,
    pub scan_vdev_limit: Bytes,
    pub rebuild_vdev_limit: Bytes,
    pub spa_slop_shift: u32,
}

/// Cores of a small storage server; what was described before there was `cores` has as many.
fn four() -> u32 {
    4
}

/// In which order dirty pages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteOrder {
    /// From where the last write-back ended to the end of the file, then from its beginning: Linux since 2.6
    /// (`range_cyclic`, mm/page-writeback.c).
    Offset,
    /// The oldest first, `write_requests` of them at a time, which the queue sorts: Linux 2.4's list of dirty buffers
    /// (fs/buffer.c, `write_some_buffers`), FreeBSD's (sys/kern/vfs_bio.c, `flushbufqueues`).
    Age,
}

/// How the host's page cache works. The defaults are those of Linux 2.6.30 and later; each has its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PageCacheParameters {
    /// What is read, marked dirty and written as a whole. A page of x86; the block of a file system that knows no smaller
    /// unit, as FreeBSD's does.
    pub page_bytes: Bytes,
    /// What a call costs beside the copy, and how fast memory is copied, in 10^6 bytes/s: 1.7 µs and 4,000 were measured
    /// with cached `pread` calls of 4 and 128 KiB on a virtual machine of 2026 (docs/models.md).
    pub call: Duration,
    pub copy_mb_per_s: f64,
    /// The largest window of read-ahead: `read_ahead_kb` (Documentation/ABI/stable/sysfs-block; VM_READAHEAD_PAGES). 0:
    /// none.
    pub read_ahead_bytes: Bytes,
    /// The largest request that pages are merged into: `max_sectors_kb`, 512 from 2.6 to 4.1 (BLK_DEF_MAX_SECTORS).
    pub request_bytes: Bytes,
    /// Shares of the memory: `dirty_background_ratio` and `dirty_ratio` (Documentation/admin-guide/sysctl/vm.rst).
    pub dirty_background_percent: f64,
    pub dirty_percent: f64,
    /// `dirty_expire_centisecs` and `dirty_writeback_centisecs` (the same document).
    pub dirty_expire: Duration,
    pub dirty_writeback: Duration,
    pub write_order: WriteOrder,
    /// So many requests of write-back are with the device at a time; reads go past those that wait. 32: NCQ's depth.
    pub write_requests: u32,
    /// A flush of the file flushes the device's cache too, as Linux does since 2.6.33 (Documentation/block/
    /// writeback_cache_control.rst).
    pub barriers: bool,
    /// The file is empty when the run begins and grows as it is written, so that nothing is read before it is written for
    /// the first time. Otherwise it is there, as a target on real storage is.
    pub new_file: bool,
}

impl Default for PageCacheParameters {
    fn default() -> PageCacheParameters {
        PageCacheParameters {
            page_bytes: Bytes(4096),
            call: Duration { ns: 1_700 },
            copy_mb_per_s: 4_000.0,
            read_ahead_bytes: Bytes(128 << 10),
            request_bytes: Bytes(512 << 10),
            dirty_background_percent: 10.0,
            dirty_percent: 20.0,
            dirty_expire: Duration { ns: 30_000_000_000 },
            dirty_writeback: Duration { ns: 5_000_000_000 },
            write_order: WriteOrder::Offset,
            write_requests: 32,
            barriers: true,
            new_file: false,
        }
    }
}

/// What lies between the file of a buffered run and the blocks of the brick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// The file's pages are the brick's, from its first on.
    None,
    Ext2,
    Ext3,
    Xfs,
}
