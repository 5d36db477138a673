//! What systemd requires of a service: sockets that it has opened, notifications, the watchdog. The test
//! takes the manager's part, and so does systemd-socket-activate if it is installed.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::support::{ALPHABET, Client, Server, Tree, error_lines, run, skipped, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Far longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(60);

const ASK: &str = "GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n";

/// A listening socket as systemd would make it.
fn manager_socket() -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("it is bound");
    (socket, address)
}

fn site_on(tree: &Tree, sections: &str, listen: &str) -> String {
    format!("{sections}\n[[site]]\nlisten = [{listen}]\nroot = {:?}\n", tree.root())
}

/// `touchstone serve`, given the socket as descriptor 3 in the way of sd_listen_fds(3).
fn activated(tree: &Tree, socket: &TcpListener) -> Command {
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=http exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_touchstone"), "serve", "--config"]);
    command.arg(tree.beside("touchstone.toml"));
    command.stdin(OwnedFd::from(socket.try_clone().expect("a second descriptor")));
    command
}

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

fn end(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it can be signalled");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn connections_wait_in_a_passed_socket_while_no_server_runs() {
    let tree = Tree::standard();
    let (socket, address) = manager_socket();
    // Fewer sockets than cores, and as many.
    for cores in [3, 1] {
        let text = site_on(&tree, &format!("[server]\ncores = {cores}\n"), &format!("\"{address}\""));
        fs::write(tree.beside("touchstone.toml"), text).expect("the configuration is written");
        for _ in 0..2 {
            let mut early: Vec<Client> = (0..9).map(|_| Client::connect(address)).collect();
            early.iter_mut().for_each(|client| client.send(ASK));
            let child = spawn(activated(&tree, &socket));
            for client in &mut early {
                assert_eq!(client.answer().body, ALPHABET.as_bytes());
            }
            drop(early);
            end(child);
            // The socket is as good as before: no filter of ours drops new connections.
            assert!(Client::try_connect(address).is_ok());
        }
    }
}

#[test]
fn a_socket_that_no_site_wants_is_named_and_may_be_wanted_later() {
    let tree = Tree::standard();
    let (socket, address) = manager_socket();
    let without = site_on(&tree, "", "\"127.0.0.1:0\"");
    fs::write(tree.beside("touchstone.toml"), &without).expect("the configuration is written");
    let server = Server::start_piped(activated(&tree, &socket));
    server.wait_for_error_line("names the socket", |line| {
        line.contains("warning") && line.contains(&address.to_string())
    });
    let reload = |text: &str| {
        fs::write(tree.beside("touchstone.toml"), text).expect("the configuration is written");
        let config = tree.beside("touchstone.toml");
        let output = run(["reload", "--config", config.to_str().expect("the path is text")]);
        assert!(output.status.success(), "{:?}", error_lines(&output));
    };
    for _ in 0..2 {
        let mut waiting = Client::connect(address);
        waiting.send(ASK);
        reload(&site_on(&tree, "", &format!("\"127.0.0.1:0\", \"{address}\"")));
        assert_eq!(waiting.answer().body, ALPHABET.as_bytes());
        drop(waiting);
        reload(&without);
    }
}

#[test]
fn descriptors_that_are_no_listening_sockets_are_refused() {
    let tree = Tree::standard();
    fs::write(tree.beside("touchstone.toml"), tree.configuration("")).expect("the configuration is written");
    let script = "exec 3</dev/null; LISTEN_PID=$$ LISTEN_FDS=$0 exec \"$@\"";
    for (count, word) in [("1", "is not a socket"), ("2", "descriptor 3"), ("many", "is not a number")] {
        let output = Command::new("sh")
            .args(["-c", script, count, env!("CARGO_BIN_EXE_touchstone"), "serve", "--config"])
            .arg(tree.beside("touchstone.toml"))
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{count}");
        assert!(error_lines(&output).join("\n").contains(word), "{count}: {:?}", error_lines(&output));
    }
}

#[test]
fn an_upgrade_hands_passed_sockets_on() {
    let tree = Tree::standard();
    let (socket, address) = manager_socket();
    let sections = "[server]\ncores = 2\npid_file = \"server.pid\"\n";
    fs::write(tree.beside("touchstone.toml"), site_on(&tree, sections, &format!("\"{address}\"")))
        .expect("the configuration is written");
    let mut server = Server::start_piped(activated(&tree, &socket));
    server.succeeded_by(tree.beside("server.pid"));
    let config = tree.beside("touchstone.toml");
    let config = config.to_str().expect("the path is text");
    let mut waiting = Client::connect(address);
    let output = run(["upgrade", "--config", config]);
    assert!(output.status.success(), "{:?}", error_lines(&output));
    assert_eq!(waiting.ask(ASK).body, ALPHABET.as_bytes());
    drop(waiting);
    assert_eq!(server.wait().code(), Some(0));
    let output = run(["stop", "--config", config]);
    assert!(output.status.success(), "{:?}", error_lines(&output));
    // Neither process has closed what is not its own.
    assert!(Client::try_connect(address).is_ok());
}

