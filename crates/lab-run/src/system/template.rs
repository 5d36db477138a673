//! Templates of commands and configuration files: text with `{placeholders}` and with optional parts between
//! `{?name}` and `{/name}`.
//!
//! Only braces around lower-case letters and underscores are placeholders, so that the braces of
//! configuration languages stay unchanged. The name of a part is a capability that the run needs of the
//! system, `as_root` if this program runs as root, `conformance` if rules are tested, `speed` if it is
//! measured, or `jars` if those of the server's own servlets were copied; a name with `_and_` requires all of
//! its names.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use touchstone_lab::capability;
use touchstone_lab::definition::nearest;

/// The placeholders that there are.
pub(super) const PLACEHOLDERS: [&str; 17] = [
    "executable",
    "prefix",
    "root",
    "directory",
    "address",
    "port",
    "origin_port",
    "tls_port",
    "certificate",
    "certificate_key",
    "cores",
    "mean_body_bytes",
    "programs",
    "jars",
    "sockets",
    "user",
    "group",
];

/// The part for runs of this program as root.
const AS_ROOT: &str = "as_root";
/// The part for runs with copied jars of servlets, and the placeholder of the copy.
const JARS: &str = "jars";
/// The parts for the two kinds of run: rules are tested, or speed is measured.
pub(crate) const CONFORMANCE: &str = "conformance";
const SPEED: &str = "speed";
/// The parts that are no capabilities.
const PARTS: [&str; 4] = [AS_ROOT, JARS, CONFORMANCE, SPEED];
/// Joins the names of a part that needs all of them.
const AND: &str = "_and_";

/// The values of the placeholders.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// The executable that was found.
    pub executable: &'a Path,
    /// The tree to serve.
    pub root: &'a Path,
    /// The system's own directory: its configuration, its output, its temporary files.
    pub directory: &'a Path,
    /// The address to listen on.
    pub address: IpAddr,
    /// The port to listen on.
    pub port: u16,
    /// The port that its origin listens on; 0 if it has none.
    pub origin_port: u16,
    /// The port to listen on with TLS; 0 if it is not needed.
    pub tls_port: u16,
    /// The certificate for that port, PEM.
    pub certificate: &'a Path,
    /// Its key, PEM.
    pub certificate_key: &'a Path,
    /// How many processors it is given.
    pub cores: usize,
    /// The workload's mean body, rounded.
    pub mean_body_bytes: u64,
    /// The directory of the SPICE programs.
    pub programs: &'a Path,
    /// A copy of the jars of the server's own servlets; absent: it reads those beside the program.
    pub jars: Option<&'a Path>,
    /// A directory with a short path, for unix sockets.
    pub sockets: &'a Path,
    /// The unprivileged user that servers switch to when root starts them; otherwise the user of this
    /// program.
    pub user: &'a str,
    /// That user's group.
    pub group: &'a str,
    /// Whether this program runs as root.
    pub as_root: bool,
    /// The capabilities that the run needs of the system.
    pub needs: &'a [&'a str],
}

