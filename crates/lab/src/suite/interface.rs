//! Interfaces: the ways in which a server makes an answer, each with the smallest program that uses it. Their
//! definitions are the TOML files of `suites/interfaces/`; a suite names those that it measures.
//!
//! An interface states what the system under test must be able to do for it (a capability), which program it
//! needs, which path is requested and how many bytes are returned; and what the reports of 1996 to 2000
//! measured for it.

use crate::capability;
use crate::definition::{DefinitionError, Document, Table, nearest};
use crate::result::{InterfaceRecord, ReportFigures};

/// The interfaces that are built in: name and TOML text.
const BUILT_IN: [(&str, &str); 19] = [
    ("static", include_str!("../../../../suites/interfaces/static.toml")),
    ("shtml", include_str!("../../../../suites/interfaces/shtml.toml")),
    ("cgi", include_str!("../../../../suites/interfaces/cgi.toml")),
    ("fastcgi", include_str!("../../../../suites/interfaces/fastcgi.toml")),
    ("nsapi-send", include_str!("../../../../suites/interfaces/nsapi-send.toml")),
    ("nsapi-a", include_str!("../../../../suites/interfaces/nsapi-a.toml")),
    ("nsapi-b", include_str!("../../../../suites/interfaces/nsapi-b.toml")),
    ("nsapi-c", include_str!("../../../../suites/interfaces/nsapi-c.toml")),
    ("servlet-stream", include_str!("../../../../suites/interfaces/servlet-stream.toml")),
    ("servlet-writer", include_str!("../../../../suites/interfaces/servlet-writer.toml")),
    ("ajp", include_str!("../../../../suites/interfaces/ajp.toml")),
    ("jsp", include_str!("../../../../suites/interfaces/jsp.toml")),
    ("wsgi", include_str!("../../../../suites/interfaces/wsgi.toml")),
    ("asgi", include_str!("../../../../suites/interfaces/asgi.toml")),
    ("wasm", include_str!("../../../../suites/interfaces/wasm.toml")),
    ("wasm-reused", include_str!("../../../../suites/interfaces/wasm-reused.toml")),
    ("cgi-send", include_str!("../../../../suites/interfaces/cgi-send.toml")),
    ("simcgi", include_str!("../../../../suites/interfaces/simcgi.toml")),
    ("application", include_str!("../../../../suites/interfaces/application.toml")),
];

/// The pages that interfaces can request: name and text, whose directives the server carries out.
const PAGES: [(&str, &str); 1] = [("shtml", include_str!("../../../../programs/shtml/spice.shtml"))];

/// The longest answer of an interface.
const BODY_BYTES_MAX: u64 = 1 << 30;
/// The most paths of an interface.
const PATHS_MAX: u64 = 100_000;
/// The largest rate and latency that a report can have.
const FIGURE_MAX: f64 = 1e12;

/// A way to make an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Interface {
    /// For example `cgi`.
    pub name: String,
    /// Its name for people, for example `CGI`.
    pub title: String,
    /// What answers, in words.
    pub description: String,
    /// The capability that a system must have.
    pub needs: String,
    /// The program that it needs, for example `cgi`.
    pub program: Option<String>,
    /// The page that must be at the path, for example `shtml`.
    pub page: Option<String>,
    /// The path that is requested; `*` in it is replaced by a number from 1 to `paths`.
    pub path: String,
    /// How many paths there are, which are requested equally often.
    pub paths: u64,
    /// Bytes of the answer's body.
    pub body_bytes: u64,
    /// Whether the server decides the length: `body_bytes` is then the usual length, and is not checked.
    pub body_varies: bool,
    /// The name in the query that requests another number of bytes (`?size=500`), if it accepts one.
    pub size_query: Option<String>,
    /// What the reports of 1996 to 2000 measured for it.
    pub reports: Vec<ReportFigures>,
}

/// The content of an interface's path in the tree of files.
pub(super) enum AtPath {
    /// Nothing: a program answers.
    Nothing,
    /// This page; the answer differs from its text.
    Page(&'static str),
    /// A file of `body_bytes`, made like the workload's files.
    File,
}

impl Interface {
    /// The interfaces that are built in, in the order of the list.
    pub fn built_in() -> Result<Vec<Interface>, DefinitionError> {
        BUILT_IN.iter().map(|(name, text)| Interface::read(name, text)).collect()
    }

