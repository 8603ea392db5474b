//! Duty: says where a file may be made, and gives and takes names so that no other file is ever replaced or removed.
//!
//! A name is no file: between a look at a name and the next call somebody may have put another file there. Names are
//! therefore changed first, in one step that the kernel can refuse, and what moved is then compared with a descriptor.
//!
//! Refusal: it writes nothing, reads no content, and opens no file that is there.

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// File systems that the kernel makes up, by statfs(2)'s `f_type`: nothing in them is storage. After linux/magic.h.
const KERNEL_FILE_SYSTEMS: [(u32, &str); 21] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x1cd1, "devpts"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0x6265_6570, "configfs"),
    (0xcafe_4a11, "bpf"),
    (0xde5e_81e4, "efivarfs"),
    (0x6165_676c, "pstore"),
    (0x1980_0202, "mqueue"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6573_5543, "fusectl"),
    (0x6e73_6673, "nsfs"),
    (0x5049_5045, "pipefs"),
    (0x534f_434b, "sockfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x1373, "devfs"),
];

/// Opens a directory to make, give and take names in it. A link that leads to it is followed.
pub fn directory(path: &Path) -> io::Result<File> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// The directory of a path, open, and the name in it.
pub fn split(path: &Path) -> io::Result<(File, OsString)> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?.to_owned();
    Ok((directory(path.parent().unwrap_or(Path::new("")))?, name))
}

/// Why no file is ever made in this directory: it belongs to the kernel, or to device nodes. None: it may be.
///
/// What counts is the file system that the descriptor is on, whatever name or mount led there. `devtmpfs` looks like
/// `tmpfs` to statfs(2), so it is known by its device number: it is what is mounted at /dev, or what the list of mounts
/// calls so. A file system of its own below /dev, such as /dev/shm, is like any other.
pub fn kernels(directory: impl AsFd) -> io::Result<Option<String>> {
    let directory = directory.as_fd();
    let kind = rustix::fs::fstatfs(directory)?.f_type as u32;
    if let Some((_, name)) = KERNEL_FILE_SYSTEMS.iter().find(|(magic, _)| *magic == kind) {
        return Ok(Some(format!("is on {name}, a file system of the kernel without storage")));
    }
    let device = rustix::fs::fstat(directory)?.st_dev;
    let number = |path: &str| rustix::fs::stat(path).ok().map(|stat| stat.st_dev);
    let is_below_dev = || {
        use std::os::fd::AsRawFd;
        let name = std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).unwrap_or_default();
        name.starts_with("/dev")
    };
    let is_of_dev = number("/dev") == Some(device) && (number("/") != Some(device) || is_below_dev());
    Ok((is_of_dev || is_devtmpfs(device)).then(|| "is among the kernel's device nodes".to_string()))
}

fn is_devtmpfs(device: u64) -> bool {
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| {
        let (about, kind) = line.split_once(" - ").unwrap_or_default();
        about.split(' ').nth(2) == Some(&*number) && kind.starts_with("devtmpfs ")
    })
}

/// A new file to read and write that vanishes with its descriptor, also after a kill.
pub fn nameless_file(path: &Path) -> io::Result<File> {
    let place = directory(path)?;
    if let Some(why) = kernels(&place)? {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} {why}; name another place", path.display()),
        ));
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::openat(&place, ".", flags | OFlags::TMPFILE, mode) {
        // File systems without O_TMPFILE (overlay on old kernels, NFS) answer with one of these.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
            let name = private(OsStr::new("brickyard"));
            let file = File::from(rustix::fs::openat(&place, &name, flags | OFlags::CREATE | OFlags::EXCL, mode)?);
            remove(&place, &name, &file)?;
            Ok(file)
        }
        other => Ok(File::from(other?)),
    }
}

/// A file that this process has open already, by its name below `/proc/self/fd`, emptied to be written. Whoever opened it
/// has looked at its place; any other path is refused.
pub fn held_file(path: &Path) -> io::Result<File> {
    let number = path.strip_prefix("/proc/self/fd").ok().and_then(Path::to_str);
    if !number.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file that is open here"));
    }
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

