//! The check of a plan: errors are reported before the first byte is sent.
//!
//! [`Plan::check`] checks the plan itself (weights, lengths, paths, header fields) and, with
//! [`crate::machine`], the machine on which it will run.

use crate::machine::{check_cores, local_port_range, provide_open_files, reuses_waiting_ports};
use crate::messages::MessageForm;
use crate::plan::{ConnectionUse, Plan, PlanError, PlannedRequest};
use crate::portion::Portion;
use crate::request::compile;
use crate::target::HttpVersion;
use crate::target::Target;
use crate::tls_setup::TlsBase;
use std::time::Duration;

/// The most virtual clients of one run.
pub const MAXIMUM_CLIENTS: usize = 1_000_000;
/// The most different requests; also the limit of class numbers, which are below it.
pub const MAXIMUM_REQUESTS: usize = 65_536;
/// The largest receive buffer, in bytes.
pub const MAXIMUM_RECEIVE_BUFFER_BYTES: usize = 64 * 1024 * 1024;
/// The longest run.
pub const MAXIMUM_LENGTH: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest path, in bytes.
pub const MAXIMUM_PATH_BYTES: usize = 16 * 1024;

/// The most bytes of the plan's own header fields together.
pub const MAXIMUM_HEADERS_BYTES: usize = 16 * 1024 * 1024;
/// The most bytes of all request bodies together.
pub const MAXIMUM_BODY_BYTES: usize = 1024 * 1024 * 1024;
/// The most requests of a recorded load.
pub const MAXIMUM_RECORDED: usize = 50_000_000;
/// The most stages of a run.
pub const MAXIMUM_STAGES: usize = 1000;
/// The most clients that can share a connection.
const MAXIMUM_STREAMS: usize = 10_000;

/// Open files of the process beside the clients' connections: an epoll instance for each thread, standard
/// streams, logs, and room for the caller's files.
const OTHER_OPEN_FILES: u64 = 64;

impl Plan {
    /// Returns the reason why the plan cannot run, or warnings for the reader of the figures. Raises the
    /// process's soft limit of open files if the clients need more.
    pub fn check(&self) -> Result<Vec<String>, PlanError> {
        self.check_for(self.clients)
    }

    /// The same for a plan that other machines execute: each of them checks its own ports and files.
    pub fn check_for_fleet(&self) -> Result<Vec<String>, PlanError> {
        self.check_for(1)
    }

    /// The same for a machine that executes a portion of the plan.
    pub(crate) fn check_portion(&self, portion: &Portion) -> Result<Vec<String>, PlanError> {
        if portion.threads.is_empty() || portion.threads.iter().any(|&thread| thread >= portion.of) {
            return refuse(format!(
                "a portion has no threads, or a thread that is not one of the {}",
                portion.of
            ));
        }
        self.check_clients()?;
        self.check_for(portion.client_count(self))
    }

    /// Checks the plan, and whether this machine can run this number of its clients.
    fn check_for(&self, own_clients: usize) -> Result<Vec<String>, PlanError> {
        self.targets().try_for_each(check_target)?;
        self.check_requests()?;
        self.check_choices()?;
        self.check_recorded()?;
        let mut versions = self.targets().map(|target| self.version_of(target));
        if !self.usual_fields
            && let Some(version) = versions.find(|version| *version != HttpVersion::Http10)
        {
            return refuse(format!(
                "{} requires a Host field in every request: only HTTP/1.0 allows requests without \
                 the usual fields",
                version.name()
            ));
        }
        check_headers(&self.headers)?;
        self.check_lengths()?;
        self.check_rate()?;
        self.check_stages()?;
        self.check_clients()?;
        self.check_connections()?;
        self.check_messages()?;
        self.check_websockets()?;
        compile(self)?;
        check_cores(&self.cores)?;
        let connections = own_clients.div_ceil(self.streams) * self.targets().len();
        provide_open_files(connections as u64 + self.cores.len() as u64 + OTHER_OPEN_FILES)?;
        self.check_local_ports(connections)
    }

