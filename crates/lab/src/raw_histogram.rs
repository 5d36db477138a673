//! A histogram as the raw data has it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Serialize};
use std::io::Read as _;

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
        check_size(&bytes)?;
        let read = Deserializer::new().deserialize(&mut bytes.as_slice());
        read.map_err(|error| format!("a histogram is damaged: {error}"))
    }
}

/// The cookie of a deflated histogram of version 2.
const DEFLATED: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
/// The most bytes of the counts: those of any histogram of three digits are half of that.
const COUNTS_BYTES_MAX: u32 = 1 << 20;
/// The most digits: the load engine keeps three.
const DIGITS_MAX: u32 = 3;

/// The reader of histograms allocates memory for the length that a histogram states, before it reads the
/// bytes: a few bytes could make it allocate 4 GiB.
fn check_size(bytes: &[u8]) -> Result<(), String> {
    let damaged = |what: &str| format!("a histogram is damaged: {what}");
    if bytes.get(..4) != Some(&DEFLATED[..]) {
        return Err(damaged("it is not deflated, of version 2"));
    }
    // Cookie and length, then deflated: cookie, length of the counts, offset, digits.
    let mut head = [0; 16];
    let mut inflated = flate2::read::ZlibDecoder::new(bytes.get(8..).unwrap_or_default());
    inflated.read_exact(&mut head).map_err(|error| damaged(&error.to_string()))?;
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if number(4) > COUNTS_BYTES_MAX {
        return Err(damaged(&format!("it says that it has {} bytes of counts", number(4))));
    }
    if number(12) > DIGITS_MAX {
        return Err(damaged(&format!("it has {} digits, and three are kept", number(12))));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A histogram with this many digits that states this many bytes of counts.
    fn deflated(counts: u32, digits: u32) -> RawHistogram {
        let mut inner = vec![0x1c, 0x84, 0x93, 0x13];
        for number in [counts, 0, digits] {
            inner.extend(number.to_be_bytes());
        }
        inner.extend(1u64.to_be_bytes());
        inner.extend(u64::MAX.to_be_bytes());
        inner.extend(1f64.to_be_bytes());
        let mut bytes = Vec::new();
        flate2::read::ZlibEncoder::new(inner.as_slice(), flate2::Compression::best())
            .read_to_end(&mut bytes)
            .unwrap();
        let mut all = DEFLATED.to_vec();
        all.extend((bytes.len() as u32).to_be_bytes());
        all.extend(bytes);
        RawHistogram(STANDARD.encode(all))
    }

    #[test]
    fn a_few_bytes_do_not_ask_for_gigabytes() {
        let error = |counts, digits| deflated(counts, digits).read().unwrap_err();
        assert!(error(u32::MAX, 3).contains("4294967295 bytes of counts"), "{}", error(u32::MAX, 3));
        assert!(error(COUNTS_BYTES_MAX + 1, 3).contains("bytes of counts"));
        assert!(error(100, 5).contains("5 digits"), "{}", error(100, 5));
        assert!(error(100, 3).contains("damaged"), "{}", error(100, 3));
    }
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
