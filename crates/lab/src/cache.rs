//! Duty: a medium with a volatile cache before it. The file always holds what readers see; for each write that is not yet
//! durable, its old content is kept, so that a power cut puts it back.
//!
//! Refusal: it decides neither when a request ends nor what a flush is worth.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

#[derive(Debug)]
struct Old {
    number: u64,
    offset_bytes: u64,
    content: Vec<u8>,
    /// Which end it was, counted over all writes; none while the write is under way.
    ended: Option<u64>,
}

impl Old {
    /// Puts data over the part of the content that they share.
    fn lay(&mut self, offset_bytes: u64, data: &[u8]) {
        let from = offset_bytes.max(self.offset_bytes);
        let to = (offset_bytes + data.len() as u64).min(self.offset_bytes + self.content.len() as u64);
        if from < to {
            let (here, there) = ((from - self.offset_bytes) as usize, (from - offset_bytes) as usize);
            let bytes = (to - from) as usize;
            self.content[here..here + bytes].copy_from_slice(&data[there..there + bytes]);
        }
    }
}

#[derive(Debug)]
pub struct Medium {
    file: File,
    limit_bytes: u64,
    old: VecDeque<Old>,
    old_bytes: u64,
    begun: u64,
    ended: u64,
}

/// What a power cut took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    pub writes: u64,
    pub bytes: u64,
}

impl Medium {
    /// The cache holds `limit_bytes`; what exceeds it reaches the medium, the oldest first.
    pub fn new(file: File, limit_bytes: u64) -> Medium {
        Medium { file, limit_bytes, old: VecDeque::new(), old_bytes: 0, begun: 0, ended: 0 }
    }

    pub fn volatile_bytes(&self) -> u64 {
        self.old_bytes
    }

    pub fn read(&self, offset_bytes: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset_bytes)
    }

    /// Flips a bit behind the back of everybody, also in what a power cut would put back there.
    pub fn flip(&mut self, offset_bytes: u64) -> io::Result<()> {
        let mut byte = [0];
        self.read(offset_bytes, &mut byte)?;
        self.file.write_all_at(&[byte[0] ^ 1], offset_bytes)?;
        for old in &mut self.old {
            let within = offset_bytes.checked_sub(old.offset_bytes).and_then(|at| old.content.get_mut(at as usize));
            if let Some(byte) = within {
                *byte ^= 1;
            }
        }
        Ok(())
    }

    /// A write begins; its number names it.
    pub fn write(&mut self, offset_bytes: u64, data: &[u8]) -> io::Result<u64> {
        let mut content = vec![0; data.len()];
        self.read(offset_bytes, &mut content)?;
        self.file.write_all_at(data, offset_bytes)?;
        self.begun += 1;
        self.old_bytes += data.len() as u64;
        self.old.push_back(Old { number: self.begun, offset_bytes, content, ended: None });
        Ok(self.begun)
    }

    /// A write has ended. With `durable` data it is past all caches: a power cut that takes older writes back leaves it.
    pub fn ends(&mut self, number: u64, durable: Option<&[u8]>) {
        self.ended += 1;
        let ended = self.ended;
        if let Ok(at) = self.old.binary_search_by_key(&number, |old| old.number) {
            self.old[at].ended = Some(ended);
            if let Some(data) = durable {
                // Of a damaged write only so much has arrived.
                let (offset_bytes, bytes) = (self.old[at].offset_bytes, self.old[at].content.len());
                let data = &data[..bytes.min(data.len())];
                for older in self.old.iter_mut().take(at) {
                    older.lay(offset_bytes, data);
                }
                self.drop_at(at);
            }
        }
        while self.old_bytes > self.limit_bytes && self.old.front().is_some_and(|old| old.ended.is_some()) {
            self.drop_at(0);
        }
    }

    fn drop_at(&mut self, at: usize) {
        if let Some(old) = self.old.remove(at) {
            self.old_bytes -= old.content.len() as u64;
        }
    }

    /// What a flush that begins now makes durable, for `flushed`.
    pub fn flush_covers(&self) -> u64 {
        self.ended
    }

    pub fn flushed(&mut self, covered: u64) {
        self.old.retain(|old| old.ended.is_none_or(|ended| ended > covered));
        self.old_bytes = self.old.iter().map(|old| old.content.len() as u64).sum();
    }

    /// Takes back, the last first, every write that was not durable.
    pub fn power_cut(&mut self) -> io::Result<Taken> {
        let mut taken = Taken::default();
        while let Some(old) = self.old.pop_back() {
            self.file.write_all_at(&old.content, old.offset_bytes)?;
            if old.ended.is_some() {
                taken.writes += 1;
                taken.bytes += old.content.len() as u64;
            }
        }
        self.old_bytes = 0;
        Ok(taken)
    }
}
