//! One stream on one core, and what the streams of a core share: buffers, and the functions of the server.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;
use touchstone_access::{StreamPermit, StreamRefusal};
use touchstone_config::ListenAddress;
use touchstone_handler::handler::Server;
use touchstone_handler::stream_counts::End;
use touchstone_observe::log::access::CoreBuffer;
use touchstone_observe::metrics::CoreCounts;
use touchstone_proxy::Relay;
use touchstone_sites::streams::StreamSetup;
use touchstone_tls::CiphertextBuffer;

/// The largest buffer that any stream requires.
const SCRATCH_BYTES: usize = 1 << 20;

/// What streams use of their core.
pub struct CoreParts {
    /// The functions of the server for origins.
    pub server: Rc<dyn Server>,
    /// Where TLS records are made.
    pub records: Rc<RefCell<CiphertextBuffer>>,
    /// Where TLS handshakes are counted.
    pub counts: Arc<CoreCounts>,
}

/// Memory that all connections of a core use in turns, so that a connection without bytes to pass on needs
/// none.
pub(crate) struct Scratch {
    /// For bytes of clients; made when it is first used.
    pub from_client: RefCell<Vec<u8>>,
    /// For bytes of origins.
    pub from_origin: RefCell<BytesMut>,
}

impl Scratch {
    /// Calls `work` with this many bytes of the buffer for clients.
    pub fn with<R>(&self, bytes: usize, work: impl FnOnce(&mut [u8]) -> R) -> R {
        let buffer = &mut *self.from_client.borrow_mut();
        let bytes = bytes.min(SCRATCH_BYTES);
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        work(&mut buffer[..bytes])
    }
}

/// One stream of a configuration on this core.
pub struct StreamOfCore {
    pub(crate) setup: Arc<StreamSetup>,
    pub(crate) core: Rc<CoreParts>,
    pub(crate) scratch: Rc<Scratch>,
    /// The origins of each target.
    pub(crate) relays: Vec<Relay>,
    log: Option<RefCell<CoreBuffer>>,
    open: Cell<usize>,
}

impl StreamOfCore {
    pub(crate) fn new(setup: Arc<StreamSetup>, core: &Rc<CoreParts>, scratch: &Rc<Scratch>) -> StreamOfCore {
        let relay = |target: &touchstone_sites::streams::StreamTarget| {
            Relay::new(target.group.clone(), core.server.clone())
        };
        StreamOfCore {
            relays: setup.targets.iter().map(relay).collect(),
            log: setup.log_buffer().map(RefCell::new),
            setup,
            core: core.clone(),
            scratch: scratch.clone(),
            open: Cell::new(0),
        }
    }

    /// Admits a client, or returns the end with which it is refused.
    pub(crate) fn admit(&self, client: SocketAddr) -> Result<StreamPermit, End> {
        self.setup.gate.admit(client.ip()).map_err(|refusal| match refusal {
            StreamRefusal::Denied => End::Denied,
            StreamRefusal::Limit => End::Limit,
            StreamRefusal::Rate => End::Rate,
        })
    }

    pub(crate) fn log(&self) -> Option<&RefCell<CoreBuffer>> {
        self.log.as_ref()
    }

    /// Connections and sessions in progress.
    pub(crate) fn open_count(&self) -> usize {
        self.open.get()
    }

    pub(crate) fn count_open(&self, is_begin: bool) {
        let now = self.open.get();
        self.open.set(if is_begin { now + 1 } else { now.saturating_sub(1) });
        match is_begin {
            true => self.setup.counts.open.add(1),
            false => self.setup.counts.open.take(1),
        }
    }
}

/// Finds a stream of the present configuration.
pub(crate) trait FindStream {
    /// The stream on this address, as configured.
    fn find(&self, configured: ListenAddress, is_udp: bool) -> Option<Rc<StreamOfCore>>;
}
