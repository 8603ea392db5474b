//! How long before a due time to stop sleeping: as long as this machine's sleeps have lately ended late.

/// A sleep that ends on time needs at least this: timer interrupt and wake-up on idle bare metal.
const MARGIN_MIN_NS: u64 = 25_000;
/// Virtual machines wake up tens of µs late; beyond this a busy machine, not its timer, is what is late, and looking at
/// the clock for longer would only cost a core.
const MARGIN_MAX_NS: u64 = 200_000;
/// A margin that has not been needed shrinks by this share with each sleep, so that it forgets within some hundred.
const FORGET: u64 = 128;

/// Learns from each sleep of a loop how early the next one has to end.
#[derive(Debug, Clone)]
pub struct Punctual {
    margin_ns: u64,
}

impl Default for Punctual {
    fn default() -> Self {
        Punctual { margin_ns: MARGIN_MIN_NS }
    }
}

impl Punctual {
    /// How much of the time ahead to sleep; the rest is for looking at the clock.
    #[inline]
    pub fn sleep_ns(&self, ahead_ns: u64) -> u64 {
        ahead_ns.saturating_sub(self.margin_ns)
    }

    pub fn margin_ns(&self) -> u64 {
        self.margin_ns
    }

    /// A sleep until `wanted_ns` ended at `woke_ns` by itself.
    #[inline]
    pub fn woke(&mut self, wanted_ns: u64, woke_ns: u64) {
        let late_ns = woke_ns.saturating_sub(wanted_ns);
        let shrunk_ns = self.margin_ns - self.margin_ns / FORGET;
        // A quarter more than what was needed.
        self.margin_ns = shrunk_ns.max(late_ns + late_ns / 4).clamp(MARGIN_MIN_NS, MARGIN_MAX_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_sleep_is_not_late_a_second_time() {
        let mut punctual = Punctual::default();
        punctual.woke(1_000_000, 1_060_000);
        assert_eq!(punctual.sleep_ns(1_000_000), 925_000);
    }

    #[test]
    fn the_margin_stays_within_its_bounds() {
        let mut punctual = Punctual::default();
        punctual.woke(0, 10_000_000);
        assert_eq!(punctual.margin_ns(), MARGIN_MAX_NS);
        (0..10_000).for_each(|_| punctual.woke(5, 5));
        assert_eq!(punctual.margin_ns(), MARGIN_MIN_NS);
    }
}
