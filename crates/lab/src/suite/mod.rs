//! Suites: what is run. The words are WebBench's: a *suite* is an ordered list of *mixes*, and each mix loads the
//! system under test with a number of virtual clients that draw their requests from a *workload* of weighted
//! classes of files, or of what programs answer.
//!
//! A suite of several [`Interface`]s has a part for each, which is measured in every mix; the first is what the others are
//! held against.
//!
//! Suites are TOML files. Those in `suites/` at the repository's root are built in; [`Suite::find`] takes the name
//! of one of them or the path of a file. [`tree`] makes the files that a workload asks for, [`Suite::plan`] turns a
//! mix into what the load engine runs.

mod content;
mod interface;
mod read;
mod read_workload;
pub mod tree;
mod workload;

use crate::definition::{DefinitionError, nearest};
use crate::result::SuiteRecord;
pub use interface::Interface;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use touchstone_load::{ConnectionUse, HttpVersion, Plan, Target};
pub use workload::{Class, Content, Part, Workload};

/// The suites that are built in: name and TOML text.
const BUILT_IN: [(&str, &str); 16] = [
    ("webbench-1.1-static", include_str!("../../../../suites/webbench-1.1-static.toml")),
    ("webbench-1.1-static-close", include_str!("../../../../suites/webbench-1.1-static-close.toml")),
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
];

/// An ordered list of mixes on one workload, or on one for each interface.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// For example `webbench-1.1-static`.
    pub name: String,
    /// A line that says what it is.
    pub title: String,
    /// A sentence or two for the list of suites.
    pub description: String,
    /// Where it comes from (report and table).
    pub source: String,
    /// WebBench's "Use Keep-Alives": kept connections (true) or a new one for every request.
    pub keep_alive: bool,
    /// The protocol version that the requests are written in.
    pub http_version: HttpVersion,
    /// WebBench's "Receive Buffer", bytes.
    pub receive_buffer_bytes: usize,
    /// A request without a complete answer after this is an error, seconds.
    pub timeout_s: f64,
    /// The mixes, in order.
    pub mixes: Vec<Mix>,
    /// The mixes of the short form; empty: the suite has none.
    pub quick_mixes: Vec<Mix>,
    /// What the clients ask for: one part, or one for each interface. Never empty.
    pub parts: Vec<Part>,
    /// The TOML text that it was read from.
    pub text: String,
}

/// One measured load. All times are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// For example `16_clients`.
    pub name: String,
    /// Virtual clients.
    pub clients: usize,
    /// The time at the beginning that is not counted.
    pub ramp_up_s: f64,
    /// The whole time, ramps included.
    pub length_s: f64,
    /// The time at the end that is not counted.
    pub ramp_down_s: f64,
    /// Each client starts after a random wait of at most this.
    pub delay_s: f64,
    /// The wait between an answer and the next request.
    pub think_time_s: f64,
}

/// Why a suite cannot be had.
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

/// What all mixes of a run are sent with, beside the suite itself.
#[derive(Debug, Clone)]
pub struct Drive<'a> {
    /// Where the requests go.
    pub target: Target,
    /// Set before every path of the workload; empty for systems that serve the tree as their root.
    pub path_prefix: &'a str,
    /// The processors of the load engine, one thread each.
    pub cores: &'a [usize],
    /// Seed of the choice of requests.
    pub seed: u64,
    /// Whether the answers must have the files' lengths (the kernel's limit answers one length to everything).
    pub check_lengths: bool,
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
        Ok(Suite::read(name_or_path, &text)?)
    }

    /// Reads a suite's TOML text; `file` names it in messages.
    pub fn read(file: &str, text: &str) -> Result<Suite, DefinitionError> {
        read::suite(file, text)
    }

    /// What the others are held against, or all there is.
    pub fn first_part(&self) -> &Part {
        &self.parts[0]
    }

    /// Whether each of several interfaces is measured by itself.
    pub fn compares_interfaces(&self) -> bool {
        self.parts.iter().any(|part| part.interface.is_some())
    }

    /// What the load engine runs for one mix of one part.
    pub fn plan(&self, part: &Part, mix: &Mix, drive: &Drive<'_>) -> Plan {
        let seconds = Duration::from_secs_f64;
        Plan {
            target: drive.target.clone(),
            requests: part.workload.requests(drive),
            headers: Vec::new(),
            clients: mix.clients,
            cores: drive.cores.to_vec(),
            connections: if self.keep_alive { ConnectionUse::Kept } else { ConnectionUse::New },
            version: self.http_version,
            receive_buffer_bytes: self.receive_buffer_bytes,
            delay: seconds(mix.delay_s),
            think_time: seconds(mix.think_time_s),
            timeout: seconds(self.timeout_s),
            ramp_up: seconds(mix.ramp_up_s),
            length: seconds(mix.length_s),
            ramp_down: seconds(mix.ramp_down_s),
            seed: drive.seed,
            ..Plan::of_one(drive.target.clone(), "/")
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
            classes: workload.classes.iter().map(Class::record).collect(),
            interfaces: interfaces.map(Interface::record).collect(),
            mean_body_bytes: workload.mean_body_bytes(),
            files: workload.files(),
            tree_bytes: workload.tree_bytes(),
            keep_alive: self.keep_alive,
            http_version: self.http_version.name().to_string(),
            seed,
        }
    }
}

