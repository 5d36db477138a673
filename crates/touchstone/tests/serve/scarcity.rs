//! Missing resources of the server: descriptors, processes, memory, names, an origin that answers, UDP, a
//! correct clock. The table in docs/running.md describes the effects; a test compares the names of these
//! tests with it.

use std::cell::Cell;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{
    AnswerTo, Client, Origin, Server, Tree, binary, parse_http_date, skipped, unix_now, wait_until,
    write_program,
};

/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A control group; it is removed with the test.
struct Group(PathBuf);

impl Group {
    /// One whose `controller` has this limit in the file of version 1 or of version 2; `None`, with a visible
    /// message, if that is not permitted.
    fn with(controller: &str, files: (&str, &str), limit: &str) -> Option<Group> {
        let root = Path::new("/sys/fs/cgroup");
        let of_version_1 = root.join(controller);
        let (parent, file) = match of_version_1.join("cgroup.procs").exists() {
            true => (of_version_1, files.0),
            false => (root.to_path_buf(), files.1),
        };
        let group = Group(parent.join(format!("touchstone-scarcity-{controller}-{}", std::process::id())));
        if fs::create_dir(&group.0).is_ok() && fs::write(group.0.join(file), limit).is_ok() {
            return Some(group);
        }
        skipped(&format!("a server in a control group of {controller} (only root can make one)"));
        None
    }

