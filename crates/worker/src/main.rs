//! Duty: a run without Python, for guests, containers and far hosts: a plan in as JSON or TOML, events out as JSON
//! lines. Statically linked where it is built with `-C target-feature=+crt-static`.
//!
//! Refusal: it keeps no store, draws nothing and explains nothing.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use block::session::{Options, prepare};
use engine::conductor::RunControl;
use engine::event::{Event, RunOutcome};
use plan::Profile;

const USAGE: &str = "usage: brickyard-worker PLAN TARGET... [--set KEY=VALUE]... [--size BYTES] [--overwrite TARGET]... \
                     [--i-know-this-destroys-data] [--nop]\n       PLAN is a file of JSON or TOML, or - for standard input";

/// Exit codes of every Brickyard program.
const FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;
const INTERRUPTED: u8 = 130;

struct Arguments {
    plan: String,
    targets: Vec<String>,
    overrides: Vec<String>,
    options: Options,
    nop: bool,
}

fn main() -> ExitCode {
    let outcome = parse(std::env::args().skip(1)).and_then(|arguments| {
        let profile = read_plan(&arguments)?;
        let session = prepare(profile, &arguments.targets, &arguments.options)
            .map_err(|e| (if e.bad_input { BAD_INPUT } else { FAILED }, e.message))?;
        Ok(if arguments.nop { session.nop() } else { session })
    });
    match outcome {
        Ok(session) => run(session),
        Err((code, message)) => {
            eprintln!("brickyard-worker: {message}");
            ExitCode::from(code)
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, (u8, String)> {
    let bad = |message: String| (BAD_INPUT, message);
    let mut given = Vec::new();
    let mut arguments = Arguments {
        plan: String::new(),
        targets: Vec::new(),
        overrides: Vec::new(),
        options: Options::default(),
        nop: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| bad(format!("{word} needs a value\n{USAGE}")));
        match word.as_str() {
            "--set" => arguments.overrides.push(value()?),
            "--size" => arguments.options.create_bytes = Some(plan::parse_bytes(&value()?).map_err(bad)?),
            "--overwrite" => arguments.options.overwrite.push(value()?.into()),
            "--i-know-this-destroys-data" => arguments.options.destroys_data = true,
            "--nop" => arguments.nop = true,
            "--help" => return Err((0, USAGE.into())),
            _ if word.starts_with("--") => return Err(bad(format!("unknown option {word}\n{USAGE}"))),
            _ => given.push(word),
        }
    }
    let mut given = given.into_iter();
    arguments.plan = given.next().ok_or_else(|| bad(USAGE.into()))?;
    arguments.targets = given.collect();
    Ok(arguments)
}

fn read_plan(arguments: &Arguments) -> Result<Profile, (u8, String)> {
    let mut text = String::new();
    let read = match arguments.plan.as_str() {
        "-" => std::io::stdin().read_to_string(&mut text).map(|_| ()),
        path => std::fs::read_to_string(path).map(|t| text = t),
    };
    read.map_err(|e| (BAD_INPUT, format!("{}: {e}", arguments.plan)))?;
    let profile = match text.trim_start().starts_with('{') {
        true => Profile::from_json(&text),
        false => Profile::from_toml_with(&text, &arguments.overrides),
    };
    profile.map_err(|e| (BAD_INPUT, format!("{}: {e}", arguments.plan)))
}

fn run(session: block::session::Session) -> ExitCode {
    let control = Arc::new(RunControl::default());
    let over = Arc::new(AtomicBool::new(false));
    if let Err(error) = watch_signals(control.clone(), over.clone()) {
        eprintln!("brickyard-worker: signals cannot be watched: {error}");
        return ExitCode::from(FAILED);
    }
    let mut out = std::io::stdout();
    let mut code = FAILED;
    session.run(&control, &mut |event| {
        if let Event::End { outcome, .. } = &event {
            code = match outcome {
                RunOutcome::Done => 0,
                RunOutcome::Interrupted => INTERRUPTED,
                RunOutcome::Failed => FAILED,
            };
        }
        // Whoever read the events is gone: nobody wants the rest of the run.
        if writeln!(out, "{}", event.to_json()).and_then(|()| out.flush()).is_err() {
            control.stop();
        }
    });
    over.store(true, Ordering::Relaxed);
    ExitCode::from(code)
}

/// The first signal drains the run, the second abandons it.
fn watch_signals(control: Arc<RunControl>, over: Arc<AtomicBool>) -> std::io::Result<()> {
    let seen = Arc::new(AtomicUsize::new(0));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let seen = seen.clone();
        // SAFETY: the handler touches an atomic only.
        unsafe {
            signal_hook::low_level::register(signal, move || {
                seen.fetch_add(1, Ordering::Relaxed);
            })
        }?;
    }
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            match seen.load(Ordering::Relaxed) {
                0 => {}
                1 => control.stop(),
                _ => control.abandon(),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    Ok(())
}
