//! Streams: connections and datagrams that are passed on unchanged, with origins that answer as a test
//! requires, and with real servers and clients.

mod datagrams;
mod limits;
mod real_servers;
mod relay;
mod reload_and_upgrade;
mod routing;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::{Origin, Server, Tree, free_port, skipped, wait_until};

/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with one stream, and a site beside it.
struct Rig {
    tree: Tree,
    server: Server,
    /// The address of the stream.
    address: SocketAddr,
}

impl Rig {
    /// With these keys of the stream, and sections inside of it, behind its name, address and log.
    fn start(keys: &str) -> Rig {
        let tree = Tree::empty();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let text = Rig::text(&tree, address, keys);
        let server = Server::configured(tree.around(), &text);
        server.wait_for_error_line("says that the stream listens", |line| line.contains("for stream test"));
        Rig { tree, server, address }
    }

    /// The configuration.
    fn text(tree: &Tree, address: SocketAddr, keys: &str) -> String {
        let site = tree.configuration("[server]\ncores = 2\n");
        format!(
            "{site}\n[[stream]]\nname = \"test\"\nlisten = [\"{address}\"]\naccess_log = \"stream.log\"\n\
             {keys}\n"
        )
    }

    fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    /// The lines of the stream's log, once there are so many.
    fn log(&self, lines: usize) -> Vec<String> {
        let read = || fs::read_to_string(self.tree.beside("stream.log")).unwrap_or_default();
        wait_until("the lines of the log", PATIENCE, || read().lines().count() >= lines);
        read().lines().map(str::to_string).collect()
    }

    /// The last words of these lines: how connections have ended.
    fn ends(&self, lines: usize) -> Vec<String> {
        let last = |line: String| line.rsplit(' ').next().unwrap_or_default().to_string();
        self.log(lines).into_iter().map(last).collect()
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the stream accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

/// Sends all of it, ends sending, and returns the received bytes: none from a server that has closed the
/// connection before.
fn exchange(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    if stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write)).is_err() {
        return Vec::new();
    }
    rest_of(&mut stream)
}

/// Everything until the other side ends; an end by a reset counts as one.
fn rest_of(stream: &mut TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    received
}

/// An origin that sends its name first, then the received bytes, after the client's end.
fn origin_named(name: &'static str) -> Origin {
    Origin::start(move |stream| {
        let _ = stream.write_all(name.as_bytes());
        let _ = stream.write_all(b":");
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received);
        let _ = stream.write_all(&received);
    })
}

/// An origin that returns the received bytes immediately.
fn echo() -> Origin {
    Origin::start(|stream| {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count) = stream.read(&mut buffer) {
            if count == 0 || stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    })
}

/// A ClientHello for this name, with these application protocols.
pub(super) fn client_hello(name: Option<&[u8]>, protocols: &[&str]) -> Vec<u8> {
    let length = |count: usize| u16::try_from(count).expect("it is short").to_be_bytes();
    let mut extensions = Vec::new();
    let mut extension = |kind: u16, content: &[u8]| {
        extensions.extend_from_slice(&kind.to_be_bytes());
        extensions.extend_from_slice(&length(content.len()));
        extensions.extend_from_slice(content);
    };
    if let Some(name) = name {
        extension(0, &[&length(name.len() + 3)[..], &[0], &length(name.len()), name].concat());
    }
    if !protocols.is_empty() {
        let list: Vec<u8> =
            protocols.iter().flat_map(|name| [&[name.len() as u8], name.as_bytes()].concat()).collect();
        extension(16, &[&length(list.len())[..], &list].concat());
    }
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend_from_slice(&length(extensions.len()));
    body.extend_from_slice(&extensions);
    let message = [&[1, 0][..], &length(body.len()), &body].concat();
    [&[22, 3, 1][..], &length(message.len()), &message].concat()
}

/// A certificate for these names with its key; `None`, with a visible word, where openssl is missing.
fn certificate(directory: &Path, names: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let (certificate, key) = (directory.join("stream.pem"), directory.join("stream.key"));
    let names: Vec<String> = names.iter().map(|name| format!("DNS:{name}")).collect();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "30", "-subj", "/CN=stream.test"])
        .args(["-addext", &format!("subjectAltName={}", names.join(","))])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output();
    match made {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some((certificate, key))
        }
        Err(_) => {
            skipped("streams whose TLS ends here (install openssl)");
            None
        }
    }
}
