//! What the rules on bots and visitors of a server share. A reload keeps it.

use std::sync::{Arc, OnceLock};

use touchstone_handler::shared_by_name::SharedByName;

use crate::bots::directories::{Directories, FetchSettings};
use crate::bots::nonces::Nonces;
use crate::check::token::TextKeys;

/// The directories of bots and the nonces that a server knows, and the key of its passes.
#[derive(Default)]
pub struct CrawlersShared {
    pub(crate) directories: SharedByName<FetchSettings, Directories>,
    pub(crate) nonces: Arc<Nonces>,
    keys: OnceLock<Arc<TextKeys>>,
}

impl CrawlersShared {
    /// The key of rules without a key file, generated at the first use.
    pub(crate) fn keys(&self) -> Arc<TextKeys> {
        self.keys.get_or_init(|| Arc::new(TextKeys::random())).clone()
    }
}
