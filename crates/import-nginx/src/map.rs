//! `map`, `geo` and `split_clients` as `[[map]]`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use super::language::{Language, variables};
use super::scope::Scope;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// The directives that become maps.
const NAMES: [&str; 3] = ["map", "geo", "split_clients"];

/// The maps of these blocks that become `[[map]]`.
pub fn maps<'d>(scope: &Scope<'d>) -> Vec<&'d Directive> {
    let named = NAMES.iter().flat_map(|name| scope.all(name));
    named.filter(|map| is_translated(map)).collect()
}

/// The names of the variables that they set.
pub fn names<'d>(scope: &Scope<'d>) -> Vec<&'d str> {
    maps(scope).into_iter().filter_map(name).collect()
}

/// Whether it becomes a map: what WebSocket needs is done without one.
pub fn is_translated(map: &Directive) -> bool {
    NAMES.contains(&map.name.as_str()) && from(map) != "$http_upgrade" && name(map).is_some()
}

fn name(map: &Directive) -> Option<&str> {
    let name = map.arguments.last().map_or("", String::as_str);
    name.strip_prefix('$').filter(|name| !name.is_empty())
}

/// The text that is looked up. A `geo` without it uses the client's address.
fn from(map: &Directive) -> &str {
    match map.name == "geo" && map.arguments.len() == 1 {
        true => "$remote_addr",
        false => map.argument(0),
    }
}

/// Translates them, each after those that it uses.
pub fn sections(scope: &Scope<'_>, account: &mut Account) -> Vec<Section> {
    let mut left = maps(scope);
    let mut known: Vec<&str> = Vec::new();
    let mut sections = Vec::new();
    while !left.is_empty() {
        let position = left.iter().position(|map| !uses_one_of(map, &left)).unwrap_or(0);
        let map = left.remove(position);
        sections.push(section(map, &known, account));
        known.extend(name(map));
    }
    sections
}

/// Whether a map has a variable that another one of these sets.
fn uses_one_of(map: &Directive, maps: &[&Directive]) -> bool {
    let values = map.inside().iter().flat_map(|entry| &entry.arguments).map(String::as_str);
    let mut used = values.chain([from(map)]).flat_map(variables);
    used.any(|used| maps.iter().any(|other| !std::ptr::eq(*other, map) && name(other) == Some(used)))
}

fn section(map: &Directive, known: &[&str], account: &mut Account) -> Section {
    let mut section = Section::new("[[map]]");
    account.translated(map, &mut section);
    let language = Language { maps: known.to_vec(), ..Language::default() };
    section.key("name", toml_string(name(map).unwrap_or_default()));
    match language.text(from(map)) {
        Ok(from) => section.key("from", toml_string(&from)),
        Err(advice) => {
            account.problem(map, &mut section, &advice);
            section.key("from", toml_string(""));
        }
    }
    match map.name.as_str() {
        "geo" => networks(map, &mut section, account),
        "split_clients" => shares(map, &mut section, account),
        _ => values(map, &language, &mut section, account),
    }
    section.notes_first();
    section
}

fn values(map: &Directive, language: &Language<'_>, section: &mut Section, account: &mut Account) {
    // As in nginx, where only expressions without an asterisk are case-sensitive.
    section.key("ignore_case", true);
    let has_hosts = map.inside().iter().any(|entry| entry.name == "hostnames" && entry.arguments.is_empty());
    let mut patterns = Vec::new();
    for entry in map.inside() {
        if let Err(advice) = add(entry, has_hosts, language, section, &mut patterns) {
            account.problem(entry, section, &advice);
        } else {
            account.translated(entry, section);
        }
    }
    if !patterns.is_empty() {
        section.key("patterns", toml_strings(&patterns));
    }
}

/// The shares of `split_clients`, whose texts have no variables.
fn shares(map: &Directive, section: &mut Section, account: &mut Account) {
    let mut shares = Vec::new();
    for entry in map.inside() {
        match (entry.name.as_str(), entry.arguments.len()) {
            (share, 1) if share == "*" || share.ends_with('%') => {
                shares.push(format!("{share} {}", in_quotes(&literal(entry.argument(0)))));
                account.translated(entry, section);
            }
            _ => account.problem(entry, section, "a share is a number of percent or '*', with its text"),
        }
    }
    section.key("shares", toml_strings(&shares));
}

