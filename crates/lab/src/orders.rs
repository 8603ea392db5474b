//! Duty: what `brickyard-lab` is told on its standard input, as types. Refusal: nothing is opened here.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sim::brick::Texts;

use crate::draw::{Aim, Cache, Parameters, Story};

/// `honest`, `off`, `lying`, `lying:RECORDS` or `lossy:1/N`, as users write it.
pub fn parse_cache(text: &str) -> Result<Cache, String> {
    let refuse = || format!("`{text}` is not a cache; use honest, off, lying, lying:50 or lossy:1/50");
    let number = |word: &str| word.parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(refuse);
    match text.split_once(':') {
        None if text == "honest" => Ok(Cache::Honest),
        None if text == "off" => Ok(Cache::Off),
        None if text == "lying" => Ok(Cache::Lying { back: LYING_BACK }),
        Some(("lying", back)) => Ok(Cache::Lying { back: number(back)? }),
        Some(("lossy", share)) => Ok(Cache::Lossy { n: number(share.strip_prefix("1/").ok_or_else(refuse)?)? }),
        _ => Err(refuse()),
    }
}

/// Records that a lying cache has not yet written when the power fails, unless another number is given.
const LYING_BACK: u64 = 50;

/// Orders for an emulated disk.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// Where it is mounted.
    pub mount: PathBuf,
    pub size_bytes: Option<u64>,
    /// The file that holds its content.
    pub medium: PathBuf,
    pub cache: String,
    /// What the volatile cache holds.
    pub cache_bytes: u64,
    /// A folder for the log.
    pub log: Option<PathBuf>,
    pub socket: Option<PathBuf>,
    /// `NAME` or `NAME,key=value,…`; without one, requests end at once.
    pub model: Option<String>,
    #[serde(default)]
    pub bricks: Texts,
    pub speed: f64,
    /// It ends when its standard input does; else at a `stop` on its socket.
    pub lives_with_input: bool,
}

/// Orders for crash states of a log.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct States {
    pub log: PathBuf,
    pub story: Story,
    pub cache: String,
    /// `mixed`, `acknowledgements` or `marks`.
    pub aim: String,
    pub torn_bytes: u64,
}

impl States {
    pub fn parameters(&self) -> Result<Parameters, String> {
        let aim = match self.aim.as_str() {
            "mixed" => Aim::Mixed,
            "acknowledgements" => Aim::Acknowledgements,
            "marks" => Aim::Marks,
            other => return Err(format!("`{other}` is no aim of cuts; use mixed, acknowledgements or marks")),
        };
        if !matches!(self.torn_bytes, 0 | 512 | 4096) {
            return Err(format!("torn at {} bytes: use 512 or 4096, or 0 for whole writes", self.torn_bytes));
        }
        Ok(Parameters { cache: parse_cache(&self.cache)?, aim, torn_bytes: self.torn_bytes })
    }
}

/// Orders for a list of states: `count` of them drawn from `seed`, or those of these seeds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub states: States,
    pub count: u64,
    pub seed: u64,
    pub only: Vec<String>,
}

/// Orders for what a log holds in `parts` stretches, and what lies around the cuts of some states.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Describe {
    pub states: States,
    pub parts: u64,
    pub only: Vec<String>,
    /// Records that are told ahead of the first volatile one.
    pub before: u64,
}

/// Orders for a disk that becomes one state after the other.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Show {
    pub states: States,
    pub mount: PathBuf,
}

/// A state as it is told.
#[derive(Debug, Serialize)]
pub struct Told {
    pub seed: String,
    pub cut: u64,
    pub durable: u64,
    pub volatile_writes: u64,
    pub kept_writes: u64,
    pub promised: u64,
    /// States with the same image and as many promises are one.
    pub image: String,
}

/// The log that a list of states is from.
#[derive(Debug, Serialize)]
pub struct ToldLog {
    pub records: u64,
    pub writes: u64,
    pub flushes: u64,
    pub hash: String,
    pub torn_bytes: u64,
}

pub fn seed_text(seed: u64) -> String {
    format!("{seed:016x}")
}

/// A line that asks for a state: its seed, and behind it the volatile writes that it has besides.
pub fn parse_wish(text: &str) -> Result<(u64, Vec<usize>), String> {
    let mut words = text.split_whitespace();
    let seed = parse_seed(words.next().unwrap_or_default())?;
    let more = words.map(|word| word.parse().map_err(|_| format!("`{word}` is not the number of a record")));
    Ok((seed, more.collect::<Result<_, String>>()?))
}

pub fn parse_seed(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|_| format!("`{text}` is not the seed of a state; copy the 16 digits of one"))
}
