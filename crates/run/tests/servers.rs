//! Simulated database servers on real files and modelled bricks: damage of every kind is found and shown, the program's
//! counters are those of the loop, and a model gives the same to the bit.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use engine::conductor::RunControl;
use engine::event::{ErrorEvent, Event, PhaseEnd, RunOutcome, Timed};
use plan::{Override, Profile};
use run::{ModelOptions, Options, StorageOptions, prepare};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 8192;
/// Data begin behind the header of a target.
const START: u64 = MIB;

/// A directory of this test's own, gone afterwards also when the test fails.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("brickyard-servers-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn root(what: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/brickyard").join(what)
}

/// A profile that ships, changed.
fn profile(name: &str, changes: &[&str]) -> Profile {
    let text = std::fs::read_to_string(root("profiles").join(format!("{name}.toml"))).expect("a profile");
    let overrides: Vec<Override> = changes.iter().map(|c| Override::parse(c).expect("an override")).collect();
    Profile::from_toml(&text, &overrides).unwrap_or_else(|e| panic!("{e}"))
}

fn bricks() -> Options {
    let mut bricks = sim::brick::Texts::new();
    for kind in ["drives", "controllers", "arrays"] {
        for entry in std::fs::read_dir(root("bricks").join(kind)).expect("bricks").map_while(Result::ok) {
            let name = entry.path().file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            bricks.insert(format!("{kind}/{name}"), std::fs::read_to_string(entry.path()).expect("a brick"));
        }
    }
    Options { model: ModelOptions { bricks, ..Default::default() }, ..Default::default() }
}

fn run(profile: Profile, targets: &[String], options: &Options, mut watch: impl FnMut(&Event)) -> Vec<Event> {
    let session = prepare(profile, targets, options).unwrap_or_else(|refusal| panic!("{}", refusal.message));
    let mut events = Vec::new();
    session.run(&RunControl::default(), &mut |event| {
        watch(&event);
        events.push(event);
    });
    match events.last() {
        Some(Event::End { outcome: RunOutcome::Done, .. }) => events,
        other => panic!("the run ended with {other:?}"),
    }
}

fn ends(events: &[Event]) -> Vec<&PhaseEnd> {
    let of = events.iter().filter_map(|event| match event {
        Event::PhaseEnd(end) => Some(end.as_ref()),
        _ => None,
    });
    of.collect()
}

fn errors(events: &[Event]) -> Vec<&ErrorEvent> {
    let of = events.iter().filter_map(|event| match event {
        Event::Error(error) => Some(error.as_ref()),
        _ => None,
    });
    of.collect()
}

const SMALL_SQL: &[&str] = &[
    "size=4MiB",
    "most=6MiB",
    "log_size=1MiB",
    "increment=256KiB",
    "increments_max=3",
    "every_min=200ms",
    "every_max=400ms",
    "buffer_pool=2MiB",
    "test.duration=1500ms",
    "test.checkpoint.every=300ms",
];
const SMALL_JET: &[&str] = &[
    "size=4MiB",
    "most=6MiB",
    "log_size=1MiB",
    "buffer_pool=2MiB",
    "mailboxes=100",
    "mailbox_iops=0",
    "test.duration=1500ms",
    "interval=500ms",
    "test.users.workers=4",
];

fn storage() -> Options {
    Options { storage: StorageOptions { create_bytes: Some(8 * MIB), ..Default::default() }, ..Default::default() }
}

fn page(file: &File, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE as usize];
    file.read_exact_at(&mut bytes, START + number * PAGE).expect("a page");
    bytes
}

