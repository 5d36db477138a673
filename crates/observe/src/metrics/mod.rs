//! The counters of the server, and their formats for monitoring systems.
//!
//! ```text
//! core 0: hit, answered -> counts of its own --\
//! core 1: hit, answered -> counts of its own ---+--> Totals, on request --> exposition, status page
//! core n: hit, answered -> counts of its own --/
//! ```
//!
//! A core writes its counters without locks and without sharing a cache line. A reader reads and adds up the
//! counters of all cores. The tables that [`definitions`] joins define every metric once.
//!
//! | module | |
//! |---|---|
//! | `count`, `histogram` | a number, and times, with one writer and any readers |
//! | `core_counts`, `route_counts` | the counts of a core, as a whole and of each route |
//! | `core_metrics` | the functions that connections call |
//! | `traffic` | bytes in and out of a thread |
//! | `registry` | the counters of the process |
//! | `route_table` | the names of sites and routes |
//! | `origin_totals` | the counts of origins |
//! | `component_totals` | the counts of WebAssembly components |
//! | `stream_totals` | the counts of streams |
//! | `webdav_totals` | the counts of WebDAV |
//! | `login_totals` | the counts of logins |
//! | `acme_counts` | the counts of certificates from an authority |
//! | `crawler_totals` | the counts of bots and checked visitors |
//! | `telemetry_counts` | the counts of traces and metrics that are sent |
//! | `control_counts` | the counts of changes by the control API |
//! | `process` | the values that the kernel reports |
//! | `totals` | the sums of all counts |
//! | `metric` | the definition of a metric |
//! | `definition` | the metrics of the core server |
//! | `servlet_metrics`, `python_metrics`, `component_metrics`, `acme_metrics`, `stream_metrics`,
//! `webdav_metrics`, `login_metrics`, `crawler_metrics` | the metrics of these parts |
//! | `exposition`, `documentation` | the metrics as text for machines and for readers |

mod acme_counts;
mod acme_metrics;
mod component_metrics;
mod component_totals;
mod control_counts;
mod core_counts;
mod core_metrics;
mod count;
mod crawler_metrics;
mod crawler_totals;
mod definition;
mod documentation;
mod exposition;
mod histogram;
mod login_metrics;
mod login_totals;
mod metric;
mod origin_totals;
mod process;
mod python_metrics;
mod registry;
mod route_counts;
mod route_table;
mod servlet_metrics;
mod stream_metrics;
mod stream_totals;
mod telemetry_counts;
mod totals;
pub mod traffic;
mod webdav_metrics;
mod webdav_totals;

/// Every metric, in the order of the exposition.
pub fn definitions() -> impl Iterator<Item = &'static Definition> {
    let of_programs = servlet_metrics::SERVLET_METRICS
        .iter()
        .chain(python_metrics::PYTHON_METRICS)
        .chain(component_metrics::COMPONENT_METRICS)
        .chain(stream_metrics::STREAM_METRICS)
        .chain(webdav_metrics::WEBDAV_METRICS)
        .chain(login_metrics::LOGIN_METRICS)
        .chain(acme_metrics::ACME_METRICS)
        .chain(crawler_metrics::CRAWLER_METRICS);
    definition::METRICS.iter().chain(of_programs)
}

pub use acme_counts::{AcmeCounts, AcmeTotals};
pub use component_totals::{ComponentTotals, component_totals};
pub use control_counts::{ControlCounts, ControlResult};
pub use core_counts::{
    ConnectionRefusal, ConnectionState, CoreCounts, HANDSHAKE_FAILURES, PROTOCOLS, TLS_VERSIONS, Timeout,
    version_label,
};
pub use core_metrics::{AnswerFacts, CoreMetrics};
pub use count::Count;
pub use crawler_totals::{CrawlerTotals, crawler_totals};
pub use documentation::documentation_markdown;
pub use exposition::{Format, expose};
pub use histogram::Distribution;
pub use login_totals::{LoginTotals, login_totals};
pub use metric::{Definition, Kind, Point, PointValue};
pub use origin_totals::{OriginTotals, origin_totals};
pub use process::ProcessFacts;
pub use registry::{MetricSources, Metrics};
pub use route_counts::{CLASSES, RouteCounts, RouteLabels};
pub use route_table::{RouteTable, SiteNames};
pub use stream_totals::{StreamTotals, stream_totals};
pub use telemetry_counts::TelemetryCounts;
pub use totals::{CoreTotals, RouteTotals, Sample, Totals};
pub use webdav_totals::{WebDavTotals, webdav_totals};