/// The networks of `geo`, whose texts have no variables.
fn networks(map: &Directive, section: &mut Section, account: &mut Account) {
    let mut networks: BTreeMap<String, String> = BTreeMap::new();
    let mut ranges: BTreeMap<u32, u32> = BTreeMap::new();
    let has_ranges = map.inside().iter().any(|entry| entry.name == "ranges" && entry.arguments.is_empty());
    for entry in map.inside() {
        let value = literal(entry.argument(0));
        let added = match (entry.name.as_str(), entry.arguments.len()) {
            ("ranges" | "volatile", 0) => Ok(()),
            ("default", 1) => {
                section.key("default", toml_string(&value));
                Ok(())
            }
            ("include", 1) if !has_ranges => {
                section.key("networks_file", toml_string(entry.argument(0)));
                Ok(())
            }
            ("delete", 1) => network(entry.argument(0)).and_then(|network| match networks.remove(&network) {
                Some(_) => Ok(()),
                None => Err("no network before it is deleted; delete it in the file that has it".to_string()),
            }),
            ("proxy" | "proxy_recursive", _) => {
                Err("name the proxies in 'trusted' of [proxies]; '$client' is then the client behind them"
                    .to_string())
            }
            (range, 1) if has_ranges => networks_of_range(range, &mut ranges)
                .map(|found| networks.extend(found.into_iter().map(|network| (network, value.clone())))),
            (text, 1) => network(text).map(|network| drop(networks.insert(network, value.clone()))),
            _ => Err("an entry is a network with its text".to_string()),
        };
        match added {
            Ok(()) => account.translated(entry, section),
            Err(advice) => account.problem(entry, section, &advice),
        }
    }
    for (network, value) in networks {
        section.entry("networks", &network, toml_string(&value));
    }
}

/// A network without the bits beyond its length, which do not count in nginx.
fn network(text: &str) -> Result<String, String> {
    let (address, length) = text.split_once('/').map_or((text, None), |(at, length)| (at, Some(length)));
    let problem = || format!("{text:?} is not a network");
    let address: IpAddr = address.parse().map_err(|_| problem())?;
    let bits: u32 = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => bits,
        Some(length) => length.parse().ok().filter(|length: &u32| *length <= bits).ok_or_else(problem)?,
    };
    let first: IpAddr = match address {
        IpAddr::V4(v4) => {
            Ipv4Addr::from(v4.to_bits() & u32::MAX.checked_shl(32 - length).unwrap_or(0)).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            std::net::Ipv6Addr::from(v6.to_bits() & mask).into()
        }
    };
    Ok(if length == bits { first.to_string() } else { format!("{first}/{length}") })
}

/// The networks that make up a range of addresses. In nginx a later range counts before an earlier one that
/// it overlaps; the longest network would count here.
fn networks_of_range(range: &str, ranges: &mut BTreeMap<u32, u32>) -> Result<Vec<String>, String> {
    let problem = || format!("{range:?} is not a range of IPv4 addresses");
    let (first, last) = range.split_once('-').ok_or_else(problem)?;
    let address = |text: &str| text.parse::<Ipv4Addr>().map(Ipv4Addr::to_bits).map_err(|_| problem());
    let (first, last) = (address(first)?, address(last)?);
    if first > last {
        return Err(problem());
    }
    if ranges.range(..=last).next_back().is_some_and(|(_, end)| *end >= first) {
        return Err("it overlaps an earlier range; write ranges that do not overlap".to_string());
    }
    ranges.insert(first, last);
    let (mut networks, mut at) = (Vec::new(), u64::from(first));
    let end = u64::from(last) + 1;
    while at < end {
        // The largest network that begins here and does not go beyond the end.
        let aligned = if at == 0 { 32 } else { at.trailing_zeros().min(32) };
        let fits = (end - at).ilog2();
        let free = aligned.min(fits);
        let begin = Ipv4Addr::from(u32::try_from(at).unwrap_or(u32::MAX));
        networks.push(if free == 0 { begin.to_string() } else { format!("{begin}/{}", 32 - free) });
        at += 1 << free;
    }
    Ok(networks)
}

