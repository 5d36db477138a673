//! What a system under test can do, and what a suite can ask for: the words that both sides use.

/// Every capability: its name, and what a system does that has it, as "does not ..." goes on.
const CAPABILITIES: [(&str, &str); 9] = [
    ("files", "serve files"),
    ("includes", "carry out the directives of pages (SHTML)"),
    ("cgi", "run CGI programs"),
    ("fastcgi", "ask FastCGI programs"),
    ("nsapi", "run NSAPI plug-ins"),
    ("servlet", "run servlets"),
    ("jsp", "run Java Server Pages"),
    ("ajp", "ask servlet containers over AJP"),
    ("cache", "keep the answers of another server"),
];

/// Serving files: what a workload of files needs.
pub const FILES: &str = "files";

/// Whether there is such a capability.
pub(crate) fn is_known(name: &str) -> bool {
    CAPABILITIES.iter().any(|(known, _)| *known == name)
}

/// The names of all.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CAPABILITIES.iter().map(|(name, _)| *name)
}

/// What a system does that has it, for example `run CGI programs`.
pub(crate) fn in_words(name: &str) -> &str {
    CAPABILITIES.iter().find(|(known, _)| *known == name).map_or(name, |(_, words)| words)
}
