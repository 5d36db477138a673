//! WebDAV: real clients, the rules of the standard, attacks, and what outlives a reload, an upgrade and a
//! restart.

mod apache;
mod attacks;
mod clients;
mod metrics;
mod remote_trees;
mod rules;
mod state;
mod uploads;

use std::net::SocketAddr;

use crate::support::{Client, Response, Server, Tree};

/// The configuration of a site whose files every client may change; `keys` are added to those of `webdav`,
/// and `more` to those of the route.
fn configuration(tree: &Tree, listen: &str, keys: &str, more: &str) -> String {
    let state = tree.beside("state");
    format!(
        "[[site]]\nlisten = [\"{listen}\"]\nroot = {:?}\n[[site.route]]\npath = \"/\"\n\
         body_bytes = \"1GiB\"\nwebdav = {{ write = true, open = true, state = {state:?}{keys} }}\n{more}\n",
        tree.root()
    )
}

fn server(tree: &Tree, keys: &str) -> Server {
    Server::configured(tree.around(), &configuration(tree, "127.0.0.1:0", keys, ""))
}

/// Sends a request on a connection of its own.
fn ask(address: SocketAddr, method: &str, target: &str, fields: &str, body: &[u8]) -> Response {
    let mut client = Client::connect(address);
    // At once: the server may answer without the body, and close.
    client.ask([head(method, target, fields, body.len()).as_bytes(), body].concat())
}

fn head(method: &str, target: &str, fields: &str, length: usize) -> String {
    format!(
        "{method} {target} HTTP/1.1\r\nHost: dav.example\r\nConnection: close\r\n\
         Content-Length: {length}\r\n{fields}\r\n"
    )
}

fn status(address: SocketAddr, method: &str, target: &str, fields: &str) -> u16 {
    ask(address, method, target, fields, b"").status
}

fn put(address: SocketAddr, target: &str, body: &str) -> u16 {
    ask(address, "PUT", target, "", body.as_bytes()).status
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype>\
                    <D:write/></D:locktype><D:owner>test</D:owner></D:lockinfo>";

/// Locks a resource for an hour, and returns the token.
fn lock(address: SocketAddr, target: &str, fields: &str) -> String {
    let answer = ask(address, "LOCK", target, fields, LOCK.as_bytes());
    assert!(matches!(answer.status, 200 | 201), "LOCK {target}: {}", answer.status);
    let token = answer.field("lock-token").expect("a token");
    token.trim_matches(['<', '>']).to_string()
}

/// Sets a property of the namespace `urn:test`.
fn set_property(address: SocketAddr, target: &str, name: &str, value: &str) -> u16 {
    let body = format!(
        "<D:propertyupdate xmlns:D='DAV:' xmlns='urn:test'><D:set><D:prop><{name}>{value}</{name}></D:prop>\
         </D:set></D:propertyupdate>"
    );
    let answer = ask(address, "PROPPATCH", target, "", body.as_bytes());
    if text(&answer).contains("HTTP/1.1 200") { 200 } else { answer.status }
}

/// All properties of a resource.
fn properties(address: SocketAddr, target: &str) -> String {
    let answer = ask(address, "PROPFIND", target, "Depth: 0\r\n", b"");
    assert_eq!(answer.status, 207, "PROPFIND {target}");
    text(&answer)
}
