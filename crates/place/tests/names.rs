//! Real directories, and a racer that swaps names as fast as it can.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use place::{Taken, directory, give_name, held_file, kernels, remove, set_aside};

struct Room(PathBuf);

impl Room {
    fn new(name: &str) -> Room {
        let path = std::env::temp_dir().join(format!("brickyard-place-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("a directory");
        Room(path)
    }

    fn file(&self, name: &str, content: &str) -> File {
        fs::write(self.0.join(name), content).expect("a file");
        File::open(self.0.join(name)).expect("the file")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).expect("the file")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a listing");
        let mut found: Vec<String> =
            entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        found.sort();
        found
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

#[test]
fn only_the_file_that_is_held_loses_its_name() {
    let room = Room::new("held");
    let at = directory(&room.0).expect("the directory");
    let ours = room.file("scratch", "ours");
    assert!(remove(&at, name("scratch"), &ours).expect("removed"));
    assert_eq!(room.names(), Vec::<String>::new());
    assert_eq!(set_aside(&at, name("scratch"), &ours).expect("looked"), Taken::Gone);
    room.file("scratch", "somebody's");
    assert!(!remove(&at, name("scratch"), &ours).expect("looked"));
    assert_eq!(room.read("scratch"), "somebody's");
    assert_eq!(room.names(), ["scratch"]);
}

#[test]
fn a_name_is_given_only_where_it_is_free_or_of_the_file_that_was_checked() {
    let room = Room::new("given");
    let at = directory(&room.0).expect("the directory");
    room.file("part", "new");
    give_name(&at, name("part"), name("page"), None).expect("free");
    assert_eq!((room.read("page"), room.names()), ("new".into(), vec!["page".to_string()]));
    let checked = File::open(room.0.join("page")).expect("the page");
    room.file("part", "newer");
    assert!(give_name(&at, name("part"), name("page"), None).is_err());
    give_name(&at, name("part"), name("page"), Some(checked.as_fd())).expect("ours");
    assert_eq!((room.read("page"), room.names()), ("newer".into(), vec!["page".to_string()]));
    room.file("part", "newest");
    assert!(give_name(&at, name("part"), name("page"), Some(checked.as_fd())).is_err(), "no longer what was checked");
    assert_eq!(room.read("page"), "newer");
}

#[test]
fn a_racer_never_loses_its_file() {
    let room = Room::new("race");
    let at = directory(&room.0).expect("the directory");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Takes our file away under its name and puts its own there, again and again.
            while !stop.load(Ordering::Relaxed) {
                fs::write(room.0.join("theirs"), "somebody's").expect("a file");
                let _ = fs::rename(room.0.join("theirs"), room.0.join("name"));
            }
        });
        for _ in 0..2000 {
            fs::write(room.0.join("made"), "ours").expect("a file");
            let ours = File::open(room.0.join("made")).expect("the file");
            let _ = fs::rename(room.0.join("made"), room.0.join("name"));
            let taken = set_aside(&at, name("name"), &ours);
            if let Ok(Taken::Aside(aside)) = &taken {
                let path = room.0.join(aside);
                assert_eq!(fs::read_to_string(&path).expect("ours"), "ours");
                fs::remove_file(path).expect("removed");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    for left in room.names() {
        let content = room.read(&left);
        assert!(content == "somebody's" || left == "name" || left == "made", "{left}: {content}");
    }
}

#[test]
fn directories_of_the_kernel_are_known_by_their_file_system() {
    let refused = |path: &str| kernels(directory(Path::new(path)).expect("a directory")).expect("looked").is_some();
    for path in ["/proc", "/proc/self", "/sys", "/sys/block", "/dev", "/proc/self/root/dev"] {
        assert!(refused(path), "{path}");
    }
    for path in [std::env::temp_dir().to_str().expect("text"), "/", "/var/tmp"] {
        assert!(!refused(path), "{path}");
    }
}

#[test]
fn only_a_file_that_is_open_here_is_emptied() {
    let room = Room::new("held");
    drop(room.file("kept", "old"));
    let path = room.0.join("kept");
    assert!(held_file(&path).is_err());
    assert!(
        held_file(&Path::new("/proc/self/fd").join("../../..").join(path.strip_prefix("/").expect("absolute")))
            .is_err()
    );
    assert_eq!(room.read("kept"), "old");
    let open = File::options().write(true).open(&path).expect("the file");
    let name = format!("/proc/self/fd/{}", open.as_raw_fd());
    held_file(Path::new(&name)).expect("emptied").write_all(b"new").expect("written");
    assert_eq!(room.read("kept"), "new");
}
