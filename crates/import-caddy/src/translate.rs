//! Translates sites, global options and whole Caddyfiles.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::address::{Address, Ports};
use super::context::{Context, Tables};
use super::matcher::Matcher;
use super::routing::{Level, Routing};
use super::steps::{is_step, named};
use touchstone_import_base::Imported;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::maps;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

const HEAD: &str = "\
# Written by `touchstone import caddy`. Each original line is a comment beside its translation.
# Try it with `touchstone check --config FILE`. docs/import.md lists the differences.
";

/// Settings that apply to all sites.
struct Options {
    ports: Ports,
    has_redirects: bool,
    is_local: bool,
    email: Option<String>,
    authority: Option<String>,
}

/// Translates a Caddyfile.
pub fn translate(directives: &[Directive]) -> Imported {
    let mut account = Account::default();
    let mut other = Section::new("");
    let options = options(directives, &mut other, &mut account);
    let mut acme = Section::new("[acme]");
    let mut sites = Vec::new();
    let tables: Rc<RefCell<Tables>> = Rc::default();
    let mut redirected: Vec<(String, u16)> = Vec::new();
    let mut plain_hosts: BTreeSet<String> = BTreeSet::new();
    for directive in directives.iter().filter(|directive| !directive.name.is_empty()) {
        if directive.name == "import" {
            account.problem(
                directive,
                &mut other,
                "the file is missing; import again on the machine that has it",
            );
            continue;
        }
        let texts = std::iter::once(&directive.name).chain(&directive.arguments);
        let texts = texts.flat_map(|text| text.split(',')).map(str::trim).filter(|text| !text.is_empty());
        let mut addresses = Vec::new();
        for text in texts {
            match Address::parse(text, options.ports) {
                Ok(address) => addresses.push(address),
                Err(advice) => account.problem(directive, &mut other, &advice),
            }
        }
        let log = log(directive, &mut account);
        let mut is_first = true;
        for group in groups(&addresses) {
            let is_secure = group[0].is_secure;
            let mut again = Account::default();
            let account = if is_first { &mut account } else { &mut again };
            is_first = false;
            for address in &group {
                match is_secure {
                    true if options.has_redirects => redirected.push((address.host.clone(), address.port)),
                    true => {}
                    false => _ = plain_hosts.insert(address.host.clone()),
                }
            }
            let mut section = site(directive, &group, &options, &tables, &mut acme, account);
            log.iter().for_each(|log| section.push(log.clone()));
            sites.push(section);
        }
    }
    redirected.retain(|(host, _)| !plain_hosts.contains(host));
    let mut text = String::from(HEAD);
    for section in [acme, other] {
        if !section.is_empty() || section.has_notes() {
            section.write(&mut text);
        }
    }
    let mut of_sites = String::new();
    tables.borrow().write(&mut of_sites);
    sites.iter().for_each(|site| site.write(&mut of_sites));
    maps::named_in(&of_sites).iter().for_each(|map| map.write(&mut text));
    text.push_str(&of_sites);
    redirects(&redirected, options.ports, &mut text);
    account.into_imported(text)
}

/// Groups addresses with the same port and scheme into one site.
fn groups(addresses: &[Address]) -> Vec<Vec<&Address>> {
    let mut groups: Vec<Vec<&Address>> = Vec::new();
    for address in addresses {
        let fits = |group: &&mut Vec<&Address>| {
            group[0].port == address.port
                && group[0].is_secure == address.is_secure
                && group[0].path == address.path
                && group[0].is_local() == address.is_local()
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(address),
            None => groups.push(vec![address]),
        }
    }
    groups
}

