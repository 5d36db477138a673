//! Keys of sites and routes: exact paths, pages of errors, the largest body, fields of origins' answers, and
//! the handling of `.htaccess` files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{Client, Origin, Response, Server, Tree, curl, read_head, wait_until};

/// An application that answers as the path requests: `/404`, `/500`, `/moved`; all else is 200.
fn application() -> Origin {
    Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            let mut body = vec![0; length];
            if stream.read_exact(&mut body).is_err() {
                return;
            }
            let mut answer = match head.split(' ').nth(1).unwrap_or_default() {
                "/app/404" => "HTTP/1.1 404 Not Found\r\nETag: \"x\"\r\nX-Own: 1\r\n".to_string(),
                "/app/500" => "HTTP/1.1 500 Oops\r\n".to_string(),
                "/app/moved" => {
                    let lower = head.to_ascii_lowercase();
                    let host = lower.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
                    format!(
                        "HTTP/1.1 302 Found\r\nLocation: http://{host}/cart\r\n\
                         Set-Cookie: a=1; Path=/; Domain=app.internal\r\n"
                    )
                }
                _ => "HTTP/1.1 200 OK\r\n".to_string(),
            };
            answer.push_str("Content-Type: text/plain\r\nContent-Length: 3\r\n\r\nown");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

/// A site with these keys and routes.
fn site(tree: &Tree, keys: impl AsRef<str>) -> String {
    format!("{}{}", tree.configuration(""), keys.as_ref())
}

fn post(address: SocketAddr, target: &str, body: &str) -> Response {
    let mut client = Client::connect(address);
    let length = body.len();
    client.ask(format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ))
}

#[test]
fn an_exact_path_beside_a_prefix() {
    let tree = Tree::empty();
    let server = Server::configured(
        tree.around(),
        &site(
            &tree,
            "[[site.route]]\npath = \"=/a/\"\nrespond = { body = \"exact\" }\n\n\
             [[site.route]]\npath = \"/a/\"\nrespond = { body = \"below\" }\n",
        ),
    );
    assert_eq!(server.get("/a/").body, b"exact");
    assert_eq!(server.get("/a/b").body, b"below");
    assert_eq!(server.get("/a").status, 404);
}

#[test]
fn pages_of_errors_for_programs_and_origins() {
    let tree = Tree::empty();
    tree.write("404.html", "page of the site");
    tree.write("app404.html", "page of the route");
    let origin = application();
    let routes = |more: &str| format!("error_pages = {{ 404 = \"/404.html\" }}\n{}{more}", origin.keys(""));
    let as_it_is = Server::configured(tree.around(), &site(&tree, routes("")));
    assert_eq!(as_it_is.get("/app/404").body, b"own");
    assert_eq!(as_it_is.get("/none").body, b"page of the site");
    drop(as_it_is);
    let taken = Server::configured(tree.around(), &site(&tree, routes("intercept_errors = true\n")));
    let answer = taken.get("/app/404");
    assert_eq!((answer.status, answer.body.as_slice()), (404, &b"page of the site"[..]));
    // The fields that described the other body were removed, the others were kept.
    assert_eq!((answer.field("etag"), answer.field("x-own")), (None, Some("1")));
    assert_eq!(answer.field("content-type"), Some("text/html"));
    // Without a page it is passed on unchanged.
    let answer = taken.get("/app/500");
    assert_eq!((answer.status, answer.body.as_slice()), (500, &b"own"[..]));
    drop(taken);
    let own = "intercept_errors = true\nerror_pages = { 404 = \"/app404.html\" }\n";
    let own = Server::configured(tree.around(), &site(&tree, routes(own)));
    assert_eq!(own.get("/app/404").body, b"page of the route");
    assert_eq!(own.get("/none").body, b"page of the site");
}

#[test]
fn the_largest_body_of_a_site_and_a_route() {
    let tree = Tree::empty();
    let origin = application();
    let text = format!(
        "body_bytes = 20\n{}body_bytes = 100\n\n{}",
        origin.keys("").replace("/app/", "/app/large/"),
        origin.keys("")
    );
    let text = format!("[limits]\nbody_bytes = 10\n\n{}", site(&tree, &text));
    let server = Server::configured(tree.around(), &text);
    for (target, bytes, status) in
        [("/app/x", 20, 200), ("/app/x", 21, 413), ("/app/large/x", 100, 200), ("/app/large/x", 101, 413)]
    {
        assert_eq!(post(server.address(), target, &"x".repeat(bytes)).status, status, "{target} {bytes}");
    }
    // A body whose length is not known before its end.
    let chunked = |target: &str, bytes: usize| {
        let mut client = Client::connect(server.address());
        client.ask(format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
             {bytes:x}\r\n{}\r\n0\r\n\r\n",
            "x".repeat(bytes)
        ))
    };
    assert_eq!(chunked("/app/x", 50).status, 413);
    assert_eq!(chunked("/app/large/x", 200).status, 413);
}

#[test]
fn addresses_of_origins_in_their_answers() {
    let tree = Tree::empty();
    let origin = application();
    let more = ", host = \"origin\", rewrite_location = true, cookie_paths = { \"/\" = \"/app/\" }, \
                cookie_domains = { \"app.internal\" = \"example.org\" }";
    let server = Server::configured(tree.around(), &site(&tree, origin.keys(more)));
    let answer = server.get("/app/moved");
    assert_eq!(answer.field("location"), Some("/cart"));
    assert_eq!(answer.field("set-cookie"), Some("a=1; Path=/app/; Domain=example.org"));
}

