//! Storage on a virtual clock for tests: it holds real data, serves in seeded times and does damage as told. What it did
//! is kept in a log, so that a test can compare what was reported with what happened.

#![allow(dead_code)] // each test program uses its part of this module

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex, MutexGuard};

use engine::conductor::{self, RunControl};
use engine::device::{Completion, Device, Devices, Operation, Order, Setup, Until};
use engine::event::{CellEvent, EndReason, ErrorEvent, Event, Interval, Measure, PhaseEnd, RunOutcome, Timed};
use engine::honours::Honours;
use engine::streams::{TargetArea, Verifiers};
use plan::Profile;

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
pub const SECTOR: usize = 512;

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit.max(1))) >> 64) as u64
    }

    /// True `per_million` times in a million.
    pub fn hit(&mut self, per_million: u64) -> bool {
        self.below(1_000_000) < per_million
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The call fails with this errno.
    Errno(i32),
    /// Fewer bytes than asked for, in whole sectors.
    Short,
    /// Ends so many ns later than it would.
    Late(u64),
    Never,
    /// A bit of the stored block, or of what a read brings, is turned over.
    Flip,
    /// Only the first sectors of the block are written.
    Torn,
    /// The data goes to (or comes from) the block so many blocks further on.
    Elsewhere(u64),
    /// The write is reported as done and was not made.
    Lost,
}

/// When a request meets a fault: decides from its number among its like, and from the dice.
pub type Plot = Box<dyn FnMut(&Order, u64, &mut Dice) -> Option<Fault> + Send>;
/// Service time of a request that begins at this instant.
pub type Timing = Box<dyn FnMut(&Order, u64, &mut Dice) -> u64 + Send>;

/// What became of one request.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    pub slot: u32,
    pub target: u16,
    pub operation: Operation,
    pub offset_bytes: u64,
    pub request_bytes: u32,
    pub submitted_ns: u64,
    pub ended_ns: u64,
    pub result: i32,
    pub fault: Option<Fault>,
}

pub struct World {
    pub now_ns: u64,
    pub block_bytes: usize,
    pub data: Vec<u8>,
    pub dice: Dice,
    pub log: Vec<Done>,
    pub submitted: u64,
    pub in_flight: u32,
    pub in_flight_most: u32,
    plot: Plot,
    timing: Timing,
    numbers: BTreeMap<(u64, u8), u64>,
}

pub struct Storage {
    pub world: Arc<Mutex<World>>,
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(|failed| failed.into_inner())
}

impl Storage {
    pub fn new(length_bytes: u64, seed: u64) -> Storage {
        let world = World {
            now_ns: 0,
            block_bytes: 4096,
            data: vec![0; length_bytes as usize],
            dice: Dice(seed),
            log: Vec::new(),
            submitted: 0,
            in_flight: 0,
            in_flight_most: 0,
            plot: Box::new(|_, _, _| None),
            timing: Box::new(|_, _, dice| 50 * US + dice.below(100 * US)),
            numbers: BTreeMap::new(),
        };
        Storage { world: Arc::new(Mutex::new(world)) }
    }

    pub fn timed(self, timing: impl FnMut(&Order, u64, &mut Dice) -> u64 + Send + 'static) -> Storage {
        lock(&self.world).timing = Box::new(timing);
        self
    }

    pub fn faulty(self, plot: impl FnMut(&Order, u64, &mut Dice) -> Option<Fault> + Send + 'static) -> Storage {
        lock(&self.world).plot = Box::new(plot);
        self
    }

    pub fn area(&self) -> TargetArea {
        TargetArea {
            path: "virtual".into(),
            start_bytes: 0,
            length_bytes: lock(&self.world).data.len() as u64,
            align_bytes: 512,
            writable: true,
            scratch_dir: std::env::temp_dir(),
            keep_dir: None,
        }
    }
}

/// One request under way.
struct Flight {
    order: Order,
    submitted_ns: u64,
    payload: Vec<u8>,
    fault: Option<Fault>,
    /// Sectors that took effect when the request began; the others do when it ends.
    early: u64,
}

pub struct Virtual {
    world: Arc<Mutex<World>>,
    buffers: Vec<Vec<u8>>,
    queued: Vec<Order>,
    flights: Vec<Option<Flight>>,
    ends: BinaryHeap<Reverse<(u64, u64, u32)>>,
    sequence: u64,
}

impl Devices for Storage {
    type Device = Virtual;

    fn open(&self, setup: &Setup) -> Result<Virtual, String> {
        Ok(Virtual {
            world: self.world.clone(),
            buffers: vec![vec![0; setup.buffer_bytes as usize]; setup.slots as usize],
            queued: Vec::new(),
            flights: (0..setup.slots).map(|_| None).collect(),
            ends: BinaryHeap::new(),
            sequence: 0,
        })
    }

    fn honours(&self) -> Honours {
        Honours::everything("the virtual storage")
    }

    fn now_ns(&self) -> u64 {
        lock(&self.world).now_ns
    }

    fn loops(&self, _lanes: usize) -> usize {
        1
    }
}

