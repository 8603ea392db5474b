//! The way of a request: from the host to where its redundancy is kept, into a cache or an array's hands, and back.

use super::jobs::Owner;
use super::{Active, Event, REFUSED_NS, System};
use crate::array::Array;
use crate::controller::Controller;
use crate::gather::PATIENCE_NS;
use crate::member::Kind;
use crate::region_log::Held;
use crate::write_back::Found;

/// The host's own stripe over the arrays of several controllers; of one array, all is one part.
#[derive(Clone, Copy)]
struct HostStripe {
    arrays: u64,
    unit_bytes: u64,
}

impl HostStripe {
    /// Array, offset there, and bytes of each part, in the order of addresses. A request without data is one part.
    fn parts(self, offset: u64, bytes: u64) -> impl Iterator<Item = (usize, u64, u64)> {
        let (mut at, end, mut is_begun) = (offset, offset + bytes, false);
        std::iter::from_fn(move || {
            if at >= end && is_begun {
                return None;
            }
            is_begun = true;
            let begin = at;
            let unit = begin / self.unit_bytes;
            at = if self.arrays == 1 { end } else { end.min((unit + 1) * self.unit_bytes) };
            Some(match self.arrays {
                1 => (0, begin, at - begin),
                arrays => {
                    let within = unit / arrays * self.unit_bytes + begin % self.unit_bytes;
                    ((unit % arrays) as usize, within, at - begin)
                }
            })
        })
    }
}

/// A controller's part of a request.
pub(super) struct Share {
    offset: u64,
    bytes: u64,
    /// The controller's first part of this request: it gets one command for all of them.
    is_first: bool,
}

impl System {
    /// What of a request lies in which array, and where there.
    pub(super) fn parts(&self, offset: u64, bytes: u64) -> impl Iterator<Item = (usize, u64, u64)> + use<> {
        HostStripe { arrays: self.arrays.len() as u64, unit_bytes: self.stripe_bytes }.parts(offset, bytes)
    }

    /// Gives each controller its part of a request, and says when the last has done it. Behind the host's stripe, a long
    /// request is of several controllers.
    pub(super) fn at_controllers(
        &mut self,
        number: u32,
        mut work: impl FnMut(&mut Controller, &Array, Share) -> u64,
    ) -> u64 {
        let request = self.active.get(number).request;
        let parts = self.parts(request.offset_bytes.min(self.capacity_bytes() - 1), u64::from(request.bytes));
        let done = parts.enumerate().map(|(at, (controller, offset, bytes))| {
            let share = Share { offset, bytes, is_first: at < self.controllers.len() };
            work(&mut self.controllers[controller], &self.arrays[controller], share)
        });
        done.max().unwrap_or(0)
    }

    pub(super) fn arrived(&mut self, now_ns: u64, number: u32) {
        let write = self.active.get(number).request.kind == Kind::Write;
        if self.software || self.controllers.is_empty() {
            return self.serve(now_ns, number);
        }
        let at_ns = self.at_controllers(number, |controller, _, share| match share.is_first {
            true => controller.command(now_ns, write),
            false => now_ns,
        });
        self.then(now_ns, at_ns, Event::Commanded(number));
    }

    /// The processors have dealt with a request; the data of a write come next.
    pub(super) fn commanded(&mut self, now_ns: u64, number: u32) {
        let write = self.active.get(number).request.kind == Kind::Write;
        let at_ns = match write {
            true => self.at_controllers(number, |controller, array, share| {
                if share.is_first {
                    controller.writes_to(array.member_at(share.offset));
                }
                controller.transfer(now_ns, share.bytes, true)
            }),
            false => now_ns,
        };
        self.then(now_ns, at_ns, Event::Taken(number));
    }

    /// A request is where its redundancy is kept: in the cache's or the array's hands from here on.
    pub(super) fn serve(&mut self, now_ns: u64, number: u32) {
        if self.pool.is_some() {
            return self.pool_serve(now_ns, number);
        }
        let request = self.active.get(number).request;
        match request.kind {
            Kind::Flush => self.flush(now_ns, number),
            Kind::Trim => self.trim(now_ns, number),
            Kind::Read | Kind::Write => {
                // One part more than there are, so that none can end the request before all are known.
                self.active.get(number).parts = 1;
                for (array, offset, bytes) in self.parts(request.offset_bytes, u64::from(request.bytes)) {
                    match request.kind {
                        Kind::Read => self.read_part(now_ns, number, array, offset, bytes),
                        _ => self.write_part(now_ns, number, array, offset, bytes),
                    }
                }
                self.part_ended(now_ns, number);
            }
        }
    }

