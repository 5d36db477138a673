//! Snapshots of another machine: read over HTTP from the metrics of an exporter on it (node_exporter, or any
//! other with Prometheus' text format).
//!
//! The metrics of node_exporter replace this machine's readings, so that every figure of [`super::Usage`] is
//! computed in the same way. Families that are missing leave their figures absent.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use touchstone_lab::recording::{CpuTimes, DiskReading, LinkReading, Snapshot};
use touchstone_load::HttpUrl;

/// The longest text of metrics that is read, bytes.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// The longest wait for it.
const TIME_MAX: Duration = Duration::from_secs(5);
/// node_exporter counts processor time in seconds, our readings in hundredths.
const TICKS_A_SECOND: f64 = 100.0;

/// Where metrics are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exporter {
    address: SocketAddr,
    host: String,
    path: String,
}

impl Exporter {
    /// An exporter by its URL, `http://host:9100/metrics`. The text of an error states what is wrong with it.
    pub fn new(url: &str) -> Result<Exporter, String> {
        let parsed = HttpUrl::parse(url).map_err(|error| error.to_string())?;
        let target = parsed.resolve().map_err(|error| error.to_string())?;
        let path = if parsed.path == "/" { "/metrics".to_owned() } else { parsed.path };
        Ok(Exporter { address: target.address, host: target.host, path })
    }

    /// Reads the metrics now.
    pub fn read(&self, start: Instant) -> io::Result<Snapshot> {
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
        let answer = crate::probe::get(self.address, &self.host, &self.path, BYTES_MAX, TIME_MAX)?;
        if answer.status != 200 {
            return Err(invalid(format!(
                "{}{} answered with status {}",
                self.host, self.path, answer.status
            )));
        }
        let text =
            String::from_utf8(answer.body).map_err(|_| invalid("the metrics are not text".to_owned()))?;
        let snapshot = snapshot(&text, start.elapsed());
        if snapshot.machine.cpus.is_empty() {
            return Err(invalid(format!(
                "{}{} has no node_cpu_seconds_total: is it a node_exporter?",
                self.host, self.path
            )));
        }
        Ok(snapshot)
    }
}

/// One sample: `name{label="value",...} number [time]`.
#[derive(Debug, Clone, PartialEq)]
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

impl Sample<'_> {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| value.as_str())
    }

    /// As a counter; 0 if it is not a number or negative; the largest counter if it is larger.
    fn count(&self) -> u64 {
        // The cast saturates, and turns NaN into 0.
        self.value as u64
    }
}

/// Reads a line of the text format; `None` for comments and malformed lines.
fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    let name_end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(name_end);
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name, labels, value })
}

/// The labels up to the closing brace, and what follows it. Values may hold `\\`, `\"` and `\n`.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start().strip_prefix('"')?;
        let (value, after) = quoted(after)?;
        labels.push((name.trim(), value));
        rest = after;
    }
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

/// The snapshot that a text of metrics describes.
pub fn snapshot(text: &str, at: Duration) -> Snapshot {
    let mut snapshot = Snapshot { at, ..Snapshot::default() };
    let mut cpus: BTreeMap<u32, CpuTimes> = BTreeMap::new();
    let mut links: BTreeMap<String, LinkReading> = BTreeMap::new();
    let mut disks: BTreeMap<String, DiskReading> = BTreeMap::new();
    for sample in text.lines().filter_map(sample) {
        if sample.name == "node_cpu_seconds_total" {
            add_processor_time(&mut cpus, &sample);
        } else if let Some(rest) = sample.name.strip_prefix("node_network_") {
            if let Some(device) = sample.label("device") {
                let link = links.entry(device.to_owned()).or_default();
                link.name = device.to_owned();
                add_to_link(link, rest, &sample);
            }
        } else if let Some(rest) = sample.name.strip_prefix("node_disk_") {
            if let Some(device) = sample.label("device") {
                let disk = disks.entry(device.to_owned()).or_default();
                disk.name = device.to_owned();
                add_to_disk(disk, rest, &sample);
            }
        } else {
            add_to_machine(&mut snapshot, &sample);
        }
    }
    snapshot.machine.cpus = cpus.into_values().collect();
    let bytes = |of: fn(&LinkReading) -> u64| links.values().map(of).fold(0, u64::saturating_add);
    snapshot.machine.network_in_bytes = bytes(|link| link.received_bytes);
    snapshot.machine.network_out_bytes = bytes(|link| link.sent_bytes);
    let memory = &snapshot.memory;
    let used = memory.total_bytes.unwrap_or(0).saturating_sub(memory.available_bytes.unwrap_or(0));
    snapshot.machine.memory_used_bytes = used;
    snapshot.network.links = links.into_values().collect();
    snapshot.disks = disks.into_values().collect();
    snapshot
}

