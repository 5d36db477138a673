//! A registry of shared values in this process, which routes and configurations share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The values in use, for a `static`. A value is removed when its last owner drops it.
pub struct LiveInstances<T> {
    values: Mutex<Vec<Weak<T>>>,
}

impl<T> LiveInstances<T> {
    /// No values.
    pub const fn new() -> LiveInstances<T> {
        LiveInstances { values: Mutex::new(Vec::new()) }
    }

    /// All of them, in the order in which they were made.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The value for these settings, or a new one. `make` gets the settings and all values in use.
    pub fn get<W>(
        &self,
        wanted: W,
        is_wanted: impl Fn(&T, &W) -> bool,
        make: impl FnOnce(W, &[Arc<T>]) -> T,
    ) -> Arc<T> {
        let mut values = self.lock();
        values.retain(|value| value.strong_count() > 0);
        let known: Vec<Arc<T>> = values.iter().filter_map(Weak::upgrade).collect();
        if let Some(same) = known.iter().find(|value| is_wanted(value, &wanted)) {
            return same.clone();
        }
        let value = Arc::new(make(wanted, &known));
        values.push(Arc::downgrade(&value));
        value
    }

    /// The list is valid even if `make` has panicked.
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<T>>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for LiveInstances<T> {
    fn default() -> LiveInstances<T> {
        LiveInstances::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_shared_as_long_as_it_is_used() {
        let values: LiveInstances<(u8, usize)> = LiveInstances::new();
        let get = |wanted: u8| {
            values.get(wanted, |value, wanted| value.0 == *wanted, |wanted, known| (wanted, known.len()))
        };
        let one = get(1);
        assert!(Arc::ptr_eq(&one, &get(1)));
        let two = get(2);
        assert_eq!((*two, values.all().len()), ((2, 1), 2));
        drop(one);
        assert!(values.all().iter().all(|value| Arc::ptr_eq(value, &two)));
        assert_eq!(*get(1), (1, 1));
    }
}
