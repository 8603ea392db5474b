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

pub struct Points {
    buffers: Buffers,
    count: Count,
    /// Records that others may still stand before.
    held: Vec<Event>,
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
        Ok(Points { buffers, count, held: vec![] })
    }

    fn take(&mut self, before_ns: u64) {
        self.held.sort_by_key(|event| event.at_ns);
        let ready = self.held.partition_point(|event| event.at_ns < before_ns);
        for event in self.held.drain(..ready) {
            self.count.take(&event);
        }
    }
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
        Ok(())
    }

    fn detach(&mut self) {
        self.buffers.stop();
        let slots = &self.count.slots;
        self.count.lost.entries += self.buffers.read(slots, &mut self.held);
        self.take(u64::MAX);
    }
}
