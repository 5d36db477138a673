//! Tests of the gates as a whole: the checks of a connection and of a request, and their results.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::password_hash::tests::{BCRYPT, SHA_256};
use super::test_networks::networks;

use super::*;
use touchstone_config::{
    AccessConfig, BasicAuthenticationConfig, Config, ListenAddress, PasswordSource, RateLimitConfig, Satisfy,
    quick,
};
use touchstone_http::request_view::{RequestView, UNIX_CLIENT};

type Fields = Vec<(String, String)>;

fn shared() -> Arc<AccessShared> {
    AccessShared::new(Arc::new(|_| {}))
}

fn open(config: &AccessConfig, shared: &Arc<AccessShared>) -> Arc<Gate> {
    Gate::open(config, &"site", shared).unwrap().unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn from<'a>(client: &str, fields: &'a Fields) -> RequestView<'a> {
    RequestView { client: Some(address(client)), fields, ..RequestView::example("/") }
}

fn authorization(credentials: &str) -> Fields {
    vec![("Authorization".to_string(), format!("Basic {}", STANDARD.encode(credentials)))]
}

fn rate(requests: u64, burst: u64) -> AccessConfig {
    let rate_limit = RateLimitConfig { requests, per: Duration::from_secs(3600), burst, delay: 0, key: None };
    AccessConfig { rate_limit: Some(rate_limit), ..AccessConfig::default() }
}

/// A password file, and the configuration of a site that uses it.
struct Users {
    directory: tempfile::TempDir,
}

impl Users {
    fn new() -> Users {
        let users = Users { directory: tempfile::tempdir().unwrap() };
        users.write(&format!("alice:{BCRYPT}\nbob:{SHA_256}\n"));
        users
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("users")
    }

    fn write(&self, text: &str) {
        let new = self.directory.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.path()).unwrap();
    }

    fn config(&self) -> AccessConfig {
        basic(PasswordSource::File(self.path()), 10)
    }
}

fn basic(file: PasswordSource, failures_per_minute: u64) -> AccessConfig {
    let basic_authentication = Some(BasicAuthenticationConfig {
        file,
        realm: "The \"inner\" \\ circle".to_string(),
        remember: Duration::from_secs(60),
        failures_per_minute,
    });
    AccessConfig { basic_authentication, ..AccessConfig::default() }
}

/// The result of a request: its user, or the status.
fn outcome(gates: &[&Gate], request: &RequestView<'_>) -> Result<Option<String>, u16> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let passed = runtime.block_on(pass(gates, request)).map_err(|refusal| refusal.status)?;
    Ok(passed.user.map(|user| String::from_utf8(user.name().to_vec()).unwrap()))
}

fn log_in(gate: &Gate, client: &str, credentials: &str) -> Result<Option<String>, u16> {
    let fields = authorization(credentials);
    outcome(&[gate], &from(client, &fields))
}

fn verdict_name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Proceed(AdmittedRequest { user: None, .. }) => "proceed",
        Verdict::Proceed(AdmittedRequest { user: Some(_), .. }) => "known",
        Verdict::Refuse(_) => "refuse",
        Verdict::Verify(_) => "verify",
    }
}

#[test]
fn nothing_configured_is_no_gate() {
    let shared = shared();
    assert!(Gate::open(&AccessConfig::default(), &"site", &shared).unwrap().is_none());
    assert!(Gate::open(&rate(0, 0), &"site", &shared).unwrap().is_none());
    assert!(Gate::open(&basic(PasswordSource::Off, 1), &"site", &shared).unwrap().is_none());
}

#[test]
fn addresses() {
    let config = AccessConfig { allow: networks(&["10.0.0.0/8"]), ..AccessConfig::default() };
    let gate = open(&config, &shared());
    let none = Fields::new();
    assert_eq!(outcome(&[&gate], &from("10.1.1.1", &none)), Ok(None));
    assert_eq!(outcome(&[&gate], &from("::ffff:10.1.1.1", &none)), Ok(None));
    assert_eq!(outcome(&[&gate], &from("192.0.2.1", &none)), Err(403));
    assert_eq!(outcome(&[&gate], &RequestView { client: None, ..RequestView::example("/") }), Err(403));
    assert!(gate.admit_without_wait(&from("10.1.1.1", &none)).is_some());
    assert!(gate.admit_without_wait(&from("192.0.2.1", &none)).is_none());
}

