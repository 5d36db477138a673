//! The state of applications, of their threads and of the machines that run them, for operators.
//!
//! The state of a route in this process is read through Java; that of a child process through the child's
//! socket. A machine that does not answer within a second is omitted, so that one that hangs does not delay
//! the result.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::java_runtime;
use crate::pool::PoolStatus;
use crate::route::Route;
use crate::route_state::RouteState;

/// How long a machine may take to answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// All routes with applications, and all machines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The routes.
    pub routes: Vec<RouteStatus>,
    /// The machines that answered.
    pub machines: Vec<MachineStatus>,
}

/// One route.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteStatus {
    /// The name of its site.
    pub site: String,
    /// What the route matches.
    pub route: String,
    /// The WAR or the directory.
    pub source: String,
    /// Its applications run in a process of their own.
    pub is_isolated: bool,
    /// The applications can be called, unless they fail themselves.
    pub is_ready: bool,
    /// The state in one word.
    pub state: String,
    /// Its threads and its queue.
    pub threads: PoolStatus,
    /// Its applications, and the counts of their requests; empty if Java did not answer.
    pub java: Option<RouteInJava>,
}

/// The state of a route as Java reports it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteInJava {
    /// The applications.
    pub applications: Vec<ApplicationStatus>,
    /// Applications that were replaced and still have requests.
    pub replaced: u64,
    /// Class loaders of applications that are in memory.
    pub class_loaders: u64,
    /// Requests that are in the applications, asynchronous ones and WebSockets included.
    pub requests_under_way: u64,
    /// Requests that were answered.
    pub requests: u64,
    /// Those of them that had a status of 400 or more.
    pub errors: u64,
    /// The sum of their times.
    pub processing_ms: u64,
    /// The longest time.
    pub longest_ms: u64,
}

/// One application.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApplicationStatus {
    /// The path of its context.
    pub path: String,
    /// Its version; empty: none.
    pub version: String,
    /// `starting`, `running`, `reloading` or `failed`.
    pub state: String,
    /// When it was started, in milliseconds since 1970; 0: it does not run.
    pub started_ms: u64,
    /// How long that took.
    pub start_took_ms: u64,
    /// Calls of its servlets.
    pub requests: u64,
    /// How many errors they have reported, as Tomcat counts them.
    pub errors: u64,
    /// The sum of their times.
    pub processing_ms: u64,
    /// Its sessions.
    pub sessions: u64,
    /// Sessions that were refused because there were too many.
    pub sessions_rejected: u64,
}

/// One machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineStatus {
    /// The number of its process.
    pub process: u32,
    /// The site and route whose process it is; empty: it is the server's.
    pub site: String,
    /// See `site`.
    pub route: String,
    /// The version of Java.
    pub version: String,
    /// When it was started, in milliseconds since 1970.
    pub started_ms: u64,
    /// The heap: used, taken from the system, and the most that it may be (-1: no limit).
    pub heap_used_bytes: u64,
    /// See `heap_used_bytes`.
    pub heap_committed_bytes: u64,
    /// See `heap_used_bytes`.
    pub heap_most_bytes: i64,
    /// Memory of the machine outside of the heap: classes and compiled code.
    pub other_used_bytes: u64,
    /// Loaded classes.
    pub classes: u64,
    /// Classes that were unloaded.
    pub classes_unloaded: u64,
    /// Threads of the machine.
    pub threads: u64,
    /// The garbage collectors.
    pub collectors: Vec<CollectorStatus>,
}

/// One collector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CollectorStatus {
    /// Its name.
    pub name: String,
    /// How often it has run.
    pub collections: u64,
    /// The sum of their times.
    pub time_ms: u64,
    /// The time of the last run.
    pub last_ms: u64,
}

/// The state of a process as Java reports it.
#[derive(Deserialize)]
struct Process {
    machine: MachineStatus,
    routes: HashMap<i32, RouteInJava>,
}

