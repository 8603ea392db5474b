//! How many simulated requests a second the models make on one core, engine included: by the time that this thread was on
//! a processor, since other work on the machine would count as well by the clock. Medians of rounds.
//!
//! `cargo run --release -p brickyard-sim --example speed`

use engine::conductor::RunControl;
use engine::event::Event;
use plan::Profile;
use sim::session::{Options, prepare};

#[path = "../tests/common/mod.rs"]
mod common;

/// What it is, the brick, the percentage of reads, how deep, and how many requests.
const CASES: [(&str, &str, u32, u32, u64); 6] = [
    ("one drive, FIFO, random 8 KiB, 4 deep", "sim:wd2500jd", 100, 4, 1_000_000),
    (
        "RAID-10 of 8 drives, NCQ, random 8 KiB, 32 deep",
        "sim:msr-2003-wd,drive=barracuda-es-750,controller=,level=raid10,members=8",
        100,
        32,
        500_000,
    ),
    ("NVMe drive, random 8 KiB, 64 deep", "sim:nvme-tlc-3840", 100, 64, 1_000_000),
    ("SQLIO of 5 minutes on a drive of 2003, 4 deep", "sim:wd2500jd", 100, 4, 22_500),
    ("20 TB drive of 1,024 cached writes, random writes of 8 KiB, 32 deep", "sim:nearline-20tb", 0, 32, 100_000),
    ("the same, half of them reads", "sim:nearline-20tb", 50, 32, 100_000),
];

const ROUNDS: usize = 5;

/// Nanoseconds that this thread ran (Linux Documentation/scheduler/sched-stats.rst).
fn ran_ns() -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").map_err(|e| format!("schedstat: {e}"))?;
    text.split_whitespace().next().and_then(|n| n.parse().ok()).ok_or_else(|| format!("schedstat: {text}"))
}

/// Millions of requests a second of processor time, and the virtual seconds of the run.
fn round(target: &str, reads: u32, depth: u32, requests: u64) -> Result<(f64, f64), String> {
    let text = format!(
        "title = \"speed\"\ninterval = \"60s\"\n[[phase]]\nrequests = {requests}\n[[phase.stream]]\nrequest = \"8KiB\"\naddress = \"random\"\ndepth = {depth}\noperations = {{ read = {reads}, write = {} }}\n",
        100 - reads
    );
    let profile = Profile::from_toml(&text, &[]).map_err(|e| e.to_string())?;
    let options = Options { bricks: common::brick_texts(), ..Options::default() };
    let session = prepare(profile, &[target.to_string()], &options)?;
    let before_ns = ran_ns()?;
    let mut end_ns = 0;
    session.run(&RunControl::default(), &mut |event| {
        if let Event::End { end_ns: at_ns, .. } = event {
            end_ns = at_ns;
        }
    });
    let seconds = (ran_ns()? - before_ns) as f64 / 1e9;
    Ok((requests as f64 / seconds / 1e6, end_ns as f64 / 1e9))
}

fn main() -> Result<(), String> {
    for (label, target, reads, depth, requests) in CASES {
        let rounds = (0..ROUNDS).map(|_| round(target, reads, depth, requests)).collect::<Result<Vec<_>, _>>()?;
        let mut rates: Vec<f64> = rounds.iter().map(|r| r.0).collect();
        rates.sort_by(f64::total_cmp);
        println!(
            "{label}: {:.2} million requests/s ({:.2} to {:.2}), {:.1} ms for {:.0} simulated seconds",
            rates[ROUNDS / 2],
            rates[0],
            rates[ROUNDS - 1],
            requests as f64 / rates[ROUNDS / 2] / 1e3,
            rounds[0].1
        );
    }
    Ok(())
}
