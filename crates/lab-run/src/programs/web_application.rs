//! Web applications: their classes are compiled with `javac` against the servlet API of the jars that lie
//! beside this program or of Tomcat, and packed with `jar` into a WAR.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What they run on, at the least.
const JAVA_RELEASE: &str = "17";

/// Compiles the classes, copies the page the requested number of times, and packs both. An error is one of
/// the directory; if there is no application, the reason is the output of Java's tools.
pub(super) fn build(
    sources: &Path,
    classes: &[&str],
    page: Option<(&str, usize)>,
    output: &Path,
) -> io::Result<Result<(), String>> {
    let Some(class_path) = servlet_api() else {
        return Ok(Err("there is no servlet API to compile its program with (make java)".to_string()));
    };
    let content = sources.join("content");
    let _ = fs::remove_dir_all(&content);
    let compiled = content.join("WEB-INF/classes");
    fs::create_dir_all(&compiled)?;
    let mut compiler = Command::new("javac");
    compiler.args(["-nowarn", "--release", JAVA_RELEASE, "-cp"]).arg(class_path).arg("-d").arg(compiled);
    compiler.args(classes).current_dir(sources);
    if let Err(reason) = run(compiler, "javac") {
        return Ok(Err(reason));
    }
    if let Some((page, copies)) = page {
        for number in 1..=copies {
            fs::copy(sources.join(page), content.join(format!("{number}.jsp")))?;
        }
    }
    let mut packer = Command::new("jar");
    packer.args(["--create", "--file"]).arg(output).arg("-C").arg(&content).arg(".");
    Ok(run(packer, "jar"))
}

/// Runs a tool to its end; the text of an error is the reason for there being no program.
fn run(mut command: Command, tool: &str) -> Result<(), String> {
    match command.stdin(Stdio::null()).output() {
        Ok(ended) if ended.status.success() => Ok(()),
        Ok(ended) => {
            let output_text = String::from_utf8_lossy(&ended.stderr);
            let first =
                output_text.lines().find(|line| line.contains("error")).or(output_text.lines().next());
            Err(format!("{tool} could not build it: {}", first.unwrap_or("it printed nothing")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("there is no {tool} to build its program (install openjdk-17-jdk-headless)"))
        }
        Err(error) => Err(format!("{tool} cannot be started: {error}")),
    }
}

/// A class path with the servlet API: the jars of the server's own servlets, or those of a Tomcat whose
/// script is on the PATH.
fn servlet_api() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_tomcat = std::env::split_paths(&path).filter_map(|directory| {
        // What is on the PATH is a link into Tomcat's own directory.
        let script = directory.join("catalina.sh").canonicalize().ok()?;
        Some(script.parent()?.parent()?.join("lib")).filter(|lib| lib.join("servlet-api.jar").is_file())
    });
    super::jars::beside_the_program().into_iter().chain(of_tomcat).next().map(|directory| directory.join("*"))
}
