//! What is wrong with a profile is said in one line that names the key and the remedy.

use plan::{Profile, json_schema, parse_bytes, parse_bytes_per_s};

/// A profile of one phase and one stream, with lines of the caller in each place.
fn profile(head: &str, phase: &str, stream: &str) -> String {
    format!("title = 't'\n{head}\n[[phase]]\nname = 'measure'\n{phase}\n[[phase.stream]]\nname = 'reads'\n{stream}\n")
}

fn stream(lines: &str) -> String {
    profile("", "duration = '60s'", lines)
}

fn with(lines: &str) -> String {
    stream(&format!("request = '8K'\n{lines}"))
}

fn phase(lines: &str) -> String {
    profile("", lines, "request = '8K'")
}

fn rule(line: &str) -> String {
    phase(&format!("duration = '60s'\n{line}"))
}

#[track_caller]
fn refused(text: &str, overrides: &[&str], parts: &[&str]) {
    let overrides: Vec<String> = overrides.iter().map(|o| o.to_string()).collect();
    let message = Profile::from_toml_with(text, &overrides).expect_err(text).message;
    assert!(!message.contains('\n') && message.len() < 300, "one line: {message}");
    for part in parts {
        assert!(message.contains(part), "`{part}` is missing in: {message}");
    }
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_what_was_perhaps_meant() {
    let cases = [
        (profile("enginee = 1", "duration = '1s'", "request = '8K'"), "line 2: enginee", "`engine`"),
        (rule("warmpu = 1"), "line 6: warmpu", "`warmup`"),
        (rule("stop = { when = 'p99', abov = '1s' }"), "line 6: abov", "`above`"),
        (rule("steady = { ronds = 1 }"), "line 6: ronds", "`rounds`"),
        (with("flush = 1"), "line 9: flush", "`flush_every`"),
        (with("operations = { read = 100, reed = 1 }"), "line 9: reed", "`read`"),
        (with("address = { kind = 'zipf', tetha = 1 }"), "line 9: tetha", "`theta`"),
        (with("data = { compress = 1 }"), "line 9: compress", "`compressible`"),
        (stream("request = [{ siz = '8K' }]"), "line 8: siz", "`size`"),
    ];
    for (text, key, meant) in cases {
        refused(&text, &[], &[&format!("{key}: no such key; did you mean {meant}?")]);
    }
    refused(&with("colour = 1"), &[], &["line 9: colour: no such key"]);
    // Where there are few keys, and none is like it, they are named.
    refused(&with("flush_every = { colour = 1 }"), &[], &["line 9: colour: no such key; there are `", "`writes`"]);
}

#[test]
fn impossible_sizes_are_refused() {
    for (size, parts) in [
        ("0", ["request", "multiple of 512"]),
        ("1000", ["multiple of 512", "write 512B or 1024B, or measure 1000 bytes with fio"]),
        ("'8Q'", ["line 8: request", "8KiB"]),
        ("-1", ["line 8: request", "8KiB"]),
        ("'-8K'", ["line 8: request", "8KiB"]),
        ("1e30", ["line 8: request", "8KiB"]),
        ("'1e30'", ["line 8: request", "8KiB"]),
        ("''", ["line 8: request", "8KiB"]),
        ("'99999999999999999999'", ["line 8: request", "larger than 2^64"]),
        ("true", ["line 8: request", "8KiB"]),
        ("'0.3'", ["line 8: request", "whole number of bytes"]),
        ("'3GiB'", ["request", "1GiB"]),
        ("[]", ["request", "names no size"]),
    ] {
        refused(&stream(&format!("request = {size}")), &[], &parts);
    }
    refused(&phase("bytes = '8Q'"), &[], &["line 5: bytes", "8KiB"]);
    refused(&with("align = 100"), &[], &["align", "multiple of 512"]);
    refused(&with("address = { kind = 'strided', stride = '1000' }"), &[], &["stride", "align"]);
}

#[test]
fn shares_must_be_percentages_that_sum_to_a_hundred() {
    refused(&with("operations = { read = 50, write = 40 }"), &[], &["operations sum to 90 %", "100"]);
    refused(&with("operations = { read = 50, write = 60 }"), &[], &["operations sum to 110 %", "100"]);
    let sizes = "request = [{ size = '4K', share = 30 }, { size = '8K', share = 30 }]";
    refused(&stream(sizes), &[], &["request shares sum to 60 %", "100"]);
    refused(&with("operations = { read = 150 }"), &[], &["line 9: read", "between 0 and 100"]);
    refused(&with("operations = { read = -1 }"), &[], &["line 9: read"]);
    refused(&with("operations = { read = nan }"), &[], &["line 9: read", "between 0 and 100"]);
    refused(&stream("request = [{ size = '4K', share = 130 }]"), &[], &["line 8: share", "between 0 and 100"]);
    refused(&with("data = { compressible = 101 }"), &[], &["line 9: compressible", "between 0 and 100"]);
    refused(&with("address = { kind = 'mixed', random = '120%' }"), &[], &["between 0 and 100"]);
    refused(&with("address = { kind = 'pareto', skew = 100 }"), &[], &["skew", "between 50 and 100"]);
}

#[test]
fn regions_must_run_forwards_and_verified_ones_apart_from_others() {
    refused(&with("region = '50%..20%'"), &[], &["line 9: region", "end must lie behind its start"]);
    refused(&with("region = '2GiB..1GiB'"), &[], &["line 9: region", "end must lie behind its start"]);
    refused(&with("region = '1GiB..1GiB'"), &[], &["line 9: region", "empty"]);
    refused(&with("region = 'half'"), &[], &["line 9: region", "FROM..TO"]);
    refused(&with("region = '0..120%'"), &[], &["line 9: region", "between 0% and 100%"]);
    for operations in ["{ read = 0, write = 100 }", "{ read = 0, trim = 100 }"] {
        let two = |a: &str, b: &str| {
            with(&format!(
                "verify = true\nregion = '{a}'\n[[phase.stream]]\nrequest = '8K'\nregion = '{b}'\noperations = {operations}"
            ))
        };
        refused(
            &two("0..50%", "25%..75%"),
            &[],
            &["phase measure", "regions 0B..50% and 25%..75% overlap", "keep them apart"],
        );
        assert!(Profile::from_toml(&two("0..50%", "50%..75%"), &[]).is_ok());
    }
}

#[test]
fn a_phase_needs_an_end() {
    refused(&phase(""), &[], &["phase measure: nothing ends it", "duration, requests, bytes or passes"]);
    for key in ["duration", "requests", "bytes", "passes"] {
        refused(&phase(&format!("{key} = 0")), &[], &["phase measure", &format!("{key} is 0"), "leave it out"]);
    }
    refused("title = 't'\n", &[], &["`phase` is missing"]);
    refused("title = 't'\nphase = []\n", &[], &["phase", "[[phase]]"]);
    refused("title = 't'\n[[phase]]\nduration = '1s'\n", &[], &["`stream` is missing"]);
    refused("title = 't'\n[[phase]]\nduration = '1s'\nstream = []\n", &[], &["phase 1", "[[phase.stream]]"]);
    refused("", &[], &["`phase` is missing"]);
    refused("title =", &[], &["line 1"]);
}

#[test]
fn ramps_must_lead_somewhere() {
    let ramp = |fields: &str| rule(&format!("ramp = {{ {fields} }}"));
    for fields in
        ["", ", step = 0", ", step = 1, factor = 2", ", factor = 1", ", step = -1", ", step = inf", ", factor = nan"]
    {
        let text = ramp(&format!("knob = 'depth', from = 1, to = 8, every = '1s'{fields}"));
        refused(&text, &[], &["phase measure: ramp", "step (above 0) or factor (above 1)"]);
    }
    refused(&ramp("knob = 'depth', from = 0, to = 8, step = 1, every = '1s'"), &[], &["ramp.from", "larger than 0"]);
    refused(
        &ramp("knob = 'depth', from = 1, to = 1e9, step = 1, every = '1s'"),
        &[],
        &["ramp reaches", "at most 4096"],
    );
    refused(&ramp("knob = 'depth', from = 1, to = 8, step = 1, every = 0"), &[], &["ramp.every", "longer than 0"]);
    refused(&ramp("knob = 'rate', from = 1, to = 8, step = 1, every = 1"), &[], &["ramp of the rate", "open"]);
    refused(&ramp("knob = 'colour', from = 1, to = 8, step = 1, every = 1"), &[], &["line 6", "`colour`", "`workers`"]);
    let open = "pace = { loop = 'open', rate = 5 }";
    let workers = "duration = 1\nramp = { knob = 'workers', from = 1, to = 8, step = 1, every = 1 }";
    refused(&profile("", workers, &format!("request = '8K'\n{open}")), &[], &["ramp of workers", "ramp the rate"]);
    refused(&rule("steady = { rounds = 2 }"), &[], &["steady.rounds", "3 to 1000"]);
    refused(&rule("stop = { when = 'p12', above = '1s' }"), &[], &["line 6", "`p12`", "`p99`"]);
}

#[test]
fn what_does_not_go_together_is_said() {
    let mix = "request = [{ size = '4K', share = 50 }, { size = '8K', share = 50 }]\naddress = 'permutation'";
    refused(&stream(mix), &[], &["permutation", "one request size"]);
    refused(&with("think = '1s'\npace = { loop = 'open', rate = 5 }"), &[], &["think", "take it or the rate away"]);
    refused(&with("verify = true\ndata = { duplicate = 10 }"), &[], &["verify", "data.duplicate", "must be 0"]);
    refused(
        &with("verify = true\noperations = { read = 50, trim = 50 }"),
        &[],
        &["verify", "take trim or verify away"],
    );
    refused(&with("pace = { loop = 'open' }"), &[], &["line 9", "`rate` is missing"]);
    refused(&with("pace = { loop = 'open', rate = 0 }"), &[], &["rate 0", "between"]);
    refused(&with("request = '4K'"), &[], &["line 9: duplicate key `request`", "leave one"]);
    refused(&with("depth = 0"), &[], &["phase measure, stream reads: depth is 0", "1 to 4096"]);
    refused(&with("workers = 5000"), &[], &["workers is 5000", "1 to 1024"]);
    refused(&profile("interval = '10us'", "duration = 1", "request = '8K'"), &[], &["interval", "at least 1ms"]);
}

#[test]
fn wrong_types_name_key_and_line() {
    for (line, key, wanted) in [
        ("depth = 'a'", "depth", "a whole number"),
        ("depth = -1", "depth", "-1 was given; a whole number from 0 is needed"),
        ("depth = 1.5", "depth", "1.5 was given; a whole number from 0 is needed"),
        ("depth = 99999999999", "depth", "a whole number up to 4294967295 is needed"),
        ("verify = 'yes'", "verify", "\"yes\" was given; true or false is needed"),
        ("think = true", "think", "15s"),
        ("think = 'soon'", "think", "15s"),
        ("think = -5", "think", "-5 was given; a time span such as 15s is needed"),
        ("think = '300000000000h'", "think", "longer than"),
        ("think = 1e300", "think", "at most 285 years"),
        ("operations = 7", "operations", "7 was given; a table"),
        ("pace = { loop = 'open', rate = 'fast' }", "pace", "a number"),
        ("address = 7", "address", "\"random\""),
    ] {
        refused(&with(line), &[], &["line 9", key, wanted]);
    }
    refused(&with("address = 'spiral'"), &[], &["line 9", "`spiral`", "`permutation`"]);
    refused(&profile("seed = 'x'", "duration = 1", "request = '8K'"), &[], &["line 2: seed", "a whole number"]);
    refused(&profile("engine = 'spdk'", "duration = 1", "request = '8K'"), &[], &["line 2: engine", "`psync`"]);
}

#[test]
fn bad_overrides_are_named_too() {
    let text = with("");
    refused(&text, &["depth=x"], &["--set depth=x: a whole number from 0 is needed"]);
    refused(&text, &["request=8Q"], &["--set request=8Q: ", "8KiB"]);
    refused(&with("depth = -3"), &["duration=9s"], &["line 9: depth: -3 was given; a whole number from 0 is needed"]);
    refused(&text, &["measure.reads.depth=-1"], &["--set measure.reads.depth=-1: a whole number from 0 is needed"]);
    refused(&text, &["depth=4", "depth=many"], &["--set depth=many: a whole number"]);
    refused(&text, &["engine=fast"], &["--set engine=fast: ", "`psync`"]);
    refused(&text, &["rate=200"], &["--set rate", "no rate", "pace={loop=\"open\",rate=5000"]);
    let own = "the requests of `measure.reads` have no rate; to give them one, write --set 'measure.reads.pace={";
    refused(&text, &["measure.reads.rate=200"], &["--set measure.reads.rate", own]);
    refused(&text, &["measure.writes.rate=200"], &["`rate` does not belong to a `measure.writes`", "PHASE.STREAM.KEY"]);
    refused(&text, &["depht=8"], &["--set depht", "did you mean `depth`?"]);
    refused(&text, &["measure.writes.depth=8"], &["--set measure.writes.depth", "PHASE.STREAM.KEY"]);
    refused(&text, &["measure.reads.depth.x=8"], &["--set measure.reads.depth.x", "PHASE.STREAM.KEY"]);
    refused(&text, &["measure.reads.x.depth=8"], &["--set measure.reads.x.depth", "PHASE.STREAM.KEY"]);
    refused(&text, &["depth"], &["`depth` is not an override", "depth=8"]);
    refused(&text, &["=8"], &["no such key"]);
    refused(&text, &["operations={reed=50}"], &["reed: no such key; did you mean `read`?"]);
    refused(&text, &["phase=[]"], &["--set phase", "no such key"]);
    refused(&text, &["depth=0"], &["depth is 0", "1 to 4096"]);
}

#[test]
fn line_breaks_in_what_is_quoted_do_not_break_the_line() {
    refused(&with("\"col\\nour\" = 1"), &[], &["col our"]);
    refused(&stream("request = \"8\\nQ\""), &[], &["8 Q"]);
    refused(&phase("requests = 0").replace("'measure'", "\"a\\nb\\u001b[31m\""), &[], &["phase a b"]);
    refused(&with(""), &["dep\nth=8"], &["--set dep th"]);
    refused(&with(""), &["dep\nth"], &["dep th"]);
    let plan = Profile::from_toml(&with(""), &[]).expect("valid").to_json();
    let message = Profile::from_json(&plan.replace("engine", "en\\ngine")).expect_err("an unknown key").message;
    assert!(!message.contains('\n') && message.contains("`en gine`"), "{message}");
}

#[test]
fn every_unit_of_a_size_means_one_thing() {
    for (power, letter) in (1..).zip("KMGTPE".chars()) {
        let (binary, decimal) = (1u64 << (10 * power), 1000u64.pow(power));
        for unit in ["", "i", "iB", "ib"] {
            assert_eq!(parse_bytes(&format!("3{letter}{unit}")), Ok(3 * binary), "{letter}{unit}");
            assert_eq!(parse_bytes(&format!("3 {}{unit}", letter.to_ascii_lowercase())), Ok(3 * binary));
        }
        let sold = [format!("3{letter}B"), format!("3{letter}b"), format!("3 {}b", letter.to_ascii_lowercase())];
        for text in sold {
            match letter {
                'K' => assert!(parse_bytes(&text).is_err_and(|e| e.contains("write KiB")), "{text}"),
                _ => assert_eq!(parse_bytes(&text), Ok(3 * decimal), "{text}"),
            }
        }
    }
    assert_eq!(parse_bytes("1.5TB"), Ok(1_500_000_000_000));
    assert_eq!(parse_bytes("15EiB"), Ok(15 << 60));
    for text in ["16EiB", "19EB", "18446744073709551616", "99999999999999999999999999EB", "1KBB", "1ZB", "1µB", "µ"] {
        assert!(parse_bytes(text).is_err(), "{text}");
    }
    let rates = [("118.65MiB/s", 118.65 * 1_048_576.0), ("200 MB/s", 2e8), ("8MiB", 8_388_608.0), ("0.5B/s", 0.5)];
    for (text, bytes_per_s) in rates {
        assert_eq!(parse_bytes_per_s(text), Ok(bytes_per_s), "{text}");
    }
    assert!(parse_bytes_per_s("fast").is_err_and(|e| e.contains("118.65MiB/s")));
}

#[test]
fn sizes_and_times_read_as_people_write_them() {
    let read = |line: &str| Profile::from_toml(&stream(line), &[]).unwrap_or_else(|e| panic!("{line}: {e}"));
    let size = |line: &str| read(line).phase[0].stream[0].request.max_bytes();
    for (text, bytes) in [
        ("'8K'", 8_192),
        ("'8MB'", 8_000_000),
        ("'8KiB'", 8_192),
        ("'8 kib'", 8_192),
        ("8192", 8_192),
        ("'1.5MiB'", 1_572_864),
        ("'0.5k'", 512),
        ("[{ size = '64K' }]", 65_536),
    ] {
        assert_eq!(size(&format!("request = {text}")), bytes, "{text}");
    }
    for (text, ns) in [
        ("'15s'", 15_000_000_000u64),
        ("60", 60_000_000_000),
        ("'60'", 60_000_000_000),
        ("1.5", 1_500_000_000),
        ("'250 ms'", 250_000_000),
        ("'1.5h'", 5_400_000_000_000),
        ("'2min'", 120_000_000_000),
        ("'10us'", 10_000),
        ("'1500ns'", 1_500),
    ] {
        assert_eq!(read(&format!("request = '8K'\nthink = {text}")).phase[0].stream[0].think.ns, ns, "{text}");
    }
}

const TWO_PHASES: &str = "title = 't'\n[[phase]]\nname = 'fill'\nrequests = 5\n[[phase.stream]]\nname = 'writes'\nrequest = '8K'\n\
    [[phase]]\nname = 'measure'\nduration = 60\n[[phase.stream]]\nname = 'reads'\nrequest = '8K'\n\
    [[phase.stream]]\nname = 'writes'\nrequest = '8K'\n";

#[test]
fn overrides_reach_every_place_one_phase_or_one_stream() {
    let depths = |overrides: &[&str]| {
        let overrides: Vec<String> = overrides.iter().map(|o| o.to_string()).collect();
        let profile = Profile::from_toml_with(TWO_PHASES, &overrides).expect("valid");
        profile.phase.iter().flat_map(|p| &p.stream).map(|s| s.depth).collect::<Vec<_>>()
    };
    assert_eq!(depths(&["depth=8"]), [8, 8, 8]);
    assert_eq!(depths(&["measure.depth=8"]), [1, 8, 8]);
    assert_eq!(depths(&["measure.writes.depth=8"]), [1, 1, 8]);
    assert_eq!(depths(&["depth=4", "fill.depth=2", "measure.reads.depth=8"]), [2, 8, 4]);
    let changed = |text: &str| Profile::from_toml_with(TWO_PHASES, &[text.to_string()]).expect("valid");
    assert_eq!(changed("seed=99").seed, 99);
    assert_eq!(changed("title = with = signs").title, "with = signs");
    assert_eq!(changed("measure.duration=5s").phase[1].duration.map(|d| d.ns), Some(5_000_000_000));
    assert_eq!(changed("request=16KiB").phase[0].stream[0].request.max_bytes(), 16_384);
    assert_eq!(changed("region=0..50%").phase[0].stream[0].region.to_string(), "0B..50%");
    let paced = TWO_PHASES.replace("request = '8K'\n", "request = '8K'\npace = { loop = 'open', rate = 100 }\n");
    let rated = Profile::from_toml_with(&paced, &["rate=250".to_string()]).expect("valid");
    assert_eq!(rated.to_json().matches(r#""rate":250.0"#).count(), 3, "{}", rated.to_json());
    let told = |text: &str, set: &str| -> Vec<String> {
        let profile = Profile::from_toml_with(text, &[set.to_string()]).expect("valid").to_json();
        profile
            .split(r#""rate":"#)
            .skip(1)
            .map(|rest| rest.split(['.', ',', '}']).next().unwrap_or("").to_string())
            .collect()
    };
    assert_eq!(told(&paced, "measure.rate=250"), ["100", "250", "250"]);
    assert_eq!(told(&paced, "measure.writes.rate=250"), ["100", "100", "250"]);
    let video = TWO_PHASES.replacen(
        "name = 'reads'\nrequest = '8K'",
        "name = 'reads'\nrequest = '8K'\nframes = { bytes = '64K', rate = 9 }",
        1,
    );
    for set in ["rate=25", "measure.rate=25", "measure.reads.rate=25"] {
        assert_eq!(told(&video, set), ["25"], "{set}");
    }
    assert_eq!(changed("operations={write=100}").phase[1].stream[0].operations.write.0, 100.0);
}

/// Every key that the parser knows stands in the schema, and no other.
#[test]
fn the_schema_lists_every_key() {
    let schema: serde_json::Value = serde_json::from_str(&json_schema()).expect("JSON");
    let keys = |properties: &serde_json::Value| {
        let mut keys: Vec<String> = properties.as_object().expect("an object").keys().cloned().collect();
        keys.sort();
        keys
    };
    let named = |text: &str| {
        let message = toml::from_str::<Profile>(text).expect_err("an unknown key").message().to_string();
        let list = message.split("expected").nth(1).expect("a list of keys").to_string();
        let mut keys: Vec<String> = list.split('`').skip(1).step_by(2).map(String::from).collect();
        keys.sort();
        keys
    };
    let definitions = &schema["$defs"];
    let colour = "colour = 1";
    assert_eq!(keys(&schema["properties"]), named(&profile(colour, "duration = 1", "request = '8K'")));
    assert_eq!(keys(&definitions["Phase"]["properties"]), named(&rule(colour)));
    assert_eq!(keys(&definitions["Stream"]["properties"]), named(&with(colour)));
    for (name, text) in [
        ("Stop", rule("stop = { colour = 1 }")),
        ("SteadyRule", rule("steady = { colour = 1 }")),
        ("Ramp", rule("ramp = { colour = 1 }")),
        ("Operations", with("operations = { colour = 1 }")),
        ("Data", with("data = { colour = 1 }")),
        ("FlushEvery", with("flush_every = { colour = 1 }")),
        ("SizeShare", stream("request = [{ colour = 1 }]")),
    ] {
        assert_eq!(keys(&definitions[name]["properties"]), named(&text), "{name}");
    }
}

/// Two phases over the same files, as a user would write them.
fn programs(first: &str, second: &str) -> String {
    format!(
        "title = 't'\n[[phase]]\nname = 'make'\n[[phase.stream]]\nname = 'f'\n{first}\n\
         [[phase]]\nname = 'use'\n[[phase.stream]]\nname = 'f'\n{second}\n"
    )
}

const MAKE: &str = "request = '4K'\nprogram = { kind = 'create_files', files = 10, size = '1K..2K' }";
const USE: &str = "request = '4K'\nprogram = { kind = 'transactions', transactions = 5, size = '1K..2K' }";

#[test]
fn programs_say_what_they_lack() {
    let request = "request = '4K'\n";
    let with = |program: &str| programs(&format!("{request}program = {{ {program} }}"), USE);
    for (program, words) in [
        ("kind = 'create_filez'", vec!["line 7", "`create_filez`", "`create_files`"]),
        ("kind = 'create_files'", vec!["line 7", "`files` is missing"]),
        ("kind = 'create_files', files = 1, colour = 2", vec!["line 7", "colour: no such key"]),
        ("kind = 'create_files', files = 0", vec!["phase make, stream f", "files is 0"]),
        ("kind = 'create_files', files = 1, size = '2K..1K'", vec!["end before they begin"]),
        ("kind = 'create_files', files = 1, size = 'big'", vec!["`big` is not a size"]),
        ("kind = 'create_files', files = 1, directory = 'mine'", vec!["`mine`", "`unique`"]),
        ("kind = 'write_file', size = 0", vec!["size is 0"]),
        ("kind = 'seek_file', seeks = 0", vec!["seeks is 0"]),
        ("kind = 'delete_files'", vec!["nothing to work on", "create_files"]),
    ] {
        refused(&with(program), &[], &words);
    }
    refused(
        &programs("program = { kind = 'write_file', size = '1M' }", USE),
        &[],
        &["request names no size", "write_file"],
    );
    refused(&programs("request = '4K'", USE), &[], &["phase make", "nothing ends it"]);
    refused(
        &programs("request = '4K'", USE).replace("'make'", "'make'\nrequests = 1"),
        &[],
        &["a pattern or a server beside programs"],
    );
    for key in [
        "operations = { write = 100, read = 0 }",
        "chain = ['read']",
        "region = '50%..'",
        "verify = true",
        "align = '4K'",
    ] {
        let named = key.split_whitespace().next().expect("a key");
        refused(&programs(&format!("{MAKE}\n{key}"), USE), &[], &["phase make, stream f", named, "does not go with"]);
    }
    refused(&programs(&format!("{MAKE}\ndepth = 2"), USE), &[], &["depth is 1", "more workers"]);
    refused(&programs(&format!("{MAKE}\nworkers = 2"), USE), &[], &["phase use", "use the same number"]);
    refused(&programs(MAKE, &USE.replace("transactions = 5, ", "")), &[], &["phase use", "nothing ends it"]);
    refused(
        &programs(MAKE, &USE.replace("size", "bias_read = -1, bias_create = -1, size")),
        &[],
        &["nothing is left to do"],
    );
    refused(&programs(MAKE, USE).replace("'use'", "'use'\npasses = 2"), &[], &["passes go with patterns"]);
    let ramp = "'use'\nramp = { knob = 'workers', from = 1, to = 2, step = 1, every = 1 }";
    refused(&programs(MAKE, USE).replace("'use'", ramp), &[], &["only the rate can be ramped"]);
}

#[test]
fn overrides_reach_the_programs_that_have_such_a_key() {
    let changed = |text: &str| Profile::from_toml_with(&programs(MAKE, USE), &[text.to_string()]).expect("valid");
    let program = |text: &str, phase: usize| changed(text).phase[phase].stream[0].program.expect("a program");
    assert!(matches!(program("files=20000", 0), plan::Program::CreateFiles { files: 20_000, .. }));
    assert!(matches!(program("files=20000", 1), plan::Program::Transactions { transactions: Some(5), .. }));
    for phase in 0..2 {
        let sizes = match program("size=3K", phase) {
            plan::Program::CreateFiles { size, .. } | plan::Program::Transactions { size, .. } => size,
            other => panic!("{other:?}"),
        };
        assert_eq!((sizes.from_bytes, sizes.to_bytes), (3072, 3072));
    }
    assert!(matches!(program("use.fsync=true", 0), plan::Program::CreateFiles { fsync: false, .. }));
    assert!(matches!(program("use.f.fsync=true", 1), plan::Program::Transactions { fsync: true, .. }));
    refused(&programs(MAKE, USE), &["transaction=7"], &["--set transaction", "did you mean `transactions`?"]);
    refused(&programs(MAKE, USE), &["seeks=7"], &["no such key"]);
}

#[test]
fn parts_of_a_pass_are_numbers_or_per_cent() {
    let read = |passes: &str| {
        let text = rule("").replace("duration", &format!("passes = {passes}\nduration"));
        Profile::from_toml(&text, &[]).unwrap_or_else(|e| panic!("{passes}: {e}")).phase[0].passes.expect("passes")
    };
    for (text, requests) in [("1", 2048), ("3", 6144), ("0.1", 204), ("'10%'", 204), ("'250%'", 5120), ("0.00001", 1)] {
        assert_eq!(read(text).requests(2048), requests, "{text}");
    }
    for text in ["-1", "'some'", "inf", "nan"] {
        refused(&rule("").replace("duration", &format!("passes = {text}\nduration")), &[], &["passes"]);
    }
    let plan = Profile::from_toml(&rule("").replace("duration", "passes = 2\nduration"), &[]).expect("valid").to_json();
    assert!(plan.contains("\"passes\":2,"), "whole passes stay whole numbers");
}
