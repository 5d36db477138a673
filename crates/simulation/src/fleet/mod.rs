//! A fleet: controllers that claim it and run mixes, agents with their spools, and a broker between them. The
//! code of the product runs with virtual time while members are disconnected, paused, killed and restarted,
//! and clocks are set.
//!
//! Invariants: a controller that states that it leads has the claim; an agent sends load only while it
//! receives the lease of the controller whose order it executes; the sum of a mix is the load that was sent,
//! with the part of each agent once; no measured result is lost or stored twice; after all faults have ended
//! a mix is completed.

mod broker;
mod load;
mod scheduler;
mod sent_load;
mod simulator_hooks;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use touchstone_fleet::runtime::simulate;
use touchstone_fleet::{
    AgentEntry, AgentOptions, AllowList, Clock, Controller, ControllerOptions, FleetFile, Part, Role,
    run_agent,
};
use touchstone_lab_run::bench::{GeneratedLoad, LoadGenerator};
use touchstone_load::{Plan, Progress, Target};

use crate::random;
use scheduler::Scheduler;
use simulator_hooks::SimulatorHooks;

/// The virtual time until which faults occur.
const FAULTY_TIME: Duration = Duration::from_secs(12);
/// The time within which all controllers must end after the last fault.
const QUIET_TIME: Duration = Duration::from_secs(80);
/// The time within which a mix without faults must end.
const MIX_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs one simulation.
pub fn run() {
    let run = FleetRun::new();
    run.run_with_faults();
    run.end_faults();
    run.run_final_mix();
}

struct FleetRun {
    scheduler: Rc<Scheduler>,
    file: FleetFile,
    spools: tempfile::TempDir,
    /// The present process of each agent, by name.
    agents: RefCell<BTreeMap<String, usize>>,
    controllers: RefCell<Vec<usize>>,
    next_plan: Rc<Cell<u64>>,
}

impl Drop for FleetRun {
    fn drop(&mut self) {
        self.scheduler.end();
        simulate(None);
    }
}

/// The results of the mixes of a controller.
type MixResults = Rc<RefCell<Vec<Result<GeneratedLoad, String>>>>;

impl FleetRun {
    fn new() -> FleetRun {
        let scheduler = Scheduler::new();
        simulate(Some(Rc::new(SimulatorHooks(Rc::clone(&scheduler)))));
        let names: Vec<String> = (0..random::between(1, 3)).map(|number| format!("agent-{number}")).collect();
        let file = FleetFile {
            name: "sim".to_string(),
            controller: "simulated".to_string(),
            broker: None,
            launch: None,
            agents: names.iter().map(|name| AgentEntry::new(name, Role::Load)).collect(),
        };
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let spools = tempfile::tempdir_in(parent).expect("a directory for the spools");
        let run = FleetRun {
            scheduler,
            file,
            spools,
            agents: RefCell::default(),
            controllers: RefCell::default(),
            next_plan: Rc::default(),
        };
        names.iter().for_each(|name| run.start_agent(name));
        run
    }

    fn start_agent(&self, name: &str) {
        let process = self.scheduler.add_process();
        self.agents.borrow_mut().insert(name.to_string(), process);
        self.scheduler.sent_load.borrow_mut().agents.insert(process, name.to_string());
        let fabric = self.scheduler.broker.fabric(process);
        let options = AgentOptions {
            name: name.to_string(),
            role: Role::Load,
            cores: vec![0, 1],
            allow: AllowList(vec!["127.0.0.1".parse().expect("an address is a rule")]),
            spool: Some(self.spools.path().join(name)),
            pids: Vec::new(),
            clock: Clock::default(),
        };
        let own = name.to_string();
        self.scheduler.begin(process, name, move || {
            let never = AtomicBool::new(false);
            let say = &mut |line: &str| random::note(|| format!("{own}: {line}"));
            let end = run_agent(fabric, "sim", options, &never, say);
            random::note(|| format!("{own} has ended: {end:?}"));
        });
    }