/// A text without variables.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

fn add(
    entry: &Directive,
    has_hosts: bool,
    language: &Language<'_>,
    section: &mut Section,
    patterns: &mut Vec<String>,
) -> Result<(), String> {
    let (key, value) = (entry.name.as_str(), entry.argument(0));
    match (key, entry.arguments.len()) {
        ("hostnames" | "volatile", 0) => return Ok(()),
        ("include", 1) => {
            section.key("file", toml_string(value));
            return Ok(());
        }
        _ => {}
    }
    if let Some(expression) = key.strip_prefix("~*").or_else(|| key.strip_prefix('~')) {
        expression::converted(expression)?;
        let groups = expression.split("(?<").skip(1).filter_map(|rest| rest.split_once('>'));
        let language = Language {
            maps: language.maps.clone(),
            groups: groups.map(|(name, _)| name).collect(),
            has_groups: true,
            ..Language::default()
        };
        patterns.push(format!("{} {}", in_quotes(key), in_quotes(&language.text(value)?)));
        return Ok(());
    }
    let value = language.text(value)?;
    if key == "default" {
        section.key("default", toml_string(&value));
        return Ok(());
    }
    if has_hosts && let Some(begin) = key.strip_suffix(".*") {
        let expression = format!("~*^{}\\.", expression::literal(begin));
        patterns.push(format!("{} {}", in_quotes(&expression), in_quotes(&value)));
        return Ok(());
    }
    if has_hosts && let Some(below) = key.strip_prefix('.') {
        section.entry("values", below, toml_string(&value));
        section.entry("values", &format!("*.{below}"), toml_string(&value));
        return Ok(());
    }
    let key = key.strip_prefix('\\').unwrap_or(key);
    let has_meaning =
        key == "default" || key.starts_with(['~', '\\', '#']) || key.starts_with('*') && !has_hosts;
    let key = if has_meaning { format!("\\{key}") } else { key.to_string() };
    section.entry("values", &key, toml_string(&value));
    Ok(())
}

