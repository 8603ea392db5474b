//! Duty: what a lane asks of its target next: operation, offset and size, drawn from the shares of its stream.
//!
//! Refusal: it never ends by itself and knows no time; limits, pacing and `flush_every` are the loop's.

use crate::address::{
    HotSpots, Normal, OrderSeed, Pareto, Region, Scatter, Sequential, Space, StreamShared, Strided, Uniform, Zipf,
    lane_share,
};
use crate::device::{Entry, Operation};
use crate::rng::Rng;
use crate::source::Request;
use std::sync::Arc;

/// Picks among weighted choices with one integer comparison each; a single choice costs no draw.
#[derive(Debug)]
struct Shares<T> {
    /// The choice, where there is one.
    only: Option<T>,
    /// The choice, and the largest draw that means it.
    choices: Box<[(u64, T)]>,
}

impl<T: Copy> Shares<T> {
    /// None where every share is 0.
    fn new(shares: impl Iterator<Item = (T, f64)>) -> Option<Shares<T>> {
        let shares: Vec<(T, f64)> = shares.filter(|(_, share)| *share > 0.0).collect();
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        let mut sum = 0.0;
        let mut choices: Vec<(u64, T)> = Vec::with_capacity(shares.len());
        for (choice, share) in shares {
            sum += share;
            // 2^64 draws; the cast stops at the largest.
            choices.push((((sum / total * 18_446_744_073_709_551_616.0) as u64).saturating_sub(1), choice));
        }
        choices.last_mut()?.0 = u64::MAX;
        let only = if let [(_, only)] = *choices { Some(only) } else { None };
        Some(Shares { only, choices: choices.into() })
    }

    #[inline]
    fn draw(&self, rng: &mut Rng) -> T {
        if let Some(only) = self.only {
            return only;
        }
        let draw = rng.next_u64();
        let mut at = 0;
        while self.choices[at].0 < draw {
            at += 1;
        }
        self.choices[at].1
    }
}

/// Counts requests into passes for patterns that have no cursor.
#[derive(Debug)]
struct PassCount {
    left: u64,
    pass: u64,
    per_pass: u64,
}

impl PassCount {
    fn new(pass_requests: u64) -> PassCount {
        let per_pass = pass_requests.max(1);
        PassCount { left: per_pass, pass: 0, per_pass }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        if self.left == 0 {
            self.left = self.per_pass;
            self.pass += 1;
        }
        self.left -= 1;
        self.pass
    }
}

/// Every block exactly once a pass over all lanes: lane `l` of `L` takes the places `l`, `l + L`, … of the order.
#[derive(Debug)]
struct Permuted {
    start_bytes: u64,
    order: Scatter,
    order_seed: OrderSeed,
    pass: u64,
    index: u64,
    lane: u64,
    lanes: u64,
}

impl Permuted {
    /// Block number and pass.
    #[inline]
    fn next(&mut self) -> (u64, u64) {
        if self.index >= self.order.len() {
            self.index = self.lane;
            self.pass += 1;
            self.order.rekey(self.order_seed.pass(self.pass));
        }
        let block = self.order.at(self.index);
        self.index += self.lanes;
        (block, self.pass)
    }
}

#[derive(Debug)]
enum Addresses {
    Sequential(Sequential),
    Strided(Strided),
    Permutation(Permuted),
    Random { uniform: Uniform, count: PassCount },
    Mixed { is_random: Shares<bool>, uniform: Uniform, sequential: Sequential, count: PassCount },
    Runs { is_random: Shares<bool>, uniform: Uniform, next_bytes: u64, count: PassCount },
    Zipf { zipf: Zipf, order: Scatter, count: PassCount },
    Pareto { pareto: Pareto, order: Scatter, count: PassCount },
    HotSpots { is_hot: Shares<bool>, spots: HotSpots, uniform: Uniform, count: PassCount },
    Zones { which: Shares<usize>, zones: Box<[Uniform]>, count: PassCount },
    Normal { normal: Normal, order: Scatter, count: PassCount },
}

