//! Targets on real storage: which device carries their requests, and why.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::device::{Blocked, Completion, Device, Devices, Operation, Order, Setup, Submissions, Until};
use engine::event::EngineReason;
use engine::honours::Honours;
use engine::streams::does;
use plan::{EngineChoice, Knob, Profile};

use crate::clock::Clock;
use crate::memory::Buffers;
use crate::psync::{Handle, Psync};
use crate::submission::{self, Submission};
use crate::uring::{Features, Uring, build_ring, ring_entries};
use crate::watched::{Beacon, RingWatch};

/// Loops are pinned only where kernel workers, interrupts and the rest of the host keep so many cores for each of them.
/// On two noisy cores, pinned loops reached about half of the rate on a device that the kernel serves by workers.
const CORES_A_LOOP: usize = 4;

/// An open target.
pub struct Opened {
    pub file: File,
    pub block: bool,
    /// The device below says that it polls (queue/io_poll).
    pub polls: bool,
    pub direct: bool,
    pub memory_align_bytes: u32,
}

/// The engine of a run, chosen once.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub uring: bool,
    pub iopoll: bool,
    pub reason: EngineReason,
    pub features: Vec<String>,
    /// How rings submit; none where there are none.
    pub submission: Option<Submission>,
}

/// What is seen of a loop's device from outside of its thread.
enum Watched {
    Ring(Arc<RingWatch>),
    Call(Arc<Beacon>),
}

/// Makes devices over the targets of a run.
pub struct Storage {
    // The descriptors that the handles speak of.
    _files: Vec<File>,
    raw: Vec<RawFd>,
    handles: Arc<Vec<Handle>>,
    clock: Clock,
    choice: Choice,
    /// Requests become no-operations.
    nop: bool,
    /// Of the devices that were opened last, by loop.
    watched: Mutex<BTreeMap<usize, Watched>>,
    /// Of the ring that was opened last; all of a run are alike.
    features: Mutex<Vec<String>>,
    cores: usize,
}

impl Storage {
    pub fn new(targets: Vec<Opened>, profile: &Profile, clock: Clock, nop: bool) -> Result<Storage, String> {
        let mut choice = choose(&targets, profile, nop)?;
        if nop {
            choice.features.push("nop".into());
        }
        if choice.uring {
            let queues: Vec<(&File, bool)> = targets.iter().map(|t| (&t.file, t.direct)).collect();
            choice.submission = Some(submission::choose(profile, nop, &queues));
        }
        let raw = targets.iter().map(|t| t.file.as_raw_fd()).collect();
        let handles = targets.iter().map(|t| Handle { fd: t.file.as_raw_fd(), block: t.block }).collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Storage {
            _files: targets.into_iter().map(|t| t.file).collect(),
            raw,
            handles: Arc::new(handles),
            clock,
            choice,
            nop,
            watched: Mutex::default(),
            features: Mutex::default(),
            cores,
        })
    }

    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<usize, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// io_uring where the kernel grants it, has all operations and does not delay them, else psync, with the reason.
fn choose(targets: &[Opened], profile: &Profile, nop: bool) -> Result<Choice, String> {
    let psync = |reason| Choice { uring: false, iopoll: false, reason, features: Vec::new(), submission: None };
    if profile.engine == EngineChoice::Psync {
        return Ok(psync(EngineReason::Requested));
    }
    let forced = profile.engine == EngineChoice::IoUring;
    // Most file systems can't promise that a write into the page cache does not wait, so io_uring hands it to a thread of
    // the kernel. With one at a time, that takes several times as long as the write (docs/benchmarks.md). File systems in
    // memory promise it of no request.
    let may_hand_over = !forced && !nop && profile.issues_one_at_a_time();
    if may_hand_over && targets.iter().all(|t| !t.block && is_in_memory(&t.file)) {
        return Ok(psync(EngineReason::InMemory));
    }
    if may_hand_over && targets.iter().all(|t| !t.direct) && profile.writes_one_at_a_time() {
        return Ok(psync(EngineReason::HandedOver));
    }
    let instead = |why: EngineReason| match forced {
        true => Err(format!("{why}; use engine = \"psync\" or \"auto\"")),
        false => Ok(psync(why)),
    };
    let probe = build_ring(ring_entries(slots_at_once(profile)), false).map(|(_, single_issuer)| single_issuer);
    if let Err(error) = probe {
        return instead(match error.raw_os_error() {
            Some(libc::ENOMEM) => EngineReason::OutOfMemory,
            Some(libc::ENOSYS) => EngineReason::Missing,
            Some(libc::EPERM | libc::EACCES) => EngineReason::Forbidden,
            _ => EngineReason::NotSetUp { error: error.to_string() },
        });
    }
    if does(profile, Operation::Trim) && targets.iter().any(|t| t.block) {
        return instead(EngineReason::NoTrim);
    }
    let only_transfers = !does(profile, Operation::Trim) && !does(profile, Operation::Flush);
    let polls = only_transfers && targets.iter().all(|t| t.direct && t.polls && really_polls(t));
    let features = Features { single_issuer: probe.unwrap_or(false), iopoll: polls, ..Features::default() };
    let reason = if forced { EngineReason::Requested } else { EngineReason::Offered };
    Ok(Choice { uring: true, iopoll: polls, reason, features: features.names(), submission: None })
}

/// Whether a file lies on tmpfs or ramfs (statfs(2)); the node of a device lies there as well.
fn is_in_memory(file: &File) -> bool {
    const KINDS: [i64; 2] = [0x0102_1994, 0x8584_58f6];
    rustix::fs::fstatfs(file).is_ok_and(|facts| KINDS.contains(&facts.f_type))
}

