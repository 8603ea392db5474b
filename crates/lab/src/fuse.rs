//! Duty: a file system of one file, `disk`, whose requests go to a disk of ours. Refusal: no data and no timing here.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session, SessionACL, WriteFlags,
};

use crate::ring::{self, Answer, Ring, Waker};

/// The name of the file.
pub const NAME: &str = "disk";
/// What stands as the source of the mount, by which its owner is known.
pub const SOURCE: &str = "brickyard-lab";
const FILE: INodeNo = INodeNo(2);
const VALID: Duration = Duration::from_secs(3600);
/// The most that the kernel asks for at once: 256 pages.
const MAX_WRITE_BYTES: u32 = 1 << 20;
/// Requests of the kernel's own making that it hands over at once, such as those of a loop device.
const MAX_BACKGROUND: u16 = 1024;

/// The answer to a request, which may be given later and by another thread, by the way on which the request came.
pub enum Reply {
    Data(ReplyData),
    Written(ReplyWrite),
    Done(ReplyEmpty),
    Ring(Answer),
}

impl Reply {
    pub fn data(self, data: &[u8]) {
        match self {
            Reply::Data(reply) => reply.data(data),
            Reply::Ring(answer) => answer.give(0, data),
            other => other.error(Errno::EIO),
        }
    }

    pub fn written(self, bytes: u32) {
        match self {
            Reply::Written(reply) => reply.written(bytes),
            Reply::Ring(answer) => answer.give(0, &u64::from(bytes).to_le_bytes()), // and four bytes of padding
            other => other.error(Errno::EIO),
        }
    }

    pub fn done(self) {
        match self {
            Reply::Done(reply) => reply.ok(),
            Reply::Ring(answer) => answer.give(0, &[]),
            other => other.error(Errno::EIO),
        }
    }

    pub fn error(self, errno: Errno) {
        match self {
            Reply::Data(reply) => reply.error(errno),
            Reply::Written(reply) => reply.error(errno),
            Reply::Done(reply) => reply.error(errno),
            Reply::Ring(answer) => answer.give(errno.code(), &[]),
        }
    }
}

/// What answers the requests.
pub trait Disk: Send + Sync + 'static {
    fn size_bytes(&self) -> u64;
    fn read(&self, offset_bytes: u64, bytes: u32, reply: Reply);
    /// `durable`: it must be on the medium when it is answered.
    fn write(&self, offset_bytes: u64, data: &[u8], durable: bool, reply: Reply);
    fn flush(&self, reply: Reply);
    /// From now on `tick` is called whenever something is due, and soon after the waker was told.
    fn driven(&self, _waker: Waker) {}
    /// Ends what is due, and says how long nothing else will be.
    fn tick(&self) -> Option<Duration> {
        None
    }
}

/// A mounted disk. It is unmounted when this is dropped; when the process dies, requests fail at once.
pub struct Mounted {
    _session: BackgroundSession,
    pub is_over_ring: bool,
}

/// Mounts a disk, by the kernel's FUSE over io_uring where it is offered.
///
/// `leaves`: this process, which has one thread yet, leaves the mounts of whoever started it. If it were the last one
/// there, the kernel would unmount what stands on this disk while it ends; nobody would answer, and it would wait for itself
/// for ever, and with it each `sync` of this host.
pub fn mount(disk: impl Disk, at: &Path, leaves: bool) -> io::Result<Mounted> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName(SOURCE.into()), MountOption::DefaultPermissions];
    config.acl = SessionACL::All;
    // Once it is agreed on, no request comes by another way, so it has to be there before.
    let ring = if ring::is_offered() { Ring::new(MAX_WRITE_BYTES as usize).ok() } else { None };
    let agreed = Arc::new(AtomicBool::new(false));
    let disk = Arc::new(disk);
    let files = OneFile { disk: disk.clone(), wants_ring: ring.is_some(), agreed: agreed.clone() };
    let session = Session::new(files, at, &config)?;
    // SAFETY: changes the mounts that this thread sees, and those that it starts; no memory is touched.
    if leaves && unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_over_ring = agreed.load(Ordering::SeqCst);
    if let (Some(ring), true) = (ring, is_over_ring) {
        let device = File::from(session.as_fd().try_clone_to_owned()?);
        disk.driven(ring.waker());
        std::thread::Builder::new().name("ring".into()).spawn(move || {
            // SAFETY: changes this thread's timer slack alone. The default of 50 us would make every request late.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
            if let Err(why) = ring.run(&device, || disk.tick(), |request| take(&*disk, request)) {
                // Requests that nobody takes would wait for ever; without this process they fail.
                eprintln!("the ring of requests broke: {why}");
                std::process::abort();
            }
        })?;
    }
    Ok(Mounted { _session: session.spawn()?, is_over_ring })
}

