//! A virtual host: addresses, names, certificates, its areas.

use std::collections::BTreeSet;

use super::access;
use super::answer::{self, Answer, Php, is_of_hidden_names};
use super::area::{Area, Mount, is, name};
use super::environment::Environment;
use super::guard::{guarded, proxies_of, restrict_origins};
use super::handlers;
use super::host::{Host, with_slash};
use super::mapped;
use super::origin::{Backend, Reverse, backends, covering};
use super::overrides::REFUSED;
use super::refused::REFUSED_UNTIL;
use super::rewrite::{self, Context};
use super::rewrite_map::{RewriteMaps, Uses};
use super::variant::{
    Keys, Variant, combined, nested, restricts, rules as nested_rules, shuts, variants, wider,
};
use touchstone_import_base::account::Account;
use touchstone_import_base::apache::HTACCESS;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression::{self, quoted};
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// Writes the keys and routes of a host.
pub fn fill<'d>(
    host: &Host<'d>,
    whole: &'d Directive,
    uses: &Uses,
    section: &mut Section,
    account: &mut Account,
) {
    let root = host.one("DocumentRoot");
    // Without one it is written last, if the routes need it.
    if let Some(root) = root {
        account.translated(root, section);
        section.key("root", toml_string(root.argument(0)));
    }
    section.note("The directives of .htaccess files are in the routes.");
    section.key("htaccess", toml_string("ignore"));
    let (aliases, programs) = (host.all("Alias"), host.all("ScriptAlias"));
    let of_root = root.iter().map(|root| mount("/", root.argument(0)));
    let of_alias = |alias: &&Directive| mount(alias.argument(0), alias.argument(1));
    let mounts: Vec<Mount> = of_root.chain(aliases.iter().chain(&programs).map(of_alias)).collect();
    let mut scope = host.sections();
    scope.push(whole);
    let backends = backends(host, section, account);
    let reverse = Reverse::of(host, &backends, section, account);
    let php = php(host, &scope);
    site_keys(host, &scope, section, account);
    escapes(host, &backends, section);
    let mut routes = Vec::new();
    let maps = RewriteMaps::of(host.block.iter().chain(host.outside.iter().copied()), uses);
    let context = Context { directory: None, is_secure: host.is_secure, maps: &maps };
    let mut notes = Section::new("");
    let of_server = rewrite::rules(host.block, &context, account, &mut notes);
    routes.extend(of_server.routes);
    routes.extend(matched_origins(host, &context, account, &mut notes));
    routes.extend(rewrite::redirects(host.block, "/", account, &mut notes));
    let mut routes_of_areas = Vec::new();
    let setting = scope.iter().flat_map(|section| section.inside()).chain(host.outside.iter().copied());
    let environment = Environment::of(setting).with_security(host.is_secure);
    let around = Surroundings { scope: &scope, environment: &environment, is_secure: host.is_secure };
    for path in paths(&mounts, &scope, &backends) {
        let mut area = Area::new(&path, &mounts, &scope);
        area.sections.insert(0, whole);
        add_proxies(&mut area, &backends, &scope);
        let (mut missing, mut origin) = (of_server.missing.clone(), of_server.missing_origin.clone());
        let mut missing_if = of_server.missing_if.clone();
        let rules = area
            .sections
            .iter()
            .rev()
            .find(|one| is(one, "Directory") && one.inside().iter().any(|line| is(line, "RewriteRule")));
        if let Some(rules) = rules {
            let at = mounts.iter().find_map(|mount| mount.path_of(name(rules)));
            let directory = at.as_deref().or(Some("/"));
            let context = Context { directory, is_secure: host.is_secure, maps: &maps };
            // They are reported at their own place.
            let (mut again, mut elsewhere) = (Account::default(), Section::new(""));
            let is_here = at.as_deref() == Some(path.as_str());
            let (account, notes) =
                if is_here { (&mut *account, &mut notes) } else { (&mut again, &mut elsewhere) };
            let found = rewrite::rules(rules.inside(), &context, account, notes);
            if is_here {
                routes.extend(found.routes);
            }
            missing_if = found.missing_if;
            missing = found.missing.or(missing);
            origin = found.missing_origin.or(origin);
        }
        routes.extend(redirects_of(&area, &mounts, account, &mut notes));
        let alias_at =
            |list: &[&'d Directive]| list.iter().copied().find(|one| with_slash(one.argument(0)) == path);
        let answer = Answer {
            proxy: covering(&backends, &path),
            reverse: &reverse,
            programs: alias_at(&programs),
            alias: alias_at(&aliases),
            php: php.as_ref().filter(|_| area.directory.is_some()),
            missing: missing.as_ref(),
            missing_origin: origin.as_deref(),
            missing_if: &missing_if,
            is_secure: host.is_secure,
        };
        // `<Location /a>` and `ProxyPass /a` are for `/a`, too.
        let exact = path.trim_end_matches('/').to_string();
        let is_exact = is_location(&scope, &path) || backends.iter().any(|backend| backend.named == exact);
        if answer.alias.is_none() && answer.programs.is_none() && is_exact && !exact.is_empty() {
            let answer = Answer { proxy: covering(&backends, &exact), ..answer };
            let (directory, sections) = (area.directory.clone(), area.sections.clone());
            let exact = Area { path: exact, directory, sections };
            routes_of_areas.extend(area_routes(&exact, &answer, &around, account, &mut notes));
        }
        routes_of_areas.extend(area_routes(&area, &answer, &around, account, &mut notes));
    }
    section.take_notes(notes);
    let mut routes = guarded(routes, &routes_of_areas);
    restrict_origins(&mut routes, &scope, &environment, account);
    let refused = mapped::refused(host, account);
    routes.into_iter().chain(refused).chain(routes_of_areas).for_each(|route| section.push(route));
    section.complete_root();
}

/// The redirects of the sections for the directory of an area.
fn redirects_of(
    area: &Area<'_>,
    mounts: &[Mount],
    account: &mut Account,
    notes: &mut Section,
) -> Vec<Section> {
    let is_of_area = |section: &&&Directive| {
        let is_directory = section.argument(1) == HTACCESS || is(section, "Directory");
        is_directory && mounts.iter().any(|mount| mount.path_of(name(section)).as_ref() == Some(&area.path))
    };
    let sections = area.sections.iter().filter(is_of_area);
    sections.flat_map(|section| rewrite::redirects(section.inside(), &area.path, account, notes)).collect()
}

/// The routes of `ProxyPassMatch EXPRESSION URL`, which is a `RewriteRule` with the flag `P`.
fn matched_origins(
    host: &Host<'_>,
    context: &Context<'_>,
    account: &mut Account,
    notes: &mut Section,
) -> Vec<Section> {
    let mut routes = Vec::new();
    for line in host.all("ProxyPassMatch").into_iter().filter(|line| !is_of_scripts(line)) {
        let (expression, url) = (line.argument(0).to_string(), line.argument(1).to_string());
        if url == "!" {
            let advice = "these paths are passed on until you write a route for them before the others";
            account.problem(line, notes, advice);
            continue;
        }
        let made = |name: &str, arguments: Vec<String>| Directive {
            name: name.to_string(),
            arguments,
            ..line.clone()
        };
        let rules = [
            made("RewriteEngine", vec!["on".to_string()]),
            made("RewriteRule", vec![expression, url, "[P,L]".to_string()]),
        ];
        let found = rewrite::rules(&rules, context, &mut Account::default(), &mut Section::new(""));
        let Some(mut route) = found.routes.into_iter().next() else {
            let advice = "write a route with 'pattern' and 'proxy', and a 'path' for the origin";
            account.problem(line, notes, advice);
            continue;
        };
        // Of these lines the first for a path counts.
        let lines = host.block.iter().chain(host.outside.iter().copied());
        let before = lines.take_while(|other| !std::ptr::eq(*other, line));
        for other in before.filter(|other| is(other, "ProxyPass")) {
            if let Ok(begin) = quoted(&format!("^{}", expression::literal(other.argument(0)))) {
                route.and_when(&format!("not $path =~ {begin}"));
            }
        }
        account.translated(line, &mut route);
        route.notes_first();
        routes.push(route);
    }
    routes
}

/// Whether a `ProxyPassMatch` is for the scripts of PHP.
fn is_of_scripts(line: &Directive) -> bool {
    line.arguments.iter().any(|word| word.contains("fcgi://"))
}

/// Writes that escaped slashes are refused, unless `AllowEncodedSlashes` says otherwise.
fn escapes(host: &Host<'_>, backends: &[Backend<'_>], section: &mut Section) {
    let allows = |line: &&Directive| !is_word(line.argument(0), "Off");
    let is_allowed = host.one("AllowEncodedSlashes").is_some_and(|line| allows(&line));
    if !backends.is_empty() && !is_allowed {
        section.note("Apache refuses paths with %2F unless 'AllowEncodedSlashes' is set.");
        section.key("refuse_escapes", true);
    }
}

