//! Conducts a run: phases in order, loops in their threads, intervals merged as they arrive, rules applied, events out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use plan::Profile;
use record::CellSet;

use crate::control::{Control, Knobs, State};
use crate::device::{Blocked, Device, Devices, Setup, Submissions};
use crate::event::{
    Bound, Cpu, EndReason, ErrorEvent, Event, FailedStream, FramesEnd, PhaseEnd, PhaseReason, RunOutcome, SlowEvent,
    StreamEnd, StreamUnsent, depth_reached, errno_name, interval,
};
use crate::lane::LaneSpec;
use crate::measuring::{Loop, LoopSpec, Outcome, Report, Sink, cells_of, needs};
use crate::note::{FailureCounts, Note};
use crate::program::{NoPrograms, Programs};
use crate::ramp::SHORT_SHARE;
use crate::referee::{Decision, Merged, Reason, Referee};
use crate::scheduled::{Bounds, Scheduled};
use crate::slowest::Slowest;
use crate::streams::{TargetArea, Verifiers, build_lanes};
use crate::timeline::Timeline;

/// An interval is told this long after its end even if a loop has not reported, which then follows in one of its own.
const PATIENCE_NS: u64 = 150_000_000;
/// How often a conductor looks after its loops when nothing is reported.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Loops begin together, this long after the last of them is ready.
const START_DELAY_NS: u64 = 1_000_000;
/// Failures that a run describes one by one.
const FAILURES_TOLD: usize = 1_000;

/// Says when the phases of a run begin, where that is not at once: on several hosts they begin at one instant.
pub trait Starter: Send + Sync {
    /// Called when a phase is ready. Waits for the instant, on the clock that `now_ns` reads; none once `stopped`.
    fn start_ns(&self, phase: usize, now_ns: &dyn Fn() -> u64, stopped: &dyn Fn() -> bool) -> Option<u64>;
    /// Called when a phase has ended, with how long after that instant the last of its loops began.
    fn began(&self, phase: usize, late_ns: u64, now_ns: &dyn Fn() -> u64);
}

/// Ctrl-C and its like: shared by a run and whoever may stop it.
#[derive(Default)]
pub struct RunControl {
    user: Control,
    starter: Option<Box<dyn Starter>>,
}

impl RunControl {
    /// Each phase begins when `starter` says so.
    pub fn started_by(starter: Box<dyn Starter>) -> RunControl {
        RunControl { user: Control::default(), starter: Some(starter) }
    }

    /// Issues nothing more, lets what is in flight end.
    pub fn stop(&self) {
        self.user.set_state(State::Drain);
    }

    /// Ends at once; what is in flight is counted as outstanding.
    pub fn abandon(&self) {
        self.user.set_state(State::Abandon);
    }

    pub fn state(&self) -> State {
        self.user.state()
    }
}

/// Runs a whole profile of patterns. Events go to `emit`; the last one is [`Event::End`].
pub fn run<D: Devices>(
    profile: &Profile,
    targets: &[TargetArea],
    devices: Arc<D>,
    verifiers: Verifiers,
    control: &RunControl,
    emit: &mut dyn FnMut(Event),
) {
    run_with(profile, targets, devices, verifiers, &NoPrograms, control, emit);
}

/// Runs a whole profile, whose streams may be programs.
pub fn run_with<D: Devices>(
    profile: &Profile,
    targets: &[TargetArea],
    devices: Arc<D>,
    verifiers: Verifiers,
    programs: &dyn Programs,
    control: &RunControl,
    emit: &mut dyn FnMut(Event),
) {
    let starter = control.starter.as_deref();
    carry_out(profile, targets, devices, verifiers, programs, control, starter, emit);
}