    /// A command that becomes the server with this configuration as soon as it is in the group.
    fn server(&self, configuration: &Path) -> Server {
        let mut command = Command::new("sh");
        let program = binary().get_program().to_owned();
        command.arg("-c").arg("echo $$ >\"$2\"; exec \"$0\" serve --config \"$1\"").arg(program);
        command.arg(configuration).arg(self.0.join("cgroup.procs")).stdin(Stdio::null());
        Server::start_piped(command)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It can be removed a moment after its last process was reaped.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Starts a server of `tree` below a limit of the shell's `ulimit`.
fn limited(tree: &Tree, limit: &str, sections: &str) -> Server {
    let configuration = tree.beside("touchstone.toml");
    fs::write(&configuration, tree.configuration(sections)).expect("the configuration is written");
    let mut command = Command::new("sh");
    let program = binary().get_program().to_owned();
    command.arg("-c").arg(format!("ulimit {limit}; exec \"$0\" serve --config \"$1\""));
    command.arg(program).arg(configuration).stdin(Stdio::null());
    Server::start_piped(command)
}

#[test]
fn no_descriptors_are_left() {
    let tree = Tree::standard();
    let server = limited(&tree, "-n 128", "[server]\ncores = 1\n");
    let connect = |_| TcpStream::connect_timeout(&server.address(), Duration::from_secs(10)).ok();
    let held: Vec<TcpStream> = (0..200).filter_map(connect).collect();
    assert!(held.len() > 100, "the kernel takes connections that the server has not accepted");
    let said = |line: &str| line.contains("cannot accept a connection") && line.contains("open files");
    server.wait_for_error_line("says that no descriptor is left", said);
    drop(held);
    // Connections that wait are accepted in their order: with this one, all of those that were held.
    wait_until("the held connections are closed", PATIENCE, || {
        Client::try_connect(server.address()).is_ok_and(|mut client| {
            client.try_send(b"GET /second.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").is_ok()
                && client.try_answer(AnswerTo::Other).is_ok_and(|answer| answer.status == 200)
        })
    });
    server.assert_serves_many("/second.txt", "descriptors are there again");
    let complaints = server.error_text().lines().filter(|line| said(line)).count();
    assert!(complaints < 100, "{complaints} lines of complaint");
}

#[test]
fn a_name_of_an_origin_is_not_resolved() {
    let tree = Tree::standard();
    let sections = "[[site.route]]\npath = \"/app/\"\n[site.route.proxy]\nto = \"http://origin.invalid:80\"\n\
                    resolve_timeout = \"500ms\"\n";
    let text = format!("{}{sections}", tree.configuration("[server]\ncores = 1\n"));
    let server = Server::configured(tree.around(), &text);
    let status = server.get("/app/x").status;
    assert!([502, 503, 504].contains(&status), "{status}");
    server.wait_for_error_line("names the origin", |line| line.contains("origin.invalid"));
    server.assert_serves("/alphabet.txt", crate::support::ALPHABET.as_bytes());
}

#[test]
fn an_origin_swallows_connections() {
    // A listener whose queue is full takes no connection and refuses none: as a network that drops packets.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has an address");
    rustix::net::listen(&listener, 0).expect("the queue is made short");
    let held: Vec<_> = (0..64)
        .map_while(|_| TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok())
        .collect();
    let tree = Tree::standard();
    let route = format!(
        "[[site.route]]\npath = \"/app/\"\n[site.route.proxy]\nto = \"http://{address}\"\n\
         connect_timeout = \"300ms\"\n"
    );
    let text = format!("{}{route}", tree.configuration("[server]\ncores = 1\n"));
    let server = Server::configured(tree.around(), &text);
    assert_eq!(server.get("/app/x").status, 504);
    server.wait_for_error_line("names the origin", |line| line.contains(&address.to_string()));
    server.assert_serves("/alphabet.txt", crate::support::ALPHABET.as_bytes());
    drop(held);
}

#[test]
fn no_more_processes_can_be_started() {
    let Some(group) = Group::with("pids", ("pids.max", "pids.max"), "max") else { return };
    let tree = Tree::standard();
    let program = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nhello'\n";
    write_program(&tree.file("cgi-bin/hello"), program);
    let sections = "[server]\ncores = 1\n";
    let route = "[[site.route]]\npath = \"/cgi-bin/\"\ncgi = {}\n";
    let configuration = tree.beside("touchstone.toml");
    fs::write(&configuration, format!("{}{route}", tree.configuration(sections))).expect("it is written");
    let server = group.server(&configuration);
    assert_eq!(server.get("/cgi-bin/hello").status, 200);
    // Running requests may continue.
    fs::write(group.0.join("pids.max"), "1").expect("the group is limited");
    let status = server.get("/cgi-bin/hello").status;
    assert_eq!(status, 503, "a program that cannot be started now");
    server.wait_for_error_line("names the program", |line| line.contains("hello"));
    server.assert_serves("/alphabet.txt", crate::support::ALPHABET.as_bytes());
    fs::write(group.0.join("pids.max"), "max").expect("the group is not limited any more");
    assert_eq!(server.get("/cgi-bin/hello").status, 200);
}

#[test]
fn stored_responses_stay_within_a_group_of_little_memory() {
    const LIMIT: &str = "201326592";
    let files = ("memory.limit_in_bytes", "memory.max");
    let Some(group) = Group::with("memory", files, LIMIT) else { return };
    const BODY_BYTES: usize = 1 << 20;
    let head =
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    let answer = [head.into_bytes(), vec![b'x'; BODY_BYTES]].concat();
    let origin = Origin::answering(answer.leak());
    let tree = Tree::standard();
    let configuration = tree.beside("touchstone.toml");
    let sections = "[server]\ncores = 1\n[accelerator]\nmemory = \"48MiB\"\n";
    let text = format!("{}{}cache = {{}}\n", tree.configuration(sections), origin.keys(""));
    fs::write(&configuration, text).expect("the configuration is written");
    let server = group.server(&configuration);
    // Twice what the group has.
    for number in 0..384 {
        let response = server.get(&format!("/app/{number}"));
        assert!(response.status == 200 && response.body.len() == BODY_BYTES, "{number}: {}", response.status);
    }
    // The kernel would have ended it.
    server.assert_serves("/alphabet.txt", crate::support::ALPHABET.as_bytes());
}

#[test]
fn the_clock_is_set_back_a_year() {
    let library = Path::new("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1");
    if !library.exists() {
        return skipped("a clock that is set back (install faketime)");
    }
    let origin =
        Origin::answering(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 5\r\n\r\nhello");
    let tree = Tree::standard();
    let clock = tree.beside("clock");
    // A look at the clock sees one whole file or the other.
    let set_clock = |offset: &str| {
        fs::write(tree.beside("clock.new"), offset).expect("the clock is written");
        fs::rename(tree.beside("clock.new"), &clock).expect("the clock is set");
    };
    set_clock("+0");
    let mut command = binary();
    command.args(["accelerate", "--origin", &format!("http://{}", origin.address)]);
    command.args(["--listen", "127.0.0.1:0"]).stdin(Stdio::null());
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &clock).env("FAKETIME_NO_CACHE", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1");
    let server = Server::start_piped(command);
    let ages = Cell::new(0);
    let ask = |target: &str| {
        let response = server.get(target);
        assert_eq!((response.status, &response.body[..]), (200, &b"hello"[..]));
        let age = response.field("Age").map_or(0, |age| age.parse::<u32>().expect("a number of seconds"));
        ages.set(ages.get().max(age));
        response.field("Date").and_then(parse_http_date).expect("a date")
    };
    // What is stored keeps its date.
    ask("/stored");
    let asked = Cell::new(0);
    let date = || {
        asked.set(asked.get() + 1);
        ask("/stored");
        ask(&format!("/{}", asked.get()))
    };
    let is_set = |days: i64| (unix_now() - days * 86_400).abs_diff(date()) < 3600;
    assert!(is_set(0));
    set_clock("-365d");
    wait_until("the date is that of the clock", PATIENCE, || is_set(365));
    // A request that is answered while the clock is set may have any age, others not.
    let assert_ages = || {
        ages.set(0);
        (0..20).for_each(|_| _ = date());
        assert!(ages.get() < 600, "stale: {} s", ages.get());
    };
    assert_ages();
    set_clock("+0");
    wait_until("the date is right again", PATIENCE, || is_set(0));
    assert_ages();
    assert!(!server.error_text().contains("panic"), "{}", server.error_text());
}

/// Starts a server with this configuration in a network of its own, in which the kernel drops packets by this
/// rule of nftables; `None`, with a visible message, if that is not permitted.
fn in_a_network(what: &str, rule: &str, configuration: &Path) -> Option<Server> {
    let network = format!(
        "ip link set lo up && nft add table inet t && \
         nft 'add chain inet t input {{ type filter hook input priority 0; }}' && \
         nft 'add rule inet t input {rule} drop'"
    );
    let mut attempt = Command::new("unshare");
    attempt.args(["--net", "sh", "-c", &network]).env("PATH", PATH);
    attempt.stdout(Stdio::null()).stderr(Stdio::null());
    if !attempt.status().is_ok_and(|status| status.success()) {
        skipped(&format!("{what} (only root can do that; install iproute2, nftables)"));
        return None;
    }
    let script = format!("{network} && exec \"$0\" serve --config \"$1\"");
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &script]).arg(binary().get_program()).arg(configuration);
    command.stdin(Stdio::null()).env("PATH", PATH);
    Some(Server::start_piped(command))
}

/// A command in the network of a server.
fn beside(server: &Server, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{}/ns/net", server.process())).env("PATH", PATH).arg(program);
    command
}

/// Four connections, a fifth, an answer on one of the four, and a new one when they have ended.
const FIVE_CONNECTIONS: &str = r#"
    for number in 3 4 5 6; do eval "exec $number<>/dev/tcp/127.0.0.1/8080"; done
    if timeout 2 bash -c ': <>/dev/tcp/127.0.0.1/8080'; then echo taken; else echo dropped; fi
    printf 'GET /second.txt HTTP/1.1\r\nHost: a\r\n\r\n' >&3
    head -n 1 <&3
    for number in 3 4 5 6; do eval "exec $number>&-"; done
    for try in $(seq 30); do
        curl --silent --show-error --max-time 2 http://127.0.0.1:8080/second.txt && break
    done
"#;

/// The limit of the kernel's own table is for the whole machine, so a rule does what a full table does: the
/// first packets of connections that are too many are dropped before the server gets them.
#[test]
fn the_table_of_connections_is_full() {
    let tree = Tree::standard();
    let configuration = tree.beside("touchstone.toml");
    let text = format!(
        "[server]\ncores = 1\n[limits]\nheader_timeout = \"600s\"\n\
         [[site]]\nlisten = [\"127.0.0.1:8080\"]\nroot = {:?}\n",
        tree.root()
    );
    fs::write(&configuration, text).expect("the configuration is written");
    let rule = "tcp dport 8080 ct state new ct count over 4";
    let what = "connections that the kernel drops";
    let Some(server) = in_a_network(what, rule, &configuration) else { return };
    let output = beside(&server, "bash").args(["-c", FIVE_CONNECTIONS]).output().expect("nsenter is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = format!("dropped\nHTTP/1.1 200 OK\r\n{}", crate::support::SECOND);
    assert_eq!(said, expected, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!server.error_text().contains("cannot accept"), "{}", server.error_text());
}

#[test]
fn udp_is_blocked() {
    let tree = Tree::standard();
    let configuration = tree.beside("touchstone.toml");
    let text = format!(
        "[server]\ncores = 1\n[[site]]\nlisten = [\"127.0.0.1:8443\"]\nroot = {:?}\n\
         development_certificate = true\nhttp3 = true\n",
        tree.root()
    );
    fs::write(&configuration, text).expect("the configuration is written");
    let Some(server) = in_a_network("UDP that is blocked", "meta l4proto udp", &configuration) else {
        return;
    };
    let output = beside(&server, "curl")
        .args(["--silent", "--show-error", "--insecure", "--http2", "--max-time", "60", "--include"])
        .arg(format!("https://{}/second.txt", server.address()))
        .output()
        .expect("nsenter is part of every Linux system");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("HTTP/2 200"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.to_ascii_lowercase().contains("alt-svc: h3"), "{said}");
    assert!(said.ends_with(crate::support::SECOND), "{said}");
}

/// Where the tools of the tests are.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The table names a test for each row, and the test is there.
#[test]
fn the_table_names_tests_that_are_there() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(top.join("docs/running.md")).expect("the page is there");
    let table = page.split("## Missing resources").nth(1).expect("the section is there");
    let table = table.split("\n## ").next().expect("the section has an end");
    let mut rows = 0;
    for line in table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| resource |")) {
        let named = line.split('`').rfind(|word| word.contains("::"));
        let named = named.unwrap_or_else(|| panic!("no test in the row {line}"));
        let (file, test) = named.rsplit_once("::").expect("FILE::TEST");
        let source = fs::read_to_string(top.join("crates").join(file)).expect(file);
        assert!(source.contains(&format!("fn {test}(")), "{file} has no test {test}");
        rows += 1;
    }
    assert!(rows >= 8, "{rows} rows");
}
