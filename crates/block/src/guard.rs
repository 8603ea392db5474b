//! Duty: opens a target so that nothing of the user's is destroyed by accident. Every target is opened here and only
//! here, once; what is checked is what that descriptor refers to.
//!
//! Refusal: it writes nothing but a file it has just made, and the header of a target that the caller claims.

mod direct;
mod header;
mod in_use;
mod signatures;

pub use header::{
    DATA_START_BYTES, HEADER_BYTES, Header, claim, empty_space, erase_header, hole_bytes, new_uuid, read_header,
    still_filled, still_held, write_header,
};

use engine::event::BufferedReason;
use in_use::Device;
use plan::{Edit, Mistake};
use rustix::fs::{Access as Permission, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a claim is waited for that another run may just be giving up; rings are taken apart within milliseconds.
const RELEASE_WAIT: Duration = Duration::from_secs(1);
const RELEASE_LOOK: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// What the user allowed in so many words.
#[derive(Debug, Clone, Copy)]
pub struct Consent {
    /// `--overwrite` names this target.
    pub overwrite: bool,
    /// `--i-know-this-destroys-data`.
    pub destroys_data: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    File,
    Block,
}

/// An open target that may be used as asked.
#[derive(Debug)]
pub struct Guarded {
    pub file: File,
    pub kind: TargetKind,
    pub size_bytes: u64,
    pub logical_block_bytes: u32,
    /// Why the descriptor has no O_DIRECT; none where it has.
    pub buffered: Option<BufferedReason>,
    pub offset_align_bytes: u32,
    pub memory_align_bytes: u32,
    /// Present where the target is ours.
    pub header: Option<Header>,
}

impl Guarded {
    /// Whether the descriptor has O_DIRECT.
    pub fn is_direct(&self) -> bool {
        self.buffered.is_none()
    }
}

/// One line with cause and remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardError {
    pub message: String,
    pub edit: Option<Edit>,
    /// The target cannot be used as asked, and nothing was written (exit 2); otherwise a transfer failed (exit 1).
    pub bad_input: bool,
}

impl std::fmt::Display for GuardError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for GuardError {}

fn refuse(mistake: impl Into<Mistake>) -> GuardError {
    GuardError::from(mistake.into())
}

/// What is refused before anything was written.
impl From<Mistake> for GuardError {
    fn from(Mistake { message, edit }: Mistake) -> GuardError {
        GuardError { message: one_line(&message), edit, bad_input: true }
    }
}

/// Paths may hold anything, line breaks too.
fn one_line(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn failed(path: &Path, what: &str, error: impl Into<io::Error>) -> GuardError {
    let error = error.into();
    let remedy = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::IO) => "; it answers with I/O errors: check its cabling, the kernel's log and its SMART data",
        _ => "",
    };
    let message = format!("{}: {what} failed: {error}{remedy}", path.display());
    GuardError { message: one_line(&message), edit: None, bad_input: false }
}

/// Opens a target.
///
/// - A missing file is created where `create_bytes` is given, with that much room for data behind the header, and is
///   open for reading and writing whatever `access` says.
/// - A file is written only if it begins with our header, whatever the consent.
/// - A block device is written only while nothing else uses it, with consent; see the crate's tests for every case.
pub fn open(
    path: &Path,
    access: Access,
    want_direct: bool,
    create_bytes: Option<u64>,
    consent: &Consent,
) -> Result<Guarded, GuardError> {
    let seen = match rustix::fs::stat(path) {
        Ok(seen) => seen,
        Err(Errno::NOENT) => {
            let Some(data_bytes) = create_bytes else {
                return Err(refuse(format!("{}: does not exist; check the path", path.display())));
            };
            let (file, header) = create(path, data_bytes)?;
            return finish(path, file, TargetKind::File, want_direct, Some(header));
        }
        Err(errno) => return Err(open_refusal(path, None, access, errno)),
    };
    let kind = kind_of(path, &seen)?;
    let file = open_existing(path, kind, access).map_err(|errno| open_refusal(path, Some(&seen), access, errno))?;
    let found = rustix::fs::fstat(&file).map_err(|e| failed(path, "fstat", e))?;
    if (found.st_dev, found.st_ino, found.st_rdev) != (seen.st_dev, seen.st_ino, seen.st_rdev) {
        return Err(refuse(format!("{}: was replaced while it was opened; try again", path.display())));
    }
    let header = match (kind, access) {
        (TargetKind::File, Access::Write) => Some(check_file(path, &file, &found)?),
        (TargetKind::Block, Access::Write) => check_block(path, &file, &found, consent)?,
        // What is only read may hold anything; a header that cannot be read is no header.
        (_, Access::Read) => read_header(&file).ok().flatten(),
    };
    finish(path, file, kind, want_direct, header)
}

