//! `touchstone import postman`, `openapi` and `jmeter`: what they write is taken by `touchstone load`.

use crate::support::{Origin, Tree, error_lines, read_head, run};
use std::io::Write;
use std::process::Output;

/// Gives each client a token, and requires it in later requests.
fn shop() -> Origin {
    Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let is_login = head.starts_with("GET /login");
            let is_right = is_login || head.contains("Authorization: Bearer t-1") || head.contains("?t=t-1 ");
            let (status, body) =
                if is_right { ("200 OK", "{\"token\":\"t-1\"}") } else { ("403 Forbidden", "{}") };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

fn imported(tree: &Tree, format: &str, text: &str) -> (String, Output) {
    let (input, output) = (tree.beside("input"), tree.beside("sessions.toml"));
    std::fs::write(&input, text).expect("a file");
    let (input, output) = (input.display().to_string(), output.display().to_string());
    let imported = run(["import", format, &input, "--output", &output]);
    assert_eq!(imported.status.code(), Some(0), "{:?}", error_lines(&imported));
    (output, imported)
}

fn loads(origin: &Origin, sessions: &str) {
    let url = format!("http://{}/", origin.address);
    let output = run(["load", &url, "--sessions", sessions, "--requests", "40", "--fail-if", "errors>0"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_collection_runs() {
    let (tree, origin) = (Tree::standard(), shop());
    let exec = r#"["pm.environment.set(\"token\", pm.response.json().token);","alert(1);"]"#;
    let bearer = r#"{"type":"bearer","bearer":[{"key":"token","value":"{{token}}"}]}"#;
    let text = [
        r#"{"info":{"name":"Shop"},"variable":[{"key":"base","value":"http://shop.example"}],"item":["#,
        r#"{"name":"in","request":{"method":"GET","url":{"raw":"{{base}}/login"}},"#,
        r#""event":[{"listen":"test","script":{"exec":"#,
        exec,
        r#"}}]},{"name":"list","request":{"method":"GET","url":"{{base}}/list","auth":"#,
        bearer,
        "}}]}",
    ]
    .concat();
    let (sessions, output) = imported(&tree, "postman", &text);
    let said = error_lines(&output).join("\n");
    assert!(said.contains("in: left out: line 2 of its test script: alert(1)"), "{said}");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        told.contains("2 requests in 1 sessions") && told.contains("load http://shop.example/"),
        "{told}"
    );
    loads(&origin, &sessions);
}

#[test]
fn a_document_runs() {
    let (tree, origin) = (Tree::standard(), shop());
    let begin =
        "openapi: 3.0.0\npaths:\n  /login: { get: { responses: { '200': {} } } }\n  /list:\n    get:\n";
    let parameters = "      parameters: [{ name: t, in: query, required: true, example: t-1 }]\n";
    let text = format!("{begin}{parameters}");
    let (sessions, _) = imported(&tree, "openapi", &text);
    loads(&origin, &sessions);
}

#[test]
fn a_plan_runs() {
    let (tree, origin) = (Tree::standard(), shop());
    let sampler = |path: &str, more: &str| {
        let property =
            |name: &str, value: &str| format!("<stringProp name=\"HTTPSampler.{name}\">{value}</stringProp>");
        let (domain, path) = (property("domain", "shop.example"), property("path", path));
        format!(
            "<HTTPSamplerProxy testname=\"s\">{domain}{path}</HTTPSamplerProxy><hashTree>{more}</hashTree>"
        )
    };
    let property = |name: &str, value: &str| {
        format!("<stringProp name=\"JSONPostProcessor.{name}\">{value}</stringProp>")
    };
    let extract = format!(
        "<JSONPostProcessor>{}{}</JSONPostProcessor>",
        property("referenceNames", "token"),
        property("jsonPathExprs", "$.token")
    );
    let text = format!(
        "<jmeterTestPlan><hashTree><TestPlan/><hashTree><ThreadGroup testname=\"g\"/><hashTree>{}{}</hashTree>\
         </hashTree></hashTree></jmeterTestPlan>",
        sampler("/login", &extract),
        sampler("/list?t=${token}", "<BeanShellTimer testname=\"b\"/>")
    );
    let (sessions, output) = imported(&tree, "jmeter", &text);
    let said = error_lines(&output).join("\n");
    assert!(said.contains("BeanShellTimer \"b\": left out"), "{said}");
    loads(&origin, &sessions);
}

#[test]
fn what_cannot_be_read_is_told() {
    let tree = Tree::standard();
    let input = tree.beside("input");
    std::fs::write(&input, "swagger: '2.0'\n").expect("a file");
    let path = input.display().to_string();
    let output = run(["import", "openapi", &path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error_lines(&output)[0].contains("convert it to OpenAPI 3"), "{:?}", error_lines(&output));
    let output = run(["import", "jmeter", &path, "--as", "mix"]);
    assert!(error_lines(&output)[0].contains("--as is for suites"), "{:?}", error_lines(&output));
}
