//! FastCGI and SCGI from the outside: real programs in C with the library of the specification's authors, a
//! real SCGI server, and programs that misbehave.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::support::{
    AnswerTo, Client, Response, Server, Tree, bytes_of, curl, free_port, kill_while_asked, skipped,
    wait_until,
};
use rustix::process::{Pid, Signal, kill_process};

/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The echo program, compiled once; `None`, with a visible word, where libfcgi is missing.
fn echo_program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/fastcgi/echo.c");
        compile(&source, "echo.fcgi", &["-lfcgi"])
    });
    if program.is_none() {
        skipped("FastCGI programs in C (install gcc and libfcgi-dev)");
    }
    program.as_deref()
}

fn compile(source: &Path, name: &str, libraries: &[&str]) -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let output =
        Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(source).args(libraries).output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || errors.contains("fcgi"), "{}: {errors}", source.display());
    output.status.success().then_some(program)
}

/// A server whose route `/app/` has FastCGI processes of its own, with these keys beside.
fn managed(tree: &Tree, program: &Path, keys: &str) -> Server {
    let route = format!(
        "[[site.route]]\npath = \"/app/\"\n[site.route.fastcgi]\ncommand = [{program:?}]\n\
         script_name = \"/app\"\n{keys}\n"
    );
    Server::configured(tree.around(), &(tree.configuration("[limits]\nbody_bytes = \"300MiB\"") + &route))
}

/// A server that passes every path to these backends.
fn with_backends(tree: &Tree, kind: &str, backends: &[String], keys: &str) -> Server {
    on_cores(1, tree, kind, backends, keys)
}

fn on_cores(cores: usize, tree: &Tree, kind: &str, backends: &[String], keys: &str) -> Server {
    let route = format!("[[site.route]]\n[site.route.{kind}]\nbackends = {backends:?}\n{keys}\n");
    Server::configured(tree.around(), &(tree.configuration(&format!("[server]\ncores = {cores}")) + &route))
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

/// A program with processes that the test started; killed with the test.
struct Program {
    child: Child,
}

impl Program {
    fn start(command: &mut Command) -> Program {
        let child =
            command.stdin(Stdio::null()).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Program { child }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A FastCGI program that listens at a socket: descriptor 0, as process managers pass it.
fn listening(program: &Path, socket: &Path) -> Program {
    let _ = fs::remove_file(socket);
    accepting(program, UnixListener::bind(socket).unwrap().into())
}

/// A FastCGI program that accepts connections at a socket.
fn accepting(program: &Path, socket: OwnedFd) -> Program {
    Program { child: Command::new(program).stdin(Stdio::from(socket)).spawn().unwrap() }
}

#[test]
fn a_program_is_told_about_its_request() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let server =
        managed(&tree, program, "variables = { APP_MODE = \"test\" }\nenvironment = { STARTED = \"yes\" }");
    let answer = server.connect().ask(
        "GET /app/a%20b/c?x=1&y HTTP/1.1\r\nHost: www.example.org:81\r\nProxy: http://evil.example\r\n\
         X_Real_IP: 9.9.9.9\r\nAuthorization: Basic YTpi\r\nX-Plain: yes\r\n\r\n",
    );
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("text/plain")));
    let text = text(&answer);
    let root = tree.root().to_str().unwrap().to_string();
    let translated = format!("PATH_TRANSLATED={root}/a b/c");
    for line in [
        "GATEWAY_INTERFACE=CGI/1.1",
        "REQUEST_METHOD=GET",
        "SCRIPT_NAME=/app",
        "PATH_INFO=/a b/c",
        "QUERY_STRING=x=1&y",
        "REQUEST_URI=/app/a%20b/c?x=1&y",
        "SERVER_NAME=www.example.org",
        "SERVER_PROTOCOL=HTTP/1.1",
        "REMOTE_ADDR=127.0.0.1",
        "HTTP_X_PLAIN=yes",
        "APP_MODE=test",
        translated.as_str(),
    ] {
        assert!(text.lines().any(|each| each == line), "{line} is not in\n{text}");
    }
    for name in ["HTTP_PROXY", "HTTP_AUTHORIZATION", "HTTP_X_REAL_IP", "CONTENT_LENGTH"] {
        assert!(!text.contains(&format!("\n{name}=")), "{name} is in\n{text}");
    }
}

