//! One connection to a server: plain, or with TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::public_address::is_public;

/// A connection.
pub enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// Connects to the server of an address; `is_public_only` refuses servers that are not in the public
    /// internet. The error describes the failure.
    pub async fn open(
        tls: &TlsConnector,
        uri: &Uri,
        ca_key: &str,
        is_public_only: bool,
    ) -> Result<Connection, String> {
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("is neither http:// nor https://".to_string()),
        };
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let unreachable = |error: io::Error| format!("cannot be reached: {error}");
        let socket = match is_public_only {
            false => TcpStream::connect((host, port)).await.map_err(unreachable)?,
            true => {
                let found = tokio::net::lookup_host((host, port)).await.map_err(unreachable)?;
                // Those that were checked are connected to, so that a second answer of the name server
                // cannot be another.
                let addresses: Vec<_> = found.filter(|address| is_public(address.ip())).collect();
                if addresses.is_empty() {
                    return Err("its name has no address of the public internet".to_string());
                }
                TcpStream::connect(&addresses[..]).await.map_err(unreachable)?
            }
        };
        if !is_tls {
            return Ok(Connection::Plain(socket));
        }
        let name =
            ServerName::try_from(host.to_string()).map_err(|_| "it does not name a server".to_string())?;
        let stream = tls.connect(name, socket).await.map_err(|error| handshake_problem(&error, ca_key))?;
        Ok(Connection::Tls(Box::new(stream)))
    }
}

fn handshake_problem(error: &io::Error, ca_key: &str) -> String {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)) => {
            format!(
                "its certificate is from an authority that this system does not trust; for your own server \
                 set {ca_key} to the authority that signed it"
            )
        }
        Some(rustls::Error::InvalidCertificate(reason)) => {
            format!("its certificate is not accepted: {reason}")
        }
        _ => format!("the TLS handshake failed: {error}"),
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Connection::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Connection::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_flush(context),
            Connection::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Connection::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
