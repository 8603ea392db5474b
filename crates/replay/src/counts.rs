//! Duty: what was in the logs: lines, requests, what they map to, what was left out and why.
//! Refusal: bounded in memory however long the logs are; what that costs in exactness is said.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use crate::format::{Entry, Format};
use crate::lines::Lines;
use crate::mapping::{Call, Mapping, Unmapped};
use crate::time::SECOND_NS;
use crate::values::Value;

const SAMPLES: usize = 10;
/// A sample shows what kind of line it is; no more is needed.
const SAMPLE_CHARS: usize = 200;
const METHOD_CHARS: usize = 16;
/// Paths that are told apart; the rarest are forgotten first.
const PATHS_MAX: usize = 20_000;
const PATHS_TOLD: usize = 20;
/// Sessions that are counted exactly.
const SESSIONS_MAX: usize = 1 << 20;
const MINUTE_S: i64 = 60;
/// Minutes that are told one by one: ten days. Longer logs are told in larger pieces.
const MINUTES_TOLD: usize = 14_400;

#[derive(Debug, Clone, Serialize)]
pub struct BadLine {
    pub log: String,
    pub line: u64,
    pub reason: &'static str,
    pub text: String,
}

struct PathSeen {
    requests: u64,
    /// Methods with which the mapping takes this path.
    mapped_methods: Vec<String>,
}

#[derive(Default)]
pub struct Counts {
    pub lines: u64,
    pub entries: u64,
    pub outside: u64,
    pub outliers: u64,
    pub out_of_order: u64,
    pub late: u64,
    /// Read after the last call of the run was given out.
    pub read_on: u64,
    /// Of those, the requests whose second had been given out: the replay lacked them.
    pub missed: u64,
    /// All logs have been read to their ends.
    pub at_end: bool,
    late_burst: usize,
    pub calls: u64,
    bad: BTreeMap<&'static str, u64>,
    samples: Vec<BadLine>,
    /// Calls by `[[call]]`, and by brick.
    by_call: Vec<u64>,
    by_brick: Vec<u64>,
    unusable: BTreeMap<(u16, u16), u64>,
    unmatched: u64,
    /// By method and path.
    paths: HashMap<Box<[u8]>, PathSeen>,
    has_forgotten: bool,
    key: Vec<u8>,
    logs: Vec<LogFacts>,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
    peak_second: (u64, i64),
    details: Option<Box<Details>>,
}

/// What only `--explain` shows.
#[derive(Default)]
struct Details {
    sessions: HashSet<u64>,
    minutes: BTreeMap<i64, (u64, u64)>,
    examples: Vec<Option<String>>,
}

#[derive(Debug, Clone, Serialize)]
pub struct LogFacts {
    pub path: String,
    pub format: &'static str,
    pub read_bytes: u64,
    pub overlong_lines: u64,
    pub torn: Option<String>,
}

impl Counts {
    pub fn new(mapping: &Mapping, with_details: bool) -> Counts {
        let examples = vec![None; mapping.statements.len()];
        Counts {
            by_call: vec![0; mapping.statements.len()],
            by_brick: vec![0; usize::from(mapping.bricks)],
            details: with_details.then(|| Box::new(Details { examples, ..Details::default() })),
            ..Counts::default()
        }
    }

    pub fn file_ended(&mut self, path: &str, lines: &Lines, format: Option<Format>) {
        self.logs.push(LogFacts {
            path: path.to_string(),
            format: format.map_or("empty", Format::name),
            read_bytes: lines.read_bytes,
            overlong_lines: lines.overlong,
            torn: lines.torn.clone(),
        });
        self.lines += lines.overlong;
        if lines.overlong > 0 {
            *self.bad.entry("it is longer than any server writes").or_default() += lines.overlong;
        }
    }

    pub fn bad(&mut self, path: &str, line_number: u64, reason: &'static str, line: &[u8]) {
        self.lines += 1;
        *self.bad.entry(reason).or_default() += 1;
        if self.samples.len() < SAMPLES {
            let text: String = String::from_utf8_lossy(line).chars().take(SAMPLE_CHARS).collect();
            let text = text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
            self.samples.push(BadLine { log: path.to_string(), line: line_number, reason, text });
        }
    }