/// Adds the `<Proxy>` sections of the area's origin: those for paths count after them.
fn add_proxies<'d>(area: &mut Area<'d>, backends: &[Backend<'d>], scope: &[&'d Directive]) {
    let Some(backend) = covering(backends, &area.path) else { return };
    let at = area.sections.iter().position(|one| is(one, "Location")).unwrap_or(area.sections.len());
    area.sections.splice(at..at, proxies_of(backend, scope));
}

/// What the routes of all areas of a host share.
struct Surroundings<'a, 'd> {
    /// The sections of the host.
    scope: &'a [&'d Directive],
    environment: &'a Environment<'d>,
    is_secure: bool,
}

/// The routes of an area: those for a part of its requests are first.
fn area_routes<'d>(
    area: &Area<'d>,
    answer: &Answer<'_, 'd>,
    around: &Surroundings<'_, 'd>,
    account: &mut Account,
    notes: &mut Section,
) -> Vec<Section> {
    let mut routes = Vec::new();
    let unhandled = handlers::without_scripts(area, answer.php);
    let found = variants(area, around.scope, around.is_secure);
    routes.extend(refused_scripts(area, answer.php, unhandled, &found));
    let mut is_needed = |variant: &Variant<'d>| {
        let (is_needed, shut) = examined(variant, area, answer, notes, account);
        routes.extend(shut);
        is_needed
    };
    let found: Vec<Variant<'d>> = found.into_iter().filter(&mut is_needed).collect();
    let mut scripts = answer::root_of_alias(answer);
    if answer.alias.is_some_and(|alias| answer.php.is_some() && !alias.argument(0).ends_with('/')) {
        let mut route = Section::new("[[site.route]]");
        route.key("path", toml_string(area.path.trim_end_matches('/')));
        route.key("redirect", format!("{{ to = {}, status = 301 }}", toml_string(&area.path)));
        routes.push(route);
    }
    for (sections, keys) in combined(&found) {
        // Sections that refuse clients are before the scripts, all others after them.
        if !sections.iter().all(|section| restricts(section)) {
            let root = scripts.take();
            routes.extend(root.map(|root| script_route(area, root, answer, around, account)));
        }
        let all = area.sections.iter().copied().chain(sections.iter().copied()).collect();
        let narrow = Area { path: area.path.clone(), directory: area.directory.clone(), sections: all };
        routes.extend(refusals(&narrow, &keys, around.environment, account));
        let mut route = Section::new("[[site.route]]");
        sections.iter().for_each(|section| account.translated(section, &mut route));
        keys.write(&area.path, &mut route);
        answer::write(&narrow, answer, around.environment, &mut route, account);
        for section in sections {
            others(section.inside(), &mut route, account);
            if nested(section, &mut route, account) {
                routes.push(refused_until(section, &keys, &area.path));
            }
        }
        routes.push(route);
    }
    let keys = Keys::default();
    routes.extend(scripts.map(|root| script_route(area, root, answer, around, account)));
    routes.extend(refusals(area, &keys, around.environment, account));
    for (seconds, (suffixes, lines)) in answer::by_type(area, answer, notes, account) {
        let mut route = Section::new("[[site.route]]");
        lines.iter().for_each(|line| account.translated(line, &mut route));
        keys.write(&area.path, &mut route);
        route.key("suffixes", toml_strings(suffixes));
        answer::write(area, answer, around.environment, &mut route, account);
        if !route.has("respond") {
            route.key("cache_control", toml_string(&format!("max-age={seconds}")));
        }
        routes.push(route);
    }
    for (conditions, missing) in answer.missing_if {
        let mut route = conditions.clone();
        route.key("path", toml_string(&area.path));
        let found = Answer { missing: Some(missing), missing_if: &[], ..*answer };
        answer::write(area, &found, around.environment, &mut route, account);
        routes.push(route);
    }
    let mut route = Section::new("[[site.route]]");
    for section in area.sections.iter().filter(|one| is(one, "Directory") || is(one, "Location")) {
        route.note(section.to_string());
        others(section.inside(), &mut route, account);
        if is(section, "Location") && nested_rules(section, &mut route, account) {
            routes.push(refused_until(section, &keys, &area.path));
        }
    }
    keys.write(&area.path, &mut route);
    answer::write(area, answer, around.environment, &mut route, account);
    routes.push(route);
    if unhandled.is_some() {
        routes.iter_mut().for_each(|route| handlers::without_index_scripts(area, route));
    }
    routes
}

