//! Programs: sources that whoever runs a profile brings along, for streams that name one instead of a pattern.

use plan::Stream;

use crate::source::Source;

/// Makes the sources of programs. It lives as long as a run, since files outlive the phase that made them.
pub trait Programs: Send + Sync {
    /// What a lane of a stream that names a program is to do.
    fn source(&self, place: &ProgramPlace) -> Result<ProgramLane, String>;
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
}

pub struct ProgramLane {
    pub source: Box<dyn Source>,
    /// Cells that it can count in: operations, and chains by their kind.
    pub cells: Vec<usize>,
    pub buffer_bytes: u32,
    /// Writes get fresh data; otherwise the source changes what was read (`Source::dirty`).
    pub fresh_data: bool,
}

/// For targets that are no directory.
pub struct NoPrograms;

impl Programs for NoPrograms {
    fn source(&self, place: &ProgramPlace) -> Result<ProgramLane, String> {
        let kind = place.stream.program.map_or("", |p| p.name());
        Err(format!("the program {kind} works on files; name a directory as the target"))
    }
}
