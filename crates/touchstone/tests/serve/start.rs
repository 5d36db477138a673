//! The start: what cannot work is refused at once, with one clear line and exit code 2, and every command
//! explains itself.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use crate::support::{Bound, Server, Tree, bound_by_permissions, error_lines, run, run_as, skipped};

/// Fails unless the command ended with this code and one line on standard error that has all these words in
/// it.
fn assert_refused(output: &Output, code: i32, words: &[&str]) {
    let lines = error_lines(output);
    let text = lines.join("\n");
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(lines.len(), 1, "not one line but:\n{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

fn serve(root: &Path, listen: &str) -> Output {
    run(["serve".as_ref(), "--root".as_ref(), root.as_os_str(), "--listen".as_ref(), listen.as_ref()])
}

fn serve_with(tree: &Tree, text: &str) -> (Output, String) {
    let path = tree.beside("touchstone.toml");
    fs::write(&path, text).expect("the configuration is written");
    (run(["serve".as_ref(), "--config".as_ref(), path.as_os_str()]), path.display().to_string())
}

#[test]
fn a_port_in_use() {
    let tree = Tree::standard();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    assert_refused(&serve(&tree.root(), &address), 2, &[&address, "in use"]);
    let (output, path) = serve_with(&tree, &tree.configuration("").replace("127.0.0.1:0", &address));
    assert_refused(&output, 2, &[&address, "in use"]);
    drop((output, path));
}

#[test]
fn a_port_in_use_by_another_touchstone() {
    // Several sockets of one user may share a port (SO_REUSEPORT), and two servers could without noticing.
    let tree = Tree::standard();
    let server = Server::quick(&tree.root());
    let address = server.address().to_string();
    assert_refused(&serve(&tree.root(), &address), 2, &[&address, "in use"]);
    server.assert_serves("/second.txt", crate::support::SECOND.as_bytes());
}

#[test]
fn an_address_that_is_not_here() {
    let tree = Tree::standard();
    // TEST-NET-1 (RFC 5737): no machine has it.
    assert_refused(&serve(&tree.root(), "192.0.2.1:8080"), 2, &["192.0.2.1:8080"]);
}

#[test]
fn a_port_that_only_root_may_use() {
    let least: u16 = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(1024);
    if least < 2 {
        skipped(
            "a port that only root may use (net.ipv4.ip_unprivileged_port_start allows all to everybody)",
        );
        return;
    }
    let tree = Tree::standard();
    let output = serve_unprivileged(&tree, "127.0.0.1:1");
    assert_refused(&output, 2, &["127.0.0.1:1", "ermission"]);
}

#[test]
fn a_root_that_may_not_be_read() {
    let tree = Tree::standard();
    fs::set_permissions(tree.root(), fs::Permissions::from_mode(0o000)).expect("permissions");
    let output = serve_unprivileged(&tree, "127.0.0.1:0");
    assert_refused(&output, 2, &[&tree.root().display().to_string(), "ermission"]);
    fs::set_permissions(tree.root(), fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// Runs the quick form as a user that permissions bind.
fn serve_unprivileged(tree: &Tree, listen: &str) -> Output {
    let root = tree.root();
    let arguments = ["serve", "--listen", listen, "--root", root.to_str().expect("text")];
    match bound_by_permissions() {
        Bound::AsWeAre => run(arguments),
        Bound::AsUser(user) => run_as(user, arguments),
    }
}

#[test]
fn a_root_that_cannot_be() {
    let tree = Tree::standard();
    let missing = tree.beside("missing");
    assert_refused(&serve(&missing, "127.0.0.1:0"), 2, &[&missing.display().to_string()]);
    let file = tree.file("page.html");
    assert_refused(&serve(&file, "127.0.0.1:0"), 2, &[&file.display().to_string(), "ot a directory"]);
    let below_file = tree.file("page.html/below");
    assert_refused(&serve(&below_file, "127.0.0.1:0"), 2, &[&below_file.display().to_string()]);
}

#[test]
fn a_log_that_cannot_be() {
    let tree = Tree::standard();
    let root = tree.root();
    for flag in ["--access-log", "--error-log"] {
        for path in [tree.beside("missing/log"), tree.root()] {
            let output = run([
                "serve".as_ref(),
                "--root".as_ref(),
                root.as_os_str(),
                "--listen".as_ref(),
                "127.0.0.1:0".as_ref(),
                flag.as_ref(),
                path.as_os_str(),
            ]);
            assert_refused(&output, 2, &[&path.display().to_string()]);
        }
    }
}

#[test]
fn bad_usage() {
    let tree = Tree::standard();
    let root = tree.root();
    let root = root.to_str().expect("text");
    let (quick, listen) = (["serve", "--root", root], ["--listen", "127.0.0.1:0"]);
    let table: &[(&[&str], &str)] = &[
        (&["serve", "missing.war"], "no such file"),
        (&["serve", root, "--config", "a.toml"], "--config"),
        (&["serve", root, quick[1], quick[2]], "--root"),
        (&["serve", "--rot", root], "--rot"),
        (&["serve", "--http3"], "--cert"),
        (&["serve", "--config", "a.toml", quick[1], quick[2], listen[0], listen[1]], "--config"),
        (&[quick[0], quick[1], quick[2], "--listen", "nowhere"], "nowhere"),
        (&[quick[0], quick[1], quick[2], "--listen", "127.0.0.1"], "127.0.0.1"),
        (&[quick[0], quick[1], quick[2], "--listen", "127.0.0.1:99999"], "99999"),
        (&[quick[0], quick[1], quick[2], listen[0], listen[1], "--cores", "0"], "--cores"),
        (&[quick[0], quick[1], quick[2], listen[0], listen[1], "--cores", "two"], "--cores"),
        (&[quick[0], quick[1], quick[2], listen[0], listen[1], "--access-log-format", "xml"], "xml"),
        (&["serve", "--config"], "--config"),
        (&["check"], "<FILE>"),
        (&["check", "--config", "a.toml", "extra"], "--config"),
        (&["check", "a.toml", "extra"], "extra"),
        (&["sreve"], "sreve"),
        (&["--unknown"], "--unknown"),
        (&[], "Usage"),
    ];
    for (arguments, word) in table {
        let output = run(*arguments);
        let text = error_lines(&output).join("\n");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(word), "{arguments:?}: {word:?} is not in: {text}");
        assert!(output.stdout.is_empty(), "{arguments:?}: bad usage is no output");
    }
}

#[test]
fn a_configuration_file_that_is_not_there() {
    let tree = Tree::standard();
    let missing = tree.beside("missing.toml");
    let name = missing.display().to_string();
    let output = run(["serve".as_ref(), "--config".as_ref(), missing.as_os_str()]);
    assert_refused(&output, 2, &[&name]);
    let output = run(["check".as_ref(), "--config".as_ref(), missing.as_os_str()]);
    assert_refused(&output, 1, &[&name]);
    let directory = tree.root();
    let output = run(["serve".as_ref(), "--config".as_ref(), directory.as_os_str()]);
    assert_refused(&output, 2, &[&directory.display().to_string()]);
}

/// Texts with one mistake each: where it is (line and column from 1, `ROOT` replaced by a directory), and
/// words that the message must have.
const MISTAKES: &[(&str, &str, &[&str])] = &[
    ("[[site]\nroot = \"ROOT\"\n", "1:8", &[]),
    ("[server]\ncores = \n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT\"\n", "2:9", &[]),
    ("[[site]]\nlisten = [\"127.0.0.1:0\"]\nrot = \"ROOT\"\nroot = \"ROOT\"\n", "3:1", &["rot", "root"]),
    (
        "[limtis]\nranges = 5\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT\"\n",
        "1:2",
        &["limtis", "limits"],
    ),
    (
        "[limits]\nrange = 5\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT\"\n",
        "2:1",
        &["range", "ranges"],
    ),
    ("[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = 5\n", "3:8", &["root"]),
    ("[[site]]\nlisten = \"127.0.0.1:0\"\nroot = \"ROOT\"\n", "2:10", &["listen"]),
    ("[[site]]\nlisten = [\"127.0.0.1:0\", \"here\"]\nroot = \"ROOT\"\n", "2:26", &["here"]),
    ("[[site]]\nlisten = []\nroot = \"ROOT\"\n", "2:10", &["listen"]),
    (
        "[limits]\nheader_timeout = \"soon\"\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT\"\n",
        "2:18",
        &["soon", "10s"],
    ),
    (
        "[limits]\nheader_timeout = 10\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT\"\n",
        "2:18",
        &["header_timeout"],
    ),
    (
        "[limits]\nbody_bytes = -1\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT\"\n",
        "2:14",
        &["body_bytes"],
    ),
    ("[cache]\nenabled = 1\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT\"\n", "2:11", &["enabled"]),
    (
        "[access_log]\nformat = \"comon\"\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT\"\n",
        "2:10",
        &["comon", "common"],
    ),
    ("[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT\"\nroot = \"ROOT\"\n", "4:1", &["duplicate"]),
    (
        "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT/missing\"\n",
        "3:8",
        &["missing", "does not exist"],
    ),
    (
        "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT/page.html\"\n",
        "3:8",
        &["page.html", "not a directory"],
    ),
    (
        "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT\"\nsymlinks = \"outside\"\n",
        "4:12",
        &["outside", "inside"],
    ),
    ("[[site]]\nroot = \"ROOT\"\n", "1:1", &["listen"]),
    ("[[site]]\nlisten = [\"127.0.0.1:0\"]\n", "1:1", &["root"]),
    (
        "# fünf\n[server]\ncores = \"zwölf\" # wo\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"ROOT\"\n",
        "3:9",
        &["cores"],
    ),
];

#[test]
fn mistakes_in_a_configuration_are_placed() {
    let tree = Tree::standard();
    let root = tree.root();
    let failures: Vec<String> = MISTAKES
        .iter()
        .filter_map(|(text, place, words)| {
            let text = text.replace("ROOT", root.to_str().expect("text"));
            let why = check_mistake(&tree, &text, place, words).err()?;
            Some(format!("{why} for\n{text}"))
        })
        .collect();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), MISTAKES.len(), failures.join("\n"));
}

fn check_mistake(tree: &Tree, text: &str, place: &str, words: &[&str]) -> Result<(), String> {
    let (output, path) = serve_with(tree, text);
    let lines = error_lines(&output);
    if output.status.code() != Some(2) || lines.len() != 1 {
        return Err(format!("{} and not one line but {lines:?}", output.status));
    }
    if !lines[0].starts_with(&format!("{path}:{place}: ")) {
        return Err(format!("not at {place}: {:?}", lines[0]));
    }
    if let Some(word) = words.iter().find(|word| !lines[0].contains(**word)) {
        return Err(format!("{word:?} is not in {:?}", lines[0]));
    }
    // `check` prints the same, with the exit code of a failed check.
    let checked = run(["check", "--config", &path]);
    if checked.status.code() != Some(1) || error_lines(&checked) != lines {
        return Err(format!("`check` says {:?} and {}", error_lines(&checked), checked.status));
    }
    Ok(())
}

#[test]
fn check_finds_nothing_wrong_with_what_is_right() {
    let tree = Tree::standard();
    let path = tree.beside("touchstone.toml");
    fs::write(&path, tree.configuration("[limits]\nranges = 5\n")).expect("written");
    let output = run(["check".as_ref(), "--config".as_ref(), path.as_os_str()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{:?}", error_lines(&output));
    // It only checks: a server on the same port is not disturbed, and no log is created.
    let log = tree.beside("access.log");
    let server =
        Server::configured(tree.around(), &tree.configuration(&format!("[access_log]\npath = {log:?}\n")));
    let address = server.address().to_string();
    fs::remove_file(&log).expect("the server made it");
    let text = fs::read_to_string(&path).expect("it was written").replace("127.0.0.1:0", &address);
    let other = tree.beside("other.toml");
    fs::write(&other, text).expect("written");
    let output = run(["check".as_ref(), "--config".as_ref(), other.as_os_str()]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    assert!(!log.exists(), "check made a log file");
    server.assert_serves("/second.txt", crate::support::SECOND.as_bytes());
}

#[test]
fn check_says_all_mistakes_at_once() {
    let tree = Tree::standard();
    let path = tree.beside("touchstone.toml");
    fs::write(&path, "[limits]\nranges = \"x\"\nbody_bytes = true\n[[site]]\nrot = 5\nlisten = [\"here\"]\n")
        .expect("written");
    let output = run(["check".as_ref(), "--config".as_ref(), path.as_os_str()]);
    assert_eq!(output.status.code(), Some(1));
    let lines = error_lines(&output);
    for place in [":2:", ":3:", ":5:", ":6:"] {
        let placed = format!("{}{place}", path.display());
        assert!(lines.iter().any(|line| line.starts_with(&placed)), "{placed} begins none of {lines:?}");
    }
    let output = run(["check".as_ref(), "--json".as_ref(), "--config".as_ref(), path.as_os_str()]);
    assert_eq!(output.status.code(), Some(1));
    let problems: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(problems.as_array().expect("an array").len(), lines.len());
    assert!(
        problems[0]["line"].is_u64() && problems[0]["column"].is_u64() && problems[0]["message"].is_string()
    );
}

#[test]
fn check_reads_certificates_and_keys() {
    let tree = Tree::standard();
    let made = |name: &str| {
        let own = rcgen::generate_simple_self_signed(["localhost".to_string()]).expect("a certificate");
        let (chain, key) = (tree.beside(&format!("{name}.pem")), tree.beside(&format!("{name}.key")));
        fs::write(&chain, own.cert.pem()).expect("written");
        fs::write(&key, own.signing_key.serialize_pem()).expect("written");
        (chain, key)
    };
    let ((chain, key), (_, other_key)) = (made("a"), made("b"));
    let missing = tree.beside("missing.pem");
    let check = |keys: &str| {
        let path = tree.beside("touchstone.toml");
        fs::write(&path, format!("{}{keys}", tree.configuration(""))).expect("written");
        // The file is an argument too.
        let output = run(["check".as_ref(), path.as_os_str()]);
        (output.status.code(), error_lines(&output))
    };
    assert_eq!(check(&format!("certificate = {chain:?}\nkey = {key:?}\n")), (Some(0), Vec::new()));
    for (keys, said) in [
        (format!("certificate = {missing:?}\nkey = {key:?}\n"), "'certificate': "),
        (format!("certificate = {chain:?}\nkey = {missing:?}\n"), "'key': "),
        (format!("certificate = {chain:?}\nkey = {other_key:?}\n"), "is not the key of the certificate"),
        (format!("certificate = {key:?}\nkey = {key:?}\n"), "holds no certificate"),
        (
            format!("certificate = {chain:?}\nkey = {key:?}\nclient_authorities = {missing:?}\n"),
            "'client_authorities': ",
        ),
    ] {
        let (code, lines) = check(&keys);
        assert_eq!((code, lines.len()), (Some(1), 1), "{lines:?}");
        assert!(lines[0].contains(said) && lines[0].contains("touchstone.toml:"), "{lines:?}");
    }
}

#[test]
fn a_start_says_where_it_listens() {
    let tree = Tree::standard();
    let mut server = Server::quick(&tree.root());
    let address = server.address();
    assert_ne!(address.port(), 0, "the real port");
    let expected = format!("listening on http://{address}");
    let lines: Vec<String> = server.error_text().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].ends_with(&expected), "{lines:?}");
    assert!(server.output_lines().is_empty(), "standard output is for what was asked for");
    server.stop();
}

#[test]
fn several_listeners_each_with_its_port() {
    let tree = Tree::standard();
    let text = tree.configuration("").replace("[\"127.0.0.1:0\"]", "[\"127.0.0.1:0\", \"127.0.0.2:0\"]");
    let server = Server::configured(tree.around(), &text);
    server.wait_for_error_line("names the second listener", |line| line.contains("http://127.0.0.2:"));
    let addresses = server.announced_addresses();
    assert_eq!(addresses.len(), 2, "{addresses:?}");
    for address in addresses {
        let mut client = crate::support::Client::connect(address);
        assert_eq!(client.ask("GET /second.txt HTTP/1.0\r\n\r\n").status, 200, "{address}");
    }
}

#[test]
fn included_files_are_checked_served_and_taken_up_by_a_reload() {
    let tree = Tree::standard();
    let conf_d = tree.beside("conf.d");
    fs::create_dir(&conf_d).expect("a directory");
    let site = |name: &str, body: &str| {
        let route = format!("[[site.route]]\npath = \"/\"\nrespond = {{ body = \"{body}\" }}\n");
        let text = format!("{}hosts = [\"{name}.example\"]\n{route}", tree.configuration(""));
        fs::write(conf_d.join(format!("{name}.toml")), text).expect("a file");
    };
    site("one", "first");
    let control = tree.beside("control.sock");
    let main = format!(
        "include = [\"conf.d/*.toml\"]\n[server]\ncontrol_socket = \"{}\"\n{}",
        control.display(),
        tree.configuration("")
    );
    let server = Server::configured(tree.around(), &main);
    let body = |host: &str| {
        let answers = server.announced_addresses().into_iter().map(|address| {
            let request = format!("GET /second.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
            crate::support::Client::connect(address).ask(request).body
        });
        answers.collect::<Vec<_>>()
    };
    assert!(body("one.example").contains(&b"first".to_vec()), "{:?}", body("one.example"));
    let file = tree.beside("touchstone.toml");
    let file = file.to_str().expect("text");
    fs::write(conf_d.join("two.toml"), "[[site]]\nrot = 1\n").expect("a file");
    for command in ["check", "reload"] {
        let refused = run([command, "--config", file]);
        let lines = error_lines(&refused).join("\n");
        assert!(
            refused.status.code() == Some(1) && lines.contains("conf.d/two.toml:2:1: unknown key"),
            "{lines}"
        );
    }
    fs::remove_file(conf_d.join("two.toml")).expect("it was there");
    site("one", "second");
    let reloaded = run(["reload", "--config", file]);
    assert!(reloaded.status.success(), "{:?}", error_lines(&reloaded));
    assert!(body("one.example").contains(&b"second".to_vec()), "{:?}", body("one.example"));
}

#[test]
fn ipv6_if_there_is_any() {
    if TcpListener::bind("[::1]:0").is_err() {
        skipped("IPv6 (this machine has none)");
        return;
    }
    let tree = Tree::standard();
    let root = tree.root();
    let root = root.to_str().expect("text");
    let server = Server::start(["--root", root, "--listen", "[::1]:0", "--access-log", "off"]);
    server.assert_serves("/second.txt", crate::support::SECOND.as_bytes());
}

#[test]
fn any_number_of_cores_serves() {
    let tree = Tree::standard();
    let root = tree.root();
    let root = root.to_str().expect("text");
    for cores in ["1", "2", "5"] {
        let mut server = Server::start([
            "--root",
            root,
            "--listen",
            "127.0.0.1:0",
            "--access-log",
            "off",
            "--cores",
            cores,
        ]);
        for _ in 0..20 {
            server.assert_serves("/second.txt", crate::support::SECOND.as_bytes());
        }
        server.stop();
    }
}

#[test]
fn every_command_and_flag_is_explained() {
    let help = help_of(&["--help"]);
    let commands = listed_commands(&help);
    for command in ["serve", "check"] {
        assert!(commands.iter().any(|each| each == command), "{command} is not in:\n{help}");
    }
    for command in commands {
        if command == "help" {
            continue;
        }
        let help = help_of(&[&command, "--help"]);
        assert!(help.len() > 100, "{command} --help says next to nothing:\n{help}");
        let unexplained = unexplained_flags(&help);
        assert!(unexplained.is_empty(), "{command} --help does not explain {unexplained:?}:\n{help}");
        // The short form is help too.
        assert!(!help_of(&[&command, "-h"]).is_empty());
    }
    let serve = help_of(&["serve", "--help"]);
    for flag in
        ["--config", "--root", "--listen", "--cores", "--access-log", "--access-log-format", "--error-log"]
    {
        assert!(serve.contains(flag), "serve --help does not name {flag}:\n{serve}");
    }
    for signal in ["SIGTERM", "SIGHUP", "SIGUSR1"] {
        assert!(serve.contains(signal), "serve --help does not name {signal}");
    }
}

#[test]
fn the_version_is_said() {
    let output = run(["--version"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.trim(), format!("touchstone {}", env!("CARGO_PKG_VERSION")));
}

fn help_of(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {:?}", error_lines(&output));
    assert!(output.stderr.is_empty(), "{arguments:?}: help is output, not an error");
    String::from_utf8(output.stdout).expect("text")
}

/// The names under `Commands:`, each of which must have an explanation beside it.
fn listed_commands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| line.trim() != "Commands:").skip(1);
    list.take_while(|line| line.starts_with(' '))
        .filter(|line| indentation(line) == 2)
        .map(|line| {
            let (name, explanation) = line.trim().split_once(' ').unwrap_or_default();
            assert!(!explanation.trim().is_empty(), "a command without an explanation: {line}");
            name.to_owned()
        })
        .collect()
}

/// Flags and arguments with neither text on their own line nor a line further in below it.
fn unexplained_flags(help: &str) -> Vec<String> {
    let lines: Vec<&str> = help.lines().collect();
    let is_entry = |line: &str| {
        matches!(line.trim_start().chars().next(), Some('-' | '<' | '['))
            && (1..=6).contains(&indentation(line))
    };
    let mut unexplained = Vec::new();
    for (position, line) in lines.iter().enumerate().filter(|(_, line)| is_entry(line)) {
        let beside = line.trim_start().split_once("  ").is_some_and(|(_, text)| !text.trim().is_empty());
        let below = lines.get(position + 1).is_some_and(|next| {
            !next.trim().is_empty()
                && indentation(next) > indentation(line)
                && !next.trim_start().starts_with('[')
        });
        if !beside && !below {
            unexplained.push(line.trim().to_owned());
        }
    }
    unexplained
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[test]
fn no_command_is_proposed_that_only_the_server_starts() {
    for (mistyped, meant) in [("serv", "serve"), ("servle", "serve"), ("agnt", "agent")] {
        let output = run([mistyped]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(&format!("'{meant}'")) && !errors.contains("-host"), "{mistyped}: {errors}");
    }
}
