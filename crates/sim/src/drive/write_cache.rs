//! A drive's write cache: extents that wait to be destaged, found by their sectors. The firmware sorts a window of the
//! oldest few by how soon the arm is there; between equals the older one goes first.
//!
//! It knows no time and moves no arm: whoever asks says what it costs to get to a place. Cylinders rise with sectors, so
//! places are looked at from the arm outwards, and those that are too far away to be the best are not looked at at all.

use std::collections::BTreeMap;

use super::geometry::Place;

/// Extents that touch are joined up to this: what one command of 2003 could move (256 sectors) eight times over.
const JOINED_SECTORS: u64 = 2048;

#[derive(Debug, Clone, Copy)]
pub struct Dirty {
    pub sector: u64,
    pub sectors: u64,
    pub place: Place,
    age: u64,
}

impl Dirty {
    fn end(&self) -> u64 {
        self.sector + self.sectors
    }
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    place: Place,
    age: u64,
}

/// Where the arm is, and where it would go on without a seek.
#[derive(Debug, Clone, Copy)]
pub struct Arm {
    pub sector: u64,
    pub cylinder: u64,
    pub straight_on: u64,
}

#[derive(Debug)]
pub struct WriteCache {
    /// By first sector, which is nobody else's: what begins where another one does covers it or lies in it.
    extents: BTreeMap<u64, Dirty>,
    /// The oldest extents by first sector, as many as the firmware sorts.
    window: BTreeMap<u64, Seen>,
    window_entries: usize,
    /// First sectors of the others by age.
    behind: BTreeMap<u64, u64>,
    sectors: u64,
    /// No extent is longer.
    longest: u64,
    ages: u64,
}

