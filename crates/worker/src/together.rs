//! One worker of several, each on a host of its own: all phases begin at one instant, and a worker to which nobody has
//! spoken for a while ends its load by itself.
//!
//! Words come by standard input, a line each: `go PHASE UNIX_NS`, `alive`, `clock`, `keep EVENT`, which adds an event to
//! the copy alone, `stop`, `abandon`, and after the end `forget`, which removes the copy of the events. What this says
//! stands beside the events as objects with a `word`.

use std::io::BufRead;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::conductor::{RunControl, Starter};

use crate::Out;

/// A worker to which nobody has spoken for so long stops its load: whoever started it is dead or cut off.
pub const SILENCE: Duration = Duration::from_secs(10);
/// One that waits for its start puts no load on anything, and is given longer.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// What was in flight when it stopped is waited for so long.
const DRAIN: Duration = Duration::from_secs(2);
/// How often a waiting worker looks whether it was stopped.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Pairs of readings of both clocks, of which the closest counts.
const READINGS: usize = 64;

/// A phase and the instant at which it begins, in ns of this host's real-time clock.
type Go = (usize, u64);

/// Where words for a run go.
pub struct Words {
    go: Sender<Go>,
    /// Whether it waits for its start.
    waits: Arc<AtomicBool>,
}

struct Together {
    go: Mutex<Receiver<Go>>,
    out: Arc<Out>,
    waits: Arc<AtomicBool>,
    /// Real time less the run's clock when the phase began; a clock that is set meanwhile changes it.
    apart_ns: AtomicU64,
}

/// The control of a run that begins with others, and where its words go.
pub fn control(out: Arc<Out>) -> (RunControl, Option<Words>) {
    let (send, go) = channel();
    let waits = Arc::new(AtomicBool::new(false));
    let starter = Together { go: Mutex::new(go), out, waits: waits.clone(), apart_ns: AtomicU64::new(0) };
    (RunControl::started_by(Box::new(starter)), Some(Words { go: send, waits }))
}

impl Starter for Together {
    fn start_ns(&self, phase: usize, now_ns: &dyn Fn() -> u64, stopped: &dyn Fn() -> bool) -> Option<u64> {
        self.waits.store(true, Ordering::Relaxed);
        self.out.line(&serde_json::json!({"word": "ready", "phase": phase}).to_string());
        let go = self.go.lock().unwrap_or_else(PoisonError::into_inner);
        while !stopped() {
            match go.recv_timeout(LOOK_EVERY) {
                Ok((of, unix_ns)) if of == phase => {
                    self.waits.store(false, Ordering::Relaxed);
                    let apart_ns = apart(now_ns);
                    self.apart_ns.store(apart_ns, Ordering::Relaxed);
                    return Some(unix_ns.saturating_sub(apart_ns));
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }

    fn began(&self, phase: usize, late_ns: u64, now_ns: &dyn Fn() -> u64) {
        let moved_ns = apart(now_ns).wrapping_sub(self.apart_ns.load(Ordering::Relaxed)) as i64;
        let word = serde_json::json!({"word": "began", "phase": phase, "late_ns": late_ns, "clock_moved_ns": moved_ns});
        self.out.line(&word.to_string());
    }
}

/// Real time less the run's clock.
fn apart(now_ns: &dyn Fn() -> u64) -> u64 {
    let one = || {
        let before_ns = now_ns();
        let unix_ns = unix_ns();
        let after_ns = now_ns();
        (after_ns - before_ns, unix_ns.wrapping_sub(before_ns + (after_ns - before_ns) / 2))
    };
    (0..READINGS).map(|_| one()).min().map_or(0, |(_, apart_ns)| apart_ns)
}

fn unix_ns() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Follows the words of standard input, and ends the load when they end.
///
/// What it gives back is heard of when the copy of the events may go.
pub fn listen(words: Words, control: Arc<RunControl>, out: Arc<Out>, over: Arc<AtomicBool>) -> Receiver<()> {
    let (forget, forgotten) = channel();
    let heard = Arc::new(Mutex::new(Instant::now()));
    let gone = Arc::new(AtomicBool::new(false));
    let Words { go, waits } = words;
    let (theirs, their_out) = (control.clone(), out.clone());
    let watch = Watch { heard: heard.clone(), gone: gone.clone(), waits, control: theirs, out: their_out, over };
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            *heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            if line == "forget" {
                // Nobody waits for it any more where the process ends.
                let _ = forget.send(());
            }
            follow(&line, &go, &control, &out);
        }
        gone.store(true, Ordering::Relaxed);
    });
    std::thread::spawn(move || watch.run());
    forgotten
}

fn follow(line: &str, go: &Sender<Go>, control: &RunControl, out: &Out) {
    if let Some(event) = line.strip_prefix("keep ") {
        out.keep(event);
        return;
    }
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    match words[..] {
        ["go", phase, unix_ns] => {
            if let (Ok(phase), Ok(unix_ns)) = (phase.parse(), unix_ns.parse()) {
                // The run has ended where nobody takes it.
                let _ = go.send((phase, unix_ns));
            }
        }
        ["clock"] => {
            out.line(&clock().to_string());
        }
        ["stop"] => control.stop(),
        ["abandon"] => control.abandon(),
        _ => {}
    }
}

/// What the kernel says of its real-time clock: adjtimex(2) gives the greatest error in µs, whether it is synchronized.
fn clock() -> serde_json::Value {
    // SAFETY: all fields are numbers, and nothing is set where `modes` is 0.
    let (state, timex) = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&mut timex), timex)
    };
    serde_json::json!({
        "word": "clock",
        "unix_ns": unix_ns(),
        "synchronized": state >= 0 && state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0,
        "max_error_ns": (state >= 0).then(|| timex.maxerror.saturating_mul(1000)),
    })
}

struct Watch {
    heard: Arc<Mutex<Instant>>,
    /// Standard input has ended.
    gone: Arc<AtomicBool>,
    waits: Arc<AtomicBool>,
    control: Arc<RunControl>,
    out: Arc<Out>,
    over: Arc<AtomicBool>,
}

impl Watch {
    fn run(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let silent = self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
            let limit = if self.waits.load(Ordering::Relaxed) { PATIENCE } else { SILENCE };
            if silent > limit || self.gone.load(Ordering::Relaxed) {
                let silent_ns = silent.as_nanos() as u64;
                self.control.stop();
                self.out.line(&serde_json::json!({"word": "head_lost", "silent_ns": silent_ns}).to_string());
                std::thread::sleep(DRAIN);
                self.control.abandon();
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
