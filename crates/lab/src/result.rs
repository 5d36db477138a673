//! The result of a bench run: one versioned JSON file (`result.json`) that holds every figure, the
//! configuration of both sides and the machine's facts. The report, the tables and every later comparison are
//! made from it.
//!
//! Names contain the units. A figure that was not measured is absent (`null`), never zero. The result
//! directory also contains the raw histograms (`latency.hlog`), the time line (`timeline.csv`) and the
//! configuration files of the systems, byte for byte.

use crate::hardware::{Disk, NetworkCard};
use crate::statistics::fairness::Fairness;
use crate::statistics::paired::Comparison;
use crate::statistics::taint::Sign;
use crate::statistics::useful_peak::Criteria;
use crate::threshold_record::{ReasonRecord, ThresholdRecord};
use serde::{Deserialize, Serialize};
use touchstone_conformance::record::Conformance;
use touchstone_load::HandshakeCounts;

/// The version of this schema; a reader refuses a higher one.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything one `touchstone bench` left behind.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct ResultFile {
    /// [`SCHEMA_VERSION`] when it was written.
    pub schema_version: u32,
    /// The program that measured.
    pub tool: ToolFacts,
    /// Start of the run, RFC 3339, UTC.
    pub started_at: String,
    /// End of the run, RFC 3339, UTC.
    pub finished_at: String,
    /// The words of the command line, so that the run can be repeated.
    pub command_line: Vec<String>,
    /// Whether the run was completed.
    pub status: RunStatus,
    /// What was run.
    pub suite: SuiteRecord,
    /// How it was measured.
    #[serde(default)]
    pub method: MethodRecord,
    /// Where it was run.
    pub machine: MachineFacts,
    /// The statements of the person who measured.
    #[serde(default)]
    pub disclosure: Disclosure,
    /// The systems under test, in the order in which they were named; the limit, where measured, is one of
    /// them.
    pub systems: Vec<SystemResult>,
    /// The SPICE measures, a row for each interface of each system; empty where the suite compares no
    /// interfaces.
    #[serde(default)]
    pub spice: Vec<SpiceRow>,
    /// Whether the systems differ, each pair by each figure; empty until the run is completed.
    #[serde(default)]
    pub comparisons: Vec<Compared>,
    /// How much more a system does on more processors; empty where it was measured on one number of them.
    #[serde(default)]
    pub speedups: Vec<SpeedupRow>,
    /// Which rules of HTTP each system keeps; absent if the suite did not request the test.
    #[serde(default)]
    pub conformance: Option<Conformance>,
    /// The facts that a reader needs before trusting a figure, a sentence each.
    pub warnings: Vec<String>,
}

/// Whether a run was completed.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum RunStatus {
    /// Every mix of every system was measured.
    Complete,
    /// It ended early; the result has what was measured until then. The text states the reason.
    Incomplete(String),
}

/// The measuring program.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct ToolFacts {
    /// "touchstone".
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of its executable, hexadecimal.
    pub binary_sha256: Option<String>,
}

/// How a suite was measured.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq)]
pub struct MethodRecord {
    /// How often each mix was run on each system, in blocks: within a block every system has its turn with
    /// every mix.
    pub runs: u64,
    /// How long each system was loaded before the first mix, with all requests of the run; these requests
    /// were not counted. Seconds.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Whether all systems had the same mix at the same time, so that a disturbance of the machine affects
    /// all equally: their processor times can be compared with each other; their rates are those of servers
    /// that share their processors.
    #[serde(default)]
    pub at_once: bool,
    /// Whether all systems were restarted before each run except the first, so that the random effects of a
    /// start, such as the placement of its memory, differ in each run.
    #[serde(default)]
    pub restarts: bool,
    /// What a load must fulfil to be useful.
    pub useful: Criteria,
}

impl Default for MethodRecord {
    fn default() -> MethodRecord {
        MethodRecord { runs: 1, warm_up_s: 0.0, at_once: false, restarts: false, useful: Criteria::default() }
    }
}

/// The suite as it was run.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct SuiteRecord {
    /// Its name, for example `webbench-1.1-static`.
    pub name: String,
    /// A line that says what it is.
    pub title: String,
    /// Its source (report and table).
    pub source: String,
    /// True for the short form.
    pub quick: bool,
    /// The classes of the workload with their weights.
    pub classes: Vec<ClassRecord>,
    /// The interfaces that were measured in turn, the others are compared with the first; empty where the
    /// suite has one workload for all.
    #[serde(default)]
    pub interfaces: Vec<InterfaceRecord>,
    /// The weighted mean of the body length, bytes.
    pub mean_body_bytes: f64,
    /// Files in the tree.
    pub files: u64,
    /// Bytes in the tree.
    pub tree_bytes: u64,
    /// Kept connections (true) or a new one for every request.
    pub keep_alive: bool,
    /// "HTTP/1.0" or "HTTP/1.1".
    pub http_version: String,
    /// What was offered where connections were made with TLS; absent where none were.
    #[serde(default)]
    pub tls: Option<TlsRecord>,
    /// Seed of the choice of requests.
    pub seed: u64,
}

