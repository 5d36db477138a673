//! CGI programs from the outside: their variables, the server's handling of their output, and that no process
//! is left.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    AnswerTo, Client, Response, Server, Tree, bytes_of, curl, error_lines, run, skipped, wait_until,
    write_program,
};
use rustix::process::{Pid, Signal, kill_process};

/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes a shell program below the root.
fn program(tree: &Tree, name: &str, script: &str) -> PathBuf {
    executable(tree, name, &format!("#!/bin/sh\n{script}\n"))
}

fn executable(tree: &Tree, name: &str, text: &str) -> PathBuf {
    let path = tree.file(name);
    write_program(&path, text);
    path
}

/// A server of a tree with programs in `cgi-bin`, with these keys in `cgi`.
fn server(tree: &Tree, keys: &str) -> Server {
    let route = format!("[[site.route]]\npath = \"/cgi-bin/\"\n[site.route.cgi]\n{keys}\n");
    Server::configured(tree.around(), &(tree.configuration("") + &route))
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

/// A variable from the output of a program that prints its environment.
fn variable(response: &Response, name: &str) -> Option<String> {
    let prefix = format!("{name}=");
    text(response).lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_string))
}

const PRINT_ENVIRONMENT: &str = "printf 'Content-Type: text/plain\\n\\n'; env";

#[test]
fn a_program_is_told_about_its_request() {
    let tree = Tree::empty();
    program(&tree, "cgi-bin/env", PRINT_ENVIRONMENT);
    let server = server(&tree, "environment = { GREETING = \"hello there\", PATH = \"/bin:/usr/bin\" }");
    let request = "GET /cgi-bin/env/a%20b/c?x=1&y HTTP/1.1\r\nHost: www.example.org:81\r\nAccept: a\r\n\
                   accept: b\r\n\
                   Cookie: k=1\r\nCookie: l=2\r\nProxy: http://evil.example\r\nX_Forwarded_For: 9.9.9.9\r\n\
                   X-Forwarded-For: 9.9.9.8\r\nForwarded: for=9.9.9.7\r\nX-Real-IP: 9.9.9.6\r\n\
                   Authorization: Basic YTpi\r\nX-Plain: yes\r\n\r\n";
    let answer = server.connect().ask(request);
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("text/plain")));
    let root = tree.root().to_str().unwrap().to_string();
    let script = format!("{root}/cgi-bin/env");
    let translated = format!("{root}/a b/c");
    for (name, value) in [
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_NAME", "/cgi-bin/env"),
        ("PATH_INFO", "/a b/c"),
        ("PATH_TRANSLATED", &translated),
        ("QUERY_STRING", "x=1&y"),
        ("REQUEST_URI", "/cgi-bin/env/a%20b/c?x=1&y"),
        ("SERVER_NAME", "www.example.org"),
        // The kernel chooses the port, so the port of the Host field counts.
        ("SERVER_PORT", "81"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("DOCUMENT_ROOT", &root),
        ("SCRIPT_FILENAME", &script),
        ("REQUEST_SCHEME", "http"),
        ("HTTP_HOST", "www.example.org:81"),
        ("HTTP_ACCEPT", "a, b"),
        ("HTTP_COOKIE", "k=1; l=2"),
        ("HTTP_X_PLAIN", "yes"),
        ("GREETING", "hello there"),
        ("PATH", "/bin:/usr/bin"),
    ] {
        assert_eq!(variable(&answer, name).as_deref(), Some(value), "{name}");
    }
    for name in
        ["HTTP_PROXY", "HTTP_X_FORWARDED_FOR", "HTTP_AUTHORIZATION", "CONTENT_LENGTH", "HTTPS", "HOME"]
    {
        assert_eq!(variable(&answer, name), None, "{name}");
    }
}

#[test]
fn a_trusted_proxy_says_whether_the_client_came_over_https() {
    for (proxies, is_trusted) in [("[proxies]\ntrusted = [\"127.0.0.1\"]\n", true), ("", false)] {
        let tree = Tree::empty();
        program(&tree, "cgi-bin/env", PRINT_ENVIRONMENT);
        let route = "[[site.route]]\npath = \"/cgi-bin/\"\ncgi = {}\n";
        let server = Server::configured(tree.around(), &(tree.configuration(proxies) + route));
        for (host, field, is_https, port) in [
            ("shop.example", "X-Forwarded-Proto: https", true, "443"),
            ("shop.example:8443", "Forwarded: for=192.0.2.1;proto=https", true, "8443"),
            ("shop.example:8080", "X-Forwarded-Proto: http\r\nX-Forwarded-Port: 8081", false, "8081"),
            ("shop.example", "X-Forwarded-Proto: https\r\nX-Forwarded-Port: 9443", true, "9443"),
        ] {
            let answer =
                server.connect().ask(format!("GET /cgi-bin/env HTTP/1.1\r\nHost: {host}\r\n{field}\r\n\r\n"));
            let is_https = is_https && is_trusted;
            assert_eq!(variable(&answer, "HTTPS").as_deref(), is_https.then_some("on"), "{field}");
            let scheme = if is_https { "https" } else { "http" };
            assert_eq!(variable(&answer, "REQUEST_SCHEME").as_deref(), Some(scheme), "{field}");
            if is_trusted {
                assert_eq!(variable(&answer, "SERVER_PORT").as_deref(), Some(port), "{field}");
            }
        }
    }
}