    /// Members are told where what they have of it is nobody's redundancy. Controllers, and arrays with parity, keep trims
    /// to themselves, as products do unless they are told that the drives return zeros (`raid456.devices_handle_discard_safely`).
    fn trim(&mut self, now_ns: u64, number: u32) {
        if !self.controllers.is_empty() || self.arrays[0].has_parity() {
            return self.plan(now_ns + REFUSED_NS, Event::Ended(number));
        }
        let request = self.active.get(number).request;
        self.active.get(number).parts = 1;
        let (offset, bytes) = (request.offset_bytes, u64::from(request.bytes));
        let owner = Owner::Request(number);
        self.start_job(now_ns, owner, 0, Kind::Trim, false, |a, out| a.write(offset, bytes, out));
    }

    fn read_part(&mut self, now_ns: u64, number: u32, array: usize, offset: u64, bytes: u64) {
        let cache = &mut self.caches[array];
        if cache.write_back.as_ref().is_some_and(|w| w.holds(offset, bytes)) {
            return;
        }
        if let Some(ahead) = &mut cache.read_ahead {
            let mut fetches = Vec::new();
            let found = ahead.read(number, offset, bytes, &mut fetches);
            if let Found::Stream(waits) = found {
                self.active.get(number).parts += waits;
            }
            for (chunk, at, length) in fetches {
                let owner = Owner::Fetch { controller: array as u32, chunk };
                self.start_job(now_ns, owner, array, Kind::Read, false, |a, out| a.read(at, length, out));
            }
            if matches!(found, Found::Stream(_)) {
                return;
            }
        }
        if !self.software
            && self.arrays[array].is_mirror()
            && let Some(controller) = self.controllers.get_mut(array)
        {
            let active = self.active.get(number);
            self.arrays[array].continued_sets(offset, bytes, |set, bytes| {
                active.not_before_ns = active.not_before_ns.max(controller.stream(now_ns, set, bytes));
            });
        }
        self.active.get(number).parts += 1;
        self.start_job(now_ns, Owner::Request(number), array, Kind::Read, false, |a, out| a.read(offset, bytes, out));
    }

    fn write_part(&mut self, now_ns: u64, number: u32, array: usize, offset: u64, bytes: u64) {
        let durable = self.active.get(number).request.durable;
        let trusted = !durable || self.battery;
        if self.caches[array].write_back.is_some() && trusted {
            self.active.get(number).parts += 1;
            self.caches[array].blocked.push_back(number);
            return self.admit(now_ns, array);
        }
        if let Some(gather) = &mut self.caches[array].gather {
            let added = gather.add(number, offset, bytes, durable);
            self.active.get(number).parts += added.parts;
            added.ready.into_iter().for_each(|row| self.write_gathered(now_ns, array, row));
            for due in added.due {
                self.plan(now_ns + PATIENCE_NS, Event::RowDue { array: array as u32, due });
            }
            return;
        }
        self.active.get(number).parts += 1;
        let held = Held { request: number, offset, bytes };
        if self.caches[array].region_log.as_mut().is_none_or(|log| log.admits(held)) {
            self.start_write(now_ns, array, held);
        }
        self.write_record(now_ns, array);
    }

    pub(super) fn start_write(&mut self, now_ns: u64, array: usize, held: Held) {
        let durable = self.active.get(held.request).request.durable;
        let owner = Owner::Request(held.request);
        self.start_job(now_ns, owner, array, Kind::Write, durable, |a, out| a.write(held.offset, held.bytes, out));
    }

    /// One part of a request has ended; with the last one its data go to the host.
    pub(super) fn part_ended(&mut self, now_ns: u64, number: u32) {
        let active = self.active.get(number);
        active.parts -= 1;
        if active.parts > 0 {
            return;
        }
        if self.pool.is_some() {
            return self.pool_parts_ended(now_ns, number);
        }
        let Active { request, not_before_ns, .. } = *active;
        let mut at_ns = now_ns.max(not_before_ns);
        if request.kind == Kind::Read && !self.software && !self.controllers.is_empty() {
            let moved_ns =
                self.at_controllers(number, |controller, _, share| controller.transfer(now_ns, share.bytes, false));
            at_ns = at_ns.max(moved_ns);
        }
        self.then(now_ns, at_ns, Event::Ended(number));
    }

    pub(super) fn end(&mut self, now_ns: u64, number: u32) {
        self.told(now_ns, number);
        let active = self.active.remove(number);
        self.ended.push((active.request.tag, now_ns, active.failed));
        self.last_request_ns = Some(now_ns);
        self.at_work -= 1;
        if let Some(next) = self.waiting.pop_front() {
            self.enter(now_ns, next);
        }
    }
}
