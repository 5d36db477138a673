//! Whole mixes of a controller and its agents in one process, over both engines: the embedded one and a real
//! nats-server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![allow(clippy::print_stdout, reason = "what was measured is printed")]

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use touchstone_fleet::{
    AgentEnd, AgentEntry, AgentOptions, AllowList, Broker, Clock, Controller, ControllerOptions, Credentials,
    EmbeddedFabric, Fabric, FabricError, FleetFile, Inbox, Message, Nats, Notice, Role, StoredMessage,
    Traffic, init, run_agent,
};
use touchstone_lab_run::bench::{GeneratedLoad, LoadGenerator};
use touchstone_load::{Plan, Progress, Target};

/// A server that answers every request, and counts them.
struct Server {
    address: SocketAddr,
    answers: Arc<AtomicU64>,
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&answers);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || answer(stream, &counted));
            }
        });
        Server { address, answers }
    }

    fn plan(&self, clients: usize, length: Duration) -> Plan {
        let target = Target::plain(self.address, &self.address.to_string());
        // The test adds little load to a busy machine.
        let think_time = Duration::from_millis(5);
        Plan { clients, length, think_time, timeout: Duration::from_secs(20), ..Plan::of_one(target, "/x") }
    }
}

fn answer(stream: TcpStream, counted: &AtomicU64) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        }
        counted.fetch_add(1, Ordering::Relaxed);
        (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").ok()?;
    }
}

fn options(name: &str, place: &tempfile::TempDir, allow: &str) -> AgentOptions {
    AgentOptions {
        name: name.to_string(),
        role: Role::Load,
        cores: vec![0],
        allow: AllowList(vec![allow.parse().unwrap()]),
        spool: Some(place.path().join(format!("{name}.spool"))),
        pids: Vec::new(),
        clock: Clock::default(),
    }
}

fn file(names: &[&str]) -> FleetFile {
    FleetFile {
        name: "test".to_string(),
        controller: "embedded".to_string(),
        broker: None,
        launch: None,
        agents: names.iter().map(|name| AgentEntry::new(name, Role::Load)).collect(),
    }
}

fn patient() -> ControllerOptions {
    ControllerOptions { wait: Duration::from_secs(60), ..ControllerOptions::default() }
}

/// Runs agents as threads while `work` runs; returns how they ended.
fn with_agents<T>(
    agents: Vec<(Arc<dyn Fabric>, AgentOptions)>,
    work: impl FnOnce() -> T,
) -> (T, Vec<AgentEnd>) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let threads: Vec<_> = agents
            .into_iter()
            .map(|(fabric, options)| {
                scope.spawn(move || {
                    run_agent(fabric, "test", options, over, &mut |line| println!("{line}")).unwrap()
                })
            })
            .collect();
        let result = work();
        over.store(true, Ordering::Relaxed);
        (result, threads.into_iter().map(|thread| thread.join().unwrap()).collect())
    })
}

fn run_mix(controller: &Controller, plan: &Plan) -> Result<GeneratedLoad, String> {
    let load = controller.prepare(plan, None, &AtomicBool::new(false)).map_err(|error| error.to_string())?;
    load.run(&Progress::default()).map_err(|error| error.to_string())
}

/// Runs a mix, and repeats it if the threads of a busy machine did not begin together: the run reports that,
/// and does not count. In any case, the parts make up the whole.
fn run_whole(controller: &Controller, plan: &Plan, server: &Server) -> GeneratedLoad {
    for _ in 0..5 {
        let before = server.answers.load(Ordering::Relaxed);
        let generated = run_mix(controller, plan).unwrap();
        if !generated.invalid.as_deref().is_some_and(|reason| reason.contains("ms apart")) {
            assert_whole(&generated, plan, server.answers.load(Ordering::Relaxed) - before);
            return generated;
        }
    }
    panic!("the agents never began together");
}

/// The parts make up the whole, to the request: by agents, by clients, by seconds, and by the server.
fn assert_whole(generated: &GeneratedLoad, plan: &Plan, answers: u64) {
    assert_eq!(generated.invalid, None);
    let outcome = &generated.outcome;
    let fleet = generated.fleet.as_ref().unwrap();
    assert!(outcome.requests > 0 && outcome.errors.total() == 0, "{:?}", outcome.errors);
    assert_eq!(
        fleet.agents.iter().filter_map(|agent| agent.total_requests).sum::<u64>(),
        outcome.total_requests
    );
    assert_eq!(fleet.agents.iter().map(|agent| agent.clients).sum::<u64>(), plan.clients as u64);
    assert_eq!(outcome.clients.len(), plan.clients);
    assert_eq!(outcome.clients.iter().map(|client| client.requests).sum::<u64>(), outcome.requests);
    assert_eq!(outcome.latency_ns.len(), outcome.requests);
    assert_eq!(outcome.total_requests, answers);
}

