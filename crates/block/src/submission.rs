//! Duty: how many requests a ring submits in one call, chosen by the queues below its targets.
//!
//! Where a call submits more than two requests, io_uring plugs the block layer (io_uring.c, `need_plug = max_ios > 2`):
//! they reach the queue together when the call ends. On a queue with a scheduler random requests lose by that, and sequential
//! ones merge, so that the disk gets other requests than those that were asked for (docs/benchmarks.md). A queue without a
//! scheduler gains, and memory and the page cache never see it.

use std::fs::File;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

use engine::event::SubmitReason;
use plan::Profile;

/// The most that one call submits without plugging.
const UNPLUGGED: u32 = 2;
/// Devices on devices are looked through so deep; the kernel's own stacks end far above.
const STACKED_MAX: u32 = 8;
/// linux/magic.h
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The choice of a run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// One call submits at most so many; none where it submits all that wait.
    pub at_most: Option<u32>,
    pub reason: SubmitReason,
}

impl Submission {
    fn whole(reason: SubmitReason) -> Submission {
        Submission { at_most: None, reason }
    }

    fn few(reason: SubmitReason) -> Submission {
        Submission { at_most: Some(UNPLUGGED), reason }
    }
}

/// One choice for all targets of a run, since they share its rings: the first that would lose by batches decides.
pub fn choose(profile: &Profile, nop: bool, targets: &[(&File, bool)]) -> Submission {
    if profile.submit.is_some() {
        return Submission { at_most: profile.submit, reason: SubmitReason::Requested };
    }
    if nop {
        return Submission::whole(SubmitReason::NoOperations);
    }
    let mut chosen = targets.iter().map(|(file, direct)| for_target(file, *direct));
    let first = chosen.next().unwrap_or_else(|| Submission::whole(SubmitReason::NoTarget));
    if first.at_most.is_some() { first } else { chosen.find(|c| c.at_most.is_some()).unwrap_or(first) }
}

fn for_target(file: &File, direct: bool) -> Submission {
    if !direct {
        return Submission::whole(SubmitReason::PageCache);
    }
    let Ok(meta) = file.metadata() else { return Submission::few(SubmitReason::QueueUnknown) };
    let is_block = meta.st_mode() & libc::S_IFMT == libc::S_IFBLK;
    let device = if is_block { meta.st_rdev() } else { meta.st_dev() };
    let place = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    match std::fs::canonicalize(place) {
        Ok(place) => for_device(&place, STACKED_MAX),
        Err(_) if rustix::fs::fstatfs(file).is_ok_and(|s| s.f_type as u64 == TMPFS_MAGIC) => {
            Submission::whole(SubmitReason::InMemory)
        }
        Err(_) => Submission::few(SubmitReason::QueueUnknown),
    }
}

/// By the directory of a device in sysfs.
fn for_device(place: &Path, depth: u32) -> Submission {
    // A partition has its disk's queue.
    let disk = if place.join("partition").exists() { place.parent().unwrap_or(place) } else { place };
    let name = disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let below = slaves(disk);
    // The plug of a call holds back what arrives at the devices below as well.
    if depth > 0
        && let Some(lossy) = below.iter().map(|b| for_device(b, depth - 1)).find(|c| c.at_most.is_some())
    {
        return lossy;
    }
    if !disk.join("mq").exists() {
        return Submission::whole(SubmitReason::NoQueue { device: name });
    }
    match scheduler(&std::fs::read_to_string(disk.join("queue/scheduler")).unwrap_or_default()) {
        Some(scheduler) => Submission::few(SubmitReason::Scheduler { device: name, scheduler: scheduler.into() }),
        None => Submission::whole(SubmitReason::NoScheduler { device: name }),
    }
}

fn slaves(disk: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(disk.join("slaves")) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries.flatten().filter_map(|e| std::fs::canonicalize(e.path()).ok()).collect();
    found.sort();
    found
}

