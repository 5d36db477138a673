//! Which files are pages, what their answers contain, how long they are cached, and what they may include.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use crate::support::{AnswerTo, Server, Tree, bytes_of, curl, wait_until, write_program};

const ERROR: &str = "[an error occurred while processing this directive]";

/// A server of a site with this in `[site.includes]`, and this before it.
fn server(tree: &Tree, site: &str, includes: &str) -> Server {
    let text = format!("{}{site}\n[site.includes]\n{includes}\n", tree.configuration(""));
    Server::configured(tree.around(), &text)
}

fn body(server: &Server, target: &str) -> String {
    let response = server.get(target);
    assert_eq!(response.status, 200, "{target}");
    String::from_utf8(response.body).expect("the page is text")
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is right").as_secs()
}

#[test]
fn the_quick_form_parses_shtml() {
    let tree = Tree::empty();
    tree.write("page.shtml", "<!--#echo var=\"DOCUMENT_NAME\" -->");
    tree.write("page.html", "<!--#echo var=\"DOCUMENT_NAME\" -->");
    let server = Server::quick(&tree.root());
    let response = server.get("/page.shtml");
    assert_eq!((response.status, &response.body[..]), (200, &b"page.shtml"[..]));
    assert!(response.field("Content-Type").is_some_and(|value| value.starts_with("text/html")));
    assert_eq!(response.field("Content-Length"), Some("10"));
    // What a page includes may be newer than the page.
    for name in ["Last-Modified", "ETag", "Accept-Ranges"] {
        assert_eq!(response.field(name), None, "{name}");
    }
    server.assert_serves("/page.html", b"<!--#echo var=\"DOCUMENT_NAME\" -->");
}

#[test]
fn without_the_section_nothing_is_parsed() {
    let tree = Tree::empty();
    tree.write("page.shtml", "<!--#echo var=\"DOCUMENT_NAME\" -->");
    let server = Server::configured(tree.around(), &tree.configuration(""));
    server.assert_serves("/page.shtml", b"<!--#echo var=\"DOCUMENT_NAME\" -->");
}

/// A page that shows the time is cached for a second at most; cached or not, its time is never late.
#[test]
fn a_clock_is_right() {
    for cache in ["", "[cache]\nenabled = false\n"] {
        let tree = Tree::empty();
        tree.write("clock.shtml", "<!--#config timefmt=\"%s\" --><!--#echo var=\"DATE_GMT\" -->");
        let text = format!("{}\n[site.includes]\n", tree.configuration(cache));
        let server = Server::configured(tree.around(), &text);
        let first = now();
        let mut seen = std::collections::BTreeSet::new();
        let mut client = server.connect();
        wait_until("three seconds are shown", Duration::from_secs(60), || {
            let before = now();
            let response = client.ask("GET /clock.shtml HTTP/1.1\r\nHost: example.com\r\n\r\n");
            let shown: u64 = String::from_utf8_lossy(&response.body).parse().expect("a number");
            // The server's clock is read a few times a second.
            assert!(shown + 1 >= before && shown <= now(), "{shown} is shown at {before}");
            seen.insert(shown);
            seen.len() == 3
        });
        assert!(seen.iter().all(|shown| shown + 1 >= first));
    }
}

/// A page for one visitor is not shown to another.
#[test]
fn what_depends_on_the_request_is_not_shared() {
    let tree = Tree::empty();
    tree.write("page.shtml", "<!--#echo var=\"HTTP_X_NAME\" --> <!--#echo var=\"QUERY_STRING\" -->");
    tree.write(
        "maybe.shtml",
        "<!--#if expr=\"%{HTTP_COOKIE} =~ /secret/\" -->inside<!--#else -->outside<!--#endif -->",
    );
    let server = server(&tree, "", "");
    let mut client = server.connect();
    for (target, fields, expected) in [
        ("/page.shtml?a=1", "X-Name: one\r\n", "one a=1"),
        ("/page.shtml?b<2", "X-Name: two\r\n", "two b&lt;2"),
        ("/page.shtml", "", "(none) "),
        ("/maybe.shtml", "Cookie: secret\r\n", "inside"),
        ("/maybe.shtml", "", "outside"),
        ("/maybe.shtml", "Cookie: secret\r\n", "inside"),
    ] {
        let response = client.ask(format!("GET {target} HTTP/1.1\r\nHost: example.com\r\n{fields}\r\n"));
        assert_eq!(String::from_utf8_lossy(&response.body), expected, "{target} {fields}");
    }
}

