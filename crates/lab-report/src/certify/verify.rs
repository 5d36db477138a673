//! Verifying a result directory: the seal, the figures from the raw data, the derived files, the audit, the
//! run rules.

use super::manifest::{self, FILE_BYTES_MAX, Listing};
use super::seal::{SealError, Signature, check_seal};
use crate::report;
use crate::run_rules::recompute::{self, Recomputation};
use crate::run_rules::{self, Class, Evidence, Outcome, Rule};
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use minisign::PublicKey;
use serde::Serialize;
use std::path::Path;
use touchstone_conformance::case;
use touchstone_conformance::record::{self, Conformance, Line};
use touchstone_lab::machine;
use touchstone_lab::output;
use touchstone_lab::raw::{self, RawError, RawMix};
use touchstone_lab::read_result::{self, ReadError};
use touchstone_lab::regular_file;
use touchstone_lab::result::{ResultFile, RunStatus};

/// The check that decides the class, and not whether the result is authentic.
pub const AUDIT: &str = "audit";
/// The check of the report beside the result.
pub const REPORT: &str = "report.html";

/// The signer of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Signer {
    /// It is not signed, or its signature does not hold.
    None,
    /// It is signed with a key that is known only from the directory.
    Unknown,
    /// It is signed with the key that was named.
    Known,
}

/// A check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name.
    pub what: &'static str,
    /// Whether it holds; absent: it could not be checked.
    pub holds: Option<bool>,
    /// The finding.
    pub finding: String,
}

/// The outcome of a verification.
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
    /// The signer of the result.
    pub signer: Signer,
}

/// Verifies a result directory; its signature with the reader's key, if one is given.
pub fn verify(directory: &Path, known: Option<&PublicKey>) -> Result<(ResultFile, Verification), ReadError> {
    let parent = directory.parent().filter(|_| directory.is_file());
    let directory = parent.unwrap_or(directory);
    let listing = manifest::list(directory);
    let listing = match listing {
        Ok(listing) => listing,
        Err(_) if !directory.exists() => return Err(ReadError::Missing(directory.to_owned())),
        Err(message) => return Err(ReadError::NoResult(directory.to_owned(), message)),
    };
    let sealed = check_seal(directory, known);
    let (result, _) = read_result::read(directory)?;
    let raw = raw::read(directory);
    let recomputed = raw.as_ref().ok().map(|raw| recompute::result(&result, raw));
    let audit = report::audit_outcomes(&result);
    let rules =
        run_rules::rules(&Evidence { result: &result, recomputed: recomputed.as_ref(), audit: &audit });
    let class = run_rules::class(&rules);
    let mut checks =
        vec![seal_check(&sealed), class_check(&sealed, class), raw_check(&raw, recomputed.as_ref())];
    checks.push(label_check(&raw));
    checks.push(contradiction_check(&raw));
    checks.push(log_check(directory, &raw));
    checks.extend(derived_checks(directory, &result));
    checks.push(configuration_check(directory, &result, &listing));
    checks.push(report_check(directory, &result, raw.as_deref().ok()));
    checks.extend(conformance_check(directory, &result));
    let failed = audit.iter().filter(|outcome| outcome.holds == Some(false)).count();
    checks.push(check(
        AUDIT,
        failed == 0,
        format!("{} of {} sums come out right", audit.len() - failed, audit.len()),
    ));
    // Sums that do not agree make a result invalid; they do not show that it was changed.
    let refused = checks.iter().any(|check| check.holds == Some(false) && check.what != AUDIT);
    let signer = match &sealed {
        Ok(signature) if signature.key_is_known => Signer::Known,
        Ok(_) => Signer::Unknown,
        Err(_) => Signer::None,
    };
    Ok((result, Verification { checks, rules, class, refused, signer }))
}

fn check(what: &'static str, holds: bool, finding: String) -> Check {
    Check { what, holds: Some(holds), finding }
}

/// The verdicts on the rules of HTTP must follow from the recorded answers; empty if the rules were not
/// tested.
fn conformance_check(directory: &Path, result: &ResultFile) -> Option<Check> {
    const WHAT: &str = "conformance";
    let stated = result.conformance.as_ref();
    let path = directory.join(record::FILE_NAME);
    let text = match regular_file::read_text(&path, FILE_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return stated.map(|_| check(WHAT, false, format!("{} is missing", record::FILE_NAME)));
        }
        Err(error) => return Some(check(WHAT, false, format!("{}: {error}", record::FILE_NAME))),
    };
    let Some(stated) = stated else {
        let finding = format!("there is a {} and no verdict in the result", record::FILE_NAME);
        return Some(check(WHAT, result.status != RunStatus::Complete, finding));
    };
    if stated.cases_sha256 != case::digest() {
        let finding = "the cases are those of another build: their verdicts are not checked".to_owned();
        return Some(Check { what: WHAT, holds: None, finding });
    }
    let lines: Result<Vec<Line>, _> = text.lines().map(serde_json::from_str).collect();
    let found = lines.map_err(|error| error.to_string()).and_then(|lines| {
        let cases = case::all().map_err(|error| error.to_string())?;
        Conformance::of(&cases, &lines)
    });
    Some(match found {
        Ok(found) if found == *stated => {
            let verdicts = found.cases.iter().flat_map(|case| &case.outcomes).flatten().count();
            check(WHAT, true, format!("{verdicts} verdicts found again, all the same"))
        }
        Ok(_) => check(WHAT, false, "the verdicts are not those that follow from what came back".to_owned()),
        Err(error) => check(WHAT, false, format!("{}: {error}", record::FILE_NAME)),
    })
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
                "nothing was changed since it was signed; but the key {} is known only from the directory \
                 itself: name one that you trust with --key",
                signature.key
            ),
        ),
        Err(SealError::None) => {
            Check { what: "signature", holds: None, finding: "it is not signed".to_owned() }
        }
        Err(broken) => check("signature", false, broken.to_string()),
    }
}

