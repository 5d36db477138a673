//! Recognises the target of `touchstone serve`: a directory, an application, a component, a configuration or
//! another server.

use std::path::{Path, PathBuf};

use touchstone_proxy::OriginUrl;

/// The target.
#[derive(Debug, PartialEq)]
pub(super) enum Target {
    /// The files of a directory.
    Directory(PathBuf),
    /// A Java web application: a WAR, or a directory with a `WEB-INF` in it.
    Application(PathBuf),
    /// A Python application: `module:name`.
    Python(String),
    /// A WebAssembly component.
    Component(PathBuf),
    /// A configuration file.
    Configuration(PathBuf),
    /// Another server, to be accelerated.
    Origin(String),
}

impl Target {
    /// The target that a text means; the error states what to write instead.
    pub(super) fn of(text: &str) -> Result<Target, String> {
        if text.contains("://") || text.starts_with("unix:") {
            return OriginUrl::parse(text).map(|_| Target::Origin(text.to_string()));
        }
        if text.is_empty() {
            return Err("the target is empty; write . for this directory".to_string());
        }
        let path = PathBuf::from(text);
        if path.is_dir() {
            return Ok(match path.join("WEB-INF").is_dir() {
                true => Target::Application(path),
                false => Target::Directory(path),
            });
        }
        if !path.exists() {
            if is_python(text, Path::new(".")) {
                return Ok(Target::Python(text.to_string()));
            }
            return Err(unknown(text));
        }
        match ending(&path).as_str() {
            "war" => Ok(Target::Application(path)),
            "wasm" => Ok(Target::Component(path)),
            "toml" => Ok(Target::Configuration(path)),
            ending => Err(other_file(text, ending, &path)),
        }
    }
}

fn ending(path: &Path) -> String {
    path.extension().map_or(String::new(), |ending| ending.to_string_lossy().to_lowercase())
}

/// Whether a text names an application in a module of this directory.
fn is_python(text: &str, directory: &Path) -> bool {
    let Some((module, _)) = names(text) else { return false };
    let first = directory.join(module.split('.').next().unwrap_or(module));
    first.is_dir() || first.with_extension("py").is_file()
}

/// `module:name`
fn names(text: &str) -> Option<(&str, &str)> {
    let is_name = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte))
    };
    text.rsplit_once(':').filter(|(module, name)| is_name(module) && is_name(name))
}

/// Why a missing target cannot be served.
fn unknown(text: &str) -> String {
    let (before, behind) = text.rsplit_once(':').unwrap_or((text, ""));
    if !before.contains('/') && behind.parse::<u16>().is_ok() {
        let host = if before.is_empty() { "127.0.0.1" } else { before };
        return format!(
            "{text}: no such file or directory; for a server at this address write http://{host}:{behind}"
        );
    }
    if text.ends_with(".toml") {
        return format!("{text}: no such file; `touchstone init {text}` writes a configuration");
    }
    if let Some((module, _)) = names(text) {
        let first = module.split('.').next().unwrap_or(module);
        return format!(
            "{text}: no module {first} ({first}.py or {first}/) and no such file in this directory"
        );
    }
    format!("{text}: no such file or directory")
}

/// Why a single file cannot be served.
fn other_file(text: &str, ending: &str, path: &Path) -> String {
    let instead = match ending {
        "jar" => "a program of its own: start it with `java -jar`, and write its URL here".into(),
        "php" => "PHP needs a php-fpm: `touchstone init --kind php` writes the configuration for it".into(),
        _ => {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = directory.unwrap_or(Path::new("."));
            format!(
                "a file of a kind that is not served alone; for its directory write {}",
                directory.display()
            )
        }
    };
    format!("{text}: {instead}; a directory, a .war, a .wasm, module:name, a .toml and a URL can be served")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn each_kind_is_told_from_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["shop.WAR", "site.toml", "app.wasm", "app.jar", "index.php", "page.html"] {
            fs::write(at(name), "").unwrap();
        }
        fs::create_dir_all(at("exploded/WEB-INF")).unwrap();
        let target_of = |name: &str| Target::of(at(name).to_str().unwrap());
        assert_eq!(target_of(""), Ok(Target::Directory(at(""))));
        assert_eq!(target_of("shop.WAR"), Ok(Target::Application(at("shop.WAR"))));
        assert_eq!(target_of("exploded"), Ok(Target::Application(at("exploded"))));
        assert_eq!(target_of("app.wasm"), Ok(Target::Component(at("app.wasm"))));
        fs::write(at("shop.py"), "").unwrap();
        assert!(is_python("shop:application", directory.path()) && !is_python("other:app", directory.path()));
        assert_eq!(target_of("site.toml"), Ok(Target::Configuration(at("site.toml"))));
        for (name, word) in [
            ("app.jar", "java -jar"),
            ("index.php", "touchstone init --kind php"),
            ("page.html", directory.path().to_str().unwrap()),
            ("missing", "no such file"),
        ] {
            let message = target_of(name).unwrap_err();
            assert!(message.contains(word), "{message}");
        }
        for (text, word) in [
            ("localhost:3000", "http://localhost:3000"),
            (":3000", "http://127.0.0.1:3000"),
            ("", "write . for this directory"),
            ("no-such-file.toml", "`touchstone init no-such-file.toml`"),
            ("app.main:application", "app.py"),
            ("ftp://example.org", "http://host:port"),
            ("https://", "host"),
        ] {
            let message = Target::of(text).unwrap_err();
            assert!(message.contains(word), "{message}");
        }
        for url in ["http://127.0.0.1:3000", "https://example.org/shop", "unix:/run/app.sock"] {
            assert_eq!(Target::of(url), Ok(Target::Origin(url.to_string())));
        }
    }
}
