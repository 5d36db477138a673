//! Matchers: the requests that a directive applies to, and the route keys that match the same requests.

use std::collections::{BTreeMap, BTreeSet};

use super::comparison::{networks_of, of_clients, of_hosts};
use super::condition::{condition, negated};
use super::context::{Context, NamedMatchers, variable};
use super::placeholder::plain;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression::{self, quoted};
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// The conditions of a matcher. All of them must be true.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matcher {
    /// One of these paths; empty: any path.
    pub paths: Vec<String>,
    /// The path ends in one of these; empty: any ending.
    pub suffixes: Vec<String>,
    /// The path matches this expression.
    pub expression: Option<String>,
    /// One of these methods; empty: any method.
    pub methods: Vec<String>,
    /// Fields of the request and their values.
    pub fields: BTreeMap<String, String>,
    /// Only clients of these networks.
    pub only_from: Vec<String>,
    /// All clients except those of these networks.
    pub not_from: Vec<String>,
    /// One of these host names; empty: any name.
    pub hosts: Vec<String>,
    /// These conditions hold.
    pub whens: BTreeSet<String>,
}

impl Matcher {
    /// The matcher of a directive, and the remaining arguments.
    ///
    /// # Errors
    /// The part of the matcher that has no counterpart.
    pub fn of<'d>(
        directive: &'d Directive,
        named: &NamedMatchers<'d>,
        context: &Context,
    ) -> Result<(Matcher, &'d [String]), String> {
        let Some((first, rest)) = directive.arguments.split_first() else {
            return Ok((Matcher::default(), &[]));
        };
        if first == "*" {
            return Ok((Matcher::default(), rest));
        }
        if first.starts_with('/') {
            return Ok((Matcher::of_path(first), rest));
        }
        if let Some(name) = first.strip_prefix('@') {
            let definition = named.get(name).ok_or(format!("the matcher '@{name}' is not defined"))?;
            return Ok((Matcher::read(definition, context)?, rest));
        }
        Ok((Matcher::default(), directive.arguments.as_slice()))
    }

    /// A matcher for one path.
    pub fn of_path(path: &str) -> Matcher {
        let is_any = path == "*" || path == "/*";
        let paths = if is_any { Vec::new() } else { vec![path.to_string()] };
        Matcher { paths, ..Matcher::default() }.with_suffixes()
    }

    /// The definition `@name { ... }`, or the same in one line.
    fn read(definition: &Directive, context: &Context) -> Result<Matcher, String> {
        let mut matcher = Matcher::default();
        match definition.arguments.split_first() {
            // `@name not { ... }`: the block is that of the `not`.
            Some((name, [])) if name == "not" => {
                matcher
                    .whens
                    .insert(negated(&Directive { arguments: Vec::new(), ..definition.clone() }, context)?);
                return Ok(matcher);
            }
            // An expression alone is one line, in quotes.
            Some((name, [])) if name.contains(['(', '{', ' ']) => {
                matcher.add("expression", std::slice::from_ref(name), context)?;
            }
            Some((name, arguments)) => matcher.add(name, arguments, context)?,
            None => {}
        }
        for line in definition.inside() {
            if line.name == "not" && !line.inside().is_empty() {
                matcher.whens.insert(negated(line, context)?);
                continue;
            }
            matcher.add(&line.name, &line.arguments, context)?;
        }
        Ok(matcher.with_suffixes())
    }

    /// Moves paths such as `*.php` to the suffixes if all paths are of this form: a route has a key for each
    /// kind.
    fn with_suffixes(mut self) -> Matcher {
        if self.paths.iter().all(|path| suffix(path).is_some()) {
            self.suffixes = self.paths.iter().filter_map(|path| suffix(path)).map(String::from).collect();
            self.paths.clear();
        }
        self
    }

    fn add(&mut self, name: &str, arguments: &[String], context: &Context) -> Result<(), String> {
        let takes_braces = ["expression", "vars", "not"].contains(&name) || name.ends_with("_regexp");
        if !takes_braces && arguments.iter().any(|argument| argument.contains('{')) {
            return Err("placeholders are not supported in a condition".to_string());
        }
        match (name, arguments) {
            ("path", paths) => self.paths.extend(paths.iter().cloned()),
            ("path_regexp", [expression] | [_, expression]) => {
                self.expression = Some(expression::whole_path(expression, false)?);
            }
            ("method", methods) => {
                self.methods.extend(methods.iter().map(|method| method.to_ascii_uppercase()));
            }
            ("header", [field, value]) if !field.starts_with('!') => {
                _ = self.fields.insert(field.clone(), value.clone());
            }
            ("header", [field]) => {
                let value = if field.starts_with('!') { "" } else { "*" };
                self.fields.insert(field.trim_start_matches('!').to_string(), value.to_string());
            }
            ("host", hosts) => self.hosts.extend(hosts.iter().cloned()),
            ("remote_ip" | "client_ip", networks) => self.only_from.extend(networks_of(networks)),
            ("not", [name, networks @ ..]) if name == "remote_ip" || name == "client_ip" => {
                self.not_from.extend(networks_of(networks));
            }
            ("not", [name, rest @ ..]) => {
                self.whens.insert(format!("not ({})", condition(name, rest, context)?));
            }
            // The variable has one value for all requests.
            ("vars", [of, values @ ..])
                if plain(&variable(of), &context.for_condition())
                    .is_ok_and(|value| values.contains(&value)) => {}
            ("protocol", [protocol]) if protocol == "grpc" => {
                self.fields.insert("Content-Type".to_string(), "application/grpc*".to_string());
            }
            (other, _) => {
                self.whens.insert(condition(other, arguments, context)?);
            }
        }
        Ok(())
    }

    /// The matcher of a directive in a block that removes this prefix from the path: it has the prefix again.
    ///
    /// # Errors
    /// A condition on the path that cannot get it.
    pub fn below(&self, prefix: &str) -> Result<Matcher, String> {
        if prefix.is_empty() {
            return Ok(self.clone());
        }
        if self.whens.iter().any(|when| when.contains("$path")) {
            return Err("its path is that without the prefix: write a route for the whole path".to_string());
        }
        let longer = |path: &String| match path.starts_with('/') {
            true => format!("{prefix}{path}"),
            false => path.clone(),
        };
        let expression = self.expression.as_ref();
        Ok(Matcher {
            paths: self.paths.iter().map(longer).collect(),
            expression: expression.map(|own| format!("{}(?:{own})", expression::literal(prefix))),
            ..self.clone()
        })
    }

    /// Whether it matches every request.
    pub fn is_any(&self) -> bool {
        *self == Matcher::default()
    }

    /// Whether it has a condition on the path.
    pub fn has_path(&self) -> bool {
        let has_when = self.whens.iter().any(|when| when.contains("$path"));
        !self.paths.is_empty() || !self.suffixes.is_empty() || self.expression.is_some() || has_when
    }

    /// Whether a path meets the conditions on it; `None`: that is not known, or there are other conditions.
    pub fn matches_path(&self, path: &str) -> Option<bool> {
        let is_one = |patterns: &[String]| {
            patterns.is_empty() || patterns.iter().any(|pattern| fits(&pattern.to_ascii_lowercase(), path))
        };
        let lower = path.to_ascii_lowercase();
        let has_suffix =
            self.suffixes.is_empty() || self.suffixes.iter().any(|suffix| lower.ends_with(suffix));
        if !is_one(&self.paths) || !has_suffix {
            return Some(false);
        }
        let of_path =
            Matcher { paths: self.paths.clone(), suffixes: self.suffixes.clone(), ..Matcher::default() };
        (*self == of_path).then_some(true)
    }

    /// How specific its only path is. Caddy sorts directives of one name by it: longer paths first, no path
    /// last.
    pub fn path_length(&self) -> usize {
        match self.paths.as_slice() {
            [path] => path.trim_end_matches('*').len() + 1,
            [] if self.is_any() => 0,
            _ => 1,
        }
    }

    /// The intersection of two matchers; `None`: their paths show that no request can match both.
    ///
    /// # Errors
    /// A route cannot express the intersection.
    pub fn and(&self, other: &Matcher) -> Result<Option<Matcher>, String> {
        let mut both = self.clone();
        both.methods.extend(other.methods.iter().cloned());
        match (self.only_from.is_empty(), other.only_from.is_empty()) {
            (true, _) => both.only_from.clone_from(&other.only_from),
            (false, false) if self.only_from != other.only_from => {
                // A client must be in a network of each list.
                both.whens.insert(of_clients(&other.only_from)?);
            }
            _ => {}
        }
        both.not_from.extend(other.not_from.iter().cloned());
        both.whens.extend(other.whens.iter().cloned());
        for (name, value) in &other.fields {
            if both.fields.insert(name.clone(), value.clone()).is_some_and(|before| before != *value) {
                return Err(format!("two conditions for the field {name}"));
            }
        }
        if !self.methods.is_empty() && !other.methods.is_empty() && self.methods != other.methods {
            both.methods = self.methods.iter().filter(|&m| other.methods.contains(m)).cloned().collect();
            if both.methods.is_empty() {
                return Ok(None);
            }
        }
        both.methods.dedup();
        match (self.suffixes.is_empty(), other.suffixes.is_empty()) {
            (_, true) => {}
            (true, false) => both.suffixes.clone_from(&other.suffixes),
            (false, false) => {
                both.suffixes = suffixes_of_both(&self.suffixes, &other.suffixes);
                if both.suffixes.is_empty() {
                    return Ok(None);
                }
            }
        }
        match (self.hosts.is_empty(), other.hosts.is_empty()) {
            (_, true) => {}
            (true, false) => both.hosts.clone_from(&other.hosts),
            _ if self.hosts.iter().chain(&other.hosts).any(|host| host.contains('*')) => {
                both.whens.insert(of_hosts(&other.hosts)?);
            }
            (false, false) => {
                both.hosts = self.hosts.iter().filter(|&h| other.hosts.contains(h)).cloned().collect();
                if both.hosts.is_empty() {
                    return Ok(None);
                }
            }
        }
        both.expression = match (&self.expression, &other.expression) {
            (Some(one), Some(other)) if one != other => {
                both.whens.insert(as_when(other)?);
                Some(one.clone())
            }
            (one, other) => one.clone().or(other.clone()),
        };
        match (self.paths.as_slice(), other.paths.as_slice()) {
            (_, []) => {}
            ([], paths) => both.paths = paths.to_vec(),
            (outer, inner) if outer == inner => {}
            // Whether a path is in both is seen only when a request has come.
            (outer, inner) if !outer.iter().chain(inner).all(|path| is_beginning(path)) => {
                both.whens.insert(as_when(&format!("(?i){}", all_of(inner)))?);
            }
            (outer, inner) => match paths_of_both(outer, inner) {
                Some(paths) => both.paths = paths,
                None => return Ok(None),
            },
        }
        Ok(Some(both))
    }

    /// Writes the keys; the error states why the matcher cannot be written.
    pub fn keys(&self, route: &mut Section) -> Result<(), String> {
        match self.paths.as_slice() {
            [] => {}
            [path] => path_key(path, route),
            paths => route.key("pattern", toml_string(&all_of(paths))),
        }
        let mut whens = self.whens.clone();
        match &self.expression {
            // A route has one pattern.
            Some(expression) if route.has("pattern") => _ = whens.insert(as_when(expression)?),
            Some(expression) => route.key("pattern", toml_string(expression)),
            None => {}
        }
        if !self.suffixes.is_empty() {
            route.key("suffixes", toml_strings(&self.suffixes));
        }
        if !self.methods.is_empty() {
            route.key("methods", toml_strings(&self.methods));
        }
        if !self.hosts.is_empty() {
            whens.insert(of_hosts(&self.hosts)?);
        }
        if !self.only_from.is_empty() {
            whens.insert(of_clients(&self.only_from)?);
        }
        if !self.not_from.is_empty() {
            whens.insert(format!("not ({})", of_clients(&self.not_from)?));
        }
        if !whens.is_empty() {
            let grouped = |when: &String| match whens.len() > 1 && when.contains(" or ") {
                true => format!("({when})"),
                false => when.clone(),
            };
            let whens: Vec<String> = whens.iter().map(grouped).collect();
            route.key("when", toml_string(&whens.join(" and ")));
        }
        for (name, value) in &self.fields {
            route.entry("request_headers", name, toml_string(value));
        }
        if self.paths.is_empty() && self.suffixes.is_empty() && self.expression.is_none() {
            route.key("path", toml_string("/"));
        }
        Ok(())
    }
}

