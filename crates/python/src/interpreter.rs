//! Finds the Python of the machine, or of a virtual environment: the program reports the path of its library.
//!
//! A `python3` can contain its library, as in Debian, and when built by pyenv without `--enable-shared`. Then
//! the system's library of the same version is opened instead; if it is missing, the error names Debian's
//! package. The modules of a virtual environment work with either.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use touchstone_processes::pool::find_program;

/// The script for the program. It prints one value on each line.
const QUESTION: &str = "\
import os, sys, sysconfig
get = sysconfig.get_config_var
print('%d.%d' % sys.version_info[:2])
print(sys.executable)
print(sys.base_prefix)
print(get('LIBDIR') or '')
print(get('INSTSONAME') or '')
print(get('LDVERSION') or '')
print(1 if get('Py_GIL_DISABLED') else 0)
print(get('MULTIARCH') or '')
";

/// A Python that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// Such as `3.11`, or `3.13t` of a free-threaded build.
    pub version: String,
    /// The library that is opened.
    pub libpython: PathBuf,
    /// The program, which determines where modules are found.
    pub program: PathBuf,
    /// A build without the global interpreter lock (free-threaded).
    pub is_free_threaded: bool,
}

/// The supported minor versions: from 3.9 up to, but not including, the first unknown version.
const VERSIONS: std::ops::Range<u32> = 9..15;

impl Interpreter {
    /// The Python of a virtual environment or of a program; by default, that in PATH.
    ///
    /// # Errors
    /// None can be opened; the text states the reason and the remedy.
    pub fn find(virtual_environment: Option<&Path>) -> Result<Interpreter, String> {
        let program = program(virtual_environment)?;
        let answer = ask(&program)?;
        Interpreter::described(program, &answer)
    }

    /// The Python that has described itself so.
    fn described(program: PathBuf, answer: &str) -> Result<Interpreter, String> {
        let lines: Vec<&str> = answer.lines().collect();
        let [version, executable, base, libdir, soname, ld_version, free, multiarch] = lines[..] else {
            return Err(format!("{} does not report its version: {answer:?}", program.display()));
        };
        let minor = version.strip_prefix("3.").and_then(|minor| minor.parse::<u32>().ok());
        if !minor.is_some_and(|minor| VERSIONS.contains(&minor)) {
            return Err(format!(
                "{} is Python {version}; the versions from 3.9 to 3.14 can be used",
                program.display()
            ));
        }
        let libpython =
            library(&Library { base, libdir, soname, ld_version, multiarch }).ok_or_else(|| {
                format!(
                    "the library of Python {version} for {} is missing: install it (on Debian and Ubuntu \
                 the package libpython{ld_version}), or use a Python that was built with --enable-shared",
                    program.display()
                )
            })?;
        // Symbolic links of a virtual environment are not resolved: its `pyvenv.cfg` is beside them.
        let program = if executable.is_empty() { program } else { PathBuf::from(executable) };
        let is_free_threaded = free == "1";
        let version = if is_free_threaded { format!("{version}t") } else { version.to_string() };
        Ok(Interpreter { version, libpython, program, is_free_threaded })
    }
}

fn program(virtual_environment: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(place) = virtual_environment {
        if place.is_file() {
            return Ok(place.to_path_buf());
        }
        let names = ["bin/python3", "bin/python"];
        return names.iter().map(|name| place.join(name)).find(|program| program.is_file()).ok_or_else(
            || format!("{} is not a virtual environment: it has no bin/python3", place.display()),
        );
    }
    if let Some(active) = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from)
        && active.join("bin/python3").is_file()
    {
        return Ok(active.join("bin/python3"));
    }
    find_program("python3", Path::new("")).ok_or_else(|| {
        "python3 was not found on the PATH: install Python, or name a virtual environment".to_string()
    })
}

fn ask(program: &Path) -> Result<String, String> {
    let output = Command::new(program)
        .args(["-I", "-c", QUESTION])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
    if !output.status.success() {
        let output_text = String::from_utf8_lossy(&output.stderr);
        let last = output_text.trim().lines().last().unwrap_or_default().to_string();
        return Err(format!("{} does not work ({}): {last}", program.display(), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The facts about a library's possible location.
struct Library<'a> {
    base: &'a str,
    libdir: &'a str,
    soname: &'a str,
    ld_version: &'a str,
    multiarch: &'a str,
}

/// The library, if it exists: at the path that the program reports, else that of the same version elsewhere.
fn library(known: &Library<'_>) -> Option<PathBuf> {
    let base_lib = Path::new(known.base).join("lib");
    let multiarch = Path::new("/usr/lib").join(known.multiarch);
    let own = [Path::new(known.libdir), base_lib.as_path()];
    let system =
        [multiarch.as_path(), Path::new("/usr/lib64"), Path::new("/usr/lib"), Path::new("/usr/local/lib")];
    let shared = format!("libpython{}.so.1.0", known.ld_version);
    let names = [known.soname, shared.as_str()];
    own.iter()
        .chain(&system)
        .flat_map(|directory| names.iter().map(move |name| (directory, name)))
        // The name of a library inside the program is that of an archive (`.a`).
        .filter(|(directory, name)| name.contains(".so") && directory.is_absolute())
        .map(|(directory, name)| directory.join(name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_searched_at_the_reported_path_and_then_in_the_system() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().to_str().unwrap();
        std::fs::create_dir(directory.path().join("lib")).unwrap();
        let known = |soname| Library { base, libdir: "", soname, ld_version: "3.99", multiarch: "none" };
        assert_eq!(library(&known("libpython3.99.so.1.0")), None);
        let path = directory.path().join("lib/libpython3.99.so.1.0");
        std::fs::write(&path, "").unwrap();
        assert_eq!(library(&known("libpython3.99.so.1.0")), Some(path.clone()));
        // The program reports an archive, but the library exists.
        assert_eq!(library(&known("libpython3.99.a")), Some(path));
    }

    #[test]
    fn a_free_threaded_build_is_known_by_its_version() {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("libpython3.13t.so.1.0");
        std::fs::write(&library, "").unwrap();
        let place = directory.path().display();
        for (free, version) in [("1", "3.13t"), ("0", "3.13")] {
            let answer =
                format!("3.13\n/usr/bin/python3\n/none\n{place}\nlibpython3.13t.so.1.0\n3.13t\n{free}\n\n");
            let found = Interpreter::described(PathBuf::from("python3"), &answer).unwrap();
            assert_eq!((found.version.as_str(), found.is_free_threaded), (version, free == "1"));
            assert_eq!((found.libpython, found.program), (library.clone(), "/usr/bin/python3".into()));
        }
    }

    #[test]
    fn an_invalid_program_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let error = Interpreter::find(Some(directory.path())).unwrap_err();
        assert!(error.contains("is not a virtual environment"), "{error}");
        let error = Interpreter::find(Some(Path::new("/bin/true"))).unwrap_err();
        assert!(error.contains("does not report its version"), "{error}");
        let error = Interpreter::find(Some(Path::new("/bin/false"))).unwrap_err();
        assert!(error.contains("does not work"), "{error}");
    }
}
