//! Duty: for how long each database served: it could be reached, and had calls of the log to answer.
//! Refusal: it asks no database and reads no clock.

#[derive(Debug, Default, Clone, Copy)]
struct Brick {
    is_away: bool,
    has_served: bool,
    away_ns: u64,
    served_ns: u64,
}

pub struct Absence {
    bricks: Vec<Brick>,
    served_ns: u64,
    known_to_ns: u64,
}

impl Absence {
    pub fn new(bricks: usize) -> Absence {
        Absence { bricks: vec![Brick::default(); bricks], served_ns: 0, known_to_ns: 0 }
    }

    pub fn begin(&mut self, start_ns: u64) {
        self.known_to_ns = start_ns;
    }

    /// Time has gone by as things stood; only what is rated is counted.
    pub fn advance(&mut self, now_ns: u64, is_rated: bool) {
        let step_ns = now_ns.saturating_sub(self.known_to_ns);
        self.known_to_ns = self.known_to_ns.max(now_ns);
        if !is_rated {
            return;
        }
        for brick in &mut self.bricks {
            brick.away_ns += if brick.is_away { step_ns } else { 0 };
            brick.served_ns += if brick.serves() { step_ns } else { 0 };
        }
        if self.bricks.iter().any(Brick::serves) {
            self.served_ns += step_ns;
        }
    }

    /// There is no connection to it any more.
    pub fn is_away(&mut self, brick: usize) {
        self.bricks[brick].is_away = true;
    }

    pub fn is_back(&mut self, brick: usize) {
        self.bricks[brick].is_away = false;
    }

    /// The log has no more calls for it.
    pub fn has_served(&mut self, brick: usize) {
        self.bricks[brick].has_served = true;
    }

    /// For how long each had no connection.
    pub fn away_ns(&self) -> Vec<u64> {
        self.bricks.iter().map(|b| b.away_ns).collect()
    }

    pub fn served_ns(&self) -> Vec<u64> {
        self.bricks.iter().map(|b| b.served_ns).collect()
    }

    /// For how long at least one of them served.
    pub fn any_served_ns(&self) -> u64 {
        self.served_ns
    }
}

impl Brick {
    fn serves(&self) -> bool {
        !self.is_away && !self.has_served
    }
}

#[cfg(test)]
mod tests {
    use super::Absence;

    #[test]
    fn a_database_serves_while_it_can_be_reached_and_has_calls() {
        let mut absence = Absence::new(2);
        absence.begin(100);
        absence.is_away(0);
        absence.advance(110, true);
        absence.is_back(0);
        absence.advance(130, true);
        absence.has_served(1);
        absence.advance(135, true);
        // Away although it had nothing left to do.
        absence.is_away(1);
        absence.advance(140, true);
        absence.is_away(0);
        absence.advance(141, true);
        absence.advance(1_000, false);
        assert_eq!(absence.away_ns(), [11, 6]);
        assert_eq!(absence.served_ns(), [30, 30]);
        assert_eq!(absence.any_served_ns(), 40);
    }
}
