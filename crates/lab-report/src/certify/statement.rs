//! The statement that is signed: in-toto's Statement v1 with a test result, whose subject is the manifest.

use crate::run_rules::{Class, Outcome, Rule};
use serde_json::{Value, json};
use touchstone_lab::machine::sha256;
use touchstone_lab::result::ResultFile;

/// in-toto's types.
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// The statement's text.
pub(super) fn text(manifest_text: &str, result: &ResultFile, class: Class, rules: &[Rule]) -> String {
    let names = |outcome: Outcome| -> Vec<&str> {
        rules.iter().filter(|rule| rule.outcome == outcome).map(|rule| rule.name).collect()
    };
    let digest = |hash: &str| json!({ "sha256": hash });
    let mut configuration = vec![json!({ "name": format!("suite {}", result.suite.name) })];
    if let Some(hash) = &result.tool.binary_sha256 {
        configuration
            .push(json!({ "name": format!("touchstone {}", result.tool.version), "digest": digest(hash) }));
    }
    for system in &result.systems {
        for file in &system.configuration {
            let name = format!("{}: {}", system.title, file.name);
            configuration.push(json!({ "name": name, "digest": digest(&sha256(file.text.as_bytes())) }));
        }
    }
    let statement = json!({
        "_type": STATEMENT,
        "subject": [{
            "name": super::manifest::FILE_NAME,
            "digest": digest(&sha256(manifest_text.as_bytes())),
        }],
        "predicateType": TEST_RESULT,
        "predicate": {
            "result": word(class),
            "configuration": configuration,
            "passedTests": names(Outcome::Held),
            "warnedTests": names(Outcome::Indicative),
            "failedTests": names(Outcome::Broken),
        },
    });
    format!("{statement:#}\n")
}

/// in-toto's word for a class.
fn word(class: Class) -> &'static str {
    match class {
        Class::Certified => "PASSED",
        Class::Indicative => "WARNED",
        Class::Invalid => "FAILED",
    }
}

/// The content of a statement: the manifest's hash, and the class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatementContent {
    pub(super) manifest_sha256: String,
    pub(super) class: Class,
}

/// Reads a statement; the text of an error states what is wrong with it.
pub(super) fn read(text: &str) -> Result<StatementContent, String> {
    let statement: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    if statement["_type"] != STATEMENT || statement["predicateType"] != TEST_RESULT {
        return Err("it is not an in-toto statement of a test result".to_owned());
    }
    let subjects = statement["subject"].as_array().ok_or("it has no subject")?;
    let manifest = subjects.iter().find(|subject| subject["name"] == super::manifest::FILE_NAME);
    let hash =
        manifest.and_then(|subject| subject["digest"]["sha256"].as_str()).ok_or("its subject has no hash")?;
    let class = [Class::Certified, Class::Indicative, Class::Invalid]
        .into_iter()
        .find(|class| statement["predicate"]["result"] == word(*class))
        .ok_or("its result is none of PASSED, WARNED and FAILED")?;
    Ok(StatementContent { manifest_sha256: hash.to_owned(), class })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_stated_can_be_read_again() {
        let rules = [Rule { name: "complete", rule: "", outcome: Outcome::Held, finding: String::new() }];
        let text = text("{}\n", &touchstone_lab::sample::result(), Class::Indicative, &rules);
        let stated = read(&text).unwrap();
        assert_eq!((stated.class, stated.manifest_sha256), (Class::Indicative, sha256(b"{}\n")));
        let statement: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(statement["predicate"]["passedTests"], json!(["complete"]));
        assert_eq!(statement["predicate"]["configuration"][2]["name"], "touchstone 0.1.0: touchstone.conf");
        assert!(read(&text.replace("WARNED", "GREAT")).unwrap_err().contains("none of"));
        assert!(read("{}").is_err() && read("").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = read(&text);
        }
    }
}
