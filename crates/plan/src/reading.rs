//! Duty: what the TOML reader finds wrong, in the user's words: the key, what was given, what is needed, the line.
//!
//! Refusal: it reads nothing and allows nothing; what a value may be is for its type to say.

use crate::mistake::Edit;

/// As many keys or values fit into a line that is still read.
const LISTED: usize = 12;

/// The words of a fault about a key that its type does not have, where nothing better can be said.
pub const NO_SUCH_KEY: &str = "no such key";

/// One thing that the reader refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fault {
    /// The key that it speaks of; empty where the reader names none.
    pub key: String,
    /// The value as it was written; empty where the words name it.
    pub given: String,
    pub words: String,
    /// The key that was perhaps meant.
    pub edit: Option<Edit>,
}

impl Fault {
    /// `text` is what was read: the key stands in it before the place that the reader names.
    pub fn of(text: &str, error: &toml::de::Error) -> Fault {
        let message = one_line(error.message());
        let mut fault = fault_of(&message);
        let Some(span) = error.span() else { return fault };
        if message == "duplicate key" {
            let key = text.get(span).unwrap_or_default();
            fault.words = format!("duplicate key `{key}`; leave one of them out");
            return fault;
        }
        let before = text.get(..span.start).and_then(|t| t.lines().last()).unwrap_or_default();
        let key = before.trim_end().strip_suffix('=').map(str::trim_end).unwrap_or_default();
        let key = key.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default();
        if fault.key.is_empty() && !message.contains(&format!("`{key}`")) {
            fault.key = key.to_string();
        }
        fault
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        if !self.given.is_empty() {
            write!(f, "{} was given; ", self.given)?;
        }
        f.write_str(&self.words)
    }
}

/// `line 8: depth: -1 was given; a whole number from 0 is needed`.
pub fn reader_words(text: &str, error: &toml::de::Error) -> String {
    let fault = Fault::of(text, error);
    match error.span() {
        Some(span) => format!("line {}: {fault}", line_of(text, span.start)),
        None => fault.to_string(),
    }
}

/// The line of a byte of a text, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

pub(crate) fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn fault_of(message: &str) -> Fault {
    let fault =
        |key: &str, given: &str, words: String| Fault { key: key.into(), given: given.into(), words, edit: None };
    let wrong = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((given, expected)) = wrong.and_then(|rest| rest.rsplit_once(", expected ")) {
        return fault("", given_words(given), format!("{} is needed", needed_words(given, expected)));
    }
    let named = |kind: &str| {
        let (name, rest) = message.strip_prefix(kind)?.strip_prefix(" `")?.split_once('`')?;
        let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
        Some((name, known))
    };
    if let Some((key, known)) = named("unknown field") {
        let words = match key_of_fio(key) {
            Some(ours) => format!("fio's `{key}` is `{ours}` here"),
            None => hint(key, &known),
        };
        let edit = near(key, &known).map(|one| Edit::instead(key, one));
        return Fault { edit, ..fault(key, "", format!("{NO_SUCH_KEY}{}", after(&words))) };
    }
    if let Some((given, known)) = named("unknown variant") {
        let words = match (near(given, &known), known.len() <= LISTED) {
            (_, true) => format!("{} is needed", any_of(&known)),
            (Some(one), false) => format!("did you mean `{one}`?"),
            (None, false) => "that is none of the words there are".to_string(),
        };
        return fault("", &format!("`{given}`"), words);
    }
    if let Some((key, _)) = named("missing field") {
        return fault("", "", format!("`{key}` is missing"));
    }
    fault("", "", message.to_string())
}

/// serde puts the kind of a value in front of it.
fn given_words(given: &str) -> &str {
    match given {
        "map" => return "a table",
        "sequence" => return "a list",
        _ => {}
    }
    let value = ["string ", "integer ", "floating point ", "boolean "].iter().find_map(|kind| given.strip_prefix(kind));
    value.unwrap_or(given).trim_matches('`')
}

fn needed_words(given: &str, expected: &str) -> String {
    let is_positive = given.strip_prefix("integer `").is_some_and(|number| !number.starts_with('-'));
    let whole = |largest: u64| match is_positive {
        true => format!("a whole number up to {largest}"),
        false => "a whole number from 0".to_string(),
    };
    match expected {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" => whole(u64::MAX),
        "i64" | "i32" => "a whole number".into(),
        "f64" | "f32" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" => "a text".into(),
        "a sequence" => "a list".into(),
        _ if expected == "a map" || expected.starts_with("struct ") => "a table such as { key = value }".into(),
        _ => expected.into(),
    }
}

fn after(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("; {hint}") }
}

fn any_of(known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|k| format!("`{k}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "nothing".into(),
    }
}

fn there_are(known: &[&str]) -> String {
    format!("there {} {}", if known.len() == 1 { "is" } else { "are" }, any_of(known).replace(" or ", " and "))
}

/// Keys of fio, and what says the same here.
const KEYS_OF_FIO: [(&str, &str); 36] = [
    ("blockalign", "align"),
    ("blocksize", "request"),
    ("bs", "request"),
    ("bsrange", "request"),
    ("bssplit", "request"),
    ("buffer_compress_percentage", "data.compressible"),
    ("buffered", "io"),
    ("dedupe_percentage", "data.duplicate"),
    ("direct", "io"),
    ("fdatasync", "flush_every"),
    ("fsync", "flush_every"),
    ("invalidate", "cache"),
    ("io_size", "bytes"),
    ("iodepth", "depth"),
    ("ioengine", "engine"),
    ("iodepth_batch", "submit"),
    ("iodepth_batch_complete", "reap"),
    ("iodepth_batch_submit", "submit"),
    ("latency_target", "stop"),
    ("loops", "passes"),
    ("number_ios", "requests"),
    ("numjobs", "workers"),
    ("offset", "region"),
    ("ramp_time", "warmup"),
    ("random_distribution", "address"),
    ("randseed", "seed"),
    ("rate_iops", "pace.rate"),
    ("rate_process", "pace.arrivals"),
    ("readwrite", "operations"),
    ("runtime", "duration"),
    ("rw", "operations"),
    ("rwmixread", "operations.read"),
    ("rwmixwrite", "operations.write"),
    ("size", "region"),
    ("steadystate", "steady"),
    ("thinktime", "think"),
];

/// The key that says here what a key of fio says there.
pub fn key_of_fio(word: &str) -> Option<&'static str> {
    KEYS_OF_FIO.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours)
}

/// What was perhaps meant, or all that there is where that is little; empty where neither helps.
pub fn hint(word: &str, known: &[&str]) -> String {
    match near(word, known) {
        Some(one) => format!("did you mean `{one}`?"),
        None if (1..=LISTED).contains(&known.len()) => there_are(known),
        None => String::new(),
    }
}

/// The word that was perhaps meant: one that differs in no more than two letters, or begins like this.
pub fn near<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let by_letters = known.iter().copied().min_by_key(|k| distance(k, word));
    let by_letters = by_letters.filter(|k| distance(k, word) <= 2.min(word.len() / 2));
    // From three letters on a beginning says more than chance.
    let begun = || known.iter().copied().filter(|k| word.len() > 2 && k.starts_with(word)).min_by_key(|k| k.len());
    by_letters.or_else(begun)
}

/// Letters to put in, leave out, replace, or swap with their neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            let swapped = if is_swap { before[j - 2] + 1 } else { usize::MAX };
            row.push(replaced.min(last[j] + 1).min(row[j - 1] + 1).min(swapped));
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
