//! Maps, variables, rewrites and sites of several names of Caddy, in the forms of published Caddyfiles: run
//! by Caddy and, translated, by this server; the same requests get the same answers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::Write;
use std::net::SocketAddr;

use super::import_nginx::{fields_of, tree};
use super::import_servers::beside_caddy;
use crate::support::{Client, Origin, Response, Tree, read_head};

/// Fields of answers that differ by design: those of connections, and of files.
const NOT_COMPARED: [&str; 10] = [
    "date",
    "server",
    "via",
    "etag",
    "last-modified",
    "accept-ranges",
    "vary",
    "connection",
    "content-length",
    "content-type",
];

fn ask(address: SocketAddr, port: u16, host: &str, request: &str) -> Response {
    let (line, fields) = request.split_once('|').unwrap_or((request, ""));
    let (method, target) = line.split_once(' ').unwrap();
    let fields: String =
        fields.split('|').filter(|field| !field.is_empty()).map(|f| format!("{f}\r\n")).collect();
    let host = if host.is_empty() { format!("127.0.0.1:{port}") } else { host.to_string() };
    let mut client = Client::connect(address);
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n"));
    client.answer()
}

/// What is compared: the status, the body of a success, and all fields that a configuration may set. A field
/// without a value is left out here.
fn outcome(answer: &Response) -> Vec<String> {
    let body =
        if answer.status < 300 { String::from_utf8_lossy(&answer.body).into_owned() } else { String::new() };
    let mut compared: Vec<String> = answer
        .fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .filter(|(name, value)| !value.is_empty() && !NOT_COMPARED.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    compared.sort();
    compared.extend([answer.status.to_string(), body]);
    compared
}

/// Compares the answers to requests such as `GET /a|X-Test: 1` for each host, and returns what the import
/// could not translate.
fn alike(tree: &Tree, sites: &str, requests: &[(&str, &[&str])]) -> Option<String> {
    let (text, said, servers) = beside_caddy(tree, sites);
    let (caddy, ours) = servers?;
    let port = caddy.address.port();
    for (host, requests) in requests {
        for request in *requests {
            let theirs = ask(caddy.address, port, host, request);
            let mine = ask(ours.address(), port, host, request);
            assert_eq!(outcome(&mine), outcome(&theirs), "{host} {request}\n{text}\n{said}");
        }
    }
    Some(said)
}

/// An origin that answers with its name, the line of the request, and fields that a configuration sets.
fn origin(name: &'static str) -> Origin {
    Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            let line = head.lines().next().unwrap_or_default().to_string();
            let wanted = ["host:", "x-app:", "x-forwarded-proto:", "x-forwarded-port:", "remote-user:"];
            let body = format!("{name} {line}\n{}", fields_of(&head, &wanted));
            let status = if line.contains("/refuse") { "401 Unauthorized" } else { "200 OK" };
            let answer = format!(
                "HTTP/1.1 {status}\r\nX-Powered-By: {name}\r\nRemote-User: alice\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

#[test]
fn maps_and_variables() {
    let tree = tree();
    let (one, two) = (origin("one"), origin("two"));
    let sites = format!(
        ":PORT {{\n\tbind 127.0.0.1\n\
         \tmap {{path}} {{first}} {{second}} {{\n\t\t/lit one 1.10\n\
         \t\t~^/re/(\\w+)/(?P<n>\\w+)$ \"got-${{1}}-${{n}}-$n-$1x\" two-$2\n\
         \t\t/re/q/q exact\n\t\t/ph \"{{method}}\" 007\n\t\t/hy - hy\n\t\t/alone only\n\
         \t\tdefault \"d-{{http.request.method}}\" dflt\n\t}}\n\
         \tmap {{path}} {{code}} {{words}} {{backend}} {{\n\t\t/t1 200 one {one}\n\
         \t\t/t2 404 \"two words\" {two}\n\
         \t\t~^/t3 410 three {one}\n\t\tdefault 200 none \"\"\n\t}}\n\
         \tmap /m* {{method}} {{of_method}} {{\n\t\tGET get\n\t\tdefault other\n\t}}\n\
         \tmap {{query.to}} {{new}} {{\n\t\ta /target\n\t\tb https://other.example.org/x?y=1\n\
         \t\t~^c(.)$ /cc/$1\n\t\tdefault /nowhere\n\t}}\n\
         \tvars /v* name \"v-{{path}}\"\n\tvars name base\n\tvars /v/deep* name deep\n\
         \tvars {{\n\t\tk1 \"v 1\"\n\t\tk2 2\n\t}}\n\
         \theader X-First \"{{first}}\"\n\theader X-Second \"[{{second}}]\"\n\
         \theader X-Method \"[{{of_method}}]\"\n\
         \theader X-Names \"{{vars.name}} {{http.vars.k1}} {{vars.k2}}\"\n\
         \t@is vars {{first}} one\n\theader @is X-Is yes\n\
         \t@got vars_regexp got {{first}} ^got-(\\w+)\n\theader @got X-Got \"{{re.got.1}}\"\n\
         \t@both vars k2 1 2\n\theader @both X-Both yes\n\
         \theader X-Parts \"{{path.0}}|{{path.1}}|{{file}}|{{dir}}|{{file.base}}|{{file.ext}}|{{port}}\"\n\
         \tredir /go {{new}} 302\n\
         \tredir /away \"https://www.example.org/{{vars.k2}}/{{vars.k2}}\" permanent\n\
         \trespond /t* {{words}} {{code}}\n\
         \thandle /up* {{\n\t\trewrite * /t1\n\t\treverse_proxy {{backend}}\n\t}}\n\
         \trespond /c \"{{vars.k1}}\"\n\trespond 204\n}}\n",
        one = one.address,
        two = two.address,
    )
    .replace("\t\trewrite * /t1\n", "");
    let requests = [
        "GET /lit",
        "GET /re/q/q",
        "GET /re/ab/cd",
        "GET /ph",
        "GET /hy",
        "GET /alone",
        "GET /other",
        "GET /m",
        "POST /m|Content-Length: 0",
        "GET /v/x",
        "GET /v/deep/y",
        "GET /a/b/c.tar.gz?x=1",
        "GET /",
        "GET /dir/",
        "GET /t1",
        "GET /t2",
        "GET /t3x",
        "GET /t9",
        "GET /go?to=a",
        "GET /go?to=b",
        "GET /go?to=cz",
        "GET /go",
        "GET /away",
        "GET /c",
        "GET /up",
    ];
    if let Some(said) = alike(&tree, &sites, &[("", requests.as_slice())]) {
        assert!(!said.contains(": not translated: "), "{said}");
    }
}

#[test]
fn one_origin_for_each_name() {
    let tree = tree();
    let (one, two) = (origin("one"), origin("two"));
    let sites = format!(
        "http://a.test:PORT, http://b.test:PORT {{\n\tbind 127.0.0.1\n\
         \tmap {{host}} {{backend}} {{name}} {{\n\t\ta.test {one} A\n\t\tb.test {two}\n\t}}\n\
         \thandle /api/* {{\n\t\treverse_proxy {{backend}} {{\n\t\t\theader_up X-App \"<{{name}}>\"\n\
         \t\t\theader_down X-Host {{host}}\n\t\t}}\n\t}}\n\
         \tvars dir {root}\n\thandle /hello {{\n\t\trespond \"host {{host}} {{name}}\"\n\t}}\n\
         \thandle {{\n\t\troot * {{vars.dir}}/docs\n\t\tfile_server\n\t}}\n}}\n\
         http://*.wild.test:PORT {{\n\tbind 127.0.0.1\n\
         \t@foo host foo.wild.test\n\thandle @foo {{\n\t\trespond \"foo\"\n\t}}\n\
         \t@two host bar.wild.test baz.wild.test\n\thandle @two {{\n\t\theader X-Bar {{host}}\n\
         \t\treverse_proxy {one}\n\t}}\n\
         \t@number header_regexp number Host ^app([0-9]+)\\.\n\thandle @number {{\n\
         \t\theader X-Number {{re.number.1}}\n\t\tredir /to/* /of/{{re.number.1}}{{uri}}\n\
         \t\trespond \"number\"\n\t}}\n\
         \thandle {{\n\t\trespond \"none\" 404\n\t}}\n}}\n\
         http://www.one.test:PORT, http://www.two.test:PORT {{\n\tbind 127.0.0.1\n\
         \tredir https://{{labels.1}}.{{labels.0}}{{uri}}\n}}\n",
        one = one.address,
        two = two.address,
        root = tree.root().display(),
    );
    let of_a = ["GET /api/x?y=z", "GET /hello", "GET /", "GET /none"];
    let of_wild = ["GET /x", "GET /to/a?b=1"];
    let found = alike(
        &tree,
        &sites,
        &[
            ("a.test", of_a.as_slice()),
            ("b.test", of_a.as_slice()),
            ("foo.wild.test", of_wild.as_slice()),
            ("bar.wild.test", of_wild.as_slice()),
            ("baz.wild.test", of_wild.as_slice()),
            ("app12.wild.test", of_wild.as_slice()),
            ("zzz.wild.test", of_wild.as_slice()),
            ("www.one.test", of_wild.as_slice()),
            ("www.two.test", of_wild.as_slice()),
        ],
    );
    if let Some(said) = found {
        assert!(!said.contains(": not translated: "), "{said}");
    }
}

#[test]
fn rewrites_stay_in_their_blocks() {
    let tree = tree();
    let (one, two) = (origin("one"), origin("two"));
    let sites = format!(
        ":PORT {{\n\tbind 127.0.0.1\n\
         \trewrite /x /y\n\trewrite /x2 /y2?c=d\n\trewrite /x3 /y3?{{query}}&e=f\n\
         \trewrite /x4/* /y4{{path}}\n\
         \trewrite /x5/* /y5{{uri}}\n\trewrite /x6 ?k=v\n\trewrite /x7 /y7?\n\trewrite /x8/* {{path}}.html\n\
         \thandle /in/health {{\n\t\trewrite * /health\n\t\treverse_proxy {one}\n\t}}\n\
         \thandle /pre/* {{\n\t\trewrite * /new{{uri}}\n\t\treverse_proxy {one}\n\t}}\n\
         \thandle_path /hp/* {{\n\t\trewrite * /api/v1{{uri}}\n\t\treverse_proxy {one}\n\t}}\n\
         \thandle_path /hp2/* {{\n\t\trewrite * /api{{path}}\n\t\treverse_proxy {one}\n\t}}\n\
         \t@mixed path /api/* /logs/*\n\thandle @mixed {{\n\t\turi strip_prefix /api\n\
         \t\treverse_proxy {one} {{\n\
         \t\t\theader_up X-Forwarded-Proto https\n\t\t\theader_up X-Forwarded-Port 443\n\t\t}}\n\t}}\n\
         \thandle /files/* {{\n\t\troot * {root}\n\t\trewrite * /docs/index.html\n\t\tfile_server\n\t}}\n\
         \thandle {{\n\t\treverse_proxy {two}\n\t}}\n}}\n\
         http://docs.test:PORT {{\n\tbind 127.0.0.1\n\troot * {root}\n\tfile_server\n\
         \tredir /img /img/\n\trewrite /img/logo/* /img/logo/index.html\n\
         \trewrite /img/* /docs/index.html\n}}\n",
        one = one.address,
        two = two.address,
        root = tree.root().display(),
    );
    tree.write("img/logo/index.html", "logo");
    let paths = [
        "GET /x?a=b",
        "GET /x2?a=b",
        "GET /x3?a=b",
        "GET /x4/q?a=b",
        "GET /x5/q?a=b",
        "GET /x6?a=b",
        "GET /x7?a=b",
        "GET /x8/q?a=b",
        "GET /in/health?a=b",
        "GET /health",
        "GET /pre/a/b?a=b",
        "GET /pre/",
        "GET /hp/a?b=c",
        "GET /hp/",
        "GET /hp2/a?b=c",
        "GET /api/x?y",
        "GET /logs/1",
        "GET /files/any/where",
        "GET /",
    ];
    let of_docs =
        ["GET /img", "GET /img/logo/x", "GET /img/x", "GET /about.html", "GET /img/logo/index.html"];
    let found = alike(&tree, &sites, &[("", paths.as_slice()), ("docs.test", of_docs.as_slice())]);
    if let Some(said) = found {
        assert!(!said.contains(": not translated: "), "{said}");
    }
}

#[test]
fn forms_of_published_caddyfiles() {
    let tree = tree();
    let (one, two) = (origin("one"), origin("two"));
    let sites = format!(
        "(cors) {{\n\t@preflight{{args.0}} {{\n\t\tmethod OPTIONS\n\t\theader Origin {{args.0}}\n\t}}\n\
         \t@cors{{args.0}} header Origin {{args.0}}\n\
         \thandle @preflight{{args.0}} {{\n\t\theader {{\n\t\t\tAccess-Control-Allow-Origin \"{{args.0}}\"\n\
         \t\t\tAccess-Control-Max-Age \"3600\"\n\t\t}}\n\t\trespond \"\" 204\n\t}}\n\
         \thandle @cors{{args.0}} {{\n\t\theader Access-Control-Allow-Origin \"{{args.0}}\"\n\
         \t\treverse_proxy {one}\n\t}}\n}}\n\
         http://api.test:PORT {{\n\tbind 127.0.0.1\n\timport cors https://one.example.org\n\
         \timport cors https://two.example.org\n\treverse_proxy {two}\n}}\n\
         http://matrix.test:PORT {{\n\tbind 127.0.0.1\n\
         \thandle_path /.well-known/matrix/server {{\n\t\theader Access-Control-Allow-Origin \"*\"\n\
         \t\trespond `{{\n  \"m.server\": \"matrix.test:443\"\n}}`\n\t}}\n\
         \thandle {{\n\t\tredir https://www.{{host}}{{uri}} permanent\n\t}}\n}}\n\
         http://login.test:PORT {{\n\tbind 127.0.0.1\n\thandle /oauth2/* {{\n\t\treverse_proxy {two}\n\t}}\n\
         \thandle /refused/* {{\n\t\tforward_auth {two} {{\n\t\t\turi /refuse\n\t\t\t@error status 401\n\
         \t\t\thandle_response @error {{\n\t\t\t\tredir * /sign_in\n\t\t\t}}\n\t\t}}\n\
         \t\treverse_proxy {one}\n\t}}\n\
         \thandle {{\n\t\tforward_auth {two} {{\n\t\t\turi /oauth2/auth\n\
         \t\t\theader_up X-Real-IP {{remote_host}}\n\
         \t\t\tcopy_headers {{\n\t\t\t\tRemote-User\n\t\t\t}}\n\t\t}}\n\t\treverse_proxy {one}\n\t}}\n}}\n\
         http://spa.test:PORT {{\n\tbind 127.0.0.1\n\t@old path /old /old/*\n\
         \tredir @old /about.html permanent\n\
         \t@hashed path_regexp hashed \\.[0-9a-f]{{8}}\\.(js|css)$\n\
         \theader @hashed Cache-Control \"max-age=600\"\n\
         \t@styles path *.css\n\theader @styles X-Style yes\n\
         \thandle /api/* {{\n\t\turi strip_prefix /api\n\t\treverse_proxy * http://{one}\n\t}}\n\
         \thandle {{\n\t\troot * {root}\n\t\ttry_files {{path}} {{path}}.html /index.html\n\
         \t\tfile_server\n\t}}\n\
         \thandle_errors {{\n\t\t@404 expression {{err.status_code}} == 404\n\
         \t\trewrite @404 /errors/404.html\n\
         \t\tfile_server\n\t}}\n}}\n",
        one = one.address,
        two = two.address,
        root = tree.root().display(),
    );
    tree.write("app.0123abcd.css", "hashed");
    let found = alike(
        &tree,
        &sites,
        &[
            (
                "api.test",
                &[
                    "OPTIONS /a|Origin: https://one.example.org",
                    "OPTIONS /a|Origin: https://two.example.org",
                    "GET /a|Origin: https://two.example.org",
                    "GET /a|Origin: https://evil.example.org",
                ],
            ),
            ("matrix.test", &["GET /.well-known/matrix/server", "GET /other?x=y"]),
            ("login.test", &["GET /oauth2/in", "GET /page?x=1|Remote-User: eve"]),
            (
                "spa.test",
                &[
                    "GET /",
                    "GET /about",
                    "GET /old/x",
                    "GET /any/where",
                    "GET /api/users?x=1",
                    "GET /app.css",
                    "GET /app.0123abcd.css",
                ],
            ),
        ],
    );
    if let Some(said) = found {
        assert!(!said.contains(": not translated: "), "{said}");
    }
}
