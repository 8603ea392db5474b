//! Duty: sources that are programs rather than patterns: PostMark's files and transactions, the phases of Bonnie, trees
//! of files and directories made, looked up and taken away; the users and writers of a database server.
//!
//! Refusal: it touches no file and knows no path; what its requests do is the device's business. Like any source it is
//! reproducible: the same seed gives the same requests.

mod big_file;
mod entries;
mod many_files;
mod server;
mod stock;
mod walk;

use std::sync::Arc;

use engine::device::Operation;
use engine::program::{ProgramLane, ProgramPlace, Programs};
use engine::rng::Rng;
use engine::source::{ChainKind, Source};
use plan::{DirectoryChoice, Program, Unit};
use record::event::ServerFileEnd;

use stock::{Pool, Stock};

/// What a worker of a stream that names a program works with.
struct Worker {
    pool: Arc<std::sync::Mutex<Pool>>,
    /// Those of all workers of streams of this name.
    all: Vec<Arc<std::sync::Mutex<Pool>>>,
    lane: u32,
    rng: Rng,
    request_bytes: u32,
}

/// The programs of a run, and the files that they have made so far.
#[derive(Default)]
pub struct Apps {
    stock: Stock,
    servers: server::Servers,
}

impl Apps {
    /// Directories that a target must have before the run begins, numbered from 1; known once all lanes were built.
    pub fn directories(&self, target: usize) -> u32 {
        self.stock.directories(target)
    }
}

impl Programs for Apps {
    fn source(&self, place: &ProgramPlace) -> Result<ProgramLane, String> {
        let stream = place.stream;
        let program = stream.program.ok_or("names no program")?;
        if program.is_server() {
            return self.servers.lane(place, program);
        }
        let pool = self.stock.pool(stream.target, &stream.name, place.lane, place.lanes);
        if let Some((homes, shared)) = homes(&program) {
            self.stock.give_homes(stream.target, &stream.name, place.lane, homes, shared);
        }
        let request_bytes = stream.request.max_bytes().max(1) as u32;
        let worker = Worker {
            pool,
            all: self.stock.pools(stream.target, &stream.name),
            lane: place.lane,
            rng: Rng::new(place.seed, place.phase, place.stream_index, place.lane),
            request_bytes,
        };
        Ok(ProgramLane {
            source: source(program, worker),
            cells: cells(&program),
            buffer_bytes: request_bytes,
            own_pace: false,
            fresh_data: !matches!(program, Program::RewriteFile {} | Program::SeekFile { .. }),
        })
    }

    fn server_files(&self) -> Vec<ServerFileEnd> {
        self.servers.told()
    }
}

/// How many directories a worker's files are spread over, and whether all workers share them.
fn homes(program: &Program) -> Option<(u32, bool)> {
    match *program {
        Program::CreateFiles { subdirectories, directory, .. } => {
            Some((subdirectories.max(1), directory == DirectoryChoice::Shared))
        }
        Program::MakeDirectories { directory, .. } => Some((1, directory == DirectoryChoice::Shared)),
        Program::WriteFile { .. } => Some((1, false)),
        _ => None,
    }
}

/// Of a program over files.
fn source(program: Program, worker: Worker) -> Box<dyn Source> {
    match program {
        Program::CreateFiles { files, size, fsync, .. } => {
            Box::new(many_files::CreateFiles::new(worker, files, size, fsync))
        }
        Program::Transactions { transactions, size, bias_read, bias_create, fsync } => {
            let biases = many_files::Biases { read: bias_read, create: bias_create };
            Box::new(many_files::Transactions::new(worker, transactions, size, biases, fsync))
        }
        Program::StatFiles {} => Box::new(entries::Look::new(worker, entries::Of::Files)),
        Program::DeleteFiles {} => Box::new(entries::Remove::new(worker, entries::Of::Files)),
        Program::MakeDirectories { directories, .. } => Box::new(entries::MakeDirectories::new(worker, directories)),
        Program::StatDirectories {} => Box::new(entries::Look::new(worker, entries::Of::Directories)),
        Program::RemoveDirectories {} => Box::new(entries::Remove::new(worker, entries::Of::Directories)),
        Program::WriteFile { size, by, fsync } => Box::new(big_file::WriteFile::new(worker, size.0, by, fsync)),
        Program::RewriteFile {} => Box::new(big_file::RewriteFile::new(worker)),
        Program::ReadFile { by } => Box::new(big_file::ReadFile::new(worker, by)),
        Program::SeekFile { seeks, update } => Box::new(big_file::SeekFile::new(worker, seeks, update)),
        server => unreachable!("{} is a part of a server", server.name()),
    }
}

/// Where a program's requests are counted.
fn cells(program: &Program) -> Vec<usize> {
    use ChainKind::{AppendFile, CreateFile, ReadFile, Steps};
    use Operation::*;
    let mut operations: Vec<Operation> = match program {
        Program::CreateFiles { size, .. } if size.to_bytes == 0 => vec![Create, Close],
        Program::CreateFiles { .. } => vec![Create, Write, Close],
        Program::Transactions { bias_read, bias_create, .. } => {
            let mut found = vec![Close];
            found.extend_from_slice(if *bias_read >= 0 { &[Open, Read, Append] } else { &[] });
            found.extend_from_slice(if *bias_create >= 0 { &[Create, Write, Unlink] } else { &[] });
            found
        }
        Program::StatFiles {} | Program::StatDirectories {} => vec![Stat],
        Program::DeleteFiles {} => vec![Unlink],
        Program::MakeDirectories { .. } => vec![Mkdir],
        Program::RemoveDirectories {} => vec![Rmdir],
        Program::WriteFile { by: Unit::Character, .. } => vec![Unlink, Create, Put, Close],
        Program::WriteFile { .. } => vec![Unlink, Create, Write, Close],
        Program::RewriteFile {} | Program::SeekFile { .. } => vec![Open, Read, Write, Close],
        Program::ReadFile { by: Unit::Character } => vec![Open, Get, Close],
        Program::ReadFile { .. } => vec![Open, Read, Close],
        _ => Vec::new(),
    };
    let fsync = match program {
        Program::CreateFiles { fsync, .. } | Program::Transactions { fsync, .. } => *fsync,
        Program::WriteFile { fsync, .. } => *fsync,
        _ => false,
    };
    operations.extend(fsync.then_some(Flush));
    let chains: &[ChainKind] = match program {
        Program::CreateFiles { .. } | Program::WriteFile { .. } => &[CreateFile],
        Program::Transactions { bias_read: -1, .. } => &[CreateFile],
        Program::Transactions { bias_create: -1, .. } => &[ReadFile, AppendFile],
        Program::Transactions { .. } => &[CreateFile, ReadFile, AppendFile],
        Program::RewriteFile {} | Program::SeekFile { .. } => &[Steps],
        Program::ReadFile { .. } => &[ReadFile],
        _ => &[],
    };
    operations.into_iter().map(|o| o as usize).chain(chains.iter().map(|c| c.cell())).collect()
}
