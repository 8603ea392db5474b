//! The published block-level tables, each cell with the load and the brick that repeat it.
//!
//! What a table does not say is assumed once for the whole table, here and nowhere else: Iometer's 32 outstanding
//! requests are those of each of its 2 workers, and its addresses are multiples of a sector, as its default has it;
//! sequential streams of the array tables begin at the drives' middle cylinder (58 % of the sectors lie before it), because
//! their figures are those of a mean zone; "random read/write", whose mix is not printed, is reads, because the figures fall
//! with the request size as reads alone would; random rows of Overland's SATA drives are those of its 500 GB drives in
//! RAID-5, whose table has the same figures; the HighPoint's files lie on the first 40 % of each drive, since sorting four
//! requests brings a third less than its figures have over the other controller's; oblLOAD's partition are the first
//! 8 GiB, its hot spots a fifth of them in 4 places.
//!
//! A table is fitted, when values of its products were set by it, or held out. Fitted tables have a second target: with the
//! values that the products would have without the table (`reference/left_out.toml`).

use std::sync::LazyLock;

use engine::conductor::RunControl;
use engine::event::{Event, RunOutcome, Timed};
use plan::Profile;
use serde::Serialize;

use crate::brick::Texts;
use crate::session::{Options, prepare};

const MIRRORS: &str = include_str!("../../../reference/msr_2003_mirror_states.csv");
const DISKS: &str = include_str!("../../../reference/msr_2003_disks_3ware.csv");
const LEVELS: &str = include_str!("../../../reference/overland_2007_raid5_raid6.csv");
const OVERLAND: &str = include_str!("../../../reference/overland_2007_sas_sata.csv");
const NETWORK: &str = include_str!("../../../reference/networkcomputing_2006_sas_sata.csv");
const OPENBENCH: &str = include_str!("../../../reference/openbench_2003_escalade.csv");
const HIGHPOINT: &str = include_str!("../../../reference/msr_2003_disks_highpoint.csv");
const DRIVES: &str = include_str!("../../../reference/overland_2007_500_750.csv");
const SYNC_WRITES: &str = include_str!("../../../reference/ceph_diskbench_sync_writes.csv");
const MIXED: &str = include_str!("../../../reference/ezfio_mixed_random.csv");
const SATA_SSDS: &str = include_str!("../../../reference/sata_ssds_fio.csv");
const SINGLE_RESULTS: &str = include_str!("../../../reference/single_results_fio.csv");
const EBS_VOLUMES: &str = include_str!("../../../reference/ebs_volumes_fio.csv");
const AZURE_VOLUMES: &str = include_str!("../../../reference/azure_volumes_fio.csv");
const NEARLINE: &str = include_str!("../../../reference/nearline_fio.csv");
const NVME_MIRROR: &str = include_str!("../../../reference/nvme_mirror_fio.csv");
const NVME_STRIPE: &str = include_str!("../../../reference/nvme_stripe_fio.csv");
const SATA_ARRAYS: &str = include_str!("../../../reference/sata_ssd_arrays_fio.csv");
const EX920: &str = include_str!("../../../reference/ex920_fio.csv");
const KBENCH: &str = include_str!("../../../reference/kbench_850_pro.csv");
const KITGURU: &str = include_str!("../../../reference/kitguru_nm790.csv");
const JOURNALS: &str = include_str!("../../../reference/ceph_journal_sync_writes.csv");
const FSYNC_HOSTS: &str = include_str!("../../../reference/fsync_hosts.csv");
const FDATASYNC: &str = include_str!("../../../reference/fdatasync_fio.csv");
const VITASTOR: &str = include_str!("../../../reference/vitastor_drives.csv");
const ANANDTECH: &str = include_str!("../../../reference/anandtech_p3700.csv");
const GP2_VPS: &str = include_str!("../../../reference/gp2_vps_fio.csv");
const GP3_EKS: &str = include_str!("../../../reference/gp3_eks_fio.csv");
const ZFS_S3500: &str = include_str!("../../../reference/zfs_s3500_fio.csv");
const ZFS_860: &str = include_str!("../../../reference/zfs_860_mirrors_fio.csv");
const ZFS_XENON: &str = include_str!("../../../reference/zfs_xenon_fio.csv");
const ZFS_TRUENAS: &str = include_str!("../../../reference/zfs_truenas_fsync.csv");
const LEFT_OUT: &str = include_str!("../../../reference/left_out.toml");

