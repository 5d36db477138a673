//! The SPICE programs: the smallest program for each interface, found where they are installed, or built from
//! their sources, which this program contains.
//!
//! The search order: the directory that `$TOUCHSTONE_PROGRAMS` names; `lib/touchstone/programs` beside the
//! directory of this executable, where the package installs them; the cache directory. A program that is in
//! none of them is compiled into the cache directory with `cc`, or with `javac` for web applications, or only
//! written there if it is in Python or WebAssembly, under a name made from the sources, so that changed
//! sources are compiled again.

mod jars;
mod web_application;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use touchstone_lab::cache;
use touchstone_python::Interpreter;

/// A file that is compiled, or is included by one.
type Source = (&'static str, &'static str);

/// How a program is built.
struct Recipe {
    /// Its name, as interfaces state it.
    name: &'static str,
    /// Its libraries other than the standard library.
    sources: &'static [Source],
    /// Each file that is built: its source if it has one of its own, and its place in the directory of
    /// programs.
    outputs: &'static [(&'static str, &'static str)],
    /// What makes it of them.
    tool: Tool,
}

/// The tool that builds a program from its sources.
enum Tool {
    /// The compiler of C, with these arguments beside those for every program.
    C(&'static [&'static str]),
    /// The compiler of Java, which makes a web application of these classes, and of copies of one page.
    Java { classes: &'static [&'static str], page: Option<(&'static str, usize)> },
    /// None: the source is the program, which the interpreter of Python reads.
    Python,
    /// None: the built program is in this one, because its toolchain is large.
    Carried(&'static [u8]),
}

const RECIPES: [Recipe; 11] = [
    Recipe {
        name: "cgi",
        sources: &[("cgi.c", include_str!("../../../../programs/cgi/spice.c"))],
        outputs: &[("cgi.c", "cgi-bin/spice")],
        tool: Tool::C(&[]),
    },
    Recipe {
        name: "cgi-send",
        sources: &[("cgi-send.c", include_str!("../../../../programs/cgi/send.c"))],
        outputs: &[("cgi-send.c", "cgi-bin/send")],
        tool: Tool::C(&[]),
    },
    Recipe {
        name: "simcgi",
        sources: &[("simcgi.c", include_str!("../../../../programs/cgi/simcgi.c"))],
        outputs: &[("simcgi.c", "cgi-bin/simcgi")],
        tool: Tool::C(&[]),
    },
    Recipe {
        name: "application",
        sources: &[("application.c", include_str!("../../../../programs/fastcgi/application.c"))],
        outputs: &[("application.c", "fastcgi/application")],
        tool: Tool::C(&[]),
    },
    Recipe {
        name: "fastcgi",
        sources: &[("fastcgi.c", include_str!("../../../../programs/fastcgi/spice.c"))],
        outputs: &[("fastcgi.c", "fastcgi/spice")],
        tool: Tool::C(&[]),
    },
    Recipe {
        name: "nsapi",
        sources: &[
            ("nsapi.h", include_str!("../../../../include/nsapi.h")),
            ("size.h", include_str!("../../../../programs/nsapi/size.h")),
            ("nsapi-send.c", include_str!("../../../../programs/nsapi/nsapi-send.c")),
            ("nsapi-send-a.c", include_str!("../../../../programs/nsapi/nsapi-send-a.c")),
            ("nsapi-send-b.c", include_str!("../../../../programs/nsapi/nsapi-send-b.c")),
            ("nsapi-send-c.c", include_str!("../../../../programs/nsapi/nsapi-send-c.c")),
        ],
        outputs: &[
            ("nsapi-send.c", "nsapi/nsapi-send.so"),
            ("nsapi-send-a.c", "nsapi/nsapi-send-a.so"),
            ("nsapi-send-b.c", "nsapi/nsapi-send-b.so"),
            ("nsapi-send-c.c", "nsapi/nsapi-send-c.so"),
        ],
        tool: Tool::C(&["-shared", "-fPIC", "-I", "."]),
    },
    Recipe {
        name: "servlet",
        sources: &[
            ("Page.java", include_str!("../../../../programs/servlet/src/Page.java")),
            ("Stream.java", include_str!("../../../../programs/servlet/src/Stream.java")),
            ("Writer.java", include_str!("../../../../programs/servlet/src/Writer.java")),
        ],
        outputs: &[("", "servlet/spice.war")],
        tool: Tool::Java { classes: &["Page.java", "Stream.java", "Writer.java"], page: None },
    },
    Recipe {
        name: "jsp",
        sources: &[
            ("Today.java", include_str!("../../../../programs/jsp/src/Today.java")),
            ("page.jsp", include_str!("../../../../programs/jsp/page.jsp")),
        ],
        outputs: &[("", "jsp/spice-jsp.war")],
        tool: Tool::Java { classes: &["Today.java"], page: Some(("page.jsp", 100)) },
    },
    Recipe {
        name: "wsgi",
        sources: &[("spice_wsgi.py", include_str!("../../../../programs/python/spice_wsgi.py"))],
        outputs: &[("spice_wsgi.py", "python/spice_wsgi.py")],
        tool: Tool::Python,
    },
    Recipe {
        name: "asgi",
        sources: &[("spice_asgi.py", include_str!("../../../../programs/python/spice_asgi.py"))],
        outputs: &[("spice_asgi.py", "python/spice_asgi.py")],
        tool: Tool::Python,
    },
    Recipe {
        name: "wasm",
        sources: &[("spice.rs", include_str!("../../../../programs/wasm/rust/spice/src/lib.rs"))],
        outputs: &[("spice.rs", "wasm/spice.wasm")],
        tool: Tool::Carried(include_bytes!("../../../../programs/wasm/spice.wasm")),
    },
];

/// The compiler, and its arguments for every program.
const COMPILER: &str = "cc";
const ARGUMENTS: [&str; 1] = ["-O2"];

/// The interpreter of programs in Python: that of the system, which uWSGI and mod_wsgi have, too. The
/// definition of this program's own server names the same.
const INTERPRETER: &str = "/usr/bin/python3";

/// The programs that a run needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Programs {
    /// The directory that they are in.
    pub directory: PathBuf,
    /// Programs that are missing, with the reason.
    pub missing: BTreeMap<String, String>,
    /// A copy of the jars of the server's own servlets, if the server's user cannot read those beside this
    /// program.
    pub jars: Option<PathBuf>,
    /// Why this program's own server cannot run programs in Python, if it cannot.
    pub no_python_here: Option<String>,
}

