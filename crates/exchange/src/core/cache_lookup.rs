//! The look-up of a plain GET in the caches of a core.
//!
//! This is the one place where HTTP/1, 2 and 3 find out whether an answer is ready: a cached file, or a
//! stored answer of a program or an origin. Each protocol describes its request as a [`Lookup`] and writes
//! the result of [`find`]. A request that needs more (rules that wait, a file that is not cached) takes the
//! exchange.

use std::net::IpAddr;
use std::sync::Arc;

use touchstone_accelerator::rules::fields::Fields;
use touchstone_accelerator::store::StoredAnswers;
use touchstone_access::AdmittedRequest;
use touchstone_files::cache::{ConnectionForm, CoreCache, DateSecond, PreparedResponse, WithDictionaryState};
use touchstone_http::content_coding::AcceptEncoding;
use touchstone_http::dictionary::AvailableDictionary;
use touchstone_http::h2::StreamRequest;
use touchstone_http::h2::hpack::KnownName;
use touchstone_http::request::{Expectation, Method, RequestBody, RequestHead};
use touchstone_http::request_view::{HeadFields, RequestFields, RequestView};
use touchstone_http::target::is_plain_path;
use touchstone_sites::route::CacheAdmission;
use touchstone_sites::site::{ListenerSites, Snapshot};

use crate::core::accelerator::{self, StoredHit};

/// The caches of a core.
pub struct Caches {
    /// Files, one cache for each site; empty when the cache is switched off.
    pub files: Vec<CoreCache>,
    /// Stored answers of programs and origins; `None` if no route has a cache.
    pub stored_answers: Option<StoredAnswers>,
    /// The user of the last hit that has one, for its line of the log.
    pub admitted: AdmittedRequest,
}

impl Caches {
    /// The empty caches of a configuration.
    pub fn new(snapshot: &Snapshot) -> Caches {
        let of_all_sites =
            |cache| (0..snapshot.sites.len()).map(move |site| CoreCache::new(Arc::clone(cache), site));
        Caches {
            files: snapshot.cache.iter().flat_map(of_all_sites).collect(),
            stored_answers: snapshot
                .accelerator
                .as_ref()
                .map(|accelerator| StoredAnswers::new(accelerator.store.clone())),
            admitted: AdmittedRequest::default(),
        }
    }

    /// Called at the beginning of each second.
    pub fn tick(&mut self) {
        self.files.iter_mut().for_each(CoreCache::tick);
        if let Some(stored_answers) = &mut self.stored_answers {
            stored_answers.tick();
        }
    }
}

/// A request for the look-up.
pub struct Lookup<'a, F> {
    method: Method,
    has_body: bool,
    /// It has a precondition or a Range field, or fields of it are missing.
    needs_exchange: bool,
    expectation: Expectation,
    target: &'a [u8],
    /// The requested host, with its port if there is one.
    pub host: Option<&'a [u8]>,
    fields: F,
    accept_encoding: AcceptEncoding,
    /// The form of the connection according to its head.
    form: ConnectionForm,
}

impl<'a: 'h, 'h> Lookup<'a, HeadFields<'h>> {
    /// Makes it from a request of HTTP/1 in `buffer`.
    #[inline]
    pub fn of_head(
        head: &'h RequestHead,
        buffer: &'a [u8],
        form: ConnectionForm,
    ) -> Lookup<'a, HeadFields<'h>> {
        Lookup {
            method: head.method,
            has_body: head.body != RequestBody::None,
            needs_exchange: head.has_conditions_or_range,
            expectation: head.expectation,
            target: head.target.of(buffer),
            host: head.host.map(|host| host.of(buffer)),
            fields: HeadFields { head, buffer },
            accept_encoding: head.accept_encoding,
            form,
        }
    }
}

impl<'a> Lookup<'a, StreamRequest<'a>> {
    /// Makes it from a request of HTTP/2 or HTTP/3.
    #[inline]
    pub fn of_stream(request: StreamRequest<'a>, has_body: bool) -> Lookup<'a, StreamRequest<'a>> {
        let mut accept_encoding = AcceptEncoding::ABSENT;
        request.values(KnownName::AcceptEncoding).for_each(|value| accept_encoding.add(value));
        Lookup {
            method: request.method(),
            has_body,
            needs_exchange: request.has_conditions_or_range() || request.is_header_section_too_large(),
            expectation: request.expectation(),
            target: request.path(),
            host: Some(request.authority()),
            fields: request,
            accept_encoding,
            form: ConnectionForm::Persistent,
        }
    }
}

impl<'a, F> Lookup<'a, F> {
    /// The path of a plain GET, which is its own normal form; `None` for every other request.
    #[inline]
    pub fn plain_path(&self) -> Option<&'a [u8]> {
        let is_plain = self.method == Method::Get
            && !self.has_body
            && !self.needs_exchange
            && self.expectation == Expectation::None;
        if !is_plain {
            return None;
        }
        let path = match memchr::memchr(b'?', self.target) {
            // A fragment is not allowed in a request (RFC 9112 section 3.2); the exchange refuses it.
            Some(mark) if memchr::memchr(b'#', &self.target[mark..]).is_some() => return None,
            Some(mark) => &self.target[..mark],
            None => self.target,
        };
        is_plain_path(path).then_some(path)
    }
}