#[test]
fn bodies_stream_both_ways() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let server = managed(&tree, program, "processes = 2");
    for length in [0, 1, 65_535, 65_536, 65_537, 3_000_000] {
        let path = tree.beside("body.bin");
        fs::write(&path, bytes_of(length)).unwrap();
        let data = format!("@{}", path.display());
        let url = format!("http://{}/app/?body", server.address());
        for more in
            [&["--http1.1"][..], &["--header", "Transfer-Encoding: chunked"], &["--http2-prior-knowledge"]]
        {
            let fixed = ["--data-binary", &data, &url];
            let Some(output) = curl(fixed.iter().chain(more)) else { return };
            assert!(
                output.status.success(),
                "{length} {more:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(
                output.stdout == bytes_of(length),
                "{length} bytes with {more:?}: {}",
                output.stdout.len()
            );
        }
    }
}

#[test]
fn a_connection_is_kept_and_serves_one_request_after_another() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let server = managed(&tree, program, "processes = 1");
    let mut client = server.connect();
    let first = client.ask("GET /app/?bytes=100 HTTP/1.1\r\nHost: a\r\n\r\n");
    let open = server.settled_sockets();
    for count in 0..50 {
        let length = count * 4_000;
        let answer = client.ask(format!("GET /app/?bytes={length} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!((answer.status, answer.body.len()), (200, length));
    }
    assert_eq!(first.body.len(), 100);
    // Sockets of the server's other work may be opened and closed.
    wait_until("another connection was opened, or one closed", PATIENCE, || server.open_sockets() == open);
}

#[test]
fn no_request_starves_whatever_the_number_of_processes() {
    let Some(program) = echo_program() else { return };
    for processes in [1, 2, 5, 50] {
        for is_tcp in [false, true] {
            let tree = Tree::empty();
            let socket = tree.beside("app.sock");
            let (address, listener): (String, OwnedFd) = if is_tcp {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                (listener.local_addr().unwrap().to_string(), listener.into())
            } else {
                (format!("unix:{}", socket.display()), UnixListener::bind(&socket).unwrap().into())
            };
            let start = |_| accepting(program, listener.try_clone().unwrap());
            let _programs: Vec<Program> = (0..processes).map(start).collect();
            for keys in ["", "keep_connections = true", "keep_connections = true\nconnections = 100"] {
                let server = on_cores(3, &tree, "fastcgi", std::slice::from_ref(&address), keys);
                server.assert_serves_many("/?bytes=100", &format!("{processes} at {address}, {keys:?}"));
            }
        }
    }
}

#[test]
fn routes_with_one_backend_do_not_starve_each_other() {
    let Some(program) = echo_program() else { return };
    // If their rules agree they share connections; otherwise an idle one of the first is closed for the
    // second.
    for (first, second) in [("", ""), ("", "connections = 100"), ("connections = 1", "connections = 1")] {
        let tree = Tree::empty();
        let socket = tree.beside("app.sock");
        let _program = listening(program, &socket);
        let route = |path: &str, keys: &str| {
            format!(
                "[[site.route]]\npath = \"{path}\"\n[site.route.fastcgi]\nbackends = [\"unix:{}\"]\n\
                 keep_connections = true\n{keys}\n",
                socket.display()
            )
        };
        let routes = route("/first/", first) + &route("/second/", second);
        let server =
            Server::configured(tree.around(), &(tree.configuration("[server]\ncores = 2") + &routes));
        for _ in 0..3 {
            server.assert_serves_many("/first/?bytes=100", &format!("the first of {first:?}, {second:?}"));
            server.assert_serves_many("/second/?bytes=100", &format!("the second of {first:?}, {second:?}"));
        }
    }
}

#[test]
fn what_programs_do_wrong_has_an_answer_and_a_reason() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let server = managed(&tree, program, "processes = 3\nfirst_byte_timeout = \"4s\"");
    for (query, status, reason) in [
        ("rubbish", 502, "is not \"Name: value\""),
        ("nothing", 502, "it printed nothing"),
        ("short", 502, "Content-Length is 100, but 6 bytes were sent"),
        ("exit", 502, "the connection"),
        ("sleep=20000", 504, "no answer came within 4s"),
    ] {
        // POST: the server does not retry what cannot be done twice.
        let request = format!("POST /app/x?{query} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        let answer = server.connect().ask(request);
        assert_eq!(answer.status, status, "{query}");
        server.wait_for_error_line(query, |line| line.contains(reason) && line.contains("POST /app/x"));
        assert!(!server.error_text().contains(&format!("x?{query}")), "a query is in the log");
    }
    assert_eq!(server.get("/app/?bytes=5").body, b"abcde");
    let answer = server.get("/app/?status=418");
    assert_eq!((answer.status, text(&answer).as_str()), (418, "chosen\n"));
}

#[test]
fn a_get_over_a_kept_connection_fails_as_any_request_does_and_the_client_goes_on() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let server = managed(&tree, program, "processes = 1\nfirst_byte_timeout = \"4s\"");
    let mut client = server.connect();
    for (query, status, reason) in [
        ("rubbish", 502, "is not \"Name: value\""),
        ("nothing", 502, "it printed nothing"),
        ("short", 502, "Content-Length is 100, but 6 bytes were sent"),
        ("exit", 502, "the connection"),
        ("sleep=20000", 504, "no answer came within 4s"),
    ] {
        // The connection that this leaves takes the next request at once.
        wait_until("a good answer", PATIENCE, || {
            client.ask("GET /app/?bytes=5 HTTP/1.1\r\nHost: a\r\n\r\n").body == b"abcde"
        });
        let answer = client.ask(format!("GET /app/x?{query} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(answer.status, status, "{query}");
        server.wait_for_error_line(query, |line| line.contains(reason) && line.contains("GET /app/x"));
    }
}

#[test]
fn requests_behind_one_another_are_answered_in_order_and_each_counts_once() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let rate = "rate_limit = { requests = 1, burst = 6, per = \"1h\" }";
    let route = format!(
        "[[site.route]]\npath = \"/app/\"\n{rate}\n[site.route.fastcgi]\ncommand = [{program:?}]\n\
         processes = 1\nscript_name = \"/app\"\n"
    );
    let server = Server::configured(tree.around(), &(tree.configuration("[server]\ncores = 1") + &route));
    let mut client = server.connect();
    let request = |bytes: usize| format!("GET /app/?bytes={bytes} HTTP/1.1\r\nHost: a\r\n\r\n");
    client.send((1..=6).map(request).collect::<String>());
    for bytes in 1..=6 {
        let answer = client.try_answer(AnswerTo::Other).unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, bytes));
    }
    assert_eq!(client.ask(request(7)).status, 429);
}

