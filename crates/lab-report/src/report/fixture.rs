//! Results to test the report with: one as the demo leaves it, one that ended early, one of a single mix, and
//! one whose every string is hostile. The figures are made up, and agree with each other as measured ones do.

use touchstone_lab::result::{
    ClassRecord, ClientRow, ConfigurationFile, CpuShares, ErrorRecord, InterfaceRecord, LatencyRecord,
    LoadUse, MachineFacts, MachineUse, MethodRecord, MixResult, ProcessUse, ReportFigures, ResultFile,
    RunStatus, SCHEMA_VERSION, SkippedInterface, SuiteRecord, SystemResult, TimelineRow, ToolFacts,
};

const CLIENTS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
const MEAN_BODY: f64 = 8348.16;
const HEAD: f64 = 247.0;
const WINDOW_S: f64 = 6.0;

/// The demo: touchstone, nginx and the limit, seven mixes each.
pub(crate) fn full() -> ResultFile {
    let rates: [(&str, &str, bool, [f64; 7]); 3] = [
        (
            "touchstone",
            "touchstone 0.1.0",
            false,
            [21_400.0, 38_900.0, 50_200.0, 54_800.0, 55_943.0, 55_100.0, 54_300.0],
        ),
        (
            "nginx",
            "nginx 1.22.1",
            false,
            [17_900.0, 30_800.0, 37_200.0, 39_100.0, 39_200.0, 39_481.0, 38_800.0],
        ),
        ("limit", "the limit", true, [23_300.0, 42_100.0, 54_900.0, 59_400.0, 60_040.0, 59_700.0, 59_100.0]),
    ];
    let systems = rates
        .into_iter()
        .map(|(name, title, is_limit, rates)| SystemResult {
            name: name.to_owned(),
            title: title.to_owned(),
            is_limit,
            command: ["/usr/sbin/server", "--config", "/tmp/run 1/server.conf"].map(str::to_owned).to_vec(),
            cpus: vec![0],
            machine: None,
            configuration: vec![ConfigurationFile {
                name: "server.conf".to_owned(),
                text:
                    "worker_processes 1;\nevents {\n\tworker_connections 4096;\n}\nhttp { access_log off; }\n"
                        .to_owned(),
            }],
            mixes: CLIENTS.iter().zip(rates).map(|(&clients, rate)| mix(name, clients, rate)).collect(),
            loads: Vec::new(),
            peaks: Vec::new(),
            search: Vec::new(),
            skipped: Vec::new(),
            origin: None,
            last_words: None,
            memory_bytes: None,
        })
        .collect();
    ResultFile {
        schema_version: SCHEMA_VERSION,
        tool: ToolFacts {
            name: "touchstone".to_owned(),
            version: "0.1.0".to_owned(),
            binary_sha256: Some(
                "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
            ),
        },
        started_at: "2026-11-20T10:15:30Z".to_owned(),
        finished_at: "2026-11-20T10:19:06Z".to_owned(),
        command_line: [
            "touchstone",
            "bench",
            "webbench-1.1-static",
            "--quick",
            "--sut",
            "touchstone",
            "--sut",
            "nginx",
        ]
        .map(str::to_owned)
        .to_vec(),
        status: RunStatus::Complete,
        suite: suite(),
        machine: machine(),
        disclosure: touchstone_lab::sample::disclosure(),
        systems,
        method: MethodRecord::default(),
        spice: Vec::new(),
        comparisons: Vec::new(),
        speedups: Vec::new(),
        conformance: None,
        warnings: vec![
            "Load and servers shared two processors; a server that leaves more of them to the load engine \
             looks better."
                .to_owned(),
        ],
    }
}

/// SPICE: touchstone with SHTML and CGI, nginx without CGI.
pub(super) fn spice() -> ResultFile {
    touchstone_lab::sample::spice()
}

