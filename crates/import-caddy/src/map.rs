//! `map` as `[[map]]`, one for each of its destinations, and the values that `vars` sets.

use super::context::{Context, PlaceholderValue, Table, in_quotes, name_of};
use super::placeholder::{has_group, names, resolved, text};
use super::steps::Step;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression::{converted, literal};
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// A line that has no counterpart, with advice.
pub type UntranslatedLine<'d> = (&'d Directive, String);

/// What a `map` has become.
pub struct MapTranslation<'d> {
    /// Its destinations.
    pub bound: Vec<(String, PlaceholderValue)>,
    /// Lines that were not translated.
    pub unknown: Vec<UntranslatedLine<'d>>,
}

/// `map SOURCE DESTINATION ... { INPUT OUTPUT ... }`: the first input that fits gives the outputs, `~` begins
/// an expression, and an output `-` leaves its destination to later inputs.
///
/// # Errors
/// The source or a destination has no counterpart.
pub fn map<'d>(step: &Step<'d>, context: &Context) -> Result<MapTranslation<'d>, String> {
    let [source, destinations @ ..] = step.arguments else {
        return Err("it has no source".to_string());
    };
    if destinations.is_empty() {
        return Err("it has no destination".to_string());
    }
    let from = text(source, context)?;
    let mut mapped = MapTranslation { bound: Vec::new(), unknown: Vec::new() };
    for (index, destination) in destinations.iter().enumerate() {
        let name = name_of(destination);
        if !destination.starts_with('{') || name.contains(['{', '}']) {
            return Err(format!("'{destination}' is not a placeholder"));
        }
        let mut table = Values::new(context);
        table.body.note(step.directive.to_string());
        table.body.key("from", toml_string(&from));
        for line in step.directive.inside() {
            match table.add(line, index) {
                Ok(()) => table.body.note(line.to_string()),
                Err(advice) => {
                    table.body.note(format!("NOT TRANSLATED: {line}\n  {advice}"));
                    mapped.unknown.push((line, advice));
                }
            }
        }
        let name_here = name.strip_prefix("vars.").unwrap_or(&name).to_string();
        let bound = PlaceholderValue::Table(table.finish(&name_here));
        mapped.bound.push((name, bound));
    }
    Ok(mapped)
}

/// The values of one destination.
struct Values<'c> {
    context: &'c Context,
    body: Section,
    patterns: Vec<String>,
    /// The inputs that have been seen: of two equal ones the first counts.
    inputs: Vec<String>,
    default: String,
    /// The possible values, in Caddy's language, if they are known.
    possible: Option<Vec<String>>,
    is_path: bool,
}