    #[inline]
    pub fn entry(&mut self, entry: &Entry, session: u64) {
        self.entries += 1;
        let at_ns = entry.stamp.at_ns;
        self.first_ns = Some(self.first_ns.map_or(at_ns, |f| f.min(at_ns)));
        self.last_ns = Some(self.last_ns.map_or(at_ns, |l| l.max(at_ns)));
        if let Some(details) = &mut self.details {
            if details.sessions.len() < SESSIONS_MAX {
                details.sessions.insert(session);
            }
            details.minutes.entry(at_ns.div_euclid(SECOND_NS * MINUTE_S)).or_default().0 += 1;
        }
    }

    #[inline]
    pub fn mapped(&mut self, mapping: &Mapping, call: &Call) {
        self.calls += 1;
        self.by_call[usize::from(call.call)] += 1;
        self.by_brick[usize::from(call.brick)] += 1;
        if let Some(details) = &mut self.details {
            details.minutes.entry(call.at_ns.div_euclid(SECOND_NS * MINUTE_S)).or_default().1 += 1;
            details.examples[usize::from(call.call)].get_or_insert_with(|| example(mapping, call));
        }
    }

    pub fn unmapped(&mut self, reason: Unmapped, entry: &Entry) {
        let mapped_methods = match reason {
            Unmapped::Parameter { call, parameter } => {
                *self.unusable.entry((call, parameter)).or_default() += 1;
                return;
            }
            Unmapped::Path => Vec::new(),
            Unmapped::Method { taken } => taken,
        };
        self.unmatched += 1;
        let method = &entry.method[..entry.method.len().min(METHOD_CHARS)];
        let path = &entry.path[..entry.path.len().min(SAMPLE_CHARS)];
        self.key.clear();
        self.key.extend_from_slice(method);
        self.key.push(b' ');
        self.key.extend_from_slice(path);
        if let Some(seen) = self.paths.get_mut(self.key.as_slice()) {
            seen.requests += 1;
            return;
        }
        if self.paths.len() >= PATHS_MAX {
            self.forget();
        }
        self.paths.insert(self.key.as_slice().into(), PathSeen { requests: 1, mapped_methods });
    }

    /// Leaves out the rarest half.
    fn forget(&mut self) {
        let mut counts: Vec<u64> = self.paths.values().map(|seen| seen.requests).collect();
        counts.sort_unstable();
        let limit = counts[counts.len() / 2];
        self.paths.retain(|_, seen| seen.requests > limit);
        self.has_forgotten = true;
    }

    pub fn second(&mut self, second: i64, calls: usize, late: usize) {
        if calls as u64 > self.peak_second.0 {
            self.peak_second = (calls as u64, second);
        }
        self.late_burst = self.late_burst.max(late);
    }

    pub fn bad_lines(&self) -> u64 {
        self.bad.values().sum()
    }

    /// Everything, for reports and `--explain`.
    pub fn document(&self, mapping: &Mapping) -> Document {
        let mut pages: Vec<PageCount> =
            mapping.pages.iter().map(|page| PageCount { page: page.clone(), calls: 0, example: None }).collect();
        for (number, calls) in self.by_call.iter().enumerate() {
            let page = &mut pages[mapping.page_of(number as u16)];
            page.calls += calls;
            let example = self.details.as_ref().and_then(|d| d.examples[number].clone());
            page.example = page.example.take().or(example);
        }
        let mut paths: Vec<(&[u8], &PathSeen)> = self.paths.iter().map(|(key, seen)| (&**key, seen)).collect();
        paths.sort_by(|a, b| b.1.requests.cmp(&a.1.requests).then(a.0.cmp(b.0)));
        let told = |(key, seen): &(&[u8], &PathSeen)| {
            let text = String::from_utf8_lossy(key);
            let (method, path) = text.split_once(' ').unwrap_or(("", &text));
            PathCount {
                method: method.to_string(),
                path: path.to_string(),
                requests: seen.requests,
                mapped_methods: seen.mapped_methods.clone(),
            }
        };
        let unusable = self.unusable.iter().map(|((call, parameter), requests)| UnusableCount {
            page: mapping.statements[usize::from(*call)].page.clone(),
            parameter: mapping.parameter_name(*call, *parameter).to_string(),
            requests: *requests,
        });
        Document {
            logs: self.logs.clone(),
            lines: self.lines,
            requests: self.entries,
            calls: self.calls,
            covered_share: (self.entries > 0).then(|| self.calls as f64 / self.entries as f64),
            bad_lines: self.bad_lines(),
            bad_by_reason: self.bad.iter().map(|(k, v)| (k.to_string(), *v)).collect(),
            bad_samples: self.samples.clone(),
            outside: self.outside,
            outliers: self.outliers,
            out_of_order: self.out_of_order,
            late: self.late,
            read_on: self.read_on,
            missed: self.missed,
            at_end: self.at_end,
            late_burst_calls: self.late_burst as u64,
            unmatched: self.unmatched,
            unmatched_paths: paths.iter().take(PATHS_TOLD).map(told).collect(),
            unmatched_paths_are_lower_bounds: self.has_forgotten,
            unusable: unusable.collect(),
            pages,
            calls_by_brick: self.by_brick.clone(),
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            peak_second_calls: self.peak_second.0,
            peak_second_unix_s: (self.peak_second.0 > 0).then_some(self.peak_second.1),
            sessions: self.details.as_ref().map(|d| d.sessions.len() as u64),
            sessions_are_lower_bound: self.details.as_ref().is_some_and(|d| d.sessions.len() >= SESSIONS_MAX),
            course: self.details.as_ref().map_or_else(Vec::new, |d| course(&d.minutes)),
        }
    }
}

