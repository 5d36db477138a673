//! Addresses of `listen`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// `ADDRESS:PORT` or `unix:PATH` of a `listen`.
pub fn address(text: &str) -> Option<String> {
    match text.strip_prefix("unix:") {
        Some("") => None,
        Some(_) => Some(text.to_string()),
        None => internet_address(text).map(|address| address.to_string()),
    }
}

fn internet_address(text: &str) -> Option<SocketAddr> {
    let text = text.replace("localhost", "127.0.0.1");
    let text = text.strip_prefix("*:").unwrap_or(&text);
    if let Ok(port) = text.parse::<u16>() {
        return Some((Ipv4Addr::UNSPECIFIED, port).into());
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let of_ip = || bare.parse::<IpAddr>().ok().map(|ip| (ip, 80).into());
    let of_ipv6_port = || {
        let port = text.strip_prefix("[::]:")?.parse().ok()?;
        Some((Ipv6Addr::UNSPECIFIED, port).into())
    };
    text.parse().ok().or_else(of_ip).or_else(of_ipv6_port)
}
