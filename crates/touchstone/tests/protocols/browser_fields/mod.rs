//! The fields of answers for browsers, `security_fields` and `cors`, in every version of HTTP: on files,
//! programs, other servers and stored answers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod observatory;

use std::fs;
use std::io::Write;

use serde_json::json;

use crate::http3::client::Client;
use crate::support::{Origin, Server, Tree, curl, read_head, run, write_program};

const ORIGIN: &str = "https://www.example.org";

/// An answer's head: the lines in lower case.
type Lines = Vec<String>;

/// A site with TLS and these keys, before a program at `/cgi/who`, an origin at `/app/` with a cache before
/// it, and the same origin without a cache at `/direct/`.
fn site(tree: &Tree, origin: &Origin, keys: &str) -> Server {
    let text = "#!/bin/sh\nprintf 'Content-Type: text/html\\n\\n<script nonce=\"%s\"></script>' \
                \"$HTTP_X_CSP_NONCE\"\n";
    write_program(&tree.beside("cgi/who"), text);
    tree.write("page.shtml", "<!--#echo var=\"HTTP_X_CSP_NONCE\" -->");
    let address = origin.address;
    let text = format!(
        "[server]\ncores = 1\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\nhttp3 = true\n\
         development_certificate = true\nincludes = {{}}\n{keys}\n\
         [[site.route]]\npath = \"/cgi/\"\ncgi = {{ directory = \"cgi\" }}\n\
         [[site.route]]\npath = \"/app/\"\nproxy = {{ to = \"http://{address}\" }}\ncache = {{}}\n\
         security_fields = \"default\"\n\
         [[site.route]]\npath = \"/direct/\"\nproxy = {{ to = \"http://{address}\" }}\n",
        tree.root()
    );
    Server::configured(tree.around(), &text)
}

/// An origin that sends its own such fields, and returns the request.
fn origin() -> Origin {
    Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let nonce = head.lines().find_map(|line| line.strip_prefix("X-CSP-Nonce: ")).unwrap_or("none");
            let body = format!("nonce {nonce}");
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: max-age=600\r\n\
                 X-Frame-Options: DENY\r\nAccess-Control-Allow-Origin: https://evil.example\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    })
}

/// Head and body of an answer that curl gets.
fn ask(server: &Server, path: &str, arguments: &[&str]) -> Option<(Lines, String)> {
    let url = format!("https://{}{path}", server.address());
    let output = curl(["--insecure", "--include", &url].iter().chain(arguments))?;
    let text = String::from_utf8(output.stdout).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{arguments:?}: {text}"));
    Some((head.to_ascii_lowercase().lines().map(String::from).collect(), body.to_string()))
}

fn values<'a>(lines: &'a Lines, name: &str) -> Vec<&'a str> {
    let value = |line: &'a String| line.strip_prefix(name)?.strip_prefix(": ");
    lines.iter().filter_map(value).collect()
}

#[test]
fn safe_fields_are_in_every_answer_once() {
    let (tree, origin) = (Tree::standard(), origin());
    let server = site(&tree, &origin, "security_fields = \"default\"");
    for version in ["--http1.1", "--http2"] {
        for path in [
            "/alphabet.txt",
            "/alphabet.txt",
            "/missing",
            "/page.shtml",
            "/cgi/who",
            // The second one finds an idle connection to the origin.
            "/direct/x",
            "/direct/x",
            "/app/x",
            "/app/x",
            "/app/x",
            "/app/../app/%2e%2e/%zz",
        ] {
            let Some((lines, _)) = ask(&server, path, &[version]) else { return };
            for (name, value) in [
                ("strict-transport-security", "max-age=31536000"),
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "strict-origin-when-cross-origin"),
                ("cross-origin-opener-policy", "same-origin"),
                ("cross-origin-resource-policy", "same-origin"),
            ] {
                assert_eq!(values(&lines, name), [value], "{version} {path}: {lines:?}");
            }
            assert_eq!(values(&lines, "content-security-policy").len(), 1, "{version} {path}");
            assert_eq!(values(&lines, "permissions-policy").len(), 1, "{version} {path}");
            // The origin's own fields have precedence.
            let of_origin = path.starts_with("/app/x") || path.starts_with("/direct/");
            let frames = if of_origin { "deny" } else { "sameorigin" };
            assert_eq!(values(&lines, "x-frame-options"), [frames], "{version} {path}");
        }
    }
    let Some(mut client) = Client::start() else { return };
    client.connect("a", &server);
    for path in ["/alphabet.txt", "/alphabet.txt", "/cgi/who", "/app/x", "/app/x", "/missing"] {
        let answer = client.get("a", path);
        assert_eq!(answer.field("strict-transport-security"), Some("max-age=31536000"), "{path}");
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"), "{path}");
    }
}

