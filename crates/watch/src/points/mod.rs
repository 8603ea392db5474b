//! Tracepoints without programs in the kernel: their records come through buffers of perf, which go with this process,
//! and are counted here. For kernels that take no program or do not describe themselves.

mod count;
mod format;
mod perf;

use std::collections::HashMap;
use std::fs;

use crate::layout::{Account, Cell, Device, Losses, Owner, Told};
use crate::source::Source;

use count::Count;
use format::{Format, Point};
use perf::Buffers;

/// What is written before a look began is complete after it, but for what another CPU was just writing.
const SETTLED_NS: u64 = 1_000_000;
/// How often the kernel is asked what is in its devices.
const CHECK_NS: u64 = 100_000_000;

pub struct Points {
    buffers: Buffers,
    count: Count,
    /// Records that others may still stand before.
    held: Vec<Event>,
    /// Of the devices whose requests the kernel counts.
    counters: Vec<Option<String>>,
    check: Check,
}

/// What the kernel itself had in each device, where it counts that.
#[derive(Default)]
struct Check {
    at_ns: u64,
    in_flight: Vec<Option<u64>>,
    is_pending: bool,
}

pub struct Wanted<'a> {
    pub names: &'a [String],
    /// Numbers of whole disks, as the kernel has them.
    pub devices: &'a [u32],
    pub stripe_bytes: u64,
    pub exact: bool,
    pub ring_bytes: u32,
}

/// A record of a tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub at_ns: u64,
    pub point: Point,
    pub slot: u16,
    pub part: u32,
    pub sector: u64,
    pub sectors: u32,
    pub failed: bool,
    pub process: u32,
    /// As blktrace writes it: F, then the operation, then F, A, S, M.
    pub kind: [u8; 8],
    pub comm: [u8; crate::layout::COMM],
}

impl Points {
    pub fn attach(wanted: &Wanted) -> Result<Points, String> {
        for name in wanted.names {
            if !fs::exists(format!("/sys/block/{name}/mq")).unwrap_or(false) {
                return Err(format!(
                    "refused: {name} has no requests but bios, whose ends its tracepoints do not place"
                ));
            }
        }
        let formats = Point::ALL.into_iter().map(Format::of).collect::<Result<Vec<_>, String>>()?;
        let slots = slots_of(wanted);
        let buffers = Buffers::open(&formats, slots.keys().copied(), wanted.ring_bytes)?;
        let count = Count::new(wanted.devices.len(), slots, wanted.stripe_bytes, wanted.exact);
        let counters = wanted.names.iter().map(|name| counter_of(name)).collect();
        Ok(Points { buffers, count, held: vec![], counters, check: Check::default() })
    }

    /// The kernel skips tracepoints for perf in some states of its own, so some ends never come. Without this, such
    /// requests would seem to be under way for ever, and the next one for the same sector would get their time.
    fn begin_check(&mut self, now_ns: u64) {
        let in_flight = self.counters.iter().map(|path| in_flight(path.as_ref()?)).collect();
        self.check = Check { at_ns: now_ns, in_flight, is_pending: true };
    }

    /// To be called when all records from before the check are counted.
    fn end_check(&mut self) {
        self.check.is_pending = false;
        for (slot, in_flight) in self.check.in_flight.iter().enumerate() {
            if let Some(in_flight) = in_flight {
                // The kernel reports that it issues a request before it counts it.
                self.count.settle(slot as u16, self.check.at_ns.saturating_sub(SETTLED_NS), *in_flight as usize);
            }
        }
    }

    fn take(&mut self, before_ns: u64) {
        self.held.sort_by_key(|event| event.at_ns);
        let ready = self.held.partition_point(|event| event.at_ns < before_ns);
        for event in self.held.drain(..ready) {
            self.count.take(&event);
        }
    }
}

/// Requests of which the device keeps statistics.
fn counter_of(name: &str) -> Option<String> {
    let is_counted = fs::read_to_string(format!("/sys/block/{name}/queue/iostats")).ok()?.trim() == "1";
    is_counted.then(|| format!("/sys/block/{name}/inflight"))
}

fn in_flight(path: &String) -> Option<u64> {
    let words = fs::read_to_string(path).ok()?;
    let counts: Vec<u64> = words.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    (counts.len() == 2).then(|| counts.iter().sum())
}

/// Disks and their partitions by number: a bio may still name the partition.
fn slots_of(wanted: &Wanted) -> HashMap<u32, u16> {
    let mut slots = HashMap::new();
    for (slot, (name, number)) in wanted.names.iter().zip(wanted.devices).enumerate() {
        slots.insert(*number, slot as u16);
        let Ok(entries) = fs::read_dir(format!("/sys/block/{name}")) else { continue };
        for part in entries.flatten().filter(|entry| entry.path().join("partition").exists()) {
            let text = fs::read_to_string(part.path().join("dev")).unwrap_or_default();
            if let Some((Ok(major), Ok(minor))) =
                text.trim().split_once(':').map(|(major, minor)| (major.parse::<u32>(), minor.parse::<u32>()))
            {
                slots.insert(major << 20 | minor, slot as u16);
            }
        }
    }
    slots
}

impl Source for Points {
    fn cells(&self, slot: usize, operation: usize) -> Result<Vec<Cell>, String> {
        Ok(vec![self.count.cell(slot, operation)])
    }

    fn device(&self, slot: usize) -> Result<Device, String> {
        Ok(self.count.devices[slot])
    }

    fn device_count(&self) -> usize {
        self.count.devices.len()
    }

    fn losses(&self) -> Result<Losses, String> {
        Ok(self.count.lost)
    }

    fn owners(&self) -> Vec<(Owner, Vec<Account>)> {
        self.count.owners.iter().map(|(owner, account)| (*owner, vec![*account])).collect()
    }

    fn next_told(&mut self) -> Option<Told> {
        self.count.told.pop_front()
    }

    fn slow_from(&mut self, slot: usize, ns: u64) -> Result<(), String> {
        self.count.slow_ns[slot] = ns;
        Ok(())
    }

    fn is_slow_from(&self, slot: usize) -> u64 {
        self.count.slow_ns.get(slot).copied().unwrap_or(0)
    }

    fn look(&mut self, now_ns: u64) -> Result<(), String> {
        let slots = &self.count.slots;
        let lost = self.buffers.read(slots, &mut self.held);
        self.count.lost.entries += lost;
        self.take(now_ns.saturating_sub(SETTLED_NS));
        if lost > 0 {
            self.count.forget();
        }
        if self.check.is_pending && self.check.at_ns + SETTLED_NS < now_ns {
            self.end_check();
        }
        if self.check.at_ns + CHECK_NS < now_ns {
            self.begin_check(now_ns);
        }
        Ok(())
    }

    fn detach(&mut self, now_ns: u64) {
        self.begin_check(now_ns);
        self.buffers.stop();
        let slots = &self.count.slots;
        self.count.lost.entries += self.buffers.read(slots, &mut self.held);
        self.take(u64::MAX);
        self.end_check();
    }
}