impl WriteCache {
    pub fn new(window_entries: usize) -> WriteCache {
        WriteCache {
            extents: BTreeMap::new(),
            window: BTreeMap::new(),
            window_entries,
            behind: BTreeMap::new(),
            sectors: 0,
            longest: 0,
            ages: 0,
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Sectors of all extents, each as often as extents hold it.
    #[inline]
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Whether one extent holds all of it.
    #[inline]
    pub fn holds(&self, from: u64, end: u64) -> bool {
        !self.extents.is_empty()
            && self.extents.range(from.saturating_sub(self.longest)..=from).rev().any(|(_, d)| end <= d.end())
    }

    /// Whether any extent begins here.
    pub fn begins_within(&self, from: u64, end: u64) -> bool {
        from < end && self.extents.range(from..end).next().is_some()
    }

    /// Puts a write into an extent that holds what it replaces, in place of those that it covers, or joined to the
    /// youngest that it continues.
    pub fn keep(&mut self, sector: u64, sectors: u64, place: Place) {
        let end = sector + sectors;
        if self.holds(sector, end) {
            return;
        }
        let covered: Vec<u64> =
            self.extents.range(sector..end).filter(|(_, d)| d.end() <= end).map(|(first, _)| *first).collect();
        for first in covered {
            self.take(first);
        }
        self.sectors += sectors;
        let continued = self.continued(sector, sectors);
        if let Some(dirty) = continued.and_then(|first| self.extents.get_mut(&first)) {
            dirty.sectors += sectors;
            self.longest = self.longest.max(dirty.sectors);
            return;
        }
        self.ages += 1;
        let age = self.ages;
        self.extents.insert(sector, Dirty { sector, sectors, place, age });
        self.longest = self.longest.max(sectors);
        if self.window.len() < self.window_entries {
            self.window.insert(sector, Seen { place, age });
        } else {
            self.behind.insert(age, sector);
        }
    }

    /// The youngest extent that ends where these sectors begin and has room for them.
    fn continued(&self, sector: u64, sectors: u64) -> Option<u64> {
        let room = JOINED_SECTORS.checked_sub(sectors)?;
        let before = self.extents.range(sector.saturating_sub(room)..=sector).map(|(_, d)| d);
        before.filter(|d| d.end() == sector).max_by_key(|d| d.age).map(|d| d.sector)
    }

    /// The extent of the window to which the arm gets first, and how soon. `least_ns` is of a distance in cylinders and
    /// grows with it; nothing but what lies straight on costs less.
    pub fn nearest(
        &self,
        arm: Arm,
        least_ns: impl Fn(u64) -> u64,
        cost_ns: impl Fn(u64, &Place) -> u64,
    ) -> Option<(u64, u64)> {
        let mut best =
            self.window.get(&arm.straight_on).map(|s| (cost_ns(arm.straight_on, &s.place), s.age, arm.straight_on));
        let mut above = self.window.range(arm.sector..).peekable();
        let mut below = self.window.range(..arm.sector).rev().peekable();
        let distance = |found: Option<&(&u64, &Seen)>| found.map(|(_, s)| s.place.cylinder.abs_diff(arm.cylinder));
        loop {
            let (up, down) = (distance(above.peek()), distance(below.peek()));
            let upwards = down.is_none_or(|down| up.is_some_and(|up| up <= down));
            let Some(cylinders) = (if upwards { up } else { down }) else { break };
            if best.is_some_and(|(ns, _, _)| least_ns(cylinders) > ns) {
                break;
            }
            let Some((sector, seen)) = (if upwards { above.next() } else { below.next() }) else { break };
            let found = (cost_ns(*sector, &seen.place), seen.age, *sector);
            if best.is_none_or(|best| found < best) {
                best = Some(found);
            }
        }
        best.map(|(ns, _, sector)| (sector, ns))
    }

    /// Takes an extent out; the oldest behind the window enters it.
    pub fn take(&mut self, first: u64) -> Option<Dirty> {
        let dirty = self.extents.remove(&first)?;
        self.sectors -= dirty.sectors;
        if self.window.remove(&first).is_none() {
            self.behind.remove(&dirty.age);
        } else if let Some((age, sector)) = self.behind.pop_first()
            && let Some(entering) = self.extents.get(&sector)
        {
            self.window.insert(sector, Seen { place: entering.place, age });
        }
        if self.extents.is_empty() {
            self.longest = 0;
        }
        Some(dirty)
    }

    /// Takes everything out, in the order of sectors.
    pub fn empty(&mut self) -> Vec<Dirty> {
        let all = self.extents.values().copied().collect();
        *self = WriteCache::new(self.window_entries);
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACK: u64 = 50;

    fn place(sector: u64) -> Place {
        let track = sector / TRACK;
        Place { cylinder: track / 3, track, angle_ns: sector % TRACK * 7 }
    }

    fn seek_ns(cylinders: u64) -> u64 {
        if cylinders == 0 { 0 } else { 100 + cylinders.isqrt() * 40 }
    }

    /// The same in the plainest words: a list by age that is gone through from end to end.
    #[derive(Default)]
    struct Plain(Vec<(u64, u64)>);

    impl Plain {
        fn keep(&mut self, from: u64, sectors: u64) {
            let end = from + sectors;
            if self.0.iter().any(|(at, n)| *at <= from && end <= at + n) {
                return;
            }
            self.0.retain(|(at, n)| !(from <= *at && at + n <= end));
            match self.0.iter_mut().rev().find(|(at, n)| at + *n == from && *n + sectors <= JOINED_SECTORS) {
                Some(continued) => continued.1 += sectors,
                None => self.0.push((from, sectors)),
            }
        }

        fn take_nearest(&mut self, window: usize, cost_ns: impl Fn(u64) -> u64) -> Option<(u64, u64, u64)> {
            let (index, (sector, sectors)) =
                self.0.iter().copied().take(window).enumerate().min_by_key(|(_, (sector, _))| cost_ns(*sector))?;
            self.0.remove(index);
            Some((sector, sectors, cost_ns(sector)))
        }
    }

    /// Single writes, writes that continue the last one, and turns of the arm.
    fn steps() -> impl Strategy<Value = Vec<(u8, u64, u64)>> {
        prop::collection::vec((0u8..6, 0u64..30_000, 1u64..900), 1..400)
    }

    proptest! {
        #[test]
        fn what_is_kept_and_destaged_is_what_a_plain_list_would(window in 1usize..40, steps in steps()) {
            let (mut cache, mut plain) = (WriteCache::new(window), Plain::default());
            let (mut end, mut at, mut straight_on) = (0, 0, 0);
            for (kind, sector, sectors) in steps {
                if kind < 4 {
                    let sector = if kind == 0 { end } else { sector };
                    end = sector + sectors;
                    cache.keep(sector, sectors, place(sector));
                    plain.keep(sector, sectors);
                } else {
                    let cost_ns = |sector: u64| {
                        let away = if sector == straight_on { 0 } else { place(at).cylinder.abs_diff(place(sector).cylinder) };
                        seek_ns(away) + place(sector).angle_ns
                    };
                    let arm = Arm { sector: at, cylinder: place(at).cylinder, straight_on };
                    let found = cache.nearest(arm, seek_ns, |sector, _| cost_ns(sector));
                    let taken = found.and_then(|(first, ns)| cache.take(first).map(|d| (d.sector, d.sectors, ns)));
                    prop_assert_eq!(taken, plain.take_nearest(window, cost_ns));
                    if let Some((sector, sectors, _)) = taken {
                        // Now and then the heads have gone on reading.
                        (straight_on, at) = (sector + sectors, sector + sectors - 1 + if kind == 5 { 400 } else { 0 });
                    }
                }
                prop_assert_eq!(cache.len(), plain.0.len());
                prop_assert_eq!(cache.sectors(), plain.0.iter().map(|(_, n)| n).sum::<u64>());
                let held = plain.0.iter().any(|(at, n)| *at <= sector && sector + sectors <= at + n);
                prop_assert_eq!(cache.holds(sector, sector + sectors), held);
            }
            let mut left = plain.0.clone();
            left.sort_unstable();
            prop_assert_eq!(cache.empty().iter().map(|d| (d.sector, d.sectors)).collect::<Vec<_>>(), left);
        }
    }
}
