//! Duty: a run of any kind from its check to its last event: on real storage, on modelled bricks, or of programs in
//! directories. Whoever starts runs, in Python or without, starts them here.
//!
//! Refusal: it neither opens nor models anything itself, and prints nothing.

use apps::Apps;
use engine::conductor::RunControl;
use engine::event::Event;
use engine::program::{ProgramLane, ProgramPlace, Programs};
use plan::{Edit, Mistake, Profile};
use record::event::ServerFileEnd;

pub use block::session::Options as StorageOptions;
pub use sim::session::{Options as ModelOptions, is_modelled};

/// What the user allows and wishes, beside the profile. Of the two only the one that fits the targets may be set.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub storage: StorageOptions,
    pub model: ModelOptions,
}

/// Why a run cannot begin, in one line for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    pub edit: Option<Edit>,
    /// The user can mend it by other input; else the host has failed.
    pub bad_input: bool,
}

fn bad_input(mistake: impl Into<Mistake>) -> Refusal {
    let Mistake { message, edit } = mistake.into();
    Refusal { message, edit, bad_input: true }
}

impl From<block::guard::GuardError> for Refusal {
    fn from(error: block::guard::GuardError) -> Refusal {
        Refusal { message: error.message, edit: error.edit, bad_input: error.bad_input }
    }
}

impl Options {
    /// Options as JSON, of the kind that fits the targets; a key of the other kind is refused by its name.
    pub fn from_json(text: &str, targets: &[String]) -> Result<Options, Refusal> {
        let bad = |e: serde_json::Error| bad_input(format!("options: {e}"));
        if targets.iter().any(|t| is_modelled(t)) {
            let model = serde_json::from_str(text).map_err(bad)?;
            return Ok(Options { model, ..Options::default() });
        }
        let storage = serde_json::from_str(text).map_err(bad)?;
        Ok(Options { storage, ..Options::default() })
    }
}

/// A run that may begin. Real storage and models never mix in one, because their clocks do not.
pub enum Session {
    Storage(Box<block::session::Session>),
    Model(Box<sim::session::Session>),
    /// Programs, whose targets are directories.
    Programs(Box<files::session::Session>),
}

/// Whatever a stream may name instead of a pattern on a file, device or model: parts of a server, and traces.
#[derive(Default)]
struct Sources {
    apps: Apps,
}

impl Programs for Sources {
    fn source(&self, place: &ProgramPlace) -> Result<ProgramLane, String> {
        match &place.stream.trace {
            Some(trace) => retrace::lane(place, trace),
            None => self.apps.source(place),
        }
    }

    fn server_files(&self) -> Vec<ServerFileEnd> {
        self.apps.server_files()
    }
}

fn sources() -> Box<dyn Programs> {
    Box::new(Sources::default())
}

/// What the targets are, by their names and by what is to be done on them.
enum Kind {
    Storage,
    Model,
    Programs,
}

/// Options of the other kind would have no effect.
fn kind_of(profile: &Profile, targets: &[String], options: &Options) -> Result<Kind, Refusal> {
    if let Some(stream) = profile.phase.iter().flat_map(|p| &p.stream).find(|s| !s.hosts.is_empty()) {
        let (name, hosts) = (&stream.name, stream.hosts.join(", "));
        return Err(bad_input(format!("stream {name:?} is for hosts {hosts}; name the hosts of the run with --hosts")));
    }
    if targets.iter().any(|t| is_modelled(t)) {
        sim::device::HONOURS.check(profile, options.storage.nop).map_err(bad_input)?;
        if options.storage != StorageOptions::default() {
            return Err(bad_input(
                "--size, --overwrite and consent have no effect on a modelled brick, whose capacity is its drives'; \
                 remove them",
            ));
        }
        return Ok(Kind::Model);
    }
    if options.model != ModelOptions::default() {
        return Err(bad_input("bricks and conditions of models have no effect on real targets; remove them"));
    }
    Ok(if profile.has_programs() { Kind::Programs } else { Kind::Storage })
}

/// Checks everything that a run needs before it begins, and opens its targets.
pub fn prepare(profile: Profile, targets: &[String], options: &Options) -> Result<Session, Refusal> {
    Ok(match kind_of(&profile, targets, options)? {
        Kind::Storage => {
            Session::Storage(Box::new(block::session::prepare_with(profile, targets, &options.storage, sources)?))
        }
        Kind::Programs => Session::Programs(Box::new(files::session::prepare(profile, targets, &options.storage)?)),
        Kind::Model => {
            let session = sim::session::prepare_with(profile, targets, &options.model, sources).map_err(bad_input)?;
            Session::Model(Box::new(session))
        }
    })
}

/// Refuses what [`prepare`] would refuse; nothing is made, written or filled.
pub fn check(profile: Profile, targets: &[String], options: &Options) -> Result<(), Refusal> {
    match kind_of(&profile, targets, options)? {
        Kind::Storage => Ok(block::session::check(&profile, targets, &options.storage, sources)?),
        Kind::Programs => Ok(files::session::check(&profile, targets, &options.storage)?),
        Kind::Model => {
            sim::session::prepare_with(profile, targets, &options.model, sources).map(|_| ()).map_err(bad_input)
        }
    }
}

impl Session {
    /// Runs to the end. Events go to `emit`; the last one is [`Event::End`].
    pub fn run(self, control: &RunControl, emit: &mut dyn FnMut(Event)) {
        match self {
            Session::Storage(session) => session.run(control, emit),
            Session::Model(session) => session.run(control, emit),
            Session::Programs(session) => session.run(control, emit),
        }
    }
}
