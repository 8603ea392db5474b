//! Duty: the content of a disk in memory, block by block, with a hash of all of it that follows every change: two disks
//! with the same hash have the same content. A copy keeps changes of its own over an image that stays as it is.
//!
//! Refusal: it knows no log and no file.

use std::collections::HashMap;

use crate::hash;

pub const BLOCK_BYTES: usize = 4096;
type Block = Box<[u8; BLOCK_BYTES]>;

/// Of a block, 0 where it is blank, so that a blank disk of any size has the hash 0.
fn hash_of(number: u64, block: &[u8; BLOCK_BYTES]) -> u64 {
    if block.iter().all(|byte| *byte == 0) { 0 } else { hash::of_bytes(hash::mixed(number), block) }
}

/// The pieces of a range that lie in one block each: block, first byte there, first byte of the range, length.
fn pieces(offset_bytes: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset_bytes + done as u64;
        let within = (at % BLOCK_BYTES as u64) as usize;
        let length = (BLOCK_BYTES - within).min(bytes - done);
        let piece = (at / BLOCK_BYTES as u64, within, done, length);
        done += length;
        (length > 0).then_some(piece)
    })
}

#[derive(Debug, Default)]
pub struct Image {
    blocks: HashMap<u64, (u64, Block)>,
    hash: u64,
}

impl Image {
    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn clear(&mut self) {
        self.blocks.clear();
        self.hash = 0;
    }

    pub fn write(&mut self, offset_bytes: u64, data: &[u8]) {
        for (number, within, done, length) in pieces(offset_bytes, data.len()) {
            let (was, block) = self.blocks.entry(number).or_insert_with(|| (0, Box::new([0; BLOCK_BYTES])));
            block[within..within + length].copy_from_slice(&data[done..done + length]);
            let now = hash_of(number, block);
            self.hash ^= *was ^ now;
            *was = now;
        }
    }

    fn block(&self, number: u64) -> Option<&[u8; BLOCK_BYTES]> {
        self.blocks.get(&number).map(|(_, block)| &**block)
    }

    fn block_hash(&self, number: u64) -> u64 {
        self.blocks.get(&number).map_or(0, |(hash, _)| *hash)
    }
}

/// Changes over an image.
#[derive(Debug, Default)]
pub struct Copy {
    blocks: HashMap<u64, Block>,
}

impl Copy {
    pub fn clear(&mut self) {
        self.blocks.clear();
    }

    pub fn write(&mut self, below: &Image, offset_bytes: u64, data: &[u8]) {
        for (number, within, done, length) in pieces(offset_bytes, data.len()) {
            let block = self.blocks.entry(number).or_insert_with(|| match below.block(number) {
                Some(block) => Box::new(*block),
                None => Box::new([0; BLOCK_BYTES]),
            });
            block[within..within + length].copy_from_slice(&data[done..done + length]);
        }
    }

    pub fn read(&self, below: &Image, offset_bytes: u64, out: &mut [u8]) {
        for (number, within, done, length) in pieces(offset_bytes, out.len()) {
            let out = &mut out[done..done + length];
            match self.blocks.get(&number).map(|block| &**block).or_else(|| below.block(number)) {
                Some(block) => out.copy_from_slice(&block[within..within + length]),
                None => out.fill(0),
            }
        }
    }

    /// The hash that the image with these changes would have.
    pub fn hash(&self, below: &Image) -> u64 {
        let changed = |(number, block): (&u64, &Block)| below.block_hash(*number) ^ hash_of(*number, block);
        self.blocks.iter().map(changed).fold(below.hash, |all, one| all ^ one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_follows_the_content_and_not_the_way_to_it() {
        let (mut one, mut other) = (Image::default(), Image::default());
        one.write(4000, &[1; 5000]);
        other.write(4000, &[2; 5000]);
        assert_ne!(one.hash(), other.hash());
        other.write(4000, &[1; 5000]);
        assert_eq!(one.hash(), other.hash());
        one.write(4000, &[0; 5000]);
        assert_eq!(one.hash(), 0);
    }

    #[test]
    fn a_copy_hides_what_it_changes_and_leaves_the_image_alone() {
        let mut image = Image::default();
        image.write(0, &[1; 9000]);
        let before = image.hash();
        let mut copy = Copy::default();
        copy.write(&image, 4095, &[2, 2]);
        let mut out = [9; 4];
        copy.read(&image, 4094, &mut out);
        assert_eq!(out, [1, 2, 2, 1]);
        copy.read(&image, 1 << 20, &mut out);
        assert_eq!(out, [0; 4]);
        assert_eq!(image.hash(), before);
        let expected = copy.hash(&image);
        image.write(4095, &[2, 2]);
        assert_eq!(image.hash(), expected);
    }
}