impl<'c> Values<'c> {
    fn new(context: &'c Context) -> Values<'c> {
        Values {
            context,
            body: Section::default(),
            patterns: Vec::new(),
            inputs: Vec::new(),
            default: String::new(),
            possible: Some(Vec::new()),
            is_path: true,
        }
    }

    fn add(&mut self, line: &Directive, index: usize) -> Result<(), String> {
        let Some(output) = line.arguments.get(index).filter(|output| *output != "-") else { return Ok(()) };
        let input = line.name.as_str();
        if [input, output].iter().any(|text| text.contains(char::is_control)) {
            return Err("the texts of a map have no line ends".to_string());
        }
        if input == "default" {
            self.body.key("default", toml_string(&text(output, self.context)?));
            self.default = resolved(output, self.context);
            self.note_path(&self.default.clone());
            return Ok(());
        }
        if self.inputs.iter().any(|other| other == input) {
            return Ok(());
        }
        if let Some(expression) = input.strip_prefix('~') {
            let expression = &converted(expression)?;
            if ["$0", "${0}"].iter().any(|whole| output.contains(whole)) {
                return Err(
                    "'$0' has no counterpart: write parentheses around the expression, and '$1'".to_string()
                );
            }
            // `${1}` is a group.
            if !names(&output.replace("${", "")).is_empty() {
                return Err("Caddy does not replace a placeholder in the value of an expression".to_string());
            }
            let (value, has_groups) = expanded(output, expression);
            self.pattern(expression, &value)?;
            self.note_value(if has_groups { None } else { Some(value.replace("$$", "$")) });
            self.note_path(output);
        } else {
            let value = text(output, self.context)?;
            match self.patterns.is_empty() {
                true => self.body.entry("values", &key(input), toml_string(&value)),
                // An exact value would count before the expressions above it.
                false => self.pattern(&format!("(?s)^{}$", literal(input)), &value)?,
            }
            let plain = resolved(output, self.context);
            self.note_path(&plain);
            self.note_value(names(&plain).is_empty().then_some(plain));
        }
        self.inputs.push(input.to_string());
        Ok(())
    }

    fn pattern(&mut self, expression: &str, value: &str) -> Result<(), String> {
        let words = [format!("~{expression}"), value.to_string()];
        if words.iter().any(|word| word.ends_with('\\')) {
            return Err("a text that ends in a backslash has no counterpart in a map".to_string());
        }
        self.patterns.push(format!("{} {}", in_quotes(&words[0]), in_quotes(&words[1])));
        Ok(())
    }

    fn note_value(&mut self, value: Option<String>) {
        match (&mut self.possible, value) {
            (Some(possible), Some(value)) if !possible.contains(&value) => possible.push(value),
            (Some(_), Some(_)) => {}
            _ => self.possible = None,
        }
    }

    fn note_path(&mut self, value: &str) {
        self.is_path &= !value.contains(['?', '#', '%']);
    }

    fn finish(mut self, name: &str) -> Table {
        let default = self.default.clone();
        // The default is the last, because it needs no condition after all others.
        if let Some(possible) = &mut self.possible {
            possible.retain(|value| *value != default);
        }
        self.note_value(names(&default).is_empty().then_some(default));
        if !self.patterns.is_empty() {
            self.body.key("patterns", toml_strings(&self.patterns));
        }
        let name = self.context.add(name, self.body);
        Table { name, values: self.possible, is_path: self.is_path }
    }
}

/// An exact value as the key of a map, in which some beginnings have a meaning.
fn key(input: &str) -> String {
    match input == "default" || input.starts_with(['~', '*', '\\', '#']) {
        true => format!("\\{input}"),
        false => input.to_string(),
    }
}

/// The value of an expression, in which `$1`, `${1}` and `${name}` are its groups, as a text of this server;
/// and whether it has groups. A group that is not there is empty in Go.
fn expanded(value: &str, expression: &str) -> (String, bool) {
    let (mut out, mut rest, mut has_groups) = (String::new(), value, false);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
        let (name, after) = match rest.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
            Some((name, after)) if !name.is_empty() && name.chars().all(is_of_name) => (name, after),
            _ => {
                let end = rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len());
                (&rest[..end], &rest[end..])
            }
        };
        if name.is_empty() {
            out.push_str("$$");
            rest = rest.strip_prefix('$').unwrap_or(rest);
            continue;
        }
        if has_group(expression, name) {
            has_groups = true;
            out.push_str(&format!("${{{name}}}"));
        }
        rest = after;
    }
    out.push_str(rest);
    (out, has_groups)
}

/// `vars NAME VALUE`, or a block of these.
///
/// # Errors
/// It is neither.
pub fn vars(step: &Step<'_>, context: &Context) -> Result<Vec<(String, PlaceholderValue)>, String> {
    let of_arguments = match step.arguments {
        [] => None,
        [name, value] => Some((name, value)),
        _ => return Err("it has a name and a value".to_string()),
    };
    let mut found = Vec::new();
    let lines = step.directive.inside().iter().map(|line| (&line.name, line.arguments.first()));
    for (name, value) in of_arguments.map(|(name, value)| (name, Some(value))).into_iter().chain(lines) {
        let value = value.ok_or("a variable has a value")?;
        if !names(name).is_empty() {
            return Err("the name of a variable has no placeholders here".to_string());
        }
        if name == "root" {
            return Err("write it as 'root', and import again".to_string());
        }
        found.push((format!("vars.{name}"), PlaceholderValue::Text(resolved(value, context))));
    }
    Ok(found)
}

