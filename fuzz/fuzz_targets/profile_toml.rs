//! Profiles and overrides out of nowhere: one line of refusal, or a profile that survives the way to JSON and back.
//! Lines that begin with `--set ` are overrides.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plan::Profile;

fuzz_target!(|text: &str| {
    let (overrides, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("--set "));
    let overrides: Vec<String> = overrides.iter().map(|line| line["--set ".len()..].to_string()).collect();
    match Profile::from_toml_with(&lines.join("\n"), &overrides) {
        Ok(profile) => assert_eq!(Profile::from_json(&profile.to_json()), Ok(profile)),
        Err(error) => assert!(!error.message.is_empty() && !error.message.contains('\n'), "{:?}", error.message),
    }
});
