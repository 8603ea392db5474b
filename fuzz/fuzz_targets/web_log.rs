//! Logs out of nowhere, compressed or not: every line is an entry, nothing, or bad; nothing ends the reading.

#![no_main]

use libfuzzer_sys::fuzz_target;
use replay::format::{FieldNames, Format, Parsed, Parser};
use replay::lines::Lines;

fuzz_target!(|data: &[u8]| {
    for format in [None, Some(Format::W3c), Some(Format::Combined), Some(Format::Json)] {
        let Ok(mut lines) = Lines::new(Box::new(std::io::Cursor::new(data.to_vec()))) else { continue };
        let mut parser = Parser::new(format, &FieldNames::new());
        let mut seen = 0;
        while let Some(line) = lines.next_line() {
            seen += 1;
            match parser.line(line) {
                Parsed::Entry(entry) => assert!(!entry.path.is_empty()),
                Parsed::Bad(why) => assert!(!why.is_empty()),
                Parsed::Nothing => {}
            }
            // A small archive can hold very much.
            if seen > 10_000 {
                break;
            }
        }
        let _ = parser.lacks(true);
    }
});
