//! No text makes the reader of histograms panic, and what it accepts loses no count.

use base64::{Engine, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use record::{Histogram, TextHistogram};

fn check(text: &str) -> Result<(), TestCaseError> {
    match TextHistogram::parse(text) {
        Ok(histogram) => {
            let counts = histogram.counts(&[0, 1_000, 1_000_000, u64::MAX]);
            prop_assert_eq!(counts.iter().sum::<u64>(), histogram.count());
            prop_assert!(histogram.percentile_ns(50.0) <= histogram.percentile_ns(99.0));
            let again = TextHistogram::parse(&histogram.to_text());
            prop_assert_eq!(again.map(|h| h.count()), Ok(histogram.count()));
        }
        Err(error) => prop_assert!(!error.to_string().contains('\n')),
    }
    Ok(())
}

fn valid(values: &[u64]) -> String {
    let mut histogram = Histogram::default();
    values.iter().for_each(|v| histogram.record(*v, 1 + v % 7));
    TextHistogram::from(&histogram).to_text()
}

/// Three times 2^62 can be counted, six times cannot.
#[test]
fn more_than_can_be_counted_is_refused() {
    let with = |values: &[u64]| {
        let mut histogram = Histogram::default();
        values.iter().for_each(|v| histogram.record(*v, 1 << 62));
        TextHistogram::from(&histogram).to_text()
    };
    let most = with(&[1_000, 1_000_000, 1_000_000_000]);
    assert_eq!(TextHistogram::parse(&most).map(|h| h.count()), Ok(3 << 62));
    let refused = TextHistogram::merge([most.as_str(), &most]).err().expect("too many").to_string();
    assert!(refused.contains("2^64"), "{refused}");
}

proptest! {
    #[test]
    fn any_text_and_any_bytes(text in "\\PC*", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&text)?;
        check(&STANDARD.encode(&bytes))?;
        // Behind the cookies of both forms: HdrHistogram's V2, plain and compressed.
        for cookie in [[0x1c, 0x84, 0x93, 0x13], [0x1c, 0x84, 0x93, 0x14]] {
            check(&STANDARD.encode([&cookie[..], &bytes].concat()))?;
        }
    }

    #[test]
    fn changed_and_shortened_histograms(
        values in prop::collection::vec(0u64..100_000_000_000, 0..50),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = STANDARD.decode(valid(&values)).expect("our own");
        let length = bytes.len();
        bytes[at.index(length)] ^= 1 << bit;
        check(&STANDARD.encode(&bytes))?;
        check(&STANDARD.encode(&bytes[..cut.index(bytes.len())]))?;
    }

    #[test]
    fn fields_of_the_plain_form(
        payload in prop::collection::vec(any::<u8>(), 0..40),
        normalizing in any::<u32>(), digits in 0u32..8, low in any::<u64>(), high in any::<u64>(), ratio in any::<f64>(),
    ) {
        // Cookie, payload length, normalizing offset, digits, lowest, highest, conversion ratio: big-endian.
        let mut bytes = vec![0x1c, 0x84, 0x93, 0x13];
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(normalizing.to_be_bytes());
        bytes.extend(digits.to_be_bytes());
        bytes.extend(low.to_be_bytes());
        bytes.extend(high.to_be_bytes());
        bytes.extend(ratio.to_be_bytes());
        bytes.extend(&payload);
        check(&STANDARD.encode(&bytes))?;
    }
}