/// The state of routes, in their order. Waits for the machines, each for at most [`ANSWER_TIMEOUT`].
pub(crate) fn of_routes(routes: &[Arc<Route>]) -> Status {
    let has_local = routes.iter().any(|route| route.pool().is_some());
    let mut own_process = if has_local { query_java() } else { None };
    let mut status = Status::default();
    status.machines.extend(own_process.as_ref().map(|process| process.machine.clone()));
    for route in routes {
        let mut found = of_route(route);
        match route.child() {
            None => found.java = own_process.as_mut().and_then(|process| process.routes.remove(&route.id)),
            Some(child) => {
                let child_status = (route.state() == RouteState::Ready)
                    .then(|| child.query_status(ANSWER_TIMEOUT))
                    .flatten();
                let child_status = child_status
                    .and_then(|text| serde_json::from_slice::<Status>(&text).ok())
                    .unwrap_or_default();
                if let Some(inner) = child_status.routes.into_iter().next() {
                    (found.threads, found.java) = (inner.threads, inner.java);
                }
                status.machines.extend(child_status.machines.into_iter().take(1).map(|machine| {
                    MachineStatus { site: found.site.clone(), route: found.route.clone(), ..machine }
                }));
            }
        }
        status.routes.push(found);
    }
    status
}

fn of_route(route: &Arc<Route>) -> RouteStatus {
    let settings = route.settings();
    let route_state = route.state();
    RouteStatus {
        site: settings.names.site.clone(),
        route: settings.names.route.clone(),
        source: settings.name(),
        is_isolated: route.child().is_some(),
        is_ready: route_state == RouteState::Ready,
        state: match route_state {
            RouteState::Starting => "starting",
            RouteState::Ready => "ready",
            RouteState::Failed => "failed",
        }
        .to_string(),
        threads: route.pool().map(|pool| pool.status()).unwrap_or_default(),
        java: None,
    }
}

/// A thread calls Java. There is only one at a time, because it never ends if Java does not answer.
static IS_ASKING: AtomicBool = AtomicBool::new(false);

fn query_java() -> Option<Process> {
    let runtime = java_runtime::if_started()?;
    runtime.machine()?;
    if runtime.has_ended() || IS_ASKING.swap(true, Ordering::AcqRel) {
        return None;
    }
    let (tell, told) = sync_channel(1);
    let query = move || {
        let answer = runtime.machine().and_then(|machine| machine.attach("status").ok()?.status().ok());
        IS_ASKING.store(false, Ordering::Release);
        // The caller may have stopped waiting.
        let _ = tell.send(answer);
    };
    if std::thread::Builder::new().name("servlet-status".to_string()).spawn(query).is_err() {
        IS_ASKING.store(false, Ordering::Release);
        return None;
    }
    let text = told.recv_timeout(ANSWER_TIMEOUT).ok()??;
    let mut process: Process = serde_json::from_str(&text).ok()?;
    process.machine.process = std::process::id();
    Some(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_java_says_is_read() {
        let text = r#"{"machine":{"version":"17.0.1","started_ms":5,"heap_used_bytes":7,"heap_most_bytes":-1,
            "collectors":[{"name":"G1 \"Young\"","collections":3,"time_ms":4,"last_ms":1}]},
            "routes":{"2":{"applications":[{"path":"/a","version":"","state":"running","sessions":2},
            {"path":"/b","version":"1","state":"failed"}],"replaced":0,"class_loaders":1,
            "requests_under_way":1,"requests":9,"errors":1,"processing_ms":12,"longest_ms":3}}}"#;
        let process: Process = serde_json::from_str(text).unwrap();
        assert_eq!((process.machine.heap_used_bytes, process.machine.heap_most_bytes), (7, -1));
        assert_eq!(process.machine.collectors[0].name, "G1 \"Young\"");
        let route = &process.routes[&2];
        assert_eq!((route.requests, route.applications[0].sessions), (9, 2));
        assert_eq!((route.applications[1].state.as_str(), route.applications[1].started_ms), ("failed", 0));
    }
}
