//! Duty: a run without Python, for guests, containers and far hosts: a plan in as JSON or TOML, events out as JSON
//! lines. Linked statically (`.cargo/static`).
//!
//! One of several hosts, it waits for a common start, and stops by itself when nobody speaks to it any more (`together`).
//! So does a driver of a replay, which takes its orders from standard input.
//!
//! Refusal: it keeps no store, draws nothing and explains nothing.

mod kept;
mod sweep;
mod together;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use engine::conductor::RunControl;
use engine::event::{Event, RunOutcome};
use plan::Profile;
use run::{Options, Session};

use crate::kept::{Kept, Out, new_record};

const USAGE: &str = "usage: brickyard-worker PLAN TARGET... [--set KEY=VALUE]... [--size BYTES] [--overwrite TARGET]... \
                     [--i-know-this-destroys-data] [--nop] [--bricks DIR] [--together] [--shared] [--record FILE]\n       PLAN is a file of JSON or TOML, or - for standard input;\n       \
                     TARGET is a path, or sim:NAME for a brick that --bricks DIR describes; of a program, a directory\n       \
                     brickyard-worker --sweep: simulations, by tasks on standard input\n       \
                     brickyard-worker --replay: a driver of web logs, by its orders on standard input\n       \
                     --together: phases begin when standard input says so; --record FILE: a copy of the events;\n       \
                     --shared: other workers of the same run write the same files";

/// Exit codes of every Brickyard program.
const FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;
const INTERRUPTED: u8 = 130;

struct Arguments {
    plan: String,
    targets: Vec<String>,
    overrides: Vec<String>,
    options: Options,
    /// Directory of `drives`, `controllers` and `arrays` for modelled bricks.
    bricks: Option<PathBuf>,
    /// Phases begin when standard input says so, and the run ends when it falls silent.
    together: bool,
    /// A copy of the events.
    record: Option<PathBuf>,
    /// A file whose text is the first line of that copy.
    order: Option<PathBuf>,
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("--sweep") => return sweep::sweep(),
        Some("--replay") => return drive_replay(),
        _ => {}
    }
    let outcome = parse(std::env::args().skip(1)).and_then(|mut arguments| {
        let profile = read_plan(&arguments)?;
        let spreads = profile.each && arguments.targets.len() > 1;
        let profile = if spreads { profile.spread(&arguments.targets) } else { Ok(profile) };
        let profile = profile.map_err(|e| (BAD_INPUT, e.to_string()))?;
        let record = arguments.record.take().map(|path| new_record(path, arguments.order.as_deref())).transpose();
        let record = record.map_err(|message| (BAD_INPUT, message))?;
        Ok((prepare(profile, &mut arguments)?, arguments.together, record))
    });
    match outcome {
        Ok((session, is_together, record)) => carry_out(session, is_together, record),
        Err((code, message)) => {
            eprintln!("brickyard-worker: {message}");
            ExitCode::from(code)
        }
    }
}

/// A driver of a replay; it ends by itself as any worker of several hosts does.
fn drive_replay() -> ExitCode {
    let silence = replay::serve::Silence { driving: together::SILENCE, waiting: together::PATIENCE };
    let orders = std::io::BufReader::new(std::io::stdin());
    let code = replay::serve::serve(orders, std::io::stdout(), Some(silence));
    ExitCode::from(u8::try_from(code).unwrap_or(FAILED))
}

fn prepare(profile: Profile, arguments: &mut Arguments) -> Result<Session, (u8, String)> {
    if let Some(place) = &arguments.bricks {
        arguments.options.model.bricks = brick_texts(place)?;
    } else if arguments.targets.iter().any(|t| run::is_modelled(t)) {
        return Err((BAD_INPUT, "modelled bricks need --bricks DIR".into()));
    }
    run::prepare(profile, &arguments.targets, &arguments.options)
        .map_err(|refusal| (if refusal.bad_input { BAD_INPUT } else { FAILED }, refusal.message))
}

