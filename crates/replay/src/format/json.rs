//! JSON lines: one object a line; keys within objects are spoken of as `request.uri`. Names can be set.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Entry, Field, FieldNames, Parsed, split_request, split_target};
use crate::time;

/// Keys of nginx and Apache examples, Caddy, Traefik and common log shippers, the more telling ones first.
const USUAL: [&[&str]; 8] = [
    &["@timestamp", "timestamp", "time", "ts", "time_iso8601", "time_local", "StartUTC", "msec", "datetime", "date"],
    &["request"],
    &["method", "request_method", "verb", "RequestMethod", "request.method", "http.request.method"],
    &["path", "request_uri", "uri", "url", "RequestPath", "request.uri", "url.original", "url.path"],
    &["query", "query_string", "args", "url.query"],
    &["remote_addr", "client_ip", "client", "remote_ip", "clientip", "ip", "c_ip", "ClientHost", "request.remote_ip"],
    &["cookie", "http_cookie", "cookies", "request.headers.Cookie"],
    &["rows"],
];
const FIELDS: usize = 8;
/// Objects within objects that are looked into.
const DEPTH_MAX: usize = 8;

pub struct JsonLog {
    /// For each field its names, the preferred first.
    wanted: [Vec<String>; FIELDS],
    found: [Found; FIELDS],
    seen: [bool; FIELDS],
    key: String,
}

/// The value of a field, and the place of its name among the wanted ones; the smaller wins.
struct Found {
    text: String,
    rank: usize,
}

impl JsonLog {
    pub fn new(names: &FieldNames) -> JsonLog {
        let of = |field: Field| match names.get(&field) {
            Some(name) => vec![name.clone()],
            None => USUAL[field as usize].iter().map(|n| n.to_string()).collect(),
        };
        JsonLog {
            wanted: Field::ALL.map(of),
            found: Field::ALL.map(|_| Found { text: String::new(), rank: usize::MAX }),
            seen: [false; FIELDS],
            key: String::new(),
        }
    }

    pub fn line<'a>(&'a mut self, line: &'a [u8]) -> Parsed<'a> {
        if line.trim_ascii().is_empty() {
            return Parsed::Nothing;
        }
        for found in &mut self.found {
            found.text.clear();
            found.rank = usize::MAX;
        }
        self.key.clear();
        let mut reader = serde_json::Deserializer::from_slice(line);
        let walk = Walk { wanted: &self.wanted, found: &mut self.found, key: &mut self.key, depth: 0 };
        if walk.deserialize(&mut reader).is_err() || reader.end().is_err() {
            return Parsed::Bad("it is no JSON object");
        }
        for (seen, found) in self.seen.iter_mut().zip(&self.found) {
            *seen |= found.rank != usize::MAX;
        }
        self.entry()
    }

    fn entry(&self) -> Parsed<'_> {
        let get = |field: Field| self.found[field as usize].text.as_bytes();
        let Some(stamp) = time::any(get(Field::Time)) else { return Parsed::Bad("it has no time that can be read") };
        let (mut method, mut path, mut query) = (get(Field::Method), &b""[..], get(Field::Query));
        if !get(Field::Path).is_empty() {
            let (stem, rest) = split_target(get(Field::Path));
            (path, query) = (stem, if rest.is_empty() { query } else { rest });
        } else if let Some(parts) = split_request(get(Field::Request)) {
            (method, path, query) = parts;
        }
        if path.is_empty() {
            return Parsed::Bad("it has no path");
        }
        if method.is_empty() {
            method = b"GET";
        }
        let rows = self.found[Field::Rows as usize].text.parse().ok();
        let query = query.strip_prefix(b"?").unwrap_or(query);
        Parsed::Entry(Entry {
            stamp,
            method,
            path,
            query,
            client: get(Field::Client),
            cookie: get(Field::Cookie),
            rows,
        })
    }

    pub fn lacks(&self, names: &FieldNames) -> Option<String> {
        let seen = |field: Field| self.seen[field as usize];
        let missing = [(Field::Time, seen(Field::Time)), (Field::Path, seen(Field::Path) || seen(Field::Request))];
        let (field, _) = missing.iter().find(|(_, seen)| !seen)?;
        let name = field.name();
        let looked = names.get(field).map_or_else(|| USUAL[*field as usize].join(", "), String::clone);
        Some(format!("its lines lack a {name} (looked for {looked}); name the key with --field {name}=KEY"))
    }
}

