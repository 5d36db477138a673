//! What the configurations of one server have in common: its programs, origins and other services with their
//! state and their counts.
//!
//! The server owns them: a reload keeps them, and another server in the same process has its own. What a
//! process has only once is not here: the Java virtual machine, plug-ins, spawners of CGI programs.

use std::sync::Arc;

use touchstone_accelerator::layer::Accelerator;
use touchstone_access::AccessShared;
use touchstone_crawlers::CrawlersShared;
use touchstone_files::own_files::OwnFiles;
use touchstone_handler::service_counts::ServiceCounts;
use touchstone_interfaces::backend::Backends;
use touchstone_login::LoginShared;
use touchstone_processes::pool::Pools;
use touchstone_proxy::OriginGroups;
use touchstone_python::PythonPools;
use touchstone_servlet::ServletRoutes;
use touchstone_tls::TlsShared;
use touchstone_webdav::WebDavStores;

use crate::stream_logs::StreamLogs;

/// The programs, origins and other services of a server.
#[derive(Clone, Default)]
pub struct Services {
    /// The origins of routes and streams.
    pub origins: Arc<OriginGroups>,
    /// Programs that listen.
    pub backends: Arc<Backends>,
    /// Processes that the server starts.
    pub pools: Arc<Pools>,
    /// Applications in Python.
    pub python: Arc<PythonPools>,
    /// Routes with servlets.
    pub servlets: Arc<ServletRoutes>,
    /// WebAssembly components.
    #[cfg(feature = "wasm")]
    pub wasm: Arc<touchstone_wasm::WasmShared>,
    /// Locks and properties of WebDAV.
    pub webdav: Arc<WebDavStores>,
    /// Providers of logins.
    pub logins: Arc<LoginShared>,
    /// Keys and directories of bots.
    pub crawlers: Arc<CrawlersShared>,
    /// The logs of streams.
    pub stream_logs: Arc<StreamLogs>,
    /// What the metrics count by name.
    pub counts: Arc<ServiceCounts>,
    /// Files of the server itself, which no site gives out.
    pub own_files: Arc<OwnFiles>,
}

/// What every configuration of a server uses.
#[derive(Clone)]
pub struct ServerShared {
    /// Certificates and sessions.
    pub tls: Arc<TlsShared>,
    /// The state of access rules.
    pub access: Arc<AccessShared>,
    /// The store of responses.
    pub accelerator: Arc<Accelerator>,
    /// Programs and origins.
    pub services: Services,
}

impl Services {
    /// Called before a configuration is opened.
    pub fn begin_configuration(&self) {
        self.origins.begin_configuration();
        self.python.begin_configuration();
        self.servlets.begin_configuration();
    }

    /// Called when the cores use the configuration that was opened last.
    pub fn configuration_in_use(&self) {
        self.own_files.forget_earlier();
        self.servlets.configuration_in_use();
        self.python.configuration_in_use();
        self.origins.configuration_in_use();
    }

    /// Ends all processes of programs, and waits until they have ended.
    pub fn stop(&self) {
        self.pools.stop();
        self.servlets.stop();
        self.python.stop();
    }
}

