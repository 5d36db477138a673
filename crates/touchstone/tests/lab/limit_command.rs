//! `touchstone limit`, as it is typed: the measurement and the server that it measures.

use crate::support::{error_lines, run};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

#[test]
fn the_limit_is_measured() {
    let output = run(["limit", "--seconds", "300ms", "--rounds", "1", "--bytes", "1000", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["page_bytes"], 1000);
    for pointer in [
        "/kept/cpu_us_per_request",
        "/kept/requests_per_second",
        "/new/cpu_us_per_request",
        "/new/requests_per_second",
        "/spawn/us_per_spawn",
    ] {
        let figure = value.pointer(pointer).and_then(serde_json::Value::as_f64);
        assert!(figure.is_some_and(|figure| figure > 0.0), "{pointer} in {value:#}");
    }
}

#[test]
fn the_table_is_printed_in_plain_words() {
    let output = run(["limit", "--seconds", "500ms", "--rounds", "1"]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    for words in ["6,250 bytes", "kept connections", "new connections", "programs started"] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[test]
fn the_limit_is_measured_on_one_to_all_processors() {
    let short = ["limit", "--cores", "--seconds", "500ms", "--rounds", "1", "--bytes", "1000"];
    let output = run(short.into_iter().chain(["--json"]));
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let rows = value["rows"].as_array().expect("rows");
    let cores: Vec<u64> = rows.iter().filter_map(|row| row["cores"].as_u64()).collect();
    assert_eq!((cores.first(), cores.last()), (Some(&1), Some(&all)), "{value:#}");
    for row in rows {
        for kind in ["kept", "new"] {
            for name in ["cpu_us_per_request", "requests_per_second", "cpu_ratio", "speedup", "efficiency"] {
                assert!(
                    row[kind][name].as_f64().is_some_and(|figure| figure > 0.0),
                    "{kind} {name}: {row:#}"
                );
            }
        }
        assert_eq!(row["server_cores"].as_array().map(Vec::len), row["cores"].as_u64().map(|n| n as usize));
    }
    assert_eq!(rows[0]["kept"]["speedup"], 1.0);
    // With all processors none is left for the load engine.
    let last = &rows[rows.len() - 1];
    assert_eq!((&last["shared"], &last["load_cores"]), (&true.into(), &last["server_cores"]));

    let all = all.to_string();
    let output = run(["limit", "--cores", &all, "--seconds", "500ms", "--rounds", "1"]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    for words in ["Requests on kept connections", "CPU us/request", "1.00", "share processors: the rate is"] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[test]
fn the_server_has_a_thread_with_its_own_listener_on_each_processor() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["limit", "--serve", "127.0.0.1:0", "--bytes", "7", "--until-input-ends", "--threads", "2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let address = line.trim_end().strip_prefix("listening on ").expect("where it listens");
    // The kernel chooses a listener for each of them.
    for _ in 0..100 {
        let mut stream = TcpStream::connect(address).expect("it accepts connections");
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.ends_with("\r\n\r\nxxxxxxx"), "{answer}");
    }
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("its threads");
    // A thread that serves waits again and again. The first one only waits for the others, and maybe for the
    // disk.
    let serving = threads.filter(|thread| {
        let thread = thread.as_ref().expect("a thread");
        if thread.file_name().to_str() == Some(&child.id().to_string()) {
            return false;
        }
        let status = std::fs::read_to_string(thread.path().join("status")).expect("the thread's status");
        let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        waits.and_then(|number| number.trim().parse::<u64>().ok()).is_some_and(|number| number >= 10)
    });
    assert_eq!(serving.count(), 2);
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn what_cannot_work_is_refused() {
    let cases: [(&[&str], i32, &str); 7] = [
        (&["--cores", "0"], 2, "--cores must be from 1 to"),
        (&["--cores", "1,9999"], 2, "--cores must be from 1 to"),
        (&["--serve", "127.0.0.1:0", "--threads", "0"], 2, "from 1 to"),
        (&["--rounds", "0"], 2, "at least one round"),
        (&["--seconds", "0s"], 2, "10 ms"),
        (&["--bytes", "99999999999"], 2, "at most"),
        (&["--program", "/nowhere/program", "--seconds", "200ms", "--rounds", "1"], 1, "/nowhere/program"),
    ];
    for (arguments, code, said) in cases {
        let output = run(std::iter::once("limit").chain(arguments.iter().copied()));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {said:?} is not in: {text}");
    }
}

#[test]
fn the_server_says_where_it_listens_and_ends_with_its_input() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["limit", "--serve", "127.0.0.1:0", "--bytes", "7", "--until-input-ends"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let address = line.trim_end().strip_prefix("listening on ").expect("where it listens");
    let mut stream = TcpStream::connect(address).expect("it accepts connections");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.ends_with("\r\n\r\nxxxxxxx"), "{answer}");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());

    // An address that is taken: one line and exit code 2.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("the loopback interface is there");
    let taken = listener.local_addr().expect("a bound socket has an address").to_string();
    let output = run(["limit", "--serve", &taken, "--bytes", "7"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&taken));
}
