//! The bricks that ship with Brickyard.

use std::path::Path;

pub fn brick_texts() -> sim::brick::Texts {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/brickyard/bricks");
    let mut texts = sim::brick::Texts::new();
    for kind in ["drives", "controllers", "arrays"] {
        for entry in std::fs::read_dir(home.join(kind)).expect("the directory of bricks") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|e| e == "toml") {
                let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
                texts.insert(format!("{kind}/{name}"), std::fs::read_to_string(&path).expect("a brick file"));
            }
        }
    }
    texts
}
