//! Where sectors lie: zones of equal numbers of cylinders, tracks of equal numbers of sectors within a zone, and skew
//! between tracks that hides the head switch, so that reading on never waits for a revolution.
//!
//! The angle of a sector is kept in ns of rotation: `(sector · T / n + track · skew) mod T`, with `T` the time of one
//! revolution and `n` sectors a track.

use crate::SECTOR_BYTES;
use crate::brick::RotatingParameters;

#[derive(Debug, Clone)]
struct Zone {
    first_sector: u64,
    first_track: u64,
    sectors_per_track: u64,
}

#[derive(Debug, Clone)]
pub struct Geometry {
    zones: Vec<Zone>,
    pub sectors: u64,
    pub cylinders: u64,
    pub revolution_ns: u64,
    heads: u64,
    skew_ns: u64,
}

/// The place of one sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub cylinder: u64,
    pub track: u64,
    pub angle_ns: u64,
}

impl Geometry {
    pub fn new(p: &RotatingParameters) -> Geometry {
        let revolution_ns = 60_000_000_000 / u64::from(p.rpm);
        let skew_ns = p.head_switch.ns;
        let zones = u64::from(p.zones);
        // A data sheet's sustained rate contains the head switches: one a track.
        let sectors_at = |mb_per_s: f64| mb_per_s * 1e6 / 512.0 * (revolution_ns + skew_ns) as f64 / 1e9;
        let (outer, inner) = (sectors_at(p.outer_mb_per_s), sectors_at(p.inner_mb_per_s));
        let share = |z: u64| if zones == 1 { 0.5 } else { z as f64 / (zones - 1) as f64 };
        let per_track: Vec<u64> =
            (0..zones).map(|z| ((outer + (inner - outer) * share(z)).round() as u64).max(1)).collect();
        let heads = u64::from(p.heads);
        let wanted = p.capacity_bytes.0 / SECTOR_BYTES;
        let cylinders_a_zone = wanted.div_ceil(heads * per_track.iter().sum::<u64>()).max(1);
        let mut built = Vec::new();
        let (mut first_sector, mut first_track) = (0, 0);
        for sectors_per_track in per_track {
            built.push(Zone { first_sector, first_track, sectors_per_track });
            first_sector += cylinders_a_zone * heads * sectors_per_track;
            first_track += cylinders_a_zone * heads;
        }
        Geometry { zones: built, sectors: wanted, cylinders: cylinders_a_zone * zones, revolution_ns, heads, skew_ns }
    }

    #[inline]
    fn zone_of(&self, sector: u64) -> usize {
        self.zones.partition_point(|z| z.first_sector <= sector) - 1
    }

    #[inline]
    pub fn place(&self, sector: u64) -> Place {
        let zone = &self.zones[self.zone_of(sector)];
        let within = sector - zone.first_sector;
        let track_in_zone = within / zone.sectors_per_track;
        let in_track = within - track_in_zone * zone.sectors_per_track;
        let track = zone.first_track + track_in_zone;
        let angle_ns =
            (in_track * self.revolution_ns / zone.sectors_per_track + track * self.skew_ns) % self.revolution_ns;
        Place { cylinder: track / self.heads, track, angle_ns }
    }

    /// The head switch that lies before this sector, if it is the first of its track.
    #[inline]
    pub fn switch_before_ns(&self, sector: u64) -> u64 {
        if sector >= self.sectors {
            return 0;
        }
        let zone = &self.zones[self.zone_of(sector)];
        if (sector - zone.first_sector).is_multiple_of(zone.sectors_per_track) { self.skew_ns } else { 0 }
    }

    /// How long the media take for these sectors, head switches included.
    #[inline]
    pub fn transfer_ns(&self, sector: u64, sectors: u64) -> u64 {
        let (mut from, end, mut ns) = (sector, sector + sectors, 0);
        let mut number = self.zone_of(sector);
        while from < end {
            let zone = &self.zones[number];
            let zone_end = self.zones.get(number + 1).map_or(u64::MAX, |z| z.first_sector);
            let to = end.min(zone_end);
            let (a, b) = (from - zone.first_sector, to - zone.first_sector);
            let switches = (b - 1) / zone.sectors_per_track - a / zone.sectors_per_track;
            // As a difference of places, so that pieces and the switches between them add up to the whole.
            let turned =
                b * self.revolution_ns / zone.sectors_per_track - a * self.revolution_ns / zone.sectors_per_track;
            ns += turned + (switches + u64::from(to < end)) * self.skew_ns;
            from = to;
            number += 1;
        }
        ns
    }

    /// How many sectors pass under the heads in this time, from `sector` on.
    pub fn sectors_in(&self, sector: u64, ns: u64) -> u64 {
        let zone = &self.zones[self.zone_of(sector.min(self.sectors - 1))];
        (u128::from(ns) * u128::from(zone.sectors_per_track) / u128::from(self.revolution_ns + self.skew_ns)) as u64
    }

    pub fn sectors_per_track(&self, sector: u64) -> u64 {
        self.zones[self.zone_of(sector.min(self.sectors - 1))].sectors_per_track
    }
}
