//! The statically linked program in a root without anything else, if it has been built (`make static`).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::skipped;

/// What `make static` has built: named by `TOUCHSTONE_STATIC`, or beside the program of the tests.
fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TOUCHSTONE_STATIC") {
        return Some(PathBuf::from(named));
    }
    let target = Path::new(env!("CARGO_BIN_EXE_touchstone")).parent()?.parent()?;
    let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let built =
        ["release", "fast", "debug"].map(|profile| target.join(&triple).join(profile).join("touchstone"));
    built.into_iter().find(|program| program.exists())
}

#[test]
fn the_static_program_needs_nothing_beside_it() {
    let Some(program) = program() else {
        // It is not a tool that a setup installs: `make static` builds it, and tries it in the same way.
        if std::env::var_os("CI").is_none() {
            skipped("the static program in an empty root (make static)");
        }
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/static.sh");
    let output = Command::new(script).arg("--check").arg(&program).output().expect("the script runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(3) {
        return skipped("the static program in an empty root (run as root)");
    }
    assert!(output.status.success(), "{said}");
}
