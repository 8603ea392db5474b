//! The programs in the kernel: loaded, attached, read. They live as long as this does, and end with its process.

use std::error::Error;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use aya::maps::{Array, HashMap, MapData, PerCpuArray, RingBuf};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::sys::{Stats, enable_stats};
use aya::util::KernelVersion;
use aya::{Btf, BtfError, Ebpf, EbpfLoader};

use crate::layout::{Account, Cell, Control, Device, FLUSH, Losses, MOST_DEVICES, OPERATIONS, OTHER, Owner, Told};
use crate::source::{Cost, Source};

/// Compiled by `make bpf` from `bpf/watch.bpf.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/watch.bpf.o");
/// Program, and the tracepoint of the block layer that it stands on.
const PROGRAMS: [(&str, &str); 10] = [
    // Ends come last, so that no request is seen to end whose beginning could not be seen yet.
    ("bio_queue", "block_bio_queue"),
    ("split", "block_split"),
    ("bio_backmerge", "block_bio_backmerge"),
    ("bio_frontmerge", "block_bio_frontmerge"),
    ("rq_insert", "block_rq_insert"),
    ("rq_issue", "block_rq_issue"),
    ("rq_requeue", "block_rq_requeue"),
    ("rq_merge", "block_rq_merge"),
    ("bio_complete", "block_bio_complete"),
    ("rq_complete", "block_rq_complete"),
];
/// Sees the ends that the one before it missed; it costs each request another run.
const SECOND: (&str, &str) = ("rq_complete_missed", "block_rq_complete");
/// From here on the kernel tells how many runs it left out.
const TELLS_LEFT_OUT: (u8, u8) = (6, 7);
/// Until there is something to compare with, a request is slow from here on.
const SLOW: Duration = Duration::from_millis(2);

pub struct Kernel {
    cells: PerCpuArray<MapData, Cell>,
    devices: Array<MapData, Device>,
    /// The numbers of accounts.
    owners: HashMap<MapData, Owner, u32>,
    accounts: PerCpuArray<MapData, Account>,
    lost: PerCpuArray<MapData, Losses>,
    controls: Array<MapData, Control>,
    ring: RingBuf<MapData>,
    control: Control,
    device_count: usize,
    /// While the kernel measures: it does as long as this is open.
    measuring: Option<(OwnedFd, Instant, Cost)>,
    has_second: bool,
    /// The links to the tracepoints are in here.
    _programs: Ebpf,
}

pub struct Wanted<'a> {
    /// Numbers of whole disks, as the kernel has them.
    pub devices: &'a [u32],
    pub stripe_bytes: u64,
    /// No request is taken for older.
    pub began_ns: u64,
    pub exact: bool,
    pub ring_bytes: u32,
}

impl Kernel {
    pub fn attach(wanted: &Wanted) -> Result<Kernel, String> {
        let btf = Btf::from_sys_fs().map_err(|error| no_btf(&error))?;
        let numbers = numbers_of(wanted.devices);
        let count = wanted.devices.len() as u32;
        let mut programs = EbpfLoader::new()
            .btf(Some(&btf))
            .set_global("DEVICES", &numbers, true)
            .set_global("DEVICE_COUNT", &count, true)
            .set_global("STRIPE_BYTES", &wanted.stripe_bytes, true)
            .set_global("BEGAN_NS", &wanted.began_ns, true)
            .set_max_entries("cells", count * OPERATIONS as u32)
            .set_max_entries("devices", count)
            .set_max_entries("ring", wanted.ring_bytes)
            .load(OBJECT)
            .map_err(|error| refused("the maps", &error))?;
        for (name, point) in PROGRAMS.into_iter().chain([SECOND]) {
            program(&mut programs, name)?.load(point, &btf).map_err(|error| refused(point, &error))?;
        }
        let mut kernel = Kernel {
            cells: PerCpuArray::try_from(taken(&mut programs, "cells")?).map_err(plain)?,
            devices: Array::try_from(taken(&mut programs, "devices")?).map_err(plain)?,
            owners: HashMap::try_from(taken(&mut programs, "owners")?).map_err(plain)?,
            accounts: PerCpuArray::try_from(taken(&mut programs, "accounts")?).map_err(plain)?,
            lost: PerCpuArray::try_from(taken(&mut programs, "lost")?).map_err(plain)?,
            controls: Array::try_from(taken(&mut programs, "controls")?).map_err(plain)?,
            ring: RingBuf::try_from(taken(&mut programs, "ring")?).map_err(plain)?,
            control: Control { slow_ns: [SLOW.as_nanos() as u64; MOST_DEVICES], exact: u64::from(wanted.exact) },
            device_count: wanted.devices.len(),
            measuring: None,
            has_second: false,
            _programs: programs,
        };
        kernel.tell()?;
        for (name, point) in PROGRAMS {
            program(&mut kernel._programs, name)?.attach().map_err(|error| refused(point, &error))?;
        }
        let (major, minor) = TELLS_LEFT_OUT;
        if !KernelVersion::current().is_ok_and(|version| version >= KernelVersion::new(major, minor, 0)) {
            kernel.attach_second();
        }
        Ok(kernel)
    }

