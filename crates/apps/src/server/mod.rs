//! A database server: its data file, its log, its cache, and the users and writers that work on them. One state is shared
//! by all lanes of a database, whatever stream they belong to.
//!
//! A lane that has to wait for another (for the log, for a page that can be given up, for a request block) looks again
//! after [`LOOK_NS`].

mod cache;
mod mailbox;
mod scans;
mod throttle;
mod users;
mod writers;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use engine::device::{Completion, Entry, Operation};
use engine::program::{Place, ProgramLane, ProgramPlace};
use engine::rng::Rng;
use engine::source::{Next, Request, Source};
use plan::{DatabaseFile, PAGE_BYTES, Program};
use record::event::ServerFileEnd;

use crate::stock::lock;
use cache::Cache;
use throttle::{Throttle, Wish};

/// How often a lane that waits for another looks again: a fifth of what users sleep after a chain in SQLIOSim.
const LOOK_NS: u64 = 1_000_000;
/// SQL Server writes at most so many pages in a row with one request.
const GATHERED_PAGES: u32 = 32;
/// SQL Server's largest write of the log.
const LOG_WRITE_BYTES: u64 = 60 << 10;

/// The servers of a run by the target of their data file.
#[derive(Default)]
pub struct Servers {
    all: Mutex<BTreeMap<usize, Arc<Mutex<Server>>>>,
}

/// What all lanes of a database share.
pub struct Server {
    file: DatabaseFile,
    phase: u32,
    /// Of the data file now, and what it may have.
    pages: u32,
    most_pages: u32,
    cache: Cache,
    data: Throttle,
    log: Throttle,
    /// Bytes of records that users have put into the log, of which the first are on the medium.
    log_put: u64,
    log_done: u64,
    /// Up to here somebody waits.
    log_wanted: u64,
    /// Reads of audits in this phase, which no user asked for.
    audited: u64,
    /// When the first lane of this phase asked for something.
    started_ns: Option<u64>,
}

impl Server {
    fn new(file: DatabaseFile) -> Server {
        let pages = |bytes: u64| (bytes / PAGE_BYTES) as u32;
        Server {
            file,
            phase: 0,
            pages: pages(file.size.0),
            most_pages: pages(file.most_bytes()),
            cache: Cache::new(pages(file.buffer_pool.0) as usize),
            data: Throttle::new(&file),
            log: Throttle::new(&file),
            log_put: 0,
            log_done: 0,
            log_wanted: 0,
            audited: 0,
            started_ns: None,
        }
    }

    fn begin_phase(&mut self, phase: u32) {
        if self.phase != phase {
            self.phase = phase;
            self.data.begin_phase();
            self.log.begin_phase();
            self.cache.busy.clear();
            (self.audited, self.started_ns) = (0, None);
            // Nobody is left who waits for what was not written.
            (self.log_done, self.log_wanted) = (self.log_put, self.log_put);
        }
    }

    /// Puts a record into the log; what to wait for.
    fn put_log(&mut self, bytes: u64) -> u64 {
        self.log_put += bytes;
        self.log_put
    }

    /// Requests on the data file that the users' work has caused in this phase, for who has a rate to keep.
    fn users_requests(&self) -> u64 {
        let counts = self.data.counts;
        counts.reads + counts.scatter_reads + counts.writes + counts.gather_writes - self.audited
    }
}

impl Servers {
    pub fn lane(&self, place: &ProgramPlace, program: Program) -> Result<ProgramLane, String> {
        let of = place.server.ok_or("has no database")?;
        refuse_several(place, program)?;
        let server = {
            let mut all = lock(&self.all);
            all.entry(of.of.database).or_insert_with(|| Arc::new(Mutex::new(Server::new(of.of.file)))).clone()
        };
        lock(&server).begin_phase(place.phase);
        let rng = Rng::new(place.seed, place.phase, place.stream_index, place.lane);
        let user = User { server, place: of, rng, lane: place.lane, lanes: place.lanes };
        let depth = place.stream.depth;
        let source: Box<dyn Source> = match program {
            Program::DatabaseFile(file) => Box::new(writers::Growth::new(user, file)),
            Program::RandomUser(keys) => Box::new(users::RandomUser::new(user, keys)),
            Program::BulkUpdate(keys) => Box::new(users::BulkUpdate::new(user, keys, depth)),
            Program::ReadAhead(keys) => Box::new(scans::ReadAhead::new(user, keys)),
            Program::Audit(keys) => Box::new(scans::Audit::new(user, keys)),
            Program::Checkpoint(keys) => Box::new(writers::PageWriter::checkpoint(user, keys, depth)),
            Program::LazyWriter(keys) => Box::new(writers::PageWriter::lazy(user, keys, depth)),
            Program::LogWriter(keys) => Box::new(writers::LogWriter::new(user, keys)),
            Program::MailboxUser(keys) => Box::new(mailbox::MailboxUser::new(user, keys)),
            _ => return Err(format!("{} is no part of a server", program.name())),
        };
        let operation = match program {
            Program::RandomUser(_) | Program::ReadAhead(_) | Program::Audit(_) | Program::MailboxUser(_) => {
                Operation::Read
            }
            _ => Operation::Write,
        };
        let buffer_bytes = match program {
            Program::ReadAhead(keys) => u64::from(keys.pages_max) * PAGE_BYTES,
            Program::Audit(keys) => u64::from(keys.pages) * PAGE_BYTES,
            _ => u64::from(GATHERED_PAGES) * PAGE_BYTES,
        };
        Ok(ProgramLane {
            source,
            cells: vec![operation as usize],
            buffer_bytes: buffer_bytes as u32,
            own_pace: false,
            fresh_data: true,
        })
    }

