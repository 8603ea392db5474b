//! Modelled bricks as a device of the measuring loop: time jumps to the earlier of the next event and `until`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::device::{Completion, Device, Devices, Operation, Order, Setup, Until};
use engine::honours::Honours;
use plan::SyncMode;

use crate::NEVER;
use crate::member::Kind;
use crate::page_cache::Work;
use crate::system::{CachesWork, Change, MemberWork, Progress, Request, System};

/// What requests are put to: a system, or one with the page cache of its host before it. A run has either, so that none
/// pays for the other.
pub trait Volume: std::fmt::Debug + Send + 'static {
    fn submit(&mut self, now_ns: u64, request: Request);
    fn next_event(&self) -> u64;
    /// Lets everything happen that is due by `now_ns`.
    fn advance(&mut self, now_ns: u64);
    fn has_ended(&self) -> bool;
    fn has_changed(&self) -> bool;
    fn take_changes(&mut self) -> Vec<Change>;
    /// Takes the requests that have ended: tag, instant, and whether they failed.
    fn take_outcomes(&mut self, each: impl FnMut((u32, u64, bool)));
    fn background_by(&self, now_ns: u64) -> Option<Progress>;
    fn members_work(&self) -> &[MemberWork];
    fn caches_work(&self) -> CachesWork;
    fn page_cache_work(&self) -> Option<Work> {
        None
    }
}

impl Volume for System {
    #[inline]
    fn submit(&mut self, now_ns: u64, request: Request) {
        System::submit(self, now_ns, request);
    }

    #[inline]
    fn next_event(&self) -> u64 {
        System::next_event(self)
    }

    #[inline]
    fn advance(&mut self, now_ns: u64) {
        System::advance(self, now_ns);
    }

    #[inline]
    fn has_ended(&self) -> bool {
        System::has_ended(self)
    }

    #[inline]
    fn has_changed(&self) -> bool {
        System::has_changed(self)
    }

    fn take_changes(&mut self) -> Vec<Change> {
        System::take_changes(self)
    }

    #[inline]
    fn take_outcomes(&mut self, each: impl FnMut((u32, u64, bool))) {
        System::take_outcomes(self, each);
    }

    fn background_by(&self, now_ns: u64) -> Option<Progress> {
        System::background_by(self, now_ns)
    }

    fn members_work(&self) -> &[MemberWork] {
        System::members_work(self)
    }

    fn caches_work(&self) -> CachesWork {
        System::caches_work(self)
    }
}

/// All bricks of a run and their common clock. They live from phase to phase.
#[derive(Debug)]
pub struct Bricks<V: Volume> {
    systems: Arc<Mutex<Vec<V>>>,
    now_ns: Arc<AtomicU64>,
    changes: Changes,
}

/// Changes of condition that nobody has told yet, with the number of their brick.
pub type Changes = Arc<Mutex<Vec<(usize, Change)>>>;

/// Each completion is reaped at the instant at which it ends, nothing waits in real time, and no data exist.
pub const HONOURS: Honours = Honours {
    device: "a modelled brick",
    reap: false,
    submit: false,
    engine: false,
    page_cache: true,
    fill: false,
    data: false,
    hangs: false,
    flush: true,
    trim: true,
    nop: false,
};

/// What a request to data that are gone fails with: EIO.
const EIO: i32 = 5;

impl<V: Volume> Bricks<V> {
    pub fn new(systems: Vec<V>) -> Bricks<V> {
        Bricks { systems: Arc::new(Mutex::new(systems)), now_ns: Arc::default(), changes: Changes::default() }
    }

    pub fn changes(&self) -> Changes {
        self.changes.clone()
    }

    /// What the backgrounds of these bricks have done so far; of a brick that a loop has at the moment, nothing.
    pub fn progress(&self) -> Vec<(usize, Progress)> {
        let now_ns = self.now_ns.load(Ordering::Relaxed);
        let systems = self.systems.lock().unwrap_or_else(PoisonError::into_inner);
        systems.iter().enumerate().filter_map(|(n, system)| Some((n, system.background_by(now_ns)?))).collect()
    }
}

impl<V: Volume> Bricks<V> {
    /// What the page caches have done, of a run that has any.
    pub fn page_cache_work(&self) -> Vec<Option<Work>> {
        let systems = self.systems.lock().unwrap_or_else(PoisonError::into_inner);
        systems.iter().map(Volume::page_cache_work).collect()
    }

