//! Hosts of sites that are addresses.

use std::net::IpAddr;

/// The address that a host of a site is; `None` if it is a name.
pub fn host_address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}
