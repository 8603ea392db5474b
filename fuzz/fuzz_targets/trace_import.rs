//! Any bytes, read as a trace of every form: counted or refused, never a panic.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use trace::import::{Format, Wish, import};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let format = Format::ALL.get(usize::from(*first)).copied();
    let wish = Wish { format, ..Wish::default() };
    let mut out = Vec::new();
    if let Ok(done) = import(vec![Box::new(Cursor::new(rest.to_vec()))], &wish, &mut out) {
        let mut reader = trace::Reader::new(&out[..]).expect("what was written is a trace");
        while reader.next().expect("memory does not fail").is_some() {}
        assert_eq!(reader.end(), Some(&trace::End::Whole));
        assert_eq!(reader.summary().requests, done.summary.requests);
    }
});
