//! Certificates by ACME, from a real ACME server (Pebble) to a real client (curl) that verifies them.

mod addresses;
mod dns;
mod name_server;
mod on_demand;
mod pebble;
mod shared;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Server, Tree, curl, run, wait_until};
use pebble::{Pebble, Settings};

/// Far longer than an order takes on a busy machine, with some nonces rejected.
const PATIENCE: Duration = Duration::from_secs(90);

/// Where the files of a test are.
struct Scene {
    tree: Tree,
    settings: Settings,
}

impl Scene {
    fn new() -> Scene {
        Scene { tree: Tree::standard(), settings: Settings::new() }
    }

    /// `[acme]`, for a directory that may not be there yet.
    fn acme(&self, pebble: Option<&Pebble>, more: &str) -> String {
        let authority = pebble.map_or(self.tree.beside("own.pem"), Pebble::own_authority);
        format!(
            "[acme]\ndirectory = \"https://127.0.0.1:{}/dir\"\nagree_to_terms = true\nstorage = {:?}\n\
             ca_certificate = {authority:?}\nretry_after = \"1s\"\nretry_at_most = \"2s\"\n{more}\n",
            self.settings.port,
            self.storage()
        )
    }

    fn secure_site(&self, hosts: &[&str]) -> String {
        let (root, port) = (self.tree.root(), self.settings.tls_port);
        format!(
            "[[site]]\nhosts = {hosts:?}\nlisten = [\"127.0.0.1:{port}\"]\nroot = {root:?}\n\
             certificate = \"acme\"\n"
        )
    }

    fn plain_site(&self, hosts: &[&str], more: &str) -> String {
        let (root, port) = (self.tree.root(), self.settings.http_port);
        format!("[[site]]\nhosts = {hosts:?}\nlisten = [\"127.0.0.1:{port}\"]\nroot = {root:?}\n{more}\n")
    }

    fn start(&self, text: &str) -> Server {
        Server::configured(self.tree.around(), text)
    }

    fn storage(&self) -> PathBuf {
        self.tree.beside("acme")
    }

    fn certificate_file(&self, host: &str) -> PathBuf {
        self.storage()
            .join(format!("127.0.0.1+{}_dir", self.settings.port))
            .join(host)
            .join("certificate.pem")
    }

    /// Whether curl accepts the certificate for `host` and gets a file.
    fn is_served(&self, host: &str, root: &Path) -> bool {
        let port = self.settings.tls_port;
        let (resolve, url) =
            (format!("{host}:{port}:127.0.0.1"), format!("https://{host}:{port}/alphabet.txt"));
        let root = root.to_str().expect("the path is text");
        let output = curl(["--cacert", root, "--resolve", &resolve, "--fail", &url]).expect("curl was there");
        output.status.success() && output.stdout == crate::support::ALPHABET.as_bytes()
    }

    fn wait_until_served(&self, host: &str, root: &Path) {
        wait_until(&format!("{host} is served"), PATIENCE, || {
            std::thread::sleep(Duration::from_millis(100));
            self.is_served(host, root)
        });
    }
}

/// The first certificate of a file that holds a key too.
fn first_certificate(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("the certificate is kept");
    let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
    let from = text.find(begin).expect("a certificate");
    let to = text[from..].find(end).expect("a whole certificate") + from + end.len();
    text[from..to].to_string() + "\n"
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
        & 0o777
}

/// Every file and directory below.
fn all_below(directory: &Path) -> Vec<PathBuf> {
    let mut all = vec![directory.to_path_buf()];
    // The server may remove a directory of it at this moment.
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() { all.extend(all_below(&path)) } else { all.push(path) }
    }
    all
}

#[test]
fn by_tls_alpn_01_for_all_hosts_of_several_sites() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let text = scene.acme(Some(&pebble), "challenges = [\"tls-alpn-01\"]\ncontact = [\"admin@one.test\"]")
        + &scene.secure_site(&["one.test", "www.one.test"])
        + &scene.secure_site(&["two.test"]);
    let mut server = scene.start(&text);
    let root = pebble.root();
    for host in ["one.test", "www.one.test", "two.test"] {
        scene.wait_until_served(host, &root);
    }
    // One certificate for each site, one account for all.
    assert_ne!(
        first_certificate(&scene.certificate_file("one.test")),
        first_certificate(&scene.certificate_file("two.test"))
    );
    assert_eq!(pebble.log().matches("accounts in memory").count(), 1, "{}", pebble.log());
    server.stop();
    for path in all_below(&scene.storage()) {
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), wanted, "{}", path.display());
    }
    // The log contains no part of the keys.
    let (log, account) =
        (server.error_text(), fs::read_to_string(account_file(&scene)).expect("the account"));
    let account: serde_json::Value = serde_json::from_str(&account).expect("JSON");
    let key = account["credentials"]["key_pkcs8"].as_str().expect("the key").to_string();
    assert!(key.len() > 100 && !log.contains(&key) && !log.contains("PRIVATE KEY"), "{log}");
}

