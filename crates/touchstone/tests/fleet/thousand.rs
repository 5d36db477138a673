//! The cost of a thousand agents for their controller. The broker, the controller and its live page are the
//! real ones, and so are the agents' connections, with TLS and a key each. The agents have no engine: they
//! answer, count and deliver a result.

use crate::rig::{Fleet, PATIENCE, program};
use crate::sums::{of_agents, whole_is_sum};
use crate::support::{free_port, raise_open_files, skipped};
use crate::target::Target;
use rustix::process::Pid;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use touchstone_fleet::{
    AgentFacts, AgentState, BEAT_PERIOD, Clock, Credentials, Fabric, Heartbeat, Inbox, Message, Nats, Order,
    PROTOCOL, Part, Report, Role,
};
use touchstone_load::{Outcome, Plan, Portion, PreparedRun, Progress};

/// The number of agents. The agents of a debug build need more than two processors for a thousand:
/// `AGENTS=250` makes fewer.
static AGENTS: LazyLock<usize> = LazyLock::new(|| {
    std::env::var("AGENTS").map_or(1000, |count| count.parse().expect("AGENTS is a number"))
});
/// The requests per second that each agent states in its beats.
const REQUESTS_PER_SECOND: u64 = 1000;
/// The latency of all requests that each agent states.
const LATENCY_NS: u64 = 1_000_000;
/// How long the controller is watched while all of them are at work.
const WATCHED: Duration = Duration::from_secs(20);
/// The live page must have its data within this time.
const RESPONSIVE: Duration = Duration::from_secs(1);
/// The number of agents' connections on one thread. With more of them a new connection delays the answers of
/// the others.
const ON_ONE_THREAD: usize = 50;
/// Connections, broker's connections and what a runtime for each of them needs.
const OPEN_FILES: u64 = 16_384;

/// An agent without an engine.
struct Agent {
    name: String,
    nats: Arc<Nats>,
    orders: [Inbox<Message>; 2],
    facts: AgentFacts,
    mix: Option<Mix>,
    next_beat: Instant,
}

struct Mix {
    run: String,
    number: u64,
    portion: Portion,
    plan: Plan,
    start_ns: Option<u64>,
}

/// A mix that an agent was ordered to begin, for the thread that delivers results.
struct StartedMix {
    name: String,
    nats: Arc<Nats>,
    run: String,
    number: u64,
    portion: Portion,
    plan: Plan,
    start_ns: u64,
}

/// Plans by their hashes: fetched once for all agents.
type Plans = HashMap<String, Plan>;

fn now_ns() -> u64 {
    Clock::default().now().monotonic_ns
}

impl Agent {
    /// Connects an agent, on the thread of another agent's connection if there is one: one machine that
    /// carries all agents and their controller cannot run a thread for each of a thousand.
    fn connect(fleet: &Fleet, name: &str, binary_sha256: &str, beside: Option<&Agent>) -> Agent {
        let path = fleet.directory().join(format!("{name}.credentials"));
        let credentials = Credentials::read(&path).expect("credentials");
        let (url, clock) = (fleet.url("127.0.0.1"), Clock::default());
        let nats = match beside {
            Some(other) => other.nats.connect_beside(&url, &credentials, clock),
            None => Nats::connect(&url, &credentials, clock),
        };
        let nats = nats.expect("the broker");
        let orders = ["fleet.lab.all".to_string(), format!("fleet.lab.to.{name}")]
            .map(|subject| nats.subscribe(&subject).expect("orders"));
        let facts = AgentFacts {
            instance: name.to_string(),
            role: Role::Load,
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_string(),
            binary_sha256: binary_sha256.to_string(),
            kernel: "simulated".to_string(),
            sysctls: Vec::new(),
            cores: vec![0],
            memory_bytes: 1 << 30,
            open_files_limit: 1 << 20,
            allowed: Vec::new(),
            pids: Vec::new(),
        };
        let next_beat = Instant::now();
        Agent { name: name.to_string(), nats: Arc::new(nats), orders, facts, mix: None, next_beat }
    }

    /// A lost report is noticed by the controller, and makes the test fail.
    fn tell(&self, report: &Report) {
        let body = serde_json::to_vec(report).expect("JSON");
        let _ = self.nats.publish(&format!("fleet.lab.from.{}", self.name), body);
    }

