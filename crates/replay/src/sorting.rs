//! Duty: calls of logs in disorder in the order of their stamps, by an external merge sort: memory is bounded, the rest
//! is in one file that has no name. Calls of equal stamps keep their order.
//! Refusal: it knows no log; nothing that it writes can be seen, or is left, when its process dies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::mapping::Call;
use crate::values::Value;

/// Calls in memory before they go to the file: half a million or so.
pub const HELD_BYTES: usize = 64 << 20;
/// Sorted runs that are merged at a time; each has a buffer.
const FAN_IN: usize = 128;
const BUFFER_BYTES: usize = 64 << 10;
/// Of a key in memory, beside the encoded call.
const KEY_BYTES: usize = size_of::<(i64, usize)>();

/// Where a sorted run lies in the file.
#[derive(Debug, Clone, Copy)]
struct Extent {
    start: u64,
    end: u64,
}

/// Takes calls in any order.
pub struct Sorter {
    held_max: usize,
    encoded: Vec<u8>,
    /// Stamp and place of each call in memory.
    keys: Vec<(i64, usize)>,
    runs: Vec<Extent>,
    file: Option<File>,
    file_bytes: u64,
}

impl Sorter {
    pub fn new(held_max: usize) -> Sorter {
        Sorter { held_max, encoded: Vec::new(), keys: Vec::new(), runs: Vec::new(), file: None, file_bytes: 0 }
    }

    pub fn push(&mut self, call: &Call, is_whole_second: bool) -> Result<(), String> {
        self.keys.push((call.at_ns, self.encoded.len()));
        encode(call, is_whole_second, &mut self.encoded);
        if self.encoded.len() + self.keys.len() * KEY_BYTES >= self.held_max {
            self.spill()?;
        }
        Ok(())
    }

    /// All that were pushed, in order.
    pub fn finish(mut self) -> Result<Sorted, String> {
        if !self.runs.is_empty() {
            self.spill()?;
            self.encoded = Vec::new();
            self.keys = Vec::new();
        }
        while self.runs.len() > FAN_IN {
            // Neighbouring runs become one in their place, so that equal stamps keep their order.
            let rest = self.runs.split_off(FAN_IN);
            let file = self.file.as_ref().ok_or("the sort has lost its file")?;
            let mut merge = Merge::new(file, &self.runs)?;
            let (start, mut at, mut buffer) = (self.file_bytes, self.file_bytes, Vec::new());
            while let Some(record) = merge.next(file)? {
                buffer.extend_from_slice(&record);
                if buffer.len() >= BUFFER_BYTES {
                    at = written(file, &mut buffer, at)?;
                }
            }
            self.file_bytes = written(file, &mut buffer, at)?;
            self.runs = rest;
            self.runs.insert(0, Extent { start, end: self.file_bytes });
        }
        self.keys.sort_by_key(|(at_ns, _)| *at_ns);
        let mut sorted = Sorted { sorter: self, next: 0, merge: None };
        sorted.rewind()?;
        Ok(sorted)
    }

    fn spill(&mut self) -> Result<(), String> {
        if self.keys.is_empty() {
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(place::nameless_file(&place()).map_err(|e| trouble(&e))?);
        }
        let Some(file) = &self.file else { return Ok(()) };
        // A stable sort: calls of equal stamps keep their order.
        self.keys.sort_by_key(|(at_ns, _)| *at_ns);
        let (start, mut at, mut buffer) = (self.file_bytes, self.file_bytes, Vec::new());
        for (_, place) in &self.keys {
            buffer.extend_from_slice(record_at(&self.encoded, *place));
            if buffer.len() >= BUFFER_BYTES {
                at = written(file, &mut buffer, at)?;
            }
        }
        self.file_bytes = written(file, &mut buffer, at)?;
        self.runs.push(Extent { start, end: self.file_bytes });
        self.encoded.clear();
        self.keys.clear();
        Ok(())
    }
}

/// Calls in order; can begin again.
pub struct Sorted {
    sorter: Sorter,
    next: usize,
    merge: Option<Merge>,
}

