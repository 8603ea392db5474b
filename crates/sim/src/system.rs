//! A whole brick: host, controllers with their caches, arrays and members, and what goes on in the background.
//!
//! A request passes host, controller processor, bus and array as a chain of stages; each stage is a server in order of
//! arrival, and the chain goes on at the instant a stage ends. Events at the same instant happen in the order in which
//! they were planned.

mod background;
mod caching;
mod jobs;
mod ledger;
mod pool;
mod pool_log;
mod power;
mod requests;
mod resync;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use engine::event::BrickState;

use crate::NEVER;
use crate::array::{Array, Operations};
use crate::assembly::{background_of, cache_of, drive_caches, is_rebuilding, links_of, members_of};
use crate::brick::{Brick, Condition};
use crate::controller::{Controller, Link};
use crate::gather::{Due, Gather};
use crate::member::{Kind, Lost, Member};
use crate::region_log::RegionLog;
use crate::slab::Slab;
use crate::write_back::{ReadAhead, WriteBack};
pub(crate) use background::Background;
pub use background::Progress;
use jobs::{Job, Step};
use ledger::Ledger;
pub use ledger::LostWrites;
use pool::Pool;
use resync::Resync;

/// A request to data that are gone is refused after this time: what a system call of nothing but an error takes, so that
/// a loop that goes on asking goes through time.
const REFUSED_NS: u64 = 10_000;

/// What the host asks for.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Comes back with the end.
    pub tag: u32,
    pub kind: Kind,
    pub offset_bytes: u64,
    pub bytes: u32,
    pub durable: bool,
}

#[derive(Debug, Clone, Copy)]
struct Active {
    request: Request,
    parts: u32,
    /// A cap of the product lets it end no earlier.
    not_before_ns: u64,
    /// Some of its data are gone.
    failed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The host has passed a request on.
    Arrived(u32),
    /// The controller's processor has dealt with it.
    Commanded(u32),
    /// The data of a write are at the controller.
    Taken(u32),
    Ended(u32),
    /// A member operation passes the controller: processor, bus, turn, and for a read the bus again.
    StepCommanded(u32),
    StepTaken(u32),
    StepTurn(u32),
    /// The link to the member is free for it.
    StepGiven(u32),
    StepEnded(u32),
    /// What a job has read is where it is written from.
    StageBegins(u32),
    JobEnded(u32),
    /// The controller's processor has dealt with a chunk of the background.
    Chunk {
        turn: u32,
        at: u64,
        bytes: u64,
    },
    Background {
        turn: u32,
    },
    /// A row has waited long enough for its rest.
    RowDue {
        array: u32,
        due: Due,
    },
    /// The throttle lets a write into a ZFS pool.
    PoolWrite(u32),
    /// It is time for a transaction group, and for a block of the log.
    TxgTick,
    TxgIssue,
    LogDue(u64),
    /// The power fails and comes back.
    PowerCut,
    /// A member fails: which one in the brick's list.
    Failure(u32),
}

/// A controller or software array with a cache.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) write_back: Option<WriteBack>,
    pub(crate) gather: Option<Gather>,
    pub(crate) read_ahead: Option<ReadAhead>,
    pub(crate) region_log: Option<RegionLog>,
    pub(crate) blocked: VecDeque<u32>,
    pub(crate) flushing: Vec<u32>,
    pub(crate) whole_moving: usize,
    pub(crate) partial_moving: usize,
}

/// What happened to a brick at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// From then on it is in this condition.
    Condition { at_ns: u64, condition: BrickState },
    /// The power failed and came back: acknowledged writes that were in caches without a battery are lost, requests under
    /// way failed.
    PowerCut { at_ns: u64, lost: Losses },
}

/// A write that the host was told of, so long before the power failed; what a member has done.
pub use engine::event::{CachesWork, LostWrite, MemberWork};

/// Acknowledged bytes that a power cut took, each time that they were kept: a mirror may lose both of its copies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    pub drive_bytes: u64,
    pub drive_extents: u64,
    pub drives: u64,
    pub controller_bytes: u64,
    pub failed_requests: u64,
    pub writes: LostWrites,
}

/// A chunk of a resilver is no larger than what a disk's queue merges.
fn chunk_of(pool: Option<&Pool>, chunk_bytes: u64) -> u64 {
    pool.map_or(chunk_bytes, |pool| pool.aggregation_bytes().min(chunk_bytes))
}

