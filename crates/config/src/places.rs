//! The places of the parts of a configuration, for problems that are found later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use touchstone_config_section::{ConfigProblem, Place, SectionPlaces, problem_at};

/// The places of all parts that were read. The default has no place: every problem is then reported without
/// one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigPlaces {
    /// The file as the user named it, and those that it includes.
    pub files: Vec<PathBuf>,
    /// The sections that may appear once, by name.
    pub sections: BTreeMap<&'static str, SectionPlaces>,
    /// Each `[[map]]`, in their order.
    pub maps: Vec<SectionPlaces>,
    /// Each `[[site]]`, in the order of [`Config::sites`](super::Config::sites).
    pub sites: Vec<SectionPlaces>,
    /// Each `[[stream]]`, in the order of [`Config::streams`](super::Config::streams).
    pub streams: Vec<SectionPlaces>,
}

impl ConfigPlaces {
    /// A problem at the value of a key of a section that may appear once, such as `path` of `access_log`.
    pub fn problem_in_section(&self, section: &str, key: &str, message: impl Into<String>) -> ConfigProblem {
        self.problem(self.sections.get(section).map(|places| places.key(key)), message)
    }

    /// A problem at the value of a key of the site at this position.
    pub fn problem_in_site(&self, site: usize, key: &str, message: impl Into<String>) -> ConfigProblem {
        self.problem(self.sites.get(site).map(|places| places.key(key)), message)
    }

    /// A problem at the value of a key of the stream at this position; `key` may be in a section of it.
    pub fn problem_in_stream(&self, stream: usize, key: &str, message: impl Into<String>) -> ConfigProblem {
        self.problem(self.streams.get(stream).map(|places| places.key_below(key)), message)
    }

    /// A problem at a place, or of the whole configuration.
    pub fn problem(&self, place: Option<Place>, message: impl Into<String>) -> ConfigProblem {
        let file = self.files.get(place.map_or(0, |place| place.file));
        problem_at(file.map_or(Path::new(""), PathBuf::as_path), place, message)
    }
}
