//! Whole runs on real files and loop devices: right bytes, damage named where it is, failures counted, holes punched.

mod common;

use block::session::{Options, prepare};
use common::*;
use engine::conductor::RunControl;
use engine::event::{EngineReason, Event, PhaseEnd, RunOutcome, Start, SubmitReason, Timed};
use plan::Profile;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const DATA_START: u64 = MIB;

struct Told(Vec<Event>);

fn options(create_bytes: Option<u64>, path: &Path) -> Options {
    Options { create_bytes, overwrite: vec![path.to_path_buf()], destroys_data: true, ..Options::default() }
}

/// Runs a profile on one target; `watch` sees every event when it is told.
fn run_watched(profile: &str, path: &Path, size: Option<u64>, mut watch: impl FnMut(&Event)) -> Told {
    let profile = Profile::from_toml(profile, &[]).unwrap_or_else(|e| panic!("{e}\n{profile}"));
    let session = prepare(profile, &[text(path).to_string()], &options(size, path)).unwrap_or_else(|e| panic!("{e}"));
    let mut events = Vec::new();
    session.run(&RunControl::default(), &mut |event| {
        watch(&event);
        events.push(event);
    });
    Told(events)
}

fn run_on(profile: &str, path: &Path, size: Option<u64>) -> Told {
    run_watched(profile, path, size, |_| {})
}

fn refused(profile: &str, path: &Path, size: Option<u64>) -> String {
    let profile = Profile::from_toml(profile, &[]).unwrap_or_else(|e| panic!("{e}\n{profile}"));
    let error = match prepare(profile, &[text(path).to_string()], &options(size, path)) {
        Ok(_) => panic!("must be refused"),
        Err(error) => error,
    };
    assert!(!error.message.contains('\n'), "{}", error.message);
    error.message
}

impl Told {
    fn start(&self) -> &Start {
        match &self.0[0] {
            Event::Start(start) => start,
            other => panic!("the first event is {other:?}"),
        }
    }

    fn end(&self, phase: usize) -> &PhaseEnd {
        let end = self.0.iter().find_map(|event| match event {
            Event::PhaseEnd(end) if end.phase == phase => Some(&**end),
            _ => None,
        });
        end.unwrap_or_else(|| panic!("phase {phase} did not end: {:?}", self.0.last()))
    }

    fn outcome(&self) -> (RunOutcome, String) {
        match self.0.last() {
            Some(Event::End { outcome, message, .. }) => {
                (*outcome, message.as_ref().map_or_else(String::new, |reason| reason.to_string()))
            }
            other => panic!("the last event is {other:?}"),
        }
    }

    /// Requests, bytes and errors by operation.
    fn totals(&self, phase: usize) -> BTreeMap<&'static str, (u64, u64, u64)> {
        let mut totals = BTreeMap::new();
        for event in &self.0 {
            let Event::Interval(interval) = event else { continue };
            for cell in interval.cells.iter().filter(|_| interval.phase == phase) {
                let sum: &mut (u64, u64, u64) = totals.entry(cell.operation.name()).or_default();
                *sum = (sum.0 + cell.requests, sum.1 + cell.bytes, sum.2 + cell.errors);
            }
        }
        totals
    }

    fn damage(&self) -> Vec<(u64, String)> {
        let own = |event: &Event| match event {
            Event::Error(e) if e.kind == "damage" => Some((e.offset_bytes, e.text.clone())),
            _ => None,
        };
        self.0.iter().filter_map(own).collect()
    }
}

/// Engines and depths: a ring, one blocking thread, a pool of blocking threads.
const WAYS: [(&str, u32); 4] = [("io_uring", 8), ("io_uring", 1), ("psync", 1), ("psync", 8)];

fn write_then_read(engine: &str, io: &str, depth: u32) -> String {
    format!(
        "title = 't'\nengine = '{engine}'\nio = '{io}'\n\
        [[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '4K'\ndepth = {depth}\noperations = {{ read = 0, write = 100 }}\n\
        address = 'permutation'\nverify = true\n\
        [[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '4K'\ndepth = {depth}\nverify = true\n"
    )
}

