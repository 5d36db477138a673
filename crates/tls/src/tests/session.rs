//! Tests of a session with a client that follows the rules.

use std::sync::Arc;

use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};

use super::support::*;
use crate::settings::Resumption;
use crate::{MaximumVersion, MinimumVersion, Policy, RECORD_BYTES, TlsError};

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 7 + index / 251) as u8).collect()
}

#[test]
fn both_versions_carry_data_both_ways() {
    for (version, name, suites) in [(&TLS13, "TLSv1.3", "TLS_"), (&TLS12, "TLSv1.2", "ECDHE-ECDSA-")] {
        let scene = Scene::new();
        let mut config = client_with(&scene.authority, &[version], None);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut pipe = Pipe::connect(&scene.endpoint, &Arc::new(config), "localhost");
        assert_eq!(pipe.session.version(), Some(name));
        assert!(
            pipe.session.cipher_suite().unwrap().starts_with(suites),
            "{:?}",
            pipe.session.cipher_suite()
        );
        assert_eq!(pipe.session.server_name(), Some("localhost"));
        assert_eq!(pipe.session.protocol(), Some(&b"http/1.1"[..]));
        assert!(!pipe.session.is_resumed() && !pipe.session.is_handshaking());
        assert_eq!(pipe.session.client_certificate(), None);
        pipe.client_sends(b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(pipe.plaintext, b"GET / HTTP/1.1\r\n\r\n");
        pipe.server_sends([b"HTTP/1.1 200 OK\r\n\r\n", b"body"]);
        pipe.exchange();
        assert_eq!(pipe.client_received(), b"HTTP/1.1 200 OK\r\n\r\nbody");
    }
}

#[test]
fn the_key_exchange_is_the_best_that_both_have() {
    let scene = Scene::new();
    let pipe = Pipe::connect(&scene.endpoint, &Arc::new(scene.client()), "localhost");
    assert_eq!(pipe.session.key_exchange(), Some("X25519MLKEM768"));
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.kx_groups = vec![rustls::crypto::aws_lc_rs::kx_group::SECP256R1];
    let config = client_of(provider, &scene.authority, &[&TLS13]);
    let pipe = Pipe::connect(&scene.endpoint, &Arc::new(config), "localhost");
    assert_eq!(pipe.session.key_exchange(), Some("secp256r1"));
}

#[test]
fn aes_128_is_taken_unless_the_client_would_rather_not_use_aes() {
    use rustls::CipherSuite::{
        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
    };
    let scene = Scene::new();
    let cases = [
        (TLS13_AES_256_GCM_SHA384, &TLS13, "TLS_AES_128_GCM_SHA256"),
        (TLS13_CHACHA20_POLY1305_SHA256, &TLS13, "TLS_CHACHA20_POLY1305_SHA256"),
        (TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, &TLS12, "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, &TLS12, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ];
    for (first, version, expected) in cases {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.cipher_suites.sort_by_key(|suite| suite.suite() != first);
        let config = client_of(provider, &scene.authority, &[version]);
        let pipe = Pipe::connect(&scene.endpoint, &Arc::new(config), "localhost");
        assert_eq!(pipe.session.cipher_suite(), Some(expected));
    }
    // A client that only has suites that the server prefers least.
    for only in ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"] {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.cipher_suites.retain(|suite| format!("{:?}", suite.suite()).replace("TLS13", "TLS") == only);
        let config = Arc::new(client_of(provider, &scene.authority, &[&TLS13]));
        assert_eq!(Pipe::connect(&scene.endpoint, &config, "localhost").session.cipher_suite(), Some(only));
        assert!(Pipe::connect(&scene.endpoint, &config, "localhost").session.is_resumed());
    }
}

#[test]
fn bodies_of_all_sizes_arrive_whole() {
    let scene = Scene::new();
    for version in [&TLS13, &TLS12] {
        let config = Arc::new(client_with(&scene.authority, &[version], None));
        let mut pipe = Pipe::connect(&scene.endpoint, &config, "localhost");
        for size in [0, 1, RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 100_000, 3_000_000] {
            for head in
                [&b""[..], b"head", &bytes(RECORD_BYTES - 1), &bytes(RECORD_BYTES), &bytes(2 * RECORD_BYTES)]
            {
                let body = bytes(size);
                pipe.server_sends([head, &body]);
                pipe.exchange();
                assert!(
                    pipe.client_received() == [head, &body].concat(),
                    "{size} bytes after {}",
                    head.len()
                );
            }
        }
    }
}

#[test]
fn small_parts_share_a_record() {
    let scene = Scene::new();
    let mut pipe = Pipe::connect(&scene.endpoint, &Arc::new(scene.client()), "localhost");
    pipe.server_sends([&[1; 300], &[2; 6_250]]);
    // Header, content, type and tag.
    assert_eq!(pipe.out.as_slice().len(), 5 + 6_550 + 1 + 16);
    pipe.out.clear();
    pipe.server_sends([&[1; 300], &[2; 2 * RECORD_BYTES]]);
    assert_eq!(pipe.out.as_slice().len(), 300 + 2 * RECORD_BYTES + 3 * 22);
}

#[test]
fn uploads_arrive_whole_however_they_are_cut() {
    let scene = Scene::new();
    for version in [&TLS13, &TLS12] {
        for piece_bytes in [1, 2, 5, 6, 7, 1_000, RECORD_BYTES + 22, 65_536, usize::MAX] {
            let config = Arc::new(client_with(&scene.authority, &[version], None));
            let mut pipe = Pipe::new(&scene.endpoint, &config, "localhost");
            pipe.piece_bytes = piece_bytes;
            pipe.exchange();
            assert_eq!((&pipe.ended, pipe.handshakes_done), (&None, 1), "pieces of {piece_bytes}");
            let body = bytes(if piece_bytes < 8 { 40_000 } else { 500_000 });
            pipe.client_sends(&body);
            assert!(pipe.plaintext == body, "pieces of {piece_bytes}");
            pipe.server_sends([b"answer", b""]);
            pipe.exchange();
            assert_eq!(pipe.client_received(), b"answer");
        }
    }
}

#[test]
fn data_with_the_last_handshake_message_is_received() {
    use std::io::Write as _;
    let scene = Scene::new();
    let mut pipe = Pipe::new(&scene.endpoint, &Arc::new(scene.client()), "localhost");
    pipe.client.writer().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    pipe.exchange();
    assert_eq!(pipe.plaintext, b"GET / HTTP/1.1\r\n\r\n");
    assert!(pipe.received.handshake_done);
}

#[test]
fn one_ticket_goes_out_with_the_first_answer() {
    for (tickets, expected) in [(1, 1), (0, 0), (4, 4)] {
        let resumption = Resumption { tickets_per_handshake: tickets, ..Resumption::default() };
        let scene = Scene::with(Policy { resumption, ..Policy::default() });
        let pipe = Pipe::connect(&scene.endpoint, &Arc::new(scene.client()), "localhost");
        assert_eq!(pipe.client.tls13_tickets_received(), expected);
    }
}

#[test]
fn sessions_are_resumed() {
    let ways = [
        (&TLS13, Resumption::default()),
        (&TLS12, Resumption::default()),
        (&TLS13, Resumption { tickets: false, ..Resumption::default() }),
        (&TLS12, Resumption { tickets: false, ..Resumption::default() }),
    ];
    for (version, resumption) in ways {
        let scene = Scene::with(Policy { resumption: resumption.clone(), ..Policy::default() });
        let config = Arc::new(client_with(&scene.authority, &[version], None));
        let first = Pipe::connect(&scene.endpoint, &config, "localhost");
        assert!(!first.session.is_resumed());
        let second = Pipe::connect(&scene.endpoint, &config, "localhost");
        assert_eq!(
            second.client.handshake_kind(),
            Some(HandshakeKind::Resumed),
            "{version:?} {resumption:?}"
        );
        assert!(second.session.is_resumed());
        assert_eq!(second.session.server_name(), Some("localhost"));
    }
}

#[test]
fn sessions_are_not_resumed_where_that_is_off() {
    for version in [&TLS13, &TLS12] {
        let resumption = Resumption { tickets: false, stored_sessions: 0, ..Resumption::default() };
        let scene = Scene::with(Policy { resumption, ..Policy::default() });
        let config = Arc::new(client_with(&scene.authority, &[version], None));
        Pipe::connect(&scene.endpoint, &config, "localhost");
        let second = Pipe::connect(&scene.endpoint, &config, "localhost");
        assert_eq!(second.client.handshake_kind(), Some(HandshakeKind::Full), "{version:?}");
        assert_eq!(second.client.tls13_tickets_received(), 0);
    }
}

#[test]
fn a_policy_of_tls_1_3_refuses_1_2() {
    let scene = Scene::with(Policy { minimum_version: MinimumVersion::Tls13, ..Policy::default() });
    let mut pipe =
        Pipe::new(&scene.endpoint, &Arc::new(client_with(&scene.authority, &[&TLS12], None)), "localhost");
    pipe.exchange();
    assert!(matches!(pipe.ended, Some(TlsError::NothingInCommon(_))), "{:?}", pipe.ended);
    let alert = rustls::Error::AlertReceived(rustls::AlertDescription::ProtocolVersion);
    assert_eq!(pipe.client_error, Some(alert));
    Pipe::connect(&scene.endpoint, &Arc::new(scene.client()), "localhost");
}

#[test]
fn a_policy_of_tls_1_2_agrees_upon_it_with_all_and_takes_its_sessions_up() {
    let scene = Scene::with(Policy { maximum_version: MaximumVersion::Tls12, ..Policy::default() });
    let config = Arc::new(scene.client());
    Pipe::connect(&scene.endpoint, &config, "localhost");
    let second = Pipe::connect(&scene.endpoint, &config, "localhost");
    assert_eq!(second.client.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
    assert_eq!(second.client.handshake_kind(), Some(HandshakeKind::Resumed));
    let new = Arc::new(client_with(&scene.authority, &[&TLS13], None));
    let mut pipe = Pipe::new(&scene.endpoint, &new, "localhost");
    pipe.exchange();
    assert!(matches!(pipe.ended, Some(TlsError::NothingInCommon(_))), "{:?}", pipe.ended);
}

#[test]
fn the_first_protocol_of_ours_that_the_client_has_is_taken() {
    type Case = (&'static [&'static [u8]], Option<&'static [u8]>);
    let protocols = vec!["h2".to_string(), "http/1.1".to_string()];
    let scene = Scene::with(Policy { protocols, ..Policy::default() });
    let cases: [Case; 4] = [
        (&[b"http/1.1", b"h2"], Some(b"h2")),
        (&[b"http/1.1"], Some(b"http/1.1")),
        (&[b"spdy/3", b"http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ];
    for (offered, expected) in cases {
        let mut config = scene.client();
        config.alpn_protocols = offered.iter().map(|protocol| protocol.to_vec()).collect();
        let pipe = Pipe::connect(&scene.endpoint, &Arc::new(config), "localhost");
        assert_eq!(pipe.session.protocol(), expected);
        assert_eq!(pipe.client.alpn_protocol(), expected);
    }
    let mut config = scene.client();
    config.alpn_protocols = vec![b"spdy/3".to_vec()];
    let mut pipe = Pipe::new(&scene.endpoint, &Arc::new(config), "localhost");
    pipe.exchange();
    assert_eq!(pipe.ended, Some(TlsError::NothingInCommon("NoApplicationProtocol".to_string())));
}

#[test]
fn close_notify_is_sent_and_received() {
    for version in [&TLS13, &TLS12] {
        let scene = Scene::new();
        let config = Arc::new(client_with(&scene.authority, &[version], None));
        // The server first.
        let mut pipe = Pipe::connect(&scene.endpoint, &config, "localhost");
        pipe.server_sends([b"last", b""]);
        pipe.session.close(&mut pipe.out);
        assert!(!pipe.session.is_open());
        assert_eq!(pipe.session.send([b"more", b""], &mut pipe.out), Err(TlsError::NotOpen));
        let sealed = pipe.out.as_slice().to_vec();
        pipe.out.clear();
        pipe.give_client(&sealed);
        let state = pipe.client.process_new_packets().unwrap();
        assert!(state.peer_has_closed());
        assert_eq!(pipe.client_received(), b"last");
        // A second close_notify is not sent; bytes that still arrive are ignored.
        pipe.session.close(&mut pipe.out);
        assert!(pipe.out.is_empty());
        pipe.client_sends(b"ignored");
        assert!(pipe.received.closed && pipe.plaintext.is_empty());

        // The client first: it may still be answered.
        let mut pipe = Pipe::connect(&scene.endpoint, &config, "localhost");
        pipe.client_sends(b"request");
        assert!(!pipe.received.closed);
        pipe.client.send_close_notify();
        pipe.exchange();
        assert!(pipe.received.closed);
        pipe.give(&mut [1, 2, 3]);
        assert_eq!((pipe.ended.clone(), pipe.received.closed), (None, true));
        pipe.server_sends([b"answer", b""]);
        pipe.session.close(&mut pipe.out);
        pipe.exchange();
        assert_eq!(pipe.client_received(), b"answer");
        assert_eq!(pipe.plaintext, b"request");
    }
}

#[test]
fn a_goodbye_before_the_handshake_is_nothing() {
    let scene = Scene::new();
    let mut pipe = Pipe::new(&scene.endpoint, &Arc::new(scene.client()), "localhost");
    pipe.session.close(&mut pipe.out);
    assert!(pipe.out.is_empty());
    let mut session = scene.endpoint.session();
    assert_eq!(session.send([b"x", b""], &mut pipe.out), Err(TlsError::NotOpen));
}

#[test]
fn key_updates_are_followed_and_answered() {
    let scene = Scene::new();
    let config = Arc::new(client_with(&scene.authority, &[&TLS13], None));
    let mut pipe = Pipe::connect(&scene.endpoint, &config, "localhost");
    for round in 0..5_u8 {
        pipe.client.refresh_traffic_keys().unwrap();
        pipe.client_sends(&[round; 100]);
        // Larger than the room that is made for the records alone.
        pipe.server_sends([&[round; 3], &[round; 40_000]]);
        pipe.exchange();
        assert_eq!(pipe.client_received(), vec![round; 40_003]);
    }
    assert_eq!((pipe.plaintext.len(), &pipe.ended), (500, &None));
}

#[test]
fn a_request_in_the_clear_is_known() {
    let scene = Scene::new();
    for request in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PROPFIND /",
    ] {
        for piece_bytes in [1, 3, usize::MAX] {
            let mut pipe = Pipe::new(&scene.endpoint, &Arc::new(scene.client()), "localhost");
            pipe.piece_bytes = piece_bytes;
            pipe.give(&mut request.to_vec());
            assert_eq!(pipe.ended, Some(TlsError::PlainHttp));
            assert!(request.starts_with(pipe.session.received_in_clear()));
            assert!(pipe.session.received_in_clear().len() >= 4);
            assert!(pipe.out.is_empty());
        }
    }
}

#[test]
fn what_only_begins_like_a_request_is_not_one() {
    let scene = Scene::new();
    let mut pipe = Pipe::new(&scene.endpoint, &Arc::new(scene.client()), "localhost");
    pipe.give(&mut b"GE".to_vec());
    assert_eq!(pipe.ended, None);
    pipe.give(&mut b"X\r\n".to_vec());
    assert!(matches!(pipe.ended, Some(TlsError::Broken(_))), "{:?}", pipe.ended);
    // A fatal alert: decode_error.
    assert_eq!(pipe.out.as_slice(), [21, 3, 3, 0, 2, 2, 50]);
}
