//! Idle connections without a task.
//!
//! A connection that waits has a task and a registration at the event loop, which take about two kilobytes. A
//! connection that stays idle releases both. The rest of it waits here, and its socket in an epoll set of its
//! own, in which an entry takes no memory of the process. The event loop watches that set.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use slab::Slab;
use tokio::io::unix::AsyncFd;
use touchstone_transport::{Transport, sys};

use crate::core::worker::CoreEntries;

/// How many connections are taken out at a time.
const MOST_AT_ONCE: usize = 64;

/// The state of a parked connection.
pub struct ParkedConnection {
    /// Its transport, out of the event loop.
    pub transport: Transport,
    /// Its entries at the core.
    pub entries: CoreEntries,
}

/// The parked connections of a core.
pub struct Parking {
    epoll: AsyncFd<OwnedFd>,
    // In boxes: the slab grows by half empty slots.
    connections: RefCell<Slab<Box<ParkedConnection>>>,
}

impl Parking {
    /// An empty one, registered with this thread's event loop.
    pub fn new() -> io::Result<Parking> {
        let epoll = sys::register_descriptor(epoll::create(CreateFlags::CLOEXEC)?)?;
        Ok(Parking { epoll, connections: RefCell::default() })
    }

    /// Parks a connection; returns it if the kernel does not watch its socket.
    pub fn add(&self, parked: Box<ParkedConnection>) -> Result<(), Box<ParkedConnection>> {
        let mut connections = self.connections.borrow_mut();
        let place = connections.vacant_entry();
        let data = EventData::new_u64(place.key() as u64);
        let added = match parked.transport.socket().as_descriptor() {
            Some(socket) => epoll::add(&self.epoll, socket, data, EventFlags::IN | EventFlags::RDHUP).is_ok(),
            None => false,
        };
        if !added {
            return Err(parked);
        }
        place.insert(parked);
        Ok(())
    }

    /// Waits until sockets have something to read; takes out some of their connections.
    pub async fn ready(&self) -> io::Result<Vec<Box<ParkedConnection>>> {
        loop {
            let mut ready = self.epoll.readable().await?;
            let mut events = Vec::with_capacity(MOST_AT_ONCE);
            let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if events.is_empty() {
                ready.clear_ready();
                continue;
            }
            let place = |event: &Event| event.data.u64() as usize;
            return Ok(events.iter().filter_map(|event| self.take(place(event))).collect());
        }
    }

    /// Takes out the connections whose deadline has passed.
    pub fn take_expired(&self) -> Vec<Box<ParkedConnection>> {
        let has_expired = |parked: &ParkedConnection| {
            parked.entries.deadline.as_ref().is_some_and(|deadline| deadline.expired())
        };
        let connections = self.connections.borrow();
        let expired: Vec<usize> =
            connections.iter().filter(|(_, parked)| has_expired(parked)).map(|(place, _)| place).collect();
        drop(connections);
        expired.into_iter().filter_map(|place| self.take(place)).collect()
    }

    fn take(&self, place: usize) -> Option<Box<ParkedConnection>> {
        let parked = self.connections.borrow_mut().try_remove(place)?;
        if let Some(socket) = parked.transport.socket().as_descriptor() {
            let _ = epoll::delete(&self.epoll, socket);
        }
        Some(parked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::deadline::Deadline;

    #[test]
    fn an_idle_connection_takes_little_memory() {
        // Each in an allocation of its own. With TLS its session adds to them.
        let bytes = size_of::<ParkedConnection>() + size_of::<Deadline>();
        assert!(bytes <= 400, "{bytes} bytes");
    }
}
