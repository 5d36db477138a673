//! Networks: an address and the length of its prefix (CIDR: RFC 4632, RFC 4291 section 2.3), and look-ups in
//! many networks.
//!
//! An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) is the IPv4 address everywhere: a client cannot evade a
//! rule for one with the other. Otherwise IPv4 and IPv6 are separate; `::/0` contains no IPv4 address.
//!
//! The clients of unix sockets are a network of their own, written `unix:`. No other network contains them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use touchstone_http::request_view::{UNIX_CLIENT, UNIX_CLIENT_NAME};

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    first: IpAddr,
    length: u8,
}

impl Network {
    /// The network of this address and length; `None` if the length is too long or the address has bits
    /// beyond it.
    pub fn new(address: IpAddr, length: u8) -> Option<Network> {
        let network = match (address, address.to_canonical()) {
            // The prefix of a mapped address has 96 bits.
            (IpAddr::V6(_), IpAddr::V4(inner)) if length >= 96 => {
                Network { first: inner.into(), length: length - 96 }
            }
            _ => Network { first: address, length },
        };
        let fits = length <= address_bits(address) && bits(network.first) & network.host_bits() == 0;
        fits.then_some(network)
    }

    /// The network of this length that contains the address; `None` if the length is too long.
    pub fn around(address: IpAddr, length: u8) -> Option<Network> {
        let network = Network { first: address, length };
        let first = from_bits(bits(address) & !network.host_bits(), address.is_ipv4());
        Network::new(first, length)
    }

    /// The network of one address.
    pub fn single(address: IpAddr) -> Network {
        let first = address.to_canonical();
        Network { first, length: address_bits(first) }
    }

    /// Whether the network contains the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        if address == UNIX_CLIENT {
            return self.is_unix();
        }
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && bits(address) & !self.host_bits() == bits(self.first)
    }

    /// Whether this is the network of the clients of unix sockets.
    fn is_unix(&self) -> bool {
        *self == Network::single(UNIX_CLIENT)
    }

    /// A mask of the bits after the prefix.
    fn host_bits(&self) -> u128 {
        let free = u32::from(address_bits(self.first).saturating_sub(self.length));
        1u128.checked_shl(free).map_or(u128::MAX, |end| end - 1)
    }

    fn last(&self) -> u128 {
        bits(self.first) | self.host_bits()
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        if text == UNIX_CLIENT_NAME {
            return Ok(Network::single(UNIX_CLIENT));
        }
        let (address_text, length_text) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address_text.parse().map_err(|_| {
            format!(
                "{text:?} is not an address or network; write it as \"192.0.2.1\", \"192.0.2.0/24\", \
                 \"2001:db8::1\" or \"2001:db8::/32\""
            )
        })?;
        if address == UNIX_CLIENT && matches!(length_text, None | Some("128")) {
            return Err(format!(
                "{text:?} is not the address of a client; the clients of unix sockets are \"unix:\""
            ));
        }
        let Some(length_text) = length_text else { return Ok(Network::single(address)) };
        let most = address_bits(address);
        let is_number = !length_text.is_empty()
            && length_text.len() <= 3
            && length_text.bytes().all(|byte| byte.is_ascii_digit());
        let length = length_text.parse::<u8>().ok().filter(|length| is_number && *length <= most);
        let length = length.ok_or_else(|| {
            format!("{text:?} must end with a number of bits from 0 to {most} after its '/'")
        })?;
        Network::new(address, length).ok_or_else(|| {
            let network = Network { first: address, length };
            let first = from_bits(bits(address) & !network.host_bits(), address.is_ipv4());
            format!(
                "{text:?} has bits set beyond the first {length}; write \"{first}/{length}\", or \
                \"{address}\" for the one address"
            )
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unix() {
            formatter.write_str(UNIX_CLIENT_NAME)
        } else if self.length == address_bits(self.first) {
            write!(formatter, "{}", self.first)
        } else {
            write!(formatter, "{}/{}", self.first, self.length)
        }
    }
}

/// A set of networks.
#[derive(Debug, Clone, Default)]
pub struct NetworkSet {
    map: Option<NetworkMap>,
}

impl NetworkSet {
    /// The set of the addresses in these networks, which may overlap.
    pub fn new(networks: &[Network]) -> NetworkSet {
        let map = (!networks.is_empty())
            .then(|| NetworkMap::new(networks.iter().map(|network| (*network, true)), false));
        NetworkSet { map }
    }

    /// Whether one of the networks contains the address.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.map.as_ref().is_some_and(|map| map.get(address))
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.map.is_none()
    }
}

