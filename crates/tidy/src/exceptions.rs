//! What broke a rule when the rule was made: `exceptions/RULE.txt`, one subject a line. The lists may only
//! shrink.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// Something that breaks a rule.
pub struct Fault {
    /// What an entry of the list of exceptions would say: a path, or a path and a name.
    pub subject: String,
    /// Where it is and what is wrong.
    pub text: String,
}

/// Compares what breaks a rule with the exceptions from it. With `BLESS=1` in the environment, entries that
/// are no longer needed are removed from the list.
pub fn check(rule: &str, advice: &str, faults: &[Fault]) -> Result<(), String> {
    let path = path(rule);
    let list = std::fs::read_to_string(&path).unwrap_or_default();
    let entries = |line: &str| !line.is_empty() && !line.starts_with('#');
    let excepted: BTreeSet<&str> = list.lines().filter(|line| entries(line)).collect();
    let found: BTreeSet<&str> = faults.iter().map(|fault| fault.subject.as_str()).collect();
    let mut text = String::new();
    for fault in faults.iter().filter(|fault| !excepted.contains(fault.subject.as_str())) {
        text += &format!("{}\n", fault.text);
    }
    if !text.is_empty() {
        text += &format!("\n{advice}\n");
    }
    let needless: Vec<&str> = excepted.difference(&found).copied().collect();
    if !needless.is_empty() && std::env::var_os("BLESS").is_some() {
        let kept: Vec<&str> = list.lines().filter(|line| !needless.contains(line)).collect();
        std::fs::write(&path, kept.join("\n") + "\n")
            .map_err(|error| format!("{}: {error}", path.display()))?;
    } else if !needless.is_empty() {
        text +=
            &format!("\nno longer needed in crates/tidy/exceptions/{rule}.txt:\n{}\n", needless.join("\n"));
        text += "BLESS=1 cargo test -p touchstone-tidy removes these entries\n";
    }
    if text.is_empty() { Ok(()) } else { Err(format!("rule `{rule}`\n{text}")) }
}

fn path(rule: &str) -> PathBuf {
    crate::tree::top().join(format!("crates/tidy/exceptions/{rule}.txt"))
}