fn kind_of(path: &Path, stat: &Stat) -> Result<TargetKind, GuardError> {
    let other = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(TargetKind::File),
        FileType::BlockDevice => return Ok(TargetKind::Block),
        FileType::Directory => "a directory; name a file in it",
        FileType::CharacterDevice => "a character device; name a block device or a file",
        FileType::Socket => "a socket; name a block device or a file",
        FileType::Fifo => "a pipe; name a block device or a file",
        _ => "neither a file nor a block device; name one of these",
    };
    Err(refuse(format!("{}: is {other}", path.display())))
}

fn open_existing(path: &Path, kind: TargetKind, access: Access) -> Result<File, Errno> {
    let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    flags |= if access == Access::Write { OFlags::RDWR } else { OFlags::RDONLY };
    if (kind, access) == (TargetKind::Block, Access::Write) {
        // Claims the device: the kernel refuses if it is mounted, swap or held, and refuses those while it is open.
        flags |= OFlags::EXCL;
    }
    when_released(|| rustix::fs::open(path, flags, Mode::empty()).map(File::from))
}

/// Tries again for a moment what somebody else seems to use. The kernel takes a closed ring apart in the background, so
/// a run's claim on its targets may outlive it by some milliseconds; what is really in use still is after this.
pub(crate) fn when_released<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let until = Instant::now() + RELEASE_WAIT;
    loop {
        match attempt() {
            Err(Errno::BUSY | Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(RELEASE_LOOK),
            result => return result,
        }
    }
}

fn open_refusal(path: &Path, stat: Option<&Stat>, access: Access, errno: Errno) -> GuardError {
    let device = stat.filter(|s| FileType::from_raw_mode(s.st_mode) == FileType::BlockDevice).map(Device::of);
    let writing = access == Access::Write;
    let cause = match errno {
        Errno::BUSY => {
            let user = device.and_then(|d| d.user().ok().flatten()).unwrap_or_else(|| "in use by the kernel".into());
            format!("{user}; a device in use is never written")
        }
        Errno::ROFS if device.is_none() => "is on a read-only file system; choose another path".into(),
        Errno::ROFS => "is read-only; choose another device".into(),
        Errno::ACCESS | Errno::PERM if device.is_some_and(|d| d.is_read_only()) => {
            "is read-only; choose another device".into()
        }
        Errno::ACCESS if writing => "no permission to write; run as a user who may, or choose another path".into(),
        Errno::ACCESS => "no permission to read; run as a user who may, or choose another path".into(),
        Errno::PERM if device.is_some() => {
            "the device cgroup of this container or service does not allow this device; allow it there (docker run \
             --device, DeviceAllow= of systemd), or choose another target"
                .into()
        }
        Errno::PERM => "may not be opened so (immutable or append-only?); choose another path".into(),
        Errno::TXTBSY => "is being executed or used as swap; it is never written".into(),
        Errno::NOTDIR => "a part of the path is not a directory; check the path".into(),
        Errno::LOOP => "its symbolic links go round in a circle; check the path".into(),
        Errno::NXIO | Errno::NODEV | Errno::NOMEDIUM => "there is no device or no medium behind it; check it".into(),
        Errno::IO => {
            "cannot be opened: it answers with I/O errors; check its cabling, the kernel's log and its SMART data"
                .into()
        }
        other => format!("cannot be opened: {}; check the path", io::Error::from(other)),
    };
    refuse(format!("{}: {cause}", path.display()))
}

