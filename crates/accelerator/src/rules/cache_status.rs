//! `Cache-Status`: what this cache did with a request (RFC 9211).

/// The name by which the cache speaks of itself.
pub const NAME: &str = "touchstone";

/// What the cache did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheOutcome {
    /// A stored response was the answer.
    Hit,
    /// A stored response that was stale.
    HitStale,
    /// The request went on: nothing was stored under its key.
    Miss,
    /// Another response was stored, for other values of the fields that select one.
    VaryMiss,
    /// What was stored was stale: it has been validated, or replaced.
    Stale,
    /// The client asked for more than what is stored.
    Request,
    /// Requests of this kind are not answered from the cache.
    Bypass,
    /// Requests with this method go on.
    Method,
    /// Parts of the answer were stored.
    Partial,
    /// Nothing was stored that could answer, and the client asked for nothing else.
    OnlyIfCached,
}

/// What the field says.
#[derive(Debug, Clone, Copy)]
pub struct CacheStatus {
    /// What the cache did.
    pub outcome: CacheOutcome,
    /// For how many seconds the response is fresh still.
    pub fresh_for: Option<i64>,
    /// What the origin answered, where that is not the status of the answer.
    pub forward_status: Option<u16>,
    /// The response was stored.
    pub is_stored: bool,
    /// The request waited for another's response.
    pub is_collapsed: bool,
}

impl CacheStatus {
    /// For an outcome, with nothing else to say.
    pub fn new(outcome: CacheOutcome) -> CacheStatus {
        CacheStatus { outcome, fresh_for: None, forward_status: None, is_stored: false, is_collapsed: false }
    }

    /// Appends the field line, behind what caches nearer to the origin have said.
    pub fn append(&self, out: &mut Vec<u8>) {
        let forward = match self.outcome {
            CacheOutcome::Hit | CacheOutcome::HitStale => "; hit",
            CacheOutcome::Miss => "; fwd=uri-miss",
            CacheOutcome::VaryMiss => "; fwd=vary-miss",
            CacheOutcome::Stale => "; fwd=stale",
            CacheOutcome::Request => "; fwd=request",
            CacheOutcome::Bypass => "; fwd=bypass",
            CacheOutcome::Method => "; fwd=method",
            CacheOutcome::Partial => "; fwd=partial",
            CacheOutcome::OnlyIfCached => "; detail=only-if-cached",
        };
        let mut text = format!("Cache-Status: {NAME}{forward}");
        if let Some(status) = self.forward_status {
            text.push_str(&format!("; fwd-status={status}"));
        }
        if let Some(fresh_for) = self.fresh_for {
            text.push_str(&format!("; ttl={fresh_for}"));
        }
        if self.is_stored {
            text.push_str("; stored");
        }
        if self.is_collapsed {
            text.push_str("; collapsed");
        }
        text.push_str("\r\n");
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let mut out = Vec::new();
        CacheStatus { fresh_for: Some(-3), ..CacheStatus::new(CacheOutcome::HitStale) }.append(&mut out);
        let status = CacheStatus::new(CacheOutcome::Stale);
        CacheStatus { forward_status: Some(304), is_stored: true, is_collapsed: true, ..status }
            .append(&mut out);
        let expected = "Cache-Status: touchstone; hit; ttl=-3\r\n\
                        Cache-Status: touchstone; fwd=stale; fwd-status=304; stored; collapsed\r\n";
        assert_eq!(out, expected.as_bytes());
    }
}
