//! Translates `stream { }`: connections and datagrams that are passed on as they are, as `[[stream]]`.

use std::collections::BTreeMap;

use super::address::address;
use super::scope::Scope;
use super::value;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::networks::{FirstMatch, first_match};
use touchstone_import_base::output::{EVERY_CLIENT, Section};
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// The streams of a `stream` block.
pub fn streams(block: &Directive, account: &mut Account) -> Vec<Section> {
    let scope = Scope::new(block.inside());
    let mut notes = Section::new("");
    let mut written = Vec::new();
    let mut names = StreamNames::default();
    for directive in block.inside() {
        match directive.name.as_str() {
            "server" => written.extend(server(directive, &scope, &mut names, account)),
            // They are reported with the servers that use them.
            "upstream" => {}
            "map" if ByHello::of(directive).is_ok() => {}
            "map" | "geo" | "split_clients" | "js_set" => {
                account.problem(
                    directive,
                    &mut notes,
                    "a stream has routes by server name and protocol only",
                );
            }
            "log_format" => account.unneeded(directive, &mut notes, FIXED_LINE),
            "limit_conn_zone" => {
                account.unneeded(directive, &mut notes, "each stream counts its own connections");
            }
            name if INHERITED.contains(&name) => {}
            _ => other(directive, &mut notes, account),
        }
    }
    if notes.has_notes() {
        written.insert(0, notes);
    }
    written
}

const FIXED_LINE: &str = "lines of streams have a fixed form (docs/stream.md)";

/// Directives that servers inherit from the block, and [`server`] handles.
const INHERITED: [&str; 24] = [
    "access_log",
    "allow",
    "deny",
    "limit_conn",
    "preread_buffer_size",
    "preread_timeout",
    "proxy_buffer_size",
    "proxy_connect_timeout",
    "proxy_next_upstream",
    "proxy_next_upstream_tries",
    "proxy_protocol",
    "proxy_responses",
    "proxy_ssl",
    "proxy_ssl_certificate",
    "proxy_ssl_certificate_key",
    "proxy_ssl_name",
    "proxy_ssl_trusted_certificate",
    "proxy_timeout",
    "set_real_ip_from",
    "ssl_alpn",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_preread",
    "proxy_ssl_verify",
];

/// Names of streams, each once.
#[derive(Default)]
struct StreamNames {
    taken: BTreeMap<String, usize>,
}

impl StreamNames {
    fn unique(&mut self, wanted: &str) -> String {
        let clean = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let name: String = wanted.chars().map(clean).collect();
        let name = match name.trim_matches('-') {
            "" => "stream",
            name => name,
        };
        let count = self.taken.entry(name.to_string()).or_default();
        *count += 1;
        if *count == 1 { name.to_string() } else { format!("{name}-{count}") }
    }
}

/// An address of `listen`.
struct Listen<'d> {
    directive: &'d Directive,
    address: String,
}

impl Listen<'_> {
    fn has(&self, word: &str) -> bool {
        self.directive.arguments.iter().any(|argument| argument == word)
    }

    /// What makes streams of one server different: datagrams, TLS, a PROXY header.
    fn kind(&self) -> (bool, bool, bool) {
        (self.has("udp"), self.has("ssl"), self.has("proxy_protocol"))
    }
}