#[test]
fn an_answer_that_breaks_off_is_not_whole() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let server = managed(&tree, program, "processes = 1");
    let mut client = server.connect();
    client.send("GET /app/?stop HTTP/1.1\r\nHost: a\r\n\r\n");
    // If the server notices before it has begun the answer, it sends an error; otherwise the client sees the
    // break.
    if let Ok(answer) = client.try_answer(AnswerTo::Other) {
        assert_eq!(answer.status, 502, "the client would take it for whole");
    }
    server.wait_for_error_line("about it", |line| line.contains("/app/") && line.contains("connection"));
    assert_eq!(server.get("/app/?bytes=3").body, b"abc");
}

#[test]
fn an_answer_longer_than_its_length_is_cut_and_the_program_goes_on() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    for kind in ["fastcgi", "scgi"] {
        let listener = UnixListener::bind(tree.beside(kind)).unwrap();
        let (send, goes_on) = std::sync::mpsc::channel::<()>();
        let address = format!("unix:{}", tree.beside(kind).display());
        std::thread::spawn(move || {
            let mut connection = listener.accept().unwrap().0;
            let _ = connection.read(&mut [0; 4096]);
            let text = b"Content-Type: a/b\nContent-Length: 8\n\n0123456789";
            if kind == "fastcgi" {
                connection.write_all(&[1, 6, 0, 1, 0, u8::try_from(text.len()).unwrap(), 0, 0]).unwrap();
            }
            connection.write_all(text).unwrap();
            // The client has its answer while the program continues.
            let _ = goes_on.recv();
        });
        let server = with_backends(&tree, kind, &[address], "");
        let answer = server.connect().ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((answer.status, text(&answer).as_str()), (200, "01234567"), "{kind}");
        drop(send);
    }
    let server = managed(&tree, program, "processes = 1");
    for query in ["long", "long=flush", "bytes=3"] {
        let answer = server.get(&format!("/app/?{query}"));
        let expected = if query.starts_with("long") { "01234567" } else { "abc" };
        assert_eq!((answer.status, text(&answer).as_str()), (200, expected), "{query}");
    }
}

