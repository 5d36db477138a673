//! What a configuration says of the containers behind a route.

use super::session::SessionRules;
use crate::backend::{GroupRules, TimeLimits};

/// Everything about the containers behind a route.
#[derive(Clone)]
pub struct Settings {
    /// Where they are, and how requests are shared out.
    pub group: GroupRules,
    /// How long an answer may take.
    pub times: TimeLimits,
    /// The largest packet, as the containers are configured too.
    pub packet_bytes: usize,
    /// The most fields of an answer.
    pub most_fields: usize,
    /// What server and containers share; empty: nothing.
    pub secret: String,
    /// Attributes that each request gets.
    pub attributes: Vec<(String, String)>,
    /// Let the containers see `Authorization`.
    pub pass_authorization: bool,
    /// How the container of a session is found; `None`: requests go to any.
    pub sessions: Option<SessionRules>,
}
