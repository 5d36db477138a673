//! The layer that puts the cache before any handler. It answers requests from the store if possible, passes
//! on the others, and stores the responses.
//!
//! ```text
//! request -> stored and usable? --------------------------------> answer
//!         -> is it being fetched? -> wait for that -------------> answer as it arrives
//!         -> fetch it: a separate task, which goes on while a client waits
//! ```
//!
//! No lock is held during a fetch. As soon as the head has arrived, the requests that wait know whether the
//! response is for all of them. If it is not, each of them is sent to the origin, and later requests for the
//! same target do not wait.
//!
//! | module | |
//! |---|---|
//! | `shared_fetch` | a response that is being fetched, for all requests that wait for it, on any core |
//! | `fetch` | the task that fetches a response |
//! | `of_core` | the cache before the handler of one core |
//! | `handler` | answers a request |
//! | `answer` | answers that are made of stored responses |
//! | `head` | requests to the origin |
//! | `hit_for_miss` | targets whose responses are not for all clients |

mod answer;
mod fetch;
mod handler;
mod head;
mod hit_for_miss;
mod of_core;
mod shared_fetch;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use touchstone_handler::handler::{Handler, Interface, Server};

use crate::rules::policy::Policy;
use crate::store::{Object, Purge, PurgeMode, Store};
use hit_for_miss::HitForMiss;
use shared_fetch::SharedFetches;

/// The state that all routes and cores share: the store, and the responses that are being fetched.
pub struct Accelerator {
    /// The stored responses.
    pub store: Arc<Store>,
    shared_fetches: SharedFetches,
    hit_for_miss: HitForMiss,
    /// The bytes of bodies to be stored that are arriving.
    fetching_bytes: AtomicU64,
}

impl Accelerator {
    /// Makes an accelerator with this store.
    pub fn new(store: Store) -> Accelerator {
        Accelerator {
            store: Arc::new(store),
            shared_fetches: SharedFetches::default(),
            hit_for_miss: HitForMiss::default(),
            fetching_bytes: AtomicU64::new(0),
        }
    }

    /// Removes the responses that are stored under these keys.
    async fn purge(&self, keys: Vec<Vec<u8>>) {
        self.change_store(move |store| {
            for key in keys {
                store.purge(&Purge::Key(key), PurgeMode::Remove);
            }
        })
        .await;
    }

    /// Removes a response that is not valid any more.
    async fn remove(&self, object: &Arc<Object>) {
        let object = object.clone();
        self.change_store(move |store| store.remove(&object)).await;
    }

    /// Changes the store. If there are copies on disk, this runs on a thread that may wait for the disk,
    /// because a core must not wait.
    async fn change_store(&self, change: impl FnOnce(&Store) + Send + 'static) {
        if self.store.tier().is_none() {
            return change(&self.store);
        }
        let store = self.store.clone();
        // The change is made even if this future is dropped.
        let _ = tokio::task::spawn_blocking(move || change(&store)).await;
    }
}

/// A route whose responses are cached.
#[derive(Clone)]
pub struct CachedRoute {
    /// What all routes share.
    pub accelerator: Arc<Accelerator>,
    /// The policy of its configuration.
    pub policy: Arc<Policy>,
    /// Distinguishes its keys from those of other routes.
    pub space: u64,
}

/// An interface with the cache before it.
pub struct Accelerated {
    route: CachedRoute,
    inner: Arc<dyn Interface>,
}

impl Accelerated {
    /// Puts the cache before `inner`.
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
        Rc::new(of_core::AcceleratedOfCore { route: self.route.clone(), inner, server })
    }
}