/// What the clients of a suite offered in their TLS handshakes.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct TlsRecord {
    /// "1.2" or "1.3" alone; absent: both, and the server chose.
    pub version: Option<String>,
    /// The share of the handshakes that were to resume an earlier session, 0 to 1.
    pub resumption_share: f64,
}

/// One class of the workload.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct ClassRecord {
    /// For example `CLASS_4K`.
    pub name: String,
    /// Percent of the requests.
    pub weight_percent: f64,
    /// Files in the class, or different requests.
    pub files: u64,
    /// Bytes of each file; of several sizes their mean by popularity, rounded.
    pub file_bytes: u64,
    /// The sizes, where they are not all the same.
    #[serde(default)]
    pub sizes: Option<SizeRecord>,
    /// Requests that follow from one choice: those of a page, 1 elsewhere.
    #[serde(default = "one")]
    pub page_requests: u64,
    /// For a session: the sum of its think times, seconds; otherwise 0.
    #[serde(default)]
    pub session_think_s: f64,
    /// True if the server decides the length of a body, so that the length cannot be checked.
    #[serde(default)]
    pub body_varies: bool,
    /// True where its requests go over TLS.
    #[serde(default)]
    pub tls: bool,
    /// The interface that answers; absent: a file, or requests of the suite's own.
    #[serde(default)]
    pub interface: Option<String>,
}

/// A result of before there were pages has none.
fn one() -> u64 {
    1
}

/// The sizes of a class's answers.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct SizeRecord {
    /// The smallest, bytes.
    pub smallest_bytes: u64,
    /// The largest, bytes.
    pub largest_bytes: u64,
    /// Their mean by popularity, bytes.
    pub mean_bytes: f64,
    /// Their standard deviation by popularity, bytes.
    pub stddev_bytes: f64,
    /// All together, bytes.
    pub tree_bytes: u64,
}

impl ClassRecord {
    /// The mean of the body length, bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.sizes.as_ref().map_or(self.file_bytes as f64, |sizes| sizes.mean_bytes)
    }

    /// All its different answers together, bytes.
    pub fn tree_bytes(&self) -> f64 {
        self.sizes
            .as_ref()
            .map_or(self.files as f64 * self.file_bytes as f64, |sizes| sizes.tree_bytes as f64)
    }

    /// What one of its requests adds, on average, to the variance of the body length around a mean. The
    /// requests of a page are sent together, so that their differences from the mean add up.
    pub fn variance_around(&self, mean_bytes: f64) -> f64 {
        let between = (self.mean_bytes() - mean_bytes).powi(2);
        if self.page_requests > 1 {
            return between * self.page_requests as f64;
        }
        between + self.sizes.as_ref().map_or(0.0, |sizes| sizes.stddev_bytes.powi(2))
    }
}

impl SuiteRecord {
    /// The average think time for each request of a mix, seconds: the mix's think time before each choice,
    /// and the own think times of a session. Within a page it is 0.
    pub fn think_s_per_request(&self, mix: &MixResult) -> f64 {
        if self.classes.is_empty() || !self.interfaces.is_empty() {
            return mix.think_time_s;
        }
        let of_class = |class: &ClassRecord| {
            let choices = class.weight_percent / 100.0 / class.page_requests.max(1) as f64;
            choices * (mix.think_time_s + class.session_think_s)
        };
        self.classes.iter().map(of_class).sum()
    }

    /// How far clients, rate and latency of a mix may be from Little's law, as a share, when every figure is
    /// right.
    ///
    /// At an edge of the window every client may have an active request, and its whole latency counts in
    /// the window in which it ends: with the longest latency L in a window W this changes the sum by L / W at
    /// most. If clients have think times, the number of clients that think within the window is random: four
    /// standard errors, with exponential think times, which vary more than all others that a suite has.
    pub fn littles_law_tolerance(&self, mix: &MixResult) -> f64 {
        const COUNTING: f64 = 0.03;
        const STANDARD_ERRORS: f64 = 4.0;
        let edges = if mix.window_s > 0.0 { mix.latency.max_us.max(0.0) / 1e6 / mix.window_s } else { 0.0 };
        let exact = COUNTING + edges;
        let think_s = self.think_s_per_request(mix);
        if think_s <= 0.0 || mix.requests == 0 {
            return exact;
        }
        // Of one choice: how many requests follow from it, its think times, and the square of those on
        // average.
        let (mut choices, mut mean_s, mut square_s2) = (0.0, 0.0, 0.0);
        for class in &self.classes {
            let of_class = class.weight_percent / 100.0 / class.page_requests.max(1) as f64;
            let thought_s = mix.think_time_s + class.session_think_s;
            choices += of_class;
            mean_s += of_class * thought_s;
            square_s2 += of_class * 2.0 * thought_s * thought_s;
        }
        if choices <= 0.0 || !self.interfaces.is_empty() {
            (choices, mean_s, square_s2) = (1.0, think_s, 2.0 * think_s * think_s);
        }
        (mean_s, square_s2) = (mean_s / choices, square_s2 / choices);
        let variation = (square_s2 / (mean_s * mean_s) - 1.0).max(0.0).sqrt();
        let part = think_s / (think_s + mix.latency.mean_us.max(0.0) / 1e6);
        exact + STANDARD_ERRORS * part * variation / (mix.requests as f64 * choices).sqrt()
    }
}