#[test]
fn rates() {
    let gate = open(&rate(2, 0), &shared());
    let none = Fields::new();
    for _ in 0..2 {
        assert_eq!(outcome(&[&gate], &from("192.0.2.1", &none)), Ok(None));
    }
    let Verdict::Refuse(refusal) = gate.check(&from("192.0.2.1", &none)) else { panic!("let in") };
    assert_eq!(refusal.status, 429);
    let wait: u64 = refusal.fields.strip_prefix("Retry-After: ").unwrap().trim_end().parse().unwrap();
    assert!((1790..=1800).contains(&wait) && refusal.fields.ends_with("\r\n"), "{wait}");
    assert!(gate.admit_without_wait(&from("192.0.2.1", &none)).is_none());
    assert_eq!(outcome(&[&gate], &from("192.0.2.2", &none)), Ok(None));
    // A subscriber has all addresses with the same first 64 bits.
    for last in 1..=2 {
        assert_eq!(outcome(&[&gate], &from(&format!("2001:db8::{last}"), &none)), Ok(None));
    }
    assert_eq!(outcome(&[&gate], &from("2001:db8::3", &none)), Err(429));
    assert_eq!(outcome(&[&gate], &from("2001:db8:0:1::3", &none)), Ok(None));
}

/// A request that is not admitted at once is not counted then; it is checked again and counted once.
#[test]
fn each_request_is_counted_once() {
    let users = Users::new();
    let config = AccessConfig { rate_limit: rate(1, 1).rate_limit, ..users.config() };
    let gate = open(&config, &shared());
    let fields = authorization("alice:secret");
    let request = from("192.0.2.1", &fields);
    assert!(gate.admit_without_wait(&request).is_none());
    assert_eq!(outcome(&[&gate], &request), Ok(Some("alice".to_string())));
    assert_eq!(outcome(&[&gate], &request), Err(429));
}

#[test]
fn what_a_client_used_up_is_remembered_over_a_reload() {
    let shared = shared();
    let none = Fields::new();
    assert_eq!(outcome(&[&open(&rate(1, 1), &shared)], &from("192.0.2.1", &none)), Ok(None));
    assert_eq!(outcome(&[&open(&rate(1, 1), &shared)], &from("192.0.2.1", &none)), Err(429));
    // A limit with other values starts from zero, and so does another site.
    assert_eq!(outcome(&[&open(&rate(2, 1), &shared)], &from("192.0.2.1", &none)), Ok(None));
    let other = Gate::open(&rate(1, 1), &"other site", &shared).unwrap().unwrap();
    assert_eq!(outcome(&[&other], &from("192.0.2.1", &none)), Ok(None));
}

#[test]
fn passwords() {
    let users = Users::new();
    let gate = open(&users.config(), &shared());
    assert_eq!(log_in(&gate, "192.0.2.1", "alice:secret"), Ok(Some("alice".to_string())));
    assert_eq!(log_in(&gate, "192.0.2.1", "bob:secret"), Ok(Some("bob".to_string())));
    for wrong in
        ["alice:wrong", "alice:", "alice:secret\0", "carol:secret", ":secret", "alice", "", "ALICE:secret"]
    {
        assert_eq!(log_in(&gate, "192.0.2.1", wrong), Err(401), "{wrong:?}");
    }
    // A correct password is stored now, for every client that sends it.
    let fields = authorization("alice:secret");
    let admitted = gate.admit_without_wait(&from("192.0.2.9", &fields)).unwrap();
    assert_eq!(admitted.user.unwrap().name(), b"alice");
    let fields = authorization("alice:secret2");
    assert_eq!(verdict_name(&gate.check(&from("192.0.2.9", &fields))), "verify");
}

#[test]
fn the_question() {
    let users = Users::new();
    let gate = open(&users.config(), &shared());
    let none = Fields::new();
    let Verdict::Refuse(refusal) = gate.check(&from("192.0.2.1", &none)) else { panic!("let in") };
    assert_eq!(refusal.status, 401);
    assert_eq!(
        refusal.fields,
        "WWW-Authenticate: Basic realm=\"The \\\"inner\\\" \\\\ circle\", charset=\"UTF-8\"\r\n"
    );
}

