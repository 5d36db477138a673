//! The location of clients. A configuration sets the source when it is applied; only variables of locations
//! use it.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

/// The source of the locations of addresses.
pub trait AddressLocator: Send + Sync {
    /// The country of an address, two letters.
    fn country(&self, address: IpAddr) -> Option<[u8; 2]>;

    /// The number of its autonomous system.
    fn system(&self, address: IpAddr) -> Option<u32>;
}

static SOURCE: RwLock<Option<Arc<dyn AddressLocator>>> = RwLock::new(None);

/// Sets the source; `None`: there is none.
pub fn set_source(source: Option<Arc<dyn AddressLocator>>) {
    *SOURCE.write().unwrap_or_else(PoisonError::into_inner) = source;
}

/// The country of this address.
pub fn country(address: IpAddr) -> Option<[u8; 2]> {
    source()?.country(address)
}

/// The number of the autonomous system of this address.
pub fn system(address: IpAddr) -> Option<u32> {
    source()?.system(address)
}

fn source() -> Option<Arc<dyn AddressLocator>> {
    SOURCE.read().unwrap_or_else(PoisonError::into_inner).clone()
}
