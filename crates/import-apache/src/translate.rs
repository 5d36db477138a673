//! Translates a whole configuration: directives outside virtual hosts, and each host as a site.

use super::area::is;
use super::environment::Environment;
use super::host::Host;
use super::mapped::with_aliases;
use super::overrides;
use super::refused::refused_until;
use super::rewrite_map::{self, Uses};
use super::site::{fill, others};
use super::variant::is_variant;
use touchstone_import_base::Imported;
use touchstone_import_base::account::Account;
use touchstone_import_base::apache::HTACCESS;
use touchstone_import_base::directive::{Directive, Form, Place};
use touchstone_import_base::maps;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

const HEAD: &str = "\
# Written by `touchstone import apache`. Each original line is a comment beside its translation.
# Try it with `touchstone check --config FILE`. docs/import.md lists the differences.
";

/// Translates a configuration, the part of one that holds hosts, or `.htaccess` files.
pub fn translate(directives: &[Directive]) -> Imported {
    let directives = &with_aliases(directives)[..];
    let mut account = Account::default();
    let mut server = Section::new("[server]");
    let mut limits = Section::new("[limits]");
    let mut access_log = Section::new("[access_log]");
    let mut error_log = Section::new("[error_log]");
    let mut other = Section::new("");
    let uses = Uses::default();
    let has_hosts = directives.iter().any(|line| is(line, "VirtualHost"));
    for line in directives {
        match line.name.to_ascii_lowercase().as_str() {
            "user" => key(line, "user", &mut server, &mut account),
            "group" => key(line, "group", &mut server, &mut account),
            "timeout" => seconds(line, "stall_timeout", &mut limits, &mut account),
            "keepalivetimeout" => seconds(line, "keep_alive_timeout", &mut limits, &mut account),
            "keepalive" => account.unneeded(line, &mut limits, "connections are kept open"),
            "listen" => account.translated(line, &mut other),
            "rewritemap" if has_hosts => rewrite_map::report(line, &mut other, &mut account),
            "logformat" => {
                account.problem(line, &mut access_log, "see 'format' of [access_log] (docs/logs.md)")
            }
            _ => {}
        }
    }
    logs(directives, &mut access_log, &mut error_log, &mut account);
    let is_rest = |line: &&Directive| {
        let is_known = ["user", "group", "timeout", "keepalivetimeout", "keepalive", "listen", "logformat"];
        !is_known.iter().any(|name| is(line, name)) && line.block.is_none()
    };
    let rest: Vec<Directive> = directives.iter().filter(is_rest).cloned().collect();
    others(&rest, &mut other, &mut account);
    let hosts: Vec<&Directive> = directives.iter().filter(|line| is(line, "VirtualHost")).collect();
    let outside: Vec<&Directive> = directives.iter().filter(|line| !is(line, "VirtualHost")).collect();
    let listens: Vec<&str> =
        directives.iter().filter(|line| is(line, "Listen")).map(|line| line.argument(0)).collect();
    let mut sites = Vec::new();
    if hosts.is_empty() {
        let has_root = directives.iter().any(|line| is(line, "DocumentRoot") || line.argument(1) == HTACCESS);
        if has_root || directives.iter().any(|line| is(line, "ProxyPass")) {
            let mut notes = Section::new("");
            let own = overrides::in_force(&outside, &[], &mut notes, &mut account);
            let addresses: Vec<String> = match listens.is_empty() {
                true => addresses("*:80", &listens),
                false => listens.iter().flat_map(|listen| of_listen(listen)).collect(),
            };
            let mut section = site(None, &own, &[], &addresses, &uses, &mut account);
            section.take_notes(notes);
            sites.push(section);
        }
    }
    for host in hosts {
        let addresses: Vec<String> =
            host.arguments.iter().flat_map(|address| addresses(address, &listens)).collect();
        let mut notes = Section::new("");
        let outside = overrides::in_force(&outside, host.inside(), &mut notes, &mut account);
        let outside: Vec<&Directive> = outside.iter().collect();
        let mut section = site(Some(host), host.inside(), &outside, &addresses, &uses, &mut account);
        section.take_notes(notes);
        own_logs(host, &mut section, &mut account);
        sites.push(section);
    }
    let mut text = String::from(HEAD);
    for section in [server, limits, access_log, error_log] {
        if !section.is_empty() {
            section.write(&mut text);
        }
    }
    other.write(&mut text);
    uses.sections().iter().for_each(|map| map.write(&mut text));
    let mut of_sites = String::new();
    sites.iter().for_each(|site| site.write(&mut of_sites));
    maps::named_in(&of_sites).iter().for_each(|map| map.write(&mut text));
    text.push_str(&of_sites);
    account.into_imported(text)
}

