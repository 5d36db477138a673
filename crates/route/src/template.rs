//! The target of a redirect or rewrite: text with variables.
//!
//! The value of a variable comes from the client, so it is encoded for its position, and a template is parsed
//! with these positions in mind. Only the template (or `$host`, the host that the client requested) chooses
//! the server of a redirect, never the path.

use std::borrow::Cow;

use touchstone_expression::variable::capture_position;
use touchstone_expression::{Fact, Piece, Scope, Source, Text, VARIABLES, Variable as Variables};
use touchstone_http::host::{is_valid_host, split_port};

use crate::escape::{append_path, append_query, append_query_part};

/// Text with variables, read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
    /// It has a `?`, so it sets the query itself.
    has_query: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Variable(Variable, Region),
    /// A variable of the language, or one whose text is more than a variable.
    Value(Text, Region),
    /// A map at the beginning: its content is a path or a URL.
    Beginning(Text),
    /// A fragment begins here.
    FragmentBegins,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variable {
    /// The match of a wildcard or group, starting at 0.
    Capture(usize),
    Path,
    Query,
    Host,
}

/// The possible beginnings of a target with a map.
const BEGINNING: [&str; 2] = ["$map{", "${map{"];

/// The part of a URI reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Region {
    Authority,
    Path,
    Query,
    Fragment,
}

/// The values of variables.
pub struct Values<'v> {
    /// The matches of the wildcards or groups.
    pub captures: &'v [&'v [u8]],
    /// The path in its normal form.
    pub path: &'v [u8],
    /// The query as it was sent.
    pub query: Option<&'v [u8]>,
    /// The host that the client requested, perhaps with a port.
    pub host: Option<&'v [u8]>,
    /// The values of all other variables.
    pub source: &'v dyn Source,
}

/// For maps, which may look up the matches of the pattern.
impl Source for Values<'_> {
    fn value<'a>(&'a self, variable: &'a Variables) -> Option<Cow<'a, [u8]>> {
        match variable.fact {
            Fact::Capture => self.captures.get(variable.position).map(|matched| Cow::Borrowed(*matched)),
            _ => self.source.value(variable),
        }
    }
}

impl Template {
    /// Parses the target of a redirect.
    pub fn redirect(text: &str, scope: Scope<'_>) -> Result<Template, String> {
        if begins_with_map(text) {
            return Parser::new(text, 0, Region::Path, scope).parse();
        }
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let scheme_length =
            ["https://", "http://"].iter().find(|scheme| lower.starts_with(**scheme)).map(|s| s.len());
        let (begin, region) = match scheme_length {
            Some(length) => (length, Region::Authority),
            None if text.starts_with("//") => {
                return Err(format!(
                    "{text:?} begins with two slashes, which names another server; write \"https:{text}\", \
                     or one slash"
                ));
            }
            None if begins_with_path(text) => (0, Region::Path),
            None => {
                return Err(format!("{text:?} must begin with '/', '$path', 'http://' or 'https://'"));
            }
        };
        let template = Parser::new(text, begin, region, scope).parse()?;
        if scheme_length.is_some() {
            template.check_authority(text, begin)?;
        }
        Ok(template)
    }

    /// Parses the path, and perhaps query, that replaces those of the request.
    pub fn rewrite(text: &str, scope: Scope<'_>) -> Result<Template, String> {
        if !begins_with_map(text) && (!begins_with_path(text) || text.starts_with("//")) {
            return Err(format!("{text:?} must begin with one '/' or with '$path'"));
        }
        let template = Parser::new(text, 0, Region::Path, scope).parse()?;
        if template.parts.contains(&Part::FragmentBegins) {
            return Err(format!("{text:?} has a fragment, which servers do not use"));
        }
        Ok(template)
    }

