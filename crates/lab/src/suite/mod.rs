//! Suites: what is run. The terms are WebBench's: a *suite* is an ordered list of *mixes*, and each mix loads
//! the system under test with a number of virtual clients that draw their requests from a *workload* of
//! weighted classes of files or of programs' answers.
//!
//! A suite of several [`Interface`]s has a part for each, which is measured in every mix; the others are
//! compared with the first.
//!
//! Suites are TOML files. Those in `suites/` at the repository's root are built in; [`Suite::find`] takes the
//! name of one of them or the path of a file. [`tree`] makes the files of a workload, [`Suite::plan`] turns a
//! mix into a plan for the load engine.

mod content;
mod endpoint;
mod interface;
mod own_request;
mod read;
mod read_class;
mod read_workload;
mod script;
mod session_file;
mod sizes;
mod stream;
pub mod tree;
mod values;
mod workload;

use crate::definition::{DefinitionError, nearest};
use crate::memory::Size;
use crate::result::SuiteRecord;
pub use endpoint::{Endpoint, TlsOffer};
pub use interface::Interface;
pub use own_request::{Order, OwnRequest, path_problem};
pub use read::RATE_MAX;
pub use session_file::SessionFile;
use std::fmt;
use std::path::Path;
use std::time::Duration;
pub use stream::{GRPC_FIELDS, Stream, framed};
use touchstone_load::{Arrivals, ConnectionUse, HttpVersion, Plan, Target, Threshold, TimeSpread};
pub use workload::{Class, Content, Part, Workload};

/// The suites that are built in: name and TOML text.
const BUILT_IN: [(&str, &str); 53] = [
    ("webstone-1.1", include_str!("../../../../suites/webstone-1.1.toml")),
    ("webstone-2", include_str!("../../../../suites/webstone-2.toml")),
    ("webstone-2-cgi", include_str!("../../../../suites/webstone-2-cgi.toml")),
    ("webstone-2-dynamic", include_str!("../../../../suites/webstone-2-dynamic.toml")),
    ("webbench-1.0-static", include_str!("../../../../suites/webbench-1.0-static.toml")),
    ("webbench-1.0-light-cgi", include_str!("../../../../suites/webbench-1.0-light-cgi.toml")),
    ("webbench-1.0-heavy-cgi", include_str!("../../../../suites/webbench-1.0-heavy-cgi.toml")),
    ("webbench-1.1-static", include_str!("../../../../suites/webbench-1.1-static.toml")),
    ("webbench-1.1-static-close", include_str!("../../../../suites/webbench-1.1-static-close.toml")),
    ("webbench-1.1-mixed", include_str!("../../../../suites/webbench-1.1-mixed.toml")),
    ("webbench-3.0-like", include_str!("../../../../suites/webbench-3.0-like.toml")),
    ("e-commerce", include_str!("../../../../suites/e-commerce.toml")),
    ("e-commerce-servlet", include_str!("../../../../suites/e-commerce-servlet.toml")),
    ("memory", include_str!("../../../../suites/memory.toml")),
    ("accelerator-static", include_str!("../../../../suites/accelerator-static.toml")),
    ("accelerator-mixed", include_str!("../../../../suites/accelerator-mixed.toml")),
    ("spice", include_str!("../../../../suites/spice.toml")),
    ("spice-close", include_str!("../../../../suites/spice-close.toml")),
    ("spice-shtml", include_str!("../../../../suites/spice-shtml.toml")),
    ("spice-cgi", include_str!("../../../../suites/spice-cgi.toml")),
    ("spice-fastcgi", include_str!("../../../../suites/spice-fastcgi.toml")),
    ("spice-nsapi-send", include_str!("../../../../suites/spice-nsapi-send.toml")),
    ("spice-nsapi-a", include_str!("../../../../suites/spice-nsapi-a.toml")),
    ("spice-nsapi-b", include_str!("../../../../suites/spice-nsapi-b.toml")),
    ("spice-nsapi-c", include_str!("../../../../suites/spice-nsapi-c.toml")),
    ("spice-servlet", include_str!("../../../../suites/spice-servlet.toml")),
    ("spice-ajp", include_str!("../../../../suites/spice-ajp.toml")),
    ("spice-jsp", include_str!("../../../../suites/spice-jsp.toml")),
    ("spice-wsgi", include_str!("../../../../suites/spice-wsgi.toml")),
    ("spice-asgi", include_str!("../../../../suites/spice-asgi.toml")),
    ("spice-wasm", include_str!("../../../../suites/spice-wasm.toml")),
    ("tls", include_str!("../../../../suites/tls.toml")),
    ("tls-full", include_str!("../../../../suites/tls-full.toml")),
    ("tls-resumed", include_str!("../../../../suites/tls-resumed.toml")),
    ("page-2025", include_str!("../../../../suites/page-2025.toml")),
    ("arena-baseline", include_str!("../../../../suites/arena-baseline.toml")),
    ("arena-pipelined", include_str!("../../../../suites/arena-pipelined.toml")),
    ("arena-static", include_str!("../../../../suites/arena-static.toml")),
    ("arena-json-tls", include_str!("../../../../suites/arena-json-tls.toml")),
    ("arena-baseline-h2", include_str!("../../../../suites/arena-baseline-h2.toml")),
    ("arena-static-h2", include_str!("../../../../suites/arena-static-h2.toml")),
    ("arena-baseline-h3", include_str!("../../../../suites/arena-baseline-h3.toml")),
    ("arena-static-h3", include_str!("../../../../suites/arena-static-h3.toml")),
    ("arena-latency-1m", include_str!("../../../../suites/arena-latency-1m.toml")),
    ("arena-latency-10k", include_str!("../../../../suites/arena-latency-10k.toml")),
    ("arena-echo-ws-limited", include_str!("../../../../suites/arena-echo-ws-limited.toml")),
    ("people", include_str!("../../../../suites/people.toml")),
    ("people-and-scrapers", include_str!("../../../../suites/people-and-scrapers.toml")),
    ("page-2025-h3", include_str!("../../../../suites/page-2025-h3.toml")),
    ("h3-static", include_str!("../../../../suites/h3-static.toml")),
    ("h3-small", include_str!("../../../../suites/h3-small.toml")),
    ("api-json", include_str!("../../../../suites/api-json.toml")),
    ("conformance", include_str!("../../../../suites/conformance.toml")),
];

