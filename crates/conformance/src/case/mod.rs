//! The cases: data below `cases/`, one file for each section of a document.
//!
//! [`all`] reads them. A file names its document, its section and the kind of servers; each case has the
//! rule, its level, the bytes to send and the allowed answers. A family (`for`) has one case for each of its
//! values. `docs/conformance.md` describes the syntax of the files.

mod condition;
mod escape;
mod frames;
mod read;
mod sources;

pub use condition::{Alternative, Condition, Test};
pub use escape::{Facts, bytes};
pub use frames::{Action, FrameStep, StreamName, http2_bytes, http2_type, http3_bytes};
pub use read::{CaseError, file};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Document {
    /// HTTP Semantics.
    #[serde(rename = "RFC 9110")]
    Semantics,
    /// HTTP Caching.
    #[serde(rename = "RFC 9111")]
    Caching,
    /// HTTP/1.1.
    #[serde(rename = "RFC 9112")]
    Http1,
    /// HTTP/2.
    #[serde(rename = "RFC 9113")]
    Http2,
    /// HTTP/3.
    #[serde(rename = "RFC 9114")]
    Http3,
}

impl Document {
    /// All of them.
    pub const ALL: [Document; 5] =
        [Document::Semantics, Document::Caching, Document::Http1, Document::Http2, Document::Http3];

    /// For example `RFC 9110`.
    pub fn name(self) -> &'static str {
        match self {
            Document::Semantics => "RFC 9110",
            Document::Caching => "RFC 9111",
            Document::Http1 => "RFC 9112",
            Document::Http2 => "RFC 9113",
            Document::Http3 => "RFC 9114",
        }
    }

    /// For example `Semantics`.
    pub fn title(self) -> &'static str {
        match self {
            Document::Semantics => "Semantics",
            Document::Caching => "Caching",
            Document::Http1 => "HTTP/1.1",
            Document::Http2 => "HTTP/2",
            Document::Http3 => "HTTP/3",
        }
    }
}

/// The level of a rule (RFC 2119).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// MUST and MUST NOT.
    Must,
    /// SHOULD and SHOULD NOT.
    Should,
    /// MAY: an option of servers, which need not have it.
    May,
}

impl Level {
    /// The keyword of RFC 2119.
    pub fn name(self) -> &'static str {
        match self {
            Level::Must => "MUST",
            Level::Should => "SHOULD",
            Level::May => "MAY",
        }
    }
}

/// The servers to which a case applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Every recipient of requests.
    Any,
    /// A server of files.
    Files,
    /// An intermediary in front of the scripted origin.
    Proxy,
    /// A cache in front of the scripted origin.
    Cache,
}

/// A case.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// For example `9112/3.2/two-hosts`.
    pub id: String,
    /// The document.
    pub document: Document,
    /// The section, for example `3.2`.
    pub section: String,
    /// The rule, as a sentence.
    pub rule: String,
    /// The level of the rule.
    pub level: Level,
    /// The servers to which it applies.
    pub role: Role,
    /// Why servers disagree, if they do.
    pub note: Option<String>,
    /// The bytes to send.
    pub script: Script,
    /// The allowed answers: all conditions of one alternative must be true.
    pub answer: Vec<Alternative>,
}

/// The bytes to send.
#[derive(Debug, Clone, PartialEq)]
pub enum Script {
    /// On one connection of HTTP/1: text with placeholders, pauses and a half-close.
    Http1(String),
    /// Each request on its own connection, with pauses between them, and the answers of the origin.
    Steps {
        /// The answers of the origin, in order; the last one is repeated.
        origin: Vec<String>,
        /// The requests.
        steps: Vec<Step>,
    },
    /// On one connection of HTTP/2 over TLS.
    Http2(Vec<FrameStep>),
    /// On one connection of HTTP/3.
    Http3(Vec<FrameStep>),
}

/// One step of a case with an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A pause, milliseconds.
    Wait(u64),
    /// A request: text with placeholders.
    Send(String),
}

impl Case {
    /// The protocol that it needs.
    pub fn protocol(&self) -> Protocol {
        match self.script {
            Script::Http1(_) | Script::Steps { .. } => Protocol::Http1,
            Script::Http2(_) => Protocol::Http2,
            Script::Http3(_) => Protocol::Http3,
        }
    }

    /// Its name as a part of a path, by which the origin recognises its requests.
    pub fn key(&self) -> String {
        self.id.replace(['/', '.'], "-")
    }

    /// The facts about the served page that the case needs.
    pub fn needs(&self) -> Vec<&'static str> {
        let text = match &self.script {
            Script::Http1(text) => text.clone(),
            Script::Steps { steps, .. } => format!("{steps:?}"),
            Script::Http2(steps) | Script::Http3(steps) => format!("{steps:?}"),
        };
        let needs = [("{etag}", "{etag}"), ("{opaque}", "{etag}"), ("{modified", "{modified}")];
        needs.into_iter().filter(|(part, _)| text.contains(part)).map(|(_, name)| name).collect()
    }
}

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 over TCP.
    Http1,
    /// HTTP/2 over TLS.
    Http2,
    /// HTTP/3.
    Http3,
}

/// All cases, in the order of the documents.
pub fn all() -> Result<Vec<Case>, CaseError> {
    let mut cases = Vec::new();
    for (name, text) in sources::SOURCES {
        cases.extend(file(name, text)?);
    }
    Ok(cases)
}

/// The SHA-256 of all cases: verdicts can be computed again only with the same cases.
pub fn digest() -> String {
    let mut hash = Sha256::new();
    for (name, text) in sources::SOURCES {
        hash.update(name.as_bytes());
        hash.update(text.as_bytes());
    }
    touchstone_http::hexadecimal::encode(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_cases_can_be_read_and_no_two_have_one_name() {
        let cases = all().unwrap();
        let ids: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(ids.len(), cases.len());
        for document in Document::ALL {
            let count = cases.iter().filter(|case| case.document == document).count();
            assert!(count >= 60, "{}: {count} cases", document.name());
        }
        assert!(cases.len() >= 600, "{} cases", cases.len());
    }

    #[test]
    fn all_files_are_among_the_sources() {
        let place = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
        let mut files = 0;
        for document in std::fs::read_dir(place).unwrap() {
            files += std::fs::read_dir(document.unwrap().path()).unwrap().count();
        }
        assert_eq!(files, sources::SOURCES.len());
    }
}