/// The block without a name at the beginning: the global options.
fn options(directives: &[Directive], other: &mut Section, account: &mut Account) -> Options {
    let mut options = Options {
        ports: Ports { http: 80, https: 443, is_manual: false },
        has_redirects: true,
        is_local: false,
        email: None,
        authority: None,
    };
    let Some(block) = directives.first().filter(|directive| directive.name.is_empty()) else {
        return options;
    };
    for line in block.inside() {
        match (line.name.as_str(), line.argument(0)) {
            ("http_port", port) if port.parse::<u16>().is_ok() => {
                options.ports.http = port.parse().unwrap_or(80);
            }
            ("https_port", port) if port.parse::<u16>().is_ok() => {
                options.ports.https = port.parse().unwrap_or(443);
            }
            ("email", email) => options.email = Some(email.to_string()),
            ("acme_ca", url) => options.authority = Some(url.to_string()),
            ("local_certs", _) => options.is_local = true,
            ("auto_https", "off") => {
                options.has_redirects = false;
                options.ports.is_manual = true;
            }
            ("auto_https", "disable_redirects") => options.has_redirects = false,
            ("admin" | "debug" | "storage" | "persist_config" | "order" | "skip_install_trust", _) => {
                account.unneeded(line, other, "the server does this by itself");
                continue;
            }
            ("grace_period", _) => {
                account.problem(line, other, "see 'drain_timeout' of [server]");
                continue;
            }
            ("log", _) => {
                account.problem(line, other, "see [error_log] (docs/logs.md)");
                continue;
            }
            ("on_demand_tls", _) => {
                account.problem(line, other, "see [acme.on_demand] (docs/acme.md)");
                continue;
            }
            ("acme_dns", _) => {
                account.problem(line, other, "see [acme.dns] (docs/acme.md)");
                continue;
            }
            ("servers", _) => {
                account.problem(line, other, "see [limits] and [proxies] (docs/configuration.md)");
                continue;
            }
            _ => {
                account.problem(line, other, "it has no counterpart, or this command does not know it");
                continue;
            }
        }
        account.translated(line, other);
    }
    options
}

/// The access log of a site; `None`: it has none.
fn log(site: &Directive, account: &mut Account) -> Option<Section> {
    let mut section = Section::new("[site.access_log]");
    for line in site.inside().iter().filter(|line| line.name == "log") {
        if section.has("path") {
            account.problem(line, &mut section, "a site has only one access log; keep one of them");
            continue;
        }
        account.translated(line, &mut section);
        let mut path = "stderr".to_string();
        let mut format = "json";
        for inner in line.inside() {
            section.note(inner.to_string());
            match (inner.name.as_str(), inner.argument(0)) {
                ("output", "file") => path = inner.argument(1).to_string(),
                ("output", "discard") => path = "off".to_string(),
                ("output", stream @ ("stdout" | "stderr")) => path = stream.to_string(),
                ("format", "console") => format = "combined",
                ("format", "json") | ("level", _) => {}
                _ => account.problem(inner, &mut section, "see 'format' of the log (docs/logs.md)"),
            }
        }
        section.key("path", toml_string(&path));
        section.key("format", toml_string(format));
    }
    section.has("path").then_some(section)
}

