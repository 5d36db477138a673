//! What the clients of a suite ask for: workloads of weighted classes, of files or of what an interface answers.

use super::{Drive, Interface};
use crate::capability::FILES;
use crate::result::ClassRecord;
use touchstone_load::PlannedRequest;

/// What is measured in every mix by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The interface that it measures; absent where the suite has one workload for all.
    pub interface: Option<Interface>,
    /// What the clients ask for.
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
}

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// For example `CLASS_4K`: the directory of its files, too.
    pub name: String,
    /// Percent of the requests.
    pub weight_percent: f64,
    /// What is asked for.
    pub content: Content,
}

/// What a class asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Files of one size, equally often.
    Files {
        /// How many.
        files: u64,
        /// Bytes of each.
        file_bytes: u64,
    },
    /// What an interface answers.
    Interface(Box<Interface>),
}

impl Part {
    /// The interface's name; empty where the suite has one workload for all.
    pub fn name(&self) -> &str {
        self.interface.as_ref().map_or("", |interface| &interface.name)
    }

    /// The capabilities that a system must have for it, each once.
    pub fn needs(&self) -> Vec<&str> {
        let mut needs: Vec<&str> = self.workload.classes.iter().map(Class::needs).collect();
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
    /// The mean of the body length by the weights, bytes.
    pub fn mean_body_bytes(&self) -> f64 {
        self.classes.iter().map(|class| class.weight_percent / 100.0 * class.body_bytes() as f64).sum()
    }

    /// Different requests: files in the tree, and the paths of each program.
    pub fn files(&self) -> u64 {
        self.classes.iter().map(Class::requests).sum()
    }

    /// Bytes of all different answers together: those of the tree, where all are files.
    pub fn tree_bytes(&self) -> u64 {
        self.classes.iter().map(|class| class.requests() * class.body_bytes()).sum()
    }

    /// Everything that can be asked for as a weighted request.
    pub(super) fn requests(&self, drive: &Drive<'_>) -> Vec<PlannedRequest> {
        let of_class = |(index, class): (usize, &Class)| {
            let weight = class.weight_percent / class.requests() as f64;
            let expected_body_bytes = drive.check_lengths.then_some(class.body_bytes());
            let request = |path: String| PlannedRequest {
                class: index,
                weight,
                expected_body_bytes,
                ..PlannedRequest::get(path)
            };
            (0..class.requests())
                .map(|number| request(format!("{}{}", drive.path_prefix, class.path(number))))
                .collect::<Vec<_>>()
        };
        self.classes.iter().enumerate().flat_map(of_class).collect()
    }
}

impl Class {
    /// The path of one of its requests, for example `/CLASS_4K/3.html`.
    pub fn path(&self, number: u64) -> String {
        match &self.content {
            Content::Files { .. } => format!("/{}/{number}.html", self.name),
            Content::Interface(interface) => interface.path(number),
        }
    }

    /// How many different requests it has.
    pub fn requests(&self) -> u64 {
        match &self.content {
            Content::Files { files, .. } => *files,
            Content::Interface(interface) => interface.paths,
        }
    }

    /// Bytes of the body of each answer.
    pub fn body_bytes(&self) -> u64 {
        match &self.content {
            Content::Files { file_bytes, .. } => *file_bytes,
            Content::Interface(interface) => interface.body_bytes,
        }
    }

    fn interface(&self) -> Option<&Interface> {
        match &self.content {
            Content::Files { .. } => None,
            Content::Interface(interface) => Some(interface),
        }
    }

    fn needs(&self) -> &str {
        self.interface().map_or(FILES, |interface| &interface.needs)
    }

    pub(super) fn record(&self) -> ClassRecord {
        ClassRecord {
            name: self.name.clone(),
            weight_percent: self.weight_percent,
            files: self.requests(),
            file_bytes: self.body_bytes(),
        }
    }
}
