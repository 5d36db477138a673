//! The changes of the control API, which replace values of the configuration files.
//!
//! A change replaces a whole site or section. It has a digest of the value in the file at that time. If the
//! file is edited later, the digest differs: then the file has priority, and the change is set aside.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use touchstone_proxy::OriginState;
use touchstone_tls::private_file;

/// The version of the file format.
const VERSION: u64 = 1;

/// The maximum size of the file in bytes.
const MOST_BYTES: u64 = 64 << 20;

/// The maximum number of changes that are set aside; the oldest is removed.
const MOST_SET_ASIDE: usize = 100;

/// A site or a section.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The site of this name.
    Site(String),
    /// A section such as `limits`.
    Section(String),
}

impl Subject {
    /// The text, for example `site shop.example`.
    pub fn text(&self) -> String {
        match self {
            Subject::Site(name) => format!("site {name}"),
            Subject::Section(name) => format!("section {name}"),
        }
    }

    fn parse(text: &str) -> Option<Subject> {
        let (kind, name) = text.split_once(' ')?;
        match kind {
            "site" => Some(Subject::Site(name.to_string())),
            "section" => Some(Subject::Section(name.to_string())),
            _ => None,
        }
    }
}

/// A change of a site or a section.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The digest of the value in the file; `None`: the file had no value.
    pub based_on: Option<String>,
    /// The new value; `None`: it is removed.
    pub value: Option<Value>,
    /// The client that made the change.
    pub by: String,
    /// The time of the change.
    pub at: String,
}

/// An origin of a route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OriginName {
    /// The site, or `(stream)`.
    pub site: String,
    /// The route.
    pub route: String,
    /// The URL.
    pub origin: String,
}

/// The state and the weight of an origin that an operator has set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OriginOverride {
    /// Its state; `None`: as configured.
    pub state: Option<OriginState>,
    /// Its weight; `None`: as configured.
    pub weight: Option<u32>,
    /// The client that set them.
    pub by: String,
    /// The time.
    pub at: String,
}

/// A change that is no longer applied.
#[derive(Debug, Clone, PartialEq)]
pub struct ObsoleteChange {
    /// The changed site or section.
    pub subject: Subject,
    /// The change.
    pub change: Change,
    /// The reason.
    pub reason: String,
}

/// All changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overlay {
    /// The changes of sites and sections.
    pub changes: BTreeMap<Subject, Change>,
    /// The states and weights of origins.
    pub origins: BTreeMap<OriginName, OriginOverride>,
    /// The changes that are no longer applied.
    pub set_aside: Vec<ObsoleteChange>,
}

impl Overlay {
    /// The file in this directory.
    pub fn file(directory: &Path) -> PathBuf {
        directory.join("overlay.json")
    }

    /// Reads the file of this directory. A missing file has no changes.
    pub fn read(directory: &Path) -> Result<Overlay, String> {
        let file = Overlay::file(directory);
        let name = file.display();
        let bytes = match std::fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Overlay::default()),
            Err(error) => return Err(format!("{name}: cannot be read: {error}")),
        };
        if bytes.len() as u64 > MOST_BYTES {
            return Err(format!("{name}: is larger than {MOST_BYTES} bytes"));
        }
        Overlay::parse(&bytes).map_err(|problem| {
            format!("{name}: {problem}; remove the file to use the configuration file alone")
        })
    }

    /// Reads the text of a file.
    pub fn parse(bytes: &[u8]) -> Result<Overlay, String> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| format!("not JSON: {error}"))?;
        if value["version"] != VERSION {
            return Err(format!("'version' must be {VERSION}"));
        }
        let mut overlay = Overlay::default();
        for (name, change) in value["changes"].as_object().into_iter().flatten() {
            let subject = Subject::parse(name).ok_or(format!("unknown subject {name:?}"))?;
            overlay.changes.insert(subject, parse_change(change)?);
        }
        for item in value["origins"].as_array().into_iter().flatten() {
            let (name, entry) = parse_origin(item)?;
            overlay.origins.insert(name, entry);
        }
        for item in value["set_aside"].as_array().into_iter().flatten() {
            let subject = item["subject"].as_str().and_then(Subject::parse).ok_or("a subject is missing")?;
            let reason = item["reason"].as_str().unwrap_or_default().to_string();
            overlay.set_aside.push(ObsoleteChange { subject, change: parse_change(item)?, reason });
        }
        Ok(overlay)
    }

    /// The text of the file.
    pub fn to_json(&self) -> Value {
        let changes: Map<String, Value> =
            self.changes.iter().map(|(subject, change)| (subject.text(), change_json(change))).collect();
        let origins: Vec<Value> = self.origins.iter().map(origin_json).collect();
        let set_aside = self.set_aside.iter().map(|aside| {
            let mut value = change_json(&aside.change);
            value["subject"] = aside.subject.text().into();
            value["reason"] = aside.reason.clone().into();
            value
        });
        json!({
            "version": VERSION,
            "changes": changes,
            "origins": origins,
            "set_aside": set_aside.collect::<Vec<_>>(),
        })
    }

    /// Replaces the file atomically.
    pub fn write(&self, directory: &Path) -> Result<(), String> {
        let file = Overlay::file(directory);
        let text = format!("{:#}\n", self.to_json());
        let written = private_file::make_directory(directory)
            .and_then(|()| private_file::write(&file, text.as_bytes(), 0o600));
        written.map_err(|error| format!("{} cannot be written: {error}", file.display()))
    }

    /// Whether no change is applied.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.origins.is_empty()
    }

    /// Sets a change aside.
    pub fn set_aside(&mut self, subject: &Subject, reason: String) {
        let Some(change) = self.changes.remove(subject) else { return };
        self.set_aside.push(ObsoleteChange { subject: subject.clone(), change, reason });
        let too_many = self.set_aside.len().saturating_sub(MOST_SET_ASIDE);
        self.set_aside.drain(..too_many);
    }

    /// A short description of each applied change.
    pub fn summary(&self) -> Vec<String> {
        let changes = self.changes.iter().map(|(subject, change)| {
            let what = match (&change.based_on, &change.value) {
                (None, _) => "added",
                (Some(_), Some(_)) => "changed",
                (Some(_), None) => "removed",
            };
            format!("{} ({what} by {} at {})", subject.text(), change.by, change.at)
        });
        let origins = self.origins.iter().map(|(name, entry)| {
            let state = entry.state.map(|state| format!(" {}", state.word())).unwrap_or_default();
            let weight = entry.weight.map(|weight| format!(" weight={weight}")).unwrap_or_default();
            let OriginName { site, route, origin } = name;
            format!("origin {origin} of {site} {route}:{state}{weight} (by {} at {})", entry.by, entry.at)
        });
        changes.chain(origins).collect()
    }
}