    /// What happened to the files since the phase began.
    pub fn told(&self) -> Vec<ServerFileEnd> {
        let all = lock(&self.all);
        let of = |(database, server): (&usize, &Arc<Mutex<Server>>)| {
            let server = lock(server);
            let size_bytes = u64::from(server.pages) * PAGE_BYTES;
            let log_bytes = server.file.log_bytes();
            [server.data.told(*database, false, size_bytes), server.log.told(*database, true, log_bytes)]
        };
        all.iter().flat_map(of).collect()
    }
}

/// A file has one who makes it grow, and one who writes its log.
fn refuse_several(place: &ProgramPlace, program: Program) -> Result<(), String> {
    let name = program.name();
    let is_single = matches!(program, Program::DatabaseFile(_) | Program::LogWriter(_));
    if is_single && place.lanes != 1 {
        return Err(format!("{name} has one worker; set workers of another stream by its path, PHASE.STREAM.workers"));
    }
    Ok(())
}

/// What a lane works with.
pub(crate) struct User {
    server: Arc<Mutex<Server>>,
    place: Place,
    rng: Rng,
    lane: u32,
    lanes: u32,
}

impl User {
    fn server(&self) -> MutexGuard<'_, Server> {
        lock(&self.server)
    }

    fn between(&mut self, least: u32, most: u32) -> u32 {
        least + self.rng.below(u64::from(most - least) + 1) as u32
    }

    fn happens(&mut self, percent: f64) -> bool {
        self.rng.unit_f64() * 100.0 < percent
    }

    fn request(&self, operation: Operation, at_bytes: u64, bytes: u64) -> Next {
        Next::Do(Request {
            operation,
            offset_bytes: self.place.start_bytes + at_bytes,
            request_bytes: bytes as u32,
            pass: 0,
            entry: Entry::default(),
        })
    }

    fn pages(&self, operation: Operation, (first, count): (u32, u32)) -> Next {
        self.request(operation, u64::from(first) * PAGE_BYTES, u64::from(count) * PAGE_BYTES)
    }
}

/// Looks again later.
fn later(now_ns: u64) -> Next {
    Next::Wait(now_ns + LOOK_NS)
}

/// Pages that one request of a lane reads.
#[derive(Debug, Default, Clone, Copy)]
struct Reading {
    run: Option<(u32, u32)>,
    /// It has waited for a request block.
    waited: bool,
}

impl Reading {
    /// Begins to read pages: the request, or None where it has to wait. `keep`: they are not in the cache, and stay
    /// there.
    fn begin(&mut self, user: &User, run: (u32, u32), keep: bool) -> Option<Next> {
        let (first, mut count) = run;
        let mut server = user.server();
        if keep {
            // Fewer pages where the cache has no room for all of them.
            count = (first..first + count).take_while(|page| server.cache.admit(*page)).count() as u32;
            if count == 0 {
                return None;
            }
        }
        let wish = Wish { writes: false, pages: count, waited: self.waited, burst: false };
        if !server.data.begin(wish) {
            if keep {
                (first..first + count).for_each(|page| server.cache.discard(page));
            }
            self.waited = true;
            return None;
        }
        let run = (first, count);
        server.cache.busy.extend(first..first + count);
        drop(server);
        *self = Reading { run: Some(run), waited: false };
        Some(user.pages(Operation::Read, run))
    }

    fn end(&mut self, user: &User, completion: &Completion) {
        let mut server = user.server();
        server.data.end(completion);
        if let Some((first, count)) = self.run.take() {
            server.cache.free(first, count);
        }
    }
}