fn example(mapping: &Mapping, call: &Call) -> String {
    let shown = |value: &Value| match value {
        Value::Null => "null".to_string(),
        Value::Text(text) => format!("'{}'", text.chars().take(40).collect::<String>()),
        other => other.text().into_owned(),
    };
    let values: Vec<String> = call.values.iter().map(shown).collect();
    let sql = mapping.statements[usize::from(call.call)].sql.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{sql}  ←  {}", values.join(", "))
}

/// Requests and calls of each minute, or of larger pieces where there are too many; pieces without any are zero.
fn course(minutes: &BTreeMap<i64, (u64, u64)>) -> Vec<CoursePoint> {
    let (Some((first, _)), Some((last, _))) = (minutes.first_key_value(), minutes.last_key_value()) else {
        return Vec::new();
    };
    let width = (last - first + 1).div_euclid(MINUTES_TOLD as i64) + 1;
    let mut pieces: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
    let wanted = 0..=(last - first) / width;
    pieces.extend(wanted.map(|piece| (piece, (0, 0))));
    for (minute, (requests, calls)) in minutes {
        let piece = pieces.entry((minute - first) / width).or_default();
        piece.0 += requests;
        piece.1 += calls;
    }
    let point = |(piece, (requests, calls)): (i64, (u64, u64))| CoursePoint {
        unix_s: (first + piece * width) * MINUTE_S,
        length_s: width * MINUTE_S,
        requests,
        calls,
    };
    pieces.into_iter().map(point).collect()
}

#[derive(Debug, Clone, Serialize)]
pub struct Document {
    pub logs: Vec<LogFacts>,
    pub lines: u64,
    pub requests: u64,
    pub calls: u64,
    pub covered_share: Option<f64>,
    pub bad_lines: u64,
    pub bad_by_reason: BTreeMap<String, u64>,
    pub bad_samples: Vec<BadLine>,
    pub outside: u64,
    /// Requests that were left out because their stamps are far from all others.
    pub outliers: u64,
    pub out_of_order: u64,
    /// Calls whose own second had gone by, and the most of them that came within one.
    pub late: u64,
    pub late_burst_calls: u64,
    /// Requests that were read after the end of the run only to see whether they belong before it, and those that do.
    pub read_on: u64,
    pub missed: u64,
    /// The logs were read to their ends.
    pub at_end: bool,
    pub unmatched: u64,
    pub unmatched_paths: Vec<PathCount>,
    pub unmatched_paths_are_lower_bounds: bool,
    pub unusable: Vec<UnusableCount>,
    pub pages: Vec<PageCount>,
    pub calls_by_brick: Vec<u64>,
    pub first_ns: Option<i64>,
    pub last_ns: Option<i64>,
    pub peak_second_calls: u64,
    pub peak_second_unix_s: Option<i64>,
    pub sessions: Option<u64>,
    pub sessions_are_lower_bound: bool,
    pub course: Vec<CoursePoint>,
}

#[derive(Debug, Clone, Serialize)]
pub struct PathCount {
    pub method: String,
    pub path: String,
    pub requests: u64,
    /// Methods with which this path is mapped.
    pub mapped_methods: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct UnusableCount {
    pub page: String,
    pub parameter: String,
    pub requests: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct PageCount {
    pub page: String,
    pub calls: u64,
    pub example: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct CoursePoint {
    pub unix_s: i64,
    pub length_s: i64,
    pub requests: u64,
    pub calls: u64,
}
