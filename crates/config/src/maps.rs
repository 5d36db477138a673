//! `[[map]]`: from the value of a text to another text, for the variable `$map{name}`.
//!
//! Texts and conditions are first read with any name of a map. Those that have one are read again with the
//! maps.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use toml::de::DeTable;
use touchstone_config_section::{Key, Kind, Place, Section, SectionPlaces, values};
use touchstone_expression::map_text::{self, Entry, EntryKey, LARGEST_FILE_BYTES};
use touchstone_expression::{
    AvailableFrom, Condition, FUNCTIONS, Fact, Function, Map, MapSource, Maps, Scope, Text, Variable,
};

use super::config_reader::ConfigReader;
use super::{
    AccessConfig, AccessLogConfig, AccessLogFormat, Config, ConfigPlaces, ConfigWithPlaces, Network,
    RouteConfig,
};

/// `[[map]]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MapConfig {
    name: String,
    from: String,
    default: String,
    ignore_case: bool,
    values: BTreeMap<String, String>,
    patterns: Vec<String>,
    file: Option<PathBuf>,
    networks: BTreeMap<String, String>,
    networks_file: Option<PathBuf>,
    shares: Vec<String>,
    function: String,
}

/// `[[map]]`
pub(super) static MAP: Section<MapConfig> = Section {
    name: "map",
    repeated: true,
    documentation: "A table from the value of a text to another text, for the variable `$map{name}` in \
        [conditions and texts](expressions.md#maps). An exact value counts before `*.example.org`, that \
        before the patterns in their order, and these before `default`. In place of values, a map may have \
        networks, or shares of all clients. A map may use those before it.",
    blank: || MapConfig {
        name: String::new(),
        from: String::new(),
        default: String::new(),
        ignore_case: false,
        values: BTreeMap::new(),
        patterns: Vec::new(),
        file: None,
        networks: BTreeMap::new(),
        networks_file: None,
        shares: Vec::new(),
        function: String::new(),
    },
    keys: &[
        Key {
            name: "name",
            default: None,
            example: "\"backend\"",
            documentation: "The name: letters, digits, `_` and `-`.",
            kind: Kind::Checked {
                what: "name of a map",
                parse: |text, _| {
                    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                    match !text.is_empty() && text.bytes().all(is_of_name) {
                        true => Ok(text.to_string()),
                        false => Err(format!("{text:?} is not a name of letters, digits, '_' and '-'")),
                    }
                },
                set: |map, value| map.name = value,
            },
        },
        Key {
            name: "from",
            default: None,
            example: "\"$host\"",
            documentation: "The text that is looked up. `$1` to `$9` are the matches of the pattern of the \
                route in which the map is used; elsewhere they are empty.",
            kind: Kind::Checked {
                what: "text with variables",
                parse: |text, _| {
                    let of_route: [Option<String>; 9] = [const { None }; 9];
                    let scope = Scope::from(AvailableFrom::Answer).with_captures(&of_route);
                    Text::read(text, scope).map(|_| text.to_string())
                },
                set: |map, value| map.from = value,
            },
        },
        Key {
            name: "default",
            default: Some("\"\""),
            example: "\"web\"",
            documentation: "The value if no entry matches.",
            kind: Kind::Checked {
                what: "text with variables",
                parse: |text, _| values::check_text(text, AvailableFrom::Answer),
                set: |map, value| map.default = value,
            },
        },
        Key {
            name: "ignore_case",
            default: Some("false"),
            example: "true",
            documentation: "Whether the case of ASCII letters in exact values is ignored.",
            kind: Kind::Boolean(|map, value| map.ignore_case = value),
        },
        Key {
            name: "values",
            default: Some("{}"),
            example: "{ \"shop.example.org\" = \"shop\", \"*.example.org\" = \"wiki\" }",
            documentation: "Exact values, and names of hosts such as `*.example.org`, which matches all \
                names below it; with the texts that replace them.",
            kind: Kind::Pairs {
                what: "table from values to texts",
                check: |key, value| {
                    if let EntryKey::Pattern { .. } = EntryKey::read(key)? {
                        return Err(format!("{key:?} is a pattern; write it in 'patterns'"));
                    }
                    Text::read(value, AvailableFrom::Answer).map(|_| ())
                },
                set: |map, value| map.values = value,
            },
        },
        Key {
            name: "patterns",
            default: Some("[]"),
            example: "[\"~^v([0-9]+)\\\\. release-$1\"]",
            documentation: "Regular expressions, tried in order, each with its text as in a file: `~` before \
                an expression, `~*` before one that ignores case. `$1` to `$9` and `$name` are what its \
                groups have matched.",
            kind: Kind::CheckedArray {
                what: "array of patterns with texts",
                parse: |text| match map_text::read_line(text)? {
                    Some(Entry { key: EntryKey::Pattern { .. }, .. }) => Ok(text.to_string()),
                    _ => Err(format!("{text:?} is not a pattern with its text, such as \"~^/old/ /new/\"")),
                },
                set: |map, value| map.patterns = value,
            },
        },
        Key {
            name: "file",
            default: Some("\"\""),
            example: "\"maps/backends.map\"",
            documentation: "A file with more entries, a value and its text on each line, as in nginx's maps: \
                see [files of maps](expressions.md#maps). It is read again at each reload.",
            kind: Kind::File(|map, value| map.file = value),
        },
        Key {
            name: "networks",
            default: Some("{}"),
            example: "{ \"10.0.0.0/8\" = \"office\", \"2001:db8::/32\" = \"lab\", \"unix:\" = \"local\" }",
            documentation: "Networks, with the texts for addresses in them; `from` is then an address, such \
                as `$client`. The longest network that contains it decides. `\"unix:\"` is the clients of \
                unix sockets. The key corresponds to `geo` of nginx.",
            kind: Kind::Pairs {
                what: "table from networks to texts",
                check: |key, value| {
                    key.parse::<Network>()?;
                    Text::read(value, AvailableFrom::Answer).map(|_| ())
                },
                set: |map, value| map.networks = value,
            },
        },
        Key {
            name: "networks_file",
            default: Some("\"\""),
            example: "\"maps/countries.geo\"",
            documentation: "A file with more networks, each with its text on a line of its own, in the form \
                of a file that `geo` of nginx includes: see [networks](expressions.md#networks). It is read \
                again at each reload.",
            kind: Kind::File(|map, value| map.networks_file = value),
        },
        Key {
            name: "shares",
            default: Some("[]"),
            example: "[\"10% new\", \"0.5% test\", \"* old\"]",
            documentation: "Shares of all values, each with its text, and `*` for the rest. A value always \
                has the same text, selected by its hash. The key corresponds to `split_clients` of nginx, \
                with the same hash: `from = \"${client}AAA\"` divides clients like `\"${remote_addr}AAA\"` \
                there.",
            kind: Kind::CheckedArray {
                what: "array of shares with texts",
                parse: |text| map_text::read_share_line(text).map(|_| text.to_string()),
                set: |map, value| map.shares = value,
            },
        },
        Key {
            name: "function",
            default: Some("\"\""),
            example: "\"lower\"",
            documentation: "What becomes of the text, in place of a table: `lower` and `upper` change ASCII \
                letters, `escape` and `unescape` write bytes as in paths (`%20`) and back. Empty: none.",
            kind: Kind::Checked {
                what: "`\"lower\"`, `\"upper\"`, `\"escape\"` or `\"unescape\"`",
                parse: |text, _| match text.is_empty() || Function::named(text).is_some() {
                    true => Ok(text.to_string()),
                    false => {
                        let names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
                        Err(format!("{text:?} is not a function; known: {}", names.join(", ")))
                    }
                },
                set: |map, value| map.function = value,
            },
        },
    ],
};

