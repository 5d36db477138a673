//! `touchstone certify`: signs a result, with its class by the run rules.

use super::print::print;
use crate::exit::Exit;
use std::path::PathBuf;
use touchstone_lab_report::certify::{self, key};
use touchstone_lab_report::report;
use touchstone_lab_report::run_rules;

/// The environment variable with the password of a key. It is not an argument, because every user of the
/// machine could see that.
const PASSWORD_VARIABLE: &str = "TOUCHSTONE_KEY_PASSWORD";

/// The arguments of `touchstone certify`.
#[derive(clap::Args)]
#[command(after_help = "\
A key that has a password needs it in TOUCHSTONE_KEY_PASSWORD. Keys and signatures are those of minisign.

  touchstone certify --generate-key lab.key
  touchstone certify results/2026-11-20 --key lab.key")]
pub struct Arguments {
    /// The result directory
    #[arg(value_name = "RESULT", required_unless_present = "generate_key")]
    result: Option<PathBuf>,

    /// The secret key to sign with
    #[arg(long, value_name = "FILE", required_unless_present = "generate_key")]
    key: Option<PathBuf>,

    /// Make a pair of keys: the secret key in this file, without a password, the public key in FILE.pub
    #[arg(long, value_name = "FILE", conflicts_with_all = ["result", "key"])]
    generate_key: Option<PathBuf>,
}

/// Signs, or makes keys.
pub fn run(arguments: Arguments) -> Exit {
    let outcome = match (&arguments.generate_key, &arguments.result, &arguments.key) {
        (Some(path), _, _) => generate(path),
        (None, Some(result), Some(key)) => sign(result, key),
        (None, _, _) => Err((Exit::Usage, "name a result and a key".to_owned())),
    };
    match outcome {
        Ok(()) => Exit::Done,
        Err((exit, message)) => {
            eprintln!("touchstone certify: {message}");
            exit
        }
    }
}

fn generate(path: &std::path::Path) -> Result<(), (Exit, String)> {
    let public = key::generate(path).map_err(|message| (Exit::Usage, message))?;
    print(&format!("secret key: {} (keep it to yourself)\npublic key: {}", path.display(), public.display()));
    Ok(())
}

fn sign(directory: &std::path::Path, key: &std::path::Path) -> Result<(), (Exit, String)> {
    let usage = |message: String| (Exit::Usage, message);
    let password = std::env::var(PASSWORD_VARIABLE).ok();
    let secret = key::secret(key, password.as_deref()).map_err(usage)?;
    let (result, verification) =
        certify::verify(directory, None).map_err(|error| usage(error.to_string()))?;
    let has_report = directory.join(report::FILE_NAME).exists();
    // An older seal that no longer fits is not a fault: it is replaced.
    let faults: Vec<String> = verification
        .checks
        .iter()
        .filter(|check| {
            let is_foreign_report = check.what == certify::REPORT && check.holds.is_none() && has_report;
            (check.holds == Some(false) || is_foreign_report)
                && !matches!(check.what, "signature" | "stated class" | certify::AUDIT)
        })
        .map(|check| format!("{}: {}", check.what, certify::shown(&check.finding)))
        .collect();
    if !faults.is_empty() {
        return Err((
            Exit::Failed,
            format!("the result is not signed, as it does not hold: {}", faults.join("; ")),
        ));
    }
    let sealed =
        certify::seal(directory, &result, verification.class, &verification.rules, &secret).map_err(usage)?;
    let reasons: Vec<String> =
        run_rules::deciding(&verification.rules).map(|rule| format!("\n  {}", rule.finding)).collect();
    let because = if reasons.is_empty() { String::new() } else { format!(":{}", reasons.concat()) };
    print(&format!(
        "signed {} files with the key {}; the result is {}{because}",
        sealed.files,
        sealed.key,
        sealed.class.name()
    ));
    Ok(())
}
