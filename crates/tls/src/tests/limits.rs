//! Tests of a session with a client that breaks the rules or tries to exhaust the server.

use std::sync::Arc;

use proptest::prelude::*;
use rustls::crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ConnectionTrafficSecrets, ContentType, ProtocolVersion, SupportedCipherSuite,
    SupportedProtocolVersion,
};

use super::support::*;
use crate::{CiphertextBuffer, TlsError};

/// A client that writes records of its own, with the keys of a real handshake.
struct Forger {
    encrypter: Box<dyn MessageEncrypter>,
    sequence: u64,
}

impl Forger {
    fn record(&mut self, kind: ContentType, content: &[u8]) -> Vec<u8> {
        let message = OutboundPlainMessage {
            typ: kind,
            version: ProtocolVersion::TLSv1_2,
            payload: OutboundChunks::Single(content),
        };
        let record = self.encrypter.encrypt(message, self.sequence).unwrap();
        self.sequence += 1;
        record.encode()
    }
}

/// An open pipe, and the keys to forge what its client sends next.
fn forge(scene: &Scene, version: &'static SupportedProtocolVersion) -> (Pipe, Forger) {
    let mut config = client_with(&scene.authority, &[version], None);
    config.enable_secret_extraction = true;
    let config = Arc::new(without_resumption(config));
    let mut pipe = Pipe::connect(&scene.endpoint, &config, "localhost");
    let replacement = Pipe::new(&scene.endpoint, &config, "localhost").client;
    let client = std::mem::replace(&mut pipe.client, replacement);
    let suite = client.negotiated_cipher_suite().unwrap();
    let (sequence, secrets) = client.dangerous_extract_secrets().unwrap().tx;
    let (key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } | ConnectionTrafficSecrets::Aes128Gcm { key, iv } => {
            (key, iv)
        }
        _ => panic!("another suite"),
    };
    let encrypter = match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => {
            suite.aead_alg.encrypter(key, &iv.as_ref()[..4], &iv.as_ref()[4..])
        }
    };
    let mut forger = Forger { encrypter, sequence: 0 };
    // The encrypter requires every sequence number from the first on.
    while forger.sequence < sequence {
        forger.record(ContentType::Handshake, b"was sent");
    }
    (pipe, forger)
}

#[test]
fn forged_records_are_understood() {
    for version in [&TLS13, &TLS12] {
        let scene = Scene::new();
        let (mut pipe, mut forger) = forge(&scene, version);
        let mut bytes = forger.record(ContentType::ApplicationData, b"one");
        bytes.extend(forger.record(ContentType::ApplicationData, b"two"));
        pipe.give(&mut bytes);
        assert_eq!((pipe.plaintext.as_slice(), &pipe.ended), (&b"onetwo"[..], &None));
    }
}

#[test]
fn records_without_content_are_limited() {
    for version in [&TLS13, &TLS12] {
        let scene = Scene::new();
        let (mut pipe, mut forger) = forge(&scene, version);
        for _ in 0..3 {
            for _ in 0..32 {
                pipe.give(&mut forger.record(ContentType::ApplicationData, b""));
            }
            pipe.give(&mut forger.record(ContentType::ApplicationData, b"x"));
        }
        assert_eq!((pipe.plaintext.as_slice(), &pipe.ended), (&b"xxx"[..], &None));
        for _ in 0..33 {
            pipe.give(&mut forger.record(ContentType::ApplicationData, b""));
        }
        assert!(matches!(pipe.ended, Some(TlsError::Broken(_))), "{:?}", pipe.ended);
    }
}

#[test]
fn key_updates_are_limited() {
    let scene = Scene::new();
    let config = Arc::new(client_with(&scene.authority, &[&TLS13], None));
    let mut pipe = Pipe::connect(&scene.endpoint, &config, "localhost");
    for _ in 0..3 {
        for _ in 0..32 {
            pipe.client.refresh_traffic_keys().unwrap();
        }
        pipe.client_sends(b"x");
    }
    assert_eq!((pipe.plaintext.len(), &pipe.ended), (3, &None));
    assert!(pipe.out.is_empty(), "they are answered only with the next data");
    for _ in 0..33 {
        pipe.client.refresh_traffic_keys().unwrap();
    }
    pipe.exchange();
    assert!(matches!(pipe.ended, Some(TlsError::Broken(_))), "{:?}", pipe.ended);
}

#[test]
fn renegotiation_is_refused() {
    let scene = Scene::new();
    let (mut pipe, mut forger) = forge(&scene, &TLS12);
    let hello = hello_bytes("localhost", &[]);
    pipe.give(&mut forger.record(ContentType::Handshake, &hello[5..]));
    assert_eq!(pipe.ended, None);
    assert!(!pipe.out.is_empty(), "an alert says so: no_renegotiation");
    pipe.out.clear();
    pipe.give(&mut forger.record(ContentType::ApplicationData, b"then not"));
    assert_eq!((pipe.plaintext.as_slice(), &pipe.ended), (&b"then not"[..], &None));
    pipe.give(&mut forger.record(ContentType::Handshake, &hello[5..]));
    assert!(matches!(pipe.ended, Some(TlsError::Broken(_))), "{:?}", pipe.ended);
}

