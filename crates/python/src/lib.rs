//! Duty: the waist between Rust and Python: few functions, plain data. A plan goes down as JSON, events come up as JSON.
//!
//! Refusal: no logic; and the interpreter lock is never held while anything is measured.

mod bricks;
mod histogram;
mod replay;
mod run;

use plan::Profile;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

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
    Profile::from_toml_with(text, &overrides).map(|p| p.to_json()).map_err(|e| PyValueError::new_err(e.to_string()))
}

#[pyfunction]
fn parse_bytes(text: &str) -> PyResult<u64> {
    plan::parse_bytes(text).map_err(PyValueError::new_err)
}

#[pyfunction]
fn format_bytes(bytes: u64) -> String {
    plan::format_bytes(bytes)
}

#[pyfunction]
fn parse_duration_ns(text: &str) -> PyResult<u64> {
    plan::parse_duration_ns(text).map_err(PyValueError::new_err)
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(is_release_build, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)?;
    module.add_function(wrap_pyfunction!(validate, module)?)?;
    module.add_function(wrap_pyfunction!(parse_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(format_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(parse_duration_ns, module)?)?;
    bricks::register(module)?;
    histogram::register(module)?;
    crate::replay::register(module)?;
    run::register(module)
}
