//! The record of what each directive was translated to: notes for the output, and the totals.

use std::collections::BTreeSet;

use crate::directive::{Directive, Place};
use crate::output::Section;
use crate::{Imported, Problem};

/// The directives that have been handled, by result.
#[derive(Debug, Default)]
pub struct Account {
    /// Each directive counts once, even if it is written to several sections.
    translated: BTreeSet<(Place, String)>,
    unneeded: BTreeSet<(Place, String)>,
    problems: Vec<Problem>,
    without_effect: BTreeSet<(Place, String)>,
}

impl Account {
    /// Records a translated directive and notes its original line in the section.
    pub fn translated(&mut self, directive: &Directive, section: &mut Section) {
        self.translated.insert((directive.place.clone(), directive.text()));
        section.note(directive.to_string());
    }

    /// Records a directive that needs no counterpart.
    pub fn unneeded(&mut self, directive: &Directive, section: &mut Section, why: &str) {
        self.unneeded.insert((directive.place.clone(), directive.text()));
        section.note(format!("{directive} (not needed: {why})"));
    }

    /// Records a directive that could not be translated.
    pub fn problem(&mut self, directive: &Directive, section: &mut Section, advice: &str) {
        let problem = Problem {
            place: directive.place.clone(),
            directive: directive.text(),
            advice: advice.to_string(),
        };
        // The sites for HTTP and HTTPS are written from the same lines.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
        section.note(format!("NOT TRANSLATED: {directive}\n  {advice}"));
    }

    /// Records a directive that could not be translated, and that has no effect now.
    pub fn without_effect(&mut self, directive: &Directive, section: &mut Section, advice: &str) {
        self.without_effect.insert((directive.place.clone(), directive.text()));
        self.problem(directive, section, advice);
    }

    /// Takes over the problems that another account has, too.
    pub fn take_problems(&mut self, other: Account) {
        for problem in other.problems {
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
    }

    /// Whether a directive with an effect could not be translated.
    pub fn is_problem(&self, directive: &Directive) -> bool {
        let text = directive.text();
        let has_effect = !self.without_effect.contains(&(directive.place.clone(), text.clone()));
        has_effect && self.problems.iter().any(|one| one.place == directive.place && one.directive == text)
    }

    /// The result, with its text.
    pub fn into_imported(mut self, text: String) -> Imported {
        self.problems.sort_by(|one, other| one.place.cmp(&other.place));
        // What one of several sections needs is translated.
        let unneeded = self.unneeded.difference(&self.translated).count();
        Imported { text, translated: self.translated.len(), unneeded, problems: self.problems }
    }
}
