//! Logs of sites and routes, conditions and samples, syslog, the journal, and JSON.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Origin, Server, Tree, free_port, run, skipped, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

fn site(tree: &Tree, keys: &str) -> String {
    tree.configuration("") + keys
}

fn get(server: &Server, host: &str, target: &str) -> u16 {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    server.connect().ask(request).status
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_string).collect()
}

fn targets(path: &Path) -> Vec<String> {
    let target = |line: &String| line.split('"').nth(1)?.split(' ').nth(1).map(str::to_string);
    // Lines of one core are in order, but several cores accept connections.
    let mut targets: Vec<String> = lines(path).iter().filter_map(target).collect();
    targets.sort();
    targets
}

#[test]
fn a_request_has_its_line_in_one_log() {
    let tree = Tree::empty();
    for name in ["a.txt", "shop/a.txt", "quiet/a.txt"] {
        tree.write(name, "a");
    }
    // Both sites on one address.
    let port = free_port();
    let of_hosts = |hosts: &str, keys: &str| {
        format!(
            "[[site]]\nlisten = [\"127.0.0.1:{port}\"]\nroot = \"{}\"\nhosts = [{hosts}]\n{keys}\n",
            tree.root().display()
        )
    };
    let own = "access_log = \"own.log\"\n\
               [[site.route]]\npath = \"/shop/\"\naccess_log = { path = \"shop.log\", format = \"json\" }\n\
               [[site.route]]\npath = \"/quiet/\"\naccess_log = \"off\"\n";
    let sites = of_hosts("", "") + &of_hosts("\"own.example\"", own);
    let text = format!("[access_log]\npath = \"common.log\"\n{sites}");
    let mut server = Server::configured(tree.around(), &text);
    // Twice, so that the second answer is from the cache.
    for host in ["any.example", "own.example"] {
        for target in ["/a.txt", "/a.txt", "/shop/a.txt", "/shop/a.txt", "/quiet/a.txt", "/quiet/none"] {
            get(&server, host, target);
        }
    }
    server.stop();
    assert_eq!(
        targets(&tree.beside("common.log")),
        ["/a.txt", "/a.txt", "/quiet/a.txt", "/quiet/none", "/shop/a.txt", "/shop/a.txt"]
    );
    assert_eq!(targets(&tree.beside("own.log")), ["/a.txt", "/a.txt"]);
    let shop: Vec<Value> =
        lines(&tree.beside("shop.log")).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(shop.len(), 2);
    assert_eq!(shop[0]["target"], "/shop/a.txt");
    assert_eq!(shop[1]["site"], "own.example");
}

#[test]
fn a_reload_opens_and_closes_logs() {
    let tree = Tree::empty();
    tree.write("a.txt", "a");
    let first = site(&tree, "access_log = \"one.log\"\n");
    let mut server = Server::configured(tree.around(), &first);
    get(&server, "a", "/a.txt?1");
    let file = tree.around().join("touchstone.toml");
    assert!(file.exists(), "{}", file.display());
    fs::write(&file, site(&tree, "access_log = \"two.log\"\n")).unwrap();
    server.signal(Signal::HUP);
    server.wait_for_error_line("the reload", |line| line.contains("applied"));
    get(&server, "a", "/a.txt?2");
    wait_until("the line is written", PATIENCE, || !targets(&tree.beside("two.log")).is_empty());
    // Rotation.
    fs::rename(tree.beside("two.log"), tree.beside("two.log.1")).unwrap();
    server.signal(Signal::USR1);
    wait_until("the log is opened again", PATIENCE, || tree.beside("two.log").exists());
    get(&server, "a", "/a.txt?3");
    server.stop();
    assert_eq!(targets(&tree.beside("one.log")), ["/a.txt?1"]);
    assert_eq!(targets(&tree.beside("two.log.1")), ["/a.txt?2"]);
    assert_eq!(targets(&tree.beside("two.log")), ["/a.txt?3"]);
}

