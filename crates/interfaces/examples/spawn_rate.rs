//! Measures the cost of starting programs through the spawner: starts one program many times, a given number
//! at a time, on one core.
//!
//! ```text
//! taskset -c 0 target/release/examples/spawn_rate 1000 8 target/programs/cgi-bin/spice
//! ```
//!
//! prints microseconds per program. Compare it with `touchstone limit`, which starts the same program one at
//! a time with posix_spawn. The figure stays the same with more resident memory (third argument, MiB) and
//! more open files (fourth).
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example prints what it finds, and may panic"
)]

use std::ffi::CString;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use tokio::net::unix::pipe;
use touchstone_interfaces::cgi::connection::connection;
use touchstone_interfaces::cgi::message::Start;
use touchstone_interfaces::cgi::service::{self, SpawnerCommand};
use touchstone_interfaces::cgi::spawner;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|argument| argument == "spawner") {
        return spawner::run(None).unwrap();
    }
    service::start(SpawnerCommand::this_program(&["spawner"])).unwrap();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<usize>().ok());
    let (Some(count), Some(at_a_time), Some(program)) = (number(1), number(2), arguments.get(3)) else {
        return println!("usage: spawn_rate COUNT AT_A_TIME PROGRAM [RESIDENT_MIB [OPEN_FILES]]");
    };
    let resident = vec![1u8; number(4).unwrap_or(0) << 20];
    let open: Vec<_> =
        (0..number(5).unwrap_or(0)).map_while(|_| std::fs::File::open("/dev/null").ok()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    let began = Instant::now();
    runtime.unwrap().block_on(async {
        let workers =
            (0..at_a_time).map(|_| tokio::task::spawn_local(work(count / at_a_time, program.clone())));
        for worker in workers.collect::<Vec<_>>() {
            worker.await.unwrap();
        }
    });
    let done = count / at_a_time * at_a_time;
    let each_us = began.elapsed().as_secs_f64() * 1e6 / done as f64;
    println!(
        "{each_us:.1} us a program, {at_a_time} at a time, {} MiB resident, {} files open",
        resident.len() >> 20,
        open.len()
    );
}

/// Starts a program and reads its output, again and again.
async fn work(count: usize, program: String) {
    let program = CString::new(program).unwrap();
    let mut output = Vec::with_capacity(64 * 1024);
    for _ in 0..count {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let (read_errors, write_errors) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        rustix::io::ioctl_fionbio(&read, true).unwrap();
        let start = Start {
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
            program: &program,
            arguments: vec![&program],
            environment: vec![c"PATH=/bin"],
        };
        let connection = connection().unwrap();
        let descriptors = [write.as_fd(), write_errors.as_fd()];
        let mut program = connection.start(start, &descriptors, Duration::ZERO, false).await.unwrap();
        drop((write, write_errors));
        let read = pipe::Receiver::from_owned_fd_unchecked(read).unwrap();
        output.clear();
        loop {
            read.readable().await.unwrap();
            if matches!(read.try_read_buf(&mut output), Ok(0)) {
                break;
            }
        }
        assert!(!output.is_empty());
        drop(read_errors);
        program.wait_for_end().await;
    }
}
