//! Answers that need no body, to clients that never send the rest of it: they are sent at once, in every
//! version of HTTP, whatever makes them (RFC 9112 section 9.3, RFC 9113 section 8.1, RFC 9114 section 4.1).
//!
//! No test here has a time limit of its own: the server's limit for bodies is ten minutes, and a client waits
//! three minutes for its answer.

mod http1;
mod http2;
mod http3;

use std::io::Write;

use crate::support::{Origin, Tree, free_port, read_head, write_program};

/// A request whose answer needs no body.
pub(crate) struct Unread {
    method: &'static str,
    target: &'static str,
    status: u16,
    /// The answer is also sent at once if the body has no length.
    without_length: bool,
}

const fn unread(method: &'static str, target: &'static str, status: u16) -> Unread {
    Unread { method, target, status, without_length: true }
}

/// One of each kind of handler, access rule and route.
pub(crate) const UNREAD: &[Unread] = &[
    unread("POST", "/alphabet.txt", 405),
    unread("GET", "/missing", 404),
    unread("GET", "/dir", 301),
    unread("OPTIONS", "/alphabet.txt", 204).with_length(),
    unread("GET", "/alphabet.txt", 200).with_length(),
    unread("POST", "/moved", 308),
    unread("POST", "/denied", 403),
    unread("POST", "/members", 401),
    unread("POST", "/often", 429),
    unread("POST", "/fixed", 410),
    unread("PUT", "/dav/missing/a.txt", 409),
    unread("POST", "/dead/", 502),
    unread("POST", "/refusing/", 413),
    unread("POST", "/refusing/streamed", 403),
    unread("POST", "/accepting/", 200),
    // The length of the body is a variable of the program.
    unread("POST", "/cgi/deaf", 200).with_length(),
];

impl Unread {
    const fn with_length(self) -> Unread {
        Unread { without_length: false, ..self }
    }
}

/// The configuration for [`UNREAD`]; `site` is added to its site. The origin must live as long as the server.
pub(crate) fn configuration(tree: &Tree, site: &str) -> (String, Origin) {
    let script = "#!/bin/sh\nexec <&-\nprintf 'Content-Type: text/plain\\n\\ndone'\n";
    write_program(&tree.beside("cgi").join("deaf"), script);
    let users = tree.beside("users.htpasswd");
    std::fs::write(&users, "ann:$2y$05$C1fHPrLJ7SJZ0YwZ8OuBeeKq0bmZTo5yTqU2BLhGQzq7ChYb9Rk5S\n")
        .expect("a file");
    // It answers when it has read the head. The bytes of the body must not reset its connection.
    let origin = Origin::start(|stream| {
        let Some(head) = read_head(stream) else { return };
        let answer = match head.split(' ').nth(1) {
            Some("/refusing/") => "413 Too Large\r\nContent-Length: 3\r\n\r\nbig",
            Some("/refusing/streamed") => "403 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
            _ => "200 OK\r\nContent-Length: 2\r\n\r\nok",
        };
        let answer = format!("HTTP/1.1 {}", answer.replacen("\r\n", "\r\nConnection: close\r\n", 1));
        stream.write_all(answer.as_bytes()).expect("it is sent");
        let _ = std::io::copy(stream, &mut std::io::sink());
    });
    let limits = "[server]\ncores = 1\n[limits]\nstall_timeout = \"600s\"\nbody_bytes = \"100MiB\"\n";
    let routes = format!(
        "[[site.route]]\npath = \"/moved\"\nredirect = {{ to = \"/there\", status = 308 }}\n\
         [[site.route]]\npath = \"/denied\"\ndeny = [\"0.0.0.0/0\"]\n\
         [[site.route]]\npath = \"/members\"\nbasic_authentication = {{ file = {users:?} }}\n\
         [[site.route]]\npath = \"/often\"\nrate_limit = {{ requests = 1, per = \"24h\", burst = 1 }}\n\
         [[site.route]]\npath = \"/fixed\"\nrespond = {{ status = 410 }}\n\
         [[site.route]]\npath = \"/dav/\"\nwebdav = {{ write = true, open = true, state = {:?} }}\n\
         [[site.route]]\npath = \"/cgi/\"\ncgi = {{ directory = {:?} }}\n\
         [[site.route]]\npath = \"/dead/\"\nproxy = {{ to = \"http://127.0.0.1:{}\" }}\n\
         [[site.route]]\npath = \"/refusing/\"\nproxy = {{ to = \"http://{address}\" }}\n\
         [[site.route]]\npath = \"/accepting/\"\nproxy = {{ to = \"http://{address}\" }}\n",
        tree.beside("state"),
        tree.beside("cgi"),
        free_port(),
        address = origin.address,
    );
    (tree.configuration(limits) + site + &routes, origin)
}