/// A run in which nginx died in its fourth mix.
pub(super) fn incomplete() -> ResultFile {
    let mut result = full();
    result.status = RunStatus::Incomplete(
        "nginx ended with signal 9 in the mix 8_clients, 3.2 s after its start".to_owned(),
    );
    result.systems.truncate(2);
    let nginx = &mut result.systems[1];
    nginx.mixes.truncate(4);
    nginx.last_words =
        Some("2026/11/20 10:18:11 [alert] 4211#4211: worker process 4212 exited on signal 9\n".to_owned());
    let cut = &mut nginx.mixes[3];
    cut.complete = false;
    cut.errors = ErrorRecord { connect: 812, reset: 8, ..ErrorRecord::default() };
    cut.timeline.truncate(4);
    cut.timeline[3].errors = 820;
    cut.timeline[3].server_cpus = None;
    cut.server = None;
    cut.machine = None;
    cut.generator_saturated = Some("its busiest thread used 0.98 of a processor".to_owned());
    result
}

/// One system, not watched from the inside, one mix.
pub(super) fn single() -> ResultFile {
    let mut result = full();
    result.systems.truncate(1);
    let system = &mut result.systems[0];
    system.name = "http://127.0.0.1:8080/".to_owned();
    system.title = "http://127.0.0.1:8080/".to_owned();
    system.command.clear();
    system.configuration.clear();
    system.cpus.clear();
    system.mixes = system.mixes.split_off(4);
    system.mixes.truncate(1);
    let mix = &mut system.mixes[0];
    mix.server = None;
    mix.machine = None;
    mix.connect = None;
    for row in &mut mix.timeline {
        row.server_cpus = None;
        row.server_resident_bytes = None;
    }
    result.warnings.clear();
    result.suite.classes.clear();
    result
}

/// A run without measurements.
pub(super) fn empty() -> ResultFile {
    let mut result = full();
    result.status = RunStatus::Incomplete("interrupted before the first mix".to_owned());
    for system in &mut result.systems {
        system.mixes.clear();
    }
    result
}

/// Everything that can be a string is an attack or a nuisance, and the figures are out of all bounds.
pub(super) fn hostile() -> ResultFile {
    const ATTACK: &str =
        "\"><script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>' -->]]>";
    let nuisance = format!("{ATTACK} \u{202e}gnp.exe\u{1b}[2J\0 &amp; {}", "w".repeat(3000));
    let mut result = full();
    for text in [
        &mut result.started_at,
        &mut result.finished_at,
        &mut result.tool.name,
        &mut result.tool.version,
        &mut result.suite.name,
        &mut result.suite.title,
        &mut result.suite.source,
        &mut result.suite.http_version,
        &mut result.machine.host,
        &mut result.machine.os,
        &mut result.machine.kernel,
        &mut result.machine.cpu_model,
    ] {
        text.clone_from(&nuisance);
    }
    result.tool.binary_sha256 = Some(nuisance.clone());
    result.command_line = vec![nuisance.clone(); 3];
    result.status = RunStatus::Incomplete(nuisance.clone());
    result.warnings = vec![nuisance.clone()];
    result.machine.virtualised = Some(nuisance.clone());
    result.machine.product = Some(nuisance.clone());
    result.machine.cpu_caches = Some(nuisance.clone());
    hostile_hardware(&mut result, &nuisance);
    result.machine.sysctls = vec![(nuisance.clone(), nuisance.clone())];
    result.suite.classes[0].name.clone_from(&nuisance);
    for system in &mut result.systems {
        system.name.clone_from(&nuisance);
        system.title.clone_from(&nuisance);
        system.command = vec![nuisance.clone()];
        system.configuration[0].name.clone_from(&nuisance);
        system.configuration[0].text.clone_from(&nuisance);
        system.last_words = Some(nuisance.clone());
        for mix in &mut system.mixes {
            mix.name.clone_from(&nuisance);
            mix.generator_saturated = Some(nuisance.clone());
        }
    }
    result.suite.interfaces = hostile_interfaces(&nuisance);
    for (place, mix) in result.systems[0].mixes.iter_mut().enumerate() {
        mix.interface.clone_from(&result.suite.interfaces[place % 2].name);
    }
    result.systems[1].skipped =
        vec![SkippedInterface { interface: nuisance.clone(), reason: nuisance.clone() }];
    wild_figures(&mut result);
    result
}