#[derive(Debug)]
pub struct System {
    members: Vec<Member>,
    /// Which drive is in which place: a spare takes over the place of a member that failed.
    places: Vec<u32>,
    brick: Box<Brick>,
    spares_used: u32,
    turns: u32,
    condition: BrickState,
    changes: Vec<Change>,
    member_next_ns: Vec<u64>,
    arrays: Vec<Array>,
    controllers: Vec<Controller>,
    /// Links that drives share.
    links: Vec<Link>,
    caches: Vec<Cache>,
    /// ZFS in place of stripes; its one array has the members' states.
    pool: Option<Box<Pool>>,
    /// Redundancy is kept in front of the controllers.
    software: bool,
    /// The host's own stripe over the arrays of several controllers.
    stripe_bytes: u64,
    array_bytes: u64,
    host_request_ns: u64,
    host_free_ns: u64,
    /// Of a stripe and of a page of it, and when the thread that computes parity is free.
    parity_cost_ns: (u64, u64),
    parity_free_ns: u64,
    queue_limit: u32,
    battery: bool,
    at_work: u32,
    waiting: VecDeque<u32>,
    active: Slab<Active>,
    jobs: Slab<Job>,
    /// Requests that wait for a row, of each row that is on its way.
    rows: Slab<Vec<u32>>,
    steps: Slab<Step>,
    spare: Vec<Operations>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    background: Option<Background>,
    resync: Resync,
    /// Since when it goes on, and how long others did before it.
    background_since_ns: u64,
    background_spent_ns: u64,
    background_condition: Condition,
    /// What the host was told, where the power is to fail.
    ledger: Option<Box<Ledger>>,
    last_request_ns: Option<u64>,
    last_write_ns: Option<u64>,
    ended: Vec<(u32, u64, bool)>,
    member_done: Vec<u32>,
    /// Commands that members were given and that they ended, and the bytes of a rebuild, for whoever checks the model.
    pub issued: u64,
    pub completed: u64,
    /// What each member has ended.
    work: Vec<MemberWork>,
    pub background_bytes: u64,
    /// Acknowledged writes in a controller's cache whose members were gone before they could be written.
    pub lost_bytes: u64,
}

impl System {
    pub fn new(brick: &Brick) -> Result<System, String> {
        let count = brick.members as usize;
        let mut members = members_of(brick)?;
        let member_bytes = members.iter().map(Member::capacity_bytes).min().unwrap_or(0);
        let software = brick.software.is_some();
        // Whoever keeps this volume's redundancy keeps its neighbour's.
        let neighbour = brick.condition == Condition::NeighbourRebuilding;
        let slice_ns = brick.keeper().filter(|_| neighbour).map_or(0, |k| k.rebuild_slice.ns);
        let controllers: Vec<Controller> = match &brick.controller {
            Some(p) => (0..brick.controllers).map(|_| Controller::new(p, slice_ns)).collect(),
            None => Vec::new(),
        };
        let parts = brick.volumes();
        let arrays: Vec<Array> = (0..parts).map(|_| Array::new(brick, brick.members / parts, member_bytes)).collect();
        let array_bytes = arrays[0].capacity_bytes() / brick.stripe_bytes * brick.stripe_bytes;
        let array_bytes = if parts == 1 { arrays[0].capacity_bytes() } else { array_bytes };
        let pool = Pool::new(brick, member_bytes)?.map(Box::new);
        let array_bytes = pool.as_ref().map_or(array_bytes, |pool| pool.capacity_bytes());
        let whole_bytes = pool.as_ref().map_or(member_bytes, |pool| pool.used_bytes());
        if array_bytes == 0 {
            return Err(format!("sim:{}: members smaller than one stripe unit; choose a smaller stripe", brick.name));
        }
        let keeper = brick.keeper();
        let caches = arrays.iter().map(|a| cache_of(keeper, a, is_rebuilding(brick))).collect();
        members.iter_mut().for_each(|m| m.set_write_cache(drive_caches(brick)));
        let background = background_of(brick, keeper, whole_bytes);
        let background = background.map(|b| Background { chunk_bytes: chunk_of(pool.as_deref(), b.chunk_bytes), ..b });
        let resync = Resync::new(brick, arrays[0].has_parity(), members.len());
        let mut system = System {
            member_next_ns: vec![NEVER; members.len()],
            work: vec![MemberWork::default(); members.len()],
            members,
            places: (0..count as u32).collect(),
            brick: Box::new(brick.clone()),
            spares_used: 0,
            turns: 0,
            condition: BrickState::Normal,
            changes: Vec::new(),
            arrays,
            controllers,
            links: links_of(brick),
            caches,
            pool,
            software,
            stripe_bytes: brick.stripe_bytes,
            array_bytes,
            host_request_ns: brick.host_request_ns,
            host_free_ns: 0,
            parity_cost_ns: keeper.map_or((0, 0), |k| (k.parity_stripe.ns, k.parity_page.ns)),
            parity_free_ns: 0,
            queue_limit: brick.queue_limit,
            battery: keeper.is_some_and(|k| k.battery),
            at_work: 0,
            waiting: VecDeque::new(),
            active: Slab::new(),
            jobs: Slab::new(),
            rows: Slab::new(),
            steps: Slab::new(),
            spare: Vec::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            background,
            resync,
            background_since_ns: 0,
            background_spent_ns: 0,
            background_condition: brick.condition,
            ledger: brick.power_cut_ns.map(|_| Box::default()),
            last_request_ns: None,
            last_write_ns: None,
            ended: Vec::new(),
            member_done: Vec::new(),
            issued: 0,
            completed: 0,
            background_bytes: 0,
            lost_bytes: 0,
        };
        if let Some(background) = system.background {
            system.background = Some(system.window_of(background));
            system.plan(0, Event::Background { turn: 0 });
        }
        if let Some(at_ns) = brick.power_cut_ns {
            system.plan(at_ns, Event::PowerCut);
        }
        for (index, failure) in brick.failures.iter().enumerate() {
            system.plan(failure.at_ns, Event::Failure(index as u32));
        }
        Ok(system)
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.array_bytes * self.arrays.len() as u64
    }

