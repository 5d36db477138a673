//! The functions of the server that the evaluation of a page needs.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_files::percent::encode_path;
use touchstone_http::target::normalise_path;

use super::page::Page;
use super::template::{ShellCommand, Variable};

/// What an output depends on, besides the files from which it was made. Each value includes the ones before
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DependsOn {
    /// Only files: the output is the same until a file changes.
    Nothing,
    /// The time, in whole seconds.
    Second,
    /// The request, or something unknown here.
    Request,
}

/// The target of an inclusion or of a query about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The path, normalised and decoded.
    pub path: Vec<u8>,
    /// The query as written.
    pub query: Option<Vec<u8>>,
    /// The kind of its name in the page.
    pub kind: TargetKind,
}

/// The kinds of names of targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// As a path of the site, for the router.
    Virtual,
    /// As a file beside or below the page: `path` is below the root of the page.
    File,
    /// As a program for `exec cgi`.
    Cgi,
}

/// A page and its location.
#[derive(Debug, Clone)]
pub struct PageSource {
    /// The page.
    pub page: Arc<Page>,
    /// The path of its request, decoded; paths that it includes are relative to it.
    pub path: Vec<u8>,
    /// The query of its request.
    pub query: Option<Vec<u8>>,
    /// The file's path below its root; files that it includes are relative to it.
    pub file_path: Vec<u8>,
    /// When the file was last modified, in seconds since 1970.
    pub modified_seconds: i64,
    /// The number of the file's owner.
    pub owner: u32,
}

/// The kind of a target.
#[derive(Debug)]
pub enum ResolvedTarget {
    /// A page with directives, which is evaluated as part of the page that includes it, and the dependencies
    /// of this result.
    Page(PageSource, DependsOn),
    /// Anything else, which must be fetched.
    Content,
}

/// The content of a target.
#[derive(Debug)]
pub struct FetchedContent {
    /// The content.
    pub body: Vec<Bytes>,
    /// The dependencies of the result.
    pub depends_on: DependsOn,
    /// Why fetching failed. The content is then an error page.
    pub failure: Option<String>,
}

/// The facts about a target that is a file.
#[derive(Debug, Clone, Copy)]
pub struct TargetFacts {
    /// Its length.
    pub size: u64,
    /// When it was last modified, in seconds since 1970.
    pub modified_seconds: i64,
    /// What these facts depend on.
    pub depends_on: DependsOn,
}

/// An entry for the error log.
#[derive(Debug)]
pub struct Problem<'a> {
    /// The page's file, below its root.
    pub file_path: &'a [u8],
    /// The line where the directive begins.
    pub line: usize,
    /// The fault.
    pub message: &'a str,
}

/// The server as a page sees it. Errors are messages for the log; clients get the configured error text.
pub trait Host: 'static {
    /// Determines the kind of a target, without running it.
    fn resolve(&self, target: &Target) -> impl Future<Output = Result<ResolvedTarget, String>>;

    /// Fetches a target's content; `variables` are those that the page has set.
    fn fetch(
        &self,
        target: Target,
        variables: Vec<Variable>,
    ) -> impl Future<Output = Result<FetchedContent, String>>;

    /// Runs a command of `exec cmd` and returns its output; `variables` are those that the page has set.
    fn run(
        &self,
        command: ShellCommand,
        variables: Vec<Variable>,
    ) -> impl Future<Output = Result<Vec<Bytes>, String>>;

    /// Looks up a file, for `fsize` and `flastmod`.
    fn facts(&self, target: &Target) -> Result<TargetFacts, String>;

    /// Whether routes and access rules allow a request for the target, for `-A` and `-U`. The file may be
    /// missing.
    fn is_accessible(&self, target: &Target) -> bool;

    /// Whether requests can get the file at this path of the file system, for `-F`.
    fn is_file(&self, path: &[u8]) -> bool;

    /// A variable of the request, such as those of CGI (RFC 3875 section 4.1); `None`: undefined.
    fn variable(&self, name: &str) -> Option<Vec<u8>>;

    /// Whether a variable of this name may be defined for some requests. If not, the output does not depend
    /// on the request.
    fn may_define(&self, name: &str) -> bool;

    /// All variables of the request, for `printenv`.
    fn variables(&self) -> Vec<Variable>;

    /// A field of the request's head.
    fn request_field(&self, name: &[u8]) -> Option<Vec<u8>>;

    /// A variable of the server's environment, if pages may see it.
    fn system_variable(&self, name: &[u8]) -> Option<Vec<u8>>;

    /// The name of a user, for `USER_NAME`.
    fn user_name(&self, user: u32) -> Option<Vec<u8>>;

    /// Writes to the error log.
    fn report(&self, problem: Problem<'_>);
}

