//! Common and combined logs: `ADDRESS IDENT USER [TIME] "REQUEST" STATUS BYTES "REFERER" "AGENT"`, with or without a
//! virtual host before the address.

use super::{Entry, Parsed, split_request};
use crate::time;

#[inline]
pub fn line(line: &[u8]) -> Parsed<'_> {
    if line.trim_ascii().is_empty() {
        return Parsed::Nothing;
    }
    let mut from = 0;
    let (stamp, open, end) = loop {
        let Some(open) = memchr::memchr(b'[', &line[from..]).map(|at| from + at) else {
            return Parsed::Bad(if from == 0 { "no time stamp in brackets" } else { "the time stamp is no time" });
        };
        let Some(end) = memchr::memchr(b']', &line[open..]).map(|at| open + at) else {
            return Parsed::Bad("no time stamp in brackets");
        };
        if let Some(stamp) = time::common(&line[open + 1..end]) {
            break (stamp, open, end);
        }
        if memchr::memchr(b'"', &line[..open]).is_some() {
            return Parsed::Bad("the time stamp is no time"); // what follows is the client's text
        }
        // An address of IPv6 in brackets, as proxies write it with a port; the time follows.
        from = end + 1;
    };
    let mut head = line[..open].split(|b| *b == b' ').filter(|word| !word.is_empty());
    let mut client = without_port(head.next().unwrap_or(b"-"));
    if let Some(second) = head.next().map(without_port).filter(|word| is_address(word)) {
        client = second; // a virtual host stands first
    }
    let rest = &line[end + 1..];
    let Some(quote) = memchr::memchr(b'"', rest) else { return Parsed::Bad("no request in quotes") };
    let request = quoted(&rest[quote + 1..]);
    let Some((method, path, query)) = split_request(request) else { return Parsed::Bad("the request is none") };
    Parsed::Entry(Entry { stamp, method, path, query, client, cookie: b"", rows: None })
}

/// `[2001:db8::1]:443` is the client 2001:db8::1, on whichever port it called.
fn without_port(word: &[u8]) -> &[u8] {
    let inside = word.strip_prefix(b"[").and_then(|rest| rest.split(|b| *b == b']').next());
    inside.unwrap_or(word)
}

fn is_address(word: &[u8]) -> bool {
    word.iter().all(|b| b.is_ascii_hexdigit() || matches!(b, b'.' | b':'))
        && word.iter().any(|b| matches!(b, b'.' | b':'))
}

/// Up to the quote that ends it; a quote within stands behind a backslash.
fn quoted(text: &[u8]) -> &[u8] {
    let mut from = 0;
    while let Some(at) = memchr::memchr(b'"', &text[from..]) {
        let escapes = text[..from + at].iter().rev().take_while(|b| **b == b'\\').count();
        if escapes % 2 == 0 {
            return &text[..from + at];
        }
        from += at + 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Entry<'_> {
        match line(text.as_bytes()) {
            Parsed::Entry(entry) => entry,
            Parsed::Nothing => panic!("nothing: {text}"),
            Parsed::Bad(why) => panic!("{why}: {text}"),
        }
    }

    #[test]
    fn common_combined_and_virtual_host() {
        let lines = [
            r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /tile.ashx?T=1&S=2 HTTP/1.0" 200 2326"#,
            r#"127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /tile.ashx?T=1&S=2 HTTP/1.1" 200 2 "http://a/" "M (x)""#,
            r#"shop.example:443 127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET http://a/tile.ashx?T=1&S=2 HTTP/2.0" 1 2"#,
        ];
        for text in lines {
            let e = entry(text);
            assert_eq!((e.method, e.path, e.query), (&b"GET"[..], &b"/tile.ashx"[..], &b"T=1&S=2"[..]), "{text}");
            assert_eq!((e.client, e.stamp.at_ns), (&b"127.0.0.1"[..], 971_211_336_000_000_000), "{text}");
        }
        let named = entry(r#"1.2.3.4 - John Q Public [10/Oct/2000:13:55:36 +0000] "GET /a HTTP/1.1" 200 2"#);
        assert_eq!(named.client, b"1.2.3.4");
        let e = entry(r#"::1 - - [10/Oct/2000:13:55:36 +0000] "GET /a\"b c HTTP/1.1" 200 2"#);
        assert_eq!((e.client, e.path), (&b"::1"[..], &br#"/a\"b c"#[..]));
    }

    #[test]
    fn an_address_in_brackets_is_no_time() {
        let time_and_request = r#"[10/Oct/2000:13:55:36 +0000] "GET /a HTTP/1.1" 200 2"#;
        for head in ["[2001:db8::1]:443 - -", "[2001:db8::1] - -", "[2001:db8::99]:443 [2001:db8::1]:51234 - -"] {
            let text = format!("{head} {time_and_request}");
            let e = entry(&text);
            assert_eq!((e.client, e.path, e.stamp.at_ns), (&b"2001:db8::1"[..], &b"/a"[..], 971_186_136_000_000_000));
        }
        let named = format!("[2001:db8::99]:443 10.0.0.7 - - {time_and_request}");
        assert_eq!(entry(&named).client, b"10.0.0.7");
    }

    #[test]
    fn lines_that_are_none_say_why() {
        for text in [
            "garbage",
            "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700",
            "1.2.3.4 - - [yesterday] \"GET / HTTP/1.0\" 200 1",
            "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"\\x16\\x03\" 400 1",
            "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"-\" 408 0",
        ] {
            assert!(matches!(line(text.as_bytes()), Parsed::Bad(_)), "{text}");
        }
    }
}
