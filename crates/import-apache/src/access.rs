//! `Require`, `Order`, `Allow`, `Deny` and `Auth...`: which clients are allowed.

use super::area::{Area, is};
use super::condition::condition;
use super::environment::Environment;
use super::oidc;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::networks::{self, EVERYONE, covers, full};
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// Which clients are allowed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// All clients are refused.
    pub is_shut: bool,
    allow: Vec<String>,
    deny: Vec<String>,
    needs_user: bool,
    /// A network of `allow` or a user is enough.
    any: bool,
    /// All clients are admitted, whatever the others of `<RequireAny>` state.
    is_open: bool,
    /// Claims of an OpenID provider that a user must have.
    claims: Vec<String>,
    /// What must hold for requests.
    needed: Vec<Test>,
    /// What must not hold for requests.
    refused: Vec<Test>,
    /// What the fields above cannot express: until it is added by hand, too many or too few clients are
    /// allowed.
    problems: Vec<(usize, String)>,
}

/// A rule on requests, for which a route has a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    /// They have this variable of the environment.
    Variable(String),
    /// This expression of Apache holds.
    Expression(String),
    /// This condition of the server's language holds.
    Condition(String),
    /// All tests of one of these lists hold.
    OneOf(Vec<Vec<Test>>),
}

impl Test {
    /// The condition, and the directives that set its variables.
    ///
    /// # Errors
    /// What has no counterpart.
    fn condition<'d>(&self, environment: &Environment<'d>) -> Result<(String, Vec<&'d Directive>), String> {
        match self {
            Test::Variable(name) => environment.condition(name),
            Test::Expression(text) => Ok((condition(text, environment.is_secure)?, Vec::new())),
            Test::Condition(text) => Ok((text.clone(), Vec::new())),
            Test::OneOf(lists) => {
                let (mut conditions, mut lines) = (Vec::new(), Vec::new());
                for list in lists {
                    let mut all = Vec::new();
                    for test in list {
                        let (condition, from) = test.condition(environment)?;
                        all.push(format!("({condition})"));
                        lines.extend(from);
                    }
                    conditions.push(all.join(" and "));
                }
                Ok((conditions.join(" or "), lines))
            }
        }
    }
}

/// The access directives that apply. Two modules of Apache keep them, and each uses the last section with any
/// of its own: `Require` and its groups, and `Order`, `Allow`, `Deny` and `Satisfy`.
struct AccessDirectives<'d> {
    /// The `AuthMerging` of the section with these, if it adds the rules of the sections around it.
    merging: Option<&'d Directive>,
    requires: Vec<&'d Directive>,
    hosts: Vec<&'d Directive>,
    /// `SSLVerifyClient` and `SSLRequire`, which hold besides them.
    of_tls: Vec<&'d Directive>,
}

impl<'d> AccessDirectives<'d> {
    fn of(area: &Area<'d>) -> AccessDirectives<'d> {
        const REQUIRES: [&str; 4] = ["require", "requireall", "requireany", "requirenone"];
        let named_in = |section: &&'d Directive, names: &[&str]| -> Vec<&'d Directive> {
            section.inside().iter().filter(|one| names.iter().any(|name| is(one, name))).collect()
        };
        let last = |names: &[&str]| {
            let found = area.sections.iter().rev().map(|section| named_in(section, names));
            found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
        };
        let sections = area.sections.iter().rev().filter(|section| !named_in(section, &REQUIRES).is_empty());
        let merging = |section: &&'d Directive| {
            section
                .inside()
                .iter()
                .rfind(|one| is(one, "AuthMerging"))
                .filter(|one| !one.argument(0).eq_ignore_ascii_case("off"))
        };
        AccessDirectives {
            merging: sections.into_iter().next().and_then(merging),
            requires: last(&REQUIRES),
            hosts: last(&["order", "allow", "deny", "satisfy"]),
            of_tls: area.one("SSLVerifyClient").into_iter().chain(area.every("SSLRequire")).collect(),
        }
    }

