//! Values that are kept under a name as long as something uses them, so that they continue over reloads.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The values in use, by their names.
pub struct SharedByName<N, V> {
    known: Mutex<BTreeMap<N, Weak<V>>>,
}

impl<N, V> Default for SharedByName<N, V> {
    fn default() -> SharedByName<N, V> {
        SharedByName { known: Mutex::default() }
    }
}

impl<N: Ord + Clone, V> SharedByName<N, V> {
    /// The value with this name: the one in use, or a new one.
    pub fn of(&self, name: N) -> Arc<V>
    where
        V: Default,
    {
        let value: Result<Arc<V>, Infallible> = self.of_or(name, |_| Ok(V::default()));
        value.unwrap_or_else(|never| match never {})
    }

    /// The value with this name: the one in use, or what `make` makes of the name.
    pub fn of_or<E>(&self, name: N, make: impl FnOnce(&N) -> Result<V, E>) -> Result<Arc<V>, E> {
        let mut known = self.lock();
        known.retain(|_, value| value.strong_count() > 0);
        if let Some(value) = known.get(&name).and_then(Weak::upgrade) {
            return Ok(value);
        }
        let value = Arc::new(make(&name)?);
        known.insert(name, Arc::downgrade(&value));
        Ok(value)
    }

    /// The value with this name, if one is in use.
    pub fn find(&self, name: &N) -> Option<Arc<V>> {
        self.lock().get(name)?.upgrade()
    }

    /// All values that are in use, with their names.
    pub fn all(&self) -> Vec<(N, Arc<V>)> {
        self.lock().iter().filter_map(|(name, value)| Some((name.clone(), value.upgrade()?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<N, Weak<V>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::Count;

    #[test]
    fn a_value_continues_while_something_uses_it() {
        let (one, other) = (SharedByName::<&str, Count>::default(), SharedByName::<&str, Count>::default());
        let count = one.of("a");
        count.add(2);
        assert_eq!((one.of("a").get(), one.of("b").get(), other.of("a").get()), (2, 0, 0));
        assert!(Arc::ptr_eq(&one.find(&"a").unwrap(), &count));
        assert_eq!(one.all().iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a"]);
        drop(count);
        assert!(one.find(&"a").is_none() && one.all().is_empty());
        assert_eq!(one.of("a").get(), 0);
    }

    #[test]
    fn a_value_that_cannot_be_made_is_not_kept() {
        let values = SharedByName::<&str, Count>::default();
        assert_eq!(values.of_or("a", |name| Err(name.to_string())).err(), Some("a".to_string()));
        assert!(values.find(&"a").is_none());
    }
}
