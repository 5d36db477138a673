//! `Signature-Agent`: where a bot publishes its keys, which is also its name.

use sfv::{BareItem, Item, KeyRef, ListEntry, Parser};
use touchstone_http::percent;

use crate::signature::{Message, Signature, dictionary, joined};

/// The path of a directory at an origin.
pub const DIRECTORY_PATH: &str = "/.well-known/http-message-signatures-directory";

/// The longest address that is read.
const LONGEST_ADDRESS: usize = 1024;

/// Where a bot publishes its keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Agent {
    /// The address without query and fragment, in its normal form: the identity of the bot.
    pub identifier: String,
    /// The address that is fetched.
    pub address: String,
    /// It is the directory of an origin, with a media type of its own.
    pub is_directory: bool,
}

impl Agent {
    /// Reads the address of an origin, or with a path that of a key set. The error describes the problem.
    pub fn of_address(text: &str) -> Result<Agent, String> {
        let address = Address::read(text)?;
        Ok(match address.path {
            "" | "/" if address.query.is_none() => address.directory(),
            DIRECTORY_PATH if address.query.is_none() => address.directory(),
            _ => address.key_set(),
        })
    }

    /// The host, with its port if it is not the usual one.
    pub fn host(&self) -> &str {
        let rest = self.identifier.strip_prefix("https://").unwrap_or(&self.identifier);
        rest.split('/').next().unwrap_or_default()
    }

    /// Whether it is at the usual port of HTTPS.
    pub fn has_usual_port(&self) -> bool {
        let host = self.host();
        let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
        !behind.contains(':')
    }

    /// The agent that a signature names. The error describes why it names none: such a signature may be
    /// valid, but cannot be attributed.
    pub fn of_signature(message: &Message<'_>, signature: &Signature) -> Result<Agent, &'static str> {
        let value = joined(message.values(b"signature-agent")).ok_or("there is no Signature-Agent")?;
        let mut members: Vec<Option<&str>> =
            signature.components.iter().filter_map(|one| one.of_field("signature-agent")).collect();
        if members.len() > 1 && members.contains(&Some(signature.label.as_str())) {
            // Other members are those of other signatures, which this one covers.
            members = vec![Some(signature.label.as_str())];
        }
        let [member] = members[..] else {
            return Err("the signature does not cover its member of Signature-Agent");
        };
        if value.first() == Some(&b'"') {
            // The form of drafts before 2025-10: one string.
            let item: Item = Parser::new(&value).parse().map_err(|_| "Signature-Agent cannot be read")?;
            return match member {
                None => Agent::of_item(&item),
                Some(_) => Err("the signature does not cover its member of Signature-Agent"),
            };
        }
        let agents = dictionary(&value).ok_or("Signature-Agent cannot be read")?;
        let key = member.unwrap_or(&signature.label);
        let key = KeyRef::from_str(key).map_err(|_| "Signature-Agent cannot be read")?;
        match agents.get(key) {
            Some(ListEntry::Item(item)) => Agent::of_item(item),
            _ => Err("Signature-Agent has no such member"),
        }
    }

    fn of_item(item: &Item) -> Result<Agent, &'static str> {
        let text = item.bare_item.as_string().ok_or("Signature-Agent is not a string")?;
        let address =
            Address::read(text.as_str()).map_err(|_| "Signature-Agent is not an https:// address")?;
        let kind = match item.params.get(KeyRef::from_str("type").map_err(|_| "no type")?) {
            None => "directory",
            Some(BareItem::Token(kind)) => kind.as_str(),
            Some(_) => return Err("the type of Signature-Agent is not a token"),
        };
        match (kind, address.path, address.query) {
            ("directory", "" | "/", None) => Ok(address.directory()),
            ("directory", ..) => Err("Signature-Agent is not an origin"),
            ("jwks_uri", ..) => Ok(address.key_set()),
            _ => Err("the type of Signature-Agent is not supported"),
        }
    }
}