/// A site for one port.
fn site(
    directive: &Directive,
    addresses: &[&Address],
    options: &Options,
    tables: &Rc<RefCell<Tables>>,
    acme: &mut Section,
    account: &mut Account,
) -> Section {
    let block = directive.inside();
    let mut section = Section::new("[[site]]");
    account.translated(directive, &mut section);
    let port = addresses[0].port;
    let bind = block.iter().find(|line| line.name == "bind");
    if let Some(bind) = bind {
        account.translated(bind, &mut section);
    }
    let hosts: Vec<&str> =
        addresses.iter().map(|address| address.host.as_str()).filter(|host| !host.is_empty()).collect();
    let listen = match bind {
        Some(bind) => bind.arguments.iter().map(|address| socket(address, port)).collect(),
        None => vec![socket("0.0.0.0", port), socket("[::]", port)],
    };
    section.key("listen", toml_strings(&listen));
    if let Some(unix) = bind.iter().flat_map(|bind| &bind.arguments).find(|text| text.starts_with("unix/")) {
        // As in Caddy, only the owner may connect unless the address has a mode.
        let mode = unix.split_once('|').map_or("0200", |(_, mode)| mode);
        section.key("socket_mode", toml_string(mode));
    }
    if !hosts.is_empty() {
        section.key("hosts", toml_strings(&hosts));
    }
    let is_secure = addresses[0].is_secure;
    if is_secure {
        certificate(block, addresses, options, &mut section, acme, account);
    }
    let named = named(block);
    // With a name for others the names of requests are not known.
    let is_known = hosts.len() == addresses.len() && hosts.iter().all(|host| !host.contains(['*', '{']));
    let known: Vec<String> =
        if is_known { hosts.iter().map(|host| (*host).to_string()).collect() } else { Vec::new() };
    let context = Context::of_site(is_secure, known, block, &named, tables);
    root(block, &mut section, account);
    match block.iter().find(|line| line.name == "encode") {
        Some(encode) if encode.arguments.first().is_none_or(|first| !first.starts_with(['@', '/'])) => {
            account.translated(encode, &mut section);
            let codings = encode.arguments.iter().chain(encode.inside().iter().map(|line| &line.name));
            let known = |coding: &&String| matches!(coding.as_str(), "gzip" | "zstd" | "br");
            let codings: Vec<&String> = codings.filter(known).collect();
            if !codings.is_empty() {
                section.key("compression", toml_strings(codings));
            }
        }
        _ => {
            section.note("Caddy compresses only if 'encode' is set.");
            section.key("compression", "[]");
            section.key("precompressed", false);
        }
    }
    let mut routing = Routing {
        named: &named,
        account,
        notes: Section::new(""),
        handled: BTreeSet::new(),
        has_programs: has_programs(block),
        reported_notes: BTreeSet::new(),
        shut: Vec::new(),
    };
    let outer = match addresses[0].path.as_str() {
        "" => Matcher::default(),
        path => Matcher::of_path(path),
    };
    let level = Level { outer, stripped: String::new(), root: None, context, changes: Vec::new() };
    let routes = routing.routes(block, &level, false);
    let Routing { notes, account, .. } = routing;
    section.take_notes(notes);
    others(block, &mut section, account);
    routes.into_iter().for_each(|route| section.push(route));
    section.complete_root();
    section
}

/// Whether origins or scripts answer in a block.
fn has_programs(block: &[Directive]) -> bool {
    block.iter().any(|line| {
        matches!(line.name.as_str(), "reverse_proxy" | "php_fastcgi") || has_programs(line.inside())
    })
}

fn socket(address: &str, port: u16) -> String {
    if let Some(path) = address.strip_prefix("unix/") {
        return format!("unix:{}", path.split('|').next().unwrap_or_default());
    }
    match address.contains(':') && !address.starts_with('[') {
        true => format!("[{address}]:{port}"),
        false => format!("{address}:{port}"),
    }
}

/// The directory of the site.
fn root(block: &[Directive], section: &mut Section, account: &mut Account) {
    let is_for_all =
        |line: &&Directive| line.name == "root" && (line.arguments.len() == 1 || line.argument(0) == "*");
    match block.iter().find(is_for_all) {
        Some(root) => {
            account.translated(root, section);
            match root.arguments.last().map_or(".", String::as_str) {
                // Those of the routes are below.
                path if path.contains('{') => {}
                path => section.key("root", toml_string(path)),
            }
        }
        None if block.iter().any(|line| line.name == "file_server") => {
            section.note("By default Caddy serves its working directory.");
            section.key("root", toml_string("."));
        }
        // It is written last, if the routes need one.
        None => {}
    }
}