#[test]
fn what_was_written_is_read_back_and_a_changed_block_is_named() {
    for (engine, depth) in WAYS {
        for io in ["direct", "buffered"] {
            let scratch = Scratch::new();
            let path = scratch.path("file");
            let profile = write_then_read(engine, io, depth);
            let told = run_on(&profile, &path, Some(2 * MIB));
            assert_eq!((told.start().engine.name(), told.start().io.name()), (engine, io));
            assert_eq!(told.totals(0)["write"], (512, 2 * MIB, 0), "{engine} {io} {depth}");
            assert_eq!(told.totals(1)["read"], (512, 2 * MIB, 0), "{engine} {io} {depth}: {:?}", told.damage().first());
            assert_eq!(told.outcome(), (RunOutcome::Done, String::new()));

            let victims = [DATA_START, DATA_START + 77 * 4096, DATA_START + 511 * 4096];
            let file = File::options().read(true).write(true).open(&path).expect("the target");
            let told = run_watched(&profile, &path, None, |event| {
                if matches!(event, Event::Phase { phase: 1, .. }) {
                    for offset in victims {
                        let mut byte = [0];
                        file.read_exact_at(&mut byte, offset + 1_000).expect("a byte");
                        file.write_all_at(&[byte[0] ^ 4], offset + 1_000).expect("a changed byte");
                    }
                    file.sync_all().expect("on the disk");
                }
            });
            let mut found = told.damage();
            found.sort();
            assert_eq!(found.iter().map(|d| d.0).collect::<Vec<_>>(), victims, "{engine} {io} {depth}");
            assert!(found.iter().all(|d| d.1.starts_with("bit damage at offset")), "{found:?}");
            assert_eq!(told.end(1).errors_by_kind, BTreeMap::from([("bits".to_string(), 3)]));
            assert_eq!(told.totals(1)["read"], (509, 509 * 4096, 3));
        }
    }
}

#[test]
fn limits_are_exact_over_several_threads() {
    for engine in ["io_uring", "psync"] {
        let scratch = Scratch::new();
        let path = scratch.path("file");
        let phase = |limit: &str| {
            format!(
                "[[phase]]\n{limit}\n[[phase.stream]]\nrequest = '4K'\nworkers = 3\ndepth = 2\naddress = 'permutation'\n"
            )
        };
        let limits = ["requests = 10001", "bytes = '10MiB'", "passes = 5"].map(phase).concat();
        let told = run_on(&format!("title = 't'\nengine = '{engine}'\n{limits}"), &path, Some(2 * MIB));
        let done = [0, 1, 2].map(|phase| told.totals(phase)["read"].0);
        assert_eq!(done, [10_001, 2_560, 5 * 512], "{engine}");
        assert_eq!([0, 1, 2].map(|phase| told.end(phase).reason.name()), ["requests", "bytes", "passes"]);
        let deepest = told.0.iter().filter_map(|e| match e {
            Event::Interval(i) => i.cells.iter().map(|c| c.depth_max).max(),
            _ => None,
        });
        assert!(deepest.max() <= Some(6));
    }
}

/// A load that only reads and verifies, over a part of the file.
const READ_FILLED: &str = "title = 't'\n[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '8K'\nalign = '4K'\n\
    region = '256KiB..2MiB'\nverify = true\n";

