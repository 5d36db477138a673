//! The table of the metrics of WebDAV.

use touchstone_handler::webdav_counts::{METHODS, Refusal};

use super::definition::{ROUTE, SITE};
use super::metric::{Definition, Kind};
use super::webdav_totals::WebDavTotals;

fn labels(route: &WebDavTotals) -> [&str; 2] {
    [&route.site, &route.route]
}

/// Every metric of WebDAV, in the order of the exposition.
pub static WEBDAV_METRICS: &[Definition] = &[
    Definition {
        name: "touchstone_webdav_requests",
        kind: Kind::Counter,
        help: "Requests of WebDAV, and those that change files. GET, HEAD and OPTIONS are counted as those \
            of other routes.",
        labels: &[SITE, ROUTE, ("method", "`PROPFIND`, `PUT` and so on")],
        collect: |totals, samples| samples.each_of(&totals.webdav, labels, METHODS, |route| route.requests),
    },
    Definition {
        name: "touchstone_webdav_refusals",
        kind: Kind::Counter,
        help: "Those of them that were refused.",
        labels: &[
            SITE,
            ROUTE,
            (
                "reason",
                "`locked`: a lock of another client (423); `condition`: a condition does not hold (412); \
                 `conflict`: a collection on the way is missing (409); `forbidden` (403); `not_found` (404); \
                 `method`: not allowed, or not known (405, 501); `too_large` (413); `storage`: no room \
                 (507); `request`: it is wrong (400 and others); `failed`: the server could not do it (5xx)",
            ),
        ],
        collect: |totals, samples| {
            samples.each_of(&totals.webdav, labels, Refusal::ALL.map(Refusal::label), |route| route.refusals);
        },
    },
    Definition {
        name: "touchstone_webdav_written_bytes",
        kind: Kind::Counter,
        help: "Bytes of uploads (PUT) that were written, also of uploads that broke off.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| samples.each(&totals.webdav, labels, |route| route.written_bytes),
    },
    Definition {
        name: "touchstone_webdav_locks",
        kind: Kind::Gauge,
        help: "Locks that clients hold. Routes with the same tree of files have the same locks.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| samples.each(&totals.webdav, labels, |route| route.locks),
    },
];
