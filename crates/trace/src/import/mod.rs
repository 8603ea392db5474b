//! Traces of other tools become ours: every form is read as a stream, what cannot be read is counted, and the first of
//! it is shown.
//!
//! | form | where it is described |
//! |---|---|
//! | blktrace | `struct blk_io_trace` of linux/blktrace_api.h |
//! | blkparse | blkparse(1), "default trace output" |
//! | fio | fio's HOWTO, "Trace file format", versions 2 and 3 |
//! | msr | README of SNIA IOTTA's MSR Cambridge traces |
//! | alibaba | README of Alibaba's block traces |
//! | tencent | README of SNIA IOTTA's Tencent block storage traces |
//! | systor | SNIA IOTTA's Systor '17 traces |
//! | spc | SPC Trace File Format Specification 1.0.1 (UMass traces) |
//! | vscsi | CloudPhysics' vscsi records, versions 1 and 2 |

mod blkparse;
mod blktrace;
mod fio;
mod queue;
mod tables;
mod vscsi;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Chain, Cursor, Read, Write};
use std::path::Path;

use crate::file::{Device, Header, Summary, Writer};
use crate::lines::read_up_to;
use crate::request::Request;

/// So many of the lines that could not be read are shown.
const BAD_SHOWN: usize = 5;
/// So much of the beginning of a file tells its form.
const LOOK_BYTES: usize = 64 << 10;
/// Characters that are shown of a line.
const EXCERPT: usize = 120;
const NAMED_DEVICES: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Blktrace,
    Blkparse,
    Fio,
    Msr,
    Alibaba,
    Tencent,
    Systor,
    Spc,
    Vscsi,
}

impl Format {
    pub const ALL: [Format; 9] = [
        Format::Blktrace,
        Format::Blkparse,
        Format::Fio,
        Format::Msr,
        Format::Alibaba,
        Format::Tencent,
        Format::Systor,
        Format::Spc,
        Format::Vscsi,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Format::Blktrace => "blktrace",
            Format::Blkparse => "blkparse",
            Format::Fio => "fio",
            Format::Msr => "msr",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Systor => "systor",
            Format::Spc => "spc",
            Format::Vscsi => "vscsi",
        }
    }

    pub fn named(name: &str) -> Result<Format, String> {
        let found = Format::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            format!("{name} is no form of a trace; one of {}", names.join(", "))
        })
    }

    /// The form that a file has by its beginning.
    pub fn of(beginning: &[u8]) -> Option<Format> {
        if blktrace::is_it(beginning) {
            return Some(Format::Blktrace);
        }
        if vscsi::version(beginning).is_some() {
            return Some(Format::Vscsi);
        }
        // The last line may be cut off. A heading, or a line that is damaged, is no reason to give up.
        let lines: Vec<&[u8]> = beginning.split(|byte| *byte == b'\n').take(50).collect();
        let whole = if lines.len() > 1 { &lines[..lines.len() - 1] } else { &lines[..] };
        if whole.first().is_some_and(|line| fio::version(line).is_some()) {
            return Some(Format::Fio);
        }
        let reads = |format: &&Format| {
            whole.iter().filter(|line| tables::line(**format, line.strip_suffix(b"\r").unwrap_or(line)).is_ok()).count()
        };
        let tables = [Format::Msr, Format::Alibaba, Format::Tencent, Format::Systor, Format::Spc];
        let best = tables.iter().max_by_key(reads).filter(|format| reads(format) * 2 >= whole.len());
        let texts = || whole.iter().filter(|line| blkparse::event(line).is_some()).count() * 2 >= whole.len();
        best.copied().or_else(|| texts().then_some(Format::Blkparse))
    }
}

/// A line or record that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// Line of a text, or record of a binary file, counted from 1.
    pub number: u64,
    pub text: String,
    pub why: &'static str,
}

