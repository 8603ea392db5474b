//! No text makes the parser panic, and what it accepts survives the way to JSON and back.

use plan::{Profile, format_bytes, parse_bytes, parse_duration_ns};
use proptest::prelude::*;

fn survives(text: &str, overrides: &[String]) -> Result<(), TestCaseError> {
    match Profile::from_toml_with(text, overrides) {
        Ok(profile) => {
            let json = profile.to_json();
            let back = Profile::from_json(&json);
            prop_assert_eq!(back.as_ref(), Ok(&profile), "{}", json);
            prop_assert_eq!(back.map(|p| p.to_json()), Ok(json));
        }
        Err(error) => prop_assert!(!error.message.is_empty() && !error.message.contains('\n'), "{:?}", error.message),
    }
    Ok(())
}

/// Values that belong nowhere, or nearly.
fn junk() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        "1e300",
        "nan",
        "-1",
        "''",
        "'1e30'",
        "[]",
        "{}",
        "9007199254",
        "9223372036854775807",
        "true",
        "1979-05-27",
        "0",
        "{ kind = 'mixed', random = 30, colour = 1 }",
        "'8Q'",
    ]);
    let numbers = (any::<i64>(), any::<f64>());
    prop_oneof![
        odd.prop_map(String::from),
        numbers.prop_map(|(i, f)| if i % 2 == 0 { i.to_string() } else { f.to_string() })
    ]
}

const BOOL: &[&str] = &["true", "false"];
const TIMES: &[&str] = &["'60s'", "1.5", "7", "'9007199254740993ns'", "'0.3333333us'", "9000000000", "'1.5h'"];
const COUNTS: &[&str] = &["1", "3", "16", "1000"];
const SIZES: &[&str] = &["'8K'", "4096", "'1.5MiB'", "'64KiB'"];
type Keys = &'static [(&'static str, &'static [&'static str])];
const HEAD: Keys = &[
    ("seed", &["0", "9223372036854775807"]),
    ("engine", &["'auto'", "'io_uring'", "'psync'"]),
    ("io", &["'direct'", "'buffered'"]),
    ("cache", &["'cold'", "'as_is'"]),
    ("reap", COUNTS),
    ("submit", COUNTS),
    ("interval", TIMES),
    ("hang_after", TIMES),
    ("stop_on_error", BOOL),
    ("fill", &["'auto'", "'never'"]),
    ("about", &["'words'", "'\\u0000 \"quoted\"'"]),
];
const PHASE: Keys = &[
    ("requests", COUNTS),
    ("bytes", SIZES),
    ("passes", &["1", "3", "16", "1000", "0.1", "'10%'", "2.5"]),
    ("warmup", TIMES),
    ("stop", &["{ when = 'p99.9', above = '20ms' }", "{ when = 'mean', above = 1 }"]),
    ("steady", &["{ rounds = 7, range = 12.5, stop = true }", "{}", "{ measure = 'mean_service', slope = '3.3%' }"]),
    (
        "ramp",
        &[
            "{ knob = 'depth', from = 1, to = 64, factor = 1.7, every = 3 }",
            "{ knob = 'workers', from = 9.5, to = 1, step = 0.1, every = '1ms' }",
        ],
    ),
    ("name", &["'measure'", "''"]),
];
const STREAM: Keys = &[
    ("target", COUNTS),
    ("operations", &["{ read = 50, write = 50 }", "{ read = 33.3, write = 66.7 }", "{ flush = 10, trim = 90 }"]),
    ("align", SIZES),
    (
        "address",
        &[
            "'random'",
            "'sequential'",
            "'zipf'",
            "'permutation'",
            "{ kind = 'sequential', apart = true }",
            "'pareto'",
            "{ kind = 'mixed', random = 30.1 }",
            "{ kind = 'strided', stride = '192K' }",
            "{ kind = 'zipf', theta = 0.99 }",
            "{ kind = 'hot_spots', spots = 3 }",
        ],
    ),
    ("region", &["'50%..'", "'0..33.3%'", "'1GiB..3GiB'", "'..1.5GiB'", "'10%..1TiB'"]),
    ("workers", COUNTS),
    ("depth", COUNTS),
    ("pace", &["'closed'", "{ loop = 'open', rate = 0.1, arrivals = 'poisson' }", "{ loop = 'open', rate = 1e8 }"]),
    ("think", TIMES),
    ("sync", &["'none'", "'sync'", "'dsync'"]),
    ("flush_every", &["{ writes = 3 }", "{ writes = 1, call = 'fsync' }"]),
    ("data", &["{ compressible = 50 }", "{ duplicate = 0.1 }", "{}"]),
    ("verify", BOOL),
    ("name", &["'reads'"]),
];

/// Up to five keys, one in thirty with a value that may not belong there.
fn lines(keys: Keys) -> impl Strategy<Value = String> {
    let line = (prop::sample::select(keys), any::<prop::sample::Index>(), junk(), 0..30);
    prop::collection::vec(line, 0..5).prop_map(|lines| {
        let mut pairs = std::collections::BTreeMap::new();
        for ((key, values), pick, junk, odd) in lines {
            pairs.insert(key, if odd == 0 { junk } else { values[pick.index(values.len())].to_string() });
        }
        pairs.iter().map(|(k, v)| format!("{k} = {v}\n")).collect()
    })
}

