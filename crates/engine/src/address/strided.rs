//! Offsets a fixed stride apart, until every block was touched.

use super::{Space, StreamShared};
use std::sync::Arc;

/// A *run* goes through the region in strides; the next run begins one block further. A block is the largest request,
/// rounded up to the alignment, so that runs do not touch what another one touched; where the stride is shorter than
/// that, one run touches everything.
#[derive(Debug)]
pub struct Strided {
    start_bytes: u64,
    stride_bytes: u64,
    block_bytes: u64,
    /// Requests in each of the first `long_runs` runs; the others have one less.
    run: u64,
    long_runs: u64,
    /// Requests in a pass.
    pass: u64,
    shared: Arc<StreamShared>,
}

impl Strided {
    pub fn new(space: &Space, stride_bytes: u64, shared: Arc<StreamShared>) -> Result<Strided, String> {
        if stride_bytes == 0 || !stride_bytes.is_multiple_of(space.align_bytes) {
            return Err(format!("stride {stride_bytes} is not a multiple of align {}", space.align_bytes));
        }
        let block_bytes = space.max_bytes().next_multiple_of(space.align_bytes).min(stride_bytes);
        let last_bytes = space.length_bytes - space.max_bytes();
        let runs = stride_bytes.div_ceil(block_bytes).min(last_bytes / block_bytes + 1);
        let run = last_bytes / stride_bytes + 1;
        // A run that begins at or before the remainder reaches as far as the first one does.
        let long_runs = runs.min(last_bytes % stride_bytes / block_bytes + 1);
        let pass = long_runs * run + (runs - long_runs) * (run - 1);
        Ok(Strided { start_bytes: space.start_bytes, stride_bytes, block_bytes, run, long_runs, pass, shared })
    }

    /// Requests of all lanes in a pass.
    pub fn pass_requests(&self) -> u64 {
        self.pass
    }

    /// Offset and pass of the next request.
    #[inline]
    pub fn take(&mut self) -> (u64, u64) {
        let number = self.shared.take();
        let (pass, number) = (number / self.pass, number % self.pass);
        let in_long_runs = self.long_runs * self.run;
        let (run, step) = if number < in_long_runs {
            (number / self.run, number % self.run)
        } else {
            // Short runs have at least one request where one of them is reached.
            let number = number - in_long_runs;
            (self.long_runs + number / (self.run - 1), number % (self.run - 1))
        };
        (self.start_bytes + run * self.block_bytes + step * self.stride_bytes, pass)
    }
}