impl MapConfig {
    fn compile(&self, maps: &Maps) -> Result<Map, (&'static str, String)> {
        let mut entries: Vec<(Entry, String)> = Vec::new();
        for (key, value) in &self.values {
            let key = EntryKey::read(key).map_err(|problem| ("values", problem))?;
            entries.push((Entry { key, value: value.clone() }, "'values'".to_string()));
        }
        for line in &self.patterns {
            let entry = map_text::read_line(line).map_err(|problem| ("patterns", problem))?;
            entries.extend(entry.map(|entry| (entry, "'patterns'".to_string())));
        }
        let key = if !self.networks.is_empty() || self.networks_file.is_some() {
            self.add_networks(&mut entries)?
        } else if !self.shares.is_empty() {
            for line in &self.shares {
                let entry = map_text::read_share_line(line).map_err(|problem| ("shares", problem))?;
                entries.push((entry, "'shares'".to_string()));
            }
            "shares"
        } else if let Some(file) = &self.file {
            self.add_file("file", file, map_text::read, &mut entries)?;
            "file"
        } else if self.patterns.is_empty() {
            "values"
        } else {
            "patterns"
        };
        let source = MapSource {
            name: &self.name,
            from: &self.from,
            default: &self.default,
            ignore_case: self.ignore_case,
            function: Function::named(&self.function),
        };
        Map::new(&source, entries, maps).map_err(|problem| (key, problem))
    }

