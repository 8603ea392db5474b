//! Duty: the program behind `brickyard watch`. Orders come as one line of JSON on standard input, intervals go as lines of
//! JSON to standard output; it ends when its input ends.
//!
//! Refusal: it opens no device and no file by a name that it is given; a trace goes to a descriptor that it inherits.

use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::os::fd::FromRawFd;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::json;
use trace::request::{FAILED, FUA, META, READ_AHEAD, SYNC};
use trace::{Header, Operation, Request, Writer};
use watch::ahead::Ahead;
use watch::interval::{Interval, MOST_SLOW, Seen, slow};
use watch::kernel::{Kernel, Wanted};
use watch::layout::{self, Told};
use watch::points::{self, Points};
use watch::samples::{During, Samples};
use watch::source::{Cost, Source};

const BAD_INPUT: u8 = 2;
/// How long the ring has to hold what comes between two looks.
const LOOK_MS: i32 = 10;
/// The kernel measures the time of programs for a part of each interval, since that takes time itself.
const COST_SHARE: u64 = 20;
/// Requests that are told of within one interval: beyond, the slowest are kept.
const SLOW_KEPT: usize = 4 * MOST_SLOW;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Orders {
    devices: Vec<Watched>,
    every_ms: u64,
    #[serde(default)]
    stripe_bytes: u64,
    /// A descriptor for the trace.
    #[serde(default)]
    trace_fd: Option<i32>,
    ring_bytes: u32,
    #[serde(default)]
    method: Method,
    #[serde(default)]
    arrays: Vec<String>,
    /// Whether it is to be seen how much of what is read ahead is used.
    #[serde(default)]
    read_ahead: bool,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Method {
    #[default]
    Bpf,
    Tracepoints,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Watched {
    name: String,
    /// As the kernel has it: major number << 20 | minor number.
    number: u32,
    capacity_bytes: u64,
    sector_bytes: u32,
}

fn main() -> ExitCode {
    match read_orders().and_then(|orders| watch(&orders)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = say(&json!({ "error": why }));
            ExitCode::from(BAD_INPUT)
        }
    }
}

fn read_orders() -> Result<Orders, String> {
    let mut line = String::new();
    // Not through a buffer that would take what follows the line.
    io::stdin().lock().read_line(&mut line).map_err(|e| format!("standard input cannot be read: {e}"))?;
    let orders: Orders = serde_json::from_str(&line).map_err(|e| format!("the orders cannot be read: {e}"))?;
    if orders.devices.is_empty() || orders.devices.len() > layout::MOST_DEVICES {
        return Err(format!("from 1 to {} devices can be watched", layout::MOST_DEVICES));
    }
    if !orders.ring_bytes.is_power_of_two() || orders.ring_bytes < 1 << 16 || orders.every_ms == 0 {
        return Err("ring_bytes: a power of two from 64 KiB on; every_ms: more than 0".into());
    }
    Ok(orders)
}

/// Whether anybody listens.
fn say(what: &impl serde::Serialize) -> bool {
    let mut out = io::stdout().lock();
    serde_json::to_string(what).is_ok_and(|text| writeln!(out, "{text}").and_then(|()| out.flush()).is_ok())
}

/// The clock of the kernel's programs.
fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into the place that it is given.
    unsafe { libc::clock_gettime(clock, &raw mut at) };
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

struct Watch {
    kernel: Box<dyn Source>,
    ahead: Option<Ahead>,
    /// When the time of programs began to be measured.
    ahead_cost: Cost,
    names: Vec<String>,
    seen: Seen,
    samples: Samples,
    slow: Vec<Told>,
    slow_count: u64,
    trace: Option<Writer<BufWriter<File>>>,
    origin_ns: u64,
    from_ns: u64,
    cpu_ns: u64,
    /// Until when the time of programs is measured; then what they took.
    cost_until_ns: Option<u64>,
    cost: Cost,
}

fn watch(orders: &Orders) -> Result<(), String> {
    let numbers: Vec<u32> = orders.devices.iter().map(|device| device.number).collect();
    let origin_ns = now_ns();
    let trace = orders.trace_fd.map(|fd| begin_trace(orders, fd, origin_ns)).transpose()?;
    let kernel = attach(orders, &numbers, origin_ns, trace.is_some())?;
    let (ahead, ahead_unseen) = attach_ahead(orders, &numbers);
    let mut watch = Watch {
        seen: Seen::new(kernel.as_ref())?,
        kernel,
        ahead,
        ahead_cost: Cost::default(),
        names: orders.devices.iter().map(|device| device.name.clone()).collect(),
        samples: Samples::new(orders.arrays.clone()),
        slow: vec![],
        slow_count: 0,
        trace,
        origin_ns,
        from_ns: now_ns(),
        cpu_ns: clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID),
        cost_until_ns: None,
        cost: Cost::default(),
    };
    let by_folios = watch.ahead.as_ref().is_some_and(Ahead::is_by_folios);
    let ready = json!({
        "ready": true, "start_ns": watch.from_ns, "ahead_unseen": ahead_unseen, "ahead_by_folios": by_folios,
    });
    if !say(&ready) {
        return Ok(());
    }
    let every_ns = orders.every_ms * 1_000_000;
    let mut due_ns = watch.from_ns + every_ns;
    watch.begin_cost(every_ns);
    loop {
        let ends = input_ends();
        watch.drain()?;
        watch.samples.look(now_ns());
        watch.end_cost(now_ns());
        if ends {
            watch.end_cost(u64::MAX);
            watch.kernel.detach(now_ns());
            watch.drain()?;
        }
        if ends || now_ns() >= due_ns {
            due_ns = (due_ns + every_ns).max(now_ns());
            let heard = watch.tell()?;
            if ends || !heard {
                break;
            }
            watch.begin_cost(every_ns);
        }
    }
    watch.end()
}

