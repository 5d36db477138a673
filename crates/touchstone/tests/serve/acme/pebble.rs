//! Pebble, the ACME server that Let's Encrypt makes for testing clients, with a name service that resolves
//! every name.
//!
//! It rejects some good nonces, and is left to do so: clients must take that.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rcgen::{CertificateParams, IsCa, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{curl, free_port, skipped, wait_until};

/// How Pebble is started.
pub(crate) struct Settings {
    /// The port on which it checks proofs in plain HTTP.
    pub http_port: u16,
    /// The port on which it checks proofs in TLS handshakes.
    pub tls_port: u16,
    /// How long its certificates are valid, in seconds.
    pub validity_s: u64,
    /// The key of the external account `kid-1` in base64url, which accounts must be bound to.
    pub external_account: Option<String>,
    /// The longest time that it waits before it checks a proof, in seconds.
    pub patience_s: u64,
    /// Where it listens.
    pub port: u16,
    /// The port of the name server on this machine that it uses; `None`: one that resolves every name.
    pub name_server: Option<u16>,
    /// It has the profile of short-lived certificates, too.
    pub has_short_lived: bool,
    /// It may accept a proof of an earlier order for a new one, at random.
    pub reuses_proofs: bool,
}

impl Settings {
    /// With free ports for everything.
    pub(crate) fn new() -> Settings {
        Settings {
            http_port: free_port(),
            tls_port: free_port(),
            validity_s: 90 * 24 * 3600,
            external_account: None,
            patience_s: 0,
            port: free_port(),
            name_server: None,
            has_short_lived: false,
            reuses_proofs: true,
        }
    }
}

/// A running Pebble.
pub(crate) struct Pebble {
    directory: TempDir,
    management_port: u16,
    /// The name service that resolves every name, and the port that changes it.
    name_ports: (u16, u16),
    processes: Vec<Child>,
}

