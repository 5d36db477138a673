//! PHP from the outside: a real php-fpm, started by the server or by the test, with an application behind a
//! front controller (`tests/php`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{
    AnswerTo, Response, Server, Tree, bytes_of, curl, free_port, kill_while_asked, skipped, wait_until,
};
use rustix::process::{Pid, Signal, kill_process};

/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tree with the application; `None`, with a visible word, where there is no php-fpm.
fn application() -> Option<Tree> {
    if php_fpm().is_none() {
        skipped("PHP (install php-fpm)");
        return None;
    }
    let tree = Tree::empty();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/php");
    for name in ["index.php", "script.php"] {
        tree.write(name, fs::read(source.join("public").join(name)).unwrap());
    }
    fs::copy(source.join("application.php"), tree.beside("application.php")).unwrap();
    for directory in ["var", "downloads"] {
        fs::create_dir(tree.beside(directory)).unwrap();
    }
    tree.write("image.jpg", "<?php echo 'an image must not run';");
    tree.write("style.css", "body {}");
    tree.write("sub/index.php", "<?php echo 'sub ', $_SERVER['SCRIPT_NAME'];");
    tree.write(".hidden.php", "<?php echo 'hidden';");
    fs::write(tree.beside("downloads/report.txt"), "the report\n").unwrap();
    Some(tree)
}

/// The php-fpm of this machine.
fn php_fpm() -> Option<String> {
    let names =
        std::iter::once("php-fpm".to_string()).chain((0..=9).rev().map(|minor| format!("php-fpm8.{minor}")));
    let directories = ["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"];
    names
        .flat_map(|name| directories.map(|directory| format!("{directory}/{name}")))
        .find(|path| Path::new(path).exists())
}

/// A server of the tree that starts its own php-fpm.
fn managed(tree: &Tree, keys: &str) -> Server {
    // As root, php-fpm requires a user, and other users cannot read the tests' directories.
    let user = if rustix::process::geteuid().is_root() { "user = \"root\"\n" } else { "" };
    let downloads = tree.beside("downloads");
    let route = format!(
        "[[site.route]]\n[site.route.php]\n{user}send_files_from = {downloads:?}\n\
         settings = {{ upload_max_filesize = \"200M\", post_max_size = \"200M\" }}\n{keys}\n"
    );
    Server::configured(tree.around(), &(tree.configuration("[limits]\nbody_bytes = \"300MiB\"") + &route))
}

const FRONT: &str = "processes = 3\nfront_controller = \"/index.php\"";

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