impl Device for Virtual {
    const VIRTUAL: bool = true;

    fn now_ns(&mut self) -> u64 {
        lock(&self.world).now_ns
    }

    fn buffer(&mut self, slot: u32, request_bytes: u32) -> &mut [u8] {
        &mut self.buffers[slot as usize][..request_bytes as usize]
    }

    fn queue(&mut self, order: &Order) {
        assert!(self.flights[order.slot as usize].is_none(), "slot {} has a request already", order.slot);
        assert!(self.queued.iter().all(|o| o.slot != order.slot), "slot {} was queued twice", order.slot);
        self.queued.push(*order);
    }

    fn turn(&mut self, until: Until, done: &mut Vec<Completion>) -> Result<u64, String> {
        let shared = self.world.clone();
        let world = &mut *lock(&shared);
        for order in std::mem::take(&mut self.queued) {
            self.begin(world, order);
        }
        let next_ns = self.ends.peek().map_or(u64::MAX, |end| end.0.0);
        let target_ns = next_ns.min(until.ns);
        assert_ne!(target_ns, u64::MAX, "nothing will ever happen");
        assert!(target_ns >= world.now_ns, "time would run back from {} to {target_ns}", world.now_ns);
        world.now_ns = target_ns;
        while self.ends.peek().is_some_and(|end| end.0.0 <= target_ns) {
            let Some(Reverse((ended_ns, _, slot))) = self.ends.pop() else { break };
            done.push(self.end(world, slot, ended_ns));
        }
        Ok(world.now_ns)
    }

    fn away_ns(&self) -> u64 {
        lock(&self.world).now_ns
    }
}

impl Virtual {
    fn begin(&mut self, world: &mut World, order: Order) {
        let slot = order.slot as usize;
        let number = world.numbers.entry((0, order.operation as u8)).or_insert(0);
        *number += 1;
        let number = *number - 1;
        let fault = (world.plot)(&order, number, &mut world.dice);
        let mut service_ns = (world.timing)(&order, world.now_ns, &mut world.dice);
        if let Some(Fault::Late(more_ns)) = fault {
            service_ns += more_ns;
        }
        let early = match world.dice.below(4) {
            0 => 0,
            1 => u64::MAX,
            _ => world.dice.next(),
        };
        let payload = if order.operation == Operation::Write {
            self.buffers[slot][..order.request_bytes as usize].to_vec()
        } else {
            vec![0; order.request_bytes as usize]
        };
        let mut flight = Flight { order, submitted_ns: world.now_ns, payload, fault, early };
        flight.touch(world, early);
        world.submitted += 1;
        world.in_flight += 1;
        world.in_flight_most = world.in_flight_most.max(world.in_flight);
        if fault != Some(Fault::Never) {
            self.ends.push(Reverse((world.now_ns + service_ns.max(1), self.sequence, order.slot)));
            self.sequence += 1;
        }
        self.flights[slot] = Some(flight);
    }

    fn end(&mut self, world: &mut World, slot: u32, ended_ns: u64) -> Completion {
        let mut flight = self.flights[slot as usize].take().expect("a request in flight");
        let early = flight.early;
        flight.touch(world, !early);
        let result = flight.finish(world);
        if flight.order.operation == Operation::Read {
            self.buffers[slot as usize][..flight.payload.len()].copy_from_slice(&flight.payload);
        }
        let order = flight.order;
        world.in_flight -= 1;
        world.log.push(Done {
            slot,
            target: order.target,
            operation: order.operation,
            offset_bytes: order.offset_bytes,
            request_bytes: order.request_bytes,
            submitted_ns: flight.submitted_ns,
            ended_ns,
            result,
            fault: flight.fault,
        });
        Completion { slot, result, submitted_ns: flight.submitted_ns, ended_ns }
    }
}

impl Flight {
    /// Sectors that this request moves if it moves any.
    fn sectors_moved(&self) -> usize {
        let sectors = self.order.request_bytes as usize / SECTOR;
        match self.fault {
            // Nothing says how a failed write left its sectors: here, the first half.
            Some(Fault::Errno(_) | Fault::Short | Fault::Torn) => sectors / 2,
            Some(Fault::Lost) => 0,
            _ => sectors,
        }
    }

    /// Moves the sectors whose bit is set in `which` (the last bit stands for all further ones).
    fn touch(&mut self, world: &mut World, which: u64) {
        let operation = self.order.operation;
        if !matches!(operation, Operation::Read | Operation::Write) {
            return;
        }
        let mut at = self.order.offset_bytes as usize;
        if let Some(Fault::Elsewhere(blocks)) = self.fault {
            at = (at + blocks as usize * world.block_bytes) % world.data.len();
        }
        for sector in 0..self.sectors_moved() {
            if which >> sector.min(63) & 1 == 0 {
                continue;
            }
            let (from, to) = (sector * SECTOR, (sector + 1) * SECTOR);
            let stored = &mut world.data[at + from..at + to];
            if operation == Operation::Write {
                stored.copy_from_slice(&self.payload[from..to]);
            } else {
                self.payload[from..to].copy_from_slice(stored);
            }
        }
    }

