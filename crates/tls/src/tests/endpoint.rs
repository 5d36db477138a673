//! Tests of endpoints: the certificate and the rules that a client gets, the contents of files, and the
//! messages about them.

use std::sync::Arc;

use rustls::AlertDescription;
use rustls::version::{TLS12, TLS13};
use time::{Duration, OffsetDateTime};

use super::support::*;
use crate::self_signed::development_certificate;
use crate::settings::Resumption;
use crate::{
    CertificateSource, ClientAuthorities, ClientCertificateMode, MinimumVersion, NoticeLevel, Policy,
    TlsEndpoint, TlsError, TlsShared, UnknownNames,
};

/// An authority and files, for endpoints of all kinds.
struct Place {
    authority: Authority,
    files: Files,
}

impl Place {
    fn new() -> Place {
        Place { authority: Authority::new("Test authority"), files: Files::new() }
    }

    /// A certificate for `names` in files called `file`.
    fn source(&self, file: &str, names: &[&str]) -> CertificateSource {
        self.files.write_pair(file, &self.authority.issue(names))
    }

    fn with_clients(&self, authority: &Authority, mode: ClientCertificateMode) -> Policy {
        let authorities = self.files.write("clients.pem", &authority.pem());
        let settings = ClientAuthorities { authorities, revocation_lists: Vec::new(), mode };
        Policy { client_authorities: Some(settings), ..Policy::default() }
    }
}

fn names_shown(endpoint: &TlsEndpoint, authority: &Authority, name: &str) -> Vec<String> {
    let mut config = client(authority);
    // This test checks which certificate is sent, not whether it is valid.
    config.dangerous().set_certificate_verifier(Arc::new(trust::Everything));
    Pipe::connect(endpoint, &Arc::new(without_resumption(config)), name).certificate_names()
}

fn texts(notices: &[crate::Notice]) -> Vec<&str> {
    notices.iter().map(|notice| notice.text.as_str()).collect()
}

// ---- certificates by name

#[test]
fn the_certificate_is_chosen_by_name() {
    let place = Place::new();
    let (endpoint, notices) = open(vec![
        site(
            &["first.org", "www.first.org"],
            vec![place.source("a", &["first.org", "www.first.org"])],
            Policy::default(),
        ),
        site(&["*.second.org"], vec![place.source("b", &["*.second.org"])], Policy::default()),
        site(&["second.org"], vec![place.source("c", &["second.org"])], Policy::default()),
    ]);
    assert_eq!(notices, []);
    let shown = |name: &str| names_shown(&endpoint, &place.authority, name).join(" ");
    assert_eq!(shown("www.first.org"), "DNSName(first.org) DNSName(www.first.org)");
    assert_eq!(shown("FIRST.org"), "DNSName(first.org) DNSName(www.first.org)");
    assert_eq!(shown("any.second.org"), "DNSName(*.second.org)");
    assert_eq!(shown("second.org"), "DNSName(second.org)");
    // Unknown names, and none, get the first site's.
    assert_eq!(shown("elsewhere.org"), "DNSName(first.org) DNSName(www.first.org)");
    assert_eq!(shown("127.0.0.1"), "DNSName(first.org) DNSName(www.first.org)");
}

#[test]
fn names_come_from_the_certificate_where_the_site_has_none() {
    let place = Place::new();
    let (endpoint, notices) = open(vec![
        site(&["named.org"], vec![place.source("a", &["named.org"])], Policy::default()),
        site(
            &[],
            vec![place.source("b", &["*.any.org"]), place.source("c", &["other.org"])],
            Policy::default(),
        ),
    ]);
    assert_eq!(notices, []);
    let shown = |name: &str| names_shown(&endpoint, &place.authority, name).join(" ");
    assert_eq!(shown("named.org"), "DNSName(named.org)");
    assert_eq!(shown("www.any.org"), "DNSName(*.any.org)");
    assert_eq!(shown("other.org"), "DNSName(other.org)");
    // A site without names is the one for all others.
    assert_eq!(shown("elsewhere.org"), "DNSName(*.any.org)");
}