fn attach(orders: &Orders, devices: &[u32], began_ns: u64, exact: bool) -> Result<Box<dyn Source>, String> {
    let Orders { stripe_bytes, ring_bytes, .. } = *orders;
    if orders.method == Method::Bpf {
        return Ok(Box::new(Kernel::attach(&Wanted { devices, stripe_bytes, began_ns, exact, ring_bytes })?));
    }
    let names: Vec<String> = orders.devices.iter().map(|device| device.name.clone()).collect();
    Ok(Box::new(Points::attach(&points::Wanted { names: &names, devices, stripe_bytes, exact, ring_bytes })?))
}

/// Or why not. Requests are watched all the same.
fn attach_ahead(orders: &Orders, devices: &[u32]) -> (Option<Ahead>, String) {
    match orders.read_ahead.then(|| Ahead::attach(devices)) {
        None => (None, String::new()),
        Some(Ok(ahead)) => (Some(ahead), String::new()),
        Some(Err(why)) => (None, why),
    }
}

fn begin_trace(orders: &Orders, fd: i32, origin_ns: u64) -> Result<Writer<BufWriter<File>>, String> {
    // SAFETY: whoever started us opened it for this and uses it no more.
    let file = unsafe { File::from_raw_fd(fd) };
    let devices = orders.devices.iter().map(|device| trace::Device {
        name: device.name.clone(),
        capacity_bytes: device.capacity_bytes,
        sector_bytes: device.sector_bytes,
    });
    let header = Header {
        devices: devices.collect(),
        clock: "monotonic".into(),
        start_unix_ns: clock_ns(libc::CLOCK_REALTIME).saturating_sub(now_ns() - origin_ns),
        source: "brickyard watch".into(),
        before_queue: true,
    };
    Writer::new(BufWriter::new(file), &header).map_err(|e| format!("the trace cannot be written: {e}"))
}

/// Waits for a moment, or until the input ends; what comes on it means the same.
fn input_ends() -> bool {
    let mut wanted = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which is ours.
    let found = unsafe { libc::poll(&raw mut wanted, 1, LOOK_MS) };
    found > 0
}

impl Watch {
    fn drain(&mut self) -> Result<(), String> {
        self.kernel.look(now_ns())?;
        while let Some(told) = self.kernel.next_told() {
            if let Some(trace) = &mut self.trace {
                for request in asked_for(&told, self.origin_ns).iter().flatten() {
                    trace.push(request).map_err(|e| format!("the trace cannot be written: {e}"))?;
                }
            }
            let total_ns = told.ended_ns.saturating_sub(told.arrived_ns);
            // Nobody asked for the kernel's own commands, and what they are for is told by itself.
            let is_asked = !matches!(told.operation, layout::FLUSH_COMMAND | layout::OTHER);
            if !is_asked || total_ns < self.kernel.is_slow_from(usize::from(told.slot)) {
                continue;
            }
            self.slow_count += 1;
            self.slow.push(told);
            if self.slow.len() >= SLOW_KEPT {
                self.keep_slowest();
            }
        }
        Ok(())
    }

    fn begin_cost(&mut self, every_ns: u64) {
        self.kernel.begin_cost();
        self.ahead_cost = self.ahead.as_ref().map_or(Cost::default(), Ahead::cost);
        self.cost_until_ns = Some(now_ns() + every_ns / COST_SHARE);
    }

    fn end_cost(&mut self, now_ns: u64) {
        if self.cost_until_ns.take_if(|until_ns| now_ns >= *until_ns).is_some() {
            let ahead = self.ahead.as_ref().map_or(Cost::default(), Ahead::cost);
            self.cost = self.kernel.end_cost().with(ahead, self.ahead_cost);
        }
    }

    fn keep_slowest(&mut self) {
        self.slow.sort_by_key(|told| std::cmp::Reverse(told.ended_ns.saturating_sub(told.arrived_ns)));
        self.slow.truncate(MOST_SLOW);
    }