/// The parts of an `https://` address.
struct Address<'a> {
    authority: String,
    path: &'a str,
    query: Option<&'a str>,
}

impl<'a> Address<'a> {
    fn read(text: &'a str) -> Result<Address<'a>, String> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'"' | b'<' | b'>');
        if text.len() > LONGEST_ADDRESS || !text.bytes().all(is_plain) {
            return Err("must be an address of at most 1,024 plain characters".to_string());
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        if !scheme.eq_ignore_ascii_case("https") {
            return Err("must begin with https://".to_string());
        }
        let text = rest.split('#').next().unwrap_or_default();
        let (before, query) = match text.split_once('?') {
            Some((before, query)) => (before, Some(query)),
            None => (text, None),
        };
        let (authority, path) = before.split_at(before.find('/').unwrap_or(before.len()));
        let authority = authority.to_ascii_lowercase();
        let authority = authority.strip_suffix(":443").unwrap_or(&authority).to_string();
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if authority.is_empty() || authority.starts_with(':') || !authority.bytes().all(is_host) {
            return Err("must name a host, without a user".to_string());
        }
        if path.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err("must have no dot segments".to_string());
        }
        Ok(Address { authority, path, query })
    }

    fn directory(&self) -> Agent {
        let address = format!("https://{}{DIRECTORY_PATH}", self.authority);
        Agent { identifier: address.clone(), address, is_directory: true }
    }

    fn key_set(&self) -> Agent {
        let path = if self.path.is_empty() { "/" } else { self.path };
        let identifier = format!("https://{}{}", self.authority, normal_path(path));
        let query = self.query.map_or(String::new(), |query| format!("?{query}"));
        Agent { identifier, address: format!("https://{}{path}{query}", self.authority), is_directory: false }
    }
}

/// A path with escapes of needless kind decoded, and the others in capital letters (RFC 3986 section 6.2.2).
fn normal_path(path: &str) -> String {
    let mut normal = Vec::with_capacity(path.len());
    percent::append_normal(path.as_bytes(), &mut normal);
    String::from_utf8(normal).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(text: &str) -> Result<Agent, &'static str> {
        Agent::of_item(&Parser::new(text).parse().unwrap())
    }

    #[test]
    fn one_bot_has_one_identifier() {
        let directory = "https://bot.example/.well-known/http-message-signatures-directory";
        for text in [
            "\"https://bot.example\"",
            "\"https://bot.example/\"",
            "\"HTTPS://Bot.Example:443\"",
            "\"https://bot.example\";type=directory",
        ] {
            assert_eq!(item(text).unwrap().identifier, directory, "{text}");
        }
        let set = item("\"https://bot.example/%6a%2fwks.json?a=b#c\";type=jwks_uri").unwrap();
        assert_eq!(set.identifier, "https://bot.example/j%2Fwks.json");
        assert_eq!(set.address, "https://bot.example/%6a%2fwks.json?a=b");
        assert!(!set.is_directory);
        assert_eq!(Agent::of_address("https://bot.example").unwrap().identifier, directory);
        assert_eq!(Agent::of_address(directory).unwrap().identifier, directory);
        assert_eq!(Agent::of_address("https://a.example:8443/keys").unwrap().host(), "a.example:8443");
        assert!(!Agent::of_address("https://a.example:8443/keys").unwrap().has_usual_port());
        assert!(Agent::of_address("https://[2001:db8::1]").unwrap().has_usual_port());
    }

    #[test]
    fn what_is_no_address_of_a_bot_is_refused() {
        for bad in [
            "\"http://bot.example\"",
            "\"https://bot.example/path\"",
            "\"https://bot.example?query\"",
            "\"https://user@bot.example\"",
            "\"https://\"",
            "\"bot.example\"",
            "\"https://bot.example/../x\";type=jwks_uri",
            "\"https://bot.example/card\";type=cimd",
            "\"https://bot.example\";type=\"directory\"",
            "token",
        ] {
            assert!(item(bad).is_err(), "{bad}");
        }
    }
}
