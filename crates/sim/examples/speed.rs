//! How many simulated requests a second of wall time the models make on one core, engine included.
//!
//! `cargo run --release -p brickyard-sim --example speed`

use std::time::Instant;

use engine::conductor::RunControl;
use engine::event::Event;
use plan::Profile;
use sim::session::{Options, prepare};

#[path = "../tests/common/mod.rs"]
mod common;

/// What it is, the brick, the percentage of reads, how deep, and how many requests.
const CASES: [(&str, &str, u32, u32, u64); 6] = [
    ("one drive, FIFO, random 8 KiB, 4 deep", "sim:wd2500jd", 100, 4, 4_000_000),
    (
        "RAID-10 of 8 drives, NCQ, random 8 KiB, 32 deep",
        "sim:msr-2003-wd,drive=barracuda-es-750,controller=,level=raid10,members=8",
        100,
        32,
        2_000_000,
    ),
    ("NVMe drive, random 8 KiB, 64 deep", "sim:nvme-tlc-3840", 100, 64, 2_000_000),
    ("SQLIO of 5 minutes on a drive of 2003, 4 deep", "sim:wd2500jd", 100, 4, 22_500),
    ("20 TB drive of 1,024 cached writes, random writes of 8 KiB, 32 deep", "sim:nearline-20tb", 0, 32, 300_000),
    ("the same, half of them reads", "sim:nearline-20tb", 50, 32, 300_000),
];

fn main() -> Result<(), String> {
    for (label, target, reads, depth, requests) in CASES {
        let text = format!(
            "title = \"speed\"\ninterval = \"60s\"\n[[phase]]\nrequests = {requests}\n[[phase.stream]]\nrequest = \"8KiB\"\naddress = \"random\"\ndepth = {depth}\noperations = {{ read = {reads}, write = {} }}\n",
            100 - reads
        );
        let profile = Profile::from_toml(&text, &[]).map_err(|e| e.to_string())?;
        let options = Options { bricks: common::brick_texts(), ..Options::default() };
        let session = prepare(profile, &[target.to_string()], &options)?;
        let begun = Instant::now();
        let mut end_ns = 0;
        session.run(&RunControl::default(), &mut |event| {
            if let Event::End { end_ns: at_ns, .. } = event {
                end_ns = at_ns;
            }
        });
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{label}: {:.2} million requests/s, {:.1} ms for {:.0} simulated seconds",
            requests as f64 / seconds / 1e6,
            seconds * 1e3,
            end_ns as f64 / 1e9
        );
    }
    Ok(())
}
