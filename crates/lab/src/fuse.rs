//! Duty: a file system of one file, `disk`, whose requests go to a disk of ours. Refusal: no data and no timing here.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session, SessionACL, WriteFlags,
};

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

/// What answers the requests; each reply may be given later and by another thread.
pub trait Disk: Send + Sync + 'static {
    fn size_bytes(&self) -> u64;
    fn read(&self, offset_bytes: u64, bytes: u32, reply: ReplyData);
    /// `durable`: it must be on the medium when it is answered.
    fn write(&self, offset_bytes: u64, data: &[u8], durable: bool, reply: ReplyWrite);
    fn flush(&self, reply: ReplyEmpty);
}

/// Mounts a disk. It is unmounted when the session is dropped; when the process dies, requests fail at once.
///
/// `leaves`: this process, which has one thread yet, leaves the mounts of whoever started it. If it were the last one
/// there, the kernel would unmount what stands on this disk while it ends; nobody would answer, and it would wait for itself
/// for ever, and with it each `sync` of this host.
pub fn mount(disk: impl Disk, at: &Path, leaves: bool) -> io::Result<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName(SOURCE.into()), MountOption::DefaultPermissions];
    config.acl = SessionACL::All;
    let session = Session::new(OneFile(disk), at, &config)?;
    // SAFETY: changes the mounts that this thread sees, and those that it starts; no memory is touched.
    if leaves && unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    session.spawn()
}

struct OneFile<D>(D);

impl<D: Disk> OneFile<D> {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_file = inode == FILE;
        let size = if is_file { self.0.size_bytes() } else { 0 };
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
}

impl<D: Disk> Filesystem for OneFile<D> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it, direct I/O is carried out within the call that submits it. A kernel that lacks it is slow, not wrong.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(MAX_WRITE_BYTES);
        let _ = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == NAME {
            true => reply.entry(&VALID, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&VALID, &self.attributes(inode));
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
        let left = self.0.size_bytes().saturating_sub(offset);
        self.0.read(offset, u64::from(size).min(left) as u32, reply);
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
        match offset.checked_add(data.len() as u64) {
            Some(end) if end <= self.0.size_bytes() => self.0.write(offset, data, flags.0 & libc::O_DSYNC != 0, reply),
            _ => reply.error(Errno::ENOSPC),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS); // of a close, not of the medium
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.flush(reply);
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        reply.error(Errno::EOPNOTSUPP); // a loop device writes zeros instead, which the log then has
    }
}
