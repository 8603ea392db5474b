//! Duty: an emulated disk: requests get their data at once, end when its timing says so, are logged when they end, and
//! lose what its volatile cache held when its power is cut.
//!
//! Refusal: it draws no crash state; those come from the log.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fuser::Errno;
use serde::Serialize;
use sim::member::Kind;

use crate::breaking::{Breaking, Corruption, Order, When};
use crate::cache::Medium;
use crate::draw::Cache;
use crate::fuse::{Disk, Reply};
use crate::log::Writer;
use crate::ring::Waker;
use crate::timing::{Ended, Timing};

/// A request is late where its end is told so long after it was due, and by more than 5 % of the time that it took.
const LATE_NS: u64 = 200_000;
const LATE_SHARE: u64 = 20;
/// Of what happened to a disk, so much is kept for its status.
const HISTORY: usize = 100;
const MISPLACED_BYTES: u64 = 64 << 10;

enum Pending {
    Read { offset_bytes: u64, bytes: u32, reply: Reply },
    Write { number: u64, offset_bytes: u64, data: Vec<u8>, durable: bool, reply: Reply },
    Flush { start: u64, covered: u64, works: bool, reply: Reply },
}

impl Pending {
    fn fail(self, errno: Errno) {
        match self {
            Pending::Read { reply, .. } => reply.error(errno),
            Pending::Write { reply, .. } => reply.error(errno),
            Pending::Flush { reply, .. } => reply.error(errno),
        }
    }
}

/// What a disk has done, for `status`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub failed: u64,
    /// Requests whose end was told more than 0.2 ms, and 5 % of their time, after it was due.
    pub late: u64,
    pub records: u64,
    pub in_flight: u64,
    pub volatile_bytes: u64,
}

/// Something that happened to a disk.
#[derive(Debug, Clone, Serialize)]
pub struct Happened {
    pub at_ms: u64,
    pub what: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct Status {
    #[serde(flatten)]
    pub counts: Counts,
    pub off: bool,
    /// Faults that last, as the orders that made them.
    pub active: Vec<String>,
    /// What will happen by itself.
    pub armed: Vec<String>,
    pub history: Vec<Happened>,
}

struct Inner {
    medium: Medium,
    /// Also those that have not ended.
    flushes_begun: u64,
    size_bytes: u64,
    cache: Cache,
    timing: Timing,
    log: Option<Writer>,
    /// With when they came, by our clock.
    pending: HashMap<u32, (u64, Pending)>,
    next_tag: u32,
    counts: Counts,
    /// Since a power cut: every request fails until the power is switched on again.
    off: bool,
    full: bool,
    bad: Vec<(u64, u64)>,
    damage: Vec<(Corruption, u64)>,
    later: Vec<(When, Breaking)>,
    history: VecDeque<Happened>,
    /// What a read takes while the way to the disk is measured.
    probe_ns: Option<u64>,
    over: bool,
}

pub struct Emulated {
    inner: Mutex<Inner>,
    wake: Condvar,
    /// What calls `tick`, so that `keep_time` has nothing to do.
    driver: OnceLock<Waker>,
    size_bytes: u64,
    since: Instant,
}

/// What an emulated disk is made of.
pub struct Parts {
    pub medium: Medium,
    pub size_bytes: u64,
    pub cache: Cache,
    pub timing: Timing,
    pub log: Option<PathBuf>,
}

impl Emulated {
    pub fn new(parts: Parts) -> Result<Arc<Emulated>, String> {
        let log = match parts.log {
            Some(place) => {
                let made = Writer::new(&place, parts.size_bytes);
                Some(made.map_err(|e| format!("{}: no log can be made: {e}", place.display()))?)
            }
            None => None,
        };
        let inner = Inner {
            flushes_begun: 0,
            medium: parts.medium,
            size_bytes: parts.size_bytes,
            cache: parts.cache,
            timing: parts.timing,
            log,
            pending: HashMap::new(),
            next_tag: 0,
            counts: Counts::default(),
            off: false,
            full: false,
            bad: Vec::new(),
            damage: Vec::new(),
            later: Vec::new(),
            history: VecDeque::new(),
            probe_ns: None,
            over: false,
        };
        let inner = Mutex::new(inner);
        let (wake, driver) = (Condvar::new(), OnceLock::new());
        Ok(Arc::new(Emulated { inner, wake, driver, size_bytes: parts.size_bytes, since: Instant::now() }))
    }

