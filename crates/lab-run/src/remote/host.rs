//! The name of a system on another machine: `ssh://[user@]host[:port]/system`.

use std::net::{IpAddr, ToSocketAddrs};

/// What such a word begins with.
const SCHEME: &str = "ssh://";

/// A machine that is reached over ssh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The user, where one was named; otherwise ssh's own choice.
    pub user: Option<String>,
    /// The name or address.
    pub name: String,
    /// ssh's port, where one was named.
    pub port: Option<u16>,
}

impl Host {
    /// Whether an argument has this form.
    pub fn looks_like(word: &str) -> bool {
        word.starts_with(SCHEME)
    }

    /// Splits the word into the machine and the system's name (or the path of its definition).
    pub fn parse(word: &str) -> Result<(Host, String), String> {
        let wrong = || format!("{word:?} is not ssh://[user@]host[:port]/system");
        let rest = word.strip_prefix(SCHEME).ok_or_else(wrong)?;
        let (place, system) = rest.split_once('/').ok_or_else(wrong)?;
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, place),
        };
        let (name, port) = split_port(place).ok_or_else(wrong)?;
        // A name that begins with a dash would be an option of ssh's.
        let plain =
            |text: &str| !text.is_empty() && !text.starts_with('-') && !text.contains(char::is_whitespace);
        if !plain(name) || !plain(system) || !user.is_none_or(plain) {
            return Err(wrong());
        }
        let host = Host { user: user.map(str::to_owned), name: name.to_owned(), port };
        Ok((host, system.to_owned()))
    }

    /// The argument of ssh.
    pub fn destination(&self) -> String {
        match &self.user {
            Some(user) => format!("{user}@{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Whether it is this machine.
    pub fn is_this_machine(&self) -> bool {
        // A name that only ssh's own configuration defines is not this machine's.
        let addresses = (self.name.as_str(), 0).to_socket_addrs();
        addresses.is_ok_and(|mut addresses| addresses.any(|address| is_own(address.ip())))
    }
}

fn is_own(address: IpAddr) -> bool {
    crate::system::url::is_own_address(address)
}

/// `host`, `host:port`, `[address]` or `[address]:port`.
fn split_port(place: &str) -> Option<(&str, Option<u16>)> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    if let Some(rest) = place.strip_prefix('[') {
        let (address, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(text) => Some((address, Some(port(text)?))),
            None => after.is_empty().then_some((address, None)),
        };
    }
    match place.split_once(':') {
        Some((name, text)) => Some((name, Some(port(text)?))),
        None => Some((place, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_taken_apart() {
        let cases = [
            ("ssh://web1/nginx", None, "web1", None, "nginx"),
            ("ssh://root@web1:2222/nginx", Some("root"), "web1", Some(2222), "nginx"),
            ("ssh://a@b@[::1]:22//etc/x.toml", Some("a@b"), "::1", Some(22), "/etc/x.toml"),
        ];
        for (word, user, name, port, system) in cases {
            let host = Host { user: user.map(str::to_owned), name: name.to_owned(), port };
            assert_eq!(Host::parse(word), Ok((host, system.to_owned())), "{word}");
        }
        let (host, _) = Host::parse("ssh://root@127.0.0.1:2222/nginx").unwrap();
        assert!(host.is_this_machine() && host.destination() == "root@127.0.0.1");
    }

    #[test]
    fn words_that_are_none_say_what_is_meant() {
        for word in [
            "ssh://",
            "ssh://web1",
            "ssh://web1/",
            "ssh:///nginx",
            "ssh://-oProxyCommand=x/nginx",
            "ssh://-x@web1/nginx",
            "ssh://web1:0/nginx",
            "ssh://web1:x/nginx",
            "ssh://[::1/nginx",
            "ssh://[::1]x/nginx",
            "http://web1/nginx",
        ] {
            assert!(Host::parse(word).unwrap_err().contains("ssh://[user@]host[:port]/system"), "{word}");
        }
    }

    proptest! {
        #[test]
        fn no_word_makes_the_reader_panic(word in "ssh://[\\[\\]:@/a-z0-9 -]{0,40}") {
            let _ = Host::parse(&word);
        }
    }
}