    /// Whether any request is under way.
    pub fn is_idle(&self) -> bool {
        self.at_work == 0 && self.waiting.is_empty()
    }

    /// What each drive has ended, spares last.
    pub fn members_work(&self) -> &[MemberWork] {
        &self.work
    }

    /// What of all writes is in caches at this moment.
    pub fn caches_work(&self) -> CachesWork {
        CachesWork {
            drive_bytes: self.members.iter().map(Member::unwritten_bytes).sum(),
            controller_bytes: self.caches.iter().filter_map(|c| c.write_back.as_ref()).map(WriteBack::held_bytes).sum(),
            memory_bytes: self.pool.as_ref().map_or(0, |pool| pool.dirty_bytes),
            memory_dirtied_bytes: self.pool.as_ref().map_or(0, |pool| pool.dirtied_bytes),
        }
    }

    /// Time that members' arms were at work and that buses moved data.
    pub fn busy_ns(&self) -> (Vec<u64>, Vec<u64>) {
        let arms = self.members.iter().map(|m| if let Member::Rotating(d) = m { d.busy_ns } else { 0 }).collect();
        (arms, self.controllers.iter().map(|c| c.bus_busy_ns).collect())
    }

    /// Of the time up to `now_ns`, how much each arm was at work: more than all of it would be two things at once.
    pub fn arms_busy_by_ns(&self, now_ns: u64) -> Vec<u64> {
        let arms = self.members.iter().filter_map(|m| if let Member::Rotating(d) = m { Some(d) } else { None });
        arms.map(|d| d.busy_by_ns(now_ns)).collect()
    }

    /// The power fails at `now_ns`: what was acknowledged and is lost, by member, and of the controllers' caches.
    pub fn power_cut(&mut self, now_ns: u64) -> (Vec<Vec<Lost>>, Vec<Lost>) {
        self.advance(now_ns);
        self.power_fails(now_ns)
    }

    pub fn has_member(&self, member: u32) -> Result<(), String> {
        match (member as usize) < self.places.len() {
            true => Ok(()),
            false => Err(format!("member {member}: there are {}, counted from 0", self.places.len())),
        }
    }

    /// A member fails at `now_ns`; it is counted from 0.
    pub fn fail_member(&mut self, now_ns: u64, member: u32) -> Result<(), String> {
        self.has_member(member)?;
        self.advance(now_ns);
        self.member_fails(now_ns, member);
        Ok(())
    }

    fn plan(&mut self, at_ns: u64, event: Event) {
        self.events.push(Reverse((at_ns, self.sequence, event)));
        self.sequence += 1;
    }

    /// Goes on with `event` at `at_ns`, which may be now.
    #[inline]
    fn then(&mut self, now_ns: u64, at_ns: u64, event: Event) {
        if at_ns <= now_ns { self.happen(now_ns, event) } else { self.plan(at_ns, event) }
    }

    pub fn submit(&mut self, now_ns: u64, request: Request) {
        self.last_request_ns = Some(now_ns);
        if request.kind == Kind::Write {
            self.last_write_ns = Some(now_ns);
        }
        let number = self.active.insert(Active { request, parts: 0, not_before_ns: 0, failed: false });
        if let Some(ledger) = &mut self.ledger {
            ledger.asked(number, request.kind);
        }
        if self.at_work >= self.queue_limit {
            self.waiting.push_back(number);
            return;
        }
        self.enter(now_ns, number);
    }