/// An ordered list of mixes on one workload, or on one for each interface.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// For example `webbench-1.1-static`.
    pub name: String,
    /// A line that describes it.
    pub title: String,
    /// A sentence or two for the list of suites.
    pub description: String,
    /// Where it comes from (report and table).
    pub source: String,
    /// WebBench's "Use Keep-Alives": kept connections (true) or a new one for every request.
    pub keep_alive: bool,
    /// The share of the requests on kept connections that are the last on theirs; absent: none is.
    pub new_connection_share: Option<f64>,
    /// The protocol version of the requests, unless their class has its own.
    pub http_version: HttpVersion,
    /// Clients that share a connection of HTTP/2 or 3.
    pub streams: usize,
    /// Whether Host, User-Agent and Accept are sent without being named.
    pub usual_headers: bool,
    /// Header fields of all requests, `name: value`.
    pub headers: Vec<String>,
    /// What is offered where connections are made with TLS.
    pub tls: TlsOffer,
    /// WebBench's "Receive Buffer", bytes.
    pub receive_buffer_bytes: usize,
    /// A request without a complete answer after this is an error, seconds.
    pub timeout_s: f64,
    /// How long each system is loaded before its first mix, seconds; none of these requests counts.
    pub warm_up_s: f64,
    /// The same in the short form.
    pub quick_warm_up_s: f64,
    /// The sizes of memory that each system is measured with; empty: with all that the machine has.
    pub memory: Vec<Size>,
    /// What each mix must keep to.
    pub fail_if: Vec<Threshold>,
    /// What ends a mix, and the run, as soon as it is missed.
    pub abort_if: Vec<Threshold>,
    /// Whether the rules of HTTP are tested on each system before the mixes.
    pub conformance: bool,
    /// The beginnings of the names of the tested cases; empty: all cases.
    pub conformance_cases: Vec<String>,
    /// The mixes, in order.
    pub mixes: Vec<Mix>,
    /// The mixes of the short form; empty: the suite has none.
    pub quick_mixes: Vec<Mix>,
    /// What the clients request: one part, or one for each interface. Never empty.
    pub parts: Vec<Part>,
    /// The TOML text that it was read from.
    pub text: String,
}

/// One measured load. All times are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// For example `16_clients`.
    pub name: String,
    /// Virtual clients; of an open load the most that have an active request.
    pub clients: usize,
    /// An open load: this number of requests, pages or sessions is sent each second, even if earlier ones are
    /// not answered.
    pub rate: Option<f64>,
    /// How the arrivals of an open load are spaced.
    pub arrivals: Arrivals,
    /// The time at the beginning that is not counted.
    pub ramp_up_s: f64,
    /// The whole time, ramps included.
    pub length_s: f64,
    /// The time at the end that is not counted.
    pub ramp_down_s: f64,
    /// Each client starts after a random wait of at most this.
    pub delay_s: f64,
    /// The wait between an answer and the next request, or the next page.
    pub think_time_s: f64,
    /// Whether all waits are the same, or random with that mean.
    pub think_spread: TimeSpread,
}

/// Why a suite cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuiteError {
    /// No suite of that name, no file at that path.
    Unknown(String),
    /// The file cannot be read.
    Unreadable(String),
    /// The file's text was refused.
    Definition(DefinitionError),
}

