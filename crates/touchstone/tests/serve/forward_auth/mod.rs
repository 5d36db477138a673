//! Sites and routes before which another server decides (`forward_auth`): a real oauth2-proxy, and one that
//! answers as a test requires.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod oauth2_proxy;

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{self, Client, Origin, Response, Server, Tree, read_head, run, write_program};

/// An authority that answers as `decide` returns for the head of a question, and keeps the heads.
struct Authority {
    origin: Origin,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Authority {
    fn start(decide: impl Fn(&str) -> String + Send + Sync + 'static) -> Authority {
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = heads.clone();
        let origin = Origin::start(move |stream: &mut TcpStream| {
            while let Some(head) = read_head(stream) {
                let answer = decide(&head);
                kept.lock().unwrap().push(head);
                // A test may end in that time.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Authority { origin, heads }
    }

    /// One that lets users pass whose cookie names them, with that name in a field.
    fn by_cookie() -> Authority {
        Authority::start(|head| match head.lines().find_map(|line| line.strip_prefix("Cookie: user=")) {
            Some(user) => format!("HTTP/1.1 200 OK\r\nRemote-User: {user}\r\nContent-Length: 0\r\n\r\n"),
            None => "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"a\"\r\n\
                     Set-Cookie: state=1; Path=/\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\n\
                     Go away.\n"
                .to_string(),
        })
    }

    fn keys(&self, more: &str) -> String {
        format!("forward_auth = {{ url = \"http://{}/auth?a=b\"{more} }}\n", self.origin.address)
    }

    fn questions(&self) -> usize {
        self.heads.lock().unwrap().len()
    }

    fn last(&self) -> String {
        self.heads.lock().unwrap().last().cloned().unwrap_or_default()
    }
}

fn ask(client: &mut Client, path: &str, fields: &str) -> Response {
    client.ask(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"))
}

/// A program that prints the information about the user that it gets.
fn program(tree: &Tree) {
    let text = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s %s %s' \
                \"$REMOTE_USER\" \"$HTTP_REMOTE_USER\" \"$HTTP_REMOTE_GROUPS\"\n";
    write_program(&tree.beside("cgi/who"), text);
}

const CGI: &str = "[[site.route]]\npath = \"/cgi/\"\ncgi = { directory = \"cgi\" }\n";

#[test]
fn the_authority_decides_and_its_answer_goes_on() {
    let (tree, authority) = (Tree::standard(), Authority::by_cookie());
    program(&tree);
    let keys = authority.keys(", fields = [\"Remote-User\", \"Remote-Groups\"], user = \"Remote-User\"");
    let mut server = Server::configured(
        tree.around(),
        &format!(
            "[access_log]\npath = \"access.log\"\nformat = \"$user $status\"\n{}{keys}\
             [[site.route]]\npath = \"/dir/\"\nforward_auth = {{ url = \"off\" }}\n{CGI}",
            tree.configuration("")
        ),
    );
    let mut client = server.connect();
    for _ in 0..2 {
        let refused = ask(&mut client, "/alphabet.txt", "");
        assert_eq!((refused.status, &refused.body[..]), (401, &b"Go away.\n"[..]));
        assert_eq!(refused.field("www-authenticate"), Some("Basic realm=\"a\""));
        assert_eq!(refused.field("set-cookie"), Some("state=1; Path=/"));
        assert_eq!(refused.field("cache-control"), Some("no-store"));
        let passed = ask(&mut client, "/alphabet.txt", "Cookie: user=alice\r\n");
        assert_eq!((passed.status, &passed.body[..]), (200, support::ALPHABET.as_bytes()));
    }
    assert_eq!(ask(&mut client, "/dir/inner.txt", "").status, 200);
    // The client's own values of these fields are removed, under every spelling.
    let forged =
        "Remote-User: root\r\nremote_user: root\r\nRemote-Groups: admins\r\nRemote_Groups: admins\r\n";
    let answer = ask(&mut client, "/cgi/who", &format!("{forged}Cookie: user=alice\r\n"));
    assert_eq!(String::from_utf8_lossy(&answer.body), "alice alice ");
    drop(client);
    server.stop();
    let log = fs::read_to_string(tree.beside("access.log")).unwrap();
    assert!(log.contains("alice 200") && log.contains("- 401") && !log.contains("root"), "{log}");
}

#[test]
fn the_question_says_what_is_judged_and_cannot_be_forged() {
    let (tree, authority) = (Tree::standard(), Authority::by_cookie());
    let server =
        Server::configured(tree.around(), &format!("{}{}", tree.configuration(""), authority.keys("")));
    let mut client = server.connect();
    let forged = "X-Forwarded-Uri: /public\r\nX-Original-URL: http://a/public\r\nx_original_url: /public\r\n\
                  X-Forwarded-Method: OPTIONS\r\nX-Forwarded-Host: evil.example\r\n\
                  X-Auth-Request-Redirect: http://evil.example/\r\nX-Forwarded-For: 6.6.6.6\r\n";
    for (target, uri) in [
        ("/dir/inner.txt?x=%20y", "/dir/inner.txt?x=%20y"),
        ("/public/../dir/inner.txt", "/dir/inner.txt"),
        ("/public/%2e%2e/dir/./inner.txt", "/dir/inner.txt"),
        ("//dir//inner.txt", "/dir/inner.txt"),
        ("/%64ir/inner.txt", "/dir/inner.txt"),
        ("http://a.example/dir/inner.txt", "/dir/inner.txt"),
    ] {
        let answer = ask(&mut client, target, &format!("{forged}Cookie: user=alice\r\n"));
        assert_eq!(answer.status, 200, "{target}");
        let head = authority.last();
        assert!(head.starts_with("GET /auth?a=b HTTP/1.1\r\n"), "{head}");
        for line in [
            format!("Host: {}", authority.origin.address),
            format!("X-Forwarded-Uri: {uri}"),
            format!("X-Original-URL: http://a.example{uri}"),
            format!("X-Original-URI: {uri}"),
            "X-Forwarded-Method: GET".to_string(),
            "X-Original-Method: GET".to_string(),
            "X-Forwarded-Host: a.example".to_string(),
            "X-Forwarded-Proto: http".to_string(),
            "X-Forwarded-For: 127.0.0.1".to_string(),
        ] {
            let count = head.split("\r\n").filter(|found| **found == *line).count();
            assert_eq!(count, 1, "{target}: {line}: {head}");
        }
        assert!(!head.contains("public") && !head.contains("evil") && !head.contains("6.6.6.6"), "{head}");
    }
    // A question has no body, and there is no question about an ambiguous request.
    let post = "POST /alphabet.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(client.ask(post).status, 401);
    let head = authority.last();
    assert!(head.contains("X-Forwarded-Method: POST") && !head.contains("Content-Length: 3"), "{head}");
    let before = authority.questions();
    assert_eq!(ask(&mut server.connect(), "/dir/..%2f..%2fx", "").status / 100, 4);
    assert_eq!(ask(&mut server.connect(), "/%zz", "").status, 400);
    assert!(authority.questions() <= before + 1);
}

#[test]
fn only_listed_fields_are_sent() {
    let (tree, authority) = (Tree::standard(), Authority::by_cookie());
    let keys = authority.keys(", send = [\"Cookie\"]");
    let server = Server::configured(tree.around(), &format!("{}{keys}", tree.configuration("")));
    let fields = "Cookie: user=alice\r\nAuthorization: Basic YTpi\r\nUser-Agent: test\r\n";
    assert_eq!(ask(&mut server.connect(), "/alphabet.txt", fields).status, 200);
    let head = authority.last();
    assert!(
        head.contains("Cookie: user=alice") && !head.contains("YTpi") && !head.contains("test"),
        "{head}"
    );
}

#[test]
fn a_client_is_sent_to_sign_in() {
    let (tree, authority) = (Tree::standard(), Authority::by_cookie());
    let keys = authority.keys(", sign_in = \"https://auth.example/?rd={url}\"");
    let server = Server::configured(tree.around(), &format!("{}{keys}", tree.configuration("")));
    let mut client = server.connect();
    let answer = ask(&mut client, "/alphabet.txt?a=b&c=%26", "");
    let location = "https://auth.example/?rd=http%3A%2F%2Fa.example%2Falphabet.txt%3Fa%3Db%26c%3D%2526";
    assert_eq!((answer.status, answer.field("location")), (302, Some(location)));
    assert_eq!(answer.field("set-cookie"), Some("state=1; Path=/"));
    let post = "POST /alphabet.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(client.ask(post).status, 401);
}

#[test]
fn decisions_are_remembered_for_the_same_user_alone() {
    let (tree, authority) = (Tree::standard(), Authority::by_cookie());
    program(&tree);
    let keys = authority.keys(
        ", send = [\"Cookie\", \"Authorization\"], remember = \"1h\", fields = [\"Remote-User\"], \
         user = \"Remote-User\"",
    );
    let server = Server::configured(tree.around(), &format!("{}{keys}{CGI}", tree.configuration("")));
    let mut client = server.connect();
    let said = |client: &mut Client, fields: &str| {
        let answer = ask(client, "/cgi/who", fields);
        (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
    };
    for _ in 0..3 {
        assert_eq!(said(&mut client, "Cookie: user=alice\r\n"), (200, "alice alice ".to_string()));
        assert_eq!(said(&mut client, "Cookie: user=bob\r\n"), (200, "bob bob ".to_string()));
    }
    assert_eq!(authority.questions(), 2);
    // Every credential that is sent counts, in whatever field or case; and refusals are not remembered.
    for (number, fields) in [
        "Cookie: user=alice\r\nAuthorization: Basic YTpi\r\n",
        "Authorization: Basic YTpi\r\n",
        "Authorization: Basic YTpi\r\n",
        "",
        "Cookie: user=alice; x=y\r\n",
        "Cookie: user=alice\r\nCookie: x=y\r\n",
    ]
    .iter()
    .enumerate()
    {
        said(&mut client, fields);
        assert_eq!(authority.questions(), 3 + number, "{fields}");
    }
    // So do path, method and host.
    let more = [
        "GET /cgi/who?a HTTP/1.1\r\nHost: a.example\r\nCookie: user=alice\r\n\r\n",
        "GET /cgi/who HTTP/1.1\r\nHost: b.example\r\nCookie: user=alice\r\n\r\n",
        "HEAD /cgi/who HTTP/1.1\r\nHost: a.example\r\nCookie: user=alice\r\n\r\n",
    ];
    for (number, request) in more.iter().enumerate() {
        server.connect().send(request);
        support::wait_until("the authority is asked", std::time::Duration::from_secs(60), || {
            authority.questions() == 9 + number
        });
    }
}

#[test]
fn an_answer_that_is_not_to_be_kept_is_not_remembered() {
    let tree = Tree::standard();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let authority = Authority::start(move |_| match counted.fetch_add(1, Ordering::SeqCst) % 2 {
        0 => "HTTP/1.1 204 No Content\r\nSet-Cookie: session=new\r\n\r\n".to_string(),
        _ => "HTTP/1.1 200 OK\r\nCache-Control: private, no-store\r\nContent-Length: 0\r\n\r\n".to_string(),
    });
    let keys = authority.keys(", send = [\"Cookie\"], remember = \"1h\"");
    let server = Server::configured(tree.around(), &format!("{}{keys}", tree.configuration("")));
    let mut client = server.connect();
    for round in 0..4 {
        let answer = ask(&mut client, "/alphabet.txt", "");
        assert_eq!(answer.status, 200);
        // A renewed session reaches the client, in an answer that no shared cache keeps.
        let expected = (round % 2 == 0).then_some("session=new");
        assert_eq!(answer.field("set-cookie"), expected);
        assert_eq!(answer.field("cache-control").is_some(), expected.is_some());
        assert_eq!(authority.questions(), round + 1);
    }
}

#[test]
fn nothing_passes_while_the_authority_is_down_late_or_wrong() {
    let tree = Tree::standard();
    let down = support::free_port();
    let configuration = |url: &str| {
        format!(
            "{}forward_auth = {{ url = \"{url}\", timeout = \"300ms\", send = [\"Cookie\"], \
             remember = \"1h\" }}\n",
            tree.configuration("")
        )
    };
    let statuses = |url: &str| {
        let server = Server::configured(tree.around(), &configuration(url));
        let mut client = server.connect();
        [(); 3].map(|()| ask(&mut client, "/alphabet.txt", "Cookie: user=alice\r\n").status)
    };
    assert!(statuses(&format!("http://127.0.0.1:{down}/")).iter().all(|status| [502, 503].contains(status)));
    let late = Origin::start(|stream| while read_head(stream).is_some() {});
    assert!(statuses(&format!("http://{}/", late.address)).iter().all(|status| [503, 504].contains(status)));
    for wrong in [
        &b"HTTP/1.1 500 Oops\r\nContent-Length: 6\r\n\r\nsecret"[..],
        b"HTTP/1.1 503 Oops\r\nContent-Length: 6\r\n\r\nsecret",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all",
        b"nonsense\r\n\r\n",
    ] {
        let origin = Origin::answering_once(wrong);
        let answers = statuses(&format!("http://{}/", origin.address));
        assert!(answers.iter().all(|status| *status >= 500), "{wrong:?}: {answers:?}");
    }
}

#[test]
fn what_was_stored_for_one_user_is_not_given_to_another() {
    let (tree, authority) = (Tree::standard(), Authority::by_cookie());
    let origin = Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let user = head.lines().find_map(|line| line.strip_prefix("Remote-User: ")).unwrap_or("none");
            // A heuristic lifetime would be enough to store it, were it not for the user.
            let answer = format!(
                "HTTP/1.1 200 OK\r\nLast-Modified: Fri, 02 Jan 2026 03:04:05 GMT\r\n\
                 Content-Length: {}\r\n\r\n{user}",
                user.len()
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    // The user is in no field that a cache treats as a credential.
    let by_field = Authority::start(|head| {
        let user = head.lines().find_map(|line| line.strip_prefix("X-Token: ")).unwrap_or("none");
        format!("HTTP/1.1 200 OK\r\nRemote-User: {user}\r\nContent-Length: 0\r\n\r\n")
    });
    for authority in [&authority, &by_field] {
        let keys = authority.keys(", fields = [\"Remote-User\"]");
        let server = Server::configured(
            tree.around(),
            &format!(
                "{}{keys}[[site.route]]\npath = \"/app/\"\nproxy = {{ to = \"http://{}\" }}\ncache = {{}}\n",
                tree.configuration(""),
                origin.address
            ),
        );
        let mut client = server.connect();
        for user in ["alice", "bob", "alice", "bob"] {
            let fields = format!("Cookie: user={user}\r\nX-Token: {user}\r\n");
            let answer = ask(&mut client, "/app/x", &fields);
            assert_eq!((answer.status, String::from_utf8_lossy(&answer.body).as_ref()), (200, user));
        }
    }
}

#[test]
fn a_page_does_not_include_what_its_client_may_not_see() {
    let (tree, authority) = (Tree::standard(), Authority::by_cookie());
    tree.write("page.shtml", "[<!--#include virtual=\"/private/secret.txt\" -->]");
    tree.write("private/secret.txt", "the secret");
    let keys = authority.keys("");
    let server = Server::configured(
        tree.around(),
        &format!("{}includes = {{}}\n[[site.route]]\npath = \"/private/\"\n{keys}", tree.configuration("")),
    );
    let mut client = server.connect();
    for _ in 0..2 {
        let answer = ask(&mut client, "/page.shtml", "");
        assert_eq!(answer.status, 200);
        assert!(!String::from_utf8_lossy(&answer.body).contains("the secret"));
        let answer = ask(&mut client, "/page.shtml", "Cookie: user=alice\r\n");
        assert_eq!(String::from_utf8_lossy(&answer.body), "[the secret]");
    }
}

#[test]
fn what_cannot_be_is_refused_at_the_start() {
    let tree = Tree::standard();
    for (keys, reason) in [
        ("forward_auth = { url = \"127.0.0.1:80\" }", "an origin is"),
        ("forward_auth = { url = \"http://127.0.0.1/a/../b\" }", "not in its normal form"),
        ("forward_auth = { url = \"http://127.0.0.1/\", remember = \"1s\" }", "'remember' needs 'send'"),
        ("forward_auth = { url = \"http://127.0.0.1/\", fields = [\"Host\"] }", "cannot be passed"),
        ("forward_auth = { url = \"http://127.0.0.1/\", sign_in = \"//evil/\" }", "neither a path nor a URL"),
        ("forward_auth = { url = \"https://127.0.0.1/\", ca_certificate = \"missing.pem\" }", "missing.pem"),
    ] {
        let path = tree.beside("wrong.toml");
        fs::write(&path, format!("{}{keys}\n", tree.configuration(""))).unwrap();
        let output = run(["check", "--config", path.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert_ne!(output.status.code(), Some(0), "{keys}");
        assert!(said.contains(reason) && said.contains("wrong.toml:"), "{keys}: {said}");
    }
}
