//! What a core and its thread for calls share: what they tell each other, and the guests, which a third
//! thread may send back while the thread is in a call.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::event::EventfdFlags;
use tokio::sync::mpsc::UnboundedSender;
use touchstone_files::cache::Prepared;
use touchstone_interfaces::handler::{CallUnderWay, WayBack};

use crate::site::Snapshot;

/// A connection as the thread gets it.
pub struct Arrival {
    /// Its place, by which both sides name it.
    pub place: usize,
    /// Its socket.
    pub socket: Arc<OwnedFd>,
    /// The other end.
    pub peer: Option<std::net::SocketAddr>,
    /// The address that it was accepted on.
    pub listener: std::net::SocketAddr,
    /// Requests answered.
    pub requests: u64,
}

/// What a core tells its thread.
pub enum Order {
    /// A connection comes.
    Arrive(Arrival),
    /// The configuration has changed.
    TakeUp(Arc<Snapshot>),
    /// All go back, and the thread ends.
    End,
}

/// A connection that goes back to its core.
pub struct Return {
    /// Its place.
    pub place: usize,
    /// Its socket.
    pub socket: OwnedFd,
    /// The thread has the socket as well, until its call returns.
    pub is_held: bool,
    /// Requests answered.
    pub requests: u64,
    /// Received and not consumed.
    pub input: Vec<u8>,
    /// Not sent yet.
    pub output: Vec<u8>,
    /// What it has to do.
    pub to_do: ToDo,
}

/// What a connection that goes back has to do.
pub enum ToDo {
    /// Look at what was received, or receive.
    Serve,
    /// Write the rest of a hit.
    Finish {
        /// The response.
        prepared: Arc<Prepared>,
        /// Bytes of it that are written.
        sent: usize,
    },
    /// Let the client read the last answer, then end.
    Linger,
    /// Await the rest of a call.
    GoOn(Box<GoesOn>),
}

/// A call that goes on.
pub struct GoesOn {
    /// The configuration that it was made under.
    pub snapshot: Arc<Snapshot>,
    /// What it is of.
    pub of: CallOf,
    /// For the handler.
    pub call: CallUnderWay,
}

/// What a call is of.
pub struct CallOf {
    /// The position of the site.
    pub site: usize,
    /// The position of the route in it.
    pub route: usize,
    /// The client, behind proxies that are trusted.
    pub client: Option<IpAddr>,
    /// The user that was authenticated.
    pub user: Option<Box<str>>,
    /// When the request was there.
    pub started: Instant,
}

/// What a thread tells its core.
pub enum Told {
    /// A guest comes back.
    Back(Box<Return>),
    /// A guest has ended.
    Ended(usize),
}

/// A guest, as whoever sends it back sees it.
struct Guest {
    socket: Arc<OwnedFd>,
    requests: Arc<AtomicU64>,
}

/// What both share.
pub struct Station {
    /// Wakes the thread.
    pub wake: OwnedFd,
    inbox: Mutex<Inbox>,
    guests: Mutex<Vec<Option<Guest>>>,
    call: Mutex<Call>,
    home: UnboundedSender<Told>,
}

#[derive(Default)]
struct Inbox {
    orders: Vec<Order>,
    /// The thread is in a call that takes long, or has ended: nobody is to come.
    is_closed: bool,
}

/// The call under way.
#[derive(Default)]
struct Call {
    place: usize,
    head: Vec<u8>,
    of: Option<CallOf>,
    snapshot: Option<Arc<Snapshot>>,
}