impl Sorted {
    pub fn rewind(&mut self) -> Result<(), String> {
        self.next = 0;
        self.merge = match &self.sorter.file {
            Some(file) => Some(Merge::new(file, &self.sorter.runs)?),
            None => None,
        };
        Ok(())
    }

    /// The next call, and whether of its stamp only the second is known.
    pub fn next_call(&mut self) -> Result<Option<(Call, bool)>, String> {
        if let (Some(merge), Some(file)) = (&mut self.merge, &self.sorter.file) {
            return Ok(merge.next(file)?.map(|record| decoded(&record)));
        }
        let Some((_, place)) = self.sorter.keys.get(self.next) else { return Ok(None) };
        self.next += 1;
        Ok(Some(decoded(record_at(&self.sorter.encoded, *place))))
    }
}

/// Several sorted runs as one.
struct Merge {
    runs: Vec<Run>,
    /// The stamp of each run's next call; of equal ones the earlier run goes first.
    heads: BinaryHeap<Reverse<(i64, usize)>>,
}

struct Run {
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl Merge {
    fn new(file: &File, extents: &[Extent]) -> Result<Merge, String> {
        let mut merge = Merge { runs: Vec::new(), heads: BinaryHeap::new() };
        for (number, extent) in extents.iter().enumerate() {
            let mut run = Run { at: extent.start, end: extent.end, buffer: Vec::new(), used: 0 };
            if let Some(at_ns) = run.head(file)? {
                merge.heads.push(Reverse((at_ns, number)));
            }
            merge.runs.push(run);
        }
        Ok(merge)
    }

    fn next(&mut self, file: &File) -> Result<Option<Vec<u8>>, String> {
        let Some(Reverse((_, number))) = self.heads.pop() else { return Ok(None) };
        let run = &mut self.runs[number];
        let record = record_at(&run.buffer, run.used).to_vec();
        run.used += record.len();
        if let Some(at_ns) = run.head(file)? {
            self.heads.push(Reverse((at_ns, number)));
        }
        Ok(Some(record))
    }
}

impl Run {
    /// The stamp of the next call, once all of it is in the buffer.
    fn head(&mut self, file: &File) -> Result<Option<i64>, String> {
        loop {
            let left = &self.buffer[self.used..];
            if left.len() >= 4 && left.len() >= 4 + length_at(left, 0) {
                let stamp: [u8; 8] = left[4..12].try_into().map_err(|_| "the sort has lost a call")?;
                return Ok(Some(i64::from_le_bytes(stamp)));
            }
            if self.at == self.end {
                return if left.is_empty() { Ok(None) } else { Err("the sort has lost a call".into()) };
            }
            self.buffer.drain(..self.used);
            self.used = 0;
            let from = self.buffer.len();
            let length = BUFFER_BYTES.min((self.end - self.at) as usize);
            self.buffer.resize(from + length, 0);
            file.read_exact_at(&mut self.buffer[from..], self.at).map_err(|e| trouble(&e))?;
            self.at += length as u64;
        }
    }
}

fn written(file: &File, buffer: &mut Vec<u8>, at: u64) -> Result<u64, String> {
    file.write_all_at(buffer, at).map_err(|e| trouble(&e))?;
    let end = at + buffer.len() as u64;
    buffer.clear();
    Ok(end)
}

fn trouble(error: &io::Error) -> String {
    let place = place();
    format!("sorting the logs in {}: {error}; name a directory with more room in TMPDIR", place.display())
}

/// On a disk, other than /tmp may be.
fn place() -> PathBuf {
    let given = std::env::var_os("TMPDIR").filter(|t| !t.is_empty()).map(PathBuf::from);
    given.unwrap_or_else(|| PathBuf::from("/var/tmp"))
}

fn length_at(bytes: &[u8], place: usize) -> usize {
    let mut length = [0u8; 4];
    length.copy_from_slice(&bytes[place..place + 4]);
    u32::from_le_bytes(length) as usize
}

/// A call as it was encoded, its length first.
fn record_at(bytes: &[u8], place: usize) -> &[u8] {
    &bytes[place..place + 4 + length_at(bytes, place)]
}

fn encode(call: &Call, is_whole_second: bool, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; 4]);
    out.extend(call.at_ns.to_le_bytes());
    out.push(u8::from(is_whole_second));
    out.extend(call.session.to_le_bytes());
    out.extend(call.call.to_le_bytes());
    out.extend(call.brick.to_le_bytes());
    out.extend(call.expected_rows.to_le_bytes());
    for value in &call.values {
        match value {
            Value::Null => out.push(0),
            Value::Int(v) => {
                out.push(1);
                out.extend(v.to_le_bytes());
            }
            Value::Float(v) => {
                out.push(2);
                out.extend(v.to_le_bytes());
            }
            Value::Bool(v) => out.extend([3, u8::from(*v)]),
            Value::Text(text) => {
                out.push(4);
                out.extend((text.len() as u32).to_le_bytes());
                out.extend(text.as_bytes());
            }
        }
    }
    // A line, and so a call, has 128 KiB at the most.
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn decoded(record: &[u8]) -> (Call, bool) {
    let mut rest = &record[4..];
    let at_ns = i64::from_le_bytes(taken(&mut rest));
    let [is_whole_second] = taken(&mut rest);
    let session = u64::from_le_bytes(taken(&mut rest));
    let call = u16::from_le_bytes(taken(&mut rest));
    let brick = u16::from_le_bytes(taken(&mut rest));
    let expected_rows = i64::from_le_bytes(taken(&mut rest));
    let mut values = Vec::new();
    while !rest.is_empty() {
        let [kind] = taken(&mut rest);
        values.push(match kind {
            1 => Value::Int(i64::from_le_bytes(taken(&mut rest))),
            2 => Value::Float(f64::from_le_bytes(taken(&mut rest))),
            3 => Value::Bool(taken::<1>(&mut rest) == [1]),
            4 => {
                let length = u32::from_le_bytes(taken(&mut rest)) as usize;
                let (text, after) = rest.split_at(length.min(rest.len()));
                rest = after;
                Value::Text(String::from_utf8_lossy(text).into())
            }
            _ => Value::Null,
        });
    }
    (Call { at_ns, session, call, brick, expected_rows, values: values.into() }, is_whole_second == 1)
}

