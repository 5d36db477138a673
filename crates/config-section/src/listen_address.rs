//! An address to listen on: an internet address with its port, or a unix socket.
//!
//! Listeners are compared for every connection, so an address is a small value that is copied. The paths of
//! unix sockets are kept once for the life of the process; there are as many as configurations have named.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use crate::values;

/// The kernel allows 108 bytes including a zero byte: after a path, before an abstract name (unix(7)).
const LONGEST_SOCKET_NAME_BYTES: usize = 107;

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListenAddress {
    /// TCP, and UDP where that is used too.
    Ip(SocketAddr),
    /// A unix socket for connections.
    Unix(UnixSocketName),
}

/// The name of a unix socket: an absolute path, or `@` and a name of the abstract namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSocketName(&'static str);

impl ListenAddress {
    /// Reads `ADDRESS:PORT`, `unix:PATH` or `unix:@NAME`; a relative path is relative to `base`.
    pub fn read(text: &str, base: &Path) -> Result<ListenAddress, String> {
        match text.strip_prefix("unix:") {
            Some(name) => UnixSocketName::read(name, base).map(ListenAddress::Unix),
            None => values::parse_listen_address(text).map(ListenAddress::Ip).map_err(|message| {
                match text.starts_with('/') || text.starts_with("unix/") {
                    true => format!("{message}; a unix socket is written \"unix:/path/of/socket\""),
                    false => message,
                }
            }),
        }
    }

    /// The internet address; `None`: a unix socket.
    pub fn ip(self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Ip(address) => Some(address),
            ListenAddress::Unix(_) => None,
        }
    }

    /// The name of the unix socket.
    pub fn unix(self) -> Option<UnixSocketName> {
        match self {
            ListenAddress::Ip(_) => None,
            ListenAddress::Unix(name) => Some(name),
        }
    }

    /// The address in the form that programs and origins receive. A unix socket has none, and the port is the
    /// one that the scheme implies.
    pub fn for_programs(self, is_tls: bool) -> SocketAddr {
        let port = if is_tls { 443 } else { 80 };
        self.ip().unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port))
    }
}

impl UnixSocketName {
    /// Reads a path, or `@` and a name.
    fn read(text: &str, base: &Path) -> Result<UnixSocketName, String> {
        if matches!(text, "" | "@") {
            return Err("\"unix:\" needs the path of a socket, or @ and a name".to_string());
        }
        let name = match text.starts_with('@') {
            true => text.to_string(),
            false => {
                let path = values::parse_path(text, base)?;
                let is_file = matches!(path.components().next_back(), Some(Component::Normal(_)));
                if text.ends_with('/') || !is_file {
                    let shown = values::shorten(text);
                    return Err(format!("{shown:?} is a directory, not the path of a socket"));
                }
                path.to_str().ok_or("the path is not text")?.to_string()
            }
        };
        if name.chars().any(char::is_control) {
            return Err("the name of a unix socket has no control characters".to_string());
        }
        let length = name.len();
        if length > LONGEST_SOCKET_NAME_BYTES {
            return Err(format!(
                "a unix socket's name has at most {LONGEST_SOCKET_NAME_BYTES} bytes, and {:?} has {length}",
                values::shorten(&name)
            ));
        }
        Ok(UnixSocketName(kept(&name)))
    }

    /// The name of a bound socket.
    pub fn of_path(path: &Path) -> Option<UnixSocketName> {
        path.to_str().map(|path| UnixSocketName(kept(path)))
    }

    /// The name of a bound socket of the abstract namespace.
    pub fn of_abstract_name(name: &[u8]) -> Option<UnixSocketName> {
        std::str::from_utf8(name).ok().map(|name| UnixSocketName(kept(&format!("@{name}"))))
    }

    /// The path; `None`: a name of the abstract namespace.
    pub fn path(self) -> Option<&'static Path> {
        (!self.0.starts_with('@')).then(|| Path::new(self.0))
    }

    /// What the system call takes: a path, or a zero byte and a name.
    pub fn to_bind(self) -> PathBuf {
        match self.0.strip_prefix('@') {
            Some(name) => PathBuf::from(format!("\0{name}")),
            None => PathBuf::from(self.0),
        }
    }
}

/// The one copy of a name.
fn kept(name: &str) -> &'static str {
    static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_default();
    match names.get(name) {
        Some(known) => known,
        None => {
            let known: &'static str = Box::leak(name.into());
            names.insert(known);
            known
        }
    }
}

/// Internet addresses have the hash of their own type: names of files on disk are made from it.
impl Hash for ListenAddress {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match self {
            ListenAddress::Ip(address) => address.hash(hasher),
            ListenAddress::Unix(name) => name.hash(hasher),
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> ListenAddress {
        ListenAddress::Ip(address)
    }
}

impl PartialEq<SocketAddr> for ListenAddress {
    fn eq(&self, other: &SocketAddr) -> bool {
        matches!(self, ListenAddress::Ip(address) if address == other)
    }
}

/// Relative paths are those of the current directory.
impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenAddress, String> {
        let base = std::env::current_dir().map_err(|error| format!("the current directory: {error}"))?;
        ListenAddress::read(text, &base)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Ip(address) => write!(formatter, "{address}"),
            ListenAddress::Unix(name) => write!(formatter, "unix:{}", name.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<ListenAddress, String> {
        ListenAddress::read(text, Path::new("/etc/t"))
    }

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, shown) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:0", "[::1]:0"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
            ("unix:a.sock", "unix:/etc/t/a.sock"),
            ("unix:@site", "unix:@site"),
        ] {
            assert_eq!(read(text).unwrap().to_string(), shown);
        }
        let path = read("unix:/run/a.sock").unwrap();
        assert_eq!(path, read("unix:/run/a.sock").unwrap());
        assert_eq!(path.unix().unwrap().path(), Some(Path::new("/run/a.sock")));
        assert_eq!(path.for_programs(true), "0.0.0.0:443".parse().unwrap());
        let name = read("unix:@site").unwrap().unix().unwrap();
        assert_eq!((name.path(), name.to_bind()), (None, PathBuf::from("\0site")));
        assert_eq!(Some(name), UnixSocketName::of_abstract_name(b"site"));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!("unix:/{}", "a".repeat(LONGEST_SOCKET_NAME_BYTES));
        for (text, words) in [
            ("unix:", "needs the path"),
            ("unix:@", "needs the path"),
            ("unix:/run/", "is a directory"),
            ("unix:/", "is a directory"),
            ("unix:/run/..", "is a directory"),
            ("unix:/a\nb", "no control characters"),
            ("/run/a.sock", "\"unix:/path/of/socket\""),
            (&long, "at most 107 bytes"),
            ("localhost:80", "not an address"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(words), "{text}: {message}");
        }
        assert!(read(&long[..long.len() - 1]).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(text in "unix:@?[ -~]{0,120}|\\PC{0,20}|[0-9.]{7,9}:[0-9]{1,5}") {
            if let Ok(address) = read(&text) {
                prop_assert_eq!(read(&address.to_string()), Ok(address));
            }
        }
    }
}
