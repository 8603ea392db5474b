//! Where events go: standard output, and a copy in a file of this host, which is there when nobody reads the other.
//!
//! Refusal: the copy is a new file, and no other is ever removed.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The copy of the events below a line that says what was ordered; a file that is there already is not ours.
pub fn new_record(path: PathBuf, order: Option<&Path>) -> Result<Copy, String> {
    let refuse = |e: std::io::Error| format!("{}: no record can be made: {e}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(refuse)?;
    }
    let mut file = File::options().write(true).create_new(true).open(&path).map_err(refuse)?;
    if let Some(order) = order {
        let text = std::fs::read_to_string(order).map_err(refuse)?;
        file.write_all(format!("{}\n", text.trim_end()).as_bytes()).map_err(refuse)?;
    }
    Ok(Copy { file, path })
}

/// A file with a copy of the events, which this process has made.
pub struct Copy {
    file: File,
    path: PathBuf,
}

/// Standard output, and the copy of it.
pub struct Out {
    copy: Mutex<Option<Copy>>,
}

impl Out {
    pub fn new(copy: Option<Copy>) -> Out {
        Out { copy: Mutex::new(copy) }
    }

    /// Whether somebody still reads standard output. A copy that cannot be written any more is given up, and that said.
    pub fn line(&self, text: &str) -> bool {
        // Held until both have the line, so that both have all lines in one order.
        let mut copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = copy.as_mut().and_then(|copy| copy.file.write_all(format!("{text}\n").as_bytes()).err());
        let mut out = std::io::stdout().lock();
        if let Some(error) = lost {
            *copy = None;
            let word = serde_json::json!({"word": "record_lost", "message": error.to_string()});
            let _ = writeln!(out, "{word}");
        }
        writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
    }

    /// A line for the copy alone: what whoever started the run knows, and what must outlive them.
    pub fn keep(&self, text: &str) {
        let mut copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        // A copy that cannot be written is said at the next line.
        let _ = copy.as_mut().map(|copy| copy.file.write_all(format!("{text}\n").as_bytes()));
    }

    /// Removes the copy: whoever started the run has it all.
    pub fn forget(&self) {
        let copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Copy { file, path }) = copy else { return };
        let ours = |place: &Path| {
            let (mine, named) = (file.metadata().ok()?, std::fs::symlink_metadata(place).ok()?);
            Some((mine.dev(), mine.ino()) == (named.dev(), named.ino()))
        };
        if ours(&path) == Some(true) {
            let _ = std::fs::remove_file(&path);
            // The run's own folder, which stays where another host of the run has a record in it.
            let _ = path.parent().map(std::fs::remove_dir);
        }
    }
}