#[test]
fn fields_of_programs_are_replaced_on_request_and_routes_can_be_without() {
    let (tree, origin) = (Tree::standard(), origin());
    let keys = "security_fields = { replace = true, frame_options = \"SAMEORIGIN\" }\n\
                headers = { Referrer-Policy = \"no-referrer\" }\n\
                [[site.route]]\npath = \"/dir/\"\nsecurity_fields = \"off\"\n\
                [[site.route]]\npath = \"/second.txt\"\nheaders = { X-Frame-Options = \"\" }\n";
    let server = site(&tree, &origin, keys);
    for _ in 0..2 {
        let Some((lines, _)) = ask(&server, "/direct/x", &[]) else { return };
        assert_eq!(values(&lines, "x-frame-options"), ["sameorigin"]);
        assert_eq!(values(&lines, "referrer-policy"), ["no-referrer"]);
        let (lines, _) = ask(&server, "/dir/inner.txt", &[]).unwrap();
        assert!(values(&lines, "x-content-type-options").is_empty(), "{lines:?}");
        assert_eq!(values(&lines, "referrer-policy"), ["no-referrer"]);
        let (lines, _) = ask(&server, "/second.txt", &[]).unwrap();
        assert!(values(&lines, "x-frame-options").is_empty(), "{lines:?}");
        assert_eq!(values(&lines, "x-content-type-options"), ["nosniff"]);
    }
}

#[test]
fn a_nonce_is_new_for_each_answer_and_not_the_clients_to_choose() {
    let (tree, origin) = (Tree::standard(), origin());
    let keys = "security_fields = { content_security_policy = \
                \"default-src 'self'; script-src 'nonce-{nonce}'\" }";
    let server = site(&tree, &origin, keys);
    let mut seen = Vec::new();
    for (path, begin, end) in [
        ("/cgi/who", "<script nonce=\"", "\"></script>"),
        ("/direct/x", "nonce ", ""),
        ("/page.shtml", "", ""),
    ] {
        for forged in ["X-CSP-Nonce: forged", "x_csp_nonce: forged"] {
            let Some((lines, body)) = ask(&server, path, &["--header", forged]) else { return };
            let nonce = body.strip_prefix(begin).and_then(|body| body.strip_suffix(end)).unwrap();
            assert!(nonce.len() == 24 && !seen.contains(&nonce.to_string()), "{path}: {nonce}");
            let policy = format!("default-src 'self'; script-src 'nonce-{}'", nonce.to_ascii_lowercase());
            assert_eq!(values(&lines, "content-security-policy"), [policy]);
            seen.push(nonce.to_string());
        }
    }
    // A file has no nonce in it, and a stored page none of its own.
    for path in ["/alphabet.txt", "/alphabet.txt"] {
        let (lines, _) = ask(&server, path, &[]).unwrap();
        assert!(!lines.iter().any(|line| line.contains("nonce-forged")), "{lines:?}");
    }
    let (_, body) = ask(&server, "/app/x", &["--header", "X-CSP-Nonce: forged"]).unwrap();
    assert_eq!(body, "nonce none");
}

#[test]
fn only_listed_origins_may_read_answers() {
    let (tree, origin) = (Tree::standard(), origin());
    let keys = format!(
        "cors = {{ origins = [\"{ORIGIN}\", \"https://*.example.net\"], credentials = true, \
         methods = [\"GET\", \"PUT\"], headers = [\"X-Api\"], expose = [\"ETag\"] }}"
    );
    let server = site(&tree, &origin, &keys);
    let header = |origin: &str| format!("Origin: {origin}");
    for version in ["--http1.1", "--http2"] {
        for path in ["/alphabet.txt", "/missing", "/cgi/who", "/direct/x", "/app/x"] {
            // In turns, so that an answer that was stored for one origin would show.
            for other in [
                ORIGIN,
                "https://evil.example",
                "https://a.example.net",
                "null",
                "https://www.example.org.evil.example",
                ORIGIN,
            ] {
                let Some((lines, _)) = ask(&server, path, &[version, "--header", &header(other)]) else {
                    return;
                };
                let is_listed = other == ORIGIN || other.ends_with(".example.net");
                let expected = if is_listed { vec![other] } else { Vec::new() };
                let what = format!("{version} {path} {other}: {lines:?}");
                assert_eq!(values(&lines, "access-control-allow-origin"), expected, "{what}");
                assert_eq!(
                    values(&lines, "access-control-allow-credentials").len(),
                    expected.len(),
                    "{what}"
                );
                assert_eq!(values(&lines, "access-control-expose-headers").len(), expected.len(), "{what}");
                assert!(values(&lines, "vary").contains(&"origin"), "{what}");
            }
            let (lines, _) = ask(&server, path, &[version]).unwrap();
            assert!(values(&lines, "access-control-allow-origin").is_empty(), "{path}: {lines:?}");
            assert!(values(&lines, "vary").contains(&"origin"), "{path}: {lines:?}");
        }
    }
    let Some(mut client) = Client::start() else { return };
    client.connect("a", &server);
    for (other, expected) in [(ORIGIN, Some(ORIGIN)), ("https://evil.example", None), (ORIGIN, Some(ORIGIN))]
    {
        for path in ["/alphabet.txt", "/app/x"] {
            let asked = json!([{"path": path, "headers": [["origin", other]]}]);
            let answer = client.requests("a", asked).remove(0);
            assert_eq!(answer.field("access-control-allow-origin"), expected, "{path}");
        }
    }
}