/// An interface (a way to make an answer) that was measured separately.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct InterfaceRecord {
    /// For example `cgi`.
    pub name: String,
    /// Its name for people, for example `CGI`.
    pub title: String,
    /// What answers, in words.
    pub description: String,
    /// The capability that a system must have for it.
    pub needs: String,
    /// The path that was requested.
    pub path: String,
    /// Bytes of the answer's body.
    pub body_bytes: u64,
    /// What the reports of 1996 to 2000 measured for it.
    pub reports: Vec<ReportFigures>,
}

/// What a report of 1996 to 2000 measured for an interface, at its peak.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct ReportFigures {
    /// The server, for example `iWS 4.0`.
    pub server: String,
    /// Its processors.
    pub processors: u64,
    /// Requests a second.
    pub requests_per_second: Option<f64>,
    /// Mean latency, milliseconds.
    pub latency_ms: Option<f64>,
    /// Requests a second of static files in the same report.
    pub static_requests_per_second: Option<f64>,
    /// Mean latency of static files in the same report, milliseconds.
    pub static_latency_ms: Option<f64>,
    /// The report and its table.
    pub source: String,
}

/// The SPICE measures of one interface of one system.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct SpiceRow {
    /// The system's name.
    pub system: String,
    /// The interface's name.
    pub interface: String,
    /// SPICE request rate: valid answers a second at the interface's peak.
    pub requests_per_second: f64,
    /// Bytes received a second at the peak, heads included.
    pub bytes_per_second: f64,
    /// SPICE latency: the mean latency at the peak, microseconds.
    pub latency_us: f64,
    /// Virtual clients at the peak.
    pub clients: u64,
    /// The efficiencies with the interface at its peak and the static file at its own, as the report of 2000
    /// has them.
    pub at_own_peak: Option<SpiceEfficiency>,
    /// The efficiencies with as many clients for both: the most that both were measured with.
    pub at_equal_load: Option<SpiceEfficiency>,
    /// What a request costs in processor time, with as many clients as at equal load.
    pub processor_cost: Option<SpiceProcessorCost>,
}

/// What is left of the static file's figures: 1 is as good as the static file.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct SpiceEfficiency {
    /// Virtual clients of the interface.
    pub clients: u64,
    /// Virtual clients of the static file.
    pub static_clients: u64,
    /// SPICE request efficiency: the interface's rate divided by the static file's.
    pub request_efficiency: f64,
    /// The interface's bytes a second divided by the static file's.
    pub throughput_efficiency: f64,
    /// SPICE latency efficiency: the static file's mean latency divided by the interface's.
    pub latency_efficiency: f64,
}

/// The processor time of a request.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct SpiceProcessorCost {
    /// Virtual clients of both.
    pub clients: u64,
    /// Of the interface, microseconds of processor time a request.
    pub cpu_us_per_request: f64,
    /// Of the static file, microseconds of processor time a request.
    pub static_cpu_us_per_request: f64,
    /// The static file's processor time divided by the interface's.
    pub efficiency: f64,
}

/// An interface that was not measured on a system.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct SkippedInterface {
    /// The interface's name; empty where the suite has one workload for all.
    pub interface: String,
    /// Why not, as a sentence without its full stop.
    pub reason: String,
}

/// Facts that no machine reports: the person who measures states them (`bench --sponsor`, `--switch`,
/// `--note`).
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct Disclosure {
    /// Who requested and paid for the measurement.
    pub sponsor: Option<String>,
    /// What joins the load machines and the server.
    pub switch: Option<String>,
    /// Other facts that a reader needs, a paragraph each.
    pub notes: Vec<String>,
}

