//! The control API: which clients have access, changes under load, two writers, changes that outlive the
//! process or not, secrets, certificates, the audit log, and the command.

mod access;
mod changes;
mod command;
mod load;
mod persistence;

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use std::io::Write as _;

use serde_json::Value;

use crate::support::{Client, Origin, Response, Server, Tree, free_port, read_head};

/// The token of a client that may change.
const CHANGE: &str = "change-0123456789abcdef";

/// The token of a client that may read.
const READ: &str = "read-0123456789abcdef";

/// A server with a control API on TCP.
struct Controlled {
    tree: Tree,
    server: Server,
    admin: SocketAddr,
}

/// An answer of the API.
struct Answer {
    status: u16,
    tag: String,
    body: Value,
    response: Response,
}

impl Controlled {
    /// With more keys of `[control]`, and these sections.
    fn start(control: &str, sections: &str) -> Controlled {
        let tree = Tree::standard();
        let admin: SocketAddr = ([127, 0, 0, 1], free_port()).into();
        let tokens = format!("# clients\ndeploy change {CHANGE}\ndashboard read {READ}\n");
        fs::write(tree.beside("tokens"), tokens).expect("the tokens are written");
        let text = config(&tree, admin, control, sections);
        let server = Server::configured(tree.around(), &text);
        Controlled { tree, server, admin }
    }

    /// Writes another configuration, and starts the server again.
    fn restart(&mut self, control: &str, sections: &str) {
        self.server.stop();
        let text = config(&self.tree, self.admin, control, sections);
        self.server = Server::configured(self.tree.around(), &text);
    }

    /// Sends a request with these lines of fields.
    fn send(&self, method: &str, path: &str, fields: &str, body: &str) -> Answer {
        let admin = self.admin;
        let length = match body.is_empty() {
            true => String::new(),
            false => format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()),
        };
        let mut client = Client::connect(admin);
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {admin}\r\n{fields}{length}Connection: close\r\n\r\n{body}"
        );
        let response = client.ask(request);
        let body = serde_json::from_slice(&response.body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}: {response:?}"));
        let tag = response.field("etag").unwrap_or_default().to_string();
        Answer { status: response.status, tag, body, response }
    }

    /// The same with the token that may change.
    fn call(&self, method: &str, path: &str, fields: &str, body: &Value) -> Answer {
        let fields = format!("Authorization: Bearer {CHANGE}\r\n{fields}");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, path, &fields, &body)
    }

    fn get(&self, path: &str) -> Answer {
        let answer = self.call("GET", path, "", &Value::Null);
        assert_eq!(answer.status, 200, "{path}: {:#}", answer.body);
        answer
    }

    /// Changes what is at a path, with its present entity tag.
    fn change(&self, method: &str, path: &str, body: &Value) -> Answer {
        let tag = self.get(path).tag;
        self.call(method, path, &format!("If-Match: {tag}\r\n"), body)
    }

    /// Sets the state or the weight of an origin of this URL.
    fn patch_origin(&self, url: &str, body: &Value) -> Answer {
        let groups = self.get("/control/origins").body;
        let all = groups["groups"].as_array().expect("groups").iter();
        let mut all = all.flat_map(|group| group["origins"].as_array().expect("origins"));
        let found = all.find(|origin| origin["origin"] == url);
        let href =
            found.and_then(|origin| origin["href"].as_str()).unwrap_or_else(|| panic!("{url}: {groups:#}"));
        self.call("PATCH", href, "", body)
    }
}

fn config(tree: &Tree, admin: SocketAddr, control: &str, sections: &str) -> String {
    let root = tree.root();
    format!(
        "[server]\ncores = 2\n[admin]\nlisten = '{admin}'\n[control]\nenabled = true\n\
         token_file = 'tokens'\n{control}\n[[site]]\nlisten = ['127.0.0.1:0']\nroot = '{}'\n{sections}\n",
        root.display()
    )
}

/// An origin that counts its requests.
struct CountedOrigin {
    url: String,
    requests: Arc<AtomicUsize>,
    _origin: Origin,
}

impl CountedOrigin {
    fn start() -> CountedOrigin {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        let origin = Origin::start(move |stream| {
            while read_head(stream).is_some() {
                counted.fetch_add(1, Ordering::SeqCst);
                if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                    return;
                }
            }
        });
        CountedOrigin { url: format!("http://{}", origin.address), requests, _origin: origin }
    }

    fn count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// The route `/` to these origins.
fn route_to(origins: &[CountedOrigin]) -> String {
    let urls: Vec<String> = origins.iter().map(|origin| format!("'{}'", origin.url)).collect();
    format!(
        "[[site.route]]\npath = '/'\n[site.route.proxy]\nto = [{}]\nbalance = 'round_robin'\n",
        urls.join(", ")
    )
}
