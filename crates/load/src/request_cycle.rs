//! The cycle of a virtual client: the start and the end of a request, and the time of the next one.

use crate::answer::Answer;
use crate::arrivals::Arrival;
use crate::client::{ClientState, Page, Phase};
use crate::clock::now_ns;
use crate::engine::{Engine, LoadModel};
use crate::failure::{Example, Failure};
use crate::outcome::ErrorKind;
use crate::plan::{ConnectionUse, TimeSpread};
use crate::record::ValidAnswer;
use crate::request_template::RedirectForm;
use crate::socket::new_socket;
use crate::target::HttpVersion;
use rustix::io::Errno;
use rustix::net::connect;

/// The pause of a client after a refused or aborted connection, so that an unavailable server is not flooded
/// with connections.
const PAUSE_AFTER_ERROR_NS: u64 = 10_000_000;

impl Engine<'_> {
    /// Handles the expired timer of a client.
    pub(crate) fn on_timer(&mut self, index: usize, due_ns: u64) {
        match &self.load_model {
            LoadModel::Closed(_) => self.start_request(index, self.now_ns, self.now_ns, false),
            LoadModel::Open(_) if self.has_more_requests(index) => {
                self.start_request(index, due_ns, self.now_ns, false);
            }
            // The client has paused after an error.
            LoadModel::Open(_) => self.take_due_arrival(index),
        }
    }

    /// Starts the session of an arrival with this client.
    pub(crate) fn begin_session(&mut self, index: usize, arrival: Arrival, has_waited: bool) {
        let requests = match self.shared.plan.session {
            None => 1,
            Some(session) => match session.spread {
                TimeSpread::Fixed => session.requests.round() as u64,
                TimeSpread::Exponential => geometric(session.requests, self.clients[index].random.fraction()),
            },
        };
        self.clients[index].session_requests_left = requests;
        self.clients[index].recorded_request = arrival.request;
        if self.shared.plan.session.is_some() {
            self.begin_script(index);
        }
        self.start_request(index, arrival.at_ns, self.now_ns, has_waited);
    }

    /// Whether the client's session, page or redirect continues after its last request.
    fn has_more_requests(&self, index: usize) -> bool {
        let client = &self.clients[index];
        client.session_requests_left > 0 || client.is_redirected || self.next_of_page(index).is_some()
    }

    /// The next request of the client's page.
    fn next_of_page(&self, index: usize) -> Option<usize> {
        let page = self.clients[index].page;
        self.shared.requests[page.first].then.get(page.started).copied()
    }

    /// Selects the client's next request: the target of a redirect, the next request of its page, the request
    /// of a recorded arrival, or one chosen by weight.
    fn choose(&mut self, index: usize) -> usize {
        if std::mem::take(&mut self.clients[index].is_redirected) {
            return self.clients[index].request;
        }
        (self.clients[index].redirect_form, self.clients[index].redirects) = (RedirectForm::None, 0);
        if let Some(request) = self.next_of_page(index) {
            self.clients[index].page.started += 1;
            return request;
        }
        if self.shared.plan.session.is_none() {
            self.begin_script(index);
        }
        let (choice, requests) = (self.shared.choice, self.shared.requests);
        let client = &mut self.clients[index];
        client.session_requests_left = client.session_requests_left.saturating_sub(1);
        let first = match client.recorded_request.take() {
            Some(request) => request as usize,
            None if requests.len() == 1 => 0,
            None => choice.draw(client.random.next()),
        };
        client.page = Page { first, started: 0 };
        first
    }

    /// Starts the client's next request. Its latency begins at `intended_ns`.
    fn start_request(&mut self, index: usize, intended_ns: u64, now_ns: u64, has_waited: bool) {
        if self.left_to_start == 0 {
            return;
        }
        self.left_to_start -= 1;
        let number = self.choose(index);
        let request = &self.shared.requests[number];
        let client = &mut self.clients[index];
        client.request = number;
        client.connection = index / self.streams * self.targets.len() + request.target;
        client.is_last = match self.shared.plan.connections {
            ConnectionUse::Kept => false,
            ConnectionUse::New => true,
            ConnectionUse::NewShare(share) => client.random.fraction() < share,
        };
        client.retried = false;
        client.started_ns = intended_ns;
        client.service_started_ns = now_ns;
        self.under_way += 1;
        self.record.started(intended_ns, now_ns, has_waited);
        if request.retains_answer || self.clients[index].script.is_some() {
            self.write_request(index);
        }
        self.send_request(index, now_ns);
    }

    /// Sends the request on the open connection or on a new one.
    fn send_request(&mut self, index: usize, now_ns: u64) {
        let client = &mut self.clients[index];
        let request = &self.shared.requests[client.request];
        client.sent = 0;
        client.answer.reset(request.is_head);
        let number = client.connection;
        let connection = &self.connections[number];
        if connection.layers.is_some() {
            self.send_layered(index, now_ns);
        } else if connection.phase == Phase::Open {
            client.state = ClientState::Sending;
            self.send(index);
        } else {
            client.state = ClientState::Waiting;
            self.open_connection(number, now_ns);
        }
    }

    /// Opens a new connection.
    ///
    /// On the loopback interface the TCP handshake is done when `connect` returns. The requests of several
    /// connections are then sent together, so that a waiting server is woken once for all of them: waking it
    /// costs more than sending.
    pub(crate) fn open_connection(&mut self, index: usize, now_ns: u64) {
        let target = &self.targets[self.connections[index].target];
        if target.version == HttpVersion::Http3 {
            return self.open_quic(index, now_ns);
        }
        let connection = &mut self.connections[index];
        connection.reused = false;
        connection.peer_closed = false;
        connection.connect_started_ns = now_ns;
        let has_layers = connection.layers.is_some();
        let client = &self.clients[connection.first_client];
        let request_bytes = match &client.written {
            _ if has_layers => usize::MAX,
            Some(written) if client.is_written => written.bytes.len(),
            _ => self.shared.requests[client.request].bytes.len(),
        };
        let socket = match new_socket(target.address, self.shared.plan.connections, request_bytes) {
            Ok(socket) => socket,
            Err(error) => return self.fail_connection(index, Failure::system(ErrorKind::Connect, error)),
        };
        match connect(&socket, &target.address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(error) => return self.fail_connection(index, Failure::system(ErrorKind::Connect, error)),
        }
        connection.connect_returned_ns = crate::clock::now_ns();
        connection.phase = Phase::Connecting;
        connection.socket = Some(socket);
        if has_layers {
            self.begin_layers(index);
        } else if target.is_loopback {
            self.queue_first_request(index);
        } else {
            self.send_first_request(index);
        }
    }

    /// Checks and counts a complete answer; then the client continues.
    pub(crate) fn complete(&mut self, index: usize, answer: &Answer) {
        let now_ns = now_ns();
        self.now_ns = now_ns;
        let client = &mut self.clients[index];
        let connection = &mut self.connections[client.connection];
        let expected = &self.shared.requests[client.request].expected;
        // A connection of HTTP/2 or 3, or one with pipelining, may have other requests. Its end is handled
        // when it is received.
        let streams = self.streams;
        let is_shared = connection
            .layers
            .as_ref()
            .is_some_and(|layers| streams > 1 || layers.h2.is_some() || layers.h3.is_some());
        let is_usable = is_shared
            || answer.keeps_connection && !connection.peer_closed && client.state == ClientState::Receiving;
        if is_usable && !client.is_last {
            connection.reused = true;
        } else {
            connection.close();
        }
        let has_right_hash = match &mut client.retained {
            Some(retained) => retained.has_hash(expected.body_sha256.as_ref()),
            None => true,
        };
        self.record.count_status(answer.status, now_ns);
        let taken = match client.retained {
            Some(_) if expected.has_status(answer.status) => self.take_answer(index, answer),
            _ => Ok(()),
        };
        let client = &mut self.clients[index];
        let taken = match (&client.retained, taken) {
            (Some(retained), Ok(())) => retained.check_messages(),
            (_, taken) => taken,
        };
        let failure = if !expected.has_status(answer.status) {
            Some(Failure::status(answer.status))
        } else if client.is_redirected {
            None
        } else if expected.body_bytes.is_some_and(|bytes| bytes != answer.body_bytes) {
            Some(ErrorKind::ShortBody.into())
        } else if !has_right_hash {
            Some(ErrorKind::WrongBody.into())
        } else {
            taken.err()
        };
        if let Some(failure) = failure {
            self.record_failure(index, failure, now_ns);
        } else {
            let valid = ValidAnswer {
                intended_ns: client.started_ns,
                ended_ns: now_ns,
                latency_ns: now_ns.saturating_sub(client.started_ns),
                service_ns: now_ns.saturating_sub(client.service_started_ns),
                class: expected.class,
                bytes: answer.bytes,
                body_bytes: answer.body_bytes,
            };
            self.record.answered(index, &valid);
        }
        self.finish_request(index, now_ns, 0);
    }

    /// The class of a client's current request.
    pub(crate) fn class_of(&self, client: usize) -> usize {
        self.shared.requests[self.clients[client].request].expected.class
    }

    /// Fails the active request, and closes its connection unless other requests use it.
    pub(crate) fn fail(&mut self, index: usize, failure: impl Into<Failure>) {
        let connection = self.clients[index].connection;
        if self.connections[connection].layers.is_some() {
            self.abandon_layered(index, failure.into());
        } else {
            self.connections[connection].close();
            self.end_failed(index, failure);
        }
    }

    /// Fails all active requests on a connection.
    pub(crate) fn fail_connection(&mut self, connection: usize, failure: impl Into<Failure>) {
        if self.connections[connection].layers.is_some() {
            self.fail_layered(connection, failure);
        } else {
            let client = self.connections[connection].first_client;
            self.fail(client, failure);
        }
    }

    /// Records the failure of a request whose connection was already handled.
    pub(crate) fn end_failed(&mut self, index: usize, failure: impl Into<Failure>) {
        let (now_ns, failure) = (now_ns(), failure.into());
        self.now_ns = now_ns;
        self.record_failure(index, failure, now_ns);
        let pause_ns = match failure.kind {
            ErrorKind::Connect | ErrorKind::Reset | ErrorKind::Tls => PAUSE_AFTER_ERROR_NS,
            _ => 0,
        };
        self.finish_request(index, now_ns, pause_ns);
    }

    fn record_failure(&mut self, index: usize, failure: Failure, now_ns: u64) {
        let (request, class) = (self.clients[index].request, self.class_of(index));
        let is_new = self.record.reasons.is_new(failure);
        let example = if is_new { self.example(index, failure) } else { Example::default() };
        self.record.failed(index, request, class, failure, now_ns, example);
        self.end_session_without_value(index);
    }

    /// Handles an aborted connection with an active request. If the connection was kept and no byte of the
    /// answer was received, the server has most likely closed it between two requests. An idempotent request
    /// is then sent once more on a new connection (RFC 9112, section 9.3.1), and its latency begins at its
    /// first start.
    pub(crate) fn retry_or_fail(&mut self, index: usize, was_reused: bool, is_unanswered: bool) {
        let client = &mut self.clients[index];
        let may_repeat = self.shared.requests[client.request].is_idempotent;
        if !was_reused || client.retried || !is_unanswered || !may_repeat {
            return self.end_failed(index, ErrorKind::Reset);
        }
        self.repeat(index);
    }

    /// Sends the request once more, on a new connection.
    pub(crate) fn repeat(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.retried = true;
        let request = &self.shared.requests[client.request];
        if let Some(retained) = &mut client.retained {
            retained.reset(request, self.shared.script.has_cookies());
        }
        self.record.total_retries += 1;
        self.send_request(index, now_ns());
    }

    /// Ends the active request. The next request starts now or at its time.
    fn finish_request(&mut self, index: usize, now_ns: u64, pause_ns: u64) {
        self.record_messages(index);
        self.under_way -= 1;
        self.clients[index].state = ClientState::Idle;
        let is_redirected = self.clients[index].is_redirected;
        if self.next_of_page(index).is_none() && !is_redirected {
            self.record.page_ended(self.class_of(index), now_ns);
        }
        if now_ns >= self.stop_ns {
            return self.close_connections(index);
        }
        if self.shared.requests[self.clients[index].page.first].is_session
            && self.next_of_page(index).is_none()
            && !is_redirected
        {
            self.close_connections(index);
        }
        match &self.load_model {
            LoadModel::Closed(None) => self.think(index, now_ns, pause_ns),
            LoadModel::Closed(Some(curve)) => {
                let now_s = now_ns.saturating_sub(self.shared.times.start_ns) as f64 / 1e9;
                let level = self.clients[index].number as f64;
                if curve.is_above(level, now_s) {
                    return self.think(index, now_ns, pause_ns);
                }
                // The stage has fewer clients: this client pauses until a later stage.
                if let Some(next_s) = curve.next_above(level, now_s) {
                    self.timers.set(self.shared.times.start_ns + (next_s * 1e9) as u64, index);
                }
                self.close_connections(index);
            }
            LoadModel::Open(_) if self.has_more_requests(index) => self.think(index, now_ns, pause_ns),
            LoadModel::Open(_) => {
                if self.shared.plan.session.is_some() {
                    self.close_connections(index);
                }
                if pause_ns > 0 {
                    self.timers.set(now_ns + pause_ns, index);
                } else {
                    self.take_due_arrival(index);
                }
            }
        }
    }

    /// Starts the client's next request after its think time. Within a page or a session, it is the think
    /// time of the next request.
    fn think(&mut self, index: usize, now_ns: u64, pause_ns: u64) {
        let next = self.next_of_page(index);
        let mut think_ns = match next {
            _ if self.clients[index].is_redirected => 0,
            Some(request) => self.shared.requests[request].think_before_ns,
            None => self.think_ns,
        };
        if think_ns > 0 && self.shared.plan.think_spread == TimeSpread::Exponential {
            think_ns = (think_ns as f64 * self.clients[index].random.exponential()) as u64;
        }
        match think_ns.max(pause_ns) {
            0 => self.start_request(index, now_ns, now_ns, false),
            wait_ns => self.timers.set(now_ns + wait_ns, index),
        }
    }

    /// Assigns the oldest waiting arrival to the client, or marks the client as idle.
    fn take_due_arrival(&mut self, index: usize) {
        let LoadModel::Open(arrivals) = &mut self.load_model else { return };
        if let Some(arrival) = arrivals.next_for(index) {
            self.begin_session(index, arrival, true);
        }
    }

    /// Closes the client's connections. Those of a group remain open while one of its clients is active.
    fn close_connections(&mut self, index: usize) {
        let group = index / self.streams;
        let clients = group * self.streams..((group + 1) * self.streams).min(self.clients.len());
        if self.clients[clients].iter().all(|client| client.state == ClientState::Idle) {
            let connections = group * self.targets.len()..(group + 1) * self.targets.len();
            self.connections[connections].iter_mut().for_each(crate::client::Connection::close);
        }
    }
}

/// A number from the geometric distribution over 1, 2, 3 and so on with this mean.
fn geometric(mean: f64, fraction: f64) -> u64 {
    if mean <= 1.0 {
        return 1;
    }
    // The probability that a session ends after a request is 1 / mean.
    1 + ((1.0 - fraction).ln() / (1.0 - 1.0 / mean).ln()) as u64
}

#[cfg(test)]
mod tests {
    use super::geometric;
    use crate::choice::Random;

    #[test]
    fn geometric_session_lengths_have_their_mean() {
        for mean in [1.0, 1.5, 5.0, 40.0] {
            let mut random = Random::of_thread(5, 0);
            let sum: u64 = (0..100_000).map(|_| geometric(mean, random.fraction())).sum();
            assert!((sum as f64 / 1e5 / mean - 1.0).abs() < 0.02, "{mean}: {}", sum as f64 / 1e5);
        }
        assert_eq!(geometric(5.0, 0.0), 1);
    }
}
