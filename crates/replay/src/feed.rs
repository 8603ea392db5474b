//! Duty: logs as one stream of calls in the order of time: several files merged, lines out of order put in order within
//! a window, or sorted as a whole; stamps of whole seconds spread inside their second. What could not be used is counted.
//! Refusal: it holds no more than the window, or a sort's memory, and never stops at a bad line.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::format::{Entry, FieldNames, Format, Parsed, Parser};
use crate::lines::{Lines, STDIN};
use crate::look::is_within;
use crate::mapping::{Call, Fnv, Mapping, Scratch};
use crate::sorting::{HELD_BYTES, Sorted, Sorter};
use crate::time::SECOND_NS;

/// Calls that wait for their turn in the window; about 200 bytes each, so 60 MB at the most.
const PENDING_MAX: usize = 300_000;
/// Lines that are read of one file before the others are looked at.
const LINES_A_TURN: usize = 512;
/// Lines of a log that are looked at to see whether it can be used at all.
const PROBE_LINES: usize = 2_000;

/// Whose requests belong together, and keep their order where that is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionKey {
    #[default]
    Client,
    Cookie(String),
}

#[derive(Debug, Clone, Default)]
pub struct FeedOptions {
    pub logs: Vec<String>,
    pub format: Option<Format>,
    pub fields: FieldNames,
    pub session: SessionKey,
    /// How far out of order lines may be.
    pub window_s: u32,
    pub seed: u64,
    /// Of so many drivers that read the same logs, this one takes the sessions of its number.
    pub share: Option<(u32, u32)>,
    pub from_ns: Option<i64>,
    pub until_ns: Option<i64>,
    /// All calls are sorted before the first is given out.
    pub sort: bool,
    /// By log, first and last stamp of pieces that are left out, as a first look found them.
    pub left_out: BTreeMap<String, Vec<(i64, i64)>>,
    /// Stamps far from all others are replayed, too.
    pub keep_outliers: bool,
}

impl FeedOptions {
    /// Not between `--from` and `--until`.
    #[inline]
    pub fn is_outside(&self, at_ns: i64) -> bool {
        self.from_ns.is_some_and(|from| at_ns < from) || self.until_ns.is_some_and(|until| at_ns >= until)
    }
}

struct LogFile {
    path: String,
    left_out: Vec<(i64, i64)>,
    lines: Lines,
    parser: Parser,
    line_number: u64,
    /// The latest stamp so far.
    seen_ns: i64,
    is_done: bool,
}

/// Calls of one second that have not been given out.
#[derive(Default)]
struct Second {
    whole: Vec<Call>,
    exact: Vec<Call>,
    /// Of the exact ones, those whose own second had gone by.
    late: usize,
}

pub struct Feed {
    mapping: Arc<Mapping>,
    options: FeedOptions,
    files: Vec<LogFile>,
    seconds: BTreeMap<i64, Second>,
    pending: usize,
    given_out_s: i64,
    scratch: Scratch,
    sorter: Option<Sorter>,
    sorted: Option<Sorted>,
    /// The first call of the next second.
    ahead: Option<(Call, bool)>,
    /// Why a sort could not go on: its directory is full, or may not be written.
    pub trouble: Option<String>,
    pub counts: Counts,
}

impl Feed {
    pub fn open(mapping: Arc<Mapping>, options: FeedOptions, with_details: bool) -> Result<Feed, String> {
        if options.logs.is_empty() {
            return Err("no log is named; give files, or - for standard input".into());
        }
        if options.logs.iter().filter(|l| *l == STDIN).count() > 1 {
            return Err("standard input (-) can be read once only".into());
        }
        let open = |path: &String| {
            let parser = Parser::new(options.format, &options.fields);
            let lines = Lines::open(path)?;
            let left_out = options.left_out.get(path).cloned().unwrap_or_default();
            Ok(LogFile {
                path: path.clone(),
                left_out,
                lines,
                parser,
                line_number: 0,
                seen_ns: i64::MIN,
                is_done: false,
            })
        };
        let files = options.logs.iter().map(open).collect::<Result<Vec<_>, String>>()?;
        let counts = Counts::new(&mapping, with_details);
        let (seconds, scratch) = (BTreeMap::new(), Scratch::default());
        let sorter = options.sort.then(|| Sorter::new(HELD_BYTES));
        Ok(Feed {
            mapping,
            options,
            files,
            seconds,
            pending: 0,
            given_out_s: i64::MIN,
            scratch,
            sorter,
            sorted: None,
            ahead: None,
            trouble: None,
            counts,
        })
    }

