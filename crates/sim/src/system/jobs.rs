//! Jobs: what requests, caches and the background have members do. A job's reads come before its writes; each operation
//! goes through the controller, takes its turn there and its place on the link, and comes back.

use super::{Event, REFUSED_NS, System};
use crate::array::{Array, MemberOp, Operations};
use crate::controller::Link;
use crate::member::{Command, Kind};
use crate::zfs::queue::Class;

/// A page of a stripe of Linux md (drivers/md/raid5.h, STRIPE_SIZE).
pub(super) const PAGE_BYTES: u64 = 4096;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Owner {
    Request(u32),
    Destage {
        controller: u32,
        row: u64,
        bytes: u64,
        whole: bool,
    },
    Fetch {
        controller: u32,
        chunk: u64,
    },
    Record {
        array: u32,
    },
    /// A row that gathered; the number is of those that wait for it.
    Row {
        waiting: u32,
    },
    /// Work of the background on so many bytes of a member that began in this turn of it.
    Background {
        turn: u32,
        bytes: u64,
    },
    /// Work of a ZFS pool.
    Pool {
        work: u32,
    },
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) owner: Owner,
    pub(super) array: u32,
    /// What it is for; one that writes may have to read before.
    pub(super) kind: Kind,
    pub(super) operations: Operations,
    pub(super) writing: bool,
    pub(super) durable: bool,
    pub(super) pending: u32,
    pub(super) stamp: u64,
    /// What it holds of md's stripe cache, and whether it is beside md's barrier, while something is rebuilt.
    pub(super) stripes: u64,
    pub(super) passes: bool,
    /// Which queue of a ZFS pool its commands wait in.
    pub(super) class: Class,
}

impl Job {
    pub(super) fn of(owner: Owner, operations: Operations) -> Job {
        Job {
            owner,
            array: 0,
            kind: Kind::Read,
            operations,
            writing: false,
            durable: false,
            pending: 0,
            stamp: 0,
            stripes: 0,
            passes: false,
            class: Class::SyncRead,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) job: u32,
    pub(super) op: MemberOp,
    pub(super) kind: Kind,
    pub(super) durable: bool,
    pub(super) stamp: u64,
    pub(super) class: Class,
}

impl System {
    /// Starts the operations that `find` lists: its reads, or its writes where there are none.
    pub(super) fn start_job(
        &mut self,
        now_ns: u64,
        owner: Owner,
        array: usize,
        kind: Kind,
        durable: bool,
        find: impl FnOnce(&mut Array, &mut Operations),
    ) {
        let mut operations = self.spare.pop().unwrap_or_default();
        operations.clear();
        find(&mut self.arrays[array], &mut operations);
        let writing = kind != Kind::Read && operations.reads.is_empty();
        let stamp = if kind == Kind::Write { self.stamp_of(owner, array) } else { 0 };
        let lost = operations.lost;
        let array = array as u32;
        let job = Job { array, kind, writing, durable, stamp, ..Job::of(owner, operations) };
        let job = self.jobs.insert(job);
        if lost {
            return self.plan(now_ns + REFUSED_NS, Event::JobEnded(job));
        }
        if self.may_begin(job) {
            self.begin_job(now_ns, job);
        }
    }

    pub(super) fn begin_job(&mut self, now_ns: u64, number: u32) {
        let job = self.jobs.get(number);
        if matches!(job.owner, Owner::Background { .. }) {
            let first = job.array as usize * self.arrays[job.array as usize].loads.len();
            for op in &job.operations.reads {
                self.resync.asks(self.places[first + op.member as usize], op.bytes);
            }
        }
        let begin_ns = self.parity_thread_ns(now_ns, number);
        self.then(now_ns, begin_ns, Event::StageBegins(number));
    }