    /// All of them, in the order in which problems name them.
    fn lines(&self) -> Vec<&'d Directive> {
        self.requires.iter().chain(&self.hosts).chain(&self.of_tls).copied().collect()
    }

    /// Which clients they admit.
    fn access(&self) -> Access {
        let mut access = self.of_clients();
        for line in &self.of_tls {
            match is(line, "SSLRequire") {
                true => access.needed.push(expression(line, 0)),
                false if line.argument(0).eq_ignore_ascii_case("require") => {
                    access.needed.push(Test::Condition(HAS_CERTIFICATE.to_string()));
                }
                false => {}
            }
        }
        access
    }

    fn of_clients(&self) -> Access {
        let users = decide(&self.requires, false);
        let mut hosts = of_hosts(&self.hosts);
        hosts.problems.iter_mut().for_each(|(index, _)| *index += self.requires.len());
        let satisfy = self.hosts.iter().rposition(|one| is(one, "satisfy"));
        match satisfy.filter(|at| self.hosts[*at].argument(0).eq_ignore_ascii_case("any")) {
            Some(at) => either(hosts, users, !self.requires.is_empty(), self.requires.len() + at),
            None => users.and(hosts),
        }
    }
}

/// The conditions under which requests are refused, besides addresses and users, with the directives that set
/// their variables.
pub fn refusals<'d>(area: &Area<'_>, environment: &Environment<'d>) -> Vec<(String, Vec<&'d Directive>)> {
    let access = AccessDirectives::of(area).access();
    let refused = access.refused.iter().map(|test| test.condition(environment));
    let needed = access.needed.iter().map(|test| {
        test.condition(environment).map(|(condition, from)| (format!("not ({condition})"), from))
    });
    refused.chain(needed).filter_map(Result::ok).collect()
}

/// Writes which clients are allowed; returns whether all are refused. The routes of [`refusals`] must be
/// before it.
pub fn write(
    area: &Area<'_>,
    environment: &Environment<'_>,
    route: &mut Section,
    account: &mut Account,
) -> bool {
    let deciding = AccessDirectives::of(area);
    let (directives, mut access) = (deciding.lines(), deciding.access());
    for test in access.needed.iter().chain(&access.refused) {
        if let Err(advice) = test.condition(environment) {
            access.problems.push((directives.len().saturating_sub(1), format!("{advice}: {SHUT}")));
            access.is_shut = true;
        }
    }
    for (index, directive) in directives.iter().enumerate() {
        match access.problems.iter().find(|(at, _)| *at == index) {
            Some((_, advice)) => account.problem(directive, route, advice),
            None => account.translated(directive, route),
        }
    }
    if let Some(merging) = deciding.merging {
        let advice = "all clients are refused: write the rules of this section and those around it as one";
        account.problem(merging, route, advice);
        access.is_shut = true;
    }
    if access.is_shut {
        route.key("respond", "{ status = 403 }");
        return true;
    }
    if access.any {
        route.key("satisfy", toml_string("any"));
    }
    if !access.allow.is_empty() {
        route.key("allow", toml_strings(&access.allow));
    }
    if !access.deny.is_empty() {
        route.key("deny", toml_strings(&access.deny));
    }
    if access.needs_user {
        users(area, &access.claims, route, account);
    }
    false
}

/// Writes how users are known: by a password, or by a login at a provider.
fn users(area: &Area<'_>, claims: &[String], route: &mut Section, account: &mut Account) {
    let kind = area.one("AuthType");
    let is_login = |kind: &&Directive| {
        matches!(kind.argument(0).to_ascii_lowercase().as_str(), "openid-connect" | "auth-openidc")
    };
    if let Some(kind) = kind.filter(is_login) {
        match oidc::login(area, claims, "[site.route.login]", route, account) {
            Ok(()) => account.translated(kind, route),
            Err(advice) => {
                account.problem(kind, route, &advice);
                route.key("respond", "{ status = 403 }");
            }
        }
        return;
    }
    let file = area.one("AuthUserFile");
    let realm = area.one("AuthName");
    for directive in [kind, file, realm].into_iter().flatten() {
        account.translated(directive, route);
    }
    let realm = realm.map_or("Restricted", |realm| realm.argument(0));
    match (kind.map(|kind| kind.argument(0).to_ascii_lowercase()).as_deref(), file) {
        (Some("basic") | None, Some(file)) => {
            let (file, realm) = (toml_string(file.argument(0)), toml_string(realm));
            route.key("basic_authentication", format!("{{ file = {file}, realm = {realm} }}"));
        }
        _ => {
            let directive = kind.or(file).or(AccessDirectives::of(area).lines().first().copied());
            let advice = "users come from a file of Basic authentication (docs/access.md); until one is \
                          named, all are refused";
            if let Some(directive) = directive {
                account.problem(directive, route, advice);
            }
            route.key("respond", "{ status = 403 }");
        }
    }
}

