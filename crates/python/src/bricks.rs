//! Modelled bricks and the published tables that check them, for Python.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Keys of a brick that `key=value` may change, and parts of one whose keys `part.key=value` may.
#[pyfunction]
fn brick_keys() -> (Vec<&'static str>, Vec<&'static str>) {
    (sim::brick::OVERRIDES.to_vec(), sim::brick::PARTS.to_vec())
}

/// Levels of arrays that are modelled: those of controllers and md, and those of ZFS.
#[pyfunction]
fn brick_levels() -> (Vec<String>, Vec<String>) {
    let (zfs, plain): (Vec<_>, Vec<_>) = sim::brick::Level::ALL.into_iter().partition(|level| level.is_zfs());
    let words = |levels: Vec<sim::brick::Level>| levels.into_iter().map(sim::brick::Level::word).collect();
    (words(plain), words(zfs))
}

/// What `NAME,key=value` comes to, as JSON with the texts it is made of; raises ValueError with one line.
#[pyfunction]
#[pyo3(signature = (spoken, bricks, overrides = Vec::new()))]
fn brick(spoken: &str, bricks: BTreeMap<String, String>, overrides: Vec<String>) -> PyResult<String> {
    let brick = sim::brick::resolve(spoken, &bricks, &overrides).map_err(crate::mistaken)?;
    let capacity_bytes = sim::system::System::new(&brick).map_err(PyValueError::new_err)?.capacity_bytes();
    let texts = sim::brick::needed(spoken, &bricks, &overrides).map_err(crate::mistaken)?;
    let document = serde_json::json!({ "brick": brick, "capacity_bytes": capacity_bytes, "texts": texts });
    Ok(document.to_string())
}

/// Published cells as JSON, in the order of their numbers.
#[pyfunction]
fn reference_cells() -> String {
    serde_json::json!(sim::reference::cells()).to_string()
}

/// The figure of a published cell on its modelled brick, or on the one that its table taught nothing.
#[pyfunction]
fn reference_simulate(
    py: Python<'_>,
    number: usize,
    bricks: BTreeMap<String, String>,
    seed: u64,
    left_out: bool,
) -> PyResult<f64> {
    py.detach(|| {
        let cells = sim::reference::cells();
        let cell = cells.get(number).ok_or_else(|| format!("there are {} cells, counted from 0", cells.len()))?;
        sim::reference::simulate(cell, &bricks, seed, left_out)
    })
    .map_err(PyValueError::new_err)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(brick_keys, module)?)?;
    module.add_function(wrap_pyfunction!(brick_levels, module)?)?;
    module.add_function(wrap_pyfunction!(brick, module)?)?;
    module.add_function(wrap_pyfunction!(reference_cells, module)?)?;
    module.add_function(wrap_pyfunction!(reference_simulate, module)?)
}
