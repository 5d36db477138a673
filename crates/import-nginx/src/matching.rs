//! How a location matches, and the route keys that match the same paths.

use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression::{self, quoted};
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::toml_string;

/// How a location matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// `= /path`
    Exact(String),
    /// `/path`, or with `^~` before expressions.
    Prefix { path: String, is_first: bool },
    /// `~ expression`, or with `~*` in any case.
    Expression { expression: String, any_case: bool },
    /// An expression nested in a location with a prefix. It counts only where that prefix is the longest: not
    /// for paths that begin with one of `longer`.
    /// `around`: the expressions of the locations between, each with whether case is ignored.
    Inside {
        path: String,
        is_first: bool,
        expression: String,
        any_case: bool,
        longer: Vec<String>,
        around: Vec<(String, bool)>,
    },
    /// An expression nested in locations with the expressions `around`, each with whether case is ignored.
    Nested { around: Vec<(String, bool)>, expression: String, any_case: bool },
    /// `@name`
    Named,
}

impl Match {
    /// The match of a location.
    pub fn of(location: &Directive) -> Match {
        let (first, second) = (location.argument(0), location.argument(1).to_string());
        match first {
            "=" => Match::Exact(second),
            "^~" => Match::Prefix { path: second, is_first: true },
            "~" | "~*" => Match::Expression { expression: second, any_case: first == "~*" },
            name if name.starts_with('@') => Match::Named,
            path => Match::Prefix { path: path.to_string(), is_first: false },
        }
    }

    /// Whether it matches PHP scripts.
    pub fn is_of_scripts(&self) -> bool {
        match self {
            Match::Exact(path) => path.ends_with(".php"),
            Match::Expression { .. } | Match::Inside { .. } | Match::Nested { .. } => {
                let Some((text, any_case)) = self.expression() else { return false };
                // A dot without a backslash stands for itself, too.
                let names_php = text.contains(".php") || text.contains("[.]php");
                let is_for = |path: &str| {
                    let whole = expression::whole_path(text, any_case);
                    whole.is_ok_and(|whole| expression::matches(&whole, path))
                };
                names_php
                    || is_for("/any-name.php") && !is_for("/any-name.any-ending") && !is_for("/any-name")
            }
            Match::Prefix { .. } | Match::Named => false,
        }
    }

    /// The expression, and whether it ignores case.
    pub fn expression(&self) -> Option<(&str, bool)> {
        match self {
            Match::Expression { expression, any_case }
            | Match::Inside { expression, any_case, .. }
            | Match::Nested { expression, any_case, .. } => Some((expression, *any_case)),
            Match::Exact(_) | Match::Prefix { .. } | Match::Named => None,
        }
    }

    /// The names of the groups of the expression.
    pub fn group_names(&self) -> Vec<&str> {
        let text = self.expression().map_or("", |(text, _)| text);
        let begins = text.match_indices("(?<").chain(text.match_indices("(?P<"));
        let names = begins.filter_map(|(at, begin)| text[at + begin.len()..].split_once('>'));
        let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        names.map(|(name, _)| name).filter(|name| !name.is_empty()).filter(is_name).collect()
    }

    /// Whether its expression leaves out `.well-known`.
    pub fn leaves_out_well_known(&self) -> bool {
        self.expression().is_some_and(|(text, _)| text.contains("(?!well-known"))
    }

    /// The endings of the names of scripts that it matches, with their dots; `.php` is always one.
    pub fn endings(&self) -> Vec<String> {
        const USUAL: [&str; 9] = ["phtml", "phar", "php3", "php4", "php5", "php7", "php8", "inc", "html"];
        let mut found = vec![".php".to_string()];
        let Some((text, any_case)) = self.expression() else { return found };
        let behind = |dot: &str| text.rfind(dot).map(|at| at + dot.len());
        let Some(begin) = ["\\.", "[.]"].iter().filter_map(|dot| behind(dot)).max() else { return found };
        let tail = &text[begin..];
        let Ok(whole) = expression::whole_path(&format!("^{tail}"), any_case) else { return found };
        let words = tail.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let both: Vec<&str> = words.chain(USUAL).collect();
        let upper: Vec<String> = both.iter().chain(&["php"]).map(|word| word.to_ascii_uppercase()).collect();
        for word in both.into_iter().chain(upper.iter().map(String::as_str)) {
            let ending = format!(".{word}");
            if expression::matches(&whole, word) && !found.contains(&ending) {
                found.push(ending);
            }
        }
        found
    }

    /// Whether it may match a directory; nginx searches all locations for that of the index file.
    pub fn may_be_directory(&self) -> bool {
        match self {
            Match::Exact(path) => path.ends_with('/'),
            Match::Prefix { .. } => true,
            Match::Expression { .. } | Match::Inside { .. } | Match::Nested { .. } | Match::Named => false,
        }
    }

