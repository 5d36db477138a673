//! Translates a whole configuration: directives outside servers, and the addresses, names, certificates,
//! limits and logs of servers.

use super::address::address;
use super::cache::is_of_cache;
use super::common::common;
use super::constants;
use super::keys::body_limit;
use super::location;
use super::log::log;
use super::map;
use super::referers;
use super::scope::{INHERITED, Scope};
use super::site::Site;
use super::stream::streams;
use super::value;
use touchstone_import_base::Imported;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::maps;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// Translates a configuration, or a part of one that contains servers.
pub fn translate(directives: &[Directive]) -> Imported {
    let directives = &referers::replaced(&constants::replaced(directives))[..];
    let mut account = Account::default();
    let mut server = Section::new("[server]");
    let mut limits = Section::new("[limits]");
    let mut access_log = Section::new("[access_log]");
    let mut error_log = Section::new("[error_log]");
    let mut proxies = Section::new("[proxies]");
    let mut other = Section::new("");
    let main = Scope::new(directives);
    let http = directives.iter().find(|directive| directive.name == "http");
    let (scope, inside) = match http {
        Some(http) => (main.within(http.inside()), http.inside()),
        None => (main, directives),
    };
    let outside = directives.iter().filter(|directive| http.is_some() && directive.name != "http");
    for directive in outside.chain(inside) {
        match directive.name.as_str() {
            "server" | "upstream" => {}
            "stream" if directive.block.is_some() => {}
            "map" | "geo" | "split_clients" if map::is_translated(directive) => {}
            "client_max_body_size" => body_limit(directive, "body_bytes", &mut limits, &mut account),
            "user" if directive.argument(0) == "root" => {
                account.unneeded(
                    directive,
                    &mut server,
                    "without the key the server keeps the user that started it",
                );
            }
            "user" => {
                account.translated(directive, &mut server);
                server.key("user", toml_string(directive.argument(0)));
            }
            "worker_processes" => match directive.argument(0).parse::<u32>() {
                Ok(cores) => {
                    account.translated(directive, &mut server);
                    server.key("cores", cores);
                }
                Err(_) => {
                    account.unneeded(directive, &mut server, "one thread for each processor is the default")
                }
            },
            "keepalive_timeout" => time_key(directive, "keep_alive_timeout", &mut limits, &mut account),
            "client_header_timeout" => time_key(directive, "header_timeout", &mut limits, &mut account),
            "client_body_timeout" | "send_timeout" => {
                time_key(directive, "stall_timeout", &mut limits, &mut account);
            }
            "access_log" => log(directive, &scope, &mut access_log, &mut account),
            "error_log" => log(directive, &scope, &mut error_log, &mut account),
            "log_format" => {
                account.unneeded(directive, &mut access_log, "it is written into each log that uses it");
            }
            "limit_req_zone" => account.unneeded(directive, &mut other, "each 'rate_limit' has its own rate"),
            "set_real_ip_from" | "real_ip_header" | "real_ip_recursive" => {
                real_ip(directive, &scope, &mut proxies, &mut account);
            }
            // They apply to all servers, and are translated with each.
            name if INHERITED.contains(&name) || is_of_cache(name) => {}
            "ssl_verify_client" | "ssl_client_certificate" | "ssl_crl" => {}
            _ => common(directive, &mut other, &mut account),
        }
    }
    let mut text = String::from(HEAD);
    for section in [server, limits, access_log, error_log, proxies] {
        if !section.is_empty() {
            section.write(&mut text);
        }
    }
    other.write(&mut text);
    let mut of_sites = String::new();
    map::sections(&scope, &mut account).iter().for_each(|section| section.write(&mut of_sites));
    let servers: Vec<&Directive> = inside.iter().filter(|directive| directive.name == "server").collect();
    for server in &servers {
        sites(server, &servers, &scope, &mut account).iter().for_each(|site| site.write(&mut of_sites));
    }
    maps::named_in(&of_sites).iter().for_each(|map| map.write(&mut text));
    text.push_str(&of_sites);
    for block in directives.iter().filter(|directive| directive.name == "stream") {
        streams(block, &mut account).iter().for_each(|stream| stream.write(&mut text));
    }
    account.into_imported(text)
}