pub fn same(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

/// Whether a name refers to what the descriptor refers to. A link is not followed.
fn names(directory: BorrowedFd<'_>, name: &OsStr, held: BorrowedFd<'_>) -> Result<bool, Errno> {
    let seen = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(same(&seen, &rustix::fs::fstat(held)?))
}

/// A name that nobody has, beside `name`.
fn private(name: &OsStr) -> OsString {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // Names have at most 255 bytes.
    let short = &name.as_bytes()[..name.len().min(200)];
    let mut made = OsString::from(".");
    made.push(OsStr::from_bytes(short));
    made.push(format!(".{}-{number}.gone", std::process::id()));
    made
}

/// What became of a name that was to be taken from what a descriptor refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It bears this name now, in the same directory, and can be removed.
    Aside(OsString),
    /// Nothing has the name any more.
    Gone,
    /// Something else has the name, and keeps it.
    Foreign,
}

/// Takes a name from what the descriptor refers to. Whatever else bears it, or comes to bear it meanwhile, stays there.
pub fn set_aside(directory: impl AsFd, name: &OsStr, held: impl AsFd) -> io::Result<Taken> {
    let (directory, held) = (directory.as_fd(), held.as_fd());
    match names(directory, name, held) {
        Ok(true) => {}
        Ok(false) => return Ok(Taken::Foreign),
        Err(Errno::NOENT) => return Ok(Taken::Gone),
        Err(error) => return Err(error.into()),
    }
    let aside = private(name);
    match rustix::fs::renameat_with(directory, name, directory, &aside, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(Taken::Gone),
        // A file system that cannot do it; what was looked at a moment ago is all there is to know.
        Err(Errno::INVAL | Errno::NOSYS) => return Ok(Taken::Aside(name.to_owned())),
        Err(error) => return Err(error.into()),
    }
    if names(directory, &aside, held)? {
        return Ok(Taken::Aside(aside));
    }
    rustix::fs::renameat_with(directory, &aside, directory, name, RenameFlags::NOREPLACE).map_err(|error| {
        let text = format!("{}: is not ours and could not get its name back: {error}", Path::new(&aside).display());
        io::Error::other(text)
    })?;
    Ok(Taken::Foreign)
}

/// Removes the name of the file that the descriptor refers to. False: something else bears the name, and stays.
pub fn remove(directory: impl AsFd, name: &OsStr, held: impl AsFd) -> io::Result<bool> {
    match set_aside(&directory, name, held)? {
        Taken::Aside(aside) => {
            rustix::fs::unlinkat(directory, &aside, AtFlags::empty())?;
            Ok(true)
        }
        Taken::Gone => Ok(true),
        Taken::Foreign => Ok(false),
    }
}

/// The same by its path.
pub fn remove_path(path: &Path, held: impl AsFd) -> io::Result<bool> {
    let (directory, name) = split(path)?;
    remove(directory, &name, held)
}

/// Gives a file its name: one that is free, or that of the very file that `replaced` refers to, which then is removed.
/// `AlreadyExists`: something else has the name, and keeps it.
pub fn give_name(directory: impl AsFd, part: &OsStr, name: &OsStr, replaced: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let directory = directory.as_fd();
    let taken = || io::Error::from(io::ErrorKind::AlreadyExists);
    let Some(replaced) = replaced else {
        return match rustix::fs::renameat_with(directory, part, directory, name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(directory, part, directory, name, AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(directory, part, AtFlags::empty())?)
            }
            other => Ok(other?),
        };
    };
    if !names(directory, name, replaced)? {
        return Err(taken());
    }
    match rustix::fs::renameat_with(directory, part, directory, name, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        Err(Errno::INVAL | Errno::NOSYS) => return Ok(rustix::fs::renameat(directory, part, directory, name)?),
        Err(error) => return Err(error.into()),
    }
    if names(directory, part, replaced)? {
        return Ok(rustix::fs::unlinkat(directory, part, AtFlags::empty())?);
    }
    rustix::fs::renameat_with(directory, part, directory, name, RenameFlags::EXCHANGE)?;
    Err(taken())
}
