//! Who may connect, and how often; what `check` refuses; what is counted.

use std::io::Read;

use super::{Rig, echo, exchange, origin_named, rest_of};
use crate::support::{Server, Tree, curl, error_lines, free_port, run, wait_until};

#[test]
fn addresses_connections_and_rates_are_limited() {
    let origin = echo();
    let denied = Rig::start(&format!("to = \"{}\"\ndeny = [\"127.0.0.0/8\"]", origin.address));
    assert_eq!(rest_of(&mut denied.connect()), b"");
    assert_eq!(denied.ends(1), ["denied"]);

    let few = Rig::start(&format!("to = \"{}\"\nconnections_per_client = 2", origin.address));
    let mut held = vec![few.connect(), few.connect()];
    for stream in &mut held {
        assert_eq!(exchange(stream.try_clone().expect("a socket"), b"").len(), 0);
    }
    // Both have ended by now; two new ones, and a third one that is refused.
    few.log(2);
    let mut held: Vec<_> = (0..2).map(|_| few.connect()).collect();
    for stream in &mut held {
        let mut byte = [0];
        std::io::Write::write_all(stream, b"x").expect("the stream takes it");
        stream.read_exact(&mut byte).expect("it is served");
    }
    assert_eq!(rest_of(&mut few.connect()), b"");
    assert_eq!(few.ends(3)[2], "limit");

    let slow = Rig::start(&format!("to = \"{}\"\nrate_per_client = 1\nburst = 2", origin.address));
    let answer = |mut stream: std::net::TcpStream| {
        let _ = std::io::Write::write_all(&mut stream, b"x");
        let _ = stream.shutdown(std::net::Shutdown::Write);
        rest_of(&mut stream)
    };
    assert_eq!([answer(slow.connect()), answer(slow.connect())], [b"x", b"x"]);
    // All at once: one by one they could come slowly enough.
    let more: Vec<_> = (0..20).map(|_| slow.connect()).collect();
    more.into_iter().for_each(|stream| drop(answer(stream)));
    assert!(slow.ends(22).contains(&"rate".to_string()));
}

#[test]
fn the_proxy_header_is_believed_only_from_where_it_is_expected() {
    let origin = origin_named("a");
    let trusted = format!(
        "to = \"{}\"\nproxy_protocol_from = [\"127.0.0.1\"]\ndeny = [\"192.0.2.66\"]\n\
         connections_per_client = 1",
        origin.address
    );
    let rig = Rig::start(&trusted);
    let header = |client: &str| format!("PROXY TCP4 {client} 198.51.100.2 1 443\r\nx").into_bytes();
    assert_eq!(exchange(rig.connect(), &header("192.0.2.1")), b"a:x");
    assert_eq!(exchange(rig.connect(), &header("192.0.2.66")), b"");
    assert_eq!(exchange(rig.connect(), b"no header at all, but more than one line of it\r\n"), b"");
    // Limits are of the clients, not of the proxy.
    let one = rig.connect();
    let mut one_writer = one.try_clone().expect("a socket");
    std::io::Write::write_all(&mut one_writer, &header("192.0.2.2")).expect("the stream takes it");
    let mut greeting = [0; 2];
    one_writer.read_exact(&mut greeting).expect("it is served");
    assert_eq!(exchange(rig.connect(), &header("192.0.2.2")), b"");
    assert_eq!(exchange(rig.connect(), &header("192.0.2.3")), b"a:x");
    drop((one, one_writer));
    let mut ends = rig.ends(6);
    ends.sort();
    for end in ["denied", "limit", "proxy_header"] {
        assert!(ends.contains(&end.to_string()), "{ends:?}");
    }
    // From another address it is the client's statement.
    let other = Rig::start(&format!("to = \"{}\"", origin.address));
    assert_eq!(exchange(other.connect(), &header("192.0.2.1")), [b"a:", &header("192.0.2.1")[..]].concat());
}

