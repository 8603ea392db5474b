//! Duty: crash states of a log as the content of a disk: one durable image rolls forward over the log, and each state is a
//! copy with its volatile writes on top, which whoever mounts it may change.
//!
//! Refusal: it draws no state and serves no request.

use crate::draw::State;
use crate::image::{Copy, Image};
use crate::log::{Kind, Log};

#[derive(Debug)]
pub struct View {
    log: Log,
    image: Image,
    /// Records that are in the image.
    rolled: usize,
    copy: Copy,
}

impl View {
    pub fn new(log: Log) -> View {
        View { log, image: Image::default(), rolled: 0, copy: Copy::default() }
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    pub fn size_bytes(&self) -> u64 {
        self.log.size_bytes
    }

    /// Becomes the state, and returns the hash of its content. States in the order of what is durable roll forward once.
    pub fn become_state(&mut self, state: &State) -> Result<u64, String> {
        self.roll(state.durable as usize)?;
        self.copy.clear();
        // A torn write has many pieces, and each reading of its data checks all of them.
        for pieces in state.kept.chunk_by(|one, next| one.record == next.record) {
            let record = pieces[0].record;
            let data = self.log.data(record)?;
            for kept in pieces {
                let offset_bytes = self.log.records[record].offset_bytes + u64::from(kept.from);
                self.copy.write(&self.image, offset_bytes, &data[kept.from as usize..kept.to as usize]);
            }
        }
        Ok(self.copy.hash(&self.image))
    }

    fn roll(&mut self, to: usize) -> Result<(), String> {
        if to < self.rolled {
            self.image.clear();
            self.rolled = 0;
        }
        for index in self.rolled..to {
            if self.log.records[index].kind == Kind::Write {
                let data = self.log.data(index)?;
                self.image.write(self.log.records[index].offset_bytes, &data);
            }
        }
        self.rolled = to;
        Ok(())
    }

    pub fn read(&self, offset_bytes: u64, out: &mut [u8]) {
        self.copy.read(&self.image, offset_bytes, out);
    }

    pub fn write(&mut self, offset_bytes: u64, data: &[u8]) {
        self.copy.write(&self.image, offset_bytes, data);
    }
}
