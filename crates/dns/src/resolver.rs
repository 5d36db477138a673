//! Lookups by recursive servers: the target of an alias, the zone of a name, and the servers of a zone.

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::Instant;

use super::message::{Data, Message, code, code_text, kind, query};
use super::name::Name;
use super::transport;

/// The file with the recursive servers of the system.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The port of DNS.
const PORT: u16 = 53;

/// The most aliases (CNAME) that are followed one after the other.
const MOST_ALIASES: usize = 8;

/// The most servers of a zone that are queried.
const MOST_SERVERS: usize = 16;

/// The pause between two checks of the servers of a zone.
const CHECK_PAUSE: Duration = Duration::from_secs(1);

/// Recursive servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolver {
    servers: Vec<SocketAddr>,
}

/// A zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Its name.
    pub name: Name,
    /// The name of its primary server, by its SOA record.
    pub primary: Name,
}

/// A server of a zone, with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerName {
    /// Its name, for messages.
    pub name: String,
    /// Where it is reached.
    pub addresses: Vec<SocketAddr>,
}

impl fmt::Display for ServerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

impl Resolver {
    /// Queries these servers, one after the other.
    pub fn new(servers: Vec<SocketAddr>) -> Resolver {
        Resolver { servers }
    }

    /// Queries the servers of the system's configuration.
    pub fn of_system() -> Result<Resolver, String> {
        let text = fs::read_to_string(RESOLV_CONF)
            .map_err(|error| format!("{RESOLV_CONF}: cannot be read: {error}"))?;
        match servers_of(&text) {
            servers if servers.is_empty() => Err(format!("{RESOLV_CONF}: names no server")),
            servers => Ok(Resolver { servers }),
        }
    }

