//! `Redirect`, `RewriteCond` and `RewriteRule`.
//!
//! A rule becomes a route. The rule that makes a script answer for paths that are not files (`RewriteCond
//! %{REQUEST_FILENAME} !-f`) becomes the front controller of the area, or files that are tried first.

use super::condition::variable;
use super::refused::{
    REFUSED_UNTIL, flags, forbids, is_refusal, literal_beginning, refused_until, status_of,
};
use super::rewrite_map::{self, RewriteMaps, to_closing_brace};
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression::{self, quoted};
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{check_target as check_target_text, toml_string, toml_strings};

/// The place of the rules.
pub struct Context<'c> {
    /// The path of the directory, with a slash at its end; `None`: the rules belong to the server.
    pub directory: Option<&'c str>,
    /// Clients of the site use HTTPS.
    pub is_secure: bool,
    /// The maps that rules may use.
    pub maps: &'c RewriteMaps<'c>,
}

/// The result of translating rules.
#[derive(Default)]
pub struct Rules {
    /// Routes, in order.
    pub routes: Vec<Section>,
    /// What answers for paths that are not files.
    pub missing: Option<Missing>,
    /// The origin that answers for them.
    pub missing_origin: Option<String>,
    /// Routes with more conditions, each with what answers there for paths that are not files.
    pub missing_if: Vec<(Section, Missing)>,
    /// Variables whose values are written in their places.
    constants: Vec<String>,
    /// What is lost of the last rule for paths that are not files.
    lost: Option<String>,
    /// A rule has ended the rules for files: those behind it are for other paths.
    ends_for_files: bool,
}

/// A path of this server that answers for paths that are not files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The path, perhaps with parameters; [`REST`] in them is the path below `below`.
    pub target: String,
    /// The path of the directory of the rules, with a slash at its end.
    pub below: String,
}

/// The part of the path below the directory of the rules.
const REST: &str = "${rest}";

impl Missing {
    /// A path without parameters of its own.
    pub fn plain(path: &str) -> Missing {
        Missing { target: path.split('?').next().unwrap_or_default().to_string(), below: "/".to_string() }
    }

    /// The path alone.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The target for a route; `None`: its first group is not the rest of the path.
    pub fn target_in(&self, area: &str, route: &Section) -> Option<String> {
        if !self.target.contains(REST) {
            return Some(self.target.clone());
        }
        let above = expression::literal_of_target(area.strip_prefix(&self.below)?)?;
        let rest = match area.ends_with('/') {
            true if route.has("pattern") || !route.has_value("path", &toml_string(area)) => return None,
            true => format!("{above}${{1}}"),
            false => above,
        };
        Some(self.target.replace(REST, &rest))
    }
}

/// Translates `Redirect` and `RedirectMatch` of a block.
///
/// A refusal that cannot be translated refuses all paths below `path`, the path of the block.
pub fn redirects(
    block: &[Directive],
    path: &str,
    account: &mut Account,
    notes: &mut Section,
) -> Vec<Section> {
    let mut routes = Vec::new();
    for directive in block {
        let name = directive.name.to_ascii_lowercase();
        let (status, rest) = match name.as_str() {
            "redirectpermanent" => (301, directive.arguments.as_slice()),
            "redirecttemp" => (302, directive.arguments.as_slice()),
            "redirect" | "redirectmatch" => match directive.arguments.split_first() {
                Some((first, rest)) => match status_of(first) {
                    Some(status) => (status, rest),
                    None => (302, directive.arguments.as_slice()),
                },
                None => continue,
            },
            _ => continue,
        };
        let mut route = Section::new("[[site.route]]");
        let mut result = redirect(status, rest, name == "redirectmatch", &mut route);
        let wider: Vec<String> = rest.iter().map(|word| expression::without_looks(word)).collect();
        if result.is_err() && status >= 400 && wider != rest {
            route = Section::new("[[site.route]]");
            result = redirect(status, &wider, true, &mut route);
            leave_out_well_known(&rest[0], &mut route);
            if result.is_ok() {
                account.problem(directive, notes, WIDER);
            }
        }
        match result {
            Ok(()) => {
                account.translated(directive, &mut route);
                route.notes_first();
                routes.push(route);
            }
            Err(advice) if status >= 400 => {
                account.problem(directive, notes, &format!("{REFUSED_UNTIL}{advice}"));
                let from = rest.first().map_or("", String::as_str);
                routes.push(refused_until(directive, &literal_beginning(from, path)));
            }
            Err(advice) => account.problem(directive, notes, &advice),
        }
    }
    routes
}

fn redirect(status: u16, rest: &[String], is_expression: bool, route: &mut Section) -> Result<(), String> {
    let from = rest.first().ok_or("it names no path")?;
    match is_expression {
        true => {
            let (from, conditions) = expression::without_lookahead(from, false)?;
            conditions.iter().for_each(|condition| route.and_when(condition));
            route.key("pattern", toml_string(&expression::whole_path(&from, false)?));
        }
        false => {
            let from = expression::literal(from.trim_end_matches('/'));
            let below = if is_server(rest) { "(?:/(.*))?" } else { "(/.*)?" };
            let whole = if from.is_empty() { "/(.*)".to_string() } else { format!("{from}{below}") };
            route.key("pattern", toml_string(&whole));
        }
    }
    if !(300..400).contains(&status) {
        route.key("respond", format!("{{ status = {status} }}"));
        return Ok(());
    }
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Err("a redirect has the status 301, 302, 303, 307 or 308".to_string());
    }
    let to = rest.get(1).ok_or("it has no target")?;
    let to = match is_expression {
        true => numbered(to),
        // The rest of the path is appended.
        false if is_server(rest) || from == "/" => format!("{}/${{1}}", to.trim_end_matches('/')),
        false => format!("{}${{1}}", to.trim_end_matches('/')),
    };
    route.key("redirect", format!("{{ to = {}, status = {status} }}", toml_string(&to)));
    Ok(())
}

/// Whether a redirect's target is a server without a path.
fn is_server(rest: &[String]) -> bool {
    let behind = rest.get(1).and_then(|to| to.split_once("://"));
    behind.is_some_and(|(_, behind)| !behind.trim_end_matches('/').contains('/'))
}

/// Writes `$1` with braces.
fn numbered(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match characters.peek() {
            Some(digit) if character == '$' && digit.is_ascii_digit() => {
                out.push_str(&format!("${{{digit}}}"));
                characters.next();
            }
            _ => out.push(character),
        }
    }
    out
}

/// A condition whose result is not known in advance.
#[derive(Clone)]
enum Condition {
    /// The path is not a file or directory.
    Missing,
    /// The path is a file or directory.
    Present,
    /// A field of the request matches this value with wildcards.
    Field(String, String),
    /// The method is one of these.
    Methods(Vec<String>),
    /// The path matches this expression.
    Path(String),
    /// This condition of the server's language holds.
    When(String),
    /// It always holds.
    Holds,
    /// It never holds.
    Never,
}

