//! Whole runs on modelled bricks: the same events as on real storage, bit-identical, and refusals in one line.

mod common;

use engine::conductor::RunControl;
use engine::event::Event;
use plan::Profile;
use sim::session::{Options, prepare};

const MIX: &str = r#"
title = "mix"
[[phase]]
name = "settle"
requests = 200
[[phase.stream]]
operations = { write = 100 }
request = "8KiB"
address = "random"
depth = 8
flush_every = { writes = 20 }
[[phase]]
name = "measure"
warmup = "2s"
duration = "10s"
[[phase.stream]]
name = "web"
operations = { read = 80, write = 20 }
request = [{ size = "8KiB", share = 70 }, { size = "64KiB", share = 30 }]
address = { kind = "hot_spots" }
workers = 3
depth = 4
[[phase.stream]]
name = "log"
operations = { write = 100 }
request = "4KiB"
depth = 1
sync = "dsync"
pace = { loop = "open", rate = 20, arrivals = "poisson" }
"#;

fn options() -> Options {
    Options { bricks: common::brick_texts(), ..Options::default() }
}

fn events(profile: &str, targets: &[&str], options: &Options) -> Result<Vec<Event>, String> {
    let profile = Profile::from_toml(profile, &[]).expect("a valid profile");
    let targets: Vec<String> = targets.iter().map(|t| t.to_string()).collect();
    let session = prepare(profile, &targets, options)?;
    let mut events = Vec::new();
    session.run(&RunControl::default(), &mut |event| events.push(event));
    Ok(events)
}

fn json(events: &[Event]) -> String {
    events.iter().map(|e| e.to_json() + "\n").collect()
}

/// FNV-1a, 64 bit: enough to notice any change.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// What the model decides, in every interval and at the end of every phase; how events are spelled is not its affair.
fn measured(events: &[Event]) -> String {
    let mut text = String::new();
    for event in events {
        match event {
            Event::Interval(i) => {
                text += &format!("interval {} {} {}\n", i.phase, i.start_ns, i.end_ns);
                for c in &i.cells {
                    text += &format!("{} {} {} {} {}", c.stream, c.operation, c.requests, c.bytes, c.depth_max);
                    c.measures.values().for_each(|m| text += &format!(" {}", m.histogram));
                    text += "\n";
                }
            }
            Event::PhaseEnd(end) => {
                text += &format!("end {} {}\n", end.end_ns, end.unsent);
                end.slowest.iter().for_each(|s| text += &format!("{} {} {}\n", s.at_ns, s.offset_bytes, s.service_ns));
            }
            _ => {}
        }
    }
    text
}

#[test]
fn a_run_is_bit_identical() {
    let run = || events(MIX, &["sim:terraserver-2003"], &options()).expect("a run");
    let first = run();
    assert_eq!(json(&first), json(&run()));
    // The same on every machine. A change of a model or of a brick changes it, and has to be meant.
    let found = hash(&measured(&first));
    assert_eq!(found, GOLDEN, "golden hash is now {found:#018x}");
}

const GOLDEN: u64 = 0x5c0f_88cb_32fc_2d9e;

