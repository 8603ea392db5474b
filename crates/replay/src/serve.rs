//! Duty: a driver as a process of its own: orders come in as lines, events go out as lines.
//! Refusal: nothing but events is ever written, and a password never.

use std::io::{BufRead, Write};
use std::sync::Arc;

use serde::Serialize;

use crate::drive::{Control, Driver};
use crate::event::Event;
use crate::postgres::ServerFacts;
use crate::spec::Spec;

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Word<'w> {
    Ready { pages: &'w [String], bricks: Vec<Brick>, first_ns: Option<i64> },
    Refused { bad_input: bool, message: &'w str },
}

#[derive(Serialize)]
struct Brick {
    facts: Option<ServerFacts>,
    failure: Option<String>,
}

/// Reads a spec, gets ready, waits for `go NS` on the monotonic clock, and drives. `stop` and `abandon` end it, and so
/// does the end of the orders: a driver never outlives who sent it.
pub fn serve(orders: impl BufRead + Send + 'static, mut out: impl Write) -> i32 {
    let mut orders = orders;
    let mut line = String::new();
    if orders.read_line(&mut line).unwrap_or(0) == 0 {
        return 1;
    }
    let spec = Spec::from_json(&line).map_err(|message| crate::drive::Refusal { bad_input: true, message });
    let driver = match spec.and_then(Driver::prepare) {
        Ok(driver) => driver,
        Err(refusal) => {
            say(&mut out, &Word::Refused { bad_input: refusal.bad_input, message: &refusal.message });
            return 2;
        }
    };
    say(&mut out, &driver.ready());
    let control = Arc::new(Control::default());
    line.clear();
    let _ = orders.read_line(&mut line);
    let Some(Ok(start_ns)) = line.trim().strip_prefix("go ").map(str::parse) else { return 1 };
    let theirs = control.clone();
    let listening = std::thread::Builder::new().name("brickyard-orders".into());
    let _ = listening.spawn(move || {
        for line in orders.lines() {
            match line.as_deref().map(str::trim) {
                Ok("stop") => theirs.stop(),
                Ok(_) | Err(_) => theirs.abandon(),
            }
        }
        theirs.abandon();
    });
    driver.run(start_ns, &control, &mut |event: Event| {
        let text = event.to_json();
        // Whoever reads has gone: there is nobody to measure for.
        if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            control.abandon();
        }
    });
    0
}

fn say(out: &mut impl Write, word: &Word) {
    let text = serde_json::to_string(word).expect("a word holds nothing that JSON cannot carry");
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

impl Driver {
    fn ready(&self) -> Word<'_> {
        let brick = |facts: &Result<ServerFacts, crate::database::Failure>| Brick {
            facts: facts.as_ref().ok().cloned(),
            failure: facts.as_ref().err().map(|f| format!("{} ({})", f.text, f.sqlstate)),
        };
        Word::Ready { pages: self.pages(), bricks: self.facts.iter().map(brick).collect(), first_ns: self.first_ns }
    }
}