const HEAD: &str = "\
# Written by `touchstone import nginx`. Each original line is a comment beside its translation.
# Try it with `touchstone check --config FILE`. docs/import.md lists the differences.
";

fn time_key(directive: &Directive, key: &str, section: &mut Section, account: &mut Account) {
    match value::seconds(directive.argument(0)) {
        Some(seconds @ 1..) => {
            account.translated(directive, section);
            section.key(key, toml_string(&format!("{seconds}s")));
        }
        _ => account.problem(directive, section, "it is not a time of a second or more"),
    }
}

fn real_ip(directive: &Directive, scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    match (directive.name.as_str(), directive.argument(0).to_ascii_lowercase().as_str()) {
        ("set_real_ip_from", _) => {
            account.translated(directive, section);
            let networks = scope.all("set_real_ip_from");
            section.key("trusted", toml_strings(networks.iter().map(|directive| directive.argument(0))));
        }
        ("real_ip_header", field @ ("x-forwarded-for" | "x-real-ip" | "forwarded")) => {
            account.translated(directive, section);
            section.key("client_field", toml_string(field));
        }
        ("real_ip_header", _) => {
            account.problem(directive, section, "'client_field' is x-forwarded-for, x-real-ip or forwarded");
        }
        _ => account.unneeded(directive, section, "trusted proxies are always skipped"),
    }
}

/// An address of `listen`.
struct Listen<'d> {
    directive: &'d Directive,
    /// `ADDRESS:PORT` or `unix:PATH`.
    address: String,
    is_secure: bool,
}

fn listens<'d>(server: &'d Directive) -> Vec<Result<Listen<'d>, &'d Directive>> {
    let listen_of = |directive: &'d Directive| {
        let address = address(directive.argument(0)).ok_or(directive)?;
        let is_secure = directive.arguments.iter().any(|word| word == "ssl" || word == "quic");
        Ok(Listen { directive, address, is_secure })
    };
    server.inside().iter().filter(|directive| directive.name == "listen").map(listen_of).collect()
}

/// The sites of a server: one for its TLS addresses, one for the others.
fn sites(
    server: &Directive,
    servers: &[&Directive],
    scope: &Scope<'_>,
    account: &mut Account,
) -> Vec<Section> {
    let scope = scope.within(server.inside());
    let listens = listens(server);
    let is_secure = |listen: &&Listen<'_>| listen.is_secure;
    let good: Vec<&Listen<'_>> = listens.iter().filter_map(|listen| listen.as_ref().ok()).collect();
    let addresses_of = |secure: bool| -> Vec<String> {
        good.iter()
            .filter(|listen| is_secure(listen) == secure)
            .map(|listen| listen.address.clone())
            .collect()
    };
    let (mut plain, secure) = (addresses_of(false), addresses_of(true));
    if listens.is_empty() {
        plain.push("0.0.0.0:80".to_string());
    }
    let mut written = Vec::new();
    for (addresses, is_secure) in [(plain, false), (secure, true)] {
        if addresses.is_empty() {
            continue;
        }
        let mut section = Section::new("[[site]]");
        // The directives of the second site are counted with the first.
        let mut again = Account::default();
        let is_first = written.is_empty();
        let account_of_all = &mut *account;
        let account = if is_first { &mut *account_of_all } else { &mut again };
        section.note(server.to_string());
        for listen in &listens {
            match listen {
                Ok(listen) if listen.is_secure == is_secure => {
                    account.translated(listen.directive, &mut section)
                }
                Ok(_) => {}
                Err(directive) => account.problem(
                    directive,
                    &mut section,
                    "an address here is an IP address with a port, or the path of a unix socket",
                ),
            }
        }
        section.key("listen", toml_strings(&addresses));
        if addresses.iter().any(|address| address.starts_with("unix:")) {
            section.note("nginx lets every program of the machine connect to a unix socket.");
            section.key("socket_mode", toml_string("0666"));
        }
        let is_default = is_default(server, servers, &addresses);
        let number = servers.iter().position(|other| std::ptr::eq(*other, server)).unwrap_or_default();
        names(server, number, is_default, &mut section, account);
        if is_secure {
            certificates(&scope, &good, &mut section, account);
        }
        let name = first_name(server);
        location::fill(&Site { server, scope: scope.clone(), is_secure, name }, &mut section, account);
        if !is_first {
            account_of_all.take_problems(again);
        }
        written.push(section);
    }
    written
}

