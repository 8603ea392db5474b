//! Duty: a first look at whole logs before anything is replayed: how far out of order their lines are, and which stamps
//! are outliers, such as those of a server whose clock was not set yet.
//! Refusal: it keeps no line; its memory grows with the days that stamps name, and years are limited (`time`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::feed::{FeedOptions, probe};
use crate::format::{Parsed, Parser};
use crate::lines::{Lines, STDIN};
use crate::time::SECOND_NS;

const DAY_NS: i64 = 86_400 * SECOND_NS;
/// A clock that was not set is off by years, a log that stands still seldom is.
const YEAR_NS: i64 = 366 * DAY_NS;
/// Stamps are outliers only where they are few: one request in a hundred, or a single one of at least three.
const OUTLIER_SHARE_MAX: f64 = 0.01;
const OUTLIER_REQUESTS_MIN: u64 = 3;
/// And only where they lie further from the others than so many times what the others span.
const OUTLIER_SPANS: i64 = 10;
const LINES_BETWEEN_STOPS: u64 = 65_536;

/// Requests of one log whose stamps are outliers; one piece of neighbouring stamps.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Outlier {
    pub log: String,
    /// The first of them.
    pub line: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    pub requests: u64,
}

/// What a first look found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Look {
    /// The first stamp of all logs, without outliers; none where standard input is among them.
    pub first_ns: Option<i64>,
    pub formats: Vec<String>,
    pub outliers: Vec<Outlier>,
    /// By log, first and last stamp of each piece that is left out.
    pub left_out: BTreeMap<String, Vec<(i64, i64)>>,
    /// The longest step back from the latest stamp before it, in one log.
    pub disorder_ns: i64,
    /// Requests that are further out of order than the window.
    pub beyond_window: u64,
}

/// The requests of one day in one log.
#[derive(Debug, Clone, Copy)]
struct Day {
    requests: u64,
    first_ns: i64,
    last_ns: i64,
    first_line: u64,
    last_line: u64,
}

#[derive(Default)]
struct Seen {
    days: BTreeMap<i64, Day>,
    first_ns: Option<i64>,
    disorder_ns: i64,
    beyond_window: u64,
}

/// Reads the logs to their end, but standard input; `stop` ends it early.
pub fn look(options: &FeedOptions, stop: &AtomicBool) -> Result<Look, String> {
    let found = probe(options)?;
    let mut look = Look { formats: found.formats, ..Look::default() };
    for path in options.logs.iter().filter(|path| *path != STDIN) {
        let mut seen = read(path, options, &[], stop)?;
        let pieces = if options.keep_outliers { Vec::new() } else { outliers(&seen.days) };
        if !pieces.is_empty() {
            let left_out: Vec<(i64, i64)> = pieces.iter().map(|p| (p.first_ns, p.last_ns)).collect();
            // The latest stamp so far means nothing after one of the year 2150.
            seen = read(path, options, &left_out, stop)?;
            look.left_out.insert(path.clone(), left_out);
        }
        look.outliers.extend(pieces.iter().map(|piece| Outlier {
            log: path.clone(),
            line: piece.first_line,
            first_ns: piece.first_ns,
            last_ns: piece.last_ns,
            requests: piece.requests,
        }));
        look.first_ns = [look.first_ns, seen.first_ns].into_iter().flatten().min();
        look.disorder_ns = look.disorder_ns.max(seen.disorder_ns);
        look.beyond_window += seen.beyond_window;
    }
    if options.logs.iter().any(|path| path == STDIN) {
        look.first_ns = None;
    }
    Ok(look)
}

fn read(path: &str, options: &FeedOptions, left_out: &[(i64, i64)], stop: &AtomicBool) -> Result<Seen, String> {
    let mut lines = Lines::open(path)?;
    let mut parser = Parser::new(options.format, &options.fields);
    let window_ns = i64::from(options.window_s) * SECOND_NS;
    let (mut seen, mut line_number, mut latest_ns) = (Seen::default(), 0u64, i64::MIN);
    let mut today: Option<(i64, Day)> = None;
    while let Some(line) = lines.next_line() {
        line_number += 1;
        if line_number.is_multiple_of(LINES_BETWEEN_STOPS) && stop.load(Ordering::Relaxed) {
            break;
        }
        let Parsed::Entry(entry) = parser.line(line) else { continue };
        let at_ns = entry.stamp.at_ns;
        if options.is_outside(at_ns) || is_within(left_out, at_ns) {
            continue;
        }
        seen.first_ns = Some(seen.first_ns.map_or(at_ns, |first| first.min(at_ns)));
        if latest_ns > at_ns {
            let back_ns = latest_ns - at_ns;
            seen.disorder_ns = seen.disorder_ns.max(back_ns);
            seen.beyond_window += u64::from(back_ns > window_ns);
        }
        latest_ns = latest_ns.max(at_ns);
        let day = at_ns.div_euclid(DAY_NS);
        match &mut today {
            Some((known, counted)) if *known == day => counted.add(at_ns, line_number),
            _ => {
                if let Some((known, counted)) = today.take() {
                    seen.days.insert(known, counted);
                }
                let mut counted = seen.days.remove(&day).unwrap_or(Day::new(at_ns, line_number));
                counted.add(at_ns, line_number);
                today = Some((day, counted));
            }
        }
    }
    seen.days.extend(today);
    Ok(seen)
}

