//! Histograms as text: HdrHistogram's V2 compressed form in base64, which other tools read.

use crate::histogram::{Histogram, MAX_TRACKED_NS};
use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// What is wrong with a histogram text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError(pub String);

impl std::fmt::Display for TextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not an HdrHistogram: {}", self.0)
    }
}

impl std::error::Error for TextError {}

/// A histogram that came out of a store or another tool.
#[derive(PartialEq)]
pub struct TextHistogram(hdrhistogram::Histogram<u64>);

fn empty() -> hdrhistogram::Histogram<u64> {
    let mut h = hdrhistogram::Histogram::new_with_bounds(1, MAX_TRACKED_NS, 2).expect("bounds are valid");
    h.auto(true);
    h
}

impl Default for TextHistogram {
    fn default() -> Self {
        TextHistogram(empty())
    }
}

impl From<&Histogram> for TextHistogram {
    fn from(histogram: &Histogram) -> Self {
        let mut h = empty();
        for (value_ns, count) in histogram.buckets() {
            h.record_n(value_ns, count).expect("within bounds");
        }
        TextHistogram(h)
    }
}

fn too_many() -> TextError {
    TextError("it counts more than 2^64 values".into())
}

impl TextHistogram {
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let bytes = STANDARD.decode(text.trim()).map_err(|e| TextError(e.to_string()))?;
        let h: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|e| TextError(e.to_string()))?;
        let mut counts = h.iter_recorded().map(|item| item.count_at_value());
        match counts.try_fold(0u64, u64::checked_add) {
            Some(_) => Ok(TextHistogram(h)),
            None => Err(too_many()),
        }
    }

    /// Adds the counts of another.
    pub fn add(&mut self, more: &TextHistogram) -> Result<(), TextError> {
        self.0.len().checked_add(more.0.len()).ok_or_else(too_many)?;
        self.0.add(&more.0).map_err(|e| TextError(e.to_string()))
    }

    pub fn merge<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, TextError> {
        let mut sum = TextHistogram::default();
        for text in texts {
            sum.add(&TextHistogram::parse(text)?)?;
        }
        Ok(sum)
    }

    pub fn to_text(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).expect("writing to memory");
        STANDARD.encode(bytes)
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    pub fn min_ns(&self) -> u64 {
        self.0.min()
    }

    pub fn max_ns(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.max() }
    }

    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    pub fn stddev_ns(&self) -> f64 {
        self.0.stdev()
    }

    pub fn percentile_ns(&self, percent: f64) -> u64 {
        self.0.value_at_quantile((percent / 100.0).clamp(0.0, 1.0))
    }

    /// Counts per bin `[edges[i], edges[i + 1])`; what lies outside goes into the first or last bin.
    pub fn counts(&self, edges_ns: &[u64]) -> Vec<u64> {
        let bins = edges_ns.len().saturating_sub(1);
        let mut counts = vec![0; bins];
        if bins == 0 {
            return counts;
        }
        for item in self.0.iter_recorded() {
            let value_ns = self.0.lowest_equivalent(item.value_iterated_to());
            let bin = edges_ns.partition_point(|e| *e <= value_ns).saturating_sub(1).min(bins - 1);
            counts[bin] += item.count_at_value();
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_begins_as_other_tools_expect() {
        let mut h = Histogram::default();
        h.record(5_000, 2);
        assert!(TextHistogram::from(&h).to_text().starts_with("HISTFAAAA"));
    }

    #[test]
    fn garbage_is_refused_in_one_line() {
        for text in ["", "HISTFAAAA", "not base64 !", "AAAA"] {
            let message = TextHistogram::parse(text).err().expect("must be refused").to_string();
            assert!(!message.contains('\n'));
        }
    }

    proptest! {
        #[test]
        fn text_keeps_every_bucket(values in prop::collection::vec((0u64..=MAX_TRACKED_NS, 1u64..1000), 0..100)) {
            let mut h = Histogram::default();
            values.iter().for_each(|(v, n)| h.record(*v, *n));
            let back = TextHistogram::parse(&TextHistogram::from(&h).to_text()).unwrap();
            prop_assert_eq!(back.count(), h.count());
            for percent in [0.0, 50.0, 99.0, 100.0] {
                let (a, b) = (back.percentile_ns(percent) as f64, h.percentile_ns(percent) as f64);
                prop_assert!((a - b).abs() <= b / 100.0 + 1.0, "{} against {} at {}", a, b, percent);
            }
        }

        #[test]
        fn counts_lose_nothing(values in prop::collection::vec(0u64..10_000_000, 1..100)) {
            let mut h = Histogram::default();
            values.iter().for_each(|v| h.record(*v, 1));
            let counts = TextHistogram::from(&h).counts(&[100, 1_000, 10_000, 100_000]);
            prop_assert_eq!(counts.iter().sum::<u64>(), values.len() as u64);
        }
    }
}
