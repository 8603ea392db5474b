//! Requests as bytes. Each is told by its difference from the one before it in the block.

use crate::request::{Operation, Request};

const HAS_ISSUE: u8 = 1 << 2;
const HAS_END: u8 = 1 << 3;
const SAME_DEVICE: u8 = 1 << 4;
const SAME_PROCESS: u8 = 1 << 5;
const SAME_FLAGS: u8 = 1 << 6;
const GOES_ON: u8 = 1 << 7;

/// Sizes and places are told in sectors where they are multiples of one.
const SECTOR_BITS: u32 = 9;
const SECTOR_MASK: i64 = (1 << SECTOR_BITS) - 1;

/// What the next request is told relative to.
pub(super) struct Before {
    arrival_ns: u64,
    device: u32,
    process: u32,
    flags: u8,
    end_bytes: u64,
}

impl Before {
    pub const START: Before = Before { arrival_ns: 0, device: 0, process: 0, flags: 0, end_bytes: 0 };

    fn becomes(&mut self, request: &Request) {
        *self = Before {
            arrival_ns: request.arrival_ns,
            device: request.device,
            process: request.process,
            flags: request.flags,
            end_bytes: request.offset_bytes.wrapping_add(request.bytes),
        };
    }

    pub fn write(&mut self, request: &Request, to: &mut Vec<u8>) {
        let mut tag = request.operation as u8;
        let bit = |holds: bool, bit: u8| if holds { bit } else { 0 };
        tag |= bit(request.issue_ns.is_some(), HAS_ISSUE) | bit(request.complete_ns.is_some(), HAS_END);
        tag |= bit(request.device == self.device, SAME_DEVICE) | bit(request.process == self.process, SAME_PROCESS);
        tag |= bit(request.flags == self.flags, SAME_FLAGS);
        tag |= bit(request.offset_bytes == self.end_bytes, GOES_ON);
        to.push(tag);
        put_signed(to, request.arrival_ns.wrapping_sub(self.arrival_ns) as i64);
        let mut from_ns = request.arrival_ns;
        for instant in [request.issue_ns, request.complete_ns].into_iter().flatten() {
            put_signed(to, instant.wrapping_sub(from_ns) as i64);
            from_ns = instant;
        }
        if tag & SAME_DEVICE == 0 {
            put(to, u64::from(request.device));
        }
        if tag & SAME_PROCESS == 0 {
            put(to, u64::from(request.process));
        }
        if tag & SAME_FLAGS == 0 {
            to.push(request.flags);
        }
        if tag & GOES_ON == 0 {
            put_place(to, request.offset_bytes.wrapping_sub(self.end_bytes) as i64);
        }
        put_size(to, request.bytes);
        self.becomes(request);
    }

    /// The next request of `from`, which is left behind it; none where the bytes are no request.
    pub fn read(&mut self, from: &mut &[u8]) -> Option<Request> {
        let tag = byte(from)?;
        let operation = Operation::ALL[usize::from(tag & 3)];
        let arrival_ns = self.arrival_ns.wrapping_add(signed(from)? as u64);
        let mut from_ns = arrival_ns;
        let mut instants = [None; 2];
        for (instant, bit) in instants.iter_mut().zip([HAS_ISSUE, HAS_END]) {
            if tag & bit != 0 {
                from_ns = from_ns.wrapping_add(signed(from)? as u64);
                *instant = Some(from_ns);
            }
        }
        let device = if tag & SAME_DEVICE == 0 { u32::try_from(take(from)?).ok()? } else { self.device };
        let process = if tag & SAME_PROCESS == 0 { u32::try_from(take(from)?).ok()? } else { self.process };
        let flags = if tag & SAME_FLAGS == 0 { byte(from)? } else { self.flags };
        let offset_bytes = match tag & GOES_ON {
            0 => self.end_bytes.wrapping_add(place(from)? as u64),
            _ => self.end_bytes,
        };
        let bytes = size(from)?;
        let [issue_ns, complete_ns] = instants;
        let request =
            Request { arrival_ns, issue_ns, complete_ns, device, operation, flags, offset_bytes, bytes, process };
        self.becomes(&request);
        Some(request)
    }
}

/// A multiple of a sector is an even number; after a 1 the value follows as it is.
const NO_MULTIPLE: u64 = 1;

fn put_place(to: &mut Vec<u8>, delta: i64) {
    if delta & SECTOR_MASK == 0 {
        return put(to, zigzag(delta >> SECTOR_BITS) << 1);
    }
    put(to, NO_MULTIPLE);
    put(to, zigzag(delta));
}

fn place(from: &mut &[u8]) -> Option<i64> {
    match take(from)? {
        NO_MULTIPLE => signed(from),
        even => Some(unzigzag(even >> 1) << SECTOR_BITS),
    }
}

fn put_size(to: &mut Vec<u8>, bytes: u64) {
    if bytes as i64 & SECTOR_MASK == 0 {
        return put(to, bytes >> SECTOR_BITS << 1);
    }
    put(to, NO_MULTIPLE);
    put(to, bytes);
}

fn size(from: &mut &[u8]) -> Option<u64> {
    match take(from)? {
        NO_MULTIPLE => take(from),
        even => Some(even >> 1 << SECTOR_BITS),
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn put_signed(to: &mut Vec<u8>, value: i64) {
    put(to, zigzag(value));
}

fn signed(from: &mut &[u8]) -> Option<i64> {
    take(from).map(unzigzag)
}

fn byte(from: &mut &[u8]) -> Option<u8> {
    let (first, rest) = from.split_first()?;
    *from = rest;
    Some(*first)
}

fn put(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn take(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (number, byte) in from.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * number);
        if byte & 0x80 == 0 {
            *from = &from[number + 1..];
            return Some(value);
        }
    }
    None
}