    fn now_ns(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends requests when they are due; returns when the disk is stopped.
    pub fn keep_time(&self) {
        // SAFETY: changes this thread's timer slack alone. The default of 50 us would make every request late.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
        let mut inner = self.lock();
        while self.driver.get().is_some() && !inner.over {
            inner = self.wake.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        while !inner.over {
            let now_ns = self.now_ns();
            inner.end_due(now_ns);
            let next_ns = inner.timing.next();
            let now_ns = self.now_ns();
            if next_ns <= now_ns {
                continue;
            }
            inner = if next_ns == sim::NEVER {
                self.wake.wait(inner).unwrap_or_else(PoisonError::into_inner)
            } else {
                let wait = Duration::from_nanos(next_ns - now_ns);
                self.wake.wait_timeout(inner, wait).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    /// Carries out an order; it has taken effect when this returns.
    pub fn obey(&self, order: Order) -> Result<Option<Status>, String> {
        let now_ns = self.now_ns();
        let mut inner = self.lock();
        let said = match order {
            Order::Probe(for_ns) => {
                inner.probe_ns = Some(for_ns);
                None
            }
            Order::Lead(for_ns) => {
                inner.probe_ns = None;
                inner.timing.lead(for_ns);
                inner.counts = Counts::default();
                None
            }
            Order::Status => Some(inner.status(now_ns)),
            Order::Stop => {
                inner.over = true;
                None
            }
            Order::Later(when, breaking) => {
                inner.can_come(when)?;
                inner.can_happen(&breaking)?;
                inner.later.push((when, breaking));
                None
            }
            Order::Now(breaking) => {
                inner.suffer(breaking, now_ns)?;
                None
            }
        };
        self.wake.notify_all();
        if let Some(driver) = self.driver.get() {
            drop(inner);
            driver.wake();
        }
        Ok(said)
    }

    fn submit(&self, mut inner: MutexGuard<'_, Inner>, kind: Kind, at: (u64, u32, bool), pending: Pending) {
        let now_ns = self.now_ns();
        let tag = inner.next_tag;
        inner.next_tag = inner.next_tag.wrapping_add(1);
        let is_ignored = matches!(pending, Pending::Flush { works: false, .. });
        inner.pending.insert(tag, (now_ns, pending));
        match (is_ignored, inner.probe_ns) {
            (_, Some(for_ns)) => inner.timing.after(now_ns, tag, for_ns),
            (true, None) => inner.timing.ignore_flush(now_ns, tag),
            (false, None) => inner.timing.submit(now_ns, tag, kind, at.0, at.1, at.2),
        }
        let before_ns = inner.timing.next();
        if before_ns <= now_ns {
            inner.end_due(now_ns);
        }
        drop(inner);
        if self.driver.get().is_none() {
            self.wake.notify_one();
        }
    }
}

impl Inner {
    fn end_due(&mut self, now_ns: u64) {
        let mut ended: Vec<Ended> = Vec::new();
        self.timing.advance(now_ns, &mut ended);
        for (tag, at, failed) in ended {
            let Some((since_ns, pending)) = self.pending.remove(&tag) else { continue };
            let late_ns = now_ns.saturating_sub(self.timing.real(at));
            if late_ns > LATE_NS && late_ns > (now_ns - since_ns) / LATE_SHARE {
                self.counts.late += 1;
            }
            if failed {
                self.counts.failed += 1;
                pending.fail(Errno::EIO);
            } else {
                self.end(pending, now_ns);
            }
        }
    }

    fn end(&mut self, pending: Pending, now_ns: u64) {
        match pending {
            Pending::Read { offset_bytes, bytes, reply } => {
                self.counts.reads += 1;
                let mut out = vec![0; bytes as usize];
                match self.medium.read(offset_bytes, &mut out) {
                    Ok(()) => reply.data(&out),
                    Err(e) => {
                        self.backing_fails(now_ns, &e);
                        self.refuse(reply, Errno::from(e));
                    }
                }
            }
            Pending::Write { number, offset_bytes, data, durable, reply } => {
                self.counts.writes += 1;
                let durable = self.cache == Cache::Off || durable;
                self.medium.ends(number, durable.then_some(&data[..]));
                let logged = self.log.as_mut().map_or(Ok(()), |log| log.write(now_ns, offset_bytes, &data, durable));
                match logged {
                    Ok(()) => reply.written(data.len() as u32),
                    Err(e) => self.log_fails(e, |errno| reply.error(errno)),
                }
            }
            Pending::Flush { start, covered, works, reply } => {
                self.counts.flushes += 1;
                if works {
                    self.medium.flushed(covered);
                }
                let logged = self.log.as_mut().map_or(Ok(()), |log| log.flush_end(now_ns, start));
                match logged {
                    Ok(()) => reply.done(),
                    Err(e) => self.log_fails(e, |errno| reply.error(errno)),
                }
                let number = self.counts.flushes;
                self.trigger(now_ns, |when| when == When::Flush(number));
            }
        }
    }

    /// The log can't grow: the request fails, so that no acknowledgement rests on what is not in it.
    fn log_fails(&mut self, error: std::io::Error, answer: impl FnOnce(Errno)) {
        self.counts.failed += 1;
        self.note(0, format!("the log cannot be written: {error}"));
        answer(Errno::ENOSPC);
    }

    fn note(&mut self, now_ns: u64, what: String) {
        self.history.push_back(Happened { at_ms: now_ns / 1_000_000, what });
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    fn status(&self, now_ns: u64) -> Status {
        let counts = Counts {
            records: self.log.as_ref().map_or(0, Writer::count),
            in_flight: self.pending.len() as u64,
            volatile_bytes: self.medium.volatile_bytes(),
            ..self.counts.clone()
        };
        let armed = self.later.iter().map(|(when, breaking)| format!("{breaking}, at {when}")).collect();
        let history = self.history.iter().cloned().collect();
        Status { counts, off: self.off, active: self.active(now_ns), armed, history }
    }

    fn active(&self, now_ns: u64) -> Vec<String> {
        let mut found: Vec<String> = self.timing.faults(now_ns).iter().map(Breaking::to_string).collect();
        let bad = |&(from, to): &(u64, u64)| Breaking::BadSectors { offset_bytes: from, bytes: to - from }.to_string();
        found.extend(self.bad.iter().map(bad));
        found.extend(self.damage.iter().map(|(kind, at)| Breaking::Corrupt(*kind, *at).to_string()));
        found.extend(self.full.then(|| Breaking::Full(true).to_string()));
        found
    }

    /// Does what was to be done at any of these instants, in the order in which it was asked for.
    fn trigger(&mut self, now_ns: u64, comes: impl Fn(When) -> bool) {
        let (due, later) = std::mem::take(&mut self.later).into_iter().partition(|(when, _)| comes(*when));
        self.later = later;
        let due: Vec<(When, Breaking)> = due;
        for (_, breaking) in due {
            if let Err(why) = self.suffer(breaking, now_ns) {
                self.note(now_ns, why);
            }
        }
    }

    fn can_come(&self, when: When) -> Result<(), String> {
        match when {
            When::Flush(number) if number <= self.counts.flushes => {
                Err(format!("flush {number} is over: the disk has had {}; name a later one", self.counts.flushes))
            }
            When::Write(offset_bytes) if offset_bytes >= self.size_bytes => Err(format!(
                "offset {offset_bytes} lies beyond the end of the disk, which has {} bytes",
                self.size_bytes
            )),
            When::Flush(_) | When::Write(_) => Ok(()),
        }
    }

    fn can_happen(&self, breaking: &Breaking) -> Result<(), String> {
        let last_byte = match *breaking {
            Breaking::BadSectors { bytes: 0, .. } => return Err("no sector has 0 bytes".into()),
            Breaking::BadSectors { offset_bytes, bytes } => offset_bytes.checked_add(bytes - 1),
            Breaking::Corrupt(_, offset_bytes) => Some(offset_bytes),
            Breaking::Fail(member) => self.timing.can_fail(member).map(|()| Some(0))?,
            Breaking::Slow(_) => self.timing.can_be_slow().map(|()| Some(0))?,
            _ => Some(0),
        };
        if last_byte.is_none_or(|last| last >= self.size_bytes) {
            return Err(format!("{breaking} lies beyond the end of the disk, which has {} bytes", self.size_bytes));
        }
        Ok(())
    }

    fn suffer(&mut self, breaking: Breaking, now_ns: u64) -> Result<(), String> {
        self.can_happen(&breaking)?;
        let mut what = breaking.to_string();
        match breaking {
            Breaking::PowerCut => what = self.power_cut(now_ns)?,
            Breaking::PowerOn => self.off = false,
            Breaking::Slow(factor) => self.timing.slow(now_ns, factor),
            Breaking::Stall(for_ns) => self.timing.stall(now_ns, for_ns),
            Breaking::Fail(member) => self.timing.fail_member(now_ns, member)?,
            Breaking::BadSectors { offset_bytes, bytes } => self.bad.push((offset_bytes, offset_bytes + bytes)),
            Breaking::Corrupt(Corruption::Bit, offset) => {
                self.medium.flip(offset).map_err(|e| format!("offset {offset} cannot be changed: {e}"))?;
            }
            Breaking::Corrupt(kind, offset) => self.damage.push((kind, offset)),
            Breaking::Full(on) => self.full = on,
        }
        self.note(now_ns, what);
        Ok(())
    }

    /// A request that failed without having reached the model.
    fn refuse(&mut self, reply: Reply, errno: Errno) {
        self.counts.failed += 1;
        reply.error(errno);
    }

    /// What holds the content fails, which is told once while it is the newest that happened.
    fn backing_fails(&mut self, now_ns: u64, error: &std::io::Error) {
        let what = format!("the file that holds the content fails: {error}");
        if self.history.back().is_none_or(|last| last.what != what) {
            self.note(now_ns, what);
        }
    }

    fn power_cut(&mut self, now_ns: u64) -> Result<String, String> {
        let requests = self.pending.len();
        self.off = true;
        for (_, (_, pending)) in self.pending.drain() {
            self.counts.failed += 1;
            pending.fail(Errno::EIO);
        }
        let taken = self.medium.power_cut().map_err(|e| format!("the medium cannot be written: {e}"))?;
        self.timing.power_cut(now_ns)?;
        Ok(format!("power-cut: {requests} requests failed, {} writes lost ({} bytes)", taken.writes, taken.bytes))
    }

    /// What of a write arrives, and where.
    fn arrives<'a>(&mut self, offset_bytes: u64, data: &'a [u8], size_bytes: u64) -> (u64, &'a [u8]) {
        let end = offset_bytes + data.len() as u64;
        let covers = |(_, at): &(Corruption, u64)| (offset_bytes..end).contains(at);
        let Some(place) = self.damage.iter().position(covers) else { return (offset_bytes, data) };
        match self.damage.remove(place).0 {
            Corruption::Torn => (offset_bytes, &data[..data.len() / 2]),
            Corruption::Misplaced if end + MISPLACED_BYTES <= size_bytes => (offset_bytes + MISPLACED_BYTES, data),
            Corruption::Misplaced if offset_bytes >= MISPLACED_BYTES => (offset_bytes - MISPLACED_BYTES, data),
            _ => (offset_bytes, &data[..0]),
        }
    }
}

impl Disk for Arc<Emulated> {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset_bytes: u64, bytes: u32, reply: Reply) {
        let mut inner = self.lock();
        if inner.off {
            return inner.refuse(reply, Errno::EIO);
        }
        let end = offset_bytes + u64::from(bytes);
        if inner.bad.iter().any(|(from, to)| *from < end && offset_bytes < *to) {
            return inner.refuse(reply, Errno::EIO);
        }
        self.submit(inner, Kind::Read, (offset_bytes, bytes, false), Pending::Read { offset_bytes, bytes, reply });
    }

    fn write(&self, offset_bytes: u64, data: &[u8], durable: bool, reply: Reply) {
        let mut inner = self.lock();
        if inner.off {
            return inner.refuse(reply, Errno::EIO);
        }
        if inner.full {
            return inner.refuse(reply, Errno::ENOSPC);
        }
        let end = offset_bytes + data.len() as u64;
        let parts = |(from, to): (u64, u64)| [(from, to.min(offset_bytes)), (from.max(end), to)];
        inner.bad = inner.bad.iter().copied().flat_map(parts).filter(|(from, to)| from < to).collect();
        inner.trigger(self.now_ns(), |when| matches!(when, When::Write(at) if (offset_bytes..end).contains(&at)));
        if inner.off {
            return inner.refuse(reply, Errno::EIO);
        }
        let (at, arriving) = inner.arrives(offset_bytes, data, self.size_bytes);
        let number = match inner.medium.write(at, arriving) {
            Ok(number) => number,
            Err(e) => {
                inner.backing_fails(self.now_ns(), &e);
                return inner.refuse(reply, Errno::from(e));
            }
        };
        // To a disk that lies a durable write is one like others.
        let durable = durable && !matches!(inner.cache, Cache::Lying { .. });
        let pending = Pending::Write { number, offset_bytes, data: data.to_vec(), durable, reply };
        self.submit(inner, Kind::Write, (offset_bytes, data.len() as u32, durable), pending);
    }

    fn flush(&self, reply: Reply) {
        let mut inner = self.lock();
        if inner.off {
            return inner.refuse(reply, Errno::EIO);
        }
        let now_ns = self.now_ns();
        let covered = inner.medium.flush_covers();
        inner.flushes_begun += 1;
        let works = match inner.cache {
            Cache::Honest | Cache::Off => true,
            Cache::Lying { .. } => false,
            Cache::Lossy { n } => !inner.flushes_begun.is_multiple_of(n),
        };
        let start = match inner.log.as_mut().map_or(Ok(0), |log| log.flush_start(now_ns)) {
            Ok(start) => start,
            Err(e) => return inner.log_fails(e, |errno| reply.error(errno)),
        };
        self.submit(inner, Kind::Flush, (0, 0, false), Pending::Flush { start, covered, works, reply });
    }

    fn driven(&self, waker: Waker) {
        let _ = self.driver.set(waker);
    }

    fn tick(&self) -> Option<Duration> {
        let mut inner = self.lock();
        inner.end_due(self.now_ns());
        match inner.timing.next() {
            sim::NEVER => None,
            next_ns => Some(Duration::from_nanos(next_ns.saturating_sub(self.now_ns()))),
        }
    }
}