#[test]
fn what_a_run_has_filled_is_checked_when_it_is_read() {
    let scratch = Scratch::new();
    let path = scratch.path("file");
    let victim = DATA_START + 300 * 1024;
    let read_with = |change: bool| {
        run_watched(READ_FILLED, &path, Some(3 * MIB), |event| {
            if change && matches!(event, Event::Phase { .. }) {
                let file = File::options().read(true).write(true).open(&path).expect("the target");
                let mut byte = [0];
                file.read_exact_at(&mut byte, victim).expect("a byte");
                file.write_all_at(&[byte[0] ^ 1], victim).expect("a changed byte");
                file.sync_all().expect("on the disk");
            }
        })
    };
    let counts = |told: &Told| {
        let found = told.end(0).verified.as_ref().expect("counts");
        (found.checked_blocks, found.unchecked_blocks, found.damaged_blocks)
    };
    let told = read_with(true);
    assert_eq!(counts(&told), (448, 0, 1));
    assert_eq!(told.damage().iter().map(|d| d.0).collect::<Vec<_>>(), [victim - victim % 4096]);
    // Filled by an earlier run: nothing is known of it.
    assert_eq!(counts(&read_with(false)), (0, 448, 0));
}

/// Whether a region in per cent is one in bytes depends on the size of the target.
#[test]
fn verified_regions_of_two_phases_that_do_not_fit_are_refused_before_anything_is_written() {
    let phase = |region: &str| {
        format!(
            "[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '4K'\nregion = '{region}'\nverify = true\n\
            operations = {{ read = 0, write = 100 }}\naddress = 'permutation'\n"
        )
    };
    let profile = format!("title = 't'\n{}{}", phase("0..100%"), phase("0..2MiB"));
    let scratch = Scratch::new();
    let path = scratch.path("file");
    let told = refused(&profile, &path, Some(3 * MIB));
    assert!(told.contains("region 0B..2MiB overlaps another verified region"), "{told}");
    assert!(!path.exists());
    assert_eq!(run_on(&profile, &path, Some(2 * MIB)).outcome(), (RunOutcome::Done, String::new()));
}

#[test]
fn a_new_file_is_filled_before_it_is_read() {
    let scratch = Scratch::new();
    let path = scratch.path("file");
    let read = "title = 't'\n[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '64K'\n";
    let told = run_on(read, &path, Some(5 * MIB));
    let last = told.0.iter().rev().find_map(|e| match e {
        Event::Fill { done_bytes, total_bytes, .. } => Some((*done_bytes, *total_bytes)),
        _ => None,
    });
    assert_eq!(last, Some((5 * MIB, 5 * MIB)));
    let data = std::fs::read(&path).expect("the file");
    let blank = data[DATA_START as usize..].chunks(4096).filter(|block| block.iter().all(|b| *b == 0)).count();
    assert_eq!((data.len() as u64, blank), (6 * MIB, 0), "no block of the data is left as a hole");
    let again = run_on(read, &path, None);
    assert!(!again.0.iter().any(|e| matches!(e, Event::Fill { .. })), "it is filled once");
}

#[test]
fn hosts_of_one_run_write_one_file_and_nobody_else_does_meanwhile() {
    let scratch = Scratch::new();
    let path = scratch.path("file");
    let write = "title = 't'\n[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '64K'\noperations = { write = 100 }\n";
    let prepared = |shared| {
        let profile = Profile::from_toml(write, &[]).expect("a profile");
        let wishes = Options { shared, ..options(Some(MIB), &path) };
        prepare(profile, &[text(&path).to_string()], &wishes).map(drop).map_err(|e| e.message)
    };
    let profile = Profile::from_toml(write, &[]).expect("a profile");
    let wishes = Options { shared: true, ..options(Some(MIB), &path) };
    let first = prepare(profile, &[text(&path).to_string()], &wishes).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(prepared(true), Ok(()), "another host of the run");
    assert!(prepared(false).is_err_and(|why| why.contains("another run is using it")));
    drop(first);
    assert_eq!(prepared(false), Ok(()));
}

/// Counters of the block layer: Documentation/admin-guide/iostats.rst.
#[test]
fn requests_that_are_submitted_by_pieces_all_arrive_and_are_checked() {
    for submit in [1, 2, 3, 7] {
        let scratch = Scratch::new();
        let profile = format!("submit = {submit}\n{}", write_then_read("io_uring", "direct", 8));
        let told = run_on(&profile, &scratch.path("file"), Some(2 * MIB));
        assert_eq!(told.start().submit, Some(submit));
        assert_eq!(told.start().submit_reason, Some(SubmitReason::Requested));
        assert_eq!(told.totals(0)["write"], (512, 2 * MIB, 0), "submit = {submit}");
        assert_eq!(told.totals(1)["read"], (512, 2 * MIB, 0), "submit = {submit}");
        assert_eq!(told.outcome(), (RunOutcome::Done, String::new()));
    }
}

