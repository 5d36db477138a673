//! `isolation = "ajp"`: the same route with its applications in a Tomcat that runs elsewhere.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;

use super::tomcat::{Options, SECRET, Tomcat};
use super::{text, trial, wait_for_applications};
use crate::support::{Server, Tree, run};

fn configuration(tree: &Tree, servlet: &str, ajp: &str) -> String {
    format!(
        "[java]\noptions = [\"-Xmx128m\"]\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\n\
         [[site.route]]\npath = \"/shop/\"\nservlet = {{ {servlet} }}\n{ajp}\n",
        tree.root()
    )
}

fn loads_java(server: &Server) -> bool {
    fs::read_to_string(format!("/proc/{}/maps", server.process())).unwrap().contains("/libjvm.so")
}

#[test]
fn one_word_says_where_the_applications_run() {
    let Some(trial) = trial() else { return };
    let Some(tomcat) = Tomcat::start(&Options::default()) else { return };
    let tree = Tree::empty();
    let ajp = format!("ajp = {{ backends = [{:?}], secret = {SECRET:?} }}", tomcat.address());
    let with = |isolation: &str| {
        let keys = format!("app = {trial:?}, isolation = {isolation:?}, threads = 20");
        Server::configured(&tree.root(), &configuration(&tree, &keys, &ajp))
    };
    let server = with("ajp");
    let facts = text(&server.get("/shop/probe.jsp?do=info"));
    assert!(facts.contains("uri=/shop/probe.jsp\n") && facts.contains("remote_addr=127.0.0.1\n"), "{facts}");
    assert_eq!(server.get("/shop/facts").status, 404, "that is the other application");
    assert!(!loads_java(&server));
    for isolation in super::BOTH {
        let server = with(isolation);
        wait_for_applications(&server, 1);
        assert_eq!(loads_java(&server), isolation == "in-process");
        assert!(text(&server.get("/shop/facts")).contains("context=/shop\n"));
    }
    // A container that is not there costs this route alone.
    drop(tomcat);
    let server = with("ajp");
    assert_eq!(server.get("/shop/probe.jsp").status, 502);
}

#[test]
fn keys_that_do_not_fit_are_named() {
    let tree = Tree::empty();
    fs::write(tree.root().join("users.xml"), "<tomcat-users/>").unwrap();
    let ajp = "ajp = { backends = [\"127.0.0.1:8009\"] }";
    for (servlet, ajp, expected) in [
        ("isolation = \"ajp\"", "", "'servlet.isolation': \"ajp\" needs 'ajp' beside 'servlet'"),
        (
            "isolation = \"ajp\", users = \"users.xml\"",
            ajp,
            "'servlet.users': with isolation = \"ajp\" users are",
        ),
        ("isolation = \"ajp\", node = \"a\"", ajp, "'servlet.node': with isolation = \"ajp\" this is"),
        ("isolation = \"ajp\"", "ajp = {}", "[site.route.ajp] needs 'backends'"),
        ("isolation = \"jserv\"", ajp, "\"in-process\", \"isolated\" or \"ajp\""),
        ("isolation = \"in-process\"", ajp, "there is neither 'app' nor 'directory'"),
        (
            "isolation = \"ajp\"",
            "ajp = { backends = [\"127.0.0.1:8009\"] }\nroot = \".\"",
            "cannot both be done",
        ),
    ] {
        let path = tree.root().join("touchstone.toml");
        fs::write(&path, configuration(&tree, servlet, ajp)).unwrap();
        let output = run(["check".as_ref(), "--config".as_ref(), path.as_os_str()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{servlet}, {ajp}: {said}");
    }
    // Applications that are elsewhere need not be here.
    let path = tree.root().join("touchstone.toml");
    fs::write(&path, configuration(&tree, "app = \"nowhere.war\", isolation = \"ajp\"", ajp)).unwrap();
    let output = run(["check".as_ref(), "--config".as_ref(), path.as_os_str()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
