//! The client of an authority: the requirements of ACME for answers, on top of the server's own HTTP client.
//!
//! A certificate takes about fifteen requests in two months, so persistent connections have no advantage.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Full;
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use touchstone_client::{RequestFailure, Settings};
use touchstone_http::date::retry_after_seconds;

/// The maximum size of an answer; a chain of certificates takes a few kilobytes.
const MOST_ANSWER_BYTES: usize = 1 << 20;

/// The user agent (RFC 8555 section 6.1).
const AGENT: &str = concat!("touchstone/", env!("CARGO_PKG_VERSION"), " instant-acme");

/// A client of an authority. Clones share their state.
#[derive(Clone)]
pub struct AuthorityClient {
    http: touchstone_client::HttpClient,
    not_before: Arc<Mutex<Option<SystemTime>>>,
    issuer_names: Arc<Mutex<Vec<String>>>,
}

impl AuthorityClient {
    /// A client that trusts the authorities in this file, or those of the system.
    pub fn new(ca_certificate: Option<&Path>) -> Result<AuthorityClient, String> {
        let http = touchstone_client::HttpClient::new(Settings {
            ca_certificate,
            ca_key: "acme.ca_certificate",
            user_agent: AGENT,
            most_answer_bytes: MOST_ANSWER_BYTES,
        })?;
        Ok(AuthorityClient { http, not_before: Arc::default(), issuer_names: Arc::default() })
    }

    /// The time until which the authority has requested to wait (429 or 503 with Retry-After); returned once.
    pub fn take_not_before(&self) -> Option<SystemTime> {
        self.not_before.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The names of the authority in records of DNS, as far as it has sent them.
    pub fn issuer_names(&self) -> Vec<String> {
        self.issuer_names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores the names that a directory or a challenge contains.
    fn note_issuer_names(&self, body: &[u8]) {
        let names = issuer_names(body);
        if !names.is_empty() {
            *self.issuer_names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        }
    }

    async fn send_checked(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Result<Response<Bytes>, RequestFailure> {
        let uri = request.uri().clone();
        if uri.scheme_str() != Some("https") {
            return Err(RequestFailure::about(&uri, "the authority sent an address that is not https://"));
        }
        let answer = self.check(&uri, self.http.send(request).await?)?;
        self.note_issuer_names(answer.body());
        Ok(answer)
    }

    /// Refuses answers that are not ACME before they are parsed.
    fn check(&self, uri: &Uri, answer: Response<Bytes>) -> Result<Response<Bytes>, RequestFailure> {
        let status = answer.status();
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            let until = answer.headers().get(RETRY_AFTER).and_then(retry_after);
            *self.not_before.lock().unwrap_or_else(PoisonError::into_inner) = until;
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        if (status.is_client_error() || status.is_server_error()) && !kind.contains("json") {
            let message = format!("answered {status}: is it an ACME server?");
            return Err(RequestFailure::about(uri, message));
        }
        if status.is_redirection() {
            return Err(RequestFailure::about(
                uri,
                format!("answered {status}, and redirections are not followed"),
            ));
        }
        Ok(answer)
    }
}

impl HttpClient for AuthorityClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            match client.send_checked(request).await {
                Ok(answer) => Ok(BytesResponse::from(answer.map(Full::new))),
                Err(unanswered) => Err(instant_acme::Error::Other(Box::new(unanswered))),
            }
        })
    }
}

