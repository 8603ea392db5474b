//! Sizes and time spans: no text panics, and what was read comes back from what is written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plan::{format_bytes, parse_bytes, parse_duration_ns};

fuzz_target!(|text: &str| {
    if let Ok(bytes) = parse_bytes(text) {
        assert_eq!(parse_bytes(&format_bytes(bytes)), Ok(bytes));
    }
    if let Ok(ns) = parse_duration_ns(text) {
        assert_eq!(parse_duration_ns(&format!("{ns}ns")), Ok(ns));
    }
});
