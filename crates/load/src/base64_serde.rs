//! The serialization of plans and outcomes for another process: bytes and histograms are written as base64. A
//! histogram has HdrHistogram's own format (V2, deflated), which keeps every count.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serializer, de};

/// The most bytes of one histogram. With three digits and values up to an hour in nanoseconds, it has about
/// 200 KiB before compression.
const MAXIMUM_HISTOGRAM_BYTES: usize = 16 * 1024 * 1024;

fn decode<'de, D: Deserializer<'de>>(text: &str) -> Result<Vec<u8>, D::Error> {
    STANDARD.decode(text).map_err(|error| de::Error::custom(format!("not base64: {error}")))
}

/// Bytes.
pub(crate) mod bytes {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        decode::<D>(&String::deserialize(deserializer)?)
    }
}

/// The body of a request.
pub(crate) mod body {
    use super::*;
    use std::sync::Arc;

    pub(crate) fn serialize<S: Serializer>(
        body: &Option<Arc<[u8]>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match body {
            Some(body) => serializer.serialize_some(&STANDARD.encode(body)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<[u8]>>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| decode::<D>(&text).map(Arc::from)).transpose()
    }
}

/// The arrivals of a recorded load.
pub(crate) mod recorded {
    use super::*;
    use crate::plan::Recorded;
    use serde::Serialize;
    use std::sync::Arc;

    pub(crate) fn serialize<S: Serializer>(
        recorded: &Arc<[Recorded]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        recorded[..].serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<[Recorded]>, D::Error> {
        Vec::<Recorded>::deserialize(deserializer).map(Arc::from)
    }
}

/// A histogram.
pub(crate) mod histogram {
    use super::*;
    use hdrhistogram::serialization::{
        Deserializer as HistogramReader, Serializer as _, V2DeflateSerializer,
    };
    use hdrhistogram::{Counter, Histogram};
    use serde::ser;

    pub(crate) fn serialize<T: Counter, S: Serializer>(
        histogram: &Histogram<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut written = Vec::new();
        V2DeflateSerializer::new()
            .serialize(histogram, &mut written)
            .map_err(|error| ser::Error::custom(format!("a histogram cannot be written: {error}")))?;
        serializer.serialize_str(&STANDARD.encode(written))
    }

    pub(crate) fn deserialize<'de, T: Counter, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Histogram<T>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() > MAXIMUM_HISTOGRAM_BYTES {
            return Err(de::Error::custom(format!(
                "a histogram of more than {MAXIMUM_HISTOGRAM_BYTES} bytes is refused"
            )));
        }
        let written = decode::<D>(&text)?;
        let mut histogram: Histogram<T> = HistogramReader::new()
            .deserialize(&mut written.as_slice())
            .map_err(|error| de::Error::custom(format!("not a histogram: {error}")))?;
        histogram.auto(true);
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use crate::outcome::ClientOutcome;
    use crate::plan::{Plan, PlannedRequest, Recorded};
    use crate::target::{Target, TlsTarget, Trust};
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    #[test]
    fn a_plan_is_unchanged_after_serialization() {
        let mut plan = Plan::of_one(Target::plain(([10, 0, 0, 5], 80).into(), "www.example"), "/a");
        let trust = Trust::Authorities(b"-----BEGIN CERTIFICATE-----".to_vec());
        plan.target.tls = Some(TlsTarget { trust, ..TlsTarget::new("www.example") });
        plan.requests.push(PlannedRequest {
            body: Some(vec![0, 255, 7].into()),
            expected_status: vec![200..=204],
            expected_body_sha256: Some([9; 32]),
            weight: 0.1 + 0.2,
            ..PlannedRequest::get("/b")
        });
        plan.seed = u64::MAX;
        plan.recorded = [Recorded { after: std::time::Duration::from_millis(3), request: 1 }].into();
        let text = serde_json::to_string(&plan).expect("a plan can be written");
        let back: Plan = serde_json::from_str(&text).expect("and read");
        assert_eq!(format!("{plan:?}"), format!("{back:?}"));
    }

    proptest! {
        #[test]
        fn a_histogram_keeps_every_count(values in prop::collection::vec(0u64..4_000_000_000_000, 0..200)) {
            let mut latency_ns = Histogram::<u32>::new(2).expect("two digits");
            values.iter().for_each(|value| latency_ns.record(*value).expect("it resizes itself"));
            let client = ClientOutcome { requests: 1, errors: 2, bytes: 3, latency_ns };
            let text = serde_json::to_string(&client).expect("it can be written");
            let back: ClientOutcome = serde_json::from_str(&text).expect("and read");
            prop_assert_eq!(back.latency_ns, client.latency_ns);
        }

        #[test]
        fn any_text_is_a_histogram_or_an_error(text: String) {
            let quoted = serde_json::json!({"requests": 1, "errors": 0, "bytes": 0, "latency_ns": text});
            let _ = serde_json::from_value::<ClientOutcome>(quoted);
        }
    }
}
