//! One block after the other, from one cursor of the stream or one of the lane.

use super::{Space, StreamShared};
use std::sync::Arc;

/// Where the next request goes, which may be shorter than the one drawn: see [`Sequential::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub offset_bytes: u64,
    pub request_bytes: u32,
    pub pass: u64,
}

#[derive(Debug)]
pub struct Sequential {
    start_bytes: u64,
    /// What a pass covers: whole blocks where there is one size, else whole alignment units.
    length_bytes: u64,
    /// Where there is one size; the cursor then counts blocks, else bytes over all passes.
    blocks: Option<Blocks>,
    /// Smallest first.
    sizes: Box<[u32]>,
    cursor: Cursor,
}

#[derive(Debug, Clone, Copy)]
struct Blocks {
    block_bytes: u64,
    count: u64,
}

#[derive(Debug)]
enum Cursor {
    Own(u64),
    Shared(Arc<StreamShared>),
}

impl Sequential {
    /// One cursor for all lanes.
    pub fn shared(space: &Space, lanes: u32, shared: Arc<StreamShared>) -> Result<Sequential, String> {
        let unit_bytes = Sequential::unit_bytes(space)?;
        // A lane alone needs no atomic cursor.
        let cursor = if lanes == 1 { Cursor::Own(0) } else { Cursor::Shared(shared) };
        Ok(Sequential::part(space, 0, space.length_bytes / unit_bytes, unit_bytes, cursor))
    }

    /// Lane `lane` keeps to its own one of `lanes` parts that differ by at most one block.
    pub fn apart(space: &Space, lane: u32, lanes: u32) -> Result<Sequential, String> {
        let unit_bytes = Sequential::unit_bytes(space)?;
        let units = space.length_bytes / unit_bytes;
        let edge = |lane: u32| (u128::from(units) * u128::from(lane) / u128::from(lanes)) as u64;
        let (first, end) = (edge(lane), edge(lane + 1));
        // The smallest part decides, so that either all lanes can work or none.
        if units / u64::from(lanes) * unit_bytes < space.max_bytes() {
            return Err(format!(
                "region of {} in {lanes} parts has no room for a request of {} in each; use fewer workers or a larger region",
                plan::format_bytes(space.length_bytes),
                plan::format_bytes(space.max_bytes())
            ));
        }
        Ok(Sequential::part(space, first, end, unit_bytes, Cursor::Own(0)))
    }

    fn unit_bytes(space: &Space) -> Result<u64, String> {
        if let Some(size) = space.sizes.iter().find(|s| !u64::from(**s).is_multiple_of(space.align_bytes)) {
            return Err(format!(
                "request size {size} is not a multiple of align {}, as a sequential cursor needs",
                space.align_bytes
            ));
        }
        Ok(space.one_size().unwrap_or(space.align_bytes))
    }

    fn part(space: &Space, first: u64, end: u64, unit_bytes: u64, cursor: Cursor) -> Sequential {
        let mut sizes = space.sizes.clone();
        sizes.sort_unstable();
        Sequential {
            start_bytes: space.start_bytes + first * unit_bytes,
            length_bytes: (end - first) * unit_bytes,
            blocks: space.one_size().map(|block_bytes| Blocks { block_bytes, count: end - first }),
            sizes,
            cursor,
        }
    }

    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Of a mix, the largest size that still fits is taken where the one drawn would cross the end, and the next pass
    /// begins where none fits; so a pass leaves out less than a smallest request.
    #[inline]
    pub fn next(&mut self, request_bytes: u32) -> Step {
        if let Some(Blocks { block_bytes, count }) = self.blocks {
            let number = match &mut self.cursor {
                Cursor::Own(number) => std::mem::replace(number, *number + 1),
                Cursor::Shared(shared) => shared.take(),
            };
            let offset_bytes = self.start_bytes + number % count * block_bytes;
            return Step { offset_bytes, request_bytes, pass: number / count };
        }
        let track = (self.start_bytes, self.length_bytes, &*self.sizes);
        match &mut self.cursor {
            Cursor::Own(at) => {
                let (next, step) = mixed_step(track, *at, request_bytes);
                *at = next;
                step
            }
            Cursor::Shared(shared) => shared.advance(|at| mixed_step(track, at, request_bytes)),
        }
    }
}

/// The cursor after a request, and the request. The cursor counts bytes over all passes.
#[inline]
fn mixed_step((start_bytes, length_bytes, sizes): (u64, u64, &[u32]), at: u64, request_bytes: u32) -> (u64, Step) {
    let (mut pass, mut into) = (at / length_bytes, at % length_bytes);
    let room = length_bytes - into;
    let mut size = request_bytes;
    if u64::from(size) > room {
        match sizes.iter().rev().find(|s| u64::from(**s) <= room) {
            Some(smaller) => size = *smaller,
            None => (pass, into) = (pass + 1, 0),
        }
    }
    let step = Step { offset_bytes: start_bytes + into, request_bytes: size, pass };
    (pass * length_bytes + into + u64::from(size), step)
}
