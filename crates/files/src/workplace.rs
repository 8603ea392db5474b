//! The directory that a run makes for itself below its target, with a marker in it that says whose it is.
//!
//! Everything that a run touches lies there. It is taken away at the end of the run; what a killed one has left is known
//! by its marker, and that nobody holds its lock. Only what bears a name that this crate gives is removed, so a file that
//! somebody else has put there stays, and its directory with it.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use block::guard::{GuardError, new_uuid};
use engine::event::StartNote;
use plan::Mistake;
use rustix::fs::{
    Access, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat, unlinkat,
};
use rustix::io::Errno;

/// How the name of every workplace begins; 16 hexadecimal digits follow.
pub const NAME: &str = "brickyard-files-";
const MARKER: &str = "BRICKYARD";
const MAGIC: &str = "BRICKYARD FILES 1 ";
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Entries may be passed over by a listing in which others are deleted meanwhile; each further listing finds them.
const LISTINGS_MAX: usize = 10;

/// A directory of our own below a target. Dropping it takes it away.
pub struct Workplace {
    pub path: PathBuf,
    target: OwnedFd,
    root: OwnedFd,
    /// Locked as long as we are at work.
    marker: File,
    removed: bool,
}

fn refuse(target: &Path, message: String) -> GuardError {
    Mistake::from(format!("{}: {message}", target.display())).into()
}

fn open_target(target: &Path) -> Result<OwnedFd, GuardError> {
    // A link that the user names is followed; within the target none is.
    let flags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
    rustix::fs::open(target, flags, Mode::empty()).map_err(|e| match e {
        Errno::NOENT => refuse(target, "does not exist; make the directory first".into()),
        Errno::NOTDIR => refuse(target, "is no directory; a program over files needs one".into()),
        e => refuse(target, format!("cannot be opened: {e}")),
    })
}

fn may_hold(target: &Path, handle: &OwnedFd) -> Result<(), GuardError> {
    match place::kernels(handle).map_err(|e| refuse(target, e.to_string()))? {
        Some(why) => Err(refuse(target, format!("{why}, so nothing is made in it; name another directory"))),
        None => Ok(()),
    }
}

