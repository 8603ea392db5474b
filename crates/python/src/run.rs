//! A run under way, for Python.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::run::{Options, Refusal};
use engine::conductor::RunControl;
use engine::control::State;
use engine::event::{EndReason, Event, RunOutcome};
use plan::Profile;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// Events that follow one another within this time come up together.
const GATHER: Duration = Duration::from_millis(1);

/// Starts a run; its events are taken with `events`.
#[pyfunction]
#[pyo3(signature = (plan_json, targets, options_json = "{}"))]
fn start(py: Python<'_>, plan_json: &str, targets: Vec<String>, options_json: &str) -> PyResult<Run> {
    let profile = Profile::from_json(plan_json).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let options = Options::from_json(options_json, &targets).map_err(refused)?;
    let session = py.detach(|| ::run::prepare(profile, &targets, &options)).map_err(refused)?;
    let control = Arc::new(RunControl::default());
    let (send, receive) = channel();
    let theirs = control.clone();
    std::thread::Builder::new()
        .name("brickyard-run".into())
        .spawn(move || {
            let mut end = None;
            session.run(&theirs, &mut |event| {
                let ends = matches!(event, Event::End { .. });
                if ends && theirs.state() == State::Abandon {
                    // Storage that answers nothing may hold up the closing of its files, too.
                    let _ = send.send((event.to_json(), true));
                } else if ends {
                    end = Some(event.to_json());
                } else if send.send((event.to_json(), false)).is_err() {
                    // A listener that is gone wants nothing more of the run.
                    theirs.stop();
                }
            });
            // Told only now that the targets are closed: who hears it may open them again at once.
            if let Some(end) = end {
                let _ = send.send((end, true));
            }
        })
        .map_err(|e| PyRuntimeError::new_err(format!("no thread could be started: {e}")))?;
    Ok(Run { control, events: Mutex::new(Queue { receive, finished: false }) })
}

/// Refuses what [`start`] would refuse; nothing is made, written or filled.
#[pyfunction]
#[pyo3(signature = (plan_json, targets, options_json = "{}"))]
fn check(py: Python<'_>, plan_json: &str, targets: Vec<String>, options_json: &str) -> PyResult<()> {
    let profile = Profile::from_json(plan_json).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let options = Options::from_json(options_json, &targets).map_err(refused)?;
    py.detach(|| ::run::check(profile, &targets, &options)).map_err(refused)
}

fn refused(refusal: Refusal) -> PyErr {
    match refusal.bad_input {
        true => crate::bad_input(refusal.message, refusal.edit),
        false => PyRuntimeError::new_err(refusal.message),
    }
}

struct Queue {
    receive: Receiver<(String, bool)>,
    finished: bool,
}

/// A run under way. Dropping it stops it.
#[pyclass(frozen)]
struct Run {
    control: Arc<RunControl>,
    events: Mutex<Queue>,
}

#[pymethods]
impl Run {
    /// Events since the last call as JSON documents; waits up to `timeout_ms` for the first.
    fn events(&self, py: Python<'_>, timeout_ms: u64) -> Vec<String> {
        py.detach(|| {
            let mut queue = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            let mut taken = Vec::new();
            let mut wait = Duration::from_millis(timeout_ms);
            let until = Instant::now() + wait;
            while !queue.finished {
                match queue.receive.recv_timeout(wait) {
                    Ok((event, last)) => {
                        taken.push(event);
                        queue.finished = last;
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => {
                        let message = Some(EndReason::CoreStopped);
                        taken.push(Event::End { end_ns: 0, outcome: RunOutcome::Failed, message }.to_json());
                        queue.finished = true;
                    }
                }
                wait = GATHER.min(until.saturating_duration_since(Instant::now()));
            }
            taken
        })
    }

    /// Issues nothing more; the run ends when what is in flight has ended.
    fn stop(&self) {
        self.control.stop();
    }

    /// Ends the run without waiting for what is in flight.
    fn abandon(&self) {
        self.control.abandon();
    }

    /// Whether the last event has been taken.
    fn finished(&self) -> bool {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).finished
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.control.abandon();
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Run>()?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(start, module)?)
}
