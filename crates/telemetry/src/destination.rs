//! The collector: its address and protocol, and one export to it.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Request, Response, Uri};
use http_body_util::Full;
use prost::Message;
use tokio::time::timeout;
use touchstone_client::grpc::{Call, CallAnswer};
use touchstone_client::{HttpClient, Settings};
use touchstone_config::{TelemetryConfig, TelemetryProtocol};
use touchstone_http::date::retry_after_seconds;

use crate::encode;
use crate::messages::{ExportAnswer, Resource, RetryInfo, RpcStatus};

/// The largest answer that is read.
const MOST_ANSWER_BYTES: usize = 64 << 10;

/// The largest file of header fields.
const MOST_FIELD_BYTES: u64 = 64 << 10;

/// The longest pause that a collector may request.
const MOST_PAUSE: Duration = Duration::from_secs(300);

/// What is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

/// What became of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was accepted, except for this many spans or samples; the collector may state the reason.
    Accepted { rejected: u64, message: String },
    /// It may be accepted later.
    Again { reason: String, after: Option<Duration> },
    /// It never will be.
    Refused(String),
}

/// A collector as configured, with its files read.
pub struct Destination {
    client: HttpClient,
    protocol: TelemetryProtocol,
    traces: Uri,
    metrics: Uri,
    fields: Vec<(HeaderName, HeaderValue)>,
    is_compressed: bool,
    timeout: Duration,
    /// For messages: `collector http://127.0.0.1:4318`.
    pub name: String,
    /// What all that is sent is about.
    pub resource: Resource,
    /// How often spans are sent.
    pub interval: Duration,
    /// How often metrics are.
    pub metrics_interval: Option<Duration>,
}

/// A message, compressed or not. It is kept so until the collector has it, also if the destination changes.
#[derive(Debug, Clone)]
pub struct PackedMessage {
    bytes: Bytes,
    is_gzip: bool,
}

impl Destination {
    /// The collector of a configuration; `None` if it has none. `instance` names the process.
    pub fn open(config: &TelemetryConfig, instance: &str) -> Result<Option<Destination>, String> {
        if !config.is_on() {
            return Ok(None);
        }
        let fields = match &config.headers_file {
            Some(file) => read_fields(file)?,
            None => Vec::new(),
        };
        let client = HttpClient::new(Settings {
            ca_certificate: config.ca_certificate.as_deref(),
            ca_key: "telemetry.ca_certificate",
            user_agent: concat!("touchstone/", env!("CARGO_PKG_VERSION")),
            most_answer_bytes: MOST_ANSWER_BYTES,
        })
        .map_err(|problem| format!("telemetry.ca_certificate: {problem}"))?;
        let [traces, metrics] = match config.protocol {
            TelemetryProtocol::Http => ["/v1/traces", "/v1/metrics"],
            TelemetryProtocol::Grpc => [
                "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
                "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            ],
        };
        let uri = |path: &str| -> Result<Uri, String> {
            let text = format!("{}{path}", config.endpoint);
            text.parse().map_err(|error| format!("telemetry.endpoint: {error}"))
        };
        Ok(Some(Destination {
            client,
            protocol: config.protocol,
            traces: uri(traces)?,
            metrics: uri(metrics)?,
            fields,
            is_compressed: config.is_compressed,
            timeout: config.timeout,
            name: format!("collector {}", config.endpoint),
            resource: encode::resource(config, instance),
            interval: config.interval,
            metrics_interval: config.metrics,
        }))
    }

    /// A message as it is sent, however often.
    pub fn packed(&self, message: Vec<u8>) -> PackedMessage {
        let bytes = if self.is_compressed { gzip(&message) } else { message };
        PackedMessage { bytes: bytes.into(), is_gzip: self.is_compressed }
    }

    /// Sends a message, and waits for the answer.
    pub async fn export(&self, signal: Signal, message: &PackedMessage) -> Outcome {
        let work = async {
            match self.protocol {
                TelemetryProtocol::Http => self.post(signal, message).await,
                TelemetryProtocol::Grpc => self.call(signal, message).await,
            }
        };
        match timeout(self.timeout, work).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::Again { reason: format!("no answer in {:?}", self.timeout), after: None },
        }
    }

    fn uri(&self, signal: Signal) -> Uri {
        match signal {
            Signal::Traces => self.traces.clone(),
            Signal::Metrics => self.metrics.clone(),
        }
    }

