//! Imported sessions, and their text as a session file.

use crate::variables::PREDEFINED;
use std::collections::BTreeSet;
use std::fmt::Write;

use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// Sessions that were read from a file of another tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    /// The server, `http://host:port`; absent if the file does not contain it.
    pub origin: Option<String>,
    /// The sessions.
    pub sessions: Vec<DraftSession>,
    /// Whether sessions keep cookies.
    pub cookies: bool,
    /// Files of values that the other tool reads, with their columns.
    pub data: Vec<(String, Vec<String>)>,
    /// The omitted parts and the parts to check, one sentence each.
    pub notes: Vec<String>,
}

/// Requests in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DraftSession {
    /// Its name.
    pub name: String,
    /// Its relative frequency; 0: the default.
    pub weight: f64,
    /// Its requests.
    pub requests: Vec<DraftRequest>,
}

/// One request; `${name}` in its texts is replaced by a value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DraftRequest {
    /// Its name in the file, for a comment.
    pub name: String,
    /// For example `GET`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Header fields, `name: value`.
    pub headers: Vec<String>,
    /// The body.
    pub body: Option<String>,
    /// Variables, and the queries for their values in the answer.
    pub extract: Vec<(String, String)>,
    /// Assertions about the answer.
    pub assert: Vec<String>,
    /// The statuses of a valid answer; empty: the default.
    pub status: Vec<u16>,
    /// The maximum number of redirects that are followed.
    pub redirects: u32,
    /// The seconds between the previous answer and this request.
    pub think_time_s: f64,
}

impl Draft {
    /// The number of requests.
    pub fn requests(&self) -> usize {
        self.sessions.iter().map(|session| session.requests.len()).sum()
    }

    /// Checks that a request is for the server of all other requests; the first request determines it.
    pub(crate) fn is_at(&mut self, origin: &str) -> bool {
        self.origin.get_or_insert_with(|| origin.to_string()) == origin
    }

    /// Adds a data file for the variables without a source, and a note about it.
    pub(crate) fn complete(&mut self) {
        let mut known: BTreeSet<String> = PREDEFINED.map(str::to_string).into();
        known.extend(self.data.iter().flat_map(|(_, columns)| columns.iter().cloned()));
        let mut missing = BTreeSet::new();
        for session in &self.sessions {
            let mut own = known.clone();
            for request in &session.requests {
                missing.extend(request.uses().filter(|name| !own.contains(name)));
                own.extend(request.extract.iter().map(|(name, _)| name.clone()));
            }
        }
        // A variable that a session extracts from an answer cannot also be a column.
        let taken: BTreeSet<&String> = self
            .sessions
            .iter()
            .flat_map(|session| &session.requests)
            .flat_map(|request| request.extract.iter().map(|(name, _)| name))
            .collect();
        let (twice, missing): (Vec<String>, Vec<String>) =
            missing.into_iter().partition(|name| taken.contains(name));
        for name in twice {
            self.notes.push(format!(
                "the variable {name} is used before the request that extracts it: move that request forward"
            ));
        }
        if !missing.is_empty() {
            let list = missing.join(",");
            self.notes.push(format!(
                "the file has no values for {list}: write values.csv with the first line {list} and a line \
                 for each user"
            ));
            self.data.push(("values.csv".to_string(), missing));
        }
    }

    /// The text of the session file.
    pub fn text(&self, source: &str) -> String {
        let mut text = format!("# {}\n", one_line(&format!("imported from {source}")));
        for note in &self.notes {
            text += &format!("# {}\n", one_line(note));
        }
        if self.cookies {
            text += "cookies = true\n";
        }
        for (file, columns) in &self.data {
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "\n[[data]]\nfile = {}  # {}\n",
                toml_string(file),
                one_line(&format!("columns: {}", columns.join(",")))
            );
        }
        for session in &self.sessions {
            text += &format!("\n[[session]]\nname = {}\n", toml_string(&session.name));
            if session.weight > 0.0 {
                text += &format!("weight = {}\n", session.weight);
            }
            for (number, request) in session.requests.iter().enumerate() {
                text += &request.text(number == 0);
            }
        }
        text
    }
}