#[test]
fn a_scheduler_makes_rings_submit_few_requests_a_call() {
    let _turn = turn();
    let device = Loop::new(4 * MIB);
    let chooser = format!("/sys/block/{}/queue/scheduler", device.short_name());
    let known = std::fs::read_to_string(&chooser).expect("the schedulers of a loop device");
    for (name, at_most) in [("none", None), ("mq-deadline", Some(2))] {
        if !known.contains(name) {
            eprintln!("left out: this kernel has no {name}");
            continue;
        }
        std::fs::write(&chooser, name).expect("a scheduler");
        let told = run_on(&write_then_read("io_uring", "direct", 8), &device.path, None);
        let device = device.short_name().to_string();
        let reason = match at_most {
            Some(_) => SubmitReason::Scheduler { device, scheduler: name.into() },
            None => SubmitReason::NoScheduler { device },
        };
        assert_eq!((told.start().submit, &told.start().submit_reason), (at_most, &Some(reason)));
        assert_eq!(told.outcome(), (RunOutcome::Done, String::new()));
    }
}

fn stat(device: &str) -> Vec<u64> {
    let text = std::fs::read_to_string(format!("/sys/block/{device}/stat")).expect("counters of the device");
    text.split_whitespace().map(|n| n.parse().expect("a number")).collect()
}
const READS: usize = 0;
const SECTORS_READ: usize = 2;
const READ_MS: usize = 3;
const WRITES: usize = 4;
const SECTORS_WRITTEN: usize = 6;
const FLUSHES: usize = 15;

/// Runs one phase on a loop device and returns what its own counters say of that phase.
fn counted(profile: &str, device: &Path) -> (Told, Vec<u64>) {
    let name = text(device).rsplit('/').next().expect("a name").to_string();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let told = run_watched(profile, device, None, |event| match event {
        Event::Phase { .. } => before = stat(&name),
        Event::PhaseEnd(_) => after = stat(&name),
        _ => {}
    });
    let difference = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    (told, difference)
}

#[test]
fn sync_modes_and_flushes_reach_the_device() {
    let _turn = turn();
    let device = Loop::new(8 * MIB);
    for (engine, depth) in WAYS {
        let run = |stream: &str| {
            let profile = format!(
                "title = 't'\nengine = '{engine}'\n[[phase]]\nrequests = 200\n[[phase.stream]]\nrequest = '4K'\n\
                address = 'random'\ndepth = {depth}\n{stream}\n"
            );
            let (told, counters) = counted(&profile, &device.path);
            assert!(told.end(0).errors_by_errno.is_empty(), "{stream}: {:?}", told.end(0).errors_by_errno);
            (told, counters)
        };
        let write = "operations = { read = 0, write = 100 }\n";
        let (_, plain) = run(write);
        assert_eq!(plain[FLUSHES], 0, "{engine} {depth}");
        for mode in ["dsync", "sync"] {
            let (told, counters) = run(&format!("{write}sync = '{mode}'"));
            assert_eq!(told.totals(0)["write"].0, 200);
            // Writes at the same time may share one flush.
            let least = if depth == 1 { 200 } else { 200 / u64::from(depth) };
            assert!(counters[FLUSHES] >= least, "{engine} {depth} {mode}: {} flushes", counters[FLUSHES]);
        }
        let (told, counters) = run("operations = { read = 0, write = 50, flush = 50 }");
        let totals = told.totals(0);
        assert_eq!(totals["write"].0 + totals["flush"].0, 200);
        assert!(counters[FLUSHES] > 0 && totals["flush"].0 > 50, "{engine} {depth}: {} flushes", counters[FLUSHES]);
        let (told, counters) = run(&format!("{write}flush_every = {{ writes = 20, call = 'fsync' }}"));
        assert!(told.totals(0)["flush"].0 >= 9 - u64::from(depth / 8) && counters[FLUSHES] > 0);
    }
}