/// The meaning of `Require` and its groups; with `all_are_asked` all must hold, as in `<RequireAll>`.
fn decide(directives: &[&Directive], all_are_asked: bool) -> Access {
    let mut children = Vec::new();
    for (index, directive) in directives.iter().enumerate() {
        let inside: Vec<&Directive> = directive.inside().iter().collect();
        let mut child = match directive.name.to_ascii_lowercase().as_str() {
            "requireall" => decide(&inside, true),
            "requireany" => decide(&inside, false),
            "requirenone" => none_of(&decide(&inside, true)),
            "require" => require(directive),
            _ => Access::unknown(),
        };
        child.problems.iter_mut().for_each(|(at, _)| *at = index);
        children.push((index, child));
    }
    match all_are_asked {
        true => children.into_iter().fold(Access::default(), |sum, (_, child)| sum.and(child)),
        false => any_of(children),
    }
}

/// `<RequireNone>`: clients for which none of this holds.
fn none_of(inner: &Access) -> Access {
    let mut none = Access { refused: inner.needed.clone(), deny: inner.allow.clone(), ..Access::default() };
    if inner.needs_user || !inner.refused.is_empty() || !inner.problems.is_empty() || inner.is_shut {
        none = Access::unknown();
    }
    none
}

/// `<RequireAny>`, and several `Require` of a section: one is enough.
fn any_of(children: Vec<(usize, Access)>) -> Access {
    let children = with_tests_as_one(children);
    let last = children.len().saturating_sub(1);
    let mut sum = Access { is_shut: !children.is_empty(), ..Access::default() };
    let (mut networks, mut users, mut both, mut variables) = (false, false, false, 0);
    for (_, child) in children {
        sum.is_shut &= child.is_shut;
        sum.problems.extend(child.problems);
        // A group without a condition of its own only refuses.
        sum.refused.extend(child.refused);
        sum.deny.extend(child.deny);
        if child.is_shut {
            continue;
        }
        sum.is_open |= child.is_open;
        variables += child.needed.len();
        networks |= !child.allow.is_empty() && (child.any || !child.needs_user);
        users |= child.needs_user && (child.any || child.allow.is_empty());
        both |= !child.any && child.needs_user && !child.allow.is_empty();
        sum.allow.extend(child.allow);
        sum.needs_user |= child.needs_user;
        sum.claims.extend(child.claims);
        sum.needed.extend(child.needed);
    }
    if sum.is_open {
        let Access { deny, refused, problems, .. } = sum;
        return Access { deny, refused, problems, is_open: true, ..Access::default() };
    }
    sum.any = networks && users && !both;
    if both && (networks || users) {
        sum.problems.push((last, BOTH.to_string()));
    }
    if variables > 0 && (variables > 1 || !sum.allow.is_empty() || sum.needs_user) {
        // What admits requests without a user admits none; all others are asked for their user.
        sum.needed.clear();
        sum.is_shut = !sum.needs_user;
        sum.problems.push((last, NO_USER.to_string()));
    }
    sum
}

/// Ways to be admitted of which at least one is a test of the request, and none asks for a user, as one test.
fn with_tests_as_one(children: Vec<(usize, Access)>) -> Vec<(usize, Access)> {
    let is_way = |child: &Access| !child.is_shut && !child.allow.is_empty() | !child.needed.is_empty();
    let has_test = children.iter().any(|(_, child)| is_way(child) && !child.needed.is_empty());
    let ways = children.iter().filter(|(_, child)| is_way(child)).count();
    let is_simple = |child: &Access| {
        let is_only_way = child.deny.is_empty() && child.refused.is_empty() && !child.is_open;
        !child.needs_user && (child.is_shut || is_way(child) && is_only_way)
    };
    if ways < 2 || !has_test || !children.iter().all(|(_, child)| is_simple(child)) {
        return children;
    }
    let mut problems = Vec::new();
    let mut lists = Vec::new();
    let last = children.last().map_or(0, |(index, _)| *index);
    for (_, child) in children {
        problems.extend(child.problems);
        if child.is_shut {
            continue;
        }
        let networks: Result<Vec<String>, String> =
            child.allow.iter().map(|network| networks::condition(network)).collect();
        let networks = networks.ok().filter(|networks| !networks.is_empty());
        let networks = networks.map(|networks| Test::Condition(networks.join(" or ")));
        lists.push(child.needed.into_iter().chain(networks).collect());
    }
    vec![(last, Access { needed: vec![Test::OneOf(lists)], problems, ..Access::default() })]
}

/// The client has a certificate that was verified.
const HAS_CERTIFICATE: &str = "$tls_verified == 'SUCCESS'";