fn add_processor_time(cpus: &mut BTreeMap<u32, CpuTimes>, sample: &Sample<'_>) {
    let (Some(cpu), Some(mode)) =
        (sample.label("cpu").and_then(|cpu| cpu.parse().ok()), sample.label("mode"))
    else {
        return;
    };
    let times = cpus.entry(cpu).or_insert(CpuTimes { cpu, ..CpuTimes::default() });
    let ticks = (sample.value * TICKS_A_SECOND) as u64;
    let of_mode = match mode {
        "user" | "nice" => &mut times.user,
        "system" => &mut times.system,
        "irq" | "softirq" => &mut times.softirq,
        "steal" => &mut times.steal,
        "idle" | "iowait" => &mut times.idle,
        _ => return,
    };
    *of_mode = of_mode.saturating_add(ticks);
}

fn add_to_link(link: &mut LinkReading, name: &str, sample: &Sample<'_>) {
    let count = sample.count();
    match name {
        "receive_bytes_total" => link.received_bytes = count,
        "receive_packets_total" => link.received_packets = count,
        "transmit_bytes_total" => link.sent_bytes = count,
        "transmit_packets_total" => link.sent_packets = count,
        "receive_errs_total" | "transmit_errs_total" => link.errors = link.errors.saturating_add(count),
        "receive_drop_total" | "transmit_drop_total" => link.drops = link.drops.saturating_add(count),
        // Bytes a second; missing or negative if the link has no speed.
        "speed_bytes" => link.megabits_per_second = Some(count / 125_000).filter(|speed| *speed > 0),
        _ => {}
    }
}

fn add_to_disk(disk: &mut DiskReading, name: &str, sample: &Sample<'_>) {
    let milliseconds = (sample.value * 1000.0) as u64;
    match name {
        "reads_completed_total" => disk.reads = sample.count(),
        "read_bytes_total" => disk.read_bytes = sample.count(),
        "writes_completed_total" => disk.writes = sample.count(),
        "written_bytes_total" => disk.written_bytes = sample.count(),
        "io_time_seconds_total" => disk.busy_ms = milliseconds,
        "io_time_weighted_seconds_total" => disk.queued_ms = milliseconds,
        _ => {}
    }
}

fn add_to_machine(snapshot: &mut Snapshot, sample: &Sample<'_>) {
    let count = Some(sample.count());
    let stalled = || Duration::try_from_secs_f64(sample.value).ok();
    let (network, memory, scheduler) = (&mut snapshot.network, &mut snapshot.memory, &mut snapshot.scheduler);
    match sample.name {
        "node_netstat_Tcp_RetransSegs" => network.segments_sent_again = count,
        "node_netstat_Tcp_OutSegs" => network.segments_sent = count,
        "node_netstat_Tcp_ActiveOpens" => network.active_opens = count,
        "node_netstat_Tcp_PassiveOpens" => network.passive_opens = count,
        "node_netstat_TcpExt_ListenOverflows" => network.listen_overflows = count,
        "node_netstat_TcpExt_ListenDrops" => network.listen_drops = count,
        "node_netstat_TcpExt_TCPTimeouts" => network.timeouts = count,
        "node_netstat_TcpExt_SyncookiesSent" => network.syn_cookies = count,
        "node_sockstat_TCP_inuse" => network.sockets = count,
        "node_sockstat_TCP_orphan" => network.orphans = count,
        "node_sockstat_TCP_tw" => network.time_wait = count,
        "node_sockstat_TCP_mem" => network.memory_pages = count,
        "node_softnet_dropped_total" => network.backlog_drops = sum(network.backlog_drops, sample),
        "node_softnet_times_squeezed_total" => {
            network.softirq_squeezed = sum(network.softirq_squeezed, sample)
        }
        "node_memory_MemTotal_bytes" => memory.total_bytes = count,
        "node_memory_MemAvailable_bytes" => memory.available_bytes = count,
        "node_memory_Cached_bytes" => memory.page_cache_bytes = count,
        "node_vmstat_pgfault" => memory.page_faults = count,
        "node_vmstat_pgmajfault" => memory.major_page_faults = count,
        "node_vmstat_pswpin" => memory.swapped_in_pages = count,
        "node_vmstat_pswpout" => memory.swapped_out_pages = count,
        "node_vmstat_oom_kill" => memory.killed_for_memory = count,
        "node_procs_running" => scheduler.running = count,
        "node_procs_blocked" => scheduler.blocked = count,
        "node_context_switches_total" => scheduler.context_switches = count,
        "node_forks_total" => scheduler.started = count,
        "node_pressure_cpu_waiting_seconds_total" => snapshot.machine.psi_cpu_some = stalled(),
        "node_pressure_memory_waiting_seconds_total" => snapshot.machine.psi_memory_some = stalled(),
        "node_pressure_io_waiting_seconds_total" => snapshot.machine.psi_io_some = stalled(),
        _ => {}
    }
}

