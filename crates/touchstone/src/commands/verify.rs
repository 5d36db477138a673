//! `touchstone verify`: checks a result: its signature, every figure from the raw data, the audit, the run rules.

use super::print::{print, print_for_reading};
use crate::exit::Exit;
use serde_json::json;
use std::path::PathBuf;
use touchstone_lab::certify::{self, Class, key};

/// The arguments of `touchstone verify`.
#[derive(clap::Args)]
#[command(after_help = "\
  touchstone verify results/2026-11-20 --key lab.key.pub --require indicative")]
pub struct Arguments {
    /// The result directory
    #[arg(value_name = "RESULT")]
    result: PathBuf,

    /// The public key that the signature must be of: minisign's file
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// End with exit code 3 unless the result is at least of this class
    #[arg(long, value_name = "CLASS", value_parser = ["certified", "indicative", "invalid"], default_value = "indicative")]
    require: String,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Verifies, and says what was found.
pub fn run(arguments: Arguments) -> Exit {
    let known = match arguments.key.as_deref().map(key::public).transpose() {
        Ok(known) => known,
        Err(message) => return refuse(&message),
    };
    let (result, verification) = match certify::verify(&arguments.result, known.as_ref()) {
        Ok(found) => found,
        Err(error) => return refuse(&error.to_string()),
    };
    let unsigned = known.is_some()
        && verification.checks.iter().any(|check| check.what == "signature" && check.holds.is_none());
    if arguments.json {
        let document = json!({
            "suite": result.suite.name,
            "started_at": result.started_at,
            "refused": verification.refused,
            "class": verification.class,
            "checks": verification.checks,
            "rules": verification.rules,
        });
        print(&format!("{document:#}"));
    } else {
        let verdict = match verification.refused {
            false if unsigned => "REFUSED: it is not signed, so that nothing shows whose it is".to_owned(),
            true => "REFUSED: the result is not what it says it is".to_owned(),
            false => format!("The result is what it says it is, and it is {}", verification.class.name()),
        };
        print_for_reading(&format!("{}\n\n{}\n{verdict}", result.suite.title, verification.text()));
    }
    let wanted = match arguments.require.as_str() {
        "certified" => Class::Certified,
        "indicative" => Class::Indicative,
        _ => Class::Invalid,
    };
    if verification.refused || unsigned {
        Exit::Failed
    } else if verification.class < wanted {
        Exit::ThresholdsNotMet
    } else {
        Exit::Done
    }
}

fn refuse(message: &str) -> Exit {
    eprintln!("touchstone verify: {message}");
    Exit::Usage
}
