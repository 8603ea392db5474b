//! What the sessions of a driver have in common: queues of calls that are due, the tally, what is lost and found.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::now_ns;
use crate::counts::Document;
use crate::database::Failure;
use crate::event::{EndReason, Event, RunOutcome};
use crate::mapping::{Call, Mapping};
use crate::tally::{Tally, Told};

/// Calls that wait for a session where there is nowhere to wait but in memory: beyond them calls of one of several
/// databases are counted as unsent. About 200 bytes each.
pub const WAITING_MAX: usize = 100_000;
/// A fire hose keeps so many ready for each database, that its sessions never wait for the log.
pub const READY: usize = 512;

/// A call that is due.
pub struct Job {
    pub call: Call,
    /// 0 in a closed loop: due when a session takes it.
    pub due_ns: u64,
    /// When it could go but for a session to carry it.
    pub ready_ns: u64,
}

#[derive(Default)]
struct Brick {
    queue: Mutex<VecDeque<Job>>,
    work: Notify,
    /// Held by the one session that connects again, also while it pauses between two attempts.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Sessions that have a connection, by brick.
    live: Vec<usize>,
    /// Why a database without any connection could not be reached again: its calls fail at once.
    down: Vec<Option<Failure>>,
    lost: Vec<u64>,
    reconnects: Vec<u64>,
    unsent: Vec<u64>,
    live_at_ns: u64,
    starved_ns: u64,
    last_failure: String,
    is_closed: bool,
    /// Calls of a session that wait for the one before them, and how many these are in all.
    sessions: HashMap<u64, VecDeque<Job>>,
    held: usize,
}

pub struct Shared<D> {
    pub database: std::sync::Arc<D>,
    pub mapping: std::sync::Arc<Mapping>,
    pub is_open_loop: bool,
    in_order: bool,
    bricks: Vec<Brick>,
    /// Somebody took a call: there is room.
    pub room: Notify,
    /// Databases that are down; nobody looks for them while there are none.
    down: AtomicUsize,
    tally: Mutex<Tally>,
    out: Mutex<Option<Sender<Told>>>,
    state: Mutex<State>,
    document: Mutex<Known>,
    document_is_here: Condvar,
    log_trouble: Mutex<Option<String>>,
}