const NO_USER: &str = "all clients are asked for their user here: write a route for the other way";

const BOTH: &str = "the network and the password are both required here: write a route for each way";

/// The meaning of `Order`, `Allow` and `Deny`. Without `Order`, `Deny` is looked at first.
fn of_hosts(directives: &[&Directive]) -> Access {
    let mut access = Access::default();
    let order = directives.iter().rfind(|one| is(one, "order"));
    let denies_first = order.is_none_or(|order| order.argument(0).to_ascii_lowercase().starts_with("deny"));
    let (mut allows_all, mut denies_all, mut allows) = (false, false, false);
    let (mut named, mut unknown) = (Vec::new(), Vec::new());
    for (index, directive) in directives.iter().enumerate() {
        let is_allow = is(directive, "allow");
        if !is_allow && !is(directive, "deny") {
            continue;
        }
        allows |= is_allow;
        for word in directive.arguments.get(1..).unwrap_or_default() {
            let lower = word.to_ascii_lowercase();
            let network = full(&lower);
            match (lower.as_str(), word.strip_prefix("env="), network) {
                ("all", _, _) if is_allow => allows_all = true,
                ("all", _, _) => denies_all = true,
                (_, Some(name), _) if is_allow => access.needed.push(Test::Variable(name.to_string())),
                (_, Some(name), _) => access.refused.push(Test::Variable(name.to_string())),
                ("localhost", _, _) => {
                    let list = if is_allow { &mut access.allow } else { &mut access.deny };
                    list.extend(["127.0.0.0/8", "::1"].map(String::from));
                }
                (_, _, Some(network)) if is_allow => access.allow.push(network),
                (_, _, Some(network)) => access.deny.push(network),
                (_, _, None) if is_allow => named.push(index),
                (_, _, None) => unknown.push((index, SHUT.to_string())),
            }
        }
    }
    for index in named {
        access.problems.push((index, "clients have addresses here, and no names".to_string()));
    }
    if denies_first {
        // Clients that no rule names are admitted, and 'Allow' counts before 'Deny'.
        let names_one = !access.allow.is_empty() || !access.needed.is_empty();
        access.is_shut = denies_all && !allows_all && !names_one;
        if allows_all || !denies_all && access.deny.is_empty() && access.refused.is_empty() {
            access = Access { problems: access.problems, ..Access::default() };
        } else if !denies_all && !access.deny.is_empty() && !access.allow.is_empty() {
            access.allow.extend(EVERYONE.map(str::to_string));
        }
    } else {
        // Clients that no rule names are refused, and 'Deny' counts before 'Allow'.
        let deny = access.deny.clone();
        access.allow.retain(|network| !deny.iter().any(|outer| covers(outer, network)));
        let names_one = !access.allow.is_empty() || !access.needed.is_empty();
        access.is_shut = denies_all || !allows_all && !names_one && (order.is_some() || allows);
        if allows_all {
            access.allow.clear();
            access.needed.clear();
        }
    }
    // Without the names of a 'Deny' it would admit more clients.
    let admits_all = denies_first && allows_all;
    access.is_shut |= !unknown.is_empty() && !admits_all;
    access.problems.extend(unknown);
    access
}

/// `Satisfy Any`: an admitted address or a known user is enough. `has_require`: there are rules on users.
fn either(hosts: Access, users: Access, has_require: bool, index: usize) -> Access {
    if !has_require {
        return hosts;
    }
    if users.is_shut {
        return Access { problems: [hosts.problems, users.problems].concat(), ..hosts };
    }
    if hosts.is_shut {
        return Access { problems: [hosts.problems, users.problems].concat(), ..users };
    }
    let everyone = || EVERYONE.map(str::to_string).to_vec();
    let hosts_name_all = hosts.allow.is_empty() && hosts.needed.is_empty();
    let is_simple = hosts.needed.is_empty()
        && hosts.refused.is_empty()
        && users.needed.is_empty()
        && users.refused.is_empty()
        && users.deny.is_empty()
        && !(users.needs_user && !users.allow.is_empty() && !users.any);
    let users_name_all = !users.needs_user && users.allow.is_empty();
    match () {
        () if hosts_name_all && hosts.deny.is_empty() && hosts.refused.is_empty() => Access::default(),
        () if !is_simple => {
            let mut both = users.and(hosts);
            both.problems.push((index, BOTH.to_string()));
            both
        }
        () if users_name_all => Access { problems: users.problems, ..Access::default() },
        () => Access {
            allow: if hosts.allow.is_empty() {
                everyone()
            } else {
                [hosts.allow, users.allow.clone()].concat()
            },
            deny: hosts.deny,
            any: users.needs_user,
            problems: [hosts.problems, users.problems.clone()].concat(),
            ..users
        },
    }
}