impl Day {
    fn new(at_ns: i64, line: u64) -> Day {
        Day { requests: 0, first_ns: at_ns, last_ns: at_ns, first_line: line, last_line: line }
    }

    fn add(&mut self, at_ns: i64, line: u64) {
        self.requests += 1;
        self.first_ns = self.first_ns.min(at_ns);
        self.last_ns = self.last_ns.max(at_ns);
        self.last_line = line;
    }

    fn merge(&mut self, other: &Day) {
        self.requests += other.requests;
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.first_line = self.first_line.min(other.first_line);
        self.last_line = self.last_line.max(other.last_line);
    }

    /// How far two pieces lie apart.
    fn gap_ns(&self, other: &Day) -> i64 {
        (self.first_ns - other.last_ns).max(other.first_ns - self.last_ns)
    }
}

pub fn is_within(pieces: &[(i64, i64)], at_ns: i64) -> bool {
    pieces.iter().any(|(first, last)| (*first..=*last).contains(&at_ns))
}

/// Pieces of a log, parted by gaps of more than a day, that are not of its time. A log may stand still: a piece is left
/// out only where it has one request in a hundred or fewer, lies further from the rest than ten times what the rest
/// spans, and the log comes back from it, or it lies more than a year away.
fn outliers(days: &BTreeMap<i64, Day>) -> Vec<Day> {
    let mut pieces: Vec<Day> = Vec::new();
    for day in days.values() {
        match pieces.last_mut() {
            Some(piece) if piece.gap_ns(day) <= DAY_NS => piece.merge(day),
            _ => pieces.push(*day),
        }
    }
    let requests: u64 = pieces.iter().map(|p| p.requests).sum();
    if requests < OUTLIER_REQUESTS_MIN {
        return Vec::new();
    }
    let few = ((requests as f64 * OUTLIER_SHARE_MAX) as u64).max(1);
    let (mut suspects, body): (Vec<Day>, Vec<Day>) = pieces.into_iter().partition(|piece| piece.requests <= few);
    let Some(mut main) = body.into_iter().reduce(|mut all, piece| {
        all.merge(&piece);
        all
    }) else {
        return Vec::new();
    };
    loop {
        let before = suspects.len();
        suspects.retain(|piece| {
            let is_far = piece.gap_ns(&main) > (main.last_ns - main.first_ns).saturating_mul(OUTLIER_SPANS).max(DAY_NS);
            let comes_back = main.first_line < piece.last_line && piece.first_line < main.last_line;
            let is_outlier = is_far && (comes_back || piece.gap_ns(&main) > YEAR_NS);
            if !is_outlier {
                main.merge(piece);
            }
            is_outlier
        });
        if suspects.len() == before {
            return suspects;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: i64 = 3_600 * SECOND_NS;
    const START_NS: i64 = 1_054_548_000 * SECOND_NS;

    /// Of stamps in the order of their lines.
    fn left_out(stamps: &[i64]) -> Vec<u64> {
        let mut days: BTreeMap<i64, Day> = BTreeMap::new();
        for (number, at_ns) in stamps.iter().enumerate() {
            let line = number as u64 + 1;
            days.entry(at_ns.div_euclid(DAY_NS)).or_insert(Day::new(*at_ns, line)).add(*at_ns, line);
        }
        outliers(&days).iter().map(|d| d.first_line).collect()
    }

    fn hour(from_ns: i64, requests: i64) -> Vec<i64> {
        (0..requests).map(|n| from_ns + n * HOUR_NS / requests).collect()
    }

    #[test]
    fn a_stamp_of_a_clock_that_was_not_set_is_an_outlier_wherever_it_stands() {
        for at_ns in [0, START_NS + 100 * YEAR_NS] {
            for place in [0, 37, 100] {
                let mut stamps = hour(START_NS, 100);
                stamps.insert(place, at_ns);
                assert_eq!(left_out(&stamps), [place as u64 + 1], "{at_ns} at {place}");
            }
        }
        assert_eq!(left_out(&[START_NS, 0, START_NS + 1]), [2], "one of three");
    }

    #[test]
    fn a_log_that_stands_still_has_no_outliers() {
        let months = [hour(START_NS, 100), hour(START_NS + 90 * DAY_NS, 100)].concat();
        assert_eq!(left_out(&months), [] as [u64; 0], "two busy hours, three months apart");
        let mut idle = hour(START_NS, 1_000);
        idle.push(START_NS + 40 * DAY_NS);
        assert_eq!(left_out(&idle), [] as [u64; 0], "a last request after forty days: the log does not come back");
        let yearly: Vec<i64> = (0..30).map(|n| START_NS + n * YEAR_NS).collect();
        assert_eq!(left_out(&yearly), [] as [u64; 0], "a request a year");
        let mut both = hour(START_NS, 1_000);
        both.insert(500, START_NS + 40 * DAY_NS);
        assert_eq!(left_out(&both), [501], "the same stamp in the middle: the log comes back from it");
    }
}
