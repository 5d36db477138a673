//! A fleet for a test: a real broker, real agents, each a process of the built program, in a directory of its
//! own.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{free_port, skipped, wait_until};

/// The suite whose mixes the tests run: its clients have think times, so that a busy machine does not become
/// busier than necessary, and the clients determine the rate, not the machine.
const SUITE: &str = "webbench-1.1-static";
const THINK_TIME: &str = "think_time_s = 0.02";
/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A broker and its agents; all of them end when this is dropped.
pub(crate) struct Fleet {
    place: TempDir,
    name: String,
    port: u16,
    broker: Option<Child>,
    agents: BTreeMap<String, Child>,
}

impl Fleet {
    /// With these agents, none of which is started yet. `None`, with a visible word, where there is no
    /// broker.
    pub(crate) fn new(agents: &[&str]) -> Option<Fleet> {
        let mut fleet = Fleet::made("lab", "127.0.0.1", agents, &[])?;
        fleet.start_broker();
        Some(fleet)
    }

    /// The same without a broker that runs.
    pub(crate) fn made(name: &str, host: &str, agents: &[&str], more: &[&str]) -> Option<Fleet> {
        if !has_broker() {
            skipped("the fleet (install nats-server: make setup, with Go)");
            return None;
        }
        let place = TempDir::with_prefix("touchstone-fleet-").expect("a directory");
        let fleet =
            Fleet { place, name: name.to_string(), port: free_port(), broker: None, agents: BTreeMap::new() };
        let port = fleet.port.to_string();
        let made = Command::new(program())
            .args(["fleet", "init"])
            .arg(fleet.directory())
            .args(["--host", host, "--port", &port, "--agents", &agents.join(",")])
            .args(more)
            .output()
            .expect("it runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        fleet.write_suite();
        Some(fleet)
    }

    fn write_suite(&self) {
        let printed = Command::new(program()).args(["suites", SUITE]).output().expect("it runs");
        let text = String::from_utf8(printed.stdout).expect("text");
        assert!(text.contains("think_time_s = 0\n"), "{text}");
        fs::write(self.path("thinking.toml"), text.replace("think_time_s = 0\n", &format!("{THINK_TIME}\n")))
            .expect("written");
    }

    /// Changes `fleet.toml`.
    pub(crate) fn change_file(&self, change: impl FnOnce(&str) -> String) {
        let path = self.directory().join("fleet.toml");
        let text = fs::read_to_string(&path).expect("fleet.toml");
        fs::write(&path, change(&text)).expect("written");
    }

    /// The fleet's directory.
    pub(crate) fn directory(&self) -> PathBuf {
        self.place.path().join(&self.name)
    }

    /// A path beside it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Starts the broker under its supervisor, and waits until it is there.
    pub(crate) fn start_broker(&mut self) {
        let log = File::create(self.path("broker.log")).expect("a log");
        let broker = Command::new(program())
            .args(["fleet", "broker"])
            .arg(self.directory())
            .stdin(Stdio::null())
            .stderr(log)
            .spawn();
        self.broker = Some(broker.expect("it is started"));
        let address = ("127.0.0.1", self.port);
        wait_until("the broker listens", PATIENCE, || std::net::TcpStream::connect(address).is_ok());
        // It listens before its supervisor reports it.
        let log = self.path("broker.log");
        wait_until("the supervisor names its process", PATIENCE, || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            text.contains("runs as process ") && text.ends_with('\n')
        });
    }

    /// The broker's own process.
    pub(crate) fn broker_process(&self) -> Pid {
        let text = fs::read_to_string(self.path("broker.log")).expect("the supervisor's words");
        let process = text.lines().rev().find_map(|line| line.split("runs as process ").nth(1)?.parse().ok());
        Pid::from_raw(process.unwrap_or_else(|| panic!("no process in {text}"))).expect("a process")
    }

    /// Starts an agent that may send load to this machine.
    pub(crate) fn start_agent(&mut self, name: &str, more: &[&str]) {
        let arguments = ["--allow", "127.0.0.1"].iter().chain(more);
        let mut command = Command::new(program());
        command.args(self.agent_arguments("127.0.0.1", name, arguments));
        self.spawn_agent(name, command);
    }