fn account_file(scene: &Scene) -> PathBuf {
    scene.storage().join(format!("127.0.0.1+{}_dir", scene.settings.port)).join("account.json")
}

#[test]
fn by_http_01_before_any_other_rule() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let redirect = "[[site.route]]\npath = \"/\"\nredirect = { to = \"https://one.test/\" }\n";
    let text = scene.acme(Some(&pebble), "challenges = [\"http-01\"]")
        + &scene.secure_site(&["one.test"])
        + &scene.plain_site(&["one.test"], &format!("deny = [\"127.0.0.0/8\"]\n{redirect}"));
    let server = scene.start(&text);
    scene.wait_until_served("one.test", &pebble.root());
    // Afterwards the server answers only what it answered before.
    let url = format!("http://127.0.0.1:{}/.well-known/acme-challenge/x", scene.settings.http_port);
    let output =
        curl(["--header", "Host: one.test", "--output", "/dev/null", "--write-out", "%{http_code}", &url]);
    assert_eq!(output.expect("curl was there").stdout, b"403");
    drop(server);
}

#[test]
fn where_one_proof_fails_the_next_is_tried() {
    let scene = Scene::new();
    let closed = Settings { tls_port: crate::support::free_port(), ..settings_like(&scene.settings) };
    let Some(pebble) = Pebble::start(&closed) else { return };
    let text = scene.acme(Some(&pebble), "")
        + &scene.secure_site(&["one.test"])
        + &scene.plain_site(&["one.test"], "");
    let server = scene.start(&text);
    scene.wait_until_served("one.test", &pebble.root());
    server.wait_for_error_line("tells why", |line| {
        line.contains("could not verify it by tls-alpn-01: one.test: ")
            && line.contains("next attempt by http-01")
    });
}

fn settings_like(settings: &Settings) -> Settings {
    Settings { external_account: settings.external_account.clone(), ..*settings }
}

#[test]
fn a_restart_asks_for_nothing_and_a_reload_only_for_what_is_new() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let before = scene.acme(Some(&pebble), "") + &scene.secure_site(&["one.test"]);
    let root = pebble.root();
    let mut server = scene.start(&before);
    scene.wait_until_served("one.test", &root);
    server.stop();
    let orders = pebble.orders();
    let kept = first_certificate(&scene.certificate_file("one.test"));

    let server = scene.start(&before);
    scene.wait_until_served("one.test", &root);
    let file = scene.tree.beside("touchstone.toml");
    fs::write(&file, before + &scene.secure_site(&["two.test"])).expect("the configuration is written");
    server.signal(Signal::HUP);
    scene.wait_until_served("two.test", &root);
    assert!(scene.is_served("one.test", &root));
    assert_eq!(first_certificate(&scene.certificate_file("one.test")), kept);
    let asked: Vec<String> = server
        .error_text()
        .lines()
        .filter(|line| line.contains("is requested from"))
        .filter(|line| !line.contains("for two.test is"))
        .map(str::to_string)
        .collect();
    assert_eq!(asked, Vec::<String>::new());
    assert!(pebble.orders() > orders);
}

#[test]
fn certificates_are_renewed_before_they_end() {
    let mut scene = Scene::new();
    scene.settings.validity_s = 20;
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let text = scene.acme(Some(&pebble), "renewal_information = false\nrenew_at_percent = 30")
        + &scene.secure_site(&["one.test"]);
    let server = scene.start(&text);
    let root = pebble.root();
    scene.wait_until_served("one.test", &root);
    let file = scene.certificate_file("one.test");
    for _ in 0..2 {
        let before = first_certificate(&file);
        wait_until("another certificate", PATIENCE, || first_certificate(&file) != before);
    }
    scene.wait_until_served("one.test", &root);
    drop(server);
}

#[test]
fn the_authority_says_when_to_renew() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let text = scene.acme(Some(&pebble), "") + &scene.secure_site(&["one.test"]);
    let mut server = scene.start(&text);
    let file = scene.certificate_file("one.test");
    scene.wait_until_served("one.test", &pebble.root());
    server.stop();
    let before = first_certificate(&file);
    pebble.want_renewal_now(&before);
    let server = scene.start(&text);
    server.wait_for_error_line("tells it", |line| {
        line.contains(
            "the authority requests the renewal of the certificate of one.test now (see https://why.test/)",
        )
    });
    wait_until("another certificate", PATIENCE, || first_certificate(&file) != before);
    drop(server);
}