fn hostile_hardware(result: &mut ResultFile, nuisance: &str) {
    let text = || Some(nuisance.to_owned());
    for card in &mut result.machine.network_cards {
        card.name = nuisance.to_owned();
        (card.device, card.driver, card.duplex) = (text(), text(), text());
        (card.megabits_per_second, card.receive_queues, card.mtu) = (Some(u64::MAX), u64::MAX, u64::MAX);
    }
    for disk in &mut result.machine.disks {
        disk.name = nuisance.to_owned();
        (disk.model, disk.driver, disk.scheduler) = (text(), text(), text());
        disk.bytes = u64::MAX;
    }
    (result.disclosure.sponsor, result.disclosure.switch) = (text(), text());
    result.disclosure.notes = vec![nuisance.to_owned()];
}

fn hostile_interfaces(nuisance: &str) -> Vec<InterfaceRecord> {
    let figures = |value| ReportFigures {
        server: nuisance.to_owned(),
        processors: u64::MAX,
        requests_per_second: Some(value),
        latency_ms: Some(value),
        static_requests_per_second: Some(0.0),
        static_latency_ms: None,
        source: nuisance.to_owned(),
    };
    ["one", "two"]
        .map(|name| InterfaceRecord {
            name: format!("{name}{nuisance}"),
            title: nuisance.to_owned(),
            description: nuisance.to_owned(),
            needs: nuisance.to_owned(),
            path: nuisance.to_owned(),
            body_bytes: u64::MAX,
            reports: vec![figures(f64::MAX), figures(-1.0)],
        })
        .to_vec()
}

/// Figures that no measurement has, but a file may contain.
fn wild_figures(result: &mut ResultFile) {
    let values = [f64::MAX, -f64::MAX, f64::MIN_POSITIVE, -1.0, 0.0, f64::INFINITY, f64::NAN];
    for system in &mut result.systems {
        for (mix, value) in system.mixes.iter_mut().zip(values) {
            mix.requests_per_second = value;
            mix.bytes_per_second = value;
            mix.megabits_per_second = value;
            mix.window_s = value;
            mix.length_s = value;
            mix.ramp_up_s = value;
            mix.latency.p99_us = value;
            mix.latency.mean_us = value;
            mix.latency.max_us = value;
            mix.latency.curve.push((value, value));
            mix.load.busiest_thread = value;
            mix.timeline[0].at_s = value;
            mix.timeline[1].requests_per_second = value;
            mix.timeline[2].server_cpus = Some(value);
            mix.client_rows[0].mean_us = value;
            if let Some(server) = &mut mix.server {
                server.cpu_us_per_request = value;
                server.cpu_share = value;
            }
        }
        system.mixes[1].clients = 0;
        system.mixes[2].clients = u64::MAX;
        system.mixes[3].client_rows[0].requests = u64::MAX;
        system.mixes[3].latency.count = u64::MAX;
        system.mixes[3].requests = u64::MAX / 2;
        system.mixes[4].timeline.clear();
        system.mixes[5].client_rows.clear();
    }
}