#[allow(clippy::too_many_arguments)] // a run has as many circumstances as it has
fn carry_out<D: Devices>(
    profile: &Profile,
    targets: &[TargetArea],
    devices: Arc<D>,
    verifiers: Verifiers,
    programs: &dyn Programs,
    control: &RunControl,
    starter: Option<&dyn Starter>,
    emit: &mut dyn FnMut(Event),
) {
    // Sessions have checked it before they touched anything; a device without such a session is checked here.
    if let Err(refusal) = devices.honours().check(profile, false) {
        let message = EndReason::other(refusal.message);
        emit(Event::End { end_ns: devices.now_ns(), outcome: RunOutcome::Failed, message });
        return;
    }
    let mut conductor = Conductor {
        profile,
        targets,
        devices,
        control,
        starter,
        emit,
        verifiers,
        programs,
        failures_told: 0,
        drops_told: 0,
        fruitless: Vec::new(),
    };
    let mut outcome = RunOutcome::Done;
    let mut message = None;
    for phase in 0..profile.phase.len() {
        match conductor.phase(phase) {
            Ok(PhaseReason::Interrupted) => outcome = RunOutcome::Interrupted,
            Ok(PhaseReason::Error) => {
                outcome = RunOutcome::Failed;
                message = Some(EndReason::StoppedAtError);
            }
            Ok(_) => continue,
            Err(text) => {
                outcome = RunOutcome::Failed;
                message = EndReason::other(text);
            }
        }
        break;
    }
    if outcome == RunOutcome::Done && !conductor.fruitless.is_empty() {
        // Failures are data, but where there is nothing else, nothing was measured.
        outcome = RunOutcome::Failed;
        message = Some(EndReason::NothingMeasured { streams: std::mem::take(&mut conductor.fruitless) });
    }
    let end_ns = conductor.devices.now_ns();
    emit(Event::End { end_ns, outcome, message });
}

/// What is told of a filling.
pub enum Filled {
    /// So many so far.
    Bytes(u64),
    Failed(Box<ErrorEvent>),
}

/// Why a target was not filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotFilled {
    Interrupted,
    Failed(String),
}

/// Runs one phase quietly, telling only how many bytes are done: how a target is filled.
pub fn fill<D: Devices>(
    profile: &Profile,
    targets: &[TargetArea],
    devices: Arc<D>,
    verifiers: Verifiers,
    control: &RunControl,
    progress: &mut dyn FnMut(Filled),
) -> Result<(), NotFilled> {
    let mut done_bytes = 0;
    let mut failed = None;
    let mut interrupted = false;
    let mut listen = |event: Event| match event {
        Event::Interval(interval) => {
            done_bytes += interval.cells.iter().map(|c| c.bytes).sum::<u64>();
            progress(Filled::Bytes(done_bytes));
        }
        Event::Error(error) => {
            let words = || format!("{} at offset {}, {} bytes", error.text, error.offset_bytes, error.request_bytes);
            failed.get_or_insert_with(words);
            progress(Filled::Failed(error));
        }
        Event::PhaseEnd(end) => interrupted = end.reason == PhaseReason::Interrupted,
        Event::End { outcome: RunOutcome::Failed, message, .. } => {
            failed = failed.take().or(Some(message.map_or_else(String::new, |reason| reason.to_string())));
        }
        _ => {}
    };
    // A target is filled at once, whoever is waited for afterwards.
    carry_out(profile, targets, devices, verifiers, &NoPrograms, control, None, &mut listen);
    match failed {
        Some(text) => Err(NotFilled::Failed(text)),
        None if interrupted => Err(NotFilled::Interrupted),
        None => Ok(()),
    }
}

struct Conductor<'a, D: Devices> {
    profile: &'a Profile,
    targets: &'a [TargetArea],
    devices: Arc<D>,
    control: &'a RunControl,
    starter: Option<&'a dyn Starter>,
    emit: &'a mut dyn FnMut(Event),
    verifiers: Verifiers,
    programs: &'a dyn Programs,
    failures_told: usize,
    drops_told: usize,
    /// Streams of which no request succeeded, in words.
    fruitless: Vec<FailedStream>,
}

/// What a phase has come to so far.
struct Progress {
    phase: usize,
    referee: Referee,
    knobs: Knobs,
    control: Arc<Control>,
    reason: Option<PhaseReason>,
    failures: FailureCounts,
    /// Requests of each stream that succeeded and failed.
    counts: Vec<(u64, u64)>,
    cpu_before: Cpu,
    cpu_start: Cpu,
    own_ns: u64,
    loop_ns: u64,
    loops: usize,
    /// What the scheduler gave the threads of the loops that have ended.
    scheduled: Vec<Scheduled>,
    stop_on_error: bool,
}

