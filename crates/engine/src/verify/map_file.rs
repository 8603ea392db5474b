//! A table of one 32-bit word per block in a file, so that the kernel can page it out. The file has no name, or is kept
//! for a later session.
//!
//! Duty: hold words for billions of blocks in bounded memory. Refusal: it does not know what a word means.
//!
//! A kept file is believed where it was closed, or where the same boot of the system goes on: a killed process leaves
//! its mapped words to the kernel, but after a crash of the system the file may be older than the device.
//!
//! The file is sparse; a piece of it gets its space when the first word in it is set, through `posix_fallocate`, since
//! storing into a mapped hole of a full file system kills the process. Where there is no space left the piece is
//! *blind*: its words cannot be kept, and the caller is told.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Unit of allocation: large enough that a map of 20 GB takes 20,000 calls over a run, small enough that a small run
/// takes little space.
const PIECE_BYTES: usize = 1 << 20;
const PIECE_WORDS: usize = PIECE_BYTES / 4;
/// Before the words: a page for the [`Head`].
const HEAD_BYTES: usize = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"BRKMAP02");
/// Of files whose words had another meaning. They are ours, and begun anew.
const EARLIER_MAGIC: u64 = u64::from_le_bytes(*b"BRKMAP01");
/// A kept file says so many generations ahead which ones may have been used, so that it seldom has to.
const RESERVED_AHEAD: u64 = 1 << 16;

/// Whose words they are. A kept file of another is begun anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub run_id: u64,
    pub start_bytes: u64,
    pub block_bytes: u64,
    pub seed: u64,
}

/// The first page of a kept file.
#[repr(C)]
struct Head {
    magic: AtomicU64,
    blocks: AtomicU64,
    start_bytes: AtomicU64,
    block_bytes: AtomicU64,
    seed: AtomicU64,
    run_id: AtomicU64,
    /// No generation above this has been used.
    reserved: AtomicU64,
    closed: AtomicU64,
    boot: [AtomicU64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Hole,
    Kept,
    Blind,
}

#[derive(Debug)]
pub(super) struct MapFile {
    file: File,
    mapping: *mut u8,
    words: *mut u32,
    length: usize,
    pieces: Vec<Piece>,
    kept: bool,
}

// SAFETY: the mapping belongs to this value alone and is only reached through `&self` (reads) and `&mut self` (writes).
unsafe impl Send for MapFile {}

impl MapFile {
    pub fn new(directory: &Path, length: usize) -> io::Result<MapFile> {
        MapFile::mapped(place::nameless_file(directory)?, length, false)
    }

    /// A file that stays. Gives back whose words are in it: of an earlier session where it can be believed, else, with
    /// all words unset, of `identity`.
    pub fn kept(path: &Path, length: usize, identity: Identity) -> io::Result<(MapFile, Identity)> {
        let file = file_of_ours(path)?;
        if file.metadata()?.len() != MapFile::bytes_for(length) as u64 {
            file.set_len(0)?;
        }
        let mut map = MapFile::mapped(file, length, true)?;
        let found = map.believed(identity);
        if found.is_none() {
            map.file.set_len(0)?;
            map.file.set_len(MapFile::bytes_for(length) as u64)?;
            map.pieces.fill(Piece::Hole);
            map.allocate_head()?;
            map.allocate(0)?;
            map.pieces[0] = Piece::Kept;
        }
        map.sign(found.unwrap_or(identity))?;
        Ok((map, found.unwrap_or(identity)))
    }

    fn bytes_for(length: usize) -> usize {
        HEAD_BYTES + length.div_ceil(PIECE_WORDS).max(1) * PIECE_BYTES
    }

    fn mapped(file: File, length: usize, kept: bool) -> io::Result<MapFile> {
        let bytes = MapFile::bytes_for(length);
        file.set_len(bytes as u64)?;
        // SAFETY: a fresh mapping of a file that nobody else uses; it is unmapped in `drop` only.
        let address = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = address.cast::<u8>();
        // SAFETY: inside the mapping, and aligned as a page is.
        let words = unsafe { mapping.add(HEAD_BYTES).cast() };
        let pieces = vec![Piece::Hole; (bytes - HEAD_BYTES) / PIECE_BYTES];
        let mut map = MapFile { file, mapping, words, length, pieces, kept };
        if kept {
            map.allocate_head()?;
            map.find_pieces();
        }
        // Fails now rather than in the run where not even the first piece can be had.
        map.allocate(0)?;
        map.pieces[0] = Piece::Kept;
        Ok(map)
    }

    /// Of a file that was kept: pieces with data in them have their space.
    fn find_pieces(&mut self) {
        let mut at = HEAD_BYTES as libc::off_t;
        loop {
            // SAFETY: a system call on a descriptor that we own.
            let data = unsafe { libc::lseek(self.file.as_raw_fd(), at, libc::SEEK_DATA) };
            let Some(piece) = usize::try_from(data).ok().map(|data| (data - HEAD_BYTES) / PIECE_BYTES) else { return };
            let Some(found) = self.pieces.get_mut(piece) else { return };
            *found = Piece::Kept;
            at = (HEAD_BYTES + (piece + 1) * PIECE_BYTES) as libc::off_t;
        }
    }

    fn head(&self) -> &Head {
        // SAFETY: the first page of the mapping is there as long as the value is, aligned, and all its fields are atomic.
        unsafe { &*self.mapping.cast::<Head>() }
    }