/// Programs that answer as a server does: with a status line, interim responses and chunks.
#[test]
fn chunks_of_a_program_are_read_and_its_interim_responses_passed_on() {
    const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
    const HEAD: &str = "HTTP/1.1 200 Very well\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n";
    const CHUNKS: &str = "5\r\nhello\r\n6\r\n there\r\n0\r\n\r\n";
    for kind in ["fastcgi", "scgi"] {
        for (pieces, expected) in [
            (vec![format!("{HINTS}{HEAD}{CHUNKS}")], Ok("hello there")),
            (vec![format!("{HINTS}{HEAD}5\r\nhel"), format!("lo\r\n0\r\n\r\n")], Ok("hello")),
            (vec![format!("{HINTS}{HEAD}5\r\nhello\r\n")], Err("before the last chunk")),
            (vec![format!("{HINTS}{HEAD}5\r\nhel"), "lo\r\n".to_string()], Err("before the last chunk")),
            (vec![format!("{HINTS}{HEAD}hello")], Err("its chunks are wrong")),
            (vec![format!("{HINTS}{HEAD}5\r\nhel"), "loX".to_string()], Err("its chunks are wrong")),
            // Without a status line the field has no meaning, as in CGI.
            (vec![format!("{HINTS}Status: 200\nTransfer-Encoding: chunked\n\nhello")], Ok("hello")),
        ] {
            let tree = Tree::empty();
            let address = speaking(&tree, kind, pieces.clone());
            let server = with_backends(&tree, kind, &[address], "");
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let hints = client.answer();
            assert_eq!((hints.status, hints.field("link")), (103, Some("</a.css>")), "{kind} {pieces:?}");
            let answer = client.try_answer(AnswerTo::Other);
            match expected {
                Ok(body) => assert_eq!(text(&answer.unwrap()), body, "{kind} {pieces:?}"),
                Err(reason) => {
                    assert!(!answer.is_ok_and(|answer| answer.status == 200), "{kind} {pieces:?}");
                    server.wait_for_error_line(reason, |line| line.contains(reason));
                }
            }
        }
    }
}

#[test]
fn the_reason_phrase_of_a_program_reaches_its_client() {
    for kind in ["fastcgi", "scgi"] {
        let tree = Tree::empty();
        let output = "Status: 404 Gone fishing\nContent-Type: a/b\n\nx".to_string();
        let address = speaking(&tree, kind, vec![output]);
        let server = with_backends(&tree, kind, &[address], "");
        assert_eq!(server.get("/").reason, "Gone fishing", "{kind}");
    }
}

/// A program that answers each request with these pieces, with a pause between them, and ends the connection.
fn speaking(tree: &Tree, kind: &'static str, pieces: Vec<String>) -> String {
    let socket = tree.beside(kind);
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 4096]);
            for (index, piece) in pieces.iter().enumerate() {
                if index > 0 {
                    std::thread::sleep(Duration::from_millis(100));
                }
                let mut bytes = Vec::new();
                if kind == "fastcgi" {
                    bytes.extend([1, 6, 0, 1, 0, u8::try_from(piece.len()).unwrap(), 0, 0]);
                }
                bytes.extend_from_slice(piece.as_bytes());
                if kind == "fastcgi" && index + 1 == pieces.len() {
                    bytes.extend([1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                }
                let _ = connection.write_all(&bytes);
            }
        }
    });
    format!("unix:{}", socket.display())
}

/// A FastCGI program with one process, which answers one request of each connection. It reads the next
/// request as well, and then closes the connection without an answer to it, as php-fpm does after
/// `pm.max_requests`.
fn ending_after_one_request(tree: &Tree) -> String {
    let socket = tree.beside("ending");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut received = [0; 4096];
            let _ = connection.read(&mut received);
            // The requests of the other clients wait for this connection.
            std::thread::sleep(Duration::from_millis(300));
            let mut bytes = vec![1, 6, 0, 1, 0, 32, 0, 0];
            bytes.extend_from_slice(b"Content-Type: text/plain\r\n\r\nhere");
            bytes.extend([1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            let _ = connection.write_all(&bytes);
            let _ = connection.read(&mut received);
        }
    });
    format!("unix:{}", socket.display())
}

#[test]
fn waiting_requests_survive_that_the_program_closes_the_connection_that_they_get() {
    let tree = Tree::empty();
    let address = ending_after_one_request(&tree);
    let keys = "keep_connections = true\nconnections = 1";
    let server = with_backends(&tree, "fastcgi", &[address], keys);
    let mut clients: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in &mut clients {
        let answer = client.answer();
        assert_eq!((answer.status, text(&answer).as_str()), (200, "here"));
    }
}

