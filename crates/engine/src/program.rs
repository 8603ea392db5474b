//! Programs: sources that whoever runs a profile brings along, for streams that name one instead of a pattern.

use plan::{ServerPlace, Stream};
use record::event::ServerFileEnd;

use crate::source::Source;
use crate::streams::TargetArea;

/// Makes the sources of programs. It lives as long as a run, since files outlive the phase that made them.
pub trait Programs: Send + Sync {
    /// What a lane of a stream that names a program is to do.
    fn source(&self, place: &ProgramPlace) -> Result<ProgramLane, String>;

    /// What happened in the phase that has just ended to the files of simulated servers.
    fn server_files(&self) -> Vec<ServerFileEnd> {
        Vec::new()
    }
}

/// One lane of a stream that names a program.
#[derive(Debug, Clone, Copy)]
pub struct ProgramPlace<'a> {
    pub stream: &'a Stream,
    pub seed: u64,
    pub phase: u32,
    pub stream_index: u32,
    pub lane: u32,
    pub lanes: u32,
    /// Where the file lies that a part of a database server works on.
    pub server: Option<Place>,
    /// What of its target the stream may touch; none of a directory.
    pub area: Option<&'a TargetArea>,
}

/// A file within the data of a target.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub of: ServerPlace,
    /// Where the file begins, from the start of the target.
    pub start_bytes: u64,
    /// Offsets and sizes are multiples of this.
    pub block_bytes: u64,
}

pub struct ProgramLane {
    pub source: Box<dyn Source>,
    /// Cells that it can count in: operations, and chains by their kind.
    pub cells: Vec<usize>,
    pub buffer_bytes: u32,
    /// The source says itself when its operations are due.
    pub own_pace: bool,
    /// Writes get fresh data; otherwise the source changes what was read (`Source::dirty`).
    pub fresh_data: bool,
}

/// For targets that are no directory.
pub struct NoPrograms;

impl Programs for NoPrograms {
    fn source(&self, place: &ProgramPlace) -> Result<ProgramLane, String> {
        let kind = place.stream.program.map_or("", |p| p.name());
        Err(format!("the program {kind} does not run here; over files it needs a directory as the target"))
    }
}