/// A file of ours, not otherwise used.
fn check_file(path: &Path, file: &File, stat: &Stat) -> Result<Header, GuardError> {
    let name = path.display();
    let header = match read_header(file) {
        Ok(Some(header)) => header,
        Ok(None) => {
            return Err(refuse(format!(
                "{name}: has no mark of Brickyard, so it is never written, whatever the options: it was not made by \
                 Brickyard, or another program has written over its first block; name another file, or remove this one \
                 if nothing needs it"
            )));
        }
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            return Err(refuse(format!("{name}: {e}; delete it if it is a scratch file, or name a new one")));
        }
        Err(e) => return Err(failed(path, "reading the header", e)),
    };
    if let Some(user) = in_use::file_user(stat).map_err(|e| failed(path, "looking for its users", e))? {
        return Err(refuse(format!("{name}: {user}; a file in use is never written")));
    }
    let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
    if size_bytes < header.end_bytes() {
        return Err(refuse(format!("{name}: is shorter than its header says; delete it and let it be made again")));
    }
    Ok(header)
}

const CONSENT: &str = "--i-know-this-destroys-data";

/// With the options that would allow it.
fn refuse_without<T>(message: String, options: &[&str]) -> Result<T, GuardError> {
    Err(refuse(Mistake::new(message, Some(Edit::added(options)))))
}

/// An idle device, with consent for what is on it.
fn check_block(path: &Path, file: &File, stat: &Stat, consent: &Consent) -> Result<Option<Header>, GuardError> {
    let name = path.display();
    let device = Device::of(stat);
    if let Some(user) = device.user().map_err(|e| failed(path, "looking for its users", e))? {
        return Err(refuse(format!("{name}: {user}; a device in use is never written")));
    }
    if device.is_read_only() {
        return Err(refuse(format!("{name}: is read-only; choose another device")));
    }
    let size_bytes = size_bytes(file).map_err(|e| failed(path, "asking for its size", e))?;
    let header = match read_header(file) {
        Ok(header) => header.filter(|h| h.end_bytes() <= size_bytes),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => None,
        Err(e) => return Err(failed(path, "reading its start", e)),
    };
    // With our header on it, too: md 1.0 or a partition may have come since without touching the start.
    let mut found = signatures::scan(file, 0, size_bytes).map_err(|e| failed(path, "looking for data on it", e))?;
    for partition in device.partitions().map_err(|e| failed(path, "listing its partitions", e))? {
        let inside = signatures::scan(file, partition.start_bytes, partition.length_bytes)
            .map_err(|e| failed(path, "looking for data on its partitions", e))?;
        found.extend(inside.into_iter().map(|what| format!("{what} on {}", partition.name)));
        found.push(format!("partition {}", partition.name));
    }
    let (carried, named) = (found.join(", "), name.to_string());
    let allowed = ["--overwrite", &named];
    match (found.is_empty(), consent.overwrite, consent.destroys_data) {
        (true, true, _) | (false, true, true) => Ok(header),
        (true, false, _) => refuse_without(
            format!(
                "{name}: is a block device, idle and without a known signature; it is written only with --overwrite {name}"
            ),
            &allowed,
        ),
        (false, false, _) => refuse_without(
            format!("{name}: carries {carried}; it is written only with --overwrite {name} and {CONSENT}"),
            &[allowed[0], allowed[1], CONSENT],
        ),
        (false, true, false) => refuse_without(
            format!("{name}: carries {carried}; what is on it is destroyed only with {CONSENT} as well"),
            &[CONSENT],
        ),
    }
}

/// Whether a file that is missing could be made now, with room for so much data; nothing is made.
pub fn could_create(path: &Path, data_bytes: u64) -> Result<(), GuardError> {
    let directory = directory_for(path, whole_size(path, data_bytes)?)?;
    let may = rustix::fs::accessat(&directory, ".", Permission::WRITE_OK | Permission::EXEC_OK, AtFlags::EACCESS);
    may.map_err(|errno| open_refusal(path, None, Access::Write, errno))?;
    match std::fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(_) => {
            Err(refuse(format!("{}: is a symbolic link to nothing; name a file, or remove the link", path.display())))
        }
    }
}

fn whole_size(path: &Path, data_bytes: u64) -> Result<u64, GuardError> {
    let name = path.display();
    if data_bytes == 0 {
        return Err(refuse(format!("{name}: cannot be made with room for 0 bytes; give it a size")));
    }
    let size_bytes = data_bytes.checked_add(DATA_START_BYTES).filter(|size| i64::try_from(*size).is_ok());
    size_bytes.ok_or_else(|| refuse(format!("{name}: {data_bytes} bytes are more than a file can have; give it less")))
}

