//! The settings of a route beyond the caching rules.

use touchstone_expression::{Condition, Text};

/// How the responses of a route are cached. The responses' own fields are the starting point.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// How long a response without freshness information and `Last-Modified` is fresh, in seconds. With more
    /// than 0, dynamic answers are cached although they did not request it.
    pub default_freshness: u32,
    /// The minimum freshness of a response that may be stored, unless it must be validated each time.
    pub minimum_freshness: u32,
    /// The maximum freshness of a response.
    pub maximum_freshness: u32,
    /// How long 404 and similar responses without freshness information are fresh.
    pub negative_freshness: u32,
    /// Heuristic freshness in percent of a response's age when it was sent.
    pub heuristic_percent: u32,
    /// The maximum heuristic freshness.
    pub heuristic_maximum: u32,
    /// How long a stale response is served while it is validated, if the response does not state it.
    pub stale_while_revalidate: u32,
    /// How long a stale response is served when the origin fails, if the response does not state it.
    pub stale_if_error: u32,
    /// Whether the query is excluded from the key.
    pub ignore_query: bool,
    /// Parameters of the query that are excluded from the key; a `*` at the end matches any ending.
    pub ignore_parameters: Vec<Box<[u8]>>,
    /// Whether parameters are sorted in the key.
    pub sort_query: bool,
    /// Cookies neither select a response nor prevent it from being stored; `Set-Cookie` is not stored.
    pub ignore_cookies: bool,
    /// The treatment of responses that set a cookie.
    pub set_cookie: SetCookie,
    /// Request fields that select a response as if every response named them in `Vary`.
    pub vary_also: Vec<Box<[u8]>>,
    /// Whether the cache directives of requests are respected: `Cache-Control` and `Pragma`.
    pub client_directives: bool,
    /// The maximum size of a stored body in bytes.
    pub object_bytes: u64,
    /// Whether answers have `Cache-Status`.
    pub cache_status: bool,
    /// The pages that are composed from parts.
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

/// The pages that are composed from parts (Edge Side Includes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Esi {
    /// None.
    Off,
    /// Pages that the origin marks: `Surrogate-Control: content="ESI/1.0"`.
    Origin,
    /// Marked pages, and every HTML page.
    Html,
}

/// The treatment of a response with `Set-Cookie` that could otherwise be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetCookie {
    /// It is not stored.
    Refuse,
    /// It is stored without the field; only the client whose request was forwarded gets the field.
    Remove,
    /// It is stored with the field, if it has freshness information: every client gets the same cookie.
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
