//! Where events go: standard output, and a copy in a file of this host, which is there when nobody reads the other.
//!
//! Refusal: the copy is a new file, and no other is ever removed.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A copy of the events, or why there is none on a disk that has no room for it.
pub type Kept = Result<Copy, String>;

/// The copy of the events below a line that says what was ordered; a file that is there already is not ours.
///
/// Nothing stays of a copy that finds no room.
pub fn new_record(path: PathBuf, order: Option<&Path>) -> Result<Kept, String> {
    let name = path.display().to_string();
    made(path, order).map(Ok).or_else(|e| match e.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Ok(Err(e.to_string())),
        _ => Err(format!("{name}: no record can be made: {e}")),
    })
}

fn made(path: PathBuf, order: Option<&Path>) -> std::io::Result<Copy> {
    let text = order.map(std::fs::read_to_string).transpose()?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut copy = Copy { file: File::options().write(true).create_new(true).open(&path)?, path };
    let line = text.map(|text| format!("{}\n", text.trim_end())).unwrap_or_default();
    match copy.file.write_all(line.as_bytes()) {
        Ok(()) => Ok(copy),
        Err(e) => {
            copy.remove();
            Err(e)
        }
    }
}

/// A file with a copy of the events, which this process has made.
pub struct Copy {
    file: File,
    path: PathBuf,
}

impl Copy {
    /// Removes the file, if it still has its name.
    fn remove(self) {
        let ours = |place: &Path| {
            let (mine, named) = (self.file.metadata().ok()?, std::fs::symlink_metadata(place).ok()?);
            Some((mine.dev(), mine.ino()) == (named.dev(), named.ino()))
        };
        if ours(&self.path) == Some(true) {
            let _ = std::fs::remove_file(&self.path);
            // The run's own folder, which stays where another host of the run has a record in it.
            let _ = self.path.parent().map(std::fs::remove_dir);
        }
    }
}

/// Standard output, and the copy of it.
pub struct Out {
    copy: Mutex<Option<Copy>>,
}

impl Out {
    /// Says at once where there is no copy because its disk is full.
    pub fn new(kept: Option<Kept>) -> Out {
        let copy = kept.and_then(|kept| kept.map_err(|why| say_lost(&mut std::io::stdout().lock(), &why)).ok());
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
            say_lost(&mut out, &error.to_string());
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
        if let Some(copy) = self.copy.lock().unwrap_or_else(PoisonError::into_inner).take() {
            copy.remove();
        }
    }
}

fn say_lost(out: &mut impl Write, why: &str) {
    let word = serde_json::json!({"word": "record_lost", "message": why});
    // Whoever does not read this does not read the events either, which ends the run.
    let _ = writeln!(out, "{word}");
}
