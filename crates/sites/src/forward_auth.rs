//! The authority of a site or route: the server that decides which requests pass, the requests to it, and a
//! cache of requests that it has recently allowed.
//!
//! The key of a decision is a hash over all that was sent to the authority and all that the configuration
//! names. So a decision for one user is never used for another.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use rustc_hash::FxHashMap;
use touchstone_config::ForwardAuthConfig;
use touchstone_handler::handler::Interface;
use touchstone_handler::request::Request;
use touchstone_http::path::PathRules;
use touchstone_proxy::{GroupName, OriginGroups, Proxy, ProxySettings};

use crate::proxy;

/// The most decisions of an authority that are cached.
const MOST_DECISIONS: usize = 16_384;

/// A server that decides which requests pass.
pub struct ForwardAuth {
    /// The configuration.
    pub config: ForwardAuthConfig,
    /// The interface that sends requests to it.
    pub interface: Arc<dyn Interface>,
    /// Path and query of these requests.
    pub target: Box<[u8]>,
    decisions: Option<Decisions>,
}

/// The authority's answer to a request that passes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorityApproval {
    /// The user.
    pub user: Option<Box<str>>,
    /// The fields for programs and origins.
    pub fields: Vec<(Box<str>, Box<[u8]>)>,
}

/// The key of a cached decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DecisionKey([u8; 32]);

impl ForwardAuth {
    /// Opens the authority of a site or route, with this name in metrics; `None`: there is none. The error
    /// states the fault, with the name of the key.
    pub fn open(
        config: &ForwardAuthConfig,
        name: GroupName,
        groups: &OriginGroups,
    ) -> Result<Option<Arc<ForwardAuth>>, String> {
        let Some((settings, target)) = settings(config, name)? else { return Ok(None) };
        let remembers = !config.remember.is_zero();
        Ok(Some(Arc::new(ForwardAuth {
            config: config.clone(),
            interface: Arc::new(Proxy::new(settings, groups)),
            target: target.into_bytes().into(),
            decisions: remembers.then(|| Decisions::new(config.remember)),
        })))
    }

    /// The key of the decision that `question` requests for `request`; `None`: it is not cached.
    pub fn key(&self, request: &Request, question: &Request) -> Option<DecisionKey> {
        self.decisions.as_ref()?;
        let mut hash = digest::Context::new(&digest::SHA256);
        let mut add = |part: &[u8]| {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        for by in &self.config.remember_by {
            add(by.as_bytes());
            match by.as_str() {
                "method" => add(request.received.method_text()),
                "host" => {
                    add(if request.is_https() { b"https" } else { b"http" });
                    add(request.host.as_deref().unwrap_or_default());
                }
                "uri" => add(&request.path_and_query()),
                _ => add(request.client.map(|client| client.ip().to_string()).unwrap_or_default().as_bytes()),
            }
        }
        // All fields that are sent and listed, whether they are credentials or not.
        let is_listed =
            |name: &[u8]| self.config.send.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
        for (name, value) in question.received.fields().filter(|(name, _)| is_listed(name)) {
            add(&name.to_ascii_lowercase());
            add(value);
        }
        hash.finish().as_ref().try_into().ok().map(DecisionKey)
    }

    /// The cached decision with this key.
    pub fn remembered(&self, key: DecisionKey) -> Option<AuthorityApproval> {
        self.decisions.as_ref()?.get(key, Instant::now())
    }

    /// Caches a decision of the authority.
    pub fn remember(&self, key: DecisionKey, passed: &AuthorityApproval) {
        if let Some(decisions) = &self.decisions {
            decisions.put(key, passed.clone(), Instant::now());
        }
    }
}

/// The fault of the settings: of the keys together, or of files that they name.
pub fn problem(config: &ForwardAuthConfig) -> Option<String> {
    settings(config, GroupName { site: String::new(), route: String::new() }).err()
}

/// The settings of the client, and the path and query of its requests; `None`: there is no authority.
fn settings(config: &ForwardAuthConfig, name: GroupName) -> Result<Option<(ProxySettings, String)>, String> {
    let Some((origin, target)) = config.target() else { return Ok(None) };
    let path = target.split('?').next().unwrap_or_default();
    let is_normal =
        PathRules::USUAL.read(path.as_bytes()).is_ok_and(|read| *read.encoded == *path.as_bytes());
    if !is_normal {
        return Err(format!("'forward_auth.url': the path {path:?} is not in its normal form"));
    }
    let name = GroupName { route: format!("{} forward_auth", name.route).trim_start().to_string(), ..name };
    let settings = proxy::settings(&config.proxy(origin), name)
        .map_err(|problem| format!("'forward_auth': {problem}"))?;
    Ok(Some((settings, target)))
}

/// Recent decisions. When the newer half is full, the older half is dropped.
struct Decisions {
    lifetime: Duration,
    halves: Mutex<[FxHashMap<DecisionKey, (Instant, AuthorityApproval)>; 2]>,
}

impl Decisions {
    fn new(lifetime: Duration) -> Decisions {
        Decisions { lifetime, halves: Mutex::default() }
    }

