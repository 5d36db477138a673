//! The state that rate limits keep for clients, in bounded memory: the time until which each client has used
//! up its share.
//!
//! A client is an IPv4 address, or the first 64 bits of an IPv6 address, because a subscriber has all the
//! addresses with the same 64 bits and could use a new one for every request.
//!
//! One table serves all cores and all limits of the process. It has shards with a lock each, so that two
//! cores rarely contend. A shard has sets of eight entries, and a client can be in only one set, which a hash
//! with a secret key selects: a client cannot choose its neighbours. In a full set the client whose share is
//! complete again first is replaced. So a flood of new addresses replaces its own entries, not those of
//! clients that have used up much: to replace a client that is over its limit, eight others in the same set
//! must be further over theirs. The lost state is at most that of the least active of nine clients.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Entries in one set: two cache lines.
const WAYS: usize = 8;

/// The number of shards, each with a lock.
const SHARDS: usize = 64;

/// What a limit counts by: a client, or all requests with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    kind: Kind,
    bits: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Ipv4,
    Ipv6,
    Key,
}

impl Client {
    /// Requests with the same key; this is its hash.
    pub fn of_key(hash: u64) -> Client {
        Client { kind: Kind::Key, bits: hash }
    }

    /// The client with an address.
    #[inline]
    pub fn of(address: IpAddr) -> Client {
        match address.to_canonical() {
            IpAddr::V4(address) => Client { kind: Kind::Ipv4, bits: u64::from(address.to_bits()) },
            IpAddr::V6(address) => Client { kind: Kind::Ipv6, bits: (address.to_bits() >> 64) as u64 },
        }
    }
}

/// The table. It allocates its memory on first use.
pub struct ClientTable {
    shards: OnceLock<Box<[Shard]>>,
    sets_in_shard: usize,
    keys: RandomState,
}

type Shard = Mutex<Box<[Set]>>;
type Set = [ClientEntry; WAYS];

/// The state of one client under one limit.
#[derive(Debug, Clone, Copy, Default)]
struct ClientEntry {
    tag: u64,
    /// When the client's share is complete again, in nanoseconds of the process's clock. A time in the past
    /// has no effect.
    whole_at_ns: u64,
}

impl ClientTable {
    /// A table with about this many entries of 16 bytes.
    pub fn new(entries: usize) -> ClientTable {
        let sets_in_shard = entries.div_ceil(WAYS * SHARDS).max(1);
        ClientTable { shards: OnceLock::new(), sets_in_shard, keys: RandomState::new() }
    }

    /// Passes `change` the time when the client's share under the limit is complete again, to read or change.
    /// The time is 0 for an unknown client.
    #[inline]
    pub fn update<R>(&self, limit_id: u64, client: Client, change: impl FnOnce(&mut u64) -> R) -> R {
        let tag = self.keys.hash_one((limit_id, client));
        let shards = self.shards.get_or_init(|| self.make());
        // The tag's bits choose the shard, then the set; the whole tag distinguishes the clients of a set.
        let shard = &shards[tag as usize % SHARDS];
        let mut sets = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let set = &mut sets[(tag / SHARDS as u64) as usize % self.sets_in_shard];

        let known = set.iter_mut().find(|entry| entry.tag == tag && entry.whole_at_ns != 0);
        if let Some(entry) = known {
            return change(&mut entry.whole_at_ns);
        }
        let mut whole_at_ns = 0;
        let result = change(&mut whole_at_ns);
        if whole_at_ns != 0
            && let Some(first_whole) = set.iter_mut().min_by_key(|entry| entry.whole_at_ns)
        {
            *first_whole = ClientEntry { tag, whole_at_ns };
        }
        result
    }

    fn make(&self) -> Box<[Shard]> {
        let shard = || Mutex::new(vec![Set::default(); self.sets_in_shard].into_boxed_slice());
        (0..SHARDS).map(|_| shard()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn numbered(number: u32) -> Client {
        Client::of(Ipv4Addr::from_bits(number).into())
    }

    fn get(table: &ClientTable, client: Client) -> u64 {
        table.update(0, client, |at| *at)
    }

    fn set(table: &ClientTable, client: Client, whole_at_ns: u64) {
        table.update(0, client, |at| *at = whole_at_ns);
    }

    #[test]
    fn clients() {
        let client = |text: &str| Client::of(text.parse().unwrap());
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
        // The same bits, as IPv4 and as IPv6.
        assert_ne!(client("0.0.0.1"), Client::of(Ipv6Addr::from_bits(1 << 64).into()));
        assert_ne!(client("0.0.0.0"), client("::"));
    }

    #[test]
    fn limits_are_apart_and_looking_takes_no_place() {
        let table = ClientTable::new(1);
        for number in 0..10_000 {
            assert_eq!(get(&table, numbered(number)), 0);
        }
        let shards = table.shards.get().unwrap();
        assert!(
            shards.iter().all(|shard| shard
                .lock()
                .unwrap()
                .as_flattened()
                .iter()
                .all(|entry| entry.tag == 0))
        );
        table.update(1, numbered(1), |at| *at = 7);
        assert_eq!(table.update(1, numbered(1), |at| *at), 7);
        assert_eq!(table.update(2, numbered(1), |at| *at), 0);
    }

    /// A million new addresses do not push out a client that has used up more than each of them.
    #[test]
    fn a_flood_does_not_push_out_the_heavy() {
        let table = ClientTable::new(4096);
        let heavy: Vec<Client> = (0..64).map(numbered).collect();
        for (position, client) in heavy.iter().enumerate() {
            set(&table, *client, 1_000_000 + position as u64);
        }
        for number in 0..1_000_000 {
            set(&table, numbered(0x0100_0000 + number), 1 + u64::from(number) % 1000);
        }
        for (position, client) in heavy.iter().enumerate() {
            assert_eq!(get(&table, *client), 1_000_000 + position as u64);
        }
    }

    /// The client whose share is complete again first is replaced first.
    #[test]
    fn the_past_makes_room() {
        let table = ClientTable::new(1);
        let mut known: HashMap<u32, u64> = HashMap::new();
        for number in 0..5_000u32 {
            set(&table, numbered(number), u64::from(number) + 1);
            known.insert(number, u64::from(number) + 1);
        }
        let kept: Vec<u32> = (0..5_000).filter(|number| get(&table, numbered(*number)) != 0).collect();
        assert_eq!(kept.len(), WAYS * SHARDS);
        // Each later client replaced the earliest of its set, so the latest ones are present.
        assert!(kept.iter().all(|number| get(&table, numbered(*number)) == known[number]));
        assert_eq!(get(&table, numbered(4_999)), 5_000);
    }

    #[test]
    fn cores_share_it() {
        let table = ClientTable::new(1024);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..1000 {
                        table.update(0, numbered(number % 10), |at| *at += 1);
                    }
                });
            }
        });
        assert_eq!((0..10).map(|number| get(&table, numbered(number))).sum::<u64>(), 4000);
    }

    proptest! {
        /// With room for all clients, the table is a map.
        #[test]
        fn with_room_it_is_a_map(changes in prop::collection::vec((0u32..40, 1u64..100), 0..200)) {
            let table = ClientTable::new(1 << 16);
            let mut map: HashMap<u32, u64> = HashMap::new();
            for (number, value) in changes {
                prop_assert_eq!(get(&table, numbered(number)), map.get(&number).copied().unwrap_or(0));
                set(&table, numbered(number), value);
                map.insert(number, value);
            }
        }
    }
}
