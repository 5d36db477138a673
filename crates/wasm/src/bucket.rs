//! Buckets: keys and values in the memory of the server, which the instances of a site share.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// The estimated overhead of an entry besides its key and value.
const ENTRY_BYTES: usize = 96;

/// The longest key.
const MOST_KEY_BYTES: usize = 1 << 10;

/// The most keys in one list.
const MOST_LISTED: usize = 1_000;

/// A bucket of keys and values.
#[derive(Debug, Default)]
pub struct Bucket {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    values: BTreeMap<Box<str>, Bytes>,
    bytes: usize,
}

impl Bucket {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Bytes> {
        self.lock().values.get(key).cloned()
    }

    /// Whether the key exists.
    pub fn has(&self, key: &str) -> bool {
        self.lock().values.contains_key(key)
    }

    /// Sets all values, or none if the bucket would exceed `most_bytes`. The error says why.
    pub fn set(&self, pairs: Vec<(String, Bytes)>, most_bytes: usize) -> Result<(), String> {
        // The last of equal keys is used.
        let pairs: BTreeMap<Box<str>, Bytes> =
            pairs.into_iter().map(|(key, value)| (key.into(), value)).collect();
        if pairs.keys().any(|key| key.len() > MOST_KEY_BYTES) {
            return Err(format!("a key is longer than {MOST_KEY_BYTES} bytes"));
        }
        let entries = &mut *self.lock();
        let (mut added, mut removed) = (0, 0);
        for (key, value) in &pairs {
            added += size_of(key, value);
            removed += entries.values.get(key).map_or(0, |old| size_of(key, old));
        }
        let bytes = entries.bytes - removed + added;
        if bytes > most_bytes && added > removed {
            return Err("the bucket is full ('bucket_size')".to_string());
        }
        entries.values.extend(pairs);
        entries.bytes = bytes;
        Ok(())
    }

    /// Removes keys.
    pub fn delete(&self, keys: &[String]) {
        let entries = &mut *self.lock();
        for key in keys {
            if let Some((key, value)) = entries.values.remove_entry(key.as_str()) {
                entries.bytes -= size_of(&key, &value);
            }
        }
    }

    /// Adds `delta` to the number that is the key's value; a missing key has the value 0. The error says why
    /// it failed.
    pub fn increment(&self, key: &str, delta: u64, most_bytes: usize) -> Result<u64, String> {
        if key.len() > MOST_KEY_BYTES {
            return Err(format!("a key is longer than {MOST_KEY_BYTES} bytes"));
        }
        let entries = &mut *self.lock();
        let old = entries.values.get(key);
        let number = match old {
            None => 0,
            Some(old) => std::str::from_utf8(old)
                .ok()
                .and_then(|digits| digits.parse::<u64>().ok())
                .ok_or("the value is not a number")?,
        };
        let number = number.checked_add(delta).ok_or("the number becomes too large")?;
        let value = Bytes::from(number.to_string());
        let removed = old.map_or(0, |old| size_of(key, old));
        let bytes = entries.bytes - removed + size_of(key, &value);
        if removed == 0 && bytes > most_bytes {
            return Err("the bucket is full ('bucket_size')".to_string());
        }
        entries.values.insert(key.into(), value);
        entries.bytes = bytes;
        Ok(number)
    }

    /// Keys from a position on, in order, and the position after them if there are more.
    pub fn keys(&self, from: u64) -> (Vec<String>, Option<u64>) {
        let entries = self.lock();
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let keys: Vec<String> =
            entries.values.keys().skip(from).take(MOST_LISTED).map(|key| key.to_string()).collect();
        let next = from.saturating_add(keys.len());
        let has_more = !keys.is_empty() && next < entries.values.len();
        (keys, has_more.then_some(next as u64))
    }
}

fn size_of(key: &str, value: &Bytes) -> usize {
    key.len() + value.len() + ENTRY_BYTES
}

/// The buckets of a route.
#[derive(Clone, Default)]
pub struct Buckets {
    /// The buckets by name.
    pub by_name: HashMap<String, Arc<Bucket>>,
    /// The most bytes of each bucket.
    pub most_bytes: usize,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shared::WasmShared;