impl fmt::Display for SuiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SuiteError::Unknown(message) | SuiteError::Unreadable(message) => f.write_str(message),
            SuiteError::Definition(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SuiteError {}

impl From<DefinitionError> for SuiteError {
    fn from(error: DefinitionError) -> SuiteError {
        SuiteError::Definition(error)
    }
}

/// The parameters of all mixes of a run, beside the suite itself.
#[derive(Debug, Clone)]
pub struct RunParameters<'a> {
    /// Where the requests go.
    pub target: Target,
    /// Where those with TLS go; absent: to the same address.
    pub tls_target: Option<Target>,
    /// Set before every path of the workload; empty for systems that serve the tree as their root.
    pub path_prefix: &'a str,
    /// The processors of the load engine, one thread each.
    pub cores: &'a [usize],
    /// Seed of the choice of requests.
    pub seed: u64,
    /// What lengths the answers must have.
    pub lengths: Lengths,
}

/// The lengths that answers must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lengths {
    /// Any: the kernel's limit answers every request with one length.
    Unchecked,
    /// Those that the suite states of every answer.
    Stated,
    /// The same, and for explicit requests the sizes of the files that were made for them.
    OfTree,
}

impl Suite {
    /// The suites that are built in, in the order of the list.
    pub fn built_in() -> Result<Vec<Suite>, SuiteError> {
        BUILT_IN.iter().map(|(name, text)| Ok(Suite::read(name, text)?)).collect()
    }

    /// A built-in suite by name, or a suite file by path (anything with a `/` or that ends in `.toml`).
    pub fn find(name_or_path: &str) -> Result<Suite, SuiteError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
            return Ok(Suite::read(name, text)?);
        }
        if !name_or_path.contains('/') && !name_or_path.ends_with(".toml") {
            return Err(SuiteError::Unknown(unknown_suite(name_or_path)));
        }
        let text = std::fs::read_to_string(Path::new(name_or_path))
            .map_err(|error| SuiteError::Unreadable(format!("suite file {name_or_path}: {error}")))?;
        let directory = Path::new(name_or_path).parent();
        Ok(read::suite_in(name_or_path, &text, directory)?)
    }

    /// Reads a suite's TOML text; `file` names it in messages.
    pub fn read(file: &str, text: &str) -> Result<Suite, DefinitionError> {
        read::suite(file, text)
    }

    /// The part that the others are compared with, or the only one.
    pub fn first_part(&self) -> &Part {
        &self.parts[0]
    }

    /// Whether each of several interfaces is measured separately.
    pub fn compares_interfaces(&self) -> bool {
        self.parts.iter().any(|part| part.interface.is_some())
    }

    /// The load engine's plan for one mix of one part.
    pub fn plan(&self, part: &Part, mix: &Mix, run_parameters: &RunParameters<'_>) -> Plan {
        let seconds = Duration::from_secs_f64;
        let (target, other_targets) = part.workload.endpoints().targets(run_parameters, self.tls);
        Plan {
            other_targets,
            requests: part.workload.requests(run_parameters),
            headers: self.headers.clone(),
            usual_fields: self.usual_headers,
            clients: mix.clients,
            streams: self.streams,
            cores: run_parameters.cores.to_vec(),
            connections: match self.new_connection_share {
                _ if !self.keep_alive => ConnectionUse::New,
                Some(share) => ConnectionUse::NewShare(share),
                None => ConnectionUse::Kept,
            },
            version: self.http_version,
            receive_buffer_bytes: self.receive_buffer_bytes,
            delay: seconds(mix.delay_s),
            think_time: seconds(mix.think_time_s),
            think_spread: mix.think_spread,
            timeout: seconds(self.timeout_s),
            ramp_up: seconds(mix.ramp_up_s),
            length: seconds(mix.length_s),
            ramp_down: seconds(mix.ramp_down_s),
            rate: mix.rate,
            arrivals: mix.arrivals,
            seed: run_parameters.seed,
            script: Some(part.workload.script.clone()),
            ..Plan::of_one(target, "/")
        }
    }

    /// The suite as the result file records it.
    pub fn record(&self, quick: bool, seed: u64) -> SuiteRecord {
        let workload = &self.first_part().workload;
        let interfaces = self.parts.iter().filter_map(|part| part.interface.as_ref());
        SuiteRecord {
            name: self.name.clone(),
            title: self.title.clone(),
            source: self.source.clone(),
            quick,
            classes: workload.record(),
            interfaces: interfaces.map(Interface::record).collect(),
            mean_body_bytes: workload.mean_body_bytes(),
            files: workload.files(),
            tree_bytes: workload.tree_bytes(),
            keep_alive: self.keep_alive,
            http_version: self.http_version.name().to_string(),
            tls: self
                .parts
                .iter()
                .any(|part| part.workload.endpoints().any_secure())
                .then(|| self.tls.record()),
            seed,
        }
    }
}

impl Mix {
    /// The name of a mix that states none.
    pub fn name_for(clients: usize) -> String {
        format!("{clients}_client{}", if clients == 1 { "" } else { "s" })
    }

    /// The name of a mix of an open load that states none.
    pub fn name_for_rate(rate: f64) -> String {
        format!("{rate}_per_second")
    }