    /// Reads and sorts all logs where that is asked for; without it, they are read as calls are taken.
    pub fn sort(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<(), String> {
        if self.sorter.is_none() {
            return Ok(());
        }
        for number in 0..self.files.len() {
            // In the order in which they were named: calls of equal stamps keep it.
            while !self.files[number].is_done && self.trouble.is_none() && !is_stopped() {
                self.turn(number);
            }
        }
        if let Some(trouble) = self.trouble.take() {
            return Err(trouble);
        }
        self.sorted = self.sorter.take().map(Sorter::finish).transpose()?;
        Ok(())
    }

    /// The same logs once more.
    pub fn again(mut self) -> Result<Feed, String> {
        match &mut self.sorted {
            Some(sorted) => {
                sorted.rewind()?;
                self.ahead = None;
                Ok(self)
            }
            None => Feed::open(self.mapping, self.options, false),
        }
    }

    /// Appends calls in their order; false when there are no more.
    pub fn next(&mut self, out: &mut Vec<Call>) -> bool {
        if self.sorted.is_some() {
            return self.next_second(out).unwrap_or_else(|trouble| {
                self.trouble = Some(trouble);
                false
            });
        }
        let before = out.len();
        while out.len() == before {
            // The file that lags behind goes first, so that the others wait in their files and not in memory.
            let lagging =
                (0..self.files.len()).filter(|n| !self.files[*n].is_done).min_by_key(|n| self.files[*n].seen_ns);
            let Some(number) = lagging else {
                return self.give_out(i64::MAX, out);
            };
            self.turn(number);
            let open = self.files.iter().filter(|f| !f.is_done).map(|f| f.seen_ns).min();
            let window_ns = i64::from(self.options.window_s) * SECOND_NS;
            let ripe_ns = open.unwrap_or(i64::MAX).saturating_sub(window_ns);
            self.give_out(ripe_ns.div_euclid(SECOND_NS), out);
            while self.pending > PENDING_MAX {
                let Some((second, _)) = self.seconds.first_key_value() else { break };
                let second = *second;
                self.give_out(second + 1, out);
            }
        }
        true
    }

    /// Standard input is among the logs, and was not sorted.
    pub fn has_stdin(&self) -> bool {
        self.sorted.is_none() && self.options.logs.iter().any(|path| path == STDIN)
    }

    pub fn is_at_end(&self) -> bool {
        self.files.iter().all(|file| file.is_done)
    }

    /// Reads on after the last call was taken, for as long as `may_go_on`, and keeps nothing: requests of seconds that
    /// have been given out are counted as missed.
    pub fn read_on(&mut self, may_go_on: &dyn Fn() -> bool) {
        for file in &mut self.files {
            while !file.is_done && may_go_on() {
                for _ in 0..LINES_A_TURN {
                    let Some(line) = file.lines.next_line() else {
                        file.is_done = true;
                        break;
                    };
                    let Parsed::Entry(entry) = file.parser.line(line) else { continue };
                    let at_ns = entry.stamp.at_ns;
                    if self.options.is_outside(at_ns) || is_within(&file.left_out, at_ns) {
                        continue;
                    }
                    self.counts.read_on += 1;
                    self.counts.missed += u64::from(at_ns.div_euclid(SECOND_NS) <= self.given_out_s);
                }
            }
        }
        self.counts.at_end = self.is_at_end();
    }

    /// Of sorted calls, those of one second.
    fn next_second(&mut self, out: &mut Vec<Call>) -> Result<bool, String> {
        let Some(sorted) = &mut self.sorted else { return Ok(false) };
        let mut found = Second::default();
        let mut second = None;
        while let Some((call, is_whole)) =
            self.ahead.take().map_or_else(|| sorted.next_call(), |ahead| Ok(Some(ahead)))?
        {
            let its = call.at_ns.div_euclid(SECOND_NS);
            if *second.get_or_insert(its) != its {
                self.ahead = Some((call, is_whole));
                break;
            }
            (if is_whole { &mut found.whole } else { &mut found.exact }).push(call);
        }
        let Some(second) = second else { return Ok(false) };
        self.counts.second(second, found.whole.len() + found.exact.len(), 0);
        spread(second, found, self.options.seed, out);
        Ok(true)
    }

    /// Gives out all seconds before `until_s`; says whether there were any.
    fn give_out(&mut self, until_s: i64, out: &mut Vec<Call>) -> bool {
        let before = out.len();
        while let Some(first) = self.seconds.first_entry() {
            if *first.key() >= until_s {
                break;
            }
            let (second, found) = first.remove_entry();
            self.given_out_s = second;
            self.pending -= found.whole.len() + found.exact.len();
            self.counts.second(second, found.whole.len() + found.exact.len(), found.late);
            spread(second, found, self.options.seed, out);
        }
        out.len() > before
    }

    /// Reads some lines of a file.
    fn turn(&mut self, number: usize) {
        let file = &mut self.files[number];
        let counts_lines = self.options.share.is_none_or(|(index, _)| index == 0);
        for _ in 0..LINES_A_TURN {
            let Some(line) = file.lines.next_line() else {
                file.is_done = true;
                if counts_lines {
                    self.counts.file_ended(&file.path, &file.lines, file.parser.format());
                }
                return;
            };
            file.line_number += 1;
            let place = Placed {
                mapping: &self.mapping,
                options: &self.options,
                counts: &mut self.counts,
                counts_lines,
                seconds: &mut self.seconds,
                pending: &mut self.pending,
                given_out_s: self.given_out_s,
                scratch: &mut self.scratch,
                sorter: self.sorter.as_mut(),
                trouble: &mut self.trouble,
            };
            match file.parser.line(line) {
                Parsed::Entry(entry) if is_within(&file.left_out, entry.stamp.at_ns) => {
                    place.counts.lines += u64::from(counts_lines);
                    place.counts.outliers += u64::from(counts_lines);
                }
                Parsed::Entry(entry) => place.entry(&entry, &mut file.seen_ns),
                Parsed::Nothing => place.counts.lines += u64::from(counts_lines),
                Parsed::Bad(why) if counts_lines => place.counts.bad(&file.path, file.line_number, why, line),
                Parsed::Bad(_) => {}
            }
        }
    }
}

/// What one entry needs while its line is still in the buffer.
struct Placed<'f> {
    mapping: &'f Mapping,
    options: &'f FeedOptions,
    counts: &'f mut Counts,
    counts_lines: bool,
    seconds: &'f mut BTreeMap<i64, Second>,
    pending: &'f mut usize,
    given_out_s: i64,
    scratch: &'f mut Scratch,
    sorter: Option<&'f mut Sorter>,
    trouble: &'f mut Option<String>,
}

