//! Which writes a power cut takes: what the host was told is kept, until none of it lies in a volatile cache any more.
//! Kept only for bricks whose power is to fail.
//!
//! Members know data by stamps: that of the write itself, or that of a bundle where a cache wrote pieces of several
//! writes at once. A write is lost when any copy of what it wrote last is: after the cut a mirror may read either.

use std::collections::{BTreeMap, BTreeSet};

use super::jobs::Owner;
use super::{LostWrite, System};
use crate::member::Kind;
use crate::stamps::Stamped;

/// Acknowledged writes that are kept before it is looked which of them are still volatile.
const KEPT: usize = 4096;
/// Lost writes that are told one by one.
const TOLD: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Underway {
    stamp: u64,
    order: u64,
}

#[derive(Debug, Clone, Copy)]
struct Acknowledged {
    offset_bytes: u64,
    bytes: u64,
    at_ns: u64,
    order: u64,
    durable: bool,
}

#[derive(Debug)]
struct Bundle {
    array: usize,
    pieces: Vec<Stamped>,
    /// Not all of it has come to its members.
    moving: bool,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    stamps: u64,
    /// Counts what the host asks and hears, so that what happens at one instant has an order.
    order: u64,
    underway: BTreeMap<u32, Underway>,
    acknowledged: BTreeMap<u64, Acknowledged>,
    bundles: BTreeMap<u64, Bundle>,
    /// When the newest flush that has ended was asked for.
    flushed: u64,
    kept: usize,
}

/// Writes that the host believes in, and that are gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LostWrites {
    pub count: u64,
    /// Of them: had been acknowledged before the last flush was asked for, or were asked to be durable.
    pub promised: u64,
    /// The ones that were acknowledged first.
    pub oldest: Vec<LostWrite>,
}

impl Ledger {
    pub(super) fn asked(&mut self, number: u32, kind: Kind) {
        self.order += 1;
        if matches!(kind, Kind::Write | Kind::Flush) {
            let stamp = self.stamp();
            self.underway.insert(number, Underway { stamp, order: self.order });
        }
    }

    fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    pub(super) fn stamp_of(&self, number: u32) -> u64 {
        self.underway.get(&number).map_or(0, |u| u.stamp)
    }

    pub(super) fn arrived(&mut self, stamp: u64) {
        if let Some(bundle) = self.bundles.get_mut(&stamp) {
            bundle.moving = false;
        }
    }
}

impl System {
    /// The host hears that a request has ended.
    pub(super) fn told(&mut self, now_ns: u64, number: u32) {
        let Some(ledger) = self.ledger.as_mut() else { return };
        let Some(underway) = ledger.underway.remove(&number) else { return };
        let active = self.active.get(number);
        if active.failed {
            return;
        }
        let request = active.request;
        if request.kind == Kind::Flush {
            ledger.flushed = ledger.flushed.max(underway.order);
            return;
        }
        ledger.order += 1;
        let acknowledged = Acknowledged {
            offset_bytes: request.offset_bytes,
            bytes: u64::from(request.bytes),
            at_ns: now_ns,
            order: ledger.order,
            durable: request.durable,
        };
        ledger.acknowledged.insert(underway.stamp, acknowledged);
        if ledger.acknowledged.len() > ledger.kept.max(KEPT) {
            self.keep_volatile();
        }
    }