const SHUT: &str = "it admits no client until you write 'allow' or 'basic_authentication' in its place";
const USERS: &str = "no client is admitted until you copy the lines of these users to their own file, and \
                     write 'basic_authentication' with it in place of 'respond'";

impl Access {
    /// What a rule without a counterpart admits: no client, so that it opens nothing.
    fn unknown() -> Access {
        Access { is_shut: true, ..Access::default() }.with_problem(SHUT)
    }

    fn with_problem(mut self, advice: &str) -> Access {
        self.problems.push((0, advice.to_string()));
        self
    }

    /// Both must hold.
    fn and(mut self, other: Access) -> Access {
        let restricts = |one: &Access| one.needs_user || !one.allow.is_empty() || !one.deny.is_empty();
        let is_lost = self.any && restricts(&other) || other.any && restricts(&self);
        if is_lost {
            let index = other.problems.first().map_or(0, |(index, _)| *index);
            self.problems.push((index, BOTH.to_string()));
        }
        self.any = (self.any || other.any) && !is_lost;
        self.is_shut |= other.is_shut;
        self.is_open &= other.is_open;
        self.needs_user |= other.needs_user;
        self.allow = match (self.allow.is_empty(), other.allow.is_empty()) {
            (false, false) => {
                let shared = intersection(&self.allow, &other.allow);
                self.is_shut |= shared.is_empty();
                shared
            }
            _ => [self.allow, other.allow].concat(),
        };
        self.deny.extend(other.deny);
        self.claims.extend(other.claims);
        self.needed.extend(other.needed);
        self.refused.extend(other.refused);
        self.problems.extend(other.problems);
        self
    }
}

/// The networks whose clients are in both lists.
fn intersection(one: &[String], other: &[String]) -> Vec<String> {
    let within = |list: &[String], outer: &[String]| -> Vec<String> {
        let is_in = |network: &&String| outer.iter().any(|outer| covers(outer, network));
        list.iter().filter(is_in).cloned().collect()
    };
    let mut shared = within(one, other);
    for network in within(other, one) {
        if !shared.contains(&network) {
            shared.push(network);
        }
    }
    shared
}

/// One `Require`.
fn require(directive: &Directive) -> Access {
    let mut access = Access::default();
    let words: Vec<String> = directive.arguments.iter().map(|word| word.to_ascii_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let networks =
        |networks: &[&str]| -> Option<Vec<String>> { networks.iter().map(|one| full(one)).collect() };
    match words.as_slice() {
        ["all", "granted"] => access.is_open = true,
        ["all", "denied"] => access.is_shut = true,
        ["ip", list @ ..] => match networks(list) {
            Some(list) => access.allow = list,
            None => return Access::unknown(),
        },
        ["not", "ip", list @ ..] => match networks(list) {
            Some(list) => access.deny = list,
            None => return Access::unknown(),
        },
        ["local"] => access.allow.extend(["127.0.0.0/8", "::1"].map(String::from)),
        ["host", names @ ..] if !names.is_empty() && names.iter().all(|name| *name == "localhost") => {
            access.allow.extend(["127.0.0.0/8", "::1"].map(String::from));
        }
        ["valid-user"] => access.needs_user = true,
        ["ssl"] => access.needed.push(Test::Condition("$scheme == 'https'".to_string())),
        ["ssl-verify-client"] => access.needed.push(Test::Condition(HAS_CERTIFICATE.to_string())),
        // The names of variables and claims keep their case.
        ["env", _, ..] => access.needed.extend(one_of(variables(directive, 1))),
        ["not", "env", _, ..] => access.refused.extend(variables(directive, 2)),
        ["expr", ..] => access.needed.push(expression(directive, 1)),
        ["not", "expr", ..] => access.refused.push(expression(directive, 2)),
        ["method", methods @ ..] | ["not", "method", methods @ ..] => {
            let Some(test) = of_methods(methods) else { return Access::unknown() };
            let list = if words[0] == "not" { &mut access.refused } else { &mut access.needed };
            list.push(test);
        }
        ["claim", ..] => {
            access.needs_user = true;
            for claim in directive.arguments.get(1..).unwrap_or_default() {
                match claim.split_once(':') {
                    Some((name, value)) if !name.contains('~') => {
                        access.claims.push(format!("{name}={value}"))
                    }
                    _ => {
                        let advice = "a claim has a fixed value: no client is admitted until you write one";
                        access.problems.push((0, advice.to_string()));
                        access.is_shut = true;
                    }
                }
            }
            if access.claims.len() > 1 {
                let advice = "all claims are asked for here; for one of several, write a route for each";
                access.problems.push((0, advice.to_string()));
            }
        }
        ["user" | "group", ..] => {
            access.is_shut = true;
            access.problems.push((0, USERS.to_string()));
        }
        _ => return Access::unknown(),
    }
    access
}

/// The variables that a `Require env` names; their names keep their case.
fn variables(directive: &Directive, from: usize) -> impl Iterator<Item = Test> + '_ {
    directive.arguments.get(from..).unwrap_or_default().iter().cloned().map(Test::Variable)
}