#[cfg(test)]
impl ServerShared {
    /// That of a server with a small store.
    pub fn example() -> ServerShared {
        let store = touchstone_accelerator::store::Store::new(1 << 20, None);
        ServerShared {
            tls: TlsShared::new(),
            access: AccessShared::new(Arc::new(|_| {})),
            accelerator: Arc::new(Accelerator::new(store)),
            services: Services::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use touchstone_config::{Config, ErrorLogConfig, LogDestination, LogLevel};
    use touchstone_handler::stream_counts::End;
    use touchstone_http::request_view::RequestView;
    use touchstone_observe::log::error::ErrorLog;
    use touchstone_observe::metrics::{MetricSources, Metrics, Totals};
    use touchstone_proxy::{OriginOrder, OriginState};
    use touchstone_telemetry::SpanQueue;

    use super::*;
    use crate::logs::ServerLogs;
    use crate::route::SiteRules;
    use crate::site::Snapshot;
    use crate::streams::{self, StreamSetup};

    const SITE: &str = "[[site]]\nlisten = ['127.0.0.1:80']\nroot = '/'\n[[site.route]]\npath = '/app/'\n\
                        proxy = { to = 'http://127.0.0.1:1' }\n[[site.route]]\npath = '/f/'\n\
                        fastcgi = { backends = ['127.0.0.1:2'] }\n";

    /// What the metrics count by name.
    const COUNTED: &str = r#"
        [[stream]]
        name = "s"
        listen = ["127.0.0.1:3"]
        to = "127.0.0.1:4"
        access_log = "LOG"
        [[site]]
        listen = ["127.0.0.1:80"]
        root = "ROOT"
        crawlers = { enabled = true }
        login = { issuer = "https://127.0.0.1:1", client_id = "c" }
        [[site.route]]
        path = "/dav/"
        webdav = { state = "STATE" }
    "#;

    fn parse(text: &str) -> Config {
        touchstone_config::parse(text, Path::new("/etc/site.toml")).unwrap()
    }

    /// Opens a configuration as a server does, as far as programs and origins are concerned.
    fn open(config: &Config, server: &ServerShared) -> (Option<SiteRules>, Vec<Arc<StreamSetup>>) {
        let off = ErrorLogConfig::new(LogDestination::Off, LogLevel::Info);
        let (error_log, spans) = (ErrorLog::start(&off).unwrap(), SpanQueue::new(Arc::default()));
        let logs = ServerLogs { error_log: &error_log, lost_lines: Default::default(), spans: &spans };
        server.services.begin_configuration();
        let rules = SiteRules::open(&config.sites[0], server).unwrap();
        let streams = streams::open(config, server, &logs).unwrap_or_else(|problem| panic!("{}", problem.0));
        server.services.configuration_in_use();
        (rules, streams)
    }

    fn totals(server: &ServerShared) -> Totals {
        let counts = server.services.counts.clone();
        Totals::of(&Metrics::new(MetricSources { counts, ..MetricSources::default() }))
    }

    #[test]
    fn two_servers_of_one_process_have_their_own_origins() {
        let config = parse(SITE);
        let servers = [ServerShared::example(), ServerShared::example()];
        let _opened = servers.each_ref().map(|server| open(&config, server));
        let [one, other] = servers.each_ref().map(|server| server.services.origins.in_use());
        assert_eq!((one.len(), other.len()), (1, 1));
        assert!(!Arc::ptr_eq(&one[0], &other[0]));
        let place = (one[0].settings.name.clone(), one[0].members[0].name.clone());
        let order = OriginOrder { state: Some(OriginState::Drain), weight: None };
        servers[0].services.origins.set_orders([(place, order)].into());
        assert_eq!(one[0].members[0].state(), OriginState::Drain);
        assert_eq!(other[0].members[0].state(), OriginState::Ready);
        // A reload keeps both.
        let _opened = servers.each_ref().map(|server| open(&config, server));
        assert!(Arc::ptr_eq(&one[0], &servers[0].services.origins.in_use()[0]));
        assert_eq!(one[0].members[0].state(), OriginState::Drain);
    }

    /// A file in MaxMind's format in which all addresses of IPv4 are in this country: a node whose records
    /// both point to the first value, that value, and the description of the file.
    fn country_file(country: &str) -> Vec<u8> {
        [
            &b"\0\0\x11\0\0\x11"[..],
            &[0; 16],
            b"\xe1\x47country\xe1\x48iso_code\x42",
            country.as_bytes(),
            b"\xab\xcd\xefMaxMind.com\xe9\x4anode_count\xc1\x01\x4brecord_size\xa1\x18\x4aip_version\xa1\x04",
            b"\x5bbinary_format_major_version\xa1\x02\x5bbinary_format_minor_version\xa1\x00",
            b"\x4bbuild_epoch\x01\x02\x01\x4ddatabase_type\x41a\x49languages\x00\x04\x4bdescription\xe0",
        ]
        .concat()
    }

    #[test]
    fn two_servers_of_one_process_locate_clients_by_their_own_files() {
        let place = tempfile::tempdir().unwrap();
        let off = ErrorLogConfig::new(LogDestination::Off, LogLevel::Info);
        let (error_log, spans) = (ErrorLog::start(&off).unwrap(), SpanQueue::new(Arc::default()));
        let logs = ServerLogs { error_log: &error_log, lost_lines: Default::default(), spans: &spans };
        let snapshots = ["DE", "FR"].map(|country| {
            let file = place.path().join(country);
            std::fs::write(&file, country_file(country)).unwrap();
            let text = format!(
                "[geoip]\nfiles = ['{}']\n[[site]]\nlisten = ['127.0.0.1:80']\nroot = '{}'\n\
                 [[site.route]]\nwhen = '$geoip_country == \"DE\"'\nrespond = {{ status = 204 }}\n",
                file.display(),
                place.path().display(),
            );
            let server = ServerShared::example();
            let opened = Snapshot::open(parse(&text), &server, &Arc::default(), &Arc::default(), &logs);
            opened.unwrap_or_else(|problem| panic!("{}", problem.0))
        });
        let matches = snapshots.each_ref().map(|snapshot| {
            let view = RequestView { locator: snapshot.locator.as_deref(), ..RequestView::example("/") };
            snapshot.sites[0].rules.as_ref().unwrap().resolve(&view).route.is_some()
        });
        assert_eq!(matches, [true, false]);
    }

    #[test]
    fn two_servers_of_one_process_count_apart() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("root")).unwrap();
        let mut text = COUNTED.to_string();
        for (name, file) in [("ROOT", "root"), ("STATE", "state"), ("LOG", "log")] {
            text = text.replace(name, place.path().join(file).to_str().unwrap());
        }
        let config = parse(&text);
        let servers = [ServerShared::example(), ServerShared::example()];
        let opened = servers.each_ref().map(|server| open(&config, server));
        let counts = &servers[0].services.counts;
        let stream = &opened[0].1[0].counts;
        stream.accepted.add(2);
        stream.ended(End::Idle);
        counts.webdav.all()[0].1.requested("PUT");
        counts.logins.all()[0].1.started.add(3);
        counts.crawlers.all()[0].1.add(touchstone_handler::crawler_counts::Result::Admitted);
        let numbers = |server: &ServerShared| {
            let totals = totals(server);
            let webdav: u64 = totals.webdav[0].requests.iter().sum();
            let crawlers: u64 = totals.crawlers[0].results.iter().sum();
            (totals.streams[0].accepted, webdav, totals.logins[0].started, crawlers)
        };
        assert_eq!(servers.each_ref().map(numbers), [(2, 1, 3, 1), (0, 0, 0, 0)]);
        // A reload keeps them, and what no configuration has any more is not counted.
        let again = open(&config, &servers[0]);
        drop(opened);
        assert_eq!(numbers(&servers[0]), (2, 1, 3, 1));
        drop(again);
        let left = totals(&servers[0]);
        assert!(left.streams.is_empty() && left.webdav.is_empty());
        assert!(left.logins.is_empty() && left.crawlers.is_empty());
    }
}
