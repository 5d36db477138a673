//! The keys of a route for files: a directory under another path, files before a program, and how its files
//! are found and sent. The same requests are sent to nginx with the equivalent directives.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::Write;
use std::net::SocketAddr;

use crate::support::{Client, Nginx, Origin, Response, Server, Tree, read_head};

fn server(tree: &Tree, routes: &str) -> Server {
    Server::configured(tree.around(), &format!("{}{routes}", tree.configuration("")))
}

/// An application that answers with the line of its request.
fn application() -> Origin {
    Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let line = head.lines().next().unwrap_or_default().replace(" HTTP/1.0", " HTTP/1.1");
            let body = if line.starts_with("HEAD") { "" } else { &line };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
                line.len()
            );
            if stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).is_err() {
                return;
            }
        }
    })
}

fn ask(address: SocketAddr, method: &str, target: &str) -> Response {
    let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
    let mut client = Client::connect(address);
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{length}Connection: close\r\n\r\n"));
    client.answer()
}

/// What is compared: the status, the body of an answer that is not an error, and the path of `Location`.
fn outcome(answer: &Response) -> (u16, String, Option<String>) {
    let is_page = answer.status >= 300;
    let body = if is_page { String::new() } else { String::from_utf8_lossy(&answer.body).into_owned() };
    let location = answer.field("location").map(|location| {
        let path = location.strip_prefix("http://").and_then(|rest| rest.find('/').map(|at| &rest[at..]));
        path.unwrap_or(location).to_string()
    });
    (answer.status, body, location)
}

/// Every GET is answered as by nginx.
fn alike(server: &Server, nginx: Option<&Nginx>, targets: &[(&str, u16, &str)]) {
    for (target, status, body) in targets {
        let ours = outcome(&ask(server.address(), "GET", target));
        assert_eq!((ours.0, &*ours.1), (*status, *body), "{target}");
        if let Some(nginx) = nginx {
            assert_eq!(ours, outcome(&ask(nginx.address, "GET", target)), "{target}, and nginx");
        }
    }
}

/// A site with files, and a directory elsewhere.
fn tree() -> Tree {
    let tree = Tree::empty();
    tree.write("index.html", "home");
    tree.write("logo.txt", "logo of the site");
    tree.write("guide/index.html", "guide");
    tree.write("page.html", "page");
    tree.write("doc/hidden.txt", "behind the alias");
    tree.write(".env", "secret");
    let elsewhere = tree.beside("elsewhere");
    fs::create_dir_all(elsewhere.join("sub")).unwrap();
    fs::write(elsewhere.join("a.txt"), "a of elsewhere").unwrap();
    fs::write(elsewhere.join("sub/index.html"), "index of sub").unwrap();
    fs::write(elsewhere.join(".secret"), "secret").unwrap();
    tree
}

#[test]
fn a_directory_stands_for_the_beginning_of_a_path_before_a_proxy_for_all() {
    let tree = tree();
    let application = application();
    let elsewhere = tree.beside("elsewhere");
    let server = server(
        &tree,
        &format!(
            "[[site.route]]\npath = \"/doc/\"\nalias = \"{}\"\n\
             [[site.route]]\npath = \"/\"\nproxy = {{ to = \"http://{}\" }}\n",
            elsewhere.display(),
            application.address
        ),
    );
    let nginx = Nginx::start(
        &tree,
        "",
        &format!(
            "root {}; location /doc/ {{ alias {}/; }} location / {{ proxy_pass http://{}; }}",
            tree.root().display(),
            elsewhere.display(),
            application.address
        ),
    );
    // Twice: from the disk and from the cache.
    for _ in 0..2 {
        alike(
            &server,
            nginx.as_ref(),
            &[
                ("/doc/a.txt", 200, "a of elsewhere"),
                ("/doc/sub/", 200, "index of sub"),
                ("/doc/sub", 301, ""),
                ("/doc/sub?x=1", 301, ""),
                ("/doc/", 403, ""),
                ("/doc/missing", 404, ""),
                ("/doc/hidden.txt", 404, ""),
                ("/doc/../doc/a.txt", 200, "a of elsewhere"),
                ("/doc/sub/../a.txt", 200, "a of elsewhere"),
                ("/doc/%61.txt", 200, "a of elsewhere"),
                ("/doc", 200, "GET /doc HTTP/1.1"),
                ("/docs/a.txt", 200, "GET /docs/a.txt HTTP/1.1"),
                ("/logo.txt", 200, "GET /logo.txt HTTP/1.1"),
            ],
        );
    }
    assert_eq!(ask(server.address(), "GET", "/doc/.secret").status, 404);
    // A change is seen, so the directory is watched that is meant.
    fs::write(elsewhere.join("a.txt"), "another a").unwrap();
    crate::support::wait_until("the change is seen", std::time::Duration::from_secs(60), || {
        ask(server.address(), "GET", "/doc/a.txt").body == b"another a"
    });
}

