//! The effective configuration: the files with the changes of the overlay, read and checked together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use touchstone_config::{
    Config, ConfigPlaces, ConfigProblem, ConfigWithPlaces, Omission, Persistence, Source, load_sources,
    names_of_sites,
};

use crate::base::{Base, SITE};
use crate::keyed_hash::digest;
use crate::overlay::{Overlay, Subject};
use crate::secrets;
use crate::toml_text::toml_text;

/// The name of the source of the changes in problems.
const CHANGES_NAME: &str = "control API";

/// A configuration that can be applied.
#[derive(Debug, Clone)]
pub struct EffectiveConfig {
    /// The configuration.
    pub config: Config,
    /// The positions of its keys in the files.
    pub places: ConfigPlaces,
    /// The configuration as JSON: its sections, and `site` with all sites in the order of [`Config::sites`].
    pub document: Map<String, Value>,
    /// The names of its sites.
    pub site_names: Vec<String>,
    changes: ChangeTexts,
}

/// The texts of the changes, for problems.
#[derive(Debug, Clone, Default)]
struct ChangeTexts {
    /// The texts without secrets, by the names of their sources.
    texts: BTreeMap<PathBuf, String>,
    /// All values, from which the secrets in messages are found.
    values: Vec<Value>,
}

/// A problem, and the line of the change that causes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The message; with a position if the problem is in a file.
    pub message: String,
    /// The line of the change, written as TOML.
    pub near: Option<String>,
}

/// A configuration file with its stored changes.
pub struct LoadedConfig {
    /// The files.
    pub base: Base,
    /// The changes.
    pub overlay: Overlay,
    /// Files and changes together.
    pub effective: EffectiveConfig,
    /// Messages about the changes that were set aside.
    pub conflicts: Vec<String>,
}

/// Reads a configuration file and its stored changes.
pub fn open(path: &Path) -> Result<LoadedConfig, Vec<ConfigProblem>> {
    let (base, ConfigWithPlaces { config, places }) = Base::read(path)?;
    let control = &config.control;
    let directory =
        control.directory.clone().filter(|_| control.enabled && control.persist == Persistence::File);
    let Some(directory) = directory else {
        let effective = EffectiveConfig::of_base(&base, config, places);
        return Ok(LoadedConfig { base, overlay: Overlay::default(), effective, conflicts: Vec::new() });
    };
    let problem = |message: String| ConfigProblem { file: PathBuf::new(), line: 0, column: 0, message };
    let mut overlay = Overlay::read(&directory).map_err(|message| vec![problem(message)])?;
    let conflicts = set_conflicts_aside(&base, &mut overlay);
    let file = Overlay::file(&directory);
    let effective = EffectiveConfig::new(&base, &overlay).map_err(|problems| {
        let problem_text = |found: Problem| match found.near {
            Some(near) => problem(format!("{}: {} (near `{near}`)", file.display(), found.message)),
            None => problem(found.message),
        };
        problems.into_iter().map(problem_text).collect::<Vec<_>>()
    })?;
    Ok(LoadedConfig { base, overlay, effective, conflicts })
}

/// Sets aside the changes of sites and sections that were since edited in the files; returns messages about
/// them.
pub fn set_conflicts_aside(base: &Base, overlay: &mut Overlay) -> Vec<String> {
    let reason = |(subject, change): (&Subject, &crate::overlay::Change)| {
        let now = value_in_files(base, subject).map(digest);
        if now == change.based_on {
            return None;
        }
        let what = match (&change.based_on, &now) {
            (None, _) => "is in the configuration file now",
            (Some(_), None) => "is not in the configuration file any more",
            (Some(_), Some(_)) => "was edited in the configuration file",
        };
        Some((subject.clone(), format!("it {what} since the change; the file has priority")))
    };
    let found: Vec<(Subject, String)> = overlay.changes.iter().filter_map(reason).collect();
    let conflict_message = |(subject, reason): &(Subject, String)| {
        let change = overlay.changes.get(subject);
        let (by, at) = change.map_or(("", ""), |change| (change.by.as_str(), change.at.as_str()));
        format!("{}: the change by {by} at {at} is set aside: {reason}", subject.text())
    };
    let messages = found.iter().map(conflict_message).collect();
    for (subject, reason) in found {
        overlay.set_aside(&subject, reason);
    }
    messages
}