/// `client_auth`: which client certificates are trusted, and whether a client must have one.
fn client_certificates(line: &Directive, section: &mut Section, account: &mut Account) {
    let inside = line.inside();
    let mut files: Vec<&str> = Vec::new();
    let mut others = Vec::new();
    let mut mode = "";
    for one in inside {
        match (one.name.as_str(), one.argument(0)) {
            ("mode", word) => mode = word,
            ("trusted_ca_cert_file", _) => files.extend(one.arguments.iter().map(String::as_str)),
            ("trust_pool", "file") => {
                files.extend(one.arguments.iter().skip(1).map(String::as_str));
                let named = one.inside().iter().filter(|inner| inner.name == "pem_file");
                files.extend(named.flat_map(|inner| inner.arguments.iter().map(String::as_str)));
            }
            _ => others.push(one),
        }
    }
    match (files.as_slice(), others.is_empty(), mode) {
        ([file], true, _) => {
            account.translated(line, section);
            inside.iter().for_each(|one| account.translated(one, section));
            section.key("client_authorities", toml_string(file));
            if matches!(mode, "request" | "verify_if_given") {
                section.key("client_certificate", toml_string("optional"));
            }
        }
        ([], true, "request" | "verify_if_given") => {
            account.problem(line, section, "no client is asked for a certificate: see 'client_authorities'");
        }
        _ => {
            let advice = "all clients are refused until you write 'client_authorities' (docs/https.md): only \
                          one file of authorities is supported, and no single certificates";
            account.problem(line, section, advice);
            let mut route = Section::new("[[site.route]]");
            route.note(line.to_string());
            route.note("This was not translated: all requests are refused until you remove this route.");
            route.key("path", toml_string("/"));
            route.key("respond", "{ status = 403 }");
            section.push(route);
        }
    }
}

fn certificate(
    block: &[Directive],
    addresses: &[&Address],
    options: &Options,
    section: &mut Section,
    acme: &mut Section,
    account: &mut Account,
) {
    let tls = block.iter().find(|line| line.name == "tls");
    if let Some(tls) = tls {
        account.translated(tls, section);
        if let [certificate, key] = tls.arguments.as_slice() {
            section.key("certificate", toml_string(certificate));
            section.key("key", toml_string(key));
        }
        for line in tls.inside() {
            match (line.name.as_str(), line.argument(0)) {
                ("protocols", "tls1.3") => section.key("tls_minimum", toml_string("1.3")),
                ("protocols" | "ciphers" | "curves" | "alpn", _) => {}
                ("dns", _) => account.problem(line, section, "see [acme.dns] (docs/acme.md)"),
                ("on_demand", _) => {
                    account.problem(line, section, "see 'certificate_on_demand' (docs/acme.md)");
                }
                ("client_auth", _) => client_certificates(line, section, account),
                _ => account.problem(line, section, "see docs/https.md"),
            }
        }
    }
    section.key("http3", true);
    if section.has("certificate") {
        return;
    }
    let is_internal = tls.is_some_and(|tls| tls.argument(0) == "internal");
    if is_internal || options.is_local || addresses[0].is_local() || addresses[0].host.is_empty() {
        section.note("Caddy uses its own authority for this name; here a new certificate is created.");
        section.key("development_certificate", true);
        return;
    }
    section.key("certificate", toml_string("acme"));
    let mail = tls.map(|tls| tls.argument(0)).filter(|word| word.contains('@'));
    let mail = mail.or(options.email.as_deref());
    if !acme.has("directory") {
        acme.note("Caddy gets certificates from Let's Encrypt; this line accepts its terms.");
        acme.key("directory", toml_string(options.authority.as_deref().unwrap_or("letsencrypt")));
        acme.key("agree_to_terms", true);
    }
    if let Some(mail) = mail {
        acme.key("contact", toml_strings([mail]));
    }
}

/// Translates the directives of a site that are not steps.
fn others(block: &[Directive], section: &mut Section, account: &mut Account) {
    for line in block {
        match line.name.as_str() {
            "bind" | "tls" | "log" | "encode" | "root" => {}
            name if name.starts_with('@') => account.translated(line, section),
            "handle_errors" => match error_pages(line) {
                Ok((statuses, page)) => {
                    account.translated(line, section);
                    for inner in line.inside() {
                        account.translated(inner, section);
                    }
                    for status in statuses {
                        let page = page.replace("{status}", &status.to_string());
                        section.entry("error_pages", &status.to_string(), toml_string(&page));
                    }
                }
                Err(advice) => account.problem(line, section, &advice),
            },
            "import" => {
                account.problem(
                    line,
                    section,
                    "the file is missing; import again on the machine that has it",
                );
            }
            name if is_step(name) => {}
            _ => account.problem(line, section, "it has no counterpart, or this command does not know it"),
        }
    }
}