/// The directory for a new file, if it may hold one and has the room.
fn directory_for(path: &Path, size_bytes: u64) -> Result<File, GuardError> {
    let name = path.display();
    let failed = |error: io::Error| match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => refuse(format!("{name}: its directory does not exist; make it, or choose another path")),
        errno => open_refusal(path, None, Access::Write, errno.unwrap_or(Errno::IO)),
    };
    let directory = place::directory(path.parent().unwrap_or(Path::new(""))).map_err(failed)?;
    if let Some(why) = place::kernels(&directory).map_err(failed)? {
        return Err(refuse(format!(
            "{name}: does not exist, and its directory {why}, so no file is made; check the path"
        )));
    }
    let fs = rustix::fs::fstatvfs(&directory).map_err(|errno| failed(errno.into()))?;
    let room = fs.f_bavail.saturating_mul(fs.f_frsize);
    if room < size_bytes {
        return Err(no_space(path, size_bytes, Some(room)));
    }
    Ok(directory)
}

/// Makes a file that begins with our header and has room for the data.
fn create(path: &Path, data_bytes: u64) -> Result<(File, Header), GuardError> {
    let name = path.display();
    let size_bytes = whole_size(path, data_bytes)?;
    let directory = directory_for(path, size_bytes)?;
    let last = path.file_name().ok_or_else(|| refuse(format!("{name}: names no file; name one")))?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match rustix::fs::openat(&directory, last, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(Errno::EXIST) if path.exists() => {
            return Err(refuse(format!("{name}: was made by another process meanwhile; try again")));
        }
        Err(Errno::EXIST) => {
            return Err(refuse(format!("{name}: is a symbolic link to nothing; name a file, or remove the link")));
        }
        Err(Errno::NOSPC | Errno::DQUOT) => return Err(no_space(path, size_bytes, None)),
        Err(errno) => return Err(open_refusal(path, None, Access::Write, errno)),
    };
    let made = header::new_uuid().and_then(|uuid| {
        allocate(&file, size_bytes)?;
        let header = Header { uuid, data_bytes, seed: 0, filled_bytes: 0, is_trimmed: false };
        write_header(&file, &header).map(|()| header)
    });
    let error = match made {
        Ok(header) => return Ok((file, header)),
        Err(error) => error,
    };
    // Only what was made a moment ago is removed; a second failure would hide the first.
    let _ = place::remove(&directory, last, &file);
    Err(match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => no_space(path, size_bytes, None),
        Some(Errno::FBIG) => refuse(format!(
            "{name}: {} is more than its file system or the limit of the process allows; give it less",
            plan::format_bytes(size_bytes)
        )),
        _ => failed(path, "making the file", error),
    })
}

fn allocate(file: &File, size_bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size_bytes) {
        // Not every file system can reserve; the space was asked for before.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(size_bytes),
        other => Ok(other?),
    }
}

fn no_space(path: &Path, size_bytes: u64, room_bytes: Option<u64>) -> GuardError {
    // Whole MiB are enough to choose another size by.
    let mib = |bytes: u64| bytes >> 20;
    let room = match room_bytes {
        Some(room) => format!("and its file system has {} MiB free", mib(room)),
        None => "which its file system or the quota does not grant".into(),
    };
    refuse(format!(
        "{}: needs {} MiB, {room}; choose a smaller size or another path",
        path.display(),
        mib(size_bytes.saturating_add((1 << 20) - 1))
    ))
}

/// Of a file or a block device; the place of the descriptor is of no use to anyone here.
fn size_bytes(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?)
}

fn finish(
    path: &Path,
    file: File,
    kind: TargetKind,
    want_direct: bool,
    header: Option<Header>,
) -> Result<Guarded, GuardError> {
    let size_bytes = size_bytes(&file).map_err(|e| failed(path, "asking for its size", e))?;
    if kind == TargetKind::Block && size_bytes == 0 {
        return Err(refuse(format!("{}: has no medium or no size; check the device", path.display())));
    }
    let io = direct::set_up(&file, kind, want_direct).map_err(|e| failed(path, "setting up O_DIRECT", e))?;
    let header = header.map(|found| match kind {
        TargetKind::File => still_filled(&file, found),
        TargetKind::Block => still_held(&file, found),
    });
    Ok(Guarded {
        file,
        kind,
        size_bytes,
        logical_block_bytes: io.logical_block_bytes,
        buffered: io.buffered,
        offset_align_bytes: io.offset_align_bytes,
        memory_align_bytes: io.memory_align_bytes,
        header,
    })
}
