//! `touchstone verify`: checks a result: its signature, every figure from the raw data, the audit, the run
//! rules.

use super::print::{print, print_for_reading};
use crate::exit::Exit;
use serde_json::json;
use std::path::PathBuf;
use touchstone_lab_report::certify::{self, Signer, key, shown};
use touchstone_lab_report::run_rules::Class;

/// The arguments of `touchstone verify`.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  touchstone verify results/2026-11-20 --key lab.key.pub --require indicative")]
pub struct Arguments {
    /// The result directory
    #[arg(value_name = "RESULT")]
    result: PathBuf,

    /// The public key that the signature must belong to: minisign's file
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// End with exit code 3 unless the result is at least of this class
    #[arg(
        long,
        value_name = "CLASS",
        value_parser = ["certified", "indicative", "invalid"],
        default_value = "indicative"
    )]
    require: String,

    /// With --require certified, accept a signature with a key that is known only from the result
    #[arg(long)]
    any_signer: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Verifies, and prints the findings.
pub fn run(arguments: Arguments) -> Exit {
    let known = match arguments.key.as_deref().map(key::public).transpose() {
        Ok(known) => known,
        Err(message) => return refuse(&message),
    };
    let (result, verification) = match certify::verify(&arguments.result, known.as_ref()) {
        Ok(found) => found,
        Err(error) => return refuse(&error.to_string()),
    };
    let wanted = match arguments.require.as_str() {
        "certified" => Class::Certified,
        "indicative" => Class::Indicative,
        _ => Class::Invalid,
    };
    let lacks_signer = match (verification.signer, &known) {
        (Signer::None, Some(_)) => Some("it is not signed, so its origin is unknown"),
        (Signer::None, None) if wanted == Class::Certified => {
            Some("it is not signed, and a certified result must be")
        }
        (Signer::Unknown, None) if wanted == Class::Certified && !arguments.any_signer => Some(
            "the key that signed it is known only from the result, so anyone can have made it: name a \
             key that you trust with --key, or accept any with --any-signer",
        ),
        _ => None,
    };
    if arguments.json {
        let document = json!({
            "suite": result.suite.name,
            "started_at": result.started_at,
            "refused": verification.refused,
            "signer": verification.signer,
            "lacks": lacks_signer,
            "class": verification.class,
            "checks": verification.checks,
            "rules": verification.rules,
        });
        print(&format!("{document:#}"));
    } else {
        let verdict = match lacks_signer.filter(|_| !verification.refused) {
            Some(lack) => format!("REFUSED: {lack}"),
            None => verification.verdict(),
        };
        print_for_reading(&format!("{}\n\n{}\n{verdict}", shown(&result.suite.title), verification.text()));
    }
    if verification.refused || lacks_signer.is_some() {
        Exit::Failed
    } else if verification.class < wanted {
        Exit::ThresholdsNotMet
    } else {
        Exit::Done
    }
}

fn refuse(message: &str) -> Exit {
    eprintln!("touchstone verify: {}", shown(message));
    Exit::Usage
}