/// Reports what is not translated of a variant. Returns whether it has routes, and the route that takes the
/// place of a refusal.
fn examined(
    variant: &Variant<'_>,
    area: &Area<'_>,
    answer: &Answer<'_, '_>,
    notes: &mut Section,
    account: &mut Account,
) -> (bool, Option<Section>) {
    let mut shut = None;
    let hides = is_of_hidden_names(variant.section);
    if hides {
        account.unneeded(variant.section, notes, "names that begin with a dot are not served");
    }
    if variant.keys.is_ok() && !hides && wider(variant.section, area).is_some() {
        let advice = "it refuses all names that match without the groups '(?...': write them apart";
        account.problem(variant.section, notes, advice);
    }
    if let (Err(advice), false) = (&variant.keys, hides) {
        let is_shut = shuts(variant.section);
        let warning = if is_shut { REFUSED_UNTIL } else { "" };
        account.problem(variant.section, notes, &format!("{warning}{advice}"));
        shut = is_shut.then(|| refused_until(variant.section, &Keys::default(), &area.path));
    }
    let is_of_php = is_php_handler(variant.section);
    if is_of_php && answer.php.is_some() && handlers::is_of_other_names(variant.section) {
        let advice = "these names are not known to be scripts: write 'scripts' of 'php' (docs/php.md); until \
                      then they are sent as files";
        account.problem(variant.section, notes, advice);
    }
    (!hides && !is_of_php, shut)
}

