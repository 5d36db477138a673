//! Expressions of CEL in matchers, such as `path('/admin/*') && !remote_ip('10.0.0.0/8')`, as conditions of
//! this server's language.

use super::comparison::{
    compared, field_name, list, networks_of, of_clients, of_field, of_hosts, of_methods, of_query, operand,
};
use super::context::Context;
use touchstone_import_base::expression::{converted, literal, quoted};

/// Expressions in each other.
const MOST_DEPTH: usize = 16;

/// The condition of an expression.
///
/// # Errors
/// The part that has no counterpart.
pub fn condition(text: &str, context: &Context) -> Result<String, String> {
    let text = text.trim().trim_matches('`').trim();
    let mut parser = Parser { rest: text, context };
    let found = parser.any(0)?;
    match parser.rest.is_empty() {
        true => Ok(found),
        false => Err(format!("'{}' has no counterpart in a condition", parser.rest)),
    }
}

/// The condition of an expression that is written as several words, without their quotes: a word that is
/// neither an operator nor a placeholder is a text.
///
/// # Errors
/// The part that has no counterpart.
pub fn condition_of_words(words: &[String], context: &Context) -> Result<String, String> {
    let operator = |word: &String| match word.as_str() {
        "==" | "!=" => Ok(word.clone()),
        "&&" => Ok("and".to_string()),
        "||" => Ok("or".to_string()),
        "!" => Ok("not".to_string()),
        "(" | ")" => Ok(word.clone()),
        word if word.starts_with('{') && word.find('}') == Some(word.len() - 1) => operand(word, context),
        word if word.contains(['{', '}', '(', ')', '<', '>']) => {
            Err("only comparisons of placeholders with texts have a counterpart".to_string())
        }
        word => quoted(word),
    };
    let simple = words.iter().map(operator).collect::<Result<Vec<String>, String>>();
    if let Ok(simple) = simple {
        return Ok(simple.join(" "));
    }
    let is_text = |word: &String| {
        word.chars().all(|c| !"(){}[]'\"`!=&|,".contains(c)) && word != "in" && !word.is_empty()
    };
    let written = |word: &String| if is_text(word) { format!("'{word}'") } else { word.clone() };
    condition(&words.iter().map(written).collect::<Vec<String>>().join(" "), context)
}

struct Parser<'t, 'c> {
    rest: &'t str,
    context: &'c Context,
}

/// An argument of a function.
enum Argument {
    Text(String),
    /// `{'Field': 'value'}`, with one or several values.
    Pairs(Vec<(String, Vec<String>)>),
}

