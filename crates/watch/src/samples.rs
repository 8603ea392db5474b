//! What the host itself does meanwhile, looked up every 100 ms: time that a hypervisor took, time that tasks waited for a
//! CPU, and work of md.

use std::collections::VecDeque;
use std::fs;

pub const EVERY_NS: u64 = 100_000_000;
const KEPT: usize = 600;
/// So many samples within an interval say more than those around it.
const ENOUGH_WITHIN: usize = 4;
const MDSTAT: &str = "/proc/mdstat";
const PRESSURE: &str = "/proc/pressure/cpu";
/// Where the kernel does not say how long tasks waited (CONFIG_PSI), they may have waited all the time from here on.
const BUSY: f64 = 0.9;
const ACTIONS: [&str; 4] = [" resync =", " recovery =", " check =", " reshape ="];

#[derive(Debug, Clone)]
struct Sample {
    at_ns: u64,
    steal_ticks: u64,
    all_ticks: u64,
    idle_ticks: u64,
    /// For so long any task waited for a CPU; None where the kernel does not say it.
    waited_us: Option<u64>,
    /// How far the resync, rebuild or check of each array is, in bytes; None where nothing is under way.
    progress: Vec<Option<u64>>,
}

/// What the host did while a request was on its way.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct During {
    pub steal_share: f64,
    pub resync_per_s: u64,
    /// For so long any task waited for a CPU between the samples around it: at most so much of its time.
    pub cpu_wait_ns: u64,
}

pub struct Samples {
    arrays: Vec<String>,
    kept: VecDeque<Sample>,
}

impl Samples {
    /// `arrays` are names of md devices at or over the devices that are watched.
    pub fn new(arrays: Vec<String>) -> Samples {
        Samples { arrays, kept: VecDeque::new() }
    }

    pub fn look(&mut self, now_ns: u64) {
        if self.kept.back().is_some_and(|last| now_ns < last.at_ns + EVERY_NS) {
            return;
        }
        let (steal_ticks, idle_ticks, all_ticks) = ticks(&read_to_string("/proc/stat"));
        let waited_us = waited_us(&read_to_string(PRESSURE));
        let arrays = if self.arrays.is_empty() { String::new() } else { read_to_string(MDSTAT) };
        let progress = self.arrays.iter().map(|name| progress_bytes(&arrays, name)).collect();
        self.kept.push_back(Sample { at_ns: now_ns, steal_ticks, all_ticks, idle_ticks, waited_us, progress });
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }

    /// The share of CPU time that was stolen around an interval, and the speed of the fastest resync then. md's own figure
    /// of it is a mean of up to half a minute, so it is what the array came forward between the samples, and 0 where a
    /// resync stood still for more than half of the time.
    pub fn during(&self, from_ns: u64, to_ns: u64) -> During {
        let first = self.kept.iter().rev().find(|sample| sample.at_ns <= from_ns).or(self.kept.front());
        let last = self.kept.iter().find(|sample| sample.at_ns >= to_ns).or(self.kept.back());
        let (Some(first), Some(last)) = (first, last) else { return During::default() };
        let all = last.all_ticks.saturating_sub(first.all_ticks);
        let stolen = last.steal_ticks.saturating_sub(first.steal_ticks);
        let share = if all == 0 { 0.0 } else { stolen as f64 / all as f64 };
        let between = |from_ns: u64, to_ns: u64| -> Vec<&Sample> {
            self.kept.iter().filter(|sample| sample.at_ns >= from_ns && sample.at_ns <= to_ns).collect()
        };
        // What happened before it or after it did not hold it up, as far as the samples tell these apart.
        let within = between(from_ns, to_ns);
        let enough = within.len() >= ENOUGH_WITHIN;
        During {
            steal_share: share,
            resync_per_s: fastest(&if enough { within } else { between(first.at_ns, last.at_ns) }),
            cpu_wait_ns: waited_ns(first, last),
        }
    }
}

fn waited_ns(first: &Sample, last: &Sample) -> u64 {
    if let (Some(before), Some(after)) = (first.waited_us, last.waited_us) {
        return after.saturating_sub(before) * 1_000;
    }
    let all = last.all_ticks.saturating_sub(first.all_ticks);
    let idle = last.idle_ticks.saturating_sub(first.idle_ticks);
    if all > 0 && (all - idle.min(all)) as f64 >= BUSY * all as f64 { last.at_ns - first.at_ns } else { 0 }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, in microseconds.
fn waited_us(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("some ")?.split_once("total=")?.1.trim().parse().ok())
}