    /// Under which stamp a job's writes are known to members: what a cache writes is a bundle of its own.
    pub(super) fn stamp_of(&mut self, owner: Owner, array: usize) -> u64 {
        let Some(ledger) = self.ledger.as_mut() else { return 0 };
        let pieces = match owner {
            Owner::Request(number) => return ledger.stamp_of(number),
            Owner::Destage { controller, row, .. } => {
                let cache = self.caches[controller as usize].write_back.as_ref();
                cache.map_or(Vec::new(), |cache| cache.moving_stamps(row).to_vec())
            }
            Owner::Row { waiting } => {
                let numbers = self.rows.get(waiting).iter();
                let piece = |number: &u32| {
                    let request = self.active.get(*number).request;
                    let end = request.offset_bytes + u64::from(request.bytes);
                    Stamped { from: request.offset_bytes, end, stamp: ledger.stamp_of(*number) }
                };
                numbers.map(piece).collect()
            }
            Owner::Fetch { .. } | Owner::Record { .. } | Owner::Background { .. } | Owner::Pool { .. } => return 0,
        };
        let stamp = ledger.stamp();
        ledger.bundles.insert(stamp, Bundle { array, pieces, moving: true });
        stamp
    }

    /// Forgets the acknowledged writes of which nothing is volatile any more.
    fn keep_volatile(&mut self) {
        let mut seen = BTreeSet::new();
        self.members.iter().for_each(|member| member.note_stamps(&mut seen));
        self.caches.iter().filter_map(|c| c.write_back.as_ref()).for_each(|cache| cache.note_stamps(&mut seen));
        let Some(ledger) = self.ledger.as_mut() else { return };
        ledger.bundles.retain(|stamp, bundle| bundle.moving || seen.contains(stamp));
        seen.extend(ledger.bundles.values().flat_map(|b| b.pieces.iter().map(|p| p.stamp)));
        ledger.acknowledged.retain(|stamp, _| seen.contains(stamp));
        ledger.kept = 2 * ledger.acknowledged.len();
    }

    /// Which acknowledged writes are gone with these pieces of each drive and of each array's cache.
    pub(super) fn lost_writes(&mut self, now_ns: u64, drives: &[Vec<Stamped>], caches: &[Vec<Stamped>]) -> LostWrites {
        let Some(ledger) = self.ledger.take() else { return LostWrites::default() };
        let here = self.places.len() / self.arrays.len();
        let mut gone: BTreeSet<u64> = caches.iter().flatten().map(|p| p.stamp).collect();
        // By stamp: array, member and piece.
        let mut found: BTreeMap<u64, Vec<(usize, usize, Stamped)>> = BTreeMap::new();
        for (place, drive) in self.places.iter().enumerate() {
            for piece in &drives[*drive as usize] {
                found.entry(piece.stamp).or_default().push((place / here, place % here, *piece));
            }
        }
        for (stamp, pieces) in found {
            for (array, wrote) in self.wrote(&ledger, stamp) {
                let of_array: Vec<(usize, Stamped)> =
                    pieces.iter().filter(|p| p.0 == array).map(|(_, member, piece)| (*member, *piece)).collect();
                if self.arrays[array].keeps_on(wrote.from, wrote.end - wrote.from, &of_array) {
                    gone.insert(wrote.stamp);
                }
            }
        }
        let mut lost: Vec<&Acknowledged> = gone.iter().filter_map(|stamp| ledger.acknowledged.get(stamp)).collect();
        lost.sort_by_key(|w| w.order);
        let told =
            |w: &&Acknowledged| LostWrite { offset_bytes: w.offset_bytes, bytes: w.bytes, age_ns: now_ns - w.at_ns };
        LostWrites {
            count: lost.len() as u64,
            promised: lost.iter().filter(|w| w.durable || w.order < ledger.flushed).count() as u64,
            oldest: lost.iter().take(TOLD).map(told).collect(),
        }
    }

    /// What was written under a stamp, by array.
    fn wrote(&self, ledger: &Ledger, stamp: u64) -> Vec<(usize, Stamped)> {
        if let Some(bundle) = ledger.bundles.get(&stamp) {
            return bundle.pieces.iter().map(|piece| (bundle.array, *piece)).collect();
        }
        let Some(write) = ledger.acknowledged.get(&stamp) else { return Vec::new() };
        let parts = self.parts(write.offset_bytes, write.bytes);
        parts.map(|(array, from, bytes)| (array, Stamped { from, end: from + bytes, stamp })).collect()
    }
}
