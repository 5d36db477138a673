//! `RewriteMap` as `[[map]]`.
//!
//! A map of Apache does not contain the key that is looked up: each use, `${name:key|default}`, contains it.
//! So each use with another key or default becomes its own `[[map]]`, with the same file.

use std::cell::RefCell;

use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::toml_string;

/// What a map of Apache is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// A file with a key and a value on each line.
    File(String),
    /// A function, by its name in a `[[map]]`.
    Function(&'static str),
}

/// A use of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Use {
    source: Source,
    from: String,
    default: String,
}

/// The uses of maps in a configuration, each with the name of its `[[map]]`.
#[derive(Default)]
pub struct Uses {
    found: RefCell<Vec<(String, Use)>>,
}

/// The maps that rules of a server may use.
pub struct RewriteMaps<'m> {
    defined: Vec<(&'m str, Result<Source, String>)>,
    uses: &'m Uses,
}

impl<'m> RewriteMaps<'m> {
    /// Those that these directives define. An earlier one counts before a later one of the same name.
    pub fn of(directives: impl IntoIterator<Item = &'m Directive>, uses: &'m Uses) -> RewriteMaps<'m> {
        let maps = directives.into_iter().filter(|one| one.name.eq_ignore_ascii_case("RewriteMap"));
        RewriteMaps { defined: maps.map(|map| (map.argument(0), source(map))).collect(), uses }
    }

    /// The variable for the text between the braces of `${name:key|default}`. `translate` translates the key
    /// and the default.
    ///
    /// # Errors
    /// What has no counterpart.
    pub fn variable(
        &self,
        inside: &str,
        translate: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<String, String> {
        let Some((name, rest)) = inside.split_once(':') else {
            return Err(format!("'${{{inside}}}' is no use of a map"));
        };
        let defined = self.defined.iter().find(|(known, _)| *known == name);
        let (_, source) = defined.ok_or_else(|| format!("no RewriteMap is called {name:?}"))?;
        let source = source.clone()?;
        let (key, default) = split_default(rest);
        let from = translate(key)?;
        let default = translate(default)?;
        if names_groups(&default) {
            return Err("the default of a map has no groups: write a route for these paths".to_string());
        }
        let wanted = Use { source, from, default };
        Ok(format!("$map{{{}}}", self.uses.name_of(name, wanted)))
    }
}

impl RewriteMaps<'_> {
    /// Whether a map that is used, or one in its key, looks up what the expression of the rule has matched.
    pub fn has_groups(&self, variable: &str) -> bool {
        let found = self.uses.found.borrow();
        let mut text = variable.to_string();
        while let Some((_, rest)) = text.clone().split_once("$map{") {
            let name = rest.split('}').next().unwrap_or_default();
            let Some((_, used)) = found.iter().find(|(known, _)| known == name) else { return false };
            text = used.from.clone();
        }
        names_groups(&text)
    }
}

impl Uses {
    fn name_of(&self, name: &str, wanted: Use) -> String {
        let mut found = self.found.borrow_mut();
        if let Some((known, _)) = found.iter().find(|(_, other)| *other == wanted) {
            return known.clone();
        }
        let is_of_name = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
        let plain: String = name.chars().map(is_of_name).collect();
        let names = (1..).map(|n| if n == 1 { plain.clone() } else { format!("{plain}_{n}") });
        let mut free = names.filter(|name| found.iter().all(|(known, _)| known != name));
        let name = free.next().unwrap_or_default();
        found.push((name.clone(), wanted));
        name
    }

    /// The maps, each after those that it uses.
    pub fn sections(&self) -> Vec<Section> {
        let section = |(name, used): &(String, Use)| {
            let mut section = Section::new("[[map]]");
            section.key("name", toml_string(name));
            section.key("from", toml_string(&used.from));
            match &used.source {
                Source::File(file) => section.key("file", toml_string(file)),
                Source::Function(function) => section.key("function", toml_string(function)),
            }
            if !used.default.is_empty() {
                section.key("default", toml_string(&used.default));
            }
            section
        };
        self.found.borrow().iter().map(section).collect()
    }
}

/// Reports the definition of a map.
pub fn report(map: &Directive, section: &mut Section, account: &mut Account) {
    match source(map) {
        Ok(_) => account.translated(map, section),
        Err(advice) => account.problem(map, section, &advice),
    }
}

