//! The key under which a response is stored (RFC 9111 section 2): the target URI, with equivalent spellings
//! made equal, and a number that distinguishes the routes of a server.
//!
//! ```text
//! 8 bytes: the space: the site and its handler | h or s | host | path | ? query
//! ```

use sha2::{Digest, Sha256};
use touchstone_expression::{Source, Text};
use touchstone_http::host::split_port;
use touchstone_http::percent;

use super::policy::Policy;

/// The parts of a key.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Keys of different spaces are always different.
    pub space: u64,
    /// The request arrived over TLS.
    pub is_secure: bool,
    /// The host, with its port if it was given.
    pub host: &'a [u8],
    /// The path as it was sent.
    pub path: &'a [u8],
    /// The query as it was sent, without its question mark.
    pub query: Option<&'a [u8]>,
}

/// Appends to the key of a target a digest of the values of texts with variables. `epoch` counts the purges
/// and changes of the target, so that these concern all of its keys.
pub fn append_texts<'t>(
    texts: impl IntoIterator<Item = &'t Text>,
    source: &dyn Source,
    epoch: [u8; 12],
    out: &mut Vec<u8>,
) {
    let mut digest = Sha256::new();
    for text in texts {
        let value = text.render(source);
        digest.update((value.len() as u64).to_le_bytes());
        digest.update(&value);
    }
    // No target has a space. The content of a QUERY adds a space and other bytes of another number.
    out.extend_from_slice(b" t");
    out.extend_from_slice(&epoch);
    out.extend_from_slice(&digest.finalize());
}

/// The length of the space's number in bytes.
pub const SPACE_BYTES: usize = 8;

/// Writes the key to `out`, which is cleared.
pub fn write_key(target: &Target<'_>, policy: &Policy, out: &mut Vec<u8>) {
    out.clear();
    write_origin(target.space, target.is_secure, target.host, out);
    percent::append_normal(target.path, out);
    let Some(query) = target.query.filter(|_| !policy.ignore_query) else { return };
    if policy.ignore_parameters.is_empty() && !policy.sort_query {
        out.push(b'?');
        out.extend_from_slice(query);
        return;
    }
    let is_ignored = |parameter: &&[u8]| {
        let name = parameter.split(|&byte| byte == b'=').next().unwrap_or_default();
        policy.ignore_parameters.iter().any(|pattern| match pattern.strip_suffix(b"*") {
            Some(beginning) => name.starts_with(beginning),
            None => name == &**pattern,
        })
    };
    let mut parameters: Vec<&[u8]> =
        query.split(|&byte| byte == b'&').filter(|parameter| !is_ignored(parameter)).collect();
    if policy.sort_query {
        parameters.sort_unstable();
    }
    for (index, parameter) in parameters.into_iter().enumerate() {
        out.push(if index == 0 { b'?' } else { b'&' });
        out.extend_from_slice(parameter);
    }
}

/// Appends the part of a key before the path.
fn write_origin(space: u64, is_secure: bool, host: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&space.to_le_bytes());
    out.push(if is_secure { b's' } else { b'h' });
    let (name, port) = split_port(host);
    let is_default = port == Some(if is_secure { 443 } else { 80 });
    let host = if is_default { name } else { host };
    out.extend(host.iter().map(u8::to_ascii_lowercase));
}

/// The prefix of the keys of all paths with a prefix.
pub fn prefix(target: &Target<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    write_origin(target.space, target.is_secure, target.host, &mut out);
    percent::append_normal(target.path, &mut out);
    out
}

/// The origin of a key (RFC 9110 section 4.3.1), which responses of all spaces may share: scheme and host.
pub fn origin(key: &[u8]) -> &[u8] {
    let behind_space = key.get(SPACE_BYTES..).unwrap_or_default();
    let end = memchr::memchr(b'/', behind_space).unwrap_or(behind_space.len());
    &behind_space[..end]
}

/// A key without the part for the content of a QUERY: the key of its target.
pub fn target_part(key: &[u8]) -> &[u8] {
    let behind_space = key.get(SPACE_BYTES..).unwrap_or_default();
    // A target contains no space.
    match memchr::memchr(b' ', behind_space) {
        Some(end) => &key[..SPACE_BYTES + end],
        None => key,
    }
}

/// The URL of a key, for people.
pub fn url(key: &[u8]) -> String {
    let Some(rest) = target_part(key).get(SPACE_BYTES..).filter(|rest| !rest.is_empty()) else {
        return String::new();
    };
    let scheme = if rest[0] == b's' { "https" } else { "http" };
    format!("{scheme}://{}", rest[1..].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(url: &str, policy: &Policy) -> String {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (host, target) = rest.split_at(rest.find('/').unwrap());
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let target = Target {
            space: 0,
            is_secure: scheme == "https",
            host: host.as_bytes(),
            path: path.as_bytes(),
            query: query.map(str::as_bytes),
        };
        let mut key = Vec::new();
        write_key(&target, policy, &mut key);
        super::url(&key)
    }

    #[test]
    fn spellings_of_one_uri_are_one_key() {
        let policy = Policy::default();
        for (url, expected) in [
            ("http://Ex.org/A", "http://ex.org/A"),
            ("http://ex.org:80/", "http://ex.org/"),
            ("https://ex.org:80/", "https://ex.org:80/"),
            ("https://ex.org:443/?", "https://ex.org/?"),
            ("http://ex.org/%7ea%2fb%zz%", "http://ex.org/~a%2Fb%zz%"),
            ("http://ex.org/?b=1&a=2", "http://ex.org/?b=1&a=2"),
        ] {
            assert_eq!(of(url, &policy), expected);
        }
    }

    #[test]
    fn a_policy_leaves_parts_of_the_query_out() {
        let url = "http://ex.org/?b=1&utm_x=3&a=2&c";
        let ignore_parameters = vec![b"utm_*".as_slice().into(), b"c".as_slice().into()];
        let policy = Policy { ignore_parameters, ..Policy::default() };
        assert_eq!(of(url, &policy), "http://ex.org/?b=1&a=2");
        assert_eq!(of("http://ex.org/?c=4&utm_", &policy), "http://ex.org/");
        let policy = Policy { sort_query: true, ..Policy::default() };
        assert_eq!(of(url, &policy), "http://ex.org/?a=2&b=1&c&utm_x=3");
        let policy = Policy { ignore_query: true, ..Policy::default() };
        assert_eq!(of(url, &policy), "http://ex.org/");
    }

    proptest! {
        #[test]
        fn a_path_in_its_normal_form_stays_so(path in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut once = Vec::new();
            percent::append_normal(&path, &mut once);
            let mut twice = Vec::new();
            percent::append_normal(&once, &mut twice);
            // `%2541` stays `%2541` and does not become `%41`: there is only one pass.
            prop_assert!(twice.len() <= once.len());
        }
    }
}