#[test]
fn odd_credentials() {
    let users = Users::new();
    let gate = open(&users.config(), &shared());
    let encoded = STANDARD.encode("alice:secret");
    for (value, expected) in [
        (format!("Basic {encoded}"), "verify"),
        (format!("basic {encoded}"), "verify"),
        (format!("BASIC   {encoded}"), "verify"),
        (format!("Basic{encoded}"), "refuse"),
        (format!("Bearer {encoded}"), "refuse"),
        (format!("Basic {encoded} x"), "refuse"),
        (
            format!("Basic {}", encoded.trim_end_matches('=')),
            if encoded.ends_with('=') { "refuse" } else { "verify" },
        ),
        ("Basic".to_string(), "refuse"),
        ("Basic ".to_string(), "refuse"),
        ("Basic ****".to_string(), "refuse"),
        (String::new(), "refuse"),
        ("B\u{e4}sic x".to_string(), "refuse"),
        (format!("Basic {}", STANDARD.encode("alice")), "refuse"),
        (format!("Basic {}", STANDARD.encode("alice:a\tb")), "refuse"),
        (format!("Basic {}", STANDARD.encode(format!("{}:x", "a".repeat(255)))), "verify"),
        (format!("Basic {}", STANDARD.encode(format!("{}:x", "a".repeat(256)))), "refuse"),
        (format!("Basic {}", STANDARD.encode(format!("a:{}", "x".repeat(1024)))), "verify"),
        (format!("Basic {}", STANDARD.encode(format!("a:{}", "x".repeat(1025)))), "refuse"),
        (format!("Basic {}", STANDARD.encode("x".repeat(20_000))), "refuse"),
    ] {
        let fields = vec![("authorization".to_string(), value.clone())];
        assert_eq!(verdict_name(&gate.check(&from("192.0.2.1", &fields))), expected, "{value:?}");
    }
    let twice = [authorization("alice:secret"), authorization("alice:secret")].concat();
    assert_eq!(verdict_name(&gate.check(&from("192.0.2.1", &twice))), "refuse");
}

#[test]
fn too_many_failures() {
    let users = Users::new();
    let config = basic(PasswordSource::File(users.path()), 3);
    // A failure counts for 20 seconds, and the new file is looked at again after one: less than the checks of
    // all these passwords take on a busy machine.
    let shared_state = shared();
    shared_state.stop_clock();
    let gate = open(&config, &shared_state);
    assert_eq!(log_in(&gate, "192.0.2.7", "bob:secret"), Ok(Some("bob".to_string())));
    // A correct password is not counted.
    for _ in 0..9 {
        assert_eq!(log_in(&gate, "192.0.2.1", "alice:secret"), Ok(Some("alice".to_string())));
    }
    for _ in 0..3 {
        assert_eq!(log_in(&gate, "192.0.2.1", "alice:wrong"), Err(401));
    }
    // The server now verifies no more passwords of this client, right or wrong; a stored one is still
    // admitted.
    let fields = authorization("bob:other");
    let Verdict::Refuse(refusal) = gate.check(&from("192.0.2.1", &fields)) else { panic!("looked at") };
    assert_eq!(refusal.status, 429);
    assert!(refusal.fields.starts_with("Retry-After: "));
    assert_eq!(log_in(&gate, "192.0.2.1", "alice:secret"), Ok(Some("alice".to_string())));
    assert_eq!(log_in(&gate, "192.0.2.2", "alice:wrong"), Err(401));

    let endless = open(&basic(PasswordSource::File(users.path()), 0), &shared());
    for _ in 0..20 {
        assert_eq!(log_in(&endless, "192.0.2.1", "nobody:x"), Err(401));
    }
}

/// Many wrong passwords at the same time are counted before the check of the first has ended.
#[test]
fn many_at_once_are_counted() {
    let users = Users::new();
    let config = basic(PasswordSource::File(users.path()), 3);
    let gate = open(&config, &shared());
    let fields = authorization("alice:wrong");
    let checks: Vec<Verification> = (0..20)
        .map(|_| match gate.check(&from("192.0.2.1", &fields)) {
            Verdict::Verify(check) => check,
            other => panic!("{}", verdict_name(&other)),
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let statuses = runtime.block_on(async {
        let tasks: Vec<_> = checks.into_iter().map(|check| tokio::spawn(check.run())).collect();
        let mut statuses = Vec::new();
        for task in tasks {
            statuses.push(task.await.unwrap().unwrap_err().status);
        }
        statuses
    });
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 3);
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 17);
}

