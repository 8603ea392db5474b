//! Common and combined logs: `ADDRESS IDENT USER [TIME] "REQUEST" STATUS BYTES "REFERER" "AGENT"`, with or without a
//! virtual host before the address.

use super::{Entry, Parsed, split_request};
use crate::time;

#[inline]
pub fn line(line: &[u8]) -> Parsed<'_> {
    if line.trim_ascii().is_empty() {
        return Parsed::Nothing;
    }
    let Some(open) = memchr::memchr(b'[', line) else { return Parsed::Bad("no time stamp in brackets") };
    let mut head = line[..open].split(|b| *b == b' ').filter(|word| !word.is_empty());
    let mut client = head.next().unwrap_or(b"-");
    // An IPv6 address in brackets, as some proxies write it, is no time; the time then follows.
    let Some(length) = memchr::memchr(b']', &line[open..]) else { return Parsed::Bad("no time stamp in brackets") };
    let Some(stamp) = time::common(&line[open + 1..open + length]) else {
        return Parsed::Bad("the time stamp is no time");
    };
    if head.clone().count() >= 3 {
        client = head.next().unwrap_or(client); // the virtual host stands first
    }
    let rest = &line[open + length + 1..];
    let Some(quote) = memchr::memchr(b'"', rest) else { return Parsed::Bad("no request in quotes") };
    let request = quoted(&rest[quote + 1..]);
    let Some((method, path, query)) = split_request(request) else { return Parsed::Bad("the request is none") };
    Parsed::Entry(Entry { stamp, method, path, query, client, cookie: b"", rows: None })
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
        let e = entry(r#"::1 - - [10/Oct/2000:13:55:36 +0000] "GET /a\"b c HTTP/1.1" 200 2"#);
        assert_eq!((e.client, e.path), (&b"::1"[..], &br#"/a\"b c"#[..]));
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
