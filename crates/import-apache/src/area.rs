//! An area: a part of the paths, with the sections that apply to it.
//!
//! Apache merges all sections that match a request: `<Directory>` from the shortest to the longest, with the
//! `.htaccess` of each, then `<Location>` in order. Here one route contains all settings, so each path that a
//! section, an alias or a proxy names becomes an area that also has the sections of the areas around it.

use touchstone_import_base::apache::HTACCESS;
use touchstone_import_base::directive::Directive;

/// A part of the paths of a site.
pub struct Area<'d> {
    /// The path, with a slash at its end: it covers all paths below it.
    pub path: String,
    /// The directory of its files, without a slash at the end; `None`: it has no files on disk.
    pub directory: Option<String>,
    /// The sections that apply, later ones before earlier ones.
    pub sections: Vec<&'d Directive>,
}

/// A directory and the path under which it is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The path, with a slash at its end.
    pub path: String,
    /// The directory, without a slash at its end.
    pub directory: String,
}

impl Mount {
    /// The path under which a directory is served.
    pub fn path_of(&self, directory: &str) -> Option<String> {
        let below = directory.trim_end_matches('/').strip_prefix(&self.directory)?;
        match below.strip_prefix('/') {
            Some(below) => Some(format!("{}{below}/", self.path)),
            None => below.is_empty().then(|| self.path.clone()),
        }
    }

    fn directory_of(&self, path: &str) -> Option<String> {
        let below = path.strip_prefix(&self.path)?.trim_end_matches('/');
        Some(if below.is_empty() { self.directory.clone() } else { format!("{}/{below}", self.directory) })
    }
}

impl<'d> Area<'d> {
    /// Builds the area of a path, given the mounted directories.
    pub fn new(path: &str, mounts: &[Mount], scope: &[&'d Directive]) -> Area<'d> {
        let longest = mounts.iter().filter(|mount| path.starts_with(&mount.path));
        let directory =
            longest.max_by_key(|mount| mount.path.len()).and_then(|mount| mount.directory_of(path));
        let mut sections: Vec<(usize, bool, &'d Directive)> = Vec::new();
        if let Some(directory) = &directory {
            for section in scope.iter().filter(|section| is(section, "directory")) {
                let named = name(section).trim_end_matches('/');
                let holds = directory == named
                    || directory.strip_prefix(named).is_some_and(|below| below.starts_with('/'));
                if holds {
                    sections.push((named.len(), section.argument(1) == HTACCESS, section));
                }
            }
        }
        sections.sort_by_key(|(length, is_override, _)| (*length, *is_override));
        let mut sections: Vec<&'d Directive> = sections.into_iter().map(|(_, _, section)| section).collect();
        for section in scope.iter().filter(|section| is(section, "location")) {
            let named = name(section);
            if path.starts_with(&format!("{}/", named.trim_end_matches('/'))) {
                sections.push(section);
            }
        }
        Area { path: path.to_string(), directory, sections }
    }

    /// The last directive with this name, which is the one that applies.
    pub fn one(&self, name: &str) -> Option<&'d Directive> {
        self.all(name).pop()
    }

    /// The directives with this name in the last section that has any.
    pub fn all(&self, name: &str) -> Vec<&'d Directive> {
        let named_in = |section: &&'d Directive| -> Vec<&'d Directive> {
            section.inside().iter().filter(|directive| is(directive, name)).collect()
        };
        self.sections.iter().rev().map(named_in).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The directives with this name in all sections.
    pub fn every(&self, name: &str) -> Vec<&'d Directive> {
        let inside = self.sections.iter().flat_map(|section| section.inside());
        inside.filter(|directive| is(directive, name)).collect()
    }
}

/// Whether a directive has this name; case is ignored.
pub fn is(directive: &Directive, name: &str) -> bool {
    directive.name.eq_ignore_ascii_case(name)
}

/// The path or directory that a section names; `~` before an expression is skipped.
pub fn name(section: &Directive) -> &str {
    section.argument(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_among_paths() {
        let mount = Mount { path: "/".to_string(), directory: "/srv/www".to_string() };
        assert_eq!(mount.path_of("/srv/www/a/b/"), Some("/a/b/".to_string()));
        assert_eq!(mount.path_of("/srv/www"), Some("/".to_string()));
        assert_eq!(mount.path_of("/srv/www2"), None);
        let alias = Mount { path: "/x/".to_string(), directory: "/opt/x".to_string() };
        assert_eq!(alias.directory_of("/x/a/"), Some("/opt/x/a".to_string()));
    }
}
