//! Duty: parameters of a call: their types, and how text of a URL becomes a typed value.
//! Refusal: no value is ever written into SQL; what is not of its type is refused.

use serde::Deserialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Text,
    Bool,
}

impl Kind {
    pub fn name(self) -> &'static str {
        ["int2", "int4", "int8", "float4", "float8", "text", "bool"][self as usize]
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(Box<str>),
}

impl Value {
    /// Reads percent-decoded text.
    #[inline]
    pub fn parse(kind: Kind, text: &[u8]) -> Option<Value> {
        match kind {
            Kind::Int2 => integer(text).filter(|v| i16::try_from(*v).is_ok()).map(Value::Int),
            Kind::Int4 => integer(text).filter(|v| i32::try_from(*v).is_ok()).map(Value::Int),
            Kind::Int8 => integer(text).map(Value::Int),
            Kind::Float4 | Kind::Float8 => {
                let value: f64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
                value.is_finite().then_some(Value::Float(value))
            }
            Kind::Bool => match text {
                b"1" | b"t" | b"true" | b"True" | b"TRUE" | b"on" | b"yes" => Some(Value::Bool(true)),
                b"0" | b"f" | b"false" | b"False" | b"FALSE" | b"off" | b"no" => Some(Value::Bool(false)),
                _ => None,
            },
            Kind::Text => {
                let text = std::str::from_utf8(text).ok()?;
                // PostgreSQL's text has no NUL.
                (!text.contains('\0')).then(|| Value::Text(text.into()))
            }
        }
    }

    pub fn from_toml(kind: Kind, value: &toml::Value) -> Option<Value> {
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(n) => n.to_string(),
            toml::Value::Float(x) => x.to_string(),
            toml::Value::Boolean(b) => b.to_string(),
            _ => return None,
        };
        Value::parse(kind, text.as_bytes())
    }

    /// What a route compares and hashes.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Value::Null => "".into(),
            Value::Int(v) => v.to_string().into(),
            Value::Float(v) => v.to_string().into(),
            Value::Bool(v) => v.to_string().into(),
            Value::Text(text) => (&**text).into(),
        }
    }

    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Int(v) => Some(*v as f64),
            Value::Float(v) => Some(*v),
            _ => None,
        }
    }
}

#[inline]
fn integer(text: &[u8]) -> Option<i64> {
    let (negative, figures) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if figures.is_empty() || figures.len() > 19 {
        return None;
    }
    let mut value: i64 = 0;
    for byte in figures {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// Undoes percent-encoding; `+` is a space in query strings. Without either, the text is as it stands.
#[inline]
pub fn decoded<'a>(text: &'a [u8], in_query: bool, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if !text.iter().any(|b| *b == b'%' || (in_query && *b == b'+')) {
        return text;
    }
    scratch.clear();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let hex = |place: usize| text.get(place).and_then(|b| (*b as char).to_digit(16));
        match byte {
            b'%' => match (hex(at + 1), hex(at + 2)) {
                (Some(high), Some(low)) => {
                    scratch.push((high * 16 + low) as u8);
                    at += 2;
                }
                _ => scratch.push(b'%'),
            },
            b'+' if in_query => scratch.push(b' '),
            other => scratch.push(*other),
        }
        at += 1;
    }
    scratch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_hold_their_ranges() {
        let parse = |kind, text: &str| Value::parse(kind, text.as_bytes());
        assert_eq!(parse(Kind::Int2, "-32768"), Some(Value::Int(-32768)));
        assert_eq!(parse(Kind::Int2, "32768"), None);
        assert_eq!(parse(Kind::Int8, "-9223372036854775808"), Some(Value::Int(i64::MIN)));
        assert_eq!(parse(Kind::Int8, "9223372036854775808"), None);
        assert_eq!(parse(Kind::Int4, "1e3"), None);
        assert_eq!(parse(Kind::Int4, ""), None);
        assert_eq!(parse(Kind::Float8, "-1.5"), Some(Value::Float(-1.5)));
        assert_eq!(parse(Kind::Float8, "NaN"), None);
        assert_eq!(parse(Kind::Text, "a\0b"), None);
    }

    #[test]
    fn percent_encoding_is_undone_once() {
        let mut scratch = Vec::new();
        assert_eq!(decoded(b"a%20b%2520+c", true, &mut scratch), b"a b%20 c");
        assert_eq!(decoded(b"a+b%", false, &mut scratch), b"a+b%");
        assert_eq!(decoded(b"%zz%4", true, &mut scratch), b"%zz%4");
    }
}