/// Translates the rules of a block.
pub fn rules(
    block: &[Directive],
    context: &Context<'_>,
    account: &mut Account,
    notes: &mut Section,
) -> Rules {
    let mut rules = Rules::default();
    let mut conditions: Vec<&Directive> = Vec::new();
    let mut base = context.directory.map(str::to_string);
    let mut is_on = false;
    let (block, constants) = with_constants(block, context);
    rules.constants = constants;
    let block = &block[..];
    for directive in block {
        match directive.name.to_ascii_lowercase().as_str() {
            "rewriteengine" => {
                is_on = directive.argument(0).eq_ignore_ascii_case("on");
                account.translated(directive, notes);
            }
            "rewritebase" => {
                account.translated(directive, notes);
                base = Some(format!("{}/", directive.argument(0).trim_end_matches('/')));
            }
            "rewriteoptions" => account.unneeded(directive, notes, "each route has its own conditions"),
            "rewritemap" => rewrite_map::report(directive, notes, account),
            "rewritecond" => conditions.push(directive),
            "rewriterule" => {
                let with: Vec<&Directive> = std::mem::take(&mut conditions);
                if !is_on {
                    account.unneeded(directive, notes, "RewriteEngine is off");
                    continue;
                }
                let before = rules.routes.len();
                match rule(directive, &with, block, context, base.as_deref(), &mut rules) {
                    Ok(why) => {
                        let is_new = rules.routes.len() > before;
                        let place = match (why, rules.routes.last_mut()) {
                            (None, Some(route)) if is_new => route,
                            _ => &mut *notes,
                        };
                        for one in with.iter().chain([&directive]) {
                            match why {
                                None => account.translated(one, place),
                                Some(why) => account.unneeded(one, place, why),
                            }
                        }
                        place.notes_first();
                        if let Some(parameters) = rules.lost.take() {
                            account.problem(directive, notes, &parameters);
                        }
                    }
                    Err(advice) => {
                        let is_shut = is_refusal(directive);
                        let warning = if is_shut { REFUSED_UNTIL } else { "" };
                        with.iter().for_each(|one| notes.note(one.to_string()));
                        account.problem(directive, notes, &format!("{warning}{advice}"));
                        if is_shut {
                            rules.routes.truncate(before);
                            let begin = refused_paths(directive, context);
                            rules.routes.push(refused_until(directive, &begin));
                        }
                    }
                }
            }
            _ => {}
        }
    }
    rules
}

/// What each path that a rule is for begins with.
fn refused_paths(rule: &Directive, context: &Context<'_>) -> String {
    let path = context.directory.unwrap_or("/");
    match (context.directory, rule.argument(0).strip_prefix('^')) {
        (None, _) => literal_beginning(rule.argument(0), path),
        (Some(_), Some(rest)) => literal_beginning(&format!("^{path}{rest}"), path),
        (Some(_), None) => path.to_string(),
    }
}

/// The rules with the values of variables that other rules set to one value for all requests.
fn with_constants(block: &[Directive], context: &Context<'_>) -> (Vec<Directive>, Vec<String>) {
    let mut constants: Vec<(String, String)> = Vec::new();
    let mut conditions: Vec<&Directive> = Vec::new();
    let mut unknown: Vec<String> = Vec::new();
    let mut out = block.to_vec();
    let set = |word: &str| {
        let (flag, value) = word.split_once('=')?;
        let (name, value) = value.split_once(':')?;
        let is_set = flag.eq_ignore_ascii_case("e") || flag.eq_ignore_ascii_case("env");
        is_set.then(|| (name.to_ascii_uppercase(), value.to_string()))
    };
    for line in block {
        if line.name.eq_ignore_ascii_case("RewriteCond") {
            conditions.push(line);
        } else if line.name.eq_ignore_ascii_case("RewriteRule") {
            let with = std::mem::take(&mut conditions);
            let of_flags = flags(line).iter().filter_map(|flag| set(flag)).collect::<Vec<_>>();
            if of_flags.is_empty() {
                continue;
            }
            let holds = with.iter().map(|one| condition(one, context)).collect::<Result<Vec<_>, _>>();
            let never = holds.as_ref().is_ok_and(|all| all.iter().any(|one| matches!(one, Condition::Never)));
            let always = holds.is_ok_and(|all| all.iter().all(|one| matches!(one, Condition::Holds)));
            for (name, value) in of_flags.into_iter().filter(|_| !never) {
                let own_path = with.iter().any(|one| of_own_path(one));
                let value =
                    match (own_path, always && is_any(line.argument(0)) && !value.contains(['%', '$'])) {
                        (true, _) => Some(path_of_rules(&with, context)),
                        (false, true) => Some(value),
                        (false, false) => None,
                    };
                match value
                    .filter(|_| !unknown.contains(&name) && constants.iter().all(|(other, _)| *other != name))
                {
                    Some(value) => constants.push((name, value)),
                    None => {
                        constants.retain(|(other, _)| *other != name);
                        unknown.push(name);
                    }
                }
            }
        }
    }
    for word in out.iter_mut().flat_map(|line| &mut line.arguments) {
        for (name, value) in &constants {
            *word = word.replace(&format!("%{{ENV:{name}}}"), value);
        }
    }
    (out, constants.into_iter().map(|(name, _)| name).collect())
}

/// Whether a condition finds the path of the directory: `$0#%{REQUEST_URI} ([^#]*)#(.*)\1$`.
fn of_own_path(condition: &Directive) -> bool {
    let (what, pattern) = (condition.argument(0), condition.argument(1));
    what.contains("%{REQUEST_URI}")
        && (what.contains("$0") || what.contains("$1"))
        && (pattern.ends_with("\\1$") || pattern.ends_with("\\2$"))
}

/// The path of the directory, with a slash at its end unless the expression has that slash outside its group.
fn path_of_rules(conditions: &[&Directive], context: &Context<'_>) -> String {
    let path = context.directory.unwrap_or("/");
    let bare = conditions.iter().any(|one| one.argument(1).starts_with("^(/.+)/"));
    if bare { path.trim_end_matches('/').to_string() } else { path.to_string() }
}

/// Whether a later rule sends all paths that are not files to the same target.
fn has_same_for_missing(rule: &Directive, block: &[Directive], context: &Context<'_>) -> bool {
    let later = block.iter().skip_while(|one| !std::ptr::eq(*one, rule)).skip(1);
    let mut tests: Vec<&Directive> = Vec::new();
    for line in later {
        if line.name.eq_ignore_ascii_case("RewriteCond") {
            tests.push(line);
        } else if line.name.eq_ignore_ascii_case("RewriteRule") {
            let tests = std::mem::take(&mut tests);
            let asks = |test: &&Directive| matches!(condition(test, context), Ok(Condition::Missing));
            if !tests.is_empty()
                && tests.iter().all(asks)
                && is_any(line.argument(0))
                && line.argument(1) == rule.argument(1)
            {
                return true;
            }
        }
    }
    false
}

