//! Maps: from the value of a text to another text, by exact values, names of hosts or patterns; or by
//! networks, or by shares of all values.
//!
//! ```text
//! from = "$host"      shop.example.org -> one      *.example.org -> two      ~^v([0-9]+)\. -> release-$1
//! ```
//!
//! An exact value counts before a name of hosts (the longest one that fits), that before the patterns in
//! their order, and these before the default. The values are texts too, so they may use variables, earlier
//! maps, and what a pattern has matched.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use regex::bytes::{Captures, Regex};

use crate::function::Function;
use crate::lookup::{Lookup, Piece};
use crate::map_text::{Entry, EntryKey};
use crate::pattern;
use crate::scope::{FindsMaps, Scope};
use crate::source::Source;
use crate::table::{Networks, Shares};
use crate::text::Text;
use crate::variable::{AvailableFrom, Fact, Variable, nearest};

/// The most entries of one map.
pub const MOST_ENTRIES: usize = 1_000_000;

/// The most patterns of one map; they are tried one after the other.
pub const MOST_PATTERNS: usize = 10_000;

/// How many matches of a route's pattern a map can look up.
const MOST_GROUPS: usize = 9;

/// A map, read once.
pub struct Map {
    name: Box<str>,
    from: Text,
    /// The case of letters of exact values is ignored.
    ignore_case: bool,
    exact: HashMap<Box<[u8]>, Text>,
    /// By what follows the asterisk: `.example.org`.
    hosts: HashMap<Box<[u8]>, Text>,
    patterns: Vec<(Regex, Text)>,
    /// In place of all these.
    function: Option<Function>,
    /// In place of all these.
    networks: Option<Networks>,
    /// In place of all these.
    shares: Option<Shares>,
    default: Text,
    /// What its texts, and the maps in them, use of a request or an answer, each once.
    variables: Box<[Variable]>,
    known: AvailableFrom,
    /// A hash of its whole definition.
    digest: u64,
}

/// The definition of a map.
pub struct MapSource<'s> {
    /// Its name.
    pub name: &'s str,
    /// The text that is looked up.
    pub from: &'s str,
    /// The value if no entry matches.
    pub default: &'s str,
    /// The case of letters in exact values is ignored.
    pub ignore_case: bool,
    /// What becomes of the text, in place of entries.
    pub function: Option<Function>,
}

/// All maps of a configuration, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Maps(Arc<HashMap<Box<str>, Arc<Map>>>);