    async fn post(&self, signal: Signal, message: &PackedMessage) -> Outcome {
        let mut request = Request::post(self.uri(signal)).header(CONTENT_TYPE, "application/x-protobuf");
        if message.is_gzip {
            request = request.header(CONTENT_ENCODING, "gzip");
        }
        for (name, value) in &self.fields {
            request = request.header(name, value);
        }
        match request.body(Full::new(message.bytes.clone())) {
            Err(error) => Outcome::Refused(error.to_string()),
            Ok(request) => match self.client.send(request).await {
                Ok(answer) => of_answer(&answer),
                Err(failure) => Outcome::Again { reason: failure.to_string(), after: None },
            },
        }
    }

    async fn call(&self, signal: Signal, PackedMessage { bytes, is_gzip }: &PackedMessage) -> Outcome {
        let (uri, fields) = (self.uri(signal), &self.fields);
        let call = Call { uri, fields, is_gzip: *is_gzip, message: bytes };
        match self.client.call(&call).await {
            Ok(answer) => of_call(&answer),
            Err(failure) => Outcome::Again { reason: failure.to_string(), after: None },
        }
    }
}

/// The result of an answer over HTTP.
fn of_answer(answer: &Response<Bytes>) -> Outcome {
    let status = answer.status();
    if status.is_success() {
        return of_message(answer.body());
    }
    let reason = format!("it answered with status {status}");
    match status.as_u16() {
        429 | 502..=504 => Outcome::Again { reason, after: retry_after(answer.headers()) },
        _ => Outcome::Refused(reason),
    }
}

/// The pause that `Retry-After` requests: seconds, or a time.
fn retry_after(fields: &HeaderMap) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    let seconds = retry_after_seconds(fields.get(RETRY_AFTER)?.as_bytes(), i64::try_from(now).ok()?)?;
    Some(Duration::from_secs(seconds).min(MOST_PAUSE))
}

/// The result of an answer of gRPC (OTLP specification, "OTLP/gRPC throttling").
fn of_call(answer: &CallAnswer) -> Outcome {
    let reason = format!("it answered with code {} {:?}", answer.code, answer.message);
    let after = pause_of_details(&answer.details);
    match answer.code {
        0 => of_message(&answer.body),
        // Cancelled, deadline exceeded, aborted, out of range, unavailable, data loss.
        1 | 4 | 10 | 11 | 14 | 15 => Outcome::Again { reason, after },
        // Resource exhausted: only if the server states a time.
        8 if after.is_some() => Outcome::Again { reason, after },
        _ => Outcome::Refused(reason),
    }
}

/// The pause in the details of a status of gRPC.
fn pause_of_details(details: &str) -> Option<Duration> {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes = GeneralPurpose::new(&base64::alphabet::STANDARD, config).decode(details).ok()?;
    let status = RpcStatus::decode(&bytes[..]).ok()?;
    let info = status.details.iter().find(|detail| detail.type_url.ends_with("/google.rpc.RetryInfo"))?;
    let delay = RetryInfo::decode(&info.value[..]).ok()?.retry_delay?;
    let (seconds, nanos) = (u64::try_from(delay.seconds).ok()?, u32::try_from(delay.nanos).ok()?);
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into())).min(MOST_PAUSE))
}

/// The contents of the message of an accepted export. One that cannot be parsed is ignored.
fn of_message(message: &[u8]) -> Outcome {
    let partly = ExportAnswer::decode(message).unwrap_or_default().partial_success.unwrap_or_default();
    Outcome::Accepted {
        rejected: u64::try_from(partly.rejected).unwrap_or_default(),
        message: partly.error_message.chars().filter(|character| !character.is_control()).take(300).collect(),
    }
}

fn gzip(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(message.len() / 4), Compression::fast());
    // Writing into memory does not fail.
    let _ = encoder.write_all(message);
    encoder.finish().unwrap_or_default()
}

/// The header fields in a file: each line `NAME: VALUE`; empty lines, and those that begin with `#`, are
/// passed over. An error names the line, and never its text.
pub fn read_fields(file: &Path) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let about = |problem: String| format!("telemetry.headers_file '{}' {problem}", file.display());
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| about(format!("cannot be read: {error}")))?;
    let read = opened.take(MOST_FIELD_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| about(format!("cannot be read: {error}")))?;
    if text.len() as u64 > MOST_FIELD_BYTES {
        return Err(about(format!("is larger than {MOST_FIELD_BYTES} bytes")));
    }
    fields_of(&text).map_err(about)
}