/// Tables that values of products were set by, or of classes: `brick/sheet.rs` has a median of the Ceph table, and ratios of
/// it, of the SATA drives, of journals and of Vitastor's drives; Samsung's drives without protection have a median of several
/// tables; and the pools of two issues say what a record costs ZFS.
const FITTED: [&str; 13] = [
    "MSR 2003, table",
    "MSR 2003, appendix",
    "MSR 2003, HighPoint",
    "Overland 2007",
    "Network Computing",
    "openBench",
    "Ceph disk benchmarks",
    "SATA SSDs by fio",
    "Ceph journals",
    "Fsync on rented servers",
    "Fdatasync at home, durable",
    "Vitastor's drives",
    "OpenZFS issue",
];
/// Where streams of the array tables begin; a seed moves it by a little.
const MIDDLE: &str = "58%..100%";
const MIDDLES: [&str; 5] = [MIDDLE, "56.3%..100%", "59.1%..100%", "57.4%..100%", "60.2%..100%"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    #[serde(rename = "requests/s")]
    Iops,
    #[serde(rename = "MiB/s")]
    MiBps,
    /// The highest rate at which the mean response stays within 100 ms.
    #[serde(rename = "requests/s within 100 ms")]
    IopsWithin,
    #[serde(rename = "us")]
    MeanUs,
}

/// One published figure.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    pub table: String,
    /// Figures of one group are compared with one another.
    pub group: String,
    pub label: String,
    pub condition: &'static str,
    pub published: f64,
    pub unit: Unit,
    pub target: String,
    /// Whether values of its products were set by its table.
    pub fitted: bool,
    /// The brick with the values that it would have without this table, where those differ.
    pub left_out: Option<String>,
    /// What it asks of the brick, in TOML.
    pub profile: String,
}

impl Cell {
    /// A cell of a table; what the table was used for is told by its name.
    fn new(table: &str, label: String, published: f64, unit: Unit, target: String, profile: String) -> Cell {
        let fitted = FITTED.iter().any(|name| table.starts_with(name));
        let left_out = without(table, &target);
        let table = table.to_string();
        let group = table.clone();
        Cell { table, group, label, condition: "normal", published, unit, target, fitted, left_out, profile }
    }
}

/// A brick without what a table taught.
fn without(table: &str, target: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Value {
        table: String,
        #[serde(default)]
        only: String,
        set: String,
    }
    #[derive(serde::Deserialize)]
    struct Values {
        value: Vec<Value>,
    }
    static VALUES: LazyLock<Vec<Value>> =
        LazyLock::new(|| toml::from_str::<Values>(LEFT_OUT).map(|v| v.value).unwrap_or_default());
    let own: Vec<&str> =
        VALUES.iter().filter(|v| v.table == table && target.contains(&v.only)).map(|v| v.set.as_str()).collect();
    (!own.is_empty()).then(|| format!("{target},{}", own.join(",")))
}

/// A comma-separated table without quotes, by column names.
fn rows(text: &'static str) -> Vec<std::collections::BTreeMap<&'static str, &'static str>> {
    let mut lines = text.lines().map(str::trim_end).filter(|l| !l.is_empty() && !l.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines.map(|line| names.iter().copied().zip(line.split(',')).collect()).collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

/// A stream of one kind of request.
struct Load<'a> {
    pattern: &'a str,
    read_percent: u32,
    request_bytes: u64,
    workers: u32,
    depth: u32,
    regions: Vec<String>,
    seconds: f64,
    /// Anything else that a stream says.
    more: &'a str,
}

impl Load<'_> {
    fn toml(&self) -> String {
        let write_percent = 100 - self.read_percent;
        let streams = self.regions.iter().map(|region| {
            format!(
                "[[phase.stream]]\noperations = {{ read = {}, write = {write_percent} }}\nrequest = {}\naddress = \
                 \"{}\"\nworkers = {}\ndepth = {}\nregion = \"{region}\"\n{}",
                self.read_percent, self.request_bytes, self.pattern, self.workers, self.depth, self.more
            )
        });
        let streams: String = streams.collect();
        format!(
            "title = \"reference\"\ninterval = \"10s\"\n[[phase]]\nwarmup = \"{}s\"\nduration = \"{}s\"\n{streams}",
            self.seconds.min(20.0) / 4.0,
            self.seconds
        )
    }
}

fn read_percent(operation: &str) -> u32 {
    match operation {
        "read" => 100,
        "write" => 0,
        _ => 100,
    }
}

/// Every cell of every table that this model repeats; read once, since each simulated figure asks for its cell.
pub fn cells() -> &'static [Cell] {
    static CELLS: LazyLock<Vec<Cell>> = LazyLock::new(read_cells);
    &CELLS
}

