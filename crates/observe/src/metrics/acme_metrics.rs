//! The table of the metrics of certificates from an authority.

use super::metric::{Definition, Kind};

/// Every metric of certificates, in the order of the exposition.
pub static ACME_METRICS: &[Definition] = &[
    Definition {
        name: "touchstone_acme_orders",
        kind: Kind::Counter,
        help: "Orders of certificates.",
        labels: &[(
            "result",
            "`done`: the authority returned a certificate; `failed`: the error log has \
             the reason",
        )],
        collect: |totals, samples| {
            for (result, count) in totals.acme.iter().flat_map(|acme| acme.orders) {
                samples.add(&[result], count);
            }
        },
    },
    Definition {
        name: "touchstone_acme_certificate_end_seconds",
        kind: Kind::Gauge,
        help: "The end of validity of a certificate of the configuration, in seconds since 1970.",
        labels: &[("name", "the first host of the certificate")],
        collect: |totals, samples| {
            for (name, end_s) in totals.acme.iter().flat_map(|acme| &acme.ends) {
                samples.add(&[name], u64::try_from(*end_s).unwrap_or(0));
            }
        },
    },
    Definition {
        name: "touchstone_acme_on_demand_names",
        kind: Kind::Gauge,
        help: "Names with a certificate on demand that is in use.",
        labels: &[],
        collect: |totals, samples| {
            totals.acme.iter().for_each(|acme| samples.add(&[], acme.names));
        },
    },
    Definition {
        name: "touchstone_acme_on_demand_asked",
        kind: Kind::Counter,
        help: "Requests to the server of `acme.on_demand.ask`.",
        labels: &[],
        collect: |totals, samples| {
            totals.acme.iter().for_each(|acme| samples.add(&[], acme.queries));
        },
    },
    Definition {
        name: "touchstone_acme_on_demand_refused",
        kind: Kind::Counter,
        help: "Handshakes that got no certificate on demand and did not wait for one.",
        labels: &[(
            "reason",
            "`refused`: the name may have none, or has failed recently; `overload`: too many handshakes wait",
        )],
        collect: |totals, samples| {
            for (reason, count) in totals.acme.iter().flat_map(|acme| acme.refused) {
                samples.add(&[reason], count);
            }
        },
    },
];
