//! A run on real storage from its first check to its last event: opens the targets, chooses the engine, fills what was
//! never written, and hands over to the conductor.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use engine::conductor::{self, Filled, NotFilled, RunControl};
use engine::control::State;
use engine::device::Devices;
use engine::event::{
    ClockFacts, EndReason, Engine, Event, IoPath, PhaseFacts, RunOutcome, SCHEMA, Start, StartNote, StreamFacts,
    TargetFacts, TargetKind as Kind, Unwritten,
};
use engine::program::{NoPrograms, Programs};
use engine::streams::{TargetArea, Verifiers, build_lanes};
use plan::{CacheState, EngineChoice, FillChoice, IoMode, Mistake, Profile};
use serde::Deserialize;

use crate::clock::Clock;
use crate::guard::{Access, Consent, DATA_START_BYTES, GuardError, Guarded, Header, TargetKind};
use crate::guard::{
    claim, could_create, empty_space, erase_header, hole_bytes, new_uuid, open, read_header, still_filled,
    when_released, write_header,
};
use crate::storage::{Opened, Storage, honours_of};

/// What the user allows and wishes, beside the profile.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Room for data in a target file that doesn't exist yet.
    pub create_bytes: Option<u64>,
    /// Targets that `--overwrite` names.
    pub overwrite: Vec<PathBuf>,
    pub destroys_data: bool,
    /// Where maps of a verified run are kept; the system's directory for temporary files unless set.
    pub scratch_dir: Option<PathBuf>,
    /// Where they stay, so that the next run with the same directory goes on to check what this one wrote.
    pub verify_keep: Option<PathBuf>,
    /// Other hosts of the same run have the same files, which they write as well.
    pub shared: bool,
    /// An empty file that gets every request of the phases as a trace.
    pub take: Option<PathBuf>,
    /// Requests become no-operations of the ring: the run shows what the loop and the ring cost by themselves.
    pub nop: bool,
}

/// A target that is open and ready.
struct Target {
    path: PathBuf,
    guarded: Guarded,
    area: TargetArea,
    created: bool,
    /// A device that becomes ours once everything else has been checked.
    claims: bool,
    /// A device on which a trace is replayed: its offsets are those of the trace, also where our header lies.
    is_whole: bool,
}

/// A run that may begin.
pub struct Session {
    profile: Profile,
    targets: Vec<Target>,
    storage: Arc<Storage>,
    start: Start,
    clock: Clock,
    run_id: u64,
    programs: Box<dyn Programs>,
    take: Option<PathBuf>,
}

/// Makes the programs of a run. Those that a check tries are not those that run.
pub type MakePrograms = fn() -> Box<dyn Programs>;

fn refuse(mistake: impl Into<Mistake>) -> GuardError {
    mistake.into().into()
}

/// Opens everything that a run needs and checks that it can run. A file that this created is removed if it can't.
pub fn prepare(profile: Profile, paths: &[String], options: &Options) -> Result<Session, GuardError> {
    prepare_with(profile, paths, options, || Box::new(NoPrograms))
}

/// The same for a profile whose streams may be programs.
pub fn prepare_with(
    profile: Profile,
    paths: &[String],
    options: &Options,
    programs: MakePrograms,
) -> Result<Session, GuardError> {
    check_count(&profile, paths)?;
    let mut targets: Vec<Target> = Vec::new();
    let mut ready = || -> Result<(Arc<Storage>, Clock, Vec<StartNote>), GuardError> {
        for path in paths {
            targets.push(open_target(&profile, Path::new(path), options)?);
        }
        // Only tried here; what is kept is for the run itself.
        let tried = |t: &Target| TargetArea { keep_dir: None, ..t.area.clone() };
        let areas: Vec<TargetArea> = targets.iter().map(tried).collect();
        try_lanes(&profile, &areas, programs)?;
        let clock = Clock::start();
        let opened: Vec<Opened> = targets.iter().map(Target::opened).collect::<Result<_, _>>()?;
        let storage = Storage::new(opened, &profile, clock, options.nop).map_err(refuse)?;
        let notes = storage.honours().check(&profile, options.nop).map_err(refuse)?;
        // The first write of a run, after the last thing that could refuse it.
        for target in targets.iter().filter(|t| t.claims) {
            target.claim()?;
        }
        Ok((Arc::new(storage), clock, notes))
    };
    match ready() {
        Ok((storage, clock, notes)) => {
            let start = Start { notes, ..start_facts(&profile, &targets, &storage, clock) };
            let run_id = start.start_unix_ns;
            Ok(Session {
                profile,
                targets,
                storage,
                start,
                clock,
                run_id,
                programs: programs(),
                take: options.take.clone(),
            })
        }
        Err(error) => {
            for target in targets.iter().filter(|t| t.created) {
                // It holds nothing yet; the error that is told matters more than one of the removal.
                let _ = place::remove_path(&target.path, &target.guarded.file);
            }
            Err(error)
        }
    }
}