const TRIM_THE_SECOND_HALF: &str = "[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '64K'\nregion = '50%..'\n\
    operations = { read = 0, trim = 100 }\n";

#[test]
fn trim_punches_holes_into_a_file() {
    for engine in ["io_uring", "psync"] {
        let scratch = Scratch::new();
        let path = scratch.path("file");
        let told = run_on(&format!("title = 't'\nengine = '{engine}'\n{TRIM_THE_SECOND_HALF}"), &path, Some(8 * MIB));
        assert_eq!(told.totals(0)["trim"], (64, 4 * MIB, 0));
        let file = File::open(&path).expect("the file");
        let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(DATA_START)).expect("a hole");
        assert_eq!(hole, DATA_START + 4 * MIB, "{engine}");
        let meta = file.metadata().expect("facts");
        assert!(meta.len() == 9 * MIB && meta.blocks() * 512 < 6 * MIB, "{} of {}", meta.blocks() * 512, meta.len());
        // What was trimmed is filled again before the next run measures it.
        let told = run_on("title = 't'\n[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '64K'\n", &path, None);
        assert!(told.0.iter().any(|e| matches!(e, Event::Fill { .. })));
    }
}

#[test]
fn writes_into_the_page_cache_one_at_a_time_are_not_handed_over() {
    let scratch = Scratch::new();
    let path = scratch.path("file");
    let chosen = |above: &str, stream: &str| {
        let text = format!(
            "title = 't'\nio = 'buffered'\n{above}[[phase]]\nrequests = 50\n[[phase.stream]]\nrequest = '4K'\n{stream}"
        );
        let told = run_on(&text, &path, (!path.exists()).then_some(4 * MIB));
        (told.start().engine.to_string(), told.start().engine_reason.clone())
    };
    let writes = "operations = { read = 50, write = 50 }\n";
    for stream in [writes.to_string(), format!("{writes}workers = 2\npace = {{ loop = 'open', rate = 5000 }}\n")] {
        assert_eq!(chosen("", &stream), ("psync".to_string(), EngineReason::HandedOver), "{stream}");
    }
    for (above, stream) in [
        ("", "".to_string()),
        ("", format!("{writes}depth = 2\n")),
        ("reap = 2\n", format!("{writes}depth = 2\n")),
        ("submit = 1\n", writes.to_string()),
        ("engine = 'io_uring'\n", writes.to_string()),
    ] {
        assert_eq!(chosen(above, &stream).0, "io_uring", "{above}{stream}");
    }
    let memory = Scratch::below(Path::new("/dev/shm"));
    let in_memory = memory.path("in-memory");
    let read = "title = 't'\n[[phase]]\nrequests = 50\n[[phase.stream]]\nrequest = '4K'\n";
    let told = run_on(read, &in_memory, Some(4 * MIB));
    let deep = run_on(&format!("{read}depth = 2\n"), &in_memory, None);
    assert_eq!(told.start().engine_reason, EngineReason::InMemory);
    assert_eq!(deep.start().engine, "io_uring");
    let direct = run_on(
        &format!("title = 't'\n[[phase]]\nrequests = 50\n[[phase.stream]]\nrequest = '4K'\n{writes}"),
        &path,
        None,
    );
    assert_eq!(direct.start().engine, "io_uring");
}

/// Pages of a file that are to be written back (cachestat(2), since Linux 6.5); None where the kernel does not say.
fn dirty_pages(path: &Path) -> Option<u64> {
    let file = File::open(path).expect("the file");
    let (whole, mut told) = ([0_u64; 2], [0_u64; 5]);
    // SAFETY: both arrays have the layout of the call, and outlive it.
    let done = unsafe { libc::syscall(451, file.as_raw_fd(), whole.as_ptr(), told.as_mut_ptr(), 0) };
    (done == 0).then_some(told[1])
}

