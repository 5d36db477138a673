//! The commands that talk to a running server: how they find it, what they print, and their exit codes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use crate::support::{ALPHABET, Bound, Server, Tree, bound_by_permissions, error_lines, run, run_as};

fn command(tree: &Tree, name: &str, more: &[&str]) -> Output {
    let config = tree.beside("touchstone.toml");
    run([name, "--config", config.to_str().expect("the path is text")].iter().chain(more))
}

fn set_configuration(tree: &Tree, text: &str) {
    fs::write(tree.beside("touchstone.toml"), text).expect("the configuration is written");
}

#[test]
fn reload_says_whether_the_configuration_was_taken_up() {
    let tree = Tree::standard();
    let good = tree.configuration("");
    let server = Server::configured(tree.around(), &good);
    set_configuration(&tree, &good.replace("[[site]]", "[limits]\nrequest_line_bytes = 100\n[[site]]"));
    let output = command(&tree, "reload", &[]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("applied"));
    // The change is in force when the command returns.
    let long = format!("GET /?{} HTTP/1.1\r\nHost: a\r\n\r\n", "q".repeat(200));
    assert_eq!(server.connect().ask(&long).status, 414);

    set_configuration(&tree, &format!("{good}rooot = 1\n"));
    let output = command(&tree, "reload", &[]);
    assert_eq!(output.status.code(), Some(1));
    let lines = error_lines(&output);
    assert!(lines[0].contains("touchstone.toml:") && lines[0].contains("did you mean"), "{lines:?}");
    assert!(lines[1].contains("the one before stays"), "{lines:?}");
    assert_eq!(server.connect().ask(&long).status, 414, "the one before stays");

    // The command finds the running server even by a file that cannot be parsed.
    set_configuration(&tree, "[[site]\n");
    let output = command(&tree, "reload", &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["ok"], false);
    assert!(answer["problems"][0].as_str().expect("a text").contains("touchstone.toml:1:"), "{answer}");
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
}

#[test]
fn reload_takes_keys_that_need_a_new_process_as_a_warning() {
    let tree = Tree::standard();
    let server = Server::configured(tree.around(), &tree.configuration("[server]\ncores = 1\n"));
    set_configuration(&tree, &tree.configuration("[server]\ncores = 2\numask = \"077\"\n"));
    let output = command(&tree, "reload", &[]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    for key in ["server.cores", "server.umask"] {
        server.wait_for_error_line("names the key", |line| line.contains(key) && line.contains("upgrade"));
    }
}

#[test]
fn logs_alone_are_opened_again() {
    let tree = Tree::standard();
    let access = tree.beside("access.log");
    let sections = format!("[access_log]\npath = {access:?}\n");
    let _server = Server::configured(tree.around(), &tree.configuration(&sections));
    for (more, number) in [(&["--logs-only"][..], 1), (&[], 2)] {
        fs::rename(&access, tree.beside(&format!("access.log.{number}"))).expect("renamed");
        let output = command(&tree, "reload", more);
        assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
        crate::support::wait_until("the log is made again", std::time::Duration::from_secs(60), || {
            access.exists()
        });
    }
}

#[test]
fn status_tells_of_the_process() {
    let tree = Tree::standard();
    let server = Server::configured(tree.around(), &tree.configuration("[server]\ncores = 3\n"));
    let output = command(&tree, "status", &["--json"]);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let facts = &status["facts"];
    assert_eq!(facts["process"], server.pid().as_raw_nonzero().get());
    assert_eq!((&facts["cores"], &facts["reloads"]), (&3.into(), &0.into()));
    assert_eq!(facts["listening"][0], server.address().to_string());
    let output = command(&tree, "status", &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(&format!("listening on       {}\n", server.address())), "{text}");
}

#[test]
fn stop_returns_when_the_process_has_ended() {
    let tree = Tree::standard();
    let socket = tree.beside("control.sock");
    let mut server = Server::configured(
        tree.around(),
        &tree.configuration("[server]\ncontrol_socket = \"control.sock\"\n"),
    );
    assert_eq!(fs::metadata(&socket).expect("the socket").permissions().mode() & 0o777, 0o600);
    let output = run(["stop", "--socket", socket.to_str().expect("the path is text")]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    assert!(!server.is_running());
    assert_eq!(server.wait().code(), Some(0));
    assert!(!socket.exists());
    // Now no server runs.
    for name in ["reload", "upgrade", "status", "stop"] {
        let output = command(&tree, name, &[]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        let lines = error_lines(&output);
        assert!(lines[0].contains("no server answers") && lines[0].contains("is it running"), "{lines:?}");
    }
}

#[test]
fn what_cannot_be_asked_is_explained() {
    let tree = Tree::standard();
    let _server =
        Server::configured(tree.around(), &tree.configuration("[server]\ncontrol_socket = \"off\"\n"));
    let output = command(&tree, "reload", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error_lines(&output)[0].contains("control_socket is \"off\""), "{:?}", error_lines(&output));
    if !std::path::Path::new("/etc/touchstone/touchstone.toml").exists() {
        let output = run(["reload"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(error_lines(&output)[0].contains("--config"), "{:?}", error_lines(&output));
    }
}

#[test]
fn two_servers_of_one_configuration_do_not_take_each_others_commands() {
    let tree = Tree::standard();
    let first = Server::configured(tree.around(), &tree.configuration(""));
    let mut second = Server::configured(tree.around(), &tree.configuration(""));
    second.wait_for_error_line("says that it has no control socket", |line| {
        line.contains("another server answers there")
    });
    let output = command(&tree, "status", &["--json"]);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(status["facts"]["process"], first.pid().as_raw_nonzero().get());
    second.stop();
}

#[test]
fn other_users_are_not_listened_to() {
    let Bound::AsUser(user) = bound_by_permissions() else {
        return crate::support::skipped("checks of other users' commands (run the tests as root)");
    };
    let tree = Tree::standard();
    for (line, word) in
        [("", "neither root"), ("control_socket = \"control.sock\"", "only root and the user")]
    {
        let text = tree.configuration(&format!("[server]\n{line}\n"));
        let server = Server::configured(tree.around(), &text);
        let config = tree.beside("touchstone.toml");
        let output = run_as(user, ["stop", "--config", config.to_str().expect("the path is text")]);
        // Through an abstract socket the user may connect, and is refused by user number.
        assert_eq!(output.status.code(), Some(1), "{word}");
        let lines = error_lines(&output).join("\n");
        assert!(lines.contains(word) || lines.contains("only root and user 0 may use"), "{lines}");
        server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    }
}
