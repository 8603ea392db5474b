//! What programs ask for, held against a model of a directory: every request must make sense there, the mix must be the
//! one that was asked for, and the same seed must give the same requests.

use std::collections::{BTreeMap, BTreeSet};

use apps::Apps;
use engine::device::{Completion, Entry, Operation};
use engine::program::{ProgramPlace, Programs};
use engine::source::{ChainKind, Next, Part, Request};
use plan::Profile;
use proptest::prelude::*;

const ENOSPC: i32 = 28;

/// A directory as the requests leave it. It refuses by panicking: a source must never ask for what cannot be.
#[derive(Default)]
struct Model {
    files: BTreeMap<Entry, u64>,
    directories: BTreeSet<Entry>,
    open: BTreeMap<u32, Entry>,
}

impl Model {
    /// What the request comes to; a failing one changes nothing.
    fn apply(&mut self, lane: u32, request: &Request, fails: bool) -> i32 {
        let entry = request.entry;
        let bytes = u64::from(request.request_bytes);
        assert!(entry.number > 0 && entry.directory > 0, "{request:?}");
        if fails {
            return -ENOSPC;
        }
        match request.operation {
            Operation::Create => {
                assert!(self.files.insert(entry, 0).is_none() && !self.directories.contains(&entry), "{entry} is new");
                self.open.insert(lane, entry);
            }
            Operation::Open => {
                assert!(self.files.contains_key(&entry), "{entry} is there");
                self.open.insert(lane, entry);
            }
            Operation::Close => assert_eq!(self.open.remove(&lane), Some(entry)),
            Operation::Flush => assert_eq!(self.open.get(&lane), Some(&entry)),
            Operation::Write | Operation::Put | Operation::Append => {
                assert_eq!(self.open.get(&lane), Some(&entry));
                let size = self.files.get_mut(&entry).expect("an open file");
                if request.operation == Operation::Append {
                    assert_eq!(request.offset_bytes, *size, "at the end of {entry}");
                }
                *size = (*size).max(request.offset_bytes + bytes);
            }
            Operation::Read | Operation::Get => {
                assert_eq!(self.open.get(&lane), Some(&entry));
                assert!(request.offset_bytes + bytes <= self.files[&entry], "within {entry}");
            }
            Operation::Unlink => assert!(self.files.remove(&entry).is_some(), "{entry} is there"),
            Operation::Stat => assert!(self.files.contains_key(&entry) || self.directories.contains(&entry)),
            Operation::Mkdir => assert!(self.directories.insert(entry) && !self.files.contains_key(&entry)),
            Operation::Rmdir => assert!(self.directories.remove(&entry)),
            Operation::Trim => panic!("no program trims"),
        }
        request.request_bytes as i32
    }
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    phase: usize,
    lane: u32,
    request: Request,
    kind: Option<ChainKind>,
    part: Part,
    failed: bool,
    /// Files that there are after it.
    files: usize,
}

/// Runs a profile's programs against the model, lanes in turn. `fails` says which requests do.
fn run(text: &str, mut fails: impl FnMut(&Request) -> bool) -> (Vec<Asked>, Model) {
    let profile = Profile::from_toml(text, &[]).expect("a valid profile");
    let (apps, mut model, mut log) = (Apps::default(), Model::default(), Vec::new());
    for (phase, plan) in profile.phase.iter().enumerate() {
        let stream = &plan.stream[0];
        let place = |lane| ProgramPlace {
            stream,
            seed: profile.seed,
            phase: phase as u32,
            stream_index: 0,
            lane,
            lanes: stream.workers,
            server: None,
            area: None,
        };
        let mut sources: Vec<_> = (0..stream.workers)
            .map(|lane| apps.source(&place(lane)).expect("a source"))
            .map(|made| (made, None))
            .collect();
        let mut at_work = true;
        while at_work {
            at_work = false;
            for (lane, (made, last)) in sources.iter_mut().enumerate() {
                let (request, part, kind) = match made.source.next(0, 0, last.as_ref()) {
                    Next::Do(request) => (request, Part::Whole, None),
                    Next::Step(request, part, kind) => (request, part, Some(kind)),
                    Next::Wait(_) => panic!("nothing to wait for"),
                    Next::End => continue,
                };
                at_work = true;
                assert!(made.cells.contains(&(request.operation as usize)), "{:?} has a cell", request.operation);
                assert!(kind.is_none_or(|kind| made.cells.contains(&kind.cell())), "{kind:?} has a cell");
                assert!(request.request_bytes <= made.buffer_bytes);
                assert!(request.entry.directory <= apps.directories(stream.target), "it was made before the run");
                let failed = fails(&request);
                let result = model.apply(lane as u32, &request, failed);
                if failed && part != Part::Whole {
                    made.source.abort(0);
                    // As a device does before it opens the next file.
                    model.open.remove(&(lane as u32));
                }
                *last = Some(Completion { slot: 0, result, submitted_ns: 0, ended_ns: 0 });
                log.push(Asked { phase, lane: lane as u32, request, kind, part, failed, files: model.files.len() });
            }
        }
    }
    (log, model)
}