/// The result for a rule that becomes no route, whatever its conditions are.
fn without_route(
    rule: &Directive,
    flags: &[String],
    constants: &[String],
) -> Option<Result<Option<&'static str>, String>> {
    let has =
        |names: &[&str]| flags.iter().any(|flag| names.iter().any(|name| flag.eq_ignore_ascii_case(name)));
    let (pattern, to) = (rule.argument(0), rule.argument(1));
    if to == "-"
        && !forbids(flags)
        && flags.iter().any(|flag| flag.starts_with("E=") || flag.starts_with("env="))
    {
        let of_credentials = flags.iter().any(|flag| flag.contains("HTTP_AUTHORIZATION"));
        let is_known = flags.iter().any(|flag| {
            let name =
                flag.split_once('=').and_then(|(_, rest)| rest.split_once(':')).map_or("", |(name, _)| name);
            constants.iter().any(|other| other.eq_ignore_ascii_case(name))
        });
        return Some(match of_credentials {
            _ if is_known => Ok(Some("the value is written in the place of the variable")),
            true => Ok(Some("set 'pass_authorization' of 'php' if the application asks for it")),
            false => Err("programs have no variables of rules; see 'variables' of 'php' or 'fastcgi'".into()),
        });
    }
    let of_hidden_names = ["^\\.", "/\\.", "(^|/)\\."].iter().any(|begin| pattern.starts_with(begin));
    if of_hidden_names && pattern.contains("(?!well-known") && !has(&["R"]) && !has_status(flags) && to != "-"
    {
        return Some(Ok(Some("names that begin with a dot are answered with 404, but for .well-known")));
    }
    if to == "-" && of_hidden_names && pattern.contains("(?!well-known") && has(&["F", "forbidden"]) {
        return Some(Ok(Some("names that begin with a dot are not served, but for .well-known")));
    }
    if to.starts_with("ws://") || to.starts_with("wss://") {
        return Some(Ok(Some("WebSocket passes")));
    }
    if flags
        .iter()
        .any(|flag| flag == "C" || flag.starts_with("S=") || flag == "N" || flag.starts_with("CO="))
    {
        return Some(Err(
            "a rule that restarts or chains other rules: write a route for each case".to_string()
        ));
    }
    None
}

/// The target for all paths that are not files. A script finds the path in REQUEST_URI, and the parameters of
/// the rule in its query.
fn for_missing(
    to: &str,
    flags: &[String],
    pattern: &str,
    context: &Context<'_>,
    rules: &mut Rules,
) -> Result<(), String> {
    let to = to.strip_suffix("/$1").filter(|script| script.ends_with(".php")).unwrap_or(to);
    let (script, query) = to.split_once('?').map_or((to, None), |(script, query)| (script, Some(query)));
    if script.contains(['$', '%']) {
        return Err("a script for all paths that are not files has a fixed name".to_string());
    }
    if to.starts_with("http://") || to.starts_with("https://") {
        rules.missing_origin = Some(to.to_string());
        return Ok(());
    }
    let target = match query.map(|query| parameters(query, flags, pattern, context)) {
        None => script.to_string(),
        Some(Ok(query)) if query == "${query}" => script.to_string(),
        Some(Ok(query)) => format!("{script}?{query}"),
        Some(Err(advice)) => {
            let query = query.unwrap_or_default();
            rules.lost = Some(format!("'{script}' answers without the parameters '{query}': {advice}"));
            script.to_string()
        }
    };
    rules.missing = Some(Missing { target, below: context.directory.unwrap_or("/").to_string() });
    Ok(())
}

/// The parameters of a script that a rule for all paths has.
fn parameters(query: &str, flags: &[String], pattern: &str, context: &Context<'_>) -> Result<String, String> {
    if (0..=9).any(|digit| digit != 1 && query.contains(&format!("${digit}")))
        || (0..=9).any(|digit| query.contains(&format!("%{digit}")))
    {
        return Err("it is made of the path and of the query".to_string());
    }
    // In a directory the expression sees the path below it.
    let group = match (pattern, context.directory) {
        _ if !pattern.contains('(') => "",
        ("^/(.*)$" | "^/?(.*)$", None) | (_, Some(_)) => REST,
        _ => "${path}",
    };
    if group.is_empty() && query.contains("$1") {
        return Err("the expression of the rule has no group".to_string());
    }
    let target = template(&format!("/?{query}"), flags, context)?;
    check_target_text(&target)?;
    Ok(target.trim_start_matches("/?").replace("${1}", group))
}

/// Whether these conditions are that there is a file.
fn is_of_files(conditions: &[Condition]) -> bool {
    !conditions.is_empty() && conditions.iter().all(|condition| matches!(condition, Condition::Present))
}

/// Why a rule that changes no path needs no route. `is_first`: it has no conditions, and is the first rule.
fn unchanged(pattern: &str, is_first: bool) -> Result<Option<&'static str>, String> {
    match (is_script(pattern), is_first) {
        (true, _) => Ok(Some("the script is run as it is")),
        (false, true) => Ok(Some("the path is served as it is")),
        (false, false) => {
            Err("it ends the rules; write a route for these paths before the others".to_string())
        }
    }
}