#[test]
fn an_alias_without_its_slash_is_sent_there_and_is_listed() {
    let tree = tree();
    let elsewhere = tree.beside("elsewhere");
    let server = server(
        &tree,
        &format!(
            "[[site.route]]\npath = \"/files/\"\nalias = \"{}\"\nlisting = \"html\"\n",
            elsewhere.display()
        ),
    );
    let answer = ask(server.address(), "GET", "/files?a=b");
    assert_eq!((answer.status, answer.field("location")), (301, Some("/files/?a=b")));
    let listing = String::from_utf8(ask(server.address(), "GET", "/files/").body).unwrap();
    assert!(
        listing.contains("a.txt") && listing.contains("/files/") && !listing.contains(".secret"),
        "{listing}"
    );
    // The site itself has no listings.
    assert_eq!(ask(server.address(), "GET", "/doc/").status, 403);
}

#[test]
fn a_file_where_there_is_one_and_else_the_application() {
    let tree = tree();
    let application = application();
    let server = server(
        &tree,
        &format!(
            "[[site.route]]\npath = \"/\"\ntry_files = [\"$path\", \"$path.html\", \"$path/\"]\n\
             proxy = {{ to = \"http://{}\" }}\n",
            application.address
        ),
    );
    let nginx = Nginx::start(
        &tree,
        "",
        &format!(
            "root {}; location / {{ try_files $uri $uri.html $uri/ @app; }}\n\
             location @app {{ proxy_pass http://{}; }}",
            tree.root().display(),
            application.address
        ),
    );
    for _ in 0..2 {
        alike(
            &server,
            nginx.as_ref(),
            &[
                ("/logo.txt", 200, "logo of the site"),
                ("/logo.txt?v=2", 200, "logo of the site"),
                ("/page", 200, "page"),
                ("/guide/", 200, "guide"),
                ("/guide", 301, ""),
                ("/", 200, "home"),
                ("/users/42", 200, "GET /users/42 HTTP/1.1"),
                ("/users/42?a=b", 200, "GET /users/42?a=b HTTP/1.1"),
                ("/missing.txt", 200, "GET /missing.txt HTTP/1.1"),
            ],
        );
    }
    // Hidden files are for no visitor, and a form is for the application.
    assert_eq!(ask(server.address(), "GET", "/.env").body, b"GET /.env HTTP/1.1");
    assert_eq!(ask(server.address(), "POST", "/logo.txt").body, b"POST /logo.txt HTTP/1.1");
    // The server detects a file that is created and removed.
    tree.write("users/42", "written by the application");
    assert_eq!(ask(server.address(), "GET", "/users/42").body, b"written by the application");
    fs::remove_file(tree.file("users/42")).unwrap();
    crate::support::wait_until("the file is gone", std::time::Duration::from_secs(60), || {
        ask(server.address(), "GET", "/users/42").body == b"GET /users/42 HTTP/1.1"
    });
}

