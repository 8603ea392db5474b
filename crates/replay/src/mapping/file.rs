//! The mapping's file: TOML in, a checked mapping out; or one line that says where and what is wrong.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::paths::{Paths, captures_of};
use super::{Condition, Mapping, Page, Parameter, Route, Source};
use crate::sql::numbered;
use crate::values::{Kind, Value};

/// More would not fit the numbers that calls carry, and no table would show them.
const CALLS_MAX: usize = 1_000;
pub const BRICKS_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingError(pub String);

impl std::fmt::Display for MappingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MappingError {}

/// What is prepared on each session.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    pub page: String,
    pub sql: String,
    pub kinds: Vec<Kind>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    title: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    #[allow(dead_code)] // for the reader of the file
    about: String,
    #[serde(default)]
    partition: Option<Vec<String>>,
    #[serde(default)]
    call: Vec<FileCall>,
    #[serde(default)]
    route: Vec<FileRoute>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCall {
    page: String,
    path: String,
    #[serde(default = "get_only")]
    methods: Vec<String>,
    sql: String,
    #[serde(default)]
    parameters: BTreeMap<String, FileParameter>,
    #[serde(default)]
    expect_rows: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileParameter {
    #[serde(default)]
    from: From,
    #[serde(rename = "type")]
    kind: Kind,
    key: Option<String>,
    default: Option<toml::Value>,
    value: Option<toml::Value>,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum From {
    #[default]
    Query,
    Path,
    Constant,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRoute {
    brick: u32,
    #[serde(default)]
    r#where: BTreeMap<String, toml::Value>,
}

fn get_only() -> Vec<String> {
    vec!["GET".into()]
}

pub fn read(text: &str, bricks: usize) -> Result<Mapping, MappingError> {
    read_lines(text, bricks).map_err(|text| {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        MappingError(words.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect())
    })
}

fn read_lines(text: &str, bricks: usize) -> Result<Mapping, String> {
    let file: File = toml::from_str(text).map_err(|e| plan::reader_words(text, &e))?;
    if file.call.is_empty() {
        return Err("it has no [[call]]; without one no request becomes a call".into());
    }
    if file.call.len() > CALLS_MAX || !(1..=BRICKS_MAX).contains(&bricks) {
        return Err(format!("at most {CALLS_MAX} calls and {BRICKS_MAX} databases"));
    }
    let paths: Vec<String> = file.call.iter().map(|c| c.path.clone()).collect();
    let spoken = |number: usize| format!("call {} ({})", number + 1, file.call[number].page);
    let made = Paths::new(&paths).map_err(|(number, e)| format!("{}: {e}", spoken(number)))?;
    let mut mapping = Mapping {
        title: file.title.clone(),
        source: file.source.clone(),
        pages: Vec::new(),
        statements: Vec::new(),
        calls: Vec::new(),
        routes: Vec::new(),
        paths: made,
        bricks: bricks as u16,
    };
    for (number, call) in file.call.iter().enumerate() {
        let (page, statement) = page(call, &mut mapping.pages, file.partition.as_deref())
            .map_err(|e| format!("{}: {e}", spoken(number)))?;
        mapping.calls.push(page);
        mapping.statements.push(statement);
    }
    if let Some(names) = &file.partition {
        names.iter().try_for_each(|name| known(&file.call, name).map_err(|e| format!("partition: {e}")))?;
    }
    for (number, given) in file.route.iter().enumerate() {
        let made = route(given, &file.call, bricks).map_err(|e| format!("route {}: {e}", number + 1))?;
        mapping.routes.push(made);
    }
    Ok(mapping)
}

fn page(call: &FileCall, pages: &mut Vec<String>, partition: Option<&[String]>) -> Result<(Page, Statement), String> {
    if call.page.trim().is_empty() {
        return Err("page is empty; tables need its name".into());
    }
    if call.methods.is_empty() {
        return Err("methods is empty; leave it out for GET".into());
    }
    let (sql, names) = numbered(&call.sql);
    if sql.trim().is_empty() {
        return Err("sql is empty".into());
    }
    if let Some(missing) = names.iter().find(|n| !call.parameters.contains_key(*n)) {
        return Err(format!("its sql speaks of :{missing}, which [call.parameters] lacks"));
    }
    let captures = captures_of(&call.path);
    let mut parameters = Vec::new();
    // First those that are bound, in the order of their numbers; then those that only choose the brick.
    let unbound = call.parameters.keys().filter(|n| !names.contains(n));
    for name in names.iter().chain(unbound) {
        let made = parameter(name, &call.parameters[name], &captures, names.iter().position(|n| n == name))?;
        parameters.push(made);
    }
    let mut kinds = Vec::new();
    for name in &names {
        kinds.push(call.parameters[name].kind);
    }
    let mut hashed: Vec<usize> = (0..parameters.len())
        .filter(|at| partition.is_none_or(|names| names.contains(&parameters[*at].name)))
        .collect();
    hashed.sort_by(|a, b| parameters[*a].name.cmp(&parameters[*b].name));
    let page = pages.iter().position(|p| *p == call.page).unwrap_or_else(|| {
        pages.push(call.page.clone());
        pages.len() - 1
    });
    let methods = call.methods.iter().map(|m| m.clone().into_bytes()).collect();
    let expected_rows = call.expect_rows.map_or(-1, i64::from);
    let statement = Statement { page: call.page.clone(), sql, kinds };
    Ok((Page { page, methods, bound: names.len(), parameters, expected_rows, hashed }, statement))
}

fn parameter(
    name: &str,
    given: &FileParameter,
    captures: &[String],
    bound: Option<usize>,
) -> Result<Parameter, String> {
    let read = |value: &toml::Value, key: &str| {
        let refused = || format!("parameter {name}: {key} = {value} is no {}", given.kind.name());
        Value::from_toml(given.kind, value).ok_or_else(refused)
    };
    let default = given.default.as_ref().map(|v| read(v, "default")).transpose()?;
    let source = match given.from {
        From::Query => Source::Query,
        From::Path => Source::Path,
        From::Constant => Source::Constant,
    };
    if given.from == From::Path && !captures.iter().any(|c| c == name) {
        return Err(format!("parameter {name} comes from the path, which has no {{{name}}}"));
    }
    if given.key.is_some() && given.from != From::Query {
        return Err(format!("parameter {name}: key is for parameters out of the query string"));
    }
    let default = match (given.from, &given.value) {
        (From::Constant, Some(value)) => Some(read(value, "value")?),
        (From::Constant, None) => return Err(format!("parameter {name} is a constant; give its value")),
        (_, Some(_)) => return Err(format!("parameter {name}: value is for constants; say from = \"constant\"")),
        (_, None) => default,
    };
    let key = given.key.as_deref().unwrap_or(name).to_ascii_lowercase().into_bytes();
    Ok(Parameter { name: name.to_string(), key, source, kind: given.kind, default, bound })
}

fn known(calls: &[FileCall], name: &str) -> Result<(), String> {
    let found = calls.iter().any(|c| c.parameters.contains_key(name));
    if found { Ok(()) } else { Err(format!("no call has a parameter {name}")) }
}

fn route(given: &FileRoute, calls: &[FileCall], bricks: usize) -> Result<Route, String> {
    // A file that was written for three databases is tried on one as well: there nothing is routed.
    if bricks > 1 && given.brick as usize >= bricks {
        return Err(format!("brick {} is not there: {bricks} databases are counted from 0", given.brick));
    }
    let mut conditions = Vec::new();
    for (name, value) in &given.r#where {
        known(calls, name)?;
        conditions.push((name.clone(), condition(name, value)?));
    }
    Ok(Route { brick: given.brick.min(u32::from(u16::MAX)) as u16, conditions })
}

/// `"1"`, `7`, `"10..12"`, `"..5"`, `"8.."`: ranges include both ends.
fn condition(name: &str, value: &toml::Value) -> Result<Condition, String> {
    let text = match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(n) => n.to_string(),
        toml::Value::Float(x) => x.to_string(),
        toml::Value::Boolean(b) => b.to_string(),
        _ => return Err(format!("{name}: a value or a range such as \"10..12\"")),
    };
    let Some((low, high)) = text.split_once("..") else {
        return Ok(text.parse::<f64>().map_or(Condition::Equals(text), |v| Condition::Within(v, v)));
    };
    let number = |text: &str, open: f64| match text.trim() {
        "" => Ok(open),
        text => text.parse::<f64>().map_err(|_| format!("{name}: `{text}` is no number; write a range as 10..12")),
    };
    let (low, high) = (number(low, f64::NEG_INFINITY)?, number(high, f64::INFINITY)?);
    if low > high { Err(format!("{name}: {text} is empty")) } else { Ok(Condition::Within(low, high)) }
}
