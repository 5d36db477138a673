//! Where a program listens, and a connection to it.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::net::{TcpStream, UnixStream};

/// The longest path of a socket: `sun_path` of Linux, without the zero byte at its end.
const LONGEST_SOCKET_PATH: usize = 107;

/// How many pieces one write takes.
const PIECES_A_WRITE: usize = 16;

/// Received at once.
const RECEIVE_BYTES: usize = 32 * 1024;

/// Where a program listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

impl Address {
    /// Reads `unix:/run/app.sock`, `/run/app.sock` or `127.0.0.1:9000`. Relative paths are taken from `base`.
    pub fn parse(text: &str, base: &Path) -> Result<Address, String> {
        let path = match text.strip_prefix("unix:") {
            Some(path) => Some(path),
            None => text.contains('/').then_some(text),
        };
        if let Some(path) = path {
            let path = base.join(path);
            let length = path.as_os_str().len();
            return match path.to_string_lossy().contains('\0') || path.file_name().is_none() {
                true => Err(format!("{text:?} does not name a socket")),
                false if length > LONGEST_SOCKET_PATH => Err(format!(
                    "the path of a socket may have {LONGEST_SOCKET_PATH} bytes, and '{}' has {length}",
                    path.display()
                )),
                false => Ok(Address::Unix(path)),
            };
        }
        let numeric = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_string(),
        };
        match numeric.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => Ok(Address::Tcp(address)),
            _ => Err(format!(
                "{text:?} is no address of a program; write \"unix:/run/app.sock\" or \"127.0.0.1:9000\""
            )),
        }
    }

    /// Connects.
    pub async fn connect(&self) -> io::Result<Stream> {
        match self {
            Address::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(formatter, "unix:{}", path.display()),
            Address::Tcp(address) => write!(formatter, "{address}"),
        }
    }
}

/// A connection to a program.
#[derive(Debug)]
pub enum Stream {
    /// Over a unix socket.
    Unix(UnixStream),
    /// Over TCP.
    Tcp(TcpStream),
}

impl Stream {
    /// Receives what is there behind what was received; 0: the program has closed the connection.
    pub fn poll_receive(
        &self,
        context: &mut Context<'_>,
        received: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.try_receive(received) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
            ready!(match self {
                Stream::Unix(stream) => stream.poll_read_ready(context),
                Stream::Tcp(stream) => stream.poll_read_ready(context),
            })?;
        }
    }

    /// Sends what fits of the pieces, which are taken away as far as they were sent.
    pub fn poll_send(&self, context: &mut Context<'_>, pieces: &mut VecDeque<Bytes>) -> Poll<io::Result<()>> {
        while !pieces.is_empty() {
            match self.try_send(pieces) {
                Ok(sent) => take_sent(pieces, sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(match self {
                    Stream::Unix(stream) => stream.poll_write_ready(context),
                    Stream::Tcp(stream) => stream.poll_write_ready(context),
                })?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether nothing was received and the program has not closed an idle connection.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let received = match self {
            Stream::Unix(stream) => stream.try_read(&mut byte),
            Stream::Tcp(stream) => stream.try_read(&mut byte),
        };
        matches!(received, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn try_receive(&self, received: &mut BytesMut) -> io::Result<usize> {
        received.reserve(RECEIVE_BYTES);
        match self {
            Stream::Unix(stream) => stream.try_read_buf(received),
            Stream::Tcp(stream) => stream.try_read_buf(received),
        }
    }

    fn try_send(&self, pieces: &VecDeque<Bytes>) -> io::Result<usize> {
        let mut slices = [io::IoSlice::new(&[]); PIECES_A_WRITE];
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(pieces) {
            *slice = io::IoSlice::new(piece);
            count += 1;
        }
        match self {
            Stream::Unix(stream) => stream.try_write_vectored(&slices[..count]),
            Stream::Tcp(stream) => stream.try_write_vectored(&slices[..count]),
        }
    }
}

fn take_sent(pieces: &mut VecDeque<Bytes>, mut sent: usize) {
    while let Some(first) = pieces.front_mut() {
        if sent < first.len() {
            // Nothing more was sent than this.
            let _ = first.split_to(sent);
            return;
        }
        sent -= first.len();
        pieces.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parse =
            |text| Address::parse(text, Path::new("/etc/touchstone")).map(|address| address.to_string());
        for (text, expected) in [
            ("unix:/run/app.sock", "unix:/run/app.sock"),
            ("/run/app.sock", "unix:/run/app.sock"),
            ("unix:app.sock", "unix:/etc/touchstone/app.sock"),
            ("./app.sock", "unix:/etc/touchstone/./app.sock"),
            ("127.0.0.1:9000", "127.0.0.1:9000"),
            ("localhost:9000", "127.0.0.1:9000"),
            ("[::1]:9000", "[::1]:9000"),
        ] {
            assert_eq!(parse(text), Ok(expected.to_string()), "{text}");
        }
        for text in
            ["", "unix:", "/", "app", "app:9000", "127.0.0.1", "127.0.0.1:0", "localhost:", "localhost:99999"]
        {
            let refused = parse(text);
            // An empty path is that of the directory itself.
            assert!(refused.is_err() || text == "unix:", "{text}: {refused:?}");
        }
        assert!(parse(&format!("/{}", "a".repeat(107))).is_err());
    }

    #[test]
    fn what_was_sent_is_taken_away() {
        let mut pieces: VecDeque<Bytes> =
            [&b"abc"[..], b"", b"de"].into_iter().map(Bytes::from_static).collect();
        take_sent(&mut pieces, 1);
        assert_eq!(pieces.front().map(|piece| &piece[..]), Some(&b"bc"[..]));
        take_sent(&mut pieces, 2);
        assert_eq!(pieces.front().map(|piece| &piece[..]), Some(&b"de"[..]));
        take_sent(&mut pieces, 2);
        assert!(pieces.is_empty());
    }
}