    /// The error of the times, if there is one: the ramps must leave some time to count.
    pub fn problem(&self) -> Option<String> {
        if self.clients == 0 {
            return Some(format!("the mix {} has no clients", self.name));
        }
        if self.rate.is_some() && (self.think_time_s > 0.0 || self.delay_s > 0.0) {
            return Some(format!(
                "the mix {} has a `rate`, which says when each request is due: leave `think_time_s` and \
                 `delay_s` out",
                self.name
            ));
        }
        (self.ramp_up_s + self.ramp_down_s >= self.length_s).then(|| {
            format!(
                "the ramps of the mix {} ({} s up, {} s down) leave nothing to count of its length of {} s",
                self.name, self.ramp_up_s, self.ramp_down_s, self.length_s
            )
        })
    }
}

fn unknown_suite(name: &str) -> String {
    let names = BUILT_IN.iter().map(|(name, _)| *name);
    let advice = match nearest(name, names.clone()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!(
            "built in: {}; a suite of your own is named by its path",
            names.collect::<Vec<_>>().join(", ")
        ),
    };
    format!("there is no suite `{name}`; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_load::TlsVersions;

    fn run_parameters() -> RunParameters<'static> {
        let target = Target::plain(([127, 0, 0, 1], 80).into(), "127.0.0.1");
        RunParameters {
            target,
            tls_target: None,
            path_prefix: "/base",
            cores: &[1],
            seed: 7,
            lengths: Lengths::OfTree,
        }
    }

    /// The golden weights of Appendix A of report 002.
    const WEIGHTS: [f64; 10] = [7.0, 7.0, 10.0, 26.0, 17.0, 13.0, 12.0, 6.0, 1.0, 1.0];

    #[test]
    fn built_in_suites_bear_their_names_and_add_up() {
        let suites = Suite::built_in().unwrap();
        assert_eq!(suites.len(), BUILT_IN.len());
        for (suite, (name, _)) in suites.iter().zip(BUILT_IN) {
            assert_eq!(suite.name, name);
            assert!(!suite.quick_mixes.is_empty(), "{name} has no short form");
            for part in &suite.parts {
                let weights: f64 = part.workload.classes.iter().map(|class| class.weight_percent).sum();
                let shares: f64 = part.workload.shares().iter().sum();
                assert!(
                    (weights - 100.0).abs() < 1e-6 && (shares - 1.0).abs() < 1e-9,
                    "{name}: {weights} {shares}"
                );
                // The engine's choices have the mean that the suite states.
                let plan = suite.plan(part, &suite.mixes[0], &run_parameters());
                let weighted = |request: &touchstone_load::PlannedRequest| {
                    let page = request.then.iter().map(|next| &plan.requests[*next]).chain([request]);
                    let bytes = page.map(|it| it.expected_body_bytes.unwrap_or(670) as f64).sum::<f64>();
                    (request.weight * bytes, request.weight * (1 + request.then.len()) as f64)
                };
                let sums = plan
                    .requests
                    .iter()
                    .map(weighted)
                    .fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
                let mean = part.workload.mean_body_bytes();
                if mean == 0.0 {
                    // The files are the server's own: no length is stated.
                    assert!(plan.requests.iter().all(|it| it.expected_body_bytes.is_none()), "{name}");
                    continue;
                }
                assert!(
                    (sums.0 / sums.1 / mean - 1.0).abs() < 1e-9,
                    "{name}: {} and not {mean}",
                    sums.0 / sums.1
                );
            }
        }
    }

    #[test]
    fn the_suites_of_webbench_1_have_the_golden_workload() {
        let suites = Suite::built_in().unwrap();
        for suite in suites
            .iter()
            .filter(|suite| suite.name.starts_with("webbench-1.") && suite.name.contains("static"))
        {
            let workload = &suite.first_part().workload;
            assert!((workload.mean_body_bytes() - 8348.16).abs() < 1e-9);
            assert_eq!((workload.tree_bytes(), workload.files()), (2_618_880, 100));
            assert_eq!(suite.receive_buffer_bytes, 4096);
            let weights: Vec<f64> = workload.classes.iter().map(|class| class.weight_percent).collect();
            assert_eq!(weights, WEIGHTS);
            // "92% of files are less than 32 KB."
            assert_eq!(weights[..7].iter().sum::<f64>(), 92.0);
            for mix in &suite.mixes {
                assert_eq!((mix.delay_s, mix.think_time_s), (0.0, 0.0));
            }
            let quick_s: f64 = suite.quick_mixes.iter().map(|mix| mix.length_s).sum();
            assert!((40.0..=70.0).contains(&quick_s), "the quick form takes about a minute, not {quick_s} s");
        }
        let suite_named = |name: &str| suites.iter().find(|suite| suite.name == name).unwrap();
        for name in ["webbench-1.1-static", "webbench-1.1-static-close", "webbench-1.1-mixed"] {
            let clients: Vec<usize> = suite_named(name).mixes.iter().map(|mix| mix.clients).collect();
            assert_eq!(clients, [1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128, 144]);
            let mix = &suite_named(name).mixes[12];
            assert_eq!((mix.ramp_up_s, mix.length_s, mix.ramp_down_s), (30.0, 120.0, 10.0));
        }
        assert!(
            suite_named("webbench-1.1-static").keep_alive
                && !suite_named("webbench-1.1-static-close").keep_alive
        );
        assert_eq!(suite_named("webbench-1.1-static").parts, suite_named("webbench-1.1-static-close").parts);
        assert_eq!(suite_named("webbench-1.1-mixed").parts, suite_named("accelerator-mixed").parts);
    }

    #[test]
    fn the_suites_of_webbench_1_0_are_those_of_report_002() {
        for (name, files, cgi) in [
            ("webbench-1.0-static", 100.0, 0.0),
            ("webbench-1.0-light-cgi", 90.0, 10.0),
            ("webbench-1.0-heavy-cgi", 10.0, 90.0),
        ] {
            let suite = Suite::find(name).unwrap();
            assert!(!suite.keep_alive && suite.http_version == HttpVersion::Http10, "{name}");
            let mix = &suite.mixes[0];
            assert_eq!((mix.ramp_up_s, mix.length_s, mix.ramp_down_s), (30.0, 600.0, 30.0), "{name}");
            let classes = &suite.first_part().workload.classes;
            for (class, weight) in classes.iter().zip(WEIGHTS) {
                assert!(
                    (class.weight_percent - weight * files / 100.0).abs() < 1e-9,
                    "{name}: {}",
                    class.name
                );
            }
            let of_cgi: f64 = classes[10..].iter().map(|class| class.weight_percent).sum();
            assert_eq!(of_cgi, cgi, "{name}");
            let clients: Vec<usize> = suite.mixes.iter().map(|mix| mix.clients).collect();
            let named: &[usize] =
                if cgi > 0.0 { &[2, 4, 8, 14, 28, 56, 112] } else { &[12, 24, 48, 96, 120, 216, 240] };
            assert!(named.iter().all(|number| clients.contains(number)), "{name}: {clients:?}");
        }
        // The length of simcgi's output is not known.
        let light = Suite::find("webbench-1.0-light-cgi").unwrap();
        let plan = light.plan(light.first_part(), &light.mixes[0], &run_parameters());
        assert_eq!(
            (plan.requests[100].path.as_str(), plan.requests[100].expected_body_bytes),
            ("/base/cgi-bin/simcgi", None)
        );
        assert!(light.record(false, 1).classes[10].body_varies);
    }

    #[test]
    fn the_lists_of_webstone_2_are_those_of_its_distribution() {
        for (name, path) in [
            ("webstone-2", "/base/file5k.html"),
            ("webstone-2-cgi", "/base/cgi-bin/send?size=5125"),
            ("webstone-2-dynamic", "/base/nsapi/nsapi-send?size=5125"),
        ] {
            let suite = Suite::find(name).unwrap();
            let workload = &suite.first_part().workload;
            let weights: Vec<f64> =
                workload.classes.iter().map(|class| class.weight_percent * 10.0).collect();
            let expected = [350.0, 500.0, 140.0, 9.0, 1.0];
            assert!(
                weights.iter().zip(expected).all(|(found, weight)| (found - weight).abs() < 1e-9),
                "{weights:?}"
            );
            // 19,773 bytes, by history's own sum of the list.
            assert!((workload.mean_body_bytes() - 19_773.0).abs() < 1.0, "{}", workload.mean_body_bytes());
            let plan = suite.plan(suite.first_part(), &suite.mixes[0], &run_parameters());
            assert_eq!(
                (plan.requests[1].path.as_str(), plan.requests[1].expected_body_bytes),
                (path, Some(5125))
            );
            assert!(!plan.usual_fields && plan.headers == ["Accept: */* HTTP/1.0"]);
            assert_eq!((plan.version, plan.connections), (HttpVersion::Http10, ConnectionUse::New));
            assert_eq!(suite.mixes.iter().filter(|mix| mix.clients >= 20).count(), 9);
            assert!(suite.mixes.iter().all(|mix| mix.length_s == 600.0));
            plan.check().unwrap();
        }
    }

    #[test]
    fn the_stand_in_for_silicon_surf_fits_what_is_known_of_it() {
        let suite = Suite::find("webstone-1.1").unwrap();
        let workload = &suite.first_part().workload;
        let (mut all, mut small) = (0.0, 0.0);
        for class in &workload.classes {
            assert!(class.is_page());
            for number in 0..class.requests() {
                all += class.weight_percent;
                small +=
                    if class.body_bytes(number).unwrap() < 30 * 1024 { class.weight_percent } else { 0.0 };
            }
        }
        // "93% of accessed files are smaller than 30 KB. Average accessed file is roughly 7 KB."
        assert!((small / all - 0.93).abs() < 0.001, "{}", small / all);
        assert!((workload.mean_body_bytes() - 6850.0).abs() < 50.0, "{}", workload.mean_body_bytes());
        assert!(suite.description.contains("stand-in") && suite.source.contains("stand-in"));
        let clients: Vec<usize> =
            suite.mixes.iter().map(|mix| mix.clients).filter(|clients| *clients >= 16).collect();
        assert_eq!(clients, [16, 32, 48, 64, 80, 96, 112, 128]);
        let plan = suite.plan(suite.first_part(), &suite.mixes[0], &run_parameters());
        assert_eq!((plan.requests[0].then.len(), plan.requests[1].weight), (1, 0.0));
        plan.check().unwrap();
    }

    #[test]
    fn the_tree_like_webbench_3_has_its_four_figures() {
        let suite = Suite::find("webbench-3.0-like").unwrap();
        let workload = &suite.first_part().workload;
        let sizes: Vec<u64> = workload
            .classes
            .iter()
            .flat_map(|class| (0..class.requests()).filter_map(|number| class.body_bytes(number)))
            .collect();
        assert_eq!(sizes.len(), 6000);
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&223), Some(&(529 * 1024))));
        let megabytes = workload.tree_bytes() as f64 / f64::from(1 << 20);
        assert!((megabytes - 60.0).abs() < 0.1, "{megabytes} MB");
        assert!((workload.mean_body_bytes() - 6250.0).abs() < 5.0, "{}", workload.mean_body_bytes());
        assert!(!suite.keep_alive && suite.http_version == HttpVersion::Http10);
        assert_eq!(suite.mixes.last().map(|mix| mix.clients), Some(60));
    }

    #[test]
    fn e_commerce_has_its_four_shares_over_two_ports_of_the_same_files() {
        let suite = Suite::find("e-commerce").unwrap();
        let part = suite.first_part();
        assert_eq!((part.needs(), part.programs()), (vec!["cgi", "files", "tls"], vec!["cgi"]));
        let share = |secure: bool, program: bool| -> f64 {
            let is_of_kind = |class: &&Class| {
                class.endpoint.is_secure == secure
                    && matches!(class.content, Content::Interface { .. }) == program
            };
            part.workload.classes.iter().filter(is_of_kind).map(|class| class.weight_percent).sum()
        };
        let shares = [share(true, true), share(true, false), share(false, true), share(false, false)];
        assert!(
            shares.iter().zip([2.0, 6.0, 17.0, 75.0]).all(|(found, stated)| (found - stated).abs() < 1e-9),
            "{shares:?}"
        );
        let tls_target = Some(Target {
            tls: Some(touchstone_load::TlsTarget {
                trust: touchstone_load::Trust::Anything,
                ..touchstone_load::TlsTarget::new("127.0.0.1")
            }),
            ..Target::plain(([127, 0, 0, 1], 443).into(), "127.0.0.1:443")
        });
        let plan = suite.plan(part, &suite.mixes[0], &RunParameters { tls_target, ..run_parameters() });
        let secure: f64 =
            plan.requests.iter().filter(|request| request.target == 1).map(|request| request.weight).sum();
        let all: f64 = plan.requests.iter().map(|request| request.weight).sum();
        assert!((secure / all - 0.08).abs() < 1e-9);
        assert_eq!(plan.other_targets[0].tls.as_ref().map(|tls| tls.resumption_share), Some(0.0));
        let first = |target| plan.requests.iter().find(|request| request.target == target).unwrap();
        assert_eq!(
            (&first(0).path, first(0).expected_body_bytes),
            (&first(1).path, first(1).expected_body_bytes)
        );
        plan.check().unwrap();
        // With servlets only the program differs.
        let servlets = Suite::find("e-commerce-servlet").unwrap();
        assert_eq!(servlets.first_part().programs(), vec!["servlet"]);
        assert_eq!(servlets.first_part().needs(), vec!["files", "servlet", "tls"]);
        let shares = |suite: &Suite| -> Vec<(f64, bool)> {
            let classes = &suite.first_part().workload.classes;
            classes.iter().map(|class| (class.weight_percent, class.endpoint.is_secure)).collect()
        };
        assert_eq!(shares(&servlets), shares(&suite));
        let record = servlets.record(true, 1);
        let target_of = |class: &crate::result::ClassRecord| (class.tls, class.interface.clone());
        let last = record.classes.last().map(target_of);
        assert_eq!(last, Some((true, Some("servlet-stream".to_owned()))));
        assert_eq!(record.classes.first().map(target_of), Some((false, None)));
    }

    #[test]
    fn suites_of_tls_differ_in_their_handshakes_alone() {
        let offers = |name: &str| {
            let suite = Suite::find(name).unwrap();
            let part = suite.first_part();
            assert_eq!(part.needs(), ["files", "tls"], "{name}");
            let workload = &part.workload;
            assert_eq!((workload.files(), workload.tree_bytes()), (1, 6250), "{name}");
            let tls_target = Some(Target {
                tls: Some(touchstone_load::TlsTarget::new("127.0.0.1")),
                ..Target::plain(([127, 0, 0, 1], 443).into(), "127.0.0.1:443")
            });
            let plan = suite.plan(part, &suite.mixes[0], &RunParameters { tls_target, ..run_parameters() });
            let tls = plan.target.tls.as_ref().unwrap();
            (plan.connections, tls.versions, tls.resumption_share)
        };
        assert_eq!(offers("tls"), (ConnectionUse::Kept, TlsVersions::Tls13, 1.0));
        assert_eq!(offers("tls-full"), (ConnectionUse::New, TlsVersions::Tls13, 0.0));
        assert_eq!(offers("tls-resumed"), (ConnectionUse::New, TlsVersions::Tls13, 1.0));
    }

    #[test]
    fn suites_of_http_3_ask_for_the_same_as_their_counterparts() {
        let [two, three] = ["page-2025", "page-2025-h3"].map(|name| Suite::find(name).unwrap());
        let classes = |suite: &Suite| {
            let classes = suite.first_part().workload.classes.iter();
            classes
                .map(|class| (class.name.clone(), class.content.clone(), class.weight_percent))
                .collect::<Vec<_>>()
        };
        assert_eq!(classes(&two), classes(&three));
        assert_eq!(
            (&two.mixes, &two.quick_mixes, two.streams),
            (&three.mixes, &three.quick_mixes, three.streams)
        );
        for (name, bytes) in [("page-2025-h3", None), ("h3-static", Some(6250)), ("h3-small", Some(64))] {
            let suite = Suite::find(name).unwrap();
            assert_eq!(suite.first_part().needs(), ["files", "http_three", "tls"], "{name}");
            assert!(bytes.is_none_or(|bytes| suite.first_part().workload.tree_bytes() == bytes), "{name}");
        }
    }

    #[test]
    fn the_page_of_2025_has_the_medians_of_the_crawl() {
        let suite = Suite::find("page-2025").unwrap();
        let part = suite.first_part();
        assert_eq!(part.needs(), ["files", "http_two", "tls"]);
        let kilobytes = part.workload.tree_bytes() as f64 / 1024.0;
        assert_eq!(part.workload.files(), 77);
        assert!((kilobytes / 2412.0 - 1.0).abs() < 0.02, "{kilobytes} KB");
        for (name, requests, median_kilobytes) in [
            ("HTML", 1, 22.0),
            ("IMAGES", 17, 1058.0),
            ("SCRIPTS", 23, 697.0),
            ("STYLES", 8, 82.0),
            ("FONTS", 4, 139.0),
        ] {
            let class = part.workload.classes.iter().find(|class| class.name == name).unwrap();
            let found = class.tree_bytes() as f64 / 1024.0;
            assert_eq!(class.requests(), requests, "{name}");
            assert!((class.weight_percent * 0.77 - requests as f64).abs() < 1e-9, "{name}");
            assert!((found / median_kilobytes - 1.0).abs() < 0.2, "{name}: {found} KB");
        }
        assert!(suite.mixes.iter().all(|mix| mix.clients % suite.streams == 0));
    }

    #[test]
    fn the_json_interface_is_asked_by_zipf() {
        let suite = Suite::find("api-json").unwrap();
        let part = suite.first_part();
        assert_eq!((part.needs(), part.programs()), (vec!["application"], vec!["application"]));
        let plan = suite.plan(part, &suite.mixes[0], &run_parameters());
        let (first, tenth) = (&plan.requests[0], &plan.requests[9]);
        assert!((first.weight / tenth.weight - 10f64.powf(0.8)).abs() < 1e-9);
        let new = plan.requests.last().unwrap();
        assert_eq!((new.method.as_str(), new.body.as_ref().map(|body| body.len())), ("POST", Some(128)));
        assert_eq!((new.expected_status.clone(), new.weight), (vec![201..=201], 10.0));
        assert_eq!(new.headers, ["Content-Type: application/json"]);
        plan.check().unwrap();
    }

    #[test]
    fn accelerator_suites_keep_to_what_report_004_prints() {
        let suite = |name: &str| Suite::find(name).unwrap();
        let (webbench, files) = (suite("webbench-1.1-static"), suite("accelerator-static"));
        assert_eq!((&files.parts, &files.mixes), (&webbench.parts, &webbench.mixes));
        let mixed = suite("accelerator-mixed");
        assert!(files.keep_alive && mixed.keep_alive);
        assert_eq!(mixed.mixes, webbench.mixes);
        assert_eq!(mixed.first_part().needs(), ["cgi", "files"]);
        let (program, classes) = mixed.first_part().workload.classes.split_last().unwrap();
        assert_eq!((program.name.as_str(), program.weight_percent), ("CGI", 20.0));
        // "The access percentages for each class of file is lower to allow for the dynamic data."
        for (class, whole) in classes.iter().zip(&webbench.first_part().workload.classes) {
            assert!(class.weight_percent < whole.weight_percent, "{}", class.name);
            assert_eq!((&class.name, &class.content), (&whole.name, &whole.content));
        }
        let weight: f64 = classes.iter().map(|class| class.weight_percent).sum();
        let bytes: f64 = classes.iter().map(|class| class.weight_percent * class.mean_body_bytes()).sum();
        assert!((weight - 80.0).abs() < 1e-9 && (bytes / weight - 6735.0).abs() < 2.0, "{}", bytes / weight);
    }

    #[test]
    fn spice_suites_measure_interfaces_of_as_many_bytes_against_static_files() {
        let all = Interface::built_in().unwrap();
        let suites = Suite::built_in().unwrap();
        for suite in suites.iter().filter(|suite| suite.name.starts_with("spice")) {
            let names: Vec<&str> = suite.parts.iter().map(Part::name).collect();
            match suite.name.as_str() {
                "spice" | "spice-close" => {
                    assert_eq!(
                        names,
                        // Those over AJP are compared with each other, not with a server's own interfaces.
                        all.iter()
                            .map(|interface| interface.name.as_str())
                            .filter(|name| !["ajp", "cgi-send", "simcgi", "application"].contains(name))
                            .collect::<Vec<_>>()
                    );
                }
                "spice-wasm" => assert_eq!(names, ["static", "wasm", "wasm-reused"]),
                "spice-servlet" => assert_eq!(names, ["static", "servlet-stream", "servlet-writer"]),
                one => assert_eq!(names, ["static", one.trim_start_matches("spice-")]),
            }
            assert!(suite.parts.iter().all(|part| part.workload.mean_body_bytes() == 6250.0));
            assert_eq!(suite.record(true, 1).interfaces.len(), suite.parts.len());
            // Programs that are compiled while they run are measured after their compilation.
            let is_of_java =
                names.iter().any(|name| ["servlet", "jsp", "ajp"].iter().any(|one| name.starts_with(one)));
            assert_eq!(
                (suite.warm_up_s > 0.0, suite.quick_warm_up_s > 0.0),
                (is_of_java, is_of_java),
                "{names:?}"
            );
            let mixes_s: f64 = suite.quick_mixes.iter().map(|mix| mix.length_s).sum();
            let whole_s = (suite.quick_warm_up_s + mixes_s) * suite.parts.len() as f64;
            assert!(mixes_s <= 12.0 && whole_s <= 120.0, "the quick form takes {whole_s} s");
        }
        let suite_named = |name: &str| suites.iter().find(|suite| suite.name == name).unwrap();
        assert!(suite_named("spice").keep_alive && !suite_named("spice-close").keep_alive);
        assert_eq!(suite_named("spice-close").http_version, HttpVersion::Http10);
        let cgi = &suite_named("spice-cgi").parts[1];
        assert_eq!((cgi.needs(), cgi.programs()), (vec!["cgi"], vec!["cgi"]));
        let jsp = suite_named("spice-jsp");
        let plan = jsp.plan(&jsp.parts[1], &jsp.mixes[0], &run_parameters());
        assert_eq!((plan.requests.len(), plan.requests[99].path.as_str()), (100, "/base/jsp/100.jsp"));
        let plan = suite_named("spice-cgi").plan(cgi, &suite_named("spice-cgi").mixes[0], &run_parameters());
        assert_eq!((plan.requests.len(), plan.requests[0].path.as_str()), (1, "/base/cgi-bin/spice"));
        assert_eq!(plan.requests[0].expected_body_bytes, Some(6250));
    }

    #[test]
    fn a_plan_asks_for_every_file_by_the_weight_of_its_class() {
        let suite = Suite::find("webbench-1.1-static").unwrap();
        let plan = suite.plan(suite.first_part(), &suite.mixes[4], &run_parameters());
        assert_eq!((plan.clients, plan.requests.len(), plan.seed), (16, 100, 7));
        let total: f64 = plan.requests.iter().map(|request| request.weight).sum();
        assert!((total - 100.0).abs() < 1e-9);
        let mean: f64 =
            plan.requests.iter().map(|r| r.weight / total * r.expected_body_bytes.unwrap() as f64).sum();
        assert!((mean - 8348.16).abs() < 1e-6);
        assert_eq!(plan.requests[43].path, "/base/CLASS_4K/3.html");
        assert_eq!(plan.requests[43].class, 4);
        assert_eq!(plan.length, Duration::from_secs(120));
    }

    #[test]
    fn the_limit_is_asked_without_lengths() {
        let suite = Suite::find("webbench-1.1-static-close").unwrap();
        let plan = suite.plan(
            suite.first_part(),
            &suite.mixes[0],
            &RunParameters { lengths: Lengths::Unchecked, ..run_parameters() },
        );
        assert!(plan.requests.iter().all(|request| request.expected_body_bytes.is_none()));
        assert_eq!(plan.connections, ConnectionUse::New);
    }

    #[test]
    fn an_unknown_suite_is_refused_with_the_nearest_name() {
        let message = Suite::find("webbench-1.1-statik").unwrap_err().to_string();
        assert_eq!(message, "there is no suite `webbench-1.1-statik`; did you mean `webbench-1.1-static`?");
        assert!(Suite::find("zzz").unwrap_err().to_string().contains("built in: webstone-1.1, webstone-2,"));
        assert!(Suite::find("/nowhere/x.toml").unwrap_err().to_string().contains("/nowhere/x.toml"));
    }
}
