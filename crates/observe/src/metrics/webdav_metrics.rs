//! The table of the metrics of WebDAV.

use touchstone_handler::webdav_counts::{METHODS, Refusal};

use super::definition::{ROUTE, SITE};
use super::metric::{Definition, Kind, Samples};
use super::totals::Totals;
use super::webdav_totals::WebDavTotals;

/// Adds one number for each route.
fn each(totals: &Totals, samples: &mut Samples<'_>, number: impl Fn(&WebDavTotals) -> u64) {
    totals.webdav.iter().for_each(|route| samples.add(&[&route.site, &route.route], number(route)));
}

/// Adds numbers for each route that are told apart by one more label.
fn each_of<const COUNT: usize>(
    totals: &Totals,
    samples: &mut Samples<'_>,
    labels: [&str; COUNT],
    numbers: impl Fn(&WebDavTotals) -> [u64; COUNT],
) {
    for route in &totals.webdav {
        for (label, number) in labels.iter().zip(numbers(route)) {
            samples.add(&[&route.site, &route.route, label], number);
        }
    }
}

/// Every metric of WebDAV, in the order of the exposition.
pub static WEBDAV_METRICS: &[Definition] = &[
    Definition {
        name: "touchstone_webdav_requests",
        kind: Kind::Counter,
        help: "Requests of WebDAV, and those that change files. GET, HEAD and OPTIONS are counted as those \
            of other routes.",
        labels: &[SITE, ROUTE, ("method", "`PROPFIND`, `PUT` and so on")],
        collect: |totals, samples| each_of(totals, samples, METHODS, |route| route.requests),
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
            each_of(totals, samples, Refusal::ALL.map(Refusal::label), |route| route.refusals);
        },
    },
    Definition {
        name: "touchstone_webdav_written_bytes",
        kind: Kind::Counter,
        help: "Bytes of uploads (PUT) that were written, also of uploads that broke off.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| each(totals, samples, |route| route.written_bytes),
    },
    Definition {
        name: "touchstone_webdav_locks",
        kind: Kind::Gauge,
        help: "Locks that clients hold. Routes with the same tree of files have the same locks.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| each(totals, samples, |route| route.locks),
    },
];