    /// Without it, what the first one misses is counted without its time, so a failure is no reason to end.
    fn attach_second(&mut self) {
        if !self.has_second {
            let (name, _) = SECOND;
            self.has_second = program(&mut self._programs, name).is_ok_and(|second| second.attach().is_ok());
        }
    }

    fn cost(&self) -> Cost {
        cost_of(&self._programs)
    }

    fn tell(&mut self) -> Result<(), String> {
        self.controls.set(0, self.control, 0).map_err(plain)
    }
}

impl Source for Kernel {
    /// From here on requests to a device are slow.
    fn slow_from(&mut self, slot: usize, ns: u64) -> Result<(), String> {
        self.control.slow_ns[slot] = ns;
        self.tell()
    }

    fn is_slow_from(&self, slot: usize) -> u64 {
        self.control.slow_ns.get(slot).copied().unwrap_or(0)
    }

    fn begin_cost(&mut self) {
        if let Ok(fd) = enable_stats(Stats::RunTime) {
            self.measuring = Some((fd, Instant::now(), self.cost()));
        }
    }

    fn end_cost(&mut self) -> Cost {
        let now = self.cost();
        if now.left_out > 0 {
            self.attach_second();
        }
        let Some((fd, since, then)) = self.measuring.take() else {
            return Cost { left_out: now.left_out, ..Cost::default() };
        };
        let measured_ns = since.elapsed().as_nanos() as u64;
        drop(fd);
        Cost {
            ns: now.ns.saturating_sub(then.ns),
            runs: now.runs.saturating_sub(then.runs),
            measured_ns,
            left_out: now.left_out,
        }
    }

    /// No more is counted; what is in the maps stays readable.
    fn detach(&mut self, _now_ns: u64) {
        let names: Vec<String> = self._programs.programs().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let program =
                self._programs.program_mut(&name).and_then(|found| <&mut BtfTracePoint>::try_from(found).ok());
            if let Some(program) = program {
                let _ = program.unload(); // what cannot be unloaded goes with this process
            }
        }
    }

    /// Of one device and operation, of each CPU.
    fn cells(&self, slot: usize, operation: usize) -> Result<Vec<Cell>, String> {
        let index = (slot * OPERATIONS + operation) as u32;
        let by_bios = self.device(slot)?.by_bios > 0;
        let cells = self.cells.get(&index, 0).map_err(plain)?;
        Ok(cells.iter().map(|cell| completed(*cell, operation, by_bios)).collect())
    }

    fn device(&self, slot: usize) -> Result<Device, String> {
        self.devices.get(&(slot as u32), 0).map_err(plain)
    }

    fn device_count(&self) -> usize {
        self.device_count
    }

    fn losses(&self) -> Result<Losses, String> {
        let mut sum = Losses::default();
        for one in self.lost.get(&0, 0).map_err(plain)?.iter() {
            sum.ring += one.ring;
            sum.entries += one.entries;
            sum.owners += one.owners;
            sum.unknown += one.unknown;
            sum.missed += one.missed;
        }
        Ok(sum)
    }

    /// Who asked, of each CPU.
    fn owners(&self) -> Vec<(Owner, Vec<Account>)> {
        let numbers = self.owners.iter().filter_map(Result::ok);
        numbers.filter_map(|(owner, number)| Some((owner, self.accounts.get(&number, 0).ok()?.to_vec()))).collect()
    }

    fn next_told(&mut self) -> Option<Told> {
        self.ring.next().and_then(|item| Told::read(&item))
    }

    fn look(&mut self, _now_ns: u64) -> Result<(), String> {
        Ok(()) // the kernel counts by itself
    }
}

/// By what the kernel tells of each program.
pub(crate) fn cost_of(programs: &Ebpf) -> Cost {
    let mut sum = Cost::default();
    for (_, program) in programs.programs() {
        let Ok(fd) = program.fd() else { continue };
        let path = format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd());
        let text = fs::read_to_string(path).unwrap_or_default();
        sum.ns += number(&text, "run_time_ns");
        sum.runs += number(&text, "run_cnt");
        sum.left_out += number(&text, "recursion_misses");
    }
    sum
}

/// With what the programs leave out, since it follows from the rest: requests that did not wait, and in devices without
/// requests, which have no queue, the time in the device.
fn completed(mut cell: Cell, operation: usize, by_bios: bool) -> Cell {
    let in_histograms = cell.requests - cell.missed;
    let counted = |histogram: &[u64]| histogram.iter().sum::<u64>();
    if by_bios {
        (cell.device, cell.device_ns) = (cell.total, cell.total_ns);
    }
    cell.total[0] = in_histograms.saturating_sub(counted(&cell.total[1..]));
    // How long a driver's command waited for the driver is not known.
    let is_waiting_known = operation != usize::from(OTHER);
    if is_waiting_known {
        cell.before[0] = in_histograms.saturating_sub(counted(&cell.before[1..]));
    }
    // A flush as programs ask for it is never issued itself.
    if operation != usize::from(FLUSH) || by_bios {
        cell.device[0] = in_histograms.saturating_sub(counted(&cell.device[1..]));
        if is_waiting_known {
            cell.queue[0] = in_histograms.saturating_sub(counted(&cell.queue[1..]));
        }
    }
    cell
}

