//! The published block-level tables, each cell with the load and the brick that repeat it.
//!
//! What a table does not say is assumed once for the whole table, here and nowhere else: Iometer's 32 outstanding
//! requests are those of each of its 2 workers; sequential streams of the array tables begin at the drives' middle cylinder
//! (58 % of the sectors lie before it), because their figures are those of a mean zone; "random read/write", whose mix is
//! not printed, is reads, because the figures fall with the request size as reads alone would; oblLOAD's partition are the first 8 GiB, its hot spots a fifth of them in 4 places.

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    #[serde(rename = "requests/s")]
    Iops,
    #[serde(rename = "MiB/s")]
    MiBps,
    /// The highest rate at which the mean response stays within 100 ms.
    #[serde(rename = "requests/s within 100 ms")]
    IopsWithin,
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
    #[serde(skip)]
    pub profile: String,
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
    seconds: u32,
}

impl Load<'_> {
    fn toml(&self) -> String {
        let write_percent = 100 - self.read_percent;
        let streams = self.regions.iter().map(|region| {
            format!(
                "[[phase.stream]]\noperations = {{ read = {}, write = {write_percent} }}\nrequest = {}\naddress = \
                 \"{}\"\nworkers = {}\ndepth = {}\nregion = \"{region}\"\n",
                self.read_percent, self.request_bytes, self.pattern, self.workers, self.depth
            )
        });
        let streams: String = streams.collect();
        format!(
            "title = \"reference\"\ninterval = \"10s\"\n[[phase]]\nwarmup = \"5s\"\nduration = \"{}s\"\n{streams}",
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

/// Every cell of every table that this model repeats.
pub fn cells() -> Vec<Cell> {
    let mut all = Vec::new();
    mirror_cells(&mut all);
    disk_cells(&mut all);
    array_cells(&mut all);
    obl_load_cells(&mut all);
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
            seconds: 120,
        };
        all.push(Cell {
            table: format!("MSR 2003, table {}", row["table"]),
            group: format!("MSR 2003, table {}", row["table"]),
            label: format!(
                "{} {} depth {} {} mirror {}",
                row["pattern"], row["operation"], row["queue_depth"], row["drive"], row["mirror"]
            ),
            condition,
            published: number(row["value"]),
            unit: if row["metric"] == "iops" { Unit::Iops } else { Unit::MiBps },
            target: format!("sim:msr-2003-{drive}{suffix},condition={condition}"),
            profile: load.toml(),
        });
    }
}

fn disk_cells(all: &mut Vec<Cell>) {
    for row in rows(DISKS) {
        let disks = number(row["disks"]) as u32;
        let region = |d: u32| format!("{}%..{}%", f64::from(d) * 12.5, f64::from(d + 1) * 12.5);
        let load = Load {
            pattern: row["pattern"],
            read_percent: read_percent(row["operation"]),
            request_bytes: number(row["request_bytes"]) as u64,
            workers: 1,
            depth: number(row["queue_depth"]) as u32,
            regions: (0..disks).map(region).collect(),
            seconds: if row["pattern"] == "random" { 60 } else { 20 },
        };
        all.push(Cell {
            table: "MSR 2003, appendix".into(),
            group: format!("MSR 2003, appendix, {} {}", row["pattern"], row["operation"]),
            label: format!("{} {} {disks} disks", row["pattern"], row["operation"]),
            condition: "normal",
            published: number(row["iops"]),
            unit: Unit::Iops,
            target: "sim:msr-2003-appendix".into(),
            profile: load.toml(),
        });
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
        regions: vec![if random { "0..100%".into() } else { "58%..100%".into() }],
        seconds: if random { 60 } else { 10 },
    }
    .toml()
}

fn array_cells(all: &mut Vec<Cell>) {
    for row in rows(LEVELS) {
        let request_bytes = number(row["request_bytes"]) as u64;
        for level in ["raid6", "raid5"] {
            all.push(Cell {
                table: "Overland 2007, RAID-5 and RAID-6".into(),
                group: "Overland 2007, RAID-5 and RAID-6".into(),
                label: format!("sequential {} {request_bytes} B {level}", row["operation"]),
                condition: "normal",
                published: number(row[format!("{level}_MiBps").as_str()]),
                unit: Unit::MiBps,
                target: format!("sim:overland-2007-sata,level={level}"),
                profile: array_load("sequential", row["operation"], request_bytes),
            });
        }
    }
    for (text, table, brick) in [
        (OVERLAND, "Overland 2007, SAS and SATA", "overland-2007"),
        (NETWORK, "Network Computing 2006, SAS and SATA", "networkcomputing-2006"),
    ] {
        // The magazine's own mix is not described.
        for row in rows(text).into_iter().filter(|r| !r["request_bytes"].is_empty()) {
            let request_bytes = number(row["request_bytes"]) as u64;
            all.push(Cell {
                table: table.into(),
                group: table.into(),
                label: format!("{} {} {request_bytes} B {}", row["pattern"], row["operation"], row["drive"]),
                condition: "normal",
                published: number(row["iops"]),
                unit: Unit::Iops,
                target: format!("sim:{brick}-{}", row["drive"].to_lowercase()),
                profile: array_load(row["pattern"], row["operation"], request_bytes),
            });
        }
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
        all.push(Cell {
            table: "openBench 2003, oblLOAD".into(),
            group: "openBench 2003, oblLOAD".into(),
            label: format!("{}, {}", row["subject"], row["volume"]),
            condition: "normal",
            published: number(row["value"]),
            unit: Unit::IopsWithin,
            target: format!("sim:{brick}"),
            profile: profile.into(),
        });
    }
}

/// Runs a cell on its modelled brick and gives its figure in the unit of the published one.
pub fn simulate(cell: &Cell, bricks: &Texts) -> Result<f64, String> {
    let at = |e: String| format!("{}, {}: {e}", cell.table, cell.label);
    let profile = Profile::from_toml(&cell.profile, &[]).map_err(|e| at(e.to_string()))?;
    let options = Options { bricks: bricks.clone(), ..Options::default() };
    let session = prepare(profile, std::slice::from_ref(&cell.target), &options).map_err(at)?;
    let (mut requests, mut bytes, mut measured_ns, mut within) = (0, 0, 0, 0.0_f64);
    let mut failed = None;
    session.run(&RunControl::default(), &mut |event| match event {
        Event::Interval(i) if !i.warmup && !i.drain => {
            let count: u64 = i.cells.iter().map(|c| c.requests).sum();
            requests += count;
            bytes += i.cells.iter().map(|c| c.bytes).sum::<u64>();
            measured_ns += i.end_ns - i.start_ns;
            let mean_ns = i.cells.first().map_or(0.0, |c| c.measures[&Timed::Response].mean_ns);
            if mean_ns <= 1e8 {
                within = within.max(count as f64 * 1e9 / (i.end_ns - i.start_ns) as f64);
            }
        }
        Event::End { outcome: RunOutcome::Failed, message, .. } => failed = Some(message),
        _ => {}
    });
    if let Some(message) = failed {
        return Err(at(message));
    }
    let seconds = measured_ns as f64 / 1e9;
    Ok(match cell.unit {
        Unit::Iops => requests as f64 / seconds,
        Unit::MiBps => bytes as f64 / 1_048_576.0 / seconds,
        Unit::IopsWithin => within,
    })
}
