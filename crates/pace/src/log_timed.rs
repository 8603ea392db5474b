//! Due times out of a log's time stamps, at a speed that is constant or changes evenly over some time.

/// How much faster than the log time goes by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    pub from: f64,
    pub to: f64,
    /// How long it takes to come from one to the other.
    pub over_ns: u64,
}

impl Speed {
    pub fn constant(factor: f64) -> Speed {
        Speed { from: factor, to: factor, over_ns: 0 }
    }

    /// `4x`, `0.5`, `1x to 10x over 10min`.
    pub fn parse(text: &str) -> Result<Speed, String> {
        let wrong = || format!("`{text}` is no speed; write 4x, 0.5, or \"1x to 10x over 10min\"");
        let factor = |word: &str| {
            let number = word.trim().trim_end_matches(['x', 'X', '×']).trim();
            // A million times: a day in 86 ms. The other way: a second in 11 days.
            number.parse::<f64>().ok().filter(|f| (1e-6..=1e6).contains(f)).ok_or_else(wrong)
        };
        let Some((from, rest)) = text.split_once(" to ") else { return factor(text).map(Speed::constant) };
        let (to, over) = rest.split_once(" over ").ok_or_else(wrong)?;
        let over: String = over.split_whitespace().collect();
        let over_ns = plan::parse_duration_ns(&over).map_err(|_| wrong())?;
        Ok(Speed { from: factor(from)?, to: factor(to)?, over_ns })
    }

    /// The speed so long after the start.
    pub fn at(&self, elapsed_ns: u64) -> f64 {
        if elapsed_ns >= self.over_ns {
            return self.to;
        }
        self.from + (self.to - self.from) * elapsed_ns as f64 / self.over_ns as f64
    }
}

/// When the requests of a log are due.
#[derive(Debug, Clone)]
pub struct LogTimed {
    origin_ns: i64,
    start_ns: u64,
    speed: Speed,
    /// How far the log has gone when the ramp is over.
    ramped_ns: f64,
}

impl LogTimed {
    /// What the log has at `origin_ns` is due at `start_ns`.
    pub fn new(origin_ns: i64, start_ns: u64, speed: Speed) -> LogTimed {
        let ramped_ns = (speed.from + speed.to) / 2.0 * speed.over_ns as f64;
        LogTimed { origin_ns, start_ns, speed, ramped_ns }
    }

    /// When a request that the log has at `at_ns` is due; what lies before the origin is due at once.
    pub fn due_ns(&self, at_ns: i64) -> u64 {
        let log_ns = at_ns.saturating_sub(self.origin_ns).max(0);
        let Speed { from, to, over_ns } = self.speed;
        let elapsed_ns = if over_ns == 0 && to == 1.0 {
            return self.start_ns.saturating_add(log_ns as u64);
        } else if log_ns as f64 >= self.ramped_ns {
            over_ns as f64 + (log_ns as f64 - self.ramped_ns) / to
        } else {
            // The log's progress is from·t + (to − from)·t² / 2T; solved for t, in the form that has no difference of
            // nearly equal numbers. The square root is exact to the last bit everywhere (IEEE 754).
            let slope = (to - from) / over_ns as f64;
            2.0 * log_ns as f64 / (from + (from * from + 2.0 * slope * log_ns as f64).max(0.0).sqrt())
        };
        self.start_ns.saturating_add(elapsed_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn speeds_are_read_as_people_write_them() {
        assert_eq!(Speed::parse("4x"), Ok(Speed::constant(4.0)));
        assert_eq!(Speed::parse("0.5"), Ok(Speed::constant(0.5)));
        let ramp = Speed { from: 1.0, to: 10.0, over_ns: 600 * S };
        assert_eq!(Speed::parse("1x to 10x over 10 min"), Ok(ramp));
        for text in ["", "0", "-1", "fast", "1x to 10x", "1 to 2 over", "nan", "inf"] {
            assert!(Speed::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn constant_speeds_stretch_the_log() {
        let origin = 1_054_548_000 * S as i64;
        for (factor, seconds) in [(1.0, 7200), (4.0, 1800), (0.5, 14_400)] {
            let timed = LogTimed::new(origin, 5, Speed::constant(factor));
            assert_eq!(timed.due_ns(origin), 5);
            assert_eq!(timed.due_ns(origin - 1), 5);
            assert_eq!(timed.due_ns(origin + 7200 * S as i64), 5 + seconds * S);
        }
    }

    #[test]
    fn a_ramp_goes_evenly_from_one_speed_to_the_other() {
        for (from, to) in [(1.0, 10.0), (10.0, 1.0)] {
            let speed = Speed { from, to, over_ns: 600 * S };
            let timed = LogTimed::new(0, 0, speed);
            let (mut before, mut log_ns) = (0, 0);
            while log_ns < 5_000 * S as i64 {
                log_ns += S as i64 / 10;
                let due = timed.due_ns(log_ns);
                let middle = (due + before) / 2;
                let local = S as f64 / 10.0 / (due - before) as f64;
                assert!((local / speed.at(middle) - 1.0).abs() < 1e-3, "{local} at {middle}");
                before = due;
            }
            // 5.5 × 600 s of the log have gone by when the ramp ends.
            assert!(timed.due_ns(3_300 * S as i64).abs_diff(600 * S) < 1_000);
        }
    }
}
