//! What a trace is like: sizes, mix, alignment, order, gaps, depth, locality and latencies, each as it would be seen at
//! the device while the trace was taken.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::io::{self, Read};

use record::Histogram;
use serde::Serialize;

use crate::file::{Device, End, Header, Ordered, Reader, Summary};
use crate::request::{FAILED, FUA, META, Operation, READ_AHEAD, Request, SYNC};
use crate::reuse::{Returns, Reuse};

/// Boundaries from a sector to 1 MiB.
const BOUNDARIES: usize = 12;
const SECTOR_BITS: u32 = 9;
/// Different sizes of an operation that are counted one by one.
const SIZES_KEPT: usize = 1024;
/// A request is sequential if it goes on where one of so many before it ended.
const STREAMS: usize = 32;
/// Depths above are counted together.
const DEPTH_LIMIT: usize = 4096;
/// Windows in which arrivals are counted to see bursts: 1, 10, 100 ms and 1 s.
const WINDOWS_NS: [u64; 4] = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
/// Values of each kind that are kept to compare traces with.
pub const SAMPLES: usize = 100_000;

/// What a trace says of itself, read from its first request to its last.
#[derive(Debug, Clone, Serialize)]
pub struct Contents {
    pub header: Header,
    pub summary: Summary,
    /// All devices by their numbers.
    pub devices: Vec<Device>,
    /// Numbers of the devices whose requests count, the lowest first.
    pub counted: Vec<u32>,
    /// Why it ends before its end, and where; none of a whole one.
    pub torn: Option<String>,
}

/// Reads a whole trace, of which only the device of that number counts.
pub fn contents(mut reader: Reader<impl Read>, device: Option<u32>) -> io::Result<Contents> {
    let mut summary = Summary::default();
    let mut counted = BTreeSet::new();
    while let Some(request) = reader.next()? {
        if device.is_none_or(|wanted| wanted == request.device) {
            summary.count(&request);
            counted.insert(request.device);
        }
    }
    let whole = reader.summary();
    (summary.lost, summary.bad, summary.devices) = (whole.lost, whole.bad, whole.devices.clone());
    // The order of the file is that of all its devices.
    summary.disorder_ns = whole.disorder_ns;
    let devices = reader.header().devices.iter().chain(&whole.devices).cloned().collect();
    let torn = match reader.end() {
        Some(End::Torn { at_bytes, why }) => Some(format!("{why} behind byte {at_bytes}")),
        _ => None,
    };
    let counted = counted.into_iter().collect();
    Ok(Contents { header: reader.header().clone(), summary, devices, counted, torn })
}

/// Of one operation.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OperationFigures {
    pub requests: u64,
    pub bytes: u64,
    /// Requests by size, the smallest first.
    pub sizes: Vec<(u64, u64)>,
    /// Requests that begin on a multiple of 512 B, 1 KiB … 1 MiB.
    pub aligned: Vec<u64>,
    /// Requests whose size is such a multiple.
    pub whole: Vec<u64>,
    /// Requests that begin where one of the last 32 of the same operation ended.
    pub sequential: u64,
    /// First and last byte that it touches.
    pub from_bytes: u64,
    pub to_bytes: u64,
    /// Share of its requests that begin in a block of 4 KiB in which an earlier one of them began.
    pub reused: f64,
    pub fua: u64,
    pub sync: u64,
    pub read_ahead: u64,
    pub meta: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// From issue to end, as ends of buckets in ns and counts; empty where ends are not known.
    pub service: Vec<(u64, u64)>,
    /// From arrival to end, the same way.
    pub response: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Burst {
    pub window_ns: u64,
    /// Variance over mean of the arrivals in windows of that length: 1 of independent arrivals, more of bursts.
    pub dispersion: f64,
    /// The most arrivals in one of them.
    pub most: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    pub read: OperationFigures,
    pub write: OperationFigures,
    pub flush: OperationFigures,
    pub discard: OperationFigures,
    /// Between arrivals, as ends of buckets in ns and counts.
    pub gaps: Vec<(u64, u64)>,
    pub gap_mean_ns: f64,
    /// Deviation of the gaps over their mean: 1 of independent arrivals.
    pub gap_variation: f64,
    pub bursts: Vec<Burst>,
    /// Requests that found so many others under way at their device when they arrived; empty where ends are not known.
    pub depths: Vec<(u64, u64)>,
    pub depth_mean: f64,
    pub depth_max: u64,
    /// Distances in bytes to where the request before ended, as powers of two and counts; 0 is sequential.
    pub seeks: Vec<(u64, u64)>,
    /// First and last byte that is touched.
    pub from_bytes: u64,
    pub to_bytes: u64,
    pub locality: Locality,
}