/// Translates a rule to routes; returns the reason if no route is needed.
fn rule(
    rule: &Directive,
    conditions: &[&Directive],
    block: &[Directive],
    context: &Context<'_>,
    base: Option<&str>,
    rules: &mut Rules,
) -> Result<Option<&'static str>, String> {
    let flags = flags(rule);
    let has =
        |names: &[&str]| flags.iter().any(|flag| names.iter().any(|name| flag.eq_ignore_ascii_case(name)));
    let (pattern, to) = (rule.argument(0), rule.argument(1));
    if let Some(result) = without_route(rule, &flags, &rules.constants) {
        return result;
    }
    let mut is_done = false;
    let uses_groups_of_condition = (1..=9).any(|digit| to.contains(&format!("%{digit}")));
    let mut all = alternatives(conditions, context)?;
    if to == "-" && has(&["L", "last", "END"]) && is_any(pattern) && all.iter().all(|one| is_of_files(one)) {
        rules.ends_for_files = true;
        return Ok(Some("files that are there are served"));
    }
    if rules.ends_for_files {
        all.iter_mut().for_each(|alternative| alternative.push(Condition::Missing));
    }
    for alternative in all {
        if uses_groups_of_condition && alternative.iter().any(|one| matches!(one, Condition::When(_))) {
            return Err("the groups of this condition cannot be used in the target".to_string());
        }
        if alternative.iter().any(|condition| matches!(condition, Condition::Never)) {
            continue;
        }
        let is_missing = alternative.iter().any(|condition| matches!(condition, Condition::Missing));
        if alternative.iter().any(|condition| matches!(condition, Condition::Present)) {
            match to {
                // What is not there is refused, too.
                "-" if forbids(&flags) => {}
                "-" => return Ok(Some("files that are there are served")),
                _ if alternative.iter().any(|one| matches!(one, Condition::Missing)) => continue,
                // Then it does not matter whether the file is there.
                _ if has_same_for_missing(rule, block, context) => {}
                _ => return Err("a route does not ask whether a file is there".to_string()),
            }
        }
        if to == "-" && !has(&["F", "forbidden", "G", "gone"]) && !has_status(&flags) {
            return unchanged(pattern, rules.routes.is_empty() && conditions.is_empty());
        }
        let own = target(to, base);
        let alternative: Vec<Condition> =
            alternative.into_iter().filter(|one| !is_missing || !excludes_target(one, &own)).collect();
        let is_plain =
            alternative.iter().all(|condition| matches!(condition, Condition::Missing | Condition::Holds));
        if is_missing && is_plain && is_any(pattern) && !has(&["R"]) && !has_status(&flags) {
            for_missing(&own, &flags, pattern, context, rules)?;
            return Ok(None);
        }
        let mut route = Section::new("[[site.route]]");
        let any_case = has(&["NC", "nocase"]);
        let moved = expression::with_slash(pattern, to).filter(|_| context.directory.is_none());
        let moved = moved.or_else(|| expression::slash_before_group(pattern, to));
        let (moved, to) = moved.unwrap_or_else(|| (pattern.to_string(), to.to_string()));
        let (pattern, to) = (moved.as_str(), to.as_str());
        let own_keys = |pattern: &str, route: &mut Section| {
            keys(pattern, &alternative, context, any_case, uses_groups_of_condition, route)
        };
        rules.lost = keys_or_wider(pattern, forbids(&flags), &mut route, &own_keys)?;
        let mut answer = Section::new("[[site.route]]");
        action(to, &flags, base, context, &mut answer)?;
        if is_missing && (answer.has("redirect") || answer.has("respond")) && !forbids(&flags) {
            return Err("a route with an answer does not ask whether a file is there".to_string());
        }
        if is_missing && answer.has("rewrite") {
            if uses_groups_of_condition || own.split('?').next().unwrap_or_default().contains(['$', '%']) {
                return Err(
                    "a rule for paths that are not files has a fixed script: see 'front_controller' of \
                            'php', or 'try_files'"
                        .to_string(),
                );
            }
            let target = template(&target(to, base), &flags, context)?;
            check_target_text(&target)?;
            let below = context.directory.unwrap_or("/").to_string();
            rules.missing_if.push((route, Missing { target, below }));
            is_done = true;
            continue;
        }
        action(to, &flags, base, context, &mut route)?;
        if route.has("rewrite") && is_any(pattern) && !own.contains(['$', '%', '\'']) {
            // Apache does not rewrite a path to itself.
            let path = own.split('?').next().unwrap_or_default();
            route.and_when(&format!("$path != '{path}'"));
        }
        rules.routes.push(route);
        is_done = true;
    }
    Ok((!is_done).then_some("the site has no such clients"))
}

/// Writes the keys of a rule; those of a refusal without the groups that this server does not support, if it
/// has any. Returns what is to be said of that.
fn keys_or_wider(
    pattern: &str,
    is_refusal: bool,
    route: &mut Section,
    keys: &dyn Fn(&str, &mut Section) -> Result<(), String>,
) -> Result<Option<String>, String> {
    let wider = expression::without_looks(pattern);
    match keys(pattern, route) {
        Err(_) if is_refusal && wider != pattern => {
            *route = Section::new("[[site.route]]");
            keys(&wider, route)?;
            leave_out_well_known(pattern, route);
            Ok(Some(WIDER.to_string()))
        }
        result => result.map(|()| None),
    }
}

/// What is said of a refusal whose expression is written without groups that this server does not support.
const WIDER: &str = "it refuses all paths that match without the groups '(?...': write them apart";

/// Leaves out `/.well-known` where an expression does so.
fn leave_out_well_known(expression: &str, route: &mut Section) {
    if expression.contains("(?!") && expression.contains("well-known") {
        route.and_when("not $path =~ '^/[.]well-known(/|$)'");
    }
}

fn has_status(flags: &[String]) -> bool {
    flags.iter().any(|flag| flag.starts_with("R=") || flag.starts_with("redirect"))
}

/// Whether an expression is the path of one script, as `^index\.php$`.
fn is_script(pattern: &str) -> bool {
    let path = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix("\\.php$"));
    path.is_some_and(|path| path.chars().all(|c| c.is_ascii_alphanumeric() || "/_-".contains(c)))
}

/// Whether an expression matches every path.
fn is_any(pattern: &str) -> bool {
    matches!(
        pattern,
        "^" | "."
            | ".*"
            | "^.*$"
            | "^(.*)$"
            | "(.*)"
            | "^(.+)$"
            | ".+"
            | "^.+$"
            | "^/?(.*)$"
            | "^/(.*)$"
            | "^.*"
            | "^(.*)"
    )
}

/// Returns each combination of conditions under which all of them are true.
fn alternatives(conditions: &[&Directive], context: &Context<'_>) -> Result<Vec<Vec<Condition>>, String> {
    let mut groups: Vec<Vec<Condition>> = Vec::new();
    let mut goes_on = false;
    for directive in conditions {
        let condition = condition(directive, context)?;
        match groups.last_mut() {
            Some(group) if goes_on => group.push(condition),
            _ => groups.push(vec![condition]),
        }
        let flags = directive.argument(2).to_ascii_uppercase();
        goes_on =
            flags.trim_matches(['[', ']']).split(',').any(|flag| matches!(flag.trim(), "OR" | "ORNEXT"));
    }
    let mut all: Vec<Vec<Condition>> = vec![Vec::new()];
    for group in groups {
        let mut next = Vec::new();
        for so_far in &all {
            for condition in &group {
                next.push(so_far.iter().chain([condition]).cloned().collect());
            }
        }
        if next.len() > 16 {
            return Err("too many conditions: write a route for each case".to_string());
        }
        all = next;
    }
    Ok(all)
}

/// Whether a condition only excludes the target of the rule itself: `%{REQUEST_URI} !^/index\.php`.
fn excludes_target(condition: &Condition, target: &str) -> bool {
    let Condition::When(text) = condition else { return false };
    let excluded = text.strip_prefix("$path !~ '").and_then(|rest| rest.strip_suffix('\''));
    excluded.is_some_and(|excluded| {
        excluded.strip_prefix('^').is_some_and(|begin| {
            let begin = begin.trim_end_matches('$').replace("\\.", ".").replace("\\/", "/");
            target.split('?').next().unwrap_or_default() == begin
        })
    })
}

