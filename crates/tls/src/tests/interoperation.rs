//! Sessions against OpenSSL, over real sockets.

use std::io::{ErrorKind, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::support::*;
use crate::settings::Resumption;
use crate::{CiphertextBuffer, ClientAuthorities, ClientCertificateMode, Policy, TlsEndpoint, TlsSession};

/// The server's record of one connection.
#[derive(Debug, Default)]
struct Seen {
    facts: String,
    error: Option<String>,
    request: Vec<u8>,
}

/// True when there is an `openssl`; prints a message if there is none.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn has_openssl() -> bool {
    let found = Command::new("openssl")
        .arg("version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        eprintln!("SKIPPED: TLS against OpenSSL (install openssl)");
    }
    found
}

/// Serves `count` connections one after the other: each request line is answered with itself in capitals.
fn serve(endpoint: Arc<TlsEndpoint>, count: usize) -> (SocketAddr, JoinHandle<Vec<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        (0..count).map(|_| serve_one(listener.accept().unwrap().0, endpoint.session())).collect()
    });
    (address, serving)
}

fn serve_one(mut socket: TcpStream, mut session: TlsSession) -> Seen {
    let mut seen = Seen::default();
    let (mut plaintext, mut out, mut buffer) = (Vec::new(), CiphertextBuffer::default(), vec![0; 65_536]);
    loop {
        let count = match socket.read(&mut buffer) {
            Ok(0) => return seen,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return seen,
        };
        let received = session.receive(&mut buffer[..count], &mut plaintext, &mut out);
        if plaintext.ends_with(b"\n") {
            seen.request.extend_from_slice(&plaintext);
            session.send([b"ANSWER: ", &plaintext.to_ascii_uppercase()], &mut out).unwrap();
            plaintext.clear();
        }
        if received.as_ref().is_ok_and(|received| received.handshake_done) {
            let subject =
                session.client_certificate().map_or("nobody", |certificate| certificate.subject.as_str());
            seen.facts = format!(
                "{} {} {} {} {subject}",
                session.version().unwrap_or("?"),
                session.server_name().unwrap_or("no name"),
                if session.is_resumed() { "resumed" } else { "full" },
                String::from_utf8_lossy(session.protocol().unwrap_or(b"none")),
            );
        }
        if received.as_ref().is_ok_and(|received| received.closed) {
            session.close(&mut out);
        }
        let written = socket.write_all(out.as_slice());
        out.clear();
        match received {
            Err(error) => {
                seen.error = Some(error.to_string());
                return seen;
            }
            Ok(received) if received.closed || written.is_err() => return seen,
            Ok(_) => {}
        }
    }
}

/// A line, and the server's answer.
const HELLO: (&str, &str) = ("hello", "ANSWER: HELLO");

/// How long a client may take for a line on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `openssl s_client` with these arguments and returns its output. Each line is sent once the expected
/// output for the line before was printed (a letter is a command only if it comes alone); it is ended after
/// the last.
fn openssl(address: SocketAddr, arguments: &[&str], lines: &[(&str, &str)]) -> String {
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &address.to_string(), "-servername", "localhost"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let printed = Arc::new(Mutex::new(Vec::new()));
    let outputs: [Box<dyn Read + Send>; 2] =
        [Box::new(client.stdout.take().unwrap()), Box::new(client.stderr.take().unwrap())];
    let readers = outputs.map(|mut output| {
        let printed = printed.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                printed.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        })
    });
    let mut stdin = client.stdin.take().unwrap();
    for (line, comes_of_it) in lines {
        // The client may have ended already.
        let _ = stdin.write_all(format!("{line}\n").as_bytes());
        let until = Instant::now() + PATIENCE;
        while !String::from_utf8_lossy(&printed.lock().unwrap()).contains(comes_of_it)
            && Instant::now() < until
            && !readers.iter().all(JoinHandle::is_finished)
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    drop(stdin);
    client.wait().unwrap();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    let printed = printed.lock().unwrap();
    String::from_utf8_lossy(&printed).into_owned()
}

