//! Sizes, durations and shares as people write them: `8K` is 8 KiB, as in every storage tool; `4TB` is what is sold.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

/// A number of bytes. Text: `512`, `8K`, `8KiB`, `1.5 MiB`, and `500GB` for 5 * 10^11; see [`parse_bytes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Default)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl JsonSchema for Bytes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bytes".into()
    }
    fn json_schema(made: &mut schemars::SchemaGenerator) -> schemars::Schema {
        if made.contract().is_serialize() {
            return schemars::json_schema!({"type": "integer"});
        }
        schemars::json_schema!({"type": ["string", "integer"], "description": "512, 8KiB, 8K, 2GiB: powers of 1024; 500GB, 4TB: powers of 1000"})
    }
}

/// A time span in ns. Text: `15s`, `250 ms`, `10us`, `2min`, `1h`; a bare number means seconds. Written back as `1500ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration {
    pub ns: u64,
}

/// A share in per cent, 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, JsonSchema, Default)]
#[serde(transparent)]
pub struct Percent(pub f64);

/// How often something is gone through: a number, or a share in per cent. Text: `3`, `0.1`, `10%`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Passes(pub f64);

/// A place on a target: bytes from its start, or a share of its length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Position {
    Bytes(u64),
    Percent(f64),
}

/// A part of a target, written `FROM..TO`, such as `0..50%` or `1GiB..3GiB`. Either end may be left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub from: Position,
    pub to: Position,
}

const PREFIXES: [(char, u32); 6] = [('k', 10), ('m', 20), ('g', 30), ('t', 40), ('p', 50), ('e', 60)];

/// Bytes of a unit. One rule for the whole tool: a letter alone and `KiB`, `MiB`, … are powers of 1024; `MB`, `GB`, …
/// are powers of 1000, as capacities are sold, and as they are written wherever this tool writes them.
fn unit_bytes(unit: &str) -> Option<u128> {
    if matches!(unit, "" | "b" | "byte" | "bytes") {
        return Some(1);
    }
    let (prefix, shift) = PREFIXES.iter().find(|(prefix, _)| unit.starts_with(*prefix))?;
    match unit.strip_prefix(*prefix)? {
        "" | "i" | "ib" => Some(1 << shift),
        "b" => Some(1000u128.pow(shift / 10)),
        _ => None,
    }
}

/// A size as a fraction: so many bytes, in so many parts.
fn read_size(text: &str, wanted: &str) -> Result<(u128, u128), String> {
    let refuse = || format!("`{text}` is not {wanted}");
    let lower = text.trim().to_ascii_lowercase();
    let split = lower.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(lower.len());
    let (number, unit) = (lower[..split].trim(), lower[split..].trim());
    let unit_bytes = unit_bytes(unit).ok_or_else(refuse)?;
    if unit == "kb" {
        // Half of the field writes it for 1024, and a request of 64,000 bytes is nobody's wish.
        return Err(format!("`{text}`: KB is 1024 bytes to some and 1000 to others; write KiB for 1024"));
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 15 || (number.contains('.') && fraction.is_empty()) {
        return Err(refuse());
    }
    let too_large = || format!("`{text}` is larger than 2^64 bytes");
    let whole: u128 = whole.parse::<u64>().map_err(|_| too_large())?.into();
    let scale = 10u128.pow(fraction.len() as u32);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().map_err(|_| refuse())?.into() };
    let scaled = (whole * scale + fraction).checked_mul(unit_bytes).ok_or_else(too_large)?;
    if scaled / scale > u64::MAX.into() { Err(too_large()) } else { Ok((scaled, scale)) }
}

/// Parses a size; [`unit_bytes`] says what its unit is. Case is ignored, a fraction is allowed where it gives whole
/// bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (scaled, scale) = read_size(text, "a size; write for example 512, 8KiB or 2GiB")?;
    if !scaled.is_multiple_of(scale) {
        return Err(format!("`{text}` is not a whole number of bytes"));
    }
    u64::try_from(scaled / scale).map_err(|_| format!("`{text}` is larger than 2^64 bytes"))
}

/// Parses a throughput such as `118.65MiB/s`, with or without its `/s`; parts of a byte are no fault of it.
pub fn parse_bytes_per_s(text: &str) -> Result<f64, String> {
    let size = text.trim();
    if !size.is_empty() && size.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(format!("{size} of what? write {size}MiB/s, {size}KiB/s or {size}B/s"));
    }
    let read = read_size(size.strip_suffix("/s").unwrap_or(size), "a throughput; write for example 118.65MiB/s");
    read.map(|(scaled, scale)| scaled as f64 / scale as f64)
}