fn read_cells() -> Vec<Cell> {
    let mut all = Vec::new();
    mirror_cells(&mut all);
    disk_cells(&mut all);
    array_cells(&mut all);
    drive_cells(&mut all);
    obl_load_cells(&mut all);
    for (text, table) in [
        (SYNC_WRITES, "Ceph disk benchmarks, durable writes"),
        (MIXED, "ezFIO results, NVMe, 70 % reads"),
        (SATA_SSDS, "SATA SSDs by fio"),
        (SINGLE_RESULTS, "Single results by fio"),
        (EBS_VOLUMES, "EBS volumes by fio, random writes by size"),
        (AZURE_VOLUMES, "Azure volumes by fio"),
        (NEARLINE, "Nearline disks of 16 TB by fio"),
        (NVME_MIRROR, "Mirror of NVMe drives by md"),
        (KBENCH, "kbench results, SATA SSD"),
        (KITGURU, "KitGuru, consumer NVMe"),
        (NVME_STRIPE, "Stripe of NVMe drives by md"),
        (SATA_ARRAYS, "SATA SSDs in a QNAP"),
        (EX920, "EX920 by io_uring"),
        (JOURNALS, "Ceph journals, durable writes"),
        (FSYNC_HOSTS, "Fsync on rented servers, durable writes"),
        (FDATASYNC, "Fdatasync at home, durable writes"),
        (VITASTOR, "Vitastor's drives"),
        (ANANDTECH, "AnandTech, P3700"),
        (GP2_VPS, "VPS comparison, gp2"),
        (GP3_EKS, "EKS nodes, gp3"),
        (ZFS_S3500, "OpenZFS issue 6040, two SATA SSDs"),
        (ZFS_860, "OpenZFS issue 10145, mirrors of SATA SSDs"),
        (ZFS_XENON, "Pools of xenon, disks"),
        (ZFS_TRUENAS, "Fdatasync at home, raidz2"),
    ] {
        flash_cells(text, table, &mut all);
    }
    all
}

fn mirror_cells(all: &mut Vec<Cell>) {
    for row in rows(MIRRORS) {
        let drive = row["drive"].to_lowercase();
        let suffix = match row["mirror"] {
            "software" => "-software-mirror",
            "3ware" => "-hardware-mirror",
            _ => "",
        };
        let condition = match row["state"] {
            "controller_rebuild" => "neighbour_rebuilding",
            "volume_rebuild" => "rebuilding",
            _ => "normal",
        };
        let load = Load {
            pattern: row["pattern"],
            read_percent: read_percent(row["operation"]),
            request_bytes: number(row["request_bytes"]) as u64,
            workers: 1,
            depth: number(row["queue_depth"]) as u32,
            regions: vec!["0..100%".into()],
            seconds: 120.0,
            more: "",
        };
        let table = format!("MSR 2003, table {}", row["table"]);
        let label = format!(
            "{} {} depth {} {} mirror {}",
            row["pattern"], row["operation"], row["queue_depth"], row["drive"], row["mirror"]
        );
        let unit = if row["metric"] == "iops" { Unit::Iops } else { Unit::MiBps };
        let target = format!("sim:msr-2003-{drive}{suffix},condition={condition}");
        let cell = Cell::new(&table, label, number(row["value"]), unit, target, load.toml());
        all.push(Cell { condition, ..cell });
    }
}

fn disk_cells(all: &mut Vec<Cell>) {
    let tables = [
        (DISKS, "MSR 2003, appendix", "msr-2003-appendix", 8, 100.0),
        (HIGHPOINT, "MSR 2003, HighPoint", "msr-2003-highpoint", 4, 40.0),
    ];
    for (text, table, brick, members, used_percent) in tables {
        for row in rows(text) {
            let disks = number(row["disks"]) as u32;
            let (sequential, share) = (row["pattern"] != "random", 100.0 / f64::from(members));
            let used = if sequential { share } else { share * used_percent / 100.0 };
            let region = |d: u32| format!("{}%..{}%", f64::from(d) * share, f64::from(d) * share + used);
            let load = Load {
                pattern: row["pattern"],
                read_percent: read_percent(row["operation"]),
                request_bytes: number(row["request_bytes"]) as u64,
                workers: 1,
                depth: number(row["queue_depth"]) as u32,
                regions: (0..disks).map(region).collect(),
                seconds: if sequential { 20.0 } else { 60.0 },
                more: "",
            };
            let label = format!("{} {} {disks} disks", row["pattern"], row["operation"]);
            let target = format!("sim:{brick}");
            let cell = Cell::new(table, label, number(row["iops"]), Unit::Iops, target, load.toml());
            all.push(Cell { group: format!("{table}, {} {}", row["pattern"], row["operation"]), ..cell });
        }
    }
}

