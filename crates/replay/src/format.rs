//! Duty: lines of web logs as entries: W3C extended (IIS), common and combined (Apache, nginx), JSON lines.
//! Refusal: it decides nothing about an entry; a line that is none is said to be bad, with the reason, and no more.

mod combined;
mod json;
mod w3c;

use std::collections::BTreeMap;

use crate::time::Stamp;

/// One request as the log has it. Text is as it stands there, still percent-encoded.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub stamp: Stamp,
    pub method: &'a [u8],
    pub path: &'a [u8],
    pub query: &'a [u8],
    pub client: &'a [u8],
    pub cookie: &'a [u8],
    /// Rows that the request returned when it was recorded.
    pub rows: Option<u64>,
}

pub enum Parsed<'a> {
    Entry(Entry<'a>),
    /// A directive or an empty line.
    Nothing,
    Bad(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    W3c,
    Combined,
    Json,
}

impl Format {
    pub fn parse(text: &str) -> Result<Option<Format>, String> {
        match text {
            "auto" => Ok(None),
            "w3c" | "iis" => Ok(Some(Format::W3c)),
            "combined" | "common" | "apache" | "nginx" => Ok(Some(Format::Combined)),
            "json" => Ok(Some(Format::Json)),
            _ => Err(format!("`{text}` is no format of a log; auto, w3c, combined and json are")),
        }
    }

    /// By its first line that is not empty.
    fn of(line: &[u8]) -> Format {
        match line.trim_ascii_start().first() {
            Some(b'#') => Format::W3c,
            Some(b'{') => Format::Json,
            // IIS goes on with a new file in mid-stream: data lines that begin with a date, without directives.
            _ if line.get(..10).is_some_and(|d| crate::time::date(d).is_some()) => Format::W3c,
            _ => Format::Combined,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Format::W3c => "W3C extended",
            Format::Combined => "common or combined",
            Format::Json => "JSON lines",
        }
    }
}

/// What can be asked of a log; the names of JSON keys and W3C fields can be set for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    Time,
    Request,
    Method,
    Path,
    Query,
    Client,
    Cookie,
    Rows,
}

impl Field {
    pub const ALL: [Field; 8] = [
        Field::Time,
        Field::Request,
        Field::Method,
        Field::Path,
        Field::Query,
        Field::Client,
        Field::Cookie,
        Field::Rows,
    ];

    pub fn name(self) -> &'static str {
        ["time", "request", "method", "path", "query", "client", "cookie", "rows"][self as usize]
    }
}

/// Names that replace the usual ones: `time=ts`.
pub type FieldNames = BTreeMap<Field, String>;

pub fn parse_field(text: &str) -> Result<(Field, String), String> {
    let (name, given) = text.split_once('=').ok_or_else(|| format!("`{text}`: write it as path=uri"))?;
    let field = Field::ALL.into_iter().find(|f| f.name() == name);
    match field {
        Some(field) if !given.is_empty() => Ok((field, given.to_string())),
        _ => {
            let known = Field::ALL.map(Field::name).join(", ");
            Err(format!("`{text}`: write NAME=KEY, where NAME is one of {known}"))
        }
    }
}

/// The parser of one log; what it learns from directives holds until the next one.
pub struct Parser {
    format: Option<Format>,
    names: FieldNames,
    w3c: w3c::W3c,
    json: json::JsonLog,
}

impl Parser {
    pub fn new(format: Option<Format>, names: &FieldNames) -> Parser {
        Parser { format, names: names.clone(), w3c: w3c::W3c::new(names), json: json::JsonLog::new(names) }
    }

    /// The format, once a line has been seen.
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    #[inline]
    pub fn line<'a>(&'a mut self, line: &'a [u8]) -> Parsed<'a> {
        let Some(format) = self.format else {
            let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
            if line.trim_ascii().is_empty() {
                return Parsed::Nothing;
            }
            self.format = Some(Format::of(line));
            return self.line(line);
        };
        match format {
            Format::W3c => self.w3c.line(line),
            Format::Combined => combined::line(line),
            Format::Json => self.json.line(line),
        }
    }

    /// What a log lacks that is needed, in the user's words, once its lines have been seen.
    pub fn lacks(&self, cookie_wanted: bool) -> Option<String> {
        match self.format? {
            Format::W3c => self.w3c.lacks(cookie_wanted),
            Format::Combined if cookie_wanted => {
                Some("the combined format has no cookies; use --in-order client".into())
            }
            Format::Combined => None,
            Format::Json => self.json.lacks(&self.names),
        }
    }
}

/// Path and query of a request target; scheme and host of a proxy's form are left out.
pub fn split_target(target: &[u8]) -> (&[u8], &[u8]) {
    let target = match memchr::memmem::find(&target[..target.len().min(8)], b"://") {
        Some(at) => {
            let rest = &target[at + 3..];
            &rest[memchr::memchr(b'/', rest).unwrap_or(rest.len())..]
        }
        None => target,
    };
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, b""),
    }
}

/// Method, path and query of a request line such as `GET /a?b HTTP/1.1`.
pub fn split_request(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = memchr::memchr(b' ', line)?;
    let (method, rest) = (&line[..space], &line[space + 1..]);
    if method.is_empty() || !method.iter().all(|b| b.is_ascii_alphabetic() || *b == b'-' || *b == b'_') {
        return None;
    }
    let end = memchr::memrchr(b' ', rest).filter(|at| rest[at + 1..].starts_with(b"HTTP/")).unwrap_or(rest.len());
    let (path, query) = split_target(&rest[..end]);
    (!path.is_empty()).then_some((method, path, query))
}