impl<'t> Parser<'t, '_> {
    fn takes(&mut self, sign: &str) -> bool {
        let after = self.rest.strip_prefix(sign);
        if let Some(after) = after {
            self.rest = after.trim_start();
        }
        after.is_some()
    }

    fn expects(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(format!("'{sign}' is missing in the expression")) }
    }

    fn any(&mut self, depth: usize) -> Result<String, String> {
        if depth > MOST_DEPTH {
            return Err(format!("expressions are nested more than {MOST_DEPTH} deep"));
        }
        let mut all = self.every(depth)?;
        while self.takes("||") {
            all = format!("{all} or {}", self.every(depth)?);
        }
        Ok(all)
    }

    fn every(&mut self, depth: usize) -> Result<String, String> {
        let mut all = self.one(depth)?;
        while self.takes("&&") {
            all = format!("{all} and {}", self.one(depth)?);
        }
        Ok(all)
    }

    fn one(&mut self, depth: usize) -> Result<String, String> {
        if depth > MOST_DEPTH {
            return Err(format!("expressions are nested more than {MOST_DEPTH} deep"));
        }
        if self.rest.starts_with('!') && !self.rest.starts_with("!=") {
            self.takes("!");
            return Ok(format!("not ({})", self.one(depth + 1)?));
        }
        if self.takes("(") {
            let inner = self.any(depth + 1)?;
            self.expects(")")?;
            return Ok(format!("({inner})"));
        }
        match self.name() {
            Some(name) if self.takes("(") => self.function(name),
            Some(name) => Err(format!("'{name}' has no counterpart in a condition")),
            None => self.comparison(),
        }
    }

    fn name(&mut self) -> Option<&'t str> {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_of_name(c)).unwrap_or(self.rest.len());
        let (name, after) = self.rest.split_at(end);
        if name.is_empty() {
            return None;
        }
        self.rest = after.trim_start();
        Some(name)
    }

    /// `{placeholder} == 'text'`, or a function of a placeholder.
    fn comparison(&mut self) -> Result<String, String> {
        let left = self.value()?;
        if self.takes(".") {
            let name = self.name().unwrap_or_default();
            self.expects("(")?;
            let text = self.text()?;
            self.expects(")")?;
            let written = literal(&text);
            let pattern = match name {
                "startsWith" => format!("^{written}"),
                "endsWith" => format!("{written}$"),
                "contains" => written,
                "matches" => converted(&text)?,
                other => return Err(format!("the function '{other}' has no counterpart in a condition")),
            };
            return Ok(format!("{left} =~ {}", quoted(&pattern)?));
        }
        for sign in ["==", "!="] {
            if self.takes(sign) {
                return Ok(format!("{left} {sign} {}", self.value()?));
            }
        }
        if let Some(after) = self.rest.strip_prefix("in ") {
            self.rest = after.trim_start();
            self.expects("[")?;
            let texts = self.texts("]")?;
            return Ok(format!("{left} in {}", list(&texts)?));
        }
        Err("only comparisons of placeholders with texts have a counterpart".to_string())
    }

    fn value(&mut self) -> Result<String, String> {
        if self.rest.starts_with('{') {
            let end = self.rest.find('}').ok_or("a '}' is missing")?;
            let (placeholder, after) = self.rest.split_at(end + 1);
            self.rest = after.trim_start();
            return operand(placeholder, self.context);
        }
        quoted(&self.text()?)
    }

    fn text(&mut self) -> Result<String, String> {
        let quote = self.rest.chars().next().filter(|c| ['"', '\'', '`'].contains(c));
        let quote = quote.ok_or("only comparisons of placeholders with texts have a counterpart")?;
        let end = self.rest[1..].find(quote).ok_or("a quote has no end")? + 1;
        let text = &self.rest[1..end];
        self.rest = self.rest[end + 1..].trim_start();
        match text.contains('\\') && quote != '`' {
            // Escapes of expressions are written twice, or once where the reader leaves them.
            true => Ok(text.replace("\\\\", "\\")),
            false => Ok(text.to_string()),
        }
    }

    fn texts(&mut self, end: &str) -> Result<Vec<String>, String> {
        let mut texts = vec![self.text()?];
        while self.takes(",") {
            texts.push(self.text()?);
        }
        self.expects(end)?;
        Ok(texts)
    }

    fn arguments(&mut self) -> Result<Vec<Argument>, String> {
        let mut found = Vec::new();
        loop {
            if self.takes("{") {
                let mut pairs = Vec::new();
                loop {
                    let name = self.text()?;
                    self.expects(":")?;
                    let values = match self.takes("[") {
                        true => self.texts("]")?,
                        false => vec![self.text()?],
                    };
                    pairs.push((name, values));
                    if !self.takes(",") {
                        break;
                    }
                }
                self.expects("}")?;
                found.push(Argument::Pairs(pairs));
            } else {
                found.push(Argument::Text(self.text()?));
            }
            if !self.takes(",") {
                self.expects(")")?;
                return Ok(found);
            }
        }
    }

    fn function(&mut self, name: &str) -> Result<String, String> {
        let arguments = self.arguments()?;
        let mut texts = Vec::new();
        let mut pairs = Vec::new();
        for argument in arguments {
            match argument {
                Argument::Text(text) => texts.push(text),
                Argument::Pairs(more) => pairs.extend(more),
            }
        }
        match (name, texts.as_slice(), pairs.as_slice()) {
            ("path", paths, []) => {
                let all: Vec<String> = paths.iter().map(|path| of_path(path)).collect();
                Ok(format!("$path =~ {}", quoted(&format!("(?i)^(?:{})$", all.join("|")))?))
            }
            ("path_regexp", [expression] | [_, expression], []) => compared("$path", expression),
            ("remote_ip" | "client_ip", networks, []) => {
                Ok(format!("({})", of_clients(&networks_of(networks))?))
            }
            ("header" | "query", [], pairs) => {
                let each = |(key, values): &(String, Vec<String>)| {
                    let one = |value: &String| match name {
                        "query" => of_query(&format!("{key}={value}")),
                        _ => of_field(key, value),
                    };
                    let all: Result<Vec<String>, String> = values.iter().map(one).collect();
                    all.map(|all| format!("({})", all.join(" or ")))
                };
                let all: Result<Vec<String>, String> = pairs.iter().map(each).collect();
                Ok(all?.join(" and "))
            }
            ("header_regexp", [field, expression] | [_, field, expression], []) => {
                compared(&format!("$header{{{}}}", field_name(field)?), expression)
            }
            ("method", methods, []) => of_methods(methods),
            ("host", hosts, []) => of_hosts(hosts),
            ("protocol", [scheme], []) if scheme == "http" || scheme == "https" => {
                Ok(format!("$scheme == '{scheme}'"))
            }
            _ => Err(format!("the function '{name}' has no counterpart in a condition")),
        }
    }
}