impl Maps {
    /// The map of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Arc<Map>> {
        self.0.get(name)
    }

    /// Adds a map that may use those that are there.
    pub fn add(&mut self, map: Map) {
        Arc::make_mut(&mut self.0).insert(map.name.clone(), Arc::new(map));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FindsMaps for Maps {
    fn find(&self, name: &str, known: AvailableFrom) -> Result<Arc<dyn Lookup>, String> {
        let map = self.get(name).ok_or_else(|| match nearest(name, self.0.keys().map(|name| &**name)) {
            Some(near) => format!("there is no map {name:?}; did you mean {near:?}?"),
            None => format!("there is no map {name:?}; a [[map]] with this name must be before its use"),
        })?;
        if map.known > known {
            let when = map.known.when();
            return Err(format!("'$map{{{name}}}' is available only when {when}, so it is not valid here"));
        }
        Ok(map.clone())
    }
}

impl Map {
    /// Makes a map; each entry has a place in words (`line 3 of hosts.map`), for the error.
    pub fn new<P: std::fmt::Display>(
        source: &MapSource<'_>,
        entries: impl IntoIterator<Item = (Entry, P)>,
        maps: &Maps,
    ) -> Result<Map, String> {
        let scope = Scope::from(AvailableFrom::Answer).with_maps(maps);
        let text = |what: &str, text: &str, scope: Scope<'_>| {
            Text::read(text, scope).map_err(|problem| format!("'{what}': {problem}"))
        };
        // What the pattern of a route has matched, where the map is used.
        let of_route: [Option<String>; MOST_GROUPS] = [const { None }; MOST_GROUPS];
        let mut map = Map {
            name: source.name.into(),
            from: text("from", source.from, scope.with_captures(&of_route))?,
            ignore_case: source.ignore_case,
            exact: HashMap::new(),
            hosts: HashMap::new(),
            patterns: Vec::new(),
            function: source.function,
            networks: None,
            shares: None,
            default: text("default", source.default, scope)?,
            variables: Box::default(),
            known: AvailableFrom::Request,
            digest: 0,
        };
        let mut hasher = DefaultHasher::new();
        // The texts may use earlier maps.
        let mut earlier: Vec<u64> = maps.0.values().map(|map| map.digest).collect();
        earlier.sort_unstable();
        earlier.hash(&mut hasher);
        (source.name, source.from, source.default, source.ignore_case, source.function).hash(&mut hasher);
        for (entry, place) in entries {
            entry.hash(&mut hasher);
            map.add(entry, scope).map_err(|problem| format!("{place}: {problem}"))?;
        }
        if let Some(networks) = &mut map.networks {
            networks.finish();
        }
        map.digest = hasher.finish();
        map.variables = map.variables_of_texts();
        map.known =
            map.variables.iter().map(|variable| variable.known).max().unwrap_or(AvailableFrom::Request);
        Ok(map)
    }

    fn add(&mut self, entry: Entry, scope: Scope<'_>) -> Result<(), String> {
        self.check_kind(&entry.key)?;
        let twice = |key: &str| Err(format!("{key:?} is in the map already"));
        match entry.key {
            EntryKey::Default => self.default = Text::read(&entry.value, scope)?,
            EntryKey::Network(network) => {
                let networks = self.networks.get_or_insert_with(Networks::new);
                networks.add(network, &entry.value, |value| Text::read(value, scope))?;
            }
            EntryKey::WithoutNetwork(network) => {
                if !self.networks.as_mut().is_some_and(|networks| networks.remove(network)) {
                    return Err(format!("no network {network} is before it, and none is deleted"));
                }
            }
            EntryKey::Share(hundredths) => {
                let value = Text::read(&entry.value, scope)?;
                self.shares.get_or_insert_default().add(hundredths, value)?;
            }
            EntryKey::Exact(key) => {
                let value = Text::read(&entry.value, scope)?;
                let bytes = self.in_case(key.as_bytes()).into_owned().into();
                if self.exact.insert(bytes, value).is_some() {
                    return twice(&key);
                }
            }
            EntryKey::Hosts(suffix) => {
                let value = Text::read(&entry.value, scope)?;
                if self.hosts.insert(suffix.to_ascii_lowercase().into_bytes().into(), value).is_some() {
                    return twice(&format!("*{suffix}"));
                }
            }
            EntryKey::Pattern { expression, ignore_case } => {
                if self.patterns.len() >= MOST_PATTERNS {
                    return Err(format!("a map has at most {MOST_PATTERNS} patterns"));
                }
                let regex = pattern::read(&expression, ignore_case)
                    .map_err(|problem| format!("{expression:?} is not a pattern: {problem}"))?;
                let names: Vec<Option<String>> =
                    regex.capture_names().skip(1).map(|name| name.map(str::to_string)).collect();
                let value = Text::read(&entry.value, scope.with_captures(&names))?;
                self.patterns.push((regex, value));
            }
        }
        Ok(())
    }

    /// A map has values, networks or shares, and a limited number of them.
    fn check_kind(&self, key: &EntryKey) -> Result<(), String> {
        let values = self.exact.len() + self.hosts.len() + self.patterns.len();
        let networks = self.networks.as_ref().map_or(0, Networks::count);
        let shares = self.shares.as_ref().map_or(0, Shares::count);
        if self.function.is_some() {
            return Err("a map with 'function' has no entries".to_string());
        }
        if values + networks + shares >= MOST_ENTRIES {
            return Err(format!("a map has at most {MOST_ENTRIES} entries"));
        }
        let others = match key {
            EntryKey::Default => 0,
            EntryKey::Network(_) | EntryKey::WithoutNetwork(_) => values + shares,
            EntryKey::Share(_) => values + networks,
            EntryKey::Exact(_) | EntryKey::Hosts(_) | EntryKey::Pattern { .. } => networks + shares,
        };
        match others {
            0 => Ok(()),
            _ => Err("a map has either values and patterns, or networks, or shares".to_string()),
        }
    }

    fn values(&self) -> impl Iterator<Item = &Text> {
        let patterns = self.patterns.iter().map(|(_, value)| value);
        let networks = self.networks.iter().flat_map(Networks::texts);
        let shares = self.shares.iter().flat_map(Shares::texts);
        let values = self.exact.values().chain(self.hosts.values()).chain(patterns);
        values.chain(networks).chain(shares).chain([&self.default])
    }

    fn variables_of_texts(&self) -> Box<[Variable]> {
        let found = RefCell::new(HashSet::<Variable>::new());
        let note = |text: &Text, with_captures: bool| {
            text.uses(&|variable: &Variable| {
                let is_meant = with_captures || variable.fact != Fact::Capture;
                if is_meant && !found.borrow().contains(variable) {
                    found.borrow_mut().insert(variable.clone());
                }
                false
            });
        };
        // Those in values are of the map's own patterns.
        self.values().for_each(|text| note(text, false));
        note(&self.from, true);
        found.into_inner().into_iter().collect()
    }

    fn find<'k>(&self, key: &'k [u8]) -> (&Text, Option<Captures<'k>>) {
        if let Some(networks) = &self.networks {
            return (networks.find(key).unwrap_or(&self.default), None);
        }
        if let Some(shares) = &self.shares {
            return (shares.find(key).unwrap_or(&self.default), None);
        }
        if let Some(value) = self.exact.get(&*self.in_case(key)) {
            return (value, None);
        }
        if !self.hosts.is_empty() {
            let lower = key.to_ascii_lowercase();
            // The rest after the first dot is the longest.
            let mut dots = memchr::memchr_iter(b'.', &lower).filter(|dot| *dot > 0);
            if let Some(value) = dots.find_map(|dot| self.hosts.get(&lower[dot..])) {
                return (value, None);
            }
        }
        for (regex, value) in &self.patterns {
            if let Some(matched) = regex.captures(key) {
                return (value, Some(matched));
            }
        }
        (&self.default, None)
    }

    fn in_case<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        match self.ignore_case && key.iter().any(u8::is_ascii_uppercase) {
            true => Cow::Owned(key.to_ascii_lowercase()),
            false => Cow::Borrowed(key),
        }
    }
}