/// The route that refuses requests because a line for them was not translated.
fn refused_until(line: &Directive, keys: &Keys, path: &str) -> Section {
    let mut route = Section::new("[[site.route]]");
    route.note(line.to_string());
    route.note("This line was not translated: all of these requests are refused until you write what it");
    route.note("refuses, and remove this route.");
    keys.write(path, &mut route);
    route.key("respond", "{ status = 403 }");
    route
}

/// The routes that refuse the scripts which are not run in an area, or in a part of it.
fn refused_scripts(
    area: &Area<'_>,
    php: Option<&Php<'_>>,
    unhandled: Option<&Directive>,
    found: &[Variant<'_>],
) -> Vec<Section> {
    let Some(php) = php else { return Vec::new() };
    let whole = unhandled.map(|line| handlers::refused_scripts(area, line, php));
    let of_part = |variant: &Variant<'_>| {
        let line = handlers::line_without_scripts(variant.section, Some(php))?;
        let keys = variant.keys.as_ref().ok()?;
        Some(handlers::refused_scripts_of(keys, area, line, php))
    };
    whole.into_iter().chain(found.iter().filter_map(of_part)).collect()
}

/// The route of the scripts below an alias: PHP finds them under the same path below another directory.
fn script_route<'d>(
    area: &Area<'d>,
    root: &str,
    answer: &Answer<'_, 'd>,
    around: &Surroundings<'_, 'd>,
    account: &mut Account,
) -> Section {
    let mut route = Section::new("[[site.route]]");
    let endings = answer.php.map_or(&[][..], |php| php.endings.as_slice());
    let endings: Vec<String> = endings.iter().map(|ending| expression::literal(ending)).collect();
    let pattern = Some(format!("(?s:.*)(?:(?:{})(?:/(?s:.*))?|/)", endings.join("|")));
    Keys { pattern, ..Keys::default() }.write(&area.path, &mut route);
    let found = Answer { alias: None, ..*answer };
    answer::write(area, &found, around.environment, &mut route, account);
    route.key("root", toml_string(root));
    route
}

/// The routes that refuse requests because of variables of the environment.
fn refusals(
    area: &Area<'_>,
    keys: &Keys,
    environment: &Environment<'_>,
    account: &mut Account,
) -> Vec<Section> {
    let mut routes = Vec::new();
    for (condition, lines) in access::refusals(area, environment) {
        let mut route = Section::new("[[site.route]]");
        lines.iter().for_each(|line| account.translated(line, &mut route));
        let when = match &keys.when {
            Some(own) => format!("({own}) and ({condition})"),
            None => condition,
        };
        Keys { when: Some(when), ..keys.clone() }.write(&area.path, &mut route);
        route.key("respond", "{ status = 403 }");
        routes.push(route);
    }
    routes
}