fn key(line: &Directive, name: &str, section: &mut Section, account: &mut Account) {
    match line.argument(0) {
        word if word.starts_with(['$', '#']) || word == "root" => {
            account.problem(line, section, "write the user's name, or start the server as that user");
        }
        word => {
            account.translated(line, section);
            section.key(name, toml_string(word));
        }
    }
}

fn seconds(line: &Directive, name: &str, section: &mut Section, account: &mut Account) {
    match line.argument(0).parse::<u64>() {
        Ok(seconds @ 1..=3_600) => {
            account.translated(line, section);
            section.key(name, toml_string(&format!("{seconds}s")));
        }
        _ => account.problem(line, section, "the time must be from a second to an hour"),
    }
}

/// Translates `CustomLog` and `ErrorLog` of a block.
fn logs(directives: &[Directive], access_log: &mut Section, error_log: &mut Section, account: &mut Account) {
    for line in directives {
        let section = match line.name.to_ascii_lowercase().as_str() {
            "customlog" | "transferlog" => &mut *access_log,
            "errorlog" => &mut *error_log,
            _ => continue,
        };
        let target = line.argument(0);
        let path = match target {
            "/dev/stdout" | "/proc/self/fd/1" => "stdout",
            "/dev/stderr" | "/proc/self/fd/2" => "stderr",
            "/dev/null" => "off",
            "journald" => "journald",
            "syslog" => "syslog",
            path => path,
        };
        let has_other_form = path.starts_with(['|', '$']) || path.starts_with("syslog:");
        if section.has("path") || has_other_form {
            account.problem(line, section, "a site has only one log of each kind (docs/logs.md)");
            continue;
        }
        account.translated(line, section);
        section.key("path", toml_string(path));
        let environment = line.arguments.get(2).and_then(|word| word.strip_prefix("env="));
        if let Some(variable) = environment {
            let (name, sign) = match variable.strip_prefix('!') {
                Some(name) => (name, "not "),
                None => (variable, ""),
            };
            match Environment::of(directives.iter()).condition(name) {
                Ok((condition, from)) => {
                    from.iter().for_each(|line| account.translated(line, section));
                    section.key("when", toml_string(&format!("{sign}({condition})")));
                }
                Err(advice) => account.problem(line, section, &advice),
            }
        }
        match line.argument(1) {
            "common" => section.key("format", toml_string("common")),
            "" | "combined" | "vhost_combined" => {}
            _ => section.note("The lines are written in the combined format."),
        }
    }
}

/// The logs of a host, as keys of its site.
fn own_logs(host: &Directive, site: &mut Section, account: &mut Account) {
    let mut access_log = Section::new("[site.access_log]");
    let mut error_log = Section::new("[site.error_log]");
    logs(host.inside(), &mut access_log, &mut error_log, account);
    for log in [access_log, error_log] {
        match log.has("path") {
            true => site.push(log),
            false => site.take_notes(log),
        }
    }
}

/// The addresses of a host: `*:80`, `192.0.2.1:80`, `_default_:443`.
fn addresses(text: &str, listens: &[&str]) -> Vec<String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host, port),
        _ => (text, "80"),
    };
    if !matches!(host, "*" | "_default_" | "") {
        let parsed = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        return match parsed {
            Ok(address) => vec![std::net::SocketAddr::new(address, port.parse().unwrap_or(80)).to_string()],
            Err(_) => vec![format!("0.0.0.0:{port}"), format!("[::]:{port}")],
        };
    }
    let named: Vec<String> = listens
        .iter()
        .filter(|listen| listen.rsplit(':').next() == Some(port) && listen.contains(':'))
        .map(|listen| listen.to_string())
        .collect();
    if named.is_empty() { vec![format!("0.0.0.0:{port}"), format!("[::]:{port}")] } else { named }
}

fn of_listen(listen: &str) -> Vec<String> {
    match listen.contains(':') {
        true => vec![listen.to_string()],
        false => vec![format!("0.0.0.0:{listen}"), format!("[::]:{listen}")],
    }
}