impl Placed<'_> {
    #[inline]
    fn entry(self, entry: &Entry, seen_ns: &mut i64) {
        self.counts.lines += u64::from(self.counts_lines);
        let at_ns = entry.stamp.at_ns;
        let is_back = at_ns < *seen_ns;
        *seen_ns = at_ns.max(*seen_ns);
        if self.options.is_outside(at_ns) {
            self.counts.outside += u64::from(self.counts_lines);
            return;
        }
        let session = session_of(entry, &self.options.session);
        if let Some((index, drivers)) = self.options.share
            && session % u64::from(drivers) != u64::from(index)
        {
            return;
        }
        self.counts.out_of_order += u64::from(is_back);
        self.counts.entry(entry, session);
        let mut call = match self.mapping.call(entry, session, self.scratch) {
            Ok(call) => call,
            Err(reason) => return self.counts.unmapped(reason, entry),
        };
        self.counts.mapped(self.mapping, &call);
        let mut is_whole = entry.stamp.whole_second;
        if let Some(sorter) = self.sorter {
            if let Err(trouble) = sorter.push(&call, is_whole) {
                self.trouble.get_or_insert(trouble);
            }
            return;
        }
        let mut second = at_ns.div_euclid(SECOND_NS);
        if second <= self.given_out_s {
            // Its time has gone by: it comes as soon as it still can.
            self.counts.late += 1;
            second = self.given_out_s + 1;
            call.at_ns = second * SECOND_NS;
            is_whole = false;
        }
        *self.pending += 1;
        let kept = self.seconds.entry(second).or_default();
        kept.late += usize::from(at_ns != call.at_ns);
        (if is_whole { &mut kept.whole } else { &mut kept.exact }).push(call);
    }
}