/// The streams of a server: one for each kind of its addresses.
fn server(
    directive: &Directive,
    scope: &Scope<'_>,
    names: &mut StreamNames,
    account: &mut Account,
) -> Vec<Section> {
    let scope = scope.within(directive.inside());
    let mut refused = Section::new("");
    let mut listens: Vec<Listen<'_>> = Vec::new();
    for listen in directive.inside().iter().filter(|inner| inner.name == "listen") {
        match address(listen.argument(0)) {
            Some(address) => listens.push(Listen { directive: listen, address }),
            None => account.problem(
                listen,
                &mut refused,
                "an address here is an IP address with a port, or the path of a unix socket",
            ),
        }
    }
    let Some(pass) = scope.one("proxy_pass") else {
        account.problem(directive, &mut refused, "a stream passes connections on: it has no other answer");
        return vec![refused];
    };
    let mut kinds: Vec<(bool, bool, bool)> = listens.iter().map(Listen::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut written = Vec::new();
    for kind in kinds {
        let own: Vec<&Listen<'_>> = listens.iter().filter(|listen| listen.kind() == kind).collect();
        let mut section = Section::new("[[stream]]");
        section.note(directive.to_string());
        own.iter().for_each(|listen| account.translated(listen.directive, &mut section));
        section.key("name", toml_string(&names.unique(pass.argument(0).trim_start_matches('$'))));
        section.key("listen", toml_strings(own.iter().map(|listen| &listen.address)));
        if own.iter().any(|listen| listen.address.starts_with("unix:")) {
            section.note("nginx lets every program of the machine connect to a unix socket.");
            section.key("socket_mode", toml_string("0666"));
        }
        match fill(pass, kind, &scope, &mut section, account) {
            Ok(()) => {}
            Err(advice) => {
                account.problem(pass, &mut section, &advice);
                section = section.with_header("# A server that was not translated:").without_keys();
            }
        }
        for inner in directive.inside().iter().filter(|inner| !is_handled(inner)) {
            other(inner, &mut section, account);
        }
        written.push(section);
    }
    if refused.has_notes() {
        written.push(refused);
    }
    written
}

fn is_handled(directive: &Directive) -> bool {
    matches!(directive.name.as_str(), "listen" | "proxy_pass") || INHERITED.contains(&directive.name.as_str())
}

/// Writes the keys of a stream.
fn fill(
    pass: &Directive,
    (is_udp, is_secure, has_header): (bool, bool, bool),
    scope: &Scope<'_>,
    section: &mut Section,
    account: &mut Account,
) -> Result<(), String> {
    if is_udp {
        section.key("protocol", toml_string("udp"));
    }
    origins(pass, is_udp, scope, section, account)?;
    if is_secure {
        section.key("tls", toml_string("end"));
        for (name, key) in [("ssl_certificate", "certificate"), ("ssl_certificate_key", "key")] {
            let all = scope.all(name);
            let first = all.first().ok_or(format!("'{name}' is missing"))?;
            account.translated(first, section);
            section.key(key, toml_string(first.argument(0)));
            for other in all.iter().skip(1) {
                account.problem(
                    other,
                    section,
                    "a stream has only one certificate; keep the more modern one",
                );
            }
        }
        if let Some(protocols) = scope.one("ssl_alpn") {
            account.translated(protocols, section);
            section.key("alpn", toml_strings(&protocols.arguments));
        }
    }
    if has_header {
        let trusted = scope.all("set_real_ip_from");
        if trusted.is_empty() {
            return Err(
                "write the load balancers whose PROXY headers count: 'proxy_protocol_from'".to_string()
            );
        }
        trusted.iter().for_each(|line| account.translated(line, section));
        section.key("proxy_protocol_from", toml_strings(trusted.iter().map(|line| line.argument(0))));
    } else {
        for line in scope.all("set_real_ip_from") {
            account.unneeded(line, section, "no address of this stream has a PROXY header");
        }
    }
    clients(scope, section, account);
    limits(is_udp, scope, section, account);
    Ok(())
}

/// Which clients are admitted, and how many.
fn clients(scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    let lines = scope.clients();
    lines.iter().for_each(|line| account.translated(line, section));
    let rules = lines.iter().map(|line| (line.argument(0), line.name == "allow"));
    let FirstMatch { mut allow, mut deny, others } = first_match(rules);
    let every_client = || EVERY_CLIENT.map(str::to_string);
    match others {
        Some(false) if allow.is_empty() => deny = every_client().to_vec(),
        Some(false) => {}
        Some(true) if deny.is_empty() => allow.clear(),
        _ if !allow.is_empty() && !deny.is_empty() => allow.extend(every_client()),
        _ => {}
    }
    if let Some(mode) = scope.one("ssl_verify_client").filter(|mode| mode.argument(0) != "off") {
        account.problem(mode, section, CERTIFICATES);
        (allow, deny) = (Vec::new(), every_client().to_vec());
    }
    for (key, networks) in [("allow", allow), ("deny", deny)] {
        if !networks.is_empty() {
            section.key(key, toml_strings(networks));
        }
    }
    if let Some(limit) = scope.one("limit_conn") {
        let zones = scope.all("limit_conn_zone");
        let zone = format!("zone={}:", limit.argument(0));
        let zone = zones.iter().find(|one| one.argument(1).starts_with(&zone));
        let is_of_client =
            zone.is_some_and(|zone| matches!(zone.argument(0), "$binary_remote_addr" | "$remote_addr"));
        match limit.argument(1).parse::<u32>() {
            Ok(count) if is_of_client => {
                account.translated(limit, section);
                section.key("connections_per_client", count);
            }
            _ => account.problem(
                limit,
                section,
                "see 'connections' and 'connections_per_client' of the stream",
            ),
        }
    }
}

const CERTIFICATES: &str = "client certificates are not asked for where TLS ends here: all clients are \
                            refused until you remove 'deny', or pass TLS on to an origin that asks for them";

/// Times, sizes, the PROXY header and the log.
fn limits(is_udp: bool, scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    let idle = if is_udp { "session_timeout" } else { "idle_timeout" };
    for (name, key, most) in [
        ("proxy_timeout", idle, 86_400),
        ("proxy_connect_timeout", "connect_timeout", 3_600),
        ("preread_timeout", "hello_timeout", 3_600),
    ] {
        let Some(line) = scope.one(name) else { continue };
        match value::seconds(line.argument(0)) {
            Some(seconds) if (1..=most).contains(&seconds) => {
                account.translated(line, section);
                section.key(key, toml_string(&format!("{seconds}s")));
            }
            _ => {
                account.problem(line, section, &format!("'{key}' is a time from a second to {most} seconds"))
            }
        }
    }
    if is_udp && scope.one("proxy_timeout").is_none() {
        section.note("nginx keeps a session for ten minutes after its last datagram.");
        section.key("session_timeout", toml_string("600s"));
    }
    for (name, key, range) in [
        ("proxy_buffer_size", "buffer_bytes", 1_024..=1_048_576),
        ("preread_buffer_size", "hello_bytes", 512..=65_536),
    ] {
        let Some(line) = scope.one(name) else { continue };
        match value::bytes(line.argument(0)) {
            Some(bytes) if range.contains(&bytes) => {
                account.translated(line, section);
                section.key(key, value::size(bytes));
            }
            _ => account.problem(line, section, &format!("'{key}' is a size from {} bytes", range.start())),
        }
    }
    if let Some(line) = scope.one("proxy_responses") {
        match line.argument(0).parse::<u32>() {
            Ok(replies @ 1..=1_000_000) if is_udp => {
                account.translated(line, section);
                section.key("replies", replies);
            }
            Ok(_) if !is_udp => account.unneeded(line, section, "it is for datagrams"),
            _ => account.problem(
                line,
                section,
                "'replies' is a number from 1; without it 'session_timeout' ends",
            ),
        }
    }
    let retries = scope.one("proxy_next_upstream").filter(|line| line.argument(0) == "off");
    match (retries, scope.one("proxy_next_upstream_tries")) {
        (Some(off), _) => {
            account.translated(off, section);
            section.key("attempts", 0);
        }
        (None, Some(tries)) => match tries.argument(0).parse::<u32>() {
            Ok(count @ 1..=100) => {
                account.translated(tries, section);
                section.key("attempts", count - 1);
            }
            _ => account.unneeded(tries, section, "up to two others are tried"),
        },
        (None, None) => {}
    }
    if let Some(line) = scope.one("proxy_protocol") {
        account.translated(line, section);
        if line.argument(0) == "on" && !is_udp {
            section.key("proxy_protocol", toml_string("v1"));
        }
    }
    if let Some(line) = scope.one("access_log") {
        match line.argument(0) {
            "off" => account.translated(line, section),
            path if path.contains('$') || path.starts_with("syslog:") => {
                account.problem(line, section, "see 'access_log' of the stream (docs/stream.md)");
            }
            path => {
                account.translated(line, section);
                section.note(format!("Here {FIXED_LINE}."));
                section.key("access_log", toml_string(path));
            }
        }
    }
}

/// Writes the origins, and the routes of a map by server names.
fn origins(
    pass: &Directive,
    is_udp: bool,
    scope: &Scope<'_>,
    section: &mut Section,
    account: &mut Account,
) -> Result<(), String> {
    let preread = scope.one("ssl_preread").filter(|line| line.argument(0) == "on");
    let Some(variable) = pass.argument(0).strip_prefix('$') else {
        account.translated(pass, section);
        if let Some(line) = preread {
            account.unneeded(line, section, "no route asks for the name");
        }
        let target = Target::of(pass.argument(0), is_udp, scope, section, account)?;
        target.write(section);
        return Ok(());
    };
    let maps = scope.all("map");
    let map = maps.iter().find(|map| map.argument(1).strip_prefix('$') == Some(variable));
    let map = map.ok_or("an address has no variables, but for those of a map by $ssl_preread_server_name")?;
    let Some(line) = preread else { return Err("'ssl_preread on' is missing".to_string()) };
    let routes = ByHello::of(map)?;
    account.translated(pass, section);
    account.translated(line, section);
    account.translated(map, section);
    map.inside().iter().for_each(|entry| account.translated(entry, section));
    if let Some(rest) = routes.rest {
        Target::of(rest, is_udp, scope, section, account)?.write(section);
    } else {
        section.note("Without 'default' nginx closes the connection, and so does this server.");
    }
    for (key, values, to) in routes.named {
        let mut route = Section::new("[[stream.route]]");
        route.key(key, toml_strings(&values));
        let target = Target::of(to, is_udp, scope, &mut route, account)?;
        route.key("to", target.to());
        section.push(route);
    }
    Ok(())
}

/// The routes of a map by the name or the protocol of the ClientHello.
struct ByHello<'d> {
    /// The destination of the rest.
    rest: Option<&'d str>,
    /// The key of the route, its values, and where they go.
    named: Vec<(&'static str, Vec<String>, &'d str)>,
}

