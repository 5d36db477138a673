//! A system under test that runs already, named by its URL: no process is started or stopped.

use std::net::{IpAddr, UdpSocket};
use touchstone_load::{HttpUrl, Target};

/// Where a running system answers.
#[derive(Debug, Clone)]
pub struct SystemUrl {
    /// The URL as it was given, without a slash at its end.
    pub url: String,
    /// The address, resolved once, and the Host field.
    pub target: Target,
    /// The path below which the workload's tree is served; empty for the root.
    pub path_prefix: String,
}

impl SystemUrl {
    /// Whether a word of the command line names a URL.
    pub fn looks_like(word: &str) -> bool {
        word.contains("://")
    }

    /// Reads `http://host[:port][/path]` and resolves the host.
    pub fn parse(url: &str) -> Result<SystemUrl, String> {
        let parsed = HttpUrl::parse(url).map_err(|error| error.to_string())?;
        if parsed.path.contains('?') {
            return Err(format!(
                "{url:?} holds a query: a system under test is named by http://HOST[:PORT][/PATH]"
            ));
        }
        let target = parsed.resolve().map_err(|error| error.to_string())?;
        let path_prefix = parsed.path.trim_end_matches('/').to_string();
        Ok(SystemUrl { url: url.trim_end_matches('/').to_string(), target, path_prefix })
    }

    /// Whether the address is one of this machine's own.
    pub fn is_this_machine(&self) -> bool {
        is_own_address(self.target.address.ip())
    }
}

/// Only an address of this machine can be bound here.
pub(crate) fn is_own_address(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_target_and_a_prefix() {
        let cases = [
            ("http://127.0.0.1:8080/base/", "127.0.0.1:8080", "127.0.0.1:8080", "/base"),
            ("http://127.0.0.1", "127.0.0.1", "127.0.0.1:80", ""),
            ("http://[::1]:81/", "[::1]:81", "[::1]:81", ""),
        ];
        for (url, host, address, prefix) in cases {
            let system = SystemUrl::parse(url).unwrap();
            assert_eq!((system.target.host.as_str(), system.path_prefix.as_str()), (host, prefix), "{url}");
            assert_eq!(system.target.address, address.parse().unwrap(), "{url}");
            assert!(system.is_this_machine() && !system.url.ends_with('/'));
        }
    }

    #[test]
    fn urls_that_cannot_work_say_why() {
        for (url, reason) in [
            ("ftp://x/", "only http:// and https://"),
            ("http://127.0.0.1/?a=1", "holds a query"),
            ("http://no-such-host.invalid/", "no address was found"),
        ] {
            let message = SystemUrl::parse(url).unwrap_err();
            assert!(message.contains(reason), "{url}: {message}");
        }
        assert!(!is_own_address("192.0.2.1".parse().unwrap()));
    }
}