/// Whether a `map` uses what another one of these sets.
pub fn uses_one_of(step: &Step<'_>, others: &[&Step<'_>]) -> bool {
    let outputs = step.directive.inside().iter().flat_map(|line| &line.arguments);
    let used: Vec<String> =
        step.arguments.iter().take(1).chain(outputs).flat_map(|text| names(text)).collect();
    others.iter().any(|other| {
        let sets = other.arguments.iter().skip(1).map(|destination| name_of(destination));
        !std::ptr::eq(other.directive, step.directive) && sets.into_iter().any(|name| used.contains(&name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, translate};

    fn imported(site: &str) -> touchstone_import_base::Imported {
        translate(&parse("Caddyfile", &format!("http://a.org, http://b.org {{\n{site}\n}}\n")).unwrap())
    }

    #[test]
    fn a_map_for_each_destination() {
        let imported = imported(
            "map {host}{path} {app} {code} {\n/a one 007\n~^/x/(.)\\.y$ \"r ${1}\" -\n/b {method} 2\n\
             *.c \"\" 3\ndefault d 4\n}\nheader X-App {app}\nredir /r {app}\nrespond {app} {code}",
        );
        for line in [
            "from = \"${host}${path}\"",
            "name = \"app\"",
            "default = \"d\"",
            "patterns = [\"~^/x/(.)\\\\.y$ \\\"r ${1}\\\"\", \"~(?s)^/b$ ${method}\", \
             \"~(?s)^\\\\*\\\\.c$ \\\"\\\"\"]",
            "values = { \"/a\" = \"one\" }",
            "values = { \"/a\" = \"7\", \"/b\" = \"2\", \"\\\\*.c\" = \"3\" }",
            "headers = { X-App = \"${map{app}}\" }",
            "redirect = { to = \"${map{app}}?\", status = 302 }",
        ] {
            assert!(imported.text.lines().any(|written| written == line), "{line}\n{}", imported.text);
        }
        // The text of an answer is fixed, and that of `app` depends on the request.
        let problems: Vec<String> =
            imported.problems.iter().map(|problem| problem.directive.clone()).collect();
        assert_eq!(problems, ["respond {app} {code}"]);
    }

    #[test]
    fn a_route_for_each_value() {
        let imported = imported(
            "map {path} {up} {\n/1 a:1\n/2 b:2\n/3 a:1\n}\nvars dir /srv\nvars /x/* dir /x\n\
             handle /up/* {\nreverse_proxy {up}\n}\nroot * {vars.dir}/{host}\nfile_server",
        );
        assert!(imported.problems.is_empty(), "{:?}", imported.problems);
        let text = &imported.text;
        for (line, count) in [
            ("when = \"$map{up} == 'a:1'\"", 1),
            ("when = \"$map{up} == 'b:2'\"", 1),
            ("to = \"http://a:1\"", 1),
            ("respond = { status = 502 }", 1),
            ("root = \"/srv/a.org\"", 1),
            ("root = \"/srv/b.org\"", 1),
            ("root = \"/x/a.org\"", 1),
            ("root = \"/x/b.org\"", 1),
        ] {
            assert_eq!(text.lines().filter(|written| *written == line).count(), count, "{line}\n{text}");
        }
    }

    #[test]
    fn what_has_no_counterpart_is_named() {
        for (site, word) in [
            ("map {path} {\n/a b\n}", "no destination"),
            ("map {path} dest {\n/a b\n}", "not a placeholder"),
            ("map {path} {a} {\n~^(?!b) c\n}", "lookahead"),
            ("map {path} {a} {\n~^(b) \"$0\"\n}", "'$0'"),
            ("map {path} {a} {\n~^(b) \"{host}\"\n}", "does not replace"),
            ("map {time.now} {a} {\nb c\n}", "time.now"),
            ("map {path} {a} {\nb \"c\nd\"\n}", "line ends"),
            ("vars a", "a name and a value"),
            ("vars root /srv", "'root'"),
            ("header X {vars.none}", "sets"),
            ("vars /x name value\n@m vars name value\nrespond @m 204", "some requests only"),
            ("respond {query.a}", "same for all requests"),
            ("reverse_proxy {labels.9}:80", "'{labels.9}'"),
        ] {
            let imported = imported(site);
            let found = imported.problems.iter().any(|problem| problem.advice.contains(word));
            assert!(found, "{site}\n{:?}\n{}", imported.problems, imported.text);
        }
    }

    #[test]
    fn groups_of_values() {
        for (value, expected, has_groups) in [
            ("got-${1}-$2x", "got-${1}-", true),
            ("$n ${n}$$", "${n} ${n}$$", true),
            ("a$", "a$$", false),
            ("5$ ${", "5$$ $${", false),
            ("$9", "", false),
        ] {
            assert_eq!(expanded(value, "(a)(?P<n>b)"), (expected.to_string(), has_groups), "{value}");
        }
        assert_eq!((key("a"), key("*.b"), key("\\c")), ("a".into(), "\\*.b".into(), "\\\\c".into()));
    }
}
