//! Syslog: messages of RFC 5424 by datagrams to a unix socket, by UDP (RFC 5426) and by TCP with counted
//! octets (RFC 6587 section 3.4.1).

use std::io::{self, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use super::message_socket::{FIELD, LineLoss, SEND_TIMEOUT, connect, is_full, send_each};
use super::settings::{LogIdentity, SyslogServer};
use crate::log_line::LogClock;

/// The longest message by datagrams; a longer one is cut. Receivers need not accept more than 2,048 (RFC 5425
/// section 4.3.1), and most accept this much.
const LONGEST_DATAGRAM: usize = 8_192;

/// The time limit of a connection's start.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);

/// How long after a failure the next connection is tried.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// A syslog server.
pub(super) struct Syslog {
    server: SyslogServer,
    socket: Option<Socket>,
    failed: Option<Instant>,
    facility: u8,
    /// The text between the time and the message.
    sender: String,
}

enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Syslog {
    /// Opens the connection to a server. If TCP fails, it is tried again with the messages.
    pub(super) fn open(server: &SyslogServer, identity: &LogIdentity) -> io::Result<Syslog> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let sender = sender_text(&host, &identity.tag, std::process::id());
        let (facility, server) = (identity.facility, server.clone());
        let mut syslog = Syslog { server, socket: None, failed: None, facility, sender };
        match (syslog.connect(), &syslog.server) {
            (Ok(socket), _) => syslog.socket = Some(socket),
            (Err(_), SyslogServer::Tcp(address)) if address.to_socket_addrs().is_ok() => {}
            (Err(error), _) => return Err(error),
        }
        Ok(syslog)
    }

    /// Sends each line as a message.
    pub(super) fn send<'l>(
        &mut self,
        severity: u8,
        lines: impl Iterator<Item = &'l [u8]> + Clone,
    ) -> Result<(), LineLoss> {
        let clock = LogClock::now();
        let head = head(self.facility, severity, &clock, &self.sender);
        let messages = lines.clone().map(|line| message(&head, line));
        let sent = match self.server {
            SyslogServer::Tcp(_) => self.send_counted(&counted(messages)),
            _ => return self.send_datagrams(messages),
        };
        sent.map_err(|error| (lines.count() as u64, error))
    }

    fn send_datagrams(&mut self, messages: impl Iterator<Item = Vec<u8>>) -> Result<(), LineLoss> {
        send_each(messages, |mut message| {
            cut(&mut message, LONGEST_DATAGRAM);
            self.send_datagram(&message)
        })
    }

    fn send_datagram(&mut self, message: &[u8]) -> io::Result<()> {
        let sent = self.socket()?.send(message);
        match sent {
            Ok(()) => Ok(()),
            // The receiver was started again: its old socket does not exist any more.
            Err(error) if matches!(self.server, SyslogServer::Unix(_)) && !is_full(&error) => {
                self.socket = None;
                self.socket()?.send(message).inspect_err(|_| self.has_failed())
            }
            Err(error) => Err(error),
        }
    }

    fn send_counted(&mut self, messages: &[u8]) -> io::Result<()> {
        let is_kept = self.socket.is_some();
        let sent = self.socket()?.send(messages);
        match sent {
            Err(error) if is_kept && error.kind() != io::ErrorKind::WouldBlock => {
                // The server may have closed a connection that was idle.
                self.socket = None;
                self.socket()?.send(messages).inspect_err(|_| self.has_failed())
            }
            other => other.inspect_err(|_| self.has_failed()),
        }
    }

    fn has_failed(&mut self) {
        self.socket = None;
        self.failed = Some(Instant::now());
    }

    /// The socket; opened again if that has not just failed.
    fn socket(&mut self) -> io::Result<&mut Socket> {
        if self.socket.is_none() {
            if self.failed.is_some_and(|failed| failed.elapsed() < RETRY_AFTER) {
                return Err(io::Error::new(
                    io::ErrorKind::NotConnected,
                    "the syslog server cannot be reached",
                ));
            }
            match self.connect() {
                Ok(socket) => self.socket = Some(socket),
                Err(error) => {
                    self.has_failed();
                    return Err(error);
                }
            }
        }
        self.socket.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn connect(&self) -> io::Result<Socket> {
        match &self.server {
            SyslogServer::Unix(path) => connect(path).map(Socket::Unix),
            SyslogServer::Udp(address) => {
                let address = address.to_socket_addrs()?.next().ok_or_else(no_address)?;
                let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_write_timeout(Some(SEND_TIMEOUT))?;
                Ok(Socket::Udp(socket))
            }
            SyslogServer::Tcp(address) => {
                let address = address.to_socket_addrs()?.next().ok_or_else(no_address)?;
                let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
                stream.set_write_timeout(Some(SEND_TIMEOUT))?;
                Ok(Socket::Tcp(stream))
            }
        }
    }
}

impl Socket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Unix(socket) => socket.send(bytes).map(|_| ()),
            // The error of a port without a listener is returned by the next send, whose own message is not
            // lost.
            Socket::Udp(socket) => match socket.send(bytes) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    socket.send(bytes).map(|_| ())
                }
                other => other.map(|_| ()),
            },
            Socket::Tcp(stream) => stream.write_all(bytes),
        }
    }
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the host has no address")
}

