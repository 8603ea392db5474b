//! Reading a trace, up to its end or its tear.

use std::fmt;
use std::io::{self, Read};

use super::coding::Before;
use super::{DONE, HEAD, Header, MAGIC, PART_BYTES, PART_LIMIT, REQUESTS, Summary, sum_of};
use crate::lines::read_up_to;
use crate::request::Request;

/// Why nothing of a file can be read.
#[derive(Debug)]
pub enum ReadError {
    Io(io::Error),
    /// In one line, with what to do.
    NoTrace(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ReadError::Io(error) => write!(f, "{error}"),
            ReadError::NoTrace(message) => f.write_str(message),
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

/// How a trace ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It has a summary.
    Whole,
    /// It was cut off or is damaged behind so many bytes; everything before was read.
    Torn { at_bytes: u64, why: &'static str },
}

pub struct Reader<R: Read> {
    from: R,
    header: Header,
    block: Vec<u8>,
    /// Where the next request of the block begins, and how many are left.
    at: usize,
    left: u32,
    before: Before,
    read_bytes: u64,
    /// Of what was read.
    summary: Summary,
    end: Option<End>,
}

struct Part {
    kind: [u8; 4],
    requests: u32,
}

impl<R: Read> Reader<R> {
    /// `from` is read in whole blocks and needs no buffer.
    pub fn new(mut from: R) -> Result<Reader<R>, ReadError> {
        let no_trace = |message: &str| ReadError::NoTrace(message.to_string());
        let mut magic = [0; MAGIC.len()];
        let got = read_up_to(&mut from, &mut magic)?;
        if got < magic.len() || magic[..7] != MAGIC[..7] {
            return Err(no_trace("is no trace of ours; `brickyard trace import` reads those of other tools"));
        }
        if magic[7] != MAGIC[7] {
            let (theirs, ours) = (magic[7], MAGIC[7]);
            return Err(ReadError::NoTrace(format!(
                "is a trace of version {theirs}; this program reads version {ours}"
            )));
        }
        let mut reader = Reader {
            from,
            header: Header::default(),
            block: Vec::new(),
            at: 0,
            left: 0,
            before: Before::START,
            read_bytes: MAGIC.len() as u64,
            summary: Summary::default(),
            end: None,
        };
        match reader.next_part()? {
            Ok(Part { kind: HEAD, .. }) => match serde_json::from_slice(&reader.block) {
                Ok(header) => reader.header = header,
                Err(_) => return Err(no_trace("has a header that cannot be read")),
            },
            Ok(_) => return Err(no_trace("does not begin with a header")),
            Err(why) => return Err(ReadError::NoTrace(format!("has a damaged header: {why}"))),
        }
        Ok(reader)
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Of the requests that were read so far; of the whole trace once [`Reader::end`] says so.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// How the trace ended, once `next` has returned none.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// The next request in the order of the file.
    #[inline]
    #[allow(clippy::should_implement_trait)] // it may fail
    pub fn next(&mut self) -> io::Result<Option<Request>> {
        while self.left == 0 {
            if self.end.is_some() || !self.next_block()? {
                return Ok(None);
            }
        }
        let mut rest = &self.block[self.at..];
        match self.before.read(&mut rest) {
            Some(request) => {
                self.at = self.block.len() - rest.len();
                self.left -= 1;
                self.summary.count(&request);
                Ok(Some(request))
            }
            None => {
                // Its check sum was right, so whoever wrote it did not keep to the form.
                self.left = 0;
                self.tear("a block has fewer requests than it says");
                Ok(None)
            }
        }
    }

    fn tear(&mut self, why: &'static str) {
        self.end = Some(End::Torn { at_bytes: self.read_bytes, why });
    }

    /// False: there is none.
    fn next_block(&mut self) -> io::Result<bool> {
        match self.next_part()? {
            Ok(Part { kind: REQUESTS, requests }) => {
                (self.at, self.left, self.before) = (0, requests, Before::START);
                return Ok(true);
            }
            Ok(Part { kind: DONE, .. }) => match serde_json::from_slice::<Summary>(&self.block) {
                Ok(told) if told.requests == self.summary.requests => {
                    (self.summary.lost, self.summary.bad) = (told.lost, told.bad);
                    self.summary.devices = told.devices;
                    self.end = Some(End::Whole);
                }
                Ok(_) => self.tear("blocks are missing"),
                Err(_) => self.tear("its summary cannot be read"),
            },
            Ok(_) => self.tear("a part has an unknown kind"),
            Err(why) => self.tear(why),
        }
        Ok(false)
    }

    /// Reads the next part into the block; or why there is none.
    fn next_part(&mut self) -> io::Result<Result<Part, &'static str>> {
        let mut head = [0; PART_BYTES];
        let got = read_up_to(&mut self.from, &mut head)?;
        if got < PART_BYTES {
            return Ok(Err("it was cut off"));
        }
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (kind, length) = ([head[0], head[1], head[2], head[3]], word(4) as usize);
        let (requests, sum) = (word(8), word(12));
        if length > PART_LIMIT {
            return Ok(Err("the length of a part is damaged"));
        }
        self.block.resize(length, 0);
        let got = read_up_to(&mut self.from, &mut self.block)?;
        if got < length {
            return Ok(Err("it was cut off"));
        }
        if sum_of(kind, requests, &self.block) != sum {
            return Ok(Err("a check sum is wrong"));
        }
        self.read_bytes += (PART_BYTES + length) as u64;
        Ok(Ok(Part { kind, requests }))
    }
}