    fn pair(key: &str, value: &str) -> (String, Bytes) {
        (key.to_string(), Bytes::copy_from_slice(value.as_bytes()))
    }

    #[test]
    fn a_bucket_belongs_to_its_server_site_and_name() {
        let servers = [WasmShared::default(), WasmShared::default()];
        let bucket_of = |server: &WasmShared, site: &str, name: &str| {
            server.buckets.of((site.to_string(), name.to_string()))
        };
        let of_site = |site, name| bucket_of(&servers[0], site, name);
        let bucket = of_site("a", "sessions");
        bucket.set(vec![pair("k", "v")], 1000).unwrap();
        assert_eq!(of_site("a", "sessions").get("k").unwrap(), "v");
        assert!(of_site("b", "sessions").get("k").is_none());
        assert!(bucket_of(&servers[1], "a", "sessions").get("k").is_none());
        assert!(of_site("a", "other").get("k").is_none());
        drop(bucket);
        // No route names the bucket: it was dropped.
        assert!(of_site("a", "sessions").get("k").is_none());
    }

    #[test]
    fn a_full_bucket_accepts_only_smaller_values() {
        let bucket = Bucket::default();
        let most = 2 * (ENTRY_BYTES + 11);
        bucket.set(vec![pair("a", "0123456789"), pair("b", "0123456789")], most).unwrap();
        for more in [pair("c", ""), pair("a", "01234567890")] {
            assert!(bucket.set(vec![more], most).unwrap_err().contains("full"));
        }
        assert!(bucket.increment("n", 1, most).unwrap_err().contains("full"));
        bucket.set(vec![pair("a", "5")], most).unwrap();
        // All or nothing.
        assert!(bucket.set(vec![pair("b", "x"), pair("c", "y")], most).is_err());
        assert_eq!(bucket.get("b").unwrap(), "0123456789");
        bucket.delete(&["b".to_string(), "none".to_string()]);
        bucket.set(vec![pair("c", "y")], most).unwrap();
        assert!(bucket.set(vec![pair(&"k".repeat(MOST_KEY_BYTES + 1), "")], 1 << 20).is_err());
        assert!(bucket.increment(&"k".repeat(MOST_KEY_BYTES + 1), 1, 1 << 20).is_err());
    }

    #[test]
    fn numbers_are_added() {
        let bucket = Bucket::default();
        assert_eq!(bucket.increment("n", 2, 1000), Ok(2));
        assert_eq!(bucket.increment("n", 3, 1000), Ok(5));
        assert_eq!(bucket.get("n").unwrap(), "5");
        assert!(bucket.increment("n", u64::MAX, 1000).is_err());
        bucket.set(vec![pair("n", "five")], 1000).unwrap();
        assert!(bucket.increment("n", 1, 1000).is_err());
    }

    #[test]
    fn keys_are_listed_in_parts() {
        let bucket = Bucket::default();
        let pairs = (0..2500).map(|at| pair(&format!("{at:04}"), "")).collect();
        bucket.set(pairs, 1 << 20).unwrap();
        let (first, next) = bucket.keys(0);
        assert_eq!((first.len(), first[0].as_str(), next), (1000, "0000", Some(1000)));
        assert_eq!(bucket.keys(2000).0.len(), 500);
        assert_eq!(bucket.keys(2000).1, None);
        assert_eq!(bucket.keys(u64::MAX), (Vec::new(), None));
    }

    proptest! {
        #[test]
        fn the_bytes_are_counted(
            steps in prop::collection::vec((0..4u8, "[a-c]{0,2}", "[0-9]{0,3}"), 0..60),
        ) {
            let bucket = Bucket::default();
            for (step, key, value) in steps {
                match step {
                    0 => bucket.delete(&[key]),
                    1 => { let _ = bucket.increment(&key, 7, 600); }
                    2 => { let _ = bucket.set(vec![pair(&key, &value)], 600); }
                    _ => {
                        let pairs = vec![pair(&key, &value), pair(&key, "x"), pair("z", "")];
                        let _ = bucket.set(pairs, 600);
                    }
                }
                let entries = bucket.lock();
                let sum: usize = entries.values.iter().map(|(key, value)| size_of(key, value)).sum();
                prop_assert_eq!(entries.bytes, sum);
            }
        }
    }
}