    /// Starts a controller that runs some mixes; returns its process and the list of their outcomes.
    fn start_controller(&self, mixes: u64, options: ControllerOptions) -> (usize, MixResults) {
        let process = self.scheduler.add_process();
        self.controllers.borrow_mut().push(process);
        let (fabric, file) = (self.scheduler.broker.fabric(process), self.file.clone());
        let (ends, next_plan, scheduler) =
            (MixResults::default(), Rc::clone(&self.next_plan), Rc::clone(&self.scheduler));
        let to = Rc::clone(&ends);
        self.scheduler.begin(process, "controller", move || {
            let never = AtomicBool::new(false);
            let controller = match Controller::with(fabric, &file, options, &never) {
                Ok(controller) => controller,
                Err(error) => {
                    random::note(|| format!("{:?} controller {process}: {error}", scheduler.age()));
                    to.borrow_mut().push(Err(error.to_string()));
                    return;
                }
            };
            for _ in 0..mixes {
                let plan = plan(next_plan.get());
                next_plan.set(next_plan.get() + 1);
                let end = run_mix(&controller, &plan, &never);
                random::note(|| {
                    let invalid = end.as_ref().map(|generated| &generated.invalid);
                    format!(
                        "{:?} controller {process}: mix {} has ended: {invalid:?}",
                        scheduler.age(),
                        plan.seed
                    )
                });
                if let Ok(generated) = &end {
                    check_sum(&scheduler, plan.seed, generated);
                }
                to.borrow_mut().push(end);
            }
        });
        (process, ends)
    }

    fn run_with_faults(&self) {
        let options = ControllerOptions { exploratory: random::percent(30), ..ControllerOptions::default() };
        self.start_controller(random::between(1, 3), options.clone());
        let has_no_faults = random::one_in(6);
        while self.scheduler.age() < FAULTY_TIME {
            let until = self.scheduler.age() + Duration::from_millis(random::between(50, 2500));
            self.scheduler.run_until(until.min(FAULTY_TIME), &|| false);
            if has_no_faults {
                continue;
            }
            match random::below(13) {
                0..=2 => self.disconnect_a_member(),
                3 | 4 => self.scheduler.stall(self.some_member(), milliseconds(100, 8000)),
                5 => self.kill_an_agent(),
                6 | 7 => {
                    self.start_controller(random::between(1, 2), options.clone());
                }
                8 => self.kill_a_controller(),
                9 => self.scheduler.set_clock(
                    self.some_member(),
                    random::between(0, 20_000_000_000) as i64 - 10_000_000_000,
                ),
                10 => self.restart_agents(),
                11 => self.scheduler.broker.refuse_to_store(milliseconds(500, 6000)),
                _ => self.scheduler.broker.heal(),
            }
        }
    }

    fn some_member(&self) -> usize {
        let agents = self.agents.borrow();
        let controllers = self.controllers.borrow();
        let all: Vec<usize> = agents.values().chain(controllers.iter()).copied().collect();
        all[random::size(all.len())]
    }

    fn disconnect_a_member(&self) {
        let member = self.some_member();
        let is_cut = random::percent(60);
        random::note(|| format!("{:?} process {member} is disconnected: {is_cut}", self.scheduler.age()));
        self.scheduler.broker.cut(member, is_cut);
    }

    fn kill_an_agent(&self) {
        let agents = self.agents.borrow();
        let process = *agents.values().nth(random::size(agents.len())).unwrap();
        drop(agents);
        if !self.scheduler.process(process).is_dead {
            self.scheduler.kill(process);
        }
    }

    fn kill_a_controller(&self) {
        let process = self.controllers.borrow().last().copied();
        if let Some(process) = process.filter(|process| !self.scheduler.process(*process).is_dead) {
            self.scheduler.kill(process);
        }
    }

    /// Starts every agent again that does not run.
    fn restart_agents(&self) {
        let idle: Vec<String> = {
            let agents = self.agents.borrow();
            let is_idle = |process: &usize| !self.scheduler.has_tasks(*process);
            agents.iter().filter(|(_, process)| is_idle(process)).map(|(name, _)| name.clone()).collect()
        };
        idle.iter().for_each(|name| {
            let old = self.agents.borrow()[name];
            if !self.scheduler.process(old).is_dead {
                self.scheduler.kill(old);
            }
            self.start_agent(name);
        });
    }

    /// Ends all faults, and waits until the controllers have ended and all results have reached the broker.
    fn end_faults(&self) {
        self.scheduler.broker.heal();
        let controllers = self.controllers.borrow().clone();
        let is_over = || {
            controllers.iter().all(|process| {
                !self.scheduler.has_tasks(*process) || self.scheduler.process(*process).is_dead
            })
        };
        self.scheduler.run_until(self.scheduler.age() + QUIET_TIME, &is_over);
        assert!(is_over(), "a controller does not end");
        // The claims of killed controllers expire, and the last results are sent.
        self.restart_agents();
        self.scheduler.run_until(self.scheduler.age() + Duration::from_secs(4), &|| false);
    }