#[test]
fn openssl_speaks_both_versions() {
    if !has_openssl() {
        return;
    }
    let scene = Scene::new();
    let endpoint = Arc::new(scene.endpoint);
    let authority = scene.files.write("authority.pem", &scene.authority.pem());
    let authority = authority.to_str().unwrap();
    for (flag, version) in [("-tls1_3", "TLSv1.3"), ("-tls1_2", "TLSv1.2")] {
        let (address, serving) = serve(endpoint.clone(), 1);
        let arguments = [flag, "-CAfile", authority, "-verify_return_error", "-alpn", "h2,http/1.1"];
        let printed = openssl(address, &arguments, &[HELLO]);
        let seen = serving.join().unwrap().remove(0);
        assert!(printed.contains("ANSWER: HELLO"), "{printed}");
        assert!(
            printed.contains("Verification: OK") || printed.contains("Verify return code: 0 (ok)"),
            "{printed}"
        );
        assert_eq!(seen.facts, format!("{version} localhost full http/1.1 nobody"));
        assert_eq!((seen.request.as_slice(), &seen.error), (&b"hello\n"[..], &None));
    }
}

#[test]
fn openssl_resumes_and_shows_its_certificate() {
    if !has_openssl() {
        return;
    }
    let (authority, clients, files) = (Authority::new("Servers"), Authority::new("Clients"), Files::new());
    let settings = ClientAuthorities {
        authorities: files.write("clients.pem", &clients.pem()),
        revocation_lists: Vec::new(),
        mode: ClientCertificateMode::Required,
    };
    let ada = clients.issue(&["ada"]);
    let (certificate, key) = (files.write("ada.pem", &ada.certificate), files.write("ada.key", &ada.key));
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let stored = files.path("session");
    let stored = stored.to_str().unwrap();
    for (flag, version) in [("-tls1_3", "TLSv1.3"), ("-tls1_2", "TLSv1.2")] {
        for tickets in [true, false] {
            let policy = Policy {
                client_authorities: Some(settings.clone()),
                resumption: Resumption { tickets, ..Resumption::default() },
                ..Policy::default()
            };
            let source = files.write_pair("localhost", &authority.issue(&["localhost"]));
            let (endpoint, _) = open(vec![site(&["localhost"], vec![source], policy)]);
            let (address, serving) = serve(Arc::new(endpoint), 2);
            for (direction, how) in [("-sess_out", "full"), ("-sess_in", "resumed")] {
                let arguments = [flag, "-cert", certificate, "-key", key, direction, stored];
                let printed = openssl(address, &arguments, &[HELLO]);
                assert!(printed.contains("ANSWER: HELLO"), "{flag} {how} tickets {tickets}: {printed}");
            }
            let seen = serving.join().unwrap();
            assert_eq!(seen[0].facts, format!("{version} localhost full none CN=ada"));
            assert_eq!(
                seen[1].facts,
                format!("{version} localhost resumed none CN=ada"),
                "tickets {tickets}"
            );
        }
    }
}

#[test]
fn openssl_may_update_keys_and_not_renegotiate() {
    if !has_openssl() {
        return;
    }
    let scene = Scene::new();
    let endpoint = Arc::new(scene.endpoint);
    let (address, serving) = serve(endpoint.clone(), 1);
    let printed = openssl(address, &["-tls1_3"], &[HELLO, ("K", "KEYUPDATE"), ("world", "ANSWER: WORLD")]);
    let seen = serving.join().unwrap().remove(0);
    assert!(printed.contains("KEYUPDATE") && printed.contains("ANSWER: WORLD"), "{printed}");
    assert_eq!(seen.error, None);

    let (address, serving) = serve(endpoint, 1);
    let printed = openssl(address, &["-tls1_2"], &[HELLO, ("R", "no renegotiation")]);
    let seen = serving.join().unwrap().remove(0);
    assert!(printed.contains("RENEGOTIATING") && printed.contains("no renegotiation"), "{printed}");
    assert_eq!(seen.request, b"hello\n");
}

#[test]
fn old_versions_of_openssl_are_refused() {
    if !has_openssl() {
        return;
    }
    let scene = Scene::new();
    let endpoint = Arc::new(scene.endpoint);
    for flag in ["-tls1_1", "-tls1"] {
        let (address, serving) = serve(endpoint.clone(), 1);
        // OpenSSL does not use these any more unless it is forced to.
        let printed = openssl(address, &[flag, "-cipher", "ALL:@SECLEVEL=0"], &[]);
        assert!(!printed.contains("ANSWER"), "{printed}");
        // A client without the version connects and sends nothing, or is refused.
        let seen = serving.join().unwrap().remove(0);
        assert_eq!(seen.facts, "");
        assert!(seen.error.is_none_or(|error| error.starts_with("nothing in common")), "{printed}");
    }
}