/// A map from addresses to answers, such as yes and no, by the longest network that contains the address.
///
/// Two networks are nested or disjoint. So they divide each address family into ranges with one answer each,
/// computed once; a look-up is one binary search.
#[derive(Debug, Clone)]
pub struct NetworkMap<A = bool> {
    v4: Box<[Boundary<A>]>,
    v6: Box<[Boundary<A>]>,
    unix: A,
    otherwise: A,
}

/// The start of a range, and its answer. The range ends before the next one.
#[derive(Debug, Clone, Copy)]
struct Boundary<A> {
    from: u128,
    answer: A,
}

impl<A: Copy + PartialEq> NetworkMap<A> {
    /// The map with these answers, and `otherwise` for addresses in none of the networks. If a network is
    /// given twice, the later one applies.
    pub fn new(entries: impl IntoIterator<Item = (Network, A)>, otherwise: A) -> NetworkMap<A> {
        let (unix, internet): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(network, _)| network.is_unix());
        let unix = unix.last().map_or(otherwise, |(_, answer)| *answer);
        let (v4, v6): (Vec<_>, Vec<_>) =
            internet.into_iter().partition(|(network, _)| network.first.is_ipv4());
        NetworkMap { v4: boundaries(v4, otherwise), v6: boundaries(v6, otherwise), unix, otherwise }
    }

    /// The answer for an address.
    #[inline]
    pub fn get(&self, address: IpAddr) -> A {
        if address == UNIX_CLIENT {
            return self.unix;
        }
        let address = address.to_canonical();
        let boundaries = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        let wanted = bits(address);
        // The first boundary is at 0, so there is always one before.
        let after = boundaries.partition_point(|boundary| boundary.from <= wanted);
        boundaries.get(after.wrapping_sub(1)).map_or(self.otherwise, |boundary| boundary.answer)
    }
}

fn boundaries<A: Copy + PartialEq>(mut entries: Vec<(Network, A)>, otherwise: A) -> Box<[Boundary<A>]> {
    // An outer network is before those inside it.
    entries.sort_by_key(|(network, _)| (bits(network.first), network.length));
    let mut boundaries = vec![Boundary { from: 0, answer: otherwise }];
    // The networks that contain the present position of the sweep, from the outermost to the innermost.
    let mut open: Vec<(u128, A)> = Vec::new();
    for (network, answer) in entries {
        let first = bits(network.first);
        close(&mut open, &mut boundaries, otherwise, |last| last < first);
        add(&mut boundaries, first, answer);
        open.push((network.last(), answer));
    }
    close(&mut open, &mut boundaries, otherwise, |_| true);
    boundaries.into_boxed_slice()
}

/// Closes the open networks that end before the present position; after each, the one around it continues.
fn close<A: Copy + PartialEq>(
    open: &mut Vec<(u128, A)>,
    boundaries: &mut Vec<Boundary<A>>,
    otherwise: A,
    ended: impl Fn(u128) -> bool,
) {
    while let Some((last, _)) = open.pop_if(|(last, _)| ended(*last)) {
        let answer = open.last().map_or(otherwise, |(_, answer)| *answer);
        if let Some(behind) = last.checked_add(1) {
            add(boundaries, behind, answer);
        }
    }
}

