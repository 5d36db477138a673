//! The table of the metrics of applications in Python: their workers, and the requests in these.

use touchstone_python::status::ApplicationStatus;

use super::definition::{ROUTE, SITE};
use super::metric::{Definition, Kind};

const APPLICATION: (&str, &str) = ("application", "module and name; the site and the route are its first");

/// The states of an application.
const STATES: [&str; 3] = ["starting", "ready", "failed"];

/// Every metric of applications in Python, in the order of the exposition.
pub static PYTHON_METRICS: &[Definition] = &[
    Definition {
        name: "touchstone_python_application_up",
        kind: Kind::Gauge,
        help: "The state of an application: 1 for the current state, 0 for the others.",
        labels: &[
            SITE,
            ROUTE,
            APPLICATION,
            (
                "state",
                "`starting`: its requests wait for the first worker; `ready`; `failed`: no worker can be \
                 kept running, and its requests get 503",
            ),
        ],
        collect: |totals, samples| {
            for application in &totals.python.applications {
                for state in STATES {
                    let [site, route, app] = labels(application);
                    samples.add(&[site, route, app, state], u64::from(application.state == state));
                }
            }
        },
    },
    Definition {
        name: "touchstone_python_workers",
        kind: Kind::Gauge,
        help: "Worker processes of an application.",
        labels: &[
            SITE,
            ROUTE,
            APPLICATION,
            (
                "state",
                "`ready`: it takes requests; `starting`: it imports the application; `ending`: it takes no \
                 more requests, and ends when those that it has are answered",
            ),
        ],
        collect: |totals, samples| {
            for application in &totals.python.applications {
                let [site, route, app] = labels(application);
                samples.add(&[site, route, app, "ready"], application.workers.len() as u64);
                samples.add(&[site, route, app, "starting"], application.starting);
                samples.add(&[site, route, app, "ending"], application.ending);
            }
        },
    },
    Definition {
        name: "touchstone_python_workers_limit",
        kind: Kind::Gauge,
        help: "Worker processes that an application should have, its key `workers`.",
        labels: &[SITE, ROUTE, APPLICATION],
        collect: |totals, samples| {
            samples.each(&totals.python.applications, labels, |application| application.most_workers)
        },
    },
    Definition {
        name: "touchstone_python_requests_under_way",
        kind: Kind::Gauge,
        help: "Requests that an application has, in all of its workers, WebSockets included.",
        labels: &[SITE, ROUTE, APPLICATION],
        collect: |totals, samples| samples.each(&totals.python.applications, labels, ApplicationStatus::busy),
    },
    Definition {
        name: "touchstone_python_queue",
        kind: Kind::Gauge,
        help: "Requests that wait in an application's workers, for which it was not called yet.",
        labels: &[SITE, ROUTE, APPLICATION],
        collect: |totals, samples| {
            samples.each(&totals.python.applications, labels, ApplicationStatus::queue)
        },
    },
    Definition {
        name: "touchstone_python_queue_limit",
        kind: Kind::Gauge,
        help: "Requests that one worker may have, those that wait in it included: the key `limits.queue`.",
        labels: &[SITE, ROUTE, APPLICATION],
        collect: |totals, samples| {
            samples.each(&totals.python.applications, labels, |application| application.queue_limit)
        },
    },
    Definition {
        name: "touchstone_python_memory_bytes",
        kind: Kind::Gauge,
        help: "Memory that an application's workers use together. What they share is counted in each.",
        labels: &[SITE, ROUTE, APPLICATION],
        collect: |totals, samples| {
            samples.each(&totals.python.applications, labels, ApplicationStatus::resident_bytes)
        },
    },
    Definition {
        name: "touchstone_python_workers_started",
        kind: Kind::Counter,
        help: "Workers that were started.",
        labels: &[SITE, ROUTE, APPLICATION],
        collect: |totals, samples| {
            samples.each(&totals.python.applications, labels, |application| application.started)
        },
    },
    Definition {
        name: "touchstone_python_worker_restarts",
        kind: Kind::Counter,
        help: "Workers that were replaced, or started again.",
        labels: &[
            SITE,
            ROUTE,
            APPLICATION,
            (
                "reason",
                "`reload`: the server was ordered to reload; `change`: a source file has changed; \
                 `requests`, `memory`, `answer`: it has reached this limit; `loop`: its event loop did not \
                 return; `end`: it has ended or was killed; `start`: it could not be started, or was not \
                 ready in time",
            ),
        ],
        collect: |totals, samples| {
            for application in &totals.python.applications {
                let [site, route, app] = labels(application);
                for (reason, count) in &application.restarts {
                    samples.add(&[site, route, app, reason], *count);
                }
            }
        },
    },
    Definition {
        name: "touchstone_python_request_failures",
        kind: Kind::Counter,
        help: "Requests that the application has not answered, or only after a repetition.",
        labels: &[
            SITE,
            ROUTE,
            APPLICATION,
            (
                "reason",
                "`full`: all workers had as many as may wait (503); `no_worker`: there was no worker \
                 (503); `too_long`: they took longer than `limits.answer` (504); `lost`: their worker has \
                 ended (502); `repeated`: their worker has ended, and they were repeated",
            ),
        ],
        collect: |totals, samples| {
            for application in &totals.python.applications {
                let [site, route, app] = labels(application);
                for (reason, count) in &application.failures {
                    samples.add(&[site, route, app, reason], *count);
                }
            }
        },
    },
];

fn labels(application: &ApplicationStatus) -> [&str; 3] {
    [&application.site, &application.route, &application.app]
}
