//! States of logs that are known by hand: what is durable at a cut, which subsets there are, and that a state is the same
//! every time.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use lab::cache::{Medium, Taken};
use lab::draw::{Aim, Cache, Drawer, Parameters, State, Story};
use lab::log::{Log, RECORD_BYTES, RECORDS, Writer};
use lab::view::View;

const SIZE_BYTES: u64 = 1 << 20;
const PARAMETERS: Parameters = Parameters { cache: Cache::Honest, aim: Aim::Mixed, torn_bytes: 0 };

/// A folder that is gone afterwards.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let place = std::env::temp_dir().join(format!("brickyard-lab-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&place).expect("a new folder");
        Place(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Records: 0 write A, 1 flush starts, 2 write B, 3 flush ends, 4 acknowledged here, 4 write C over A, 5 write D.
fn record(place: &Path) -> Log {
    let mut log = Writer::new(place, SIZE_BYTES).expect("a log");
    log.write(0, 0, &[b'A'; 4096], false).expect("written");
    let start = log.flush_start(1).expect("written");
    log.write(2, 4096, &[b'B'; 4096], false).expect("written");
    log.flush_end(3, start).expect("written");
    log.write(4, 0, &[b'C'; 4096], false).expect("written");
    log.write(5, 8192, &[b'D'; 8192], false).expect("written");
    drop(log);
    Log::open(place).expect("a log to read")
}

fn story(begin: u64) -> Story {
    Story { begin, end: 6, promises: vec![4], marks: Vec::new() }
}

fn states(log: &Log, begin: u64, parameters: Parameters, count: u64) -> Vec<State> {
    let drawer = Drawer::new(log, story(begin), parameters).expect("a story that fits");
    drawer.seeds(count, 1).into_iter().map(|seed| drawer.state(seed)).collect()
}

/// The first letters of the four blocks; `.` is blank.
fn content(view: &View) -> String {
    let mut block = [0; 1];
    let letter = |at: u64| {
        view.read(at * 4096, &mut block);
        if block[0] == 0 { '.' } else { char::from(block[0]) }
    };
    (0..4).map(letter).collect()
}

fn contents(log_place: &Path, states: &[State]) -> BTreeSet<(u64, String)> {
    let mut view = View::new(Log::open(log_place).expect("a log"));
    let seen = states.iter().map(|state| {
        view.become_state(state).expect("a state");
        (state.cut, content(&view))
    });
    seen.collect()
}

#[test]
fn what_ended_before_the_start_of_an_ended_flush_is_durable_and_all_subsets_of_the_rest_are_drawn() {
    let place = Place::new("subsets");
    let log = record(&place.0);
    let seen = contents(&place.0, &states(&log, 3, PARAMETERS, 400));
    let expected = [
        (3, "...."),
        (3, "A..."),
        (3, ".B.."),
        (3, "AB.."), // the flush has not ended: nothing is sure
        (4, "A..."),
        (4, "AB.."), // B came after its start
        (5, "A..."),
        (5, "AB.."),
        (5, "C..."),
        (5, "CB.."),
        (6, "A..."),
        (6, "AB.."),
        (6, "C..."),
        (6, "CB.."),
        (6, "A.DD"),
        (6, "ABDD"),
        (6, "C.DD"),
        (6, "CBDD"),
    ];
    let expected: BTreeSet<(u64, String)> = expected.into_iter().map(|(cut, text)| (cut, text.to_string())).collect();
    // Cuts lie after `begin`, or on it where an acknowledgement does.
    let seen: BTreeSet<(u64, String)> = seen.into_iter().filter(|(cut, _)| *cut > 3).collect();
    assert_eq!(seen, expected.into_iter().filter(|(cut, _)| *cut > 3).collect());
}

#[test]
fn a_state_is_the_same_every_time_and_another_log_has_other_states() {
    let (one, other) = (Place::new("one"), Place::new("other"));
    let log = record(&one.0);
    let torn = Parameters { torn_bytes: 512, ..PARAMETERS };
    assert_eq!(states(&log, 0, torn, 100), states(&Log::open(&one.0).expect("a log"), 0, torn, 100));
    let drawer = Drawer::new(&log, story(0), torn).expect("a story");
    let state = drawer.state(drawer.seeds(50, 9)[49]);
    assert_eq!(drawer.state(state.seed), state);
    let mut writer = Writer::new(&other.0, SIZE_BYTES).expect("a log");
    (0..6).for_each(|n| writer.write(n, 0, &[n as u8 + 1; 4096], false).expect("written"));
    drop(writer);
    assert_ne!(states(&log, 0, torn, 100), states(&Log::open(&other.0).expect("a log"), 0, torn, 100));
}

#[test]
fn caches_that_are_off_lie_or_lose_flushes_keep_what_they_should() {
    let place = Place::new("caches");
    let log = record(&place.0);
    let off = states(&log, 0, Parameters { cache: Cache::Off, ..PARAMETERS }, 50);
    assert!(off.iter().all(|state| state.durable == state.cut && state.kept.is_empty()));
    let lying = states(&log, 0, Parameters { cache: Cache::Lying { back: 4 }, ..PARAMETERS }, 50);
    assert!(lying.iter().all(|state| state.durable == state.cut.saturating_sub(4)));
    let lossy = states(&log, 4, Parameters { cache: Cache::Lossy { n: 2 }, ..PARAMETERS }, 200);
    let lost = lossy.iter().filter(|state| state.durable == 0).count();
    assert!((50..150).contains(&lost), "half of the flushes are lost, not {lost} of 200");
    let acknowledged = states(&log, 0, Parameters { aim: Aim::Acknowledgements, ..PARAMETERS }, 50);
    assert!(acknowledged.iter().all(|state| state.cut == 4 && state.promised == 1));
}

#[test]
fn torn_writes_keep_whole_sectors() {
    let place = Place::new("torn");
    let log = record(&place.0);
    let torn = states(&log, 5, Parameters { torn_bytes: 512, ..PARAMETERS }, 200);
    let partial: Vec<_> = torn.iter().flat_map(|state| &state.kept).filter(|k| k.to - k.from < 4096).collect();
    assert!(!partial.is_empty());
    assert!(partial.iter().all(|kept| kept.from % 512 == 0 && kept.to % 512 == 0));
}

#[test]
fn cuts_in_a_stretch_lie_where_volatile_writes_replace_what_was_there() {
    let place = Place::new("stretch");
    let mut log = Writer::new(&place.0, SIZE_BYTES).expect("a log");
    let flush = |log: &mut Writer| {
        let start = log.flush_start(0).expect("written");
        log.flush_end(0, start).expect("written");
    };
    log.write(0, 0, &[b'A'; 16 * 4096], false).expect("written");
    flush(&mut log); // 1 and 2
    for n in 0..40 {
        log.write(0, (32 + n) * 4096, &[b'N'; 4096], false).expect("written"); // new blocks, 3 to 42
    }
    flush(&mut log); // 43 and 44
    log.write(0, 0, &[b'B'; 16 * 4096], false).expect("written"); // 45, over A
    flush(&mut log); // 46 and 47
    (0..40).for_each(|_| flush(&mut log));
    drop(log);
    let log = Log::open(&place.0).expect("a log to read");
    let end = log.records.len() as u64;
    let story = Story { begin: 3, end, promises: Vec::new(), marks: vec![(3, end)] };
    let cuts = |cache| {
        let parameters = Parameters { cache, aim: Aim::Marks, torn_bytes: 4096 };
        let drawer = Drawer::new(&log, story.clone(), parameters).expect("a story that fits");
        drawer.seeds(200, 1).into_iter().map(|seed| drawer.state(seed).cut).collect::<BTreeSet<u64>>()
    };
    assert_eq!(cuts(Cache::Honest), BTreeSet::from([46, 47]), "B is volatile from its end to the end of its flush");
    assert!(cuts(Cache::Off).len() > 50, "nothing is volatile: anywhere");
}

#[test]
fn a_log_that_was_cut_short_is_read_up_to_its_last_whole_record() {
    let place = Place::new("short");
    let whole = record(&place.0).records;
    let file = File::options().write(true).open(place.0.join(RECORDS)).expect("records");
    let bytes = file.metadata().expect("a size").len();
    file.set_len(bytes - RECORD_BYTES as u64 - 7).expect("cut");
    let short = Log::open(&place.0).expect("a log");
    assert_eq!(short.records, whole[..whole.len() - 2]);
    assert_eq!(short.torn_bytes, RECORD_BYTES as u64 - 7);
    file.set_len(10).expect("cut");
    assert!(Log::open(&place.0).expect_err("no log").contains("not a log"));
}

#[test]
fn a_power_cut_takes_back_what_no_flush_covered() {
    let place = Place::new("cut");
    let made = File::options().read(true).write(true).create_new(true).open(place.0.join("medium")).expect("a file");
    made.set_len(SIZE_BYTES).expect("a size");
    let mut medium = Medium::new(made, 1 << 20);
    let write = |medium: &mut Medium, letter: u8, offset: u64| {
        let number = medium.write(offset, &[letter; 512]).expect("written");
        medium.ends(number, None);
    };
    write(&mut medium, b'A', 0);
    let covered = medium.flush_covers();
    write(&mut medium, b'B', 0);
    medium.flushed(covered);
    write(&mut medium, b'C', 512);
    assert_eq!(medium.power_cut().expect("a medium"), Taken { writes: 2, bytes: 1024 });
    let mut found = [0; 1024];
    medium.read(0, &mut found).expect("read");
    assert_eq!((found[0], found[512]), (b'A', 0));
}

#[test]
fn a_power_cut_leaves_a_durable_write_over_a_volatile_one_and_a_flipped_bit() {
    let place = Place::new("over");
    let made = File::options().read(true).write(true).create_new(true).open(place.0.join("medium")).expect("a file");
    made.set_len(SIZE_BYTES).expect("a size");
    let mut medium = Medium::new(made, 1 << 20);
    let volatile = medium.write(0, &[b'A'; 1024]).expect("written");
    medium.ends(volatile, None);
    let durable = medium.write(512, &[b'B'; 512]).expect("written");
    medium.ends(durable, Some(&[b'B'; 512]));
    medium.flip(3).expect("flipped");
    medium.power_cut().expect("a medium");
    let mut found = [0; 1024];
    medium.read(0, &mut found).expect("read");
    assert_eq!((&found[..5], found[511], found[512], found[1023]), (&[0, 0, 0, 1, 0][..], 0, b'B', b'B'));
}

#[test]
fn a_seed_of_other_parameters_or_another_log_is_refused() {
    let place = Place::new("named");
    let log = record(&place.0);
    let drawer = |cache| Drawer::new(&log, story(4), Parameters { cache, ..PARAMETERS }).expect("a story that fits");
    for seed in drawer(Cache::Honest).seeds(20, 1) {
        assert_eq!(drawer(Cache::Honest).named(seed).expect("its own").seed, seed);
        assert!(drawer(Cache::Lying { back: 4 }).named(seed).expect_err("another's").contains("--cache"));
    }
}

#[test]
fn of_flushes_that_overlap_the_one_that_began_last_counts() {
    let place = Place::new("overlap");
    let mut log = Writer::new(&place.0, SIZE_BYTES).expect("a log");
    let early = log.flush_start(0).expect("written");
    log.write(1, 0, &[b'A'; 4096], false).expect("written");
    let late = log.flush_start(2).expect("written");
    log.flush_end(3, late).expect("written");
    log.flush_end(4, early).expect("written");
    log.write(5, 4096, &[b'B'; 4096], false).expect("written");
    drop(log);
    let log = Log::open(&place.0).expect("a log to read");
    let seen = contents(&place.0, &states(&log, 4, PARAMETERS, 100));
    assert!(seen.iter().all(|(_, text)| text.starts_with('A')), "A was there before a flush that ended began");
}

#[test]
fn what_lies_around_a_cut_is_told_with_what_the_state_kept_and_what_each_flush_did() {
    let place = Place::new("around");
    let log = record(&place.0);
    let drawer =
        Drawer::new(&log, story(5), Parameters { cache: Cache::Lying { back: 4 }, ..PARAMETERS }).expect("fits");
    let state =
        drawer.seeds(400, 1).into_iter().map(|seed| drawer.state(seed)).find(|s| s.cut == 6 && s.kept.is_empty());
    let state = state.expect("a state without its volatile writes");
    assert_eq!((state.cut, state.durable), (6, 2));
    let around = drawer.surroundings(&state, 10);
    let told: Vec<(u64, bool, u64)> = around.writes.iter().map(|w| (w.record, w.volatile, w.kept_bytes)).collect();
    assert_eq!(told, [(2, true, 0), (4, true, 0), (5, true, 0)]);
    assert_eq!((around.flushes.len(), around.flushes[0].end, around.flushes[0].works), (1, Some(3), false));
    let more = drawer.state_with(state.seed, &[5, 2]).expect("both are volatile");
    assert_eq!(more.kept.iter().map(|kept| kept.record).collect::<Vec<_>>(), [2, 5]);
    assert!(drawer.state_with(state.seed, &[0]).expect_err("it is durable").contains("no volatile write"));
    let parts = drawer.parts(10);
    assert_eq!((parts.len(), parts[0].from, parts[0].to, parts[0].writes), (1, 5, 6, 1));
}