#[test]
fn what_an_earlier_run_left_in_the_page_cache_is_written_before_a_run() {
    let scratch = Scratch::new();
    let path = scratch.path("file");
    let buffered = "title = 't'\nio = 'buffered'\ncache = 'as_is'\n[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '64K'\n\
        operations = { write = 100, read = 0 }\n";
    run_on(buffered, &path, Some(8 * MIB));
    let Some(before) = dirty_pages(&path) else { return };
    run_on("title = 't'\n[[phase]]\nrequests = 1\n[[phase.stream]]\nrequest = '4K'\n", &path, None);
    let after = dirty_pages(&path).expect("as before");
    assert!(before > 1_000 && after < 10, "{before} pages before, {after} after");
}

#[test]
fn trim_reaches_a_block_device() {
    let _turn = turn();
    let device = Loop::new(16 * MIB);
    let used = || std::fs::metadata(&device.backing).expect("the backing file").blocks() * 512;
    let full = run_on("title = 't'\n[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '64K'\n", &device.path, None);
    assert_eq!(full.outcome().0, RunOutcome::Done);
    assert_eq!(full.start().engine, "io_uring", "its node lies in memory, the device does not");
    let before = used();
    let told = run_on(&format!("title = 't'\n{TRIM_THE_SECOND_HALF}"), &device.path, None);
    assert_eq!(told.totals(0)["trim"], (120, 15 * MIB / 2, 0));
    assert_eq!(told.start().engine, "psync");
    assert_eq!(told.start().engine_reason, EngineReason::NoTrim);
    assert!(before - used() >= 7 * MIB, "{before} bytes before, {} after", used());
    let forced = refused(&format!("title = 't'\nengine = 'io_uring'\n{TRIM_THE_SECOND_HALF}"), &device.path, None);
    assert!(forced.contains("Brickyard trims block devices by system calls; use engine"), "{forced}");
}

const READ_FOR_A_WHILE: &str =
    "interval = '100ms'\n[[phase]]\nduration = '600ms'\n[[phase.stream]]\nrequest = '16K'\naddress = 'random'\n";

#[test]
fn a_file_that_shrinks_under_the_run_gives_short_reads_and_no_panic() {
    for (engine, depth) in WAYS {
        for io in ["direct", "buffered"] {
            let scratch = Scratch::new();
            let path = scratch.path("file");
            let profile = format!("title = 't'\nengine = '{engine}'\nio = '{io}'\n{READ_FOR_A_WHILE}depth = {depth}\n");
            let mut cut = false;
            let told = run_watched(&profile, &path, Some(4 * MIB), |event| {
                if let (Event::Interval(_), false) = (event, cut) {
                    let file = File::options().write(true).open(&path).expect("the file");
                    file.set_len(DATA_START + 2 * MIB).expect("a shorter file");
                    cut = true;
                }
            });
            let (requests, bytes, errors) = told.totals(0)["read"];
            assert!(errors > 0 && requests > 0, "{engine} {io} {depth}: {errors} errors, {requests} requests");
            assert_eq!(told.end(0).errors_by_kind, BTreeMap::from([("short".to_string(), errors)]));
            assert_eq!(bytes, requests * 16_384, "short reads are in no throughput figure");
            assert_eq!((told.outcome().0, told.end(0).reason.name()), (RunOutcome::Done, "duration"));
        }
    }
}

#[test]
fn a_file_that_vanishes_under_the_run_is_read_on() {
    let scratch = Scratch::new();
    let path = scratch.path("file");
    let told = run_watched(&format!("title = 't'\n{READ_FOR_A_WHILE}"), &path, Some(4 * MIB), |event| {
        if matches!(event, Event::Phase { .. }) {
            std::fs::remove_file(&path).expect("the file");
        }
    });
    assert_eq!(told.outcome(), (RunOutcome::Done, String::new()));
    assert_eq!(told.totals(0)["read"].2, 0);
}