/// Whether a `<Location>` names this path, without a slash at its end.
fn is_location(scope: &[&Directive], path: &str) -> bool {
    let named = path.trim_end_matches('/');
    !named.is_empty() && scope.iter().any(|section| is(section, "Location") && name(section) == named)
}

/// The paths of areas, the longest first.
fn paths(mounts: &[Mount], scope: &[&Directive], backends: &[Backend<'_>]) -> Vec<String> {
    let mut paths: BTreeSet<String> = mounts.iter().map(|mount| mount.path.clone()).collect();
    paths.insert("/".to_string());
    paths.extend(backends.iter().map(|backend| backend.path.clone()));
    for section in scope {
        if is(section, "Directory") && !name(section).contains('*') {
            paths.extend(mounts.iter().filter_map(|mount| mount.path_of(name(section))));
        }
        if is(section, "Location") && name(section).starts_with('/') && !name(section).contains('*') {
            paths.insert(with_slash(name(section)));
        }
    }
    let mut paths: Vec<String> = paths.into_iter().collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.len()));
    paths
}

fn mount(path: &str, directory: &str) -> Mount {
    Mount { path: with_slash(path), directory: directory.trim_end_matches('/').to_string() }
}

/// Finds what runs PHP: a handler for php-fpm, or Apache's module.
fn php<'d>(host: &Host<'d>, scope: &[&'d Directive]) -> Option<Php<'d>> {
    fn search<'d>(block: &'d [Directive], found: &mut Option<Php<'d>>) {
        for line in block {
            if is(line, "SetHandler") && line.argument(0).starts_with("proxy:") {
                *found = Some(Php { backend: fpm(line.argument(0)), line: Some(line), endings: Vec::new() });
            } else if is(line, "ProxyPassMatch") && line.argument(0).contains("php") {
                *found = Some(Php { backend: fpm(line.argument(1)), line: Some(line), endings: Vec::new() });
            }
            search(line.inside(), found);
        }
    }
    let mut found = None;
    search(host.block, &mut found);
    for section in scope {
        search(section.inside(), &mut found);
    }
    let blocks = host.block.iter().chain(scope.iter().copied()).chain(host.outside.iter().copied());
    let endings = handlers::endings(blocks);
    if let Some(found) = found {
        return Some(Php { endings, ..found });
    }
    fn asks(block: &[Directive]) -> bool {
        block.iter().any(|line| {
            let names_script = ["DirectoryIndex", "FallbackResource", "RewriteRule"]
                .iter()
                .any(|name| is(line, name) && line.arguments.iter().any(|word| word.contains(".php")));
            let is_setting = line.name.to_ascii_lowercase().starts_with("php_");
            names_script || is_setting || asks(line.inside())
        })
    }
    (asks(host.block) || scope.iter().any(|section| asks(section.inside()))).then_some(Php {
        backend: None,
        line: None,
        endings,
    })
}

/// `proxy:unix:/run/php-fpm.sock|fcgi://localhost`, `proxy:fcgi://127.0.0.1:9000`
fn fpm(text: &str) -> Option<String> {
    let text = text.strip_prefix("proxy:").unwrap_or(text);
    if let Some(socket) = text.strip_prefix("unix:") {
        return Some(format!("unix:{}", socket.split('|').next()?));
    }
    let address = text.strip_prefix("fcgi://")?.split('/').next()?;
    Some(address.replace("localhost:", "127.0.0.1:"))
}

fn is_php_handler(section: &Directive) -> bool {
    !section.inside().is_empty()
        && section.inside().iter().all(|line| is(line, "SetHandler") || is(line, "ForceType"))
}

