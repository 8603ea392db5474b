//! Traces that are tables of comma-separated values, a request a line.

use std::io::{Read, Write};

use super::{Format, ImportError, Taker};
use crate::lines::{Lines, fields, number, seconds};
use crate::request::{Operation, Request};

const SECTOR_BYTES: u64 = 512;
/// Windows counts 100 ns since 1601, Unix seconds since 1970.
const FILETIME_UNIX_NS: u64 = 11_644_473_600;
/// Larger requests are in no trace, and most likely damage.
const REQUEST_LIMIT: u64 = 1 << 40;

/// A request and the name of its device.
type Found<'a> = (Request, &'a [u8]);

pub(super) fn read<W: Write>(input: impl Read, taker: &mut Taker<W>) -> Result<(), ImportError> {
    let format = taker.format;
    let mut lines = Lines::new(input);
    taker.start_unix_ns = matches!(format, Format::Msr | Format::Tencent | Format::Systor).then_some(0);
    loop {
        let before = lines.number;
        let Some(text) = lines.next().map_err(ImportError::Read)? else { break };
        match line(format, text) {
            Ok((request, device)) => taker.take(request, device)?,
            Err(_) if text.trim_ascii().is_empty() || before == 0 && is_heading(text) => {}
            Err(why) => taker.bad(before + 1, text, why),
        }
    }
    match format {
        Format::Tencent => taker.note("latencies are not in this form, and arrivals to the second only"),
        Format::Spc | Format::Alibaba => taker.note("latencies are not in this form"),
        _ => {}
    }
    Ok(())
}

/// Names of columns instead of values.
fn is_heading(text: &[u8]) -> bool {
    text.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'#')
}

/// Reads a line of that form.
pub(super) fn line(format: Format, text: &[u8]) -> Result<Found<'_>, &'static str> {
    let found = match format {
        Format::Msr => msr(text),
        Format::Alibaba => alibaba(text),
        Format::Tencent => tencent(text),
        Format::Systor => systor(text),
        Format::Spc => spc(text),
        _ => None,
    };
    let (request, device) = found.ok_or("is no request in this form")?;
    if request.bytes > REQUEST_LIMIT || request.offset_bytes.checked_add(request.bytes).is_none() {
        return Err("its place or size is beyond any device");
    }
    Ok((request, device))
}

fn word(text: &[u8], read: &[u8], write: &[u8]) -> Option<Operation> {
    if text.eq_ignore_ascii_case(read) {
        Some(Operation::Read)
    } else if text.eq_ignore_ascii_case(write) {
        Some(Operation::Write)
    } else {
        None
    }
}

fn request(arrival_ns: u64, operation: Operation, offset_bytes: u64, bytes: u64) -> Request {
    Request {
        arrival_ns,
        issue_ns: None,
        complete_ns: None,
        device: 0,
        operation,
        flags: 0,
        offset_bytes,
        bytes,
        process: 0,
    }
}

/// Timestamp (FILETIME), host, disk, Read or Write, offset and size in bytes, response time in 100 ns.
fn msr(text: &[u8]) -> Option<Found<'_>> {
    let [at, host, disk, kind, offset, size, response] = fields::<7>(text)?;
    number(disk)?;
    let arrival_ns = number(at)?.checked_sub(FILETIME_UNIX_NS * 10_000_000)?.checked_mul(100)?;
    let mut found = request(arrival_ns, word(kind, b"read", b"write")?, number(offset)?, number(size)?);
    found.complete_ns = Some(arrival_ns.checked_add(number(response)?.checked_mul(100)?)?);
    // "host,disk" as it stands in the line: no new text for each line.
    let from = host.as_ptr() as usize - text.as_ptr() as usize;
    let to = disk.as_ptr() as usize - text.as_ptr() as usize + disk.len();
    Some((found, &text[from..to]))
}

/// Device, R or W, offset and length in bytes, µs.
fn alibaba(text: &[u8]) -> Option<Found<'_>> {
    let [device, kind, offset, length, at] = fields::<5>(text)?;
    let operation = word(kind, b"r", b"w")?;
    number(device)?;
    Some((request(number(at)?.checked_mul(1_000)?, operation, number(offset)?, number(length)?), device))
}

/// Seconds since 1970, offset and size in sectors, 0 (read) or 1 (write), volume.
fn tencent(text: &[u8]) -> Option<Found<'_>> {
    let [at, offset, size, kind, volume] = fields::<5>(text)?;
    let operation = word(kind, b"0", b"1")?;
    number(volume)?;
    let sectors = |text| number(text)?.checked_mul(SECTOR_BYTES);
    Some((request(number(at)?.checked_mul(1_000_000_000)?, operation, sectors(offset)?, sectors(size)?), volume))
}

/// Seconds since 1970, response in seconds, R or W, LUN, offset and size in bytes.
fn systor(text: &[u8]) -> Option<Found<'_>> {
    let [at, response, kind, lun, offset, size] = fields::<6>(text)?;
    let mut found = request(seconds(at)?, word(kind, b"r", b"w")?, number(offset)?, number(size)?);
    if !response.is_empty() {
        found.complete_ns = Some(found.arrival_ns.checked_add(seconds(response)?)?);
    }
    Some((found, lun))
}

/// ASU, address in sectors, size in bytes, R or W, seconds; further fields may follow.
fn spc(text: &[u8]) -> Option<Found<'_>> {
    let [asu, sector, size, kind, at] = fields::<5>(text)?;
    let operation = word(kind, b"r", b"w")?;
    // Alibaba's line has R or W in its second field, so that none is both.
    number(asu)?;
    Some((request(seconds(at)?, operation, number(sector)?.checked_mul(SECTOR_BYTES)?, number(size)?), asu))
}
