//! Whether a plan can run: everything that is wrong with it is said before the first byte is sent.
//!
//! [`Plan::check`] looks at the plan itself (weights, lengths, paths, header fields) and at the machine it is to run
//! on: processors, the limit of open files, local ports.

use crate::plan::{ConnectionUse, Plan, PlanError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::IpAddr;
use std::time::Duration;

/// The most virtual clients of one run.
pub const MAXIMUM_CLIENTS: usize = 1_000_000;
/// The most different requests, and the highest class number plus one.
pub const MAXIMUM_REQUESTS: usize = 65_536;
/// The largest receive buffer, in bytes.
pub const MAXIMUM_RECEIVE_BUFFER_BYTES: usize = 64 * 1024 * 1024;
/// The longest run.
pub const MAXIMUM_LENGTH: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest path, in bytes.
pub const MAXIMUM_PATH_BYTES: usize = 16 * 1024;

/// The most bytes of the plan's own header fields together.
pub const MAXIMUM_HEADERS_BYTES: usize = 16 * 1024 * 1024;

/// Files that the process has open beside the clients' connections: an epoll instance a thread, standard streams,
/// logs, and room for what the caller holds.
const OTHER_OPEN_FILES: u64 = 64;

impl Plan {
    /// Says why the plan cannot run, or gives back warnings: sentences that whoever reads the figures should know.
    /// Raises the process's soft limit of open files when the clients need more.
    pub fn check(&self) -> Result<Vec<String>, PlanError> {
        self.check_target()?;
        self.check_requests()?;
        self.check_headers()?;
        self.check_lengths()?;
        self.check_rate()?;
        self.check_clients()?;
        check_cores(&self.cores)?;
        provide_open_files(self.clients as u64 + self.cores.len() as u64 + OTHER_OPEN_FILES)?;
        self.check_local_ports()
    }

    fn check_target(&self) -> Result<(), PlanError> {
        let host = &self.target.host;
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse(format!(
                "the host {host:?} cannot stand in a Host field: give a name or an address"
            ));
        }
        if self.target.address.port() == 0 {
            return refuse("the target's port is 0: give a port from 1 to 65535".to_string());
        }
        Ok(())
    }

    fn check_requests(&self) -> Result<(), PlanError> {
        if self.requests.is_empty() {
            return refuse("the plan has no requests: give at least one path".to_string());
        }
        if self.requests.len() > MAXIMUM_REQUESTS {
            return refuse(format!(
                "the plan has {} requests: at most {MAXIMUM_REQUESTS} are possible",
                self.requests.len()
            ));
        }
        for request in &self.requests {
            if !(request.weight.is_finite() && request.weight > 0.0) {
                return refuse(format!(
                    "the request {:?} has the weight {}: weights are numbers above 0",
                    request.path, request.weight
                ));
            }
            if request.class >= MAXIMUM_REQUESTS {
                return refuse(format!(
                    "the request {:?} has the class {}: classes are numbered from 0 and below {MAXIMUM_REQUESTS}",
                    request.path, request.class
                ));
            }
            check_path(&request.path)?;
        }
        if !self.requests.iter().map(|request| request.weight).sum::<f64>().is_finite() {
            return refuse(
                "the sum of the weights is too large for a number: use smaller weights".to_string(),
            );
        }
        Ok(())
    }

    fn check_headers(&self) -> Result<(), PlanError> {
        let bytes: usize = self.headers.iter().map(String::len).sum();
        if bytes > MAXIMUM_HEADERS_BYTES {
            return refuse(format!(
                "the header fields have {bytes} bytes: at most {MAXIMUM_HEADERS_BYTES} are possible"
            ));
        }
        for header in &self.headers {
            let Some((name, value)) = header.split_once(':') else {
                return refuse(format!("the header field {header:?} has no colon: write 'name: value'"));
            };
            if name.is_empty() || !name.bytes().all(is_token_byte) {
                return refuse(format!(
                    "the header field {header:?} has the name {name:?}: a name is letters, digits and hyphens, with \
                     nothing between it and the colon"
                ));
            }
            if value.bytes().any(|byte| byte != b'\t' && (byte < b' ' || byte == 0x7f)) {
                return refuse(format!(
                    "the header field {header:?} holds a control character or a line end"
                ));
            }
            if ["content-length", "transfer-encoding", "expect", "upgrade"]
                .contains(&name.to_ascii_lowercase().as_str())
            {
                return refuse(format!(
                    "the header field {name:?} speaks of a request body or another protocol; the engine sends GET \
                     requests without a body"
                ));
            }
        }
        Ok(())
    }

    fn check_lengths(&self) -> Result<(), PlanError> {
        if self.length.is_zero() || self.length > MAXIMUM_LENGTH {
            return refuse(format!(
                "the length is {:?}: it must be above 0 and at most {} days",
                self.length,
                MAXIMUM_LENGTH.as_secs() / 86_400
            ));
        }
        if self.ramp_up.saturating_add(self.ramp_down) >= self.length {
            return refuse(format!(
                "ramp up ({:?}) and ramp down ({:?}) leave nothing of the length ({:?}) to count: ramps are part of \
                 the length and must be shorter",
                self.ramp_up, self.ramp_down, self.length
            ));
        }
        if self.timeout.is_zero() || self.timeout > MAXIMUM_LENGTH {
            return refuse(format!("the timeout is {:?}: it must be above 0", self.timeout));
        }
        if self.think_time > MAXIMUM_LENGTH || self.delay > MAXIMUM_LENGTH {
            return refuse("think time and delay must not be longer than the longest run".to_string());
        }
        if !(1..=MAXIMUM_RECEIVE_BUFFER_BYTES).contains(&self.receive_buffer_bytes) {
            return refuse(format!(
                "the receive buffer has {} bytes: it must have from 1 to {MAXIMUM_RECEIVE_BUFFER_BYTES}",
                self.receive_buffer_bytes
            ));
        }
        Ok(())
    }

    fn check_rate(&self) -> Result<(), PlanError> {
        let Some(rate) = self.rate else { return Ok(()) };
        if !(rate.is_finite() && rate > 0.0 && rate <= 1e9) {
            return refuse(format!("the rate is {rate}: it must be above 0 requests a second"));
        }
        if !self.think_time.is_zero() || !self.delay.is_zero() {
            return refuse(
                "a rate says when every request starts: leave out think time and delay, or leave out the rate"
                    .to_string(),
            );
        }
        Ok(())
    }

    fn check_clients(&self) -> Result<(), PlanError> {
        if (1..=MAXIMUM_CLIENTS).contains(&self.clients) {
            return Ok(());
        }
        refuse(format!("{} clients: there must be from 1 to {MAXIMUM_CLIENTS}", self.clients))
    }

    /// A connection needs a local port of its own as long as the target is the same.
    fn check_local_ports(&self) -> Result<Vec<String>, PlanError> {
        let Some((first, last)) = local_port_range() else { return Ok(Vec::new()) };
        let ports = usize::from(last - first) + 1;
        if self.clients > ports {
            return refuse(format!(
                "{} clients need as many local ports, and there are {ports} \
                 (net.ipv4.ip_local_port_range is {first} to {last}): use fewer clients or widen the range",
                self.clients
            ));
        }
        let mut warnings = Vec::new();
        if self.connections == ConnectionUse::New && !reuses_waiting_ports(self.target.address.ip()) {
            warnings.push(format!(
                "new connections may run out of local ports: {ports} ports, and one rests for 60 s where the client \
                 closes first, so more than {} connections a second cannot be sustained then \
                 (net.ipv4.ip_local_port_range, net.ipv4.tcp_tw_reuse)",
                ports / 60
            ));
        }
        Ok(warnings)
    }
}