/// The value of a site or a section in the files.
pub fn value_in_files<'b>(base: &'b Base, subject: &Subject) -> Option<&'b Value> {
    match subject {
        Subject::Site(name) => base.site(name).map(|(_, value)| value),
        Subject::Section(name) => base.section(name).map(|(_, value)| value),
    }
}

/// The changes of values in the files of one directory, to which their relative paths refer.
#[derive(Default)]
struct DirectoryChanges {
    sections: Map<String, Value>,
    /// The sites, each with its position in the configuration.
    sites: Vec<(usize, Value)>,
}

impl EffectiveConfig {
    /// The configuration of the files alone.
    fn of_base(base: &Base, config: Config, places: ConfigPlaces) -> EffectiveConfig {
        let mut document: Map<String, Value> = Map::new();
        for name in base.section_names() {
            if let Some((_, value)) = base.section(name) {
                document.insert(name.to_string(), value.clone());
            }
        }
        let sites = base.sites.iter().map(|site| base.value(site).clone()).collect();
        document.insert(SITE.to_string(), Value::Array(sites));
        let site_names = base.sites.iter().map(|site| site.name.clone()).collect();
        EffectiveConfig { config, places, document, site_names, changes: ChangeTexts::default() }
    }

    /// The configuration of the files with these changes.
    pub fn new(base: &Base, overlay: &Overlay) -> Result<EffectiveConfig, Vec<Problem>> {
        let mut omissions = Vec::new();
        let mut by_directory: BTreeMap<PathBuf, DirectoryChanges> = BTreeMap::new();
        let mut document: Map<String, Value> = Map::new();
        for name in base.section_names() {
            if let Some((_, value)) = base.section(name) {
                document.insert(name.to_string(), value.clone());
            }
        }
        let mut sites: Vec<Value> = Vec::new();
        // The sites in the order in which they are read: those of files, then those of changes.
        let mut kept: Vec<usize> = Vec::new();
        for site in &base.sites {
            match overlay.changes.get(&Subject::Site(site.name.clone())) {
                None => {
                    kept.push(sites.len());
                    sites.push(base.value(site).clone());
                }
                Some(change) => {
                    let position = Some(site.position);
                    omissions.push(Omission { source: site.source, section: SITE.to_string(), position });
                    if let Some(value) = &change.value {
                        let changes = by_directory.entry(base.directory(site.source)).or_default();
                        changes.sites.push((sites.len(), value.clone()));
                        sites.push(value.clone());
                    }
                }
            }
        }
        for (subject, change) in &overlay.changes {
            match subject {
                Subject::Site(name) if base.site(name).is_none() => {
                    let Some(value) = &change.value else { continue };
                    let changes = by_directory.entry(base.directory(0)).or_default();
                    changes.sites.push((sites.len(), value.clone()));
                    sites.push(value.clone());
                }
                Subject::Site(_) => {}
                Subject::Section(name) => {
                    let source = base.section(name).map(|(source, _)| source);
                    if let Some(source) = source {
                        omissions.push(Omission { source, section: name.clone(), position: None });
                        document.remove(name);
                    }
                    if let Some(value) = &change.value {
                        let directory = base.directory(source.unwrap_or(0));
                        let changes = by_directory.entry(directory).or_default();
                        changes.sections.insert(name.clone(), value.clone());
                        document.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        document.insert(SITE.to_string(), Value::Array(sites));
        read_changed(base, by_directory, &omissions, kept, document)
    }

    /// A site by its name.
    pub fn site(&self, name: &str) -> Option<(usize, &Value)> {
        let position = self.site_names.iter().position(|known| known == name)?;
        Some((position, self.document.get(SITE)?.get(position)?))
    }

    /// Describes problems of this machine, such as a missing directory, without secrets.
    pub fn problems(&self, found: Vec<ConfigProblem>) -> Vec<Problem> {
        problems(found, &self.changes)
    }
}

/// Reads the files and the changes together.
fn read_changed(
    base: &Base,
    by_directory: BTreeMap<PathBuf, DirectoryChanges>,
    omissions: &[Omission],
    mut order: Vec<usize>,
    document: Map<String, Value>,
) -> Result<EffectiveConfig, Vec<Problem>> {
    let mut sources = base.sources.clone();
    let mut shown = ChangeTexts::default();
    for (directory, changes) in by_directory {
        let mut table = changes.sections;
        order.extend(changes.sites.iter().map(|(position, _)| *position));
        let sites: Vec<Value> = changes.sites.into_iter().map(|(_, site)| site).collect();
        if !sites.is_empty() {
            table.insert(SITE.to_string(), Value::Array(sites));
        }
        let text = toml_text(&table).map_err(|message| vec![Problem { message, near: None }])?;
        let name = match shown.texts.len() {
            0 => PathBuf::from(CHANGES_NAME),
            count => PathBuf::from(format!("{CHANGES_NAME} ({})", count + 1)),
        };
        let value = Value::Object(table);
        // Each string is on one line, so the lines are the same without secrets.
        let masked = secrets::masked(&value).as_object().map(toml_text);
        shown.texts.insert(name.clone(), masked.and_then(Result::ok).unwrap_or_default());
        shown.values.push(value);
        sources.push(Source { name, base: directory, text });
    }
    let loaded = load_sources(&sources, omissions).map_err(|found| problems(found, &shown))?;
    let ConfigWithPlaces { mut config, mut places } = loaded;
    if order.len() == config.sites.len() && order.len() == places.sites.len() {
        config.sites = in_order(config.sites, &order);
        places.sites = in_order(places.sites, &order);
    }
    let site_names = names_of_sites(&config.sites).into_iter().map(|names| names.site).collect();
    Ok(EffectiveConfig { config, places, document, site_names, changes: shown })
}

/// Sorts the items by their positions.
fn in_order<T>(items: Vec<T>, positions: &[usize]) -> Vec<T> {
    let mut all: Vec<(usize, T)> = positions.iter().copied().zip(items).collect();
    all.sort_by_key(|(position, _)| *position);
    all.into_iter().map(|(_, item)| item).collect()
}

/// Removes secrets from problems. A problem of a file keeps its position. A problem of a change has the text
/// of its line instead, since the change was sent as JSON and has no lines.
fn problems(found: Vec<ConfigProblem>, changes: &ChangeTexts) -> Vec<Problem> {
    let without_secrets = |message: String| {
        changes.values.iter().fold(message, |message, value| secrets::without_secrets(&message, value))
    };
    let problem_of = |problem: ConfigProblem| match changes.texts.get(&problem.file) {
        None => Problem { message: without_secrets(problem.to_string()), near: None },
        Some(text) => {
            let near = text.lines().nth(problem.line.saturating_sub(1)).map(str::to_string);
            let message = without_secrets(problem.message);
            Problem { message, near: near.filter(|_| problem.line > 0) }
        }
    };
    found.into_iter().map(problem_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::Change;
    use serde_json::json;

    const MAIN: &str = "include = ['more/*.toml']\n[limits]\nranges = 3\n[[site]]\nhosts = ['a.example']\n\
        listen = ['127.0.0.1:1']\nroot = '/'\n[[site]]\nhosts = ['b.example']\nlisten = ['127.0.0.1:1']\n\
        root = '/'\n";
    const MORE: &str = "[[site]]\nhosts = ['c.example']\nlisten = ['127.0.0.1:1']\nroot = 'www'\n";

    fn written(main: &str) -> (tempfile::TempDir, Base) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("more")).unwrap();
        std::fs::write(directory.path().join("main.toml"), main).unwrap();
        std::fs::write(directory.path().join("more/c.toml"), MORE).unwrap();
        let (base, _) = Base::read(&directory.path().join("main.toml")).unwrap();
        (directory, base)
    }

    fn site(host: &str, root: &str) -> Value {
        json!({ "hosts": [host], "listen": ["127.0.0.1:1"], "root": root })
    }

    fn overlay(base: &Base, changes: &[(&str, Option<Value>)]) -> Overlay {
        let change = |(name, value): &(&str, Option<Value>)| {
            let subject = match name.contains('.') {
                true => Subject::Site(name.to_string()),
                false => Subject::Section(name.to_string()),
            };
            let based_on = value_in_files(base, &subject).map(digest);
            let change = Change { based_on, value: value.clone(), by: "x".to_string(), at: "t".to_string() };
            (subject, change)
        };
        Overlay { changes: changes.iter().map(change).collect(), ..Overlay::default() }
    }

    #[test]
    fn changes_replace_the_values_of_the_files() {
        let (directory, base) = written(MAIN);
        let changes = overlay(
            &base,
            &[
                ("a.example", Some(site("a.example", "/a"))),
                ("b.example", None),
                ("c.example", Some(site("c.example", "new"))),
                ("d.example", Some(site("d.example", "d"))),
                ("limits", Some(json!({ "ranges": 7 }))),
                ("cache", Some(json!({ "enabled": false }))),
            ],
        );
        let effective = EffectiveConfig::new(&base, &changes).unwrap();
        assert_eq!(effective.site_names, ["a.example", "c.example", "d.example"]);
        let roots: Vec<&Path> =
            effective.config.sites.iter().filter_map(|site| site.root.as_deref()).collect();
        // A relative path belongs to the directory of the file that has the site.
        assert_eq!(roots, [Path::new("/a"), &directory.path().join("more/new"), &directory.path().join("d")]);
        assert_eq!((effective.config.limits.ranges, effective.config.cache.enabled), (7, false));
        assert_eq!(effective.document["limits"], json!({ "ranges": 7 }));
        assert_eq!(effective.site("c.example").unwrap().0, 1);
    }

    #[test]
    fn a_change_does_not_change_the_order_of_sites() {
        let (_directory, base) = written(MAIN);
        let changes = overlay(&base, &[("a.example", Some(site("a.example", "/a")))]);
        let effective = EffectiveConfig::new(&base, &changes).unwrap();
        assert_eq!(effective.site_names, ["a.example", "b.example", "c.example"]);
        assert_eq!(effective.config.sites[0].root.as_deref(), Some(Path::new("/a")));
    }

    #[test]
    fn a_problem_has_the_line_of_the_change_or_the_position_in_the_file() {
        let (_directory, base) = written(MAIN);
        let mut wrong = site("a.example", "/a");
        wrong["rot"] = "x".into();
        let changes = overlay(&base, &[("a.example", Some(wrong))]);
        let problems = EffectiveConfig::new(&base, &changes).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].near.as_deref(), Some("rot = \"x\""));
        assert!(problems[0].message.contains("unknown key 'rot'"), "{problems:?}");
        let changes = overlay(&base, &[("a.example", Some(site("b.example", "/a")))]);
        let problems = EffectiveConfig::new(&base, &changes).unwrap_err();
        assert!(problems[0].message.contains("already belongs"), "{problems:?}");
    }

    #[test]
    fn an_edit_of_the_file_sets_a_change_aside() {
        let (_directory, base) = written(MAIN);
        let changes = overlay(
            &base,
            &[
                ("a.example", Some(site("a.example", "/a"))),
                ("b.example", None),
                ("d.example", Some(site("d.example", "d"))),
            ],
        );
        let mut same = changes.clone();
        assert_eq!(set_conflicts_aside(&base, &mut same), [""; 0]);
        assert_eq!(same, changes);
        let edited = MAIN.replace("hosts = ['a.example']", "hosts = ['a.example', 'www.a.example']")
            + "[[site]]\nhosts = ['d.example']\nlisten = ['127.0.0.1:1']\nroot = '/'\n";
        let (_directory, base) = written(&edited);
        let mut changes = changes;
        let messages = set_conflicts_aside(&base, &mut changes);
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(messages[0].contains("site a.example: the change by x at t is set aside: it was edited"));
        assert!(messages[1].contains("is in the configuration file now"), "{messages:?}");
        assert_eq!(changes.set_aside.len(), 2);
        let effective = EffectiveConfig::new(&base, &changes).unwrap();
        assert_eq!(effective.site_names, ["a.example", "d.example", "c.example"]);
    }
}
