//! What a load asks for, without asking anybody: so that it can be held against another program, request by request.

use engine::address::{Region, StreamShared};
use engine::pattern::Pattern;
use plan::Profile;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// The first `count` requests of the plan's first stream, had it one lane, on a target of `target_bytes`: a JSON list.
#[pyfunction]
fn draw(plan_json: &str, target_bytes: u64, count: usize) -> PyResult<String> {
    let wrong = |message: String| PyValueError::new_err(message);
    let profile = Profile::from_json(plan_json).map_err(|e| wrong(e.to_string()))?;
    let Some(stream) = profile.phase.first().and_then(|phase| phase.stream.first()) else {
        return Err(wrong("the plan has no stream".into()));
    };
    let from = stream.region.from.offset_bytes(target_bytes);
    let length_bytes = stream.region.to.offset_bytes(target_bytes).saturating_sub(from);
    let region = Region { origin_bytes: 0, start_bytes: from, length_bytes };
    let shared = Arc::new(StreamShared::new());
    let mut pattern = Pattern::new(stream, region, profile.seed, 0, 0, 0, 1, shared).map_err(wrong)?;
    let request = |_| {
        let request = pattern.next();
        serde_json::json!({
            "operation": request.operation.name(),
            "offset_bytes": request.offset_bytes,
            "request_bytes": request.request_bytes,
        })
    };
    Ok(serde_json::Value::Array((0..count).map(request).collect()).to_string())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(draw, module)?)
}
