//! W3C extended logs: the fields are what the last `#Fields` line says, times are UTC.

use super::{Entry, Field, FieldNames, Parsed, split_target};
use crate::time::{self, SECOND_NS, Stamp};

/// Where a field stands in a line; `NOWHERE` where it is not logged.
const NOWHERE: usize = usize::MAX;
/// Fields of a line that are looked at; no server writes as many.
const PLACES: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Date,
    Time,
    Method,
    Stem,
    Uri,
    Query,
    Client,
    Cookie,
    Rows,
}

const WHATS: usize = 9;
/// Names as IIS writes them; `cs-uri` is the specification's form of stem and query together.
const USUAL: [(&str, What); WHATS] = [
    ("date", What::Date),
    ("time", What::Time),
    ("cs-method", What::Method),
    ("cs-uri-stem", What::Stem),
    ("cs-uri", What::Uri),
    ("cs-uri-query", What::Query),
    ("c-ip", What::Client),
    ("cs(cookie)", What::Cookie),
    ("x-rows", What::Rows),
];

pub struct W3c {
    names: FieldNames,
    /// Which of our fields stands at which place of a line.
    at: [Option<What>; PLACES],
    places: [usize; WHATS],
    needed: usize,
    has_fields: bool,
    is_tabbed: Option<bool>,
    /// The date of the last `#Date` line, in days since 1970.
    day: Option<i64>,
    last_date: ([u8; 10], i64),
}

impl W3c {
    pub fn new(names: &FieldNames) -> W3c {
        W3c {
            names: names.clone(),
            at: [None; PLACES],
            places: [NOWHERE; WHATS],
            needed: 0,
            has_fields: false,
            is_tabbed: None,
            day: None,
            last_date: ([0; 10], 0),
        }
    }

    #[inline]
    pub fn line<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        match line.first() {
            None => return Parsed::Nothing,
            Some(b'#') => return self.directive(line),
            Some(_) if !self.has_fields => return Parsed::Bad("no #Fields line came before it"),
            Some(_) => {}
        }
        let separator = match self.is_tabbed {
            Some(tabbed) => separator(tabbed),
            None => {
                let tabbed = memchr::memchr(b'\t', line).is_some();
                self.is_tabbed = Some(tabbed);
                separator(tabbed)
            }
        };
        let mut found: [&[u8]; WHATS] = [b""; WHATS];
        let mut from = 0;
        for place in 0..self.needed {
            if from > line.len() {
                return Parsed::Bad("fewer fields than its #Fields line names");
            }
            let rest = &line[from..];
            let length = field_length(rest, separator);
            if let Some(what) = self.at[place] {
                found[what as usize] = &rest[..length];
            }
            from += length + 1;
        }
        self.entry(&found)
    }

    #[inline]
    fn entry<'a>(&mut self, found: &[&'a [u8]; WHATS]) -> Parsed<'a> {
        let get = |what: What| found[what as usize];
        let Some(stamp) = self.stamp(get(What::Date), get(What::Time)) else {
            return Parsed::Bad("its date and time are none");
        };
        let (mut path, mut query) = (get(What::Stem), get(What::Query));
        if path.is_empty() {
            let (stem, rest) = split_target(get(What::Uri));
            (path, query) = (stem, if rest.is_empty() { query } else { rest });
        }
        if path.is_empty() || path == b"-" {
            return Parsed::Bad("it has no path");
        }
        if query == b"-" {
            query = b"";
        }
        let method = if get(What::Method).is_empty() { b"GET" } else { get(What::Method) };
        let rows = std::str::from_utf8(get(What::Rows)).ok().and_then(|t| t.parse().ok());
        Parsed::Entry(Entry { stamp, method, path, query, client: get(What::Client), cookie: get(What::Cookie), rows })
    }

    #[inline]
    fn stamp(&mut self, date: &[u8], time: &[u8]) -> Option<Stamp> {
        let day = if date.is_empty() {
            self.day?
        } else if date == self.last_date.0 {
            self.last_date.1
        } else {
            let day = time::date(date)?;
            self.last_date = (date.try_into().ok()?, day);
            day
        };
        let stamp = time::time_of_day(time)?;
        Some(Stamp { at_ns: day * 86_400 * SECOND_NS + stamp.at_ns, ..stamp })
    }

    fn directive<'a>(&mut self, line: &[u8]) -> Parsed<'a> {
        if let Some(names) = after(line, b"#fields:") {
            self.fields(names);
        } else if let Some(text) = after(line, b"#date:")
            && let Some(day) = text.trim_ascii().get(..10).and_then(time::date)
        {
            self.day = Some(day);
        }
        Parsed::Nothing
    }

    fn fields(&mut self, names: &[u8]) {
        self.at = [None; PLACES];
        self.places = [NOWHERE; WHATS];
        let given = names.split(|b| b.is_ascii_whitespace()).filter(|n| !n.is_empty());
        for (place, name) in given.take(PLACES).enumerate() {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            if let Some(what) = self.what(&name) {
                self.at[place] = Some(what);
                self.places[what as usize] = place;
            }
        }
        self.needed = self.at.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.has_fields = true;
        self.is_tabbed = None;
    }

    fn what(&self, name: &str) -> Option<What> {
        let settable = [
            (Field::Time, What::Time),
            (Field::Method, What::Method),
            (Field::Path, What::Stem),
            (Field::Query, What::Query),
            (Field::Client, What::Client),
            (Field::Cookie, What::Cookie),
            (Field::Rows, What::Rows),
        ];
        let set = settable.iter().find(|(f, _)| self.names.get(f).is_some_and(|n| n.eq_ignore_ascii_case(name)));
        if let Some((_, what)) = set {
            return Some(*what);
        }
        let usual = USUAL.iter().find(|(n, _)| *n == name).map(|(_, what)| *what)?;
        let is_replaced = settable.iter().any(|(f, what)| *what == usual && self.names.contains_key(f));
        (!is_replaced).then_some(usual)
    }

    pub fn lacks(&self, cookie_wanted: bool) -> Option<String> {
        let missing = |what: What| self.places[what as usize] == NOWHERE;
        if !self.has_fields {
            return Some("has no #Fields line; without it nobody knows what its columns mean".into());
        }
        if missing(What::Time) || (missing(What::Date) && self.day.is_none()) {
            return Some("its #Fields lack date and time; log both".into());
        }
        if missing(What::Stem) && missing(What::Uri) {
            return Some("its #Fields lack cs-uri-stem; log it, or name another with --field path=NAME".into());
        }
        (cookie_wanted && missing(What::Cookie))
            .then(|| "its #Fields lack cs(Cookie); log it, or use --in-order client".into())
    }
}