fn sum(before: Option<u64>, sample: &Sample<'_>) -> Option<u64> {
    Some(before.unwrap_or(0).saturating_add(sample.count()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read as _, Write as _};

    const TEXT: &str = r#"# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 100.5
node_cpu_seconds_total{cpu="0",mode="iowait"} 0.5
node_cpu_seconds_total{cpu="0",mode="softirq"} 2
node_cpu_seconds_total{cpu="1",mode="user"} 7.25
node_netstat_TcpExt_ListenOverflows 12
node_netstat_Tcp_OutSegs 1.2345e+06
node_network_transmit_bytes_total{device="eth0"} 1e+09
node_network_speed_bytes{device="eth0"} 1.25e+08
node_network_receive_drop_total{device="eth0"} 3
node_network_transmit_drop_total{device="eth0"} 4
node_disk_io_time_seconds_total{device="sda"} 12.5
node_memory_MemTotal_bytes 8e+09
node_memory_MemAvailable_bytes 6e+09
node_pressure_io_waiting_seconds_total 1.5
node_softnet_dropped_total{cpu="0"} 1
node_softnet_dropped_total{cpu="1"} 2
other{label="a \"quoted\" } , value\n"} NaN 1700000000000
"#;

    #[test]
    fn the_metrics_of_node_exporter_take_the_places_of_our_readings() {
        let found = snapshot(TEXT, Duration::from_secs(9));
        let cpu = CpuTimes { cpu: 0, user: 0, system: 0, softirq: 200, steal: 0, idle: 10_100 };
        assert_eq!(found.machine.cpus, [cpu, CpuTimes { cpu: 1, user: 725, ..CpuTimes::default() }]);
        assert_eq!(
            (found.network.listen_overflows, found.network.segments_sent),
            (Some(12), Some(1_234_500))
        );
        let link = &found.network.links[0];
        assert_eq!((link.sent_bytes, link.megabits_per_second, link.drops), (1_000_000_000, Some(1000), 7));
        assert_eq!((found.disks[0].busy_ms, found.machine.memory_used_bytes), (12_500, 2_000_000_000));
        assert_eq!(found.machine.psi_io_some, Some(Duration::from_millis(1500)));
        assert_eq!((found.network.backlog_drops, found.network.resets), (Some(3), None));
        let odd = sample(TEXT.lines().last().unwrap()).unwrap();
        assert_eq!((odd.label("label"), odd.count()), (Some("a \"quoted\" } , value\n"), 0));
    }

    #[test]
    fn an_exporter_is_asked_over_http() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            for body in [TEXT, "up 1\n"] {
                let mut stream = listener.accept().unwrap().0;
                let mut request = [0u8; 1024];
                let count = stream.read(&mut request).unwrap();
                assert!(String::from_utf8_lossy(&request[..count]).starts_with("GET /metrics HTTP/1.1\r\n"));
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                stream.write_all(head.as_bytes()).unwrap();
                stream.write_all(body.as_bytes()).unwrap();
            }
        });
        let exporter = Exporter::new(&url).unwrap();
        assert_eq!(exporter.read(Instant::now()).unwrap().machine.cpus.len(), 2);
        assert!(exporter.read(Instant::now()).unwrap_err().to_string().contains("is it a node_exporter?"));
        server.join().unwrap();
        assert!(exporter.read(Instant::now()).is_err());
        assert!(Exporter::new("ftp://x").is_err() && Exporter::new("http://").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(
            text in "(node_cpu_seconds_total|node_network_speed_bytes|\\{|\\}|cpu=|\"|\\\\|\
                     [0-9e.+-]{1,9}| |\\n|\\PC){0,40}",
        ) {
            let _ = snapshot(&text, Duration::ZERO);
        }
    }
}