    /// Whether it contains variables other than those of paths.
    pub fn has_values(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Value(..) | Part::Beginning(_)))
    }

    /// Its texts with such variables.
    pub fn values(&self) -> impl Iterator<Item = &Text> {
        self.parts.iter().filter_map(|part| match part {
            Part::Value(text, _) | Part::Beginning(text) => Some(text),
            Part::Text(_) | Part::Variable(..) | Part::FragmentBegins => None,
        })
    }

    /// Whether it has a query of its own.
    pub fn has_query(&self) -> bool {
        self.has_query
    }

    /// The value of `Location`: visible ASCII only; a path or a URL, and never two slashes at the start.
    /// `None` if it needs the host and the request has no suitable one.
    pub fn location(&self, values: &Values<'_>) -> Option<Vec<u8>> {
        let mut location = self.expand(values)?;
        if location.starts_with(b"/") {
            let slashes = location.iter().take_while(|byte| **byte == b'/').count();
            location.drain(..slashes - 1);
            return Some(location);
        }
        let has_scheme = [&b"http://"[..], b"https://"].iter().any(|scheme| {
            location.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
        });
        if !has_scheme {
            return None;
        }
        // An address in brackets after `www.`, for example, is not a name of a server.
        let authority = &location[memchr::memmem::find(&location, b"//")? + 2..];
        let end = authority.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(authority.len());
        (end > 0 && is_valid_host(&authority[..end])).then_some(location)
    }

    /// The path as it would be sent, and the query.
    pub fn target(&self, values: &Values<'_>) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let mut path = self.expand(values)?;
        if !path.starts_with(b"/") || path.contains(&b'#') {
            return None;
        }
        let query = path.iter().position(|byte| *byte == b'?').map(|mark| {
            let query = path.split_off(mark);
            query[1..].to_vec()
        });
        Some((path, query))
    }

    fn expand(&self, values: &Values<'_>) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(64);
        let mut fragment_at = None;
        let mut has_query = self.has_query;
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::FragmentBegins => {
                    end_query(has_query, values, &mut out);
                    fragment_at = Some(out.len());
                    out.push(b'#');
                }
                Part::Variable(variable, region) => {
                    let begin = out.len();
                    append_variable(*variable, *region, values, &mut out)?;
                    let is_empty_query = *variable == Variable::Query && out.len() == begin;
                    if is_empty_query && out.ends_with(b"&") {
                        out.pop();
                        continue;
                    }
                    self.check_end_of_server(&out, begin)?;
                }
                Part::Value(text, Region::Query | Region::Fragment) => {
                    append_query_part(&text.render(values), &mut out);
                }
                Part::Value(text, Region::Authority) => out.extend_from_slice(&text.render(values)),
                Part::Value(text, Region::Path) => {
                    let begin = out.len();
                    append_path(&text.render(values), &mut out);
                    self.check_end_of_server(&out, begin)?;
                }
                Part::Beginning(text) => {
                    append_beginning(text, values, &mut out)?;
                    has_query |= out.contains(&b'?') || out.contains(&b'#');
                }
            }
        }
        if fragment_at.is_none() {
            end_query(has_query, values, &mut out);
        }
        Some(out)
    }

    /// `None` if the following text would change the name of the server that a map has returned.
    fn check_end_of_server(&self, out: &[u8], begin: usize) -> Option<()> {
        let begins_with_map = matches!(self.parts.first(), Some(Part::Beginning(_)));
        if !begins_with_map || out[begin..].is_empty() {
            return Some(());
        }
        let is_in_server =
            memchr::memmem::find(&out[..begin], b"://").is_some_and(|at| !out[at + 3..begin].contains(&b'/'));
        (!is_in_server || out[begin] == b'/').then_some(())
    }

    /// The name of a server, perhaps with a port, for any host.
    fn check_authority(&self, text: &str, begin: usize) -> Result<(), String> {
        let mut authority = Vec::new();
        for part in &self.parts {
            match part {
                Part::Variable(Variable::Host, Region::Authority) => authority.push(b'h'),
                Part::Value(_, Region::Authority) => authority.push(b'h'),
                Part::Text(text) => authority.extend_from_slice(text),
                _ => break,
            }
        }
        let authority = authority.get(begin..).unwrap_or_default();
        let end = authority.iter().position(|byte| b"/?".contains(byte)).unwrap_or(authority.len());
        if end == 0 || !is_valid_host(&authority[..end]) {
            return Err(format!("{text:?} does not name a server behind its '//'"));
        }
        Ok(())
    }
}