#[test]
fn the_server_serves_while_there_is_no_authority() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let text = scene.acme(Some(&pebble), "")
        + &scene.plain_site(&["one.test"], "")
        + &scene.secure_site(&["one.test"]);
    // Pebble's own certificate is new at each start; the file is copied again below.
    let own = scene.tree.beside("own.pem");
    fs::copy(pebble.own_authority(), &own).expect("the file is copied");
    drop(pebble);
    let text = text.replace(&directive(&text, "ca_certificate"), &format!("ca_certificate = {own:?}"));
    let server = scene.start(&text);
    server.wait_for_error_line("says it", |line| line.contains("no certificate for one.test"));
    server.assert_serves("/alphabet.txt", crate::support::ALPHABET.as_bytes());

    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    fs::copy(pebble.own_authority(), &own).expect("the file is copied");
    scene.wait_until_served("one.test", &pebble.root());
}

/// The line of a configuration that sets this key.
fn directive(text: &str, key: &str) -> String {
    text.lines().find(|line| line.starts_with(key)).expect("the key is set").to_string()
}

#[test]
fn an_authority_that_cannot_be_reached_or_trusted_is_named() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let site = scene.secure_site(&["one.test"]);
    let no_one = scene.acme(Some(&pebble), "").replace(&scene.settings.port.to_string(), "1") + &site;
    let mut server = scene.start(&no_one);
    server.wait_for_error_line("says that no one is there", |line| {
        line.contains("no certificate for one.test: https://127.0.0.1:1/dir: cannot be reached: ")
            && line.contains("next attempt in 1 s")
    });
    server.wait_for_error_line("says that the wait grows", |line| line.contains("next attempt in 2 s"));
    server.stop();

    // Another authority than the one that signed Pebble's certificate.
    let other = scene.tree.beside("other.pem");
    fs::copy(pebble.root(), &other).expect("the file is copied");
    let text = scene.acme(Some(&pebble), "");
    let wrong = text.replace(&directive(&text, "ca_certificate"), &format!("ca_certificate = {other:?}"));
    let server = scene.start(&(wrong + &site));
    server.wait_for_error_line("says what to set", |line| {
        line.contains("an authority that this system does not trust")
            && line.contains("set acme.ca_certificate")
    });
}

#[test]
fn what_the_authority_refuses_is_said() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let contact =
        scene.acme(Some(&pebble), "contact = [\"a..b@one.test\"]") + &scene.secure_site(&["one.test"]);
    let mut server = scene.start(&contact);
    server.wait_for_error_line("names the contact", |line| {
        line.contains("(invalidContact)") && line.contains("correct acme.contact")
    });
    server.stop();
    let blocked = scene.acme(Some(&pebble), "") + &scene.secure_site(&["blocked.test"]);
    let mut server = scene.start(&blocked);
    server.wait_for_error_line("names the host", |line| {
        line.contains("no certificate for blocked.test") && line.contains("correct 'hosts' of the site")
    });
    server.stop();
    let profile =
        scene.acme(Some(&pebble), "profile = \"nobody-has-this\"") + &scene.secure_site(&["one.test"]);
    let server = scene.start(&profile);
    server.wait_for_error_line("names the profile", |line| {
        line.contains("no certificate for one.test: the authority refused")
            && line.contains("nobody-has-this")
    });
}

#[test]
fn accounts_that_are_bound_to_others() {
    const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let mut scene = Scene::new();
    scene.settings.external_account = Some(KEY.to_string());
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let site = scene.secure_site(&["one.test"]);
    let mut server = scene.start(&(scene.acme(Some(&pebble), "") + &site));
    server.wait_for_error_line("says what is wanted", |line| {
        line.contains("(externalAccountRequired)") && line.contains("set acme.external_account")
    });
    server.stop();
    let file = scene.tree.beside("account.hmac");
    fs::write(&file, format!("{KEY}\n")).expect("the key is written");
    let bound = format!("external_account = {{ key_id = \"kid-1\", hmac_key = {file:?} }}");
    let mut server = scene.start(&(scene.acme(Some(&pebble), &bound) + &site));
    scene.wait_until_served("one.test", &pebble.root());
    server.stop();
    assert!(!server.error_text().contains(&KEY[..20]), "{}", server.error_text());
}

#[test]
fn an_account_that_the_authority_has_lost_is_registered_again() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let text = |pebble: &Pebble, hosts: &[&str]| scene.acme(Some(pebble), "") + &scene.secure_site(hosts);
    let mut server = scene.start(&text(&pebble, &["one.test"]));
    scene.wait_until_served("one.test", &pebble.root());
    server.stop();
    // Pebble keeps everything in memory.
    drop(pebble);
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let server = scene.start(&text(&pebble, &["one.test", "www.one.test"]));
    server.wait_for_error_line("says so", |line| line.contains("has removed the account"));
    scene.wait_until_served("www.one.test", &pebble.root());
}

