//! Writing a trace.

use std::io::{self, Write};

use super::coding::Before;
use super::{BLOCK_BYTES, DONE, Device, HEAD, Header, MAGIC, REQUESTS, Summary, sum_of};
use crate::request::Request;

/// Writes a trace from its beginning to its end. What was pushed is in `out` when its block is full, after [`Writer::sync`]
/// and after [`Writer::finish`]. A trace that is never finished can be read, and is then told as cut off.
pub struct Writer<W: Write> {
    out: W,
    block: Vec<u8>,
    requests: u32,
    before: Before,
    summary: Summary,
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W, header: &Header) -> io::Result<Writer<W>> {
        out.write_all(&MAGIC)?;
        put_part(&mut out, HEAD, 0, &serde_json::to_vec(header)?)?;
        let block = Vec::with_capacity(BLOCK_BYTES + 128);
        Ok(Writer { out, block, requests: 0, before: Before::START, summary: Summary::default() })
    }

    /// Adds a request, in any order; those that come about in the order of their arrivals are cheaper to read again.
    #[inline]
    pub fn push(&mut self, request: &Request) -> io::Result<()> {
        self.summary.count(request);
        self.before.write(request, &mut self.block);
        self.requests += 1;
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    /// So many events more were lost while the trace was taken.
    pub fn lost(&mut self, events: u64) {
        self.summary.lost += events;
    }

    /// So many lines or records of an imported trace more could not be read.
    pub fn bad(&mut self, records: u64) {
        self.summary.bad += records;
    }

    /// Names a device that has turned up; devices are numbered in this order, after those of the header.
    pub fn device(&mut self, device: Device) {
        self.summary.devices.push(device);
    }

    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.requests > 0 {
            put_part(&mut self.out, REQUESTS, self.requests, &self.block)?;
            self.block.clear();
            (self.requests, self.before) = (0, Before::START);
        }
        Ok(())
    }

    /// Hands on what was pushed so far, so that it can be read if nothing more follows.
    pub fn sync(&mut self) -> io::Result<()> {
        self.end_block()?;
        self.out.flush()
    }

    pub fn finish(mut self) -> io::Result<(W, Summary)> {
        self.end_block()?;
        put_part(&mut self.out, DONE, 0, &serde_json::to_vec(&self.summary)?)?;
        self.out.flush()?;
        Ok((self.out, self.summary))
    }
}

fn put_part(out: &mut impl Write, kind: [u8; 4], requests: u32, payload: &[u8]) -> io::Result<()> {
    out.write_all(&kind)?;
    out.write_all(&(payload.len() as u32).to_le_bytes())?;
    out.write_all(&requests.to_le_bytes())?;
    out.write_all(&sum_of(kind, requests, payload).to_le_bytes())?;
    out.write_all(payload)
}
