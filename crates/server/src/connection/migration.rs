//! A connection that migrates to the worker of its core, and back; see [`touchstone_exchange::core::worker`].

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use touchstone_config::ListenAddress;
use touchstone_http::request::Version;
use touchstone_transport::Socket;
use touchstone_transport::Transport;

use super::request_body::BodyFeed;
use super::{Connection, ConnectionStep, worker_start};
use touchstone_exchange::connection_number::ConnectionNumber;
use touchstone_exchange::core::worker::{
    CalledRequest, CoreEntries, PendingCall, ReturnStep, ReturnedConnection, SocketEnd,
};
use touchstone_exchange::core::{Core, RECEIVE_BYTES};
use touchstone_exchange::steps::{self, ExchangeAnswer, Progress};

/// A connection migrates after this many requests in a row that a worker could have answered; after a visit
/// that was useless, twice as many are needed.
const CALLS: u32 = 2;
const MOST_DOUBLINGS: u32 = 10;

/// A visit of fewer requests was useless.
const WORTH_REQUESTS: u64 = 16;

/// The state of a connection's migrations to the worker of its core.
#[derive(Default)]
pub struct Migration {
    /// Consecutive requests that a worker could also have answered.
    pub calls: u32,
    /// How many visits to the worker were useless.
    visits: u32,
    /// Ends the socket if another thread has a handle to it too.
    ending: Option<SocketEnd>,
}

impl Connection {
    /// Whether it should wait for its next request on a worker.
    #[inline]
    pub(super) fn is_for_worker(&self) -> bool {
        self.migration.calls >= CALLS << self.migration.visits.min(MOST_DOUBLINGS)
            && self.input.is_empty()
            && self.listener.index.is_some()
            && matches!(self.transport, Transport::Plain(Socket::Registered(_)))
            && self.core.worker.is_some()
            && !self.core.draining.get()
    }

    /// Migrates to the worker of its core.
    pub(super) fn migrate(self) {
        let (core, transport, mut entries) = self.into_entries();
        entries.number = entries.number.assigned();
        let Transport::Plain(socket) = transport else { return };
        // If the event loop does not release the socket, the connection ends here.
        let Some(socket) = socket.into_descriptor() else { return };
        if let Some(deadline) = &entries.deadline {
            deadline.leave_task();
        }
        worker_start::send(&core, socket, entries);
    }

    /// Parts the connection from its entries at the core.
    pub(super) fn into_entries(self) -> (Rc<Core>, Transport, CoreEntries) {
        let entries = CoreEntries {
            deadline: self.timing.deadline,
            permit: self.peer.permit,
            ending: self.migration.ending,
            peer: self.peer.address,
            listener: self.listener.address,
            visits: self.migration.visits,
            requests: self.requests,
            number: self.peer.number,
        };
        (self.core, self.transport, entries)
    }

    /// A connection with the entries that it has at the core.
    pub(super) fn from_entries(core: Rc<Core>, transport: Transport, entries: CoreEntries) -> Connection {
        let CoreEntries { deadline, permit, ending, peer, listener, visits, requests, number } = entries;
        let mut connection = Connection::new(core, transport, peer, listener, permit);
        connection.requests = requests;
        connection.peer.number = number;
        connection.timing.deadline = deadline;
        connection.migration = Migration { calls: 0, visits, ending };
        connection
    }

    /// Whether another thread has a handle to the socket too.
    pub(super) fn has_shared_socket(&self) -> bool {
        self.migration.ending.is_some()
    }

    /// A connection on a worker, which waits for the socket.
    pub fn migrated(
        core: Rc<Core>,
        socket: Arc<OwnedFd>,
        peer: Option<SocketAddr>,
        listener: ListenAddress,
        requests: u64,
        number: ConnectionNumber,
    ) -> Connection {
        let transport = Transport::Plain(Socket::Shared(socket));
        let mut connection = Connection::new(core, transport, peer, listener, None);
        connection.requests = requests;
        connection.peer.number = number;
        connection
    }

    /// Whether no part of a request has arrived, and all answers are sent.
    pub fn is_idle(&self) -> bool {
        self.input.is_empty() && self.output.is_empty()
    }

    /// Whether all bytes were received that had arrived when [`Connection::begin`] checked.
    pub fn has_received_all(&self) -> bool {
        self.last_received < RECEIVE_BYTES
    }

    /// Whether no bytes had arrived.
    pub fn has_received_no_bytes(&self) -> bool {
        self.last_received == 0
    }

    /// Requests answered.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The bytes that were received and not consumed, and those that are not sent yet.
    pub fn into_buffers(mut self) -> (Vec<u8>, Vec<u8>) {
        // The core does not learn of their requests.
        self.note_unsent(self.output.len());
        (self.input, self.output)
    }

    /// Continues a connection on its core after a visit to a worker.
    pub fn return_to_core(core: Rc<Core>, back: ReturnedConnection, left: CoreEntries) {
        let ReturnedConnection { socket, is_held, requests, input, output, to_do, .. } = back;
        let may_be_held = is_held && left.ending.is_none();
        let ending = match may_be_held.then(|| socket.try_clone()).transpose() {
            Ok(other) => left.ending.or(other.map(SocketEnd)),
            // No descriptor is free: the connection ends.
            Err(_) => return,
        };
        let was_worth_it = requests.saturating_sub(left.requests) >= WORTH_REQUESTS;
        let visits = if was_worth_it { 0 } else { left.visits.saturating_add(1) };
        let transport = Transport::Plain(Socket::fresh(socket));
        let entries = CoreEntries { ending, visits, requests, ..left };
        let mut connection = Connection::from_entries(core, transport, entries);
        connection.input = input;
        connection.output = output;
        let next = match to_do {
            ReturnStep::Serve => ConnectionStep::Buffered,
            ReturnStep::Finish { prepared, sent } => ConnectionStep::Finish { prepared, sent },
            ReturnStep::Linger => ConnectionStep::Linger,
            ReturnStep::AwaitCall(call) => ConnectionStep::AwaitCall(call),
        };
        tokio::task::spawn_local(connection.run(next));
    }

    /// Awaits the result of a call, and answers with it.
    pub(super) async fn await_call(&mut self, pending: PendingCall) -> ConnectionStep {
        let PendingCall { snapshot, of, call } = pending;
        let CalledRequest { site, route, client, user, started } = of;
        let core = self.core.clone();
        self.listener.follow_config(&core.state.borrow());
        let Some(received) = self.take_head().map(Rc::new) else { return ConnectionStep::Close };
        let interface =
            snapshot.sites.get(site).and_then(|site| site.rules.as_ref()?.interface_at(route).cloned());
        let Some(interface) = interface else { return ConnectionStep::Close };
        let under_way = self.begin_request(&snapshot, received.method_text(), received.target());
        let progress = Progress::of_program(&snapshot, self.peer.address, under_way, site, route);
        progress.signals.handler_started();
        progress.set_handler_name(interface.name());
        let handler = steps::handler_of(&core, &snapshot, &interface);
        let mut feed = BodyFeed::none();
        let takes_interim = received.head.version == Version::Http11;
        let answer = pin!(handler.await_call(call, progress.clone()));
        let Some(mut answer) = self.drive(answer, &mut feed, &progress, takes_interim).await else {
            return self.note_client_left(&snapshot, &received, &progress, started);
        };
        answer.fields.extend_from_slice(&snapshot.sites[site].fields);
        let answered = ExchangeAnswer { answer, client, user };
        self.complete_request(&snapshot, answered, &received, feed, &progress, started).await
    }
}
