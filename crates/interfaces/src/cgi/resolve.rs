//! Finds the program for a request's path.
//!
//! The program is the first part of the path that is a file: in `/cgi-bin/a.cgi/x/y` it is `/cgi-bin/a.cgi`,
//! and the program gets `/x/y` as PATH_INFO. The file is looked up as every file is ([`Root`]), so nothing
//! outside the directory is found. The kernel decides whether the file may be executed, with the rights of
//! the user that executes it.
//!
//! The program is executed by its path a moment later. A user who can replace the file in that moment can put
//! programs there anyway.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use touchstone_files::root::{FileKind, OpenError, Root};

use super::settings::Programs;

/// A program for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgiProgram {
    /// The file.
    pub file: PathBuf,
    /// The directory that it is in.
    pub directory: PathBuf,
    /// The part of the request's path that names it.
    pub script_name: Vec<u8>,
    /// The rest of the path.
    pub path_info: Vec<u8>,
}

/// Why no program was found.
#[derive(Debug)]
pub enum ResolveError {
    /// There is no file, or it is a directory, or a hidden file.
    NotFound,
    /// It is a link that leads out of the directory, or not a regular file, or permission was denied.
    Forbidden,
    /// The lookup failed.
    Failed(std::io::Error),
}

/// Where programs are looked for.
#[derive(Debug)]
pub struct Resolver {
    root: Option<Root>,
    /// When the root was last refreshed.
    looked: Mutex<Instant>,
    programs: Programs,
    hidden_files: bool,
}

impl Resolver {
    /// For these programs.
    ///
    /// # Errors
    /// Their directory cannot be opened.
    pub fn new(
        programs: Programs,
        symlinks: touchstone_files::root::SymlinkPolicy,
        hidden_files: bool,
    ) -> std::io::Result<Resolver> {
        let root = match &programs {
            Programs::Below { directory, .. } => Some(Root::new(directory, symlinks)?),
            Programs::One { .. } | Programs::Given => None,
        };
        Ok(Resolver { root, looked: Mutex::new(Instant::now()), programs, hidden_files })
    }

    /// The program for a path, which must be in its normal form.
    ///
    /// # Errors
    /// There is no program.
    pub fn resolve(&self, path: &[u8]) -> Result<CgiProgram, ResolveError> {
        let prefix = match &self.programs {
            Programs::Below { prefix, .. } | Programs::One { prefix, .. } => prefix.as_bytes(),
            Programs::Given => return Err(ResolveError::NotFound),
        };
        let below = path.strip_prefix(prefix).ok_or(ResolveError::NotFound)?;
        match (&self.root, &self.programs) {
            (Some(root), _) => {
                self.refresh(root);
                self.resolve_below(root, path, prefix.len(), below)
            }
            (None, Programs::One { file, .. }) => {
                let directory = file.parent().unwrap_or(std::path::Path::new("/"));
                Ok(CgiProgram {
                    file: file.clone(),
                    directory: directory.to_path_buf(),
                    script_name: prefix.to_vec(),
                    path_info: below.to_vec(),
                })
            }
            (None, Programs::Below { .. } | Programs::Given) => Err(ResolveError::NotFound),
        }
    }

    /// Opens the directory again at most once a second, because a link may lead to another directory now. If
    /// it leads nowhere, the old directory stays.
    fn refresh(&self, root: &Root) {
        if let Ok(mut looked) = self.looked.try_lock()
            && looked.elapsed() >= Duration::from_secs(1)
        {
            *looked = Instant::now();
            let _ = root.refresh();
        }
    }

    fn resolve_below(
        &self,
        root: &Root,
        path: &[u8],
        prefix_length: usize,
        below: &[u8],
    ) -> Result<CgiProgram, ResolveError> {
        let end = self.program_end(root, below)?;
        let name = below[..end].strip_prefix(b"/").unwrap_or(&below[..end]);
        let file = root.path().join(OsStr::from_bytes(name));
        let directory =
            file.parent().map_or_else(|| root.path().to_path_buf(), |parent| parent.to_path_buf());
        let (script_name, path_info) = path.split_at(prefix_length + end);
        Ok(CgiProgram { file, directory, script_name: script_name.to_vec(), path_info: path_info.to_vec() })
    }

    /// The position in `below` at which the name of the program ends.
    fn program_end(&self, root: &Root, below: &[u8]) -> Result<usize, ResolveError> {
        // In most requests the whole path names the program.
        if !self.hides(below)
            && let Ok(facts) = root.facts(below)
            && facts.kind == FileKind::Regular
        {
            return Ok(below.len());
        }
        let slashes = below.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
        for end in slashes.map(|(index, _)| index).chain([below.len()]) {
            let candidate = &below[..end];
            if self.hides(candidate) {
                return Err(ResolveError::NotFound);
            }
            match root.facts(candidate) {
                Ok(facts) if facts.kind == FileKind::Regular => return Ok(end),
                Ok(_) => {}
                Err(OpenError::NotFound) => return Err(ResolveError::NotFound),
                Err(OpenError::Forbidden | OpenError::NotAFile) => return Err(ResolveError::Forbidden),
                Err(OpenError::TooManyOpenFiles) => {
                    return Err(ResolveError::Failed(std::io::Error::from_raw_os_error(libc::EMFILE)));
                }
                Err(OpenError::Other(error)) => return Err(ResolveError::Failed(error)),
            }
        }
        // Every part of the path is a directory.
        Err(ResolveError::NotFound)
    }

