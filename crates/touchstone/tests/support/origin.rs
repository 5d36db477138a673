//! Servers that requests are passed on to: one that sends exactly the bytes of a test, and a real nginx.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{Tree, free_port, skipped, wait_until};

/// An origin that sends exactly the bytes of a test: `serve` has each connection to itself, in a thread.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Origin {
    /// Each connection has a thread.
    pub(crate) fn start(serve: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a test origin works");
        let address = listener.local_addr().expect("a test origin works");
        let connections = Arc::new(AtomicUsize::new(0));
        let (counted, serve) = (connections.clone(), Arc::new(serve));
        thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                let (mut stream, serve) = (stream.expect("a test origin works"), serve.clone());
                thread::spawn(move || serve(&mut stream));
            }
        });
        Origin { address, connections }
    }

    /// An origin that answers each request on a kept connection with these bytes.
    pub(crate) fn answering(answer: &'static [u8]) -> Origin {
        Origin::start(move |stream| {
            while read_head(stream).is_some() {
                stream.write_all(answer).expect("a test origin works");
            }
        })
    }

    /// The number of accepted connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The route `/app/` to it, with more keys.
    pub(crate) fn keys(&self, more: &str) -> String {
        format!("[[site.route]]\npath = \"/app/\"\nproxy = {{ to = \"http://{}\"{more} }}\n", self.address)
    }
}

impl Origin {
    /// An origin that closes after these bytes.
    pub(crate) fn answering_once(answer: &'static [u8]) -> Origin {
        Origin::start(move |stream| {
            if read_head(stream).is_some() {
                stream.write_all(answer).expect("a test origin works");
            }
        })
    }
}

/// The head of the next request; `None` at the client's end.
pub(crate) fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    Some(String::from_utf8(head).expect("a test origin works"))
}

/// A real nginx in the foreground; it ends with the test.
pub(crate) struct Nginx {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Nginx {
    /// With these words behind the address of `listen`, and this inside of `server`; `None`, with a visible
    /// word, where it is not installed.
    pub(crate) fn start(tree: &Tree, listen: &str, server: &str) -> Option<Nginx> {
        Nginx::start_with(tree, "", listen, server)
    }

    /// The same with this inside of `http`.
    pub(crate) fn start_with(tree: &Tree, http: &str, listen: &str, server: &str) -> Option<Nginx> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let here = tree.around().display();
        let configuration = format!(
            "daemon off; worker_processes 1; pid {here}/nginx.pid; error_log {here}/nginx.log; user root;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; gzip on; gzip_types *; client_body_temp_path {here}/body; {http}\n\
             server {{ listen {address} {listen}; {server} }} }}\n"
        );
        let file = tree.around().join("nginx.conf");
        std::fs::write(&file, configuration).expect("a test origin works");
        let mut command = Command::new("nginx");
        command.arg("-c").arg(&file).arg("-e").arg(tree.around().join("nginx.log")).stderr(Stdio::null());
        let Ok(process) = command.spawn() else {
            skipped("checks with nginx (install nginx)");
            return None;
        };
        let nginx = Nginx { process, address };
        wait_until("nginx listens", Duration::from_secs(60), || TcpStream::connect(address).is_ok());
        Some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Not killed: its worker would continue without it.
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.process.wait();
    }
}
