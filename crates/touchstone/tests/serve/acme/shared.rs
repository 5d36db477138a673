//! Two machines that share certificates, by a directory or a NATS bucket: one makes the order, and when it is
//! killed in the middle of it, the other one does.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::pebble::{Pebble, program};
use super::{PATIENCE, Scene, all_below, first_certificate};
use crate::support::{Server, free_port, skipped, wait_until};

/// How the machines share.
enum Sharing {
    Directory,
    Nats(NatsServer),
}

/// A NATS server with JetStream.
struct NatsServer {
    url: String,
    process: Child,
    _directory: TempDir,
}

impl NatsServer {
    fn start() -> Option<NatsServer> {
        let Some(program) = program("nats-server") else {
            skipped("certificates that are shared by NATS (install nats-server: make setup, with Go)");
            return None;
        };
        let (directory, port) = (TempDir::with_prefix("touchstone-nats-").expect("a directory"), free_port());
        let process = Command::new(program)
            .args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--jetstream", "--store_dir"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nats-server starts");
        let started = NatsServer { url: format!("nats://127.0.0.1:{port}"), process, _directory: directory };
        wait_until("NATS listens", PATIENCE, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(started)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("it can be waited for");
    }
}

impl Sharing {
    /// `[acme]` of one machine.
    fn acme(&self, scene: &Scene, pebble: &Pebble, machine: usize, more: &str) -> String {
        let sharing = match self {
            Sharing::Directory => "shared = true".to_string(),
            Sharing::Nats(nats) => format!("nats = {{ url = {:?} }}", nats.url),
        };
        let text = scene.acme(Some(pebble), &format!("{sharing}\nlease = \"6s\"\n{more}"));
        let own = self.storage(scene, machine);
        text.replace(&format!("{:?}", scene.storage()), &format!("{own:?}"))
    }

    /// The storage of one machine.
    fn storage(&self, scene: &Scene, machine: usize) -> PathBuf {
        match self {
            Sharing::Directory => scene.storage(),
            Sharing::Nats(_) => scene.tree.beside(&format!("acme-{machine}")),
        }
    }

    fn certificate_file(&self, scene: &Scene, machine: usize, host: &str) -> PathBuf {
        let file = scene.certificate_file(host);
        let name = file.strip_prefix(scene.storage()).expect("it is in the storage");
        self.storage(scene, machine).join(name)
    }
}

fn secure_site(scene: &Scene, port: u16, host: &str) -> String {
    let root = scene.tree.root();
    format!(
        "[[site]]\nhosts = [{host:?}]\nlisten = [\"127.0.0.1:{port}\"]\nroot = {root:?}\n\
         certificate = \"acme\"\n"
    )
}

/// Starts a server with a configuration file of its own.
fn start(scene: &Scene, machine: usize, text: &str) -> Server {
    let around = scene.tree.beside(&format!("machine-{machine}"));
    fs::create_dir_all(&around).expect("a directory for its configuration");
    Server::configured(&around, text)
}