fn suite() -> SuiteRecord {
    let weights = [7.0, 7.0, 10.0, 26.0, 17.0, 13.0, 12.0, 6.0, 1.0, 1.0];
    let names = ["256", "512", "1K", "2K", "4K", "8K", "16K", "32K", "64K", "128K"];
    SuiteRecord {
        name: "webbench-1.1-static".to_owned(),
        title: "WebBench 1.1, 100 % static".to_owned(),
        source: "Ziff-Davis WebBench 1.1, ZD_STATIC_V11; Compaq 529A/0697, Appendix A".to_owned(),
        quick: true,
        classes: weights
            .iter()
            .zip(names)
            .enumerate()
            .map(|(power, (&weight_percent, name))| ClassRecord {
                name: format!("CLASS_{name}"),
                weight_percent,
                files: 10,
                file_bytes: 256 << power,
                sizes: None,
                page_requests: 1,
                session_think_s: 0.0,
                body_varies: false,
                tls: false,
                interface: None,
            })
            .collect(),
        interfaces: Vec::new(),
        mean_body_bytes: MEAN_BODY,
        files: 100,
        tree_bytes: 2_618_880,
        keep_alive: true,
        http_version: "HTTP/1.1".to_owned(),
        tls: None,
        seed: 1997,
    }
}

fn machine() -> MachineFacts {
    touchstone_lab::sample::hardware(MachineFacts {
        host: "lab-1".to_owned(),
        os: "Debian GNU/Linux 12 (bookworm)".to_owned(),
        kernel: "6.18.2".to_owned(),
        cpu_model: "Example CPU @ 2.60GHz".to_owned(),
        cpus: 2,
        memory_bytes: 8 << 30,
        virtualised: Some("kvm".to_owned()),
        sysctls: vec![
            ("net.core.somaxconn".to_owned(), "4096".to_owned()),
            ("net.ipv4.tcp_tw_reuse".to_owned(), "2".to_owned()),
        ],
        open_files_limit: 1_048_576,
        same_host: true,
        ..MachineFacts::default()
    })
}

/// One mix at a rate, with everything else following from it.
pub(super) fn mix(system: &str, clients: u64, rate: f64) -> MixResult {
    let requests = (rate * WINDOW_S) as u64;
    let mean_us = clients as f64 / rate * 1e6;
    let tail = if system == "nginx" { 1.7 } else { 1.0 };
    let bytes_per_second = rate * (MEAN_BODY + HEAD);
    let cost = match system {
        "touchstone" => 15.4,
        "nginx" => 22.1,
        _ => 14.3,
    } * (1.0 + 0.12 / clients as f64);
    let share = (rate * cost / 1e6).min(1.0);
    MixResult {
        name: format!("{clients}_clients"),
        interface: String::new(),
        run: 1,
        clients,
        load_cpus: vec![1],
        ramp_up_s: 1.0,
        length_s: 8.0,
        ramp_down_s: 1.0,
        delay_s: 0.0,
        think_time_s: 0.0,
        window_s: WINDOW_S,
        requests,
        errors: ErrorRecord::default(),
        requests_per_second: rate,
        bytes_per_second,
        megabits_per_second: bytes_per_second * 8.0 / 1e6,
        mean_body_bytes: MEAN_BODY,
        classes: Vec::new(),
        connections: 0,
        tls_handshakes: None,
        latency: latency(requests, mean_us, tail),
        connect: None,
        arrivals: None,
        messages: None,
        littles_law_clients: clients as f64,
        client_rows: client_rows(clients, requests, mean_us, tail),
        server: Some(ProcessUse {
            user_s: share * WINDOW_S * 0.3,
            system_s: share * WINDOW_S * 0.7,
            cpu_us_per_request: cost,
            of_processors: false,
            cpu_share: share,
            resident_bytes_max: (9_500_000.0 + clients as f64 * 24_000.0 * tail * tail) as u64,
            processes: 1,
            threads: 3,
        }),
        machine: Some(machine_use(share, bytes_per_second)),
        load: LoadUse {
            user_s: WINDOW_S * 0.3,
            system_s: WINDOW_S * 0.5,
            cpu_us_per_request: 11.8,
            busiest_thread: (rate * 11.8 / 1e6 + 0.1).min(0.96),
            longest_waiting_thread: Some(0.01),
            held_back_by_quota: None,
        },
        timeline: timeline(rate, share, mean_us, tail),
        generator_saturated: None,
        taint: Vec::new(),
        fairness: None,
        complete: true,
        total_requests: (rate * 7.4) as u64,
        fleet: None,
        thresholds: Vec::new(),
        error_reasons: Vec::new(),
    }
}