/// Whether a workplace could be made in a directory; nothing is made.
pub fn check(target: &Path) -> Result<(), GuardError> {
    let handle = open_target(target)?;
    may_hold(target, &handle)?;
    rustix::fs::accessat(&handle, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
        .map_err(|e| refuse(target, format!("no directory can be made in it: {e}")))
}

impl Workplace {
    /// Makes a workplace in a directory. Nothing that is there is touched.
    pub fn make(target: &Path) -> Result<Workplace, GuardError> {
        let handle = open_target(target)?;
        may_hold(target, &handle)?;
        let uuid = new_uuid().map_err(|e| refuse(target, format!("no random number could be had: {e}")))?;
        let id: String = uuid[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{NAME}{id}");
        let failed = |e: Errno| refuse(target, format!("no directory can be made in it: {e}"));
        mkdirat(&handle, &name, Mode::RWXU).map_err(failed)?;
        let marked = || -> Result<(OwnedFd, File), Errno> {
            let root = openat(&handle, &name, DIRECTORY, Mode::empty())?;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut marker = File::from(openat(&root, MARKER, flags, Mode::RUSR | Mode::WUSR)?);
            // Locked before it says whose it is: who reads that, and gets the lock, knows that nobody is at work. A file
            // system without locks cannot say so, and its leftovers are not removed.
            let _ = flock(&marker, FlockOperation::NonBlockingLockExclusive);
            marker.write_all(format!("{MAGIC}{id}\n").as_bytes()).map_err(|_| Errno::IO)?;
            Ok((root, marker))
        };
        match marked() {
            Ok((root, marker)) => {
                let path = target.join(&name);
                Ok(Workplace { path, target: handle, root, marker, removed: false })
            }
            Err(error) => {
                // Just made and empty but for a marker of ours; the error that is told matters more.
                if let Ok(root) = openat(&handle, &name, DIRECTORY, Mode::empty()) {
                    let _ = unlinkat(&root, MARKER, AtFlags::empty());
                }
                let _ = unlinkat(&handle, &name, AtFlags::REMOVEDIR);
                Err(failed(error))
            }
        }
    }

    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Makes the directories `d1` to `d{count}` that programs put their files in.
    pub fn make_directories(&self, count: u32) -> Result<(), String> {
        for number in 1..=count {
            mkdirat(&self.root, format!("d{number}"), Mode::RWXU)
                .map_err(|e| format!("{}/d{number}: cannot be made: {e}", self.path.display()))?;
        }
        Ok(())
    }

    /// Takes everything away that we have made. An error says what was left, and why.
    pub fn remove(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.removed, true) {
            return Ok(());
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        clear(&self.root, &self.target, &name, &self.marker).map(|_| ()).map_err(|e| match e {
            Errno::NOTEMPTY => {
                format!(
                    "{}: holds files that are not Brickyard's, so it was left; see what they are",
                    self.path.display()
                )
            }
            e => format!("{}: could not be removed: {e}; remove it by hand", self.path.display()),
        })
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}

/// Takes away what killed runs have left in a directory, and says what that was.
pub fn remove_leftovers(target: &Path) -> Result<Vec<StartNote>, GuardError> {
    let handle = open_target(target)?;
    let mut found = Vec::new();
    let listing = Dir::read_from(&handle).map_err(|e| refuse(target, format!("cannot be listed: {e}")))?;
    let mut names: Vec<CString> = listing.flatten().map(|entry| entry.file_name().to_owned()).collect();
    names.sort();
    for name in names.iter().filter_map(|name| name.to_str().ok()) {
        let Some((root, marker)) = abandoned(&handle, name) else { continue };
        let path = target.join(name).display().to_string();
        // Where something in it is not ours, it is still there.
        found.push(match clear(&root, &handle, name, &marker) {
            Ok(files) => StartNote::LeftoverRemoved { path, files },
            Err(_) => StartNote::LeftoverKept { path },
        });
    }
    Ok(found)
}

/// A workplace by its name and its marker, of which nobody holds the lock.
fn abandoned(target: &OwnedFd, name: &str) -> Option<(OwnedFd, File)> {
    let id = name.strip_prefix(NAME).filter(|id| id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()))?;
    let root = openat(target, name, DIRECTORY, Mode::empty()).ok()?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut marker = File::from(openat(&root, MARKER, flags, Mode::empty()).ok()?);
    let mut said = String::new();
    Read::by_ref(&mut marker).take(64).read_to_string(&mut said).ok()?;
    if said.trim_end() != format!("{MAGIC}{id}") {
        return None;
    }
    flock(&marker, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some((root, marker))
}

/// Removes what bears our names, and the workplace itself if that was all; gives the number of files.
fn clear(root: &OwnedFd, target: &OwnedFd, name: &str, marker: &File) -> Result<u64, Errno> {
    let device = fstat(root)?.st_dev;
    let mut files = 0;
    for directory in ours(root, "d")? {
        let below = match openat(root, &*directory, DIRECTORY, Mode::empty()) {
            Ok(below) => below,
            // Something else that bears the name.
            Err(_) => continue,
        };
        // What somebody has mounted there is not ours.
        if fstat(&below)?.st_dev != device {
            continue;
        }
        for _ in 0..LISTINGS_MAX {
            let entries = ours(&below, "")?;
            if entries.is_empty() {
                break;
            }
            for entry in entries {
                files += u64::from(take_away(&below, &entry)?);
            }
        }
        match unlinkat(root, &*directory, AtFlags::REMOVEDIR) {
            // A foreign file is in it.
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    let others = Dir::read_from(root)?.flatten();
    let strange = |entry: &rustix::fs::DirEntry| {
        !matches!(entry.file_name().to_bytes(), b"." | b"..") && entry.file_name().to_bytes() != MARKER.as_bytes()
    };
    if others.filter(strange).count() > 0 {
        return Err(Errno::NOTEMPTY);
    }
    let taken = place::remove(root, MARKER.as_ref(), marker);
    if !taken.map_err(|e| e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))? {
        return Err(Errno::NOTEMPTY);
    }
    unlinkat(target, name, AtFlags::REMOVEDIR)?;
    Ok(files)
}

/// Names in a directory that are a prefix and a number.
fn ours(directory: &OwnedFd, prefix: &str) -> Result<Vec<CString>, Errno> {
    let is_ours = |name: &[u8]| {
        let number = name.strip_prefix(prefix.as_bytes()).unwrap_or_default();
        !number.is_empty() && number.len() <= 20 && number.iter().all(u8::is_ascii_digit)
    };
    let entries = Dir::read_from(directory)?;
    Ok(entries.flatten().map(|e| e.file_name().to_owned()).filter(|name| is_ours(name.to_bytes())).collect())
}

/// Removes a file, or a directory that is empty. True: it was a file.
fn take_away(directory: &OwnedFd, name: &CString) -> Result<bool, Errno> {
    let kind = FileType::from_raw_mode(rustix::fs::statat(directory, &**name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
    let (flags, is_file) = match kind {
        FileType::RegularFile => (AtFlags::empty(), true),
        FileType::Directory => (AtFlags::REMOVEDIR, false),
        // We make neither links nor devices.
        _ => return Err(Errno::NOTEMPTY),
    };
    match unlinkat(directory, &**name, flags) {
        // The run that was killed may still have ended a call.
        Ok(()) | Err(Errno::NOENT) => Ok(is_file),
        Err(Errno::EXIST) => Err(Errno::NOTEMPTY),
        Err(error) => Err(error),
    }
}