    /// Each request has a weight above 0, or belongs to a page.
    fn check_choices(&self) -> Result<(), PlanError> {
        let count = self.requests.len();
        let mut is_on_a_page = vec![false; count];
        for request in &self.requests {
            for &next in &request.then {
                match self.requests.get(next) {
                    None => {
                        return refuse(format!(
                            "the page {:?} contains the request number {next}, and there are \
                             {count} requests",
                            request.path
                        ));
                    }
                    // A page within a page could continue forever.
                    Some(next) if !next.then.is_empty() => {
                        return refuse(format!(
                            "the page {:?} contains the page {:?}: a page is a request and the \
                             requests after it",
                            request.path, next.path
                        ));
                    }
                    Some(_) => is_on_a_page[next] = true,
                }
            }
        }
        for (request, is_on_a_page) in self.requests.iter().zip(is_on_a_page) {
            if request.think_before > MAXIMUM_LENGTH {
                return refuse(format!(
                    "the think time before {:?} is longer than the longest run",
                    request.path
                ));
            }
            if !request.think_before.is_zero() && request.weight > 0.0 {
                return refuse(format!(
                    "the request {:?} has a think time before it, but follows no other request",
                    request.path
                ));
            }
            if !(request.weight.is_finite()
                && (request.weight > 0.0 || request.weight == 0.0 && is_on_a_page))
            {
                return refuse(format!(
                    "the request {:?} has the weight {}: weights are numbers above 0",
                    request.path, request.weight
                ));
            }
        }
        if !self.requests.iter().map(|request| request.weight).sum::<f64>().is_finite() {
            return refuse(
                "the sum of the weights is too large for a number: use smaller weights".to_string(),
            );
        }
        if self.requests.iter().all(|request| request.weight <= 0.0) {
            return refuse("no request has a weight above 0: nothing would be requested".to_string());
        }
        Ok(())
    }

