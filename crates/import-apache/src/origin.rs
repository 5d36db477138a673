//! `ProxyPass` and `ProxyPassReverse`: the origins of paths, the path that they get, and their own addresses
//! in their answers.
//!
//! Apache puts the path of the URL in the place of the beginning of the request's path, byte by byte. So a
//! slash at the end of only one of the two makes a path with two slashes, or with none.

use super::area::{is, name};
use super::host::{Host, with_slash};
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::toml_string;

/// The target of a `ProxyPass`.
pub struct Backend<'d> {
    /// The path, with a slash at its end.
    pub path: String,
    /// The path as the directive names it.
    pub named: String,
    /// The origins without a path; empty: files answer.
    pub origins: Vec<String>,
    /// The path of their URL.
    base: String,
    /// The time limit in seconds.
    pub timeout: Option<u64>,
    /// The directives that set it.
    pub lines: Vec<&'d Directive>,
}

impl Backend<'_> {
    /// Whether an origin is used only if no other is available.
    pub fn is_spare(&self, origin: &str) -> bool {
        let of_origin = |line: &&&Directive| is(line, "BalancerMember") && member(line) == origin;
        self.lines.iter().filter(of_origin).any(|line| has_status(line, &['H', 'R']))
    }
}

/// What an origin gets in the place of the request's path.
#[derive(Debug, PartialEq, Eq)]
pub enum PathForOrigin {
    /// The path of the request.
    Unchanged,
    /// The path without this beginning.
    Stripped(String),
    /// This text for `path` of `proxy`.
    Written(String),
}

impl Backend<'_> {
    /// The path of the origins' URL, and what becomes of the path in the route of an area.
    pub fn path_for_origin(&self, area: &str) -> (&str, PathForOrigin) {
        let prefix = self.named.trim_end_matches('/');
        let base = self.base.trim_end_matches('/');
        let is_socket = self.origins.iter().any(|origin| origin.starts_with("unix:"));
        if self.base == self.named || (base.is_empty() && prefix.is_empty()) {
            return ("", PathForOrigin::Unchanged);
        }
        if area == self.named && !area.ends_with('/') && !base.is_empty() {
            // Without its prefix this path would be '/'.
            return ("", PathForOrigin::Written(self.base.replace('$', "$$")));
        }
        // Slashes at the beginning of a path become one.
        let is_whole = base.is_empty() || self.base.ends_with('/') == self.named.ends_with('/');
        if is_whole && (base.is_empty() || !is_socket) {
            return match prefix.is_empty() {
                true => (base, PathForOrigin::Unchanged),
                false => (base, PathForOrigin::Stripped(prefix.to_string())),
            };
        }
        let rest = area.get(self.named.len()..).unwrap_or_default();
        let group = if area.ends_with('/') { "$1" } else { "" };
        let path = format!("{}{}", self.base, rest).replace('$', "$$");
        ("", PathForOrigin::Written(format!("{path}{group}")))
    }

    fn is_for(&self, path: &str) -> bool {
        path == self.named || path.starts_with(&self.path)
    }
}

/// The origin of a path: that of the first `ProxyPass` for it. `ProxyPass PATH !` leaves it to files.
pub fn covering<'b, 'd>(backends: &'b [Backend<'d>], path: &str) -> Option<&'b Backend<'d>> {
    backends.iter().find(|backend| backend.is_for(path)).filter(|backend| !backend.origins.is_empty())
}

