//! JMeter's test plans (.jmx): each thread group becomes a session, with its samplers in order, and their
//! header fields, defaults, timers, extractors and assertions.

use crate::draft::{Draft, DraftRequest, DraftSession, is_header};
use crate::postman::sendable;
use crate::variables::{form_text, names, plain_name, replace};
use roxmltree::{Document, Node};
use std::collections::BTreeMap;

/// The maximum number of redirects, which is the limit of JMeter.
const MAXIMUM_REDIRECTS: u32 = 20;
/// The maximum depth of the tree.
const MAXIMUM_DEPTH: usize = 100;

/// Reads a test plan.
pub fn read(text: &str) -> Result<Draft, String> {
    let document = Document::parse(text).map_err(|error| format!("this is not XML: {error}"))?;
    let root = document.root_element();
    if root.tag_name().name() != "jmeterTestPlan" {
        return Err(format!("the root element is {}, not jmeterTestPlan", root.tag_name().name()));
    }
    let mut reader = Reader { draft: Draft::default(), document: &document, values: BTreeMap::new() };
    let scope = Scope::default();
    for tree in root.children().filter(|node| node.has_tag_name("hashTree")) {
        reader.tree(tree, &scope, None, 0);
    }
    let Reader { mut draft, .. } = reader;
    draft.sessions.retain(|session| !session.requests.is_empty());
    if let [only] = &mut draft.sessions[..] {
        only.weight = 0.0;
    }
    if draft.sessions.is_empty() {
        return Err("no HTTP request of the file can be imported".to_string());
    }
    draft.complete();
    Ok(draft)
}

struct Reader<'t, 'd> {
    draft: Draft,
    document: &'d Document<'t>,
    /// The variables that the plan defines.
    values: BTreeMap<String, String>,
}

/// The settings that a sampler inherits from the elements above it.
#[derive(Debug, Clone, Default)]
struct Scope {
    origin: Defaults,
    headers: Vec<String>,
    think_time_s: f64,
}

/// Defaults for the server of samplers.
#[derive(Debug, Clone, Default)]
struct Defaults {
    protocol: String,
    domain: String,
    port: String,
}

/// The children of a hashTree: the elements, each with its tree.
fn pairs<'a, 'i>(tree: Node<'a, 'i>) -> Vec<(Node<'a, 'i>, Option<Node<'a, 'i>>)> {
    let elements: Vec<Node<'a, 'i>> = tree.children().filter(Node::is_element).collect();
    let mut pairs = Vec::new();
    for (number, element) in elements.iter().enumerate() {
        if !element.has_tag_name("hashTree") {
            let behind = elements.get(number + 1).filter(|next| next.has_tag_name("hashTree"));
            pairs.push((*element, behind.copied()));
        }
    }
    pairs
}

/// The text of a property of an element, with that name.
fn property<'a>(element: Node<'a, '_>, name: &str) -> &'a str {
    let found = element.children().find(|node| node.attribute("name") == Some(name));
    found.and_then(|node| node.text()).unwrap_or("").trim()
}

impl Reader<'_, '_> {
    fn tree(&mut self, tree: Node<'_, '_>, above: &Scope, session: Option<usize>, depth: usize) {
        if depth > MAXIMUM_DEPTH {
            self.left_out(tree, "elements are nested too deeply");
            return;
        }
        let mut scope = above.clone();
        let enabled = |node: &Node<'_, '_>| node.attribute("enabled") != Some("false");
        // The elements of a tree apply to the whole tree, independent of their position.
        for (element, _) in pairs(tree).iter().filter(|(element, _)| enabled(element)) {
            self.configuration(*element, &mut scope);
        }
        let before: Vec<usize> = self.draft.sessions.iter().map(|session| session.requests.len()).collect();
        for (element, behind) in pairs(tree) {
            if !enabled(&element) {
                self.left_out(element, "it is disabled");
                continue;
            }
            let name = element.tag_name().name();
            match name {
                "HTTPSamplerProxy" | "HTTPSampler" | "HTTPSampler2" => {
                    self.sampler(element, behind, &scope, session);
                    continue;
                }
                // Including those of plug-ins.
                _ if name.ends_with("ThreadGroup") => {
                    self.group(element);
                    let place = self.draft.sessions.len() - 1;
                    if let Some(behind) = behind {
                        self.tree(behind, &scope, Some(place), depth + 1);
                    }
                    continue;
                }
                "TestPlan" | "TransactionController" | "GenericController" | "RecordingController" => {}
                "LoopController"
                | "WhileController"
                | "IfController"
                | "ForeachController"
                | "RandomController"
                | "ThroughputController"
                | "OnceOnlyController" => {
                    self.note(element, "its requests are imported once, in order");
                }
                _ if is_configuration(name) || is_post_processor(name) => {}
                _ => self.left_out(element, "it has no counterpart"),
            }
            if let Some(behind) = behind {
                self.tree(behind, &scope, session, depth + 1);
            }
        }
        for (element, _) in pairs(tree).iter().filter(|(element, _)| enabled(element)) {
            if is_post_processor(element.tag_name().name()) {
                self.for_all_after(*element, &before);
            }
        }
    }

