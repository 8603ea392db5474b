//! Duty: for how long each database served: it could be reached, and had calls of the log to answer.
//! Refusal: it asks no database and reads no clock.

#[derive(Debug, Default, Clone, Copy)]
struct Brick {
    is_away: bool,
    has_served: bool,
    away_ns: u64,
    served_ns: u64,
    /// `served_ns` when its calls in flight began to wait for an answer; none without any.
    waits_from_ns: Option<u64>,
}

pub struct Absence {
    bricks: Vec<Brick>,
    served_ns: u64,
    /// `served_ns` at the last sign of any of them.
    sign_ns: u64,
    known_to_ns: u64,
}

impl Absence {
    pub fn new(bricks: usize) -> Absence {
        Absence { bricks: vec![Brick::default(); bricks], served_ns: 0, sign_ns: 0, known_to_ns: 0 }
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

    /// A call was sent to a database that had none, or it answered one: it is there.
    pub fn is_there(&mut self, brick: usize, now_ns: u64, is_rated: bool, is_waited_for: bool) {
        self.advance(now_ns, is_rated);
        let place = &mut self.bricks[brick];
        place.waits_from_ns = is_waited_for.then_some(place.served_ns);
        if !place.is_away {
            self.sign_ns = self.served_ns;
        }
    }

    /// There is no connection to it any more. A host that has died is found out only after a while: what its calls
    /// waited in vain is no time in which it served.
    pub fn is_away(&mut self, brick: usize) {
        let place = &mut self.bricks[brick];
        place.is_away = true;
        if let Some(from_ns) = place.waits_from_ns.take() {
            place.away_ns += place.served_ns - from_ns;
            place.served_ns = from_ns;
            if !self.bricks.iter().any(Brick::serves) {
                self.served_ns = self.sign_ns;
            }
        }
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
    fn what_is_waited_for_in_vain_is_absence() {
        let mut absence = Absence::new(2);
        absence.begin(0);
        absence.is_there(0, 0, true, true);
        absence.is_there(1, 0, true, true);
        absence.is_there(0, 100, true, true);
        absence.is_there(1, 150, true, true);
        absence.advance(400, true);
        // Found out at 400, though nothing had come since 100.
        absence.is_away(0);
        assert_eq!(
            (absence.away_ns(), absence.served_ns(), absence.any_served_ns()),
            (vec![300, 0], vec![100, 400], 400)
        );
        absence.advance(450, true);
        absence.is_away(1);
        assert_eq!((absence.away_ns(), absence.served_ns()), (vec![350, 300], vec![100, 150]));
        assert_eq!(absence.any_served_ns(), 150);
        // One that had no call to answer was not waited for.
        let mut idle = Absence::new(1);
        idle.is_there(0, 100, true, false);
        idle.advance(900, true);
        idle.is_away(0);
        assert_eq!((idle.away_ns(), idle.served_ns()), (vec![0], vec![900]));
    }

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
