//! Duty: what a request of a log means for the database: pages by path and method, typed parameters, the brick that a
//! call goes to. Refusal: it opens nothing and runs nothing.

mod file;
mod paths;

use std::collections::BTreeMap;

use crate::format::Entry;
use crate::values::{Kind, Value, decoded};
use paths::{Captures, Paths};

pub use file::{MappingError, Statement};

/// A call as it goes to a database.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub at_ns: i64,
    /// A hash of who sent the request: client address or cookie.
    pub session: u64,
    /// Which `[[call]]` of the mapping.
    pub call: u16,
    pub brick: u16,
    /// Rows that were recorded or are expected; negative where nobody knows.
    pub expected_rows: i64,
    pub values: Box<[Value]>,
}

/// Why a request becomes no call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmapped {
    /// No path of the mapping is like it.
    Path,
    /// Its path is mapped, with these methods and not with its own.
    Method { taken: Vec<String> },
    /// A page was found, but one of its parameters (call and place) is missing or not of its type.
    Parameter { call: u16, parameter: u16 },
}

pub(crate) enum Source {
    Query,
    Path,
    Constant,
}

pub(crate) struct Parameter {
    pub name: String,
    /// Its name in the query string, in lower case.
    pub key: Vec<u8>,
    pub source: Source,
    pub kind: Kind,
    pub default: Option<Value>,
    /// Its place among the bound values; parameters that only routes speak of have none.
    pub bound: Option<usize>,
}

pub(crate) struct Page {
    pub page: usize,
    pub methods: Vec<Vec<u8>>,
    pub parameters: Vec<Parameter>,
    pub bound: usize,
    pub expected_rows: i64,
    /// Places of the parameters that choose the brick where no route does, by name.
    pub hashed: Vec<usize>,
}

pub(crate) struct Route {
    pub brick: u16,
    pub conditions: Vec<(String, Condition)>,
}

pub(crate) enum Condition {
    Within(f64, f64),
    Equals(String),
}

/// A mapping that has been read and checked.
pub struct Mapping {
    pub title: String,
    pub source: String,
    /// Names in tables, in the order of the file, each once.
    pub pages: Vec<String>,
    /// One for each `[[call]]`.
    pub statements: Vec<Statement>,
    pub(crate) calls: Vec<Page>,
    pub(crate) routes: Vec<Route>,
    pub(crate) paths: Paths,
    pub bricks: u16,
}

/// Room that mapping one request needs, kept between requests.
#[derive(Default)]
pub struct Scratch {
    decoded: Vec<u8>,
    path: Vec<u8>,
    lower: Vec<u8>,
    values: Vec<Value>,
}

impl Mapping {
    pub fn from_toml(text: &str, bricks: usize) -> Result<Mapping, MappingError> {
        file::read(text, bricks)
    }

    /// Which page of the tables a call belongs to.
    pub fn page_of(&self, call: u16) -> usize {
        self.calls[usize::from(call)].page
    }

    pub fn parameter_name(&self, call: u16, parameter: u16) -> &str {
        &self.calls[usize::from(call)].parameters[usize::from(parameter)].name
    }

    /// What a request comes to. The first `[[call]]` that takes it, in the order of the file.
    #[inline]
    pub fn call(&self, entry: &Entry, session: u64, scratch: &mut Scratch) -> Result<Call, Unmapped> {
        let Scratch { decoded: decode, path, lower, values } = scratch;
        let path = decoded(entry.path, false, path);
        lower.clear();
        lower.extend(path.iter().map(u8::to_ascii_lowercase));
        let mut reason = Unmapped::Path;
        let mut captures = Captures::default();
        let takes = |page: &Page| page.methods.iter().any(|m| m.eq_ignore_ascii_case(entry.method));
        for &number in self.paths.candidates(lower) {
            let page = &self.calls[usize::from(number)];
            if !takes(page) || !self.paths.matches(number, path, lower, &mut captures) {
                continue;
            }
            match page.read(entry.query, path, &captures, values, decode) {
                Ok(()) => return Ok(self.made(number, page, entry, session, values)),
                Err(parameter) => {
                    if reason == Unmapped::Path {
                        reason = Unmapped::Parameter { call: number, parameter };
                    }
                }
            }
        }
        if reason == Unmapped::Path {
            let mut taken = Vec::new();
            for &number in self.paths.candidates(lower) {
                if self.paths.matches(number, path, lower, &mut captures) {
                    let methods = &self.calls[usize::from(number)].methods;
                    taken.extend(methods.iter().map(|m| String::from_utf8_lossy(m).to_ascii_uppercase()));
                }
            }
            taken.sort();
            taken.dedup();
            if !taken.is_empty() {
                reason = Unmapped::Method { taken };
            }
        }
        Err(reason)
    }