fn shipped(name: &str, overrides: &[&str]) -> String {
    let path = format!("{}/../../python/brickyard/profiles/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a shipped profile");
    let overrides: Vec<String> = overrides.iter().map(|o| o.to_string()).collect();
    // By way of the canonical plan, which is TOML's cousin: overrides have been applied in it.
    let plan = Profile::from_toml_with(&text, &overrides).expect("valid").to_json();
    json_as_toml(&plan)
}

/// A canonical plan as TOML: keys, strings, numbers, arrays and tables are written alike but for `:` and `null`.
fn json_as_toml(plan: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(plan).expect("a plan is JSON");
    toml::to_string(&strip(value)).expect("a plan is TOML")
}

fn strip(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(map) => {
            map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, strip(v))).collect()
        }
        serde_json::Value::Array(items) => items.into_iter().map(strip).collect(),
        other => other,
    }
}

fn count(log: &[Asked], phase: usize, operation: Operation) -> usize {
    log.iter().filter(|a| a.phase == phase && a.request.operation == operation).count()
}

fn chains(log: &[Asked], phase: usize, kind: ChainKind) -> usize {
    log.iter()
        .filter(|a| a.phase == phase && a.kind == Some(kind) && matches!(a.part, Part::First | Part::Only))
        .count()
}

/// Pearson's sum; its 99.9 % points are 10.8 (1 degree of freedom) and 27.9 (9).
fn chi_squared(seen: &[usize], shares: &[f64]) -> f64 {
    let whole: usize = seen.iter().sum();
    seen.iter().zip(shares).map(|(n, share)| (*n as f64 - share * whole as f64).powi(2) / (share * whole as f64)).sum()
}

#[test]
fn postmark_with_its_defaults_does_what_its_report_adds_up() {
    let (log, model) = run(&shipped("postmark", &[]), |_| false);
    assert_eq!(count(&log, 0, Operation::Create), 500);
    let (reads, appends) = (chains(&log, 1, ChainKind::ReadFile), chains(&log, 1, ChainKind::AppendFile));
    let (created, deleted) = (chains(&log, 1, ChainKind::CreateFile), count(&log, 1, Operation::Unlink));
    assert_eq!(created + deleted, 500);
    // A file that is full is not appended to, so an append may be left out.
    assert!((495..=500).contains(&(reads + appends)), "{reads} + {appends}");
    assert_eq!(count(&log, 2, Operation::Unlink), 500 + created - deleted);
    assert_eq!(model.files.len(), 0, "nothing is left");
    assert!(log.iter().all(|a| a.request.request_bytes <= 512));
}