/// `ProxyPass PATH URL`, and `<Proxy balancer://NAME>`. Those of sections for paths count first.
pub fn backends<'d>(host: &Host<'d>, section: &mut Section, account: &mut Account) -> Vec<Backend<'d>> {
    let mut found: Vec<Backend<'d>> = Vec::new();
    let mut locations = host.sections();
    locations.retain(|one| is(one, "Location"));
    let in_locations = locations.into_iter().rev().flat_map(|location| {
        let inside = location.inside().iter().filter(|one| is(one, "ProxyPass"));
        inside.map(move |one| (one, name(location), one.arguments.as_slice()))
    });
    let all = host
        .all("ProxyPass")
        .into_iter()
        .map(|one| (one, one.argument(0), one.arguments.get(1..).unwrap_or_default()));
    for (line, named, rest) in in_locations.chain(all) {
        let url = rest.first().map_or("", String::as_str);
        // An earlier one answers all of its requests, or the area is served from files.
        let is_covered = found.iter().any(|backend| backend.is_for(named));
        if is_covered || url == "!" {
            section.note(line.to_string());
            account.translated(line, &mut Section::default());
        }
        if is_covered {
            continue;
        }
        match backend(host, line, named, url, rest) {
            Ok(backend) => found.push(backend),
            Err(advice) => account.problem(line, section, &advice),
        }
    }
    found
}

fn backend<'d>(
    host: &Host<'d>,
    line: &'d Directive,
    named: &str,
    url: &str,
    rest: &[String],
) -> Result<Backend<'d>, String> {
    let value = |name: &str| rest.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let timeout = value("timeout").and_then(|time| time.parse().ok());
    if url.contains(['$', '%', '?']) {
        return Err("an origin is an address without variables and without a query".to_string());
    }
    let (origins, base, mut lines) = match url {
        "!" => Default::default(),
        url => addresses(host, url)?,
    };
    lines.insert(0, line);
    let (path, named) = (with_slash(named), named.to_string());
    Ok(Backend { path, named, origins, base, timeout, lines })
}

/// The origins of a URL without its path, the path, and the directives that name them.
fn addresses<'d>(host: &Host<'d>, url: &str) -> Result<(Vec<String>, String, Vec<&'d Directive>), String> {
    // `unix:/run/app.sock|http://localhost/path`
    if let Some((socket, behind)) = url.strip_prefix("unix:").and_then(|rest| rest.split_once('|')) {
        let base =
            behind.strip_prefix("http://").map(|behind| behind.find('/').map_or("", |at| &behind[at..]));
        let base =
            base.ok_or("a program behind a socket has the route key of its protocol (docs/routes.md)")?;
        return Ok((vec![format!("unix:{socket}")], base.to_string(), Vec::new()));
    }
    let (scheme, behind) = url.split_once("://").ok_or("an origin is a URL")?;
    let at = behind.find('/').unwrap_or(behind.len());
    let (authority, base) = behind.split_at(at);
    match scheme {
        "balancer" => {
            let named = format!("balancer://{authority}");
            let group = host
                .sections()
                .into_iter()
                .find(|one| is(one, "Proxy") && one.argument(0).trim_end_matches('/') == named);
            let group = group.ok_or("its <Proxy balancer://...> is missing")?;
            let members = group.inside().iter().filter(|one| is(one, "BalancerMember"));
            let used = members.clone().filter(|one| !has_status(one, &['D', 'S']));
            let origins = used.map(member).collect();
            Ok((origins, base.to_string(), [group].into_iter().chain(members).collect()))
        }
        // Connections that become WebSockets pass to any origin.
        "http" | "https" | "h2" | "h2c" | "ws" | "wss" => {
            Ok((vec![plain(&format!("{scheme}://{authority}"))], base.to_string(), Vec::new()))
        }
        "unix" => Err("write the socket as 'to = \"unix:/path\"' of 'proxy'".to_string()),
        other => Err(format!("for '{other}' use the route key of that name: see docs/routes.md")),
    }
}

/// The origin of a `BalancerMember`.
fn member(line: &Directive) -> String {
    plain(line.argument(0)).trim_end_matches('/').to_string()
}

/// Whether `status=` of a `BalancerMember` has one of these letters: `+H` and `-H`.
fn has_status(line: &Directive, letters: &[char]) -> bool {
    let mut words = line.arguments.iter().filter_map(|word| word.strip_prefix("status="));
    words.any(|status| {
        let mut is_set = true;
        status.chars().any(|letter| {
            is_set = if matches!(letter, '+' | '-') { letter == '+' } else { is_set };
            is_set && letters.contains(&letter.to_ascii_uppercase())
        })
    })
}