/// What came of an import.
#[derive(Debug)]
pub struct Imported {
    pub format: Format,
    pub summary: Summary,
    /// The first that could not be read; `summary.bad` counts all.
    pub bad: Vec<Bad>,
    /// Requests of devices that were not asked for.
    pub left_out: u64,
    /// In plain words, what the form does not say.
    pub notes: Vec<&'static str>,
}

#[derive(Debug)]
pub enum ImportError {
    Read(io::Error),
    Write(io::Error),
    /// In one line, with what to do.
    Bad(String),
}

impl std::fmt::Display for ImportError {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            ImportError::Read(error) => write!(f, "cannot be read: {error}"),
            ImportError::Write(error) => write!(f, "the trace cannot be written: {error}"),
            ImportError::Bad(message) => f.write_str(message),
        }
    }
}

/// What an import may be told.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    pub format: Option<Format>,
    /// Only requests of the device of this name.
    pub device: Option<String>,
    /// What the trace says where it comes from.
    pub source: String,
}

pub type Input = Box<dyn Read>;
type Looked = Chain<Cursor<Vec<u8>>, Input>;

/// Reads a trace of another tool, in one file or, where the tool writes one for each processor, in several.
pub fn import<W: Write>(inputs: Vec<Input>, wish: &Wish, out: W) -> Result<Imported, ImportError> {
    let mut looked = Vec::new();
    for input in inputs {
        looked.push(look(input).map_err(ImportError::Read)?);
    }
    let Some(first) = looked.first() else { return Err(ImportError::Bad("no file was named".into())) };
    let Some(format) = wish.format.or_else(|| Format::of(&first.0)) else {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        let message = format!("is in no form that is known; name it with --format, one of {}", names.join(", "));
        return Err(ImportError::Bad(message));
    };
    if looked.len() > 1 && format != Format::Blktrace {
        let message = format!("{} files were named; only those of blktrace belong together", looked.len());
        return Err(ImportError::Bad(message));
    }
    let mut taker = Taker {
        out: Some(out),
        writer: None,
        wish: wish.clone(),
        format,
        origin_ns: 0,
        origin_is_first: true,
        start_unix_ns: None,
        devices: Devices::default(),
        bad: Vec::new(),
        bad_count: 0,
        left_out: 0,
        notes: Vec::new(),
    };
    let mut inputs = looked.into_iter().map(|(beginning, rest)| Cursor::new(beginning).chain(rest));
    match format {
        Format::Blktrace => blktrace::read(inputs.collect(), &mut taker)?,
        Format::Blkparse => inputs.try_for_each(|input| blkparse::read(input, &mut taker))?,
        Format::Fio => inputs.try_for_each(|input| fio::read(input, &mut taker))?,
        Format::Vscsi => inputs.try_for_each(|input| vscsi::read(input, &mut taker))?,
        _ => inputs.try_for_each(|input| tables::read(input, &mut taker))?,
    }
    taker.finish()
}

/// Opens a file to import, which may be compressed by gzip or zstd.
pub fn open(path: &Path) -> io::Result<Input> {
    let mut file = File::open(path)?;
    let mut magic = [0; 4];
    let got = read_up_to(&mut file, &mut magic)?;
    let whole = Cursor::new(magic[..got].to_vec()).chain(file);
    Ok(match magic {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(BufReader::with_capacity(1 << 18, whole))),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::Decoder::new(whole)?),
        _ => Box::new(whole),
    })
}

fn look(mut input: Input) -> io::Result<(Vec<u8>, Input)> {
    let mut beginning = Vec::new();
    input.by_ref().take(LOOK_BYTES as u64).read_to_end(&mut beginning)?;
    Ok((beginning, input))
}

/// Takes requests as the readers find them, and writes them.
struct Taker<W: Write> {
    out: Option<W>,
    writer: Option<Writer<W>>,
    wish: Wish,
    format: Format,
    /// Time 0 of the trace in the clock of the form.
    origin_ns: u64,
    /// The first request is at time 0; otherwise times stay as they are.
    origin_is_first: bool,
    /// The instant of time 0 of the form's clock, where the form says that.
    start_unix_ns: Option<u64>,
    devices: Devices,
    bad: Vec<Bad>,
    bad_count: u64,
    left_out: u64,
    notes: Vec<&'static str>,
}

