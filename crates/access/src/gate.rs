//! The access rules of a site or route together: addresses, rate, user.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::allow::AddressRules;
use super::basic::{self, BasicAuthentication, PendingCheck, User};
use super::client_table::Client;
use super::geoip::GeoRules;
use super::rate::{Limit, Rate};
use super::refusal::Refusal;
use super::shared::AccessShared;
use super::signed_link::SignedLinks;
use super::token::{self, Identity, PendingToken, TokenAuthentication};
use touchstone_config::{AccessConfig, AnyOf, NetworkSet, PasswordSource, RateLimitConfig};
use touchstone_expression::{AvailableFrom, Source, Text};
use touchstone_http::request_view::RequestView;

/// The rules of one site or route. It is `None` if no rules are configured, so that a request then costs only
/// one branch.
pub struct Gate {
    addresses: Option<Arc<AddressRules>>,
    places: Option<Arc<GeoRules>>,
    links: Option<Arc<SignedLinks>>,
    rate: Option<Arc<RateRule>>,
    user: Option<Authentication>,
    /// Clients with an admitted address are not asked who they are, and others must be known.
    any: bool,
    shared: Arc<AccessShared>,
}

/// A limit, and the key by which requests are counted together.
struct RateRule {
    limit: Limit,
    /// The key; `None`: the client's address.
    key: Option<Text>,
    /// The key has values that are determined only after the other rules, such as the user.
    is_late: bool,
}

impl RateRule {
    fn open(config: &RateLimitConfig, name: &impl Hash, shared: &AccessShared) -> Option<Arc<RateRule>> {
        let burst = if config.burst == 0 { config.requests } else { config.burst };
        let id = match (config.delay, config.key.as_ref().map_or("", Text::source)) {
            (0, "") => shared.limit_id(&(name, config.requests, config.per, burst)),
            (delay, key) => shared.limit_id(&(name, config.requests, config.per, burst, delay, key)),
        };
        let rate = Rate::new(config.requests, config.per, burst)?.with_delayed(config.delay);
        let is_late = config
            .key
            .as_ref()
            .is_some_and(|key| key.uses(&|variable| variable.known > AvailableFrom::Request));
        Some(Arc::new(RateRule { limit: Limit::new(id, rate), key: config.key.clone(), is_late }))
    }

    /// What the request is counted by; `None`: it is not counted.
    fn client(&self, request: &RequestView<'_>, shared: &AccessShared) -> Option<Client> {
        match &self.key {
            None => request.client.map(Client::of),
            Some(_) => self.client_of_key(request, shared),
        }
    }

    fn client_of_key(&self, source: &dyn Source, shared: &AccessShared) -> Option<Client> {
        let key = self.key.as_ref()?.render(source);
        (!key.is_empty()).then(|| shared.client_of_key(&key))
    }
}

/// The method by which users are authenticated.
#[derive(Clone)]
enum Authentication {
    /// By user name and password.
    Basic(Arc<BasicAuthentication>),
    /// By token.
    Token(Arc<TokenAuthentication>),
}

/// The decision about a request.
pub enum Verdict {
    /// The request is admitted.
    Proceed(AdmittedRequest),
    /// The request is refused with this answer.
    Refuse(Refusal),
    /// All other rules allow the request, but its credentials must be checked first.
    Verify(Verification),
}

/// Credentials to check.
pub enum Verification {
    /// A user name and a password.
    Password(PendingCheck),
    /// A token.
    Token(PendingToken),
}

/// The result for an allowed request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdmittedRequest {
    /// The authenticated user, if authentication was required.
    pub user: Option<User>,
    /// The identity from the user's token.
    pub identity: Option<Arc<Identity>>,
}

impl AdmittedRequest {
    fn user(user: User) -> AdmittedRequest {
        AdmittedRequest { user: Some(user), identity: None }
    }

    fn identity(identity: Arc<Identity>) -> AdmittedRequest {
        AdmittedRequest { user: identity.user.clone(), identity: Some(identity) }
    }

    /// Header fields that a program or an origin gets in place of the client's fields. The list has all names
    /// of the rule, including those without a value.
    pub fn fields(&self) -> &[(Arc<str>, Option<String>)] {
        self.identity.as_ref().map_or(&[], |identity| &identity.fields)
    }
}