/// Damages pages that were written since the file was filled, each in another way; which page got which.
fn damage(path: &Path, filled: &File) -> BTreeMap<u64, &'static str> {
    let file = File::options().read(true).write(true).open(path).expect("the target");
    let written: Vec<u64> = (0..4 * MIB / PAGE).filter(|n| page(&file, *n) != page(filled, *n)).take(5).collect();
    assert_eq!(written.len(), 5, "users have written pages");
    let put = |number: u64, bytes: &[u8]| file.write_all_at(bytes, START + number * PAGE).expect("a write");
    let mut bits = page(&file, written[0]);
    bits[5000] ^= 0x11;
    put(written[0], &bits);
    let mut torn = page(&file, written[1]);
    torn[4096..].copy_from_slice(&page(filled, written[1])[4096..]);
    put(written[1], &torn);
    put(written[2], &page(&file, written[4]));
    put(written[3], &page(filled, written[3]));
    put(written[4], &[0; PAGE as usize]);
    let log_at = 6 * MIB;
    let mut block = [0; 512];
    file.read_exact_at(&mut block, START + log_at).expect("a block");
    block[300] ^= 1;
    file.write_all_at(&block, START + log_at).expect("a write");
    file.sync_all().expect("a flush");
    let kinds = ["bit damage", "torn block", "misplaced block", "stale block", "unwritten block"];
    let pages = written.into_iter().zip(kinds).map(|(number, kind)| (START + number * PAGE, kind));
    pages.chain([(START + log_at, "bit damage")]).collect()
}

#[test]
fn damage_of_every_kind_is_found_and_shown_in_the_files_of_both_tools() {
    for (name, changes, last) in [("sqliosim", SMALL_SQL, "last-audit"), ("jetstress", SMALL_JET, "checksum")] {
        let folder = Folder::new(name);
        let (path, copy) = (folder.0.join("db"), folder.0.join("filled"));
        let mut expected = BTreeMap::new();
        let events = run(profile(name, changes), &[path.display().to_string()], &storage(), |event| match event {
            Event::Phase { name, .. } if name == "test" => drop(std::fs::copy(&path, &copy).expect("a copy")),
            Event::Phase { name, .. } if name == last => {
                expected = damage(&path, &File::open(&copy).expect("the copy"));
            }
            _ => {}
        });
        let found: BTreeMap<u64, &ErrorEvent> = errors(&events).into_iter().map(|e| (e.offset_bytes, e)).collect();
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}: {found:?}");
        for (offset_bytes, kind) in &expected {
            let error = found[offset_bytes];
            assert!(error.text.starts_with(kind), "{name}, {kind}: {}", error.text);
            let dump = error.dump.as_ref().expect("a dump");
            assert!(dump.differing_bytes > 0 && dump.written != dump.read, "{dump:?}");
            if *kind == "bit damage" && dump.block_bytes == PAGE {
                assert_eq!((dump.differing_bytes, dump.at_byte), (1, 5000));
                assert!(dump.differing.starts_with("1100"), "{dump:?}");
            }
        }
        let checked = ends(&events).last().and_then(|end| end.verified).expect("verified");
        assert_eq!(checked.damaged_blocks, 6);
        assert!(checked.checked_blocks >= 4 * MIB / PAGE + MIB / 512, "the whole database and log: {checked:?}");
    }
}

#[test]
fn counters_of_the_files_are_those_of_the_loop_and_nothing_is_damaged_by_itself() {
    let folder = Folder::new("counts");
    let target = folder.0.join("db").display().to_string();
    let events = run(profile("sqliosim", SMALL_SQL), &[target], &storage(), |_| {});
    assert!(errors(&events).is_empty(), "{:?}", errors(&events));
    for end in ends(&events) {
        let mut counted = BTreeMap::new();
        for event in &events {
            let Event::Interval(interval) = event else { continue };
            for cell in interval.cells.iter().filter(|_| interval.phase == end.phase) {
                *counted.entry(cell.operation.name()).or_insert(0) += cell.requests;
            }
        }
        let sum = |of: fn(&engine::event::ServerFileEnd) -> u64| end.server_files.iter().map(of).sum::<u64>();
        let (reads, writes) = (sum(|f| f.reads + f.scatter_reads), sum(|f| f.writes + f.gather_writes));
        assert_eq!(
            (counted.get("read"), counted.get("write")),
            (Some(&reads).filter(|n| **n > 0), Some(&writes).filter(|n| **n > 0))
        );
    }
    let test = &ends(&events)[0].server_files;
    let (data, log) = (&test[0], &test[1]);
    assert!(data.reads > 0 && data.scatter_reads > 0 && data.gather_writes > 0 && log.writes > 0, "{test:?}");
    assert!(data.grown + data.shrunk > 0, "{data:?}");
    assert!(data.total_io_ns > 0 && data.longest_io_ns <= data.total_io_ns);
}