fn array_load(pattern: &str, operation: &str, request_bytes: u64) -> String {
    let random = pattern == "random";
    Load {
        pattern,
        read_percent: read_percent(operation),
        request_bytes,
        workers: 2,
        depth: 32,
        regions: vec![if random { "0..100%".into() } else { MIDDLE.into() }],
        seconds: if random { 40.0 } else { 10.0 },
        more: if random { "align = 512\n" } else { "" },
    }
    .toml()
}

fn array_cells(all: &mut Vec<Cell>) {
    for row in rows(LEVELS) {
        let request_bytes = number(row["request_bytes"]) as u64;
        for level in ["raid6", "raid5"] {
            all.push(Cell::new(
                "Overland 2007, RAID-5 and RAID-6",
                format!("sequential {} {request_bytes} B {level}", row["operation"]),
                number(row[format!("{level}_MiBps").as_str()]),
                Unit::MiBps,
                format!("sim:overland-2007-sata,level={level}"),
                array_load("sequential", row["operation"], request_bytes),
            ));
        }
    }
    for (text, table, brick) in [
        (OVERLAND, "Overland 2007, SAS and SATA", "overland-2007"),
        (NETWORK, "Network Computing 2006, SAS and SATA", "networkcomputing-2006"),
    ] {
        // The magazine's own mix is not described.
        for row in rows(text).into_iter().filter(|r| !r["request_bytes"].is_empty()) {
            let request_bytes = number(row["request_bytes"]) as u64;
            let smaller = brick.starts_with("overland") && row["drive"] == "SATA" && row["pattern"] == "random";
            let drive = if smaller { ",level=raid5,drive=barracuda-es-500" } else { "" };
            all.push(Cell::new(
                table,
                format!("{} {} {request_bytes} B {}", row["pattern"], row["operation"], row["drive"]),
                number(row["iops"]),
                Unit::Iops,
                format!("sim:{brick}-{}{drive}", row["drive"].to_lowercase()),
                array_load(row["pattern"], row["operation"], request_bytes),
            ));
        }
    }
}

/// Seven request sizes by three kinds of access: "512B Sequential Read".
fn drive_cells(all: &mut Vec<Cell>) {
    for row in rows(DRIVES) {
        let words: Vec<&str> = row["access"].split(' ').collect();
        let size = words[0].trim_end_matches('B');
        let request_bytes = match size.strip_suffix(['K', 'M']) {
            Some(count) => number(count) as u64 * if size.ends_with('M') { 1 << 20 } else { 1 << 10 },
            None => number(size) as u64,
        };
        let (pattern, operation) = (words[1].to_lowercase(), words.get(2).map_or("read".into(), |w| w.to_lowercase()));
        for drive in ["500", "750"] {
            all.push(Cell::new(
                "Overland 2007, 500 and 750 GB",
                format!("{pattern} {operation} {request_bytes} B {drive} GB"),
                number(row[format!("iops_{drive}").as_str()]),
                Unit::Iops,
                format!("sim:overland-2007-sata,level=raid5,drive=barracuda-es-{drive}"),
                array_load(&pattern, &operation, request_bytes),
            ));
        }
    }
}

/// One drive, volume or array of them a row, in a hundredth of the time that disks take: flash is that much faster. Several
/// changes of one row have `;` between them.
fn flash_cells(text: &'static str, table: &str, all: &mut Vec<Cell>) {
    for row in rows(text) {
        let read_percent = number(row["read_percent"]) as u32;
        let usual_s = if number(row["workers"]) * number(row["depth"]) > 8.0 { 0.05 } else { 0.2 };
        let load = Load {
            pattern: row["pattern"],
            read_percent,
            request_bytes: number(row["request_bytes"]) as u64,
            workers: number(row["workers"]) as u32,
            depth: number(row["depth"]) as u32,
            // What was tested of a drive is a small part of it.
            regions: vec![row.get("region").copied().unwrap_or("0..8GiB").into()],
            seconds: row.get("seconds").map_or(usual_s, |text| number(text)),
            more: if row["sync"] == "none" { "" } else { "sync = \"dsync\"\n" },
        };
        let unit = match row["unit"] {
            "mean_us" => Unit::MeanUs,
            "iops" => Unit::Iops,
            _ => Unit::MiBps,
        };
        let published = number(row["value"]) * if row["unit"] == "kib_per_s" { 1.0 / 1024.0 } else { 1.0 };
        let published = if row["unit"] == "mb_per_s" { published * 1e6 / 1_048_576.0 } else { published };
        let (workers, depth) = (row["workers"], row["depth"]);
        let label = format!(
            "{} {read_percent}/{} {} B {workers} × {depth} {}",
            row["pattern"],
            100 - read_percent,
            row["request_bytes"],
            row["label"]
        );
        // Runs of a minute on a hundredth of a drive leave the rest of it spare, and so does a small namespace.
        let fresh = if row["sync"] == "none" { "drive.steady=false" } else { "" };
        let changes = row.get("changes").copied().unwrap_or(fresh);
        let comma = if changes.is_empty() { "" } else { "," };
        let target = format!("sim:{}{comma}{}", row["brick"], changes.replace(';', ","));
        let cell = Cell::new(table, label, published, unit, target, load.toml());
        // Results of different people are not compared with one another.
        let group = row.get("table").map_or(cell.group.clone(), |own| format!("{table}, {own}"));
        all.push(Cell { group, ..cell });
    }
}