fn in_quotes(text: &str) -> String {
    let is_bare = !text.is_empty() && !text.contains([' ', '\t', ';', '"', '\'', '#']);
    match is_bare {
        true => text.to_string(),
        false if text.contains('"') => format!("'{}'", text.replace('\'', "\\'")),
        false => format!("\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{network, networks_of_range};
    use crate::{parse, translate};

    #[test]
    fn geo_and_split_clients_become_maps() {
        let imported = translate(
            &parse(
                "nginx.conf",
                "http { geo $place { default ZZ; 127.0.0.0/8 here; 10.1.2.3/8 '$5 net'; 192.0.2.0/24 a;\n\
                 delete 192.0.2.0/24; 2001:db8::/32 lab; include /etc/nginx/geo.conf; }\n\
                 geo $arg_ip $asked { ranges; 10.0.0.0-10.0.0.255 a; 10.0.1.0-10.0.2.5 b;\n\
                 10.0.2.0-10.0.2.9 c; }\n\
                 geo $other { proxy 10.0.0.0/8; 127.0.0.1/32 x; }\n\
                 split_clients \"${remote_addr}AAA\" $variant { 0.5% .one; 2.0% two; * \"\"; }\n\
                 server { listen 80; add_header X-Place $place; add_header X-Variant \"v$variant\";\n\
                 location / { root /srv; } } }",
            )
            .unwrap(),
        );
        for line in [
            "name = \"place\"",
            "from = \"${client}\"",
            "default = \"ZZ\"",
            "networks_file = \"/etc/nginx/geo.conf\"",
            "networks = { \"10.0.0.0/8\" = \"$$5 net\", \"127.0.0.0/8\" = \"here\", \
             \"2001:db8::/32\" = \"lab\" }",
            "from = \"${arg{ip}}\"",
            "networks = { \"10.0.0.0/24\" = \"a\", \"10.0.1.0/24\" = \"b\", \"10.0.2.0/30\" = \"b\", \
             \"10.0.2.4/31\" = \"b\" }",
            "from = \"${client}AAA\"",
            "shares = [\"0.5% .one\", \"2.0% two\", \"* \\\"\\\"\"]",
        ] {
            assert!(imported.text.lines().any(|written| written == line), "{line}\n{}", imported.text);
        }
        let places: Vec<String> = imported.problems.iter().map(|problem| problem.place.to_string()).collect();
        assert_eq!(places, ["nginx.conf:4", "nginx.conf:5"], "{}", imported.text);
    }

    #[test]
    fn networks_and_ranges() {
        assert_eq!(network("10.1.2.3/8").unwrap(), "10.0.0.0/8");
        assert_eq!(network("10.1.2.3/0").unwrap(), "0.0.0.0/0");
        assert_eq!(network("2001:db8::1/32").unwrap(), "2001:db8::/32");
        assert_eq!(network("::1").unwrap(), "::1");
        assert!(network("10.0.0.0/33").is_err() && network("a").is_err());
        let range = |text: &str| networks_of_range(text, &mut BTreeMap::new());
        assert_eq!(range("0.0.0.0-255.255.255.255").unwrap(), ["0.0.0.0/0"]);
        assert_eq!(range("255.255.255.255-255.255.255.255").unwrap(), ["255.255.255.255"]);
        assert_eq!(range("10.0.0.1-10.0.0.4").unwrap(), ["10.0.0.1", "10.0.0.2/31", "10.0.0.4"]);
        assert!(range("10.0.0.2-10.0.0.1").is_err() && range("10.0.0.1").is_err());
    }

    #[test]
    fn a_map_becomes_a_map() {
        let imported = translate(
            &parse(
                "nginx.conf",
                "http { map $http_upgrade $connection { default upgrade; '' close; }\n\
                 map $app$arg_x $upper { ~*^(?<name>w.*)$ \"is $name\"; }\n\
                 map $host $app { hostnames; default web; .example.org wiki; shop.* shop; *.a.org $uri; }\n\
                 map $status $loggable { ~^[23] 0; default 1; }\n\
                 map $uri $new { /old /new; ~^/(?!a) /x; }\n\
                 server { listen 80; access_log /var/log/a.log combined if=$loggable;\n\
                 add_header X-App \"$app at $server_name\" always;\n\
                 if ($new) { return 301 $new; }\n\
                 location / { proxy_pass http://127.0.0.1:3000; proxy_set_header X-App $app;\n\
                 proxy_cache one; proxy_cache_key $scheme$host$uri$cookie_currency;\n\
                 proxy_cache_bypass $cookie_preview $arg_nocache;\n\
                 proxy_no_cache $cookie_preview $arg_nocache;\n\
                 if ($http_user_agent ~* bot) { return 403; } } } }",
            )
            .unwrap(),
        );
        for line in [
            "name = \"app\"",
            "from = \"${host}\"",
            "default = \"web\"",
            "values = { \"*.a.org\" = \"${path}\", \"*.example.org\" = \"wiki\", \
             \"example.org\" = \"wiki\" }",
            "patterns = [\"~*^shop\\\\. shop\"]",
            "from = \"${map{app}}${arg{x}}\"",
            "patterns = [\"~*^(?<name>w.*)$ \\\"is ${name}\\\"\"]",
            "when = \"$map{loggable}\"",
            "headers = { X-App = \"${map{app}} at localhost\" }",
            "when = \"$map{new}\"",
            "redirect = { to = \"${map{new}}?\", status = 301 }",
            "set = { X-App = \"${map{app}}\" }",
            "ignore_query = true",
            "key = \"${cookie{currency}}\"",
            "bypass = \"$cookie{preview} or $arg{nocache}\"",
            "when = \"$header{user-agent} =~ '(?i)bot'\"",
        ] {
            assert!(imported.text.lines().any(|written| written == line), "{line}\n{}", imported.text);
        }
        let places: Vec<String> = imported.problems.iter().map(|problem| problem.place.to_string()).collect();
        assert_eq!(places, ["nginx.conf:5"], "{}", imported.text);
        let (app, upper) = (imported.text.find("name = \"app\""), imported.text.find("name = \"upper\""));
        assert!(app.unwrap() < upper.unwrap());
    }
}
