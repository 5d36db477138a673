//! The layer that adds the cache to a handler. It answers requests from the store if possible, passes on the
//! others, and stores the responses.
//!
//! ```text
//! request -> stored and usable? --------------------------------> answer
//!         -> is it being fetched? -> wait for that -------------> answer as it arrives
//!         -> fetch it: a separate task, which continues while a client waits
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
//! | `compose` | pages of parts, before the cache |
//! | `head` | requests to the origin |
//! | `hit_for_miss` | targets whose responses are not for all clients |

mod answer;
mod compose;
mod fetch;
mod handler;
mod head;
mod hit_for_miss;
mod of_core;
mod shared_fetch;

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use touchstone_handler::handler::{Handler, Interface, InterfaceLayer, Server};

use crate::rules::groups::of_response;
use crate::rules::key::origin;
use crate::rules::policy::Policy;
use crate::store::{Object, PurgeMode, PurgeScope, Store, hash_of};
pub use compose::ComposedInterface;
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
    /// Creates an accelerator with this store.
    pub fn new(store: Store) -> Accelerator {
        Accelerator {
            store: Arc::new(store),
            shared_fetches: SharedFetches::default(),
            hit_for_miss: HitForMiss::default(),
            fetching_bytes: AtomicU64::new(0),
        }
    }

    /// Removes the responses that are stored under these keys, of which there is at least one; those that
    /// share a group with one of them; and those of these groups of the same origin (RFC 9875).
    async fn invalidate(&self, keys: Vec<Vec<u8>>, groups: Vec<Vec<u8>>) {
        let Some(origin) = keys.first().map(|key| origin(key).to_vec()) else { return };
        let of_memory = keys.iter().flat_map(|key| self.store.under(hash_of(key), key));
        let mut groups: HashSet<Vec<u8>> =
            of_memory.flat_map(|object| of_response(object.fields())).chain(groups).collect();
        let looks_at_all = !groups.is_empty();
        let purge = move |store: &Store| {
            for key in keys {
                let in_memory = store.under(hash_of(&key), &key).len();
                if let Some(tier) = store.tier().filter(|tier| tier.held(hash_of(&key)) > in_memory) {
                    let on_disk = tier.load(hash_of(&key), &key);
                    groups.extend(on_disk.iter().flat_map(|object| of_response(object.fields())));
                }
                store.purge(&PurgeScope::Key(key), PurgeMode::Remove);
            }
            // Groups are not followed further: invalidation does not extend from group to group (RFC 9875
            // section 2.2.1).
            for name in groups {
                store.purge(&PurgeScope::Group { origin: origin.clone(), name }, PurgeMode::Remove);
            }
        };
        self.change_store(looks_at_all, purge).await;
    }

    /// Removes a response that is no longer valid.
    async fn remove(&self, object: &Arc<Object>) {
        let object = object.clone();
        self.change_store(false, move |store| store.remove(&object)).await;
    }

    /// Changes the store. If there are copies on disk, or the change examines all stored responses, this runs
    /// on a thread that may block, because a core must not wait.
    async fn change_store(&self, looks_at_all: bool, change: impl FnOnce(&Store) + Send + 'static) {
        if self.store.tier().is_none() && !looks_at_all {
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
    /// The state that all routes share.
    pub accelerator: Arc<Accelerator>,
    /// The policy of its configuration.
    pub policy: Arc<Policy>,
    /// Distinguishes its keys from those of other routes.
    pub space: u64,
}

/// An interface with the cache in front of it.
pub struct AcceleratedInterface {
    route: CachedRoute,
    inner: Arc<dyn Interface>,
}

impl AcceleratedInterface {
    /// Puts the cache in front of `inner`.
    pub fn new(route: CachedRoute, inner: Arc<dyn Interface>) -> AcceleratedInterface {
        AcceleratedInterface { route, inner }
    }
}

impl InterfaceLayer for AcceleratedInterface {
    fn inner(&self) -> &dyn Interface {
        &*self.inner
    }

    fn around(&self, inner: Rc<dyn Handler>, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        Rc::new(of_core::AcceleratedOfCore { route: self.route.clone(), inner, server })
    }
}
