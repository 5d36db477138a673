//! What became of each directive: its line beside what was made of it, and the sums.

use super::Directive;
use crate::output::Section;
use crate::{Imported, Problem};

/// What was done so far, for the sums.
#[derive(Debug, Default)]
pub struct Account {
    translated: usize,
    unneeded: usize,
    problems: Vec<Problem>,
}

impl Account {
    /// The directive was translated: its line goes beside what it became.
    pub fn translated(&mut self, directive: &Directive, section: &mut Section) {
        self.translated += 1;
        section.note(directive.to_string());
    }

    /// The directive needs no counterpart.
    pub fn unneeded(&mut self, directive: &Directive, section: &mut Section, why: &str) {
        self.unneeded += 1;
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
        Imported { text, translated: self.translated, unneeded: self.unneeded, problems: self.problems }
    }
}
