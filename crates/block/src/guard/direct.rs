//! O_DIRECT where the file system has it, and the alignment it asks for.

use super::TargetKind;
use engine::event::BufferedReason;
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::PathBuf;

pub struct DirectIo {
    /// Why it is not direct; none where it is.
    pub buffered: Option<BufferedReason>,
    pub logical_block_bytes: u32,
    pub offset_align_bytes: u32,
    pub memory_align_bytes: u32,
}

/// statfs(2): file systems that are memory. They accept O_DIRECT and ignore it.
const TMPFS_MAGIC: i64 = 0x0102_1994;
const RAMFS_MAGIC: i64 = 0x8584_58f6;

/// Offsets and buffers of buffered transfers need none; a sector is the least that profiles speak of.
const SECTOR_BYTES: u32 = 512;

pub fn set_up(file: &File, kind: TargetKind, want_direct: bool) -> io::Result<DirectIo> {
    let logical_block_bytes = logical_block_bytes(file, kind)?;
    let buffered = |reason| DirectIo {
        buffered: Some(reason),
        logical_block_bytes,
        offset_align_bytes: SECTOR_BYTES,
        memory_align_bytes: SECTOR_BYTES,
    };
    // O_NONBLOCK was for the opening only.
    let flags = rustix::fs::fcntl_getfl(file)? - OFlags::NONBLOCK;
    rustix::fs::fcntl_setfl(file, flags)?;
    if !want_direct {
        return Ok(buffered(BufferedReason::Requested));
    }
    #[allow(clippy::unnecessary_cast)] // its type differs between architectures
    let file_system = rustix::fs::fstatfs(file)?.f_type as i64;
    if kind == TargetKind::File && matches!(file_system, TMPFS_MAGIC | RAMFS_MAGIC) {
        return Ok(buffered(BufferedReason::InMemory));
    }
    let reported = reported_alignment(file);
    if reported == Some((0, 0)) {
        return Ok(buffered(BufferedReason::Unsupported));
    }
    match rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT) {
        Ok(()) => {}
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(buffered(BufferedReason::Refused)),
        Err(errno) => return Err(errno.into()),
    }
    let (memory_align_bytes, offset_align_bytes) = reported.unwrap_or((logical_block_bytes, logical_block_bytes));
    Ok(DirectIo { buffered: None, logical_block_bytes, offset_align_bytes, memory_align_bytes })
}

/// Memory and offset alignment by statx(2), on Linux 6.1 or later; both 0 where direct I/O is not supported.
fn reported_alignment(file: &File) -> Option<(u32, u32)> {
    let statx = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let known = statx.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    known.then_some((statx.stx_dio_mem_align, statx.stx_dio_offset_align))
}

fn logical_block_bytes(file: &File, kind: TargetKind) -> io::Result<u32> {
    if kind == TargetKind::Block {
        return Ok(rustix::fs::ioctl_blksszget(file)?);
    }
    let device = rustix::fs::fstat(file)?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    // A partition has no queue of its own; a file system over several devices has no device here.
    let size = ["queue/logical_block_size", "../queue/logical_block_size"]
        .iter()
        .find_map(|queue| std::fs::read_to_string(device.join(queue)).ok()?.trim().parse().ok());
    // 4096: a page, which no file system on a device asks more than in the absence of better knowledge.
    Ok(size.unwrap_or(4096))
}
