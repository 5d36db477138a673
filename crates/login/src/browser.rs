//! The statements of a browser about a request: whether it loads a page, and which site has caused it (Fetch
//! Metadata Request Headers, RFC 6454).

/// The fields of a request with these statements; `None`: the request does not have the field.
#[derive(Debug, Clone, Copy, Default)]
pub struct BrowserFields<'f> {
    pub fetch_mode: Option<&'f [u8]>,
    pub fetch_site: Option<&'f [u8]>,
    pub accept: Option<&'f [u8]>,
    pub requested_with: Option<&'f [u8]>,
    pub origin: Option<&'f [u8]>,
}

/// Which site has caused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A page of this origin, or the user: a bookmark, the address bar.
    Own,
    /// A page of another origin.
    Other,
    /// The request has no such field.
    Unknown,
}

impl BrowserFields<'_> {
    /// Whether a browser loads a page with this GET, and would show a page of the provider. A script would
    /// get a redirect that it cannot follow.
    pub fn is_navigation(&self) -> bool {
        if self.requested_with.is_some() {
            return false;
        }
        match self.fetch_mode {
            Some(mode) => mode == b"navigate",
            None => self.accept.is_some_and(|accept| {
                accept.split(|&byte| byte == b',').any(|range| {
                    let media_type = range.split(|&byte| byte == b';').next().unwrap_or_default();
                    media_type.trim_ascii().eq_ignore_ascii_case(b"text/html")
                })
            }),
        }
    }

    /// Which site has caused the request. `own_origin` is this site: `https://www.example.org`.
    pub fn cause(&self, own_origin: &str) -> Cause {
        match (self.fetch_site, self.origin) {
            (Some(b"same-origin" | b"none"), _) => Cause::Own,
            (Some(_), _) => Cause::Other,
            (None, Some(origin)) if origin.eq_ignore_ascii_case(own_origin.as_bytes()) => Cause::Own,
            (None, Some(_)) => Cause::Other,
            (None, None) => Cause::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_navigations_are_sent_to_the_provider() {
        let fields = BrowserFields::default();
        let html = Some(&b"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"[..]);
        for (fields, expected) in [
            (fields, false),
            (BrowserFields { accept: html, ..fields }, true),
            (BrowserFields { accept: Some(b"application/json"), ..fields }, false),
            (BrowserFields { accept: Some(b"*/*"), ..fields }, false),
            (BrowserFields { accept: Some(b"a/b, TEXT/HTML ;q=1"), ..fields }, true),
            (BrowserFields { accept: html, fetch_mode: Some(b"cors"), ..fields }, false),
            (BrowserFields { accept: html, fetch_mode: Some(b"navigate"), ..fields }, true),
            (BrowserFields { accept: html, requested_with: Some(b"XMLHttpRequest"), ..fields }, false),
        ] {
            assert_eq!(fields.is_navigation(), expected, "{fields:?}");
        }
    }

    #[test]
    fn the_cause_is_what_the_browser_says() {
        let own = "https://a.example";
        for (site, origin, expected) in [
            (None, None, Cause::Unknown),
            (Some("same-origin"), None, Cause::Own),
            (Some("none"), None, Cause::Own),
            (Some("same-site"), Some(own), Cause::Other),
            (Some("cross-site"), None, Cause::Other),
            (None, Some(own), Cause::Own),
            (None, Some("https://b.example"), Cause::Other),
            (None, Some("null"), Cause::Other),
        ] {
            let fields = BrowserFields {
                fetch_site: site.map(str::as_bytes),
                origin: origin.map(str::as_bytes),
                ..Default::default()
            };
            assert_eq!(fields.cause(own), expected, "{site:?} {origin:?}");
        }
    }
}