/// A target that is open and ours, or will be once it is claimed.
pub struct Taken {
    pub guarded: Guarded,
    /// It did not exist before.
    pub created: bool,
    /// Its header has not been written yet.
    pub claims: bool,
}

impl Taken {
    /// Writes the header of what has none yet: the first write, after the last thing that could refuse it.
    pub fn claim(&self, path: &Path) -> Result<(), GuardError> {
        match &self.guarded.header {
            Some(header) if self.claims => write_claim(path, &self.guarded, header),
            _ => Ok(()),
        }
    }
}

/// Opens a target through the guard, and for writing sees to it that nobody else writes it as long as it is open.
pub fn take(path: &Path, access: Access, direct: bool, options: &Options) -> Result<Taken, GuardError> {
    let created = options.create_bytes.is_some() && !path.exists();
    let create_bytes = options.create_bytes.map(|b| b.next_multiple_of(DATA_START_BYTES));
    let mut guarded = open(path, access, direct, create_bytes, &consent(path, options))?;
    if access == Access::Write && guarded.kind == TargetKind::File {
        lock_file(path, &guarded.file, options.shared)?;
    }
    let claims = access == Access::Write && guarded.header.is_none();
    if claims {
        guarded.header = Some(header_for(path, &guarded)?);
    }
    Ok(Taken { guarded, created, claims })
}

/// Whether a run could begin, by every check that [`prepare`] makes; nothing is made, written or filled.
///
/// A target that is yet to be made counts as a file of its size; whether its file system takes direct transfers shows
/// only when it is there.
pub fn check(profile: &Profile, paths: &[String], options: &Options, programs: MakePrograms) -> Result<(), GuardError> {
    check_count(profile, paths)?;
    let mut areas = Vec::new();
    let mut opened = Vec::new();
    for path in paths {
        let place = Path::new(path);
        match options.create_bytes.map(|bytes| bytes.next_multiple_of(DATA_START_BYTES)) {
            Some(bytes) if !place.exists() => {
                could_create(place, bytes)?;
                areas.push(area_to_be(path, bytes, options));
            }
            _ => {
                let target = open_target(profile, place, &Options { verify_keep: None, ..options.clone() })?;
                opened.push(target.opened()?);
                areas.push(target.area);
            }
        }
    }
    try_lanes(profile, &areas, programs)?;
    let honours = match opened.len() == paths.len() {
        true => Storage::new(opened, profile, Clock::start(), options.nop).map_err(refuse)?.honours(),
        false => honours_of(profile.engine != EngineChoice::Psync),
    };
    honours.check(profile, options.nop).map(|_| ()).map_err(refuse)
}

fn area_to_be(path: &str, length_bytes: u64, options: &Options) -> TargetArea {
    TargetArea {
        path: path.to_string(),
        start_bytes: DATA_START_BYTES,
        length_bytes,
        align_bytes: 1,
        writable: true,
        scratch_dir: options.scratch_dir.clone().unwrap_or_else(std::env::temp_dir),
        keep_dir: None,
    }
}

fn check_count(profile: &Profile, paths: &[String]) -> Result<(), GuardError> {
    let wanted = profile.target_count();
    if paths.len() == wanted {
        return Ok(());
    }
    Err(refuse(format!("the profile speaks of {wanted} target(s), {} given; name one path for each", paths.len())))
}

