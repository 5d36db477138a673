//! The thread: one wait covers all guests, and each guest that is ready is served at once.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use touchstone_sites::site::Snapshot;

use super::callers::Callers;
use super::home::CallsSeed;
use super::station::{Arrival, Order, Return, Station, ToDo, Told};
use crate::clock::ticking_timer;
use crate::connection::{Connection, Next};
use crate::core::Core;

/// The most events taken from the kernel at a time.
const EVENTS: usize = 256;

/// Each arrival of bytes causes one event (edge-triggered); otherwise the kernel examines each guest a second
/// time when the thread waits again. The client's end has a flag of its own, because it may come with the
/// last request.
const OF_GUESTS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// The values of an event that is not for a guest.
const WOKEN: u64 = u64::MAX;
const TICKED: u64 = u64::MAX - 1;

struct Thread {
    core: Rc<Core>,
    station: Arc<Station>,
    epoll: OwnedFd,
    guests: Vec<Option<Guest>>,
    is_ending: bool,
}

struct Guest {
    connection: Connection,
    socket: Arc<OwnedFd>,
    /// Requests answered; read when another thread sends the guest back.
    requests: Arc<AtomicU64>,
    /// The same count a second ago.
    requests_before: u64,
}

/// Runs a thread until it is told to end.
pub fn run(seed: CallsSeed, snapshot: Arc<Snapshot>, station: Arc<Station>) -> io::Result<()> {
    let CallsSeed { index, access_log, error_log, connections, metrics } = seed;
    station.take_up(snapshot.clone());
    let mut core = Core::new(index, snapshot, access_log, error_log, connections, metrics);
    core.callers = Some(Callers::new(station.clone()));
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let timer = ticking_timer()?;
    epoll::add(&epoll, &station.wake, EventData::new_u64(WOKEN), EventFlags::IN)?;
    epoll::add(&epoll, &timer, EventData::new_u64(TICKED), EventFlags::IN)?;
    let mut thread = Thread { core: Rc::new(core), station, epoll, guests: Vec::new(), is_ending: false };
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
    while !thread.is_ending {
        events.clear();
        match epoll::wait(&thread.epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            match event.data.u64() {
                WOKEN => thread.take_orders(),
                TICKED => thread.tick(&timer),
                place => {
                    let flags = event.flags;
                    let is_at_end = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
                    thread.serve(usize::try_from(place).unwrap_or(usize::MAX), is_at_end);
                }
            }
        }
    }
    Ok(())
}

impl Thread {
    fn take_orders(&mut self) {
        for order in self.station.take_orders() {
            match order {
                Order::Arrive(arrival) => self.admit(arrival),
                Order::TakeUp(snapshot) => {
                    self.station.take_up(snapshot.clone());
                    // Dropping the last handle to a configuration may wait for its watcher of files; here
                    // that would delay calls.
                    drop(self.core.take_up(snapshot));
                }
                Order::End => self.end(),
            }
        }
    }

    fn admit(&mut self, arrival: Arrival) {
        let place = arrival.place;
        let data = EventData::new_u64(place as u64);
        if self.is_ending || epoll::add(&self.epoll, &arrival.socket, data, OF_GUESTS).is_err() {
            return self.station.tell(arrival.back());
        }
        let Arrival { socket, peer, listener, requests, .. } = arrival;
        let connection = Connection::guest(self.core.clone(), socket.clone(), peer, listener, requests);
        let counted = Arc::new(AtomicU64::new(requests));
        self.station.admit(place, socket.clone(), counted.clone());
        if self.guests.len() <= place {
            self.guests.resize_with(place + 1, || None);
        }
        self.guests[place] = Some(Guest { connection, socket, requests: counted, requests_before: requests });
    }

    /// Serves a guest that is ready, perhaps for the last time.
    fn serve(&mut self, place: usize, is_at_end: bool) {
        let Some(guest) = self.guests.get_mut(place).and_then(Option::as_mut) else { return };
        if let Some(callers) = &self.core.callers {
            callers.guest.set(place);
        }
        let next = loop {
            match guest.connection.begin() {
                Next::Receive if guest.connection.is_idle() => {
                    guest.requests.store(guest.connection.requests(), Ordering::Relaxed);
                    // No event will report the bytes that are there already, nor report the end behind them
                    // again.
                    let is_told_again = !is_at_end && guest.connection.has_received_all();
                    if is_told_again || guest.connection.has_received_nothing() {
                        return;
                    }
                }
                next => break next,
            }
        };
        match next {
            // The thread answers only what it can answer as a whole, so there is nothing to give.
            Next::Close | Next::Give(_) => {
                self.remove(place);
                self.station.tell(Told::Ended(place));
            }
            Next::WentBack => self.forget_all(),
            next => self.send_back(place, next),
        }
    }

    /// Removes a guest from all lists.
    fn remove(&mut self, place: usize) -> Option<Guest> {
        let guest = self.guests.get_mut(place)?.take()?;
        let _ = epoll::delete(&self.epoll, &guest.socket);
        self.station.leave(place);
        Some(guest)
    }

    /// Sends a guest back with its next step.
    fn send_back(&mut self, place: usize, next: Next) {
        let Some(Guest { connection, socket, .. }) = self.remove(place) else { return };
        let requests = connection.requests();
        let (input, output) = connection.into_buffers();
        let to_do = match next {
            Next::Finish { prepared, sent } => ToDo::Finish { prepared, sent },
            Next::Linger => ToDo::Linger,
            // The core parses the received bytes again.
            _ => ToDo::Serve,
        };
        // No other handle to the socket is left.
        self.station.tell(match Arc::into_inner(socket) {
            Some(socket) => {
                Told::Back(Box::new(Return { place, socket, is_held: false, requests, input, output, to_do }))
            }
            None => Told::Ended(place),
        });
    }

    /// All guests were sent back while this thread was in a call.
    fn forget_all(&mut self) {
        for guest in std::mem::take(&mut self.guests).into_iter().flatten() {
            let _ = epoll::delete(&self.epoll, &guest.socket);
        }
        self.station.open();
    }

    fn tick(&mut self, timer: &OwnedFd) {
        let mut expirations = [0u8; 8];
        let _ = rustix::io::read(timer.as_fd(), &mut expirations);
        let is_new_second = self.core.clock.tick();
        self.core.note_tick(is_new_second, [0; 4]);
        if !is_new_second {
            return;
        }
        // A guest without a request for a second goes back to the core, which keeps the time limits.
        for place in 0..self.guests.len() {
            let Some(guest) = &mut self.guests[place] else { continue };
            let now = guest.connection.requests();
            if std::mem::replace(&mut guest.requests_before, now) == now {
                self.send_back(place, Next::Receive);
            }
        }
    }

    fn end(&mut self) {
        self.is_ending = true;
        for place in 0..self.guests.len() {
            self.send_back(place, Next::Receive);
        }
        for order in self.station.close() {
            if let Order::Arrive(arrival) = order {
                self.station.tell(arrival.back());
            }
        }
        self.core.note_tick(false, [0; 4]);
    }
}
