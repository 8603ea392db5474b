//! Duty: a log's lines, out of plain, gzip or zstd files or standard input, through one buffer.
//! Refusal: it knows no format, keeps no line, and holds never more than one buffer.

use std::fs::File;
use std::io::{self, Read};

/// A buffer that one `read` of a disk fills well; a log of any size needs no more.
const BUFFER_BYTES: usize = 256 << 10;
/// IIS, Apache and nginx refuse request lines beyond 8 to 16 KiB; with headers logged beside, this is ample.
pub const LINE_BYTES_MAX: usize = 128 << 10;

pub const STDIN: &str = "-";

/// The lines of one log. A line that is longer than any server writes is passed over and counted.
pub struct Lines {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at_end: bool,
    pub overlong: u64,
    pub read_bytes: u64,
    /// A compressed file that ends in mid-stream, or a disk that fails: what came before counts.
    pub torn: Option<String>,
}

impl Lines {
    pub fn open(path: &str) -> Result<Lines, String> {
        if path == STDIN {
            return Lines::new(Box::new(io::stdin())).map_err(|e| format!("standard input: {e}"));
        }
        let explain = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => format!("{path}: does not exist; check the path of the log"),
            io::ErrorKind::PermissionDenied => format!("{path}: may not be read by this account"),
            _ => format!("{path}: {e}"),
        };
        if std::fs::metadata(path).map_err(explain)?.is_dir() {
            return Err(format!("{path}: is a directory; name the logs in it"));
        }
        Lines::new(Box::new(File::open(path).map_err(explain)?)).map_err(explain)
    }

    /// Looks at the first bytes to tell how the log is compressed.
    pub fn new(mut source: Box<dyn Read + Send>) -> io::Result<Lines> {
        let mut head = [0u8; 4];
        let mut known = 0;
        while known < head.len() {
            match source.read(&mut head[known..]) {
                Ok(0) => break,
                Ok(n) => known += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let whole = io::Cursor::new(head[..known].to_vec()).chain(source);
        let source: Box<dyn Read + Send> = match &head[..known] {
            [0x1F, 0x8B, ..] => Box::new(flate2::read::MultiGzDecoder::new(whole)),
            [0x28, 0xB5, 0x2F, 0xFD] => Box::new(zstd::stream::read::Decoder::new(whole)?),
            _ => Box::new(whole),
        };
        let buffer = Vec::new();
        Ok(Lines { source, buffer, start: 0, end: 0, at_end: false, overlong: 0, read_bytes: 0, torn: None })
    }

    /// The next line without its end; None after the last.
    #[inline]
    pub fn next_line(&mut self) -> Option<&[u8]> {
        let mut searched = 0;
        loop {
            let pending = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', &pending[searched..]) {
                let from = self.start;
                self.start += searched + at + 1;
                return Some(trimmed(&self.buffer[from..from + searched + at]));
            }
            searched = pending.len();
            if searched > LINE_BYTES_MAX {
                self.pass_over();
                searched = 0;
                continue;
            }
            if self.at_end {
                if searched == 0 {
                    return None;
                }
                let from = self.start;
                self.start = self.end;
                return Some(trimmed(&self.buffer[from..self.end]));
            }
            self.fill();
        }
    }

    fn fill(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER_BYTES];
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(n) => {
                    self.end += n;
                    self.read_bytes += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    self.torn = Some(e.to_string());
                    self.at_end = true;
                }
            }
            return;
        }
    }

    fn pass_over(&mut self) {
        self.overlong += 1;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
                self.start += at + 1;
                return;
            }
            self.start = self.end;
            if self.at_end {
                return;
            }
            self.fill();
        }
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn all(bytes: Vec<u8>) -> (Vec<String>, Lines) {
        let mut lines = Lines::new(Box::new(io::Cursor::new(bytes))).unwrap();
        let mut found = Vec::new();
        while let Some(line) = lines.next_line() {
            found.push(String::from_utf8_lossy(line).into_owned());
        }
        (found, lines)
    }

    #[test]
    fn plain_gzip_and_zstd_read_the_same() {
        let text: String = (0..50_000).map(|i| format!("line {i} of the log\r\n")).collect::<String>() + "no end";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
        let plain = all(text.into_bytes()).0;
        assert_eq!(plain.len(), 50_001);
        assert_eq!((plain[7].as_str(), plain[50_000].as_str()), ("line 7 of the log", "no end"));
        assert_eq!(all(gzip.finish().unwrap()).0, plain);
        assert_eq!(all(zstd).0, plain);
    }

    #[test]
    fn an_endless_line_is_passed_over() {
        let mut bytes = b"first\n".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', 3 << 20));
        bytes.extend(b"\nlast\n");
        let (found, lines) = all(bytes);
        assert_eq!((found, lines.overlong), (vec!["first".into(), "last".into()], 1));
    }

    #[test]
    fn a_torn_gzip_keeps_what_came_before_and_says_so() {
        let text = "a line that is repeated\n".repeat(100_000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let mut bytes = gzip.finish().unwrap();
        bytes.truncate(bytes.len() / 2);
        let (found, lines) = all(bytes);
        assert!(found.len() > 10_000 && lines.torn.is_some());
    }
}
