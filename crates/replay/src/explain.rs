//! Duty: what logs would do, without doing it. Refusal: it connects to nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::counts::Document;
use crate::feed::{Feed, FeedOptions};
use crate::look::{Look, look};
use crate::mapping::Mapping;

/// Reads all logs to their end, or until `stop`. `sort` says whether calls are sorted, after a first look.
pub fn explain(
    mapping: &str,
    bricks: usize,
    options: FeedOptions,
    sort: &dyn Fn(&Look) -> bool,
    stop: &AtomicBool,
) -> Result<(Document, Look), String> {
    let mapping = Arc::new(Mapping::from_toml(mapping, bricks).map_err(|e| format!("mapping: {e}"))?);
    let found = look(&options, stop)?;
    let options = FeedOptions { sort: sort(&found), left_out: found.left_out.clone(), ..options };
    let mut feed = Feed::open(mapping.clone(), options, true)?;
    feed.sort(&|| stop.load(Ordering::Relaxed))?;
    let mut calls = Vec::new();
    while feed.next(&mut calls) && !stop.load(Ordering::Relaxed) {
        calls.clear();
    }
    match feed.trouble.take() {
        Some(trouble) => Err(trouble),
        None => Ok((feed.counts.document(&mapping), found)),
    }
}
