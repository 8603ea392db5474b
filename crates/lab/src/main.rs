//! Duty: the program behind `brickyard lab`: an emulated disk, a list of crash states, or a disk that becomes them. Orders
//! come as one line of JSON on standard input, answers go as lines of JSON to standard output.
//!
//! Refusal: it makes no loop device and no file system; whoever starts it does.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use lab::cache::Medium;
use lab::draw::{Cache, Drawer, State};
use lab::fuse::{self, Disk, Reply};
use lab::log::{Kind, Log};
use lab::orders::{Describe, Plan, Serve, Show, States, Told, ToldLog, parse_cache, parse_seed, parse_wish, seed_text};
use lab::serve::{Emulated, Parts};
use lab::timing::Timing;
use lab::view::View;
use lab::{control, draw};
use serde::Serialize;
use serde_json::json;
use sim::brick::{Brick, Texts, resolve};

const USAGE: &str = "usage: brickyard-lab serve|plan|describe|show, with orders as a line of JSON on standard input";
const BAD_INPUT: u8 = 2;
/// A disk without a model or a given size.
const DEFAULT_BYTES: u64 = 1 << 30;

fn main() -> ExitCode {
    let word = std::env::args().nth(1).unwrap_or_default();
    let done = match word.as_str() {
        "serve" => read_orders().and_then(serve),
        "plan" => read_orders().and_then(plan),
        "describe" => read_orders().and_then(describe),
        "show" => read_orders().and_then(show),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&json!({ "error": why }));
            ExitCode::from(BAD_INPUT)
        }
    }
}

fn read_orders<T: serde::de::DeserializeOwned>() -> Result<T, String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|e| format!("standard input cannot be read: {e}"))?;
    serde_json::from_str(&line).map_err(|e| format!("the orders cannot be read: {e}\n{USAGE}"))
}

/// Whoever listened may be gone; then nobody wants the answer.
fn say(what: &impl Serialize) {
    let mut out = io::stdout().lock();
    let _ = serde_json::to_string(what).map(|text| writeln!(out, "{text}").and_then(|()| out.flush()));
}

fn no_mount(at: &std::path::Path, error: &io::Error) -> String {
    format!("{}: no FUSE file system can be mounted: {error}; this needs /dev/fuse and root", at.display())
}

/// Without a volatile cache the drives of the model have none either, where it can be switched off.
fn brick_of(model: &str, texts: &Texts, cache: Cache) -> Result<Brick, String> {
    let switched = (cache == Cache::Off).then(|| resolve(model, texts, &["write_cache=false".into()]));
    match switched {
        Some(Ok(brick)) => Ok(brick),
        _ => resolve(model, texts, &[]).map_err(String::from),
    }
}

/// Before other programs of the host, as a disk is: what it does for a request is short. All threads inherit it. Where
/// the host does not allow it, requests end late, and are counted.
fn go_before_others() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: reads the priority, and changes how this process is scheduled.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const priority) };
}

fn serve(orders: Serve) -> Result<(), String> {
    if orders.model.is_some() {
        go_before_others();
    }
    let cache = parse_cache(&orders.cache)?;
    let brick = match &orders.model {
        Some(model) => Some(brick_of(model, &orders.bricks, cache)?),
        None => None,
    };
    let timing = Timing::new(brick, orders.speed)?;
    let capacity = timing.capacity_bytes();
    let size_bytes = orders.size_bytes.or(capacity).unwrap_or(DEFAULT_BYTES) / 4096 * 4096;
    if let Some(most) = capacity.filter(|most| *most < size_bytes) {
        return Err(format!("the model has {most} bytes, less than {size_bytes}; give a smaller --size"));
    }
    let refuse = |e: io::Error| format!("{}: the content cannot be kept: {e}", orders.medium.display());
    let file = File::options().read(true).write(true).create_new(true).open(&orders.medium).map_err(refuse)?;
    // Without a name it is gone when we are.
    std::fs::remove_file(&orders.medium).and_then(|()| file.set_len(size_bytes)).map_err(refuse)?;
    // What the kernel reads ahead at once, often megabytes, would keep a request waiting for many milliseconds.
    // SAFETY: a hint for an open file.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
    let medium = Medium::new(file, orders.cache_bytes);
    let disk = Emulated::new(Parts { medium, size_bytes, cache, timing, log: orders.log })?;
    let session =
        fuse::mount(disk.clone(), &orders.mount, orders.lives_with_input).map_err(|e| no_mount(&orders.mount, &e))?;
    let keeper = disk.clone();
    let clock = std::thread::spawn(move || keeper.keep_time());
    if let Some(place) = orders.socket {
        let disk = disk.clone();
        std::thread::spawn(move || control::listen(&place, &disk));
    }
    let is_over_ring = session.is_over_ring;
    say(&json!({"ready": true, "size_bytes": size_bytes, "pid": std::process::id(), "is_over_ring": is_over_ring}));
    if orders.lives_with_input {
        until_input_ends();
        disk.obey(lab::breaking::Order::Stop)?;
    }
    let _ = clock.join();
    drop(session);
    Ok(())
}

