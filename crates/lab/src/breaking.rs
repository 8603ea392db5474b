//! Duty: what a person or a test does to a disk: the words, and the instants at which they take effect.
//!
//! Refusal: it breaks nothing itself.

use std::fmt;

#[derive(Debug, Clone, PartialEq)]
pub enum Breaking {
    /// Requests fail at once and volatile data are gone; the power stays off.
    PowerCut,
    PowerOn,
    /// Everything takes so many times as long; 1 is as modelled.
    Slow(f64),
    /// Nothing ends for so long.
    Stall(u64),
    /// A member of the model fails.
    Fail(u32),
    /// Reads of these bytes fail until they are written.
    BadSectors {
        offset_bytes: u64,
        bytes: u64,
    },
    Corrupt(Corruption, u64),
    /// Writes fail for want of space, or no longer do.
    Full(bool),
}

/// Damage at an offset: a bit now, or the next write there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corruption {
    Bit,
    /// Only the first half arrives.
    Torn,
    /// It arrives 64 KiB further on, or before where the disk ends there.
    Misplaced,
    /// It is acknowledged and does not arrive.
    Stale,
}

/// When a breaking happens by itself, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At the n-th flush of the disk's life.
    Flush(u64),
    /// When this offset is written.
    Write(u64),
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::Flush(number) => write!(f, "flush:{number}"),
            When::Write(offset_bytes) => write!(f, "write:{offset_bytes}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    Now(Breaking),
    Later(When, Breaking),
    /// From now on each request takes so long, without the model: the way to the disk is measured.
    Probe(u64),
    /// That way takes so long; it ends a measurement, of which nothing is counted.
    Lead(u64),
    Status,
    Stop,
}

pub const WORDS: &str = "power-cut, power-on, slow FACTOR, stall TIME, fail MEMBER, bad-sectors OFFSET BYTES, \
                         corrupt bit|torn|misplaced|stale OFFSET, full on|off";

impl Order {
    /// Reads a line of the control socket.
    pub fn parse(line: &str) -> Result<Order, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["status"] => Ok(Order::Status),
            ["probe", time] => Ok(Order::Probe(plan::parse_duration_ns(time)?)),
            ["lead", time] => Ok(Order::Lead(plan::parse_duration_ns(time)?)),
            ["stop"] => Ok(Order::Stop),
            ["when", "flush", number, ref rest @ ..] => {
                let number = number.parse().map_err(|_| format!("{number}: not a number of a flush, such as 1000"))?;
                Ok(Order::Later(When::Flush(number), Breaking::parse(rest)?))
            }
            ["when", "write", offset, ref rest @ ..] => {
                Ok(Order::Later(When::Write(plan::parse_bytes(offset)?), Breaking::parse(rest)?))
            }
            ref words => Ok(Order::Now(Breaking::parse(words)?)),
        }
    }
}

impl Breaking {
    fn parse(words: &[&str]) -> Result<Breaking, String> {
        let bytes = |word: &str| plan::parse_bytes(word);
        match words {
            ["power-cut"] => Ok(Breaking::PowerCut),
            ["power-on"] => Ok(Breaking::PowerOn),
            ["slow", factor] => match factor.parse() {
                Ok(factor) if (0.001..=1e6).contains(&factor) => Ok(Breaking::Slow(factor)),
                _ => Err(format!("slow {factor}: not a factor from 0.001 to 1,000,000")),
            },
            ["stall", time] => Ok(Breaking::Stall(plan::parse_duration_ns(time)?)),
            ["fail", member] => {
                Ok(Breaking::Fail(member.parse().map_err(|_| format!("{member}: not a member's number, such as 0"))?))
            }
            ["bad-sectors", offset, length] => {
                Ok(Breaking::BadSectors { offset_bytes: bytes(offset)?, bytes: bytes(length)? })
            }
            ["corrupt", kind, offset] => {
                let kind = match *kind {
                    "bit" => Corruption::Bit,
                    "torn" => Corruption::Torn,
                    "misplaced" => Corruption::Misplaced,
                    "stale" => Corruption::Stale,
                    _ => return Err(format!("corrupt {kind}: use bit, torn, misplaced or stale")),
                };
                Ok(Breaking::Corrupt(kind, bytes(offset)?))
            }
            ["full", "on"] => Ok(Breaking::Full(true)),
            ["full", "off"] => Ok(Breaking::Full(false)),
            _ => Err(format!("{}: not known; use {WORDS}", words.join(" "))),
        }
    }
}

impl fmt::Display for Breaking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breaking::PowerCut => write!(f, "power-cut"),
            Breaking::PowerOn => write!(f, "power-on"),
            Breaking::Slow(factor) => write!(f, "slow {factor}"),
            Breaking::Stall(ns) => write!(f, "stall {}ms", ns / 1_000_000),
            Breaking::Fail(member) => write!(f, "fail {member}"),
            Breaking::BadSectors { offset_bytes, bytes } => write!(f, "bad-sectors {offset_bytes} {bytes}"),
            Breaking::Corrupt(kind, offset) => {
                write!(f, "corrupt {} {offset}", format!("{kind:?}").to_lowercase())
            }
            Breaking::Full(on) => write!(f, "full {}", if *on { "on" } else { "off" }),
        }
    }
}
