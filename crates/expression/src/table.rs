//! The entries of a map besides values: networks of addresses, and shares of all texts.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::murmur;
use crate::network::{Network, NetworkMap};
use crate::text::Text;

/// All shares together: hundredths of a percent.
const WHOLE: u64 = 10_000;

/// A text for each network; the longest one that contains an address counts.
pub struct Networks {
    /// The entries, until the map is complete.
    added: Vec<(Network, u32)>,
    map: NetworkMap<u32>,
    texts: Vec<Text>,
    /// The texts by how they are written: many networks have the same.
    numbers: HashMap<String, u32>,
}

impl Networks {
    /// No networks yet.
    pub fn new() -> Networks {
        Networks {
            added: Vec::new(),
            map: NetworkMap::new([], NO_TEXT),
            texts: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    /// Adds a network, before those that are added later: of two equal ones the later one counts. `read`
    /// reads the text the first time that it is used.
    pub fn add(
        &mut self,
        network: Network,
        value: &str,
        read: impl FnOnce(&str) -> Result<Text, String>,
    ) -> Result<(), String> {
        let number = match self.numbers.get(value) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.texts.len()).unwrap_or(NO_TEXT);
                self.texts.push(read(value)?);
                self.numbers.insert(value.to_string(), number);
                number
            }
        };
        self.added.push((network, number));
        Ok(())
    }

    /// Takes back a network that was added before; false: it was not.
    pub fn remove(&mut self, network: Network) -> bool {
        let before = self.added.len();
        self.added.retain(|(added, _)| *added != network);
        self.added.len() < before
    }

    /// How many networks were added.
    pub fn count(&self) -> usize {
        self.added.len()
    }

    /// Makes the table of what was added.
    pub fn finish(&mut self) {
        self.map = NetworkMap::new(std::mem::take(&mut self.added), NO_TEXT);
        self.numbers = HashMap::new();
    }

    /// The text of the longest network that contains the address.
    pub fn find(&self, key: &[u8]) -> Option<&Text> {
        let address = address_of(key)?;
        self.texts.get(self.map.get(address) as usize)
    }

    /// All texts.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.texts.iter()
    }
}

/// Marks addresses in no network.
const NO_TEXT: u32 = u32::MAX;

/// The address in a text, or the name of the clients of unix sockets.
fn address_of(key: &[u8]) -> Option<IpAddr> {
    use touchstone_http::request_view::{UNIX_CLIENT, UNIX_CLIENT_NAME};
    let text = std::str::from_utf8(key).ok()?;
    match text == UNIX_CLIENT_NAME {
        true => Some(UNIX_CLIENT),
        false => text.parse().ok().filter(|address| *address != UNIX_CLIENT),
    }
}

/// A text for each share of all values, by a hash of the value. The same value always has the same text.
#[derive(Default)]
pub struct Shares {
    /// The end of each share among all hashes, and its text; `None`: the rest.
    shares: Vec<(Option<u32>, Text)>,
    hundredths: u64,
}

impl Shares {
    /// Adds a share in hundredths of a percent; `None`: all other values.
    pub fn add(&mut self, hundredths: Option<u32>, text: Text) -> Result<(), String> {
        if self.shares.last().is_some_and(|(end, _)| end.is_none()) {
            return Err("no share is left after the share '*'".to_string());
        }
        let Some(hundredths) = hundredths else {
            self.shares.push((None, text));
            return Ok(());
        };
        self.hundredths += u64::from(hundredths);
        if self.hundredths > WHOLE {
            return Err("the shares are more than 100% together".to_string());
        }
        // Rounded for each share, as nginx does: the same values have the same texts.
        let before = self.shares.last().and_then(|(end, _)| *end).unwrap_or(0);
        let part = u64::from(hundredths) * u64::from(u32::MAX) / WHOLE;
        self.shares.push((Some(before.saturating_add(u32::try_from(part).unwrap_or(u32::MAX))), text));
        Ok(())
    }

    /// The number of shares.
    pub fn count(&self) -> usize {
        self.shares.len()
    }

    /// The text of the share that the value is in.
    pub fn find(&self, key: &[u8]) -> Option<&Text> {
        let hash = murmur::hash(key);
        self.shares.iter().find(|(end, _)| end.is_none_or(|end| hash < end)).map(|(_, text)| text)
    }

    /// All texts.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.shares.iter().map(|(_, text)| text)
    }
}

