//! One session: takes a call when one is due, sends it, waits for its last byte, and connects again when it must.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
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
    let mut free_ns = now_ns();
    loop {
        // A connection that was lost is mended before a call is taken, so that other sessions can have it.
        let open = match &mut session {
            Some(open) => open,
            None => {
                let made = connect_again(&shared, brick).await;
                free_ns = now_ns();
                session.insert(made)
            }
        };
        let Some(job) = take_or_lose(&shared, brick, open).await else { return };
        let Ok(job) = job else {
            let text = "the connection was closed while it was idle".into();
            shared.disconnected(brick, &Failure { sqlstate: Failure::LOST.into(), text });
            session = None;
            continue;
        };
        if let Some(failure) = carry(&shared, open, job, free_ns).await
            && open.is_lost()
        {
            shared.disconnected(brick, &failure);
            session = None;
        }
        free_ns = now_ns();
    }
}

/// The next call, or the word that the connection was lost while it was idle; None when there will be no more.
async fn take_or_lose<D: Database>(
    shared: &Shared<D>,
    brick: usize,
    session: &mut D::Session,
) -> Option<Result<Job, Lost>> {
    let mut taking = pin!(shared.take(brick));
    let mut idle = pin!(session.idle());
    poll_fn(|cx| match taking.as_mut().poll(cx) {
        Poll::Ready(job) => Poll::Ready(job.map(Ok)),
        Poll::Pending => idle.as_mut().poll(cx).map(|()| Some(Err(Lost))),
    })
    .await
}

struct Lost;

/// One session of a database after the other, and as long as it takes. What happens to its calls meanwhile is decided
/// where they wait: none is held here.
async fn connect_again<D: Database>(shared: &Shared<D>, brick: usize) -> D::Session {
    let _turn = shared.turn_to_connect(brick).await;
    let mut pause = PAUSE_FIRST;
    loop {
        match shared.database.connect(brick).await {
            Ok(made) => {
                shared.connected(brick, true);
                return made;
            }
            Err(failure) => shared.not_connected(brick, &failure),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
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
