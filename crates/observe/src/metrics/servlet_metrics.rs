//! The table of the metrics of servlets: applications, the threads of their routes, and virtual machines.

use touchstone_servlet::status::{ApplicationStatus, CollectorStatus, MachineStatus, RouteStatus};

use super::definition::{ROUTE, SITE};
use super::metric::{Definition, Kind, Samples};
use super::totals::Totals;

const CONTEXT: (&str, &str) = ("context", "the path of the application, `/` for the root");
const VERSION: (&str, &str) = ("version", "its version, according to the name of its WAR; empty: none");
const MACHINE_SITE: (&str, &str) =
    ("site", "of an isolated route; `-`: it is the machine in the server's process");
const MACHINE_ROUTE: (&str, &str) =
    ("route", "of an isolated route; `-`: it is the machine in the server's process");
const COLLECTOR: (&str, &str) = ("collector", "its name in Java");

/// The states of an application.
const STATES: [&str; 4] = ["starting", "running", "reloading", "failed"];

/// Every metric of servlets, in the order of the exposition.
pub static SERVLET_METRICS: &[Definition] = &[
    Definition {
        name: "touchstone_servlet_application_up",
        kind: Kind::Gauge,
        help: "The state of an application: 1 for the current state, 0 for the others.",
        labels: &[
            SITE,
            ROUTE,
            CONTEXT,
            VERSION,
            (
                "state",
                "`starting`: its first requests wait; `running`; `reloading`: it is being replaced; \
                 `failed`: its requests get 503",
            ),
        ],
        collect: |totals, samples| {
            each_application(totals, |route, application| {
                for state in STATES {
                    let labels = [&route.site, &route.route, &application.path, &application.version];
                    let [site, name, path, version] = labels.map(String::as_str);
                    samples.add(&[site, name, path, version, state], u64::from(application.state == state));
                }
            });
        },
    },
    Definition {
        name: "touchstone_servlet_application_started_seconds",
        kind: Kind::Gauge,
        help: "When a running application was started, in seconds since 1970.",
        labels: &[SITE, ROUTE, CONTEXT, VERSION],
        collect: |totals, samples| running(totals, samples, |application| seconds(application.started_ms)),
    },
    Definition {
        name: "touchstone_servlet_application_start_seconds",
        kind: Kind::Gauge,
        help: "How long the start of a running application took.",
        labels: &[SITE, ROUTE, CONTEXT, VERSION],
        collect: |totals, samples| {
            running(totals, samples, |application| seconds(application.start_took_ms));
        },
    },
    Definition {
        name: "touchstone_servlet_application_sessions",
        kind: Kind::Gauge,
        help: "Sessions of an application.",
        labels: &[SITE, ROUTE, CONTEXT, VERSION],
        collect: |totals, samples| running(totals, samples, |application| application.sessions as f64),
    },
    Definition {
        name: "touchstone_servlet_application_requests",
        kind: Kind::Counter,
        help: "Calls of an application's servlets, since it was started.",
        labels: &[SITE, ROUTE, CONTEXT, VERSION],
        collect: |totals, samples| running(totals, samples, |application| application.requests as f64),
    },
    Definition {
        name: "touchstone_servlet_application_errors",
        kind: Kind::Counter,
        help: "Errors that they have reported with `sendError` or an exception, as Tomcat counts them.",
        labels: &[SITE, ROUTE, CONTEXT, VERSION],
        collect: |totals, samples| running(totals, samples, |application| application.errors as f64),
    },
    Definition {
        name: "touchstone_servlet_application_processing_seconds",
        kind: Kind::Counter,
        help: "How long these calls have taken together.",
        labels: &[SITE, ROUTE, CONTEXT, VERSION],
        collect: |totals, samples| {
            running(totals, samples, |application| seconds(application.processing_ms));
        },
    },
    Definition {
        name: "touchstone_servlet_requests",
        kind: Kind::Counter,
        help: "Requests that a route has passed to Java.",
        labels: &[
            SITE,
            ROUTE,
            ("thread", "`pool`: on a thread of the route; `connection`: on the thread of the connection"),
        ],
        collect: |totals, samples| {
            for route in &totals.servlets.routes {
                samples.add(&[&route.site, &route.route, "pool"], route.threads.requests);
                samples.add(&[&route.site, &route.route, "connection"], route.threads.calls);
            }
        },
    },
    Definition {
        name: "touchstone_servlet_requests_refused",
        kind: Kind::Counter,
        help: "Requests that got 503 because all threads of the route were busy and its queue was full.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| each_route(totals, samples, |route| route.threads.refused as f64),
    },
    Definition {
        name: "touchstone_servlet_wait_seconds",
        kind: Kind::Counter,
        help: "How long requests have waited for a thread of the route together, and for their application \
            to start.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| each_route(totals, samples, |route| route.threads.waited_s),
    },
    Definition {
        name: "touchstone_servlet_requests_under_way",
        kind: Kind::Gauge,
        help: "Requests that are in a route's applications, asynchronous ones and WebSockets included.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| {
            for route in &totals.servlets.routes {
                if let Some(java) = &route.java {
                    samples.add(&[&route.site, &route.route], java.requests_under_way);
                }
            }
        },
    },
    Definition {
        name: "touchstone_servlet_threads",
        kind: Kind::Gauge,
        help: "Threads of a route.",
        labels: &[SITE, ROUTE, ("state", "`busy`: it has a request; `idle`")],
        collect: |totals, samples| {
            for route in &totals.servlets.routes {
                let (all, busy) = (route.threads.threads, route.threads.busy);
                samples.add(&[&route.site, &route.route, "busy"], busy);
                samples.add(&[&route.site, &route.route, "idle"], all.saturating_sub(busy));
            }
        },
    },
    Definition {
        name: "touchstone_servlet_threads_limit",
        kind: Kind::Gauge,
        help: "The most threads of a route, its key `threads`; 0: its threads are virtual.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| each_route(totals, samples, |route| route.threads.most_threads as f64),
    },
    Definition {
        name: "touchstone_servlet_queue",
        kind: Kind::Gauge,
        help: "Requests of a route that wait.",
        labels: &[SITE, ROUTE, ("reason", "`thread`: for a thread; `start`: for their application to start")],
        collect: |totals, samples| {
            for route in &totals.servlets.routes {
                samples.add(&[&route.site, &route.route, "thread"], route.threads.waiting);
                samples.add(&[&route.site, &route.route, "start"], route.threads.held);
            }
        },
    },
    Definition {
        name: "touchstone_servlet_queue_limit",
        kind: Kind::Gauge,
        help: "The most requests of a route that may wait for a thread, its key `queue`.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| each_route(totals, samples, |route| route.threads.most_waiting as f64),
    },
    Definition {
        name: "touchstone_servlet_class_loaders",
        kind: Kind::Gauge,
        help: "Class loaders of a route's applications that are in memory. If there are more of them than \
             applications for a long time, the classes of a replaced application are still referenced.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| {
            for route in &totals.servlets.routes {
                if let Some(java) = &route.java {
                    samples.add(&[&route.site, &route.route], java.class_loaders);
                }
            }
        },
    },
    Definition {
        name: "touchstone_java",
        kind: Kind::Info,
        help: "The Java virtual machine of a process.",
        labels: &[MACHINE_SITE, MACHINE_ROUTE, ("version", "the version of Java")],
        collect: |totals, samples| {
            for machine in &totals.servlets.machines {
                let [site, route] = labels_of(machine);
                samples.add(&[site, route, &machine.version], 1);
            }
        },
    },
    Definition {
        name: "touchstone_java_heap_bytes",
        kind: Kind::Gauge,
        help: "The heap of a machine.",
        labels: &[
            MACHINE_SITE,
            MACHINE_ROUTE,
            ("amount", "`used`; `committed`: taken from the system; `limit`: the most that it may be"),
        ],
        collect: |totals, samples| {
            for machine in &totals.servlets.machines {
                let [site, route] = labels_of(machine);
                samples.add(&[site, route, "used"], machine.heap_used_bytes);
                samples.add(&[site, route, "committed"], machine.heap_committed_bytes);
                if let Ok(most) = u64::try_from(machine.heap_most_bytes) {
                    samples.add(&[site, route, "limit"], most);
                }
            }
        },
    },
    Definition {
        name: "touchstone_java_other_memory_bytes",
        kind: Kind::Gauge,
        help: "Memory that a machine uses outside of its heap, for classes and compiled code.",
        labels: &[MACHINE_SITE, MACHINE_ROUTE],
        collect: |totals, samples| each_machine(totals, samples, |machine| machine.other_used_bytes),
    },
    Definition {
        name: "touchstone_java_classes",
        kind: Kind::Gauge,
        help: "Classes that a machine has loaded.",
        labels: &[MACHINE_SITE, MACHINE_ROUTE],
        collect: |totals, samples| each_machine(totals, samples, |machine| machine.classes),
    },
    Definition {
        name: "touchstone_java_classes_unloaded",
        kind: Kind::Counter,
        help: "Classes that a machine has unloaded.",
        labels: &[MACHINE_SITE, MACHINE_ROUTE],
        collect: |totals, samples| each_machine(totals, samples, |machine| machine.classes_unloaded),
    },
    Definition {
        name: "touchstone_java_threads",
        kind: Kind::Gauge,
        help: "Threads of a machine, those of its applications included, without virtual ones.",
        labels: &[MACHINE_SITE, MACHINE_ROUTE],
        collect: |totals, samples| each_machine(totals, samples, |machine| machine.threads),
    },
    Definition {
        name: "touchstone_java_collections",
        kind: Kind::Counter,
        help: "How often garbage was collected.",
        labels: &[MACHINE_SITE, MACHINE_ROUTE, COLLECTOR],
        collect: |totals, samples| {
            each_collector(totals, samples, |collector| collector.collections as f64);
        },
    },
    Definition {
        name: "touchstone_java_collection_seconds",
        kind: Kind::Counter,
        help: "How long that has taken together: with most collectors the applications are stopped in that \
             time.",
        labels: &[MACHINE_SITE, MACHINE_ROUTE, COLLECTOR],
        collect: |totals, samples| each_collector(totals, samples, |collector| seconds(collector.time_ms)),
    },
    Definition {
        name: "touchstone_java_last_collection_seconds",
        kind: Kind::Gauge,
        help: "How long the last collection has taken.",
        labels: &[MACHINE_SITE, MACHINE_ROUTE, COLLECTOR],
        collect: |totals, samples| each_collector(totals, samples, |collector| seconds(collector.last_ms)),
    },
];

fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1e3
}

fn each_application(totals: &Totals, mut take: impl FnMut(&RouteStatus, &ApplicationStatus)) {
    for route in &totals.servlets.routes {
        let applications = route.java.iter().flat_map(|java| &java.applications);
        applications.for_each(|application| take(route, application));
    }
}

/// Adds one number for each application that runs.
fn running(totals: &Totals, samples: &mut Samples<'_>, number: impl Fn(&ApplicationStatus) -> f64) {
    each_application(totals, |route, application| {
        if application.started_ms > 0 {
            let labels = [&route.site, &route.route, &application.path, &application.version];
            samples.add_float(&labels.map(String::as_str), number(application));
        }
    });
}

/// Adds one number for each route.
fn each_route(totals: &Totals, samples: &mut Samples<'_>, number: impl Fn(&RouteStatus) -> f64) {
    for route in &totals.servlets.routes {
        samples.add_float(&[&route.site, &route.route], number(route));
    }
}

/// Adds one number for each machine.
fn each_machine(totals: &Totals, samples: &mut Samples<'_>, number: impl Fn(&MachineStatus) -> u64) {
    for machine in &totals.servlets.machines {
        samples.add(&labels_of(machine), number(machine));
    }
}

/// Adds one number for each collector of each machine.
fn each_collector(totals: &Totals, samples: &mut Samples<'_>, number: impl Fn(&CollectorStatus) -> f64) {
    for machine in &totals.servlets.machines {
        let [site, route] = labels_of(machine);
        for collector in &machine.collectors {
            samples.add_float(&[site, route, &collector.name], number(collector));
        }
    }
}

fn labels_of(machine: &MachineStatus) -> [&str; 2] {
    if machine.route.is_empty() { ["-", "-"] } else { [&machine.site, &machine.route] }
}
