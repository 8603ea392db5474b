//! A run on modelled bricks from its first check to its last event, the counterpart of a run on real storage.

use std::sync::{Arc, PoisonError};

use engine::conductor::{self, RunControl};
use engine::event::{
    BrickState, BufferedReason, ClockFacts, EndReason, Engine, EngineReason, Event, IoPath, PhaseFacts, RunOutcome,
    SCHEMA, Start, StartNote, StreamFacts, TargetFacts, TargetKind, Unwritten,
};
use engine::program::{NoPrograms, Programs};
use engine::streams::{TargetArea, Verifiers, build_lanes};
use plan::{CacheState, IoMode, Mistake, Profile};
use serde::Deserialize;

use crate::SECTOR_BYTES;
use crate::brick::{Condition, Texts, resolve};
use crate::device::{Bricks, HONOURS, Volume};
use crate::page_cache::Cached;
use crate::system::{Change, Progress, System};

/// What the user wishes, beside the profile.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Texts of brick files by `drives/NAME`, `controllers/NAME` and `arrays/NAME`.
    pub bricks: Texts,
    /// `key=value` for every brick of the run.
    pub overrides: Vec<String>,
    pub condition: Option<Condition>,
    /// An empty file that gets every request of the phases as a trace.
    pub take: Option<std::path::PathBuf>,
    /// What the record calls the start of the run; virtual time has no date of its own.
    pub start_unix_ns: u64,
}

/// A run that may begin.
pub struct Session {
    profile: Profile,
    areas: Vec<TargetArea>,
    bricks: Built,
    start: Start,
    programs: Box<dyn Programs>,
    take: Option<std::path::PathBuf>,
}

/// The bricks of a run: all with page caches, or none.
enum Built {
    Direct(Arc<Bricks<System>>),
    Buffered(Arc<Bricks<Cached>>),
}

/// Whether a target names a modelled brick.
pub fn is_modelled(target: &str) -> bool {
    target.starts_with("sim:")
}

/// Builds the bricks that `sim:NAME` or `sim:NAME,key=value,…` name. An error is one line for the user.
pub fn prepare(profile: Profile, targets: &[String], options: &Options) -> Result<Session, Mistake> {
    prepare_with(profile, targets, options, || Box::new(NoPrograms))
}

/// The same for a profile whose streams may be programs: those that are tried here are not those that run.
pub fn prepare_with(
    profile: Profile,
    targets: &[String],
    options: &Options,
    programs: fn() -> Box<dyn Programs>,
) -> Result<Session, Mistake> {
    let wanted = profile.target_count();
    if targets.len() != wanted {
        let given = targets.len();
        return Err(format!("the profile speaks of {wanted} target(s), {given} given; name one brick for each").into());
    }
    let mut notes = HONOURS.check(&profile, false)?;
    let is_buffered = profile.io == IoMode::Buffered;
    let (mut systems, mut cached) = (Vec::new(), Vec::new());
    let mut areas = Vec::new();
    let mut facts = Vec::new();
    let mut features = Vec::new();
    for target in targets {
        let spoken = target.strip_prefix("sim:").ok_or_else(|| {
            format!("{target}: real and modelled targets have different clocks; name modelled bricks (sim:NAME) only")
        })?;
        let mut brick = resolve(spoken, &options.bricks, &condition_of(options))?;
        brick.name = spoken.to_string();
        brick.seed = profile.seed;
        let system = System::new(&brick)?;
        let mut size_bytes = system.capacity_bytes();
        let mut page_cache = None;
        if is_buffered {
            let above = Cached::new(&brick, system)?;
            size_bytes = above.capacity_bytes();
            page_cache = Some(above.facts());
            cached.push(above);
        } else {
            systems.push(system);
        }
        let length_bytes = size_bytes / SECTOR_BYTES * SECTOR_BYTES;
        areas.push(area(target, length_bytes));
        facts.push(TargetFacts {
            data_bytes: length_bytes,
            align_bytes: SECTOR_BYTES as u32,
            unwritten: Some(Unwritten::None),
            page_cache,
            ..TargetFacts::new(target.clone(), TargetKind::Sim, size_bytes)
        });
        features.push(format!("condition={}", state_of(brick.condition)));
    }
    let tried = programs();
    for phase in 0..profile.phase.len() {
        build_lanes(&profile, phase, &areas, &mut Verifiers::new(0), &*tried)?;
    }
    if profile.cache == CacheState::AsIs {
        notes.push(StartNote::CacheIgnored);
    }
    let start = Start { notes, ..start_facts(&profile, options.start_unix_ns, facts, features) };
    Ok(Session {
        profile,
        areas,
        bricks: match is_buffered {
            true => Built::Buffered(Arc::new(Bricks::new(cached))),
            false => Built::Direct(Arc::new(Bricks::new(systems))),
        },
        start,
        programs: programs(),
        take: options.take.clone(),
    })
}

fn condition_of(options: &Options) -> Vec<String> {
    let condition = options.condition.map(|c| format!("condition={}", state_of(c)));
    options.overrides.iter().cloned().chain(condition).collect()
}

fn state_of(condition: Condition) -> BrickState {
    match condition {
        Condition::Normal => BrickState::Normal,
        Condition::Degraded => BrickState::Degraded,
        Condition::Rebuilding => BrickState::Rebuilding,
        Condition::NeighbourRebuilding => BrickState::NeighbourRebuilding,
        Condition::Initializing => BrickState::Initializing,
        Condition::Scrubbing => BrickState::Scrubbing,
    }
}

