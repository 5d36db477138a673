//! The layer that puts the cache before a handler, whichever that is: answers from the store what it can,
//! sends on the rest, and stores what comes.
//!
//! ```text
//! request -> stored and good? ---------------------------------> answer
//!         -> somebody fetches it? -> wait for that -------------> answer as it comes
//!         -> fetch it: a task of its own, which goes on while anybody waits
//! ```
//!
//! Nothing is locked while anything is fetched. Who waits is told as soon as the head is there whether the
//! response is one for everybody; where it is not, each asks for its own, and the next ones for the same
//! target do not wait at all.
//!
//! | module | |
//! |---|---|
//! | `flight` | a response on its way, for all who wait for it, on any core |
//! | `fetch` | the task that fetches one |
//! | `handler` | what becomes of a request |
//! | `answer` | answers made of what is stored |
//! | `head` | requests as they are sent on |
//! | `passing` | targets whose responses are not for everybody |

mod answer;
mod fetch;
mod flight;
mod handler;
mod head;
mod passing;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use touchstone_interfaces::handler::{Handler, Interface, Server};

use crate::rules::policy::Policy;
use crate::store::{Object, Purge, PurgeMode, Store};
use flight::Flights;
use passing::Passing;

/// What all routes and cores share: the store, and what is on its way.
pub struct Accelerator {
    /// What is stored.
    pub store: Arc<Store>,
    flights: Flights,
    passing: Passing,
    /// What bodies that are to be stored take while they come.
    fetching_bytes: AtomicU64,
}

impl Accelerator {
    /// One with this store.
    pub fn new(store: Store) -> Accelerator {
        Accelerator {
            store: Arc::new(store),
            flights: Flights::default(),
            passing: Passing::default(),
            fetching_bytes: AtomicU64::new(0),
        }
    }

    /// Takes out what is stored under these keys.
    async fn purge(&self, keys: Vec<Vec<u8>>) {
        self.change_store(move |store| {
            for key in keys {
                store.purge(&Purge::Key(key), PurgeMode::Remove);
            }
        })
        .await;
    }

    /// Takes a response out that is right no longer.
    async fn remove(&self, object: &Arc<Object>) {
        let object = object.clone();
        self.change_store(move |store| store.remove(&object)).await;
    }

    /// What is taken out is written down on disk, where there are copies: on a thread that may wait for that,
    /// which a core may not.
    async fn change_store(&self, change: impl FnOnce(&Store) + Send + 'static) {
        if self.store.tier().is_none() {
            return change(&self.store);
        }
        let store = self.store.clone();
        // Carried out even where nobody waits for it any more.
        let _ = tokio::task::spawn_blocking(move || change(&store)).await;
    }
}

/// A route whose responses are cached.
#[derive(Clone)]
pub struct CachedRoute {
    /// What all routes share.
    pub accelerator: Arc<Accelerator>,
    /// What the configuration says.
    pub policy: Arc<Policy>,
    /// Tells its keys from those of others.
    pub space: u64,
}

/// An interface with the cache before it.
pub struct Accelerated {
    route: CachedRoute,
    inner: Arc<dyn Interface>,
}

impl Accelerated {
    /// The cache before `inner`.
    pub fn new(route: CachedRoute, inner: Arc<dyn Interface>) -> Accelerated {
        Accelerated { route, inner }
    }
}

impl Interface for Accelerated {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn judges_parameters(&self) -> bool {
        self.inner.judges_parameters()
    }

    fn takes_missing_length(&self) -> bool {
        self.inner.takes_missing_length()
    }

    fn takes_escapes(&self) -> bool {
        self.inner.takes_escapes()
    }

    fn begins_early(&self) -> bool {
        self.inner.begins_early()
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        let inner = self.inner.on_core(server.clone());
        Rc::new(handler::AcceleratedOfCore { route: self.route.clone(), inner, server })
    }
}