    fn check_recorded(&self) -> Result<(), PlanError> {
        if self.recorded.is_empty() {
            return Ok(());
        }
        if self.recorded.len() > MAXIMUM_RECORDED {
            return refuse(format!(
                "{} recorded requests: at most {MAXIMUM_RECORDED} are possible",
                self.recorded.len()
            ));
        }
        if self.rate.is_some() || self.session.is_some() || !self.stages.is_empty() {
            return refuse(
                "recorded requests have their own due times: do not set a rate, sessions or stages"
                    .to_string(),
            );
        }
        if !self.delay.is_zero() || !self.think_time.is_zero() {
            return refuse(
                "recorded requests have their own due times: do not set a think time or a delay".to_string(),
            );
        }
        if let Some(pair) = self.recorded.windows(2).find(|pair| pair[0].after > pair[1].after) {
            return refuse(format!(
                "a recorded request is due at {:?} and the one after it at {:?}: they must be in order",
                pair[0].after, pair[1].after
            ));
        }
        match self.recorded.iter().find(|recorded| recorded.request >= self.requests.len()) {
            Some(recorded) => refuse(format!(
                "the request number {} is recorded, and there are {} requests",
                recorded.request,
                self.requests.len()
            )),
            None => Ok(()),
        }
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
        let mut body_bytes = 0;
        for request in &self.requests {
            check_request(request)?;
            if request.target >= self.targets().len() {
                return refuse(format!(
                    "the request {:?} has the target {}, and there are {}",
                    request.path,
                    request.target,
                    self.targets().len()
                ));
            }
            body_bytes += request.body.as_ref().map_or(0, |body| body.len());
        }
        if body_bytes > MAXIMUM_BODY_BYTES {
            return refuse(format!(
                "the requests have bodies of {body_bytes} bytes: at most {MAXIMUM_BODY_BYTES} together are \
                 possible"
            ));
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
                "ramp up ({:?}) and ramp down ({:?}) leave nothing of the length ({:?}) to count: ramps are \
                 part of the length and must be shorter",
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
        if !self.delay.is_zero() || !self.think_time.is_zero() && self.session.is_none() {
            return refuse(
                "a rate sets the time of every request: leave out think time and delay, leave out the rate, \
                 or use sessions"
                    .to_string(),
            );
        }
        Ok(())
    }

    fn check_stages(&self) -> Result<(), PlanError> {
        let limit = if self.rate.is_some() { 1e9 } else { self.clients as f64 };
        if self.stages.len() > MAXIMUM_STAGES {
            return refuse(format!("{} stages: at most {MAXIMUM_STAGES} are possible", self.stages.len()));
        }
        for stage in &self.stages {
            if stage.length.is_zero()
                || ![stage.from, stage.to].iter().all(|value| (0.0..=limit).contains(value))
            {
                return refuse(format!(
                    "the stage of {:?} from {} to {} is invalid: its length must be above 0, and its values \
                     from 0 to {limit}",
                    stage.length, stage.from, stage.to
                ));
            }
        }
        let length: Duration = self.stages.iter().map(|stage| stage.length).sum();
        if !self.stages.is_empty() && length != self.length {
            return refuse(format!("the stages last {length:?} together, and the run {:?}", self.length));
        }
        if self.stages.iter().all(|stage| stage.from.max(stage.to) <= 0.0) && !self.stages.is_empty() {
            return refuse("no stage has a value above 0: nothing would be sent".to_string());
        }
        if self.request_limit == Some(0) {
            return refuse("the run would end after 0 requests: give at least 1".to_string());
        }
        if self.request_limit.is_some() && !self.ramp_down.is_zero() {
            return refuse("a run that ends after a number of requests can have no ramp down".to_string());
        }
        Ok(())
    }

    /// Checks the use of connections.
    fn check_connections(&self) -> Result<(), PlanError> {
        if !(1..=MAXIMUM_STREAMS).contains(&self.streams) {
            return refuse(format!(
                "{} streams on a connection: there must be from 1 to {MAXIMUM_STREAMS}",
                self.streams
            ));
        }
        let is_possible = |target: &Target| {
            self.version_of(target) != HttpVersion::Http3
                || target.tls.as_ref().is_some_and(|tls| tls.versions != crate::target::TlsVersions::Tls12)
        };
        if !self.targets().all(is_possible) {
            return refuse("HTTP/3 requires TLS 1.3: use https:// and allow TLS 1.3".to_string());
        }
        let has_streams = |version| version != HttpVersion::Http10;
        let mut versions = self.targets().map(|target| self.version_of(target));
        if self.streams > 1
            && let Some(version) = versions.find(|version| !has_streams(*version))
        {
            return refuse(format!(
                "{} allows one request at a time on a connection: streams require HTTP/2 or 3, and \
                 pipelining requires HTTP/1.1",
                version.name()
            ));
        }
        if let ConnectionUse::NewShare(share) = self.connections
            && !(share > 0.0 && share < 1.0)
        {
            return refuse(format!(
                "the share of requests on new connections is {share}: it must be above 0 and below 1"
            ));
        }
        if self.streams > 1 && self.connections != ConnectionUse::Kept {
            return refuse(
                "a connection that ends with a request cannot be shared: use 1 stream".to_string(),
            );
        }
        let Some(session) = self.session else { return Ok(()) };
        if self.rate.is_none() {
            return refuse("sessions arrive at a rate: set a rate".to_string());
        }
        if self.streams > 1 {
            return refuse("a session has a connection of its own: use 1 stream".to_string());
        }
        if !(session.requests >= 1.0 && session.requests <= 1e9) {
            return refuse(format!("{} requests in a session: there must be at least 1", session.requests));
        }
        Ok(())
    }

    fn check_clients(&self) -> Result<(), PlanError> {
        if (1..=MAXIMUM_CLIENTS).contains(&self.clients) {
            return Ok(());
        }
        refuse(format!("{} clients: there must be from 1 to {MAXIMUM_CLIENTS}", self.clients))
    }

    /// Checks the message streams. gRPC requires HTTP/2 or 3.
    fn check_messages(&self) -> Result<(), PlanError> {
        for (number, target) in self.targets().enumerate() {
            let is_grpc = |request: &PlannedRequest| {
                request.target == number
                    && request.messages.is_some_and(|messages| messages.form == MessageForm::Grpc)
            };
            let version = self.version_of(target);
            if matches!(version, HttpVersion::Http10 | HttpVersion::Http11)
                && self.requests.iter().any(is_grpc)
            {
                return refuse(format!("gRPC is not possible over {}: use HTTP/2 or 3", version.name()));
            }
        }
        let is_limited = |request: &&PlannedRequest| request.messages.is_some_and(|m| m.limit.is_some());
        if self.targets().any(|target| self.is_pipelined_to(target))
            && let Some(request) = self.requests.iter().find(is_limited)
        {
            return refuse(format!(
                "{:?}: an answer that the client ends needs a connection of its own: do not use pipelining",
                request.path
            ));
        }
        match self.requests.iter().find(|request| request.messages.is_some_and(|m| m.limit == Some(0))) {
            Some(request) => {
                refuse(format!("{:?} would end after 0 messages: give at least 1", request.path))
            }
            None => Ok(()),
        }
    }

    /// Checks the WebSockets. They are opened over HTTP/1.1, by requests without other features.
    fn check_websockets(&self) -> Result<(), PlanError> {
        for request in &self.requests {
            let Some(websocket) = request.websocket else { continue };
            let path = &request.path;
            let version = self.targets().nth(request.target).map(|target| self.version_of(target));
            if self.streams > 1 {
                return refuse(format!("{path:?}: a WebSocket has a connection of its own: use 1 stream"));
            }
            if version != Some(HttpVersion::Http11) {
                return refuse(format!(
                    "{path:?}: a WebSocket is opened over HTTP/1.1, and no other version"
                ));
            }
            if request.method != "GET" || request.messages.is_some() || request.step.is_some() {
                return refuse(format!(
                    "{path:?}: a WebSocket is opened with GET, has its own message settings, and no values \
                     can be extracted from its answer"
                ));
            }
            if request.expected_body_bytes.is_some()
                || request.expected_body_sha256.is_some()
                || !request.expected_status.is_empty()
            {
                return refuse(format!("{path:?}: the answer that opens a WebSocket is 101, without a body"));
            }
            let times = [websocket.send_every, websocket.ping_every];
            if times.into_iter().flatten().any(|every| every.is_zero() || every > MAXIMUM_LENGTH) {
                return refuse(format!("{path:?}: the intervals of messages and pings must be above 0"));
            }
            let is_text = |body: &[u8]| std::str::from_utf8(body).is_ok();
            if !websocket.is_binary && !request.body.as_deref().is_none_or(is_text) {
                return refuse(format!("{path:?}: the message is not UTF-8: send it as a binary one"));
            }
        }
        Ok(())
    }

    /// Each connection to the same target needs its own local port.
    fn check_local_ports(&self, connections: usize) -> Result<Vec<String>, PlanError> {
        let Some((first, last)) = local_port_range() else { return Ok(Vec::new()) };
        let ports = usize::from(last - first) + 1;
        if connections > ports {
            return refuse(format!(
                "{connections} connections need as many local ports, and there are {ports} \
                 (net.ipv4.ip_local_port_range is {first} to {last}): use fewer clients or widen the range"
            ));
        }
        let mut warnings = Vec::new();
        if self.connections != ConnectionUse::Kept && !reuses_waiting_ports(self.target.address.ip()) {
            warnings.push(format!(
                "new connections may run out of local ports: there are {ports} ports, and a port remains in \
                 TIME_WAIT for 60 s if the client closes first. Then at most {} connections per second can \
                 be sustained (net.ipv4.ip_local_port_range, net.ipv4.tcp_tw_reuse)",
                ports / 60
            ));
        }
        Ok(warnings)
    }
}

fn refuse<T>(text: String) -> Result<T, PlanError> {
    Err(PlanError(text))
}

fn check_target(target: &Target) -> Result<(), PlanError> {
    let host = &target.host;
    if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refuse(format!("the host {host:?} is not valid in a Host field: give a name or an address"));
    }
    if target.address.port() == 0 {
        return refuse("the target's port is 0: give a port from 1 to 65535".to_string());
    }
    let Some(tls) = &target.tls else { return Ok(()) };
    if !(0.0..=1.0).contains(&tls.resumption_share) {
        return refuse(format!("the resumption share is {}: it must be from 0 to 1", tls.resumption_share));
    }
    TlsBase::new(tls, b"").map_err(PlanError)?;
    Ok(())
}

