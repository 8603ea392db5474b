//! Hands calls to the sessions when they are due; reads the logs in a thread of its own.

use std::sync::Arc;

use pace::{LogTimed, Schedule};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::shared::{Job, READ_ON, READY, Shared, WAITING_MAX};
use crate::clock::{Timer, now_ns};
use crate::database::Database;
use crate::feed::Feed;
use crate::mapping::Call;
use crate::spec::{Pace, Spec};
use crate::time::SECOND_NS;

/// Calls that go from the reader to the driver together.
const BATCH: usize = 512;
/// Batches that the reader is ahead: some thousand calls, so that it and the driver do not wait for each other.
const BATCHES_AHEAD: usize = 8;

/// How far a fire hose looks ahead for calls of other sessions, where each keeps its order.
const HELD_MAX: usize = 10_000;

pub struct Dispatch<D> {
    batches: Receiver<Vec<Call>>,
    when: When,
    shared: Arc<Shared<D>>,
    timer: Timer,
    until_ns: u64,
    /// How many calls the log has had, and how many when it last had one for each database.
    calls: u64,
    last_call: Vec<u64>,
}

enum When {
    TakenAtOnce,
    Log { speed: pace::Speed, origin_ns: Option<i64>, start_ns: u64, timed: Option<LogTimed> },
    Rate(Box<Schedule>),
}

impl<D: Database> Dispatch<D> {
    pub fn new(spec: &Spec, pace: Pace, feed: Feed, shared: Arc<Shared<D>>, timer: Timer, start_ns: u64) -> Self {
        let (send, batches) = channel(BATCHES_AHEAD);
        let reading = shared.clone();
        let again = spec.again;
        let started = std::thread::Builder::new().name("brickyard-log".into());
        // Without its reader the channel is closed, and the run ends without a call.
        let _ = started.spawn(move || read(feed, again, &reading, &send));
        let when = match pace {
            Pace::FireHose => When::TakenAtOnce,
            Pace::TimeSynchronized { speed, origin_ns } => When::Log { speed, origin_ns, start_ns, timed: None },
            Pace::Rate { rate_per_s, arrivals } => When::Rate(Box::new(Schedule::new(
                rate_per_s,
                arrivals,
                spec.driver,
                spec.drivers,
                start_ns,
                spec.seed,
            ))),
        };
        let until_ns = spec.duration_ns.map_or(u64::MAX, |d| start_ns.saturating_add(d));
        let last_call = vec![0; shared.bricks()];
        Dispatch { batches, when, shared, timer, until_ns, calls: 0, last_call }
    }

    pub async fn run(mut self) {
        let is_closed_loop = matches!(self.when, When::TakenAtOnce);
        'log: loop {
            let asked_ns = now_ns();
            let is_hungry = is_closed_loop && self.shared.waiting() == 0;
            let Some(batch) = self.batches.recv().await else { break };
            if is_hungry {
                self.shared.starved(now_ns() - asked_ns);
            }
            for call in batch {
                let due_ns = self.when.due_ns(&call);
                if due_ns >= self.until_ns {
                    // Log and schedule only go forward: nothing more is due in time.
                    self.timer_until(self.until_ns).await;
                    break 'log;
                }
                self.timer_until(due_ns).await;
                self.calls += 1;
                self.last_call[usize::from(call.brick)] = self.calls;
                self.room_for(usize::from(call.brick), is_closed_loop).await;
                if self.shared.queue_length(usize::from(call.brick)) >= WAITING_MAX {
                    self.shared.unsent_one(usize::from(call.brick));
                    continue;
                }
                self.shared.push(Job { call, due_ns, ready_ns: due_ns });
            }
            // Calls of a database that is down fail without a wait: the sessions of the others get their turn.
            tokio::task::yield_now().await;
        }
    }

    async fn timer_until(&self, at_ns: u64) {
        if at_ns > now_ns() {
            // A timer that fails would fail for every call: the call is then late, and told as late.
            let _ = self.timer.until(at_ns).await;
        }
    }

    /// Waits while every database has enough. A slow one among several fills its queue and is passed by.
    async fn room_for(&self, brick: usize, is_closed_loop: bool) {
        let enough = if is_closed_loop { READY } else { WAITING_MAX };
        let held_max = enough.max(HELD_MAX);
        loop {
            let is_full = self.shared.queue_length(brick) >= enough
                && (0..self.shared.bricks()).all(|b| self.shared.queue_length(b) > enough / 2 || !self.could_have(b));
            if !is_full && self.shared.held() < held_max {
                return;
            }
            self.shared.room.notified().await;
        }
    }

    /// Whether reading on may give a database something to do: not while it is down, nor where the log has had nothing
    /// for it in a long while.
    fn could_have(&self, brick: usize) -> bool {
        self.calls - self.last_call[brick] < WAITING_MAX as u64 / 2 && !self.shared.is_down(brick)
    }
}

impl When {
    fn due_ns(&mut self, call: &Call) -> u64 {
        match self {
            When::TakenAtOnce => 0,
            When::Log { speed, origin_ns, start_ns, timed } => {
                // Without a known beginning the first call's second is it.
                let origin_ns = origin_ns.unwrap_or(call.at_ns.div_euclid(SECOND_NS) * SECOND_NS);
                timed.get_or_insert_with(|| LogTimed::new(origin_ns, *start_ns, *speed)).due_ns(call.at_ns)
            }
            When::Rate(schedule) => {
                let due_ns = schedule.due_ns();
                schedule.advance();
                due_ns
            }
        }
    }
}

/// What is left of a log after the run: whether it holds requests that belong before its end. Files were looked at
/// beforehand; standard input can be read only now.
fn read_on<D>(mut feed: Feed, shared: &Shared<D>) {
    feed.counts.at_end = feed.is_at_end();
    let is_looked_at = !feed.has_stdin() || feed.counts.at_end;
    shared.put_document(feed.counts.document(&shared.mapping), is_looked_at);
    if !is_looked_at {
        let until_ns = now_ns().saturating_add(READ_ON.as_nanos() as u64);
        feed.read_on(&|| now_ns() < until_ns);
        shared.put_document(feed.counts.document(&shared.mapping), true);
    }
}

/// Reads until the end, or until nobody takes the calls any more.
fn read<D>(mut feed: Feed, again: bool, shared: &Shared<D>, send: &Sender<Vec<Call>>) {
    loop {
        let mut calls = Vec::new();
        let mut given = 0u64;
        while feed.next(&mut calls) {
            given += calls.len() as u64;
            let mut rest = std::mem::take(&mut calls).into_iter();
            loop {
                let batch: Vec<Call> = rest.by_ref().take(BATCH).collect();
                if batch.is_empty() {
                    break;
                }
                if send.blocking_send(batch).is_err() {
                    return read_on(feed, shared);
                }
            }
        }
        feed.counts.at_end = feed.is_at_end();
        shared.put_document(feed.counts.document(&shared.mapping), true);
        if let Some(trouble) = feed.trouble.take() {
            shared.log_trouble(trouble);
        } else if again
            && given > 0
            && let Ok(next) = feed.again()
        {
            feed = next;
            continue;
        }
        return;
    }
}