#[test]
fn head_says_the_length_that_the_program_names_and_no_other() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let server = managed(&tree, program, "processes = 1");
    let mut client = server.connect();
    for (query, length) in [("head=none", None), ("head=named", Some("42")), ("bytes=7", Some("7"))] {
        client.send(format!("HEAD /app/?{query} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let answer = client.try_answer(AnswerTo::Head).unwrap();
        assert_eq!((answer.status, answer.field("content-length")), (200, length), "{query}");
    }
}

#[test]
fn messages_go_to_the_error_log() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let server = managed(&tree, program, "");
    assert_eq!(text(&server.get("/app/?message")), "said\n");
    for line in ["first line", "second line"] {
        server.wait_for_error_line(line, |each| each.contains(&format!("says: {line} (GET /app/")));
    }
}

#[test]
fn a_local_redirect_is_answered_by_the_server() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    tree.write("index.html", "home");
    let server = managed(&tree, program, "");
    assert_eq!(text(&server.get("/app/?redirect")), "home");
}

#[test]
fn a_program_that_ends_is_started_again_and_none_is_left() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let mut server = managed(&tree, program, "processes = 2");
    let process = |server: &Server| -> i32 { text(&server.get("/app/?pid")).trim().parse().unwrap() };
    let first = process(&server);
    kill_process(Pid::from_raw(first).unwrap(), Signal::KILL).unwrap();
    server.wait_for_error_line("about its end", |line| line.contains(&format!("process {first} ended")));
    for _ in 0..20 {
        assert_ne!(process(&server), first);
    }
    wait_until("both run again", PATIENCE, || programs_of(&server).len() == 2);
    let children = programs_of(&server);
    server.stop();
    assert!(children.iter().all(|child| !Path::new(&format!("/proc/{child}")).exists()), "{children:?}");
}

/// The FastCGI programs that a server has started.
fn programs_of(server: &Server) -> Vec<i32> {
    children_named(server, "echo.fcgi")
}

/// The programs that a server has started with this in their command line.
fn children_named(server: &Server, name: &str) -> Vec<i32> {
    let mut children = Vec::new();
    // A thread may end at any moment.
    for task in fs::read_dir(format!("/proc/{}/task", server.process())).unwrap().flatten() {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(text.split_whitespace().map(|number| number.parse::<i32>().unwrap()));
    }
    children.retain(|child| is_named(*child, name));
    children
}

fn is_named(process: i32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default().contains(name)
}

#[test]
fn programs_killed_at_random_leave_every_request_with_an_answer() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let mut server = managed(&tree, program, "processes = 4");
    let ask = |count| {
        let length = count * 977 % 5_000;
        let answer = server.get(&format!("/app/?bytes={length}"));
        assert!([200, 502, 503, 504].contains(&answer.status), "{}", answer.status);
        assert!(answer.status != 200 || answer.body.len() == length, "{} bytes", answer.body.len());
        answer.status == 200
    };
    let kill = |round: usize| {
        let programs = programs_of(&server);
        let victim = programs.get(round % programs.len().max(1)).copied();
        victim.and_then(Pid::from_raw).is_some_and(|victim| kill_process(victim, Signal::KILL).is_ok())
    };
    kill_while_asked(40, ask, kill);
    // Every killed program is started again.
    wait_until("the programs answer again", PATIENCE, || server.get("/app/?bytes=1").status == 200);
    let children = programs_of(&server);
    server.stop();
    assert!(children.iter().all(|child| !Path::new(&format!("/proc/{child}")).exists()), "{children:?}");
}

#[test]
fn several_backends_share_requests_and_stand_in_for_each_other() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let sockets: Vec<PathBuf> = (0..2).map(|number| tree.beside(&format!("{number}.sock"))).collect();
    let mut programs: Vec<Program> = sockets.iter().map(|socket| listening(program, socket)).collect();
    let backends: Vec<String> = sockets.iter().map(|socket| format!("unix:{}", socket.display())).collect();
    let keys = "balance = \"round-robin\"\nmax_failures = 2\nfail_timeout = \"2s\"";
    let server = with_backends(&tree, "fastcgi", &backends, keys);
    let process = || text(&server.get("/?pid")).trim().to_string();
    let seen: std::collections::HashSet<String> = (0..6).map(|_| process()).collect();
    assert_eq!(seen.len(), 2, "both are asked");

    programs[0].kill();
    let left = programs[1].child.id().to_string();
    for _ in 0..6 {
        assert_eq!(process(), left, "the other one stands in");
    }
    server.wait_for_error_line("about it being down", |line| line.contains("gets no requests"));

    programs[0] = listening(program, &sockets[0]);
    let back = programs[0].child.id().to_string();
    wait_until("it is asked again", PATIENCE, || process() == back);
    server.wait_for_error_line("about it being up", |line| line.contains("is up again"));
}