impl Values<'_> {
    /// The text with every placeholder replaced, and without the parts that are not needed.
    pub(super) fn fill(&self, template: &str) -> String {
        // A malformed template is refused when it is read.
        let pieces = pieces(template).unwrap_or_default();
        let has = |name: &str| match name {
            AS_ROOT => self.as_root,
            JARS => self.jars.is_some(),
            SPEED => !self.needs.contains(&CONFORMANCE),
            capability => self.needs.contains(&capability),
        };
        let stands = |piece: &&Piece<'_>| piece.only_with.is_none_or(|names| names.split(AND).all(has));
        pieces.iter().filter(stands).map(|piece| self.fill_placeholders(piece.text)).collect()
    }

    fn fill_placeholders(&self, template: &str) -> String {
        let mut filled = String::with_capacity(template.len() + 64);
        let mut rest = template;
        while let Some((before, name, after)) = next_placeholder(rest) {
            filled.push_str(before);
            match self.value(name) {
                Some(value) => filled.push_str(&value),
                None => filled.push_str(&format!("{{{name}}}")),
            }
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    fn value(&self, name: &str) -> Option<String> {
        Some(match name {
            "executable" => self.executable.display().to_string(),
            "prefix" => prefix(self.executable).display().to_string(),
            "root" => self.root.display().to_string(),
            "directory" => self.directory.display().to_string(),
            // In brackets where it has colons, so that a port can follow.
            "address" if self.address.is_ipv6() => format!("[{}]", self.address),
            "address" => self.address.to_string(),
            "port" => self.port.to_string(),
            "origin_port" => self.origin_port.to_string(),
            "tls_port" => self.tls_port.to_string(),
            "certificate" => self.certificate.display().to_string(),
            "certificate_key" => self.certificate_key.display().to_string(),
            "cores" => self.cores.to_string(),
            "mean_body_bytes" => self.mean_body_bytes.to_string(),
            "programs" => self.programs.display().to_string(),
            JARS => self.jars.map_or_else(String::new, |jars| jars.display().to_string()),
            "sockets" => self.sockets.display().to_string(),
            "user" => self.user.to_string(),
            "group" => self.group.to_string(),
            _ => return None,
        })
    }
}

/// Where the system is installed: the directory above that of its executable, for example `/usr`.
fn prefix(executable: &Path) -> PathBuf {
    // A link to the executable may be elsewhere.
    let executable = executable.canonicalize().unwrap_or_else(|_| executable.to_path_buf());
    executable.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_path_buf()
}

/// The fault of a template, if it has one.
pub(super) fn problem(template: &str) -> Option<String> {
    let pieces = match pieces(template) {
        Ok(pieces) => pieces,
        Err(problem) => return Some(problem),
    };
    let known_part =
        |names: &str| names.split(AND).all(|name| PARTS.contains(&name) || capability::is_known(name));
    if let Some(unknown) = pieces.iter().filter_map(|piece| piece.only_with).find(|name| !known_part(name)) {
        let known: Vec<&str> = capability::names().chain(PARTS).collect();
        return Some(format!("there is no part {{?{unknown}}}; known: {}", known.join(", ")));
    }
    let unknown = pieces.iter().find_map(|piece| unknown_placeholder(piece.text))?;
    let advice = match nearest(unknown, PLACEHOLDERS) {
        Some(known) => format!("did you mean {{{known}}}?"),
        None => format!("known: {}", PLACEHOLDERS.map(|name| format!("{{{name}}}")).join(", ")),
    };
    Some(format!("there is no placeholder {{{unknown}}}; {advice}"))
}

/// A stretch of a template.
#[derive(Debug, PartialEq)]
struct Piece<'t> {
    /// Its part; absent: it is always included.
    only_with: Option<&'t str>,
    text: &'t str,
}

/// Splits a template at its marks. Parts are not nested.
fn pieces(template: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut open: Option<&str> = None;
    let mut rest = template;
    while let Some(mark) = next_mark(rest) {
        match (open, mark.begins) {
            (None, true) => {}
            (Some(name), false) if name == mark.name => {}
            (Some(name), _) => return Err(format!("the part {{?{name}}} has no {{/{name}}}")),
            (None, false) => return Err(format!("there is no {{?{0}}} before {{/{0}}}", mark.name)),
        }
        pieces.push(Piece { only_with: open, text: mark.before });
        open = mark.begins.then_some(mark.name);
        rest = mark.after;
    }
    match open {
        Some(name) => Err(format!("the part {{?{name}}} has no {{/{name}}}")),
        None => {
            pieces.push(Piece { only_with: None, text: rest });
            Ok(pieces)
        }
    }
}

/// A `{?name}` or `{/name}` with the text around it.
struct Mark<'t> {
    begins: bool,
    name: &'t str,
    before: &'t str,
    after: &'t str,
}

fn next_mark(text: &str) -> Option<Mark<'_>> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        let inside = &text[open + 1..];
        let kind = inside.as_bytes().first();
        if matches!(kind, Some(b'?' | b'/')) {
            let length = name_length(&inside[1..]);
            if length > 0 && inside.as_bytes().get(1 + length) == Some(&b'}') {
                let (before, after) = without_its_line(&text[..open], &inside[2 + length..]);
                return Some(Mark { begins: kind == Some(&b'?'), name: &inside[1..=length], before, after });
            }
        }
        from = open + 1;
    }
    None
}

/// If a mark is alone on its line, the line is removed with it.
fn without_its_line<'t>(before: &'t str, after: &'t str) -> (&'t str, &'t str) {
    let line = before.trim_end_matches([' ', '\t']);
    match after.strip_prefix('\n') {
        Some(following) if line.is_empty() || line.ends_with('\n') => (line, following),
        _ => (before, after),
    }
}

/// The first unknown placeholder, if any.
fn unknown_placeholder(template: &str) -> Option<&str> {
    let mut rest = template;
    while let Some((_, name, after)) = next_placeholder(rest) {
        if !PLACEHOLDERS.contains(&name) {
            return Some(name);
        }
        rest = after;
    }
    None
}