    /// Applies an element beside samplers to all requests of the tree: those from these numbers on.
    fn for_all_after(&mut self, element: Node<'_, '_>, before: &[usize]) {
        let mut sessions = std::mem::take(&mut self.draft.sessions);
        for (place, session) in sessions.iter_mut().enumerate() {
            for request in session.requests.iter_mut().skip(before.get(place).copied().unwrap_or(0)) {
                let notes = self.draft.notes.len();
                self.post_processor(element, request);
                // Each omission is reported once.
                if self.draft.notes[..notes].contains(self.draft.notes.last().unwrap_or(&String::new())) {
                    self.draft.notes.truncate(notes);
                }
            }
        }
        self.draft.sessions = sessions;
    }

    fn line(&self, node: Node<'_, '_>) -> u32 {
        self.document.text_pos_at(node.range().start).row
    }

    fn left_out(&mut self, node: Node<'_, '_>, reason: &str) {
        self.note(node, &format!("left out: {reason}"));
    }

    fn note(&mut self, node: Node<'_, '_>, words: &str) {
        let name = node.attribute("testname").unwrap_or("");
        let kind = node.tag_name().name();
        self.draft.notes.push(format!("line {}: {kind} {name:?}: {words}", self.line(node)));
    }

    fn group(&mut self, element: Node<'_, '_>) {
        let name = element.attribute("testname").unwrap_or("thread group").to_string();
        let property_of = |name: &str| property(element, &format!("ThreadGroup.{name}"));
        self.draft.notes.push(format!(
            "line {}: the thread group {name:?} has {} threads that start within {} s: load --clients {}",
            self.line(element),
            property_of("num_threads"),
            property_of("ramp_time"),
            property_of("num_threads"),
        ));
        let weight = property_of("num_threads").parse::<u32>().map_or(0.0, f64::from);
        self.draft.sessions.push(DraftSession { name, weight, requests: Vec::new() });
    }