    fn run_final_mix(&self) {
        let (process, ends) = self.start_controller(1, ControllerOptions::default());
        let is_over = || !self.scheduler.has_tasks(process);
        self.scheduler.run_until(self.scheduler.age() + MIX_TIMEOUT, &is_over);
        let ends = ends.borrow();
        match &ends[..] {
            [Ok(generated)] => {
                assert_eq!(generated.invalid, None, "a mix without faults is not valid")
            }
            [Err(error)] => panic!("a mix without faults fails: {error}"),
            _ => panic!("a mix without faults does not end: {}", ends.len()),
        }
        self.scheduler.run_until(self.scheduler.age() + Duration::from_secs(5), &|| false);
        self.check_results();
    }

    /// Checks that the broker has every result once, and that no result is left at an agent.
    fn check_results(&self) {
        for name in self.agents.borrow().keys() {
            let left = std::fs::read_dir(self.spools.path().join(name)).into_iter().flatten().flatten();
            let left: Vec<String> = left
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .filter(|file| file.ends_with(".part"))
                .collect();
            assert!(left.is_empty(), "{name} has results although the broker is reachable: {left:?}");
        }
        let mut seen = BTreeMap::new();
        for (subject, body) in self.scheduler.broker.stored_parts() {
            let part = Part::decode(&body).expect("a stored message is a part");
            assert!(subject.ends_with(&part.head.agent), "a result under the name of another agent");
            let head = part.head;
            *seen.entry((head.agent, head.run, head.mix, head.sequence)).or_insert(0) += 1;
        }
        assert!(seen.values().all(|count| *count == 1), "a result is stored twice: {seen:?}");
        let mut ended: BTreeMap<String, usize> = BTreeMap::new();
        for ((_, agent), sent) in &self.scheduler.sent_load.borrow().sent {
            *ended.entry(agent.clone()).or_default() += sent.ended as usize;
        }
        for (agent, count) in ended {
            let kept = seen.keys().filter(|(of, _, _, _)| *of == agent);
            let mixes: BTreeSet<_> = kept.map(|(_, run, mix, _)| (run.clone(), *mix)).collect();
            assert_eq!(
                mixes.len(),
                count,
                "{agent} has measured another number of mixes than the broker has"
            );
        }
    }
}

fn milliseconds(first: u64, last: u64) -> Duration {
    Duration::from_millis(random::between(first, last))
}

fn plan(number: u64) -> Plan {
    let address = "127.0.0.1:80".parse().expect("an address");
    let target = Target::plain(address, "127.0.0.1:80");
    Plan {
        clients: random::between(2, 9) as usize,
        length: milliseconds(500, 4000),
        timeout: Duration::from_secs(1),
        seed: number,
        ..Plan::of_one(target, "/x")
    }
}

fn run_mix(controller: &Controller, plan: &Plan, never: &AtomicBool) -> Result<GeneratedLoad, String> {
    let load = controller.prepare(plan, None, never).map_err(|error| error.to_string())?;
    load.run(&Progress::default()).map_err(|error| error.to_string())
}

/// Checks that the sum of a mix is the load that its agents sent.
fn check_sum(scheduler: &Scheduler, seed: u64, generated: &GeneratedLoad) {
    let sent_load = scheduler.sent_load.borrow();
    let fleet = generated.fleet.as_ref().expect("the mix was run by a fleet");
    let mut sum = 0;
    for agent in &fleet.agents {
        let sent = sent_load.sent.get(&(seed, agent.name.clone()));
        if let Some(reported) = agent.total_requests {
            let sent = sent.expect("a result of an agent that sent no load");
            assert_eq!(reported, sent.requests, "{}: the number of sent requests is wrong", agent.name);
            assert!(
                sent.started == 1 && sent.ended == 1,
                "{} has run the mix {} times",
                agent.name,
                sent.started
            );
            if agent.lost_at_s.is_none() || generated.invalid.is_some() {
                sum += reported;
            }
        } else {
            assert!(
                agent.lost_at_s.is_some() || generated.invalid.is_some(),
                "{} is missing in a valid mix",
                agent.name
            );
        }
    }
    assert_eq!(generated.outcome.total_requests, sum, "the sum of the agents is wrong");
    let of_clients: u64 = generated.outcome.clients.iter().map(|client| client.requests).sum();
    assert_eq!(of_clients, generated.outcome.requests, "the sum of the clients is wrong");
}
