//! One POST over HTTP/1.1, with or without TLS; only the status of the answer is read.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use touchstone_http::response::{Parsed, ResponseHead, parse_response_head};
use touchstone_load::HttpUrl;

/// The longest wait for a connection, and for each part of an answer.
const WAIT: Duration = Duration::from_secs(5);
/// The longest head of an answer.
const MAXIMUM_HEAD_BYTES: usize = 64 * 1024;

/// Where figures are sent.
#[derive(Clone)]
pub struct Endpoint {
    address: SocketAddr,
    host: String,
    path: String,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    fields: Vec<String>,
}

/// Without the fields, which may hold credentials.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("host", &self.host).field("path", &self.path).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An endpoint by its URL; `usual_path` where that has none. `fields` are header fields, `name: value`.
    pub fn new(url: &str, usual_path: &str, fields: &[String]) -> Result<Endpoint, String> {
        let parsed = HttpUrl::parse(url).map_err(|error| error.to_string())?;
        let target = parsed.resolve().map_err(|error| error.to_string())?;
        let tls = if parsed.is_secure { Some(tls(&parsed.host)?) } else { None };
        let is_field = |field: &String| {
            let is_line = !field.bytes().any(|byte| byte.is_ascii_control());
            is_line && field.split_once(':').is_some_and(|(name, _)| !name.trim().is_empty())
        };
        if fields.iter().any(|field| !is_field(field)) {
            return Err("a header field is written as 'name: value'".to_string());
        }
        let path = if parsed.path == "/" { usual_path.to_string() } else { parsed.path };
        Ok(Endpoint { address: target.address, host: target.host, path, tls, fields: fields.to_vec() })
    }

    /// Sends a body; an error states why the receiver did not accept it.
    pub(crate) fn post(&self, fields: &[(&str, &str)], body: &[u8]) -> Result<(), String> {
        let status = self.exchange(fields, body).map_err(|error| error.to_string())?;
        if (200..300).contains(&status) { Ok(()) } else { Err(format!("it answered with status {status}")) }
    }

    fn exchange(&self, fields: &[(&str, &str)], body: &[u8]) -> io::Result<u16> {
        let stream = TcpStream::connect_timeout(&self.address, WAIT)?;
        stream.set_read_timeout(Some(WAIT))?;
        stream.set_write_timeout(Some(WAIT))?;
        let mut request = format!("POST {} HTTP/1.1\r\nHost: {}\r\n", self.path, self.host);
        for (name, value) in fields {
            request += &format!("{name}: {value}\r\n");
        }
        self.fields.iter().for_each(|field| request += &format!("{field}\r\n"));
        request += &format!(
            "User-Agent: touchstone-load/{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            env!("CARGO_PKG_VERSION"),
            body.len()
        );
        let bytes = [request.as_bytes(), body].concat();
        match &self.tls {
            None => status(stream, &bytes),
            Some((config, name)) => {
                let connection =
                    ClientConnection::new(config.clone(), name.clone()).map_err(io::Error::other)?;
                status(StreamOwned::new(connection, stream), &bytes)
            }
        }
    }
}

fn tls(host: &str) -> Result<(Arc<ClientConfig>, ServerName<'static>), String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    Ok((Arc::new(config), name))
}

fn status(mut stream: impl Read + Write, request: &[u8]) -> io::Result<u16> {
    stream.write_all(request)?;
    stream.flush()?;
    let invalid = |words: &str| io::Error::new(io::ErrorKind::InvalidData, words.to_string());
    let (mut received, mut head) = (Vec::new(), ResponseHead::new());
    let mut buffer = [0; 4096];
    loop {
        match parse_response_head(&received, &mut head) {
            // An interim answer (RFC 9110, section 15.2).
            Ok(Parsed::Complete(length)) if (100..200).contains(&head.status) => {
                received.drain(..length);
                continue;
            }
            Ok(Parsed::Complete(_)) => return Ok(head.status),
            Ok(Parsed::Partial) => {}
            Err(_) => return Err(invalid("its answer is not HTTP")),
        }
        if received.len() > MAXIMUM_HEAD_BYTES {
            return Err(invalid("the head of its answer is too long"));
        }
        match stream.read(&mut buffer)? {
            0 => return Err(invalid("it ended the connection without an answer")),
            count => received.extend_from_slice(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::TcpListener;

    fn answered(answer: &'static [u8]) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback interface is there");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut received = Vec::new();
            let mut buffer = [0; 1000];
            while !received.ends_with(b"\r\n\r\nbody") {
                received.extend_from_slice(&buffer[..0]);
                let count = stream.read(&mut buffer).expect("a request");
                received.extend_from_slice(&buffer[..count]);
            }
            let _ = stream.write_all(answer);
            String::from_utf8(received).expect("text")
        });
        let endpoint = Endpoint::new(&url, "/usual", &["X-A: 1".to_string()]).expect("a good endpoint");
        let sent = endpoint.post(&[("Content-Type", "text/plain")], b"body");
        let request = server.join().expect("the server ends");
        assert!(request.starts_with("POST /usual HTTP/1.1\r\nHost: 127.0.0.1:"), "{request}");
        assert!(
            request.contains("\r\nX-A: 1\r\n") && request.contains("\r\nContent-Length: 4\r\n"),
            "{request}"
        );
        sent
    }

    #[test]
    fn a_post_is_taken_or_said_why_not() {
        assert_eq!(answered(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"), Ok(()));
        assert!(answered(b"HTTP/1.1 400 Bad\r\n\r\n").expect_err("a bad status").contains("status 400"));
        assert!(answered(b"nonsense\r\n").expect_err("no HTTP").contains("not HTTP"));
        assert!(answered(b"").expect_err("no answer").contains("without an answer"));
        assert!(Endpoint::new("http://127.0.0.1:1/", "/", &["a\r\nb: c".to_string()]).is_err());
        assert!(Endpoint::new("ftp://127.0.0.1:1/", "/", &[]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_an_error(bytes: Vec<u8>) {
            let _ = status(io::Cursor::new(bytes), b"");
        }
    }
}