/// The machine, as far as a reader needs it to repeat the run.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Default)]
pub struct MachineFacts {
    /// Host name.
    pub host: String,
    /// Operating system, from os-release.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub cpu_model: String,
    /// Processors online.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// The hypervisor, where one shows itself.
    pub virtualised: Option<String>,
    /// Kernel settings that matter to a server, name and value.
    pub sysctls: Vec<(String, String)>,
    /// Limit of open files of the measuring process.
    pub open_files_limit: u64,
    /// True when load and server ran on this one machine.
    pub same_host: bool,
    /// Vendor and product.
    #[serde(default)]
    pub product: Option<String>,
    /// The caches of a processor.
    #[serde(default)]
    pub cpu_caches: Option<String>,
    /// Its network cards.
    #[serde(default)]
    pub network_cards: Vec<NetworkCard>,
    /// Its disks.
    #[serde(default)]
    pub disks: Vec<Disk>,
}

/// What one system under test did.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct SystemResult {
    /// Its name in `touchstone systems`, or the URL.
    pub name: String,
    /// Its name for people, with version, for example `nginx 1.22.1`.
    pub title: String,
    /// True for the kernel's limit: a reference line, not a rival.
    pub is_limit: bool,
    /// The command that started it; empty when it was already running.
    pub command: Vec<String>,
    /// The processors that it was pinned to; empty: not pinned or not known.
    pub cpus: Vec<usize>,
    /// The machine that it ran on, where it was started on another than the load engine's.
    #[serde(default)]
    pub machine: Option<MachineFacts>,
    /// Its configuration files, byte for byte.
    pub configuration: Vec<ConfigurationFile>,
    /// One row a mix and run, in the order in which they were measured; a row a mix, interface and run where
    /// the suite compares interfaces.
    pub mixes: Vec<MixResult>,
    /// Every load with its runs taken together, in the order of the suite; computed from the mixes.
    #[serde(default)]
    pub loads: Vec<LoadResult>,
    /// The peak and the useful peak of each interface (of the one workload, where there are none); computed
    /// from the mixes.
    #[serde(default)]
    pub peaks: Vec<PeakResult>,
    /// The trials to find the loads that were then measured; empty where the suite or the caller named them.
    #[serde(default)]
    pub search: Vec<SearchTrial>,
    /// The interfaces of the suite that were not measured on it, with the reason.
    #[serde(default)]
    pub skipped: Vec<SkippedInterface>,
    /// The system that it accelerates, and its figures; absent if it has no origin.
    #[serde(default)]
    pub origin: Option<OriginResult>,
    /// The last lines that it printed, where it died or failed.
    pub last_words: Option<String>,
    /// The most memory that it was given, bytes; absent: as much as the machine has.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
}

/// The origin behind an accelerator.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct OriginResult {
    /// Its name in `touchstone systems`: measured alone it bears the same.
    pub name: String,
    /// Its name for people, with version.
    pub title: String,
    /// What it used in each mix, in the order of the mixes.
    pub mixes: Vec<OriginUse>,
    /// How much of each class the accelerator had: after each mix each file was requested once.
    pub hits: Vec<ClassHits>,
}

/// An origin's processor time in a mix, ramps included. Programs whose time the kernel adds to no process are
/// left out.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct OriginUse {
    /// The mix's name.
    pub mix: String,
    /// Which run of the mix, from 1.
    #[serde(default = "first_run")]
    pub run: u64,
    /// Virtual clients.
    pub clients: u64,
    /// Processor time, seconds.
    pub cpu_s: f64,
    /// The whole length of the mix, seconds.
    pub length_s: f64,
    /// Processor time for each valid answer of the accelerator, microseconds.
    pub cpu_us_per_request: f64,
}

/// How much of a class an accelerator had.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct ClassHits {
    /// The class.
    pub class: String,
    /// Requests.
    pub asked: u64,
    /// Those that were answered from stored responses, by `Cache-Status`.
    pub hits: u64,
}

