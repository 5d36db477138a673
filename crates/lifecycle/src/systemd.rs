//! The protocols of systemd: readiness, reloads, the watchdog (sd_notify(3)), and sockets that systemd has
//! opened for this process (sd_listen_fds(3)).
//!
//! The protocol is a datagram of lines to a unix socket, with two or three environment variables, so it is
//! implemented here. Without systemd, nothing is sent and no sockets are found.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::AddressFamily;
use rustix::net::sockopt;

/// The variables that are read here. A process started by this one must not see them as its own.
pub const ACTIVATION_VARIABLES: [&str; 4] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID"];

/// The number of the first passed descriptor.
const FIRST_PASSED: i32 = 3;

/// The maximum number of sockets; more are a mistake.
const MOST_PASSED: i32 = 4096;

/// Sends notices to the service manager that started this process, if it expects them.
#[derive(Debug)]
pub struct Notifier {
    /// `None`: no manager listens.
    to: Option<(UnixDatagram, SocketAddr)>,
    silent: AtomicBool,
}

/// A notice to the manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice<'a> {
    /// All cores accept connections.
    Ready(&'a str),
    /// A new configuration is being applied; [`Notice::Ready`] follows, whatever the outcome.
    Reloading,
    /// The server is finishing its running requests.
    Stopping,
    /// Another process is the main process now.
    MainProcess(u32),
    /// Every core is alive.
    Watchdog,
    /// The text that `systemctl status` shows.
    Status(&'a str),
}

impl Notifier {
    /// A notifier for the socket in `NOTIFY_SOCKET`. The error is for a variable that cannot be used.
    pub fn from_environment() -> io::Result<Notifier> {
        Notifier::to(std::env::var_os("NOTIFY_SOCKET"))
    }

    /// A notifier for the socket with this name; without a name, it sends nothing.
    pub fn to(name: Option<OsString>) -> io::Result<Notifier> {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(Notifier::new(None)) };
        let socket = UnixDatagram::unbound()?;
        // The manager reads quickly. If it does not, the server must not wait for it.
        socket.set_nonblocking(true)?;
        Ok(Notifier::new(Some((socket, notify_address(&name)?))))
    }

    fn new(to: Option<(UnixDatagram, SocketAddr)>) -> Notifier {
        Notifier { to, silent: AtomicBool::new(false) }
    }

    /// Stops sending: another process is the main process now, and the manager accepts only its notices.
    pub fn stop_notifying(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    /// Sends a notice. Nothing depends on its delivery, so an error is only returned for the log.
    pub fn send(&self, notice: &Notice<'_>) -> io::Result<()> {
        match &self.to {
            Some(_) if self.silent.load(Ordering::Relaxed) => Ok(()),
            Some((socket, address)) => socket.send_to_addr(text_of(notice).as_bytes(), address).map(drop),
            None => Ok(()),
        }
    }

    /// Whether a manager listens.
    pub fn is_heard(&self) -> bool {
        self.to.is_some()
    }
}

/// The maximum time between two [`Notice::Watchdog`]s that the manager accepts; `None`: it needs none.
pub fn watchdog_interval() -> Option<Duration> {
    let variable = |name| std::env::var(name).ok();
    parse_watchdog(
        variable("WATCHDOG_USEC").as_deref(),
        variable("WATCHDOG_PID").as_deref(),
        std::process::id(),
    )
}

/// The listening sockets that were passed to this process. Must be called once, before any other code opens
/// files.
pub fn passed_sockets() -> Result<Vec<TcpListener>, String> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    // At a second call the descriptors would already have owners.
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let variable = |name| std::env::var(name).ok();
    let count = parse_passed(
        variable("LISTEN_FDS").as_deref(),
        variable("LISTEN_PID").as_deref(),
        std::process::id(),
    )?;
    (FIRST_PASSED..FIRST_PASSED + count)
        .map(|number| {
            let descriptor = crate::descriptor::take_descriptor(number)
                .map_err(|error| format!("descriptor {number} of LISTEN_FDS cannot be used: {error}"))?;
            as_listener(descriptor).map_err(|problem| format!("descriptor {number} of LISTEN_FDS {problem}"))
        })
        .collect()
}

/// Checks that the passed descriptor is a socket that listens for connections, of TCP or a unix socket.
fn as_listener(descriptor: OwnedFd) -> Result<TcpListener, String> {
    let kind = sockopt::socket_type(&descriptor).map_err(|_| "is not a socket".to_string())?;
    let domain = sockopt::socket_domain(&descriptor).map_err(|error| format!("cannot be used: {error}"))?;
    let known = [AddressFamily::INET, AddressFamily::INET6, AddressFamily::UNIX];
    if kind != rustix::net::SocketType::STREAM || !known.contains(&domain) {
        let message =
            "is neither a TCP socket nor a unix socket for connections; only ListenStream can be used";
        return Err(message.to_string());
    }
    match sockopt::socket_acceptconn(&descriptor) {
        Ok(true) => Ok(descriptor.into()),
        _ => Err("does not listen; Accept=yes in the socket unit cannot be used".to_string()),
    }
}

fn notify_address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(name),
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("NOTIFY_SOCKET={}: only unix sockets can be notified", name.display()),
        )),
    }
}