#[test]
fn the_events_are_those_of_a_real_run() {
    let found = events(MIX, &["sim:msr-2003-wd-software-mirror"], &options()).expect("a run");
    let Event::Start(start) = &found[0] else { panic!("a start comes first") };
    assert_eq!((start.engine.name(), start.clock.source.as_str(), start.start_unix_ns), ("sim", "virtual", 0));
    assert_eq!(start.targets[0].kind, "sim");
    assert!(start.features.contains(&"condition=normal".to_string()), "{:?}", start.features);
    let names: Vec<&str> = found
        .iter()
        .filter_map(|e| match e {
            Event::Phase { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["settle", "measure"]);
    let (mut requests, mut end_before) = (0, 0);
    for event in &found {
        match event {
            Event::Interval(i) => {
                assert!(i.start_ns >= end_before && i.end_ns >= i.start_ns, "intervals follow one another");
                end_before = i.end_ns;
                requests += i.cells.iter().map(|c| c.requests).sum::<u64>();
                assert!(i.cells.iter().all(|c| c.errors == 0));
            }
            Event::PhaseEnd(end) => assert_eq!((end.outstanding, end.generator_bound), (0, false)),
            _ => {}
        }
    }
    assert!(requests > 1_000, "{requests}");
    assert!(matches!(found.last(), Some(Event::End { outcome: engine::event::RunOutcome::Done, .. })));
}

#[test]
fn several_bricks_run_on_one_clock() {
    let profile = r#"
title = "two"
[[phase]]
duration = "5s"
[[phase.stream]]
request = "8KiB"
address = "random"
[[phase.stream]]
target = 1
request = "8KiB"
address = "random"
"#;
    let found = events(profile, &["sim:wd2500jd", "sim:cheetah-x15"], &options()).expect("a run");
    let mut rates = [0u64; 2];
    for event in &found {
        if let Event::Interval(i) = event {
            i.cells.iter().for_each(|c| rates[c.stream] += c.requests);
        }
    }
    assert!(rates[0] > 300 && rates[1] > rates[0] * 2, "{rates:?}");
}

#[test]
fn the_condition_is_a_field_of_the_run() {
    let profile = "title = \"read\"\n[[phase]]\nduration = \"20s\"\n[[phase.stream]]\nrequest = \"8KiB\"\naddress = \"random\"\ndepth = 4\n";
    let rate = |condition: &str| {
        let text = format!("{{\"condition\": \"{condition}\"}}");
        let given: Options = serde_json::from_str(&text).expect("options");
        let given = Options { bricks: common::brick_texts(), ..given };
        let found = events(profile, &["sim:msr-2003-wd-hardware-mirror"], &given).expect("a run");
        found.iter().map(|e| if let Event::Interval(i) = e { i.cells[0].requests } else { 0 }).sum::<u64>()
    };
    let (normal, degraded, rebuilding) = (rate("normal"), rate("degraded"), rate("rebuilding"));
    assert!(normal > degraded * 18 / 10 && degraded > rebuilding * 11 / 10, "{normal} {degraded} {rebuilding}");
}

#[test]
fn what_cannot_be_modelled_is_refused_in_one_line() {
    let read = "title = \"r\"\n[[phase]]\nduration = \"1s\"\n[[phase.stream]]\nrequest = \"8KiB\"\n";
    let verify = format!("{}operations = {{ write = 100 }}\nverify = true\n", read);
    let refused = |profile: &str, target: &str, words: &str| {
        let message = events(profile, &[target], &options()).err().unwrap_or_default();
        assert!(message.contains(words) && message.lines().count() == 1, "{target}: {message:?}");
    };
    refused(&verify, "sim:wd2500jd", "carries no data");
    refused(read, "sim:nothing", "no such brick");
    refused(read, "/dev/null", "different clocks");
    refused(read, "sim:wd2500jd,colour=red", "`colour` is no key of a brick");
    refused(read, "sim:msr-2003-wd,members=0", "members");
    refused(read, "sim:msr-2003-wd,condition=degraded", "without redundancy");
    refused(read, "sim:terraserver-2003,members=8,spares=2,condition=degraded", "the spare");
    refused(read, "sim:msr-2003-wd,stripe=8GiB", "up to 1GiB");
    refused(read, "sim:wd2500jd,condition=neighbour_rebuilding", "could rebuild a neighbour");
    refused(read, "sim:msr-2003-wd,level=raid5,members=9", "8 ports");
    refused(&format!("io = \"buffered\"\n{read}"), "sim:wd2500jd,power_cut_at=1s", "page cache");
    let mut broken = options();
    broken.bricks.insert("drives/odd".into(), "title = \"odd\"\nkind = \"rotating\"\nrpm = 7200\n[basis]\n".into());
    let profile = Profile::from_toml(read, &[]).expect("a profile");
    let message = prepare(profile, &["sim:odd".to_string()], &broken).err().map(String::from).unwrap_or_default();
    assert!(message.contains("[basis] must call rpm"), "{message}");
}

#[test]
fn every_brick_that_ships_can_be_built() {
    for (place, _) in common::brick_texts().iter().filter(|(place, _)| !place.starts_with("controllers/")) {
        let name = place.split('/').nth(1).expect("a name");
        let brick = sim::brick::resolve(name, &common::brick_texts(), &[]).expect(name);
        let system = sim::system::System::new(&brick).expect(name);
        assert!(system.capacity_bytes() > 1_000_000_000, "{name}");
    }
    // Every controller serves some brick or can be given to one.
    for place in common::brick_texts().keys().filter_map(|p| p.strip_prefix("controllers/")) {
        let software = ["mirror", "md", "zfs"].iter().any(|word| place.contains(word));
        let key = if software { "software" } else { "controller" };
        let level = if place.contains("zfs") { "zmirror" } else { "raid1" };
        let spoken = format!("msr-2003-wd,level={level},members=2,{key}={place}");
        sim::brick::resolve(&spoken, &common::brick_texts(), &[]).expect(place);
    }
}
