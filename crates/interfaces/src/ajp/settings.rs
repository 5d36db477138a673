//! The settings of the containers of a route.

use crate::backend::{GroupRules, TimeLimits};
use touchstone_upstream::SessionRules;

/// The settings of the containers of a route.
#[derive(Clone)]
pub struct Settings {
    /// Their addresses, and how requests are distributed.
    pub group: GroupRules,
    /// How long an answer may take.
    pub times: TimeLimits,
    /// The largest packet; the containers must be configured with the same value.
    pub packet_bytes: usize,
    /// The most fields of an answer.
    pub most_fields: usize,
    /// The secret shared by server and containers; empty: none.
    pub secret: String,
    /// Attributes that each request gets.
    pub attributes: Vec<(String, String)>,
    /// Containers get `Authorization`.
    pub pass_authorization: bool,
    /// How the container of a session is found; `None`: requests go to any.
    pub sessions: Option<SessionRules>,
}
