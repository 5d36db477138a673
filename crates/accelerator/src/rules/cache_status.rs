//! `Cache-Status`: what the cache did with a request (RFC 9211).

/// The cache's name in the field.
pub const NAME: &str = "touchstone";

/// What the cache did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheOutcome {
    /// A stored response was the answer.
    Hit,
    /// A stale stored response was the answer.
    HitStale,
    /// The request was forwarded: no response was stored under its key.
    Miss,
    /// The request was forwarded: only responses for other values of the selecting fields were stored.
    VaryMiss,
    /// The stored response was stale: it was validated or replaced.
    Stale,
    /// The client's request directives did not allow the stored response.
    Request,
    /// Requests of this kind bypass the cache.
    Bypass,
    /// Requests with this method are forwarded.
    Method,
    /// Only a part of the answer was stored.
    Partial,
    /// The request was forwarded: no stored response could answer, and the client had allowed only stored
    /// ones.
    OnlyIfCached,
}

/// The contents of the field.
#[derive(Debug, Clone, Copy)]
pub struct CacheStatus {
    /// What the cache did.
    pub outcome: CacheOutcome,
    /// The number of seconds for which the response is still fresh.
    pub fresh_for: Option<i64>,
    /// The origin's status, if it differs from that of the answer.
    pub forward_status: Option<u16>,
    /// The response was stored.
    pub is_stored: bool,
    /// The request waited for another request's response.
    pub is_collapsed: bool,
}

impl CacheStatus {
    /// A field for an outcome, without further facts.
    pub fn new(outcome: CacheOutcome) -> CacheStatus {
        CacheStatus { outcome, fresh_for: None, forward_status: None, is_stored: false, is_collapsed: false }
    }

    /// Appends the field line, after the entries of caches nearer to the origin.
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
