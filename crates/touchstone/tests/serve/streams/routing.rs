//! The route of a connection by its ClientHello; TLS that is passed through, and TLS that ends here.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Rig, certificate, client_hello, connect, exchange, origin_named, rest_of};
use crate::support::{Origin, curl, skipped};

/// A stream with routes to origins that send their names.
fn routes(hello_timeout: &str) -> (Rig, Vec<Origin>) {
    let names = ["exact", "wildcard", "imap", "default"];
    let origins: Vec<Origin> = names.into_iter().map(origin_named).collect();
    let [exact, wildcard, imap, default] = [0, 1, 2, 3].map(|index: usize| origins[index].address);
    let rig = Rig::start(&format!(
        "to = \"{default}\"\nhello_timeout = \"{hello_timeout}\"\nhello_bytes = \"2KiB\"\n\
         [[stream.route]]\nnames = [\"a.example.org\"]\nto = \"{exact}\"\n\
         [[stream.route]]\nnames = [\"*.example.org\"]\nto = \"{wildcard}\"\n\
         [[stream.route]]\nalpn = [\"imap\"]\nto = \"{imap}\"\n"
    ));
    (rig, origins)
}

/// The origin's own name, and whether it got every byte.
fn goes_to(rig: &Rig, bytes: &[u8]) -> String {
    let answer = exchange(rig.connect(), bytes);
    let at = answer.iter().position(|byte| *byte == b':').unwrap_or(answer.len());
    let (name, rest) = answer.split_at(at);
    assert!(rest.is_empty() || rest[1..] == *bytes, "the origin got {} bytes", rest.len());
    String::from_utf8_lossy(name).into_owned()
}

#[test]
fn names_and_protocols_choose_the_origin() {
    let (rig, _origins) = routes("1m");
    for (name, protocols, expected) in [
        (Some("a.example.org"), &[][..], "exact"),
        (Some("A.Example.ORG"), &[], "exact"),
        (Some("a.example.org."), &[], "exact"),
        (Some("b.example.org"), &[], "wildcard"),
        (Some("c.b.example.org"), &["h2"], "wildcard"),
        (Some("example.org"), &[], "default"),
        (Some("other.test"), &["imap"], "imap"),
        (Some("a.example.org"), &["h2", "imap"], "imap"),
        (None, &[], "default"),
        (Some("a.example.org\0.evil.test"), &[], "default"),
        (Some("a.example.org:993"), &[], "default"),
        (Some("\u{e4}.example.org"), &[], "default"),
    ] {
        let hello = client_hello(name.map(str::as_bytes), protocols);
        assert_eq!(goes_to(&rig, &hello), expected, "{name:?} {protocols:?}");
    }
    // Bytes that are not TLS use the route without a name.
    assert_eq!(goes_to(&rig, b"SSH-2.0-OpenSSH_9.2p1\r\n"), "default");
    // Two cores write their lines in any order.
    let lines = rig.log(13);
    assert!(lines.iter().any(|line| line.contains(" a.example.org tcp://")), "{lines:?}");
}

#[test]
fn a_hello_in_pieces_is_put_together() {
    let (rig, _origins) = routes("1m");
    let hello = client_hello(Some(b"a.example.org"), &["h2"]);
    let mut stream = rig.connect();
    stream.set_nodelay(true).expect("a socket");
    for byte in &hello {
        stream.write_all(&[*byte]).expect("the stream takes it");
        std::thread::yield_now();
    }
    assert!(exchange(stream, b"and more").ends_with(&[&hello[..], b"and more"].concat()));
    // Cut into records.
    let message = &hello[5..];
    let records: Vec<u8> = message
        .chunks(20)
        .flat_map(|piece| [&[22, 3, 1, 0, piece.len() as u8][..], piece].concat())
        .collect();
    assert_eq!(goes_to(&rig, &records), "exact");
}