#[inline]
fn session_of(entry: &Entry, key: &SessionKey) -> u64 {
    let mut hash = Fnv::default();
    match key {
        SessionKey::Client => hash.write(entry.client),
        SessionKey::Cookie(name) => hash.write(cookie(entry.cookie, name).unwrap_or(entry.client)),
    }
    // FNV's low bits follow those of the last byte: mixed, so that shares of sessions are even.
    hash.0 ^ (hash.0 >> 32)
}

fn cookie<'a>(cookies: &'a [u8], name: &str) -> Option<&'a [u8]> {
    // IIS writes `+` for the space behind a semicolon.
    let pairs = cookies.split(|b| *b == b';').map(|p| p.trim_ascii().strip_prefix(b"+").unwrap_or(p.trim_ascii()));
    pairs.filter_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")).next()
}

/// Puts the calls of a second in order. Those of which only the second is known get instants drawn evenly within it, in
/// the order of the log.
fn spread(second: i64, found: Second, seed: u64, out: &mut Vec<Call>) {
    let from = out.len();
    let start_ns = second * SECOND_NS;
    if !found.whole.is_empty() {
        let mut random = pace::SplitMix64::new(&[seed, second as u64]);
        let mut offsets: Vec<i64> = (0..found.whole.len())
            .map(|_| ((u128::from(random.next_u64()) * SECOND_NS as u128) >> 64) as i64)
            .collect();
        offsets.sort_unstable();
        for (call, offset_ns) in found.whole.into_iter().zip(offsets) {
            out.push(Call { at_ns: start_ns + offset_ns, ..call });
        }
    }
    if !found.exact.is_empty() {
        out.extend(found.exact);
        out[from..].sort_by_key(|call| call.at_ns);
    }
}

/// What can be known of logs before they are replayed.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Probe {
    /// The first stamp of all files; none where standard input is among them.
    pub first_ns: Option<i64>,
    pub formats: Vec<String>,
}

/// Looks at the beginning of each log, and says in one line why one can't be used.
pub fn probe(options: &FeedOptions) -> Result<Probe, String> {
    let mut found = Probe::default();
    let mut has_stdin = false;
    let mut requests = 0u64;
    let wants_cookie = matches!(options.session, SessionKey::Cookie(_));
    for path in &options.logs {
        if path == STDIN {
            has_stdin = true;
            continue;
        }
        let mut lines = Lines::open(path)?;
        let mut parser = Parser::new(options.format, &options.fields);
        let (mut seen, mut entries, mut reason) = (0u64, 0u64, None);
        for _ in 0..PROBE_LINES {
            let Some(line) = lines.next_line() else { break };
            seen += u64::from(!line.is_empty());
            match parser.line(line) {
                Parsed::Entry(entry) => {
                    entries += 1;
                    let at_ns = entry.stamp.at_ns;
                    found.first_ns = Some(found.first_ns.map_or(at_ns, |first| first.min(at_ns)));
                }
                Parsed::Nothing => {}
                Parsed::Bad(why) => reason = reason.or(Some(why)),
            }
        }
        if seen > 0
            && let Some(lack) = parser.lacks(wants_cookie)
        {
            return Err(format!("{path}: {lack}"));
        }
        if entries == 0
            && let Some(why) = reason
        {
            let format = parser.format().map_or("", Format::name);
            return Err(format!("{path}: none of its first {seen} lines is a request ({format}): {why}"));
        }
        if let Some(torn) = lines.torn.filter(|_| entries == 0) {
            return Err(format!("{path}: {torn}"));
        }
        requests += entries;
        found.formats.push(parser.format().map_or("empty", Format::name).to_string());
    }
    if requests == 0 && !has_stdin {
        return Err(format!("{}: no requests in it", options.logs.join(", ")));
    }
    if has_stdin {
        found.first_ns = None;
    }
    Ok(found)
}