fn refuse<T>(text: String) -> Result<T, PlanError> {
    Err(PlanError(text))
}

/// Only the origin form of RFC 9112, section 3.2.1, in bytes that can stand in a request line.
fn check_path(path: &str) -> Result<(), PlanError> {
    if !path.starts_with('/') {
        return refuse(format!("the path {path:?} does not begin with '/'"));
    }
    if path.len() > MAXIMUM_PATH_BYTES {
        return refuse(format!("a path has {} bytes: at most {MAXIMUM_PATH_BYTES} are possible", path.len()));
    }
    if let Some(byte) = path.bytes().find(|&byte| !byte.is_ascii_graphic() || byte == b'#') {
        return refuse(format!(
            "the path {path:?} holds {:?}, which cannot be sent: write it as %{byte:02X}",
            char::from(byte)
        ));
    }
    Ok(())
}

/// RFC 9110, section 5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The processors that this process may run on.
pub fn allowed_cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return vec![0] };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

fn check_cores(cores: &[usize]) -> Result<(), PlanError> {
    let allowed = allowed_cores();
    for (position, core) in cores.iter().enumerate() {
        if !allowed.contains(core) {
            return refuse(format!(
                "processor {core} does not exist or is not allowed to this process; allowed are {}",
                list(&allowed)
            ));
        }
        if cores[..position].contains(core) {
            return refuse(format!("processor {core} is named twice: one engine thread runs on each"));
        }
    }
    Ok(())
}

fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Makes sure that `needed` files can be open, raising the soft limit towards the hard one if it must.
fn provide_open_files(needed: u64) -> Result<(), PlanError> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return refuse(format!(
            "the clients need {needed} open files and this process may have {}: use fewer clients or raise the limit \
             (ulimit -n {needed}, or LimitNOFILE in systemd)",
            limit.maximum.unwrap_or_default()
        ));
    }
    let raised = Rlimit { current: limit.maximum.or(Some(needed)), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        PlanError(format!("the limit of open files could not be raised to {needed}: {error}"))
    })
}

/// The ports that the kernel gives to outgoing connections.
fn local_port_range() -> Option<(u16, u16)> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut numbers = text.split_ascii_whitespace();
    let (first, last): (u16, u16) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    (first <= last).then_some((first, last))
}

