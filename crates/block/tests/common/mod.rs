//! Scratch directories, loop devices and mounts that go away with their test, also where it fails.

#![allow(dead_code)] // each test program uses its part of this module

use block::guard::{Access, Consent, GuardError, Guarded, open};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

pub const NONE: Consent = Consent { overwrite: false, destroys_data: false };
pub const OVERWRITE: Consent = Consent { overwrite: true, destroys_data: false };
pub const DESTROY: Consent = Consent { overwrite: false, destroys_data: true };
pub const BOTH: Consent = Consent { overwrite: true, destroys_data: true };

pub const MIB: u64 = 1 << 20;

pub fn need_root() {
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    assert_eq!(user, 0, "these tests make loop devices and mounts: run them as root");
}

/// One test after the other: a child that another test has forked holds this one's devices until it runs its program.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|failed| failed.into_inner())
}

/// Runs a command to its end and returns what it printed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|e| panic!("{program} is needed by this test: {e}"));
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    text
}

pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        Scratch::below(&std::env::temp_dir())
    }

    pub fn below(place: &Path) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("brickyard-guard-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = place.join(name);
        std::fs::create_dir(&path).expect("a scratch directory");
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A loop device on a sparse file of its own.
pub struct Loop {
    pub path: PathBuf,
    pub backing: PathBuf,
    // After the device is gone, by the order of fields.
    _scratch: Scratch,
}

impl Loop {
    pub fn new(size_bytes: u64) -> Loop {
        need_root();
        let scratch = Scratch::new();
        let backing = scratch.path("backing");
        File::create(&backing).and_then(|f| f.set_len(size_bytes)).expect("a backing file");
        Loop { path: attach(&backing, &[]), backing, _scratch: scratch }
    }

    pub fn name(&self) -> &str {
        text(&self.path)
    }

    /// `loop3`
    pub fn short_name(&self) -> &str {
        self.name().rsplit('/').next().expect("a path")
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let file = File::options().write(true).open(&self.path).expect("the loop device");
        file.write_all_at(bytes, at).and_then(|()| file.sync_all()).expect("bytes on the loop device");
    }

    /// What the device holds, as a checksum.
    pub fn fingerprint(&self) -> u64 {
        fingerprint(&self.backing)
    }

    pub fn try_write(&self, consent: Consent) -> Result<Guarded, GuardError> {
        open(&self.path, Access::Write, true, None, &consent)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("partx").args(["-d", self.name()]).output();
        until_done("losetup", &["-d", self.name()]);
    }
}

/// A loop device on something that is there already.
pub struct Attached(pub PathBuf);

impl Drop for Attached {
    fn drop(&mut self) {
        until_done("losetup", &["-d", text(&self.0)]);
    }
}

/// Tidies up: what is still in use for a moment is tried again, for 5 s.
fn until_done(program: &str, arguments: &[&str]) {
    for _ in 0..50 {
        if Command::new(program).args(arguments).output().is_ok_and(|o| o.status.success()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Others take loop devices too, also between the choice of a free one and its use, so it is tried several times.
pub fn attach(backing: &Path, options: &[&str]) -> PathBuf {
    let arguments = [&["-f", "--show"], options, &[text(backing)]].concat();
    let mut said = String::new();
    for _ in 0..20 {
        let output = Command::new("losetup").args(&arguments).output().expect("losetup is needed by this test");
        if output.status.success() {
            return PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("losetup {arguments:?}: {said}");
}

pub struct Mount(pub PathBuf);

impl Mount {
    pub fn new(arguments: &[&str], at: PathBuf) -> Mount {
        need_root();
        std::fs::create_dir(&at).expect("a mount point");
        run("mount", &[arguments, &[text(&at)]].concat());
        Mount(at)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        until_done("umount", &[text(&self.0)]);
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// FNV-1a by words: every byte of the file counts.
pub fn fingerprint(path: &Path) -> u64 {
    let mut file = File::open(path).expect("a file to read");
    let mut buffer = vec![0u8; MIB as usize];
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    loop {
        let length = file.read(&mut buffer).expect("a readable file");
        if length == 0 {
            return hash;
        }
        for word in buffer[..length].chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            hash = (hash ^ u64::from_le_bytes(bytes)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// A refusal must be one line that names the target, and mean exit code 2.
pub fn refusal(result: Result<Guarded, GuardError>, path: &Path) -> String {
    let error = result.expect_err("must be refused");
    assert!(error.bad_input, "{error}");
    assert!(!error.message.contains('\n') && error.message.starts_with(text(path)), "{error}");
    error.message
}
