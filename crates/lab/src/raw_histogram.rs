//! A histogram as the raw data has it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Serialize};

/// A histogram in HdrHistogram's V2 form, deflated, base64. Empty text: a histogram without values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawHistogram(pub String);

impl RawHistogram {
    /// Writes a histogram.
    pub fn of<T: Counter>(histogram: &Histogram<T>) -> RawHistogram {
        if histogram.is_empty() {
            return RawHistogram(String::new());
        }
        let mut bytes = Vec::new();
        // Writing to memory fails only where counts do not fit the form's 63 bits, which no run reaches.
        let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
        RawHistogram(written.map(|_| STANDARD.encode(&bytes)).unwrap_or_default())
    }

    /// Reads it again; the text of an error states what is wrong with it.
    pub fn read(&self) -> Result<Histogram<u64>, String> {
        if self.0.is_empty() {
            return Histogram::new(3).map_err(|error| error.to_string());
        }
        let bytes =
            STANDARD.decode(&self.0).map_err(|error| format!("a histogram is not base64: {error}"))?;
        let read = Deserializer::new().deserialize(&mut bytes.as_slice());
        read.map_err(|error| format!("a histogram is damaged: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn histograms_come_back_as_they_were(
            values in proptest::collection::vec(1u64..60_000_000_000, 0..200),
        ) {
            let mut histogram = Histogram::<u64>::new(3).unwrap();
            values.iter().for_each(|value| histogram.record(*value).unwrap());
            let read = RawHistogram::of(&histogram).read().unwrap();
            prop_assert_eq!(
                (read.len(), read.min(), read.max()),
                (histogram.len(), histogram.min(), histogram.max())
            );
            prop_assert_eq!(read.mean(), histogram.mean());
            prop_assert_eq!(read.stdev(), histogram.stdev());
            for quantile in [0.5, 0.9, 0.999] {
                prop_assert_eq!(read.value_at_quantile(quantile), histogram.value_at_quantile(quantile));
            }
        }

        #[test]
        fn no_histogram_panics(
            text in "[A-Za-z0-9+/]{0,80}={0,2}",
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let _ = RawHistogram(text).read();
            let _ = RawHistogram(STANDARD.encode(&bytes)).read();
        }
    }
}