/// Whether this server gets requests for unknown names: it is marked as default, or is the first on the
/// address.
fn is_default(server: &Directive, servers: &[&Directive], addresses: &[String]) -> bool {
    let shares = |other: &&&Directive| {
        listens(other).iter().flatten().any(|listen| addresses.contains(&listen.address))
    };
    let says_so = |other: &&Directive| {
        listens(other).iter().flatten().any(|listen| {
            addresses.contains(&listen.address)
                && listen.directive.arguments.iter().any(|word| word == "default_server" || word == "default")
        })
    };
    let sharing: Vec<&&Directive> = servers.iter().filter(shares).collect();
    let default = sharing.iter().find(|other| says_so(other)).or(sharing.first());
    default.is_none_or(|default| std::ptr::eq(**default, server))
}

fn first_name(server: &Directive) -> &str {
    let directives = server.inside().iter().filter(|directive| directive.name == "server_name");
    let mut names = directives.flat_map(|directive| directive.arguments.iter().map(String::as_str));
    names.find(|name| is_name(name)).unwrap_or("localhost")
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name != "_" && !name.starts_with('~') && !name.contains('$') && !name.starts_with('.')
}

/// Writes the names; `number`: which of the servers it is.
fn names(server: &Directive, number: usize, is_default: bool, section: &mut Section, account: &mut Account) {
    let mut hosts: Vec<String> = Vec::new();
    for directive in server.inside().iter().filter(|directive| directive.name == "server_name") {
        account.translated(directive, section);
        for name in &directive.arguments {
            match name.strip_prefix('.') {
                Some(below) => hosts.extend([below.to_string(), format!("*.{below}")]),
                None if name.starts_with('~') || name.ends_with(".*") => {
                    let advice = "a name must be complete or begin with '*.'; expressions are not supported";
                    account.problem(directive, section, advice);
                }
                None if is_name(name) => hosts.push(name.clone()),
                None => {}
            }
        }
    }
    if is_default {
        section.note("As nginx's default server, it has no 'hosts' and gets requests for unknown names.");
    } else if !hosts.is_empty() {
        section.key("hosts", toml_strings(&hosts));
    } else {
        // Without names it would get the requests for all other hosts.
        section.note("The names of this server are not known: no request gets to it until you write them.");
        section.key("hosts", toml_strings([format!("server-{number}.invalid")]));
    }
}

fn certificates(scope: &Scope<'_>, listens: &[&Listen<'_>], section: &mut Section, account: &mut Account) {
    for (name, key) in [("ssl_certificate", "certificate"), ("ssl_certificate_key", "key")] {
        let all = scope.all(name);
        if let Some(first) = all.first() {
            account.translated(first, section);
            section.key(key, toml_string(first.argument(0)));
        }
        for other in all.iter().skip(1) {
            account.problem(other, section, "a site has only one certificate; keep the more modern one");
        }
    }
    if let Some(protocols) = scope.one("ssl_protocols") {
        account.translated(protocols, section);
        if protocols.arguments.iter().all(|version| version == "TLSv1.3") {
            section.key("tls_minimum", toml_string("1.3"));
        }
    }
    client_certificates(scope, section, account);
    let is_quic = |listen: &&Listen<'_>| listen.directive.arguments.iter().any(|word| word == "quic");
    if listens.iter().any(is_quic) {
        section.key("http3", true);
    }
}

