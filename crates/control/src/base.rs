//! The configuration files: their texts, and their values as JSON.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use touchstone_config::{
    ConfigProblem, ConfigWithPlaces, Source, load_sources, names_of_sites, read_sources,
};

/// The section of sites.
pub const SITE: &str = "site";

/// The key that lists further files.
pub const INCLUDE: &str = "include";

/// The files of a configuration.
#[derive(Debug, Clone)]
pub struct Base {
    /// Their texts, the main file first.
    pub sources: Vec<Source>,
    /// Their values as JSON.
    tables: Vec<Map<String, Value>>,
    /// The sites of all files, in their order.
    pub sites: Vec<BaseSite>,
}

/// A site of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseSite {
    /// Its name.
    pub name: String,
    /// The position of its file.
    pub source: usize,
    /// Its position in the file.
    pub position: usize,
}

impl Base {
    /// Reads and checks the files.
    pub fn read(path: &Path) -> Result<(Base, ConfigWithPlaces), Vec<ConfigProblem>> {
        let sources = read_sources(path)?;
        let loaded = load_sources(&sources, &[])?;
        let tables: Vec<Map<String, Value>> = sources.iter().map(table_of).collect();
        let names = names_of_sites(&loaded.config.sites).into_iter().map(|names| names.site);
        let places = tables.iter().enumerate().flat_map(|(source, table)| {
            let count = table.get(SITE).and_then(Value::as_array).map_or(0, Vec::len);
            (0..count).map(move |position| (source, position))
        });
        let sites = names.zip(places);
        let sites = sites.map(|(name, (source, position))| BaseSite { name, source, position }).collect();
        Ok((Base { sources, tables, sites }, loaded))
    }

    /// The main file.
    pub fn path(&self) -> &Path {
        self.sources.first().map_or(Path::new(""), |source| &source.name)
    }

    /// The directory to which the relative paths of a file refer.
    pub fn directory(&self, source: usize) -> PathBuf {
        self.sources.get(source).map(|source| source.base.clone()).unwrap_or_default()
    }

    /// The site of this name.
    pub fn site(&self, name: &str) -> Option<(&BaseSite, &Value)> {
        let site = self.sites.iter().find(|site| site.name == name)?;
        Some((site, self.value(site)))
    }

    /// The value of a site in its file.
    pub fn value(&self, site: &BaseSite) -> &Value {
        &self.tables[site.source][SITE][site.position]
    }

    /// A section other than `site`, and the position of its file.
    pub fn section(&self, name: &str) -> Option<(usize, &Value)> {
        self.tables.iter().enumerate().find_map(|(source, table)| Some((source, table.get(name)?)))
    }

    /// The names of all sections other than `site`.
    pub fn section_names(&self) -> impl Iterator<Item = &str> {
        let names = self.tables.iter().flat_map(Map::keys).map(String::as_str);
        names.filter(|name| *name != SITE && *name != INCLUDE)
    }
}

/// Parses a text that was already accepted as a configuration.
fn table_of(source: &Source) -> Map<String, Value> {
    let table = source.text.parse::<toml::Table>().ok().and_then(|table| serde_json::to_value(table).ok());
    match table {
        Some(Value::Object(table)) => table,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_of_all_files_are_found_by_their_names() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write(
            "main.toml",
            "include = ['more.toml']\n[limits]\nranges = 3\n[[site]]\nhosts = ['a.example']\n\
             listen = ['127.0.0.1:1']\nroot = '/'\n",
        );
        write(
            "more.toml",
            "[cache]\nenabled = false\n[[site]]\nlisten = ['127.0.0.1:2']\nroot = 'www'\n[[site]]\n\
             listen = ['127.0.0.1:3']\nroot = 'b'\n",
        );
        let (base, loaded) = Base::read(&directory.path().join("main.toml")).unwrap();
        assert_eq!(loaded.config.sites.len(), 3);
        let names: Vec<&str> = base.sites.iter().map(|site| site.name.as_str()).collect();
        assert_eq!(names, ["a.example", "127.0.0.1:2", "127.0.0.1:3"]);
        let (site, value) = base.site("127.0.0.1:3").unwrap();
        assert_eq!((site.source, site.position, &value["root"]), (1, 1, &Value::from("b")));
        assert_eq!(base.section("cache").unwrap().1["enabled"], false);
        assert_eq!(base.section_names().collect::<Vec<_>>(), ["limits", "cache"]);
        assert_eq!(base.directory(1), directory.path());
    }
}