#[test]
fn changes_are_seen() {
    let tree = Tree::empty();
    tree.write("page.shtml", "1<!--#include virtual=\"in.html\" --><!--#include file=\"in.shtml\" -->");
    tree.write("in.html", "a");
    tree.write("in.shtml", "x");
    let server = server(&tree, "", "");
    assert_eq!(body(&server, "/page.shtml"), "1ax");
    for (name, text, expected) in [
        ("in.html", "b", "1bx"),
        ("in.shtml", "<!--#echo var='DOCUMENT_NAME' -->", "1bpage.shtml"),
        ("page.shtml", "2<!--#include virtual=\"in.html\" -->", "2b"),
    ] {
        tree.write(name, text);
        wait_until(name, Duration::from_secs(60), || body(&server, "/page.shtml") == expected);
    }
    fs::remove_file(tree.file("in.html")).expect("the file is removed");
    wait_until("the removal", Duration::from_secs(60), || {
        body(&server, "/page.shtml") == format!("2{ERROR}")
    });
    fs::remove_file(tree.file("page.shtml")).expect("the file is removed");
    wait_until("the removal", Duration::from_secs(60), || server.get("/page.shtml").status == 404);
}

#[test]
fn the_log_names_file_and_line() {
    let tree = Tree::empty();
    tree.write("page.shtml", "fine\n\n<!--#bogus -->\n<!--#include virtual=\"/missing.html\" -->");
    let server = server(&tree, "", "error_text = \"oops\"\n");
    assert_eq!(body(&server, "/page.shtml"), "fine\n\noops\noops");
    let path = tree.file("page.shtml").display().to_string();
    for expected in
        [format!("{path}:3: unknown directive \"bogus\""), format!("{path}:4: /missing.html answers 404")]
    {
        wait_until(&expected, Duration::from_secs(60), || server.error_text().contains(&expected));
    }
}

#[test]
fn permissions_make_pages() {
    let tree = Tree::empty();
    let text = "<!--#echo var=\"DOCUMENT_NAME\" -->";
    for (name, mode) in
        [("plain.html", 0o644), ("owner.html", 0o744), ("group.html", 0o754), ("owner.txt", 0o744)]
    {
        let path = tree.write(name, text);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    }
    let server = server(&tree, "", "xbithack = \"full\"\n");
    assert_eq!(body(&server, "/plain.html"), text);
    assert_eq!(body(&server, "/owner.txt"), text);
    let owner = server.get("/owner.html");
    assert_eq!((&owner.body[..], owner.field("Last-Modified")), (&b"owner.html"[..], None));
    let group = server.get("/group.html");
    assert_eq!(group.body, b"group.html");
    let modified = group.field("Last-Modified").expect("the group may execute it").to_string();
    let mut client = server.connect();
    let conditional = format!("GET /group.html HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: {modified}\r\n\r\n");
    assert_eq!(client.ask(&conditional).status, 304);
    // An answer without Last-Modified ignores conditions on it.
    assert_eq!(client.ask(conditional.replace("group", "owner")).status, 200);
    let range = client.ask("GET /group.html HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n");
    assert_eq!((range.status, &range.body[..]), (200, &b"group.html"[..]));
}