/// The next bytes; zeros where there are none, which cannot be of what was written here.
fn taken<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (head, after) = rest.split_first_chunk::<N>().map_or(([0; N], &rest[rest.len()..]), |(h, a)| (*h, a));
    *rest = after;
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(at_ns: i64, number: i64) -> Call {
        let text = Value::Text("é".repeat(number as usize % 7).into());
        let values = vec![Value::Int(number), text, Value::Null, Value::Bool(true), Value::Float(-0.5)];
        Call { at_ns, session: number as u64, call: 3, brick: 1, expected_rows: -1, values: values.into() }
    }

    #[test]
    fn any_number_of_runs_merges_and_equal_stamps_keep_their_order() {
        // From one run in memory to more runs than are merged at a time.
        for (held_max, runs) in [(HELD_BYTES, 0..1), (200_000, 2..128), (2_000, 129..10_000)] {
            let mut sorter = Sorter::new(held_max);
            let mut random = pace::SplitMix64::new(&[7]);
            let mut wanted: Vec<(i64, i64)> =
                (0..20_000).map(|n| ((random.next_u64() % 500) as i64 - 250, n)).collect();
            for (at_ns, number) in &wanted {
                sorter.push(&call(*at_ns, *number), number % 3 == 0).unwrap();
            }
            assert!(runs.contains(&sorter.runs.len()), "{} runs", sorter.runs.len());
            let mut sorted = sorter.finish().unwrap();
            wanted.sort_by_key(|(at_ns, _)| *at_ns);
            for lap in 0..2 {
                for (at_ns, number) in &wanted {
                    let found = sorted.next_call().unwrap();
                    assert_eq!(found, Some((call(*at_ns, *number), number % 3 == 0)), "lap {lap}");
                }
                assert_eq!(sorted.next_call().unwrap(), None);
                sorted.rewind().unwrap();
            }
        }
    }
}
