//! The limit of programs that are started for each request (CGI): start one, read its output to the end, reap
//! it.
//!
//! The standard library starts a program with `posix_spawn` if no code runs between fork and exec, so the
//! memory of this process is not copied.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Programs started before the measuring, so that the program's file is in memory.
const WARM_UP: u32 = 20;

/// What starting a program costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpawnTime {
    /// How often it was started.
    pub spawns: u64,
    /// Microseconds from one start to the next.
    pub us_per_spawn: f64,
}

/// Starts the program again and again for about this long. Its input is empty; its output is read and
/// dropped.
pub fn time_spawns(program: &Path, length: Duration) -> io::Result<SpawnTime> {
    let no_input = File::open("/dev/null")?;
    let mut buffer = vec![0; 64 * 1024];
    for _ in 0..WARM_UP {
        spawn_once(program, &no_input, &mut buffer)?;
    }
    let start = Instant::now();
    let mut spawns = 0;
    loop {
        spawn_once(program, &no_input, &mut buffer)?;
        spawns += 1;
        let elapsed = start.elapsed();
        if elapsed >= length {
            return Ok(SpawnTime { spawns, us_per_spawn: elapsed.as_secs_f64() * 1e6 / spawns as f64 });
        }
    }
}

fn spawn_once(program: &Path, no_input: &File, buffer: &mut [u8]) -> io::Result<()> {
    let mut child = Command::new(program)
        .stdin(no_input.try_clone()?)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
    if let Some(mut output) = child.stdout.take() {
        while output.read(buffer)? > 0 {}
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{} failed: {status}", program.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_started_and_counted() {
        let time = time_spawns(Path::new("/bin/true"), Duration::from_millis(20)).unwrap();
        assert!(time.spawns > 0 && time.us_per_spawn > 0.0);
    }

    #[test]
    fn a_program_that_is_not_there_or_fails_is_an_error() {
        let missing = time_spawns(Path::new("/nowhere/program"), Duration::ZERO).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/program"), "{missing}");
        let failing = time_spawns(Path::new("/bin/false"), Duration::ZERO).unwrap_err();
        assert!(failing.to_string().contains("failed"), "{failing}");
    }
}
