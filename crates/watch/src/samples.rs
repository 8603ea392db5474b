//! What the host itself does meanwhile, looked up every 100 ms: time that a hypervisor took, and work of md.

use std::collections::VecDeque;
use std::fs;

pub const EVERY_NS: u64 = 100_000_000;
const KEPT: usize = 600;

#[derive(Debug, Clone, Copy)]
struct Sample {
    at_ns: u64,
    steal_ticks: u64,
    all_ticks: u64,
    resync_per_s: u64,
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
        let (steal_ticks, all_ticks) = ticks(&fs::read_to_string("/proc/stat").unwrap_or_default());
        let resync_per_s = self.arrays.iter().map(|name| resync(name)).max().unwrap_or(0);
        self.kept.push_back(Sample { at_ns: now_ns, steal_ticks, all_ticks, resync_per_s });
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }

    /// The share of CPU time that was stolen around an interval, and the greatest speed of a resync then.
    pub fn during(&self, from_ns: u64, to_ns: u64) -> (f64, u64) {
        let first = self.kept.iter().rev().find(|sample| sample.at_ns <= from_ns).or(self.kept.front());
        let last = self.kept.iter().find(|sample| sample.at_ns >= to_ns).or(self.kept.back());
        let (Some(first), Some(last)) = (first, last) else { return (0.0, 0) };
        let all = last.all_ticks.saturating_sub(first.all_ticks);
        let stolen = last.steal_ticks.saturating_sub(first.steal_ticks);
        let share = if all == 0 { 0.0 } else { stolen as f64 / all as f64 };
        let within = self.kept.iter().filter(|sample| sample.at_ns >= first.at_ns && sample.at_ns <= last.at_ns);
        (share, within.map(|sample| sample.resync_per_s).max().unwrap_or(0))
    }
}

/// Stolen and all ticks of the line of all CPUs.
fn ticks(text: &str) -> (u64, u64) {
    let words = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let numbers: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
    (numbers.get(7).copied().unwrap_or(0), numbers.iter().sum())
}

/// Bytes/s of a rebuild or check of an array, 0 where it is idle.
fn resync(name: &str) -> u64 {
    let folder = format!("/sys/block/{name}/md");
    let action = fs::read_to_string(format!("{folder}/sync_action")).unwrap_or_default();
    if matches!(action.trim(), "" | "idle" | "frozen") {
        return 0;
    }
    let speed = fs::read_to_string(format!("{folder}/sync_speed")).unwrap_or_default();
    speed.trim().parse::<u64>().unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_ticks_are_the_eighth() {
        assert_eq!(ticks("cpu  10 0 5 100 1 0 0 7 3 0\ncpu0 1 2"), (7, 123));
        assert_eq!(ticks(""), (0, 0));
    }

    #[test]
    fn a_share_is_of_the_samples_around() {
        let mut samples = Samples::new(vec![]);
        for (at_ns, steal_ticks, resync_per_s) in [(0, 0, 0), (100, 10, 5), (200, 10, 0), (300, 60, 9)] {
            samples.kept.push_back(Sample { at_ns, steal_ticks, all_ticks: at_ns, resync_per_s });
        }
        assert_eq!(samples.during(110, 190), (0.0, 5));
        assert_eq!(samples.during(210, 250), (0.5, 9));
    }
}
