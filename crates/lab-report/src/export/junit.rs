//! A result as JUnit's XML, so that continuous integration shows it: the run rules as one suite of tests, and
//! each system's mixes as another.
//!
//! A rule that makes the result invalid is a failure; one that makes it indicative is skipped, because it is
//! not a fault. A mix fails when it was cut short, gave no answer, or failed more than one request of a
//! thousand. Each threshold of a mix is a separate test.

use crate::report;
use crate::run_rules::{self, ERRORS_MAX, Evidence};
use crate::run_rules::{Outcome, Rule};
use std::fmt::Write as _;
use touchstone_lab::result::{MixResult, ResultFile};
use touchstone_lab::series::{self, Series};

/// The outcome of a test.
enum TestOutcome {
    Passed,
    Skipped(String),
    Failed(String),
}

/// The result as a JUnit file.
pub fn junit(result: &ResultFile) -> String {
    let audit = report::audit_outcomes(result);
    // Without the raw data: `touchstone verify` checks it, and a check that is left out is not a failure.
    let rules = run_rules::rules(&Evidence { result, recomputed: None, audit: &audit });
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let name = escaped(&format!("touchstone {}", result.suite.name));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "<testsuites name=\"{name}\">");
    let of_rules: Vec<(String, f64, TestOutcome)> = rules
        .iter()
        .filter(|rule| rule.name != "raw_data")
        .map(|rule| (rule.name.to_owned(), 0.0, of_rule(rule)))
        .collect();
    write_suite(&mut text, "run rules", &result.started_at, &of_rules);
    for series in series::from_result(result) {
        // Every run is listed: a failed run must not be hidden by the run that represents its mix.
        let name = |mix: &MixResult| match mix.run {
            1 => mix.name.clone(),
            run => format!("{}, run {run}", mix.name),
        };
        let mut of_mixes = Vec::new();
        for mix in &series.runs {
            of_mixes.push((name(mix), mix.length_s, of_mix(&series, mix)));
            of_mixes.extend(mix.thresholds.iter().map(|record| {
                let missed = || TestOutcome::Failed(record.words.clone());
                let outcome = if record.kept { TestOutcome::Passed } else { missed() };
                (format!("{}, {}", name(mix), record.threshold), 0.0, outcome)
            }));
        }
        write_suite(&mut text, &series.title, &result.started_at, &of_mixes);
    }
    text.push_str("</testsuites>\n");
    text
}

fn of_rule(rule: &Rule) -> TestOutcome {
    match rule.outcome {
        Outcome::Held => TestOutcome::Passed,
        Outcome::Indicative => {
            TestOutcome::Skipped(format!("indicative: {} (the rule: {})", rule.finding, rule.rule))
        }
        Outcome::Broken => {
            TestOutcome::Failed(format!("invalid: {} (the rule: {})", rule.finding, rule.rule))
        }
    }
}

fn of_mix(series: &Series<'_>, mix: &MixResult) -> TestOutcome {
    let failed = mix.errors.total() as f64;
    let share = failed / (failed + mix.requests as f64).max(1.0);
    if !mix.complete {
        TestOutcome::Failed(format!("{} was cut short", mix.name))
    } else if mix.requests == 0 {
        TestOutcome::Failed(format!("{} gave no valid answer", series.title))
    } else if share > ERRORS_MAX {
        TestOutcome::Failed(format!("{:.3} % of the requests failed", share * 100.0))
    } else {
        TestOutcome::Passed
    }
}

fn write_suite(text: &mut String, name: &str, timestamp: &str, tests: &[(String, f64, TestOutcome)]) {
    let count = |of: fn(&TestOutcome) -> bool| tests.iter().filter(|(_, _, outcome)| of(outcome)).count();
    let failures = count(|outcome| matches!(outcome, TestOutcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, TestOutcome::Skipped(_)));
    let time: f64 = tests.iter().map(|(_, time, _)| time).sum();
    let (name, timestamp) = (escaped(name), escaped(timestamp));
    let _ = writeln!(
        text,
        "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" \
         skipped=\"{skipped}\" time=\"{time:.3}\" timestamp=\"{timestamp}\">",
        tests.len()
    );
    for (test, time, outcome) in tests {
        let head =
            format!("    <testcase classname=\"{name}\" name=\"{}\" time=\"{time:.3}\"", escaped(test));
        let _ = match outcome {
            TestOutcome::Passed => writeln!(text, "{head}/>"),
            TestOutcome::Skipped(why) => {
                writeln!(text, "{head}>\n      <skipped message=\"{}\"/>\n    </testcase>", escaped(why))
            }
            TestOutcome::Failed(why) => {
                writeln!(text, "{head}>\n      <failure message=\"{}\"/>\n    </testcase>", escaped(why))
            }
        };
    }
    text.push_str("  </testsuite>\n");
}

/// Text for an attribute: characters with a meaning in XML are written as references, and characters that XML
/// does not allow are replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' | '\r' => escaped.push(' '),
            // XML 1.0, section 2.2.
            c if c < ' ' || c == '\u{fffe}' || c == '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rules_and_mixes_are_tests() {
        let mut result = touchstone_lab::sample::result();
        result.systems[0].title = "<a> & \"b\"\u{1}".into();
        result.systems[0].mixes[0].errors.timeout = 10_000;
        result.systems[1].mixes[1].complete = false;
        let text = junit(&result);
        assert!(
            text.contains(
                "<testsuite name=\"&lt;a&gt; &amp; &quot;b&quot;\u{fffd}\" tests=\"3\" failures=\"1\""
            ),
            "{text}"
        );
        assert!(text.contains(
            "name=\"4_clients\" time=\"7.000\">\n      <failure message=\"4_clients was cut short\"/>"
        ));
        assert!(
            text.contains("name=\"separate_hosts\" time=\"0.000\">\n      <skipped message=\"indicative: ")
        );
        assert!(text.contains("name=\"errors\" time=\"0.000\">\n      <failure message=\"invalid: "));
        assert!(!text.contains("raw_data"));
        assert_eq!(text.matches("<testsuite ").count(), text.matches("</testsuite>").count());
    }

    proptest! {
        #[test]
        fn nothing_that_is_told_can_end_an_attribute(text in "\\PC{0,30}[<>&\"\\x00-\\x1f]{0,5}") {
            let escaped = escaped(&text);
            prop_assert!(!escaped.contains(['<', '>', '"']) && escaped.chars().all(|c| c >= ' '));
        }
    }
}