#[test]
fn systemd_socket_activate_starts_it() {
    const ACTIVATE: &str = "systemd-socket-activate";
    let has_it = Command::new(ACTIVATE).arg("--version").stdout(Stdio::null()).status();
    if !has_it.is_ok_and(|status| status.success()) {
        return skipped("a start by systemd-socket-activate (install systemd)");
    }
    let tree = Tree::standard();
    let address = SocketAddr::from(([127, 0, 0, 1], crate::support::free_port()));
    fs::write(tree.beside("touchstone.toml"), site_on(&tree, "", &format!("\"{address}\"")))
        .expect("the configuration is written");
    let mut command = Command::new(ACTIVATE);
    command.arg(format!("--listen={address}")).arg(env!("CARGO_BIN_EXE_touchstone"));
    command.args(["serve", "--config"]).arg(tree.beside("touchstone.toml"));
    let child = spawn(command);
    wait_until("the socket is there", PATIENCE, || Client::try_connect(address).is_ok());
    assert_eq!(Client::connect(address).ask(ASK).body, ALPHABET.as_bytes());
    end(child);
}

/// The datagrams that a manager gets.
struct Manager {
    path: std::path::PathBuf,
    received: Receiver<String>,
}

impl Manager {
    fn new(tree: &Tree) -> Manager {
        let path = tree.beside("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket for notifications");
        let (sender, received) = channel();
        // The thread ends with the test's process.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count) = socket.recv(&mut buffer) {
                if sender.send(String::from_utf8_lossy(&buffer[..count]).into_owned()).is_err() {
                    break;
                }
            }
        });
        Manager { path, received }
    }

    /// The next datagram that is not about the watchdog.
    fn next(&self) -> String {
        loop {
            let text = self.received.recv_timeout(PATIENCE).expect("a notification");
            if text != "WATCHDOG=1\n" {
                return text;
            }
        }
    }

    fn serve(&self, tree: &Tree, variables: &[(&str, &str)]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_touchstone"));
        command.args(["serve", "--config"]).arg(tree.beside("touchstone.toml"));
        command.env("NOTIFY_SOCKET", &self.path).envs(variables.iter().copied());
        Server::start_piped(command)
    }
}

#[test]
fn systemd_is_told_of_readiness_reloads_upgrades_and_the_end() {
    let tree = Tree::standard();
    let config = tree.beside("touchstone.toml");
    let good = tree.configuration("[server]\ncores = 2\npid_file = \"server.pid\"\n");
    fs::write(&config, &good).expect("the configuration is written");
    let manager = Manager::new(&tree);
    let mut server = manager.serve(&tree, &[]);
    server.succeeded_by(tree.beside("server.pid"));
    let serving = format!("READY=1\nSTATUS=2 cores serve {}", server.address());
    assert_eq!(manager.next(), format!("{serving}\n"));

    server.signal(Signal::HUP);
    assert!(manager.next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(manager.next(), format!("{serving}\n"));
    fs::write(&config, "[[site]\n").expect("the configuration is written");
    server.signal(Signal::HUP);
    assert!(manager.next().starts_with("RELOADING=1\n"));
    assert!(manager.next().starts_with(&format!("{serving}; the last reload was refused")));
    fs::write(&config, &good).expect("the configuration is written");

    server.signal(Signal::USR2);
    assert!(manager.next().starts_with("STATUS=Starting"));
    let main = manager.next();
    let main: i32 =
        main.trim().strip_prefix("MAINPID=").expect("the new process").parse().expect("its number");
    assert_eq!(manager.next(), format!("{serving}\n"), "the new process is ready");
    assert_eq!(server.wait().code(), Some(0), "the old process");
    let successor = Pid::from_raw(main).expect("a number");
    wait_until("the pid file names it", PATIENCE, || server.serving_pid() == Some(successor));

    kill_process(successor, Signal::TERM).expect("it can be signalled");
    assert!(manager.next().starts_with("STOPPING=1\n"), "said by the new process alone");
}

#[test]
fn the_watchdog_hears_of_living_cores() {
    let tree = Tree::standard();
    fs::write(tree.beside("touchstone.toml"), tree.configuration("")).expect("the configuration is written");
    let manager = Manager::new(&tree);
    let _server = manager.serve(&tree, &[("WATCHDOG_USEC", "800000")]);
    let mut heard = 0;
    while heard < 3 {
        let text = manager.received.recv_timeout(PATIENCE).expect("a notification");
        heard += usize::from(text == "WATCHDOG=1\n");
    }
    // Meant for another process: no message is sent.
    let tree = Tree::standard();
    fs::write(tree.beside("touchstone.toml"), tree.configuration("")).expect("the configuration is written");
    let manager = Manager::new(&tree);
    let mut server = manager.serve(&tree, &[("WATCHDOG_USEC", "20000"), ("WATCHDOG_PID", "1")]);
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    server.stop();
    let all: Vec<String> = manager.received.try_iter().collect();
    assert!(!all.contains(&"WATCHDOG=1\n".to_string()), "{all:?}");
}