impl Progress {
    /// Whether all streams have a pace of their own and could keep it, as far as that counts.
    fn kept_pace(&self, plan: &plan::Phase, unsent: u64, dropped_frames: u64) -> bool {
        let sent: u64 = self.counts.iter().map(|(good, bad)| good + bad).sum();
        let short = unsent as f64 > SHORT_SHARE * (unsent + sent) as f64;
        plan.stream.iter().all(plan::Stream::is_open) && !short && dropped_frames == 0
    }
}

enum Message {
    /// A loop has its device and waits for its start.
    Opened,
    Report(Report),
    Notes(Vec<Note>),
    Scheduled(Scheduled),
    Ended(usize, Result<Outcome, String>),
}

impl<D: Devices> Conductor<'_, D> {
    /// Runs one phase and says why it ended.
    fn phase(&mut self, phase: usize) -> Result<PhaseReason, String> {
        let plan = &self.profile.phase[phase];
        let lanes = build_lanes(self.profile, phase, self.targets, &mut self.verifiers, self.programs)?;
        // Who waits for each other after each request shares a loop: it knows at once when the last has arrived.
        let wanted = if plan.lockstep.is_some() { 1 } else { self.devices.loops(lanes.len()) };
        let loops = wanted.clamp(1, lanes.len().max(1));
        if D::Device::VIRTUAL {
            let Some((timeline, mut progress)) = self.begin(phase, loops, cells_of(&lanes)) else {
                return Ok(PhaseReason::Interrupted);
            };
            let device = self.devices.open(&setup_for(0, 1, &lanes, self.profile.reap))?;
            let spec = self.spec(0, &timeline, &progress);
            let mut sink = VirtualSink { conductor: self, progress: &mut progress };
            let outcome = Loop::new(device, &mut sink, lanes, spec).run();
            return self.finish(&mut progress, vec![outcome]);
        }
        let cells = cells_of(&lanes);
        let mut opening = self.open(spread(lanes, loops));
        opening.wait(self.control);
        let Some((timeline, mut progress)) = self.begin(phase, loops, cells) else {
            return Ok(PhaseReason::Interrupted);
        };
        let specs = (0..loops).map(|index| self.spec(index, &timeline, &progress)).collect();
        let (receive, threads) = opening.start(specs);
        let outcomes = self.listen(&receive, loops, &mut progress);
        if self.control.state() != State::Abandon {
            // All have said that they ended. The targets are closed when they really have, and may then be opened anew.
            threads.into_iter().for_each(|thread| drop(thread.join()));
        }
        self.finish(&mut progress, outcomes)
    }

    /// Fixes when a phase begins, and says so; none where the run was stopped before that was known.
    fn begin(&mut self, phase: usize, loops: usize, cells: usize) -> Option<(Timeline, Progress)> {
        let plan = &self.profile.phase[phase];
        let start_ns = self.start_ns(phase, loops)?;
        let duration_ns = plan.duration.map(|d| d.ns).or_else(|| longest_ns(plan));
        let timeline = Timeline::new(start_ns, plan.warmup.ns, duration_ns, self.profile.interval.ns, cells);
        let control = Arc::new(Control::default());
        let referee = Referee::new(plan, phase, timeline.measure_start_ns());
        let knobs = referee.first_knobs().unwrap_or_default();
        control.set_knobs(knobs);
        let cpu = cpu_of::<D>();
        let progress = Progress {
            phase,
            referee,
            knobs,
            control,
            reason: None,
            failures: FailureCounts::default(),
            counts: vec![(0, 0); plan.stream.len()],
            cpu_before: cpu,
            cpu_start: cpu,
            own_ns: 0,
            loop_ns: 0,
            loops,
            scheduled: Vec::new(),
            stop_on_error: self.profile.stop_on_error,
        };
        (self.emit)(Event::Phase { phase, name: plan.name.clone(), start_ns });
        Some((timeline, progress))
    }

    fn spec(&self, loop_index: usize, timeline: &Timeline, progress: &Progress) -> LoopSpec {
        LoopSpec {
            loop_index,
            streams: self.profile.phase[progress.phase].stream.len(),
            timeline: timeline.clone(),
            hang_after_ns: self.profile.hang_after.ns,
            stop_on_error: self.profile.stop_on_error,
            control: progress.control.clone(),
        }
    }

    /// When the loops of a phase begin; none where the run was stopped before that was known.
    fn start_ns(&self, phase: usize, loops: usize) -> Option<u64> {
        let virtual_time = D::Device::VIRTUAL;
        let delay_ns = START_DELAY_NS + 500_000 * loops as u64;
        let soon_ns = || self.devices.now_ns() + if virtual_time { 0 } else { delay_ns };
        let Some(starter) = self.starter else { return Some(soon_ns()) };
        let stopped = || self.control.state() != State::Run;
        let start_ns = starter.start_ns(phase, &|| self.devices.now_ns(), &stopped)?;
        // Virtual time does not go on while others are waited for.
        Some(if virtual_time { soon_ns() } else { start_ns.max(soon_ns()) })
    }

    /// Starts a thread a loop, each of which opens its device. That may take long (buffers are touched, and other work may
    /// have the CPUs), and no time of a phase may pass meanwhile.
    fn open(&self, lanes: Vec<Vec<LaneSpec>>) -> Opening {
        let loops = lanes.len();
        let (send, receive) = channel();
        let mut opening = Opening { send, receive, begins: Vec::new(), threads: Vec::new(), unopened: Vec::new() };
        for (index, lanes) in lanes.into_iter().enumerate() {
            let (send, devices) = (opening.send.clone(), self.devices.clone());
            let setup = setup_for(index, loops, &lanes, self.profile.reap);
            let thread = std::thread::Builder::new().name(format!("brickyard-{index}"));
            let (begin, begins) = channel();
            opening.begins.push(begin);
            let started = thread.spawn(move || {
                let work = std::panic::AssertUnwindSafe(|| run_loop(&*devices, &setup, lanes, &begins, &send));
                let result = std::panic::catch_unwind(work)
                    .unwrap_or_else(|_| Err("a measuring loop failed unexpectedly; please report this".into()));
                // Nobody listens any more only when the run was abandoned.
                let _ = send.send(Message::Ended(index, result));
            });
            match started {
                Ok(thread) => opening.threads.push(thread),
                Err(error) => {
                    let message = format!("no thread could be started: {error}");
                    let _ = opening.send.send(Message::Ended(index, Err(message)));
                }
            }
        }
        opening
    }

    fn listen(
        &mut self,
        receive: &Receiver<Message>,
        loops: usize,
        progress: &mut Progress,
    ) -> Vec<Result<Outcome, String>> {
        let mut merging: BTreeMap<u32, Merged> = BTreeMap::new();
        let mut outcomes = BTreeMap::new();
        let mut blocked_named = Vec::new();
        let mut told_below = 0;
        while outcomes.len() < loops {
            match receive.recv_timeout(LOOK_EVERY) {
                Ok(Message::Report(report)) => merge(&mut merging, self.take_notes(report, progress)),
                Ok(Message::Notes(notes)) => self.tell(notes, progress),
                Ok(Message::Scheduled(given)) => progress.scheduled.push(given),
                Ok(Message::Opened) => {}
                Ok(Message::Ended(index, result)) => {
                    if result.is_err() {
                        progress.control.set_state(State::Drain);
                    }
                    outcomes.insert(index, result);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now_ns = self.devices.now_ns();
            let at_work = loops - outcomes.len();
            while let Some(entry) = merging.first_entry() {
                let merged = entry.get();
                let late = now_ns > merged.end_ns + PATIENCE_NS;
                if merged.loops < loops && at_work > 0 && !late && merged.interval >= told_below {
                    break;
                }
                told_below = told_below.max(merged.interval + 1);
                let merged = entry.remove();
                self.interval(&merged, progress);
            }
            self.heed_user(progress);
            self.name_blocked(progress, now_ns, &mut blocked_named);
            if self.control.state() == State::Abandon && at_work > 0 {
                self.collect_abandoned(receive, &mut merging, &mut outcomes, loops, progress);
                break;
            }
        }
        while let Some((_, merged)) = merging.pop_first() {
            self.interval(&merged, progress);
        }
        outcomes.into_values().collect()
    }

    /// Gives abandoned loops a moment to report; those that are blocked in the kernel are left behind.
    fn collect_abandoned(
        &mut self,
        receive: &Receiver<Message>,
        merging: &mut BTreeMap<u32, Merged>,
        outcomes: &mut BTreeMap<usize, Result<Outcome, String>>,
        loops: usize,
        progress: &mut Progress,
    ) {
        while outcomes.len() < loops {
            match receive.recv_timeout(Duration::from_millis(200)) {
                Ok(Message::Report(report)) => merge(merging, self.take_notes(report, progress)),
                Ok(Message::Notes(notes)) => self.tell(notes, progress),
                Ok(Message::Scheduled(given)) => progress.scheduled.push(given),
                Ok(Message::Opened) => {}
                Ok(Message::Ended(index, result)) => {
                    outcomes.insert(index, result);
                }
                Err(_) => break,
            }
        }
        let now_ns = self.devices.now_ns();
        for index in 0..loops {
            outcomes.entry(index).or_insert_with(|| Ok(left_behind(now_ns, self.devices.outstanding(index))));
        }
    }

    fn heed_user(&mut self, progress: &mut Progress) {
        let state = self.control.state();
        if state > progress.control.state() {
            progress.control.set_state(state);
        }
        if state != State::Run {
            progress.reason.get_or_insert(PhaseReason::Interrupted);
        }
    }

    /// Names requests that a device's own thread is blocked in.
    fn name_blocked(&mut self, progress: &Progress, now_ns: u64, named: &mut Vec<u64>) {
        let Some(before_ns) = now_ns.checked_sub(self.profile.hang_after.ns) else { return };
        let blocked = self.devices.blocked(before_ns);
        // Whoever has moved on is named again should it hang again.
        named.retain(|id| blocked.iter().any(|b| b.id == *id));
        for Blocked { id, order, since_ns } in blocked {
            if !named.contains(&id) {
                named.push(id);
                (self.emit)(Event::Hang(crate::event::HangEvent {
                    at_ns: now_ns,
                    phase: progress.phase,
                    stream: None,
                    operation: order.operation.into(),
                    offset_bytes: order.offset_bytes,
                    request_bytes: order.request_bytes,
                    outstanding_ns: now_ns - since_ns,
                }));
            }
        }
    }

    fn take_notes(&mut self, mut report: Report, progress: &mut Progress) -> Report {
        let notes = std::mem::take(&mut report.notes);
        progress.failures.merge(std::mem::take(&mut report.failures));
        self.tell(notes, progress);
        report
    }

    fn tell(&mut self, notes: Vec<Note>, progress: &mut Progress) {
        for note in notes {
            if matches!(note, Note::Dropped { .. }) {
                self.drops_told += 1;
                if self.drops_told > FAILURES_TOLD {
                    continue;
                }
            }
            if matches!(note, Note::Failed { .. }) {
                self.failures_told += 1;
                if progress.stop_on_error {
                    progress.reason.get_or_insert(PhaseReason::Error);
                    progress.control.set_state(State::Drain);
                }
                if self.failures_told > FAILURES_TOLD {
                    continue;
                }
            }
            (self.emit)(note.event(progress.phase));
        }
    }

    /// An interval is complete: tell it, then let the referee decide.
    fn interval(&mut self, merged: &Merged, progress: &mut Progress) {
        let cpu = cpu_of::<D>();
        let spent = Cpu {
            user_ns: cpu.user_ns - progress.cpu_before.user_ns,
            system_ns: cpu.system_ns - progress.cpu_before.system_ns,
        };
        progress.cpu_before = cpu;
        let loop_ns = (merged.end_ns - merged.start_ns) * merged.loops as u64;
        for (stream, _, cell) in merged.cells.iter().filter(|(_, operation, _)| *operation < record::CHAINS) {
            let (good, bad) = &mut progress.counts[stream];
            (*good, *bad) = (*good + cell.requests, *bad + cell.errors);
        }
        progress.own_ns += merged.own_ns;
        progress.loop_ns += loop_ns;
        let busy_share = merged.own_ns as f64 / loop_ns.max(1) as f64;
        (self.emit)(Event::Interval(Box::new(interval(
            progress.phase,
            merged,
            spent,
            busy_share,
            progress.knobs,
            progress.referee.settles(merged),
        ))));
        for decision in progress.referee.judge(merged) {
            match decision {
                Decision::End(reason) => {
                    progress.control.set_state(State::Drain);
                    progress.reason.get_or_insert(match reason {
                        Reason::Stop => PhaseReason::Stop,
                        Reason::Steady => PhaseReason::Steady,
                        Reason::Ramp => PhaseReason::Ramp,
                    });
                }
                Decision::Step(step) => (self.emit)(Event::RampStep(Box::new(step))),
                Decision::Found(end) => (self.emit)(Event::RampEnd(end)),
                Decision::Turn(knobs) => {
                    progress.knobs = knobs;
                    progress.control.set_knobs(knobs);
                }
                Decision::Steady { reached, from_ns, at_ns, mean, range_percent, slope_percent } => {
                    let phase = progress.phase;
                    (self.emit)(Event::Steady {
                        phase,
                        from_ns: Some(from_ns),
                        at_ns,
                        reached,
                        mean,
                        range_percent,
                        slope_percent,
                    });
                }
            }
        }
    }

    fn finish(
        &mut self,
        progress: &mut Progress,
        outcomes: Vec<Result<Outcome, String>>,
    ) -> Result<PhaseReason, String> {
        self.heed_user(progress);
        let plan = &self.profile.phase[progress.phase];
        let mut slowest = Slowest::default();
        let (mut end_ns, mut outstanding, mut exhausted) = (0, 0, true);
        let mut unsent = BTreeMap::<usize, u64>::new();
        let mut ended = BTreeMap::<usize, u64>::new();
        let mut failed = None;
        let mut frames = Vec::new();
        let mut submissions = Vec::new();
        let mut late_ns = 0;
        for outcome in outcomes {
            match outcome {
                Ok(outcome) => {
                    late_ns = late_ns.max(outcome.late_ns);
                    end_ns = end_ns.max(outcome.end_ns);
                    // Whose last request it was is known of a loop that carried one stream.
                    let is_alone = outcome.streams.len() == 1;
                    for stream in &outcome.streams {
                        let last = ended.entry(*stream).or_default();
                        *last = if is_alone { outcome.end_ns.max(*last) } else { u64::MAX };
                    }
                    outcome.unsent.iter().for_each(|(stream, n)| *unsent.entry(*stream).or_default() += n);
                    outstanding += outcome.outstanding;
                    exhausted &= outcome.exhausted;
                    slowest.merge(outcome.slowest);
                    submissions.push(outcome.submissions);
                    frames.extend(outcome.frames.into_iter().map(FramesEnd::from));
                }
                Err(message) => failed = Some(message),
            }
        }
        if let Some(starter) = self.starter {
            starter.began(progress.phase, late_ns, &|| self.devices.now_ns());
        }
        frames.sort_by_key(|f| (f.stream, f.worker));
        let fruitless = progress.counts.iter().enumerate().filter(|(_, (good, bad))| *good == 0 && *bad > 0);
        self.fruitless
            .extend(fruitless.map(|(stream, (_, bad))| failed_stream(plan, stream, *bad, &progress.failures)));
        let limit = if plan.requests.is_some() {
            PhaseReason::Requests
        } else if plan.bytes.is_some() {
            PhaseReason::Bytes
        } else if plan.passes.is_some() {
            PhaseReason::Passes
        } else {
            PhaseReason::Program
        };
        let reason = match (&failed, progress.reason) {
            (Some(_), _) => PhaseReason::Error,
            (None, Some(reason)) => reason,
            (None, None) if exhausted => limit,
            (None, None) => PhaseReason::Duration,
        };
        let cpu = cpu_of::<D>();
        let spent = Cpu {
            user_ns: cpu.user_ns - progress.cpu_start.user_ns,
            system_ns: cpu.system_ns - progress.cpu_start.system_ns,
        };
        let busy_share = progress.own_ns as f64 / progress.loop_ns.max(1) as f64;
        let judged = (!D::Device::VIRTUAL).then(|| Bounds {
            loops: progress.loops,
            cpus: std::thread::available_parallelism().map_or(progress.loops, usize::from),
            loop_ns: progress.loop_ns,
            own_ns: progress.own_ns,
            process_ns: spent.user_ns + spent.system_ns,
            scheduled: Scheduled::of_all(&progress.scheduled, progress.loops),
            pace_kept: progress.kept_pace(plan, unsent.values().sum(), frames.iter().map(|end| end.dropped).sum()),
        });
        let bound = judged.map_or(Bound::No, |judged| judged.bound());
        (self.emit)(Event::PhaseEnd(Box::new(PhaseEnd {
            phase: progress.phase,
            end_ns,
            reason,
            unsent: unsent.values().sum(),
            unsent_by_stream: unsent.iter().map(|(stream, n)| StreamUnsent { stream: *stream, unsent: *n }).collect(),
            ended_by_stream: ended
                .iter()
                .filter(|(_, last)| **last < end_ns)
                .map(|(stream, last)| StreamEnd { stream: *stream, end_ns: *last })
                .collect(),
            outstanding,
            errors_by_errno: progress.failures.by_errno.iter().map(|(e, n)| (errno_name(*e), *n)).collect(),
            errors_by_kind: progress.failures.by_kind.iter().map(|(k, n)| (k.to_string(), *n)).collect(),
            slowest: slowest.into_sorted().iter().map(SlowEvent::from).collect(),
            verified: plan.stream.iter().any(|s| s.verify).then(|| self.verifiers.counts().into()),
            cpu: spent,
            generator_bound: bound != Bound::No,
            generator_bound_reason: bound,
            loop_busy_share: busy_share,
            loop_cpu_share: judged.map(|judged| judged.own_cpu_share()),
            cpu_wait_share: judged.and_then(|judged| judged.wait_share()),
            loops: progress.loops,
            features: self.devices.features(),
            depth: depth_reached(&submissions),
            frames,
            pgbench: None,
            replay: None,
            server_files: self.programs.server_files(),
        })));
        failed.map_or(Ok(reason), Err)
    }
}

fn failed_stream(plan: &plan::Phase, stream: usize, requests: u64, failures: &FailureCounts) -> FailedStream {
    let most = failures.by_errno.iter().max_by_key(|(_, count)| **count);
    let error = most.map(|(errno, _)| std::io::Error::from_raw_os_error(*errno).to_string());
    FailedStream { phase: plan.name.clone(), stream: plan.stream[stream].name.clone(), requests, error }
}

/// Time that a ramp takes at the most, where it alone ends its phase.
fn longest_ns(plan: &plan::Phase) -> Option<u64> {
    let others = plan.requests.is_some() || plan.bytes.is_some() || plan.passes.is_some();
    plan.ramp.as_ref().filter(|ramp| ramp.limit.is_some() && !others).map(plan::Ramp::longest_ns)
}

/// What is known of a loop that is blocked in the kernel.
fn left_behind(now_ns: u64, outstanding: u64) -> Outcome {
    let (slowest, submissions, frames) = (Slowest::default(), Submissions::default(), Vec::new());
    Outcome {
        end_ns: now_ns,
        late_ns: 0,
        streams: BTreeSet::new(),
        unsent: BTreeMap::new(),
        outstanding,
        slowest,
        submissions,
        exhausted: false,
        frames,
    }
}

fn setup_for(loop_index: usize, loops: usize, lanes: &[LaneSpec], reap: u32) -> Setup {
    let (slots, buffer_bytes) = needs(lanes);
    Setup { loop_index, loops, slots, buffer_bytes, reap }
}

/// Deals lanes out to loops, one after the other, so that each stream's lanes are spread.
fn spread(lanes: Vec<LaneSpec>, loops: usize) -> Vec<Vec<LaneSpec>> {
    let mut all: Vec<Vec<LaneSpec>> = (0..loops).map(|_| Vec::new()).collect();
    for (number, lane) in lanes.into_iter().enumerate() {
        all[number % loops].push(lane);
    }
    all
}

/// The loops of a phase before its start.
struct Opening {
    send: Sender<Message>,
    receive: Receiver<Message>,
    /// Each loop gets its work when all are open.
    begins: Vec<Sender<LoopSpec>>,
    threads: Vec<JoinHandle<()>>,
    /// What loops said that could not open their devices.
    unopened: Vec<Message>,
}

impl Opening {
    /// Until every loop has its device or has none, or the run is stopped.
    fn wait(&mut self, user: &RunControl) {
        let mut waiting = self.begins.len();
        while waiting > 0 && user.state() == State::Run {
            match self.receive.recv_timeout(LOOK_EVERY) {
                Ok(Message::Opened) => waiting -= 1,
                Ok(ended) => {
                    self.unopened.push(ended);
                    waiting -= 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }

    fn start(self, specs: Vec<LoopSpec>) -> (Receiver<Message>, Vec<JoinHandle<()>>) {
        for message in self.unopened {
            let _ = self.send.send(message); // to ourselves
        }
        for (begin, spec) in self.begins.iter().zip(specs) {
            let _ = begin.send(spec); // one that did not open listens no more
        }
        (self.receive, self.threads)
    }
}

fn run_loop<D: Devices>(
    devices: &D,
    setup: &Setup,
    lanes: Vec<LaneSpec>,
    begins: &Receiver<LoopSpec>,
    send: &Sender<Message>,
) -> Result<Outcome, String> {
    let device = devices.open(setup)?;
    let _ = send.send(Message::Opened);
    let spec = begins.recv().map_err(|_| "the phase did not begin".to_string())?;
    let mut sink = ThreadSink { send, streams: spec.streams };
    let measuring = Loop::new(device, &mut sink, lanes, spec);
    let before = Scheduled::of_this_thread();
    let outcome = measuring.run();
    if let (Some(before), Some(after)) = (before, Scheduled::of_this_thread()) {
        // Nobody listens any more only when the run was abandoned.
        let _ = send.send(Message::Scheduled(after.since(before)));
    }
    outcome
}

fn merge(merging: &mut BTreeMap<u32, Merged>, report: Report) {
    match merging.get_mut(&report.interval) {
        Some(merged) => {
            merged.cells.merge_concurrent(&report.cells);
            merged.start_ns = merged.start_ns.min(report.start_ns);
            merged.end_ns = merged.end_ns.max(report.end_ns);
            merged.own_ns += report.own_ns;
            merged.loops += 1;
        }
        None => {
            merging.insert(report.interval, first_of(report));
        }
    }
}

fn first_of(report: Report) -> Merged {
    Merged {
        interval: report.interval,
        kind: report.kind,
        start_ns: report.start_ns,
        end_ns: report.end_ns,
        cells: report.cells,
        own_ns: report.own_ns,
        loops: 1,
    }
}

/// Sends reports out of a loop's thread.
struct ThreadSink<'a> {
    send: &'a Sender<Message>,
    streams: usize,
}

impl Sink for ThreadSink<'_> {
    fn report(&mut self, report: Report) -> CellSet {
        let fresh = report.cells.same_shape();
        debug_assert_eq!(fresh.streams(), self.streams);
        // A listener that is gone has abandoned the run.
        let _ = self.send.send(Message::Report(report));
        fresh
    }

    fn tell(&mut self, notes: Vec<Note>) {
        let _ = self.send.send(Message::Notes(notes));
    }
}

/// Judges each interval before virtual time goes on.
struct VirtualSink<'a, 'b, D: Devices> {
    conductor: &'a mut Conductor<'b, D>,
    progress: &'a mut Progress,
}

impl<D: Devices> Sink for VirtualSink<'_, '_, D> {
    fn report(&mut self, report: Report) -> CellSet {
        let report = self.conductor.take_notes(report, self.progress);
        let mut merged = first_of(report);
        self.conductor.interval(&merged, self.progress);
        self.conductor.heed_user(self.progress);
        merged.cells.clear();
        merged.cells
    }

    fn tell(&mut self, notes: Vec<Note>) {
        self.conductor.tell(notes, self.progress);
        self.conductor.heed_user(self.progress);
    }
}

/// CPU time that a run tells of. A run in virtual time tells none: it would differ from machine to machine.
fn cpu_of<D: Devices>() -> Cpu {
    if D::Device::VIRTUAL { Cpu::default() } else { process_cpu() }
}

/// CPU time of this process so far.
fn process_cpu() -> Cpu {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the struct it is given; zeroes are a valid value of it should it fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    Cpu { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
}