fn site(
    host: Option<&Directive>,
    block: &[Directive],
    outside: &[&Directive],
    addresses: &[String],
    uses: &Uses,
    account: &mut Account,
) -> Section {
    let mut section = Section::new("[[site]]");
    if let Some(host) = host {
        account.translated(host, &mut section);
    }
    let one = |name: &str| block.iter().rfind(|line| is(line, name));
    section.key("listen", toml_strings(addresses));
    let mut names: Vec<&str> = Vec::new();
    for line in block.iter().filter(|line| is(line, "ServerName") || is(line, "ServerAlias")) {
        account.translated(line, &mut section);
        for name in &line.arguments {
            let name = name.split("://").last().unwrap_or_default().split(':').next().unwrap_or_default();
            match name.strip_prefix("*.").unwrap_or(name).contains(['*', '?']) {
                true => account.problem(line, &mut section, "a name must be complete, or begin with '*.'"),
                false => names.push(name),
            }
        }
    }
    if host.is_some() && !names.is_empty() {
        section.key("hosts", toml_strings(names));
    }
    let is_secure = one("SSLEngine").is_some_and(|line| line.argument(0).eq_ignore_ascii_case("on"));
    for (name, key) in [("SSLCertificateFile", "certificate"), ("SSLCertificateKeyFile", "key")] {
        if let Some(line) = one(name) {
            account.translated(line, &mut section);
            if is_secure {
                section.key(key, toml_string(line.argument(0)));
            }
        }
    }
    if let Some(line) = one("SSLEngine") {
        account.translated(line, &mut section);
    }
    if let Some(line) = one("SSLProtocol") {
        account.translated(line, &mut section);
        if line.arguments.iter().all(|word| matches!(word.as_str(), "TLSv1.3" | "+TLSv1.3")) {
            section.key("tls_minimum", toml_string("1.3"));
        }
    }
    if is_secure {
        client_certificates(block, outside, &mut section, account);
    }
    if let Some(line) = one("SSLCertificateChainFile") {
        account.problem(line, &mut section, "append the chain to the certificate's file");
    }
    let whole: Vec<Directive> = outside
        .iter()
        .map(|line| (*line).clone())
        .filter(|line| line.block.is_none() || is_variant(line))
        .collect();
    let whole = Directive {
        name: "Server".to_string(),
        arguments: Vec::new(),
        block: Some(whole.into_iter().chain(block.iter().filter(|line| !is_part(line)).cloned()).collect()),
        place: Place::new("".into(), 0),
        form: Form::Apache,
    };
    let host = Host { block, outside: outside.to_vec(), is_secure };
    fill(&host, &whole, uses, &mut section, account);
    section
}

/// Writes which client certificates are trusted, and whether a client must have one. A section that requires
/// one has a condition.
fn client_certificates(
    block: &[Directive],
    outside: &[&Directive],
    section: &mut Section,
    account: &mut Account,
) {
    let one = |name: &str| {
        let of_host = block.iter().rfind(|line| is(line, name));
        of_host.or_else(|| outside.iter().copied().rfind(|line| is(line, name)))
    };
    let asks = |line: &Directive| is(line, "SSLVerifyClient") && !is_word(line.argument(0), "none");
    fn any(block: &[Directive], test: &dyn Fn(&Directive) -> bool) -> bool {
        block.iter().any(|line| test(line) || any(line.inside(), test))
    }
    let of_sections = any(block, &asks) || outside.iter().any(|line| any(line.inside(), &asks));
    let mode = one("SSLVerifyClient").filter(|line| asks(line));
    if let Some(line) = one("SSLVerifyClient") {
        account.translated(line, section);
    }
    let mut shut = Vec::new();
    match one("SSLCACertificateFile") {
        Some(file) if mode.is_some() || of_sections => {
            account.translated(file, section);
            section.key("client_authorities", toml_string(file.argument(0)));
            let is_required = mode.is_some_and(|line| is_word(line.argument(0), "require"));
            if !is_required {
                section.key("client_certificate", toml_string("optional"));
            }
        }
        Some(file) => account.unneeded(file, section, "no client is asked for a certificate"),
        None => shut.extend(mode.filter(|line| is_word(line.argument(0), "require"))),
    }
    if mode.is_some() || of_sections {
        let names = ["SSLCARevocationFile", "SSLCARevocationPath", "SSLOCSPEnable"];
        shut.extend(names.into_iter().filter_map(one).filter(|line| !is_word(line.argument(0), "off")));
    }
    for line in shut {
        let advice = "all clients are refused until you write 'client_authorities' (docs/https.md): only a \
                      file of authorities is supported, and no list of revoked certificates";
        account.problem(line, section, advice);
        section.push(refused_until(line, "/"));
    }
}

fn is_word(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}