/// The query of the request, if the template does not set one; never an empty one.
fn end_query(has_query: bool, values: &Values<'_>, out: &mut Vec<u8>) {
    if !has_query && let Some(query) = values.query.filter(|query| !query.is_empty()) {
        out.push(b'?');
        append_query(query, out);
    }
    if out.ends_with(b"?") {
        out.pop();
    }
}

/// Appends the value of a map that is a path or a URL. The text of the map is used unchanged, and values of
/// the request are encoded. `None`: a value of the request would choose the server, or it is neither a path
/// nor a URL.
fn append_beginning(text: &Text, source: &dyn Source, out: &mut Vec<u8>) -> Option<()> {
    let mut is_good = true;
    text.pieces(source, &mut |piece| match piece {
        Piece::Written(bytes) => {
            is_good &= bytes.iter().all(u8::is_ascii_graphic);
            out.extend_from_slice(bytes);
        }
        Piece::Value(value) if out.contains(&b'?') || out.contains(&b'#') => append_query_part(value, out),
        Piece::Value(value) => {
            let is_path = |url: &[u8]| {
                memchr::memmem::find(url, b"://").is_none_or(|colon| url[colon + 3..].contains(&b'/'))
            };
            // The beginning must be a path, or empty.
            is_good &= match out.is_empty() {
                // A server's name follows two slashes.
                true => value.starts_with(b"/") && !value.starts_with(b"//"),
                false => is_path(&out[..]),
            };
            append_path(value, out);
        }
    });
    (is_good && !out.is_empty()).then_some(())
}

fn begins_with_map(text: &str) -> bool {
    BEGINNING.iter().any(|beginning| text.starts_with(beginning))
}

fn begins_with_path(text: &str) -> bool {
    let behind = text.strip_prefix("$path");
    let is_variable = behind
        .is_some_and(|behind| !behind.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_'));
    text.starts_with('/') || is_variable || text.starts_with("${path}")
}

fn append_variable(variable: Variable, region: Region, values: &Values<'_>, out: &mut Vec<u8>) -> Option<()> {
    let bytes = match variable {
        Variable::Capture(position) => values.captures.get(position).copied().unwrap_or_default(),
        Variable::Path => values.path,
        Variable::Query => {
            append_query(values.query.unwrap_or_default(), out);
            return Some(());
        }
        Variable::Host => {
            let host = values.host.map(|host| split_port(host).0)?;
            if host.is_empty() || !is_valid_host(host) {
                return None;
            }
            if region == Region::Authority {
                out.extend_from_slice(host);
                return Some(());
            }
            host
        }
    };
    match region {
        Region::Query | Region::Fragment => append_query_part(bytes, out),
        Region::Authority | Region::Path => append_path(bytes, out),
    }
    Some(())
}

struct Parser<'t> {
    text: &'t str,
    scope: Scope<'t>,
    rest: &'t [u8],
    region: Region,
    parts: Vec<Part>,
    has_query: bool,
}

