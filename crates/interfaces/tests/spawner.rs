//! Tests of the spawner as a separate process: this test's executable is started again and becomes the
//! spawner.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::ffi::CStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use touchstone_interfaces::cgi::connection::{ProgramEnd, StartedProgram, connection};
use touchstone_interfaces::cgi::message::{Start, Status};
use touchstone_interfaces::cgi::service::{self, SpawnerCommand};
use touchstone_interfaces::cgi::spawn::Stage;
use touchstone_interfaces::cgi::spawner;

const IS_SPAWNER: &str = "TOUCHSTONE_TEST_IS_SPAWNER";

/// Not a test: the function that runs in a spawner which the tests have started.
#[test]
fn spawner_process() {
    if std::env::var_os(IS_SPAWNER).is_some() {
        spawner::run(None).unwrap();
    }
}

fn start_service() {
    service::start(SpawnerCommand {
        program: "/proc/self/exe".into(),
        arguments: ["--exact", "spawner_process", "--nocapture"].map(Into::into).to_vec(),
        environment: vec![(IS_SPAWNER.into(), "1".into())],
    })
    .unwrap();
}

fn order<'a>(program: &'a CStr, arguments: &[&'a CStr]) -> Start<'a> {
    Start {
        id: 0,
        has_input: false,
        is_reported: true,
        no_new_privileges: true,
        dies_with_spawner: true,
        umask: 0o022,
        niceness: 0,
        identity: None,
        limits: Vec::new(),
        directory: c"/",
        program,
        arguments: arguments.to_vec(),
        environment: vec![c"A=b"],
    }
}

/// Starts a program; also returns the ends of its output.
async fn begin(start: Start<'_>) -> (StartedProgram, OwnedFd) {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let descriptors = [write.as_fd(), write.as_fd()];
    let connection = connection().unwrap();
    let program = connection.start(start, &descriptors, Duration::from_millis(100), false).await.unwrap();
    (program, read)
}

fn on_a_core(test: impl Future<Output = ()>) {
    start_service();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), test).await.unwrap() });
}

fn read(descriptor: OwnedFd) -> String {
    let mut text = String::new();
    File::from(descriptor).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn programs_run_and_their_ends_are_reported() {
    on_a_core(async {
        for (script, status) in [
            (c"echo $A; exit 0", Status::Exit(0)),
            (c"echo $A; exit 7", Status::Exit(7)),
            (c"echo $A; kill -KILL $$", Status::Signal(9)),
        ] {
            let (mut program, output) = begin(order(c"/bin/sh", &[c"sh", c"-c", script])).await;
            assert_eq!(program.wait_for_end().await, ProgramEnd::Ended { status, leaves_others: false });
            assert_eq!(read(output), "b\n");
        }
    });
}

#[test]
fn a_failed_start_names_its_step() {
    on_a_core(async {
        let mut wrong_directory = order(c"/bin/true", &[c"true"]);
        wrong_directory.directory = c"/none";
        let mut wrong_limit = order(c"/bin/true", &[c"true"]);
        wrong_limit.limits = vec![(9999, 1)];
        for (start, stage, errno) in [
            (order(c"/none", &[c"none"]), Stage::Execute, libc::ENOENT),
            (order(c"/etc/passwd", &[c"passwd"]), Stage::Execute, libc::EACCES),
            (wrong_directory, Stage::Directory, libc::ENOENT),
            (wrong_limit, Stage::Limits, libc::EINVAL),
        ] {
            let (mut program, output) = begin(start).await;
            assert_eq!(program.wait_for_end().await, ProgramEnd::NotStarted { stage, errno });
            assert_eq!(read(output), "");
        }
    });
}

#[test]
fn dropping_a_started_program_ends_it_also_one_that_ignores_signals() {
    on_a_core(async {
        for script in [c"sleep 1000", c"trap '' TERM; echo; sleep 1000; sleep 1000"] {
            let (program, output) = begin(order(c"/bin/sh", &[c"sh", c"-c", script])).await;
            drop(program);
            // The pipe ends with the last process that holds it. The read is on another thread, because this
            // core must continue to send.
            tokio::task::spawn_blocking(|| read(output)).await.unwrap();
        }
    });
}

#[test]
fn an_order_that_is_too_large_is_refused() {
    on_a_core(async {
        let long = std::ffi::CString::new(vec![b'x'; 300_000]).unwrap();
        let start = order(c"/bin/true", &[c"true", &long]);
        let refused = connection().unwrap().start(start, &[], Duration::ZERO, false).await;
        assert_eq!(refused.err().unwrap().kind(), std::io::ErrorKind::ArgumentListTooLong);
    });
}
