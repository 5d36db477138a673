//! The counts of one server, by the names that the configuration gives to what is counted. They are kept over
//! reloads. Metrics and the status page read them; they are in this crate because builds without a service
//! have its metrics too.

use crate::shared_by_name::Named;
use crate::{component_counts, crawler_counts, login_counts, stream_counts, webdav_counts};

/// The counts of a server.
#[derive(Default)]
pub struct ServiceCounts {
    /// Those of WebAssembly components.
    pub components: Named<component_counts::Name, component_counts::Counts>,
    /// Those of bots and of visitors that are checked.
    pub crawlers: Named<crawler_counts::Name, crawler_counts::Counts>,
    /// Those of logins.
    pub logins: Named<login_counts::Name, login_counts::Counts>,
    /// Those of streams.
    pub streams: Named<stream_counts::Name, stream_counts::Counts>,
    /// Those of WebDAV.
    pub webdav: Named<webdav_counts::Name, webdav_counts::Counts>,
}