/// A program that never finishes a proof, and records in a file that it was called.
fn endless_hook(scene: &Scene) -> (PathBuf, PathBuf) {
    let (hook, called) = (scene.tree.beside("hook.sh"), scene.tree.beside("called"));
    fs::write(
        &hook,
        format!("#!/bin/sh\necho $$ > {called:?}.new\nmv {called:?}.new {called:?}\nexec sleep 300\n"),
    )
    .expect("the program is written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o700)).expect("its mode");
    (hook, called)
}

fn is_whole(file: &Path) -> bool {
    first_certificate(file);
    fs::read_to_string(file).expect("the file").contains("PRIVATE KEY")
}

/// The first machine is killed in the middle of an order: for a first certificate, or for a renewal.
fn one_is_killed_in_its_order(sharing: &Sharing, is_renewal: bool) {
    let mut scene = Scene::new();
    scene.settings.reuses_proofs = false;
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let (hook, called) = endless_hook(&scene);
    let names = format!("127.0.0.1:{}", pebble.name_port());
    let stuck = format!(
        "challenges = [\"dns-01\"]\n\
         dns = {{ hook = [{hook:?}], hook_timeout = \"5m\", resolvers = [{names:?}], \
         check_servers = [{names:?}] }}"
    );
    let second_text = sharing.acme(&scene, &pebble, 2, "challenges = [\"tls-alpn-01\"]")
        + &secure_site(&scene, scene.settings.tls_port, "one.test");
    let other = sharing.certificate_file(&scene, 2, "one.test");
    let mut before = Vec::new();
    if is_renewal {
        let mut server = start(&scene, 2, &second_text);
        scene.wait_until_served("one.test", &pebble.root());
        server.stop();
        before.push(first_certificate(&other));
        pebble.want_renewal_now(&before[0]);
    }
    let first_text = sharing.acme(&scene, &pebble, 1, &stuck) + &secure_site(&scene, free_port(), "one.test");
    let mut first = start(&scene, 1, &first_text);
    let own = sharing.certificate_file(&scene, 1, "one.test");
    wait_until("the first machine is in its order", PATIENCE, || {
        // One order in a hundred uses an earlier proof, whatever Pebble is set to: then there is another.
        if is_renewal && own.exists() && !before.contains(&first_certificate(&own)) {
            before.push(first_certificate(&own));
            pebble.want_renewal_now(&before[before.len() - 1]);
            first.stop();
            first = start(&scene, 1, &first_text);
        }
        called.exists()
    });
    let second = start(&scene, 2, &second_text);
    // While the first one runs, the second one makes no order, for longer than a lease lasts.
    std::thread::sleep(Duration::from_secs(10));
    assert!(!second.error_text().contains("is requested from"), "{}", second.error_text());
    drop(first); // with SIGKILL
    let program = fs::read_to_string(&called).expect("its number").trim().parse().expect("a number");
    // It continues to run in its own group.
    let _ = kill_process(Pid::from_raw(program).expect("a number"), Signal::KILL);
    second.wait_for_error_line("takes its place", |line| {
        line.contains("has not finished its order for one.test: this machine takes its place")
    });
    wait_until("a new certificate", PATIENCE, || {
        other.exists() && !before.contains(&first_certificate(&other))
    });
    scene.wait_until_served("one.test", &pebble.root());

    // The first one is started again, and has the certificate without an order.
    let orders = pebble.orders();
    let again = start(&scene, 1, &first_text);
    let file = sharing.certificate_file(&scene, 1, "one.test");
    wait_until("the certificate is there", PATIENCE, || file.exists());
    wait_until("it is the same", PATIENCE, || first_certificate(&file) == first_certificate(&other));
    assert!(is_whole(&file));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(pebble.orders(), orders, "{}", again.error_text());
    wait_until("no lease and no unfinished file is left", PATIENCE, || {
        all_below(&sharing.storage(&scene, 2)).iter().all(|path| {
            let name = path.display().to_string();
            !name.ends_with(".new") && !name.contains("leases%2Fone.test")
        })
    });
}

/// The authority requests the proof of the first machine from the second one.
fn proofs_are_shown_by_all(sharing: &Sharing, challenge: &str) {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let challenges = format!("challenges = [{challenge:?}]");
    let second_text = sharing.acme(&scene, &pebble, 2, &challenges)
        + &secure_site(&scene, scene.settings.tls_port, "zero.test")
        + &scene.plain_site(&["zero.test"], "");
    let second = start(&scene, 2, &second_text);
    scene.wait_until_served("zero.test", &pebble.root());
    let (root, plain) = (scene.tree.root(), free_port());
    let first_text = sharing.acme(&scene, &pebble, 1, &challenges)
        + &secure_site(&scene, free_port(), "one.test")
        + &format!("[[site]]\nhosts = [\"one.test\"]\nlisten = [\"127.0.0.1:{plain}\"]\nroot = {root:?}\n");
    let first = start(&scene, 1, &first_text);
    first.wait_for_error_line("has a certificate", |line| line.contains("new certificate for one.test"));
    assert!(!second.error_text().contains("for one.test is requested"), "{}", second.error_text());
    // One account is enough.
    assert_eq!(pebble.log().matches("accounts in memory").count(), 1, "{}", pebble.log());
}

#[test]
fn a_machine_that_is_killed_is_replaced_by_directory() {
    one_is_killed_in_its_order(&Sharing::Directory, false);
}

#[test]
fn a_machine_that_is_killed_while_renewing_is_replaced_by_directory() {
    one_is_killed_in_its_order(&Sharing::Directory, true);
}

#[test]
fn a_machine_that_is_killed_is_replaced_by_nats() {
    let Some(nats) = NatsServer::start() else { return };
    one_is_killed_in_its_order(&Sharing::Nats(nats), false);
}

#[test]
fn a_machine_that_is_killed_while_renewing_is_replaced_by_nats() {
    let Some(nats) = NatsServer::start() else { return };
    one_is_killed_in_its_order(&Sharing::Nats(nats), true);
}

#[test]
fn proofs_are_shown_by_all_machines_by_directory() {
    for challenge in ["http-01", "tls-alpn-01"] {
        proofs_are_shown_by_all(&Sharing::Directory, challenge);
    }
}

#[test]
fn proofs_are_shown_by_all_machines_by_nats() {
    for challenge in ["http-01", "tls-alpn-01"] {
        let Some(nats) = NatsServer::start() else { return };
        proofs_are_shown_by_all(&Sharing::Nats(nats), challenge);
    }
}
