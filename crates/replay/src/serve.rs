//! Duty: a driver as a process of its own: orders come in as lines, events go out as lines. One on another host ends its
//! load by itself where nobody speaks to it any more.
//! Refusal: nothing but events is ever written, and a password never.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::drive::{Control, Driver, RUN};
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

/// For how long nobody may have spoken to a driver on another host.
#[derive(Debug, Clone, Copy)]
pub struct Silence {
    /// While it drives; then it ends its load.
    pub driving: Duration,
    /// While it waits for its start, and puts no load on anything.
    pub waiting: Duration,
}

/// How often silence is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Calls that are in flight when silence ended the load are waited for so long.
const DRAIN: Duration = Duration::from_secs(2);

/// Reads a spec, gets ready, waits for `go NS` on the monotonic clock, and drives. `stop` and `abandon` end it, and so
/// does the end of the orders: a driver never outlives who sent it. `alive` says only that somebody is there, which is
/// asked of a driver on another host, whose orders do not end when a link is cut.
pub fn serve(orders: impl BufRead + Send + 'static, mut out: impl Write, silence: Option<Silence>) -> i32 {
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
    let (send, go) = channel();
    let ear = Ear { heard: Arc::new(Mutex::new(Instant::now())), over: Arc::new(AtomicBool::new(false)) };
    let (theirs, their_ear) = (control.clone(), ear.clone());
    let listening = std::thread::Builder::new().name("brickyard-orders".into());
    let _ = listening.spawn(move || listen(orders, &their_ear, &theirs, &send));
    let Some(start_ns) = started(&go, &control, &ear, silence.map(|s| s.waiting)) else { return 1 };
    if let Some(Silence { driving, .. }) = silence {
        let (theirs, their_ear) = (control.clone(), ear.clone());
        let watching = std::thread::Builder::new().name("brickyard-silence".into());
        let _ = watching.spawn(move || their_ear.end_after(driving, &theirs));
    }
    driver.run(start_ns, &control, &mut |event: Event| {
        let text = event.to_json();
        // Whoever reads has gone: there is nobody to measure for.
        if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            control.abandon();
        }
    });
    ear.over.store(true, Ordering::Relaxed);
    0
}

/// When somebody last spoke.
#[derive(Clone)]
struct Ear {
    heard: Arc<Mutex<Instant>>,
    over: Arc<AtomicBool>,
}

impl Ear {
    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn silent(&self) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn end_after(&self, limit: Duration, control: &Control) {
        while self.silent() <= limit {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        control.stop();
        std::thread::sleep(DRAIN);
        control.abandon();
    }
}

/// Follows the orders to their end.
fn listen(orders: impl BufRead, ear: &Ear, control: &Control, go: &Sender<u64>) {
    for line in orders.lines() {
        ear.hear();
        match line.as_deref().map(str::trim) {
            Ok("alive") => {}
            Ok("stop") => control.stop(),
            Ok(word) => match word.strip_prefix("go ").map(str::parse) {
                // Nobody takes it where the driver runs already.
                Some(Ok(start_ns)) => _ = go.send(start_ns),
                _ => control.abandon(),
            },
            Err(_) => control.abandon(),
        }
    }
    control.abandon();
}

/// The instant of the start; none where it was called off, or nobody has spoken for too long.
fn started(go: &Receiver<u64>, control: &Control, ear: &Ear, patience: Option<Duration>) -> Option<u64> {
    loop {
        match go.recv_timeout(LOOK_EVERY) {
            Ok(start_ns) => return Some(start_ns),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                if control.state() != RUN || patience.is_some_and(|limit| ear.silent() > limit) {
                    return None;
                }
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn ear() -> Ear {
        Ear { heard: Arc::new(Mutex::new(Instant::now())), over: Arc::new(AtomicBool::new(false)) }
    }

    #[test]
    fn words_that_say_that_somebody_lives_start_and_end_nothing() {
        let (control, (send, go)) = (Control::default(), channel());
        let orders = BufReader::new(&b"alive\nalive\ngo 17\nalive\nstop\n"[..]);
        listen(orders, &ear(), &control, &send);
        assert_eq!(started(&go, &Control::default(), &ear(), None), Some(17));
        assert_eq!(control.state(), crate::drive::ABANDON, "orders that end call off the load");
    }

    #[test]
    fn a_driver_that_nobody_speaks_to_never_starts_or_ends() {
        let (control, (_send, go)) = (Control::default(), channel());
        assert_eq!(started(&go, &control, &ear(), Some(Duration::from_millis(120))), None);
        ear().end_after(Duration::from_millis(120), &control);
        assert_eq!(control.state(), crate::drive::ABANDON);
    }

    #[test]
    fn what_is_called_off_before_its_start_does_not_start() {
        let (control, (_send, go)) = (Control::default(), channel());
        control.stop();
        assert_eq!(started(&go, &control, &ear(), None), None);
    }
}