/// Writes which client certificates are trusted, and whether a client must have one.
fn client_certificates(scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    let mode = scope.one("ssl_verify_client");
    let file = scope.one("ssl_client_certificate");
    let Some(mode) = mode.filter(|mode| mode.argument(0) != "off") else {
        for line in mode.into_iter().chain(file) {
            account.unneeded(line, section, "no client is asked for a certificate");
        }
        return;
    };
    let Some(file) = file.or(scope.one("ssl_trusted_certificate")) else {
        return account.problem(mode, section, SHUT);
    };
    account.translated(mode, section);
    account.translated(file, section);
    section.key("client_authorities", toml_string(file.argument(0)));
    if mode.argument(0) != "on" {
        section.key("client_certificate", toml_string("optional"));
    }
    if let Some(list) = scope.one("ssl_crl") {
        account.problem(list, section, SHUT);
    }
}

const SHUT: &str = "all clients are refused until you write 'client_authorities' (docs/https.md): only a \
                    file of authorities is supported, and no list of revoked certificates";

#[cfg(test)]
mod tests {
    use crate::{parse, translate};
    use touchstone_import_base::Imported;

    fn imported(text: &str) -> Imported {
        translate(&parse("nginx.conf", text).unwrap())
    }

    /// The lines that are not comments.
    fn keys(imported: &Imported) -> Vec<&str> {
        imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    }

    #[test]
    fn unix_sockets_are_listened_on() {
        let imported = imported(
            "set_real_ip_from unix:;\n\
             server { listen unix:/run/site.sock; listen unix:/run/tls.sock ssl; listen unix:;\n\
             ssl_certificate a.pem; root /srv; location / { allow unix:; deny all; } }",
        );
        let keys = keys(&imported);
        for line in [
            "trusted = [\"unix:\"]",
            "listen = [\"unix:/run/site.sock\"]",
            "listen = [\"unix:/run/tls.sock\"]",
            "socket_mode = \"0666\"",
            "allow = [\"unix:\"]",
        ] {
            assert!(keys.contains(&line), "{line}\n{}", imported.text);
        }
        assert_eq!(imported.problems.len(), 1, "{}", imported.text);
    }

    #[test]
    fn hosts_of_origins_and_aliases_with_groups() {
        let imported = imported(
            "server { listen 80;\n\
             location ^~ /.app/x { proxy_pass https://x.org; proxy_ssl_server_name on;\n\
             proxy_set_header Host x.org; rewrite ^/\\.app/x/(.*)$ /$1 break; }\n\
             location ~ ^/(css|js)/(.*)$ { alias /usr/share/app/$1/$2; }\n\
             location / { proxy_pass http://127.0.0.1:3000; } }",
        );
        assert!(imported.problems.is_empty(), "{:?}", imported.problems);
        let keys = keys(&imported);
        for line in ["host = \"origin\"", "strip_prefix = \"/.app/x\"", "root = \"/usr/share/app\""] {
            assert!(keys.contains(&line), "{line}: {keys:?}");
        }
        assert!(!keys.contains(&"root = \"/var/empty\""), "{keys:?}");
    }

    /// The routes of a server, each with its keys on one line.
    fn routes(server: &str) -> (Vec<String>, usize) {
        let imported = imported(&format!("server {{ root /srv; {server} }}"));
        let lines = keys(&imported).join("\n");
        let found = lines.split("[[site.route]]\n").skip(1).map(|route| route.trim().replace('\n', "; "));
        (found.collect(), imported.problems.len())
    }