#[test]
fn files_are_tried_where_there_are_only_files() {
    let tree = tree();
    let server = server(
        &tree,
        "[[site.route]]\npath = \"/\"\ntry_files = [\"$path.html\", \"$path\", \"/index.html\"]\n",
    );
    let root = tree.root();
    let served = format!("root {}; try_files $uri.html $uri /index.html;", root.display());
    let nginx = Nginx::start(&tree, "", &served);
    let targets = [
        ("/page", 200, "page"),
        ("/logo.txt", 200, "logo of the site"),
        ("/users/42", 200, "home"),
        ("/missing.png", 200, "home"),
    ];
    for _ in 0..2 {
        alike(&server, nginx.as_ref(), &targets);
    }
}

#[test]
fn the_gate_of_a_route_stands_before_its_files() {
    let tree = tree();
    let application = application();
    let server = server(
        &tree,
        &format!(
            "[[site.route]]\npath = \"/\"\ntry_files = [\"$path\"]\ndeny = [\"127.0.0.1\"]\n\
             proxy = {{ to = \"http://{}\" }}\n",
            application.address
        ),
    );
    for target in ["/logo.txt", "/users/42"] {
        assert_eq!(ask(server.address(), "GET", target).status, 403, "{target}");
    }
}

#[test]
fn a_route_has_its_own_index_fallback_and_cache_control() {
    let tree = tree();
    tree.write("app/start.html", "start");
    tree.write("app/app.js", "code");
    let server = Server::configured(
        tree.around(),
        &format!(
            "{}cache_control = \"no-cache\"\nfallback = \"/index.html\"\n\
             [[site.route]]\npath = \"/app/\"\nindex = [\"start.html\"]\nfallback = \"/app/start.html\"\n\
             cache_control = \"max-age=60\"\n\
             [[site.route]]\npath = \"/guide/\"\nfallback = \"none\"\n",
            tree.configuration("")
        ),
    );
    for (target, status, body, cache_control) in [
        ("/app/", 200, "start", Some("max-age=60")),
        ("/app/app.js", 200, "code", Some("max-age=60")),
        ("/app/users/1", 200, "start", Some("max-age=60")),
        ("/guide/", 200, "guide", Some("no-cache")),
        ("/users/1", 200, "home", Some("no-cache")),
    ] {
        let answer = ask(server.address(), "GET", target);
        assert_eq!((answer.status, &*String::from_utf8_lossy(&answer.body)), (status, body), "{target}");
        assert_eq!(answer.field("cache-control"), cache_control, "{target}");
    }
    assert_eq!(ask(server.address(), "GET", "/guide/missing").status, 404);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let tree = tree();
    for (keys, message) in [
        ("path = \"/a\"\nalias = \".\"\n", "'alias' needs a 'path' that ends with a slash"),
        ("path = \"/a/*/\"\nalias = \".\"\n", "'alias' needs a 'path' that ends with a slash"),
        ("path = \"/a/\"\nalias = \"nowhere\"\n", "alias '"),
        ("path = \"/a/\"\nalias = \".\"\nroot = \".\"\n", "'alias' and 'root' cannot both be done"),
        ("path = \"/a/\"\nalias = \".\"\nproxy = { to = \"http://127.0.0.1:1\" }\n", "cannot both be done"),
        ("path = \"/a/\"\ntry_files = [\"$path\"]\ncgi = {}\n", "'try_files' cannot be used with"),
        ("path = \"/a/\"\ntry_files = [\"$path\"]\nphp = \"127.0.0.1:9000\"\n", "'front_controller'"),
        (
            "path = \"/a/\"\ntry_files = [\"x\"]\nproxy = { to = \"http://127.0.0.1:1\" }\n",
            "must begin with one '/'",
        ),
    ] {
        let file = tree.beside("site.toml");
        fs::write(&file, format!("{}[[site.route]]\n{keys}", tree.configuration(""))).unwrap();
        let output = crate::support::run(["check", "--config", file.to_str().unwrap()]);
        let said = format!("{output:?}");
        assert!(!output.status.success() && said.contains(message), "{keys}: {said}");
    }
}