#[test]
fn a_changed_file_counts_at_once() {
    let users = Users::new();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let ear = reported.clone();
    let shared = AccessShared::new(Arc::new(move |problem| ear.lock().unwrap().push(problem.to_string())));
    let gate = open(&users.config(), &shared);
    let alice = Ok(Some("alice".to_string()));
    assert_eq!(log_in(&gate, "192.0.2.1", "alice:secret"), alice);

    users.write(&format!("bob:{SHA_256}\n"));
    shared.advance(1);
    assert_eq!(log_in(&gate, "192.0.2.1", "alice:secret"), Err(401));
    assert_eq!(log_in(&gate, "192.0.2.1", "bob:secret"), Ok(Some("bob".to_string())));

    // A bad line excludes its user, and is reported.
    users.write(&format!("alice:{BCRYPT}\ncarol:plain\n"));
    shared.advance(1);
    assert_eq!(log_in(&gate, "192.0.2.1", "alice:secret"), alice);
    assert_eq!(log_in(&gate, "192.0.2.1", "bob:secret"), Err(401));
    assert!(reported.lock().unwrap().iter().any(|problem| problem.contains("user \"carol\"")));

    // Without the file, the users are unchanged.
    std::fs::remove_file(users.path()).unwrap();
    shared.advance(1);
    assert_eq!(log_in(&gate, "192.0.2.1", "alice:secret"), alice);
    assert!(reported.lock().unwrap().last().unwrap().ends_with("the users are unchanged"));
}

/// A file that does not change delays no client; a correct password is removed after some time.
#[test]
fn successes_are_remembered_for_a_while() {
    let users = Users::new();
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    std::fs::File::options().write(true).open(users.path()).unwrap().set_modified(old).unwrap();
    let shared = shared();
    shared.stop_clock();
    let gate = open(&users.config(), &shared);
    assert_eq!(log_in(&gate, "192.0.2.1", "alice:secret"), Ok(Some("alice".to_string())));
    let fields = authorization("alice:secret");
    for _ in 0..5 {
        shared.advance(10);
        assert_eq!(verdict_name(&gate.check(&from("192.0.2.1", &fields))), "known");
    }
    shared.advance(10);
    assert_eq!(verdict_name(&gate.check(&from("192.0.2.1", &fields))), "verify");
}

#[test]
fn a_route_says_what_its_site_does_not() {
    let users = Users::new();
    let shared = shared();
    let site_config = AccessConfig {
        allow: networks(&["192.0.2.0/24"]),
        rate_limit: rate(3, 3).rate_limit,
        ..users.config()
    };
    let site = open(&site_config, &shared);
    let below = |config: &AccessConfig| {
        let any = config.any_of(Some(&site_config));
        Gate::open_below(Some(&site), (config, any), &"route", &shared).unwrap()
    };
    // A route without rules has the gate of its site.
    assert!(Arc::ptr_eq(&below(&AccessConfig::default()).unwrap(), &site));

    let none = Fields::new();
    let open_route = below(&basic(PasswordSource::Off, 1)).unwrap();
    assert_eq!(outcome(&[&open_route], &from("192.0.2.1", &none)), Ok(None));
    assert_eq!(outcome(&[&site], &from("192.0.2.1", &none)), Err(401));
    assert_eq!(outcome(&[&open_route], &from("10.0.0.1", &none)), Err(403));
    // Both gates count together: that was the second request, and this is the third.
    assert_eq!(outcome(&[&open_route], &from("192.0.2.1", &none)), Ok(None));
    assert_eq!(outcome(&[&site], &from("192.0.2.1", &none)), Err(429));

    let unlimited = AccessConfig { rate_limit: rate(0, 0).rate_limit, ..basic(PasswordSource::Off, 1) };
    let unlimited = below(&unlimited).unwrap();
    assert_eq!(outcome(&[&unlimited], &from("192.0.2.1", &none)), Ok(None));
    let elsewhere = AccessConfig { deny: networks(&["192.0.2.0/24"]), ..basic(PasswordSource::Off, 1) };
    let elsewhere = below(&elsewhere).unwrap();
    assert_eq!(outcome(&[&elsewhere], &from("192.0.2.1", &none)), Err(403));
    assert_eq!(outcome(&[&elsewhere], &from("10.0.0.1", &none)), Ok(None));
}