#[test]
fn credentials_are_passed_only_where_asked_for() {
    let tree = Tree::empty();
    program(&tree, "cgi-bin/env", PRINT_ENVIRONMENT);
    let server = server(&tree, "pass_authorization = true");
    let request = "GET /cgi-bin/env HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\n\r\n";
    let answer = server.connect().ask(request);
    assert_eq!(variable(&answer, "HTTP_AUTHORIZATION").as_deref(), Some("Basic YTpi"));
}

#[test]
fn a_program_gets_nothing_of_the_server_but_three_descriptors() {
    let tree = Tree::empty();
    let script = "printf 'Content-Type: text/plain\\n\\n'; ls /proc/self/fd | tr '\\n' ' '; pwd; umask; \
                  ulimit -n; cut -d' ' -f5,6 /proc/self/stat; grep SigBlk /proc/self/status; grep SigIgn \
                  /proc/self/status; grep NoNewPrivs /proc/self/status; nice";
    program(&tree, "cgi-bin/facts", script);
    let server = server(&tree, "umask = \"027\"\nopen_files = 77\nniceness = 5");
    let answer = server.get("/cgi-bin/facts");
    let body = text(&answer);
    let lines: Vec<&str> = body.lines().collect();
    // Descriptor 3 is the directory that ls reads.
    assert_eq!(lines[0], format!("0 1 2 3 {}", tree.file("cgi-bin").display()));
    assert_eq!(&lines[1..3], ["0027", "77"]);
    let (group, session) = lines[3].split_once(' ').unwrap();
    assert_eq!(group, session, "a session of its own");
    assert_eq!(&lines[4..6], ["SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"]);
    assert_eq!(&lines[6..], ["NoNewPrivs:\t1", "5"]);
}

#[test]
fn limits_of_resources_hold() {
    let tree = Tree::empty();
    let script = "printf 'Content-Type: text/plain\\n\\n'; ulimit -v; ulimit -t; ulimit -f; ulimit -u \
                  2>/dev/null || ulimit -p";
    program(&tree, "cgi-bin/limits", script);
    let keys = "memory = \"256MiB\"\ncpu_time = \"7s\"\nfile_bytes = \"1MiB\"\nprocesses = 5000";
    let answer = server(&tree, keys).get("/cgi-bin/limits");
    assert_eq!(text(&answer).lines().take(3).collect::<Vec<_>>(), ["262144", "7", "2048"]);
}

#[test]
fn what_programs_print_becomes_an_answer() {
    let tree = Tree::empty();
    tree.write("page.html", "the page");
    let server = server(&tree, "");
    for (name, output, status, field, body) in [
        ("plain", "Content-Type: text/plain\\n\\nhello", 200, ("content-type", Some("text/plain")), "hello"),
        (
            "crlf",
            "Content-Type: text/plain\\r\\n\\r\\nhello",
            200,
            ("content-type", Some("text/plain")),
            "hello",
        ),
        ("status", "Status: 418 Short\\nContent-Type: a/b\\n\\nx", 418, ("status", None), "x"),
        ("gone", "Location: http://example.org/x\\n\\n", 302, ("location", Some("http://example.org/x")), ""),
        ("local", "Location: /page.html\\n\\n", 200, ("location", None), "the page"),
        (
            "accel",
            "X-Accel-Redirect: /page.html\\nContent-Type: a/b\\n\\n",
            200,
            ("x-accel-redirect", None),
            "the page",
        ),
        (
            "nph-own",
            "HTTP/1.0 203 Mine\\r\\nX-A: b\\r\\nConnection: close\\r\\n\\r\\nx",
            203,
            ("x-a", Some("b")),
            "x",
        ),
        (
            "framing",
            "Content-Type: a/b\\nTransfer-Encoding: chunked\\n\\n0",
            200,
            ("content-length", Some("1")),
            "0",
        ),
        (
            "long",
            "Content-Type: a/b\\nContent-Length: 2\\n\\nhello",
            200,
            ("content-length", Some("2")),
            "he",
        ),
        ("empty", "Status: 204\\n\\n", 204, ("content-length", None), ""),
        ("unchanged", "Status: 304\\nETag: \"x\"\\n\\n", 304, ("etag", Some("\"x\"")), ""),
    ] {
        // The program prints this last, so that all of it is there when the program ends.
        program(&tree, &format!("cgi-bin/{name}"), &format!("printf '{output}'"));
        let answer = server.get(&format!("/cgi-bin/{name}"));
        let (field, value) = field;
        // An answer that arrives in two pieces has no length.
        if field != "content-length" || answer.field("transfer-encoding").is_none() {
            assert_eq!(answer.field(field), value, "{name}");
        }
        assert_eq!((answer.status, text(&answer).as_str()), (status, body), "{name}");
    }
}

