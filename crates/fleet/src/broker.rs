//! The fleet's broker: nats-server, found on this machine, started with the fleet's configuration, and
//! restarted if it ends. It keeps its data on disk, so members find their data after a restart.

use crate::setup::{BROKER_FILE, FleetFile};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The program.
const PROGRAM: &str = "nats-server";
/// How often the process is checked.
const CHECK_PERIOD: Duration = Duration::from_millis(50);
/// A broker that ends sooner than this after its start is not restarted: it has a fault.
const SHORT_LIFE: Duration = Duration::from_secs(2);

/// A broker that was started here; it ends when this is dropped.
pub struct Broker {
    child: Child,
    program: PathBuf,
}

impl Broker {
    /// Starts the broker of a fleet's directory.
    pub fn start(directory: &Path) -> Result<Broker, String> {
        let program = Broker::program_of(directory)?;
        let configuration = directory.join(BROKER_FILE);
        if !configuration.exists() {
            return Err(format!(
                "{} contains no fleet: create one with 'touchstone fleet init'",
                directory.display()
            ));
        }
        let log = directory.join("broker.log");
        let child = Command::new(&program)
            .arg("--config")
            .arg(&configuration)
            .arg("--log")
            .arg(&log)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = child.map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
        Ok(Broker { child, program })
    }

    /// Runs the broker until `interrupt`; reports each event in a line.
    pub fn supervise(
        directory: &Path,
        interrupt: &AtomicBool,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        loop {
            let started = Instant::now();
            let mut broker = Broker::start(directory)?;
            say(&format!(
                "the broker of {}, {}, runs as process {}",
                directory.display(),
                broker.words(),
                broker.id()
            ));
            while !broker.has_ended() {
                if interrupt.load(Ordering::Relaxed) {
                    return Ok(());
                }
                std::thread::sleep(CHECK_PERIOD);
            }
            if started.elapsed() < SHORT_LIFE {
                return Err(format!(
                    "the broker ended at once; the reason is in {}",
                    directory.join("broker.log").display()
                ));
            }
            say("the broker has ended and is started again");
        }
    }

    /// The program that the fleet's file names, or else the one that is found on this machine.
    fn program_of(directory: &Path) -> Result<PathBuf, String> {
        let named = FleetFile::read(directory).ok().and_then(|file| file.broker);
        if let Some(named) = named.map(PathBuf::from) {
            return match named.is_file() {
                true => Ok(named),
                false => {
                    Err(format!("broker = {:?} in fleet.toml: there is no such program", named.display()))
                }
            };
        }
        Broker::program().ok_or_else(|| {
            format!(
                "{PROGRAM} is not on this machine: go install github.com/nats-io/nats-server/v2@v2.15.2 \
                 (make setup does so where Go is), or from https://nats.io/download, 2.11 or later; \
                 broker = \"PATH\" in fleet.toml names one that is not on the search path"
            )
        })
    }

    /// Which program it is, and its version.
    pub fn words(&self) -> String {
        let output = Command::new(&self.program).arg("--version").stdin(Stdio::null()).output();
        let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
        let version = version.unwrap_or_default().replace(": ", " ");
        let version = if version.is_empty() { PROGRAM.to_string() } else { version };
        format!("{version} ({})", self.program.display())
    }

    /// The program on the search path, or where Go installs programs.
    pub fn program() -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let go = std::env::var_os("GOBIN").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin"));
        let directories = std::env::split_paths(&path).chain(go).chain(home);
        directories.map(|directory| directory.join(PROGRAM)).find(|program| program.is_file())
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It writes all data immediately, so a kill loses no data.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
