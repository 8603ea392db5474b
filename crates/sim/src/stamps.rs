//! Whose data a volatile cache has: the stamp of the write that wrote each piece last. A stamp of 0 is nobody's and is not
//! kept, so that caches of bricks whose power stays on keep nothing here.
//!
//! It decides nothing about what is cached or destaged; it only remembers for whom.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes from `from` to `end` that the write with this stamp wrote last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamped {
    pub from: u64,
    pub end: u64,
    pub stamp: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Stamps {
    /// Disjoint, by where they begin: end and stamp.
    pieces: BTreeMap<u64, (u64, u64)>,
}

impl Stamps {
    pub fn put(&mut self, piece: Stamped) {
        if piece.stamp == 0 || piece.from >= piece.end {
            return;
        }
        self.take(piece.from, piece.end);
        self.pieces.insert(piece.from, (piece.end, piece.stamp));
    }

    /// Takes out what lies between these; pieces that reach beyond are cut there.
    pub fn take(&mut self, from: u64, end: u64) -> Vec<Stamped> {
        if self.pieces.is_empty() || from >= end {
            return Vec::new();
        }
        self.cut(from);
        self.cut(end);
        let taken: Vec<Stamped> = self
            .pieces
            .range(from..end)
            .map(|(from, (end, stamp))| Stamped { from: *from, end: *end, stamp: *stamp })
            .collect();
        for piece in &taken {
            self.pieces.remove(&piece.from);
        }
        taken
    }

    fn cut(&mut self, at: u64) {
        let before = self.pieces.range_mut(..at).next_back().map(|(_, piece)| piece);
        if let Some(piece) = before.filter(|p| p.0 > at) {
            let rest = *piece;
            piece.0 = at;
            self.pieces.insert(at, rest);
        }
    }

    /// All of it, over what is older.
    pub fn over(&self, older: impl IntoIterator<Item = Stamped>) -> Vec<Stamped> {
        let mut all = Stamps::default();
        older.into_iter().chain(self.pieces()).for_each(|piece| all.put(piece));
        all.pieces().collect()
    }

    pub fn pieces(&self) -> impl Iterator<Item = Stamped> {
        self.pieces.iter().map(|(from, (end, stamp))| Stamped { from: *from, end: *end, stamp: *stamp })
    }

    pub fn note(&self, seen: &mut BTreeSet<u64>) {
        seen.extend(self.pieces.values().map(|(_, stamp)| *stamp));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_writer_of_each_byte_is_known() {
        let piece = |from, end, stamp| Stamped { from, end, stamp };
        let mut stamps = Stamps::default();
        stamps.put(piece(0, 100, 1));
        stamps.put(piece(40, 60, 2));
        stamps.put(piece(90, 120, 3));
        stamps.put(piece(5, 10, 0));
        let all = [piece(0, 40, 1), piece(40, 60, 2), piece(60, 90, 1), piece(90, 120, 3)];
        assert_eq!(stamps.pieces().collect::<Vec<_>>(), all);
        assert_eq!(stamps.take(50, 95), [piece(50, 60, 2), piece(60, 90, 1), piece(90, 95, 3)]);
        assert_eq!(
            stamps.over([piece(30, 55, 7), piece(94, 96, 8)]),
            [piece(0, 40, 1), piece(40, 50, 2), piece(50, 55, 7), piece(94, 95, 8), piece(95, 120, 3),]
        );
    }
}