/// One of an address and a user is enough; what is not a part of the choice applies to all.
#[test]
fn an_admitted_address_needs_no_user() {
    let (users, shared) = (Users::new(), shared());
    let any = |config: AccessConfig| AccessConfig { satisfy: Some(Satisfy::Any), ..config };
    let networks_of = |config: AccessConfig| AccessConfig {
        allow: networks(&["10.0.0.0/8"]),
        deny: networks(&["10.9.0.0/16"]),
        ..config
    };
    let gate = open(&any(networks_of(users.config())), &shared);
    let none = Fields::new();
    for (client, expected) in [
        ("10.1.1.1", Ok(None)),
        ("::ffff:10.1.1.1", Ok(None)),
        ("10.9.1.1", Err(401)),
        ("192.0.2.1", Err(401)),
        ("0.0.0.0", Err(401)),
    ] {
        assert_eq!(outcome(&[&gate], &from(client, &none)), expected, "{client}");
        let at_once = gate.admit_without_wait(&from(client, &none)).is_some();
        assert_eq!(at_once, expected.is_ok(), "{client}");
    }
    // An admitted address is not asked, and its password is not looked at.
    assert_eq!(log_in(&gate, "10.1.1.1", "alice:wrong"), Ok(None));
    assert_eq!(log_in(&gate, "192.0.2.1", "alice:wrong"), Err(401));
    assert_eq!(log_in(&gate, "192.0.2.1", "alice:secret"), Ok(Some("alice".to_string())));
    // A gate where both are required is not passed by what another one admits.
    let both = open(&networks_of(users.config()), &shared);
    assert_eq!(outcome(&[&gate, &both], &from("10.1.1.1", &none)), Err(401));
    assert_eq!(outcome(&[&both, &gate], &from("10.1.1.1", &none)), Err(401));
    let fields = authorization("alice:secret");
    assert_eq!(outcome(&[&gate, &both], &from("192.0.2.1", &fields)), Err(403));
    assert!(outcome(&[&gate, &both], &from("10.1.1.1", &fields)).is_ok());
    // Without networks, or without users, nothing can be chosen.
    let only_users = open(&any(users.config()), &shared);
    assert_eq!(outcome(&[&only_users], &from("10.1.1.1", &none)), Err(401));
    let denies = AccessConfig { deny: networks(&["192.0.2.0/24"]), ..users.config() };
    assert_eq!(outcome(&[&open(&any(denies), &shared)], &from("10.1.1.1", &none)), Err(401));
    let only_networks = open(&any(networks_of(AccessConfig::default())), &shared);
    assert_eq!(outcome(&[&only_networks], &from("192.0.2.1", &none)), Err(403));
    // A limit of requests applies to admitted addresses, too.
    let limited = AccessConfig { rate_limit: rate(1, 1).rate_limit, ..networks_of(users.config()) };
    let limited = open(&any(limited), &shared);
    assert_eq!(outcome(&[&limited], &from("10.1.1.1", &none)), Ok(None));
    assert_eq!(outcome(&[&limited], &from("10.1.1.1", &none)), Err(429));
}

#[test]
fn gates_in_a_row_apply_what_they_share_once() {
    let shared = shared();
    let site = open(&rate(2, 2), &shared);
    let config = AccessConfig { deny: networks(&["10.0.0.0/8"]), ..AccessConfig::default() };
    let route = Gate::open_below(Some(&site), (&config, None), &"route", &shared).unwrap().unwrap();
    let none = Fields::new();
    for _ in 0..2 {
        assert_eq!(outcome(&[&route, &site, &route], &from("192.0.2.1", &none)), Ok(None));
    }
    assert_eq!(outcome(&[&route, &site], &from("192.0.2.1", &none)), Err(429));
    assert_eq!(outcome(&[&site, &route], &from("10.0.0.1", &none)), Err(403));
    assert_eq!(outcome(&[], &from("10.0.0.1", &none)), Ok(None));
}

#[test]
fn a_password_file_that_cannot_be_used_is_said() {
    let problem = Gate::open(&basic(PasswordSource::File("/nowhere".into()), 1), &"site", &shared());
    assert_eq!(
        problem.err().unwrap(),
        ["password file '/nowhere': cannot be read: No such file or directory (os error 2)"]
    );
    // A file that is already in use is checked again for a new configuration.
    let users = Users::new();
    let shared = shared();
    let _gate = open(&users.config(), &shared);
    users.write("alice:plain\n");
    assert!(Gate::open(&users.config(), &"site", &shared).is_err());
}

// ---- connections

fn config(text: &str) -> Config {
    let site = "[[site]]\nlisten = ['127.0.0.1:80', '127.0.0.1:81']\nroot = 'www'\n";
    touchstone_config::parse(&format!("{text}\n{site}"), Path::new("/etc/site.toml")).unwrap()
}

fn admits(gate: &ConnectionGate, peer: &str) -> Option<Option<ConnectionPermit>> {
    match gate.admit_connection(Some(address(peer))) {
        Admission::Admitted(permit) => Some(permit),
        Admission::Refused => None,
    }
}