    /// The settings that an element contains for all samplers beside and below it.
    fn configuration(&mut self, element: Node<'_, '_>, scope: &mut Scope) {
        match element.tag_name().name() {
            "HeaderManager" => {
                for header in elements_of(element, "HeaderManager.headers") {
                    let (name, value) = (property(header, "Header.name"), property(header, "Header.value"));
                    let value = self.text(value);
                    scope.headers.retain(|field| !is_header(field, name));
                    scope.headers.push(format!("{name}: {value}"));
                }
            }
            "ConfigTestElement" => {
                let set = |to: &mut String, name: &str| {
                    let value = self.text(property(element, name));
                    if !value.is_empty() {
                        *to = value;
                    }
                };
                set(&mut scope.origin.protocol, "HTTPSampler.protocol");
                set(&mut scope.origin.domain, "HTTPSampler.domain");
                set(&mut scope.origin.port, "HTTPSampler.port");
            }
            "CookieManager" => self.draft.cookies = true,
            "ConstantTimer" | "UniformRandomTimer" | "GaussianRandomTimer" => {
                let delay = property(element, "ConstantTimer.delay").parse::<f64>().unwrap_or(0.0);
                let range = property(element, "RandomTimer.range").parse::<f64>().unwrap_or(0.0);
                let is_even = element.has_tag_name("UniformRandomTimer");
                let mean_ms = delay + if is_even { range / 2.0 } else { 0.0 };
                if mean_ms.is_finite() && (0.0..=86_400_000.0).contains(&mean_ms) {
                    scope.think_time_s += mean_ms / 1000.0;
                }
            }
            "CSVDataSet" => {
                let columns = property(element, "variableNames");
                let file = property(element, "filename");
                let columns: Vec<String> = columns
                    .split(',')
                    .map(str::trim)
                    .filter(|name| !name.is_empty())
                    .map(plain_name)
                    .collect();
                if columns.is_empty() {
                    self.left_out(element, "it names no variables: write them in the first line of the file");
                } else {
                    let name = file.rsplit(['/', '\\']).next().unwrap_or("data.csv").to_string();
                    self.note(
                        element,
                        &format!(
                            "put {file:?} beside the sessions as {name}, with the first line {}",
                            columns.join(",")
                        ),
                    );
                    self.draft.data.push((name, columns));
                }
            }
            "Arguments" => {
                for argument in elements_of(element, "Arguments.arguments") {
                    let name = property(argument, "Argument.name").to_string();
                    let value = self.text(property(argument, "Argument.value"));
                    self.values.insert(name, value);
                }
            }
            "TestPlan" => {
                let own = element
                    .children()
                    .find(|node| node.attribute("name") == Some("TestPlan.user_defined_variables"));
                for argument in own.iter().flat_map(|own| elements_of(*own, "Arguments.arguments")) {
                    let name = property(argument, "Argument.name").to_string();
                    let value = self.text(property(argument, "Argument.value"));
                    self.values.insert(name, value);
                }
            }
            _ => {}
        }
    }

    /// Replaces the variables of the plan, and converts others to the syntax of sessions. Functions become a
    /// number.
    fn text(&self, text: &str) -> String {
        replace(text, ("${", "}"), |name| match self.values.get(name) {
            Some(value) => value.clone(),
            None => match name.strip_prefix("__P(").or(name.strip_prefix("__property(")) {
                Some(inside) => property_of_jmeter(inside.trim_end_matches(')')),
                None if name.starts_with("__threadNum") => "${client}".to_string(),
                None if name.starts_with("__") => "${random}".to_string(),
                None => format!("${{{}}}", plain_name(name)),
            },
        })
    }

    fn sampler(
        &mut self,
        element: Node<'_, '_>,
        behind: Option<Node<'_, '_>>,
        above: &Scope,
        session: Option<usize>,
    ) {
        let mut scope = above.clone();
        for (inside, _) in behind.map(pairs).unwrap_or_default() {
            if inside.attribute("enabled") != Some("false") {
                self.configuration(inside, &mut scope);
            }
        }
        let Some(session) = session else { return self.left_out(element, "it is in no thread group") };
        let or = |own: String, usual: &str| if own.is_empty() { usual.to_string() } else { own };
        let property_of = |name: &str| self.text(property(element, &format!("HTTPSampler.{name}")));
        let (domain, port) =
            (or(property_of("domain"), &scope.origin.domain), or(property_of("port"), &scope.origin.port));
        let protocol = or(or(property_of("protocol"), &scope.origin.protocol), "http").to_ascii_lowercase();
        let method = or(property_of("method"), "GET");
        let mut path = property_of("path");
        let mut origin = if port.is_empty() {
            format!("{protocol}://{domain}")
        } else {
            format!("{protocol}://{domain}:{port}")
        };
        // A path may be a whole URL.
        if let Some((scheme, rest)) = path.clone().split_once("://") {
            let end = rest.find('/').unwrap_or(rest.len());
            origin = format!("{scheme}://{}", &rest[..end]);
            path = rest[end..].to_string();
        }
        if domain.is_empty() && !origin.contains("://")
            || !names(&origin).is_empty()
            || origin.ends_with("://")
        {
            return self.left_out(element, "its server is not known");
        }
        if !self.draft.is_at(&origin) {
            return self.left_out(element, &format!("it goes to another server, {origin}"));
        }
        if !path.starts_with('/') && !path.starts_with("${") {
            path.insert(0, '/');
        }
        let follows = ["HTTPSampler.follow_redirects", "HTTPSampler.auto_redirects"]
            .iter()
            .any(|name| property(element, name) == "true");
        let mut request = DraftRequest {
            name: element.attribute("testname").unwrap_or("").to_string(),
            method: method.clone(),
            path: sendable(&path),
            headers: scope.headers.clone(),
            redirects: if follows { MAXIMUM_REDIRECTS } else { 0 },
            think_time_s: scope.think_time_s,
            ..DraftRequest::default()
        };
        self.arguments(element, &method, &mut request);
        for (inside, _) in behind.map(pairs).unwrap_or_default() {
            if inside.attribute("enabled") != Some("false") {
                self.post_processor(inside, &mut request);
            }
        }
        if property(element, "HTTPSampler.image_parser") == "true" {
            self.note(element, "left out: the embedded resources of its page");
        }
        self.draft.sessions[session].requests.push(request);
    }