/// How the keys of a route are written that keeps clients from an origin or a script.
///
/// Caddy ignores case in paths, and dots and spaces at their end; it compares `/x.sql/.` as `/x.sql`. A
/// program may do the same. So these keys match a path in any case, and with these endings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The route redirects.
    Redirect,
    /// The route refuses: paths with a slash at their end are refused, too.
    Refusal,
    /// The route admits some clients, also for paths with a slash at their end.
    Clients,
}

impl Matcher {
    /// Writes the keys of a route that guards what is behind it.
    ///
    /// # Errors
    /// As for [`Matcher::keys`].
    pub fn keys_of_guard(&self, guard: Guard, route: &mut Section) -> Result<(), String> {
        let mut matcher = Matcher { paths: Vec::new(), suffixes: Vec::new(), ..self.clone() };
        let suffixes: Vec<String> = self.suffixes.iter().map(|suffix| format!("*{suffix}")).collect();
        let end = if guard == Guard::Redirect { "[. ]*" } else { "[/. ]*" };
        if guard == Guard::Refusal {
            matcher.expression = matcher.expression.map(|own| format!("(?:{own})/?"));
        }
        for paths in [&self.paths, &suffixes].into_iter().filter(|paths| !paths.is_empty()) {
            let pattern = format!("(?i)(?:{}){end}", all_of(paths));
            match matcher.expression {
                None => matcher.expression = Some(pattern),
                Some(_) => _ = matcher.whens.insert(as_when(&pattern)?),
            }
        }
        matcher.keys(route)
    }
}
/// Whether a path fits a pattern in lower case, in which `*` is any text.
fn fits(pattern: &str, path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| lower.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(before) = last.replace(part) {
            match rest.find(before) {
                Some(at) => rest = &rest[at + str::len(before)..],
                None => return false,
            }
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

/// `*.php`
fn suffix(path: &str) -> Option<&str> {
    path.strip_prefix('*').filter(|rest| !rest.is_empty() && !rest.contains('*'))
}

fn path_key(path: &str, route: &mut Section) {
    let stem = path.strip_suffix('*').unwrap_or(path);
    if stem.contains('*') {
        route.key("pattern", toml_string(&as_expression(path)));
    } else if stem == path && !path.ends_with('/') {
        route.key("path", toml_string(path));
    } else if stem == path {
        route.key("pattern", toml_string(&expression::literal(path)));
    } else if stem.ends_with('/') {
        route.key("path", toml_string(stem));
    } else {
        route.key("path", toml_string(&format!("{stem}**")));
    }
}

/// The condition that the whole path matches an expression.
fn as_when(expression: &str) -> Result<String, String> {
    Ok(format!("$path =~ {}", quoted(&format!("^(?:{expression})$"))?))
}

fn as_expression(path: &str) -> String {
    path.split('*').map(expression::literal).collect::<Vec<_>>().join("(?s:.*)")
}

/// The expression for one of these paths.
fn all_of(paths: &[String]) -> String {
    paths.iter().map(|path| as_expression(path)).collect::<Vec<_>>().join("|")
}

/// `/a` or `/a/*`
fn is_beginning(path: &str) -> bool {
    !path.strip_suffix('*').unwrap_or(path).contains('*')
}

/// The endings that have one of both lists.
fn suffixes_of_both(one: &[String], other: &[String]) -> Vec<String> {
    let longer = |list: &[String], others: &[String]| -> Vec<String> {
        let ends = |suffix: &&String| others.iter().any(|other| suffix.ends_with(other.as_str()));
        list.iter().filter(ends).cloned().collect()
    };
    let mut both = longer(one, other);
    both.extend(longer(other, one).into_iter().filter(|suffix| !one.contains(suffix)));
    both
}

/// The intersection of two lists of paths; `None`: it is empty.
fn paths_of_both(outer: &[String], inner: &[String]) -> Option<Vec<String>> {
    let begin = |path: &String| path.strip_suffix('*').map(str::to_string);
    let mut both = Vec::new();
    for inner in inner {
        for outer in outer {
            let fits = match (begin(outer), begin(inner)) {
                _ if outer == inner => Some(inner.clone()),
                (Some(outer), _) if !outer.contains('*') && inner.starts_with(&outer) => Some(inner.clone()),
                (_, Some(begin)) if !begin.contains('*') && outer.starts_with(&begin) => Some(outer.clone()),
                _ => None,
            };
            both.extend(fits);
        }
    }
    (!both.is_empty()).then_some(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(matcher: &Matcher) -> String {
        let mut route = Section::new("[[site.route]]");
        matcher.keys(&mut route).unwrap();
        let mut text = String::new();
        route.write(&mut text);
        text.trim().replace("[[site.route]]\n", "")
    }

    #[test]
    fn paths_as_keys() {
        for (path, expected) in [
            ("/a", "path = \"/a\""),
            ("/a/*", "path = \"/a/\""),
            ("/a*", "path = \"/a**\""),
            ("/a/", "pattern = \"/a/\""),
            ("*.php", "suffixes = [\".php\"]"),
            ("*", "path = \"/\""),
            ("/a/*/b", "pattern = \"/a/(?s:.*)/b\""),
        ] {
            assert_eq!(keys(&Matcher::of_path(path)), expected, "{path}");
        }
    }

    #[test]
    fn paths_that_fit() {
        for (pattern, path, expected) in [
            ("/a/*", "/a/b", true),
            ("/a/*", "/A/b", true),
            ("/a/*", "/a", false),
            ("/a*", "/abc", true),
            ("/a/*/c", "/a/b/c", true),
            ("/a/*/c", "/a/c", false),
            ("*x*y", "/x1y", true),
            ("/a", "/a", true),
            ("/a", "/ab", false),
        ] {
            assert_eq!(fits(pattern, path), expected, "{pattern} {path}");
        }
        let matcher = Matcher::of_path("/a/*");
        assert_eq!((matcher.matches_path("/a/x"), matcher.matches_path("/b")), (Some(true), Some(false)));
        let with_method = Matcher { methods: vec!["GET".to_string()], ..matcher };
        assert_eq!(with_method.matches_path("/a/x"), None);
    }

    #[test]
    fn a_removed_prefix_is_in_the_path() {
        let below = |matcher: &Matcher| keys(&matcher.below("/app").unwrap());
        assert_eq!(below(&Matcher::of_path("/a*")), "path = \"/app/a**\"");
        assert_eq!(below(&Matcher::of_path("*.sql")), "suffixes = [\".sql\"]");
        let of_expression = Matcher { expression: Some("/x|/y".to_string()), ..Matcher::default() };
        assert_eq!(below(&of_expression), "pattern = \"/app(?:/x|/y)\"");
        let of_path = Matcher { whens: ["not ($path =~ '^/x$')".to_string()].into(), ..Matcher::default() };
        assert!(of_path.below("/app").is_err());
    }

    #[test]
    fn guards_ignore_case() {
        let keys = |matcher: Matcher, guard: Guard| {
            let mut route = Section::new("[[site.route]]");
            matcher.keys_of_guard(guard, &mut route).unwrap();
            let mut text = String::new();
            route.write(&mut text);
            text.trim().replace("[[site.route]]\n", "")
        };
        let matcher = Matcher::of_path("/a/*");
        assert_eq!(keys(matcher.clone(), Guard::Redirect), "pattern = \"(?i)(?:/a/(?s:.*))[. ]*\"");
        assert_eq!(keys(matcher, Guard::Refusal), "pattern = \"(?i)(?:/a/(?s:.*))[/. ]*\"");
        let suffix = r#"pattern = "(?i)(?:(?s:.*)\\.sql)[/. ]*""#;
        assert_eq!(keys(Matcher::of_path("*.sql"), Guard::Refusal), suffix);
        assert_eq!(keys(Matcher::default(), Guard::Refusal), "path = \"/\"");
        let of_expression = Matcher { expression: Some("/a(b|c)".to_string()), ..Matcher::default() };
        assert_eq!(keys(of_expression.clone(), Guard::Refusal), "pattern = \"(?:/a(b|c))/?\"");
        assert_eq!(keys(of_expression, Guard::Clients), "pattern = \"/a(b|c)\"");
    }

    #[test]
    fn conditions_in_each_other() {
        let matcher_of = Matcher::of_path;
        let both =
            |one: &str, other: &str| matcher_of(one).and(&matcher_of(other)).unwrap().map(|both| both.paths);
        assert_eq!(both("/api/*", "/api/users"), Some(vec!["/api/users".to_string()]));
        assert_eq!(both("/api/*", "/web/*"), None);
        let styles = matcher_of("/static/*").and(&matcher_of("*.css")).unwrap().unwrap();
        assert_eq!(keys(&styles), "path = \"/static/\"\nsuffixes = [\".css\"]");
        assert_eq!(both("*", "/a"), Some(vec!["/a".to_string()]));
        let scripts = matcher_of("*.js").and(&matcher_of("*.min.js")).unwrap().unwrap();
        assert_eq!(keys(&scripts), "suffixes = [\".min.js\"]");
        let several = Matcher { paths: vec!["*.sql".to_string(), "/p/*".to_string()], ..Matcher::default() };
        let within = matcher_of("/api/*").and(&several).unwrap().unwrap();
        let when = r#"when = "$path =~ '^(?:(?i)(?s:.*)\\.sql|/p/(?s:.*))$'""#;
        assert_eq!(keys(&within), format!("path = \"/api/\"\n{when}"));
        let hosts = |names: &[&str]| Matcher {
            hosts: names.iter().map(|name| (*name).to_string()).collect(),
            ..Matcher::default()
        };
        assert!(hosts(&["*.a.org"]).and(&hosts(&["x.a.org"])).unwrap().is_some());
        assert!(hosts(&["a.org"]).and(&hosts(&["b.org"])).unwrap().is_none());
    }
}