/// One configuration file.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct ConfigurationFile {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// One mix on one system. Rates and latencies are of the counted window alone.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct MixResult {
    /// The mix's name, for example `16_clients`.
    pub name: String,
    /// The interface that it measured; empty where the suite has one workload for all.
    #[serde(default)]
    pub interface: String,
    /// Which run of the mix it was, from 1.
    #[serde(default = "first_run")]
    pub run: u64,
    /// Virtual clients.
    pub clients: u64,
    /// Processors that the load engine was pinned to.
    pub load_cpus: Vec<usize>,
    /// Ramp up, seconds, not counted.
    pub ramp_up_s: f64,
    /// Whole length with ramps, seconds.
    pub length_s: f64,
    /// Ramp down, seconds, not counted.
    pub ramp_down_s: f64,
    /// Random start delay, at most, seconds.
    pub delay_s: f64,
    /// Think time, seconds.
    pub think_time_s: f64,
    /// The counted window as it was, seconds.
    pub window_s: f64,
    /// Valid answers in the window.
    pub requests: u64,
    /// Errors in the window.
    pub errors: ErrorRecord,
    /// Valid answers a second.
    pub requests_per_second: f64,
    /// Bytes received a second, heads included (WebBench: throughput).
    pub bytes_per_second: f64,
    /// The same in 10^6 bits a second.
    pub megabits_per_second: f64,
    /// Mean body length, bytes.
    pub mean_body_bytes: f64,
    /// Each class's share, in the order of the suite's classes; a result of before has none.
    #[serde(default)]
    pub classes: Vec<ClassFigures>,
    /// Connections made in the window.
    pub connections: u64,
    /// TLS handshakes that were finished, ramps included; absent where there were none.
    #[serde(default)]
    pub tls_handshakes: Option<HandshakeRecord>,
    /// From the start of the connection or request to the last byte.
    pub latency: LatencyRecord,
    /// From connect to connected; absent when no connection was made in the window.
    pub connect: Option<LatencyRecord>,
    /// What became of the arrivals of an open load; absent of a closed one.
    #[serde(default)]
    pub arrivals: Option<ArrivalFigures>,
    /// The messages, where answers are streams of them.
    #[serde(default)]
    pub messages: Option<MessageFigures>,
    /// requests_per_second x mean latency: by Little's law the number of clients (without think time).
    pub littles_law_clients: f64,
    /// One row a virtual client, in order.
    pub client_rows: Vec<ClientRow>,
    /// The system under test's processes in the window.
    pub server: Option<ProcessUse>,
    /// The machine in the window.
    pub machine: Option<MachineUse>,
    /// The load engine's own processor time in the window.
    pub load: LoadUse,
    /// The time line, one row a sample (a second), ramps included.
    pub timeline: Vec<TimelineRow>,
    /// Set when the load engine and not the server set the rate: the figures are a lower bound.
    pub generator_saturated: Option<String>,
    /// The signs of a load engine, or of its machine, at its limit; empty: there were none.
    #[serde(default)]
    pub taint: Vec<Sign>,
    /// How equally the clients were served; absent if none was answered.
    #[serde(default)]
    pub fairness: Option<Fairness>,
    /// False when the mix was cut short.
    pub complete: bool,
    /// Every valid answer, ramps included: the server's log must show as many.
    pub total_requests: u64,
    /// The load machines, where there were several.
    #[serde(default)]
    pub fleet: Option<FleetUse>,
    /// The outcome of each threshold.
    #[serde(default)]
    pub thresholds: Vec<ThresholdRecord>,
    /// Why requests failed, the most frequent reason first.
    #[serde(default)]
    pub error_reasons: Vec<ReasonRecord>,
}

/// TLS handshakes by what they really were.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub struct HandshakeRecord {
    /// Full handshakes.
    pub full: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
}

impl HandshakeRecord {
    /// What the load engine counted; `None` where it made none.
    pub fn of(counts: HandshakeCounts) -> Option<HandshakeRecord> {
        let HandshakeCounts { full, resumed } = counts;
        (full + resumed > 0).then_some(HandshakeRecord { full, resumed })
    }
}

/// The load machines of a mix.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct FleetUse {
    /// From the first agent's start to the last one's, each measured against the agreed moment, microseconds.
    pub start_spread_us: f64,
    /// The messages between controller and agents, bytes per second of the mix, both directions together.
    pub control_bytes_per_second: f64,
    /// One row an agent that had a part of the mix.
    pub agents: Vec<AgentUse>,
}

/// A load machine in a mix. The figures of its result are absent if the result did not arrive.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct AgentUse {
    /// Its name.
    pub name: String,
    /// Virtual clients that were its part.
    pub clients: u64,
    /// Engine threads that were its part.
    pub threads: u64,
    /// Valid answers in the window.
    pub requests: Option<u64>,
    /// Errors in the window.
    pub errors: Option<u64>,
    /// Valid answers, ramps included.
    pub total_requests: Option<u64>,
    /// Its busiest engine thread's share of one processor, 0 to 1.
    pub busiest_thread: Option<f64>,
    /// How long after the moment that was agreed upon its last engine thread began, microseconds.
    pub start_lateness_us: Option<f64>,
    /// How far its clock of the day was ahead of the controller's, microseconds.
    pub clock_offset_us: Option<f64>,
    /// The offset is not wrong by more than this, microseconds.
    pub clock_bound_us: Option<f64>,
    /// Bytes that it sent to the controller in the mix, its result left out.
    pub control_sent_bytes: u64,
    /// Bytes that it received from the controller in the mix.
    pub control_received_bytes: u64,
    /// When it was lost, seconds from the start of the mix.
    pub lost_at_s: Option<f64>,
}

/// A result from before mixes had runs has one run of each.
fn first_run() -> u64 {
    1
}

