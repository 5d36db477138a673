//! The figures of a load for continuous integration: test cases in JUnit's XML, and a summary in Markdown.

use super::{FinishedLoad, text};
use touchstone_lab::figures::{count, milliseconds, rate};
use touchstone_load::{TimeSummary, Verdict};

/// Each threshold as a test case; a run without thresholds is one case, which fails if no request was
/// answered.
pub(super) fn junit(finished: &FinishedLoad) -> String {
    let FinishedLoad { subject, outcome, verdicts, aborted_by, .. } = finished;
    let time_s = outcome.window.as_secs_f64();
    let answered = (outcome.total_requests == 0).then(|| "there was no answer".to_string());
    let mut cases = vec![("answers".to_string(), answered, format!("{} requests", outcome.total_requests))];
    if let Some(verdict) = aborted_by {
        let words = verdict.words.clone();
        cases.push((format!("--abort-if {}", verdict.threshold), Some(words.clone()), words));
    }
    cases.extend(verdicts.iter().map(|verdict| {
        let missed = (!verdict.is_kept).then(|| verdict.words.clone());
        (verdict.threshold.clone(), missed, verdict.words.clone())
    }));
    let failures = cases.iter().filter(|(_, missed, _)| missed.is_some()).count();
    let counts = format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\"", cases.len());
    let name = xml(&format!("touchstone load {subject}"));
    let mut document = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"touchstone load\" {counts}>\n\
         <testsuite name=\"{name}\" {counts} time=\"{time_s:.3}\">\n"
    );
    for (case, missed, words) in cases {
        let inside = match missed {
            Some(missed) => format!("<failure message=\"{}\"/>", xml(&missed)),
            None => format!("<system-out>{}</system-out>", xml(&words)),
        };
        document += &format!("<testcase classname=\"{name}\" name=\"{}\">{inside}</testcase>\n", xml(&case));
    }
    document + "</testsuite>\n</testsuites>\n"
}

/// Text escaped for XML, also within quotes. XML allows no control characters.
fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            letter if letter.is_control() => escaped.push('?'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// A summary as GitHub shows it.
pub(super) fn markdown(finished: &FinishedLoad) -> String {
    let FinishedLoad { subject, plan, outcome, verdicts, aborted_by, .. } = finished;
    let mut text = format!(
        "### Load of {}\n\n{}\n\n| requests | a second | errors | p50 ms | p90 ms | p99 ms | max ms |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n| {} | {} | {} |",
        code(subject),
        text::what_was_done(plan, outcome),
        count(outcome.requests),
        rate(outcome.requests_per_second()),
        count(outcome.errors.total())
    );
    let times = TimeSummary::of(&outcome.latency_ns);
    let figures: [fn(&TimeSummary) -> f64; 4] = [|t| t.p50_us, |t| t.p90_us, |t| t.p99_us, |t| t.max_us];
    for figure in figures {
        text +=
            &format!(" {} |", times.as_ref().map_or("none".to_string(), |times| milliseconds(figure(times))));
    }
    text.push('\n');
    let row = |verdict: &Verdict, mark: &str| {
        format!("| {mark} | {} | {} |\n", code(&verdict.threshold), verdict.words)
    };
    if !verdicts.is_empty() || aborted_by.is_some() {
        text += "\n| | threshold | measured |\n| --- | --- | --- |\n";
        if let Some(verdict) = aborted_by {
            text += &row(verdict, ":stop_sign: ended early");
        }
        for verdict in verdicts {
            text += &row(verdict, if verdict.is_kept { ":white_check_mark: kept" } else { ":x: missed" });
        }
    }
    if !outcome.error_reasons.is_empty() {
        text += "\n| errors | reason | first request |\n| ---: | --- | --- |\n";
        for reason in &outcome.error_reasons {
            let words = format!("{}: {}", reason.kind, reason.reason);
            text += &format!(
                "| {} | {} | {} |\n",
                count(reason.count),
                code(&words),
                code(&reason.first_request)
            );
        }
    }
    if let Some(sign) = outcome.saturation.text() {
        text += &format!("\n> The figures are a lower bound: {sign}.\n");
    }
    text + "\n"
}

/// Text from outside, as code: Markdown in it has no effect, also in a table.
fn code(text: &str) -> String {
    let text = text.replace('`', "'").replace('|', "\\|");
    format!("`{}`", text.replace(|letter: char| letter.is_control(), " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_stays_text() {
        assert_eq!(xml("p99{/a?b&c=\"x\"}>1\u{1}"), "p99{/a?b&amp;c=&quot;x&quot;}&gt;1?");
        assert_eq!(code("a|b`c\nd"), "`a\\|b'c d`");
    }
}