impl DraftRequest {
    /// The names of the variables in the request.
    pub(crate) fn uses(&self) -> impl Iterator<Item = String> {
        let texts = [&self.path].into_iter().chain(&self.headers).chain(&self.body);
        texts.flat_map(|text| crate::variables::names(text))
    }

    /// Whether the request extracts a variable of this name from its answer.
    pub(crate) fn takes(&self, name: &str) -> bool {
        self.extract.iter().any(|(taken, _)| taken == name)
    }

    pub(crate) fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|field| is_header(field, name))
    }

    /// Adds `name=value` pairs to the query.
    pub(crate) fn add_query(&mut self, pairs: &str) {
        self.path.push(if self.path.contains('?') { '&' } else { '?' });
        self.path += pairs;
    }

    fn text(&self, is_first: bool) -> String {
        let mut text = format!("\n[[session.requests]]  # {}\n", one_line(&self.name));
        text += &format!("path = {}\n", toml_string(&self.path));
        if self.method != "GET" {
            text += &format!("method = {}\n", toml_string(&self.method));
        }
        if !self.headers.is_empty() {
            text += &format!("headers = {}\n", toml_strings(&self.headers));
        }
        if let Some(body) = &self.body {
            text += &format!("body = {}\n", toml_string(body));
        }
        if self.think_time_s > 0.0 && !is_first {
            text += &format!("think_time_s = {}\n", self.think_time_s);
        }
        if self.redirects > 0 {
            text += &format!("redirects = {}\n", self.redirects);
        }
        if !self.status.is_empty() {
            let statuses: Vec<String> = self.status.iter().map(u16::to_string).collect();
            text += &format!("status = [{}]\n", statuses.join(", "));
        }
        if !self.extract.is_empty() {
            let pairs = self.extract.iter().map(|(name, from)| format!("{name} = {}", toml_string(from)));
            text += &format!("extract = {{ {} }}\n", pairs.collect::<Vec<_>>().join(", "));
        }
        if !self.assert.is_empty() {
            text += &format!("assert = {}\n", toml_strings(&self.assert));
        }
        text
    }
}

/// Whether a header field, `name: value`, has this name.
pub(crate) fn is_header(field: &str, name: &str) -> bool {
    field.split(':').next().is_some_and(|own| own.eq_ignore_ascii_case(name))
}

/// Text for a comment.
fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn variables_without_a_source_get_a_data_file() {
        let request = |path: &str, extract: &[&str]| DraftRequest {
            path: path.to_string(),
            extract: extract.iter().map(|name| (name.to_string(), "body".to_string())).collect(),
            ..DraftRequest::default()
        };
        let requests = vec![request("/${user}/${late}", &["token"]), request("/${token}", &["late"])];
        let mut draft = Draft {
            sessions: vec![DraftSession { name: "s".into(), requests, ..DraftSession::default() }],
            ..Draft::default()
        };
        draft.complete();
        assert_eq!(draft.data, [("values.csv".to_string(), vec!["user".to_string()])]);
        assert!(draft.notes[0].contains("late is used before"), "{:?}", draft.notes);
    }

    proptest! {
        #[test]
        fn any_draft_is_toml(texts in prop::collection::vec(any::<String>(), 6)) {
            let request = DraftRequest {
                name: texts[0].clone(),
                method: "POST".to_string(),
                path: texts[1].clone(),
                headers: vec![texts[2].clone()],
                body: Some(texts[3].clone()),
                extract: vec![("name".to_string(), texts[4].clone())],
                ..DraftRequest::default()
            };
            let draft = Draft {
                sessions: vec![DraftSession { name: texts[5].clone(), weight: 2.0, requests: vec![request] }],
                notes: vec![texts[0].clone()],
                ..Draft::default()
            };
            let table: toml::Table = draft.text(&texts[5]).parse().expect("it is TOML");
            let request = &table["session"][0]["requests"][0];
            prop_assert_eq!(request["body"].as_str(), Some(texts[3].as_str()));
            prop_assert_eq!(request["path"].as_str(), Some(texts[1].as_str()));
        }
    }
}