/// Where a request arrived.
pub struct LookupContext<'a, M> {
    /// The sites of the address; `None` when a reload removed it.
    pub sites: Option<&'a ListenerSites>,
    /// Whether the TLS session may carry requests for a host.
    pub may_serve: M,
    /// The other end of the connection.
    pub peer: Option<IpAddr>,
    /// Whether the connection has TLS.
    pub is_tls: bool,
}

/// The site, the route and the cache of a hit.
#[derive(Clone, Copy)]
pub struct HitRoute {
    /// The index of the site in the configuration.
    pub site: usize,
    /// The index of the route in the site.
    pub route: Option<usize>,
    /// The answer is that of a program or an origin, not a file.
    pub is_accelerated: bool,
    /// The user is in [`Caches::admitted`].
    pub has_user: bool,
}

impl HitRoute {
    /// A hit of a file of a site.
    pub fn file(site: usize, route: Option<usize>) -> HitRoute {
        HitRoute { site, route, is_accelerated: false, has_user: false }
    }
}

/// The result of a look-up.
pub enum LookupResult<'a, 'c> {
    /// The answer is ready.
    Hit {
        /// The answer.
        prepared: &'c Arc<PreparedResponse>,
        /// The site and route for which it is counted.
        hit_route: HitRoute,
    },
    /// Nothing is ready for a plain GET; a program of the site may answer it at once.
    Miss {
        /// The site.
        site: usize,
        /// The path.
        path: &'a [u8],
    },
    /// Only the exchange can answer it.
    Exchange,
}

/// Finds the answer to a plain GET that the rules allow at once.
#[inline]
pub fn find<'a, 'c, F: Fields + RequestFields>(
    caches: &'c mut Caches,
    snapshot: &Snapshot,
    context: &LookupContext<'_, impl Fn(Option<&[u8]>) -> bool>,
    lookup: &Lookup<'a, F>,
    date: &DateSecond,
) -> LookupResult<'a, 'c> {
    let Some(path) = lookup.plain_path() else { return LookupResult::Exchange };
    let Some(site) = context.sites.and_then(|sites| sites.site(lookup.host)) else {
        return LookupResult::Exchange;
    };
    // If each answer has an id, no two answers are equal.
    if !(context.may_serve)(lookup.host) || snapshot.config.request_id.answer {
        return LookupResult::Exchange;
    }
    let site_now = &snapshot.sites[site];
    let Caches { files, stored_answers, admitted } = caches;
    let gate = &snapshot.connection_gate;
    let is_secure = || gate.is_secure(context.peer, &lookup.fields, context.is_tls);
    let Some(rules) = &site_now.rules else {
        let file = files.get_mut(site);
        return match file_hit(file, path, lookup, is_secure, date) {
            Some(prepared) => LookupResult::Hit { prepared, hit_route: HitRoute::file(site, None) },
            None => LookupResult::Miss { site, path },
        };
    };
    let view = RequestView {
        client: context.peer.map(|peer| gate.client(peer, &lookup.fields)),
        method: b"GET",
        path,
        query: (path.len() < lookup.target.len()).then(|| &lookup.target[path.len() + 1..]),
        host: lookup.host,
        fields: &lookup.fields,
        connection: None,
        locator: snapshot.locator.as_deref(),
    };
    if let Some(stored_answers) = stored_answers {
        let when = (lookup.form, date);
        if let Some(StoredHit { prepared, route }) =
            accelerator::stored_hit(stored_answers, site_now, &view, lookup.fields, is_secure(), when)
        {
            let hit_route = HitRoute { site, route: Some(route), is_accelerated: true, has_user: false };
            return LookupResult::Hit { prepared, hit_route };
        }
    }
    let file = files.get_mut(site);
    let Some(prepared) = file_hit(file, path, lookup, is_secure, date) else {
        return LookupResult::Miss { site, path };
    };
    match rules.admit_cached_file(&view) {
        CacheAdmission::Serve(user, route) => {
            let hit_route = HitRoute { has_user: user.user.is_some(), ..HitRoute::file(site, route) };
            if hit_route.has_user {
                *admitted = user;
            }
            LookupResult::Hit { prepared, hit_route }
        }
        CacheAdmission::Resolve => LookupResult::Exchange,
    }
}

/// The file, in the representation that the client prefers.
#[inline]
fn file_hit<'c, F: RequestFields>(
    files: Option<&'c mut CoreCache>,
    path: &[u8],
    lookup: &Lookup<'_, F>,
    is_secure: impl FnOnce() -> bool,
    date: &DateSecond,
) -> Option<&'c Arc<PreparedResponse>> {
    let files = files?;
    if files.has_dictionaries()
        && let Some(wanted) = AvailableDictionary::of(&lookup.fields)
        && is_secure()
    {
        match files.renew_with_dictionary(path, &wanted, lookup.form, date) {
            WithDictionaryState::Ready => return files.hit_with_dictionary(path, &wanted, lookup.form),
            WithDictionaryState::Make => return None,
            WithDictionaryState::None => {}
        }
    }
    files.hit(path, lookup.accept_encoding, lookup.form, date)
}
