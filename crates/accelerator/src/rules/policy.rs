//! What a route's configuration says beyond the rules.

use touchstone_expression::{Condition, Text};

/// How the responses of a route are cached. Everything here starts from what the responses themselves say.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// How long a response is fresh that says nothing of it and has no `Last-Modified`, in seconds. With more
    /// than 0, dynamic answers are cached that never asked for it.
    pub default_freshness: u32,
    /// A response that may be stored is fresh at least so long, unless it must be validated each time.
    pub minimum_freshness: u32,
    /// No response is fresh for longer.
    pub maximum_freshness: u32,
    /// How long 404 and its like are fresh that say nothing of it.
    pub negative_freshness: u32,
    /// Part of its age when it was sent that a response is heuristically fresh for, in percent.
    pub heuristic_percent: u32,
    /// No response is heuristically fresh for longer.
    pub heuristic_maximum: u32,
    /// How long a stale response is served while it is validated, where the response does not say it.
    pub stale_while_revalidate: u32,
    /// How long a stale response is served when the origin fails, where the response does not say it.
    pub stale_if_error: u32,
    /// The query is not part of the key.
    pub ignore_query: bool,
    /// Parameters of the query that are not part of the key; a `*` at the end stands for any ending.
    pub ignore_parameters: Vec<Box<[u8]>>,
    /// Parameters are put in order in the key.
    pub sort_query: bool,
    /// Cookies neither select a response nor keep one from being stored; `Set-Cookie` is not stored.
    pub ignore_cookies: bool,
    /// What becomes of a response that sets a cookie.
    pub set_cookie: SetCookie,
    /// Fields of the request that select a response as if every response named them in `Vary`.
    pub vary_also: Vec<Box<[u8]>>,
    /// What clients ask of caches counts: `Cache-Control` and `Pragma` of requests.
    pub client_directives: bool,
    /// The longest body that is stored, in bytes.
    pub object_bytes: u64,
    /// Answers say what the cache did, in `Cache-Status`.
    pub cache_status: bool,
    /// Which pages are composed of parts.
    pub esi: Esi,
    /// What is part of the key beside the target.
    pub key: Option<Text>,
    /// Values that the origin gets with the request, which are part of the key too.
    pub key_of_origin: Vec<Text>,
    /// Requests for which this holds are sent to the origin and their responses are not stored.
    pub bypass: Option<Condition>,
    /// The responses to requests for which this holds are not stored.
    pub no_store: Option<Condition>,
}

impl Policy {
    /// Whether the key or the use of what is stored depends on variables.
    pub fn has_variables(&self) -> bool {
        let has_conditions = self.bypass.is_some() || self.no_store.is_some();
        self.key.is_some() || !self.key_of_origin.is_empty() || has_conditions
    }
}

/// Which pages are composed of parts (Edge Side Includes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Esi {
    /// None.
    Off,
    /// Those of which the origin says so: `Surrogate-Control: content="ESI/1.0"`.
    Origin,
    /// These, and every page of HTML.
    Html,
}

/// What becomes of a response with `Set-Cookie` that could be stored otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetCookie {
    /// It is not stored.
    Refuse,
    /// It is stored without the field; only the client whose request was sent on gets that.
    Remove,
    /// It is stored as it is, if it says how long it is fresh: every client gets the same cookie.
    Store,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            default_freshness: 0,
            minimum_freshness: 0,
            maximum_freshness: 365 * 86_400,
            negative_freshness: 0,
            heuristic_percent: 10,
            heuristic_maximum: 86_400,
            stale_while_revalidate: 0,
            stale_if_error: 86_400,
            ignore_query: false,
            ignore_parameters: Vec::new(),
            sort_query: false,
            ignore_cookies: false,
            set_cookie: SetCookie::Refuse,
            vary_also: Vec::new(),
            client_directives: true,
            object_bytes: 32 * 1024 * 1024,
            cache_status: true,
            esi: Esi::Off,
            key: None,
            key_of_origin: Vec::new(),
            bypass: None,
            no_store: None,
        }
    }
}
