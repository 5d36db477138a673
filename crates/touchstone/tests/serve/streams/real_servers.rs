//! PostgreSQL, a mail server and DNS behind streams, with their own clients.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use super::{PATIENCE, Rig, certificate};
use crate::support::{curl, free_port, skipped, wait_until};

/// A program that runs in the foreground, and ends with the test.
struct Program(Child);

impl Program {
    /// Starts it and waits until it listens on this TCP port.
    fn start(command: &mut Command, port: u16) -> Program {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = Program(child.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_until(&format!("{command:?} listens"), PATIENCE, || TcpStream::connect(address).is_ok());
        program
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A process that ends after a signal also ends its own processes.
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The user as whom PostgreSQL runs where the tests run as root, which it refuses.
const UNPRIVILEGED: u32 = 65_534;

/// The directory of PostgreSQL's programs, of the newest version that is installed.
fn postgresql_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|bin| bin.join("initdb").exists())
        .collect();
    found.sort();
    found.pop()
}

/// PostgreSQL with TLS, and a table; `None`, with a visible word, where it is not installed.
fn postgresql(place: &Path, port: u16) -> Option<Program> {
    let Some(programs) = postgresql_programs() else {
        skipped("PostgreSQL behind a stream (install postgresql)");
        return None;
    };
    let (chain, key) = certificate(place, &["db.test"])?;
    let data = place.join("data");
    let as_its_user = |program: &str| {
        let mut command = Command::new(programs.join(program));
        if is_root() {
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        command.current_dir(place).env("LC_ALL", "C");
        command
    };
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the mode is changed");
    };
    mode(place, 0o777);
    mode(&key, 0o600);
    if is_root() {
        std::os::unix::fs::chown(&key, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).expect("the owner is changed");
    }
    let made = as_its_user("initdb")
        .args(["--no-sync", "--auth=trust", "--username=tester", "--pgdata"])
        .arg(&data)
        .output()
        .expect("initdb runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let setting = |name: &str, value: &str| format!("--{name}={value}");
    let mut server = as_its_user("postgres");
    server.arg("-D").arg(&data).args([
        setting("listen_addresses", "127.0.0.1"),
        setting("port", &port.to_string()),
        setting("unix_socket_directories", place.to_str().expect("the path is text")),
        setting("fsync", "off"),
        setting("ssl", "on"),
        setting("ssl_cert_file", chain.to_str().expect("the path is text")),
        setting("ssl_key_file", key.to_str().expect("the path is text")),
    ]);
    Some(Program::start(&mut server, port))
}

/// psql through a stream with these words of its connection.
fn psql(address: SocketAddr, words: &str, statement: &str) -> Output {
    let (host, port) = (address.ip(), address.port());
    let connection = format!("host=db.test hostaddr={host} port={port} user=tester dbname=postgres {words}");
    Command::new("psql")
        .args(["--no-psqlrc", "--tuples-only", "--no-align", "--command", statement, &connection])
        .env("PGCONNECT_TIMEOUT", "30")
        .output()
        .expect("psql runs")
}

fn answer(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

const IS_SSL: &str = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";

#[test]
fn postgresql_with_tls_passed_through_routed_and_ended() {
    let place = tempfile::tempdir().expect("a directory");
    let port = free_port();
    let Some(_server) = postgresql(place.path(), port) else { return };
    let origin = format!("127.0.0.1:{port}");

    // Unchanged: the SSLRequest and TLS are the origin's.
    let plain = Rig::start(&format!("to = \"{origin}\""));
    assert_eq!(answer(&psql(plain.address, "sslmode=require", IS_SSL)), "t");
    assert_eq!(answer(&psql(plain.address, "sslmode=disable", IS_SSL)), "f");
    let chain = place.path().join("stream.pem");
    let verified = format!("sslmode=verify-full sslrootcert={}", chain.display());
    assert_eq!(answer(&psql(plain.address, &verified, IS_SSL)), "t");
    // A larger answer, whole.
    let sum = "SELECT string_agg(md5(number::text), '') FROM generate_series(1, 30000) AS number";
    assert_eq!(answer(&psql(plain.address, "sslmode=require", sum)).len(), 32 * 30_000);

    // The name in the ClientHello behind the SSLRequest chooses the origin.
    let routed = Rig::start(&format!(
        "preface = \"postgresql\"\n[[stream.route]]\nnames = [\"db.test\"]\nto = \"{origin}\"\n"
    ));
    assert_eq!(answer(&psql(routed.address, &verified, IS_SSL)), "t");
    assert_eq!(answer(&psql(routed.address, "sslmode=require gssencmode=prefer", IS_SSL)), "t");
    assert!(routed.log(1)[0].contains(" db.test tcp://"), "{:?}", routed.log(1));
    // No route for another name, none without TLS.
    assert!(!psql(routed.address, "sslmode=require sslsni=0", IS_SSL).status.success());
    assert!(!psql(routed.address, "sslmode=disable", IS_SSL).status.success());

    // TLS ends here; the origin gets a session in the clear, and clients without TLS are refused.
    let key = place.path().join("stream.key");
    let ended = Rig::start(&format!(
        "preface = \"postgresql\"\nto = \"{origin}\"\ntls = \"end\"\ncertificate = {chain:?}\nkey = {key:?}"
    ));
    assert_eq!(answer(&psql(ended.address, &verified, IS_SSL)), "f");
    assert!(!psql(ended.address, "sslmode=disable", IS_SSL).status.success());
}

/// dovecot with a mailbox, for IMAP with and without TLS.
fn dovecot(place: &Path, plain: u16, tls: u16) -> Option<Program> {
    if !Path::new("/usr/sbin/dovecot").exists() {
        skipped("a mail server behind a stream (install dovecot-imapd)");
        return None;
    }
    if !is_root() {
        skipped("a mail server behind a stream (dovecot starts as root only)");
        return None;
    }
    let (chain, key) = certificate(place, &["mail.test"])?;
    let here = place.display();
    fs::create_dir_all(place.join("mail")).expect("a directory");
    for directory in [place.to_path_buf(), place.join("mail")] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).expect("the mode is changed");
    }
    fs::write(place.join("users"), "someone:{PLAIN}secret:65534:65534::/tmp::\n").expect("a file");
    let settings = format!(
        "protocols = imap\nlisten = 127.0.0.1\nbase_dir = {here}/run\nlog_path = {here}/dovecot.log\n\
         ssl = yes\nssl_cert = <{}\nssl_key = <{}\ndisable_plaintext_auth = no\nfirst_valid_uid = 1\n\
         mail_location = maildir:{here}/mail/%u\n\
         passdb {{\n driver = passwd-file\n args = {here}/users\n}}\n\
         userdb {{\n driver = passwd-file\n args = {here}/users\n}}\n\
         service imap-login {{\n inet_listener imap {{\n port = {plain}\n }}\n \
         inet_listener imaps {{\n port = {tls}\n ssl = yes\n }}\n}}\n\
         haproxy_trusted_networks = 127.0.0.1\n",
        chain.display(),
        key.display()
    );
    let file = place.join("dovecot.conf");
    fs::write(&file, settings).expect("a file");
    Some(Program::start(Command::new("/usr/sbin/dovecot").arg("-F").arg("-c").arg(&file), tls))
}

#[test]
fn a_mail_server_with_tls_passed_through_and_ended() {
    let place = tempfile::tempdir().expect("a directory");
    let (plain, tls) = (free_port(), free_port());
    let Some(_server) = dovecot(place.path(), plain, tls) else { return };
    let (chain, key) = (place.path().join("stream.pem"), place.path().join("stream.key"));
    let ask = |rig: &Rig| {
        let port = rig.address.port();
        let resolve = format!("mail.test:{port}:127.0.0.1");
        let chain = chain.to_str().expect("the path is text");
        let url = format!("imaps://mail.test:{port}/");
        let arguments = ["--user", "someone:secret", "--cacert", chain, "--resolve", &resolve, &url];
        curl(arguments).map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let routed =
        Rig::start(&format!("[[stream.route]]\nnames = [\"mail.test\"]\nto = \"127.0.0.1:{tls}\"\n"));
    let ended = Rig::start(&format!(
        "to = \"127.0.0.1:{plain}\"\ntls = \"end\"\ncertificate = {chain:?}\nkey = {key:?}\nalpn = [\"imap\"]"
    ));
    for rig in [routed, ended] {
        let Some(listed) = ask(&rig) else { return };
        assert!(listed.contains("INBOX"), "{listed}");
        assert!(rig.log(1)[0].contains(" mail.test tcp://"), "{:?}", rig.log(1));
    }
}

/// dnsmasq with one name.
fn dnsmasq(place: &Path, port: u16) -> Option<Program> {
    if !Path::new("/usr/sbin/dnsmasq").exists() {
        skipped("DNS behind a stream (install dnsmasq-base)");
        return None;
    }
    if Command::new("dig").arg("-v").output().is_err() {
        skipped("DNS behind a stream (install bind9-dnsutils)");
        return None;
    }
    let mut command = Command::new("/usr/sbin/dnsmasq");
    command
        .args(["--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--user="])
        .args(["--listen-address=127.0.0.1", "--bind-interfaces", "--address=/name.test/192.0.2.5"])
        .arg(format!("--port={port}"))
        .arg(format!("--pid-file={}", place.join("dnsmasq.pid").display()));
    Some(Program::start(&mut command, port))
}

#[test]
fn dns_over_udp_and_tcp() {
    let place = tempfile::tempdir().expect("a directory");
    let port = free_port();
    let Some(_server) = dnsmasq(place.path(), port) else { return };
    let tcp = Rig::start(&format!("to = \"127.0.0.1:{port}\""));
    let udp = Rig::start(&format!("protocol = \"udp\"\nto = \"127.0.0.1:{port}\"\nreplies = 1"));
    for (rig, more) in [(&tcp, "+tcp"), (&udp, "+notcp")] {
        for _ in 0..3 {
            let output = Command::new("dig")
                .args(["+short", "+tries=5", more, "@127.0.0.1", "-p", &rig.address.port().to_string()])
                .arg("name.test")
                .output()
                .expect("dig runs");
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "192.0.2.5", "{more}");
        }
        assert!(rig.ends(3).iter().all(|end| end == "done"), "{:?}", rig.log(3));
    }
}
