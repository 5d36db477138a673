//! Root binds, and another user serves: a file that this user may not read fails at once with a clear
//! message, and the process keeps none of root's rights.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::{
    ALPHABET, Client, Server, Tree, binary_for_all, error_lines, is_in_use, run, skipped, wait_until,
};

/// Far longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(60);

const NOBODY: u32 = 65_534;

/// False, with a visible message, if root does not run the tests.
fn are_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped("checks of giving up root's rights (run the tests as root)");
    }
    root
}

fn start(tree: &Tree, text: &str) -> Server {
    fs::write(tree.beside("touchstone.toml"), text).expect("the configuration is written");
    let mut command = Command::new(binary_for_all());
    command.args(["serve", "--config"]).arg(tree.beside("touchstone.toml"));
    Server::start_piped(command)
}

/// A command that is expected not to serve.
fn command(tree: &Tree, name: &str) -> Output {
    let config = tree.beside("touchstone.toml");
    run([name, "--config", config.to_str().expect("the path is text")])
}

/// A directory of the user `nobody` beside the root.
fn directory_of_the_user_nobody(tree: &Tree, name: &str) {
    let path = tree.beside(name);
    fs::create_dir(&path).expect("a directory");
    chown(&path, Some(NOBODY), Some(NOBODY)).expect("it is given away");
}

fn status_of(process: rustix::process::Pid, field: &str) -> String {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{field} in {text}")).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A free port that only root may listen on.
fn privileged_port() -> Option<u16> {
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").ok()?;
    let first: u16 = first.trim().parse().ok()?;
    (600..first).find(|port| !is_in_use(*port))
}

#[test]
fn another_user_serves_what_root_has_bound() {
    if !are_root() {
        return;
    }
    let tree = Tree::standard();
    directory_of_the_user_nobody(&tree, "logs");
    directory_of_the_user_nobody(&tree, "run");
    let port = privileged_port().unwrap_or_default();
    let server = format!(
        "[server]\nuser = \"nobody\"\ngroup = \"{NOBODY}\"\nsupplementary_groups = [\"daemon\"]\n\
         umask = \"027\"\n\
         cores = 2\npid_file = \"run/server.pid\"\ncontrol_socket = \"run/control.sock\"\n\
         [access_log]\npath = \"logs/access.log\"\n"
    );
    let text = format!("{server}[[site]]\nlisten = [\"127.0.0.1:{port}\"]\nroot = {:?}\n", tree.root());
    let mut server = start(&tree, &text);
    server.succeeded_by(tree.beside("run/server.pid"));
    let check = |process| {
        let four = |number: u32| [number; 4].map(|number| number.to_string()).join(" ");
        assert_eq!(status_of(process, "Uid"), four(NOBODY));
        assert_eq!(status_of(process, "Gid"), four(NOBODY));
        assert_eq!(status_of(process, "Groups"), "1");
        for set in ["CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(u64::from_str_radix(&status_of(process, set), 16), Ok(0), "{set}");
        }
        assert_eq!(status_of(process, "NoNewPrivs"), "1");
        assert_eq!(status_of(process, "Umask"), "0027");
    };
    check(server.pid());
    // Each thread has credentials of its own in Linux.
    for thread in fs::read_dir(format!("/proc/{}/task", server.pid().as_raw_nonzero())).expect("its threads")
    {
        // A thread may have ended since.
        let Ok(status) = fs::read_to_string(thread.expect("a thread").path().join("status")) else {
            continue;
        };
        assert!(
            status.contains(&format!("Uid:\t{NOBODY}\t")) && status.contains("NoNewPrivs:\t1"),
            "{status}"
        );
    }
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    let log = tree.beside("logs/access.log");
    let metadata = fs::metadata(&log).expect("the log");
    assert_eq!((metadata.uid(), metadata.permissions().mode() & 0o777), (NOBODY, 0o640));

    // The server opens its logs again, and reads the configuration, as that user.
    fs::rename(&log, tree.beside("logs/access.log.1")).expect("renamed");
    let output = command(&tree, "reload");
    assert!(output.status.success(), "{:?}", error_lines(&output));
    wait_until("the log is made again", PATIENCE, || log.exists());

    // The successor has the port without root's rights.
    let output = command(&tree, "upgrade");
    assert!(output.status.success(), "{:?}", error_lines(&output));
    let first = server.pid();
    wait_until("another process serves", PATIENCE, || server.serving_pid().is_some_and(|pid| pid != first));
    check(server.serving_pid().expect("a process serves"));
    let answer = Client::connect(server.address()).ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.body, ALPHABET.as_bytes());
    let output = command(&tree, "stop");
    assert!(output.status.success(), "{:?}", error_lines(&output));
    assert!(!tree.beside("run/server.pid").exists() && !tree.beside("run/control.sock").exists());
}