/// `HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA`, with a hyphen for unknown values.
fn sender_text(host: &str, tag: &str, process: u32) -> String {
    let word = |text: &str, most: usize| -> String {
        let good: String = text.chars().filter(char::is_ascii_graphic).take(most).collect();
        if good.is_empty() { "-".to_string() } else { good }
    };
    format!("{} {} {process} - -", word(host, 255), word(tag, 48))
}

/// The head of a message, up to the space before its text.
fn head(facility: u8, severity: u8, clock: &LogClock, sender: &str) -> Vec<u8> {
    let priority = u32::from(facility) * 8 + u32::from(severity);
    let time = String::from_utf8_lossy(clock.rfc3339());
    format!("<{priority}>1 {time} {sender} ").into_bytes()
}

fn message(head: &[u8], line: &[u8]) -> Vec<u8> {
    let text = line.split(|byte| *byte == FIELD).next().unwrap_or_default();
    [head, text].concat()
}

/// Each message after its length.
fn counted(messages: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut all = Vec::new();
    for message in messages {
        all.extend_from_slice(message.len().to_string().as_bytes());
        all.push(b' ');
        all.extend_from_slice(&message);
    }
    all
}

/// Cuts a message to this many bytes, not within a character.
fn cut(message: &mut Vec<u8>, most: usize) {
    if message.len() > most {
        let is_within = |byte: u8| byte & 0xC0 == 0x80;
        let end = (0..=most).rev().find(|end| !is_within(message[*end])).unwrap_or(most);
        message.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpListener;

    fn identity() -> LogIdentity {
        LogIdentity { facility: 23, tag: "web shop".to_string() }
    }

    /// The message without its time, host and process, which are checked.
    fn parts(message: &[u8]) -> (String, String, String) {
        let text = String::from_utf8(message.to_vec()).unwrap();
        let words: Vec<&str> = text.splitn(8, ' ').collect();
        assert!(words[1].ends_with('Z') && words[1].len() == 24, "{text}");
        assert_eq!(words[4], std::process::id().to_string());
        assert_eq!((words[5], words[6]), ("-", "-"));
        (words[0].to_string(), words[3].to_string(), words[7].to_string())
    }

    #[test]
    fn datagrams() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut receiver = UnixDatagram::bind(&path).unwrap();
        let mut syslog = Syslog::open(&SyslogServer::Unix(path.clone()), &identity()).unwrap();
        let lines: [&[u8]; 2] = [b"one", b"two\x1fFIELD=x"];
        syslog.send(6, lines.into_iter()).unwrap();
        let mut buffer = [0; 10_000];
        for expected in ["one", "two"] {
            let length = receiver.recv(&mut buffer).unwrap();
            let (priority, tag, text) = parts(&buffer[..length]);
            assert_eq!((&*priority, &*tag, &*text), ("<190>1", "webshop", expected));
        }
        // The receiver is started again.
        drop(receiver);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(syslog.send(6, [&b"lost"[..]].into_iter()).unwrap_err().0, 1);
        receiver = UnixDatagram::bind(&path).unwrap();
        syslog.failed = None;
        let long = vec![b'x'; 20_000];
        syslog.send(3, [&long[..]].into_iter()).unwrap();
        assert_eq!(receiver.recv(&mut buffer).unwrap(), LONGEST_DATAGRAM);
        assert!(buffer.starts_with(b"<187>1 "));
    }

    #[test]
    fn udp() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = receiver.local_addr().unwrap().to_string();
        let mut syslog = Syslog::open(&SyslogServer::Udp(address), &identity()).unwrap();
        syslog.send(4, [&b"one"[..]].into_iter()).unwrap();
        let mut buffer = [0; 2_048];
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(parts(&buffer[..length]).2, "one");
    }

    #[test]
    fn tcp_counts_octets_and_connects_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut syslog = Syslog::open(&SyslogServer::Tcp(address.clone()), &identity()).unwrap();
        let receive = |listener: &TcpListener| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut length = Vec::new();
            let mut byte = [0];
            while byte != *b" " {
                stream.read_exact(&mut byte).unwrap();
                length.extend(byte);
            }
            let length: usize = String::from_utf8(length).unwrap().trim().parse().unwrap();
            let mut message = vec![0; length];
            stream.read_exact(&mut message).unwrap();
            parts(&message).2
        };
        syslog.send(6, [&b"one"[..]].into_iter()).unwrap();
        assert_eq!(receive(&listener), "one");
        // The loss of data in a closed connection is noticed with the second message at the latest.
        let mut received = false;
        for _ in 0..3000 {
            let _ = syslog.send(6, [&b"two"[..]].into_iter());
            listener.set_nonblocking(true).unwrap();
            if let Ok((stream, _)) = listener.accept() {
                drop(stream);
                received = true;
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(received, "it connects again");
    }

    #[test]
    fn a_server_that_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let missing = SyslogServer::Unix(directory.path().join("log"));
        assert!(Syslog::open(&missing, &identity()).is_err());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let mut syslog = Syslog::open(&SyslogServer::Tcp(address), &identity()).unwrap();
        assert_eq!(syslog.send(6, [&b"a"[..], b"b"].into_iter()).unwrap_err().0, 2);
    }

    #[test]
    fn texts() {
        assert_eq!(sender_text("", " ", 7), "- - 7 - -");
        assert_eq!(counted([b"abc".to_vec(), b"0123456789".to_vec()].into_iter()), b"3 abc10 0123456789");
        let mut text = "aé".as_bytes().to_vec();
        cut(&mut text, 2);
        assert_eq!(text, b"a");
        cut(&mut text, 5);
        assert_eq!(text, b"a");
    }
}