/// Finds or builds the programs of these names, and makes sure that the server can run those in Java.
pub fn prepare(names: &[&str]) -> Programs {
    let recipes: Vec<&Recipe> = RECIPES.iter().filter(|recipe| names.contains(&recipe.name)).collect();
    let mut programs = find_or_build(&recipes);
    let in_java = recipes.iter().filter(|recipe| matches!(recipe.tool, Tool::Java { .. }));
    let in_java: Vec<&str> =
        in_java.map(|recipe| recipe.name).filter(|name| !programs.missing.contains_key(*name)).collect();
    if !in_java.is_empty() {
        match jars::copy_for_all() {
            Ok(jars) => programs.jars = jars,
            Err(reason) => {
                programs.missing.extend(in_java.iter().map(|name| (name.to_string(), reason.clone())));
            }
        }
    }
    if recipes.iter().any(|recipe| matches!(recipe.tool, Tool::Python)) {
        // It opens the library of the interpreter, which other servers do not need.
        programs.no_python_here = Interpreter::find(Some(Path::new(INTERPRETER))).err();
    }
    programs
}

/// Whether a program of this name is in Python.
pub fn is_in_python(name: &str) -> bool {
    RECIPES.iter().any(|recipe| recipe.name == name && matches!(recipe.tool, Tool::Python))
}

