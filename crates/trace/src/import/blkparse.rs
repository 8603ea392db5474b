//! The text of blkparse in its default form: device, processor, sequence, seconds, process, action, kind, sector, `+`,
//! sectors.

use std::io::{Read, Write};

use super::queue::{Event, NOWHERE, Queue, What};
use super::{ImportError, Taker};
use crate::lines::{Lines, number, seconds, word};
use crate::request::{FUA, META, Operation, READ_AHEAD, SYNC};

/// The event of a line, if it is one of those that matter.
pub(super) fn event(line: &[u8]) -> Option<Option<Event>> {
    let mut rest = line;
    let mut next = || word(&mut rest);
    let device = next()?;
    let comma = memchr::memchr(b',', device)?;
    let (major, minor) = (number(&device[..comma])?, number(&device[comma + 1..])?);
    number(next()?)?;
    number(next()?)?;
    let at_ns = seconds(next()?)?;
    let process = next().and_then(number)?;
    let (action, kind) = (next()?, next()?);
    let what = match action {
        b"Q" => What::Queued,
        b"D" => What::Issued,
        b"R" => What::Requeued,
        b"C" => What::Completed,
        _ => return Some(None),
    };
    let (sector, plus, sectors) = (next().and_then(number), next(), next().and_then(number));
    let (sector, bytes) = match (sector, plus, sectors) {
        (Some(sector), Some(b"+"), Some(sectors)) => (sector, sectors.checked_mul(512)?),
        _ => (0, 0),
    };
    sector.checked_mul(512)?.checked_add(bytes)?;
    let operation = kind_of(kind, bytes);
    let mut flags = 0;
    // F before the letter of the operation is a flush that goes first; behind it, FUA.
    let mut is_behind = false;
    for byte in kind {
        flags |= match byte {
            b'S' => SYNC,
            b'A' => READ_AHEAD,
            b'M' => META,
            b'F' if is_behind => FUA,
            _ => 0,
        };
        is_behind |= matches!(byte, b'R' | b'W' | b'D' | b'N');
    }
    let device = u32::try_from(major << 20 | minor).ok()?;
    let process = process as u32;
    let sector = if operation == Some(Operation::Flush) { NOWHERE } else { sector };
    let of = |operation| Event { what, at_ns, device, sector, bytes, operation, flags, process };
    Some(operation.map(of))
}

fn kind_of(kind: &[u8], bytes: u64) -> Option<Operation> {
    if bytes == 0 {
        return kind.contains(&b'F').then_some(Operation::Flush);
    }
    if kind.contains(&b'D') {
        Some(Operation::Discard)
    } else if kind.contains(&b'W') {
        Some(Operation::Write)
    } else {
        kind.contains(&b'R').then_some(Operation::Read)
    }
}

pub(super) fn read<W: Write>(input: impl Read, taker: &mut Taker<W>) -> Result<(), ImportError> {
    let mut lines = Lines::new(input);
    let mut queue = Queue::new();
    let mut cache = (0, Vec::new());
    let name = |device: u32| format!("{}:{}", device >> 20, device & 0xf_ffff).into_bytes();
    taker.origin_is_first = false;
    loop {
        let line_number = lines.number + 1;
        let Some(text) = lines.next().map_err(ImportError::Read)? else { break };
        match event(text) {
            Some(Some(event)) => queue.take(&event, name, taker, &mut cache)?,
            Some(None) => {}
            // The summary at the end begins with "CPU0 (sda):" or the like.
            None if text.starts_with(b"CPU") || text.starts_with(b"Total") => break,
            None if text.trim_ascii().is_empty() => {}
            None => taker.bad(line_number, text, "is no event of blkparse"),
        }
    }
    queue.finish(name, taker, &mut cache)
}