    /// The match of a location nested in this one.
    pub fn inner(&self, location: &Directive) -> Option<Match> {
        let comes_first = matches!(self, Match::Prefix { is_first: true, .. } | Match::Exact(_));
        match (self, Match::of(location)) {
            (_, exact @ Match::Exact(_)) => Some(exact),
            (_, Match::Prefix { path, is_first }) => {
                Some(Match::Prefix { path, is_first: is_first || comes_first })
            }
            (Match::Prefix { path, is_first }, Match::Expression { expression, any_case }) => {
                let (path, is_first) = (path.clone(), *is_first);
                let (longer, around) = (Vec::new(), Vec::new());
                Some(Match::Inside { path, is_first, expression, any_case, longer, around })
            }
            (
                Match::Inside { path, is_first, expression: outer, any_case: outer_case, around, .. },
                Match::Expression { expression, any_case },
            ) => {
                let (path, is_first, longer) = (path.clone(), *is_first, Vec::new());
                let around = around.iter().cloned().chain([(outer.clone(), *outer_case)]).collect();
                Some(Match::Inside { path, is_first, expression, any_case, longer, around })
            }
            (
                Match::Expression { expression: outer, any_case: outer_case },
                Match::Expression { expression, any_case },
            ) => Some(Match::Nested { around: vec![(outer.clone(), *outer_case)], expression, any_case }),
            (
                Match::Nested { around, expression: outer, any_case: outer_case },
                Match::Expression { expression, any_case },
            ) => {
                let outer = (outer.clone(), *outer_case);
                let around = around.iter().cloned().chain([outer]).collect();
                Some(Match::Nested { around, expression, any_case })
            }
            _ => None,
        }
    }

    /// The order in which nginx tries it: lower values first.
    pub fn rank(&self) -> (u8, usize) {
        match self {
            Match::Exact(_) => (0, 0),
            // The expressions in the location with the longest prefix are tried before all others, and before
            // the location around them.
            Match::Prefix { path, is_first: true } | Match::Inside { path, .. } => {
                (1, usize::MAX - path.len())
            }
            Match::Expression { .. } | Match::Nested { .. } => (2, 0),
            Match::Prefix { path, is_first: false } => (3, usize::MAX - path.len()),
            Match::Named => (4, 0),
        }
    }

    /// Writes the keys that match the same paths; the error states why that is impossible.
    pub fn keys(&self, route: &mut Section) -> Result<(), String> {
        let has_wildcards = |path: &str| path.contains('*');
        if let Match::Exact(path) | Match::Prefix { path, .. } = self
            && path.contains("//")
        {
            return Err("repeated slashes of a path are one here: write the path with one".to_string());
        }
        match self {
            Match::Exact(path) if !path.ends_with('/') && !has_wildcards(path) => {
                route.key("path", toml_string(path))
            }
            Match::Exact(path) if !has_wildcards(path) => {
                route.key("path", toml_string(&format!("={path}")));
            }
            Match::Exact(path) => route.key("pattern", toml_string(&expression::literal(path))),
            Match::Prefix { path, .. } if has_wildcards(path) => {
                route.key("pattern", toml_string(&format!("{}(?s:.*)", expression::literal(path))));
            }
            Match::Prefix { path, .. } if path.ends_with('/') => route.key("path", toml_string(path)),
            Match::Prefix { path, .. } => route.key("path", toml_string(&format!("{path}**"))),
            Match::Expression { expression, any_case } => pattern(expression, *any_case, route)?,
            Match::Inside { path, is_first, expression, any_case, longer, around } => {
                Match::Prefix { path: path.clone(), is_first: *is_first }.keys(route)?;
                for path in longer {
                    let begin = quoted(&format!("^{}", expression::literal(path)))?;
                    route.and_when(&format!("not $path =~ {begin}"));
                }
                conditions_around(around, route)?;
                pattern(expression, *any_case, route)?;
            }
            Match::Nested { around, expression, any_case } => {
                conditions_around(around, route)?;
                pattern(expression, *any_case, route)?;
            }
            Match::Named => {}
        }
        Ok(())
    }

    /// Writes the same as conditions, for a route whose pattern is another expression.
    pub fn conditions(&self, route: &mut Section) -> Result<(), String> {
        let Some((text, any_case)) = self.expression() else { return self.keys(route) };
        let mut own = Section::new("");
        self.keys(&mut own)?;
        own.remove("pattern");
        route.take_keys(own);
        for condition in path_conditions(text, any_case)? {
            route.and_when(&condition);
        }
        Ok(())
    }

    /// The keys for a location that refuses clients, with an expression that this server does not support:
    /// they match more paths than the expression.
    pub fn wider_keys(&self, route: &mut Section) -> Result<(), String> {
        let mut wider = self.clone();
        match &mut wider {
            Match::Expression { expression, .. }
            | Match::Inside { expression, .. }
            | Match::Nested { expression, .. } => *expression = expression::without_looks(expression),
            Match::Exact(_) | Match::Prefix { .. } | Match::Named => {}
        }
        wider.keys(route)
    }

