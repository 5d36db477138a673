//! A small made-up result for the tests of what is made from results.

use crate::result::*;
use crate::statistics::fairness::Fairness;
use touchstone_conformance::record::{CaseRecord, Conformance, OutcomeRecord};
use touchstone_conformance::{Document, Level, Verdict};

/// Two rivals and the limit, three mixes each.
pub fn result() -> ResultFile {
    ResultFile {
        schema_version: SCHEMA_VERSION,
        tool: ToolFacts {
            name: "touchstone".into(),
            version: "0.1.0".into(),
            binary_sha256: Some("00".repeat(32)),
        },
        started_at: "2026-11-20T10:00:00Z".into(),
        finished_at: "2026-11-20T10:03:00Z".into(),
        command_line: ["touchstone", "bench", "webbench-1.1-static", "--quick"].map(String::from).to_vec(),
        status: RunStatus::Complete,
        suite: crate::suite::Suite::find("webbench-1.1-static").expect("built in").record(true, 1),
        machine: hardware(crate::machine::facts(true)),
        disclosure: disclosure(),
        method: MethodRecord::default(),
        spice: Vec::new(),
        comparisons: Vec::new(),
        speedups: Vec::new(),
        conformance: None,
        systems: vec![
            system("touchstone", "touchstone 0.1.0", false, 60_000.0),
            system("nginx", "nginx 1.22.1", false, 40_000.0),
            system("limit", "the limit of this kernel", true, 65_000.0),
        ],
        warnings: vec!["Load and server shared one machine.".into()],
    }
}

/// The information about a measurement that a person states.
pub fn disclosure() -> Disclosure {
    Disclosure {
        sponsor: Some("Example Inc.".into()),
        switch: Some("FastSwitch 2800, 10 Gbit/s".into()),
        notes: vec!["The systems were restarted before the run.".into()],
    }
}

/// Hardware as a server has it.
pub fn hardware(facts: MachineFacts) -> MachineFacts {
    MachineFacts {
        product: Some("Example Inc. Server 5/133".into()),
        cpu_caches: Some("L1d 32K, L1i 32K, L2 1024K".into()),
        network_cards: vec![crate::hardware::NetworkCard {
            name: "eth0".into(),
            device: Some("PCI 8086:1572".into()),
            driver: Some("i40e".into()),
            megabits_per_second: Some(10_000),
            duplex: Some("full".into()),
            receive_queues: 2,
            mtu: 1500,
        }],
        disks: vec![crate::hardware::Disk {
            name: "nvme0n1".into(),
            model: Some("Fast Disk 1TB".into()),
            driver: Some("nvme".into()),
            bytes: 1 << 40,
            rotates: Some(false),
            scheduler: Some("none".into()),
        }],
        ..facts
    }
}

/// Two rules on two systems: one is kept by both, one is broken by the second and has a note.
pub fn conformance() -> Conformance {
    let outcome = |verdict, seen: &str| Some(OutcomeRecord { verdict, seen: seen.into() });
    let case = |id: &str, document, level, note: Option<&str>, second| CaseRecord {
        id: id.into(),
        document,
        section: "3.2".into(),
        rule: "A request without Host is answered with 400".into(),
        level,
        note: note.map(Into::into),
        outcomes: vec![outcome(Verdict::Kept, "400, closed"), second],
    };
    Conformance {
        cases_sha256: "00".repeat(32),
        systems: vec!["touchstone".into(), "nginx".into()],
        cases: vec![
            case("9112/3.2/one", Document::Http1, Level::Must, None, outcome(Verdict::Kept, "400")),
            case(
                "9112/3.2/two",
                Document::Http1,
                Level::Should,
                Some("It is older than the rule."),
                outcome(Verdict::Broken, "200"),
            ),
            case("9114/3.2/three", Document::Http3, Level::May, None, None),
        ],
    }
}

/// SPICE: touchstone with SHTML and CGI, nginx without CGI.
pub fn spice() -> ResultFile {
    let mut result = result();
    let suite = crate::suite::Suite::find("spice").expect("built in");
    result.suite = suite.record(true, 1);
    result.suite.interfaces.retain(|interface| ["static", "shtml", "cgi"].contains(&interface.name.as_str()));
    result.systems.truncate(2);
    for (system, of_static, of_shtml) in [(0, 60_000.0, 55_000.0), (1, 40_000.0, 27_500.0)] {
        let mut mixes = interface_mixes("static", [of_static / 4.0, of_static / 2.0, of_static]);
        mixes.extend(interface_mixes("shtml", [of_shtml / 4.0, of_shtml / 2.0, of_shtml]));
        result.systems[system].mixes = mixes;
    }
    result.systems[0].mixes.extend(interface_mixes("cgi", [900.0, 1_200.0, 1_000.0]));
    result.systems[1].skipped = vec![SkippedInterface {
        interface: "cgi".into(),
        reason: "nginx 1.22.1 does not run CGI programs".into(),
    }];
    result.spice = crate::spice::rows(&result);
    result
}