    /// A built-in interface by its name, or an interface file by its path; the text of an error states what
    /// is wrong.
    pub(super) fn find(name_or_path: &str) -> Result<Interface, String> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
            return Interface::read(name, text).map_err(|error| error.to_string());
        }
        if !name_or_path.contains('/') && !name_or_path.ends_with(".toml") {
            return Err(unknown(name_or_path));
        }
        let text = std::fs::read_to_string(name_or_path)
            .map_err(|error| format!("definition of an interface, {name_or_path}: {error}"))?;
        Interface::read(name_or_path, &text).map_err(|error| error.to_string())
    }

    /// Reads an interface's TOML text; `file` names it in messages.
    pub fn read(file: &str, text: &str) -> Result<Interface, DefinitionError> {
        let document = Document::new(file, text);
        let parsed = document.parse()?;
        let root = document.root(&parsed);
        let name = super::values::name(&root, root.required_string("name")?, "an interface's")?;
        let program = known(&root, "program", capability::PROGRAMS.into_iter())?;
        let (path, paths) = paths(&root, program.is_some())?;
        let interface = Interface {
            name,
            title: root.required_string("title")?.value,
            description: root.required_string("description")?.value,
            needs: needs(&root)?,
            program,
            page: known(&root, "page", PAGES.iter().map(|(name, _)| *name))?,
            path,
            paths,
            body_bytes: root.required("body_bytes", root.whole("body_bytes", 1..=BODY_BYTES_MAX)?)?.value,
            body_varies: root.boolean("body_varies")?.is_some_and(|varies| varies.value),
            size_query: size_query(&root)?,
            reports: root.tables("report")?.iter().map(report_figures).collect::<Result<_, _>>()?,
        };
        root.finish()?;
        Ok(interface)
    }

    /// One of its paths, from 0 on.
    pub fn path(&self, number: u64) -> String {
        self.path.replace('*', &(number + 1).to_string())
    }

    /// The directory of its paths, with its slash: a program answers all paths in it.
    pub(super) fn directory(&self) -> &str {
        &self.path[..=self.path.rfind('/').unwrap_or(0)]
    }

    /// The same, with a query for this many bytes.
    pub(super) fn path_for(&self, number: u64, asked_bytes: Option<u64>) -> String {
        match (&self.size_query, asked_bytes) {
            (Some(name), Some(bytes)) => format!("{}?{name}={bytes}", self.path(number)),
            _ => self.path(number),
        }
    }

    /// What must be at its path.
    pub(super) fn at_path(&self) -> AtPath {
        let page = self.page.as_ref().and_then(|page| PAGES.iter().find(|(name, _)| name == page));
        match (page, &self.program) {
            (Some((_, text)), _) => AtPath::Page(text),
            (None, Some(_)) => AtPath::Nothing,
            (None, None) => AtPath::File,
        }
    }

    /// As the result file records it.
    pub fn record(&self) -> InterfaceRecord {
        InterfaceRecord {
            name: self.name.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            needs: self.needs.clone(),
            path: self.path.clone(),
            body_bytes: self.body_bytes,
            reports: self.reports.clone(),
        }
    }
}

fn needs(root: &Table<'_>) -> Result<String, DefinitionError> {
    let needs = root.required_string("needs")?;
    if capability::is_known(&needs.value) {
        return Ok(needs.value);
    }
    let all: Vec<&str> = capability::names().collect();
    let message = format!("there is no capability `{}`; known: {}", needs.value, all.join(", "));
    Err(root.error_at(&needs, message))
}

/// The name in the query from which a program takes its size.
fn size_query(root: &Table<'_>) -> Result<Option<String>, DefinitionError> {
    let Some(name) = root.string("size_query")? else { return Ok(None) };
    let is_word =
        (1..=50).contains(&name.value.len()) && name.value.chars().all(|c| c.is_ascii_alphanumeric());
    match is_word {
        true => Ok(Some(name.value)),
        false => Err(root.error_at(&name, "`size_query` is the name of a parameter: letters and digits")),
    }
}

/// The value of a key that names one of a list.
fn known<'n>(
    root: &Table<'_>,
    key: &'static str,
    names: impl Iterator<Item = &'n str>,
) -> Result<Option<String>, DefinitionError> {
    let Some(named) = root.string(key)? else { return Ok(None) };
    let names: Vec<&str> = names.collect();
    if names.contains(&named.value.as_str()) {
        return Ok(Some(named.value));
    }
    let message = format!("there is no {key} `{}`; known: {}", named.value, names.join(", "));
    Err(root.error_at(&named, message))
}

/// A path without a query that all servers interpret in the same way, and the number of paths that it
/// represents. A file or a page has one.
fn paths(root: &Table<'_>, is_program: bool) -> Result<(String, u64), DefinitionError> {
    let path = root.required_string("path")?;
    let paths = root.whole("paths", 1..=PATHS_MAX)?;
    if let Some(paths) = &paths
        && !(is_program && path.value.matches('*').count() == 1)
    {
        return Err(root.error_at(paths, "`paths` takes a `program`, and one `*` in `path` for the number"));
    }
    let is_numbered = paths.is_some();
    let plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_') || (c == '*' && is_numbered)
    };
    let segments = || path.value.split('/').skip(1);
    let good = path.value.starts_with('/')
        && path.value.len() <= 200
        && path.value.chars().all(plain)
        && segments().all(|segment| !segment.is_empty() && !segment.starts_with('.'));
    if good {
        return Ok((path.value, paths.map_or(1, |paths| paths.value)));
    }
    let rule = "`path` begins with `/`, holds letters, digits, `.`, `-` and `_`, and no part of it is empty \
                or begins with a dot";
    Err(root.error_at(&path, rule))
}

