//! The streams of a core: those of the present configuration, and those of former ones that still have
//! connections.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use touchstone_config::ListenAddress;
use touchstone_sites::streams::StreamSetup;

use crate::connection;
use crate::datagrams::DatagramListener;
use crate::record::Record;
use crate::stream_of_core::{CoreParts, FindStream, Scratch, StreamOfCore};

/// The streams of a core.
pub struct CoreStreams {
    core: Rc<CoreParts>,
    scratch: Rc<Scratch>,
    /// Those of the present configuration.
    current: RefCell<Vec<Rc<StreamOfCore>>>,
    /// Those of former ones, as long as they have connections.
    former: RefCell<Vec<Weak<StreamOfCore>>>,
    listeners: RefCell<Vec<Rc<DatagramListener>>>,
}

impl CoreStreams {
    /// A core without streams.
    pub fn new(core: CoreParts) -> Rc<CoreStreams> {
        Rc::new(CoreStreams {
            core: Rc::new(core),
            scratch: Rc::new(Scratch { from_client: RefCell::default(), from_origin: RefCell::default() }),
            current: RefCell::default(),
            former: RefCell::default(),
            listeners: RefCell::default(),
        })
    }

    /// Uses the streams of another configuration for new connections and datagrams. `sockets` are new ones
    /// for datagrams, by their configured addresses; those that no stream names any more are closed.
    pub fn apply(
        self: &Rc<Self>,
        setups: &[Arc<StreamSetup>],
        sockets: Vec<(SocketAddr, UdpSocket)>,
    ) -> io::Result<()> {
        let streams = setups.iter().map(|setup| StreamOfCore::new(setup.clone(), &self.core, &self.scratch));
        let before = self.current.replace(streams.map(Rc::new).collect());
        let former = &mut *self.former.borrow_mut();
        former.retain(|stream| stream.strong_count() > 0);
        former.extend(before.iter().map(Rc::downgrade));
        let listeners = &mut *self.listeners.borrow_mut();
        listeners.retain(|listener| {
            let is_wanted = self.find(listener.configured.into(), true).is_some();
            if !is_wanted {
                listener.stop();
            }
            is_wanted
        });
        for (configured, socket) in sockets {
            let listener = DatagramListener::new(configured, socket)?;
            let this: Rc<dyn FindStream> = self.clone();
            tokio::task::spawn_local(listener.clone().run(Rc::downgrade(&this)));
            listeners.push(listener);
        }
        Ok(())
    }

    /// The stream whose connections are accepted on this address, as configured.
    pub fn of_listener(&self, configured: ListenAddress) -> Option<Rc<StreamOfCore>> {
        self.find(configured, false)
    }

    /// Passes the lines of logs on to their writers.
    pub fn tick(&self) {
        let flush = |stream: &StreamOfCore| stream.log().iter().for_each(|log| log.borrow_mut().flush());
        self.current.borrow().iter().for_each(|stream| flush(stream));
        self.former.borrow().iter().filter_map(Weak::upgrade).for_each(|stream| flush(&stream));
    }

    /// Once a second: certificates may have been renewed.
    pub fn refresh(&self, note: impl Fn(Vec<touchstone_tls::Notice>)) {
        let current = self.current.borrow();
        current.iter().filter_map(|stream| stream.setup.endpoint.as_ref()).for_each(|e| note(e.refresh()));
    }

    /// Receives no more datagrams; the sessions continue.
    pub fn stop(&self) {
        self.listeners.borrow().iter().for_each(|listener| listener.stop());
    }

    /// The connections and sessions that may continue for this long after a stop or an upgrade has begun.
    pub fn open_after(&self, elapsed: Duration, limit_of_server: Duration) -> usize {
        let former = self.former.borrow();
        let current = self.current.borrow();
        let all = current.iter().cloned().chain(former.iter().filter_map(Weak::upgrade));
        let open = |stream: Rc<StreamOfCore>| {
            let may_continue = elapsed < stream.setup.drain_timeout(limit_of_server);
            if may_continue { stream.open_count() } else { 0 }
        };
        all.map(open).sum()
    }
}

/// Passes on a connection that was accepted for a stream.
pub fn accept(stream: &Rc<StreamOfCore>, descriptor: OwnedFd, peer: SocketAddr) {
    let record = Record::begin(stream, peer);
    let permit = match stream.setup.proxies.contains(peer.ip()) {
        true => None,
        false => match stream.admit(peer) {
            Ok(permit) => Some(permit),
            Err(end) => return record.end(end),
        },
    };
    tokio::task::spawn_local(connection::serve(stream.clone(), record, descriptor, permit));
}

impl FindStream for CoreStreams {
    fn find(&self, configured: ListenAddress, is_udp: bool) -> Option<Rc<StreamOfCore>> {
        let current = self.current.borrow();
        let is_it = |stream: &&Rc<StreamOfCore>| {
            stream.setup.config.is_udp == is_udp && stream.setup.config.listen.contains(&configured)
        };
        current.iter().find(is_it).cloned()
    }
}
