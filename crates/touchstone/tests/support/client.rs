//! A raw socket client: it sends the bytes it is given and reads exactly one answer at a time, by its
//! framing.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, ipproto, sockopt};

use super::response::{AnswerTo, Response, parse_one};
use super::shown;

/// Longer than any timeout that the tests give the server, and than anything takes on a busy machine: an
/// answer that takes this long will not arrive.
const PATIENCE: Duration = Duration::from_secs(180);

/// Why no answer could be read.
#[derive(Debug)]
pub(crate) enum Broken {
    /// No bytes arrived in the time that a read waits ([`PATIENCE`], unless set).
    Silent { received: Vec<u8> },
    /// The server closed the connection (FIN) before the answer was whole.
    Closed { received: Vec<u8> },
    /// The server reset the connection (RST) before the answer was whole, or instead of closing it.
    Reset { received: Vec<u8> },
    /// The received bytes are not an answer.
    Malformed { why: String, received: Vec<u8> },
    /// Bytes arrived instead of the end of the connection.
    MoreBytes { received: Vec<u8> },
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, received) = match self {
            Broken::Silent { received } => ("silence until the time ran out".to_owned(), received),
            Broken::Closed { received } => ("closed by the server".to_owned(), received),
            Broken::Reset { received } => ("reset by the server".to_owned(), received),
            Broken::Malformed { why, received } => (format!("malformed answer: {why}"), received),
            Broken::MoreBytes { received } => ("bytes after the end".to_owned(), received),
        };
        write!(formatter, "{what}; received {} bytes: \"{}\"", received.len(), shown(received))
    }
}

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    /// Connects, or ends the test.
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address).unwrap_or_else(|error| panic!("connect to {address}: {error}"))
    }

    /// Connects.
    pub(crate) fn try_connect(address: SocketAddr) -> io::Result<Client> {
        Client::from_stream(TcpStream::connect_timeout(&address, PATIENCE)?)
    }

    /// Connects with a small receive buffer, so that a large answer cannot hide in the kernel.
    pub(crate) fn connect_with_small_buffer(address: SocketAddr) -> Client {
        let open = || -> io::Result<TcpStream> {
            // The buffer must be set before the connection is made: it decides the window that is offered.
            let socket = rustix::net::socket_with(
                AddressFamily::INET,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                Some(ipproto::TCP),
            )?;
            sockopt::set_socket_recv_buffer_size(&socket, 16 * 1024)?;
            rustix::net::connect(&socket, &address)?;
            Ok(TcpStream::from(socket))
        };
        open().and_then(Client::from_stream).unwrap_or_else(|error| panic!("connect to {address}: {error}"))
    }

    /// Connects to a unix socket, or ends the test. The methods of the stream are the same.
    pub(crate) fn connect_unix(path: &Path) -> Client {
        let open = || Client::with_patience(TcpStream::from(OwnedFd::from(UnixStream::connect(path)?)));
        open().unwrap_or_else(|error| panic!("connect to {}: {error}", path.display()))
    }

    /// On a connection that is open already.
    pub(crate) fn from_stream(stream: TcpStream) -> io::Result<Client> {
        stream.set_nodelay(true)?;
        Client::with_patience(stream)
    }

    fn with_patience(stream: TcpStream) -> io::Result<Client> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { stream, received: Vec::new() })
    }

    /// Sends bytes; fails when the server has closed or reset the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends bytes, or ends the test.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.try_send(bytes).unwrap_or_else(|error| panic!("send \"{}\": {error}", shown(bytes)));
    }

    /// Sends no more; the answers can still be read.
    pub(crate) fn send_end(&self) {
        self.stream.shutdown(Shutdown::Write).expect("the write side shuts down");
    }

    /// Reads exactly one answer, interim ones included.
    pub(crate) fn try_answer(&mut self, to: AnswerTo) -> Result<Response, Broken> {
        loop {
            if let Some(answer) = self.parse_received(to, false) {
                return answer;
            }
            match self.read_more() {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Err(self.broken(&error)),
            }
        }
        let at_end = self.parse_received(to, true);
        at_end.unwrap_or_else(|| Err(Broken::Closed { received: self.take_received() }))
    }

    /// Reads exactly one answer to a request other than HEAD, or ends the test.
    pub(crate) fn answer(&mut self) -> Response {
        self.try_answer(AnswerTo::Other).unwrap_or_else(|broken| panic!("no answer: {broken}"))
    }

    /// Sends a request and reads its answer, or ends the test.
    pub(crate) fn ask(&mut self, request: impl AsRef<[u8]>) -> Response {
        self.send(request);
        self.answer()
    }

    /// Reads the end of the connection: an orderly one, without bytes before it.
    pub(crate) fn try_end(&mut self) -> Result<(), Broken> {
        if self.received.is_empty() {
            match self.read_more() {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(self.broken(&error)),
            }
        }
        Err(Broken::MoreBytes { received: self.take_received() })
    }

    /// Reads the end of the connection, or ends the test.
    pub(crate) fn end(&mut self) {
        self.try_end().unwrap_or_else(|broken| panic!("no orderly end: {broken}"));
    }

    /// Reads until the connection ends in any way; returns whether it ended in an orderly one.
    pub(crate) fn read_to_end(&mut self) -> (Vec<u8>, Result<(), Broken>) {
        loop {
            match self.read_more() {
                Ok(0) => return (self.take_received(), Ok(())),
                Ok(_) => {}
                Err(error) => {
                    let received = self.received.clone();
                    return (received, Err(self.broken(&error)));
                }
            }
        }
    }

    /// Reads at least `count` bytes and leaves them for [`Client::try_answer`].
    pub(crate) fn wait_for_bytes(&mut self, count: usize) {
        while self.received.len() < count {
            match self.read_more() {
                Ok(0) => panic!("the connection ended after {} bytes", self.received.len()),
                Ok(_) => {}
                Err(error) => panic!("{}", self.broken(&error)),
            }
        }
    }

    /// Reads until these bytes have arrived, and leaves all for [`Client::try_answer`].
    pub(crate) fn wait_for(&mut self, wanted: &[u8]) {
        while !self.received.windows(wanted.len()).any(|piece| piece == wanted) {
            self.wait_for_bytes(self.received.len() + 1);
        }
    }

    /// Whether the server has closed the connection, as far as can be seen without waiting.
    pub(crate) fn is_ended(&self) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.stream, &mut byte, flags) {
            Ok((count, _)) => count == 0,
            Err(error) => error != rustix::io::Errno::AGAIN,
        }
    }

    /// How long a read waits before it counts as silence.
    pub(crate) fn set_patience(&self, patience: Duration) {
        self.stream.set_read_timeout(Some(patience)).expect("a read timeout");
    }

    /// Closes at once with a reset, like a client that was killed or disconnected.
    pub(crate) fn vanish(self) {
        sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).expect("linger is set");
    }

    /// The stream, for a test that needs more than the above.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn read_more(&mut self) -> io::Result<usize> {
        let mut piece = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(count) => {
                    self.received.extend_from_slice(&piece[..count]);
                    return Ok(count);
                }
            }
        }
    }

    /// The answer at the start of what was received, if it is whole.
    fn parse_received(&mut self, to: AnswerTo, closed: bool) -> Option<Result<Response, Broken>> {
        match parse_one(&self.received, to, closed) {
            Ok(Some((response, length))) => {
                self.received.drain(..length);
                Some(Ok(response))
            }
            Ok(None) => None,
            Err(why) => Some(Err(Broken::Malformed { why, received: self.take_received() })),
        }
    }

    fn broken(&mut self, error: &io::Error) -> Broken {
        let received = self.take_received();
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Broken::Silent { received },
            _ => Broken::Reset { received },
        }
    }

    fn take_received(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