impl<'t> Parser<'t> {
    /// A parser of `text`, of which the first `begin` bytes are known.
    fn new(text: &'t str, begin: usize, region: Region, scope: Scope<'t>) -> Parser<'t> {
        let (known, rest) = text.as_bytes().split_at(begin);
        let parts = if known.is_empty() { Vec::new() } else { vec![Part::Text(known.to_vec())] };
        Parser { text, scope, rest, region, parts, has_query: false }
    }

    fn parse(mut self) -> Result<Template, String> {
        while let [byte, rest @ ..] = self.rest {
            self.rest = rest;
            match byte {
                b'$' => self.dollar()?,
                byte => self.byte(*byte)?,
            }
        }
        Ok(Template { parts: self.parts, has_query: self.has_query })
    }

    fn byte(&mut self, byte: u8) -> Result<(), String> {
        let digits = self.rest.get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        if !byte.is_ascii_graphic() || b"\"<>\\^`{|}".contains(&byte) || byte == b'%' && !digits {
            let shown = char::from(byte);
            let what = if byte.is_ascii() { format!("{shown:?}") } else { "what is not ASCII".to_string() };
            return Err(format!("{:?} must have {what} percent-encoded, as in a URL", self.text));
        }
        match (self.region, byte) {
            (Region::Fragment, _) => {}
            (_, b'#') => {
                self.region = Region::Fragment;
                self.parts.push(Part::FragmentBegins);
                return Ok(());
            }
            (Region::Query, _) => {}
            (_, b'?') => {
                self.region = Region::Query;
                self.has_query = true;
            }
            (Region::Authority, b'/') => self.region = Region::Path,
            (Region::Authority | Region::Path, _) => {}
        }
        self.literal(byte);
        Ok(())
    }

    fn literal(&mut self, byte: u8) {
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.push(byte),
            _ => self.parts.push(Part::Text(vec![byte])),
        }
    }

    /// Parses the text after a dollar: another dollar, a number, a name, or one of these in braces.
    fn dollar(&mut self) -> Result<(), String> {
        let misses =
            || format!("{:?} has a '$' without a variable's name; write '$$' for a dollar", self.text);
        let name_of = |bytes: &'t [u8]| -> &'t [u8] {
            let is_number = bytes.first().is_some_and(u8::is_ascii_digit);
            let belongs = |byte: &u8| {
                byte.is_ascii_digit() || !is_number && (byte.is_ascii_alphabetic() || *byte == b'_')
            };
            &bytes[..bytes.iter().position(|byte| !belongs(byte)).unwrap_or(bytes.len())]
        };
        let (name, behind) = match self.rest {
            [b'$', behind @ ..] => {
                self.rest = behind;
                self.literal(b'$');
                return Ok(());
            }
            [b'{', inside @ ..] => {
                let name = name_of(inside);
                let behind = match &inside[name.len()..] {
                    // Such as `${header{accept}}`, which is read as a whole.
                    [b'{', ..] => inside,
                    behind => behind.strip_prefix(b"}").ok_or_else(misses)?,
                };
                (name, behind)
            }
            bytes => {
                let name = name_of(bytes);
                (name, &bytes[name.len()..])
            }
        };
        let name = std::str::from_utf8(name).unwrap_or_default();
        if name.is_empty() {
            return Err(misses());
        }
        match self.variable(name) {
            Ok(variable) => {
                self.rest = behind;
                self.place(name, variable)
            }
            Err(unknown) => self.variable_of_language(name, unknown),
        }
    }

    /// A variable that is not only for redirects.
    fn variable_of_language(&mut self, name: &str, unknown: String) -> Result<(), String> {
        let is_known = VARIABLES.iter().any(|entry| entry.name == name);
        let Ok(rest) = std::str::from_utf8(self.rest) else { return Err(unknown) };
        if !is_known {
            return Err(match name.bytes().all(|byte| byte.is_ascii_digit()) {
                true => unknown,
                false => match Variables::read(rest, self.scope.known, self.scope.captures) {
                    Err(meant) if meant.contains("did you mean") => meant,
                    _ => unknown,
                },
            });
        }
        let (_, behind) = Variables::read(rest, self.scope.known, self.scope.captures)?;
        let written = &rest[..rest.len() - behind.len()];
        let text = Text::read(&format!("${written}"), self.scope)?;
        self.rest = behind.as_bytes();
        let is_first = self.parts.is_empty() && self.text.starts_with('$');
        let part = match (self.region, name) {
            (_, "map") if is_first => Part::Beginning(text),
            // The names of servers are those in the map.
            (Region::Authority, "map") if text.has_plain_maps() => Part::Value(text, Region::Authority),
            (Region::Authority, _) => {
                return Err(format!(
                    "{:?} has '${name}' in the name of the server, which a client could choose then; only \
                     '$host' may stand there, and a map whose values have no variables",
                    self.text
                ));
            }
            (region, _) => Part::Value(text, region),
        };
        self.parts.push(part);
        Ok(())
    }

    fn variable(&self, name: &str) -> Result<Variable, String> {
        match name {
            "path" => return Ok(Variable::Path),
            "query" => return Ok(Variable::Query),
            "host" => return Ok(Variable::Host),
            _ => {}
        }
        let names = self.scope.captures;
        capture_position(name, names).map(Variable::Capture).ok_or_else(|| {
            let mut known: Vec<String> = (1..=names.len()).map(|number| format!("${number}")).collect();
            known.extend(names.iter().flatten().map(|name| format!("${name}")));
            known.extend(["$path", "$query", "$host"].map(str::to_string));
            format!(
                "{:?} has '${name}', which is not a variable here; there are {}",
                self.text,
                known.join(", ")
            )
        })
    }

    fn place(&mut self, name: &str, variable: Variable) -> Result<(), String> {
        match (self.region, variable) {
            // A path begins with a slash, so it ends the server's name.
            (Region::Authority, Variable::Path) => self.region = Region::Path,
            (Region::Authority, Variable::Host) => {}
            (Region::Authority, _) => {
                return Err(format!(
                    "{:?} has '${name}' in the name of the server, which a client could choose then; only \
                     '$host' may stand there",
                    self.text
                ));
            }
            (Region::Path, Variable::Query) => {
                return Err(format!("{:?} has '$query' without a '?' before it", self.text));
            }
            _ => {}
        }
        self.parts.push(Part::Variable(variable, self.region));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use touchstone_expression::{AvailableFrom, Map, MapSource, Maps, map_text};
    use touchstone_http::request_view::RequestView;

    /// A request of which only its method, its client and its host are known.
    fn nothing() -> &'static dyn Source {
        static FIELDS: &[(&str, &str); 1] = &[("x-evil", "//a b/\r\n")];
        Box::leak(Box::new(RequestView { fields: FIELDS, ..RequestView::example("/seen") }))
    }

    fn scope(names: &[Option<String>]) -> Scope<'_> {
        Scope { captures: names, ..AvailableFrom::Connection.into() }
    }

    fn maps() -> Maps {
        let mut maps = Maps::default();
        let text = "/one /two?x=1\n~^/to/(.*)$ https://example.net/$1\n~^/bad/(.*)$ https://example.net$1\n\
                    ~^/script/(.*)$ javascript:$1\n/any //example.net/\n~^/own(.*) $1\n";
        let source =
            MapSource { name: "new", from: "$path", default: "", ignore_case: false, function: None };
        let entries = map_text::read(text).unwrap().into_iter().map(|(line, entry)| (entry, line));
        let map = Map::new(&source, entries, &maps).unwrap();
        maps.add(map);
        let source = MapSource {
            name: "server",
            from: "$path",
            default: "a.example",
            ignore_case: false,
            function: None,
        };
        let map = Map::new(&source, Vec::<(map_text::Entry, usize)>::new(), &maps).unwrap();
        maps.add(map);
        maps
    }

    #[test]
    fn variables_of_the_language() {
        let maps = maps();
        let scope = Scope::from(AvailableFrom::Connection).with_maps(&maps);
        let at = |text: &str, path: &str| {
            let view = RequestView {
                fields: &[("x-evil", "//a b/?#&\r\n")],
                query: Some(b"q=1"),
                ..RequestView::example(path)
            };
            let values = Values {
                captures: &[],
                path: path.as_bytes(),
                query: view.query,
                host: view.host,
                source: &view,
            };
            let location = Template::redirect(text, scope).unwrap().location(&values)?;
            Some(String::from_utf8(location).unwrap())
        };
        let some = |text: &str| Some(text.to_string());
        assert_eq!(at("/$method?c=$client", "/"), some("/GET?c=192.0.2.1"));
        assert_eq!(at("/x$header{x-evil}", "/"), some("/x//a%20b/%3F%23&%0D%0A?q=1"));
        assert_eq!(at("/x?y=${header{x-evil}}", "/"), some("/x?y=//a%20b/%3F%23%26%0D%0A"));
        assert_eq!(at("https://$map{server}$path", "/p"), some("https://a.example/p?q=1"));
        assert_eq!(at("$map{new}", "/one"), some("/two?x=1"));
        assert_eq!(at("$map{new}", "/to/a b?"), some("https://example.net/a%20b%3F?q=1"));
        // No value of a request becomes a part of the name of a server, and only HTTP targets are possible.
        assert_eq!(at("$map{new}", "/bad/.evil.example/"), None);
        assert_eq!(at("$map{new}", "/script/alert(1)"), None);
        assert_eq!(at("$map{new}", "/none"), None);
        assert_eq!(at("$map{new}", "/own/x"), some("/x?q=1"));
        assert_eq!(at("$map{new}", "/ownx"), None);
        assert_eq!(at("$map{new}", "/any"), some("/example.net/?q=1"));
    }

    #[test]
    fn variables_refused() {
        let maps = maps();
        let scope = Scope::from(AvailableFrom::Connection).with_maps(&maps);
        let problem = |text: &str| Template::redirect(text, scope).unwrap_err();
        assert!(problem("https://$header{x}/").contains("in the name of the server"));
        assert!(problem("https://$map{new}/").contains("in the name of the server"));
        assert!(problem("/$map{none}").contains("no map \"none\""));
        assert!(problem("/$status").contains("available only when"));
        assert!(problem("/$header").contains("needs a name"));
        assert!(Template::rewrite("$map{new}", scope).is_ok());
    }

    fn names(names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| (!name.is_empty()).then(|| name.to_string())).collect()
    }

    fn values<'v>(captures: &'v [&'v [u8]], path: &'v str, query: Option<&'v str>) -> Values<'v> {
        Values {
            captures,
            path: path.as_bytes(),
            query: query.map(str::as_bytes),
            host: Some(b"Example.org:8080"),
            source: nothing(),
        }
    }

    fn location(text: &str, captures: &[&[u8]], path: &str, query: Option<&str>) -> String {
        let template = Template::redirect(text, scope(&vec![None; captures.len()])).unwrap();
        String::from_utf8(template.location(&values(captures, path, query)).unwrap()).unwrap()
    }

    #[test]
    fn locations() {
        for (text, query, expected) in [
            ("/new", None, "/new"),
            ("/new/$1", None, "/new/b/c%20d"),
            ("/new/${1}x", None, "/new/b/c%20dx"),
            ("/new/$1", Some("x=1&y=%20"), "/new/b/c%20d?x=1&y=%20"),
            ("/new?p=$1", Some("x=1"), "/new?p=b/c%20d"),
            ("/new?p=$path&$query", Some("x=1"), "/new?p=/a/b/c%20d&x=1"),
            ("/new?$query", None, "/new"),
            ("/new?", Some("x=1"), "/new"),
            ("/new#top", Some("x=1"), "/new?x=1#top"),
            ("/new?a=b#$1", Some("x=1"), "/new?a=b#b/c%20d"),
            ("/new#a?b", None, "/new#a?b"),
            ("$path", None, "/a/b/c%20d"),
            ("${path}/", None, "/a/b/c%20d/"),
            ("/x$path", None, "/x/a/b/c%20d"),
            ("https://$host$path", Some("x=1"), "https://Example.org/a/b/c%20d?x=1"),
            ("https://$host:8443$path", None, "https://Example.org:8443/a/b/c%20d"),
            ("https://www.$host/", None, "https://www.Example.org/"),
            ("HTTPS://example.net", None, "HTTPS://example.net"),
            ("https://example.net?x=$1", None, "https://example.net?x=b/c%20d"),
            ("http://[::1]:80/$1", None, "http://[::1]:80/b/c%20d"),
            ("/$$1", None, "/$1"),
            ("/price$$", None, "/price$"),
            ("/caf%C3%A9", None, "/caf%C3%A9"),
            ("/at/$host", None, "/at/Example.org"),
            ("/$1/$1", None, "/b/c%20d/b/c%20d"),
        ] {
            assert_eq!(location(text, &[b"b/c d"], "/a/b/c d", query), expected, "{text}");
        }
    }

    #[test]
    fn a_path_never_becomes_a_server() {
        for capture in [&b"/evil.example"[..], b"//evil.example", b"\\evil.example", b"/\\evil", b""] {
            for text in ["/$1", "/$1/x", "$path"] {
                let location = location(text, &[capture], "/x", None);
                assert!(location.starts_with('/') && !location.starts_with("//"), "{location}");
                assert!(!location.contains('\\'), "{location}");
            }
        }
        assert_eq!(location("/$1", &[b"/evil.example"], "/", None), "/evil.example");
        assert_eq!(location("/$1", &[b"\r\nSet-Cookie: a=b"], "/", None), "/%0D%0ASet-Cookie:%20a=b");
    }

    #[test]
    fn refused() {
        let captures = names(&["", "year"]);
        let there = "which is not a variable here; there are $1, $2, $year, $path, $query, $host";
        for (text, message) in [
            (
                "//cdn.example/x",
                "begins with two slashes, which names another server; write \"https://cdn.example/x\", or \
                 one slash",
            ),
            ("new", "must begin with '/', '$path', 'http://' or 'https://'"),
            ("", "must begin with '/', '$path', 'http://' or 'https://'"),
            ("$1", "must begin with '/', '$path', 'http://' or 'https://'"),
            ("$pathx", "must begin with '/', '$path', 'http://' or 'https://'"),
            ("javascript:alert(1)", "must begin with '/', '$path', 'http://' or 'https://'"),
            ("ftp://x/", "must begin with '/', '$path', 'http://' or 'https://'"),
            (
                "https://$1/",
                "has '$1' in the name of the server, which a client could choose then; only '$host' may \
                 stand there",
            ),
            (
                "https://example.org$1",
                "has '$1' in the name of the server, which a client could choose then; only '$host' may \
                 stand there",
            ),
            ("https:///x", "does not name a server behind its '//'"),
            ("https://", "does not name a server behind its '//'"),
            ("https://user@example.org/", "does not name a server behind its '//'"),
            ("https://$host:x/", "does not name a server behind its '//'"),
            ("https://$path", "does not name a server behind its '//'"),
            ("https://$host$host:1:2/", "does not name a server behind its '//'"),
            ("/$3", &format!("has '$3', {there}")),
            ("/$0", &format!("has '$0', {there}")),
            ("/$month", &format!("has '$month', {there}")),
            ("/$99999999999999999999", &format!("has '$99999999999999999999', {there}")),
            ("/$", "has a '$' without a variable's name; write '$$' for a dollar"),
            ("/${1", "has a '$' without a variable's name; write '$$' for a dollar"),
            ("/${}", "has a '$' without a variable's name; write '$$' for a dollar"),
            ("/$-", "has a '$' without a variable's name; write '$$' for a dollar"),
            ("/a$query", "has '$query' without a '?' before it"),
            ("/a b", "must have ' ' percent-encoded, as in a URL"),
            ("/a\r\nX: y", "must have '\\r' percent-encoded, as in a URL"),
            ("/a\\b", "must have '\\\\' percent-encoded, as in a URL"),
            ("/caf\u{e9}", "must have what is not ASCII percent-encoded, as in a URL"),
            ("/100%", "must have '%' percent-encoded, as in a URL"),
        ] {
            assert_eq!(
                Template::redirect(text, scope(&captures)).unwrap_err(),
                format!("{text:?} {message}")
            );
        }
        for (text, message) in [
            ("//x", "must begin with one '/' or with '$path'"),
            ("x", "must begin with one '/' or with '$path'"),
            ("https://x/", "must begin with one '/' or with '$path'"),
            ("/x#y", "has a fragment, which servers do not use"),
        ] {
            assert_eq!(Template::rewrite(text, scope(&captures)).unwrap_err(), format!("{text:?} {message}"));
        }
    }

    #[test]
    fn no_host_no_location() {
        let template = Template::redirect("https://$host/", scope(&[])).unwrap();
        for host in [None, Some(&b""[..]), Some(b"a b"), Some(b":80")] {
            assert_eq!(
                template.location(&Values {
                    captures: &[],
                    path: b"/",
                    query: None,
                    host,
                    source: nothing()
                }),
                None
            );
        }
        assert!(
            template
                .location(&Values {
                    captures: &[],
                    path: b"/",
                    query: None,
                    host: Some(b"[::1]:8"),
                    source: nothing()
                })
                .is_some()
        );
    }

    #[test]
    fn rewrites() {
        let target = |text: &str, query: Option<&str>| {
            let template = Template::rewrite(text, scope(&names(&[""]))).unwrap();
            let (path, query) = template.target(&values(&[b"a?b"], "/x", query)).unwrap();
            (String::from_utf8(path).unwrap(), query.map(|query| String::from_utf8(query).unwrap()))
        };
        assert_eq!(target("/index.php", Some("q=1")), ("/index.php".into(), Some("q=1".into())));
        assert_eq!(target("/index.php", None), ("/index.php".into(), None));
        assert_eq!(
            target("/index.php?p=$1&$query", Some("q=1")),
            ("/index.php".into(), Some("p=a%3Fb&q=1".into()))
        );
        assert_eq!(target("/files/$1", None), ("/files/a%3Fb".into(), None));
        assert_eq!(target("/files?", Some("q=1")), ("/files".into(), None));
    }

    proptest! {
        /// For any request: visible ASCII, and a path on this server or the server of the template.
        #[test]
        fn a_location_is_harmless(
            text in prop_oneof![
                Just("/$1"), Just("/$1$2"), Just("$path$1"), Just("/a/$1?b=$2&$query#$1"), Just("/$2$path"),
                Just("https://$host$path$1"), Just("https://example.org/$1"),
                Just("https://example.org?$query"), Just("/.$1"), Just("/$host$1"),
            ],
            captures in (prop::collection::vec(any::<u8>(), 0..12), "[/\\\\.]{0,4}[a-z:@]{0,6}"),
            path in "/[ -~]{0,12}",
            query in prop::option::of(prop::collection::vec(any::<u8>(), 0..12)),
            host in prop_oneof![Just("example.org".to_string()), Just("[::1]:80".to_string()), "[ -~]{0,12}"],
        ) {
            // A path in its normal form does not begin with two slashes.
            prop_assume!(!path.starts_with("//"));
            let template = Template::redirect(text, scope(&names(&["", ""]))).unwrap();
            let captures = [&captures.0[..], captures.1.as_bytes()];
            let values = Values {
                captures: &captures,
                path: path.as_bytes(),
                query: query.as_deref(),
                host: Some(host.as_bytes()),
                source: nothing(),
            };
            if let Some(location) = template.location(&values) {
                let is_good = |byte: &u8| byte.is_ascii_graphic() && !b"\"<>\\^`{}".contains(byte);
                prop_assert!(location.iter().all(is_good));
                let authority = location.strip_prefix(b"https://");
                match authority {
                    None => prop_assert!(location.starts_with(b"/") && !location.starts_with(b"//")),
                    Some(rest) => {
                        let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
                        let expected = [&b"example.org"[..], split_port(host.as_bytes()).0];
                        prop_assert!(expected.contains(&&rest[..end]), "{:?}", rest);
                    }
                }
            }
        }

        #[test]
        fn no_text_panics(text in "[/$a-z{}?#:1-9%]{0,20}|\\PC{0,16}") {
            let redirect = Template::redirect(&text, scope(&names(&["", "a"])));
            let rewrite = Template::rewrite(&text, scope(&names(&["a"])));
            for template in [redirect, rewrite].into_iter().flatten() {
                template.location(&values(&[b"x"], "/", Some("q")));
                template.target(&values(&[b"x"], "/", None));
            }
        }
    }
}
