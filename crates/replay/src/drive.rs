//! Duty: conducts one driver: one thread, some sessions, calls when they are due, until the log is at its end.
//! Refusal: no call is skipped to keep a pace; what could not be sent is counted.

mod dispatch;
mod shared;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::clock::{Timer, now_ns, process_cpu, thread_cpu};
use crate::counts::Document;
use crate::database::{Database, Failure};
use crate::event::{
    Bound, Cpu, EndReason, Event, Measure, PhaseEnd, PhaseReason, ReplayDriver, ReplayEnd, RunOutcome, interval,
};
use crate::feed::{Feed, probe};
use crate::mapping::Mapping;
use crate::postgres::{Dsn, Postgres, ServerFacts};
use crate::spec::{Pace, Spec};
use crate::tally::{Tally, Told};
use shared::Shared;

/// How often the conductor looks after its sessions; Ctrl-C acts within 200 ms.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A driver that adds more than this to one call in a hundred does not keep its pace: a hundredth of the second to
/// which logs are stamped.
const LAG_P99_MAX_NS: u64 = 10_000_000;
/// Whole share of a core: the driver itself is the limit.
const BOUND_CPU_SHARE: f64 = 0.97;
/// Sessions that wait for the log for a tenth of the time: reading it is the limit.
const BOUND_STARVED_SHARE: f64 = 0.1;
/// How long the reader of a log may take to notice that nobody takes its calls.
const DOCUMENT_WAIT: Duration = Duration::from_millis(500);
/// CPU time is counted in ticks of up to 10 ms; a shorter run says nothing of it.
const BOUND_JUDGED_NS: u64 = 100_000_000;

pub const RUN: u8 = 0;
pub const DRAIN: u8 = 1;
pub const ABANDON: u8 = 2;

/// Ctrl-C and its like.
#[derive(Default)]
pub struct Control(AtomicU8);

impl Control {
    pub fn stop(&self) {
        self.0.fetch_max(DRAIN, Ordering::Relaxed);
    }

    pub fn abandon(&self) {
        self.0.fetch_max(ABANDON, Ordering::Relaxed);
    }

