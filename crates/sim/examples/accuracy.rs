//! Every published table with the models' median and largest error, and the pairs that they order otherwise: a look at
//! what a change of a model does, without the command line's report.

use std::collections::BTreeMap;
use std::path::Path;

use sim::brick::Texts;
use sim::reference::{Cell, cells, simulate};

fn texts() -> Texts {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/brickyard/bricks");
    let mut texts = Texts::new();
    for kind in ["drives", "controllers", "arrays"] {
        for entry in std::fs::read_dir(home.join(kind)).expect("the directory of bricks").flatten() {
            if let Some(name) = entry.file_name().to_str().and_then(|n| n.strip_suffix(".toml")) {
                let text = std::fs::read_to_string(entry.path()).expect("a brick file");
                texts.insert(format!("{kind}/{name}"), text);
            }
        }
    }
    texts
}

fn main() {
    let bricks = texts();
    let outcomes: Vec<(&Cell, f64)> =
        cells().iter().map(|c| (c, simulate(c, &bricks, 1, false).expect("a brick that runs"))).collect();
    let mut tables: BTreeMap<String, Vec<(f64, String)>> = BTreeMap::new();
    for (cell, simulated) in &outcomes {
        let state = if cell.condition == "normal" { "" } else { cell.condition };
        let error = simulated / cell.published - 1.0;
        let line = format!("{:+6.1} %  {simulated:9.1} of {:9.1}  {}", error * 100.0, cell.published, cell.label);
        tables.entry(format!("{} {state}", cell.table)).or_default().push((error.abs(), line));
    }
    for (table, mut found) in tables {
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        println!("{table}: median {:.1} %", found[found.len() / 2].0 * 100.0);
        found.iter().rev().take_while(|f| f.0 > 0.2).for_each(|f| println!("    {}", f.1));
    }
    let (mut pairs, mut wrong) = (0, 0);
    for (i, a) in outcomes.iter().enumerate() {
        for b in outcomes[i + 1..].iter().filter(|b| b.0.group == a.0.group && b.0.unit == a.0.unit) {
            let (low, high) = if a.0.published < b.0.published { (a, b) } else { (b, a) };
            if high.0.published > low.0.published * 1.1 {
                pairs += 1;
                if high.1 <= low.1 {
                    wrong += 1;
                    println!(
                        "{} {}: {} {:.1} | {} {:.1}",
                        a.0.table, high.0.label, high.0.condition, high.1, low.0.label, low.1
                    );
                }
            }
        }
    }
    println!("{wrong} of {pairs} pairs are ordered otherwise");
}