#[test]
fn what_is_no_answer_is_502_with_its_reason_in_the_log() {
    let tree = Tree::empty();
    let server = server(&tree, "header_bytes = 1024");
    for (name, script, status, reason) in [
        ("nothing", "exit 3", 502, "it printed nothing (exit status 3)"),
        ("killed", "kill -SEGV $$", 502, "it printed nothing (ended by signal 11)"),
        ("rubbish", "echo '<html>'; echo", 502, "not \"Name: value\": \"<html>\""),
        ("half", "printf 'Content-Type: a/b\\n'", 502, "ended within the header"),
        ("bare", "echo; echo hello", 502, "empty line"),
        ("status", "printf 'Status: fine\\n\\n'", 502, "its Status is not a number"),
        ("split", "printf 'X-A: a\\rSet-Cookie: b\\n\\n'", 502, "X-A holds a control byte"),
        ("forever", "while echo X-More: of the same; do :; done", 502, "longer than 1024 bytes"),
        ("wide", "tr '\\0' x < /dev/zero", 502, "longer than 1024 bytes"),
    ] {
        program(&tree, &format!("cgi-bin/{name}"), script);
        assert_eq!(server.get(&format!("/cgi-bin/{name}")).status, status, "{name}");
        server.wait_for_error_line(name, |line| {
            line.contains(&format!("cgi /cgi-bin/{name}: ")) && line.contains(reason)
        });
        // The log limits how often it repeats a kind of line.
        std::thread::sleep(Duration::from_millis(250));
    }
    program(&tree, "cgi-bin/fine", "printf 'Status: 200\\n\\nfine'");
    server.assert_serves("/cgi-bin/fine", b"fine");
}