/// Of a directory, or of a file that has the texts of one as JSON, by `KIND/NAME`.
fn brick_texts(place: &Path) -> Result<sim::brick::Texts, (u8, String)> {
    let refuse =
        |path: &Path, e: std::io::Error| (BAD_INPUT, format!("{}: bricks cannot be read: {e}", path.display()));
    if !place.is_dir() {
        let text = std::fs::read_to_string(place).map_err(|e| refuse(place, e))?;
        return serde_json::from_str(&text).map_err(|e| refuse(place, e.into()));
    }
    let mut texts = sim::brick::Texts::new();
    for kind in ["drives", "controllers", "arrays"] {
        let folder = place.join(kind);
        for entry in std::fs::read_dir(&folder).map_err(|e| refuse(&folder, e))? {
            let path = entry.map_err(|e| refuse(&folder, e))?.path();
            if let (Some(name), true) = (path.file_stem(), path.extension().is_some_and(|e| e == "toml")) {
                let text = std::fs::read_to_string(&path).map_err(|e| refuse(&path, e))?;
                texts.insert(format!("{kind}/{}", name.to_string_lossy()), text);
            }
        }
    }
    Ok(texts)
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, (u8, String)> {
    let bad = |message: String| (BAD_INPUT, message);
    let mut given = Vec::new();
    let mut arguments = Arguments {
        plan: String::new(),
        targets: Vec::new(),
        overrides: Vec::new(),
        options: Options::default(),
        bricks: None,
        together: false,
        record: None,
        order: None,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| bad(format!("{word} needs a value\n{USAGE}")));
        match word.as_str() {
            "--set" => arguments.overrides.push(value()?),
            "--size" => arguments.options.storage.create_bytes = Some(plan::parse_bytes(&value()?).map_err(bad)?),
            "--overwrite" => arguments.options.storage.overwrite.push(value()?.into()),
            "--i-know-this-destroys-data" => arguments.options.storage.destroys_data = true,
            "--bricks" => arguments.bricks = Some(value()?.into()),
            "--together" => arguments.together = true,
            "--record" => arguments.record = Some(value()?.into()),
            "--order" => arguments.order = Some(value()?.into()),
            "--shared" => arguments.options.storage.shared = true,
            "--nop" => arguments.options.storage.nop = true,
            "--help" => return Err((0, USAGE.into())),
            _ if word.starts_with("--") => return Err(bad(format!("unknown option {word}\n{USAGE}"))),
            _ => given.push(word),
        }
    }
    let mut given = given.into_iter();
    arguments.plan = given.next().ok_or_else(|| bad(USAGE.into()))?;
    arguments.targets = given.collect();
    if arguments.together && arguments.plan == "-" {
        return Err(bad("--together takes its words from standard input; name a file for the plan".into()));
    }
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

fn carry_out(session: Session, is_together: bool, record: Option<Kept>) -> ExitCode {
    let out = Arc::new(Out::new(record));
    let (control, words) = match is_together {
        true => together::control(out.clone()),
        false => (RunControl::default(), None),
    };
    let control = Arc::new(control);
    let over = Arc::new(AtomicBool::new(false));
    if let Err(error) = watch_signals(control.clone(), over.clone()) {
        eprintln!("brickyard-worker: signals cannot be watched: {error}");
        return ExitCode::from(FAILED);
    }
    let forget = words.map(|words| together::listen(words, control.clone(), out.clone(), over.clone()));
    let mut code = FAILED;
    let mut emit = |event: Event| {
        if let Event::End { outcome, .. } = &event {
            code = match outcome {
                RunOutcome::Done => 0,
                RunOutcome::Interrupted => INTERRUPTED,
                RunOutcome::Failed => FAILED,
            };
        }
        // Whoever read the events is gone: nobody wants the rest of the run.
        if !out.line(&event.to_json()) {
            control.stop();
        }
    };
    session.run(&control, &mut emit);
    over.store(true, Ordering::Relaxed);
    if forget.is_some_and(|word| word.recv_timeout(together::SILENCE).is_ok()) {
        out.forget();
    }
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