/// Reads `12.5%` as hundredths of a percent, and `*` as the rest.
pub fn read_share(text: &str) -> Result<Option<u32>, String> {
    if text == "*" {
        return Ok(None);
    }
    let problem =
        || format!("{text:?} is not a share; write it as \"50%\", \"0.25%\", or \"*\" for the rest");
    let number = text.strip_suffix('%').ok_or_else(problem)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 3 || part.len() > 2 || !are_digits(whole) || !are_digits(part) {
        return Err(problem());
    }
    if number.ends_with('.') {
        return Err(problem());
    }
    let number: u32 = format!("{whole}{part:0<2}").parse().map_err(|_| problem())?;
    match number {
        1..=10_000 => Ok(Some(number)),
        _ => Err(format!("{text:?} is not a share from 0.01% to 100%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::AvailableFrom;
    use proptest::prelude::*;

    fn text(written: &str) -> Text {
        Text::read(written, AvailableFrom::Request).unwrap()
    }

    #[test]
    fn shares_are_read() {
        for (written, expected) in
            [("*", None), ("50%", Some(5000)), ("0.5%", Some(50)), ("0.05%", Some(5)), ("100%", Some(10_000))]
        {
            assert_eq!(read_share(written), Ok(expected), "{written}");
        }
        for wrong in ["", "%", "50", "0%", "101%", "1.%", "1.234%", "-1%", " 1%", "1e1%", ".5%"] {
            assert!(read_share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_are_not_more_than_the_whole() {
        let mut shares = Shares::default();
        shares.add(Some(9999), text("a")).unwrap();
        assert!(shares.add(Some(2), text("b")).unwrap_err().contains("more than 100%"));
        let mut shares = Shares::default();
        shares.add(None, text("a")).unwrap();
        assert!(shares.add(Some(1), text("b")).unwrap_err().contains("no share is left"));
    }

    #[test]
    fn a_value_has_one_share_and_all_of_them_are_divided() {
        let mut shares = Shares::default();
        for (hundredths, value) in [(Some(5000), "half"), (Some(2500), "quarter"), (None, "rest")] {
            shares.add(hundredths, text(value)).unwrap();
        }
        let mut counts = HashMap::new();
        for number in 0..20_000u32 {
            let key = format!("10.0.{}.{}", number >> 8, number & 255);
            let found = shares.find(key.as_bytes()).unwrap().source().to_string();
            assert_eq!(shares.find(key.as_bytes()).unwrap().source(), found);
            *counts.entry(found).or_insert(0) += 1;
        }
        for (value, about) in [("half", 10_000), ("quarter", 5000), ("rest", 5000)] {
            assert!(i32::abs(counts[value] - about) < 500, "{counts:?}");
        }
    }

    #[test]
    fn the_longest_network_counts_and_equal_texts_are_kept_once() {
        let mut networks = Networks::new();
        let add = |networks: &mut Networks, network: &str, value: &str| {
            networks.add(network.parse().unwrap(), value, |value| Ok(text(value))).unwrap();
        };
        add(&mut networks, "10.0.0.0/8", "a");
        add(&mut networks, "10.1.0.0/16", "b");
        add(&mut networks, "10.2.0.0/16", "a");
        add(&mut networks, "10.3.0.0/16", "c");
        add(&mut networks, "unix:", "socket");
        assert!(networks.remove("10.3.0.0/16".parse().unwrap()));
        assert!(!networks.remove("10.4.0.0/16".parse().unwrap()));
        networks.finish();
        assert_eq!(networks.texts().count(), 4);
        let found = |key: &str| networks.find(key.as_bytes()).map(Text::source);
        for (key, expected) in [
            ("10.9.9.9", Some("a")),
            ("10.1.2.3", Some("b")),
            ("::ffff:10.1.2.3", Some("b")),
            ("10.3.0.1", Some("a")),
            ("11.0.0.1", None),
            ("unix:", Some("socket")),
            ("::", None),
            ("no address", None),
            ("", None),
        ] {
            assert_eq!(found(key), expected, "{key}");
        }
    }

    proptest! {
        #[test]
        fn any_text_of_a_share_is_read_or_refused(text in "[0-9.%* ]{0,8}|\\PC{0,6}") {
            if let Ok(Some(share)) = read_share(&text) {
                prop_assert!((1..=10_000).contains(&share));
            }
        }
    }
}
