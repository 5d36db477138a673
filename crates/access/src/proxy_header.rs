//! Removes the header of the PROXY protocol from a socket, and no byte that follows: plain HTTP or a TLS
//! handshake can then begin as without the header.
//!
//! The bytes are peeked at in the kernel and read only when the header is complete. The header has usually
//! arrived when the connection is accepted, so that [`try_read`] suffices.

use std::io;
use std::os::fd::AsFd;

use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::proxy_protocol::{LONGEST_BYTES, ProxyHeader, ProxySource, parse};

/// Reads the header if all of it has arrived; `None` if more must arrive. An error means that the connection
/// must be closed: it has ended, or does not begin with a valid header ([`io::ErrorKind::InvalidData`]).
pub fn try_read(socket: impl AsFd) -> io::Result<Option<ProxySource>> {
    match peek(&socket)? {
        HeaderPeek::Complete { consumed, source } => read_bytes(&socket, consumed).map(|()| Some(source)),
        HeaderPeek::Part(_) => Ok(None),
    }
}

/// Waits for the header and reads it. The caller sets the time limit.
pub async fn read(stream: &TcpStream) -> io::Result<ProxySource> {
    let mut seen = 0;
    loop {
        let ready = stream.ready(Interest::READABLE).await?;
        let peeked = stream.try_io(Interest::READABLE, || match peek(stream)? {
            // Peeked bytes stay in the socket; only "would block" makes the event loop wait for new bytes.
            HeaderPeek::Part(length) if length <= seen => Err(io::ErrorKind::WouldBlock.into()),
            other => Ok(other),
        });
        match peeked {
            Ok(HeaderPeek::Complete { consumed, source }) => {
                return read_bytes(stream, consumed).map(|()| source);
            }
            Ok(HeaderPeek::Part(length)) => seen = length,
            // After the peer's end no bytes arrive, and the event loop would not wait.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && ready.is_read_closed() => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

enum HeaderPeek {
    Complete {
        consumed: usize,
        source: ProxySource,
    },
    /// The number of bytes that have arrived.
    Part(usize),
}

fn peek(socket: impl AsFd) -> io::Result<HeaderPeek> {
    let mut bytes = [0; LONGEST_BYTES];
    let length = match recv(&socket, &mut bytes[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Ok((length, _)) => length,
        Err(rustix::io::Errno::AGAIN) => 0,
        Err(errno) => return Err(errno.into()),
    };
    match parse(&bytes[..length]) {
        Ok(ProxyHeader::Complete { consumed, source }) => Ok(HeaderPeek::Complete { consumed, source }),
        Ok(ProxyHeader::Partial) => Ok(HeaderPeek::Part(length)),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

/// Reads bytes that have arrived already.
fn read_bytes(socket: impl AsFd, mut count: usize) -> io::Result<()> {
    let mut bytes = [0; LONGEST_BYTES];
    while count > 0 {
        match recv(&socket, &mut bytes[..count], RecvFlags::DONTWAIT)? {
            (0, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
            (taken, _) => count -= taken,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream as PlainStream};

    const HEADER: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.2 12345 443\r\n";

    /// The two ends of a connection.
    fn pair() -> (PlainStream, PlainStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = PlainStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn expected() -> ProxySource {
        ProxySource::Client {
            client: "192.0.2.1:12345".parse().unwrap(),
            server: "198.51.100.2:443".parse().unwrap(),
        }
    }

    /// Waits until this many bytes can be peeked at.
    fn wait_for(server: &PlainStream, count: usize) {
        let mut bytes = [0; 200];
        while server.peek(&mut bytes).unwrap() < count {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_header_and_nothing_more() {
        let (mut client, mut server) = pair();
        assert!(try_read(&server).unwrap().is_none());
        client.write_all(&[HEADER, b"GET /"].concat()).unwrap();
        wait_for(&server, HEADER.len() + 5);
        assert_eq!(try_read(&server).unwrap(), Some(expected()));
        drop(client);
        let mut rest = String::new();
        server.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "GET /");
    }

    #[test]
    fn what_is_none_is_left() {
        let (mut client, server) = pair();
        client.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        wait_for(&server, 16);
        assert_eq!(try_read(&server).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let (client, server) = pair();
        drop(client);
        wait_for(&server, 0);
        assert_eq!(try_read(&server).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_header_that_comes_byte_by_byte() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let (mut client, server) = pair();
        server.set_nonblocking(true).unwrap();
        let writer = std::thread::spawn(move || {
            for byte in [HEADER, b"rest"].concat() {
                client.write_all(&[byte]).unwrap();
                std::thread::yield_now();
            }
        });
        let server = runtime.block_on(async {
            let stream = TcpStream::from_std(server).unwrap();
            assert_eq!(read(&stream).await.unwrap(), expected());
            stream.into_std().unwrap()
        });
        writer.join().unwrap();
        server.set_nonblocking(false).unwrap();
        let mut rest = String::new();
        (&server).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "rest");
    }

    #[test]
    fn a_header_that_breaks_off() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let (mut client, server) = pair();
        server.set_nonblocking(true).unwrap();
        client.write_all(b"PROXY TCP4 x").unwrap();
        let writer = std::thread::spawn(move || client.write_all(b"\r\n").map(|()| client));
        let error = runtime.block_on(async {
            let stream = TcpStream::from_std(server).unwrap();
            read(&stream).await.unwrap_err()
        });
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        drop(writer.join().unwrap());
    }

    #[test]
    fn a_peer_that_ends_within_the_header() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let (mut client, server) = pair();
        server.set_nonblocking(true).unwrap();
        client.write_all(b"PROXY TCP4").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let error = runtime.block_on(async {
            let stream = TcpStream::from_std(server).unwrap();
            read(&stream).await.unwrap_err()
        });
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