    pub fn state(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a driver can't begin; what is bad input is the user's to mend.
#[derive(Debug)]
pub struct Refusal {
    pub bad_input: bool,
    pub message: String,
}

impl Refusal {
    fn input(message: impl Into<String>) -> Refusal {
        Refusal { bad_input: true, message: message.into() }
    }
}

/// The sessions of one database, or why it could not be reached while others could.
type Opened = Result<Vec<<Postgres as Database>::Session>, Failure>;

/// A driver with its sessions open, waiting for the word.
pub struct Driver {
    spec: Spec,
    pace: Pace,
    mapping: Arc<Mapping>,
    feed: Feed,
    runtime: tokio::runtime::Runtime,
    database: Arc<Postgres>,
    sessions: Vec<Opened>,
    pub facts: Vec<Result<ServerFacts, Failure>>,
    pub first_ns: Option<i64>,
}

impl Driver {
    /// Reads everything, connects everything; whatever can refuse the run does so here.
    pub fn prepare(spec: Spec) -> Result<Driver, Refusal> {
        spec.check().map_err(Refusal::input)?;
        let pace = spec.pace().map_err(Refusal::input)?;
        let options = spec.feed_options().map_err(Refusal::input)?;
        if spec.to.is_empty() {
            return Err(Refusal::input("no database is named; give one with --to postgresql://USER@HOST/DATABASE"));
        }
        let mapping = Mapping::from_toml(&spec.mapping, spec.to.len());
        let mapping = Arc::new(mapping.map_err(|e| Refusal::input(format!("mapping: {e}")))?);
        let parse = |(number, text): (usize, &String)| {
            Dsn::parse(text).map_err(|e| Refusal::input(format!("--to, database {number}: {e}")))
        };
        let dsns = spec.to.iter().enumerate().map(parse).collect::<Result<Vec<_>, Refusal>>()?;
        let found = probe(&options).map_err(Refusal::input)?;
        let mut feed = Feed::open(mapping.clone(), options, false).map_err(Refusal::input)?;
        feed.sort(&|| false).map_err(Refusal::input)?;
        let database = Arc::new(Postgres::new(dsns, mapping.statements.clone()).map_err(Refusal::input)?);
        let failed = |message: String| Refusal { bad_input: false, message };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| failed(format!("no driver could be started: {e}")))?;
        let bricks = spec.to.len();
        let (facts, sessions) = runtime.block_on(async {
            let mut facts = Vec::new();
            for brick in 0..bricks {
                facts.push(database.facts(brick).await);
            }
            (facts, open_sessions(&database, &spec).await)
        });
        let sessions = sessions.map_err(|(brick, failure)| {
            let shown = database.shown(brick);
            Refusal::input(format!("{shown}: {}", refused(&failure)))
        })?;
        if let Some(Err(failure)) = sessions.first()
            && sessions.iter().all(Result::is_err)
        {
            return Err(Refusal::input(format!("{}: {}", database.shown(0), refused(failure))));
        }
        Ok(Driver { spec, pace, mapping, feed, runtime, database, sessions, facts, first_ns: found.first_ns })
    }

    pub fn pages(&self) -> &[String] {
        &self.mapping.pages
    }

    /// Drives until the end. Events go to `emit`; times are ns since `start_ns`.
    pub fn run(self, start_ns: u64, control: &Control, emit: &mut dyn FnMut(Event)) {
        let Driver { spec, pace, mapping, feed, runtime, database, sessions, first_ns, .. } = self;
        let (send, receive) = channel();
        let is_open_loop = !matches!(pace, Pace::FireHose);
        let tally = Tally::new(mapping.pages.len(), spec.to.len(), is_open_loop, spec.interval_ns, send);
        let shared =
            Arc::new(Shared::new(database, mapping.clone(), tally, spec.to.len(), is_open_loop, spec.in_order));
        let pace = match pace {
            Pace::TimeSynchronized { speed, origin_ns } => {
                let from_ns = spec.feed_options().ok().and_then(|o| o.from_ns);
                let origin_ns = origin_ns.or(first_ns.map(|first| first.max(from_ns.unwrap_or(i64::MIN))));
                Pace::TimeSynchronized { speed, origin_ns }
            }
            other => other,
        };
        std::thread::scope(|scope| {
            let theirs = shared.clone();
            let conducting =
                std::thread::Builder::new().name("brickyard-driver".into()).spawn_scoped(scope, move || {
                    runtime.block_on(conduct(&spec, pace, feed, theirs, sessions, start_ns, control));
                    // Sessions that were abandoned hang in the kernel or at the server; nothing waits for them.
                    runtime.shutdown_background();
                });
            let conducting = match conducting {
                Ok(thread) => thread,
                Err(error) => {
                    let message = Some(EndReason::NoThread { error: error.to_string() });
                    return emit(Event::End { end_ns: 0, outcome: RunOutcome::Failed, message });
                }
            };
            while let Ok(told) = receive.recv() {
                match told {
                    Told::Interval(closed) => emit(Event::Interval(Box::new(interval(&closed)))),
                    Told::Event(event) => {
                        let is_end = matches!(event, Event::End { .. });
                        emit(event);
                        if is_end {
                            break;
                        }
                    }
                }
            }
            if conducting.join().is_err() {
                let message = Some(EndReason::DriverStopped);
                emit(Event::End { end_ns: 0, outcome: RunOutcome::Failed, message });
            }
        });
    }
}

/// Opens all sessions. A database that can't be reached is left out while another can; any other refusal is final.
async fn open_sessions(database: &Arc<Postgres>, spec: &Spec) -> Result<Vec<Opened>, (usize, Failure)> {
    let (mut all, bricks) = (Vec::new(), spec.to.len());
    for brick in 0..bricks {
        let mut sessions = Vec::new();
        let mut unreachable = None;
        while unreachable.is_none() && sessions.len() < spec.sessions_of(brick) {
            match database.connect(brick).await {
                Ok(session) => sessions.push(session),
                Err(failure) if sessions.is_empty() && bricks > 1 && is_unreachable(&failure) => {
                    unreachable = Some(failure);
                }
                Err(failure) => return Err((brick, failure)),
            }
        }
        all.push(unreachable.map_or(Ok(sessions), Err));
    }
    Ok(all)
}

/// No server answers, or one that is starting up or going down does (class 57P).
fn is_unreachable(failure: &Failure) -> bool {
    failure.sqlstate == Failure::UNREACHABLE || failure.sqlstate.starts_with("57P")
}

fn refused(failure: &Failure) -> String {
    let remedy = match failure.sqlstate.as_str() {
        Failure::UNREACHABLE => "check that the server runs and takes connections there",
        "28P01" | "28000" => "give the password in PGPASSWORD or the password file",
        "53300" => "lower --sessions or --drivers, or raise max_connections",
        "42P01" | "42883" | "42703" | "3F000" => "the mapping's sql speaks of what this database does not have",
        "3D000" => "name another database",
        _ => "check the mapping's sql and the connection string",
    };
    format!("{} ({}); {remedy}", failure.text, failure.sqlstate)
}

/// Runs on the driver's own thread until all is done.
async fn conduct(
    spec: &Spec,
    pace: Pace,
    feed: Feed,
    shared: Arc<Shared<Postgres>>,
    sessions: Vec<Opened>,
    start_ns: u64,
    control: &Control,
) {
    let timer = Timer::new();
    let Ok(timer) = timer else {
        let message = EndReason::other("no timer could be made; too many files are open");
        return shared.tell_end(0, RunOutcome::Failed, message);
    };
    let _ = timer.until(start_ns).await;
    let (cpu, thread) = (process_cpu(), thread_cpu());
    let unreachable = (0..sessions.len()).filter(|brick| sessions[*brick].is_err()).collect::<Vec<_>>();
    shared.tally().begin(start_ns, &unreachable);
    shared.live_at(now_ns());
    for (brick, opened) in sessions.into_iter().enumerate() {
        let sessions = opened.unwrap_or_else(|failure| {
            shared.not_connected(brick, &failure);
            Vec::new()
        });
        let missing = spec.sessions_of(brick) - sessions.len();
        for session in sessions.into_iter().map(Some).chain((0..missing).map(|_| None)) {
            if session.is_some() {
                shared.connected(brick, false);
            }
            tokio::spawn(work::work(shared.clone(), brick, session));
        }
    }
    let dispatching = dispatch::Dispatch::new(spec, pace, feed, shared.clone(), timer, start_ns);
    let dispatcher = tokio::spawn(dispatching.run());
    let (reason, outcome, message) = look_after(spec, &shared, &dispatcher, start_ns, control).await;
    dispatcher.abort();
    // An aborted task is dropped when the runtime's only thread comes to it; before, the reader of the log waits for it.
    tokio::task::yield_now().await;
    shared.close();
    let abandoned = control.state() == ABANDON;
    let end = End { spec, reason, outcome, message, abandoned, start_ns, cpu, thread };
    end.tell(&shared);
}

/// Waits for the end, and says why it came.
async fn look_after(
    spec: &Spec,
    shared: &Shared<Postgres>,
    dispatcher: &tokio::task::JoinHandle<()>,
    start_ns: u64,
    control: &Control,
) -> (PhaseReason, RunOutcome, Option<EndReason>) {
    let mut ending: Option<(PhaseReason, RunOutcome, Option<EndReason>)> = None;
    let until_ns = spec.duration_ns.map_or(u64::MAX, |d| start_ns.saturating_add(d));
    loop {
        let now = now_ns();
        let boundary_ns = shared.tally().boundary_ns();
        let wait = LOOK_EVERY.min(Duration::from_nanos(boundary_ns.saturating_sub(now)).max(Duration::from_millis(1)));
        tokio::time::sleep(wait).await;
        let now = now_ns();
        shared.tally().tick(now);
        match control.state() {
            ABANDON => return (PhaseReason::Interrupted, RunOutcome::Interrupted, None),
            DRAIN => _ = ending.get_or_insert((PhaseReason::Interrupted, RunOutcome::Interrupted, None)),
            _ if now >= until_ns => _ = ending.get_or_insert((PhaseReason::Duration, RunOutcome::Done, None)),
            _ => {}
        }
        let is_dead = shared.dead_for_ns(now) > spec.patience_ns;
        if is_dead && ending.is_none() {
            let reason = EndReason::NoDatabase { patience_ns: spec.patience_ns, error: shared.last_failure() };
            return (PhaseReason::Lost, RunOutcome::Failed, Some(reason));
        }
        if ending.is_some() && !dispatcher.is_finished() {
            dispatcher.abort();
        }
        if ending.is_some() {
            shared.drop_waiting();
        }
        let all_issued = (dispatcher.is_finished() || ending.is_some()) && shared.waiting() == 0;
        // In an open loop the log says when a database has nothing to do.
        if dispatcher.is_finished() && !shared.is_open_loop {
            shared.note_served();
        }
        if all_issued {
            shared.tally().issuing_ended = true;
        }
        if all_issued && shared.tally().in_flight_all == 0 {
            let done = (PhaseReason::EndOfLog, RunOutcome::Done, None);
            let lost = |why: String| (PhaseReason::Lost, RunOutcome::Failed, EndReason::other(why));
            let at_end = shared.take_log_trouble().map_or(done, lost);
            return ending.unwrap_or(at_end);
        }
    }
}

/// A document in the form in which an event holds it.
fn as_map(document: &Document) -> Option<serde_json::Map<String, serde_json::Value>> {
    serde_json::to_value(document).ok()?.as_object().cloned()
}

struct End<'e> {
    spec: &'e Spec,
    reason: PhaseReason,
    outcome: RunOutcome,
    message: Option<EndReason>,
    abandoned: bool,
    start_ns: u64,
    cpu: crate::clock::CpuTime,
    thread: crate::clock::CpuTime,
}