#[test]
fn hellos_that_are_too_slow_too_long_or_broken_off_end() {
    let (rig, origins) = routes("1s");
    let hello = client_hello(Some(b"a.example.org"), &[]);
    let mut slow = rig.connect();
    slow.write_all(&hello[..20]).expect("the stream takes it");
    assert_eq!(rest_of(&mut slow), b"");
    let mut silent = rig.connect();
    assert_eq!(rest_of(&mut silent), b"");
    // A name of 5,000 bytes is more than `hello_bytes` here.
    let mut long = rig.connect();
    let _ = long.write_all(&client_hello(Some(&[b'a'; 5_000]), &[]));
    assert_eq!(rest_of(&mut long), b"");
    drop(rig.connect());
    let mut ends = rig.ends(4);
    ends.sort();
    assert_eq!(ends, ["client", "hello", "hello", "hello"]);
    assert!(origins.iter().all(|origin| origin.connections() == 0));
}

/// The part that a client has sent before its end is not looked at for ever: that would stop the core.
#[test]
fn a_client_that_ends_within_its_first_bytes_ends_its_connection() {
    let (rig, origins) = routes("1m");
    let hello = client_hello(Some(b"a.example.org"), &[]);
    for length in [1, 20, hello.len() - 1] {
        assert_eq!(exchange(rig.connect(), &hello[..length]), b"", "{length} bytes");
    }
    assert_eq!(rig.ends(3), ["client"; 3]);
    let postgresql = Rig::start(&format!("to = \"{}\"\npreface = \"postgresql\"", origins[0].address));
    assert_eq!(exchange(postgresql.connect(), &[0, 0, 0, 8]), b"");
    assert_eq!(postgresql.ends(1), ["client"]);
    assert!(origins.iter().all(|origin| origin.connections() == 0));
    assert_eq!(goes_to(&rig, &hello), "exact");
}

#[test]
fn without_a_route_the_connection_is_closed() {
    let origin = origin_named("a");
    let rig =
        Rig::start(&format!("[[stream.route]]\nnames = [\"a.example.org\"]\nto = \"{}\"\n", origin.address));
    assert_eq!(goes_to(&rig, &client_hello(Some(b"a.example.org"), &[])), "a");
    assert_eq!(rest_of_hello(&rig, b"b.example.org"), b"");
    assert_eq!(rest_of(&mut { exchange_start(&rig, b"plain") }), b"");
    let mut ends = rig.ends(3);
    ends.sort();
    assert_eq!(ends, ["done", "no_route", "no_route"]);
}

fn rest_of_hello(rig: &Rig, name: &[u8]) -> Vec<u8> {
    rest_of(&mut exchange_start(rig, &client_hello(Some(name), &[])))
}

fn exchange_start(rig: &Rig, bytes: &[u8]) -> std::net::TcpStream {
    let mut stream = rig.connect();
    stream.write_all(bytes).expect("the stream takes it");
    stream
}

/// `openssl s_client` sends this, and returns the received bytes; `None` if openssl is missing.
fn s_client(rig: &Rig, arguments: &[&str], input: &[u8]) -> Option<String> {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-quiet", "-connect", &rig.address.to_string()]).args(arguments);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else {
        skipped("streams whose TLS ends here (install openssl)");
        return None;
    };
    child.stdin.take().expect("it is piped").write_all(input).expect("openssl takes it");
    let mut answer = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut answer).expect("openssl answers");
    child.wait().expect("openssl ends");
    Some(answer)
}