#[test]
fn questions_of_browsers_are_answered_without_a_user() {
    let (tree, origin) = (Tree::standard(), origin());
    fs::write(tree.beside("users"), "a:$2y$04$MQFQ8cZf8sEo1ZEO2Ep0nOmvhTpQm9r7VhFzYv3lB1m4T0b2VtQ9W\n")
        .unwrap();
    let keys = format!(
        "cors = {{ origins = [\"{ORIGIN}\"], methods = [\"PUT\"], headers = [\"X-Api\"], \
         max_age = \"1h\" }}\n\
         [[site.route]]\npath = \"/dir/\"\nmethods = [\"PUT\"]\ncors = {{ origins = [] }}\n\
         [[site.route]]\npath = \"/private/\"\nbasic_authentication = {{ file = \"users\" }}\n\
         [[site.route]]\npath = \"/closed/\"\ndeny = [\"127.0.0.0/8\"]\n"
    );
    let server = site(&tree, &origin, &keys);
    let question = |path: &str, origin: &str, method: &str| {
        let (origin, method) =
            (format!("Origin: {origin}"), format!("Access-Control-Request-Method: {method}"));
        let arguments = ["--request", "OPTIONS", "--header", &origin, "--header", &method];
        ask(&server, path, &arguments).map(|(lines, _)| {
            let status: u16 = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
            (status, lines)
        })
    };
    for path in ["/alphabet.txt", "/private/x", "/direct/x", "/app/x", "/cgi/who"] {
        let Some((status, lines)) = question(path, ORIGIN, "PUT") else { return };
        assert_eq!(status, 204, "{path}: {lines:?}");
        for (name, value) in [
            ("access-control-allow-origin", ORIGIN),
            ("access-control-allow-methods", "put"),
            ("access-control-allow-headers", "x-api"),
            ("access-control-max-age", "3600"),
        ] {
            assert_eq!(values(&lines, name), [value], "{path}: {lines:?}");
        }
        let (status, lines) = question(path, "https://evil.example", "PUT").unwrap();
        assert_eq!(status, 403, "{path}");
        assert!(!lines.iter().any(|line| line.starts_with("access-control-")), "{lines:?}");
    }
    // The route of the announced request decides, also which clients are allowed.
    let (_, lines) = question("/dir/inner.txt", ORIGIN, "PUT").unwrap();
    assert!(values(&lines, "access-control-allow-origin").is_empty(), "{lines:?}");
    assert_eq!(question("/dir/inner.txt", ORIGIN, "GET").unwrap().0, 204);
    assert_eq!(question("/closed/x", ORIGIN, "PUT").unwrap().0, 403);
    // Without a question it is the usual request.
    let (lines, _) = ask(&server, "/alphabet.txt", &["--request", "OPTIONS"]).unwrap();
    assert!(!values(&lines, "allow").is_empty(), "{lines:?}");
}

#[test]
fn what_cannot_be_is_refused_at_the_start() {
    let tree = Tree::standard();
    let refused = |keys: &str| {
        let path = tree.beside("wrong.toml");
        fs::write(&path, format!("{}{keys}", tree.configuration(""))).unwrap();
        let output = run(["check", "--config", path.to_str().unwrap()]);
        assert_ne!(output.status.code(), Some(0), "{keys}");
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
    };
    for (keys, reason) in [
        ("cors = { origins = [\"*\"], credentials = true }", "'credentials' cannot be used with \"*\""),
        ("cors = { origins = [\"null\"] }", "every page in a sandbox"),
        ("cors = { origins = [\"https://www.example.org/\"] }", "is not an origin"),
        ("security_fields = \"strict\"", "must be \"default\", \"off\" or a table"),
        ("security_fields = { hsts_preload = true }", "'hsts_preload' needs"),
        (
            "security_fields = { content_security_policy = \"script-src {nonce}\" }",
            "braces are valid only in the source of the nonce",
        ),
        ("security_fields = { frame_options = \"DENNY\" }", "is not one of DENY, SAMEORIGIN"),
        (
            "security_fields = { content_security_policy = \"script-src 'nonce-{nonce}'\" }\n\
             [[site.route]]\npath = \"/app/\"\nproxy = { to = \"http://127.0.0.1:1\" }\ncache = {}\n",
            "'cache' cannot be used with a nonce",
        ),
    ] {
        let said = refused(keys);
        assert!(said.contains(reason) && said.contains("wrong.toml:"), "{keys}: {said}");
    }
}