/// One load on one system: its runs taken together. Intervals are of 95 %.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct LoadResult {
    /// The mix's name.
    pub mix: String,
    /// The interface; empty where the suite has one workload for all.
    pub interface: String,
    /// Virtual clients.
    pub clients: u64,
    /// Arrivals a second of an open load; absent of a closed one.
    #[serde(default)]
    pub arrivals_per_second: Option<f64>,
    /// Runs that were measured whole.
    pub runs: u64,
    /// The index, among the system's mixes, of the run with the median rate: it represents the load in tables
    /// and curves.
    pub median_row: u64,
    /// Valid answers a second.
    pub requests_per_second: RunsFigure,
    /// Bytes received a second, heads included.
    pub bytes_per_second: RunsFigure,
    /// Mean latency, microseconds.
    pub mean_us: RunsFigure,
    /// Median latency, microseconds.
    pub p50_us: RunsFigure,
    /// 95th percentile of the latency, microseconds.
    pub p95_us: RunsFigure,
    /// 99th percentile of the latency, microseconds.
    pub p99_us: RunsFigure,
    /// The server's processor time for each valid answer, microseconds; absent where it was not watched.
    pub cpu_us_per_request: Option<RunsFigure>,
    /// Failed requests as a share of all, in the worst run.
    pub errors_share: f64,
    /// Jain's index of the clients' answers in the worst run; absent where none was answered.
    pub jain: Option<f64>,
    /// The slowest client's mean latency over the median client's in the worst run.
    pub slowest_over_median: Option<f64>,
    /// Runs in which the load engine was at its limit.
    pub tainted_runs: u64,
    /// Why the load is not useful, a reason each; empty: it is.
    pub complaints: Vec<String>,
}

/// A figure of several runs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq)]
pub struct RunsFigure {
    /// The median of the runs.
    pub median: f64,
    /// Its lower bound; absent if one run is not sufficient to compute it.
    pub low: Option<f64>,
    /// Its upper bound; absent if one run is not sufficient to compute it.
    pub high: Option<f64>,
}

/// The peak of a system with an interface, and the load that is useful.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct PeakResult {
    /// The interface; empty where the suite has one workload for all.
    pub interface: String,
    /// The load with the highest median rate.
    pub peak: PeakLoad,
    /// The highest load that people would still be content with; absent where none is.
    pub useful: Option<PeakLoad>,
    /// Why the two differ, in a sentence; absent where they are one.
    pub difference: Option<String>,
}

/// A load by its clients and its rate.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq)]
pub struct PeakLoad {
    /// Virtual clients.
    pub clients: u64,
    /// Valid answers a second: the median of the runs, with its interval.
    pub requests_per_second: RunsFigure,
}

/// A short trial of a search for the peak. It finds the loads to measure, and is not itself a measurement.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct SearchTrial {
    /// The interface; empty where the suite has one workload for all.
    pub interface: String,
    /// Virtual clients.
    pub clients: u64,
    /// Valid answers a second.
    pub requests_per_second: f64,
    /// 95th percentile of the latency, microseconds.
    pub p95_us: f64,
    /// Failed requests as a share of all.
    pub errors_share: f64,
}

/// A system on more processors beside itself on fewer: the 1P and 2P tables of the reports.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct SpeedupRow {
    /// The system's name on the fewest processors.
    pub base: String,
    /// The system's name on more.
    pub system: String,
    /// The interface; empty where the suite has one workload for all.
    pub interface: String,
    /// The fewest processors.
    pub base_processors: u64,
    /// The more processors.
    pub processors: u64,
    /// The peak on the fewest.
    pub base_peak: PeakLoad,
    /// The peak on more.
    pub peak: PeakLoad,
    /// The second rate over the first.
    pub speedup: f64,
    /// The speedup over the ratio of the processors: 1 where every processor does as much as the first.
    pub efficiency: f64,
}

/// Failed requests by kind.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Default)]
pub struct ErrorRecord {
    /// The connection was refused or could not be made.
    pub connect: u64,
    /// The connection was reset or broke in mid-answer.
    pub reset: u64,
    /// No complete answer within the time limit.
    pub timeout: u64,
    /// Fewer or more bytes than stated.
    pub short_body: u64,
    /// A status outside 200 to 399.
    pub bad_status: u64,
    /// Not HTTP.
    pub malformed: u64,
    /// TLS could not be agreed on, or its certificate was refused.
    #[serde(default)]
    pub tls: u64,
    /// A body of the right length with wrong contents.
    #[serde(default)]
    pub wrong_body: u64,
    /// An answer without a value that was to be taken from it.
    #[serde(default)]
    pub extraction: u64,
    /// An answer that does not meet a condition.
    #[serde(default)]
    pub assertion: u64,
    /// A WebSocket whose server broke the protocol of its frames.
    #[serde(default)]
    pub wrong_frame: u64,
    /// A WebSocket that the server closed too early, or without a close frame.
    #[serde(default)]
    pub closed: u64,
}