fn area(path: &str, length_bytes: u64) -> TargetArea {
    TargetArea {
        path: path.to_string(),
        start_bytes: 0,
        length_bytes,
        align_bytes: SECTOR_BYTES,
        writable: true,
        scratch_dir: std::path::PathBuf::new(),
        keep_dir: None,
    }
}

fn start_facts(profile: &Profile, start_unix_ns: u64, targets: Vec<TargetFacts>, features: Vec<String>) -> Start {
    let is_buffered = profile.io == IoMode::Buffered;
    let stream_facts = |s: &plan::Stream| StreamFacts {
        name: s.name.clone(),
        target: s.target,
        workers: s.workers,
        depth: s.depth,
        verify: s.verify,
    };
    let phase_facts =
        |p: &plan::Phase| PhaseFacts { name: p.name.clone(), streams: p.stream.iter().map(stream_facts).collect() };
    Start {
        schema: SCHEMA,
        start_unix_ns,
        engine: Engine::Sim,
        engine_reason: EngineReason::Modelled,
        io: if is_buffered { IoPath::Buffered } else { IoPath::Direct },
        io_reason: is_buffered.then_some(BufferedReason::Modelled),
        clock: ClockFacts { source: "virtual".into(), read_cost_ns: 0.0 },
        reap: Some(profile.reap),
        submit: None,
        submit_reason: None,
        features,
        targets,
        phases: profile.phase.iter().map(phase_facts).collect(),
        notes: Vec::new(),
    }
}

fn told_of(target: usize, change: Change) -> Event {
    match change {
        Change::Condition { at_ns, condition } => Event::BrickCondition { target, at_ns, condition },
        Change::PowerCut { at_ns, lost } => Event::PowerCut {
            target,
            at_ns,
            drive_bytes: lost.drive_bytes,
            drive_extents: lost.drive_extents,
            drives: lost.drives,
            controller_bytes: lost.controller_bytes,
            failed_requests: lost.failed_requests,
            lost_writes: Some(lost.writes.count),
            lost_promised: Some(lost.writes.promised),
            oldest_lost: lost.writes.oldest,
        },
    }
}

fn background_of(target: usize, at_ns: u64, done: Progress) -> Event {
    let Progress { done_bytes, spent_ns, whole_bytes, .. } = done;
    let condition = state_of(done.condition);
    Event::BrickBackground { target, at_ns, condition, done_bytes, spent_ns, whole_bytes }
}

impl Session {
    /// Runs to the end. Events go to `emit`; the last one is [`Event::End`].
    pub fn run(self, control: &RunControl, emit: &mut dyn FnMut(Event)) {
        match &self.bricks {
            Built::Direct(bricks) => self.run_on(bricks, control, emit),
            Built::Buffered(bricks) => self.run_on(bricks, control, emit),
        }
    }

    fn run_on<V: Volume>(&self, bricks: &Arc<Bricks<V>>, control: &RunControl, emit: &mut dyn FnMut(Event)) {
        emit(Event::Start(Box::new(self.start.clone())));
        let changes = bricks.changes();
        let (profile, verifiers) = (&self.profile, Verifiers::new(0));
        let mut tell = |event: Event| {
            let told = std::mem::take(&mut *changes.lock().unwrap_or_else(PoisonError::into_inner));
            told.into_iter().for_each(|(target, change)| emit(told_of(target, change)));
            if let Event::End { end_ns, .. } = &event {
                bricks.progress().into_iter().for_each(|(target, done)| emit(background_of(target, *end_ns, done)));
                let at_ns = *end_ns;
                for (target, members) in bricks.members_work().into_iter().enumerate() {
                    emit(Event::BrickMembers { target, at_ns, members });
                }
                for (target, work) in bricks.caches_work().into_iter().enumerate() {
                    emit(Event::BrickCaches { target, at_ns, work });
                }
                for (target, work) in bricks.page_cache_work().into_iter().enumerate() {
                    work.into_iter().for_each(|work| emit(Event::PageCache { target, at_ns, work }));
                }
            }
            emit(event);
        };
        let Some(path) = &self.take else {
            let bricks = bricks.clone();
            return conductor::run_with(profile, &self.areas, bricks, verifiers, &*self.programs, control, &mut tell);
        };
        let device = |area: &TargetArea| trace::Device {
            name: area.path.clone(),
            capacity_bytes: area.length_bytes,
            sector_bytes: SECTOR_BYTES as u32,
        };
        let header = trace::Header {
            devices: self.areas.iter().map(device).collect(),
            clock: "virtual".into(),
            source: "a run of brickyard".into(),
            ..trace::Header::default()
        };
        match retrace::take(bricks.clone(), path, &header, vec![0; self.areas.len()]) {
            Ok(taken) => {
                let taken = Arc::new(taken);
                let run = |emit: &mut dyn FnMut(Event)| {
                    let (programs, taken) = (&*self.programs, taken.clone());
                    conductor::run_with(profile, &self.areas, taken, verifiers, programs, control, emit);
                };
                retrace::run_to_end(run, || taken.finish().map(|_| ()), &mut tell);
            }
            Err(why) => tell(Event::End { end_ns: 0, outcome: RunOutcome::Failed, message: EndReason::other(why) }),
        }
    }
}
