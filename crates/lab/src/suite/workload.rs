//! What the clients of a suite request: workloads of weighted classes, of files, of an interface's answers,
//! of explicit requests, or of pages.

use super::endpoint::{Endpoint, Endpoints};
use super::{Interface, Lengths, Order, OwnRequest, RunParameters};
use crate::capability::{FILES, HTTP2, HTTP3, OWN_REQUESTS, TLS};
use crate::result::{ClassRecord, SizeRecord};
use std::time::Duration;
use touchstone_load::{HttpVersion, PlannedRequest, ScriptPlan};

/// A part that is measured separately in every mix.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The interface that it measures; absent where the suite has one workload for all.
    pub interface: Option<Interface>,
    /// The requests of the clients.
    pub workload: Workload,
}

/// Classes of requests with weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// For example `ZD_STATIC_V11`.
    pub name: String,
    /// The seed that the files' content is made from.
    pub content_seed: u64,
    /// The classes; their weights sum to 100.
    pub classes: Vec<Class>,
    /// The values that sessions begin with.
    pub script: ScriptPlan,
}

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// For example `CLASS_4K`: the directory of its files, too.
    pub name: String,
    /// Percent of the choices: of the requests, or, if there are pages, of the pages.
    pub weight_percent: f64,
    /// What is requested.
    pub content: Content,
    /// The exponent of Zipf's law for the popularity of its requests, in order; 0: all equally popular.
    pub zipf: f64,
    /// Header fields of all its requests, `name: value`.
    pub headers: Vec<String>,
    /// Where its requests go, and how they are written.
    pub endpoint: Endpoint,
}

/// The requests of a class.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Files, by the bytes of each.
    Files {
        /// Where they lie.
        directory: String,
        /// One for each file, in the order of their numbers.
        sizes: Vec<u64>,
        /// How their names end, for example `.html`.
        suffix: String,
    },
    /// An interface's answers.
    Interface {
        /// Which.
        interface: Box<Interface>,
        /// The number of bytes that the query requests, if the program accepts that.
        asked_bytes: Option<u64>,
    },
    /// Explicit requests, one at a time.
    Requests {
        /// Which.
        requests: Vec<OwnRequest>,
        /// The program of ours that answers them, if there is one.
        interface: Option<Box<Interface>>,
        /// The order of the requests.
        order: Order,
    },
}

impl Part {
    /// The interface's name; empty where the suite has one workload for all.
    pub fn name(&self) -> &str {
        self.interface.as_ref().map_or("", |interface| &interface.name)
    }

    /// The capabilities that a system must have for it, each once.
    pub fn needs(&self) -> Vec<&str> {
        let mut needs: Vec<&str> = self.workload.classes.iter().flat_map(Class::needs).collect();
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// The programs that must be there for it, each once.
    pub fn programs(&self) -> Vec<&str> {
        let interfaces = self.workload.classes.iter().filter_map(Class::interface);
        let mut programs: Vec<&str> =
            interfaces.filter_map(|interface| interface.program.as_deref()).collect();
        programs.sort_unstable();
        programs.dedup();
        programs
    }
}

impl Workload {
    /// The mean of the body length over all requests, bytes. A body of unknown length counts with its usual
    /// length.
    pub fn mean_body_bytes(&self) -> f64 {
        self.shares().iter().zip(&self.classes).map(|(share, class)| share * class.mean_body_bytes()).sum()
    }

    /// The share of the requests that each class has, 0 to 1. Without pages it is its weight.
    pub fn shares(&self) -> Vec<f64> {
        let requests = |class: &Class| class.weight_percent * class.page_requests() as f64;
        let all: f64 = self.classes.iter().map(requests).sum();
        self.classes.iter().map(|class| requests(class) / all).collect()
    }

    /// Different requests: files in the tree, and the paths of each program.
    pub fn files(&self) -> u64 {
        self.classes.iter().map(Class::requests).sum()
    }

    /// Bytes of all different answers together: those of the tree, where all are files.
    pub fn tree_bytes(&self) -> u64 {
        self.classes.iter().map(Class::tree_bytes).sum()
    }