#[test]
fn a_model_gives_the_same_to_the_bit_by_its_seed() {
    let targets = ["sim:demartek-2009-sas".to_string(), "sim:demartek-2009-sas".to_string()];
    let sql: Vec<&str> =
        ["verify=false", "test.duration=5s"].into_iter().chain(SMALL_SQL[..8].iter().copied()).collect();
    let apart = [
        "test.log.target=1",
        "test.log.database=0",
        "checksum.log-checksum.target=1",
        "checksum.log-checksum.database=0",
    ];
    let jet = ["verify=false", "size=1GB", "most=1.1GB", "buffer_pool=64MiB", "log_size=64MiB", "test.duration=20s"];
    let jet: Vec<&str> = jet.into_iter().chain(apart).collect();
    for (name, changes, targets) in [("sqliosim", sql, &targets[..1]), ("jetstress", jet, &targets[..])] {
        let told = |seed: &str| {
            let changes: Vec<&str> = changes.iter().copied().chain([seed]).collect();
            let events = run(profile(name, &changes), targets, &bricks(), |_| {});
            events.iter().map(Event::to_json).collect::<Vec<_>>()
        };
        let first = told("seed=1");
        assert_eq!(first, told("seed=1"), "{name}");
        assert_ne!(first, told("seed=2"), "{name}");
    }
}

#[test]
fn jetstress_on_a_faster_brick_has_shorter_reads() {
    let means = ["sim:iodrive-160-slc", "sim:demartek-2009-sata"].map(|target| {
        let changes =
            ["verify=false", "size=1GB", "most=1.1GB", "buffer_pool=64MiB", "test.duration=20s", "log_size=64MiB"];
        let events = run(profile("jetstress", &changes), &[target.to_string()], &bricks(), |_| {});
        let mut means = Vec::new();
        for event in &events {
            let Event::Interval(interval) = event else { continue };
            let cells = interval.cells.iter().filter(|c| interval.phase == 0 && c.stream == 1 && c.requests > 0);
            means.extend(cells.flat_map(|c| c.measures.iter().filter(|m| m.0 == &Timed::Service).map(|m| m.1.mean_ns)));
        }
        assert!(!means.is_empty());
        means.iter().sum::<f64>() / means.len() as f64
    });
    assert!(means[0] * 5.0 < means[1], "{means:?}");
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let folder = Folder::new("refused");
    let target = folder.0.join("db").display().to_string();
    let small =
        Options { storage: StorageOptions { create_bytes: Some(4 * MIB), ..Default::default() }, ..Default::default() };
    let refusal = prepare(profile("sqliosim", SMALL_SQL), &[target], &small).err().expect("refused");
    assert!(refusal.bad_input && refusal.message.contains("may grow to 7MiB;"), "{}", refusal.message);
    let several: Vec<&str> = SMALL_SQL.iter().copied().chain(["test.log.workers=2"]).collect();
    let target = folder.0.join("db").display().to_string();
    let refusal = prepare(profile("sqliosim", &several), &[target], &storage()).err().expect("refused");
    assert!(refusal.message.contains("log_writer has one worker"), "{}", refusal.message);
    let text = std::fs::read_to_string(root("profiles/sqliosim.toml")).expect("a profile");
    let without = text.replacen("kind = \"database_file\"", "kind = \"log_writer\", gather = 0 #", 1);
    assert!(Profile::from_toml(&without, &[]).is_err());
    for (change, said) in [
        ("test.audit.verify=false", "verify differs between streams of one database"),
        ("test.audit.depth=2", "audit does one thing after another"),
    ] {
        let message =
            Profile::from_toml(&text, &[Override::parse(change).expect("an override")]).expect_err("refused").message;
        assert!(message.contains(said), "{message}");
    }
}