#[test]
fn a_server_that_is_killed_at_any_time_leaves_nothing_broken() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let text = scene.acme(Some(&pebble), "") + &scene.secure_site(&["one.test"]);
    // An order takes about two seconds here: the kills are spread over all of it and over the restarts
    // between.
    for round in 1..=8 {
        let server = scene.start(&text);
        std::thread::sleep(Duration::from_millis(150 * round));
        drop(server); // with SIGKILL
        let file = scene.certificate_file("one.test");
        if file.exists() {
            first_certificate(&file);
            assert!(fs::read_to_string(&file).expect("the file").contains("PRIVATE KEY"));
        }
    }
    let server = scene.start(&text);
    scene.wait_until_served("one.test", &pebble.root());
    let log = server.error_text();
    assert!(!log.contains("damaged") && !log.contains("cannot"), "{log}");
}

#[test]
fn one_process_at_a_time_asks() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let text = scene.acme(Some(&pebble), "") + &scene.secure_site(&["one.test"]);
    let mut first = scene.start(&text);
    scene.wait_until_served("one.test", &pebble.root());
    let other_port =
        text.replace(&scene.settings.tls_port.to_string(), &crate::support::free_port().to_string());
    let second = scene.start(&other_port.replace("\"one.test\"", "\"two.test\""));
    second.wait_for_error_line("says that it waits", |line| line.contains("is used by another process"));
    first.stop();
    second.wait_for_error_line("continues", |line| line.contains("for two.test is requested from"));
}

#[test]
fn a_new_contact_is_told_to_the_authority() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let site = scene.secure_site(&["one.test"]);
    let mut server = scene.start(&(scene.acme(Some(&pebble), "") + &site));
    scene.wait_until_served("one.test", &pebble.root());
    server.stop();
    let orders = pebble.orders();
    let server = scene.start(&(scene.acme(Some(&pebble), "contact = [\"new@one.test\"]") + &site));
    wait_until("the contact is kept", PATIENCE, || {
        fs::read_to_string(account_file(&scene)).is_ok_and(|text| text.contains("mailto:new@one.test"))
    });
    drop(server);
    assert_eq!(pebble.orders(), orders);
    assert_eq!(pebble.log().matches("accounts in memory").count(), 1, "{}", pebble.log());
}

#[test]
fn a_client_with_the_protocol_of_the_proof_gets_no_answers() {
    let mut scene = Scene::new();
    scene.settings.patience_s = 60;
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let text =
        scene.acme(Some(&pebble), "challenges = [\"tls-alpn-01\"]") + &scene.secure_site(&["one.test"]);
    let server = scene.start(&text);
    // The proof is offered until Pebble has looked for it, which takes a while.
    let mut seen = String::new();
    wait_until("a proof in the handshake", PATIENCE, || {
        let Some(output) = say_to_challenge(&server, "GET /alphabet.txt HTTP/1.1\r\nHost: one.test\r\n\r\n")
        else {
            return true;
        };
        seen = output;
        seen.contains("ALPN protocol: acme-tls/1") || scene.certificate_file("one.test").exists()
    });
    // openssl waits for the end of the connection, so the connection ended, without an answer.
    assert!(!seen.contains("HTTP/1.1"), "{seen}");
}

/// The output of `openssl s_client` on a connection as an ACME authority makes it: it sends `text`, and the
/// server must end the connection. `None`, with a visible message, where openssl is not installed.
fn say_to_challenge(server: &Server, text: &str) -> Option<String> {
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-connect", &server.address().to_string(), "-servername", "one.test"])
        .args(["-alpn", "acme-tls/1", "-ign_eof"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else {
        crate::support::skipped("handshakes of an authority (install openssl)");
        return None;
    };
    let mut input = child.stdin.take().expect("stdin is piped");
    // A connection that has ended takes no more bytes.
    let _ = input.write_all(text.as_bytes());
    drop(input);
    wait_until("the connection ends", PATIENCE, || child.try_wait().expect("it can be asked").is_some());
    let output = child.wait_with_output().expect("its output");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn check_says_what_is_missing() {
    let scene = Scene::new();
    fs::write(scene.tree.beside("own.pem"), "").expect("a file");
    let text = scene.acme(None, "") + &scene.secure_site(&["one.test"]);
    let file = scene.tree.beside("touchstone.toml");
    fs::write(&file, text).expect("the configuration is written");
    let output = run(["check", "--config", file.to_str().expect("the path is text")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("toml:5:18: ") && said.contains("own.pem: holds no certificate: it is empty"),
        "{said}"
    );
}