#[test]
fn conditions_and_samples() {
    let tree = Tree::empty();
    tree.write("a.txt", "a");
    let log = |name: &str, more: &str| format!("access_log = {{ path = \"{name}\", {more} }}\n");
    let routes = format!(
        "[[site.route]]\npath = \"/sampled/\"\nrespond = {{ status = 200 }}\n{}\
         [[site.route]]\npath = \"/failed/\"\nrespond = {{ status = 503 }}\n{}\
         [[site.route]]\npath = \"/\"\n{}",
        log("sampled.log", "sample = 5"),
        log("failed.log", "sample = 5"),
        log("some.log", "when = '$status >= 400 or $arg{log} == \"1\"'"),
    );
    let mut server = Server::configured(tree.around(), &site(&tree, &routes));
    let mut client = server.connect();
    for number in 0..10 {
        for path in ["sampled", "failed"] {
            client.ask(format!("GET /{path}/{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        }
    }
    drop(client);
    for target in ["/a.txt", "/a.txt?log=1", "/a.txt?log=0", "/none"] {
        get(&server, "a", target);
    }
    server.stop();
    assert_eq!(targets(&tree.beside("sampled.log")), ["/sampled/0", "/sampled/5"]);
    assert_eq!(targets(&tree.beside("failed.log")).len(), 10);
    assert_eq!(targets(&tree.beside("some.log")), ["/a.txt?log=1", "/none"]);
}

#[test]
fn a_wrong_condition_is_told_with_its_place() {
    let tree = Tree::empty();
    let file = tree.beside("wrong.toml");
    let log = "access_log = { path = \"a.log\", when = \"$status >= 400 and $http_x_a\" }\n";
    fs::write(&file, site(&tree, log)).unwrap();
    let output = run(["check", "--config", file.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("did you mean '$header{x-a}'?"), "{told}");
}

/// The text of a message of RFC 5424.
fn text_of(message: &str) -> &str {
    message.splitn(8, ' ').nth(7).unwrap_or_default()
}

#[test]
fn syslog_by_datagrams_udp_and_tcp() {
    let tree = Tree::empty();
    tree.write("a.txt", "a");
    let local = UnixDatagram::bind(tree.beside("log.socket")).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    local.set_read_timeout(Some(PATIENCE)).unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    let routes = format!(
        "[site.access_log]\npath = \"syslog:{}\"\nformat = \"common\"\n\
         facility = \"local7\"\ntag = \"shop\"\n\
         [[site.route]]\npath = \"/udp\"\nrespond = {{ body = \"\" }}\naccess_log = \"syslog:udp:{}\"\n\
         [[site.route]]\npath = \"/tcp\"\nrespond = {{ body = \"\" }}\naccess_log = \"syslog:tcp:{}\"\n",
        tree.beside("log.socket").display(),
        udp.local_addr().unwrap(),
        tcp.local_addr().unwrap(),
    );
    let mut server = Server::configured(tree.around(), &site(&tree, &routes));
    for target in ["/a.txt", "/udp", "/tcp"] {
        get(&server, "a", target);
    }
    let mut buffer = [0; 4096];
    let length = local.recv(&mut buffer).unwrap();
    let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
    assert!(message.starts_with("<190>1 2"), "{message}");
    assert!(message.contains(" shop ") && text_of(&message).starts_with("127.0.0.1 - - ["), "{message}");
    assert!(text_of(&message).ends_with("\"GET /a.txt HTTP/1.1\" 200 1"), "{message}");
    let length = udp.recv(&mut buffer).unwrap();
    let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
    assert!(message.starts_with("<30>1 ") && message.contains("GET /udp HTTP/1.1"), "{message}");
    let (mut stream, _) = tcp.accept().unwrap();
    server.stop();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    let (length, message) = all.split_once(' ').unwrap();
    assert_eq!(length.parse::<usize>().unwrap(), message.len(), "{all}");
    assert!(message.starts_with("<30>1 ") && message.contains("GET /tcp HTTP/1.1"), "{all}");
}

#[test]
fn rsyslog_reads_what_is_sent() {
    let tree = Tree::empty();
    let here = tree.around().display().to_string();
    let (udp, tcp) = (free_port(), free_port());
    let configuration = format!(
        "module(load=\"imudp\")\nmodule(load=\"imtcp\")\nmodule(load=\"imuxsock\" SysSock.Use=\"off\")\n\
         input(type=\"imudp\" port=\"{udp}\" address=\"127.0.0.1\" ruleset=\"all\")\n\
         input(type=\"imtcp\" port=\"{tcp}\" address=\"127.0.0.1\" ruleset=\"all\")\n\
         input(type=\"imuxsock\" Socket=\"{here}/dev.log\" UseSpecialParser=\"off\" ruleset=\"all\")\n\
         template(name=\"line\" type=\"string\" string=\"%inputname% %syslogfacility-text% \
         %syslogseverity-text% %protocol-version% %app-name% %msg%\\n\")\n\
         ruleset(name=\"all\") {{ action(type=\"omfile\" file=\"{here}/read.log\" template=\"line\") }}\n"
    );
    let file = tree.beside("rsyslog.conf");
    fs::write(&file, configuration).unwrap();
    let mut command = Command::new("rsyslogd");
    command.arg("-n").arg("-f").arg(&file).arg("-i").arg(tree.beside("rsyslog.pid")).stderr(Stdio::null());
    let Ok(mut rsyslog) = command.spawn() else {
        return skipped("syslog with rsyslog (install rsyslog)");
    };
    wait_until("rsyslog listens", PATIENCE, || {
        tree.beside("dev.log").exists() && TcpStream::connect(("127.0.0.1", tcp)).is_ok()
    });
    let log = |path: String, tag: &str| {
        format!("access_log = {{ path = \"{path}\", tag = \"{tag}\", format = \"$method $status\" }}\n")
    };
    let routes = format!(
        "{}[[site.route]]\npath = \"/tcp\"\nrespond = {{ status = 200 }}\n{}\
         [[site.route]]\npath = \"/unix\"\nrespond = {{ status = 200 }}\n{}",
        log(format!("syslog:udp:127.0.0.1:{udp}"), "udp"),
        log(format!("syslog:tcp:127.0.0.1:{tcp}"), "tcp"),
        log(format!("syslog:{here}/dev.log"), "unix")
    );
    let mut server = Server::configured(tree.around(), &site(&tree, &routes));
    for target in ["/none", "/tcp", "/unix"] {
        get(&server, "a", target);
    }
    server.stop();
    let wanted = [
        "imtcp daemon info 1 tcp GET 200",
        "imudp daemon info 1 udp GET 404",
        "imuxsock daemon info 1 unix GET 200",
    ];
    let mut read = Vec::new();
    wait_until("rsyslog has written", PATIENCE, || {
        read = lines(&tree.beside("read.log"));
        read.len() >= wanted.len()
    });
    let _ = rsyslog.kill();
    let _ = rsyslog.wait();
    read.sort();
    assert_eq!(read, wanted);
}

#[test]
fn the_journal_gets_fields() {
    let tree = Tree::empty();
    tree.write("a.txt", "a");
    let journal = UnixDatagram::bind(tree.beside("journal.socket")).unwrap();
    journal.set_read_timeout(Some(PATIENCE)).unwrap();
    let log = format!(
        "access_log = {{ path = \"journald:{}\", format = \"$method $status\" }}\n",
        tree.beside("journal.socket").display()
    );
    let server = Server::configured(tree.around(), &site(&tree, &log));
    get(&server, "a.example", "/a.txt?x=1");
    let mut buffer = [0; 4096];
    let length = journal.recv(&mut buffer).unwrap();
    let entry = String::from_utf8_lossy(&buffer[..length]).into_owned();
    for line in [
        "MESSAGE=GET 200",
        "PRIORITY=6",
        "SYSLOG_IDENTIFIER=touchstone",
        "TOUCHSTONE_LOG=access",
        "HTTP_CLIENT=127.0.0.1",
        "HTTP_TARGET=/a.txt?x=1",
        "HTTP_STATUS=200",
        "HTTP_HOST=a.example",
    ] {
        assert!(entry.lines().any(|written| written == line), "{line}\n{entry}");
    }
}

#[test]
fn what_goes_wrong_with_an_origin_is_in_the_log_of_its_route() {
    let tree = Tree::empty();
    let origin = Origin::start(|_| {});
    let routes = format!(
        "error_log = {{ path = \"site-errors.log\", format = \"json\" }}\n\
         [[site.route]]\npath = \"/a/\"\n{}\n\
         [[site.route]]\npath = \"/b/\"\nredirect = {{ to = \"https://$host/\" }}\n\
         error_log = \"route-errors.log\"\n",
        format_args!("proxy = {{ to = \"http://{}\", strip_prefix = \"/a\" }}", origin.address)
    );
    let mut server = Server::configured(tree.around(), &site(&tree, &routes));
    assert_eq!(get(&server, "a", "/a/x"), 502);
    // A redirect needs a host, and HTTP/1.0 may leave it out.
    let answer = server.connect().ask("GET /b/x HTTP/1.0\r\n\r\n");
    assert_eq!(answer.status, 400);
    server.stop();
    let of_site = lines(&tree.beside("site-errors.log"));
    let entry: Value = serde_json::from_str(&of_site[0]).unwrap();
    assert_eq!(entry["level"], "warning");
    assert!(entry["message"].as_str().unwrap().starts_with("origin http://"), "{of_site:?}");
    let of_route = lines(&tree.beside("route-errors.log"));
    assert!(of_route.iter().any(|line| line.contains("a redirect needs a host")), "{of_route:?}");
    assert!(!server.error_text().contains("origin http://"), "{}", server.error_text());
}
