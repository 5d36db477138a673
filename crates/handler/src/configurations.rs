//! Which configurations of a server use a value that a reload keeps if its settings stay the same.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the configurations that were opened, and knows which of them is in use.
#[derive(Debug, Default)]
pub struct Configurations {
    /// The number of the configuration that is being opened, or was opened last.
    opened: AtomicU64,
    /// The number of the configuration in use.
    in_use: AtomicU64,
}

impl Configurations {
    /// Called before a configuration is opened.
    pub fn begin(&self) {
        self.opened.fetch_add(1, Ordering::SeqCst);
    }

    /// Called when the configuration that was opened last is in use.
    pub fn use_opened(&self) {
        self.in_use.store(self.opened(), Ordering::SeqCst);
    }

    /// The number of the configuration that is being opened, or was opened last. What it uses notes it.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::SeqCst)
    }

    /// The number of the configuration in use.
    pub fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::SeqCst)
    }

    /// Whether the configuration in use has what was used last by the configuration with this number. A
    /// configuration that was refused leaves a larger number at what it shares with this one; what it alone
    /// had is no longer in use.
    pub fn has(&self, used_by: u64) -> bool {
        used_by >= self.in_use()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_configuration_does_not_end_what_is_in_use() {
        let configurations = Configurations::default();
        let first = configurations.opened();
        assert!(configurations.has(first));
        configurations.begin();
        let refused = configurations.opened();
        assert!(configurations.has(first) && configurations.has(refused));
        configurations.begin();
        configurations.use_opened();
        assert!(!configurations.has(first) && !configurations.has(refused));
        assert!(configurations.has(configurations.opened()));
        assert_eq!(configurations.in_use(), 2);
    }
}