#[test]
fn validators_where_they_are_wanted() {
    let tree = Tree::empty();
    tree.write("page.shtml", "text");
    let server = server(&tree, "", "last_modified = true\netag = true\n");
    let response = server.get("/page.shtml");
    assert!(response.field("Last-Modified").is_some());
    let tag = response.field("ETag").expect("a tag is wanted").to_string();
    let mut client = server.connect();
    let again = client.ask(format!("GET /page.shtml HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\n\r\n"));
    assert_eq!(again.status, 304);
}

/// Access rules apply to included files as to requested ones.
#[test]
fn rules_hold_for_what_is_included() {
    let tree = Tree::empty();
    let include = |path: &str| format!("<!--#include virtual=\"{path}\" -->");
    tree.write("denied.shtml", include("/private/x.html"));
    tree.write("hidden.shtml", include("/.secret") + "<!--#include file=\".secret\" -->");
    tree.write("respond.shtml", include("/hello"));
    tree.write("redirect.shtml", include("/moved"));
    tree.write("rewrite.shtml", include("/short"));
    tree.write(
        "size.shtml",
        "<!--#fsize virtual=\"/private/x.html\" -->|<!--#fsize virtual=\"/long.html\" -->",
    );
    tree.write("access.shtml", "<!--#if expr=\"-A '/private/x.html'\" -->yes<!--#else -->no<!--#endif -->");
    tree.write("private/x.html", "secret");
    tree.write(".secret", "secret");
    tree.write("long.html", "long");
    let routes = "[[site.route]]\npath = \"/private/\"\ndeny = [\"0.0.0.0/0\", \"::/0\"]\n\
                  [[site.route]]\npath = \"/hello\"\nrespond = { status = 200, body = \"hello\" }\n\
                  [[site.route]]\npath = \"/moved\"\nredirect = { to = \"/long.html\" }\n\
                  [[site.route]]\npath = \"/short\"\nrewrite = { to = \"/long.html\" }\n";
    let text = format!("{}[site.includes]\n{routes}", tree.configuration(""));
    let server = Server::configured(tree.around(), &text);
    for (target, expected) in [
        ("/denied.shtml", ERROR.to_string()),
        ("/hidden.shtml", format!("{ERROR}{ERROR}")),
        ("/respond.shtml", "hello".to_string()),
        ("/redirect.shtml", ERROR.to_string()),
        ("/rewrite.shtml", "long".to_string()),
        ("/size.shtml", format!("{ERROR}|  4 ")),
        ("/access.shtml", "no".to_string()),
    ] {
        assert_eq!(body(&server, target), expected, "{target}");
    }
}

#[test]
fn limits_end_what_has_no_end() {
    let tree = Tree::empty();
    tree.write("self.shtml", "x<!--#include virtual=\"/self.shtml\" -->");
    tree.write("deep.shtml", "<!--#set var='n' value='${n}x' -->.<!--#include virtual='/deep.shtml?$n' -->");
    tree.write("long.shtml", "<!--#include virtual=\"/large.html\" -->".repeat(5));
    tree.write("large.html", "y".repeat(10_000));
    tree.write("too_large.shtml", "z".repeat(100_001));
    let server = server(&tree, "", "depth = 3\noutput_bytes = 25000\npage_bytes = 100000\n");
    assert_eq!(body(&server, "/self.shtml"), format!("x{ERROR}"));
    assert_eq!(body(&server, "/deep.shtml"), format!("....{ERROR}"));
    let long = body(&server, "/long.shtml");
    assert!(long.len() <= 25_000 + 6 * ERROR.len() && long.ends_with(ERROR), "{}", long.len());
    assert_eq!(server.get("/too_large.shtml").status, 500);
}