    /// The answer to a question. That a name does not exist is an answer too.
    async fn look_up(&self, name: &Name, kind: u16) -> Result<Message, String> {
        let request = query(transport::new_id()?, name, kind, true);
        let mut reasons = Vec::new();
        for server in &self.servers {
            match transport::query(*server, &request).await {
                Ok(answer) if matches!(answer.code(), code::NO_ERROR | code::NO_SUCH_NAME) => {
                    return Ok(answer);
                }
                Ok(answer) => reasons.push(format!("{server}: {}", code_text(answer.code()))),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(format!("{name} cannot be resolved: {}", reasons.join("; ")))
    }

    /// The target of the aliases of `name`; `name` itself if it has none.
    pub async fn follow_aliases(&self, name: &Name) -> Result<Name, String> {
        let mut current = name.clone();
        for _ in 0..=MOST_ALIASES {
            let answer = self.look_up(&current, kind::CNAME).await?;
            let target = answer.answers.iter().find_map(|record| match &record.data {
                Data::Alias(target) if record.name == current => Some(target.clone()),
                _ => None,
            });
            match target {
                Some(target) => current = target,
                None => return Ok(current),
            }
        }
        Err(format!("{name}: its aliases (CNAME) form a loop, or are more than {MOST_ALIASES}"))
    }

    /// The zone that contains a name.
    pub async fn zone_of(&self, name: &Name) -> Result<Zone, String> {
        let mut current = Some(name.clone());
        while let Some(candidate) = current.filter(|candidate| !candidate.is_root()) {
            let answer = self.look_up(&candidate, kind::SOA).await?;
            // The answer for a name inside a zone has the zone's SOA record in its authority section.
            let found =
                answer.answers.iter().chain(&answer.authority).find_map(|record| match &record.data {
                    Data::Zone { primary } if candidate.is_within(&record.name) && !record.name.is_root() => {
                        Some(Zone { name: record.name.clone(), primary: primary.clone() })
                    }
                    _ => None,
                });
            if let Some(zone) = found {
                return Ok(zone);
            }
            current = candidate.parent();
        }
        Err(format!("no zone contains {name}: no SOA record is found for it or a name above it"))
    }

    /// The texts of the TXT records of a name.
    pub async fn texts(&self, name: &Name) -> Result<Vec<String>, String> {
        Ok(texts_of(&self.look_up(name, kind::TXT).await?))
    }

    /// The addresses of a server.
    pub async fn addresses(&self, name: &Name, port: u16) -> Result<Vec<SocketAddr>, String> {
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for kind in [kind::A, kind::AAAA] {
            let answer = self.look_up(name, kind).await?;
            addresses.extend(answer.answers.iter().filter_map(|record| match record.data {
                Data::Address(address) => Some(SocketAddr::new(address, port)),
                _ => None,
            }));
        }
        match addresses.is_empty() {
            true => Err(format!("the name server {name} has no address")),
            false => Ok(addresses),
        }
    }

    /// The servers of a zone, by its NS records.
    pub async fn servers_of_zone(&self, zone: &Name) -> Result<Vec<ServerName>, String> {
        let answer = self.look_up(zone, kind::NS).await?;
        let mut servers = Vec::new();
        for record in answer.answers.iter().take(MOST_SERVERS) {
            if let Data::Server(name) = &record.data {
                let addresses = self.addresses(name, PORT).await?;
                servers.push(ServerName { name: name.to_string(), addresses });
            }
        }
        match servers.is_empty() {
            true => Err(format!("the zone {zone} has no NS records")),
            false => Ok(servers),
        }
    }
}

fn texts_of(answer: &Message) -> Vec<String> {
    let texts = answer.answers.iter().filter_map(|record| match &record.data {
        Data::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    });
    texts.collect()
}

/// Waits until all servers answer with each of these records, at most for `limit`. The error names those that
/// do not.
pub async fn wait_until_shown(
    servers: &[ServerName],
    records: &[(Name, String)],
    limit: Duration,
) -> Result<(), String> {
    let until = Instant::now() + limit;
    let mut missing: Vec<&ServerName> = servers.iter().collect();
    loop {
        let mut still = Vec::new();
        let mut reason = String::new();
        for server in missing {
            for (name, text) in records {
                if let Err(why) = shows(server, name, text).await {
                    reason = why;
                    still.push(server);
                    break;
                }
            }
        }
        missing = still;
        if missing.is_empty() {
            return Ok(());
        }
        if Instant::now() + CHECK_PAUSE > until {
            let names: Vec<&str> = missing.iter().map(|server| server.name.as_str()).collect();
            return Err(format!("after {} s not shown by {}: {reason}", limit.as_secs(), names.join(", ")));
        }
        tokio::time::sleep(CHECK_PAUSE).await;
    }
}

/// Whether a server returns a record, at any of its addresses: this machine may not reach all of them.
async fn shows(server: &ServerName, name: &Name, text: &str) -> Result<(), String> {
    let mut reason = String::new();
    for address in &server.addresses {
        let request = query(transport::new_id()?, name, kind::TXT, false);
        match transport::query(*address, &request).await {
            Ok(answer) if texts_of(&answer).iter().any(|found| found == text) => return Ok(()),
            Ok(answer) => {
                reason = match answer.code() {
                    code::NO_ERROR | code::NO_SUCH_NAME => format!("{name} does not have the new TXT record"),
                    other => format!("{name}: {}", code_text(other)),
                };
            }
            Err(unanswered) => reason = unanswered,
        }
    }
    Err(reason)
}

/// The servers in a file of the form of `resolv.conf`.
fn servers_of(text: &str) -> Vec<SocketAddr> {
    let addresses = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and(words.next())?;
        // A scope such as %eth0 is omitted.
        let address: IpAddr = address.split('%').next()?.parse().ok()?;
        Some(SocketAddr::new(address, PORT))
    });
    addresses.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn servers_of_the_system() {
        let text =
            "# a comment\nsearch a.org\nnameserver 192.0.2.1\n  nameserver ::1\nnameserver x\noptions a\n";
        let expected = ["192.0.2.1:53", "[::1]:53"].map(|text| text.parse().expect("an address"));
        assert_eq!(servers_of(text), expected);
    }

    #[tokio::test]
    async fn a_server_that_is_away_is_named() {
        let unreachable: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        let resolver = Resolver::new(vec![unreachable]);
        let error = resolver.texts(&Name::parse("a.test").expect("a name")).await.expect_err("no server");
        assert!(error.starts_with("a.test cannot be resolved: 127.0.0.1:1: "), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = servers_of(&text);
        }
    }
}