    /// Where the broker is.
    pub(crate) fn url(&self, host: &str) -> String {
        format!("tls://{host}:{}", self.port)
    }

    /// The words of an agent's command.
    pub(crate) fn agent_arguments<'a>(
        &self,
        host: &str,
        name: &str,
        more: impl IntoIterator<Item = &'a &'a str>,
    ) -> Vec<String> {
        let credentials = self.directory().join(format!("{name}.credentials"));
        let url = self.url(host);
        let fixed = ["agent", "--controller", &url, "--credentials", credentials.to_str().expect("text")];
        fixed.iter().map(ToString::to_string).chain(more.into_iter().map(ToString::to_string)).collect()
    }

    /// Starts an agent by any command.
    pub(crate) fn spawn_agent(&mut self, name: &str, mut command: Command) {
        let log = File::create(self.path(&format!("{name}.log"))).expect("a log");
        let child = command.stdin(Stdio::null()).stderr(log).spawn().expect("it is started");
        let before = self.agents.insert(name.to_string(), child);
        assert!(before.is_none_or(|mut before| before.try_wait().is_ok_and(|status| status.is_some())));
    }

    /// The output of an agent so far.
    pub(crate) fn agent_text(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    /// The output so far of an agent that the bench started.
    pub(crate) fn launched_text(&self, name: &str) -> String {
        fs::read_to_string(self.directory().join(format!("{name}.log"))).unwrap_or_default()
    }

    /// Sends an agent a signal.
    pub(crate) fn signal_agent(&self, name: &str, signal: Signal) {
        kill_process(Pid::from_child(&self.agents[name]), signal).expect("it can be signalled");
    }

    /// Waits for an agent's end.
    pub(crate) fn wait_for_agent(&mut self, name: &str) -> Option<i32> {
        let agent = self.agents.get_mut(name).expect("it was started");
        let mut status = None;
        wait_until(&format!("the agent {name} ends"), PATIENCE, || {
            status = agent.try_wait().expect("its state can be asked");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// Ends the broker and its supervisor.
    pub(crate) fn stop_broker(&mut self) -> Option<i32> {
        let mut broker = self.broker.take().expect("it runs");
        kill_process(Pid::from_child(&broker), Signal::TERM).expect("it can be signalled");
        broker.wait().expect("it ends").code()
    }

    /// What `touchstone fleet status` reports of each agent, by its name.
    fn states(&self) -> BTreeMap<String, Value> {
        let mut asked = Command::new(program());
        asked.args(["fleet", "status", "--json", "--time", "800ms"]).arg(self.directory());
        let told = asked.output().expect("it runs").stdout;
        let told: Value = serde_json::from_slice(&told).unwrap_or_default();
        let agents = told["agents"].as_array().cloned().unwrap_or_default();
        let named = |agent: Value| Some((agent["name"].as_str()?.to_string(), agent));
        agents.into_iter().filter_map(named).collect()
    }

    /// A bench with the fleet.
    pub(crate) fn bench(&self, more: &[&str]) -> Bench {
        self.bench_to("result", more)
    }

    /// The same with another place for its result.
    pub(crate) fn bench_to(&self, result: &str, more: &[&str]) -> Bench {
        Bench::start(self.bench_command(result, more), self.path(result))
    }

    /// The same with variables in its environment.
    pub(crate) fn bench_in(&self, variables: &[(&str, &str)], more: &[&str]) -> Bench {
        let mut command = self.bench_command("result", more);
        command.envs(variables.iter().copied());
        Bench::start(command, self.path("result"))
    }

    /// A bench of the same suite by this machine alone.
    pub(crate) fn bench_alone(&self, result: &str, more: &[&str]) -> Bench {
        Bench::start(self.bench_words(result, more), self.path(result))
    }

    fn bench_command(&self, result: &str, more: &[&str]) -> Command {
        let mut command = self.bench_words(result, more);
        if !more.contains(&"--fleet-wait") {
            command.args(["--fleet-wait", "120s"]);
        }
        command.arg("--fleet").arg(self.directory());
        command
    }

    fn bench_words(&self, result: &str, more: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("bench").arg(self.path("thinking.toml"));
        command.args(["--json", "--no-report", "--runs", "1"]).args(more);
        let _ = fs::remove_dir_all(self.path(result));
        command.arg("--output").arg(self.path(result));
        command
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for agent in self.agents.values_mut() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        if let Some(mut broker) = self.broker.take() {
            // The supervisor ends its broker when it ends.
            let _ = kill_process(Pid::from_child(&broker), Signal::TERM);
            let _ = broker.wait();
        }
    }
}

/// A bench in progress.
pub(crate) struct Bench {
    child: Option<Child>,
    result: PathBuf,
    began: Instant,
}

/// A bench that has ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) error: String,
    /// How long it took.
    pub(crate) after: Duration,
    /// `result.json`, where there is one.
    pub(crate) result: Option<Value>,
}

/// Repeats a bench if a busy machine's threads did not begin together: its run reports it, and does not
/// count.
pub(crate) fn until_together(mut bench: impl FnMut() -> Ended) -> Ended {
    let mut began_apart = Vec::new();
    while began_apart.len() < 5 {
        let ended = bench();
        if !ended.incomplete().contains("ms apart") {
            return ended;
        }
        began_apart.push(ended.incomplete().to_string());
    }
    panic!("the agents never began together: {began_apart:?}");
}

impl Bench {
    fn start(mut command: Command, result: PathBuf) -> Bench {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Bench { child: Some(piped.spawn().expect("it is started")), result, began: Instant::now() }
    }

    /// Waits until agents send load; fails the test when the bench ends before.
    pub(crate) fn wait_until_loaded(&mut self, fleet: &Fleet, agents: &[&str]) {
        wait_until("the agents send load", PATIENCE, || {
            if self.has_ended() {
                let ended = self.take().wait();
                panic!("the bench ended: {} {}", ended.error, ended.incomplete());
            }
            let states = fleet.states();
            let is_loaded = |agent: &Value| {
                agent["state"] == "running"
                    && agent["requests_per_second"].as_f64().is_some_and(|rate| rate > 0.0)
            };
            agents.iter().all(|agent| states.get(*agent).is_some_and(is_loaded))
        });
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut().expect("it runs");
        child.try_wait().expect("its state can be asked").is_some()
    }

    fn take(&mut self) -> Bench {
        Bench { child: self.child.take(), result: self.result.clone(), began: self.began }
    }

    /// Its process.
    pub(crate) fn process(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("it runs"))
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Ended {
        let child = self.child.take().expect("it runs");
        let Output { status, stderr, .. } = child.wait_with_output().expect("it ends");
        Ended {
            code: status.code(),
            error: String::from_utf8_lossy(&stderr).into_owned(),
            after: self.began.elapsed(),
            result: read_result(&self.result),
        }
    }

    /// Where its result will be.
    pub(crate) fn directory(&self) -> &Path {
        &self.result
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Ended {
    /// The only mix of the only system; fails the test where there is none.
    pub(crate) fn mix(&self) -> &Value {
        let mix = self.result.as_ref().and_then(|result| result.pointer("/systems/0/mixes/0"));
        mix.unwrap_or_else(|| panic!("there is no mix: {}", self.error))
    }

    /// Why the run is not complete.
    pub(crate) fn incomplete(&self) -> &str {
        let reason = self.result.as_ref().and_then(|result| result.pointer("/status/reason"));
        reason.and_then(Value::as_str).unwrap_or_default()
    }
}

/// `result.json` of a directory.
pub(crate) fn read_result(directory: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(directory.join("result.json")).ok()?).ok()
}

/// The built program.
pub(crate) fn program() -> &'static OsStr {
    OsStr::new(env!("CARGO_BIN_EXE_touchstone"))
}

fn has_broker() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin"));
    std::env::split_paths(&path).chain(home).any(|directory| directory.join("nats-server").is_file())
}
