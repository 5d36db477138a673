//! The XML bodies of PROPFIND, PROPPATCH and LOCK.
//!
//! A document with a DTD is refused, so there are no entities but the five of XML. Length, depth and the
//! number of nodes are limited. A property is stored as its own piece of XML, with the namespaces and the
//! language that apply to it.

use std::fmt::Write as _;

use roxmltree::{Document, Node, ParsingOptions};

use crate::failure::{Failure, Result};
use crate::markup::escape;

/// The namespace of WebDAV.
pub const DAV: &str = "DAV:";

const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";

/// The deepest element of a body.
const MOST_DEPTH: usize = 32;

/// The most elements, texts, and so on of a body.
const MOST_NODES: u32 = 8192;

/// The name of a property.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PropertyName {
    /// The namespace; empty: none.
    pub namespace: String,
    /// The name in it.
    pub local: String,
}

impl PropertyName {
    /// A property of WebDAV.
    pub fn dav(local: &str) -> PropertyName {
        PropertyName { namespace: DAV.to_string(), local: local.to_string() }
    }

    /// The name of a property of WebDAV; `None`: another namespace.
    pub fn as_dav(&self) -> Option<&str> {
        (self.namespace == DAV).then_some(&self.local)
    }

    /// An empty element of this name.
    pub fn write_empty(&self, out: &mut String) {
        let _ = match self.as_dav() {
            Some(local) => write!(out, "<D:{local}/>"),
            // No declaration may name this namespace (Namespaces in XML 1.0 section 3).
            None if self.namespace == XML_NAMESPACE => write!(out, "<xml:{}/>", self.local),
            None => write!(out, "<{} xmlns=\"{}\"/>", self.local, escape(&self.namespace)),
        };
    }
}

/// The properties that a PROPFIND requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyQuery {
    /// All properties that the standard names, all dead ones, and these.
    All(Vec<PropertyName>),
    /// The names of all.
    Names,
    /// These.
    These(Vec<PropertyName>),
}

/// One instruction of a PROPPATCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyChange {
    /// The property.
    pub name: PropertyName,
    /// Its new value as an element; `None`: it is removed.
    pub value: Option<String>,
}

/// The lock that a LOCK requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRequest {
    /// No other lock may be beside it.
    pub is_exclusive: bool,
    /// The element of the client about its user; empty: none.
    pub owner: String,
}

fn bad(detail: impl ToString) -> Failure {
    // The client gets the status only; its body is not logged.
    let _ = detail;
    Failure::new(400)
}

/// Parses a body, and passes its root to `read`.
fn with_root<T>(body: &[u8], name: &str, read: impl FnOnce(Node<'_, '_>) -> Result<T>) -> Result<T> {
    let text = decode(body)?;
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options).map_err(bad)?;
    let root = document.root_element();
    // A prefix must have a namespace (Namespaces in XML 1.0 section 2.2), which the parser does not check.
    let is_undeclared = |node: Node<'_, '_>| {
        node.namespaces().any(|declared| declared.name().is_some() && declared.uri().is_empty())
    };
    if root.descendants().any(is_undeclared) {
        return Err(bad("a prefix for no namespace"));
    }
    // The parser keeps its own list of open elements; what reads the elements here calls itself.
    if root.descendants().any(|node| node.ancestors().nth(MOST_DEPTH).is_some()) {
        return Err(bad("too deep"));
    }
    if !is_dav(root, name) {
        return Err(bad("another element"));
    }
    read(root)
}

/// UTF-8 without or with its mark, or UTF-16 with one (XML 1.0 section 4.3.3).
fn decode(body: &[u8]) -> Result<String> {
    let units = |from: fn([u8; 2]) -> u16| body[2..].chunks_exact(2).map(move |two| from([two[0], two[1]]));
    match body {
        [0xfe, 0xff, ..] => String::from_utf16(&units(u16::from_be_bytes).collect::<Vec<_>>()).map_err(bad),
        [0xff, 0xfe, ..] => String::from_utf16(&units(u16::from_le_bytes).collect::<Vec<_>>()).map_err(bad),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).map_err(bad),
        _ => String::from_utf8(body.to_vec()).map_err(bad),
    }
}

fn is_dav(node: Node<'_, '_>, name: &str) -> bool {
    node.tag_name().namespace() == Some(DAV) && node.tag_name().name() == name
}

fn children<'a, 'i: 'a>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(Node::is_element)
}

fn name_of(node: Node<'_, '_>) -> PropertyName {
    let name = node.tag_name();
    PropertyName {
        namespace: name.namespace().unwrap_or_default().to_string(),
        local: name.name().to_string(),
    }
}

