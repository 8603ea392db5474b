//! How much of what is read ahead is used later: programs beside those that count requests, attached only where that is
//! asked for, since they also run for reads that the page cache answers.

use aya::maps::{MapData, PerCpuArray};
use aya::programs::{BtfTracePoint, FEntry, Program, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};

use crate::kernel::{cost_of, no_btf, numbers_of, plain, refused, taken};
use crate::layout;
use crate::source::Cost;

/// Compiled by `make bpf` from `bpf/ahead.bpf.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/ahead.bpf.o");
/// What leaves the cache, and what is read ahead: last, so that nothing waits whose end could not be seen.
const FIRST: [(&str, &str); 1] = [("dropped", "mm_filemap_delete_from_page_cache")];
const LAST: [(&str, &str); 1] = [("read_ahead", "block_bio_queue")];
/// What is used, page by page: since Linux 6.14.
const BY_PAGES: [(&str, &str); 4] = [
    ("used", "mm_filemap_get_pages"),
    ("faulted", "mm_filemap_fault"),
    ("mapped", "mm_filemap_map_pages"),
    ("touched", "block_touch_buffer"),
];
/// What is used, by the kernel's functions.
const BY_FOLIOS: [(&str, &str); 3] =
    [("used_folio", "folio_mark_accessed"), ("faulted_by", "filemap_fault"), ("mapped_by", "filemap_map_pages")];

/// Attached for as long as it lasts.
pub struct Ahead {
    counts: PerCpuArray<MapData, layout::Ahead>,
    by_folios: bool,
    programs: Ebpf,
}

impl Ahead {
    /// Of disks by their numbers.
    pub fn attach(devices: &[u32]) -> Result<Ahead, String> {
        let btf = Btf::from_sys_fs().map_err(|error| no_btf(&error))?;
        let (found, by_folios) = match attached(devices, &btf, &BY_PAGES) {
            Ok(found) => (found, false),
            Err(pages) => {
                let found = attached(devices, &btf, &BY_FOLIOS);
                (found.map_err(|folios| format!("{pages}; {}", words(&folios)))?, true)
            }
        };
        let (counts, programs) = found;
        Ok(Ahead { counts, by_folios, programs })
    }

    /// A large folio counts as used whole, since its pages are not told apart.
    pub fn is_by_folios(&self) -> bool {
        self.by_folios
    }

    pub fn counts(&self, slot: usize) -> Result<layout::Ahead, String> {
        let mut sum = layout::Ahead::default();
        for one in self.counts.get(&(slot as u32), 0).map_err(plain)?.iter() {
            sum.followed += one.followed;
            sum.used += one.used;
            sum.mapped += one.mapped;
            sum.dropped += one.dropped;
            sum.unfollowed += one.unfollowed;
        }
        Ok(sum)
    }

    pub fn cost(&self) -> Cost {
        cost_of(&self.programs)
    }
}

type Attached = (PerCpuArray<MapData, layout::Ahead>, Ebpf);

/// Without the kind of a failure, which is for whoever gives up on all programs.
fn words(failure: &str) -> &str {
    failure.split_once(": ").map_or(failure, |(_, words)| words)
}

fn attached(devices: &[u32], btf: &Btf, uses: &[(&str, &str)]) -> Result<Attached, String> {
    // SAFETY: asks for a number.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let (numbers, count) = (numbers_of(devices), devices.len() as u32);
    let mut programs = EbpfLoader::new()
        .btf(Some(btf))
        .set_global("DEVICES", &numbers, true)
        .set_global("DEVICE_COUNT", &count, true)
        .set_global("PAGE_SHIFT", &page_bytes.ilog2(), true)
        .set_max_entries("aheads", count)
        .load(OBJECT)
        .map_err(|error| refused("the maps of read-ahead", &error))?;
    let every = || FIRST.iter().chain(uses).chain(&LAST);
    for (name, point) in every() {
        load(&mut programs, name, point, btf)?;
    }
    for (name, point) in every() {
        attach(&mut programs, name).map_err(|error| refused(point, &error))?;
    }
    Ok((PerCpuArray::try_from(taken(&mut programs, "aheads")?).map_err(plain)?, programs))
}

fn load(programs: &mut Ebpf, name: &str, point: &str, btf: &Btf) -> Result<(), String> {
    let loaded = match programs.program_mut(name) {
        Some(Program::BtfTracePoint(program)) => program.load(point, btf),
        Some(Program::FEntry(program)) => program.load(point, btf),
        _ => return Err(format!("the object lacks the program {name}")),
    };
    loaded.map_err(|error| match error {
        ProgramError::Btf(_) => format!("no-program: the kernel has no {point}"),
        error => refused(point, &error),
    })
}

fn attach(programs: &mut Ebpf, name: &str) -> Result<(), ProgramError> {
    match programs.program_mut(name) {
        Some(Program::BtfTracePoint(program)) => BtfTracePoint::attach(program).map(|_| ()),
        Some(Program::FEntry(program)) => FEntry::attach(program).map(|_| ()),
        _ => Ok(()),
    }
}
