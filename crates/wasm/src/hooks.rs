//! Passes the outgoing requests of an instance to its core.

use http::uri::{Authority, Scheme};
use http::{HeaderName, Request, Response, Uri};
use tokio::sync::{mpsc, oneshot};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

/// The result of an outgoing request.
pub type OutgoingResult = Result<Response<WasiBody>, Error>;

/// An outgoing request for the core.
pub struct OutgoingRequest {
    /// The request.
    pub request: Request<WasiBody>,
    /// Its destination.
    pub to: Destination,
    /// Its time limits.
    pub options: RequestOptions,
    /// The sender of the answer.
    pub reply: oneshot::Sender<OutgoingResult>,
}

/// The destination of an outgoing request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// An origin: a position in [`Hooks::origins`].
    Origin(usize),
    /// The action that follows the component.
    Next,
}

/// The authority that stands for the action after the component.
const NEXT: &str = "next";

/// The hooks of an instance for wasi:http.
pub struct Hooks {
    /// An action follows the component.
    pub has_next: bool,
    /// The allowed origins, such as `https://api.example.com`.
    pub origins: std::sync::Arc<[String]>,
    /// The channel for requests to allowed destinations.
    pub outgoing_requests: Option<mpsc::UnboundedSender<OutgoingRequest>>,
}

type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// The most pieces of a body that an instance may write before the first one is read, so that a short answer
/// needs no switch between core and instance for each piece.
pub const WAITING_PIECES: usize = 4;

/// The most bytes of such a piece.
pub const PIECE_BYTES: usize = 64 << 10;

impl WasiHttpHooks for Hooks {
    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        is_forbidden(name)
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        WAITING_PIECES
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        PIECE_BYTES
    }

    fn p3_outgoing_body_chunk_size(&mut self) -> usize {
        PIECE_BYTES
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _response_read: Io,
    ) -> Box<dyn Future<Output = Result<(Response<WasiBody>, Io), Error>> + Send> {
        let to = self.destination(request.uri());
        let outgoing_requests = self.outgoing_requests.clone();
        Box::new(async move {
            let (Some(to), Some(outgoing_requests)) = (to, outgoing_requests) else {
                return Err(Error::HttpRequestDenied);
            };
            let (reply, answered) = oneshot::channel();
            let outgoing_request =
                OutgoingRequest { request, to, options: options.unwrap_or_default(), reply };
            outgoing_requests.send(outgoing_request).map_err(|_| Error::ConnectionTerminated)?;
            let response = answered.await.map_err(|_| Error::ConnectionTerminated)??;
            Ok((response, Box::new(async { Ok(()) }) as Io))
        })
    }
}

impl Hooks {
    /// The destination of a request; `None`: it is not allowed.
    fn destination(&self, uri: &Uri) -> Option<Destination> {
        if self.has_next && uri.authority().is_some_and(|authority| authority.as_str() == NEXT) {
            return Some(Destination::Next);
        }
        let requested = origin_of(uri)?;
        self.origins.iter().position(|origin| *origin == requested).map(Destination::Origin)
    }
}

/// Whether an instance must not set or read a field. The names are those of wasmtime's list, which is slower
/// to search.
fn is_forbidden(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "transfer-encoding"
            | "upgrade"
            | "host"
            | "http2-settings"
    )
}

/// The origin of a URI in the form of the configuration: in lower case, without the default port.
pub fn origin_of(uri: &Uri) -> Option<String> {
    let scheme = uri.scheme()?;
    let authority: &Authority = uri.authority()?;
    // User information is not sent, and could make one authority look like another.
    if authority.as_str().contains('@') || authority.host().is_empty() {
        return None;
    }
    let default_port = match scheme {
        scheme if *scheme == Scheme::HTTP => 80,
        scheme if *scheme == Scheme::HTTPS => 443,
        _ => return None,
    };
    let host = authority.host().to_ascii_lowercase();
    Some(match authority.port_u16() {
        Some(port) if port != default_port => format!("{scheme}://{host}:{port}"),
        None if authority.as_str().len() > host.len() && !authority.as_str().ends_with(':') => return None,
        _ => format!("{scheme}://{host}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forbidden_fields_are_those_of_wasmtime() {
        let all = wasmtime_wasi_http::DEFAULT_FORBIDDEN_HEADERS;
        assert_eq!(all.len(), 9);
        assert!(all.iter().all(is_forbidden));
        assert!(!is_forbidden(&HeaderName::from_static("content-length")));
    }

    #[test]
    fn origins_are_normalised() {
        for (uri, origin) in [
            ("https://API.example.com/a?b", Some("https://api.example.com")),
            ("https://api.example.com:443/", Some("https://api.example.com")),
            ("http://api.example.com:443/", Some("http://api.example.com:443")),
            ("http://[::1]:8080/", Some("http://[::1]:8080")),
            ("http://[::1]/", Some("http://[::1]")),
            ("https://api.example.com@evil.example/", None),
            ("https://evil@api.example.com/", None),
            ("ftp://api.example.com/", None),
            ("/path", None),
        ] {
            assert_eq!(origin_of(&uri.parse().unwrap()).as_deref(), origin, "{uri}");
        }
    }
}