    #[test]
    fn what_a_named_location_refuses_is_refused() {
        let (found, problems) = routes(
            "location / { try_files $uri @app; }\n\
             location @app { if ($http_x_bad) { return 403; } proxy_pass http://b:1; }",
        );
        assert_eq!(problems, 0);
        assert!(found[0].contains("respond = { status = 403 }") && found[0].contains("x-bad"), "{found:?}");
        for answer in ["return 503;", "rewrite ^/(.*)$ /a/$1 break; proxy_pass http://b:1;"] {
            let text = format!("location / {{ try_files $uri @x; }} location @x {{ {answer} }}");
            assert_eq!(routes(&text).1, 1, "{answer}");
        }
    }

    #[test]
    fn a_path_that_is_rewritten_in_its_location_keeps_the_rules() {
        let (found, _) = routes(
            "location /a/ { auth_basic x; auth_basic_user_file /u; rewrite ^/a/(.*)$ /f/$1 break; }\n\
             location /b/ { deny all; rewrite ^/b/(.*)$ /f/$1 break; }\n\
             location /c/ { deny all; rewrite ^/c/(.*)$ /f/$1 last; }",
        );
        let of = |begin: &str| found.iter().find(|route| route.contains(begin)).unwrap();
        let rewritten = of("pattern = \"/a/(.*)\"");
        assert!(rewritten.contains("basic_authentication") && rewritten.contains("rewrite"), "{rewritten}");
        let refused = of("pattern = \"/b/(.*)\"");
        assert!(refused.contains("status = 403") && !refused.contains("rewrite"), "{refused}");
        // The rules of a location do not count for a path that leaves it.
        let moved = of("pattern = \"/c/(.*)\"");
        assert!(moved.contains("rewrite") && !moved.contains("deny"), "{moved}");
    }

    #[test]
    fn a_return_behind_rewrites_is_for_the_other_paths() {
        let (found, problems) = routes(
            "location /s { rewrite ^/s/(\\d+)$ /i.html?n=$1 last; rewrite ^/s/x /y;\n\
             add_header X-A b; return 404; }",
        );
        assert_eq!(problems, 0);
        assert!(found[0].contains("rewrite = { to = \"/i.html?n=${1}&${query}\" }"), "{found:?}");
        let answer = "path = \"/s**\"; respond = { status = 404 }; headers = { X-A = \"b\" }";
        assert_eq!((found.len(), found[1].as_str()), (2, answer), "{found:?}");
    }

    #[test]
    fn index_scripts_are_refused_with_all_scripts() {
        let (found, problems) = routes(
            "index index.php; location / { try_files $uri $uri/ /index.php; }\n\
             location ~ ^/index\\.php(/|$) { fastcgi_pass 127.0.0.1:9000; }\n\
             location ~ \\.php$ { return 404; }",
        );
        assert_eq!(problems, 0);
        assert!(
            found.iter().any(|route| route == "path = \"=/\"; rewrite = { to = \"/index.php\" }"),
            "{found:?}"
        );
        let last = found.last().unwrap();
        assert!(last.contains("index = []") && last.contains("front_controller"), "{last}");
        // A script that no location runs is neither run nor sent.
        let guard = &found[found.len() - 2];
        assert!(guard.contains(".php(/|$)") && guard.contains("rewrite"), "{guard}");
    }

    #[test]
    fn servers_without_known_names_get_no_requests() {
        let imported = imported(
            "server { listen 80; server_name a.org; }\n\
             server { listen 80; server_name ~^(?<team>.+)\\.a\\.org$; }\n\
             server { listen 80; server_name _; }",
        );
        let hosts: Vec<&str> = keys(&imported).into_iter().filter(|line| line.starts_with("hosts")).collect();
        assert_eq!(hosts, ["hosts = [\"server-1.invalid\"]", "hosts = [\"server-2.invalid\"]"]);
    }