    /// What is in the caches of each brick.
    pub fn caches_work(&self) -> Vec<CachesWork> {
        let systems = self.systems.lock().unwrap_or_else(PoisonError::into_inner);
        systems.iter().map(Volume::caches_work).collect()
    }

    /// What the members of each brick have done so far.
    pub fn members_work(&self) -> Vec<Vec<MemberWork>> {
        let systems = self.systems.lock().unwrap_or_else(PoisonError::into_inner);
        systems.iter().map(|system| system.members_work().to_vec()).collect()
    }
}

impl<V: Volume> Devices for Bricks<V> {
    type Device = Virtual<V>;

    fn open(&self, setup: &Setup) -> Result<Virtual<V>, String> {
        let systems = std::mem::take(&mut *self.systems.lock().unwrap_or_else(PoisonError::into_inner));
        if systems.is_empty() {
            return Err("modelled bricks serve one loop at a time".into());
        }
        Ok(Virtual {
            home: self.systems.clone(),
            shared_now_ns: self.now_ns.clone(),
            now_ns: self.now_ns.load(Ordering::Relaxed),
            flights: vec![Flight::default(); setup.slots as usize],
            in_flight: 0,
            changes: self.changes.clone(),
            systems,
        })
    }

    fn honours(&self) -> Honours {
        HONOURS
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn loops(&self, _lanes: usize) -> usize {
        1
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Flight {
    submitted_ns: u64,
    bytes: u32,
}

/// The device of the one loop of a simulated run.
#[derive(Debug)]
pub struct Virtual<V: Volume> {
    home: Arc<Mutex<Vec<V>>>,
    shared_now_ns: Arc<AtomicU64>,
    systems: Vec<V>,
    now_ns: u64,
    flights: Vec<Flight>,
    in_flight: u32,
    changes: Changes,
}

impl<V: Volume> Drop for Virtual<V> {
    fn drop(&mut self) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut self.systems);
    }
}

impl<V: Volume> Device for Virtual<V> {
    const VIRTUAL: bool = true;

    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn buffer(&mut self, _slot: u32, _request_bytes: u32) -> &mut [u8] {
        &mut []
    }

    #[inline]
    fn queue(&mut self, order: &Order) {
        let kind = match order.operation {
            Operation::Read => Kind::Read,
            Operation::Write => Kind::Write,
            Operation::Flush => Kind::Flush,
            // Of a directory; programs, which alone ask for them, are refused for a model.
            _ => Kind::Trim,
        };
        self.flights[order.slot as usize] = Flight { submitted_ns: self.now_ns, bytes: order.request_bytes };
        self.in_flight += 1;
        let request = Request {
            tag: order.slot,
            kind,
            offset_bytes: order.offset_bytes,
            bytes: order.request_bytes,
            durable: order.sync != SyncMode::None,
        };
        self.systems[usize::from(order.target)].submit(self.now_ns, request);
    }

    #[inline]
    fn turn(&mut self, until: Until, done: &mut Vec<Completion>) -> Result<u64, String> {
        loop {
            let mut next_ns = NEVER;
            let mut ended = false;
            for system in &self.systems {
                next_ns = next_ns.min(system.next_event());
                ended |= system.has_ended();
            }
            if !ended && next_ns == NEVER && until.ns == NEVER {
                return Err(format!("the model lost {} requests; please report this", self.in_flight));
            }
            if !ended {
                self.now_ns = self.now_ns.max(next_ns.min(until.ns));
                for system in &mut self.systems {
                    system.advance(self.now_ns);
                }
            }
            let (flights, in_flight) = (&self.flights, &mut self.in_flight);
            for (number, system) in self.systems.iter_mut().enumerate() {
                if system.has_changed() {
                    let changes = system.take_changes().into_iter().map(|c| (number, c));
                    self.changes.lock().unwrap_or_else(PoisonError::into_inner).extend(changes);
                }
                system.take_outcomes(|(slot, ended_ns, failed)| {
                    let flight = flights[slot as usize];
                    *in_flight -= 1;
                    let result = if failed { -EIO } else { flight.bytes as i32 };
                    let submitted_ns = flight.submitted_ns;
                    done.push(Completion { slot, result, submitted_ns, ended_ns });
                });
            }
            if !done.is_empty() || self.now_ns >= until.ns {
                self.shared_now_ns.store(self.now_ns, Ordering::Relaxed);
                return Ok(self.now_ns);
            }
        }
    }

    /// All of virtual time belongs to the model.
    fn away_ns(&self) -> u64 {
        self.now_ns
    }
}
