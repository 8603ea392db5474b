//! Repeats the published tables and prints published, simulated and error side by side.
//!
//! `cargo run --release -p brickyard-sim --example reference [BRICKS [WORDS]]`

use sim::reference::{cells, simulate};

#[path = "../tests/common/mod.rs"]
mod common;

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let bricks = common::brick_texts();
    let mut sorted = cells().to_vec();
    sorted.sort_by_key(|c| (c.table.clone(), c.condition != "normal"));
    let mut table = String::new();
    let mut errors: Vec<f64> = Vec::new();
    for cell in
        sorted.iter().filter(|c| words.iter().all(|w| format!("{} {} {}", c.table, c.label, c.condition).contains(w)))
    {
        let key = format!("{} ({})", cell.table, if cell.condition == "normal" { "normal" } else { "rebuilds" });
        if key != table {
            summary(&table, &mut errors);
            println!("{key}");
            table = key;
        }
        let simulated = simulate(cell, &bricks, 1, false)?;
        let error = simulated / cell.published - 1.0;
        errors.push(error.abs());
        println!(
            "  {:55} {:22} {:10.1} {simulated:10.1} {:+7.1} %",
            cell.label,
            cell.condition,
            cell.published,
            error * 100.0
        );
    }
    summary(&table, &mut errors);
    Ok(())
}

fn summary(table: &str, errors: &mut Vec<f64>) {
    if errors.is_empty() {
        return;
    }
    errors.sort_by(f64::total_cmp);
    let (median, most) = (errors[errors.len() / 2], errors[errors.len() - 1]);
    println!("  => {table}: median {:.1} %, most {:.1} %\n", median * 100.0, most * 100.0);
    errors.clear();
}
