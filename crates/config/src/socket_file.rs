//! The keys `socket_mode`, `socket_user` and `socket_group`: which programs may connect to the unix sockets
//! of a site or stream.

use std::collections::HashMap;

use touchstone_config_section::{Key, Kind, ListenAddress, SectionPlaces, account_name};

use super::config_reader::ConfigReader;
use super::{Config, ConfigWithPlaces};

/// The permissions and the owner of socket files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketFile {
    /// The permissions.
    pub mode: u32,
    /// The owner, by name or number; empty: the user under which the server runs.
    pub user: String,
    /// The group, by name or number; empty: that of the server.
    pub group: String,
}

/// A section with these keys.
pub trait HasSocketFile {
    /// Their values.
    fn socket_file(&mut self) -> &mut SocketFile;
}

/// `socket_mode`
pub const fn mode_key<C: HasSocketFile>() -> Key<C> {
    Key {
        name: "socket_mode",
        default: Some("\"0660\""),
        example: "\"0666\"",
        documentation: "The permissions, in octal, of the files of unix sockets in `listen`. A program needs \
            the permission to write in order to connect. `\"0666\"` allows every program of the machine to \
            connect, as in nginx.",
        kind: Kind::Checked {
            what: "three or four octal digits",
            parse: |text, _| parse_mode(text).map(|_| text.to_string()),
            set: |section, text| {
                let file = section.socket_file();
                file.mode = parse_mode(&text).unwrap_or(file.mode);
            },
        },
    }
}

/// `socket_user`
pub const fn user_key<C: HasSocketFile>() -> Key<C> {
    Key {
        name: "socket_user",
        default: Some("\"\""),
        example: "\"haproxy\"",
        documentation: "The owner of the files of unix sockets in `listen`, by name or number. Only root can \
            change the owner of a file. Empty: the user under which the server runs.",
        kind: Kind::Checked {
            what: "name or number of a user",
            parse: |text, _| account_name::check_name(text).map(|()| text.to_string()),
            set: |section, text| section.socket_file().user = text,
        },
    }
}

/// `socket_group`
pub const fn group_key<C: HasSocketFile>() -> Key<C> {
    Key {
        name: "socket_group",
        default: Some("\"\""),
        example: "\"haproxy\"",
        documentation: "The group of the files of unix sockets in `listen`, by name or number. \
            Its members may connect unless `socket_mode` forbids it. Empty: the group under which the server \
            runs.",
        kind: Kind::Checked {
            what: "name or number of a group",
            parse: |text, _| account_name::check_name(text).map(|()| text.to_string()),
            set: |section, text| section.socket_file().group = text,
        },
    }
}

/// Reads three octal digits, or four of which the first is 0.
fn parse_mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix('0').filter(|rest| rest.len() == 3).unwrap_or(text);
    let is_octal = digits.len() == 3 && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let mode = u32::from_str_radix(digits, 8).ok().filter(|_| is_octal);
    mode.ok_or_else(|| format!("{text:?} is not a mode; write three octal digits such as \"0660\""))
}

/// What the sites listen on, then the streams, each with what the files of its unix sockets are to be.
pub fn listen_addresses(config: &Config) -> impl Iterator<Item = (&[ListenAddress], &SocketFile)> {
    let sites = config.sites.iter().map(|site| (&site.listen[..], &site.socket_file));
    sites.chain(config.streams.iter().map(|stream| (&stream.listen[..], &stream.socket_file)))
}

/// The unix sockets of a configuration, with what their files are to be.
pub fn socket_files(config: &Config) -> HashMap<ListenAddress, SocketFile> {
    let mut files = HashMap::new();
    for (listen, file) in listen_addresses(config) {
        let sockets = listen.iter().filter(|address| address.unix().is_some());
        files.extend(sockets.map(|address| (*address, file.clone())));
    }
    files
}

impl ConfigReader<'_> {
    /// Checks that the keys have an effect, and that sections with the same socket agree on them.
    pub(super) fn check_socket_files(&mut self, loaded: &ConfigWithPlaces) {
        for (site, places) in loaded.config.sites.iter().zip(&loaded.places.sites) {
            if site.tls.http3 && site.listen.iter().all(|address| address.ip().is_none()) {
                let message = "'http3' needs an address with a port in 'listen'".to_string();
                self.problem(places.key("http3"), message);
            }
        }
        let mut first: HashMap<ListenAddress, (SocketFile, &SectionPlaces)> = HashMap::new();
        let places = loaded.places.sites.iter().chain(&loaded.places.streams);
        for ((listen, file), places) in listen_addresses(&loaded.config).zip(places) {
            if listen.iter().all(|address| address.unix().is_none()) {
                for key in ["socket_mode", "socket_user", "socket_group"] {
                    if places.keys.contains_key(key) {
                        let message = format!("'{key}' has no effect without a unix socket in 'listen'");
                        self.problem(places.key(key), message);
                    }
                }
            }
            for address in listen.iter().filter(|address| address.unix().is_some()) {
                let (other, owner) = first.entry(*address).or_insert_with(|| (file.clone(), places));
                if other != file {
                    let line = self.line(owner.header, places.header);
                    let message = format!(
                        "{address} is also in the 'listen' of {line}, with another 'socket_mode', \
                         'socket_user' or 'socket_group'; a socket has one file"
                    );
                    self.problem(places.key("listen"), message);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::parse;

    fn read(text: &str) -> Result<Config, String> {
        parse(text, Path::new("/etc/t/t.toml"))
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn sockets_have_modes_and_owners() {
        let site = "[[site]]\nroot = 'www'\nlisten = ['unix:/run/a.sock', '127.0.0.1:80']\n";
        let config = read(&format!("{site}socket_mode = '0666'\nsocket_group = 'www-data'\n")).unwrap();
        let files = socket_files(&config);
        let file = SocketFile { mode: 0o666, user: String::new(), group: "www-data".to_string() };
        assert_eq!(files.values().collect::<Vec<_>>(), [&file]);
        assert_eq!(read(site).unwrap().sites[0].socket_file.mode, 0o660);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let unix = "[[site]]\nroot = 'www'\nlisten = ['unix:/run/a.sock']\n";
        let tcp = "[[site]]\nroot = 'www'\nlisten = ['127.0.0.1:80']\n";
        for (text, words) in [
            (format!("{unix}socket_mode = '1666'"), "is not a mode"),
            (format!("{unix}socket_mode = 'rw'"), "is not a mode"),
            (format!("{unix}socket_user = 'a b'"), "socket_user"),
            (format!("{tcp}socket_mode = '600'"), "has no effect without a unix socket"),
            (
                format!("{unix}hosts = ['a']\n{unix}hosts = ['b']\nsocket_mode = '600'"),
                "a socket has one file",
            ),
        ] {
            let problems = read(&text).unwrap_err();
            assert!(problems.contains(words), "{text}: {problems}");
        }
    }
}
