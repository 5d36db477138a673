//! Parts of an area whose requests have other settings: `<Files>`, `<LocationMatch>`, `<If>`, `<Limit>` and
//! types of `ExpiresByType`. Each becomes a route before that of the area.

use super::area::{Area, is, name};
use super::condition::condition;
use super::refused::{REFUSED_UNTIL, is_refusal};
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression::{self, quoted};
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// A part of an area, and the section with its settings.
#[derive(Clone)]
pub struct Variant<'d> {
    /// The section.
    pub section: &'d Directive,
    /// Which requests belong to it; the error states why a route cannot express that.
    pub keys: Result<Keys, String>,
}

/// So many sections are combined with each other.
const MOST_COMBINED: usize = 4;

/// What several sections make together: a request to which all of them apply has the settings of all.
///
/// Those that refuse clients are first and alone. If there are more than four others, each is alone.
pub fn combined<'d>(variants: &[Variant<'d>]) -> Vec<(Vec<&'d Directive>, Keys)> {
    let usable = |variant: &&Variant<'d>| variant.keys.is_ok();
    let (refusing, others): (Vec<_>, Vec<_>) =
        variants.iter().filter(usable).partition(|variant| restricts(variant.section));
    let single = |variant: &&Variant<'d>| (vec![variant.section], variant.keys.clone().unwrap_or_default());
    let mut found: Vec<(Vec<&'d Directive>, Keys)> = refusing.iter().map(single).collect();
    if others.len() <= MOST_COMBINED {
        let mut subsets: Vec<u32> = (1..1u32 << others.len()).filter(|bits| bits.count_ones() > 1).collect();
        subsets.sort_by_key(|bits| std::cmp::Reverse(bits.count_ones()));
        for bits in subsets {
            let chosen: Vec<&Variant<'d>> = others
                .iter()
                .enumerate()
                .filter(|(at, _)| bits >> at & 1 == 1)
                .map(|(_, one)| *one)
                .collect();
            let exclude_each_other = |names: &[&str]| {
                chosen.iter().filter(|one| names.iter().any(|name| is(one.section, name))).count() > 1
            };
            if exclude_each_other(&["If", "ElseIf", "Else"]) || exclude_each_other(&["Limit", "LimitExcept"])
            {
                continue;
            }
            let conditions: Option<Vec<String>> =
                chosen.iter().map(|one| one.keys.as_ref().ok().and_then(Keys::condition)).collect();
            if let Some(conditions) = conditions {
                let keys = Keys { when: Some(conditions.join(" and ")), ..Keys::default() };
                found.push((chosen.iter().map(|one| one.section).collect(), keys));
            }
        }
    }
    found.extend(others.iter().map(single));
    found
}

/// The conditions of a route beside its path.
#[derive(Default, Clone)]
pub struct Keys {
    /// The whole path, in place of that of the area.
    pub path_pattern: Option<String>,
    /// An expression beside the path of the area.
    pub pattern: Option<String>,
    /// A condition.
    pub when: Option<String>,
    /// Methods.
    pub methods: Vec<String>,
}

impl Keys {
    /// All of them as one condition; `None`: it cannot be written as one.
    fn condition(&self) -> Option<String> {
        let mut all = Vec::new();
        for pattern in [&self.path_pattern, &self.pattern].into_iter().flatten() {
            all.push(format!("$path =~ {}", quoted(&format!("^(?:{pattern})$")).ok()?));
        }
        all.extend(self.when.as_ref().map(|when| format!("({when})")));
        if !self.methods.is_empty() {
            let methods: Vec<String> = self.methods.iter().map(|one| format!("'{one}'")).collect();
            all.push(format!("$method in [{}]", methods.join(", ")));
        }
        Some(all.join(" and "))
    }

    /// Writes them, with the path of the area.
    pub fn write(&self, path: &str, route: &mut Section) {
        match &self.path_pattern {
            Some(pattern) => route.key("pattern", toml_string(pattern)),
            None => route.key("path", toml_string(path)),
        }
        if let Some(pattern) = &self.pattern {
            route.key("pattern", toml_string(pattern));
        }
        if let Some(when) = &self.when {
            route.key("when", toml_string(when));
        }
        if !self.methods.is_empty() {
            route.key("methods", toml_strings(&self.methods));
        }
    }
}

/// The variants of an area, in the order in which Apache merges them: later ones count before earlier ones.
pub fn variants<'d>(area: &Area<'d>, scope: &[&'d Directive], is_secure: bool) -> Vec<Variant<'d>> {
    let (mut found, mut of_conditions) = (Vec::new(), Vec::new());
    let mut of_paths = Vec::new();
    for section in scope.iter().copied().filter(|section| is_of_expression(section)) {
        let keys = whole_path(section, area);
        if keys.as_ref().map_or(true, |(begin, _)| may_overlap(begin, &area.path)) {
            let keys = keys.map(|(_, pattern)| Keys { pattern: Some(pattern), ..Keys::default() });
            of_paths.push(Variant { section, keys });
        }
    }
    for section in scope.iter().copied().filter(|section| is_of_wildcards(section)) {
        if let Some(pattern) = below_wildcards(name(section), area) {
            let keys = Ok(Keys { pattern: Some(pattern), ..Keys::default() });
            of_paths.push(Variant { section, keys });
        }
    }
    of_paths.extend(scope.iter().copied().filter_map(|section| of_path_wildcards(section, area)));
    for parent in &area.sections {
        let mut before: Vec<Result<String, String>> = Vec::new();
        for section in parent.inside() {
            if is_of_names(section) && !area.path.ends_with('/') {
                // The area is one path, whose settings are those of its section.
                continue;
            }
            if is_of_names(section) {
                // An expression that leaves out `.well-known` is written without that group.
                let leaves_out = section.arguments.iter().any(|word| word.contains("(?!well-known"));
                let when = leaves_out.then(|| "not $path =~ '^/[.]well-known/'".to_string());
                let pattern =
                    file_pattern(section, area).or_else(|advice| wider(section, area).ok_or(advice));
                let keys =
                    pattern.map(|pattern| Keys { path_pattern: Some(pattern), when, ..Keys::default() });
                found.push(Variant { section, keys });
            } else if ["If", "ElseIf", "Else"].iter().any(|name| is(section, name)) {
                if is(section, "If") {
                    before.clear();
                }
                let when = branch(section, &before, is_secure);
                before.push(condition(&section.arguments.join(" "), is_secure));
                let keys = when.map(|when| Keys { when: Some(when), ..Keys::default() });
                of_conditions.push(Variant { section, keys });
            } else if is(section, "Limit") || is(section, "LimitExcept") {
                found.push(Variant { section, keys: methods(section) });
            }
        }
    }
    found.into_iter().chain(of_paths).chain(of_conditions).collect()
}

/// Whether a section is one of those that [`variants`] finds.
pub fn is_variant(section: &Directive) -> bool {
    const NAMES: [&str; 7] = ["Files", "FilesMatch", "If", "ElseIf", "Else", "Limit", "LimitExcept"];
    NAMES.iter().any(|name| is(section, name))
}

/// Reports the sections in the section of a variant, and its rules; returns whether one of them may refuse
/// requests.
pub fn nested(section: &Directive, route: &mut Section, account: &mut Account) -> bool {
    let mut refuses = false;
    for inner in section.inside().iter().filter(|inner| is_variant(inner)) {
        let is_shut = shuts(inner);
        let warning = if is_shut { REFUSED_UNTIL } else { "" };
        account.problem(
            inner,
            route,
            &format!("{warning}write a route with the conditions of both sections"),
        );
        refuses |= is_shut;
    }
    rules(section, route, account) || refuses
}

/// Reports rules that count for the paths of a section only; returns whether one of them refuses requests.
pub fn rules(section: &Directive, route: &mut Section, account: &mut Account) -> bool {
    const RULES: [&str; 3] = ["RewriteRule", "RewriteCond", "RedirectMatch"];
    let mut refuses = false;
    for inner in section.inside().iter().filter(|inner| RULES.iter().any(|name| is(inner, name))) {
        let is_shut = is_refusal(inner);
        let warning = if is_shut { REFUSED_UNTIL } else { "" };
        account.problem(
            inner,
            route,
            &format!("{warning}write a route with 'redirect' or 'rewrite' for the paths of this section"),
        );
        refuses |= is_shut;
    }
    refuses
}

/// Whether a section refuses requests that would be answered without it.
pub fn shuts(section: &Directive) -> bool {
    let admits = |line: &Directive| match line.name.to_ascii_lowercase().as_str() {
        "require" => line.argument(1).eq_ignore_ascii_case("granted"),
        "allow" => line.argument(1).eq_ignore_ascii_case("all"),
        "satisfy" => line.argument(0).eq_ignore_ascii_case("any"),
        "order" => true,
        _ => !restricts(&Directive { block: Some(vec![line.clone()]), ..section.clone() }),
    };
    restricts(section) && !section.inside().iter().all(admits)
}

/// Whether a `<Files>` or `<FilesMatch>` is for PHP scripts of any name.
pub fn names_script(section: &Directive) -> bool {
    is_for(section, "a.php")
}

/// Whether a section is `<Files>` or `<FilesMatch>`.
pub fn is_of_names(section: &Directive) -> bool {
    is(section, "Files") || is(section, "FilesMatch")
}

/// Whether a `<Files>` or `<FilesMatch>` is for files with this name.
pub fn is_for(section: &Directive, file: &str) -> bool {
    name_pattern(section).is_ok_and(|name| expression::matches(&name, file))
}

/// Whether a section states which clients are allowed.
pub fn restricts(section: &Directive) -> bool {
    const NAMES: [&str; 9] = [
        "require",
        "requireall",
        "requireany",
        "requirenone",
        "order",
        "allow",
        "deny",
        "satisfy",
        "authtype",
    ];
    let is_refusal = |line: &Directive| is(line, "Redirect") && line.argument(0).starts_with('4');
    section.inside().iter().any(|line| NAMES.iter().any(|name| is(line, name)) || is_refusal(line))
}

/// `<LocationMatch EXPRESSION>`, `<Location ~ EXPRESSION>` or `<DirectoryMatch EXPRESSION>`
fn is_of_expression(section: &Directive) -> bool {
    is(section, "LocationMatch")
        || is(section, "DirectoryMatch")
        || ((is(section, "Location") || is(section, "Directory")) && name(section) == "~")
}

/// `<Directory /srv/*/cache>`
fn is_of_wildcards(section: &Directive) -> bool {
    is(section, "Directory") && section.arguments.len() == 1 && name(section).contains(['*', '?'])
}

/// `<Location /a*b>`: the paths of an area with such names, and those below them.
fn of_path_wildcards<'d>(section: &'d Directive, area: &Area<'_>) -> Option<Variant<'d>> {
    let named = name(section);
    let is_one = is(section, "Location") && section.arguments.len() == 1 && named.starts_with('/');
    let begin = named.split(['*', '?', '[']).next().unwrap_or_default();
    if !is_one || begin == named || !may_overlap(begin, &area.path) {
        return None;
    }
    let keys = match named.contains('[') {
        true => Err("write these paths as 'pattern' of a route".to_string()),
        false => {
            let pattern = format!("{}(?:/(?s:.*))?", expression::of_wildcards(named.trim_end_matches('/')));
            Ok(Keys { pattern: Some(pattern), ..Keys::default() })
        }
    };
    Some(Variant { section, keys })
}

/// The expression for the paths of an area that are in a directory with wildcards in its name; `None`: none
/// is.
fn below_wildcards(named: &str, area: &Area<'_>) -> Option<String> {
    let directory = area.directory.as_deref()?;
    let mut wanted = named.trim_end_matches('/').split('/');
    for own in directory.split('/') {
        match wanted.next() {
            Some(wanted) if expression::matches(&expression::of_wildcards(wanted), own) => {}
            Some(_) => return None,
            // The area is within such a directory.
            None => return Some("(?s:.*)".to_string()),
        }
    }
    let rest: Vec<String> = wanted.map(expression::of_wildcards).collect();
    match rest.is_empty() {
        true => Some("(?s:.*)".to_string()),
        false => Some(format!("{}{}(?:/(?s:.*))?", expression::literal(&area.path), rest.join("/"))),
    }
}

/// The literal text that each path of the section begins with, and its expression for whole paths.
fn whole_path(section: &Directive, area: &Area<'_>) -> Result<(String, String), String> {
    let named = section.arguments.last().map_or("", String::as_str);
    let is_of_directories = is(section, "DirectoryMatch") || is(section, "Directory");
    let of_path;
    let named = match is_of_directories && (named.starts_with('^') || named.ends_with('$')) {
        true => {
            of_path = below_directory(named, area)
                .ok_or("write the paths of these directories as 'pattern' of a route")?;
            of_path.as_str()
        }
        false => named,
    };
    let begin: String = match named.strip_prefix('^') {
        Some(rest) if !named.contains('|') => {
            let end =
                rest.find(|c: char| !c.is_ascii_alphanumeric() && !"/_-".contains(c)).unwrap_or(rest.len());
            // What follows may make the last character optional.
            let optional = rest[end..].starts_with(['?', '*', '{']);
            rest[..end.saturating_sub(usize::from(optional))].to_string()
        }
        _ => String::new(),
    };
    let whole = expression::whole_path(named, false)?;
    // An expression may match the directory of the area itself, or one above the root.
    let is_of_area = |directory: &str| expression::matches(&whole, &format!("{directory}/"));
    match is_of_directories && area.directory.as_deref().is_some_and(is_of_area) {
        true => Ok((String::new(), "(?s:.*)".to_string())),
        false => Ok((begin, whole)),
    }
}

/// The expression for paths of one for directories that begins with that of the area, or one around it;
/// `None`: it has another form.
fn below_directory(named: &str, area: &Area<'_>) -> Option<String> {
    let mut directory = area.directory.as_deref()?.trim_end_matches('/');
    let mut path = area.path.trim_end_matches('/');
    // Where both have the same end, the directories around have the paths around.
    while let (Some((outer, name)), Some((around, part))) =
        (directory.rsplit_once('/'), path.rsplit_once('/'))
        && name == part
    {
        (directory, path) = (outer, around);
    }
    if named.ends_with('$') || expression::alternatives(named).len() > 1 {
        return None;
    }
    let text = named.strip_prefix('^')?;
    let rest = text.strip_prefix(directory).or(text.strip_prefix(&expression::literal(directory)))?;
    let is_whole = rest.is_empty() || rest.starts_with(['/', '(', '[']);
    is_whole.then(|| format!("^{}{rest}", expression::literal(path)))
}

/// Whether paths with this beginning may be in an area.
fn may_overlap(begin: &str, area: &str) -> bool {
    begin.starts_with(area) || area.starts_with(begin)
}

/// The condition of `<If>`, `<ElseIf>` or `<Else>`, which the conditions before it exclude.
fn branch(section: &Directive, before: &[Result<String, String>], is_secure: bool) -> Result<String, String> {
    let mut all = Vec::new();
    if !is(section, "If") {
        if before.is_empty() {
            return Err("there is no <If> before it".to_string());
        }
        for one in before {
            all.push(format!("not ({})", one.as_ref().map_err(Clone::clone)?));
        }
    }
    if !is(section, "Else") {
        let own = condition(&section.arguments.join(" "), is_secure)?;
        all.push(if all.is_empty() { own } else { format!("({own})") });
    }
    Ok(all.join(" and "))
}

/// `<Limit METHODS>` and `<LimitExcept METHODS>`; GET includes HEAD.
fn methods(section: &Directive) -> Result<Keys, String> {
    let mut methods: Vec<String> = section.arguments.clone();
    if methods.is_empty() || methods.iter().any(|one| !one.bytes().all(|byte| byte.is_ascii_uppercase())) {
        return Err("it lists no methods".to_string());
    }
    if is(section, "Limit") {
        return Ok(Keys { methods, ..Keys::default() });
    }
    if methods.iter().any(|one| one == "GET") && !methods.iter().any(|one| one == "HEAD") {
        methods.push("HEAD".to_string());
    }
    let list: Vec<String> = methods.iter().map(|one| format!("'{one}'")).collect();
    Ok(Keys { when: Some(format!("not ($method in [{}])", list.join(", "))), ..Keys::default() })
}

/// An expression for the paths of an area whose last part matches the section's name.
fn file_pattern(section: &Directive, area: &Area<'_>) -> Result<String, String> {
    if let Some(pattern) = with_anchors(section, area)? {
        return Ok(pattern);
    }
    let begin = format!("{}(?:[^/]*/)*", expression::literal(&area.path));
    let name = name_pattern(section)?;
    if !restricts(section) {
        return Ok(format!("{begin}{name}"));
    }
    // What may not be read may not be run with a path behind its name, nor as the index of its directory.
    let behind = "(?:/(?s:.*))?";
    let index = area.one("DirectoryIndex");
    let is_index =
        |name: &str| index.map_or(name == "index.php", |index| index.arguments.iter().any(|one| one == name));
    let mut scripts =
        index.iter().flat_map(|index| index.arguments.iter().map(String::as_str)).chain(["index.php"]);
    // A directory all of whose index files are refused has none.
    let names = index.map_or(&[][..], |index| index.arguments.as_slice());
    let is_each = match names {
        [] => expression::matches(&name, "index.html"),
        names => names.iter().all(|one| expression::matches(&name, one)),
    };
    let of_script = scripts
        .any(|script| script.ends_with(".php") && is_index(script) && expression::matches(&name, script));
    let lists = area.every("Options").iter().any(|options| {
        options
            .arguments
            .iter()
            .any(|word| ["indexes", "+indexes"].contains(&word.to_ascii_lowercase().as_str()))
    });
    match (is_each || of_script && !lists) && !grants(section) {
        true => Ok(format!("{begin}(?:{name}{behind})?")),
        false => Ok(format!("{begin}{name}{behind}")),
    }
}

/// The pattern of a section that refuses clients, without the groups of its expression that this server does
/// not support: it refuses more names. `None`: the section has no such groups, or admits clients.
pub fn wider(section: &Directive, area: &Area<'_>) -> Option<String> {
    if !restricts(section) || grants(section) || name_pattern(section).is_ok() {
        return None;
    }
    let arguments = section.arguments.iter().map(|word| expression::without_looks(word)).collect();
    file_pattern(&Directive { arguments, ..section.clone() }, area).ok()
}

/// The pattern for a `<FilesMatch>` whose expression has anchors behind its beginning or before its end, as
/// in `(^\.|\.php$)`: they become the slash before the name, and what may be behind it.
fn with_anchors(section: &Directive, area: &Area<'_>) -> Result<Option<String>, String> {
    let named = section.arguments.last().map_or("", String::as_str);
    let is_of_expression = is(section, "FilesMatch") || section.arguments.len() > 1;
    let parts = expression::alternatives(named);
    let has_inner = |part: &&str| {
        let inner = part.strip_prefix('^').unwrap_or(part);
        expression::has_anchor(inner.strip_suffix('$').unwrap_or(inner))
    };
    if !is_of_expression || !parts.iter().any(has_inner) {
        return Ok(None);
    }
    let text = match expression::converted(named) {
        Ok(text) => text,
        Err(_) if forbids(section) => expression::converted(&expression::without_looks(named))?,
        Err(advice) => return Err(advice),
    };
    let (end, behind) = match restricts(section) {
        true => ("(?:/(?s:.*))?$", "(?:/(?s:.*))?"),
        false => ("$", ""),
    };
    let name = expression::with_anchors(&expression::within_name(&text), "/", end);
    let begin = expression::literal(area.path.trim_end_matches('/'));
    let pattern = format!("{begin}(?:/[^/]*)*(?:{name})[^/]*{behind}");
    let index = format!("{}index.php", area.path);
    let pattern = match restricts(section) && !grants(section) && expression::matches(&pattern, &index) {
        true => format!("{pattern}|{begin}/(?:[^/]*/)*"),
        false => pattern,
    };
    Ok(Some(pattern))
}

/// Whether a section allows clients.
fn grants(section: &Directive) -> bool {
    section.inside().iter().any(|line| {
        is(line, "Allow") || is(line, "Require") && line.argument(1).eq_ignore_ascii_case("granted")
    })
}

/// An expression for the names of a section.
fn name_pattern(section: &Directive) -> Result<String, String> {
    let named = section.arguments.last().map_or("", String::as_str);
    if is(section, "Files") && section.arguments.len() == 1 {
        let glob = |part: &str| expression::literal(part).replace("\\?", "[^/]");
        let parts: Vec<String> = named.split('*').map(glob).collect();
        return Ok(parts.join("[^/]*"));
    }
    // Each alternative must match a whole name. An expression that only forbids may match more names.
    let whole = |part: &&str| match expression::whole_path(part, false) {
        Err(_) if forbids(section) => expression::whole_path(&expression::without_looks(part), false),
        other => other,
    };
    let parts = expression::alternatives(named);
    let parts = parts.iter().map(whole).collect::<Result<Vec<String>, String>>()?;
    let name = parts.join("|").replace("(?s:.*?)", "[^/]*").replace("(?s:.*)", "[^/]*");
    let name = expression::within_name(&name);
    Ok(if parts.len() == 1 { name } else { format!("(?:{name})") })
}

/// Whether a section contains nothing except a refusal of all clients.
fn forbids(section: &Directive) -> bool {
    let inside = section.inside();
    let is_refusal = |line: &Directive| {
        (is(line, "Require") && line.argument(1).eq_ignore_ascii_case("denied"))
            || ["Order", "Deny"].iter().any(|name| is(line, name))
    };
    !inside.is_empty() && inside.iter().all(is_refusal)
}

/// The endings of files of a media type, from this server's table.
pub fn suffixes_of(kind: &str) -> Option<&'static [&'static str]> {
    const TYPES: [(&str, &[&str]); 40] = [
        ("text/html", &[".html", ".htm", "/"]),
        ("text/css", &[".css"]),
        ("text/javascript", &[".js", ".mjs"]),
        ("application/javascript", &[".js", ".mjs"]),
        ("application/x-javascript", &[".js", ".mjs"]),
        ("text/xml", &[".xml"]),
        ("application/xml", &[".xml"]),
        ("application/json", &[".json"]),
        ("application/ld+json", &[".jsonld"]),
        ("application/manifest+json", &[".webmanifest"]),
        ("application/rss+xml", &[".rss"]),
        ("application/atom+xml", &[".atom"]),
        ("application/pdf", &[".pdf"]),
        ("application/wasm", &[".wasm"]),
        ("text/plain", &[".txt"]),
        ("text/x-component", &[".htc"]),
        ("text/cache-manifest", &[".appcache"]),
        ("image/gif", &[".gif"]),
        ("image/png", &[".png"]),
        ("image/jpeg", &[".jpg", ".jpeg"]),
        ("image/jpg", &[".jpg", ".jpeg"]),
        ("image/webp", &[".webp"]),
        ("image/avif", &[".avif"]),
        ("image/svg+xml", &[".svg"]),
        ("image/bmp", &[".bmp"]),
        ("image/x-icon", &[".ico"]),
        ("image/vnd.microsoft.icon", &[".ico"]),
        ("audio/ogg", &[".ogg", ".oga"]),
        ("audio/mpeg", &[".mp3"]),
        ("video/ogg", &[".ogv"]),
        ("video/mp4", &[".mp4"]),
        ("video/webm", &[".webm"]),
        ("font/woff", &[".woff"]),
        ("font/woff2", &[".woff2"]),
        ("font/ttf", &[".ttf"]),
        ("font/otf", &[".otf"]),
        ("application/font-woff", &[".woff"]),
        ("application/font-woff2", &[".woff2"]),
        ("application/vnd.ms-fontobject", &[".eot"]),
        ("application/x-font-ttf", &[".ttf"]),
    ];
    TYPES.iter().find(|(other, _)| other.eq_ignore_ascii_case(kind)).map(|(_, endings)| *endings)
}
