//! Sites and streams on unix sockets: their files, their clients, and the messages to them.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::support::{
    ALPHABET, Client, Origin, Response, Server, Tree, curl, error_lines, read_head, run, wait_until,
    write_program,
};

/// Far longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn ask(path: &Path, target: &str, fields: &str) -> Response {
    Client::connect_unix(path).ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the socket is there").permissions().mode() & 0o777
}

/// A configuration of one site on a port and on a unix socket.
fn both(tree: &Tree, sections: &str, keys: &str) -> String {
    let root = tree.root();
    format!(
        "[server]\ncores = 2\n{sections}\n[[site]]\nlisten = [\"127.0.0.1:0\", \"unix:site.sock\"]\n\
         root = {root:?}\n{keys}\n"
    )
}

/// The problem with which the server does not start.
fn refused(tree: &Tree, text: &str) -> String {
    fs::write(tree.beside("touchstone.toml"), text).expect("the configuration is written");
    let config = tree.beside("touchstone.toml");
    let output = run(["serve", "--config", config.to_str().expect("a name that is text")]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    error_lines(&output).join("\n")
}

#[test]
fn a_site_answers_on_its_socket_until_the_end() {
    let tree = Tree::standard();
    let socket = tree.beside("site.sock");
    let keys = "socket_mode = \"0606\"\nheaders = { X-Client = \"[$client]\" }\n\
                [[site.route]]\npath = \"/ask\"\nredirect = { to = \"/to/$client\" }";
    let log = "[access_log]\npath = \"access.log\"\n";
    let mut server = Server::configured(tree.around(), &both(&tree, log, keys));
    server.wait_for_error_line("names the socket", |line| {
        line.contains(&format!("listening on http://unix:{}", socket.display()))
    });
    assert_eq!(mode(&socket), 0o606);
    // A file of the cache and one that is read, on a connection that is kept.
    let mut client = Client::connect_unix(&socket);
    for _ in 0..3 {
        let answer = client.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((answer.status, answer.body.as_slice()), (200, ALPHABET.as_bytes()));
        assert_eq!(answer.field("x-client"), Some("[unix:]"));
    }
    assert_eq!(ask(&socket, "/ask", "").field("location"), Some("/to/unix:"));
    assert_eq!(server.get("/alphabet.txt").field("x-client"), Some("[127.0.0.1]"));
    let many: Vec<Response> = (0..20).map(|_| ask(&socket, "/alphabet.txt", "")).collect();
    assert!(many.iter().all(|answer| answer.status == 200));
    let status = run(["status", "--config", tree.beside("touchstone.toml").to_str().expect("text")]);
    let shown = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(shown.contains(&format!("unix:{}", socket.display())), "{shown}");
    server.stop();
    assert!(!socket.exists(), "the file is removed");
    let lines = fs::read_to_string(tree.beside("access.log")).expect("the log is there");
    assert_eq!(lines.lines().filter(|line| line.starts_with("unix: - - [")).count(), 24, "{lines}");
    assert_eq!(lines.lines().filter(|line| line.starts_with("127.0.0.1 ")).count(), 1, "{lines}");
}

#[test]
fn rules_judge_the_clients_of_a_socket() {
    let tree = Tree::standard();
    let socket = tree.beside("site.sock");
    let routes = |more: &str| {
        let route = |path: &str, rule: &str| {
            format!("[[site.route]]\npath = \"{path}\"\n{rule}\nrespond = {{ status = 200 }}\n")
        };
        [
            more.to_string(),
            route("/tcp/", "allow = [\"0.0.0.0/0\", \"::/0\"]"),
            route("/unix/", "allow = [\"unix:\"]"),
            route("/not-unix/", "deny = [\"unix:\"]"),
            route("/few/", "rate_limit = { requests = 2, per = \"1h\" }"),
            route("/net/", "allow = [\"192.0.2.0/24\"]"),
        ]
        .concat()
    };
    let server = Server::configured(tree.around(), &both(&tree, "", &routes("")));
    let status = |target: &str, fields: &str| ask(&socket, target, fields).status;
    let forged = "X-Forwarded-For: 192.0.2.9\r\n";
    for (target, here, there) in [("/tcp/", 403, 200), ("/unix/", 200, 403), ("/not-unix/", 403, 200)] {
        assert_eq!((status(target, ""), server.get(target).status), (here, there), "{target}");
    }
    // All clients of the socket are one.
    let few: Vec<u16> = (0..4).map(|_| status("/few/", "")).collect();
    assert_eq!(few, [200, 200, 429, 429]);
    assert_eq!(server.get("/few/").status, 200);
    // The header of an untrusted client is ignored.
    assert_eq!(status("/net/", forged), 403);
    drop(server);

    let server = Server::configured(
        tree.around(),
        &both(&tree, "[proxies]\ntrusted = [\"unix:\"]", &routes("headers = { X-Client = \"$client\" }\n")),
    );
    assert_eq!(status("/net/", forged), 200);
    assert_eq!(status("/net/", ""), 403);
    assert_eq!(status("/unix/", forged), 403);
    assert_eq!(status("/unix/", ""), 200);
    // No client may state that it has no address.
    assert_eq!(status("/unix/", "X-Forwarded-For: 192.0.2.9, ::\r\n"), 200);
    assert_eq!(status("/net/", "X-Forwarded-For: 192.0.2.9, ::\r\n"), 403);
    assert_eq!(ask(&socket, "/alphabet.txt", forged).field("x-client"), Some("192.0.2.9"));
    assert_eq!(ask(&socket, "/alphabet.txt", "").field("x-client"), Some("unix:"));
    // The port is not a trusted proxy.
    let mut client = server.connect();
    let answer = client.ask(format!("GET /net/ HTTP/1.1\r\nHost: a\r\n{forged}\r\n"));
    assert_eq!(answer.status, 403);
}

#[test]
fn a_proxy_header_names_the_client_of_a_socket() {
    let tree = Tree::standard();
    let socket = tree.beside("site.sock");
    let proxies = "[proxies]\ntrusted = [\"unix:\"]\nproxy_protocol = [\"unix:site.sock\"]";
    let server =
        Server::configured(tree.around(), &both(&tree, proxies, "headers = { X-Client = \"$client\" }"));
    let mut client = Client::connect_unix(&socket);
    client.send("PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\n");
    let answer = client.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.field("x-client"), Some("192.0.2.7"));
    let mut client = Client::connect_unix(&socket);
    let answer = client.ask("PROXY UNKNOWN\r\nGET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.field("x-client"), Some("unix:"));
    let mut client = Client::connect_unix(&socket);
    client.send("PROXY TCP6 :: ::1 4711 80\r\n");
    let answer = client.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_ne!(answer.field("x-client"), Some("unix:"));
    assert_eq!(server.get("/alphabet.txt").status, 200);
}

#[test]
fn a_socket_speaks_tls_and_http2() {
    let tree = Tree::standard();
    let root = tree.root();
    let text = format!(
        "[[site]]\nlisten = [\"127.0.0.1:0\", \"unix:tls.sock\"]\nroot = {root:?}\n\
         development_certificate = true\nhttp3 = true\n\
         [[site]]\nlisten = [\"unix:plain.sock\"]\nroot = {root:?}\n"
    );
    let _server = Server::configured(tree.around(), &text);
    for (socket, url, options) in [
        ("tls.sock", "https://localhost/alphabet.txt", &["--http2", "-k"][..]),
        ("tls.sock", "https://localhost/alphabet.txt", &["--http1.1", "-k"]),
        ("plain.sock", "http://localhost/alphabet.txt", &["--http2-prior-knowledge"]),
        ("plain.sock", "http://localhost/alphabet.txt", &["--http1.1"]),
    ] {
        let version = if options[0] == "--http1.1" { "1.1" } else { "2" };
        let path = tree.beside(socket);
        let path = path.to_str().expect("a name that is text");
        let more = ["--unix-socket", path, "-w", "%{http_version}", url];
        let Some(output) = curl(options.iter().chain(&more)) else { return };
        let body = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(body, format!("{ALPHABET}{version}"), "{socket} {options:?} {output:?}");
    }
}

#[test]
fn a_reload_keeps_changes_and_removes_sockets() {
    let tree = Tree::standard();
    let (socket, other) = (tree.beside("site.sock"), tree.beside("other.sock"));
    let server = Server::configured(tree.around(), &both(&tree, "", "socket_mode = \"0600\""));
    let inode = || fs::metadata(&socket).expect("the socket is there").ino();
    let before = inode();
    let mut kept = Client::connect_unix(&socket);
    let reload = |text: &str| {
        fs::write(tree.beside("touchstone.toml"), text).expect("the configuration is written");
        run(["reload", "--config", tree.beside("touchstone.toml").to_str().expect("text")])
    };
    let changed =
        both(&tree, "", "socket_mode = \"0660\"").replace("site.sock\"", "site.sock\", \"unix:other.sock\"");
    let output = reload(&changed);
    assert!(output.status.success(), "{:?}", error_lines(&output));
    assert_eq!((inode(), mode(&socket), mode(&other)), (before, 0o660, 0o660));
    assert_eq!(kept.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    assert_eq!(ask(&other, "/alphabet.txt", "").status, 200);
    // A missing directory: the configuration does not change.
    let output = reload(&changed.replace("other.sock", "none/other.sock"));
    assert!(!output.status.success());
    assert!(error_lines(&output).join("\n").contains("does not exist"), "{:?}", error_lines(&output));
    assert_eq!(ask(&other, "/alphabet.txt", "").status, 200);
    let output = reload(&changed.replace("\"unix:site.sock\", ", ""));
    assert!(output.status.success(), "{:?}", error_lines(&output));
    wait_until("the file of the former socket is removed", PATIENCE, || !socket.exists());
    assert_eq!(ask(&other, "/alphabet.txt", "").status, 200);
    drop(server);
}

#[test]
fn what_is_in_the_way_is_named() {
    let tree = Tree::standard();
    let socket = tree.beside("site.sock");
    // A server that was killed leaves its file.
    let mut killed = Server::configured(tree.around(), &both(&tree, "", ""));
    killed.signal(Signal::KILL);
    killed.wait();
    assert!(socket.exists());
    let mut server = Server::configured(tree.around(), &both(&tree, "", ""));
    assert_eq!(ask(&socket, "/alphabet.txt", "").status, 200);
    server.stop();

    let busy = UnixListener::bind(&socket).expect("it is bound");
    let problem = refused(&tree, &both(&tree, "", ""));
    assert!(problem.contains("another program listens there"), "{problem}");
    assert!(UnixStream::connect(&socket).is_ok());
    drop(busy);
    fs::remove_file(&socket).expect("it is removed");

    fs::write(&socket, "text").expect("it is written");
    let problem = refused(&tree, &both(&tree, "", ""));
    assert!(problem.contains("a file that is not a socket is in the way"), "{problem}");
    assert_eq!(fs::read_to_string(&socket).expect("it stays"), "text");
    fs::remove_file(&socket).expect("it is removed");

    for (keys, words) in [
        ("socket_mode = \"rw\"", "is not a mode"),
        ("socket_user = \"no-such-user-here\"", "this machine has no user 'no-such-user-here'"),
        ("socket_group = \"no-such-group-here\"", "no-such-group-here"),
    ] {
        let problem = refused(&tree, &both(&tree, "", keys));
        assert!(problem.contains(words) && problem.contains("touchstone.toml:"), "{problem}");
    }
    let problem = refused(&tree, &both(&tree, "", "").replace("site.sock", "none/site.sock"));
    assert!(problem.contains("does not exist") && problem.contains("touchstone.toml:"), "{problem}");
}

#[test]
fn an_upgrade_passes_the_socket_on() {
    let tree = Tree::standard();
    let socket = tree.beside("site.sock");
    let text = both(&tree, "pid_file = \"server.pid\"", "");
    let mut server = Server::configured(tree.around(), &text);
    server.succeeded_by(tree.beside("server.pid"));
    let inode = || fs::metadata(&socket).expect("the socket is there").ino();
    let (before, first) = (inode(), server.serving_pid());
    let config = tree.beside("touchstone.toml");
    let output = run(["upgrade", "--config", config.to_str().expect("a name that is text")]);
    assert!(output.status.success(), "{:?}", error_lines(&output));
    let is_another = |now: Option<Pid>| now.is_some() && now != first;
    wait_until("another process serves", PATIENCE, || is_another(server.serving_pid()));
    server.wait();
    assert_eq!(inode(), before);
    let mut kept = Client::connect_unix(&socket);
    assert_eq!(kept.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    drop(kept);
    let output = run(["stop", "--config", config.to_str().expect("a name that is text")]);
    assert!(output.status.success(), "{:?}", error_lines(&output));
    wait_until("the file is removed", PATIENCE, || !socket.exists());
}

#[test]
fn a_socket_of_systemd_is_used_and_left() {
    let tree = Tree::standard();
    let socket = tree.beside("site.sock");
    let listener = UnixListener::bind(&socket).expect("it is bound");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o640)).expect("its mode is set");
    let text = both(&tree, "", "socket_mode = \"0666\"");
    fs::write(tree.beside("touchstone.toml"), text).expect("the configuration is written");
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_touchstone"), "serve", "--config"]);
    command.arg(tree.beside("touchstone.toml"));
    command.stdin(OwnedFd::from(listener.try_clone().expect("a second descriptor")));
    let mut early = Client::connect_unix(&socket);
    early.send("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut server = Server::start_piped(command);
    assert_eq!(early.answer().body, ALPHABET.as_bytes());
    server.stop();
    // It is systemd's: neither its mode nor its file is changed.
    assert_eq!(mode(&socket), 0o640);
    assert!(UnixStream::connect(&socket).is_ok());
}

#[test]
fn the_quick_form_and_the_abstract_namespace() {
    let tree = Tree::standard();
    let socket = tree.beside("quick.sock");
    let listen = format!("unix:{}", socket.display());
    let root = tree.root();
    let mut server = Server::start(["--root", root.to_str().expect("text"), "--listen", &listen]);
    assert_eq!(ask(&socket, "/alphabet.txt", "").body, ALPHABET.as_bytes());
    assert_eq!(mode(&socket), 0o660);
    server.stop();
    assert!(!socket.exists());
    let name = format!("touchstone-test-site-{}", std::process::id());
    let mut server =
        Server::start(["--root", root.to_str().expect("text"), "--listen", &format!("unix:@{name}")]);
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name");
    let mut client = UnixStream::connect_addr(&address).expect("it listens");
    client.write_all(b"GET /alphabet.txt HTTP/1.0\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with(ALPHABET), "{answer}");
    server.stop();
}

#[test]
fn a_stream_and_programs_behind_a_socket() {
    let tree = Tree::standard();
    let origin = Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let body = head.to_ascii_lowercase();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    let to = origin.address;
    let cgi: PathBuf = tree.beside("cgi-bin");
    let program =
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s %s' \"$REMOTE_ADDR\" \"$SERVER_PORT\"\n";
    write_program(&cgi.join("who"), program);
    let stream = format!(
        "[[stream]]\nname = \"passed\"\nlisten = [\"unix:stream.sock\"]\nto = \"{to}\"\n\
         proxy_protocol = \"v1\"\nallow = [\"unix:\"]\naccess_log = \"stream.log\"\nsocket_mode = \"0600\"\n"
    );
    let routes = format!(
        "[[site.route]]\npath = \"/origin/\"\nproxy = {{ to = \"http://{to}\" }}\n\
         [[site.route]]\npath = \"/cgi-bin/\"\ncgi = {{ directory = {cgi:?} }}\n"
    );
    let mut server = Server::configured(tree.around(), &both(&tree, &stream, &routes));
    let socket = tree.beside("site.sock");
    let answer = ask(&socket, "/cgi-bin/who", "");
    assert_eq!(String::from_utf8_lossy(&answer.body), "unix: 80");
    let told = ask(&socket, "/origin/", "X-Forwarded-For: 192.0.2.9\r\nX-Real-IP: 192.0.2.9\r\n");
    let told = String::from_utf8_lossy(&told.body).into_owned();
    assert!(!told.contains("192.0.2.9") && !told.contains("x-forwarded-for: ::"), "{told}");
    let passed = ask(&tree.beside("stream.sock"), "/passed", "");
    let passed = String::from_utf8_lossy(&passed.body).into_owned();
    assert!(passed.starts_with("proxy unknown\r\nget /passed"), "{passed}");
    assert_eq!(mode(&tree.beside("stream.sock")), 0o600);
    server.stop();
    assert!(!tree.beside("stream.sock").exists());
    let log = fs::read_to_string(tree.beside("stream.log")).expect("the log is there");
    assert!(log.contains(" unix: "), "{log}");
}
