//! The files and directories of a configuration that no site gives out: the configuration itself, keys,
//! passwords and other secrets, logs, and what the server stores for itself.

use std::path::{Path, PathBuf};

use touchstone_config_section::LogDestination;
use touchstone_config_section::reader::{NamedFile, Source};

use super::{AccessLogConfig, Config, ErrorLogConfig, StreamCertificate};

/// Keys that name such files, with their sections.
const FILES: [(&str, &str); 21] = [
    ("acme.dns", "key"),
    ("acme.external_account", "hmac_key"),
    ("acme.nats", "credentials"),
    ("admin", "token_file"),
    ("control", "audit_log"),
    ("control", "token_file"),
    ("geoip", "files"),
    ("map", "file"),
    ("map", "networks_file"),
    ("site.basic_authentication", "file"),
    ("site.crawlers", "key_file"),
    ("site.crawlers.bot", "key_file"),
    ("site.jwt", "keys"),
    ("site.login", "client_secret_file"),
    ("site.login", "key_file"),
    ("site.route.ajp", "secret_file"),
    ("site.route.nsapi", "magnus_conf"),
    ("site.route.nsapi", "obj_conf"),
    ("site.route.servlet", "users"),
    ("site.signed_link", "secret_file"),
    ("telemetry", "headers_file"),
];

/// Files and directories of the server itself, with absolute paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnPaths {
    /// Files.
    pub files: Vec<PathBuf>,
    /// Directories, with all in them.
    pub directories: Vec<PathBuf>,
}

/// The files among those that were read: `sources`, and `named` by keys. Keys that the command line can
/// replace are not among them.
pub(super) fn read(sources: &[Source], named: &[NamedFile]) -> Vec<PathBuf> {
    let sources = sources.iter().filter_map(|source| Some(source.base.join(source.name.file_name()?)));
    let of_keys = named.iter().filter(|file| FILES.contains(&(file.section, file.key)));
    sources.chain(of_keys.map(|file| file.path.clone())).collect()
}

/// All of them that a configuration has.
pub fn own_paths(config: &Config) -> OwnPaths {
    let read = config.own_files.iter().cloned();
    let mut files: Vec<PathBuf> = read.chain(keys(config)).chain(logs(config)).collect();
    let routes = config.sites.iter().flat_map(|site| &site.routes);
    let webdav = routes.filter_map(|route| Some(route.webdav.as_ref()?.state.clone()));
    let of_server = [Some(config.acme.storage.clone()), config.accelerator.disk.clone()];
    let of_server = of_server.into_iter().chain([config.control.directory.clone()]).flatten();
    let mut directories: Vec<PathBuf> = of_server.chain(webdav).collect();
    for paths in [&mut files, &mut directories] {
        // Those of the command line are relative to the current directory.
        paths.iter_mut().for_each(|path| *path = absolute(path));
        paths.sort_unstable();
        paths.dedup();
    }
    OwnPaths { files, directories }
}

/// Private keys, and certificates in whose file the key is, too.
fn keys(config: &Config) -> impl Iterator<Item = PathBuf> {
    let of_sites = config.sites.iter().map(|site| (&site.tls.key, site.tls.certificate.as_ref()));
    let of_streams = config.streams.iter().map(|stream| match &stream.certificate {
        StreamCertificate::File(path) => (&stream.key, Some(path)),
        StreamCertificate::None | StreamCertificate::OfSites => (&stream.key, None),
    });
    let proxies = config.sites.iter().flat_map(|site| &site.routes).filter_map(|route| route.proxy.as_ref());
    let to_origins = proxies.map(|proxy| &proxy.tls).chain(config.streams.iter().map(|one| &one.origin_tls));
    let to_origins = to_origins.map(|tls| (&tls.key, tls.certificate.as_ref()));
    let all = of_sites.chain(of_streams).chain(to_origins);
    all.filter_map(|(key, certificate)| key.as_ref().or(certificate).cloned())
}