    fn arguments(&mut self, element: Node<'_, '_>, method: &str, request: &mut DraftRequest) {
        let own = element.children().find(|node| node.attribute("name") == Some("HTTPsampler.Arguments"));
        let list: Vec<Node<'_, '_>> =
            own.iter().flat_map(|own| elements_of(*own, "Arguments.arguments")).collect();
        if property(element, "HTTPSampler.postBodyRaw") == "true" {
            let values = list.iter().map(|one| self.text(property(*one, "Argument.value")));
            request.body = Some(values.collect::<Vec<_>>().concat());
            return;
        }
        let pair = |one: &Node<'_, '_>| {
            let value = self.text(property(*one, "Argument.value"));
            format!("{}={}", form_text(&self.text(property(*one, "Argument.name"))), form_text(&value))
        };
        let form = list.iter().map(pair).collect::<Vec<_>>().join("&");
        if form.is_empty() {
            return;
        }
        if ["POST", "PUT", "PATCH"].contains(&method) {
            request.body = Some(form);
            request.headers.push("Content-Type: application/x-www-form-urlencoded".to_string());
        } else {
            request.add_query(&form);
        }
    }

    fn post_processor(&mut self, element: Node<'_, '_>, request: &mut DraftRequest) {
        match element.tag_name().name() {
            "RegexExtractor" => {
                let property_of = |name: &str| property(element, &format!("RegexExtractor.{name}"));
                let place = property_of("useHeaders");
                if !["", "false"].contains(&place) || !["", "$1$"].contains(&property_of("template")) {
                    return self
                        .left_out(element, "only the first group of a match in the body can be extracted");
                }
                request
                    .extract
                    .push((plain_name(property_of("refname")), format!("regex {}", property_of("regex"))));
            }
            "JSONPostProcessor" => {
                let property_of = |name: &str| property(element, &format!("JSONPostProcessor.{name}"));
                let names = property_of("referenceNames").split(';').map(str::trim);
                for (name, path) in names.zip(property_of("jsonPathExprs").split(';').map(str::trim)) {
                    request.extract.push((plain_name(name), format!("json {path}")));
                }
            }
            "HtmlExtractor" => {
                let property_of = |name: &str| property(element, &format!("HtmlExtractor.{name}"));
                let attribute = match property_of("attribute") {
                    "" => String::new(),
                    attribute => format!(" @{attribute}"),
                };
                request.extract.push((
                    plain_name(property_of("refname")),
                    format!("css {}{attribute}", property_of("expr")),
                ));
            }
            "ResponseAssertion" => self.assertion(element, request),
            name if is_configuration(name) => {}
            _ => self.left_out(element, "it has no counterpart"),
        }
    }

    fn assertion(&mut self, element: Node<'_, '_>, request: &mut DraftRequest) {
        let field = property(element, "Assertion.test_field");
        let kind = property(element, "Assertion.test_type").parse::<u32>().unwrap_or(0);
        let is_not = kind & 4 != 0;
        let list = element.children().find(|node| node.attribute("name") == Some("Asserion.test_strings"));
        let texts: Vec<String> = list
            .iter()
            .flat_map(|list| list.children().filter(Node::is_element))
            .filter_map(|node| node.text().map(|text| self.text(text)))
            .collect();
        for text in texts {
            match (field, kind & !4) {
                ("Assertion.response_code", _) if !is_not && text.parse::<u16>().is_ok() => {
                    request.status.extend(text.parse::<u16>().ok());
                }
                ("Assertion.response_data", 2 | 16) if names(&text).is_empty() && !text.is_empty() => {
                    let words = if kind & 16 != 0 { "contains" } else { "regex" };
                    let not = if is_not { "not " } else { "" };
                    request.assert.push(format!("{not}{words} {text}"));
                }
                _ => self.left_out(element, &format!("the assertion of {text:?}")),
            }
        }
    }
}