/// The address with the scheme that it has here.
fn plain(address: &str) -> String {
    match address.split_once("://") {
        Some(("h2c" | "ws", rest)) => format!("http://{rest}"),
        Some(("h2" | "wss", rest)) => format!("https://{rest}"),
        _ => address.to_string(),
    }
}

/// What becomes of origins' addresses, paths and domains in their answers, for all origins of a host.
#[derive(Default)]
pub struct Reverse<'d> {
    lines: Vec<&'d Directive>,
    locations: Vec<(String, String)>,
    cookie_paths: Vec<(String, String)>,
    cookie_domains: Vec<(String, String)>,
}

impl<'d> Reverse<'d> {
    /// Reads `ProxyPassReverse` and its like.
    pub fn of(
        host: &Host<'d>,
        backends: &[Backend<'d>],
        section: &mut Section,
        account: &mut Account,
    ) -> Reverse<'d> {
        let mut reverse = Reverse::default();
        let has_origins = backends.iter().any(|backend| !backend.origins.is_empty());
        for directive in ["ProxyPassReverse", "ProxyPassReverseCookiePath", "ProxyPassReverseCookieDomain"] {
            let of_host = host.all(directive).into_iter().map(|line| (line, None));
            let locations = host.sections().into_iter().filter(|one| is(one, "Location"));
            let of_locations = locations.flat_map(|location| {
                let inside = location.inside().iter().filter(|one| is(one, directive));
                inside.map(move |line| (line, Some(name(location))))
            });
            for (line, location) in of_host.chain(of_locations) {
                match has_origins.then(|| reverse.add(host, line, location)) {
                    Some(Ok(())) => reverse.lines.push(line),
                    Some(Err(advice)) => account.problem(line, section, &advice),
                    None => account.problem(
                        line,
                        section,
                        "write 'rewrite_location', 'cookie_paths' or 'cookie_domains' of 'proxy' \
                         (docs/proxy.md)",
                    ),
                }
            }
        }
        reverse
    }

    fn add(&mut self, host: &Host<'d>, line: &'d Directive, location: Option<&'d str>) -> Result<(), String> {
        let (first, second) = (line.argument(0), line.argument(1));
        if is(line, "ProxyPassReverseCookiePath") {
            return match [first, second].iter().all(|path| path.starts_with('/') && !path.contains(';')) {
                true => {
                    self.cookie_paths.push((first.to_string(), second.to_string()));
                    Ok(())
                }
                false => Err("a path begins with a slash".to_string()),
            };
        }
        if is(line, "ProxyPassReverseCookieDomain") {
            self.cookie_domains.push((first.to_string(), second.to_string()));
            return Ok(());
        }
        let (path, url) = match location {
            Some(path) if second.is_empty() => (path, first),
            _ => (first, second),
        };
        if !path.starts_with('/') || url.contains(['$', '%', '?']) {
            return Err("a path begins with a slash, and an address has no variables".to_string());
        }
        if url.starts_with('/') {
            self.locations.push((url.to_string(), path.to_string()));
            return Ok(());
        }
        let (origins, base, lines) = addresses(host, url)?;
        self.lines.extend(lines);
        for origin in origins.iter().filter(|origin| !origin.starts_with("unix:")) {
            self.locations.push(whole(format!("{origin}{base}"), base.is_empty(), path));
        }
        Ok(())
    }

    /// Writes the keys.
    pub fn write(&self, table: &mut Section, account: &mut Account) {
        self.lines.iter().for_each(|line| account.translated(line, table));
        for (key, pairs) in [
            ("location_prefixes", &self.locations),
            ("cookie_paths", &self.cookie_paths),
            ("cookie_domains", &self.cookie_domains),
        ] {
            for (from, to) in pairs {
                table.entry(key, from, toml_string(to));
            }
        }
    }
}

