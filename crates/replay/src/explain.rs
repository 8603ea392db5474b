//! Duty: what logs would do, without doing it. Refusal: it connects to nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::counts::Document;
use crate::feed::{Feed, FeedOptions, probe};
use crate::mapping::Mapping;

/// Reads all logs to their end, or until `stop`.
pub fn explain(mapping: &str, bricks: usize, options: FeedOptions, stop: &AtomicBool) -> Result<Document, String> {
    let mapping = Arc::new(Mapping::from_toml(mapping, bricks).map_err(|e| format!("mapping: {e}"))?);
    probe(&options)?;
    let mut feed = Feed::open(mapping.clone(), options, true)?;
    let mut calls = Vec::new();
    while feed.next(&mut calls) && !stop.load(Ordering::Relaxed) {
        calls.clear();
    }
    Ok(feed.counts.document(&mapping))
}
