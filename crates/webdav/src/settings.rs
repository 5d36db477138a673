//! The settings of a route with WebDAV.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use touchstone_files::mime::ContentTypes;
use touchstone_files::root::SymlinkPolicy;
use touchstone_handler::webdav_counts::Name;
use touchstone_http::path::PathRules;

use crate::method::DavMethod;

/// The settings of a route.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The names of the site and the route, for metrics.
    pub name: Name,
    /// The directory of the files.
    pub root: PathBuf,
    /// The beginning of the paths of the directory; with a slash at both ends.
    pub mount: Vec<u8>,
    /// Which symbolic links are followed.
    pub symlinks: SymlinkPolicy,
    /// Names that begin with a dot are ordinary files.
    pub hidden_files: bool,
    /// How the site reads paths.
    pub path_rules: PathRules,
    /// Media types of the files.
    pub content_types: Arc<ContentTypes>,
    /// The methods besides GET, HEAD and OPTIONS.
    pub methods: Vec<DavMethod>,
    /// The directory for locks and dead properties.
    pub state: PathBuf,
    /// PROPFIND may request a whole tree.
    pub infinite_depth: bool,
    /// The most resources of one PROPFIND, and of one COPY.
    pub most_entries: usize,
    /// The most bytes of an XML body.
    pub xml_bytes: usize,
    /// The most bytes of all dead properties.
    pub property_bytes: usize,
    /// The most locks at a time.
    pub most_locks: usize,
    /// The longest time of a lock.
    pub lock_timeout: Duration,
    /// An upload is on the disk before its client gets the answer.
    pub sync: bool,
    /// Other routes may answer for paths below those of this route.
    pub shares_paths: bool,
}

impl Settings {
    /// Whether a method may be used.
    pub fn allows(&self, method: DavMethod) -> bool {
        self.methods.contains(&method)
    }

    /// The value of Allow.
    pub fn allow(&self) -> String {
        let names = self.methods.iter().map(|method| method.name());
        ["OPTIONS", "GET", "HEAD"].into_iter().chain(names).collect::<Vec<_>>().join(", ")
    }

    /// The value of DAV (RFC 4918 section 10.1); `None`: the route takes uploads and has no WebDAV.
    pub fn classes(&self) -> Option<&'static str> {
        let has_locks = self.allows(DavMethod::Lock) && self.allows(DavMethod::Unlock);
        match (self.allows(DavMethod::Propfind), has_locks) {
            (false, _) => None,
            (true, false) => Some("1"),
            (true, true) => Some("1, 2"),
        }
    }
}