/// The text before the next `{name}`, the name, and the text after it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        let inside = &text[open + 1..];
        let length = name_length(inside);
        if length > 0 && inside.as_bytes().get(length) == Some(&b'}') {
            return Some((&text[..open], &inside[..length], &inside[length + 1..]));
        }
        from = open + 1;
    }
    None
}

fn name_length(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_lowercase() || *byte == b'_').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values() -> Values<'static> {
        Values {
            executable: Path::new("/bin/server"),
            root: Path::new("/tree"),
            directory: Path::new("/results"),
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            port: 80,
            origin_port: 81,
            tls_port: 443,
            certificate: Path::new("/c.pem"),
            certificate_key: Path::new("/k.pem"),
            cores: 2,
            mean_body_bytes: 8348,
            programs: Path::new("/programs"),
            jars: None,
            sockets: Path::new("/tmp/s"),
            user: "nobody",
            group: "nogroup",
            as_root: false,
            needs: &["cgi"],
        }
    }

    #[test]
    fn placeholders_are_replaced_and_other_braces_stand() {
        let template = "events { x {cores}; } server {root}:{port} {} { {directory}/{Name} {{port}} \
                        {programs} {sockets}";
        let expected = "events { x 2; } server /tree:80 {} { /results/{Name} {80} /programs /tmp/s";
        assert_eq!(values().fill(template), expected);
    }

    #[test]
    fn the_prefix_is_where_the_executable_is_installed() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        std::fs::create_dir_all(place.join("opt/sbin")).unwrap();
        std::fs::write(place.join("opt/sbin/server"), "").unwrap();
        std::os::unix::fs::symlink(place.join("opt/sbin/server"), place.join("server")).unwrap();
        let expected = place.join("opt").display().to_string();
        for executable in [place.join("opt/sbin/server"), place.join("server")] {
            assert_eq!(Values { executable: &executable, ..values() }.fill("{prefix}"), expected);
        }
        for (executable, expected) in [("/nowhere/sbin/a", "/nowhere/lib"), ("/nowhere", "//lib")] {
            let values = Values { executable: Path::new(executable), ..values() };
            assert_eq!(values.fill("{prefix}/lib"), expected);
        }
    }

    #[test]
    fn parts_stand_only_where_they_are_asked_for() {
        let template = "a\n  {?cgi}\n  cgi {port}\n  {/cgi}\n{?nsapi}\nnsapi {\n}\n{/nsapi}\n\
                        x{?as_root} root{/as_root};\n";
        assert_eq!(values().fill(template), "a\n  cgi 80\nx;\n");
        let root = Values { as_root: true, needs: &["nsapi"], ..values() };
        assert_eq!(root.fill(template), "a\nnsapi {\n}\nx root;\n");
        assert_eq!(problem(template), None);
        let template = "{?jars}[java]\nlibrary = '{jars}'\n{/jars}x\n";
        assert_eq!(values().fill(template), "x\n");
        let copied = Values { jars: Some(Path::new("/jars")), ..values() };
        assert_eq!(copied.fill(template), "[java]\nlibrary = '/jars'\nx\n");
        assert_eq!(problem(template), None);
    }

    #[test]
    fn bad_templates_say_what_is_wrong() {
        let cases = [
            ("{root} {prot} {port}", "there is no placeholder {prot}; did you mean {port}?"),
            ("{?cgi} {prot} {/cgi}", "there is no placeholder {prot}"),
            ("{?cgj}{/cgj}", "there is no part {?cgj}; known: files, includes, cgi,"),
            ("{?cgi_and_cgj}{/cgi_and_cgj}", "there is no part {?cgi_and_cgj}"),
            ("{?cgi} open", "the part {?cgi} has no {/cgi}"),
            ("{?cgi}{?nsapi}{/nsapi}{/cgi}", "the part {?cgi} has no {/cgi}"),
            ("shut {/cgi}", "there is no {?cgi} before {/cgi}"),
        ];
        for (template, expected) in cases {
            let found = problem(template).unwrap();
            assert!(found.starts_with(expected), "{found}");
        }
        assert_eq!(problem("http { server { listen {port}; } } {?} {/x"), None);
    }

    proptest! {
        #[test]
        fn text_without_braces_is_kept(text in "[^{}]{0,100}") {
            prop_assert_eq!(values().fill(&text), text);
        }

        #[test]
        fn no_template_panics(text in "([{}a-z_é ?/\n]|\\{\\?cgi\\}|\\{/cgi\\}){0,60}") {
            let _ = values().fill(&text);
            let _ = problem(&text);
        }
    }
}