    /// The endpoints of the requests, each once.
    pub fn endpoints(&self) -> Endpoints {
        Endpoints::of(self.classes.iter().map(|class| class.endpoint))
    }

    /// Everything that can be requested, as weighted requests.
    pub(super) fn requests(&self, run_parameters: &RunParameters<'_>) -> Vec<PlannedRequest> {
        let endpoints = self.endpoints();
        let mut all: Vec<PlannedRequest> = Vec::new();
        for (index, class) in self.classes.iter().enumerate() {
            let first = all.len();
            let weights = class.popularity();
            let sum: f64 = weights.iter().sum();
            all.extend(weights.iter().enumerate().map(|(number, weight)| {
                let request =
                    class.request(number as u64, run_parameters.path_prefix, run_parameters.lengths);
                PlannedRequest {
                    class: index,
                    target: endpoints.place(class.endpoint),
                    weight: class.weight_percent * weight / sum,
                    think_before: class.think_before(number as u64),
                    headers: [&class.headers[..], &request.headers].concat(),
                    ..request
                }
            }));
            if class.is_page() {
                all[first].is_session = class.is_session();
                all[first].then = (first + 1..all.len()).collect();
                all[first].weight = class.weight_percent;
                all[first + 1..].iter_mut().for_each(|request| request.weight = 0.0);
            }
        }
        all
    }

    /// The classes as the result file records them.
    pub(super) fn record(&self) -> Vec<ClassRecord> {
        self.shares().iter().zip(&self.classes).map(|(share, class)| class.record(share * 100.0)).collect()
    }
}

impl Class {
    /// The path of one of its requests, for example `/CLASS_4K/3.html`.
    pub fn path(&self, number: u64) -> String {
        match &self.content {
            Content::Files { directory, suffix, .. } => format!("/{directory}/{number}{suffix}"),
            Content::Interface { interface, asked_bytes } => interface.path_for(number, *asked_bytes),
            Content::Requests { requests, .. } => requests[number as usize].path.clone(),
        }
    }

    /// One of its requests, as the load engine sends it, without what it shares with the others of the class.
    pub fn request(&self, number: u64, path_prefix: &str, lengths: Lengths) -> PlannedRequest {
        match &self.content {
            Content::Requests { requests, .. } => requests[number as usize].planned(path_prefix, lengths),
            Content::Files { .. } | Content::Interface { .. } => PlannedRequest {
                expected_body_bytes: self.body_bytes(number).filter(|_| lengths != Lengths::Unchecked),
                ..PlannedRequest::get(format!("{path_prefix}{}", self.path(number)))
            },
        }
    }

    /// How many different requests it has.
    pub fn requests(&self) -> u64 {
        match &self.content {
            Content::Files { sizes, .. } => sizes.len() as u64,
            Content::Interface { interface, .. } => interface.paths,
            Content::Requests { requests, .. } => requests.len() as u64,
        }
    }

    /// Bytes of the body of an answer; absent if not known.
    pub fn body_bytes(&self, number: u64) -> Option<u64> {
        match &self.content {
            Content::Files { sizes, .. } => sizes.get(number as usize).copied(),
            Content::Interface { interface, .. } if interface.body_varies => None,
            Content::Interface { interface, asked_bytes } => {
                Some(asked_bytes.unwrap_or(interface.body_bytes))
            }
            Content::Requests { requests, .. } => requests[number as usize].usual_bytes(),
        }
    }

    /// Whether a client that requests its first request then requests all others.
    pub fn is_page(&self) -> bool {
        matches!(self.content, Content::Requests { order: Order::Page | Order::Session, .. })
    }

    /// Whether it is a page with think times in it.
    pub fn is_session(&self) -> bool {
        matches!(self.content, Content::Requests { order: Order::Session, .. })
    }

    /// The think time before one of a session's requests.
    fn think_before(&self, number: u64) -> Duration {
        match &self.content {
            Content::Requests { requests, order: Order::Session, .. } => {
                Duration::from_secs_f64(requests[number as usize].think_time_s)
            }
            _ => Duration::ZERO,
        }
    }