#[test]
fn a_restarted_backend_loses_no_request() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let socket = tree.beside("app.sock");
    let mut running = listening(program, &socket);
    let keys = "keep_connections = true";
    let server = with_backends(&tree, "fastcgi", &[format!("unix:{}", socket.display())], keys);
    for _ in 0..3 {
        assert_eq!(server.get("/?bytes=4").body, b"abcd");
        // The kept connection ends with its program.
        running.kill();
        running = listening(program, &socket);
        let request = "POST /?body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nagain";
        let answer = server.connect().ask(request);
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"again"[..]));
    }
}

#[test]
fn no_backend_and_wrong_ones() {
    let tree = Tree::empty();
    let nobody = with_backends(&tree, "fastcgi", &[format!("127.0.0.1:{}", free_port())], "");
    assert_eq!(nobody.get("/").status, 502);
    nobody.wait_for_error_line("about it", |line| line.contains("cannot connect: Connection refused"));
    (0..20).for_each(|_| assert_eq!(nobody.get("/").status, 502));
    nobody.wait_for_error_line("that it continues", |line| line.contains(" is failing: cannot connect: "));
    assert_eq!(nobody.error_text().matches("cannot connect").count(), 3, "{}", nobody.error_text());

    for (sent, reason) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "does not speak FastCGI 1: a record begins with byte 72"),
        (b"\x01\x03\x00\x01\x00\x04\x00\x00\x00\x00\x00\x00", "FCGI_END_REQUEST record has 4 bytes"),
        (b"\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00", "it answered UNKNOWN_ROLE"),
        (b"\x01\x06\x00\x07\x00\x01\x00\x00a", "for another request"),
        (b"\x01\x06\x00\x01\x00\x20\x00\x00Content-Type: text/plain\n", "before the end of the answer"),
        (b"", "it closed the connection without an answer"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for connection in listener.incoming().take(2) {
                let mut connection = connection.unwrap();
                let mut request = [0; 64];
                let _ = connection.read(&mut request);
                let _ = connection.write_all(sent);
                let _ = connection.shutdown(std::net::Shutdown::Write);
                let _ = connection.read_to_end(&mut Vec::new());
            }
        });
        let server = with_backends(&tree, "fastcgi", &[address], "");
        assert_eq!(server.get("/").status, 502, "{reason}");
        server.wait_for_error_line(reason, |line| line.contains(reason));
    }
}

#[test]
fn more_requests_than_connections_wait_and_too_many_are_refused() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let server = managed(&tree, program, "processes = 1\nqueue = 2");
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = |_| {
            let server = &server;
            scope.spawn(move || server.get("/app/?sleep=1500").status)
        };
        let clients: Vec<_> = (0..6).map(ask).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let count = |status| statuses.iter().filter(|each| **each == status).count();
    assert_eq!((count(200) + count(503), count(200) >= 3), (6, true), "{statuses:?}");
    assert!(count(503) >= 1, "{statuses:?}");
    server.wait_for_error_line("about it", |line| line.contains("too many requests wait"));
}

#[test]
fn a_client_that_leaves_frees_the_program() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let server = managed(&tree, program, "processes = 1");
    let client = server.connect();
    let mut client = client;
    client.send("GET /app/?bytes=50000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    client.wait_for_bytes(100_000);
    client.vanish();
    let answer = server.get("/app/?bytes=7");
    assert_eq!(answer.body, b"abcdefg", "the one process is free again");
}

#[test]
fn a_slow_client_slows_the_program_down() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let server = managed(&tree, program, "processes = 1");
    let mut client = Client::connect_with_small_buffer(server.address());
    client.send("GET /app/?bytes=200000000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    for count in 1..20 {
        client.wait_for_bytes(count * 100_000);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(resident_kib(server.process()) < 100_000, "the answer is gathered in memory");
    client.vanish();
}

