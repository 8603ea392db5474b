//! What the sessions of a driver have in common: queues of calls that are due, the tally, what is lost and found.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::now_ns;
use crate::counts::Document;
use crate::database::Failure;
use crate::event::Event;
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
}

#[derive(Default)]
struct State {
    /// Sessions that have a connection, by brick.
    live: Vec<usize>,
    lost: Vec<u64>,
    reconnects: Vec<u64>,
    unsent: Vec<u64>,
    live_at_ns: u64,
    dispatched_ns: u64,
    starved_ns: u64,
    last_failure: String,
    is_closed: bool,
    /// Calls of a session that wait for the one before them.
    sessions: HashMap<u64, VecDeque<Job>>,
}

pub struct Shared<D> {
    pub database: std::sync::Arc<D>,
    pub mapping: std::sync::Arc<Mapping>,
    pub is_open_loop: bool,
    in_order: bool,
    bricks: Vec<Brick>,
    /// Somebody took a call: there is room.
    pub room: Notify,
    tally: Mutex<Tally>,
    out: Mutex<Option<Sender<Told>>>,
    state: Mutex<State>,
    document: Mutex<Option<Document>>,
    document_is_here: Condvar,
}

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
            out: Mutex::new(Some(tally.sender())),
            tally: Mutex::new(tally),
            state: Mutex::new(state),
            document: Mutex::new(None),
            document_is_here: Condvar::new(),
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
                return before.push_back(job);
            }
            state.sessions.insert(job.call.session, VecDeque::new());
        }
        let brick = &self.bricks[usize::from(job.call.brick)];
        locked(&brick.queue).push_back(job);
        brick.work.notify_one();
    }

    /// The call of a session has ended: its next one may go.
    pub fn session_goes_on(&self, session: u64, now_ns: u64) {
        if !self.in_order {
            return;
        }
        let mut state = locked(&self.state);
        let Some(waiting) = state.sessions.get_mut(&session) else { return };
        let Some(mut job) = waiting.pop_front() else {
            state.sessions.remove(&session);
            return;
        };
        drop(state);
        job.ready_ns = job.ready_ns.max(now_ns);
        let brick = &self.bricks[usize::from(job.call.brick)];
        // It has waited longest.
        locked(&brick.queue).push_front(job);
        brick.work.notify_one();
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

    pub fn is_closed(&self) -> bool {
        locked(&self.state).is_closed
    }

    pub fn queue_length(&self, brick: usize) -> usize {
        locked(&self.bricks[brick].queue).len()
    }

    pub fn bricks(&self) -> usize {
        self.bricks.len()
    }

    pub fn waiting(&self) -> usize {
        let held: usize =
            if self.in_order { locked(&self.state).sessions.values().map(VecDeque::len).sum() } else { 0 };
        held + (0..self.bricks.len()).map(|b| self.queue_length(b)).sum::<usize>()
    }

    /// Whether all that waits does so for databases without a single connection.
    pub fn is_waiting_for_the_dead(&self) -> bool {
        let live = locked(&self.state).live.clone();
        (0..self.bricks.len()).all(|b| live[b] == 0 || self.queue_length(b) == 0)
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
        for job in held.into_iter().filter(|_| self.is_open_loop) {
            state.unsent[usize::from(job.call.brick)] += 1;
        }
    }

    pub fn connected(&self, brick: usize, is_again: bool) {
        let mut state = locked(&self.state);
        state.live[brick] += 1;
        state.reconnects[brick] += u64::from(is_again);
    }

    pub fn disconnected(&self, brick: usize, why: &Failure) {
        let mut state = locked(&self.state);
        if state.live.iter().sum::<usize>() == state.live[brick].min(1) {
            state.live_at_ns = now_ns();
        }
        state.live[brick] = state.live[brick].saturating_sub(1);
        state.lost[brick] += 1;
        state.last_failure.clone_from(&why.text);
    }

    pub fn not_connected(&self, why: &Failure) {
        locked(&self.state).last_failure.clone_from(&why.text);
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

    pub fn dispatched(&self, now_ns: u64) {
        locked(&self.state).dispatched_ns = now_ns;
    }

    pub fn dispatched_at(&self) -> u64 {
        locked(&self.state).dispatched_ns
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

    pub fn tell_end(&self, end_ns: u64, outcome: &'static str, message: String) {
        self.tell(Event::End { end_ns, outcome, message });
        *locked(&self.out) = None;
    }

    pub fn put_document(&self, document: Document) {
        locked(&self.document).get_or_insert(document);
        self.document_is_here.notify_all();
    }

    /// What the logs held; the reader says so when it has ended, which it does at once when nobody takes its calls.
    pub fn take_document(&self) -> Option<Document> {
        let waited =
            self.document_is_here
                .wait_timeout_while(locked(&self.document), Duration::from_millis(500), |d| d.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}