impl Verification {
    /// Checks the credentials. Must be called within a tokio runtime.
    pub async fn run(self) -> Result<AdmittedRequest, Refusal> {
        match self {
            Verification::Password(check) => check.run().await.map(AdmittedRequest::user),
            Verification::Token(check) => check.run().await.map(AdmittedRequest::identity),
        }
    }
}

/// The part of the check that does not need to wait.
enum GateDecision {
    Admitted(AdmittedRequest),
    Refuse(Refusal),
    Verify(Verification),
}

impl Authentication {
    fn decide(&self, request: &RequestView<'_>) -> GateDecision {
        match self {
            Authentication::Basic(basic) => match basic.check_quickly(request) {
                basic::PasswordCheck::Verified(user) => GateDecision::Admitted(AdmittedRequest::user(user)),
                basic::PasswordCheck::Refuse(refusal) => GateDecision::Refuse(refusal),
                basic::PasswordCheck::Check(check) => GateDecision::Verify(Verification::Password(check)),
            },
            Authentication::Token(token) => match token.check_quickly(request) {
                token::TokenCheck::Verified(identity) => {
                    GateDecision::Admitted(AdmittedRequest::identity(identity))
                }
                token::TokenCheck::Refuse(refusal) => GateDecision::Refuse(refusal),
                token::TokenCheck::Verify(check) => GateDecision::Verify(Verification::Token(check)),
            },
        }
    }

    /// A client that need not be known: the fields of a user are removed from its request.
    fn unknown(&self) -> AdmittedRequest {
        match self {
            Authentication::Basic(_) => AdmittedRequest::default(),
            Authentication::Token(token) if !token.makes_fields() => AdmittedRequest::default(),
            Authentication::Token(token) => AdmittedRequest::identity(token.unknown()),
        }
    }