impl Station {
    /// A station whose thread tells `home`.
    pub fn new(home: UnboundedSender<Told>) -> io::Result<Station> {
        let wake = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Station { wake, inbox: Mutex::default(), guests: Mutex::default(), call: Mutex::default(), home })
    }

    // --- The core's side.

    /// Tells the thread; a connection comes back at once where it cannot be taken.
    pub fn send(&self, order: Order) -> Result<(), Order> {
        let mut inbox = lock(&self.inbox);
        if inbox.is_closed && matches!(order, Order::Arrive(_)) {
            return Err(order);
        }
        inbox.orders.push(order);
        drop(inbox);
        // It is full only where the thread was woken often enough.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        Ok(())
    }

    // --- The thread's side.

    /// What the core has told.
    pub fn take_orders(&self) -> Vec<Order> {
        let mut counter = [0u8; 8];
        // Nothing to read means that somebody was quicker.
        let _ = rustix::io::read(&self.wake, &mut counter);
        std::mem::take(&mut lock(&self.inbox).orders)
    }

    /// Calls are made under this configuration.
    pub fn take_up(&self, snapshot: Arc<Snapshot>) {
        lock(&self.call).snapshot = Some(snapshot);
    }

    /// Notes a guest, whose count of requests the thread keeps.
    pub fn admit(&self, place: usize, socket: Arc<OwnedFd>, requests: Arc<AtomicU64>) {
        let mut guests = lock(&self.guests);
        if guests.len() <= place {
            guests.resize_with(place + 1, || None);
        }
        guests[place] = Some(Guest { socket, requests });
    }

    /// A guest leaves.
    pub fn leave(&self, place: usize) {
        if let Some(guest) = lock(&self.guests).get_mut(place) {
            *guest = None;
        }
    }

    /// Tells the core.
    pub fn tell(&self, told: Told) {
        // Where the core has ended, so has the server.
        let _ = self.home.send(told);
    }

    /// A call begins, for the request with this head.
    pub fn begin_call(&self, place: usize, head: &[u8], of: CallOf) {
        let call = &mut *lock(&self.call);
        call.place = place;
        call.head.clear();
        call.head.extend_from_slice(head);
        call.of = Some(of);
    }

    /// It has ended; `None` where all guests were sent back meanwhile.
    pub fn end_call(&self) -> Option<CallOf> {
        lock(&self.call).of.take()
    }

    /// The thread can take guests again.
    pub fn open(&self) {
        lock(&self.inbox).is_closed = false;
    }

    /// The thread takes no more; gives what it was told and has not heard.
    pub fn close(&self) -> Vec<Order> {
        let mut inbox = lock(&self.inbox);
        inbox.is_closed = true;
        std::mem::take(&mut inbox.orders)
    }
}

impl WayBack for Station {
    fn go_back(&self, under_way: CallUnderWay) {
        let mut call = lock(&self.call);
        let (Some(of), Some(snapshot)) = (call.of.take(), call.snapshot.clone()) else { return };
        let (place, head) = (call.place, std::mem::take(&mut call.head));
        let guests = std::mem::take(&mut *lock(&self.guests));
        let mut caller = Some((head, ToDo::GoOn(Box::new(GoesOn { snapshot, of, call: under_way }))));
        for (at, guest) in guests.into_iter().enumerate() {
            let Some(guest) = guest else { continue };
            let (input, to_do) = caller.take_if(|_| at == place).unwrap_or_else(|| (Vec::new(), ToDo::Serve));
            let requests = guest.requests.load(Ordering::Relaxed);
            self.tell(match guest.socket.try_clone() {
                Ok(socket) => Told::Back(Box::new(Return {
                    place: at,
                    socket,
                    is_held: true,
                    requests,
                    input,
                    output: Vec::new(),
                    to_do,
                })),
                // No descriptor is left: the client sees the end.
                Err(_) => Told::Ended(at),
            });
        }
        let mut inbox = lock(&self.inbox);
        inbox.is_closed = true;
        for order in inbox.orders.extract_if(.., |order| matches!(order, Order::Arrive(_))) {
            if let Order::Arrive(arrival) = order {
                self.tell(arrival.back());
            }
        }
    }
}

impl Arrival {
    /// It goes back as it came.
    pub fn back(self) -> Told {
        let place = self.place;
        match Arc::into_inner(self.socket) {
            Some(socket) => Told::Back(Box::new(Return {
                place,
                socket,
                is_held: false,
                requests: self.requests,
                input: Vec::new(),
                output: Vec::new(),
                to_do: ToDo::Serve,
            })),
            None => Told::Ended(place),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
