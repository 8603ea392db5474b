//! From the description of a brick to the parts of a system.

use std::collections::VecDeque;

use engine::rng;

use crate::SECTOR_BYTES;
use crate::array::Array;
use crate::brick::{Brick, CloudParameters, Condition, ControllerParameters, DriveParameters, Level};
use crate::cloud::Cloud;
use crate::controller::Link;
use crate::drive::Drive;
use crate::gather::Gather;
use crate::member::Member;
use crate::region_log::RegionLog;
use crate::ssd::Ssd;
use crate::system::{Background, Cache};
use crate::write_back::{ReadAhead, WriteBack};

fn member_of(p: &DriveParameters, number: u64, seed: u64) -> Result<Member, String> {
    let own = rng::mix(seed ^ rng::mix(number + 1));
    Ok(match p {
        DriveParameters::Rotating(p) => Member::Rotating(Box::new(Drive::new(p, own)?)),
        DriveParameters::Ssd(p) => Member::Ssd(Box::new(Ssd::new(p, own))),
        DriveParameters::Cloud(p) => {
            let seeded = CloudParameters { seed: p.seed.wrapping_add(own), ..p.clone() };
            Member::Cloud(Box::new(Cloud::new(&seeded)))
        }
    })
}

pub(crate) fn cache_of(keeper: Option<&ControllerParameters>, array: &Array, rebuilds: bool) -> Cache {
    let row = array.row_bytes();
    let cached = keeper.filter(|k| k.cache_bytes.0 > 0);
    let ahead = cached.filter(|k| k.read_ahead_bytes.0 > 0);
    let logged = keeper.filter(|k| rebuilds && array.is_mirror() && k.region_log_bytes.0 > 0);
    let gathers =
        keeper.filter(|k| array.has_parity() && k.stripe_cache_bytes.0 > 0 && !(k.write_back && k.cache_bytes.0 > 0));
    Cache {
        write_back: cached.filter(|k| k.write_back).map(|k| WriteBack::new(k.cache_bytes.0, row)),
        read_ahead: ahead.map(|k| ReadAhead::new(k.read_ahead_bytes.0, row, array.capacity_bytes())),
        region_log: logged.map(|k| RegionLog::new(k.region_log_bytes.0)),
        gather: gathers.map(|k| Gather::new(k.stripe_cache_bytes.0 * array.loads.len() as u64, row)),
        blocked: VecDeque::new(),
        flushing: Vec::new(),
        whole_moving: 0,
        partial_moving: 0,
    }
}

/// Whether this volume or one beside it is being rebuilt.
pub(crate) fn is_rebuilding(brick: &Brick) -> bool {
    matches!(brick.condition, Condition::Rebuilding | Condition::NeighbourRebuilding)
}

/// Whether drives cache writes; none where their own setting stands.
pub(crate) fn drive_caches(brick: &Brick) -> Option<bool> {
    let rebuilds = is_rebuilding(brick);
    let redundant = !matches!(brick.level, Level::Jbod | Level::Raid0);
    let through =
        |p: &ControllerParameters| !p.drive_write_cache || (rebuilds && redundant && p.rebuild_writes_through);
    if brick.keeper().is_some_and(through) {
        return Some(false);
    }
    brick.write_cache
}

/// Links that drives share: a controller's, or the host's below a software array, such as what an instance gives all its
/// volumes, or a bridge its drives. One that each drive has for itself is in its own interface.
pub(crate) fn links_of(brick: &Brick) -> Vec<Link> {
    let of_controller = brick.controller.as_ref().map(|p| (p, p.links * brick.controllers));
    let of_host = brick.software.as_ref().map(|p| (p, p.links));
    let shared = of_controller.into_iter().chain(of_host).find(|(p, links)| *links > 0 && p.link_mb_per_s > 0.0);
    shared.map_or_else(Vec::new, |(p, links)| (0..links).map(|_| Link::new(p.link_mb_per_s)).collect())
}

/// A drive whose interface is no faster than the controller's port.
fn behind_port(drive: &DriveParameters, controller: Option<&ControllerParameters>) -> DriveParameters {
    let mut drive = drive.clone();
    let own = controller.filter(|c| c.links == 0 && c.link_mb_per_s > 0.0).map(|c| c.link_mb_per_s);
    match (&mut drive, own) {
        (DriveParameters::Rotating(p), Some(rate)) => p.interface_mb_per_s = p.interface_mb_per_s.min(rate),
        (DriveParameters::Ssd(p), Some(rate)) => p.interface_mb_per_s = p.interface_mb_per_s.min(rate),
        _ => {}
    }
    drive
}

/// Drives in the order of their numbers; spares that may be needed come last.
pub(crate) fn members_of(brick: &Brick) -> Result<Vec<Member>, String> {
    let own = brick.members - brick.other_members;
    let kind = |number: u32| match &brick.other_drive {
        Some(other) if number >= own => other,
        _ => &brick.drive,
    };
    let spares = if brick.failures.is_empty() { 0 } else { brick.spares };
    let numbered =
        (0..brick.members).map(|n| (kind(n), n)).chain((0..spares).map(|n| (&brick.drive, brick.members + n)));
    let controller = brick.controller.as_ref();
    numbered.map(|(drive, number)| member_of(&behind_port(drive, controller), u64::from(number), brick.seed)).collect()
}

pub(crate) fn background_of(
    brick: &Brick,
    keeper: Option<&ControllerParameters>,
    member_bytes: u64,
) -> Option<Background> {
    let wanted = matches!(brick.condition, Condition::Rebuilding | Condition::Initializing | Condition::Scrubbing);
    let keeper = keeper.filter(|_| wanted)?;
    let background = Background::of(keeper);
    let chunk_bytes = background.chunk_bytes;
    let at = (member_bytes as f64 * brick.rebuild_position / 100.0) as u64 / chunk_bytes * chunk_bytes;
    let at = if at + SECTOR_BYTES > member_bytes { 0 } else { at };
    Some(Background { condition: brick.condition, at, ..background })
}