#[test]
fn unknown_names_can_be_refused() {
    let place = Place::new();
    let mut settings =
        settings(vec![site(&["a.org"], vec![place.source("a", &["a.org"])], Policy::default())]);
    settings.unknown_names = UnknownNames::Refuse;
    let (endpoint, _) = TlsEndpoint::open(settings, &TlsShared::new()).unwrap();
    let config = Arc::new(client(&place.authority));
    Pipe::connect(&endpoint, &config, "a.org");
    for name in ["b.org", "127.0.0.1"] {
        let mut pipe = Pipe::new(&endpoint, &config, name);
        pipe.exchange();
        assert_eq!(pipe.ended, Some(TlsError::NoCertificate));
        assert_eq!(pipe.client_error, Some(rustls::Error::AlertReceived(AlertDescription::AccessDenied)));
    }
}

#[test]
fn the_kind_of_key_is_chosen_by_what_the_client_can_verify() {
    let place = Place::new();
    let rsa = {
        let key =
            rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
        let params = rcgen::CertificateParams::new(vec!["a.org".to_string()]).unwrap();
        let certificate = params.signed_by(&key, place.authority.issuer()).unwrap();
        Pair { certificate: certificate.pem() + &place.authority.pem(), key: key.serialize_pem() }
    };
    let certificates = vec![place.files.write_pair("rsa", &rsa), place.source("ecdsa", &["a.org"])];
    let (endpoint, notices) = open(vec![site(&["a.org"], certificates, Policy::default())]);
    assert_eq!(notices, []);
    // ECDSA is first, whatever the order of the settings.
    let pipe = Pipe::connect(&endpoint, &Arc::new(client_with(&place.authority, &[&TLS12], None)), "a.org");
    assert!(pipe.session.cipher_suite().unwrap().starts_with("ECDHE-ECDSA-"));
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| format!("{suite:?}").contains("ECDHE_RSA"));
    let config = client_of(provider, &place.authority, &[&TLS12]);
    let pipe = Pipe::connect(&endpoint, &Arc::new(config), "a.org");
    assert!(pipe.session.cipher_suite().unwrap().starts_with("ECDHE-RSA-"));
}

// ---- client certificates

#[test]
fn a_required_client_certificate() {
    let (place, clients, strangers) = (Place::new(), Authority::new("Clients"), Authority::new("Strangers"));
    let policy = place.with_clients(&clients, ClientCertificateMode::Required);
    let (endpoint, _) = open(vec![site(&["a.org"], vec![place.source("a", &["a.org"])], policy)]);
    for version in [&TLS13, &TLS12] {
        let ada = clients.issue_with(&["ada.example.org"], |params| {
            params.distinguished_name.push(rcgen::DnType::OrganizationName, "Example, Inc.");
        });
        let config = Arc::new(client_with(&place.authority, &[version], Some(&ada)));
        let first = Pipe::connect(&endpoint, &config, "a.org");
        let shown = first.session.client_certificate().unwrap();
        assert_eq!(shown.subject, r"O=Example\, Inc.,CN=ada.example.org");
        assert!(shown.issuer.contains("CN=Clients"));
        assert_eq!(shown.host_names, ["ada.example.org"]);
        // It is known in a resumed session, too.
        let second = Pipe::connect(&endpoint, &config, "a.org");
        assert!(second.session.is_resumed());
        assert_eq!(second.session.client_certificate(), Some(shown));

        let mut none =
            Pipe::new(&endpoint, &Arc::new(client_with(&place.authority, &[version], None)), "a.org");
        none.exchange();
        assert_eq!(none.ended, Some(TlsError::ClientCertificate("the client sent none".to_string())));
        assert!(
            matches!(none.client_error, Some(rustls::Error::AlertReceived(_))),
            "{:?}",
            none.client_error
        );

        let eve = strangers.issue(&["ada.example.org"]);
        let config = Arc::new(client_with(&place.authority, &[version], Some(&eve)));
        let mut stranger = Pipe::new(&endpoint, &config, "a.org");
        stranger.exchange();
        assert_eq!(stranger.ended, Some(TlsError::ClientCertificate("UnknownIssuer".to_string())));
        let alert = rustls::Error::AlertReceived(AlertDescription::UnknownCA);
        assert_eq!(stranger.client_error, Some(alert));

        let old = clients.issue_with(&["old.example.org"], |params| {
            params.not_after = OffsetDateTime::now_utc() - Duration::days(1);
        });
        let config = Arc::new(client_with(&place.authority, &[version], Some(&old)));
        let mut expired = Pipe::new(&endpoint, &config, "a.org");
        expired.exchange();
        assert!(
            matches!(&expired.ended, Some(TlsError::ClientCertificate(text)) if text.contains("Expired"))
        );
    }
}