/// A statement must not claim a better class than is found.
fn class_check(sealed: &Result<Signature, SealError>, found: Class) -> Check {
    const WHAT: &str = "stated class";
    match sealed {
        Ok(signature) => check(
            WHAT,
            signature.stated <= found,
            format!("the statement says {}, the rules say {}", signature.stated.name(), found.name()),
        ),
        Err(_) => Check { what: WHAT, holds: None, finding: "no valid statement".to_owned() },
    }
}

fn raw_check(raw: &Result<Vec<RawMix>, RawError>, recomputed: Option<&Recomputation>) -> Check {
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

/// The settings of each mix are in the raw data as well, from its second version on.
fn label_check(raw: &Result<Vec<RawMix>, RawError>) -> Check {
    const WHAT: &str = "labels";
    let Ok(raw) = raw else {
        return Check {
            what: WHAT,
            holds: None,
            finding: "there is no raw data to compare them with".to_owned(),
        };
    };
    match raw.iter().filter(|mix| mix.labels.is_none()).count() {
        0 => check(WHAT, true, "interface, clients and times of every mix are compared".to_owned()),
        old => {
            let finding = format!(
                "of {old} of {} mixes the raw data is of version 1, which does not have interface, clients \
                 and times: that they were not swapped is not shown",
                raw.len()
            );
            Check { what: WHAT, holds: None, finding }
        }
    }
}

/// The configuration files in the result are those of its directory.
fn configuration_check(directory: &Path, result: &ResultFile, listing: &Listing) -> Check {
    const WHAT: &str = "configuration";
    let mut compared = 0;
    for system in &result.systems {
        for file in &system.configuration {
            let path = format!("systems/{}/{}", output::file_name(&system.name), file.name);
            // The output of a program, and companion programs, have no separate file.
            if !listing.files.iter().any(|(listed, _)| *listed == path) {
                continue;
            }
            compared += 1;
            match regular_file::read(&directory.join(&path), FILE_BYTES_MAX) {
                Ok(content) if content == file.text.as_bytes() => {}
                Ok(_) => return check(WHAT, false, format!("{path} is not what result.json says")),
                Err(error) => return check(WHAT, false, format!("{path}: {error}")),
            }
        }
    }
    match compared {
        0 => Check { what: WHAT, holds: None, finding: "there are no files of it".to_owned() },
        _ => check(WHAT, true, format!("{compared} files are as result.json says")),
    }
}

/// The report is the one that follows from the result. Another build may write another one.
fn report_check(directory: &Path, result: &ResultFile, raw: Option<&[RawMix]>) -> Check {
    let path = directory.join(report::FILE_NAME);
    if path.symlink_metadata().is_err() {
        return Check { what: REPORT, holds: None, finding: "there is none".to_owned() };
    }
    let text = match regular_file::read(&path, FILE_BYTES_MAX) {
        Ok(text) => text,
        Err(error) => return check(REPORT, false, error.to_string()),
    };
    if text == report::html(result, raw).as_bytes() {
        return check(REPORT, true, "as result.json says".to_owned());
    }
    let own = machine::tool().binary_sha256;
    if own.is_some() && own == result.tool.binary_sha256 {
        return check(REPORT, false, "it is not what result.json says".to_owned());
    }
    let finding = "it is not the one that this build makes of result.json, and another build measured: write \
                   it again with touchstone report";
    Check { what: REPORT, holds: None, finding: finding.to_owned() }
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
    let log = regular_file::read(&directory.join("latency.hlog"), FILE_BYTES_MAX);
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
    // The raw data leaves out the text of a histogram without values; the log does not.
    let is_empty =
        |text: &String| raw::RawHistogram(text.clone()).read().is_ok_and(|histogram| histogram.is_empty());
    let same = |text: &String, raw: &RawMix| match raw.latency.0.as_str() {
        "" => is_empty(text),
        kept => text == kept,
    };
    let holds = encoded.len() == raw.len() && encoded.iter().zip(raw).all(|(text, raw)| same(text, raw));
    check(WHAT, holds, format!("{} histograms, {} in the raw data", encoded.len(), raw.len()))
}

/// The tables in the directory are those that follow from the result.
fn derived_checks(directory: &Path, result: &ResultFile) -> Vec<Check> {
    let tables: [(&'static str, String); 2] =
        [("timeline.csv", output::timeline_csv(result)), ("clients.csv", output::clients_csv(result))];
    let of_table = |(name, expected): (&'static str, String)| match regular_file::read_text(
        &directory.join(name),
        FILE_BYTES_MAX,
    ) {
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
            text.push_str(&format!("  {word:<12} {}: {}\n", check.what, shown(&check.finding)));
        }
        text.push_str("\nRun rules\n");
        for rule in &self.rules {
            let word = match rule.outcome {
                Outcome::Held => "ok",
                Outcome::Indicative => "indicative",
                Outcome::Broken => "INVALID",
            };
            // The class has a separate line below the rules.
            text.push_str(&format!("  {word:<12} {}\n{:15}{}\n", rule.rule, "", shown(&rule.finding)));
        }
        text
    }

    /// The outcome in one sentence: what was checked, and who signed it.
    pub fn verdict(&self) -> String {
        let class = self.class.name();
        match (self.refused, self.signer) {
            (true, _) => "REFUSED: the result is not authentic".to_owned(),
            (false, Signer::Known) => format!("The result is authentic, and it is {class}"),
            (false, Signer::Unknown) => format!(
                "Nothing was changed since it was signed, and it is {class}; who signed it is unknown: name \
                 a key that you trust with --key"
            ),
            (false, Signer::None) => format!(
                "Nothing in the result contradicts the rest of it, and it is {class}; but it is not signed: \
                 nothing shows who made it, or that it was not made up as a whole"
            ),
        }
    }
}

/// Text of a result, written by another person, for a terminal: characters that would move the cursor, change
/// colours or turn the direction of writing are shown by their numbers.
pub fn shown(text: &str) -> String {
    let is_unseen = |c: char| {
        c.is_control()
            || matches!(
                c,
                '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
            )
    };
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unseen(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_rules::recompute::tests::{raw, result_of};
    use std::fs;
    use std::time::{Duration, SystemTime};
    use touchstone_lab::output::{LoggedHistogram, ResultDirectory};

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
            !signed.refused
                && signed.checks.iter().all(|check| {
                    check.holds == Some(true) || matches!(check.what, REPORT | "configuration")
                }),
            "{}",
            signed.text()
        );
        assert_eq!(signed.class, Class::Indicative);
        assert!(signed.text().contains("indicative   Load and server ran on separate machines."));
    }

    #[test]
    fn who_vouches_for_it_is_said() {
        let place = directory();
        let verified = |key| verify(place.path(), key).unwrap().1;
        assert_eq!(verified(None).signer, Signer::None);
        assert!(verified(None).verdict().contains("it is not signed"));
        let key = seal(place.path(), None);
        assert_eq!((verified(None).signer, verified(Some(&key)).signer), (Signer::Unknown, Signer::Known));
        assert!(verified(None).verdict().contains("who signed it is unknown"));
        assert!(verified(Some(&key)).verdict().starts_with("The result is authentic"));
    }

    #[test]
    fn pipes_links_and_empty_directories_are_refused() {
        let place = directory();
        let key = seal(place.path(), None);
        fs::create_dir(place.path().join("more")).unwrap();
        let (_, found) = verify(place.path(), Some(&key)).unwrap();
        assert!(found.refused && found.checks[0].finding.contains("more is an empty directory"));
        fs::remove_dir(place.path().join("more")).unwrap();
        let pipe = place.path().join("more");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let refused = || verify(place.path(), Some(&key)).unwrap_err().to_string();
        assert!(refused().contains("more is a link or a special file"));
        fs::remove_file(&pipe).unwrap();
        fs::rename(place.path().join("raw.jsonl"), place.path().join("raw")).unwrap();
        std::os::unix::fs::symlink("raw", place.path().join("raw.jsonl")).unwrap();
        assert!(refused().contains("raw.jsonl is a link"));
        let empty = tempfile::tempdir().unwrap();
        assert!(verify(empty.path(), None).unwrap_err().to_string().contains("there is no result"));
    }

    #[test]
    fn a_configuration_file_or_a_report_that_says_something_else_is_found() {
        let place = directory();
        let (result, _) = read_result::read(place.path()).unwrap();
        let system = &result.systems[0];
        let file = &system.configuration[0];
        let path = place.path().join("systems").join(output::file_name(&system.name)).join(&file.name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &file.text).unwrap();
        report::write_html(&result, place.path()).unwrap();
        let holds = |what: &str| {
            let (_, found) = verify(place.path(), None).unwrap();
            found.checks.iter().find(|check| check.what == what).unwrap().holds
        };
        assert_eq!((holds("configuration"), holds(REPORT)), (Some(true), Some(true)));
        fs::write(&path, "other").unwrap();
        fs::write(place.path().join(report::FILE_NAME), "other").unwrap();
        assert_eq!((holds("configuration"), holds(REPORT)), (Some(false), None));
    }

    #[test]
    fn what_would_move_the_cursor_is_shown_by_its_number() {
        assert_eq!(shown("a\u{1b}[2J\r\u{202e}é"), "a\\u{1b}[2J\\u{d}\\u{202e}é");
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
