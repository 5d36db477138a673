//! Attacks on TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use super::{Attack, Bytes, PATIENCE, cost, read_until_the_end};
use crate::support::{Server, wait_until};

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        protocol: "TLS",
        name: "handshakes that are broken off",
        limit: "`limits.header_timeout`, `limits.connections`, `limits.connections_per_client`",
        make: broken_handshakes,
    },
    Attack {
        protocol: "TLS",
        name: "handshakes that are completed",
        limit: "`limits.connections`, `limits.connections_per_client`; two tickets each",
        make: completed_handshakes,
    },
    Attack {
        protocol: "TLS",
        name: "invalid tickets",
        limit: "a whole handshake instead",
        make: wrong_tickets,
    },
    Attack {
        protocol: "TLS",
        name: "early data",
        limit: "none is accepted over TCP: the data is skipped, 16 KiB at the most",
        make: |server| after_hello(server, &record(23, &[0; 1000]).repeat(1000)),
    },
    Attack {
        protocol: "TLS",
        name: "a ClientHello in records of one byte",
        limit: "`limits.header_timeout`; cost is proportional to the bytes",
        make: tiny_records,
    },
    Attack {
        protocol: "TLS",
        name: "empty records",
        limit: "an alert, and the connection ends",
        make: |server| raw(server, &record(22, &[]).repeat(20_000)),
    },
    Attack {
        protocol: "TLS",
        name: "a ClientHello of 16 MiB",
        limit: "64 KiB a handshake message: an alert",
        make: |server| {
            let mut message = vec![1, 0xff, 0xff, 0xff];
            message.resize(16_000, 0);
            let mut sent = record(22, &message);
            sent.extend(record(22, &[0; 16_000]).repeat(1000));
            raw(server, &sent)
        },
    },
    Attack {
        protocol: "TLS",
        name: "warning alerts (CVE-2016-8610)",
        limit: "4 in a row: the connection ends",
        make: |server| after_hello(server, &record(21, &[1, 90]).repeat(20_000)),
    },
    Attack {
        protocol: "TLS",
        name: "ChangeCipherSpec records (CVE-2020-25648)",
        limit: "more than one extra record: the connection ends",
        make: |server| after_hello(server, &record(20, &[1]).repeat(20_000)),
    },
    Attack {
        protocol: "TLS",
        name: "renegotiation (CVE-2011-1473)",
        limit: "there is none: the connection ends",
        make: renegotiation,
    },
    Attack {
        protocol: "TLS",
        name: "key updates",
        limit: "32 in a row without data: the connection ends",
        make: key_updates,
    },
];

/// Takes any certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A client that trusts everything, for this protocol.
pub(super) fn client(protocol: &[u8]) -> ClientConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}

fn connect(server: &Server) -> TcpStream {
    super::connect(server.addresses(2)[1])
}

fn broken_handshakes(server: &Server) -> Bytes {
    let (mut bytes, mut held) = (Bytes::default(), Vec::new());
    for _ in 0..200 {
        let hello = hello();
        let mut stream = connect(server);
        stream.write_all(&hello).expect("it is sent");
        bytes.sent += hello.len() as u64;
        // The server's answer is awaited, and then no more bytes are sent.
        bytes.received += stream.read(&mut [0; 16_384]).expect("an answer") as u64;
        held.push(stream);
    }
    for mut stream in held {
        bytes.received += read_until_the_end(&mut stream);
    }
    bytes
}

/// A record in the clear.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![kind, 3, 3];
    out.extend_from_slice(&(content.len() as u16).to_be_bytes());
    out.extend_from_slice(content);
    out
}

fn session() -> ClientConnection {
    session_of(&Arc::new(client(b"http/1.1")))
}

fn session_of(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(config.clone(), name).expect("a session")
}

/// A session that has got an answer. The time for a handshake is short here; if it is over before the
/// handshake is, because the machine is busy, there is another session.
fn answered(server: &Server, config: &Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut stream = StreamOwned::new(session_of(config), connect(server));
        let is_sent = stream.write_all(b"GET /page.html HTTP/1.1\r\nHost: a\r\n\r\n").is_ok();
        if is_sent && stream.read(&mut [0; 16_384]).is_ok_and(|count| count > 0) {
            return stream;
        }
        assert!(Instant::now() < until, "no session is answered");
    }
}

/// The first record of a session.
fn hello() -> Vec<u8> {
    let mut hello = Vec::new();
    session().write_tls(&mut hello).expect("it is written to memory");
    hello
}

/// Sends bytes until the server ends the connection, which it must do.
fn raw(server: &Server, bytes: &[u8]) -> Bytes {
    let mut stream = connect(server);
    let mut sent = 0;
    for piece in bytes.chunks(8192) {
        if stream.write_all(piece).is_err() {
            break;
        }
        sent += piece.len() as u64;
    }
    Bytes { sent, received: read_until_the_end(&mut stream) }
}