#[test]
fn an_optional_client_certificate() {
    let (place, clients, strangers) = (Place::new(), Authority::new("Clients"), Authority::new("Strangers"));
    let policy = place.with_clients(&clients, ClientCertificateMode::Optional);
    let (endpoint, _) = open(vec![site(&["a.org"], vec![place.source("a", &["a.org"])], policy)]);
    let none = Pipe::connect(&endpoint, &Arc::new(client(&place.authority)), "a.org");
    assert_eq!(none.session.client_certificate(), None);
    let ada = clients.issue(&["ada.example.org"]);
    let config = client_with(&place.authority, &[&TLS13], Some(&ada));
    let known = Pipe::connect(&endpoint, &Arc::new(config), "a.org");
    assert_eq!(known.session.client_certificate().unwrap().common_name.as_deref(), Some("ada.example.org"));
    let eve = strangers.issue(&["ada.example.org"]);
    let config = client_with(&place.authority, &[&TLS13], Some(&eve));
    let mut stranger = Pipe::new(&endpoint, &Arc::new(config), "a.org");
    stranger.exchange();
    assert_eq!(stranger.ended, Some(TlsError::ClientCertificate("UnknownIssuer".to_string())));
}

#[test]
fn a_revoked_client_certificate() {
    let (place, clients) = (Place::new(), Authority::new("Clients"));
    let serial = |number: u8| rcgen::SerialNumber::from_slice(&[number]);
    let now = OffsetDateTime::now_utc();
    let list = rcgen::CertificateRevocationListParams {
        this_update: now - Duration::days(1),
        next_update: now + Duration::days(1),
        crl_number: serial(1),
        issuing_distribution_point: None,
        revoked_certs: vec![rcgen::RevokedCertParams {
            serial_number: serial(7),
            revocation_time: now - Duration::days(1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    let list = list.signed_by(clients.issuer()).unwrap().pem().unwrap();
    let mut policy = place.with_clients(&clients, ClientCertificateMode::Required);
    if let Some(authorities) = &mut policy.client_authorities {
        authorities.revocation_lists.push(place.files.write("revoked.pem", &list));
    }
    let (endpoint, _) = open(vec![site(&["a.org"], vec![place.source("a", &["a.org"])], policy)]);
    for (number, revoked) in [(6, false), (7, true)] {
        let pair = clients.issue_with(&["ada.org"], |params| params.serial_number = Some(serial(number)));
        let config = client_with(&place.authority, &[&TLS13], Some(&pair));
        let mut pipe = Pipe::new(&endpoint, &Arc::new(config), "a.org");
        pipe.exchange();
        let expected = revoked.then(|| TlsError::ClientCertificate("Revoked".to_string()));
        assert_eq!(pipe.ended, expected);
    }
}

#[test]
fn each_site_has_its_own_rules() {
    let (place, clients) = (Place::new(), Authority::new("Clients"));
    let closed = place.with_clients(&clients, ClientCertificateMode::Required);
    let certificate = place.source("both", &["open.org", "closed.org"]);
    let new_only = Policy { minimum_version: MinimumVersion::Tls13, ..Policy::default() };
    let (endpoint, _) = open(vec![
        site(&["open.org"], vec![certificate.clone()], Policy::default()),
        site(&["closed.org"], vec![certificate.clone()], closed),
        site(&["new.org"], vec![place.source("new", &["new.org"])], new_only),
        site(&["also-open.org"], vec![place.source("also", &["also-open.org"])], Policy::default()),
    ]);
    let config = Arc::new(client(&place.authority));
    let open_session = Pipe::connect(&endpoint, &config, "open.org");
    let may = |host: &str| open_session.session.may_serve(host);
    // The same rules: one connection may carry requests for both, as browsers do.
    assert!(may("open.org") && may("also-open.org") && may("unknown.org"));
    assert!(!may("closed.org") && !may("new.org"));

    let mut refused = Pipe::new(&endpoint, &config, "closed.org");
    refused.exchange();
    assert_eq!(refused.ended, Some(TlsError::ClientCertificate("the client sent none".to_string())));
    let ada = clients.issue(&["ada.org"]);
    let identified = Arc::new(client_with(&place.authority, &[&TLS13, &TLS12], Some(&ada)));
    let closed_session = Pipe::connect(&endpoint, &identified, "closed.org");
    assert!(closed_session.session.client_certificate().is_some());
    assert!(closed_session.session.may_serve("closed.org") && !closed_session.session.may_serve("open.org"));

    let old = Arc::new(client_with(&place.authority, &[&TLS12], None));
    let mut refused = Pipe::new(&endpoint, &old, "new.org");
    refused.exchange();
    assert!(matches!(refused.ended, Some(TlsError::NothingInCommon(_))));
    Pipe::connect(&endpoint, &old, "open.org");
}

#[test]
fn a_session_does_not_cross_to_other_rules() {
    for version in [&TLS13, &TLS12] {
        // One name on two addresses: without client certificates on one, with them on the other.
        let (place, clients, shared) = (Place::new(), Authority::new("Clients"), TlsShared::new());
        let closed = place.with_clients(&clients, ClientCertificateMode::Required);
        let certificate = place.source("a", &["a.org"]);
        let open = |policy: Policy| {
            TlsEndpoint::open(settings(vec![site(&["a.org"], vec![certificate.clone()], policy)]), &shared)
                .unwrap()
                .0
        };
        let (open_endpoint, closed_endpoint) = (open(Policy::default()), open(closed));
        let config = Arc::new(client_with(&place.authority, &[version], None));
        Pipe::connect(&open_endpoint, &config, "a.org");
        assert!(Pipe::connect(&open_endpoint, &config, "a.org").session.is_resumed());
        let mut crossed = Pipe::new(&closed_endpoint, &config, "a.org");
        crossed.exchange();
        assert_eq!(crossed.ended, Some(TlsError::ClientCertificate("the client sent none".to_string())));
    }
}

// ---- sessions over reloads

#[test]
fn sessions_outlive_a_reload_and_serve_all_endpoints() {
    for version in [&TLS13, &TLS12] {
        for tickets in [true, false] {
            let place = Place::new();
            let policy =
                Policy { resumption: Resumption { tickets, ..Resumption::default() }, ..Policy::default() };
            let settings = settings(vec![site(&["a.org"], vec![place.source("a", &["a.org"])], policy)]);
            let shared = TlsShared::new();
            let (before, _) = TlsEndpoint::open(settings.clone(), &shared).unwrap();
            let config = Arc::new(client_with(&place.authority, &[version], None));
            Pipe::connect(&before, &config, "a.org");
            let (after, _) = TlsEndpoint::open(settings.clone(), &shared).unwrap();
            drop(before);
            assert!(Pipe::connect(&after, &config, "a.org").session.is_resumed());
            let (stranger, _) = TlsEndpoint::open(settings, &TlsShared::new()).unwrap();
            assert!(!Pipe::connect(&stranger, &config, "a.org").session.is_resumed());
        }
    }
}

// ---- files that change

#[test]
fn a_new_certificate_is_used_and_connections_continue() {
    let scene = Scene::new();
    let config = Arc::new(without_resumption(scene.client()));
    let mut before = Pipe::connect(&scene.endpoint, &config, "localhost");
    let mut between = Pipe::new(&scene.endpoint, &config, "localhost");
    let first = before.client.peer_certificates().unwrap()[0].clone();

    let renewed = scene.authority.issue(&["localhost"]);
    scene.files.write_pair("localhost", &renewed);
    assert_eq!(scene.endpoint.refresh(), []);
    let notices = scene.endpoint.refresh();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!(notices[0].level, NoticeLevel::Info);
    assert!(notices[0].text.contains("localhost.pem loaded, valid until"), "{notices:?}");
    assert_eq!(scene.endpoint.refresh(), []);

    let after = Pipe::connect(&scene.endpoint, &config, "localhost");
    assert_ne!(after.client.peer_certificates().unwrap()[0], first);
    // One connection whose handshake had begun, and one that was open.
    between.exchange();
    assert!(between.session.is_open());
    before.client_sends(b"still here");
    before.server_sends([b"so am I", b""]);
    before.exchange();
    assert_eq!(
        (before.plaintext.as_slice(), before.client_plaintext.as_slice()),
        (&b"still here"[..], &b"so am I"[..])
    );
}

#[test]
fn a_broken_certificate_keeps_the_old_one_and_is_reported_once() {
    let scene = Scene::new();
    let config = Arc::new(without_resumption(scene.client()));
    let first =
        Pipe::connect(&scene.endpoint, &config, "localhost").client.peer_certificates().unwrap()[0].clone();
    let other_key = scene.authority.issue(&["localhost"]).key;
    let breakages = [
        ("localhost.pem", "garbage".to_string(), "holds no certificate"),
        ("localhost.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n".to_string(), "is cut off"),
        ("localhost.key", other_key, "is not the key of the certificate in"),
    ];
    for (file, text, reason) in breakages {
        let good = std::fs::read_to_string(scene.files.path(file)).unwrap();
        scene.files.write(file, &text);
        assert_eq!(scene.endpoint.refresh(), []);
        let notices = scene.endpoint.refresh();
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert_eq!(notices[0].level, NoticeLevel::Warning);
        assert!(notices[0].text.contains(reason) && notices[0].text.contains("stays"), "{notices:?}");
        for _ in 0..3 {
            assert_eq!(scene.endpoint.refresh(), []);
        }
        let now = Pipe::connect(&scene.endpoint, &config, "localhost");
        assert_eq!(now.client.peer_certificates().unwrap()[0], first);
        scene.files.write(file, &good);
        scene.endpoint.refresh();
        assert!(texts(&scene.endpoint.refresh())[0].contains("loaded"));
    }
    std::fs::remove_file(scene.files.path("localhost.key")).unwrap();
    scene.endpoint.refresh();
    let notices = scene.endpoint.refresh();
    assert!(texts(&notices)[0].contains("localhost.key: there is no such file"), "{notices:?}");
    Pipe::connect(&scene.endpoint, &config, "localhost");
}

#[test]
fn new_authorities_for_clients_end_old_sessions() {
    let (place, before, after) = (Place::new(), Authority::new("Before"), Authority::new("After"));
    let policy = place.with_clients(&before, ClientCertificateMode::Required);
    let (endpoint, _) = open(vec![site(&["a.org"], vec![place.source("a", &["a.org"])], policy)]);
    let ada = Arc::new(client_with(&place.authority, &[&TLS13], Some(&before.issue(&["ada.org"]))));
    Pipe::connect(&endpoint, &ada, "a.org");
    assert!(Pipe::connect(&endpoint, &ada, "a.org").session.is_resumed());

    place.files.write("clients.pem", &after.pem());
    endpoint.refresh();
    assert!(texts(&endpoint.refresh())[0].contains("authorities for client certificates reloaded"));
    let mut refused = Pipe::new(&endpoint, &ada, "a.org");
    refused.exchange();
    assert_eq!(refused.ended, Some(TlsError::ClientCertificate("UnknownIssuer".to_string())));
    let bob = Arc::new(client_with(&place.authority, &[&TLS13], Some(&after.issue(&["bob.org"]))));
    Pipe::connect(&endpoint, &bob, "a.org");

    place.files.write("clients.pem", "nothing");
    endpoint.refresh();
    let notices = endpoint.refresh();
    assert!(texts(&notices)[0].ends_with("the previous authorities stay"), "{notices:?}");
    Pipe::connect(&endpoint, &bob, "a.org");
}

#[test]
fn a_certificate_that_is_not_there_yet() {
    let place = Place::new();
    let (chain, key) = (place.files.path("later.pem"), place.files.path("later.key"));
    let later = CertificateSource::Files { chain, key, may_be_absent: true };
    let (endpoint, notices) = open(vec![
        site(&["now.org"], vec![place.source("now", &["now.org"])], Policy::default()),
        site(&["later.org"], vec![later], Policy::default()),
    ]);
    assert_eq!(notices.len(), 1);
    assert!(notices[0].text.contains("site later.org has no certificate yet"), "{notices:?}");
    let config = Arc::new(client(&place.authority));
    Pipe::connect(&endpoint, &config, "now.org");
    let mut early = Pipe::new(&endpoint, &config, "later.org");
    early.exchange();
    assert_eq!(early.ended, Some(TlsError::NoCertificate));
    assert_eq!(endpoint.refresh(), []);
    place.source("later", &["later.org"]);
    endpoint.refresh();
    assert!(texts(&endpoint.refresh())[0].contains("loaded"));
    Pipe::connect(&endpoint, &config, "later.org");
}

#[test]
fn an_acme_authority_is_answered_while_there_is_a_challenge() {
    let (place, shared) = (Place::new(), TlsShared::new());
    let clients = Authority::new("Clients");
    let policy = place.with_clients(&clients, ClientCertificateMode::Required);
    let sites = vec![site(&["a.org"], vec![place.source("a", &["a.org"])], policy)];
    let (endpoint, _) = TlsEndpoint::open(settings(sites), &shared).unwrap();
    let mut config = client(&place.authority);
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    config.dangerous().set_certificate_verifier(Arc::new(trust::Everything));
    let config = Arc::new(config);
    let refused = |name: &str| {
        let mut pipe = Pipe::new(&endpoint, &config, name);
        pipe.exchange();
        pipe.ended
    };
    assert_eq!(refused("a.org"), Some(TlsError::NothingInCommon("NoApplicationProtocol".to_string())));

    let proof = development_certificate(
        &["proof.a.org".to_string()],
        None,
        &rustls::crypto::aws_lc_rs::default_provider(),
        OffsetDateTime::now_utc(),
    );
    shared.add_challenge("A.org", proof.unwrap().loaded.certified);
    // No client certificate is requested.
    let pipe = Pipe::connect(&endpoint, &config, "a.org");
    assert!(pipe.session.is_acme_challenge());
    assert!(pipe.certificate_names().contains(&"DNSName(proof.a.org)".to_string()));
    assert_eq!(refused("b.org"), Some(TlsError::NoCertificate));
    shared.remove_challenge("a.org");
    assert_eq!(refused("a.org"), Some(TlsError::NothingInCommon("NoApplicationProtocol".to_string())));
}

// ---- errors are reported clearly

/// Made by `openssl x509 -req -signkey`, which adds no extensions by itself.
const VERSION_1: &str = "-----BEGIN CERTIFICATE-----\n\
    MIIBHDCBwwIUeMhFpPJ5TRekqptWlZSnmZdcQE0wCgYIKoZIzj0EAwIwEDEOMAwG\n\
    A1UEAwwFYS5vcmcwIBcNMjYxMTI0MDAyMTQyWhgPMjEyNjEwMzEwMDIxNDJaMBAx\n\
    DjAMBgNVBAMMBWEub3JnMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE2IUasH8V\n\
    8BwVPJlFDA8EXxriwmiRYswSlWpUPWsTfXLwFwO5bMyO0dgpvMfXVd7gW0+8AbYx\n\
    peUBik+7nMSJKTAKBggqhkjOPQQDAgNIADBFAiEAiK7uoUlhcx/8g8rgmgPi9UnU\n\
    C/YtT7o9rDQ4vJ5KVlgCIFiDR8Xa9PQ7fvXHH4iSce17789boTNKHeeapBhwzaDg\n\
    -----END CERTIFICATE-----\n";

#[test]
fn unusable_files_are_reported_clearly() {
    let place = Place::new();
    let pair = place.authority.issue(&["a.org"]);
    let other = place.authority.issue(&["a.org"]);
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let request = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let no_base64 = "-----BEGIN CERTIFICATE-----\n%%%%\n-----END CERTIFICATE-----\n";
    let weak = "-----BEGIN PRIVATE KEY-----\nMAAA\n-----END PRIVATE KEY-----\n";
    let cut = &pair.certificate[..300];
    let two_keys = pair.key.clone() + &other.key;
    let der = String::from_utf8(vec![0x30, 0x01, 0x02]).unwrap();
    let cases: [(&str, &str, &str); 14] = [
        ("", &pair.key, "chain.pem: holds no certificate: it is empty"),
        ("hello", &pair.key, "chain.pem: holds no certificate: it is not in PEM form"),
        (&pair.key, &pair.key, "chain.pem: holds no certificate: it holds a private key"),
        (request, &pair.key, "chain.pem: holds no certificate: it holds a certificate request"),
        (&der, &pair.key, "chain.pem: holds no certificate: it is in DER form"),
        (cut, &pair.key, "chain.pem: is cut off: the line '-----END CERTIFICATE-----' is missing"),
        (no_base64, &pair.key, "chain.pem: is damaged: the text between BEGIN and END is not base64"),
        (damaged, &pair.key, "chain.pem: certificate 1 in it is damaged"),
        (VERSION_1, &pair.key, "chain.pem: the certificate is of X.509 version 1, which has no place"),
        (&pair.certificate, &pair.certificate, "key.pem: holds no private key: it holds a certificate"),
        (&pair.certificate, locked, "key.pem: holds no private key: its key is locked with a passphrase"),
        (&pair.certificate, &two_keys, "key.pem: holds more than one private key"),
        (&pair.certificate, weak, "key.pem: the key cannot be used"),
        (&pair.certificate, &other.key, "key.pem: is not the key of the certificate in"),
    ];
    for (chain, key, expected) in cases {
        let source = CertificateSource::Files {
            chain: place.files.write("chain.pem", chain),
            key: place.files.write("key.pem", key),
            may_be_absent: false,
        };
        let error = open_error(vec![site(&["a.org"], vec![source], Policy::default())]);
        assert!(
            error.starts_with("site a.org: ") && error.contains(expected),
            "{error}\nexpected {expected}"
        );
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let place = Place::new();
    let absent = |name: &str| CertificateSource::Files {
        chain: place.files.path(name),
        key: place.files.directory.path().to_path_buf(),
        may_be_absent: false,
    };
    let key_is_directory = CertificateSource::Files {
        chain: place.files.write("chain.pem", &place.authority.issue(&["c.org"]).certificate),
        key: place.files.directory.path().to_path_buf(),
        may_be_absent: false,
    };
    let mut policy = place.with_clients(&Authority::new("Clients"), ClientCertificateMode::Required);
    if let Some(authorities) = &mut policy.client_authorities {
        authorities.authorities = place.files.path("no-authorities.pem");
    }
    policy.protocols = vec![String::new(), "acme-tls/1".to_string()];
    policy.resumption.tickets_per_handshake = 5;
    let error = open_error(vec![
        site(&["a.org"], vec![], Policy::default()),
        site(&["b org"], vec![absent("b.pem")], policy),
        site(&["c.org"], vec![key_is_directory], Policy::default()),
    ]);
    let expected = [
        "site a.org has no certificate",
        "site b org: 'b org' is neither a host name nor a wildcard",
        "site b org: '' is not an application protocol",
        "site b org: 'acme-tls/1' is not an application protocol",
        "site b org: at most 4 tickets",
        "b.pem: there is no such file",
        "no-authorities.pem: there is no such file",
        "is a directory, not a PEM file",
    ];
    for text in expected {
        assert!(error.contains(text), "{text}\nnot in\n{error}");
    }
    assert_eq!(error.lines().count(), expected.len(), "{error}");
    assert_eq!(open_error(vec![]), "there is no site for TLS here");
}

#[test]
fn what_clients_would_reject_is_a_warning() {
    let place = Place::new();
    let expired = place.authority.issue_with(&["a.org"], |params| {
        params.not_after = OffsetDateTime::now_utc() - Duration::days(3);
    });
    let early = place.authority.issue_with(&["b.org"], |params| {
        params.not_before = OffsetDateTime::now_utc() + Duration::days(3);
    });
    let ends_soon = place.authority.issue_with(&["c.org"], |params| {
        params.not_before = OffsetDateTime::now_utc() - Duration::days(80);
        params.not_after = OffsetDateTime::now_utc() + Duration::days(3);
    });
    let other_name = place.authority.issue(&["other.org"]);
    let mut alone = place.authority.issue(&["e.org"]);
    alone.certificate =
        alone.certificate.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap().to_string();
    let mut wrong_order = place.authority.issue(&["f.org"]);
    wrong_order.certificate = alone.certificate.clone() + &Authority::new("Another").pem();
    wrong_order.key.clone_from(&alone.key);
    let for_clients = place.authority.issue_with(&["g.org"], |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    });
    let no_names = place.authority.issue_with(&["h.org"], |params| params.subject_alt_names.clear());
    let cases = [
        ("a.org", &expired, "the certificate expired on"),
        ("b.org", &early, "the certificate is not valid before"),
        ("c.org", &ends_soon, "the certificate expires on"),
        ("d.org", &other_name, "no certificate of it is for 'd.org'"),
        ("e.org", &alone, "there is no certificate of the authority beside it"),
        ("e.org", &wrong_order, "certificate 2 did not issue certificate 1"),
        ("g.org", &for_clients, "is not meant for servers"),
        ("h.org", &no_names, "has no subject alternative name"),
    ];
    for (host, pair, expected) in cases {
        let source = place.files.write_pair(host, pair);
        let (endpoint, notices) = open(vec![site(&[host], vec![source], Policy::default())]);
        assert!(
            texts(&notices).iter().any(|text| text.contains(expected)),
            "{expected}\nnot in\n{notices:#?}"
        );
        assert!(notices.iter().all(|notice| notice.level == NoticeLevel::Warning));
        assert_eq!(notices.len(), 1, "{notices:#?}");
        assert_eq!(endpoint.refresh(), [], "said again");
    }
    let source = place.source("i.org", &["i.org"]);
    set_mode(&place.files.path("i.org.key"), 0o644);
    let (_, notices) = open(vec![site(&["i.org"], vec![source], Policy::default())]);
    assert!(
        texts(&notices)[0].contains("every user of this machine may read this key (mode 644)"),
        "{notices:?}"
    );
}

// ---- the development certificate

#[test]
fn a_development_certificate_in_memory() {
    let source =
        CertificateSource::SelfSigned { names: vec!["dev.example.org".to_string()], directory: None };
    let sites = settings(vec![site(&["localhost", "dev.example.org"], vec![source], Policy::default())]);
    let shared = TlsShared::new();
    let (endpoint, notices) = TlsEndpoint::open(sites.clone(), &shared).unwrap();
    assert!(texts(&notices)[0].contains("a development certificate was made"), "{notices:?}");
    assert_eq!(notices.len(), 1, "{notices:?}");
    let shown = |endpoint: &TlsEndpoint| names_shown(endpoint, &Authority::new("Nobody"), "localhost");
    let shown = shown(&endpoint);
    assert_eq!((shown.len(), shown[0].as_str()), (4, "DNSName(localhost)"));
    assert_eq!(
        (shown[1].as_str(), shown[3].as_str()),
        ("IPAddress(7f:00:00:01)", "DNSName(dev.example.org)")
    );
    // The same over a reload.
    let (after, notices) = TlsEndpoint::open(sites, &shared).unwrap();
    assert_eq!(notices, []);
    let certificate = |endpoint: &TlsEndpoint| {
        let mut config = client(&Authority::new("Nobody"));
        config.dangerous().set_certificate_verifier(Arc::new(trust::Everything));
        let pipe = Pipe::connect(endpoint, &Arc::new(config), "localhost");
        pipe.client.peer_certificates().unwrap()[0].clone()
    };
    assert_eq!(certificate(&endpoint), certificate(&after));
}

#[test]
fn a_development_certificate_that_is_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let files = Files::new();
    let directory = files.path("deep/inside");
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let now = OffsetDateTime::now_utc();
    let make = |names: &[&str], now| {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        development_certificate(&names, Some(&directory), &provider, now).unwrap()
    };
    let first = make(&["dev.org"], now);
    assert!(first.is_new);
    let mode = |name: &str| std::fs::metadata(directory.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("development-key.pem"), 0o600);
    assert_eq!(mode("development-certificate.pem") & 0o600, 0o600);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2);

    let again = make(&[], now);
    assert!(!again.is_new && again.loaded.certified.cert == first.loaded.certified.cert);
    assert!(make(&["other.org"], now).is_new);
    assert!(make(&["other.org"], now + Duration::days(390)).is_new, "it would expire soon");
    std::fs::write(directory.join("development-key.pem"), "broken").unwrap();
    assert!(make(&["other.org"], now + Duration::days(390)).is_new);

    let kept = directory.join("development-certificate.pem");
    assert_eq!(make(&[], now).loaded.origin, kept.display().to_string());

    let nonsense = development_certificate(&["a b".to_string()], None, &provider, now);
    assert!(nonsense.unwrap_err().to_string().contains("'a b' is neither a host name nor an address"));
    let nowhere = development_certificate(&[], Some("/proc/none".as_ref()), &provider, now);
    assert!(nowhere.unwrap_err().to_string().contains("it cannot be kept in /proc/none"));
}

#[test]
fn a_kept_development_certificate_is_trusted_if_configured() {
    let files = Files::new();
    let directory = Some(files.path("kept"));
    let source = CertificateSource::SelfSigned { names: Vec::new(), directory };
    let (endpoint, _) = open(vec![site(&[], vec![source], Policy::default())]);
    let pem = std::fs::read(files.path("kept/development-certificate.pem")).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::pem::PemObject::from_pem_slice(&pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    for name in ["localhost", "127.0.0.1", "::1"] {
        Pipe::connect(&endpoint, &config, name);
    }
}

/// A client that accepts every certificate.
mod trust {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};

    #[derive(Debug)]
    pub struct Everything;

    impl ServerCertVerifier for Everything {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::RSA_PSS_SHA256]
        }
    }
}
