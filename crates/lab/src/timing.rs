//! Duty: when requests end: by a model of the simulator that real time drives, or at once. The model's time may run faster
//! than ours, slower, or stand still.
//!
//! Refusal: no thread sleeps here, and no data are touched.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sim::NEVER;
use sim::brick::Brick;
use sim::member::Kind;
use sim::system::{Request, System};

use crate::breaking::Breaking;

/// What a flush takes that no model times, so that other requests come meanwhile as they do on real disks: on a disk without
/// a model, and where the disk ignores it.
const FLUSH_NS: u64 = 50_000;

/// A request that has ended: its tag, when it did by the model's clock, and whether it failed.
pub type Ended = (u32, u64, bool);

#[derive(Debug)]
enum Source {
    AtOnce,
    /// `failed`: members that failed, which a power cut does not mend.
    Model {
        system: Box<System>,
        brick: Box<Brick>,
        failed: Vec<u32>,
    },
}

#[derive(Debug)]
pub struct Timing {
    source: Source,
    /// When what no model times will have ended, with its tag.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// The model's seconds a second.
    speed: f64,
    slowness: f64,
    then_real_ns: u64,
    then_model_ns: u64,
    stalled_until_ns: u64,
    /// What a request takes on the host besides the disk: it counts as come so much earlier.
    lead_ns: u64,
    /// The model's last event: nothing can come before it.
    happened_ns: u64,
}

impl Timing {
    pub fn new(brick: Option<Brick>, speed: f64) -> Result<Timing, String> {
        let source = match brick {
            Some(brick) => {
                Source::Model { system: Box::new(System::new(&brick)?), brick: Box::new(brick), failed: Vec::new() }
            }
            None => Source::AtOnce,
        };
        Ok(Timing {
            source,
            due: BinaryHeap::new(),
            speed,
            slowness: 1.0,
            then_real_ns: 0,
            then_model_ns: 0,
            stalled_until_ns: 0,
            lead_ns: 0,
            happened_ns: 0,
        })
    }

    pub fn capacity_bytes(&self) -> Option<u64> {
        match &self.source {
            Source::Model { system, .. } => Some(system.capacity_bytes()),
            Source::AtOnce => None,
        }
    }

    /// The model's clock.
    pub fn now(&self, real_ns: u64) -> u64 {
        let passed = real_ns.saturating_sub(self.then_real_ns.max(self.stalled_until_ns));
        self.then_model_ns + (passed as f64 * self.speed / self.slowness) as u64
    }

    /// When the model's clock will show an instant.
    pub fn real(&self, model_ns: u64) -> u64 {
        if model_ns == NEVER {
            return NEVER;
        }
        let ahead = model_ns.saturating_sub(self.then_model_ns) as f64 * self.slowness / self.speed;
        self.then_real_ns.max(self.stalled_until_ns) + ahead.ceil() as u64
    }

    fn settle(&mut self, real_ns: u64) {
        (self.then_model_ns, self.then_real_ns) = (self.now(real_ns), real_ns);
    }

    pub fn slow(&mut self, real_ns: u64, factor: f64) {
        self.settle(real_ns);
        self.slowness = factor;
    }

    pub fn stall(&mut self, real_ns: u64, for_ns: u64) {
        self.settle(real_ns);
        self.stalled_until_ns = real_ns + for_ns;
    }

    pub fn lead(&mut self, lead_ns: u64) {
        self.lead_ns = lead_ns;
    }

    /// A request that ends after a given time by our clock, of which the model never hears.
    pub fn after(&mut self, real_ns: u64, tag: u32, for_ns: u64) {
        let at = self.now(real_ns + for_ns);
        self.due.push(Reverse((at, tag)));
    }

    pub fn submit(&mut self, real_ns: u64, tag: u32, kind: Kind, offset_bytes: u64, bytes: u32, durable: bool) {
        let now = self.now(real_ns);
        let came = self.now(real_ns.saturating_sub(self.lead_ns)).max(self.happened_ns);
        match &mut self.source {
            Source::AtOnce => self.due.push(Reverse((now + if kind == Kind::Flush { FLUSH_NS } else { 0 }, tag))),
            Source::Model { system, .. } => {
                self.happened_ns = came;
                system.submit(came, Request { tag, kind, offset_bytes, bytes, durable });
            }
        }
    }

    /// A flush that the disk ignores: the drive never hears of it.
    pub fn ignore_flush(&mut self, real_ns: u64, tag: u32) {
        let at = self.now(real_ns) + FLUSH_NS;
        self.due.push(Reverse((at, tag)));
    }

    /// When something will happen, by our clock.
    pub fn next(&self) -> u64 {
        let due = self.due.peek().map_or(NEVER, |Reverse((at, _))| *at);
        match &self.source {
            Source::AtOnce => self.real(due),
            Source::Model { system, .. } if system.has_ended() => self.real(0),
            Source::Model { system, .. } => self.real(system.next_event().min(due)),
        }
    }

    pub fn advance(&mut self, real_ns: u64, ended: &mut Vec<Ended>) {
        if real_ns < self.stalled_until_ns {
            return;
        }
        let now = self.now(real_ns);
        while self.due.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            ended.extend(self.due.pop().map(|Reverse((at, tag))| (tag, at, false)));
        }
        if let Source::Model { system, .. } = &mut self.source {
            while system.next_event() <= now {
                self.happened_ns = system.next_event();
                system.advance(self.happened_ns);
            }
            system.take_outcomes(|outcome| ended.push(outcome));
        }
    }

    /// Forgets every request; the model begins again with nothing in its caches.
    pub fn power_cut(&mut self, real_ns: u64) -> Result<(), String> {
        self.settle(real_ns);
        self.due.clear();
        match &mut self.source {
            Source::AtOnce => {}
            Source::Model { system, brick, failed } => {
                **system = System::new(brick)?;
                // A new model begins at 0.
                (self.then_model_ns, self.happened_ns) = (0, 0);
                failed.iter().try_for_each(|member| system.fail_member(0, *member))?;
            }
        }
        Ok(())
    }

    pub fn can_be_slow(&self) -> Result<(), String> {
        match &self.source {
            Source::AtOnce => Err("a disk without a model has no times that could be longer; use stall".into()),
            Source::Model { .. } => Ok(()),
        }
    }

    /// Whether there is such a member.
    pub fn can_fail(&self, member: u32) -> Result<(), String> {
        match &self.source {
            Source::AtOnce => Err("a disk without a model has no members; use full or power-cut".into()),
            Source::Model { failed, .. } if failed.contains(&member) => {
                Err(format!("member {member} has failed already; name another one"))
            }
            Source::Model { system, .. } => system.has_member(member),
        }
    }

    /// Those that last: members that failed, slowness, and the rest of a stall.
    pub fn faults(&self, real_ns: u64) -> Vec<Breaking> {
        let mut found = match &self.source {
            Source::AtOnce => Vec::new(),
            Source::Model { failed, .. } => failed.iter().map(|member| Breaking::Fail(*member)).collect(),
        };
        if self.slowness != 1.0 {
            found.push(Breaking::Slow(self.slowness));
        }
        if real_ns < self.stalled_until_ns {
            found.push(Breaking::Stall(self.stalled_until_ns - real_ns));
        }
        found
    }

    pub fn fail_member(&mut self, real_ns: u64, member: u32) -> Result<(), String> {
        let now = self.now(real_ns);
        match &mut self.source {
            Source::AtOnce => self.can_fail(member),
            Source::Model { system, failed, .. } => {
                system.fail_member(now, member)?;
                failed.push(member);
                Ok(())
            }
        }
    }
}