#[test]
fn a_front_controller_routes_all_paths_that_are_no_file() {
    let Some(tree) = application() else { return };
    let server = managed(&tree, FRONT);
    for (target, status, expected) in [
        ("/", 200, "<!DOCTYPE html><title>Home</title><h1>It works</h1>\n"),
        ("/articles/7?page=2", 200, "{\"article\":7,\"page\":\"2\"}\n"),
        ("/nowhere", 404, "no route for GET /nowhere\n"),
        ("/missing.php", 404, "no route for GET /missing.php\n"),
        ("/image.jpg/x.php", 404, "no route for GET /image.jpg/x.php\n"),
        ("/style.css", 200, "body {}"),
        ("/image.jpg", 200, "<?php echo 'an image must not run';"),
        ("/sub/", 200, "sub /sub/index.php"),
        ("/script.php", 200, "script /script.php info - file script.php\n"),
        ("/script.php/a%20b", 200, "script /script.php info /a b file script.php\n"),
        ("/status/418", 418, "status 418\n"),
        ("/status/503", 503, "status 503\n"),
    ] {
        let answer = server.get(target);
        assert_eq!((answer.status, text(&answer).as_str()), (status, expected), "{target}");
    }
    let mut client = server.connect();
    client.send("HEAD /style.css HTTP/1.1\r\nHost: a\r\n\r\nHEAD /articles/7 HTTP/1.1\r\nHost: a\r\n\r\n");
    for (length, name) in [(Some("7"), "a file"), (None, "a script that names no length")] {
        let head = client.try_answer(AnswerTo::Head).unwrap();
        assert_eq!((head.status, head.field("content-length")), (200, length), "{name}");
    }
    assert_eq!(server.get("/sub").status, 301);
    assert_eq!(server.get("/.hidden.php").status, 404);
    let head = server.connect().ask("GET /cookies HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(head.values("set-cookie").collect::<Vec<_>>(), ["first=1", "second=2"]);
}

#[test]
fn scripts_without_a_front_controller() {
    let Some(tree) = application() else { return };
    let server = managed(&tree, "processes = 2");
    for (target, status) in [
        ("/", 200),
        ("/index.php/articles/7", 404),
        ("/articles/7", 404),
        ("/missing.php", 404),
        ("/image.jpg/x.php", 404),
        ("/style.css", 200),
    ] {
        let answer = server.get(target);
        assert_eq!(answer.status, status, "{target}");
        assert!(!text(&answer).contains("<?php"), "{target}: the source of a script");
    }
}

#[test]
fn scripts_get_their_variables() {
    let Some(tree) = application() else { return };
    let server = managed(&tree, &format!("{FRONT}\nvariables = {{ APP_ENV = \"test\" }}"));
    let answer = server.get("/variables/a%20b?x=1");
    let found: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let root = tree.root().to_str().unwrap().to_string();
    let script = format!("{root}/index.php");
    for (name, value) in [
        ("REQUEST_URI", "/variables/a%20b?x=1"),
        ("SCRIPT_NAME", "/index.php"),
        ("PHP_SELF", "/index.php"),
        ("SCRIPT_FILENAME", &script),
        ("DOCUMENT_ROOT", &root),
        ("QUERY_STRING", "x=1"),
        ("REQUEST_METHOD", "GET"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REDIRECT_STATUS", "200"),
        ("APP_ENV", "test"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
    ] {
        assert_eq!(found[name], value, "{name}");
    }
    assert!(found.get("HTTPS").is_none() && found.get("PATH_INFO").is_none());
}

#[test]
fn sessions_are_kept() {
    let Some(tree) = application() else { return };
    let server = managed(&tree, FRONT);
    let url = |path: &str| format!("http://{}{path}", server.address());
    let jar = tree.beside("cookies");
    let jar = jar.to_str().unwrap();
    let ask = |path: &str, more: &[&str]| {
        let address = url(path);
        let output = curl(["--cookie", jar, "--cookie-jar", jar, &address].iter().chain(more))?;
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(nobody) = ask("/account", &[]) else { return };
    assert_eq!(nobody, "nobody\n");
    assert_eq!(ask("/login", &["--data", "user=ada", "--location"]).unwrap(), "ada 1\n");
    for visit in 2..6 {
        // In any process.
        assert_eq!(ask("/account", &[]).unwrap(), format!("ada {visit}\n"));
    }
    ask("/logout", &["--request", "POST"]);
    assert_eq!(ask("/account", &[]).unwrap(), "nobody\n");
}

#[test]
fn uploads_of_100_mb_are_passed_on_as_they_come() {
    let Some(tree) = application() else { return };
    let server = managed(&tree, FRONT);
    let file = tree.beside("upload.bin");
    fs::write(&file, bytes_of(100_000_000)).unwrap();
    let sum = Command::new("md5sum").arg(&file).output().unwrap();
    let sum = String::from_utf8_lossy(&sum.stdout)[..32].to_string();
    let form = format!("file=@{}", file.display());
    let url = format!("http://{}/upload", server.address());
    for more in
        [&["--http1.1"][..], &["--http2-prior-knowledge"], &["--header", "Transfer-Encoding: chunked"]]
    {
        let fixed = ["--form", &form, "--form", "note=hello", "--max-time", "300", &url];
        let Some(output) = curl(fixed.iter().chain(more)) else { return };
        let said = String::from_utf8_lossy(&output.stdout);
        let expected = format!(
            "{{\"name\":\"upload.bin\",\"length\":100000000,\"checksum\":\"{sum}\",\"note\":\"hello\"}}\n"
        );
        assert_eq!(said, expected, "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let status = fs::read_to_string(format!("/proc/{}/status", server.process())).unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 100_000, "an upload is gathered in memory: {peak}");
}

#[test]
fn downloads_and_streams() {
    let Some(tree) = application() else { return };
    let server = managed(&tree, FRONT);
    let expected =
        |length: usize| b"0123456789abcdef".iter().copied().cycle().take(length).collect::<Vec<u8>>();
    for length in [0, 1, 6_250, 65_536, 20_000_000] {
        let answer = server.get(&format!("/download/{length}"));
        assert_eq!(answer.field("content-length"), Some(length.to_string().as_str()));
        assert!(answer.body == expected(length), "download of {length}");
        let answer = server.get(&format!("/stream/{length}"));
        assert!(answer.body == expected(length), "stream of {length}");
    }
    let mut client = server.connect();
    client.send("HEAD /download/5000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.try_answer(crate::support::AnswerTo::Head).unwrap();
    assert_eq!((head.status, head.field("content-length")), (200, Some("5000000")));
    assert_eq!(client.ask("GET /stream/3 HTTP/1.1\r\nHost: a\r\n\r\n").body, b"012");
}

#[test]
fn a_file_that_a_script_names_is_sent() {
    let Some(tree) = application() else { return };
    let server = managed(&tree, FRONT);
    let answer = server.get("/file/report");
    assert_eq!((answer.status, text(&answer).as_str()), (200, "the report\n"));
    assert_eq!(
        (answer.field("content-type"), answer.field("x-accel-redirect")),
        (Some("text/x-sent;charset=UTF-8"), None)
    );
    assert_eq!(server.get("/file/missing").status, 404);
}

#[test]
fn what_a_script_logs_is_in_the_error_log() {
    let Some(tree) = application() else { return };
    let server = managed(&tree, FRONT);
    assert_eq!(text(&server.get("/warning")), "warned\n");
    server.wait_for_error_line("with it", |line| {
        line.contains("a line for the operator") && line.contains("GET /warning")
    });
}

#[test]
fn processes_killed_at_random_leave_every_request_with_an_answer() {
    let Some(tree) = application() else { return };
    let mut server = managed(&tree, FRONT);
    let ask = |count| {
        let answer = server.get(&format!("/articles/{count}"));
        assert!([200, 502, 503, 504].contains(&answer.status), "{}", answer.status);
        answer.status == 200
    };
    let kill = |round: usize| {
        let master = master_of(&server);
        let workers = children_of(master);
        // Sometimes the master itself.
        let worker = || workers.get(round % 3).copied().filter(|worker| has_started(*worker));
        let victim = if round % 10 == 9 { Some(master) } else { worker() };
        victim.and_then(Pid::from_raw).is_some_and(|victim| kill_process(victim, Signal::KILL).is_ok())
    };
    kill_while_asked(30, ask, kill);
    wait_until("it answers again", PATIENCE, || server.get("/articles/1").status == 200);
    let master = master_of(&server);
    let workers = children_of(master);
    server.stop();
    let left: Vec<&i32> = workers.iter().chain([&master]).filter(|process| is_php_fpm(**process)).collect();
    assert!(left.is_empty(), "{left:?} are left");
}

/// Whether a process has run for half a second. The workers of a pool share a lock that is held while
/// one of them starts; a worker that is killed then leaves it locked, and php-fpm answers no more requests.
fn has_started(process: i32) -> bool {
    const TICKS_A_SECOND: f64 = 100.0;
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let stat = read(format!("/proc/{process}/stat"));
    let started =
        stat.rsplit(')').next().and_then(|fields| fields.split_whitespace().nth(19)?.parse::<f64>().ok());
    let now = read("/proc/uptime".to_string());
    let now = now.split_whitespace().next().and_then(|seconds| seconds.parse::<f64>().ok());
    now.zip(started).is_some_and(|(now, started)| now - started / TICKS_A_SECOND > 0.5)
}

/// The php-fpm that a server has started; 0: none at this moment.
fn master_of(server: &Server) -> i32 {
    children_of(server.process()).into_iter().find(|child| is_php_fpm(*child)).unwrap_or(0)
}

fn children_of(process: i32) -> Vec<i32> {
    let mut children = Vec::new();
    // It may end at any moment, and then the file does not exist.
    for task in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(text.split_whitespace().map(|number| number.parse::<i32>().unwrap()));
    }
    children
}

fn is_php_fpm(process: i32) -> bool {
    fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default().contains("php-fpm")
}

/// A php-fpm that the server did not start.
struct PhpFpm {
    child: Child,
}

impl PhpFpm {
    fn start(tree: &Tree, address: &str, processes: usize) -> PhpFpm {
        let file = tree.beside("php-fpm.conf");
        let log = tree.beside("php-fpm.log");
        let text = format!(
            "[global]\nerror_log = {}\n[www]\nlisten = {}\npm = static\npm.max_children = {processes}\n{}",
            log.display(),
            address,
            if rustix::process::geteuid().is_root() { "user = root\ngroup = root\n" } else { "" }
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new(php_fpm().unwrap());
        command.args(["--nodaemonize", "--fpm-config"]).arg(&file);
        if rustix::process::geteuid().is_root() {
            command.arg("--allow-to-run-as-root");
        }
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("php-fpm listens", PATIENCE, || match address.starts_with('/') {
            true => std::os::unix::net::UnixStream::connect(address).is_ok(),
            false => std::net::TcpStream::connect(address).is_ok(),
        });
        PhpFpm { child }
    }
}

impl Drop for PhpFpm {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

#[test]
fn a_php_fpm_that_runs_already() {
    let Some(tree) = application() else { return };
    let socket = tree.beside("fpm.sock");
    let _running = PhpFpm::start(&tree, socket.to_str().unwrap(), 2);
    let route = format!("[[site.route]]\nphp = \"unix:{}\"\n", socket.display());
    let server = Server::configured(tree.around(), &(tree.configuration("[server]\ncores = 1") + &route));
    let mut client = server.connect();
    for _ in 0..5 {
        let answer = client.ask("GET /script.php/x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(text(&answer), "script /script.php info /x file script.php\n");
    }
    assert_eq!(server.get("/style.css").body, b"body {}");
    assert_eq!(server.get("/missing.php").status, 404);
}

#[test]
fn no_request_starves_whatever_the_number_of_processes() {
    let Some(tree) = application() else { return };
    for processes in [1, 2, 5, 50] {
        let socket = tree.beside(&format!("{processes}.sock")).to_str().unwrap().to_string();
        for address in [socket, format!("127.0.0.1:{}", free_port())] {
            let _running = PhpFpm::start(&tree, &address, processes);
            for keys in ["", "\nkeep_connections = true"] {
                let route = format!("[[site.route]]\n[site.route.php]\nbackends = [{address:?}]{keys}\n");
                let configuration = tree.configuration("[server]\ncores = 3") + &route;
                let server = Server::configured(tree.around(), &configuration);
                server.assert_serves_many("/script.php", &format!("{processes} at {address}, {keys:?}"));
            }
        }
    }
}