/// The requests of one lane.
#[derive(Debug)]
pub struct Pattern {
    rng: Rng,
    operations: Shares<Operation>,
    /// Index in `space.sizes`.
    sizes: Shares<usize>,
    /// By operation, where each has sizes of its own; then `sizes` is drawn by none.
    sizes_of: Option<Box<[Shares<usize>; Operation::ALL.len()]>>,
    space: Space,
    addresses: Addresses,
    /// Of the request before; a flush belongs to it too.
    pass: u64,
    pass_requests: u64,
}

impl Pattern {
    /// The pattern of lane `lane` out of `lanes`. All lanes of a stream get the same `shared`, made for this phase.
    /// Offsets are on the target, multiples of the stream's alignment there, and within `region`.
    #[allow(clippy::too_many_arguments)] // each is one word of what makes a lane reproducible
    pub fn new(
        stream: &plan::Stream,
        region: Region,
        seed: u64,
        phase: u32,
        stream_index: u32,
        lane: u32,
        lanes: u32,
        shared: Arc<StreamShared>,
    ) -> Result<Pattern, String> {
        if lane >= lanes {
            return Err(format!("workers: there is no lane {lane} among {lanes}"));
        }
        let sizes: Vec<u64> = stream.request.0.iter().map(|s| s.size.0).collect();
        let mut space = Space::new(region, stream.align_bytes(), &sizes)?;
        if stream.request.by_operation() && stream.align.is_none() {
            space.align_each(stream.request.0.iter().map(|s| stream.request.least_bytes_beside(s)).collect())?;
        }
        let shares = stream.operations;
        let shares = [shares.read.0, shares.write.0, shares.flush.0, shares.trim.0];
        let operations = Shares::new(Operation::ALL.into_iter().zip(shares))
            .ok_or_else(|| "operations: every share is 0; give at least one operation a share".to_string())?;
        let sizes = Shares::new(stream.request.0.iter().map(|s| s.share.0).enumerate())
            .ok_or_else(|| "request: every share is 0; give at least one size a share".to_string())?;
        let sizes_of = sizes_by_operation(&stream.request);
        let order_seed = OrderSeed { seed, phase, stream: stream_index };
        let mean_requests = lane_share(region_requests(stream, &space), lane, lanes);
        let (addresses, pass_requests) =
            make_addresses(&stream.address, &space, order_seed, (lane, lanes), mean_requests, shared)?;
        let rng = Rng::new(seed, phase, stream_index, lane);
        Ok(Pattern { rng, operations, sizes, sizes_of, space, addresses, pass: 0, pass_requests })
    }

    /// How many reads, writes and trims this lane issues in one pass; flushes that the operation mix puts between them
    /// come on top. The lanes' shares sum to the stream's pass: for sequential, strided and permutation of one size each
    /// block once, otherwise as many requests as make up the region's bytes on average.
    pub fn pass_requests(&self) -> u64 {
        self.pass_requests
    }

    #[inline(always)]
    #[allow(clippy::should_implement_trait)] // an Iterator may end; a pattern does not
    pub fn next(&mut self) -> Request {
        let operation = self.operations.draw(&mut self.rng);
        if operation == Operation::Flush {
            return Request::flush(self.pass);
        }
        let size = match &self.sizes_of {
            None => self.sizes.draw(&mut self.rng),
            Some(of) => of[operation as usize].draw(&mut self.rng),
        };
        let (offset_bytes, request_bytes, pass) = match &mut self.addresses {
            Addresses::Random { uniform, count } => {
                (uniform.next(&mut self.rng, size), self.space.sizes[size], count.next())
            }
            _ => self.next_place(size),
        };
        self.pass = pass;
        Request { operation, offset_bytes, request_bytes, pass, entry: Entry::default() }
    }