    /// When the one thread of a software array has dealt with the stripes of a job to parity.
    fn parity_thread_ns(&mut self, now_ns: u64, number: u32) -> u64 {
        let (stripe_ns, page_ns) = self.parity_cost_ns;
        let job = self.jobs.get(number);
        if stripe_ns + page_ns == 0 || job.operations.writes.is_empty() || !self.arrays[job.array as usize].has_parity()
        {
            return now_ns;
        }
        let pages = |op: &MemberOp| u64::from(op.bytes).div_ceil(PAGE_BYTES);
        let operations = || job.operations.writes.iter().chain(&job.operations.reads);
        let stripes = operations().map(pages).max().unwrap_or(0);
        let cost_ns = stripes * stripe_ns + operations().map(pages).sum::<u64>() * page_ns;
        self.parity_free_ns = now_ns.max(self.parity_free_ns) + cost_ns;
        self.parity_free_ns
    }

    pub(super) fn start_stage(&mut self, now_ns: u64, number: u32) {
        let job = self.jobs.get(number);
        let (array, durable, stamp, class) = (job.array as usize, job.durable, job.stamp, job.class);
        let kind = if job.writing { job.kind } else { Kind::Read };
        let list = if job.writing { &mut job.operations.writes } else { &mut job.operations.reads };
        if job.writing {
            // Members may have failed since these writes were thought of.
            let layout = &self.arrays[array];
            list.retain(|op| !layout.is_absent(op.member as usize));
        }
        job.pending = list.len() as u32;
        let ops = std::mem::take(list);
        if ops.is_empty() {
            return self.plan(now_ns, Event::JobEnded(number));
        }
        let first = (array * self.arrays[array].loads.len()) as u32;
        // A controller's own array sends all commands of a request in one turn.
        let one_turn = !self.software && !self.controllers.is_empty();
        let job = self.jobs.get(number);
        let rebuilds_now = job.writing && matches!(job.owner, Owner::Background { .. });
        let turn_ns = if one_turn { self.controllers[array].turn(now_ns) } else { now_ns };
        for op in &ops {
            self.arrays[array].loads[op.member as usize] += 1;
            let op = MemberOp { member: first + op.member, ..*op };
            if rebuilds_now {
                self.resync.asks(self.places[op.member as usize], op.bytes);
            }
            let step = self.steps.insert(Step { job: number, op, kind, durable: durable && op.write, stamp, class });
            if self.pool.is_some() {
                self.pool_queue(now_ns, step);
            } else {
                self.send_step(now_ns, step, turn_ns);
            }
        }
        // The list goes back, so that its memory is used again.
        let mut ops = ops;
        ops.clear();
        if let Some(job) = self.jobs.find(number) {
            let list = if job.writing { &mut job.operations.writes } else { &mut job.operations.reads };
            if list.is_empty() {
                *list = ops;
            }
        }
    }

    /// Sends an operation on its way to its member.
    pub(super) fn send_step(&mut self, now_ns: u64, number: u32, turn_ns: u64) {
        let op = self.steps.get(number).op;
        if self.software && !self.controllers.is_empty() {
            let controller = self.controller_of(op.member);
            let at_ns = self.controllers[controller].command(now_ns, op.write);
            self.then(now_ns, at_ns, Event::StepCommanded(number));
        } else {
            self.then(now_ns, turn_ns, Event::StepTurn(number));
        }
    }

    /// Data for a member begin to move when its link is free; the drive takes them in while they come.
    pub(super) fn step_turn(&mut self, now_ns: u64, number: u32) {
        let Step { op, kind, .. } = *self.steps.get(number);
        let bytes = if kind == Kind::Write { u64::from(op.bytes) } else { 0 };
        let at_ns = self.link_of(op.member).map_or(now_ns, |link| link.to_drive(now_ns, bytes));
        self.then(now_ns, at_ns, Event::StepGiven(number));
    }

    fn link_of(&mut self, member: u32) -> Option<&mut Link> {
        let links = self.links.len();
        (links > 0).then(|| &mut self.links[member as usize % links])
    }