fn obl_load_cells(all: &mut Vec<Cell>) {
    for row in rows(OPENBENCH).into_iter().filter(|r| r["metric"].contains("100 ms")) {
        let brick = match row["subject"] {
            s if s.contains("SCSI") => "openbench-2003-scsi",
            s if s.contains("RAID-10") => "openbench-2003-raid10",
            _ => "openbench-2003-raid5",
        };
        let profile = "title = \"oblLOAD\"\ninterval = \"5s\"\n[[phase]]\nduration = \"1000s\"\nstop = { when = \"mean\", above = \"100ms\" }\n\
                       ramp = { knob = \"depth\", from = 1, to = 400, factor = 1.15, every = \"5s\" }\n\
                       [[phase.stream]]\nrequest = \"8KiB\"\nregion = \"0..8GiB\"\n\
                       address = { kind = \"hot_spots\", requests = 80, space = 20, spots = 4 }\n";
        all.push(Cell::new(
            "openBench 2003, oblLOAD",
            format!("{}, {}", row["subject"], row["volume"]),
            number(row["value"]),
            Unit::IopsWithin,
            format!("sim:{brick}"),
            profile.into(),
        ));
    }
}

/// Runs a cell on its modelled brick, or on the one without what its table taught, and gives its figure in the unit of the
/// published one. A seed decides how spindles stand, where requests go, and a little where streams begin.
pub fn simulate(cell: &Cell, bricks: &Texts, seed: u64, left_out: bool) -> Result<f64, String> {
    let at = |e: String| format!("{}, {}: {e}", cell.table, cell.label);
    let text = cell.profile.replace(MIDDLE, MIDDLES[(seed % MIDDLES.len() as u64) as usize]);
    let profile = Profile::from_toml(&format!("seed = {seed}\n{text}"), &[]).map_err(|e| at(e.to_string()))?;
    let target = cell.left_out.as_ref().filter(|_| left_out).unwrap_or(&cell.target);
    let options = Options { bricks: bricks.clone(), ..Options::default() };
    let session = prepare(profile, std::slice::from_ref(target), &options).map_err(|e| at(e.message))?;
    let (mut requests, mut bytes, mut measured_ns, mut within, mut waited_ns) = (0, 0, 0, 0.0_f64, 0.0);
    let mut failed = None;
    session.run(&RunControl::default(), &mut |event| match event {
        Event::Interval(i) if !i.warmup && !i.drain => {
            let count: u64 = i.cells.iter().map(|c| c.requests).sum();
            requests += count;
            bytes += i.cells.iter().map(|c| c.bytes).sum::<u64>();
            measured_ns += i.end_ns - i.start_ns;
            waited_ns += i.cells.iter().map(|c| c.requests as f64 * c.measures[&Timed::Service].mean_ns).sum::<f64>();
            let mean_ns = i.cells.first().map_or(0.0, |c| c.measures[&Timed::Response].mean_ns);
            if mean_ns <= 1e8 {
                within = within.max(count as f64 * 1e9 / (i.end_ns - i.start_ns) as f64);
            }
        }
        Event::End { outcome: RunOutcome::Failed, message, .. } => failed = Some(message),
        _ => {}
    });
    if let Some(message) = failed {
        return Err(at(message.map_or_else(String::new, |reason| reason.to_string())));
    }
    let seconds = measured_ns as f64 / 1e9;
    Ok(match cell.unit {
        Unit::Iops => requests as f64 / seconds,
        Unit::MiBps => bytes as f64 / 1_048_576.0 / seconds,
        Unit::IopsWithin => within,
        Unit::MeanUs => waited_ns / 1e3 / (requests as f64).max(1.0),
    })
}
