//! Locks and dead properties over a reload, an upgrade and a restart.

use std::fs;
use std::time::Duration;

use super::{ask, configuration, lock, properties, put, set_property};
use crate::support::{Server, Tree, error_lines, free_port, run, wait_until};

#[test]
fn locks_and_properties_outlive_the_process() {
    let tree = Tree::empty();
    tree.write("a.txt", "a");
    let listen = format!("127.0.0.1:{}", free_port());
    let text = |locks: usize| {
        let own = configuration(&tree, &listen, &format!(", locks = {locks}"), "");
        format!("[server]\npid_file = \"server.pid\"\n{own}")
    };
    let mut server = Server::configured(tree.around(), &text(10));
    server.succeeded_by(tree.beside("server.pid"));
    let address = server.address();
    let token = lock(address, "/a.txt", "");
    assert_eq!(put(address, "/b.txt", "b"), 201);
    assert_eq!(set_property(address, "/b.txt", "colour", "green"), 200);
    let holds = |when: &str| {
        assert_eq!(put(address, "/a.txt", "other"), 423, "{when}");
        let with = format!("If: (<{token}>)\r\n");
        assert_eq!(ask(address, "PUT", "/a.txt", &with, b"mine").status, 204, "{when}");
        assert!(properties(address, "/b.txt").contains("green"), "{when}");
    };
    holds("at first");
    let config = tree.beside("touchstone.toml");
    let config = config.to_str().expect("a name");
    let command = |name: &str| {
        let output = run([name, "--config", config]);
        assert!(output.status.success(), "{name}: {:?}", error_lines(&output));
    };
    fs::write(config, text(11)).expect("the configuration is written");
    command("reload");
    holds("after a reload");
    let before = server.serving_pid();
    command("upgrade");
    let is_another = || server.serving_pid().is_some_and(|now| Some(now) != before);
    wait_until("another process serves", Duration::from_secs(60), is_another);
    holds("after an upgrade");
    command("stop");
    server.wait();
    let mut server = Server::configured(tree.around(), &text(10));
    holds("after a restart");
    server.stop();
}