    pub(super) fn give_member(&mut self, now_ns: u64, number: u32) {
        let Step { op, durable, kind, job, stamp, .. } = *self.steps.get(number);
        // A controller keeps its rebuild's pace however much waits for the drive; a host's queue knows no such turn.
        let urgent = !self.software && matches!(self.jobs.get(job).owner, Owner::Background { .. });
        let member = self.places[op.member as usize] as usize;
        self.issued += 1;
        let command =
            Command { id: number, kind, offset_bytes: op.offset_bytes, bytes: op.bytes, durable, urgent, stamp };
        self.members[member].submit(now_ns, command);
        self.member_next_ns[member] = self.members[member].next_event();
    }

    pub(super) fn member_ended(&mut self, now_ns: u64, number: u32) {
        let Step { op, job, kind, class, .. } = *self.steps.get(number);
        let work = &mut self.work[self.places[op.member as usize] as usize];
        match kind {
            Kind::Read => (work.reads, work.read_bytes) = (work.reads + 1, work.read_bytes + u64::from(op.bytes)),
            Kind::Write => {
                (work.writes, work.written_bytes) = (work.writes + 1, work.written_bytes + u64::from(op.bytes))
            }
            Kind::Flush | Kind::Trim => work.others += 1,
        }
        if kind != Kind::Flush {
            let array = self.jobs.get(job).array as usize;
            let here = self.arrays[array].loads.len();
            self.arrays[array].loads[op.member as usize - array * here] -= 1;
            self.pool_member_ended(now_ns, op.member, class);
        }
        let mut at_ns = now_ns;
        if kind == Kind::Read {
            at_ns = self.link_of(op.member).map_or(now_ns, |link| link.from_drive(now_ns, u64::from(op.bytes)));
            if self.software && !self.controllers.is_empty() {
                let controller = self.controller_of(op.member);
                at_ns = self.controllers[controller].transfer(at_ns, u64::from(op.bytes), false);
            }
        }
        self.then(now_ns, at_ns, Event::StepEnded(number));
    }

    pub(super) fn step_ended(&mut self, now_ns: u64, number: u32) {
        let step = self.steps.remove(number);
        let job = self.jobs.get(step.job);
        job.pending -= 1;
        if job.pending > 0 {
            return;
        }
        let to_write = !job.writing && !job.operations.writes.is_empty();
        let has_read = !job.writing;
        job.writing |= to_write;
        let (owner, array) = (job.owner, job.array as usize);
        let event = if to_write { Event::StageBegins(step.job) } else { Event::JobEnded(step.job) };
        let at_ns = match owner {
            Owner::Background { bytes, .. } if has_read => self.chunk_moved_ns(now_ns, array, bytes, to_write),
            _ => now_ns,
        };
        self.then(now_ns, at_ns, event);
    }

    pub(super) fn job_ended(&mut self, now_ns: u64, number: u32) {
        let job = self.jobs.remove(number);
        let lost = job.operations.lost;
        if let Some(ledger) = &mut self.ledger {
            ledger.arrived(job.stamp);
        }
        self.make_room(now_ns, &job);
        self.spare.push(job.operations);
        match job.owner {
            Owner::Request(number) => {
                self.active.get(number).failed |= lost;
                self.part_ended(now_ns, number);
            }
            Owner::Fetch { controller, chunk } => {
                let ahead = self.caches[controller as usize].read_ahead.as_mut();
                let waiting = ahead.map(|a| a.arrived(chunk)).unwrap_or_default();
                for number in waiting {
                    self.active.get(number).failed |= lost;
                    self.part_ended(now_ns, number);
                }
            }
            Owner::Destage { controller, row, bytes, whole } => {
                self.lost_bytes += if lost { bytes } else { 0 };
                self.destaged(now_ns, controller as usize, row, bytes, whole);
            }
            Owner::Row { waiting } => {
                for number in self.rows.remove(waiting) {
                    self.active.get(number).failed |= lost;
                    self.part_ended(now_ns, number);
                }
            }
            Owner::Record { array } => self.recorded(now_ns, array as usize),
            Owner::Pool { work } => self.pool_work_ended(now_ns, work, lost),
            Owner::Background { turn, .. } => self.background_ended(now_ns, turn),
        }
    }
}
