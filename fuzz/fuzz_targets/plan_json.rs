//! Plans as JSON out of nowhere: one line of refusal, or a profile that reads the same when it is written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plan::Profile;

fuzz_target!(|text: &str| {
    match Profile::from_json(text) {
        Ok(profile) => assert_eq!(Profile::from_json(&profile.to_json()), Ok(profile)),
        Err(error) => assert!(!error.message.is_empty() && !error.message.contains('\n'), "{:?}", error.message),
    }
});
