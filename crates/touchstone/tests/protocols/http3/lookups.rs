//! One table of GETs over HTTP/1.1, HTTP/2 and HTTP/3: the caches answer the same requests in all of them,
//! with the same status, and the access log records it.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http3::client::Client;
use crate::support::{Origin, Server, Tree, curl, wait_until};

/// A request, its status, and what answers it the second time.
struct Case {
    target: &'static str,
    fields: &'static [(&'static str, &'static str)],
    status: u64,
    handler: &'static str,
}

const CASES: &[Case] = &[
    Case { target: "/alphabet.txt", fields: &[], status: 200, handler: "cache" },
    Case { target: "/alphabet.txt?query", fields: &[], status: 200, handler: "cache" },
    Case { target: "/alphabet.txt", fields: &[("accept-encoding", "gzip")], status: 200, handler: "cache" },
    Case { target: "/alphabet.txt", fields: &[("x-route", "1")], status: 410, handler: "respond" },
    Case { target: "/%61lphabet.txt", fields: &[], status: 200, handler: "files" },
    Case { target: "/alphabet.txt", fields: &[("range", "bytes=0-1")], status: 206, handler: "files" },
    Case { target: "/closed/alphabet.txt", fields: &[], status: 403, handler: "access" },
    Case { target: "/app/cached", fields: &[], status: 200, handler: "cache" },
    Case { target: "/app/cached?query", fields: &[], status: 200, handler: "cache" },
    Case { target: "/app/cached", fields: &[("cache-control", "no-cache")], status: 200, handler: "proxy" },
    Case { target: "/missing", fields: &[], status: 404, handler: "files" },
];

const VERSIONS: [&str; 3] = ["HTTP/1.1", "HTTP/2.0", "HTTP/3.0"];

#[test]
fn all_versions_find_the_same_answers_ready() {
    let Some(mut client) = Client::start() else { return };
    let tree = Tree::standard();
    tree.write("closed/alphabet.txt", b"closed");
    let origin =
        Origin::answering(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 3\r\n\r\nabc");
    let log = tree.beside("access.log");
    // One core: each core has caches of its own.
    let text = format!(
        "[server]\ncores = 1\n[access_log]\npath = {log:?}\nformat = \"json\"\n\
         [[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\nhttp3 = true\ndevelopment_certificate = true\n\
         {}cache = {{}}\n[[site.route]]\npath = \"/closed/\"\nallow = [\"192.0.2.1\"]\n\
         [[site.route]]\npath = \"/\"\n\
         request_headers = {{ X-Route = \"1\" }}\nrespond = {{ status = 410 }}\n",
        tree.root(),
        origin.keys("")
    );
    let server = Server::configured(tree.around(), &text);
    client.connect("one", &server);
    let port = server.address().port();
    for (index, case) in CASES.iter().enumerate() {
        for version in VERSIONS {
            // The first request fills the caches.
            for round in ["first", "second"] {
                let agent = format!("{round} {version} {index}");
                let status = match version {
                    "HTTP/3.0" => {
                        let mut fields = case.fields.to_vec();
                        fields.push(("user-agent", &agent));
                        let requests = json!([{"path": case.target, "headers": fields}]);
                        client.requests("one", requests).remove(0).status()
                    }
                    _ => match status_by_curl(port, version, case, &agent) {
                        Some(status) => status,
                        None => return,
                    },
                };
                assert_eq!(status, case.status, "{agent}: {} {:?}", case.target, case.fields);
            }
        }
    }
    let lines = || fs::read_to_string(&log).unwrap_or_default();
    let all = CASES.len() * VERSIONS.len() * 2;
    wait_until("all requests are logged", Duration::from_secs(60), || lines().lines().count() == all);
    let text = lines();
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    for (index, case) in CASES.iter().enumerate() {
        for version in VERSIONS {
            let agent = format!("second {version} {index}");
            let line = lines.iter().find(|line| line["user_agent"] == agent.as_str()).expect("it is logged");
            assert_eq!(line["version"], version, "{line}");
            assert_eq!(line["handler"].as_str().unwrap_or_default(), case.handler, "{line}");
        }
    }
}

fn status_by_curl(port: u16, version: &str, case: &Case, agent: &str) -> Option<u64> {
    let option = if version == "HTTP/2.0" { "--http2" } else { "--http1.1" };
    let url = format!("https://127.0.0.1:{port}{}", case.target);
    let fixed = ["-k", option, "-o", "/dev/null", "-w", "%{http_code}", "-A", agent, &url];
    let mut arguments: Vec<String> = fixed.map(String::from).into();
    for (name, value) in case.fields {
        arguments.extend(["-H".to_string(), format!("{name}: {value}")]);
    }
    let output = curl(&arguments)?;
    Some(String::from_utf8_lossy(&output.stdout).parse().expect("a status"))
}