/// A latency distribution with a body around the mean and a tail.
fn latency(count: u64, mean_us: f64, tail: f64) -> LatencyRecord {
    let at = |percentile: f64| {
        let nines = -(1.0 - percentile / 100.0).max(1.0 / count.max(1) as f64).log10();
        mean_us * (0.55 + 0.42 * nines.powf(0.7) + 0.09 * tail * nines.powi(2))
    };
    let percentiles = (0..60).map(|step| 100.0 * (1.0 - 10f64.powf(-f64::from(step) / 11.0)));
    LatencyRecord {
        count,
        mean_us,
        stddev_us: mean_us * 0.4 * tail,
        min_us: at(0.0),
        p50_us: at(50.0),
        p90_us: at(90.0),
        p95_us: at(95.0),
        p99_us: at(99.0),
        p999_us: at(99.9),
        max_us: at(100.0),
        curve: percentiles.map(|percentile| (percentile, at(percentile))).collect(),
    }
}

fn client_rows(clients: u64, requests: u64, mean_us: f64, tail: f64) -> Vec<ClientRow> {
    let fair = requests / clients;
    let mut rows: Vec<ClientRow> = (1..=clients)
        .map(|client| {
            // A spread without a random generator: the golden ratio's multiples are even and never repeat.
            let spread = ((client as f64 * 0.618_034).fract() - 0.5) * 0.05 * tail.powi(3);
            let requests = (fair as f64 * (1.0 + spread)) as u64;
            ClientRow {
                client,
                requests,
                errors: 0,
                bytes: (requests as f64 * (MEAN_BODY + HEAD)) as u64,
                mean_us: mean_us / (1.0 + spread),
                p95_us: mean_us * 1.6,
                max_us: mean_us * (2.5 + tail),
            }
        })
        .collect();
    // What rounding took is given to the first, so that the rows add up.
    let sum: u64 = rows.iter().map(|row| row.requests).sum();
    rows[0].requests = rows[0].requests.saturating_add(requests).saturating_sub(sum);
    rows
}

fn machine_use(share: f64, bytes_per_second: f64) -> MachineUse {
    let processor = |cpu, busy: f64| CpuShares {
        cpu,
        user: busy * 0.28,
        system: busy * 0.52,
        softirq: busy * 0.2,
        steal: 0.0,
        idle: 1.0 - busy,
    };
    MachineUse {
        cpus: vec![processor(0, share), processor(1, 0.8)],
        memory_used_bytes_max: 612 << 20,
        network_in_bytes_per_second: bytes_per_second * 1.03,
        network_out_bytes_per_second: bytes_per_second * 1.03,
        psi_cpu_some: Some(0.12),
        psi_memory_some: Some(0.0),
        psi_io_some: None,
    }
}

fn timeline(rate: f64, share: f64, mean_us: f64, tail: f64) -> Vec<TimelineRow> {
    (1..=8)
        .map(|second| {
            let ramp = if second == 1 || second == 8 { 0.55 } else { 1.0 };
            let spread = ((f64::from(second) * 0.618_034 + rate).fract() - 0.5) * 0.05 * tail;
            TimelineRow {
                at_s: f64::from(second - 1) + 0.002,
                requests_per_second: rate * (1.0 + spread) * ramp,
                errors: 0,
                p50_us: Some(mean_us * 0.9),
                p99_us: Some(mean_us * 2.1),
                server_cpus: Some(share * ramp),
                server_resident_bytes: Some(9_600_000),
                machine_cpu_share: Some(0.9 * ramp),
                load_cpus: Some(0.8 * ramp),
            }
        })
        .collect()
}