/// Writes error pages, media types and character sets.
fn site_keys(host: &Host<'_>, scope: &[&Directive], section: &mut Section, account: &mut Account) {
    let root = host.one("DocumentRoot").map_or("", |root| root.argument(0).trim_end_matches('/'));
    let (mut of_root, mut elsewhere) = (Vec::new(), Vec::new());
    for area in scope.iter().filter(|one| !is(one, "VirtualHost")) {
        let is_root = is(area, "Directory") && name(area).trim_end_matches('/') == root;
        lines_of_site(area.inside(), if is_root { &mut of_root } else { &mut elsewhere });
    }
    for line in elsewhere {
        account.problem(line, section, "it counts for the whole site here: write it as a key of the site");
    }
    let all = |name: &str| {
        host.all(name)
            .into_iter()
            .chain(of_root.iter().copied().filter(|line| is(line, name)))
            .collect::<Vec<_>>()
    };
    for page in all("ErrorDocument") {
        match page.argument(1) {
            path if path.starts_with('/') && !path.contains(".php") => {
                account.translated(page, section);
                section.entry("error_pages", page.argument(0), toml_string(path));
            }
            _ => account.problem(page, section, "an error page must be a file of the site"),
        }
    }
    for line in all("AddType") {
        account.translated(line, section);
        for ending in line.arguments.get(1..).unwrap_or_default() {
            section.entry("mime_types", ending.trim_start_matches('.'), toml_string(line.argument(0)));
        }
    }
    if let Some(charset) = all("AddDefaultCharset").pop().filter(|one| !is_word(one.argument(0), "off")) {
        account.translated(charset, section);
        let charset = if is_word(charset.argument(0), "on") { "iso-8859-1" } else { charset.argument(0) };
        section.key("charset", toml_string(&charset.to_ascii_lowercase()));
    }
    others(host.block, section, account);
}

/// The directives of a section, and of the parts of it, that are keys of a site.
fn lines_of_site<'d>(block: &'d [Directive], found: &mut Vec<&'d Directive>) {
    for line in block {
        match ["ErrorDocument", "AddType", "AddDefaultCharset"].iter().any(|name| is(line, name)) {
            true => found.push(line),
            false => lines_of_site(line.inside(), found),
        }
    }
}

fn is_word(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}

/// Directives that other functions handle.
const KNOWN: &[&str] = &[
    "documentroot",
    "alias",
    "scriptalias",
    "proxypass",
    "proxypassreverse",
    "proxypassreversecookiepath",
    "proxypassreversecookiedomain",
    "errordocument",
    "addtype",
    "adddefaultcharset",
    "servername",
    "serveralias",
    "serveradmin",
    "sslengine",
    "sslcertificatefile",
    "sslcertificatekeyfile",
    "sslcertificatechainfile",
    "sslprotocol",
    "sslrequiressl",
    "sslrequire",
    "sslverifyclient",
    "sslcacertificatefile",
    "sslcacertificatepath",
    "sslcarevocationfile",
    "sslcarevocationpath",
    "sslocspenable",
    "authmerging",
    "require",
    "requireall",
    "requireany",
    "requirenone",
    "order",
    "satisfy",
    "allow",
    "deny",
    "authtype",
    "authname",
    "authuserfile",
    "header",
    "requestheader",
    "expiresactive",
    "expiresdefault",
    "expiresbytype",
    "dav",
    "if",
    "elseif",
    "else",
    "limit",
    "limitexcept",
    "locationmatch",
    "directorymatch",
    // Their values are not repeated in comments.
    "oidcclientsecret",
    "oidccryptopassphrase",
    "directoryindex",
    "options",
    "fallbackresource",
    "rewriteengine",
    "rewritebase",
    "rewritecond",
    "rewriterule",
    "rewriteoptions",
    "rewritemap",
    "redirect",
    "redirectmatch",
    "redirectpermanent",
    "redirecttemp",
    "proxypreservehost",
    "proxytimeout",
    "files",
    "filesmatch",
    "directory",
    "location",
    "proxy",
    "sethandler",
    "customlog",
    "errorlog",
    "include",
    "virtualhost",
    REFUSED,
];