/// Whether a section covers a part of the paths, so that it has an area.
fn is_part(line: &Directive) -> bool {
    ["Directory", "Location", "LocationMatch", "DirectoryMatch", "Proxy", "VirtualHost"]
        .iter()
        .any(|name| is(line, name))
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};
    use proptest::prelude::*;

    /// Lines of configurations that are joined in any order.
    const LINES: [&str; 47] = [
        "<If \"%{HTTP_USER_AGENT} =~ /bot/i\">",
        "</If>",
        "<Else>",
        "</Else>",
        "<LocationMatch \"^/a/\">",
        "</LocationMatch>",
        "<LimitExcept GET>",
        "</LimitExcept>",
        "SetEnvIf User-Agent bad bad",
        "Deny from env=bad",
        "Dav On",
        "ExpiresByType text/css \"access plus 1 day\"",
        "<VirtualHost *:80>",
        "</VirtualHost>",
        "<Directory /srv/x>",
        "</Directory>",
        "<Location /y>",
        "</Location>",
        "<FilesMatch \"\\.(bak|inc)$\">",
        "</FilesMatch>",
        "ServerName a.org",
        "ServerAlias *.a.org b.org",
        "DocumentRoot /srv",
        "Alias /m \"/media x\"",
        "ScriptAlias /cgi-bin/ /usr/lib/cgi-bin/",
        "Require all denied",
        "Require ip 10.1 192.0.2.1",
        "Require valid-user",
        "Order allow,deny",
        "AuthUserFile /etc/users",
        "Header set A \"b \\\"c\\\"\"",
        "Header unset A",
        "Options Indexes Includes",
        "DirectoryIndex index.php index.html",
        "ProxyPass /api/ http://b:1/c/",
        "ProxyPass / !",
        "ProxyPass /e http://b:1/",
        "ProxyPassReverse /e http://b:1/",
        "<Location /e/f>\nRequire ip 10.1\n</Location>",
        "<Proxy *>\nRequire ip 10.2\n</Proxy>",
        "RewriteRule ^/g/(.*)$ http://b:1/h/$1 [P]",
        "ProxyPreserveHost On",
        "Redirect 301 /o /n",
        "RewriteEngine On",
        "RewriteCond %{HTTP_HOST} ^c$ [OR]",
        "RewriteRule ^(.*)$ /d/$1 [R=301,QSA]",
        "FallbackResource /index.php",
    ];

    /// The lines that are not comments, and how many lines are told.
    fn lines_of(text: &str) -> (Vec<String>, usize) {
        let imported = translate(&parse("a.conf", text).unwrap());
        let lines = imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        (lines.map(str::to_string).collect(), imported.problems.len())
    }

    #[test]
    fn a_list_of_options_replaces_those_around_it() {
        let listed = |options: &str| {
            let text = format!(
                "DocumentRoot /srv\n<Directory /srv>\nOptions Indexes Includes\n</Directory>\n\
                 <Directory /srv/a>\nOptions {options}\n</Directory>"
            );
            let (lines, _) = lines_of(&text);
            let at = lines.iter().position(|line| line == "path = \"/a/\"").unwrap();
            let route = lines[at..].iter().skip(1).take_while(|line| !line.starts_with('['));
            route.filter(|line| line.starts_with("listing") || line.starts_with("includes")).count()
        };
        assert_eq!(listed("FollowSymLinks"), 0);
        assert_eq!(listed("+FollowSymLinks"), 2);
        assert_eq!(listed("-Indexes -Includes"), 0);
        assert_eq!(listed("Indexes"), 1);
    }

    #[test]
    fn files_of_directories_without_overrides_have_no_effect() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("www");
        for (path, text) in [("priv", "Require all granted"), ("priv/open", "Require all granted")] {
            std::fs::create_dir_all(root.join(path)).unwrap();
            std::fs::write(root.join(path).join(".htaccess"), text).unwrap();
        }
        let root = root.display();
        let text = format!(
            "DocumentRoot {root}\n<Directory {root}/priv>\nAllowOverride None\n\
             Require ip 10.1.2.3\n</Directory>\n\
             <Directory {root}/priv/open>\nAllowOverride All\n</Directory>"
        );
        let file = directory.path().join("httpd.conf");
        std::fs::write(&file, text).unwrap();
        let imported = translate(&crate::read(&file).unwrap());
        let route = |path: &str| {
            let line = format!("path = \"{path}\"\n");
            let routes = imported.text.split("[[site.route]]").filter(|route| route.contains(&line));
            routes.last().unwrap_or_default().to_string()
        };
        assert!(route("/priv/").contains("allow = [\"10.1.2.3\"]"), "{}", imported.text);
        assert!(!route("/priv/open/").contains("10.1.2.3"), "{}", imported.text);
        assert!(imported.text.contains("'AllowOverride None' is set"), "{}", imported.text);
    }

    #[test]
    fn directories_by_expression_from_the_beginning() {
        let patterns = |section: &str| {
            let text = format!(
                "DocumentRoot /srv/w.org\nAlias /d /opt/d\n{section}\nRequire all denied\n</DirectoryMatch>"
            );
            let (lines, problems) = lines_of(&text);
            (lines.into_iter().filter(|line| line.starts_with("pattern")).collect::<Vec<_>>(), problems)
        };
        let logs = [r#"pattern = "/site[0-9]/logs(?s:.*)""#.to_string()];
        for named in ["^/srv/w.org/site[0-9]/logs", r"^/srv/w\.org/site[0-9]/logs"] {
            let (found, _) = patterns(&format!("<DirectoryMatch {named}>"));
            assert!(found.contains(&logs[0]), "{named}: {found:?}");
        }
        let (found, _) = patterns("<DirectoryMatch ^/opt/d/x>");
        assert!(found.contains(&"pattern = \"/d/x(?s:.*)\"".to_string()), "{found:?}");
        let everything = "pattern = \"(?s:.*)\"".to_string();
        assert!(patterns("<DirectoryMatch /srv(/|$)>").0.contains(&everything), "it is above the root");
        for named in ["^/srv/.*/logs", "^/srv/w.org/a|/b", "/logs$"] {
            let (found, problems) = patterns(&format!("<DirectoryMatch {named}>"));
            assert!(found.is_empty() && problems > 0, "{named}");
        }
    }

    #[test]
    fn locations_with_wildcards() {
        let patterns = |named: &str| {
            let text = format!("DocumentRoot /srv\n<Location {named}>\nRequire all denied\n</Location>");
            let (lines, problems) = lines_of(&text);
            (lines.into_iter().filter(|line| line.starts_with("pattern")).collect::<Vec<_>>(), problems)
        };
        let found = r#"pattern = "/st[^/]*r/[^/](?:/(?s:.*))?""#.to_string();
        assert_eq!(patterns("/st*r/?"), (vec![found], 0));
        assert_eq!(patterns("/st[ab]"), (Vec::new(), 1));
    }

    #[test]
    fn what_is_asked_besides_users() {
        let answers = |section: &str, secure: &str| {
            let text = format!(
                "<VirtualHost *:443>\nServerName a.org\nSSLEngine {secure}\nDocumentRoot /srv\n\
                 <Directory /srv>\nRequire all denied\n</Directory>\n\
                 <Directory /srv/a>\n{section}\nRequire all granted\n</Directory>\n</VirtualHost>"
            );
            let (lines, problems) = lines_of(&text);
            let at = lines.iter().position(|line| line == "path = \"/a/\"").unwrap();
            (lines.get(at + 1).is_some_and(|line| line == "respond = { status = 403 }"), problems)
        };
        assert_eq!(answers("", "on"), (false, 0));
        assert_eq!(answers("SSLRequireSSL", "on"), (false, 0));
        assert_eq!(answers("SSLRequireSSL", "off"), (true, 0));
        assert_eq!(answers("AuthMerging And", "on"), (true, 1));
        assert_eq!(answers("AuthMerging Off", "on"), (false, 0));
    }

    /// The routes that answer 403, each as its lines.
    fn refusing(text: &str) -> Vec<String> {
        let (lines, _) = lines_of(text);
        let text = lines.join("\n");
        let routes = text.split("[[site.route]]\n").skip(1);
        routes.filter(|route| route.contains("status = 403")).map(str::to_string).collect()
    }

    #[test]
    fn what_is_not_translated_refuses_its_paths() {
        for (inside, expected) in [
            ("<If \"%{TIME_HOUR} > 20\">\nRequire all denied\n</If>", "path = \"/\"\nrespond"),
            ("<If \"%{TIME_HOUR} > 20\">\nRequire all granted\n</If>", ""),
            ("<If \"%{TIME_HOUR} > 20\">\nHeader set A b\n</If>", ""),
            (
                "<Files a.x>\n<If \"%{QUERY_STRING} =~ /a/\">\nRequire all denied\n</If>\n</Files>",
                "pattern = \"/(?:[^/]*/)*a\\\\.x\"\nrespond",
            ),
            ("<Location /l>\nRewriteRule ^a - [F]\n</Location>", "path = \"/l/\"\nrespond"),
            ("RedirectMatch 404 ^/adm(in)\\1", "pattern = \"(?i)/adm(?s:.*)\"\nrespond"),
            ("RedirectMatch 404 (a)\\1", "path = \"/\"\nrespond"),
            (
                "RewriteEngine on\nRewriteCond %{TIME_HOUR} >20\nRewriteRule ^/x/ - [F]",
                "path = \"/x/\"\nrespond",
            ),
            ("RewriteEngine on\nRewriteCond %{TIME_HOUR} >20\nRewriteRule ^/x/ /y [L]", ""),
            ("SSLRequire %{SSL_CIPHER_USEKEYSIZE} >= 128", "path = \"/\"\nrespond"),
            ("SSLVerifyClient require", "path = \"/\"\nrespond"),
            (
                "SSLVerifyClient require\nSSLCACertificateFile /c\nSSLCARevocationFile /r",
                "path = \"/\"\nrespond",
            ),
        ] {
            let text = format!(
                "<VirtualHost *:443>\nServerName a.org\nSSLEngine on\nDocumentRoot /srv\n{inside}\n\
                 </VirtualHost>"
            );
            let found = refusing(&text);
            match expected {
                "" => assert!(found.is_empty(), "{inside}: {found:?}"),
                expected => {
                    assert!(found.iter().any(|route| route.starts_with(expected)), "{inside}: {found:?}")
                }
            }
        }
    }

    #[test]
    fn client_certificates() {
        let keys = |inside: &str| {
            let text = format!(
                "<VirtualHost *:443>\nServerName a.org\nSSLEngine on\nSSLCACertificateFile /ca.pem\n\
                 DocumentRoot /srv\n{inside}\n</VirtualHost>"
            );
            let (lines, problems) = lines_of(&text);
            let is_key = |line: &&String| line.starts_with("client_") || line.starts_with("when");
            (lines.iter().filter(is_key).cloned().collect::<Vec<_>>(), problems)
        };
        let authorities = "client_authorities = \"/ca.pem\"";
        let optional = "client_certificate = \"optional\"";
        let when = "when = \"not ($tls_verified == 'SUCCESS')\"";
        assert_eq!(keys(""), (Vec::new(), 0));
        // All requests have a certificate, and the condition of the routes holds.
        let (found, problems) = keys("SSLVerifyClient require");
        assert!(found[0] == authorities && !found.iter().any(|line| line == optional) && problems == 0);
        let (found, _) = keys("SSLVerifyClient optional");
        assert_eq!(found, [authorities, optional]);
        let (found, problems) = keys("<Location /a>\nSSLVerifyClient require\n</Location>");
        assert_eq!(
            (found, problems),
            (vec![authorities.into(), optional.into(), when.into(), when.into()], 0)
        );
        let none = "when = \"$map{client-certificate} == 'NONE'\"";
        let (found, _) = keys(
            "SSLVerifyClient optional\n<If \"%{SSL_CLIENT_VERIFY} == 'NONE'\">\nRequire all denied\n</If>",
        );
        assert_eq!(found, [authorities, optional, none]);
    }

    #[test]
    fn rules_that_refuse_have_no_lookahead() {
        let (lines, problems) = lines_of(
            "DocumentRoot /srv\nRewriteEngine On\n\
             RewriteRule ^/(?:\\.(?!well-known)|occ|db_).* - [R=404,L]\n\
             RedirectMatch 403 /(a|b(?!c))/x\nRewriteRule ^/x(?!y) /z\n\
             RewriteRule ^/pay/ https://www.a.org%{REQUEST_URI} [R]\n\
             RewriteRule ^/o(/.*)$ https://b.org$1 [R]",
        );
        assert_eq!(problems, 2, "{lines:?}");
        for line in [
            "pattern = \"/(?:\\\\.|occ|db_).*(?s:.*)\"",
            "when = \"not $path =~ '^/[.]well-known(/|$)'\"",
            "pattern = \"(?s:.*?)/(a|b)/x(?s:.*)\"",
            "redirect = { to = \"https://www.a.org${path}\", status = 302 }",
            "redirect = { to = \"https://b.org/${1}\", status = 302 }",
        ] {
            assert!(lines.iter().any(|other| other == line), "{line}\n{}", lines.join("\n"));
        }
    }

    #[test]
    fn directories_by_expression_and_with_wildcards() {
        let patterns = |named: &str| {
            let text = format!(
                "DocumentRoot /srv/www\n<Directory /srv/www/a>\nRequire all granted\n</Directory>\n\
                 <Directory {named}>\nRequire all denied\n</Directory>"
            );
            let (lines, _) = lines_of(&text);
            lines.into_iter().filter(|line| line.starts_with("pattern")).collect::<Vec<_>>()
        };
        let of_expression = r#"pattern = "(?s:.*?)/private[0-9]+(?s:.*)""#;
        assert_eq!(patterns("~ \"/private[0-9]+\""), [of_expression; 2]);
        let in_area = r#"pattern = "/a/cache(?:/(?s:.*))?""#;
        let in_root = r#"pattern = "/[^/]*/cache(?:/(?s:.*))?""#;
        assert_eq!(patterns("/srv/www/*/cache"), [in_area, in_root]);
        let everything = r#"pattern = "(?s:.*)""#;
        assert_eq!(patterns("/srv/w?w/"), [everything; 2]);
        assert!(patterns("/opt/*").is_empty());
    }

    #[test]
    fn a_part_of_an_alias_has_its_path() {
        let (lines, _) = lines_of(
            "DocumentRoot /srv\nAlias /d /opt/d\n<Directory /opt/d>\n<FilesMatch \"\\.css$\">\n\
             Header set A b\n</FilesMatch>\n</Directory>",
        );
        let at = lines.iter().position(|line| line.starts_with("pattern")).unwrap();
        let route: Vec<&String> = lines[at..].iter().take_while(|line| !line.starts_with('[')).collect();
        assert!(route.iter().any(|line| *line == "path = \"/d/\""), "{route:?}");
        assert!(route.iter().any(|line| *line == "alias = \"/opt/d\""), "{route:?}");
    }

    #[test]
    fn origins_of_expressions_and_of_balancers() {
        let (lines, problems) = lines_of(
            "<VirtualHost *:80>\nServerName a.org\n\
             <Proxy balancer://b>\nBalancerMember http://b1\nBalancerMember http://b2 status=+H\n\
             BalancerMember http://b3 status=+D\nBalancerMember http://b4 status=-D\n</Proxy>\n\
             ProxyPass /img/own !\nProxyPassMatch ^/img/(.*)$ http://c/i/$1\nProxyPass /app balancer://b/x\n\
             ProxyPassMatch ^/private/ !\n</VirtualHost>",
        );
        assert_eq!(problems, 1, "{lines:?}");
        for line in [
            "to = [\"http://b1/x\", \"http://b2/x backup\", \"http://b4/x\"]",
            "pattern = \"/img/(.*)\"",
            "when = \"not $path =~ '^/img/own'\"",
            "refuse_escapes = true",
        ] {
            assert!(lines.iter().any(|other| other == line), "{line}\n{lines:#?}");
        }
        let (lines, _) = lines_of(
            "<VirtualHost *:80>\nServerName a.org\nAllowEncodedSlashes NoDecode\n\
             ProxyPass / http://b/\n</VirtualHost>",
        );
        assert!(!lines.iter().any(|line| line.starts_with("refuse_escapes")), "{lines:?}");
    }

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

        #[test]
        fn any_text_is_read_or_refused(text in "[ -~\n\t<>/\"%]{0,200}") {
            if let Ok(directives) = parse("a.conf", &text) {
                let imported = translate(&directives);
                prop_assert!(imported.text.parse::<toml::Table>().is_ok(), "{}", imported.text);
            }
        }
    }

    fn keys(text: &str) -> (Vec<String>, Vec<String>) {
        let imported = translate(&parse("a.conf", text).unwrap());
        let lines = imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let problems = imported.problems.iter().map(|problem| problem.directive.clone());
        (lines.map(str::to_string).collect(), problems.collect())
    }

    #[test]
    fn a_site_with_a_proxy_and_protected_files() {
        let (lines, problems) = keys(
            "<VirtualHost *:80>\nServerName a.org\nServerAlias www.a.org\nDocumentRoot /srv/a\n\
             <Directory /srv/a>\nRequire all granted\nDirectoryIndex index.html\n</Directory>\n\
             <Directory /srv/a/secret>\nAuthType Basic\nAuthName \"Members\"\nAuthUserFile /etc/users\n\
             Require valid-user\n</Directory>\n\
             <FilesMatch \"\\.(bak|inc)$\">\nRequire all denied\n</FilesMatch>\n\
             ProxyPreserveHost On\nProxyPass /api/ http://127.0.0.1:3000/api/\n\
             Redirect permanent /old /new\n</VirtualHost>\n",
        );
        assert!(problems.is_empty(), "{problems:?}");
        for line in [
            "listen = [\"0.0.0.0:80\", \"[::]:80\"]",
            "hosts = [\"a.org\", \"www.a.org\"]",
            "root = \"/srv/a\"",
            "path = \"/secret/\"",
            "basic_authentication = { file = \"/etc/users\", realm = \"Members\" }",
            "pattern = \"/(?:[^/]*/)*[^/]*\\\\.(bak|inc)(?:/(?s:.*))?\"",
            "respond = { status = 403 }",
            "to = \"http://127.0.0.1:3000\"",
            "redirect = { to = \"/new${1}\", status = 301 }",
        ] {
            assert!(lines.iter().any(|written| written == line), "{line}\n{}", lines.join("\n"));
        }
    }

    /// The text of each route, with its subsections.
    fn routes(text: &str) -> Vec<String> {
        let imported = translate(&parse("a.conf", text).unwrap());
        assert!(imported.problems.is_empty(), "{:?}", imported.problems);
        let (lines, _) = keys(text);
        let written = lines.join("\n");
        written.split("[[site.route]]\n").skip(1).map(str::to_string).collect()
    }

    #[test]
    fn sections_of_origins_restrict_clients() {
        let found = routes(
            "<VirtualHost *:80>\n<Proxy *>\nRequire ip 10.0.0.0/8\n</Proxy>\n\
             <Proxy http://other/*>\nRequire all denied\n</Proxy>\n\
             ProxyPass /a http://127.0.0.1:3000\n<Location /a/open>\nRequire all granted\n</Location>\n\
             ProxyPass /b http://other\n</VirtualHost>\n",
        );
        let route_of = |path: &str| {
            let key = format!("path = \"{path}\"\n");
            found.iter().find(|route| route.contains(&key)).unwrap_or_else(|| panic!("{path}: {found:?}"))
        };
        for path in ["/a", "/a/"] {
            assert!(route_of(path).contains("allow = [\"10.0.0.0/8\"]"), "{}", route_of(path));
        }
        assert!(!route_of("/a/open/").contains("allow"), "{}", route_of("/a/open/"));
        assert!(route_of("/a/open/").contains("proxy"), "{}", route_of("/a/open/"));
        for path in ["/b", "/b/"] {
            assert!(route_of(path).contains("status = 403"), "{}", route_of(path));
        }
    }

    #[test]
    fn rules_to_other_servers_keep_the_restrictions_of_paths() {
        let found = routes(
            "<VirtualHost *:80>\nRewriteEngine On\n\
             RewriteRule ^/app/(.*)$ http://127.0.0.1:3001/v2/$1 [P,L]\n\
             RewriteRule ^/(.*)$ http://127.0.0.1:3000/$1 [P,L]\n\
             <Location /admin>\nRequire ip 10.0.0.0/8\n</Location>\n\
             <LocationMatch ^/(metrics|debug)>\nRequire all denied\n</LocationMatch>\n\
             <Proxy *>\nDeny from 192.0.2.0/24\n</Proxy>\n</VirtualHost>\n",
        );
        let open = found.iter().position(|route| {
            route.contains("pattern = \"/(.*)\"")
                && !route.contains("path = \"")
                && !route.contains("when = ")
        });
        let open = open.unwrap_or_else(|| panic!("{found:#?}"));
        let before = &found[..open];
        assert!(found[open].contains("deny = [\"192.0.2.0/24\"]"), "{}", found[open]);
        let admin = before.iter().filter(|route| route.contains("\"/admin/\"")).collect::<Vec<_>>();
        assert!(admin.iter().any(|route| route.contains("allow = [\"10.0.0.0/8\"]")), "{admin:?}");
        let refused = |route: &&String| route.contains("metrics|debug") && route.contains("status = 403");
        assert!(before.iter().any(|route| refused(&route)), "{before:#?}");
        let app = found.iter().find(|route| route.contains("\"/v2/${1}\""));
        assert!(app.is_some_and(|route| route.contains("http://127.0.0.1:3001")), "{found:#?}");
    }

    #[test]
    fn a_host_that_only_passes_requests_on_has_no_directory() {
        let (lines, _) = keys(
            "<VirtualHost *:80>\nProxyPass / http://127.0.0.1:3000/\n\
             ProxyPassReverse / http://127.0.0.1:3000/\n</VirtualHost>\n",
        );
        assert!(!lines.iter().any(|line| line.starts_with("root")), "{lines:?}");
        assert!(
            lines.iter().any(|line| line == "location_prefixes = { \"http://127.0.0.1:3000/\" = \"/\" }")
        );
        let (lines, _) = keys("<VirtualHost *:80>\nAlias /a /srv/a\n</VirtualHost>\n");
        // The alias has its own directory, and other paths are answered with 404.
        assert!(!lines.iter().any(|line| line.starts_with("root")), "{lines:?}");
        assert!(lines.iter().any(|line| line == "alias = \"/srv/a\""), "{lines:?}");
    }

    #[test]
    fn what_is_not_known_is_told() {
        let (_, problems) = keys("<VirtualHost *:80>\nDocumentRoot /a\nSecRuleEngine On\n</VirtualHost>\n");
        assert_eq!(problems, ["SecRuleEngine On"]);
    }
}