fn change_json(change: &Change) -> Value {
    json!({ "based_on": change.based_on, "value": change.value, "by": change.by, "at": change.at })
}

fn parse_change(value: &Value) -> Result<Change, String> {
    let text = |name: &str| value[name].as_str().map(str::to_string);
    Ok(Change {
        based_on: text("based_on"),
        value: Some(value["value"].clone()).filter(|value| !value.is_null()),
        by: text("by").ok_or("a change has no 'by'")?,
        at: text("at").ok_or("a change has no 'at'")?,
    })
}

fn origin_json((name, entry): (&OriginName, &OriginOverride)) -> Value {
    json!({
        "site": name.site,
        "route": name.route,
        "origin": name.origin,
        "state": entry.state.map(OriginState::word),
        "weight": entry.weight,
        "by": entry.by,
        "at": entry.at,
    })
}

fn parse_origin(value: &Value) -> Result<(OriginName, OriginOverride), String> {
    let text = |name: &str| {
        value[name].as_str().map(str::to_string).ok_or_else(|| format!("an origin has no '{name}'"))
    };
    let state = match &value["state"] {
        Value::Null => None,
        state => Some(state.as_str().and_then(OriginState::parse).ok_or(format!("unknown state {state}"))?),
    };
    let weight = match &value["weight"] {
        Value::Null => None,
        weight => {
            let number = weight.as_u64().and_then(|weight| u32::try_from(weight).ok());
            Some(number.filter(|weight| *weight > 0).ok_or(format!("a weight must not be {weight}"))?)
        }
    };
    let name = OriginName { site: text("site")?, route: text("route")?, origin: text("origin")? };
    Ok((name, OriginOverride { state, weight, by: text("by")?, at: text("at")? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn overlay() -> Overlay {
        let change = |based_on: Option<&str>, value: Option<Value>| Change {
            based_on: based_on.map(str::to_string),
            value,
            by: "deploy".to_string(),
            at: "2026-11-27T06:00:00Z".to_string(),
        };
        let mut overlay = Overlay::default();
        let site = |name: &str| Subject::Site(name.to_string());
        overlay.changes.insert(site("a"), change(Some("1"), Some(json!({ "root": "/" }))));
        overlay.changes.insert(site("b c"), change(Some("2"), None));
        overlay.changes.insert(Subject::Section("limits".to_string()), change(None, Some(json!({}))));
        overlay.changes.insert(site("d"), change(None, Some(json!({}))));
        overlay.set_aside(&site("d"), "the file has it now".to_string());
        let name = OriginName {
            site: "a".to_string(),
            route: "/x y/".to_string(),
            origin: "http://127.0.0.1:1".to_string(),
        };
        let entry = OriginOverride {
            state: Some(OriginState::Drain),
            weight: Some(7),
            by: "uid 0".to_string(),
            at: String::new(),
        };
        overlay.origins.insert(name, entry);
        overlay
    }

    #[test]
    fn a_file_is_written_and_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("control");
        assert_eq!(Overlay::read(&below), Ok(Overlay::default()));
        let overlay = overlay();
        overlay.write(&below).unwrap();
        assert_eq!(Overlay::read(&below), Ok(overlay.clone()));
        assert_eq!(overlay.summary().len(), 4);
        assert!(
            overlay.summary()[0].starts_with("site a (changed by deploy at 2026"),
            "{:?}",
            overlay.summary()
        );
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&below), mode(&Overlay::file(&below))), (0o700, 0o600));
    }

    #[test]
    fn a_killed_writer_does_not_change_the_file() {
        let directory = tempfile::tempdir().unwrap();
        overlay().write(directory.path()).unwrap();
        // Killed between the write and the rename: the new text is beside the file, here only a part of it.
        std::fs::write(directory.path().join("overlay.json.4711.new"), b"{\"version\":").unwrap();
        assert_eq!(Overlay::read(directory.path()), Ok(overlay()));
        private_file::remove_unfinished(&Overlay::file(directory.path()));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn damaged_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        for text in [
            "",
            "{",
            "[]",
            "{\"version\": 2}",
            "{\"version\": 1, \"changes\": {\"host a\": {}}}",
            "{\"version\": 1, \"changes\": {\"site a\": {}}}",
            "{\"version\": 1, \"origins\": [{\"site\": \"a\", \"state\": \"up\"}]}",
            "{\"version\": 1, \"origins\": [{\"weight\": 0}]}",
        ] {
            std::fs::write(Overlay::file(directory.path()), text).unwrap();
            let problem = Overlay::read(directory.path()).unwrap_err();
            assert!(problem.contains("overlay.json: ") && problem.contains("remove the file"), "{problem}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Overlay::parse(&bytes);
        }
    }
}