impl<'d> ByHello<'d> {
    fn of(map: &'d Directive) -> Result<ByHello<'d>, String> {
        let is_name = map.argument(0) == "$ssl_preread_server_name";
        if !is_name && map.argument(0) != "$ssl_preread_alpn_protocols" {
            return Err(format!("a stream has no routes by '{}'", map.argument(0)));
        }
        let mut found = ByHello { rest: None, named: Vec::new() };
        let mut unnamed = None;
        for entry in map.inside() {
            let to = entry.argument(0);
            match entry.name.as_str() {
                "default" => found.rest = Some(to),
                "hostnames" | "volatile" => {}
                "" => unnamed = Some(to),
                name if is_name && !name.starts_with('~') => {
                    let names = match name.strip_prefix('.') {
                        Some(below) => vec![below.to_string(), format!("*.{below}")],
                        None => vec![name.to_string()],
                    };
                    if names.iter().any(|name| name.ends_with(".*")) {
                        return Err("a name is complete or begins with '*.'".to_string());
                    }
                    match found.named.iter_mut().find(|(_, _, other)| *other == to) {
                        Some((_, all, _)) => all.extend(names),
                        None => found.named.push(("names", names, to)),
                    }
                }
                name if !is_name => {
                    let protocol = protocol(name).ok_or("a route names one protocol, such as ~\\bh2\\b")?;
                    found.named.push(("alpn", vec![protocol], to));
                }
                _ => {
                    return Err(
                        "names are complete or begin with '*.': expressions are not supported".to_string()
                    );
                }
            }
        }
        if unnamed.is_some() && unnamed != found.rest {
            return Err("clients without a name go where those with an unknown one go".to_string());
        }
        Ok(found)
    }
}

/// `~\bh2\b` or `h2`: a protocol of the list that a client offers.
fn protocol(text: &str) -> Option<String> {
    let inner = match text.strip_prefix('~') {
        Some(expression) => expression.strip_prefix("\\b")?.strip_suffix("\\b")?,
        None => text,
    };
    let inner = inner.replace("\\.", ".");
    let is_plain = !inner.is_empty() && inner.chars().all(|c| c.is_ascii_alphanumeric() || "/.-".contains(c));
    is_plain.then_some(inner)
}

/// Origins, and how connections are distributed to them.
struct Target {
    origins: Vec<String>,
    balance: &'static str,
}

impl Target {
    /// The origins of an address, or of the `upstream` of this name.
    fn of(
        name: &str,
        is_udp: bool,
        scope: &Scope<'_>,
        section: &mut Section,
        account: &mut Account,
    ) -> Result<Target, String> {
        let scheme = match scope.one("proxy_ssl").filter(|line| line.argument(0) == "on" && !is_udp) {
            Some(line) => {
                account.translated(line, section);
                origin_tls(scope, section, account);
                "tls://"
            }
            None => "",
        };
        let mut target = Target { origins: Vec::new(), balance: "round_robin" };
        let all = scope.all("upstream");
        let Some(block) = all.into_iter().find(|upstream| upstream.argument(0) == name) else {
            target.origins.push(origin(name, scheme)?);
            return Ok(target);
        };
        section.note(block.to_string());
        for line in block.inside() {
            match (line.name.as_str(), line.argument(0)) {
                ("server", address) => {
                    let mut text = origin(address, scheme)?;
                    for word in &line.arguments[1..] {
                        match word.as_str() {
                            "down" => text.push_str(" drain"),
                            word if word == "backup" || word.starts_with("weight=") => {
                                text.push(' ');
                                text.push_str(word);
                            }
                            _ => section.note(format!("'{word}' of {address}: see 'health' of the stream")),
                        }
                    }
                    account.translated(line, section);
                    target.origins.push(text);
                }
                ("least_conn", _) => {
                    account.translated(line, section);
                    target.balance = "least_connections";
                }
                ("hash", "$remote_addr" | "$binary_remote_addr") => {
                    account.translated(line, section);
                    target.balance = "hash";
                }
                ("random" | "zone" | "resolver" | "resolver_timeout", _) => {
                    account.unneeded(line, section, "connections go to the origins in turns");
                }
                _ => account.problem(line, section, "see 'balance' and 'health' of the stream"),
            }
        }
        if target.origins.is_empty() {
            return Err(format!("the upstream '{name}' has no server"));
        }
        Ok(target)
    }