#[test]
fn what_the_user_may_not_read_is_named_before_the_start() {
    if !are_root() {
        return;
    }
    let tree = Tree::standard();
    let secret = tree.beside("key.pem");
    fs::write(&secret, "not even looked at\n").expect("a key");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("it is root's alone");
    let tls = format!("certificate = {secret:?}\n");
    let base = "[server]\nuser = \"nobody\"\n";
    let table = [
        (tree.configuration(base) + &tls, "key.pem' cannot be read"),
        (tree.configuration(&format!("{base}[access_log]\npath = \"access.log\"\n")), "cannot be written"),
        (tree.configuration(&format!("{base}pid_file = \"missing/a.pid\"\n")), "'missing' does not exist"),
        (tree.configuration("[server]\nuser = \"nobody-here\"\n"), "this machine has no user 'nobody-here'"),
        (tree.configuration(&format!("{base}group = \"nogroup-here\"\n")), "no group 'nogroup-here'"),
    ];
    for (text, word) in table {
        fs::write(tree.beside("touchstone.toml"), text).expect("the configuration is written");
        for (name, code) in [("check", 1), ("serve", 2)] {
            let output = command(&tree, name);
            let lines =
                error_lines(&output).join("\n").replace(tree.around().to_str().unwrap_or_default(), "");
            let lines = lines.replace("'/missing'", "'missing'");
            assert_eq!(output.status.code(), Some(code), "{name}: {lines}");
            assert!(lines.contains(word) && lines.contains("touchstone.toml:"), "{name}: {word}: {lines}");
        }
    }
}

#[test]
fn a_reload_that_the_user_may_not_take_up_changes_nothing() {
    if !are_root() {
        return;
    }
    let tree = Tree::standard();
    let good = tree.configuration("[server]\nuser = \"nobody\"\n");
    let server = start(&tree, &good);
    let hidden = tree.beside("hidden");
    fs::create_dir(&hidden).expect("a directory");
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o700)).expect("it is root's alone");
    let other = good.replace("/root\"", "/hidden\"");
    fs::write(tree.beside("touchstone.toml"), other).expect("the configuration is written");
    let output = command(&tree, "reload");
    assert_eq!(output.status.code(), Some(1));
    assert!(error_lines(&output).join("\n").contains("hidden' cannot be read"), "{:?}", error_lines(&output));
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
}

#[test]
fn after_a_change_of_the_user_a_reload_goes_on_as_the_user_of_the_start() {
    if !are_root() {
        return;
    }
    let tree = Tree::standard();
    directory_of_the_user_nobody(&tree, "run");
    let text = |user: &str, listen: &str| {
        format!(
            "[server]\nuser = \"{user}\"\npid_file = \"run/server.pid\"\n\
             control_socket = \"run/control.sock\"\n[[site]]\n\
             listen = [\"127.0.0.1:0\", \"unix:run/a.sock\"{listen}]\nroot = {:?}\n",
            tree.root()
        )
    };
    let server = start(&tree, &text("nobody", ""));
    let owner = |name: &str| fs::metadata(tree.beside(name)).expect("the socket").uid();
    assert_eq!(owner("run/a.sock"), NOBODY);
    fs::write(tree.beside("touchstone.toml"), text("daemon", ", \"unix:run/b.sock\""))
        .expect("a configuration");
    let output = command(&tree, "reload");
    assert!(output.status.success(), "{:?}", error_lines(&output));
    assert_eq!((owner("run/a.sock"), owner("run/b.sock")), (NOBODY, NOBODY));
    server.wait_for_error_line("says when the user changes", |line| {
        line.contains("server.user changes only when root restarts the server")
            && line.contains(&format!("as user {NOBODY}"))
    });
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    // A successor could not become the other user.
    let output = command(&tree, "upgrade");
    assert!(!output.status.success());
    let lines = error_lines(&output).join("\n");
    assert!(lines.contains("only root can become 'daemon'"), "{lines}");
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
}

#[test]
fn only_root_becomes_another_user() {
    if !are_root() {
        return;
    }
    let tree = Tree::standard();
    for (user, word) in [("daemon", "only root can become 'daemon'"), ("root", "'root' is not allowed")] {
        let text = tree.configuration(&format!("[server]\nuser = \"{user}\"\n"));
        fs::write(tree.beside("touchstone.toml"), text).expect("the configuration is written");
        let config = tree.beside("touchstone.toml");
        let arguments = ["serve", "--config", config.to_str().expect("the path is text")];
        let output = match user {
            "root" => run(arguments),
            _ => crate::support::run_as(NOBODY, arguments),
        };
        assert_eq!(output.status.code(), Some(2), "{user}");
        assert!(error_lines(&output).join("\n").contains(word), "{:?}", error_lines(&output));
    }
}