/// Directives that need no counterpart, with the reason.
const UNNEEDED: &[(&str, &[&str])] = &[
    (
        "the server does this by itself",
        &[
            "serveradmin",
            "serversignature",
            "servertokens",
            "usecanonicalname",
            "hostnamelookups",
            "loadmodule",
            "mutex",
            "pidfile",
            "defaultruntimedir",
            "startservers",
            "minsparethreads",
            "maxsparethreads",
            "threadlimit",
            "threadsperchild",
            "maxrequestworkers",
            "maxconnectionsperchild",
            "serverroot",
            "enablesendfile",
            "enablemmap",
            "fileetag",
            "traceenable",
            "loglevel",
            "accessfilename",
            "serverlimit",
            "maxkeepaliverequests",
            "protocols",
            "typesconfig",
            "mimemagicfile",
            "directoryslash",
            "acceptpathinfo",
            "limitinternalrecursion",
            "allowencodedslashes",
            "h2push",
        ],
    ),
    ("the files and directives that it allows are translated", &["allowoverride", "allowoverridelist"]),
    ("no paths belong to users", &["userdir"]),
    ("locks are kept in 'state' of 'webdav'", &["davlockdb"]),
    ("it counts where 'Dav' is on", &["davdepthinfinity"]),
    ("it is written where its variable is asked for", &["setenvif", "setenvifnocase"]),
    (
        "it is written with each login",
        &[
            "oidcprovidermetadataurl",
            "oidcclientid",
            "oidcredirecturi",
            "oidcscope",
            "oidcremoteuserclaim",
            "oidcsessioninactivitytimeout",
            "oidcsessionmaxduration",
        ],
    ),
    (
        "forward proxying is off, and 'Via' is set by 'forward'",
        &["proxyrequests", "proxyvia", "proxyaddheaders"],
    ),
    (
        "files and answers are compressed unless 'compression' says otherwise",
        &[
            "addoutputfilterbytype",
            "deflatecompressionlevel",
            "deflatefilternote",
            "brotlicompressionquality",
        ],
    ),
    (
        "the TLS suites are safe, and ticket keys rotate automatically",
        &[
            "sslciphersuite",
            "sslhonorcipherorder",
            "sslsessiontickets",
            "sslsessioncache",
            "sslcompression",
            "sslopensslconfcmd",
            "sslrandomseed",
            "sslsessioncachetimeout",
            "ssloptions",
            "sslpassphrasedialog",
            "browsermatch",
        ],
    ),
    (
        "media types and languages follow from file suffixes",
        &[
            "addlanguage",
            "addcharset",
            "languagepriority",
            "forcelanguagepriority",
            "addicon",
            "addiconbytype",
            "addiconbyencoding",
            "defaulticon",
            "readmename",
            "headername",
            "indexignore",
            "indexoptions",
            "addencoding",
        ],
    ),
];

/// Reports the directives that no other function handles.
pub fn others(block: &[Directive], section: &mut Section, account: &mut Account) {
    for line in block {
        let name = line.name.to_ascii_lowercase();
        if KNOWN.contains(&name.as_str()) || mapped::is_known(line) {
            continue;
        }
        if name == "proxypassmatch" && (is_of_scripts(line) || line.arguments.len() > 1) {
            // It has its own routes.
            continue;
        }
        if let Some((why, _)) = UNNEEDED.iter().find(|(_, names)| names.contains(&name.as_str())) {
            account.unneeded(line, section, why);
            continue;
        }
        let advice = match name.as_str() {
            "php_value" | "php_flag" | "php_admin_value" | "php_admin_flag" => {
                "see 'settings' of 'php', or the settings of the php-fpm (docs/php.md)"
            }
            "setenv" | "passenv" => "programs get 'variables' of their route (docs/fastcgi.md)",
            "davmintimeout" => "see 'lock_timeout' of 'webdav' (docs/webdav.md)",
            name if name.starts_with("oidc") => "see 'login' of a route (docs/login.md)",
            "proxypassmatch" => "write a route with 'pattern' and 'proxy'",
            "sslverifydepth" => "chains of certificates may be longer here",
            "sslusestapling" | "sslstaplingcache" => "OCSP responses are not stapled",
            "authbasicprovider" | "authgroupfile" => "see 'basic_authentication' (docs/access.md)",
            "limitrequestbody" => "see 'body_bytes' of [limits]",
            "addhandler" | "action" | "addoutputfilter" | "setoutputfilter" | "xbithack" => {
                "see 'cgi' and 'includes' of a route (docs/cgi.md, docs/includes.md)"
            }
            "cacheenable" | "cacheroot" | "cachedefaultexpire" => "see 'cache' of a route (docs/cache.md)",
            "wsgiscriptalias" | "wsgidaemonprocess" | "wsgiprocessgroup" => {
                "see 'python' of a route (docs/python.md)"
            }
            _ => "it has no counterpart, or this command does not know it",
        };
        account.problem(line, section, advice);
    }
}