    fn to(&self) -> String {
        match self.origins.as_slice() {
            [one] => toml_string(one),
            several => toml_strings(several),
        }
    }

    fn write(&self, section: &mut Section) {
        section.key("to", self.to());
        if self.origins.len() > 1 {
            section.key("balance", toml_string(self.balance));
        }
    }
}

fn origin_tls(scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    if let Some(line) = scope.one("proxy_ssl_verify").filter(|line| line.argument(0) == "on") {
        account.translated(line, section);
    } else {
        section.note("nginx does not verify these certificates; this server always does (docs/stream.md).");
    }
    for (name, key) in [
        ("proxy_ssl_trusted_certificate", "authorities"),
        ("proxy_ssl_name", "server_name"),
        ("proxy_ssl_certificate", "certificate"),
        ("proxy_ssl_certificate_key", "key"),
    ] {
        if let Some(line) = scope.one(name) {
            match line.argument(0).contains('$') {
                true => account.problem(line, section, "it has no variables here"),
                false => {
                    account.translated(line, section);
                    section.entry("origin_tls", key, toml_string(line.argument(0)));
                }
            }
        }
    }
}

fn origin(address: &str, scheme: &str) -> Result<String, String> {
    if address.contains('$') {
        return Err("an address has no variables".to_string());
    }
    if let Some(path) = address.strip_prefix("unix:") {
        return match scheme {
            "" => Ok(format!("unix:{}", path.trim_start_matches("//"))),
            _ => Err("TLS to a unix socket has no counterpart".to_string()),
        };
    }
    let address = address.replace("localhost:", "127.0.0.1:");
    match address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        true => Ok(format!("{scheme}{address}")),
        false => Err(format!("the port of '{address}' is missing, or the 'upstream' of this name")),
    }
}

