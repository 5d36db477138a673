//! Verifying a result directory: the seal, the figures from the raw data, the derived files, the audit, the run rules.

use super::recompute::{self, Recomputed};
use super::rules::{self, Class, Evidence, Outcome, Rule};
use super::seal::{SealError, Signature, check_seal};
use crate::output;
use crate::raw::{self, RawError, RawMix};
use crate::report::{self, ReadError};
use crate::result::ResultFile;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use minisign::PublicKey;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// The check that decides over the class, and not over whether the result is what it says it is.
pub const AUDIT: &str = "audit";

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What.
    pub what: &'static str,
    /// Whether it holds; absent: it could not be checked.
    pub holds: Option<bool>,
    /// What was found.
    pub finding: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Each check.
    pub checks: Vec<Check>,
    /// Each run rule.
    pub rules: Vec<Rule>,
    /// The class that follows from the rules.
    pub class: Class,
    /// Whether the result was refused: a check does not hold.
    pub refused: bool,
}

/// Verifies a result directory, its signature with a key that the reader knows, where one is given.
pub fn verify(directory: &Path, known: Option<&PublicKey>) -> Result<(ResultFile, Verification), ReadError> {
    let sealed = check_seal(directory, known);
    let (result, _) = report::read(directory)?;
    let raw = raw::read(directory);
    let recomputed = raw.as_ref().ok().map(|raw| recompute::result(&result, raw));
    let audit = report::audit_outcomes(&result);
    let rules = rules::rules(&Evidence { result: &result, recomputed: recomputed.as_ref(), audit: &audit });
    let class = rules::class(&rules);
    let mut checks =
        vec![seal_check(&sealed), class_check(&sealed, class), raw_check(&raw, recomputed.as_ref())];
    checks.push(contradiction_check(&raw));
    checks.push(log_check(directory, &raw));
    checks.extend(derived_checks(directory, &result));
    let failed = audit.iter().filter(|outcome| outcome.holds == Some(false)).count();
    checks.push(check(
        AUDIT,
        failed == 0,
        format!("{} of {} sums come out right", audit.len() - failed, audit.len()),
    ));
    // Sums that do not come out make a result invalid; they do not show that anybody changed it.
    let refused = checks.iter().any(|check| check.holds == Some(false) && check.what != AUDIT);
    Ok((result, Verification { checks, rules, class, refused }))
}

fn check(what: &'static str, holds: bool, finding: String) -> Check {
    Check { what, holds: Some(holds), finding }
}

fn seal_check(sealed: &Result<Signature, SealError>) -> Check {
    match sealed {
        Ok(signature) if signature.key_is_known => check(
            "signature",
            true,
            format!("signed with the key {}; nothing was changed since", signature.key),
        ),
        Ok(signature) => check(
            "signature",
            true,
            format!(
                "nothing was changed since it was signed; but the key {} is known only from the directory itself: name \
                 one that you trust with --key",
                signature.key
            ),
        ),
        Err(SealError::None) => {
            Check { what: "signature", holds: None, finding: "it is not signed".to_owned() }
        }
        Err(broken) => check("signature", false, broken.to_string()),
    }
}

/// A statement must not promise more than is found.
fn class_check(sealed: &Result<Signature, SealError>, found: Class) -> Check {
    const WHAT: &str = "stated class";
    match sealed {
        Ok(signature) => check(
            WHAT,
            signature.stated <= found,
            format!("the statement says {}, the rules say {}", signature.stated.name(), found.name()),
        ),
        Err(_) => Check { what: WHAT, holds: None, finding: "there is no statement that holds".to_owned() },
    }
}

fn raw_check(raw: &Result<Vec<RawMix>, RawError>, recomputed: Option<&Recomputed>) -> Check {
    const WHAT: &str = "figures from raw data";
    match (raw, recomputed) {
        (Ok(_), Some(found)) if found.differences.is_empty() => {
            check(WHAT, true, format!("{} figures computed again, all the same", found.figures))
        }
        (Ok(_), Some(found)) => check(WHAT, false, found.differences.join("; ")),
        (Err(RawError::Missing(_)), _) => {
            Check { what: WHAT, holds: None, finding: "there is no raw data".to_owned() }
        }
        (Err(error), _) => check(WHAT, false, error.to_string()),
        (Ok(_), None) => Check { what: WHAT, holds: None, finding: "nothing to compute".to_owned() },
    }
}

fn contradiction_check(raw: &Result<Vec<RawMix>, RawError>) -> Check {
    const WHAT: &str = "raw data by itself";
    let Ok(raw) = raw else { return Check { what: WHAT, holds: None, finding: "there is none".to_owned() } };
    let found = recompute::contradictions(raw);
    let finding =
        if found.is_empty() { "its counts agree with each other".to_owned() } else { found.join("; ") };
    check(WHAT, found.is_empty(), finding)
}