fn add<A: Copy + PartialEq>(boundaries: &mut Vec<Boundary<A>>, from: u128, answer: A) {
    // A later entry with the same start is more specific, or cancels an end.
    while boundaries.pop_if(|boundary| boundary.from == from).is_some() {}
    if boundaries.last().is_none_or(|before| before.answer != answer) {
        boundaries.push(Boundary { from, answer });
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn from_bits(bits: u128, is_v4: bool) -> IpAddr {
    match u32::try_from(bits) {
        Ok(short) if is_v4 => IpAddr::V4(short.into()),
        _ => IpAddr::V6(bits.into()),
    }
}

fn address_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| network(text)).collect()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Addresses and networks with few different bits, so that they match often.
    fn any_address() -> impl Strategy<Value = IpAddr> {
        let near = |bits: u8| (bits & 3) << 6 | bits & 3;
        prop_oneof![
            any::<[u8; 4]>().prop_map(move |bytes| IpAddr::V4(Ipv4Addr::from(bytes.map(near)))),
            any::<[u8; 16]>().prop_map(move |bytes| IpAddr::V6(Ipv6Addr::from(bytes.map(near)))),
            any::<[u8; 4]>()
                .prop_map(move |bytes| IpAddr::V6(Ipv4Addr::from(bytes.map(near)).to_ipv6_mapped())),
            any::<u128>().prop_map(|bits| IpAddr::V6(bits.into())),
        ]
    }

    fn any_network() -> impl Strategy<Value = Network> {
        (any_address(), 0u8..=128).prop_map(|(address, length)| {
            let address = address.to_canonical();
            let length = length.min(address_bits(address));
            let host_bits = Network { first: address, length }.host_bits();
            Network::new(from_bits(bits(address) & !host_bits, address.is_ipv4()), length).unwrap()
        })
    }

    #[test]
    fn networks_read() {
        for (text, shown) in [
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/32", "192.0.2.7"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("::1", "::1"),
            ("::/0", "::/0"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
            ("::ffff:0.0.0.0/96", "0.0.0.0/0"),
            ("unix:", "unix:"),
        ] {
            assert_eq!(network(text).to_string(), shown, "{text}");
        }
    }

    #[test]
    fn networks_refused() {
        let form = "is not an address or network; write it as \"192.0.2.1\", \"192.0.2.0/24\", \
                    \"2001:db8::1\" or \"2001:db8::/32\"";
        for (text, message) in [
            ("", form),
            ("all", form),
            ("192.0.2", form),
            ("192.0.2.01", form),
            ("192.0.2.0-9", form),
            ("10.*", form),
            (" 10.0.0.1", form),
            ("fe80::1%eth0", form),
            ("/8", form),
            ("10.0.0.0/33", "must end with a number of bits from 0 to 32 after its '/'"),
            ("10.0.0.0/", "must end with a number of bits from 0 to 32 after its '/'"),
            ("10.0.0.0/+8", "must end with a number of bits from 0 to 32 after its '/'"),
            ("10.0.0.0/255.0.0.0", "must end with a number of bits from 0 to 32 after its '/'"),
            ("::/129", "must end with a number of bits from 0 to 128 after its '/'"),
            (
                "10.1.2.3/8",
                "has bits set beyond the first 8; write \"10.0.0.0/8\", or \"10.1.2.3\" for the one address",
            ),
            ("::", "is not the address of a client; the clients of unix sockets are \"unix:\""),
            ("::1/0", "has bits set beyond the first 0; write \"::/0\", or \"::1\" for the one address"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap_err(), format!("{text:?} {message}"));
        }
    }

    #[test]
    fn sets() {
        let set = NetworkSet::new(&networks(&["10.0.0.0/8", "10.1.0.0/16", "::1", "2001:db8::/32"]));
        for (text, inside) in [
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("9.255.255.255", false),
            ("::ffff:10.0.0.1", true),
            ("::1", true),
            ("::2", false),
            ("::", false),
            ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", true),
            ("2001:db9::", false),
            // Its last 32 bits are those of an address of 10.0.0.0/8.
            ("::a00:1", false),
        ] {
            assert_eq!(set.contains(address(text)), inside, "{text}");
        }
        assert!(NetworkSet::new(&[]).is_empty() && !NetworkSet::new(&[]).contains(address("::1")));
        let everything = NetworkSet::new(&networks(&["0.0.0.0/0", "::/0"]));
        assert!(everything.contains(address("255.255.255.255")));
        assert!(everything.contains(IpAddr::V6(u128::MAX.into())));
        assert!(!NetworkSet::new(&networks(&["::/0"])).contains(address("::ffff:1.2.3.4")));
        assert!(!everything.contains(UNIX_CLIENT));
        let unix = NetworkSet::new(&networks(&["unix:"]));
        assert!(unix.contains(UNIX_CLIENT) && !unix.contains(address("::1")));
    }

    /// The same as the map, computed in a slow and simple way.
    fn plain(entries: &[(Network, bool)], otherwise: bool, address: IpAddr) -> bool {
        let holding = entries.iter().enumerate().filter(|(_, (network, _))| network.contains(address));
        holding
            .max_by_key(|(position, (network, _))| (network.length, *position))
            .map_or(otherwise, |(_, (_, answer))| *answer)
    }

    proptest! {
        #[test]
        fn the_longest_network_answers(
            entries in prop::collection::vec((any_network(), any::<bool>()), 0..12),
            otherwise: bool,
            addresses in prop::collection::vec(any_address(), 20),
        ) {
            let map = NetworkMap::new(entries.iter().copied(), otherwise);
            let edges = entries.iter().flat_map(|(network, _)| {
                let is_v4 = network.first.is_ipv4();
                let before = bits(network.first).saturating_sub(1);
                let most = if is_v4 { u128::from(u32::MAX) } else { u128::MAX };
                [before, bits(network.first), network.last(), network.last().saturating_add(1).min(most)]
                    .map(|bits| from_bits(bits, is_v4))
            });
            for address in addresses.iter().copied().chain(edges) {
                prop_assert_eq!(map.get(address), plain(&entries, otherwise, address), "{}", address);
            }
        }

        #[test]
        fn what_is_shown_reads_back(network in any_network()) {
            prop_assert_eq!(network.to_string().parse(), Ok(network));
        }

        #[test]
        fn no_text_panics(text in "[0-9a-f.:/]{0,24}|\\PC{0,12}") {
            let _ = text.parse::<Network>();
        }
    }
}
