//! `touchstone certify` and `touchstone verify`, on a result that is measured here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{run, skipped};

/// A result of two mixes of less than two seconds.
fn measured(place: &Path) -> PathBuf {
    let result = place.join("result");
    let output = run([
        "bench",
        "webbench-1.1-static",
        "--quick",
        "--sut",
        "touchstone",
        "--clients",
        "1,2",
        "--length",
        "1500ms",
        "--ramp-up",
        "200ms",
        "--ramp-down",
        "200ms",
        "--output",
        result.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    result
}

fn verify(result: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_touchstone")).arg("verify").arg(result).args(more).output().unwrap()
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// A generator of places to damage: the same in every run.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
fn a_measured_result_is_signed_verified_and_refused_when_any_file_is_changed() {
    let place = tempfile::tempdir().unwrap();
    let result = measured(place.path());
    // On a busy machine the sums of so short a run may not come out: then it is invalid, and still what it says it is.
    let unsigned = verify(&result, &["--json", "--require", "invalid"]);
    assert_eq!(unsigned.status.code(), Some(0), "{}", String::from_utf8_lossy(&unsigned.stdout));
    let found: serde_json::Value = serde_json::from_slice(&unsigned.stdout).unwrap();
    assert_eq!(found["refused"], false);
    assert_ne!(found["class"], "certified", "load and server shared one machine");
    // Whoever names a key asks whose the result is.
    let other = place.path().join("other.key");
    assert_eq!(run(["certify", "--generate-key", other.to_str().unwrap()]).status.code(), Some(0));
    let unsigned = verify(&result, &["--key", &format!("{}.pub", other.display()), "--require", "invalid"]);
    assert_eq!(unsigned.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unsigned.stdout).contains("REFUSED: it is not signed"));
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let nobodys = verify(&result, &["--require", "invalid"]);
    assert!(
        said(&nobodys).contains("but it is not signed") && !said(&nobodys).contains("is what it says it is")
    );
    assert_eq!(verify(&result, &["--require", "certified"]).status.code(), Some(1));

    let key = place.path().join("lab.key");
    let public = place.path().join("lab.key.pub");
    let (key_text, public_text) = (key.to_str().unwrap(), public.to_str().unwrap());
    assert_eq!(run(["certify", "--generate-key", key_text]).status.code(), Some(0));
    let signed = run(["certify", result.to_str().unwrap(), "--key", key_text]);
    assert_eq!(signed.status.code(), Some(0), "{}", String::from_utf8_lossy(&signed.stderr));
    assert_eq!(verify(&result, &["--key", public_text, "--require", "invalid"]).status.code(), Some(0));
    assert_eq!(verify(&result, &["--key", public_text, "--require", "certified"]).status.code(), Some(3));
    let unknown = verify(&result, &["--require", "certified"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(said(&unknown).contains("REFUSED: the key that signed it is known from the result alone"));
    assert_eq!(verify(&result, &["--require", "certified", "--any-signer"]).status.code(), Some(3));
    // A report that says something else is not signed.
    let report = result.join("report.html");
    let text = fs::read(&report).unwrap();
    fs::write(&report, "<h1>1,000,000 requests a second</h1>").unwrap();
    let refused = run(["certify", result.to_str().unwrap(), "--key", key_text]);
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("report.html: it is not what result.json says")
    );
    fs::write(&report, text).unwrap();

    let (mut all, mut state) = (Vec::new(), 1);
    files(&result, &mut all);
    assert!(all.iter().any(|path| path.ends_with("raw.jsonl")), "{all:?}");
    for path in all.iter().filter(|path| fs::metadata(path).unwrap().len() > 0) {
        let whole = fs::read(path).unwrap();
        for _ in 0..2 {
            let mut damaged = whole.clone();
            let at = next(&mut state) % whole.len();
            damaged[at] ^= (next(&mut state) % 255 + 1) as u8;
            fs::write(path, &damaged).unwrap();
            let found = verify(&result, &["--key", public_text, "--require", "invalid"]).status.code();
            // Where result.json can no longer be read at all it is refused with another word.
            assert!(matches!(found, Some(1 | 2)), "{} at {at}: {found:?}", path.display());
        }
        fs::write(path, &whole).unwrap();
    }
    assert_eq!(verify(&result, &["--key", public_text, "--require", "invalid"]).status.code(), Some(0));
}

#[test]
fn minisign_reads_our_signatures_and_we_read_its_keys() {
    if Command::new("minisign").arg("-v").output().is_err() {
        return skipped("signatures against minisign (install minisign)");
    }
    let place = tempfile::tempdir().unwrap();
    let result = measured(place.path());
    let (key, public) = (place.path().join("its.key"), place.path().join("its.pub"));
    let made =
        Command::new("minisign").args(["-G", "-W", "-s"]).arg(&key).arg("-p").arg(&public).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let signed = run(["certify", result.to_str().unwrap(), "--key", key.to_str().unwrap()]);
    assert_eq!(signed.status.code(), Some(0), "{}", String::from_utf8_lossy(&signed.stderr));
    assert_eq!(
        verify(&result, &["--key", public.to_str().unwrap(), "--require", "invalid"]).status.code(),
        Some(0)
    );
    let statement = result.join("statement.json");
    let checked =
        Command::new("minisign").arg("-Vp").arg(&public).arg("-m").arg(&statement).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn what_cannot_be_verified_is_named() {
    let place = tempfile::tempdir().unwrap();
    let missing = verify(&place.path().join("none"), &[]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("there is no result at"));
    let no_key = verify(place.path(), &["--key", "/nonexistent"]);
    assert_eq!(no_key.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&no_key.stderr).contains("cannot read /nonexistent"));
    assert_eq!(run(["certify", "x"]).status.code(), Some(2));
}
