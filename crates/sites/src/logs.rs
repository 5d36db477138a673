//! The logs that belong to sites and routes.
//!
//! They are opened and closed with a configuration. Without such logs every request is in the log of the
//! server.

use std::sync::Arc;

use touchstone_config::{AccessLogConfig, Config, ErrorLogConfig};
use touchstone_handler::handler::Interface;
use touchstone_observe::log::access::{AccessLog, CoreBuffer, LostLines};
use touchstone_observe::log::error::ErrorLog;
use touchstone_telemetry::SpanQueue;

use crate::route::SiteRules;
use crate::unusable::Unusable;

/// The logs of the server. Those of sites and routes are opened in addition.
pub struct ServerLogs<'a> {
    /// The error log of the server.
    pub error_log: &'a ErrorLog,
    /// Counts the lines that the access log has lost.
    pub lost_lines: LostLines,
    /// The queue of the spans of traced requests.
    pub spans: &'a Arc<SpanQueue>,
}

/// The log that contains the line of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogIndex {
    /// The log of the server.
    Server,
    /// The log at this position.
    Own(usize),
}

/// The logs of sites and routes.
pub struct SiteLogs {
    access: Logs<AccessLog>,
    error: Logs<ErrorLog>,
}

/// Logs of one kind, and the sites and routes that use them.
struct Logs<L> {
    logs: Vec<L>,
    of_sites: Box<[SiteLogIndexes]>,
}

struct SiteLogIndexes {
    site: LogIndex,
    routes: Box<[LogIndex]>,
}

impl SiteLogs {
    /// Opens the logs of a configuration; `None` if it has only those of the server.
    pub fn open(config: &Config, server: &ServerLogs<'_>) -> Result<Option<Arc<SiteLogs>>, Unusable> {
        let access = Logs::open(
            config,
            |site| site.access_log.as_ref(),
            |route| route.access_log.as_ref(),
            |log: &AccessLogConfig| AccessLog::start_beside(&server.lost_lines, log),
        )?;
        let error = Logs::open(
            config,
            |site| site.error_log.as_ref(),
            |route| route.error_log.as_ref(),
            |log: &ErrorLogConfig| ErrorLog::start(log),
        )?;
        let has_none = access.logs.is_empty() && error.logs.is_empty();
        Ok((!has_none).then(|| Arc::new(SiteLogs { access, error })))
    }

    /// The log that contains the line of a request of a site and route.
    pub fn access_log_of(&self, site: Option<usize>, route: Option<usize>) -> LogIndex {
        self.access.of(site, route)
    }

    /// A buffer for each access log, for one core.
    pub fn core_buffers(&self) -> Vec<CoreBuffer> {
        self.access.logs.iter().map(AccessLog::core_buffer).collect()
    }

    /// The error log for requests of a site and route; `None`: that of the server.
    pub fn error_log_of(&self, site: usize, route: Option<usize>) -> Option<&ErrorLog> {
        match self.error.of(Some(site), route) {
            LogIndex::Server => None,
            LogIndex::Own(position) => self.error.logs.get(position),
        }
    }

    /// The same for the interface that answers the requests of a route.
    pub fn error_log_of_interface<'r>(
        &self,
        rules_of_sites: impl Iterator<Item = Option<&'r SiteRules>>,
        interface: &Arc<dyn Interface>,
    ) -> Option<&ErrorLog> {
        let (site, route) = rules_of_sites.enumerate().find_map(|(index, rules)| {
            let route = rules?.route_of_interface(interface)?;
            Some((index, route))
        })?;
        self.error_log_of(site, Some(route))
    }

    /// Opens the files again, after they were renamed. The error lists the logs that could not be opened;
    /// they stay as they were.
    pub fn reopen(&self) -> Result<(), String> {
        self.access.logs.iter().for_each(AccessLog::reopen);
        let failures: Vec<String> =
            self.error.logs.iter().filter_map(|log| log.reopen().err()).map(|e| e.to_string()).collect();
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    }

    /// Reports how many messages the past seconds' limits have suppressed.
    pub fn tick(&self) {
        self.error.logs.iter().for_each(ErrorLog::tick);
    }

    /// Writes everything, and ends the writers. The buffers of the cores must be dropped before.
    pub fn finish(&self) {
        self.access.logs.iter().for_each(AccessLog::finish);
    }
}

impl<L> Logs<L> {
    fn open<'c, C: PartialEq + 'c>(
        config: &'c Config,
        of_site: impl Fn(&'c touchstone_config::SiteConfig) -> Option<&'c C>,
        of_route: impl Fn(&'c touchstone_config::RouteConfig) -> Option<&'c C>,
        start: impl Fn(&C) -> std::io::Result<L>,
    ) -> Result<Logs<L>, Unusable> {
        let mut opened: Vec<(&C, L)> = Vec::new();
        let mut position_of = |log: Option<&'c C>, above: LogIndex| -> Result<LogIndex, Unusable> {
            let Some(log) = log else { return Ok(above) };
            if let Some(known) = opened.iter().position(|(other, _)| *other == log) {
                return Ok(LogIndex::Own(known));
            }
            opened.push((log, start(log).map_err(|error| Unusable(error.to_string()))?));
            Ok(LogIndex::Own(opened.len() - 1))
        };
        let mut of_sites = Vec::with_capacity(config.sites.len());
        for site in &config.sites {
            let log = position_of(of_site(site), LogIndex::Server)?;
            let routes = site.routes.iter().map(|route| position_of(of_route(route), log));
            let routes = routes.collect::<Result<_, _>>()?;
            of_sites.push(SiteLogIndexes { site: log, routes });
        }
        Ok(Logs { logs: opened.into_iter().map(|(_, log)| log).collect(), of_sites: of_sites.into() })
    }

    fn of(&self, site: Option<usize>, route: Option<usize>) -> LogIndex {
        let Some(of_site) = site.and_then(|site| self.of_sites.get(site)) else { return LogIndex::Server };
        route.and_then(|route| of_site.routes.get(route)).copied().unwrap_or(of_site.site)
    }
}
