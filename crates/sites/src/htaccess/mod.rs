//! `.htaccess` files below the directories of a site. The server does not apply them. It refuses what such a
//! file forbids until the configuration has a route for its directory.
//!
//! ```text
//! directories of a site -> files -> what each forbids -> routes before those of the site, and a message each
//! ```

mod forbidden;
mod refusal;

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use touchstone_config::{
    Config, DirectoryListing, HtaccessPolicy, HtaccessRules, RouteConfig, SiteConfig, SymlinkPolicy,
};

use forbidden::{Content, Forbidden};
use refusal::Place;

/// The most directories of a site that are searched.
const DIRECTORIES: usize = 10_000;
/// The greatest depth.
const DEPTH: usize = 24;
/// The most bytes of a file.
const FILE_BYTES: u64 = 256 * 1024;
/// The name of the files.
const NAME: &str = ".htaccess";

/// The result of a search.
#[derive(Debug, Default)]
pub struct Searched {
    /// What the error log says about each file.
    pub messages: Vec<String>,
    /// The directories that were searched.
    pub directories: Vec<PathBuf>,
}

/// Searches the directories of a configuration again. The configuration is one to be opened again, if other
/// requests are refused now.
pub fn search_again(config: &Config) -> (Option<Config>, Vec<PathBuf>) {
    let before = Config { sites: config.sites.iter().map(without_refusals).collect(), ..config.clone() };
    let mut now = before.sites.clone();
    let directories = now.iter_mut().flat_map(|site| refuse(site).directories).collect();
    ((now != config.sites).then_some(before), directories)
}

/// A site as it was before [`refuse`].
fn without_refusals(site: &SiteConfig) -> SiteConfig {
    let mut site = site.clone();
    let rules = std::mem::take(&mut site.htaccess_rules);
    site.routes.drain(..rules.routes.min(site.routes.len()));
    site
}

/// Puts routes that refuse requests before those of the site.
pub fn refuse(site: &mut SiteConfig) -> Searched {
    if site.htaccess == HtaccessPolicy::Ignore {
        return Searched::default();
    }
    let mut searched = Searched::default();
    let mut refusals = Vec::new();
    let mut lists = Vec::new();
    for mount in mounts(site) {
        if mount.directory == Path::new("/") {
            // If routes answer all paths, the root has no files that are served.
            continue;
        }
        let mut search = Search::of(&mount.directory, site.symlinks);
        search.below(&mount.directory, 0);
        if search.count > DIRECTORIES {
            searched.messages.push(format!(
                "{}: only {DIRECTORIES} directories were searched for .htaccess files; set 'htaccess = \
                 \"ignore\"' to ignore these files",
                mount.directory.display()
            ));
        }
        for file in above(&mount, site) {
            let mut content = read(&file);
            // Their paths begin in the directory of the file, which is not the one that is served.
            content.forbids.iter_mut().filter(|one| matches!(one, Forbidden::Paths(_))).for_each(|one| {
                *one = Forbidden::Directory;
            });
            let place = Place { directory: mount.path.clone(), on_disk: &mount.directory };
            add(site, &file, &place, content, &mut searched.messages, &mut refusals, &mut lists);
        }
        searched.directories.append(&mut search.directories);
        for file in search.found {
            let Some(on_disk) = file.parent() else { continue };
            let Some(below) = path_below(on_disk, &mount.directory) else { continue };
            let place = Place { directory: [&mount.path[..], &below].concat(), on_disk };
            add(site, &file, &place, read(&file), &mut searched.messages, &mut refusals, &mut lists);
        }
    }
    // The routes of the site follow in their order.
    site.htaccess_rules = HtaccessRules { routes: refusals.len(), lists };
    site.routes.splice(0..0, refusals);
    searched
}

/// Adds what a file forbids for the paths of a place.
fn add(
    site: &SiteConfig,
    file: &Path,
    place: &Place<'_>,
    content: Content,
    messages: &mut Vec<String>,
    refusals: &mut Vec<RouteConfig>,
    lists: &mut Vec<(Vec<u8>, bool)>,
) {
    let at = String::from_utf8_lossy(&place.directory).into_owned();
    // A route for the directory itself determines its access.
    let has_own_route = site.routes.iter().any(|route| route.path == at);
    let runs_scripts = site.routes.iter().any(RouteConfig::has_program);
    let mut forbids = content.forbids;
    forbids.retain(|forbidden| match forbidden {
        Forbidden::Directory => !has_own_route,
        Forbidden::Scripts => runs_scripts,
        _ => true,
    });
    let refuses_list = content.lists == Some(false) && site.listing != DirectoryListing::Off;
    let what = match forbids.is_empty() && !refuses_list {
        true => "it is not applied",
        false => "it is not applied; what it forbids is refused",
    };
    messages.push(format!(
        "{}: {what}. `touchstone import apache {}` translates it; or, in a configuration, set the access to \
         the directory by a route with 'path = {at:?}', or set 'htaccess = \"ignore\"' to ignore these files",
        file.display(),
        place.on_disk.display(),
    ));
    refusals.extend(forbids.iter().map(|forbidden| refusal::route(place, forbidden, &site.index)));
    lists.extend(content.lists.filter(|_| !has_own_route).map(|lists| (place.directory.clone(), lists)));
}

