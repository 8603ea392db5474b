//! Histogram texts out of nowhere, as they are and as the payload of a well-formed outer form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use record::TextHistogram;

fuzz_target!(|text: &str| {
    let Ok(histogram) = TextHistogram::parse(text) else { return };
    let edges = [0, 1_000, 1_000_000, u64::MAX];
    assert_eq!(histogram.counts(&edges).iter().sum::<u64>(), histogram.count());
    assert!(histogram.percentile_ns(50.0) <= histogram.percentile_ns(99.0));
    let merged = TextHistogram::merge([text, text]);
    if let Ok(merged) = merged {
        assert!(merged.count() >= histogram.count());
    }
});
