//! What a component may import: environment, files, configuration, keys and their values. `imports.wasm` is
//! built from `programs/wasm/rust/imports`; it does what the path requests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::process::Signal;

use super::{configuration, text};
use crate::support::{Server, Tree};

fn start(tree: &Tree, keys: &str) -> Server {
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wasm/imports.wasm");
    Server::configured(tree.around(), &configuration(tree, &component, keys))
}

/// The text of an answer, or what has failed.
fn get(server: &Server, target: &str) -> Result<String, String> {
    let answer = server.get(target);
    match answer.status {
        200 => Ok(text(&answer)),
        502 => Err(text(&answer)),
        other => panic!("{target}: {other}\n{}", server.error_text()),
    }
}

fn done() -> Result<String, String> {
    Ok(String::new())
}

#[test]
fn environment_and_configuration_are_those_of_the_route() {
    let tree = Tree::empty();
    let server = start(&tree, "environment = { LEVEL = \"debug\" }\nconfig = { greeting = \"hello\" }");
    assert_eq!(get(&server, "/environment/"), Ok("LEVEL=debug\n".to_string()));
    assert_eq!(get(&server, "/config/greeting"), Ok("hello".to_string()));
    assert_eq!(get(&server, "/config/other"), done());
    let server = start(&tree, "");
    assert_eq!(get(&server, "/environment/"), done());
    assert_eq!(get(&server, "/config/greeting"), done());
}

#[test]
fn directories_are_read_and_nothing_else() {
    let tree = Tree::empty();
    let data = tree.beside("data");
    fs::create_dir_all(data.join("below")).unwrap();
    fs::write(data.join("below/a.txt"), "a file").unwrap();
    fs::write(tree.beside("secret.txt"), "a secret").unwrap();
    symlink("../secret.txt", data.join("way-out")).unwrap();
    let server = start(&tree, &format!("directories = [\"/data={}\"]", data.display()));
    assert_eq!(get(&server, "/read/data/below/a.txt"), Ok("a file".to_string()));
    assert_eq!(get(&server, "/list/data/below"), Ok("a.txt\n".to_string()));
    for refused in [
        "/read/data/way-out",
        "/read/data/../secret.txt",
        "/read/etc/passwd",
        "/write/data/new.txt",
        "/write/data/below/a.txt",
        "/remove/data/below/a.txt",
    ] {
        assert!(get(&server, refused).is_err(), "{refused}");
    }
    assert_eq!(fs::read(data.join("below/a.txt")).unwrap(), b"a file");
    assert!(!data.join("new.txt").exists());
    // Without the key there is no directory.
    let server = start(&tree, "");
    assert!(get(&server, "/read/data/below/a.txt").is_err());
    assert!(get(&server, "/list/").is_err());
}

#[test]
fn keys_are_shared_by_all_instances_and_stay_over_a_reload() {
    let tree = Tree::empty();
    let server = start(&tree, "buckets = [\"sessions\"]");
    assert_eq!(get(&server, "/get/sessions/a"), Ok("none".to_string()));
    assert_eq!(get(&server, "/set/sessions/a/1"), done());
    assert_eq!(get(&server, "/get/sessions/a"), Ok("1".to_string()));
    assert_eq!(get(&server, "/exists/sessions/a"), Ok("true".to_string()));
    assert_eq!(get(&server, "/increment/sessions/a/41"), Ok("42".to_string()));
    assert_eq!(get(&server, "/increment/sessions/new/5"), Ok("5".to_string()));
    assert_eq!(get(&server, "/get-many/sessions/a/b/new"), Ok("42 none 5".to_string()));
    assert_eq!(get(&server, "/get/other/a"), Err("no such store".to_string()));
    server.signal(Signal::HUP);
    server.wait_for_error_line("the reload", |line| line.contains("applied"));
    assert_eq!(get(&server, "/get/sessions/a"), Ok("42".to_string()));
    assert_eq!(get(&server, "/delete-many/sessions/a/b"), done());
    assert_eq!(get(&server, "/delete/sessions/new"), done());
    assert_eq!(get(&server, "/keys/sessions"), Ok("0 keys in 1 calls".to_string()));
    assert_eq!(get(&server, "/fill/sessions/2500"), done());
    assert_eq!(get(&server, "/keys/sessions"), Ok("2500 keys in 3 calls".to_string()));
    // Without the key there is no bucket.
    let server = start(&tree, "");
    assert_eq!(get(&server, "/get/sessions/a"), Err("no such store".to_string()));
}

#[test]
fn what_does_not_fit_into_a_bucket_is_refused() {
    let tree = Tree::empty();
    let server = start(&tree, "buckets = [\"b\"]\nbucket_size = \"64KiB\"");
    assert_eq!(get(&server, "/set-long/b/a/60000"), done());
    for more in ["/set-long/b/c/10000", "/set-long/b/a/70000", "/fill/b/1000"] {
        assert!(get(&server, more).unwrap_err().contains("the bucket is full"), "{more}");
    }
    assert_eq!(get(&server, "/set-long/b/a/10"), done());
    assert_eq!(get(&server, "/set-long/b/c/10000"), done());
    // A value that is requested often does not fill the server's memory.
    let server = start(&tree, "buckets = [\"b\"]");
    assert_eq!(get(&server, "/set-long/b/a/5000000"), done());
    assert!(get(&server, "/get-many/b/a/a/a").unwrap_err().contains("more than 8388608 bytes"));
}

#[test]
fn output_is_logged_up_to_its_limit() {
    let tree = Tree::empty();
    let server = start(&tree, "output_size = 250\ncomputing_timeout = \"60s\"");
    assert_eq!(get(&server, "/print/10000"), done());
    server.wait_for_error_line("the rest", |line| line.contains("999750 more bytes are not logged"));
    let lines = server.error_text().lines().filter(|line| line.contains("xxxxxxxxxx")).count();
    assert_eq!(lines, 3);
}

#[test]
fn waiting_has_a_limit_of_its_own() {
    let tree = Tree::empty();
    // Waiting is no computing.
    let server = start(&tree, "computing_timeout = \"500ms\"");
    assert_eq!(get(&server, "/wait/1500"), Ok("waited".to_string()));
    let server = start(&tree, "answer_timeout = \"2s\"");
    assert_eq!(server.get("/wait/600000").status, 504);
    server.wait_for_error_line("the reason", |line| line.contains("within answer_timeout"));
    assert_eq!(get(&server, "/wait/1"), Ok("waited".to_string()));
}

#[test]
fn a_bucket_belongs_to_one_site() {
    let tree = Tree::empty();
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wasm/imports.wasm");
    let compiled = tree.beside("compiled");
    let site = |host: &str| {
        format!(
            "[[site]]\nlisten = [\"127.0.0.1:0\"]\nhosts = [{host:?}]\nroot = {:?}\n[[site.route]]\n\
             wasm = {{ component = {component:?}, compiled = {compiled:?}, buckets = [\"b\"] }}\n",
            tree.root()
        )
    };
    let server = Server::configured(tree.around(), &(site("one.example") + &site("two.example")));
    let ask = |host: &str, target: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let addresses = server.announced_addresses();
        let answers = addresses.iter().map(|address| crate::support::Client::connect(*address).ask(&request));
        answers.map(|answer| text(&answer)).collect::<Vec<_>>()
    };
    ask("one.example", "/set/b/k/v");
    assert!(ask("one.example", "/get/b/k").contains(&"v".to_string()));
    assert!(!ask("two.example", "/get/b/k").contains(&"v".to_string()));
}
