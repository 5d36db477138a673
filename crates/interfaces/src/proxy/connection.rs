//! How a connection to an origin comes about.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpStream, UnixStream};

use super::settings::Address;
use crate::stream::Stream;

/// Connects; a host with several addresses is tried at each in turn.
pub async fn connect(address: &Address) -> io::Result<Stream> {
    match address {
        Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        Address::Tcp(host, port) => {
            let stream = match host.parse() {
                Ok(ip) => TcpStream::connect(SocketAddr::new(ip, *port)).await?,
                Err(_) => TcpStream::connect((host.as_str(), *port)).await?,
            };
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        }
    }
}