/// `RewriteCond %{WHAT} PATTERN`
fn condition(directive: &Directive, context: &Context<'_>) -> Result<Condition, String> {
    let is_secure = context.is_secure;
    let (what, pattern) = (directive.argument(0), directive.argument(1));
    let (bare, is_negated) = match pattern.strip_prefix('!') {
        Some(bare) => (bare, true),
        None => (pattern, false),
    };
    let any_case = directive.argument(2).to_ascii_uppercase().contains("NC");
    if what.starts_with("${") {
        return of_map(what, bare, is_negated, any_case, context).map(Condition::When);
    }
    let name = what.strip_prefix("%{").and_then(|name| name.strip_suffix('}')).unwrap_or(what);
    let holds = |holds: bool| if holds { Condition::Holds } else { Condition::Never };
    let word = bare.trim_start_matches(['=', '^']).trim_end_matches('$').to_ascii_lowercase();
    match name {
        "REQUEST_FILENAME" | "SCRIPT_FILENAME" => Ok(file_test(bare, is_negated)?),
        _ if name.contains("DOCUMENT_ROOT") && (bare == "-f" || bare == "-d") => file_test(bare, is_negated),
        "HTTPS" => Ok(holds((word == "on") == (is_secure != is_negated))),
        "SERVER_PORT" => {
            let port = if is_secure { "443" } else { "80" };
            Ok(holds((word == port) != is_negated))
        }
        "REQUEST_SCHEME" => {
            let scheme = if is_secure { "https" } else { "http" };
            Ok(holds((word == scheme) != is_negated))
        }
        "REQUEST_METHOD" if !is_negated => {
            let inside = bare.trim_start_matches(['^', '=']).trim_end_matches('$');
            let methods: Vec<String> =
                inside.trim_matches(['(', ')']).split('|').map(str::to_ascii_uppercase).collect();
            match methods.iter().all(|method| method.bytes().all(|byte| byte.is_ascii_uppercase())) {
                true => Ok(Condition::Methods(methods)),
                false => compared(name, bare, false, any_case, is_secure),
            }
        }
        "REQUEST_URI" if !is_negated => Ok(Condition::Path(expression::whole_path(bare, any_case)?)),
        // WordPress and Drupal use this form for icons and similar paths: they are files, or they are
        // missing.
        "REQUEST_URI" if matches!(bare, "=/favicon.ico" | "^/favicon.ico$" | "^/favicon\\.ico$") => {
            Ok(Condition::Holds)
        }
        "ENV:REDIRECT_STATUS" | "ENV:REDIRECT_REDIRECT_STATUS" => Ok(Condition::Holds),
        _ => {
            let field = match name {
                "HTTP_HOST" | "SERVER_NAME" => "Host",
                "HTTP_USER_AGENT" => "User-Agent",
                "HTTP_REFERER" => "Referer",
                "HTTP_COOKIE" => "Cookie",
                "HTTP_ACCEPT" => "Accept",
                other => match other.strip_prefix("HTTP:") {
                    Some(field) => field,
                    None => return compared(name, bare, is_negated, any_case, is_secure),
                },
            };
            if is_negated {
                return match matches!(bare, "^$" | "^\\s*$") {
                    true => Ok(Condition::Field(field.to_string(), "*".to_string())),
                    false => compared(name, bare, true, any_case, is_secure),
                };
            }
            if matches!(bare, "." | ".+" | ".*") {
                return Ok(Condition::Field(field.to_string(), "*".to_string()));
            }
            match wildcard(bare) {
                Some(value) => Ok(Condition::Field(field.to_string(), value)),
                None => compared(name, bare, false, any_case, is_secure),
            }
        }
    }
}

/// A condition on a variable as one of this server's language: `%{QUERY_STRING} ^a=1`.
fn compared(
    name: &str,
    bare: &str,
    is_negated: bool,
    any_case: bool,
    is_secure: bool,
) -> Result<Condition, String> {
    let value = variable(name, is_secure)?;
    if let Some(text) = bare.strip_prefix('=') {
        let sign = if is_negated { "!=" } else { "==" };
        return Ok(Condition::When(format!("{value} {sign} {}", quoted(text)?)));
    }
    if bare.starts_with(['<', '>', '-']) {
        return Err(format!("the comparison '{bare}' has no counterpart here"));
    }
    let bare = expression::converted(bare)?;
    let (sign, flags) = (if is_negated { "!~" } else { "=~" }, if any_case { "(?i)" } else { "" });
    Ok(Condition::When(format!("{value} {sign} {}", quoted(&format!("{flags}{bare}"))?)))
}

/// A condition on the value of a map: `${map:%{HTTP_HOST}|none} !=none`.
fn of_map(
    what: &str,
    pattern: &str,
    is_negated: bool,
    any_case: bool,
    context: &Context<'_>,
) -> Result<String, String> {
    let value = template(what, &[], context)?;
    let is_one = value.starts_with("$map{") && value.ends_with('}') && value.matches("$map{").count() == 1;
    if !is_one {
        return Err("a condition looks at one map, and nothing else".to_string());
    }
    if context.maps.has_groups(&value) {
        return Err("a condition does not look up what the expression of the rule has matched".to_string());
    }
    if pattern.contains('\'') || pattern.starts_with(['<', '>', '-']) {
        return Err("the value of a map is compared with a text or an expression".to_string());
    }
    let comparison = match pattern.strip_prefix('=') {
        Some(text) if !any_case => format!("{value} == '{}'", text.trim_matches('"')),
        Some(text) => format!("{value} =~ '(?i)^{}$'", expression::literal(text.trim_matches('"'))),
        None => {
            let pattern = expression::converted(pattern)?;
            format!("{value} =~ '{}{pattern}'", if any_case { "(?i)" } else { "" })
        }
    };
    Ok(if is_negated { format!("not {comparison}") } else { comparison })
}

fn file_test(test: &str, is_negated: bool) -> Result<Condition, String> {
    match (test, is_negated) {
        ("-f" | "-d" | "-l" | "-s" | "-F", true) => Ok(Condition::Missing),
        ("-f" | "-d" | "-l" | "-s" | "-F", false) => Ok(Condition::Present),
        _ => Err("a route does not look at names of files".to_string()),
    }
}

/// Converts a simple expression to a value with wildcards.
fn wildcard(expression: &str) -> Option<String> {
    if expression == "^$" {
        return Some(String::new());
    }
    let (begin, rest) = match expression.strip_prefix('^').or(expression.strip_prefix('=')) {
        Some(rest) => ("", rest),
        None => ("*", expression),
    };
    let (rest, end) = match rest.strip_suffix('$') {
        Some(rest) => (rest, ""),
        None if expression.starts_with('=') => (rest, ""),
        None => (rest, "*"),
    };
    let text =
        rest.replace("(.*)", "\u{1}").replace("(.+)", "\u{1}").replace(".*", "\u{1}").replace(".+", "\u{1}");
    let text = text.replace("\\.", "\u{2}").replace("\\-", "-").replace("\\/", "/");
    if text.contains(['(', ')', '[', ']', '|', '?', '\\', '+', '{', '*', '^', '$', '.']) {
        return None;
    }
    Some(format!("{begin}{}{end}", text.replace('\u{1}', "*").replace('\u{2}', ".")))
}