/// A remaining time or duration as people read it: `8 s`, `1 min 20 s`, `2 h 5 min`.
pub fn format_seconds(seconds: f64) -> String {
    let whole = seconds.max(0.0).round_ties_even() as u64;
    match (whole, whole % 60) {
        (0..60, _) if seconds < 9.95 => format!("{seconds:.1} s"),
        (0..60, _) => format!("{whole} s"),
        (60..3600, 0) => format!("{} min", whole / 60),
        (60..3600, rest) => format!("{} min {rest} s", whole / 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Writes a size with the largest binary prefix that leaves a whole number, such as `8KiB`.
pub fn format_bytes(bytes: u64) -> String {
    for (prefix, shift) in PREFIXES.iter().rev() {
        let unit = 1u64 << shift;
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{}iB", bytes / unit, prefix.to_ascii_uppercase());
        }
    }
    format!("{bytes}B")
}

/// Two of these and the age of a run still fit 64 bits.
const DURATION_LIMIT_NS: u64 = 9_000_000_000_000_000_000;

/// Parses a time span into ns; a bare number means seconds.
pub fn parse_duration_ns(text: &str) -> Result<u64, String> {
    let refuse = || format!("`{text}` is not a time span; write for example 15s, 250ms or 2h");
    let lower = text.trim().to_ascii_lowercase();
    let split = lower.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(lower.len());
    let unit_ns = match lower[split..].trim() {
        "ns" => 1,
        "us" | "µs" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "" | "s" | "sec" | "second" | "seconds" => 1_000_000_000u64,
        "m" | "min" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        "w" | "week" | "weeks" => 604_800_000_000_000,
        _ => return Err(refuse()),
    };
    let too_long = || format!("`{text}` is longer than 285 years");
    let number = lower[..split].trim();
    if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
        // Whole numbers exactly, which a float would not keep above 2^53.
        let ns = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit_ns)).filter(|ns| *ns < DURATION_LIMIT_NS);
        return ns.ok_or_else(too_long);
    }
    let number: f64 = number.parse().map_err(|_| refuse())?;
    let ns = (number * unit_ns as f64).round();
    if !(0.0..DURATION_LIMIT_NS as f64).contains(&ns) {
        return Err(too_long());
    }
    Ok(ns as u64)
}

/// Reads either the number or the text form of a unit.
struct NumberOrText<T> {
    expecting: &'static str,
    from_integer: fn(u64) -> Result<T, String>,
    from_float: fn(f64) -> Result<T, String>,
    from_text: fn(&str) -> Result<T, String>,
}

impl<T> de::Visitor<'_> for NumberOrText<T> {
    type Value = T;
    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.expecting)
    }
    fn visit_u64<E: de::Error>(self, v: u64) -> Result<T, E> {
        (self.from_integer)(v).map_err(E::custom)
    }
    fn visit_i64<E: de::Error>(self, v: i64) -> Result<T, E> {
        let whole = u64::try_from(v).map_err(|_| E::invalid_value(de::Unexpected::Signed(v), &self))?;
        (self.from_integer)(whole).map_err(E::custom)
    }
    fn visit_f64<E: de::Error>(self, v: f64) -> Result<T, E> {
        (self.from_float)(v).map_err(E::custom)
    }
    fn visit_str<E: de::Error>(self, v: &str) -> Result<T, E> {
        (self.from_text)(v).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(NumberOrText {
            expecting: "a size such as 8KiB",
            from_integer: |v| Ok(Bytes(v)),
            from_float: |v| Err(format!("{v} is not a whole number of bytes; write for example \"8KiB\"")),
            from_text: |t| parse_bytes(t).map(Bytes),
        })
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(NumberOrText {
            expecting: "a time span such as 15s",
            from_integer: |seconds| parse_duration_ns(&seconds.to_string()).map(|ns| Duration { ns }),
            from_float: |seconds| match parse_duration_ns(&seconds.to_string()) {
                Ok(ns) => Ok(Duration { ns }),
                // With all its digits, a large float would fill the screen.
                Err(_) => Err(format!("{seconds:e} s is no time span of at most 285 years; write for example 15s")),
            },
            from_text: |t| parse_duration_ns(t).map(|ns| Duration { ns }),
        })
    }
}