/// `latency.hlog` holds the same histograms as the raw data.
fn log_check(directory: &Path, raw: &Result<Vec<RawMix>, RawError>) -> Check {
    const WHAT: &str = "latency.hlog";
    let log = fs::read(directory.join("latency.hlog"));
    let (Ok(raw), Ok(log)) = (raw, log) else {
        return Check { what: WHAT, holds: None, finding: "there is none, or no raw data".to_owned() };
    };
    let mut encoded = Vec::new();
    for entry in IntervalLogIterator::new(&log) {
        match entry {
            Ok(LogEntry::Interval(interval)) => encoded.push(interval.encoded_histogram().to_owned()),
            Ok(_) => {}
            Err(error) => return check(WHAT, false, format!("it is damaged: {error:?}")),
        }
    }
    // The raw data leaves the text of a histogram without values out, the log does not.
    let is_empty =
        |text: &String| raw::RawHistogram(text.clone()).read().is_ok_and(|histogram| histogram.is_empty());
    let same = |text: &String, raw: &RawMix| match raw.latency.0.as_str() {
        "" => is_empty(text),
        kept => text == kept,
    };
    let holds = encoded.len() == raw.len() && encoded.iter().zip(raw).all(|(text, raw)| same(text, raw));
    check(WHAT, holds, format!("{} histograms, {} in the raw data", encoded.len(), raw.len()))
}

/// The tables beside the result are the ones that follow from it.
fn derived_checks(directory: &Path, result: &ResultFile) -> Vec<Check> {
    let tables: [(&'static str, String); 2] =
        [("timeline.csv", output::timeline_csv(result)), ("clients.csv", output::clients_csv(result))];
    let of_table = |(name, expected): (&'static str, String)| match fs::read_to_string(directory.join(name)) {
        Ok(text) => {
            let finding =
                if text == expected { "as result.json says" } else { "it is not what result.json says" };
            check(name, text == expected, finding.to_owned())
        }
        Err(error) => Check { what: name, holds: None, finding: error.to_string() },
    };
    tables.into_iter().map(of_table).collect()
}

impl Verification {
    /// What was found, as text for a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for check in &self.checks {
            let word = match check.holds {
                Some(true) => "ok",
                Some(false) if check.what == AUDIT => "INVALID",
                Some(false) => "REFUSED",
                None => "not checked",
            };
            text.push_str(&format!("  {word:<12} {}: {}\n", check.what, check.finding));
        }
        text.push_str("\nRun rules\n");
        for rule in &self.rules {
            let word = match rule.outcome {
                Outcome::Held => "ok",
                Outcome::Indicative => "indicative",
                Outcome::Broken => "INVALID",
            };
            // What was found has a line of its own below the rule.
            text.push_str(&format!("  {word:<12} {}\n{:15}{}\n", rule.rule, "", rule.finding));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::recompute::tests::{raw, result_of};
    use super::*;
    use crate::output::{LoggedHistogram, ResultDirectory};
    use std::time::{Duration, SystemTime};

    /// A result directory as a run leaves it.
    fn directory() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let output = ResultDirectory::create(place.path()).unwrap();
        let raw = raw();
        output.append_raw(&raw).unwrap();
        let logged = LoggedHistogram {
            tag: "nginx/2_clients".into(),
            window_start: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            window: Duration::from_secs(5),
            latency_ns: raw.latency.read().unwrap(),
        };
        output.write(&result_of(&raw), &[logged]).unwrap();
        place
    }

    fn seal(place: &Path, class: Option<Class>) -> PublicKey {
        let (result, verification) = verify(place, None).unwrap();
        let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
        let class = class.unwrap_or(verification.class);
        super::super::seal(place, &result, class, &verification.rules, &pair.sk).unwrap();
        pair.pk
    }

    #[test]
    fn a_result_is_verified_signed_and_verified_again() {
        let place = directory();
        let (_, unsigned) = verify(place.path(), None).unwrap();
        assert!(!unsigned.refused, "{}", unsigned.text());
        assert_eq!(unsigned.checks[0].holds, None);
        let key = seal(place.path(), None);
        let (_, signed) = verify(place.path(), Some(&key)).unwrap();
        assert!(
            !signed.refused && signed.checks.iter().all(|check| check.holds == Some(true)),
            "{}",
            signed.text()
        );
        assert_eq!(signed.class, Class::Indicative);
        assert!(signed.text().contains("indicative   Load and server ran on separate machines."));
    }

    #[test]
    fn a_statement_that_promises_too_much_is_refused() {
        let place = directory();
        let key = seal(place.path(), Some(Class::Certified));
        let (_, found) = verify(place.path(), Some(&key)).unwrap();
        assert!(found.refused && found.checks[1].holds == Some(false), "{}", found.text());
    }

    #[test]
    fn each_file_that_is_changed_without_a_signature_is_found_by_another_check() {
        let cases = [
            ("result.json", "\"requests\": 5000", "\"requests\": 5001", "figures from raw data"),
            ("raw.jsonl", "\"requests\":5000", "\"requests\":5001", "raw data by itself"),
            ("timeline.csv", "1000.0", "2000.0", "timeline.csv"),
            ("clients.csv", "2500", "2600", "clients.csv"),
            ("latency.hlog", "HISTFAAA", "HISTFAAB", "latency.hlog"),
        ];
        for (file, from, to, by) in cases {
            let place = directory();
            let path = place.path().join(file);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{file}");
            fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let (_, found) = verify(place.path(), None).unwrap();
            let failed: Vec<&str> = found
                .checks
                .iter()
                .filter(|check| check.holds == Some(false))
                .map(|check| check.what)
                .collect();
            assert!(found.refused && failed.contains(&by), "{file}: {failed:?}");
        }
    }
}