#[test]
fn what_a_htaccess_forbids_is_refused_and_told() {
    let tree = Tree::empty();
    for name in ["index.html", "open/a.txt", "shut/a.txt", "told/a.txt", "wp-config.php", "open/x.bak"] {
        tree.write(name, name);
    }
    tree.write(".htaccess", "<Files wp-config.php>\nDeny from all\n</Files>\n");
    tree.write(
        "open/.htaccess",
        "Options -Indexes\n<FilesMatch \"\\.bak$\">\nRequire all denied\n</FilesMatch>\n",
    );
    tree.write("shut/.htaccess", "Require all denied\n");
    tree.write("told/.htaccess", "Require all denied\n");
    let route = "[[site.route]]\npath = \"/told/\"\nheaders = { X-Told = \"1\" }\n";
    let server = Server::configured(tree.around(), &site(&tree, route));
    for (target, status) in [
        ("/", 200),
        ("/wp-config.php", 403),
        ("/open/a.txt", 200),
        ("/open/x.bak", 403),
        ("/shut/a.txt", 403),
        ("/told/a.txt", 200),
    ] {
        assert_eq!(server.get(target).status, status, "{target}");
    }
    for name in ["shut/.htaccess", "open/.htaccess"] {
        let word = format!("{}: it is not applied", tree.file(name).display());
        server.wait_for_error_line(&word, |line| line.contains(&word));
    }
    drop(server);
    let text = site(&tree, "htaccess = \"ignore\"\n");
    let ignoring = Server::configured(tree.around(), &text);
    assert_eq!(ignoring.get("/shut/a.txt").status, 200);
    assert!(!ignoring.error_text().contains("htaccess"), "{}", ignoring.error_text());
}

#[test]
fn a_htaccess_that_appears_changes_or_goes_counts_without_a_reload() {
    let tree = Tree::empty();
    for name in ["page.txt", "a/b/page.txt", "a/b/x.bak"] {
        tree.write(name, name);
    }
    let server = Server::quick(&tree.root());
    let becomes = |target: &str, status: u16| {
        let what = format!("{target} is {status}");
        // Within about a second; the rest is for a busy machine.
        wait_until(&what, Duration::from_secs(1 + 60), || server.get(target).status == status);
    };
    // In the cache of files.
    for target in ["/page.txt", "/a/b/page.txt", "/a/b/x.bak"] {
        assert_eq!(server.get(target).status, 200, "{target}");
    }
    tree.write("a/.htaccess", "Require all denied\n");
    becomes("/a/b/page.txt", 403);
    assert_eq!(server.get("/page.txt").status, 200);
    tree.write("a/.htaccess", "<Files *.bak>\nRequire all denied\n</Files>\n");
    becomes("/a/b/page.txt", 200);
    assert_eq!(server.get("/a/b/x.bak").status, 403);
    fs::remove_file(tree.file("a/.htaccess")).unwrap();
    becomes("/a/b/x.bak", 200);
    // In a directory that is new itself, and in one that is renamed.
    tree.write("new/deep/page.txt", "new");
    tree.write("new/deep/.htaccess", "Require all denied\n");
    becomes("/new/deep/page.txt", 403);
    fs::rename(tree.file("new"), tree.file("renamed")).unwrap();
    becomes("/renamed/deep/page.txt", 403);
    server.assert_serves("/page.txt", b"page.txt");
}

#[test]
fn what_a_htaccess_forbids_is_refused_by_each_name_and_version() {
    let tree = Tree::empty();
    for name in ["list/a.txt", "shut/a.txt", "old/x.txt", "inc/a.sql", "index/index.html", "page.txt"] {
        tree.write(name, name);
    }
    tree.write("list/.htaccess", "Options -Indexes\n");
    tree.write("shut/.htaccess", "Order allow,deny\n");
    tree.write("index/.htaccess", "<FilesMatch \"^index\\.\">\nDeny from all\n</FilesMatch>\n");
    tree.write(".htaccess", "\u{feff}Redirect gone /old\nRewriteRule \\.sql$ - [F]\n");
    std::os::unix::fs::symlink("shut", tree.file("link")).unwrap();
    let server = Server::configured(tree.around(), &site(&tree, "listing = \"html\"\n"));
    for (target, status) in [
        ("/", 200),
        ("/page.txt", 200),
        ("/list/", 403),
        ("/list/a.txt", 200),
        ("/shut/a.txt", 403),
        ("/link/a.txt", 403),
        ("/%73hut/a.txt", 403),
        ("//shut//a.txt", 403),
        ("/old/x.txt", 403),
        ("/inc/a.sql", 403),
        ("/index/", 403),
        ("/index/index.html", 403),
    ] {
        assert_eq!(server.get(target).status, status, "{target}");
        let url = format!("http://{}{target}", server.address());
        let words = ["--http2-prior-knowledge", "--path-as-is", "--output", "/dev/null"];
        let words = words.into_iter().chain(["--write-out", "%{http_code}", url.as_str()]);
        let Some(output) = curl(words) else { return };
        assert_eq!(String::from_utf8_lossy(&output.stdout), status.to_string(), "HTTP/2 {target}");
    }
}