    /// Adds the networks; those of the file are added first, so that the others take precedence.
    fn add_networks(
        &self,
        entries: &mut Vec<(Entry, String)>,
    ) -> Result<&'static str, (&'static str, String)> {
        if let Some(file) = &self.networks_file {
            self.add_file("networks_file", file, map_text::read_networks, entries)?;
        }
        for (network, value) in &self.networks {
            let network = network.parse().map_err(|problem| ("networks", problem))?;
            let entry = Entry { key: EntryKey::Network(network), value: value.clone() };
            entries.push((entry, "'networks'".to_string()));
        }
        Ok(if self.networks_file.is_some() { "networks_file" } else { "networks" })
    }

    fn add_file(
        &self,
        key: &'static str,
        file: &Path,
        read: ReadEntries,
        entries: &mut Vec<(Entry, String)>,
    ) -> Result<(), (&'static str, String)> {
        let read = read_file(file, read).map_err(|problem| (key, format!("'{key}': {problem}")))?;
        let place = |line: usize| format!("'{key}': {}:{line}", file.display());
        entries.extend(read.into_iter().map(|(line, entry)| (entry, place(line))));
        Ok(())
    }
}

/// The maps for texts that are compiled later, if there are any.
fn used(maps: &Maps) -> Option<Maps> {
    (!maps.is_empty()).then(|| maps.clone())
}

fn is_map(variable: &Variable) -> bool {
    variable.fact == Fact::Map
}

/// Reads the entries of a text, each with its line.
type ReadEntries = fn(&str) -> Result<Vec<(usize, Entry)>, String>;

/// The entries of a file.
fn read_file(file: &Path, read_text: ReadEntries) -> Result<Vec<(usize, Entry)>, String> {
    let mut text = String::new();
    let name = file.display();
    let read = std::fs::File::open(file)
        .and_then(|opened| opened.take(LARGEST_FILE_BYTES + 1).read_to_string(&mut text));
    read.map_err(|error| format!("{name} cannot be read: {error}"))?;
    if text.len() as u64 > LARGEST_FILE_BYTES {
        return Err(format!("{name} is larger than {}", values::format_size(LARGEST_FILE_BYTES)));
    }
    read_text(&text).map_err(|problem| format!("{name}: {problem}"))
}

