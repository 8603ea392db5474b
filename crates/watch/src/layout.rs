//! The layout of `bpf/shared.h`. A test compares both.

pub const MOST_DEVICES: usize = 64;
pub const OPERATIONS: usize = 8;
pub const TIMES: usize = 320;
pub const SIZES: usize = 40;
pub const ALIGNMENTS: usize = 16;
pub const SEEKS: usize = 80;
pub const GAPS: usize = 44;
pub const DEPTHS: usize = 32;
pub const RUNS: usize = 44;
pub const STREAMS: usize = 16;
/// The most that a stream's length takes of its word.
pub const STREAM_SECTORS: u64 = 0x7f_ffff;
pub const OWNERS: usize = 64;
pub const CLASSES: usize = 16;
pub const COMM: usize = 16;

pub const NAMES: [&str; OPERATIONS] =
    ["read", "write", "durable_write", "discard", "flush", "flush_command", "other", "write_zeroes"];
pub const READ: u8 = 0;
pub const WRITE_DURABLE: u8 = 2;
pub const DISCARD: u8 = 3;
pub const FLUSH: u8 = 4;
pub const FLUSH_COMMAND: u8 = 5;
pub const OTHER: u8 = 6;
pub const ZEROES: u8 = 7;

pub const IS_SYNC: u8 = 1;
pub const IS_META: u8 = 2;
pub const IS_READ_AHEAD: u8 = 4;
pub const IS_FUA: u8 = 8;
pub const IS_PREFLUSH: u8 = 16;
pub const IS_ERROR: u8 = 32;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Class {
    pub requests: u64,
    pub device_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Cell {
    pub requests: u64,
    pub bytes: u64,
    pub total_ns: u64,
    pub total_max_ns: u64,
    pub sequential: u64,
    pub sequential_bytes: u64,
    pub sync: u64,
    pub device_ns: u64,
    pub before_ns: u64,
    pub queue_ns: u64,
    pub queued: u64,
    pub errors: u64,
    pub meta: u64,
    pub read_ahead: u64,
    pub read_ahead_bytes: u64,
    pub stripe_aligned: u64,
    pub stripe_full_bytes: u64,
    pub missed: u64,
    pub classes: [Class; CLASSES],
    pub sizes: [u64; SIZES],
    pub alignments: [u64; ALIGNMENTS],
    pub seeks: [u64; SEEKS],
    pub gaps: [u64; GAPS],
    pub depths: [u64; DEPTHS],
    pub before: [u64; TIMES],
    pub queue: [u64; TIMES],
    pub device: [u64; TIMES],
    pub total: [u64; TIMES],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Asker {
    pub process: u64,
    pub changes: u64,
    pub done: u64,
    pub cgroup: u64,
    pub part: u32,
    pub account: u32,
    pub comm: [u8; COMM],
    pub spare: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Device {
    pub begun: u64,
    pub done: u64,
    pub last_end_bytes: u64,
    pub last_arrival_ns: u64,
    pub flushing: u32,
    pub next_stream: u32,
    pub flush_began_ns: u64,
    pub flush_ended_ns: u64,
    pub flush_last_ns: u64,
    pub streams: [u64; STREAMS],
    pub askers: [Asker; OWNERS],
    pub merged_bios: u64,
    pub merged_requests: u64,
    pub splits: u64,
    pub requeues: u64,
    pub turned_away: u64,
    pub by_bios: u64,
    pub rare: [u64; 2],
    pub runs: [[u64; RUNS]; 2],
}

impl Device {
    pub fn in_flight(&self) -> u64 {
        self.begun.saturating_sub(self.done)
    }
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub slot: u32,
    pub part: u32,
    pub process: u32,
    pub spare: u32,
    pub cgroup: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Sums {
    pub requests: u64,
    pub bytes: u64,
    pub total_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Account {
    pub process: u64,
    pub comm: [u8; COMM],
    pub of: [Sums; OPERATIONS],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Control {
    pub slow_ns: [u64; MOST_DEVICES],
    pub exact: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Losses {
    pub ring: u64,
    pub entries: u64,
    pub owners: u64,
    pub unknown: u64,
    pub missed: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq)]
pub struct Ahead {
    pub followed: u64,
    pub used: u64,
    pub mapped: u64,
    pub dropped: u64,
    pub unfollowed: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Told {
    pub arrived_ns: u64,
    pub queued_ns: u64,
    pub issued_ns: u64,
    pub ended_ns: u64,
    pub offset_bytes: u64,
    pub cgroup: u64,
    pub flush_ns: u64,
    pub done_others: u64,
    pub done_own: u64,
    pub done_unknown: u64,
    pub bytes: u32,
    pub part: u32,
    pub process: u32,
    pub depth: u32,
    pub slot: u16,
    pub operation: u8,
    pub flags: u8,
    pub requeues: u32,
}

impl Told {
    pub fn owner(&self) -> Owner {
        let Told { slot, part, process, cgroup, .. } = *self;
        Owner { slot: u32::from(slot), part, process, spare: 0, cgroup }
    }
}

// SAFETY: all of them are `repr(C)`, made of integers without gaps (the test of sizes would show one), and any bits are
// values of theirs.
unsafe impl aya::Pod for Cell {}
unsafe impl aya::Pod for Device {}
unsafe impl aya::Pod for Owner {}
unsafe impl aya::Pod for Account {}
unsafe impl aya::Pod for Control {}
unsafe impl aya::Pod for Losses {}
unsafe impl aya::Pod for Ahead {}

impl Told {
    pub fn read(from: &[u8]) -> Option<Told> {
        // SAFETY: long enough, and any bits are a value of this type.
        (from.len() >= size_of::<Told>()).then(|| unsafe { from.as_ptr().cast::<Told>().read_unaligned() })
    }
}

pub fn comm(of: &[u8; COMM]) -> String {
    let end = of.iter().position(|byte| *byte == 0).unwrap_or(COMM);
    String::from_utf8_lossy(&of[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header as a compiler of C would lay it out: all are words of eight bytes but where the names below say so.
    #[test]
    fn constants_are_those_of_the_header() {
        let text = include_str!("../bpf/shared.h");
        let known = [
            ("MOST_DEVICES", MOST_DEVICES),
            ("OPERATIONS", OPERATIONS),
            ("TIMES", TIMES),
            ("SIZES", SIZES),
            ("ALIGNMENTS", ALIGNMENTS),
            ("SEEKS", SEEKS),
            ("GAPS", GAPS),
            ("DEPTHS", DEPTHS),
            ("RUNS", RUNS),
            ("STREAMS", STREAMS),
            ("OWNERS", OWNERS),
            ("CLASSES", CLASSES),
            ("COMM", COMM),
        ];
        for (name, value) in known {
            let line = format!("#define {name} {value}\n");
            assert!(text.contains(&line), "{name} is {value} here");
        }
    }

    /// Field by field, by the names and the order of both texts.
    #[test]
    fn structs_have_the_fields_of_the_header() {
        let (ours, theirs) = (include_str!("layout.rs"), include_str!("../bpf/shared.h"));
        for (rust, c) in [
            ("Cell", "cell"),
            ("Class", "class"),
            ("Asker", "asker"),
            ("Device", "device"),
            ("Owner", "owner"),
            ("Sums", "sums"),
            ("Account", "account"),
            ("Control", "control"),
            ("Losses", "losses"),
            ("Ahead", "ahead"),
            ("Told", "told"),
        ] {
            let here = between(ours, &format!("pub struct {rust} {{\n"));
            let names: Vec<&str> =
                here.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next()).collect();
            let there = between(theirs, &format!("\nstruct {c} {{\n"));
            let fields: Vec<&str> = there
                .lines()
                .filter_map(|line| line.split(';').next()?.split_whitespace().last()?.split('[').next())
                .collect();
            assert_eq!(names, fields, "struct {c}");
        }
    }

    fn between<'a>(text: &'a str, head: &str) -> &'a str {
        let begin = text.find(head).expect("it is there") + head.len();
        &text[begin..begin + text[begin..].find('}').expect("it ends")]
    }
}
