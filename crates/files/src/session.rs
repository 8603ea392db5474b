//! A run of programs in directories from its first check to its last event, the counterpart of a run on one target.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use apps::Apps;
use block::clock::Clock;
use block::guard::GuardError;
use block::session::{Options, phase_facts};
use engine::conductor::{self, RunControl};
use engine::event::{
    BufferedReason, ClockFacts, EndReason, Engine, EngineReason, Event, IoPath, RunOutcome, SCHEMA, Start, StartNote,
    TargetFacts, TargetKind, Unwritten,
};
use engine::streams::{TargetArea, Verifiers, build_lanes};
use plan::{Mistake, Profile};

use crate::device::{Directories, HONOURS};
use crate::workplace::{self, Workplace, remove_leftovers};

/// A run that may begin. Dropping it takes its directories away.
pub struct Session {
    profile: Profile,
    areas: Vec<TargetArea>,
    devices: Arc<Directories>,
    apps: Apps,
    start: Start,
    clock: Clock,
    workplaces: Vec<Workplace>,
}

fn refuse(mistake: impl Into<Mistake>) -> GuardError {
    mistake.into().into()
}

/// Whether a run could begin, by every check that [`prepare`] makes; nothing is made or removed.
pub fn check(profile: &Profile, paths: &[String], options: &Options) -> Result<(), GuardError> {
    try_plan(profile, paths, options)?;
    paths.iter().try_for_each(|path| workplace::check(Path::new(path)))
}

/// Lanes can be made of it on these areas; and what of the profile has no effect.
type Planned = (Vec<TargetArea>, Apps, Vec<StartNote>);

/// What can be checked without a look at the targets.
fn try_plan(profile: &Profile, paths: &[String], options: &Options) -> Result<Planned, GuardError> {
    let wanted = profile.target_count();
    if paths.len() != wanted {
        return Err(refuse(format!(
            "the profile speaks of {wanted} target(s), {} given; name one directory for each",
            paths.len()
        )));
    }
    if options.create_bytes.is_some() || !options.overwrite.is_empty() || options.destroys_data {
        return Err(refuse("a program makes a directory of its own; leave --size, --overwrite and consent out"));
    }
    let notes = HONOURS.check(profile, options.nop).map_err(refuse)?;
    let apps = Apps::default();
    let areas: Vec<TargetArea> = paths.iter().map(|path| area(path)).collect();
    for phase in 0..profile.phase.len() {
        build_lanes(profile, phase, &areas, &mut Verifiers::new(0), &apps).map_err(refuse)?;
    }
    Ok((areas, apps, notes))
}

/// Checks everything that can be checked, and makes a workplace in each target.
pub fn prepare(profile: Profile, paths: &[String], options: &Options) -> Result<Session, GuardError> {
    let (areas, apps, mut notes) = try_plan(&profile, paths, options)?;
    let mut workplaces = Vec::new();
    for path in paths {
        notes.extend(remove_leftovers(Path::new(path))?);
        workplaces.push(Workplace::make(Path::new(path))?);
    }
    let clock = Clock::start();
    let roots = workplaces.iter().map(|w| w.root().try_clone_to_owned()).collect::<Result<Vec<_>, _>>();
    let roots = roots.map_err(|e| refuse(format!("no descriptor is left: {e}")))?;
    let start = start_facts(&profile, &workplaces, paths, clock, notes)?;
    let devices = Arc::new(Directories::new(roots, clock));
    Ok(Session { profile, areas, devices, apps, start, clock, workplaces })
}

/// Programs say themselves where they write, so nothing of an area but its name is asked for.
fn area(path: &str) -> TargetArea {
    TargetArea {
        path: path.to_string(),
        start_bytes: 0,
        length_bytes: 0,
        align_bytes: 1,
        writable: true,
        scratch_dir: std::env::temp_dir(),
        keep_dir: None,
    }
}

fn start_facts(
    profile: &Profile,
    workplaces: &[Workplace],
    paths: &[String],
    clock: Clock,
    notes: Vec<StartNote>,
) -> Result<Start, GuardError> {
    let mut targets = Vec::new();
    for (workplace, path) in workplaces.iter().zip(paths) {
        let found = rustix::fs::fstatvfs(workplace.root()).map_err(|e| refuse(format!("{path}: {e}")))?;
        let size_bytes = found.f_blocks.saturating_mul(found.f_frsize);
        targets.push(TargetFacts {
            data_bytes: found.f_bavail.saturating_mul(found.f_frsize),
            align_bytes: 1,
            unwritten: Some(Unwritten::None),
            ..TargetFacts::new(path.clone(), TargetKind::Directory, size_bytes)
        });
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Start {
        schema: SCHEMA,
        start_unix_ns: now.as_nanos() as u64,
        engine: Engine::Files,
        engine_reason: EngineReason::Files,
        io: IoPath::Buffered,
        io_reason: Some(BufferedReason::Programs),
        clock: ClockFacts { source: clock.name().into(), read_cost_ns: clock.read_cost_ns },
        reap: Some(1),
        submit: None,
        submit_reason: None,
        features: Vec::new(),
        targets,
        phases: profile.phase.iter().map(phase_facts).collect(),
        notes,
    })
}

impl Session {
    /// Runs to the end, and takes away what it has made. Events go to `emit`; the last one is [`Event::End`].
    pub fn run(mut self, control: &RunControl, emit: &mut dyn FnMut(Event)) {
        emit(Event::Start(Box::new(self.start.clone())));
        let mut made = self.workplaces.iter().enumerate();
        let made = made.try_for_each(|(target, w)| w.make_directories(self.apps.directories(target)));
        let mut end = None;
        match made {
            Ok(()) => {
                let mut hold_end = |event: Event| match event {
                    // Told when the directories are gone.
                    Event::End { .. } => end = Some(event),
                    event => emit(event),
                };
                let devices = self.devices.clone();
                conductor::run_with(
                    &self.profile,
                    &self.areas,
                    devices,
                    Verifiers::new(0),
                    &self.apps,
                    control,
                    &mut hold_end,
                );
            }
            Err(why) => {
                let (end_ns, message) = (self.clock.now_ns(), EndReason::other(why));
                end = Some(Event::End { end_ns, outcome: RunOutcome::Failed, message });
            }
        }
        let left = self.workplaces.iter_mut().filter_map(|w| w.remove().err()).filter_map(EndReason::other);
        let left: Vec<EndReason> = left.collect();
        if let Some(Event::End { end_ns, outcome, message }) = end {
            let message = EndReason::of_all(message.into_iter().chain(left).collect());
            emit(Event::End { end_ns, outcome, message });
        }
    }
}