/// Whether the kernel takes a port in TIME_WAIT again for a connection to this address: 1 means always, 2 means on
/// the loopback interface.
fn reuses_waiting_ports(address: IpAddr) -> bool {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_tw_reuse").unwrap_or_default();
    match setting.trim() {
        "1" => true,
        "2" => address.is_loopback(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Target;

    fn plan() -> Plan {
        let target = Target { address: ([127, 0, 0, 1], 8080).into(), host: "localhost:8080".to_string() };
        Plan::of_one(target, "/")
    }

    /// What the check says about a plan that one change has spoilt.
    fn refusal(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = plan();
        change(&mut plan);
        plan.check().expect_err("the plan should be refused").0
    }

    #[test]
    fn a_plain_plan_passes() {
        assert_eq!(plan().check(), Ok(Vec::new()));
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_reason() {
        assert!(refusal(|plan| plan.requests.clear()).contains("no requests"));
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(refusal(|plan| plan.requests[0].weight = weight).contains("weights are numbers above 0"));
        }
        assert!(refusal(|plan| plan.requests[0].class = MAXIMUM_REQUESTS).contains("classes"));
        assert!(refusal(|plan| plan.requests[0].path = "index.html".into()).contains("begin with '/'"));
        assert!(refusal(|plan| plan.requests[0].path = "/a b".into()).contains("%20"));
        assert!(refusal(|plan| plan.requests[0].path = "/a\r\nX: y".into()).contains("%0D"));
        assert!(refusal(|plan| plan.requests[0].path = "/a#b".into()).contains("%23"));
        assert!(refusal(|plan| plan.clients = 0).contains("0 clients"));
        assert!(refusal(|plan| plan.clients = MAXIMUM_CLIENTS + 1).contains("1000001 clients"));
        assert!(refusal(|plan| plan.target.address.set_port(0)).contains("port is 0"));
        assert!(refusal(|plan| plan.target.host = "a b".into()).contains("Host field"));
        assert!(refusal(|plan| plan.length = Duration::ZERO).contains("above 0"));
        assert!(refusal(|plan| plan.timeout = Duration::ZERO).contains("timeout"));
        assert!(refusal(|plan| plan.receive_buffer_bytes = 0).contains("receive buffer"));
        assert!(refusal(|plan| plan.rate = Some(0.0)).contains("rate"));
        assert!(refusal(|plan| plan.rate = Some(f64::NAN)).contains("rate"));
    }

    #[test]
    fn ramps_must_leave_something_to_count() {
        let text = refusal(|plan| {
            plan.length = Duration::from_secs(10);
            plan.ramp_up = Duration::from_secs(6);
            plan.ramp_down = Duration::from_secs(4);
        });
        assert!(text.contains("leave nothing"), "{text}");
        let text = refusal(|plan| plan.ramp_up = Duration::MAX);
        assert!(text.contains("leave nothing"), "{text}");
    }

    #[test]
    fn a_rate_excludes_think_time_and_delay() {
        for change in [
            |plan: &mut Plan| plan.think_time = Duration::from_millis(1),
            |plan: &mut Plan| plan.delay = Duration::from_millis(1),
        ] {
            let text = refusal(|plan| {
                plan.rate = Some(10.0);
                change(plan);
            });
            assert!(text.contains("leave out"), "{text}");
        }
    }

    #[test]
    fn header_fields_cannot_break_the_request() {
        for (header, said) in [
            ("no colon", "no colon"),
            (": value", "the name"),
            ("bad name: value", "the name"),
            ("Name : value", "the name"),
            ("A: b\r\nC: d", "line end"),
            ("Content-Length: 3", "body"),
            ("transfer-encoding: chunked", "body"),
        ] {
            let text = refusal(|plan| plan.headers.push(header.to_string()));
            assert!(text.contains(said), "{header:?}: {text}");
        }
        let text = refusal(|plan| plan.headers.push(format!("A: {}", "b".repeat(MAXIMUM_HEADERS_BYTES))));
        assert!(text.contains("at most"), "{text}");
        let mut plan = plan();
        plan.headers.push("Accept-Language: fr, en;q=0.5".to_string());
        assert!(plan.check().is_ok());
    }

    #[test]
    fn processors_must_exist_and_be_named_once() {
        let text = refusal(|plan| plan.cores = vec![rustix::thread::CpuSet::MAX_CPU - 1]);
        assert!(text.contains("not allowed"), "{text}");
        let core = allowed_cores()[0];
        let text = refusal(|plan| plan.cores = vec![core, core]);
        assert!(text.contains("twice"), "{text}");
    }

    #[test]
    fn more_clients_than_files_or_ports_say_how_many_are_needed() {
        let text = refusal(|plan| plan.clients = MAXIMUM_CLIENTS);
        assert!(text.contains("open files") || text.contains("local ports"), "{text}");
        assert!(text.contains("1000"), "{text}");
    }
}