#[test]
fn check_finds_what_is_wrong() {
    let tree = Tree::empty();
    let stream = |keys: &str| format!("[[stream]]\nname = \"a\"\nlisten = [\"127.0.0.1:1\"]\n{keys}\n");
    let site = format!("[[site]]\nlisten = [\"127.0.0.1:1\"]\nroot = {:?}\n", tree.root());
    let route = "[[stream.route]]\nto = \"127.0.0.1:3\"\n";
    for (text, expected) in [
        (stream(""), "needs 'to', or a [[stream.route]]"),
        (stream("to = \"db\""), "write \"host:port\""),
        (stream("to = \"http://db:1\""), "write \"host:port\""),
        (stream("to = \"127.0.0.1:2 backup\""), "neither backup nor drain"),
        (stream("to = [\"127.0.0.1:2\", \"127.0.0.1:2 weight=2\"]"), "listed twice"),
        (stream("to = \"127.0.0.1:2\"\ntls = \"end\""), "needs 'certificate'"),
        (stream("to = \"127.0.0.1:2\"\ncertificate = \"a.pem\""), "has no effect without 'tls' \"end\""),
        (stream("to = \"127.0.0.1:2\"\ntls = \"end\"\ncertificate = \"missing.pem\""), "missing.pem"),
        (
            stream("to = \"127.0.0.1:2\"\ntls = \"end\"\ncertificate = \"sites\""),
            "no [[site]] has a certificate",
        ),
        (stream("to = \"tls://127.0.0.1:2\"\npreface = \"postgresql\""), "cannot be used with"),
        (stream("to = \"127.0.0.1:2\"\nreplies = 1"), "has no effect without 'protocol' \"udp\""),
        (stream("to = \"127.0.0.1:2\"\nprotocol = \"udp\"\ntls = \"pass\""), "it has no effect with"),
        (stream("to = \"tls://127.0.0.1:2\"\nprotocol = \"udp\""), "TLS is not supported for datagrams"),
        (stream("to = \"127.0.0.1:2\"\nburst = 5"), "'burst' has no effect"),
        (stream("to = \"127.0.0.1:2\"\nname_ = 5"), "did you mean 'name'"),
        (stream(&format!("to = \"127.0.0.1:2\"\n{route}")), "needs 'names' or 'alpn'"),
        (
            stream(&format!("{route}names = [\"a.test\"]\n{route}names = [\"a.test\"]")),
            "belongs to another [[stream.route]]",
        ),
        (stream(&format!("{route}names = [\"10.0.0.1\"]")), "is an address"),
        (format!("{}{site}", stream("to = \"127.0.0.1:2\"")), "belongs to a [[site]] already"),
        (stream("to = \"127.0.0.1:2\"").repeat(2), "has this 'name' already"),
        ("[stream]\nname = \"a\"\n".to_string(), "two pairs of brackets"),
        (stream("to = \"127.0.0.1:2\"\naccess_log = \"/nowhere/at/all.log\""), "log file"),
        (
            stream("to = \"tls://127.0.0.1:2\"\norigin_tls = { authorities = \"missing.pem\" }"),
            "'origin_tls': 'tls.authorities'",
        ),
    ] {
        let config = tree.beside("check.toml");
        std::fs::write(&config, &text).expect("a file");
        let output = run(["check", "--config", config.to_str().expect("the path is text")]);
        let lines = error_lines(&output).join("\n");
        assert!(!output.status.success() && lines.contains(expected), "{text}\n{lines}");
        assert!(lines.contains("check.toml:"), "{text}\n{lines}");
    }
}

#[test]
fn metrics_status_and_a_server_without_sites() {
    let tree = Tree::empty();
    let origin = origin_named("a");
    let (stream, admin) = (free_port(), free_port());
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
         [[stream]]\nname = \"only\"\nlisten = [\"127.0.0.1:{stream}\"]\nto = \"{}\"\n\
         [[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\n",
        origin.address,
        tree.root()
    );
    let server = Server::configured(tree.around(), &text);
    server.wait_for_error_line("says that the stream listens", |line| line.contains("for stream only"));
    let address = ([127, 0, 0, 1], stream).into();
    assert_eq!(exchange(super::connect(address), b"12345"), b"a:12345");
    let page = |path: &str| {
        let output = curl([format!("http://127.0.0.1:{admin}{path}")])?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(_) = page("/metrics") else { return };
    let labels = "{stream=\"only\",protocol=\"tcp\"";
    for line in [
        format!("touchstone_stream_connections_accepted_total{labels}}} 1"),
        format!("touchstone_stream_connections_ended_total{labels},reason=\"done\"}} 1"),
        format!("touchstone_stream_bytes_total{labels},direction=\"received\"}} 5"),
        format!("touchstone_stream_bytes_total{labels},direction=\"sent\"}} 7"),
        format!("touchstone_stream_connections{labels}}} 0"),
    ] {
        let is_there = || page("/metrics").unwrap_or_default().lines().any(|found| found == line);
        wait_until(&format!("the metric {line}"), super::PATIENCE, is_there);
    }
    let status = page("/status.json").unwrap_or_default();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["streams"][0]["stream"], "only");
    assert_eq!(status["streams"][0]["ends"]["done"], 1);
    assert_eq!(status["origins"][0]["site"], "(stream)");
    assert!(page("/status").unwrap_or_default().contains("Streams"));
}