/// The names of an authority in its directory (`caaIdentities`, RFC 8555 section 7.1.1) or in a challenge
/// (`issuer-domain-names`, draft-ietf-acme-dns-persist); empty if the answer has none.
fn issuer_names(body: &[u8]) -> Vec<String> {
    let has = |word: &[u8]| body.windows(word.len()).any(|window| window == word);
    if !has(b"\"caaIdentities\"") && !has(b"\"issuer-domain-names\"") {
        return Vec::new();
    }
    let Ok(answer) = serde_json::from_slice::<serde_json::Value>(body) else { return Vec::new() };
    let of_challenge = answer["challenges"].as_array().into_iter().flatten();
    let of_challenge =
        of_challenge.filter_map(|challenge| challenge["issuer-domain-names"].as_array()).next();
    let names = of_challenge.or_else(|| answer["meta"]["caaIdentities"].as_array());
    // They are written into messages and compared with records: only names are taken.
    let is_name = |name: &&str| touchstone_dns::Name::parse(name).is_ok();
    names.into_iter().flatten().filter_map(|name| name.as_str()).filter(is_name).map(str::to_string).collect()
}

/// Parses seconds, or a date (RFC 9110 section 10.2.3).
fn retry_after(value: &HeaderValue) -> Option<SystemTime> {
    /// Longer than any sensible wait.
    const MOST_S: u64 = 7 * 24 * 3600;
    let now_s = time::OffsetDateTime::now_utc().unix_timestamp();
    let seconds = retry_after_seconds(value.as_bytes(), now_s)?;
    Some(SystemTime::now() + Duration::from_secs(seconds.min(MOST_S)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wait_s(text: &str) -> Option<u64> {
        let until = retry_after(&HeaderValue::from_str(text).ok()?)?;
        Some(until.duration_since(SystemTime::now()).unwrap_or_default().as_secs_f64().round() as u64)
    }

    #[test]
    fn waits_that_an_authority_asks_for() {
        assert_eq!([wait_s("120"), wait_s(" 7 "), wait_s("0")], [Some(120), Some(7), Some(0)]);
        assert_eq!(wait_s("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        let week = Some(7 * 24 * 3600);
        assert_eq!([wait_s("18446744073709551615"), wait_s("Fri, 31 Dec 9999 23:59:59 GMT")], [week, week]);
        assert_eq!([wait_s("soon"), wait_s(""), wait_s("-1")], [None, None, None]);
    }

    proptest! {
        #[test]
        fn no_wait_makes_it_panic(text in prop::collection::vec(0x20u8..=0xff, 0..40)) {
            if let Ok(value) = HeaderValue::from_bytes(&text) {
                retry_after(&value);
            }
        }
    }

    #[test]
    fn names_of_an_authority() {
        let names = |text: &str| issuer_names(text.as_bytes());
        assert_eq!(names(r#"{"meta":{"caaIdentities":["ca.test","x y"]}}"#), ["ca.test"]);
        let challenges = r#"{"challenges":[{"type":"http-01"},{"issuer-domain-names":["b.test"]}]}"#;
        assert_eq!(names(challenges), ["b.test"]);
        for none in
            ["", "{}", r#"{"caaIdentities":1}"#, r#"{"meta":{"caaIdentities":1}}"#, r#""caaIdentities""#]
        {
            assert!(names(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn answers_that_are_not_of_acme() {
        let root = rcgen::generate_simple_self_signed(["ca.test".to_string()]).expect("a certificate");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, root.cert.pem()).expect("the file is written");
        let client = AuthorityClient::new(Some(file.path())).expect("a client");
        let uri: Uri = "https://ca.test/dir".parse().expect("a URI");
        let check = |status: u16, kind: &str| {
            let answer =
                Response::builder().status(status).header(CONTENT_TYPE, kind).header(RETRY_AFTER, "60");
            client.check(&uri, answer.body(Bytes::new()).expect("an answer")).map(|_| ())
        };
        assert_eq!(check(200, "application/json"), Ok(()));
        assert_eq!(check(400, "application/problem+json"), Ok(()));
        assert_eq!(client.take_not_before(), None);
        assert!(
            check(404, "text/html").unwrap_err().0.ends_with("answered 404 Not Found: is it an ACME server?")
        );
        assert!(check(302, "text/html").unwrap_err().0.contains("redirections are not followed"));
        assert_eq!(check(429, "application/problem+json"), Ok(()));
        assert!(client.take_not_before().is_some() && client.take_not_before().is_none());
    }
}