fn separator(tabbed: bool) -> u8 {
    if tabbed { b'\t' } else { b' ' }
}

/// Up to the separator; a value in quotes may hold it.
#[inline]
fn field_length(rest: &[u8], separator: u8) -> usize {
    if rest.first() == Some(&b'"')
        && let Some(close) = memchr::memchr(b'"', &rest[1..])
    {
        let after = close + 2;
        return after + memchr::memchr(separator, &rest[after..]).unwrap_or(rest.len() - after);
    }
    // Fields are short: a plain loop is done before a vectorized search has begun.
    rest.iter().position(|b| *b == separator).unwrap_or(rest.len())
}

fn after<'a>(line: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = line.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Second, path, query, client.
    type Row = (i64, String, String, String);

    fn read(text: &str) -> Vec<Result<Row, &'static str>> {
        let mut parser = W3c::new(&FieldNames::new());
        let string = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let mut found = Vec::new();
        for line in text.lines() {
            match parser.line(line.as_bytes()) {
                Parsed::Entry(e) => {
                    found.push(Ok((e.stamp.at_ns / SECOND_NS, string(e.path), string(e.query), string(e.client))))
                }
                Parsed::Nothing => {}
                Parsed::Bad(why) => found.push(Err(why)),
            }
        }
        found
    }

    #[test]
    fn fields_may_change_in_mid_file() {
        let found = read(
            "#Software: Microsoft Internet Information Services 6.0\n#Version: 1.0\n#Date: 2003-06-02 00:00:00\n\
             #Fields: date time c-ip cs-method cs-uri-stem cs-uri-query sc-status cs(User-Agent)\n\
             2003-06-02 10:00:00 10.0.0.1 GET /tile.ashx T=1&S=10 200 Mozilla/4.0+(x)\n\
             #Fields: time cs-uri-query cs-uri-stem\n\
             10:00:01 - /famous.aspx\n\
             #Fields: x-a\tdate\ttime\tcs-uri\tc-ip\n\
             a b\t2003-06-03\t00:00:00\t/x?y=1\t::1\n\
             short\t2003-06-03\n",
        );
        let first = 1_054_548_000; // date -ud '2003-06-02 10:00:00' +%s
        let row = |at, p: &str, q: &str, c: &str| Ok((at, p.to_string(), q.to_string(), c.to_string()));
        assert_eq!(
            found,
            [
                row(first, "/tile.ashx", "T=1&S=10", "10.0.0.1"),
                row(first + 1, "/famous.aspx", "", ""),
                row(first + 50_400, "/x", "y=1", "::1"),
                Err("fewer fields than its #Fields line names"),
            ]
        );
    }

    #[test]
    fn quoted_values_may_hold_spaces() {
        let found = read(
            "#Fields: cs(User-Agent) date time cs-uri-stem\n\"a b c\" 2003-06-02 10:00:00 /x\n\"torn 2003-06-02 10:00:00 /x",
        );
        assert_eq!(found[0].as_ref().unwrap().1, "/x");
        assert_eq!(found[1].as_ref().unwrap().1, "/x");
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut parser = W3c::new(&FieldNames::new());
        assert!(parser.lacks(false).unwrap().contains("#Fields"));
        parser.line(b"#Fields: time cs-uri-stem");
        assert!(parser.lacks(false).unwrap().contains("date"));
        parser.line(b"#Fields: date time c-ip");
        assert!(parser.lacks(false).unwrap().contains("cs-uri-stem"));
        parser.line(b"#Fields: date time cs-uri-stem");
        assert_eq!(parser.lacks(false), None);
        assert!(parser.lacks(true).unwrap().contains("cs(Cookie)"));
    }
}