#[test]
fn sizes_are_uniform_and_biases_are_kept() {
    let (log, _) =
        run(&shipped("postmark", &["files=20000", "transactions=20000", "bias_read=7", "request=4KiB"]), |_| false);
    let mut sizes: BTreeMap<Entry, u64> = BTreeMap::new();
    for asked in log.iter().filter(|a| a.phase == 0) {
        *sizes.entry(asked.request.entry).or_default() += u64::from(asked.request.request_bytes);
    }
    assert_eq!(sizes.len(), 20_000);
    assert!(sizes.values().all(|bytes| (500..10_000).contains(bytes)));
    let mut bins = [0; 10];
    sizes.values().for_each(|bytes| bins[((bytes - 500) / 950) as usize] += 1);
    assert!(chi_squared(&bins, &[0.1; 10]) < 27.9, "{bins:?}");
    let (created, deleted) = (chains(&log, 1, ChainKind::CreateFile), count(&log, 1, Operation::Unlink));
    assert!(chi_squared(&[created, deleted], &[0.5, 0.5]) < 10.8, "{created} and {deleted}");
    let (reads, appends) = (chains(&log, 1, ChainKind::ReadFile), chains(&log, 1, ChainKind::AppendFile));
    // Hardly any file is full, so the appends that were left out do not show.
    assert!(chi_squared(&[reads, appends], &[0.7, 0.3]) < 10.8, "{reads} and {appends}");
    // Which files are read is uniform too, by the order in which they were made.
    let first = sizes.keys().next().expect("files").number;
    let mut read = [0; 10];
    for asked in log.iter().filter(|a| a.phase == 1 && a.kind == Some(ChainKind::ReadFile) && a.part == Part::First) {
        let rank = asked.request.entry.number - first;
        if rank < 20_000 {
            read[(rank / 2_000) as usize] += 1;
        }
    }
    assert!(chi_squared(&read, &[0.1; 10]) < 27.9, "{read:?}");
}

#[test]
fn workers_spread_their_own_files_over_their_own_directories() {
    let (log, _) = run(&shipped("postmark-mail", &["files=500", "transactions=100"]), |_| false);
    let mut homes: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for asked in &log {
        homes.entry(asked.lane).or_default().insert(asked.request.entry.directory);
    }
    assert_eq!(homes.len(), 4);
    assert!(homes.values().all(|found| found.len() == 50));
    let all: BTreeSet<u32> = homes.values().flatten().copied().collect();
    assert_eq!(all.len(), 200, "no directory has two masters");
    let flushes = count(&log, 0, Operation::Flush);
    assert_eq!(flushes, 2_000, "each message is durable");
}

#[test]
fn shared_directories_hold_names_of_all_workers() {
    let (log, _) =
        run(&shipped("mdtest", &["files=300", "directories=200", "directory=shared", "workers=3"]), |_| false);
    let expected = [
        (0, Operation::Mkdir, 600),
        (1, Operation::Stat, 600),
        (2, Operation::Rmdir, 600),
        (3, Operation::Create, 900),
        (4, Operation::Stat, 900),
        (5, Operation::Unlink, 900),
    ];
    for (phase, operation, times) in expected {
        assert_eq!(count(&log, phase, operation), times, "{operation:?}");
        let of_phase = log.iter().filter(|a| a.phase == phase);
        let homes: BTreeSet<u32> = of_phase.map(|a| a.request.entry.directory).collect();
        assert_eq!(homes.len(), 1);
    }
}

#[test]
fn bonnie_goes_through_its_file_and_then_seeks() {
    const BLOCKS: u64 = 500;
    let (log, model) = run(&shipped("bonnie", &["size=4000KiB", "seeks=4000"]), |_| false);
    assert_eq!(model.files.values().copied().collect::<Vec<_>>(), [BLOCKS * 8192]);
    let in_order = [(0, Operation::Put), (2, Operation::Write), (3, Operation::Get), (4, Operation::Read)];
    for (phase, operation) in in_order {
        let offsets: Vec<u64> = log
            .iter()
            .filter(|a| a.phase == phase && a.request.operation == operation)
            .map(|a| a.request.offset_bytes)
            .collect();
        assert_eq!(offsets, (0..BLOCKS).map(|n| n * 8192).collect::<Vec<_>>(), "{operation:?}");
    }
    let rewrite: Vec<&Asked> = log.iter().filter(|a| a.phase == 1 && a.kind.is_some()).collect();
    assert_eq!(rewrite.len() as u64, 2 * BLOCKS);
    for pair in rewrite.chunks(2) {
        assert_eq!((pair[0].request.operation, pair[1].request.operation), (Operation::Read, Operation::Write));
        assert_eq!(pair[0].request.offset_bytes, pair[1].request.offset_bytes);
    }
    assert_eq!(count(&log, 2, Operation::Unlink), 1, "the blocks are written into a new file");
    let (seeks, updates) = (count(&log, 5, Operation::Read), count(&log, 5, Operation::Write));
    assert_eq!(seeks, 12_000);
    assert!(chi_squared(&[updates, seeks - updates], &[0.1, 0.9]) < 10.8, "{updates}");
    let mut places = [0; 10];
    for asked in log.iter().filter(|a| a.phase == 5 && a.request.operation == Operation::Read) {
        places[(asked.request.offset_bytes / 8192 / 50) as usize] += 1;
    }
    assert!(chi_squared(&places, &[0.1; 10]) < 27.9, "{places:?}");
}