impl ErrorRecord {
    /// All kinds together.
    pub fn total(&self) -> u64 {
        let http = [self.connect, self.reset, self.timeout, self.short_body, self.bad_status, self.malformed];
        let others =
            [self.tls, self.wrong_body, self.extraction, self.assertion, self.wrong_frame, self.closed];
        http.into_iter().chain(others).fold(0, u64::saturating_add)
    }
}

/// A latency distribution in figures; the whole histogram is in `latency.hlog`.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct LatencyRecord {
    /// Values in it.
    pub count: u64,
    /// Mean, microseconds.
    pub mean_us: f64,
    /// Standard deviation, microseconds.
    pub stddev_us: f64,
    /// Smallest, microseconds.
    pub min_us: f64,
    /// Median, microseconds.
    pub p50_us: f64,
    /// 90th percentile, microseconds.
    pub p90_us: f64,
    /// 95th percentile, microseconds.
    pub p95_us: f64,
    /// 99th percentile, microseconds.
    pub p99_us: f64,
    /// 99.9th percentile, microseconds.
    pub p999_us: f64,
    /// Largest, microseconds.
    pub max_us: f64,
    /// The curve for drawing: (percentile 0 to 100, microseconds), rising, at most 100 points.
    pub curve: Vec<(f64, f64)>,
}

/// What a mix measured of one class of requests, for example of one page.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq)]
pub struct ClassFigures {
    /// Errors.
    pub errors: u64,
    /// Pages that ended, whether all their requests were answered or not; without pages, requests.
    pub pages: u64,
    /// Latency of the valid answers, microseconds.
    pub response_us: Values,
    /// From connect to connected, microseconds; without values where connections are for requests of several
    /// classes.
    pub connect_us: Values,
    /// Bytes of a valid answer, head included.
    pub answer_bytes: Values,
    /// Bytes of a valid answer's body.
    pub body_bytes: Values,
}

/// Values in figures.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq)]
pub struct Values {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Values {
    /// All values of several together; none without values.
    pub fn together(parts: impl IntoIterator<Item = Values>) -> Option<Values> {
        let mut all: Option<Values> = None;
        for part in parts.into_iter().filter(|part| part.count > 0) {
            all = Some(all.map_or(part, |sum| {
                let count = sum.count + part.count;
                let share = |of_sum: f64, of_part: f64| {
                    (of_sum * sum.count as f64 + of_part * part.count as f64) / count as f64
                };
                let mean = share(sum.mean, part.mean);
                let apart = |one: Values| one.stddev.powi(2) + (one.mean - mean).powi(2);
                let stddev = share(apart(sum), apart(part)).sqrt();
                Values { count, mean, stddev, min: sum.min.min(part.min), max: sum.max.max(part.max) }
            }));
        }
        all
    }
}

/// What became of the arrivals of an open load that were due in the window.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct ArrivalFigures {
    /// Arrivals a second, as the suite states them.
    pub per_second: f64,
    /// Whether they arrived at random, as from many independent users; otherwise at equal intervals.
    pub at_random: bool,
    /// All that were due.
    pub due: u64,
    /// Those that were started; for the others no client was free before the end.
    pub started: u64,
    /// Those that were started more than a millisecond after their moment.
    pub late: u64,
    /// From the real start of a request to the last byte; the mix's latency counts from when it was due.
    pub service: LatencyRecord,
}

/// The messages of a mix.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct MessageFigures {
    /// Messages that arrived in the window.
    pub count: u64,
    /// Messages that arrived per second.
    pub per_second: f64,
    /// Messages of the whole mix, ramps included: the server's own count must be the same.
    pub total: u64,
    /// From the start of a request (in an open load from when it was due) to its first message; absent if
    /// none arrived.
    pub first: Option<LatencyRecord>,
    /// From one message of an answer to the next; absent where no answer had two.
    pub gap: Option<LatencyRecord>,
    /// The WebSockets; absent where none were asked for.
    pub websockets: Option<WebSocketFigures>,
}

/// The WebSockets of a mix.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct WebSocketFigures {
    /// Those that were opened in the window.
    pub opened: u64,
    /// Messages that the clients sent in the window.
    pub sent: u64,
    /// Messages that the clients sent in the whole mix.
    pub total_sent: u64,
    /// From the start (in an open load from when it was due) to the end of the handshake; absent where none
    /// was opened.
    pub open: Option<LatencyRecord>,
    /// From when a message of the client was due to the server's message of the same number; absent where
    /// none was answered.
    pub answer: Option<LatencyRecord>,
    /// From a ping of the client to its pong; absent where no pings were sent.
    pub pong: Option<LatencyRecord>,
}

/// One virtual client's share of a mix (WebBench: Client Data Report).
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct ClientRow {
    /// Its number, from 1.
    pub client: u64,
    /// Valid answers.
    pub requests: u64,
    /// Errors.
    pub errors: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Mean latency, microseconds.
    pub mean_us: f64,
    /// 95th percentile, microseconds.
    pub p95_us: f64,
    /// Largest, microseconds.
    pub max_us: f64,
}