fn find_or_build(recipes: &[&Recipe]) -> Programs {
    let stated = std::env::var_os("TOUCHSTONE_PROGRAMS").filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(directory) = stated {
        let missing = absent(recipes, &directory);
        let reason = |name: &str| {
            (name.to_string(), format!("it is not in {} (TOUCHSTONE_PROGRAMS)", directory.display()))
        };
        let missing = missing.into_iter().map(reason).collect();
        return Programs { missing, directory, ..Programs::default() };
    }
    if let Some(directory) = installed_directory().filter(|directory| absent(recipes, directory).is_empty()) {
        return Programs { directory, ..Programs::default() };
    }
    cache::prepare(|cache| build_all(recipes, &cache.join("programs").join(digest()))).unwrap_or_else(
        |refusals| {
            let reason = format!("no place to build it ({refusals}); set TOUCHSTONE_CACHE");
            let missing = recipes.iter().map(|recipe| (recipe.name.to_string(), reason.clone())).collect();
            Programs { missing, ..Programs::default() }
        },
    )
}

/// Builds the missing programs. An error is one of the directory; a compiler's error is stored with its
/// program.
fn build_all(recipes: &[&Recipe], directory: &Path) -> io::Result<Programs> {
    fs::create_dir_all(directory)?;
    let mut missing = BTreeMap::new();
    for recipe in recipes {
        if !recipe.is_in(directory)
            && let Err(reason) = recipe.build(directory)?
        {
            missing.insert(recipe.name.to_string(), reason);
        }
    }
    Ok(Programs { directory: directory.to_path_buf(), missing, ..Programs::default() })
}

impl Recipe {
    fn is_in(&self, directory: &Path) -> bool {
        self.outputs.iter().all(|(_, output)| directory.join(output).is_file())
    }

    /// Compiles every output to a temporary name and renames it, so that another run never finds a partial
    /// file.
    fn build(&self, directory: &Path) -> io::Result<Result<(), String>> {
        let sources = directory.join("sources").join(self.name);
        fs::create_dir_all(&sources)?;
        for (name, text) in self.sources {
            touchstone_lab::output::write_atomically(&sources.join(name), text.as_bytes())?;
        }
        for (source, output) in self.outputs {
            let output = directory.join(output);
            if let Some(parent) = output.parent() {
                fs::create_dir_all(parent)?;
            }
            let new = output.with_extension(format!("{}.new", std::process::id()));
            let built = match &self.tool {
                Tool::C(arguments) => compile(source, arguments, &new, &sources),
                Tool::Java { classes, page } => web_application::build(&sources, classes, *page, &new)?,
                Tool::Python => write_for_python(&sources.join(source), &new)?,
                Tool::Carried(program) => fs::write(&new, program).map(Ok)?,
            };
            if let Err(reason) = built {
                let _ = fs::remove_file(&new);
                return Ok(Err(reason));
            }
            // The server may run as another user.
            fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
            fs::rename(&new, &output)?;
        }
        Ok(Ok(()))
    }
}

/// Compiles a source in C; the text of an error is the reason why there is no program.
fn compile(source: &str, arguments: &[&str], output: &Path, sources: &Path) -> Result<(), String> {
    let compiled = Command::new(COMPILER)
        .args(ARGUMENTS)
        .args(arguments)
        .arg("-o")
        .arg(output)
        .arg(source)
        .current_dir(sources)
        .stdin(Stdio::null())
        .output();
    match compiled {
        Ok(ended) if ended.status.success() => Ok(()),
        Ok(ended) => {
            let output_text = String::from_utf8_lossy(&ended.stderr);
            let first =
                output_text.lines().find(|line| line.contains("error")).or(output_text.lines().next());
            Err(format!("{COMPILER} could not compile {source}: {}", first.unwrap_or("it printed nothing")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("there is no {COMPILER} to compile its program (install gcc and libc6-dev)"))
        }
        Err(error) => Err(format!("{COMPILER} cannot be started: {error}")),
    }
}

/// Copies a source in Python, if there is an interpreter to run it; the text of an error is the reason why
/// there is no program.
fn write_for_python(source: &Path, output: &Path) -> io::Result<Result<(), String>> {
    let interpreter = Command::new(INTERPRETER).arg("--version").stdin(Stdio::null()).output();
    match interpreter {
        Ok(interpreter) if interpreter.status.success() => fs::copy(source, output).map(|_| Ok(())),
        Ok(interpreter) => Ok(Err(format!("{INTERPRETER} --version ended with {}", interpreter.status))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Err(format!("there is no {INTERPRETER} to run its program (install python3)")))
        }
        Err(error) => Ok(Err(format!("{INTERPRETER} cannot be started: {error}"))),
    }
}