impl Lookup for Map {
    fn value<'a>(&'a self, source: &'a dyn Source) -> Cow<'a, [u8]> {
        let key = self.from.render(source);
        if let Some(function) = self.function {
            return function.apply(key);
        }
        match self.find(&key) {
            (value, None) => value.render(source),
            // Its borrowed text is valid only as long as the match.
            (value, Some(matched)) => {
                Cow::Owned(value.render(&MatchedSource { source, matched: &matched }).into_owned())
            }
        }
    }

    fn pieces(&self, source: &dyn Source, take: &mut dyn FnMut(Piece<'_>)) {
        let key = self.from.render(source);
        if let Some(function) = self.function {
            return take(Piece::Value(&function.apply(key)));
        }
        match self.find(&key) {
            (value, None) => value.pieces(source, take),
            (value, Some(matched)) => value.pieces(&MatchedSource { source, matched: &matched }, take),
        }
    }

    fn uses(&self, is_meant: &dyn Fn(&Variable) -> bool) -> bool {
        self.variables.iter().any(is_meant)
    }

    fn has_plain_values(&self) -> bool {
        self.function.is_none() && self.values().all(|value| !value.has_variables())
    }

    fn digest(&self) -> u64 {
        self.digest
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Map) -> bool {
        self.digest == other.digest
    }
}

impl std::fmt::Debug for Map {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Map").field("name", &self.name).field("from", &self.from).finish()
    }
}

/// A source with what a pattern has matched.
struct MatchedSource<'a, 'm> {
    source: &'a dyn Source,
    matched: &'m Captures<'m>,
}