/// Numbers of operations, of Linux's `include/uapi/linux/fuse.h`.
mod operation {
    pub const LOOKUP: u32 = 1;
    pub const GETATTR: u32 = 3;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const OPENDIR: u32 = 27;
    pub const RELEASEDIR: u32 = 29;
    pub const DESTROY: u32 = 38;
    pub const FALLOCATE: u32 = 43;
}

/// A request that came by the ring, as `Filesystem` below answers those that come by the device.
fn take<D: Disk>(disk: &D, request: &ring::Request<'_>) {
    let answer = request.answer();
    match request.opcode() {
        operation::READ => {
            let (offset, bytes) = (request.u64(8), request.u32(16));
            disk.read(offset, left(disk, offset, bytes), Reply::Ring(answer));
        }
        operation::WRITE => {
            let (offset, data, flags) = (request.u64(8), request.payload(), request.u32(32) as i32);
            match fits(disk, offset, data) {
                true => disk.write(offset, data, flags & libc::O_DSYNC != 0, Reply::Ring(answer)),
                false => answer.give(libc::ENOSPC, &[]),
            }
        }
        operation::FSYNC => disk.flush(Reply::Ring(answer)),
        operation::LOOKUP => match request.payload().split(|byte| *byte == 0).next() == Some(NAME.as_bytes()) {
            true => {
                let valid_s = VALID.as_secs();
                let head = [FILE.0, 0, valid_s, valid_s, 0]; // inode, generation, how long both hold, and nanoseconds
                answer.give(0, &[words(&head), attributes(disk, FILE)].concat());
            }
            false => answer.give(libc::ENOENT, &[]),
        },
        operation::GETATTR => {
            let head = words(&[VALID.as_secs(), 0]);
            answer.give(0, &[head, attributes(disk, INodeNo(request.inode()))].concat());
        }
        operation::OPEN => {
            let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
            answer.give(0, &words(&[0, u64::from(flags.bits())]));
        }
        operation::STATFS => answer.give(0, &words(&[0; 10])),
        operation::OPENDIR => answer.give(0, &words(&[0; 2])),
        operation::RELEASE | operation::RELEASEDIR | operation::DESTROY => answer.give(0, &[]),
        operation::FALLOCATE => answer.give(libc::EOPNOTSUPP, &[]),
        _ => answer.give(libc::ENOSYS, &[]),
    }
}

fn words(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// `fuse_attr`.
fn attributes<D: Disk>(disk: &D, inode: INodeNo) -> Vec<u8> {
    let known = file_attributes(disk, inode);
    let kind = if known.kind == FileType::RegularFile { libc::S_IFREG } else { libc::S_IFDIR };
    let mut told = words(&[known.ino.0, known.size, known.blocks, 0, 0, 0]); // three times in seconds
    // Three times in nanoseconds; then mode, links, user, group, device, size of a block, flags.
    let more = [0, 0, 0, kind | u32::from(known.perm), known.nlink, known.uid, known.gid, known.rdev, known.blksize, 0];
    told.extend(more.iter().flat_map(|number| number.to_le_bytes()));
    told
}

fn left<D: Disk>(disk: &D, offset_bytes: u64, bytes: u32) -> u32 {
    u64::from(bytes).min(disk.size_bytes().saturating_sub(offset_bytes)) as u32
}

fn fits<D: Disk>(disk: &D, offset_bytes: u64, data: &[u8]) -> bool {
    offset_bytes.checked_add(data.len() as u64).is_some_and(|end| end <= disk.size_bytes())
}

struct OneFile<D> {
    disk: Arc<D>,
    wants_ring: bool,
    agreed: Arc<AtomicBool>,
}

fn file_attributes<D: Disk>(disk: &D, inode: INodeNo) -> FileAttr {
    let is_file = inode == FILE;
    let size = if is_file { disk.size_bytes() } else { 0 };
    FileAttr {
        ino: inode,
        size,
        blocks: size / 512,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_file { FileType::RegularFile } else { FileType::Directory },
        perm: if is_file { 0o600 } else { 0o700 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl<D: Disk> Filesystem for OneFile<D> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it, direct I/O is carried out within the call that submits it. A kernel that lacks it is slow, not wrong.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(MAX_WRITE_BYTES);
        let _ = config.set_max_background(MAX_BACKGROUND);
        let agreed = self.wants_ring && config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok();
        self.agreed.store(agreed, Ordering::SeqCst);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == NAME {
            true => reply.entry(&VALID, &file_attributes(&*self.disk, FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&VALID, &file_attributes(&*self.disk, inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // What the kernel kept of the file would be neither timed nor lost.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.disk.read(offset, left(&*self.disk, offset, size), Reply::Data(reply));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match fits(&*self.disk, offset, data) {
            true => self.disk.write(offset, data, flags.0 & libc::O_DSYNC != 0, Reply::Written(reply)),
            false => reply.error(Errno::ENOSPC),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS); // of a close, not of the medium
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.disk.flush(Reply::Done(reply));
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        reply.error(Errno::EOPNOTSUPP); // a loop device writes zeros instead, which the log then has
    }
}