#[test]
fn a_device_whose_medium_goes_gives_errors_by_errno() {
    let _turn = turn();
    let device = Loop::new(8 * MIB);
    for engine in ["io_uring", "psync"] {
        File::options().write(true).open(&device.backing).and_then(|f| f.set_len(8 * MIB)).expect("the whole medium");
        let profile = format!("title = 't'\nengine = '{engine}'\n{READ_FOR_A_WHILE}depth = 4\n");
        let mut cut = false;
        let told = run_watched(&profile, &device.path, None, |event| {
            if let (Event::Interval(_), false) = (event, cut) {
                let file = File::options().write(true).open(&device.backing).expect("the backing file");
                file.set_len(2 * MIB).expect("a shorter medium");
                cut = true;
            }
        });
        let errors = told.totals(0)["read"].2;
        assert!(errors > 0);
        assert_eq!(told.end(0).errors_by_errno, BTreeMap::from([("EIO".to_string(), errors)]));
        assert_eq!(told.outcome().0, RunOutcome::Done);
    }
}

#[test]
fn no_space_is_said_in_one_line_before_and_counted_during_a_run() {
    let _turn = turn();
    let scratch = Scratch::new();
    let mount = Mount::new(&["-t", "tmpfs", "-o", "size=8m", "tmpfs"], scratch.path("small"));
    let path = mount.0.join("file");
    let write = "[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '64K'\noperations = { read = 0, write = 100 }\n";
    let message = refused(&format!("title = 't'\n{write}"), &path, Some(64 * MIB));
    assert!(message.contains("65 MiB") && message.contains("8 MiB free; choose a smaller size"), "{message}");
    assert!(!path.exists(), "nothing is left behind");

    for engine in ["io_uring", "psync"] {
        // Trimmed space goes to another file, so the next writes find none.
        let all = "[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '64K'\noperations = { read = 0, trim = 100 }\n";
        let profile = format!("title = 't'\nengine = '{engine}'\n{all}{write}");
        let other = mount.0.join("other");
        let told = run_watched(&profile, &path, Some(4 * MIB), |event| {
            if matches!(event, Event::Phase { phase: 1, .. }) {
                let full = std::fs::write(&other, vec![1u8; 8 * MIB as usize]);
                assert!(full.is_err(), "the file system is full");
            }
        });
        let (requests, bytes, errors) = told.totals(1)["write"];
        assert!(errors > 0, "{requests} writes were done");
        // A write into the last free pages may be short.
        let by_kind = &told.end(1).errors_by_kind;
        assert_eq!(by_kind.values().sum::<u64>(), errors);
        assert!(told.end(1).errors_by_errno["ENOSPC"] >= errors - 1, "{by_kind:?}");
        assert_eq!((requests + errors, bytes), (64, requests * 65_536));
        std::fs::remove_file(&other).and_then(|()| std::fs::remove_file(&path)).expect("both files");
    }
}

#[test]
fn a_fill_that_finds_no_space_fails_in_one_line() {
    let _turn = turn();
    let scratch = Scratch::new();
    let mount = Mount::new(&["-t", "tmpfs", "-o", "size=4m", "tmpfs"], scratch.path("small"));
    let backing = mount.0.join("backing");
    File::create(&backing).and_then(|f| f.set_len(32 * MIB)).expect("a sparse file");
    let device = Attached(attach(&backing, &[]));
    let told = run_on("title = 't'\n[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '64K'\n", &device.0, None);
    let (outcome, message) = told.outcome();
    assert_eq!(outcome, RunOutcome::Failed);
    assert!(message.starts_with(&format!("filling {}: write failed: ", device.0.display())), "{message}");
    assert!(message.contains("space") || message.contains("Input/output"), "{message}");
    assert!(!message.contains('\n') && !told.0.iter().any(|e| matches!(e, Event::Phase { .. })));
}