impl End<'_> {
    fn tell(self, shared: &Shared<Postgres>) {
        let now = now_ns();
        let (cpu, thread) = (process_cpu().since(self.cpu), thread_cpu().since(self.thread));
        let mut tally = shared.tally();
        let last_ns = if self.abandoned || tally.in_flight_all > 0 { now } else { tally.last_end_ns };
        let duration_end = self.spec.duration_ns.map_or(u64::MAX, |d| self.start_ns.saturating_add(d));
        // A run that ended by time has lasted that long even when its last call came back before.
        let end_ns = if self.reason == PhaseReason::Duration { last_ns.max(duration_end).min(now) } else { last_ns };
        tally.finish(end_ns);
        let length_ns = end_ns.saturating_sub(self.start_ns).max(1);
        let cpu_busy_share = ((thread.user_ns + thread.system_ns) as f64 / length_ns as f64).min(1.0);
        let starved_share = (shared.starved_ns() as f64 / length_ns as f64).min(1.0);
        let judged = length_ns >= BOUND_JUDGED_NS;
        let bound = match () {
            () if !judged => Bound::No,
            () if cpu_busy_share > BOUND_CPU_SHARE => Bound::Cpu,
            () if starved_share > BOUND_STARVED_SHARE => Bound::Own,
            () => Bound::No,
        };
        let lag = (!tally.driver_lag.is_empty()).then(|| Measure::of(&tally.driver_lag));
        let unsent_by_brick = shared.unsent();
        // Whoever interrupts a run does not wait for the rest of the log.
        let by_time = self.reason == PhaseReason::Duration;
        let patience = DOCUMENT_WAIT + if by_time { shared::READ_ON } else { Duration::ZERO };
        let diverged_pages = shared.diverged_pages(&tally.sums.diverged_by_stream);
        let driver = ReplayDriver {
            driver: self.spec.driver,
            calls: tally.sums.calls,
            errors: tally.sums.errors,
            rows: tally.sums.rows,
            bytes: tally.sums.bytes,
            diverged: tally.sums.diverged_by_stream.values().sum(),
            lost_connections: shared.lost(),
            reconnects: shared.reconnects(),
            away_ns: Some(tally.absence.away_ns()),
            served_ns: Some(tally.absence.served_ns()),
            any_served_ns: Some(tally.absence.any_served_ns()),
            unsent_by_brick: unsent_by_brick.clone(),
            queued: tally.sums.queued,
            keeps_pace: lag.as_ref().is_none_or(|m| m.p99_ns <= LAG_P99_MAX_NS),
            driver_lag: lag,
            starved_share,
            cpu_busy_share,
            slowest_calls: tally.sums.slowest.clone(),
            diverged_pages,
            logs: shared.take_document(patience).as_ref().and_then(as_map),
        };
        let end = PhaseEnd {
            phase: 0,
            end_ns: end_ns - self.start_ns,
            reason: self.reason,
            unsent: unsent_by_brick.iter().sum(),
            unsent_by_stream: Vec::new(),
            ended_by_stream: Vec::new(),
            outstanding: tally.in_flight_all,
            errors_by_errno: tally.sums.errors_by_state.clone(),
            errors_by_kind: Default::default(),
            slowest: Vec::new(),
            verified: None,
            cpu: Cpu { user_ns: cpu.user_ns, system_ns: cpu.system_ns },
            generator_bound: bound != Bound::No,
            generator_bound_reason: bound,
            loops: 1,
            features: Vec::new(),
            loop_busy_share: (thread.user_ns as f64 / length_ns as f64).min(1.0),
            loop_cpu_share: Some((thread.user_ns as f64 / length_ns as f64).min(1.0)),
            cpu_wait_share: None,
            depth: None,
            frames: Vec::new(),
            pgbench: None,
            replay: Some(Box::new(ReplayEnd { drivers: vec![driver], by_stream: Vec::new() })),
            server_files: Vec::new(),
        };
        drop(tally);
        shared.tell(Event::PhaseEnd(Box::new(end)));
        shared.tell_end(end_ns - self.start_ns, self.outcome, self.message);
    }
}