/// By the 4 KiB block in which reads and writes begin.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Locality {
    /// Of so many requests.
    pub requests: u64,
    /// Different blocks.
    pub blocks: u64,
    /// Share of the requests whose block had been touched before.
    pub reused: f64,
    /// Different blocks between two uses of one, as powers of two and shares of all requests.
    pub distances: Vec<(u64, f64)>,
    /// Share of the requests that goes to the 1, 10 and 20 % of the blocks that are touched most.
    pub hottest: [f64; 3],
    /// Blocks are sampled at this rate; distances and numbers are scaled up.
    pub sampled: f64,
}

/// Values of single requests, to compare the distributions of two traces: at most [`SAMPLES`] of each kind, evenly out of
/// the whole trace.
#[derive(Debug, Default)]
pub struct Samples {
    pub sizes: Vec<f64>,
    pub gaps: Vec<f64>,
    pub depths: Vec<f64>,
    /// Infinite where a block is touched for the first time.
    pub reuses: Vec<f64>,
    pub latencies: Vec<f64>,
}

#[derive(Default)]
struct Counting {
    figures: OperationFigures,
    sizes: BTreeMap<u64, u64>,
    service: Histogram,
    response: Histogram,
    /// Where the last requests ended: device and byte.
    ends: VecDeque<(u32, u64)>,
    returns: Returns,
}

impl Counting {
    fn count(&mut self, request: &Request) {
        let figures = &mut self.figures;
        figures.requests += 1;
        figures.bytes = figures.bytes.saturating_add(request.bytes);
        let crowded = self.sizes.len() >= SIZES_KEPT && !self.sizes.contains_key(&request.bytes);
        *self.sizes.entry(if crowded { request.bytes.next_power_of_two() } else { request.bytes }).or_default() += 1;
        for flag in [FUA, SYNC, READ_AHEAD, META, FAILED] {
            let count = match flag {
                FUA => &mut figures.fua,
                SYNC => &mut figures.sync,
                READ_AHEAD => &mut figures.read_ahead,
                FAILED => &mut figures.failed,
                _ => &mut figures.meta,
            };
            *count += u64::from(request.is(flag));
        }
        if request.has_place() {
            let bits = |value: u64| (value.trailing_zeros().saturating_sub(SECTOR_BITS) as usize).min(BOUNDARIES - 1);
            for (value, counts) in [(request.offset_bytes, &mut figures.aligned), (request.bytes, &mut figures.whole)] {
                if value % (1 << SECTOR_BITS) == 0 {
                    counts[..=bits(value)].iter_mut().for_each(|count| *count += 1);
                }
            }
            match self.ends.iter().position(|end| *end == (request.device, request.offset_bytes)) {
                Some(number) => {
                    figures.sequential += 1;
                    self.ends.remove(number);
                }
                None if self.ends.len() >= STREAMS => drop(self.ends.pop_front()),
                None => {}
            }
            self.ends.push_back((request.device, request.end_bytes()));
            figures.from_bytes =
                if figures.to_bytes == 0 { request.offset_bytes } else { figures.from_bytes.min(request.offset_bytes) };
            figures.to_bytes = figures.to_bytes.max(request.end_bytes());
            self.returns.touch(crate::reuse::block_of(request));
        }
        if let Some(ns) = request.service_ns() {
            self.service.record(ns, 1);
        }
        if let Some(ns) = request.response_ns() {
            self.response.record(ns, 1);
        }
    }

    fn end(mut self) -> OperationFigures {
        self.figures.reused = self.returns.share();
        self.figures.sizes = self.sizes.into_iter().collect();
        self.figures.service = self.service.ends().collect();
        self.figures.response = self.response.ends().collect();
        self.figures
    }
}

/// Sums of what arrives in windows of one length.
struct Windows {
    window_ns: u64,
    number: u64,
    here: u64,
    /// Windows, arrivals and their squares; empty windows count in the first alone.
    windows: f64,
    sum: f64,
    squares: f64,
    most: u64,
}

impl Windows {
    fn new(window_ns: u64) -> Windows {
        Windows { window_ns, number: 0, here: 0, windows: 0.0, sum: 0.0, squares: 0.0, most: 0 }
    }

    fn count(&mut self, at_ns: u64) {
        let number = at_ns / self.window_ns;
        if number != self.number {
            self.close();
            self.windows += (number - self.number - 1) as f64;
            self.number = number;
        }
        self.here += 1;
    }

    fn close(&mut self) {
        let here = self.here as f64;
        self.windows += 1.0;
        self.sum += here;
        self.squares += here * here;
        self.most = self.most.max(self.here);
        self.here = 0;
    }

    /// The last window is not over, so it does not count.
    fn end(self) -> Option<Burst> {
        if self.windows < 10.0 || self.sum == 0.0 {
            return None;
        }
        let mean = self.sum / self.windows;
        let dispersion = (self.squares / self.windows - mean * mean) / mean;
        Some(Burst { window_ns: self.window_ns, dispersion, most: self.most })
    }
}

