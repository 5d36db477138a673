//! Fields of a request that are not passed on to programs and origins when a client sends them: only this
//! server or a trusted proxy may set them.

/// Fields in which proxies describe the client, under all their names; the path that the rules have judged;
/// and the identity that a user has proved.
const PROXY_FIELDS: [&str; 26] = [
    "cf-connecting-ip",
    "client-ip",
    "forwarded",
    "forwarded-for",
    "front-end-https",
    "remote-user",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-user",
    "x-host",
    "x-original-host",
    "x-original-url",
    "x-real-ip",
    "x-remote-user",
    "x-rewrite-url",
    "x-url-scheme",
];

/// Fields that are never passed on: many programs take `HTTP_PROXY` for a setting (httpoxy), and the settings
/// of HTTP/2 belong to one connection.
const NEVER_FORWARDED: [&str; 2] = ["http2-settings", "proxy"];

/// Fields that have a meaning only in their correct spelling. Many programs treat an underscore as a hyphen
/// and would take the misspelled field for the real one.
const SPELLED_WITH_HYPHENS: [&str; 9] = [
    "content-length",
    "content-type",
    "forwarded-host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "sec-websocket-key",
    "transfer-encoding",
    "max-forwards",
];

/// Whether a field is dropped here. A correctly spelled field from a trusted proxy is passed on.
pub fn ends_here(name: &[u8], is_from_trusted_proxy: bool) -> bool {
    let is_one_of = |names: &[&str]| names.iter().any(|other| is_alike(name, other.as_bytes()));
    let is_misspelled = name.contains(&b'_');
    is_one_of(&NEVER_FORWARDED)
        || (!is_from_trusted_proxy || is_misspelled) && is_one_of(&PROXY_FIELDS)
        || is_misspelled && is_one_of(&SPELLED_WITH_HYPHENS)
}

/// Whether a field looks like one that frames a body, but is spelled with an underscore: `Content_Length`. A
/// reader that takes it for the real one finds another end of the body than this server.
pub fn looks_like_framing(name: &[u8]) -> bool {
    let framing = ["content-length", "transfer-encoding"];
    name.contains(&b'_') && framing.iter().any(|other| is_alike(name, other.as_bytes()))
}

/// Whether two names are equal for a program that ignores case and treats underscores as hyphens.
pub fn is_alike(name: &[u8], other: &[u8]) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.len() == other.len() && name.iter().map(plain).eq(other.iter().map(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_framing_is_recognised() {
        for name in ["Content_Length", "content_length", "TRANSFER_ENCODING"] {
            assert!(looks_like_framing(name.as_bytes()), "{name}");
        }
        for name in ["Content-Length", "Transfer-Encoding", "Content_Type", "x_content_length"] {
            assert!(!looks_like_framing(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn what_ends_here() {
        for name in [
            "Proxy",
            "HTTP2-Settings",
            "X_Forwarded_For",
            "x-forwarded_for",
            "Transfer_Encoding",
            "x_real_ip",
        ] {
            assert!(ends_here(name.as_bytes(), false) && ends_here(name.as_bytes(), true), "{name}");
        }
        for name in [
            "Forwarded",
            "X-Forwarded-For",
            "x-forwarded-proto",
            "X-FORWARDED-HOST",
            "X-Real-IP",
            "X-Original-URL",
            "X-Rewrite-Url",
            "X-Forwarded-Port",
            "True-Client-IP",
        ] {
            assert!(ends_here(name.as_bytes(), false) && !ends_here(name.as_bytes(), true), "{name}");
        }
        for name in ["X_Original_URL", "X-Client_IP"] {
            assert!(ends_here(name.as_bytes(), true), "{name}");
        }
        for name in
            ["Accept", "Content-Length", "Transfer-Encoding", "Max-Forwards", "My_Field", "X-Proxy", ""]
        {
            assert!(!ends_here(name.as_bytes(), false), "{name}");
        }
    }
}
