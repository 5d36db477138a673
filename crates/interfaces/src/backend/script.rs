//! Finds the script file for a request: for PHP and other programs that execute files by name.
//!
//! A path is split after the first segment that ends like a script **and is a file**. So `/image.jpg/x.php`
//! does not execute an image: the program never receives a request for a script that does not exist, whatever
//! its own interpretation of the path is.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use touchstone_files::root::{FileKind, OpenError, Root};
use touchstone_route::RouteTarget;

/// Where scripts are, and how other paths are answered.
#[derive(Debug, Clone)]
pub struct ScriptRules {
    /// The directory in which paths are looked up.
    pub root: Arc<Root>,
    /// The suffixes of scripts: `.php`.
    pub suffixes: Vec<String>,
    /// The names that are tried in order for a directory.
    pub index: Vec<String>,
    /// The script for paths that name no file.
    pub front_controller: Option<FrontController>,
    /// Whether names that begin with a dot may be scripts.
    pub hidden_files: bool,
}

/// The script for paths that name no file.
#[derive(Debug, Clone)]
pub struct FrontController {
    /// Its path; begins with a slash.
    pub script: String,
    /// Its path with the query that it gets; `None`: it gets that of the request.
    pub target: Option<RouteTarget>,
}

/// The target of a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Target<'p> {
    /// This script.
    Script(Script<'p>),
    /// A file or a directory, or nothing: the file handler answers.
    File,
    /// Nothing, and the request must not be passed to the file handler, because the path looks like a script.
    NotFound,
    /// Access is denied.
    Forbidden,
    /// The machine has reached a limit.
    Busy,
}

/// A script and the rest of its path.
#[derive(Debug, PartialEq, Eq)]
pub struct Script<'p> {
    /// The part of the path that names it.
    pub name: Cow<'p, [u8]>,
    /// The rest of the path.
    pub path_info: &'p [u8],
    /// What its query is made by; `None`: it is that of the request.
    pub query: Option<&'p RouteTarget>,
}

impl Script<'_> {
    /// Its file below a document root.
    pub fn file_below(&self, root: &std::path::Path) -> PathBuf {
        root.join(OsStr::from_bytes(self.name.strip_prefix(b"/").unwrap_or(&self.name)))
    }
}

impl ScriptRules {
    /// Finds the target of a path in its normal form.
    pub fn find<'p>(&'p self, path: &'p [u8]) -> Target<'p> {
        if !self.hidden_files && is_hidden(path) {
            return Target::File;
        }
        match self.find_on_disk(path) {
            Ok(target) => target,
            Err(OpenError::Forbidden) => Target::Forbidden,
            Err(OpenError::TooManyOpenFiles) => Target::Busy,
            Err(_) => Target::NotFound,
        }
    }

    fn find_on_disk<'p>(&'p self, path: &'p [u8]) -> Result<Target<'p>, OpenError> {
        for end in self.script_ends(path) {
            if self.kind(&path[..end])? == Some(FileKind::Regular) {
                return Ok(script(path[..end].into(), &path[end..]));
            }
        }
        let kind = self.kind(path)?;
        match kind {
            // A regular file is served by the file handler. Scripts were found above.
            Some(FileKind::Regular) => return Ok(Target::File),
            Some(FileKind::Directory) if !path.ends_with(b"/") => return Ok(Target::File),
            Some(FileKind::Directory) => {
                for name in &self.index {
                    let file = [path, name.as_bytes()].concat();
                    if self.kind(&file)? == Some(FileKind::Regular) {
                        return Ok(if self.is_script(&file) {
                            script(file.into(), b"")
                        } else {
                            Target::File
                        });
                    }
                }
            }
            None => {}
        }
        match &self.front_controller {
            Some(front) if self.kind(front.script.as_bytes())? == Some(FileKind::Regular) => {
                let name = front.script.as_bytes().into();
                Ok(Target::Script(Script { name, path_info: b"", query: front.target.as_ref() }))
            }
            _ if kind.is_none() && self.script_ends(path).next().is_some() => Ok(Target::NotFound),
            _ => Ok(Target::File),
        }
    }

    /// The ends of the segments that look like scripts.
    fn script_ends<'p>(&'p self, path: &'p [u8]) -> impl Iterator<Item = usize> + 'p {
        let ends = (1..=path.len()).filter(|&end| end == path.len() || path[end] == b'/');
        ends.filter(|&end| self.is_script(&path[..end]))
    }

    fn is_script(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        // A name that is only a suffix, such as `.php`, is a hidden file.
        self.suffixes.iter().any(|suffix| name.len() > suffix.len() && name.ends_with(suffix.as_bytes()))
    }