impl Source for MatchedSource<'_, '_> {
    fn value<'a>(&'a self, variable: &'a Variable) -> Option<Cow<'a, [u8]>> {
        match variable.fact {
            Fact::Capture => {
                self.matched.get(variable.position + 1).map(|found| Cow::Borrowed(found.as_bytes()))
            }
            _ => self.source.value(variable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;
    use crate::map_text;
    use proptest::prelude::*;
    use touchstone_http::request_view::RequestView;

    fn map(from: &str, text: &str, ignore_case: bool) -> Result<Map, String> {
        let source = MapSource { name: "m", from, default: "none", ignore_case, function: None };
        let entries = map_text::read(text)?;
        Map::new(&source, entries.into_iter().map(|(line, entry)| (entry, format!("line {line}"))), &{
            let source =
                MapSource { name: "first", from: "$method", default: "", ignore_case: false, function: None };
            let mut maps = Maps::default();
            maps.add(Map::new(
                &source,
                map_text::read("GET got").unwrap().into_iter().map(|(l, e)| (e, l)),
                &{ Maps::default() },
            )?);
            maps
        })
    }

    fn value(from: &str, text: &str, path: &str, host: &str) -> String {
        let view = RequestView { host: Some(host.as_bytes()), ..RequestView::example(path) };
        let map = map(from, text, false).unwrap();
        String::from_utf8(map.value(&view).into_owned()).unwrap()
    }

    #[test]
    fn exact_then_hosts_then_patterns_then_default() {
        let text = "a.example.org one\n*.example.org two\n*.b.example.org three\n\
                    ~^v([0-9]+)\\. release-$1\n~*^V(?<n>.*)$ other-$n\n";
        for (host, expected) in [
            ("a.example.org", "one"),
            ("A.Example.Org:8080", "one"),
            ("b.example.org", "two"),
            ("c.b.example.org", "three"),
            ("example.org", "none"),
            (".example.org", "none"),
            ("v12.test", "release-12"),
            ("vx", "other-x"),
            ("", "none"),
        ] {
            assert_eq!(value("$host", text, "/", host), expected, "{host}");
        }
    }

    #[test]
    fn values_are_texts() {
        let text = "/a $method-$map{first}\n~^/old/(.*)$ /new/$1$$\ndefault $path\n";
        assert_eq!(value("$path", text, "/a", "h"), "GET-got");
        assert_eq!(value("$path", text, "/old/x/y", "h"), "/new/x/y$");
        assert_eq!(value("$path", text, "/c", "h"), "/c");
    }

    #[test]
    fn case_is_ignored_where_that_is_said() {
        let map = map("$path", "/A one\n~*^/b two\n~^/c three", true).unwrap();
        let value = |path: &str| String::from_utf8(map.value(&RequestView::example(path)).into_owned());
        assert_eq!(value("/a").unwrap(), "one");
        assert_eq!(value("/B").unwrap(), "two");
        assert_eq!(value("/C").unwrap(), "none");
    }

    #[test]
    fn refused() {
        let problem = |text: &str| map("$path", text, false).unwrap_err();
        assert!(problem("a b\na c").contains("line 2: \"a\" is in the map already"));
        assert!(problem("~( b").contains("is not a pattern"));
        assert!(problem("a $1").contains("'$1'"), "{}", problem("a $1"));
        assert!(problem("a $map{none}").contains("no map \"none\""));
        assert!(problem("a $map{frist}").contains("did you mean \"first\""));
        assert!(map("$nothing", "", false).unwrap_err().contains("'from': unknown variable"));
    }

    #[test]
    fn a_map_of_networks_or_of_shares() {
        let new_map = |from: &str, entries: Vec<(EntryKey, &str)>| {
            let source = MapSource { name: "m", from, default: "none", ignore_case: false, function: None };
            let entry = |(key, value): (EntryKey, &str)| (Entry { key, value: value.to_string() }, "here");
            Map::new(&source, entries.into_iter().map(entry), &Maps::default())
        };
        let network = |text: &str| EntryKey::Network(text.parse().unwrap());
        let map = new_map("$client", vec![(network("192.0.2.0/24"), "$method"), (network("::/0"), "six")]);
        let map = map.unwrap();
        let value = |client: &str| {
            let view = RequestView { client: client.parse().ok(), ..RequestView::example("/") };
            String::from_utf8(map.value(&view).into_owned()).unwrap()
        };
        assert_eq!((value("192.0.2.9"), value("2001:db8::1")), ("GET".to_string(), "six".to_string()));
        assert_eq!((value("198.51.100.1"), value("")), ("none".to_string(), "none".to_string()));
        let shares = new_map("$path", vec![(EntryKey::Share(None), "all")]).unwrap();
        assert_eq!(&*shares.value(&RequestView::example("/")), b"all");
        let both = vec![(network("192.0.2.0/24"), "a"), (EntryKey::Share(None), "b")];
        assert!(new_map("$client", both).unwrap_err().contains("either values and patterns"));
        let gone = vec![(EntryKey::WithoutNetwork("192.0.2.0/24".parse().unwrap()), "")];
        assert!(new_map("$client", gone).unwrap_err().contains("none is deleted"));
    }

    #[test]
    fn what_a_route_has_matched_is_looked_up() {
        struct Route;
        impl Source for Route {
            fn value<'a>(&'a self, variable: &'a Variable) -> Option<Cow<'a, [u8]>> {
                (variable.fact == Fact::Capture && variable.position == 0).then(|| Cow::Borrowed(&b"ONE"[..]))
            }
        }
        let found = map("$1", "ONE $method/1\n~^(.)$ $1", false).unwrap();
        assert_eq!(&*found.value(&Route), b"/1");
        assert!(found.uses(&|variable: &Variable| variable.fact == Fact::Capture));
        // Without a match, the text is empty.
        assert_eq!(&*found.value(&RequestView::example("/")), b"none");
        assert!(map("$10", "", false).unwrap_err().contains("has no value"));
        let function = Some(Function::Lower);
        let source = MapSource { name: "m", from: "$1", default: "", ignore_case: false, function };
        let lower = Map::new(&source, Vec::<(Entry, &str)>::new(), &Maps::default()).unwrap();
        assert_eq!(&*lower.value(&Route), b"one");
        assert!(!lower.has_plain_values());
        let entry = Entry { key: EntryKey::Default, value: String::new() };
        assert!(Map::new(&source, [(entry, "here")], &Maps::default()).unwrap_err().contains("no entries"));
    }

    #[test]
    fn a_map_is_known_as_late_as_what_it_uses() {
        let mut maps = Maps::default();
        maps.add(map("$status", "404 none", false).unwrap());
        let read = |known: AvailableFrom| Text::read("$map{m}", Scope::from(known).with_maps(&maps));
        assert!(read(AvailableFrom::Request).unwrap_err().contains("available only when"));
        assert!(read(AvailableFrom::Answer).is_ok());
        // Before the maps are read, any name is accepted.
        assert!(Text::read("$map{other}", AvailableFrom::Request).is_ok());
    }

    #[test]
    fn what_uses_another_map_is_another() {
        let entries =
            |text: &str| map_text::read(text).unwrap().into_iter().map(|(line, entry)| (entry, line));
        let new_map = |name: &str, text: &str, earlier: &Maps| {
            let source = MapSource { name, from: "$path", default: "0", ignore_case: false, function: None };
            Map::new(&source, entries(text), earlier).unwrap()
        };
        // The second map is written in the same way each time, and uses the first one.
        let maps = |first: &str| {
            let mut maps = Maps::default();
            maps.add(new_map("first", first, &Maps::default()));
            let second = new_map("second", "/a $map{first}", &maps);
            maps.add(second);
            maps
        };
        let read = |maps: &Maps, text: &str| {
            Condition::read(text, Scope::from(AvailableFrom::Answer).with_maps(maps)).unwrap()
        };
        for text in ["$map{first} == 1", "not $map{second}", "$path =~ \"x\" or $map{second} in [\"1\"]"] {
            assert!(read(&maps("/a 1"), text) == read(&maps("/a 1"), text), "{text}");
            assert!(read(&maps("/a 1"), text) != read(&maps("/a 2"), text), "{text}");
        }
    }

    proptest! {
        /// Exact look-ups are those of a table.
        #[test]
        fn exact_values(keys in prop::collection::btree_set("[a-z/]{1,6}", 0..8), wanted in "[a-z/]{1,6}") {
            let text: String = keys.iter().map(|key| format!("{key} v-{key}\n")).collect();
            let expected = if keys.contains(&wanted) { format!("v-{wanted}") } else { "none".to_string() };
            prop_assert_eq!(value("$path", &text, &wanted, "h"), expected);
        }
    }
}