/// Writes the conditions of a rule.
fn keys(
    pattern: &str,
    conditions: &[Condition],
    context: &Context<'_>,
    any_case: bool,
    uses_condition: bool,
    route: &mut Section,
) -> Result<(), String> {
    if pattern.starts_with('!') {
        return Err("a negated expression: write a route before this one".to_string());
    }
    let mut of_condition = None;
    // The pattern of a route is that of the groups: of the rule, or of its condition.
    let of_rule = !is_any(pattern) || pattern.contains('(') && !uses_condition;
    let mut when: Vec<&str> = Vec::new();
    for condition in conditions {
        match condition {
            Condition::Field(name, value) => {
                route.entry("request_headers", &field_name(name), toml_string(value));
            }
            Condition::When(condition) => when.push(condition),
            Condition::Methods(methods) => route.key("methods", toml_strings(methods)),
            Condition::Path(expression) if of_rule || of_condition.is_some() => {
                route.and_when(&format!("$path =~ {}", quoted(&format!("^(?:{expression})$"))?));
            }
            Condition::Path(expression) => of_condition = Some(expression),
            _ => {}
        }
    }
    if !when.is_empty() {
        when.iter().for_each(|condition| route.and_when(condition));
    }
    match (of_condition, is_any(pattern)) {
        (Some(expression), true) => route.key("pattern", toml_string(expression)),
        (Some(_), false) => {
            return Err("two expressions for the path: write them as one 'pattern'".to_string());
        }
        (None, true) => {
            let path = context.directory.unwrap_or("/");
            // The whole path is the groups of the rule.
            let groups = pattern.contains('(');
            match groups {
                true => {
                    let expression = format!("{}(.*)", expression::literal(path));
                    route.key("pattern", toml_string(&expression));
                }
                false => route.key("path", toml_string(path)),
            }
        }
        (None, false) => {
            let expression = match context.directory {
                None => pattern.to_string(),
                Some(path) => in_directory(pattern, path)?,
            };
            let (expression, conditions) = expression::without_lookahead(&expression, any_case)?;
            conditions.iter().for_each(|condition| route.and_when(condition));
            route.key("pattern", toml_string(&expression::whole_path(&expression, any_case)?));
        }
    }
    Ok(())
}

/// The expression of a rule in a directory is matched against the path without the directory's path.
fn in_directory(pattern: &str, path: &str) -> Result<String, String> {
    let path = expression::literal(path);
    let one = |part: &str| {
        // The path of the directory is not a part of what the expression sees.
        let begins = ["(^|/)", "(/|^)", "(?:^|/)", "(?:/|^)"].iter().find_map(|begin| {
            let group = if begin.starts_with("(?:") { "(?:(?s:.*)/|)" } else { "((?s:.*)/|)" };
            part.strip_prefix(begin).map(|rest| (group, rest))
        });
        let (begin, rest) = match (part.strip_prefix('^'), begins) {
            (Some(rest), _) => ("", rest.strip_prefix("/?").unwrap_or(rest)),
            (None, Some(found)) => found,
            (None, None) => ("(?s:.*?)", part),
        };
        // A '$' within the expression means the end of the path here, too.
        match expression::with_anchors(rest, "", "$") != rest {
            true => Err("it has '^' behind its beginning: write two rules".to_string()),
            false => Ok(format!("^{path}{begin}{rest}")),
        }
    };
    let parts: Result<Vec<String>, String> = expression::alternatives(pattern).into_iter().map(one).collect();
    Ok(parts?.join("|"))
}

fn field_name(name: &str) -> String {
    let mut is_first = true;
    let capitalised = |c: char| {
        let c = if is_first { c.to_ascii_uppercase() } else { c };
        is_first = c == '-';
        c
    };
    name.chars().map(capitalised).collect()
}

/// Writes the action of a rule.
fn action(
    to: &str,
    flags: &[String],
    base: Option<&str>,
    context: &Context<'_>,
    route: &mut Section,
) -> Result<(), String> {
    let flag = |names: &[&str]| {
        flags.iter().find_map(|flag| {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            names.iter().any(|other| name.eq_ignore_ascii_case(other)).then(|| value.to_string())
        })
    };
    if flag(&["F", "forbidden"]).is_some() {
        route.key("respond", "{ status = 403 }");
        return Ok(());
    }
    if flag(&["G", "gone"]).is_some() {
        route.key("respond", "{ status = 410 }");
        return Ok(());
    }
    let is_other_server = to.starts_with("http://") || to.starts_with("https://");
    if let Some(status) = flag(&["R", "redirect"]).or(is_other_server.then(|| "302".to_string())) {
        let status = match status.as_str() {
            "" => 302,
            word => status_of(word).ok_or("no such status")?,
        };
        if flag(&["P", "proxy"]).is_none() {
            if !(300..400).contains(&status) {
                route.key("respond", format!("{{ status = {status} }}"));
                return Ok(());
            }
            let to = template(&target(to, base), flags, context)?;
            check_target(&to)?;
            route.key("redirect", format!("{{ to = {}, status = {status} }}", toml_string(&to)));
            return Ok(());
        }
    }
    if flag(&["P", "proxy"]).is_some() {
        return proxy(to, flags, context, route);
    }
    let to = template(&target(to, base), flags, context)?;
    check_target(&to)?;
    route.key("rewrite", format!("{{ to = {} }}", toml_string(&to)));
    Ok(())
}

/// Checks the beginning of a target.
fn check_target(to: &str) -> Result<(), String> {
    let begins = ["/", "$path", "${path}", "http://", "https://", "$map{", "${map{"];
    let behind = to.split_once("://").map_or("", |(_, rest)| rest);
    let behind = ["$host", "${host}"].iter().find_map(|host| behind.strip_prefix(host)).unwrap_or(behind);
    // A path begins with a slash.
    let end = ["/", "$path", "${path}"].iter().filter_map(|begin| behind.find(begin)).min();
    let server = &behind[..end.unwrap_or(behind.len())];
    if server.contains('$') && !server.contains("$map{") {
        return Err("the name of a server in a target has no variables except %{HTTP_HOST}".to_string());
    }
    match begins.iter().any(|begin| to.starts_with(begin)) {
        true => Ok(()),
        false => Err("a target here begins with '/', '$path', 'http://' or 'https://'".to_string()),
    }
}