/// Of the disks that are watched, as the programs have them.
pub(crate) fn numbers_of(devices: &[u32]) -> [u32; MOST_DEVICES] {
    let mut numbers = [0; MOST_DEVICES];
    for (place, number) in numbers.iter_mut().zip(devices) {
        *place = *number;
    }
    numbers
}

fn program<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, String> {
    programs.program_mut(name).ok_or("the object lacks a program")?.try_into().map_err(plain)
}

/// Of a line such as `run_cnt: 7` in what the kernel tells of an open file.
fn number(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

pub(crate) fn taken(programs: &mut Ebpf, name: &str) -> Result<aya::maps::Map, String> {
    programs.take_map(name).ok_or_else(|| format!("the object lacks the map {name}"))
}

pub(crate) fn plain(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub(crate) fn no_btf(error: &BtfError) -> String {
    format!("no-btf: the kernel does not describe itself in /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF): {error}")
}

pub(crate) fn refused(what: &str, error: &(dyn Error + 'static)) -> String {
    let log = match error.downcast_ref() {
        Some(ProgramError::LoadError { verifier_log, .. }) => verifier_log.to_string(),
        _ => String::new(),
    };
    let chain: Vec<_> = std::iter::successors(Some(error), |&error| error.source()).collect();
    let first = |error: &&dyn Error| error.to_string().lines().next().unwrap_or_default().trim().to_owned();
    let text = chain.iter().map(first).collect::<Vec<_>>().join(": ");
    let code = chain.iter().find_map(|error| error.downcast_ref::<io::Error>()).and_then(io::Error::raw_os_error);
    why(what, code, &text, &log)
}

/// EACCES is also what the verifier answers, even to root; then there is its log. That is long: the reason is its last
/// line, but for statistics.
fn why(what: &str, code: Option<i32>, text: &str, log: &str) -> String {
    let unsafe_since = log.lines().map(str::trim).rfind(is_a_reason);
    match (code, unsafe_since) {
        (Some(libc::EPERM), _) | (Some(libc::EACCES), None) => {
            format!("no-rights: the kernel allows no program on {what}: {text}")
        }
        (_, Some(reason)) => format!("no-program: the kernel's verifier refuses the program for {what}: {reason}"),
        (_, None) => format!("no-program: the kernel does not take the program for {what}: {text}"),
    }
}

fn is_a_reason(line: &&str) -> bool {
    let statistics = ["processed ", "stack depth ", "verification time "];
    !line.is_empty() && !statistics.iter().any(|begin| line.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_programs_leave_out_follows_from_the_rest() {
        // SAFETY: a cell is made of integers, of which all are 0.
        let mut cell: Cell = unsafe { std::mem::zeroed() };
        (cell.requests, cell.missed, cell.total_ns) = (10, 1, 9_000);
        (cell.total[80], cell.before[40], cell.queue[30], cell.device[70]) = (9, 2, 5, 9);
        let read = completed(cell, 0, false);
        assert_eq!((read.before[0], read.queue[0], read.device[0], read.total[0]), (7, 4, 0, 0));
        let flush = completed(cell, usize::from(FLUSH), false);
        assert_eq!((flush.before[0], flush.queue[0]), (7, 0), "it is never issued itself");
        let command = completed(cell, usize::from(OTHER), false);
        assert_eq!((command.before[0], command.queue[0], command.device[70]), (0, 0, 9), "its waiting is not known");
        let bio = completed(cell, 0, true);
        assert_eq!((bio.device[80], bio.device_ns, bio.queue[0]), (9, 9_000, 4));
    }

    #[test]
    fn what_the_kernel_tells_of_a_program_is_read() {
        let text = "pos:\t0\nprog_jited:\t1\nrun_time_ns:\t5120\nrun_cnt:\t40\nrecursion_misses:\t3\n";
        assert_eq!((number(text, "run_time_ns"), number(text, "recursion_misses")), (5120, 3));
        assert_eq!(number(text, "another"), 0);
    }

    #[test]
    fn root_is_not_told_to_become_root_where_the_verifier_refuses() {
        let log = "reg type unsupported for arg#0 function bio_complete#102\n541: (79) r2 = *(u64 *)(r0 +1584)\n\
                   R0 unbounded memory access\nverification time 1609 usec\nstack depth 40+0\n\
                   processed 1135 insns (limit 1000000)\n";
        assert_eq!(
            why("block_bio_complete", Some(libc::EACCES), "not loaded", log),
            "no-program: the kernel's verifier refuses the program for block_bio_complete: R0 unbounded memory access"
        );
        for code in [libc::EPERM, libc::EACCES] {
            let said = why("block_split", Some(code), "not loaded", "");
            assert_eq!(said, "no-rights: the kernel allows no program on block_split: not loaded");
        }
        let said = why("block_split", Some(libc::ESRCH), "not loaded", "");
        assert_eq!(said, "no-program: the kernel does not take the program for block_split: not loaded");
    }
}
