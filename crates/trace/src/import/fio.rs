//! fio's I/O logs, as `write_iolog` makes them.

use std::io::{Read, Write};

use super::{ImportError, Taker};
use crate::lines::{Lines, number};
use crate::request::{Operation, Request, SYNC};

const US: u64 = 1_000;

/// The version that the first line of a log names.
pub(super) fn version(line: &[u8]) -> Option<u32> {
    match line.trim_ascii() {
        b"fio version 2 iolog" => Some(2),
        b"fio version 3 iolog" => Some(3),
        _ => None,
    }
}

pub(super) fn read<W: Write>(input: impl Read, taker: &mut Taker<W>) -> Result<(), ImportError> {
    let mut lines = Lines::new(input);
    let first = lines.next().map_err(ImportError::Read)?.and_then(version);
    let Some(version) = first else {
        return Err(ImportError::Bad("does not begin with \"fio version 2 iolog\" or \"fio version 3 iolog\"".into()));
    };
    taker.origin_is_first = false;
    let (mut at_ns, mut untimed) = (0u64, true);
    loop {
        let line_number = lines.number + 1;
        let Some(text) = lines.next().map_err(ImportError::Read)? else { break };
        let mut words = text.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        if version == 3 {
            match words.next().map(number) {
                Some(Some(us)) => at_ns = us.saturating_mul(US),
                Some(None) => {
                    taker.bad(line_number, text, "has no time");
                    continue;
                }
                None => continue,
            }
        }
        let (Some(file), Some(action)) = (words.next(), words.next()) else {
            if !text.trim_ascii().is_empty() {
                taker.bad(line_number, text, "has no file or action");
            }
            continue;
        };
        let (first, second) = (words.next().and_then(number), words.next().and_then(number));
        let operation = match action {
            b"add" | b"open" | b"close" => continue,
            b"wait" => {
                // In version 2 from the wait before it; in version 3 the time says it.
                if let (2, Some(us)) = (version, first) {
                    (at_ns, untimed) = (at_ns.saturating_add(us.saturating_mul(US)), false);
                }
                continue;
            }
            b"read" => Operation::Read,
            b"write" => Operation::Write,
            b"sync" | b"datasync" | b"sync_file_range" => Operation::Flush,
            b"trim" => Operation::Discard,
            _ => {
                taker.bad(line_number, text, "has an unknown action");
                continue;
            }
        };
        let flush = operation == Operation::Flush;
        let (offset_bytes, bytes) = match (flush, first, second) {
            (true, _, _) => (0, 0),
            (false, Some(offset), Some(bytes)) if offset.checked_add(bytes).is_some() => (offset, bytes),
            _ => {
                taker.bad(line_number, text, "has no place and size");
                continue;
            }
        };
        untimed &= version == 2;
        let flags = if operation == Operation::Read || flush { SYNC } else { 0 };
        let request = Request {
            arrival_ns: at_ns,
            issue_ns: None,
            complete_ns: None,
            device: 0,
            operation,
            flags,
            offset_bytes,
            bytes,
            process: 0,
        };
        taker.take(request, file)?;
    }
    taker.note("latencies are not in this form");
    if untimed {
        taker.note("version 2 of fio's logs has no times; replay it with --timing fire_hose");
    }
    Ok(())
}