/// Reports a directive that needs no key, or has no counterpart.
fn other(directive: &Directive, section: &mut Section, account: &mut Account) {
    let why = match directive.name.as_str() {
        "tcp_nodelay" | "proxy_socket_keepalive" | "variables_hash_max_size" | "map_hash_bucket_size" => {
            Some("the server does this by itself")
        }
        "resolver" | "resolver_timeout" => Some("names are resolved again regularly"),
        "ssl_ciphers"
        | "ssl_session_cache"
        | "ssl_session_timeout"
        | "ssl_prefer_server_ciphers"
        | "ssl_dhparam"
        | "ssl_ecdh_curve"
        | "ssl_session_tickets"
        | "proxy_ssl_session_reuse"
        | "proxy_ssl_ciphers"
        | "proxy_ssl_protocols"
        | "proxy_ssl_server_name" => Some("the TLS suites are safe, and names are sent"),
        "ssl_protocols" if directive.arguments.iter().any(|version| version == "TLSv1.2") => {
            Some("TLS is 1.2 or 1.3")
        }
        "proxy_half_close" => Some("each direction ends by itself"),
        _ => None,
    };
    if let Some(why) = why {
        return account.unneeded(directive, section, why);
    }
    let advice = match directive.name.as_str() {
        "proxy_upload_rate" | "proxy_download_rate" => "streams have no limit of their rate",
        "ssl_client_certificate" | "ssl_verify_client" | "ssl_crl" => CERTIFICATES,
        "include" => "the file is missing; import again on the machine that has it",
        "error_log" => "see [error_log] (docs/logs.md)",
        "proxy_bind" => "connections to origins leave from the address that the kernel chooses",
        _ => "streams have no counterpart (docs/stream.md), or this command does not know it",
    };
    account.problem(directive, section, advice);
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};
    use proptest::prelude::*;

    #[test]
    fn clients_of_streams() {
        let all = "[\"0.0.0.0/0\", \"::/0\"]";
        for (rules, expected) in [
            ("allow 10.0.0.0/8; deny all;", "allow = [\"10.0.0.0/8\"]".to_string()),
            ("deny all; allow 10.0.0.1;", format!("deny = {all}")),
            ("deny 10.0.0.0/8; allow 10.1.0.0/16; allow all;", "deny = [\"10.0.0.0/8\"]".to_string()),
            ("deny 10.0.0.0/8; allow 10.1.0.0/16; deny all;", format!("deny = {all}")),
            (
                "ssl_verify_client on; ssl_client_certificate /c; allow 10.0.0.1; deny all;",
                format!("deny = {all}"),
            ),
            ("ssl_verify_client off;", String::new()),
            ("allow all;", String::new()),
        ] {
            let (lines, _) = keys(&format!(
                "stream {{ server {{ listen 127.0.0.1:99; proxy_pass 127.0.0.1:98; {rules} }} }}"
            ));
            let found: Vec<&String> =
                lines.iter().filter(|line| line.starts_with("allow") || line.starts_with("deny")).collect();
            assert_eq!(found, expected.lines().collect::<Vec<_>>(), "{rules}");
        }
    }

    fn keys(text: &str) -> (Vec<String>, Vec<String>) {
        let imported = translate(&parse("nginx.conf", text).unwrap());
        let lines = imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let problems =
            imported.problems.iter().map(|problem| format!("{}: {}", problem.place, problem.directive));
        (lines.map(str::to_string).collect(), problems.collect())
    }

    #[test]
    fn servers_of_connections_and_datagrams() {
        let (lines, problems) = keys(
            "stream {\n upstream db { least_conn; server 10.0.0.1:5432 weight=2;\
             server 10.0.0.2:5432 backup; }\n\
             log_format basic '$remote_addr';\n\
             server { listen 5432; proxy_pass db; proxy_timeout 1h; proxy_connect_timeout 3s;\n\
             allow 10.0.0.0/8; deny all; access_log /var/log/db.log basic; }\n\
             server { listen 53 udp reuseport; listen 53; proxy_pass 10.0.0.3:53; proxy_responses 1;\n\
             proxy_timeout 20s; proxy_upload_rate 10k; }\n\
             server { listen 6000; return \"no\"; }\n}",
        );
        assert_eq!(problems, ["nginx.conf:7: proxy_upload_rate 10k;", "nginx.conf:8: server { ... }"]);
        let expected = [
            "[[stream]]",
            "name = \"db\"",
            "listen = [\"0.0.0.0:5432\"]",
            "to = [\"10.0.0.1:5432 weight=2\", \"10.0.0.2:5432 backup\"]",
            "balance = \"least_connections\"",
            "allow = [\"10.0.0.0/8\"]",
            "idle_timeout = \"3600s\"",
            "connect_timeout = \"3s\"",
            "access_log = \"/var/log/db.log\"",
            "[[stream]]",
            "name = \"10.0.0.3-53\"",
            "listen = [\"0.0.0.0:53\"]",
            "to = \"10.0.0.3:53\"",
            "idle_timeout = \"20s\"",
            "[[stream]]",
            "name = \"10.0.0.3-53-2\"",
            "listen = [\"0.0.0.0:53\"]",
            "protocol = \"udp\"",
            "to = \"10.0.0.3:53\"",
            "session_timeout = \"20s\"",
            "replies = 1",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn names_of_the_hello_are_routes() {
        let (lines, problems) = keys(
            "stream { map $ssl_preread_server_name $to { hostnames; .a.org app; b.org app;\n\
             mail.org 10.0.0.9:993; default unix:/run/rest.sock; }\n upstream app { server 10.0.0.1:443; }\n\
             server { listen 443; listen [::]:443; ssl_preread on; proxy_pass $to; } }",
        );
        assert_eq!(problems, [] as [&str; 0]);
        let text = lines.join("\n");
        assert!(text.contains("to = \"unix:/run/rest.sock\"\n[[stream.route]]\n"), "{text}");
        assert!(
            text.contains("names = [\"a.org\", \"*.a.org\", \"b.org\"]\nto = \"10.0.0.1:443\""),
            "{text}"
        );
        assert!(text.contains("names = [\"mail.org\"]\nto = \"10.0.0.9:993\""), "{text}");
        let (_, problems) = keys(
            "stream { map $ssl_preread_server_name $to { ~^x a:1; }\n\
             server { listen 443; ssl_preread on; proxy_pass $to; } }",
        );
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    /// Lines of streams that are joined in any order.
    const LINES: [&str; 16] = [
        "stream {",
        "server {",
        "}",
        "listen 1 udp;",
        "listen 1 ssl;",
        "listen 1 proxy_protocol;",
        "proxy_pass a;",
        "proxy_pass b:1;",
        "proxy_pass $m;",
        "ssl_preread on;",
        "map $ssl_preread_server_name $m {",
        "a.org b:1; ~x c:1; default \"d:1\";",
        "upstream a {",
        "server c:1 weight=2 down;",
        "proxy_ssl on; proxy_ssl_name \"q\\\"\";",
        "allow all; deny \"1\";",
    ];

    proptest! {
        #[test]
        fn what_is_written_is_toml(picked in prop::collection::vec(0..LINES.len(), 0..24)) {
            let text: String = picked.iter().map(|line| format!("{}\n", LINES[*line])).collect();
            if let Ok(directives) = parse("a.conf", &text) {
                let imported = translate(&directives);
                let read = imported.text.parse::<toml::Table>();
                prop_assert!(read.is_ok(), "{text}\n{}\n{read:?}", imported.text);
            }
        }
    }
}
