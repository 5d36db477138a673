//! What the configurations of one server have in common: its programs and origins with their state.
//!
//! The server owns them: a reload keeps them, and another server in the same process has its own. What a
//! process has only once is not here: the Java virtual machine, plug-ins, spawners of CGI programs.

use std::sync::Arc;

use touchstone_accelerator::layer::Accelerator;
use touchstone_access::AccessShared;
use touchstone_interfaces::backend::Backends;
use touchstone_processes::pool::Pools;
use touchstone_proxy::OriginGroups;
use touchstone_python::PythonPools;
use touchstone_tls::TlsShared;

/// The programs and origins of a server.
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
        touchstone_servlet::begin_configuration();
    }

    /// Called when the cores use the configuration that was opened last.
    pub fn configuration_in_use(&self) {
        touchstone_servlet::end_unwanted();
        self.python.configuration_in_use();
        self.origins.configuration_in_use();
    }

    /// Ends all processes of programs, and waits until they have ended.
    pub fn stop(&self) {
        self.pools.stop();
        touchstone_servlet::stop();
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

    use touchstone_proxy::{OriginOrder, OriginState};

    use super::*;
    use crate::route::SiteRules;

    const SITE: &str = "[[site]]\nlisten = ['127.0.0.1:80']\nroot = '/'\n[[site.route]]\npath = '/app/'\n\
                        proxy = { to = 'http://127.0.0.1:1' }\n[[site.route]]\npath = '/f/'\n\
                        fastcgi = { backends = ['127.0.0.1:2'] }\n";

    #[test]
    fn two_servers_of_one_process_have_their_own_origins() {
        let config = touchstone_config::parse(SITE, Path::new("/etc/site.toml")).unwrap();
        let servers = [ServerShared::example(), ServerShared::example()];
        let open = |server: &ServerShared| {
            server.services.begin_configuration();
            let rules = SiteRules::open(&config.sites[0], server).unwrap();
            server.services.configuration_in_use();
            rules
        };
        let _rules = servers.each_ref().map(open);
        let [one, other] = servers.each_ref().map(|server| server.services.origins.in_use());
        assert_eq!((one.len(), other.len()), (1, 1));
        assert!(!Arc::ptr_eq(&one[0], &other[0]));
        let place = (one[0].settings.name.clone(), one[0].members[0].name.clone());
        let order = OriginOrder { state: Some(OriginState::Drain), weight: None };
        servers[0].services.origins.set_orders([(place, order)].into());
        assert_eq!(one[0].members[0].state(), OriginState::Drain);
        assert_eq!(other[0].members[0].state(), OriginState::Ready);
        // A reload keeps both.
        let _rules = servers.each_ref().map(open);
        assert!(Arc::ptr_eq(&one[0], &servers[0].services.origins.in_use()[0]));
        assert_eq!(one[0].members[0].state(), OriginState::Drain);
    }
}