impl ConfigReader<'_> {
    /// Reads the maps of all files, in their order.
    pub(super) fn maps(&mut self, documents: &[DeTable<'_>], places: &mut ConfigPlaces) -> Maps {
        let mut maps = Maps::default();
        for (position, document) in documents.iter().enumerate() {
            let Some((_, value)) = document.get_key_value(MAP.name) else { continue };
            self.enter(position);
            let problems_before = self.problems().len();
            let read = self.tables(&MAP, value);
            let values_are_right = self.problems().len() == problems_before;
            for (config, section) in read {
                if values_are_right {
                    self.add_map(&config, &section, &mut maps);
                }
                places.maps.push(section);
            }
        }
        maps
    }

    fn add_map(&mut self, config: &MapConfig, places: &SectionPlaces, maps: &mut Maps) {
        if maps.get(&config.name).is_some() {
            self.problem(places.key("name"), format!("'name': a map {:?} exists already", config.name));
            return;
        }
        match config.compile(maps) {
            Ok(map) => maps.add(map),
            Err((key, problem)) => self.problem(places.key(key), problem),
        }
    }

    /// Reads the texts and conditions of the configuration that use maps again, with the maps.
    pub(super) fn use_maps(&mut self, loaded: &mut ConfigWithPlaces) {
        let ConfigWithPlaces { config, places } = loaded;
        let Config { maps, sites, access_log, .. } = config;
        let log_places = places.sections.get("access_log").cloned().unwrap_or_default();
        self.in_log(access_log, maps, &log_places);
        for (site, places) in sites.iter_mut().zip(&places.sites) {
            site.maps = used(maps);
            if let Some(log) = &mut site.access_log {
                self.in_log(log, maps, places.table("access_log", 0).unwrap_or(places));
            }
            for (name, value) in &site.headers {
                self.check(Text::read(value, Scope::from(AvailableFrom::Head).with_maps(maps)), || {
                    (places.key("headers"), format!("'headers': {name}"))
                });
            }
            self.in_access(&mut site.access, maps, places);
            for (position, route) in site.routes.iter_mut().enumerate() {
                if let Some(places) = places.table("route", position) {
                    self.in_route(route, maps, places);
                }
            }
        }
    }

    fn in_route(&mut self, route: &mut RouteConfig, maps: &Maps, places: &SectionPlaces) {
        route.maps = Some(maps.clone());
        for problem in super::routes::map_problems(route) {
            self.problem(places.key_below(problem.key), problem.message);
        }
        route.maps = used(maps);
        if let Some(log) = &mut route.access_log {
            self.in_log(log, maps, places.table("access_log", 0).unwrap_or(places));
        }
        self.in_access(&mut route.access, maps, places);
        let admitted = Scope::from(AvailableFrom::Admitted).with_maps(maps);
        if let Some(cache) = &mut route.cache {
            let place = |key: &str| places.table("cache", 0).map_or(places.header, |table| table.key(key));
            self.reread_text(&mut cache.key, admitted, || (place("key"), "'key'".to_string()));
            self.reread_condition(&mut cache.bypass, admitted, || (place("bypass"), "'bypass'".to_string()));
            self.reread_condition(&mut cache.no_store, admitted, || {
                (place("no_store"), "'no_store'".to_string())
            });
        }
        if let Some(proxy) = &mut route.proxy {
            let forward = places.table("proxy", 0).and_then(|proxy| proxy.table("forward", 0));
            let place = forward.map_or(places.key("proxy"), |forward| forward.key("set"));
            let set = proxy.forward.set.iter_mut();
            for (name, value) in set.filter(|(_, value)| value.uses(&is_map)) {
                if let Some(read) =
                    self.check(Text::read(value.source(), admitted), || (place, format!("'set': {name}")))
                {
                    *value = read;
                }
            }
        }
    }

    fn in_access(&mut self, access: &mut AccessConfig, maps: &Maps, places: &SectionPlaces) {
        if let Some(rate) = &mut access.rate_limit {
            let place = places.table("rate_limit", 0).unwrap_or(places).key("key");
            let scope = Scope::from(AvailableFrom::Admitted).with_maps(maps);
            self.reread_text(&mut rate.key, scope, || (place, "'key'".to_string()));
        }
        if let Some(crawlers) = &mut access.crawlers {
            let place = places.table("crawlers", 0).unwrap_or(places).key("when");
            let scope = Scope::from(AvailableFrom::Connection).with_maps(maps);
            self.reread_condition(&mut crawlers.when, scope, || (place, "'crawlers.when'".to_string()));
        }
    }

    fn in_log(&mut self, log: &mut AccessLogConfig, maps: &Maps, places: &SectionPlaces) {
        let scope = Scope::from(AvailableFrom::Answer).with_maps(maps);
        self.reread_condition(&mut log.when, scope, || (places.key("when"), "'when'".to_string()));
        if let AccessLogFormat::Template(template) = &log.format {
            let read = AccessLogFormat::parse_in(template.source(), scope);
            if let Some(format) = self.check(read, || (places.key("format"), "'format'".to_string())) {
                log.format = format;
            }
        }
    }

    fn reread_text(
        &mut self,
        text: &mut Option<Text>,
        scope: Scope<'_>,
        place: impl Fn() -> (Place, String),
    ) {
        if let Some(source) = text.as_ref().filter(|text| text.uses(&is_map)).map(Text::source) {
            let read = Text::read(source, scope);
            *text = self.check(read, place);
        }
    }

    fn reread_condition(
        &mut self,
        condition: &mut Option<Condition>,
        scope: Scope<'_>,
        place: impl Fn() -> (Place, String),
    ) {
        let with_map = condition.as_ref().filter(|condition| condition.uses(is_map));
        if let Some(source) = with_map.map(Condition::source) {
            let read = Condition::read(source, scope);
            *condition = self.check(read, place);
        }
    }

    /// Reports a problem with what was read.
    fn check<T>(&mut self, read: Result<T, String>, place: impl Fn() -> (Place, String)) -> Option<T> {
        read.map_err(|problem| {
            let (place, key) = place();
            self.problem(place, format!("{key}: {problem}"));
        })
        .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    const SITE: &str = "[[site]]\nlisten = ['127.0.0.1:0']\nroot = 'www'\n";

    fn problems(text: &str) -> Vec<String> {
        let problems = parse(text, Path::new("/etc/t/t.toml")).unwrap_err();
        problems.iter().map(|problem| problem.to_string().replace("/etc/t/t.toml:", "")).collect()
    }

    #[test]
    fn maps_are_read_before_what_uses_them() {
        let text = format!(
            "{SITE}headers = {{ X-Map = '$map{{two}}' }}\n\
             [[site.route]]\npath = '/a'\nwhen = '$map{{one}} == \"x\"'\n\
             redirect = {{ to = '$map{{one}}' }}\n\
             [[map]]\nname = 'one'\nfrom = '$host'\nvalues = {{ a = '/x' }}\npatterns = ['~^b(.) /y$1']\n\
             [[map]]\nname = 'two'\nfrom = '$map{{one}}'\ndefault = '$status'\n"
        );
        let config = parse(&text, Path::new("/etc/t/t.toml")).unwrap();
        assert!(config.maps.get("one").is_some() && config.maps.get("two").is_some());
    }

    #[test]
    fn refused() {
        let map = |keys: &str| format!("[[map]]\nname = 'a'\nfrom = '$host'\n{keys}\n{SITE}");
        let first = |text: &str| problems(text).remove(0);
        assert!(first(&format!("{SITE}headers = {{ X = '$map{{b}}' }}")).starts_with("4:11: 'headers': X"));
        assert!(first(&map("values = { '~x' = 'y' }")).contains("write it in 'patterns'"));
        assert!(first(&map("values = { 'x' = '$nothing' }")).contains("unknown variable '$nothing'"));
        assert!(first(&map("patterns = ['x y']")).contains("is not a pattern with its text"));
        assert!(first(&map("patterns = ['~( y']")).contains("is not a pattern: unclosed group"));
        assert!(first(&map("file = '/nowhere'")).contains("'file': /nowhere cannot be read"));
        assert!(first(&map("networks = { '10.0.0.1/8' = 'x' }")).contains("has bits set beyond"));
        assert!(
            first(&map("networks_file = '/nowhere'")).contains("'networks_file': /nowhere cannot be read")
        );
        assert!(
            first(&map("shares = ['60% a', '60% b']")).contains("'shares': the shares are more than 100%")
        );
        assert!(first(&map("function = 'sum'")).contains("\"sum\" is not a function; known: lower"));
        assert!(first(&map("function = 'lower'\nvalues = { b = 'c' }")).contains("has no entries"));
        assert!(first(&map("shares = ['x a']")).contains("is not a share"));
        let both = first(&map("shares = ['5% a']\nvalues = { b = 'c' }"));
        assert!(both.contains("either values and patterns, or networks, or shares"), "{both}");
        assert!(first(&map("[[map]]\nname = 'a'\nfrom = '$host'")).contains("a map \"a\" exists already"));
        let late = map("default = '$status'");
        let route = "[[site.route]]\npath = '/'\nwhen = '$map{a}'\nrespond = {}\n";
        assert!(first(&format!("{late}{route}")).contains("available only when the head of the answer"));
    }
}