/// The beginning of an address with its replacement. Both get a slash where the address would otherwise be
/// that of another port too, or the path would begin with two slashes, which is the address of another host.
fn whole(address: String, is_host: bool, path: &str) -> (String, String) {
    match !address.ends_with('/') && (is_host || path == "/") {
        true => (format!("{address}/"), with_slash(path)),
        false => (address, path.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(named: &str, base: &str, origin: &str) -> Backend<'static> {
        Backend {
            path: with_slash(named),
            named: named.to_string(),
            origins: vec![origin.to_string()],
            base: base.to_string(),
            timeout: None,
            lines: Vec::new(),
        }
    }

    #[test]
    fn paths_for_origins() {
        let stripped = |prefix: &str| PathForOrigin::Stripped(prefix.to_string());
        let written = |path: &str| PathForOrigin::Written(path.to_string());
        for (named, base, area, expected) in [
            ("/", "", "/", ("", PathForOrigin::Unchanged)),
            ("/", "/", "/admin/", ("", PathForOrigin::Unchanged)),
            ("/", "/v2/", "/", ("/v2", PathForOrigin::Unchanged)),
            ("/a", "/a", "/a/", ("", PathForOrigin::Unchanged)),
            ("/a/", "/a/", "/a/b/", ("", PathForOrigin::Unchanged)),
            ("/a", "", "/a", ("", stripped("/a"))),
            ("/a", "/", "/a/", ("", stripped("/a"))),
            ("/a/", "", "/a/", ("", stripped("/a"))),
            ("/a", "/b", "/a/", ("/b", stripped("/a"))),
            ("/a", "/b", "/a", ("", written("/b"))),
            ("/a", "/b", "/a/x", ("/b", stripped("/a"))),
            ("/a/", "/b/", "/a/x/", ("/b", stripped("/a"))),
            ("/a", "/b/", "/a/", ("", written("/b//$1"))),
            ("/a", "/b/", "/a", ("", written("/b/"))),
            ("/a", "/a/", "/a/x/", ("", written("/a//x/$1"))),
            ("/a/", "/b", "/a/", ("", written("/b$1"))),
            ("/a/", "/b", "/a/x/", ("", written("/bx/$1"))),
            ("/", "/b", "/x/", ("", written("/bx/$1"))),
        ] {
            let backend = backend(named, base, "http://h");
            assert_eq!(backend.path_for_origin(area), expected, "{named} {base} {area}");
        }
        let socket = backend("/a/", "/b/", "unix:/run/a.sock");
        assert_eq!(socket.path_for_origin("/a/"), ("", written("/b/$1")));
    }

    #[test]
    fn the_first_line_for_a_path_counts() {
        let none = Backend { origins: Vec::new(), ..backend("/docs/", "", "") };
        let all = [none, backend("/a", "", "http://a"), backend("/", "", "http://b")];
        let origin = |path: &str| covering(&all, path).map(|backend| backend.origins[0].clone());
        assert_eq!(origin("/docs/x/"), None);
        assert_eq!(origin("/docs"), Some("http://b".to_string()));
        assert_eq!(origin("/a"), Some("http://a".to_string()));
        assert_eq!(origin("/a/b/"), Some("http://a".to_string()));
        assert_eq!(origin("/ab/"), Some("http://b".to_string()));
    }

    #[test]
    fn addresses_never_become_those_of_other_hosts() {
        let pair = |from: &str, to: &str| (from.to_string(), to.to_string());
        assert_eq!(whole("http://h:1".to_string(), true, "/"), pair("http://h:1/", "/"));
        assert_eq!(whole("http://h:1".to_string(), true, "/a"), pair("http://h:1/", "/a/"));
        assert_eq!(whole("http://h:1/b".to_string(), false, "/"), pair("http://h:1/b/", "/"));
        assert_eq!(whole("http://h:1/b/".to_string(), false, "/a"), pair("http://h:1/b/", "/a"));
    }
}