#[derive(Default)]
struct Devices {
    numbers: HashMap<Vec<u8>, u32>,
    names: Vec<Vec<u8>>,
    /// Most lines name the device of the line before.
    last: Option<(Vec<u8>, u32)>,
}

impl Devices {
    /// None: there are more than anybody would name.
    fn number(&mut self, name: &[u8]) -> Option<u32> {
        if let Some((last, number)) = &self.last
            && last == name
        {
            return Some(*number);
        }
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None if self.names.len() >= NAMED_DEVICES => return None,
            None => {
                self.numbers.insert(name.to_vec(), self.names.len() as u32);
                self.names.push(name.to_vec());
                self.names.len() as u32 - 1
            }
        };
        self.last = Some((name.to_vec(), number));
        Some(number)
    }
}

impl<W: Write> Taker<W> {
    fn note(&mut self, note: &'static str) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Takes a request of the device of that name; its times are those of the form.
    fn take(&mut self, mut request: Request, device: &[u8]) -> Result<(), ImportError> {
        if self.wish.device.as_ref().is_some_and(|wanted| wanted.as_bytes() != device) {
            self.left_out += 1;
            return Ok(());
        }
        let Some(number) = self.devices.number(device) else {
            return Err(ImportError::Bad(format!(
                "has more than {NAMED_DEVICES} devices; choose one with --device NAME"
            )));
        };
        if self.writer.is_none() {
            self.begin(request.arrival_ns)?;
        }
        request.device = number;
        // Something that is written behind the first line and happened before it stands at time 0.
        for instant in [Some(&mut request.arrival_ns), request.issue_ns.as_mut(), request.complete_ns.as_mut()] {
            instant.into_iter().for_each(|ns| *ns = ns.saturating_sub(self.origin_ns));
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.push(&request).map_err(ImportError::Write)
    }

    fn begin(&mut self, first_ns: u64) -> Result<(), ImportError> {
        if self.origin_is_first {
            self.origin_ns = first_ns;
        }
        let header = Header {
            devices: Vec::new(),
            clock: self.format.name().into(),
            start_unix_ns: self.start_unix_ns.map_or(0, |start| start.saturating_add(self.origin_ns)),
            source: self.wish.source.clone(),
            before_queue: !matches!(self.format, Format::Fio | Format::Vscsi),
        };
        if let Some(out) = self.out.take() {
            self.writer = Some(Writer::new(out, &header).map_err(ImportError::Write)?);
        }
        Ok(())
    }

    /// A line or record cannot be read.
    fn bad(&mut self, number: u64, text: &[u8], why: &'static str) {
        self.bad_count += 1;
        if self.bad.len() < BAD_SHOWN {
            let text: String = String::from_utf8_lossy(text).chars().take(EXCERPT).collect();
            self.bad.push(Bad { number, text, why });
        }
    }

    fn finish(mut self) -> Result<Imported, ImportError> {
        let read = self.writer.is_some();
        if !read {
            let what = match (&self.wish.device, self.left_out) {
                (Some(name), 1..) => format!("holds no request of the device {name}"),
                _ => format!("holds no request in the form of {}", self.format.name()),
            };
            let first = self.bad.first().map_or(String::new(), |bad| format!("; line {}: {}", bad.number, bad.why));
            return Err(ImportError::Bad(what + &first));
        }
        let Some(mut writer) = self.writer.take() else { return Err(ImportError::Bad("holds no request".into())) };
        for name in &self.devices.names {
            let name = String::from_utf8_lossy(name).into_owned();
            writer.device(Device { name, capacity_bytes: 0, sector_bytes: 0 });
        }
        writer.bad(self.bad_count);
        let (_, summary) = writer.finish().map_err(ImportError::Write)?;
        let Taker { format, bad, left_out, notes, .. } = self;
        Ok(Imported { format, summary, bad, left_out, notes })
    }
}