/// Walks an object and keeps the values of wanted keys.
struct Walk<'w> {
    wanted: &'w [Vec<String>; FIELDS],
    found: &'w mut [Found; FIELDS],
    key: &'w mut String,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        if self.depth == 0 { reader.deserialize_map(self) } else { reader.deserialize_any(self) }
    }
}

impl Walk<'_> {
    /// The value that stands under the present key.
    fn keep(self, value: &str) {
        for (names, found) in self.wanted.iter().zip(self.found) {
            if let Some(rank) = names.iter().position(|n| n == self.key)
                && rank < found.rank
            {
                found.rank = rank;
                found.text.clear();
                found.text.push_str(value);
            }
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let length = self.key.len();
        let Walk { wanted, found, key, depth } = self;
        while map.next_key_seed(Key { key, length })?.is_some() {
            if depth >= DEPTH_MAX {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Walk { wanted, found, key, depth: depth + 1 })?;
            }
        }
        key.truncate(length);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        // Headers come as lists of values: the first one is the value.
        if items.next_element_seed(Walk { depth: DEPTH_MAX, ..self })?.is_some() {
            while items.next_element::<IgnoredAny>()?.is_some() {}
        }
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.keep(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.keep(&value.to_string());
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.keep(&value.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.keep(&value.to_string());
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Puts a key behind those of the objects around it.
struct Key<'k> {
    key: &'k mut String,
    length: usize,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.key.truncate(self.length);
        if self.length > 0 {
            self.key.push('.');
        }
        self.key.push_str(value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(names: &FieldNames, text: &str) -> Result<(i64, String, String, String, Option<u64>), &'static str> {
        let mut parser = JsonLog::new(names);
        let string = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        match parser.line(text.as_bytes()) {
            Parsed::Entry(e) => Ok((e.stamp.at_ns, string(e.path), string(e.query), string(e.client), e.rows)),
            Parsed::Nothing => Err("nothing"),
            Parsed::Bad(why) => Err(why),
        }
    }

    #[test]
    fn usual_shapes_are_understood() {
        let at = 971_211_336_500_000_000;
        let nginx =
            r#"{"time_iso8601":"2000-10-10T20:55:36.5+00:00","request":"GET /x?a=1 HTTP/1.1","remote_addr":"::1"}"#;
        let caddy = r#"{"level":"info","ts":971211336.5,"request":{"remote_ip":"::1","method":"GET","uri":"/x?a=1","headers":{"Cookie":["s=1"]}}}"#;
        let traefik =
            r#"{"ClientHost":"::1","RequestMethod":"GET","RequestPath":"/x?a=1","time":"2000-10-10T20:55:36.5Z"}"#;
        for text in [nginx, caddy, traefik] {
            let expected = (at, "/x".to_string(), "a=1".to_string(), "::1".to_string(), None);
            assert_eq!(one(&FieldNames::new(), text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn names_can_be_set_and_escapes_are_undone() {
        let names =
            FieldNames::from([(Field::Path, "p.q".to_string()), (Field::Time, "t".into()), (Field::Rows, "n".into())]);
        let found = one(&names, r#"{"path":"/no","time":"no","p":{"q":"\/tile\u002eashx"},"t":971211336000,"n":3}"#);
        assert_eq!(found, Ok((971_211_336_000_000_000, "/tile.ashx".into(), String::new(), String::new(), Some(3))));
    }

    #[test]
    fn what_is_no_entry_says_why() {
        for text in ["{", "[]", "7", r#"{"a":1} x"#, r#"{"time":"x","path":"/"}"#, r#"{"time":1}"#] {
            assert!(one(&FieldNames::new(), text).is_err(), "{text}");
        }
        let deep = r#"{"a":"#.repeat(2000);
        assert!(one(&FieldNames::new(), &deep).is_err());
    }
}