impl Mix {
    /// The name of a mix that states none.
    pub fn name_for(clients: usize) -> String {
        format!("{clients}_client{}", if clients == 1 { "" } else { "s" })
    }

    /// What is wrong with the times, if anything: the ramps must leave something to count.
    pub fn problem(&self) -> Option<String> {
        if self.clients == 0 {
            return Some(format!("the mix {} has no clients", self.name));
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

    fn drive() -> Drive<'static> {
        let target = Target::plain(([127, 0, 0, 1], 80).into(), "127.0.0.1");
        Drive { target, path_prefix: "/base", cores: &[1], seed: 7, check_lengths: true }
    }

    #[test]
    fn built_in_suites_bear_their_names_and_have_the_golden_workload() {
        let suites = Suite::built_in().unwrap();
        assert_eq!(suites.len(), BUILT_IN.len());
        for (suite, (name, _)) in suites.iter().zip(BUILT_IN) {
            assert_eq!(suite.name, name);
        }
        let suites: Vec<&Suite> = suites.iter().filter(|suite| suite.name.starts_with("webbench")).collect();
        for suite in &suites {
            let workload = &suite.first_part().workload;
            assert!((workload.mean_body_bytes() - 8348.16).abs() < 1e-9);
            assert_eq!(workload.tree_bytes(), 2_618_880);
            assert_eq!(workload.files(), 100);
            assert_eq!(suite.receive_buffer_bytes, 4096);
            let weights: Vec<f64> = workload.classes.iter().map(|class| class.weight_percent).collect();
            assert_eq!(weights, [7.0, 7.0, 10.0, 26.0, 17.0, 13.0, 12.0, 6.0, 1.0, 1.0]);
            let clients: Vec<usize> = suite.mixes.iter().map(|mix| mix.clients).collect();
            assert_eq!(clients, [1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128, 144]);
            for mix in &suite.mixes {
                assert_eq!((mix.ramp_up_s, mix.length_s, mix.ramp_down_s), (30.0, 120.0, 10.0));
                assert_eq!((mix.delay_s, mix.think_time_s), (0.0, 0.0));
            }
            let quick_s: f64 = suite.quick_mixes.iter().map(|mix| mix.length_s).sum();
            assert!((40.0..=70.0).contains(&quick_s), "the quick form takes about a minute, not {quick_s} s");
        }
        assert!(suites[0].keep_alive && !suites[1].keep_alive);
        assert_eq!(suites[0].parts, suites[1].parts);
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
        let bytes: f64 = classes.iter().map(|class| class.weight_percent * class.body_bytes() as f64).sum();
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
                            .filter(|name| *name != "ajp")
                            .collect::<Vec<_>>()
                    );
                }
                "spice-servlet" => assert_eq!(names, ["static", "servlet-stream", "servlet-writer"]),
                one => assert_eq!(names, ["static", one.trim_start_matches("spice-")]),
            }
            assert!(suite.parts.iter().all(|part| part.workload.mean_body_bytes() == 6250.0));
            assert_eq!(suite.record(true, 1).interfaces.len(), suite.parts.len());
            let quick_s: f64 = suite.quick_mixes.iter().map(|mix| mix.length_s).sum();
            let whole_s = quick_s * suite.parts.len() as f64;
            assert!(quick_s <= 12.0 && whole_s <= 120.0, "the quick form takes {whole_s} s");
        }
        let of = |name: &str| suites.iter().find(|suite| suite.name == name).unwrap();
        assert!(of("spice").keep_alive && !of("spice-close").keep_alive);
        assert_eq!(of("spice-close").http_version, HttpVersion::Http10);
        let cgi = &of("spice-cgi").parts[1];
        assert_eq!((cgi.needs(), cgi.programs()), (vec!["cgi"], vec!["cgi"]));
        let jsp = of("spice-jsp");
        let plan = jsp.plan(&jsp.parts[1], &jsp.mixes[0], &drive());
        assert_eq!((plan.requests.len(), plan.requests[99].path.as_str()), (100, "/base/jsp/100.jsp"));
        let plan = of("spice-cgi").plan(cgi, &of("spice-cgi").mixes[0], &drive());
        assert_eq!((plan.requests.len(), plan.requests[0].path.as_str()), (1, "/base/cgi-bin/spice"));
        assert_eq!(plan.requests[0].expected_body_bytes, Some(6250));
    }

    #[test]
    fn a_plan_asks_for_every_file_by_the_weight_of_its_class() {
        let suite = Suite::find("webbench-1.1-static").unwrap();
        let plan = suite.plan(suite.first_part(), &suite.mixes[4], &drive());
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
        let plan =
            suite.plan(suite.first_part(), &suite.mixes[0], &Drive { check_lengths: false, ..drive() });
        assert!(plan.requests.iter().all(|request| request.expected_body_bytes.is_none()));
        assert_eq!(plan.connections, ConnectionUse::New);
    }

    #[test]
    fn an_unknown_suite_is_refused_with_the_nearest_name() {
        let message = Suite::find("webbench-1.1-statik").unwrap_err().to_string();
        assert_eq!(message, "there is no suite `webbench-1.1-statik`; did you mean `webbench-1.1-static`?");
        assert!(Suite::find("zzz").unwrap_err().to_string().contains("built in: webbench-1.1-static,"));
        assert!(Suite::find("/nowhere/x.toml").unwrap_err().to_string().contains("/nowhere/x.toml"));
    }
}