fn until_input_ends() {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
}

fn told(state: &State, image: u64) -> Told {
    let mut records: Vec<usize> = state.kept.iter().map(|kept| kept.record).collect();
    records.dedup();
    Told {
        seed: seed_text(state.seed),
        cut: state.cut,
        durable: state.durable,
        volatile_writes: state.volatile_writes,
        kept_writes: records.len() as u64,
        promised: state.promised,
        image: seed_text(image),
    }
}

fn told_log(log: &Log) -> ToldLog {
    let count = |kind| log.records.iter().filter(|r| r.kind == kind).count() as u64;
    ToldLog {
        records: log.records.len() as u64,
        writes: count(Kind::Write),
        flushes: count(Kind::FlushEnd),
        hash: seed_text(log.hash),
        torn_bytes: log.torn_bytes,
    }
}

fn opened(orders: &States) -> Result<(Log, draw::Parameters), String> {
    Ok((Log::open(&orders.log)?, orders.parameters()?))
}

/// Tells the states in the order in which an image rolls forward over them.
fn plan(orders: Plan) -> Result<(), String> {
    let (log, parameters) = opened(&orders.states)?;
    say(&told_log(&log));
    let states = {
        let drawer = Drawer::new(&log, orders.states.story, parameters)?;
        let mut states: Vec<State> = match orders.only.is_empty() {
            true => drawer.seeds(orders.count, orders.seed).into_iter().map(|seed| drawer.state(seed)).collect(),
            false => orders.only.iter().map(|text| drawer.named(parse_seed(text)?)).collect::<Result<_, _>>()?,
        };
        states.sort_by_key(|state| (state.durable, state.cut, state.seed));
        states
    };
    let mut view = View::new(log);
    for state in &states {
        let image = view.become_state(state)?;
        say(&told(state, image));
    }
    Ok(())
}

/// Tells the parts of a log, and then what lies around each of some states' cuts.
fn describe(orders: Describe) -> Result<(), String> {
    let (log, parameters) = opened(&orders.states)?;
    let drawer = Drawer::new(&log, orders.states.story, parameters)?;
    say(&drawer.parts(orders.parts));
    for text in &orders.only {
        let state = drawer.named(parse_seed(text)?)?;
        say(&drawer.surroundings(&state, orders.before));
    }
    Ok(())
}

/// A view under a lock: whoever asks for a state waits until it is there, and nothing is mounted meanwhile.
#[derive(Clone)]
struct Shown(Arc<Mutex<View>>);

impl Disk for Shown {
    fn size_bytes(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).size_bytes()
    }

    fn read(&self, offset_bytes: u64, bytes: u32, reply: Reply) {
        let mut out = vec![0; bytes as usize];
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read(offset_bytes, &mut out);
        reply.data(&out);
    }

    fn write(&self, offset_bytes: u64, data: &[u8], _durable: bool, reply: Reply) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(offset_bytes, data);
        reply.written(data.len() as u32);
    }

    fn flush(&self, reply: Reply) {
        reply.done();
    }
}

/// Becomes each state whose seed comes in, until input ends.
fn show(orders: Show) -> Result<(), String> {
    let (log, parameters) = opened(&orders.states)?;
    let again = Log::open(&orders.states.log)?;
    let drawer = Drawer::new(&again, orders.states.story, parameters)?;
    let shown = Shown(Arc::new(Mutex::new(View::new(log))));
    let session = fuse::mount(shown.clone(), &orders.mount, true).map_err(|e| no_mount(&orders.mount, &e))?;
    say(&json!({"ready": true}));
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let (seed, more) = parse_wish(&line)?;
        let state = drawer.state_with(seed, &more)?;
        let image = shown.0.lock().unwrap_or_else(PoisonError::into_inner).become_state(&state);
        match image {
            Ok(image) => say(&told(&state, image)),
            Err(why) => {
                say(&json!({ "error": why }));
            }
        }
    }
    drop(session);
    Ok(())
}