fn interface_mixes(interface: &str, rates: [f64; 3]) -> Vec<MixResult> {
    let mix_at = |(clients, rate)| MixResult {
        interface: interface.into(),
        mean_body_bytes: 6250.0,
        bytes_per_second: rate * 6_500.0,
        megabits_per_second: rate * 6_500.0 * 8.0 / 1e6,
        ..mix(clients, rate)
    };
    [1, 4, 16].into_iter().zip(rates).map(mix_at).collect()
}

fn system(name: &str, title: &str, is_limit: bool, rate: f64) -> SystemResult {
    SystemResult {
        name: name.into(),
        title: title.into(),
        is_limit,
        command: vec![format!("/usr/sbin/{name}")],
        cpus: vec![0],
        machine: None,
        configuration: vec![ConfigurationFile { name: format!("{name}.conf"), text: "listen 80;\n".into() }],
        mixes: vec![mix(1, rate / 4.0), mix(4, rate / 2.0), mix(16, rate)],
        loads: Vec::new(),
        peaks: Vec::new(),
        search: Vec::new(),
        skipped: Vec::new(),
        origin: None,
        last_words: None,
        memory_bytes: None,
    }
}

/// Two load machines, of which one was lost.
pub fn fleet() -> FleetUse {
    let agent = |name: &str, lost_at_s| AgentUse {
        name: name.into(),
        clients: 2,
        threads: 1,
        requests: Some(5_000),
        errors: Some(0),
        total_requests: Some(7_000),
        busiest_thread: Some(0.6),
        start_lateness_us: Some(120.0),
        clock_offset_us: Some(-350.0),
        clock_bound_us: Some(90.0),
        control_sent_bytes: 9_000,
        control_received_bytes: 4_000,
        lost_at_s,
    };
    let agents = vec![agent("load-1", None), agent("load-2", Some(3.5))];
    FleetUse { start_spread_us: 40.0, control_bytes_per_second: 3_700.0, agents }
}

/// A mix that obeys Little's law.
pub fn mix(clients: u64, rate: f64) -> MixResult {
    let mean_us = clients as f64 * 1e6 / rate;
    let requests = (rate * 5.0) as u64;
    let bytes_per_second = rate * 8_600.0;
    let cpu_us = 960_000.0 / rate;
    MixResult {
        name: crate::suite::Mix::name_for(clients as usize),
        interface: String::new(),
        run: 1,
        clients,
        load_cpus: vec![1],
        ramp_up_s: 1.0,
        length_s: 7.0,
        ramp_down_s: 1.0,
        delay_s: 0.0,
        think_time_s: 0.0,
        window_s: 5.0,
        requests,
        errors: ErrorRecord::default(),
        requests_per_second: rate,
        bytes_per_second,
        megabits_per_second: bytes_per_second * 8.0 / 1e6,
        mean_body_bytes: 8348.0,
        classes: Vec::new(),
        connections: 0,
        tls_handshakes: None,
        latency: latency(requests, mean_us),
        connect: None,
        arrivals: None,
        messages: None,
        littles_law_clients: clients as f64,
        client_rows: (1..=clients)
            .map(|client| {
                client_row(client, requests / clients + u64::from(client <= requests % clients), mean_us)
            })
            .collect(),
        server: Some(ProcessUse {
            user_s: 1.2,
            system_s: 3.6,
            cpu_us_per_request: cpu_us,
            of_processors: false,
            cpu_share: 0.96,
            resident_bytes_max: 12 << 20,
            processes: 2,
            threads: 3,
        }),
        machine: Some(machine()),
        load: LoadUse {
            user_s: 1.0,
            system_s: 2.0,
            cpu_us_per_request: 10.0,
            busiest_thread: 0.6,
            longest_waiting_thread: None,
            held_back_by_quota: None,
        },
        timeline: (0..7).map(|second| timeline_row(second, rate, mean_us)).collect(),
        generator_saturated: None,
        taint: Vec::new(),
        fairness: Some(Fairness { jain: 1.0, slowest_over_median: Some(1.0) }),
        complete: true,
        total_requests: requests + 2 * rate as u64,
        fleet: None,
        thresholds: Vec::new(),
        error_reasons: Vec::new(),
    }
}

/// Two rivals at 1,000, 2,000 and 4,000 arrivals a second, of which the second does not carry the last.
pub fn open() -> ResultFile {
    let mut result = result();
    result.systems.truncate(2);
    for (system, cpu_us, answered) in [(0, 16.0, 1.0), (1, 24.0, 0.7)] {
        let share = |rate: f64| if rate > 3_000.0 { answered } else { 1.0 };
        result.systems[system].mixes =
            [1_000.0, 2_000.0, 4_000.0].map(|rate| open_mix(rate, share(rate), cpu_us)).to_vec();
    }
    result
}

