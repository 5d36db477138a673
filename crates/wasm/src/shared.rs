//! What the components of a server share. A reload keeps it.

use touchstone_handler::shared_by_name::SharedByName;

use crate::bucket::Bucket;
use crate::compiled::LoadedComponent;

/// The buckets of a server's sites, and its loaded components.
#[derive(Default)]
pub struct WasmShared {
    /// By site and name. A bucket is kept as long as a route names it.
    pub(crate) buckets: SharedByName<(String, String), Bucket>,
    /// By the hash of the component.
    pub(crate) loaded: SharedByName<[u8; 32], LoadedComponent>,
}