/// Which of the programs a directory lacks.
fn absent<'r>(recipes: &[&'r Recipe], directory: &Path) -> Vec<&'r str> {
    recipes.iter().filter(|recipe| !recipe.is_in(directory)).map(|recipe| recipe.name).collect()
}

/// Where a package installs them, beside the directory of this executable.
fn installed_directory() -> Option<PathBuf> {
    let executable = std::env::current_exe().ok()?;
    Some(executable.parent()?.parent()?.join("lib/touchstone/programs"))
}

/// Distinguishes sources and ways to build them.
fn digest() -> String {
    let mut all = Vec::new();
    for recipe in &RECIPES {
        for (name, text) in recipe.sources {
            all.extend_from_slice(name.as_bytes());
            all.extend_from_slice(text.as_bytes());
        }
        match &recipe.tool {
            Tool::C(arguments) => {
                arguments.iter().for_each(|argument| all.extend_from_slice(argument.as_bytes()))
            }
            Tool::Java { page, .. } => {
                all.extend_from_slice(&page.map_or(0, |(_, copies)| copies).to_le_bytes());
            }
            Tool::Python => {}
            Tool::Carried(program) => all.extend_from_slice(program),
        }
    }
    ARGUMENTS.iter().for_each(|argument| all.extend_from_slice(argument.as_bytes()));
    touchstone_lab::machine::sha256(&all)[..12].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those in C; servlets are built where they are run.
    fn recipes() -> Vec<&'static Recipe> {
        RECIPES.iter().filter(|recipe| matches!(recipe.tool, Tool::C(_))).collect()
    }

    #[test]
    fn every_program_that_an_interface_may_name_can_be_built() {
        let names: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
        assert_eq!(names, touchstone_lab::capability::PROGRAMS);
    }

    #[test]
    fn every_program_is_built_once() {
        let place = tempfile::tempdir().unwrap();
        let programs = build_all(&recipes(), place.path()).unwrap();
        if programs.missing.values().any(|reason| reason.contains("there is no cc")) {
            return touchstone_lab::sample::skipped("the SPICE programs (install gcc)");
        }
        assert_eq!(programs.missing, BTreeMap::new());
        assert!(absent(&recipes(), place.path()).is_empty());
        let program = place.path().join("cgi-bin/spice");
        let answer = Command::new(&program).output().unwrap();
        assert!(answer.status.success() && answer.stdout.len() > 6250);
        let before = fs::metadata(&program).unwrap().modified().unwrap();
        build_all(&recipes(), place.path()).unwrap();
        assert_eq!(fs::metadata(&program).unwrap().modified().unwrap(), before);
        let left: Vec<_> = fs::read_dir(place.path().join("nsapi")).unwrap().collect();
        assert_eq!(left.len(), 4);
    }

    #[test]
    fn what_the_compiler_says_is_the_reason() {
        let place = tempfile::tempdir().unwrap();
        let broken = Recipe {
            name: "broken",
            sources: &[("broken.c", "int main(void) { return x; }\n")],
            outputs: &[("broken.c", "broken")],
            tool: Tool::C(&[]),
        };
        let programs = build_all(&[&broken], place.path()).unwrap();
        let reason = &programs.missing["broken"];
        assert!(
            reason.contains("could not compile broken.c") || reason.contains("there is no cc"),
            "{reason}"
        );
        assert!(!place.path().join("broken").exists());
    }
}
