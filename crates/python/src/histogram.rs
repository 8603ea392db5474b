//! Histograms as text, for Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use record::{Histogram, TextError, TextHistogram};

fn bad(error: TextError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// One histogram with the counts of all.
#[pyfunction]
fn histogram_merge(items: Vec<String>) -> PyResult<String> {
    TextHistogram::merge(items.iter().map(String::as_str)).map(|h| h.to_text()).map_err(bad)
}

/// Percentiles (0 to 100) in ns.
#[pyfunction]
fn histogram_percentiles(item: &str, percentiles: Vec<f64>) -> PyResult<Vec<u64>> {
    let histogram = TextHistogram::parse(item).map_err(bad)?;
    Ok(percentiles.iter().map(|p| histogram.percentile_ns(*p)).collect())
}

/// Count, min_ns, max_ns, mean_ns, stddev_ns.
#[pyfunction]
fn histogram_stats<'py>(py: Python<'py>, item: &str) -> PyResult<Bound<'py, PyDict>> {
    let histogram = TextHistogram::parse(item).map_err(bad)?;
    let stats = PyDict::new(py);
    stats.set_item("count", histogram.count())?;
    stats.set_item("min_ns", histogram.min_ns())?;
    stats.set_item("max_ns", histogram.max_ns())?;
    stats.set_item("mean_ns", histogram.mean_ns())?;
    stats.set_item("stddev_ns", histogram.stddev_ns())?;
    Ok(stats)
}

/// Counts per bin `[edges_ns[i], edges_ns[i + 1])`; what lies outside goes into the first or last bin.
#[pyfunction]
fn histogram_counts(item: &str, edges_ns: Vec<u64>) -> PyResult<Vec<u64>> {
    TextHistogram::parse(item).map(|h| h.counts(&edges_ns)).map_err(bad)
}

/// A histogram out of (value in ns, count) pairs, such as the bins of another tool.
#[pyfunction]
fn histogram_from_counts(pairs: Vec<(u64, u64)>) -> PyResult<String> {
    let mut histogram = Histogram::default();
    let mut total = 0u64;
    for (value_ns, count) in pairs {
        total = total.checked_add(count).ok_or_else(|| PyValueError::new_err("the counts add up to more than 2^64"))?;
        if count > 0 {
            histogram.record(value_ns, count);
        }
    }
    Ok(TextHistogram::from(&histogram).to_text())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(histogram_merge, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_percentiles, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_stats, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_counts, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_from_counts, module)?)
}