fn try_lanes(profile: &Profile, areas: &[TargetArea], programs: MakePrograms) -> Result<(), GuardError> {
    let tried = programs();
    // Kept from phase to phase as in the run: what a later phase verifies must fit what an earlier one did.
    let mut verifiers = Verifiers::new(0);
    for phase in 0..profile.phase.len() {
        build_lanes(profile, phase, areas, &mut verifiers, &*tried).map_err(refuse)?;
    }
    Ok(())
}

fn consent(path: &Path, options: &Options) -> Consent {
    let named = options.overwrite.iter().any(|o| same_path(o, path));
    Consent { overwrite: named, destroys_data: options.destroys_data }
}

fn access_for(profile: &Profile, path: &Path, options: &Options) -> Access {
    let created = options.create_bytes.is_some() && !path.exists();
    // What is ours or given to us may be filled, so it is opened for writing even where the load only reads.
    let given = consent(path, options).overwrite || ours_unfilled(path);
    let unfilled = !profile.writes() && profile.fill == FillChoice::Auto && given;
    if profile.writes() || created || unfilled { Access::Write } else { Access::Read }
}

fn open_target(profile: &Profile, path: &Path, options: &Options) -> Result<Target, GuardError> {
    let access = access_for(profile, path, options);
    let Taken { guarded, created, claims } = take(path, access, profile.io == IoMode::Direct, options)?;
    let is_whole = guarded.kind == TargetKind::Block && profile.replays();
    let (start_bytes, length_bytes) = match filled_area(&guarded) {
        Some(data) if !is_whole => data,
        _ => (0, guarded.size_bytes),
    };
    let area = TargetArea {
        path: path.display().to_string(),
        start_bytes,
        length_bytes,
        align_bytes: if guarded.is_direct() { u64::from(guarded.offset_align_bytes) } else { 1 },
        writable: access == Access::Write,
        scratch_dir: options.scratch_dir.clone().unwrap_or_else(std::env::temp_dir),
        keep_dir: kept_in(options, &guarded)?,
    };
    Ok(Target { path: path.to_path_buf(), guarded, area, created, claims, is_whole })
}

/// Start and length of what is ours behind a header, and is filled.
fn filled_area(guarded: &Guarded) -> Option<(u64, u64)> {
    let room_bytes = guarded.size_bytes.saturating_sub(DATA_START_BYTES);
    guarded.header.as_ref().map(|header| (DATA_START_BYTES, header.data_bytes.min(room_bytes)))
}

/// Each time a target becomes ours it begins anew, and so does what is known of it.
fn kept_in(options: &Options, guarded: &Guarded) -> Result<Option<PathBuf>, GuardError> {
    let (Some(directory), Some(header)) = (&options.verify_keep, &guarded.header) else { return Ok(None) };
    let name: String = header.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let place = directory.join(&name);
    let refused = |why: String| refuse(format!("{}: {why}; name another place", place.display()));
    let found = place::directory(directory).map_err(|e| refused(format!("cannot be made: {e}")))?;
    if let Some(why) = place::kernels(&found).map_err(|e| refused(e.to_string()))? {
        return Err(refused(why));
    }
    match rustix::fs::mkdirat(&found, &*name, rustix::fs::Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(Some(place)),
        Err(e) => Err(refused(format!("cannot be made: {e}"))),
    }
}

/// Two runs that write one file would measure each other; hosts of one run are meant to. Devices are opened exclusively
/// anyway. On NFS the lock is the server's, and other hosts see it.
fn lock_file(path: &Path, file: &File, shared: bool) -> Result<(), GuardError> {
    use rustix::fs::FlockOperation::{NonBlockingLockExclusive, NonBlockingLockShared};
    let operation = if shared { NonBlockingLockShared } else { NonBlockingLockExclusive };
    match when_released(|| rustix::fs::flock(file, operation)) {
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(refuse(format!("{}: another run is using it; wait for its end or name another file", path.display())))
        }
        // A file system without locks is no reason not to measure on it.
        _ => Ok(()),
    }
}

