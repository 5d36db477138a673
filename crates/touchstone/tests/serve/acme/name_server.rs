//! Name servers that take signed updates: Knot DNS and BIND, with one zone.

use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::{free_port, skipped, wait_until};

/// The zone of the server.
pub(super) const ZONE: &str = "example.test";

/// The secret of its key.
const SECRET: &str = "dGhlIHNlY3JldCBvZiB0aGUga2V5IG9mIHRoZSB0ZXN0cw==";

/// The program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Knot,
    Bind,
}

/// A running name server.
pub(super) struct NameServer {
    directory: TempDir,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    process: Child,
}

impl NameServer {
    /// Starts it; `None`, with a visible word, where it is not installed.
    pub(super) fn start(kind: Kind) -> Option<NameServer> {
        let (name, package) = match kind {
            Kind::Knot => ("knotd", "knot"),
            Kind::Bind => ("named", "bind9"),
        };
        let dig = system_program("dig");
        let (Some(program), Some(_)) = (system_program(name), dig) else {
            skipped(&format!("certificates by DNS-01 (apt install {package} bind9-dnsutils)"));
            return None;
        };
        let directory = TempDir::with_prefix("touchstone-dns-").expect("a temporary directory");
        let (at, port) = (directory.path().to_path_buf(), free_port());
        let zone = format!(
            "$ORIGIN {ZONE}.\n$TTL 60\n@ SOA ns1 admin 1 3600 600 86400 60\n@ NS ns1\nns1 A 127.0.0.1\n\
             @ A 127.0.0.1\n* A 127.0.0.1\n_acme-challenge.alias CNAME target.dynamic\n"
        );
        fs::write(at.join("zone"), zone).expect("the zone");
        fs::create_dir(at.join("db")).expect("the directory of its journal");
        let config = at.join("config");
        let text = match kind {
            Kind::Knot => knot(&at, port),
            Kind::Bind => bind(&at, port),
        };
        fs::write(&config, text).expect("the configuration");
        let log = File::create(at.join("log")).expect("a log file");
        let mut command = Command::new(program);
        command
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log);
        if kind == Kind::Bind {
            command.arg("-g");
        }
        let process = command.spawn().expect("the name server starts");
        let started = NameServer { directory, port, process };
        wait_until("it listens", super::PATIENCE, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        wait_until("it has the zone", super::PATIENCE, || !started.dig("SOA", ZONE).is_empty());
        Some(started)
    }

    /// `[acme.dns]` for this server, with a key of this name and secret.
    pub(super) fn settings(&self, name: &str, secret: &str) -> String {
        let key = self.directory.path().join("acme.key");
        let text = format!("key \"{name}\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{secret}\";\n}};\n");
        fs::write(&key, text).expect("the key is written");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("its mode");
        let address = format!("127.0.0.1:{}", self.port);
        format!(
            "challenges = [\"dns-01\"]\ndns = {{ key = {key:?}, server = {address:?}, \
             resolvers = [{address:?}], check_servers = [{address:?}], wait = \"30s\" }}"
        )
    }

    /// The same with its key.
    pub(super) fn right_settings(&self) -> String {
        self.settings("acme.key", SECRET)
    }

    /// The output of `dig +short`.
    pub(super) fn dig(&self, kind: &str, name: &str) -> String {
        let output = Command::new("dig")
            .args(["@127.0.0.1", "-p", &self.port.to_string(), "+short", "+time=2", "+tries=1", kind, name])
            .output()
            .expect("dig runs");
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("it can be waited for");
    }
}

fn knot(at: &Path, port: u16) -> String {
    let at = at.display();
    format!(
        "server:\n    rundir: \"{at}\"\n    listen: 127.0.0.1@{port}\n\
         log:\n  - target: stderr\n    any: info\n\
         database:\n    storage: \"{at}/db\"\n\
         key:\n  - id: acme.key\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
         acl:\n  - id: update\n    key: acme.key\n    action: update\n    update-type: [TXT]\n\
         zone:\n  - domain: {ZONE}\n    file: \"{at}/zone\"\n    acl: update\n    zonefile-sync: -1\n\
         \x20   zonefile-load: difference-no-serial\n    journal-content: all\n"
    )
}

fn bind(at: &Path, port: u16) -> String {
    let at = at.display();
    format!(
        "options {{ directory \"{at}\"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n\
         recursion no; pid-file \"{at}/named.pid\"; session-keyfile \"{at}/session.key\";\n\
         lock-file none; dnssec-validation no; }};\ncontrols {{ }};\n\
         key \"acme.key\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n\
         zone \"{ZONE}\" {{ type primary; file \"{at}/zone\";\n\
         update-policy {{ grant acme.key subdomain {ZONE}. TXT; }}; }};\n"
    )
}

/// A program of the system; those for servers are often not in PATH.
fn system_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|directory| directory.join(name)).find(|file| file.is_file())
}