    fn hides(&self, path: &[u8]) -> bool {
        let is_hidden = |name: &[u8]| name.starts_with(b".") && name != b".well-known";
        !self.hidden_files && path.split(|&byte| byte == b'/').any(is_hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use touchstone_files::root::SymlinkPolicy;

    fn tree() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("root");
        std::fs::create_dir_all(root.join("cgi-bin/sub")).unwrap();
        for name in ["root/cgi-bin/a", "root/cgi-bin/sub/b", "root/cgi-bin/.hidden", "outside"] {
            std::fs::write(top.path().join(name), "").unwrap();
        }
        symlink("a", root.join("cgi-bin/inside")).unwrap();
        symlink("../../outside", root.join("cgi-bin/out")).unwrap();
        symlink("../..", root.join("cgi-bin/up")).unwrap();
        top
    }

    fn find(resolver: &Resolver, path: &str) -> Result<(String, String), String> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        match resolver.resolve(path.as_bytes()) {
            Ok(found) => {
                assert!(found.file.starts_with(&found.directory));
                Ok((text(found.script_name), text(found.path_info)))
            }
            Err(error) => Err(format!("{error:?}")),
        }
    }

    #[test]
    fn programs_and_what_follows_them() {
        let top = tree();
        let programs = |prefix: &str, directory: &str| Programs::Below {
            directory: top.path().join(directory),
            prefix: prefix.to_string(),
        };
        let site = Resolver::new(programs("", "root"), SymlinkPolicy::Inside, false).unwrap();
        let alias = Resolver::new(programs("/x", "root/cgi-bin"), SymlinkPolicy::Inside, false).unwrap();
        for (resolver, path, script, info) in [
            (&site, "/cgi-bin/a", "/cgi-bin/a", ""),
            (&site, "/cgi-bin/a/", "/cgi-bin/a", "/"),
            (&site, "/cgi-bin/a/x/y", "/cgi-bin/a", "/x/y"),
            (&site, "/cgi-bin/a/.x", "/cgi-bin/a", "/.x"),
            (&site, "/cgi-bin/sub/b/c", "/cgi-bin/sub/b", "/c"),
            (&site, "/cgi-bin/inside", "/cgi-bin/inside", ""),
            (&alias, "/x/a/y", "/x/a", "/y"),
            (&alias, "/x/sub/b", "/x/sub/b", ""),
        ] {
            assert_eq!(find(resolver, path), Ok((script.to_string(), info.to_string())), "{path}");
        }
        for (path, error) in [
            ("/cgi-bin", "NotFound"),
            ("/cgi-bin/", "NotFound"),
            ("/cgi-bin/sub", "NotFound"),
            ("/cgi-bin/none/x", "NotFound"),
            ("/cgi-bin/.hidden", "NotFound"),
            ("/cgi-bin/a\0", "NotFound"),
            ("/cgi-bin/out", "Forbidden"),
            ("/cgi-bin/out/x", "Forbidden"),
            ("/cgi-bin/up/outside", "Forbidden"),
            ("/cgi-bin/../../outside", "Forbidden"),
        ] {
            let found = find(&site, path);
            assert!(found.is_err(), "{path}: {found:?}");
            if !path.contains("..") {
                assert_eq!(found, Err(error.to_string()), "{path}");
            }
        }
        assert!(find(&alias, "/y/a").is_err());
        let found = site.resolve(b"/cgi-bin/sub/b/c").unwrap();
        assert_eq!(found.file, top.path().join("root/cgi-bin/sub/b"));
        assert_eq!(found.directory, top.path().join("root/cgi-bin/sub"));
    }

    #[test]
    fn one_program_for_all_paths() {
        let one = |prefix: &str| {
            let file = PathBuf::from("/usr/lib/git-core/git-http-backend");
            let programs = Programs::One { file, prefix: prefix.to_string() };
            Resolver::new(programs, SymlinkPolicy::Inside, false).unwrap()
        };
        let found = |script: &str, info: &str| Ok((script.to_string(), info.to_string()));
        assert_eq!(find(&one("/git"), "/git/a.git/.x"), found("/git", "/a.git/.x"));
        assert_eq!(find(&one("/git"), "/git"), found("/git", ""));
        assert_eq!(find(&one(""), "/a/b"), found("", "/a/b"));
    }
}
