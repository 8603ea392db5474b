//! Simulations of a sweep: tasks in by standard input, a line of JSON each; results out in the same order.
//!
//! A task is a published cell (`reference`), or a plan on a modelled brick, whose events are its result. The same task has
//! the same result on every host, to the bit.
//!
//! Refusal: nothing real is opened.

use std::io::{BufRead, Write};
use std::process::ExitCode;

use engine::conductor::RunControl;
use engine::event::Event;
use plan::Profile;
use run::{Options, is_modelled};
use serde_json::{Value, json};

/// Takes tasks until standard input ends, or nobody wants results any more.
pub fn sweep() -> ExitCode {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let told = match result(&line) {
            Ok(told) => told,
            Err(message) => json!({ "error": message }),
        };
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{told}").and_then(|()| out.flush()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn result(line: &str) -> Result<Value, String> {
    let task: Value = serde_json::from_str(line).map_err(|e| format!("no task: {e}"))?;
    match task.get("reference") {
        Some(reference) => figure(reference, &task["bricks"]),
        None => events(&task),
    }
}

/// Of a published cell.
fn figure(reference: &Value, bricks: &Value) -> Result<Value, String> {
    let bricks: sim::brick::Texts = serde_json::from_value(bricks.clone()).map_err(|e| format!("bricks: {e}"))?;
    let number = reference["number"].as_u64().ok_or("a cell has a number")? as usize;
    let seed = reference["seed"].as_u64().ok_or("a cell has a seed")?;
    let cells = sim::reference::cells();
    let cell = cells.get(number).ok_or_else(|| format!("there are {} cells, counted from 0", cells.len()))?;
    let left_out = reference["left_out"].as_bool().unwrap_or_default();
    Ok(json!({ "figure": sim::reference::simulate(cell, &bricks, seed, left_out)? }))
}

/// Of a plan.
fn events(task: &Value) -> Result<Value, String> {
    let text = |key: &str| task[key].as_str().ok_or_else(|| format!("a task has {key}"));
    let targets = vec![text("target")?.to_string()];
    if !is_modelled(&targets[0]) {
        return Err(format!("{}: is no modelled brick", targets[0]));
    }
    let profile = Profile::from_json(text("plan")?).map_err(|e| e.to_string())?;
    let options = Options::from_json(&task["options"].to_string(), &targets).map_err(|refusal| refusal.message)?;
    let session = run::prepare(profile, &targets, &options).map_err(|refusal| refusal.message)?;
    let mut told = Vec::new();
    session.run(&RunControl::default(), &mut |event: Event| told.push(event.to_json()));
    Ok(json!({ "events": told }))
}