#[test]
fn exec_runs_commands_where_it_is_allowed() {
    let tree = Tree::empty();
    tree.write(
        "sub/page.shtml",
        "<!--#set var='mine' value='1' --><!--#exec cmd='echo $mine; basename $PWD; \
                                  echo $DOCUMENT_NAME$HTTP_X' -->",
    );
    let not_allowed = server(&tree, "", "");
    assert_eq!(body(&not_allowed, "/sub/page.shtml"), ERROR);
    drop(not_allowed);
    let allowed = server(&tree, "", "exec = true\n");
    tree.write("cgi.shtml", "<!--#exec cgi='/sub/page.shtml' -->");
    assert_eq!(body(&allowed, "/cgi.shtml"), ERROR, "a file is not a program");
    let mut client = allowed.connect();
    let response = client.ask("GET /sub/page.shtml HTTP/1.1\r\nHost: a\r\nX: from the client\r\n\r\n");
    assert_eq!(String::from_utf8_lossy(&response.body), "1\nsub\npage.shtmlfrom the client\n");
}

#[test]
fn nothing_of_a_request_is_executed_by_exec() {
    let tree = Tree::empty();
    tree.write(
        "page.shtml",
        "<!--#set var='a name' value='$HTTP_USER_AGENT' -->\
         <!--#exec cmd='echo $HTTP_USER_AGENT; echo \"$http_user_agent\"; echo \"${a name}\"' --> <!--#if \
         expr='v(\"QUERY_STRING\") =~ /x=(.*)/' --><!--#exec cmd='echo \"$1\"' --><!--#endif -->",
    );
    let server = server(&tree, "", "exec = true\n");
    for sent in
        ["$(echo ran)", "`echo ran`", "; echo ran", "| echo ran", "' ; echo ran '", "\"; echo ran; \""]
    {
        let mut client = server.connect();
        let target = "/page.shtml?x=$(id);id";
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nUser-Agent: {sent}\r\n\r\n");
        let response = client.ask(&head);
        let body = String::from_utf8_lossy(&response.body).into_owned();
        assert_eq!(body, format!("{sent}\n{sent}\n{sent}\n $(id);id\n"));
    }
}

#[test]
fn a_route_has_pages_of_its_own() {
    let tree = Tree::empty();
    let page = "<!--#exec cmd='echo ran' -->";
    tree.write("page.shtml", page);
    tree.write("open/page.html", page);
    tree.write("open/page.shtml", "<!--#include virtual='/page.shtml' -->");
    tree.write("nginx/page.shtml", "<!--#if expr='$arg_a = /^\\d$/' -->T<!--#endif -->");
    tree.write("none/page.shtml", page);
    let routes = "[[site.route]]\npath = \"/open/\"\n\
                  includes = { exec = true, suffixes = [\".html\", \".shtml\"] }\n\
                  [[site.route]]\npath = \"/nginx/\"\nincludes = { expressions = \"nginx\" }\n\
                  [[site.route]]\npath = \"/none/\"\nincludes = { suffixes = [] }\n";
    let server = server(&tree, "", routes);
    assert_eq!(body(&server, "/page.shtml"), ERROR);
    assert_eq!(body(&server, "/open/page.html"), "ran\n");
    assert_eq!(
        body(&server, "/open/page.shtml"),
        ERROR,
        "what may not run does not because another page may"
    );
    assert_eq!(body(&server, "/nginx/page.shtml?a=1"), "T");
    assert_eq!(body(&server, "/none/page.shtml"), page);
}