/// Reads the body of a PROPFIND; an empty one requests all (RFC 4918 section 9.1).
pub fn property_query(body: &[u8]) -> Result<PropertyQuery> {
    if body.trim_ascii().is_empty() {
        return Ok(PropertyQuery::All(Vec::new()));
    }
    with_root(body, "propfind", |root| {
        let one = |name: &str| children(root).find(|child| is_dav(*child, name));
        let names = |node: Node<'_, '_>| children(node).map(name_of).collect::<Vec<_>>();
        match (one("prop"), one("propname"), one("allprop")) {
            (Some(these), None, None) => Ok(PropertyQuery::These(names(these))),
            (None, Some(_), None) => Ok(PropertyQuery::Names),
            (None, None, Some(_)) => Ok(PropertyQuery::All(one("include").map(names).unwrap_or_default())),
            _ => Err(bad("none or several of prop, propname and allprop")),
        }
    })
}

/// Reads the body of a PROPPATCH: the instructions in their order.
pub fn property_update(body: &[u8]) -> Result<Vec<PropertyChange>> {
    with_root(body, "propertyupdate", |root| {
        let mut changes = Vec::new();
        for instruction in children(root) {
            let is_set = is_dav(instruction, "set");
            if !is_set && !is_dav(instruction, "remove") {
                continue;
            }
            for property in children(instruction).filter(|child| is_dav(*child, "prop")).flat_map(children) {
                let value = is_set.then(|| element(property));
                changes.push(PropertyChange { name: name_of(property), value });
            }
        }
        if changes.is_empty() { Err(bad("no instruction")) } else { Ok(changes) }
    })
}

/// Reads the body of a LOCK.
pub fn lock_request(body: &[u8]) -> Result<LockRequest> {
    with_root(body, "lockinfo", |root| {
        let one = |name: &str| children(root).find(|child| is_dav(*child, name));
        let has = |name: &str, child: &str| {
            one(name).is_some_and(|node| children(node).any(|other| is_dav(other, child)))
        };
        let is_exclusive = match (has("lockscope", "exclusive"), has("lockscope", "shared")) {
            (true, false) => true,
            (false, true) => false,
            _ => return Err(bad("no scope")),
        };
        if !has("locktype", "write") {
            return Err(bad("no type"));
        }
        let owner = one("owner").map(element).unwrap_or_default();
        Ok(LockRequest { is_exclusive, owner })
    })
}

/// An element as its own piece of XML.
fn element(node: Node<'_, '_>) -> String {
    let mut out = String::new();
    // The language of what surrounds it holds in it (RFC 4918 section 4.3).
    let language = node.ancestors().find_map(|other| other.attribute((XML_NAMESPACE, "lang")));
    write_element(node, None, language, &mut out);
    out
}

