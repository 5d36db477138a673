//! A client for the few requests that the server itself makes outside the request path: to the authority that
//! issues its certificates, to issuers of tokens, and to collectors of telemetry.
//!
//! It uses one connection for each request, HTTP/1.1 or [gRPC](grpc), with limits on time and size.
//! Redirections are not followed. The cores do not use it: it runs on threads that may wait. [`blocking`]
//! reads answers for commands.

pub mod blocking;
mod connection;
pub mod grpc;
mod public_address;
mod roots;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Body;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use connection::Connection;

/// The time from the name lookup to the end of the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// The time from the end of the TLS handshake to the last byte of the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of a client.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'s> {
    /// The file of the authorities that are trusted; `None`: those of the system.
    pub ca_certificate: Option<&'s Path>,
    /// The key of the configuration that names this file, for messages.
    pub ca_key: &'static str,
    /// The value of `User-Agent`.
    pub user_agent: &'static str,
    /// The maximum size of an answer's body; a longer one is an error.
    pub most_answer_bytes: usize,
}

/// A client. Clones share its settings.
#[derive(Clone)]
pub struct HttpClient {
    tls: TlsConnector,
    /// The same for HTTP/2.
    tls_http2: TlsConnector,
    ca_key: &'static str,
    user_agent: HeaderValue,
    most_answer_bytes: usize,
    is_public_only: bool,
}

/// A request without an answer, with the address and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFailure(pub String);

impl fmt::Display for RequestFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for RequestFailure {}

impl RequestFailure {
    /// An error for this address.
    pub fn about(uri: &Uri, message: impl fmt::Display) -> RequestFailure {
        RequestFailure(format!("{uri}: {message}"))
    }
}

impl HttpClient {
    /// A client with these settings.
    pub fn new(settings: Settings<'_>) -> Result<HttpClient, String> {
        let roots = match settings.ca_certificate {
            Some(file) => roots::of_file(file)?,
            None => roots::of_system(settings.ca_key)?,
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut http2 = config.clone();
        http2.alpn_protocols = vec![b"h2".to_vec()];
        Ok(HttpClient {
            tls: TlsConnector::from(Arc::new(config)),
            tls_http2: TlsConnector::from(Arc::new(http2)),
            ca_key: settings.ca_key,
            user_agent: HeaderValue::from_static(settings.user_agent),
            most_answer_bytes: settings.most_answer_bytes,
            is_public_only: false,
        })
    }

    /// The same client, which connects to addresses of the public internet only, after the resolution of a
    /// name: for addresses from outside.
    #[must_use]
    pub fn for_public_addresses(self) -> HttpClient {
        HttpClient { is_public_only: true, ..self }
    }

    /// Checks whether an address may be requested: `https://`, or `http://` on this machine, where the answer
    /// cannot be changed in transit. The error describes the problem.
    pub fn check_url(url: &str) -> Result<(), String> {
        let uri: Uri = url.parse().map_err(|error| format!("is not an address: {error}"))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("https"), Some(_)) => Ok(()),
            (Some("http"), Some(host)) if is_this_machine(host) => Ok(()),
            (Some("http"), Some(_)) => {
                Err("must begin with https://; http:// is for addresses of this machine only".to_string())
            }
            _ => Err("must begin with https:// and name a host".to_string()),
        }
    }

    /// Fetches a document with GET; the status must be 200.
    pub async fn get(&self, url: &str) -> Result<Bytes, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{url}: is not an address: {error}"))?;
        let request = Request::get(uri)
            .header(ACCEPT, "application/json, */*;q=0.1")
            .body(Empty::<Bytes>::new())
            .map_err(|error| error.to_string())?;
        let response = self.send(request).await.map_err(|unanswered| unanswered.0)?;
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            status => Err(format!("answered {status}")),
        }
    }

    /// Sends a request, and reads the whole answer.
    pub async fn send<B>(&self, mut request: Request<B>) -> Result<Response<Bytes>, RequestFailure>
    where
        B: Body + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let uri = request.uri().clone();
        let about = |message: String| RequestFailure::about(&uri, message);
        let opening = Connection::open(&self.tls, &uri, self.ca_key, self.is_public_only);
        let stream = match timeout(CONNECT_TIMEOUT, opening).await {
            Ok(stream) => stream.map_err(about)?,
            Err(_) => return Err(about(format!("no connection in {CONNECT_TIMEOUT:?}"))),
        };
        to_origin_form(&mut request).map_err(about)?;
        request.headers_mut().insert(USER_AGENT, self.user_agent.clone());
        match timeout(ANSWER_TIMEOUT, exchange(stream, request, self.most_answer_bytes)).await {
            Ok(answer) => answer.map_err(|error| about(error.to_string())),
            Err(_) => Err(about(format!("no answer in {ANSWER_TIMEOUT:?}"))),
        }
    }
}

/// Whether a host is a loopback address, or the name for one.
fn is_this_machine(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
    bare == "localhost" || bare.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// Turns `POST https://a.org/x` into `POST /x` with a Host field, as a server requires (RFC 9112 section
/// 3.2.1).
fn to_origin_form<B>(request: &mut Request<B>) -> Result<(), String> {
    let uri = request.uri().clone();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let host = HeaderValue::from_str(authority).map_err(|error| error.to_string())?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    *request.uri_mut() = target.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    request.headers_mut().insert(HOST, host);
    Ok(())
}

async fn exchange<B>(
    stream: Connection,
    request: Request<B>,
    most_answer_bytes: usize,
) -> Result<Response<Bytes>, Box<dyn std::error::Error + Send + Sync>>
where
    B: Body + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let answer = async {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, most_answer_bytes).collect().await?.to_bytes();
        Ok(Response::from_parts(parts, body))
    };
    // The connection moves the bytes. It ends when the server closes it, which may be just after its answer.
    tokio::pin!(answer, connection);
    tokio::select! {
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_form_that_servers_require() {
        let mut request =
            Request::builder().uri("https://ca.test:14000/dir?x=1").body(()).expect("a request");
        to_origin_form(&mut request).expect("it has an authority");
        assert_eq!(request.uri(), "/dir?x=1");
        assert_eq!(request.headers()[HOST], "ca.test:14000");
    }

    #[test]
    fn plain_http_is_for_this_machine_only() {
        for url in ["https://a.org/keys", "http://127.0.0.1:9/keys", "http://[::1]/keys", "http://localhost/"]
        {
            assert_eq!(HttpClient::check_url(url), Ok(()), "{url}");
        }
        for url in ["http://a.org/keys", "http://127.0.0.1.a.org/", "ftp://a.org/", "/keys", "https://", ""] {
            assert!(HttpClient::check_url(url).is_err(), "{url}");
        }
    }
}