fn read_to_string(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Bytes/s of the array that came forward most, of those that did in at least half of the times between samples.
fn fastest(samples: &[&Sample]) -> u64 {
    let [first, .., last] = samples else { return 0 };
    let took_ns = u128::from((last.at_ns - first.at_ns).max(1));
    let forward = |array: usize| -> u64 {
        let at = |sample: &Sample| sample.progress.get(array).copied().flatten();
        // The next one begins anew.
        let steps = samples.windows(2).map(|pair| at(pair[1])?.checked_sub(at(pair[0])?).filter(|bytes| *bytes > 0));
        let moved: Vec<u64> = steps.flatten().collect();
        if moved.len() * 2 < samples.len() - 1 { 0 } else { moved.iter().sum() }
    };
    let most = (0..first.progress.len()).map(forward).max().unwrap_or(0);
    u64::try_from(u128::from(most) * 1_000_000_000 / took_ns).unwrap_or(u64::MAX)
}

/// Stolen, idle and all ticks of the line of all CPUs.
fn ticks(text: &str) -> (u64, u64, u64) {
    let words = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let numbers: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
    let at = |place: usize| numbers.get(place).copied().unwrap_or(0);
    (at(7), at(3) + at(4), numbers.iter().sum())
}

/// How far an array is, by the kernel's list of arrays: `check = 21.3% (8736/40960)`, in KiB, in its paragraph.
fn progress_bytes(list: &str, name: &str) -> Option<u64> {
    let paragraph = list.lines().skip_while(|line| line.split_whitespace().next() != Some(name)).skip(1);
    let mut own = paragraph.take_while(|line| line.starts_with(char::is_whitespace));
    let line = own.find(|line| ACTIONS.iter().any(|action| line.contains(action)))?;
    let (_, from) = line.rsplit_once('(')?;
    Some(from.split_once('/')?.0.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Sample =
        Sample { at_ns: 0, steal_ticks: 0, all_ticks: 0, idle_ticks: 0, waited_us: None, progress: vec![] };

    #[test]
    fn stolen_ticks_are_the_eighth() {
        assert_eq!(ticks("cpu  10 0 5 100 1 0 0 7 3 0\ncpu0 1 2"), (7, 101, 123));
        assert_eq!(ticks(""), (0, 0, 0));
    }

    #[test]
    fn a_share_is_of_the_samples_around() {
        let mut samples = Samples::new(vec![]);
        for (at_ns, steal_ticks) in [(0, 0), (100, 10), (200, 10), (300, 60)] {
            samples.kept.push_back(Sample { at_ns, steal_ticks, all_ticks: at_ns, idle_ticks: at_ns, ..NOTHING });
        }
        assert_eq!(samples.during(110, 190), During::default());
        assert_eq!(samples.during(210, 250), During { steal_share: 0.5, ..During::default() });
    }

    #[test]
    fn tasks_waited_at_most_as_long_as_between_the_samples_around() {
        let text = "some avg10=96.42 avg60=90.53 avg300=88.20 total=11147942578\nfull avg10=0.00 total=0\n";
        assert_eq!(waited_us(text), Some(11_147_942_578));
        assert_eq!(waited_us(""), None);
        let mut samples = Samples::new(vec![]);
        for (at_ns, waited) in [(0, 0), (100_000, 40), (200_000, 45), (300_000, 145)] {
            samples.kept.push_back(Sample { at_ns, waited_us: Some(waited), ..NOTHING });
        }
        assert_eq!(samples.during(110_000, 190_000).cpu_wait_ns, 5_000);
        assert_eq!(samples.during(110_000, 210_000).cpu_wait_ns, 105_000);
        // Without a word of the kernel, busy CPUs have to do.
        for sample in &mut samples.kept {
            (sample.waited_us, sample.all_ticks) = (None, sample.at_ns / 1_000);
            sample.idle_ticks = sample.all_ticks.min(100);
        }
        assert_eq!(samples.during(0, 100_000).cpu_wait_ns, 0);
        assert_eq!(samples.during(100_000, 200_000).cpu_wait_ns, 100_000);
    }

    #[test]
    fn a_resync_is_as_fast_as_it_is_at_that_time() {
        let mut samples = Samples::new(vec!["md0".into(), "md1".into()]);
        let seen =
            [None, Some(7 << 20), Some(8 << 20), Some(8 << 20), Some(8 << 20), Some(8 << 20), Some(9 << 20), Some(10)];
        for (ms, progress) in (0..).step_by(100).zip(seen) {
            let at_ns = ms * 1_000_000;
            samples.kept.push_back(Sample { at_ns, progress: vec![None, progress], ..NOTHING });
        }
        let during = |from_ms: u64, to_ms: u64| samples.during(from_ms * 1_000_000, to_ms * 1_000_000).resync_per_s;
        assert_eq!(during(110, 190), 10 << 20);
        assert_eq!(during(10, 50), 0, "it has just begun");
        assert_eq!(during(210, 290), 0, "it stood still");
        assert_eq!(during(110, 290), 5 << 20);
        assert_eq!(during(190, 590), 0, "it stood still but at the edges");
        assert_eq!(during(610, 690), 0, "another one has begun");
    }

    #[test]
    fn progress_is_read_of_the_array_itself() {
        let list = "Personalities : [raid1] [raid6]\n\
            md1 : active raid5 vde[3] vdd[1]\n      98304 blocks super 1.2 level 5 [3/2] [UU_]\n      \
            [=>....]  recovery = 12.5% (6144/49152) finish=0.3min speed=2048K/sec\n      bitmap: 0/1 pages\n\n\
            md10 : active raid1 vdb[1] vda[0]\n      40960 blocks super 1.2 [2/2] [UU]\n      \
            [====>...]  check = 21.3% (8736/40960) finish=0.1min speed=4368K/sec\n\n\
            md0 : active raid1 vdf[1] vdg[0]\n      40960 blocks [2/2] [UU]\n      \tresync=DELAYED\n\n\
            unused devices: <none>\n";
        assert_eq!(progress_bytes(list, "md1"), Some(6144 << 10));
        assert_eq!(progress_bytes(list, "md10"), Some(8736 << 10));
        assert_eq!(progress_bytes(list, "md0"), None);
        assert_eq!(progress_bytes(list, "md"), None);
        assert_eq!(progress_bytes("", "md1"), None);
    }
}