fn fields_of(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut fields = Vec::new();
    for (position, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = position + 1;
        let (name, value) = line.split_once(':').ok_or(format!("has no colon in line {number}"))?;
        let name: HeaderName =
            name.trim().parse().map_err(|_| format!("has no valid name of a field in line {number}"))?;
        let is_reserved = matches!(
            name.as_str(),
            "host"
                | "content-length"
                | "content-type"
                | "content-encoding"
                | "connection"
                | "te"
                | "transfer-encoding"
                | "grpc-encoding"
        );
        if is_reserved {
            return Err(format!("sets '{name}' in line {number}, which the server sets itself"));
        }
        let mut value: HeaderValue =
            value.trim().parse().map_err(|_| format!("has no valid value of a field in line {number}"))?;
        value.set_sensitive(true);
        fields.push((name, value));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{PartialSuccess, RpcDetail, RpcDuration};
    use proptest::prelude::*;

    fn answer(status: u16, retry_after: &str) -> Outcome {
        let answer = Response::builder().status(status).header("retry-after", retry_after);
        of_answer(&answer.body(Bytes::new()).unwrap())
    }

    fn call(code: u32, details: String) -> Outcome {
        of_call(&CallAnswer { code, message: "m".into(), details, body: Bytes::new() })
    }

    fn pause(outcome: Outcome) -> Option<Option<Duration>> {
        match outcome {
            Outcome::Again { after, .. } => Some(after),
            Outcome::Accepted { .. } | Outcome::Refused(_) => None,
        }
    }

    #[test]
    fn what_answers_mean() {
        assert_eq!(answer(200, ""), Outcome::Accepted { rejected: 0, message: String::new() });
        assert_eq!(pause(answer(429, "7")), Some(Some(Duration::from_secs(7))));
        assert_eq!(pause(answer(503, "999999999")), Some(Some(MOST_PAUSE)));
        assert_eq!(pause(answer(503, "Thu, 01 Jan 2026 00:00:00 GMT")), Some(Some(Duration::ZERO)));
        assert_eq!(pause(answer(502, "soon")), Some(None));
        for status in [301, 400, 401, 404, 500] {
            assert!(matches!(answer(status, "1"), Outcome::Refused(_)), "{status}");
        }
        let partly = PartialSuccess { rejected: 3, error_message: "too\nold".to_string() };
        let message = ExportAnswer { partial_success: Some(partly) }.encode_to_vec();
        assert_eq!(of_message(&message), Outcome::Accepted { rejected: 3, message: "tooold".to_string() });
    }

    #[test]
    fn what_codes_mean() {
        let delay = RpcDuration { seconds: 2, nanos: 500_000_000 };
        let info = RetryInfo { retry_delay: Some(delay) }.encode_to_vec();
        let detail =
            RpcDetail { type_url: "type.googleapis.com/google.rpc.RetryInfo".to_string(), value: info };
        let status = RpcStatus { details: vec![detail] }.encode_to_vec();
        let details = base64::engine::general_purpose::STANDARD_NO_PAD.encode(status);
        assert_eq!(pause(call(8, details.clone())), Some(Some(Duration::from_millis(2500))));
        assert_eq!(pause(call(8, String::new())), None);
        assert_eq!(pause(call(14, String::new())), Some(None));
        assert!(matches!(call(16, details), Outcome::Refused(_)));
        assert!(matches!(call(0, String::new()), Outcome::Accepted { .. }));
    }

    #[test]
    fn fields_of_a_file() {
        let fields = fields_of("# the key\n\nx-api-key: s3cret \nAuthorization: Bearer a:b\n").unwrap();
        assert_eq!(fields[0].0, "x-api-key");
        assert_eq!(fields[0].1, "s3cret");
        assert_eq!(fields[1].1, "Bearer a:b");
        assert!(!format!("{fields:?}").contains("s3cret"));
        for bad in ["s3cret", "a b: s3cret", "a: s3cret\u{7}", "Host: s3cret", ": s3cret"] {
            let problem = fields_of(&format!("\n{bad}")).unwrap_err();
            assert!(problem.contains("line 2") && !problem.contains("s3cret"), "{problem}");
        }
    }

    #[test]
    fn what_is_compressed_is_read_again() {
        let message = b"abc".repeat(1000);
        let mut read = Vec::new();
        let packed = gzip(&message);
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut read).unwrap();
        assert!(read == message && packed.len() < 100);
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(message: Vec<u8>, details: String, code: u32, file: String) {
            of_message(&message);
            call(code, details);
            let details = base64::engine::general_purpose::STANDARD.encode(&message);
            pause_of_details(&details);
            let _ = fields_of(&file);
        }
    }
}