/// FNV-1a, so that no hasher of a library can change it.
fn hash(log: &[Asked]) -> u64 {
    let words = log.iter().flat_map(|a| {
        let r = &a.request;
        [
            u64::from(a.lane),
            r.operation as u64,
            r.entry.directory.into(),
            r.entry.number,
            r.offset_bytes,
            r.request_bytes.into(),
        ]
    });
    words.fold(0xcbf2_9ce4_8422_2325, |sum, word| (sum ^ word).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn the_same_seed_gives_the_same_requests_on_every_machine() {
    let of = |name, overrides: &[&str]| hash(&run(&shipped(name, overrides), |_| false).0);
    assert_eq!(of("postmark", &[]), GOLDEN_POSTMARK);
    assert_eq!(of("bonnie", &["size=1MiB"]), GOLDEN_BONNIE);
    assert_ne!(of("postmark", &["seed=43"]), GOLDEN_POSTMARK);
}

const GOLDEN_POSTMARK: u64 = 0x5d9cfd8523e952cd;
const GOLDEN_BONNIE: u64 = 0xeb89b5c698c3e7c1;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is asked for, and whatever fails: nothing is asked of a file that cannot be there, and what is believed
    /// to be there at the end is deleted.
    #[test]
    fn requests_make_sense_even_when_some_fail(
        (files, transactions) in (1u64..40, 1u64..200),
        (from, more) in (0u64..3_000, 1u64..6_000),
        (bias_read, bias_create) in (-1i64..=10, 0i64..=10),
        (subdirectories, workers) in (0u32..4, 1u32..4),
        (shared, fsync) in (any::<bool>(), any::<bool>()),
        (fail_one_in, seed) in (2u64..40, 0u64..1_000),
        fails_at_all in any::<bool>(),
    ) {
        let sizes = format!("{from}..{}", from + more);
        let directory = if shared { "shared" } else { "unique" };
        let text = format!(
            "title = 't'\nseed = {seed}\n[[phase]]\n[[phase.stream]]\nrequest = '512'\nworkers = {workers}\n\
             program = {{ kind = 'create_files', files = {files}, size = '{sizes}', subdirectories = {subdirectories}, \
             directory = '{directory}', fsync = {fsync} }}\n\
             [[phase]]\n[[phase.stream]]\nrequest = '512'\nworkers = {workers}\n\
             program = {{ kind = 'transactions', transactions = {transactions}, size = '{sizes}', bias_read = {bias_read}, \
             bias_create = {bias_create}, fsync = {fsync} }}\n\
             [[phase]]\n[[phase.stream]]\nworkers = {workers}\nprogram = {{ kind = 'delete_files' }}\n"
        );
        let mut number = 0u64;
        let (log, model) = run(&text, |request| {
            number += 1;
            // Deletions succeed, so that whatever is still there at the end was forgotten.
            fails_at_all && request.operation != Operation::Unlink && number.is_multiple_of(fail_one_in)
        });
        prop_assert_eq!(model.files.len(), 0);
        let most = 2 * files as usize * workers as usize;
        prop_assert!(log.iter().all(|a| a.files <= most), "more than {} files", most);
        if !fails_at_all {
            let created = count(&log, 0, Operation::Create) + count(&log, 1, Operation::Create);
            prop_assert_eq!(created, count(&log, 1, Operation::Unlink) + count(&log, 2, Operation::Unlink));
            prop_assert!(log.iter().all(|a| !a.failed));
        }
    }
}
