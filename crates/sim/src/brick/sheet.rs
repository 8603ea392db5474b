//! Drives by what a data sheet prints: rates, requests a second, latencies. What the model needs beyond that is derived
//! here, by one rule for all drives of a kind, and never fitted to a measurement of the drive itself.
//!
//! Flash. A command costs what a cached write of 4 KiB takes less its way over the link; a page is sensed in what a read
//! one deep takes less the command and the ways; the drive takes commands as fast as its fastest printed rate. There are as
//! many dies as read at that rate with a third of them idle, since addresses fall unevenly, and beyond these as many as the
//! capacity is made of, unless fewer already program at the printed rate. A page is programmed in the time in which all dies
//! together write at that rate. What is spare follows from the printed rate of random writes in steady state: each costs its
//! share of a program, and `W - 1` moves of pages.
//!
//! Disks. What no sheet prints is as in drives of the class: seeks to a track and over the full stroke as the medians of
//! drives that print all three, inner rates half of the outer, commands and caches as the nearline drive that ships.

use plan::{Bytes, Duration};
use serde::Deserialize;

use super::{RotatingParameters, Scheduler, SsdParameters};

const KIB: u64 = 1024;
const GIB: u64 = 1 << 30;

fn yes() -> bool {
    true
}
fn steady_state() -> bool {
    true
}
/// Of TLC, thirds of the pages differ by about as much (see `read_spread_percent`); assumed for all flash.
const SPREAD_PERCENT: f64 = 20.0;
/// A few reads in a thousand are done over; with [`SPREAD_PERCENT`] the 99.99th percentile one deep is two to three times
/// the mean, as AnandTech measured it of drives of 2018 (Enterprise SSD roundup, page 5).
const RETRIES_PER_THOUSAND: f64 = 1.0;
/// A durable write one deep of drives without protection: the median of the eleven in `reference/ceph_diskbench_sync_writes.csv`
/// and its README (0.57 to 2.6 ms); without any one of them it is 0.92 to 1.07 ms. Samsung's own take about 2.2 ms, which
/// their files state as `durable_latency`.
const DURABLE_NS: f64 = 968_000.0;
/// The share of it that the map takes for each of several at a time. The drives of that table that do more with more jobs
/// do 2.75 times as much with four and 3.0 to 5.7 times with eight to fifteen: a page of the map and a share of 0.15 a job
/// give 2.8, and 4.0 to 4.8.
const EACH_SHARE: f64 = 0.15;
/// What of it at most is the program of a page that is not full; the rest is the map's. Half is assumed.
const PARTIAL_SHARE: f64 = 0.5;
/// A write keeps a SATA drive from its next command for so much longer than a read: its data need a setup and an
/// activation by the drive that a read's do not (Serial ATA 3.0, DMA Setup and DMA Activate FIS), on a link that moves one
/// way at a time. Fresh writes of the two drives of `reference/sata_ssds_fio.csv` reach 0.69 and 0.77 of the printed reads.
const SATA_WRITE_FACTOR: f64 = 1.37;
/// A write keeps a drive with power-loss protection on PCI Express or SAS from its next command for so much longer than a
/// read: it takes a place, and goes into the map. Sheets print its writes in steady state alone; a P3700 of 1.6 TB reached
/// 0.59 of its printed reads with ten jobs (`reference/ceph_journal_sync_writes.csv`), a PM9A3 of 1.92 TB 0.62 with four
/// (`reference/vitastor_drives.csv`).
const PROTECTED_WRITE_FACTOR: f64 = 1.65;
/// The same of a durable write with its flush, which writes under way at a time share: three drives with capacitors of
/// `reference/ceph_diskbench_sync_writes.csv` reach 0.51, 0.61 and 0.61 of the printed reads.
const SATA_DURABLE_FACTOR: f64 = 1.65;
/// Dies of flash hold 32 to 128 GiB; the small one leaves a small drive its parallelism.
const DIE_BYTES: u64 = 32 * GIB;
/// No page of TLC takes longer to program: chips of 64 to 176 layers write 50 to 184 MB/s a die of two to four planes (ISSCC
/// 2017 to 2021), 0.35 to 0.66 ms a page of 32 KiB. A large drive on a slow link has more dies than its writes keep busy; were
/// all of them busy, each read would wait for programs of 7 ms and more, and a mix would be slower than reads or writes alone.
const PROGRAM_MOST_NS: f64 = 1e6;
/// What the flush behind a durable write takes on SATA, where Linux sends it as a command of its own after the write (libata
/// does not use FUA unless it is told to), and where it is not queued beside others. Three drives with capacitors of
/// `reference/ceph_diskbench_sync_writes.csv` take 6, 21 and 29 us longer than their sheets' cached writes; without any one
/// of them the median is 13, 17 or 25.
const SATA_FLUSH_NS: f64 = 20_000.0;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdSheet {
    pub capacity_bytes: Bytes,
    /// The link, in 10^6 bytes/s; SATA moves one way at a time.
    pub interface_mb_per_s: f64,
    #[serde(default)]
    pub half_duplex: bool,
    /// Sequential rates, in 10^6 bytes/s; writes as they last.
    pub read_mb_per_s: f64,
    pub write_mb_per_s: f64,
    /// Random 4 KiB requests a second, deep; writes in steady state where `steady` says so, else fresh.
    pub read_iops: f64,
    pub write_iops: f64,
    /// Of a random read and of a cached write of 4 KiB, one deep.
    pub read_latency: Duration,
    pub write_latency: Duration,
    pub power_loss_protection: bool,
    /// Of a durable write of 4 KiB one deep, where somebody measured it; 0: as the class. With protection it is that of a
    /// cached one.
    #[serde(default)]
    pub durable_latency: Duration,
    /// How fast writes are while they go to an SLC cache of this size.
    #[serde(default)]
    pub slc_cache_bytes: Bytes,
    #[serde(default)]
    pub slc_mb_per_s: f64,
    #[serde(default = "steady_state")]
    pub steady: bool,
    #[serde(default = "yes")]
    pub write_cache: bool,
    /// Spare flash where the rate of random writes is that of a fresh drive, and so says nothing of it.
    #[serde(default)]
    pub over_provision_percent: f64,
}