#[test]
fn two_agents_in_one_process_make_the_whole_plan() {
    let (server, place, engine) = (Server::start(), tempfile::tempdir().unwrap(), EmbeddedFabric::default());
    let agents: Vec<(Arc<dyn Fabric>, AgentOptions)> = ["a", "b"]
        .map(|name| {
            let fabric: Arc<dyn Fabric> = Arc::new(engine.member(Clock::default()));
            (fabric, options(name, &place, "127.0.0.1"))
        })
        .into();
    let plan = server.plan(5, Duration::from_secs(2));
    let fabric: Arc<dyn Fabric> = Arc::new(engine.clone());
    let (generated, ends) = with_agents(agents, || {
        let controller =
            Controller::with(fabric, &file(&["a", "b"]), patient(), &AtomicBool::new(false)).unwrap();
        run_whole(&controller, &plan, &server);
        // A single client: the second agent has no part of it.
        run_whole(&controller, &server.plan(1, Duration::from_secs(1)), &server)
    });
    assert_eq!(generated.fleet.unwrap().agents.len(), 1);
    assert_eq!(ends, [AgentEnd::Interrupted, AgentEnd::Interrupted]);
}

#[test]
fn two_agents_over_a_real_broker_make_the_whole_plan() {
    let Some((place, directory)) = broker_place(&["a", "b"]) else { return };
    let _broker = Broker::start(&directory).unwrap();
    let file = FleetFile::read(&directory).unwrap();
    let agents: Vec<(Arc<dyn Fabric>, AgentOptions)> = ["a", "b"]
        .map(|name| {
            // The clock of one is ahead by two seconds.
            let clock = if name == "b" { Clock::shifted(2_000_000_000) } else { Clock::default() };
            let fabric: Arc<dyn Fabric> = Arc::new(connect(&directory, &file, name, clock.clone()));
            (fabric, AgentOptions { clock, ..options(name, &place, "127.0.0.1") })
        })
        .into();
    let server = Server::start();
    let plan = server.plan(7, Duration::from_secs(2));
    let (generated, _) = with_agents(agents, || {
        let report = &mut |line: &str| println!("{line}");
        let controller =
            Controller::open(&directory, patient(), None, &AtomicBool::new(false), report).unwrap();
        run_whole(&controller, &plan, &server)
    });
    let fleet = generated.fleet.unwrap();
    let offset = |place: usize| fleet.agents[place].clock_offset_us.unwrap();
    let bound = |place: usize| fleet.agents[place].clock_bound_us.unwrap();
    assert!(offset(0).abs() <= bound(0) + 1.0, "{fleet:?}");
    assert!((offset(1) - 2e6).abs() <= bound(1) + 1.0, "{fleet:?}");
    // Latencies are not shifted: the answers are five bytes from this machine.
    assert!(generated.outcome.latency_ns.max() < 2_000_000_000);
    assert!(fleet.control_bytes_per_second > 0.0);
}

#[test]
fn what_is_not_allowed_is_refused_with_the_agent_s_name() {
    let (server, place, engine) = (Server::start(), tempfile::tempdir().unwrap(), EmbeddedFabric::default());
    let member = || -> Arc<dyn Fabric> { Arc::new(engine.member(Clock::default())) };
    let agents =
        vec![(member(), options("a", &place, "127.0.0.1")), (member(), options("b", &place, "10.0.0.5:80"))];
    let plan = server.plan(4, Duration::from_secs(1));
    let fabric: Arc<dyn Fabric> = Arc::new(engine.clone());
    let (refused, _) = with_agents(agents, || {
        let controller =
            Controller::with(fabric, &file(&["a", "b"]), patient(), &AtomicBool::new(false)).unwrap();
        run_mix(&controller, &plan).map(|_| ()).unwrap_err()
    });
    assert!(refused.starts_with("agent b: the agent does not allow load to 127.0.0.1:"), "{refused}");
    assert_eq!(server.answers.load(Ordering::Relaxed), 0);
}

/// Hands out documents that differ from the given ones.
struct Altered(EmbeddedFabric, Mutex<HashMap<String, Vec<u8>>>);

impl Fabric for Altered {
    fn publish(&self, subject: &str, body: Vec<u8>) -> Result<(), FabricError> {
        self.0.publish(subject, body)
    }
    fn subscribe(&self, pattern: &str) -> Result<Inbox<Message>, FabricError> {
        self.0.subscribe(pattern)
    }
    fn store_document(&self, document: &[u8]) -> Result<String, FabricError> {
        self.0.store_document(document)
    }
    fn fetch(&self, sha256: &str) -> Result<Vec<u8>, FabricError> {
        let mut document = self.0.fetch(sha256)?;
        document.push(b' ');
        self.1.lock().unwrap().insert(sha256.to_string(), document.clone());
        Ok(document)
    }
    fn keep(&self, subject: &str, id: &str, body: Vec<u8>) -> Result<(), FabricError> {
        self.0.keep(subject, id, body)
    }
    fn kept(&self, pattern: &str, name: &str) -> Result<Inbox<StoredMessage>, FabricError> {
        self.0.kept(pattern, name)
    }
    fn claim(&self, key: &str, owner: &str) -> Result<(), FabricError> {
        self.0.claim(key, owner)
    }
    fn release(&self, key: &str, owner: &str) -> Result<(), FabricError> {
        self.0.release(key, owner)
    }
    fn is_connected(&self) -> bool {
        true
    }
    fn notices(&self) -> Vec<Notice> {
        Vec::new()
    }
    fn traffic(&self) -> Traffic {
        self.0.traffic()
    }
}

