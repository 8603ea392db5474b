//! What a drive reads on its own: the heads go on after a read until they are needed elsewhere, and what they had read by
//! then stays in segments. It starts no command and knows no request but the one that it is asked about.

use super::{Drive, Pending};
use crate::SECTOR_BYTES;
use crate::member::Kind;

/// The heads stay on track after a read and go on reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ahead {
    pub(super) first: u64,
    pub(super) from: u64,
    pub(super) from_ns: u64,
    pub(super) limit: u64,
    /// The read before it went on from what was in the cache.
    pub(super) followed: bool,
    /// What was read ahead has been asked for.
    pub(super) used: bool,
}

/// Sectors in the cache, from this instant on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) there_ns: u64,
}

impl Drive {
    /// A read has ended at `end`: the heads go on from there.
    pub(super) fn begin_ahead(&mut self, now_ns: u64, sector: u64, end: u64) {
        let before = self.ahead.filter(|a| a.first <= sector && sector <= a.limit);
        let followed = before.is_some() || self.segments.iter().any(|s| s.from < sector && sector <= s.to);
        let limit = (end + self.p.read_ahead_bytes.0 / SECTOR_BYTES).min(self.geometry.sectors);
        let from_ns = now_ns + self.geometry.switch_before_ns(end);
        let first = before.map_or(sector, |a| a.first);
        let used = followed || before.is_some_and(|a| a.used);
        self.ahead = Some(Ahead { first, from: end, from_ns, limit, followed, used });
    }

    /// Read-ahead data that a write replaced are of no use any more; what lies behind them is.
    pub(super) fn forget(&mut self, sector: u64, sectors: u64) {
        let end = sector + sectors;
        for segment in &mut self.segments {
            if segment.from < end && sector < segment.to {
                segment.from = end;
            }
        }
        self.segments.retain(|s| s.from < s.to);
        if let Some(ahead) = self.ahead.as_mut().filter(|a| a.first < end && sector < a.limit) {
            if end < ahead.limit {
                ahead.first = end;
            } else {
                self.ahead = None;
            }
        }
    }

    /// How far read-ahead has come.
    fn ahead_position(&self, ahead: &Ahead, now_ns: u64) -> u64 {
        (ahead.from + self.geometry.sectors_in(ahead.from, now_ns.saturating_sub(ahead.from_ns))).min(ahead.limit)
    }

    /// Whether the heads, reading ahead, come to these sectors soon enough.
    pub(super) fn reads_anyway(&self, ahead: &Ahead, command: &Pending, now_ns: u64) -> bool {
        let position = self.ahead_position(ahead, now_ns);
        let near = position + self.geometry.sectors_per_track(position) / 2;
        command.kind == Kind::Read
            && command.sector >= ahead.first
            && command.sector <= near
            && position < ahead.limit
            && command.sector + command.sectors > ahead.from
    }

    /// The heads leave: what was read ahead stays as a segment. Gives the instant at which they leave: a stream that goes
    /// on from what is in the cache is held for a while, because each visit costs a seek.
    pub(super) fn end_ahead(&mut self, now_ns: u64) -> u64 {
        let Some(ahead) = self.ahead.take() else { return now_ns };
        let hold = (self.p.read_ahead_hold_bytes.0 / SECTOR_BYTES).min(ahead.limit - ahead.from);
        let mut leave_ns = now_ns;
        if ahead.followed && hold > 0 {
            leave_ns = leave_ns.max(ahead.from_ns + self.geometry.transfer_ns(ahead.from, hold));
        }
        let position = self.ahead_position(&ahead, leave_ns);
        let longest = self.segment_sectors();
        let from = ahead.first.max(position.saturating_sub(longest));
        if from < position {
            self.segments.push_back(Segment { from, to: position, there_ns: leave_ns });
        }
        if self.segments.len() > self.p.read_segments as usize {
            self.segments.pop_front();
        }
        // The heads followed the data that were read ahead.
        self.stand_at(position.saturating_sub(1).max(self.last_end_sector - 1));
        leave_ns
    }

    fn segment_sectors(&self) -> u64 {
        (self.p.cache_bytes.0 / u64::from(self.p.read_segments.max(1)) / SECTOR_BYTES).max(1)
    }

    /// What was read ahead is asked for, so there is room again: heads that have not stopped yet go on for as much
    /// again, and those that have begin when the sector after what they read comes round.
    pub(super) fn read_further(&mut self, now_ns: u64, end: u64) {
        let Some(ahead) = self.ahead.as_mut().filter(|a| self.media.is_none() && a.first < end) else { return };
        ahead.used = true;
        let ahead = *ahead;
        let limit = (end + self.p.read_ahead_bytes.0 / SECTOR_BYTES).min(self.geometry.sectors);
        if limit <= ahead.limit {
            return;
        }
        self.ahead = Some(if self.ahead_position(&ahead, now_ns) < ahead.limit {
            Ahead { limit, ..ahead }
        } else {
            let (angle_ns, revolution_ns) = (self.geometry.place(ahead.limit).angle_ns, self.geometry.revolution_ns);
            let wait_ns = (angle_ns + revolution_ns - self.phase_ns(now_ns)) % revolution_ns;
            Ahead { from: ahead.limit, from_ns: now_ns + wait_ns, limit, ..ahead }
        });
    }

    pub(super) fn is_cached(&self, command: &Pending, now_ns: u64) -> bool {
        let end = command.sector + command.sectors;
        let longest = self.segment_sectors();
        let ahead = self.media.is_none()
            && self.ahead.is_some_and(|a| {
                let position = self.ahead_position(&a, now_ns);
                command.sector >= a.first.max(position.saturating_sub(longest)) && end <= position
            });
        ahead
            || self.segments.iter().any(|s| s.from <= command.sector && end <= s.to && s.there_ns <= now_ns)
            || self.dirty.holds(command.sector, end)
    }
}