    /// Offset, size and pass of the next request, its size being that of the mix where its place has room for it.
    fn next_place(&mut self, size: usize) -> (u64, u32, u64) {
        let rng = &mut self.rng;
        let request_bytes = self.space.sizes[size];
        let at_rank = |rank: u64| self.space.start_bytes + rank * self.space.align_bytes;
        let (offset_bytes, pass) = match &mut self.addresses {
            Addresses::Random { uniform, count } => (uniform.next(rng, size), count.next()),
            Addresses::Sequential(sequential) => {
                let step = sequential.next(request_bytes);
                return (step.offset_bytes, step.request_bytes, step.pass);
            }
            Addresses::Strided(strided) => strided.take(),
            Addresses::Permutation(permuted) => {
                let (block, pass) = permuted.next();
                (permuted.start_bytes + block * u64::from(request_bytes), pass)
            }
            Addresses::Mixed { is_random, uniform, sequential, count } => {
                if !is_random.draw(rng) {
                    let step = sequential.next(request_bytes);
                    return (step.offset_bytes, step.request_bytes, count.next());
                }
                (uniform.next(rng, size), count.next())
            }
            Addresses::Runs { is_random, uniform, next_bytes, count } => {
                let end_bytes = self.space.start_bytes + self.space.length_bytes;
                let place = match is_random.draw(rng) {
                    true => uniform.next(rng, size),
                    false if *next_bytes + u64::from(request_bytes) > end_bytes => self.space.start_bytes,
                    false => *next_bytes,
                };
                *next_bytes = place + u64::from(request_bytes);
                (place, count.next())
            }
            Addresses::Zipf { zipf, order, count } => (at_rank(order.at(zipf.next(rng))), count.next()),
            Addresses::Pareto { pareto, order, count } => (at_rank(order.at(pareto.next(rng))), count.next()),
            Addresses::HotSpots { is_hot, spots, uniform, count } => {
                let hot = is_hot.draw(rng);
                (if hot { spots.next(rng, size) } else { uniform.next(rng, size) }, count.next())
            }
            Addresses::Zones { which, zones, count } => {
                let zone = which.draw(rng);
                (zones[zone].next(rng, size), count.next())
            }
            Addresses::Normal { normal, order, count } => (at_rank(order.at(normal.next(rng))), count.next()),
        };
        (offset_bytes, request_bytes, pass)
    }
}

fn make_addresses(
    address: &plan::Address,
    space: &Space,
    order_seed: OrderSeed,
    (lane, lanes): (u32, u32),
    mean_requests: u64,
    shared: Arc<StreamShared>,
) -> Result<(Addresses, u64), String> {
    let count = PassCount::new(mean_requests);
    let two = |percent: f64| {
        Shares::new([(true, percent), (false, 100.0 - percent)].into_iter())
            .ok_or_else(|| format!("address: {percent} is not a percentage"))
    };
    let addresses = match *address {
        plan::Address::Sequential { apart } => {
            let sequential = match apart {
                true => Sequential::apart(space, lane, lanes)?,
                false => Sequential::shared(space, lanes, shared)?,
            };
            let requests = match (apart, space.one_size()) {
                (true, Some(size)) => sequential.length_bytes() / size,
                _ => mean_requests,
            };
            return Ok((Addresses::Sequential(sequential), requests));
        }
        plan::Address::Strided { stride } => {
            let strided = Strided::new(space, stride.0, shared)?;
            let requests = lane_share(strided.pass_requests(), lane, lanes);
            return Ok((Addresses::Strided(strided), requests));
        }
        plan::Address::Permutation => {
            Addresses::Permutation(make_permutation(space, order_seed, lane.into(), lanes.into())?)
        }
        plan::Address::Random => Addresses::Random { uniform: Uniform::new(space), count },
        plan::Address::Mixed { random } => Addresses::Mixed {
            is_random: two(random.0)?,
            uniform: Uniform::new(space),
            sequential: Sequential::shared(space, lanes, shared)?,
            count,
        },
        plan::Address::Runs { random } => Addresses::Runs {
            is_random: two(random.0)?,
            uniform: Uniform::new(space),
            next_bytes: space.start_bytes,
            count,
        },
        plan::Address::Zipf { theta } => {
            let order = Scatter::new(space.places(), order_seed.pass(0));
            Addresses::Zipf { zipf: Zipf::new(space.places(), theta)?, order, count }
        }
        plan::Address::Pareto { skew } => {
            let order = Scatter::new(space.places(), order_seed.pass(0));
            Addresses::Pareto { pareto: Pareto::new(space.places(), skew.0)?, order, count }
        }
        plan::Address::HotSpots { requests, space: percent, spots } => Addresses::HotSpots {
            is_hot: two(requests.0)?,
            spots: HotSpots::new(space, percent.0, spots)?,
            uniform: Uniform::new(space),
            count,
        },
        plan::Address::Zones { ref zones, apart: false } => make_zones(space, zones, count)?,
        plan::Address::Zones { ref zones, apart: true } => make_zones(&space.of_lane(lane, lanes)?, zones, count)?,
        plan::Address::Normal { deviation } => {
            let order = Scatter::new(space.places(), order_seed.pass(0));
            Addresses::Normal { normal: Normal::new(space.places(), deviation.0), order, count }
        }
    };
    Ok((addresses, mean_requests))
}