/// One of several tests is enough.
fn one_of(tests: impl Iterator<Item = Test>) -> Option<Test> {
    let mut lists: Vec<Vec<Test>> = tests.map(|test| vec![test]).collect();
    match lists.len() {
        0 | 1 => lists.pop().and_then(|mut list| list.pop()),
        _ => Some(Test::OneOf(lists)),
    }
}

/// The expression of `Require expr`. Written without quotes around it, its words have lost theirs: one that
/// is neither a variable nor a sign is a text.
fn expression(directive: &Directive, from: usize) -> Test {
    const SIGNS: [&str; 12] = ["=", "==", "!=", "=~", "!~", "&&", "||", "!", "(", ")", "and", "or"];
    let is_text = |word: &str| {
        !word.starts_with(['%', '-', '/', '(', '!', '{', '\'', '"'])
            && !["m#", "m|", "req(", "http(", "tolower("].iter().any(|begin| word.starts_with(begin))
            && !SIGNS.contains(&word)
            && !word.contains('\'')
            && word.parse::<u64>().is_err()
    };
    let words = directive.arguments.get(from..).unwrap_or_default();
    let written = |word: &String| {
        if words.len() > 1 && is_text(word) { format!("'{word}'") } else { word.clone() }
    };
    Test::Expression(words.iter().map(written).collect::<Vec<String>>().join(" "))
}