/// `handle_errors [STATUS ...] { rewrite * PAGE; file_server }`: the statuses and the page, in which
/// `{status}` is replaced by the status.
fn error_pages(handler: &Directive) -> Result<(Vec<u16>, String), String> {
    const USUAL: [u16; 14] = [400, 401, 403, 404, 405, 408, 410, 413, 429, 431, 500, 502, 503, 504];
    let other = "an error page is a file of the site: see 'error_pages' (docs/content.md)";
    let (mut page, mut is_file) = (None, false);
    let mut words: Vec<String> = handler.arguments.clone();
    for line in handler.inside() {
        match line.name.as_str() {
            name if name.starts_with('@') && words.is_empty() => words = statuses_of(line).ok_or(other)?,
            "rewrite" if line.argument(0).starts_with('@') && line.arguments.len() == 2 && page.is_none() => {
                page = line.arguments.last();
            }
            "rewrite"
                if matches!(line.arguments.as_slice(), [_] | [_, _])
                    && !line.argument(0).starts_with('@') =>
            {
                page = line.arguments.last();
            }
            "file_server" if line.arguments.is_empty() && line.inside().is_empty() => is_file = true,
            _ => return Err(other.to_string()),
        }
    }
    let page = page.filter(|_| is_file).ok_or(other)?;
    let page = page.replace("{http.error.status_code}", "{status}").replace("{err.status_code}", "{status}");
    if !page.starts_with('/') || page.replace("{status}", "").contains(['{', '?']) {
        return Err(other.to_string());
    }
    let mut statuses = Vec::new();
    for word in &words {
        match (word.strip_suffix("xx"), word.parse::<u16>()) {
            (Some(class), _) => {
                statuses.extend(USUAL.iter().filter(|status| status.to_string().starts_with(class)));
            }
            (None, Ok(status @ 400..=599)) => statuses.push(status),
            _ => return Err(other.to_string()),
        }
    }
    Ok((if statuses.is_empty() { USUAL.to_vec() } else { statuses }, page))
}

/// `@name expression {err.status_code} == 404`, or `in [403, 404]`: the statuses of errors.
fn statuses_of(matcher: &Directive) -> Option<Vec<String>> {
    let text = matcher.arguments.join(" ").replace('`', "");
    let rest = text.strip_prefix("expression")?.trim_start();
    let rest = rest
        .strip_prefix("{err.status_code}")
        .or_else(|| rest.strip_prefix("{http.error.status_code}"))?
        .trim_start();
    let list = match rest.strip_prefix("==") {
        Some(status) => status,
        None => rest.strip_prefix("in")?.trim_start().strip_prefix('[')?.strip_suffix(']')?,
    };
    let statuses: Vec<String> = list.split(',').map(|word| word.trim().to_string()).collect();
    statuses.iter().all(|status| status.parse::<u16>().is_ok()).then_some(statuses)
}