#[test]
fn without_rules_connections_cost_nothing() {
    let quick = quick(PathBuf::from("/"), "127.0.0.1:80".parse().unwrap());
    let gate = ConnectionGate::new(&quick, &shared());
    assert!(!gate.needs_peers());
    assert!(matches!(gate.admit_connection(None), Admission::Admitted(None)));
    assert!(admits(&gate, "192.0.2.1").unwrap().is_none());
    assert!(!gate.expects_proxy_header("127.0.0.1:80".parse().unwrap(), Some(address("127.0.0.1"))));
    let fields = vec![("X-Forwarded-For", "192.0.2.1")];
    assert_eq!(gate.client(address("::ffff:10.0.0.1"), &fields), address("10.0.0.1"));
}

#[test]
fn connections_per_client() {
    let text = "[limits]\nconnections_per_client = 2\n[proxies]\ntrusted = ['10.0.0.0/8']";
    let shared = shared();
    let gate = ConnectionGate::new(&config(text), &shared);
    assert!(gate.needs_peers());
    let first = admits(&gate, "192.0.2.1");
    let _second = admits(&gate, "192.0.2.1");
    assert!(admits(&gate, "192.0.2.1").is_none());
    assert!(admits(&gate, "192.0.2.2").is_some());
    // Connections from before a reload count too.
    let reloaded = ConnectionGate::new(&config(text), &shared);
    assert!(admits(&reloaded, "192.0.2.1").is_none());
    drop(first);
    let _third = admits(&reloaded, "192.0.2.1").unwrap();
    // A proxy forwards many clients; a client is counted when the header has named it.
    assert!((0..9).all(|_| admits(&gate, "10.0.0.1").is_some()));
    assert!(matches!(gate.admit_proxied(address("192.0.2.1")), Admission::Refused));
    assert!(matches!(gate.admit_proxied(address("192.0.2.9")), Admission::Admitted(Some(_))));
}

#[test]
fn proxies() {
    let text =
        "[proxies]\ntrusted = ['10.0.0.0/8']\nclient_field = 'forwarded'\nproxy_protocol = ['127.0.0.1:81']";
    let gate = ConnectionGate::new(&config(text), &shared());
    assert!(gate.needs_peers());
    let listeners: [ListenAddress; 2] = ["127.0.0.1:80", "127.0.0.1:81"].map(|text| text.parse().unwrap());
    assert!(gate.expects_proxy_header(listeners[1], Some(address("10.0.0.1"))));
    assert!(!gate.expects_proxy_header(listeners[0], Some(address("10.0.0.1"))));
    assert!(!gate.expects_proxy_header(listeners[1], Some(address("192.0.2.1"))));
    assert!(!gate.expects_proxy_header(listeners[1], None));
    assert!(!gate.expects_proxy_header(listeners[1], Some(UNIX_CLIENT)));
    let fields = vec![("X-Forwarded-For", "6.6.6.6"), ("FORWARDED", "for=6.6.6.6, for=192.0.2.1")];
    assert_eq!(gate.client(address("10.0.0.1"), &fields), address("192.0.2.1"));
    assert_eq!(gate.client(address("192.0.2.7"), &fields), address("192.0.2.7"));
    assert!(gate.trusts_fields_of(address("10.0.0.1")) && !gate.trusts_fields_of(address("192.0.2.7")));
}

#[test]
fn the_answer_to_too_many_is_an_answer() {
    let text = std::str::from_utf8(TOO_MANY_CONNECTIONS).unwrap();
    assert!(text.starts_with("HTTP/1.1 503 ") && text.ends_with("\r\n\r\n") && !text.contains("  "));
    assert!(text.lines().skip(1).filter(|line| !line.is_empty()).all(|line| line.contains(": ")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No value of Authorization without the right password is admitted, and none panics.
    #[test]
    fn no_random_credentials_are_admitted(value in "(Basic |basic )?[ -~]{0,40}", bytes: Vec<u8>) {
        let users = Users::new();
        let gate = open(&users.config(), &shared());
        let encoded = format!("Basic {}", STANDARD.encode(&bytes)).into_bytes();
        for value in [value.into_bytes(), encoded, bytes] {
            let fields = vec![("authorization", value)];
            let request = RequestView { fields: &fields, ..RequestView::example("/") };
            prop_assert!(gate.admit_without_wait(&request).is_none());
            let is_proceed = matches!(gate.check(&request), Verdict::Proceed(_));
            prop_assert!(!is_proceed);
        }
    }
}
