//! Logs as a user has them: several files, formats mixed, lines out of order, and what is wrong in them.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use replay::counts::Document;
use replay::explain::explain;
use replay::feed::{Feed, FeedOptions, SessionKey, probe};
use replay::format::{FieldNames, Format, Parsed, Parser};
use replay::look::look;
use replay::mapping::{Call, Mapping};
use replay::spec::Sort;

const MAPPING: &str = r#"
[[call]]
page = "tile"
path = "/tile.ashx"
sql = "select :X"
[call.parameters]
X = { type = "int4" }
[[call]]
page = "famous"
path = "/famous.aspx"
sql = "select 1"
"#;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let place = std::env::temp_dir().join(format!("brickyard-feed-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        Folder(place)
    }

    fn log(&self, name: &str, content: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::File::create(&path).unwrap().write_all(content).unwrap();
        path.to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options(logs: Vec<String>) -> FeedOptions {
    FeedOptions { logs, window_s: 10, seed: 1, ..FeedOptions::default() }
}

fn calls(options: &FeedOptions) -> (Vec<Call>, Feed) {
    let mapping = Arc::new(Mapping::from_toml(MAPPING, 1).unwrap());
    let mut feed = Feed::open(mapping, options.clone(), true).unwrap();
    feed.sort(&|| false).unwrap();
    let mut found = Vec::new();
    while feed.next(&mut found) {}
    (found, feed)
}

fn explained(options: FeedOptions) -> Document {
    explain(MAPPING, 1, options, &|look| Sort::Auto.after(look), &AtomicBool::new(false)).unwrap().0
}

fn numbers(calls: &[Call]) -> Vec<String> {
    calls.iter().map(|c| c.values.first().map_or(String::new(), |v| v.text().into_owned())).collect()
}

#[test]
fn files_of_all_formats_merge_by_time() {
    let folder = Folder::new("merge");
    let w3c = "#Fields: date time cs-uri-stem cs-uri-query c-ip\n2003-06-02 10:00:00 /tile.ashx X=1 a\n\
               2003-06-02 10:00:03 /tile.ashx X=4 a\n";
    let combined = "h - - [02/Jun/2003:12:00:01 +0200] \"GET /tile.ashx?X=2 HTTP/1.0\" 200 1\n\
                    h - - [02/Jun/2003:12:00:04 +0200] \"GET /tile.ashx?X=5 HTTP/1.0\" 200 1\n";
    let json = "{\"time\":\"2003-06-02T10:00:02.5Z\",\"path\":\"/tile.ashx?X=3\"}\n";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(combined.as_bytes()).unwrap();
    let logs = vec![
        folder.log("a.log", w3c.as_bytes()),
        folder.log("b.log.gz", &gzip.finish().unwrap()),
        folder.log("c.json.zst", &zstd::encode_all(json.as_bytes(), 1).unwrap()),
    ];
    let (found, feed) = calls(&options(logs.clone()));
    assert_eq!(numbers(&found), ["1", "2", "3", "4", "5"]);
    assert!(found.is_sorted_by_key(|c| c.at_ns));
    assert_eq!((feed.counts.lines, feed.counts.entries), (6, 5));
    assert_eq!(probe(&options(logs)).unwrap().first_ns, Some(1_054_548_000_000_000_000));
}

#[test]
fn lines_out_of_order_are_put_in_order_within_the_window() {
    let folder = Folder::new("order");
    let line = |second: u32, x: u32| format!("2003-06-02 10:{:02}:{:02} /tile.ashx X={x}\n", second / 60, second % 60);
    let mut text = "#Fields: date time cs-uri-stem cs-uri-query\n".to_string();
    for second in [0, 5, 3, 9, 7, 30, 2, 31] {
        text += &line(second, second);
    }
    let (found, feed) = calls(&options(vec![folder.log("a.log", text.as_bytes())]));
    // All lines lie in one turn of reading, so even the one beyond the window finds its place.
    assert_eq!(numbers(&found), ["0", "2", "3", "5", "7", "9", "30", "31"]);
    assert_eq!((feed.counts.out_of_order, feed.counts.late), (3, 0));
    for second in 32..3000 {
        text += &line(second, second);
    }
    text += &line(1, 9999);
    let (found, feed) = calls(&options(vec![folder.log("b.log", text.as_bytes())]));
    assert_eq!(feed.counts.late, 1);
    assert!(found.is_sorted_by_key(|c| c.at_ns) && found.len() == 8 + 2968 + 1);
}

/// Two servers' logs one after the other, then interleaved: in disorder by an hour. coreutils' sort says what is right.
#[test]
fn logs_in_disorder_are_sorted_as_sort_does() {
    let folder = Folder::new("sorted");
    let mut random = pace::SplitMix64::new(&[3]);
    let mut lines: Vec<String> = Vec::new();
    for x in 0..4_000u32 {
        let second = if x < 3_000 { x % 1_500 } else { (random.next_u64() % 3_600) as u32 };
        lines.push(format!("2003-06-02 10:{:02}:{:02} /tile.ashx X={x}", second / 60 % 60, second % 60));
    }
    let fields = "#Fields: date time cs-uri-stem cs-uri-query\n";
    let (first, second) = lines.split_at(2_500);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(format!("{fields}{}\n", first.join("\n")).as_bytes()).unwrap();
    let zstd = zstd::encode_all(format!("{fields}{}\n", second.join("\n")).as_bytes(), 1).unwrap();
    let logs = vec![folder.log("a.log.gz", &gzip.finish().unwrap()), folder.log("b.log.zst", &zstd)];

    let plain = folder.log("plain", (lines.join("\n") + "\n").as_bytes());
    let sort = Command::new("sort").args(["-s", "-k1,2", &plain]).env("LC_ALL", "C").output().unwrap();
    assert!(sort.status.success());
    let wanted: Vec<String> =
        String::from_utf8(sort.stdout).unwrap().lines().map(|l| l.split("X=").nth(1).unwrap().into()).collect();

    let found = look(&options(logs.clone()), &AtomicBool::new(false)).unwrap();
    assert!(found.beyond_window > 1_000 && found.disorder_ns > 600 * 1_000_000_000, "{found:?}");
    assert!(Sort::Auto.after(&found) && !Sort::Never.after(&found));
    let (sorted, feed) = calls(&FeedOptions { sort: true, ..options(logs.clone()) });
    assert_eq!(numbers(&sorted), wanted);
    assert_eq!(feed.counts.late, 0);
    assert!(sorted.is_sorted_by_key(|c| c.at_ns));
    // The same logs again, as a fire hose may want them.
    let mut again = feed.again().unwrap();
    let mut more = Vec::new();
    while again.next(&mut more) {}
    assert_eq!(more, sorted);
    // Unsorted, late calls come in bursts that the log does not have, and are counted.
    let (_, feed) = calls(&options(vec![plain_with(&folder, fields, &lines)]));
    let told = feed.counts.document(&Mapping::from_toml(MAPPING, 1).unwrap());
    assert!(told.late > 1_000 && told.late_burst_calls > 100, "{} {}", told.late, told.late_burst_calls);
    assert_eq!(explained(options(logs)).late, 0);
}

fn plain_with(folder: &Folder, fields: &str, lines: &[String]) -> String {
    folder.log("c.log", format!("{fields}{}\n", lines.join("\n")).as_bytes())
}

#[test]
fn a_stamp_of_1970_is_named_and_left_out() {
    let folder = Folder::new("outlier");
    let mut lines: Vec<String> =
        (0..300).map(|x| format!("2003-06-02 10:{:02}:{:02} /tile.ashx X={x}", x / 60, x % 60)).collect();
    lines.insert(100, "1970-01-01 00:00:07 /tile.ashx X=1970".into());
    lines.insert(200, "2150-01-01 00:00:07 /tile.ashx X=2150".into());
    let log =
        folder.log("a.log", format!("#Fields: date time cs-uri-stem cs-uri-query\n{}\n", lines.join("\n")).as_bytes());
    let options = options(vec![log.clone()]);
    let found = look(&options, &AtomicBool::new(false)).unwrap();
    assert_eq!(found.outliers.iter().map(|o| (o.line, o.requests)).collect::<Vec<_>>(), [(102, 1), (202, 1)]);
    assert_eq!((found.outliers[0].first_ns, found.first_ns), (7_000_000_000, Some(1_054_548_000_000_000_000)));
    assert_eq!((found.beyond_window, found.disorder_ns), (0, 0), "without them the log is in order");
    let (kept, feed) = calls(&FeedOptions { left_out: found.left_out, ..options.clone() });
    assert_eq!((kept.len(), feed.counts.outliers, feed.counts.lines), (300, 2, 303));
    let whole = look(&FeedOptions { keep_outliers: true, ..options.clone() }, &AtomicBool::new(false)).unwrap();
    assert_eq!((whole.outliers.len(), whole.first_ns), (0, Some(7_000_000_000)));
    // Whoever says from when on has left it out already.
    let later = FeedOptions { from_ns: Some(1_000_000_000_000_000_000), ..options };
    assert_eq!(look(&later, &AtomicBool::new(false)).unwrap().outliers.len(), 1);
}

#[test]
fn a_request_of_another_method_is_told_with_the_one_that_is_mapped() {
    let folder = Folder::new("method");
    let text = "#Fields: date time cs-method cs-uri-stem cs-uri-query\n2003-06-02 10:00:00 POST /famous.aspx -\n\
                2003-06-02 10:00:01 POST /famous.aspx -\n2003-06-02 10:00:02 GET /famous.aspx -\n\
                2003-06-02 10:00:02 POST /login -\n";
    let told = explained(options(vec![folder.log("a.log", text.as_bytes())]));
    let paths: Vec<_> = told
        .unmatched_paths
        .iter()
        .map(|p| (p.method.as_str(), p.path.as_str(), p.requests, &p.mapped_methods[..]))
        .collect();
    assert_eq!(paths, [("POST", "/famous.aspx", 2, &["GET".to_string()][..]), ("POST", "/login", 1, &[])]);
}

#[test]
fn whole_seconds_are_spread_evenly_and_alike_for_a_seed() {
    let folder = Folder::new("spread");
    let mut text = "#Fields: date time cs-uri-stem cs-uri-query\n".to_string();
    for x in 0..1500 {
        text += &format!("2003-06-02 10:00:0{} /tile.ashx X={x}\n", x / 500);
    }
    let log = folder.log("a.log", text.as_bytes());
    let (first, _) = calls(&options(vec![log.clone()]));
    let (again, _) = calls(&options(vec![log.clone()]));
    assert_eq!(first, again);
    let (other, _) = calls(&FeedOptions { seed: 2, ..options(vec![log]) });
    assert_ne!(first, other);
    assert_eq!(numbers(&first), (0..1500).map(|x| x.to_string()).collect::<Vec<_>>());
    assert!(first.is_sorted_by_key(|c| c.at_ns));
    let start = 1_054_548_000_000_000_000i64;
    for tenth in 0..10i64 {
        let from = start + tenth * 100_000_000;
        let count = first.iter().filter(|c| (from..from + 100_000_000).contains(&c.at_ns)).count();
        assert!((25..80).contains(&count), "{count} of 500 in one tenth of a second");
    }
    // No second repeats the instants of another.
    let offsets: HashSet<i64> = first.iter().map(|c| c.at_ns % 1_000_000_000).collect();
    assert!(offsets.len() > 1_490, "{} of 1500", offsets.len());
}

#[test]
fn bad_lines_are_counted_and_sampled_and_coverage_is_told() {
    let folder = Folder::new("bad");
    let mut text = b"\xEF\xBB\xBF#Fields: date time cs-uri-stem cs-uri-query c-ip\r\n".to_vec();
    for n in 0..97 {
        text.extend(format!("2003-06-02 10:{:02}:00 /Tile.ashx X={n} c{}\r\n", n / 2, n % 7).bytes());
    }
    text.extend(b"2003-06-02 11:00:00 /logo.gif - a\n2003-06-02 11:00:01 /logo.gif - a\n");
    text.extend(b"2003-06-02 11:00:02 /tile.ashx X=abc a\n");
    text.extend(b"garbage\n\x00\xFF\xFE\n2003-99-02 11:00:02 /tile.ashx X=1 a\n");
    let log = folder.log("a.log", &text);
    let told = explained(options(vec![log]));
    assert_eq!((told.lines, told.requests, told.calls, told.bad_lines), (104, 100, 97, 3));
    assert_eq!(told.covered_share, Some(0.97));
    assert_eq!(
        (told.unmatched, told.unmatched_paths[0].path.as_str(), told.unmatched_paths[0].requests),
        (2, "/logo.gif", 2)
    );
    assert_eq!((told.unusable[0].page.as_str(), told.unusable[0].parameter.as_str()), ("tile", "X"));
    assert_eq!(told.bad_samples.len(), 3);
    assert_eq!(told.bad_samples[0].line, 102);
    assert_eq!(told.pages[0].example.as_deref(), Some("select $1  ←  0"));
    assert_eq!(told.sessions, Some(8));
    assert_eq!(told.course.iter().map(|p| p.requests).sum::<u64>(), 100);
    assert_eq!(told.course.len(), 61);
}

#[test]
fn sessions_stay_together_when_drivers_share_a_log() {
    let folder = Folder::new("share");
    let mut text = "#Fields: date time cs-uri-stem cs-uri-query c-ip cs(Cookie)\n".to_string();
    for n in 0..1000 {
        text += &format!("2003-06-02 10:00:00 /tile.ashx X={n} 10.0.0.{} id={};+b=2\n", n % 40, n % 10);
    }
    let log = folder.log("a.log", text.as_bytes());
    for key in [SessionKey::Client, SessionKey::Cookie("id".into())] {
        let mut all = Vec::new();
        let mut sessions = Vec::new();
        for index in 0..4 {
            let share = FeedOptions { share: Some((index, 4)), session: key.clone(), ..options(vec![log.clone()]) };
            let (found, feed) = calls(&share);
            assert_eq!(feed.counts.lines, if index == 0 { 1001 } else { 0 });
            let mut mine: Vec<u64> = found.iter().map(|c| c.session).collect();
            mine.sort_unstable();
            mine.dedup();
            sessions.extend(mine);
            all.extend(numbers(&found));
        }
        assert_eq!(all.len(), 1000);
        let count = sessions.len();
        sessions.sort_unstable();
        sessions.dedup();
        assert_eq!((sessions.len(), count), if key == SessionKey::Client { (40, 40) } else { (10, 10) });
    }
}

#[test]
fn logs_that_cannot_be_used_say_why_in_one_line() {
    let folder = Folder::new("refused");
    let no_fields = folder.log("a.log", b"2003-06-02 10:00:00 /x\n");
    let no_path = folder.log("b.log", b"#Fields: date time c-ip\n2003-06-02 10:00:00 a\n");
    let json = folder.log("c.log", b"{\"when\":1,\"path\":\"/x\"}\n");
    let text = folder.log("d.log", b"hello\nworld\n");
    let empty = folder.log("e.log", b"");
    let torn = folder.log("f.gz", &[0x1F, 0x8B, 0x08, 0x00, 0x00]);
    let cases = [
        (no_fields, "#Fields"),
        (no_path, "cs-uri-stem"),
        (json, "--field time="),
        (text, "none of its first 2 lines"),
        (empty, "no requests"),
        (torn, "f.gz"),
        (folder.0.to_str().unwrap().to_string(), "directory"),
        ("/nonexistent.log".into(), "does not exist"),
    ];
    for (log, said) in cases {
        let error = probe(&options(vec![log])).unwrap_err();
        assert!(error.contains(said) && !error.contains('\n'), "{said}: {error}");
    }
    let cookie = FeedOptions { session: SessionKey::Cookie("id".into()), ..FeedOptions::default() };
    let combined = folder.log("g.log", b"h - - [02/Jun/2003:12:00:01 +0200] \"GET /x HTTP/1.0\" 200 1\n");
    let error = probe(&FeedOptions { logs: vec![combined], ..cookie }).unwrap_err();
    assert!(error.contains("--in-order client"), "{error}");
}

const LINES: [&str; 5] = [
    "#Fields: date time c-ip cs-method cs-uri-stem cs-uri-query cs(Cookie)",
    "2003-06-02 10:00:00 10.0.0.1 GET /tile.ashx X=1 a=1;+b=2",
    "h - - [10/Oct/2000:13:55:36 -0700] \"GET /tile.ashx?X=2 HTTP/1.0\" 200 2326 \"-\" \"a\"",
    "{\"time\":\"2000-10-10T20:55:36.5Z\",\"request\":{\"method\":\"GET\",\"uri\":\"/x?a=1\",\"headers\":{\"Cookie\":[\"a\"]}}}",
    "",
];

proptest! {
    /// Whatever stands in a log, in whatever format it is read: an entry, nothing, or bad with a reason.
    #[test]
    fn any_lines_are_taken(picks in prop::collection::vec((0..LINES.len(), any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..6)), 1..8)) {
        for format in [None, Some(Format::W3c), Some(Format::Combined), Some(Format::Json)] {
            let mut parser = Parser::new(format, &FieldNames::new());
            for (number, at, bytes) in &picks {
                let mut line = LINES[*number].as_bytes().to_vec();
                let at = at.index(line.len() + 1);
                let end = (at + bytes.len() / 2).min(line.len());
                line.splice(at..end, bytes.iter().copied());
                match parser.line(&line) {
                    Parsed::Entry(entry) => prop_assert!(!entry.path.is_empty() && !entry.method.is_empty()),
                    Parsed::Bad(why) => prop_assert!(!why.is_empty()),
                    Parsed::Nothing => {}
                }
            }
            if let Some(lack) = parser.lacks(true) {
                prop_assert!(!lack.contains('\n'));
            }
        }
    }
}