/// The test that the method is one of these; GET includes HEAD.
fn of_methods(methods: &[&str]) -> Option<Test> {
    let mut all: Vec<String> = methods.iter().map(|one| format!("'{}'", one.to_ascii_uppercase())).collect();
    if methods.contains(&"get") && !methods.contains(&"head") {
        all.push("'HEAD'".to_string());
    }
    let is_name = |one: &&str| !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_known = !methods.is_empty() && methods.iter().all(is_name);
    is_known.then(|| Test::Condition(format!("$method in [{}]", all.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn access(text: &str) -> Access {
        let directives = parse("a.conf", text).unwrap();
        let with_age = |old: bool| {
            let names = ["order", "allow", "deny", "satisfy"];
            directives.iter().filter(|one| names.iter().any(|name| is(one, name)) == old).collect()
        };
        AccessDirectives {
            merging: None,
            requires: with_age(false),
            hosts: with_age(true),
            of_tls: Vec::new(),
        }
        .access()
    }

    #[test]
    fn tests_of_requests() {
        let environment = Environment::of([].iter());
        for (text, needed, refused) in [
            ("Require method GET", "$method in ['GET', 'HEAD']", ""),
            (
                "<RequireAll>\nRequire not method DELETE\nRequire all granted\n</RequireAll>",
                "",
                "$method in ['DELETE']",
            ),
            ("Require expr \"%{HTTP_USER_AGENT} != 'Bad'\"", "$header{user-agent} != 'Bad'", ""),
            ("Require expr %{HTTP_USER_AGENT} != 'Bad'", "$header{user-agent} != 'Bad'", ""),
            (
                "Require expr %{REQUEST_URI} =~ m#^/a# || %{HTTPS} == 'on'",
                "$path =~ '^/a' or 'off' == 'on'",
                "",
            ),
            (
                "Require ip 10.0.0.0/8\nRequire method GET",
                "($map{network-10-0-0-0_8}) or ($method in ['GET', 'HEAD'])",
                "",
            ),
        ] {
            let access = access(text);
            let shown = |tests: &[Test]| {
                let all: Result<Vec<_>, _> = tests.iter().map(|one| one.condition(&environment)).collect();
                all.unwrap().into_iter().map(|(text, _)| text).collect::<Vec<_>>().join(", ")
            };
            assert_eq!((shown(&access.needed).as_str(), shown(&access.refused).as_str()), (needed, refused));
            assert!(access.problems.is_empty() && !access.is_shut && access.allow.is_empty(), "{text}");
        }
    }

    #[test]
    fn what_has_no_counterpart_admits_no_client() {
        for text in [
            "Require user alice bob",
            "Require group staff",
            "Require not user alice",
            "Require ldap-group x",
            "Require method",
            "Require env",
            "Order allow,deny\nAllow from all\nDeny from bad.example.org",
            "Order deny,allow\nDeny from bad.example.org",
            "Require claim a~b:c",
        ] {
            let access = access(text);
            assert!(access.is_shut && !access.problems.is_empty(), "{text}: {access:?}");
        }
        // Another way remains open.
        let both = access("Require user alice\nRequire ip 10.0.0.0/8");
        assert!(!both.is_shut && both.allow == ["10.0.0.0/8"] && both.problems.len() == 1, "{both:?}");
        let any = access("Order deny,allow\nDeny from all\nAllow from 10\nSatisfy any\nRequire user a");
        assert!(!any.is_shut && any.allow == ["10.0.0.0/8"] && any.problems.len() == 1, "{any:?}");
        // Users are asked for, and other requests are not admitted by a test alone.
        let user = access("Require valid-user\nRequire method GET");
        assert!(user.needs_user && user.needed.is_empty() && user.problems.len() == 1, "{user:?}");
    }

    #[test]
    fn one_of_an_address_and_a_password() {
        let old = "AuthType Basic\nRequire valid-user\n";
        let old = old.trim_start_matches("AuthType Basic\n");
        for (text, is_any, allow, needs_user, problems) in [
            ("Require ip 10.0.0.0/8\nRequire valid-user".to_string(), true, &["10.0.0.0/8"][..], true, 0),
            (
                "<RequireAny>\nRequire local\nRequire valid-user\n</RequireAny>".to_string(),
                true,
                &["127.0.0.0/8", "::1"],
                true,
                0,
            ),
            (
                "<RequireAll>\nRequire ip 10\nRequire valid-user\n</RequireAll>".to_string(),
                false,
                &["10.0.0.0/8"],
                true,
                0,
            ),
            ("Require all granted\nRequire valid-user".to_string(), false, &[], false, 0),
            ("Require all denied\nRequire valid-user".to_string(), false, &[], true, 0),
            // A group of both beside another way cannot be expressed.
            (
                "Require local\n<RequireAll>\nRequire ip 10\nRequire valid-user\n</RequireAll>".to_string(),
                false,
                &["127.0.0.0/8", "::1", "10.0.0.0/8"],
                true,
                1,
            ),
            (
                "<RequireAll>\n<RequireAny>\nRequire ip 10\nRequire valid-user\n</RequireAny>\n\
                Require not ip 10.1\n</RequireAll>"
                    .to_string(),
                false,
                &["10.0.0.0/8"],
                true,
                1,
            ),
            (
                format!("{old}Order deny,allow\nDeny from all\nAllow from 10.0.0.0/8\nSatisfy Any"),
                true,
                &["10.0.0.0/8"],
                true,
                0,
            ),
            (
                format!("{old}Order deny,allow\nDeny from all\nAllow from 10.0.0.0/8"),
                false,
                &["10.0.0.0/8"],
                true,
                0,
            ),
            (format!("{old}Order deny,allow\nDeny from all\nSatisfy Any"), false, &[], true, 0),
            (format!("{old}Order allow,deny\nAllow from all\nSatisfy Any"), false, &[], false, 0),
            (format!("{old}Satisfy Any"), false, &[], false, 0),
            (
                format!("{old}Order allow,deny\nAllow from all\nDeny from 10.1\nSatisfy Any"),
                true,
                &["0.0.0.0/0", "::/0", "unix:"],
                true,
                0,
            ),
            (format!("{old}Allow from env=Good\nDeny from all\nSatisfy any"), false, &[], true, 1),
        ] {
            let found = access(&text);
            let got = (found.any, found.allow.clone(), found.needs_user, found.problems.len());
            let allow = allow.iter().map(|one| (*one).to_string()).collect::<Vec<_>>();
            assert_eq!(got, (is_any, allow, needs_user, problems), "{text}: {found:?}");
            assert!(!found.is_shut, "{text}");
        }
    }

    #[test]
    fn what_order_refuses() {
        for (text, is_shut, allow, deny) in [
            ("Order allow,deny\nDeny from 10.1", true, &[][..], &["10.1.0.0/16"][..]),
            ("Order allow,deny\nAllow from 10.1.1.1\nDeny from 10.1", true, &[], &["10.1.0.0/16"]),
            ("Order allow,deny\nAllow from 10\nDeny from 10.1", false, &["10.0.0.0/8"], &["10.1.0.0/16"]),
            ("Order deny,allow\nDeny from all\nAllow from localhost", false, &["127.0.0.0/8", "::1"], &[]),
            ("Order deny,allow\nDeny from 10.0.0.0/255.0.0.0", false, &[], &["10.0.0.0/8"]),
            ("Order deny,allow\nAllow from 10", false, &[], &[]),
            ("Order deny,allow\nDeny from all\nAllow from example.org", true, &[], &[]),
            ("Deny from all", true, &[], &[]),
            ("Order allow,deny", true, &[], &[]),
        ] {
            let found = access(text);
            assert_eq!(
                (found.is_shut, &found.allow[..], &found.deny[..]),
                (
                    is_shut,
                    &allow.iter().map(|one| (*one).to_string()).collect::<Vec<_>>()[..],
                    &deny.iter().map(|one| (*one).to_string()).collect::<Vec<_>>()[..]
                ),
                "{text}"
            );
        }
        // Each module has its own rules: the password stays.
        let both = access("Require valid-user\nOrder allow,deny\nAllow from all");
        assert!(both.needs_user && !both.any && both.allow.is_empty());
        let both = access("<RequireAll>\nRequire ip 10\nRequire ip 10.1 11\n</RequireAll>");
        assert_eq!(both.allow, ["10.1.0.0/16"]);
        assert!(access("<RequireAll>\nRequire ip 10\nRequire ip 11\n</RequireAll>").is_shut);
    }

    #[test]
    fn a_rule_without_a_counterpart_admits_no_client() {
        for (text, is_shut) in [
            ("Require host a.org", true),
            ("Require host example.com", true),
            ("Require ip 10.0.0.0/8\nRequire host b.org", false),
            ("<RequireAll>\nRequire ip 10.0.0.0/8\nRequire host b.org\n</RequireAll>", true),
            (
                "<RequireAll>\nRequire all granted\n<RequireNone>\nRequire host b.org\n</RequireNone>\n\
                 </RequireAll>",
                true,
            ),
        ] {
            let found = access(text);
            assert_eq!((found.is_shut, found.problems.len()), (is_shut, 1), "{text}");
        }
    }

    #[test]
    fn who_is_let_in() {
        assert!(access("Require all denied").is_shut && !access("Require all granted").is_shut);
        assert_eq!(access("Require ip 10.1 192.0.2.1").allow, ["10.1.0.0/16", "192.0.2.1"]);
        assert!(access("Order deny,allow\nDeny from all").is_shut);
        assert!(access("Order allow,deny\nAllow from all\nDeny from 192.0.2.1").deny == ["192.0.2.1"]);
        let some = access("Order deny,allow\nDeny from all\nAllow from 10.0.0.0/8");
        assert!(!some.is_shut && some.allow == ["10.0.0.0/8"]);
        let both = access("<RequireAll>\nRequire valid-user\nRequire ip 10.0.0.0/8\n</RequireAll>");
        assert!(both.needs_user && both.allow == ["10.0.0.0/8"] && both.problems.is_empty());
        assert_eq!(access("Require host a.org").problems.len(), 1);
        assert!(!access("Allow from all").is_shut && access("Deny from all").is_shut);
        assert!(access("Allow from all\nRequire all granted").problems.is_empty());
        let bad = access("Order allow,deny\nAllow from all\nDeny from env=Bad");
        let named = |name: &str| Test::Variable(name.to_string());
        assert!(bad.refused == [named("Bad")] && bad.needed.is_empty() && bad.problems.is_empty());
        let none = access(
            "<RequireAll>\nRequire all granted\nRequire not env Bad\n<RequireNone>\nRequire env Worse\n\
             Require ip 10.0.0.0/8\n</RequireNone>\n</RequireAll>",
        );
        assert!(none.refused == [named("Bad"), named("Worse")] && none.deny == ["10.0.0.0/8"], "{none:?}");
        assert_eq!(access("Require env Good").needed, [named("Good")]);
        assert_eq!(access("Require claim groups:a").claims, ["groups=a"]);
    }
}