/// Requests that a profile has in flight at the most.
fn slots_at_once(profile: &Profile) -> u32 {
    let slots = |phase: &plan::Phase| {
        let ramped = |knob, otherwise: u32| match &phase.ramp {
            Some(ramp) if ramp.knob == knob => otherwise.max(ramp.max().ceil() as u32),
            _ => otherwise,
        };
        let of = |s: &plan::Stream| ramped(Knob::Workers, s.workers).saturating_mul(ramped(Knob::Depth, s.depth));
        phase.stream.iter().map(of).fold(0, u32::saturating_add)
    };
    profile.phase.iter().map(slots).max().unwrap_or(1)
}

/// Whether a read through a polling ring succeeds: set-up does on devices that then answer EOPNOTSUPP.
fn really_polls(target: &Opened) -> bool {
    let bytes = target.memory_align_bytes.max(4096);
    let attempt = || -> Option<i32> {
        let (mut ring, _) = build_ring(4, true).ok()?;
        let buffer = Buffers::new(1, bytes as usize).ok()?;
        let fd = io_uring::types::Fd(target.file.as_raw_fd());
        let read = io_uring::opcode::Read::new(fd, buffer.pointer(0), bytes).build();
        // SAFETY: the buffer outlives the request, which is waited for.
        unsafe { ring.submission().push(&read) }.ok()?;
        ring.submit_and_wait(1).ok()?;
        let entry = ring.completion().next()?;
        Some(entry.result())
    };
    attempt().is_some_and(|moved| moved > 0)
}

/// A thread of psync waits for one request at a time.
pub fn honours_of(uring: bool) -> Honours {
    let device = if uring { "io_uring" } else { "psync" };
    Honours { reap: uring, submit: uring, nop: uring, ..Honours::everything(device) }
}

/// A device of either kind; the branch is always the same within a run.
pub enum Either {
    Uring(Box<Uring>),
    Psync(Psync),
}

impl Devices for Storage {
    type Device = Either;

    fn open(&self, setup: &Setup) -> Result<Either, String> {
        // Punctual sleeps: the default slack of 50 µs would end each of them so late.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        if setup.loops * CORES_A_LOOP <= self.cores {
            pin(setup.loop_index);
        }
        if self.choice.uring {
            let mut uring = Uring::open(setup, &self.raw, self.clock, self.choice.iopoll)?;
            self.watched().insert(setup.loop_index, Watched::Ring(uring.watch()));
            *self.features.lock().unwrap_or_else(PoisonError::into_inner) = uring.features.names();
            if let Some(at_most) = self.choice.submission.as_ref().and_then(|s| s.at_most) {
                uring.set_submit(at_most);
            }
            if self.nop {
                uring.set_nop();
            }
            return Ok(Either::Uring(Box::new(uring)));
        }
        let beacon = Arc::new(Beacon::default());
        self.watched().insert(setup.loop_index, Watched::Call(beacon.clone()));
        Psync::open(setup, self.handles.clone(), self.clock, beacon).map(Either::Psync)
    }

    fn honours(&self) -> Honours {
        honours_of(self.choice.uring)
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn loops(&self, lanes: usize) -> usize {
        // A blocking call stops its whole loop, so each lane has one of its own; a ring serves many lanes.
        if self.choice.uring { lanes.min(self.cores) } else { lanes }
    }

    fn features(&self) -> Vec<String> {
        self.features.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn blocked(&self, since_ns: u64) -> Vec<Blocked> {
        let of = |(index, watched): (&usize, &Watched)| match watched {
            Watched::Ring(ring) => ring.blocked(*index, since_ns),
            Watched::Call(beacon) => beacon.blocked(*index as u64, since_ns).into_iter().collect(),
        };
        self.watched().iter().flat_map(of).collect()
    }

    fn outstanding(&self, loop_index: usize) -> u64 {
        match self.watched().get(&loop_index) {
            Some(Watched::Ring(ring)) => ring.in_flight(),
            _ => 1,
        }
    }
}

/// Keeps the calling thread on one of the cores that it may use. Refusal costs steadiness, not correctness.
fn pin(loop_index: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|c| allowed.is_set(*c)).collect();
    // From the last core down: the first one serves most interrupts.
    if let Some(core) = cores.iter().rev().nth(loop_index) {
        let mut one = CpuSet::new();
        one.set(*core);
        let _ = sched_setaffinity(None, &one);
    }
}

impl Device for Either {
    #[inline(always)]
    fn now_ns(&mut self) -> u64 {
        match self {
            Either::Uring(d) => d.now_ns(),
            Either::Psync(d) => d.now_ns(),
        }
    }

    #[inline(always)]
    fn buffer(&mut self, slot: u32, request_bytes: u32) -> &mut [u8] {
        match self {
            Either::Uring(d) => d.buffer(slot, request_bytes),
            Either::Psync(d) => d.buffer(slot, request_bytes),
        }
    }

    #[inline(always)]
    fn queue(&mut self, order: &Order) {
        match self {
            Either::Uring(d) => d.queue(order),
            Either::Psync(d) => d.queue(order),
        }
    }

    #[inline(always)]
    fn turn(&mut self, until: Until, done: &mut Vec<Completion>) -> Result<u64, String> {
        match self {
            Either::Uring(d) => d.turn(until, done),
            Either::Psync(d) => d.turn(until, done),
        }
    }

    #[inline(always)]
    fn away_ns(&self) -> u64 {
        match self {
            Either::Uring(d) => d.away_ns(),
            Either::Psync(d) => d.away_ns(),
        }
    }

    fn submissions(&self) -> Submissions {
        match self {
            Either::Uring(d) => d.submissions(),
            Either::Psync(d) => d.submissions(),
        }
    }
}
