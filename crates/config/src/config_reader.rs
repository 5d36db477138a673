//! Reads a whole configuration. `parse` has its steps; the modules of sections add the checks that compare
//! several sections.

use std::ops::{Deref, DerefMut};

use touchstone_config_section::ConfigProblem;
use touchstone_config_section::reader::{Reader, Source};

/// The [`Reader`] of the files of one configuration.
pub(crate) struct ConfigReader<'t> {
    reader: Reader<'t>,
}

impl<'t> ConfigReader<'t> {
    /// A reader of one file.
    pub(crate) fn new(source: &'t Source) -> ConfigReader<'t> {
        ConfigReader { reader: Reader::new(&source.text, &source.name, &source.base) }
    }

    /// Reads all files of a configuration, the first of which it is in.
    pub(crate) fn with_sources(
        self,
        sources: &'t [Source],
        sections_with_key: fn(&str) -> Vec<String>,
    ) -> ConfigReader<'t> {
        ConfigReader { reader: self.reader.with_sources(sources, sections_with_key) }
    }

    /// The problems that were found.
    pub(crate) fn into_problems(self) -> Vec<ConfigProblem> {
        self.reader.into_problems()
    }
}

impl<'t> Deref for ConfigReader<'t> {
    type Target = Reader<'t>;

    fn deref(&self) -> &Reader<'t> {
        &self.reader
    }
}

impl<'t> DerefMut for ConfigReader<'t> {
    fn deref_mut(&mut self) -> &mut Reader<'t> {
        &mut self.reader
    }
}