    fn get(&self, key: DecisionKey, now: Instant) -> Option<AuthorityApproval> {
        let halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, passed) = halves.iter().find_map(|half| half.get(&key))?;
        (now < *until).then(|| passed.clone())
    }

    fn put(&self, key: DecisionKey, passed: AuthorityApproval, now: Instant) {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        let [newer, older] = &mut *halves;
        if newer.len() >= MOST_DECISIONS / 2 {
            *older = std::mem::take(newer);
        }
        // The newer half is searched first, so an entry of the older half with the same key has no effect.
        newer.insert(key, (now + self.lifetime, passed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> DecisionKey {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        DecisionKey(bytes)
    }

    fn passed(user: &str) -> AuthorityApproval {
        AuthorityApproval { user: Some(user.into()), fields: Vec::new() }
    }

    #[test]
    fn decisions_end_and_are_bounded() {
        let (decisions, now) = (Decisions::new(Duration::from_secs(10)), Instant::now());
        decisions.put(key(1), passed("a"), now);
        assert_eq!(decisions.get(key(1), now + Duration::from_secs(9)), Some(passed("a")));
        assert_eq!(decisions.get(key(1), now + Duration::from_secs(10)), None);
        assert_eq!(decisions.get(key(2), now), None);
        decisions.put(key(1), passed("b"), now + Duration::from_secs(5));
        assert_eq!(decisions.get(key(1), now + Duration::from_secs(12)), Some(passed("b")));
        for number in 0..3 * MOST_DECISIONS {
            decisions.put(key(number), passed("c"), now);
        }
        let held: usize = decisions.halves.lock().unwrap().iter().map(FxHashMap::len).sum();
        assert!(held <= MOST_DECISIONS, "{held}");
        assert_eq!(decisions.get(key(3 * MOST_DECISIONS - 1), now), Some(passed("c")));
    }

    #[test]
    fn a_path_that_reads_in_two_ways_is_no_authority() {
        let name = || GroupName { site: "a".into(), route: "b".into() };
        let config = |url: &str| {
            let text = format!(
                "[[site]]\nlisten = ['127.0.0.1:0']\nroot = '/'\nforward_auth = {{ url = '{url}' }}\n"
            );
            let config = touchstone_config::parse(&text, std::path::Path::new("a.toml")).unwrap();
            config.sites[0].access.forward_auth.clone().unwrap()
        };
        let groups = OriginGroups::default();
        assert!(ForwardAuth::open(&config("off"), name(), &groups).unwrap().is_none());
        let authority =
            ForwardAuth::open(&config("http://127.0.0.1:1/auth?a=b"), name(), &groups).unwrap().unwrap();
        assert_eq!(&*authority.target, b"/auth?a=b");
        for url in ["http://127.0.0.1:1//auth", "http://127.0.0.1:1/a/../b", "http://127.0.0.1:1/%61"] {
            assert!(ForwardAuth::open(&config(url), name(), &groups).is_err(), "{url}");
        }
    }
}