fn check_request(request: &PlannedRequest) -> Result<(), PlanError> {
    if request.class >= MAXIMUM_REQUESTS {
        return refuse(format!(
            "the request {:?} has the class {}: classes are numbered from 0 and below {MAXIMUM_REQUESTS}",
            request.path, request.class
        ));
    }
    let method = &request.method;
    if method.is_empty() || !method.bytes().all(is_token_byte) || method.len() > 100 {
        return refuse(format!("the method {method:?} is invalid: use GET, POST or another token"));
    }
    if method == "CONNECT" {
        return refuse("CONNECT opens a tunnel, which cannot be measured".to_string());
    }
    if let Some(range) = request.expected_status.iter().find(|range| range.is_empty() || *range.start() < 200)
    {
        return refuse(format!("{range:?} is not a range of final statuses: they are from 200 on"));
    }
    check_headers(&request.headers)?;
    check_path(&request.path)
}

fn check_headers(headers: &[String]) -> Result<(), PlanError> {
    let bytes: usize = headers.iter().map(String::len).sum();
    if bytes > MAXIMUM_HEADERS_BYTES {
        return refuse(format!(
            "the header fields have {bytes} bytes: at most {MAXIMUM_HEADERS_BYTES} are possible"
        ));
    }
    for header in headers {
        let Some((name, value)) = header.split_once(':') else {
            return refuse(format!("the header field {header:?} has no colon: write 'name: value'"));
        };
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            return refuse(format!(
                "the header field {header:?} has the name {name:?}: a name is letters, digits and \
                 hyphens, with nothing between it and the colon"
            ));
        }
        if value.bytes().any(|byte| byte != b'\t' && (byte < b' ' || byte == 0x7f)) {
            return refuse(format!("the header field {header:?} contains a control character or a line end"));
        }
        if ["content-length", "transfer-encoding", "expect", "upgrade"]
            .contains(&name.to_ascii_lowercase().as_str())
        {
            return refuse(format!(
                "the header field {name:?} is not allowed: the engine writes the fields of the request's \
                 body itself, and does not switch to other protocols"
            ));
        }
    }
    Ok(())
}

/// Accepts only the origin form of RFC 9112, section 3.2.1, in bytes that are valid in a request line.
fn check_path(path: &str) -> Result<(), PlanError> {
    // A variable may contain the whole path.
    if !path.starts_with('/') && !path.starts_with("${") {
        return refuse(format!("the path {path:?} does not begin with '/'"));
    }
    if path.len() > MAXIMUM_PATH_BYTES {
        return refuse(format!("a path has {} bytes: at most {MAXIMUM_PATH_BYTES} are possible", path.len()));
    }
    if let Some(byte) = path.bytes().find(|&byte| !byte.is_ascii_graphic() || byte == b'#') {
        return refuse(format!(
            "the path {path:?} contains {:?}, which cannot be sent: write it as %{byte:02X}",
            char::from(byte)
        ));
    }
    Ok(())
}

/// RFC 9110, section 5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;
