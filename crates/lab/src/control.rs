//! Duty: a socket on which a disk takes orders, a line each, and answers with a line of JSON when they have taken effect.
//!
//! Refusal: an order that is not known changes nothing.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::breaking::Order;
use crate::serve::Emulated;

const LONGEST_LINE: u64 = 1000;
/// Whoever connects and says nothing keeps others waiting no longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes orders until one is `stop`.
pub fn listen(place: &Path, disk: &Arc<Emulated>) -> io::Result<()> {
    let listener = UnixListener::bind(place)?;
    for stream in listener.incoming() {
        // A connection that broke concerns nobody else.
        if stream.and_then(|stream| talk(stream, disk)).unwrap_or(false) {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether the disk is to stop.
fn talk(mut stream: UnixStream, disk: &Arc<Emulated>) -> io::Result<bool> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        if lines.by_ref().take(LONGEST_LINE).read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let order = Order::parse(line.trim());
        let stops = order == Ok(Order::Stop);
        let answer = match order.and_then(|order| disk.obey(order)) {
            Ok(None) => json!({"ok": true}),
            Ok(Some(status)) => json!({"ok": true, "status": serde_json::to_value(status).unwrap_or(Value::Null)}),
            Err(why) => json!({"ok": false, "error": why}),
        };
        stream.write_all(format!("{answer}\n").as_bytes())?;
        if stops {
            return Ok(true);
        }
    }
}