impl Serialize for Duration {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&format_args!("{}ns", self.ns))
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }
    fn json_schema(made: &mut schemars::SchemaGenerator) -> schemars::Schema {
        if made.contract().is_serialize() {
            return schemars::json_schema!({"type": "string", "format": "duration_ns"});
        }
        schemars::json_schema!({"type": ["string", "number"], "description": "15s, 250ms, 2h; a bare number means seconds"})
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let percent = d.deserialize_any(NumberOrText {
            expecting: "a percentage such as 67",
            from_integer: |v| Ok(v as f64),
            from_float: Ok,
            from_text: |t| {
                let number = t.trim().trim_end_matches('%').trim();
                number.parse().map_err(|_| format!("`{t}` is not a percentage; write for example 67 or \"67%\""))
            },
        })?;
        if (0.0..=100.0).contains(&percent) {
            Ok(Percent(percent))
        } else {
            Err(de::Error::custom(format!("{percent} is not a percentage between 0 and 100")))
        }
    }
}

impl Passes {
    /// So many of `requests`, which are one pass; at least one. Whole passes are exact.
    pub fn requests(self, requests: u64) -> u64 {
        match self.0.fract() == 0.0 {
            true => (self.0 as u64).saturating_mul(requests),
            false => ((self.0 * requests as f64) as u64).max(1),
        }
    }
}

impl<'de> Deserialize<'de> for Passes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let passes = d.deserialize_any(NumberOrText {
            expecting: "a number of passes such as 1 or \"10%\"",
            from_integer: |v| Ok(v as f64),
            from_float: Ok,
            from_text: |t| {
                let (number, scale) = t.trim().strip_suffix('%').map_or((t.trim(), 1.0), |n| (n.trim(), 100.0));
                let number: f64 = number
                    .parse()
                    .map_err(|_| format!("`{t}` is no number of passes; write for example 1 or \"10%\""))?;
                Ok(number / scale)
            },
        })?;
        // As many as a float tells apart.
        if (0.0..=9_007_199_254_740_992.0).contains(&passes) {
            Ok(Passes(passes))
        } else {
            Err(de::Error::custom(format!("{passes:e} is no number of passes")))
        }
    }
}

impl Serialize for Passes {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0.fract() == 0.0 {
            true => s.serialize_u64(self.0 as u64),
            false => s.serialize_f64(self.0),
        }
    }
}

impl JsonSchema for Passes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Passes".into()
    }
    fn json_schema(made: &mut schemars::SchemaGenerator) -> schemars::Schema {
        if made.contract().is_serialize() {
            return schemars::json_schema!({"type": "number"});
        }
        schemars::json_schema!({"type": ["number", "string"], "description": "1, 0.1, or 10% of what is gone through"})
    }
}

impl Position {
    fn parse(text: &str) -> Result<Position, String> {
        match text.trim().strip_suffix('%') {
            Some(number) => match number.trim().parse::<f64>() {
                Ok(p) if (0.0..=100.0).contains(&p) => Ok(Position::Percent(p)),
                _ => Err(format!("`{text}` is not a percentage between 0% and 100%")),
            },
            None => parse_bytes(text).map(Position::Bytes),
        }
    }

    /// The byte offset on a target of `length_bytes`; percentages round down.
    pub fn offset_bytes(self, length_bytes: u64) -> u64 {
        match self {
            Position::Bytes(b) => b,
            Position::Percent(p) => (length_bytes as f64 * p / 100.0) as u64,
        }
    }
}

impl Span {
    pub const WHOLE: Span = Span { from: Position::Bytes(0), to: Position::Percent(100.0) };

    pub fn parse(text: &str) -> Result<Span, String> {
        let (from, to) =
            text.split_once("..").ok_or_else(|| format!("`{text}` is not a region; write FROM..TO such as 0..50%"))?;
        let end = |side: &str, otherwise| if side.trim().is_empty() { Ok(otherwise) } else { Position::parse(side) };
        let span = Span { from: end(from, Span::WHOLE.from)?, to: end(to, Span::WHOLE.to)? };
        let backwards = match (span.from, span.to) {
            (Position::Bytes(a), Position::Bytes(b)) => a >= b,
            (Position::Percent(a), Position::Percent(b)) => a >= b,
            _ => false,
        };
        if backwards { Err(format!("region `{text}` is empty; its end must lie behind its start")) } else { Ok(span) }
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let side = |p: Position| match p {
            Position::Bytes(b) => format_bytes(b),
            Position::Percent(p) => format!("{p}%"),
        };
        write!(f, "{}..{}", side(self.from), side(self.to))
    }
}

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Span::parse(&text).map_err(de::Error::custom)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Region".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "description": "FROM..TO, such as 0..50% or 1GiB..3GiB"})
    }
}
