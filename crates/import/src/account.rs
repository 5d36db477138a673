//! What became of each directive: its line beside what was made of it, and the sums.

use std::collections::BTreeSet;

use crate::directive::{Directive, Place};
use crate::output::Section;
use crate::{Imported, Problem};

/// What was done so far, for the sums.
#[derive(Debug, Default)]
pub struct Account {
    /// The directives, each once: some hold at several places.
    translated: BTreeSet<(Place, String)>,
    unneeded: BTreeSet<(Place, String)>,
    problems: Vec<Problem>,
}

impl Account {
    /// The directive was translated: its line goes beside what it became.
    pub fn translated(&mut self, directive: &Directive, section: &mut Section) {
        self.translated.insert((directive.place.clone(), directive.text()));
        section.note(directive.to_string());
    }

    /// The directive needs no counterpart.
    pub fn unneeded(&mut self, directive: &Directive, section: &mut Section, why: &str) {
        self.unneeded.insert((directive.place.clone(), directive.text()));
        section.note(format!("{directive} (not needed: {why})"));
    }

    /// The directive was not translated.
    pub fn problem(&mut self, directive: &Directive, section: &mut Section, advice: &str) {
        let problem = Problem {
            place: directive.place.clone(),
            directive: directive.text(),
            advice: advice.to_string(),
        };
        // Sites for HTTP and HTTPS are written from the same lines.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
        section.note(format!("NOT TRANSLATED: {directive}\n  {advice}"));
    }

    /// The whole, with its text.
    pub fn into_imported(mut self, text: String) -> Imported {
        self.problems.sort_by(|one, other| one.place.cmp(&other.place));
        let (translated, unneeded) = (self.translated.len(), self.unneeded.len());
        Imported { text, translated, unneeded, problems: self.problems }
    }
}