#[test]
fn tls_ends_here_and_begins_again_with_the_origin() {
    let place = tempfile::tempdir().expect("a directory");
    let Some((chain, key)) = certificate(place.path(), &["a.example.org", "localhost"]) else { return };
    let line = Origin::start(|stream| {
        let mut line = [0; 6];
        if stream.read_exact(&mut line).is_ok() {
            let _ = stream.write_all(&[b"got ", &line[..]].concat());
        }
    });
    let rig = Rig::start(&format!(
        "to = \"{}\"\ntls = \"end\"\ncertificate = {chain:?}\nkey = {key:?}\nalpn = [\"line\"]",
        line.address
    ));
    let arguments = ["-servername", "a.example.org", "-alpn", "line", "-verify_return_error", "-CAfile"];
    let chain_text = chain.to_str().expect("the path is text");
    let verified = [&arguments[..], &[chain_text]].concat();
    let Some(answer) = s_client(&rig, &verified, b"hello\n") else { return };
    assert_eq!(answer, "got hello\n");
    assert!(rig.log(1)[0].contains(" a.example.org tcp://"), "{:?}", rig.log(1));
    // A client that offers only another protocol, and one without TLS.
    let other = s_client(&rig, &["-alpn", "other"], b"hello\n");
    assert_eq!(other.as_deref(), Some(""));
    assert!(!String::from_utf8_lossy(&exchange(rig.connect(), b"plain\n")).contains("got"));
    let mut ends = rig.ends(3);
    ends[1..].sort();
    assert_eq!(ends[1..], ["tls", "tls"]);

    // The same stream is an origin with TLS of another one.
    let authorities = format!("origin_tls = {{ authorities = {chain:?}, server_name = \"localhost\" }}");
    let outer =
        Rig::start(&format!("to = \"tls://{}\"\norigin_alpn = [\"line\"]\n{authorities}", rig.address));
    assert_eq!(exchange(outer.connect(), b"hello\n"), b"got hello\n");
    let distrusting = Rig::start(&format!("to = \"tls://{}\"\norigin_alpn = [\"line\"]", rig.address));
    assert_eq!(exchange(distrusting.connect(), b"hello\n"), b"");
    distrusting.server.wait_for_error_line("says why", |line| line.contains("no TLS: "));
}

/// One port for web sites and for another protocol: a site's certificate, and its TLS passed through.
#[test]
fn a_site_behind_a_stream_and_its_certificate_in_front() {
    let tree = crate::support::Tree::empty();
    tree.write("hello.txt", "from the site");
    let (site, stream) = (crate::support::free_port(), crate::support::free_port());
    let text = format!(
        "[[site]]\nlisten = [\"127.0.0.1:{site}\"]\nhosts = [\"a.test\"]\nroot = {:?}\n\
         development_certificate = true\n\
         [[stream]]\nname = \"front\"\nlisten = [\"127.0.0.1:{stream}\"]\n\
         tls = \"end\"\ncertificate = \"sites\"\nto = \"127.0.0.1:1\"\n\
         [[stream.route]]\nnames = [\"a.test\"]\ntls = \"pass\"\nto = \"127.0.0.1:{site}\"\n",
        tree.root()
    );
    let server = crate::support::Server::configured(tree.around(), &text);
    server.wait_for_error_line("says that the stream listens", |line| line.contains("for stream front"));
    let resolve = format!("a.test:{stream}:127.0.0.1");
    let url = format!("https://a.test:{stream}/hello.txt");
    let Some(output) = curl(["--insecure", "--http2", "--resolve", &resolve, &url]) else { return };
    assert_eq!(output.stdout, b"from the site");
}

/// A flood of connections without data: they end at their time limit, and the server continues.
#[test]
fn a_flood_of_silent_connections_ends() {
    let origin = origin_named("a");
    let rig = Rig::start(&format!(
        "to = \"{0}\"\nconnections = 100\nhello_timeout = \"5s\"\n\
         [[stream.route]]\nnames = [\"a.example.org\"]\nto = \"{0}\"\n",
        origin.address
    ));
    let flood: Vec<_> = (0..300).map(|_| connect(rig.address)).collect();
    let ends = rig.ends(300);
    let count = |what: &str| ends.iter().filter(|end| *end == what).count();
    assert_eq!(count("hello") + count("limit"), 300, "{ends:?}");
    assert!(count("limit") >= 1, "{ends:?}");
    drop(flood);
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(goes_to(&rig, &client_hello(Some(b"a.example.org"), &[])), "a");
    assert_eq!(origin.connections(), 1);
}
