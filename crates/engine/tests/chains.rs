//! Dependent chains: each step waits for the one before it, and whole chains have times and counts of their own.

mod virtual_storage;

use engine::device::Operation;
use engine::event::Timed;
use virtual_storage::{Fault, MS, Storage, US, run};

const MIB: u64 = 1 << 20;

const CHAIN: &str = "chain = ['read', { think = '1ms' }, 'write', 'read']";

fn profile(limit: &str, stream: &str) -> String {
    format!("title = 'chains'\n[[phase]]\n{limit}\n[[phase.stream]]\nrequest = '4KiB'\naddress = 'random'\n{stream}\n")
}

#[test]
fn steps_depend_on_each_other_at_one_place() {
    let text = profile("requests = 300", &format!("{CHAIN}\nverify = true"));
    let told = run(Storage::new(4 * MIB, 1).timed(|_, _, _| 100 * US), &text);
    let log = told.world().log.clone();
    assert_eq!(log.len(), 300);
    for steps in log.chunks(3) {
        let operations: Vec<Operation> = steps.iter().map(|s| s.operation).collect();
        assert_eq!(operations, [Operation::Read, Operation::Write, Operation::Read]);
        assert!(steps.iter().all(|s| s.offset_bytes == steps[0].offset_bytes));
        assert!(steps[1].submitted_ns >= steps[0].ended_ns + MS, "the pause is kept");
        assert!(steps[2].submitted_ns >= steps[1].ended_ns);
    }
    let totals = told.totals(0);
    assert_eq!((totals[&(0, "read")].0, totals[&(0, "write")].0, totals[&(0, "chain")].0), (200, 100, 100));
    let verified = told.end(0).verified.expect("a verified phase");
    assert_eq!((verified.damaged_blocks, verified.checked_blocks >= 100), (0, true));
}

#[test]
fn a_chains_response_spans_its_pauses() {
    let text = profile("requests = 300", CHAIN);
    let told = run(Storage::new(4 * MIB, 1).timed(|_, _, _| 100 * US), &text);
    let chains: Vec<_> =
        told.intervals(0).into_iter().flat_map(|i| &i.cells).filter(|c| c.operation == "chain").collect();
    let mean = chains.iter().map(|c| c.measures[&Timed::Response].mean_ns * c.requests as f64).sum::<f64>() / 100.0;
    // Three requests of 100 µs and a pause of 1 ms.
    assert!((mean / 1.3e6 - 1.0).abs() < 0.01, "{mean}");
}

#[test]
fn an_open_loop_makes_chains_due_not_steps() {
    let pace = "pace = { loop = 'open', rate = 100 }\ndepth = 8";
    let told = run(
        Storage::new(4 * MIB, 1).timed(|_, _, _| 100 * US),
        &profile("duration = '2s'", &format!("{CHAIN}\n{pace}")),
    );
    let totals = told.totals(0);
    assert_eq!(totals[&(0, "chain")].0, 200);
    assert_eq!(totals[&(0, "read")].0, 400);
}

#[test]
fn a_failed_step_ends_its_chain_and_only_that() {
    let plot = |order: &engine::device::Order, number: u64, _: &mut virtual_storage::Dice| {
        (order.operation == Operation::Write && number.is_multiple_of(10)).then_some(Fault::Errno(5))
    };
    let told = run(Storage::new(4 * MIB, 1).faulty(plot), &profile("duration = '2s'", &format!("{CHAIN}\ndepth = 4")));
    let totals = told.totals(0);
    let (chains, broken) = (totals[&(0, "chain")].0, totals[&(0, "chain")].2);
    let failed_writes = totals[&(0, "write")].2;
    assert!(failed_writes > 10);
    assert_eq!(broken, failed_writes);
    // Every write that went well was followed by its read, except in chains that the end of the phase cut.
    let writes = totals[&(0, "write")].0;
    assert!(chains <= writes && writes - chains <= 4, "{chains} chains, {writes} writes");
}
