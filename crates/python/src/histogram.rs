//! Histograms for Python. As an object each text is inflated once; the functions below it take texts, and inflate them
//! each time.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use record::{TextError, TextHistogram};

fn bad(error: TextError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Counts of times in ns. Out of its text: HdrHistogram's V2 compressed form in base64.
#[pyclass(frozen, module = "brickyard._core")]
struct Histogram(TextHistogram);

#[pymethods]
impl Histogram {
    #[new]
    fn new(text: &str) -> PyResult<Histogram> {
        TextHistogram::parse(text).map(Histogram).map_err(bad)
    }

    /// One histogram with the counts of all.
    #[staticmethod]
    fn merged(texts: Vec<String>) -> PyResult<Histogram> {
        TextHistogram::merge(texts.iter().map(String::as_str)).map(Histogram).map_err(bad)
    }

    /// A histogram out of (value in ns, count) pairs, such as the bins of another tool.
    #[staticmethod]
    fn of_counts(pairs: Vec<(u64, u64)>) -> PyResult<Histogram> {
        let mut histogram = record::Histogram::default();
        let mut total = 0u64;
        for (value_ns, count) in pairs {
            let sum = total.checked_add(count);
            total = sum.ok_or_else(|| PyValueError::new_err("the counts add up to more than 2^64"))?;
            if count > 0 {
                histogram.record(value_ns, count);
            }
        }
        Ok(Histogram(TextHistogram::from(&histogram)))
    }

    #[getter]
    fn count(&self) -> u64 {
        self.0.count()
    }

    #[getter]
    fn min_ns(&self) -> u64 {
        self.0.min_ns()
    }

    #[getter]
    fn max_ns(&self) -> u64 {
        self.0.max_ns()
    }

    #[getter]
    fn mean_ns(&self) -> f64 {
        self.0.mean_ns()
    }

    #[getter]
    fn stddev_ns(&self) -> f64 {
        self.0.stddev_ns()
    }

    /// Percentiles (0 to 100) in ns.
    fn percentiles_ns(&self, percentiles: Vec<f64>) -> Vec<u64> {
        percentiles.iter().map(|p| self.0.percentile_ns(*p)).collect()
    }

    /// Counts per bin `[edges_ns[i], edges_ns[i + 1])`; what lies outside goes into the first or last bin.
    fn counts(&self, edges_ns: Vec<u64>) -> Vec<u64> {
        self.0.counts(&edges_ns)
    }

    /// The form in which it stands in a store.
    fn text(&self) -> String {
        self.0.to_text()
    }
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
    Histogram::of_counts(pairs).map(|h| h.text())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Histogram>()?;
    module.add_function(wrap_pyfunction!(histogram_merge, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_percentiles, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_stats, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_counts, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_from_counts, module)?)
}