fn logs(config: &Config) -> impl Iterator<Item = PathBuf> {
    let sites = || config.sites.iter();
    let access = |log: &AccessLogConfig| log.destination.clone();
    let error = |log: &ErrorLogConfig| log.destination.clone();
    let of_server = [access(&config.access_log), error(&config.error_log)];
    let of_sites = sites().filter_map(move |site| site.access_log.as_ref().map(access));
    let of_sites = of_sites.chain(sites().filter_map(move |site| site.error_log.as_ref().map(error)));
    let of_streams = config.streams.iter().map(|stream| stream.access_log.clone());
    of_server.into_iter().chain(of_sites).chain(of_streams).filter_map(|destination| match destination {
        LogDestination::File(path) => Some(path),
        _ => None,
    })
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::keys::for_each_section;
    use crate::{load_sources, parse};
    use touchstone_config_section::ValidValues;

    /// Keys whose files and directories may be given out: what a site serves or runs, certificates of
    /// authorities, and the rest without secrets.
    const MAY_BE_PUBLIC: &[(&str, &str)] = &[
        ("acme", "ca_certificate"),
        ("acme.nats", "ca_certificate"),
        ("java", "home"),
        ("java", "library"),
        ("java", "work_directory"),
        ("server", "pid_file"),
        ("site", "client_authorities"),
        ("site", "root"),
        ("site.crawlers", "ca_certificate"),
        ("site.forward_auth", "ca_certificate"),
        ("site.jwt", "ca_certificate"),
        ("site.login", "ca_certificate"),
        ("site.route", "alias"),
        ("site.route", "root"),
        ("site.route.ajp", "directory"),
        ("site.route.cgi", "directory"),
        ("site.route.cgi", "interpreter"),
        ("site.route.cgi", "program"),
        ("site.route.cgi", "spool_directory"),
        ("site.route.fastcgi", "directory"),
        ("site.route.fastcgi", "document_root"),
        ("site.route.fastcgi", "send_files_from"),
        ("site.route.middleware", "compiled"),
        ("site.route.middleware", "component"),
        ("site.route.nsapi", "directory"),
        ("site.route.php", "directory"),
        ("site.route.php", "document_root"),
        ("site.route.php", "send_files_from"),
        ("site.route.proxy.tls", "authorities"),
        ("site.route.python", "directory"),
        ("site.route.python", "virtualenv"),
        ("site.route.scgi", "directory"),
        ("site.route.scgi", "document_root"),
        ("site.route.scgi", "send_files_from"),
        ("site.route.servlet", "app"),
        ("site.route.servlet", "directory"),
        ("site.route.uwsgi", "directory"),
        ("site.route.uwsgi", "document_root"),
        ("site.route.uwsgi", "send_files_from"),
        ("site.route.wasm", "compiled"),
        ("site.route.wasm", "component"),
        ("stream.origin_tls", "authorities"),
        ("telemetry", "ca_certificate"),
    ];

    /// Keys that [`own_paths`] takes from the configuration itself.
    const OF_CONFIGURATION: &[(&str, &str)] = &[
        ("accelerator", "disk"),
        ("acme", "storage"),
        ("control", "directory"),
        ("site", "certificate"),
        ("site", "key"),
        ("site.route.proxy.tls", "certificate"),
        ("site.route.proxy.tls", "key"),
        ("site.route.webdav", "state"),
        ("stream", "certificate"),
        ("stream", "key"),
        ("stream.origin_tls", "certificate"),
        ("stream.origin_tls", "key"),
    ];

    #[test]
    fn every_key_with_a_file_is_decided() {
        let mut undecided = BTreeSet::new();
        for_each_section!(section => {
            for key in section.description().keys {
                let names_file = match key.values {
                    ValidValues::File
                    | ValidValues::Files
                    | ValidValues::FileOrWord { .. }
                    | ValidValues::Directory => true,
                    ValidValues::Checked { what } => what.contains("file"),
                    _ => false,
                };
                let one = (section.name, key.name);
                let lists = [&FILES[..], MAY_BE_PUBLIC, OF_CONFIGURATION];
                let times = lists.iter().filter(|list| list.contains(&one)).count();
                if names_file && times != 1 {
                    undecided.insert(one);
                }
            }
        });
        assert_eq!(undecided, BTreeSet::new(), "each belongs into one list");
    }

    fn paths(text: &str) -> OwnPaths {
        own_paths(&parse(text, Path::new("/etc/t/site.toml")).unwrap())
    }

    #[test]
    fn files_of_the_server() {
        let site = "[[site]]\nlisten = ['127.0.0.1:80']\nroot = 'www'\n";
        for (keys, expected) in [
            ("", ""),
            ("certificate = 'c.pem'", "c.pem"),
            ("certificate = 'c.pem'\nkey = 'k.pem'", "k.pem"),
            ("certificate = 'c.pem'\nkey = 'k.pem'\nclient_authorities = 'a.pem'", "k.pem"),
            ("access_log = 'a.log'", "a.log"),
            ("basic_authentication = { file = 'users' }", "users"),
            ("signed_link = { secret_file = 's', text = '$path', expires = '' }", "s"),
            ("[[site.route]]\nroot = 'other'\nbasic_authentication = { file = 'users' }", "users"),
        ] {
            let text = format!("{site}{keys}\n");
            let mut names = vec!["/etc/t/site.toml".to_string()];
            names.extend(Some(expected).filter(|name| !name.is_empty()).map(|name| format!("/etc/t/{name}")));
            names.sort();
            let files: Vec<String> =
                paths(&text).files.iter().map(|path| path.display().to_string()).collect();
            assert_eq!(files, names, "{keys}");
        }
    }

    #[test]
    fn directories_of_the_server() {
        let text = "[acme]\ndirectory = 'https://127.0.0.1:1/'\nagree_to_terms = true\nstorage = 'acme'\n\
                    [accelerator]\ndisk = 'stored'\n[control]\ndirectory = 'control'\n\
                    [[site]]\nlisten = ['127.0.0.1:80']\nroot = 'www'\n[[site.route]]\npath = '/d/'\n\
                    webdav = { state = 'dav' }\n";
        let directories = paths(text).directories;
        for name in ["acme", "stored", "control", "dav"] {
            assert!(directories.contains(&Path::new("/etc/t").join(name)), "{name}: {directories:?}");
        }
    }

    #[test]
    fn included_files_are_own() {
        let source = |name: &str, text: &str| Source {
            name: name.into(),
            base: Path::new("/etc/t").join(name).parent().unwrap().to_path_buf(),
            text: text.to_string(),
        };
        let site = "[[site]]\nlisten = ['127.0.0.1:80']\nroot = 'www'\n";
        let sources = [source("a.toml", ""), source("conf.d/b.toml", site)];
        let files = own_paths(&load_sources(&sources, &[]).unwrap().config).files;
        assert_eq!(files, [PathBuf::from("/etc/t/a.toml"), PathBuf::from("/etc/t/conf.d/b.toml")]);
    }
}