#[test]
fn a_handshake_message_in_pieces_after_the_handshake() {
    let scene = Scene::new();
    for piece_bytes in [1, usize::MAX] {
        let (mut pipe, mut forger) = forge(&scene, &TLS13);
        pipe.piece_bytes = piece_bytes;
        // A key update, byte by byte; in between, data goes out.
        for byte in [24, 0, 0, 1] {
            pipe.give(&mut forger.record(ContentType::Handshake, &[byte]));
            assert_eq!(pipe.ended, None);
            pipe.server_sends([b"meanwhile", b""]);
            pipe.out.clear();
        }
        pipe.give(&mut forger.record(ContentType::Handshake, &[0]));
        assert_eq!(pipe.ended, None);
        pipe.server_sends([b"after", b""]);
        assert_eq!(pipe.out.as_slice().len(), 5 + 5 + 1 + 16);
        // Data between the pieces is not allowed.
        let (mut pipe, mut forger) = forge(&scene, &TLS13);
        pipe.give(&mut forger.record(ContentType::Handshake, &[24, 0]));
        pipe.give(&mut forger.record(ContentType::ApplicationData, b"x"));
        assert!(matches!(pipe.ended, Some(TlsError::Broken(_))), "{:?}", pipe.ended);
    }
}

#[test]
fn an_endless_handshake_message_ends() {
    for version in [&TLS13, &TLS12] {
        for piece in [1, 1000] {
            let scene = Scene::new();
            let (mut pipe, mut forger) = forge(&scene, version);
            pipe.give(&mut forger.record(ContentType::Handshake, &[24, 0, 0xff, 0xf0]));
            let mut given = 0;
            while pipe.ended.is_none() {
                let mut record = forger.record(ContentType::Handshake, &vec![0; piece]);
                given += record.len();
                pipe.give(&mut record);
                assert!(given < 40_000, "after {given} bytes");
            }
            assert!(matches!(pipe.ended, Some(TlsError::TooMuch | TlsError::Broken(_))), "{:?}", pipe.ended);
        }
    }
}

