//! The access rules of a site or route together: addresses, rate, user.

use std::hash::Hash;
use std::sync::Arc;

use super::allow::AddressRules;
use super::basic::{BasicAuthentication, Look, PendingCheck, User};
use super::client_table::Client;
use super::rate::{Limit, Rate};
use super::refusal::Refusal;
use super::shared::AccessShared;
use touchstone_config::{AccessConfig, PasswordSource};
use touchstone_http::request_view::RequestView;

/// The rules of one site or route. There is none ([`None`]) where nothing is configured, so that a request
/// there costs one branch.
pub struct Gate {
    addresses: Option<Arc<AddressRules>>,
    rate: Option<Arc<Limit>>,
    user: Option<Arc<BasicAuthentication>>,
    shared: Arc<AccessShared>,
}

/// What becomes of a request.
pub enum Verdict {
    /// It goes on.
    Proceed {
        /// Who asks, where that had to be said.
        user: Option<User>,
    },
    /// It is answered so.
    Refuse(Refusal),
    /// Its credentials must be checked first; nothing else stands in its way.
    Verify(PendingCheck),
}

/// A request that was let through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Who asks, where that had to be said.
    pub user: Option<User>,
}

impl Gate {
    /// The gate of a site; `None` where nothing is configured. `name` tells its rate limit from others, also
    /// after a reload. The error is everything that is wrong with its password file.
    pub fn open(
        config: &AccessConfig,
        name: &impl Hash,
        shared: &Arc<AccessShared>,
    ) -> Result<Option<Arc<Gate>>, Vec<String>> {
        Gate::open_below(None, config, name, shared)
    }

    /// The gate of a route in a site: what the route does not say for itself, the site says for it. `allow`
    /// and `deny` stand together: a route that has one of them has none of the site's.
    pub fn open_below(
        site: Option<&Arc<Gate>>,
        config: &AccessConfig,
        name: &impl Hash,
        shared: &Arc<AccessShared>,
    ) -> Result<Option<Arc<Gate>>, Vec<String>> {
        if let (Some(site), true) = (site, *config == AccessConfig::default()) {
            return Ok(Some(site.clone()));
        }
        let addresses = AddressRules::new(&config.allow, &config.deny).map(Arc::new);
        let rate = config.rate_limit.as_ref().map(|limit| {
            let burst = if limit.burst == 0 { limit.requests } else { limit.burst };
            let id = shared.limit_id(&(name, limit.requests, limit.per, burst));
            Rate::new(limit.requests, limit.per, burst).map(|rate| Arc::new(Limit::new(id, rate)))
        });
        let user = match &config.basic_authentication {
            None => None,
            Some(basic) => Some(match &basic.file {
                PasswordSource::Off => None,
                PasswordSource::File(path) => {
                    let file = shared.password_file(path)?;
                    let failures = basic.failures_per_minute;
                    Some(BasicAuthentication::new(file, &basic.realm, basic.remember, failures, shared))
                }
            }),
        };
        let gate = Gate {
            addresses: addresses.or_else(|| site.and_then(|site| site.addresses.clone())),
            rate: rate.unwrap_or_else(|| site.and_then(|site| site.rate.clone())),
            user: user.unwrap_or_else(|| site.and_then(|site| site.user.clone())),
            shared: shared.clone(),
        };
        let says_nothing = gate.addresses.is_none() && gate.rate.is_none() && gate.user.is_none();
        Ok((!says_nothing).then(|| Arc::new(gate)))
    }

    /// Looks at a request and counts it.
    pub fn check(&self, request: &RequestView<'_>) -> Verdict {
        self.check_behind(&[], request)
    }

    /// Lets a request through if nothing is to be waited for and nothing is against it, and counts it;
    /// otherwise does nothing, and [`Gate::check`] says what becomes of it.
    pub fn admit_at_once(&self, request: &RequestView<'_>) -> Option<Admitted> {
        if !self.allows(request) {
            return None;
        }
        let user = match self.user.as_ref().map(|user| user.look(request)) {
            None => None,
            Some(Look::Known(user)) => Some(user),
            Some(Look::Refuse(_) | Look::Check(_)) => return None,
        };
        self.count(request).ok()?;
        Some(Admitted { user })
    }

    /// As [`Gate::check`], without the rules that gates before this one have applied already.
    fn check_behind(&self, before: &[&Gate], request: &RequestView<'_>) -> Verdict {
        let is_new = |same: &dyn Fn(&Gate) -> bool| !before.iter().any(|gate| same(gate));
        if is_new(&|gate| same(&gate.addresses, &self.addresses)) && !self.allows(request) {
            return Verdict::Refuse(Refusal::new(403));
        }
        if is_new(&|gate| same(&gate.rate, &self.rate))
            && let Err(refusal) = self.count(request)
        {
            return Verdict::Refuse(refusal);
        }
        let user = self.user.as_ref().filter(|_| is_new(&|gate| same(&gate.user, &self.user)));
        match user.map(|user| user.look(request)) {
            None => Verdict::Proceed { user: None },
            Some(Look::Known(user)) => Verdict::Proceed { user: Some(user) },
            Some(Look::Refuse(refusal)) => Verdict::Refuse(refusal),
            Some(Look::Check(check)) => Verdict::Verify(check),
        }
    }

    fn allows(&self, request: &RequestView<'_>) -> bool {
        self.addresses.as_ref().is_none_or(|rules| rules.allows(request.client))
    }

    fn count(&self, request: &RequestView<'_>) -> Result<(), Refusal> {
        let (Some(limit), Some(address)) = (&self.rate, request.client) else { return Ok(()) };
        limit.take(&self.shared.clients, Client::of(address), self.shared.now_ns()).map_err(Refusal::too_many)
    }
}

/// Takes a request through gates, one after the other; what several of them share is applied once. Waits for
/// slow checks. Of several users the last counts.
pub async fn pass(gates: &[&Gate], request: &RequestView<'_>) -> Result<Admitted, Refusal> {
    let mut admitted = Admitted::default();
    for (position, gate) in gates.iter().enumerate() {
        let user = match gate.check_behind(&gates[..position], request) {
            Verdict::Proceed { user } => user,
            Verdict::Refuse(refusal) => return Err(refusal),
            Verdict::Verify(check) => Some(check.run().await?),
        };
        admitted.user = user.or(admitted.user);
    }
    Ok(admitted)
}

fn same<T>(one: &Option<Arc<T>>, other: &Option<Arc<T>>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if Arc::ptr_eq(one, other))
}
