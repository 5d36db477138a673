//! Each test checks one rule of the house on all sources. See `crates/tidy/src/rules.rs`.

use std::sync::LazyLock;

use touchstone_tidy::exceptions::check;
use touchstone_tidy::workspace::{self, Workspace};
use touchstone_tidy::{commits, patches, rules};

/// The tree, read once for all tests.
static WORKSPACE: LazyLock<Result<Workspace, String>> = LazyLock::new(workspace::read);

fn tree() -> &'static Workspace {
    match &*WORKSPACE {
        Ok(workspace) => workspace,
        Err(error) => panic!("{error}"),
    }
}

#[track_caller]
fn holds(result: Result<(), String>) {
    if let Err(said) = result {
        panic!("{said}");
    }
}

#[test]
fn crates_use_only_crates_below_them() {
    let advice = "Move what is shared down, or the crate up in `members` of the root Cargo.toml.";
    holds(check("crates", advice, &rules::crates_use_only_earlier_ones(tree())));
}

#[test]
fn modules_import_one_way() {
    let advice = "Move what both need below both. `cargo run -p touchstone-tidy -- CRATE` draws the imports.";
    holds(check("imports", advice, &rules::modules_import_one_way(tree())));
}

#[test]
fn modules_with_children_are_mod_rs() {
    holds(check("module-files", "Rename the file.", &rules::modules_with_children_are_mod_rs(tree())));
}

#[test]
fn allows_have_a_reason() {
    let advice = "Write `allow(LINT, reason = \"...\")`, or mend what the lint says.";
    holds(check("allows", advice, &rules::allows_have_a_reason(tree())));
}

#[test]
fn functions_are_short() {
    let advice = "Give a step of the function a name and a function of its own.";
    holds(check("functions", advice, &rules::functions_are_short(tree())));
}

#[test]
fn crates_are_small() {
    holds(check("crate-sizes", "Take a room out into a crate.", &rules::crates_are_small(tree())));
}

#[test]
fn lines_are_short() {
    holds(check("lines", "Break the lines.", &rules::lines_are_short(tree())));
}

#[test]
fn words_are_plain() {
    let advice = "Say it in plain words; crates/tidy/words.txt has the list.";
    holds(check("words", advice, &rules::words_are_plain(tree())));
}

#[test]
fn subjects_of_commits_are_short() {
    let advice = "Shorten the subject, for example with `git commit --amend`.";
    holds(check("commits", advice, &commits::long_subjects()));
}

#[test]
fn planted_faults_fit_the_sources() {
    let advice = "Fit the patch to the lines of today: the same fault in them.";
    holds(check("planted-faults", advice, &patches::planted_faults_fit(&tree().files)));
}