fn after_hello(server: &Server, bytes: &[u8]) -> Bytes {
    raw(server, &[&hello(), bytes].concat())
}

fn completed_handshakes(server: &Server) -> Bytes {
    let (mut bytes, mut completed) = (Bytes::default(), 0);
    for _ in 0..200 {
        let mut session = session();
        bytes += handshake(server, &mut session);
        completed += usize::from(!session.is_handshaking());
    }
    assert!(completed > 0, "no handshake is completed");
    bytes
}

/// Completes a handshake, and leaves; leaves as well if the server ends the connection before.
fn handshake(server: &Server, session: &mut ClientConnection) -> Bytes {
    let (mut stream, mut bytes) = (connect(server), Bytes::default());
    while session.is_handshaking() {
        let mut out = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut out).expect("it is written to memory");
        }
        if stream.write_all(&out).is_err() {
            break;
        }
        bytes.sent += out.len() as u64;
        if session.is_handshaking() {
            let Ok(received @ 1..) = session.read_tls(&mut stream) else { break };
            bytes.received += received as u64;
            session.process_new_packets().expect("a good answer");
        }
    }
    bytes
}

/// Sessions are resumed by tickets in which a bit was changed on the way: the server takes them for none.
fn wrong_tickets(server: &Server) -> Bytes {
    let config = Arc::new(client(b"http/1.1"));
    // The tickets arrive with the answer.
    drop(answered(server, &config));
    let mut session = session_of(&config);
    let (mut bytes, mut out) = (Bytes::default(), Vec::new());
    session.write_tls(&mut out).expect("it is written to memory");
    assert!(out.len() > hello().len() + 64, "the session is not resumed by a ticket");
    // Behind the ticket are its age and a list of one binder of up to 48 bytes.
    let within_ticket = out.len() - (2 + 1 + 48) - 4 - 8;
    let byte = out[within_ticket];
    for number in 1..=50 {
        out[within_ticket] = byte ^ number;
        let mut stream = connect(server);
        stream.write_all(&out).expect("it is sent");
        stream.shutdown(std::net::Shutdown::Write).expect("it can be shut down");
        let received = read_until_the_end(&mut stream);
        assert!(received > 400, "{received} bytes are no whole handshake");
        bytes += Bytes { sent: out.len() as u64, received };
    }
    bytes
}

/// The greeting of TLS, each byte of it in a record of its own; the server may take it or not.
fn tiny_records(server: &Server) -> Bytes {
    let greeting = hello();
    let records: Vec<u8> = greeting[5..].iter().flat_map(|byte| record(22, &[*byte])).collect();
    let mut bytes = Bytes::default();
    for _ in 0..50 {
        let mut stream = connect(server);
        let _ = stream.write_all(&records);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        bytes += Bytes { sent: records.len() as u64, received: read_until_the_end(&mut stream) };
    }
    bytes
}

/// Whether a child process, which is not waited for yet, has ended.
fn has_ended(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z'))
}

fn renegotiation(server: &Server) -> Bytes {
    let address = server.addresses(2)[1].to_string();
    let child = Command::new("openssl")
        .args(["s_client", "-tls1_2", "-connect", &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        crate::support::skipped("renegotiation of TLS (install openssl)");
        return Bytes::default();
    };
    let mut input = child.stdin.take().expect("stdin is piped");
    // It is read when the handshake is complete.
    let _ = input.write_all(b"R\n");
    // The client ends with the connection: its input must not end before that.
    wait_until("the client ends", PATIENCE, || has_ended(child.id()));
    cost::note_helper(child.id());
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("RENEGOTIATING"), "{said}");
    let is_refused = ["no renegotiation", "unexpected message", "handshake failure", "write:errno", "alert"];
    assert!(is_refused.iter().any(|words| said.contains(words)), "{said}");
    // As s_client prints them.
    let figure = |before: &str, after: &str| -> u64 {
        let text = said.split(before).nth(1).and_then(|rest| rest.split(after).next());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    Bytes { sent: figure("and written ", " bytes"), received: figure("SSL handshake has read ", " bytes") }
}

fn key_updates(server: &Server) -> Bytes {
    let mut stream = answered(server, &Arc::new(client(b"http/1.1")));
    let mut bytes = Bytes::default();
    for _ in 0..100_000 {
        stream.conn.refresh_traffic_keys().expect("keys can be refreshed");
        let mut out = Vec::new();
        stream.conn.write_tls(&mut out).expect("it is written to memory");
        bytes.sent += out.len() as u64;
        if stream.sock.write_all(&out).is_err() {
            break;
        }
    }
    bytes.received = read_until_the_end(&mut stream.sock);
    bytes
}