    #[test]
    fn fields_that_origins_do_not_get_anyway_are_set() {
        let (found, problems) = routes(
            "listen 8080; location / { proxy_pass http://b:1; proxy_set_header Host $http_host;\n\
             proxy_set_header X-Scheme $scheme; proxy_set_header X-Forwarded-Ssl on;\n\
             proxy_set_header X-Forwarded-Port $server_port; proxy_set_header X-Forwarded-Proto $scheme; }",
        );
        let set = "set = { X-Forwarded-Port = \"8080\", X-Forwarded-Ssl = \"on\", X-Scheme = \"${scheme}\" }";
        assert!(found[0].contains(set) && problems == 0, "{found:?}");
        for text in ["$server_name", "$host:$server_port", "$http_x_host"] {
            let host = format!("location / {{ proxy_pass http://b:1; proxy_set_header Host {text}; }}");
            assert_eq!(routes(&host).1, 1, "{text}");
        }
    }

    #[test]
    fn an_alias_without_a_slash_has_its_directory() {
        let (found, _) = routes("location /m { alias /media; } location / { proxy_pass http://b:1; }");
        let redirect = "path = \"/m\"; redirect = { to = \"/m/\", status = 301 }";
        assert!(found.iter().any(|route| route == redirect), "{found:?}");
    }

    #[test]
    fn a_name_for_an_origin_that_is_not_its_address_is_told() {
        let imported =
            imported("server { location / { proxy_pass http://a; proxy_set_header Host b.org; } }");
        assert_eq!(imported.problems.len(), 1, "{}", imported.text);
        assert!(!imported.text.contains("\nset = "), "{}", imported.text);
    }

    #[test]
    fn scripts_come_before_prefixes_and_are_never_files() {
        let imported = imported(
            "server { root /srv; index index.php /index.php$request_uri;\n\
             location / { try_files $uri $uri/ /index.php$request_uri; }\n\
             location /remote { return 301 /remote.php$request_uri; }\n\
             location = / { }\n\
             location ~ \\.php(?:$|/) { fastcgi_pass unix:/run/php.sock; try_files $uri =404; } }",
        );
        assert!(imported.problems.is_empty(), "{:?}", imported.problems);
        let php = ["[site.route.php]", "backends = [\"unix:/run/php.sock\"]", "index = [\"index.php\"]"];
        let mut expected =
            vec!["[[site]]", "listen = [\"0.0.0.0:80\"]", "root = \"/srv\"", "index = [\"index.html\"]"];
        expected.extend(["[[site.route]]", "path = \"=/\""]);
        expected.extend(php);
        expected.extend(["[[site.route]]", "pattern = \"(?s:.*?)\\\\.php(?:$|/)(?s:.*)\""]);
        expected.extend(php);
        expected.extend(["[[site.route]]", "path = \"/remote**\""]);
        expected.push("redirect = { to = \"/remote.php$path\", status = 301 }");
        expected.extend(["[[site.route]]", "path = \"/\"", "pattern = \"(?s:.*?)\\\\.php(/|$)(?s:.*)\""]);
        expected.push("rewrite = { to = \"/index.php\" }");
        expected.extend(["[[site.route]]", "path = \"/\""]);
        expected.extend(php);
        expected.push("front_controller = \"/index.php\"");
        assert_eq!(keys(&imported), expected);
    }

    #[test]
    fn a_named_location_that_names_itself_is_told() {
        for inner in ["try_files $uri @app;", "try_files /a @other;"] {
            let text = "server { root /srv; location / { try_files $uri @app; }\n\
                        location @app { INNER } location @other { try_files $uri @app; } }";
            let imported = imported(&text.replace("INNER", inner));
            let advice: Vec<&str> = imported.problems.iter().map(|problem| problem.advice.as_str()).collect();
            assert_eq!(advice, ["list these files in the try_files that leads here"], "{inner}");
        }
    }

