//! Whole runs in real directories: what the record says was done is what the directory shows, errors are data, and what
//! was made is gone afterwards, while what others own stays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use block::session::Options;
use engine::conductor::RunControl;
use engine::event::{EndReason, Event, PhaseEnd, RunOutcome, StartNote};
use files::session::prepare;
use files::workplace::{NAME, Workplace, remove_leftovers};
use plan::Profile;

/// A directory that goes away with its test, also where it fails; with a file system of its own where one is asked for.
struct Place {
    path: PathBuf,
    mounted: bool,
}

impl Place {
    fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("brickyard-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a directory");
        Place { path, mounted: false }
    }

    /// A file system of so many bytes on a loop device.
    fn mounted(kind: &str, size_bytes: u64) -> Place {
        let mut place = Place::new();
        let image = place.path.with_extension("image");
        std::fs::File::create(&image).and_then(|f| f.set_len(size_bytes)).expect("an image");
        run("/usr/sbin/mkfs.".to_string() + kind, &["-q", image.to_str().expect("text")]);
        run("mount", &["-o", "loop", image.to_str().expect("text"), place.path.to_str().expect("text")]);
        place.mounted = true;
        place
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.path).expect("a directory").flatten();
        let mut names: Vec<String> = names.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name != "lost+found");
        names.sort();
        names
    }
}

fn run(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) {
    let done = Command::new(&program).args(arguments).output().expect("the program runs; tests need root and mkfs");
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg(&self.path).status();
        }
        let _ = std::fs::remove_file(self.path.with_extension("image"));
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// What stands in a directory, counted by itself: the witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Witness {
    files: u64,
    bytes: u64,
    directories: u64,
}

fn witness(directory: &Path) -> Witness {
    let mut found = Witness::default();
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let about = entry.metadata().expect("there");
        if entry.file_name() == "lost+found" {
            continue;
        }
        if about.is_dir() {
            let below = witness(&entry.path());
            found.directories += 1 + below.directories;
            found.files += below.files;
            found.bytes += below.bytes;
        } else if entry.file_name() != "BRICKYARD" {
            found.files += 1;
            found.bytes += about.len();
        }
    }
    found
}

#[derive(Default)]
struct Told {
    /// (phase, operation) → successes and bytes.
    totals: BTreeMap<(usize, &'static str), (u64, u64)>,
    errors: u64,
    ends: Vec<PhaseEnd>,
    /// At the end of each phase.
    witnesses: Vec<Witness>,
    notes: Vec<StartNote>,
    outcome: Option<(RunOutcome, Option<EndReason>)>,
}

impl Told {
    fn requests(&self, phase: usize, operation: &'static str) -> u64 {
        self.totals.get(&(phase, operation)).map_or(0, |found| found.0)
    }