    fn enter(&mut self, now_ns: u64, number: u32) {
        self.at_work += 1;
        if self.host_request_ns == 0 {
            return self.happen(now_ns, Event::Arrived(number));
        }
        self.host_free_ns = now_ns.max(self.host_free_ns) + self.host_request_ns;
        self.plan(self.host_free_ns, Event::Arrived(number));
    }

    #[inline]
    pub fn next_event(&self) -> u64 {
        let own = self.events.peek().map_or(NEVER, |Reverse((at_ns, _, _))| *at_ns);
        self.member_next_ns.iter().fold(own, |least, at| least.min(*at))
    }

    /// Lets everything happen that is due by `now_ns`.
    pub fn advance(&mut self, now_ns: u64) {
        loop {
            let own_ns = self.events.peek().map_or(NEVER, |Reverse((at_ns, _, _))| *at_ns);
            let mut next = (own_ns, usize::MAX);
            for (number, at_ns) in self.member_next_ns.iter().enumerate() {
                if *at_ns < next.0 {
                    next = (*at_ns, number);
                }
            }
            let (at_ns, number) = next;
            if at_ns > now_ns || at_ns == NEVER {
                return;
            }
            if number == usize::MAX {
                if let Some(Reverse((_, _, event))) = self.events.pop() {
                    self.happen(at_ns, event);
                }
                continue;
            }
            let mut done = std::mem::take(&mut self.member_done);
            self.members[number].advance(at_ns, &mut done);
            self.member_next_ns[number] = self.members[number].next_event();
            for step in done.drain(..) {
                self.completed += 1;
                self.member_ended(at_ns, step);
            }
            self.member_done = done;
        }
    }

    /// Takes the requests that have ended: tag and instant.
    pub fn take_ended(&mut self, mut each: impl FnMut((u32, u64))) {
        self.ended.drain(..).for_each(|(tag, at_ns, _)| each((tag, at_ns)));
    }

    /// The same with whether they failed because their data are gone.
    pub fn take_outcomes(&mut self, each: impl FnMut((u32, u64, bool))) {
        self.ended.drain(..).for_each(each);
    }

    #[inline]
    pub fn has_changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Takes the changes of condition that have happened.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    fn happen(&mut self, now_ns: u64, event: Event) {
        match event {
            Event::Arrived(number) => self.arrived(now_ns, number),
            Event::Commanded(number) => self.commanded(now_ns, number),
            Event::Taken(number) => self.serve(now_ns, number),
            Event::Ended(number) => self.end(now_ns, number),
            Event::StepCommanded(step) => {
                let Step { op, kind, .. } = *self.steps.get(step);
                let controller = self.controller_of(op.member);
                let at_ns = match kind == Kind::Write {
                    true => self.controllers[controller].transfer(now_ns, u64::from(op.bytes), true),
                    false => now_ns,
                };
                self.then(now_ns, at_ns, Event::StepTaken(step));
            }
            Event::StepTaken(step) => {
                let member = self.steps.get(step).op.member;
                let controller = self.controller_of(member);
                let at_ns = self.controllers[controller].turn(now_ns);
                self.then(now_ns, at_ns, Event::StepTurn(step));
            }
            Event::StepTurn(step) => self.step_turn(now_ns, step),
            Event::StepGiven(step) => self.give_member(now_ns, step),
            Event::StepEnded(step) => self.step_ended(now_ns, step),
            Event::StageBegins(job) => self.start_stage(now_ns, job),
            Event::Chunk { turn, at, bytes } => self.begin_chunk(now_ns, turn, at, bytes),
            Event::JobEnded(job) => self.job_ended(now_ns, job),
            Event::Background { turn } => self.background_chunk(now_ns, turn),
            Event::PoolWrite(number) => self.pool_write(now_ns, number),
            Event::TxgTick => self.txg_due(now_ns, true),
            Event::TxgIssue => self.txg_issue(now_ns),
            Event::LogDue(id) => self.log_due(now_ns, id),
            Event::RowDue { array, due } => self.row_due(now_ns, array as usize, due),
            Event::PowerCut => self.power_comes_back(now_ns),
            Event::Failure(index) => self.member_fails(now_ns, self.brick.failures[index as usize].member),
        }
    }

    fn controller_of(&self, member: u32) -> usize {
        member as usize * self.controllers.len() / self.places.len()
    }
}
