//! Duty: what is wrong with what a user gave: one line, and what it changes in their command where that is known.
//!
//! Refusal: it knows no command; whoever shows the command whole changes its words.

use crate::reading::one_line;
use crate::validate::SECTOR_BYTES;

/// What is written in the command instead of `given`: a word, or a part of one. Without `given` it is added at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub given: Vec<String>,
    pub meant: Vec<String>,
}

impl Edit {
    pub fn instead(given: &str, meant: &str) -> Edit {
        Edit { given: vec![given.into()], meant: vec![meant.into()] }
    }

    pub fn added(words: &[&str]) -> Edit {
        Edit { given: Vec::new(), meant: words.iter().map(|word| word.to_string()).collect() }
    }
}

/// One line that names the cause and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub message: String,
    pub edit: Option<Edit>,
}

impl Mistake {
    pub fn new(message: impl Into<String>, edit: Option<Edit>) -> Mistake {
        Mistake { message: message.into(), edit }
    }

    /// With the place of it in front.
    pub fn at(self, place: &str) -> Mistake {
        Mistake { message: format!("{place}: {}", self.message), ..self }
    }

    /// A remedy that ends what was said.
    pub fn after(self, said: &str) -> Mistake {
        Mistake { message: format!("{said}; {}", self.message), ..self }
    }

    /// What is quoted of the user's text may hold line breaks.
    pub(crate) fn in_one_line(self) -> Mistake {
        Mistake { message: one_line(&self.message), ..self }
    }
}

impl From<String> for Mistake {
    fn from(message: String) -> Mistake {
        Mistake::new(message, None)
    }
}

impl From<&str> for Mistake {
    fn from(message: &str) -> Mistake {
        Mistake::new(message, None)
    }
}

impl From<Mistake> for String {
    fn from(mistake: Mistake) -> String {
        mistake.message
    }
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mistake {}

/// The request sizes next to one that is not possible: `2048B or 2560B`.
pub fn near_sizes(size_bytes: u64, block_bytes: u64) -> String {
    let below = size_bytes / block_bytes * block_bytes;
    let sizes = [below, below + block_bytes].into_iter().filter(|size| *size > 0);
    sizes.map(|size| format!("{size}B")).collect::<Vec<_>>().join(" or ")
}

/// What to do instead of requests that are not whole sectors; empty where they are.
pub fn sector_advice(size_bytes: u64) -> String {
    if size_bytes > 0 && size_bytes.is_multiple_of(SECTOR_BYTES) {
        return String::new();
    }
    format!(
        "requests here are whole sectors of {SECTOR_BYTES} bytes, with direct and with buffered I/O; write {}, or measure \
         {size_bytes} bytes with fio (--output-format=json+) and read its result with `brickyard import`",
        near_sizes(size_bytes, SECTOR_BYTES)
    )
}
