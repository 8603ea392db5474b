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
        Err(error) => prop_assert!(!error.0.is_empty() && !error.0.contains('\n'), "{:?}", error.0),
    }
    Ok(())
}

/// Values of every type, plausible and not.
fn value() -> impl Strategy<Value = String> {
    let plausible = prop::sample::select(vec![
        "'8K'",
        "0",
        "1",
        "16",
        "'1GiB'",
        "'60s'",
        "1.5",
        "true",
        "'random'",
        "'sequential'",
        "'zipf'",
        "'50%..'",
        "'0..50%'",
        "{ kind = 'mixed', random = 30 }",
        "{ kind = 'strided', stride = '64K' }",
        "{ kind = 'pareto', skew = 80 }",
        "{ loop = 'open', rate = 1000 }",
        "{ loop = 'open', rate = 0.1, arrivals = 'poisson' }",
        "'closed'",
        "'dsync'",
        "{ read = 50, write = 50 }",
        "{ writes = 3 }",
        "[{ size = '4K', share = 25.5 }, { size = '1M', share = 74.5 }]",
        "{ when = 'p99.9', above = '20ms' }",
        "{ rounds = 7, range = 12.5 }",
        "'io_uring'",
        "'never'",
        "'buffered'",
        "{ knob = 'depth', from = 1, to = 64, factor = 1.7, every = 3 }",
        "9223372036854775807",
        "1e300",
        "nan",
        "-1",
        "''",
        "'1e30'",
        "[]",
        "{}",
        "9007199254",
        "'9007199254740993ns'",
        "'0.3333333us'",
        "1979-05-27",
    ]);
    prop_oneof![
        plausible.prop_map(String::from),
        any::<i64>().prop_map(|i| i.to_string()),
        any::<f64>().prop_map(|f| f.to_string())
    ]
}

fn lines(keys: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::btree_map(prop::sample::select(keys), value(), 0..4)
        .prop_map(|pairs| pairs.iter().map(|(k, v)| format!("{k} = {v}\n")).collect())
}

fn profile() -> impl Strategy<Value = String> {
    let head =
        lines(&["seed", "engine", "io", "cache", "reap", "interval", "hang_after", "stop_on_error", "fill", "about"]);
    let phase = lines(&["requests", "bytes", "passes", "warmup", "stop", "steady", "ramp", "name"]);
    let stream = lines(&[
        "target",
        "operations",
        "align",
        "address",
        "region",
        "workers",
        "depth",
        "pace",
        "think",
        "sync",
        "flush_every",
        "data",
        "verify",
        "name",
    ]);
    (head, prop::collection::vec((phase, prop::collection::vec((stream, value()), 1..3)), 1..3)).prop_map(
        |(head, phases)| {
            let mut text = format!("title = 't'\n{head}");
            for (phase, streams) in phases {
                text += &format!("[[phase]]\nduration = 3\n{phase}");
                for (stream, request) in streams {
                    let request = if request.contains('K') { request } else { "'8K'".into() };
                    text += &format!("[[phase.stream]]\nrequest = {request}\n{stream}");
                }
            }
            text
        },
    )
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
                prop_assert!(!error.0.contains('\n'));
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