/// The elements of a list property.
fn elements_of<'a, 'i>(element: Node<'a, 'i>, list: &str) -> Vec<Node<'a, 'i>> {
    let found = element.children().find(|node| node.attribute("name") == Some(list));
    found.map(|list| list.children().filter(Node::is_element).collect()).unwrap_or_default()
}

/// The value of `${__P(name,default)}`: the default, or a variable that must be set.
fn property_of_jmeter(inside: &str) -> String {
    match inside.split_once(',') {
        Some((_, default)) if !default.trim().is_empty() => default.trim().to_string(),
        _ => format!("${{{}}}", plain_name(inside.split(',').next().unwrap_or_default().trim())),
    }
}

/// Elements that use the answer of a sampler.
fn is_post_processor(name: &str) -> bool {
    matches!(name, "RegexExtractor" | "JSONPostProcessor" | "HtmlExtractor" | "ResponseAssertion")
}

/// Whether an element configures samplers and was already read, or only shows results.
fn is_configuration(name: &str) -> bool {
    matches!(
        name,
        "HeaderManager"
            | "ConfigTestElement"
            | "CookieManager"
            | "CacheManager"
            | "ConstantTimer"
            | "UniformRandomTimer"
            | "GaussianRandomTimer"
            | "CSVDataSet"
            | "Arguments"
            | "ResultCollector"
            | "Summariser"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAN: &str = include_str!("../fixtures/shop.jmx");

    #[test]
    fn a_plan_becomes_sessions() {
        let draft = read(PLAN).expect("a good plan");
        assert_eq!((draft.origin.as_deref(), draft.cookies), (Some("http://shop.example:8080"), true));
        assert_eq!(draft.data, [("users.csv".to_string(), vec!["user".to_string(), "pass".to_string()])]);
        let [login, orders] = &draft.sessions[0].requests[..] else { panic!("{draft:#?}") };
        assert_eq!((&login.path[..], login.body.as_deref()), ("/shop/login", Some("u=${user|query}%26")));
        assert_eq!((&login.headers[0][..], &login.status[..]), ("X-A: ${user}", &[201][..]));
        assert_eq!(login.extract[1], ("id".to_string(), "json $.user.id".to_string()));
        assert_eq!((&orders.path[..], orders.think_time_s), ("/orders/${id}?t=${token|query}", 1.5));
        assert_eq!(orders.assert, ["not contains error"]);
        for note_start in [
            "line 10: the thread group \"Buyers\" has 20 threads",
            "line 18: BeanShellPostProcessor \"bean\": left out",
            "LoopController \"three times\": its requests are imported once",
            "HTTPSamplerProxy \"other\": left out: it goes to another server, http://other.example:8080",
            "JDBCSampler \"db\": left out",
            "HTTPSamplerProxy \"off\": left out: it is disabled",
        ] {
            assert!(
                draft.notes.iter().any(|note| note.contains(note_start)),
                "{note_start}: {:#?}",
                draft.notes
            );
        }
    }

    #[test]
    fn other_files_are_refused() {
        for text in ["", "<a/>", "<jmeterTestPlan/>", "<jmeterTestPlan>"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_plan_or_an_error(text: String, value in "[a-z$/{}:?&; ]{0,30}") {
            let _ = read(&text);
            let escaped = value.replace('&', "&amp;");
            let plan = PLAN.replace("${base}/login", &escaped).replace("$.t;$.user.id", &escaped);
            if let Ok(draft) = read(&plan) {
                for request in draft.sessions.iter().flat_map(|session| &session.requests) {
                    let is_sendable = request.path.bytes().all(|byte| byte.is_ascii_graphic());
                    prop_assert!(is_sendable, "{}", request.path);
                }
            }
        }
    }
}
