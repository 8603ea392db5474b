//! Replay of logs, for Python: plans down, documents and events up.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use ::replay::look::{Look, look};
use ::replay::mapping::Mapping;
use ::replay::postgres::Dsn;
use ::replay::spec::Spec;

/// How often signals are looked after while logs are read.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What logs would do, as JSON; Ctrl-C ends it with what was read so far.
#[pyfunction]
fn replay_explain(py: Python<'_>, spec_json: &str, bricks: usize) -> PyResult<String> {
    let spec = Spec::from_json(spec_json).map_err(PyValueError::new_err)?;
    let options = spec.feed_options().map_err(PyValueError::new_err)?;
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = stop.clone();
    let reading = std::thread::Builder::new()
        .name("brickyard-explain".into())
        .spawn(move || {
            let sort = |look: &Look| spec.sort.after(look);
            let (document, look) = ::replay::explain::explain(&spec.mapping, bricks, options, &sort, &theirs)?;
            Ok::<_, String>((document, sort(&look), look))
        })
        .map_err(|e| PyRuntimeError::new_err(format!("no thread could be started: {e}")))?;
    let interrupted = watched(py, &reading, &stop);
    match reading.join() {
        Ok(Ok((document, sort, look))) => Ok(serde_json::json!({
            "interrupted": interrupted,
            "document": document,
            "sort": sort,
            "look": look,
        })
        .to_string()),
        Ok(Err(message)) => Err(PyValueError::new_err(message)),
        Err(_) => Err(PyRuntimeError::new_err("the core stopped unexpectedly; please report this")),
    }
}

/// Waits until logs have been read; whether Ctrl-C came meanwhile, which ends it.
fn watched<T>(py: Python<'_>, reading: &JoinHandle<T>, stop: &AtomicBool) -> bool {
    let mut interrupted = false;
    while !reading.is_finished() {
        py.detach(|| std::thread::sleep(LOOK_EVERY));
        if py.check_signals().is_err() {
            interrupted = true;
            stop.store(true, Ordering::Relaxed);
        }
    }
    interrupted
}

/// Checks a plan without connecting: mapping, logs, pace; gives back pages, bricks, the first stamp and whether calls
/// are to be sorted, as JSON. Reads all logs once; Ctrl-C ends that.
#[pyfunction]
fn replay_check(py: Python<'_>, spec_json: &str) -> PyResult<String> {
    let spec = Spec::from_json(spec_json).map_err(PyValueError::new_err)?;
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = stop.clone();
    let reading = std::thread::Builder::new()
        .name("brickyard-look".into())
        .spawn(move || checked(&spec, &theirs))
        .map_err(|e| PyRuntimeError::new_err(format!("no thread could be started: {e}")))?;
    if watched(py, &reading, &stop) {
        let _ = reading.join();
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    match reading.join() {
        Ok(told) => told.map_err(PyValueError::new_err),
        Err(_) => Err(PyRuntimeError::new_err("the core stopped unexpectedly; please report this")),
    }
}

fn checked(spec: &Spec, stop: &AtomicBool) -> Result<String, String> {
    spec.check()?;
    spec.pace()?;
    let options = spec.feed_options()?;
    let mapping = Mapping::from_toml(&spec.mapping, spec.to.len().max(1)).map_err(|e| format!("mapping: {e}"))?;
    let mut shown = Vec::new();
    for (number, text) in spec.to.iter().enumerate() {
        shown.push(Dsn::parse(text).map_err(|e| format!("--to, database {number}: {e}"))?.shown);
    }
    let found = if spec.is_looked_at { Look::default() } else { look(&options, stop)? };
    Ok(serde_json::json!({
        "title": mapping.title,
        "source": mapping.source,
        "pages": mapping.pages,
        "databases": shown,
        "first_ns": found.first_ns,
        "formats": found.formats,
        "sort": spec.sort.after(&found),
        "look": found,
    })
    .to_string())
}

/// A driver whose orders come through a descriptor, since standard input may be a log; its events go to standard output.
/// Gives back its exit code.
#[pyfunction]
fn replay_serve(py: Python<'_>, orders_fd: i32) -> PyResult<i32> {
    let orders = std::fs::File::open(format!("/proc/self/fd/{orders_fd}"))
        .map_err(|e| PyRuntimeError::new_err(format!("no orders can be read: {e}")))?;
    Ok(py.detach(|| ::replay::serve::serve(BufReader::new(orders), std::io::stdout(), None)))
}

/// Intervals of several drivers as one.
#[pyfunction]
fn replay_merge(py: Python<'_>, intervals: Vec<String>) -> PyResult<String> {
    py.detach(|| ::replay::event::merge_json(&intervals)).map_err(PyValueError::new_err)
}

/// The brick of a call, for whoever distributes data over bricks.
#[pyfunction]
fn replay_route(mapping: &str, page: &str, parameters: BTreeMap<String, String>, bricks: usize) -> PyResult<u16> {
    let mapping = Mapping::from_toml(mapping, bricks).map_err(|e| PyValueError::new_err(format!("mapping: {e}")))?;
    mapping.route(page, &parameters).map_err(PyValueError::new_err)
}

/// Overwrites the passwords of connection strings, or of several with commas between, in this process's own arguments.
#[pyfunction]
fn replay_hide_passwords(texts: Vec<String>) {
    for text in texts {
        ::replay::postgres::passwords_in(&text).iter().for_each(|p| ::replay::postgres::hide_in_own_arguments(p));
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(replay_explain, module)?)?;
    module.add_function(wrap_pyfunction!(replay_check, module)?)?;
    module.add_function(wrap_pyfunction!(replay_serve, module)?)?;
    module.add_function(wrap_pyfunction!(replay_merge, module)?)?;
    module.add_function(wrap_pyfunction!(replay_route, module)?)?;
    module.add_function(wrap_pyfunction!(replay_hide_passwords, module)?)
}