    fn bytes(&self, phase: usize, operation: &'static str) -> u64 {
        self.totals.get(&(phase, operation)).map_or(0, |found| found.1)
    }
}

/// Runs in a place, looking at it whenever a phase has ended. `stop_at` files stop the run.
fn measure(place: &Place, text: &str, stop: bool) -> Told {
    let profile = Profile::from_toml(text, &[]).expect("a valid profile");
    let session = prepare(profile, &[place.path.display().to_string()], &Options::default()).expect("a session");
    let control = RunControl::default();
    let mut told = Told::default();
    session.run(&control, &mut |event| match event {
        Event::Start(start) => told.notes = start.notes,
        Event::Interval(interval) => {
            for cell in &interval.cells {
                let sum = told.totals.entry((interval.phase, cell.operation.name())).or_default();
                *sum = (sum.0 + cell.requests, sum.1 + cell.bytes);
                // A chain's failure is that of one of its requests.
                told.errors += if cell.operation.name().contains("_file") { 0 } else { cell.errors };
            }
            if stop {
                control.stop();
            }
        }
        Event::PhaseEnd(end) => {
            told.ends.push(*end);
            told.witnesses.push(witness(&place.path));
        }
        Event::End { outcome, message, .. } => told.outcome = Some((outcome, message)),
        _ => {}
    });
    told
}

fn postmark(files: u64, transactions: &str, stream: &str, rest: &str) -> String {
    format!(
        "title = 't'\nseed = 42\ninterval = '100ms'\n[[phase]]\n[[phase.stream]]\nrequest = '4KiB'\n{stream}\n\
         program = {{ kind = 'create_files', files = {files}, size = '500..10000'{rest} }}\n\
         [[phase]]\n{transactions}\n[[phase.stream]]\nrequest = '4KiB'\n{stream}\n\
         program = {{ kind = 'transactions', transactions = 1000, size = '500..10000' }}\n\
         [[phase]]\n[[phase.stream]]\n{stream}\nprogram = {{ kind = 'delete_files' }}\n"
    )
}

/// The sums of PostMark's report are what the directory shows at the end of each phase.
fn check_postmark(place: &Place) {
    let text = postmark(300, "", "workers = 2", ", subdirectories = 3");
    let told = measure(place, &text, false);
    assert_eq!(told.outcome.clone(), Some((RunOutcome::Done, None)));
    assert_eq!((told.errors, told.ends.len()), (0, 3));
    assert!(told.ends.iter().all(|end| end.reason == "program"));
    let [created, changed, deleted] = told.witnesses[..] else { panic!("three phases") };
    assert_eq!((created.files, told.requests(0, "create_file"), told.requests(0, "create")), (600, 600, 600));
    assert_eq!((created.bytes, created.directories), (told.bytes(0, "write"), 7));
    let left = 600 + told.requests(1, "create_file") - told.requests(1, "unlink");
    assert_eq!(changed.files, left);
    assert_eq!(told.requests(1, "create_file") + told.requests(1, "unlink"), 2000);
    assert_eq!((deleted.files, told.requests(2, "unlink")), (0, left));
    let opened = told.requests(1, "read_file") + told.requests(1, "append_file");
    assert_eq!(told.requests(1, "open"), opened);
    assert_eq!(told.requests(1, "close"), opened + told.requests(1, "create_file"));
    assert_eq!(place.names(), [""; 0], "everything is gone");
}

#[test]
fn the_record_says_what_the_directory_shows() {
    check_postmark(&Place::new());
}

#[test]
fn it_does_so_on_ext4_xfs_and_btrfs() {
    for (kind, mib) in [("ext4", 64), ("xfs", 320), ("btrfs", 128)] {
        check_postmark(&Place::mounted(kind, mib << 20));
    }
}

#[test]
fn what_is_written_by_character_is_as_large_as_by_block() {
    let place = Place::new();
    let by = |kind: &str, by: &str| {
        format!("[[phase]]\n[[phase.stream]]\nname = 'f'\nrequest = '8KiB'\nprogram = {{ kind = '{kind}'{by} }}\n")
    };
    let text = [
        "title = 't'\n".to_string(),
        by("write_file", ", size = 1000001, by = 'character'"),
        by("read_file", ", by = 'character'"),
        by("rewrite_file", ""),
        by("write_file", ", size = 1000001, fsync = true"),
        by("read_file", ""),
        by("seek_file", ", seeks = 200, update = 50"),
    ]
    .concat();
    let told = measure(&place, &text, false);
    assert_eq!((told.outcome.clone(), told.errors), (Some((RunOutcome::Done, None)), 0));
    assert!(told.witnesses.iter().all(|w| (w.files, w.bytes) == (1, 1_000_001)), "{:?}", told.witnesses);
    let moved = [(0, "put"), (1, "get"), (2, "read"), (2, "write"), (3, "write"), (4, "read")];
    assert!(moved.iter().all(|(phase, operation)| told.bytes(*phase, operation) == 1_000_001));
    assert_eq!((told.requests(3, "unlink"), told.requests(3, "flush"), told.requests(5, "chain")), (1, 1, 200));
    assert_eq!(told.bytes(5, "write"), 8192 * told.requests(5, "write"));
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_full_file_system_is_data() {
    let place = Place::mounted("ext4", 16 << 20);
    let told = measure(&place, &postmark(4000, "", "", ""), false);
    assert_eq!(told.outcome.as_ref().map(|o| o.0), Some(RunOutcome::Done));
    let full = told.ends[0].errors_by_errno.get("ENOSPC").copied().unwrap_or_default();
    let short = told.ends[0].errors_by_kind.get("short").copied().unwrap_or_default();
    assert!(full > 0, "{:?}", told.ends[0].errors_by_errno);
    assert_eq!(told.errors, told.ends.iter().map(|e| e.errors_by_kind.values().sum::<u64>()).sum::<u64>());
    // A write that was short has left some of its bytes, and is in no figure.
    assert!(told.witnesses[0].bytes - told.bytes(0, "write") <= 4096 * short);
    assert_eq!(told.witnesses[0].files, told.requests(0, "create"));
    assert!(told.requests(0, "create_file") < told.requests(0, "create"), "some could not be finished");
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_stopped_run_keeps_what_it_measured_and_takes_its_files_away() {
    let place = Place::new();
    let text = postmark(100, "duration = '60s'", "", "").replace("transactions = 1000, ", "");
    let told = measure(&place, &text.replace("files = 100", "files = 3000000"), true);
    assert_eq!(told.outcome.as_ref().map(|o| o.0), Some(RunOutcome::Interrupted));
    assert!(told.requests(0, "create_file") > 0);
    assert_eq!(told.witnesses[0].files, told.requests(0, "create"));
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn transactions_end_by_time_and_keep_a_rate() {
    let place = Place::new();
    let text = "title = 't'\n[[phase]]\n[[phase.stream]]\nprogram = { kind = 'create_files', files = 50, size = '1KiB' }\n\
                request = '4KiB'\n[[phase]]\nduration = '500ms'\n[[phase.stream]]\nrequest = '4KiB'\n\
                pace = { loop = 'open', rate = 100 }\n\
                program = { kind = 'transactions', size = '1KiB', bias_read = 10, bias_create = -1 }\n";
    let told = measure(&place, text, false);
    assert_eq!(told.ends[1].reason.name(), "duration");
    // A file a due time: 50 of them in half a second.
    let done = told.requests(1, "read_file") + told.ends[1].unsent;
    assert!((49..=50).contains(&done), "{done}");
    assert_eq!(told.requests(1, "create"), 0);
}

#[test]
fn what_others_own_is_neither_touched_nor_removed() {
    let place = Place::new();
    std::fs::write(place.path.join("mine"), "mine").expect("a file");
    std::fs::create_dir(place.path.join("d1")).expect("a directory");
    std::fs::write(place.path.join("d1/1"), "mine").expect("a file");
    let mut workplace = Workplace::make(&place.path).expect("a workplace");
    workplace.make_directories(2).expect("directories");
    std::fs::write(workplace.path.join("d1/17"), "ours").expect("a file");
    std::fs::write(workplace.path.join("d2/notes.txt"), "somebody's").expect("a file");
    let message = workplace.remove().expect_err("something foreign is in it");
    assert!(message.contains("not Brickyard's"), "{message}");
    assert!(!workplace.path.join("d1").exists(), "ours is gone");
    assert_eq!(std::fs::read_to_string(workplace.path.join("d2/notes.txt")).expect("still there"), "somebody's");
    assert_eq!(std::fs::read_to_string(place.path.join("d1/1")).expect("still there"), "mine");
    assert_eq!(std::fs::read_to_string(place.path.join("mine")).expect("still there"), "mine");
}

#[test]
fn leftovers_are_known_by_marker_and_lock() {
    let place = Place::new();
    let at_work = Workplace::make(&place.path).expect("a workplace");
    let make = |id: &str, marker: Option<&str>| {
        let path = place.path.join(format!("{NAME}{id}"));
        std::fs::create_dir_all(path.join("d1")).expect("a directory");
        std::fs::write(path.join("d1/5"), "x").expect("a file");
        if let Some(text) = marker {
            std::fs::write(path.join("BRICKYARD"), text).expect("a marker");
        }
        path
    };
    let killed = make("0123456789abcdef", Some("BRICKYARD FILES 1 0123456789abcdef\n"));
    let unmarked = make("1123456789abcdef", None);
    let renamed = make("2123456789abcdef", Some("BRICKYARD FILES 1 0123456789abcdef\n"));
    let linked = place.path.join(format!("{NAME}3123456789abcdef"));
    std::os::unix::fs::symlink(&at_work.path, &linked).expect("a link");
    let found = remove_leftovers(&place.path).expect("a directory");
    assert_eq!(found, [StartNote::LeftoverRemoved { path: killed.display().to_string(), files: 1 }]);
    assert!(!killed.exists() && unmarked.exists() && renamed.exists() && linked.exists());
    assert!(at_work.path.join("BRICKYARD").exists(), "a run that is at work is left alone");
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let place = Place::new();
    std::fs::write(place.path.join("file"), "").expect("a file");
    let text = postmark(1, "", "", "");
    for (name, said) in [("file", "is no directory"), ("nothing", "does not exist")] {
        let path = place.path.join(name).display().to_string();
        let profile = Profile::from_toml(&text, &[]).expect("valid");
        let error = prepare(profile, &[path], &Options::default()).err().expect("refused");
        assert!(error.message.contains(said) && error.bad_input && !error.message.contains('\n'), "{}", error.message);
    }
    let profile = Profile::from_toml(&text, &[]).expect("valid");
    assert!(prepare(profile, &[], &Options::default()).err().expect("refused").message.contains("1 target"));
    // The same load cannot be aimed at a device or a model: there is no program for them.
    let profile = Profile::from_toml(&text, &[]).expect("valid");
    let file = place.path.join("file").display().to_string();
    let error = block::session::prepare(profile, &[file], &Options { create_bytes: None, ..Options::default() });
    assert!(error.err().is_some());
    assert_eq!(place.names(), ["file"], "a refused run leaves nothing behind");
}
