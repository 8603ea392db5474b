//! What a device would ignore is refused, or said, before anything is touched; the same for every kind of target.

use std::path::{Path, PathBuf};

use engine::conductor::RunControl;
use engine::event::Event;
use plan::Profile;
use run::{ModelOptions, Options, StorageOptions, check, prepare};

/// A directory of this test's own, gone afterwards also when the test fails.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("brickyard-honours-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const READS: &str = "[[phase]]\nrequests = 8\n[[phase.stream]]\nrequest = \"4KiB\"\naddress = \"random\"\n";
const FILES: &str = "[[phase]]\n[[phase.stream]]\nprogram = { kind = \"create_files\", files = 2, size = \"1KiB..2KiB\" }\nrequest = \"4KiB\"\n";

fn storage() -> Options {
    Options { storage: StorageOptions { create_bytes: Some(4 << 20), ..Default::default() }, ..Default::default() }
}

fn model() -> Options {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/brickyard/bricks");
    let mut bricks = sim::brick::Texts::new();
    for kind in ["drives", "controllers", "arrays"] {
        for entry in std::fs::read_dir(root.join(kind)).expect("bricks").map_while(Result::ok) {
            let name = entry.path().file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            bricks.insert(format!("{kind}/{name}"), std::fs::read_to_string(entry.path()).expect("a brick"));
        }
    }
    Options { model: ModelOptions { bricks, ..Default::default() }, ..Default::default() }
}

fn with_nop(options: Options) -> Options {
    Options { storage: StorageOptions { nop: true, ..options.storage }, ..options }
}

/// The line of the refusal, or the notes of the run's first event.
fn answer(text: &str, target: &str, options: &Options) -> Result<Vec<String>, String> {
    let profile = Profile::from_toml(&format!("title = \"t\"\n{text}"), &[]).expect("a profile");
    let checked = check(profile.clone(), &[target.into()], options);
    let session = prepare(profile, &[target.into()], options).map_err(|refusal| {
        assert!(refusal.bad_input && refusal.message.lines().count() == 1, "{refusal:?}");
        assert_eq!(checked.as_ref(), Err(&refusal), "a check says what the run says");
        refusal.message
    })?;
    assert_eq!(checked, Ok(()));
    let mut notes = Vec::new();
    session.run(&RunControl::default(), &mut |event| {
        if let Event::Start(start) = event {
            notes = start.notes.iter().map(ToString::to_string).collect();
        }
    });
    Ok(notes)
}

fn refused(text: &str, target: &str, options: &Options, words: &str) {
    let found = answer(text, target, options);
    assert!(matches!(&found, Err(message) if message.contains(words)), "{text}: {words:?} is not in {found:?}");
}

#[test]
fn a_thread_that_calls_takes_no_batches_and_has_no_no_operations() {
    let folder = Folder::new("psync");
    let target = folder.0.join("target");
    let (file, target) = (target.clone(), target.display().to_string());
    refused(&format!("engine = \"psync\"\nreap = 8\n{READS}"), &target, &storage(), "reap = 8 has no effect on psync");
    refused(&format!("engine = \"psync\"\nsubmit = 1\n{READS}"), &target, &storage(), "submit has no effect on psync");
    refused(&format!("engine = \"psync\"\n{READS}"), &target, &with_nop(storage()), "--nop) have no effect on psync");
    assert!(!file.exists(), "a refused run leaves a file behind");
    assert_eq!(answer(&format!("engine = \"psync\"\n{READS}"), &target, &storage()), Ok(Vec::new()));
}

#[test]
fn a_model_refuses_or_names_what_it_would_ignore() {
    let (brick, model) = ("sim:wd2500jd", model());
    for (set, words) in [
        ("reap = 8\n", "reap = 8 has no effect on a modelled brick"),
        ("submit = 1\n", "submit has no effect on a modelled brick"),
    ] {
        refused(&format!("{set}{READS}"), brick, &model, words);
    }
    refused(&format!("{READS}verify = true\n"), brick, &model, "carries no data");
    refused(READS, brick, &with_nop(model.clone()), "--nop) have no effect on a modelled brick");
    let sized = Options { storage: storage().storage, ..model.clone() };
    refused(READS, brick, &sized, "--size, --overwrite and consent have no effect on a modelled brick");
    for (set, words) in [
        ("engine = \"psync\"\n", "engine = \"psync\" has no effect on a modelled brick"),
        ("hang_after = \"1s\"\n", "hang_after has no effect on a modelled brick"),
        ("fill = \"never\"\n", "fill has no effect on a modelled brick"),
    ] {
        let notes = answer(&format!("{set}{READS}"), brick, &model).expect("a run");
        assert!(matches!(&notes[..], [note] if note.contains(words)), "{words:?} is not in {notes:?}");
    }
    let shaped = answer(&format!("{READS}data = {{ compressible = 50 }}\n"), brick, &model).expect("a run");
    assert!(matches!(&shaped[..], [note] if note.contains("data has no effect")), "{shaped:?}");
}

#[test]
fn programs_over_files_refuse_or_name_what_they_would_ignore() {
    let folder = Folder::new("files");
    let target = folder.0.display().to_string();
    let plain = Options::default();
    refused(&format!("reap = 8\n{FILES}"), &target, &plain, "reap = 8 has no effect on a program over files");
    refused(&format!("submit = 8\n{FILES}"), &target, &plain, "submit has no effect on a program over files");
    refused(FILES, &target, &with_nop(plain.clone()), "--nop) have no effect on a program over files");
    let notes = answer(&format!("engine = \"psync\"\n{FILES}"), &target, &plain).expect("a run");
    assert!(matches!(&notes[..], [note] if note.contains("engine = \"psync\" has no effect")), "{notes:?}");
    let left = std::fs::read_dir(&folder.0).expect("the directory").count();
    assert_eq!(left, 0, "the run left something behind");
}

#[test]
fn options_of_models_have_no_place_on_real_targets() {
    let folder = Folder::new("options");
    let target = folder.0.join("target").display().to_string();
    let given = Options { storage: storage().storage, model: model().model };
    refused(READS, &target, &given, "bricks and conditions of models have no effect on real targets");
}