/// `http://127.0.0.1:3000/$1 [P]`
fn proxy(to: &str, flags: &[String], context: &Context<'_>, route: &mut Section) -> Result<(), String> {
    let begin = to.find("://").ok_or("an origin is a URL")? + 3;
    let path = to[begin..].find('/').map_or("", |at| &to[begin + at..]);
    let origin = &to[..to.len() - path.len()];
    if origin.contains(['$', '%']) {
        return Err("an origin is an address without variables".to_string());
    }
    let mut table = Section::new("[site.route.proxy]");
    table.key("to", toml_string(origin));
    let is_whole = matches!(path, "" | "/%{REQUEST_URI}" | "%{REQUEST_URI}");
    let is_group = path == "/$1" && route.has_value("pattern", &toml_string("/(.*)"));
    if !is_whole && !is_group {
        let path = template(path, flags, context)?;
        check_target(&path)?;
        if route.has("path") && path.contains("${") {
            return Err("the rule has no groups".to_string());
        }
        table.key("path", toml_string(&path));
    }
    route.push(table);
    Ok(())
}

/// Resolves the target of a rule: relative to the directory, or to `RewriteBase`.
fn target(to: &str, base: Option<&str>) -> String {
    // In a directory a group holds a path without its beginning.
    let is_group = to.strip_prefix('$').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_whole = to.starts_with('%') || to.starts_with('$') && !(is_group && base.is_some());
    match to.starts_with('/') || to.contains("://") || is_whole {
        true => to.to_string(),
        false => format!("{}{to}", base.unwrap_or("/")),
    }
}

