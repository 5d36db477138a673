//! What is packaged fits the program: units that systemd understands, command lines that exist, a
//! configuration that passes `check`, symbols that are found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{error_lines, run, skipped};

fn packaging(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn configurations_pass_check_below_another_root() {
    for name in ["touchstone.toml", "container.toml"] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut text = packaging(name);
        for below in ["run/touchstone", "var/log/touchstone", "usr/share/touchstone/www", "srv/www"] {
            let path = directory.path().join(below);
            fs::create_dir_all(&path).expect("a directory");
            text = text.replace(&format!("\"/{below}"), &format!("\"{}", path.display()));
        }
        let path = directory.path().join("touchstone.toml");
        fs::write(&path, text).expect("the configuration is written");
        let output = run(["check", "--config", path.to_str().expect("the path is text")]);
        assert!(output.status.success(), "{name}: {:?}", error_lines(&output));
    }
}

#[test]
fn every_spice_program_is_packaged_where_the_laboratory_looks() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).expect("the manifest is there");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/nsapi");
    let mut programs = vec!["cgi-bin/spice".to_owned(), "fastcgi/spice".to_owned()];
    for entry in fs::read_dir(sources).expect("the sources are there") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "c") {
            let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
            programs.push(format!("nsapi/{stem}.so"));
        }
    }
    assert_eq!(programs.len(), 6, "{programs:?}");
    for program in programs {
        let (directory, _) = program.split_once('/').expect("a directory");
        let asset =
            format!("[\"target/release/programs/{program}\", \"usr/lib/touchstone/programs/{directory}/\"");
        assert!(manifest.contains(&asset), "{asset} is not in the manifest");
    }
}

#[test]
fn command_lines_exist() {
    let files = ["touchstone.service", "touchstone.logrotate", "debian/postinst", "Containerfile"];
    let mut seen = 0;
    for name in files {
        for line in packaging(name).lines() {
            let Some(words) = command_line(line) else { continue };
            seen += 1;
            let command = words.first().unwrap_or_else(|| panic!("{name}: {line}"));
            let help = run([command.as_str(), "--help"]);
            assert!(help.status.success(), "{name}: no command {command}");
            let help = String::from_utf8_lossy(&help.stdout).into_owned();
            for option in words.iter().filter(|word| word.starts_with("--")) {
                assert!(
                    help.contains(&format!("{option}\n")) || help.contains(&format!("{option} ")),
                    "{name}: {option}"
                );
            }
        }
    }
    assert!(seen >= 5, "only {seen} command lines were found");
}

/// The words behind `touchstone` of a line that calls it.
fn command_line(line: &str) -> Option<Vec<String>> {
    let calls = [
        "ExecStart=/usr/bin/touchstone ",
        "ExecReload=/usr/bin/touchstone ",
        "/usr/bin/touchstone reload",
        "touchstone upgrade",
        "/usr/bin/touchstone\", \"",
        "CMD [\"",
    ];
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let call = calls.iter().find(|call| line.contains(*call))?;
    let from = line.find(call)?;
    let rest = line[from..].replace(['"', ',', '[', ']'], " ");
    let words =
        rest.split_whitespace().skip_while(|word| !word.contains("touchstone") && *word != "CMD").skip(1);
    let words = words.skip_while(|word| word.contains('/'));
    Some(words.take_while(|word| !["||", "&&", ">/dev/null"].contains(word)).map(str::to_owned).collect())
}

#[test]
fn the_container_image_leaves_nothing_out_that_it_copies() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for line in packaging("Containerfile").lines().filter(|line| line.starts_with("COPY packaging/")) {
        let source = line.split(' ').nth(1).expect("a source");
        assert!(top.join(source).exists(), "{source}");
    }
    let ignored = [".containerignore", ".dockerignore"].map(|name| fs::read(top.join(name)).expect(name));
    assert_eq!(ignored[0], ignored[1], "docker and podman leave out the same");
    // What the build reads: packages' manifests, sources, and pages that tests and packages use.
    let text = String::from_utf8_lossy(&ignored[0]).into_owned();
    assert!(!text.lines().any(|line| line.starts_with("crates") || line.starts_with("packaging")), "{text}");
}

#[test]
fn systemd_understands_the_units() {
    let analyze = |arguments: &[&Path]| {
        Command::new("systemd-analyze")
            .arg("verify")
            .arg("--man=no")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
    };
    let directory = tempfile::tempdir().expect("a directory");
    let mut paths: Vec<PathBuf> = Vec::new();
    for name in ["touchstone.service", "touchstone.socket"] {
        let path = directory.path().join(name);
        let here = format!("={} ", env!("CARGO_BIN_EXE_touchstone"));
        fs::write(&path, packaging(name).replace("=/usr/bin/touchstone ", &here)).expect("a unit");
        paths.push(path);
    }
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let Ok(output) = analyze(&paths) else { return skipped("a look at the units (install systemd)") };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // The state of other units of this machine does not matter.
    let about_ours: Vec<&str> = said.lines().filter(|line| line.contains("touchstone")).collect();
    assert!(about_ours.is_empty(), "{about_ours:?}");
}

#[test]
fn symbols_in_a_file_of_their_own_are_found() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("fails.rs");
    let text = "#[inline(never)] fn named(at: usize) { print!(\"{}\", [1, 2].iter().nth(at).unwrap()) }\n\
                fn main() { named(std::env::args().count() + 5) }\n";
    fs::write(&source, text).expect("a source");
    let program = directory.path().join("fails");
    let mut compile = Command::new("rustc");
    compile.args(["-O", "-C", "debuginfo=line-tables-only", "-o"]).arg(&program).arg(&source);
    let Ok(output) = compile.current_dir(&top).output() else {
        return skipped("split symbols (install Rust)");
    };
    assert!(output.status.success(), "{output:?}");
    let size = || fs::metadata(&program).expect("the program").len();
    let whole = size();
    for _ in 0..2 {
        let split = Command::new(top.join("scripts/split-debug.sh")).arg(&program).output().expect("it runs");
        assert!(split.status.success(), "{split:?}");
    }
    assert!(size() * 2 < whole, "{} of {whole} bytes are left", size());
    let failed = Command::new(&program).env("RUST_BACKTRACE", "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(said.contains("named") && said.contains("fails.rs:1"), "{said}");
}

#[test]
fn what_the_program_makes_of_its_definitions_is_packaged() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = fs::read_to_string(top.join("scripts/package.sh")).expect("the script");
    let manifest = fs::read_to_string(top.join("crates/touchstone/Cargo.toml")).expect("the manifest");
    for (made, packaged) in [
        ("man1", "usr/share/man/man1/"),
        ("touchstone.bash", "usr/share/bash-completion/completions/touchstone"),
        ("_touchstone", "usr/share/zsh/vendor-completions/_touchstone"),
        ("touchstone.fish", "usr/share/fish/vendor_completions.d/touchstone.fish"),
    ] {
        assert!(script.contains(&format!("packaging/generated/{made}")), "{made} is not made");
        assert!(manifest.contains(&format!("packaging/generated/{made}")), "{made} is not packaged");
        assert!(manifest.contains(&format!("\"{packaged}\"")), "{packaged}");
    }
}