#[test]
fn a_handshake_that_does_not_end_is_ended() {
    let scene = Scene::new();
    let record = |content: &[u8]| {
        let mut bytes = vec![22, 3, 1];
        bytes.extend_from_slice(&u16::try_from(content.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(content);
        bytes
    };
    for piece in [1, 100, 16_000] {
        let mut session = scene.endpoint.session();
        let (mut plaintext, mut out) = (Vec::new(), CiphertextBuffer::default());
        // The longest message that rustls waits for; it never becomes complete.
        let mut bytes = record(&[1, 0, 0xff, 0xff]);
        let mut given = 0;
        let error = loop {
            given += bytes.len();
            if let Err(error) = session.receive(&mut bytes, &mut plaintext, &mut out) {
                break error;
            }
            assert!(given < 200_000);
            bytes = record(&vec![0; piece]);
        };
        assert!(matches!(error, TlsError::TooMuch | TlsError::Broken(_)), "{error:?}");
        assert!(given <= 100_000 && !session.is_handshaking());
    }
}

#[test]
fn a_record_that_is_too_long_is_refused_at_its_header() {
    let scene = Scene::new();
    let mut pipe = Pipe::connect(&scene.endpoint, &Arc::new(scene.client()), "localhost");
    pipe.piece_bytes = 1;
    pipe.give(&mut [23, 3, 3, 0xff, 0xff]);
    assert!(matches!(pipe.ended, Some(TlsError::Broken(_))), "{:?}", pipe.ended);
    assert!(!pipe.out.is_empty(), "an alert says so");
}

#[test]
fn a_damaged_record_ends_the_session_with_an_alert() {
    for version in [&TLS13, &TLS12] {
        let scene = Scene::new();
        let (mut pipe, mut forger) = forge(&scene, version);
        let mut record = forger.record(ContentType::ApplicationData, b"data");
        let last = record.len() - 1;
        record[last] ^= 1;
        pipe.give(&mut record);
        assert!(matches!(pipe.ended, Some(TlsError::Broken(_))), "{:?}", pipe.ended);
        assert!(!pipe.out.is_empty() && pipe.plaintext.is_empty());
        assert_eq!(pipe.session.send([b"x", b""], &mut pipe.out), Err(TlsError::NotOpen));
        let before = pipe.out.as_slice().len();
        pipe.session.close(&mut pipe.out);
        assert_eq!(pipe.out.as_slice().len(), before, "after an alert there is no goodbye");
    }
}

#[test]
fn an_alert_of_the_client_is_understood() {
    let scene = Scene::new();
    let stranger = Authority::new("Stranger");
    let mut pipe = Pipe::new(&scene.endpoint, &Arc::new(client(&stranger)), "localhost");
    pipe.exchange();
    assert!(matches!(pipe.ended, Some(TlsError::EndedByClient(_))), "{:?}", pipe.ended);
}

#[test]
fn recorded_data_cannot_be_replayed() {
    // A recorded request cannot be decrypted in another session.
    let scene = Scene::new();
    let (mut pipe, mut forger) = forge(&scene, &TLS13);
    let record = forger.record(ContentType::ApplicationData, b"pay");
    pipe.give(&mut record.clone());
    assert_eq!(pipe.plaintext, b"pay");
    pipe.give(&mut record.clone());
    assert!(matches!(pipe.ended, Some(TlsError::Broken(_))));
    let (mut other, _) = forge(&scene, &TLS13);
    other.give(&mut record.clone());
    assert!(matches!(other.ended, Some(TlsError::Broken(_))));
    assert!(other.plaintext.is_empty());
}

thread_local! {
    static SCENE: Scene = Scene::new();
    static CLIENTS: [Arc<ClientConfig>; 2] = SCENE.with(|scene| [&TLS13, &TLS12].map(|version| {
        Arc::new(client_with(&scene.authority, &[version], None))
    }));
}

/// Passes `bytes` to a new session in pieces, and calls it as a connection would.
fn survives(bytes: &mut [u8], piece_bytes: usize) {
    SCENE.with(|scene| {
        let mut session = scene.endpoint.session();
        let (mut plaintext, mut out) = (Vec::new(), CiphertextBuffer::default());
        for piece in bytes.chunks_mut(piece_bytes.max(1)) {
            let received = session.receive(piece, &mut plaintext, &mut out);
            let _ = session.send([b"head", b"body"], &mut out);
            if received.is_err() {
                assert!(!session.is_open() && !session.is_handshaking());
                break;
            }
        }
        session.close(&mut out);
        assert!(plaintext.len() <= bytes.len());
    });
}

proptest! {
    #[test]
    fn any_bytes_are_survived(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..500),
        piece_bytes in 1_usize..200,
    ) {
        survives(&mut bytes, piece_bytes);
        // As the content of records.
        for kind in 20..=24 {
            let mut records = Vec::new();
            for piece in bytes.chunks(piece_bytes) {
                records.extend_from_slice(&[kind, 3, 3, 0, piece.len() as u8]);
                records.extend_from_slice(piece);
            }
            survives(&mut records, piece_bytes);
        }
    }

    #[test]
    fn damaged_hellos_are_survived(
        flips in proptest::collection::vec((0_usize..2000, any::<u8>()), 1..8),
        cut in 0_usize..2000,
        piece_bytes in 1_usize..2000,
    ) {
        let mut bytes = hello_bytes("localhost", &[b"http/1.1"]);
        for (at, mask) in flips {
            let at = at % bytes.len();
            bytes[at] ^= mask;
        }
        survives(&mut bytes, piece_bytes);
        let length = cut % bytes.len();
        survives(&mut bytes[..length], piece_bytes);
    }

    #[test]
    fn damaged_handshakes_and_data_are_survived(
        version in 0_usize..2,
        flight in 0_usize..4,
        at in any::<proptest::sample::Index>(),
        mask in 1_u8..,
        insert in proptest::collection::vec(any::<u8>(), 0..50),
        piece_bytes in 1_usize..3000,
    ) {
        let config = CLIENTS.with(|clients| clients[version].clone());
        SCENE.with(|scene| {
            let mut pipe = Pipe::new(&scene.endpoint, &config, "localhost");
            pipe.piece_bytes = piece_bytes;
            for number in 0..4 {
                let mut bytes = Vec::new();
                while pipe.client.wants_write() {
                    pipe.client.write_tls(&mut bytes).unwrap();
                }
                if number == flight && !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] ^= mask;
                    bytes.splice(at..at, insert.iter().copied());
                }
                pipe.give(&mut bytes);
                let answer = pipe.out.as_slice().to_vec();
                pipe.out.clear();
                pipe.give_client(&answer);
                let _ = std::io::Write::write_all(&mut pipe.client.writer(), &[7; 3000]);
            }
            let _ = pipe.session.send([&[1; 100], &[2; 20_000]], &mut pipe.out);
            pipe.session.close(&mut pipe.out);
            assert!(pipe.plaintext.iter().all(|byte| *byte == 7), "what was not sent was heard");
        });
    }

    #[test]
    fn forged_records_of_any_kind_are_survived(
        version in 0_usize..2,
        records in proptest::collection::vec(
            (prop_oneof![Just(20_u8), Just(21), Just(22), Just(23), Just(24), any::<u8>()],
             proptest::collection::vec(any::<u8>(), 0..40)),
            1..12,
        ),
        piece_bytes in 1_usize..400,
    ) {
        SCENE.with(|scene| {
            let (mut pipe, mut forger) = forge(scene, [&TLS13, &TLS12][version]);
            pipe.piece_bytes = piece_bytes;
            for (kind, content) in records {
                pipe.give(&mut forger.record(ContentType::from(kind), &content));
                let _ = pipe.session.send([b"x", b"y"], &mut pipe.out);
            }
            pipe.session.close(&mut pipe.out);
        });
    }
}