    fn turn(&mut self, plans: &mut Plans, begun: &Sender<StartedMix>) {
        let heard: Vec<Message> = self.orders.iter().filter_map(|inbox| inbox.next(Duration::ZERO)).collect();
        for message in heard {
            let order: Order = serde_json::from_slice(&message.body).expect("an order");
            self.obey(order, &message, plans, begun);
        }
        if Instant::now() >= self.next_beat {
            self.next_beat += BEAT_PERIOD;
            self.tell(&Report::Beat(self.beat()));
        }
    }

    fn obey(&mut self, order: Order, message: &Message, plans: &mut Plans, begun: &Sender<StartedMix>) {
        match order {
            Order::Muster => self.tell(&Report::Here(Box::new(self.facts.clone()))),
            Order::Ping { exchange } => {
                let answer_sent = Clock::default().now();
                self.tell(&Report::Pong { exchange, question_received: message.received, answer_sent });
            }
            Order::Prepare { run, mix: number, plan_sha256, portion, .. } => {
                let plan = plans.entry(plan_sha256).or_insert_with_key(|plan_sha256| {
                    let document = self.nats.fetch(plan_sha256).expect("the plan");
                    serde_json::from_slice(&document).expect("a plan")
                });
                let plan = plan.clone();
                self.tell(&Report::Ready { run: run.clone(), mix: number, time_to_prepare_ns: 0 });
                let portion = portion.expect("a portion");
                self.mix = Some(Mix { run, number, portion, plan, start_ns: None });
            }
            Order::Start { at_monotonic_ns: start_ns, .. } => {
                let mix = self.mix.as_mut().expect("a mix");
                mix.start_ns = Some(start_ns);
                let Mix { run, number, portion, plan, .. } = mix;
                let (run, portion, plan) = (run.clone(), portion.clone(), plan.clone());
                let (name, nats) = (self.name.clone(), Arc::clone(&self.nats));
                // If the test has failed, no thread delivers results any more.
                let _ = begun.send(StartedMix { name, nats, run, number: *number, portion, plan, start_ns });
            }
            Order::Refuse { reason } => panic!("{}: {reason}", self.name),
            Order::Lease { .. } | Order::Stop { .. } | Order::Drain | Order::Logs => {}
        }
    }

    fn beat(&self) -> Heartbeat {
        let run_ns = self.mix.as_ref().and_then(|mix| {
            let since_ns = now_ns().checked_sub(mix.start_ns?)?;
            (since_ns < mix.plan.length.as_nanos() as u64).then_some(since_ns)
        });
        let requests = run_ns.unwrap_or_default() * REQUESTS_PER_SECOND / 1_000_000_000;
        Heartbeat {
            instance: self.facts.instance.clone(),
            state: if run_ns.is_some() { AgentState::Running } else { AgentState::Idle },
            mix: self.mix.as_ref().map(|mix| (mix.run.clone(), mix.number)),
            requests,
            errors: 0,
            bytes: requests * 1000,
            cpu_share: 0.5,
            traffic: self.nats.traffic(),
            spooled: 0,
            draining: false,
        }
    }
}