    fn made(&self, number: u16, page: &Page, entry: &Entry, session: u64, values: &mut Vec<Value>) -> Call {
        let brick = if self.bricks > 1 { self.brick(page, values) } else { 0 };
        let expected_rows = entry.rows.map_or(page.expected_rows, |r| r.min(i64::MAX as u64) as i64);
        let bound = if page.bound == values.len() && page.is_in_order() {
            values.drain(..).collect()
        } else {
            let mut bound = vec![Value::Null; page.bound];
            for (parameter, value) in page.parameters.iter().zip(values.drain(..)) {
                if let Some(place) = parameter.bound {
                    bound[place] = value;
                }
            }
            bound.into_boxed_slice()
        };
        Call { at_ns: entry.stamp.at_ns, session, call: number, brick, expected_rows, values: bound }
    }

    /// The first route whose conditions all hold; else by hash.
    fn brick(&self, page: &Page, values: &[Value]) -> u16 {
        let value = |name: &str| page.parameters.iter().position(|p| p.name == name).map(|at| &values[at]);
        let holds = |(name, condition): &(String, Condition)| value(name).is_some_and(|v| condition.holds(v));
        if let Some(route) = self.routes.iter().find(|r| r.conditions.iter().all(holds)) {
            return route.brick;
        }
        let mut hash = Fnv::default();
        for at in &page.hashed {
            hash.write(page.parameters[*at].name.as_bytes());
            hash.write(b"=");
            hash.write(values[*at].text().as_bytes());
            hash.write(b"\n");
        }
        (hash.0 % u64::from(self.bricks)) as u16
    }

    /// The brick of a call of `page` with these parameters, for whoever distributes data over bricks.
    pub fn route(&self, page: &str, given: &BTreeMap<String, String>) -> Result<u16, String> {
        let is_named = |call: &&Page| self.pages[call.page] == page;
        let call = self.calls.iter().find(is_named).ok_or_else(|| format!("the mapping has no page {page}"))?;
        let mut values = Vec::new();
        for parameter in &call.parameters {
            let value = match given.get(&parameter.name) {
                Some(text) => Value::parse(parameter.kind, text.as_bytes())
                    .ok_or_else(|| format!("{}: `{text}` is no {}", parameter.name, parameter.kind.name()))?,
                None => {
                    parameter.default.clone().ok_or_else(|| format!("page {page}: {} is missing", parameter.name))?
                }
            };
            values.push(value);
        }
        Ok(self.brick(call, &values))
    }
}

impl Condition {
    fn holds(&self, value: &Value) -> bool {
        match self {
            Condition::Within(low, high) => value.number().is_some_and(|v| (*low..=*high).contains(&v)),
            Condition::Equals(text) => value.text() == *text,
        }
    }
}

impl Page {
    fn is_in_order(&self) -> bool {
        self.parameters.iter().enumerate().all(|(at, p)| p.bound == Some(at))
    }

    /// All parameters, in the order of the file; or the place of the first that cannot be had.
    #[inline]
    fn read(
        &self,
        query: &[u8],
        path: &[u8],
        captures: &Captures,
        values: &mut Vec<Value>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), u16> {
        values.clear();
        let mut rest = query;
        for (place, parameter) in self.parameters.iter().enumerate() {
            let text = match parameter.source {
                Source::Query => in_query(query, &mut rest, &parameter.key),
                Source::Path => captures.get(&parameter.name, path),
                Source::Constant => None,
            };
            let in_query = matches!(parameter.source, Source::Query);
            let value = match text {
                Some(text) => Value::parse(parameter.kind, decoded(text, in_query, scratch)),
                None => parameter.default.clone(),
            };
            values.push(value.ok_or(place as u16)?);
        }
        Ok(())
    }
}

/// The value of a key in a query string. Keys mostly come in the order of the mapping, so the search goes on from where
/// the last one was found, and once around.
#[inline]
fn in_query<'a>(query: &'a [u8], rest: &mut &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    for pass in 0..2 {
        let mut from = if pass == 0 { *rest } else { query };
        while !from.is_empty() {
            let end = from.iter().position(|b| *b == b'&').unwrap_or(from.len());
            let pair = &from[..end];
            from = &from[(end + 1).min(from.len())..];
            let Some((name, value)) = pair.split_at_checked(key.len()) else { continue };
            if name.eq_ignore_ascii_case(key)
                && let [b'=', value @ ..] = value
            {
                *rest = from;
                return Some(value);
            }
        }
    }
    None
}

/// FNV-1a with 64 bits: the same on every machine and in every version.
pub struct Fnv(pub u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xCBF2_9CE4_8422_2325)
    }
}

impl Fnv {
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
        }
    }
}

#[cfg(test)]
mod tests;