    #[test]
    fn what_is_forbidden_and_not_translated_is_told() {
        let imported = imported(
            "server { root /srv;\n location ~ (a|\\.(?!css))x { deny all; }\n\
             location ~ /\\.(?!well-known).* { deny all; } }",
        );
        assert_eq!(imported.problems.len(), 1, "{:?}", imported.problems);
        let problem = &imported.problems[0];
        assert_eq!(problem.place.to_string(), "nginx.conf:2");
        assert!(problem.advice.starts_with("it refuses all paths"), "{}", problem.advice);
        // More is refused, rather than less.
        assert!(keys(&imported).contains(&"pattern = \"(?s:.*?)(a|\\\\.)x(?s:.*)\""), "{}", imported.text);
    }

    #[test]
    fn a_location_keeps_its_path_beside_its_log() {
        let imported = imported(
            "http { access_log off; server { root /srv; location = /x { access_log off; deny all; }\n\
             location /y/ { access_log off; return 200 ok; } } }",
        );
        let text = keys(&imported).join("\n");
        for route in [
            "path = \"/x\"\naccess_log = \"off\"\nrespond = { status = 403 }",
            "path = \"/y/\"\nrespond = { status = 200, body = \"ok\" }\naccess_log = \"off\"",
        ] {
            assert!(text.contains(route), "{route}\n{text}");
        }
    }

    #[test]
    fn what_asks_for_a_password_is_not_open_to_all() {
        let imported = imported(
            "server { root /srv; location ~ (a|b(?=c)) { auth_basic x; auth_basic_user_file /u; } }",
        );
        let text = keys(&imported).join("\n");
        assert!(text.contains("pattern = \"(?s:.*?)(a|b)(?s:.*)\"\nrespond = { status = 403 }"), "{text}");
        assert_eq!(imported.problems.len(), 1, "{:?}", imported.problems);
    }

    #[test]
    fn expressions_in_locations_count_for_the_longest_prefix() {
        let imported = imported(
            "server { root /srv; location ~ \\.x$ { return 401; }\n\
             location /a { location ~ \\.x$ { return 402; } }\n\
             location /a/b/ { root /b; } location ~ ^/c { location ~ \\.y$ { return 403; } } }",
        );
        let text = keys(&imported).join("\n");
        let inner = "path = \"/a**\"\npattern = \"(?s:.*?)\\\\.x\"\nrespond = { status = 402 }\n\
                     when = \"not $path =~ '^/a/b/'\"";
        assert!(text.find(inner) < text.find("status = 401") && text.contains(inner), "{text}");
        assert!(text.contains("respond = { status = 403 }\nwhen = \"$path =~ '^/c'\""), "{text}");
    }

    #[test]
    fn addresses_names_and_origins() {
        let imported = imported(
            "upstream app { server unix:///run/app.sock; server localhost:3000 weight=2 backup; }\n\
             server { listen 80; server_name a.org; location / { proxy_pass http://app; } }\n\
             server { listen 80; listen [::1]:8080; listen 443 ssl; server_name .b.org _; root /srv; }",
        );
        let text = keys(&imported).join("\n");
        for line in [
            "to = [\"unix:/run/app.sock\", \"http://127.0.0.1:3000 weight=2 backup\"]",
            "listen = [\"0.0.0.0:80\", \"[::1]:8080\"]",
            "listen = [\"0.0.0.0:443\"]",
            "host = \"origin\"",
        ] {
            assert!(text.lines().any(|written| written == line), "{line}\n{text}");
        }
        // The first server of an address is nginx's default, so it has no names here.
        assert!(!text.contains("a.org"), "{text}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_translated_or_refused(text in "[a-z{};\"'$\\\\# \n*~^/.]{0,200}") {
            if let Ok(read) = crate::parse("x", &text) {
                let _ = translate(&read);
            }
        }
    }
}