impl SsdSheet {
    /// Or the key that cannot be, and why.
    pub fn drive(&self) -> Result<SsdParameters, (&'static str, String)> {
        let (page, map) = (32 * KIB, 4 * KIB);
        let ns = |bytes: u64, mb_per_s: f64| bytes as f64 * 1e3 / mb_per_s;
        let link_ns = ns(map, self.interface_mb_per_s);
        let channels: u64 = if self.read_mb_per_s > 1_000.0 { 8 } else { 4 };
        // Channels are twice as fast as the printed rates need, so that no channel is the limit of a stream.
        let fastest = self.read_mb_per_s.max(self.write_mb_per_s).max(self.slc_mb_per_s);
        let channel_mb_per_s = (2.0 * fastest / channels as f64).max(400.0);
        let overhead_ns = (self.write_latency.ns as f64 - link_ns).max(1_000.0);
        let read_ns = self.read_latency.ns as f64 - overhead_ns - link_ns - ns(map, channel_mb_per_s);
        if read_ns < 1_000.0 {
            let said = "read_latency is no longer than write_latency and the ways of 4 KiB; look at both";
            return Err(("read_latency", said.into()));
        }
        let interval_ns = 1e9 / self.read_iops;
        // Sheets of drives for servers print writes in steady state, which say nothing of how fast they are taken, also
        // where such a drive is looked at fresh; what they are taken to be follows from the reads.
        let printed_fresh = !self.steady && !self.power_loss_protection;
        let of_reads = if self.half_duplex { self.read_iops } else { self.read_iops / PROTECTED_WRITE_FACTOR };
        let fresh_write_iops = if printed_fresh { self.write_iops } else { of_reads.max(self.write_iops) };
        let write_interval_ns = if self.half_duplex {
            (interval_ns * SATA_WRITE_FACTOR).max(1e9 / fresh_write_iops)
        } else {
            1e9 / fresh_write_iops
        };
        let busy_dies = self.read_iops * read_ns / 1e9;
        let programming_dies = PROGRAM_MOST_NS / ns(page, self.write_mb_per_s);
        let of_capacity = (self.capacity_bytes.0 as f64 / DIE_BYTES as f64).min(programming_dies);
        let wanted = (1.5 * busy_dies).max(of_capacity).max(channels as f64);
        let dies_per_channel = ((wanted / channels as f64).ceil() as u64).min(64);
        let dies = (channels * dies_per_channel) as f64;
        let (erase_ns, pages_per_block) = (5e6, 1152);
        let erase_page_ns = erase_ns / f64::from(pages_per_block);
        // What a die does for a page that is written in order: it is loaded and programmed, and its block is erased.
        let written_ns = |mb_per_s: f64| dies * ns(page, mb_per_s);
        let programmed_ns =
            |of_page_ns: f64| (of_page_ns - ns(page, channel_mb_per_s) - erase_page_ns).max(of_page_ns / 2.0);
        let program_ns = programmed_ns(written_ns(self.write_mb_per_s));
        let slc_ns = if self.slc_mb_per_s > 0.0 { programmed_ns(written_ns(self.slc_mb_per_s)) } else { program_ns };
        let move_ns = read_ns + 2.0 * ns(page, channel_mb_per_s) + program_ns;
        let spare = if self.steady {
            // write_iops · map bytes are pages, each one as above, with W - 1 moves and W - 1 shares of an erase more.
            let page_ns = dies * 1e9 / (self.write_iops * map as f64 / page as f64);
            let more_ns = page_ns - written_ns(self.write_mb_per_s);
            let amplification = (1.0 + more_ns / (move_ns + erase_page_ns)).max(1.05);
            1.0 / (2.0 * amplification - 1.0)
        } else {
            self.over_provision_percent.max(7.0) / 100.0
        };
        let duration = |ns: f64| Duration { ns: ns as u64 };
        // A drive that is slow already when it caches is slower still when it may not.
        let usual_ns = DURABLE_NS.max(3.0 * overhead_ns);
        let durable_ns = if self.durable_latency.ns > 0 { self.durable_latency.ns as f64 } else { usual_ns };
        let partial_ns = program_ns.min(durable_ns * PARTIAL_SHARE);
        let map_ns = durable_ns - partial_ns - overhead_ns;
        if map_ns < 1_000.0 && !self.power_loss_protection {
            return Err(("durable_latency", "less than twice write_latency; look at both".into()));
        }
        let of_sata = |ns: f64| duration(if self.power_loss_protection && self.half_duplex { ns } else { 0.0 });
        let unprotected = |ns: f64| duration(if self.power_loss_protection { 0.0 } else { ns });
        Ok(SsdParameters {
            capacity_bytes: self.capacity_bytes,
            channels: channels as u32,
            dies_per_channel: dies_per_channel as u32,
            page_bytes: Bytes(page),
            map_bytes: Bytes(map),
            pages_per_block,
            read_time: duration(read_ns),
            program_time: duration(program_ns),
            slc_program_time: duration(slc_ns),
            erase_time: duration(erase_ns),
            over_provision_percent: spare * 100.0,
            slc_cache_bytes: self.slc_cache_bytes,
            dram_cache_bytes: Bytes((dies as u64 * page * 4).clamp(4 << 20, 64 << 20)),
            power_loss_protection: self.power_loss_protection,
            channel_mb_per_s,
            interface_mb_per_s: self.interface_mb_per_s.min(self.read_mb_per_s),
            command_overhead: duration(overhead_ns),
            steady: self.steady,
            read_spread_percent: SPREAD_PERCENT,
            read_retries_per_thousand: RETRIES_PER_THOUSAND,
            write_cache: self.write_cache,
            command_interval: duration(interval_ns),
            write_interval: duration(write_interval_ns),
            half_duplex: self.half_duplex,
            write_mb_per_s: 0.0,
            map_time: unprotected(map_ns),
            map_each: unprotected(durable_ns * EACH_SHARE),
            partial_program_time: unprotected(partial_ns),
            flush_time: of_sata(SATA_FLUSH_NS),
            flush_each: of_sata(interval_ns * (SATA_DURABLE_FACTOR - SATA_WRITE_FACTOR)),
        })
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSheet {
    pub capacity_bytes: Bytes,
    pub rpm: u32,
    /// Sustained rate of the outermost zone, in 10^6 bytes/s, which is the one that sheets print.
    pub outer_mb_per_s: f64,
    pub seek_average_read: Duration,
    pub seek_average_write: Duration,
    pub cache_bytes: Bytes,
    pub interface_mb_per_s: f64,
    #[serde(default)]
    pub inner_mb_per_s: f64,
    #[serde(default = "yes")]
    pub write_cache: bool,
}

impl DiskSheet {
    pub fn drive(&self) -> RotatingParameters {
        // A track seek is 0.08 of the average, a full stroke track + 2.2 (average - track): medians of drives that print
        // all three.
        let track = |average: Duration| Duration { ns: average.ns * 8 / 100 };
        let full = |average: Duration| Duration { ns: track(average).ns + (average.ns - track(average).ns) * 22 / 10 };
        let entries = (self.cache_bytes.0 / (256 * KIB)).clamp(16, 1024) as u32;
        RotatingParameters {
            capacity_bytes: self.capacity_bytes,
            rpm: self.rpm,
            heads: (self.capacity_bytes.0 / 1_000_000_000_000).clamp(2, 20) as u32,
            zones: 24,
            outer_mb_per_s: self.outer_mb_per_s,
            inner_mb_per_s: if self.inner_mb_per_s > 0.0 { self.inner_mb_per_s } else { self.outer_mb_per_s / 2.0 },
            seek_track_read: track(self.seek_average_read),
            seek_track_write: track(self.seek_average_write),
            seek_average_read: self.seek_average_read,
            seek_average_write: self.seek_average_write,
            seek_full_read: full(self.seek_average_read),
            seek_full_write: full(self.seek_average_write),
            head_switch: Duration { ns: 1_000_000 },
            write_settle: Duration { ns: 0 },
            command_overhead: Duration { ns: 20_000 },
            interface_mb_per_s: self.interface_mb_per_s,
            scheduler: Scheduler::Sptf,
            queue_depth: 32,
            age_limit: Duration { ns: 500_000_000 },
            cache_bytes: self.cache_bytes,
            read_segments: 8,
            read_ahead_bytes: Bytes((self.cache_bytes.0 / 64).clamp(512 * KIB, 4 << 20)),
            read_ahead_hold_bytes: Bytes(1 << 20),
            write_cache: self.write_cache,
            write_cache_entries: entries,
            destage_window: entries,
        }
    }
}