/// Writes one line for each fact. Line ends in a status are removed, because each would begin another fact.
fn text_of(notice: &Notice<'_>) -> String {
    let shown = |text: &str| text.replace(['\n', '\r'], " ");
    match notice {
        Notice::Ready(status) => format!("READY=1\nSTATUS={}\n", shown(status)),
        Notice::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={}\n", monotonic_us()),
        Notice::Stopping => "STOPPING=1\nSTATUS=Finishing active requests\n".to_string(),
        Notice::MainProcess(number) => format!("MAINPID={number}\n"),
        Notice::Watchdog => "WATCHDOG=1\n".to_string(),
        Notice::Status(status) => format!("STATUS={}\n", shown(status)),
    }
}

fn monotonic_us() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// The variables are for one process; its children may have inherited them.
fn parse_watchdog(interval_us: Option<&str>, process: Option<&str>, ours: u32) -> Option<Duration> {
    if process.is_some_and(|process| process.parse() != Ok(ours)) {
        return None;
    }
    let interval_us: u64 = interval_us?.parse().ok()?;
    (interval_us > 0).then(|| Duration::from_micros(interval_us))
}

fn parse_passed(count: Option<&str>, process: Option<&str>, ours: u32) -> Result<i32, String> {
    let (Some(count), Some(process)) = (count, process) else { return Ok(0) };
    if process.parse() != Ok(ours) {
        return Ok(0);
    }
    match count.parse::<i32>() {
        Ok(number) if (0..=MOST_PASSED).contains(&number) => Ok(number),
        _ => Err(format!("LISTEN_FDS={count:?} is not a number from 0 to {MOST_PASSED}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 4096];
        let count = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    }

    #[test]
    fn notices_arrive_at_a_path_and_at_an_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let abstract_name = format!("touchstone-test-{}", std::process::id());
        let at_path = (path.clone().into_os_string(), UnixDatagram::bind(&path).unwrap());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let at_name = (format!("@{abstract_name}").into(), UnixDatagram::bind_addr(&address).unwrap());
        for (name, socket) in [at_path, at_name] {
            let notifier = Notifier::to(Some(name)).unwrap();
            assert!(notifier.is_heard());
            notifier.send(&Notice::Ready("serving\nREADY=0")).unwrap();
            assert_eq!(received(&socket), "READY=1\nSTATUS=serving READY=0\n");
            notifier.send(&Notice::MainProcess(77)).unwrap();
            assert_eq!(received(&socket), "MAINPID=77\n");
            notifier.send(&Notice::Reloading).unwrap();
            let text = received(&socket);
            let time = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().trim_end();
            assert!(time.parse::<i64>().unwrap() <= monotonic_us());
            notifier.stop_notifying();
            notifier.send(&Notice::Watchdog).unwrap();
            socket.set_nonblocking(true).unwrap();
            assert_eq!(socket.recv(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn without_a_listener_nothing_is_sent() {
        for name in [None, Some(OsString::new())] {
            let notifier = Notifier::to(name).unwrap();
            assert!(!notifier.is_heard());
            notifier.send(&Notice::Watchdog).unwrap();
        }
        assert!(Notifier::to(Some("vsock:2:1234".into())).is_err());
        assert!(Notifier::to(Some("/nowhere/at/all".into())).unwrap().send(&Notice::Stopping).is_err());
    }

    #[test]
    fn variables_for_another_process_mean_nothing() {
        assert_eq!(parse_watchdog(Some("30000000"), Some("7"), 7), Some(Duration::from_secs(30)));
        assert_eq!(parse_watchdog(Some("30000000"), None, 7), Some(Duration::from_secs(30)));
        assert_eq!(parse_watchdog(Some("30000000"), Some("8"), 7), None);
        assert_eq!(parse_watchdog(Some("0"), None, 7), None);
        assert_eq!(parse_watchdog(None, None, 7), None);
        assert_eq!(parse_passed(Some("2"), Some("7"), 7), Ok(2));
        assert_eq!(parse_passed(Some("2"), Some("8"), 7), Ok(0));
        assert_eq!(parse_passed(Some("2"), None, 7), Ok(0));
        assert!(parse_passed(Some("-1"), Some("7"), 7).is_err());
        assert!(parse_passed(Some("many"), Some("7"), 7).is_err());
    }

    #[test]
    fn only_sockets_that_listen_for_connections_are_taken() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listening.local_addr().unwrap();
        let connected = std::net::TcpStream::connect(address).unwrap();
        assert_eq!(as_listener(listening.into()).unwrap().local_addr().unwrap(), address);
        assert!(as_listener(connected.into()).unwrap_err().contains("does not listen"));
        let directory = tempfile::tempdir().unwrap();
        let unix = std::os::unix::net::UnixListener::bind(directory.path().join("s")).unwrap();
        assert!(as_listener(unix.into()).is_ok());
        let datagram = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(as_listener(datagram.into()).unwrap_err().contains("neither a TCP socket"));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(as_listener(file.into()).unwrap_err().contains("not a socket"));
    }

    proptest! {
        #[test]
        fn any_variables_are_read_or_refused(count in ".{0,12}", process in ".{0,12}", ours: u32) {
            let _ = parse_watchdog(Some(&count), Some(&process), ours);
            if let Ok(number) = parse_passed(Some(&count), Some(&process), ours) {
                prop_assert!((0..=MOST_PASSED).contains(&number));
            }
        }
    }
}
