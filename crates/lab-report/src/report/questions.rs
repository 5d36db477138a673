//! The first screen: the five questions of a report's reader, each with its answer and evidence, and the
//! reliability of the result.

use maud::{Markup, html};

use super::run_rules;
use super::view::View;
use super::words;
use crate::answers::{self, Answer};

/// The panel of questions and answers.
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
