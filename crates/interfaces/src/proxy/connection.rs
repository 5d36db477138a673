//! One connection to an origin: a socket that can be written and read at the same time.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpStream, UnixStream};

use super::settings::Address;

/// A connection to an origin.
pub enum OriginConnection {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a unix socket.
    Unix(UnixStream),
}

impl OriginConnection {
    /// Connects; a host with several addresses is tried at each in turn.
    pub async fn connect(address: &Address) -> io::Result<OriginConnection> {
        match address {
            Address::Unix(path) => Ok(OriginConnection::Unix(UnixStream::connect(path).await?)),
            Address::Tcp(host, port) => {
                let stream = match host.parse() {
                    Ok(ip) => TcpStream::connect(SocketAddr::new(ip, *port)).await?,
                    Err(_) => TcpStream::connect((host.as_str(), *port)).await?,
                };
                stream.set_nodelay(true)?;
                Ok(OriginConnection::Tcp(stream))
            }
        }
    }

    /// Whether nothing has come on it: neither bytes that nobody asked for, nor the origin's end.
    pub fn is_quiet(&self) -> bool {
        let read = match self {
            OriginConnection::Tcp(stream) => stream.try_read(&mut [0; 1]),
            OriginConnection::Unix(stream) => stream.try_read(&mut [0; 1]),
        };
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Writes all of two buffers.
    pub async fn write(&self, mut first: &[u8], mut second: &[u8]) -> io::Result<()> {
        if first.is_empty() {
            std::mem::swap(&mut first, &mut second);
        }
        while !first.is_empty() {
            let parts = [io::IoSlice::new(first), io::IoSlice::new(second)];
            let written = match self {
                OriginConnection::Tcp(stream) => stream.try_write_vectored(&parts),
                OriginConnection::Unix(stream) => stream.try_write_vectored(&parts),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) if count < first.len() => first = &first[count..],
                Ok(count) => (first, second) = (&second[count - first.len()..], &[]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match self {
                    OriginConnection::Tcp(stream) => stream.writable().await?,
                    OriginConnection::Unix(stream) => stream.writable().await?,
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what is there, to the end of the buffer; waits until something is. 0 is the origin's end.
    pub async fn read(&self, buffer: &mut Vec<u8>, most_bytes: usize) -> io::Result<usize> {
        loop {
            buffer.reserve(most_bytes);
            let read = match self {
                OriginConnection::Tcp(stream) => stream.try_read_buf(buffer),
                OriginConnection::Unix(stream) => stream.try_read_buf(buffer),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match self {
                    OriginConnection::Tcp(stream) => stream.readable().await?,
                    OriginConnection::Unix(stream) => stream.readable().await?,
                },
                result => return result,
            }
        }
    }

    /// Says that nothing more will be written.
    pub fn shut_down_writing(&self) {
        let _ = match self {
            OriginConnection::Tcp(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Write),
            OriginConnection::Unix(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Write),
        };
    }
}