fn same_path(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn ours_unfilled(path: &Path) -> bool {
    let regular = std::fs::metadata(path).is_ok_and(|m| m.is_file());
    let file = regular.then(|| File::open(path).ok()).flatten();
    let header = file.and_then(|f| read_header(&f).ok().flatten().map(|found| still_filled(&f, found)));
    header.is_some_and(|h| h.filled_bytes < h.data_bytes)
}

/// The header of a device that was given to us: it becomes ours, so that its filled share is known next time.
fn header_for(path: &Path, guarded: &Guarded) -> Result<Header, GuardError> {
    let data_bytes = guarded.size_bytes.saturating_sub(DATA_START_BYTES) / DATA_START_BYTES * DATA_START_BYTES;
    if data_bytes == 0 {
        return Err(refuse(format!(
            "{}: holds only {} bytes; at least 2MiB are needed",
            path.display(),
            guarded.size_bytes
        )));
    }
    let uuid = new_uuid().map_err(|e| refuse(format!("{}: no random number could be had: {e}", path.display())))?;
    Ok(Header { uuid, data_bytes, seed: 0, filled_bytes: 0, is_trimmed: false })
}

fn write_claim(path: &Path, guarded: &Guarded, header: &Header) -> Result<(), GuardError> {
    claim(&guarded.file, guarded.size_bytes, header).map_err(|e| GuardError {
        message: format!("{}: its header could not be written: {e}", path.display()),
        edit: None,
        bad_input: false,
    })
}

impl Target {
    fn is_device(&self) -> bool {
        self.guarded.kind == TargetKind::Block
    }

    fn opened(&self) -> Result<Opened, GuardError> {
        let file = self.guarded.file.try_clone().map_err(|e| refuse(format!("{}: {e}", self.path.display())))?;
        Ok(Opened {
            file,
            block: self.guarded.kind == TargetKind::Block,
            polls: polls(&self.guarded),
            direct: self.guarded.is_direct(),
            memory_align_bytes: self.guarded.memory_align_bytes,
        })
    }

    fn claim(&self) -> Result<(), GuardError> {
        let Some(header) = &self.guarded.header else { return Ok(()) };
        write_claim(&self.path, &self.guarded, header)
    }

    /// Bytes behind the header that were never written, as far as that is known.
    fn unwritten_bytes(&self) -> Option<u64> {
        let (_, length_bytes) = filled_area(&self.guarded)?;
        self.guarded.header.as_ref().map(|header| length_bytes.saturating_sub(header.filled_bytes))
    }

    /// Bytes that hold no data wherever they lie, of a file of ours by its file system. What was on a device before our
    /// header is nowhere recorded, so what we did not fill may hold data of others.
    fn never_written(&self) -> Unwritten {
        let told = self.unwritten_bytes();
        let is_file = self.guarded.kind == TargetKind::File;
        let counted = filled_area(&self.guarded)
            .filter(|_| is_file)
            .and_then(|(start_bytes, length_bytes)| hole_bytes(&self.guarded.file, start_bytes, length_bytes));
        let is_trimmed = self.guarded.header.as_ref().is_some_and(|header| header.is_trimmed);
        match counted.or(told) {
            Some(1..) if counted.is_none() && (is_trimmed || !is_file) => Unwritten::Unknown,
            Some(0) => Unwritten::None,
            Some(bytes) => Unwritten::Bytes { bytes },
            None => Unwritten::Unknown,
        }
    }

    /// Whether the run finds its space reserved, and no data in it.
    fn is_emptied(&self, profile: &Profile) -> bool {
        let may = self.area.writable && self.guarded.kind == TargetKind::File && self.guarded.header.is_some();
        may && profile.fill == FillChoice::Space
    }

    /// The same, where it may be mended.
    fn unfilled_bytes(&self) -> u64 {
        if self.area.writable { self.unwritten_bytes().unwrap_or(0) } else { 0 }
    }

    /// A trace may write where the header lies. Half of one would be refused as damaged, if the run were killed, so the
    /// header is gone meanwhile.
    fn lift_header(&self) -> Result<(), String> {
        let is_lifted = self.is_whole && self.area.writable && self.guarded.header.is_some();
        if !is_lifted {
            return Ok(());
        }
        let why = |e: std::io::Error| format!("{}: its header could not be taken away: {e}", self.path.display());
        erase_header(&self.guarded.file).map_err(why)
    }

    fn empty(&mut self) -> Result<(), String> {
        if self.guarded.header.as_ref().is_some_and(|header| header.filled_bytes > 0) {
            record_filled(self, 0)?;
        }
        empty_space(&self.guarded.file, self.area.start_bytes, self.area.length_bytes).map_err(|e| {
            format!(
                "{}: its space cannot be reserved without data ({e}); with fill = \"never\" and a new file, it holds none",
                self.path.display()
            )
        })
    }

    /// The device stays ours, and what was filled stays known. Where this fails, it is filled again next time.
    fn restore_header(&self) {
        if let Some(header) = self.guarded.header.as_ref().filter(|_| self.is_whole && self.area.writable) {
            let _ = write_header(&self.guarded.file, header);
        }
    }
}

/// Whether the device below says that it polls for completions.
fn polls(guarded: &Guarded) -> bool {
    let Ok(meta) = guarded.file.metadata() else { return false };
    let device = if guarded.kind == TargetKind::Block { meta.st_rdev() } else { meta.st_dev() };
    let base = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    let read = |path: String| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1");
    read(format!("{base}/queue/io_poll")) || read(format!("{base}/../queue/io_poll"))
}

fn start_facts(profile: &Profile, targets: &[Target], storage: &Storage, clock: Clock) -> Start {
    let choice = storage.choice();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let buffered = targets.iter().find_map(|t| t.guarded.buffered.clone());
    let kind = |t: &Target| if t.guarded.kind == TargetKind::Block { Kind::Block } else { Kind::File };
    let target_facts = |t: &Target| TargetFacts {
        data_start_bytes: t.area.start_bytes,
        data_bytes: t.area.length_bytes,
        align_bytes: t.guarded.offset_align_bytes,
        unwritten: Some(match profile.fill {
            FillChoice::Auto if t.area.writable => Unwritten::None,
            _ if t.is_emptied(profile) => Unwritten::Bytes { bytes: t.area.length_bytes },
            _ => t.never_written(),
        }),
        ..TargetFacts::new(t.area.path.clone(), kind(t), t.guarded.size_bytes)
    };
    Start {
        schema: SCHEMA,
        start_unix_ns: now.as_nanos() as u64,
        engine: if choice.uring { Engine::IoUring } else { Engine::Psync },
        engine_reason: choice.reason.clone(),
        io: if buffered.is_some() { IoPath::Buffered } else { IoPath::Direct },
        io_reason: buffered,
        clock: ClockFacts { source: clock.name().into(), read_cost_ns: clock.read_cost_ns },
        reap: Some(profile.reap),
        submit: choice.submission.as_ref().and_then(|s| s.at_most),
        submit_reason: choice.submission.as_ref().map(|s| s.reason.clone()),
        features: choice.features.clone(),
        targets: targets.iter().map(target_facts).collect(),
        phases: profile.phase.iter().map(phase_facts).collect(),
        notes: Vec::new(),
    }
}

/// What the first event says of a phase.
pub fn phase_facts(p: &plan::Phase) -> PhaseFacts {
    PhaseFacts { name: p.name.clone(), streams: p.stream.iter().map(stream_facts).collect() }
}

fn stream_facts(s: &plan::Stream) -> StreamFacts {
    StreamFacts { name: s.name.clone(), target: s.target, workers: s.workers, depth: s.depth, verify: s.verify }
}

impl Session {
    /// Runs to the end. Events go to `emit`; the last one is [`Event::End`].
    pub fn run(mut self, control: &RunControl, emit: &mut dyn FnMut(Event)) {
        emit(Event::Start(Box::new(self.start.clone())));
        let mut verifiers = Verifiers::new(self.run_id);
        let ready = self.ready_targets(&mut verifiers, control, emit);
        let run = |emit: &mut dyn FnMut(Event)| match ready {
            Ok(()) => self.run_phases(verifiers, control, emit),
            Err(message) => {
                let interrupted = control.state() != State::Run;
                let outcome = if interrupted { RunOutcome::Interrupted } else { RunOutcome::Failed };
                emit(Event::End { end_ns: self.clock.now_ns(), outcome, message });
            }
        };
        // Before the last event: who has that may end the process.
        let restore = || {
            // Storage that no longer answers would hold up the end.
            if control.state() != State::Abandon {
                self.targets.iter().for_each(Target::restore_header);
            }
            Ok(())
        };
        retrace::run_to_end(run, restore, emit);
    }

    fn run_phases(&self, verifiers: Verifiers, control: &RunControl, emit: &mut dyn FnMut(Event)) {
        let areas: Vec<TargetArea> = self.targets.iter().map(|t| t.area.clone()).collect();
        let storage = self.storage.clone();
        let Some(path) = &self.take else {
            return conductor::run_with(&self.profile, &areas, storage, verifiers, &*self.programs, control, emit);
        };
        let header = self.header();
        let start = |target: &Target| if target.is_device() { 0 } else { target.area.start_bytes };
        let starts = self.targets.iter().map(start).collect();
        match retrace::take(storage, path, &header, starts) {
            Ok(taken) => {
                let taken = Arc::new(taken);
                let run = |emit: &mut dyn FnMut(Event)| {
                    let (programs, taken) = (&*self.programs, taken.clone());
                    conductor::run_with(&self.profile, &areas, taken, verifiers, programs, control, emit);
                };
                retrace::run_to_end(run, || taken.finish().map(|_| ()), emit);
            }
            Err(why) => {
                let (end_ns, message) = (self.clock.now_ns(), EndReason::other(why));
                emit(Event::End { end_ns, outcome: RunOutcome::Failed, message });
            }
        }
    }

    /// What a trace of the run says of itself. Its offsets are those of a device, and those of the data of a file.
    fn header(&self) -> trace::Header {
        let device = |t: &Target| trace::Device {
            name: t.area.path.clone(),
            capacity_bytes: if t.is_device() { t.guarded.size_bytes } else { t.area.length_bytes },
            sector_bytes: t.area.align_bytes as u32,
        };
        trace::Header {
            devices: self.targets.iter().map(device).collect(),
            clock: self.clock.name().into(),
            start_unix_ns: self.start.start_unix_ns,
            source: "a run of brickyard".into(),
            before_queue: false,
        }
    }

    fn ready_targets(
        &mut self,
        verifiers: &mut Verifiers,
        control: &RunControl,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), Option<EndReason>> {
        for number in 0..self.targets.len() {
            if self.profile.fill == FillChoice::Auto && self.targets[number].unfilled_bytes() > 0 {
                let filling = verifiers.to_fill(&self.profile, number, &self.targets[number].area);
                self.fill(number, filling, control, emit)?;
            }
            if self.targets[number].is_emptied(&self.profile) {
                self.targets[number].empty().map_err(EndReason::other)?;
            }
        }
        for (number, target) in self.targets.iter_mut().enumerate() {
            if let Some(trimmed_from) = first_trimmed(&self.profile, number, target.area.length_bytes) {
                // Trimmed blocks answer like never-written ones, so the next run has to fill again from there on.
                let trimmed_from = (target.area.start_bytes + trimmed_from).saturating_sub(DATA_START_BYTES);
                let filled = target.guarded.header.as_ref().map_or(0, |h| h.filled_bytes.min(trimmed_from));
                if let Some(header) = &mut target.guarded.header {
                    header.is_trimmed = true;
                }
                record_filled(target, filled).map_err(EndReason::other)?;
            }
            // What an earlier run left in the page cache would be written back during this one, and count as others'. An
            // error is that of those writes; ours report their own.
            let _ = target.guarded.file.sync_data();
            if self.profile.io == IoMode::Buffered && self.profile.cache == CacheState::Cold {
                let target_path = target.path.display().to_string();
                drop_cache(&target.guarded)
                    .map_err(|e| EndReason::CacheNotDropped { target: target_path, error: e.to_string() })?;
            }
            target.lift_header().map_err(EndReason::other)?;
        }
        Ok(())
    }

    /// Writes data where none was ever written: holes and never-written blocks answer too fast.
    fn fill(
        &mut self,
        number: usize,
        filling: Verifiers,
        control: &RunControl,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), Option<EndReason>> {
        let target = &mut self.targets[number];
        let (start_bytes, total_bytes) = filled_area(&target.guarded).unwrap_or_default();
        let before_bytes = total_bytes - target.unfilled_bytes();
        let mut area = TargetArea { keep_dir: None, ..target.area.clone() };
        area.start_bytes = start_bytes + before_bytes;
        area.length_bytes = total_bytes - before_bytes;
        let profile = Profile::from_toml(FILL, &[]).map_err(|e| EndReason::other(e.to_string()))?;
        let opened = target.opened().map_err(|e| EndReason::other(e.message))?;
        let storage = Storage::new(vec![opened], &profile, self.clock, false).map_err(EndReason::other)?;
        let mut done_bytes = 0;
        let mut progress = |filled: Filled| match filled {
            Filled::Bytes(bytes) => {
                done_bytes = bytes;
                emit(Event::Fill { target: number, done_bytes: before_bytes + bytes, total_bytes });
            }
            // A place that is bad from the start is an error of the run like one that goes bad later.
            Filled::Failed(error) => emit(Event::Error(error)),
        };
        progress(Filled::Bytes(0));
        let result = conductor::fill(&profile, &[area], Arc::new(storage), filling, control, &mut progress);
        // Requests are issued in order and all that were issued have ended, so without a failure what was done is a
        // prefix. What is abandoned has ended in no order, on storage that may answer nothing any more.
        if result.is_ok() || control.state() == State::Drain {
            let synced = target.guarded.file.sync_data();
            synced.map_err(|e| EndReason::other(format!("{}: {e}", target.path.display())))?;
            record_filled(target, before_bytes + done_bytes).map_err(EndReason::other)?;
        }
        result.map_err(|e| match e {
            NotFilled::Failed(error) if control.state() == State::Run => {
                Some(EndReason::NotFilled { target: target.path.display().to_string(), error })
            }
            NotFilled::Failed(_) | NotFilled::Interrupted => None,
        })
    }
}

/// Where the first region begins that a stream trims on a target.
fn first_trimmed(profile: &Profile, target: usize, length_bytes: u64) -> Option<u64> {
    let streams = profile.phase.iter().flat_map(|p| &p.stream);
    streams.filter(|s| s.target == target && s.does().trims).map(|s| s.region.from.offset_bytes(length_bytes)).min()
}

/// The load that fills a target.
const FILL: &str = r#"
title = "fill"
interval = "200ms"
stop_on_error = true
[[phase]]
passes = 1
[[phase.stream]]
operations = { read = 0, write = 100 }
request = "1MiB"
depth = 8
"#;

fn record_filled(target: &mut Target, filled_bytes: u64) -> Result<(), String> {
    if let Some(header) = &mut target.guarded.header {
        header.filled_bytes = filled_bytes;
        header.is_trimmed &= filled_bytes < header.data_bytes;
        write_header(&target.guarded.file, header)
            .map_err(|e| format!("{}: its header could not be written: {e}", target.path.display()))?;
    }
    Ok(())
}

/// linux/fs.h: `_IO(0x12, 97)`.
const BLKFLSBUF: libc::c_ulong = 0x1261;

fn drop_cache(guarded: &Guarded) -> std::io::Result<()> {
    // A target that is open for reading only has nothing to write back through this descriptor.
    let _ = guarded.file.sync_data();
    if guarded.kind == TargetKind::Block {
        // SAFETY: takes no argument.
        if unsafe { libc::ioctl(guarded.file.as_raw_fd(), BLKFLSBUF) } == 0 {
            return Ok(());
        }
        return Err(std::io::Error::last_os_error());
    }
    Ok(rustix::fs::fadvise(&guarded.file, 0, None, rustix::fs::Advice::DontNeed)?)
}