fn write_element(node: Node<'_, '_>, outer: Option<&str>, language: Option<&str>, out: &mut String) {
    let namespace = node.tag_name().namespace().unwrap_or_default();
    // No declaration may name the namespace of `xml` (Namespaces in XML 1.0 section 3).
    let prefix = if namespace == XML_NAMESPACE { "xml:" } else { "" };
    let name = node.tag_name().name();
    let _ = write!(out, "<{prefix}{name}");
    if outer != Some(namespace) && prefix.is_empty() {
        let _ = write!(out, " xmlns=\"{}\"", escape(namespace));
    }
    if let Some(language) = language {
        let _ = write!(out, " xml:lang=\"{}\"", escape(language));
    }
    let mut index = 0;
    for attribute in node.attributes() {
        let value = escape(attribute.value());
        let _ = match attribute.namespace() {
            Some(XML_NAMESPACE) if attribute.name() == "lang" && language.is_some() => Ok(()),
            Some(XML_NAMESPACE) => write!(out, " xml:{}=\"{value}\"", attribute.name()),
            None => write!(out, " {}=\"{value}\"", attribute.name()),
            Some(other) => {
                let (name, number) = (attribute.name(), index);
                index += 1;
                write!(out, " xmlns:a{number}=\"{}\" a{number}:{name}=\"{value}\"", escape(other))
            }
        };
    }
    if !node.has_children() {
        out.push_str("/>");
        return;
    }
    out.push('>');
    for child in node.children() {
        if child.is_element() {
            // The element around has declared its namespace as the usual one.
            let outer = prefix.is_empty().then_some(namespace);
            write_element(child, outer, None, out);
        } else if let (true, Some(text)) = (child.is_text(), child.text()) {
            out.push_str(&escape(text));
        }
    }
    let _ = write!(out, "</{prefix}{name}>");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(namespace: &str, local: &str) -> PropertyName {
        PropertyName { namespace: namespace.to_string(), local: local.to_string() }
    }

    #[test]
    fn queries_are_read() {
        assert_eq!(property_query(b"").unwrap(), PropertyQuery::All(vec![]));
        let body = b"<?xml version='1.0'?><D:propfind xmlns:D='DAV:'><D:prop><D:getetag/><x xmlns='urn:x'/>\
                     <y/></D:prop></D:propfind>";
        let these = vec![name("DAV:", "getetag"), name("urn:x", "x"), name("", "y")];
        assert_eq!(property_query(body).unwrap(), PropertyQuery::These(these));
        let body = b"<propfind xmlns='DAV:'><propname/></propfind>";
        assert_eq!(property_query(body).unwrap(), PropertyQuery::Names);
        let body = b"<propfind xmlns='DAV:'><allprop/><include><a/></include></propfind>";
        assert_eq!(property_query(body).unwrap(), PropertyQuery::All(vec![name("DAV:", "a")]));
        let wide: Vec<u8> = "\u{feff}<propfind xmlns='DAV:'><propname/></propfind>"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(property_query(&wide).unwrap(), PropertyQuery::Names);
    }

    #[test]
    fn what_is_not_a_body_is_refused() {
        let deep = format!("{}{}", "<a>".repeat(5000), "</a>".repeat(5000));
        let deep = format!("<propfind xmlns='DAV:'><prop>{deep}</prop></propfind>");
        let wide = format!("<propfind xmlns='DAV:'><prop>{}</prop></propfind>", "<a/>".repeat(9000));
        for body in [
            "<",
            "x",
            "<propfind/>",
            "<propfind xmlns='DAV:'/>",
            "<propfind xmlns='DAV:'><prop/><allprop/></propfind>",
            "<propfind xmlns='DAV:'><prop></propfind>",
            "<a:propfind/>",
            "<D:propfind xmlns:D=''><D:propname/></D:propfind>",
            "<propfind xmlns='DAV:'><prop><x:y xmlns:x=''/></prop></propfind>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><propfind xmlns='DAV:'><propname/></propfind>",
            "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><propfind xmlns='DAV:'><propname/></propfind>",
            "<propfind xmlns='DAV:'>&b;<propname/></propfind>",
            &deep,
            &wide,
        ] {
            let start: String = body.chars().take(60).collect();
            assert_eq!(
                property_query(body.as_bytes()).map_err(|failure| failure.status).err(),
                Some(400),
                "{start}"
            );
        }
        assert!(property_query(b"\xff\xfe\x00").is_err());
        assert!(property_query(b"\xc3\x28").is_err());
    }

    #[test]
    fn values_keep_their_content() {
        let body = "<D:propertyupdate xmlns:D='DAV:' xmlns:x='urn:x' xml:lang='de'><D:set><D:prop>\
                    <x:p x:k='1&lt;' j='&quot;'>a &amp; <b>c</b><D:href>/</D:href><!-- no -->\
                    <![CDATA[<d>]]></x:p></D:prop></D:set><D:remove><D:prop><q xmlns='urn:q'/></D:prop></D:remove>\
                    <D:set><D:prop><e/></D:prop></D:set></D:propertyupdate>";
        let changes = property_update(body.as_bytes()).unwrap();
        assert_eq!(
            changes[0].value.as_deref().unwrap(),
            "<p xmlns=\"urn:x\" xml:lang=\"de\" xmlns:a0=\"urn:x\" a0:k=\"1&lt;\" j=\"&quot;\">a &amp; \
             <b xmlns=\"\">c</b><href xmlns=\"DAV:\">/</href>&lt;d&gt;</p>"
        );
        assert_eq!((&changes[1].name, &changes[1].value), (&name("urn:q", "q"), &None));
        assert_eq!(changes[2].value.as_deref(), Some("<e xmlns=\"\" xml:lang=\"de\"/>"));
        assert!(property_update(b"<propertyupdate xmlns='DAV:'/>").is_err());
    }

    #[test]
    fn locks_are_read() {
        let body = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/>\
                    </D:locktype><D:owner>me</D:owner></D:lockinfo>";
        let request = lock_request(body.as_bytes()).unwrap();
        assert!(!request.is_exclusive);
        assert_eq!(request.owner, "<owner xmlns=\"DAV:\">me</owner>");
        assert!(lock_request(body.replace("<D:write/>", "").as_bytes()).is_err());
        assert!(lock_request(body.replace("<D:shared/>", "<D:shared/><D:exclusive/>").as_bytes()).is_err());
        assert!(lock_request(b"").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let _ = (property_query(&bytes), property_update(&bytes), lock_request(&bytes));
        }

        #[test]
        fn a_kept_value_reads_as_the_same(
            text in "[ -~\u{80}-\u{2ff}\r\n\t]{0,40}",
            attribute in "[ -~\r\n\t]{0,20}",
        ) {
            let body = format!(
                "<propertyupdate xmlns='DAV:'><set><prop><p xmlns='urn:a' k=\"{}\">{}<q/></p></prop></set>\
                 </propertyupdate>",
                escape(&attribute), escape(&text)
            );
            let changes = property_update(body.as_bytes()).unwrap();
            let kept = changes[0].value.clone().unwrap();
            let document = Document::parse(&kept).unwrap();
            let root = document.root_element();
            prop_assert_eq!(root.attribute("k"), Some(attribute.as_str()));
            prop_assert_eq!(root.text().unwrap_or_default(), text);
            let again = property_update(format!(
                "<propertyupdate xmlns='DAV:'><set><prop>{kept}</prop></set></propertyupdate>"
            ).as_bytes()).unwrap();
            prop_assert_eq!(again[0].value.as_ref(), Some(&kept));
        }
    }
}
