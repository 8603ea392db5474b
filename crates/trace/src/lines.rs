//! Reading: whole blocks, and lines of a text without an allocation for each.

use std::io::{self, Read};

/// No line of a trace is longer; what is longer counts as one line that cannot be read.
const LINE_LIMIT: usize = 64 << 10;

pub struct Lines<R: Read> {
    from: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    /// The line that was returned last, counted from 1.
    pub number: u64,
}

impl<R: Read> Lines<R> {
    pub fn new(from: R) -> Lines<R> {
        Lines { from, buffer: vec![0; 1 << 20], start: 0, end: 0, ended: false, number: 0 }
    }

    /// The next line without its end.
    #[allow(clippy::should_implement_trait)] // it lends, and may fail
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.start + searched..self.end];
            if let Some(at) = memchr::memchr(b'\n', rest) {
                let line = self.start..self.start + searched + at;
                self.start = line.end + 1;
                return Ok(Some(self.take(line)));
            }
            searched = self.end - self.start;
            if self.ended || searched >= LINE_LIMIT {
                let line = self.start..self.end;
                self.start = self.end;
                return Ok(if line.is_empty() { None } else { Some(self.take(line)) });
            }
            self.fill()?;
        }
    }

    fn take(&mut self, line: std::ops::Range<usize>) -> &[u8] {
        self.number += 1;
        let line = &self.buffer[line];
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.end, self.start) = (self.end - self.start, 0);
        match self.from.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.ended = true,
            Ok(more) => self.end += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The parts of a line between commas, without blanks around them.
pub fn fields<const N: usize>(line: &[u8]) -> Option<[&[u8]; N]> {
    let mut found = [&line[..0]; N];
    let mut rest = line;
    for (number, field) in found.iter_mut().enumerate() {
        let end = memchr::memchr(b',', rest);
        *field = rest[..end.unwrap_or(rest.len())].trim_ascii();
        match end {
            Some(end) => rest = &rest[end + 1..],
            None if number + 1 == N => {}
            None => return None,
        }
    }
    Some(found)
}

/// A decimal number without a sign.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    // Nineteen digits always have room; only a twentieth may be too much.
    let (safe, last) = text.split_at(text.len().min(19));
    let mut value = 0u64;
    for byte in safe {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    match last {
        [] => Some(value),
        [byte] if byte.is_ascii_digit() => value.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    }
}

/// The next word of a line, between blanks; what is left of the line goes on behind it.
#[inline]
pub fn word<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let from = rest.iter().position(|byte| !is_blank(*byte))?;
    let text = &rest[from..];
    let end = text.iter().position(|byte| is_blank(*byte)).unwrap_or(text.len());
    *rest = &text[end..];
    Some(&text[..end])
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t' || byte == b'\r'
}

/// Seconds with a fraction as ns, without passing through a floating-point number.
pub fn seconds(text: &[u8]) -> Option<u64> {
    let point = memchr::memchr(b'.', text);
    let (whole, fraction) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &text[..0]),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { number(whole)? };
    if fraction.iter().any(|byte| !byte.is_ascii_digit()) {
        return None;
    }
    let kept = &fraction[..fraction.len().min(9)];
    let digits = kept.iter().fold(0, |ns, byte| ns * 10 + u64::from(byte - b'0'));
    let ns = digits * 10u64.pow(9 - kept.len() as u32);
    whole.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// Fills `to` as far as there is something to read.
pub fn read_up_to(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < to.len() {
        match from.read(&mut to[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