    /// The sum of a session's think times, seconds.
    pub fn session_think_s(&self) -> f64 {
        match &self.content {
            Content::Requests { requests, order: Order::Session, .. } => {
                requests.iter().map(|request| request.think_time_s).sum()
            }
            _ => 0.0,
        }
    }

    /// Requests that follow from one choice.
    pub fn page_requests(&self) -> u64 {
        if self.is_page() { self.requests() } else { 1 }
    }

    /// The mean of the body length of its requests by their popularity, bytes.
    pub fn mean_body_bytes(&self) -> f64 {
        self.weighted_mean(|bytes| bytes)
    }

    /// Bytes of all its different answers together.
    pub fn tree_bytes(&self) -> u64 {
        (0..self.requests()).map(|number| self.usual_bytes(number)).sum()
    }

    /// The popularity of each of its requests, relative to the others.
    fn popularity(&self) -> Vec<f64> {
        let stated = |number: u64| match &self.content {
            Content::Requests { requests, order: Order::Chosen, .. } => requests[number as usize].weight,
            _ => 1.0,
        };
        (0..self.requests()).map(|number| stated(number) * ((number + 1) as f64).powf(-self.zipf)).collect()
    }

    fn weighted_mean(&self, figure: impl Fn(f64) -> f64) -> f64 {
        let weights = self.popularity();
        let sum: f64 = weights.iter().sum();
        let weighted =
            |(number, weight): (usize, &f64)| weight / sum * figure(self.usual_bytes(number as u64) as f64);
        weights.iter().enumerate().map(weighted).sum()
    }

    /// The bytes of an answer, or its usual length.
    fn usual_bytes(&self, number: u64) -> u64 {
        match &self.content {
            Content::Interface { interface, .. } if interface.body_varies => interface.body_bytes,
            _ => self.body_bytes(number).unwrap_or(0),
        }
    }

    fn interface(&self) -> Option<&Interface> {
        match &self.content {
            Content::Files { .. } => None,
            Content::Interface { interface, .. } => Some(interface),
            Content::Requests { interface, .. } => interface.as_deref(),
        }
    }

    fn needs(&self) -> Vec<&str> {
        let answers = match &self.content {
            Content::Files { .. } => FILES,
            Content::Interface { interface, .. } => &interface.needs,
            Content::Requests { interface: Some(interface), .. } => &interface.needs,
            Content::Requests { requests, .. } if requests.iter().all(OwnRequest::is_file) => FILES,
            Content::Requests { .. } => OWN_REQUESTS,
        };
        let tls = self.endpoint.is_secure.then_some(TLS);
        let version = match self.endpoint.version {
            HttpVersion::Http2 => Some(HTTP2),
            HttpVersion::Http3 => Some(HTTP3),
            HttpVersion::Http10 | HttpVersion::Http11 => None,
        };
        [answers].into_iter().chain(tls).chain(version).collect()
    }

    fn record(&self, weight_percent: f64) -> ClassRecord {
        let bytes: Vec<u64> = (0..self.requests()).map(|number| self.usual_bytes(number)).collect();
        let (smallest, largest) = (bytes.iter().min().copied(), bytes.iter().max().copied());
        let mean_bytes = self.mean_body_bytes();
        let sizes = (smallest != largest).then(|| SizeRecord {
            smallest_bytes: smallest.unwrap_or(0),
            largest_bytes: largest.unwrap_or(0),
            mean_bytes,
            stddev_bytes: self.weighted_mean(|bytes| (bytes - mean_bytes).powi(2)).sqrt(),
            tree_bytes: self.tree_bytes(),
        });
        ClassRecord {
            name: self.name.clone(),
            weight_percent,
            files: self.requests(),
            file_bytes: mean_bytes.round() as u64,
            sizes,
            page_requests: self.page_requests(),
            session_think_s: self.session_think_s(),
            body_varies: (0..self.requests()).any(|number| self.body_bytes(number).is_none()),
            tls: self.endpoint.is_secure,
            interface: match &self.content {
                Content::Interface { interface, .. } => Some(interface.name.clone()),
                Content::Files { .. } | Content::Requests { .. } => None,
            },
        }
    }
}