    fn is_same(&self, other: &Authentication) -> bool {
        match (self, other) {
            (Authentication::Basic(one), Authentication::Basic(other)) => Arc::ptr_eq(one, other),
            (Authentication::Token(one), Authentication::Token(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Gate {
    /// The gate of a site; `None` if nothing is configured. `name` identifies its rate limit, also after a
    /// reload. The error lists all problems of its password file.
    pub fn open(
        config: &AccessConfig,
        name: &impl Hash,
        shared: &Arc<AccessShared>,
    ) -> Result<Option<Arc<Gate>>, Vec<String>> {
        Gate::open_below(None, (config, config.any_of(None)), name, shared)
    }

    /// The gate of a route in a site. A route inherits each rule that it does not set itself. `allow` and
    /// `deny` belong together: a route that sets one inherits neither. `any` is that of the route with what
    /// it inherits.
    pub fn open_below(
        site: Option<&Arc<Gate>>,
        (config, any): (&AccessConfig, Option<AnyOf>),
        name: &impl Hash,
        shared: &Arc<AccessShared>,
    ) -> Result<Option<Arc<Gate>>, Vec<String>> {
        if let (Some(site), true) = (site, *config == AccessConfig::default()) {
            return Ok(Some(site.clone()));
        }
        let addresses = AddressRules::new(&config.allow, &config.deny).map(Arc::new);
        let places = config.geoip.as_ref().map(|rules| {
            let exempt = NetworkSet::new(&config.allow);
            shared.geoip().and_then(|geoip| GeoRules::new(rules, exempt, &geoip)).map(Arc::new)
        });
        let rate = config.rate_limit.as_ref().map(|limit| RateRule::open(limit, name, shared));
        let links = match &config.signed_link {
            Some(link) => Some(SignedLinks::open(link).map_err(|problem| vec![problem])?.map(Arc::new)),
            None => None,
        };
        let user = Gate::authentication(config, shared)?;
        let mut gate = Gate {
            addresses: addresses.or_else(|| site.and_then(|site| site.addresses.clone())),
            places: places.unwrap_or_else(|| site.and_then(|site| site.places.clone())),
            links: links.unwrap_or_else(|| site.and_then(|site| site.links.clone())),
            rate: rate.unwrap_or_else(|| site.and_then(|site| site.rate.clone())),
            user: user.unwrap_or_else(|| site.and_then(|site| site.user.clone())),
            any: false,
            shared: shared.clone(),
        };
        // With addresses alone there is nothing to choose from.
        gate.any = any.is_some_and(|any| any.is_asked_later || gate.user.is_some());
        let is_empty = gate.addresses.is_none()
            && gate.places.is_none()
            && gate.links.is_none()
            && gate.rate.is_none()
            && gate.user.is_none();
        Ok((!is_empty).then(|| Arc::new(gate)))
    }

    /// How the keys of a site or route authenticate users; `None`: they do not set it.
    fn authentication(
        config: &AccessConfig,
        shared: &Arc<AccessShared>,
    ) -> Result<Option<Option<Authentication>>, Vec<String>> {
        if let Some(jwt) = &config.jwt {
            let token = TokenAuthentication::open(jwt, shared).map_err(|problem| vec![problem])?;
            return Ok(Some(token.map(Authentication::Token)));
        }
        let Some(basic) = &config.basic_authentication else { return Ok(None) };
        Ok(Some(match &basic.file {
            PasswordSource::Off => None,
            PasswordSource::File(path) => {
                let file = shared.password_file(path)?;
                let failures = basic.failures_per_minute;
                let basic = BasicAuthentication::new(file, &basic.realm, basic.remember, failures, shared);
                Some(Authentication::Basic(basic))
            }
        }))
    }

    /// Whether requests that pass the gate get additional header fields.
    pub fn makes_fields(&self) -> bool {
        matches!(&self.user, Some(Authentication::Token(token)) if token.makes_fields())
    }

    /// Decides about a request and counts it.
    pub fn check(&self, request: &RequestView<'_>) -> Verdict {
        self.check_behind(&[], request).1
    }

    /// Allows a request and counts it if no rule refuses it and no check must wait. Otherwise it has no
    /// effect; call [`Gate::check`] for the decision.
    pub fn admit_without_wait(&self, request: &RequestView<'_>) -> Option<AdmittedRequest> {
        if self.rate.as_ref().is_some_and(|rule| rule.is_late) { None } else { self.admit_part(request) }
    }

    /// Does the same for a part of a page, whose user was counted for the page.
    pub fn admit_part(&self, request: &RequestView<'_>) -> Option<AdmittedRequest> {
        let is_refused = !self.any && !self.allows(request);
        if is_refused || !self.allows_place(request) || self.check_link(request).is_err() {
            return None;
        }
        let admitted = match self.user.as_ref().map(|user| self.decide(user, request)) {
            None => AdmittedRequest::default(),
            Some(GateDecision::Admitted(admitted)) => admitted,
            Some(GateDecision::Refuse(_) | GateDecision::Verify(_)) => return None,
        };
        self.count_if_immediate(request).then_some(admitted)
    }

    /// Applies the rules that need no user. Returns how long the request must be delayed.
    fn check_without_user(&self, before: &[&Gate], request: &RequestView<'_>) -> Result<Duration, Refusal> {
        let is_new = |same: &dyn Fn(&Gate) -> bool| !before.iter().any(|gate| same(gate));
        let is_new_address = is_new(&|gate| !gate.any && same(&gate.addresses, &self.addresses));
        if !self.any && is_new_address && !self.allows(request) {
            return Err(Refusal::new(403));
        }
        if is_new(&|gate| same(&gate.places, &self.places)) && !self.allows_place(request) {
            return Err(Refusal::new(403));
        }
        if is_new(&|gate| same(&gate.links, &self.links)) {
            self.check_link(request)?;
        }
        match is_new(&|gate| same(&gate.rate, &self.rate)) {
            true => self.count(request),
            false => Ok(Duration::ZERO),
        }
    }

    /// Works as [`Gate::check`], but skips the rules that earlier gates have already applied.
    fn check_behind(&self, before: &[&Gate], request: &RequestView<'_>) -> (Duration, Verdict) {
        let is_new = |same: &dyn Fn(&Gate) -> bool| !before.iter().any(|gate| same(gate));
        let wait = match self.check_without_user(before, request) {
            Ok(wait) => wait,
            Err(refusal) => return (Duration::ZERO, Verdict::Refuse(refusal)),
        };
        // A gate that admits some clients by their address has not asked all clients who they are.
        let has_asked = |gate: &Gate| !gate.any || self.any && same(&gate.addresses, &self.addresses);
        let is_same = |gate: &Gate| match (&gate.user, &self.user) {
            (Some(one), Some(other)) => has_asked(gate) && one.is_same(other),
            _ => false,
        };
        let user = self.user.as_ref().filter(|_| is_new(&is_same));
        let verdict = match user.map(|user| self.decide(user, request)) {
            None => Verdict::Proceed(AdmittedRequest::default()),
            Some(GateDecision::Admitted(admitted)) => Verdict::Proceed(admitted),
            Some(GateDecision::Refuse(refusal)) => Verdict::Refuse(refusal),
            Some(GateDecision::Verify(check)) => Verdict::Verify(check),
        };
        (wait, verdict)
    }

    /// Whether the gate admits some clients by their address alone.
    pub fn may_excuse(&self) -> bool {
        self.any
    }

    /// Whether the address of the client is enough, so that nothing asks who the client is.
    pub fn excuses(&self, request: &RequestView<'_>) -> bool {
        self.any && self.allows(request)
    }

    /// Decides about the user, unless the client's address is enough.
    fn decide(&self, user: &Authentication, request: &RequestView<'_>) -> GateDecision {
        match self.excuses(request) {
            true => GateDecision::Admitted(user.unknown()),
            false => user.decide(request),
        }
    }

    fn allows(&self, request: &RequestView<'_>) -> bool {
        self.addresses.as_ref().is_none_or(|rules| rules.allows(request.client))
    }

    fn allows_place(&self, request: &RequestView<'_>) -> bool {
        self.places.as_ref().is_none_or(|rules| rules.allows(request.client))
    }

    fn check_link(&self, request: &RequestView<'_>) -> Result<(), Refusal> {
        let Some(links) = &self.links else { return Ok(()) };
        links.check(request, self.shared.unix_seconds())
    }

    /// Counts a request; returns how long it must be delayed.
    fn count(&self, request: &RequestView<'_>) -> Result<Duration, Refusal> {
        let Some(rule) = self.rate.as_ref().filter(|rule| !rule.is_late) else { return Ok(Duration::ZERO) };
        let Some(client) = rule.client(request, &self.shared) else { return Ok(Duration::ZERO) };
        let taken = rule.limit.count_delayed(&self.shared.clients, client, self.shared.now_ns());
        taken.map_err(Refusal::too_many)
    }

    /// Counts a request that need not wait; otherwise has no effect, and returns false.
    fn count_if_immediate(&self, request: &RequestView<'_>) -> bool {
        let Some(rule) = self.rate.as_ref().filter(|rule| !rule.is_late) else { return true };
        let Some(client) = rule.client(request, &self.shared) else { return true };
        rule.limit.count_without_delay(&self.shared.clients, client, self.shared.now_ns())
    }
}

/// Takes a request through several gates in order; rules that they share are applied once. Waits for slow
/// checks. If several gates authenticate a user, the last one counts.
pub async fn pass(gates: &[&Gate], request: &RequestView<'_>) -> Result<AdmittedRequest, Refusal> {
    let mut admitted = AdmittedRequest::default();
    for (position, gate) in gates.iter().enumerate() {
        let (wait, verdict) = gate.check_behind(&gates[..position], request);
        if !wait.is_zero() && !matches!(verdict, Verdict::Refuse(_)) {
            tokio::time::sleep(wait).await;
        }
        let now = match verdict {
            Verdict::Proceed(admitted) => admitted,
            Verdict::Refuse(refusal) => return Err(refusal),
            Verdict::Verify(check) => check.run().await?,
        };
        admitted.user = now.user.or(admitted.user);
        admitted.identity = now.identity.or(admitted.identity);
    }
    Ok(admitted)
}

/// Counts a request that has passed all rules, its user's authentication among them, by the values that are
/// determined since then. Delays it if necessary.
pub async fn count_admitted(gates: &[&Gate], request: &dyn Source) -> Result<(), Refusal> {
    let rules = gates.iter().enumerate().filter_map(|(position, gate)| {
        let rule = gate.rate.as_ref().filter(|rule| rule.is_late)?;
        let is_new = !gates[..position].iter().any(|before| same(&before.rate, &gate.rate));
        is_new.then_some((rule, &gate.shared))
    });
    for (rule, shared) in rules {
        let Some(client) = rule.client_of_key(request, shared) else { continue };
        let taken = rule.limit.count_delayed(&shared.clients, client, shared.now_ns());
        let wait = taken.map_err(Refusal::too_many)?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
    Ok(())
}

/// Does the same as [`pass`] for the rules that need no user.
pub fn pass_without_user(gates: &[&Gate], request: &RequestView<'_>) -> Result<(), Refusal> {
    let mut gates_before = (0..gates.len()).map(|position| (&gates[..position], gates[position]));
    gates_before.try_for_each(|(before, gate)| gate.check_without_user(before, request).map(|_| ()))
}

fn same<T>(one: &Option<Arc<T>>, other: &Option<Arc<T>>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if Arc::ptr_eq(one, other))
}