    fn finish(&mut self, world: &mut World) -> i32 {
        let bytes = self.order.request_bytes;
        if self.fault == Some(Fault::Flip) {
            let bit = world.dice.below(u64::from(bytes) * 8);
            let (byte, mask) = ((bit / 8) as usize, 1 << (bit % 8));
            match self.order.operation {
                Operation::Read => self.payload[byte] ^= mask,
                _ => world.data[self.order.offset_bytes as usize + byte] ^= mask,
            }
        }
        if self.order.operation == Operation::Trim && self.fault.is_none() {
            let at = self.order.offset_bytes as usize;
            world.data[at..at + bytes as usize].fill(0);
        }
        match self.fault {
            Some(Fault::Errno(errno)) => -errno,
            Some(Fault::Short) => (self.sectors_moved() * SECTOR) as i32,
            _ if matches!(self.order.operation, Operation::Flush | Operation::Trim) => 0,
            _ => bytes as i32,
        }
    }
}

/// All that a run told, and what its storage did.
pub struct Told {
    pub events: Vec<Event>,
    pub world: Arc<Mutex<World>>,
}

/// Runs a profile on this storage, through the conductor that real runs go through.
pub fn run(storage: Storage, profile: &str) -> Told {
    run_watched(storage, profile, |_, _| {})
}

/// As [`run`]; `watch` sees every event and may stop the run.
pub fn run_watched(storage: Storage, profile: &str, mut watch: impl FnMut(&Event, &RunControl)) -> Told {
    let profile = Profile::from_toml(profile, &[]).unwrap_or_else(|e| panic!("{e}\n{profile}"));
    let (world, area) = (storage.world.clone(), storage.area());
    let areas = vec![area; profile.target_count()];
    let control = RunControl::default();
    let mut events = Vec::new();
    conductor::run(&profile, &areas, Arc::new(storage), Verifiers::new(7), &control, &mut |event| {
        watch(&event, &control);
        events.push(event);
    });
    Told { events, world }
}

impl Told {
    pub fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    pub fn lines(&self) -> Vec<String> {
        self.events.iter().map(Event::to_json).collect()
    }

    pub fn intervals(&self, phase: usize) -> Vec<&Interval> {
        self.events
            .iter()
            .filter_map(|event| match event {
                Event::Interval(interval) if interval.phase == phase => Some(interval.as_ref()),
                _ => None,
            })
            .collect()
    }

    pub fn end(&self, phase: usize) -> &PhaseEnd {
        self.events
            .iter()
            .find_map(|event| match event {
                Event::PhaseEnd(end) if end.phase == phase => Some(end.as_ref()),
                _ => None,
            })
            .expect("the end of the phase")
    }

    pub fn errors(&self) -> Vec<&ErrorEvent> {
        self.events
            .iter()
            .filter_map(|event| match event {
                Event::Error(error) => Some(error.as_ref()),
                _ => None,
            })
            .collect()
    }

    pub fn outcome(&self) -> (RunOutcome, Option<&EndReason>) {
        match self.events.last() {
            Some(Event::End { outcome, message, .. }) => (*outcome, message.as_ref()),
            other => panic!("the last event is {other:?}"),
        }
    }

    /// Requests, bytes and errors of a phase by stream and operation, warm-up and drain included.
    pub fn totals(&self, phase: usize) -> BTreeMap<(usize, &'static str), (u64, u64, u64)> {
        let mut totals = BTreeMap::new();
        for cell in self.intervals(phase).iter().flat_map(|i| &i.cells) {
            let sum: &mut (u64, u64, u64) = totals.entry((cell.stream, cell.operation.name())).or_default();
            *sum = (sum.0 + cell.requests, sum.1 + cell.bytes, sum.2 + cell.errors);
        }
        totals
    }

    /// Commits are counted beside their requests.
    pub fn requests(&self, phase: usize) -> u64 {
        self.totals(phase).iter().filter(|(of, _)| of.1 != "commit").map(|(_, t)| t.0).sum()
    }

    pub fn failures(&self, phase: usize) -> u64 {
        self.totals(phase).iter().filter(|(of, _)| of.1 != "commit").map(|(_, t)| t.2).sum()
    }

    /// One time of an operation in each interval, with how many it is of.
    pub fn measures(&self, phase: usize, operation: &str, of: Timed) -> Vec<(u64, Measure)> {
        let cells =
            self.intervals(phase).into_iter().flat_map(|i| &i.cells).filter(|c| c.operation.name() == operation);
        cells.filter_map(|cell| Some((cell.requests, cell.measures.get(&of)?.clone()))).collect()
    }
}

/// How many requests of these cells took at least so long, by one of their measures.
pub fn at_least<'a>(cells: impl IntoIterator<Item = &'a CellEvent>, measure: Timed, limit_ns: u64) -> u64 {
    cells
        .into_iter()
        .filter_map(|cell| cell.measures.get(&measure))
        .map(|m| record::TextHistogram::parse(&m.histogram).expect("our own histogram"))
        .map(|h| h.counts(&[0, limit_ns, u64::MAX])[1])
        .sum()
}
