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
    /// Whether a key of a section that may appear once was given with a value that is wrong.
    pub(crate) fn is_unread(&self, section: &str, key: &str) -> bool {
        self.sections.get(section).is_some_and(|places| places.is_unread(key))
    }

    /// Whether a place is one of a section with a value that is not known. Problems of its keys together may
    /// only follow from that value.
    pub(crate) fn is_within_unread(&self, place: (&Path, usize, usize)) -> bool {
        let all = self.sections.values().chain(&self.maps).chain(&self.sites).chain(&self.streams);
        let is_here = |found: Place| {
            let file = self.files.get(found.file).map(PathBuf::as_path);
            (file, found.line, found.column) == (Some(place.0), place.1, place.2)
        };
        all.into_iter().any(|section| is_within_unread(section, &is_here))
    }

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

/// Whether a place is in this section, with those in it, and it has such a value, or in such a one below it.
/// What a site sets holds for its routes too.
fn is_within_unread(section: &SectionPlaces, is_here: &dyn Fn(Place) -> bool) -> bool {
    if !section.unread.is_empty() {
        return is_within(section, is_here);
    }
    section.keys.values().flat_map(|key| &key.tables).any(|table| is_within_unread(table, is_here))
}

fn is_within(section: &SectionPlaces, is_here: &dyn Fn(Place) -> bool) -> bool {
    is_here(section.header)
        || section.keys.values().any(|key| {
            is_here(key.value)
                || key.items.iter().any(|item| is_here(*item))
                || key.tables.iter().any(|table| is_within(table, is_here))
        })
}