fn make_zones(space: &Space, zones: &[plan::Zone], count: PassCount) -> Result<Addresses, String> {
    let used = || zones.iter().filter(|zone| zone.requests.0 > 0.0);
    let which = Shares::new(used().map(|zone| zone.requests.0).enumerate()).ok_or("zones: no zone has requests")?;
    let places: Result<Box<[Uniform]>, String> = used()
        .map(|zone| {
            let (from, to) =
                (zone.region.from.offset_bytes(space.length_bytes), zone.region.to.offset_bytes(space.length_bytes));
            if to > space.length_bytes {
                return Err(format!(
                    "zones: {} ends beyond the region of {}; enlarge the region or the target",
                    zone.region,
                    plan::format_bytes(space.length_bytes)
                ));
            }
            Ok(Uniform::new(&space.part(from, to)?))
        })
        .collect();
    Ok(Addresses::Zones { which, zones: places?, count })
}

/// The sizes of each operation, where `of` gives it some; an operation without any is never drawn.
fn sizes_by_operation(request: &plan::RequestSizes) -> Option<Box<[Shares<usize>; Operation::ALL.len()]>> {
    if !request.by_operation() {
        return None;
    }
    let of = |operation: Operation| match operation {
        Operation::Write => Some(plan::Moves::Write),
        Operation::Trim => Some(plan::Moves::Trim),
        _ => Some(plan::Moves::Read),
    };
    let shares = |operation: Operation| {
        let shares =
            request.0.iter().enumerate().map(|(k, s)| (k, if s.of == of(operation) { s.share.0 } else { 0.0 }));
        Shares::new(shares).unwrap_or(Shares { only: Some(0), choices: Box::new([]) })
    };
    Some(Box::new(Operation::ALL.map(shares)))
}

fn make_permutation(space: &Space, order_seed: OrderSeed, lane: u64, lanes: u64) -> Result<Permuted, String> {
    let Some(block_bytes) = space.one_size().filter(|size| *size == space.align_bytes) else {
        return Err("a permutation needs one request size and no other align".into());
    };
    let blocks = space.length_bytes / block_bytes;
    if blocks < lanes {
        return Err(format!("region holds {blocks} blocks for {lanes} workers; use fewer workers or a larger region"));
    }
    let order = Scatter::new(blocks, order_seed.pass(0));
    Ok(Permuted { start_bytes: space.start_bytes, order, order_seed, pass: 0, index: lane, lane, lanes })
}

/// How many requests make up the region on average; where the alignment is larger than a request, how many places
/// there are.
fn region_requests(stream: &plan::Stream, space: &Space) -> u64 {
    let (mut bytes, mut total) = (0.0, 0.0);
    for item in &stream.request.0 {
        let share = item.share.0
            * match item.of {
                None => 1.0,
                Some(plan::Moves::Read) => stream.operations.read.0,
                Some(plan::Moves::Write) => stream.operations.write.0,
                Some(plan::Moves::Trim) => stream.operations.trim.0,
            };
        bytes += item.size.0 as f64 * share;
        total += share;
    }
    let mean_bytes = (bytes / total).max(space.align_bytes as f64);
    match space.one_size() {
        Some(size) if size >= space.align_bytes => space.length_bytes / size,
        Some(_) => space.places(),
        None => (space.length_bytes as f64 / mean_bytes) as u64,
    }
}