#[test]
fn what_cannot_be_executed_says_why() {
    let tree = Tree::empty();
    tree.write("cgi-bin/data", "#!/bin/sh\n");
    executable(&tree, "cgi-bin/bare", "echo\n");
    executable(&tree, "cgi-bin/dos", "#!/bin/sh\r\necho\r\n");
    fs::create_dir(tree.file("cgi-bin/sub")).unwrap();
    tree.write("outside", "");
    fs::set_permissions(tree.file("outside"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(tree.file("outside"), tree.beside("outside")).unwrap();
    symlink(tree.beside("outside"), tree.file("cgi-bin/out")).unwrap();
    executable(&tree, "cgi-bin/.hidden", "#!/bin/sh\necho\n");
    let server = server(&tree, "");
    for (path, status, reason) in [
        ("data", 403, "chmod +x"),
        ("bare", 500, "#!/bin/sh"),
        ("dos", 500, "interpreter"),
        ("sub", 404, ""),
        ("sub/x", 404, ""),
        ("none", 404, ""),
        ("", 404, ""),
        (".hidden", 404, ""),
        ("out", 403, ""),
        ("..%2f..%2fbin%2fsh", 404, ""),
        ("data%00", 400, ""),
    ] {
        let answer = server.get(&format!("/cgi-bin/{path}"));
        if path.contains("%2f") || path.contains("%00") {
            assert!((400..500).contains(&answer.status), "{path}: {}", answer.status);
        } else {
            assert_eq!(answer.status, status, "{path}");
        }
        if !reason.is_empty() {
            server.wait_for_error_line(path, |line| {
                line.contains(&format!("/cgi-bin/{path}: ")) && line.contains(reason)
            });
        }
    }
}

#[test]
fn bodies_reach_standard_input() {
    let tree = Tree::empty();
    let script = "printf 'Content-Type: a/b\\nX-Length: %s\\n\\n' \"$CONTENT_LENGTH\"; cat";
    program(&tree, "cgi-bin/echo", script);
    let server = server(&tree, "spool_bytes = \"1MiB\"");
    let large = bytes_of(900_000);
    for body in [&b"hello"[..], &large] {
        let mut client = server.connect();
        client.send(format!(
            "POST /cgi-bin/echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
            body.len()
        ));
        client.send(body);
        let answer = client.answer();
        assert_eq!(answer.field("x-length"), Some(body.len().to_string().as_str()));
        assert!(answer.body == body, "{} bytes came back of {}", answer.body.len(), body.len());
        // On the same connection, because the body was read to its end.
        client.send("POST /cgi-bin/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in body.chunks(70_000) {
            client.send(format!("{:x}\r\n", piece.len()));
            client.send(piece);
            client.send("\r\n");
        }
        client.send("0\r\n\r\n");
        let answer = client.answer();
        assert_eq!(answer.field("x-length"), Some(body.len().to_string().as_str()));
        assert!(answer.body == body, "{} bytes came back of {}", answer.body.len(), body.len());
    }
    // A body of unknown length that becomes too long is not kept.
    let mut client = server.connect();
    client.send("POST /cgi-bin/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n110000\r\n");
    let _ = client.try_send(&bytes_of(0x11_0000));
    assert_eq!(client.answer().status, 413);
}

#[test]
fn a_program_need_not_read_its_body() {
    let tree = Tree::empty();
    program(&tree, "cgi-bin/deaf", "exec <&-; printf 'Status: 200\\n\\ndone'");
    let server = server(&tree, "");
    let body = bytes_of(500_000);
    let mut client = server.connect();
    client.send(format!("POST /cgi-bin/deaf HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    let _ = client.try_send(&body);
    assert_eq!(text(&client.answer()), "done");
}

#[test]
fn output_is_sent_as_it_comes() {
    let tree = Tree::empty();
    let fifo = tree.beside("go");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let script =
        format!("printf 'Content-Type: a/b\\n\\nfirst '; read go < {}; printf second", fifo.display());
    program(&tree, "cgi-bin/slow", &script);
    let server = server(&tree, "");
    let mut client = server.connect();
    client.send("GET /cgi-bin/slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut seen = Vec::new();
    while !seen.ends_with(b"first \r\n") {
        let mut byte = [0];
        client.stream().read_exact(&mut byte).unwrap();
        seen.extend_from_slice(&byte);
    }
    fs::File::options().write(true).open(&fifo).unwrap().write_all(b"\n").unwrap();
    let (rest, _) = client.read_to_end();
    assert!(rest.starts_with(b"6\r\nsecond\r\n0\r\n\r\n"), "{}", rest.escape_ascii());
}

#[test]
fn head_gets_no_body_and_the_program_runs_to_its_end() {
    let tree = Tree::empty();
    let done = tree.beside("done");
    let script = format!(
        "printf 'Content-Type: a/b\\nContent-Length: 200000\\n\\n'; head -c 200000 /dev/zero; echo \
         $REQUEST_METHOD > {}",
        done.display()
    );
    program(&tree, "cgi-bin/long", &script);
    let server = server(&tree, "");
    let mut client = server.connect();
    client.send("HEAD /cgi-bin/long HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.try_answer(AnswerTo::Head).unwrap();
    assert_eq!((answer.status, answer.field("content-length")), (200, Some("200000")));
    wait_until("the program ends", PATIENCE, || fs::read_to_string(&done).is_ok_and(|text| text == "HEAD\n"));
}

#[test]
fn head_of_an_answer_without_a_length_says_none() {
    let tree = Tree::empty();
    program(&tree, "cgi-bin/plain", "printf 'Content-Type: a/b\\n\\n'");
    let server = server(&tree, "");
    for version in ["1.1", "1.0"] {
        let mut client = server.connect();
        client
            .send(format!("HEAD /cgi-bin/plain HTTP/{version}\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"));
        let answer = client.try_answer(AnswerTo::Head).unwrap();
        assert_eq!((answer.status, answer.field("content-length")), (200, None));
        assert_eq!(client.ask("GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n").status, 404, "it continues");
    }
}

#[test]
fn a_program_that_answers_itself_may_send_chunks_and_interim_responses() {
    let tree = Tree::empty();
    let hints = "HTTP/1.1 103 Early Hints\\r\\nLink: </a.css>\\r\\n\\r\\n";
    let head = "HTTP/1.1 200 OK\\r\\nX-A: b\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n";
    let chunks = "5\\r\\nhello\\r\\n6\\r\\n there\\r\\n0\\r\\n\\r\\n";
    program(&tree, "cgi-bin/nph-whole", &format!("printf '{hints}{head}{chunks}'"));
    program(
        &tree,
        "cgi-bin/nph-slow",
        &format!("printf '{head}'; sleep 0.2; printf '{chunks}'; exec sleep 1000"),
    );
    program(&tree, "cgi-bin/nph-short", &format!("printf '{head}5\\r\\nhello\\r\\n'"));
    program(&tree, "cgi-bin/nph-wrong", &format!("printf '{head}hello'"));
    let server = server(&tree, "");
    let mut client = server.connect();
    for name in ["whole", "slow", "whole"] {
        client.send(format!("GET /cgi-bin/nph-{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let mut answer = client.answer();
        if name == "whole" {
            assert_eq!((answer.status, answer.field("link")), (103, Some("</a.css>")));
            answer = client.answer();
        }
        assert_eq!((answer.status, answer.field("x-a")), (200, Some("b")));
        assert_eq!(text(&answer), "hello there", "{name}");
    }
    for (name, reason) in [("short", "before the last chunk"), ("wrong", "its chunks are wrong")] {
        let mut client = server.connect();
        client.send(format!("GET /cgi-bin/nph-{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let answer = client.try_answer(AnswerTo::Other);
        assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status == 502), "{name}");
        server.wait_for_error_line(reason, |line| line.contains(reason));
    }
}

#[test]
fn the_reason_phrase_of_a_program_reaches_its_client() {
    let tree = Tree::empty();
    for (name, output, reason) in [
        ("field", "Status: 404 Gone fishing\\n\\n", "Gone fishing"),
        ("nph-line", "HTTP/1.1 404 Gone fishing\\r\\nX-A: b\\r\\n\\r\\nx", "Gone fishing"),
        ("plain", "Status: 404\\n\\n", "Not Found"),
        ("tab", "Status: 404 Gone\\tfishing\\n\\n", "Not Found"),
    ] {
        program(&tree, &format!("cgi-bin/{name}"), &format!("printf '{output}'"));
        let server = server(&tree, "");
        let answer = server.get(&format!("/cgi-bin/{name}"));
        assert_eq!(answer.status, 404, "{name}");
        assert_eq!(answer.reason, reason, "{name}");
    }
}

#[test]
fn too_short_an_answer_is_not_taken_for_a_whole_one() {
    let tree = Tree::empty();
    program(&tree, "cgi-bin/short", "printf 'Content-Type: a/b\\nContent-Length: 100\\n\\nhello'");
    let server = server(&tree, "");
    let mut client = server.connect();
    client.send("GET /cgi-bin/short HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.try_answer(AnswerTo::Other).is_err());
    server.wait_for_error_line("about the length", |line| {
        line.contains("95 bytes shorter than its Content-Length")
    });
}

/// Whether a process exists and is not a zombie.
fn runs(process: i32) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// A program that writes its process number to a file, then does something.
fn noting(tree: &Tree, name: &str, script: &str) -> PathBuf {
    let file = tree.beside(&format!("{name}.pid"));
    let note = format!("echo $$ > {0}.new; mv {0}.new {0}", file.display());
    program(tree, &format!("cgi-bin/{name}"), &format!("{note}; {script}"));
    file
}

fn noted(file: &Path) -> i32 {
    let mut process = None;
    // The file exists a moment before its content.
    wait_until("the program begins", PATIENCE, || {
        process = fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        process.is_some()
    });
    process.expect("it was waited for")
}

#[test]
fn a_program_whose_client_leaves_is_ended() {
    let tree = Tree::empty();
    let silent = noting(&tree, "silent", "sleep 1000");
    let talking =
        noting(&tree, "talking", "printf 'Content-Type: a/b\\n\\n'; while echo more; do sleep 0.01; done");
    let stubborn = noting(&tree, "stubborn", "trap '' TERM; while :; do sleep 0.05; done");
    let stopped = noting(&tree, "stopped", "kill -STOP $$");
    let group = noting(&tree, "group", "sleep 1000 & echo $! > $0.child; wait");
    let server = server(&tree, "kill_timeout = \"200ms\"");
    for (name, file) in [
        ("silent", silent),
        ("talking", talking),
        ("stubborn", stubborn),
        ("stopped", stopped),
        ("group", group),
    ] {
        let mut client = server.connect();
        client.send(format!("GET /cgi-bin/{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let process = noted(&file);
        let child = tree.file("cgi-bin/group.child");
        let others = if name == "group" { vec![noted(&child)] } else { Vec::new() };
        client.vanish();
        wait_until(name, PATIENCE, || !runs(process) && others.iter().all(|&other| !runs(other)));
    }
}

#[test]
fn time_that_is_up() {
    let tree = Tree::empty();
    let silent = noting(&tree, "silent", "sleep 1000");
    let header = noting(&tree, "header", "echo Content-Type: a/b; sleep 1000");
    let body = noting(&tree, "body", "printf 'Content-Type: a/b\\n\\nhello'; sleep 1000");
    let endless =
        noting(&tree, "endless", "printf 'Content-Type: a/b\\n\\n'; while echo x; do sleep 0.05; done");
    // Long enough for a program to begin on a busy machine.
    let keys = "first_byte_timeout = \"4s\"\nidle_timeout = \"6s\"\ntotal_timeout = \"12s\"\n\
                kill_timeout = \"200ms\"";
    let server = server(&tree, keys);
    for (name, file, reason) in [
        ("silent", silent, "it printed nothing within 4s"),
        ("header", header, "it neither printed nor read anything for 6s"),
    ] {
        assert_eq!(server.get(&format!("/cgi-bin/{name}")).status, 504, "{name}");
        let process = noted(&file);
        server.wait_for_error_line(reason, |line| line.contains(&format!("/cgi-bin/{name}: {reason}")));
        wait_until(name, PATIENCE, || !runs(process));
    }
    for (name, file, reason) in [
        ("body", body, "it neither printed nor read anything for 6s"),
        ("endless", endless, "it was not done within 12s"),
    ] {
        // The head has been sent: the client must see that the body broke off.
        let mut client = server.connect();
        client.send(format!("GET /cgi-bin/{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(client.try_answer(AnswerTo::Other).is_err(), "{name}");
        let process = noted(&file);
        server.wait_for_error_line(reason, |line| line.contains(&format!("/cgi-bin/{name}: {reason}")));
        wait_until(name, PATIENCE, || !runs(process));
    }
}

#[test]
fn more_requests_than_programs_wait_or_are_turned_away() {
    let tree = Tree::empty();
    let busy = noting(&tree, "busy", "read x; printf 'Status: 200\\n\\ndone'");
    program(&tree, "cgi-bin/quick", "printf 'Status: 200\\n\\nquick'");
    let server = server(&tree, "concurrency = 1\nqueue = 1\nqueue_timeout = \"600s\"");
    let mut first = server.connect();
    first.send("POST /cgi-bin/busy HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n");
    noted(&busy);
    // One of two waits and the other is refused, in either order.
    let mut others = [server.connect(), server.connect()];
    for other in &mut others {
        other.set_patience(Duration::from_millis(100));
        other.send("GET /cgi-bin/quick HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let mut turned_away = None;
    wait_until("one is turned away", PATIENCE, || {
        turned_away = (0..2).find(|&index| match others[index].try_answer(AnswerTo::Other) {
            Ok(answer) => {
                assert_eq!((answer.status, answer.field("retry-after")), (503, Some("1")));
                true
            }
            Err(crate::support::Broken::Silent { .. }) => false,
            Err(broken) => panic!("{broken}"),
        });
        turned_away.is_some()
    });
    first.send("x\n");
    assert_eq!(text(&first.answer()), "done");
    let waiting = &mut others[1 - turned_away.unwrap()];
    waiting.set_patience(PATIENCE);
    assert_eq!(text(&waiting.answer()), "quick");
    server.wait_for_error_line("about it", |line| line.contains("see 'concurrency' and 'queue'"));
}

#[test]
fn error_output_is_logged_by_line_with_the_programs_name() {
    let tree = Tree::empty();
    program(
        &tree,
        "cgi-bin/noisy",
        "echo first problem >&2; printf 'second\\033[1m problem' >&2; printf 'Status: 200\\n\\n'",
    );
    // More than a pipe holds, before any other output.
    program(
        &tree,
        "cgi-bin/flood",
        "head -c 300000 /dev/zero | tr '\\0' 'x' >&2; printf 'Status: 200\\n\\ndone'",
    );
    let server = server(&tree, "");
    assert_eq!(server.get("/cgi-bin/noisy").status, 200);
    server.wait_for_error_line("of the first line", |line| {
        line.ends_with("warning cgi /cgi-bin/noisy: first problem")
    });
    server.wait_for_error_line("of the second", |line| {
        line.ends_with("cgi /cgi-bin/noisy: second\\x1b[1m problem")
    });
    server.assert_serves("/cgi-bin/flood", b"done");
}

#[test]
fn what_a_program_leaves_running_is_ended_unless_it_may_stay() {
    let script =
        "sleep 1000 > /dev/null 2>&1 < /dev/null & echo $! > $0.child; printf 'Status: 200\\n\\ndone'";
    for (keys, stays) in [("", false), ("background = true", true)] {
        let tree = Tree::empty();
        program(&tree, "cgi-bin/daemon", script);
        let mut server = server(&tree, keys);
        server.assert_serves("/cgi-bin/daemon", b"done");
        let child = noted(&tree.file("cgi-bin/daemon.child"));
        if stays {
            server.stop();
            assert!(runs(child));
            kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
        } else {
            wait_until("it is ended", PATIENCE, || !runs(child));
        }
    }
}

#[test]
fn other_places_for_programs() {
    let tree = Tree::empty();
    let elsewhere = tree.beside("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    program(&tree, "one.sh", PRINT_ENVIRONMENT);
    fs::copy(tree.file("one.sh"), elsewhere.join("two")).unwrap();
    tree.write("scripts/three.x", PRINT_ENVIRONMENT);
    let configuration = tree.configuration("")
        + &format!(
            "[[site.route]]\npath = \"/git/\"\ncgi = {{ program = {one:?} }}\n\
             [[site.route]]\npath = \"/bin/\"\ncgi = {{ directory = {elsewhere:?} }}\n\
             [[site.route]]\nsuffixes = [\".x\"]\ncgi = {{ interpreter = \"/bin/sh\" }}\n",
            one = tree.file("one.sh"),
        );
    let server = Server::configured(tree.around(), &configuration);
    for (path, script, info, file) in [
        ("/git/a.git/info?x", "/git", Some("/a.git/info"), tree.file("one.sh")),
        ("/bin/two/a", "/bin/two", Some("/a"), elsewhere.join("two")),
        ("/scripts/three.x", "/scripts/three.x", None, tree.file("scripts/three.x")),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(variable(&answer, "SCRIPT_NAME").as_deref(), Some(script), "{path}");
        assert_eq!(variable(&answer, "PATH_INFO").as_deref(), info, "{path}");
        assert_eq!(variable(&answer, "SCRIPT_FILENAME").as_deref(), file.to_str(), "{path}");
    }
    assert_eq!(server.get("/bin/one.sh").status, 404);
}

#[test]
fn the_quick_form_runs_what_is_in_cgi_bin_and_serves_the_rest() {
    let tree = Tree::empty();
    program(&tree, "cgi-bin/hello", "printf 'Status: 200\\n\\nhello'");
    tree.write("other/script", "#!/bin/sh\n");
    let server = Server::quick(&tree.root());
    server.assert_serves("/cgi-bin/hello", b"hello");
    server.assert_serves("/other/script", b"#!/bin/sh\n");
}

#[test]
fn a_program_can_have_a_user_of_its_own() {
    let tree = Tree::empty();
    program(&tree, "cgi-bin/who", "printf 'Status: 200\\n\\n'; id -u; id -g; id -G");
    if !rustix::process::geteuid().is_root() {
        let config = tree.beside("user.toml");
        let route = "[[site.route]]\npath = \"/cgi-bin/\"\ncgi = { user = \"1\" }\n";
        fs::write(&config, tree.configuration("") + route).unwrap();
        let output = run(["check", "--config", config.to_str().unwrap()]);
        assert!(error_lines(&output).concat().contains("started as root"), "{output:?}");
        return;
    }
    let server = server(&tree, "user = \"65534:65534\"");
    assert_eq!(text(&server.get("/cgi-bin/who")), "65534\n65534\n65534\n");
}

#[test]
fn a_spawner_that_is_killed_is_started_again() {
    let tree = Tree::empty();
    program(&tree, "cgi-bin/hello", "printf 'Status: 200\\n\\nhello'");
    noting(&tree, "slow", "sleep 1000 & echo $! > $0.child; wait");
    let server = server(&tree, "");
    server.assert_serves("/cgi-bin/hello", b"hello");
    let mut client = server.connect();
    client.send("GET /cgi-bin/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let slow = noted(&tree.beside("slow.pid"));
    let child = noted(&tree.file("cgi-bin/slow.child"));
    // A spawner reports a program to the server when it has run for 2 ms; the server does not know it before.
    std::thread::sleep(Duration::from_secs(2));
    let core_spawners = spawners(&server).split_off(1);
    assert!(!core_spawners.is_empty());
    for spawner in core_spawners {
        let _ = kill_process(Pid::from_raw(spawner).unwrap(), Signal::KILL);
    }
    let answer = client.answer();
    assert_eq!((answer.status, answer.field("retry-after")), (503, Some("1")));
    wait_until("its program is gone with it", PATIENCE, || !runs(slow) && !runs(child));
    wait_until("there is another", PATIENCE, || server.get("/cgi-bin/hello").status == 200);
    for spawner in spawners(&server) {
        let _ = kill_process(Pid::from_raw(spawner).unwrap(), Signal::KILL);
    }
    wait_until("there are others", PATIENCE, || server.get("/cgi-bin/hello").status == 200);
}

#[test]
fn nothing_is_left_when_the_server_is_killed() {
    let tree = Tree::empty();
    let slow = noting(&tree, "slow", "trap '' TERM; sleep 1000 & wait; sleep 1000");
    let server = server(&tree, "");
    let mut client = server.connect();
    client.send("GET /cgi-bin/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let slow = noted(&slow);
    let mut all = spawners(&server);
    assert!(all.len() >= 2, "{all:?}");
    all.push(slow);
    drop(server);
    wait_until("all are gone", PATIENCE, || all.iter().all(|&process| !runs(process)));
}

/// The processes that start programs for a server, however deep.
fn spawners(server: &Server) -> Vec<i32> {
    descendants(server.process()).into_iter().filter(|&process| is_spawner(process)).collect()
}

fn is_spawner(process: i32) -> bool {
    fs::read(format!("/proc/{process}/cmdline"))
        .is_ok_and(|line| line.split(|&byte| byte == 0).nth(1) == Some(b"spawner"))
}

fn descendants(process: i32) -> Vec<i32> {
    let parent = |entry: &Path| -> Option<(i32, i32)> {
        let stat = fs::read_to_string(entry.join("stat")).ok()?;
        let (before, after) = stat.rsplit_once(") ")?;
        let number = before.split_once(' ')?.0.parse().ok()?;
        Some((number, after.split(' ').nth(1)?.parse().ok()?))
    };
    let all: Vec<(i32, i32)> =
        fs::read_dir("/proc").unwrap().filter_map(|entry| parent(&entry.unwrap().path())).collect();
    let mut found = vec![process];
    let mut index = 0;
    while index < found.len() {
        let children = all.iter().filter(|(_, parent)| *parent == found[index]).map(|(child, _)| *child);
        let children: Vec<i32> = children.collect();
        found.extend(children);
        index += 1;
    }
    found.split_off(1)
}

#[test]
fn programs_answer_over_tls_and_http_2() {
    let tree = Tree::empty();
    program(&tree, "cgi-bin/env", "printf 'Content-Type: text/plain\\n\\n'; env; cat");
    let root = tree.root();
    let server = Server::start([
        "--root",
        root.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--development-certificate",
    ]);
    let url = format!("https://127.0.0.1:{}/cgi-bin/env?a", server.address().port());
    for (version, protocol) in [("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2.0")] {
        let Some(output) = curl(["-sk", version, "-H", "Expect:", "--data", "some body", &url]) else {
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        for line in
            ["HTTPS=on", "REQUEST_SCHEME=https", "SSL_PROTOCOL=TLSv1.3", "CONTENT_LENGTH=9", "QUERY_STRING=a"]
        {
            assert!(text.lines().any(|each| each == line), "{version}: {line}\n{text}");
        }
        assert!(text.lines().any(|line| line == format!("SERVER_PROTOCOL={protocol}")), "{version}\n{text}");
        assert!(text.ends_with("some body"), "{version}\n{text}");
    }
}

#[test]
fn programs_in_other_languages() {
    let tree = Tree::empty();
    executable(
        &tree,
        "cgi-bin/python",
        "#!/usr/bin/env python3\nimport os, sys\nbody = sys.stdin.read()\n\
         print('Content-Type: text/plain')\nprint()\nprint(os.environ['REQUEST_METHOD'], body[::-1])\n",
    );
    executable(
        &tree,
        "cgi-bin/perl",
        "#!/usr/bin/perl\nread(STDIN, my $body, $ENV{CONTENT_LENGTH});\n\
         print \"Content-Type: text/plain\\n\\n$ENV{REQUEST_METHOD} \", scalar reverse($body), \"\\n\";\n",
    );
    let server = server(&tree, "environment = { PATH = \"/usr/local/bin:/usr/bin:/bin\" }");
    for (name, command, package) in [("python", "python3", "python3-minimal"), ("perl", "perl", "perl-base")]
    {
        let is_there = ["/usr/bin", "/usr/local/bin", "/bin"]
            .iter()
            .any(|place| Path::new(place).join(command).exists());
        if !is_there {
            skipped(&format!("a CGI program in {name} (install {package})"));
            continue;
        }
        let mut client = server.connect();
        let answer =
            client.ask(format!("POST /cgi-bin/{name} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"));
        assert_eq!((answer.status, text(&answer).as_str()), (200, "POST olleh\n"), "{name}");
    }
}

#[test]
fn the_spice_program_answers_with_its_6250_bytes() {
    let tree = Tree::empty();
    fs::create_dir(tree.file("cgi-bin")).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/cgi");
    let made = std::process::Command::new("make")
        .arg("--silent")
        .arg("-C")
        .arg(&source)
        .arg(format!("OUT={}", tree.file("cgi-bin").display()))
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return skipped("the SPICE program for CGI (install make gcc)");
    }
    let answer = Server::quick(&tree.root()).get("/cgi-bin/spice");
    assert_eq!((answer.status, answer.body.len()), (200, 6250));
    assert!(answer.body.starts_with(b"<!DOCTYPE html>") && answer.body.ends_with(b"</html>\n"));
}

#[test]
fn a_wrong_configuration_says_what_to_do() {
    let tree = Tree::empty();
    for (route, message) in [
        ("path = \"/a*/\"\ncgi = { directory = \".\" }", "needs a route whose 'path' ends with a slash"),
        ("path = \"/a/\"\ncgi = { directory = \"none\" }", "none is not a directory"),
        ("path = \"/a/\"\ncgi = { program = \"none\" }", "none is not a file"),
        ("path = \"/a/\"\ncgi = { umask = \"99\" }", "not three octal digits"),
        ("path = \"/a/\"\ncgi = { interpretr = \"x\" }", "did you mean 'interpreter'?"),
        ("path = \"/a/\"\ncgi = {}\nrespond = {}", "cannot both be done"),
        ("path = \"/a/\"\ncgi = 1", "'cgi' must be a table"),
    ] {
        let config = tree.beside("wrong.toml");
        fs::write(&config, format!("{}[[site.route]]\n{route}\n", tree.configuration(""))).unwrap();
        let output = run(["check", "--config", config.to_str().unwrap()]);
        let lines = error_lines(&output).join("\n") + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{route}: {lines}");
        assert!(lines.contains(message), "{route}: {lines}");
    }
}

/// Kills programs and spawners at random under load: every request gets an answer, and no process is left.
fn kill_at_random(length: Duration) {
    let tree = Tree::empty();
    program(&tree, "cgi-bin/quick", "printf 'Status: 200\\n\\nquick'");
    program(
        &tree,
        "cgi-bin/slow",
        "printf 'Content-Type: a/b\\n\\n'; for i in 1 2 3 4 5; do echo $i; sleep 0.02; done",
    );
    program(&tree, "cgi-bin/family", "(sleep 0.1; echo late) & printf 'Content-Type: a/b\\n\\n'; cat; wait");
    let server = server(&tree, "concurrency = 16\nkill_timeout = \"100ms\"");
    for name in ["quick", "slow", "family"] {
        assert_eq!(server.get(&format!("/cgi-bin/{name}")).status, 200);
    }
    let mut pipes_before = usize::MAX;
    wait_until("the programs have ended", PATIENCE, || {
        let before = std::mem::replace(&mut pipes_before, server.open_pipes());
        descendants(server.process()).into_iter().all(is_spawner) && before == pipes_before
    });
    let address = server.address();
    let (begin, stop, good) = (Instant::now(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let clients: Vec<_> = (0..6)
        .map(|number| {
            let (stop, good) = (stop.clone(), good.clone());
            std::thread::spawn(move || ask_until(&stop, address, number, &good))
        })
        .collect();
    let mut state = 1u64;
    // Longer on a machine so busy that too few requests succeed in that time.
    let is_enough = || good.load(Ordering::Relaxed) > 10;
    while begin.elapsed() < length || !is_enough() && begin.elapsed() < length + PATIENCE {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let all = descendants(server.process());
        // Programs mostly, sometimes a spawner.
        let wanted = state >> 60 == 0;
        let candidates: Vec<i32> = all.into_iter().filter(|&process| is_spawner(process) == wanted).collect();
        if let Some(&victim) = candidates.get((state >> 33) as usize % candidates.len().max(1)) {
            let signal = if state >> 40 & 1 == 0 { Signal::KILL } else { Signal::TERM };
            let _ = kill_process(Pid::from_raw(victim).unwrap(), signal);
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    stop.store(true, Ordering::Relaxed);
    let answers: u32 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    let good = good.load(Ordering::Relaxed);
    assert!(good > 10 && answers > good, "{good} good of {answers}");
    let left = || descendants(server.process()).into_iter().filter(|&process| !is_spawner(process));
    let described = || {
        left().map(described).collect::<Vec<String>>().join(
            "
",
        )
    };
    wait_until_or("no program is left", || left().next().is_none(), described);
    wait_until("it works again", PATIENCE, || server.get("/cgi-bin/quick").status == 200);
    wait_until("no pipe is left", PATIENCE, || server.open_pipes() <= pipes_before);
}

/// What /proc states of a process.
fn described(process: i32) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    format!("{}: {:?}", read("stat").trim(), read("cmdline"))
}

/// Waits until the condition holds; otherwise fails the test with the text of `instead`.
fn wait_until_or(what: &str, mut condition: impl FnMut() -> bool, instead: impl Fn() -> String) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}: {}", instead());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends requests until it is stopped, and returns their number; some clients leave in the middle. Each
/// answer is complete, or was begun and broken off.
fn ask_until(stop: &AtomicBool, address: std::net::SocketAddr, number: u32, good: &AtomicU32) -> u32 {
    let mut answers = 0;
    while !stop.load(Ordering::Relaxed) {
        let name = ["quick", "slow", "family"][(answers + number) as usize % 3];
        let mut client = Client::connect(address);
        client.send(format!(
            "POST /cgi-bin/{name} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
        ));
        answers += 1;
        if number == 0 {
            std::thread::sleep(Duration::from_millis(15));
            client.vanish();
            continue;
        }
        match client.try_answer(AnswerTo::Other) {
            Ok(answer) => {
                assert!(matches!(answer.status, 200 | 502 | 503), "{name}: {}", answer.status);
                good.fetch_add(u32::from(answer.status == 200), Ordering::Relaxed);
            }
            Err(crate::support::Broken::Closed { received } | crate::support::Broken::Reset { received }) => {
                assert!(received.starts_with(b"HTTP/1.1 200 "), "{name}: {}", received.escape_ascii());
            }
            Err(broken) => panic!("{name}: {broken}"),
        }
    }
    answers
}

#[test]
fn killing_programs_and_spawners_at_random_leaves_nothing_behind() {
    kill_at_random(Duration::from_secs(10));
}

#[test]
#[ignore = "takes five minutes"]
fn killing_programs_and_spawners_at_random_for_five_minutes() {
    kill_at_random(Duration::from_secs(300));
}

#[test]
fn a_process_that_is_there_is_seen() {
    // Other tests rely on this to detect that a process has ended.
    assert!(runs(std::process::id() as i32));
    assert!(!runs(i32::MAX));
}
