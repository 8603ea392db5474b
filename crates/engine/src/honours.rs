//! What a device obeys of what a profile can ask for, and the one place where a profile meets a device: a setting
//! without effect is refused where it would change what is measured, and named in a note where it would not.

use plan::{CacheState, Edit, EngineChoice, FillChoice, IoMode, Mistake, Profile};

use crate::device::Operation;
use crate::event::StartNote;
use crate::streams::does;

/// What a device obeys. Every device states every field, so that a new setting asks each of them, present and future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Honours {
    /// What a message calls the device.
    pub device: &'static str,
    /// `reap` above 1: completions come in batches.
    pub reap: bool,
    /// `submit`: requests are submitted in calls of so many.
    pub submit: bool,
    /// `engine` chooses between this device and another.
    pub engine: bool,
    /// `io = "buffered"` and `cache = "as_is"`: there is a page cache in front of it.
    pub page_cache: bool,
    /// `fill`: never-written parts are written first.
    pub fill: bool,
    /// `verify` and `data`: reads return what writes left.
    pub data: bool,
    /// `hang_after`: somebody watches requests that do not end.
    pub hangs: bool,
    pub flush: bool,
    pub trim: bool,
    /// Requests can be replaced by no-operations, to measure the loop itself.
    pub nop: bool,
}

impl Honours {
    /// Everything that a profile can ask for.
    pub const fn everything(device: &'static str) -> Honours {
        Honours {
            device,
            reap: true,
            submit: true,
            engine: true,
            page_cache: true,
            fill: true,
            data: true,
            hangs: true,
            flush: true,
            trim: true,
            nop: true,
        }
    }

    /// One line for the user where the device would ignore what the profile measures with; else a note for each setting
    /// that has no effect and does no harm.
    pub fn check(&self, profile: &Profile, nop: bool) -> Result<Vec<StartNote>, Mistake> {
        // Taken apart by name, so that a new field cannot be forgotten here.
        let Honours { device, reap, submit, engine, page_cache, fill, data, hangs, flush, trim, nop: nops } = *self;
        let verifies = streams(profile).any(|s| s.verify);
        let buffered = profile.io == IoMode::Buffered || profile.cache == CacheState::AsIs;
        let refusals: [(bool, Mistake); 7] = [
            (!reap && profile.reap > 1, format!("reap = {} has no effect on {device}; remove it", profile.reap).into()),
            (!submit && profile.submit.is_some(), format!("submit has no effect on {device}; remove it").into()),
            (
                !page_cache && buffered,
                format!("{device} has no page cache; remove io = \"buffered\" and cache = \"as_is\"").into(),
            ),
            (
                !data && verifies,
                Mistake::new(
                    format!("{device} carries no data, so there is nothing to verify; remove verify"),
                    Some(Edit::added(&["--set", "verify=false"])),
                ),
            ),
            (!flush && does(profile, Operation::Flush), format!("{device} cannot flush; remove flushes").into()),
            (!trim && does(profile, Operation::Trim), format!("{device} cannot trim; remove trims").into()),
            (!nops && nop, format!("no-operations (--nop) have no effect on {device}; remove --nop").into()),
        ];
        if let Some((_, refusal)) = refusals.into_iter().find(|(ignored, _)| *ignored) {
            return Err(refusal);
        }
        let shaped = streams(profile).any(|s| s.data != plan::Data::default());
        let (device, engine_asked) = (device.to_string(), engine_name(profile.engine).to_string());
        let notes = [
            (
                !engine && profile.engine != EngineChoice::Auto,
                StartNote::EngineIgnored { engine: engine_asked, device: device.clone() },
            ),
            (!fill && profile.fill != FillChoice::Auto, StartNote::FillIgnored { device: device.clone() }),
            (!data && shaped, StartNote::DataIgnored { device: device.clone() }),
            (!hangs && profile.hang_after != plan::default_hang_after(), StartNote::HangAfterIgnored { device }),
        ];
        Ok(notes.into_iter().filter(|(ignored, _)| *ignored).map(|(_, note)| note).collect())
    }
}

fn streams(profile: &Profile) -> impl Iterator<Item = &plan::Stream> {
    profile.phase.iter().flat_map(|phase| &phase.stream)
}

fn engine_name(engine: EngineChoice) -> &'static str {
    match engine {
        EngineChoice::Auto => "auto",
        EngineChoice::IoUring => "io_uring",
        EngineChoice::Psync => "psync",
    }
}
