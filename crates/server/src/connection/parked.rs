//! Connections that release their task while they are idle, and are served again; see
//! [`parking`](touchstone_exchange::core::parking).

use std::rc::Rc;
use std::time::Duration;

use touchstone_observe::metrics::Timeout;
use touchstone_transport::Socket;

use super::{Connection, ConnectionStep};
use touchstone_exchange::core::Core;
use touchstone_exchange::core::parking::ParkedConnection;

/// How long a connection is idle before it is parked. A request after a shorter pause does not pay for it.
pub const PARK_AFTER: Duration = Duration::from_secs(1);

impl Connection {
    /// Whether the connection may wait without a task: it holds only its entries and its transport.
    #[inline]
    pub(super) fn can_be_parked(&self) -> bool {
        self.core.parking.is_some()
            && matches!(self.transport.socket(), Socket::Registered(_))
            && self.input.is_empty()
            && self.output.is_empty()
            && self.transport.is_quiet()
            && !self.has_shared_socket()
    }

    /// Whether the connection was idle for long enough, and may wait without a task.
    #[inline]
    pub(super) fn is_to_be_parked(&self) -> bool {
        self.timing.deadline.as_ref().is_some_and(|deadline| deadline.is_due_for_parking())
            && self.can_be_parked()
    }

    /// Parks the connection. Returns it if that is not possible; its task then waits as before.
    pub(super) fn park(self) -> Option<Connection> {
        let (core, mut transport, entries) = self.into_entries();
        // If the event loop does not release the socket, the connection ends here.
        if !transport.deregister() {
            return None;
        }
        if let Some(deadline) = &entries.deadline {
            deadline.park();
        }
        let parked = Box::new(ParkedConnection { transport, entries });
        match &core.parking {
            Some(parking) => parking.add(parked).err(),
            None => Some(parked),
        }
        .map(|refused| Connection::unpark(core.clone(), *refused))
    }

    fn unpark(core: Rc<Core>, parked: ParkedConnection) -> Connection {
        let connection = Connection::from_entries(core, parked.transport, parked.entries);
        if let Some(deadline) = &connection.timing.deadline {
            deadline.unpark();
        }
        connection
    }
}

/// Serves the parked connections of a core: those that have received bytes, and those whose deadline has
/// passed.
pub async fn watch(core: Rc<Core>) {
    let Some(parking) = &core.parking else { return };
    loop {
        tokio::select! {
            ready = parking.ready() => match ready {
                Ok(connections) => connections
                    .into_iter()
                    .for_each(|parked| Connection::unpark(core.clone(), *parked).begin_or_start()),
                Err(error) => {
                    let message = format_args!("cannot wait for idle connections: {error}");
                    return core.error_log.error(message);
                }
            },
            () = core.deadlines.parked_expired.notified() => {
                parking.take_expired().into_iter().for_each(|parked| end(&core, *parked));
            }
        }
        // A core with many such connections also serves the others.
        tokio::task::yield_now().await;
    }
}

/// Ends a connection that was idle for too long, or whose room others need.
fn end(core: &Rc<Core>, parked: ParkedConnection) {
    let mut connection = Connection::unpark(core.clone(), parked);
    connection.count_timeout(Timeout::Idle);
    if !connection.transport.end() {
        connection.start(ConnectionStep::Linger);
    }
}