/// Whether a directory without an index file may be listed, as its site and the nearest file say.
pub fn may_list(site: &SiteConfig, path: &[u8]) -> bool {
    let around = site.htaccess_rules.lists.iter().filter(|(directory, _)| path.starts_with(directory));
    let nearest = around.max_by_key(|(directory, _)| directory.len());
    site.listing != DirectoryListing::Off && nearest.is_none_or(|(_, lists)| *lists)
}

/// A directory of a site.
#[derive(PartialEq, Eq)]
struct Mount {
    /// The beginning of the paths of its files.
    path: Vec<u8>,
    directory: PathBuf,
}

/// The directories of a site.
fn mounts(site: &SiteConfig) -> Vec<Mount> {
    let mount = |path: &str, directory: &PathBuf| Mount {
        path: path.as_bytes().to_vec(),
        directory: directory.clone(),
    };
    let mut mounts: Vec<Mount> = site.root.iter().map(|root| mount("/", root)).collect();
    for route in &site.routes {
        let of_route = match (&route.alias, &route.root) {
            (Some(alias), _) => mount(&route.path, alias),
            (None, Some(root)) => mount("/", root),
            (None, None) => continue,
        };
        if !mounts.contains(&of_route) {
            mounts.push(of_route);
        }
    }
    mounts
}

/// The files in directories above that of a mount which the site serves, too.
fn above(mount: &Mount, site: &SiteConfig) -> Vec<PathBuf> {
    let Ok(directory) = mount.directory.canonicalize() else { return Vec::new() };
    let roots: Vec<PathBuf> =
        mounts(site).iter().filter_map(|mount| mount.directory.canonicalize().ok()).collect();
    let above = directory.ancestors().skip(1);
    let served = above.filter(|ancestor| roots.iter().any(|root| ancestor.starts_with(root)));
    served.map(|ancestor| ancestor.join(NAME)).filter(|file| is_there(file)).collect()
}

/// Whether there is such a file, as far as can be seen.
fn is_there(file: &Path) -> bool {
    match std::fs::metadata(file) {
        Ok(found) => !found.is_dir(),
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

struct Search {
    found: Vec<PathBuf>,
    directories: Vec<PathBuf>,
    count: usize,
    /// Where links may lead; `None`: anywhere.
    within: Option<PathBuf>,
    /// The directories around the one that is searched, by device and inode.
    around: Vec<(u64, u64)>,
}

impl Search {
    fn of(root: &Path, symlinks: SymlinkPolicy) -> Search {
        let within = match symlinks {
            SymlinkPolicy::Inside => root.canonicalize().ok(),
            SymlinkPolicy::Anywhere => None,
        };
        Search { found: Vec::new(), directories: Vec::new(), count: 0, within, around: Vec::new() }
    }

    fn below(&mut self, directory: &Path, depth: usize) {
        self.count += 1;
        if self.count > DIRECTORIES || depth > DEPTH {
            return;
        }
        self.directories.push(directory.to_path_buf());
        // Also where the names in the directory cannot be read.
        let file = directory.join(NAME);
        if is_there(&file) {
            self.found.push(file);
        }
        let (Ok(facts), Ok(entries)) = (std::fs::metadata(directory), std::fs::read_dir(directory)) else {
            return;
        };
        let mut inner: Vec<PathBuf> = entries
            .filter_map(Result::ok)
            .filter(|entry| match entry.file_type() {
                Ok(kind) if kind.is_symlink() => self.follows(&entry.path()),
                Ok(kind) => kind.is_dir(),
                Err(_) => false,
            })
            .map(|entry| entry.path())
            .collect();
        inner.sort();
        self.around.push((facts.dev(), facts.ino()));
        inner.iter().for_each(|directory| self.below(directory, depth + 1));
        self.around.pop();
    }

    /// Whether a link leads to a directory that is served and not around it.
    fn follows(&self, link: &Path) -> bool {
        let Ok(facts) = std::fs::metadata(link) else { return false };
        let is_within = |within: &PathBuf| link.canonicalize().is_ok_and(|target| target.starts_with(within));
        facts.is_dir()
            && !self.around.contains(&(facts.dev(), facts.ino()))
            && self.within.as_ref().is_none_or(is_within)
    }
}

/// The path of a directory below another, with a slash at its end unless it is empty.
fn path_below(directory: &Path, root: &Path) -> Option<Vec<u8>> {
    let below = directory.strip_prefix(root).ok()?.as_os_str().as_bytes();
    Some(if below.is_empty() { Vec::new() } else { [below, b"/"].concat() })
}

fn read(file: &Path) -> Content {
    let is_small = std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() <= FILE_BYTES);
    match is_small.then(|| std::fs::read(file)) {
        // UTF-16 is not read, nor is anything else that is no text.
        Some(Ok(bytes)) if !bytes.contains(&0) => forbidden::content(&String::from_utf8_lossy(&bytes)),
        // A file that cannot be read may forbid anything.
        _ => forbidden::content("Require all denied"),
    }
}

#[cfg(test)]
mod tests;
