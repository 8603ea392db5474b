//! A table of one 32-bit word per block in a file without a name, so that the kernel can page it out.
//!
//! Duty: hold words for billions of blocks in bounded memory. Refusal: it does not know what a word means.
//!
//! The file is sparse; a piece of it gets its space when the first word in it is set, through `posix_fallocate`, since
//! storing into a mapped hole of a full file system kills the process. Where there is no space left the piece is
//! *blind*: its words cannot be kept, and the caller is told.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Unit of allocation: large enough that a map of 20 GB takes 20,000 calls over a run, small enough that a small run
/// takes little space.
const PIECE_BYTES: usize = 1 << 20;
const PIECE_WORDS: usize = PIECE_BYTES / 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Hole,
    Kept,
    Blind,
}

#[derive(Debug)]
pub(super) struct MapFile {
    file: File,
    words: *mut u32,
    length: usize,
    pieces: Vec<Piece>,
}

// SAFETY: the mapping belongs to this value alone and is only reached through `&self` (reads) and `&mut self` (writes).
unsafe impl Send for MapFile {}

impl MapFile {
    pub fn new(directory: &Path, length: usize) -> io::Result<MapFile> {
        let file = nameless_file(directory)?;
        let pieces = length.div_ceil(PIECE_WORDS).max(1);
        let bytes = pieces * PIECE_BYTES;
        file.set_len(bytes as u64)?;
        // SAFETY: a fresh mapping of a file that nobody else knows; it is unmapped in `drop` only.
        let address = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut map = MapFile { file, words: address.cast(), length, pieces: vec![Piece::Hole; pieces] };
        // Fails now rather than in the run where not even the first piece can be had.
        map.allocate(0)?;
        map.pieces[0] = Piece::Kept;
        Ok(map)
    }

    /// The word of `index`: 0 where none was set, `None` where it could not be kept.
    #[inline]
    pub fn get(&self, index: usize) -> Option<u32> {
        assert!(index < self.length);
        match self.pieces[index / PIECE_WORDS] {
            // SAFETY: inside the mapping, and the piece has its space.
            Piece::Kept => Some(unsafe { self.words.add(index).read() }),
            Piece::Hole => Some(0),
            Piece::Blind => None,
        }
    }

    /// Sets a word; false where it cannot be kept.
    #[inline]
    pub fn set(&mut self, index: usize, word: u32) -> bool {
        assert!(index < self.length);
        let piece = index / PIECE_WORDS;
        if self.pieces[piece] == Piece::Hole {
            self.pieces[piece] = if self.allocate(piece).is_ok() { Piece::Kept } else { Piece::Blind };
        }
        if self.pieces[piece] == Piece::Blind {
            return false;
        }
        // SAFETY: inside the mapping, and the piece has its space.
        unsafe { self.words.add(index).write(word) };
        true
    }

    fn allocate(&self, piece: usize) -> io::Result<()> {
        let start = piece * PIECE_BYTES;
        // SAFETY: a system call on a descriptor that we own.
        let code =
            unsafe { libc::posix_fallocate(self.file.as_raw_fd(), start as libc::off_t, PIECE_BYTES as libc::off_t) };
        match code {
            0 => Ok(()),
            // Some libraries do not emulate it on file systems that lack it.
            libc::EOPNOTSUPP | libc::EINVAL => self.file.write_all_at(&vec![0; PIECE_BYTES], start as u64),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    #[cfg(test)]
    pub fn blind_all(&mut self) {
        self.pieces.fill(Piece::Blind);
    }
}

impl Drop for MapFile {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; no reference into it is ever handed out.
        unsafe { libc::munmap(self.words.cast(), self.pieces.len() * PIECE_BYTES) };
    }
}

/// A file that vanishes with its descriptor, also after a kill.
fn nameless_file(directory: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let nameless = options.clone().custom_flags(libc::O_TMPFILE).open(directory);
    match nameless.as_ref().map_err(io::Error::raw_os_error) {
        // File systems without O_TMPFILE (overlay on old kernels, NFS) answer with one of these.
        Err(Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) if directory.is_dir() => {
            let path = directory.join(format!(".brickyard-generations-{}", std::process::id()));
            let file = options.create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        _ => nameless,
    }
}