/// Converts `$1`, `%1`, `%{HTTP_HOST}`, `%{REQUEST_URI}` and `${map:key}` to variables of this server.
fn template(text: &str, flags: &[String], context: &Context<'_>) -> Result<String, String> {
    let is_secure = context.is_secure;
    let has =
        |names: &[&str]| flags.iter().any(|flag| names.iter().any(|name| flag.eq_ignore_ascii_case(name)));
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['$', '%']) {
        out.push_str(&rest[..at]);
        let sign = rest.as_bytes()[at];
        let after = &rest[at + 1..];
        if after.starts_with(|c: char| c.is_ascii_digit()) {
            let digit = &after[..1];
            if digit == "0" {
                return Err("'$0' has no counterpart: put the expression in parentheses".to_string());
            }
            // Captures of a condition are captures of the path, because it is the only expression then.
            out.push_str(&format!("${{{digit}}}"));
            rest = &after[1..];
        } else if let (b'$', Some(inner)) = (sign, after.strip_prefix('{')) {
            let (inside, after) = to_closing_brace(inner).ok_or("a '}' is missing")?;
            out.push_str(&context.maps.variable(inside, &|text| template(text, &[], context))?);
            rest = after;
        } else if let (b'%', Some(inner)) = (sign, after.strip_prefix('{')) {
            let end = inner.find('}').ok_or("a '}' is missing")?;
            match &inner[..end] {
                "HTTP_HOST" | "SERVER_NAME" => out.push_str("$host"),
                "REQUEST_URI" => out.push_str("${path}"),
                "REQUEST_SCHEME" => out.push_str(if is_secure { "https" } else { "http" }),
                "QUERY_STRING" if out.contains('?') => out.push_str("${query}"),
                other => return Err(format!("the variable '%{{{other}}}' has no counterpart here")),
            }
            rest = &inner[end + 1..];
        } else {
            out.push_str(if sign == b'$' { "$$" } else { "%" });
            rest = after;
        }
    }
    out.push_str(rest);
    // `https://$host/${1}` with the whole path as the group is `https://$host${path}`.
    if has(&["QSA", "qsappend"]) && out.contains('?') && !out.contains("${query}") {
        out.push_str(if out.ends_with('?') { "${query}" } else { "&${query}" });
    }
    if has(&["QSD", "qsdiscard"]) && !out.contains('?') {
        out.push('?');
    }
    Ok(out.replace("?${query}&${query}", "?${query}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::rewrite_map::Uses;

    fn of(text: &str, directory: Option<&str>) -> (Rules, String, usize) {
        let directives = parse("a.conf", text).unwrap();
        let (mut account, mut notes) = (Account::default(), Section::new(""));
        let uses = Uses::default();
        let context = Context { directory, is_secure: false, maps: &RewriteMaps::of([], &uses) };
        let rules = rules(&directives, &context, &mut account, &mut notes);
        let mut written = String::new();
        rules.routes.iter().for_each(|route| route.write(&mut written));
        let keys = written.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let keys: Vec<&str> = keys.collect();
        (rules, keys.join("\n"), account.into_imported(String::new()).problems.len())
    }

    #[test]
    fn front_controllers() {
        let wordpress = "RewriteEngine On\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\n\
            RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
            RewriteRule . /index.php [L]";
        let (rules, keys, problems) = of(wordpress, Some("/"));
        let missing = |rules: &Rules| rules.missing.clone().map(|missing| missing.target);
        assert_eq!((missing(&rules).as_deref(), keys.as_str(), problems), (Some("/index.php"), "", 0));
        let (rules, _, _) =
            of("RewriteEngine on\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ app.php", Some("/x/"));
        assert_eq!(missing(&rules).as_deref(), Some("/x/app.php"));
        for (rule, directory, expected, expected_problems) in [
            ("^(.*)$ index.php?url=$1 [QSA,L]", Some("/x/"), "/x/index.php?url=${rest}&${query}", 0),
            ("^(.*)$ /i.php?url=$1 [L]", None, "/i.php?url=${path}", 0),
            ("^/(.*)$ /i.php?url=$1 [L]", None, "/i.php?url=${rest}", 0),
            (". i.php?u=%{REQUEST_URI}&%{QUERY_STRING} [L]", Some("/"), "/i.php?u=${path}&${query}", 0),
            ("^(.*)$ i.php?%{QUERY_STRING} [L]", Some("/"), "/i.php", 0),
            ("^(.*)$ i.php?q=%{TIME} [L]", Some("/"), "/i.php", 1),
            ("^(.*)$ i.php?q=$2 [L]", Some("/"), "/i.php", 1),
            ("^(.*)$ i.php/$1 [L]", Some("/"), "/i.php", 0),
        ] {
            let text = format!("RewriteEngine on\nRewriteCond %{{REQUEST_FILENAME}} !-f\nRewriteRule {rule}");
            let (rules, _, problems) = of(&text, directory);
            assert_eq!((missing(&rules).as_deref(), problems), (Some(expected), expected_problems), "{rule}");
        }
        let (rules, _, problems) = of(
            "RewriteEngine on\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^blog/(.*)$ i.php?p=$1 [QSA]",
            Some("/"),
        );
        let (route, target) = &rules.missing_if[0];
        assert!(route.has_value("pattern", "\"/blog/(.*)\""), "{route:?}");
        assert_eq!((target.target.as_str(), problems), ("/i.php?p=${1}&${query}", 0));
    }

    #[test]
    fn rules_behind_one_that_ends_for_files_are_for_missing_paths() {
        let ends = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} -f [OR]\n\
                    RewriteCond %{REQUEST_FILENAME} -d\nRewriteRule ^ - [L]\n";
        let (found, keys, problems) =
            of(&format!("{ends}RewriteRule ^(.*)$ index.php?r=$1 [QSA,L]"), Some("/"));
        let target = found.missing.map(|missing| missing.target);
        assert_eq!((keys.as_str(), problems), ("", 0));
        assert_eq!(target.as_deref(), Some("/index.php?r=${rest}&${query}"));
        // What is refused is refused with a file, too; a redirect for missing paths only is told.
        let (_, keys, problems) = of(&format!("{ends}RewriteRule ^x/ - [F]"), Some("/"));
        assert!(keys.contains("respond = { status = 403 }") && problems == 0, "{keys}");
        let (_, keys, problems) = of(&format!("{ends}RewriteRule ^x/ /y [R,L]"), Some("/"));
        assert_eq!((keys.as_str(), problems), ("", 1));
    }

    #[test]
    fn an_end_within_an_expression_is_one_rule() {
        let rule = "RewriteEngine On\nRewriteRule ^(.+/.*|autoload)\\.php($|/) - [F]";
        let (_, keys, problems) = of(rule, Some("/"));
        assert_eq!(problems, 0);
        assert!(keys.contains(r#"pattern = "/(.+/.*|autoload)\\.php($|/)(?s:.*)""#), "{keys}");
        let (_, _, problems) = of("RewriteEngine On\nRewriteRule a(^b) - [F]", Some("/"));
        assert_eq!(problems, 1);
    }

    #[test]
    fn the_rest_of_a_path_in_an_area() {
        let missing = Missing { target: "/i.php?q=${rest}".to_string(), below: "/".to_string() };
        let target_of = |area: &str, keys: &[(&str, &str)]| {
            let mut route = Section::new("[[site.route]]");
            keys.iter().for_each(|(key, value)| route.key(key, toml_string(value)));
            missing.target_in(area, &route)
        };
        assert_eq!(target_of("/", &[("path", "/")]).as_deref(), Some("/i.php?q=${1}"));
        assert_eq!(target_of("/a/b/", &[("path", "/a/b/")]).as_deref(), Some("/i.php?q=a/b/${1}"));
        assert_eq!(target_of("/a", &[("path", "/a")]).as_deref(), Some("/i.php?q=a"));
        assert_eq!(target_of("/", &[("path", "/"), ("pattern", "/(x)")]), None);
        assert_eq!(Missing::plain("/a?b").target_in("/x/", &Section::new("")).as_deref(), Some("/a"));
    }

    #[test]
    fn redirects_and_conditions() {
        let on = "RewriteEngine On\n";
        for (text, directory, expected) in [
            (
                "RewriteCond %{HTTPS} off\nRewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [L,R=301]",
                Some("/"),
                "path = \"/\"\nredirect = { to = \"https://$host${path}\", status = 301 }",
            ),
            (
                "RewriteRule ^old/(.*)$ /new/$1 [R=301,L]",
                Some("/"),
                "pattern = \"/old/(.*)\"\nredirect = { to = \"/new/${1}\", status = 301 }",
            ),
            (
                "RewriteCond %{HTTP_HOST} ^www\\.example\\.org$ [NC]\n\
                 RewriteRule (.*) https://example.org/$1 [R]",
                Some("/"),
                "pattern = \"/(.*)\"\nredirect = { to = \"https://example.org/${1}\", status = 302 }\n\
                 request_headers = { Host = \"www.example.org\" }",
            ),
            (
                "RewriteCond %{REQUEST_FILENAME} -f\nRewriteRule \\.inc$ - [F]",
                None,
                "pattern = \"(?s:.*?)\\\\.inc\"\nrespond = { status = 403 }",
            ),
            ("RewriteRule \\.bak$ - [F]", None, "pattern = \"(?s:.*?)\\\\.bak\"\nrespond = { status = 403 }"),
            (
                "RewriteRule ^page/([0-9]+)$ index.php?p=$1 [QSA,L]",
                Some("/"),
                "pattern = \"/page/([0-9]+)\"\nrewrite = { to = \"/index.php?p=${1}&${query}\" }",
            ),
            (
                "RewriteRule (^|/)vendor/|^old - [F]",
                Some("/"),
                "pattern = \"(?s:.*?)(?:^/((?s:.*)/|)vendor/|^/old)(?s:.*)\"\nrespond = { status = 403 }",
            ),
            (
                "RewriteRule ^lib/(?!js/). - [F]",
                Some("/"),
                "pattern = \"/lib/.(?s:.*)\"\nrespond = { status = 403 }\n\
                 when = \"not $path =~ '^/lib/(?:js/)'\"",
            ),
            (
                "RewriteCond %{HTTPS} =on\nRewriteRule ^ - [E=PROTO:https]\n\
                 RewriteCond %{HTTPS} !=on\nRewriteRule ^ - [E=PROTO:http]\n\
                 RewriteRule ^a$ %{ENV:PROTO}://b.org/ [R]",
                Some("/"),
                "pattern = \"/a\"\nredirect = { to = \"http://b.org/\", status = 302 }",
            ),
            (
                "RewriteCond %{REQUEST_URI} ^/sys\nRewriteRule ^(.*)$ /index.php/$1 [L]",
                Some("/"),
                "pattern = \"/(.*)\"\nrewrite = { to = \"/index.php/${1}\" }\n\
                 when = \"$path =~ '^(?:/sys(?s:.*))$'\"",
            ),
        ] {
            let (_, keys, problems) = of(&format!("{on}{text}"), directory);
            assert_eq!((keys.replace("[[site.route]]\n", ""), problems), (expected.to_string(), 0), "{text}");
        }
        assert_eq!(of(&format!("{on}RewriteCond %{{TIME_HOUR}} >12\nRewriteRule ^ - [F]"), None).2, 1);
    }

    #[test]
    fn plain_redirects() {
        let directives = parse(
            "a.conf",
            "Redirect 301 /a https://b.org/c\nRedirect gone /d\n\
            RedirectMatch ^/e/(.*)$ /f/$1",
        )
        .unwrap();
        let routes = redirects(&directives, "/", &mut Account::default(), &mut Section::new(""));
        let mut text = String::new();
        routes.iter().for_each(|route| route.write(&mut text));
        for line in [
            "pattern = \"/a(/.*)?\"",
            "redirect = { to = \"https://b.org/c${1}\", status = 301 }",
            "respond = { status = 410 }",
            "redirect = { to = \"/f/${1}\", status = 302 }",
        ] {
            assert!(text.lines().any(|written| written == line), "{line}\n{text}");
        }
    }
}