/// All agents, at work until this is dropped.
struct Crowd {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn start(fleet: &Fleet, names: &[String]) -> Crowd {
        let mut agents = connect_all(fleet, names);
        let over = Arc::new(AtomicBool::new(false));
        let (begun, begun_mixes) = channel();
        let (driven, handed_in) = (Arc::clone(&over), Arc::clone(&over));
        let drive = move || {
            let mut plans = Plans::new();
            // No two machines beat at the same moment, except by chance.
            for (place, agent) in agents.iter_mut().enumerate() {
                agent.next_beat = Instant::now() + BEAT_PERIOD * place as u32 / *AGENTS as u32;
            }
            while !driven.load(Ordering::Relaxed) {
                agents.iter_mut().for_each(|agent| agent.turn(&mut plans, &begun));
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        let threads = vec![
            std::thread::spawn(drive),
            std::thread::spawn(move || hand_in_results(&begun_mixes, &handed_in)),
        ];
        Crowd { over, threads }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // A thread that failed has reported it.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Connects all agents, in several threads.
fn connect_all(fleet: &Fleet, names: &[String]) -> Vec<Agent> {
    let digest = Sha256::digest(fs::read(program()).expect("the program"));
    let binary_sha256: &str = &digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    std::thread::scope(|scope| {
        let connecting: Vec<_> = names
            .chunks(AGENTS.div_ceil(4))
            .map(|names| {
                scope.spawn(move || {
                    let mut agents: Vec<Agent> = Vec::new();
                    for (place, name) in names.iter().enumerate() {
                        let beside = agents.get(place - place % ON_ONE_THREAD);
                        agents.push(Agent::connect(fleet, name, binary_sha256, beside));
                    }
                    agents
                })
            })
            .collect();
        connecting.into_iter().flat_map(|agents| agents.join().expect("agents")).collect()
    })
}

/// Prepares results during the mix, and delivers them when it is over.
fn hand_in_results(begun: &Receiver<StartedMix>, over: &AtomicBool) {
    let mut results = Vec::new();
    while results.len() < *AGENTS && !over.load(Ordering::Relaxed) {
        let Ok(begun) = begun.recv_timeout(Duration::from_millis(100)) else { continue };
        let outcome = outcome(&begun, 1 + results.len() as u64);
        let parts = Part::of_result(&begun.run, begun.number, &begun.name, &outcome).expect("parts");
        results.push((begun, parts));
    }
    for (begun, parts) in results {
        let end_ns = begun.start_ns + begun.plan.length.as_nanos() as u64;
        while now_ns() < end_ns && !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        for part in parts {
            let subject = format!("fleet.lab.result.{}", begun.name);
            begun.nats.keep(&subject, &part.head.id(), part.encode()).expect("it is kept");
        }
    }
}

/// A possible result of an agent's engine: that of an engine that was stopped before it began, with so many
/// requests.
fn outcome(begun: &StartedMix, requests: u64) -> Outcome {
    let plan = Plan { cores: vec![0], ..begun.plan.clone() };
    let stopped = Progress::default();
    stopped.stop.store(true, Ordering::Relaxed);
    let ready = PreparedRun::new(&plan, begun.portion.clone()).expect("a portion");
    let mut outcome = ready.run_at(begun.start_ns, &stopped).expect("an outcome");
    outcome.interrupted = false;
    outcome.window = plan.length - plan.ramp_up - plan.ramp_down;
    (outcome.first_start_lateness, outcome.start_lateness) = (Duration::ZERO, Duration::ZERO);
    (outcome.requests, outcome.total_requests, outcome.started) = (requests, requests, requests);
    outcome.requests_by_class[0] = requests;
    outcome.classes[0].requests = requests;
    outcome.latency_ns.record_n(LATENCY_NS, requests).expect("a latency");
    outcome.service_ns.record_n(LATENCY_NS, requests).expect("a latency");
    for client in &mut outcome.clients {
        client.requests = requests;
        client.latency_ns.record_n(LATENCY_NS, requests as u32).expect("a latency");
    }
    outcome
}

/// Processor time of a process so far, and the most memory that it had.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    seconds: f64,
    most_bytes: u64,
}

impl Used {
    fn by(process: Pid) -> Used {
        let read = |name: &str| {
            fs::read_to_string(format!("/proc/{}/{name}", process.as_raw_nonzero())).unwrap_or_default()
        };
        let stat = read("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // utime and stime of proc(5), in hundredths of a second; the first field after the name is the third
        // of all.
        let hundredths = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<f64>().ok());
        let seconds = (hundredths(14).unwrap_or_default() + hundredths(15).unwrap_or_default()) / 100.0;
        let status = read("status");
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = most.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        Used { seconds, most_bytes: kib.unwrap_or_default() * 1024 }
    }

    fn most(self, other: Used) -> Used {
        Used { seconds: self.seconds.max(other.seconds), most_bytes: self.most_bytes.max(other.most_bytes) }
    }

    fn mebibytes(self) -> u64 {
        self.most_bytes >> 20
    }
}

/// The state that the live page shows, and how long it took to fetch it.
fn live_state(port: u16) -> Option<(Value, Duration)> {
    let asked = Instant::now();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET /state HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let fetched = asked.elapsed();
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some((serde_json::from_str(body).ok()?, fetched))
}

fn machines_running(state: &Value) -> usize {
    let machines = state["load_machines"].as_array().map(Vec::as_slice).unwrap_or_default();
    machines.iter().filter(|machine| machine["state"] == "running").count()
}

/// Watches the controller, the broker and the live page during the mix, and prints the figures.
fn watch(fleet: &Fleet, controller: Pid, port: u16) {
    let until = Instant::now() + 2 * PATIENCE;
    while live_state(port).is_none_or(|(state, _)| machines_running(&state) < *AGENTS) {
        if Used::by(controller).most_bytes == 0 {
            // The bench has ended, and reports why.
            return;
        }
        assert!(Instant::now() < until, "the agents do not all run");
        std::thread::sleep(Duration::from_millis(200));
    }
    let processes = [("controller", controller), ("broker", fleet.broker_process())];
    let (began, before) = (Instant::now(), processes.map(|(_, process)| Used::by(process)));
    let mut waits = Vec::new();
    while began.elapsed() < WATCHED {
        let Some((state, wait)) = live_state(port) else { break };
        assert_eq!(machines_running(&state), *AGENTS);
        waits.push(wait);
        std::thread::sleep(Duration::from_millis(100));
    }
    let seconds = began.elapsed().as_secs_f64();
    for ((name, process), before) in processes.iter().zip(before) {
        let now = Used::by(*process);
        let share = (now.seconds - before.seconds) / seconds * 100.0;
        println!("{name} in {seconds:.0} s of the mix: {share:.0} % of a processor, {} MiB", now.mebibytes());
    }
    waits.sort();
    let (Some(longest), Some(median)) = (waits.last(), waits.get(waits.len() / 2)) else {
        panic!("the live page does not answer");
    };
    println!("live page, fetched {} times: median {median:?}, longest {longest:?}", waits.len());
    assert!(*longest < RESPONSIVE);
}

/// What a process has used at its end, as far as it can be seen.
fn used_until_end(process: Pid) -> JoinHandle<Used> {
    std::thread::spawn(move || {
        let mut used = Used::default();
        loop {
            let now = Used::by(process);
            // A process that has ended has no memory.
            if now.most_bytes == 0 {
                return used.most(now);
            }
            used = used.most(now);
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}

#[test]
#[ignore = "measures a controller with a thousand agents, for some minutes"]
fn a_thousand_agents_and_their_controller() {
    if !raise_open_files(OPEN_FILES) {
        return skipped(&format!("a thousand agents (needs {OPEN_FILES} open files: ulimit -n)"));
    }
    let names: Vec<String> = (0..*AGENTS).map(|number| format!("load-{number}")).collect();
    let Some(fleet) = Fleet::new(&names.iter().map(String::as_str).collect::<Vec<_>>()) else { return };
    let (target, port, began) = (Target::start(), free_port(), Instant::now());
    let crowd = Crowd::start(&fleet, &names);
    println!("{} agents connected in {:.1} s", *AGENTS, began.elapsed().as_secs_f64());
    let (url, clients, port_word) = (target.url(), AGENTS.to_string(), port.to_string());
    let load = ["--sut", &url, "--clients", &clients, "--length", "40s"];
    let ramps = ["--ramp-up", "1s", "--ramp-down", "0s", "--live", &port_word];
    let bench = fleet.bench(&[&load[..], &ramps].concat());
    let used = used_until_end(bench.process());
    watch(&fleet, bench.process(), port);
    let ended = bench.wait();
    let used = used.join().expect("what it used");
    println!("controller, the whole bench: {:.1} s of a processor, {} MiB", used.seconds, used.mebibytes());
    drop(crowd);
    assert_eq!(ended.code, Some(0), "{} {}", ended.error, ended.incomplete());
    assert_eq!(of_agents(ended.mix(), "requests").len(), *AGENTS);
    whole_is_sum(ended.mix());
    assert_eq!(ended.mix()["requests"], (1..=*AGENTS).sum::<usize>());
    assert_eq!(ended.mix()["latency"]["count"], ended.mix()["requests"]);
}