#[test]
fn answers_of_programs_and_origins_are_pages_where_a_route_says_so() {
    let behind = Tree::empty();
    behind.write("page.html", "[<!--#echo var='QUERY_STRING' -->|<!--#include virtual='/local.html' -->]");
    behind.write("page.txt", "<!--#echo var='QUERY_STRING' -->");
    behind.write("long.html", "x".repeat(200_000));
    let origin = Server::configured(behind.around(), &behind.configuration(""));
    let tree = Tree::empty();
    tree.write("local.html", "local");
    write_program(
        &tree.file("page.cgi"),
        "#!/bin/sh\nprintf 'Content-Type: text/html\\n\\n<!--#echo var=\"QUERY_STRING\" -->'",
    );
    let to = format!("proxy = {{ to = \"http://{}\" }}\n", origin.address());
    let routes = format!(
        "[[site.route]]\nsuffixes = [\".cgi\"]\ncgi = {{}}\nincludes = {{}}\n\
         [[site.route]]\npath = \"/local.html\"\n\
         [[site.route]]\nsuffixes = [\".html\", \".txt\"]\n{to}includes = {{ page_bytes = 100000 }}\n\
         [[site.route]]\npath = \"/plain/\"\n{to}"
    );
    let server = server(&tree, "", &routes);
    let mut client = server.connect();
    let head = "Host: a\r\nAccept-Encoding: gzip\r\nRange: bytes=0-3\r\nIf-None-Match: *\r\n\r\n";
    for _ in 0..2 {
        let answer = client.ask(format!("GET /page.html?a=1 HTTP/1.1\r\n{head}"));
        assert_eq!((answer.status, String::from_utf8_lossy(&answer.body).as_ref()), (200, "[a=1|local]"));
        for field in ["last-modified", "etag", "accept-ranges", "content-encoding"] {
            assert_eq!(answer.field(field), None, "{field}");
        }
    }
    client.send("HEAD /page.html HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.try_answer(AnswerTo::Head).expect("an answer");
    assert_eq!((answer.status, answer.field("content-length")), (200, None));
    assert_eq!(body(&server, "/page.txt"), "<!--#echo var='QUERY_STRING' -->", "another type");
    assert_eq!(body(&server, "/page.cgi?x"), "x");
    assert_eq!(server.get("/missing.html").status, 404);
    assert_eq!(server.get("/long.html").status, 502);
    server.wait_for_error_line("about its length", |line| {
        line.contains("/long.html: its answer is longer than")
    });
}

#[test]
fn every_version_of_http_gets_the_same() {
    let tree = Tree::empty();
    tree.write(
        "page.shtml",
        "<!--#include virtual=\"/large.html\" -->|<!--#echo var='HTTP_X' -->|<!--#echo var='REMOTE_ADDR' -->",
    );
    tree.write("large.html", "0123456789".repeat(10_000));
    let root = tree.root();
    let server = Server::start([
        "--listen",
        "127.0.0.1:0",
        "--root",
        root.to_str().expect("text"),
        "--development-certificate",
    ]);
    let expected = format!("{}|1|127.0.0.1", "0123456789".repeat(10_000));
    for version in ["--http1.0", "--http1.1", "--http2"] {
        let url = format!("https://{}/page.shtml", server.address());
        let arguments = ["--insecure", "--compressed", "-H", "X: 1", version, url.as_str()];
        let Some(output) = curl(arguments) else { return };
        assert!(output.stdout == expected.as_bytes(), "{version}: {}", output.stdout.len());
        let Some(head) = curl(["--insecure", "--head", version, url.as_str()]) else { return };
        assert!(head.status.success(), "{version}");
    }
}

#[test]
fn pages_of_errors_and_fallbacks_are_evaluated() {
    let tree = Tree::empty();
    tree.write("errors/404.shtml", "not here: <!--#echo var='DOCUMENT_NAME' -->");
    tree.write("app.shtml", "app <!--#echo var='DATE_GMT' -->");
    tree.write("index.shtml", "index <!--#echo var='DOCUMENT_URI' -->");
    let site = "index = [\"index.shtml\"]\nfallback = \"/app.shtml\"\n\
                error_pages = { 404 = \"/errors/404.shtml\" }\n";
    let server = server(&tree, site, "");
    let missing = server.get("/missing.png");
    assert_eq!((missing.status, &missing.body[..]), (404, &b"not here: 404.shtml"[..]));
    assert!(body(&server, "/some/place").starts_with("app "));
    assert_eq!(body(&server, "/"), "index /index.shtml");
}

/// A file that must be read from disk is fetched while the page is written; the answer then has no length,
/// and its order is kept.
#[test]
fn long_files_are_included_while_the_page_goes_on() {
    let tree = Tree::empty();
    let (first, second) = (bytes_of(3 << 20), bytes_of((2 << 20) + 1));
    tree.write("first.bin", &first);
    tree.write("second.bin", &second);
    tree.write(
        "page.shtml",
        "head<!--#include virtual='/first.bin' -->|<!--#include virtual='/second.bin' \
                              -->|<!--#include virtual='/first.bin' wait='yes' -->tail",
    );
    let server = server(&tree, "", "");
    let expected = [b"head", &first[..], b"|", &second, b"|", &first, b"tail"].concat();
    for _ in 0..2 {
        let response = server.get("/page.shtml");
        assert!(response.body == expected, "{} bytes", response.body.len());
        // The length is not known before, unless all parts were there before the head was sent.
        let length = expected.len().to_string();
        assert!(response.field("Content-Length").is_none_or(|said| said == length));
    }
    // A client that leaves in the middle ends its request and does not disturb others.
    for _ in 0..20 {
        let mut client = server.connect();
        client.send("GET /page.shtml HTTP/1.1\r\nHost: a\r\n\r\n");
        drop(client);
    }
    assert!(server.get("/page.shtml").body == expected);
    let mut client = server.connect();
    let old = client.ask("GET /page.shtml HTTP/1.0\r\nHost: a\r\n\r\n");
    assert!(old.body == expected, "{} bytes", old.body.len());
    let url = format!("http://{}/page.shtml", server.address());
    let Some(head) = curl(["--head", url.as_str()]) else { return };
    assert!(head.status.success(), "{}", String::from_utf8_lossy(&head.stderr));
}

/// The includes of programs and other servers are requested at the same time: this origin answers only after
/// both requests have arrived.
#[test]
fn programs_run_beside_each_other() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = origin.local_addr().expect("it has an address");
    let answering = std::thread::spawn(move || {
        let mut connections = Vec::new();
        for _ in 0..2 {
            let (mut connection, _) = origin.accept().expect("a request comes");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                connection.read_exact(&mut byte).expect("the head comes");
                head.push(byte[0]);
            }
            let line = String::from_utf8(head).expect("the head is text");
            connections.push((connection, line.split(' ').nth(1).unwrap_or_default().to_string()));
        }
        // The last request is answered first; the page keeps its order.
        for (mut connection, path) in connections.into_iter().rev() {
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length";
            write!(connection, "{head}: {}\r\n\r\n{path}", path.len()).expect("the answer goes out");
        }
    });
    let tree = Tree::empty();
    tree.write(
        "page.shtml",
        "head <!--#include virtual='/app/1?a=b' -->|<!--#include virtual='/app/2' --> tail",
    );
    let route = format!("[[site.route]]\npath = \"/app/\"\nproxy = {{ to = \"http://{address}\" }}\n");
    let server =
        Server::configured(tree.around(), &format!("{}[site.includes]\n{route}", tree.configuration("")));
    assert_eq!(body(&server, "/page.shtml"), "head /app/1?a=b|/app/2 tail");
    answering.join().expect("the origin has answered");
}

#[test]
fn programs_are_included() {
    let tree = Tree::empty();
    let program =
        "#!/bin/sh\necho Content-Type: text/plain; echo; echo \"$REQUEST_METHOD $QUERY_STRING $HTTP_X\"\n";
    write_program(&tree.file("cgi-bin/program"), program);
    tree.write(
        "page.shtml",
        "<!--#include virtual='/cgi-bin/program?a=b' -->|<!--#fsize virtual='/page.shtml' -->",
    );
    let server = Server::quick(&tree.root());
    for value in ["1", "2"] {
        let mut client = server.connect();
        let response = client.ask(format!("GET /page.shtml HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n"));
        assert_eq!(String::from_utf8_lossy(&response.body), format!("GET a=b {value}\n| 84 "));
    }
}