    fn kind(&self, path: &[u8]) -> Result<Option<FileKind>, OpenError> {
        match self.root.facts(path) {
            Ok(facts) => Ok(Some(facts.kind)),
            Err(OpenError::NotFound | OpenError::NotAFile) => Ok(None),
            Err(other) => Err(other),
        }
    }
}

fn script<'p>(name: Cow<'p, [u8]>, path_info: &'p [u8]) -> Target<'p> {
    Target::Script(Script { name, path_info, query: None })
}

fn is_hidden(path: &[u8]) -> bool {
    let path = path.strip_prefix(b"/.well-known/").unwrap_or(path);
    path.split(|&byte| byte == b'/').any(|segment| segment.starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    use proptest::prelude::*;
    use touchstone_files::root::SymlinkPolicy;

    fn rules(directory: &std::path::Path, front_controller: Option<&str>) -> ScriptRules {
        for (name, is_directory) in [
            ("image.jpg", false),
            ("index.php", false),
            ("blog", true),
            ("blog/index.php", false),
            ("blog/post.php", false),
            ("plain", true),
            ("plain/index.html", false),
            ("empty", true),
            ("lib.php", true),
            ("lib.php/run.php", false),
            (".secret", true),
            (".secret/a.php", false),
            (".php", false),
        ] {
            let path = directory.join(name);
            if is_directory { fs::create_dir_all(path).unwrap() } else { fs::write(path, name).unwrap() }
        }
        ScriptRules {
            root: Arc::new(Root::new(directory, SymlinkPolicy::Inside).unwrap()),
            suffixes: vec![".php".to_string()],
            index: vec!["index.php".to_string(), "index.html".to_string()],
            front_controller: front_controller
                .map(|script| FrontController { script: script.to_string(), target: None }),
            hidden_files: false,
        }
    }

    fn shown(target: Target<'_>) -> String {
        match target {
            Target::Script(script) => {
                format!(
                    "{}|{}",
                    String::from_utf8_lossy(&script.name),
                    String::from_utf8_lossy(script.path_info)
                )
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn scripts_without_a_front_controller() {
        let directory = tempfile::tempdir().unwrap();
        let rules = rules(directory.path(), None);
        for (path, expected) in [
            ("/", "/index.php|"),
            ("/index.php", "/index.php|"),
            ("/index.php/", "/index.php|/"),
            ("/index.php/a/b.php", "/index.php|/a/b.php"),
            ("/blog/", "/blog/index.php|"),
            ("/blog", "File"),
            ("/blog/post.php/2026", "/blog/post.php|/2026"),
            ("/plain/", "File"),
            ("/empty/", "File"),
            ("/image.jpg", "File"),
            ("/image.jpg/x.php", "NotFound"),
            ("/image.jpg/x", "File"),
            ("/missing.php", "NotFound"),
            ("/missing.php/a", "NotFound"),
            ("/missing", "File"),
            ("/lib.php/", "File"),
            ("/lib.php/run.php/x", "/lib.php/run.php|/x"),
            ("/.secret/a.php", "File"),
            ("/.php", "File"),
        ] {
            assert_eq!(shown(rules.find(path.as_bytes())), expected, "{path}");
        }
    }

    #[test]
    fn scripts_with_a_front_controller() {
        let directory = tempfile::tempdir().unwrap();
        let rules = rules(directory.path(), Some("/index.php"));
        for (path, expected) in [
            ("/articles/7", "/index.php|"),
            ("/missing.php", "/index.php|"),
            ("/image.jpg/x.php", "/index.php|"),
            ("/empty/", "/index.php|"),
            ("/image.jpg", "File"),
            ("/plain/", "File"),
            ("/.secret/missing", "File"),
        ] {
            assert_eq!(shown(rules.find(path.as_bytes())), expected, "{path}");
        }
    }

    #[test]
    fn a_link_out_of_the_root_is_no_script() {
        let directory = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("a.php"), "").unwrap();
        std::os::unix::fs::symlink(outside.path().join("a.php"), directory.path().join("a.php")).unwrap();
        assert_eq!(rules(directory.path(), Some("/index.php")).find(b"/a.php"), Target::Forbidden);
    }

    proptest! {
        /// Whatever the path is: only an existing file with a script's suffix is executed.
        #[test]
        fn what_runs_is_a_script(path in "(/(index|blog|post|lib|image|\\.secret|a)(\\.php|\\.jpg)?){0,4}/?") {
            let directory = tempfile::tempdir().unwrap();
            if let Target::Script(script) = rules(directory.path(), None).find(path.as_bytes()) {
                let file = script.file_below(directory.path());
                prop_assert!(file.is_file() && file.to_str().unwrap().ends_with(".php"), "{:?}", file);
                let whole = [&script.name[..], script.path_info].concat();
                prop_assert!(whole == path.as_bytes() || whole == [path.as_bytes(), b"index.php"].concat());
            }
        }
    }
}
