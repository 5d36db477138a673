//! Tests of pools with real processes: they are started, killed, started again and ended, and none remains.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{PoolLog, PoolSpec, Pools, ProcessLimits, Program};

/// Far longer than any step of these tests takes.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Default)]
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Log {
    fn function(&self) -> PoolLog {
        let lines = self.lines.clone();
        Arc::new(move |_, _, message| lines.lock().unwrap().push(message.to_string()))
    }

    fn wait_for(&self, what: &str, found: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(line) = self.lines.lock().unwrap().iter().find(|line| found(line)) {
                return line.clone();
            }
            assert!(Instant::now() < until, "no line {what}: {:?}", self.lines.lock().unwrap());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn pools() -> (Pools, Log) {
    let (pools, log) = (Pools::default(), Log::default());
    pools.log_to(log.function());
    (pools, log)
}

fn shell(script: &str, processes: usize) -> PoolSpec {
    PoolSpec {
        program: Program::Command(vec!["/bin/sh".to_string(), "-c".to_string(), script.to_string()]),
        processes,
        directory: None,
        environment: vec![("GREETING".to_string(), "hello".to_string())],
        user: None,
        limits: ProcessLimits::default(),
        socket: None,
        stop_timeout: Duration::from_secs(5),
    }
}

fn is_there(id: i32) -> bool {
    test_kill_process(Pid::from_raw(id).unwrap()).is_ok()
}

fn number_in(line: &str) -> i32 {
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn what_a_process_prints_is_logged_and_it_is_started_again() {
    let (pools, log) = pools();
    let pool = pools.get(&shell("echo $GREETING $$; exec sleep 1000", 1)).unwrap();
    let id = number_in(&log.wait_for("with the greeting", |line| line.contains("]: hello ")));
    kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
    log.wait_for("about its end", |line| line.contains("ended: signal: 9"));
    let again =
        log.wait_for("of another process", |line| line.contains("]: hello ") && number_in(line) != id);
    assert!(is_there(number_in(&again)));
    assert!(pool.problem().is_none());
    drop(pool);
    pools.stop();
    assert!(!is_there(number_in(&again)));
}

#[test]
fn nothing_is_left_of_a_group_that_ignores_the_end() {
    let (pools, log) = pools();
    let spec = PoolSpec {
        stop_timeout: Duration::from_millis(300),
        ..shell("trap '' TERM; sleep 1000 & echo child $!; echo self $$; wait; wait", 2)
    };
    let pool = pools.get(&spec).unwrap();
    let child = number_in(&log.wait_for("of the child", |line| line.contains("]: child ")));
    let itself = number_in(&log.wait_for("of itself", |line| line.contains("]: self ")));
    let directory = pool.socket().parent().unwrap().to_path_buf();
    assert!(directory.exists() && is_there(child));
    drop(pool);
    pools.stop();
    log.wait_for("about killing", |line| line.contains("did not end and is killed"));
    // A grandchild is reaped by the process that adopts it, which may take a moment.
    let until = Instant::now() + PATIENCE;
    while is_there(child) && !is_zombie(child) {
        assert!(Instant::now() < until, "process {child} still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!is_there(itself) && !directory.exists());
}

fn is_zombie(id: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

#[test]
fn a_program_that_cannot_run_is_a_problem() {
    let (pools, _log) = pools();
    let pool = pools.get(&shell("exit 3", 1)).unwrap();
    let until = Instant::now() + PATIENCE;
    let problem = loop {
        if let Some(problem) = pool.problem() {
            break problem;
        }
        assert!(Instant::now() < until, "no problem");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(problem.contains("exit status: 3"), "{problem}");
    pools.stop();
}

#[test]
fn the_same_pool_is_used_again_and_another_is_not() {
    let (pools, _log) = pools();
    let first = pools.get(&shell("exec sleep 1000", 1)).unwrap();
    let same = pools.get(&shell("exec sleep 1000", 1)).unwrap();
    let other = pools.get(&shell("exec sleep 1001", 1)).unwrap();
    assert!(Arc::ptr_eq(&first, &same) && !Arc::ptr_eq(&first, &other));
    pools.stop();
}

#[test]
fn the_socket_is_descriptor_0() {
    // A FastCGI program calls `accept` on it. The socket exists before the program starts.
    let script = "exec python3 -c 'import socket\nlistener = socket.socket(fileno=0)\n\
                  while True:\n    connection, _ = listener.accept()\n    \
                  connection.sendall(b\"served\")\n    connection.close()'";
    let (pools, _log) = pools();
    let pool = pools.get(&shell(script, 2)).unwrap();
    for _ in 0..3 {
        let mut served = String::new();
        UnixStream::connect(pool.socket()).unwrap().read_to_string(&mut served).unwrap();
        assert_eq!(served, "served");
    }
    pools.stop();
}
