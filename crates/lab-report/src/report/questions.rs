//! The first screen: the five questions that a report is read for, each with its answer and what that rests
//! on, and how far the result can be trusted.

use maud::{Markup, html};

use super::run_rules;
use super::view::View;
use super::words;
use crate::answers::{self, Answer};

/// The panel.
pub(super) fn panel(view: &View) -> Markup {
    let answers = answers::of(view.result, view.plans);
    html! {
        dl class="questions" { @for answer in &answers { (row(answer)) } }
        (run_rules::line(view))
    }
}

fn row(answer: &Answer) -> Markup {
    html! {
        div {
            dt { (answer.question) }
            dd {
                strong { (words::line(&answer.answer, words::SENTENCE_LIMIT)) }
                span { (words::line(&answer.because, words::SENTENCE_LIMIT)) }
            }
        }
    }
}