    fn tell(&mut self) -> Result<bool, String> {
        self.end_cost(u64::MAX);
        self.keep_slowest();
        let end_ns = now_ns();
        let cpu_ns = clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
        let During { steal_share, resync_per_s, .. } = self.samples.during(self.from_ns, end_ns);
        let owners = self.seen.owners(self.kernel.as_ref());
        let (seen, samples) = (&self.seen, &self.samples);
        let slowest = self
            .slow
            .drain(..)
            .map(|told| slow(&told, seen.comm(&told.owner()), &samples.during(told.arrived_ns, told.ended_ns)));
        let slow = slowest.collect();
        let told = Interval {
            start_ns: self.from_ns,
            end_ns,
            devices: self.seen.devices(self.kernel.as_mut(), self.ahead.as_ref(), &self.names)?,
            owners,
            slow,
            slow_count: std::mem::take(&mut self.slow_count),
            lost: self.seen.losses(self.kernel.as_ref())?,
            cpu_ns: cpu_ns - self.cpu_ns,
            programs: self.cost,
            steal_share,
            resync_per_s,
        };
        if let Some(trace) = &mut self.trace {
            // What was missed is in no trace either.
            trace.lost(told.lost.ring + told.lost.entries + told.lost.missed);
            trace.sync().map_err(|e| format!("the trace cannot be written: {e}"))?;
        }
        (self.from_ns, self.cpu_ns) = (end_ns, cpu_ns);
        Ok(say(&told))
    }

    fn end(self) -> Result<(), String> {
        let mut traced = 0;
        if let Some(trace) = self.trace {
            traced = trace.finish().map_err(|e| format!("the trace cannot be written: {e}"))?.1.requests;
        }
        say(&json!({ "end": true, "traced": traced }));
        Ok(())
    }
}

/// Flush commands are the kernel's own; what was asked for is in the trace. A write that is to be flushed before is a
/// flush, and a write that comes when the flush has ended.
fn asked_for(told: &Told, origin_ns: u64) -> [Option<Request>; 2] {
    let operation = match told.operation {
        layout::READ => Operation::Read,
        layout::FLUSH => Operation::Flush,
        // No data go with either.
        layout::DISCARD | layout::ZEROES => Operation::Discard,
        layout::FLUSH_COMMAND | layout::OTHER => return [None, None],
        _ => Operation::Write,
    };
    let flags = [
        (layout::IS_FUA, FUA),
        (layout::IS_SYNC, SYNC),
        (layout::IS_READ_AHEAD, READ_AHEAD),
        (layout::IS_META, META),
        (layout::IS_ERROR, FAILED),
    ];
    let mut request = Request {
        arrival_ns: told.arrived_ns.saturating_sub(origin_ns),
        issue_ns: (told.issued_ns > 0).then(|| told.issued_ns.saturating_sub(origin_ns)),
        complete_ns: Some(told.ended_ns.saturating_sub(origin_ns)),
        device: u32::from(told.slot),
        operation,
        flags: flags.iter().filter(|(seen, _)| told.flags & seen != 0).map(|(_, flag)| flag).sum(),
        offset_bytes: told.offset_bytes,
        bytes: u64::from(told.bytes),
        process: told.process,
    };
    if told.flags & layout::IS_PREFLUSH != 0 && told.operation == layout::WRITE_DURABLE {
        let flushed_ns = request.issue_ns.unwrap_or(request.arrival_ns);
        let before = Request {
            operation: Operation::Flush,
            offset_bytes: 0,
            bytes: 0,
            flags: 0,
            issue_ns: None,
            complete_ns: Some(flushed_ns),
            ..request
        };
        request.arrival_ns = flushed_ns;
        return [Some(before), Some(request)];
    }
    [None, Some(request)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_is_flushed_before_comes_when_the_flush_has_ended() {
        let mut told = Told::read(&[0; size_of::<Told>()]).unwrap();
        (told.arrived_ns, told.issued_ns, told.ended_ns) = (1_100, 1_500, 1_700);
        (told.operation, told.flags, told.bytes) = (layout::WRITE_DURABLE, layout::IS_PREFLUSH | layout::IS_FUA, 4096);
        let [Some(flush), Some(write)] = asked_for(&told, 1_000) else { panic!("two requests") };
        assert_eq!(
            (flush.operation, flush.bytes, flush.arrival_ns, flush.complete_ns),
            (Operation::Flush, 0, 100, Some(500))
        );
        assert_eq!(
            (write.operation, write.bytes, write.arrival_ns, write.complete_ns),
            (Operation::Write, 4096, 500, Some(700))
        );
        assert_eq!((flush.flags, write.flags), (0, FUA));
        told.flags = layout::IS_FUA;
        let [None, Some(write)] = asked_for(&told, 1_000) else { panic!("one request") };
        assert_eq!((write.arrival_ns, write.issue_ns), (100, Some(500)));
        told.operation = layout::FLUSH_COMMAND;
        assert_eq!(asked_for(&told, 1_000), [None, None]);
    }
}
