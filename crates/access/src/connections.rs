//! Counts the open connections of each client, so that no client can use all of them.
//!
//! The counts are exact. Their memory is bounded by the number of open connections, because a client without
//! a connection has no entry.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::hash::{BuildHasher, RandomState};

use super::client_table::Client;

/// The number of shards, each with a lock.
const SHARDS: usize = 64;

/// The open connections of each client on all cores.
pub struct ConnectionCounts {
    shards: [Shard; SHARDS],
    keys: RandomState,
}

impl Default for ConnectionCounts {
    fn default() -> ConnectionCounts {
        ConnectionCounts { shards: std::array::from_fn(|_| Shard::default()), keys: RandomState::new() }
    }
}

#[derive(Default)]
struct Shard {
    open: Mutex<HashMap<Client, u32>>,
}

/// Counts one connection until it is dropped.
pub struct ConnectionPermit {
    counts: Arc<ConnectionCounts>,
    client: Client,
}

impl ConnectionCounts {
    /// Counts one more connection of the client; `None` if it already has `most`.
    pub fn admit(self: &Arc<ConnectionCounts>, client: Client, most: u32) -> Option<ConnectionPermit> {
        match self.shard(client).entry(client) {
            Entry::Occupied(open) if *open.get() >= most => return None,
            Entry::Occupied(mut open) => *open.get_mut() += 1,
            Entry::Vacant(_) if most == 0 => return None,
            Entry::Vacant(none) => _ = none.insert(1),
        }
        Some(ConnectionPermit { counts: self.clone(), client })
    }

    /// The connections that the client has open.
    #[cfg(test)]
    fn open(&self, client: Client) -> u32 {
        self.shard(client).get(&client).copied().unwrap_or(0)
    }

    fn shard(&self, client: Client) -> MutexGuard<'_, HashMap<Client, u32>> {
        let shard = &self.shards[self.keys.hash_one(client) as usize % SHARDS];
        shard.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut shard = self.counts.shard(self.client);
        if let Entry::Occupied(mut open) = shard.entry(self.client) {
            match *open.get() {
                0 | 1 => _ = open.remove(),
                _ => *open.get_mut() -= 1,
            }
        }
        // After a flood from many addresses, the memory is released.
        if shard.len() * 8 < shard.capacity() {
            shard.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(number: u32) -> Client {
        Client::of(std::net::Ipv4Addr::from_bits(number).into())
    }

    #[test]
    fn so_many_and_no_more() {
        let counts = Arc::new(ConnectionCounts::default());
        let first = counts.admit(client(1), 2);
        let second = counts.admit(client(1), 2);
        assert!(first.is_some() && second.is_some() && counts.admit(client(1), 2).is_none());
        assert!(counts.admit(client(2), 2).is_some());
        // After a reload that lowers the limit, no new connection is admitted; after one that raises it, one
        // is.
        assert!(counts.admit(client(1), 1).is_none());
        assert!(counts.admit(client(1), 3).is_some());
        drop(first);
        assert!(counts.admit(client(1), 2).is_some());
        drop(second);
        assert_eq!(counts.open(client(1)), 0);
        assert!(counts.admit(client(3), 0).is_none());
    }

    #[test]
    fn nothing_is_kept_of_clients_that_left() {
        let counts = Arc::new(ConnectionCounts::default());
        let permits: Vec<_> = (0..50_000).map(|number| counts.admit(client(number), 9)).collect();
        assert!(permits.iter().all(Option::is_some));
        drop(permits);
        for shard in &counts.shards {
            let shard = shard.open.lock().unwrap();
            assert!(shard.is_empty() && shard.capacity() < 64, "{}", shard.capacity());
        }
    }

    #[test]
    fn cores_share_them() {
        let counts = Arc::new(ConnectionCounts::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..2000 {
                        let _permit = counts.admit(client(number % 7), 2);
                        assert!(counts.open(client(number % 7)) <= 2);
                    }
                });
            }
        });
        assert!((0..7).all(|number| counts.open(client(number)) == 0));
    }

    proptest! {
        #[test]
        fn the_counts_are_exact(
            steps in prop::collection::vec((0u32..4, any::<bool>()), 0..200),
            most in 1u32..5,
        ) {
            let counts = Arc::new(ConnectionCounts::default());
            let mut held: [Vec<ConnectionPermit>; 4] = Default::default();
            for (number, opens) in steps {
                let mine = &mut held[number as usize];
                if opens {
                    let is_full = mine.len() == most as usize;
                    let permit = counts.admit(client(number), most);
                    prop_assert_eq!(permit.is_none(), is_full);
                    mine.extend(permit);
                } else {
                    mine.pop();
                }
                prop_assert_eq!(counts.open(client(number)), mine.len() as u32);
            }
        }
    }
}