fn near(ours: u64, theirs: u64, percent: f64, what: &str) {
    let off = (ours as f64 / theirs as f64 - 1.0).abs() * 100.0;
    assert!(off <= percent, "{what}: {ours} against the kernel's {theirs}, {off:.2} % off");
}

#[test]
fn bytes_and_counts_agree_with_the_kernels_own() {
    let _turn = turn();
    let device = Loop::new(32 * MIB);
    for (engine, depth) in WAYS {
        for size_kib in [4, 64] {
            let profile = format!(
                "title = 't'\nengine = '{engine}'\n[[phase]]\nrequests = 2000\n[[phase.stream]]\nrequest = '{size_kib}K'\n\
                address = 'random'\ndepth = {depth}\noperations = {{ read = 60, write = 40 }}\n"
            );
            let (told, kernel) = counted(&profile, &device.path);
            let totals = told.totals(0);
            let what = format!("{engine} {depth} {size_kib} KiB");
            near(totals["read"].0, kernel[READS], 1.0, &format!("{what} reads"));
            near(totals["write"].0, kernel[WRITES], 1.0, &format!("{what} writes"));
            near(totals["read"].1, kernel[SECTORS_READ] * 512, 1.0, &format!("{what} bytes read"));
            near(totals["write"].1, kernel[SECTORS_WRITTEN] * 512, 1.0, &format!("{what} bytes written"));
        }
    }
}

/// At most so many reads a second from a device, by the blkio controller (cgroup v1).
struct Throttle(String);

impl Throttle {
    fn new(device: &Path, reads_per_s: u32) -> Throttle {
        let name = text(device).rsplit('/').next().expect("a name");
        let number = std::fs::read_to_string(format!("/sys/block/{name}/dev")).expect("the device's number");
        let throttle = Throttle(number.trim().to_string());
        throttle.set(reads_per_s).expect("this test needs the blkio controller of cgroup v1 at /sys/fs/cgroup/blkio");
        throttle
    }

    fn set(&self, reads_per_s: u32) -> std::io::Result<()> {
        std::fs::write("/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device", format!("{} {reads_per_s}", self.0))
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let _ = self.set(0);
    }
}

/// A throttled device makes its requests wait before its own counters see them, so another loop device stands on it:
/// to that one, and to us, each read takes 10 ms on average, so that a wake-up that comes late on a busy machine is no twentieth of it.
#[test]
fn mean_latency_agrees_with_the_kernels_own() {
    let _turn = turn();
    let inner = Loop::new(16 * MIB);
    let outer = Attached(attach(&inner.path, &["--direct-io=on"]));
    let fill = run_on("title = 't'\n[[phase]]\nrequests = 1\n[[phase.stream]]\nrequest = '4K'\n", &outer.0, None);
    assert_eq!(fill.outcome(), (RunOutcome::Done, String::new()));
    let _throttle = Throttle::new(&inner.path, 100);
    for engine in ["io_uring", "psync"] {
        let profile = format!(
            "title = 't'\nengine = '{engine}'\n[[phase]]\nrequests = 200\n[[phase.stream]]\nrequest = '4K'\naddress = 'random'\n"
        );
        let (told, kernel) = counted(&profile, &outer.0);
        assert_eq!((told.totals(0)["read"].0, kernel[READS], kernel[WRITES]), (200, 200, 0));
        let sum_ns: f64 = told
            .0
            .iter()
            .filter_map(|e| if let Event::Interval(i) = e { Some(i) } else { None })
            .flat_map(|i| &i.cells)
            .map(|c| c.measures[&Timed::Service].mean_ns * c.requests as f64)
            .sum();
        let mean_us = sum_ns / 200.0 / 1e3;
        assert!(mean_us > 1_000.0, "{mean_us} us is too fast for a counter that counts in ms");
        near(mean_us as u64, kernel[READ_MS] * 1_000 / 200, 5.0, &format!("{engine}: mean latency in us"));
    }
}