/// The site that redirects clients of plain HTTP to HTTPS.
fn redirects(hosts: &[(String, u16)], ports: Ports, text: &mut String) {
    let mut ports_of: Vec<u16> = hosts.iter().map(|(_, port)| *port).collect();
    ports_of.sort_unstable();
    ports_of.dedup();
    for port in ports_of {
        let names: Vec<&String> =
            hosts.iter().filter(|(_, other)| *other == port).map(|(host, _)| host).collect();
        let mut section = Section::new("[[site]]");
        section.note("Caddy redirects plain HTTP to HTTPS.");
        section.key("listen", toml_strings([socket("0.0.0.0", ports.http), socket("[::]", ports.http)]));
        if names.iter().all(|name| !name.is_empty()) {
            section.key("hosts", toml_strings(names));
        }
        let mut route = Section::new("[[site.route]]");
        let shown = if port == 443 { String::new() } else { format!(":{port}") };
        let to = toml_string(&format!("https://$host{shown}$path"));
        route.key("redirect", format!("{{ to = {to}, status = 308 }}"));
        section.push(route);
        section.write(text);
    }
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};
    use proptest::prelude::*;

    /// Lines of Caddyfiles that are joined in any order.
    const LINES: [&str; 48] = [
        "\tmap {path} {one} {two} {",
        "\tmap @m {one} {three} {",
        "\t\t~^/(.)\\.x$ \"a ${1}$2\" -",
        "\t\t/a \"b {host}\" c",
        "\t\tdefault \"{method}\" d",
        "\tvars one \"{two} '\\\"\"",
        "\tvars @m name value",
        "\trespond /r \"{two} {vars.one}\" 200",
        "\theader X-B \"{one} {three} {vars.name} {re.r.1}\"",
        "\t@m vars_regexp r {one} ^(a|b)",
        "\t@v vars {vars.one} a b",
        "\trewrite * /new{uri}",
        "\trewrite /d/* /d/index.html",
        "\turi strip_prefix /x",
        "\tredir https://{labels.1}.{labels.0}{uri}",
        "\ttemplates",
        "\t\tnot path /c/* /d",
        "\t\tquery a=b",
        "\t\texpression {method} == \"POST\"",
        "\tforward_auth a:1 {",
        "\thandle_errors {",
        "\tlog_skip /x",
        "example.org, www.example.org {",
        ":8080 {",
        "localhost {",
        "}",
        "\troot * /srv",
        "\troot /x/* /y",
        "\tfile_server browse",
        "\tencode gzip zstd",
        "\t@m {",
        "\t\tpath /a/* *.css",
        "\t\tmethod GET POST",
        "\t\tnot path /b",
        "\theader @m X-A \"b \\\"c\"",
        "\theader /a* -Server",
        "\tredir /old {uri} 301",
        "\trewrite /x /y?{query}",
        "\thandle_path /api/* {",
        "\thandle @m {",
        "\treverse_proxy a:1 b:2 {",
        "\t\theader_up Host {upstream_hostport}",
        "\t\tlb_policy cookie x",
        "\tphp_fastcgi unix//run/php.sock",
        "\ttry_files {path} /index.html",
        "\tbasicauth /p/* {",
        "\trespond /x \"text\" 404",
        "\turi strip_prefix /api",
    ];

    #[test]
    fn client_certificates_are_asked_for() {
        for (inside, expected, problems) in [
            ("trusted_ca_cert_file ca.pem", "client_authorities = \"ca.pem\"\n", 0),
            ("mode verify_if_given\ntrust_pool file ca.pem", "client_certificate = \"optional\"\n", 0),
            (
                "mode require_and_verify\ntrust_pool file {\npem_file ca.pem\n}",
                "client_authorities = \"ca.pem\"\n",
                0,
            ),
            ("mode require", "path = \"/\"\nrespond = { status = 403 }\n", 1),
            ("trusted_leaf_cert_file a.pem", "path = \"/\"\nrespond = { status = 403 }\n", 1),
            ("trust_pool file a.pem b.pem", "path = \"/\"\nrespond = { status = 403 }\n", 1),
        ] {
            let text =
                format!("a.org {{\ntls a.pem a.key {{\nclient_auth {{\n{inside}\n}}\n}}\nrespond ok\n}}");
            let imported = translate(&parse("Caddyfile", &text).unwrap());
            assert!(imported.text.contains(expected), "{inside}\n{}", imported.text);
            assert_eq!(imported.problems.len(), problems, "{inside}");
        }
    }

    #[test]
    fn refusals_without_a_counterpart_refuse_their_block() {
        let refusing = |site: &str| {
            let imported = translate(&parse("Caddyfile", &format!(":8080 {{\n{site}\n}}")).unwrap());
            let lines = imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            let text = lines.collect::<Vec<_>>().join("\n");
            let found = text.split("[[site.route]]\n").skip(1).find(|route| route.contains("status = 403"));
            (found.unwrap_or_default().trim().to_string(), imported.problems.len())
        };
        let all = "path = \"/\"\nrespond = { status = 403 }";
        for (site, expected, problems) in [
            ("@x expression {path}.size() > 3\nrespond @x 403\nfile_server", all, 1),
            ("@x expression {path}.size() > 3\nbasic_auth @x {\na b\n}\nfile_server", all, 1),
            ("@x expression {path}.size() > 3\nhandle @x {\nabort\n}\nfile_server", all, 1),
            ("@x `{path}.size() > 3`\nrespond @x 403\nfile_server", all, 1),
            ("@x `path('/a/*')`\nrespond @x 403\nfile_server", "when = \"$path =~ '(?i)", 0),
            ("@x expression {path}.size() > 3\nrespond @x 200\nfile_server", "", 1),
            (
                "@x expression path('/a/*') && !remote_ip('10.0.0.0/8')\nrespond @x 403\nfile_server",
                "when = \"$path =~ '(?i)^(?:/a/(?s:.*))$' and not",
                0,
            ),
        ] {
            let (route, told) = refusing(site);
            assert_eq!(told, problems, "{site}");
            assert!(route.starts_with(expected) || route.contains(expected), "{site}: {route}");
            assert_eq!(route.is_empty(), expected.is_empty(), "{site}: {route}");
        }
        let (route, _) =
            refusing("handle /in/* {\n@x expression {path}.size() > 3\nrespond @x 403\n}\nfile_server");
        assert!(route.starts_with("path = \"/in/\"") || route.contains("/in/"), "{route}");
    }

    #[test]
    fn a_route_allows_no_client_that_one_of_several_gates_refuses() {
        let translated = |gates: &[&str]| {
            let gate =
                |(index, networks): (usize, &&str)| format!("@g{index} {networks}\nrespond @g{index} 403\n");
            let gates: String = gates.iter().enumerate().map(gate).collect();
            translate(
                &parse("Caddyfile", &format!("http://a.org {{\n{gates}reverse_proxy b:1\n}}\n")).unwrap(),
            )
        };
        for (gates, line, problems) in [
            (&["not remote_ip 10.0.0.0/8", "remote_ip 10.9.0.0/16"][..], "allow = [\"10.0.0.0/8\"]", 0),
            (&["remote_ip 1.2.3.4", "remote_ip 5.6.7.8"], "deny = [\"1.2.3.4\", \"5.6.7.8\"]", 0),
            (&["remote_ip 0.0.0.0/0"], "deny = [\"0.0.0.0/0\"]", 0),
            (&["not remote_ip 10.0.0.0/8", "not remote_ip 10.0.0.0/8"], "allow = [\"10.0.0.0/8\"]", 0),
            (
                &["not remote_ip 10.0.0.0/8", "not remote_ip 10.9.0.0/16"],
                "deny = [\"0.0.0.0/0\", \"::/0\"]",
                1,
            ),
        ] {
            let imported = translated(gates);
            assert!(imported.text.lines().any(|written| written == line), "{line}\n{}", imported.text);
            assert_eq!(imported.problems.len(), problems, "{:?}", imported.problems);
        }
    }

    #[test]
    fn unix_sockets_are_listened_on() {
        for (bind, listen, mode) in [
            ("unix//run/a.sock", "unix:/run/a.sock", "0200"),
            ("unix//run/a.sock|0222", "unix:/run/a.sock", "0222"),
            ("unix/@name", "unix:@name", "0200"),
        ] {
            let text = format!("http://a.org {{\n\tbind {bind}\n\troot * /srv\n\tfile_server\n}}\n");
            let imported = translate(&parse("Caddyfile", &text).unwrap());
            for line in [format!("listen = [\"{listen}\"]"), format!("socket_mode = \"{mode}\"")] {
                assert!(imported.text.lines().any(|written| written == line), "{line}\n{}", imported.text);
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_toml(picked in prop::collection::vec(0..LINES.len(), 0..24)) {
            let text: String = picked.iter().map(|line| format!("{}\n", LINES[*line])).collect();
            if let Ok(directives) = parse("Caddyfile", &text) {
                let imported = translate(&directives);
                let read = imported.text.parse::<toml::Table>();
                prop_assert!(read.is_ok(), "{text}\n{}\n{read:?}", imported.text);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[ -~\n\t{}\"`@*/]{0,200}") {
            if let Ok(directives) = parse("Caddyfile", &text) {
                let imported = translate(&directives);
                prop_assert!(imported.text.parse::<toml::Table>().is_ok(), "{}", imported.text);
            }
        }
    }
}
