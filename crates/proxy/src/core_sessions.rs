//! The connections of a core to one origin that several requests share.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::http2_connection::Http2Connection;
use super::http3_connection::Http3Connection;
use super::origin::SharedOrigin;
use super::sessions::Sessions;
use touchstone_upstream::core_local::CoreLocal;

/// A core's shared connections to one origin.
#[derive(Default)]
pub struct CoreSessions {
    /// Connections of HTTP/2.
    pub http2: Sessions<Http2Connection>,
    /// Connections of HTTP/3.
    pub http3: Sessions<Http3Connection>,
}

thread_local! {
    static OF_CORE: CoreLocal<SharedOrigin, CoreSessions> = const { CoreLocal::new() };
}

impl CoreSessions {
    /// This core's connections to an origin. All groups share them.
    pub fn of_core(origin: &Arc<SharedOrigin>) -> Rc<CoreSessions> {
        OF_CORE.with(|sessions| sessions.get(origin, Rc::default))
    }

    /// See [`Sessions::close_idle`].
    pub fn close_idle(&self, keep_alive_timeout: Duration, is_current_address: impl Fn(SocketAddr) -> bool) {
        self.http2.close_idle(keep_alive_timeout, &is_current_address);
        self.http3.close_idle(keep_alive_timeout, &is_current_address);
    }
}