fn source(map: &Directive) -> Result<Source, String> {
    let (kind, rest) = map.argument(1).split_once(':').ok_or("a map has a kind and a file")?;
    match (kind.to_ascii_lowercase().as_str(), rest) {
        ("txt", file) => Ok(Source::File(file.to_string())),
        ("int", "tolower") => Ok(Source::Function("lower")),
        ("int", "toupper") => Ok(Source::Function("upper")),
        ("int", "escape") => Ok(Source::Function("escape")),
        ("int", "unescape") => Ok(Source::Function("unescape")),
        ("rnd", _) => Err("a map has no random values: see 'balance' of 'proxy' for several origins, and \
                           'shares' of [[map]] for shares of clients"
            .to_string()),
        ("dbm", _) => {
            Err("write the entries into a text file, a key and a value on each line, and name it in 'file' \
                 of a [[map]] (docs/expressions.md)"
                .to_string())
        }
        ("prg", _) => Err("no program is asked for each request: write its answers into the file of a \
                           [[map]], or ask a server by 'forward_auth'"
            .to_string()),
        ("dbd" | "fastdbd", _) => {
            Err("no database is asked for each request: write the result of the query \
                                       into the file of a [[map]], and reload when it changes"
                .to_string())
        }
        _ => Err(format!("a map of the kind {kind:?} is not known")),
    }
}

/// Divides a key from its default at a `|` that is not in the braces of another use.
fn split_default(text: &str) -> (&str, &str) {
    split_outside_braces(text, '|').unwrap_or((text, ""))
}

/// Splits a text that follows an opening brace: the part before the closing brace, and the part after it.
pub fn to_closing_brace(text: &str) -> Option<(&str, &str)> {
    split_outside_braces(text, '}')
}

/// Divides a text at the first such ASCII character that is not in braces.
fn split_outside_braces(text: &str, separator: char) -> Option<(&str, &str)> {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            _ if character == separator && depth == 0 => return Some((&text[..at], &text[at + 1..])),
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Whether a text has what a group of an expression has matched.
fn names_groups(text: &str) -> bool {
    (1..=9).any(|digit| text.contains(&format!("${{{digit}}}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, translate};

    #[test]
    fn keys_and_defaults_are_divided() {
        assert_eq!(split_default("$1|/x"), ("$1", "/x"));
        assert_eq!(split_default("${a:$1|b}|c"), ("${a:$1|b}", "c"));
        assert_eq!(split_default("$1"), ("$1", ""));
        assert_eq!(to_closing_brace("a:${b:c}|d} e"), Some(("a:${b:c}|d", " e")));
        assert_eq!(to_closing_brace("a:{b"), None);
    }

    #[test]
    fn maps_are_used_where_rules_use_them() {
        let text = "RewriteMap urls txt:/etc/urls.txt\nRewriteMap lc int:tolower\n\
            RewriteMap any rnd:/etc/any.txt\nRewriteMap db dbm:/etc/x\n\
            <VirtualHost *:80>\nServerName a.org\nDocumentRoot /srv\nRewriteEngine On\n\
            RewriteRule ^/go/(.*)$ ${urls:$1|/none} [R=301,L]\n\
            RewriteRule ^/also/(.*)$ ${urls:$1|/none}\n\
            RewriteRule ^/other/(.*)$ /x/${urls:${lc:$1}}\n\
            RewriteCond ${urls:%{HTTP_HOST}|NO} !=NO\n\
            RewriteRule ^/host /of${urls:%{HTTP_HOST}|NO}\n\
            RewriteRule ^/r/(.*)$ /r/${any:$1}\n\
            RewriteRule ^/u/(.*)$ /u/${unknown:$1}\n\
            </VirtualHost>\n";
        let imported = translate(&parse("a.conf", text).unwrap());
        for line in [
            "name = \"urls\"",
            "from = \"${1}\"",
            "file = \"/etc/urls.txt\"",
            "default = \"/none\"",
            "redirect = { to = \"$map{urls}\", status = 301 }",
            "rewrite = { to = \"$map{urls}\" }",
            "name = \"lc\"",
            "function = \"lower\"",
            "from = \"$map{lc}\"",
            "rewrite = { to = \"/x/$map{urls_2}\" }",
            "name = \"urls_3\"",
            "from = \"$host\"",
            "when = \"not $map{urls_3} == 'NO'\"",
            "rewrite = { to = \"/of$map{urls_3}\" }",
        ] {
            assert!(imported.text.lines().any(|written| written == line), "{line}\n{}", imported.text);
        }
        let maps = imported.text.lines().filter(|line| *line == "[[map]]").count();
        assert_eq!(maps, 4, "{}", imported.text);
        let places: Vec<String> = imported.problems.iter().map(|problem| problem.place.to_string()).collect();
        assert_eq!(places, ["a.conf:3", "a.conf:4", "a.conf:14", "a.conf:15"], "{}", imported.text);
    }
}
