//! Finds the Java virtual machine: a library that is opened at run time, so that the server also runs on
//! machines without Java.

use std::path::{Path, PathBuf};

/// The directories in which distributions install Java.
const USUAL: [&str; 4] = ["/usr/lib/jvm", "/usr/java", "/opt/java", "/opt"];

/// The path of the library below a Java home. The second one is that of Java 8, which is too old, but is
/// found so that the message can say so.
const BELOW_HOME: [&str; 2] = ["lib/server/libjvm.so", "jre/lib/amd64/server/libjvm.so"];

/// The library of a Java home, or of the first of these: the configured home, JAVA_HOME, the `java` in PATH,
/// and the usual directories. The error names what was tried.
pub fn find(home: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(home) = home {
        return library_of(home).ok_or_else(|| {
            format!("{} does not contain Java: {} is missing", home.display(), BELOW_HOME[0])
        });
    }
    from_environment()
        .or_else(from_path)
        .or_else(|| USUAL.iter().find_map(|directory| newest_below(Path::new(directory))))
        .ok_or_else(|| {
            "Java was not found: install a JDK or JRE of version 17 or later, or set 'home' to its \
             directory"
                .to_string()
        })
}

fn library_of(home: &Path) -> Option<PathBuf> {
    BELOW_HOME.iter().map(|below| home.join(below)).find(|path| path.is_file())
}

fn from_environment() -> Option<PathBuf> {
    std::env::var_os("JAVA_HOME").and_then(|home| library_of(Path::new(&home)))
}

fn from_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find_map(|directory| {
        // `java` is often a link to a link; the library is beside the target.
        let program = directory.join("java").canonicalize().ok()?;
        library_of(program.parent()?.parent()?)
    })
}

/// The home with the highest version in its name.
fn newest_below(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let homes = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    homes
        .filter_map(|home| library_of(&home).map(|library| (version_in(&home), library)))
        .max_by_key(|(version, _)| *version)
        .map(|(_, library)| library)
}

/// The first number in a directory's name: 17 in `java-17-openjdk-amd64`.
fn version_in(home: &Path) -> u32 {
    let name = home.file_name().unwrap_or_default().to_string_lossy();
    let digits: String =
        name.chars().skip_while(|letter| !letter.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(directory: &Path, name: &str) -> PathBuf {
        let home = directory.join(name);
        std::fs::create_dir_all(home.join("lib/server")).unwrap();
        std::fs::write(home.join(BELOW_HOME[0]), "").unwrap();
        home
    }

    #[test]
    fn the_newest_of_several_is_found_and_a_wrong_home_is_named() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["java-8-openjdk", "java-17-openjdk-amd64", "java-25-openjdk", "default"] {
            home(directory.path(), name);
        }
        std::fs::create_dir(directory.path().join("java-99-broken")).unwrap();
        let found = newest_below(directory.path()).unwrap();
        assert!(found.starts_with(directory.path().join("java-25-openjdk")));
        let named = directory.path().join("java-17-openjdk-amd64");
        assert_eq!(find(Some(&named)).unwrap(), named.join(BELOW_HOME[0]));
        assert!(
            find(Some(&directory.path().join("java-99-broken")))
                .unwrap_err()
                .contains("does not contain Java")
        );
    }
}
