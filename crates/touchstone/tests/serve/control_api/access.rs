//! Which clients have access, and which requests are refused before anything is looked at.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{CHANGE, Controlled, READ};
use crate::support::{
    ALPHABET, Bound, Server, Tree, bound_by_permissions, curl, error_lines, run, run_as, skipped,
};

#[test]
fn only_known_clients_have_access_and_no_browsers() {
    let controlled = Controlled::start("audit_log = 'audit.log'", "");
    let site = "/control/sites/127.0.0.1:0";
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let change = bearer(CHANGE);
    let body = json!({ "listen": ["127.0.0.1:0"], "root": "/" }).to_string();
    for (method, fields, body, status) in [
        ("GET", String::new(), "", 401),
        ("GET", bearer("wrong-0123456789abcdef"), "", 401),
        ("GET", "Authorization: Basic ZGVwbG95OmNoYW5nZS0wMTIzNDU2Nzg5YWJjZGVm\r\n".to_string(), "", 401),
        ("PUT", String::new(), &body, 401),
        ("PUT", bearer(READ), &body, 403),
        ("DELETE", bearer(READ), "", 403),
        ("GET", format!("{change}Origin: http://127.0.0.1\r\n"), "", 403),
        ("GET", format!("{change}Sec-Fetch-Site: same-origin\r\n"), "", 403),
        ("PUT", format!("{change}Cookie: a=b\r\n"), &body, 403),
        ("PUT", format!("{change}Content-Type: text/plain\r\n"), "", 415),
        ("OPTIONS", change.clone(), "", 405),
        ("PATCH", change.clone(), "{}", 405),
        ("PUT", change.clone(), "{", 400),
        ("PUT", change.clone(), &body, 428),
        ("PUT", format!("{change}If-Match: \"0123\"\r\n"), &body, 412),
        ("PUT", format!("{change}If-None-Match: *\r\n"), &body, 412),
        ("DELETE", format!("{change}If-Match: \"0123\"\r\n"), &body, 400),
    ] {
        let answer = controlled.send(method, site, &fields, body);
        assert_eq!(answer.status, status, "{method} {fields}: {:#}", answer.body);
        assert!(answer.body["error"].is_string(), "{method} {fields}");
    }
    let refused = controlled.send("GET", site, "", "");
    assert_eq!(refused.response.field("www-authenticate"), Some("Bearer realm=\"touchstone control\""));
    assert_eq!(controlled.call("GET", "/control/nothing", "", &Value::Null).status, 404);
    assert_eq!(controlled.call("GET", "/control/sites/none", "", &Value::Null).status, 404);
    assert_eq!(controlled.send("GET", "/control/config", &bearer(READ), "").status, 200);
    // The body of a stranger is not read, and one that is too large is not either.
    let long = format!("{change}Content-Type: application/json\r\nContent-Length: 1048577\r\n");
    assert_eq!(controlled.send("PUT", site, &long, "").status, 413);
    let chunked = format!("{change}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n");
    assert_eq!(controlled.send("PUT", site, &chunked, "").status, 411);
    // Nothing was changed.
    controlled.server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    let audit = fs::read_to_string(controlled.tree.beside("audit.log")).expect("the audit log");
    let denied = audit.lines().filter(|line| line.contains("\"denied\"")).count();
    assert_eq!(denied, 4, "{audit}");
    assert!(!audit.contains("0123456789abcdef"), "{audit}");
    assert!(audit.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{audit}");
}

#[test]
fn a_control_api_without_a_guard_is_refused_at_the_start() {
    let tree = Tree::standard();
    let path = tree.beside("touchstone.toml");
    let site = "[[site]]\nlisten = ['127.0.0.1:0']\nroot = 'root'\n";
    for (text, expected) in [
        ("[admin]\nlisten = '127.0.0.1:9180'\n[control]\nenabled = true\n", "token_file"),
        ("[control]\nenabled = true\n", "admin listener"),
        (
            "[admin]\nlisten = '127.0.0.1:9180'\n[control]\nenabled = true\ntoken_file = 'none'\n",
            "cannot be read",
        ),
    ] {
        fs::write(&path, format!("{text}{site}")).expect("the configuration is written");
        let path = path.to_str().expect("a name");
        let output = run(["serve", "--config", path]);
        let lines = error_lines(&output).join("\n");
        assert!(output.status.code() == Some(2) && lines.contains(expected), "{text}: {lines}");
        assert_eq!(run(["check", path]).status.code(), Some(1), "{text}");
    }
}

#[test]
fn without_the_section_there_is_no_api() {
    let tree = Tree::standard();
    let admin = crate::support::free_port();
    let text =
        format!("[admin]\nlisten = '127.0.0.1:{admin}'\n[[site]]\nlisten = ['127.0.0.1:0']\nroot = 'root'\n");
    let _server = Server::configured(tree.around(), &text);
    let mut client = crate::support::Client::connect(([127, 0, 0, 1], admin).into());
    let answer = client.ask(format!("GET /control/config HTTP/1.1\r\nHost: 127.0.0.1:{admin}\r\n\r\n"));
    assert_eq!(answer.status, 404);
    assert!(String::from_utf8_lossy(&answer.body).contains("control.enabled"));
}

#[test]
fn a_unix_socket_is_for_root_and_the_user_of_the_server() {
    let tree = Tree::standard();
    let socket = tree.beside("admin.sock");
    let text = "[admin]\nlisten = 'unix:admin.sock'\n[control]\nenabled = true\naudit_log = 'audit.log'\n\
        [[site]]\nlisten = ['127.0.0.1:0']\nroot = 'root'\n";
    let _server = Server::configured(tree.around(), text);
    let mode = fs::metadata(&socket).expect("the socket").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let socket = socket.to_str().expect("a name");
    let ask = |more: &[&str]| {
        let all = ["--silent", "--unix-socket", socket, "--write-out", "\n%{http_code}"];
        curl(all.iter().chain(more)).map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(read) = ask(&["http://admin/control/config"]) else { return };
    assert!(read.ends_with("\n200"), "{read}");
    let purge = ["--json", "{\"all\": \"1\"}", "http://admin/control/purge"];
    assert!(ask(&purge).is_some_and(|answer| answer.ends_with("\n404")));
    // A token that is wrong is not made good by the right user.
    let wrong = ask(&["--header", "Authorization: Bearer 0123456789abcdef", "http://admin/control/config"]);
    assert!(wrong.is_some_and(|answer| answer.ends_with("\n401")));
    // Nor is a proxy that runs as the right user good for all its clients.
    for field in ["Via: 1.1 edge", "X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1"] {
        let passed_on = ask(&["--header", field, "http://admin/control/config"]);
        assert!(passed_on.is_some_and(|answer| answer.ends_with("\n401")), "{field}");
    }
    let audit = fs::read_to_string(tree.beside("audit.log")).expect("the audit log");
    assert!(audit.contains("\"who\":\"uid ") && audit.contains("\"address\":\"unix\""), "{audit}");
    let Bound::AsUser(user) = bound_by_permissions() else {
        return skipped("another user at the unix socket (run as root)");
    };
    let other = run_as(user, ["control", "origins", "--server", &format!("unix:{socket}")]);
    assert_eq!(other.status.code(), Some(2));
    assert!(error_lines(&other).join("").contains("Permission denied"), "{other:?}");
}