/// A mix of arrivals at a rate, of which a share was answered in a window of 5 s.
pub fn open_mix(per_second: f64, answered: f64, cpu_us: f64) -> MixResult {
    let mut mix = mix(64, per_second * answered);
    let due = (per_second * 5.0) as u64;
    mix.name = crate::suite::Mix::name_for_rate(per_second);
    mix.latency = latency(mix.requests, 1_000.0);
    mix.littles_law_clients = mix.requests_per_second / 1_000.0;
    mix.fairness = None;
    if let Some(server) = &mut mix.server {
        (server.cpu_us_per_request, server.cpu_share) = (cpu_us, 0.3);
    }
    mix.arrivals = Some(ArrivalFigures {
        per_second,
        at_random: false,
        due,
        started: mix.requests,
        late: due / 1_000,
        service: latency(mix.requests, 900.0),
    });
    mix
}

/// Messages of WebSockets.
pub fn messages() -> MessageFigures {
    let times = |mean_us| Some(latency(1_000, mean_us));
    MessageFigures {
        count: 1_000,
        per_second: 200.0,
        total: 1_400,
        first: times(300.0),
        gap: times(1_000.0),
        websockets: Some(WebSocketFigures {
            opened: 100,
            sent: 1_000,
            total_sent: 1_400,
            open: times(200.0),
            answer: times(400.0),
            pong: times(100.0),
        }),
    }
}

/// A class with this number of answers of two sizes.
pub fn class_figures(count: u64) -> ClassFigures {
    let values = |mean: f64| Values { count, mean, stddev: mean / 2.0, min: mean / 2.0, max: mean * 1.5 };
    ClassFigures {
        errors: 1,
        pages: count,
        response_us: values(2_000.0),
        connect_us: values(100.0),
        answer_bytes: values(1_200.0),
        body_bytes: values(1_000.0),
    }
}

fn latency(count: u64, mean_us: f64) -> LatencyRecord {
    let at = |factor: f64| mean_us * factor;
    LatencyRecord {
        count,
        mean_us,
        stddev_us: at(0.3),
        min_us: at(0.2),
        p50_us: at(0.9),
        p90_us: at(1.3),
        p95_us: at(1.5),
        p99_us: at(2.0),
        p999_us: at(3.0),
        max_us: at(9.0),
        curve: vec![(0.0, at(0.2)), (50.0, at(0.9)), (99.0, at(2.0)), (100.0, at(9.0))],
    }
}

fn client_row(client: u64, requests: u64, mean_us: f64) -> ClientRow {
    ClientRow {
        client,
        requests,
        errors: 0,
        bytes: requests * 8_600,
        mean_us,
        p95_us: mean_us * 1.5,
        max_us: mean_us * 9.0,
    }
}

fn machine() -> MachineUse {
    let cpu = |cpu| CpuShares { cpu, user: 0.2, system: 0.5, softirq: 0.2, steal: 0.0, idle: 0.1 };
    MachineUse {
        cpus: vec![cpu(0), cpu(1)],
        memory_used_bytes_max: 1 << 30,
        network_in_bytes_per_second: 5e8,
        network_out_bytes_per_second: 5e8,
        psi_cpu_some: Some(0.01),
        psi_memory_some: Some(0.0),
        psi_io_some: None,
    }
}

fn timeline_row(second: u64, rate: f64, mean_us: f64) -> TimelineRow {
    TimelineRow {
        at_s: second as f64,
        requests_per_second: rate,
        errors: 0,
        p50_us: Some(mean_us * 0.9),
        p99_us: Some(mean_us * 2.0),
        server_cpus: Some(0.96),
        server_resident_bytes: Some(12 << 20),
        machine_cpu_share: Some(0.9),
        load_cpus: Some(0.6),
    }
}

/// Prints that a check was skipped, and the reason, where the test harness does not hide it.
pub fn skipped(why: &str) {
    use std::io::Write;
    writeln!(std::io::stderr(), "SKIPPED: {why}").expect("standard error is open");
}

/// A result in which a system accelerates the first one.
pub fn accelerated() -> ResultFile {
    let mut result = result();
    let alone = result.systems[0].clone();
    let mut fast = alone.clone();
    fast.name = "accelerator".to_string();
    fast.title = "accelerator 1.0".to_string();
    for mix in &mut fast.mixes {
        mix.requests_per_second *= 6.5;
        mix.bytes_per_second *= 6.0;
    }
    let mixes = fast.mixes.iter().map(|mix| OriginUse {
        mix: mix.name.clone(),
        run: mix.run,
        clients: mix.clients,
        cpu_s: 0.5,
        length_s: 5.0,
        cpu_us_per_request: 1.5,
    });
    result.suite.name = "accelerator-mixed".to_string();
    let class = |name: &str, weight_percent| ClassRecord {
        name: name.to_string(),
        weight_percent,
        files: 10,
        file_bytes: 6250,
        sizes: None,
        page_requests: 1,
        session_think_s: 0.0,
        body_varies: false,
        tls: false,
        interface: None,
    };
    result.suite.classes = vec![class("CLASS_4K", 80.0), class("CGI", 20.0)];
    let hits = |class: &str, hits| ClassHits { class: class.to_string(), asked: 10, hits };
    fast.origin = Some(OriginResult {
        name: alone.name.clone(),
        title: alone.title.clone(),
        mixes: mixes.collect(),
        hits: vec![hits("CLASS_4K", 10), hits("CGI", 5)],
    });
    result.systems = vec![alone, fast];
    result
}