/// A process tree's use of the machine in the window.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct ProcessUse {
    /// Processor time in user mode, seconds.
    pub user_s: f64,
    /// Processor time in system mode, seconds.
    pub system_s: f64,
    /// Processor time for each valid answer, microseconds.
    pub cpu_us_per_request: f64,
    /// True where the processor time is the time that its processors were busy, and not that of its
    /// processes: programs whose processor time the kernel adds to no process are counted so.
    #[serde(default)]
    pub of_processors: bool,
    /// Share of the processors that it was given (or of one, if not pinned), 0 to 1.
    pub cpu_share: f64,
    /// Largest resident memory seen, bytes.
    pub resident_bytes_max: u64,
    /// Processes in the tree.
    pub processes: u64,
    /// Threads in the tree.
    pub threads: u64,
}

/// The machine's state in the window: shares of all processor time, 0 to 1.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct MachineUse {
    /// One row a processor.
    pub cpus: Vec<CpuShares>,
    /// Memory in use (total without available), bytes, largest seen.
    pub memory_used_bytes_max: u64,
    /// Bytes received on all interfaces a second.
    pub network_in_bytes_per_second: f64,
    /// Bytes sent on all interfaces a second.
    pub network_out_bytes_per_second: f64,
    /// Pressure stall information, share of time that some task waited, 0 to 1: processor.
    pub psi_cpu_some: Option<f64>,
    /// The same for memory.
    pub psi_memory_some: Option<f64>,
    /// The same for input and output.
    pub psi_io_some: Option<f64>,
}

/// One processor's time by kind, 0 to 1.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct CpuShares {
    /// Its number.
    pub cpu: u32,
    /// User mode (nice included).
    pub user: f64,
    /// System mode.
    pub system: f64,
    /// Interrupts and softirqs.
    pub softirq: f64,
    /// Stolen by the hypervisor.
    pub steal: f64,
    /// Idle, waiting for input and output included.
    pub idle: f64,
}

impl SystemResult {
    /// Whether it got no requests, because it cannot serve the suite; its `skipped` has the reason.
    pub fn was_not_measured(&self) -> bool {
        self.mixes.is_empty() && !self.skipped.is_empty()
    }
}

/// The load engine's own processor time in the window.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct LoadUse {
    /// User mode, seconds.
    pub user_s: f64,
    /// System mode, seconds.
    pub system_s: f64,
    /// For each valid answer, microseconds.
    pub cpu_us_per_request: f64,
    /// The busiest engine thread's share of one processor, 0 to 1.
    pub busiest_thread: f64,
    /// The longest share of the time for which an engine thread could have run and had no processor; absent
    /// in results of older versions.
    #[serde(default)]
    pub longest_waiting_thread: Option<f64>,
    /// The share of the time for which a quota of its control group held the engine back, where that was at
    /// least a tenth. `longest_waiting_thread` contains it.
    #[serde(default)]
    pub held_back_by_quota: Option<f64>,
}

/// One second of a mix.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct TimelineRow {
    /// Seconds since the mix's start at which the row's sample begins.
    pub at_s: f64,
    /// Valid answers a second.
    pub requests_per_second: f64,
    /// Errors in the row.
    pub errors: u64,
    /// Median latency, microseconds; absent when nothing was answered.
    pub p50_us: Option<f64>,
    /// 99th percentile, microseconds; absent when nothing was answered.
    pub p99_us: Option<f64>,
    /// The server's processor use, in processors (1.0 = one whole); absent when not watched.
    pub server_cpus: Option<f64>,
    /// The server's resident memory, bytes.
    pub server_resident_bytes: Option<u64>,
    /// The whole machine's processor use, 0 to 1.
    pub machine_cpu_share: Option<f64>,
    /// The load engine's processor use, in processors.
    pub load_cpus: Option<f64>,
}

/// A figure that two systems are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Valid answers a second: more is better.
    Rate,
    /// Processor time of a request: less is better.
    ProcessorTime,
}

impl Figure {
    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Figure::Rate => "requests/s",
            Figure::ProcessorTime => "processor time a request",
        }
    }

    /// Its value in a mix; absent where it was not measured.
    pub fn of(self, mix: &MixResult) -> Option<f64> {
        let figure = match self {
            Figure::Rate => mix.requests_per_second,
            Figure::ProcessorTime => mix.server.as_ref()?.cpu_us_per_request,
        };
        (figure > 0.0 && figure.is_finite()).then_some(figure)
    }
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The first.
    pub first: String,
    /// The second.
    pub second: String,
    /// By what.
    pub figure: Figure,
    /// The outcome.
    pub comparison: Comparison,
}
