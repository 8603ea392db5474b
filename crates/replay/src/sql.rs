//! Duty: `:name` in a statement becomes `$1`, so that values are bound. Refusal: it understands no SQL beyond where
//! text, names, comments and casts begin and end.

/// The statement with numbered parameters, and the parameters' names in the order of their numbers.
pub fn numbered(sql: &str) -> (String, Vec<String>) {
    let bytes = sql.as_bytes();
    let mut out = String::with_capacity(sql.len());
    let mut names: Vec<String> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &sql[at..];
        let passed = match bytes[at] {
            b'\'' if at > 0 && matches!(bytes[at - 1], b'e' | b'E') && !is_word_before(bytes, at - 1) => escaped(rest),
            quote @ (b'\'' | b'"') => quoted(rest, quote),
            b'-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => comment(rest),
            b'$' if !is_word_before(bytes, at) => dollar_quoted(rest),
            b':' if rest.starts_with("::") => 2,
            b':' => {
                let name: String = rest[1..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                // `array[1:2]` has a slice, `:=` an assignment: only a name is a parameter.
                if name.is_empty() || name.as_bytes()[0].is_ascii_digit() {
                    1
                } else {
                    let number = names.iter().position(|n| *n == name).unwrap_or(names.len()) + 1;
                    out.push_str(&format!("${number}"));
                    at += 1 + name.len();
                    if number > names.len() {
                        names.push(name);
                    }
                    continue;
                }
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        out.push_str(&rest[..passed]);
        at += passed;
    }
    (out, names)
}

fn is_word_before(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_' || bytes[at - 1] >= 0x80)
}

fn quoted(rest: &str, quote: u8) -> usize {
    rest.as_bytes()[1..].iter().position(|b| *b == quote).map_or(rest.len(), |at| at + 2)
}

/// `E'…'`, where a backslash takes the next character with it.
fn escaped(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'\'' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Comments nest in PostgreSQL.
fn comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// `$tag$ … $tag$`; a `$` that begins none is passed alone.
fn dollar_quoted(rest: &str) -> usize {
    let tag = rest[1..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map(|at| &rest[..at + 1]);
    match tag {
        Some(tag) if rest[tag.len()..].starts_with('$') => {
            let mark = &rest[..tag.len() + 1];
            rest[mark.len()..].find(mark).map_or(rest.len(), |at| at + 2 * mark.len())
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_become_numbers_outside_of_text_and_comments() {
        let (sql, names) = numbered(
            "select ':a', \":b\", x::int, e'\\':c', /* :d /* :e */ :f */ $q$:g$q$, a[1:2] -- :h\n from t where y=:Y and z = :Z or y=:Y",
        );
        assert_eq!(names, ["Y", "Z"]);
        assert!(sql.ends_with("from t where y=$1 and z = $2 or y=$1"), "{sql}");
        for kept in ["':a'", "\":b\"", "x::int", "':c'", ":d", ":e", ":f", ":g", "[1:2]", ":h"] {
            assert!(sql.contains(kept), "{kept} in {sql}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken(sql in "\\PC{0,60}", pieces in prop::collection::vec(prop::sample::select(
            vec!["'", "\"", "$", "$$", "/*", "*/", "--", ":", "::", "e'", "\\", "ä", ":a", "\n"]), 0..12)) {
            let text = sql + &pieces.concat();
            let (out, names) = numbered(&text);
            if names.is_empty() { prop_assert_eq!(out, text); }
        }
    }
}