fn report_figures(table: &Table<'_>) -> Result<ReportFigures, DefinitionError> {
    let figure =
        |key| Ok::<_, DefinitionError>(table.number(key, 0.001..=FIGURE_MAX)?.map(|number| number.value));
    let figures = ReportFigures {
        server: table.required_string("server")?.value,
        processors: table.required("processors", table.whole("processors", 1..=100_000)?)?.value,
        requests_per_second: figure("requests_per_second")?,
        latency_ms: figure("latency_ms")?,
        static_requests_per_second: figure("static_requests_per_second")?,
        static_latency_ms: figure("static_latency_ms")?,
        source: table.required_string("source")?.value,
    };
    table.finish()?;
    Ok(figures)
}

fn unknown(name: &str) -> String {
    let names = BUILT_IN.iter().map(|(name, _)| *name);
    let advice = match nearest(name, names.clone()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("built in: {}", names.collect::<Vec<_>>().join(", ")),
    };
    format!("there is no interface `{name}`; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = r#"name = "servlet"
title = "servlet"
description = "a servlet"
needs = "servlet"
path = "/app/spice"
body_bytes = 6250
[[report]]
server = "iWS 4.0"
processors = 4
requests_per_second = 1080
latency_ms = 18.1
static_requests_per_second = 2759
source = "Table 3"
"#;

    #[test]
    fn built_in_interfaces_bear_their_names_and_return_as_many_bytes() {
        let interfaces = Interface::built_in().unwrap();
        for (interface, (name, _)) in interfaces.iter().zip(BUILT_IN) {
            assert_eq!(interface.name.as_str(), name);
            // Those of SPICE are compared with each other; the others answer as the programs of their
            // benchmarks did.
            let is_of_spice = !["cgi-send", "simcgi", "application"].contains(&name);
            assert!(!is_of_spice || interface.body_bytes == 6250, "{name}");
            assert!(matches!(interface.at_path(), AtPath::File) == (name == "static"), "{name}");
        }
    }

    #[test]
    fn the_page_has_6250_bytes_once_the_date_is_in_it() {
        let (_, page) = PAGES[0];
        let begin = page.find("<!--#").unwrap();
        let end = page.rfind("-->").unwrap() + 3;
        assert_eq!(page.len() - (end - begin) + "2026-11-22".len(), 6250);
        assert!(page[begin..end].contains("timefmt=\"%Y-%m-%d\""));
    }

    #[test]
    fn a_good_interface_is_read_and_bad_ones_are_refused() {
        let servlet = Interface::read("servlet.toml", GOOD).unwrap();
        assert_eq!((servlet.needs.as_str(), servlet.reports[0].latency_ms), ("servlet", Some(18.1)));
        let cases = [
            ("needs = \"servlet\"", "needs = \"beans\"", "servlet.toml:4:9: there is no capability `beans`"),
            ("path = \"/app/spice\"", "path = \"app\"", "servlet.toml:5:8: `path` begins with `/`"),
            ("path = \"/app/spice\"", "path = \"/app/../x\"", "servlet.toml:5:8: `path` begins"),
            ("path = \"/app/spice\"", "path = \"/app?x\"", "servlet.toml:5:8: `path` begins"),
            ("path = \"/app/spice\"", "path = \"/app/*\"", "servlet.toml:5:8: `path` begins"),
            ("body_bytes =", "paths = 9\nbody_bytes =", "servlet.toml:6:9: `paths` takes a `program`"),
            ("body_bytes = 6250", "body_bytes = 0", "servlet.toml:6:14: `body_bytes` must be"),
            ("latency_ms", "latenzy_ms", "servlet.toml:11:1: unknown key `latenzy_ms` in [report]"),
            ("needs =", "page = \"x\"\nneeds =", "servlet.toml:4:8: there is no page `x`; known: shtml"),
            ("needs =", "program = \"x\"\nneeds =", "servlet.toml:4:11: there is no program `x`"),
        ];
        for (from, to, expected) in cases {
            let text = GOOD.replacen(from, to, 1);
            let message = Interface::read("servlet.toml", &text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
        assert!(Interface::find("cgj").unwrap_err().contains("did you mean `cgi`?"));
    }

    proptest! {
        #[test]
        fn no_damage_to_a_good_interface_makes_the_reader_panic(
            at in 0..GOOD.len(),
            put in "[\\x20-\\x7e\\n]{0,8}",
        ) {
            let mut text = GOOD.to_string();
            text.replace_range(at..(at + 1), &put);
            let _ = Interface::read("any.toml", &text);
        }
    }
}