impl Target {
    /// Resolves `virtual="text"` on the page at `base`.
    pub fn of_virtual(base: &[u8], text: &[u8], kind: TargetKind) -> Result<Target, String> {
        let shown = || String::from_utf8_lossy(text).into_owned();
        let (path, query) = match memchr::memchr(b'?', text) {
            Some(mark) => (&text[..mark], Some(text[mark + 1..].to_vec())),
            None => (text, None),
        };
        let path = &path[..memchr::memchr(b'#', path).unwrap_or(path.len())];
        let segment = path.split(|&byte| byte == b'/').next().unwrap_or_default();
        if segment.contains(&b':') || path.starts_with(b"//") {
            return Err(format!("{:?} is not a path of this site", shown()));
        }
        if query.as_ref().is_some_and(|query| query.iter().any(|byte| byte.is_ascii_control())) {
            return Err(format!("{:?} contains a control character", shown()));
        }
        let mut whole = Vec::with_capacity(base.len() + path.len());
        match path.first() {
            Some(b'/') => {}
            // The text is only a query: the target is the page itself.
            None => encode_path(base, &mut whole),
            Some(_) => encode_path(directory(base), &mut whole),
        }
        whole.extend_from_slice(path);
        let mut normalised = Vec::with_capacity(whole.len());
        normalise_path(&whole, &mut normalised).map_err(|error| format!("{:?}: {error}", shown()))?;
        Ok(Target { path: normalised, query, kind })
    }

    /// Resolves `file="text"` in the file at `base`: a file in its directory or below.
    pub fn of_file(base: &[u8], text: &[u8]) -> Result<Target, String> {
        let shown = || String::from_utf8_lossy(text).into_owned();
        let mut path = directory(base).to_vec();
        let start = path.len();
        if text.is_empty() || text.starts_with(b"/") || text.iter().any(|byte| byte.is_ascii_control()) {
            return Err(format!("{:?} is not a path of a file beside or below the page", shown()));
        }
        for segment in text.split(|&byte| byte == b'/') {
            match segment {
                b"" | b"." => {}
                b".." if path.len() == start => {
                    return Err(format!("{:?} leads above the page's directory; use virtual", shown()));
                }
                b".." => {
                    let parent = path[..path.len() - 1].iter().rposition(|&byte| byte == b'/');
                    path.truncate(parent.map_or(start, |slash| slash + 1));
                }
                name => {
                    path.extend_from_slice(name);
                    path.push(b'/');
                }
            }
        }
        if path.len() > start {
            path.pop();
        }
        Ok(Target { path, query: None, kind: TargetKind::File })
    }
}

/// The part up to and including the last slash.
fn directory(path: &[u8]) -> &[u8] {
    let length = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    if length == 0 { b"/" } else { &path[..length] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of_virtual(text: &str) -> Option<String> {
        let target = Target::of_virtual(b"/dir/a%b/page.shtml", text.as_bytes(), TargetKind::Virtual).ok()?;
        let path = String::from_utf8(target.path).unwrap();
        let query = target.query.map(|query| format!("?{}", String::from_utf8(query).unwrap()));
        Some(path + &query.unwrap_or_default())
    }

    #[test]
    fn virtual_targets() {
        assert_eq!(of_virtual("/x/y.html").as_deref(), Some("/x/y.html"));
        assert_eq!(of_virtual("y.html?a=b%20c").as_deref(), Some("/dir/a%b/y.html?a=b%20c"));
        assert_eq!(of_virtual("../y%20z.html").as_deref(), Some("/dir/y z.html"));
        assert_eq!(of_virtual("y z.html").as_deref(), Some("/dir/a%b/y z.html"));
        assert_eq!(of_virtual("?again").as_deref(), Some("/dir/a%b/page.shtml?again"));
        for wrong in ["../../../x", "http://host/", "//host/", "/a%2fb", "/a%zz", "/a?b\nc"] {
            assert_eq!(of_virtual(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn file_targets() {
        let of_file = |text: &str| {
            let target = Target::of_file(b"/dir/page.shtml", text.as_bytes()).ok()?;
            Some(String::from_utf8(target.path).unwrap())
        };
        assert_eq!(of_file("x.html").as_deref(), Some("/dir/x.html"));
        assert_eq!(of_file("sub//./x.html").as_deref(), Some("/dir/sub/x.html"));
        assert_eq!(of_file("sub/../x%20.html").as_deref(), Some("/dir/x%20.html"));
        for wrong in ["", "/x", "../x", "a/../../x", "a\nb"] {
            assert_eq!(of_file(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn files_stay_below(text in "[a./]{0,12}") {
            if let Ok(target) = Target::of_file(b"/dir/page.shtml", text.as_bytes()) {
                prop_assert!(target.path.starts_with(b"/dir/"));
                prop_assert!(!target.path.split(|&byte| byte == b'/').any(|segment| segment == b".."));
            }
        }

        #[test]
        fn any_bytes(base in "/[a-c/]{0,6}", text in proptest::collection::vec(any::<u8>(), 0..30)) {
            _ = Target::of_virtual(base.as_bytes(), &text, TargetKind::Virtual);
            _ = Target::of_file(base.as_bytes(), &text);
        }
    }
}
