//! HTTPS to the authority: one connection for each request, with limits on time and size.
//!
//! A certificate takes some fifteen requests in two months, so persistent connections would gain nothing.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use touchstone_http::date::parse_http_date;

/// From the look-up of the name to the end of the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// From the end of the TLS handshake to the last byte of the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The largest answer; a chain of certificates takes a few kilobytes.
const MOST_ANSWER_BYTES: usize = 1 << 20;

/// The user agent (RFC 8555 section 6.1).
const AGENT: &str = concat!("touchstone/", env!("CARGO_PKG_VERSION"), " instant-acme");

/// A client of an authority. Clones share what they have learned.
#[derive(Clone)]
pub struct AuthorityClient {
    tls: TlsConnector,
    not_before: Arc<Mutex<Option<SystemTime>>>,
}

/// A request that got no answer, or an answer that is not ACME.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered(pub String);

impl fmt::Display for Unanswered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Unanswered {}

impl AuthorityClient {
    /// A client that trusts the authorities in this file, or those of the system.
    pub fn new(
        provider: Arc<CryptoProvider>,
        ca_certificate: Option<&Path>,
    ) -> Result<AuthorityClient, String> {
        let roots = match ca_certificate {
            Some(file) => roots_of_file(file)?,
            None => roots_of_system()?,
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(AuthorityClient { tls: TlsConnector::from(Arc::new(config)), not_before: Arc::default() })
    }

    /// Until when the authority has asked to wait (429 or 503 with Retry-After); returned once.
    pub fn take_not_before(&self) -> Option<SystemTime> {
        self.not_before.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn ask(&self, mut request: Request<BodyWrapper<Bytes>>) -> Result<Response<Bytes>, Unanswered> {
        let uri = request.uri().clone();
        let stream = match timeout(CONNECT_TIMEOUT, self.connect(&uri)).await {
            Ok(stream) => stream?,
            Err(_) => return Err(about(&uri, format!("no connection in {CONNECT_TIMEOUT:?}"))),
        };
        to_origin_form(&mut request)?;
        match timeout(ANSWER_TIMEOUT, exchange(stream, request)).await {
            Ok(answer) => self.check(&uri, answer.map_err(|error| about(&uri, error))?),
            Err(_) => Err(about(&uri, format!("no answer in {ANSWER_TIMEOUT:?}"))),
        }
    }

    async fn connect(&self, uri: &Uri) -> Result<TlsStream<TcpStream>, Unanswered> {
        if uri.scheme_str() != Some("https") {
            return Err(about(uri, "the authority names a place that is not https://"));
        }
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(host.to_string())
            .map_err(|_| about(uri, "there is no name of a server in it"))?;
        let socket = TcpStream::connect((host, uri.port_u16().unwrap_or(443)))
            .await
            .map_err(|error| about(uri, format!("cannot be reached: {error}")))?;
        self.tls.connect(name, socket).await.map_err(|error| about(uri, handshake_problem(&error)))
    }

    /// Refuses answers that are not ACME, before they are parsed.
    fn check(&self, uri: &Uri, answer: Response<Bytes>) -> Result<Response<Bytes>, Unanswered> {
        let status = answer.status();
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            let until = answer.headers().get(RETRY_AFTER).and_then(retry_after);
            *self.not_before.lock().unwrap_or_else(PoisonError::into_inner) = until;
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        if (status.is_client_error() || status.is_server_error()) && !kind.contains("json") {
            let message = format!("answered {status}: is it an ACME server?");
            return Err(about(uri, message));
        }
        if status.is_redirection() {
            return Err(about(uri, format!("answered {status}, and redirections are not followed")));
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
            match client.ask(request).await {
                Ok(answer) => Ok(BytesResponse::from(answer.map(Full::new))),
                Err(unanswered) => Err(instant_acme::Error::Other(Box::new(unanswered))),
            }
        })
    }
}

/// Turns `POST https://a.org/x` into `POST /x` with a Host field, as a server requires (RFC 9112 section
/// 3.2.1).
fn to_origin_form(request: &mut Request<BodyWrapper<Bytes>>) -> Result<(), Unanswered> {
    let uri = request.uri().clone();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let host = HeaderValue::from_str(authority).map_err(|error| about(&uri, error))?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    *request.uri_mut() = target.parse().map_err(|error| about(&uri, error))?;
    let fields = request.headers_mut();
    fields.insert(HOST, host);
    fields.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    Ok(())
}

/// Sends a request, and reads the whole answer.
async fn exchange(
    stream: TlsStream<TcpStream>,
    request: Request<BodyWrapper<Bytes>>,
) -> Result<Response<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let answer = async {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, MOST_ANSWER_BYTES).collect().await?.to_bytes();
        Ok(Response::from_parts(parts, body))
    };
    // The connection moves the bytes. It ends when the server closes it, perhaps just after its answer.
    tokio::pin!(answer, connection);
    tokio::select! {
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}

/// Parses seconds, or a date (RFC 9110 section 10.2.3).
fn retry_after(value: &HeaderValue) -> Option<SystemTime> {
    /// Longer than any sensible wait.
    const MOST_S: u64 = 7 * 24 * 3600;
    let text = value.as_bytes().trim_ascii();
    let seconds = match std::str::from_utf8(text).ok()?.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let now_s = time::OffsetDateTime::now_utc().unix_timestamp();
            let until_s = parse_http_date(text, now_s)?;
            u64::try_from(until_s.saturating_sub(now_s)).unwrap_or(0)
        }
    };
    Some(SystemTime::now() + Duration::from_secs(seconds.min(MOST_S)))
}

fn roots_of_file(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in touchstone_tls::read_certificates(file).map_err(|problem| problem.to_string())? {
        roots
            .add(certificate)
            .map_err(|error| format!("{}: a certificate in it cannot be used: {error}", file.display()))?;
    }
    Ok(roots)
}

fn roots_of_system() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = found.errors.first().map_or(String::new(), |error| format!(" ({error})"));
        return Err(format!(
            "this system trusts no authority at all{reason}: install the package ca-certificates, or set \
             acme.ca_certificate"
        ));
    }
    Ok(roots)
}

fn handshake_problem(error: &std::io::Error) -> String {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)) => {
            "its certificate comes from an authority that is not trusted here; for an ACME server of your \
             own set acme.ca_certificate to the authority that signed it"
                .to_string()
        }
        Some(rustls::Error::InvalidCertificate(reason)) => {
            format!("its certificate is not accepted: {reason}")
        }
        _ => format!("the TLS handshake failed: {error}"),
    }
}

fn about(uri: &Uri, message: impl fmt::Display) -> Unanswered {
    Unanswered(format!("{uri}: {message}"))
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
    fn requests_in_the_form_that_servers_want() {
        let mut request = Request::builder()
            .uri("https://ca.test:14000/dir?x=1")
            .body(BodyWrapper::default())
            .expect("a request");
        to_origin_form(&mut request).expect("it has an authority");
        assert_eq!(request.uri(), "/dir?x=1");
        assert_eq!(request.headers()[HOST], "ca.test:14000");
        assert_eq!(request.headers()[USER_AGENT], AGENT);
    }

    #[test]
    fn answers_that_are_not_of_acme() {
        let shared = touchstone_tls::TlsShared::new();
        let root = rcgen::generate_simple_self_signed(["ca.test".to_string()]).expect("a certificate");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, root.cert.pem()).expect("the file is written");
        let client = AuthorityClient::new(shared.provider().clone(), Some(file.path())).expect("a client");
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