fn resident_kib(process: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_reload_keeps_the_processes() {
    let Some(program) = echo_program() else { return };
    let tree = Tree::empty();
    let server = managed(&tree, program, "processes = 1");
    let process = || text(&server.get("/app/?pid"));
    let before = process();
    server.signal(Signal::HUP);
    server.wait_for_error_line("about the reload", |line| line.contains("applied"));
    assert_eq!(process(), before);
    // A changed environment starts new programs, and the old ones end.
    let path = tree.around().join("touchstone.toml");
    let other = fs::read_to_string(&path).unwrap() + "environment = { CHANGED = \"yes\" }\n";
    fs::write(&path, other).unwrap();
    server.signal(Signal::HUP);
    wait_until("another process answers", PATIENCE, || process() != before);
    let old: i32 = before.trim().parse().unwrap();
    wait_until("the old one ends", PATIENCE, || !Path::new(&format!("/proc/{old}")).exists());
}

#[test]
fn a_program_that_cannot_run_is_refused_at_once() {
    let tree = Tree::empty();
    let server = managed(&tree, Path::new("/bin/false"), "first_byte_timeout = \"600s\"");
    wait_until("it is known", PATIENCE, || server.get("/app/").status == 503);
    server.wait_for_error_line("about it", |line| line.contains("is not running: /bin/false"));
}

#[test]
fn the_spice_program_answers() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/fastcgi/spice.c");
    let Some(program) = compile(&source, "spice.fcgi", &[]) else {
        return skipped("the SPICE program (install gcc)");
    };
    let tree = Tree::empty();
    let server = managed(&tree, &program, "processes = 1");
    let mut client = server.connect();
    for _ in 0..5 {
        let answer = client.ask("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(
            (answer.status, answer.field("content-length"), answer.body.len()),
            (200, Some("6250"), 6_250)
        );
    }
    let answer = client.ask(
        "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n".to_string() + &"b".repeat(70_000),
    );
    assert_eq!(answer.body.len(), 6_250);
}

/// Passes connections on to another socket, and counts them.
/// Until so many were opened, nothing is passed on.
fn counting(at: &Path, to: PathBuf, first: usize) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(at).unwrap();
    let count: Arc<AtomicUsize> = Arc::default();
    let counted = count.clone();
    std::thread::spawn(move || {
        for from_server in listener.incoming() {
            counted.fetch_add(1, Ordering::Relaxed);
            let (from_server, to_program) = (from_server.unwrap(), UnixStream::connect(&to).unwrap());
            let pass = |mut from: UnixStream, mut to: UnixStream| {
                let opened = counted.clone();
                std::thread::spawn(move || {
                    wait_until("enough connections are opened", PATIENCE, || {
                        opened.load(Ordering::Relaxed) >= first
                    });
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                })
            };
            pass(from_server.try_clone().unwrap(), to_program.try_clone().unwrap());
            pass(to_program, from_server);
        }
    });
    count
}

#[test]
fn as_many_connections_as_are_needed_stay_for_a_moment_and_some_for_longer() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/fastcgi/spice.c");
    let Some(program) = compile(&source, "spice-kept.fcgi", &[]) else {
        return skipped("the SPICE program (install gcc)");
    };
    let tree = Tree::empty();
    let _program = listening(&program, &tree.beside("program.sock"));
    let counted = tree.beside("counted.sock");
    let count = counting(&counted, tree.beside("program.sock"), 17);
    let keys = "keep_connections = true";
    let server = with_backends(&tree, "fastcgi", &[format!("unix:{}", counted.display())], keys);
    let sockets = server.settled_sockets();
    let mut clients: Vec<Client> = (0..48).map(|_| server.connect()).collect();
    // If kept connections were not reused, each wave would open new connections. On a busy machine a wave may
    // take longer than the moment.
    wait_until("ten waves open few connections", PATIENCE, || {
        let before = count.load(Ordering::Relaxed);
        for _ in 0..10 {
            clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
            for client in &mut clients {
                assert_eq!(client.answer().body.len(), 6_250);
            }
        }
        count.load(Ordering::Relaxed) - before < 150
    });
    drop(clients);
    wait_until("16 of them stay", PATIENCE, || server.open_sockets() <= sockets + 16);
}

/// The application behind a real SCGI server.
const WSGI_APPLICATION: &str = "\
def application(environ, start_response):
    body = environ['wsgi.input'].read()
    start_response('200 OK', [('Content-Type', 'application/octet-stream'), ('X-Path', environ['PATH_INFO'])])
    return [environ['REQUEST_METHOD'].encode(), b' ', environ['QUERY_STRING'].encode(), b' ', body]
";

#[test]
fn scgi_and_uwsgi_with_a_real_server() {
    real_server("scgi", "--scgi-socket");
    real_server("uwsgi", "--uwsgi-socket");
}