#[test]
fn a_claim_that_is_given_back_is_another_s_at_once() {
    let given_back = |fabric: &dyn Fabric| {
        fabric.claim("controller", "a").unwrap();
        // Only the holder can release it.
        fabric.release("controller", "b").unwrap();
        assert_eq!(fabric.claim("controller", "b"), Err(FabricError::Held("a".to_string())));
        for (owner, next) in [("a", "b"), ("b", "a")] {
            fabric.release("controller", owner).unwrap();
            assert_eq!(fabric.claim("controller", next), Ok(()));
        }
    };
    given_back(&EmbeddedFabric::default());
    let Some((_place, directory)) = broker_place(&["a"]) else { return };
    let file = FleetFile::read(&directory).unwrap();
    let _broker = Broker::start(&directory).unwrap();
    let nats = connect(&directory, &file, "controller", Clock::default());
    nats.prepare_store().unwrap();
    given_back(&nats);
}

#[test]
fn another_plan_than_was_handed_out_is_refused() {
    let (server, place, engine) = (Server::start(), tempfile::tempdir().unwrap(), EmbeddedFabric::default());
    let altered: Arc<dyn Fabric> = Arc::new(Altered(engine.member(Clock::default()), Mutex::default()));
    let plan = server.plan(1, Duration::from_secs(1));
    let fabric: Arc<dyn Fabric> = Arc::new(engine.clone());
    let (refused, _) = with_agents(vec![(altered, options("a", &place, "127.0.0.1"))], || {
        let controller = Controller::with(fabric, &file(&["a"]), patient(), &AtomicBool::new(false)).unwrap();
        run_mix(&controller, &plan).map(|_| ()).unwrap_err()
    });
    assert!(refused.starts_with("agent a: the hash of the plan is "), "{refused}");
}

#[test]
fn a_clock_that_is_hours_ahead_is_refused() {
    let (server, place, engine) = (Server::start(), tempfile::tempdir().unwrap(), EmbeddedFabric::default());
    let clock = Clock::shifted(7_200_000_000_000);
    let fabric: Arc<dyn Fabric> = Arc::new(engine.member(clock.clone()));
    let agents = vec![(fabric, AgentOptions { clock, ..options("a", &place, "127.0.0.1") })];
    let plan = server.plan(1, Duration::from_secs(1));
    let fabric: Arc<dyn Fabric> = Arc::new(engine.clone());
    let (refused, _) = with_agents(agents, || {
        let controller = Controller::with(fabric, &file(&["a"]), patient(), &AtomicBool::new(false)).unwrap();
        run_mix(&controller, &plan).map(|_| ()).unwrap_err()
    });
    assert_eq!(refused, "the clock of agent a is wrong by 7200 s: set it (NTP)");
}

/// A port that no other socket gets until the end of the process. It has no listener, and a broker may listen
/// on it: a closed listener of this test would remain open in each program that another test starts at that
/// moment, until its exec.
fn port_for_a_broker() -> u16 {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address: SocketAddr = getsockname(&socket).unwrap().try_into().unwrap();
    std::mem::forget(socket);
    address.port()
}

/// A fleet's directory; `None`, with a visible message, if there is no broker.
fn broker_place(agents: &[&str]) -> Option<(tempfile::TempDir, PathBuf)> {
    if Broker::program().is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: the fleet on NATS (install nats-server: make setup, with Go)"
        );
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("test");
    let port = port_for_a_broker();
    let entries = agents.iter().map(|name| AgentEntry::new(name, Role::Load)).collect();
    init(&directory, "test", "127.0.0.1", port, entries, None).unwrap();
    Some((place, directory))
}

/// Connects as the member, as soon as the broker listens.
fn connect(directory: &std::path::Path, file: &FleetFile, member: &str, clock: Clock) -> Nats {
    let credentials = Credentials::read(&directory.join(format!("{member}.credentials"))).unwrap();
    for _ in 0..600 {
        match Nats::connect(&file.controller, &credentials, clock.clone()) {
            Ok(nats) => return nats,
            Err(FabricError::Unreachable(_)) => std::thread::sleep(Duration::from_millis(100)),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the broker does not come");
}
