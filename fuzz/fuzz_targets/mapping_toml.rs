//! Mappings out of nowhere: one line of refusal, or a mapping that takes any request. What follows a line of dashes are
//! requests: path and query, one a line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use replay::format::{Entry, split_target};
use replay::mapping::{Mapping, Scratch};
use replay::time::Stamp;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (file, requests) = text.split_once("\n----\n").unwrap_or((&*text, "/tile.ashx?T=1&X=2"));
    match Mapping::from_toml(file, 3) {
        Ok(mapping) => {
            let mut scratch = Scratch::default();
            for request in requests.lines() {
                let (path, query) = split_target(request.as_bytes());
                let stamp = Stamp { at_ns: 0, whole_second: true };
                let entry = Entry { stamp, method: b"GET", path, query, client: b"", cookie: b"", rows: None };
                if let Ok(call) = mapping.call(&entry, 0, &mut scratch) {
                    assert!(call.brick < 3);
                    let statement = &mapping.statements[usize::from(call.call)];
                    assert_eq!(call.values.len(), statement.kinds.len());
                }
            }
        }
        Err(error) => assert!(!error.0.is_empty() && !error.0.contains('\n'), "{:?}", error.0),
    }
});
