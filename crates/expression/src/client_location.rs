//! Where clients are. What knows it is set when a configuration is taken up; it is asked only where one of
//! the variables of places is used.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

/// What knows where an address is.
pub trait Locates: Send + Sync {
    /// The country of an address, two letters.
    fn country(&self, address: IpAddr) -> Option<[u8; 2]>;

    /// The number of its autonomous system.
    fn system(&self, address: IpAddr) -> Option<u32>;
}

static SOURCE: RwLock<Option<Arc<dyn Locates>>> = RwLock::new(None);

/// Sets what knows it; `None`: nothing does.
pub fn set_source(source: Option<Arc<dyn Locates>>) {
    *SOURCE.write().unwrap_or_else(PoisonError::into_inner) = source;
}

/// The country of a client whose address this text is.
pub fn country(client: &str) -> Option<[u8; 2]> {
    source()?.country(client.parse().ok()?)
}

/// The number of its autonomous system.
pub fn system(client: &str) -> Option<u32> {
    source()?.system(client.parse().ok()?)
}

/// The country of this address.
pub fn country_of(address: IpAddr) -> Option<[u8; 2]> {
    source()?.country(address)
}

/// The number of its autonomous system.
pub fn system_of(address: IpAddr) -> Option<u32> {
    source()?.system(address)
}

fn source() -> Option<Arc<dyn Locates>> {
    SOURCE.read().unwrap_or_else(PoisonError::into_inner).clone()
}
