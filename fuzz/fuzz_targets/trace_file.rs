//! Any bytes as a trace of ours: read up to where they are damaged, and its figures are computed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::Reader;
use trace::figures::{contents, figures};

fuzz_target!(|data: &[u8]| {
    let Ok(reader) = Reader::new(data) else { return };
    let Ok(found) = contents(reader, None) else { return };
    if let Ok(reader) = Reader::new(data) {
        let _ = figures(reader, &found, None);
    }
});