/// The expression for a path in which `*` at the beginning or end is any text, and otherwise a part of a
/// name.
fn of_path(path: &str) -> String {
    let inner = path.trim_start_matches('*').trim_end_matches('*');
    let begin = if path.starts_with('*') { "(?s:.*)" } else { "" };
    let end = if path.ends_with('*') && path.len() > 1 { "(?s:.*)" } else { "" };
    let inner: Vec<String> = inner.split('*').map(literal).collect();
    format!("{begin}{}{end}", inner.join("[^/]*"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn functions_and_comparisons() {
        let context = Context::default();
        for (text, expected) in [
            (
                "path('/admin/*') && !remote_ip('10.0.0.0/8')",
                "$path =~ '(?i)^(?:/admin/(?s:.*))$' and not (($map{network-10-0-0-0_8}))",
            ),
            ("`header({'X-A': ['b', 'c*']})`", "($header{x-a} =~ '^b$' or $header{x-a} =~ '^c(?s:.*)$')"),
            ("query({'a': '1'}) || method('POST', 'PUT')", "($arg{a} == '1') or $method in ['POST', 'PUT']"),
            ("path('/u/*/x', '*.php')", "$path =~ '(?i)^(?:/u/[^/]*/x|(?s:.*)\\.php)$'"),
            (
                "path_regexp('^/a') && host('a.org') && protocol('https')",
                "$path =~ '^/a' and $host == 'a.org' and $scheme == 'https'",
            ),
            ("header_regexp('User-Agent', '(?i)bot')", "$header{user-agent} =~ '(?i)bot'"),
            (
                "{path}.startsWith('/a') && {method} in ['GET', 'HEAD']",
                "${path} =~ '^/a' and ${method} in ['GET', 'HEAD']",
            ),
            ("!({method} == \"GET\")", "not ((${method} == 'GET'))"),
        ] {
            assert_eq!(condition(text, &context).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "file({'try_files': ['a']})",
            "true",
            "{path}.size() > 3",
            "path('/a'",
            "path(a)",
            "remote_ip('x')",
        ] {
            assert!(condition(text, &context).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~]{0,80}") {
            let _ = condition(&text, &Context::default());
        }
    }
}
