//! Duty: the waist between Rust and Python: few functions, plain data. A plan goes down as JSON, events come up as JSON.
//!
//! Refusal: no logic; and the interpreter lock is never held while anything is measured.

mod bricks;
mod draw;
mod histogram;
mod places;
mod replay;
mod run;
mod trace;

use plan::{Edit, Mistake, Profile};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Bad input as a `ValueError`, with what it changes in the user's command, as the attribute `edit`.
fn bad_input(message: String, edit: Option<Edit>) -> PyErr {
    Python::attach(|py| {
        let error = PyValueError::new_err(message);
        let words = |words: Vec<String>| PyTuple::new(py, words);
        let told = edit.map(|Edit { given, meant }| error.value(py).setattr("edit", (words(given)?, words(meant)?)));
        told.transpose().err().unwrap_or(error)
    })
}

fn mistaken(Mistake { message, edit }: Mistake) -> PyErr {
    bad_input(message, edit)
}

/// The version of the core; the same as that of the package.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Whether the core was built with optimizations. Others must not measure.
#[pyfunction]
fn is_release_build() -> bool {
    !cfg!(debug_assertions)
}

/// The JSON Schema of a profile.
#[pyfunction]
fn schema() -> String {
    plan::json_schema()
}

/// Reads a profile from TOML text, applies `key=value` overrides, validates it, and returns the plan as JSON.
#[pyfunction]
#[pyo3(signature = (text, overrides = Vec::new()))]
fn validate(text: &str, overrides: Vec<String>) -> PyResult<String> {
    Profile::from_toml_with(text, &overrides).map(|p| p.to_json()).map_err(mistaken)
}

/// A plan in JSON of any spelling, validated, as `validate` writes it.
#[pyfunction]
fn canonical(plan_json: &str) -> PyResult<String> {
    plan::canonical(plan_json).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Whether each stream of a plan issues one request after another, writes among them.
#[pyfunction]
fn writes_one_at_a_time(plan_json: &str) -> PyResult<bool> {
    Profile::from_json(plan_json).map(|p| p.writes_one_at_a_time()).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// The plan with each of its streams on each of the targets.
#[pyfunction]
fn spread(plan_json: &str, targets: Vec<String>) -> PyResult<String> {
    let spread = Profile::from_json(plan_json).and_then(|profile| profile.spread(&targets));
    spread.map(|p| p.to_json()).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// A reason of an event in words; `of` is the kind that it is of, such as `engine` or `end`.
#[pyfunction]
fn reason_in_words(of: &str, reason_json: &str) -> PyResult<String> {
    let text = format!(r#"{{"of":"{of}","reason":{reason_json}}}"#);
    let reason: Result<engine::event::Reason, _> = serde_json::from_str(&text);
    reason.map(|r| r.words()).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Name, bytes of a frame and frames a second of every video format.
#[pyfunction]
fn video_formats() -> Vec<(&'static str, u64, f64)> {
    plan::VIDEO_FORMATS.iter().map(|f| (f.name, f.frame_bytes, f.rate_per_s)).collect()
}

#[pyfunction]
fn parse_bytes(text: &str) -> PyResult<u64> {
    plan::parse_bytes(text).map_err(PyValueError::new_err)
}

#[pyfunction]
fn parse_bytes_per_s(text: &str) -> PyResult<f64> {
    plan::parse_bytes_per_s(text).map_err(PyValueError::new_err)
}

#[pyfunction]
fn format_bytes(bytes: u64) -> String {
    plan::format_bytes(bytes)
}

/// What to do instead of requests of such a size; empty where they are whole sectors.
#[pyfunction]
fn sector_advice(size_bytes: u64) -> String {
    plan::sector_advice(size_bytes)
}

/// A remaining time or duration as people read it.
#[pyfunction]
fn format_seconds(seconds: f64) -> String {
    plan::format_seconds(seconds)
}

#[pyfunction]
fn parse_duration_ns(text: &str) -> PyResult<u64> {
    plan::parse_duration_ns(text).map_err(PyValueError::new_err)
}

/// A limit on a response time in ns; one without a unit is refused.
#[pyfunction]
fn parse_limit_ns(text: &str) -> PyResult<u64> {
    plan::limit_ns(text).map_err(mistaken)
}

/// Size of a block device that may be taken for an array: nothing uses it, and it carries no known signature unless
/// `destroys_data`. Nothing is written.
#[pyfunction]
fn check_idle(py: Python<'_>, path: &str, destroys_data: bool) -> PyResult<u64> {
    use block::guard::{Access, Consent, open};
    let consent = Consent { overwrite: true, destroys_data };
    let found = py.detach(|| open(std::path::Path::new(path), Access::Write, false, None, &consent));
    found.map(|guarded| guarded.size_bytes).map_err(|e| bad_input(e.message, e.edit))
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(is_release_build, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)?;
    module.add_function(wrap_pyfunction!(validate, module)?)?;
    module.add_function(wrap_pyfunction!(canonical, module)?)?;
    module.add_function(wrap_pyfunction!(writes_one_at_a_time, module)?)?;
    module.add_function(wrap_pyfunction!(spread, module)?)?;
    module.add_function(wrap_pyfunction!(reason_in_words, module)?)?;
    module.add_function(wrap_pyfunction!(video_formats, module)?)?;
    module.add_function(wrap_pyfunction!(parse_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(parse_bytes_per_s, module)?)?;
    module.add_function(wrap_pyfunction!(format_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(sector_advice, module)?)?;
    module.add_function(wrap_pyfunction!(format_seconds, module)?)?;
    module.add_function(wrap_pyfunction!(parse_duration_ns, module)?)?;
    module.add_function(wrap_pyfunction!(parse_limit_ns, module)?)?;
    module.add_function(wrap_pyfunction!(check_idle, module)?)?;
    bricks::register(module)?;
    draw::register(module)?;
    histogram::register(module)?;
    places::register(module)?;
    crate::replay::register(module)?;
    run::register(module)?;
    crate::trace::register(module)
}