    /// Which directories lead to a script that this matches: nginx searches the location of the index file.
    pub fn directories(&self) -> Option<Match> {
        let (text, _) = self.expression()?;
        let expression = expression::directories_of_scripts(text)?;
        let mut found = self.clone();
        match &mut found {
            Match::Expression { expression: own, .. }
            | Match::Inside { expression: own, .. }
            | Match::Nested { expression: own, .. } => *own = expression,
            Match::Exact(_) | Match::Prefix { .. } | Match::Named => return None,
        }
        Some(found)
    }
}

/// Writes the pattern of an expression; a lookahead becomes a condition.
fn pattern(text: &str, any_case: bool, route: &mut Section) -> Result<(), String> {
    let (text, conditions) = expression::without_lookahead(text, any_case)?;
    for condition in conditions {
        route.and_when(&condition);
    }
    route.key("pattern", toml_string(&expression::whole_path(&text, any_case)?));
    Ok(())
}

/// Writes that the path matches the expressions of the locations around.
fn conditions_around(around: &[(String, bool)], route: &mut Section) -> Result<(), String> {
    for (outer, any_case) in around {
        for condition in path_conditions(outer, *any_case)? {
            route.and_when(&condition);
        }
    }
    Ok(())
}

/// The conditions under which a path matches an expression.
fn path_conditions(text: &str, any_case: bool) -> Result<Vec<String>, String> {
    let (text, mut conditions) = expression::without_lookahead(text, any_case)?;
    expression::whole_path(&text, any_case)?;
    let flags = if any_case { "(?i)" } else { "" };
    conditions.push(format!("$path =~ {}", quoted(&format!("{flags}{}", expression::portable(&text)))?));
    Ok(conditions)
}

/// Whether it matches all paths that no other location matches.
pub fn is_everything(how: &Match) -> bool {
    matches!(how, Match::Prefix { path, .. } if path == "/")
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    /// The lines of the routes that are not comments.
    fn lines(server: &str) -> Vec<String> {
        let text = format!("server {{ listen 80; root /srv; index index.php; {server} }}");
        let imported = translate(&parse("x", &text).unwrap());
        let lines = imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(str::to_string).collect()
    }

    #[test]
    fn scripts_have_the_endings_of_their_location() {
        let scripts = |expression: &str| {
            let lines = lines(&format!("location {expression} {{ fastcgi_pass b:9; }}"));
            let is_php = lines.iter().any(|line| line == "[site.route.php]");
            let found = lines.into_iter().find(|line| line.starts_with("scripts = "));
            (is_php, found.unwrap_or_default().replace("scripts = ", ""))
        };
        for (expression, expected) in [
            ("~ \\.php$", ""),
            ("~ [.]php(/|$)", ""),
            ("~ \\.(php|phtml|inc)$", r#"[".php", ".phtml", ".inc"]"#),
            ("~ ^/api/.+\\.php5?(/|$)", r#"[".php", ".php5"]"#),
            ("~* \\.php$", r#"[".php", ".PHP"]"#),
            ("~ \\.ph(?:ar|p|tml)$", r#"[".php", ".phtml", ".phar"]"#),
        ] {
            assert_eq!(scripts(expression), (true, expected.to_string()), "{expression}");
        }
        assert!(!scripts("~ ^/cgi/").0);
    }

    #[test]
    fn a_script_for_some_clients_has_nothing_behind_it() {
        let php = "location ~ \\.php$ { fastcgi_pass b:9; }";
        let has = |location: &str, path: &str, answer: &str| {
            let lines = lines(&format!("{location} {php}"));
            lines.windows(2).any(|two| two[0] == format!("path = \"{path}\"") && two[1].starts_with(answer))
        };
        for rule in ["deny all;", "return 403;", "auth_basic x; auth_basic_user_file /u; fastcgi_pass b:9;"] {
            let location = format!("location = /a/run.php {{ {rule} }}");
            assert!(has(&location, "/a/run.php/", "respond = { status = 404 }"), "{rule}");
        }
        let open = "location = /a/run.php { fastcgi_pass b:9; }";
        assert!(!has(open, "/a/run.php/", "respond"));
        // The index script of a directory is that script, too.
        assert!(has("location = /a/index.php { deny all; }", "=/a/", "respond = { status = 403 }"));
        let asks = "location = /a/index.php { auth_basic x; auth_basic_user_file /u; fastcgi_pass b:9; }";
        assert!(has(asks, "=/a/", "basic_authentication"), "{:?}", lines(asks));
        let page = "index i.html; location = /i.html { deny all; }";
        let text = lines(page).join("\n");
        assert!(text.contains("path = \"=/\"\nrespond = { status = 403 }"), "{text}");
    }
}
