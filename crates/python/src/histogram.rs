//! Histograms for Python: objects, so that each text is inflated once.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;
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

    /// One histogram with the counts of all, which are taken one at a time; None where there are none. An item
    /// is a histogram or its text; empty texts are passed over.
    #[staticmethod]
    fn merged(items: &Bound<'_, PyAny>) -> PyResult<Option<Histogram>> {
        let (mut sum, mut number) = (TextHistogram::default(), 0);
        for item in items.try_iter()? {
            let item = item?;
            if let Ok(known) = item.cast::<Histogram>() {
                sum.add(&known.get().0).map_err(bad)?;
                number += 1;
                continue;
            }
            let text: &str = item.extract()?;
            if text.is_empty() {
                continue;
            }
            let found = TextHistogram::parse(text).map_err(bad)?;
            sum.add(&found).map_err(bad)?;
            number += 1;
        }
        Ok((number > 0).then_some(Histogram(sum)))
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

    fn __eq__(&self, other: &Histogram) -> bool {
        self.0 == other.0
    }

    /// For the same figures in another process.
    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (String,)) {
        (py.get_type::<Histogram>(), (self.text(),))
    }

    /// The form in which it stands in a store.
    fn text(&self) -> String {
        self.0.to_text()
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Histogram>()
}
