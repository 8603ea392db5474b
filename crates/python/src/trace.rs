//! Traces, for Python: paths and names down, documents and values up.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::trace::Reader;
use ::trace::figures::{self, Contents, Samples};
use ::trace::import::{self, Format, ImportError, Wish};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;

/// How often signals are looked after while traces are read.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Does `work` in a thread, so that Ctrl-C ends the wait for it.
fn watched<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let working = std::thread::Builder::new()
        .name("brickyard-trace".into())
        .spawn(work)
        .map_err(|e| PyRuntimeError::new_err(format!("no thread could be started: {e}")))?;
    while !working.is_finished() {
        py.detach(|| std::thread::sleep(LOOK_EVERY));
        py.check_signals()?;
    }
    working.join().map_err(|_| PyRuntimeError::new_err("the core stopped unexpectedly; please report this"))
}

/// Why something cannot be read, and whether it is the user's to mend.
enum Trouble {
    Input(String),
    Host(String),
}

impl From<Trouble> for PyErr {
    fn from(trouble: Trouble) -> PyErr {
        match trouble {
            Trouble::Input(message) => PyValueError::new_err(message),
            Trouble::Host(message) => PyOSError::new_err(message),
        }
    }
}

/// Reads a trace of another tool and writes it as ours into the file of that path, which is there; gives back what came
/// of it as JSON.
#[pyfunction]
#[pyo3(signature = (inputs, out, format = None, device = None, source = ""))]
fn trace_import(
    py: Python<'_>,
    inputs: Vec<PathBuf>,
    out: PathBuf,
    format: Option<&str>,
    device: Option<String>,
    source: &str,
) -> PyResult<String> {
    let format = format.map(Format::named).transpose().map_err(PyValueError::new_err)?;
    let wish = Wish { format, device, source: source.into() };
    Ok(watched(py, move || imported(&inputs, &out, &wish))??)
}

fn imported(inputs: &[PathBuf], out: &Path, wish: &Wish) -> Result<String, Trouble> {
    let mut opened = Vec::new();
    for path in inputs {
        let input = import::open(path).map_err(|e| Trouble::Input(format!("{}: {e}", path.display())))?;
        opened.push(input);
    }
    let file = place::held_file(out).map_err(|e| Trouble::Host(format!("the trace cannot be written: {e}")))?;
    let name = inputs.first().map_or(String::new(), |path| path.display().to_string());
    let done = import::import(opened, wish, BufWriter::with_capacity(1 << 20, file)).map_err(|error| match error {
        ImportError::Write(_) => Trouble::Host(error.to_string()),
        ImportError::Read(_) | ImportError::Bad(_) => Trouble::Input(format!("{name}: {error}")),
    })?;
    let bad: Vec<_> =
        done.bad.iter().map(|bad| json!({ "number": bad.number, "text": bad.text, "why": bad.why })).collect();
    Ok(json!({
        "format": done.format.name(),
        "summary": done.summary,
        "bad": bad,
        "left_out": done.left_out,
        "notes": done.notes,
    })
    .to_string())
}

fn opened(path: &Path) -> Result<Reader<File>, Trouble> {
    let input = |why: String| Trouble::Input(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|e| input(e.to_string()))?;
    Reader::new(file).map_err(|e| input(e.to_string()))
}

fn contents_of(path: &Path, device: Option<u32>) -> Result<Contents, Trouble> {
    let unread = |e: std::io::Error| Trouble::Host(format!("{}: {e}", path.display()));
    figures::contents(opened(path)?, device).map_err(unread)
}

/// What is in a trace, as JSON; all of it is read.
#[pyfunction]
#[pyo3(signature = (path, device = None))]
fn trace_contents(py: Python<'_>, path: PathBuf, device: Option<u32>) -> PyResult<String> {
    let contents = watched(py, move || contents_of(&path, device))??;
    Ok(json!(contents).to_string())
}

/// The contents and figures of a trace as JSON, and samples of single requests as doubles: sizes, gaps, depths, reuse
/// distances, latencies.
#[pyfunction]
#[pyo3(signature = (path, device = None))]
fn trace_figures(py: Python<'_>, path: PathBuf, device: Option<u32>) -> PyResult<(String, Vec<Py<PyBytes>>)> {
    let (contents, figures, samples) = watched(py, move || {
        let contents = contents_of(&path, device)?;
        let unread = |e: std::io::Error| Trouble::Host(format!("{}: {e}", path.display()));
        let (figures, samples) = figures::figures(opened(&path)?, &contents, device).map_err(unread)?;
        Ok::<_, Trouble>((contents, figures, samples))
    })??;
    let Samples { sizes, gaps, depths, reuses, latencies } = samples;
    let bytes = |values: Vec<f64>| {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        PyBytes::new(py, &raw).unbind()
    };
    let all = [sizes, gaps, depths, reuses, latencies].into_iter().map(bytes).collect();
    Ok((json!({ "contents": contents, "figures": figures }).to_string(), all))
}

/// Names of the forms that can be imported.
#[pyfunction]
fn trace_formats() -> Vec<&'static str> {
    Format::ALL.iter().map(|format| format.name()).collect()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(trace_import, module)?)?;
    module.add_function(wrap_pyfunction!(trace_contents, module)?)?;
    module.add_function(wrap_pyfunction!(trace_figures, module)?)?;
    module.add_function(wrap_pyfunction!(trace_formats, module)?)
}