    fn believed(&self, identity: Identity) -> Option<Identity> {
        let head = self.head();
        let load = |field: &AtomicU64| field.load(Ordering::Relaxed);
        let found = Identity { run_id: load(&head.run_id), ..identity };
        let same = load(&head.magic) == MAGIC
            && load(&head.blocks) == self.length as u64
            && load(&head.start_bytes) == identity.start_bytes
            && load(&head.block_bytes) == identity.block_bytes
            && load(&head.seed) == identity.seed;
        let boot = [load(&head.boot[0]), load(&head.boot[1])];
        (same && (load(&head.closed) == 1 || boot == boot_id())).then_some(found)
    }

    fn sign(&self, identity: Identity) -> io::Result<()> {
        let head = self.head();
        let boot = boot_id();
        for (field, value) in [
            (&head.magic, MAGIC),
            (&head.blocks, self.length as u64),
            (&head.start_bytes, identity.start_bytes),
            (&head.block_bytes, identity.block_bytes),
            (&head.seed, identity.seed),
            (&head.run_id, identity.run_id),
            (&head.closed, 0),
            (&head.boot[0], boot[0]),
            (&head.boot[1], boot[1]),
        ] {
            field.store(value, Ordering::Relaxed);
        }
        self.file.sync_all()
    }

    /// The greatest generation that may have been used; 0 in a new file.
    pub fn reserved(&self) -> u64 {
        if self.kept { self.head().reserved.load(Ordering::Relaxed) } else { 0 }
    }

    /// This generation is about to be used.
    #[inline]
    pub fn reserve(&self, generation: u64) {
        if self.kept && generation > self.head().reserved.load(Ordering::Relaxed) {
            self.head().reserved.store(generation + RESERVED_AHEAD, Ordering::Relaxed);
        }
    }

    /// Changes every word that has been set.
    pub fn replace(&mut self, mut change: impl FnMut(u32) -> u32) {
        for piece in (0..self.pieces.len()).filter(|p| self.pieces[*p] == Piece::Kept).collect::<Vec<_>>() {
            for index in piece * PIECE_WORDS..((piece + 1) * PIECE_WORDS).min(self.length) {
                // SAFETY: inside the mapping, and the piece has its space; changed words only are written.
                let word = unsafe { self.words.add(index).read() };
                let changed = change(word);
                if changed != word {
                    self.set(index, changed);
                }
            }
        }
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
        if self.kept && self.pieces[piece] == Piece::Kept {
            return Ok(());
        }
        self.take(HEAD_BYTES + piece * PIECE_BYTES, PIECE_BYTES)
    }

    fn allocate_head(&self) -> io::Result<()> {
        // What a kept file holds there must stay, so where the call is not to be had its bytes are written back.
        let mut head = vec![0; HEAD_BYTES];
        self.file.read_exact_at(&mut head, 0)?;
        self.file.write_all_at(&head, 0)
    }

    fn take(&self, start: usize, bytes: usize) -> io::Result<()> {
        // SAFETY: a system call on a descriptor that we own.
        let code = unsafe { libc::posix_fallocate(self.file.as_raw_fd(), start as libc::off_t, bytes as libc::off_t) };
        match code {
            0 => Ok(()),
            // Some libraries do not emulate it on file systems that lack it.
            libc::EOPNOTSUPP | libc::EINVAL => self.file.write_all_at(&vec![0; bytes], start as u64),
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
        let bytes = MapFile::bytes_for(self.length);
        if self.kept {
            // SAFETY: our own mapping. Only when the words are safe does the file say that it was closed; where that
            // fails it is not believed after the next boot, which is all that can be done.
            let words_are_safe = unsafe { libc::msync(self.mapping.cast(), bytes, libc::MS_SYNC) } == 0;
            if words_are_safe && self.file.sync_all().is_ok() {
                self.head().closed.store(1, Ordering::Relaxed);
                let _ = unsafe { libc::msync(self.mapping.cast(), HEAD_BYTES, libc::MS_SYNC) };
            }
        }
        // SAFETY: exactly what was mapped; no reference into it outlives `self`.
        unsafe { libc::munmap(self.mapping.cast(), bytes) };
    }
}

/// Which boot of the system this is; all ones where it does not say, which equals no earlier one's.
fn boot_id() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let half = |range| digits.get(range).and_then(|part| u64::from_str_radix(part, 16).ok()).unwrap_or(u64::MAX);
    [half(0..16), half(16..32)]
}

/// A file that is kept: made now, or one that begins as ours do. One of zeros was made by us and never signed.
fn file_of_ours(path: &Path) -> io::Result<File> {
    let (directory, _) = place::split(path)?;
    let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", path.display()));
    if let Some(why) = place::kernels(&directory)? {
        return Err(refused(&format!("its directory {why}; name another place")));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    // Looked at before it is opened: to open a device may already do something to it.
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(refused("is no regular file; move it away"));
    }
    let file = options.open(path)?;
    let mut head = [0; 8];
    let count = file.read_at(&mut head, 0)?;
    let is_ours = file.metadata()?.is_file()
        && ([MAGIC, EARLIER_MAGIC].map(u64::to_le_bytes).contains(&head) || head[..count].iter().all(|b| *b == 0));
    if is_ours { Ok(file) } else { Err(refused("was not made by Brickyard; move it away")) }
}