/// The figures of a trace whose [`Contents`] are known, and samples of single requests.
pub fn figures(reader: Reader<impl Read>, contents: &Contents, device: Option<u32>) -> io::Result<(Figures, Samples)> {
    let summary = &contents.summary;
    let mut ordered = Ordered::new(reader, summary.disorder_ns);
    let zeros = || vec![0; BOUNDARIES];
    let counting = || {
        let figures = OperationFigures { aligned: zeros(), whole: zeros(), ..OperationFigures::default() };
        let returns = Returns::new(summary.reads + summary.writes);
        Counting { figures, returns, ..Counting::default() }
    };
    let mut counts = Operation::ALL.map(|_| counting());
    let mut windows: Vec<Windows> = WINDOWS_NS.into_iter().map(Windows::new).collect();
    let (mut gaps, mut seeks) = (Histogram::default(), BTreeMap::<u64, u64>::new());
    let (mut gap_sum, mut gap_squares, mut gap_count) = (0.0f64, 0.0f64, 0u64);
    let mut depths = vec![0u64; DEPTH_LIMIT + 1];
    let (mut depth_sum, mut depth_max, mut depth_count) = (0u64, 0u64, 0u64);
    // Each device has its own queue and its own place.
    let mut queues: HashMap<u32, BinaryHeap<Reverse<u64>>> = HashMap::new();
    let mut places: HashMap<u32, u64> = HashMap::new();
    let mut reuse = Reuse::new(summary.reads + summary.writes);
    let mut samples = Samples::default();
    let stride = (summary.requests / SAMPLES as u64 + 1).max(1);
    let (mut number, mut before_ns, mut from_bytes) = (0u64, None, u64::MAX);
    while let Some(request) = ordered.next()? {
        if device.is_some_and(|wanted| wanted != request.device) {
            continue;
        }
        let kept = number % stride == 0;
        number += 1;
        let since_ns = request.arrival_ns - summary.first_ns.min(request.arrival_ns);
        windows.iter_mut().for_each(|window| window.count(since_ns));
        if let Some(before_ns) = before_ns.replace(request.arrival_ns) {
            let gap_ns: u64 = request.arrival_ns.saturating_sub(before_ns);
            gaps.record(gap_ns, 1);
            gap_sum += gap_ns as f64;
            gap_squares += gap_ns as f64 * gap_ns as f64;
            gap_count += 1;
            if kept {
                samples.gaps.push(gap_ns as f64);
            }
        }
        if let Some(end_ns) = request.complete_ns {
            let under_way = queues.entry(request.device).or_default();
            while under_way.peek().is_some_and(|Reverse(end_ns)| *end_ns <= request.arrival_ns) {
                under_way.pop();
            }
            let depth = under_way.len() as u64;
            depths[(depth as usize).min(DEPTH_LIMIT)] += 1;
            depth_sum += depth;
            depth_count += 1;
            depth_max = depth_max.max(depth);
            under_way.push(Reverse(end_ns));
            if kept {
                samples.depths.push(depth as f64);
                samples.latencies.push(request.service_ns().unwrap_or(0) as f64);
            }
        }
        if request.has_place() {
            if let Some(end) = places.insert(request.device, request.end_bytes()) {
                let distance: u64 = request.offset_bytes.abs_diff(end);
                let bucket = if distance == 0 { 0 } else { 1u64 << distance.ilog2() };
                *seeks.entry(bucket).or_default() += 1;
            }
            from_bytes = from_bytes.min(request.offset_bytes);
        }
        if matches!(request.operation, Operation::Read | Operation::Write) {
            if let Some(distance) = reuse.touch(crate::reuse::block_of(&request))
                && samples.reuses.len() < SAMPLES * 2
            {
                samples.reuses.push(distance);
            }
            if kept {
                samples.sizes.push(request.bytes as f64);
            }
        }
        counts[request.operation as usize].count(&request);
    }
    let gap_mean_ns = gap_sum / gap_count.max(1) as f64;
    let deviation = (gap_squares / gap_count.max(1) as f64 - gap_mean_ns * gap_mean_ns).max(0.0).sqrt();
    let [read, write, flush, discard] = counts.map(Counting::end);
    let figures = Figures {
        read,
        write,
        flush,
        discard,
        gaps: gaps.ends().collect(),
        gap_mean_ns,
        gap_variation: if gap_mean_ns > 0.0 { deviation / gap_mean_ns } else { 0.0 },
        bursts: windows.into_iter().filter_map(Windows::end).collect(),
        depths: depths.iter().enumerate().filter(|(_, count)| **count > 0).map(|(d, c)| (d as u64, *c)).collect(),
        depth_mean: depth_sum as f64 / depth_count.max(1) as f64,
        depth_max,
        seeks: seeks.into_iter().collect(),
        from_bytes: if from_bytes == u64::MAX { 0 } else { from_bytes },
        to_bytes: summary.end_bytes,
        locality: reuse.end(),
    };
    Ok((figures, samples))
}