fn profile() -> impl Strategy<Value = String> {
    let request = prop::sample::select(vec![
        "'8K'",
        "65536",
        "[{ size = '4K', share = 25.5 }, { size = '1M', share = 74.5 }]",
        "[{ size = '64K' }]",
        "'0'",
    ]);
    let phase = (lines(PHASE), prop::collection::vec((lines(STREAM), request), 1..3));
    (lines(HEAD), prop::collection::vec(phase, 1..3)).prop_map(|(head, phases)| {
        let mut text = format!("title = 't'\n{head}");
        for (phase, streams) in phases {
            text += &format!("[[phase]]\nduration = 3\n{phase}");
            for (stream, request) in streams {
                text += &format!("[[phase.stream]]\nrequest = {request}\n{stream}");
            }
        }
        text
    })
}

/// The other properties mean something only if many of these profiles are accepted.
#[test]
fn many_generated_profiles_are_valid() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let valid = (0..1_000)
        .filter(|_| {
            let text = profile().new_tree(&mut runner).expect("a profile").current();
            Profile::from_toml(&text, &[]).is_ok()
        })
        .count();
    assert!((100..900).contains(&valid), "{valid} of 1000");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_profile_survives_the_way_to_json_and_back(text in profile()) {
        survives(&text, &[])?;
    }

    #[test]
    fn garbage_is_refused_in_one_line(text in "\\PC*", item in "[a-z.=0-9{}\\[\\]' ]*") {
        survives(&text, &[])?;
        survives("title = 't'\n[[phase]]\nrequests = 1\n[[phase.stream]]\nrequest = '8K'\n", &[item])?;
    }

    #[test]
    fn broken_profiles_are_refused_in_one_line(text in profile(), cut in any::<prop::sample::Index>(), junk in "[\\[\\]{}=.,'\"\n#a-z0-9 ]{0,6}") {
        let mut broken = text.clone();
        let at = cut.index(text.len());
        broken.replace_range(at..text.len().min(at + junk.len()), &junk);
        survives(&broken, &[])?;
    }

    #[test]
    fn json_that_is_no_plan_is_refused_in_one_line(text in profile(), cut in any::<prop::sample::Index>(), junk in "[\\[\\]{}:,\"a-z0-9]{0,4}") {
        if let Ok(profile) = Profile::from_toml(&text, &[]) {
            let mut json = profile.to_json();
            let at = cut.index(json.len());
            if json.is_char_boundary(at) {
                json.insert_str(at, &junk);
            }
            if let Err(error) = Profile::from_json(&json) {
                prop_assert!(!error.message.contains('\n'));
            }
        }
    }

    #[test]
    fn sizes_never_panic_and_come_back(text in "[0-9.]{0,22} ?[kmgtpeKMGTPEib]{0,3}", bytes in any::<u64>()) {
        if let Err(message) = parse_bytes(&text) {
            prop_assert!(!message.contains('\n'));
        }
        prop_assert_eq!(parse_bytes(&format_bytes(bytes)), Ok(bytes));
        prop_assert_eq!(parse_bytes(&bytes.to_string()), Ok(bytes));
    }

    #[test]
    fn times_never_panic_and_come_back(text in "\\PC{0,8}|[0-9.]{0,22} ?(ns|us|µs|ms|s|min|h|d|w|)", ns in 0u64..9_000_000_000_000_000_000) {
        if let Err(message) = parse_duration_ns(&text) {
            prop_assert!(!message.contains('\n') || text.contains('\n'));
        }
        prop_assert_eq!(parse_duration_ns(&format!("{ns}ns")), Ok(ns));
    }
}

/// Programs with keys that may not belong to them.
fn program_profile() -> impl Strategy<Value = String> {
    let kinds = prop::sample::select(vec![
        "create_files",
        "transactions",
        "stat_files",
        "delete_files",
        "make_directories",
        "stat_directories",
        "remove_directories",
        "write_file",
        "rewrite_file",
        "read_file",
        "seek_file",
        "nonsense",
    ]);
    let keys = prop::sample::subsequence(
        vec![
            "files = 7",
            "size = '500..9.5KiB'",
            "size = '1M..2M'",
            "subdirectories = 3",
            "directory = 'shared'",
            "fsync = true",
            "transactions = 9",
            "bias_read = -1",
            "bias_create = 11",
            "directories = 4",
            "by = 'character'",
            "seeks = 100",
            "update = '10%'",
            "files = -1",
            "size = 0",
        ],
        0..4,
    );
    let stream =
        (kinds, keys, prop::sample::select(vec!["", "request = '8K'", "request = '512'\nworkers = 2", "depth = 2"]));
    prop::collection::vec(stream, 1..4).prop_map(|streams| {
        streams.iter().fold("title = 't'\ntable = 'mdtest'\n".to_string(), |text, (kind, keys, stream)| {
            let keys: String = keys.iter().map(|key| format!(", {key}")).collect();
            text + &format!(
                "[[phase]]\n[[phase.stream]]\nname = 'f'\nprogram = {{ kind = '{kind}'{keys} }}\n{stream}\n"
            )
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn programs_survive_the_way_to_json_and_back(text in program_profile(), item in "[a-z.=0-9]{0,12}") {
        survives(&text, &[])?;
        survives(&text, &["files=3".into()])?;
        survives(&text, &[item])?;
    }
}