impl Pebble {
    /// Starts it; `None`, with a visible word, where something is not installed.
    pub(crate) fn start(settings: &Settings) -> Option<Pebble> {
        let (Some(pebble), Some(name_service)) = (program("pebble"), program("pebble-challtestsrv")) else {
            skipped("certificates by ACME (install pebble and pebble-challtestsrv: make setup, with Go)");
            return None;
        };
        curl(["--version"])?;
        let directory = TempDir::with_prefix("touchstone-pebble-").expect("a temporary directory");
        let (management_port, dns_port, name_management) = (free_port(), free_port(), free_port());
        make_own_certificate(directory.path());
        let config = configuration(settings, directory.path(), management_port);
        fs::write(directory.path().join("config.json"), config.to_string()).expect("its configuration");
        let mut started = Pebble {
            management_port,
            name_ports: (dns_port, name_management),
            processes: Vec::new(),
            directory,
        };
        started.spawn(
            Command::new(name_service)
                .args(["-dnsserver", &format!("127.0.0.1:{dns_port}")])
                .args(["-management", &format!("127.0.0.1:{name_management}")])
                .args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""])
                .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]),
            "names.log",
        );
        wait_for_port(dns_port);
        let config = started.directory.path().join("config.json");
        started.spawn(
            Command::new(pebble)
                .arg("-config")
                .arg(config)
                .args(["-dnsserver", &format!("127.0.0.1:{}", settings.name_server.unwrap_or(dns_port))])
                // Its default refuses one good nonce in twenty; three in succession end an order.
                .env("PEBBLE_WFE_NONCEREJECT", "1")
                .env("PEBBLE_VA_NOSLEEP", if settings.patience_s == 0 { "1" } else { "0" })
                .env("PEBBLE_VA_SLEEPTIME", settings.patience_s.to_string())
                .env("PEBBLE_AUTHZREUSE", if settings.reuses_proofs { "50" } else { "0" }),
            "pebble.log",
        );
        wait_for_port(settings.port);
        wait_for_port(management_port);
        Some(started)
    }

    /// The authority of its own HTTPS certificate.
    pub(crate) fn own_authority(&self) -> PathBuf {
        self.directory.path().join("own.pem")
    }

    /// A file with the root of the certificates that it issues.
    pub(crate) fn root(&self) -> PathBuf {
        let file = self.directory.path().join("root.pem");
        let url = format!("https://127.0.0.1:{}/roots/0", self.management_port);
        let output = self.curl(&["--output", file.to_str().expect("the path is text"), &url]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        file
    }

    /// From now on it states that this certificate is to be renewed within a window that is over.
    pub(crate) fn want_renewal_now(&self, certificate_pem: &str) {
        let window = json!({ "start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z" });
        let information = json!({ "suggestedWindow": window, "explanationURL": "https://why.test/" });
        let request = json!({ "certificate": certificate_pem, "ariResponse": information.to_string() });
        let url = format!("https://127.0.0.1:{}/set-renewal-info/", self.management_port);
        let output = self.curl(&["--fail", "--data", &request.to_string(), &url]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The port of the name service that resolves every name.
    pub(crate) fn name_port(&self) -> u16 {
        self.name_ports.0
    }

    /// The URL by which programs change the records of that name service.
    pub(crate) fn name_management(&self) -> String {
        format!("http://127.0.0.1:{}", self.name_ports.1)
    }

    /// Sets a TXT record in that name service.
    pub(crate) fn set_text(&self, name: &str, value: &str) {
        let request = json!({ "host": name, "value": value }).to_string();
        let url = format!("{}/set-txt", self.name_management());
        let output = self.curl(&["--fail", "--data", &request, &url]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The number of orders.
    pub(crate) fn orders(&self) -> usize {
        self.log().matches("POST /order-plz").count()
    }

    /// Its whole output.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("pebble.log")).expect("its log")
    }

    fn curl(&self, arguments: &[&str]) -> std::process::Output {
        let authority = self.own_authority();
        let fixed = ["--cacert", authority.to_str().expect("the path is text")];
        curl(fixed.iter().chain(arguments)).expect("curl was there")
    }

    fn spawn(&mut self, command: &mut Command, log: &str) {
        let log = File::create(self.directory.path().join(log)).expect("a log file");
        let errors = log.try_clone().expect("a log file");
        let process = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        self.processes.push(process);
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().expect("it can be killed");
            process.wait().expect("it can be waited for");
        }
    }
}

fn configuration(settings: &Settings, directory: &Path, management_port: u16) -> Value {
    let keys = settings.external_account.as_ref().map_or(json!({}), |key| json!({ "kid-1": key }));
    json!({ "pebble": {
        "listenAddress": format!("127.0.0.1:{}", settings.port),
        "managementListenAddress": format!("127.0.0.1:{management_port}"),
        "certificate": directory.join("own.pem"),
        "privateKey": directory.join("own.key"),
        "httpPort": settings.http_port,
        "tlsPort": settings.tls_port,
        "ocspResponderURL": "",
        "externalAccountBindingRequired": settings.external_account.is_some(),
        "externalAccountMACKeys": keys,
        "domainBlocklist": ["blocked.test"],
        "retryAfter": { "authz": 0, "order": 0 },
        "keyAlgorithm": "ecdsa",
        "profiles": profiles(settings),
    }})
}

/// If there are several profiles and none is requested, it uses one at random.
fn profiles(settings: &Settings) -> Value {
    let mut profiles =
        json!({ "default": { "description": "for tests", "validityPeriod": settings.validity_s } });
    if settings.has_short_lived {
        profiles["shortlived"] = json!({ "description": "six days", "validityPeriod": 6 * 24 * 3600 });
    }
    profiles
}

/// The certificate of its own HTTPS, which is its own authority.
fn make_own_certificate(directory: &Path) {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_string()]).expect("an address");
    params.is_ca = IsCa::ExplicitNoCa;
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    fs::write(directory.join("own.pem"), certificate.pem()).expect("the certificate is written");
    fs::write(directory.join("own.key"), key.serialize_pem()).expect("the key is written");
}

fn wait_for_port(port: u16) {
    wait_until("it listens", super::PATIENCE, || TcpStream::connect(("127.0.0.1", port)).is_ok());
}

/// A program in PATH, or where Go installs programs.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let go = ["GOBIN", "GOPATH", "HOME"].into_iter().filter_map(|name| {
        let value = PathBuf::from(std::env::var_os(name)?);
        Some(match name {
            "GOBIN" => value,
            "GOPATH" => value.join("bin"),
            _ => value.join("go/bin"),
        })
    });
    std::env::split_paths(&path).chain(go).map(|directory| directory.join(name)).find(|file| file.is_file())
}