/// The scheduler that `queue/scheduler` marks: `none [mq-deadline] kyber`.
fn scheduler(text: &str) -> Option<&str> {
    let marked = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name);
    // Where there is one alone, it is not marked.
    Some(marked.unwrap_or(text.trim())).filter(|name| !name.is_empty() && *name != "none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Goes away with its test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let root = std::env::temp_dir().join(format!("brickyard-submission-{name}-{}", std::process::id()));
            fs::create_dir(&root).expect("a directory");
            Folder(fs::canonicalize(root).expect("a path"))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A piece of sysfs: each device with its scheduler (none: without a queue) and the devices below it.
    fn sysfs(devices: &[(&str, Option<&str>, &[&str])]) -> Folder {
        let folder = Folder::new("sysfs");
        let root = folder.0.clone();
        for (name, text, _) in devices {
            let place = root.join(name);
            fs::create_dir_all(place.join("slaves")).expect("a device");
            fs::create_dir_all(place.join("queue")).expect("a queue");
            if let Some(text) = text {
                fs::create_dir(place.join("mq")).expect("a queue");
                fs::write(place.join("queue/scheduler"), text).expect("a scheduler");
            }
        }
        for (name, _, below) in devices {
            for lower in *below {
                let link = root.join(name).join("slaves").join(lower);
                std::os::unix::fs::symlink(root.join(lower), link).expect("a link");
            }
        }
        folder
    }

    #[test]
    fn queues_with_a_scheduler_get_few_requests_a_call_and_others_all() {
        let folder = sysfs(&[
            ("sda", Some("none [mq-deadline] kyber bfq"), &[]),
            ("nvme0n1", Some("[none] mq-deadline"), &[]),
            ("nvme1n1", Some("none"), &[]),
            ("zram0", None, &[]),
            ("dm-0", None, &["sda"]),
            ("md0", None, &["nvme0n1", "nvme1n1"]),
            ("md1", None, &["nvme0n1", "dm-0"]),
        ]);
        let root = &folder.0;
        let whole = |words: &str| (None, words.to_string());
        let few = |words: &str| (Some(UNPLUGGED), words.to_string());
        let said = |chosen: Submission| (chosen.at_most, chosen.reason.to_string());
        let of = |name: &str| said(for_device(&root.join(name), STACKED_MAX));
        assert_eq!(of("sda"), few("sda has the scheduler mq-deadline"));
        assert_eq!(of("nvme0n1"), whole("nvme0n1 has no scheduler"));
        assert_eq!(of("nvme1n1"), whole("nvme1n1 has no scheduler"));
        assert_eq!(of("zram0"), whole("zram0 has no queue of its own"));
        // What is stacked has the queues below it.
        assert_eq!(of("dm-0"), few("sda has the scheduler mq-deadline"));
        assert_eq!(of("md0"), whole("md0 has no queue of its own"));
        assert_eq!(of("md1"), few("sda has the scheduler mq-deadline"));
        let partition = root.join("sda/sda1");
        fs::create_dir(&partition).and_then(|()| fs::write(partition.join("partition"), "1")).expect("a partition");
        assert_eq!(said(for_device(&partition, STACKED_MAX)), of("sda"));
    }

    #[test]
    fn what_is_asked_for_goes_before_the_queue_and_no_operations_reach_none() {
        let folder = Folder::new("asked");
        let file = File::create(folder.0.join("file")).expect("a file");
        let read = |text: &str| Profile::from_toml(text, &[]).expect("a profile");
        let phase = "title = 't'\n[[phase]]\nrequests = 1\n[[phase.stream]]\nrequest = '4K'\naddress = 'random'\n";
        let (plain, asked) = (read(phase), read(&format!("submit = 1\n{phase}")));
        assert_eq!(choose(&asked, false, &[(&file, true)]).at_most, Some(1));
        assert_eq!(choose(&plain, true, &[(&file, true)]).at_most, None);
        assert_eq!(choose(&plain, false, &[(&file, false)]), Submission::whole(SubmitReason::PageCache));
    }
}