/// After a run that ends by time, standard input is read for so long to see whether it holds requests that belong into
/// the run; a pipe may have no end.
pub const READ_ON: Duration = Duration::from_secs(5);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D> Shared<D> {
    pub fn new(
        database: std::sync::Arc<D>,
        mapping: std::sync::Arc<Mapping>,
        tally: Tally,
        bricks: usize,
        is_open_loop: bool,
        in_order: bool,
    ) -> Shared<D> {
        let zeros = vec![0; bricks];
        let state = State {
            live: vec![0; bricks],
            down: vec![None; bricks],
            lost: zeros.clone(),
            reconnects: zeros.clone(),
            unsent: zeros,
            ..State::default()
        };
        Shared {
            database,
            mapping,
            is_open_loop,
            in_order,
            bricks: (0..bricks).map(|_| Brick::default()).collect(),
            room: Notify::new(),
            down: AtomicUsize::new(0),
            out: Mutex::new(Some(tally.sender())),
            tally: Mutex::new(tally),
            state: Mutex::new(state),
            document: Mutex::new(Known::default()),
            document_is_here: Condvar::new(),
            log_trouble: Mutex::new(None),
        }
    }

    pub fn tally(&self) -> MutexGuard<'_, Tally> {
        locked(&self.tally)
    }

    /// Hands over a call that is due; in order, one of a session at a time.
    pub fn push(&self, job: Job) {
        if self.in_order {
            let mut state = locked(&self.state);
            if let Some(before) = state.sessions.get_mut(&job.call.session) {
                before.push_back(job);
                state.held += 1;
                return;
            }
            state.sessions.insert(job.call.session, VecDeque::new());
        }
        if let Some(job) = self.unless_down(job) {
            let brick = &self.bricks[usize::from(job.call.brick)];
            locked(&brick.queue).push_back(job);
            brick.work.notify_one();
        }
    }

    /// The call of a session has ended: its next one may go.
    pub fn session_goes_on(&self, session: u64, now_ns: u64) {
        if let Some(job) = self.next_of(session, now_ns).and_then(|next| self.unless_down(next)) {
            self.give_back(job);
        }
    }

    /// A call that has waited longest.
    pub fn give_back(&self, job: Job) {
        let brick = &self.bricks[usize::from(job.call.brick)];
        locked(&brick.queue).push_front(job);
        brick.work.notify_one();
    }

    /// The call that waited for the one before it of its session.
    fn next_of(&self, session: u64, now_ns: u64) -> Option<Job> {
        if !self.in_order {
            return None;
        }
        let mut state = locked(&self.state);
        let Some(mut job) = state.sessions.get_mut(&session)?.pop_front() else {
            state.sessions.remove(&session);
            return None;
        };
        state.held -= 1;
        drop(state);
        self.room.notify_one();
        job.ready_ns = job.ready_ns.max(now_ns);
        Some(job)
    }

    /// A call of a database that is down fails at once, as its page would have, and then the next of its session may
    /// go: what is left of them can be sent.
    fn unless_down(&self, mut job: Job) -> Option<Job> {
        while let Some(why) = self.why_down(usize::from(job.call.brick)) {
            let now = now_ns();
            let mut tally = self.tally();
            let stream = tally.stream(self.mapping.page_of(job.call.call), job.call.brick);
            tally.submitted(stream, now);
            tally.failed(stream, now, &why);
            drop(tally);
            job = self.next_of(job.call.session, now)?;
        }
        Some(job)
    }

    /// Why calls of a database fail at once. A fire hose has nothing else to do when all databases are down: it waits.
    fn why_down(&self, brick: usize) -> Option<Failure> {
        let down = self.down.load(Ordering::Relaxed);
        if down == 0 || (!self.is_open_loop && down == self.bricks.len()) {
            return None;
        }
        let state = locked(&self.state);
        let failure = state.down[brick].as_ref()?;
        let text = format!("database {brick} is down: {} ({})", failure.text, failure.sqlstate);
        Some(Failure { sqlstate: Failure::UNREACHABLE.into(), text })
    }

    pub fn is_down(&self, brick: usize) -> bool {
        self.down.load(Ordering::Relaxed) > 0 && locked(&self.state).down[brick].is_some()
    }

    /// What waits for databases that are down fails, where it does not wait for them.
    fn fail_waiting(&self) {
        for (number, brick) in self.bricks.iter().enumerate() {
            if self.why_down(number).is_some() {
                let waiting = std::mem::take(&mut *locked(&brick.queue));
                waiting.into_iter().filter_map(|job| self.unless_down(job)).for_each(|job| self.give_back(job));
                self.room.notify_one();
            }
        }
    }

    /// The next call for a brick; None when there will be no more.
    pub async fn take(&self, brick: usize) -> Option<Job> {
        let place = &self.bricks[brick];
        loop {
            let (job, left) = {
                let mut queue = locked(&place.queue);
                let job = queue.pop_front();
                (job, queue.len())
            };
            if let Some(job) = job {
                if left == READY / 2 || left == WAITING_MAX / 2 || left == 0 {
                    self.room.notify_one();
                }
                return Some(job);
            }
            if locked(&self.state).is_closed {
                return None;
            }
            place.work.notified().await;
        }
    }

    pub fn close(&self) {
        locked(&self.state).is_closed = true;
        self.bricks.iter().for_each(|b| b.work.notify_waiters());
    }

    pub fn queue_length(&self, brick: usize) -> usize {
        locked(&self.bricks[brick].queue).len()
    }

    pub fn bricks(&self) -> usize {
        self.bricks.len()
    }

    /// Calls that wait for the one before them of their session.
    pub fn held(&self) -> usize {
        if self.in_order { locked(&self.state).held } else { 0 }
    }

    pub fn waiting(&self) -> usize {
        let held: usize =
            if self.in_order { locked(&self.state).sessions.values().map(VecDeque::len).sum() } else { 0 };
        held + (0..self.bricks.len()).map(|b| self.queue_length(b)).sum::<usize>()
    }

    /// Waits until no other session of this database connects.
    pub async fn turn_to_connect(&self, brick: usize) -> tokio::sync::MutexGuard<'_, ()> {
        self.bricks[brick].connecting.lock().await
    }

    /// Databases that have ended their part of a log that is at its end no longer count as serving.
    pub fn note_served(&self) {
        if self.held() == 0 {
            let idle = (0..self.bricks.len()).filter(|b| self.queue_length(*b) == 0).collect::<Vec<_>>();
            let (mut tally, now) = (self.tally(), now_ns());
            idle.into_iter().for_each(|brick| tally.has_served(brick, now));
        }
    }

    pub fn unsent_one(&self, brick: usize) {
        locked(&self.state).unsent[brick] += 1;
    }

    /// What waits will not be sent any more.
    pub fn drop_waiting(&self) {
        for (number, brick) in self.bricks.iter().enumerate() {
            let dropped = std::mem::take(&mut *locked(&brick.queue));
            if self.is_open_loop {
                locked(&self.state).unsent[number] += dropped.len() as u64;
            }
        }
        let mut state = locked(&self.state);
        let held: Vec<Job> = state.sessions.values_mut().flat_map(std::mem::take).collect();
        state.held = 0;
        for job in held.into_iter().filter(|_| self.is_open_loop) {
            state.unsent[usize::from(job.call.brick)] += 1;
        }
    }

    pub fn connected(&self, brick: usize, is_again: bool) {
        let mut state = locked(&self.state);
        state.live[brick] += 1;
        state.reconnects[brick] += u64::from(is_again);
        let was_down = state.down[brick].take().is_some();
        drop(state);
        self.tally().is_back(brick, now_ns());
        if was_down {
            self.down.fetch_sub(1, Ordering::Relaxed);
            self.fail_waiting();
        }
    }

    pub fn disconnected(&self, brick: usize, why: &Failure) {
        let now = now_ns();
        let mut state = locked(&self.state);
        if state.live.iter().sum::<usize>() == state.live[brick].min(1) {
            state.live_at_ns = now;
        }
        state.live[brick] = state.live[brick].saturating_sub(1);
        state.lost[brick] += 1;
        state.last_failure.clone_from(&why.text);
        let is_gone = state.live[brick] == 0;
        drop(state);
        if is_gone {
            self.tally().is_away(brick, now);
        }
    }

    /// A database with no connection that could not be connected to is down, until somebody can.
    pub fn not_connected(&self, brick: usize, why: &Failure) {
        let mut state = locked(&self.state);
        state.last_failure.clone_from(&why.text);
        if state.live[brick] > 0 {
            return;
        }
        let is_news = state.down[brick].replace(why.clone()).is_none();
        drop(state);
        if is_news {
            self.tally().is_away(brick, now_ns());
            self.down.fetch_add(1, Ordering::Relaxed);
            self.fail_waiting();
        }
    }

    pub fn live_at(&self, now_ns: u64) {
        locked(&self.state).live_at_ns = now_ns;
    }

    /// For how long no database has had a connection.
    pub fn dead_for_ns(&self, now_ns: u64) -> u64 {
        let mut state = locked(&self.state);
        if state.live.iter().any(|l| *l > 0) {
            state.live_at_ns = now_ns;
        }
        now_ns.saturating_sub(state.live_at_ns)
    }

    pub fn last_failure(&self) -> String {
        locked(&self.state).last_failure.clone()
    }

    pub fn starved(&self, ns: u64) {
        locked(&self.state).starved_ns += ns;
    }

    pub fn starved_ns(&self) -> u64 {
        locked(&self.state).starved_ns
    }

    pub fn unsent(&self) -> Vec<u64> {
        locked(&self.state).unsent.clone()
    }

    pub fn lost(&self) -> Vec<u64> {
        locked(&self.state).lost.clone()
    }

    pub fn reconnects(&self) -> Vec<u64> {
        locked(&self.state).reconnects.clone()
    }

    pub fn diverged_pages(&self, by_stream: &BTreeMap<usize, u64>) -> BTreeMap<String, u64> {
        let mut pages = BTreeMap::new();
        for (stream, count) in by_stream {
            let page = &self.mapping.pages[stream / self.bricks.len()];
            *pages.entry(page.clone()).or_default() += count;
        }
        pages
    }

    pub fn tell(&self, event: Event) {
        if let Some(out) = &*locked(&self.out) {
            // Nobody listens any more only when the run was abandoned.
            let _ = out.send(Told::Event(event));
        }
    }

    pub fn tell_end(&self, end_ns: u64, outcome: RunOutcome, message: Option<EndReason>) {
        self.tell(Event::End { end_ns, outcome, message });
        *locked(&self.out) = None;
    }

    /// What the logs held; the last word replaces one before.
    pub fn put_document(&self, document: Document, is_last: bool) {
        let mut kept = locked(&self.document);
        if !kept.is_last {
            *kept = Known { document: Some(document), is_last };
        }
        drop(kept);
        self.document_is_here.notify_all();
    }

    /// Why the logs could not be read to their end, which fails the run.
    pub fn log_trouble(&self, why: String) {
        *locked(&self.log_trouble) = Some(why);
    }

    pub fn take_log_trouble(&self) -> Option<String> {
        locked(&self.log_trouble).take()
    }

    /// What the logs held; the reader says so when it has ended, which it does soon when nobody takes its calls.
    pub fn take_document(&self, patience: Duration) -> Option<Document> {
        let waited = self.document_is_here.wait_timeout_while(locked(&self.document), patience, |known| !known.is_last);
        waited.unwrap_or_else(PoisonError::into_inner).0.document.take()
    }
}

/// What the logs held, as far as is known.
#[derive(Default)]
struct Known {
    document: Option<Document>,
    is_last: bool,
}
