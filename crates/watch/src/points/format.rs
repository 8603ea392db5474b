//! Where the fields of a tracepoint's record are, by the kernel's own description in tracefs.

use std::ffi::CString;
use std::path::Path;
use std::{fs, ptr};

use super::Event;
use crate::layout::COMM;

const TRACEFS: &str = "/sys/kernel/tracing";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    BioQueue,
    BioBackMerge,
    BioFrontMerge,
    Split,
    Merge,
    Issue,
    Requeue,
    Complete,
}

impl Point {
    pub const ALL: [Point; 8] = [
        Point::BioQueue,
        Point::BioBackMerge,
        Point::BioFrontMerge,
        Point::Split,
        Point::Merge,
        Point::Issue,
        Point::Requeue,
        Point::Complete,
    ];

    fn name(self) -> &'static str {
        match self {
            Point::BioQueue => "block_bio_queue",
            Point::BioBackMerge => "block_bio_backmerge",
            Point::BioFrontMerge => "block_bio_frontmerge",
            Point::Split => "block_split",
            Point::Merge => "block_rq_merge",
            Point::Issue => "block_rq_issue",
            Point::Requeue => "block_rq_requeue",
            Point::Complete => "block_rq_complete",
        }
    }
}

type Field = (usize, usize);

/// Offset and size of each field that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    pub point: Point,
    pub id: u64,
    dev: Field,
    sector: Field,
    sectors: Option<Field>,
    kind: Field,
    error: Option<Field>,
    comm: Option<Field>,
}

impl Format {
    pub fn of(point: Point) -> Result<Format, String> {
        mount_if_needed()?;
        let name = point.name();
        let text = fs::read_to_string(format!("{TRACEFS}/events/block/{name}/format"))
            .map_err(|error| format!("no-rights: the tracepoint {name} cannot be read: {error}"))?;
        Format::read(point, &text).ok_or_else(|| format!("refused: the tracepoint {name} has another form here"))
    }

    fn read(point: Point, text: &str) -> Option<Format> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID: "))?.trim().parse().ok()?;
        let field = |name: &str| -> Option<Field> {
            text.lines().find_map(|line| {
                let mut parts = line.trim().strip_prefix("field:")?.split(';');
                let declared = parts.next()?.split_whitespace().last()?;
                if declared.split('[').next() != Some(name) {
                    return None;
                }
                let offset = parts.next()?.trim().strip_prefix("offset:")?.parse().ok()?;
                let size = parts.next()?.trim().strip_prefix("size:")?.parse().ok()?;
                Some((offset, size))
            })
        };
        Some(Format {
            point,
            id,
            dev: field("dev")?,
            sector: field("sector")?,
            sectors: field("nr_sector"),
            kind: field("rwbs")?,
            error: field("error"),
            comm: field("comm"),
        })
    }

    /// The kind of record that this is, by its first two bytes.
    pub fn is_of(&self, raw: &[u8]) -> bool {
        number(raw, (0, 2)) == Some(self.id)
    }

    pub fn event(&self, raw: &[u8], at_ns: u64, process: u32, slot: impl Fn(u32) -> Option<u16>) -> Option<Event> {
        let part = number(raw, self.dev)? as u32;
        Some(Event {
            at_ns,
            point: self.point,
            slot: slot(part)?,
            part,
            sector: number(raw, self.sector)?,
            sectors: self.sectors.and_then(|field| number(raw, field)).unwrap_or(0) as u32,
            failed: self.error.and_then(|field| number(raw, field)).unwrap_or(0) != 0,
            process,
            kind: text(raw, self.kind),
            comm: self.comm.map_or([0; COMM], |field| text(raw, field)),
        })
    }
}

fn number(raw: &[u8], (offset, size): Field) -> Option<u64> {
    let bytes = raw.get(offset..offset + size)?;
    Some(match size {
        2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
        4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
        8 => u64::from_ne_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}

fn text<const N: usize>(raw: &[u8], (offset, size): Field) -> [u8; N] {
    let mut found = [0; N];
    let bytes = raw.get(offset..offset + size).unwrap_or_default();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()).min(N);
    found[..end].copy_from_slice(&bytes[..end]);
    found
}

/// Where nobody has mounted it, it is mounted for this process alone, and goes with it.
/// Unmounts of others are followed, so that no device of theirs stays in use.
fn mount_if_needed() -> Result<(), String> {
    if Path::new(TRACEFS).join("events/block").exists() {
        return Ok(());
    }
    let words = |text: &str| CString::new(text).unwrap_or_default();
    let (root, tracefs, place) = (words("/"), words("tracefs"), words(TRACEFS));
    // SAFETY: all strings end with 0 and live until after the calls; there is one thread, so no other sees the change.
    let done = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(ptr::null(), root.as_ptr(), ptr::null(), libc::MS_REC | libc::MS_SLAVE, ptr::null()) == 0
            && libc::mount(tracefs.as_ptr(), place.as_ptr(), tracefs.as_ptr(), 0, ptr::null()) == 0
    };
    if done && Path::new(TRACEFS).join("events/block").exists() {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(format!("no-rights: tracefs is not mounted at {TRACEFS}, and cannot be: {error}"))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    const ISSUE: &str = "name: block_rq_issue\nID: 1234\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:44;\tsize:16;\tsigned:0;\n";

    #[test]
    fn fields_are_where_the_kernel_says() {
        let format = Format::read(Point::Issue, ISSUE).unwrap();
        assert_eq!((format.id, format.dev, format.sector), (1234, (8, 4), (16, 8)));
        let mut raw = vec![0u8; 60];
        raw[..2].copy_from_slice(&1234u16.to_ne_bytes());
        raw[8..12].copy_from_slice(&(7u32 << 20).to_ne_bytes());
        raw[16..24].copy_from_slice(&2048u64.to_ne_bytes());
        raw[24..28].copy_from_slice(&8u32.to_ne_bytes());
        raw[34..36].copy_from_slice(b"WS");
        raw[44..47].copy_from_slice(b"fio");
        assert!(format.is_of(&raw));
        let found = format.event(&raw, 5, 9, |number| (number == 7 << 20).then_some(3)).unwrap();
        assert_eq!((found.slot, found.sector, found.sectors, found.process), (3, 2048, 8, 9));
        assert_eq!((&found.kind[..3], &found.comm[..4]), (&b"WS\0"[..], &b"fio\0"[..]));
        assert_eq!(format.event(&raw, 5, 9, |_| None), None, "a device that is not watched");
        assert_eq!(format.event(&raw[..20], 5, 9, |_| Some(0)), None, "cut off");
    }

    #[test]
    fn a_point_of_another_form_is_not_read() {
        assert_eq!(Format::read(Point::Issue, &ISSUE.replace("sector_t sector", "sector_t place")), None);
        assert_eq!(Format::read(Point::Issue, ""), None);
    }
}
