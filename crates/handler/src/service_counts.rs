//! The counts of one server, by the names that the configuration gives to what is counted. They are kept over
//! reloads. Metrics and the status page read them; they are in this crate because builds without a service
//! have its metrics too.

use crate::shared_by_name::SharedByName;
use crate::{component_counts, crawler_counts, login_counts, stream_counts, webdav_counts};

/// The counts of a server.
#[derive(Default)]
pub struct ServiceCounts {
    /// Those of WebAssembly components.
    pub components: SharedByName<component_counts::Name, component_counts::Counts>,
    /// Those of bots and of visitors that are checked.
    pub crawlers: SharedByName<crawler_counts::Name, crawler_counts::Counts>,
    /// Those of logins.
    pub logins: SharedByName<login_counts::Name, login_counts::Counts>,
    /// Those of streams.
    pub streams: SharedByName<stream_counts::Name, stream_counts::Counts>,
    /// Those of WebDAV.
    pub webdav: SharedByName<webdav_counts::Name, webdav_counts::Counts>,
}
