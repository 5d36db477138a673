//! The part of a result about conformance: each case with its verdict on each system. The file
//! `conformance.jsonl` has all received bytes, from which the verdicts can be computed again.

use crate::case::{self, Case, Document, Facts, Level};
use crate::judge::{Verdict, judge};
use crate::run::Outcome;
use crate::transcript::Transcript;
use serde::{Deserialize, Serialize};

/// The name of the file of transcripts in a result directory.
pub const FILE_NAME: &str = "conformance.jsonl";
/// The version of its lines; a reader refuses a higher one.
pub const VERSION: u32 = 1;

/// Conformance in a result file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conformance {
    /// The SHA-256 of all cases.
    pub cases_sha256: String,
    /// The systems, by name, in the order of the verdicts.
    pub systems: Vec<String>,
    /// The cases, in the order of the documents.
    pub cases: Vec<CaseRecord>,
}

/// A case with its verdicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseRecord {
    /// For example `9112/3.2/two-hosts`.
    pub id: String,
    /// The document.
    pub document: Document,
    /// The section.
    pub section: String,
    /// The rule.
    pub rule: String,
    /// The level of the rule.
    pub level: Level,
    /// Why servers disagree, if that is known.
    #[serde(default)]
    pub note: Option<String>,
    /// The verdict on each system; absent if the case does not apply to systems of its kind.
    pub outcomes: Vec<Option<OutcomeRecord>>,
}

/// The result of a case on a system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeRecord {
    /// The verdict.
    pub verdict: Verdict,
    /// A short description of the answer.
    pub seen: String,
}

/// A line of `conformance.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "line")]
pub enum Line {
    /// A system; its cases follow.
    System {
        /// The value of [`VERSION`] when it was written.
        version: u32,
        /// Its name.
        system: String,
        /// The known facts about it.
        facts: Facts,
    },
    /// A case on the system of the last such line.
    Case {
        /// Its name.
        id: String,
        /// The received bytes.
        transcript: Transcript,
    },
}

/// The lines of a system.
pub fn lines(system: &str, cases: &[Case], outcome: &Outcome) -> Vec<Line> {
    let head = Line::System { version: VERSION, system: system.to_owned(), facts: outcome.facts.clone() };
    let case = |tried: &crate::run::CaseResult| Line::Case {
        id: cases[tried.case].id.clone(),
        transcript: tried.transcript.clone(),
    };
    std::iter::once(head).chain(outcome.tried.iter().map(case)).collect()
}

impl Conformance {
    /// Computes the result from the lines of all systems.
    pub fn of(cases: &[Case], lines: &[Line]) -> Result<Conformance, String> {
        let mut conformance = Conformance {
            cases_sha256: case::digest(),
            systems: Vec::new(),
            cases: cases.iter().map(CaseRecord::of).collect(),
        };
        let mut known: Option<&Facts> = None;
        for line in lines {
            match line {
                Line::System { version, system, facts } => {
                    if *version > VERSION {
                        return Err(format!("its version {version} is newer than this program's"));
                    }
                    conformance.systems.push(system.clone());
                    conformance.cases.iter_mut().for_each(|case| case.outcomes.push(None));
                    known = Some(facts);
                }
                Line::Case { id, transcript } => {
                    let facts = known.ok_or("a case precedes the first system")?;
                    let place = cases.iter().position(|case| case.id == *id);
                    let place = place.ok_or_else(|| format!("unknown case {id}"))?;
                    let (verdict, seen) = judge(&cases[place], facts, transcript);
                    if let Some(last) = conformance.cases[place].outcomes.last_mut() {
                        *last = Some(OutcomeRecord { verdict, seen });
                    }
                }
            }
        }
        Ok(conformance)
    }

    /// The number of cases of a document and a level that a system passes, and the number that were run.
    pub fn kept(&self, system: usize, document: Document, level: Level) -> (usize, usize) {
        let outcomes = self.cases.iter().filter(|case| case.document == document && case.level == level);
        let verdicts = outcomes.filter_map(|case| case.outcomes.get(system)?.as_ref()).map(|one| one.verdict);
        let tried: Vec<Verdict> = verdicts.filter(|verdict| *verdict != Verdict::NotTried).collect();
        (tried.iter().filter(|verdict| **verdict == Verdict::Kept).count(), tried.len())
    }
}

impl CaseRecord {
    fn of(case: &Case) -> CaseRecord {
        CaseRecord {
            id: case.id.clone(),
            document: case.document,
            section: case.section.clone(),
            rule: case.rule.clone(),
            level: case.level,
            note: case.note.clone(),
            outcomes: Vec::new(),
        }
    }
}