fn real_server(key: &str, option: &str) {
    let Some(tree) = uwsgi_tree() else { return };
    let socket = tree.beside("program.sock");
    let mut uwsgi = Command::new("uwsgi");
    uwsgi.args(["--plugins", "python3", "--master", "--processes", "2", "--die-on-term", "--need-app"]);
    uwsgi.arg(option).arg(&socket).arg("--wsgi-file").arg(tree.beside("application.py"));
    let _running = Program::start(uwsgi.stdout(Stdio::null()).stderr(Stdio::null()));
    wait_until("uwsgi listens", PATIENCE, || UnixStream::connect(&socket).is_ok());
    let server = with_backends(&tree, key, &[format!("unix:{}", socket.display())], "");
    for length in [0, 5, 100_000] {
        let body = "b".repeat(length);
        let request = format!("POST /a%20b?q HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
        let answer = server.connect().ask(request);
        assert_eq!((answer.status, answer.field("x-path")), (200, Some("/a b")), "{length}");
        assert_eq!(text(&answer), format!("POST q {body}"));
    }
}

/// The socket is descriptor 0, which uwsgi detects; a program of the site uses it as with lighttpd.
#[test]
fn scgi_programs_are_started_and_watched() {
    let Some(tree) = uwsgi_tree() else { return };
    let application = tree.beside("application.py");
    let command =
        ["uwsgi", "--plugins", "python3", "--protocol", "scgi", "--need-app", "--die-on-term", "--wsgi-file"];
    let command: Vec<&str> = command.into_iter().chain(application.to_str()).collect();
    let route = format!("[[site.route]]\n[site.route.scgi]\ncommand = {command:?}\nprocesses = 2\n");
    let mut server = Server::configured(tree.around(), &(tree.configuration("") + &route));
    let answers = |length: usize| {
        let body = "b".repeat(length);
        let request = format!("POST /a?q HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
        let answer = server.connect().ask(request);
        answer.status == 200 && text(&answer) == format!("POST q {body}")
    };
    wait_until("the programs answer", PATIENCE, || answers(5));
    assert!(answers(100_000));
    wait_until("both run", PATIENCE, || children_named(&server, "uwsgi").len() == 2);
    let children = children_named(&server, "uwsgi");
    for child in &children {
        kill_process(Pid::from_raw(*child).unwrap(), Signal::KILL).unwrap();
    }
    wait_until("others take their place", PATIENCE, || answers(5));
    let children = children_named(&server, "uwsgi");
    server.stop();
    assert!(children.iter().all(|child| !Path::new(&format!("/proc/{child}")).exists()), "{children:?}");
}

fn uwsgi_tree() -> Option<Tree> {
    let has = Command::new("uwsgi").args(["--plugins", "python3", "--version"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        skipped("SCGI with a real server (install uwsgi-core and uwsgi-plugin-python3)");
        return None;
    }
    let tree = Tree::empty();
    fs::write(tree.beside("application.py"), WSGI_APPLICATION).unwrap();
    Some(tree)
}

#[test]
fn what_is_wrong_with_a_configuration_is_said_with_its_place() {
    let tree = Tree::empty();
    for (route, expected) in [
        ("fastcgi = {}", "there are neither 'backends' nor a 'command'"),
        ("fastcgi = { backends = [\"unix:app.sock\"] }", "must begin with a slash"),
        ("fastcgi = { backends = [\"127.0.0.1:9 weight=0\"] }", "must be a number from 1 to 1000"),
        ("fastcgi = { backends = [\"127.0.0.1:9 backup\"] }", "at least one must not be a backup"),
        ("fastcgi = { command = [\"/nowhere/app\"] }", "there is no program \"/nowhere/app\""),
        ("fastcgi = { backends = [\"127.0.0.1:9\"], command = [\"a\"] }", "cannot both be set"),
        ("scgi = {}", "there are neither 'backends' nor a 'command'"),
        ("scgi = { command = [\"/nowhere/app\"] }", "there is no program \"/nowhere/app\""),
        ("scgi = { backends = [\"127.0.0.1:9\"], command = [\"a\"] }", "cannot both be set"),
        ("php = \"nonsense\"", "or \"managed\""),
        ("php = { backends = [\"127.0.0.1:9\"], settings = { \"a b\" = \"1\" } }", "a b"),
        ("fastcgi = { backend = [] }", "did you mean 'backends'?"),
        ("cgi = {}\nfastcgi = { backends = [\"127.0.0.1:9\"] }", "cannot both be done"),
    ] {
        let path = tree.around().join("wrong.toml");
        fs::write(&path, tree.configuration("") + "[[site.route]]\n" + route + "\n").unwrap();
        let output = crate::support::run(["check", "--config", path.to_str().unwrap()]);
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{route}: {said}");
        assert!(said.contains("wrong.toml:") && said.contains(':'), "{route}: {said}");
    }
}
