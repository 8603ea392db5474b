//! Targets and names for Python: descriptors that the guard has opened, and names that are given and taken safely.

use std::ffi::OsString;
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};
use std::path::PathBuf;

use block::guard::{Access, Consent, DATA_START_BYTES, TargetKind};
use block::session::{Options, take};
use place::Taken;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn refused(error: block::guard::GuardError) -> PyErr {
    crate::bad_input(error.message, error.edit)
}

/// A target that the guard has opened. Whoever asked closes `file`; until then it is locked or claimed, if it is written.
#[pyclass(frozen, get_all)]
struct OpenTarget {
    file: RawFd,
    is_block: bool,
    direct: bool,
    uuid: String,
    data_start_bytes: u64,
    data_bytes: u64,
    /// So much of the start of the data was written.
    filled_bytes: u64,
}

/// Opens a target with every check of a run. For writing, it is made where `create_bytes` says so, and becomes ours.
#[pyfunction]
fn open_target(py: Python<'_>, path: PathBuf, write: bool, direct: bool, options_json: &str) -> PyResult<OpenTarget> {
    let bad = |e: serde_json::Error| PyValueError::new_err(format!("options: {e}"));
    let options: Options = serde_json::from_str(options_json).map_err(bad)?;
    let access = if write { Access::Write } else { Access::Read };
    let opened = py.detach(|| {
        let taken = take(&path, access, direct, &options)?;
        taken.claim(&path).map(|()| taken.guarded)
    });
    let found = opened.map_err(refused)?;
    let header = found.header;
    let (data_start_bytes, data_bytes) = match &header {
        Some(header) => (DATA_START_BYTES, header.data_bytes.min(found.size_bytes.saturating_sub(DATA_START_BYTES))),
        None => (0, found.size_bytes),
    };
    Ok(OpenTarget {
        is_block: found.kind == TargetKind::Block,
        direct: found.is_direct(),
        filled_bytes: header.as_ref().map_or(0, |h| h.filled_bytes),
        uuid: header.map(|h| h.uuid.iter().map(|byte| format!("{byte:02x}")).collect()).unwrap_or_default(),
        data_start_bytes,
        data_bytes,
        file: found.file.into_raw_fd(),
    })
}

/// Makes a target file and gives its descriptor; nothing else may have the name.
#[pyfunction]
fn make_target(py: Python<'_>, path: PathBuf, data_bytes: u64) -> PyResult<RawFd> {
    let nothing = Consent { overwrite: false, destroys_data: false };
    if path.symlink_metadata().is_ok() {
        return Err(PyValueError::new_err(format!("{}: exists; name another place", path.display())));
    }
    let data_bytes = data_bytes.next_multiple_of(DATA_START_BYTES);
    let made = py.detach(|| block::guard::open(&path, Access::Write, false, Some(data_bytes), &nothing));
    made.map(|guarded| guarded.file.into_raw_fd()).map_err(refused)
}

/// Refuses what [`make_target`] would refuse; nothing is made.
#[pyfunction]
fn could_make_target(path: PathBuf, data_bytes: u64) -> PyResult<()> {
    block::guard::could_create(&path, data_bytes.next_multiple_of(DATA_START_BYTES)).map_err(refused)
}

/// A descriptor that Python holds during the call.
fn held(file: RawFd) -> PyResult<BorrowedFd<'static>> {
    if file < 0 {
        return Err(PyValueError::new_err("no descriptor"));
    }
    // SAFETY: the caller holds it open for the time of the call, and nothing keeps it beyond.
    Ok(unsafe { BorrowedFd::borrow_raw(file) })
}

/// Why no file is made in the directory of this descriptor; empty where nothing speaks against it.
#[pyfunction]
fn kernels(directory: RawFd) -> PyResult<String> {
    Ok(place::kernels(held(directory)?)?.unwrap_or_default())
}

/// Takes a name from the file that `file` refers to. Gives the name that it bears now, in the same directory; "" where
/// nothing has the name any more; None where something else has it, and keeps it.
#[pyfunction]
fn set_aside(directory: RawFd, name: OsString, file: RawFd) -> PyResult<Option<OsString>> {
    Ok(match place::set_aside(held(directory)?, &name, held(file)?)? {
        Taken::Aside(aside) => Some(aside),
        Taken::Gone => Some(OsString::new()),
        Taken::Foreign => None,
    })
}

/// Gives the file called `part` a name that is free, or that of the very file that `replaced` refers to.
#[pyfunction]
#[pyo3(signature = (directory, part, name, replaced = None))]
fn give_name(directory: RawFd, part: OsString, name: OsString, replaced: Option<RawFd>) -> PyResult<()> {
    let replaced = replaced.map(held).transpose()?;
    Ok(place::give_name(held(directory)?, &part, &name, replaced)?)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<OpenTarget>()?;
    module.add_function(wrap_pyfunction!(open_target, module)?)?;
    module.add_function(wrap_pyfunction!(make_target, module)?)?;
    module.add_function(wrap_pyfunction!(could_make_target, module)?)?;
    module.add_function(wrap_pyfunction!(kernels, module)?)?;
    module.add_function(wrap_pyfunction!(set_aside, module)?)?;
    module.add_function(wrap_pyfunction!(give_name, module)?)
}
