//! One session: takes a call when one is due, sends it, waits for its last byte, and connects again when it must.

use std::sync::Arc;
use std::time::Duration;

use super::shared::{Job, Shared};
use crate::clock::now_ns;
use crate::database::{Database, Failure, Session};
use crate::tally::Times;

/// Between two attempts to connect; doubled up to the second.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

pub async fn work<D: Database>(shared: Arc<Shared<D>>, brick: usize, session: Option<D::Session>) {
    let mut session = session;
    let mut pause = PAUSE_FIRST;
    if session.is_some() {
        shared.connected(brick, false);
    }
    let mut free_ns = now_ns();
    loop {
        // A connection that was lost is mended before a call is taken, so that calls wait and do not fail.
        if session.is_none() {
            match shared.database.connect(brick).await {
                Ok(made) => {
                    shared.connected(brick, true);
                    session = Some(made);
                    pause = PAUSE_FIRST;
                    free_ns = now_ns();
                }
                Err(failure) => {
                    shared.not_connected(&failure);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                    if !fail_one(&shared, brick, &failure).await {
                        return;
                    }
                    continue;
                }
            }
        }
        let Some(job) = shared.take(brick).await else { return };
        let Some(open) = session.as_mut() else { continue };
        if let Some(failure) = carry(&shared, open, job, free_ns).await
            && open.is_lost()
        {
            shared.disconnected(brick, &failure);
            session = None;
        }
        free_ns = now_ns();
    }
}

/// Sends one call; gives back how it failed, where it did.
async fn carry<D: Database>(shared: &Shared<D>, session: &mut D::Session, job: Job, free_ns: u64) -> Option<Failure> {
    let Job { call, due_ns, ready_ns } = job;
    let stream = shared.tally().stream(shared.mapping.page_of(call.call), call.brick);
    let submitted_ns = now_ns();
    shared.tally().submitted(stream, submitted_ns);
    let result = session.call(usize::from(call.call), &call.values).await;
    let ended_ns = now_ns();
    let failure = match result {
        Ok(answer) => {
            let due_ns = if due_ns == 0 { submitted_ns } else { due_ns };
            let ready_ns = if due_ns == submitted_ns { submitted_ns } else { ready_ns.max(free_ns) };
            let times = Times { due_ns, ready_ns, submitted_ns, ended_ns };
            shared.tally().succeeded(stream, times, answer, &call);
            None
        }
        Err(failure) => {
            shared.tally().failed(stream, ended_ns, &failure);
            Some(failure)
        }
    };
    shared.session_goes_on(call.session, ended_ns);
    failure
}

/// In an open loop a call that is due fails when its database can't be reached, as the page would have; a fire hose
/// waits. False when there is nothing more to do.
async fn fail_one<D: Database>(shared: &Shared<D>, brick: usize, failure: &Failure) -> bool {
    if !shared.is_open_loop || shared.queue_length(brick) == 0 {
        return !shared.is_closed();
    }
    let Some(Job { call, .. }) = shared.take(brick).await else { return false };
    let mut tally = shared.tally();
    let stream = tally.stream(shared.mapping.page_of(call.call), call.brick);
    let now = now_ns();
    tally.submitted(stream, now);
    tally.failed(stream, now, failure);
    drop(tally);
    shared.session_goes_on(call.session, now);
    true
}
